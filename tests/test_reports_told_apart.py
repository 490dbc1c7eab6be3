"""Of what the tables of reports hold under like names, what a question means: the amount, the whole, its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from refdesk import Refdesk
from refdesk.answer import Answer
from refdesk.ask.line_items import ItemCell, Wanted, line_items, ranked, vectors_of
from refdesk.ask.named_figures import is_of_one_brand, is_old, plan_of, report_of
from refdesk.periods import read_period
from refdesk.providers.shipped import OnnxReader

Rows = Sequence[Sequence[str]]


def page(title: str, *tables: tuple[str, Rows]) -> str:
    """A report of tables, each below its heading; the first row of a table is its head."""
    parts = [f"<html><head><title>{title}</title></head><body><h1>{title}</h1>"]
    for heading, (head, *rows) in tables:
        lines = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"]
        lines += ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
        parts.append(f"<h2>{heading}</h2><table>{''.join(lines)}</table>")
    return "".join((*parts, "</body></html>"))


YEARS = ("", "2022", "2021")
STATEMENTS: tuple[tuple[str, Rows], ...] = (
    (
        "Consolidated statements of income (In millions) Years ended December 31,",
        (
            YEARS,
            ("Total revenue", "9,410", "9,120"),
            ("Provisions for credit losses", "", ""),
            ("Loans to members", "1,514", "1,155"),
            ("Receivables", "627", "573"),
            ("Total provisions for credit losses", "2,141", "1,728"),
            ("Net income", "1,815", "1,225"),
        ),
    ),
    (
        "Consolidated balance sheets (In millions) December 31,",
        (
            YEARS,
            ("Current liabilities:", "", ""),
            ("Term debt", "716", "911"),
            ("Non-current liabilities:", "", ""),
            ("Term debt", "3,807", "3,998"),
            ("Total liabilities", "7,211", "7,502"),
        ),
    ),
    (
        "Inventories (In millions) December 31,",
        (
            YEARS,
            ("Raw materials", "278", "317"),
            ("Work in process", "612", "590"),
            ("Finished goods", "292", "255"),
            ("Total inventories", "1,182", "1,162"),
        ),
    ),
    (
        "Segment revenue and operating income were as follows during the periods presented: (In millions)",
        (
            YEARS,
            ("Revenue", "", ""),
            ("Harbour Cranes", "4,120", "4,010"),
            ("Mining Hoists", "5,290", "5,110"),
            ("Operating Income", "", ""),
            ("Harbour Cranes", "884", "846"),
            ("Mining Hoists", "1,131", "1,019"),
        ),
    ),
    (
        "Reclassifications out of other comprehensive income (In millions) Years ended December 31,",
        (YEARS, ("Pension plans", "312", "296"), ("Tax effect", "(108)", "(102)"), ("Net of tax", "204", "194")),
    ),
    (
        "Reconciliation of the effective income tax rate",
        (
            YEARS,
            ("Statutory US tax rate", "21.0 %", "21.0 %"),
            ("State income taxes", "(0.4) %", "0.6 %"),
            ("Effective worldwide tax rate", "9.6 %", "17.8 %"),
        ),
    ),
    (
        "Earnings per share computations",
        (
            YEARS,
            ("Earnings per share attributable to common shareholders – basic", "$ 10.21", "$ 8.04"),
            ("Earnings per share attributable to common shareholders – diluted", "$ 10.18", "$ 8.01"),
        ),
    ),
)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder: Path = tmp_path_factory.mktemp("reports")
    for name in ("Ortel", "Brandau"):
        text = page(f"{name} annual report 2022", *STATEMENTS)
        (folder / f"{name}_2022_report.html").write_text(text, encoding="utf-8")
    with Refdesk(folder / "library") as desk:
        desk.add(*sorted(folder.glob("*.html")))
        yield desk


def ask(desk: Refdesk, question: str) -> Answer:
    return desk.ask_sync(question, settings={"cache.enabled": False})


def named_rows(desk: Refdesk, what: str) -> list[str]:
    """The numbers of 2022 that Ortel's report has under this name, likeliest first."""
    document = next(one for one in desk.documents() if one.name.startswith("Ortel"))
    vectors = vectors_of(OnnxReader())
    assert vectors is not None
    wanted = Wanted(what, read_period("2022"))
    return [found.cell.text for found in ranked(wanted, [report_of(document, desk.parts.reader)], vectors)]


