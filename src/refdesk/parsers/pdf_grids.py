"""Which cells do the lines of a page enclose? Ruled grids, with the words that stand in them."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from dataclasses import replace
from typing import Any

import numpy as np

from refdesk.parsers.build import is_number, is_value
from refdesk.parsers.pdf_layout import group_rows
from refdesk.parsers.pdf_page import Box4, Floats, WordRun, Words, text_of
from refdesk.parsers.pdf_tables import CellRuns, PageTable

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
