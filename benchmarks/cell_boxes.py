"""Does the box of a cell cover the cell's words on the page? 200 random cells of filings; bar 1.00 (issue 11).

A cell goes the whole way: parsed, understood, its words packed as the store keeps them. What stands in its boxes is
told by pdfium alone: the characters whose middles lie in them, spaces left out.

python -m benchmarks.cell_boxes [--filings 6] [--cells 200] [--show]
"""

from __future__ import annotations

import argparse
import random
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pypdfium2

from benchmarks.common import DATA, Figure, write
from refdesk.ingest.parse import parse
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import ParseOptions
from refdesk.records import StoredCell
from refdesk.store.rows import pack_words, unpack_words
from refdesk.types import Box, Page, Parsed, boxes_between

FOLDER = DATA / "pdf_qa" / "financebench" / "pdfs"
SEED = 11


def placed(parsed: Parsed, cell: StoredCell) -> tuple[Page, tuple[Box, ...]]:
    """The page of a cell and its boxes there, from the words as they are kept."""
    assert parsed.geometry is not None
    page = next(page for page in parsed.pages if page.start <= cell.start < page.end)
    words = unpack_words(pack_words(parsed.geometry, page), page)
    return page, boxes_between(words, cell.start, cell.end)


@lru_cache(maxsize=64)
def characters(file: pypdfium2.PdfDocument, number: int) -> list[tuple[str, float, float]]:
    """Each character of a page with its middle in per cent of the page as displayed."""
    page = file[number - 1]
    text = page.get_textpage()
    left, bottom, right, top = page.get_bbox()
    found = []
    for at in range(text.count_chars()):
        x0, y0, x1, y1 = text.get_charbox(at, loose=True)
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        found.append((text.get_text_range(at, 1), 100 * (x - left) / (right - left), 100 * (top - y) / (top - bottom)))
    return found


def inside(found: list[tuple[str, float, float]], boxes: tuple[Box, ...]) -> str:
    return "".join(
        text
        for text, x, y in found
        if any(box.x <= x <= box.x + box.width and box.y <= y <= box.y + box.height for box in boxes)
    )


def plain(text: str) -> str:
    return "".join(sorted("".join(unicodedata.normalize("NFKC", text).split()).replace("\u00ad", "")))


def cells_of_filings(count: int, cells: int) -> Iterator[tuple[Path, Parsed, Any, StoredCell]]:
    chance = random.Random(SEED)
    files = sorted(FOLDER.glob("*.pdf"))
    chosen = chance.sample(files, min(count, len(files)))
    for number, path in enumerate(chosen):
        parsed = parse(path.read_bytes(), path.name, ParseOptions())
        file = pypdfium2.PdfDocument(path)
        every = [cell for table in tables_of(parsed) for cell in table.cells]
        share = cells // len(chosen) + (number < cells % len(chosen))
        for cell in chance.sample(every, min(share, len(every))):
            yield path, parsed, file, cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filings", type=int, default=6)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--show", action="store_true", help="those that are not covered")
    given = parser.parse_args()
    covered = exact = total = 0
    names = set()
    for path, parsed, file, cell in cells_of_filings(given.filings, given.cells):
        page, boxes = placed(parsed, cell)
        said, wanted = inside(characters(file, page.number), boxes), plain(cell.text)
        names.add(path.name)
        total += 1
        exact += plain(said) == wanted
        is_covered = all(plain(said).count(letter) >= wanted.count(letter) for letter in set(wanted))
        covered += is_covered
        if given.show and plain(said) != wanted:
            print(f"{path.name} p. {page.number}: {cell.text!r} is {said!r} in {boxes}")
    write(
        "cell-boxes",
        "Boxes of cells",
        [
            Figure(
                f"box covers the cell's words ({total} cells of {len(names)} filings)",
                f"{covered / total:.3f}",
                "1.00",
                covered == total,
            ),
            Figure("and nothing else", f"{exact / total:.3f}"),
        ],
    )


if __name__ == "__main__":
    main()