def test_an_amount_is_said_and_not_what_it_is_made_of(desk: Refdesk) -> None:
    assert "2,141" in ask(desk, "What was Ortel's provision for credit losses in 2022?").short
    assert "1,182" in ask(desk, "What were Ortel's inventories at the end of 2022?").short
    parts = ask(desk, "What are the components of Ortel's inventories at the end of 2022?")
    assert parts.short == "Raw materials; Work in process; Finished goods"


def test_a_row_of_two_sections_is_that_of_the_section_that_is_said(desk: Refdesk) -> None:
    assert "884" in ask(desk, "What was Ortel's Harbour Cranes operating income in 2022?").short
    assert "4,120" in ask(desk, "What was Ortel's Harbour Cranes revenue in 2022?").short


def test_a_total_is_none_of_the_rows_of_that_name(desk: Refdesk) -> None:
    assert ask(desk, "What was Ortel's total debt in 2022?").confidence.level == "low"


def test_a_rate_is_a_percentage(desk: Refdesk) -> None:
    assert ask(desk, "What was the effective tax rate of Ortel in 2022?").short == "9.6%"


def test_a_dividend_is_no_earnings(desk: Refdesk) -> None:
    assert not named_rows(desk, "dividend per share")
    assert named_rows(desk, "basic earnings per share")[0] == "$ 10.21"
    assert named_rows(desk, "basic EPS")[0] == named_rows(desk, "basic net income per share")[0] == "$ 10.21"


def test_of_a_year_that_no_report_is_of_nothing_is_known(tmp_path: Path) -> None:
    undated = ("Net income per share (In millions)", (("", "Amount", "Shares"), ("Net income", "$ 6,749", "2,499")))
    with Refdesk(tmp_path / "library") as desk:
        for name in ("Ortel", "Brandau"):
            text = page(f"{name} report 2022", *STATEMENTS[1:], undated)
            desk.add_texts([{"name": f"{name}_2022_report.html", "text": text, "format": "html"}])
        assert not ask(desk, "What was Ortel's net income in fiscal 2015?").figures


def test_a_brand_is_not_the_company(tmp_path: Path) -> None:
    stores = ("U.S. Ortel", "925"), ("Outlet Centers", "19"), ("Ortel Express", "34"), ("Total stores", "978")
    with Refdesk(tmp_path / "library") as desk:
        text = page("Ortel report 2022", ("Stores open at the end of the fiscal year", (("", "2022"), *stores)))
        desk.add_texts([{"name": "Ortel_2022_report.html", "text": text, "format": "html"}])
        report = report_of(desk.documents()[0], desk.parts.reader)
        plans = {
            item.cells[0].text: plan_of(ItemCell(item, item.cells[0], report.document, 0.0)) for item in report.items
        }
        assert plans["925"] and is_of_one_brand(plans["925"], "How many stores did Ortel have in 2022?")
        assert not is_of_one_brand(plans["925"], "How many U.S. stores did Ortel have in 2022?")
        assert plans["34"] and not is_of_one_brand(plans["34"], "How many Ortel Express stores were there in 2022?")
        assert plans["19"] and not is_of_one_brand(plans["19"], "How many outlet centers did Ortel have in 2022?")


