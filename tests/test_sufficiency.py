"""What an answer covers, where its sources disagree, what it leaves out; the examples hold two conflicts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evidence_samples import chunk
from memory_desk import KINDS
from refdesk import Document, Hit, Refdesk
from refdesk.answer import Citation, Claim, Context, Passage, Query, Retrieved, Sufficiency
from refdesk.ask.judge import Relevance, nearest_topics, sufficiency
from refdesk.text import query_terms

STORES = KINDS

QUESTIONS = json.loads((Path(__file__).parent.parent / "examples" / "questions.json").read_text(encoding="utf-8"))
SURE = Relevance(0.9, {}, ())


def cite(marker: int, quote: str, document: str = "", page: int = 1, headings: tuple[str, ...] = ()) -> Citation:
    name = document or f"d{marker}"
    return Citation(marker, name, f"{name}.pdf", marker, 1, headings, page, (), True, quote, 0.9, 0.8)


def told(question: str, *citations: Citation, relevance: Relevance = SURE, parts: tuple[str, ...] = ()) -> Sufficiency:
    query = Query(question, question, np.zeros(4), tuple(query_terms(question)), parts=parts)
    claims = [Claim(one.quote, 0, 1, (one.marker,), (0,), "supported", 1.0) for one in citations]
    return sufficiency(query, relevance, Context((), "", 0), claims, citations)


# coverage


def test_an_answer_that_holds_the_questions_words_is_enough() -> None:
    found = told("How heavy is the iron anchor?", cite(1, "The heavy iron anchor weighs 350 kg."))
    assert found == Sufficiency(True, 1.0)


def test_headings_cover_too() -> None:
    bare, headed = cite(1, "It weighs 350 kg."), cite(1, "It weighs 350 kg.", headings=("The iron anchor",))
    assert told("What of the iron anchor?", bare).coverage_score == 0.0
    assert told("What of the iron anchor?", headed).coverage_score == 1.0


def test_nothing_cited_is_not_enough() -> None:
    found = told("How heavy is the anchor?", relevance=Relevance(0.1, {}, ("anchor",)))
    assert found == Sufficiency(False, 0.0, missing_aspects=("anchor",))


def test_names_and_numbers_that_no_quote_holds_are_missing_as_typed() -> None:
    found = told("Who orders chain for Skerry in 2027?", cite(1, "Ines Carrow orders chain."))
    assert found.missing_aspects == ("Skerry", "2027")


def test_a_word_said_otherwise_is_missing_only_when_the_answer_is_doubtful() -> None:
    quote = cite(1, "The anchor weighs 350 kg.")
    assert told("How heavy is the anchor?", quote, relevance=Relevance(0.9, {}, ("heavy",))).missing_aspects == ()
    doubtful = Relevance(0.3, {}, ("heavy",))
    assert told("How heavy is the anchor?", quote, relevance=doubtful).missing_aspects == ("heavy",)


def test_a_side_of_a_comparison_may_be_missing() -> None:
    found = told("Compare anchor and chain.", cite(1, "The anchor weighs 350 kg."), parts=("anchor", "chain"))
    assert found.missing_aspects == ("chain",)
    assert not found.is_sufficient
    both = cite(1, "The anchor weighs 350 kg."), cite(2, "The chain weighs 90 kg.")
    assert told("Compare anchor and chain.", *both, parts=("anchor", "chain")).is_sufficient


# conflicts

CLASHES = [
    ("The gate closes at 20:00.", "The gate closes at 21:00.", True),
    ("The anchor weighs 350 kg.", "The anchor weighs 0.35 t.", False),
    ("The anchor weighs 350 kg.", "The anchor weighs 300 kg.", True),
    ("The anchor weighs 350 kg.", "The anchor is 2 m wide.", False),
    ("The anchor weighs 350 kg.", "The chain of the mooring and all of its shackles weigh 90 kg.", False),
    ("The TG-4 weighs 3 kg.", "The CM-2 weighs 5 kg.", False),
    ("Revenue in Norway was 3 million euros.", "Revenue in Japan was 5 million euros.", False),
    ("The fee is 640 euros a year.", "The fee is 640 euros a year, payable on 1 June.", False),
    ("The anchor is made of iron.", "The anchor is made of iron.", False),
    ("The clearance is 1.3 mm when guarded.", "The clearance is 3.4 mm when bare.", False),
    ("The guarded anchor weighs 1.3 kg.", "The bare anchor weighs 3.4 kg.", False),
    ("The anchor weighs 350 kg in salt water.", "The anchor weighs 300 kg in air.", False),
    ("In 2024 the fee was 640 euros a year.", "In 2025 the fee was 700 euros a year.", False),
    ("In FY2024 the fee was 640 euros.", "In fiscal 2024 the fee was 700 euros.", True),
    ("In the third quarter the fee was 640 euros.", "In Q3 the fee was 700 euros.", True),
    ("In the third quarter the fee was 640 euros.", "In Q2 the fee was 700 euros.", False),
    ("The fee for boats is 640 euros.", "The fee is 640 dollars for boats.", False),
    ("The gate has 214 posts.", "The gate has 3,033 bolts.", False),
    ("The gate has 214 posts.", "The gate has 216 posts.", True),
    ("Fee: 640 euros, of which tax 40 euros.", "Fee: 700 euros.", False),
    (
        "The TG-4 must be serviced every 12 months, or its warranty ends.",
        "The TG-4 needs service every 24 months.",
        True,
    ),
    ("Net revenue | 214 | 190", "Net revenue | 3,033 | 2,711", False),
]


@pytest.mark.parametrize(("one", "other", "is_conflict"), CLASHES)
def test_conflicts(one: str, other: str, is_conflict: bool) -> None:
    question = "What of the gate, the anchor, its fee, weighs, clearance, service and revenue?"
    found = told(question, cite(1, one), cite(2, other))
    assert found.has_conflicts is is_conflict
    assert bool(found.conflicts) is is_conflict


def test_a_conflict_names_both_sources_and_values() -> None:
    found = told(
        "When does the gate close?", cite(1, "The gate closes at 20:00."), cite(2, "The gate closes at 21:00.")
    )
    assert found.conflicts[0].markers == (1, 2)
    assert found.conflicts[0].text == "d1.pdf says 20:00, d2.pdf says 21:00"


def test_reports_of_different_periods_do_not_conflict() -> None:
    pair = "The harbour has 12 gates.", "The harbour has 14 gates."
    question = "How many gates has the harbour?"
    assert not told(question, cite(1, pair[0], "HARBOUR_2019"), cite(2, pair[1], "HARBOUR_2021")).has_conflicts
    assert not told(question, cite(1, pair[0], "harbour fy19"), cite(2, pair[1], "harbour fiscal 2021")).has_conflicts
    assert told(question, cite(1, pair[0], "HARBOUR_2019"), cite(2, pair[1], "harbour fiscal 2019")).has_conflicts
    assert told(question, cite(1, pair[0], "HARBOUR_2019"), cite(2, pair[1], "guide")).has_conflicts
    assert not told(question, cite(1, pair[0], "2019 Q2 HARBOUR"), cite(2, pair[1], "HARBOUR_2019")).has_conflicts


def test_pages_of_one_document_conflict_only_where_they_say_of_when_they_speak() -> None:
    question = "How many gates has the harbour?"
    bare = cite(1, "The harbour has 12 gates.", "d", 1), cite(2, "The harbour has 14 gates.", "d", 2)
    dated = cite(1, "In 2024 the harbour had 12 gates.", "d", 1), cite(2, "In FY2024 the harbour had 14 gates.", "d", 2)
    assert not told(question, *bare).has_conflicts
    assert told(question, *dated).has_conflicts


def test_documents_about_another_thing_than_the_question_names_do_not_conflict() -> None:
    pair = "The company has 12 gates.", "The company has 14 gates."
    question = "How many gates has the Lodin company?"
    assert not told(question, cite(1, pair[0], "lodin"), cite(2, pair[1], "skerry")).has_conflicts
    assert told(question, cite(1, pair[0], "lodin"), cite(2, pair[1], "about-lodin")).has_conflicts


def test_a_date_conflicts_only_where_it_is_what_is_asked() -> None:
    pair = (
        cite(1, "The lease of the pier ended on 31 May 2026."),
        cite(2, "The lease of the pier ended on 30 June 2026."),
    )
    assert told("When did the lease of the pier end?", *pair).has_conflicts
    assert not told("What is known of the lease of the pier?", *pair).has_conflicts


def rows(*texts: str, name: str) -> tuple[Passage, list[Citation]]:
    """A table as a passage, and each row below its header as a citation."""
    number = len(name)
    table = chunk(list(texts), "table", id=number, document_id=name)
    document = Document(name, f"{name}.csv", "", "", "ready")
    passage = Passage(number, Hit(table, document, 1.0, 0.5, 0.9), (table,), table.text)
    cited = (cite(number, one, name) for one in texts[1:])
    return passage, [replace(one, document_name=document.name, chunk_id=number) for one in cited]


def told_of_tables(question: str, *tables: tuple[Passage, list[Citation]]) -> Sufficiency:
    query = Query(question, question, np.zeros(4), tuple(query_terms(question)))
    cited = [one for _, citations in tables for one in citations]
    claims = [Claim(one.quote, 0, 1, (one.marker,), (0,), "supported", 1.0) for one in cited]
    return sufficiency(query, SURE, Context(tuple(passage for passage, _ in tables), "", 0), claims, cited)


def test_rows_conflict_when_row_column_and_period_are_the_same() -> None:
    question = "What do meals cost in Japan?"
    one = rows("Destination | Meals | Hotel", "Japan | 46 | 170", name="travel")
    same = rows("Destination | Hotel | Meals", "Japan | 170 | 48", name="expenses")
    assert told_of_tables(question, one, same).conflicts[0].text == "travel.csv says 46, expenses.csv says 48"
    other_row = rows("Destination | Meals | Hotel", "Norway | 52 | 170", name="abroad")
    other_column = rows("Destination | Dinners | Hotel", "Japan | 52 | 170", name="dinner")
    other_year = rows("Destination | Meals | Hotel", "Japan | 52 | 170", name="travel-2019")
    assert [told_of_tables(question, one, two).conflicts for two in (other_row, other_column, other_year)] == [()] * 3


def test_sentences_of_one_page_do_not_conflict() -> None:
    pair = cite(1, "The gate closes at 20:00.", "d"), cite(2, "The gate closes at 21:00.", "d")
    assert not told("When does the gate close?", *pair).has_conflicts


@pytest.mark.parametrize("entry", [one for one in QUESTIONS if "quotes" in one], ids=lambda one: one["question"][:30])
def test_the_conflicts_of_the_examples_are_found(examples: Refdesk, entry: dict[str, list[str]]) -> None:
    answer = examples.ask_sync(str(entry["question"]))
    assert answer.sufficiency.has_conflicts
    pair = answer.sufficiency.conflicts[0].markers
    assert {one.document_name for one in answer.citations if one.marker in pair} == set(entry["documents"])


def test_ordinary_answers_of_the_examples_show_none(examples: Refdesk) -> None:
    asked = [one["question"] for one in QUESTIONS if one.get("document")]
    clashing = [one for one in asked if examples.ask_sync(one).sufficiency.has_conflicts]
    assert clashing == []


# nearest topics


def test_nearest_topics_are_headings_of_what_was_found_once_each() -> None:
    document = Document("d", "d.pdf", "", "", "ready", title="Handbook")
    paths = [("Travel", "Hotels"), ("Travel", "Hotels"), (), ("Leave",), ("Boats",)]
    hits = tuple(Hit(replace(chunk(["A b."]), heading_path=path), document, 1.0, 0.5, 0.9) for path in paths)
    assert nearest_topics(Retrieved(hits, hits, {}, {})) == ("Hotels", "Handbook", "Leave")
    assert nearest_topics(Retrieved((), hits, {}, {})) == ()
