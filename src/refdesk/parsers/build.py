"""Shared by all parsers: their options, and the builder that writes items and tables into a `Parsed`. Pure."""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from refdesk.forms import form_parts
from refdesk.types import Attachment, Block, Kind, OcrEngine, Page, Parsed, Range

SEPARATOR = "\n\n"  # between blocks
CELL = " | "  # between the cells of a row
NUMBER = re.compile(r"^[\s($€£¥+−–-]*\d[\d\s.,'’/:%-]*+[)%a-z]{0,3}\s*+$", re.I)
# May name a column: "2022", "2nd", "21/20", "2021-2022", "1-3", "(000's)".
PERIOD = re.compile(
    r"(?:FY ?)?(?:19|20)\d\d(?:\s?[-–/]\s?(?:19|20)?\d\d)?|\d{1,2}(?:st|nd|rd|th)|\d\d/\d\d|\d{1,2}\s?[-–]\s?\d{1,2}"
    r"|\(?000['’]?s\)?",
    re.I,
)
DASHES = ("-", "–", "—", "n/a", "N/A")
MAX_PADDING = 50  # cells for each that is written: a title over fifty columns is as wide as tables get
MAX_REPEATED = 200  # characters of a value that stands again in each row its cell covers; a longer one is a text
MAX_HEADER_ROWS = 3
CAPTION = re.compile(r"(?:fig(?:ure|\.)?|abb(?:ildung|\.)?|figura|рис(?:унок|\.)?|図|图)\s*\d", re.I)
CAPTION_LEVEL = -1  # the level of a caption until its picture is found
FREE_CELLS = 10_000  # so small that nobody needs to count


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """Limits and helpers; `ocr` is None when refdesk[ocr] is not installed or OCR is switched off."""

    password: str | None = None
    ocr: OcrEngine | None = None
    progress: Callable[[int, int], None] = lambda done, total: None  # pages done, pages in all
    max_pages: int = 20_000
    max_characters: int = 100_000_000
    max_unpacked_bytes: int = 1 << 30  # of an archive (DOCX, XLSX, EPUB …)
    ocr_dpi: int = 150  # rapidocr reads .999 of the words of a dense page at 150


class Beside(str):
    """A place that a cell to the left of it covers; nothing is written there."""


