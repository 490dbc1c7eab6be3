"""Questions that a paragraph answers: entries of a list of faults, frequent questions, a section called after them;
how much is quoted, and how sure an answer is that only words speak for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_desk import KINDS, AnyDesk, kept_in
from refdesk import Answer, Refdesk
from refdesk.ask.wording import intent_of, wants

STORES = KINDS

FAULTS = """# Hand winch HW-3

## Faults

**The rope slips.** The drum is wet or the pawl is worn. Dry the drum and replace the pawl.

**Noise when winding.** Sand has come into the gear. Rinse it with fresh water.

**The crank does not turn.** The brake is on. Pull the red lever by a hand's width.

## Care

The drum is greased in spring and in autumn. The rope must be checked once a month.
"""
ANSWERS = """# Questions about the mooring app

**Can I use the app without a network?**
No. The app needs a connection to the harbour office. Reservations are kept for an hour if it is lost.

**How many boats can I add?**
The free account has one boat. The club account has twenty.

**How do I close my account?**
Only the owner can close it. Open Account, choose Close and confirm with your code. The data is erased after 30 days.
"""
COVER = """# Hull insurance

## What is covered

Claims from storms, fire and collision are covered up to the value of the boat.

You may cancel the insurance within 14 days, if you have made no claim.

## How to claim

Call the claims line within a week. Send two photographs of the damage. Most claims are paid in ten days.
"""
STAFF = """# Rules for the staff of the boatyard

These rules are for employees. Trainees and guests are not covered by them.

## Leave

Parental leave is six weeks on full pay. It may be taken in two parts.

## Pay in illness

During the first half year only half of the wage is paid in illness. After that the full wage is paid for eight weeks.
"""
VERSIONS = """# Mooring app 4

## 4.2

New
- Berths can be shared.
- Tides are shown for a week.

Mended
- The map no longer turns.
"""
WINTER = """# A winter by the sea

After dinner the guests put on their coats, for it was quite probable that the harbour would freeze. After that they
went down to the ice and skated until the lamps were put out.
"""
FILES = {
    "winch.md": FAULTS,
    "app.md": ANSWERS,
    "hull.md": COVER,
    "staff.md": STAFF,
    "versions.md": VERSIONS,
    "winter.md": WINTER,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("documents")
    for name, text in FILES.items():
        Path(folder / name).write_text(text, encoding="utf-8")
    with Refdesk(tmp_path_factory.mktemp("paragraphs") / "library") as found:
        found.add(folder)
        yield found


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def ask(desk: AnyDesk, question: str) -> Answer:
    return desk.ask_sync(question, cache=False)


def told(answer: Answer) -> list[str]:
    return [claim.text for claim in answer.claims]


@pytest.mark.parametrize(
    ("question", "quoted"),
    [
        ("rope slips what to do", ["The drum is wet", "Dry the drum"]),
        ("winch crank does not turn", ["The brake is on", "Pull the red lever"]),
        ("noise when winding the rope", ["Sand has come", "Rinse it"]),
    ],
)
def test_below_the_words_of_the_question_the_whole_paragraph_answers(
    desk: AnyDesk, question: str, quoted: list[str]
) -> None:
    answer = ask(desk, question)
    assert answer.is_answered
    assert all(part in answer.content for part in quoted)


@pytest.mark.parametrize(
    ("question", "first", "last"),
    [
        ("can I use the app without a network", "No.", "Reservations"),
        ("how many boats can I add?", "The free account has one boat.", "The club account"),
        ("how do I close my account", "Only the owner can close it.", "The data is erased"),
    ],
)
def test_a_frequent_question_is_answered_with_all_that_stands_below_it(
    desk: AnyDesk, question: str, first: str, last: str
) -> None:
    answer = ask(desk, question)
    assert told(answer)[0] == first
    assert last in answer.content


def test_a_section_called_how_to_do_it_tells_how(desk: AnyDesk) -> None:
    answer = ask(desk, "how do I make a claim on my hull insurance")
    assert told(answer)[0] == "Call the claims line within a week."
    assert "two photographs" in answer.content
    assert "cancel" not in answer.content


def test_nothing_is_added_to_a_sentence_that_surely_answers(desk: AnyDesk) -> None:
    answer = ask(desk, "How long is parental leave?")
    assert told(answer) == ["Parental leave is six weeks on full pay."]


def test_sides_that_nothing_names_are_not_sought_in_other_documents(desk: AnyDesk) -> None:
    answer = ask(desk, "difference between pay in illness during and after the first half year")
    assert {citation.document_name for citation in answer.citations} == {"staff.md"}


def test_words_alone_make_no_answer_sure(desk: AnyDesk) -> None:
    """The passages speak of leave, and none of them says whether trainees have it; a reader knows."""
    assert ask(desk, "Do trainees get parental leave?").confidence.level != "high"


def test_a_heading_between_lists_is_not_quoted(desk: AnyDesk) -> None:
    assert {"New", "Mended"}.isdisjoint(told(ask(desk, "what's new in version 4.2 of the mooring app")))


def test_how_often_asks_for_one_thing(desk: AnyDesk) -> None:
    answer = ask(desk, "how often do I have to check the rope of the winch")
    assert told(answer)[0] == "The rope must be checked once a month."
    assert "once a month" in answer.short


@pytest.mark.parametrize(
    "question",
    ["cost of the annual policy", "weight of the dishwasher", "address of the landlord", "name of the clerk"],
)
def test_what_is_typed_into_a_search_box_asks_for_one_thing(question: str) -> None:
    """Not for a summary of the document, nor for a list."""
    assert (intent_of(question), wants(question)) == ("factual", "one")
