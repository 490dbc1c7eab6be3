"""How is a row of a table read? With the names of its columns. Pure.

"Destination | Meals | Hotel" over "Japan | 46 | 170" -> "Destination: Japan | Meals: 46 | Hotel: 170"
"""

from __future__ import annotations

from refdesk.types import Chunk

CELLS = " | "  # between the cells of a row


def table_header(chunk: Chunk) -> slice:
    """The rows that head a table, and what stands above them: all up to the first row that has cells.

    "Prices", "item | euros", "paper | 3" -> slice(0, 2)
    """
    for place, (start, end, *_) in enumerate(chunk.sentences):
        if CELLS in chunk.text[start:end]:
            return slice(0, place + 1)
    return slice(0, 0)


def named_row(chunk: Chunk, sentence: int) -> str:
    """The sentence as it is; the row of a table with each cell named, where the header names them all."""
    start, end = chunk.sentences[sentence][:2]
    text = chunk.text[start:end]
    head = table_header(chunk).stop
    if chunk.kind != "table" or not 0 < head <= sentence:
        return text
    first, last = chunk.sentences[head - 1][:2]
    names = [name.strip() for name in chunk.text[first:last].split(CELLS)]
    cells = [cell.strip() for cell in text.split(CELLS)]
    if len(names) != len(cells) or not all(any(letter.isalpha() for letter in name) for name in names if name):
        return text
    return CELLS.join(f"{name}: {cell}" if name else cell for name, cell in zip(names, cells, strict=True) if cell)
