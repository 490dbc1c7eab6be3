"""Which cells do the ruling lines of a page enclose? pdfplumber's cell finder on the lines pdfium has already read.

pdfplumber would read the page again with pdfminer (0.25 s a page); its pure functions need only the lines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from refdesk.ingest.parsers.pdf_columns import group_rows
from refdesk.ingest.parsers.pdf_page import Floats, Run, Words
from refdesk.ingest.parsers.pdf_tables import Cell, Table, is_number, text_of

SNAP = 3.0  # points; pdfplumber's own default
MIN_LINE = 6.0  # points: shorter than a line of text is decoration
MAX_LINES = 1200  # after merging: more is a drawing

MAX_CROSSINGS = 2500  # pdfplumber compares each with each: a second at this number

Box4 = tuple[float, float, float, float]


def ruled_tables(lines: Floats, runs: list[Run], words: Words) -> tuple[list[Table], list[Run]]:
    """Tables inside a grid of lines, and the runs that are left outside them."""
    widths, heights = lines[:, 2] - lines[:, 0], lines[:, 3] - lines[:, 1]
    across = lines[(widths > MIN_LINE) & (heights < SNAP)]
    upright = lines[(heights > MIN_LINE) & (widths < SNAP)]
    # A grid needs two lines each way that really cross: rules under totals do not make a table.
    if len(across) < 2 or len(upright) < 2 or not _cross(across, upright):
        return [], runs
    tables = []
    for cells in _grids(across, upright):
        table, runs = _fill(cells, runs, words)
        if table is not None:
            tables.append(table)
    return tables, runs


def _cross(across: Floats, upright: Floats) -> bool:
    touches = (
        (upright[:, None, 0] >= across[None, :, 0] - SNAP)
        & (upright[:, None, 0] <= across[None, :, 2] + SNAP)
        & (across[None, :, 1] >= upright[:, None, 1] - SNAP)
        & (across[None, :, 1] <= upright[:, None, 3] + SNAP)
    )
    return int(touches.sum()) >= 6


def _edge(box: list[float], orientation: str) -> dict[str, Any]:
    left, top, right, bottom = box
    if orientation == "h":
        top = bottom = (top + bottom) / 2
    else:
        left = right = (left + right) / 2
    return {
        "x0": left, "x1": right, "top": top, "bottom": bottom, "width": right - left, "height": bottom - top,
        "orientation": orientation, "object_type": "line",
    }  # fmt: skip


def _grids(across: Floats, upright: Floats) -> list[list[Box4]]:
    from pdfplumber import table as finder  # heavy; most documents have no grid

    if len(across) + len(upright) > 4 * MAX_LINES:
        return []
    edges = [_edge(box, "h") for box in across.tolist()] + [_edge(box, "v") for box in upright.tolist()]
    edges = finder.merge_edges(edges, SNAP, SNAP, SNAP, SNAP)
    if len(edges) > MAX_LINES:
        return []
    intersections = finder.edges_to_intersections(edges, SNAP, SNAP)
    if len(intersections) > MAX_CROSSINGS:
        return []
    grids: list[list[Box4]] = finder.cells_to_tables(finder.intersections_to_cells(intersections))
    return [cells for cells in grids if len(cells) >= 4]


def _fill(cells: list[Box4], runs: list[Run], words: Words) -> tuple[Table | None, list[Run]]:
    """Puts the words inside the grid into its cells; a frame around running text is not a table."""
    left, top = min(cell[0] for cell in cells), min(cell[1] for cell in cells)
    right, bottom = max(cell[2] for cell in cells), max(cell[3] for cell in cells)
    inside: list[Run] = []
    outside: list[Run] = []
    for run in runs:
        middle = (run.left + run.right) / 2
        within = left - SNAP <= middle <= right + SNAP and top - SNAP <= run.middle <= bottom + SNAP
        (inside if within and run.table is None else outside).append(run)
    tops = sorted({round(cell[1], 1) for cell in cells})
    lefts = sorted({round(cell[0], 1) for cell in cells})
    if not inside or len(tops) < 2 or len(lefts) < 2:
        return None, runs
    rows: list[list[Cell]] = []
    filled = 0
    boxes = np.array(cells)
    placed: dict[int, list[Run]] = {}
    for run in inside:
        for part in _parts(run, boxes, words):
            placed.setdefault(part[0], []).append(part[1])
    for row_top in tops:
        row: list[Cell] = []
        for index in sorted(
            (i for i, cell in enumerate(cells) if round(cell[1], 1) == row_top), key=lambda i: cells[i][0]
        ):
            lines = [run for level in group_rows(placed.get(index, [])) for run in level]
            filled += bool(lines)
            row.append(lines)
        if any(row):
            rows.append(row)
    if len(rows) < 2 or filled < 0.3 * len(cells) or filled < 4 or max(len(row) for row in rows) < 2:
        return None, runs
    # A frame that holds most of the text in one cell is decoration or a form: its text flows.
    largest = max((cell for row in rows for cell in row), key=lambda cell: sum(run.letters for run in cell))
    total = sum(run.letters for row in rows for cell in row for run in cell)
    dominated = len(largest) > 8 and sum(run.letters for run in largest) > 0.4 * total
    if dominated or (max(len(cell) for row in rows for cell in row) > 12 and filled < 12):
        return None, runs
    table = Table(rows, _header(rows, words), left, top, right, bottom, (*lefts, right), True, words)
    size = inside[0].size
    item = Run(
        0, 0, left, top, right, bottom, size, False, False, False, sum(run.letters for run in inside), 0, table=table
    )
    return table, [*outside, item]


def _parts(run: Run, boxes: Any, words: Words) -> list[tuple[int, Run]]:
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
    parts: list[tuple[int, Run]] = []
    for index, (x0, x1) in enumerate(words.spans[run.first : run.last].tolist(), run.first):
        centre = (x0 + x1) / 2
        owner = min(inner, key=lambda i: max(boxes[i, 0] - centre, centre - boxes[i, 2], 0))
        if parts and parts[-1][0] == owner:
            parts[-1][1].last, parts[-1][1].right = index + 1, x1
        else:
            part = Run(index, index + 1, x0, run.top, x1, run.bottom, run.size, run.bold, run.mono, run.italic, 1, 1)
            parts.append((owner, part))
    return parts


def _header(rows: list[list[Cell]], words: Words) -> int:
    """The first row, unless it holds amounts itself."""
    texts = [text_of(cell, words) for cell in rows[0]]
    filled = [text for text in texts if text]
    if len(rows) < 2 or not filled or sum(is_number(text) and len(text) != 4 for text in filled) > len(filled) / 3:
        return 0
    # One merged cell over the columns is a title; the row below it names the columns.
    return 2 if len(filled) == 1 and len(rows) > 2 and len(rows[1]) > 1 and len(rows[0]) == 1 else 1
