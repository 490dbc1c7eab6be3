"""Asks a model for the answer and streams it; quotes the documents if the model fails."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace

from refdesk.answer import Answer, Confidence, Context, Event, FailedModel, Image, Plan, Query, Retrieved, Turn, Usage
from refdesk.ask.citations import BEST, render
from refdesk.ask.draft import EXTRACTIVE, Draft
from refdesk.ask.extract import extract
from refdesk.ask.markers import is_refusal, statements
from refdesk.ask.plan import Budget, make_request, prompt_tokens, recent, with_sampling
from refdesk.ask.wording import said
from refdesk.errors import (
    ProviderEmpty,
    ProviderError,
    ProviderInterrupted,
    ProviderRefused,
    ProviderUnavailable,
    UsageError,
)
from refdesk.models import Tier, model_info
from refdesk.ports import LLM, Models, Piece, Request
from refdesk.prompts import PLAIN, general_system
from refdesk.settings import Settings
from refdesk.trace import Trace, in_thread


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


async def written_into(draft: Draft, pieces: AsyncGenerator[Piece, None]) -> AsyncGenerator[Event, None]:
    """Takes a model's pieces into a draft to the end of them, and gives what a reader is to see of each."""
    async with aclosing(pieces):
        async for piece in pieces:
            if shown := draft.take(piece):
                yield shown
    if shown := draft.finish():
        yield shown


def gave_up(draft: Draft, error: ProviderError, model: str, trace: Trace, instead: str) -> None:
    """Notes in the draft and the trace that a model failed, what that cost, and what is done instead."""
    draft.usage += error.spent or Usage()
    if error not in draft.failures:  # no chain has heard of it
        error.model = error.model or model
        draft.failures.append(error)
    trace.skip("model", f"{error.sentence}; {instead}")


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


# What is said of a model that did not answer? A sentence for the reader, a warning in the log, a code to count.

NO_CREDIT = "the account has no credit left"
REFUSED: Mapping[int, str] = {
    401: "the API key was refused",
    402: NO_CREDIT,
    403: "the API key was refused",
    404: "the provider does not know this model",
    429: NO_CREDIT,  # any other 429 is `ProviderUnavailable`
}

logger = logging.getLogger("refdesk.ask")


def notify(draft: Draft, trace: Trace) -> None:
    """Notes for the reader and warnings in the log of every model that failed before the writer of this draft."""
    failed = given_up(draft.failures, draft.model)
    warn(failed, trace)
    if failed:
        draft.notes.append(sentence(failed, draft.model, is_quoting=bool(draft.content)))


def given_up(failures: Sequence[ProviderError], writer: str) -> list[ProviderError]:
    """The last failure of each model, without the writer's: one that broke off and began anew has answered."""
    return list({failure.model: failure for failure in failures if failure.model != writer}.values())


def failed_models(draft: Draft) -> tuple[FailedModel, ...]:
    return tuple(
        FailedModel(provider_error.model, provider_error.code)
        for provider_error in given_up(draft.failures, draft.model)
    )


def sentence(failed: Sequence[ProviderError], writer: str, *, is_quoting: bool) -> str:
    """`openai:gpt-4o did not answer (the API key was refused), so this answer is quoted from the documents.`"""
    named = ", nor did ".join(
        f"{failure.model} did not answer ({reason(failure)})" if place == 0 else f"{failure.model} ({reason(failure)})"
        for place, failure in enumerate(failed)
    )
    if writer != EXTRACTIVE:
        return f"{named}, so {writer} wrote this instead."
    instead = "this answer is quoted from the documents" if is_quoting else "no model has searched for it"
    return f"{named}, so {instead}."


def warn(failed: Sequence[ProviderError], trace: Trace) -> None:
    """One line for each, under the id of its answer, whose trace has every try.

    Not in the provider's words: some say the whole request again, and questions are not logged.
    """
    for failure in failed:
        message = {
            "model": failure.model,
            "code": failure.code,
            "status": failure.status,
            "hint": failure.hint,
            "answer_id": trace.id,
        }
        logger.warning("%s did not answer: %s", failure.model, reason(failure), extra=message)


def reason(error: ProviderError) -> str:
    """Why it did not answer, in plain words; no address, no key and nothing that the provider said.

    >>> reason(ProviderRefused("openai:gpt-4o answered 401: wrong key sk-…", status=401))
    'the API key was refused'
    """
    match error:
        case ProviderRefused():
            return REFUSED.get(error.status, "it refused the request" if error.status else "it could not be called")
        case ProviderUnavailable():
            return _unavailable(error.status)
        case ProviderInterrupted():
            return "the connection was lost"
        case ProviderEmpty():
            return "it wrote nothing"
    return "it failed"


def _unavailable(status: int) -> str:
    if status == 429:
        return "it is overloaded"
    return "its server failed" if status >= 500 else "it is not available"


# Who writes the answer? The model that is named, or else, and whenever it fails, the extractive answerer.

NEAREST_SENTENCES = 2
TOO_SMALL = "No passage fits into the context (max_context_chars is {most}), so only the best one was used."
NOT_FOUND = "{model} did not find the answer in the passages, so this answer is quoted from the documents."
NOT_PROVED = "{model} wrote nothing that the documents support, so this answer is quoted from them."
NOT_SEEN = "{model} refused the images, so only the text was used."
ONCE_MORE = "asking the model again"


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
    llm = models.role("answer", lambda why: trace.skip("try", why), draft.failures.append)
    if draft.context.is_too_small:
        draft.notes.append(TOO_SMALL.format(most=most_characters or settings.max_context_chars))
        if plan.use_llm:
            trace.skip("model", "no passage fits into the context")
    elif llm is not None and plan.use_llm:
        draft.model = llm.name

        def asked(is_plain: bool) -> AsyncGenerator[Piece, None]:
            given = (query, plan, draft.context, turns, llm, settings, trace)
            return generate(*given, budget=budget, max_context_chars=most_characters, is_plain=is_plain)

        try:
            async with aclosing(_asked(draft, asked, budget.tier, trace, doubt)) as events:
                async for event in events:
                    yield event
            if not draft.content:
                raise _silent(draft.model)
            if doubt or not refuses(draft.content):
                notify(draft, trace)
                return
            draft.notes.append(NOT_FOUND.format(model=draft.model))
        except ProviderError as error:
            gave_up(draft, error, llm.name, trace, "quoting the documents instead")
    async with aclosing(quote_instead(draft, query, retrieved, settings, doubt)) as events:
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


async def quote_instead(
    draft: Draft, query: Query, retrieved: Retrieved, settings: Settings, doubt: str = ""
) -> AsyncGenerator[Event, None]:
    """The sentences of the documents, in place of whatever the draft holds."""
    if void := draft.start_over(EXTRACTIVE, "quoting the documents instead"):
        yield void
    most = NEAREST_SENTENCES if doubt == "near" else None
    quotes = await in_thread(extract, query, draft.context, retrieved, settings, most)
    if doubt == "near" and quotes and (shown := draft.say(nearest(query.question))):
        yield shown
    for quote in quotes:
        if shown := draft.quote(quote):
            yield shown


def nearest(question: str) -> str:
    """What is said before the sentences that come nearest to a question that has no answer."""
    return f"{said('missing', question)} {said('nearest', question)}\n\n"


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
