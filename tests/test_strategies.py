"""Query variants and multi-hop on a real library with the real embedder; the models answer over a real HTTP server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_desk import KINDS, AnyDesk, kept_in, open_either, opened_again
from refdesk import Refdesk
from refdesk.answer import Query
from refdesk.ask.retrieve import together
from refdesk.ask.strategies import STRATEGIES, side_by_side
from refdesk.ask.strategies.fusion import own_variants, read_variants
from refdesk.ask.strategies.multi_hop import find_bridges
from refdesk.library import EngineHits, SearchPorts
from refdesk.text import query_terms
from refdesk.trace import Trace
from refdesk.types import Hit, Scope
from wire_server import Recorded, WireServer

STORES = KINDS
TEXTS = {
    "mill": "Tide Mill is a silent film of 1921 about a miller. It was directed by Ada Lund and shot on Karvo island.",
    "lund": "Ada Lund was born in Hestvik as the daughter of a pilot. She made seven films.",
    "brandt": "Ulla Brandt was born in Odden. She keeps the harbour lamp and never made a film.",
    "born": "The registry lists where the directors of the harbour company were born, and when.",
    "film": "The film club meets in the mill every second week and shows silent films from the archive.",
    "price": "The price of a mooring is 24 crowns a night. The fee is paid at the harbour office.",
    "archive": "The archive of the harbour keeps its films in a cold room, with a register of titles.",
    "ferry": "The ferry departs at a quarter past eight and takes twelve passengers.",
}
LEADS_ON = "Where was the director of Tide Mill born?"
MODEL = "writer-70b"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    place = tmp_path_factory.mktemp("strategies") / "library"
    with Refdesk(place, settings={"ingest.workers": 1}) as desk:
        desk.add_texts([{"name": name, "text": text} for name, text in TEXTS.items()])
        yield desk


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def query(desk: AnyDesk, text: str, **more: Any) -> Query:
    return Query(text, text, desk.parts.embedder.embed_query(text), tuple(query_terms(text)), **more)


def ports(desk: AnyDesk, k: int = 5, **more: Any) -> SearchPorts:
    return SearchPorts(desk.parts.reader, desk.parts.embedder, desk.settings, Scope(), k, **more)


def names(hits: Any) -> list[str]:
    return [hit.document.name for hit in hits]


def search(desk: AnyDesk, strategy: str, text: str, **more: Any) -> list[EngineHits]:
    return asyncio.run(STRATEGIES[strategy](query(desk, text), ports(desk, **more)))


# multi-hop


def test_the_second_search_finds_what_the_first_evidence_names(desk: AnyDesk) -> None:
    first = search(desk, "hybrid", LEADS_ON)[0].hits
    assert names(first)[0] == "mill" and "lund" not in names(first)[:2]
    (found,) = search(desk, "multi_hop", LEADS_ON)
    assert found.engine == "multi_hop"
    assert {"mill", "lund"} <= set(names(found.hits)[:4])
    bridges = find_bridges(query(desk, LEADS_ON), first, desk.parts.reader)
    assert any("Ada Lund" in bridge.text and "born" in bridge.text for bridge in bridges)


def test_scores_of_what_a_second_search_finds_are_those_for_the_question(desk: AnyDesk) -> None:
    asked = query(desk, LEADS_ON)
    every = {hit.chunk.id: hit for hit in asyncio.run(STRATEGIES["hybrid"](asked, ports(desk, k=20)))[0].hits}
    (found,) = asyncio.run(STRATEGIES["multi_hop"](asked, ports(desk)))
    for hit in found.hits:
        assert hit.cosine == pytest.approx(every[hit.chunk.id].cosine, abs=2e-3)
        assert hit.lexical_score == pytest.approx(every[hit.chunk.id].lexical_score, abs=2e-3)
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)


def test_there_is_no_second_search_where_the_first_passage_says_all(desk: AnyDesk) -> None:
    trace = Trace()
    (found,) = search(desk, "multi_hop", "When does the ferry depart?", trace=trace, k=1)
    assert found.engine == "hybrid" and names(found.hits)[0] == "ferry"
    assert any(stage.name == "second_search" and stage.skipped for stage in trace.stages)


def test_an_answer_by_multi_hop_has_read_the_second_document(desk: AnyDesk) -> None:
    answer = desk.ask_sync(LEADS_ON, settings={"rag.strategy": "multi_hop"}, cache=False)
    assert answer.strategy == "multi_hop"
    assert "lund" in {one.document_name for one in (*answer.sources, *answer.related_documents)}


# variants


def test_the_library_gives_words_of_its_own(desk: AnyDesk) -> None:
    asked = query(desk, "What does a berth cost?")
    first = search(desk, "hybrid", asked.standalone)[0].hits
    variants = {one.engine: one for one in own_variants(asked, first, ports(desk))}
    assert "mooring" in variants["feedback"].text and "crowns" in variants["feedback"].text
    lists = search(desk, "fusion", asked.standalone)
    assert [one.engine for one in lists][:2] == ["hybrid", "feedback"]
    assert names(together(lists, 30))[0] == "price"


def test_of_an_empty_library_there_are_no_variants(store_kind: str, tmp_path: Path) -> None:
    with open_either(store_kind, tmp_path / "empty") as desk:
        lists = asyncio.run(STRATEGIES["fusion"](query(desk, "price"), ports(desk)))
        assert [list(one.hits) for one in lists] == [[]]
        assert names(search(desk, "multi_hop", "price")[0].hits) == []


REPLIES = [
    ({"variations": ["a", "b", "c", "d"], "passage": "p", "broader": "e", "parts": []}, ["a", "b", "c", "e", "p"]),
    ({"variations": ["What does it cost?", 7, "  x  y "], "passage": "", "broader": None, "parts": ["x y"]}, ["x y"]),
    ({"variations": "none", "parts": None}, []),
    ({"variations": ["w" * 601]}, []),
    ({}, []),
]


@pytest.mark.parametrize(
    "reply, texts", REPLIES, ids=["all:three_variations", "odd:left_out", "wrong_kinds", "too_long", "empty"]
)
def test_what_of_a_reply_is_searched_for(reply: dict[str, Any], texts: list[str]) -> None:
    asked = Query("What does it cost?", "What does it cost?", None, ())
    assert [one.text for one in read_variants(reply, asked)] == texts


def test_a_passage_is_searched_for_only_where_the_question_is_short_or_abstract() -> None:
    reply = {"variations": [], "passage": "A mooring costs 24 crowns.", "broader": "", "parts": []}
    long = "What does a berth for a sailing boat of ten metres cost in July?"
    assert read_variants(reply, Query(long, long, None, ())) == []
    assert [one.engine for one in read_variants(reply, Query(long, long, None, (), intent="analytical"))] == [
        "passage 1"
    ]


# with a model


@pytest.fixture
def asked(desk: AnyDesk, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    def ask(strategy: str, question: str, replies: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        def write(request: Recorded) -> str:
            for sign, reply in replies.items():
                if sign in request.system:
                    return json.dumps(reply) if not callable(reply) else json.dumps(reply(request))
            return "Ada Lund was born in Hestvik [1]."

        server.answer_by(write)
        for name, value in server.openai_env(MODEL).items():
            monkeypatch.setenv(name, value)
        with opened_again(desk) as found:
            answer = found.ask_sync(question, cache=False, settings={"rag.strategy": strategy})
            return answer, {stage["name"]: stage for stage in found.trace(answer.id)["stages"]}

    return ask


def test_a_model_gives_variants(asked: Any) -> None:
    reply = {"variations": ["mooring price per night"], "passage": "", "broader": "harbour fees", "parts": []}
    answer, stages = asked("fusion", "What is to be paid for a berth?", {"other texts to search for": reply})
    assert stages["variants"]["output"]["variants"] == 2
    assert stages["variants"]["input"] == {"model": f"openai:{MODEL}"}
    assert "price" in {source.document_name for source in (*answer.sources, *answer.related_documents)}


def test_a_model_that_writes_nonsense_leaves_the_librarys_own_words(asked: Any) -> None:
    _, stages = asked("fusion", "What is to be paid for a berth?", {"other texts to search for": ["nonsense"]})
    assert stages["variants"]["input"] == {"hits": stages["variants"]["input"]["hits"]}
    assert stages["variants"]["output"]["variants"] >= 1


def test_a_model_leads_on_until_it_has_enough(asked: Any) -> None:
    seen: list[str] = []

    def lead(request: Recorded) -> dict[str, Any]:
        seen.append(request.question)
        return {"enough": len(seen) > 1, "search": "birthplace of Ada Lund"}

    answer, stages = asked("multi_hop", LEADS_ON, {"one search after the other": lead})
    assert len(seen) == 2 and "Ada Lund" in seen[0] and "birthplace of Ada Lund" in seen[1]
    assert "Hestvik" in seen[1]  # what the second search found is read before the third
    assert "lund" in {source.document_name for source in (*answer.sources, *answer.related_documents)}
    assert "bridges" not in stages


# several at once


def test_strategies_side_by_side_count_a_shared_engine_once(desk: AnyDesk) -> None:
    asked = query(desk, LEADS_ON)
    lists = asyncio.run(side_by_side(["hybrid", "fusion", "multi_hop"], asked, ports(desk)))
    engines = [one.engine for one in lists]
    assert engines[0] == "hybrid" and len(engines) == len(set(engines)) and "multi_hop" in engines
    hits: list[Hit] = together(lists, 30)
    assert hits[0].score == pytest.approx(lists[0].hits[0].score)
