"""How long is the time that a column is of, and is a figure of another length never taken for it?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_desk import KINDS, AnyDesk, kept_in
from refdesk import Refdesk
from refdesk.answer import Answer
from refdesk.ask.table_question import is_of_other_length, length_asked
from refdesk.periods import TablePeriod, period_from, read_period
from refdesk.records import StoredTable
from refdesk.tables import column_paths

STORES = KINDS


def columns(*head: list[str]) -> list[str]:
    return [" ".join(path) for path in column_paths(head, len(head[0]), is_placed=True)[1:]]


def test_names_of_blocks_set_over_their_last_columns() -> None:
    assert columns(
        ["", "", "Three Months Ended", "", "Six Months Ended"],
        ["(In millions)", "", "December 31,", "", "December 31,"],
        ["", "2022", "2021", "2022", "2021"],
    ) == [f"{length} Months Ended December 31, {year}" for length in ("Three", "Six") for year in (2022, 2021)]


def test_blocks_with_a_column_of_changes() -> None:
    assert columns(
        ["", "", "Three Months Ended", "Percentage", "", "Nine Months Ended", "Percentage"],
        ["", "", "March 31,", "Change", "", "March 31,", "Change"],
        ["", "2023", "2022", "", "2023", "2022", ""],
    ) == [
        "Three Months Ended March 31, 2023",
        "Three Months Ended March 31, 2022",
        "Percentage Change",
        "Nine Months Ended March 31, 2023",
        "Nine Months Ended March 31, 2022",
        "Percentage Change",
    ]


def test_years_in_two_lines_come_again_too() -> None:
    assert columns(
        ["", "", "Three Months Ended", "", "Six Months Ended"],
        ["", "", "", "2022", "2021"],
        ["", "2022", "2021", "", ""],
    ) == ["Three Months Ended 2022", "Three Months Ended 2021", "Six Months Ended 2022", "Six Months Ended 2021"]


def test_what_all_blocks_say_is_the_name_of_none() -> None:
    """The lines of a long head stand over its last column, not over its block."""
    head = [["", *["", "Average"] * 3], ["", *["Shares", "price"] * 3]]
    paths = column_paths(head, 7, is_placed=True, middles=[{2: 2.0, 4: 4.0, 6: 6.0}, {}])
    assert [" ".join(path) for path in paths[1:]] == ["Shares", "Average price"] * 3


@pytest.mark.parametrize(
    ("said", "period"),
    [
        ("the first nine months of 2022", "P9M/2022"),
        ("the first half of 2023", "P6M/2023"),
        ("Nine Months Ended YTD 2022", "P9M/2022"),
        ("Three Months Ended December31, 2022", "P3M/2022-12-31"),
        ("half-year ended 30 June 2023", "P6M/2023-06-30"),
    ],
)
def test_a_length_is_read_without_a_day_and_with_one(said: str, period: str) -> None:
    assert str(read_period(said)) == period
    assert period_from(period) == read_period(said)


def test_the_length_that_a_question_asks_for() -> None:
    for text, months in (
        ("What was revenue in FY2023?", 12),
        ("What was revenue in Q3 2022?", 3),
        ("What was revenue in the latest quarter?", 3),
        ("What was revenue in the first nine months of 2022?", 9),
        ("What were total assets at June 30, 2023?", 0),
        ("What was revenue?", 0),
    ):
        assert length_asked(text, read_period(text)) == months


def test_another_length_is_told_as_far_as_both_are_known() -> None:
    quarter, annual, report = period_from("P3M/2023-09-30"), period_from("P1Y/2023-06-30"), TablePeriod(2023, 3)
    assert is_of_other_length(quarter, 12, report) and not is_of_other_length(annual, 12, report)
    assert not is_of_other_length(period_from("2023-09-30"), 3, report), "what holds on a day has no length"
    assert not is_of_other_length(period_from("2023"), 3, report), "a year over a column of a quarter's report"
    assert is_of_other_length(period_from("2023"), 3, TablePeriod(2023)), "of a year's report it is the year"


# --- from files -------------------------------------------------------------------------------------------------------

TITLE = "<html><head><title>{name}</title></head><body><h1>{name}</h1>"
INCOME = """<h2>Statements of income</h2><p>(In millions)</p>
<table><tr><th>{corner}</th><th>{year}</th><th>{before}</th></tr>
<tr><td>Total net sales</td><td>$ {sales}</td><td>$ {sales_before}</td></tr>
<tr><td>Operating income</td><td>{income}</td><td>{income_before}</td></tr></table>"""
FLOWS = """<h2>Free cash flow</h2><p>Cash flows were (in millions):</p><p>{length} Months Ended</p>
<table><tr><th></th><th>June 30, {year}</th><th>June 30, {before}</th></tr>
<tr><td>Net cash provided by operating activities</td><td>$ {flow}</td><td>$ 611</td></tr>
<tr><td>Purchases of equipment</td><td>(120)</td><td>(118)</td></tr></table>"""
OTHERS = """<h2>Leases</h2><p>(In millions)</p><table><tr><th>{corner}</th><th>{year}</th><th>{before}</th></tr>
<tr><td>Operating lease cost</td><td>31</td><td>30</td></tr>
<tr><td>Finance lease cost</td><td>12</td><td>11</td></tr></table>
<h2>Shares</h2><table><tr><th>{corner}</th><th>{year}</th><th>{before}</th></tr>
<tr><td>Shares repurchased</td><td>3</td><td>2</td></tr><tr><td>Shares issued</td><td>1</td><td>1</td></tr></table>"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder: Path = tmp_path_factory.mktemp("lengths")
    quarter, year = "Three Months Ended June 30,", "Year Ended June 30,"
    for name, corner, length, sales, flow in (
        ("Verlin 2023 Q2 report", quarter, "Nine", 2120, 905),
        ("Verlin 2023 annual report", year, "Twelve", 8310, 1240),
        ("Tamsel 2023 Q2 report", quarter, "Nine", 3307, 718),
    ):
        said = {"year": 2023, "before": 2022, "corner": corner, "length": length, "sales": sales, "flow": flow}
        said |= {"sales_before": sales - 90, "income": sales // 7, "income_before": sales // 8}
        text = "".join((TITLE, INCOME, FLOWS, OTHERS)).format(name=name, **said)
        (folder / f"{name.replace(' ', '_')}.html").write_text(f"{text}</body></html>", encoding="utf-8")
    with Refdesk(folder / "library") as desk:
        desk.add(*sorted(folder.glob("*.html")))
        yield desk


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def tables(desk: AnyDesk, name: str) -> list[StoredTable]:
    return desk.tables(next(one.name for one in desk.documents() if one.name.startswith(name)))


def test_the_corner_says_how_long_the_years_over_its_columns_are(desk: AnyDesk) -> None:
    income, flows, *_ = tables(desk, "Verlin_2023_Q2")
    assert [head.measure.period for head in income.heads[1:]] == ["P3M/2023-06-30", "P3M/2022-06-30"]
    assert [head.measure.period for head in flows.heads[1:]] == ["P9M/2023-06-30", "P9M/2022-06-30"]
    income, flows, *_ = tables(desk, "Verlin_2023_annual")
    assert [head.measure.period for head in income.heads[1:]] == ["P1Y/2023-06-30", "P1Y/2022-06-30"]
    assert [head.measure.period for head in flows.heads[1:]] == ["P1Y/2023-06-30", "P1Y/2022-06-30"]


def ask(desk: AnyDesk, question: str) -> Answer:
    answer = desk.ask_sync(question, settings={"cache.enabled": False})
    assert answer.is_answered, answer.content
    return answer


def test_a_year_is_answered_with_the_year(desk: AnyDesk) -> None:
    for question in ("What were Verlin's total net sales in FY2023?", "What were Verlin's net sales in 2023?"):
        answer = ask(desk, question)
        assert "8310" in answer.content and "year ended June 30, 2023" in answer.content
        assert not any("as asked" in note for note in answer.notes)


def test_a_quarter_is_answered_with_the_quarter(desk: AnyDesk) -> None:
    answer = ask(desk, "What were Verlin's total net sales in Q2 2023?")
    assert "2120" in answer.content and "three months ended June 30, 2023" in answer.content


def test_another_length_is_said_and_never_sure(desk: AnyDesk) -> None:
    answer = ask(desk, "What were Tamsel's total net sales in FY2023?")
    assert "3307" in answer.content and "three months ended June 30, 2023" in answer.content
    assert answer.confidence.level == "low"
    assert "This figure covers a quarter; none for a year, as asked, was found." in answer.notes


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("January–June 2023", "P6M/2023-06-30"),
        ("from Jan. to March 2024", "P3M/2024-03-31"),
        ("October - February 2024", "P5M/2024-02-29"),
        ("May to be decided 2023", "2023"),
    ],
)
def test_months_to_months_are_one_time(text: str, period: str) -> None:
    assert str(read_period(text)) == period


def test_a_lone_time_is_that_of_all_columns_below_it() -> None:
    lone = ["In millions", "", "", "January–June 2023"]
    assert column_paths([lone, ["", "Sales", "Profit", "Costs"]], 4, is_placed=True)[1:] == (
        ("January–June 2023", "Sales"),
        ("January–June 2023", "Profit"),
        ("January–June 2023", "Costs"),
    )
    own = column_paths([lone, ["", "Sales 2022", "Profit", "Costs"]], 4, is_placed=True)
    assert own[1] == ("Sales 2022",)  # columns that have times of their own keep them
