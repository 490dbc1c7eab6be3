"""What comes back? The answer put together from what the stages gave; also when there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

from refdesk.answer import (
    Answer,
    Citation,
    Confidence,
    Context,
    Passage,
    Plan,
    Query,
    Question,
    Retrieved,
    Source,
    Sufficiency,
)
from refdesk.ask.draft import Draft, not_planted
from refdesk.ask.generate import failed_models
from refdesk.ask.judge import Relevance, confidence, nearest_topics, sufficiency
from refdesk.ask.verify import Settled
from refdesk.prompts import NOT_IN_DOCUMENTS
from refdesk.settings import Settings
from refdesk.trace import Trace
from refdesk.types import Document, Hit

# What goes into the answer beside its text: sources, related documents, questions to go on with.

RELATED = 5  # documents that were found and not cited
QUOTE = 200  # characters of a passage shown before the answer is written


def previews(context: Context) -> tuple[Citation, ...]:
    """What the answer will be written from, before any sentence of it is chosen."""
    return tuple(_preview(passage) for passage in context.passages)


def _preview(passage: Passage) -> Citation:
    hit = passage.hit
    return Citation(
        marker=passage.number,
        document_id=hit.document.id,
        document_name=hit.document.name,
        chunk_id=hit.chunk.id,
        chunk_sequence=hit.chunk.sequence,
        heading_path=hit.chunk.heading_path,
        page=hit.page,
        boxes=hit.boxes,
        located=bool(hit.boxes),
        quote=hit.chunk.text[:QUOTE],
        relevance_score=hit.score,
        similarity_score=hit.cosine,
        origin=(hit.chunk.spans[0].origin, hit.chunk.spans[0].origin + len(hit.chunk.text))
        if hit.chunk.spans
        else (0, 0),
    )


def sources(citations: Sequence[Citation], documents: dict[str, Document]) -> tuple[Source, ...]:
    """The cited documents once each, in the order they are first cited; `documents` by their ids."""
    found: dict[str, list[Citation]] = {}
    for citation in citations:
        found.setdefault(citation.document_id, []).append(citation)
    return tuple(
        Source(
            document_id,
            own[0].document_name,
            documents[document_id].title,
            tuple(sorted({box.page for one in own for box in one.boxes} | {one.page for one in own})),
            tuple(dict.fromkeys(one.marker for one in own)),
            documents[document_id].collection,
        )
        for document_id, own in found.items()
    )


def related(retrieved: Retrieved, citations: Sequence[Citation]) -> tuple[Source, ...]:
    """Documents that were found and not cited, best first."""
    cited = {one.document_id for one in citations}
    found: dict[str, list[Hit]] = {}
    for hit in (*retrieved.hits, *retrieved.considered):
        if hit.document.id not in cited:
            found.setdefault(hit.document.id, []).append(hit)
    return tuple(
        Source(one.id, one.name, one.title, tuple(sorted({hit.page for hit in own})), collection=one.collection)
        for own in list(found.values())[:RELATED]
        for one in (own[0].document,)
    )


SUGGESTED = 3
LISTED = 50  # names of documents in an answer
HEAVY = 0.4  # share of the question's weight that one word has
LOW = 0.3  # the most that is claimed of a question that was not answered
Doubt = Literal["missing", "near", ""]


def begin(question: Question, query: Query, settings: Settings, trace: Trace) -> Answer:
    """What is known of the answer once the question is understood."""
    return Answer(
        id=trace.id,
        question=question.text,
        content="",
        corrected_question=query.corrected,
        standalone_question=query.standalone,
        route=query.route,
        intent=query.intent,
        level=question.level,
        mode=question.mode,
        response_mode=question.response_mode,
        conversation_id=question.conversation_id,
        trace_id=trace.id,
        settings_fingerprint=settings.fingerprint,
    )


def say(answer: Answer, content: str) -> Answer:
    """Small talk, or what is not a question to documents: nothing was searched."""
    reason = "nothing was searched: this is not a question to the documents"
    return replace(answer, content=content, model="none", is_answered=False, confidence=Confidence(0.0, "low", reason))


def list_documents(answer: Answer, documents: Sequence[Document]) -> Answer:
    """Which documents there are, from the list that the library keeps; the names of the first of them."""
    ready = sorted(one.name for one in documents)
    if not ready:
        return say(answer, "There are no documents yet. Add some, then ask about them.")
    more = len(ready) - LISTED
    names = "\n".join(f"- {name}" for name in ready[:LISTED])
    rest = f"\n\nand {more:,} more" if more > 0 else ""
    count = f"There {'are' if len(ready) > 1 else 'is'} {len(ready):,} document{'s' * (len(ready) > 1)}:"
    confidence = Confidence(1.0, "high", "read from the library's list of documents")
    return replace(answer, content=f"{count}\n\n{names}{rest}", model="none", confidence=confidence)


def doubted(relevance: Relevance, retrieved: Retrieved, settings: Settings) -> Doubt:
    """Is the answer missing, or only near? A model may still find what words do not show, so it is asked when in doubt.

    Below a fifth of `answer.floor` nothing is written; up to the floor, the nearest sentences are quoted as just that,
    unless a model has written.
    """
    if not retrieved.hits or relevance.probability < settings.answer_floor / 5:
        return "missing"
    # What is said of other things is no answer, however near: the code of one star for that of another, sales of phones
    # for sales of cars. Of squad_dev11's answerable questions .5 % have a heavy word that no passage holds.
    is_heavy = bool(relevance.missing_terms) and relevance.features["lacking"] >= HEAVY
    is_other = bool(relevance.missing_names) or is_heavy
    return "near" if relevance.probability < settings.answer_floor or is_other else ""


def refuse(answer: Answer, plan: Plan, query: Query, retrieved: Retrieved, relevance: Relevance) -> Answer:
    """The documents do not say it: no model was called; what they do say nearby is offered."""
    topics, missing = nearest_topics(retrieved), relevance.missing_terms
    offered = f" The nearest they come to it: {'; '.join(topics)}." if topics else ""
    return replace(
        answer,
        content=f"{NOT_IN_DOCUMENTS}{offered}",
        metrics={"chunks_retrieved": len(retrieved.hits), "context_characters": 0, "context_tokens": 0},
        strategy=plan.strategy,
        model="none",
        is_answered=False,
        related_documents=related(retrieved, ()),
        confidence=_unanswered(relevance, retrieved),
        sufficiency=Sufficiency(False, 0.0, missing_aspects=missing or (query.standalone,)),
    )


def _unanswered(relevance: Relevance, retrieved: Retrieved) -> Confidence:
    missing = ", ".join(f"“{term}”" for term in relevance.missing_terms[:SUGGESTED])
    reason = f"no passage mentions {missing}" if missing else "no passage answers the question"
    return Confidence(
        round(min(relevance.probability, LOW), 3),
        "low",
        reason if retrieved.considered else "there are no documents to search in",
    )


def conclude(
    answer: Answer,
    plan: Plan,
    query: Query,
    retrieved: Retrieved,
    relevance: Relevance,
    context: Context,
    draft: Draft,
    settled: Settled,
    settings: Settings,
) -> Answer:
    """The answer of a question that was searched, written and checked."""
    content, claims, citations = settled.attested.content, settled.attested.claims, settled.attested.citations
    content = content or NOT_IN_DOCUMENTS
    is_answered = not content.startswith(NOT_IN_DOCUMENTS)
    quotes = [placed.quote for placed in draft.quotes]
    sure = _unanswered(relevance, retrieved)
    if is_answered:
        sure = confidence(relevance, claims, citations, settings, quotes)
    documents = {passage.document.id: passage.document for passage in context.passages}
    return replace(
        answer,
        content=content,
        claims=claims,
        citations=citations,
        sources=sources(citations, documents),
        related_documents=related(retrieved, citations),
        confidence=sure,
        sufficiency=sufficiency(query, relevance, context, claims, citations),
        verification=settled.verification,
        suggested_questions=not_planted(draft.suggested, context.passages)[:SUGGESTED],
        strategy=plan.strategy,
        model=draft.model,
        usage=draft.usage + settled.usage,
        metrics={
            "chunks_retrieved": len(retrieved.hits),
            "context_characters": len(context.text),
            "context_tokens": context.token_count,
        },
        is_answered=is_answered,
        notes=tuple(draft.notes),
        failed_models=failed_models(draft),
    )


# What was looked at for an answer, and what became of it? For its trace.


def candidates(
    retrieved: Retrieved, context: Context | None = None, citations: Sequence[Citation] = ()
) -> list[dict[str, Any]]:
    """Every chunk that a search gave, the best first, with its scores and its `use`.

    `cited`: the answer points at it. `read`: it stood before whoever wrote the answer. `kept`: it was good enough, but
    nothing was written, or there was no room. `dropped`: too far off, or said by another one.
    """
    kept = {hit.chunk.id: hit for hit in retrieved.hits}
    found = {hit.chunk.id: hit for hit in retrieved.considered} | kept
    cited = {citation.chunk_id for citation in citations}
    uses = dict.fromkeys(kept, "kept")
    for passage in context.passages if context is not None else ():
        ids = {chunk.id for chunk in passage.chunks}
        uses |= dict.fromkeys(ids, "cited" if ids & cited else "read")
    return [_shown(hit, uses.get(chunk_id, "dropped")) for chunk_id, hit in found.items()]


def _shown(hit: Hit, use: str) -> dict[str, Any]:
    return {
        "chunk_id": hit.chunk.id,
        "document_id": hit.document.id,
        "document_name": hit.document.name,
        "page": hit.page,
        "heading_path": list(hit.heading_path),
        "lexical_score": round(hit.lexical_score, 4),
        "cosine": round(hit.cosine, 4),
        "score": round(hit.score, 4),
        "use": use,
    }
