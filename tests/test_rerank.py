"""Reranking keeps the hits, moves those with a better sentence up, and keeps scores comparable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from evidence_samples import add, ask, find
from memory_desk import KINDS, AnyDesk, kept_in
from refdesk import Refdesk
from refdesk.ask.retrieve import SentenceReranker

STORES = KINDS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    with Refdesk(tmp_path_factory.mktemp("rerank")) as opened:
        add(opened)
        yield opened


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def test_the_passage_with_the_better_sentence_comes_first(desk: AnyDesk) -> None:
    query = ask(desk, "When does the gate close?")
    found = find(desk, query)
    level = [replace(hit, score=1.0) for hit in reversed(found.hits)]
    ranked = SentenceReranker().rerank(query, level, found.sentence_vectors, found.idf)
    assert ranked[0].document.name == "parking"
    assert {hit.chunk.id for hit in ranked} == {hit.chunk.id for hit in found.hits}


def test_scores_fall_and_the_best_stays_what_it_was(desk: AnyDesk) -> None:
    query = ask(desk, "How heavy is the anchor?")
    found = find(desk, query)
    ranked = SentenceReranker().rerank(query, found.hits, found.sentence_vectors, found.idf)
    scores = [hit.score for hit in ranked]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == pytest.approx(max(hit.score for hit in found.hits))
    assert all(hit.cosine == other.cosine for hit in ranked for other in found.hits if other.chunk.id == hit.chunk.id)


def test_a_clear_lead_is_not_overturned(desk: AnyDesk) -> None:
    query = ask(desk, "When does the gate close?")
    found = find(desk, query)
    last = found.hits[-1].chunk.id
    led = [replace(hit, score=1.0 if hit.chunk.id == last else 0.1) for hit in found.hits]
    assert SentenceReranker().rerank(query, led, found.sentence_vectors, found.idf)[0].chunk.id == last


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_order(desk: AnyDesk, count: int) -> None:
    query = ask(desk, "How heavy is the anchor?")
    found = find(desk, query)
    assert SentenceReranker().rerank(query, found.hits[:count], {}, {}) == list(found.hits[:count])


def test_words_alone_do_when_no_vectors_are_at_hand(desk: AnyDesk) -> None:
    query = ask(desk, "When does the gate close?")
    found = find(desk, query)
    level = [replace(hit, score=1.0) for hit in found.hits]
    assert SentenceReranker().rerank(query, level, {}, found.idf)[0].document.name == "parking"
