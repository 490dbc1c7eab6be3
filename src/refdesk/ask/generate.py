"""What is a model asked, and how does its answer come back? One request, streamed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from refdesk.answer import Context, Plan, Query, Turn
from refdesk.ask.passages.budget import Budget
from refdesk.ask.passages.system import system_message
from refdesk.models import ModelInfo, model_info, rough_tokens
from refdesk.ports import LLM, Piece, Request
from refdesk.prompts import CONVERSATIONAL_SYSTEM, GENERAL_SYSTEM
from refdesk.settings import Settings
from refdesk.trace import Trace


async def generate(
    query: Query,
    plan: Plan,
    context: Context,
    memory_turns: Sequence[Turn],
    llm: LLM,
    settings: Settings,
    trace: Trace,
    *,
    budget: Budget | None = None,
    max_context_chars: int | None = None,
) -> AsyncGenerator[Piece, None]:
    """The pieces as the model writes them, markers and sentinel still in them; the last carries the usage."""
    info = model_info(llm.name)
    budget = budget or Budget.for_model(info, settings)
    request = make_request(plan, context, memory_turns, info, budget, settings, max_context_chars)
    async for piece in _streamed(llm, request, trace):
        yield piece


async def converse(
    query: Query,
    memory_turns: Sequence[Turn],
    llm: LLM,
    settings: Settings,
    trace: Trace,
    *,
    conversational: bool = False,
) -> AsyncGenerator[Piece, None]:
    """The mode `general`: no documents, the model's own knowledge; or small talk."""
    info = model_info(llm.name)
    budget = Budget.for_model(info, settings)
    system = CONVERSATIONAL_SYSTEM if conversational else GENERAL_SYSTEM
    messages = (*recent(memory_turns, budget.history), Turn("user", query.standalone))
    async for piece in _streamed(llm, _sampled(Request(system, messages, budget.generation), info, settings), trace):
        yield piece


async def _streamed(llm: LLM, request: Request, trace: Trace) -> AsyncGenerator[Piece, None]:
    sizes = {
        "model": llm.name,
        "role": request.role,
        "turns": len(request.messages) - 1,
        "tokens": prompt_tokens(request),
    }
    with trace.stage("model", **sizes) as stage:
        written = 0
        async with aclosing(llm.stream(request)) as pieces:  # type: ignore[type-var]
            async for piece in pieces:
                written += len(piece.text)
                if piece.usage is not None:
                    stage.cost_usd += piece.usage.cost_usd or 0.0
                    stage.gave(prompt=piece.usage.prompt_tokens, completion=piece.usage.completion_tokens)
                yield piece
        stage.gave(characters=written)


def make_request(
    plan: Plan,
    context: Context,
    turns: Sequence[Turn],
    info: ModelInfo,
    budget: Budget,
    settings: Settings,
    max_context_chars: int | None = None,
) -> Request:
    """The system message, what was said before, and the context, which ends with the question."""
    most = max_context_chars or settings.max_context_chars or None
    system = system_message(plan, budget, settings, most)
    messages = (*recent(turns, budget.history), Turn("user", context.text))
    return _sampled(Request(system, messages, budget.generation), info, settings)


def _sampled(request: Request, info: ModelInfo, settings: Settings) -> Request:
    temperature = info.temperature if settings.temperature < 0 else settings.temperature
    return replace(request, temperature=temperature, top_p=info.top_p)


def recent(turns: Sequence[Turn], tokens: int) -> tuple[Turn, ...]:
    """The last turns that find room; a conversation never begins with an answer."""
    kept: list[Turn] = []
    for turn in reversed(turns):
        tokens -= rough_tokens(turn.content)
        if tokens < 0:
            break
        kept.append(turn)
    while kept and kept[-1].role != "user":
        kept.pop()
    return tuple(reversed(kept))


def prompt_tokens(request: Request) -> int:
    return rough_tokens(request.system) + sum(rough_tokens(turn.content) for turn in request.messages)
