"""Extracts the tables of a document: table blocks to cells with number, unit, scale, period and position."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from refdesk.parsers.build import CELL, is_number
from refdesk.periods import TablePeriod, label_period, length_at_end, period_from, read_period
from refdesk.records import MOST_CELLS, Column, ColumnHead, Measure, StoredTable
from refdesk.tables import (
    SCALE_PATTERN,
    cell_number,
    column_paths,
    head_rows,
    heads_anew,
    is_value,
    named_scale,
    unit_of,
    without_marks,
)
from refdesk.text import QUERY_STOP_WORDS, sentences, terms, words
from refdesk.types import Block, Chunk, Geometry, Page, Parsed, lines_of

_PER_WORD = re.compile(r"\bper\b", re.IGNORECASE)
_PER_SOMETHING = re.compile(r"\bper\s+\w+", re.IGNORECASE)
_EXCEPT = re.compile(r"\bexcept\b(?:\s+for)?([^).;:]+)", re.IGNORECASE)
_LISTED = re.compile(r",|\band\b|\bor\b", re.IGNORECASE)
_STATED = re.compile(r"\([^()]*\)|\bin\b[^.;:()]{0,40}", re.IGNORECASE)  # where a scale is said of what is shown
_SCALE_CLAUSE = re.compile(r"[(;:.]\s?")
Stems = frozenset[str]


def stems(text: str) -> Stems:
    return frozenset(terms(" ".join(word for word in words(text) if word not in QUERY_STOP_WORDS)))


def stated_scale(text: str) -> str:
    """The scale that a text states of the numbers below or beside it: in brackets, or after "in".

    >>> stated_scale("Net sales (millions)"), stated_scale("Millions of people"), stated_scale("$ in thousands")
    ('million', '', 'thousand')
    """
    return next((scale for match in _STATED.finditer(text) if (scale := named_scale(match.group()))), "")


@dataclass(frozen=True, slots=True)
class StatedScales:
    """What the caption and the head of a table say of the scale of its rows."""

    others: tuple[tuple[Stems, str], ...] = ()  # things that have a scale of their own, "" for none
    no_money: tuple[Stems, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.others or self.no_money)

    def scale(self, label: Stems) -> str | None:
        """Of a row that is one of the things; None: that of the table."""
        return next((scale for thing, scale in self.others if thing <= label), None)

    def has_money(self, label: Stems) -> bool:
        return not any(thing <= label for thing in self.no_money)


def stated_scales(text: str, labels: Iterable[str], *, is_own: bool) -> StatedScales:
    """`labels`: of the rows. In what is said of this very table, a word that none of them says tells nothing: "data".

    What is said of a whole part of a document (`is_own` is false) need not mean anything here: no row that speaks of
    warehouses is meant by "warehouse count".
    """
    if not (scales := [*re.finditer(SCALE_PATTERN, text, re.IGNORECASE)]):
        return StatedScales()
    excepted = _EXCEPT.findall(text)
    if not excepted and len(scales) < 2:
        return StatedScales()
    stated = frozenset(stem for label in labels for stem in stems(label))
    things = [item for part in excepted for item in _LISTED.split(part)]

    def meant(text: str) -> Stems:
        found = stems(text)
        return found & stated if is_own or found <= stated else frozenset()

    plain = [meant(_PER_SOMETHING.sub(" ", thing)) for thing in things]
    named = [meant(_PER_WORD.sub(" ", thing)) for thing in things]
    others = [
        (thing, named_scale(later.group()))
        for before, later in itertools.pairwise(scales)
        if (thing := meant(_SCALE_CLAUSE.split(text[before.end() : later.start()])[-1]))
    ]
    unscaled = [(thing, "") for thing in plain if thing and all(thing != other for other, _ in others)]
    return StatedScales((*others, *unscaled), tuple(thing for thing in named if thing))


class SectionScale:
    """What is stated for a part of a document: in a heading, or in a line above the first heading of that part."""

    def __init__(self) -> None:
        self.said = ""
        self._level = 0  # of the headings that end it
        self._line = ""  # the last text that states a scale
        self._above = 0  # the level of the last heading

    def heading(self, text: str, level: int) -> None:
        if self.said and level <= self._level:
            self.said = ""
        if self._line:
            self.said, self._level = self._line, min(self._above, level - 1)
        if stated_scale(text):
            self.said, self._level = text, level
        self._line, self._above = "", level

    def text(self, text: str) -> None:
        """A text whose end states a scale says it of what follows; "(in millions)" alone is the caption of a table."""
        end = text.rstrip(" :.")
        if "(" in end[1:] and end.endswith(")") and stated_scale(end[end.rfind("(") :]):
            self._line = text

    def table(self) -> None:
        """The text above was its caption."""
        self._line = ""


def scale_of_all(caption: str, head: Iterable[Sequence[str]]) -> str:
    """That of a whole table: said above it, in its corner or over all its columns, but not over one among others."""
    texts = [caption]
    for label, *others in head:
        texts += [label, *others] if len({*filter(None, others)}) == 1 else [label]
    return named_scale(" ".join(texts))


LONGEST_CAPTION = 300  # characters of the text above a table that may say what it is about
SHORT = 120  # characters of a block that is a line of a caption: a name, a period, "(in millions)"
MOST_HEAD = 20  # rows that are looked at for a head
_CLAUSE = re.compile(r"[.;:]\s")
_PER = re.compile(r"\bper\b(?!\s?cent)", re.IGNORECASE)
_FOUR_DIGITS, _YEAR = re.compile(r"\d{4,}"), re.compile(r"(?:19|20)\d\d")
_CENTS = re.compile(r"\.\d\d\b")

Cells = NDArray[np.int32]  # rows of (row, column, rows, columns, start, end), see `types.Cell`


@dataclass(frozen=True, slots=True)
class _TablePart:
    """A block that is a table, or goes on with the one before."""

    block: Block
    caption: str
    section_scale: str  # what its part of the document states of money, where the table itself states nothing
    cells: Cells
    row_count: int
    width: int
    head_rows: int
    head: tuple[tuple[str, ...], ...]  # its texts
    follows: bool  # nothing stands between it and the table before
    has_heading: bool  # since the table before


@dataclass(frozen=True, slots=True)
class _TableRow:
    """What the label of a row, or the section it stands in, says of its numbers."""

    unit: str = ""
    period: TablePeriod = field(default_factory=TablePeriod)
    scale: str | None = None  # None: that of its column
    is_per: bool = False  # "per share": a number with decimals, or of money, is not in thousands
    has_money: bool = True
    section: int = 0


def tables_of(parsed: Parsed) -> list[StoredTable]:
    """In reading order. A block of one column or one row is no table that a figure could be read from."""
    starts = np.array([page.start for page in parsed.pages], np.int64)
    found: list[StoredTable] = []
    for number, parts in enumerate(_together(_parts(parsed), starts), 1):
        page = max(int(np.searchsorted(starts, parts[0].block.start, side="right")), 1)
        number_of_page = parsed.pages[page - 1].number if parsed.pages else 1
        before = found[-1] if found and _is_rest(parts[0], found[-1], number_of_page) else None
        found.append(_table(parsed, parts, number, number_of_page, before))
    return found


def kept_tables(text: str, pages: Sequence[Page], chunks: Sequence[Chunk]) -> list[StoredTable]:
    """Those of a document of which only its text and its chunks are kept: rows are lines, cells are set apart in them.

    As good as what an earlier version wrote there: it has left out empty cells.
    """
    blocks: list[Block] = []
    path: tuple[str, ...] = ()
    for chunk in chunks:
        start = min((span.origin for span in chunk.spans), default=0)
        if chunk.heading_path != path and chunk.heading_path:
            at = text.rfind(chunk.heading_path[-1], 0, start + len(chunk.heading_path[-1]))
            blocks += [Block("heading", at, at + len(chunk.heading_path[-1]))] if at >= 0 else []
        path = chunk.heading_path
        for span in sorted(chunk.spans, key=lambda span: span.origin):
            end = span.origin + span.end - span.start
            for first, last, is_row in (
                _runs(text, span.origin, end) if chunk.kind == "table" else [(span.origin, end, False)]
            ):
                before = blocks[-1] if blocks else None
                if before and before.kind != "text" and before.start <= first:
                    # a heading, or the head of a table, which stands in each of its chunks
                    first = max(first, min(last, before.end))
                if is_row and before and before.kind == "table" and first - before.end <= 1:
                    blocks[-1] = replace(before, end=max(last, before.end))
                elif first < last:
                    blocks.append(Block("table" if is_row else "text", first, last))
    return tables_of(Parsed(text, tuple(pages), tuple(blocks), ""))


def _runs(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Lines of a chunk, and whether each is a row: what stands above a table is in its chunk too."""
    for line in text[start:end].split("\n"):
        if line.strip():
            yield start, start + len(line), CELL in line
        start += len(line) + 1


