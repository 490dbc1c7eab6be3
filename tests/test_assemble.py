"""Hits grow to passages, each sentence stands once, and the prompt keeps its size to the byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_samples import chunk, passage
from refdesk.answer import Context, Plan, Query, Retrieved
from refdesk.ask.assemble import assemble, shortened
from refdesk.ask.citations import joined, joined_text
from refdesk.ask.plan import Budget, system_message
from refdesk.settings import Settings
from refdesk.types import Chunk, Document, Hit

PLAN = Plan("hybrid", 10, 20)
WIDE = Budget(0, 6000, 1000)
DOCUMENT = Document("d1", "manual.pdf", "", "h", "ready", title="Manual")


class Shelf:
    """The one call of the library that assembling makes, over literal chunks of one document or more."""

    def __init__(self, *chunks: Chunk) -> None:
        self.chunks = chunks

    def neighbours(self, chunks: Sequence[Chunk], reach: int) -> dict[int, list[Chunk]]:
        return {
            chunk.id: [
                one
                for one in self.chunks
                if one.document_id == chunk.document_id and 1 <= abs(one.sequence - chunk.sequence) <= reach
            ]
            for chunk in chunks
        }


def section(*texts: str, heading: str = "Pumps", first: int = 1, **more: Any) -> list[Chunk]:
    """Chunks that follow one another in the document's text."""
    found, origin = [], 1000 * first
    for place, text in enumerate(texts):
        number = first + place
        found.append(chunk(text, id=number, sequence=number, heading_path=(heading,), origin=origin, **more))
        origin += len(text) + 1
    return found


def hit(one: Chunk, score: float = 0.5) -> Hit:
    return Hit(one, replace(DOCUMENT, id=one.document_id), 1.0, score, score)


def found(*hits: Hit) -> Retrieved:
    return Retrieved(hits, hits, {}, {})


QUERY = Query("How old is the pump?", "How old is the pump?", np.zeros(4, np.float32), ("pump", "old"))


def put(
    chunks: Sequence[Chunk], *hits: Chunk, budget: Budget = WIDE, limit: int | None = None, **changed: Any
) -> Context:
    settings = Settings().changed(changed)
    retrieved = found(*(hit(one, 1.0 - 0.01 * place) for place, one in enumerate(hits)))
    return assemble(QUERY, PLAN, retrieved, Shelf(*chunks), budget, settings, limit)  # type: ignore[arg-type]


def sequences(context: Context) -> list[list[int]]:
    return [[one.sequence for one in passage.chunks] for passage in context.passages]


def test_a_hit_grows_by_its_neighbours_under_the_same_heading() -> None:
    chunks = [*section("One.", "Two.", "Three."), *section("Four.", heading="Valves", first=4)]
    assert sequences(put(chunks, chunks[1])) == [[1, 2, 3]]
    assert sequences(put(chunks, chunks[2])) == [[2, 3]]
    assert sequences(put(chunks, chunks[1], **{"rag.neighbours": 0})) == [[2]]


def test_two_hits_that_are_neighbours_become_one_passage_under_the_better() -> None:
    chunks = section("One.", "Two.", "Three.", "Four.", "Five.", "Six.")
    context = put(chunks, chunks[2], chunks[5], chunks[1], **{"rag.neighbours": 0})
    assert sequences(context) == [[2, 3], [6]]
    assert context.passages[0].hit.chunk.sequence == 3
    assert [one.number for one in context.passages] == [1, 2]


def test_hits_that_grow_together_become_one_passage() -> None:
    chunks = section("One.", "Two.", "Three.", "Four.", "Five.")
    context = put(chunks, chunks[1], chunks[3])
    assert sequences(context) == [[1, 2, 3, 4, 5]]
    assert context.dropped == 0


def test_a_byte_limit_costs_neighbours_before_hits() -> None:
    chunks = section(*(f"Sentence {n} is here. " * 8 for n in range(12)))
    wide, tight = (put(chunks, *chunks[1::3], limit=limit) for limit in (9000, 1300))
    assert sequences(wide) == [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]]  # eight chunks at most
    assert [run[0] for run in sequences(tight)] == [2, 5, 8, 11]
    assert sum(map(len, sequences(tight))) < sum(map(len, sequences(wide)))
    assert {one.resolution for one in tight.passages} == {"full"}


def test_no_chunk_stands_in_two_passages() -> None:
    chunks = section(*(f"Sentence {n}." for n in range(12)))
    context = put(chunks, chunks[0], chunks[6], chunks[3], chunks[9], **{"rag.neighbours": 2})
    every = [one for run in sequences(context) for one in run]
    assert len(every) == len(set(every))


@pytest.mark.parametrize("kind", ["table", "figure", "code"])
def test_tables_figures_and_code_stay_alone(kind: Any) -> None:
    chunks = [*section("One."), *section("a | b\n1 | 2", first=2, kind=kind), *section("Three.", first=3)]
    assert sequences(put(chunks, chunks[0], chunks[1])) == [[1], [2]]


