"""Files as people keep them: a safety sheet and minutes in plain text, a paper, sheets of a row a month and branch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory_desk import KINDS, AnyDesk, kept_in
from refdesk import Refdesk
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.text import parse
from refdesk.tables import cell_date, months_of, spoken_heads

STORES = KINDS

SAFETY = """SAFETY DATA SHEET  Brightwash 12 glass cleaner
Revision 2, 3 May 2025. Replaces revision 1 of 9 January 2023.

1. Identification
Supplier: Tarn Chemicals, 4 Mill Road, Hexham. Intended use: cleaning of windows. Not to be used on lacquered wood.

2. Dangers
Causes serious eye irritation. Causes mild skin irritation. Not classified as flammable.

3. First aid
Eyes: rinse with water for ten minutes and see a doctor. Skin: wash with soap. Swallowed: drink a glass of water.

4. Handling and storage
Store between 2 and 25 degrees Celsius. Keep away from bleach. Shelf life is 24 months.

5. Disposal
Small quantities may go into the drain. Empty containers are recycled as plastic. Larger quantities are collected.
"""
MINUTES = """Minutes of the harbour users' meeting, 4 March 2026, Sailing Club

Present: Odile Ferrant (chair), Bram Koster, Sinead Walsh.

1. The minutes of 5 February were approved.

2. Slipway. The winch failed the inspection and was closed. Repair costs about 700 euros.

3. Next meeting: 7 April 2026. Bram Koster takes the chair.
"""
TICKET = """Ticket 812 – Printing stops on the second page
Opened: 2 June 2025 by Runa Lind
Product: Inkpress 4.1

As a workaround please switch off "Draft quality" in the settings.
"""
PAPER = """# Swallows in a covered slip

## 1. Results

Of 64 nests 41 were used. The mean brood was 3.8 chicks, and late broods were the smallest.

## Acknowledgements

