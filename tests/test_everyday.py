"""Questions to mails, receipts, forms, manuals and papers as people have them, over small documents made here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_desk import KINDS, AnyDesk, kept_in, open_either
from refdesk import Answer, Refdesk
from refdesk.answer import Turn
from refdesk.ask.classify import asked_form, captions, expansion, short_forms
from refdesk.ask.extract import below_heading
from refdesk.ask.listing import listings
from refdesk.ask.sentences import ScoredSentence, heads_text, may_stand
from refdesk.ask.wording import has_question_word, intent_of, table_header
from refdesk.text import paragraph
from refdesk.types import Chunk, Sentence

STORES = KINDS

MAIL = b"""From: Petra Holm <petra@quay.example>
To: Office <office@quay.example>
Cc: Arne Lund <arne@quay.example>
Subject: Summer party
Date: Tue, 04 Jun 2024 09:15:00 +0200
Content-Type: text/plain; charset=utf-8

Dear all,

we meet at the boathouse at noon. There will be grilled fish, a rowing race and music.

Please tell me
- whether you come by boat,
- whether you eat fish,
- and how many children you bring.

Kind regards
Petra
"""
RECEIPT = """# HARBOUR OUTFITTERS

Till 4, served by Nora Blix

Rope 12 mm, 20 metres $48.00

Fenders, set of two $62.50

## TOTAL $118.24

## PAYMENT

Paid in cash
"""
REVIEW = """# Quarterly review

| Product line | Q3 (million EUR) |
|---|---|
| Winches | 3.10 |
| KX-9 rudders | 0.98 |
| Total | 6.84 |
"""
MANUAL = """# KX-9 handbook

## About

The KX-9 is a folding rudder for small sailing boats that is lifted by a line. It weighs 7 kg with its tiller.

## Trouble

Tiller stiff: sand has come between the cheeks. Rinse the cheeks with fresh water. Move the tiller until it runs freely.

Blade loose: the pin has worn. Replace the pin and its ring. Never sail with a loose blade.

Line torn: the blade cannot be lifted. Tie a new line to the eye at its foot.
"""
PAPER = """# Growth on rudder blades

## 1 Background

The antifouling coating system (ACS) was applied to twelve blades in spring. The coating lasts for one season.

Wear: the loss of coating in a season. It is measured at the leading edge.

Growth: the mass of algae on a blade after a season. It is weighed wet.

## 2 Results

Figure 2 shows what was weighed on each of the blades, and the table lists them one by one.

