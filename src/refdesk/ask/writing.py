"""From search results to the answer: assemble → generate → attest → settle → keep.

The second half of `flow.py`, which an agent and a report go through as well: whoever has searched, and however, what is
written is checked the same way.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from refdesk.answer import (
    Answer,
    Context,
    Done,
    Event,
    Plan,
    Query,
    Question,
    Replace,
    Retrieved,
    Sources,
    Spent,
    Thinking,
    Verifying,
)
from refdesk.ask.assemble import assemble, joined_later, previews, with_neighbours, with_whole_tables
from refdesk.ask.attest import Attested, attest, attest_quotes
from refdesk.ask.draft import Draft, drafted
from refdesk.ask.extract import extract
from refdesk.ask.generate import NOT_PROVED, quote_instead, write
from refdesk.ask.judge import Doubt, Relevance, candidates, conclude
from refdesk.ask.keep import BESIDE, AskPorts, Keeper
from refdesk.ask.model_figures import Tables, cited_tables, cites_tables
from refdesk.ask.plan import Budget, Fitted, Prices, fit_to_cost, is_paid, named, with_house_rules
from refdesk.ask.resolution import said_of_short
from refdesk.ask.table_answer import TablesRead, likelier_answer
from refdesk.ask.verify import LEFT_OUT, check, checkable, correct, with_fragment
from refdesk.ask.wording import wanted
from refdesk.library import LibraryReader
from refdesk.trace import Trace, in_thread, run


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known before anything is read: the question understood and planned, what was found and how it is judged.

    `outline` is what an agent noted while it searched; `writer` is who writes the draft.
    """

    question: Question
    query: Query
    answer: Answer
    plan: Plan
    budget: Budget
    retrieved: Retrieved
    relevance: Relevance
    tables: TablesRead
    doubt: Doubt
    outline: Callable[[Context], Context] = lambda context: context
    writer: Callable[..., AsyncGenerator[Event, None]] = write


async def read_and_write(found: Findings, desk: AskPorts, keeper: Keeper, trace: Trace) -> AsyncGenerator[Event, None]:
    """From what was found to the answer: assemble, generate, attest, settle, keep."""
    question, query, plan, doubt = found.question, found.query, found.plan, found.doubt
    library, models, settings, retrieved = desk.library, desk.models, desk.settings, found.retrieved
    fitted = await assembled(question, desk, query, plan, found.budget, retrieved, keeper, trace)
    plan, budget, context = fitted.plan, fitted.budget, found.outline(fitted.context)
    vision: Any = import_module("refdesk.ask.vision") if question.images or question.mode == "vision" else None
    if vision is not None:
        context = await vision.with_pictures(question, context, plan, desk, keeper, trace)
    missing = joined_later(retrieved, context)
    retrieved = await run(trace, "neighbours", with_neighbours, retrieved, context, library, is_quick=not missing)
    yield Sources(previews(context))
    yield Thinking("generate", f"Reading {len(context.passages)} passage{'s' * (len(context.passages) != 1)}")
    draft = Draft(context)
    draft.notes += fitted.cuts.values()
    with trace.stage("generate", **context.sizes) as stage:
        turns = await keeper.memory(budget.history)
        asked = (query, plan, retrieved, turns, models, budget, settings, trace, doubt, question.max_context_chars)
        async with aclosing(found.writer(draft, *asked)) as written:
            async for event in written:
                yield event
        stage.gave(**draft.sizes)

    proofs = (context, retrieved.sentence_vectors, desk.embedder.embed_query)
    if plan.drafts > 1 and not draft.quotes:
        yield Thinking("vote", f"Comparing {plan.drafts} drafts")
        voted: Any = import_module("refdesk.ask.voting").voted
        async for event in voted(draft, *asked[:9], proofs, question.max_context_chars):
            yield event
    yield Thinking("attest", "Checking every sentence")
    plan, attested, cells, said = await _checked(query, plan, budget, draft, proofs, retrieved, desk, doubt, trace)
    attested = vision.seen(attested, draft.context, desk) if vision is not None else attested
    for event in said:
        yield event
    if plan.verify:
        yield Verifying("checking")
    with trace.stage("settle", mode=question.response_mode, **attested.sizes) as stage:
        checked = await check(query, plan, attested, context, models, trace)
        if checked.needs_correction(plan):
            yield Thinking("reconcile", "Resolving disputes")
        settled = await correct(query, plan, checked, *proofs, models, trace, cells)
        stage.gave(status=settled.verification.status)
    if vision is not None:
        settled = replace(settled, attested=vision.seen(settled.attested, draft.context, desk))
    if settled.attested.content != draft.content:
        yield Replace(settled.attested.content, settled.verification.status)
    yield Verifying(settled.verification.status, settled.verification.notes)
    answer = conclude(found.answer, plan, query, retrieved, found.relevance, context, draft, settled, settings)
    if not plan.use_llm:
        answer = await in_thread(likelier_answer, answer, found.answer, query, plan, retrieved, found.tables, library)
    if answer.figures:
        yield Replace(answer.content, answer.verification.status)
    trace.passages = candidates(retrieved, context, answer.citations)
    yield Done(await keeper.keep(answer, query))


