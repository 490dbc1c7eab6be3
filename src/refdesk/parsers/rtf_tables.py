"""The tables of a Rich Text document: which columns the cells of each row stand in, and which are merged. Pure."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from refdesk.parsers.build import Below, Beside

MAX_COLUMNS = 200  # of a table; edges of more say nothing about columns
NEAR = 30  # twentieths of a point: edges that lie as close are one
ROW_WORDS = (b"cellx", b"clvmrg", b"clmrg", b"trhdr")


@dataclass(slots=True)
class RowFormat:
    """Where each cell of a row ends, and whether it goes on with the one above or to the left of it."""

    edges: list[int] = field(default_factory=list)
    below: list[bool] = field(default_factory=list)
    beside: list[bool] = field(default_factory=list)
    is_header: bool = False
    merged: set[bytes] = field(default_factory=set)  # what was said of the next cell

    def learn(self, word: bytes, number: int) -> None:
        if word == b"trhdr":
            self.is_header = True
        elif word == b"cellx":
            self.edges.append(number)
            self.below.append(b"clvmrg" in self.merged)
            self.beside.append(b"clmrg" in self.merged)
            self.merged.clear()
        else:
            self.merged.add(word)


@dataclass(slots=True)
class Row:
    cells: list[list[str]]  # the paragraphs of each
    format: RowFormat


def grid(rows: list[Row]) -> list[list[str]]:
    """The cells in columns: a cell is as many columns wide as edges of other rows lie within it."""
    edges: list[int] = []
    for edge in sorted({edge for row in rows for edge in row.format.edges}):
        if not edges or edge > edges[-1] + NEAR:
            edges.append(edge)
    is_regular = len(edges) <= MAX_COLUMNS
    grid: list[list[str]] = []
    for row in rows:
        texts: list[str] = []
        is_told = is_regular and len(row.format.edges) >= len(row.cells)
        for number, cell in enumerate(row.cells):
            above = grid[-1] if grid else []
            if is_told and row.format.below[number]:
                texts.append(Below.of(above[len(texts)] if len(texts) < len(above) else ""))
            else:
                texts.append(Beside() if is_told and row.format.beside[number] else " ".join(cell))
            if is_told:
                texts.extend([Beside()] * (bisect_right(edges, row.format.edges[number]) - len(texts)))
        grid.append(texts)
    return grid
