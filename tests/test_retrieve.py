"""From a query to the hits that are read, on a real library with a real embedder."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from memory_desk import KINDS, AnyDesk, kept_in, open_either
from refdesk import Refdesk
from refdesk import trace as trace_module
from refdesk.answer import EVERYTHING, Plan, Query, Retrieved
from refdesk.ask.assemble import assemble
from refdesk.ask.plan import Budget
from refdesk.ask.retrieve import Retrieval, SentenceReranker, retrieve
from refdesk.ask.strategies import STRATEGIES
from refdesk.ports import Reranker
from refdesk.text import query_terms
from refdesk.trace import Trace
from refdesk.types import Hit, Scope

STORES = KINDS
PLAN = Plan("hybrid", k=5, candidates=20)
ROOM = Budget(0, 6000, 1000)
FILLER = (
    "The harbour office keeps a log of arrivals. Pilots board at the outer buoy. The tide table hangs in the hall. "
)


def yearbook(house: str, year: int, sales: int) -> str:
    """Thirty sections that read the same in every yearbook, but for one figure."""
    sections = [f"## Section {n}\n\n{FILLER * 4}Berth {n} was inspected in {year}." for n in range(1, 30)]
    return f"# Yearbook of {house}\n\n" + "\n\n".join(
        [*sections, f"## Sales\n\nNet sales of the house were {sales} million crowns. {FILLER}"]
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    texts = [
        {"name": f"{house.upper()}_{year}.md", "text": yearbook(house, year, sales), "format": "markdown"}
        for house, year, sales in (("Northship", 2018, 41), ("Northship", 2019, 52), ("Kelpworks", 2018, 63))
    ]
    texts.append({"name": "anchors.txt", "text": "The anchor of the outer buoy weighs 350 kg."})
    with Refdesk(tmp_path_factory.mktemp("retrieve") / "library", settings={"ingest.workers": 1}) as desk:
        desk.add_texts(texts)
        yield desk


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def query(desk: AnyDesk, text: str, **more: Any) -> Query:
    return Query(text, text, desk.parts.embedder.embed_query(text), tuple(query_terms(text)), **more)


def run(
    desk: AnyDesk,
    text: str,
    plan: Plan = PLAN,
    *,
    scope: Scope = EVERYTHING,
    reranker: Reranker | None = None,
    trace: Trace | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> Retrieved:
    asked = query(desk, text, **more)
    changed = desk.settings.changed(settings or {})
    ports = (desk.parts.reader, desk.parts.embedder, reranker or SentenceReranker())
    return asyncio.run(retrieve(asked, Retrieval(plan, scope, *ports, changed, trace or Trace())))


def names(retrieved: Retrieved) -> list[str]:
    return [hit.document.name for hit in retrieved.hits]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_finds_the_answer(desk: AnyDesk, strategy: Any) -> None:
    found = run(desk, "How much does the anchor of the outer buoy weigh?", replace(PLAN, strategy=strategy))
    assert found.hits[0].document.name == "anchors.txt"
    assert len(found.hits) <= PLAN.k
    assert all(hit.cosine <= 1.0 for hit in found.considered)


def test_the_named_document_is_preferred_and_named(desk: AnyDesk) -> None:
    found = run(desk, "What were Northship's net sales in 2019?")
    assert "52 million" in found.hits[0].chunk.text
    own = {document.id: document.name for document in desk.documents()}
    assert own[found.preferred_documents[0]] == "NORTHSHIP_2019.md"
    assert (
        run(
            desk, "What were Northship's net sales in 2019?", settings={"rag.prefer_documents": False}
        ).preferred_documents
        == ()
    )


def test_a_document_outside_the_scope_is_neither_preferred_nor_found(desk: AnyDesk) -> None:
    other = desk.document("KELPWORKS_2018.md")
    found = run(desk, "What were Northship's net sales in 2019?", scope=Scope(documents=(other.id,)))
    assert set(names(found)) == {"KELPWORKS_2018.md"}
    assert found.preferred_documents == ()


def test_each_side_of_a_comparison_gets_its_share(desk: AnyDesk) -> None:
    sides = ("net sales of Northship in 2019", "net sales of Kelpworks in 2018")
    found = run(desk, "Compare the net sales of Northship in 2019 and Kelpworks in 2018", parts=sides)
    texts = "\n".join(hit.chunk.text for hit in found.hits)
    assert "52 million" in texts
    assert "63 million" in texts


def test_what_later_stages_need_is_there(desk: AnyDesk) -> None:
    found = run(desk, "What were Northship's net sales in 2019?")
    for hit in found.hits:
        assert len(found.sentence_vectors[hit.chunk.id]) == len(hit.chunk.sentences)
        for one in desk.parts.reader.neighbours([hit.chunk], 1)[hit.chunk.id]:
            assert one.id in found.sentence_vectors and one in found.neighbours[hit.chunk.id]
    assert set(found.idf) == set(query_terms("What were Northship's net sales in 2019?"))
    assert {hit.chunk.id for hit in found.hits} <= {hit.chunk.id for hit in found.considered}


def test_every_step_is_in_the_trace_with_its_sizes(desk: AnyDesk) -> None:
    trace = Trace()
    run(desk, "What were Northship's net sales in 2019?", trace=trace)
    stages = {stage.name: stage for stage in trace.stages}
    assert list(stages) == ["search", "prefer", "rerank", "check", "deduplicate", "read", "diversify", "rows"]
    assert stages["search"].output["hits"] == 20
    assert stages["prefer"].took["documents"] >= 1
    assert stages["diversify"].skipped
    run(
        desk,
        "anchor weight?",
        replace(PLAN, rerank=False, check_relevance=False, use_mmr=True),
        trace=(bare := Trace()),
    )
    assert {stage.name for stage in bare.stages if stage.skipped} == {"prefer", "rerank", "check", "rows"}


class Broken:
    name = "broken"

    def rerank(self, query: Query, hits: Sequence[Hit], sentence_vectors: Any, idf: Any) -> list[Hit]:
        raise RuntimeError("no such model")


def test_a_reranker_that_fails_is_left_out(desk: AnyDesk) -> None:
    trace = Trace()
    found = run(desk, "How much does the anchor weigh?", reranker=Broken(), trace=trace)
    assert found.hits[0].document.name == "anchors.txt"
    assert any("no such model" in stage.error for stage in trace.stages)


def test_repeats_of_one_text_are_read_once(desk: AnyDesk) -> None:
    found = run(desk, "When do pilots board at the outer buoy?")
    assert len({hit.chunk.text for hit in found.hits}) == len(found.hits)


def test_the_same_question_gives_the_same_hits(desk: AnyDesk) -> None:
    one, other = (run(desk, "What were the net sales in 2018?") for _ in range(2))
    assert [hit.chunk.id for hit in one.hits] == [hit.chunk.id for hit in other.hits]


def test_an_empty_library_gives_nothing(store_kind: str, tmp_path: Any) -> None:
    with open_either(store_kind, tmp_path / "library") as empty:
        found = run(empty, "Is anybody there?")
    assert found.hits == found.considered == ()


@pytest.mark.only_on("sql", reason="SQLite tells each statement with its values")
def test_each_chunk_is_read_once(desk: AnyDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the question is searched twice, once in the documents it names, and passages grow by their neighbours."""
    desk.parts.reader.refresh()
    desk.parts.documents._read_generation = -1  # as a new process would
    read: list[str] = []
    text = "What were Northship's net sales in 2019?"
    with ThreadPoolExecutor(1) as pool:  # one thread has one connection, which is listened to
        monkeypatch.setitem(trace_module._pools, os.getpid(), pool)
        driver: Any = pool.submit(lambda: desk.parts.documents._readers.get().dbapi_connection).result()
        pool.submit(driver.set_trace_callback, read.append).result()
        found = run(desk, text)
        context = pool.submit(assemble, query(desk, text), PLAN, found, desk.parts.reader, ROOM, desk.settings).result()
        pool.submit(driver.set_trace_callback, None).result()
    assert context.passages and any(found.neighbours.values())
    for table in ("chunks WHERE chunks.id", "vectors WHERE"):
        ids = [one for said in read if f"FROM {table}" in said for one in said.partition(" IN (")[2][:-1].split(",")]
        once = [one for one, again in pairwise([*ids, ""]) if one != again]  # the last one fills the statement up
        assert len(once) == len(set(once)) > len(found.hits), table
