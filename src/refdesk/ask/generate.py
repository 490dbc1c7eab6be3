"""Asks a model for the answer and streams it; quotes the documents if the model fails."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from refdesk.answer import Answer, Confidence, Context, Event, Image, Plan, Query, Turn, Usage
from refdesk.ask.citations import BEST, render
from refdesk.ask.draft import (
    QUOTING,
    Draft,
    WritingTask,
    failed_models,
    gave_up,
    given_up,
    notify,
    quoted,
    warn,
    written_into,
)
from refdesk.ask.markers import is_refusal, statements
from refdesk.ask.plan import Budget, make_request, prompt_tokens, recent, with_sampling
from refdesk.errors import ProviderEmpty, ProviderError, ProviderRefused, UsageError
from refdesk.models import Tier, model_info
from refdesk.ports import LLM, Models, Piece, Request
from refdesk.prompts import PLAIN, general_system
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
    is_plain: bool = False,
) -> AsyncGenerator[Piece, None]:
    """The pieces as the model writes them, markers and sentinel still in them; the last carries the usage."""
    info = model_info(llm.name)
    budget = budget or Budget.for_model(info, settings)
    request = make_request(plan, context, memory_turns, info, budget, settings, max_context_chars)
    if is_plain:
        request = plain_request(query, context, request)
    async for piece in _streamed(llm, request, trace):
        yield piece


def plain_request(query: Query, context: Context, request: Request) -> Request:
    """The best passages and the question alone, without rules and without what was said before."""
    frame = render(context.passages[:BEST], "", "numbered", for_model=True)
    message = PLAIN.format(passages=frame.removesuffix("Question: ").rstrip(), question=query.standalone)
    return replace(request, system="", messages=(Turn("user", message),), temperature=0.0)


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
                    stage.usage += piece.usage
                    stage.gave(prompt=piece.usage.prompt_tokens, completion=piece.usage.completion_tokens)
                yield piece
        stage.gave(characters=written)


# Who writes the answer? The model that is named, or else, and whenever it fails, the extractive answerer.

NOT_FOUND = "{model} did not find the answer in the passages, so this answer is quoted from the documents."
NOT_SEEN = "{model} refused the images, so only the text was used."
ONCE_MORE = "asking the model again"


async def write(draft: Draft, task: WritingTask) -> AsyncGenerator[Event, None]:
    """Writes into the draft, and gives what a reader is to see of it as it comes."""
    llm, trace, doubt = task.model(draft), task.trace, task.doubt
    if draft.context.is_too_small:
        trace.skip("model", "no passage fits into the context")
    elif llm is not None:
        draft.model = llm.name

        def asked(is_plain: bool) -> AsyncGenerator[Piece, None]:
            given = (task.query, task.plan, draft.context, task.turns, llm, task.settings, trace)
            return generate(*given, budget=task.budget, max_context_chars=task.most_characters, is_plain=is_plain)

        try:
            async with aclosing(_asked(draft, asked, task.budget.tier, trace, doubt)) as events:
                async for event in events:
                    yield event
            if not draft.content:
                raise _silent(draft.model)
            if doubt or not refuses(draft.content):
                notify(draft, trace)
                return
            draft.notes.append(NOT_FOUND.format(model=draft.model))
        except ProviderError as error:
            gave_up(draft, error, llm.name, trace, QUOTING)
    async with aclosing(quoted(draft, task)) as events:
        async for event in events:
            yield event
    notify(draft, trace)


async def _asked(
    draft: Draft, asked: Callable[[bool], AsyncGenerator[Piece, None]], tier: Tier, trace: Trace, doubt: str
) -> AsyncGenerator[Event, None]:
    """What the model writes; where that is nothing, or a refusal that is doubted, what it writes to the plain question.

    A refusal is doubted where a reader has found the answer, and of models so small that they refuse at random.
    """
    for is_plain in (False, True):
        try:
            async with aclosing(written_into(draft, _unless_refused(draft, asked, is_plain))) as events:
                async for event in events:
                    yield event
        except ProviderEmpty as error:
            if is_plain:
                raise
            draft.usage += error.spent or Usage()
        is_trusted = bool(doubt) and tier not in ("tiny", "small")
        if is_plain or (draft.content and (is_trusted or not refuses(draft.content))):
            return
        trace.skip("draft", "it refused" if draft.content else "it wrote nothing")
        if void := draft.start_over(draft.model, ONCE_MORE):
            yield void


async def _unless_refused(
    draft: Draft, asked: Callable[[bool], AsyncGenerator[Piece, None]], is_plain: bool
) -> AsyncGenerator[Piece, None]:
    """The pieces; where a provider takes no pictures after all, those of the same request without them."""
    try:
        async with aclosing(asked(is_plain)) as pieces:
            async for piece in pieces:
                yield piece
        return
    except ProviderRefused:
        if not draft.context.pictures:
            raise
    draft.context = replace(draft.context, pictures=())
    draft.failures.clear()
    draft.notes.append(NOT_SEEN.format(model=draft.model))
    async with aclosing(asked(is_plain)) as pieces:
        async for piece in pieces:
            yield piece


def refuses(content: str) -> bool:
    """It says that the documents do not say it, and nothing else."""
    return is_refusal(content) and not statements(content)


def _silent(model: str) -> ProviderEmpty:
    """It wrote thoughts alone, or what is never shown."""
    error = ProviderEmpty(f"{model} said nothing")
    error.model = model
    return error


# The mode `general`: a model answers from what it knows, without documents, and says so.

NOTHING = Context((), "", 0)  # no passage: every marker a model writes is taken out
REASON = "no documents were searched, so nothing here is backed by a source"


async def general(
    draft: Draft,
    query: Query,
    turns: tuple[Turn, ...],
    models: Models,
    notes: Sequence[str],
    settings: Settings,
    trace: Trace,
    images: Sequence[Image] = (),
) -> AsyncGenerator[Event, None]:
    """Streams a model's own words into the draft; nobody can stand in for the last model, so its failure is raised."""
    llm = models.role("answer", lambda note: trace.skip("try", note), draft.failures.append)
    if llm is None:
        why = f": {notes[0].rstrip('.')}" if notes else ""
        raise UsageError(f"the mode 'general' needs a model{why}", hint="set one: REFDESK_LLM=provider:model")
    draft.model = llm.name
    info = model_info(llm.name)
    budget = Budget.for_model(info, settings)
    messages = (*recent(turns, budget.history), Turn("user", (query.standalone, *images)))
    request = with_sampling(
        Request(general_system(settings.house_rules.strip()), messages, budget.generation), info, settings
    )
    with trace.stage("generate", model=llm.name) as stage:
        try:
            async with aclosing(written_into(draft, _streamed(llm, request, trace))) as events:
                async for event in events:
                    yield event
        except ProviderError:
            warn(given_up(draft.failures, ""), trace)
            raise
        stage.gave(**draft.sizes)
    notify(draft, trace)


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
