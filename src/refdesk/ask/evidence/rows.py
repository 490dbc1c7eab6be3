"""Which rows of a table name its columns, and what is each cell of a row called? Pure."""

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


def named_cells(chunk: Chunk, sentence: int) -> list[tuple[str, str]]:
    """The cells of a row with the names of their columns; nothing where the header does not name them.

    "Country | Meals" over "Japan | 46" -> [("Country", "Japan"), ("Meals", "46")]
    """
    head = table_header(chunk).stop
    if chunk.kind != "table" or not 0 < head <= sentence:
        return []
    names: list[str] = []
    for first, last, *_ in chunk.sentences[:head]:
        if CELLS in chunk.text[first:last]:
            names = _below(names, _cells(chunk.text[first:last]))
    start, end = chunk.sentences[sentence][:2]
    cells = _cells(chunk.text[start:end])
    if len(names) != len(cells) or not all(any(letter.isalpha() for letter in name) for name in names if name):
        return []
    return [(name, cell) for name, cell in zip(names, cells, strict=True) if cell]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split(CELLS)]


def _repeats(above: list[str], row: list[str]) -> bool:
    """Whether two columns have the same words in both."""
    same = [one for one, other in zip(above, row, strict=False) if one == other and any(map(str.isalpha, one))]
    return len(above) == len(row) and len(same) >= 2


def _below(above: list[str], row: list[str]) -> list[str]:
    """The names of columns under names that may stand for several of them.

    ["item", "price", ""] over ["item", "net", "gross"] -> ["item", "price net", "price gross"]

    A name that is repeated below it, as "item" is, stands for its own column alone.
    """
    if len(above) != len(row):
        return row
    names, last = [], ""
    for over, name in zip(above, row, strict=True):
        if over:
            last = "" if over == name else over
        names.append(f"{last} {name}".strip() if name else over)
    return names
