"""What comes back of asking and searching? Conversations, events and traces as types; response_shapes.py has the rest.

`Answer` and its parts are those of refdesk.answer, with the keys of seeds.py beside them (schemas.py).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # typing's own is not read by pydantic before Python 3.12

from refdesk.answer import Answer, Cached, Citation, Claim, Confidence, Role, Source, Sufficiency, Verification
from refdesk.geometry import Box
from refdesk.serve.http.response_shapes import Owner, Time
from refdesk.serve.http.shapes import Problem
from refdesk.types import Kind, Method

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
