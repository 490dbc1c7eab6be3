"""What a table lists: the rows of a section, the rows that a total adds up, the times of its columns;
its rows over a number, the first few of them, and all in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_desk import KINDS, AnyDesk, kept_in, open_either
from refdesk import Refdesk
from refdesk.ask.table_rows import Order, asked_order

STORES = KINDS

BALANCE = """<html><body><p>Balance sheet of Ortel (in millions)</p>
<table><tr><th></th><th>2022</th><th>2021</th></tr>
<tr><td>Current assets</td><td></td><td></td></tr>
<tr><td>Cash on hand</td><td>12.4</td><td>9.1</td></tr>
<tr><td>Debtors</td><td>30.2</td><td>28.8</td></tr>
<tr><td>Stocks of parts</td><td>7.5</td><td>7.0</td></tr>
<tr><td></td><td>50.1</td><td>44.9</td></tr>
<tr><td>Buildings</td><td>88.0</td><td>90.0</td></tr>
<tr><td>Creditors</td><td>(20.3)</td><td>(18.8)</td></tr>
<tr><td>Bank loans</td><td>(40.0)</td><td>(45.0)</td></tr>
<tr><td>Total borrowed funds</td><td>(60.3)</td><td>(63.8)</td></tr>
</table></body></html>"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    with Refdesk(tmp_path_factory.mktemp("parts") / "library") as desk:
        desk.add_texts([{"name": "balance.html", "text": BALANCE, "format": "html"}])
        yield desk


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


@pytest.mark.parametrize(
    ("question", "short"),
    [
        ("What are the components of current assets?", "Cash on hand; Debtors; Stocks of parts"),
        ("What makes up current assets?", "Cash on hand; Debtors; Stocks of parts"),
        ("What are the components of total borrowed funds?", "Creditors; Bank loans"),
        ("Which years are shown in the table?", "2022; 2021"),
    ],
)
def test_what_is_listed_is_the_short_answer_with_a_citation_for_each(desk: AnyDesk, question: str, short: str) -> None:
    answer = desk.ask_sync(question, document="balance.html", cache=False)
    assert answer.short == short
    assert answer.confidence.level != "high"
    assert len(answer.citations) == len(short.split("; "))


@pytest.mark.parametrize(
    "question",
    [
        "What are the components of non-current assets?",  # the opposite of what the table names
        "What are the components of buildings?",  # nothing adds up to them
        "What are the components of assets under construction?",
    ],
)
def test_of_something_else_no_rows_are_listed(desk: AnyDesk, question: str) -> None:
    answer = desk.ask_sync(question, document="balance.html", cache=False)
    assert "; " not in answer.short


def test_neither_its_company_nor_the_highest_asks_for_a_section(store_kind: str, tmp_path: Path) -> None:
    """A wrapped "Net income attributable to Ortel:" is a section called like the company."""
    rows = [("ORTEL:", "", ""), ("Basic", "4.1", "3.9"), ("Diluted", "4.0", "3.8"), ("State taxes", "", "")]
    rows += [("Kentucky", "31.5", "30.2"), ("Texas", "29.4", "33.1")]
    cells = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    text = f"<p>Ortel (in millions)</p><table><tr><th></th><th>2022</th><th>2021</th></tr>{cells}</table>"
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_texts([{"name": "Ortel_2022_report.html", "text": text, "format": "html"}])
        assert "Basic" not in desk.ask_sync("Which competitors does Ortel name?", cache=False).short
        highest = desk.ask_sync("Which of the state taxes was the highest in 2022?", cache=False)
        assert ";" not in highest.short
        assert desk.ask_sync("What are the components of state taxes?", cache=False).short == "Kentucky; Texas"


