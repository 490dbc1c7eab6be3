"""The stages of a question as a LangGraph graph (`pip install refdesk[langgraph]`).

    graph = build_graph(desk)
    (await graph.ainvoke({"question": "What was Q3 revenue?"}))["answer"]
    async for event in graph.astream({"question": "…"}, stream_mode="custom"): …   # {"type": "content", "data": …}
    print(graph.get_graph().draw_mermaid())

    route ─┬─ retrieve ─ rerank ─ generate ─┬─ verify ─┬─ reconcile ─ end
           └─ end                           └─ end     └─ end

Its nodes and edges are those of seed 004, its stages those of `desk.ask` (ask/staged.py), so that both give the same
answers. The state holds plain values, which any checkpointer can write. A run may be interrupted before a node, its
`chunks` be thinned out or put in another order, and then go on, in another process too: what was found is found again
there, and an answer that was written and not checked yet is written anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from refdesk.answer import Answer, Content, Event, Replace, Sources, Thinking, Verifying
from refdesk.ask.staged import StagedQuestion
from refdesk.caller_desk import CallerDesk
from refdesk.errors import ExtraMissing
from refdesk.types import Hit

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

MOST_RUNS = 256  # questions under way in a process; one that is forgotten is begun again where it stands


class State(TypedDict, total=False):
    """The channels of the graph; a caller gives a question, perhaps with `response_mode` and options of `desk.ask`."""

    question: str
    response_mode: str
    options: dict[str, Any]
    run: str  # the id of the answer
    route: str
    chunks: list[dict[str, Any]]  # what was found; after `rerank`, what will be read
    answer: str
    citations: list[dict[str, Any]]
    verification: str
    result: dict[str, Any] | None  # the whole answer, as `Answer.to_dict()`


class Runs:
    """The questions under way in this process, by their ids."""

    def __init__(self, desk: CallerDesk, options: dict[str, Any]) -> None:
        self._desk, self._options = desk, options
        self._runs: OrderedDict[str, tuple[StagedQuestion, str]] = OrderedDict()

    def begin(self, state: State) -> StagedQuestion:
        mode = {"response_mode": state["response_mode"]} if state.get("response_mode") else {}
        staged = self._desk.staged(state["question"], **(self._options | mode | state.get("options", {})))
        self.note(staged.id, staged, "")
        return staged

    def note(self, run: str, staged: StagedQuestion, done: str) -> None:
        """`done` is the last node that has run."""
        self._runs[run] = (staged, done)
        self._runs.move_to_end(run)
        while len(self._runs) > MOST_RUNS:
            self._runs.popitem(last=False)

    async def at(self, state: State, node: str) -> StagedQuestion:
        """The question with every stage before `node` behind it, those run again that another process has run."""
        run = state.get("run", "")
        staged, done = self._runs.get(run, (None, ""))
        if staged is None:
            staged = self.begin(state)
            await staged.route()
            done = "route"
        if NODES.index(done) < NODES.index("retrieve") < NODES.index(node):
            await staged.retrieve()
            done = "retrieve"
        if NODES.index(done) < NODES.index("rerank") < NODES.index(node):
            await staged.rerank()
            done = "rerank"
        if NODES.index(done) < NODES.index("generate") < NODES.index(node):
            staged.keep_only(_ids(state))
            async for _ in staged.generate():
                pass
            done = "generate"
        self.note(run, staged, done)
        return staged


NOTHING: State = {"answer": "", "citations": [], "verification": "off", "result": None}
NODES = ("", "route", "retrieve", "rerank", "generate", "verify", "reconcile")


class Nodes:
    """What each node does; `tell` hears the events."""

    def __init__(self, runs: Runs, tell: Callable[[Event], None]) -> None:
        self._runs, self._tell = runs, tell

    async def route(self, state: State) -> State:
        self._tell(Thinking("route", "Reading the question"))
        staged = self._runs.begin(state)
        for event in await staged.route():
            self._tell(event)
        self._runs.note(staged.id, staged, "route")
        begun: State = {"run": staged.id, "route": staged.route_name, "chunks": [], **NOTHING}
        return {**begun, **_final(staged.answer)}

    async def retrieve(self, state: State) -> State:
        self._tell(Thinking("retrieve", "Searching"))
        staged = await self._runs.at(state, "retrieve")
        hits = await staged.retrieve()
        self._runs.note(state["run"], staged, "retrieve")
        return {"chunks": _chunks(hits)}

    async def rerank(self, state: State) -> State:
        self._tell(Thinking("rerank", "Choosing what to read"))
        staged = await self._runs.at(state, "rerank")
        hits = await staged.rerank()
        self._runs.note(state["run"], staged, "rerank")
        return {"chunks": _chunks(hits)}

    async def generate(self, state: State) -> State:
        staged = await self._runs.at(state, "generate")
        staged.keep_only(_ids(state))
        return await self._said(staged, staged.generate(), state, "generate")

    async def verify(self, state: State) -> State:
        staged = await self._runs.at(state, "verify")
        return await self._said(staged, staged.verify(), state, "verify")

    async def reconcile(self, state: State) -> State:
        staged = await self._runs.at(state, "reconcile")
        return await self._said(staged, staged.reconcile(), state, "reconcile")

    async def _said(
        self, staged: StagedQuestion, events: AsyncGenerator[Event, None], state: State, node: str
    ) -> State:
        changed: State = {"answer": state.get("answer", ""), "verification": state.get("verification", "off")}
        async for event in events:
            self._tell(event)
            if isinstance(event, Content):
                changed["answer"] += event.token
            elif isinstance(event, Replace):
                changed["answer"] = event.content
            elif isinstance(event, Sources):
                changed["citations"] = [citation.to_dict() for citation in event.citations]
            elif isinstance(event, Verifying):
                changed["verification"] = event.status
            elif isinstance(event, Thinking) and event.step == "reconcile":
                changed["verification"] = "disputed"
        self._runs.note(state["run"], staged, node)
        return {**changed, **_final(staged.answer)}


def build_graph(
    desk: CallerDesk,
    *,
    checkpointer: Any = None,
    interrupt_before: Iterable[str] = (),
    **options: Any,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """The compiled graph over a library; `options` are those of `desk.ask` and hold for every question.

    >>> graph = build_graph(desk, collection="finance", level="enhanced")
    """
    try:
        from langgraph.config import get_stream_writer
        from langgraph.graph import END, START, StateGraph
    except ImportError as error:
        raise ExtraMissing("LangGraph is not installed", hint="pip install 'refdesk[langgraph]'") from error
    nodes = Nodes(Runs(desk, options), lambda event: get_stream_writer()(event.to_dict()))
    graph = StateGraph(State)
    for name in NODES[1:]:
        graph.add_node(name, getattr(nodes, name))
    graph.add_edge(START, "route")
    graph.add_conditional_edges("route", route_decision, {"retrieve": "retrieve", "end": END})
    graph.add_edge("retrieve", "rerank")
    graph.add_edge("rerank", "generate")
    graph.add_conditional_edges("generate", verification_decision, {"verify": "verify", "end": END})
    graph.add_conditional_edges("verify", reconciliation_decision, {"reconcile": "reconcile", "end": END})
    graph.add_edge("reconcile", END)
    return graph.compile(checkpointer=checkpointer, interrupt_before=list(interrupt_before))


def route_decision(state: State) -> Literal["retrieve", "end"]:
    return "end" if state.get("result") else "retrieve"


def verification_decision(state: State) -> Literal["verify", "end"]:
    return "end" if state.get("result") else "verify"


def reconciliation_decision(state: State) -> Literal["reconcile", "end"]:
    return "end" if state.get("result") else "reconcile"


def _final(answer: Answer | None) -> State:
    """What the state holds once there is an answer."""
    if answer is None:
        return {}
    whole = answer.to_dict()
    return {
        "answer": answer.content,
        "citations": whole["citations"],
        "verification": answer.verification.status,
        "result": whole,
    }


def _chunks(hits: Iterable[Hit]) -> list[dict[str, Any]]:
    return [hit.to_dict() for hit in hits]


def _ids(state: State) -> list[int]:
    return [int(chunk["chunk_id"]) for chunk in state.get("chunks", [])]
