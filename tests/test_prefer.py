"""A question that names a document prefers it; words that name nothing prefer nothing."""

from __future__ import annotations

import pytest

from refdesk.document_names import match_names
from refdesk.periods import Period, period_of
from refdesk.types import Document
from timing import cpu


def document(name: str, title: str = "", *, chunks: int = 100, date: str = "", subject: str = "") -> Document:
    metadata = {"subject": subject} if subject else {}
    return Document(name, name, "default", name, "ready", title=title, date=date, chunk_count=chunks, metadata=metadata)


SHELF = (
    document("NORTHSHIP_2018_10K.pdf", "NORTHSHIP, INC."),
    document("NORTHSHIP_2019_10K.pdf", "NORTHSHIP, INC."),
    document("NORTHSHIP_2019Q2_10Q.pdf", "NORTHSHIP, INC."),
    document("BLUEANCHOR_2018_10K.pdf", "Annual report"),
    document("KELP_KELP_2018_10K.pdf", "Kelp & Kelp"),
    document("2023 Q1 TIDE.pdf", "Tidewater Corporation"),
    document("2023 Q2 TIDE.pdf", "Tidewater Corporation"),
    document("2023 Q3 TIDE.pdf", "09.30.2023 10Q Document"),
    document("harbour-authority-letter.pdf", "Letter of the harbour authority"),
    document("summary.pdf", "Summary"),
)


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("What was Northship's capital spending in FY2018?", "NORTHSHIP_2018_10K.pdf"),
        ("northship revenue 2019", "NORTHSHIP_2019_10K.pdf"),
        ("What did Northship earn in Q2 2019?", "NORTHSHIP_2019Q2_10Q.pdf"),
        ("What did Northship earn in the second quarter of 2019?", "NORTHSHIP_2019Q2_10Q.pdf"),
        ("Northship's 10-Q of 2019: revenue?", "NORTHSHIP_2019Q2_10Q.pdf"),
        ("How many anchors does Blue Anchor own?", "BLUEANCHOR_2018_10K.pdf"),
        ("Did KnK pay a dividend?", "KELP_KELP_2018_10K.pdf"),
        ("What was Tidewater's margin in Q1 2023?", "2023 Q1 TIDE.pdf"),
        ("What was TIDE's margin in Q2 2023?", "2023 Q2 TIDE.pdf"),
        # The third has no company in its title; the files of the same name lend it theirs.
        ("What does Tidewater's most recent 10-Q say of risk?", "2023 Q3 TIDE.pdf"),
        ("What does the letter of the harbour authority ask for?", "harbour-authority-letter.pdf"),
    ],
)
def test_the_named_document_comes_first(question: str, first: str) -> None:
    assert next(iter(match_names(question, SHELF))) == first


@pytest.mark.parametrize(
    "question",
    [
        "What is the capital spending of a shipping company in 2018?",
        "Give me a summary of the harbour rules",
        "How deep is the harbour?",
        "",
        "???",
    ],
)
def test_what_is_not_a_name_prefers_nothing(question: str) -> None:
    assert match_names(question, SHELF) == {}


def test_both_sides_of_a_comparison_are_preferred() -> None:
    assert {"NORTHSHIP_2018_10K.pdf", "BLUEANCHOR_2018_10K.pdf"} <= set(
        match_names("Compare Northship and Blue Anchor in 2018", SHELF)
    )


def test_the_latest_beside_earlier_ones_prefers_all() -> None:
    question = "How does Tidewater's latest quarter compare to previous quarters?"
    named = list(match_names(question, SHELF))
    assert sorted(named) == [f"2023 Q{quarter} TIDE.pdf" for quarter in (1, 2, 3)]
    assert named[0] == "2023 Q3 TIDE.pdf"


def test_a_word_in_every_name_says_nothing() -> None:
    shelf = tuple(document(f"Northship {year}.pdf") for year in range(2010, 2020))
    assert match_names("What is Northship?", shelf) == {}


def test_a_short_document_is_not_preferred_for_its_title() -> None:
    shelf = (document("a", "Super Bowl", chunks=1), document("b", "Regatta", chunks=1), document("c", "Kiel", chunks=1))
    assert match_names("Who won the Super Bowl?", shelf) == {}


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("FY2018", Period(years=frozenset({2018}))),
        ("FY 2018 and FY19", Period(years=frozenset({2018, 2019}))),
        ("from 2015 to 2017", Period(years=frozenset({2015, 2016, 2017}))),
        ("Q3 2023", Period(frozenset({2023}), frozenset({3}))),
        ("Q22023", Period(frozenset({2023}), frozenset({2}))),
        ("2024Q2", Period(frozenset({2024}), frozenset({2}))),
        ("Q2'23", Period(frozenset({2023}), frozenset({2}))),
        ("the fourth quarter", Period(quarters=frozenset({4}))),
        ("first, second and third quarters of fiscal 2024", Period(frozenset({2024}), frozenset({1, 2, 3}))),
        ("the 2nd-quarter report", Period(quarters=frozenset({2}))),
        ("the fiscal year '19", Period(years=frozenset({2019}))),
        ("August 30, 2023", Period(frozenset({2023}), days=frozenset({"2023-08-30"}))),
        ("30 August 2023", Period(frozenset({2023}), days=frozenset({"2023-08-30"}))),
        ("Aug. 30th, 2023", Period(frozenset({2023}), days=frozenset({"2023-08-30"}))),
        ("dated 2023-08-30", Period(frozenset({2023}), days=frozenset({"2023-08-30"}))),
        ("$2018 and 20,189 and 2018.5 and 12018", Period()),
        ("no period at all", Period()),
    ],
)
def test_periods_are_read(text: str, period: Period) -> None:
    assert period_of(text) == period


def test_agreement_falls_with_distance() -> None:
    asked = period_of("FY2018")
    own, after, other = (Period(frozenset({year})).agreement(asked) for year in (2018, 2019, 2012))
    assert own == 1.0 > after > other


def test_ten_thousand_documents_are_indexed_once() -> None:
    shelf = tuple(document(f"HOUSE{n % 900}_{2000 + n % 24}_10K.pdf", f"House{n % 900} Inc.") for n in range(10_000))
    question = "What was the revenue of House7 in 2007?"
    first = cpu(lambda: match_names(question, shelf))
    assert next(iter(match_names(question, shelf))) == "HOUSE7_2007_10K.pdf"
    assert cpu(lambda: match_names(question, shelf), 5) < first / 10
