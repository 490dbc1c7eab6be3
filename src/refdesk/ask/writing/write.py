"""Who writes the answer? The model that is named, or else, and whenever it fails, the extractive answerer."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from refdesk.answer import Plan, Query, Retrieved, Turn, Usage
from refdesk.ask.evidence.extract import extract
from refdesk.ask.generate import generate
from refdesk.ask.passages.budget import Budget
from refdesk.ask.writing.draft import EXTRACTIVE, Draft
from refdesk.ask.writing.failing import tell
from refdesk.errors import ProviderEmpty, ProviderError
from refdesk.events import Event
from refdesk.ports import Models, Piece
from refdesk.prompts import NOT_IN_DOCUMENTS
from refdesk.settings import Settings
from refdesk.threads import aside
from refdesk.trace import Trace

NEAREST = f"{NOT_IN_DOCUMENTS} The nearest they come to it:\n\n"
NEAREST_SENTENCES = 2
TOO_SMALL = "No passage fits into the context (max_context_chars is {most}), so only the best one was looked at."


async def write(
    draft: Draft,
    query: Query,
    plan: Plan,
    retrieved: Retrieved,
    turns: Sequence[Turn],
    models: Models,
    budget: Budget,
    settings: Settings,
    trace: Trace,
    doubt: str = "",
    most_characters: int | None = None,
) -> AsyncGenerator[Event, None]:
    """Writes into the draft, and gives what a reader is to see of it as it comes."""
    llm = models.role("answer", lambda said: trace.skip("try", said), draft.failures.append)
    if draft.context.is_too_small:
        draft.notes.append(TOO_SMALL.format(most=most_characters or settings.max_context_chars))
        if plan.use_llm:
            trace.skip("model", "no passage fits into the context")
    elif llm is not None and plan.use_llm:
        draft.model = llm.name
        pieces = generate(
            query, plan, draft.context, turns, llm, settings, trace, budget=budget, max_context_chars=most_characters
        )
        try:
            async with aclosing(pieces):
                async for piece in pieces:
                    if shown := draft.take(piece):
                        yield shown
            if shown := draft.finish():
                yield shown
            if draft.content:
                tell(draft, trace)
                return
            raise _silent(draft.model)
        except ProviderError as error:
            draft.usage += error.spent or Usage()
            if error not in draft.failures:  # no chain has heard of it
                error.model = error.model or llm.name
                draft.failures.append(error)
            trace.skip("model", f"{error.sentence}; the sentences are quoted instead")
    if void := draft.take(Piece(model=EXTRACTIVE, restarted=True)):
        yield void
    most = NEAREST_SENTENCES if doubt == "near" else None
    quotes = await aside(extract, query, draft.context, retrieved, settings, most)
    if doubt == "near" and quotes and (shown := draft.say(NEAREST)):
        yield shown
    for quote in quotes:
        if shown := draft.quote(quote):
            yield shown
    tell(draft, trace)


def _silent(model: str) -> ProviderEmpty:
    """It wrote thoughts alone, or what is never shown."""
    error = ProviderEmpty(f"{model} said nothing")
    error.model = model
    return error
