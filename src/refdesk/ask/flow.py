"""One question, from the text as typed to an answer in which every sentence is backed by a source.

    recall → understand → retrieve → judge → assemble → generate → attest → settle → keep

Values go forward: each stage takes what the one before gave. Every stage is in the trace under the name it has here. An
optional one that fails is written down there and left out; a needed one ends the stream with an error that names it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

from refdesk.answer import (
    CHANCE_DIGITS,
    Answer,
    Content,
    Done,
    Event,
    Failed,
    Plan,
    Query,
    Question,
    Retrieved,
    Sources,
    Thinking,
    encode_answer,
)
from refdesk.ask.catalogue import answer_from_catalogue
from refdesk.ask.classify import reply
from refdesk.ask.draft import Draft, quoted
from refdesk.ask.formula_text import (
    asks_for_formula,
    asks_of_several,
    asks_over_time,
    asks_to_compute,
    names_ratio,
    ratio_named,
)
from refdesk.ask.formulas import FigurePorts, computed_answer, of_each_owner, over_time
from refdesk.ask.generate import NOTHING, general, unproved, write
from refdesk.ask.judge import Relevance, begin, candidates, judge, refuse, say
from refdesk.ask.keep import BESIDE, AskPorts, Keeper, Recent, Streamed, keep_stopped, no_picture, no_place
from refdesk.ask.listing import summed_up
from refdesk.ask.model_figures import MOST_TABLES, model_plan
from refdesk.ask.named_figures import is_amount_of_time, says_ratio, with_named_figures
from refdesk.ask.no_answer import is_fit_figure, is_told_better, measures_otherwise
from refdesk.ask.plan import Budget, left_out, make_plan
from refdesk.ask.plan_choice import TablePlan, likeliest_tables
from refdesk.ask.retrieve import Retrieval, SentenceReranker, retrieve
from refdesk.ask.roles import in_role
from refdesk.ask.side_by_side import side_by_side
from refdesk.ask.table_answer import (
    TablesRead,
    asks_for_figure,
    asks_which,
    figure_answer,
    of_named_document,
    read_tables,
    series_answer,
    shown_figure,
    why_no_table,
    with_parts,
)
from refdesk.ask.table_question import with_named_rows
from refdesk.ask.understand import understand
from refdesk.ask.wording import LIKELY, PERCENT, UNLIKELY, wanted
from refdesk.ask.writing import Findings, doubt_of, read_and_write
from refdesk.errors import AskError, RefdeskError
from refdesk.library import LibraryReader
from refdesk.ports import Cache, Embedder, Models, NoReader, Reader, Reranker
from refdesk.records import Measured
from refdesk.settings import Settings
from refdesk.store_ports import AnswerStore, ConversationStore
from refdesk.text import query_terms
from refdesk.trace import Trace, in_thread, is_able, run
from refdesk.types import Box, Chunk, Document

Result = TypeVar("Result")
LIST_REACH = 3  # chunks on each side that are read for a list, under one heading

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
    library, models, settings = desk.library, desk.models, desk.settings
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
    if question.images and question.mode != "general":
        looked_up: Any = import_module("refdesk.ask.vision").looked_up
        query = await looked_up(question, query, desk, trace)
    if (begun := await unsearched(question, query, answer, desk, trace)) is not None:
        async with aclosing(without_search(question, query, begun, desk, keeper, trace)) as events:
            async for event in events:
                yield event
        return

    settings = (desk := for_lists(desk, query)).settings
    plan, budget = make_plan(question, query, models, settings, trace)
    keeper.notes += left_out(question, plan, budget, settings)
    if question.mode in ("agent", "report"):
        investigated: Any = import_module("refdesk.ask.agent").investigated
        async with aclosing(investigated(question, query, answer, plan, budget, desk, keeper, trace)) as events:
            async for event in events:
                yield event
        return
    count = len(await in_thread(library.documents, question.scope))
    yield Thinking("retrieve", f"Searching {count:,} document{'s' * (count != 1)}")
    ports = (library, desk.embedder, desk.reranker, settings, trace, desk.reader, models, keeper.turns)
    retrieved = await keeper.hits(query, plan, lambda: retrieve(query, Retrieval(plan, question.scope, *ports)))
    if (named := in_role(query.standalone, retrieved)) is not None:
        question, query = await in_thread(_of_role, question, query, *named, desk)
        retrieved = await keeper.hits(query, plan, lambda: retrieve(query, Retrieval(plan, question.scope, *ports)))
    async with aclosing(answer_from(question, desk, keeper, query, answer, plan, budget, retrieved, trace)) as events:
        async for event in events:
            yield event


async def answer_from(
    question: Question,
    desk: AskPorts,
    keeper: Keeper,
    query: Query,
    answer: Answer,
    plan: Plan,
    budget: Budget,
    retrieved: Retrieved,
    trace: Trace,
) -> AsyncGenerator[Event, None]:
    """From the hits to the answer: judged, read, written, checked and kept."""
    trace.passages = candidates(retrieved)
    relevance = await run(trace, "judge", judge, query, retrieved)
    retrieved = await _with_more(question, query, plan, retrieved, desk, trace)
    tables, retrieved = await _from_tables(query, plan, retrieved, relevance, desk, trace)
    tables = of_named_document(tables, query, retrieved)
    if tables.best is None or not is_amount_of_time(tables.best, query.fullest):
        tables = with_parts(tables, query, retrieved)
    doubt = doubt_of(question, relevance, retrieved, desk.settings, keeper)
    writer = write if plan.use_llm else quoted
    found = Findings(question, query, answer, plan, budget, retrieved, relevance, tables, doubt, writer)
    is_looked_at = _is_looked_at(question, plan, retrieved)
    told = None if is_looked_at else await _without_reading(found, desk, trace)
    if told is not None:
        if told.citations:
            yield Sources(told.citations)
        yield Content(told.content)
        yield Done(await keeper.keep(told, query))
        return

    async with aclosing(read_and_write(found, desk, keeper, trace)) as events:
        async for event in events:
            yield event


def _of_role(question: Question, query: Query, text: str, document: str, desk: AskPorts) -> tuple[Question, Query]:
    """The question as this document would put it, to be asked of no other."""
    vector, found = desk.embedder.embed_query(text), tuple(query_terms(text, desk.library.languages))
    scope = replace(question.scope, documents=(document,))
    return replace(question, scope=scope), replace(query, standalone=text, beside="", vector=vector, terms=found)


def _is_looked_at(question: Question, plan: Plan, retrieved: Retrieved) -> bool:
    """Whether a model looks at pictures: neither cells nor words alone can say what is in them."""
    return plan.use_llm and bool(retrieved.hits) and (bool(question.images) or question.mode == "vision")


def _chance(found: TablesRead) -> float:
    return round(found.best.chance, CHANCE_DIGITS) if found.best else 0.0


async def _from_tables(
    query: Query, plan: Plan, retrieved: Retrieved, relevance: Relevance, desk: AskPorts, trace: Trace
) -> tuple[TablesRead, Retrieved]:
    """The cells that answer, where a table does, and what was found on the way; not of another thing than is asked."""
    found, may_rename = TablesRead(), asks_for_figure(query) and not names_ratio(query.fullest)
    if (why := why_no_table(query, retrieved, relevance)) is not None:
        trace.skip("tables", why)
        return found, retrieved
    with trace.optional("tables", hits=len(retrieved.hits)) as stage:
        reader = desk.reader if plan.read else NoReader()
        found = await in_thread(read_tables, query, retrieved, desk.library, reader, may_rename)
        stage.gave(chance=_chance(found))
    if not found.is_sure and (planned := await _planned(query, plan, retrieved, found, desk, trace)):
        return TablesRead(planned, True, found.candidates), retrieved
    if plan.read and asks_for_figure(query):
        with trace.optional("line_items", chance=_chance(found)) as stage:
            asked = (query, retrieved, found, desk.library, desk.reader, may_rename)
            found, retrieved = await in_thread(with_named_figures, *asked)
            stage.gave(chance=_chance(found))
    ratio, in_percent = ratio_named(query.fullest), PERCENT.search(query.fullest) is not None
    is_amount = bool(ratio) and not asks_which(query.fullest)  # and no "in which year was the margin higher?"
    if found.best is not None and is_amount and not says_ratio(found.best, ratio, in_percent=in_percent):
        found = TablesRead(candidates=found.candidates)  # it is computed, or nothing is: equity is no return on equity
    if found.best is not None and is_told_better(found.best.chance, retrieved):
        found = TablesRead(candidates=found.candidates)
    if found.best is not None:
        shown = partial(shown_figure, found.best)  # with the unit of its column: "0.98 million EUR"
        if await in_thread(measures_otherwise, shown, query, desk.embedder):
            found = TablesRead(candidates=found.candidates)
    return found, retrieved


async def _with_more(
    question: Question, query: Query, plan: Plan, retrieved: Retrieved, desk: AskPorts, trace: Trace
) -> Retrieved:
    """With the key sentences of the document that is to be summed up, or with tables that have other words for what is
    asked; a model writes its own summary.
    """
    if query.intent == "summary":
        with trace.optional("summary", hits=len(retrieved.hits)) as stage:
            library, by_model = desk.library, plan.use_llm
            retrieved = await in_thread(summed_up, query, retrieved, library, question.scope, for_model=by_model)
            stage.gave(sentences=len(retrieved.key_sentences))
    elif plan.read and asks_for_figure(query) and why_no_table(query, retrieved) is None:
        with trace.optional("rows", hits=len(retrieved.considered)) as stage:
            asked = (query.fullest, query.vector, retrieved, question.scope, desk.library, desk.reader, desk.settings)
            retrieved = await in_thread(with_named_rows, *asked)
            stage.gave(hits=len(retrieved.considered))
    return retrieved


def for_lists(desk: AskPorts, query: Query) -> AskPorts:
    """A list may go on over several chunks, so that more of them are read; a model reads as many as ever."""
    if wanted(query) not in ("steps", "several") or desk.models.role("answer") is not None:
        return desk
    return replace(desk, settings=replace(desk.settings, neighbours=max(LIST_REACH, desk.settings.neighbours)))


async def _without_reading(found: Findings, desk: AskPorts, trace: Trace) -> Answer | None:
    """What tables alone answer, and that nothing does; None where passages are to be read."""
    if (computed := await _computed(found, desk, trace)) is not None:
        return computed
    if (compared := await _compared(found, desk, trace)) is not None:
        return compared
    query, retrieved, is_missing = found.query, found.retrieved, found.doubt == "missing"
    best, parts = found.tables.best, found.tables.parts
    is_read = found.tables.is_sure or (is_missing and found.tables.is_likely)
    if best and is_read:
        is_read = is_fit_figure(best.chance, query, retrieved)
    # "What were the sales" asks for one number, "which gauges" for several.
    asks_for_more = parts is not None or (query.number < LIKELY and wanted(query) == "several")
    asks_for_more &= best is None or not is_amount_of_time(best, query.fullest)
    if not is_read or (best and len(best.plan.texts) == 1 and asks_for_more):
        best = None
    if parts and (is_missing if best is None else best.chance < parts.chance):
        best = parts
    if best:
        return await in_thread(figure_answer, found.answer, found.plan, retrieved, best, desk.library)
    return refuse(found.answer, found.plan, query, retrieved, found.relevance) if is_missing else None


async def _computed(found: Findings, desk: AskPorts, trace: Trace) -> Answer | None:
    """What a formula gives that the question defines, or names where no table has the figure itself."""
    answer, query, plan, retrieved = found.answer, found.query, found.plan, found.retrieved
    if not plan.read or plan.use_llm or not asks_to_compute(query):
        return None
    if asks_over_time(query):
        with trace.optional("series", hits=len(retrieved.considered)) as stage:
            series, retrieved = await in_thread(over_time, query, retrieved, desk.library, desk.reader)
            stage.gave(figures=len(series))
            if series:
                return await in_thread(series_answer, answer, plan, retrieved, series, desk.library)
    told = None
    with trace.optional("formula", hits=len(retrieved.considered)) as stage:
        is_of_several = asks_of_several(query)
        if not is_of_several and not asks_for_formula(query):
            stage.gave(chance=0.0)
            return None
        owned: list[tuple[str, TablePlan]] = []
        within = retrieved
        if is_of_several:
            owned, within = await in_thread(of_each_owner, query, retrieved, desk.library, desk.reader)
        if owned:
            names, plans = [name for name, _ in owned], [own for _, own in owned]
            told = await in_thread(series_answer, answer, plan, within, plans, desk.library, names)
            stage.gave(chance=told.confidence.score)
            return told
        ports = FigurePorts(found.question.scope, desk.library, desk.embedder, desk.reader, desk.settings)
        is_known = found.tables.is_sure or found.tables.is_likely
        told = await in_thread(computed_answer, answer, plan, query, is_known, retrieved, ports)
        stage.gave(chance=told.confidence.score if told else 0.0)
    return told


async def _compared(found: Findings, desk: AskPorts, trace: Trace) -> Answer | None:
    """What is compared, side by side, where one table has all sides; a model writes its own comparison."""
    query, plan, candidates_read, told = found.query, found.plan, found.tables.candidates, None
    if len(query.parts) > 1 and not plan.use_llm:
        with trace.optional("compare", sides=len(query.parts), tables=len(candidates_read)) as stage:
            asked = (found.answer, query, plan, found.retrieved, candidates_read, desk.library)
            told = await in_thread(side_by_side, *asked)
            stage.gave(attributes=len(told.claims) if told else 0)
    return told


async def _planned(
    query: Query, plan: Plan, retrieved: Retrieved, found: TablesRead, desk: AskPorts, trace: Trace
) -> TablePlan | None:
    """The plan of a model, where the learned one is doubtful and one is named; None: the text is asked."""
    model = desk.models.role("router") if plan.use_llm else None
    if model is None or not is_able(model) or found.best is None or found.best.chance < UNLIKELY:
        return None
    planned = None
    with trace.optional("plan_model", model=model.name) as stage:
        ranked = await in_thread(likeliest_tables, query.fullest, found.candidates, retrieved.idf)
        left = desk.settings.cost_limit_usd - (trace.usage(*BESIDE).cost_usd or 0.0)
        planned = await model_plan(query.fullest, ranked[:MOST_TABLES], model, left, stage)
    return planned


async def unsearched(question: Question, query: Query, answer: Answer, desk: AskPorts, trace: Trace) -> Answer | None:
    """The answer to what no passage is read for, as far as it is known; None where the documents are searched."""
    if question.mode == "general" or query.route != "needs_retrieval":
        return answer
    if not query.catalogue:
        return None
    asked = (answer, query.catalogue, query.standalone, question.scope, desk.library)
    return await run(trace, "catalogue", answer_from_catalogue, *asked)


async def without_search(
    question: Question, query: Query, answer: Answer, desk: AskPorts, keeper: Keeper, trace: Trace
) -> AsyncGenerator[Event, None]:
    """What no passage is read for: the mode `general`, small talk, errands, and what the list of documents answers."""
    if question.mode == "general":
        draft = Draft(NOTHING)
        async with aclosing(
            general(draft, query, keeper.turns, desk.models, desk.notes, desk.settings, trace, question.images)
        ) as events:
            async for event in events:
                yield event
        answer = unproved(answer, draft)
    else:
        if query.route != "needs_retrieval":
            answer = say(answer, reply(query))
        if answer.citations:
            yield Sources(answer.citations)
        yield Content(answer.content)
    yield Done(await keeper.keep(answer, query))


# --- how does a question reach the flow? ------------------------------------------------------------------------------


class Asking:
    """What one process needs to answer questions; made with the library, loads nothing before the first question."""

    def __init__(
        self,
        reader: LibraryReader,
        embedder: Embedder,
        models: Callable[[Settings], Models],
        reranker: Callable[[Settings], Reranker | None],
        passage_reader: Reader,
        cache: Cache,
        conversations: ConversationStore,
        answers: AnswerStore,
        picture: Callable[[Document, Chunk, int], bytes | None] = no_picture,
        figure_place: Callable[[Chunk], Box | None] = no_place,
    ) -> None:
        self._picture, self._figure_place = picture, figure_place
        self._reader = reader
        self._embedder = embedder
        self._models = models
        self._reranker = reranker
        self.passage_reader = passage_reader
        self._sentences = SentenceReranker()
        self.recent_hits, self.recent_contexts = Recent(), Recent()
        self.cache = cache
        self.conversations = conversations
        self.answers = answers

    def ask(self, question: Question, settings: Settings) -> AsyncGenerator[Event, None]:
        return ask(question, self.ports(question, settings))

    def ports(self, question: Question, settings: Settings) -> AskPorts:
        def record(answer: Answer, trace: Trace) -> None:
            touched = (*answer.sources, *answer.related_documents)
            self.answers.put(
                answer.id,
                question=answer.question,
                answer=encode_answer(answer),
                trace=trace.to_dict(),
                conversation_id=question.conversation_id,
                owner=question.owner,
                collections=sorted({source.collection for source in touched}),
                measured=_measured(answer, trace),
            )

        def record_failure(error: RefdeskError, trace: Trace) -> None:
            # No collection: what was read until then is not known, so that only who asked and who sees all may see it.
            self.answers.put(
                trace.id,
                question=question.text,
                answer=b"",
                trace=trace.to_dict() | {"question": question.text, "error": error.to_dict()},
                conversation_id=question.conversation_id,
                owner=question.owner,
                error=error.code,
            )

        models = self._models(settings)
        return AskPorts(
            library=self._reader.limited(question.scope.access),
            embedder=self._embedder,
            reranker=self._reranker(settings) or self._sentences,
            models=models.for_question(),
            notes=models.problems,
            cache=self.cache,
            conversations=self.conversations,
            settings=settings,
            record=record,
            record_failure=record_failure,
            reader=self.passage_reader,
            spent=self.answers.spent,
            picture=self._picture,
            figure_place=self._figure_place,
            recent_hits=self.recent_hits,
            recent_contexts=self.recent_contexts,
        )

    def require_sight(self, settings: Settings) -> None:
        """`ModelNotAllowed` where the model of these settings does not take pictures."""
        import_module("refdesk.ask.vision").require_sight(self._models(settings), settings)


def _measured(answer: Answer, trace: Trace) -> Measured:
    """The times are the trace's: an answer from the cache still carries those it was made in."""
    times = trace.milliseconds()
    return Measured(
        total_ms=times.pop("total_ms"),
        stages={name.removesuffix("_ms"): took for name, took in times.items()},
        cached=answer.cached,
        cost_usd=answer.usage.cost_usd,
        route=answer.route,
        is_answered=answer.is_answered,
        confidence=answer.confidence.level,
        model=answer.model,
        level=answer.level,
        failed_models=[(failed_model.model, failed_model.code) for failed_model in answer.failed_models],
    )


async def collected(events: AsyncGenerator[Event, None]) -> Answer:
    """The answer at the end of the stream; what ended it early is raised."""
    async with aclosing(events) as stream:
        async for event in stream:
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Done):
                return event.answer
    raise AskError("the stream ended without an answer")


def run_sync(
    begin: Callable[[], Coroutine[Any, Any, Result]], close: Callable[[], Coroutine[Any, Any, None]]
) -> Result:
    """What is awaited, for those who do not await; within a running loop, in a thread of its own.

    `close` ends what the loop of this one question has kept open.
    """

    results: list[Result] = []

    async def work() -> None:
        # Not returned: Python 3.11 writes the result of what it runs into an error that nobody sees, which takes 7 ms.
        try:
            results.append(await begin())
        finally:
            await close()

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work())
    else:
        with ThreadPoolExecutor(1, "refdesk-ask") as pool:
            pool.submit(lambda: asyncio.run(work())).result()
    return results[0]