def test_the_newest_report_is_meant_where_no_time_is_named(tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library") as desk:
        for year in (2019, 2022):
            text = page(
                f"Ortel report {year}", ("Stores by ownership", (("", "Stores"), ("Owned", "25"), ("Leased", "9")))
            )
            desk.add_texts([{"name": f"Ortel_{year}_report.html", "text": text, "format": "html"}])
        documents = sorted(desk.documents(), key=lambda document: document.name)
        old, new = (report_of(document, desk.parts.reader) for document in documents)
        plan = plan_of(ItemCell(old.items[0], old.items[0].cells[0], old.document, 0.0))
        assert plan is not None
        assert is_old(plan, "How many stores does Ortel own?", [new])
        assert not is_old(plan, "How many stores did Ortel own in 2019?", [new])
        assert not is_old(plan, "How many stores does Ortel own?", [old])


def test_when_something_happened_is_not_the_year_of_all_columns(tmp_path: Path) -> None:
    segments: tuple[str, Rows] = (
        "Net revenues and operating income of the segments are presented below (amounts in millions):",
        (
            ("", "Year Ended December 31, 2022", "", "", ""),
            ("", "Ortel", "Brandau", "Kranbau", "Total"),
            ("Segment net revenues", "$ 2,219", "$ 1,719", "$ 2,031", "$ 5,969"),
            ("Segment operating income", "$ 850", "$ 464", "$ 740", "$ 2,054"),
        ),
    )
    with Refdesk(tmp_path / "library") as desk:
        for name, tables in (("ORTELBRANDAU", (*STATEMENTS, segments)), ("TAMSEL", STATEMENTS)):
            desk.add_texts([{"name": f"{name}_2022_10K.html", "text": page(name, *tables), "format": "html"}])
        assert ask(desk, "When did Ortel Brandau acquire Kranbau?").short != "2022"


@pytest.mark.parametrize(
    "question",
    [
        "Which company had the higher revenue in Q3 2023, Brandau or Ortel?",
        "How much revenue did Brandau and Ortel have in Q3 2023?",
    ],
)
def test_reports_of_one_name_are_of_the_company_that_one_has_in_its_title(tmp_path: Path, question: str) -> None:
    reports = [
        ("2023 Q1 ORT", "Ortel Corporation", "March 31", "1,410"),
        ("2023 Q3 ORT", "2023 Q3 ORT", "September 30", "1,812"),
        ("2023 Q1 BRD", "Brandau Corporation", "March 31", "1,533"),
        ("2023 Q3 BRD", "Brandau Corporation", "September 30", "1,415"),
    ]
    with Refdesk(tmp_path / "library") as desk:
        for name, title, day, revenue in reports:
            head = ("", f"Three Months Ended {day}, 2023", f"Three Months Ended {day}, 2022")
            income = (head, ("Total revenue", revenue, "1,398"), ("Cost of revenue", "803", "788"))
            segments = (head[:2], ("Cranes", "700"), ("Hoists", "600"), ("Total revenue", revenue))
            tables = ("Condensed statements of income (In millions)", income), ("Revenue (In millions)", segments)
            text = page(title, *tables, *STATEMENTS[1:3], *STATEMENTS[4:6])
            desk.add_texts([{"name": f"{name}.html", "text": text, "format": "html"}])
        content = ask(desk, question).content
        assert "Brandau: Total revenue, Three Months Ended September 30, 2023: 1,415" in content
        assert "Ortel: Total revenue, Three Months Ended September 30, 2023: 1,812" in content


def test_a_percentage_of_what_is_an_amount_elsewhere_is_no_rate(desk: Refdesk) -> None:
    document = next(one for one in desk.documents() if one.name.startswith("Ortel"))
    report = report_of(document, desk.parts.reader)
    items = {item.name: item.stems for table in report.tables for item in line_items(table)}
    assert items["Effective worldwide tax rate"] not in report.amounts
    assert items["Net income"] in report.amounts


def test_a_number_without_a_scale_has_that_of_other_tables(tmp_path: Path) -> None:
    head = ("", "Year ended December 31, 2022", "Year ended December 31, 2021")
    discussed = (
        "Results of operations",
        (head, ("Operating income", "1,607", "1,988"), ("Operating expenses", "1,245", "1,301")),
    )
    statements = (
        ("Statements of operations (In millions)", (head, ("Total net revenues", "$ 6,489", "$ 7,500"))),
        ("Reconciliation of segments (In millions)", (head, ("Consolidated operating income", "$ 1,607", "$ 1,988"))),
    )
    with Refdesk(tmp_path / "library") as desk:
        for name in ("Ortel", "Brandau"):
            text = page(f"{name} report 2022", discussed, *statements, *STATEMENTS[1:3], *STATEMENTS[5:6])
            desk.add_texts([{"name": f"{name}_2022_report.html", "text": text, "format": "html"}])
        assert ask(desk, "What was Ortel's operating margin in 2022?").short == "24.76%"
        document = next(one for one in desk.documents() if one.name.startswith("Ortel"))
        assert report_of(document, desk.parts.reader).scales[1607.0] == {"million"}
