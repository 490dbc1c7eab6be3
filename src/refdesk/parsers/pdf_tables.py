"""Detects tables on a PDF page: borderless ones by aligned cells, ruled ones by the lines around cells."""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import Any

import numpy as np

from refdesk.forms import form_parts
from refdesk.parsers.build import DASHES, PERIOD, is_number, is_value
from refdesk.parsers.pdf_layout import Region, Row, TextLine, group_rows
from refdesk.parsers.pdf_page import CURRENCIES, Box4, Floats, WordRun, Words, text_of
from refdesk.periods import label_period
from refdesk.tables import heads_anew


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
            stands_out = cells.is_bold and not any(amount.is_bold for amount in amounts)
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
        upper, lower = sorted((joined[-1], column), key=lambda part: min(part.rows))
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
    edges = [(min(cell[0].left for cell in column), max(cell[-1].right for cell in column)) for column in columns]
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


# --- which cells do the lines of a page enclose? Ruled grids, with the words that stand in them -----------------------

SNAP = 3.0  # points; pdfplumber's own default
MIN_LINE = 6.0  # points: shorter than a line of text is decoration
MAX_LINES = 1200  # after merging: more is a drawing
MAX_PLACES = 20_000  # between the lines of a page: more is a drawing


def ruled_tables(lines: Floats, runs: list[WordRun], words: Words) -> list[WordRun]:
    """The runs, with a single one for each table that stands inside a grid of lines."""
    widths, heights = lines[:, 2] - lines[:, 0], lines[:, 3] - lines[:, 1]
    across = lines[(widths > MIN_LINE) & (heights < SNAP)]
    upright = lines[(heights > MIN_LINE) & (widths < SNAP)]
    # A grid needs lines that really cross: rules under totals do not make a table.
    if _cross(across, upright):
        for cells in _grids(across, upright):
            runs = _fill(cells, runs, words)
    return runs


def _cross(across: Floats, upright: Floats) -> bool:
    touches = (
        (upright[:, None, 0] >= across[None, :, 0] - SNAP)
        & (upright[:, None, 0] <= across[None, :, 2] + SNAP)
        & (across[None, :, 1] >= upright[:, None, 1] - SNAP)
        & (across[None, :, 1] <= upright[:, None, 3] + SNAP)
    )
    return int(touches.sum()) >= 6


Edge = tuple[float, float, float]  # where it lies across its direction, where it begins and ends along it
Place = tuple[int, int]  # a row and a column between neighbouring lines; the outermost lie outside of all lines


def _grids(across: Floats, upright: Floats) -> list[list[Box4]]:
    """The cells of each grid: places that no line parts are one cell, if lines enclose it on all sides."""
    if len(across) + len(upright) > 4 * MAX_LINES:
        return []
    rows = _merged([((top + bottom) / 2, left, right) for left, top, right, bottom in across.tolist()])
    columns = _merged([((left + right) / 2, top, bottom) for left, top, right, bottom in upright.tolist()])
    xs, ys = sorted({edge[0] for edge in columns}), sorted({edge[0] for edge in rows})
    if (len(xs) + 1) * (len(ys) + 1) > MAX_PLACES:
        return []
    walls: set[tuple[Place, Place]] = set()  # the two places that a line parts
    for x, begin, end in columns:
        column = bisect_left(xs, x)
        for row in range(bisect_left(ys, begin - SNAP) + 1, bisect_right(ys, end + SNAP)):
            walls.add(((row, column), (row, column + 1)))
    for y, begin, end in rows:
        row = bisect_left(ys, y)
        for column in range(bisect_left(xs, begin - SNAP) + 1, bisect_right(xs, end + SNAP)):
            walls.add(((row, column), (row + 1, column)))
    places = set(itertools.product(range(len(ys) + 1), range(len(xs) + 1)))
    cells = _areas(places, walls)
    enclosed = [cell for cell in cells if all(0 < row < len(ys) and 0 < column < len(xs) for row, column in cell)]
    inner = {place: number for number, cell in enumerate(enclosed) for place in cell}
    boxes = [
        (
            xs[min(column for _, column in cell) - 1],
            ys[min(row for row, _ in cell) - 1],
            xs[max(column for _, column in cell)],
            ys[max(row for row, _ in cell)],
        )
        for cell in enclosed
    ]
    grids = [sorted({inner[place] for place in area}) for area in _areas(set(inner), set())]
    return [[boxes[number] for number in grid] for grid in grids if len(grid) >= 4]