async def _attested(
    query: Query, draft: Draft, proofs: tuple[Any, ...], library: LibraryReader, trace: Trace
) -> tuple[Attested, Tables]:
    """What is quoted needs no check; of what a model wrote, as much as can be checked in reasonable time."""
    if draft.quotes:
        quoted = (draft.content, draft.quotes, draft.order, *proofs)
        return await run(trace, "attest", attest_quotes, *quoted, is_quick=True), {}
    if len(content := await in_thread(checkable, draft.content)) < len(draft.content):
        draft.notes.append(LEFT_OUT)
    tables: Tables = {}  # in whose cells its numbers are looked for
    if cites_tables(draft.context, draft.order):
        with trace.optional("cells", passages=len(draft.order)) as stage:
            tables = await in_thread(cited_tables, draft.context, draft.order, library)
            stage.gave(tables=len({table.id for found in tables.values() for table in found}))
    attested = await run(trace, "attest", attest, query, content, draft.order, *proofs, tables)
    return with_fragment(attested) if draft.is_cut else attested, tables


async def _checked(
    query: Query,
    plan: Plan,
    budget: Budget,
    draft: Draft,
    proofs: tuple[Any, ...],
    retrieved: Retrieved,
    desk: AskPorts,
    doubt: str,
    trace: Trace,
) -> tuple[Plan, Attested, Tables, list[Event]]:
    """The draft with its proofs; of so small a model that it often makes things up, as much as stays of it."""
    attested, tables = await _attested(query, draft, proofs, desk.library, trace)
    if budget.tier != "tiny" or draft.quotes or not attested.claims:
        return plan, attested, tables, []
    small: Any = import_module("refdesk.ask.small_models")
    context, vectors, embed = proofs
    quotes = await in_thread(extract, query, context, retrieved, desk.settings)
    if text := small.kept(attested):
        both = drafted(small.with_quotes(text, quotes), context)
        asked = (query, both.content, both.order, context, vectors, embed, tables)
        return replace(plan, reconcile=True), await in_thread(attest, *asked), tables, []
    # What it says in words that nothing proves may still be what the reader's sentences say.
    if doubt and small.agree(query.standalone, draft.content, quotes):
        doubt = ""
    draft.notes.append(NOT_PROVED.format(model=draft.model))
    said = [event async for event in quote_instead(draft, query, retrieved, desk.settings, doubt)]
    attested, tables = await _attested(query, draft, proofs, desk.library, trace)
    return replace(plan, reconcile=True), attested, tables, said


async def assembled(
    question: Question,
    desk: AskPorts,
    query: Query,
    plan: Plan,
    budget: Budget,
    retrieved: Retrieved,
    keeper: Keeper,
    trace: Trace,
) -> Fitted:
    """The plan, the budget and the context within what an answer may cost; what was cut is in the trace."""
    names, settings = named(desk.models), desk.settings
    plan = with_house_rules(plan, (hit.document.collection for hit in retrieved.hits), settings)
    spent = await in_thread(desk.spent) if plan.use_llm and is_paid(names) else Spent()
    prices = Prices(names, spent, keeper.turns, settings, question.max_context_chars)

    def again(plan: Plan, budget: Budget) -> Context:
        asked = (query, plan, retrieved, desk.library, budget, settings, question.max_context_chars)
        return keeper.context(plan, budget, lambda: assemble(*asked))

    context = await run(trace, "assemble", again, plan, budget)
    cost = trace.usage(*BESIDE).cost_usd or 0.0
    fitted = await run(
        trace, "cost", fit_to_cost, plan, budget, context, prices, again, cost, is_quick=not plan.use_llm
    )
    for what, why in fitted.cuts.items():
        trace.skip(what, why)
    if retrieved.others:
        seen = await in_thread(said_of_short, fitted.context, retrieved, desk.library)
        fitted = replace(fitted, cuts={**fitted.cuts, "survey": seen})
    if wanted(query) == "several" and not plan.use_llm:
        fitted = replace(fitted, context=await in_thread(with_whole_tables, fitted.context, desk.library))
    return fitted
