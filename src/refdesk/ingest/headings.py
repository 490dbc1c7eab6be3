"""Under which headings does a block stand, and which one line says so? Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from refdesk.types import Parsed

SEPARATOR = " › "
MOST_STRAYS = 2  # headings without text that go along with the section after them
LONGEST_HEADING = 200  # characters kept of a heading in a path; a longer one is a paragraph set in bold


@dataclass(frozen=True, slots=True)
class Section:
    """Consecutive blocks under one heading path; the headings themselves come first."""

    path: tuple[str, ...]
    blocks: tuple[int, ...]  # indices into Parsed.blocks
    is_merged: bool = False


def sections_of(parsed: Parsed) -> list[Section]:
    """The sections in reading order; a heading with nothing under it opens the section that follows.

    "1 Results", "1.1 Ablation", "We find …" -> one section with the path ("1 Results", "1.1 Ablation"). A heading
    left without text before one of its own level (a title set in two lines, an empty section) goes along too, for
    two words are no chunk; a long row of such headings does not.
    """
    sections: list[Section] = []
    stack: list[tuple[int, str]] = []
    path: tuple[str, ...] = ()
    current: list[int] = []
    has_body = False
    strays = 0
    for index, block in enumerate(parsed.blocks):
        text = parsed.text[block.start : block.end].strip()
        if not text:
            continue
        if block.kind == "heading":
            level = max(1, block.level)
            if current and not has_body and level <= stack[-1][0]:
                strays += 1
            if current and (has_body or strays > MOST_STRAYS):
                sections.append(Section(path, tuple(current)))
                current, strays = [], 0
            while stack and stack[-1][0] >= level:
                stack.pop()
            stack.append((level, _shorten(" ".join(text.split()), LONGEST_HEADING)))
            path = tuple(heading for _, heading in stack)
            has_body = False
        else:
            has_body = True
        current.append(index)
    if current:
        sections.append(Section(path, tuple(current)))
    return sections


def merge_small(sections: Sequence[Section], sizes: Sequence[int], *, minimum: int, ceiling: int) -> list[Section]:
    """Joins neighbouring sections that are each under `minimum` tokens, until together they reach it.

    Only siblings, or a parent and its child, are joined; the whole stands under what their paths have in common, with
    the headings inside the text. A section of one sentence has too few words to be found by; four slides in one
    chunk would blur them, so joining stops at the minimum. Nothing is joined to a section that is large enough alone.
    """
    merged: list[Section] = []
    size = 0
    for section, more in zip(sections, sizes, strict=True):
        last = merged[-1] if merged else None
        if last and size < minimum and more < minimum and size + more <= ceiling:
            path = _common(last.path, section.path)
            is_kin = len(path) >= max(len(last.path), len(section.path)) - 1
            if is_kin and (not last.is_merged or path == last.path):
                merged[-1] = Section(path, last.blocks + section.blocks, is_merged=True)
                size += more
                continue
        merged.append(section)
        size = more
    return merged


def context_line(title: str, path: Sequence[str], tokens: Mapping[str, int], limit: int) -> str:
    """Title › heading path in at most about `limit` tokens; a heading equal to the title is not repeated.

    Too long: headings go from the left, for the last one says most; the title stays, shortened to half the limit,
    because it is what tells one filing's chunk from another's (dense retrieval on filings depends on it).

    >>> context_line("Annual report", ("Annual report", "Costs"), {"Annual report": 2, "Costs": 1}, 40)
    'Annual report › Costs'
    """
    title = " ".join(title.split())
    headings = list(path)
    if headings and title and headings[0].casefold() == title.casefold():
        headings = headings[1:]
    title_tokens = tokens.get(title, 0) + 1 if title else 0
    if title and headings and title_tokens > limit // 2:
        title, title_tokens = _fit(title, title_tokens, limit // 2)
    elif title_tokens > limit:
        title, title_tokens = _fit(title, title_tokens, limit)
    kept: list[str] = []
    left = limit - title_tokens
    for heading in reversed(headings):
        size = tokens.get(heading, 1) + 1
        if size > left:
            if not kept:
                kept.append(_fit(heading, size, max(1, left))[0])
            break
        kept.append(heading)
        left -= size
    return SEPARATOR.join(part for part in [title, *reversed(kept)] if part)


def tokens_of_parts(
    title: str, sections: Sequence[Section], count_tokens: Callable[[Sequence[str]], list[int]]
) -> dict[str, int]:
    """The tokens of the title and of every heading, counted in one batch."""
    parts = list(
        dict.fromkeys([" ".join(title.split()), *(heading for section in sections for heading in section.path)])
    )
    return dict(zip(parts, count_tokens(parts), strict=True))


def _fit(text: str, tokens: int, limit: int) -> tuple[str, int]:
    """Cuts `text` of `tokens` tokens to about `limit`, by the share of its characters."""
    return _shorten(text, max(1, len(text) * limit // max(1, tokens))), limit


def _shorten(text: str, length: int) -> str:
    """The first words of `text`, at most `length` characters, with an ellipsis when something is left out."""
    if len(text) <= length:
        return text
    cut = text[: length - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut else cut).rstrip(" ,;:") + "…"


def _common(left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
    shared = []
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        shared.append(a)
    return tuple(shared)
