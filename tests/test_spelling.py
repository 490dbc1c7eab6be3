"""Misspelled words: what is put right, what is left alone, what is never named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fit_spelling import FEATURES
from memory_desk import KINDS, AnyDesk, open_either
from refdesk.ask.understand import WEIGHTS_FILE, correct, spelled, word_list
from refdesk.text import edit_distances
from refdesk.types import Scope

STORES = KINDS
HELD = {"anchor": 8, "warranty": 5, "beyonce": 3, "numpy": 4, "pgvector": 2, "amcor": 9, "mooring": 6, "stahl": 1}


def corrected(text: str, held: dict[str, int] | None = None, *, languages: tuple[str, ...] = ("en",)) -> str:
    """With a library that holds just these words."""
    words = HELD if held is None else held
    found = correct(
        text,
        known=lambda asked: set(asked) & set(words),
        similar=lambda word, most: [one for one in words.items() if edit_distances(word, [one[0]])[0] <= most],
        languages=languages,
        chunks=100,
    )
    return found.text


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("How hevy is the anchr?", "How heavy is the anchor?"),
        ("What is the warrenty period?", "What is the warranty period?"),
        ("how old is beyonse now?", "how old is beyonce now?"),
        ("Beyonse age in the year", "Beyonce age in the year"),
        ("wich anchor is heavier?", "which anchor is heavier?"),
        ("what's the goverment's view?", "what's the government's view?"),
        ("is it well-knwon there?", "is it well-known there?"),
        ("Is the deffinition of moring there?", "Is the definition of mooring there?"),
    ],
)
def test_typos_are_put_right(typed: str, meant: str) -> None:
    assert corrected(typed) == meant


@pytest.mark.parametrize(
    "text",
    [
        "How do I store a numpy array in pgvector?",  # held by the documents, near to English words
        "What was Amcor's margin in Q3?",
        "Is TG-4 heavier than WB-7 or wb_7x?",  # digits, underscore
        "What does kubectl do with numpi5?",
        "Who maintains openSSL and the SDKX?",  # inner capital, all capitals
        "Wo liegt die Boje bei Lödøn?",  # beyond ASCII, and not English
        "Quelle est la garantie de la bouee et du flotteur?",
        "Is the wharf porous?",  # plain English that no document holds
        "whats the anchor for, and why dont we weigh it?",
        "Did Stahk leave?",  # a short name within a question: two people
        "see example.com/manul or a@b.orgg",
        "tge of rhe",  # too short to tell
    ],
)
def test_what_is_right_or_unclear_is_left_alone(text: str) -> None:
    assert corrected(text) == text


def test_a_common_word_at_the_head_of_a_question_is_put_right() -> None:
    assert corrected("Goverment plans for the harbour", {}) == "Government plans for the harbour"


def test_trade_words_that_no_document_holds_stay_when_their_first_letter_differs() -> None:
    for word in ("numpy", "laytime", "mcdouble"):
        assert corrected(f"what is {word} about", {"daytime": 9, "double": 50}) == f"what is {word} about"


def test_without_english_documents_only_their_own_words_are_offered() -> None:
    assert corrected("welche anchr ist hevy", languages=()) == "welche anchor ist hevy"


def test_a_question_of_which_too_little_would_survive_is_left_as_it_is() -> None:
    assert corrected("accomodation recieve definately", {}) == "accomodation recieve definately"


def test_changes_are_told_once_each() -> None:
    found = correct("anchr to anchr in the bay", lambda words: set(), lambda word, most: [("anchor", 3)])
    assert found.text == "anchor to anchor in the bay"
    assert found.changes == (("anchr", "anchor"),)


@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [
        ("recieve", "receive", 1),
        ("anchor", "anchor", 0),
        ("anchor", "anchors", 1),
        ("kitten", "sitting", 3),
        ("", "a", 1),
    ],
)
def test_edit_distance(one: str, other: str, edits: int) -> None:
    assert edit_distances(one, [other, one, "recieves"])[:2] == [edits, 0]
    assert edit_distances(other, [one]) == [edits]


def test_a_word_list_is_read_once_and_missing_ones_are_no_error() -> None:
    english = word_list("en")
    assert english is not None and "effective" in english and english is word_list("en")
    assert word_list("xx") is None and word_list("../en") is None


def test_the_weights_are_those_of_the_features() -> None:
    made = json.loads(WEIGHTS_FILE.read_text(encoding="utf-8"))
    assert set(made["weights"]) == set(FEATURES) and made["trained_on"]


FILINGS = {
    "apple": 80, "effective": 30, "tax": 50, "quarter": 60, "hoc": 9, "password": 40, "server": 50, "lakes": 12,
    "dpt": 20, "third": 30, "rate": 60,
}  # fmt: skip


def test_a_question_full_of_typos_is_put_right() -> None:
    typed = "Waht is teh efective tax rate of Aple in teh third quater of 2023?"
    assert corrected(typed, FILINGS) == "What is the effective tax rate of Apple in the third quarter of 2023?"


@pytest.mark.parametrize(
    "text",
    [
        "Wie hoch ist der Turm?",
        "Wie lautet mein Passwort?",
        "Quel serveur est le bon?",
        "Did the Lakers win?",
        "what does tdpt stand for?",
    ],
)
@pytest.mark.parametrize("languages", [("en", "de", "fr"), ("en",)])
def test_a_word_of_another_language_a_name_and_a_code_stay(text: str, languages: tuple[str, ...]) -> None:
    assert corrected(text, FILINGS, languages=languages) == text


# with a real library


def test_words_of_the_documents(examples: AnyDesk) -> None:
    found = spelled("What does the moorng weigh?", examples.parts.reader, Scope())
    assert found.changes == (("moorng", "mooring"),)
    assert not spelled("What does the mooring weigh?", examples.parts.reader, Scope()).changes


def test_a_word_outside_the_scope_is_never_named(desk: AnyDesk) -> None:
    desk.add_text("a", "The project Qualvorium is secret. The Qualvorium costs much.", collection="closed")
    desk.add_text("b", "The lighthouse is white.", collection="open")
    typed = "What does the project qualvorum cost?"
    assert spelled(typed, desk.parts.reader, Scope()).changes == (("qualvorum", "qualvorium"),)
    assert not spelled(typed, desk.parts.reader, Scope(access=("open",))).changes
    assert not desk.parts.reader.similar_words("qualvorum", 2, Scope(access=("open",)))
    assert desk.parts.reader.similar_words("qualvorum", 2, Scope()) == [("qualvorium", 1)]


def test_a_frequent_word_does_not_hide_the_one_that_was_meant(desk: AnyDesk) -> None:
    desk.add_texts(
        {"name": f"able-{n}", "text": f"Ship {n} is able to sail, and table {n} says so."} for n in range(80)
    )
    desk.add_texts({"name": f"note-{n}", "text": f"Apple sold {n} computers that month."} for n in range(20))
    near = dict(desk.parts.reader.similar_words("aple", 1, Scope()))
    assert near["able"] == 80 and near["apple"] == 20


def test_a_name_that_a_document_has_is_put_right_sooner(store_kind: str, tmp_path: Path) -> None:
    """Written with a capital it may be another name; but documents are called by this one."""
    texts = [{"name": f"note-{n}", "text": f"Amazon opened warehouse {n}."} for n in range(8)]
    others = [{"name": f"other-{n}", "text": f"The harbour has {n} cranes."} for n in range(80)]
    changed = []
    for title in ("Notes of warehouses", "Amazon"):
        with open_either(store_kind, tmp_path / title.split()[0]) as desk:
            desk.add_texts({**row, "title": title} for row in texts)
            desk.add_texts(others)
            changed.append(spelled("Which warehouse did Amazn open?", desk.parts.reader, Scope()).changes)
    assert changed == [(), (("Amazn", "Amazon"),)]
