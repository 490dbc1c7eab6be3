"""Who writes the answer? The model that is named, or else, and whenever it fails, the extractive answerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from refdesk.answer import Context, Plan, Query, Retrieved, Turn
from refdesk.ask.budget import Budget
from refdesk.ask.draft import EXTRACTIVE
from refdesk.ask.extract import extract
from refdesk.ask.generate import generate
from refdesk.errors import ProviderError
from refdesk.ports import Models, Piece
from refdesk.settings import Settings
from refdesk.trace import Trace


async def write(
    query: Query,
    plan: Plan,
    context: Context,
    retrieved: Retrieved,
    turns: Sequence[Turn],
    models: Models,
    budget: Budget,
    settings: Settings,
    trace: Trace,
    most_characters: int | None = None,
) -> AsyncGenerator[Piece, None]:
    """The pieces of an answer; the first of each writer names it."""
    said = ""
    llm = models.role("answer", lambda said: trace.skip("try", said))
    if llm is not None and plan.use_llm:
        try:
            writing = generate(
                query, plan, context, turns, llm, settings, trace, budget=budget, max_context_chars=most_characters
            )
            async with aclosing(writing) as pieces:
                yield Piece(model=llm.name)
                async for piece in pieces:
                    said = piece.text if piece.restarted else said + piece.text
                    yield piece
        except ProviderError as error:
            trace.skip("model", f"{error.sentence}; the sentences are quoted instead")
        else:
            if said.strip():
                return
            trace.skip("model", f"{llm.name} said nothing; the sentences are quoted instead")
    yield Piece(model=EXTRACTIVE, restarted=bool(said.strip()))
    for piece_text in await asyncio.to_thread(extract, query, context, retrieved, settings):
        yield Piece(text=piece_text)
