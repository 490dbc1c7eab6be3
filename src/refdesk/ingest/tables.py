"""Which tables does a document hold? Its table blocks -> columns of cells with number, unit, scale, period, place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from refdesk.cells import Column, ColumnHead, Measure, StoredTable
from refdesk.parsers.build import CELL
from refdesk.tables import cell_number, column_paths, head_rows, named_scale, unit_of
from refdesk.types import Block, Parsed

LONGEST_CAPTION = 300  # characters of the text above a table that may say what it is about
MOST_HEAD = 20  # rows that are looked at for a head


@dataclass(frozen=True, slots=True)
class _Part:
    """A block that is a table, or a part of one: rows of (row, column, rows, columns, start, end), in that order."""

    block: Block
    caption: str
    cells: NDArray[np.int32]
    row_count: int
    width: int


def tables_of(parsed: Parsed) -> list[StoredTable]:
    """In reading order. A block of one column or one row is no table that a figure could be read from."""
    found: list[StoredTable] = []
    for part in _parts(parsed):
        if part.width > 1 and part.row_count > 1:
            found.append(replace(_table(parsed, part), number=len(found) + 1))
    return found


def _parts(parsed: Parsed) -> Iterator[_Part]:
    heading = above = ""
    for block in parsed.blocks:
        text = parsed.text[block.start : block.end]
        if block.kind == "heading":
            heading, above = text, ""
        elif block.kind != "table":
            above = text[-LONGEST_CAPTION:]
        else:
            cells = _split(parsed.text, block) if block.cells is None else block.cells
            filled = cells[cells[:, 5] > cells[:, 4]]
            rows, width = ((cells[:, :2] + cells[:, 2:4]).max(axis=0)).tolist() if len(cells) else (0, 0)
            yield _Part(block, " ".join(filter(None, (heading, above))), filled, rows, width)


def _split(text: str, block: Block) -> NDArray[np.int32]:
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


def _table(parsed: Parsed, part: _Part) -> StoredTable:
    top = _texts(parsed.text, part.cells[part.cells[:, 0] < MOST_HEAD], min(part.row_count, MOST_HEAD), part.width)
    head = head_rows(top)
    if part.block.header is not None:
        below = part.cells[part.cells[:, 4] >= part.block.header[1]]
        head = max(head, int(below[:, 0].min()) if len(below) else 0)
    paths = column_paths(top[:head], part.width)
    scale = named_scale(" ".join([part.caption, *(cell for row in top[:head] for cell in row)]))
    heads = tuple(
        ColumnHead(path, Measure(unit_of(" ".join(path)), named_scale(" ".join(path)) or scale)) for path in paths
    )
    labels = _labels(parsed.text, part)
    columns = tuple(_column(parsed.text, part, number, head, one.measure, labels) for number, one in enumerate(heads))
    start = part.block.start
    page = next((page.number for page in parsed.pages if page.start <= start < page.end), 1)
    return StoredTable(
        number=0,
        page=page,
        start=start,
        end=part.block.end,
        caption=part.caption,
        head_rows=head,
        row_count=part.row_count,
        scale=scale,
        heads=heads,
        cell_count=len(part.cells),
        columns=columns,
    )


def _texts(text: str, cells: NDArray[np.int32], count: int, width: int) -> list[list[str]]:
    """Rows of equal length; a merged cell stands in each place that it covers, a label in its own."""
    found = [[""] * width for _ in range(count)]
    for row, column, rows, columns, start, end in cells.tolist():
        for under in range(row, min(row + rows, count)):
            for beside in range(column, column + columns if column else 1):
                found[under][beside] = text[start:end]
    return found


def _labels(text: str, part: _Part) -> list[Measure]:
    """What the label of each row says of its numbers."""
    found = [Measure()] * part.row_count
    for row, _, rows, _, start, end in part.cells[part.cells[:, 1] == 0].tolist():
        found[row : row + rows] = [Measure(unit_of(text[start:end]))] * rows
    return found


def _column(text: str, part: _Part, number: int, head: int, own: Measure, labels: Sequence[Measure]) -> Column:
    cells = part.cells[part.cells[:, 1] == number]
    texts: dict[str, int] = {}
    codes = [texts.setdefault(text[start:end], len(texts)) for start, end in cells[:, 4:].tolist()]
    values = [cell_number(one) if number else None for one in texts]
    units = [unit_of(one) for one in texts]
    numbers: list[float] = []
    measures: dict[Measure, int] = {}
    measured: list[int] = []
    for row, code in zip(cells[:, 0].tolist(), codes, strict=True):
        value = values[code] if row >= head else None
        measure = Measure()
        if value is not None:
            unit = units[code] or own.unit or labels[row].unit
            measure = Measure(unit, "" if unit == "%" else own.scale, own.period)
        numbers.append(np.nan if value is None else value)
        measured.append(measures.setdefault(measure, len(measures)))
    return Column(
        rows=cells[:, 0].copy(),
        numbers=np.array(numbers, np.float64),
        codes=np.array(codes, np.int32),
        texts=tuple(texts),
        measured=np.array(measured, np.int32),
        measures=tuple(measures),
        places=np.ascontiguousarray(cells[:, 2:]),
    )