Figure 2: Mean growth of coated and bare blades, May to September.
"""
CHART = "# Tide tables of the outer harbour\n\nFigure 7: Heights of the spring tides in the outer harbour.\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("documents")
    files = {
        "receipt_chandlery_2024.md": RECEIPT,
        "review.md": REVIEW,
        "handbook.md": MANUAL,
        "growth.md": PAPER,
        "tides.md": CHART,
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "party.eml").write_bytes(MAIL)
    with Refdesk(tmp_path_factory.mktemp("everyday") / "library") as found:
        assert {one.outcome for one in found.add(folder)} == {"added"}
        yield found


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def ask(desk: AnyDesk, question: str, *before: str) -> Answer:
    history: list[Turn] = []
    for earlier in before:
        told = desk.ask_sync(earlier, history=history, cache=False)
        history += [Turn("user", earlier), Turn("assistant", told.content)]
    return desk.ask_sync(question, history=history, cache=False)


# --- mails -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "short"),
    [
        ("Who sent the mail about the summer party?", "Petra Holm"),
        ("Who wrote the e-mail on the summer party?", "Petra Holm"),
        ("When was the mail about the summer party sent?", "Jun 2024"),
    ],
)
def test_who_wrote_a_mail_and_when_its_headers_say(desk: AnyDesk, question: str, short: str) -> None:
    answer = ask(desk, question)
    assert answer.is_answered
    assert short in answer.short
    assert len(answer.claims[0].text.splitlines()) == 1


def test_every_part_of_a_mail_knows_who_sent_it(desk: AnyDesk) -> None:
    chunks = desk.chunks("party.eml")
    assert {chunk.context for chunk in chunks} == {"E-mail sent by Petra Holm › Summer party"}


def test_what_a_mail_lists_is_quoted_item_by_item(desk: AnyDesk) -> None:
    texts = [chunk.text[start:end] for chunk in desk.chunks("party.eml") for start, end, *_ in chunk.sentences]
    assert "- whether you eat fish," in texts
    assert "From: Petra Holm <petra@quay.example>" in texts


# --- lines that are set apart ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Please say\n- whether it fits,\n- what it costs.", ["Please say", "- whether it fits,", "- what it costs."]),
        ("Steps\n1. open it\n2. close it", ["Steps", "1. open it", "2. close it"]),
        ("Owner: Ada\nPlace: Oslo\nBuilt in 1998", ["Owner: Ada", "Place: Oslo\nBuilt in 1998"]),
        ("It cost the town\n- and the county - much.", ["It cost the town\n- and the county - much."]),
        ("In the year\n12. it was sold\n40. of its kind", ["In the year\n12. it was sold\n40. of its kind"]),
        ("One line.", ["One line."]),
        ("Note: it rains\nand it pours.", ["Note: it rains\nand it pours."]),
    ],
)
def test_lines_that_are_set_apart_are_sentences_of_their_own(text: str, parts: list[str]) -> None:
    assert [text[start:end] for start, end in paragraph(text)] == parts


# --- the document that is meant --------------------------------------------------------------------------------------


def test_the_document_that_is_named_wins_over_a_doubtful_figure_of_another(desk: AnyDesk) -> None:
    answer = ask(desk, "What is the total on the chandlery receipt?")
    assert "118.24" in answer.content
    assert "6.84" not in answer.content


def test_a_follow_up_is_not_answered_with_what_was_asked_before(desk: AnyDesk) -> None:
    answer = ask(desk, "And what was the total?", "Who served the customer on the chandlery receipt?")
    assert "Nora Blix" not in answer.short
    assert "Nora Blix" not in answer.claims[0].text


def test_a_question_that_asks_by_itself_has_a_question_word() -> None:
    assert has_question_word("And what was the total?")
    assert has_question_word("How many were sold?")
    assert not has_question_word("And in May?")
    assert not has_question_word("What about May?")


def test_what_something_is_no_figure_says(desk: AnyDesk) -> None:
    answer = ask(desk, "What is the KX-9?")
    assert not answer.figures
    assert "folding rudder" in answer.claims[0].text


# --- captions and short forms ----------------------------------------------------------------------------------------


def test_what_a_figure_shows_its_caption_says(desk: AnyDesk) -> None:
    answer = ask(desk, "What does Figure 2 show?")
    assert answer.intent == "factual"
    assert answer.claims[0].text == "Figure 2: Mean growth of coated and bare blades, May to September."


def test_what_a_short_form_stands_for(desk: AnyDesk) -> None:
    answer = ask(desk, "What does ACS stand for?")
    assert answer.short == "antifouling coating system"


@pytest.mark.parametrize(
    ("sentence", "is_caption"),
    [
        ("Fig. 5. Langmuir isotherm", True),
        ("Figure 5: Mean", True),
        ("FIGURE 5 Mean of all", True),
        ("Figure 5 shows the mean", False),
        ("Figure 55: Mean", False),
        ("Table 5: Mean", False),
        ("as Figure 5: says", False),
    ],
)
def test_captions_are_told_by_their_form(sentence: str, is_caption: bool) -> None:
    asked = captions("What is shown in Figure 5?")
    assert asked is not None
    assert asked(sentence) is is_caption


@pytest.mark.parametrize(
    "question",
    ["What was the mean growth of coated blades in Figure 5?", "What does water mean?", "What do we know of MCAS?"],
)
def test_other_questions_ask_for_no_form(question: str) -> None:
    assert asked_form(question) is None


@pytest.mark.parametrize(
    ("short", "sentence", "full"),
    [
        ("DSP", "The digital signal processor (DSP) is cool.", "digital signal processor"),
        ("OPM", "by the Office of Personnel Management (hereafter called OPM).", "Office of Personnel Management"),
        ("DSP", "A DSP (digital signal processor) is cool.", "digital signal processor"),
        ("DSP", "The old processor (DSP) is cool.", ""),
        ("DSP", "(DSP)", ""),
    ],
)
def test_short_forms_are_spelled_out(short: str, sentence: str, full: str) -> None:
    assert expansion(short, sentence) == full
    assert short_forms(f"What does {short} mean?") is not None


# --- what is done, and what differs ----------------------------------------------------------------------------------


def test_what_to_do_is_told_with_the_sentences_around_the_case(desk: AnyDesk) -> None:
    answer = ask(desk, "What should the crew do when the blade is loose?")
    texts = [claim.text for claim in answer.claims]
    assert "Replace the pin and its ring." in texts
    assert answer.short == ""
    assert answer.confidence.level != "high"


def test_things_that_differ_are_told_by_what_each_is(desk: AnyDesk) -> None:
    answer = ask(desk, "What is the difference between wear and growth?")
    assert [claim.text.partition(":")[0] for claim in answer.claims] == ["Wear", "Growth"]


# --- lists -----------------------------------------------------------------------------------------------------------


def chunk_of(text: str, kind: str = "text", context: str = "") -> Chunk:
    found, at = [], 0
    for line in text.split("\n"):
        if line.strip():
            found.append(Sentence(at, at + len(line), 1, ()))
        at += len(line) + 1
    return Chunk("d", 1, kind, text, (), (1,), (), tuple(found), 1, context=context)  # type: ignore[arg-type]


def test_an_item_that_broke_off_goes_on_in_the_next_block() -> None:
    text = (
        "Send it by\n\n• Fax: 12 34.\n• Mail: Department of\n\nHarbours, Room 3.\n\n"
        "• Hand: to the\n\nporter at the gate.\n\nThe end."
    )
    (found,) = listings([chunk_of(text)])
    assert [len(item) for item in found.items] == [1, 2, 2]


def test_what_stands_between_two_lists_ends_the_first() -> None:
    text = "• one.\n• two.\n\nIn between.\n\n• three.\n• four."
    assert [len(found.items) for found in listings([chunk_of(text)])] == [2, 2]


def test_the_list_that_holds_the_answer_is_given_though_a_line_beside_it_has_more_of_the_words(
    store_kind: str,
    tmp_path: Path,
) -> None:
    with open_either(store_kind, tmp_path / "library") as desk:
        text = (
            "# CURRENT MEDICATIONS\n\n1. Lisinopril 10mg, once daily\n2. Metformin 500mg, twice daily\n\n"
            "Report 38 on Jonathan Harrison, taken currently\n"
        )
        desk.add_text("report.md", text, format="markdown")
        answer = desk.ask_sync("Which medications does Jonathan Harrison currently take?", cache=False)
        assert "Lisinopril" in answer.content
        assert "Metformin" in answer.content


# --- what may be quoted ----------------------------------------------------------------------------------------------


def test_works_that_are_referred_to_are_not_quoted() -> None:
    works = "\n".join(f"Smith, A. (199{n}). The model of tides. Sea Journal, {n} (3), 45{n}-48{n}." for n in range(4))
    assert not may_stand(chunk_of(works), 0, is_read=True)
    assert may_stand(chunk_of("Smith (1991) proposed the model of tides."), 0, is_read=True)


def test_a_heading_that_ends_with_an_amount_says_something() -> None:
    chunk = chunk_of("TOTAL $821.14\nPAYMENT", context="Shop › TOTAL $821.14 › PAYMENT")
    assert [may_stand(chunk, place, is_read=True) for place in (0, 1)] == [True, False]


def test_a_row_of_a_form_names_no_columns() -> None:
    assert table_header(chunk_of("Name: | Ada | \nPlace: | Oslo | ", "table")) == slice(0, 0)
    assert table_header(chunk_of("Name: | Place:\nAda | Oslo", "table")) == slice(0, 1)


@pytest.mark.parametrize(
    ("question", "intent"),
    [
        ("What does the letter say about the fee?", "factual"),
        ("What does the annual report say about floods?", "factual"),
        ("What does the inspector recommend for the pump?", "factual"),
        ("What will there be at the open day?", "factual"),
        ("What is the report about?", "summary"),
        ("Summarise the annual report", "summary"),
    ],
)
def test_what_a_document_says_about_something_is_no_summary_of_it(question: str, intent: str) -> None:
    assert intent_of(question) == intent


FILLER = "The chart of the bay shows the depth at lowest tide, the cables on the ground and the lights of the harbour. "
MOORING = f"""# Mooring guide

