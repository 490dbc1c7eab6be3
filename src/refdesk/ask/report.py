"""Report mode: writes a long answer section by section, each from the passages of its part.

With a model each section is a request of its own; without one, or when it fails, the sentences that answer best are
quoted. A section of which the documents say nothing is left out. Headings carry no citation and claim nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from refdesk.answer import Context, Event, Plan, Query, Retrieved, Turn
from refdesk.ask.citations import render
from refdesk.ask.draft import EXTRACTIVE, Draft
from refdesk.ask.extract import SUMMED_UP, Quote, extract
from refdesk.ask.generate import gave_up, generate, notify, quote_instead, refuses, written_into
from refdesk.ask.markers import numbered_by_passage
from refdesk.ask.plan import Budget
from refdesk.errors import ProviderError
from refdesk.key_sentences import says_something, tells_something
from refdesk.ports import Models, Piece
from refdesk.settings import Settings
from refdesk.trace import Trace, in_thread
from refdesk.types import Hit

HEADING = "## "
SECTION_SENTENCES, PART_SENTENCES = 4, 2  # quoted for a section of a report, and for a part of an answer
PASSAGES = 6  # that a section is written from
LONGEST_HEADING = 80
WITHOUT = "{model} did not answer, so the sections are quoted from the documents."
Writer = Callable[..., AsyncGenerator[Event, None]]


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
    nearest = sorted(list(telling.items())[:most], key=lambda one: (documents.index(one[0][0]), _first(one[1])))
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
        async for event in _quoted(draft, parts, settings, is_report=is_report):
            yield event
        if not draft.content:
            async for event in quote_instead(draft, query, retrieved, settings, doubt):
                yield event

    return write


async def _quoted(
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
        llm = models.role("answer", lambda why: trace.skip("try", why), draft.failures.append)
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
            gave_up(draft, error, llm.name, trace, "quoting the documents instead")
        if shown := draft.finish():
            yield shown
        if missing:
            draft.notes.append(f"The documents do not say enough about: {'; '.join(missing)}.")
        if not draft.content:
            if void := draft.start_over(EXTRACTIVE, "quoting the documents instead"):
                yield void
            draft.notes.append(WITHOUT.format(model=llm.name))
            async for event in _quoted(draft, parts, settings, is_report=True):
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
