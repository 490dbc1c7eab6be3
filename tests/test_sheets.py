"""Whole sheets: are questions to a sheet of 20,000 rows answered rightly, with their cells, by whoever may read it?"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest

from conftest import run_refdesk
from large_sheets import HEAD, Order, as_csv, as_xlsx, orders, store_sheet
from library_samples import open_desk, seen_by
from memory_desk import ON_DISK, AnyDesk, kept_in
from refdesk import Refdesk
from refdesk.ask.plans import TableViews
from refdesk.ask.sheet_view import SheetView
from refdesk.ask.table_question import describe, weights
from refdesk.ask.table_view import MOST_TOLD, AskedWords
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import Builder
from refdesk.records import StoredTable
from refdesk.tables import grid_of

STORES = ON_DISK

ROWS = 20_000
MADE = orders(ROWS)
BIRK = ("Birk Marine", "returned")
SPRING = frozenset(date(2024, 3, 1) + timedelta(days=days) for days in range(61))
QUESTIONS = [
    "What is the total amount of region North?",
    "How many orders were cancelled?",
    "Which customer has the highest amount?",
    "What is the average price in March 2024?",
    "What is the total amount for North in 2023?",
    "How many orders have more than 80 units?",
    "What is the amount of order O-000017?",
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    with open_desk(tmp_path_factory.mktemp("sheets") / "library") as found:
        store_sheet(found, "orders.csv", as_csv(MADE), "sales")
        yield found


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def amounts(*, region: str = "", year: int = 0) -> list[float]:
    return [one.amount for one in MADE if region in ("", one.region) and year in (0, one.date.year)]


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        (QUESTIONS[0], sum(amounts(region="North"))),
        (QUESTIONS[1], sum(one.status == "cancelled" for one in MADE)),
        (
            QUESTIONS[3],
            np.mean([one.price for one in MADE if (one.date.year, one.date.month) == (2024, 3)]),
        ),
        (QUESTIONS[4], sum(amounts(region="North", year=2023))),
        (QUESTIONS[5], sum(one.units > 80 for one in MADE)),
        (QUESTIONS[6], MADE[17].amount),
        (
            "What is the total amount of shipped orders in region East?",
            sum(one.amount for one in MADE if one.region == "East" and one.status == "shipped"),
        ),
        ("How many orders of Birk Marine were returned?", sum((one.customer, one.status) == BIRK for one in MADE)),
        ("How many customers are in the North?", len({one.customer for one in MADE if one.region == "North"})),
        ("What is the total amount in March and April 2024?", sum(one.amount for one in MADE if one.date in SPRING)),
    ],
)
def test_a_question_to_a_sheet_is_answered_with_its_cells(desk: AnyDesk, question: str, wanted: float) -> None:
    answer = desk.ask_sync(question)
    figure, *_ = answer.figures  # another reading may stand below
    assert figure.number == pytest.approx(wanted, abs=0.005) and answer.short == figure.value
    assert 0 < len(figure.cells) <= MOST_TOLD
    assert sum(len(one.cells) for one in answer.figures) == len(answer.citations)
    pages = {page.page.number: page for page in desk.parts.documents.pages(figure.document_id)}
    for cell in figure.cells:
        citation = answer.citations[cell.citation]
        assert citation.quote and citation.document_name == "orders.csv" and citation.page in pages
    assert [row[figure.marked[0][1]] for row in figure.table[: figure.head_rows]] == [figure.cells[0].column_path[-1]]


def test_the_row_of_the_highest_is_found(desk: AnyDesk) -> None:
    answer = desk.ask_sync(QUESTIONS[2])
    best = max(MADE, key=lambda one: one.amount)
    assert answer.short == best.customer and answer.figures[0].cells[0].row_path == (best.order,)


def test_how_many_cells_were_used_is_said(desk: AnyDesk) -> None:
    answer = desk.ask_sync(QUESTIONS[0])
    count = len(amounts(region="North"))
    assert f"({count:,} values)" in answer.figures[0].formula
    assert any(f"{count:,} cells" in note and str(MOST_TOLD) in note for note in answer.notes)
    assert not desk.ask_sync(QUESTIONS[6]).notes


def test_it_is_fast_once_the_sheet_was_read(desk: AnyDesk) -> None:
    desk.ask_sync(QUESTIONS[0])
    took = []
    for question in (QUESTIONS[4], QUESTIONS[5], QUESTIONS[1]):
        began = time.perf_counter()
        desk.ask_sync(question, cache=False)
        took.append(time.perf_counter() - began)
    assert min(took) < 1.0


@pytest.mark.only_on("sql", reason="how it is shown is the same wherever it comes from")
def test_the_terminal_says_it(desk: Refdesk) -> None:
    where = {"REFDESK_DATABASE_URL": desk.config.database_url}
    printed = json.loads(run_refdesk("--library", desk.folder, "ask", "--json", QUESTIONS[1], **where).stdout)
    assert printed["short"] == f"{sum(one.status == 'cancelled' for one in MADE):,}" and printed["notes"]


def test_who_may_not_read_it_gets_no_figure(desk: AnyDesk) -> None:
    assert desk.ask_sync(QUESTIONS[1]).figures
    assert seen_by(desk, "sales").ask_sync(QUESTIONS[1]).figures
    assert not seen_by(desk, "harbour").ask_sync(QUESTIONS[1]).figures


def test_a_sheet_that_is_replaced_is_read_anew(tmp_path: Path) -> None:
    with open_desk(tmp_path / "library") as desk:
        store_sheet(desk, "orders.xlsx", as_xlsx(MADE[:3000]))
        first = desk.ask_sync(QUESTIONS[1])
        desk.remove("orders.xlsx")
        store_sheet(desk, "orders.xlsx", as_xlsx(MADE[:2000]))
        second = desk.ask_sync(QUESTIONS[1])
        assert [one.figures[0].number for one in (first, second)] == [
            sum(one.status == "cancelled" for one in MADE[:count]) for count in (3000, 2000)
        ]


def test_other_sheets_have_other_words(tmp_path: Path) -> None:
    chance = random.Random(9)
    tickets = [
        (
            f"T{number}",
            date(2024, 1, 1) + timedelta(days=chance.randrange(365)),
            chance.choice(("high", "low")),
            f"{chance.choice(('login failure', 'slow search'))} of user {number}",
            chance.choice(("open", "closed")),
            chance.randrange(20, 300),
        )
        for number in range(1500)
    ]
    rows = [("Ticket", "Opened", "Priority", "Description", "State", "Minutes spent (sum)"), *tickets]
    wanted = {
        # That it was opened says the name of a column, not that it is open.
        "How many high priority tickets were opened in June 2024?": sum(
            one[2] == "high" and one[1].month == 6 for one in tickets
        ),
        "How many tickets mention login failure?": sum("login failure" in one[3] for one in tickets),
        "What is the average minutes spent on open tickets?": np.mean([one[5] for one in tickets if one[4] == "open"]),
    }
    with open_desk(tmp_path / "library") as desk:
        store_sheet(desk, "tickets.csv", "\n".join(",".join(map(str, row)) for row in rows).encode())
        for question, number in wanted.items():
            answer = desk.ask_sync(question)
            assert answer.figures and answer.figures[0].number == pytest.approx(number), (question, answer.content)


# --- a sheet is seen as a small table is -----------------------------------------------------------------------------


def table(found: list[Order]) -> StoredTable:
    builder = Builder()
    rows = [[*map(str, one)] for one in found]
    # What a plain sheet has not: a section, an empty cell, a total, a row that says the same twice.
    rows[20:20] = [["Returned goods", *[""] * 7]]
    rows[30][3] = ""
    rows.append(["Total", *[""] * 6, "99.5"])
    builder.table([HEAD, *rows])
    return tables_of(builder.build("csv"))[0]


def plain(plans: list[object]) -> list[object]:
    """Rows as they are written in both ways of keeping them."""
    return [
        one._replace(  # type: ignore[attr-defined]
            selections=tuple(
                s._replace(rows=tuple(s.rows), among=tuple(s.among), quality=round(s.quality, 6))
                for s in one.selections  # type: ignore[attr-defined]
            ),
            cells=tuple(one.cells),  # type: ignore[attr-defined]
            number=None if one.number is None else round(one.number, 4),  # type: ignore[attr-defined]
        )
        for one in plans
    ]


class Unjoined(SheetView):
    """A sheet whose conditions are not joined, as those of a small table are not."""

    has_records = False


@pytest.mark.parametrize(
    "question", [*QUESTIONS, "How many orders from 2022 to 2023?", "Who returned goods of O-000021?"]
)
def test_the_plans_are_those_of_a_small_table(question: str) -> None:
    stored, asked = table(MADE[:60]), AskedWords(question)
    small = TableViews(grid_of(stored))
    small.views = small.views[:1]
    sheet = TableViews(small.grid, [Unjoined(stored)])
    first, second = small.plans(asked), sheet.plans(asked)
    assert sorted(map(repr, plain(list(first)))) == sorted(map(repr, plain(list(second))))
    by_small, by_sheet = (
        weights().scores(describe(asked, one, plans)) for one, plans in ((small, first), (sheet, second))
    )
    assert np.allclose(np.sort(by_small), np.sort(by_sheet), atol=1e-3)


def test_groups_are_those_of_a_small_table() -> None:
    """Every value is one, the first of them too; an empty cell is none."""
    stored = table(MADE[:60])
    view, small = SheetView(stored), TableViews(grid_of(stored)).views[0]
    for column in range(4):
        own = [(name, tuple(rows)) for name, rows in view.groups(view.rows, column)]
        assert own == [(name, tuple(rows)) for name, rows in small.groups(small.rows, column)]
        assert len(own) == len({text for (text, *_) in own}) > 1


def test_the_first_value_of_a_sheet_without_heads_is_a_group() -> None:
    builder = Builder()
    builder.table([["North", "5"], ["South", "6"], ["North", "7"]], header_rows=0)
    view = SheetView(tables_of(builder.build("csv"))[0])
    assert [(name, tuple(rows)) for name, rows in view.groups(view.rows, 0)] == [("North", (0, 2)), ("South", (1,))]


def test_a_merged_cell_stands_in_every_row_that_it_covers() -> None:
    stored = table(MADE[:60])
    places = stored.columns[2].places.copy()
    places[5, 0] = 3  # over rows 5 to 7
    column = replace(stored.columns[2], places=places)
    stored = replace(stored, columns=(*stored.columns[:2], column, *stored.columns[3:]))
    view = SheetView(stored)
    assert [view.texts[row][2] for row in (4, 5, 6)] == [view.texts[4][2]] * 3
    assert stored.some_rows([5, 6]) == stored.rows()[5:7]
