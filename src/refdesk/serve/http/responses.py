"""What comes back? Every JSON answer of the service as a type: OpenAPI's components, and so the names and the types of
generated clients, are made of these (schemas.py), and the examples beside the routes are checked against them.

Here is what comes back of documents, settings and keys, and the figures; what comes of asking is in answer_shapes.py.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # typing's own is not read by pydantic before Python 3.12

from refdesk import access
from refdesk.answer import Answer, Cached, Citation, Claim, Confidence, Role, Source, Sufficiency, Verification
from refdesk.serve.http.requests import Problem
from refdesk.types import Box, Kind, Method, Status

Time = Annotated[str, Field(description="ISO 8601, in UTC")]
PerhapsTime = Annotated[str, Field(description="ISO 8601, in UTC; empty when it has not happened")]
Share = Annotated[float | None, Field(description="From 0 to 1; null when there is nothing to count")]
Owner = Annotated[str, Field(description="The id of the key; empty for who sits at the machine")]
Collections = Annotated[list[str] | None, Field(description="null: every one")]
Value = bool | int | float | str

# A key of this name cannot be written as an attribute.
_From = TypedDict("_From", {"from": str})

# documents


class Document(TypedDict):
    """One file that was added."""

    id: str
    name: str
    collection: str
    content_hash: str
    status: Status
    title: str
    format: str
    language: str
    size: Annotated[int, Field(description="Bytes")]
    page_count: int
    chunk_count: int
    parent_id: Annotated[str | None, Field(description="The document that it was attached to")]
    date: Annotated[str, Field(description="The ISO date that it speaks of or was made on; empty when unknown")]
    metadata: dict[str, str]
    error: Annotated[str, Field(description="Why it could not be read")]
    notes: list[str]
    created_at: Time
    updated_at: Time
    has_page_images: bool


class DocumentPage(TypedDict):
    """Some of the documents; `total` counts all that fit the request."""

    documents: list[Document]
    total: int
    limit: int
    offset: int


class MovedDocuments(TypedDict):
    documents: list[Document]


class DeletedDocuments(TypedDict):
    """The ids of what is gone."""

    deleted: list[str]


class Deleted(TypedDict):
    """The id of what is gone."""

    deleted: str


class Word(TypedDict):
    """Characters `start..end` of the page's text, and their place in per cent of the page from its top left."""

    start: int
    end: int
    line: int
    x: float
    y: float
    width: float
    height: float


class PageText(TypedDict):
    """A page's text; `start` is its place in the document's text, width and height are in points."""

    document_id: str
    page: int
    label: str
    start: int
    width: float
    height: float
    ocr: bool
    text: str
    words: list[Word]


class Collection(TypedDict):
    name: str
    documents: int
    may_edit: bool


class CollectionList(TypedDict):
    collections: list[Collection]


class Upload(TypedDict):
    """A file that was handed in, and how far it has come; `upload_id` is its `id`."""

    id: str
    upload_id: str
    name: str
    collection: str
    status: Annotated[
        Literal["pending", "processing", "ready", "failed", "gone"],
        Field(description="`gone` is said by an event, when it was taken off the list"),
    ]
    size: Annotated[int, Field(description="Bytes")]
    url: str
    metadata: dict[str, str]
    document_id: str
    outcome: Annotated[str, Field(description="added, replaced or unchanged, once it is ready")]
    reason: Annotated[str, Field(description="Why it failed, or what it is the same as")]
    pages_done: int
    pages_total: int
    chunks_done: int
    chunks_total: int
    seconds_left: Annotated[float | None, Field(description="null: too early to say")]
    created_at: Time
    updated_at: Time


class UploadList(TypedDict):
    uploads: list[Upload]


class FailedExample(TypedDict):
    name: str
    reason: str


class AddedExamples(TypedDict):
    added: int
    failed: list[FailedExample]
    waiting: int
    collection: str
    uploads: list[Upload]


# figures


class DayFigures(TypedDict):
    day: str
    questions: int
    abstained: int
    failed: int
    model_failed: int
    cost_usd: float
    cost_unknown: Annotated[int, Field(description="Questions whose price is not known")]


class Percentiles(TypedDict):
    """Milliseconds that somebody did wait; null when nobody did."""

    count: int
    p50_ms: float | None
    p95_ms: float | None


class Latency(TypedDict):
    total: Percentiles
    not_cached: Percentiles
    stages: dict[str, Percentiles]


class CacheFigures(TypedDict):
    exact: int
    semantic: int
    no: int
    unknown: int
    exact_share: Share
    semantic_share: Share


class CostFigures(TypedDict):
    total_usd: float
    unknown: Annotated[int, Field(description="Questions whose price is not known")]


