"""How do the five designs that Refdesk joins (docs/seeds.md) say an answer? Their keys stand beside those of `Answer`.

Where two of them use one key for different things (`sources`, `citations`, `confidence`, `metrics`), each entry
carries the keys of both. Where they spell one value differently (`confidence.level` is "high" in seed 001 and "High" in
seed 002), the key has the spelling of `Answer`, and a key beside it (`confidence.label`) has the other.
"""

from __future__ import annotations

from typing import Any

from refdesk.answer import Answer, Citation
from refdesk.prompts import NOT_IN_DOCUMENTS
from refdesk.types import Box

SNIPPET = 200  # characters (seed 001)
REFUSED = "none"  # the model of an answer for which nothing was found that is worth reading
NO_MODEL = (REFUSED, "extractive")
RETRIEVING = ("retrieve_ms",)
WRITING = ("generate_ms",)


def answer_shape(answer: Answer) -> dict[str, Any]:
    """`Answer`, with the keys of /api/query (seeds 000, 002, 003) and of RAGResponse (seed 001)."""
    own = answer.to_dict()
    own["citations"] = [citation_shape(one) for one in answer.citations]
    own["sources"] = _sources(answer, own["sources"])
    own["metrics"] = _metrics(answer)
    own["confidence"]["label"] = answer.confidence.level.capitalize()
    sufficiency = own["sufficiency"]
    return own | {
        "answer": answer.content,
        "relatedDocs": _related_docs(answer),
        "metadata": _metadata(answer),
        "query_id": answer.id,
        "session_id": answer.conversation_id,
        "confidence_score": answer.confidence.score,
        "confidence_level": answer.confidence.level,
        "context_sufficiency": sufficiency,
    }


def citation_shape(one: Citation) -> dict[str, Any]:
    """A citation as `Answer` has it, and as seeds 001 to 004 call its parts."""
    return one.to_dict() | {
        "doc_id": one.document_id,
        "docId": one.document_id,
        "doc_name": one.document_name,
        "title": one.document_name,
        "section": " > ".join(one.heading_path),
        "similarity": one.similarity_score,
        "score": one.relevance_score,
        "matched": True,
        "sourceUrls": [one.url] if one.url else [],
        "page_number": one.page,
        "snippet": one.quote[:SNIPPET],
        "text": one.quote,
        "bbox": _around(one.boxes),
    }


def _around(boxes: tuple[Box, ...]) -> dict[str, float] | None:
    """The smallest box around those on the first page (seed 004's one `bbox`)."""
    on_page = [box for box in boxes if box.page == boxes[0].page]
    if not on_page:
        return None
    left, top = min(box.x for box in on_page), min(box.y for box in on_page)
    right, bottom = max(box.x + box.width for box in on_page), max(box.y + box.height for box in on_page)
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def _sources(answer: Answer, plain: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cited documents once each, with their first cited chunk as seeds 000 and 001 say it; `chunks` has all."""
    shaped = []
    for source, own in zip(answer.sources, plain, strict=True):
        cited = {one.chunk_id: one for one in reversed(answer.citations) if one.document_id == source.document_id}
        chunks = [_chunk(one) for one in sorted(cited.values(), key=lambda one: one.marker)]
        url = next((one.url for one in cited.values() if one.url), "")
        shaped.append(
            own | (chunks[0] if chunks else {}) | {"doc_id": source.document_id, "url": url, "chunks": chunks}
        )
    return shaped


def _chunk(one: Citation) -> dict[str, Any]:
    return {
        "doc_name": one.document_name,
        "chunk_id": one.chunk_id,
        "chunk_sequence": one.chunk_sequence,
        "heading_path": " > ".join(one.heading_path),
        "page_number": one.page,
        "snippet": one.quote[:SNIPPET],
        "relevance_score": one.relevance_score,
        "similarity_score": one.similarity_score,
    }


def _related_docs(answer: Answer) -> list[dict[str, Any]]:
    """The documents of all chunks that were read, cited or not (seed 002); none where nothing was worth reading."""
    if answer.model == REFUSED:
        return []
    return [
        {
            "docId": one.document_id,
            "document_id": one.document_id,
            "document_name": one.document_name,
            "title": one.title or one.document_name,
            "category": one.collection,
        }
        for one in (*answer.sources, *answer.related_documents)
    ]


def _metrics(answer: Answer) -> dict[str, Any]:
    usage, times = answer.usage, answer.metrics
    total = usage.prompt_tokens + usage.completion_tokens
    return dict(times) | {
        "retrieval_latency_ms": sum(times.get(name, 0.0) for name in RETRIEVING),
        "llm_latency_ms": sum(times.get(name, 0.0) for name in WRITING),
        "total_latency_ms": times.get("total_ms", 0.0),
        "context_length": int(times.get("context_characters", 0)),
        "chunks_retrieved": int(times.get("chunks_retrieved", 0)),
        "tokens_used": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": total,
        },
        "model": answer.model,
    }


def _metadata(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "chunksRetrieved": 0 if answer.model == REFUSED else int(answer.metrics.get("chunks_retrieved", 0)),
        "chunksUsed": len({one.chunk_id for one in answer.citations}),
        "model": None if answer.model in NO_MODEL else answer.model,
        "processingTimeMs": answer.metrics.get("total_ms", 0.0),
        "usage": {"promptTokens": usage.prompt_tokens, "completionTokens": usage.completion_tokens},
        "noResults": answer.content.startswith(NOT_IN_DOCUMENTS),
    }
