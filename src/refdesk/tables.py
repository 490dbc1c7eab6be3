"""What does a table say? Rows of text -> the path of every row and column, and the number of every cell. Pure.

["", "Years Ended September 30,", ""]       column paths: "Years Ended September 30, › 2019", "… › 2018"
["", "2019", "2018"]
["Sales:", "", ""]                          a row without values is the section of those below it
["Fixed price", "$ 1,452.4", "(1,146.2)"]   row path "Sales: › Fixed price", numbers 1452.4 and -1146.2
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

Path = tuple[str, ...]
Rows = Sequence[Sequence[str]]

MOST_HEAD_ROWS = 5
_MONTHS = {name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}  # noqa: SIM905
_NUMBER = re.compile(
    r"^[\s~≈<>≤≥+]*(?P<open>\()?\s*(?P<minus>[-−–])?\s*(?P<money>[A-Z]{0,3}[$€£¥])?\s*(?P<open2>\()?(?P<minus2>[-−–])?\s*"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)\s*(?P<percent>%)?"
)
_TIME = re.compile(r"^\s*(?:(\d+):)?(\d{1,2}):(\d{2}(?:\.\d+)?)\b")
_YEAR = re.compile(r"^\D{0,12}(?:19|20)\d\d\D*$")
_DATE = re.compile(
    r"\b([A-Za-z]{3})[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?(?:,?\s+(\d{4}))?|\b(\d{1,2})\s+([A-Za-z]{3})[a-z]*\.?,?(?:\s+(\d{4}))?"
)
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b|\b(\d{1,2})/(\d{1,2})/(\d{4})\b")
# "in millions", "$m", "€ million", "£000", "USD ‘000", "(in thousands)"
_SCALE = re.compile(
    r"\b(?P<word>thousand|million|billion|trillion)s?\b|(?P<thousands>['’‘]000|[$€£]\s?000)\b|[$€£](?P<letter>k|m|mn|bn|b)\b",
    re.I,
)
_SCALE_LETTERS = {"k": "thousand", "m": "million", "mn": "million", "bn": "billion", "b": "billion"}
_MONEY = re.compile(r"US\s?\$|[$€£¥]|\b(?:USD|EUR|GBP|CHF|JPY)\b|\bdollars?\b|\beuros?\b", re.I)
SCALES = {"": 1.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}


def named_scale(text: str) -> str:
    """The scale that a caption, a head or a label names.

    >>> named_scale("(in millions, except per share)"), named_scale("2019 €m"), named_scale("USD ‘000")
    ('million', 'million', 'thousand')
    """
    match = _SCALE.search(text)
    if match is None:
        return ""
    if match["word"]:
        return match["word"].lower()
    return "thousand" if match["thousands"] else _SCALE_LETTERS[match["letter"].lower()]


@lru_cache(maxsize=65_536)
def cell_number(text: str) -> float | None:
    """The number that a cell begins with; one in brackets is negative.

    >>> cell_number("$ (1,146.2)"), cell_number("4.00%"), cell_number("n/a")
    (-1146.2, 4.0, None)
    """
    if timed := _TIME.match(text):
        hours, minutes, seconds = timed.groups()
        return int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds)
    match = _NUMBER.match(text)
    if match is None:
        return None
    number = float(match["digits"].replace(",", ""))
    negative = match["open"] or match["open2"] or match["minus"] or match["minus2"]
    return -number if negative else number


@lru_cache(maxsize=65_536)
def cell_date(text: str) -> float | None:
    """A day as a number that grows with time; without a year, within the year."""
    if match := _ISO.search(text):
        year, month, day, month2, day2, year2 = match.groups()
        return int(year or year2) * 372 + int(month or month2) * 31 + int(day or day2)
    for match in _DATE.finditer(text):
        name = (match[1] or match[5]).lower()
        if name in _MONTHS:
            return int(match[3] or match[6] or 0) * 372 + _MONTHS[name] * 31 + int(match[2] or match[4])
    return None


def is_value(text: str) -> bool:
    """A number that is no year: what stands below a head and not in it."""
    return cell_number(text) is not None and not _YEAR.match(text) and cell_date(text) is None


@dataclass(frozen=True, slots=True)
class Cell:
    """Characters `start..end` of the document's text; `row` and `column` count from 0, rows of the head included."""

    row: int
    column: int
    text: str
    number: float | None
    unit: str
    scale: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table of a document as it is kept: its place, what is said above it, and its cells."""

    number: int  # in the document, from 1
    page: int
    start: int
    end: int
    caption: str
    head_rows: int
    row_count: int
    column_count: int
    cells: tuple[Cell, ...]

    def grid(self) -> Grid:
        rows = [[""] * self.column_count for _ in range(self.row_count)]
        for cell in self.cells:
            rows[cell.row][cell.column] = cell.text
        return read_grid(rows, self.caption, self.head_rows)


def cell_unit(text: str, column: Sequence[str], label: str) -> str:
    """`%`, a sign of money, or nothing: as the cell says, else its column, else the label of its row."""
    for said in (text, " ".join(column), label):
        if "%" in said or "percent" in said.lower():
            return "%"
        if match := _MONEY.search(said):
            return match.group()
    return ""


@dataclass(frozen=True)
class Grid:
    """A table below its head: the path of every row and column, and the text of every cell."""

    caption: str
    columns: tuple[Path, ...]
    rows: tuple[Path, ...]
    texts: tuple[tuple[str, ...], ...]
    unit: str = ""
    scale: str = ""  # thousand, million, billion: of all numbers that have no other

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """Of every cell; NaN where there is none."""
        found = [[cell_number(text) for text in row] for row in self.texts]
        return np.array([[np.nan if number is None else number for number in row] for row in found], dtype=float)

    @property
    def width(self) -> int:
        return len(self.columns)

    def turned(self) -> Grid:
        """Columns as rows: "in which year was it largest" asks for a column."""
        first = self.columns[0] if self.columns else ()
        names = tuple(row for row in self.rows)
        texts = tuple(
            (" ".join(self.columns[column]), *(row[column] for row in self.texts)) for column in range(1, self.width)
        )
        return Grid(self.caption, (first, *names), self.columns[1:], texts, self.unit, self.scale)


def read_grid(rows: Rows, caption: str = "", head: int | None = None) -> Grid:
    """`head`: how many rows are the head, where the format tells."""
    width = max((len(row) for row in rows), default=0)
    filled = [[" ".join(cell.split()) for cell in row] + [""] * (width - len(row)) for row in rows]
    filled = [row for row in filled if any(row)]
    count = head_rows(filled) if head is None else head
    columns = column_paths(filled[:count], width)
    paths: list[Path] = []
    texts: list[tuple[str, ...]] = []
    section = ""
    for row in filled[count:]:
        if row[0] and not any(row[1:]) and width > 2:
            section = row[0]
            continue
        paths.append((section, row[0]) if section and not section.startswith(row[0]) else (row[0],))
        texts.append(tuple(row))
    above = " ".join([caption, *(cell for row in filled[:count] for cell in row)])
    return Grid(caption, columns, tuple(paths), tuple(texts), scale=named_scale(above))


def head_rows(rows: Rows) -> int:
    """Rows above the first that holds a value; one where no row or the first holds any."""
    for number, row in enumerate(rows[: MOST_HEAD_ROWS + 1]):
        if any(is_value(cell) for cell in row[1:]):
            return max(number, 0) if number else (1 if len(rows) > 1 and not row[0] else 0)
        if row[0] and number and not any(row[1:]) and any(any(above[1:]) for above in rows[:number]):
            return number  # the first section begins
    return 1


def column_paths(head: Rows, width: int) -> tuple[Path, ...]:
    """Texts of the head from top to bottom; one that spans several columns stands over each of them."""
    spread: list[list[str]] = []
    for number, row in enumerate(head):
        over = _in_place(row, width)
        own = [column for column, cell in enumerate(over) if cell and column]
        is_last = number == len(head) - 1
        if own and (not is_last or len(own) == 1):
            for column in range(1, width):
                if not over[column]:
                    before = [at for at in own if at < column]
                    over[column] = over[before[-1] if before else own[0]]
        spread.append(over)
    return tuple(tuple(dict.fromkeys(row[column] for row in spread if row[column])) for column in range(width))


def _in_place(row: Sequence[str], width: int) -> list[str]:
    """A row of the head over its columns: where fewer cells than columns were read, they stand over the last ones."""
    cells = list(row)
    last = max((column for column, cell in enumerate(cells) if cell), default=-1)
    if width > 2 and cells[0] and all(cells[: last + 1]) and last < width - 1:
        return [""] * (width - 1 - last) + cells[: last + 1]
    return cells
