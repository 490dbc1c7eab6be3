"""In which order is a page read? Runs -> regions (columns) of rows, by recursive cuts along strips of white. Pure.

title across both columns        region 1
left column   right column       regions 2 and 3
footnote across both columns     region 4

A strip of white parts columns of text if most letters on both sides stand in lines of text. Letters are weighed, not
runs: the fifty labels of a figure weigh less than one paragraph. Where a side is not mostly text (a table beside a
column), the order in which the file draws the page decides: columns are drawn one after the other, rows of a table
from left to right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from refdesk.parsers.pdf_page import Floats, Run

Row = list[Run]
Region = list[Row]

Mask = NDArray[np.bool_]

MIN_COLUMN_ROWS = 3
MIN_STRIP_ROWS = 2  # of columns that are balanced above or below a figure, if all of it is text
MIN_LINE_LETTERS = 12  # of a line of text; cells of tables and labels of figures are shorter
MIN_LINE_WORDS = 3
MAX_DIGITS = 0.3  # share of digits: above it, it is a row of a table
FLOWS = 0.5  # share of a column's letters that stand in lines of text
FILLED = 0.6  # the same of lines that fill their column
FULL_LINE = 0.7  # of the width of the column
FULL_LINE_WORDS = 5
MIN_MIXED_ROWS = 6  # of a column that is no text, beside one that is
DRAWN_IN_COLUMNS = 0.25  # changes of side in drawing order, as a share of those that drawing row by row would make
DRAWN_APART = 0.1  # the same beside a column that is no text: a cell of several lines is drawn at one go too
MAX_DEPTH = 12
GUTTER = 5.0  # points that must stay empty; LaTeX's \columnsep is 10, newspapers use 8
OVERHANG = 0.05  # share of letters that may hang into the gutter: a line that was too long
STRIPE = 0.5  # × font size: white across all columns that is more than the space between two lines


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
    """A strip of white between `top` and `bottom`: the right column begins at `x`."""

    x: float
    top: float
    bottom: float
    letters: float


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The runs of a part of a page as columns of numbers, so that a strip is tried in one step."""

    left: Floats
    top: Floats
    right: Floats
    bottom: Floats
    middle: Floats
    letters: Floats
    prose: Floats  # the letters of runs that are lines of text, 0 for cells, labels and amounts
    words: NDArray[np.intp]
    table: Mask
    drawn: NDArray[np.intp]  # the place in the order of drawing

    @classmethod
    def of(cls, runs: list[Run]) -> _Part:
        edges = np.array([(run.left, run.top, run.right, run.bottom, _height(run), run.letters) for run in runs])
        left, top, right, bottom, middle, letters = edges.astype(np.float32).T
        prose = np.array([run.letters if _is_line(run) else 0 for run in runs], np.float32)
        table = np.array([run.table is not None for run in runs])
        words, drawn = np.array([(run.words, run.first) for run in runs], np.intp).T
        return cls(left, top, right, bottom, middle, letters, prose, words, table, drawn)


def _is_line(run: Run) -> bool:
    """Long enough for a line of a paragraph; where every character is a word (CJK), the letters count."""
    return (
        run.table is None
        and run.words >= MIN_LINE_WORDS
        and run.letters >= MIN_LINE_LETTERS
        and run.digits <= MAX_DIGITS * run.letters
    )


def _split(runs: list[Run], depth: int) -> list[Region]:
    if len(runs) < 2 * MIN_STRIP_ROWS or depth > MAX_DEPTH:
        return [group_rows(runs)]
    cut = _best_cut(_Part.of(runs))
    if cut is None:
        return [group_rows(runs)]
    above = [run for run in runs if _height(run) <= cut.top]
    below = [run for run in runs if _height(run) >= cut.bottom]
    band = [run for run in runs if cut.top < _height(run) < cut.bottom]
    left = [run for run in band if run.left < cut.x - 1]
    right = [run for run in band if run.left >= cut.x - 1]
    if all(run.right_to_left for run in band if _is_line(run)):
        left, right = right, left
    return [region for part in (above, left, right, below) if part for region in _split(part, depth + 1)]


def _best_cut(part: _Part) -> _Cut | None:
    """The strip of white that parts most letters into columns of text."""
    best: _Cut | None = None
    weight = part.prose + np.where(part.table, part.letters, 0)
    for x in _gutters(part):
        before, beside = part.right <= x - 1, part.left >= x - 1
        if weight[before].sum() < MIN_LINE_LETTERS or weight[beside].sum() < MIN_LINE_LETTERS:
            continue
        for top, bottom in _bands(part, ~(before | beside)):
            inside = (part.middle > top) & (part.middle < bottom)
            cut = _columns(part, x, inside & before, inside & beside, top, bottom)
            if cut is not None and (best is None or cut.letters > best.letters):
                best = cut
    return None if best is None else _narrowed(part, best)


def _gutters(part: _Part) -> list[float]:
    """Where a column may begin: left edges that several runs share, or right edges (text that runs to the left)."""
    text = (part.prose > 0) | part.table  # one side at least is text, so the cells of a table need not be tried
    starts = part.left[text & (part.left > part.left.min() + 30)]
    ends = part.right[text & (part.right < part.right.max() - 30)] + GUTTER + 1
    return [*_shared(starts), *_shared(ends)]