def _is_rest(part: _TablePart, before: StoredTable, page: int) -> bool:
    """A table without a head, close below one of as many columns: lines without numbers have cut a long one in two."""
    is_close = page == before.page and part.block.start - before.end <= LONGEST_CAPTION
    return not part.head_rows and part.width == before.column_count and is_close and not part.has_heading


def _parts(parsed: Parsed) -> Iterator[_TablePart]:
    heading = ""
    above: list[str] = []
    follows = has_heading = False
    section_scale = SectionScale()
    for block in parsed.blocks:
        text = parsed.text[block.start : block.end]
        if block.kind == "heading":
            heading, above, follows, has_heading = text, [], False, True
            section_scale.heading(text, block.level)
        elif block.kind != "table":
            above = [*(above if len(text) <= SHORT and not follows else ()), text]
            follows = False
            section_scale.text(text)
        else:
            section_scale.table()
            for table_block, between in _under_heads(parsed.text, block):
                caption = " ".join(filter(None, (heading, *above, *between)))
                part = _part(parsed.text, table_block, caption, section_scale.said)
                if part is not None:
                    yield replace(part, follows=follows and not between, has_heading=has_heading)
                    follows, has_heading = True, False


def _under_heads(text: str, block: Block) -> Iterator[tuple[Block, Sequence[str]]]:
    """The tables of a block, each with what the lines above its head say: one below another may be drawn as one.

    ["", "2022", "2021"], ["Cash", "5", "4"], ["Taxes were:", "", ""], ["", "2022", "2021", "2020"], ["Current", …]
    """
    cells = block.cells
    if cells is None or not len(cells) or len(cells) > MOST_CELLS:  # a sheet of records has one head
        yield block, ()
        return
    count, width = (cells[:, :2] + cells[:, 2:4]).max(axis=0).tolist()
    rows = _texts(text, cells, count, width)
    first, between = 0, list[str]()
    for last, head in _second_heads(rows):
        yield _rows_of(block, cells, first, last), between
        between = [" ".join(filter(None, dict.fromkeys(row))) for row in rows[last:head]]
        first = head
    yield (_rows_of(block, cells, first, count) if first else block), between


