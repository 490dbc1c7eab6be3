"""Lays out a quoted answer as running text, list items and table rows.

For eyes alone, in the page and in the terminal: the answer itself stays what the documents say, to the letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Literal

from refdesk.ask.wording import CELLS, cells, table_header
from refdesk.caller_desk import CallerDesk
from refdesk.types import Chunk, Range

ITEM = "- "  # what `ask/extract.py` puts before an item and before a row
HEADING = "## "  # what `ask/report.py` puts before the heading of a section


@dataclass(frozen=True, slots=True)
class Row:
    cells: tuple[str, ...]
    is_head: bool = False  # it names the columns of the rows after it


@dataclass(frozen=True, slots=True)
class Line:
    """Characters `start..end` of the content, and the numbers of the claims in them."""

    start: int
    end: int
    claims: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LineGroup:
    """Lines that are drawn as one: a text, a heading, a list, or a table, of which each line is one claim."""

    kind: Literal["text", "items", "rows", "heading"]
    lines: tuple[Line, ...]

    @property
    def start(self) -> int:
        return self.lines[0].start

    @property
    def end(self) -> int:
        return self.lines[-1].end

    @property
    def claims(self) -> tuple[int, ...]:
        return tuple(number for line in self.lines for number in line.claims)


# --- which claims are rows? ------------------------------------------------------------------------------------------


def rows_of(desk: CallerDesk, claims: Sequence[tuple[str, int]]) -> dict[int, Row]:
    """The rows among claims, by their numbers; each comes as its text and the id of the chunk that it is quoted from.

    A chunk that the caller may not read, or that is gone since, tells nothing: its rows are shown as items.
    """
    chunks = desk.chunks_by_id({chunk_id for text, chunk_id in claims if "|" in text})
    found = ((number, row_of(text, chunks.get(chunk_id))) for number, (text, chunk_id) in enumerate(claims))
    return {number: row for number, row in found if row is not None}


def row_of(text: str, chunk: Chunk | None) -> Row | None:
    """The cells of a row that is quoted on one line; None where the chunk is no table, or has no such row.

    "| Net | | Gross |" -> ("", "Net", "", "Gross", "")
    """
    if chunk is None or chunk.kind != "table":
        return None
    wanted = _bare(text)
    for number, sentence in enumerate(chunk.sentences):
        # An empty cell at the edge of a row has lost its space there.
        row = f" {chunk.text[sentence.start : sentence.end]} "
        if CELLS in row and _bare(row) == wanted:
            return Row(tuple(cells(row)), number < table_header(chunk).stop)
    return None


def _bare(text: str) -> str:
    """Without white space: "[ 1 ]" is how an answer writes the "[1]" of a document, which is no marker."""
    return "".join(text.split())


def as_table(rows: Sequence[Row]) -> tuple[list[Row], list[bool]]:
    """Rows without the columns that are empty in all of them, and of each column whether it is one of numbers.

    The first never is: it names the rows.
    """
    used = [place for place in range(len(rows[0].cells)) if any(row.cells[place] for row in rows)]
    kept = [replace(row, cells=tuple(row.cells[place] for place in used)) for row in rows]
    below = ["".join(row.cells[place] for row in kept if not row.is_head) for place in range(len(used))]
    return kept, [
        place > 0 and any(map(str.isdigit, text)) and not any(map(str.isalpha, text))
        for place, text in enumerate(below)
    ]


# --- what is drawn as one? -------------------------------------------------------------------------------------------


def laid_out(content: str, claims: Sequence[Range], rows: Mapping[int, Row]) -> list[LineGroup]:
    """The parts of a content in their order; `claims` are ranges of it, `rows` those of them that are rows.

    A dash counts where a claim follows it: within one it is the document's.
    """

    def kind(line: Line) -> Literal["text", "items", "rows", "heading"]:
        if not line.claims and content.startswith(HEADING, line.start):
            return "heading"
        first = claims[line.claims[0]][0] if line.claims else -1
        if first != line.start + len(ITEM) or not content.startswith(ITEM, line.start):
            return "text"
        return "rows" if len(line.claims) == 1 and line.claims[0] in rows else "items"

    parts: list[LineGroup] = []
    for name, group in groupby(_lines(content, claims), kind):
        lines = tuple(group)
        if name == "rows":
            parts += [LineGroup("rows", table) for table in _tables(lines, rows)]
        elif filled := [at for at, line in enumerate(lines) if content[line.start : line.end].strip()]:
            parts.append(LineGroup(name, lines[filled[0] : filled[-1] + 1]))
    return parts


def headings(content: str, part: LineGroup) -> list[str]:
    """The texts of the headings of a part."""
    return [content[line.start + len(HEADING) : line.end].strip() for line in part.lines]


def _lines(content: str, claims: Sequence[Range]) -> Iterator[Line]:
    """Lines end between claims, never within one; ranges that overlap or lie outside are left out."""
    start = done = 0
    claim_numbers: list[int] = []
    for number, (first, last) in [*enumerate(claims), (-1, (len(content), len(content) + 1))]:
        is_end = number < 0
        if not is_end and not done <= first < last <= len(content):
            continue
        while (at := content.find("\n", done, first)) >= 0:
            yield Line(start, at, tuple(claim_numbers))
            start = done = at + 1
            claim_numbers = []
        if not is_end:
            claim_numbers.append(number)
            done = last
    yield Line(start, len(content), tuple(claim_numbers))


def _tables(lines: Sequence[Line], rows: Mapping[int, Row]) -> list[tuple[Line, ...]]:
    """Rows that follow one another, parted where another head begins, or the number of columns changes.

    Each passage brings its head with it: one that says the same again is left out.
    """

    def head(table: Sequence[Line]) -> list[Row]:
        return [row for line in table if (row := rows[line.claims[0]]).is_head]

    def is_next(line: Line, table: Sequence[Line]) -> bool:
        row, last = rows[line.claims[0]], rows[table[-1].claims[0]]
        return len(row.cells) == len(last.cells) and (last.is_head or not row.is_head)

    parted: list[list[Line]] = []
    for line in lines:
        if not parted or not is_next(line, parted[-1]):
            parted.append([])
        parted[-1].append(line)
    joined: list[list[Line]] = []
    for table in parted:
        if joined and head(table) and head(table) == head(joined[-1]):
            joined[-1] += table[len(head(table)) :]
        else:
            joined.append(table)
    return [tuple(table) for table in joined]
