"""Which rows of a table name its columns? Pure."""

from __future__ import annotations

from refdesk.types import Chunk

CELLS = " | "  # between the cells of a row


def table_header(chunk: Chunk) -> slice:
    """The rows that head a table, and what stands above them: all up to the first row that has cells.

    "Prices", "item | euros", "paper | 3" -> slice(0, 2)

    A further row heads it too where it repeats the names of two columns, as one does below cells that were merged:
    "item | code | price | ", "item | code | net | gross".
    """
    rows = [chunk.text[start:end] for start, end, *_ in chunk.sentences]
    for place, row in enumerate(rows):
        if CELLS in row:
            stop = place + 1
            while stop < len(rows) and _repeats(_cells(row), _cells(rows[stop])):
                stop += 1
            return slice(0, stop)
    return slice(0, 0)


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split(CELLS)]


def _repeats(above: list[str], row: list[str]) -> bool:
    """Whether two columns have the same words in both."""
    same = [one for one, other in zip(above, row, strict=False) if one == other and any(map(str.isalpha, one))]
    return len(above) == len(row) and len(same) >= 2
