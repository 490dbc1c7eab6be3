"""Figures from tables: the cell that is asked for, what is computed from cells, and where prose answers instead."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import run_refdesk
from http_server import serving
from memory_desk import KINDS, AnyDesk, kept_in, open_either
from pdf_samples import Sheet
from refdesk import Refdesk
from refdesk.answer import decode_answer, encode_answer
from refdesk.ask.table_view import AskedWords
from refdesk.tables import shown_value

STORES = KINDS
REPORT = """# Income

Consolidated statement of income (in millions of dollars)

| | 2019 | 2018 |
|---|---|---|
| Net sales | 1,452 | 1,146 |
| Cost of sales | 900 | 800 |
| Operating income | 552 | 346 |
| Employees | 4,100 | 3,900 |
"""
READINGS = "Gauge,Day,Height\n0418,Monday,312\n0419,Monday,298\n0418,Tuesday,305\n0420,Tuesday,290\n"
BASINS = """# Basins

North basin

| | 2019 | 2018 |
|---|---|---|
| Berths let | 40 | 25 |
| Visitors | 310 | 330 |

South basin

| | 2019 | 2018 |
|---|---|---|
| Berths let | 52 | 31 |
| Visitors | 710 | 530 |
"""
NOTE = "The harbour crew painted the northern quay green in May. They used paint that keeps off mussels."
LINES = [["(in millions)", "2019", "2018"], ["Harbour fees", "$ 310", "$ 275"], ["Dredging costs", "(120)", "(95)"]]


def page_of_fees() -> bytes:
    sheet = Sheet("fees")
    for number, line in enumerate(LINES):
        for text, x in zip(line, (60, 260, 360), strict=True):
            sheet.text(text, x, 700 - 16 * number)
    return sheet.build().data


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("figures")
    (folder / "files").mkdir()
    (folder / "files" / "report.md").write_text(REPORT, encoding="utf-8")
    (folder / "files" / "basins.md").write_text(BASINS, encoding="utf-8")
    (folder / "files" / "readings.csv").write_text(READINGS, encoding="utf-8")
    (folder / "files" / "quay.txt").write_text(NOTE, encoding="utf-8")
    (folder / "files" / "fees.pdf").write_bytes(page_of_fees())
    with Refdesk(folder / "library") as desk:
        desk.add(folder / "files")
    return folder / "library"


@pytest.fixture(scope="module")
def desk(store_kind: str, library: Path) -> Iterator[AnyDesk]:
    with Refdesk(library) as made, kept_in(store_kind, made) as found:
        yield found


def test_a_cell_is_the_answer(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What were net sales in 2018?")
    (figure,) = answer.figures
    assert answer.short == figure.value and "1,146" in answer.short and "million" in answer.short
    assert answer.content.startswith(f"{figure.label}: {figure.value} [1]")
    assert figure.number == 1146 and figure.operation == "value"
    assert [(cell.text, cell.row_path, cell.column_path) for cell in figure.cells] == [
        ("1,146", ("Net sales",), ("2018",))
    ]
    assert answer.is_answered and [claim.verdict for claim in answer.claims] == ["supported"]


BACKLOG = """# Backlog

(Dollars in millions)

