"""Are pages of several columns read column by column? `python -m benchmarks.columns`

Truth: the columns of two documents (`reading` in $REFDESK_DATA), written down while looking at their pages: for each
band of a page its upper and lower edge and where one column ends and the next begins, in per cent of the page. A page
is right if its words, in the order of the text, visit the columns of each band from left to right, each once, and if no
table holds words of two columns. Bar: all pages of both.

For all other PDFs below `reading` and `formats` no truth is at hand: for them the rows of tables are counted in which
two cells are lines of running text, which a table hardly ever has and text read across its columns always.
"""

from __future__ import annotations

import re
import sys

import numpy as np

from benchmarks.common import DATA, Figure, write
from refdesk.errors import RefdeskError
from refdesk.parsers.build import CELL, ParseOptions
from refdesk.parsers.pdf import parse
from refdesk.types import Parsed

Band = tuple[float, float, tuple[float, ...]]  # upper edge, lower edge, the gutters

TWO, THREE = (50.0,), (35.3, 64.1)
MARGIN = 6.0  # per cent on the left where a note of the printer stands sideways
COLUMNS: dict[str, dict[int, list[Band]]] = {
    "naacl06-shinyama.pdf": {
        1: [(28, 90, TWO)],
        **{page: [(7, 90, TWO)] for page in (2, 3, 4, 5, 6, 8)},
        7: [(32, 90, TWO)],
    },
    "federal-register-2020-17221.pdf": {
        1: [(14, 94, THREE)],
        **{page: [(6.5, 94, THREE)] for page in (2, 3, 4, 15)},
        5: [(6.5, 82.5, THREE)],
        6: [(20, 94, THREE)],
        7: [(6.5, 13, THREE), (28, 33, THREE)],
        8: [],  # one figure
        9: [(83.5, 88, THREE)],
        10: [(62, 66, THREE)],
        11: [],
        12: [],
        13: [(75, 84, THREE)],
        14: [(59, 94, THREE)],
    },
}
_WORDS = re.compile(r"[^\W\d_]{2,}")
LINE_WORDS = 5


def wrong_pages(parsed: Parsed, truth: dict[int, list[Band]]) -> list[int]:
    """The pages whose words do not visit the columns one after the other."""
    geometry = parsed.geometry
    assert geometry is not None
    across, down = geometry.edges[:, [0, 2]].mean(axis=1), geometry.edges[:, [1, 3]].mean(axis=1)
    tables = [(block.start, block.end) for block in parsed.blocks if block.kind == "table"]
    wrong = []
    for page, bands in truth.items():
        for top, bottom, gutters in bands:
            chosen = (geometry.page == page) & (down > top) & (down < bottom) & (across > MARGIN)
            column = np.searchsorted(gutters, across[chosen])
            mixed = any(
                len(set(column[(geometry.start[chosen] >= start) & (geometry.end[chosen] <= end)].tolist())) > 1
                for start, end in tables
            )
            if mixed or (np.diff(column) < 0).any() or not len(column):
                wrong.append(page)
                break
    return wrong


def prose_rows(parsed: Parsed) -> int:
    """Rows of tables with two cells of running text."""
    found = 0
    for block in parsed.blocks:
        if block.kind == "table":
            for row in parsed.text[block.start : block.end].split("\n"):
                cells = [cell for cell in row.split(CELL) if len(_WORDS.findall(cell)) >= LINE_WORDS]
                found += len(cells) > 1 and all(cell[:1].islower() for cell in cells[1:])
    return found


def main() -> int:
    folder = DATA / "reading"
    if not folder.is_dir():
        print(f"no folder {folder}", file=sys.stderr)
        return 2
    figures = []
    for name, truth in COLUMNS.items():
        wrong = wrong_pages(parse((folder / name).read_bytes(), ParseOptions()), truth)
        listed = f" (not {', '.join(map(str, wrong))})" if wrong else ""
        shown = f"{len(truth) - len(wrong)} of {len(truth)} pages{listed}"
        figures.append(Figure(f"{name}, column by column", shown, "all", not wrong))
    files = pages = rows = 0
    notes = []
    for path in sorted([*folder.rglob("*.pdf"), *(DATA / "formats").rglob("*.pdf")]):
        try:
            parsed = parse(path.read_bytes(), ParseOptions())
        except RefdeskError:
            continue
        files, pages, found = files + 1, pages + len(parsed.pages), prose_rows(parsed)
        rows += found
        if found:
            notes.append(f"- {path.name}: {found} rows of running text in tables")
    figures.append(Figure(f"rows of running text in tables of {files} PDFs, {pages} pages", str(rows)))
    write("columns", "Reading order of columns", figures, notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
