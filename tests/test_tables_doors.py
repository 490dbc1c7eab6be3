"""What was understood of a document's tables, in the terminal and over HTTP, against real programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import run_refdesk
from http_server import Server, serving
from library_samples import seen_by
from memory_desk import ON_DISK, kept_in
from pdf_samples import Sheet
from refdesk import Refdesk
from refdesk.errors import NotFound
from refdesk.records import MOST_CELLS

STORES = ON_DISK

NOTE = """# Fees

In thousands of crowns.

| Quay | 2019 | Q1 2020 |
|---|---|---|
| North | 5 | 6.5 % |
| South |  | (8) |

| Ship | Length |
|---|---|
| Ulla | 12 |
"""


def page_of_figures() -> bytes:
    sheet = Sheet("figures")
    lines = [["(in millions)", "2019", "2018"], ["Net sales", "1,452", "1,146"], ["Cost of sales", "(900)", "(800)"]]
    lines += [[f"Item {number}", f"{number}1", f"{number}2"] for number in range(2, 6)]
    for number, line in enumerate(lines):
        for text, x in zip(line, (60, 260, 360), strict=True):
            sheet.text(text, x, 700 - 16 * number)
    return sheet.build().data


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("tables")
    (folder / "fees.md").write_text(NOTE, encoding="utf-8")
    (folder / "figures.pdf").write_bytes(page_of_figures())
    rows = "".join(f"ship {number},{number},{number % 5}\n" for number in range(2500))
    (folder / "ships.csv").write_text(f"Ship,Length,Age\n{rows}", encoding="utf-8")
    with Refdesk(folder / "library", settings={"ingest.workers": 1, "ingest.ocr": False}) as found:
        found.add(folder / "fees.md", folder / "figures.pdf", folder / "ships.csv")
        yield found


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[Refdesk]:
    with kept_in(store_kind, made) as found:
        yield found


@pytest.fixture(scope="module")
def server(desk: Refdesk) -> Iterator[Server]:
    with serving(desk) as found:
        yield found


def listed(server: Server, desk: Refdesk, name: str, **parameters: Any) -> dict[str, Any]:
    answer = server.get(f"/api/documents/{desk.document(name).id}/tables", params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_tables_come_with_their_cells(server: Server, desk: Refdesk) -> None:
    found = listed(server, desk, "fees.md")
    assert (found["total"], found["document_id"]) == (2, desk.document("fees.md").id)
    fees = found["tables"][0]
    assert (fees["number"], fees["page"], fees["scale"], fees["row_count"], fees["next_row"]) == (
        1,
        1,
        "thousand",
        3,
        None,
    )
    assert fees["columns"][2] == {"path": ["Q1 2020"], "unit": "", "scale": "thousand", "period": "2020-Q1"}
    (eight,) = [cell for cell in fees["cells"] if cell["text"] == "(8)"]
    text = desk.pages("fees.md")[0].text
    assert text[eight["start"] : eight["end"]] == "(8)"
    assert {name: eight[name] for name in ("row", "column", "number", "scale", "period", "page", "boxes")} == {
        "row": 2,
        "column": 2,
        "number": -8.0,
        "scale": "thousand",
        "period": "2020-Q1",
        "page": 1,
        "boxes": [],
    }


def test_a_cell_of_a_page_has_its_box(server: Server, desk: Refdesk) -> None:
    (table,) = listed(server, desk, "figures.pdf")["tables"]
    words = server.get(f"/api/documents/{desk.document('figures.pdf').id}/pages/1/text").json()
    sales = next(cell for cell in table["cells"] if cell["text"] == "1,452")
    assert (sales["number"], sales["scale"], sales["period"], sales["page"]) == (1452.0, "million", "2019", 1)
    (box,) = sales["boxes"]
    inside = [
        words["text"][word["start"] : word["end"]]
        for word in words["words"]
        if box["x"] <= word["x"] + word["width"] / 2 <= box["x"] + box["width"]
        and box["y"] <= word["y"] + word["height"] / 2 <= box["y"] + box["height"]
    ]
    assert inside == ["1,452"]


def test_some_of_them(server: Server, desk: Refdesk) -> None:
    second = listed(server, desk, "fees.md", limit=1, offset=1)
    assert [table["number"] for table in second["tables"]] == [2] and second["total"] == 2
    assert listed(server, desk, "fees.md", number=2)["tables"] == second["tables"]
    assert listed(server, desk, "fees.md", page=7) | {"document_id": ""} == {
        "document_id": "",
        "tables": [],
        "total": 0,
        "limit": 10,
        "offset": 0,
    }
    bare = listed(server, desk, "fees.md", cells=False)
    assert [table["cells"] for table in bare["tables"]] == [[], []] and bare["tables"][0]["cell_count"] == 8


def test_a_large_table_is_read_in_pieces(server: Server, desk: Refdesk) -> None:
    row, cells, pieces = 0, [], 0
    while row is not None:
        (table,) = listed(server, desk, "ships.csv", row=row)["tables"]
        assert len(table["cells"]) <= MOST_CELLS
        cells += table["cells"]
        row = table["next_row"]
        pieces += 1
    assert pieces == 2 and len(cells) == table["cell_count"] == 7503
    assert [cell["number"] for cell in cells if cell["column"] == 1 and cell["row"]] == list(range(2500))
    assert {cell["page"] for cell in cells} == {1, 2, 3}
    assert listed(server, desk, "ships.csv", row=9999)["tables"][0]["cells"] == []


def test_what_is_wrong_is_said(server: Server, desk: Refdesk) -> None:
    assert server.get("/api/documents/nothing/tables").status_code == 404
    wrong = server.get(f"/api/documents/{desk.document('fees.md').id}/tables", params={"limit": 0})
    assert wrong.status_code == 400 and "limit" in wrong.json()["message"]
    (table, *_) = desk.tables("fees.md")
    with pytest.raises(NotFound):
        seen_by(desk, "elsewhere").tables("fees.md")
    with pytest.raises(NotFound):
        seen_by(desk, "elsewhere").cells(table)


def test_the_terminal_lists_them(desk: Refdesk) -> None:
    where = {"REFDESK_DATABASE_URL": desk.config.database_url}

    def shown(*arguments: str) -> str:
        done = run_refdesk("--library", desk.folder, "show", *arguments, **where)
        assert done.returncode == 0, done.stderr
        return done.stdout

    text = shown("fees.md", "--tables")
    assert re.search(r"1\s+page 1, 2 rows, 3 columns, in thousands\s+Fees In thousands of crowns\.", text)
    assert re.search(r"Q1 2020\s+thousand, 2020-Q1", text)
    assert "This document has no tables." in shown("fees.md", "--tables", "--page", "2")
    found = json.loads(shown("fees.md", "--tables", "--json"))
    assert [(table["number"], table["caption"], len(table["columns"])) for table in found] == [
        (1, "Fees In thousands of crowns.", 3),
        (2, "Fees In thousands of crowns.", 2),
    ]
    assert "cells" not in found[0] and found[0]["columns"][1]["period"] == "2019"


def test_no_place_on_the_disk_is_told(server: Server, desk: Refdesk) -> None:
    assert str(Path(desk.folder)) not in json.dumps(listed(server, desk, "fees.md"))