class AbstentionFigures(TypedDict):
    answered: int
    abstained: int
    not_searched: int
    unknown: int
    share: Share


class FailureFigures(TypedDict):
    failed: int
    share: Share
    codes: dict[str, int]


class FailedModel(TypedDict):
    model: str
    code: str
    answers: int


class ModelFailures(TypedDict):
    """Answers that were given although a model did not do its part."""

    answers: int
    share: Share
    models: list[FailedModel]


class ConfidenceFigures(TypedDict):
    high: int
    medium: int
    low: int
    unknown: int


class ModelFigures(TypedDict):
    model: str
    questions: int


class CollectionAccuracy(TypedDict):
    collection: str
    correct: int
    wrong: int
    accuracy: Share


class FeedbackFigures(TypedDict):
    correct: int
    wrong: int
    accuracy: Share
    by_collection: list[CollectionAccuracy]


class Analytics(_From):
    """The last `days`, `from` the first `to` the last of them."""

    days: int
    to: str
    questions: int
    per_day: list[DayFigures]
    latency: Latency
    cache: CacheFigures
    cost: CostFigures
    abstentions: AbstentionFigures
    failures: FailureFigures
    model_failures: ModelFailures
    confidence: ConfidenceFigures
    models: list[ModelFigures]
    feedback: FeedbackFigures


# settings, keys, health


class Setting(_From):
    """A setting as it is now, where that comes from, and what it may be."""

    name: str
    section: str
    value: Value
    default: Value
    changed: bool
    help: str
    allowed: Annotated[str, Field(description="For people: `1 to 1000`")]
    choices: list[str]
    minimum: float | None
    maximum: float | None
    kind: Literal["bool", "int", "float", "str"]
    per_request: Annotated[bool, Field(description="Whether a question may bring its own")]


class SettingList(TypedDict):
    """`notes` say which stored values cannot be used."""

    settings: list[Setting]
    presets: dict[str, dict[str, Value]]
    notes: list[str]


class ProviderState(TypedDict):
    """A provider as it would be reached now. `key` is its last four characters, never the whole of it."""

    name: str
    base_url: str
    default_base_url: str
    address_from: Literal["settings", "environment", "provider"]
    needs_key: bool
    key: str
    key_from: Literal["settings", "environment", ""]


class ModelState(TypedDict):
    """`problems` are sentences about models that are named and cannot be used."""

    answer: str
    enabled: bool
    providers: list[ProviderState]
    problems: list[str]


class ModelNames(TypedDict):
    """`is_listed` is false where the provider keeps no list."""

    models: list[str]
    is_listed: bool


class ModelReply(TypedDict):
    model: str
    reply: str
    ms: float


class Key(TypedDict):
    """A key without its secret."""

    id: str
    name: str
    role: access.Role
    collections: Collections
    created_at: Time
    last_used: PerhapsTime


class KeyList(TypedDict):
    keys: list[Key]


class NewKey(TypedDict):
    """The secret is here and nowhere else."""

    key: Key
    secret: str


class ChangedKey(TypedDict):
    key: Key


class RevokedKey(TypedDict):
    revoked: Key


class May(TypedDict):
    """What the caller may do."""

    add: bool
    settings: bool
    keys: bool
    traces: bool
    analytics: bool
    clear_cache: bool


class Me(TypedDict):
    id: Owner
    name: str
    role: access.Role
    collections: Collections
    signed_in: bool
    may: May
    model: Annotated[bool, Field(description="whether a model writes the answers; the mode general needs one")]


class SignedOut(TypedDict):
    signed_in: bool


class Health(TypedDict):
    status: Literal["ok"]


class Readiness(TypedDict):
    """All but the status is for admins of the whole library."""

    status: Literal["ready", "not ready"]
    reason: NotRequired[Annotated[str, Field(description="Why it is not ready")]]
    version: NotRequired[str]
    chunks: NotRequired[int]
    process: NotRequired[int]
    generation: NotRequired[int]


# What comes back of asking and searching? Conversations, events and traces as types; response_shapes.py has the rest.

# asking


class Cleared(TypedDict):
    cleared: bool


class Conversation(TypedDict):
    id: str
    title: str
    owner: Owner
    message_count: int
    created_at: Time
    updated_at: Time


class ConversationList(TypedDict):
    conversations: list[Conversation]


class Message(TypedDict):
    """`answer_id` is empty for what a person said."""

    key: int
    role: Role
    content: str
    answer_id: str
    created_at: Time


class Running(TypedDict):
    """A question that is being answered, and the stream of its events."""

    stream: str
    question: str


class Stopped(TypedDict):
    stopped: bool


class MessageList(TypedDict):
    messages: list[Message]
    running: Running | None


