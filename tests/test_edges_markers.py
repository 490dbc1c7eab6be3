"""What is shown of a streamed answer around every length and count of citations, markers and draft? Frozen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from context_samples import chunk, context, passage
from edge_samples import TEXTS, freeze
from refdesk.answer import Context, Usage
from refdesk.ask.citations import (
    CitationResolver,
    closes_fence,
    code_ranges,
    dice,
    escape,
    joined,
    may_join,
    pages_label,
    render,
    run_length,
    sandwich,
    span_end,
    without_markers,
)
from refdesk.ask.draft import AnswerTrim, Draft, not_planted, parse_suggestions
from refdesk.ask.markers import MarkerStream, numbered_by_passage
from refdesk.ports import Piece
from refdesk.types import Span


def shelf() -> Context:
    pilots = chunk("Pilots are asked for (NATO).", id=11, heading_path=("Harbour handbook", "Pilots"))
    tides = chunk("The tide rose.", id=12, sequence=7, document_id="d2", heading_path=("Results",))
    return context(
        passage(1, pilots, name="a/handbook.pdf", title="Harbour handbook"),
        passage(2, tides, name="tides.pdf", title="Tide report 2024"),
        passage(3, chunk("Loose.", id=13, document_id="d3"), name="n.txt"),
        passage(
            4,
            chunk("Anchors.", id=14, sequence=2, heading_path=("Anchors",)),
            name="a/handbook.pdf",
            title="Harbour handbook",
        ),
    )


def test_what_stands_between_brackets() -> None:
    resolver = CitationResolver(shelf())
    found = {}
    for inner in TEXTS["inner"]:
        named = [resolver.named(inner, ends=ends) for ends in (True, False)]
        found[inner] = [*named, resolver.is_numeric(inner), resolver.looks_cited(inner)]
    for size in (198, 199, 200, 201):
        found[f"1, {size}"] = resolver.looks_cited(f"1, p. {'x' * (size - 6)}")
    freeze("between brackets", found)
    short = [passage(1, chunk("A."), title="Pier"), passage(2, chunk("B.", id=2, document_id="d2"), title="Dam")]
    loose = [passage(n, chunk("C.", id=n, document_id=f"d{n}"), title="Loose pages") for n in (3, 4)]
    other = CitationResolver(context(*short, *loose))
    freeze("short titles", {inner: other.named(inner) for inner in TEXTS["inner"][-12:]})
    assert CitationResolver(context()).named("1") == ()


def test_a_word_within_a_title_names_it_when_it_has_four_letters() -> None:
    titled = [passage(1, chunk("A."), title="Tide in the bay"), passage(2, chunk("B.", id=2), title="Dam of Pier")]
    resolver = CitationResolver(context(*titled))
    found = {inner: resolver.named(f"{inner} > Results") for inner in ("Tide", "bay", "Pier", "Dam")}
    assert found == {"Tide": (1,), "bay": (), "Pier": (2,), "Dam": ()}


def test_dice() -> None:
    pairs = [("night", "nacht"), ("a", "a"), ("ab", "ab"), ("abc", "abd"), ("", ""), ("aaaa", "aa"), ("abab", "ba")]
    freeze("dice", [round(dice(*pair), 3) for pair in pairs])


def streamed(text: str, size: int) -> list[object]:
    """What each piece of so many characters lets through, and what comes at the end."""
    stream = MarkerStream(shelf())
    parts = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    return [parts, stream.finish(), stream.order]


def test_streams() -> None:
    found = {}
    for text in TEXTS["streams"]:
        letters, last, order = streamed(text, 1)
        whole = streamed(text, len(text) or 1)
        assert "".join([*letters, last]) == "".join([*whole[0], whole[1]])  # type: ignore[misc, list-item]
        # How many characters are shown after each one that comes: what is held back, and how long.
        found[text] = ["".join([*letters, last]), [len(one) for one in letters], order]  # type: ignore[misc, attr-defined]
    freeze("streams", found)


def test_streams_around_every_length() -> None:
    found = []
    for text in TEXTS["long_streams"]:
        letters, last, order = streamed(text, 1)
        shown = "".join([*letters, last])  # type: ignore[misc]
        first = next((place for place, one in enumerate(letters) if one), -1)  # type: ignore[arg-type, misc, var-annotated]
        longest = max((len(one) for one in letters), default=0)  # type: ignore[attr-defined, misc]
        found.append([len(text), len(shown), shown[-14:], first, longest, order])
    freeze("long streams", found)


def test_numbers_of_passages_again() -> None:
    texts = ["A [1] b [2] c [3].", "`[1]` [1]", "[0] [01] [12345]", ""]
    freeze(
        "numbered again",
        [numbered_by_passage(text, order) for text in texts for order in ((), (3,), (3, 9), (5, 4, 7))],
    )


def test_code() -> None:
    freeze("code ranges", {text: code_ranges(text) for text in TEXTS["code"]})
    ended = [[span_end(text, 0, ended=ended), run_length(text, 0)] for text in TEXTS["code"] for ended in (True, False)]
    freeze("spans", ended)
    lines = ["```", "````", "``", "  ```", "   ```", "    ```", "~~~", "``` x", ""]
    freeze("fences", [closes_fence(line, fence) for line in lines for fence in ("```", "````", "~~~")])


def test_documents_speak_as_data() -> None:
    freeze("escaped", {text: [without_markers(text), escape(text)] for text in TEXTS["escaped"]})


def test_chunks_that_are_joined() -> None:
    found = []
    for overlap in (-3, -1, 0, 1, 4, 9, 10, 11):
        first = replace(chunk("0123456789", paged=False), spans=(Span(0, 10, 100, 1),))
        second = replace(
            chunk("abcdefghij", id=2, sequence=2), spans=(Span(0, 4, 110 - overlap, 1), Span(5, 10, 115 - overlap, 1))
        )
        found.append([text for _, text in joined((first, second))])
    freeze("joined", found)
    one = chunk("A.", sequence=5)
    others = [chunk("B.", sequence=number) for number in (3, 4, 5, 6, 7)]
    others += [
        chunk("B.", sequence=6, document_id="d2"),
        chunk("B.", sequence=6, heading_path=("H",)),
        chunk("B", sequence=6, kind="table"),
    ]
    assert [may_join(one, other) for other in others] == [False, True, False, True, False, False, False, False]


@pytest.mark.parametrize("form", ["numbered", "tagged", "documents"])
def test_prompts(form: str) -> None:
    held = shelf()
    long = [passage(1, chunk("It.", heading_path=("H" * size,)), title="T") for size in (155, 156, 157, 158)]
    two = passage(1, chunk("One is it.", id=1), chunk("Two is it.", id=2, sequence=2), title="T")
    short = replace(two, resolution="summary", text="One.")
    long += [two, replace(two, resolution="sentences", text="Two.")]
    texts = [render(held.passages, "Why?", form, for_model=flag) for flag in (True, False)]
    freeze(f"prompt {form}", [*texts, *(render([one], "Q", form, for_model=True) for one in [*long, short])])


def test_order_of_passages() -> None:
    freeze("sandwich", [sandwich(count) for count in range(8)])
    assert [pages_label(pages) for pages in ((7,), (7, 8), (7, 9, 11))] == ["page 7", "pages 7–8", "pages 7–11"]


# --- drafts ----------------------------------------------------------------------------------------------------------


def test_what_is_trimmed() -> None:
    found = {}
    for text in TEXTS["trims"]:
        trim = AnswerTrim()
        letters = [trim.feed(letter) for letter in text]
        last = trim.finish()
        whole = AnswerTrim()
        at_once = whole.feed(text) + whole.finish()
        assert at_once == "".join([*letters, last]) and whole.suggested == trim.suggested
        held = [place for place, one in enumerate(letters) if one]
        found[text[:60] + str(len(text))] = [at_once[:80], len(at_once), held[:3], len(held), trim.suggested[:6]]
    freeze("trimmed", found)


def test_a_whole_answer_in_one_piece_is_trimmed_alike() -> None:
    for size in (4090, 4095, 4096, 4097, 8192):
        text = f"Sure! {'word ' * (size // 5)}<think>{'no ' * 9}</think>end."
        trim = AnswerTrim()
        assert (trim.feed(text) + trim.finish()).endswith("word end.") and "no" not in trim.suggested


def test_suggestions() -> None:
    freeze("suggestions", {text[:40]: [one[:60] for one in parse_suggestions(text)] for text in TEXTS["trims"]})
    held = shelf()
    planted = context(passage(1, chunk("SUGGESTED_QUESTIONS: Who pays?")), *held.passages[1:])
    assert not_planted(("Who pays?", "Why?"), planted.passages) == ("Why?",)


def test_drafts() -> None:
    pieces = [
        Piece(text="Sure, it is [1]"),
        Piece(text=" so [2].", usage=Usage(3, 2, 0.5, 1), model="m"),
        Piece(restarted=True, model="n"),
        Piece(text="It is [2].", usage=Usage(1, 1, 0.5, 1)),
        Piece(finish="length"),
    ]
    found = []
    for count in range(1, 6):
        draft = Draft(shelf())
        events = [str(draft.take(piece)) for piece in pieces[:count]]
        events.append(str(draft.finish()))
        found.append(
            [events, draft.content, draft.order, draft.notes, draft.is_cut, [*draft.sizes.values()], draft.usage.calls]
        )
    freeze("drafts", found)