def _areas(places: set[Place], walls: set[tuple[Place, Place]]) -> list[list[Place]]:
    """Places that hang together without a wall between them."""
    areas = []
    while places:
        waiting, area = [places.pop()], []
        while waiting:
            row, column = place = waiting.pop()
            area.append(place)
            for other in ((row, column + 1), (row + 1, column), (row, column - 1), (row - 1, column)):
                if other in places and (min(place, other), max(place, other)) not in walls:
                    places.remove(other)
                    waiting.append(other)
        areas.append(area)
    return areas


def _merged(edges: list[Edge]) -> list[Edge]:
    """Edges side by side are moved to their mean place, then those that touch end to end are joined."""
    merged: list[Edge] = []
    edges = sorted(edges)
    bounds = [0, *(n for n in range(1, len(edges)) if edges[n][0] > edges[n - 1][0] + SNAP), len(edges)]
    for first, last in itertools.pairwise(bounds):
        beside = edges[first:last]
        place = sum(edge[0] for edge in beside) / len(beside)
        begin, end = min(edge[1:] for edge in beside)
        for start, stop in sorted(edge[1:] for edge in beside):
            if start > end + SNAP:
                merged.append((place, begin, end))
                begin, end = start, stop
            end = max(end, stop)
        merged.append((place, begin, end))
    return merged


def _fill(cells: list[Box4], runs: list[WordRun], words: Words) -> list[WordRun]:
    """Puts the words inside the grid into its cells; a frame around running text is not a table."""
    left, top = min(cell[0] for cell in cells), min(cell[1] for cell in cells)
    right, bottom = max(cell[2] for cell in cells), max(cell[3] for cell in cells)
    inside: list[WordRun] = []
    outside: list[WordRun] = []
    for run in runs:
        middle = (run.left + run.right) / 2
        within = left - SNAP <= middle <= right + SNAP and top - SNAP <= run.middle <= bottom + SNAP
        (inside if within and run.table is None else outside).append(run)
    tops = sorted({round(cell[1], 1) for cell in cells})
    lefts = sorted({round(cell[0], 1) for cell in cells})
    if not inside or len(lefts) < 2:
        return runs
    rows: list[list[CellRuns]] = []
    boxes = np.array(cells)
    placed: dict[int, list[WordRun]] = {}
    for run in inside:
        for part in _parts(run, boxes, words):
            placed.setdefault(part[0], []).append(part[1])
    filled = len(placed)
    starts: list[int] = []  # the first row of each row of the grid
    merged: list[
        tuple[CellRuns, int, int]
    ] = []  # cells over several of them, with the first and the one after the last
    for number, row_top in enumerate(tops):
        row = [CellRuns() for _ in lefts]
        starts.append(len(rows))
        for index in [i for i in placed if round(cells[i][1], 1) == row_top]:
            levels = group_rows(placed[index])
            first, last = bisect_right(lefts, cells[index][0] + 1) - 1, bisect_left(lefts, cells[index][2] - 1) - 1
            # A row that is ruled above and below only: its runs go under the columns of the other rows.
            is_open = last > first and any(len(level) > 1 for level in levels)
            for run in itertools.chain(*levels):
                column = bisect_right(lefts, (run.left + run.right) / 2) - 1 if is_open else first
                row[min(max(column, first), last)].append(run)
            row[first].columns = 1 if is_open else last - first + 1
            merged.append((row[first], number, bisect_left(tops, cells[index][3] - 1)))
        if any(row):
            rows += _without_rules(row, words)
    for cell, first, after in merged:
        cell.rows = max(1, [*starts, len(rows)][after] - starts[first])
    rows = _used_columns(rows)
    if filled < 0.3 * len(cells) or filled < 4:
        return runs
    # A frame that holds most of the text in one cell is decoration or a form: its text flows.
    largest = max((cell for row in rows for cell in row), key=lambda cell: sum(run.letters for run in cell))
    total = sum(run.letters for row in rows for cell in row for run in cell)
    dominated = len(largest) > 8 and sum(run.letters for run in largest) > 0.4 * total
    if dominated or (max(len(cell) for row in rows for cell in row) > 12 and filled < 12):
        return runs
    table = PageTable(rows, _header(rows, words), left, top, right, bottom, (*lefts, right), True, words)
    letters = sum(run.letters for run in inside)
    item = WordRun(0, 0, left, top, right, bottom, inside[0].size, letters, table=table)
    return [*outside, item]


