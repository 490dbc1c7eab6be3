"""The mode `general`: a model answers from what it knows, without documents, and says so."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from refdesk.answer import Answer, Confidence, Context, Query, Turn
from refdesk.ask.desk import Desk
from refdesk.ask.generate import converse
from refdesk.ask.writing.draft import Draft
from refdesk.ask.writing.failing import failed_models, given_up, tell, warn
from refdesk.errors import ProviderError, UsageError
from refdesk.events import Event
from refdesk.trace import Trace

NOTHING = Context((), "", 0)  # no passage: every marker a model writes is taken out
REASON = "no documents were searched: nothing here is proved"


async def general(
    draft: Draft, query: Query, turns: tuple[Turn, ...], desk: Desk, trace: Trace
) -> AsyncGenerator[Event, None]:
    """Streams a model's own words into the draft; nobody can stand in for the last model, so its failure is raised."""
    llm = desk.models.role("answer", lambda said: trace.skip("try", said), draft.failures.append)
    if llm is None:
        why = f": {desk.notes[0].rstrip('.')}" if desk.notes else ""
        raise UsageError(f"the mode 'general' needs a model{why}", hint="name one: REFDESK_LLM=provider:model")
    draft.model = llm.name
    with trace.stage("generate", model=llm.name) as stage:
        try:
            async with aclosing(converse(query, turns, llm, desk.settings, trace)) as pieces:
                async for piece in pieces:
                    if shown := draft.take(piece):
                        yield shown
        except ProviderError:
            warn(given_up(draft.failures, ""), trace)
            raise
        if shown := draft.finish():
            yield shown
        stage.gave(**draft.sizes)
    tell(draft, trace)


def unproved(answer: Answer, draft: Draft) -> Answer:
    return replace(
        answer,
        content=draft.content,
        model=draft.model,
        usage=draft.usage,
        suggested_questions=draft.suggested,
        confidence=Confidence(0.0, "low", REASON),
        notes=tuple(draft.notes),
        failed_models=failed_models(draft),
    )
