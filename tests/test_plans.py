"""Which rows does a question choose from a table, and when is the table looked at sideways?"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from refdesk.ask.plans import MOST_SINGLE, AskedWords, TableViews
from refdesk.ask.table_view import CellPlan
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import Builder
from refdesk.tables import grid_of


def table(*rows: Sequence[str]) -> TableViews:
    builder = Builder()
    builder.table([list(row) for row in rows])
    return TableViews(grid_of(tables_of(builder.build("html"))[0]))


def plans(question: str, *rows: Sequence[str]) -> list[CellPlan]:
    return table(*rows).plans(AskedWords(question))


def chosen(found: Sequence[CellPlan], kind: str) -> set[tuple[int, ...]]:
    return {one.rows for plan in found if not plan.turned for one in plan.selections if one.kind == kind}


@pytest.mark.parametrize(("cells", "views"), [(("1", "2", "3", "red"), 2), (("1", "2", "blue", "red"), 1)])
def test_a_table_is_looked_at_sideways_when_most_cells_are_numbers(cells: Sequence[str], views: int) -> None:
    made = table(("Ship", "Crew", "Flag"), ("Anna", *cells[::2]), ("Berta", *cells[1::2]))
    assert len(made.views) == views


def test_a_word_that_every_row_has_chooses_none() -> None:
    found = plans(
        "How long is the ship?",
        ("Name", "Length"),
        ("Ship", "10"),
        ("Ship Anna", "20"),
        ("Ship Berta", "30"),
    )
    assert (0,) in chosen(found, "equal") and (0, 1, 2) not in chosen(found, "equal")


@pytest.mark.parametrize(("others", "is_listed"), [(MOST_SINGLE, True), (MOST_SINGLE + 1, False)])
def test_those_that_share_a_cell_are_listed_while_they_are_few(others: int, is_listed: bool) -> None:
    rows = [(f"Ketch {number}", "Bergen") for number in range(others)]
    found = plans("Which have the same harbour as Anna?", ("Ship", "Harbour"), ("Anna", "Bergen"), *rows, ("Fram", "-"))
    assert bool(chosen(found, "same")) is is_listed
    if is_listed:
        assert chosen(found, "same") == {tuple(range(1, others + 1))}


def test_one_is_no_number_to_compare_with() -> None:
    """ "Which one" asks for a row."""
    assert AskedWords("Which one has more than two masts, or twenty?").numbers == [2.0, 20.0]


def test_a_number_that_is_no_year_is_compared_with_other_columns_than_years() -> None:
    rows = (("Ship", "Tons", "Built"), ("Anna", "1,800", "1999"), ("Berta", "2,300", "2004"), ("Fram", "2,050", "2011"))
    assert chosen(plans("Which ships have more than 2100 tons?", *rows), "more") == {(1,)}
    assert chosen(plans("Which ships were built after more than 2003?", *rows), "more") == {(1, 2)}


@pytest.mark.parametrize(("first", "last"), [(1900, 1902), (1899, 1901), (2098, 2099), (2098, 2100)])
def test_years_between_two_are_years(first: int, last: int) -> None:
    years = range(first - 1, last + 2)
    found = plans(f"How many sailed from {first} to {last}?", ("Year", "Ships"), *((str(year), "7") for year in years))
    between = tuple(range(1, last - first + 2))
    assert (between in {one.rows for plan in found for one in plan.selections}) is (first >= 1900 and last < 2100)
