"""What comes back? Every JSON response as a type, and what its fields mean.

openapi.py makes the components of /openapi.json of these, and so the names and types of generated clients. Replies are
written by orjson and never validated here; tests/test_http_openapi.py compares real replies with these types.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, get_type_hints

from typing_extensions import TypedDict  # typing's own is not read by pydantic before Python 3.12

from refdesk import access
from refdesk.answer import Answer, Cached, Citation, Claim, Confidence, Source, Sufficiency, Verification
from refdesk.prompts import NOT_IN_DOCUMENTS
from refdesk.records import Conversation, Message
from refdesk.serve.http.requests import KnownKind
from refdesk.types import INTERNAL, Box, Document, Job, Method, Status

SHAPES: dict[str, Any] = {"Answer": Answer, "Document": Document, "Conversation": Conversation, "Message": Message}
Value = bool | int | float | str
Share = float | None  # from 0 to 1


def shape(name: str, about: str = "", /, **fields: Any) -> Any:
    """A response: its name in OpenAPI, one sentence about it, and its fields."""
    made: Any = TypedDict(name, fields)  # type: ignore[misc]
    made.__doc__ = about or None
    SHAPES[name] = made
    return made


def many(item: Any) -> Any:
    return list[item]


def by_name(item: Any) -> Any:
    return dict[str, item]


# Documents

DocumentPage = shape(
    "DocumentPage",
    "Some of the documents; `total` counts all that match.",
    **{"documents": many(Document), "total": int, "limit": int, "offset": int},
)
MovedDocuments = shape("MovedDocuments", documents=many(Document))
DeletedDocuments = shape("DeletedDocuments", "The ids of the deleted documents.", deleted=list[str])
Deleted = shape("Deleted", "The id of what was deleted.", deleted=str)
Word = shape(
    "Word",
    "Characters `start..end` of the page's text, and their box in per cent of the page from its top left.",
    **dict.fromkeys(("start", "end", "line"), int),
    **dict.fromkeys(("x", "y", "width", "height"), float),
)
PageText = shape(
    "PageText",
    "A page's text; `start` is its offset in the document's text, width and height are in points.",
    **{"document_id": str, "page": int, "label": str, "start": int, "width": float, "height": float},
    **{"ocr": bool, "text": str, "words": many(Word)},
)
TableColumn = shape(
    "TableColumn",
    "What the head of a column says: its texts from top to bottom, and what the numbers below count.",
    **{"path": list[str], "unit": str, "scale": str, "period": str},
)
TableCell = shape(
    "TableCell",
    "A cell: rows and columns count from 0, `rows` and `columns` say how many it covers; `number` is `null` where it "
    "begins with none. Characters `start..end` of the document's text.",
    **{"row": int, "column": int, "rows": int, "columns": int, "text": str, "number": float | None},
    **{"unit": str, "scale": str, "period": str, "start": int, "end": int, "page": int, "boxes": list[Box]},
)
DocumentTable = shape(
    "DocumentTable",
    "A table and its cells; `next_row` is where to go on where there are more of them.",
    **{"id": int, "number": int, "page": int, "start": int, "end": int, "caption": str, "scale": str},
    **{"head_rows": int, "row_count": int, "cell_count": int, "columns": many(TableColumn)},
    **{"cells": many(TableCell), "next_row": int | None},
)
TablePage = shape(
    "TablePage",
    "Some tables of a document; `total` counts all.",
    **{"document_id": str, "tables": many(DocumentTable), "total": int, "limit": int, "offset": int},
)
Collection = shape("Collection", name=str, documents=int, may_edit=bool)
CollectionList = shape("CollectionList", collections=many(Collection))
Upload = shape(
    "Upload",
    "A file that was uploaded and accepted: it is staged until it is added.",
    **{name: hint for name, hint in get_type_hints(Job).items() if name not in ("owner", *INTERNAL)}
    | {"status": Status | Literal["gone"]},
)
UploadList = shape("UploadList", uploads=many(Upload))
FailedExample = shape("FailedExample", name=str, reason=str)
AddedExamples = shape(
    "AddedExamples",
    **{"added": int, "failed": many(FailedExample), "waiting": int, "collection": str, "uploads": many(Upload)},
)

# Asking and searching

Cleared = shape("Cleared", cleared=bool)
ConversationList = shape("ConversationList", conversations=many(Conversation))
Running = shape("Running", "A question being answered, and the stream of its events.", stream=str, question=str)
Stopped = shape("Stopped", stopped=bool)
MessageList = shape("MessageList", messages=many(Message), running=Running | None)
AskedQuestion = shape(
    "AskedQuestion",
    "A question without its answer.",
    **dict.fromkeys(("id", "question", "conversation_id", "owner", "created_at", "error"), str),
    collections=list[str],
)
AskedList = shape("AskedList", answers=many(AskedQuestion))
Stage = shape(
    "Stage",
    "One stage as it ran.",
    **{"name": str, "depth": int, "started_ms": float, "took_ms": float, "input": dict[str, Any]},
    **{"output": dict[str, Any], "skipped": str, "error": str, "cost_usd": float},
)
LookedAt = shape(
    "LookedAt",
    "A chunk that the search found, and what became of it.",
    **{"chunk_id": int, "document_id": str, "document_name": str, "page": int, "heading_path": list[str]},
    **{"lexical_score": float, "cosine": float, "score": float},
    use=Literal["cited", "read", "kept", "dropped"],
)
Trace = shape(
    "Trace",
    "How an answer came about: its stages in the order they began, and the chunks found, best first.",
    **{"id": str, "total_ms": float, "stages": many(Stage), "passages": many(LookedAt)},
)
Feedback = shape(
    "Feedback", answer_id=str, owner=str, verdict=Literal["correct", "wrong"], correction=str, created_at=str
)
Line = shape(
    "Line", "The page and the box of characters `start..end` of a chunk.", start=int, end=int, page=int, box=Box | None
)
SearchHit = shape(
    "SearchHit",
    "A chunk with its place and its scores; `page_text`, `page_image` and `figure` are addresses.",
    **{"document_id": str, "document_name": str, "chunk_id": int, "chunk_sequence": int, "kind": KnownKind},
    **{"heading_path": list[str], "page": int, "pages": list[int], "boxes": list[Box], "text": str},
    **{"lexical_score": float, "cosine": float, "score": float, "collection": str, "title": str, "date": str},
    **{"lines": many(Line), "page_text": str, "page_image": str | None, "figure": str | None},
)
SearchResult = shape("SearchResult", "Best first.", query=str, method=Method, hits=many(SearchHit))

# Failures and events

_PROBLEM: dict[str, Any] = dict.fromkeys(("code", "message", "stage", "hint", "request_id"), str) | {"retryable": bool}
Problem = shape("Problem", "Every failure looks like this.", **_PROBLEM)
ThinkingEvent = shape("ThinkingEvent", "A stage has begun; `text` is for people.", step=str, text=str)
SourcesEvent = shape(
    "SourcesEvent", "The passages that the answer is written from; markers may change.", citations=list[Citation]
)
ContentEvent = shape("ContentEvent", token=str)
VerificationEvent = shape("VerificationEvent", "`status` is checking, then the verdict.", status=str, notes=list[str])
ReplaceEvent = shape("ReplaceEvent", "Replaces all content so far; more may follow.", content=str, reason=str)
DoneEvent = shape("DoneEvent", answer=Answer, traceUrl=str)
ErrorEvent = shape("ErrorEvent", "The stream ends here.", **_PROBLEM, trace_id=NotRequired[str])

# Analytics

DayFigures = shape(
    "DayFigures",
    **{"day": str, "questions": int, "abstained": int, "failed": int, "model_failed": int},
    **{"cost_usd": float, "cost_unknown": int},
)
Percentiles = shape(
    "Percentiles", "Milliseconds that people waited.", count=int, p50_ms=float | None, p95_ms=float | None
)
Latency = shape("Latency", total=Percentiles, not_cached=Percentiles, stages=by_name(Percentiles))
CacheFigures = shape(
    "CacheFigures", exact=int, semantic=int, no=int, unknown=int, exact_share=Share, semantic_share=Share
)
CostFigures = shape("CostFigures", total_usd=float, unknown=int)
AbstentionFigures = shape("AbstentionFigures", answered=int, abstained=int, not_searched=int, unknown=int, share=Share)
FailureFigures = shape("FailureFigures", failed=int, share=Share, codes=dict[str, int])
ModelFailure = shape("ModelFailure", model=str, code=str, answers=int)
ModelFailures = shape(
    "ModelFailures", "Answers given although a model failed.", answers=int, share=Share, models=many(ModelFailure)
)
ConfidenceFigures = shape("ConfidenceFigures", high=int, medium=int, low=int, unknown=int)
ModelFigures = shape("ModelFigures", model=str, questions=int)
CollectionAccuracy = shape("CollectionAccuracy", collection=str, correct=int, wrong=int, accuracy=Share)
FeedbackFigures = shape(
    "FeedbackFigures", correct=int, wrong=int, accuracy=Share, by_collection=many(CollectionAccuracy)
)
Analytics = shape(
    "Analytics",
    "The last `days`, from `from` to `to`.",
    **{"days": int, "from": str, "to": str, "questions": int, "per_day": many(DayFigures), "latency": Latency},
    **{"cache": CacheFigures, "cost": CostFigures, "abstentions": AbstentionFigures, "failures": FailureFigures},
    **{"model_failures": ModelFailures, "confidence": ConfidenceFigures, "models": many(ModelFigures)},
    feedback=FeedbackFigures,
)

# Settings, keys, health

Setting = shape(
    "Setting",
    "A setting: its value, where it comes from, and the values it may have.",
    **{"name": str, "section": str, "value": Value, "default": Value, "changed": bool, "from": str, "help": str},
    **{"allowed": str, "choices": list[str], "minimum": float | None, "maximum": float | None},
    **{"kind": Literal["bool", "int", "float", "str"], "per_request": bool},
)
SettingList = shape(
    "SettingList",
    "`notes` name stored values that cannot be used.",
    **{"settings": many(Setting), "presets": dict[str, dict[str, Value]], "notes": list[str]},
)
ProviderState = shape(
    "ProviderState",
    "A provider as it would be called now. `key` is the last four characters, never all of it.",
    **{"name": str, "base_url": str, "default_base_url": str},
    address_from=Literal["settings", "environment", "provider"],
    needs_key=bool,
    key=str,
    key_from=Literal["settings", "environment", ""],
)
ModelState = shape(
    "ModelState",
    "`problems` say which of the models named in the settings cannot be used, and why.",
    **{"answer": str, "enabled": bool, "providers": many(ProviderState), "problems": list[str]},
)
ModelNames = shape(
    "ModelNames", "`is_listed` is false where the provider has no list.", models=list[str], is_listed=bool
)
ModelReply = shape("ModelReply", model=str, reply=str, ms=float)
Key = shape(
    "Key",
    "A key without its secret.",
    **{"id": str, "name": str, "role": access.Role, "collections": list[str] | None},
    **{"created_at": str, "last_used": str},
)
KeyList = shape("KeyList", keys=many(Key))
NewKey = shape("NewKey", "The secret is shown here only.", key=Key, secret=str)
ChangedKey = shape("ChangedKey", key=Key)
RevokedKey = shape("RevokedKey", revoked=Key)
RIGHTS: tuple[access.Action, ...] = ("add", "settings", "keys", "traces", "analytics", "clear_cache")
May = shape("May", "What the caller may do.", **dict.fromkeys(RIGHTS, bool))
Me = shape(
    "Me",
    **{"id": str, "name": str, "role": access.Role, "collections": list[str] | None, "signed_in": bool},
    **{"may": May, "model": bool},
)
SignedOut = shape("SignedOut", signed_in=bool)
Health = shape("Health", status=Literal["ok"])
Readiness = shape(
    "Readiness",
    "All but the status is for admins of the whole library.",
    status=Literal["ready", "not ready"],
    **dict.fromkeys(("reason", "version"), NotRequired[str]),
    **dict.fromkeys(("chunks", "process", "generation"), NotRequired[int]),
)

# OpenAI's interface

Model = shape("Model", id=str, object=Literal["model"], created=int, owned_by=str)
ModelList = shape("ModelList", object=Literal["list"], data=many(Model))
EXTENSION: dict[str, Any] = {
    **{
        "id": str,
        "content": str,
        "short": str,
        "is_answered": bool,
        "claims": list[Claim],
        "citations": list[Citation],
    },
    **{"sources": list[Source], "related_documents": list[Source], "confidence": Confidence},
    **{"sufficiency": Sufficiency, "verification": Verification, "suggested_questions": list[str]},
    **{"corrected_question": str, "standalone_question": str, "model": str, "cached": Cached, "trace_id": str},
    "notes": list[str],
}
Extension = shape("Extension", "What OpenAI's format has no place for: the final text and its proof.", **EXTENSION)
CompletionMessage = shape("CompletionMessage", role=Literal["assistant"], content=str, refusal=None, refdesk=Extension)
CompletionChoice = shape(
    "CompletionChoice", index=int, message=CompletionMessage, finish_reason=Literal["stop"], logprobs=None
)
CompletionUsage = shape("CompletionUsage", prompt_tokens=int, completion_tokens=int, total_tokens=int)
Completion = shape(
    "Completion",
    **{"id": str, "object": Literal["chat.completion"], "created": int, "model": str},
    **{"choices": many(CompletionChoice), "usage": CompletionUsage},
)
Delta = shape("Delta", role=NotRequired[Literal["assistant"]], content=NotRequired[str])
ChunkChoice = shape("ChunkChoice", index=int, delta=Delta, finish_reason=Literal["stop"] | None, logprobs=None)
CompletionChunk = shape(
    "CompletionChunk",
    "`refdesk` comes with the last choice, then `usage` if asked for.",
    **{"id": str, "object": Literal["chat.completion.chunk"], "created": int, "model": str},
    **{"choices": many(ChunkChoice), "refdesk": NotRequired[Extension], "usage": NotRequired[CompletionUsage]},
)
CompletionError = shape(
    "CompletionError", message=str, type=Literal["invalid_request_error", "api_error"], code=str, param=None
)
CompletionProblem = shape(
    "CompletionProblem", "A failure, and the same as OpenAI's clients expect it.", **_PROBLEM, error=CompletionError
)

# The five designs that Refdesk joins (docs/seeds.md) have keys of their own for parts of an answer: they stand beside
# those of `Answer`. Where two designs use one key for different things (`sources`, `citations`, `confidence`,
# `metrics`), each entry has the keys of both; where they spell a value differently, a second key has the other one.

SOURCE_CHUNK: dict[str, Any] = {
    **{"doc_name": str, "chunk_id": int, "chunk_sequence": int, "heading_path": str, "page_number": int},
    **{"snippet": str, "relevance_score": float, "similarity_score": float},
}
SourceChunk = shape("SourceChunk", **SOURCE_CHUNK)
RelatedDoc = shape("RelatedDoc", docId=str, document_id=str, document_name=str, title=str, category=str)
TokenCounts = shape("TokenCounts", promptTokens=int, completionTokens=int)
AnswerMetadata = shape(
    "AnswerMetadata",
    **{"chunksRetrieved": int, "chunksUsed": int, "model": str | None, "processingTimeMs": float},
    **{"usage": TokenCounts, "noResults": bool},
)
AnswerMetrics = shape(
    "AnswerMetrics",
    "Milliseconds of each stage (`retrieve_ms` …) and counts.",
    **dict.fromkeys(("retrieval_latency_ms", "llm_latency_ms", "total_latency_ms"), float),
    **{"context_length": int, "chunks_retrieved": int, "tokens_used": CompletionUsage, "model": str},
)
Rectangle = shape("Rectangle", "In per cent of the page.", **dict.fromkeys(("x", "y", "width", "height"), float))
BESIDE: dict[str, dict[str, Any]] = {
    "Citation": {
        **dict.fromkeys(("doc_id", "docId", "doc_name", "title", "section", "snippet", "text"), str),
        **{"similarity": float, "score": float, "matched": bool, "page_number": int, "sourceUrls": list[str]},
        "bbox": Rectangle | None,
    },
    "Source": {**SOURCE_CHUNK, "doc_id": str, "url": str, "chunks": many(SourceChunk)},
    "Confidence": {"label": Literal["High", "Medium", "Low"]},
    "Answer": {
        **dict.fromkeys(("answer", "query_id", "session_id", "confidence_level"), str),
        **{"confidence_score": float, "context_sufficiency": Sufficiency, "relatedDocs": many(RelatedDoc)},
        **{"metadata": AnswerMetadata, "metrics": AnswerMetrics},
    },
    "Document": {"has_page_images": bool},
    "Upload": {"upload_id": str},
    "KeptAnswer": {"feedback": many(Feedback)},
}
# Where a document lies on the server is nobody else's business.
HIDDEN: dict[str, tuple[str, ...]] = {"Document": ("source",)}

# What a field means, by its name or by its component and name.
MEANINGS: dict[str, str] = {
    **dict.fromkeys(("created_at", "updated_at"), "ISO 8601, in UTC"),
    **dict.fromkeys(("accuracy", "share", "exact_share", "semantic_share"), "From 0 to 1; null: nothing to count"),
    **dict.fromkeys(("Key.collections", "Me.collections"), "null: all of them"),
    **dict.fromkeys(("cost_unknown", "CostFigures.unknown"), "Questions whose price is not known"),
    **dict.fromkeys(("p50_ms", "p95_ms"), "null: nobody waited"),
    **dict.fromkeys(("Stage.input", "Stage.output"), "Sizes"),
    "last_used": "ISO 8601, in UTC; empty: never",
    "owner": "The id of the key; empty: whoever is at the machine",
    "size": "Bytes",
    "parent_id": "The document that it was attached to",
    "date": "The ISO date it is about or was made on; empty: unknown",
    "Document.error": "Why it could not be read",
    "Upload.upload_id": "The same as `id`",
    "Upload.status": "`gone`, in an event: it was removed from the list",
    "outcome": "added, replaced or unchanged, once it is ready",
    "Upload.reason": "Why it failed, or what it is the same as",
    "seconds_left": "null: too early to say",
    "allowed": "For people: `1 to 1000`",
    "per_request": "Whether a question may set it",
    "Me.model": "Whether a model writes the answers; the mode `general` needs one",
    "Message.answer_id": "Empty: a person wrote it",
    "AskedQuestion.error": "The code of the error that ended it",
    "Stage.skipped": "Why it did not run",
    "Stage.error": "Why it ended early",
    "lexical_score": "BM25",
    "cosine": "Of the question and the chunk",
    "LookedAt.score": "What it was ranked by in the end",
    "LookedAt.use": "kept: good enough, but nothing was written or there was no room; dropped: too far off",
    "Readiness.reason": "Why it is not ready",
    "Extension.notes": "What the reader should know about how it came about",
}

# How those keys are filled

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


def citation_shape(cited: Citation) -> dict[str, Any]:
    """A citation as `Answer` has it, and as seeds 001 to 004 call its parts."""
    return cited.to_dict() | {
        **dict.fromkeys(("doc_id", "docId"), cited.document_id),
        **dict.fromkeys(("doc_name", "title"), cited.document_name),
        "section": " > ".join(cited.heading_path),
        "similarity": cited.similarity_score,
        "score": cited.relevance_score,
        "matched": True,
        "sourceUrls": [cited.url] if cited.url else [],
        "page_number": cited.page,
        "snippet": cited.quote[:SNIPPET],
        "text": cited.quote,
        "bbox": _around(cited.boxes),
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


def _chunk(cited: Citation) -> dict[str, Any]:
    return {
        "doc_name": cited.document_name,
        "chunk_id": cited.chunk_id,
        "chunk_sequence": cited.chunk_sequence,
        "heading_path": " > ".join(cited.heading_path),
        "page_number": cited.page,
        "snippet": cited.quote[:SNIPPET],
        "relevance_score": cited.relevance_score,
        "similarity_score": cited.similarity_score,
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
