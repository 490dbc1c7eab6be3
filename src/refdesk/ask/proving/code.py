"""Which parts of a Markdown text are code? Pure.

Where readers may differ this says "text": brackets in text are checked, those in code are not. So a span is opened by
one or two back-ticks, closes on its line with as many, within a bound, and holds no border of a table cell and no
longer run; a fence is indented by three spaces at most.
"""

from __future__ import annotations

import re

from refdesk.text import Range

LONGEST = 200  # characters of a span
FENCE = re.compile(r" {0,3}(`{3,}|~{3,})[^`\n]*(?:\n|\Z)")
_RUN = re.compile("`+")


def closes_fence(line: str, fence: str) -> bool:
    bare = line.strip()
    is_fence = bool(bare) and set(bare) == {fence[0]} and len(bare) >= len(fence)
    return is_fence and len(line) - len(line.lstrip(" ")) < 4


def span_end(line: str, start: int, *, ended: bool = True) -> int:
    """Where the span that opens at `start` ends; 0 when it is none, -1 when more of the line may tell.

    >>> span_end("`a` b", 0), span_end("`a b", 0), span_end("`a", 0, ended=False)
    (3, 0, -1)
    """
    run = run_length(line, start)
    limit = start + LONGEST
    if start + run == len(line) and not ended:
        return -1
    if run > 2:
        return 0
    for match in _RUN.finditer(line, start + run, limit):
        whole = match.end() < min(len(line), limit) or (ended and match.end() == len(line))
        if not whole:
            break
        if len(match.group()) > 2:
            return 0
        if len(match.group()) == run:
            return 0 if "|" in line[start : match.end()] else match.end()
    return -1 if not ended and len(line) < limit else 0


def run_length(line: str, start: int) -> int:
    run = _RUN.match(line, start)
    return len(run.group()) if run else 0


def code_ranges(text: str) -> list[Range]:
    """The fenced blocks and code spans of a text.

    >>> code_ranges("a `b` c")
    [(2, 5)]
    """
    found: list[Range] = []
    fence, opened, position = "", 0, 0
    for line in text.split("\n"):
        stop = min(position + len(line) + 1, len(text))
        if fence:
            if closes_fence(line, fence):
                found.append((opened, stop))
                fence = ""
        elif border := FENCE.match(line):
            fence, opened = border[1], position
        else:
            found += [(position + start, position + end) for start, end in _spans(line)]
        position = stop
    return [*found, (opened, len(text))] if fence else found


def _spans(line: str) -> list[Range]:
    found, place = [], 0
    while place < len(line):
        if line[place] == "\\":
            place += 2
        elif line[place] == "`":
            end = span_end(line, place)
            if end:
                found.append((place, end))
                place = end
            else:
                place += run_length(line, place)
        else:
            place += 1
    return found


def outside_code(text: str) -> str:
    """The text with its code blanked out, so that places stay."""
    for start, end in code_ranges(text):
        text = text[:start] + " " * (end - start) + text[end:]
    return text
