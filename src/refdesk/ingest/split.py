"""Units that are never split and rules for what may share a chunk: sentences, rows, headings, captions. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import inf

from refdesk.text import CJK_CLASS, is_cjk, items, paragraph, rows
from refdesk.types import Block, Parsed, Range

# Where is a run of sentences best cut into chunks, and where a sentence that is too long for one?

CountTokens = Callable[[Sequence[str]], list[int]]

TOO_SMALL = 0.5  # added for a chunk under the minimum: as much as being 70 % off the target


def best_breaks(
    weights: Sequence[int],
    costs: Sequence[float],
    repeated: Sequence[int],
    *,
    target: int,
    minimum: int,
    room: int,
    can_drop: bool,
) -> list[int]:
    """Where each chunk ends, so that the sum of all costs is least; the last is always `len(weights)`.

    A chunk costs the squared distance of its tokens from the target, in targets, and `costs[j - 1]` for being cut
    after piece j - 1. `repeated[i]` tokens stand again at the start of a chunk that begins with piece i (overlap, a
    table's header); if `can_drop`, they are left out when there is no room for them. No chunk goes over `room`
    unless a single piece does. Dynamic programming over the pieces; the inner loop is as long as a chunk has pieces.

    >>> best_breaks([100, 100, 100, 100], [0, 0, 0, 0], [0, 0, 0, 0], target=200, minimum=60, room=250, can_drop=True)
    [2, 4]
    """
    count = len(weights)
    best = [0.0] + [inf] * count
    origin = [0] * (count + 1)
    for end in range(1, count + 1):
        size = 0
        cut = costs[end - 1] if end < count else 0.0
        for begin in range(end - 1, -1, -1):
            size += weights[begin]
            whole = size + repeated[begin]
            if whole > room:
                if size > room and begin < end - 1:
                    break
                if can_drop:
                    whole = size
                elif begin < end - 1:
                    continue
            distance = (whole - target) / target
            cost = best[begin] + distance * distance + cut
            if whole < minimum:
                cost += TOO_SMALL
            if cost < best[end]:
                best[end] = cost
                origin[end] = begin
    ends = [count]
    while origin[ends[-1]] > 0:
        ends.append(origin[ends[-1]])
    return ends[::-1]


# --- a sentence longer than a chunk ----------------------------------------------------------------------------------

# A word, a CJK letter, or 32 characters of something without spaces (base64, a table of dots).
_UNIT = re.compile(rf"[{CJK_CLASS}]\s*|[^\s{CJK_CLASS}]{{1,32}}\s*")
_CLAUSE = ";:,|，；：、،؛–—"
_CHARACTERS_PER_TOKEN = 8  # English has 4.5; WordPiece makes one [UNK] of a word of 50,000 characters


def weight(tokens: int, characters: int) -> int:
    """Tokens, or what so many characters count as when the tokeniser gives up on them.

    >>> weight(1, 50_000)
    6250
    """
    return max(tokens, 1, -(-characters // _CHARACTERS_PER_TOKEN))


def cut_long(texts: Sequence[str], sizes: Sequence[int], count_tokens: CountTokens) -> list[list[Range]]:
    """Cuts each text into pieces of at most `size` tokens: after a clause, else after a word, else anywhere.

    All words of all texts are counted in one batch. A piece keeps no white space around it.
    """
    units = [_units(text) for text in texts]
    words = [text[a:b].rstrip() for text, spans in zip(texts, units, strict=True) for a, b in spans]
    distinct = list(dict.fromkeys(words))
    counted = dict(zip(distinct, count_tokens(distinct), strict=True))
    pieces = []
    for text, spans, size in zip(texts, units, sizes, strict=True):
        weights = [weight(counted[text[a:b].rstrip()], b - a) for a, b in spans]
        pieces.append(_greedy(text, spans, weights, size))
    return pieces


def _units(text: str) -> list[Range]:
    """The smallest parts a text is cut into; an accent or a vowel sign stays with its letter (Thai has no spaces)."""
    units = []
    position = 0
    while match := _UNIT.match(text, position):
        end = match.end()
        while end < len(text) and not text[end - 1].isspace() and unicodedata.category(text[end])[0] == "M":
            end += 1
        units.append((position, end))
        position = end
    return units


def _greedy(text: str, units: Sequence[Range], weights: Sequence[int], size: int) -> list[Range]:
    pieces: list[Range] = []
    first = 0
    while first < len(units):
        total, last = weights[first], first + 1
        while last < len(units) and total + weights[last] <= size:
            total += weights[last]
            last += 1
        if last < len(units):
            last = _good_cut(text, units, first, last)
        start, end = units[first][0], units[last - 1][1]
        pieces.append((start, start + len(text[start:end].rstrip())))
        first = last
    return pieces


def _good_cut(text: str, units: Sequence[Range], first: int, last: int) -> int:
    """The last clause end in the second half of units first..last, else the last word end, else `last`."""
    for cut in range(last, first + (last - first) // 2, -1):
        start, end = units[cut - 1]
        if text[start:end].rstrip()[-1] in _CLAUSE:
            return cut
    for cut in range(last, first, -1):
        end = units[cut - 1][1]
        if text[end - 1].isspace() or is_cjk(text[end - 1]) or is_cjk(text[end]):
            return cut
    return last


def middle(text: str) -> int:
    """Where to halve a text of two characters or more: at the space nearest the middle, never before an accent."""
    half = len(text) // 2
    reach = max(1, len(text) // 4)
    for distance in range(reach):
        for position in (half - distance, half + distance):
            if 0 < position < len(text) and text[position - 1].isspace():
                return position
    while half > 1 and unicodedata.combining(text[half]):
        half -= 1
    return half


# Under which headings does a block stand, and which one line says so?

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
            stack.append((level, shorten(" ".join(text.split()), LONGEST_HEADING)))
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


def tokens_of_parts(title: str, sections: Sequence[Section], count_tokens: CountTokens) -> dict[str, int]:
    """The tokens of the title and of every heading, counted in one batch."""
    headings = (heading for section in sections for heading in section.path)
    parts = list(dict.fromkeys([" ".join(title.split()), *headings]))
    return dict(zip(parts, count_tokens(parts), strict=True))


def _fit(text: str, tokens: int, limit: int) -> tuple[str, int]:
    """Cuts `text` of `tokens` tokens to about `limit`, by the share of its characters."""
    return shorten(text, max(1, len(text) * limit // max(1, tokens))), limit


def shorten(text: str, length: int) -> str:
    """The first words of `text`, at most `length` characters, with an ellipsis when something is left out."""
    if len(text) <= length:
        return text
    cut = text[: length - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut else cut).rstrip(" ,;:|") + "…"


def _common(left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
    return tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


LONGEST_CAPTION = 60  # tokens; a longer paragraph is not a caption
LONGEST_REMARK = 30  # tokens; "(Unaudited)" above a table or "See the accompanying notes." below is no chunk of its own

CUT_ITEM, CUT_SENTENCE, CUT_INTRODUCTION, CUT_PIECE, CUT_CAPTION, CUT_HEADING = 0.03, 0.1, 0.5, 2.0, 3.0, 4.0

_NAMES = (
    r"table|figure|fig\.?|exhibit|chart|listing|plate|scheme|graph|tabelle|abbildung|abb\.?|tableau|tabla|cuadro|figura"
)
_CAPTION = re.compile(rf"(?:{_NAMES})\s*[\dIVXA-Z]|[表图圖図]\s*\d", re.IGNORECASE)
_NOTE = re.compile(r"(?:sources?|notes?|quelle|fuente)\s*[:.]|\(\w{1,2}\)\s|[*†‡]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Atom:
    """What is never cut: a sentence, a row, a heading, or a piece of a sentence too long for a chunk."""

    start: int
    end: int
    tokens: int
    block: int
    cut: float  # what a cut after it costs
    is_whole: bool = True


# --- atoms -----------------------------------------------------------------------------------------------------------


def ranges_of(block: Block, text: str) -> list[Range]:
    """The ranges inside a block's text that are cited and never cut: its sentences, rows or items."""
    if block.kind == "heading":
        stripped = text.strip()
        start = text.find(stripped)
        return [(start, start + len(stripped))] if stripped else []
    if block.kind in ("table", "code", "toc"):
        return rows(text)
    return items(text) if block.kind in ("list", "glossary") else paragraph(text)


def atoms_of(parsed: Parsed, count_tokens: CountTokens) -> list[list[Atom]]:
    """The atoms of each block, all counted in one batch."""
    ranges = [ranges_of(block, parsed.text[block.start : block.end]) for block in parsed.blocks]
    texts = [
        parsed.text[block.start + start : block.start + end]
        for block, found in zip(parsed.blocks, ranges, strict=True)
        for start, end in found
    ]
    counts = iter(count_tokens(texts))
    atoms: list[list[Atom]] = []
    for index, (block, found) in enumerate(zip(parsed.blocks, ranges, strict=True)):
        inside = {"table": 0.0, "list": CUT_ITEM, "toc": CUT_ITEM}.get(block.kind, CUT_SENTENCE)
        atoms.append(
            [Atom(block.start + a, block.start + b, weight(next(counts), b - a), index, inside) for a, b in found]
        )
        if not found:
            continue
        last = atoms[-1][-1]
        ends_open = parsed.text[last.end - 1] in ":："
        cut = CUT_HEADING if block.kind == "heading" else CUT_INTRODUCTION if ends_open else 0.0
        atoms[-1][-1] = replace(last, cut=cut)
        if block.header:
            atoms[-1][:] = [
                replace(atom, cut=CUT_CAPTION) if atom.end <= block.header[1] else atom for atom in atoms[-1]
            ]
    return atoms


def cut_long_atoms(
    text: str,
    sections: Sequence[Section],
    atoms: list[list[Atom]],
    rooms: Sequence[int],
    target: int,
    count_tokens: CountTokens,
) -> None:
    """Replaces each atom that fits in no chunk by pieces of about the target size."""
    long = [
        (block, atom, min(room, target))
        for section, room in zip(sections, rooms, strict=True)
        for block in section.blocks
        for atom in atoms[block]
        if atom.tokens > room
    ]
    if not long:
        return
    pieces = cut_long([text[atom.start : atom.end] for _, atom, _ in long], [size for *_, size in long], count_tokens)
    texts = [
        text[a.start + low : a.start + high] for (_, a, _), cuts in zip(long, pieces, strict=True) for low, high in cuts
    ]
    counts = iter(count_tokens(texts))
    parts: dict[int, list[Atom]] = {}
    for (block, atom, _), cuts in zip(long, pieces, strict=True):
        made = [
            Atom(atom.start + low, atom.start + high, weight(next(counts), high - low), block, CUT_PIECE, False)
            for low, high in cuts
        ]
        made[-1] = replace(made[-1], cut=atom.cut)
        parts[atom.start] = made
    for block in {block for block, *_ in long}:
        atoms[block] = [part for atom in atoms[block] for part in parts.get(atom.start, [atom])]


# --- groups: what may share a chunk ----------------------------------------------------------------------------------


def groups_of(
    parsed: Parsed, section: Section, atoms: Sequence[Sequence[Atom]], minimum: int
) -> list[tuple[list[Atom], Range | None]]:
    """The section's runs of text and its standing-alone blocks, each with the header row it repeats."""
    groups: list[list[int]] = []
    pending: list[int] = []
    queue = list(section.blocks)
    position = 0
    while position < len(queue):
        index = queue[position]
        position += 1
        if not _stands_alone(parsed.blocks[index], atoms[index], minimum):
            pending.append(index)
            continue
        group = [index]
        has_caption = bool(pending) and _is_caption(parsed, pending[-1], atoms, before=True)
        if has_caption:
            group.insert(0, pending.pop())
        if _is_remark(parsed, pending, atoms):
            group, pending = pending + group, []
        while position < len(queue) and _is_caption(parsed, queue[position], atoms, before=False, notes=has_caption):
            group.append(queue[position])
            position += 1
            has_caption = True
        groups.extend([pending, group] if pending else [group])
        pending = []
    if groups and _is_remark(parsed, pending, atoms) and parsed.blocks[pending[0]].kind != "heading":
        groups[-1].extend(pending)
    elif pending:
        groups.append(pending)
    return [_with_costs(parsed, group, atoms, minimum) for group in groups]


def _stands_alone(block: Block, atoms: Sequence[Atom], minimum: int) -> bool:
    if block.kind == "code":
        return sum(atom.tokens for atom in atoms) >= minimum
    return block.kind in ("table", "figure")


def _is_remark(parsed: Parsed, blocks: Sequence[int], atoms: Sequence[Sequence[Atom]]) -> bool:
    """Are these headings with no more than a few words of text, which belong to the table beside them?"""
    if not blocks or any(parsed.blocks[index].kind not in ("heading", "text") for index in blocks):
        return False
    return sum(a.tokens for i in blocks if parsed.blocks[i].kind == "text" for a in atoms[i]) <= LONGEST_REMARK


def _is_caption(
    parsed: Parsed, index: int, atoms: Sequence[Sequence[Atom]], *, before: bool, notes: bool = False
) -> bool:
    """Is this short paragraph about the table, figure or code beside it? (`notes`: a caption was already found.)"""
    block = parsed.blocks[index]
    kinds = ("text",) if before else ("text", "list")  # "(a) Restated" reads as a list
    if block.kind not in kinds or sum(atom.tokens for atom in atoms[index]) > LONGEST_CAPTION:
        return False
    text = parsed.text[block.start : block.end].strip()
    if before:
        return bool(_CAPTION.match(text)) or text.endswith((":", "："))
    return bool(_NOTE.match(text)) or (not notes and bool(_CAPTION.match(text)))


def _with_costs(
    parsed: Parsed, group: Sequence[int], atoms: Sequence[Sequence[Atom]], minimum: int
) -> tuple[list[Atom], Range | None]:
    """The atoms of a group, a caption tied to what it is about, and the header row to repeat."""
    flat: list[Atom] = []
    header = None
    alone = next((i for i in group if _stands_alone(parsed.blocks[i], atoms[i], minimum)), None)
    for index in group:
        block = parsed.blocks[index]
        if alone is not None and index < alone and block.kind != "heading" and atoms[index]:
            flat.extend([*atoms[index][:-1], replace(atoms[index][-1], cut=CUT_CAPTION)])
        else:
            flat.extend(atoms[index])
        header = block.header or header
    return flat, header
