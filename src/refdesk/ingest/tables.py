"""Which tables does a document hold? Its table blocks -> cells with their place in the text, number, unit and scale."""

from __future__ import annotations

from collections.abc import Iterator

from refdesk.parsers.build import CELL
from refdesk.tables import Cell, StoredTable, cell_number, cell_unit, column_paths, head_rows, named_scale
from refdesk.types import Block, Parsed

LONGEST_CAPTION = 300  # characters of the text above a table that may say what it is about


def tables_of(parsed: Parsed) -> list[StoredTable]:
    """In reading order. A block of one column or one row is no table that a figure could be read from."""
    found = []
    heading = ""
    above = ""
    for block in parsed.blocks:
        text = parsed.text[block.start : block.end]
        if block.kind == "heading":
            heading, above = text, ""
        elif block.kind != "table":
            above = text[-LONGEST_CAPTION:]
        else:
            table = _table(parsed, block, len(found) + 1, " ".join(filter(None, (heading, above))))
            if table is not None:
                found.append(table)
    return found


def _table(parsed: Parsed, block: Block, number: int, caption: str) -> StoredTable | None:
    rows = [list(_cells(parsed.text, start, end)) for start, end in _lines(parsed.text, block)]
    width = max(map(len, rows), default=0)
    if width < 2 or len(rows) < 2:
        return None
    texts = [[parsed.text[start:end] for start, end in row] + [""] * (width - len(row)) for row in rows]
    head = head_rows(texts)
    if block.header is not None:
        head = max(head, sum(start < block.header[1] for start, _ in _lines(parsed.text, block)))
    columns = column_paths(texts[:head], width)
    scale = named_scale(" ".join([caption, *(cell for row in texts[:head] for cell in row)]))
    scales = [named_scale(" ".join(path)) or scale for path in columns]
    cells = []
    for at, row in enumerate(rows):
        for column, (start, end) in enumerate(row):
            shown = parsed.text[start:end]
            value = cell_number(shown) if at >= head and column else None
            unit = cell_unit(shown, columns[column], texts[at][0]) if value is not None else ""
            in_scale = "" if value is None or unit == "%" else scales[column]
            cells.append(Cell(at, column, shown, value, unit, in_scale, start, end))
    page = next((page.number for page in parsed.pages if page.start <= block.start < page.end), 1)
    return StoredTable(number, page, block.start, block.end, caption, head, len(rows), width, tuple(cells))


def _lines(text: str, block: Block) -> Iterator[tuple[int, int]]:
    start = block.start
    for line in text[block.start : block.end].split("\n"):
        yield start, start + len(line)
        start += len(line) + 1


def _cells(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for cell in text[start:end].split(CELL):
        yield start, start + len(cell)
        start += len(cell) + len(CELL)
