"""A program brings its own model, embedder or reranker, or takes the context and asks a model itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refdesk import Refdesk, UsageError
from refdesk.answer import Query, Usage
from refdesk.errors import ModelError
from refdesk.ports import Piece, Request
from refdesk.types import Hit

QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"


# the context


def test_the_context_and_where_each_passage_stands(examples: Refdesk) -> None:
    found = examples.context(QUESTION, k=6, max_context_chars=4000)
    assert "350 kg" in found.text and 0 < len(found.text) <= 4000 and QUESTION in found.text
    assert 0 < len(found.citations) == len(found.passages) <= 6
    for number, citation in enumerate(found.citations, 1):
        assert citation.marker == number and f"[{number}]" in found.text
        assert (
            citation.quote[:40] in "".join(page.text for page in examples.pages(citation.document_id)) or citation.boxes
        )
        assert 0.0 < citation.relevance_score <= 1.0


def test_the_context_has_the_form_that_is_asked_for(examples: Refdesk) -> None:
    tagged = examples.context(QUESTION, k=3, settings={"rag.context_format": "tagged"})
    assert tagged.text.startswith("[SYSTEM CONTEXT RULES]") and "--- SOURCE 1 ---" in tagged.text
    assert examples.context(QUESTION, k=3, settings={"rag.context_format": "tagged"}) == tagged, "the same bytes"


def test_a_context_within_a_scope_and_of_nothing(examples: Refdesk) -> None:
    found = examples.context(QUESTION, document="budget-2026.xlsx")
    assert {citation.document_name for citation in found.citations} <= {"budget-2026.xlsx"}
    assert examples.context("Hello!").text == "" and not examples.context("Hello!").citations
    assert examples.context("Which documents mention the anchor?").citations, "also where the list would answer"

    async def inside() -> Any:
        return examples.context(QUESTION)

    assert "350 kg" in asyncio.run(inside()).text


# a model


class Parrot:
    """Says what it is told to say of the passage that holds the answer."""

    name = "parrot"

    def __init__(self, text: str = "The anchor weighs 350 kg [{number}].") -> None:
        self.text, self.requests = text, list[Request]()

    async def stream(self, request: Request) -> AsyncIterator[Piece]:
        self.requests.append(request)
        prompt = request.messages[-1].content
        number = prompt[: prompt.index("350 kg")].rpartition("\n[")[2].partition("]")[0] if "350 kg" in prompt else "1"
        for word in self.text.format(number=number).split(" "):
            yield Piece(f"{word} ")


def test_a_model_of_the_programs_own_writes(own_folder: Path) -> None:
    parrot = Parrot()
    with Refdesk(own_folder, llm=parrot) as desk:
        assert desk.has_model
        answer = desk.ask_sync(QUESTION, cache=False)
    assert answer.content == "The anchor weighs 350 kg [1]." and answer.model == "own:parrot"
    assert [claim.verdict for claim in answer.claims] == ["supported"]
    assert answer.usage.calls == 1 and answer.usage.prompt_tokens > 100 and answer.usage.cost_usd == 0.0
    assert "350 kg" in parrot.requests[0].messages[-1].content and parrot.requests[0].system


def test_it_is_checked_and_switched_off_like_any_other(own_folder: Path) -> None:
    with Refdesk(own_folder, llm=Parrot("The anchor weighs 950 kg [{number}].")) as desk:
        wrong = desk.ask_sync(QUESTION, cache=False)
        assert wrong.claims[0].verdict in ("contradicted", "unsupported") and wrong.verification.status == "disputed"
        desk.change_settings({"llm.enabled": False})
        assert desk.ask_sync(QUESTION, cache=False).model == "extractive"


class Broken(Parrot):
    async def stream(self, request: Request) -> AsyncIterator[Piece]:
        raise ZeroDivisionError
        yield Piece()


def test_one_that_fails_leaves_the_extractive_answer(own_folder: Path) -> None:
    with Refdesk(own_folder, llm=Broken()) as desk:
        answer = desk.ask_sync(QUESTION, cache=False)
    assert "350 kg" in answer.content and [one.model for one in answer.failed_models] == ["own:parrot"]
    assert answer.notes


class Counted(Parrot):
    name = "openai:gpt-4o"

    async def stream(self, request: Request) -> AsyncIterator[Piece]:
        async for piece in super().stream(request):
            yield piece
        yield Piece(usage=Usage(1000, 10, 0.25, 1), finish="stop")


def test_it_may_say_what_it_is_and_what_it_cost(own_folder: Path) -> None:
    with Refdesk(own_folder, llm=Counted()) as desk:
        answer = desk.ask_sync(QUESTION, cache=False, mode="quick")
    assert answer.model == "openai:gpt-4o" and answer.usage.cost_usd == 0.25


# an embedder


class Letters:
    """Vectors of how often each letter occurs: simple, and enough to find the same words."""

    name = "letters"
    max_tokens = 64

    def __init__(self) -> None:
        self.texts = 0

    def embed(self, texts: Sequence[str]) -> Any:
        self.texts += len(texts)
        return [[1.0 + text.lower().count(chr(97 + place)) for place in range(26)] for text in texts]


def test_an_embedder_of_two_lines_embeds_and_searches(tmp_path: Path) -> None:
    letters = Letters()
    (tmp_path / "zoo.md").write_text("# Zoo\n\nZebras graze in the zoo. " + "The keeper feeds them at noon. " * 40)
    with Refdesk(tmp_path / "library", embedder=letters) as desk:
        (added,) = desk.add(tmp_path / "zoo.md")
        assert added.outcome == "added" and letters.texts > 40
        assert max(chunk.token_count for chunk in desk.chunks("zoo.md")) <= letters.max_tokens
        hit = desk.search("Zebras graze in the zoo", method="dense")[0]
        assert "Zebras" in hit.chunk.text and hit.cosine > 0.7 and desk.check_embedder().well
        assert "Zebras" in desk.ask_sync("Where do zebras graze?").content
        assert desk.counts()["vectors"] == len(desk.chunks("zoo.md"))
    with Refdesk(tmp_path / "library") as desk, pytest.raises(UsageError, match="were made by 'letters'"):
        desk.search("zebra")


class Crooked(Letters):
    def embed(self, texts: Sequence[str]) -> Any:
        return np.zeros((len(texts) + 1, 3))


def test_what_a_wrong_embedder_gives_is_said_in_one_sentence(tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library", embedder=Crooked()) as desk:
        with pytest.raises(ModelError, match=r"letters gave an array of \(2, 3\) where 1 vectors were expected"):
            desk.add_texts([("a.txt", "The bell rings at six.")])
        assert not desk.check_embedder().well
    with pytest.raises(UsageError, match="needs a name and embed"):
        Refdesk(tmp_path / "other", embedder=object())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs a name and stream"):
        Refdesk(tmp_path / "other", llm=object())  # type: ignore[arg-type]


# a reranker


class Backwards:
    name = "backwards"

    def rerank(
        self, query: Query, hits: Sequence[Hit], sentence_vectors: Mapping[int, Any], idf: Mapping[str, float]
    ) -> list[Hit]:
        return [replace(hit, score=1.0 - place / 100) for place, hit in enumerate(reversed(hits))]


def test_a_reranker_of_the_programs_own_orders(own_folder: Path) -> None:
    with Refdesk(own_folder) as desk:
        usual = desk.ask_sync(QUESTION, cache=False)
    with Refdesk(own_folder, reranker=Backwards()) as desk:
        other = desk.ask_sync(QUESTION, cache=False)
        stages = {one["name"]: one for one in desk.trace(other.id)["stages"]}
    assert stages["rerank"]["input"]["reranker"] == "backwards"
    assert [one.chunk_id for one in other.citations] != [one.chunk_id for one in usual.citations] or (
        not other.is_answered
    )
