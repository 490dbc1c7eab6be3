"""Are the cells of tables beside and below the right cells? `python -m benchmarks.tables [--worst] [--text]`

Data: the European half of the ICDAR 2013 table competition (`tables/icdar2013_eu` in $REFDESK_DATA), 27 documents with
the true cells of their tables. Counted as there (Göbel et al., ICDAR 2013): every cell that holds something has a
relation to the nearest one that does on its right, in each of its rows, and to the nearest one below, in each of its
columns. Relations are (text, text, direction), without white space and marks; precision and recall of a document are
over all its tables, so that a table that is none costs precision. Rules are tuned on the documents with an odd number,
but 008 and 012 were looked at too, so the even half is no clean test.
Bar: mean F1 of the documents at least .93, none under .5.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.common import DATA, Figure, write
from refdesk.parsers.build import CELL, ParseOptions
from refdesk.parsers.pdf import parse
from refdesk.types import Parsed, cells_of

Relation = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell and the last row and column that it covers."""

    text: str
    row: int
    column: int
    last_row: int
    last_column: int


def normal(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower() or "".join(text.split())


def relations(cells: Iterable[Cell]) -> Counter[Relation]:
    places: dict[tuple[int, int], Cell] = {}
    for cell in cells:
        if normal(cell.text):
            for row in range(cell.row, cell.last_row + 1):
                for column in range(cell.column, cell.last_column + 1):
                    places[row, column] = cell
    rows, columns = (max((place[axis] for place in places), default=-1) for axis in (0, 1))
    found: set[tuple[int, int, str]] = set()
    by_id = {id(cell): cell for cell in places.values()}
    for (row, column), cell in places.items():
        right = next((places[row, c] for c in range(column + 1, columns + 1) if (row, c) in places), None)
        below = next((places[r, column] for r in range(row + 1, rows + 1) if (r, column) in places), None)
        for other, direction in ((right, "right"), (below, "below")):
            if other is not None and other is not cell:
                found.add((id(cell), id(other), direction))
    return Counter((normal(by_id[a].text), normal(by_id[b].text), direction) for a, b, direction in found)


def true_tables(path: Path) -> Iterator[list[Cell]]:
    for table in ElementTree.parse(path).getroot().iter("table"):
        cells = []
        for region in table.iter("region"):
            down, across = int(region.get("row-increment") or 0), int(region.get("col-increment") or 0)
            for cell in region.iter("cell"):
                row, column = int(cell.get("start-row") or 0) + down, int(cell.get("start-col") or 0) + across
                last_row = int(cell.get("end-row") or row - down) + down
                last_column = int(cell.get("end-col") or column - across) + across
                cells.append(Cell(cell.findtext("content") or "", row, column, last_row, last_column))
        yield cells


def read_tables(parsed: Parsed) -> Iterator[list[Cell]]:
    for block in parsed.blocks:
        if block.kind == "table":
            yield [
                Cell(
                    parsed.text[cell.start : cell.end],
                    cell.row,
                    cell.column,
                    cell.row + cell.rows - 1,
                    cell.column + cell.columns - 1,
                )
                for cell in cells_of(block)
            ]


def rows_of_text(parsed: Parsed) -> Iterator[list[Cell]]:
    """The same from the text alone, which does not say what a merged cell covers."""
    for block in parsed.blocks:
        if block.kind == "table":
            lines = parsed.text[block.start : block.end].split("\n")
            yield [Cell(t, r, c, r, c) for r, line in enumerate(lines) for c, t in enumerate(line.split(CELL))]


def scores(path: Path) -> tuple[int, int, int]:
    """Relations that are right, found, and true of one document."""
    truth = sum(
        (relations(table) for table in true_tables(path.with_name(f"{path.stem}-str.xml"))), Counter[Relation]()
    )
    parsed = parse(path.read_bytes(), ParseOptions())
    tables = rows_of_text(parsed) if "--text" in sys.argv else read_tables(parsed)
    found = sum((relations(table) for table in tables), Counter[Relation]())
    return (truth & found).total(), found.total(), truth.total()


def f1(right: int, found: int, true: int) -> float:
    return 2 * right / (found + true) if right else 0.0


def main() -> None:
    counts = {path.stem: scores(path) for path in sorted((DATA / "tables/icdar2013_eu").glob("*.pdf"))}
    if "--worst" in sys.argv:
        for name, (right, found, true) in sorted(counts.items(), key=lambda item: f1(*item[1])):
            print(f"{name}: F1 {f1(right, found, true):.3f}, precision {right}/{found}, recall {right}/{true}")
    figures = []
    for label, chosen in (
        ("all documents", counts),
        ("odd numbers (tuned on)", {n: c for n, c in counts.items() if int(n[3:6]) % 2}),
        ("even numbers (008 and 012 were looked at)", {n: c for n, c in counts.items() if int(n[3:6]) % 2 == 0}),
    ):
        every = [f1(*count) for count in chosen.values()]
        mean, low = sum(every) / len(every), sum(value < 0.5 for value in every)
        pooled = f1(*(sum(column) for column in zip(*chosen.values(), strict=True)))
        figures.append(Figure(f"{label}: mean F1 of {len(every)}", f"{mean:.3f}", "≥ .93", mean >= 0.93))
        figures.append(Figure(f"{label}: F1 over all relations", f"{pooled:.3f}"))
        figures.append(Figure(f"{label}: documents under .5", str(low), "0", low == 0))
    write("tables", "Tables: cells beside and below the right cells (ICDAR 2013, European half)", figures)


if __name__ == "__main__":
    main()
