"""Figures that a question names, looked for among all rows of the reports that it means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_desk import KINDS, AnyDesk, kept_in
from refdesk import Refdesk
from refdesk.ask.line_items import Report, Wanted, ranked, vectors_of
from refdesk.periods import named_times, read_period
from refdesk.ports import NoReader
from refdesk.providers.shipped import OnnxReader

STORES = KINDS

REPORT = """<html><head><title>Ortel annual report {year}</title></head><body>
<h1>Ortel annual report {year}</h1>
<h2>Consolidated statements of income</h2>
<p>(In millions) Years ended December 31,</p>
<table><tr><th></th><th>{year}</th><th>{before}</th></tr>
<tr><td>Total net sales</td><td>$ 9{year}</td><td>$ 9{before}</td></tr>
<tr><td>Cost of sales</td><td>5400</td><td>5100</td></tr>
<tr><td>Research and development</td><td>1310</td><td>1250</td></tr>
<tr><td>Operating income</td><td>1815</td><td>1225</td></tr></table>
<h2>Consolidated balance sheets</h2>
<p>(In millions) December 31,</p>
<table><tr><th></th><th>December 31, {year}</th><th>December 31, {before}</th></tr>
<tr><td>Merchandise inventories</td><td>1142</td><td>931</td></tr>
<tr><td>Property, plant and equipment, net</td><td>3105</td><td>2903</td></tr>
<tr><td>Total debt</td><td>7{year}</td><td>7{before}</td></tr></table>
<h2>Stock-based compensation expense</h2>
<p>(In millions) Years ended December 31,</p>
<table><tr><th></th><th>{year}</th><th>{before}</th></tr>
<tr><td>Cost of sales</td><td>12</td><td>11</td></tr>
<tr><td>Research and development</td><td>64</td><td>58</td></tr></table>
<h2>Deferred taxes</h2>
<p>(In millions) December 31,</p>
<table><tr><th></th><th>December 31, {year}</th><th>December 31, {before}</th></tr>
<tr><td>Inventory</td><td>(17)</td><td>(15)</td></tr>
<tr><td>Total deferred taxes</td><td>88</td><td>71</td></tr></table>
<h2>Products</h2>
<p>Net sales by product were as follows: (In millions)</p>
<table><tr><th>Year ended December 31,</th><th>{year}</th><th>{before}</th></tr>
<tr><td>Winches</td><td>377</td><td>361</td></tr>
<tr><td>Hoists</td><td>288</td><td>279</td></tr></table>
<h2>Segments</h2>
<p>(In millions) Years ended December 31,</p>
<table><tr><th></th><th>{year}</th><th>{before}</th></tr>
<tr><td>Harbour cranes:</td><td></td><td></td></tr>
<tr><td>Net sales</td><td>4120</td><td>4010</td></tr>
<tr><td>Mining:</td><td></td><td></td></tr>
<tr><td>Net sales</td><td>3902</td><td>3850</td></tr>
<tr><td>Total net sales</td><td>9{year}</td><td>9{before}</td></tr></table>
</body></html>"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder: Path = tmp_path_factory.mktemp("reports")
    for year in (2021, 2022):
        text = REPORT.format(year=year, before=year - 1)
        (folder / f"Ortel_{year}_report.html").write_text(text, encoding="utf-8")
        (folder / f"Brandau_{year}_report.html").write_text(text.replace("Ortel", "Brandau"), encoding="utf-8")
    with Refdesk(folder / "library") as desk:
        desk.add(*sorted(folder.glob("*.html")))
        yield desk


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def said(desk: AnyDesk, question: str) -> str:
    answer = desk.ask_sync(question, settings={"cache.enabled": False})
    assert answer.is_answered, answer.content
    assert answer.confidence.level != "high"  # a neighbour's row may be meant
    for figure in answer.figures:
        for cell in figure.cells:
            assert cell.text in answer.citations[cell.citation].quote
    return answer.content


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is the year end FY2022 total amount of inventories for Ortel?", "$1142 million"),
        ("According to the balance sheet, what was Ortel's net PPNE at the end of 2022?", "$3105 million"),
        ("How much did Ortel spend on research and development in 2022?", "$1310 million"),
    ],
)
def test_the_line_item_is_found_by_any_name(desk: AnyDesk, question: str, expected: str) -> None:
    assert expected.replace("$", "") in said(desk, question).replace("$", "").replace(",", "")


def test_a_change_is_computed_from_both_years(desk: AnyDesk) -> None:
    content = said(desk, "By how much did Ortel's net sales grow from 2021 to 2022?").replace(",", "")
    assert "92022 - 92021" in content
    content = said(desk, "Has Ortel increased its debt on the balance sheet between 2022 and 2021?").replace(",", "")
    assert "72022 - 72021" in content


def test_the_text_above_a_table_says_what_its_rows_are_of(desk: AnyDesk) -> None:
    content = said(desk, "What were Ortel's net sales of winches in FY2022?")
    assert "377" in content and "year ended December 31, 2022" in content, "not all net sales"


def test_amounts_are_compared_in_the_time_that_is_named(desk: AnyDesk) -> None:
    content = said(desk, "How did Ortel's operating income compare to its cost of sales in 2022?").replace(",", "")
    assert "1815" in content and "33.6%" in content
    assert "1225" not in content, "of the year before"


def test_a_figure_over_time_is_that_of_every_report(desk: AnyDesk) -> None:
    content = said(desk, "How has Ortel's total net sales changed over time?").replace(",", "")
    assert "92021" in content
    assert "92022" in content
    assert content.index("92021") < content.index("92022")


def test_what_no_report_speaks_of_is_no_row(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What was Ortel's revenue from the sale of submarines in 2022?")
    assert not answer.figures


def test_another_companys_figures_are_not_read(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What were Tamsel's inventories at the end of 2022?")
    assert not answer.figures


def test_times_are_named_in_their_order() -> None:
    assert named_times("Has debt grown between FY2023 and the FY2022 period?") == ["FY2022", "FY2023"]
    assert named_times("What were sales in the third quarter of 2022?") == ["third quarter of 2022"]
    assert named_times("What were sales?") == []


def test_the_whole_is_likelier_than_its_part(desk: AnyDesk) -> None:
    document = next(one for one in desk.documents() if one.name.startswith("Ortel_2022"))
    tables = desk.parts.tables
    report = Report(document, tables.with_cells(tables.of_document(document.id)))
    vectors = vectors_of(OnnxReader())
    assert vectors is not None
    found = ranked(Wanted("research and development", read_period("2022")), [report], vectors)
    assert [one.cell.text for one in found[:2]] == ["1310", "64"]
    assert found[0].chance > found[1].chance
    assert sum(one.chance for one in found) < 1.0
    costs = ranked(Wanted("COGS", read_period("FY2022")), [report], vectors)
    assert costs[0].cell.text == "5400"
    sales = ranked(Wanted("net sales of harbour cranes", read_period("2022")), [report], vectors)
    assert sales[0].cell.text == "4120"


def test_without_a_reader_nothing_is_renamed() -> None:
    assert vectors_of(NoReader()) is None
    assert NoReader().spelled("COGS") == "COGS"


def test_short_forms_are_spelled_out() -> None:
    reader = OnnxReader()
    assert reader.spelled("FY2016 COGS") == "FY2016 cost of goods sold"
    assert reader.spelled("net PP&E") == "net property, plant and equipment"
    assert reader.spelled("cash") == "cash"
