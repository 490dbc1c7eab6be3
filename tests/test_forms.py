"""Forms: labels with their values beside them are read as pairs, and answered by the value."""

from __future__ import annotations

from pathlib import Path

import pytest

from refdesk import Refdesk
from refdesk.forms import form_parts, is_form
from refdesk.parsers.build import Below, Beside, Builder

CLAIM = (
    ("Policyholder", "Marta Lindqvist", "Policy number", "HX-88120"),
    ("Date of damage", "14 February 2025", "Place of damage", "Kallhamn, quay 4"),
    ("Vehicle", "Volvo V60", "Registration", "KLM 482"),
    ("Mileage", "81,400 km", "Year of manufacture", "2019"),
    ("Estimated repair cost", "€2,340", "Deductible", "€300"),
    ("Workshop", "Bilservice Nord", "Adjuster", "Per Aronsen"),
)
ORDER = (
    ("Supplier", "Nordlager AB"),
    ("Order date", "3 March 2025"),
    ("Contact", "Eva Holm, +46 8 555 120"),
    ("Payment terms", "30 days net"),
    ("Total", "SEK 18,400"),
)


def lines(rows: object) -> list[str]:
    builder = Builder()
    builder.table(rows, header_rows=0)  # type: ignore[arg-type]
    return builder.build("html").text.split("\n")


def test_each_value_of_a_form_stands_beside_its_own_label() -> None:
    assert lines(CLAIM)[:4] == [
        "Policyholder | Marta Lindqvist",
        "Policy number | HX-88120",
        "Date of damage | 14 February 2025",
        "Place of damage | Kallhamn, quay 4",
    ]
    assert len(lines(CLAIM)) == 12 and is_form([line.split(" | ") for line in lines(CLAIM)]) and is_form(ORDER)


@pytest.mark.parametrize(
    "rows",
    [
        (("Name", "Age", "At", "Pay"), ("Ann", "34", "Oslo", "$3"), ("Bo", "44", "Rome", "$5"), ("Cy", "2", "Ulm", "")),
        (("item", "price"), ("paper", "3"), ("ink", "12"), ("pens", "1,200")),
        (("Name", "Role"), ("Ann", "Head of sales"), ("Bo", "Clerk"), ("Cy", "Driver")),
        (("Task", "Due"), ("Paint the hull", "3 May 2025"), ("Oil", "4 May 2025"), ("Test", "9 June 2025")),
        (("Model", "EN57", "EN71", "EW58"), ("Speed", "9 km/h", "8 km/h", "5 km/h"), ("Power", "7 kW", "8 kW", "9 kW")),
        (("2021", "14", "2022", "15"), ("2023", "9", "2024", "11"), ("2025", "8", "2026", "x")),
    ],
)  # fmt: skip
def test_what_names_its_columns_is_no_form(rows: tuple[tuple[str, ...], ...]) -> None:
    assert form_parts(rows) == [] and not is_form(rows)


def test_what_stands_below_a_form_is_another_table() -> None:
    below = [("Item", "Hours", "Rate", "Cost"), ("Paint", "2", "150", "300"), ("Body", "1", "100", "100")]
    form = [("", "Estimate 1008", "", ""), *CLAIM, ("", "Totals", "", "")]
    (pairs, is_pairs), (rest, is_rest) = form_parts([*form, *below[1:]])
    assert is_pairs and not is_rest and len(pairs) == 1 + 2 * len(CLAIM)
    assert rest[0] == [(7, column) for column in range(4)], "the title of what follows goes with it"


def test_a_value_over_several_columns_and_one_over_several_rows_stand_once() -> None:
    rows = [
        [*CLAIM[0]],
        ["Address", "Pier 9, Malmö", Beside(), Beside()],
        ["Vehicle", "Volvo V60", "Phone", "+46 8 555"],
        ["Mileage", "81,400 km", "Note", "paid in cash"],
    ]
    assert "Address | Pier 9, Malmö" in lines(rows)
    assert Below.of("x") == "x" and lines([*rows, ["Workshop", "Nord", Below.of("Note"), Below.of("paid in cash")]])[
        -1
    ] == ("Workshop | Nord")


def test_a_header_that_the_file_marks_is_one() -> None:
    builder = Builder()
    builder.table(CLAIM, header_rows=1)
    assert builder.build("html").text.startswith("Policyholder | Marta Lindqvist | Policy number")


def html(rows: tuple[tuple[str, ...], ...], title: str) -> str:
    cells = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<html><head><title>{title}</title></head><body><h1>{title}</h1><table>{cells}</table></body></html>"


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Refdesk:
    folder: Path = tmp_path_factory.mktemp("forms")
    (folder / "claim.html").write_text(html(CLAIM, "Damage claim 2291"), encoding="utf-8")
    (folder / "order.html").write_text(html(ORDER, "Purchase order 5512"), encoding="utf-8")
    desk = Refdesk(folder / "library")
    desk.add(folder / "claim.html", folder / "order.html")
    return desk


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What is the policy number of Marta Lindqvist?", "HX-88120"),
        ("When did the damage happen?", "14 February 2025"),
        ("What is the estimated repair cost?", "€2,340"),
        ("How much is the deductible?", "€300"),
        ("Who is the adjuster?", "Per Aronsen"),
        ("What is the mileage of the vehicle?", "81,400 km"),
        ("Who is the supplier?", "Nordlager AB"),
        ("Where should the order be delivered?", None),
    ],
)
def test_the_value_is_the_answer(forms: Refdesk, question: str, value: str | None) -> None:
    answer = forms.ask_sync(question)
    if value is None:
        assert not answer.is_answered or answer.confidence.level == "low"
        return
    assert answer.short == value
    assert all(citation.quote.count(" | ") <= 1 for citation in answer.citations), "only the pair is quoted"
