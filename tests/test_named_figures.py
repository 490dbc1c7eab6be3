"""Line items by any of their names, wholes before parts, rates, ratios of two years, growth, shares, sums."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_desk import ON_DISK, AnyDesk, kept_in
from refdesk import Refdesk
from refdesk.answer import Answer
from refdesk.ask.formula_text import formulas_in, ratio_named
from refdesk.ask.line_items import other_names, undotted
from refdesk.ask.table_question import core_name, things_asked

STORES = ON_DISK

REPORT = """<html><head><title>{name} annual report 2022</title></head><body>
<h1>{name} annual report 2022</h1>
<h2>Consolidated statements of earnings</h2>
<p>(In millions, except per share amounts) Years ended December 31,</p>
<table><tr><th></th><th>2022</th><th>2021</th></tr>
<tr><td>Net sales</td><td>$ {sales}</td><td>$ 8,000</td></tr>
<tr><td>Cost of sales</td><td>5,400</td><td>5,000</td></tr>
<tr><td>Research and development expense, net</td><td>(1,310)</td><td>(1,250)</td></tr>
<tr><td>Net earnings attributable to {name} shareholders</td><td>1,080</td><td>720</td></tr>
<tr><td>Earnings per share, diluted</td><td>$ 4.32</td><td>$ 2.88</td></tr>
<tr><td>Average shares, diluted</td><td>250</td><td>250</td></tr></table>
<h2>Balance sheets</h2>
<p>(In millions) December 31,</p>
<table><tr><th></th><th>December 31, 2022</th><th>December 31, 2021</th></tr>
<tr><td>Total assets</td><td>$ 12,600</td><td>$ 11,900</td></tr>
<tr><td>Total debt</td><td>4,250</td><td>4,420</td></tr>
<tr><td>Total shareholders’ equity</td><td>4,200</td><td>3,800</td></tr></table>
<h2>Results of the harbour segment</h2>
<p>(In millions) Years ended December 31,</p>
<table><tr><th></th><th>2022</th><th>2021</th></tr>
<tr><td>Research and development</td><td>$ 410</td><td>$ 390</td></tr></table>
<h2>Regions</h2>
<p>Net sales by region: (In millions) Years ended December 31,</p>
<table><tr><th></th><th>2022</th><th>2021</th><th>% change</th></tr>
<tr><td>U.S.</td><td>$ 4,635</td><td>$ 4,500</td><td>3.0 %</td></tr>
<tr><td>International</td><td>4,365</td><td>3,500</td><td>24.7 %</td></tr></table>
<h2>Divisions</h2>
<p>(In millions) Years ended December 31,</p>
<table><tr><th></th><th>2022</th><th>2021</th></tr>
<tr><td>Net sales:</td><td></td><td></td></tr>
<tr><td>Winches</td><td>$ 3,300</td><td>$ 3,100</td></tr>
<tr><td>Operating income:</td><td></td><td></td></tr>
<tr><td>Winches</td><td>$ 720</td><td>$ 610</td></tr></table>
<h2>People</h2>
<p>Our hoists are also sold under the name Velora. Velora hoists did well. {name} had 8,450 employees at the end
of 2022.</p>
<table><tr><th></th><th>December 31, 2022</th><th>December 31, 2021</th></tr>
<tr><td>Employee benefits</td><td>$ 388</td><td>$ 371</td></tr></table>
</body></html>"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder: Path = tmp_path_factory.mktemp("named")
    for name, sales in (("Ortel", "9,000"), ("Brandau", "7,700")):
        (folder / f"{name}_2022_report.html").write_text(REPORT.format(name=name, sales=sales), encoding="utf-8")
    with Refdesk(folder / "library") as desk:
        desk.add(*sorted(folder.glob("*.html")))
        yield desk


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def asked(desk: AnyDesk, question: str) -> Answer:
    answer = desk.ask_sync(question, settings={"cache.enabled": False})
    for figure in answer.figures:
        for cell in figure.cells:
            assert figure.operation == "formula" or cell.text in answer.citations[cell.citation].quote
    return answer


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What was Ortel's net income in 2022?", "1,080"),
        ("What was Ortel's revenue in 2022?", "9,000"),
        ("What was Ortel's COGS in 2021?", "5,000"),
        ("How much did Ortel spend on research and development in 2022?", "1,310"),
        ("What were Ortel's diluted earnings per share in 2022?", "$4.32"),
        ("What were Ortel's US sales in 2022?", "4,635"),
    ],
)
def test_a_line_item_is_found_by_any_of_its_names(desk: AnyDesk, question: str, expected: str) -> None:
    answer = asked(desk, question)
    assert expected in answer.content.split("\n")[0], answer.content
    assert answer.confidence.level != "high"


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What was Ortel's gross margin in 2022?", ["40.00%", "Gross profit, 2022: $3,600 million"]),
        ("Did Ortel's net profit margin improve in 2022?", ["12.00%", "9.00%", "+3.0 percentage points"]),
        ("What was Ortel's return on equity in 2022?", ["27.00%"]),
        ("What was Ortel's debt-to-equity ratio in 2022?", ["2.00"]),
        ("Is Ortel a capital-intensive business based on 2022 data?", ["1.40"]),
        ("What share of Ortel's net sales came from winches in 2022?", ["36.67%"]),
        ("What is the sum of Ortel's net sales in 2021 and 2022?", ["17,000"]),
        ("What was the ratio of total debt to total assets at Ortel in 2022?", ["0.34 = 4,250 / 12,600"]),
        ("How did Ortel's winches operating income change from 2021 to 2022?", ["720 - 610"]),
        ("What was Ortel's net sales growth in 2022?", ["12.5%", "(9,000 - 8,000) / 8,000"]),
        ("By what percentage did Ortel's net sales increase in 2022?", ["12.5%", "(9,000 - 8,000) / 8,000"]),
        ("Was there any drop in Ortel's total debt between 2021 and 2022?", ["4,250 - 4,420"]),
        (
            "How did Ortel's US sales growth compare to its international sales growth in 2022?",
            ["the table says 3.0 %", "the table says 24.7 %"],
        ),
    ],
)
def test_what_is_computed(desk: AnyDesk, question: str, expected: list[str]) -> None:
    answer = asked(desk, question)
    assert [text for text in expected if text not in answer.content] == [], answer.content
    assert answer.figures
    assert answer.confidence.level != "high"


