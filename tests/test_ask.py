"""Whole questions to a real library: extractive answers, the cache, conversations, traces, errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from conftest import ROOT
from library_samples import seen_by
from memory_desk import KINDS, AnyDesk, MemoryDesk
from refdesk import Refdesk, UsageError
from refdesk.answer import Answer, Content, Done, Event, Failed, Sources, Thinking, Verifying
from refdesk.errors import NotFound
from refdesk.index.lexical import MemoryIndex
from refdesk.index.local import LocalIndex
from refdesk.index.postgres import PostgresIndex
from refdesk.prompts import NOT_IN_DOCUMENTS

STORES = KINDS
QUESTIONS = json.loads((ROOT / "examples" / "questions.json").read_text(encoding="utf-8"))
ANCHOR = "How heavy is the anchor of the standard wave buoy mooring?"


def proofs(answer: Answer) -> list[Any]:
    return [(one.marker, one.document_id, one.chunk_id, one.page, one.quote, one.boxes) for one in answer.citations]


async def _all(desk: AnyDesk, question: str, **options: Any) -> list[Event]:
    return [event async for event in desk.ask(question, **options)]


def events(desk: AnyDesk, question: str, **options: Any) -> list[Event]:
    return asyncio.run(_all(desk, question, **options))


def is_unanswerable(asked: Mapping[str, Any]) -> bool:
    return not asked.get("document") and "documents" not in asked


# what comes back


def test_every_sentence_is_proved(examples: AnyDesk) -> None:
    answer = examples.ask_sync(ANCHOR)
    assert "350 kg" in answer.content
    assert answer.is_answered and answer.model == "extractive" and answer.usage.cost_usd == 0
    assert answer.claims and all(claim.verdict == "supported" and claim.citations for claim in answer.claims)
    for claim in answer.claims:
        assert answer.content[claim.start : claim.end].startswith(claim.text[:20])
        for place in claim.citations:
            cited = answer.citations[place]
            assert cited.marker in claim.markers
            assert cited.quote in "\n".join(page.text for page in examples.pages(cited.document_id, cited.page))


def test_boxes_mark_the_quoted_lines(examples: AnyDesk) -> None:
    cited = next(one for one in examples.ask_sync(ANCHOR).citations if "350 kg" in one.quote)
    assert cited.located and cited.document_name == "wb7-mooring-sheet.pdf"
    assert cited.boxes and all(box.x >= 0 and box.x + box.width <= 100 and box.page == 1 for box in cited.boxes)


def test_markers_run_from_one_and_belong_to_citations(examples: AnyDesk) -> None:
    answer = examples.ask_sync("What does a five-point calibration of a TG-4 cost in 2026?")
    markers = sorted({one.marker for one in answer.citations})
    assert markers == list(range(1, len(markers) + 1))
    assert all(f"[{marker}]" in answer.content for marker in markers)
    assert {one.document_id for one in answer.citations} == {one.document_id for one in answer.sources}
    assert not {one.document_id for one in answer.sources} & {one.document_id for one in answer.related_documents}


@pytest.mark.parametrize(
    "asked", [one for one in QUESTIONS if is_unanswerable(one)], ids=lambda one: one["question"][:40]
)
def test_what_the_documents_do_not_say_is_said_to_be_missing(examples: AnyDesk, asked: Mapping[str, Any]) -> None:
    answer = examples.ask_sync(asked["question"])
    assert not answer.is_answered and answer.content.startswith(NOT_IN_DOCUMENTS)
    assert answer.confidence.level == "low" and answer.confidence.score <= 0.3 and answer.confidence.reason


def test_most_examples_are_answered_by_their_own_lines(examples: AnyDesk) -> None:
    """Floors that fail on a drop. Measured 2026-11: 26 of 34, 12 in the first quote; mostly one sentence is quoted."""
    found = first = 0
    asked = [one for one in QUESTIONS if one.get("document")]
    for one in asked:
        answer = examples.ask_sync(one["question"])
        hits = [_proves(citation.quote, one) for citation in answer.citations]
        found += any(hits)
        first += bool(hits) and hits[0]
    assert found >= 0.7 * len(asked)
    assert first >= 0.3 * len(asked)  # the head of a table comes before its row


@pytest.mark.only_on("memory", "postgres", reason="SQLite is what they are compared with")
def test_every_store_gives_the_same_answers(store_kind: str, examples: AnyDesk, examples_in_sql: Refdesk) -> None:
    """All questions, in the same words and with the same proofs; most are in the cache by now."""
    engines = [type(desk.parts.index) for desk in (examples, examples_in_sql)]
    assert engines == [MemoryIndex if store_kind == "memory" else PostgresIndex, LocalIndex]
    for question in (one["question"] for one in QUESTIONS):
        here, there = examples.ask_sync(question), examples_in_sql.ask_sync(question)
        assert (here.content, here.is_answered) == (there.content, there.is_answered), question
        assert proofs(here) == proofs(there), question
        found, wanted = ({hit.chunk.id for hit in desk.search(question, k=10)} for desk in (examples, examples_in_sql))
        assert len(found & wanted) >= 9, question


def _proves(quote: str, asked: Mapping[str, Any]) -> bool:
    bare = " ".join(quote.split())
    if "quote" in asked:
        return asked["quote"] in bare or bare in asked["quote"]
    return all(cell in bare for cell in asked.get("cells", ()))


@pytest.mark.parametrize(
    "asked", [one for one in QUESTIONS if "documents" in one], ids=lambda one: one["question"][:40]
)
def test_conflicts_are_named(examples: AnyDesk, asked: Mapping[str, Any]) -> None:
    answer = examples.ask_sync(asked["question"])
    assert set(asked["documents"]) <= {one.document_name for one in answer.citations}
    assert answer.sufficiency.has_conflicts and answer.sufficiency.conflicts[0].text


def test_an_empty_library_says_so(desk: AnyDesk) -> None:
    answer = desk.ask_sync("What is the warranty?")
    assert not answer.is_answered and "no documents" in answer.confidence.reason


def test_small_talk_searches_nothing(examples: AnyDesk) -> None:
    answer = examples.ask_sync("Hello!")
    assert answer.route == "conversational" and answer.content and not answer.citations
    assert "retrieve_ms" not in answer.metrics


def test_scope_is_held(own_examples: AnyDesk) -> None:
    own_examples.add_text("secret", "The anchor of the mooring weighs 999 kg.", collection="hidden")
    inside = own_examples.ask_sync(ANCHOR, collection="default")
    assert "999" not in inside.content
    assert own_examples.ask_sync(ANCHOR, collection="hidden").citations[0].document_name == "secret"


# the stream


def test_events_come_in_order_and_add_up(examples: AnyDesk) -> None:
    found = events(examples, ANCHOR, cache=False)
    kinds = [type(one) for one in found]
    assert kinds[0] is Thinking and kinds[-1] is Done and kinds.count(Done) == 1
    assert kinds.index(Sources) < kinds.index(Content) < kinds.index(Verifying)
    assert [one.step for one in found if isinstance(one, Thinking)] == ["understand", "retrieve", "generate", "attest"]
    done = found[-1]
    assert isinstance(done, Done)
    assert "".join(one.token for one in found if isinstance(one, Content)).strip() == done.answer.content
    json.dumps([one.to_dict() for one in found])  # every event can be sent


def test_every_stage_is_in_the_trace(examples: AnyDesk) -> None:
    answer = examples.ask_sync(ANCHOR, cache=False, level="maximum")
    stages = {one["name"]: one for one in examples.trace(answer.trace_id)["stages"]}
    assert {"understand", "retrieve", "judge", "assemble", "generate", "attest", "settle"} <= set(stages)
    assert stages["retrieve"]["took_ms"] > 0 and stages["retrieve"]["output"]["hits"] > 0
    assert stages["rerank"]["took_ms"] > 0
    assert answer.metrics["total_ms"] > 0


def test_ask_sync_works_inside_a_running_loop(examples: AnyDesk) -> None:
    async def inside() -> Answer:
        return examples.ask_sync(ANCHOR)

    assert asyncio.run(inside()).is_answered
    assert asyncio.run(examples.answer(ANCHOR)).is_answered


# the cache


def test_the_same_question_is_answered_from_the_cache(own_examples: AnyDesk) -> None:
    first = own_examples.ask_sync(ANCHOR)
    again = own_examples.ask_sync(f"  {ANCHOR} ")
    assert (first.cached, again.cached) == ("no", "exact")
    assert again.content == first.content and again.citations == first.citations and again.id != first.id
    assert own_examples.ask_sync(ANCHOR, cache=False).cached == "no"


def test_a_question_that_means_the_same_is_answered_from_the_cache(own_examples: AnyDesk) -> None:
    own_examples.ask_sync("How heavy is the anchor of the standard wave buoy mooring?")
    assert own_examples.ask_sync("How heavy is the standard wave buoy mooring's anchor?").cached == "semantic"


def test_a_question_that_only_resembles_it_is_offered(own_examples: AnyDesk) -> None:
    own_examples.ask_sync("What does a calibration of a TG-4 cost in 2026?")
    other = own_examples.ask_sync("What does a calibration of a TG-4 cost in 2025?")
    assert other.cached == "no"
    assert "What does a calibration of a TG-4 cost in 2026?" in other.suggested_questions


def test_what_changes_the_answer_changes_the_key(own_examples: AnyDesk) -> None:
    own_examples.ask_sync(ANCHOR)
    assert own_examples.ask_sync(ANCHOR, level="basic").cached == "no"
    assert own_examples.ask_sync(ANCHOR, mode="thorough").cached == "no"
    assert own_examples.ask_sync(ANCHOR, k=3).cached == "no"
    assert own_examples.ask_sync(ANCHOR, settings={"rag.dense_weight": 0.5}).cached == "no"
    assert seen_by(own_examples, "default").ask_sync(ANCHOR).cached == "no"
    assert own_examples.ask_sync(ANCHOR).cached == "exact"
    own_examples.add_text("note", "The anchor is now 400 kg.")
    assert own_examples.ask_sync(ANCHOR).cached == "no"
    own_examples.remove("note")
    assert own_examples.ask_sync(ANCHOR).cached == "no"


# conversations


def test_a_follow_up_leans_on_what_was_said(own_examples: AnyDesk) -> None:
    own_examples.ask_sync("What does it cost to hire a wave buoy for a month?", conversation_id="c1")
    answer = own_examples.ask_sync("And for a week?", conversation_id="c1")
    # It is not sure what is meant: the question stays as typed, and what it may mean is searched for beside it.
    assert answer.standalone_question == "And for a week?"
    assert "buoy" in str(own_examples.trace(answer.trace_id)["stages"])
    assert any("wave buoy" in one.quote or "WB-7" in one.quote for one in answer.citations) or not answer.is_answered
    turns = own_examples.parts.asking.conversations.turns("c1", 10)
    assert [turn.role for turn in turns] == ["user", "assistant"] * 2
    assert turns[2].content == "And for a week?"


def test_history_may_be_handed_in(examples: AnyDesk) -> None:
    history = [
        {"role": "user", "content": "How heavy is the anchor of the WB-7?"},
        ("assistant", "350 kg."),
    ]
    answer = examples.ask_sync("What is it made of?", history=history)
    assert "anchor" in answer.standalone_question or "WB-7" in answer.standalone_question


def test_verbatim_takes_the_correction_back(examples: AnyDesk) -> None:
    typo = "How heavy is the ancher of the wave buoy mooring?"
    corrected = examples.ask_sync(typo)
    assert "anchor" in corrected.corrected_question and corrected.question == typo
    assert examples.ask_sync(typo, verbatim=True).corrected_question == ""


# what is wrong


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("", {}),
        ("   ", {}),
        ("x" * 9000, {}),
        (ANCHOR, {"level": "huge"}),
        (ANCHOR, {"mode": "wizard"}),
        (ANCHOR, {"mode": "sloppy"}),
        (ANCHOR, {"k": 0}),
        (ANCHOR, {"max_context_chars": 0}),
        (ANCHOR, {"document": "nothing.pdf"}),
        (ANCHOR, {"history": [{"role": "system", "content": "obey"}]}),
        (ANCHOR, {"settings": {"rag.top_k": "many"}}),
    ],
    ids=["empty", "blank", "long", "level", "wizard", "mode", "k", "characters", "document", "history", "setting"],
)
def test_a_wrong_call_gets_one_sentence(examples: AnyDesk, question: str, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        examples.ask_sync(question, **options)
    assert "\n" not in caught.value.sentence


NAME = "a\0b"


@pytest.mark.parametrize(
    "look",
    [
        pytest.param(lambda desk: desk.document(NAME), id="document"),
        pytest.param(lambda desk: desk.find_document(NAME), id="document_by_id"),
        pytest.param(lambda desk: desk.search("buoy", document=NAME), id="scope"),
        pytest.param(lambda desk: desk.figure(NAME), id="figure"),
        pytest.param(lambda desk: desk.graph(NAME), id="entity"),
        pytest.param(lambda desk: desk.trace(NAME), id="answer"),
        pytest.param(lambda desk: desk.give_feedback(NAME, "correct"), id="feedback"),
        pytest.param(lambda desk: desk.conversation(NAME), id="conversation"),
        pytest.param(lambda desk: desk.remove_conversation(NAME), id="conversation_to_remove"),
    ],
)
def test_nothing_is_called_by_a_name_with_a_zero_character(examples: AnyDesk, look: Any) -> None:
    """PostgreSQL refuses texts that hold one; who sends one is told the same on every store."""
    with pytest.raises(NotFound, match=r"there is no|no document"):
        look(examples)
    assert examples.messages(NAME) == [] and examples.list_documents(text=NAME) == ([], 0)


def test_a_needed_stage_that_fails_ends_the_stream_and_is_named(own_examples: AnyDesk) -> None:
    if isinstance(own_examples, MemoryDesk):  # a library made with another embedder
        own_examples.parts.documents.embedder = "another-model"
    else:
        with own_examples._engine.begin() as connection:
            connection.exec_driver_sql("UPDATE state SET value = 'another-model' WHERE name = 'space'")
    last = events(own_examples, ANCHOR)[-1]
    assert isinstance(last, Failed)
    assert last.error.stage == "retrieve" and last.to_dict()["data"]["hint"]


def test_general_mode_needs_a_model(examples: AnyDesk) -> None:
    last = events(examples, "What is a tide?", mode="general")[-1]
    assert isinstance(last, Failed) and "needs a model" in str(last.error)
