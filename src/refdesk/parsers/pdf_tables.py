"""Which rows of a page are a table? Borderless ones, from cells that align; `pdf_grids` has those inside of lines."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from math import inf
from statistics import median

from refdesk.parsers.build import DASHES, PERIOD, is_number, is_value
from refdesk.parsers.pdf_layout import Region, Row
from refdesk.parsers.pdf_page import CURRENCIES, Box4, WordRun, Words, text_of
from refdesk.tables import heads_anew, label_period


class CellRuns(list[WordRun]):
    """The lines of a cell, top to bottom; nothing where a row has none in this column."""

    rows = 1
    columns = 1  # that it covers


ALIGNED = 4.0  # points: cells of one column start, end or centre this close
MIN_ROWS = 3
MAX_HEADER_ROWS = 5
HEADS = 3  # rows between a cell over the number columns and the first label
FILLED = 0.33  # share of the places in a borderless table that are not empty
_MARKER = re.compile(r"^([•●○▪■◦‣⁃∙·*–—\-o➢✓§]|\(?[a-zA-Z0-9]{1,3}[.)]|\([ivxIVX]+\)|\[\d+\]|\(\s?[^\w\s]\s?\))$")
_LEADER = re.compile(r"^[.·…_ ]{3,}$")
_ENTRY = re.compile(r"(?<![.·…_])(?<![.·…_]\s)(?:\s?[.·…_]){5,}\s*\d{1,4}$")  # "Metric spaces . . . . . . 12"
_OPENERS = frozenset("$€£¥(") | {"$(", "US$"}
_CLOSERS = frozenset({")", "%", ")%", "pp", "bps", "x", "*", "(1)", "(2)", "(a)", "(b)"})


@dataclass(slots=True, eq=False)
class PageTable:
    """Rows of cells; `edges` are the left and right edges of the columns, to know a continuation on the next page."""

    rows: list[list[CellRuns]]
    header_rows: int
    left: float
    top: float
    right: float
    bottom: float
    columns: tuple[float, ...]
    ruled: bool
    words: Words
    page: int = 0


@dataclass(slots=True, eq=False)
class TextLine:
    """One row of text that is not part of a table."""

    runs: Row
    words: Words
    left: float
    top: float
    right: float
    bottom: float
    contents: bool = False  # an entry of a table of contents
    page: int = 0

    @property
    def figure(self) -> bytes | None:
        return self.runs[0].figure

    @property
    def main(self) -> WordRun:
        return self.runs[0] if len(self.runs) == 1 else max(self.runs, key=lambda run: run.letters)

    @property
    def size(self) -> float:
        return self.main.size

    @property
    def bold(self) -> bool:
        return all(run.bold for run in self.runs)

    @property
    def mono(self) -> bool:
        return all(run.mono for run in self.runs)

    @property
    def text(self) -> str:
        return text_of(self.runs, self.words)


Item = TextLine | PageTable


def _bounds(runs: list[WordRun]) -> Box4:
    return (
        min(run.left for run in runs),
        min(run.top for run in runs),
        max(run.right for run in runs),
        max(run.bottom for run in runs),
    )


@dataclass(slots=True, eq=False)
class _Cells:
    """A row as cells with their texts."""

    row: Row
    cells: list[Row]
    texts: list[str]

    @property
    def left(self) -> float:
        return self.row[0].left

    @property
    def is_bold(self) -> bool:
        return all(run.bold for run in self.row)

    @property
    def is_tabular(self) -> bool:
        return len(self.cells) > 1 and not (len(self.cells) == 2 and bool(_MARKER.match(self.texts[0])))


def find_tables(region: Region, words: Words) -> list[Item]:
    """The rows of a column as lines and tables, in order."""
    items: list[Item] = []
    rows = [_cells(row, words) for row in region]
    index = 0
    while index < len(rows):
        ruled = rows[index].row[0].table
        if ruled is not None:
            items.append(ruled)
            index += 1
            continue
        stop = _second_head(rows, index, _table_end(rows, index))
        table = _borderless(rows[index:stop], words)
        if table is not None:
            items.append(table)
            index = stop
            continue
        contents = _is_contents(rows[index:stop])
        for cells in rows[index : stop if contents else index + 1]:
            line = TextLine(cells.row, words, *_bounds(cells.row))
            line.contents = contents or bool(_ENTRY.search(line.text))
            items.append(line)
            index += 1
    return items


def _cells(row: Row, words: Words) -> _Cells:
    """Adjoining runs of a row; `$`, `(`, `)` and `%` stay with their number."""
    if len(row) == 1:
        return _Cells(row, [row], [text_of(row, words)] if row[0].table is None else [""])
    cells: list[Row] = []
    texts: list[str] = []
    for run in row:
        text = text_of([run], words)
        if _LEADER.match(text):
            continue
        if cells:
            previous = cells[-1][-1]
            gap = max(run.left - previous.right, previous.left - run.right)
            near = gap < 0.6 * run.size and text[:1] not in CURRENCIES
            closes = text in _CLOSERS and gap < 3 * run.size
            if near or texts[-1] in _OPENERS or closes:
                cells[-1].append(run)
                texts[-1] = f"{texts[-1]} {text}"
                continue
        cells.append([run])
        texts.append(text)
    return _Cells(row, cells or [row], texts or [""])


def _table_end(rows: list[_Cells], start: int) -> int:
    """Where the rows that may form one table end: rows of cells, with labels of the first column between them."""
    if not rows[start].is_tabular and not _heads_columns(rows, start):
        return start
    stop, single = start, 0
    second = min((cells.cells[1][0].left for cells in rows[start : start + 4] if cells.is_tabular), default=inf)
    for index in range(start, len(rows)):
        cells = rows[index]
        if cells.row[0].table is not None:
            break
        if index > start:
            previous = rows[index - 1].row[0]
            if cells.row[0].top - previous.bottom > 2.2 * max(cells.row[0].size, previous.size):
                break
        if cells.is_tabular:
            second = min(second, cells.cells[1][0].left)
            stop, single = index + 1, 0
            continue
        single += 1
        # A line of text runs from the labels into the numbers, or goes on below the text of a caption; "(in millions)"
        # stands above the numbers alone.
        is_text = cells.left < second + ALIGNED and cells.row[-1].right >= second + 60
        if single > 3 or (stop > start and is_text):
            break
    return stop


def _second_head(rows: list[_Cells], start: int, stop: int) -> int:
    """Where the rows under the first head end: below the last amounts above another row of times, or at `stop`."""
    amounts: list[_Cells] = []
    last, years = start, frozenset[int]()
    for index in range(start, stop):
        cells = rows[index]
        if not cells.is_tabular:
            continue
        label, values = _label_and_values(cells, rows[last])
        if amounts:
            stands_out = cells.is_bold and not any(one.is_bold for one in amounts)
            below = [text for other in rows[index + 1 : stop] if other.is_tabular for text in other.texts[1:]]
            if heads_anew("" if stands_out else label, values, years) and any(map(is_value, below[: 3 * len(values)])):
                return last + 1
        if any(map(is_value, values)):
            amounts.append(cells)
            last = index
        elif not amounts:
            years |= {time.year for text in values if (time := label_period(text)).year}
    return stop


def _label_and_values(cells: _Cells, above: _Cells) -> tuple[str, list[str]]:
    """The texts of a row; one that begins right of the labels above it has none itself."""
    if cells.left > above.cells[0][-1].right or cells.left > above.left + 60:
        return "", cells.texts
    return cells.texts[0], cells.texts[1:]


def _heads_columns(rows: list[_Cells], start: int) -> bool:
    """A single cell over the number columns ("Years ended December 31,") right above a row of cells."""
    if start + 1 >= len(rows) or not rows[start + 1].is_tabular:
        return False
    below = rows[start + 1]
    close = below.row[0].top - rows[start].row[0].bottom < below.row[0].size
    return close and rows[start].left > min(cells.left for cells in rows[start + 1 : start + 2 + HEADS]) + 60


def _is_contents(rows: list[_Cells]) -> bool:
    """Entries that end in a rising page number: "Item 1. Business ..... 4"."""
    numbers = []
    for cells in rows:
        last = cells.texts[-1].strip(". ")
        if cells.is_tabular and last.isdigit() and len(last) <= 4:
            numbers.append(int(last))
    rising = sum(a <= b for a, b in itertools.pairwise(numbers))
    enough = len(numbers) >= max(3, 0.5 * len(rows)) and rising >= 0.8 * (len(numbers) - 1)
    return enough and all(len(cells.cells) <= 4 for cells in rows)


def _borderless(rows: list[_Cells], words: Words) -> PageTable | None:
    """A table if most cells after the first line up with a cell of another row."""
    tabular = [cells for cells in rows if cells.is_tabular]
    if len(tabular) < MIN_ROWS - _has_times(tabular) or (_is_contents(rows) and not _looks_financial(rows)):
        return None
    aligned = total = 0
    for position, cells in enumerate(tabular):
        near = tabular[max(0, position - 6) : position] + tabular[position + 1 : position + 7]
        for cell in cells.cells[1:]:
            total += 1
            left, right = cell[0].left, cell[-1].right
            aligned += any(
                abs(other[0].left - left) < ALIGNED
                or abs(other[-1].right - right) < ALIGNED + 4  # a closing bracket hangs out to the right
                or abs((other[0].left + other[-1].right) - (left + right)) < 2 * ALIGNED
                for peer in near
                for other in peer.cells[1:]
            )
    numeric = sum(is_number(text) for cells in tabular for text in cells.texts[1:])
    if aligned < 0.7 * total and not (numeric >= 0.4 * total and _are_apart(tabular)):
        return None
    if numeric < 0.4 * total and not _regular(tabular):
        return None
    bounds = _bounds([run for cells in rows for run in cells.row])
    placed, edges = _in_columns([cells.cells for cells in rows])
    if sum(cell.columns for row in placed for cell in row if cell) < FILLED * len(placed) * len(placed[0]):
        return None  # the labels of a chart
    return PageTable(placed, _header_rows(rows), *bounds, edges, False, words)


def _has_times(tabular: list[_Cells]) -> bool:
    """A row of times and one of as many amounts below it: a table, however short it is."""
    if len(tabular) != MIN_ROWS - 1:
        return False
    label, times = _label_and_values(*tabular)
    amounts = [is_value(text) or text.strip("$€£¥ ") in DASHES for text in tabular[1].texts[1:]]
    return heads_anew(label, times) and all(amounts) and len(amounts) == len(times)


@dataclass(slots=True, eq=False)
class _TableColumn:
    left: float
    right: float
    cells: list[tuple[int, Row]]  # (row, cell)
    rows: set[int]

    def overlaps(self, left: float, right: float) -> bool:
        shared = min(self.right, right) - max(self.left, left)
        return shared > min(2.0, 0.2 * min(self.right - self.left, right - left))

    def join(self, other: _TableColumn) -> None:
        self.left, self.right = min(self.left, other.left), max(self.right, other.right)
        self.cells += other.cells
        self.rows |= other.rows


def _in_columns(rows: list[list[Row]]) -> tuple[list[list[CellRuns]], tuple[float, ...]]:
    """The cells of each row under their columns, an empty one where a row has none; and where the columns end.

    Narrow cells come first: what overlaps is one column, but a cell over two that stand side by side in some row spans
    them, and is put into the first.
    """
    columns: list[_TableColumn] = []
    spanning: list[tuple[int, Row]] = []
    cells = [(index, cell) for index, row in enumerate(rows) for cell in row]
    for index, cell in sorted(cells, key=lambda entry: entry[1][-1].right - entry[1][0].left):
        left, right = cell[0].left, max(cell[-1].right, cell[0].left + 1)
        hits = [column for column in columns if index not in column.rows and column.overlaps(left, right)]
        if any(a.rows & b.rows for a, b in itertools.combinations(hits, 2)):
            spanning.append((index, cell))
            continue
        column = _TableColumn(left, right, [(index, cell)], {index})
        for hit in hits:
            column.join(hit)
            columns.remove(hit)
        columns.append(column)
    columns = _heads_joined(sorted(columns, key=lambda column: column.left))
    placed = [[CellRuns() for _ in columns] for _ in rows]
    for number, column in enumerate(columns):
        for index, cell in column.cells:
            placed[index][number] += cell
    for index, cell in spanning:
        below = [n for n, column in enumerate(columns) if column.overlaps(cell[0].left, cell[-1].right)]
        below = [n for n in below if index not in columns[n].rows] or below  # each row has one cell in a column
        placed[index][below[0]] += cell
        placed[index][below[0]].columns = below[-1] - below[0] + 1
    usual = [column for column in columns[1:] if len(column.cells) >= max(2, 0.3 * len(rows))]
    return placed, tuple(median(cell[-1].right for _, cell in column.cells) for column in usual)


def _heads_joined(columns: list[_TableColumn]) -> list[_TableColumn]:
    """A head that stands beside its numbers, not above them, is of their column: it is all there is in its own."""
    joined = columns[:1]
    for column in columns[1:]:
        upper, lower = sorted((joined[-1], column), key=lambda one: min(one.rows))
        if len(joined) > 1 and max(upper.rows) < min(min(lower.rows), MAX_HEADER_ROWS):
            joined[-1].join(column)
        else:
            joined.append(column)
    return joined


def _looks_financial(rows: list[_Cells]) -> bool:
    return any(is_number(text) and any(c in text for c in "$%,") for cells in rows for text in cells.texts[1:])


def _regular(tabular: list[_Cells]) -> bool:
    """The same number of cells in nearly every row: a table of words."""
    counts = [len(cells.cells) for cells in tabular]
    common = max(set(counts), key=counts.count)
    return counts.count(common) >= 0.75 * len(counts)


def _are_apart(tabular: list[_Cells]) -> bool:
    """As many cells in every row, and a gap from top to bottom between them: amounts need no common edge then."""
    columns = list(zip(*(cells.cells for cells in tabular), strict=False))
    edges = [(min(cell[0].left for cell in own), max(cell[-1].right for cell in own)) for own in columns]
    return len({len(cells.cells) for cells in tabular}) == 1 and all(
        right < left for (_, right), (left, _) in itertools.pairwise(edges)
    )


def _header_rows(rows: list[_Cells]) -> int:
    """Rows before the first that holds amounts: years and words over the columns are the header."""
    for index, cells in enumerate(rows):
        has_amounts = any(map(is_value, cells.texts[1:])) and not PERIOD.fullmatch(cells.texts[0])
        # A label of the first column opens the body too, but for one above the times of the columns.
        is_label = not cells.is_tabular and index and not heads_anew("", rows[min(index + 1, len(rows) - 1)].texts[1:])
        if has_amounts or is_label:
            return index if index <= MAX_HEADER_ROWS else 0
    bold = all(run.bold for run in rows[0].row) and not all(run.bold for run in rows[1].row)
    return 1 if bold else 0


def same_columns(upper: PageTable, lower: PageTable) -> bool:
    """Does `lower`, at the top of the next page, go on with `upper`?"""
    if upper.ruled != lower.ruled or len(upper.columns) != len(lower.columns) or not upper.columns:
        return False
    tolerance = 3.0 if upper.ruled else 6.0
    shifts = [a - b for a, b in zip(upper.columns, lower.columns, strict=True)]
    # Mirrored margins move the whole table; the widths stay.
    middle = sorted(shifts)[len(shifts) // 2]
    return abs(middle) < 60 and all(abs(shift - middle) < tolerance for shift in shifts)


def first_is_data(table: PageTable) -> bool:
    """The first row holds amounts, so the table has no header of its own."""
    return any(is_value(text_of(cell, table.words)) for cell in table.rows[0])
