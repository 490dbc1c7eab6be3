"""Which lists stand in a passage: the items of each, in order, and what introduces them? Pure.

"Descaling", "It takes about 25 minutes.", "1. Switch it off.", "2. Empty the tank." -> one list of two items that is
introduced by "It takes about 25 minutes." under "Descaling".

A chunk keeps the lines and blank lines of its document, and an item begins a line with a bullet, a number or a letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from refdesk.types import Chunk

FEWEST = 2  # items
LONGEST_HEADING = 12  # words of a block that is a heading: nothing ends it
MOST_BETWEEN = 3  # sentences of a block that stands between two numbered items: the command that step 2 speaks of

MOST_REPEATED = 3  # sentences at the beginning of a chunk that end the one before

_BULLET = re.compile(r"[-*+•‣◦▪▫■□●○–—·➢✓✔➔]\s+")
# A number without a point is one of an item only where the next item has the next number.
_NUMBER = re.compile(r"(?:[Ss]tep\s+)?\(?(?P<number>\d{1,2})(?P<point>[.):]|(?=\s))\s*(?=\S)")
_LETTER = re.compile(r"\(?(?P<letter>[a-z])[.)]\s+")
_ENDS = ".!?…;。！？"


class Place(NamedTuple):
    """A sentence of a chunk; `chunk` is its place among the chunks that were looked at."""

    chunk: int
    sentence: int


class Mark(NamedTuple):
    """What an item begins with: its sort, and its number where it has one."""

    sort: str  # "bullet", "number", "letter"
    number: int = 0
    is_bare: bool = False  # a number without a point


@dataclass(frozen=True, slots=True)
class Listing:
    """One list: the sentences of each item, the heading that it stands under, and the sentence that introduces it."""

    items: tuple[tuple[Place, ...], ...]
    heading: Place | None
    lead: Place | None
    is_numbered: bool
    first: int = 1  # number of its first item


class _ListLine(NamedTuple):
    place: Place
    text: str
    begins_line: bool
    begins_block: bool


def listings(chunks: Sequence[Chunk]) -> list[Listing]:
    """The lists of neighbouring chunks of one document, in their order."""
    lines = list(_lines(chunks))
    found: list[Listing] = []
    heading: Place | None = None
    lead: Place | None = None
    at = 0
    while at < len(lines):
        line = lines[at]
        if line.begins_line and (mark := mark_of(line.text)) is not None:
            items, stop = _items(lines, at, mark)
            if len(items) >= FEWEST:
                found.append(Listing(tuple(items), heading, lead, mark.sort != "bullet", max(1, mark.number)))
                at, lead = stop, None
                continue
        if _is_heading(lines, at):
            heading, lead = line.place, None
        else:
            lead = line.place
        at += 1
    return found


def mark_of(text: str) -> Mark | None:
    """`2. Empty the tank.` -> a number, 2."""
    if _BULLET.match(text):
        return Mark("bullet")
    if found := _NUMBER.match(text):
        return Mark("number", int(found["number"]), is_bare=not found["point"])
    if found := _LETTER.match(text):
        return Mark("letter", ord(found["letter"]) - ord("a") + 1)
    return None


def _lines(chunks: Sequence[Chunk]) -> Iterator[_ListLine]:
    """Every sentence and how it is set off; what a chunk repeats of the one before is left out."""
    before: list[str] = []
    for number, chunk in enumerate(chunks):
        own = [chunk.text[start:end].strip() for start, end, *_ in chunk.sentences]
        repeated = next((size for size in range(MOST_REPEATED, 0, -1) if own[:size] == before[-size:]), 0)
        for place in range(repeated, len(own)):
            start = chunk.sentences[place].start
            between = chunk.text[chunk.sentences[place - 1].end : start] if place else "\n\n"
            begins_line = "\n" in between or chunk.kind == "list"
            yield _ListLine(Place(number, place), own[place], begins_line, between.count("\n") > 1)
        before = own


def _is_heading(lines: Sequence[_ListLine], at: int) -> bool:
    """A short block of its own that nothing ends, with another block below it."""
    line = lines[at]
    is_alone = line.begins_block and at + 1 < len(lines) and lines[at + 1].begins_block
    return is_alone and line.text[-1:] not in f"{_ENDS}:," and len(line.text.split()) <= LONGEST_HEADING


def _items(lines: Sequence[_ListLine], at: int, first: Mark) -> tuple[list[tuple[Place, ...]], int]:
    """The items from this line on, and where they end."""
    items: list[list[Place]] = []
    number = first.number
    while at < len(lines):
        line = lines[at]
        mark = mark_of(line.text) if line.begins_line else None
        if mark is not None and _follows(mark, first, number + len(items)):
            items.append([line.place])
        elif not line.begins_block and items and (mark is None or mark.sort != first.sort):
            items[-1].append(line.place)  # the item goes on, perhaps with a list of its own
        elif stop := _resumes(lines, at, first, number + len(items)):
            items[-1] += [one.place for one in lines[at:stop]]
            at = stop
            continue
        else:
            break
        at += 1
    return [tuple(item) for item in items], at


def _follows(mark: Mark, first: Mark, number: int) -> bool:
    """Is it the next item of the list that began so? Numbers and letters count on."""
    same = mark.sort == first.sort and mark.is_bare == first.is_bare
    return same and (mark.sort == "bullet" or mark.number == number)


def _resumes(lines: Sequence[_ListLine], at: int, first: Mark, number: int) -> int:
    """Where the list goes on behind a block that belongs to its last item; 0 where it does not."""
    if first.sort != "number" or first.is_bare:
        return 0
    for stop in range(at, min(at + MOST_BETWEEN + 1, len(lines))):
        line = lines[stop]
        mark = mark_of(line.text) if line.begins_line else None
        if mark is not None and _follows(mark, first, number):
            return stop
        if _is_heading(lines, stop):
            return 0
    return 0