def _second_heads(rows: Sequence[Sequence[str]]) -> Iterator[tuple[int, int]]:
    """Where a table ends above another one, and where the head of that begins."""
    values = [any(is_value(cell) for cell in row[1:]) for row in rows]
    years: frozenset[int] = frozenset()
    last = 0  # the first row below the last values
    for number, row in enumerate(rows):
        if not any(values[:number]):
            years |= {time.year for cell in row[1:] if (time := label_period(cell)).year}
        elif heads_anew(row[0], row[1:], years) and _has_values_below(rows, values, number):
            head = number
            while head > last and not rows[head - 1][0] and any(rows[head - 1]):
                head -= 1
            yield last, head
        last = number + 1 if values[number] else last


def _has_values_below(rows: Sequence[Sequence[str]], values: Sequence[bool], number: int) -> bool:
    """Below most of the times in this row: years that are themselves what the rows are about have more years there."""
    below = next((rows[at] for at in range(number + 1, len(rows)) if values[at]), None)
    times = [column for column, cell in enumerate(rows[number]) if column and label_period(cell).year]
    return below is not None and 2 * sum(is_value(below[column]) for column in times) >= len(times)


def _rows_of(block: Block, cells: Cells, first: int, last: int) -> Block:
    """The part of a block that these rows are."""
    part_cells = cells[(cells[:, 0] >= first) & (cells[:, 0] < last)].copy()
    part_cells[:, 0] -= first
    part_cells[:, 2] = np.minimum(part_cells[:, 2], last - first - part_cells[:, 0])
    header = block.header if not first else None
    return replace(
        block, start=int(part_cells[:, 4].min()), end=int(part_cells[:, 5].max()), header=header, cells=part_cells
    )


