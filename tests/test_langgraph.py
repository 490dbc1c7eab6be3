"""The stages as a graph of the real LangGraph library: the same answers, streamed, kept and drawn."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from refdesk import Refdesk
from refdesk.langgraph import build_graph
from test_ask_models import Asker
from wire_server import Recorded, WireServer

QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"


def run(graph: Any, question: str = QUESTION, config: Any = None, **state: Any) -> dict[str, Any]:
    return asyncio.run(graph.ainvoke({"question": question, **state}, config))


@pytest.fixture
def asker(own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Asker:
    return Asker(own_folder, server, monkeypatch)


@pytest.mark.parametrize(
    "question", [QUESTION, "Why did the tide gauge drift?", "Which documents are there?", "Hello!"]
)
def test_its_answers_are_those_of_the_desk(own_examples: Refdesk, question: str) -> None:
    graph = build_graph(own_examples, cache=False)
    state, own = run(graph, question), own_examples.ask_sync(question, cache=False)
    assert state["answer"] == own.content and state["route"] == own.route
    assert [one["quote"] for one in state["citations"]] == [one.quote for one in own.citations]
    assert state["result"]["confidence"] == {
        name: getattr(own.confidence, name) for name in ("score", "level", "reason")
    }
    assert own_examples.trace(state["run"])["stages"]


def test_its_nodes_and_edges_are_those_of_seed_004(examples: Refdesk) -> None:
    drawn = build_graph(examples).get_graph()
    assert set(drawn.nodes) == {
        *("__start__", "route", "retrieve", "rerank", "generate", "verify", "reconcile", "__end__")
    }
    edges = {(edge.source, edge.target, edge.conditional) for edge in drawn.edges}
    assert {("__start__", "route", False), ("retrieve", "rerank", False), ("rerank", "generate", False)} <= edges
    assert {("route", "retrieve", True), ("route", "__end__", True), ("generate", "verify", True)} <= edges
    assert {("generate", "__end__", True), ("verify", "reconcile", True)} <= edges
    assert "rerank --> generate" in drawn.draw_mermaid()


async def streamed(graph: Any, **state: Any) -> tuple[list[Any], list[str]]:
    events, nodes = [], []
    async for kind, part in graph.astream({"question": QUESTION, **state}, stream_mode=["custom", "updates"]):
        if kind == "custom":
            events.append(part)
        else:
            nodes += list(part)
    return events, nodes


def test_it_streams_the_events_of_seed_004(own_examples: Refdesk) -> None:
    events, nodes = asyncio.run(streamed(build_graph(own_examples, cache=False)))
    assert nodes == ["route", "retrieve", "rerank", "generate", "verify"]
    steps = [one["data"]["step"] for one in events if one["type"] == "thinking"]
    assert steps[:3] == ["route", "retrieve", "rerank"] and "generate" in steps
    text = "".join(one["data"]["token"] for one in events if one["type"] == "content")
    assert "350 kg" in text and events[-1]["type"] == "done"
    quick = asyncio.run(streamed(build_graph(own_examples, cache=False), response_mode="quick"))[1]
    assert quick == ["route", "retrieve", "rerank", "generate"], "nothing is checked by a second model"


def test_what_is_disputed_is_reconciled(asker: Asker, server: WireServer) -> None:
    def lie(request: Recorded) -> str:
        return "The anchor is a cast iron sinker of 350 kg [1]. It was painted blue in 1987 [1]."

    server.answer_by(lie)
    with asker.desk() as desk:
        graph = build_graph(desk, cache=False, response_mode="thorough")
        events, nodes = asyncio.run(streamed(graph))
    assert nodes[-2:] == ["verify", "reconcile"]
    assert events[-1]["data"]["answer"]["verification"]["status"] == "reconciled"
    assert "1987" not in events[-1]["data"]["answer"]["content"]


def test_a_run_is_interrupted_changed_and_goes_on_elsewhere(own_folder: Path) -> None:
    saver, config = InMemorySaver(), {"configurable": {"thread_id": "one"}}
    with Refdesk(own_folder) as desk:
        graph = build_graph(desk, checkpointer=saver, interrupt_before=["generate"], cache=False)
        state = run(graph, config=config)
        assert len(state["chunks"]) > 2 and state["answer"] == ""
        assert graph.get_state(config).next == ("generate",)
        chosen = [one for one in state["chunks"] if "350 kg" in one["text"]][:1]
        asyncio.run(graph.aupdate_state(config, {"chunks": chosen}))
    with Refdesk(own_folder) as desk:  # as another process would
        graph = build_graph(desk, checkpointer=saver, cache=False)
        state = asyncio.run(graph.ainvoke(None, config))
        assert "350 kg" in state["answer"] and {one["chunk_id"] for one in state["citations"]} == {
            chosen[0]["chunk_id"]
        }
        again = run(graph, "Hello!", config)
        assert again["route"] == "conversational" and not again["citations"], "nothing of the question before is left"


def test_options_and_rights_are_kept(own_examples: Refdesk) -> None:
    graph = build_graph(own_examples, collection="nowhere", cache=False)
    assert not run(graph)["result"]["is_answered"]
    graph = build_graph(own_examples, cache=False)
    assert run(graph, options={"level": "basic"})["result"]["level"] == "basic"


def test_the_core_does_not_import_it() -> None:
    loaded = "import sys, refdesk.desk, refdesk.langgraph; print({'langgraph', 'langchain_core'} & sys.modules.keys())"
    assert subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True).stdout == "set()\n"
