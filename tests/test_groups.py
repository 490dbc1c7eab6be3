"""Are groups of rows compared? One row a sale, asked which region has the highest total."""

from __future__ import annotations

from collections.abc import Iterator

import openpyxl
import pytest

from format_samples import saved
from memory_desk import KINDS, AnyDesk, kept_in
from refdesk import Refdesk
from refdesk.ask.plans import TableViews
from refdesk.ask.sheet_view import SheetView
from refdesk.ask.table_view import MOST_TOLD, AskedWords, CellPlan, GroupedView, View, foremost
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import Builder
from refdesk.tables import grid_of

STORES = KINDS

HEAD = ["Date", "Region", "Product", "Amount"]
# The largest sale is of the West, the largest total of the South, that of 2023 and of lamps of the East.
ROWS = [
    ["2022-01-04", "South", "Kettle", "400"], ["2022-02-11", "South", "Chair", "350"],
    ["2022-03-09", "West", "Kettle", "900"], ["2022-05-17", "North", "Chair", "120"],
    ["2023-01-21", "South", "Kettle", "380"], ["2023-04-02", "East", "Lamp", "310"],
    ["2023-06-30", "East", "Lamp", "300"], ["2023-08-08", "North", "Lamp", "80"],
]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("groups")
    (folder / "sales.csv").write_text("\n".join(",".join(row) for row in [HEAD, *ROWS]), encoding="utf-8")
    book = openpyxl.Workbook()
    for row in [HEAD, *([*row[:3], int(row[3])] for row in ROWS * 10)]:
        book.active.append(row)
    (folder / "orders.xlsx").write_bytes(saved(book))
    with Refdesk(folder / "library") as found:
        found.add(folder / "sales.csv", folder / "orders.xlsx")
        yield found


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


@pytest.mark.parametrize(
    ("question", "value"),
    [
        pytest.param("Which region has the highest total?", "South", id="the_only_amount"),
        pytest.param("Which region has the lowest total amount?", "North", id="lowest"),
        pytest.param("Which region has the highest average amount?", "West", id="average"),
        pytest.param("Which region had the highest total amount in 2023?", "East", id="of_a_year"),
    ],
)
@pytest.mark.parametrize("document", ["sales.csv", "orders.xlsx"])
def test_the_group_with_the_highest_total_answers(desk: AnyDesk, document: str, question: str, value: str) -> None:
    answer = desk.ask_sync(question, document=document, cache=False)
    assert answer.short == value
    (figure,) = answer.figures
    assert "Amount" in figure.label and figure.formula.startswith(f"{value}: ")
    own = {row[3] for row in ROWS if row[1] == value and ("2023" not in question or "2023" in row[0])}
    assert {cell.text for cell in figure.cells if cell.column_path == ("Amount",)} == own
    assert len(answer.citations) <= MOST_TOLD


def plans(question: str) -> list[CellPlan]:
    builder = Builder()
    builder.table([HEAD, *ROWS])
    return TableViews(grid_of(tables_of(builder.build("csv"))[0])).plans(AskedWords(question))


def test_groups_that_a_question_names_are_compared_with_one_another() -> None:
    found = [plan for plan in plans("What is the difference in total amount between East and North?") if plan.grouped]
    assert 410.0 in {plan.number for plan in found if plan.operation == "apart"}


def test_the_top_two_come_in_their_order() -> None:
    found = plans("Which two regions have the highest total amount?")
    assert ("South", "West") in {plan.texts for plan in found if plan.grouped}


@pytest.mark.parametrize("question", ["Which region is the largest?", "What is the total amount?"])
def test_nothing_is_grouped_where_no_group_or_no_total_is_named(question: str) -> None:
    assert not [plan for plan in plans(question) if plan.grouped]


def test_where_the_first_are_not_clear_there_are_none() -> None:
    builder = Builder()
    builder.table([["Ship", "Crew"], ["Anna", "5"], ["Berta", "4"], ["Cora", "4"], ["Dora", "2"]])
    view = View(grid_of(tables_of(builder.build("csv"))[0]), turned=False)
    assert dict(foremost(view, view.rows, 1, 2)) == {}
    assert dict(foremost(view, view.rows, 1, 3)) == {"max": (0, 1, 2), "min": (3, 1, 2)}


def test_a_sheet_has_the_groups_of_a_small_table() -> None:
    builder = Builder()
    builder.table([HEAD, *ROWS, ["2023-09-09", "", "Lamp", "5"]])
    stored = tables_of(builder.build("csv"))[0]
    both = [View(grid_of(stored), turned=False), SheetView(stored)]
    first, second = (GroupedView(view, 1, view.rows, ["total"], "") for view in both)
    assert [tuple(row) for row in first.texts] == [tuple(row) for row in second.texts]
    assert [tuple(own) for own in first.members] == [tuple(own) for own in second.members]
    assert first.texts[0] == ("South", "1,130")