def _part(text: str, block: Block, caption: str, section_scale: str) -> _TablePart | None:
    cells = _split(text, block) if block.cells is None else block.cells
    if not len(cells):
        return None
    count, width = (cells[:, :2] + cells[:, 2:4]).max(axis=0).tolist()
    if count < 2 or width < 2:
        return None
    cells = cells[cells[:, 5] > cells[:, 4]]
    top = _texts(text, cells[cells[:, 0] < MOST_HEAD], min(count, MOST_HEAD), width)
    head = head_rows(top)
    if block.header is not None:
        below = cells[cells[:, 4] >= block.header[1]]
        head = max(head, int(below[:, 0].min()) if len(below) else 0)
    above = _last_sentences(caption)
    head_texts = tuple(map(tuple, top[:head]))
    if stated_scale(caption) and not named_scale(above):  # in the beginning of a long sentence
        section_scale = caption
    return _TablePart(
        block, above, section_scale, cells, count, width, head, head_texts, follows=False, has_heading=True
    )


def _last_sentences(text: str) -> str:
    """The end of a caption that is as long as captions are, from the beginning of a sentence."""
    if len(text) <= LONGEST_CAPTION:
        return " ".join(text.split())
    begins = [start for start, end in sentences(text) if len(text) - start <= LONGEST_CAPTION]
    start = begins[0] if begins else text.find(" ", len(text) - LONGEST_CAPTION) + 1
    return " ".join(text[start:].split())


def _split(text: str, block: Block) -> Cells:
    """The cells of a table that is known by its lines alone."""
    cells = []
    begin = block.start
    for row, line in enumerate(text[block.start : block.end].split("\n")):
        at = begin
        for column, cell in enumerate(line.split(CELL)):
            cells.append((row, column, 1, 1, at, at + len(cell)))
            at += len(cell) + len(CELL)
        begin += len(line) + 1
    return np.array(cells, np.int32).reshape(-1, 6)


def _texts(text: str, cells: Cells, count: int, width: int) -> list[list[str]]:
    """Rows of equal length; a merged cell stands in each place that it covers, a label in its own."""
    found = [[""] * width for _ in range(count)]
    for row, column, rows, columns, start, end in cells.tolist():
        for under in range(row, min(row + rows, count)):
            for beside in range(column, column + columns if column else 1):
                found[under][beside] = text[start:end]
    return found


def _together(parts: Iterator[_TablePart], starts: NDArray[np.int64]) -> Iterator[list[_TablePart]]:
    """The parts of each table: one that goes on overleaf says its head again."""
    table: list[_TablePart] = []
    for part in parts:
        goes_on = (
            bool(table)
            and part.follows
            and bool(part.head)
            and (part.head, part.width) == (table[0].head, table[0].width)
            and _page(starts, part) != _page(starts, table[-1])
        )
        if table and not goes_on:
            yield table
            table = []
        table.append(part)
    if table:
        yield table


def _page(starts: NDArray[np.int64], part: _TablePart) -> int:
    return int(np.searchsorted(starts, part.block.start, side="right"))


def _table(
    parsed: Parsed, parts: Sequence[_TablePart], number: int, page: int, before: StoredTable | None
) -> StoredTable:
    """`before`: the table of which this is the rest; its head is this one's too."""
    text, first = parsed.text, parts[0]
    cells, row_count = _joined(parts)
    caption = " ".join([first.caption, *(cell for row in first.head for cell in row)])
    scale = scale_of_all(first.caption, first.head)
    section_scale = "" if scale else named_scale(first.section_scale)
    if before is not None:
        heads, scale = before.heads, before.scale
    else:
        paths, above_all = _paths(parsed, first), _CLAUSE.split(first.caption)[-1]
        corner = " ".join(paths[0]) if paths else ""
        heads = tuple(_head(path, scale, (corner, above_all)) for path in paths)
    rows = _rows(
        text, cells, row_count, first, first.section_scale if section_scale else caption, is_own=not section_scale
    )
    money = unit_of(first.caption)
    above = read_period(_CLAUSE.split(first.caption)[-1])
    columns = tuple(
        _column(
            text,
            column_cells,
            first.head_rows,
            head.measure,
            rows,
            Measure(
                "" if money == "%" else money, "" if _PER.search(" ".join(head.path)) else section_scale, str(above)
            ),
        )
        for head, column_cells in zip(heads, _by_column(cells, first.width), strict=True)
    )
    if not scale and any(measure.scale == section_scale for column in columns for measure in column.measures):
        scale = section_scale
    return StoredTable(
        number=number,
        page=page,
        start=first.block.start,
        end=parts[-1].block.end,
        caption=first.caption,
        head_rows=first.head_rows,
        row_count=row_count,
        scale=scale,
        heads=heads,
        cell_count=len(cells),
        columns=columns,
    )


