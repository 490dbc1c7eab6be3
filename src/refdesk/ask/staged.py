"""Runs a question stage by stage, for callers who want to inspect or change what passes between stages.

    staged = desk.staged("How heavy is the anchor?")
    if not await staged.route():          # what needs no search is answered already
        await staged.retrieve()           # candidates
        await staged.rerank()             # those that will be read
        async for event in staged.generate(): …
        async for event in staged.verify(): …     # where the plan asks for it
        async for event in staged.reconcile(): …  # where the check disputes something

The stages are those of flow.py; asked in this order they give the answer that `desk.ask` gives.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from refdesk.answer import Answer, Context, Done, Event, Plan, Query, Question, Retrieved, Thinking, Verifying
from refdesk.ask.assemble import previews
from refdesk.ask.flow import answer_from, for_lists, unsearched, without_search
from refdesk.ask.judge import begin
from refdesk.ask.keep import AskPorts, Keeper
from refdesk.ask.plan import Budget, make_plan
from refdesk.ask.retrieve import Retrieval, choose, find
from refdesk.ask.understand import understand
from refdesk.ask.writing import assembled
from refdesk.trace import Trace, in_thread
from refdesk.types import Hit


class StagedQuestion:
    """One question; each stage needs what the one before has found."""

    def __init__(self, question: Question, desk: AskPorts) -> None:
        self.question = question
        self.trace = Trace()
        self.answer: Answer | None = None  # when it is whole
        self.route_name = ""
        self._desk = desk
        self._keeper: Keeper
        self._query: Query
        self._begun: Answer
        self._plan: Plan
        self._budget: Budget
        self._found: tuple[Retrieval, Query, list[Query], list[list[Hit]]]
        self._retrieved: Retrieved
        self._events: AsyncGenerator[Event, None] | None = None

    @property
    def id(self) -> str:
        """Of the answer and its trace."""
        return self.trace.id

    async def route(self, *, must_search: bool = False) -> tuple[Event, ...]:
        """The events of what is answered without a search: what is known already, small talk, the list of documents.

        `must_search`: questions to the list of documents are searched for too.
        """
        question, desk, trace = self.question, self._desk, self.trace
        self._keeper = keeper = await in_thread(Keeper, question, desk, trace)
        if known := await keeper.recall():
            return self._noticed(known)
        with trace.stage("understand", characters=len(question.text), turns=len(keeper.turns)) as stage:
            router = desk.models.role("router")
            asked = (question, keeper.turns, desk.library, desk.embedder, router, desk.settings, trace)
            self._query = query = await understand(*asked)
            stage.gave(**query.reading)
        self.route_name = query.route
        self._begun = begin(question, query, desk.settings, trace)
        if known := await keeper.recall_similar(query):
            return self._noticed(known)
        is_search = must_search and query.route == "needs_retrieval"
        unsearched_answer = None if is_search else await unsearched(question, query, self._begun, desk, trace)
        if unsearched_answer is not None:
            asked_for = without_search(question, query, unsearched_answer, desk, keeper, trace)
            return self._noticed([event async for event in asked_for])
        self._desk = for_lists(desk, query)
        self._plan, self._budget = make_plan(question, query, desk.models, self._desk.settings, trace)
        return ()

    async def retrieve(self) -> tuple[Hit, ...]:
        """The candidates, best first."""
        desk, keeper = self._desk, self._keeper
        ports = (desk.library, desk.embedder, desk.reranker, desk.settings, self.trace, desk.reader, desk.models)
        with self.trace.stage("retrieve", **self._plan.sizes) as stage:
            job = Retrieval(self._plan, self.question.scope, *ports, keeper.turns)
            sides, ranked = await find(self._query, job)
            self._found = (job, self._query, sides, ranked)
            hits = {hit.chunk.id: hit for candidates in ranked for hit in candidates}
            stage.gave(hits=len(hits))
        return tuple(hits.values())

    async def rerank(self) -> tuple[Hit, ...]:
        """Those that will be read: checked, without repeats, in the order that the reader gives them."""
        self._retrieved = await in_thread(choose, *self._found)
        return self._retrieved.hits

    def keep_only(self, chunk_ids: Sequence[int]) -> None:
        """Reads these of the hits, in this order, and no others."""
        hits = {hit.chunk.id: hit for hit in self._retrieved.hits}
        chosen = tuple(hits[chunk_id] for chunk_id in dict.fromkeys(chunk_ids) if chunk_id in hits)
        self._retrieved = replace(self._retrieved, hits=chosen)

    async def context(self) -> Context:
        """What a model would be given of the hits, with a citation for each passage."""
        asked = (self.question, self._desk, self._query, self._plan, self._budget, self._retrieved)
        fitted = await assembled(*asked, self._keeper, self.trace)
        return replace(fitted.context, citations=previews(fitted.context))

    async def generate(self) -> AsyncGenerator[Event, None]:
        """Reads and writes; ends with the answer, or where the check of it begins."""
        parts = (self.question, self._desk, self._keeper, self._query, self._begun)
        self._events = answer_from(*parts, self._plan, self._budget, self._retrieved, self.trace)
        async with aclosing(self._until(_is_checked)) as events:
            async for event in events:
                yield event

    async def verify(self) -> AsyncGenerator[Event, None]:
        """Ends with the answer, or where what is disputed is to be settled."""
        async with aclosing(self._until(_is_disputed)) as events:
            async for event in events:
                yield event

    async def reconcile(self) -> AsyncGenerator[Event, None]:
        async with aclosing(self._until(lambda event: False)) as events:
            async for event in events:
                yield event

    async def _until(self, ends: Callable[[Event], bool]) -> AsyncGenerator[Event, None]:
        if self._events is None:
            return
        async for event in self._events:
            self._noticed([event])
            yield event
            if ends(event):
                return

    def _noticed(self, events: Sequence[Event]) -> tuple[Event, ...]:
        for event in events:
            if isinstance(event, Done):
                self.answer = event.answer
        return tuple(events)


def _is_checked(event: Event) -> bool:
    return isinstance(event, Verifying) and event.status == "checking"


def _is_disputed(event: Event) -> bool:
    return isinstance(event, Thinking) and event.step == "reconcile"