def test_the_year_in_which_a_figure_was_higher(desk: AnyDesk) -> None:
    assert asked(desk, "In which year did Ortel have more total debt, 2021 or 2022?").short == "higher in 2021"


def test_every_company_that_is_named_has_its_figure(desk: AnyDesk) -> None:
    answer = asked(desk, "Which company had the higher revenue in 2022, Ortel or Brandau?")
    assert "Ortel: Net sales, year ended December 31, 2022: $9,000 million" in answer.content
    assert "Brandau: Net sales, year ended December 31, 2022: $7,700 million" in answer.content


@pytest.mark.parametrize(
    "question",
    [
        "What was Ortel's revenue from submarines in 2022?",
        "What was Ortel's Velora revenue in 2022?",
        "How many employees did Ortel have at the end of 2022?",
        "How many winches did Ortel sell in 2022?",
        "How many people has Ortel's research and development in 2022?",
    ],
)
def test_no_row_of_another_thing_is_sure(desk: AnyDesk, question: str) -> None:
    answer = asked(desk, question)
    assert not answer.figures or answer.confidence.level == "low", answer.content


def test_the_line_item_of_a_name() -> None:
    assert core_name("Research and development expense, net") == "Research and development"
    assert core_name("Net income attributable to common shareholders") == "Net income"
    assert core_name("Net income attributable to noncontrolling interests").endswith("interests")
    assert core_name("Interest expense") == "Interest expense"
    assert core_name("Property and equipment, net") == "Property and equipment, net"
    assert "net earnings" in other_names("Net income")
    assert not other_names("Winches")
    assert undotted("U.S. and U.K. sales in no. 5") == "US and UK sales in no. 5"


def test_a_period_is_no_thing() -> None:
    clause = "Has Ortel increased its debt between FY2023 and the FY2022 period"
    assert [clause[start:end] for start, end in things_asked(clause, {"ortel"})] == ["debt"]
    clause = "What sales were disclosed by Ortel in 2022"
    assert [clause[start:end] for start, end in things_asked(clause, {"ortel"})] == ["sales"]


def test_ratios_that_have_two_formulas() -> None:
    assert ratio_named("Is it a capital-intensive business?") == "capital intensive"
    assert len(formulas_in("Is Ortel capital intensive based on 2022 data?")) == 2
    both = formulas_in("Was the current ratio better in 2022 than in 2021?", ("2021", "2022"))
    assert [formula.name for formula in both] == ["current ratio, 2021", "current ratio, 2022"]


def test_a_figure_is_no_share_of_itself(desk: AnyDesk) -> None:
    answer = asked(desk, "What share of Ortel's net sales came from outside the continent in 2022?")
    assert "100.00%" not in answer.content


QUARTER = """<html><head><title>{title}</title></head><body><h1>{title}</h1>
<h2>Statements of income</h2><p>(In millions) Three months ended</p>
<table><tr><th></th><th>{now}</th><th>{before}</th></tr>
<tr><td>Revenue</td><td>$ {revenue}</td><td>$ 5,931</td></tr>
<tr><td>Cost of revenue</td><td>4,720</td><td>2,754</td></tr></table>
<h2>Markets</h2><p>Revenue by market: (In millions) Three months ended</p>
<table><tr><th></th><th>{now}</th><th>{before}</th></tr>
<tr><td>Data Center</td><td>$ {center}</td><td>$ 3,833</td></tr>
<tr><td>Gaming</td><td>2,856</td><td>1,574</td></tr></table>
<h2>Balance sheets</h2><table><tr><th></th><th>{now}</th></tr>
<tr><td>Total assets</td><td>$ 54,148</td></tr><tr><td>Inventories</td><td>4,779</td></tr></table>
<h2>Cash flows</h2><table><tr><th></th><th>{now}</th></tr><tr><td>Net income</td><td>$ 9,243</td></tr></table>
</body></html>"""


def test_a_part_is_not_the_whole(tmp_path: Path) -> None:
    """Revenue of the data center is not all revenue, and the quarter is that of the report."""
    for name, title, now, before, revenue, center in (
        ("2023 Q3 VLTX", "Veltrix Corporation", "September 30, 2023", "September 30, 2022", "18,120", "14,514"),
        ("2023 Q2 VLTX", "Veltrix Corporation", "June 30, 2023", "June 30, 2022", "13,507", "10,323"),
        ("2023 Q1 VLTX", "Veltrix Corporation", "March 31, 2023", "March 31, 2022", "7,192", "4,284"),
    ):
        page = QUARTER.format(title=title, now=now, before=before, revenue=revenue, center=center)
        (tmp_path / f"{name}.html").write_text(page, encoding="utf-8")
    with Refdesk(tmp_path / "library") as desk:
        desk.add(*sorted(tmp_path.glob("*.html")))
        answer = asked(desk, "What was Veltrix's data center revenue in the third quarter of 2023?")
        assert "14,514" in answer.content.split("\n")[0], answer.content
