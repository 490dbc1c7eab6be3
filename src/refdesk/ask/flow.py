"""One question, from the text as typed to an answer in which every sentence is proved.

    recall → understand → retrieve → judge → assemble → generate → attest → settle → keep

Values go forward: each stage takes what the one before gave. Every stage is in the trace under the name it has here. An
optional one that fails is written down there and left out; a needed one ends the stream with an error that names it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from refdesk.answer import Answer, Context, Plan, Query, Question, Retrieved, Spent
from refdesk.ask.assemble import assemble, with_neighbours
from refdesk.ask.attest import Attested, attest, attest_quotes
from refdesk.ask.classify import reply
from refdesk.ask.conclude import begin, candidates, conclude, doubted, list_documents, previews, refuse, say
from refdesk.ask.draft import Draft
from refdesk.ask.generate import NOTHING, general, unproved, write
from refdesk.ask.judge import judge
from refdesk.ask.keep import BESIDE, Keeper, Streamed, keep_stopped
from refdesk.ask.plan import Budget, Fitted, Prices, fit_to_cost, is_paid, make_plan, named
from refdesk.ask.retrieve import retrieve
from refdesk.ask.understand import understand
from refdesk.ask.verify import LEFT_OUT, checkable, settle, with_fragment
from refdesk.errors import AskError, RefdeskError
from refdesk.events import Content, Done, Event, Failed, Replace, Sources, Thinking, Verifying
from refdesk.ports import AskPorts
from refdesk.trace import Trace, in_thread, run

logger = logging.getLogger("refdesk.ask")


async def ask(question: Question, desk: AskPorts) -> AsyncGenerator[Event, None]:
    """The events of one question; closing the iterator ends the work, a model's request included."""
    trace, shown = Trace(), Streamed()
    try:
        async with aclosing(_answer(question, desk, trace)) as events:
            async for event in events:
                shown.notice(event)
                yield event
    except (asyncio.CancelledError, GeneratorExit):
        await keep_stopped(question, desk, trace, shown)
        raise
    except RefdeskError as error:
        error.stage = trace.failed_stage or error.stage
        yield await _failed(error, desk, trace)
    except Exception as error:  # a defect of ours; the reader is told the stage, the log has the rest
        logger.exception("question %s failed", trace.id)
        stage = trace.failed_stage or "ask"
        # Its kind, not its words: they may hold a query, a path or what someone else asked.
        known = AskError(f"the stage '{stage}' failed: {type(error).__name__}", stage=stage, hint="see the log")
        yield await _failed(known, desk, trace)


async def _failed(error: RefdeskError, desk: AskPorts, trace: Trace) -> Failed:
    with trace.optional("record"):
        await in_thread(desk.record_failure, error, trace)
    return Failed(error, trace.id)


