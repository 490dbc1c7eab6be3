"""Formulas that a question defines or names: read, computed, and answered with every cell cited."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memory_desk import KINDS, AnyDesk, kept_in
from refdesk import Refdesk
from refdesk.ask.formula_text import AskedFigure, formulas_in

STORES = KINDS

STATEMENTS = """<html><head><title>Ortel annual report 2022</title></head><body>
<h1>Ortel annual report 2022</h1>
<h2>Statement of income</h2>
<p>(In millions) Years ended December 31,</p>
<table><tr><th></th><th>2022</th><th>2021</th></tr>
<tr><td>Net sales</td><td>$ 900</td><td>$ 800</td></tr>
<tr><td>Cost of sales</td><td>540</td><td>500</td></tr>
<tr><td>Operating income</td><td>180</td><td>120</td></tr>
<tr><td>Net income</td><td>90</td><td>70</td></tr></table>
<h2>Balance sheet</h2>
<p>(In millions) December 31,</p>
<table><tr><th></th><th>2022</th><th>2021</th></tr>
<tr><td>Inventories</td><td>110</td><td>90</td></tr>
<tr><td>Total current assets</td><td>400</td><td>300</td></tr>
<tr><td>Property and equipment, net</td><td>310</td><td>290</td></tr>
<tr><td>Accounts payable</td><td>60</td><td>40</td></tr>
<tr><td>Total current liabilities</td><td>200</td><td>160</td></tr></table>
</body></html>"""


def spelled(question: str) -> str:
    formula = formulas_in(question)[0]
    return formula.root.spelled(lambda asked: f"<{asked.what}, {asked.when}>")


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "What is DPO? DPO is defined as: 365 * (average accounts payable between FY2016 and FY2017) /"
            " (FY2017 COGS + change in inventory between FY2016 and FY2017). Round to two decimal places.",
            "365 × ((<accounts payable, the end of FY2016> + <accounts payable, the end of FY2017>) / 2) /"
            " (<COGS, FY2017> + <inventory, the end of FY2017> - <inventory, the end of FY2016>)",
        ),
        (
            "What is the FY2020 - FY2021 2 year average of capex as a % of revenue for Ortel?",
            "(<capex, 2020> / <revenue, 2020> + <capex, 2021> / <revenue, 2021>) / 2",
        ),
        (
            "What was Ortel's current ratio in 2022?",
            "<total current assets, 2022> / <total current liabilities, 2022>",
        ),
        (
            "What was the leverage in 2020 (leverage is defined as debt divided by equity)?",
            "<debt, 2020> / <equity, 2020>",
        ),
        (
            "What was the ratio of total debt to total assets at Ortel Marine in 2022?",
            "<total debt, 2022> / <total assets, 2022>",
        ),
        (
            "What is the sum of Ortel's research and development and sales and marketing in 2022?",
            "<research and development, 2022> + <sales and marketing, 2022>",
        ),
        ("What was the difference between fees and rents in 2021?", "<fees, 2021> - <rents, 2021>"),
    ],
)
def test_formulas_are_read(question: str, expected: str) -> None:
    assert spelled(question) == expected


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("a / (b * c)", "<a, 2020> / (<b, 2020> × <c, 2020>)"),
        ("a - (b - c)", "<a, 2020> - (<b, 2020> - <c, 2020>)"),
        ("(a - b) - c", "<a, 2020> - <b, 2020> - <c, 2020>"),
        ("a / b / c", "<a, 2020> / <b, 2020> / <c, 2020>"),
    ],
)
def test_formulas_keep_their_brackets(formula: str, expected: str) -> None:
    assert spelled(f"What was x in 2020? x is defined as {formula}.") == expected


@pytest.mark.parametrize(
    "question",
    [
        "What was net income in 2022?",
        "A quorum is defined as five members. Who may vote?",
        "Force is defined as mass (in kg",
        "What share of costs does the sum of fees and rents have in 2021?",
        "What was the average difference between fees and rents in 2021?",
        "What was the sum of fees in 2021?",
        "",
    ],
)
def test_no_formula(question: str) -> None:
    assert not formulas_in(question)


def test_a_division_by_zero_is_told() -> None:
    formula = formulas_in("What was the current ratio in 2022?")[0]
    with pytest.raises(ZeroDivisionError):
        formula.root.value(dict.fromkeys(formula.root.figures(), 0.0))
    assert AskedFigure("total current assets", "2022") in {*formula.root.figures()}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("formulas")
    file = folder / "ortel-2022.html"
    file.write_text(STATEMENTS, encoding="utf-8")
    with Refdesk(folder / "library") as desk:
        desk.add(file)
        yield desk


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


@pytest.mark.parametrize(
    ("question", "short", "cited"),
    [
        ("What was Ortel's current ratio in 2022?", "2.00", {"400", "200"}),
        (
            "What was Ortel's FY2022 fixed asset turnover? It is defined as: FY2022 net sales /"
            " (average net property and equipment between FY2021 and FY2022).",
            "3.00",
            {"$ 900", "310", "290"},
        ),
        ("What was the working capital of Ortel in 2022?", "200 million", {"400", "200"}),
    ],
)
def test_formulas_are_computed_from_cells(desk: AnyDesk, question: str, short: str, cited: set[str]) -> None:
    answer = desk.ask_sync(question)
    assert answer.short == short
    computed, *parts = answer.figures
    assert computed.operation == "formula"
    assert {cell.text for cell in computed.cells} == cited
    assert computed.formula.endswith(f"= {short}")
    assert len(parts) == len(cited)
    assert {marker for claim in answer.claims for marker in claim.markers} == {one.marker for one in answer.citations}
    assert answer.confidence.level != "high"
    assert {claim.score for claim in answer.claims} == {answer.confidence.score}


def test_a_figure_that_is_not_there_computes_nothing(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What was Ortel's return on equity in 2022?")
    assert not any(figure.operation == "formula" for figure in answer.figures)