## 4 Deployment

Lower the sinker first. If nothing is heard, recover the float and wait. {FILLER * 3}

## 5 Inspection

The conditions of the permit are these:

1. The permit ends in June. {FILLER * 3}
2. The float shall be inspected every year.

## 6 Recovery

Bring it alongside and secure it with two lines. Take the load on the winch. Then lift the sinker.
"""


def test_how_to_do_something_is_told_by_the_section_called_after_it(store_kind: str, tmp_path: Path) -> None:
    """Another section may have the question's very words, "recover the float", and not say how."""
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_text("mooring.md", MOORING, format="markdown")
        answer = desk.ask_sync("How do I recover the float?")
        assert [claim.text for claim in answer.claims] == [
            "Bring it alongside and secure it with two lines.",
            "Take the load on the winch.",
            "Then lift the sinker.",
        ]
        assert answer.confidence.level != "high"


OUTAGE = """OUTAGE REPORT

Title: Shop unavailable in the north
Date of the outage: 3 September 2025
Level: SEV-1
Led by: Priya Raman

Summary

Between 09:14 and 11:02 the shop refused most orders. Customers in other regions noticed nothing.

Cause

A certificate had run out at 09:12. The job that renews it had been switched off in July.

Differences from the report of June

The number of lost orders rose to 18,400. Nobody was paged at night. No data was lost.

Action items

1. Switch on the job that renews certificates. Owner: Lena Fischer. Due 10 September.
2. Send warnings to whoever is on call. Owner: Marcus Bell. Due 12 September.
3. Write down what to do about errors of the gateway. Owner: Priya Raman. Due 30 September.
"""