| | 2022 | 2021 |
|---|---|---|
| Commercial airplanes | $329,824 | $296,882 |
| Total backlog | $404,381 | $377,499 |
| By contract: | | |
| Contractual backlog | $381,977 | $356,362 |
| Total backlog | $404,381 | $377,499 |
"""


def test_a_figure_that_two_rows_give_is_shown_as_one(store_kind: str, tmp_path: Path) -> None:
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_text("backlog.md", BACKLOG, format="markdown")
        answer = desk.ask_sync("What was the total backlog in 2022?")
        contractual = desk.ask_sync("What was the contractual backlog in 2021?")
    assert answer.content.startswith("Total backlog, 2022: $404,381 million [1]")
    assert contractual.content.startswith("Contractual backlog, 2021: $356,362 million"), "no other row is called so"


def test_a_column_without_a_row_is_asked_of_the_total(store_kind: str, tmp_path: Path) -> None:
    rows = (
        "| | Assets | Capital expenditures |\n|---|---|---|\n| Safety | 5,100 | 454 |\n| Health care | 4,900 | 503 |\n"
    )
    text = f"# Segments in 2018\n\n(Millions)\n\n{rows}| Total company | 10,000 | 957 |\n"
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_text("segments.md", text, format="markdown")
        answer = desk.ask_sync("What was capital expenditure in 2018?")
    assert answer.content.startswith("Total company, Capital expenditures: 957 million")


@pytest.mark.parametrize(
    ("years", "values"), [("2018 and 2019", "1,146; 1,452"), ("2019 and 2018", "1,452; 1,146")], ids=["up", "down"]
)
def test_several_cells_come_in_the_order_of_the_question(desk: AnyDesk, years: str, values: str) -> None:
    answer = desk.ask_sync(f"What were the respective net sales in {years}?")
    assert answer.short == values, "both orders are one answer, whose chance is not halved"


def test_every_cell_that_was_used_is_cited_to_the_letter(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What was the change in net sales from 2018 to 2019?")
    (figure,) = answer.figures
    assert "306" in answer.short and figure.formula.startswith("1,452 − 1,146 = ")
    text = "".join(page.text for page in desk.pages("report.md"))
    for cell in figure.cells:
        citation = answer.citations[cell.citation]
        assert text[slice(*citation.origin)] == cell.text and cell.text in citation.quote
    assert {cell.text for cell in figure.cells} == {"1,452", "1,146"}


def test_what_was_counted_is_cited(desk: AnyDesk) -> None:
    answer = desk.ask_sync("How many readings of gauge 0418 are there?", document="readings.csv")
    (figure,) = answer.figures
    assert figure.operation == "count" and figure.number == 2
    assert [cell.text for cell in figure.cells] == ["0418", "0418"]
    assert len(answer.citations) == 2 and answer.sources[0].document_name == "readings.csv"


def test_another_reading_that_is_as_likely_is_said_with_its_own_cell(desk: AnyDesk) -> None:
    answer = desk.ask_sync("How many berths were let in 2018?", document="basins.md")
    assert {figure.value for figure in answer.figures} == {"25", "31"}
    assert "Also possible: " in answer.content and "North basin" in answer.content and "South basin" in answer.content
    for figure, marker in zip(answer.figures, (1, 2), strict=True):
        (cell,) = figure.cells
        assert answer.citations[cell.citation].marker == marker and cell.text in answer.citations[cell.citation].quote
    assert answer.confidence.level != "high" and "could almost as well" in answer.confidence.reason
    assert [claim.text for claim in answer.claims] == [answer.content[c.start : c.end - 4] for c in answer.claims]


def test_what_the_question_says_itself_is_no_answer(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What height did gauge 0418 record on Tuesday?", document="readings.csv")
    assert answer.short != "0418" and "305" in answer.content


def test_the_cell_is_marked_on_its_page(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What were the harbour fees in 2018?")
    (figure,) = answer.figures
    assert answer.short == "$275 million"
    (citation,) = answer.citations
    assert citation.located and len(citation.boxes) == 1
    box = citation.boxes[0]
    assert box.page == 1 and 55 < box.x < 65  # the column of 2018 stands at 360 of 595 points
    row, column = figure.marked[0]
    assert figure.table[row][column] == figure.cells[0].text and row >= figure.head_rows


def test_prose_answers_what_no_table_does(desk: AnyDesk) -> None:
    answer = desk.ask_sync("Who painted the northern quay green?")
    assert not answer.figures and "The harbour crew painted" in answer.content


def test_what_is_asked_of_somebody_else_is_not_read_from_a_table(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What were the net sales of Borealis Shipping in 2018?")
    assert not answer.figures


def test_figures_are_kept_with_the_answer(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What was operating income in 2019?")
    assert answer.figures and decode_answer(encode_answer(answer)) == answer
    assert json.loads(encode_answer(answer))["figures"][0]["cells"][0]["text"] == "552"


def test_the_terminal_draws_the_row_and_json_has_the_figure(library: Path) -> None:
    shown = run_refdesk("--library", library, "ask", "What was operating income in 2019?").stdout
    assert "552" in shown and "2018" in shown and "346" in shown
    printed = run_refdesk("--library", library, "ask", "--json", "What was operating income in 2019?").stdout
    assert json.loads(printed)["figures"][0]["value"] == json.loads(printed)["short"]


@pytest.mark.only_on("sql", "postgres", reason="a service serves a library that outlives it")
def test_the_service_hands_figures_on(desk: AnyDesk) -> None:
    with serving(desk) as server:
        asked = {"question": "What was operating income in 2019?"}
        answer = server.post("/api/query", json=asked).json()
        assert answer["figures"][0]["cells"][0]["text"] == "552" and answer["short"]
        turn = {"model": "refdesk", "messages": [{"role": "user", "content": asked["question"]}]}
        message = server.post("/v1/chat/completions", json=turn).json()["choices"][0]["message"]
        assert "552" in message["content"] and message["refdesk"]["figures"][0]["value"] == answer["short"]


@pytest.mark.parametrize(
    ("text", "unit", "scale", "shown"),
    [
        ("82,959", "$", "million", "$82,959 million"),
        ("$ (1,146)", "$", "", "-$1,146"),
        ("(120)", "", "million", "-120 million"),
        ("12.5", "%", "million", "12.5%"),
        ("4.00%", "%", "", "4.00%"),
        ("7", "EUR", "", "7 EUR"),
    ],
)
def test_numbers_as_a_person_would_write_them(text: str, unit: str, scale: str, shown: str) -> None:
    assert shown_value(text, unit, scale) == shown


def test_the_day_of_a_date_is_no_number_to_compare_with() -> None:
    assert AskedWords("Which quays took more than 3 ships by September 30, 2023?").numbers == [3.0, 2023.0]