class Below(str):
    """A place that a cell above it covers: the value again, for it belongs to each of its rows."""

    @classmethod
    def of(cls, text: str) -> Below:
        return cls(text if len(text) <= MAX_REPEATED else "")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; the first `header_rows` name the columns and are repeated in every chunk of the table.

    A merged cell has its text in its first place, `Beside` and `Below` in the others.
    """

    rows: Sequence[Sequence[str]]
    header_rows: int = 0

    @classmethod
    def of(cls, rows: Sequence[Sequence[str]], header_rows: int = 0) -> Table:
        """The rows without what is empty; the header is guessed where the file does not mark one."""
        tidy = tidy_rows(rows)
        return cls(tidy, header_rows or guess_header_rows(tidy))


@dataclass(frozen=True, slots=True)
class Item:
    """One block to be: a heading has a level, a table its rows, a figure may have an image (PNG)."""

    kind: Kind
    text: str = ""
    level: int = 0
    table: Table | None = None
    image: bytes | None = None


def one_line(text: str) -> str:
    return " ".join(text.split())


def contents_line(line: str) -> str:
    """A line of a table of contents, its page behind the tab.

    >>> contents_line("2 Costs \\t 14")
    '2 Costs … 14'
    """
    return " … ".join(map(str.strip, line.split("\t")))


def first_title(items: Iterable[Item]) -> str:
    """What a document without a title of its own is called: its first heading of level 1."""
    return next((item.text for item in items if item.kind == "heading" and item.level == 1), "")


def with_captions(items: list[Item]) -> list[Item]:
    """A picture and the caption below or above it become one figure; a picture that says nothing is left out.

    Captions are marked with a level of their own until here.
    """
    result: list[Item] = []
    waiting: Item | None = None  # a picture whose caption may follow
    for item in [*items, Item("text")]:
        if waiting is not None:
            if item.level == CAPTION_LEVEL and not re.match("table|tabelle", item.text, re.I):
                result.append(replace(waiting, text=item.text))
                waiting = None
                continue
            if result and result[-1].level == CAPTION_LEVEL and CAPTION.match(result[-1].text):
                result[-1] = replace(waiting, text=result[-1].text)
            elif waiting.text:
                result.append(waiting)
        waiting = item if item.kind == "figure" else None
        if waiting is None:
            result.append(item)
    return [replace(item, level=0) if item.level == CAPTION_LEVEL else item for item in result]


class Builder:
    """Collects pages and blocks in reading order, so that no parser counts characters itself.

    >>> builder = Builder()
    >>> builder.page(label="Costs")
    >>> builder.heading("Costs", level=1)
    >>> builder.table([["item", "price"], ["paper", "3"]], header_rows=1)
    >>> builder.build("xlsx").text
    'Costs\\n\\nitem | price\\npaper | 3'
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._blocks: list[Block] = []
        self._pages: list[tuple[int, str]] = []  # (start, label)
        self._figures: list[bytes] = []

    def page(self, label: str = "") -> None:
        """A new page begins with the next block."""
        self._pages.append((self._length + (len(SEPARATOR) if self._parts else 0), one_line(label)[:200]))

    def block(self, kind: Kind, text: str, *, level: int = 0, image: bytes | None = None) -> None:
        """Adds one block; blank text adds nothing."""
        text = text.strip("\n") if kind in ("code", "table") else text.strip()
        if not text.strip():
            return
        figure = None
        if image is not None:
            figure = len(self._figures)
            self._figures.append(image)
        self._append(kind, text, level=level, figure=figure)

    def heading(self, text: str, level: int) -> None:
        self.block("heading", one_line(text), level=max(1, level))

    def table(self, rows: Sequence[Sequence[str]], *, header_rows: int = 1) -> None:
        """A form that no row is said to head becomes a table of its pairs; what stands below it is another table."""
        rows = [row for row in rows if any(cell.strip() for cell in row)]
        parts = (
            []
            if header_rows
            else form_parts([["" if isinstance(cell, Below) else cell for cell in row] for row in rows])
        )
        if not parts:
            self._table(rows, header_rows)
        for places, is_form in parts:
            part = [[rows[row][column] for row, column in line] for line in places]
            self._table(part, 0 if is_form else guess_header_rows(part))

    def _table(self, rows: Sequence[Sequence[str]], header_rows: int) -> None:
        if not rows:
            return
        cells = array("i")
        lines: list[str] = []
        position = self._length + (len(SEPARATOR) if self._parts else 0)
        for number, row in enumerate(rows):
            texts = [one_line(cell) for cell in row]
            lines.append(CELL.join(texts))
            begin = position
            for column, text in enumerate(texts):
                if text and not isinstance(row[column], Below):
                    cells.extend((number, column, *_covered(rows, number, column), begin, begin + len(text)))
                begin += len(text) + len(CELL)
            position += len(lines[-1]) + 1
        header = len("\n".join(lines[:header_rows])) if 0 < header_rows < len(lines) else None
        self._append("table", "\n".join(lines), header=header, cells=np.array(cells, np.int32).reshape(-1, 6))

    def add(self, item: Item) -> None:
        if item.kind == "heading":
            self.heading(item.text, item.level)
        elif item.table is not None:
            self.table(item.table.rows, header_rows=item.table.header_rows)
        else:
            self.block(item.kind, item.text, image=item.image)

    def write(self, items: Sequence[Item], *, paged: bool = True) -> None:
        """Adds the items; with `paged`, every heading of level 1 that follows some text opens a page of that name.

        Headings in a row (a title and the first section) share a page, so that no page is a bare title.
        """
        has_content = False
        labelled = not paged
        for item in items:
            if paged and item.kind == "heading" and item.level == 1 and (has_content or not labelled):
                self.page(item.text)
                has_content, labelled = False, True
            elif not labelled:
                self.page()
                labelled = True
            self.add(item)
            has_content = has_content or item.kind != "heading"

    def build(
        self,
        format: str,
        *,
        title: str = "",
        metadata: Mapping[str, str] | None = None,
        children: Sequence[Attachment] = (),
        notes: Sequence[str] = (),
    ) -> Parsed:
        text = "".join(self._parts)
        starts = self._pages or [(0, "")]
        # The first page also owns what precedes it; a page without text is an empty range.
        begins = [0, *(min(start, len(text)) for start, _ in starts[1:])]
        ends = [*begins[1:], len(text)]
        pages = tuple(
            Page(number, begin, end, label=label)
            for number, (begin, end, (_, label)) in enumerate(zip(begins, ends, starts, strict=True), 1)
        )
        return Parsed(
            text,
            pages,
            tuple(self._blocks),
            format,
            title=one_line(title),
            metadata=dict(metadata or {}),
            figures=tuple(self._figures),
            children=tuple(children),
            notes=tuple(notes),
        )

    def _append(
        self,
        kind: Kind,
        text: str,
        *,
        level: int = 0,
        header: int | None = None,
        figure: int | None = None,
        cells: NDArray[np.int32] | None = None,
    ) -> None:
        if self._parts:
            self._parts.append(SEPARATOR)
            self._length += len(SEPARATOR)
        start = self._length
        self._parts.append(text)
        self._length += len(text)
        columns: Range | None = None if header is None else (start, start + header)
        self._blocks.append(Block(kind, start, self._length, level, columns, figure, cells))


def contents(format: str, names: Iterable[str], children: Sequence[Attachment], notes: Sequence[str] = ()) -> Parsed:
    """A file that only holds others: a list of what they are called, each of them a document of its own."""
    builder = Builder()
    builder.block("list", "\n".join(f"- {name}" for name in names))
    return builder.build(format, children=children, notes=notes)


