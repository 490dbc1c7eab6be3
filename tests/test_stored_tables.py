"""Are the tables of documents kept as cells, and read again? In SQL and in memory alike."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from large_sheets import store_sheet
from library_samples import open_desk
from memory_desk import KINDS, open_either
from refdesk import Refdesk
from refdesk.records import LARGEST, MOST_CELLS, StoredTable
from refdesk.store.documents import SqlTables
from refdesk.tables import grid_of, tables_on

HARBOUR = """# Fees

All fees in thousands of crowns.

| Quay | 2019 | 2020 |
|---|---|---|
| North | 5 | 6.5 |
| South |  | (8) |

Some words between the two.

| Ship | Length |
|---|---|
| Ulla | 12 % |
| Brandt | $4 |
"""


@pytest.fixture(params=KINDS)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with open_either(request.param, tmp_path / "library") as found:
        yield found


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def tables(desk: Any, name: str) -> list[StoredTable]:
    return whole_tables(desk, desk.document(name).id)


def whole_tables(desk: Any, document_id: str) -> list[StoredTable]:
    stored = desk.parts.tables
    found: list[StoredTable] = stored.with_cells(stored.of_document(document_id))
    return found


def test_cells_keep_their_place_their_number_and_what_it_counts(desk: Any, tmp_path: Path) -> None:
    desk.add(write(tmp_path, "fees.md", HARBOUR))
    fees, ships = tables(desk, "fees.md")
    assert (fees.number, fees.page, fees.head_rows, fees.row_count, fees.column_count) == (1, 1, 1, 3, 3)
    assert fees.caption == "Fees All fees in thousands of crowns." and fees.scale == "thousand"
    assert [head.path for head in fees.heads] == [("Quay",), ("2019",), ("2020",)]
    numbers = [(cell.row, cell.column, cell.number, cell.scale) for cell in fees.cells if cell.number is not None]
    assert numbers == [(1, 1, 5.0, "thousand"), (1, 2, 6.5, "thousand"), (2, 2, -8.0, "thousand")]
    assert [(cell.number, cell.unit) for cell in ships.cells if cell.row and cell.column] == [(12.0, "%"), (4.0, "$")]
    (page,) = desk.pages("fees.md")
    for table in (fees, ships):
        assert all(page.text[cell.start : cell.end] == cell.text for cell in table.cells)
        assert table.document_id == desk.document("fees.md").id and table.id
    assert grid_of(fees).texts == (("North", "5", "6.5"), ("South", "", "(8)"))


def test_a_page_knows_where_its_tables_stand(desk: Any) -> None:
    desk.add_text("fees.md", HARBOUR, format="markdown")
    (page,) = desk.pages("fees.md")
    parts = tables_on(page.page, desk.tables("fees.md"))
    assert [page.text[part.start : part.end].split("\n")[0] for part in parts] == [
        "Quay | 2019 | 2020",
        "Ship | Length",
    ]
    assert [part.head_rows for part in parts] == [1, 1]
    half = replace(page.page, start=page.page.start + parts[0].start + 30)  # the table began on the page before
    assert tables_on(half, desk.tables("fees.md"))[0][::2] == (0, 0)


def test_the_names_of_rows_of_all_tables(desk: Any, tmp_path: Path) -> None:
    file = tmp_path / "names.html"
    table = (
        "<table><tr><th></th><th>2022</th></tr><tr><td>{}</td><td>5</td></tr><tr><td>Costs</td><td>6</td></tr></table>"
    )
    file.write_text(f"<p>One</p>{table.format('Sales')}<p>Two</p>{table.format('Profit')}", encoding="utf-8")
    desk.add(file)
    (document,) = [one for one in desk.documents() if one.name == "names.html"]
    names = desk.parts.tables.row_names(document.id)
    assert [name for name in names if name] == ["Sales", "Costs", "Profit"]
    assert desk.parts.tables.row_names("unknown") == []


def test_a_chunk_leads_to_the_whole_table(desk: Any, tmp_path: Path) -> None:
    rows = "\n".join(f"| Ship {number} of the northern harbour | {number} |" for number in range(200))
    desk.add(write(tmp_path, "ships.md", f"| Ship | Length |\n|---|---|\n{rows}\n"))
    desk.add(write(tmp_path, "fees.md", HARBOUR))
    chunks = desk.chunks("ships.md")
    assert len(chunks) > 2
    (ships,) = desk.parts.reader.tables([chunks[1].id])
    assert ships.row_count == 201 and len(ships.cells) == 402
    fees = [chunk.id for chunk in desk.chunks("fees.md")]
    found = desk.parts.reader.tables([*fees, chunks[0].id, chunks[2].id])
    assert [(table.document_id, table.number) for table in found] == [
        *((desk.document("fees.md").id, number) for number in (1, 2)),
        (desk.document("ships.md").id, 1),
    ]
    assert desk.parts.reader.tables([]) == desk.parts.reader.tables([10**9]) == []


def test_a_large_table_comes_with_its_heads_and_is_read_by_column(desk: Any, tmp_path: Path) -> None:
    lines = "\n".join(f"ship {number % 7},{number}" for number in range(3000))
    desk.add(write(tmp_path, "ships.csv", f"Ship,Length\n{lines}\n"))
    chunk = desk.chunks("ships.csv")[0]
    table = desk.parts.reader.tables([chunk.id])[0]
    assert [head.path for head in table.heads] == [("Ship",), ("Length",)]
    columns = desk.parts.reader.columns(table.id, [0, 1])
    ship, length = columns[0], columns[1]
    assert set(ship.texts) == {"Ship", *(f"ship {number}" for number in range(7))}
    held = ship.codes == ship.texts.index("ship 3")
    assert length.numbers[held].sum() == sum(number for number in range(int(table.row_count) - 1) if number % 7 == 3)
    assert desk.parts.reader.columns(10**9, [0]) == {}


def add_sheets(desk: Any, count: int) -> list[StoredTable]:
    """Each has a few more cells than a small table."""
    for number in range(count):
        lines = "\n".join(f"ship {row},{row + number}" for row in range(MOST_CELLS // 2 + 10))
        store_sheet(desk, f"ships-{number}.csv", f"Ship,Length\n{lines}\n".encode())
    names = [desk.document(f"ships-{number}.csv").id for number in range(count)]
    return [desk.parts.tables.of_document(name)[0] for name in names]


def test_sheets_are_read_for_a_question_while_there_is_room(desk: Any) -> None:
    """In the order in which they were found; those that are left out have their heads."""
    found, store = add_sheets(desk, 3), desk.parts.tables
    for _ in range(2):  # the second time they are remembered
        loaded = store.with_cells(found, found[0].cell_count + found[1].cell_count)
        assert [table.is_loaded for table in loaded] == [True, True, False]
        assert [loaded[n].at([(1, 1)])[0].number for n in range(2)] == [0.0, 1.0]
    assert all(table.is_loaded for table in store.with_cells(found, LARGEST))
    assert not any(table.is_loaded for table in store.with_cells(found, MOST_CELLS))


def test_the_sheets_that_were_read_last_are_remembered(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        first, second = add_sheets(desk, 2)
        store = SqlTables(desk.parts.documents, largest=second.cell_count)  # there is room for one
        (kept,) = store.with_cells([first], LARGEST)
        assert store.with_cells([first], LARGEST)[0] is kept
        store.with_cells([second], LARGEST)
        assert store.with_cells([first], LARGEST)[0] is not kept


def test_what_is_replaced_or_removed_takes_its_tables_along(desk: Any, tmp_path: Path) -> None:
    path = write(tmp_path, "fees.md", HARBOUR)
    desk.add(path)
    before = tables(desk, "fees.md")
    path.write_text("| Quay | Fee |\n|---|---|\n| East | 7 |\n", encoding="utf-8")
    desk.add(path)
    (after,) = tables(desk, "fees.md")
    assert [cell.text for cell in after.cells] == ["Quay", "Fee", "East", "7"]
    assert all(desk.parts.reader.columns(table.id, [0, 1]) == {} for table in before)
    desk.move("fees.md", "harbour")
    assert [table.id for table in tables(desk, "fees.md")] == [after.id]
    document = desk.document("fees.md").id
    desk.remove("fees.md")
    assert whole_tables(desk, document) == []
    assert desk.parts.reader.columns(after.id, [0]) == {}


def test_a_backup_has_them(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        desk.add(write(tmp_path, "fees.md", HARBOUR))
        before = [table.cells for table in tables(desk, "fees.md")]
        desk.backup(tmp_path / "whole.tar")
    with open_desk(Refdesk.restore(tmp_path / "whole.tar", tmp_path / "other")) as desk:
        assert [table.cells for table in tables(desk, "fees.md")] == before


def test_a_library_of_an_earlier_version_gets_them(tmp_path: Path) -> None:
    rows = "\n".join(f"| Ship {number} of the northern harbour | {number} |" for number in range(60))
    with open_desk(tmp_path / "library") as desk:
        desk.add(write(tmp_path, "fees.md", HARBOUR))
        desk.add(write(tmp_path, "ships.md", f"# Ships\n\n| Ship | Length in 2020 |\n|---|---|\n{rows}\n"))
        before = {name: [table.cells for table in tables(desk, name)] for name in ("fees.md", "ships.md")}
        captions = [table.caption for table in tables(desk, "fees.md")]
        assert len(desk.chunks("ships.md")) > 2
    with sqlite3.connect(tmp_path / "library" / "library.db") as connection:
        connection.execute("DROP TABLE cells")
        connection.execute("DROP TABLE tables")
    connection.close()
    with open_desk(tmp_path / "library") as desk:
        assert tables(desk, "fees.md") == []
        (finding,) = [one for one in desk.check() if one.name == "tables"]
        assert not finding.well and "reindex" in finding.advice
        desk.reindex()
        assert {name: [table.cells for table in tables(desk, name)] for name in before} == before
        assert [table.caption for table in tables(desk, "fees.md")] == captions
        assert all(one.well for one in desk.check())
        ids = [table.id for table in tables(desk, "fees.md")]
        desk.reindex()
        assert [table.id for table in tables(desk, "fees.md")] == ids, "what is there stays"


def test_a_new_library_misses_none(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        desk.add_text("note", "The quay is long.")
        assert desk.state().has_tables


def test_many_tables_are_read_one_after_the_other(tmp_path: Path) -> None:
    """Whatever is remembered of those before."""
    with open_desk(tmp_path / "library") as desk:
        for number in range(6):
            desk.add_text(f"note {number}", f"| Quay | Fee |\n|---|---|\n| North | {number} |\n", format="markdown")
        store = SqlTables(desk.parts.documents, remembered=20)
        for _ in range(2):
            for number in range(6):
                (table,) = store.with_cells(store.of_document(desk.document(f"note {number}").id))
                assert [cell.number for cell in table.cells if cell.number is not None] == [float(number)]