def _by_column(cells: Cells, width: int) -> list[Cells]:
    """The cells of each column from top to bottom."""
    ordered = cells[np.lexsort((cells[:, 0], cells[:, 1]))]
    return np.split(ordered, np.searchsorted(ordered[:, 1], np.arange(1, width)))


def _paths(parsed: Parsed, part: _TablePart) -> tuple[tuple[str, ...], ...]:
    is_placed = part.block.cells is not None
    over = part.cells[(part.cells[:, 0] < part.head_rows) & (part.cells[:, 1] > 0)]
    if parsed.geometry is not None and part.head_rows > 1:
        return column_paths(part.head, part.width, is_placed=is_placed, middles=_middles(parsed.geometry, part, over))
    if is_placed and (over[:, 3] > 1).any():  # the format says what each of them spans
        columns = zip(*part.head, strict=True)
        return tuple(tuple(dict.fromkeys(filter(None, map(without_marks, column)))) for column in columns)
    return column_paths(part.head, part.width, is_placed=is_placed)


def _middles(geometry: Geometry, part: _TablePart, over: Cells) -> list[dict[int, float]]:
    """Where the texts of the head have their middles, in numbers of columns, as the page shows them."""
    body = part.cells[(part.cells[:, 0] >= part.head_rows) & (part.cells[:, 0] < part.head_rows + MOST_HEAD)]
    found: list[dict[int, float]] = [{} for _ in range(part.head_rows)]
    edges: dict[int, tuple[float, float]] = {}
    for (_, column, *_), lines in zip(body.tolist(), lines_of(geometry, body[:, 4:].tolist()), strict=True):
        for _, _, box in lines[:1]:
            left, right = edges.get(column, (box.x, box.x + box.width))
            edges[column] = min(left, box.x), max(right, box.x + box.width)
    known = sorted(column for column in edges if column)
    centres = [sum(edges[column]) / 2 for column in known]
    if len(known) < 2 or centres != sorted(centres):
        return found
    for (row, column, *_), lines in zip(over.tolist(), lines_of(geometry, over[:, 4:].tolist()), strict=True):
        for _, _, box in lines[:1]:
            found[row][column] = float(np.interp(box.x + box.width / 2, centres, known))
    return found


def _joined(parts: Sequence[_TablePart]) -> tuple[Cells, int]:
    """The cells of all parts under the first one's head, and how many rows there are."""
    found, count = [parts[0].cells], parts[0].row_count
    for part in parts[1:]:
        below = part.cells[part.cells[:, 0] >= part.head_rows].copy()
        below[:, 0] += count - part.head_rows
        found.append(below)
        count += part.row_count - part.head_rows
    return np.concatenate(found), count


def _head(path: tuple[str, ...], scale: str, above: Sequence[str]) -> ColumnHead:
    """`above`: what may say of which part of a year its columns are, in the corner of the table and over it."""
    heading = " ".join(path)
    own_scale = named_scale(heading) or ("" if _PER.search(heading) else scale)
    period = read_period(heading)
    if period == TablePeriod(period.year):  # "Years ended September 30" stands above 2019, 2018, 2017
        periods = (read_period(f"{text} {period.year or ''}").of_year(period.year) for text in above)
        period = next(filter(None, periods), period)
    elif period.end and not period.months:  # "Twelve Months Ended" stands above September 30, 2022 and 2021
        period = replace(period, months=next(filter(None, map(length_at_end, above)), 0))
    return ColumnHead(path, Measure(unit_of(heading), own_scale, str(period)))


