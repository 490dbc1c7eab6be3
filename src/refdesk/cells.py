"""What is kept of a table? Its columns as arrays of cells, each with text, number, unit, scale, period and place.

A sheet has 100,000 rows, so that cells lie in arrays and become values of their own when they are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Path = tuple[str, ...]
MOST_CELLS = 5_000  # of a small table; a larger one is a sheet, which is looked at by column
LARGEST = 2_000_000  # cells of the sheets that are read for a question, all together: some 300 MB


class Measure(NamedTuple):
    """What a number counts: its unit (`%`, `$`), its scale (`million`), and its period (see `tables.py`)."""

    unit: str = ""
    scale: str = ""
    period: str = ""


class StoredCell(NamedTuple):
    """Characters `start..end` of the document's text; `row` and `column` count from 0, rows of the head included."""

    row: int
    column: int
    rows: int
    columns: int
    text: str
    number: float | None
    unit: str
    scale: str
    period: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """What the head says of a column: its texts from top to bottom, and what numbers below it count."""

    path: Path
    measure: Measure


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The cells of a column that hold something, from top to bottom, an entry for each in every array."""

    rows: NDArray[np.int32]  # the number of its row
    numbers: NDArray[np.float64]  # NaN: it begins with none
    codes: NDArray[np.int32]  # which of the texts
    texts: tuple[str, ...]  # each once
    measured: NDArray[np.int32]  # which of the measures
    measures: tuple[Measure, ...]  # each once
    places: NDArray[np.int32]  # (cells, 4): rows and columns that it covers, start, end; empty: not read

    def between(self, first_row: int, end: int) -> Column:
        """Those of rows from the first to before the last."""
        # Of another kind of number, all of the rows would be copied to compare them.
        start, stop = np.searchsorted(self.rows, np.array((first_row, end), self.rows.dtype)).tolist()
        part = slice(start, stop)
        rows, codes, places = self.rows[part], self.codes[part], self.places[part]
        return Column(rows, self.numbers[part], codes, self.texts, self.measured[part], self.measures, places)

    def of_rows(self, wanted: NDArray[np.int64]) -> Column:
        """Those of these rows that hold something, in the order of the rows."""
        at = np.searchsorted(self.rows, wanted.astype(self.rows.dtype))
        at = at[(at < len(self.rows)) & (self.rows[np.minimum(at, len(self.rows) - 1)] == wanted)] if len(at) else at
        places = self.places[at] if len(self.places) else self.places
        return Column(
            self.rows[at], self.numbers[at], self.codes[at], self.texts, self.measured[at], self.measures, places
        )

    def counted(self) -> tuple[set[Measure], int]:
        """What its numbers count, and how many decimals they are written with at most."""
        is_number = ~np.isnan(self.numbers)
        texts = (self.texts[code] for code in np.unique(self.codes[is_number]).tolist())
        decimals = max((len(text.partition(".")[2].rstrip(" %)")) for text in texts), default=0)
        return {self.measures[one] for one in np.unique(self.measured[is_number]).tolist()}, decimals

    def cells(self, column: int) -> list[StoredCell]:
        """As values; `column` is its number in the table."""
        numbers = [None if number != number else number for number in self.numbers.tolist()]
        return [
            StoredCell._make(
                (row, column, rows, columns, self.texts[code], number, *self.measures[measure], start, end)
            )
            for row, code, measure, number, (rows, columns, start, end) in zip(
                self.rows.tolist(),
                self.codes.tolist(),
                self.measured.tolist(),
                numbers,
                self.places.tolist(),
                strict=True,
            )
        ]


@dataclass(frozen=True, eq=False)
class StoredTable:
    """A table of a document: its place, what is said above it, what its head says, and its cells.

    Of one that is larger than what is read for a question there are the heads and no columns.
    """

    number: int  # in the document, from 1
    page: int  # on which it begins
    start: int
    end: int
    caption: str
    head_rows: int
    row_count: int
    scale: str  # of all numbers that have no other
    heads: tuple[ColumnHead, ...]
    cell_count: int
    columns: tuple[Column, ...] = ()
    id: int = 0  # given by the library
    document_id: str = ""

    @property
    def column_count(self) -> int:
        return len(self.heads)

    @property
    def is_loaded(self) -> bool:
        return len(self.columns) == len(self.heads)

    @cached_property
    def cells(self) -> tuple[StoredCell, ...]:
        """Row by row; none while its columns are not loaded."""
        return tuple(sorted(cell for number, column in enumerate(self.columns) for cell in column.cells(number)))

    @property
    def periods(self) -> tuple[str, ...]:
        """Those that its columns are of, each once."""
        return tuple(dict.fromkeys(head.measure.period for head in self.heads if head.measure.period))

    def to_dict(self) -> dict[str, Any]:
        """All but its cells."""
        plain = ("id", "document_id", "number", "page", "start", "end", "caption", "scale")
        return {name: getattr(self, name) for name in plain} | {
            "head_rows": self.head_rows,
            "row_count": self.row_count,
            "cell_count": self.cell_count,
            "columns": [{"path": list(head.path), **head.measure._asdict()} for head in self.heads],
        }

    def cells_from(self, first_row: int, most: int) -> tuple[list[StoredCell], int | None]:
        """The cells of whole rows from this one on, one row or `most` at most, and the row after; None: the table ends.

        Of a loaded table, however large: only those cells become values.
        """
        counts = np.zeros(self.row_count + 1, np.int64)
        for column in self.columns:
            counts[1:] += np.bincount(column.rows, minlength=self.row_count)[: self.row_count]
        before = np.cumsum(counts)
        first_row = min(first_row, self.row_count)
        end = int(np.searchsorted(before, before[first_row] + most, side="right")) - 1
        end = min(max(end, first_row + 1), self.row_count)
        cells = [
            cell for number, column in enumerate(self.columns) for cell in column.between(first_row, end).cells(number)
        ]
        return sorted(cells), end if end < self.row_count else None

    def at(self, places: Iterable[tuple[int, int]]) -> list[StoredCell]:
        """The cells at these rows and columns, as far as one begins there. However large the table is."""
        found = []
        for row, column in places:
            found += self.columns[column].between(row, row + 1).cells(column) if row >= 0 else []
        return found

    def some_rows(self, wanted: Sequence[int]) -> list[list[str]]:
        """These of its `rows`. However large the table is."""
        if self.cell_count <= MOST_CELLS:
            rows = self.rows()
            return [rows[row] for row in wanted]
        found = [[""] * self.column_count for _ in wanted]
        for number, column in enumerate(self.columns):
            for at, row in enumerate(wanted):
                covers = np.flatnonzero((column.rows <= row) & (column.rows + column.places[:, 0] > row))
                for cell in covers.tolist():
                    last = number + int(column.places[cell, 1]) if number else 1
                    text = column.texts[column.codes[cell]]
                    found[at][number:last] = [text] * (min(last, self.column_count) - number)
        return found

    def rows(self) -> list[list[str]]:
        """The texts as rows of equal length; a merged cell stands in each place that it covers.

        But for a label over values: it names its row, or the rows below it, and is no value.
        """
        found = [[""] * self.column_count for _ in range(self.row_count)]
        for cell in self.cells:
            last = cell.column + cell.columns if cell.column else 1
            for row in range(cell.row, min(cell.row + cell.rows, self.row_count)):
                for column in range(cell.column, min(last, self.column_count)):
                    found[row][column] = cell.text
        return found


def readable_tables(found: Sequence[StoredTable], most: int | None) -> list[StoredTable]:
    """Those whose cells are read where `most` are: see `TableStore.with_cells`."""
    if most is None:
        return list(found)
    left, readable = most, []
    for table in found:
        if table.cell_count <= min(MOST_CELLS, most):
            readable.append(table)
        elif table.cell_count <= left:
            readable.append(table)
            left -= table.cell_count
    return readable
