"""A real model through the real adapter: streaming, JSON of a shape, cancelling, time-out."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import aclosing
from pathlib import Path

import pytest

from real_model import RealModel, real_model
from refdesk.answer import Turn
from refdesk.config import load_config
from refdesk.errors import ProviderInterrupted, ProviderUnavailable
from refdesk.ports import Piece, Request
from refdesk.providers.directory import make_models
from refdesk.providers.llm import OpenAILLM
from refdesk.providers.wire import Endpoint
from refdesk.settings import Settings

__all__ = ["real_model"]  # a fixture

pytestmark = pytest.mark.slow

STORY = Request("You are a helpful assistant.", (Turn("user", "Tell a long story about the sea."),), 1500)


def llm(model: RealModel, timeout_s: float = 60.0) -> OpenAILLM:
    return OpenAILLM(Endpoint(model.name, model.url, timeout_s=timeout_s))


async def collect(model: OpenAILLM, request: Request) -> list[Piece]:
    return [piece async for piece in model.stream(request)]


def test_it_streams_and_counts_its_tokens(real_model: RealModel) -> None:
    question = Turn("user", "What is the capital of France? Answer in one short sentence.")
    pieces = asyncio.run(collect(llm(real_model), Request("Answer briefly.", (question,), 40)))
    assert "Paris" in "".join(piece.text for piece in pieces)
    assert len(pieces) > 3, "word by word"
    usage = pieces[-1].usage
    assert usage is not None
    assert usage.completion_tokens >= len(pieces) - 2 and usage.prompt_tokens > 20
    assert (usage.cost_usd, pieces[-1].finish) == (0.0, "stop")


def test_it_stops_at_the_limit(real_model: RealModel) -> None:
    pieces = asyncio.run(collect(llm(real_model), Request(STORY.system, STORY.messages, 12)))
    usage = pieces[-1].usage
    assert usage is not None
    assert (pieces[-1].finish, usage.completion_tokens) == ("length", 12)


def test_json_of_a_given_shape(real_model: RealModel) -> None:
    schema = {
        "type": "object",
        "properties": {
            "route": {"type": "string", "enum": ["needs_retrieval", "conversational"]},
            "confident": {"type": "boolean"},
        },
    }
    question = Turn("user", "Classify: What does the contract say of rent?")
    pieces = asyncio.run(collect(llm(real_model), Request("Answer in JSON.", (question,), 60, schema=schema)))
    value = json.loads("".join(piece.text for piece in pieces))
    assert set(value) == {"route", "confident"}
    assert value["route"] in ("needs_retrieval", "conversational")
    assert isinstance(value["confident"], bool)


@pytest.mark.parametrize("how", ["close", "cancel"])
def test_cancelling_ends_the_generation(real_model: RealModel, how: str) -> None:
    """The server serves one at a time: had the story of half a minute gone on, the next answer would wait for it."""

    async def read_a_little() -> None:
        seen = 0
        async with aclosing(llm(real_model).stream(STORY)) as pieces:
            async for _ in pieces:
                seen += 1
                if seen == 5 and how == "close":
                    return

    async def short() -> float:
        began = time.monotonic()
        await collect(llm(real_model), Request("", (Turn("user", "Hi"),), 3))
        return time.monotonic() - began

    async def run() -> float:
        usual = await short()
        task = asyncio.create_task(read_a_little())
        if how == "cancel":
            await asyncio.sleep(1.5)
            assert not task.done()
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return await short() / usual

    assert asyncio.run(run()) < 20, "the server goes on with what nobody waits for"


def test_time_out_while_it_reads(real_model: RealModel) -> None:
    """A long prompt takes seconds before the first word."""
    long = Request("", (Turn("user", "The sea was calm and the harbour was busy. " * 40),), 5)
    with pytest.raises((ProviderUnavailable, ProviderInterrupted), match=r"0\.3 s"):
        asyncio.run(collect(llm(real_model, timeout_s=0.3), long))


def test_named_by_the_environment(real_model: RealModel, tmp_path: Path) -> None:
    models = make_models(load_config(tmp_path, real_model.env()), Settings())
    answer = models.role("answer")
    assert answer is not None and models.role("router") is None, "it is tiny"

    async def run() -> str:
        request = Request("", (Turn("user", "Say hello."),), 10)
        return "".join([piece.text async for piece in answer.stream(request)])

    assert asyncio.run(run()).strip()