def _covered(rows: Sequence[Sequence[str]], row: int, column: int) -> tuple[int, int]:
    """How many rows and columns the cell at this place covers."""
    right, under = column + 1, row + 1
    while right < len(rows[row]) and isinstance(rows[row][right], Beside):
        right += 1
    while under < len(rows) and column < len(rows[under]) and isinstance(rows[under][column], Below):
        under += 1
    return under - row, right - column


def tidy_rows(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows without the empty ones and without columns that are empty in all of them."""
    stripped = ([cell if isinstance(cell, Beside | Below) else cell.strip() for cell in row] for row in rows)
    kept = [row for row in stripped if any(cell and not isinstance(cell, Below) for cell in row)]
    width = max(map(len, kept), default=0)
    used = sorted({column for row in kept for column, cell in enumerate(row) if cell})
    if len(used) == width and all(len(row) == width for row in kept):
        return kept
    if len(kept) * len(used) > padding(sum(map(len, kept))):
        # One very wide row among many short ones: filling them all up would take the product of both.
        return [row[: 1 + max(column for column, cell in enumerate(row) if cell)] for row in kept]
    return [[row[column] if column < len(row) else "" for column in used] for row in kept]


def join_signs(rows: list[list[str]]) -> list[list[str]]:
    """Signs that filings put into cells of their own go back to their number: "$", "5", ")" -> "$5)".

    The number's cell keeps its place, so that columns stay columns.
    """
    for row in rows:
        for column, cell in enumerate(row):
            if cell in ("$", "€", "£", "¥", "(", "($", "$("):
                following = next((c for c in range(column + 1, min(column + 4, len(row))) if row[c]), None)
                if following is not None and re.match(r"[\d(.,—–-]", row[following]):
                    row[following], row[column] = cell + row[following], ""
            elif cell in (")", "%", ")%", "%)", "pts", "pt"):
                before = next((c for c in range(column - 1, max(column - 4, -1), -1) if row[c]), None)
                if before is not None and re.fullmatch(r"[$€£¥(]*-?[\d.,]+", row[before]):
                    row[before], row[column] = row[before] + cell, ""
    return rows


def join_columns(rows: list[list[str]]) -> list[list[str]]:
    """A header that stands one column beside its numbers, as filings lay them out, goes above them.

    >>> join_columns([["", "2021", ""], ["Sales", "", "$5"]])
    [['', '2021'], ['Sales', '$5']]
    """
    if any(len(row) != len(rows[0]) for row in rows):  # too wide to be filled up: there are no columns to join
        return rows
    filled: list[set[int]] = [set() for _ in (rows[0] if rows else ())]
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            if cell:
                filled[column].add(number)
    dropped: set[int] = set()
    right = len(filled) - 1
    for left in range(len(filled) - 2, 0, -1):  # from the right, so that a header does not go to the labels before it
        apart = filled[left] and filled[right] and max(filled[left]) < min(filled[right])
        if apart and max(filled[left]) <= MAX_HEADER_ROWS:
            for row in rows:
                row[left] = row[left] or row[right]
            filled[left] |= filled[right]
            dropped.add(right)
        right = left
    return [[cell for column, cell in enumerate(row) if column not in dropped] for row in rows]


def padding(cells: int) -> int:
    """How many empty cells may fill up the rows of a table of so many written ones: a file can claim billions."""
    return MAX_PADDING * cells + FREE_CELLS


def guess_header_rows(rows: Sequence[Sequence[str]]) -> int:
    """1 when the first row names the columns, 0 when it is data like the rest.

    >>> guess_header_rows([["item", "price"], ["paper", "3"]])
    1
    >>> guess_header_rows([["2021", "14"], ["2022", "15"]])
    0
    >>> guess_header_rows([["Supplier", "Nordlager"], ["Order date", "3 March 2025"], ["Contact", "Eva Holm"]])
    0
    """
    if len(rows) < 2 or len(rows[0]) < 2 or form_parts(rows):
        return 0
    named = [cell.strip() for cell in rows[0] if cell.strip()]
    if not named or max(map(len, named)) > 200:
        return 0
    numbers = [cell for cell in named if is_number(cell)]
    # Years name columns ("item | 2021 | 2022"), unless the whole row is years.
    return 1 if all(PERIOD.fullmatch(cell) for cell in numbers) and len(numbers) < len(named) else 0


def is_value(cell: str) -> bool:
    """A number that is data; a year or "3rd" may as well be the name of a column."""
    return is_number(cell) and PERIOD.fullmatch(cell.strip()) is None


def is_number(cell: str) -> bool:
    """A number as tables write it, also "(12)", "$5", "3 %" and the dash that stands for nothing."""
    return len(cell) < 40 and (cell.strip() in DASHES or NUMBER.match(cell) is not None)
