"""In which order is a page read? Runs -> regions (columns) of rows, by the empty strips between columns. Pure.

title across both columns        region 1
left column   right column       regions 2 and 3
footnote across both columns     region 4
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from refdesk.ingest.parsers.pdf_page import Run

Row = list[Run]
Region = list[Row]

MIN_COLUMN_ROWS = 3
MIN_COLUMN_LETTERS = 12  # in the median run: table cells are shorter
MAX_DIGITS = 0.3  # share of digits: above it, it is a table
MAX_DEPTH = 12
GUTTER = 5.0  # points that must stay empty; LaTeX's \columnsep is 10, newspapers use 8


def reading_order(runs: list[Run]) -> list[Region]:
    """Columns one after the other, each as rows from top to bottom."""
    return [region for region in _split(runs, 0) if region]


def group_rows(runs: list[Run]) -> list[Row]:
    """Runs whose middles are level are one row, ordered along the direction of the script."""
    rows: list[Row] = []
    for run in sorted(runs, key=_height):
        if rows and run.table is None:
            anchor = rows[-1][0]
            level = 0.45 * min(run.bottom - run.top, anchor.bottom - anchor.top)
            if anchor.table is None and abs(run.middle - anchor.middle) <= level:
                rows[-1].append(run)
                continue
        rows.append([run])
    rows = _join_marks(rows)
    for row in rows:
        if len(row) > 1:
            backwards = sum(run.letters for run in row if run.right_to_left) > sum(run.letters for run in row) / 2
            row.sort(key=lambda run: -run.right if backwards else run.left)
    return rows


def _join_marks(rows: list[Row]) -> list[Row]:
    """Superscripts and subscripts (all small, overlapping a larger row) belong to the row they overlap."""
    joined: list[Row] = []
    waiting: Row = []
    for row in rows:
        small = bool(joined) and row[0].table is None and max(run.size for run in row) < 0.82 * _size(joined[-1])
        if small and _overlaps(row, joined[-1]):
            joined[-1] += row
            continue
        joined.append(row)
        if len(joined) > 1 and row[0].table is None:
            waiting = joined[-2]
            if max(run.size for run in waiting) < 0.82 * _size(row) and _overlaps(waiting, row):
                row += waiting
                del joined[-2]
    return joined


def _size(row: Row) -> float:
    return 0.0 if row[0].table is not None else max(row, key=lambda run: run.letters).size


def _overlaps(small: Row, large: Row) -> bool:
    top, bottom = max(run.top for run in small), min(run.bottom for run in small)
    shared = min(bottom, max(run.bottom for run in large)) - max(top, min(run.top for run in large))
    if small[0].table is not None or shared < 0.3 * (bottom - top) or sum(run.letters for run in small) > 20:
        return False
    left, right = min(run.left for run in large) - 10, max(run.right for run in large) + 10
    return all(left <= run.left and run.right <= right for run in small)


def _height(run: Run) -> float:
    return run.top if run.table is not None else run.middle


@dataclass(frozen=True, slots=True)
class _Cut:
    x: float
    first: int  # rows first..last hold the columns
    last: int
    letters: int


def _split(runs: list[Run], depth: int) -> list[Region]:
    rows = group_rows(runs)
    if len(runs) < 2 * MIN_COLUMN_ROWS or depth > MAX_DEPTH:
        return [rows]
    cut = _best_cut(rows)
    if cut is None:
        return [rows]
    band = [run for row in rows[cut.first : cut.last] for run in row]
    left = [run for run in band if run.left < cut.x - 1]
    right = [run for run in band if run.left >= cut.x - 1]
    if left and all(run.right_to_left for run in band if run.letters > MIN_COLUMN_LETTERS):
        left, right = right, left
    above = [run for row in rows[: cut.first] for run in row]
    below = [run for row in rows[cut.last :] for run in row]
    return [region for part in (above, left, right, below) if part for region in _split(part, depth + 1)]


def _best_cut(rows: list[Row]) -> _Cut | None:
    """The gutter that parts most text into two columns of flowing text."""
    best: _Cut | None = None
    for x in _gutters(rows):
        first = 0
        for index in range(len(rows) + 1):
            if index < len(rows) and not any(run.left < x - 1 and run.right > x - GUTTER for run in rows[index]):
                continue
            if index - first >= MIN_COLUMN_ROWS:
                cut = _columns(rows, x, first, index)
                if cut is not None and (best is None or cut.letters > best.letters):
                    best = cut
            first = index + 1
    return best


def _gutters(rows: list[Row]) -> list[float]:
    """Left edges that several runs share and that are not the left edge of everything."""
    leftmost = min(run.left for row in rows for run in row)
    edges = sorted(run.left for row in rows for run in row if run.left > leftmost + 30)
    found: list[float] = []
    index = 0
    while index < len(edges):
        stop = index
        while stop < len(edges) and edges[stop] - edges[index] < 3:
            stop += 1
        if stop - index >= MIN_COLUMN_ROWS:
            found.append(edges[index])
        index = max(stop, index + 1)
    return found


def _columns(rows: list[Row], x: float, first: int, last: int) -> _Cut | None:
    """Rows first..last as two columns, trimmed to where they stand side by side; None if no text flows in them."""
    left_rows = [index for index in range(first, last) if any(run.left < x - 1 for run in rows[index])]
    right_rows = [index for index in range(first, last) if any(run.left >= x - 1 for run in rows[index])]
    if len(left_rows) < MIN_COLUMN_ROWS or len(right_rows) < MIN_COLUMN_ROWS:
        return None
    # What stands above the right column, or below it after a gap, is not part of the columns.
    while left_rows and rows[left_rows[0]][0].bottom < rows[right_rows[0]][0].top:
        first = left_rows.pop(0) + 1
    while len(left_rows) > 1 and left_rows[-1] > right_rows[-1]:
        lower, upper = rows[left_rows[-1]][0], rows[left_rows[-2]][0]
        if lower.top - max(upper.bottom, rows[right_rows[-1]][0].bottom) < 1.2 * lower.size:
            break
        last = left_rows.pop()
    left = [[run for run in rows[index] if run.left < x - 1] for index in left_rows if index >= first]
    right = [[run for run in rows[index] if run.left >= x - 1] for index in right_rows if first <= index < last]
    if not (_flows(left) and _flows(right)):
        return None
    return _Cut(x, first, last, sum(run.letters for row in left + right for run in row))


def _flows(rows: list[Row]) -> bool:
    """Lines of text that fill their column, not the cells of a table."""
    runs = [run for row in rows for run in row if run.table is None]
    if any(run.table is not None for row in rows for run in row) and not runs:
        return True
    if len(rows) < MIN_COLUMN_ROWS:
        return False
    letters = sum(run.letters for run in runs)
    if (
        median(run.letters for run in runs) < MIN_COLUMN_LETTERS
        or sum(run.digits for run in runs) > MAX_DIGITS * letters
    ):
        return False
    width = max(run.right for run in runs) - min(run.left for run in runs)
    columns = max(1, round(median(len(row) for row in rows)))
    return median(run.width for run in runs) >= 0.5 * width / columns
