"""Builds a `Parsed` block by block, so that no parser counts characters itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from refdesk.types import Attachment, Block, Kind, OcrEngine, OcrLine, Page, Parsed, Range

SEPARATOR = "\n\n"  # between blocks
CELL = " | "  # between the cells of a row


class Builder:
    """Collects pages and blocks in reading order.

    >>> builder = Builder()
    >>> builder.page(label="Costs")
    >>> builder.heading("Costs", level=1)
    >>> builder.table([["item", "price"], ["paper", "3"]])
    >>> builder.build("xlsx").text
    'Costs\\n\\nitem | price\\npaper | 3'
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._blocks: list[Block] = []
        self._pages: list[tuple[int, str]] = []  # (start, label)
        self._figures: list[bytes] = []

    def __len__(self) -> int:
        return self._length

    def page(self, label: str = "") -> None:
        """A new page begins with the next block."""
        self._pages.append((self._next_start(), label))

    def block(self, kind: Kind, text: str, *, level: int = 0, image: bytes | None = None) -> Range | None:
        """Adds one block and says where it stands; blank text adds nothing."""
        text = text.strip("\n") if kind in ("code", "table") else text.strip()
        if not text.strip():
            return None
        start = self._append(text)
        figure = None
        if image is not None:
            figure = len(self._figures)
            self._figures.append(image)
        self._blocks.append(Block(kind, start, start + len(text), level=level, figure=figure))
        return start, start + len(text)

    def heading(self, text: str, level: int) -> Range | None:
        return self.block("heading", " ".join(text.split()), level=max(1, level))

    def table(self, rows: Sequence[Sequence[str]], *, header_rows: int = 1) -> Range | None:
        """Adds rows of cells; the first `header_rows` are repeated in every chunk of the table."""
        lines = [CELL.join(" ".join(cell.split()) for cell in row) for row in rows if any(cell.strip() for cell in row)]
        if not lines:
            return None
        text = "\n".join(lines)
        start = self._append(text)
        header = None
        if 0 < header_rows < len(lines):
            header = (start, start + len("\n".join(lines[:header_rows])))
        self._blocks.append(Block("table", start, start + len(text), header=header))
        return start, start + len(text)

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
            title=" ".join(title.split()),
            metadata=dict(metadata or {}),
            figures=tuple(self._figures),
            children=tuple(children),
            notes=tuple(notes),
        )

    def _next_start(self) -> int:
        return self._length + (len(SEPARATOR) if self._parts else 0)

    def _append(self, text: str) -> int:
        if self._parts:
            self._parts.append(SEPARATOR)
            self._length += len(SEPARATOR)
        start = self._length
        self._parts.append(text)
        self._length += len(text)
        return start


# What documents without pages are made of: items in reading order, and how they become pages.

NUMBER = re.compile(r"^[\s($€£¥+−–-]*\d[\d\s.,'’/:%-]*+[)%a-z]{0,3}\s*+$", re.I)

YEAR = re.compile(r"(?:FY ?)?(?:19|20)\d\d", re.I)
MAX_PADDING = 50  # cells for each that is written: a title over fifty columns is as wide as tables get
FREE_CELLS = 10_000  # so small that nobody needs to count
DASHES = ("-", "–", "—", "n/a", "N/A")


@dataclass(frozen=True, slots=True)
class Item:
    """One block to be: a heading has a level, a table has rows, a figure may have an image (PNG)."""

    kind: Kind
    text: str = ""
    level: int = 0
    rows: Sequence[Sequence[str]] = field(default=())
    header_rows: int = 0
    image: bytes | None = None


def write(builder: Builder, items: Sequence[Item], *, paged: bool = True) -> None:
    """Adds the items; with `paged`, every heading of level 1 that follows some text opens a page of that name.

    Headings in a row (a title and the first section) share a page, so that no page is a bare title.
    """
    has_content = False
    labelled = not paged
    for item in items:
        if paged and item.kind == "heading" and item.level == 1 and (has_content or not labelled):
            builder.page(" ".join(item.text.split())[:200])
            has_content, labelled = False, True
        elif not labelled:
            builder.page()
            labelled = True
        add(builder, item)
        has_content = has_content or item.kind != "heading"


def add(builder: Builder, item: Item) -> None:
    if item.kind == "heading":
        builder.heading(item.text, item.level)
    elif item.kind == "table" and item.rows:
        builder.table(item.rows, header_rows=item.header_rows)
    else:
        builder.block(item.kind, item.text, image=item.image)


def tidy_rows(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Rows without the empty ones and without columns that are empty in all of them."""
    kept = [row for row in ([cell.strip() for cell in row] for row in rows) if any(row)]
    width = max(map(len, kept), default=0)
    used = sorted({column for row in kept for column, cell in enumerate(row) if cell})
    if len(used) == width and all(len(row) == width for row in kept):
        return kept
    if len(kept) * len(used) > MAX_PADDING * sum(map(len, kept)) + FREE_CELLS:
        # One very wide row among many short ones: filling them all up would take the product of both.
        return [_without_end(row) for row in kept]
    return [[row[column] if column < len(row) else "" for column in used] for row in kept]


def _without_end(row: list[str]) -> list[str]:
    """A row without the empty cells at its end."""
    filled = max(column for column, cell in enumerate(row) if cell)
    return row[: filled + 1]


def guess_header_rows(rows: Sequence[Sequence[str]]) -> int:
    """1 when the first row names the columns, 0 when it is data like the rest.

    >>> guess_header_rows([["item", "price"], ["paper", "3"]])
    1
    >>> guess_header_rows([["2021", "14"], ["2022", "15"]])
    0
    """
    if len(rows) < 2 or len(rows[0]) < 2:
        return 0
    named = [cell.strip() for cell in rows[0] if cell.strip()]
    if not named or max(map(len, named)) > 200:
        return 0
    numbers = [cell for cell in named if is_number(cell)]
    # Years name columns ("item | 2021 | 2022"), unless the whole row is years.
    return 1 if all(YEAR.fullmatch(cell) for cell in numbers) and len(numbers) < len(named) else 0


def is_value(cell: str) -> bool:
    """A number that is data; a year may as well be the name of a column."""
    return is_number(cell) and YEAR.fullmatch(cell.strip()) is None


def is_number(cell: str) -> bool:
    """A number as tables write it, also "(12)", "$5", "3 %" and the dash that stands for nothing."""
    return len(cell) < 40 and (cell.strip() in DASHES or NUMBER.match(cell) is not None)


# What a parser is told besides the bytes.

__all__ = ["OcrEngine", "OcrLine", "ParseOptions", "ignore_progress"]


def ignore_progress(done: int, total: int) -> None:
    """Nobody is watching."""


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """Limits and helpers; `ocr` is None when refdesk[ocr] is not installed or OCR is switched off."""

    password: str | None = None
    ocr: OcrEngine | None = None
    progress: Callable[[int, int], None] = ignore_progress  # pages done, pages in all
    max_pages: int = 20_000
    max_characters: int = 100_000_000
    max_unpacked_bytes: int = 1 << 30  # of an archive (DOCX, XLSX, EPUB …)
    ocr_dpi: int = 150  # rapidocr reads .999 of the words of a dense page at 150
