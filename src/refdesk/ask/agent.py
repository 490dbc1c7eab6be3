"""Agent and report mode: answers a question with several searches, part by part, taking notes until enough is known.

    parts → step (search, note, does it suffice?) … at most 6 → read_and_write

A model of 9B or more takes the question apart, takes the notes and says what to look for next. Without one the parts
are the sides of a comparison or the clauses of the question, a note is the sentence that answers its part best, and a
part that nothing answers is searched for once more in another way. Steps, tokens and seconds are bounded (`agent.*`).
What is written of it, by whom ever, is attested like every answer.

A report is written section by section, each from the passages of its part: by a model in a request of its own; without
one, or when it fails, the sentences that answer best are quoted. A section of which the documents say nothing is left
out. Headings carry no citation and claim nothing.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

from refdesk.answer import Answer, Content, Context, Done, Event, Plan, Query, Question, Retrieved, Thinking, Turn
from refdesk.ask.assemble import assemble
from refdesk.ask.citations import escape, render
from refdesk.ask.classify import CLAUSE
from refdesk.ask.draft import EXTRACTIVE, QUOTING, Draft, WritingTask, gave_up, notify, quoted, written_into
from refdesk.ask.extract import SUMMED_UP, Quote, extract
from refdesk.ask.followup import stand_alone
from refdesk.ask.generate import generate, refuses, write
from refdesk.ask.judge import candidates, doubted, judge, refuse
from refdesk.ask.keep import AskPorts, Keeper
from refdesk.ask.markers import numbered_by_passage
from refdesk.ask.plan import Budget
from refdesk.ask.retrieve import Retrieval, interleave, retrieve
from refdesk.ask.sentences import Evidence
from refdesk.ask.strategies import STRATEGIES
from refdesk.ask.strategies.registry import DEEP
from refdesk.ask.table_answer import TablesRead
from refdesk.ask.understand import understand
from refdesk.ask.writing import Findings, doubt_of, read_and_write
from refdesk.errors import ProviderError
from refdesk.ports import LLM, Piece
from refdesk.prompts import (
    FENCE_CLOSES,
    LONGEST_TEXT,
    NOTE,
    NOTE_SCHEMA,
    NOTE_SYSTEM,
    NOTES_HEAD,
    OUTLINE_SYSTEM,
    PARTS_SCHEMA,
    PARTS_SYSTEM,
)
from refdesk.settings import Settings
from refdesk.summaries import says_something, tells_something
from refdesk.trace import Trace, in_thread, is_able, json_reply
from refdesk.types import Hit

NOTED = 5  # passages that a model reads for one note
READ = 24  # hits of all parts together that are read for the answer


@dataclass(frozen=True, slots=True)
class Note:
    """What one step found to its part; `text` without markers, `chunks` are the ids of those that say so."""

    part: SubQuestion
    text: str
    chunks: tuple[int, ...]
    is_answered: bool
    following: tuple[str, ...] = ()


@dataclass(slots=True)
class Search:
    """One question on its way through its parts; steps add to it."""

    question: Question
    query: Query
    plan: Plan
    desk: AskPorts
    trace: Trace
    model: LLM | None
    notes: list[Note] = field(default_factory=list)
    tokens: int = 0
    steps: int = 0

    def over(self) -> str:
        """Why no further step is taken; "" while one may be."""
        settings = self.desk.settings
        if self.steps >= settings.agent_steps:
            return f"after {self.steps} step{'s' * (self.steps != 1)} (agent.max_steps)"
        if self.tokens >= settings.agent_tokens:
            return f"after {self.tokens:,} tokens (agent.max_tokens)"
        if self.trace.elapsed_ms >= 1000 * settings.agent_seconds:
            return f"after {settings.agent_seconds:g} s (agent.max_seconds)"
        return ""


async def investigated(
    question: Question,
    query: Query,
    answer: Answer,
    plan: Plan,
    budget: Budget,
    desk: AskPorts,
    keeper: Keeper,
    trace: Trace,
) -> AsyncGenerator[Event, None]:
    """The events of a question in the mode `agent` or `report`."""
    router = desk.models.role("router") if plan.use_llm else None
    search = Search(question, query, plan, desk, trace, router if router is not None and is_able(router) else None)
    is_report = question.mode == "report"
    yield Thinking("plan", "Planning the report" if is_report else "Splitting up the question")
    waiting = await _parts(search)
    known, ended = {_same(part.question) for part in waiting}, ""
    while waiting and not (ended := search.over()):
        part = waiting.pop(0)
        yield Thinking("step", f"Step {search.steps + 1}: {part.question}")
        note = await _step(search, part)
        yield Thinking("note", _said(note))
        for text in note.following:
            if _same(text) not in known:
                known.add(_same(text))
                waiting.append(SubQuestion(headed(text), text))
        if not note.is_answered and search.model is None and part.attempt == 0 and not is_report:
            waiting.append(replace(part, attempt=1))  # in another way, when the other parts are through
    if waiting and ended:
        keeper.notes.append(f"The search stopped {ended}; not searched: {_quoted(waiting)}.")
    parts = _found_parts(search)
    retrieved = _joined(search, parts)
    trace.passages = candidates(retrieved)
    relevance = await in_thread(judge, query, retrieved)
    doubt = doubt_of(question, relevance, retrieved, desk.settings, keeper)
    missing = [part for part in parts if not part.is_answered]
    if missing and len(missing) < len(parts):
        keeper.notes.append(f"Nothing was found about {_quoted(missing)}.")
    if not any(part.is_answered for part in parts) and doubt == "missing":
        refused = refuse(replace(answer, strategy=question.mode), plan, query, retrieved, relevance)
        yield Content(refused.content)
        yield Done(await keeper.keep(refused, query))
        return
    doubt = "" if any(part.is_answered for part in parts) else doubt
    answered = [part for part in parts if part.is_answered] or parts
    plan = replace(plan, strategy=question.mode, k=len(retrieved.hits), drafts=1 if is_report else plan.drafts)
    by_parts = written_parts(answered) if plan.use_llm else quoted_parts(answered, is_report=is_report)
    is_whole = plan.use_llm and not is_report
    found = Findings(
        *(question, query, answer, plan, budget, retrieved, relevance, TablesRead(), doubt),
        writer=write if is_whole else by_parts,
        outline=lambda context: _with_notes(context, search, budget) if is_whole else context,
    )
    async with aclosing(read_and_write(found, desk, keeper, trace)) as events:
        async for event in events:
            yield event


# --- which parts has the question? ------------------------------------------------------------------------------------


async def _parts(search: Search) -> list[SubQuestion]:
    settings, is_report = search.desk.settings, search.question.mode == "report"
    found: list[SubQuestion] = []
    if search.model is not None:
        with search.trace.optional("parts_model", model=search.model.name) as stage:
            system = (OUTLINE_SYSTEM if is_report else PARTS_SYSTEM).format(most=settings.agent_steps)
            reply = await json_reply(search.model, system, search.query.standalone, PARTS_SCHEMA, stage)
            search.tokens += stage.usage.prompt_tokens + stage.usage.completion_tokens
            found = _planned(reply)
            stage.gave(parts=len(found))
    if not found:
        found = [SubQuestion(headed(text), text) for text in ruled_parts(search.query)]
    if is_report and len(found) == 1:
        with search.trace.optional("outline") as stage:
            retrieved = await _searched(search, search.query, "two_stage")
            found = sections(search.query, retrieved, settings.agent_steps) or found
            stage.gave(sections=len(found))
    return found


def _planned(reply: Mapping[str, Any]) -> list[SubQuestion]:
    """The parts that a model names, as far as they make sense."""
    found: dict[str, SubQuestion] = {}
    for part in reply.get("parts") or ():
        question = " ".join(str(part.get("question", "")).split()) if isinstance(part, dict) else ""
        if question and len(question) <= LONGEST_TEXT:
            heading = " ".join(str(part.get("heading", "")).split())[:LONGEST_HEADING].strip("#*: ")
            found.setdefault(_same(question), SubQuestion(heading or headed(question), question))
    return list(found.values())


def ruled_parts(query: Query) -> list[str]:
    """The sides of a comparison, or the clauses of a question, each standing alone.

    "What is the WB-7, and how long does its battery last?" -> both, the second with the name
    """
    if len(query.parts) > 1:
        return list(query.parts)
    text = query.fullest
    pieces: list[str] = []
    for sentence in re.split(r"(?<=\?)\s+", text):
        start = 0
        for clause in CLAUSE.finditer(sentence):
            pieces.append(sentence[start : clause.start()])
            start = clause.start() + len(clause.group().split()[0]) + 1
        pieces.append(sentence[start:])
    asked_before: list[Turn] = []
    found: list[str] = []
    for piece in (piece.strip(" ,;") for piece in pieces):
        if len(piece.split()) < 2:
            continue
        alone = stand_alone(piece, asked_before).fullest
        alone = alone[0].upper() + alone[1:]
        found.append(alone if alone.endswith(("?", ".", "!", ")")) else f"{alone}?")
        asked_before.append(Turn("user", alone))
    return list(dict.fromkeys(found)) if len(found) > 1 else [text]


# --- one step ---------------------------------------------------------------------------------------------------------


async def _step(search: Search, part: SubQuestion) -> Note:
    """Searches for one part and notes what was found."""
    search.steps += 1
    with search.trace.stage("step", part=part.question, attempt=part.attempt) as stage:
        if part.retrieved is None:
            asked = replace(search.question, text=part.question, verbatim=True, history=(), images=())
            given = (search.desk.library, search.desk.embedder, None, search.desk.settings, search.trace)
            query = await understand(asked, (), *given)
            query = replace(query, route="needs_retrieval", catalogue="")
            strategy = fitting(query, part.attempt)
            part = replace(part, query=query, strategy=strategy, retrieved=await _searched(search, query, strategy))
        note = await _noted(search, part)
        stage.gave(strategy=part.strategy, hits=len(note.part.hits), answered=note.is_answered)
    search.notes.append(note)
    return note


def fitting(query: Query, attempt: int = 0) -> str:
    """The strategy that fits a part; at a second attempt one that looks further."""
    wished = {
        "summary": ("hierarchical", "two_stage"),
        "comparison": ("two_stage",),
        "list": ("two_stage",),
        "analytical": ("multi_hop", "two_stage"),
    }.get(query.intent, ("multi_hop",) if query.complexity == "complex" else ("hybrid",))
    further = ("fusion", "graph", "two_stage") if attempt else ()
    return next((name for name in (*further, *wished) if name in STRATEGIES), "hybrid")


async def _searched(search: Search, query: Query, strategy: str) -> Retrieved:
    desk, plan = search.desk, search.plan
    depth = max(plan.candidates, DEEP if strategy != "hybrid" else 0)
    chosen = replace(plan, strategy=strategy, candidates=depth, use_mmr=query.hints.use_mmr)
    ports = (desk.library, desk.embedder, desk.reranker, desk.settings, search.trace, desk.reader, desk.models)
    return await retrieve(query, Retrieval(chosen, search.question.scope, *ports))


async def _noted(search: Search, part: SubQuestion) -> Note:
    assert part.retrieved is not None and part.query is not None
    desk = search.desk
    relevance = await in_thread(judge, part.query, part.retrieved)
    is_answered = part.is_section or doubted(relevance, part.retrieved, desk.settings) == ""
    quoting = replace(search.plan, use_llm=False)
    budget = Budget.for_model(None, desk.settings)
    context = await in_thread(assemble, part.query, quoting, part.retrieved, desk.library, budget, desk.settings)
    quotes = await in_thread(extract, part.query, context, part.retrieved, desk.settings, 1)
    note = Note(
        replace(part, is_answered=is_answered and bool(quotes)),
        " ".join(quote.text for quote in quotes)[:LONGEST_TEXT],
        tuple(quote.evidence.chunk.id for quote in quotes),
        is_answered and bool(quotes),
    )
    if search.model is None or part.is_section or not context.passages:
        return note
    with search.trace.optional("note_model", model=search.model.name) as stage:
        note = await _read_note(search, note, context, stage)
        search.tokens += stage.usage.prompt_tokens + stage.usage.completion_tokens
    return note


async def _read_note(search: Search, note: Note, context: Context, stage: Any) -> Note:
    """The note of a model, where it is one: it names passages that it was given."""
    assert search.model is not None and note.part.query is not None
    shown = context.passages[:NOTED]
    known = "\n".join(f"- {before.part.question}: {escape(before.text)}" for before in search.notes) or "- nothing"
    message = NOTE.format(
        passages=render(shown, note.part.question, "numbered", for_model=False),
        whole=search.query.standalone,
        known=known,
    )
    reply = await json_reply(search.model, NOTE_SYSTEM, message, NOTE_SCHEMA, stage)
    text = " ".join(str(reply.get("note", "")).split())[:LONGEST_TEXT]
    numbers = [number for number in reply.get("passages") or () if isinstance(number, int) and 0 < number <= len(shown)]
    if not text or not isinstance(reply.get("answered"), bool):
        stage.gave(fell_back="the model gave no note")
        return note
    following = [" ".join(str(part).split()) for part in reply.get("next") or () if isinstance(part, str)]
    chunks = tuple(chunk.id for number in numbers for chunk in shown[number - 1].chunks)
    is_answered = bool(reply["answered"] and numbers)
    return Note(
        replace(note.part, is_answered=is_answered or note.is_answered),
        text,
        chunks or note.chunks,
        is_answered,
        tuple(part for part in following if part and len(part) <= LONGEST_TEXT),
    )


# --- what was found, together -----------------------------------------------------------------------------------------


def _found_parts(search: Search) -> list[SubQuestion]:
    """Each part once, after its last search; the hits that its note names come first."""
    found: dict[str, SubQuestion] = {}
    for note in search.notes:
        named = set(note.chunks)
        hits = sorted(note.part.hits, key=lambda hit: hit.chunk.id not in named)
        before = found.get(_same(note.part.question))
        if before is None or not before.is_answered:
            found[_same(note.part.question)] = replace(note.part, hits_read=tuple(hits))
    return list(found.values())


def _joined(search: Search, parts: Sequence[SubQuestion]) -> Retrieved:
    """What all parts found, as one search: dealt in turn, so that each part is read."""
    every = [part.retrieved for part in parts if part.retrieved is not None]
    if not every:
        return Retrieved((), (), Evidence(), {})
    hits: list[Hit] = interleave([part.hits_read for part in parts])[:READ]
    considered = {hit.chunk.id: hit for found in reversed(every) for hit in (*reversed(found.considered), *found.hits)}
    return replace(
        every[0],
        hits=tuple(hits),
        considered=tuple(considered.values()),
        sentence_vectors=Evidence({key: rows for found in every for key, rows in found.sentence_vectors.items()}),
        idf={term: weight for found in every for term, weight in found.idf.items()},
        preferred_documents=tuple(dict.fromkeys(name for found in every for name in found.preferred_documents)),
        neighbours={key: chunks for found in every for key, chunks in found.neighbours.items()},
        readings={key: reading for found in reversed(every) for key, reading in found.readings.items()},
        key_sentences=(),
    )


def _with_notes(context: Context, search: Search, budget: Budget) -> Context:
    """The notes before the end of the fence, each with the numbers of its passages; none where nothing was found.

    Each part appears once. A tiny model takes "nothing was found" for the answer: it is only given what was found.
    """
    found: dict[str, Note] = {}
    for note in search.notes:
        before = found.get(_same(note.part.question))
        if before is None or not before.is_answered:
            found[_same(note.part.question)] = note
    if not any(note.is_answered for note in found.values()):
        return context  # the passages are the nearest there are, and may still answer
    lines = []
    for note in found.values():
        if not note.is_answered:
            lines += [f"- {escape(note.part.question)}: nothing was found"] if budget.tier != "tiny" else []
            continue
        numbers = [
            passage.number for passage in context.passages if {chunk.id for chunk in passage.chunks} & set(note.chunks)
        ]
        cited = "".join(f"[{number}]" for number in numbers)
        lines.append(f"- {escape(note.part.question)}: {escape(note.text)} {cited}".rstrip())
    before_fence, fence, after = context.text.rpartition(FENCE_CLOSES)
    if not fence:
        return context
    text = "\n".join([NOTES_HEAD, *lines])
    return replace(context, text=f"{before_fence}{text}\n\n{fence}{after}")


def _said(note: Note) -> str:
    if not note.is_answered:
        return f"Nothing found: {note.part.question}"
    documents = dict.fromkeys(hit.document.name for hit in note.part.hits if hit.chunk.id in note.chunks)
    return f"{note.text} ({', '.join(documents)})" if documents else note.text


def _quoted(parts: Sequence[SubQuestion]) -> str:
    return ", ".join(f"“{part.question}”" for part in parts)


def _same(text: str) -> str:
    return " ".join(text.lower().strip(" ?.!").split())


# --- the answer part by part, and the report section by section -------------------------------------------------------

HEADING = "## "
SECTION_SENTENCES, PART_SENTENCES = 4, 2  # quoted for a section of a report, and for a part of an answer
PASSAGES = 6  # that a section is written from
LONGEST_HEADING = 80
WITHOUT = "{model} did not answer, so the sections are quoted from the documents."
Writer = Callable[[Draft, WritingTask], AsyncGenerator[Event, None]]


@dataclass(frozen=True, slots=True, eq=False)
class SubQuestion:
    """A part of a question, or a section of a report: what it asks, and what was found to it."""

    heading: str
    question: str
    query: Query | None = None
    retrieved: Retrieved | None = None
    strategy: str = ""
    attempt: int = 0
    is_answered: bool = False
    is_section: bool = False  # of the documents: its passages are known, and nothing is searched
    hits_read: tuple[Hit, ...] = ()

    @property
    def hits(self) -> tuple[Hit, ...]:
        return self.retrieved.hits if self.retrieved is not None else ()


def headed(question: str) -> str:
    """A question as a heading: on one line, without its mark."""
    line = " ".join(question.split()).rstrip(" ?.!")
    return line if len(line) <= LONGEST_HEADING else line[: LONGEST_HEADING - 1].rsplit(" ", 1)[0] + "…"


def sections(query: Query, retrieved: Retrieved, most: int) -> list[SubQuestion]:
    """The sections of the documents that bear on a topic, the nearest first: the headings that the hits stand under."""
    grouped: dict[tuple[str, str], list[Hit]] = {}
    for hit in retrieved.hits:
        title = hit.document.title or hit.document.name
        heading = hit.heading_path[-1] if hit.heading_path else title
        grouped.setdefault((hit.document.id, heading), []).append(hit)
    telling = {key: hits for key, hits in grouped.items() if tells_something([hit.chunk for hit in hits])}
    found = []
    names = [heading for _, heading in telling]
    # The documents by their best hit, the sections of each in its own order.
    documents = list(dict.fromkeys(document for document, _ in telling))
    nearest = sorted(list(telling.items())[:most], key=lambda group: (documents.index(group[0][0]), _first(group[1])))
    for (_, heading), hits in nearest:
        title = hits[0].document.title or hits[0].document.name
        label = f"{title}: {heading}" if names.count(heading) > 1 and heading != title else heading
        own = replace(retrieved, hits=tuple(hits))
        section = SubQuestion(label, f"{query.standalone} ({label})", query, own, "two_stage", is_section=True)
        found.append(section)
    return found


def _first(hits: Sequence[Hit]) -> int:
    return min(hit.chunk.sequence for hit in hits)


# --- writing ----------------------------------------------------------------------------------------------------------


def quoted_parts(parts: Sequence[SubQuestion], *, is_report: bool) -> Writer:
    """Writes the sentences that answer each part best; in a report below the heading of each."""

    async def write(draft: Draft, task: WritingTask) -> AsyncGenerator[Event, None]:
        async for event in _quoted_by_part(draft, parts, task.settings, is_report=is_report):
            yield event
        if not draft.content:
            async for event in quoted(draft, task):
                yield event

    return write


async def _quoted_by_part(
    draft: Draft, parts: Sequence[SubQuestion], settings: Settings, *, is_report: bool
) -> AsyncGenerator[Event, None]:
    draft.model = EXTRACTIVE
    quoted_texts: set[str] = set()
    most = SECTION_SENTENCES if is_report else PART_SENTENCES if len(parts) > 1 else None
    for part in parts:
        context = of_part(draft.context, part)
        assert part.query is not None and part.retrieved is not None
        quotes: list[Quote] = await in_thread(extract, part.query, context, part.retrieved, settings, most)
        quotes = [quote for quote in quotes if quote.text not in quoted_texts]
        if is_report:
            quotes = [replace(quote, most=min(quote.most, SUMMED_UP)) for quote in quotes if _tells(quote)]
        quoted_texts.update(quote.text for quote in quotes)
        for place, quote in enumerate(quotes):
            heading = f"\n\n{HEADING}{part.heading}\n\n" if is_report else "\n\n"
            before = heading + (quote.before.lstrip() if "- " in quote.before else "") if place == 0 else quote.before
            if shown := draft.quote(replace(quote, before=before)):
                yield shown


def _tells(quote: Quote) -> bool:
    """Whether a sentence says something itself: of a section, titles, names and addresses are left out."""
    evidence = quote.evidence
    return evidence.chunk.kind == "table" or says_something(evidence.chunk, evidence.sentence)


def written_parts(parts: Sequence[SubQuestion]) -> Writer:
    """Has a model write section after section; each is shown when it is whole, and one that says nothing is not."""

    async def write(draft: Draft, task: WritingTask) -> AsyncGenerator[Event, None]:
        llm, plan, budget, settings, trace = task.model(draft), task.plan, task.budget, task.settings, task.trace
        assert llm is not None, "a plan without a model quotes"
        draft.model = llm.name
        plain = replace(settings, suggest_questions=False, answer_format="plain")
        missing: list[str] = []
        try:
            for part in parts:
                assert part.query is not None
                own = replace(
                    plan, template="analytical" if part.query.intent == "factual" else part.query.hints.template
                )
                context = of_part(draft.context, part, settings, is_tiny=budget.tier == "tiny")
                text = await _section(draft, generate(part.query, own, context, (), llm, plain, trace, budget=budget))
                if not text or refuses(text):
                    missing.append(part.heading)
                    continue
                if shown := draft.take(Piece(f"{HEADING}{part.heading}\n\n{text}\n\n", model=draft.model)):
                    yield shown
        except ProviderError as error:
            gave_up(draft, error, llm.name, trace, QUOTING)
        if shown := draft.finish():
            yield shown
        if missing:
            draft.notes.append(f"The documents do not say enough about: {'; '.join(missing)}.")
        if not draft.content:
            if void := draft.start_over(EXTRACTIVE, QUOTING):
                yield void
            draft.notes.append(WITHOUT.format(model=llm.name))
            async for event in _quoted_by_part(draft, parts, settings, is_report=True):
                yield event
        notify(draft, trace)

    return write


async def _section(draft: Draft, pieces: AsyncGenerator[Piece, None]) -> str:
    """The text of one section, its markers being numbers of passages; its cost is the draft's."""
    own = Draft(draft.context)
    async for _ in written_into(own, pieces):
        pass
    draft.usage += own.usage
    draft.model = own.model or draft.model
    return numbered_by_passage(own.content, own.order)


def of_part(context: Context, part: SubQuestion, settings: Settings | None = None, *, is_tiny: bool = False) -> Context:
    """The passages of one part, under the numbers that they have in the whole; a tiny model gets less of them."""
    own = {hit.chunk.id for hit in part.hits_read or part.hits}
    passages = tuple(passage for passage in context.passages if own & {chunk.id for chunk in passage.chunks})[:PASSAGES]
    if settings is None:
        return replace(context, passages=passages)
    if is_tiny and part.query is not None and part.retrieved is not None:
        focused: Any = import_module("refdesk.ask.small_models").focused
        passages = tuple(focused(passages, part.query, part.retrieved))
    text = render(passages, part.question, settings.context_format, for_model=True)
    return replace(context, passages=passages, text=text)
