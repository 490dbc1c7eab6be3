"""Every JSON response as a type: the engine's own values, and what routes add to them.

openapi.py makes the components of /openapi.json of these, and so the names and types of generated clients. Replies are
written by orjson and never validated here; tests/test_http_openapi.py compares real replies with these types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, get_type_hints

from typing_extensions import TypedDict  # typing's own is not read by pydantic before Python 3.12

from refdesk import answer, types
from refdesk.records import Action, AskedQuestion, Caller, Conversation, Feedback, Key, Message
from refdesk.serve.http.requests import KnownKind

Value = bool | int | float | str
Share = float | None  # from 0 to 1


def shape(name: str, fields: Mapping[Any, str], about: str | None = None, own: Mapping[str, Any] | None = None) -> Any:
    """A response: its name in OpenAPI, its fields by their type, one sentence about it.

    `own` are fields by their name, such as those of a value that is sent with others beside its own.
    """
    named = {field: kind for kind, names in fields.items() for field in names.split()}
    made: Any = TypedDict(name, dict(own or {}) | named)  # type: ignore[misc]
    made.__doc__ = about
    return made


def sent(value: Any, beside: Mapping[Any, str], *hidden: str) -> Any:
    """A value of the engine as it is sent: with fields beside its own, without those that are hidden."""
    hints = {name: kind for name, kind in get_type_hints(value).items() if name not in hidden}
    return shape(value.__name__, beside, value.__doc__, hints)


def many(item: Any) -> Any:
    return list[item]


def by_name(item: Any) -> Any:
    return dict[str, item]


def perhaps(fields: Mapping[Any, str]) -> dict[Any, str]:
    return {NotRequired[kind]: names for kind, names in fields.items()}


# Documents

_PLACE = "x y width height"
Box = shape("Box", {int: "page", float: _PLACE}, "In per cent of the page as displayed, from its top left.")
# Where a document lies on the server is nobody else's business.
Document = sent(types.Document, {bool: "has_page_images"}, "source")
DocumentPage = shape(
    "DocumentPage",
    {many(Document): "documents", int: "total limit offset"},
    "A page of documents; `total` counts all matches.",
)
MovedDocuments = shape("MovedDocuments", {many(Document): "documents"})
DeletedDocuments = shape("DeletedDocuments", {list[str]: "deleted"}, "The ids of the deleted documents.")
Deleted = shape("Deleted", {str: "deleted"}, "The id of what was deleted.")
Word = shape(
    "Word",
    {int: "start end line", float: _PLACE},
    "Characters `start..end` of the page's text, and their box in per cent of the page from its top left.",
)
TableLines = shape(
    "TableLines",
    {int: "start end head_rows"},
    "A table on the page: characters `start..end` of the page's text, a row a line, cells set apart by ` | `.",
)
PageText = shape(
    "PageText",
    {
        **{str: "document_id label text", int: "page start", float: "width height", bool: "ocr"},
        **{many(Word): "words", many(TableLines): "tables"},
    },
    "A page's text; `start` is its offset in the document's text, width and height are in points.",
)
TableColumn = shape(
    "TableColumn",
    {list[str]: "path", str: "unit scale period"},
    "A column heading: its texts from top to bottom, and the unit, scale and period of the numbers below.",
)
TableCell = shape(
    "TableCell",
    {
        **{int: "row column rows columns start end page", str: "text unit scale period", float | None: "number"},
        many(Box): "boxes",
    },
    "A cell: rows and columns count from 0, `rows` and `columns` are how many it spans; `number` is `null` if its text "
    "does not start with one. Characters `start..end` of the document's text.",
)
DocumentTable = shape(
    "DocumentTable",
    {
        **{int: "id number page start end head_rows row_count cell_count", str: "caption scale"},
        **{many(TableColumn): "columns", many(TableCell): "cells", int | None: "next_row"},
    },
    "A table and its cells; `next_row` is where the next page of cells starts.",
)
TablePage = shape(
    "TablePage",
    {str: "document_id", many(DocumentTable): "tables", int: "total limit offset"},
    "A page of a document's tables; `total` counts all of them.",
)
Collection = shape("Collection", {str: "name label", int: "documents", bool: "may_edit"})
CollectionList = shape("CollectionList", {many(Collection): "collections"})
Upload = shape(
    "Upload",
    {str: "upload_id", types.Status | Literal["gone"]: "status"},
    "An uploaded file and its progress.",
    {name: kind for name, kind in get_type_hints(types.Job).items() if name not in ("owner", *types.INTERNAL)},
)
UploadList = shape("UploadList", {many(Upload): "uploads"})
Imported = shape("Imported", {str: "name document_id reason", types.Outcome: "outcome"})
ImportedList = shape("ImportedList", {many(Imported): "documents"})
BackgroundJob = shape(
    "BackgroundJob",
    {
        str: "id collection reason created_at updated_at",
        Literal["summaries", "tree", "tree_summaries", "graph"]: "kind",
        types.Status: "status",
        int: "chunks_done chunks_total",
    },
    "A background job.",
)
BackgroundList = shape("BackgroundList", {many(BackgroundJob): "jobs"})
SummaryCost = shape(
    "SummaryCost",
    {str: "model", int: "chunks prompt_tokens completion_tokens", float | None: "cost_usd"},
    "Estimated size and cost of a job for a model; `cost_usd` is null if the price is unknown.",
)
Indexed = shape(
    "Indexed",
    {str: "doc_id document_name", types.Status | Literal["gone", "cancelled"]: "status", int: "chunks indexed"},
    "`indexed` of the document's `chunks` are searchable.",
)
FailedExample = shape("FailedExample", {str: "name reason"})
AddedExamples = shape(
    "AddedExamples", {int: "added waiting", many(FailedExample): "failed", str: "collection", many(Upload): "uploads"}
)

# Asking and searching. The five designs that Refdesk joins (docs/seeds.md) have keys of their own for parts of an
# answer: they stand beside those of `Answer`. Where two designs use one key for different things (`sources`,
# `citations`, `confidence`, `metrics`), each entry has the keys of both; where they spell a value differently, a second
# key has the other one. A source that is not cited and a confidence below /v1 do not have the keys of other designs.

_CHUNK: dict[Any, str] = {
    str: "doc_id doc_name heading_path snippet url",
    int: "chunk_id chunk_sequence page_number",
    float: "relevance_score similarity_score support_score",
}
Source = sent(answer.Source, perhaps(_CHUNK))
Rectangle = shape("Rectangle", {float: _PLACE}, "In per cent of the page.")
Citation = sent(
    answer.Citation,
    {
        **{str: "doc_id docId doc_name title section snippet text label", float: "similarity score", bool: "matched"},
        **{int: "page_number", list[str]: "sourceUrls", Rectangle | None: "bbox", many(Box): "boxes"},
    },
)
Confidence = sent(answer.Confidence, {NotRequired[Literal["High", "Medium", "Low"]]: "label"})
TokenCounts = shape("TokenCounts", {int: "promptTokens completionTokens"})
CompletionUsage = shape("CompletionUsage", {int: "prompt_tokens completion_tokens total_tokens"})
RelatedDoc = shape("RelatedDoc", {str: "docId document_id document_name title category"})
AnswerMetadata = shape(
    "AnswerMetadata",
    {
        **{int: "chunksRetrieved chunksUsed", str | None: "model", float: "processingTimeMs"},
        **{TokenCounts: "usage", bool: "noResults"},
    },
)
AnswerMetrics = shape(
    "AnswerMetrics",
    {
        float: "retrieval_latency_ms llm_latency_ms total_latency_ms",
        int: "context_length chunks_retrieved",
        CompletionUsage: "tokens_used",
        str: "model",
    },
    "Milliseconds of each stage (`retrieve_ms` …) and counts.",
)
Answer = sent(
    answer.Answer,
    {
        **{many(Citation): "citations", many(Source): "sources related_documents", Confidence: "confidence"},
        **{AnswerMetrics: "metrics", AnswerMetadata: "metadata", many(RelatedDoc): "relatedDocs"},
        **{str: "answer query_id session_id confidence_level", float: "confidence_score"},
        answer.Sufficiency: "sufficiency context_sufficiency",
    },
)
KeptAnswer = shape("KeptAnswer", {list[Feedback]: "feedback"}, "An answer with its feedback.", get_type_hints(Answer))
Cleared = shape("Cleared", {bool: "cleared"})
ConversationList = shape("ConversationList", {list[Conversation]: "conversations"})
Running = shape("Running", {str: "stream question"}, "A question in progress and its event stream.")
Stopped = shape("Stopped", {bool: "stopped"})
MessageList = shape("MessageList", {list[Message]: "messages", Running | None: "running"})
AskedList = shape("AskedList", {list[AskedQuestion]: "answers"})
Stage = shape(
    "Stage",
    {str: "name skipped error", float: "started_ms took_ms cost_usd", dict[str, Any]: "input output", int: "depth"},
    "One stage of answering.",
)
LookedAt = shape(
    "LookedAt",
    {
        **{int: "chunk_id page", str: "document_id document_name", list[str]: "heading_path"},
        **{float: "lexical_score cosine score", Literal["cited", "read", "kept", "dropped"]: "use"},
    },
    "A chunk found by the search, and whether it was used.",
)
Trace = shape(
    "Trace",
    {str: "id", float: "total_ms", many(Stage): "stages", many(LookedAt): "passages"},
    "How an answer was produced: its stages in order, and the chunks found, best first.",
)
Line = shape(
    "Line", {int: "start end page", Box | None: "box"}, "The page and the box of characters `start..end` of a chunk."
)
SearchHit = shape(
    "SearchHit",
    {
        **{str: "document_id document_name collection title date text page_text", KnownKind: "kind"},
        **{int: "chunk_id chunk_sequence page", list[str]: "heading_path", list[int]: "pages", many(Box): "boxes"},
        **{float: "lexical_score cosine score", many(Line): "lines", str | None: "page_image figure"},
    },
    "A chunk with its location and scores; `page_text`, `page_image` and `figure` are URLs.",
)
Entity = shape("Entity", {str: "key name", int: "chunks"}, "A named entity and the number of chunks that mention it.")
NamedEntity = shape(
    "NamedEntity",
    {str: "key name kind", many(str): "names", int: "chunks"},
    "`names`: its spellings; `kind`: person, place …, where a model has said so, otherwise empty.",
)
Edge = shape(
    "Edge",
    {str: "key name says subject by", int: "count", Citation: "citation"},
    "A neighbour of an entity: the words between them or what is stated of `subject`, the number of sentences, and one "
    "citation. `by`: the model that found the relation; empty: a rule.",
)
Neighbourhood = shape(
    "Neighbourhood",
    {NamedEntity | None: "entity", many(Edge): "edges", many(Entity): "entities"},
    "An entity and its neighbours.",
)
SearchResult = shape("SearchResult", {str: "query", types.Method: "method", many(SearchHit): "hits"}, "Best first.")

# Failures and events

_PROBLEM: dict[Any, str] = {str: "code message stage hint request_id", bool: "retryable"}
Problem = shape("Problem", _PROBLEM, "The format of every error.")
ThinkingEvent = shape("ThinkingEvent", {str: "step text"}, "A stage has started; `text` can be shown to users.")
SourcesEvent = shape(
    "SourcesEvent", {many(Citation): "citations"}, "The passages used for the answer; markers may still change."
)
ContentEvent = shape("ContentEvent", {str: "token"})
VerificationEvent = shape(
    "VerificationEvent", {str: "status", list[str]: "notes"}, "`status` is `checking`, then the result."
)
ReplaceEvent = shape("ReplaceEvent", {str: "content reason"}, "Replaces all content so far; more may follow.")
DoneEvent = shape("DoneEvent", {Answer: "answer", str: "traceUrl"})
ErrorEvent = shape("ErrorEvent", _PROBLEM | {NotRequired[str]: "trace_id"}, "The stream ends here.")

# Analytics

DayFigures = shape(
    "DayFigures", {str: "day", int: "questions abstained failed model_failed cost_unknown", float: "cost_usd"}
)
Percentiles = shape("Percentiles", {int: "count", float | None: "p50_ms p95_ms"}, "Response time in milliseconds.")
Latency = shape("Latency", {Percentiles: "total not_cached", by_name(Percentiles): "stages"})
CacheFigures = shape("CacheFigures", {int: "exact semantic no unknown", Share: "exact_share semantic_share"})
CostFigures = shape("CostFigures", {float: "total_usd", int: "unknown"})
AbstentionFigures = shape("AbstentionFigures", {int: "answered abstained not_searched unknown", Share: "share"})
FailureFigures = shape("FailureFigures", {int: "failed", Share: "share", dict[str, int]: "codes"})
ModelFailure = shape("ModelFailure", {str: "model code", int: "answers"})
ModelFailures = shape(
    "ModelFailures",
    {int: "answers", Share: "share", many(ModelFailure): "models"},
    "Answers given despite a failed model.",
)
ConfidenceFigures = shape("ConfidenceFigures", {int: "high medium low unknown"})
ModelFigures = shape("ModelFigures", {str: "model", int: "questions"})
_JUDGED: dict[Any, str] = {int: "correct wrong", Share: "accuracy"}
CollectionAccuracy = shape("CollectionAccuracy", _JUDGED | {str: "collection"})
FeedbackFigures = shape("FeedbackFigures", _JUDGED | {many(CollectionAccuracy): "by_collection"})
Analytics = shape(
    "Analytics",
    {
        **{int: "days questions", str: "from to", many(DayFigures): "per_day", Latency: "latency"},
        **{CacheFigures: "cache", CostFigures: "cost", AbstentionFigures: "abstentions", FailureFigures: "failures"},
        **{ModelFailures: "model_failures", ConfidenceFigures: "confidence", many(ModelFigures): "models"},
        FeedbackFigures: "feedback",
    },
    "Covers `days` days, from `from` to `to`.",
)

# Settings, keys, health

Setting = shape(
    "Setting",
    {
        **{str: "name section from help allowed", Value: "value default", bool: "changed per_request"},
        **{list[str]: "choices", float | None: "minimum maximum", Literal["bool", "int", "float", "str"]: "kind"},
    },
    "A setting: its value, where it comes from, and the values it may have.",
)
SettingList = shape(
    "SettingList",
    {many(Setting): "settings", dict[str, dict[str, Value]]: "presets", list[str]: "notes"},
    "`notes`: stored values that cannot be used.",
)
ProviderState = shape(
    "ProviderState",
    {
        **{str: "name base_url default_base_url key", bool: "needs_key"},
        Literal["settings", "environment", "provider"]: "address_from",
        Literal["settings", "environment", ""]: "key_from",
    },
    "A provider with its current configuration. `key` shows only the last four characters.",
)
ModelState = shape(
    "ModelState",
    {
        **{str: "answer", dict[str, list[str]]: "roles", bool: "enabled"},
        **{many(ProviderState): "providers", list[str]: "allowed problems"},
    },
    "`roles`: the models of each role; for `answer`, fallbacks follow. `allowed`: models that a question may choose."
    " `problems`: configured models that cannot be used, and why.",
)
ModelNames = shape(
    "ModelNames",
    {list[str]: "models", bool: "is_listed"},
    "`is_listed` is false if the provider does not list its models.",
)
ModelReply = shape(
    "ModelReply",
    {str: "model reply", float: "ms", bool: "answers cites"},
    "`answers`: the reply is correct; `cites`: it cites the passage.",
)
KeyList = shape("KeyList", {list[Key]: "keys"})
NewKey = shape("NewKey", {Key: "key", str: "secret"}, "The secret is shown only here.")
ChangedKey = shape("ChangedKey", {Key: "key"})
RevokedKey = shape("RevokedKey", {Key: "revoked"})
RIGHTS: tuple[Action, ...] = ("add", "settings", "keys", "traces", "analytics", "clear_cache")
May = shape("May", {bool: " ".join(RIGHTS)}, "The caller's permissions.")
Me = shape("Me", {May: "may", bool: "signed_in model sees", list[str]: "models"}, own=get_type_hints(Caller))
SignedOut = shape("SignedOut", {bool: "signed_in"})
Health = shape("Health", {Literal["ok"]: "status"})
Readiness = shape(
    "Readiness",
    perhaps({str: "reason version redis files", int: "chunks process generation", many(str): "degraded"})
    | {Literal["ready", "not ready"]: "status"},
    "Details beyond `status` and `degraded` are for admins of the whole library.",
)

# OpenAI's interface

_COMPLETION: dict[Any, str] = {str: "id model", int: "created"}
Model = shape("Model", {str: "id owned_by", Literal["model"]: "object", int: "created"})
ModelList = shape("ModelList", {Literal["list"]: "object", many(Model): "data"})
EXTENSION = (
    *("id", "content", "short", "figures", "is_answered", "claims", "citations", "sources"),
    *("related_documents", "confidence"),
    *("sufficiency", "verification", "suggested_questions", "corrected_question", "standalone_question", "model"),
    *("cached", "trace_id", "notes"),
)
Extension = shape(
    "Extension",
    {},
    "What does not fit OpenAI's format: the final text and its citations.",
    {name: get_type_hints(Answer)[name] for name in EXTENSION},
)
CompletionMessage = shape(
    "CompletionMessage", {Literal["assistant"]: "role", str: "content", None: "refusal", Extension: "refdesk"}
)
CompletionChoice = shape(
    "CompletionChoice", {int: "index", CompletionMessage: "message", Literal["stop"]: "finish_reason", None: "logprobs"}
)
Completion = shape(
    "Completion",
    _COMPLETION | {Literal["chat.completion"]: "object", many(CompletionChoice): "choices", CompletionUsage: "usage"},
)
Delta = shape("Delta", perhaps({Literal["assistant"]: "role", str: "content"}))
ChunkChoice = shape(
    "ChunkChoice", {int: "index", Delta: "delta", Literal["stop"] | None: "finish_reason", None: "logprobs"}
)
CompletionChunk = shape(
    "CompletionChunk",
    _COMPLETION
    | {Literal["chat.completion.chunk"]: "object", many(ChunkChoice): "choices"}
    | perhaps({Extension: "refdesk", CompletionUsage: "usage"}),
    "`refdesk` comes with the last choice; `usage` follows if requested.",
)
CompletionError = shape(
    "CompletionError", {str: "message code", Literal["invalid_request_error", "api_error"]: "type", None: "param"}
)
CompletionProblem = shape(
    "CompletionProblem",
    _PROBLEM | {CompletionError: "error"},
    "An error, also in the format that OpenAI clients expect.",
)

# What a field means, by its name or by its component and name.
MEANINGS: dict[str, str] = {
    **dict.fromkeys(("created_at", "updated_at"), "ISO 8601, in UTC"),
    **dict.fromkeys(("accuracy", "share", "exact_share", "semantic_share"), "From 0 to 1; null: no data"),
    **dict.fromkeys(("Key.collections", "Me.collections"), "null: all"),
    **dict.fromkeys(("cost_unknown", "CostFigures.unknown"), "Questions with unknown cost"),
    **dict.fromkeys(("p50_ms", "p95_ms"), "null: no data"),
    **dict.fromkeys(("Stage.input", "Stage.output"), "Sizes"),
    "last_used": "ISO 8601, in UTC; empty: never",
    "owner": "Id of the key; empty: the local user",
    "size": "Bytes",
    "parent_id": "The document it is attached to",
    "date": "ISO date of its subject or creation; empty: unknown",
    "Document.error": "Why it could not be read",
    "Upload.upload_id": "Alias of `id`",
    "Upload.status": "`gone` (events only): removed from the list",
    "outcome": "added, replaced or unchanged, once it is ready",
    "Upload.reason": "Why it failed, or which document it duplicates",
    "seconds_left": "null: too early to say",
    "allowed": "Human-readable, such as `1 to 1000`",
    "per_request": "Whether it can be set per question",
    "Me.model": "Whether a model writes the answers; the mode `general` needs one",
    "Message.answer_id": "Empty for user messages",
    "AskedQuestion.error": "Error code",
    "Stage.skipped": "Why it did not run",
    "Stage.error": "Why it ended early",
    "lexical_score": "BM25",
    "cosine": "Of the question and the chunk",
    "LookedAt.score": "Final ranking score",
    "LookedAt.use": "kept: relevant but not used; dropped: not relevant",
    "Readiness.reason": "Why it is not ready",
    "Readiness.degraded": "Unavailable parts: without Redis, slower; without files, no page can be shown or added",
    "Readiness.files": "Why originals and uploads cannot be reached",
    "Readiness.redis": "Why Redis is unavailable",
    "Extension.notes": "Notes for the reader about how the answer was produced",
}