@pytest.fixture(scope="module")
def made_outage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("outage")
    (folder / "outage.txt").write_text(OUTAGE)
    with Refdesk(folder / "library") as desk:
        desk.add(folder / "outage.txt")
        yield desk


@pytest.fixture(scope="module")
def outage(store_kind: str, made_outage: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made_outage) as found:
        yield found


def test_a_list_is_given_whole_where_one_of_its_items_answers_best(outage: AnyDesk) -> None:
    answer = outage.ask_sync("What are the action items of the outage?", cache=False)
    assert [claim.text for claim in answer.claims if "Owner" in claim.text] == [
        "Owner: Lena Fischer.",
        "Owner: Marcus Bell.",
        "Owner: Priya Raman.",
    ]


def test_a_heading_within_a_chunk_is_not_quoted(outage: AnyDesk) -> None:
    answer = outage.ask_sync("What was the cause of the outage?", cache=False)
    assert "A certificate had run out at 09:12." in [claim.text for claim in answer.claims]
    assert not {"Cause", "Summary"} & {claim.text for claim in answer.claims}


def test_lines_of_labels_are_not_joined_however_even_they_are(outage: AnyDesk) -> None:
    texts = [hit.chunk.text for hit in outage.search("Priya Raman outage", k=3)]
    assert any("Level: SEV-1\nLed by: Priya Raman" in text for text in texts)


HEADED = "Cause\n\nA certificate had run out.\n\nPlace\n\nIt is large.\n\nOpened 1998\n\nJon Tamm\n\nIt is old."


def headed() -> Chunk:
    places, at = [], 0
    for part in HEADED.split("\n\n"):
        places.append(Sentence(at, at + len(part), 1))
        at += len(part) + 2
    return Chunk("d", 1, "text", HEADED, (), (1,), (), tuple(places), 1)


@pytest.mark.parametrize(("text", "heads"), [("Cause", True), ("Opened 1998", False), ("Jon Tamm", False)])
def test_a_heading_stands_between_texts(text: str, heads: bool) -> None:
    assert heads_text(headed(), HEADED.split("\n\n").index(text)) == heads


def test_what_stands_below_the_best_heading_comes_first() -> None:
    texts = HEADED.split("\n\n")
    scores = {"Cause": 5.0, "It is large.": 4.0}
    scored = [ScoredSentence(1, headed(), at, text, scores.get(text, 0.0)) for at, text in enumerate(texts)]
    ranked = below_heading(sorted(scored, key=lambda sentence: -sentence.score))
    assert [sentence.text for sentence in ranked[:2]] == ["A certificate had run out.", "Cause"]
    assert ranked[0].score == 5.0
    assert 0.7 < ranked[0].share < 0.75  # beside "It is large.", which is 1 in log-odds behind