async def _answer(question: Question, desk: AskPorts, trace: Trace) -> AsyncGenerator[Event, None]:
    library, embed, models, settings = desk.library, desk.embedder.embed_query, desk.models, desk.settings
    keeper = await in_thread(Keeper, question, desk, trace)  # it reads the conversation
    if known := await keeper.recall():
        for event in known:
            yield event
        return

    yield Thinking("understand", "Reading the question")
    with trace.stage("understand", characters=len(question.text), turns=len(keeper.turns)) as stage:
        query = await understand(question, keeper.turns, library, desk.embedder, models.role("router"), settings, trace)
        stage.gave(**query.reading)
    answer = begin(question, query, settings, trace)
    if known := await keeper.recall_similar(query):
        for event in known:
            yield event
        return
    if question.mode == "general" or query.route != "needs_retrieval" or query.is_about_library:
        async with aclosing(_without_search(question, query, answer, desk, keeper, trace)) as events:
            async for event in events:
                yield event
        return

    plan, budget = make_plan(question, query, models, settings, trace)
    count = len(await in_thread(library.documents, question.scope))
    yield Thinking("retrieve", f"Searching {count:,} document{'s' * (count != 1)}")
    with trace.stage("retrieve", **plan.sizes) as stage:
        ports = (library, desk.embedder, desk.reranker)
        retrieved = await retrieve(query, plan, question.scope, *ports, settings, trace)
        stage.gave(**retrieved.sizes)
    trace.passages = candidates(retrieved)
    relevance = await run(trace, "judge", judge, query, retrieved)
    doubt = doubted(relevance, retrieved, settings)
    if doubt == "missing":
        answer = refuse(answer, plan, query, retrieved, relevance)
        yield Content(answer.content)
        yield Done(await keeper.keep(answer, query))
        return

    context = await run(
        trace, "assemble", assemble, query, plan, retrieved, library, budget, settings, question.max_context_chars
    )
    fitted = await _within_cost(question, desk, query, plan, budget, context, retrieved, keeper, trace)
    plan, budget, context = fitted.plan, fitted.budget, fitted.context
    retrieved = await run(trace, "neighbours", with_neighbours, retrieved, context, library)
    yield Sources(previews(context))
    yield Thinking("generate", f"Reading {len(context.passages)} passage{'s' * (len(context.passages) != 1)}")
    draft = Draft(context)
    draft.notes += fitted.cuts.values()
    with trace.stage("generate", **context.sizes) as stage:
        turns = await keeper.memory(budget.history)
        written = write(
            draft, query, plan, retrieved, turns, models, budget, settings, trace, doubt, question.max_context_chars
        )
        async with aclosing(written):
            async for event in written:
                yield event
        stage.gave(**draft.sizes)

    yield Thinking("attest", "Checking every sentence")
    proofs = (context, retrieved.sentence_vectors, embed)
    attested = await _attested(query, draft, proofs, trace)
    if plan.verify:
        yield Verifying("checking")
    with trace.stage("settle", mode=question.response_mode, **attested.sizes) as stage:
        settled = await settle(query, plan, attested, *proofs, models, trace)
        stage.gave(status=settled.verification.status)
    if settled.attested.content != draft.content:
        yield Replace(settled.attested.content, settled.verification.status)
    yield Verifying(settled.verification.status, settled.verification.notes)
    answer = conclude(answer, plan, query, retrieved, relevance, context, draft, settled, settings)
    trace.passages = candidates(retrieved, context, answer.citations)
    yield Done(await keeper.keep(answer, query))


async def _without_search(
    question: Question, query: Query, answer: Answer, desk: AskPorts, keeper: Keeper, trace: Trace
) -> AsyncGenerator[Event, None]:
    """What no passage is read for: the mode `general`, small talk, errands, and which documents there are."""
    if question.mode == "general":
        draft = Draft(NOTHING)
        async with aclosing(general(draft, query, keeper.turns, desk, trace)) as events:
            async for event in events:
                yield event
        answer = unproved(answer, draft)
    else:
        documents = await in_thread(desk.library.documents, question.scope)
        answer = list_documents(answer, documents) if query.is_about_library else say(answer, reply(query))
        yield Content(answer.content)
    yield Done(await keeper.keep(answer, query))


async def _attested(query: Query, draft: Draft, proofs: tuple[Any, ...], trace: Trace) -> Attested:
    """What is quoted needs no check; of what a model wrote, as much as can be checked in reasonable time."""
    if draft.quotes:
        return await run(trace, "attest", attest_quotes, draft.content, draft.quotes, draft.order, *proofs)
    if len(content := await in_thread(checkable, draft.content)) < len(draft.content):
        draft.notes.append(LEFT_OUT)
    attested = await run(trace, "attest", attest, query, content, draft.order, *proofs)
    return with_fragment(attested) if draft.is_cut else attested


async def _within_cost(
    question: Question,
    desk: AskPorts,
    query: Query,
    plan: Plan,
    budget: Budget,
    context: Context,
    retrieved: Retrieved,
    keeper: Keeper,
    trace: Trace,
) -> Fitted:
    """The plan, the budget and the context within what an answer may cost; what was cut is in the trace."""
    names, settings = named(desk.models), desk.settings
    spent = await in_thread(desk.spent) if plan.use_llm and is_paid(names) else Spent()
    prices = Prices(names, spent, keeper.turns, settings, question.max_context_chars)

    def again(plan: Plan, budget: Budget) -> Context:
        return assemble(query, plan, retrieved, desk.library, budget, settings, question.max_context_chars)

    cost = trace.cost_usd(*BESIDE)
    fitted = await run(trace, "cost", fit_to_cost, plan, budget, context, prices, again, cost)
    for what, why in fitted.cuts.items():
        trace.skip(what, why)
    return fitted
