"""A question as it is put to one table: the clause that asks, and the time in the words of the columns."""

from __future__ import annotations

import pytest

from refdesk.ask.plan_choice import report_period
from refdesk.ask.plans import TableViews, stated
from refdesk.ask.table_question import asked_forms, asking_clause, columns_of, spelled_out
from refdesk.ask.table_view import AskedWords
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.html import parse_markdown
from refdesk.periods import TablePeriod, read_period
from refdesk.records import StoredTable
from refdesk.tables import grid_of
from refdesk.types import Document

QUARTERS = """
| | Three Months Ended June 25, 2022 | Three Months Ended June 26, 2021 | Nine Months Ended June 25, 2022 |
|---|---|---|---|
| Net sales | 82,959 | 81,434 | 304,182 |
| Gross margin | 35,885 | 35,255 | 132,687 |
"""
PRICES = """
| Pump | Price | Weight |
|---|---|---|
| TG-4 | 310 | 12 |
| TG-10 | 420 | 15 |
"""
NOTHING = TablePeriod()


def stored(text: str) -> StoredTable:
    (table,) = tables_of(parse_markdown(text.encode(), ParseOptions()))
    return table


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("In Q3 2022, what were net sales, and why did they grow?", "what were net sales"),
        ("Using only the balance sheet, how much were total assets?", "how much were total assets?"),
        ("What were sales as stated in the latest report?", "What were sales"),
        ("What were sales (in USD millions) in 2019?", "What were sales in 2019?"),
        ("Answer from the notes: what were sales?", "what were sales?"),
        ("What do nuts and bolts cost?", "What do nuts and bolts cost?"),
        ("Which pump and which hose are cheapest?", "Which pump"),
        ("How does it compare with France, Spain and Italy?", "How does it compare with France, Spain and Italy?"),
        ("What was the change in fees (in per cent) in 2021?", "What was the percentage change in fees in 2021?"),
    ],
)
def test_what_stands_around_the_question_is_left_out(text: str, clause: str) -> None:
    assert asking_clause(text) == clause


def test_a_quarter_is_asked_by_the_name_of_its_column() -> None:
    (form,) = asked_forms("What were net sales in the quarter ended June 26, 2021?", stored(QUARTERS), NOTHING)
    assert form.text == "What were net sales in Three Months Ended June 26, 2021?"
    assert form.columns == {2} and not form.is_assumed


def test_the_quarter_of_the_report_is_that_of_its_newest_columns() -> None:
    """A fiscal third quarter may end in June: what the report is called tells which one is meant."""
    table = stored(QUARTERS)
    report = report_period(Document("", "2022_Q3_orchard.pdf", "", "", "ready"))
    assert columns_of(table, read_period("Q3 2022"), report) == {1, 3}
    assert columns_of(table, read_period("Q2 2022"), report) == frozenset()
    (form,) = asked_forms("What was the gross margin in the Q3 2022 10-Q?", table, report)
    assert form.text == "What was the gross margin in Three Months Ended June 25, 2022?"


def test_who_names_no_time_may_mean_the_newest() -> None:
    plain, newest = asked_forms("What was the gross margin?", stored(QUARTERS), NOTHING)
    assert plain.columns is None and plain.text == "What was the gross margin?"
    assert newest.is_assumed and newest.columns == {1, 3}
    assert newest.text == "What was the gross margin in Three Months Ended June 25, 2022?"


def test_a_short_form_is_asked_in_the_words_of_a_label() -> None:
    costs = stored(
        "| | 2022 |\n|---|---|\n| Research and development | 9 |\n| Property, plant and equipment | 4 |\n| US | 1 |"
    )
    for asked, meant in (
        ("What was the R&D expenditure?", "What was the Research and development expenditure?"),
        ("How high was PP&E, net?", "How high was Property plant and equipment, net?"),
        ("What was it in the US?", "What was it in the US?"),
        ("What do RADAR stations cost?", "What do RADAR stations cost?"),
    ):
        assert spelled_out(asked, costs) == meant


def test_a_table_without_times_is_asked_as_it_is() -> None:
    assert [form.text for form in asked_forms("What does the TG-4 weigh?", stored(PRICES), NOTHING)] == [
        "What does the TG-4 weigh?"
    ]
    assert columns_of(stored(PRICES), read_period("2022"), NOTHING) is None


def test_a_table_of_nothing_but_totals_is_said_in_words() -> None:
    """No row of it is one of all."""
    grid = grid_of(stored("| | 2019 | 2018 |\n|---|---|---|\n| Total | 5 | 4 |\n| Total costs | 7 | 6 |\n"))
    table, question = TableViews(grid), AskedWords("What changed in 2019?")
    plans = table.plans(question)
    assert any(not selection.rows for plan in plans for selection in plan.selections)
    assert all(stated(plan, table, question) for plan in plans)


def test_a_code_is_one_name() -> None:
    """Of "10-Q" neither a cell that says 10 nor one that says Q is meant."""
    asked = AskedWords("What was the margin in the 10-Q?")
    assert asked.numbers == []
    assert asked.match(["10"]) == (0, 0.0)
    assert asked.match(["10", "q"])[1] == 1.0
    assert asked.match(["margin", "10"])[1] == 0.5
    assert AskedWords("Which weigh over 10 kg?").numbers == [10.0]