def _shared(values: Floats) -> Iterator[float]:
    edges = np.sort(values)
    index = 0
    while index < len(edges):
        stop = int(np.searchsorted(edges, edges[index] + 3))
        if stop - index >= MIN_STRIP_ROWS:
            yield float(edges[index])
        index = max(stop, index + 1)


def _bands(part: _Part, crossing: Mask) -> Iterator[tuple[float, float]]:
    """The heights between the runs that cross a strip."""
    lower, upper = float(part.top.min()) - 1, float(part.bottom.max()) + 1
    order = np.argsort(part.top[crossing])
    for top, bottom in zip(part.top[crossing][order].tolist(), part.bottom[crossing][order].tolist(), strict=True):
        if top > lower:
            yield lower, top
        lower = max(lower, bottom)
    if upper > lower:
        yield lower, upper


def _columns(part: _Part, x: float, left: Mask, right: Mask, top: float, bottom: float) -> _Cut | None:
    """The runs on both sides of a strip as columns; None if they are not, for all that is known, columns of text."""
    if min(_count_rows(part, left), _count_rows(part, right)) < MIN_STRIP_ROWS and not part.table[left | right].any():
        return None
    hanging = part.letters[left & (part.right > x - GUTTER)].sum()
    if hanging > OVERHANG * part.letters[left].sum():
        return None
    flowing = [_flows(part, side) for side in (left, right)]
    if not any(flowing):
        sure = _is_strip(part, left) and _is_strip(part, right) and _changes(part, left, right) <= 0
    elif all(flowing):  # drawn row by row it was read by OCR, or is a table of words: the lines must fill their columns
        sure = _changes(part, left, right) <= DRAWN_IN_COLUMNS or (_fills(part, left) and _fills(part, right))
    else:
        rows = min(_count_rows(part, left), _count_rows(part, right))
        sure = rows >= MIN_MIXED_ROWS and _changes(part, left, right) <= DRAWN_APART
    if not sure:
        return None
    return _Cut(x, top, bottom, float(part.letters[left | right].sum()))


def _flows(part: _Part, side: Mask) -> bool:
    """Is this mostly lines of text? A ruled table says nothing about the column it stands in."""
    text = part.letters[side & ~part.table].sum()
    if not text:
        return True
    lines = _count_rows(part, side & (part.prose > 0))
    return lines >= MIN_COLUMN_ROWS and float(part.prose[side].sum()) >= FLOWS * float(text)


def _is_strip(part: _Part, side: Mask) -> bool:
    """Two lines are enough for a column if both are long and nothing else is there."""
    return bool((part.words[side] >= FULL_LINE_WORDS).all() and (part.prose[side] > 0).all())


def _fills(part: _Part, side: Mask) -> bool:
    """Do most letters stand in lines that are as long as the lines of one column are? Cells are of any length."""
    text = side & ~part.table
    if not text.any():
        return True
    width = part.right[text] - part.left[text]
    columns = len(width) / max(1, _count_rows(part, text))
    column = (part.right[text].max() - part.left[text].min()) / max(1, round(columns))
    long = (width >= FULL_LINE * column) & (part.words[text] >= FULL_LINE_WORDS) & (part.prose[text] > 0)
    return float(part.letters[text][long].sum()) >= FILLED * float(part.letters[text].sum())


def _changes(part: _Part, left: Mask, right: Mask) -> float:
    """How often the file changes sides while it draws: near 0 for columns, 1 for rows."""
    chosen = np.flatnonzero((left | right) & ~part.table)
    sides = right[chosen[np.argsort(part.drawn[chosen], kind="stable")]]
    changes = int((sides[1:] != sides[:-1]).sum())
    shorter = min(_count_rows(part, left & ~part.table), _count_rows(part, right & ~part.table))
    return (changes - 1) / (2 * shorter) if shorter else 0.0


def _count_rows(part: _Part, chosen: Mask) -> int:
    middles = np.sort(part.middle[chosen])
    return int((np.diff(middles) > 2).sum()) + bool(len(middles))


def _narrowed(part: _Part, cut: _Cut) -> _Cut:
    """A page that is drawn in bands, each with its columns, is read band by band: the cut goes as far as one band.

    first  | second       drawn in this order: white across both columns parts two bands, not two paragraphs
    third  | fourth
    """
    inside = (part.middle > cut.top) & (part.middle < cut.bottom) & ~part.table
    left, right = inside & (part.left < cut.x - 1), inside & (part.left >= cut.x - 1)
    if not left.any() or not right.any() or _changes(part, left, right) > DRAWN_IN_COLUMNS:
        return cut
    for height in _stripes(part, inside):
        upper = part.middle < height
        if not (right & upper).any() or not (left & ~upper).any():
            continue
        if part.drawn[right & upper].max() < part.drawn[left & ~upper].min():
            if _flows(part, left & upper) and _flows(part, right & upper):
                return replace(cut, bottom=height)
            return _narrowed(part, replace(cut, top=height))
    return cut


def _stripes(part: _Part, inside: Mask) -> Iterator[float]:
    """Heights at which no run stands, from top to bottom."""
    chosen = np.flatnonzero(inside)
    chosen = chosen[np.argsort(part.top[chosen], kind="stable")]
    reached = np.maximum.accumulate(part.bottom[chosen])
    space = STRIPE * (part.bottom[chosen] - part.top[chosen])[1:]
    for index in np.flatnonzero(part.top[chosen][1:] - reached[:-1] > space).tolist():
        yield float(part.top[chosen[index + 1]] + reached[index]) / 2
