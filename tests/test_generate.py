"""What a model is asked, as it arrives over the wire, and how its words come back."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from context_samples import chunk, passage, query
from refdesk.answer import Context, Plan, Turn
from refdesk.ask.citations import render
from refdesk.ask.generate import generate
from refdesk.ask.plan import Budget, make_request, recent
from refdesk.models import model_info
from refdesk.ports import Piece
from refdesk.prompts import NOT_IN_DOCUMENTS, REASONING_TAG, SUGGESTED_QUESTIONS
from refdesk.providers.llm import OpenAILLM
from refdesk.providers.wire import Endpoint
from refdesk.settings import Settings
from refdesk.trace import Trace
from wire_server import WireServer

PLAN = Plan("hybrid", 10, 20, use_llm=True, template="list")
HELD = (passage(1, chunk("The anchor weighs 350 kg."), title="Manual"),)
CONTEXT = Context(HELD, render(HELD, "How heavy is the anchor?", "numbered", for_model=True), 60)
TURNS = (Turn("user", "What is at the buoy?"), Turn("assistant", "An anchor. [1]"))


def llm(server: WireServer, name: str = "openai:gpt-4o-mini") -> OpenAILLM:
    return OpenAILLM(Endpoint(name, f"{server.url}/v1", "key", "OPENAI_API_KEY"))


def collect(server: WireServer, trace: Trace | None = None, **more: Any) -> list[Piece]:
    async def run() -> list[Piece]:
        pieces = generate(query(), PLAN, CONTEXT, TURNS, llm(server), Settings(), trace or Trace(), **more)
        return [piece async for piece in pieces]

    return asyncio.run(run())


def test_the_model_is_given_rules_history_context_and_question(server: WireServer) -> None:
    server.say("350 kg. [1]")
    pieces = collect(server)
    assert "".join(piece.text for piece in pieces) == "350 kg. [1]"
    sent = server.requests[0]
    assert "Enumerate all items" in sent.system
    assert SUGGESTED_QUESTIONS in sent.system
    assert [one["content"] for one in sent.json["messages"][1:3]] == [turn.content for turn in TURNS]
    assert sent.question == CONTEXT.text
    assert sent.question.endswith("Question: How heavy is the anchor?")
    assert (sent.json["temperature"], sent.json["top_p"]) == (0.3, 0.9)


def test_usage_is_passed_on_and_written_into_the_trace(server: WireServer) -> None:
    server.say("350 kg. [1]", usage=(120, 9))
    trace = Trace()
    pieces = collect(server, trace)
    usage = next(piece.usage for piece in pieces if piece.usage)
    assert (usage.prompt_tokens, usage.completion_tokens) == (120, 9)
    stage = next(stage for stage in trace.stages if stage.name == "model")
    assert (stage.output["prompt"], stage.output["completion"]) == (120, 9)
    assert (stage.usage.cost_usd or 0) > 0


def test_closing_the_pieces_ends_the_request(server: WireServer) -> None:
    server.say("350 kg and more and more", delay=0.2)

    async def first() -> str:
        async with aclosing(generate(query(), PLAN, CONTEXT, (), llm(server), Settings(), Trace())) as pieces:
            async for piece in pieces:
                if piece.text:
                    return piece.text
        return ""

    assert asyncio.run(first())
    for _ in range(100):
        if server.requests[0].disconnected:
            break
        asyncio.run(asyncio.sleep(0.02))
    assert server.requests[0].disconnected


def request(name: str = "openai:gpt-4o-mini", plan: Plan = PLAN, limit: int | None = None, **changed: Any) -> Any:
    settings, info = Settings().changed(changed), model_info(name)
    return make_request(plan, CONTEXT, TURNS, info, Budget.for_model(info, settings), settings, limit)


def test_the_budget_bounds_what_is_written() -> None:
    assert request("ollama:llama3.1").max_tokens == 1200
    assert request(**{"answer.max_tokens": 77}).max_tokens == 77


def test_sampling_suits_the_model_unless_it_is_set() -> None:
    assert request("ollama:llama3.2").temperature == 0.3
    assert request("ollama:llama3.2").top_p == 0.7
    assert request("ollama:llama3.2", **{"answer.temperature": 0.0}).temperature == 0.0


def test_tiny_models_get_one_example_and_reasoning_is_hidden() -> None:
    system = request("ollama:llama3.2").system
    assert system.count("Example:") == 1 and len(system) < len(request("openai:gpt-4o").system) / 2
    assert NOT_IN_DOCUMENTS not in system, "it would say so of passages that do answer"
    assert f"<{REASONING_TAG}>" not in request("openai:gpt-4o").system
    assert "step by step" in request("openai:gpt-4o", replace(PLAN, reasoning=True)).system


def test_questions_are_asked_for_only_when_wanted() -> None:
    assert SUGGESTED_QUESTIONS not in request(**{"answer.suggest_questions": False}).system


def test_a_byte_limit_shortens_the_rules() -> None:
    assert len(request(limit=1200).system.encode()) <= 400


def test_history_gives_way_from_its_beginning() -> None:
    turns = [Turn("user", "a" * 40), Turn("assistant", "b" * 40), Turn("user", "c" * 40), Turn("assistant", "d" * 40)]
    assert recent(turns, 100) == tuple(turns)
    assert recent(turns, 30) == tuple(turns[2:])  # never an answer without its question
    assert recent(turns, 15) == ()