def _without_rules(row: list[CellRuns], words: Words) -> list[list[CellRuns]]:
    """Several rows where no rules stand between them: numbers one below the other in a cell are never one value."""
    stacks = [group_rows(cell) for cell in row]
    stacks = [stack for stack in stacks if len(stack) > 1 and all(is_value(text_of(level, words)) for level in stack)]
    if not stacks or sum(len(group_rows(cell)) > 1 for cell in row) < 2:
        return [row]
    heights = [level[0].middle for level in max(stacks, key=len)]
    rows = [[CellRuns() for _ in row] for _ in heights]
    for column, cell in enumerate(row):
        for run in cell:
            nearest = min(range(len(heights)), key=lambda index: abs(heights[index] - run.middle))
            rows[nearest][column].append(run)
    return rows


def _used_columns(rows: list[list[CellRuns]]) -> list[list[CellRuns]]:
    """The rows without columns that are empty in all of them."""
    used = [column for column in range(len(rows[0])) if any(row[column] for row in rows)] if rows else []
    for row in rows:
        for column in used:
            row[column].columns = sum(column <= other < column + row[column].columns for other in used)
    return [[row[column] for column in used] for row in rows]


def _parts(run: WordRun, boxes: Any, words: Words) -> list[tuple[int, WordRun]]:
    """A run may go over a line between two cells: its words go to the cells they stand in."""
    middle = run.middle
    level = np.flatnonzero((boxes[:, 1] - SNAP <= middle) & (middle <= boxes[:, 3] + SNAP))
    crossed = [i for i in level.tolist() if boxes[i, 0] < run.right - 1 and boxes[i, 2] > run.left + 1]
    if not crossed:
        centre = (run.left + run.right) / 2
        distance = np.abs((boxes[:, 0] + boxes[:, 2]) / 2 - centre) + np.abs((boxes[:, 1] + boxes[:, 3]) / 2 - middle)
        return [(int(distance.argmin()), run)]
    inner = [i for i in crossed if boxes[i, 1] <= middle <= boxes[i, 3]] or crossed
    if len(inner) == 1 or run.words == 1:
        overlap = [min(run.right, boxes[i, 2]) - max(run.left, boxes[i, 0]) for i in inner]
        return [(inner[overlap.index(max(overlap))], run)]
    parts: list[tuple[int, WordRun]] = []
    for index, (x0, x1) in enumerate(words.spans[run.first : run.last].tolist(), run.first):
        centre = (x0 + x1) / 2
        owner = min(inner, key=lambda i: max(boxes[i, 0] - centre, centre - boxes[i, 2], 0))
        if parts and parts[-1][0] == owner:
            parts[-1][1].last, parts[-1][1].right = index + 1, x1
        else:
            part = replace(run, first=index, last=index + 1, left=x0, right=x1, letters=1, words=1)
            parts.append((owner, part))
    return parts


def _header(rows: list[list[CellRuns]], words: Words) -> int:
    """The first row, unless it holds amounts itself; below one merged cell over the columns, the second row too."""
    filled = [text for cell in rows[0] if (text := text_of(cell, words))]
    amounts = [text for text in filled if is_number(text) and len(text) != 4]
    return 0 if len(amounts) > len(filled) / 3 else 2 if len(filled) == 1 else 1


def form_apart(table: PageTable) -> list[PageTable]:
    """The pairs of a form, and what stands below it; any other table as it is."""
    parts = form_parts([[text_of(cell, table.words) for cell in row] for row in table.rows])
    found = [([[table.rows[row][at] for row, at in line] for line in places], is_form) for places, is_form in parts]
    return [
        replace(table, rows=rows, header_rows=0 if is_form else _header(rows, table.words), columns=())
        for rows, is_form in found
    ] or [table]
