"""What stands on a sheet: its tables, their titles and notes, whatever kind of file it is from. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from refdesk.errors import TooLarge
from refdesk.parsers.build import (
    MAX_HEADER_ROWS,
    Below,
    Beside,
    Builder,
    ParseOptions,
    guess_header_rows,
    is_number,
    is_value,
    tidy_rows,
)

Row = tuple[int, dict[int, str]]  # (number of the row, text by number of the column), both from 1

ERRORS = frozenset(["#REF!", "#NAME?", "#NULL!"])  # say nothing to a reader
MAX_COLUMNS = 16_384  # those of a spreadsheet; the header row is repeated on every page, so its width counts often
MAX_CELLS = 20_000_000  # filled cells in one workbook
DEFAULT_NAME = re.compile(r"(?:Sheet|Tabelle|Feuil|Hoja|Foglio|Лист|Blad|Plan|シート)\s?\d*", re.I)


@dataclass(frozen=True, slots=True)
class Merge:
    """A rectangle of cells shown as one."""

    top: int
    left: int
    bottom: int
    right: int


class Sheet:
    """The filled cells of one sheet, gathered row by row; more than a reader could ask about are refused."""

    def __init__(self, options: ParseOptions) -> None:
        self.rows: list[Row] = []
        self.merges: list[Merge] = []
        self._cells = self._characters = 0
        self._max_characters = options.max_characters

    def add(self, number: int, texts: dict[int, str]) -> None:
        """The texts of a row by column; a row without any adds nothing."""
        if not texts:
            return
        self.rows.append((number, texts))
        self._cells += len(texts)
        self._characters += sum(map(len, texts.values()))
        if self._cells > MAX_CELLS or self._characters > self._max_characters:
            raise TooLarge(f"the workbook has more than {min(self._cells, MAX_CELLS):,} filled cells")

    def write(self, builder: Builder, name: str) -> None:
        """A page of that name with what stands on it; several tables are told apart by blank rows."""
        if not self.rows:
            return
        self.rows.sort(key=lambda row: row[0])
        self._fill_merged()
        builder.page(name)
        if not DEFAULT_NAME.fullmatch(name):
            builder.heading(name, 1)
        for region in _regions(self.rows):
            _write_region(builder, region, self.merges)

    def _fill_merged(self) -> None:
        """A value merged over several rows belongs to each of them; over several columns it is shown once."""
        numbers = [number for number, _ in self.rows]
        for merge in self.merges:
            first, last = bisect_left(numbers, merge.top), bisect_right(numbers, merge.bottom)
            if first < last and numbers[first] == merge.top and (text := self.rows[first][1].get(merge.left)):
                for _, texts in self.rows[first + 1 : last]:
                    texts.setdefault(merge.left, Below.of(text))


def _regions(rows: list[Row]) -> Iterator[list[Row]]:
    """Runs of rows without a blank row between them; one that only goes on after a gap is joined to its table."""
    region: list[Row] = []
    for row in rows:
        if region and row[0] > region[-1][0] + 1 and not _goes_on(region, row):
            yield region
            region = []
        region.append(row)
    if region:
        yield region


def _goes_on(region: list[Row], row: Row) -> bool:
    """Numbers after a blank row, where the table has not had any yet or has them in the same columns."""
    numbers = [column for column, text in row[1].items() if is_number(text)]
    if row[0] > region[-1][0] + 3 or len(row[1]) < 2 or len(numbers) * 2 < len(row[1]):
        return False
    if not any(is_value(text) for _, texts in region for text in texts.values()):
        return len(region[-1][1]) > 1 and len(region) <= MAX_HEADER_ROWS + 2  # so far only titles and a header
    return row[0] == region[-1][0] + 2 and len(region) > 2 and set(row[1]) <= set(region[0][1]) | set(region[-1][1])


def _write_region(builder: Builder, region: list[Row], merges: list[Merge]) -> None:
    """Lines above the table that fill a single cell are its titles; a region one column wide is text."""
    columns = sorted({column for _, texts in region for column in texts})
    if len(columns) == 1:
        lines = [texts[columns[0]] for _, texts in region]
        builder.block("text" if len(lines) <= 3 else "list", "\n".join(lines))
        return
    first, last = 0, len(region)
    while first < last - 1 and (text := _only_text(region[first])) and not is_number(text):
        if first == 0 and len(text) <= 80 and text[-1] not in ".:;":
            builder.heading(text, 2)
        else:
            builder.block("text", text)
        first += 1
    notes = _notes_above(region[first:last], columns, merges)
    for row in region[first : first + notes]:
        builder.block("text", " ".join(row[1].values()))
    first += notes
    while last - first > 2 and len(_only_text(region[last - 1])) > 60:  # notes below the table
        last -= 1
    body = region[first:last]
    beside = _side_by_side(body, columns, merges)
    if len(beside) > 1:
        for group in beside:
            group_rows = [
                (number, {column: texts[column] for column in group if column in texts}) for number, texts in body
            ]
            _write_region(builder, [row for row in group_rows if row[1]], merges)
        for row in region[last:]:
            builder.block("text", _only_text(row))
        return
    widths = {(merge.top, merge.left): merge.right for merge in merges if merge.right > merge.left}
    rows = tidy_rows([_in_places(row, columns, widths) for row in body])
    if len(rows[0]) == 1:
        builder.block("text", "\n".join(row[0] for row in rows))
    else:
        builder.table(rows, header_rows=_header_rows(rows))
    for row in region[last:]:
        builder.block("text", _only_text(row))


def _notes_above(rows: list[Row], columns: list[int], merges: list[Merge]) -> int:
    """How many rows above the one that names every column are notes: they begin in the column of the labels.

    Names over several columns leave that column free, or have a cell that goes down to the names below. What names
    columns stands right above a value.
    """
    head = next((place for place, row in enumerate(rows[: MAX_HEADER_ROWS + 1]) if len(row[1]) == len(columns)), 0)
    names, above = list(rows[head][1].values()), rows[:head]
    texts = [text for row in above for text in row[1].values()]
    if len(set(names)) < len(names) or any(map(is_value, (*names, *texts))):
        return 0
    if not any(is_value(text) for row in rows[head + 1 : head + 2] for text in row[1].values()):
        return 0
    notes = [place for place, (_, own) in enumerate(above) if own.get(columns[0], names[0]) != names[0]]
    is_merged = any(merge.top <= number <= merge.bottom for number, _ in above for merge in merges)
    return 0 if not notes or (is_merged and len(notes) < 2) else notes[-1] + 1


def _side_by_side(body: list[Row], columns: list[int], merges: list[Merge]) -> list[list[int]]:
    """The columns of each table of a region, where an empty column stands between tables with heads of their own.

    A table has a label in its first column; numbers beside an empty column belong to what is left of it.
    """
    groups: list[list[int]] = [[columns[0]]]
    for before, column in pairwise(columns):
        bridged = any(
            merge.left <= before and merge.right >= column and body[0][0] <= merge.top <= body[-1][0]
            for merge in merges
        )
        if column > before + 1 and not bridged:
            groups.append([])
        groups[-1].append(column)
    for group in groups:
        head = [body[0][1].get(column, "") for column in group]
        labels = [texts[group[0]] for _, texts in body[1:] if group[0] in texts]
        is_table = len(group) > 1 and all(head) and not any(map(is_value, head))
        if not is_table or 2 * sum(map(is_number, labels)) >= max(1, len(labels)):
            return [columns]
    return groups


def _only_text(row: Row) -> str:
    """The text of a row that fills a single cell, "" for others."""
    return next(iter(row[1].values())) if len(row[1]) == 1 else ""


def _in_places(row: Row, columns: list[int], widths: dict[tuple[int, int], int]) -> list[str]:
    """The texts of a row under all columns of its table; `widths` are the last columns of merged cells."""
    number, texts = row
    places: list[str] = []
    last = 0
    for column in columns:
        places.append(texts.get(column) or (Beside() if column <= last else ""))
        last = widths.get((number, column), last)
    return places


def _header_rows(rows: list[list[str]]) -> int:
    """More than one when the first row has merged or empty cells that the rows below it explain, up to the numbers."""
    count = guess_header_rows(rows)
    spanning = any(isinstance(cell, Beside) for cell in rows[0])
    if not count or not (spanning or sum(1 for cell in rows[0] if cell) < 0.6 * len(rows[0])):
        return count
    while count < min(MAX_HEADER_ROWS, len(rows)) and not any(is_value(cell) for cell in rows[count]):
        count += 1
    return count if count < len(rows) and any(is_value(cell) for cell in rows[count]) else 1