class AskedQuestion(TypedDict):
    """A question that was asked, without its answer; `error` is the code of what ended it."""

    id: str
    question: str
    conversation_id: str
    owner: Owner
    collections: list[str]
    created_at: Time
    error: str


class AskedList(TypedDict):
    answers: list[AskedQuestion]


class Stage(TypedDict):
    """One stage as it ran; `input` and `output` are sizes of what went in and came out."""

    name: str
    depth: int
    started_ms: float
    took_ms: float
    input: dict[str, Any]
    output: dict[str, Any]
    skipped: Annotated[str, Field(description="Why it did not run")]
    error: Annotated[str, Field(description="Why it ended early")]
    cost_usd: float


class LookedAt(TypedDict):
    """A chunk that a search gave. `score` is what it was ranked by in the end."""

    chunk_id: int
    document_id: str
    document_name: str
    page: int
    heading_path: list[str]
    lexical_score: Annotated[float, Field(description="BM25")]
    cosine: Annotated[float, Field(description="of the question and the chunk")]
    score: float
    use: Annotated[
        Literal["cited", "read", "kept", "dropped"],
        Field(description="kept: good enough, but nothing was written or there was no room; dropped: too far off"),
    ]


class Trace(TypedDict):
    """How an answer came about: its stages in the order they began, and what was looked at, the best first."""

    id: str
    total_ms: float
    stages: list[Stage]
    passages: list[LookedAt]


class Feedback(TypedDict):
    answer_id: str
    owner: Owner
    verdict: Literal["correct", "wrong"]
    correction: str
    created_at: Time


# searching


class Line(TypedDict):
    """Characters `start..end` of a chunk stand on this page, in this box where the format has pages."""

    start: int
    end: int
    page: int
    box: Box | None


class SearchHit(TypedDict):
    """A passage with its place and its true scores; the last three are addresses where it can be looked at."""

    document_id: str
    document_name: str
    chunk_id: int
    chunk_sequence: int
    kind: Kind
    heading_path: list[str]
    page: int
    pages: list[int]
    boxes: list[Box]
    text: str
    lexical_score: float
    cosine: float
    score: float
    collection: str
    title: str
    date: str
    lines: list[Line]
    page_text: str
    page_image: str | None
    figure: str | None


class SearchResult(TypedDict):
    """The best first."""

    query: str
    method: Method
    hits: list[SearchHit]


# what happens while an answer is made: the data of each event


class ThinkingEvent(TypedDict):
    """A stage has begun; `text` is for people."""

    step: str
    text: str


class SourcesEvent(TypedDict):
    """What the answer will be written from; the markers may still change."""

    citations: list[Citation]


class ContentEvent(TypedDict):
    token: str


class VerificationEvent(TypedDict):
    """`status` is checking, then what came of it."""

    status: str
    notes: list[str]


class ReplaceEvent(TypedDict):
    """All content so far is void; this stands in its place, and more content may follow."""

    content: str
    reason: str


class DoneEvent(TypedDict):
    answer: Answer
    traceUrl: str


class ErrorEvent(Problem):
    """The stream ends here."""

    trace_id: str = ""


# OpenAI's interface


class Model(TypedDict):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(TypedDict):
    object: Literal["list"]
    data: list[Model]


class Extension(TypedDict):
    """What OpenAI's shape has no place for: the final text, and what proves it."""

    id: str
    content: str
    is_answered: bool
    claims: list[Claim]
    citations: list[Citation]
    sources: list[Source]
    related_documents: list[Source]
    confidence: Confidence
    sufficiency: Sufficiency
    verification: Verification
    suggested_questions: list[str]
    corrected_question: str
    standalone_question: str
    model: str
    cached: Cached
    trace_id: str
    notes: Annotated[list[str], Field(description="What the reader should know of how it came about")]


class CompletionMessage(TypedDict):
    role: Literal["assistant"]
    content: str
    refusal: None
    refdesk: Extension


class CompletionChoice(TypedDict):
    index: int
    message: CompletionMessage
    finish_reason: Literal["stop"]
    logprobs: None


class CompletionUsage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Completion(TypedDict):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage


class Delta(TypedDict):
    role: NotRequired[Literal["assistant"]]
    content: NotRequired[str]


class ChunkChoice(TypedDict):
    index: int
    delta: Delta
    finish_reason: Literal["stop"] | None
    logprobs: None


class CompletionChunk(TypedDict):
    """`refdesk` comes with the last choice; `usage` after it, when it is asked for."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    refdesk: NotRequired[Extension]
    usage: NotRequired[CompletionUsage]


class CompletionError(TypedDict):
    message: str
    type: Literal["invalid_request_error", "api_error"]
    code: str
    param: None


class CompletionProblem(Problem):
    """A failure, and beside it the same as programs written for OpenAI's interface look for it."""

    error: CompletionError
