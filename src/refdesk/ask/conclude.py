"""What comes back? The answer put together from what the stages gave; also when there is none."""

from __future__ import annotations

from dataclasses import replace

from refdesk.answer import Answer, Confidence, Context, Plan, Query, Question, Retrieved, Sufficiency
from refdesk.ask.confidence import confidence
from refdesk.ask.draft import Draft
from refdesk.ask.finish import related, sources
from refdesk.ask.relevance import Relevance
from refdesk.ask.settle import Settled
from refdesk.ask.sufficiency import nearest_topics, sufficiency
from refdesk.ask.trim import not_planted
from refdesk.prompts import NOT_IN_DOCUMENTS
from refdesk.settings import Settings
from refdesk.trace import Trace

SUGGESTED = 3


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


def refuse(answer: Answer, plan: Plan, query: Query, retrieved: Retrieved, relevance: Relevance) -> Answer:
    """The documents do not say it: no model was called; what they do say nearby is offered."""
    topics = nearest_topics(retrieved)
    missing = relevance.missing_terms
    reason = (
        "the library is empty"
        if not retrieved.considered
        else f"no passage mentions {', '.join(f'“{term}”' for term in missing[:SUGGESTED])}"
        if missing
        else "no passage answers the question"
    )
    offered = f" The nearest they come to it: {'; '.join(topics)}." if topics else ""
    return replace(
        answer,
        content=f"{NOT_IN_DOCUMENTS}{offered}",
        metrics={"chunks_retrieved": len(retrieved.hits), "context_characters": 0, "context_tokens": 0},
        strategy=plan.strategy,
        model="none",
        is_answered=False,
        related_documents=related(retrieved, ()),
        confidence=Confidence(round(relevance.probability, 3), "low", reason),
        sufficiency=Sufficiency(False, 0.0, missing_aspects=missing or (query.standalone,)),
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
    is_answered = bool(citations) or not content.startswith(NOT_IN_DOCUMENTS)
    if not content:
        content, is_answered = NOT_IN_DOCUMENTS, False
    titles = {passage.document.id: passage.document.title for passage in context.passages}
    return replace(
        answer,
        content=content,
        claims=claims,
        citations=citations,
        sources=sources(citations, titles),
        related_documents=related(retrieved, citations),
        confidence=confidence(relevance, claims, citations, settings),
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
    )