We thank the boatyard for its ladder. Funded by the Aldous Trust (grant AT-77).
"""
SALES = """month,branch,loaves_sold,revenue_eur
2026-01,Quay,4120,15450.00
2026-01,Market,6890,27560.00
2026-02,Quay,3980,14925.00
2026-02,Market,6425,25700.00
2026-03,Quay,4515,16931.25
2026-03,Market,7240,28960.00
2026-04,Quay,4700,17625.00
2026-04,Market,7015,28060.00
"""
POWER = """Building,Jan,Feb,Mar,Apr
Town hall,41200,38900,35100,28800
Reading room,18700,17650,15900,12400
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("plain")
    files = {
        "brightwash.txt": SAFETY,
        "minutes.txt": MINUTES,
        "ticket.txt": TICKET,
        "swallows.md": PAPER,
        "bakery.csv": SALES,
        "power.csv": POWER,
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    with Refdesk(tmp_path_factory.mktemp("library") / "library") as found:
        assert {outcome.outcome for outcome in found.add(folder)} == {"added"}
        yield found


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


# --- plain text ------------------------------------------------------------------------------------------------------


def headings(text: str) -> list[str]:
    parsed = parse(text.encode(), ParseOptions())
    return [parsed.text[block.start : block.end] for block in parsed.blocks if block.kind == "heading"]


def test_a_document_begins_with_its_title() -> None:
    assert headings(MINUTES) == ["Minutes of the harbour users' meeting, 4 March 2026, Sailing Club"]
    assert headings(TICKET) == ["Ticket 812 – Printing stops on the second page"]
    assert parse(TICKET.encode(), ParseOptions()).title == "Ticket 812 – Printing stops on the second page"


@pytest.mark.parametrize(
    "text",
    [
        "Dear Ms Holm,\n\nthank you for the parcel.\n\nKind regards",
        "It was late when he came.\n\nThe door was shut.",
        "Subject: the parcel\n\nIt came on Monday.",
        "Nora Blix\n12 Quay Street\nHexham\n\nIt came on Monday.",
        "- rope and chain\n\n- fenders",
        "One line and no more of it",
    ],
    ids=["salutation", "sentence", "field", "address", "item", "alone"],
)
def test_what_is_no_title_stays_text(text: str) -> None:
    assert headings(text) == []


def test_a_numbered_heading_may_stand_right_above_its_text() -> None:
    assert headings(SAFETY)[-4:] == ["2. Dangers", "3. First aid", "4. Handling and storage", "5. Disposal"]
    steps = "Changing the pin\n\n1. Lift the blade\n2. Push the pin out\n\n3. Put the new\n   pin in."
    assert headings(steps) == ["Changing the pin"]


def test_one_section_of_a_numbered_document_answers(desk: AnyDesk) -> None:
    eyes = desk.ask_sync("What must I do if Brightwash gets into my eyes?")
    assert "rinse with water" in eyes.content and "Hexham" not in eyes.content and "bleach" not in eyes.content
    dangers = desk.ask_sync("What are the dangers of Brightwash?")
    assert "eye irritation" in dangers.content and "Shelf life" not in dangers.content


def test_one_long_item_of_a_list_answers_by_itself(desk: AnyDesk) -> None:
    """The same where nothing but numbers sets the sections apart."""
    joined = SAFETY.replace("Identification\n", "").replace("Dangers\n", "").replace("First aid\n", "")
    desk.add_text("joined", joined.replace("Handling and storage\n", "").replace("Disposal\n", ""), collection="joined")
    eyes = desk.ask_sync("What must I do if Brightwash gets into my eyes?", collection="joined")
    assert "rinse with water" in eyes.content and "bleach" not in eyes.content


def test_a_title_answers_only_when_it_was(desk: AnyDesk) -> None:
    assert desk.ask_sync("When is the next harbour users' meeting?").short == "7 April 2026"
    assert desk.ask_sync("When was the harbour users' meeting held?").short == "4 March 2026"
    workaround = desk.ask_sync("What was the workaround in ticket 812?")
    assert "Draft quality" in workaround.content and "Printing stops" not in workaround.content


def test_who_paid_stands_in_the_acknowledgements(desk: AnyDesk) -> None:
    answer = desk.ask_sync("Who funded the study of swallows?")
    assert answer.short.removeprefix("the ") == "Aldous Trust" and answer.is_answered


# --- months ----------------------------------------------------------------------------------------------------------


def test_months_are_known_by_their_column() -> None:
    assert [month.words for month in months_of(["03/2025", "11/2025"]).values()] == ["March 2025", "November 2025"]
    assert [month.words for month in months_of(["jan", "Sept.", "März"]).values()] == ["January", "September", "March"]
    assert months_of(["Jan", "Total"]) == {}
    assert months_of(["2026-13", "2026-01"]) == {} == months_of(["2019-20", "2020-21"]) == months_of(["2026-01"])
    assert spoken_heads([("Building",), ("Jan",), ("Feb",), ("Mar",)])[1:] == [("January",), ("February",), ("March",)]
    assert spoken_heads([("Name",), ("May",), ("Status",)]) == [("Name",), ("May",), ("Status",)]


def test_the_day_of_a_month_and_a_year_is_no_day() -> None:
    assert cell_date("March 2026") is None and cell_date("20 March") == cell_date("March 20")


@pytest.mark.parametrize(
    ("question", "short"),
    [
        ("Which branch sold the most loaves in March 2026?", "Market"),
        ("How many loaves did Quay sell in February?", "3980"),
        ("What was the revenue of Quay in 2026-02?", "14925.00"),
        ("What was the total revenue of Market?", "110,280.00"),
        ("In which month did Quay sell the most loaves?", "2026-04"),
        ("How much power did the reading room use in March?", "15900"),
    ],
)
def test_rows_are_told_apart_by_all_that_is_named(desk: AnyDesk, question: str, short: str) -> None:
    assert desk.ask_sync(question).short == short


def test_all_that_a_row_was_found_by_names_it(desk: AnyDesk) -> None:
    (figure, *_) = desk.ask_sync("How many loaves did Quay sell in February?").figures
    assert figure.label == "Quay, 2026-02, loaves_sold"