def test_a_sentence_that_two_chunks_repeat_is_said_once() -> None:
    first = chunk("It runs. It is old.", id=1, sequence=1, origin=100)
    second = chunk("It is old. It will go.", id=2, sequence=2, origin=109)
    assert [text for _, text in joined((first, second))] == ["It runs. It is old.", "It will go."]
    assert joined_text((first, second)) == "It runs. It is old.\nIt will go."
    apart = chunk("It is old. It will go.", id=2, sequence=2, origin=120)
    assert [text for _, text in joined((first, apart))] == ["It runs. It is old.", "It is old. It will go."]


def test_a_neighbour_never_takes_the_room_of_a_hit() -> None:
    chunks = section(*("word " * 200 for _ in range(9)))
    tight = replace(WIDE, passages=3 * (250 + 24) + 10)
    assert sequences(put(chunks, chunks[0], chunks[4], chunks[8], budget=tight)) == [[1], [5], [9]]


def test_over_budget_the_lowest_go_first() -> None:
    chunks = section(*("word " * 200 for _ in range(11)))
    tight = replace(WIDE, passages=4 * 274)
    context = put(chunks, *chunks[::2], budget=tight)
    assert sequences(context) == [[1], [3], [5], [7]]
    assert context.dropped == 2
    assert {one.resolution for one in context.passages} == {"full"}


def test_then_long_passages_keep_their_best_sentences_word_for_word() -> None:
    text = "Nothing is said here. The pump is old. Birds fly over the quay. The hall is painted blue and white."
    chunks = section(*(f"{text} Room {n} is warm." for n in range(5)))
    tight = replace(WIDE, passages=3 * (24 + 16))
    context = put(chunks, *chunks[::2], budget=tight)
    assert len(context.passages) == 3
    for one in context.passages:
        assert one.resolution == "sentences"
        assert "The pump is old." in one.text
        assert all(part in one.chunks[0].text for part in one.text.split(" … "))
        assert one.chunks[0].text.startswith(text)  # what can be cited stays whole


def test_then_the_text_is_cut() -> None:
    chunks = section("pump " * 400)
    context = put(chunks, chunks[0], budget=replace(WIDE, passages=60))
    assert len(context.passages) == 1
    assert len(context.passages[0].text) <= 4 * 60
    assert chunks[0].text.startswith(context.passages[0].text)


def test_shortening_prefers_near_and_telling_sentences() -> None:
    one = passage(1, chunk("Blue sky. The pump is old. Green sea.", id=7))
    vectors = {7: np.zeros((3, 4), np.int8)}
    assert shortened(one, QUERY, vectors, {"pump": 3.0, "old": 1.0}, 0.3).text == "The pump is old."


HITS = section(
    "The pump is old. It was built in 1902.", "Größe: 3 m². “Naïve” – 東京. " * 9, "Short one.", "Last. " * 60
)


@given(
    st.integers(1, 6000),
    st.sampled_from(["numbered", "tagged", "documents"]),
    st.booleans(),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=80),
)
@settings(max_examples=150, deadline=None)
def test_the_whole_prompt_keeps_its_limit_to_the_byte(limit: int, form: str, is_model: bool, question: str) -> None:
    own = Settings().changed({"rag.context_format": form})
    plan = replace(PLAN, use_llm=is_model)
    asked = replace(QUERY, question=question, standalone=question)
    retrieved = found(*(hit(one) for one in (HITS[0], HITS[3], HITS[1])))
    context = assemble(asked, plan, retrieved, Shelf(*HITS), WIDE, own, limit)  # type: ignore[arg-type]
    system = system_message(plan, WIDE, own, limit) if is_model else ""
    assert len(system.encode()) + len(context.text.encode()) <= limit
    again = assemble(asked, plan, retrieved, Shelf(*HITS), WIDE, own, limit)  # type: ignore[arg-type]
    assert again.text.encode() == context.text.encode()


def test_a_limit_with_room_is_used() -> None:
    whole = put(HITS, HITS[0], HITS[1])
    exact = len(whole.text.encode())
    assert put(HITS, HITS[0], HITS[1], limit=exact).text == whole.text
    assert put(HITS, HITS[0], HITS[1], limit=exact - 1).text != whole.text


def test_the_setting_limits_like_the_argument() -> None:
    assert put(HITS, HITS[0], limit=900).text == put(HITS, HITS[0], **{"rag.max_context_chars": 900}).text


def test_the_best_passage_stays_where_none_fits() -> None:
    context = put(HITS, HITS[0], HITS[3], limit=30)
    assert context.is_too_small and len(context.text.encode()) <= 30
    assert [one.hit.chunk.id for one in context.passages] == [HITS[0].id] and context.dropped == 1
    assert not put(HITS, HITS[0], limit=900).is_too_small and not put(HITS, limit=30).is_too_small


def test_without_hits_the_question_stands_alone() -> None:
    context = put(HITS)
    assert context.passages == ()
    assert context.text.endswith(QUERY.standalone)
