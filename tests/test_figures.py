"""Figures are read in the many ways they are written; two agree when they mean the same at the claim's precision."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk.ask.figures import agrees, figures
from refdesk.periods import When


def readings(text: str) -> list[tuple[float, str]]:
    return [(one.value, one.unit) for one in figures(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$4.2M", [(4.2e6, "USD")]),
        ("4.2 million dollars", [(4.2e6, "USD")]),
        ("4,200,000", [(4.2e6, "")]),
        ("US$ 12 bn", [(12e9, "USD")]),
        ("$(3.1) million", [(-3.1e6, "USD")]),
        ("350 kg and 350kg", [(350e3, "g"), (350e3, "g")]),
        ("nine pilots", [(9, "")]),
        ("a dozen", [(12, "")]),
        ("twenty-one", [(21, "")]),
        ("two hundred and five thousand", [(205_000, "")]),
        ("half a million", [(500_000, "")]),
        ("3 per cent, 3%", [(3, "%"), (3, "%")]),
        ("3.5 percentage points", [(3.5, "pp")]),
        ("-3.1%", [(-3.1, "%")]),
        ("1.234.567,89", [(1_234_567.89, "")]),
        ("4,2 Mio", [(4.2e6, "")]),
        ("7·71%", [(7.71, "%")]),
        ("12 V at 20 °C", [(12, "V"), (20, "°C")]),
        ("5 MW", [(5e6, "W")]),
        ("at 10:30 and 3 pm", [(630, ""), (900, "")]),
        ("21st", [(21, "")]),
    ],
)
def test_numbers(text: str, expected: list[tuple[float, str]]) -> None:
    assert readings(text) == [(pytest.approx(value), unit) for value, unit in expected]


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("no more than 5 kg", "under"),
        ("more than 5 kg", "over"),
        ("not less than 5 kg", "over"),
        ("about 5 kg", "about"),
    ],
)
def test_bounds(text: str, bound: str) -> None:
    assert [found.bound for found in figures(text)] == [bound]


@pytest.mark.parametrize(
    "text",
    [
        "2025-10-31",
        "31 October 2025",
        "Oct. 31, 2025",
        "October 31st, 2025",
        "31.10.2025",
        "10/31/2025",
        "31. Oktober 2025",
    ],
)
def test_a_day_in_many_forms(text: str) -> None:
    (found,) = figures(text)
    assert found.when == (When(2025, 0, 10, 31),)


@pytest.mark.parametrize(
    ("text", "when"),
    [
        ("Q3 2024", When(2024, 3)),
        ("third quarter of 2024", When(2024, 3)),
        ("3Q24", When(2024, 3)),
        ("FY2018", When(2018)),
        ("fiscal year 2018", When(2018)),
        ("the 1990s", When(1990, decade=True)),
        ("mid-2024", When(2024)),
        ("in May", When(0, 0, 5)),
        ("March 2024", When(2024, 0, 3)),
    ],
)
def test_periods(text: str, when: When) -> None:
    (found,) = figures(text)
    assert found.when == (when,)


@pytest.mark.parametrize("text", ["5–10 kg", "5 to 10 kg", "five to ten kg"])
def test_the_first_of_a_range_may_have_the_unit_of_the_second(text: str) -> None:
    first, second = figures(text)
    assert (5000.0, "g") in first.others and (second.value, second.unit) == (10_000.0, "g")


def test_codes_are_compared_as_letters() -> None:
    assert [one.text for one in figures("E23, TG-4 and COVID-19, version 3.11.2")] == [
        "e23",
        "tg4",
        "covid19",
        "3.11.2",
    ]


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("$4.2M", "4.2 million dollars"),
        ("4.2 million", "4,213,000"),
        ("about 4.2 million", "4,213,000"),
        ("nearly 50%", "48.7%"),
        ("42%", "0.42"),
        ("42%", "0.425"),
        ("4.2 million", "4,250,000"),
        ("half of them", "50%"),
        ("1.5 km", "1,500 m"),
        ("350", "350 kg"),
        ("350 kg", "350"),
        ("more than 300", "350"),
        ("up to 400", "350"),
        ("3 pm", "15:00"),
        ("twelve", "12"),
        ("TG4", "TG-4"),
        ("2025", "31 October 2025"),
        ("Q4 2025", "31 October 2025"),
        ("03/04/2025", "3 April 2025"),
        ("the 1990s", "1994"),
        ("5 kg", "5–10 kg"),
        ("(3.1)", "-3.1"),
        ("2,000", "2000"),
    ],
)
def test_what_agrees(claim: str, source: str) -> None:
    assert agrees(figures(claim)[0], figures(source)[0])


@pytest.mark.parametrize(
    ("claim", "source"),
    [
        ("4.3 million", "4,213,000"),
        ("4,213,000", "4.2 million"),
        ("42%", "0.426"),
        ("4.2 million", "4,251,000"),
        ("4.2 billion", "4.2 million"),
        ("350 kg", "350 tonnes"),
        ("$5", "€5"),
        ("5%", "5 percentage points"),
        ("-3.1", "3.1"),
        ("66%", "first"),
        ("3", "third"),
        ("31 October 2025", "October 2025"),
        ("30 October 2025", "31 October 2025"),
        ("Q3 2024", "Q2 2024"),
        ("more than 300", "250"),
        ("more than 300", "more than 350"),
        ("3 am", "3 pm"),
        ("TG-5", "TG-4"),
        ("12 V", "12 kV"),
        ("fifteen days", "one"),
        ("exceeds 4 m", "six hours"),
    ],
)
def test_what_does_not(claim: str, source: str) -> None:
    assert not agrees(figures(claim)[0], figures(source)[0])


@given(st.text(max_size=80) | st.text("0123456789.,-–%$€kmMQFY ()/:' aone half", max_size=60))
def test_any_text_is_read(text: str) -> None:
    """Nothing raises; figures stand in order and agree with themselves."""
    found = figures(text)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert all(agrees(one, one) for one in found)
