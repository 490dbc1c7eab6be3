"""What each level does, and that it says what it could not do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from memory_desk import ON_DISK, AnyDesk, opened_again
from refdesk import settings
from refdesk.answer import Query
from refdesk.ask.plan import engines
from refdesk.ask.strategies import STRATEGIES, SearchStrategy, register
from refdesk.ask.strategies.registry import hybrid_hits
from refdesk.library import EngineHits, SearchPorts
from refdesk.models import model_info
from refdesk.prompts import REASONING_TAG
from wire_server import Recorded, WireServer

STORES = ON_DISK  # and not in memory, to save time: what differs is the models
QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"


@contextmanager
def registered(search: SearchStrategy) -> Iterator[None]:
    """An engine under the name of one that a level asks for, in place of the real one."""
    known, names = STRATEGIES.get("graph"), list(settings.STRATEGIES)
    register("graph")(search)
    try:
        yield
    finally:
        settings.STRATEGIES[:] = names
        STRATEGIES.pop("graph")
        if known is not None:
            STRATEGIES["graph"] = known


@pytest.fixture
def graph() -> Iterator[list[str]]:
    asked: list[str] = []

    async def search(query: Query, ports: SearchPorts) -> list[EngineHits]:
        asked.append(query.standalone)
        return [EngineHits("graph", (await hybrid_hits(query, ports))[:3])]

    with registered(search):
        yield asked


def test_engines_of_a_level(graph: list[str]) -> None:
    assert engines("standard", "hybrid") == () and engines("basic", "dense") == ()
    assert engines("enhanced", "two_stage") == ("graph", "multi_hop")
    assert engines("enhanced", "two_stage", has_llm=True) == ("graph", "fusion", "multi_hop")
    assert set(engines("maximum", "two_stage")) == set(STRATEGIES) - {"dense", "hybrid", "two_stage", "survey"}


def test_the_engines_of_a_level_are_asked(own_examples: AnyDesk, graph: list[str]) -> None:
    answer = own_examples.ask_sync(QUESTION, level="enhanced", cache=False)
    assert graph and "350 kg" in answer.content
    stages = {one["name"]: one for one in own_examples.trace(answer.id)["stages"]}
    assert stages["graph"]["output"]["hits"] == 3
    graph.clear()
    own_examples.ask_sync(QUESTION, cache=False)
    assert not graph


def test_an_engine_that_fails_is_left_out(own_examples: AnyDesk) -> None:
    async def broken(query: Query, ports: SearchPorts) -> list[EngineHits]:
        raise RuntimeError("no")

    with registered(broken):
        assert "350 kg" in own_examples.ask_sync(QUESTION, level="maximum", cache=False).content


def test_every_level_works_without_a_model_and_says_what_it_left_out(own_examples: AnyDesk) -> None:
    for level in ("basic", "standard", "enhanced", "maximum"):
        answer = own_examples.ask_sync(QUESTION, level=level, cache=False)
        assert "350 kg" in answer.content
        said = [note for note in answer.notes if note.startswith("Level ")]
        assert bool(said) == (level in ("enhanced", "maximum"))
        assert all("no model is set" in note for note in said)
    assert "several drafts, a thinking budget and a reconciler" in said[0]


def asked(
    server: WireServer, examples: AnyDesk, patch: pytest.MonkeyPatch, model: str, level: str, **more: str
) -> list[str]:
    server.answer_by(lambda request: "The anchor weighs 350 kg [1].")
    for name, value in (server.anthropic_env if model.startswith("claude") else server.openai_env)(
        model, **more
    ).items():
        patch.setenv(name, value)
    with opened_again(examples) as desk:
        return list(desk.ask_sync(QUESTION, level=level, cache=False).notes)


def first(server: WireServer) -> Recorded:
    return next(one for one in server.requests if "You are a reference desk" in one.system)


def test_enhanced_reasons_about_every_question(own_examples: AnyDesk, server: WireServer, monkeypatch: object) -> None:
    asked(server, own_examples, monkeypatch, "writer-8b", "enhanced")  # type: ignore[arg-type]
    assert f"<{REASONING_TAG}>" in first(server).system


def test_standard_does_not(own_examples: AnyDesk, server: WireServer, monkeypatch: object) -> None:
    asked(server, own_examples, monkeypatch, "writer-8b", "standard")  # type: ignore[arg-type]
    assert f"<{REASONING_TAG}>" not in first(server).system


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("gpt-5-mini", {"reasoning_effort": "high"}),
        ("claude-sonnet-4-5", {"thinking": {"type": "enabled", "budget_tokens": 8000}}),
        ("claude-opus-4-8", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
    ],
)
def test_a_thinking_budget_where_the_model_takes_one(
    own_examples: AnyDesk, server: WireServer, monkeypatch: pytest.MonkeyPatch, model: str, sent: dict[str, object]
) -> None:
    notes = asked(server, own_examples, monkeypatch, model, "maximum")
    body = first(server).json
    assert {name: body.get(name) for name in sent} == sent and "temperature" not in body
    assert body.get("max_tokens", body.get("max_completion_tokens")) > 8000
    assert f"<{REASONING_TAG}>" not in first(server).system, "it thinks for itself"
    assert not any("a thinking budget" in note for note in notes)
    server.requests.clear()
    asked(server, own_examples, monkeypatch, model, "standard")
    assert "thinking" not in first(server).json and first(server).json.get("reasoning_effort") != "high"


def test_a_server_that_refuses_to_think_is_asked_without(
    own_examples: AnyDesk, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.refused_fields.add("thinking")
    notes = asked(server, own_examples, monkeypatch, "claude-sonnet-4-5", "maximum")
    answered = [one for one in server.requests if "thinking" not in one.json]
    assert answered and not any("did not answer" in note for note in notes)


def test_a_model_that_cannot_be_told_to_think_is_said(
    own_examples: AnyDesk, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = asked(server, own_examples, monkeypatch, "writer-8b", "maximum")
    assert any(note.startswith("Level maximum skipped a thinking budget: the model does not") for note in notes)
    assert any("no reconciler model is set" in note for note in notes)
    assert model_info("openai:gpt-4o").thinking == "" and model_info("anthropic:claude-3-7-sonnet").thinking == "budget"


def test_several_drafts_are_the_first_to_be_cut_for_their_cost(
    own_examples: AnyDesk, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer_by(lambda request: "The anchor weighs 350 kg [1].")
    for name, value in server.openai_env("gpt-4o").items():
        monkeypatch.setenv(name, value)
    with opened_again(own_examples, **{"answer.cost_limit_usd": 0.02}) as desk:
        answer = desk.ask_sync(QUESTION, level="maximum", cache=False)
    assert any("wrote one draft instead of 3" in note for note in answer.notes)
    assert answer.usage.calls < 3 and answer.usage.cost_usd is not None and answer.usage.cost_usd < 0.02