def _rows(text: str, cells: Cells, count: int, first: _TablePart, heading: str, *, is_own: bool) -> list[_TableRow]:
    """What the label of each row says, the rows of the head included; `said` is what is stated of the whole table."""
    found = [_TableRow()] * count
    if len(cells) > MOST_CELLS:  # a sheet: what its rows are, and of which time, has columns of its own
        return found
    filled = np.bincount(cells[:, 0], minlength=count)
    labels = cells[(cells[:, 1] == 0) & (cells[:, 0] >= first.head_rows)].tolist()
    stated = stated_scales(heading, (text[start:end] for *_, start, end in labels), is_own=is_own)
    section, number = _TableRow(), 0
    for row, _, rows, _, start, end in labels:
        label = without_marks(text[start:end])
        own_stems = stems(label) if stated else frozenset()
        scale = stated_scale(label) or stated.scale(own_stems)
        table_row = _TableRow(
            unit_of(label),
            label_period(label).within(section.period),
            scale=section.scale if scale is None else scale,
            is_per=section.is_per or bool(_PER.search(label)),
            has_money=section.has_money and stated.has_money(own_stems),
            section=0 if stated else number,
        )
        if filled[row] == 1 and first.width > 2:
            number += 1
            table_row = section = replace(table_row, section=0 if stated else number, period=label_period(label))
        found[row : row + rows] = [table_row] * rows
    return found


@lru_cache(maxsize=4096)
def _said_together(column: TablePeriod, label: TablePeriod) -> str:
    return str(column.within(label))


def _column(text: str, cells: Cells, head: int, own: Measure, rows: Sequence[_TableRow], above: Measure) -> Column:
    """`above` is what the caption says of all numbers."""
    is_label = not len(cells) or int(cells[0, 1]) == 0
    texts: dict[str, int] = {}
    codes = np.array([texts.setdefault(text[start:end], len(texts)) for start, end in cells[:, 4:].tolist()], np.int32)
    shown = list(texts)
    values = [cell_number(text) if not is_label or is_number(text) else None for text in shown]
    numbers = np.array([np.nan if value is None else value for value in values], np.float64)[codes]
    numbers[cells[:, 0] < head] = np.nan
    measures: dict[Measure, int] = {Measure(): 0}
    measured = np.zeros(len(cells), np.int32)
    counted = np.flatnonzero(~np.isnan(numbers))
    for at, measure in zip(counted, _measures(shown, codes[counted], cells[counted, 0], own, rows, above), strict=True):
        measured[at] = measures.setdefault(measure, len(measures))
    return Column(
        rows=cells[:, 0].copy(),
        numbers=numbers,
        codes=codes,
        texts=tuple(texts),
        measured=measured,
        measures=tuple(measures),
        places=np.ascontiguousarray(cells[:, 2:]),
    )


def _measures(
    shown: Sequence[str],
    codes: NDArray[np.int32],
    numbers: NDArray[np.int32],
    own: Measure,
    rows: Sequence[_TableRow],
    above: Measure,
) -> Iterator[Measure]:
    """What each number of a column counts; money is mostly said at the first of a section.

    `above.scale` is what holds for the part of the document: for money, from its first sign in the column on, but for
    prices.
    """
    units = [unit_of(text) for text in shown]
    bare = [text for text in shown if _FOUR_DIGITS.fullmatch(text)]
    has_years = all(_YEAR.fullmatch(text) for text in bare)  # "expires in 2027": no thousands, and no dollars
    period = period_from(own.period)
    sign = ("", -1)  # of money, and the section in which it stands
    for row, code in zip(numbers.tolist(), codes.tolist(), strict=True):
        label, unit = rows[row], units[code]
        if has_years and _YEAR.fullmatch(shown[code]):
            yield Measure("", "", _said_together(period, label.period) or above.period)
            continue
        if unit and unit != "%":
            sign = unit, label.section
        is_rate = label.is_per and (unit or "." in shown[code])
        inherited = sign[0] if sign[1] == label.section else above.unit
        unit = unit or own.unit or label.unit or (inherited if label.has_money else "")
        scale = label.scale if label.scale is not None else own.scale
        if label.scale is None and sign[0] and not _CENTS.search(shown[code]):
            scale = own.scale or above.scale
        scale = "" if unit == "%" or is_rate else scale
        yield Measure(unit, scale, _said_together(period, label.period) or above.period)
