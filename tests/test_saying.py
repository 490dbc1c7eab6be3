"""How is it said? Lists and steps whole and in order, things side by side, the sections of a document, yes and no.

Over small documents in Markdown, HTML, DOCX and PDF, asked as people ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_desk import KINDS, AnyDesk, kept_in, open_either
from refdesk import Answer, Refdesk
from refdesk.ask.listing import listings
from refdesk.ask.wording import is_missing, language_of, other_language, said, wants
from refdesk.ask.yes_or_no import yes_or_no
from refdesk.types import Chunk, Sentence
from saying_samples import BATTERY, CHECKS, PAPERS, write_samples
from test_quotes import check

STORES = KINDS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("documents")
    write_samples(folder)
    with Refdesk(tmp_path_factory.mktemp("saying") / "library") as found:
        assert {one.outcome for one in found.add(folder)} == {"added"}
        yield found


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def claims(answer: Answer) -> list[str]:
    return [claim.text for claim in answer.claims]


# --- lists and steps -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "lead", "items"),
    [
        pytest.param(
            "What is in the box of the Brava 300?",
            "The carton contains:",
            ["the machine with its drip tray", "a water tank of 1.8 litres", "a milk jug", "a sachet of descaler"],
            id="markdown",
        ),
        pytest.param(
            "Which operating systems does the VPN support?",
            "The VPN can be used with the following operating systems:",
            ["Windows 11", "macOS 14 and later", "Ubuntu 24.04"],
            id="html",
        ),
        pytest.param(
            "Which documents must new colleagues send to Human Resources?",
            "New colleagues send the following documents to Human Resources:",
            PAPERS,
            id="docx",
        ),
        pytest.param(
            "What does the forklift driver check before each shift?",
            "Before each shift the driver checks:",
            CHECKS,
            id="pdf",
        ),
    ],
)
def test_a_list_is_given_whole_in_order_and_cited(desk: AnyDesk, question: str, lead: str, items: list[str]) -> None:
    answer = desk.ask_sync(question)
    assert claims(answer) == [lead, *items]
    assert answer.content == "\n".join([f"{lead} [1]", *(f"- {item} [1]" for item in items)])
    assert check(desk, answer) == len(items) + 1
    assert all(len(claim.citations) == 1 for claim in answer.claims)


@pytest.mark.parametrize(
    ("question", "first", "count"),
    [
        pytest.param("How do I descale the Brava 300?", "1. Switch the machine off", 6, id="markdown"),
        pytest.param("How do I connect to the VPN?", "1. Open the program Gatekeeper", 4, id="html"),
        pytest.param("How can I change the battery of a forklift?", f"1 {BATTERY[0]}", 4, id="pdf"),
    ],
)
def test_steps_are_those_of_one_section_in_order(desk: AnyDesk, question: str, first: str, count: int) -> None:
    answer = desk.ask_sync(question)
    assert len(answer.claims) == count
    assert answer.claims[0].text.startswith(first)
    numbers = [line[0] for line in answer.content.splitlines()]
    assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
    assert check(desk, answer) == count
    assert not answer.short


def test_a_step_of_two_sentences_stays_one_step(desk: AnyDesk) -> None:
    lines = desk.ask_sync("How do I descale the Brava 300?").content.splitlines()
    assert lines[2] == "3. Pour one sachet of descaler into the tank. [1] Fill it up with a litre of water. [1]"


def test_rows_of_a_table_are_a_list(examples: AnyDesk) -> None:
    answer = examples.ask_sync("Which error codes does the TG-4 have?")
    assert [text.partition(" | ")[0] for text in claims(answer)] == ["Code", "E11", "E23", "E31", "E42", "E57"]
    assert check(examples, answer) == 6


def test_a_table_in_several_chunks_is_one_list(examples: AnyDesk) -> None:
    answer = examples.ask_sync("List the parts of the WB-7 mooring")
    assert [text.partition(" | ")[0] for text in claims(answer)] == ["Item", *"123456789"]
    assert check(examples, answer) == 10


def test_only_the_rows_that_are_asked_for(examples: AnyDesk) -> None:
    answer = examples.ask_sync("Which spare parts are there for the TG-4?")
    assert len(answer.claims) == 7 and all("| Spare part | TG-4" in text for text in claims(answer)[1:])
    assert answer.confidence.level != "high", "rows of a table are never sure"


def test_an_item_alone_answers_what_asks_for_one_thing(desk: AnyDesk) -> None:
    answer = desk.ask_sync("How long must the cup button be held when the Brava 300 is descaled?")
    assert claims(answer)[0] == "5. Hold the cup button for five seconds until the red drop blinks."
    assert answer.short == "five seconds"


def test_what_no_list_tells_is_never_sure(examples: AnyDesk) -> None:
    """Who changes a battery is not how it is changed."""
    assert examples.ask_sync("How do I replace the battery of the TG-4?").confidence.level == "low"


def test_a_long_list_is_shown_in_part_and_counted(store_kind: str, tmp_path: Path) -> None:
    rules = "\n".join(
        f"{n}. Rule number {n} of the harbour forbids boats of class {n} to moor at pier {n}." for n in range(1, 21)
    )
    text = f"# Rules\n\n## Rules of the harbour\n\nThe rules of the harbour are these:\n\n{rules}\n"
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_text("rules.md", text, format="markdown")
        answer = desk.ask_sync("What are the rules of the harbour?")
    assert [text.partition(".")[0] for text in claims(answer)[1:]] == [str(n) for n in range(1, 13)]
    assert answer.notes == ("The list has 20 items; the first 12 are shown. The others are on page 1 of “rules.md”.",)


def test_an_enumeration_in_prose_is_the_short_answer(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What are the departments of Holm Shipping?")
    assert answer.short == "Chartering, Fleet Operations, Crewing and Finance"
    assert len(answer.claims) == 1


def _chunk(text: str, *sentences: str, sequence: int = 1) -> Chunk:
    places, at = [], 0
    for one in sentences:
        start = text.index(one, at)
        at = start + len(one)
        places.append(Sentence(start, at, 1))
    return Chunk("d", sequence, "text", text, (), (1,), (), tuple(places), 10, id=sequence)


def test_numbered_headings_are_no_list() -> None:
    text = "3 Limits\n\nThe mooring holds.\n\n4 Power\n\nThe buoy runs for 14 months."
    assert not listings([_chunk(text, "3 Limits", "The mooring holds.", "4 Power", "The buoy runs for 14 months.")])


def test_a_list_goes_on_in_the_next_chunk() -> None:
    first = _chunk("Steps:\n\n1. One.\n2. Two.", "Steps:", "1. One.", "2. Two.")
    second = _chunk("2. Two.\n3. Three.\n\nDone.", "2. Two.", "3. Three.", "Done.", sequence=2)
    (found,) = listings([first, second])
    assert [(item[0].chunk, item[0].sentence) for item in found.items] == [(0, 1), (0, 2), (1, 1)]


# --- side by side ----------------------------------------------------------------------------------------------------


def test_rows_of_one_table_are_compared_cell_by_cell(desk: AnyDesk) -> None:
    answer = desk.ask_sync("Compare the Brava 200 and the Brava 500")
    (figure,) = answer.figures
    assert figure.table == (
        ("", "Brava 200", "Brava 500"),
        ("Tank", "1.2 l", "3.0 l"),
        ("Pressure", "9 bar", "15 bar"),
        ("Price", "420 euros", "1,150 euros"),
    )
    assert len(figure.marked) == len(figure.cells) == len(answer.citations) == 6
    assert answer.content.splitlines()[0] == "Tank: 1.2 l (Brava 200), 3.0 l (Brava 500) [1]"
    assert check(desk, answer) == 3


def test_only_what_is_asked_for_is_compared(desk: AnyDesk) -> None:
    answer = desk.ask_sync("Compare the price of the Brava 200 and the Brava 300")
    assert answer.content == "Price: 420 euros (Brava 200), 610 euros (Brava 300) [1]"


def test_a_table_that_lacks_what_is_asked_for_compares_nothing(examples: AnyDesk) -> None:
    """The table of batteries has no prices."""
    answer = examples.ask_sync("Compare the price of the alkaline pack and the lithium pack")
    assert "months" not in answer.content or answer.confidence.level == "low"


def test_without_a_table_each_side_has_a_sentence(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What is the difference between the wired and the wireless network?")
    assert [text.split(" reaches ")[0] for text in claims(answer)] == [
        "The wired network",
        "The wireless network Quay-Staff",
    ]
    assert not answer.figures


def test_a_side_that_nothing_names_is_said(desk: AnyDesk) -> None:
    answer = desk.ask_sync("Compare the wired network and the telegraph office")
    assert answer.confidence.level == "low"


# --- a document in a few sentences -----------------------------------------------------------------------------------


def test_a_document_is_summed_up_by_its_sections(desk: AnyDesk) -> None:
    answer = desk.ask_sync("Summarise the forklift safety instruction")
    assert {one.document_name for one in answer.citations} == {"forklift-safety.pdf"}
    assert 3 <= len(answer.claims) <= 6 and answer.is_answered
    assert check(desk, answer) == len(answer.claims)


def test_neither_authors_nor_references_sum_up_a_paper(store_kind: str, tmp_path: Path) -> None:
    paper = """# Drift of pressure gauges