def test_who_names_one_row_gets_its_number(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What were the current assets debtors in 2022?", document="balance.html", cache=False)
    assert answer.short.startswith("30.2")


@pytest.mark.parametrize(
    ("question", "short", "quotes"),
    [
        ("In which year was cash on hand higher?", "2022", ["| 2022 | 2021", "Cash on hand | 12.4 | 9.1"]),
        ("In which year were debtors less than 29?", "2021", ["| 2022 | 2021", "Debtors | 30.2 | 28.8"]),
    ],
)
def test_a_year_is_proved_by_its_head_and_the_numbers_it_was_chosen_by(
    desk: AnyDesk, question: str, short: str, quotes: list[str]
) -> None:
    answer = desk.ask_sync(question, document="balance.html", cache=False)
    assert answer.short == short
    assert [*dict.fromkeys(citation.quote for citation in answer.citations)] == quotes
    assert all(figure.cells for figure in answer.figures)


def test_columns_are_named_as_programs_write_them_and_the_document_by_its_name(store_kind: str, tmp_path: Path) -> None:
    rows = "\n".join(f"2025-10-{day:02},{day / 10:.1f},{4 + day}" for day in range(1, 21))
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_texts([{"name": "gull-rock.csv", "text": f"day,tide_level_m,windSpeed\n{rows}", "format": "csv"}])
        tide = desk.ask_sync("What is the average tide level at Gull Rock?", cache=False)
        assert tide.short == "1.05"
        assert "Average tide level m" in tide.content
        assert desk.ask_sync("What was the highest wind speed at Gull Rock?", cache=False).short == "24"


PARTS = """# Mooring

| Item | Part | Order number | Mass (kg) | Price (EUR) |
|---|---|---|---|---|
| 1 | Sinker block | M-701 | 350.0 | 410 |
| 2 | Ground chain | M-703 | 84.0 | 390 |
| 3 | Polyester rope | M-708 | 0.9 | 1,210 |
| 4 | Lower swivel | M-704 | 1.1 | 62 |
"""


@pytest.mark.parametrize(
    ("question", "short"),
    [
        ("Which parts weigh more than 10 kg?", "Sinker block; Ground chain"),
        ("Which parts weigh less than 950 grams?", "Polyester rope"),
        ("Which parts cost more than 400 euros?", "Sinker block; Polyester rope"),
        ("Which parts have a price of at least 390?", "Sinker block; Ground chain; Polyester rope"),
    ],
)
def test_rows_over_or_under_a_number_are_found_by_its_unit(
    store_kind: str, tmp_path: Path, question: str, short: str
) -> None:
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_texts([{"name": "mooring.md", "text": PARTS}])
        answer = desk.ask_sync(question, cache=False)
    assert answer.short == short
    assert answer.confidence.level == "medium"
    assert len(answer.citations) == 2 * len(short.split("; "))  # the name and the number of each


@pytest.mark.parametrize("question", ["Which parts weigh more than 10 metres?", "Which parts do not weigh over 10 kg?"])
def test_rows_of_another_unit_or_of_a_denial_are_not_listed(store_kind: str, tmp_path: Path, question: str) -> None:
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_texts([{"name": "mooring.md", "text": PARTS}])
        assert "; " not in desk.ask_sync(question, cache=False).short


STAFF = """# Workshop

| Name | Trade | Hours | Wage (EUR) | Joined |
|---|---|---|---|---|
| Aino | Welder | 31 | 2,900 | 2021-04-12 |
| Bram | Rigger | 40 | 3,400 | 2019-09-01 |
| Cleo | Diver | 12 | 4,100 | 2024-01-15 |
| Dana | Rigger | 38 | 3,050 | 2020-02-03 |
| Emil | Clerk | 12 | 2,650 | 2023-11-20 |
| Total | | 133 | 16,100 | |
"""


@pytest.fixture(scope="module")
def made_workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    with Refdesk(tmp_path_factory.mktemp("workshop") / "library") as desk:
        desk.add_texts([{"name": "workshop.md", "text": STAFF, "format": "markdown"}])
        yield desk


@pytest.fixture(scope="module")
def workshop(store_kind: str, made_workshop: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made_workshop) as found:
        yield found


@pytest.mark.parametrize(
    ("question", "short"),
    [
        pytest.param("Which three names have the highest wage?", "Cleo; Bram; Dana", id="top_three"),
        pytest.param("Which 2 names have the lowest wage?", "Emil; Aino", id="bottom_two"),
        pytest.param("What are the top 2 names by hours?", "Bram; Dana", id="top_n_by"),
        pytest.param("Bottom 2 names by wage", "Emil; Aino", id="bottom_n_by"),
        pytest.param("Which 4 names have the highest hours?", "Bram; Dana; Aino; Cleo; Emil", id="tied_with_the_last"),
        pytest.param("List the names sorted by wage", "Cleo; Bram; Dana; Aino; Emil", id="sorted"),
        pytest.param("Sort the names by wage in ascending order", "Emil; Aino; Dana; Bram; Cleo", id="ascending"),
        pytest.param("List the names from lowest to highest wage", "Emil; Aino; Dana; Bram; Cleo", id="from_to"),
        pytest.param("List the names in order of joined date", "Bram; Dana; Aino; Emil; Cleo", id="earliest_first"),
    ],
)
def test_the_first_few_and_all_in_order_are_listed_without_the_total(
    workshop: AnyDesk, question: str, short: str
) -> None:
    answer = workshop.ask_sync(question, cache=False)
    assert answer.short == short
    assert len(answer.citations) == 2 * len(short.split("; "))  # the name and the number of each
    (figure,) = answer.figures
    first, amount = short.split("; ")[0], figure.formula.split("; ")[0]
    assert amount.startswith(f"{first}: ") and figure.formula in answer.content


@pytest.mark.parametrize(
    "question",
    [
        pytest.param("List the names sorted by height", id="no_such_column"),
        pytest.param("Which eight names have the highest wage?", id="fewer_rows"),
    ],
)
def test_what_the_table_does_not_have_is_not_put_in_order(workshop: AnyDesk, question: str) -> None:
    assert "; " not in workshop.ask_sync(question, cache=False).short


@pytest.mark.parametrize(
    ("question", "order"),
    [
        ("Which is the only diver with 12 hours?", None),
        ("How many of the top 3 riggers are divers?", None),
        ("Who had the highest score in round 2?", None),
        ("Who ordered the parts by mail?", None),
        ("What is the world rank of Paris?", None),
        ("Please show me all names in descending order of wage", Order("Which names has the highest wage?", 0, True)),
        ("Rank the names by wage", Order("Which names has the highest wage?", 0, False)),
        ("What were Bram's two largest orders?", Order("What were Bram's largest orders?", 2)),
        ("Which 300 names have the highest wage?", None),
    ],
)
def test_a_number_that_does_not_count_the_answers_asks_for_no_order(question: str, order: Order | None) -> None:
    assert asked_order(question) == order