Ada Reed and Bo Lind

Institute of Tides, 12 Quay Street, Brannoch, reed@tides.example

## Abstract

Pressure gauges drift when mussels grow on them. We measured the drift of twelve gauges for two years.

## Method

Six gauges carried a guard of copper and six were left bare. Their readings were compared with a radar gauge.

## Results

Bare gauges drifted by three millimetres a year, guarded ones by less than one.

## References

Reed, A. (2019). Tides and Mussels. Journal of Tides, pp. 3-12.

Lind, B., Moe, C. (2021). Copper Guards. Harbour Press, vol. 4.
"""
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_text("drift-paper.md", paper, format="markdown")
        answer = desk.ask_sync("Summarise the drift paper")
    assert not any(name in answer.content for name in ("Ada Reed", "Institute", "Journal", "Harbour Press"))
    assert (
        answer.content.index("Pressure gauges drift")
        < answer.content.index("copper")
        < answer.content.index("Bare gauges")
    )


def test_the_document_that_is_named_is_summed_up_and_no_other(examples: AnyDesk) -> None:
    answer = examples.ask_sync("Give me an overview of the field manual")
    assert answer.is_answered
    assert {one.document_name for one in answer.citations} == {"wb7-field-manual.epub"}
    assert [one.page for one in answer.citations] == sorted(one.page for one in answer.citations)


# --- yes and no ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "sentence", "wanted"),
    [
        ("Does the writer restart by itself?", "The writer does not restart by itself, because it is old.", "No."),
        ("Are phones forbidden while driving?", "Phones are forbidden while driving.", "Yes."),
        ("May guests use the machine?", "Guests may use the machine.", "Yes."),
        ("Are phones allowed while driving?", "Phones are forbidden while driving.", ""),
        ("Can the tank be washed in a dishwasher?", "The tray may be washed in a dishwasher, the tank may not.", ""),
        ("Did Borealis sue Acme?", "Acme sued Borealis.", ""),
        ("Do guests use the machine?", "Guests rarely use the machine.", ""),
        ("Does the plan cover dental care?", "The plan covers dental care only after one year.", ""),
        ("Does the connection end after ten hours?", "The connection ends after twelve hours.", ""),
        ("Is the highest speed 12 km/h?", "The highest speed is 6 km/h inside and 12 km/h in the yard.", ""),
        ("Who may use the machine?", "Guests may use the machine.", ""),
    ],
)  # fmt: skip
def test_yes_and_no_are_said_for_certain_or_not_at_all(question: str, sentence: str, wanted: str) -> None:
    assert yes_or_no(question, [sentence]) == wanted


def test_yes_comes_before_the_sentence(desk: AnyDesk) -> None:
    answer = desk.ask_sync("Are phones forbidden while driving?")
    assert answer.short == "Yes." and claims(answer) == ["Phones are forbidden while driving."]


def test_a_name_is_no_definition(examples: AnyDesk) -> None:
    assert examples.ask_sync("What is storm mode?").short != "the buoy"


# --- what is wanted --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "wanted"),
    [
        ("How do I renew a passport?", "steps"),
        ("How to mount a bucket on a server", "steps"),
        ("Wie wechsle ich den Filter?", "steps"),
        ("How often must the certificate be renewed?", "one"),
        ("How did the war begin?", "one"),
        ("Which tools does the kit contain?", "several"),
        ("Name the members of the board", "several"),
        ("Who is the chair of the board?", "one"),
        ("May I bring a dog?", "polar"),
        ("Can I use bleach to clean the tank?", "polar"),
        ("What is a swivel?", "definition"),
        ("How soon do I have to report a theft?", "one"),
        ("How old do I have to be to rent a bicycle?", "one"),
        ("How much luggage may I take?", "one"),
        ("What happens if I break the rules?", "one"),
        ("What is not covered by the ticket?", "several"),
        ("What am I not allowed to bring?", "several"),
        ("What should I do if there is a leak?", "steps"),
        ("How do I find out how much the ferry costs?", "steps"),
    ],
)
def test_what_a_question_wants(question: str, wanted: str) -> None:
    assert wants(question) == wanted


# --- languages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("How heavy is the buoy?", "en"),
        ("Wie schwer ist die Boje?", "de"),
        ("Combien coûte la location de la bouée ?", "fr"),
        ("¿Cuánto dura la batería de litio?", "es"),
        ("Quanto pesa la boa nella baia?", "it"),
        ("Hoe zwaar is de boei?", "nl"),
        ("Qual é o peso da boia?", "pt"),
        ("WB-7", ""),
    ],
)
def test_the_language_of_a_question(question: str, language: str) -> None:
    assert language_of(question) == language


def test_another_language_is_said_and_the_frames_are_in_the_question_s(desk: AnyDesk) -> None:
    answer = desk.ask_sync("Wie viele Einwohner hat die Stadt Hamburg?")
    assert not answer.is_answered and is_missing(answer.content)
    assert answer.content.startswith("Das steht nicht in den Dokumenten. Am nächsten kommt dem:")
    assert answer.citations, "what comes nearest is quoted"
    (note,) = answer.notes
    assert note.startswith("Die Frage ist auf Deutsch gestellt, die Dokumente sind auf Englisch geschrieben")


def test_the_same_language_is_not_worth_a_note(desk: AnyDesk) -> None:
    assert desk.ask_sync("How do I connect to the VPN?").notes == ()
    assert other_language("Wie schwer ist die Boje?", {"de", "en"}) == ""
    assert said("missing", "How many people live in Hamburg?") == "The documents do not say this."
