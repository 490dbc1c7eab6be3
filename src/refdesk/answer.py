"""The frozen values used when a question is asked; no logic.

Question → Query → Plan → Retrieved → Context → Answer

And the events that a streamed answer is made of, in the order a reader meets them:

    thinking {step} … sources {citations} … content {token} … verification {status} … replace {content} … done {answer}

An `error {code, message, stage, retryable, hint}` ends the stream in place of `done`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache, lru_cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

import orjson

from refdesk.errors import RefdeskError
from refdesk.types import Box, Chunk, Document, Hit, Range, Reading, Scope

Role = Literal["user", "assistant"]
Route = Literal["needs_retrieval", "conversational", "out_of_scope"]
Intent = Literal["factual", "summary", "comparison", "list", "analytical"]
Complexity = Literal["simple", "moderate", "complex"]
Strategy = str  # the name under which it is registered in `ask/strategies`
Level = Literal["basic", "standard", "enhanced", "maximum"]
Mode = Literal["chat", "general", "agent", "report", "vision"]
ResponseMode = Literal["quick", "standard", "thorough"]
Verdict = Literal["supported", "partly", "unsupported", "contradicted"]
ConfidenceLevel = Literal["high", "medium", "low"]
VerificationStatus = Literal["off", "verified", "disputed", "reconciled", "failed"]
Cached = Literal["no", "exact", "semantic"]
Resolution = Literal["full", "sentences", "summary"]
EVERYTHING = Scope()
CHANCE_DIGITS, SCORE_DIGITS = 3, 4  # behind the point, of what is shown of chances and of scores


@dataclass(frozen=True, slots=True)
class Image:
    """A picture in a message."""

    data: bytes = field(repr=False)
    media_type: str = "image/png"


Part = str | Image


@dataclass(frozen=True, slots=True, init=False)
class Turn:
    """One message of a conversation: texts and pictures, in their order. `Turn("user", "Who?")` is one of a text."""

    role: Role
    parts: tuple[Part, ...]

    def __init__(self, role: Role, content: str | Sequence[Part]) -> None:
        object.__setattr__(self, "role", role)
        object.__setattr__(self, "parts", (content,) if isinstance(content, str) else tuple(content))

    @property
    def content(self) -> str:
        """What is said in words."""
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(part for part in self.parts if isinstance(part, Image))


@dataclass(frozen=True, slots=True)
class Question:
    """What a caller asks, checked and resolved; nothing of it is understood yet."""

    text: str
    scope: Scope = EVERYTHING
    level: Level = "standard"
    mode: Mode = "chat"
    response_mode: ResponseMode = "quick"
    history: tuple[Turn, ...] = ()  # handed in by the caller; else that of `conversation_id`
    conversation_id: str = ""
    verbatim: bool = False  # no spell correction, no rewriting
    k: int | None = None
    max_context_chars: int | None = None
    use_cache: bool = True
    images: tuple[Image, ...] = ()  # attached to the question
    owner: str = ""  # whose conversations these are: the id of a key, "" on one's own machine


@dataclass(frozen=True, slots=True)
class Hints:
    """What an intent asks of the search and of the prompt; seed 001 step 4."""

    top_k: int = 10
    use_mmr: bool = False
    use_reasoning: bool = False
    template: Intent = "factual"


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A question understood: corrected, made to stand alone, classified, embedded.

    `terms` are the distinct stems to search for; `parts` are the sides of a comparison, each to be searched for itself.
    `vector` is that of `standalone`, or of `beside` where a follow-up may lean on something; both are searched then.
    """

    question: str  # as typed
    standalone: str  # what is searched for
    vector: Any  # NDArray[np.float32], unit length
    terms: tuple[str, ...]
    beside: str = ""  # a follow-up with what it may lean on; "" when it stands alone
    corrected: str = ""  # "" when spelling changed nothing
    corrections: tuple[tuple[str, str], ...] = ()  # (typed, searched for)
    route: Route = "needs_retrieval"
    intent: Intent = "factual"
    confidence: float = 0.0  # from 0 to 1, that it is of this intent
    complexity: Complexity = "moderate"
    hints: Hints = Hints()
    parts: tuple[str, ...] = ()
    number: float = 0.0  # the chance that a number is asked for
    catalogue: str = ""  # what of the list of documents it asks for: "list", "mention", "pages" …; "" when nothing

    @property
    def fullest(self) -> str:
        """The question with what it may lean on: what is found is judged by all of it."""
        return self.beside or self.standalone

    @property
    def reading(self) -> dict[str, Any]:
        """What the trace says of it."""
        return {
            "route": self.route,
            "intent": self.intent,
            "confidence": self.confidence,
            "complexity": self.complexity,
            "terms": len(self.terms),
            "corrections": len(self.corrections),
            "parts": len(self.parts),
            "beside": self.beside,
            "catalogue": self.catalogue,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be searched, how deep, and what will be checked; `skipped` is what was wished for and cannot be."""

    strategy: Strategy
    k: int
    candidates: int
    rerank: bool = True
    read: bool = True  # the best passages by a reader
    check_relevance: bool = True
    use_mmr: bool = False
    reasoning: bool = False
    template: Intent = "factual"
    use_llm: bool = False
    verify: bool = False
    reconcile: bool = False
    ask_verifier: bool = True  # False: a second model costs too much; the built-in check costs nothing and stays
    ask_reconciler: bool = True
    house_rules: str = ""  # of the library and of the collections that are read
    engines: tuple[Strategy, ...] = ()  # searched beside `strategy`; what all of them find is joined by rank
    drafts: int = 1  # written by the model; of several, what two say stays
    thinking: int = 0  # tokens that a model may think before it writes, where it can be told so
    skipped: tuple[tuple[str, str], ...] = ()  # (what, why)

    @property
    def sizes(self) -> dict[str, Any]:
        fields = {"strategy": self.strategy, "k": self.k, "candidates": self.candidates}
        return fields | ({"engines": list(self.engines)} if self.engines else {})


@dataclass(frozen=True, slots=True, eq=False)
class Retrieved:
    """What a search gave: the hits to be read, best first, and everything that was looked at.

    `sentence_vectors`: int8 rows per chunk id, a unit vector times 127 for each sentence; `idf`: weights of the terms.
    """

    hits: tuple[Hit, ...]
    considered: tuple[Hit, ...]
    sentence_vectors: Mapping[int, Any]
    idf: Mapping[str, float]
    preferred_documents: tuple[str, ...] = ()  # ids that the question names
    named_otherwise: frozenset[str] = frozenset()  # stems of the question that rows of tables have other words for
    neighbours: Mapping[int, Sequence[Chunk]] = field(default_factory=dict)  # by the id of a hit's chunk
    readings: Mapping[int, Reading] = field(default_factory=dict)  # by the id of a chunk that a reader has read
    key_sentences: tuple[tuple[int, int], ...] = ()  # (chunk id, sentence) that sum up the document that is named
    key_titles: tuple[str, ...] = ()  # of the section of each key sentence, where they are given section by section
    others: tuple[Any, ...] = ()  # `ChunkSummary` of what a survey does not read in full, nearest first

    @property
    def sizes(self) -> dict[str, Any]:
        return {"hits": len(self.hits), "considered": len(self.considered)}


@dataclass(frozen=True, slots=True)
class Passage:
    """A numbered hit and its neighbours; `text` is what is read, the sentences of `chunks` are what can be cited."""

    number: int
    hit: Hit
    chunks: tuple[Chunk, ...]
    text: str
    resolution: Resolution = "full"

    @property
    def document(self) -> Document:
        return self.hit.document

    @property
    def pages(self) -> tuple[int, ...]:
        return tuple(sorted({page for chunk in self.chunks for page in chunk.pages}))


@dataclass(frozen=True, slots=True)
class Context:
    """The numbered passages and the text a model is given of them; `citations` where they were asked for."""

    passages: tuple[Passage, ...]
    text: str
    token_count: int
    dropped: int = 0  # passages that found no room
    is_too_small: bool = False  # not even the best one did: it may be quoted, but the text does not hold it
    pictures: tuple[Part, ...] = ()  # for a model that sees, each below a line that says which passage it belongs to
    citations: tuple[Citation, ...] = ()  # one for each passage

    @property
    def sizes(self) -> dict[str, Any]:
        return {"passages": len(self.passages), "context_tokens": self.token_count, "dropped": self.dropped}

    def passage(self, number: int) -> Passage | None:
        return self.passages[number - 1] if 1 <= number <= len(self.passages) else None


@dataclass(frozen=True, slots=True)
class Citation:
    """The evidence for a claim: the quoted sentence and its boxes. One per marker and sentence.

    `located` is false if only the page is known; `origin` is the range of the quote in the document's text, which
    locates it in formats without boxes.
    """

    marker: int
    document_id: str
    document_name: str
    chunk_id: int
    chunk_sequence: int
    heading_path: tuple[str, ...]
    page: int
    boxes: tuple[Box, ...]
    located: bool
    quote: str
    relevance_score: float  # how well its chunk answers the question: the score of the search, by which hits are ranked
    similarity_score: float  # the cosine of the question and the chunk
    origin: Range = (0, 0)
    url: str = ""
    support_score: float = 0.0  # how well it proves what cites it; 0 before the answer is written

    def to_dict(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__slots__}
        return fields | {"heading_path": list(self.heading_path), "boxes": [box.to_dict() for box in self.boxes]}


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the answer: characters `start..end` of its content, markers included, and its verdict.

    `citations` are indexes into `citations` of the answer: two claims may cite different sentences of one passage.
    """

    text: str  # without markers
    start: int
    end: int
    markers: tuple[int, ...]
    citations: tuple[int, ...]
    verdict: Verdict
    score: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A cited document; `markers` are the citations that refer to it."""

    document_id: str
    document_name: str
    title: str = ""
    pages: tuple[int, ...] = ()
    markers: tuple[int, ...] = ()
    collection: str = ""


@dataclass(frozen=True, slots=True)
class Confidence:
    """The confidence of an answer, and the reason for it."""

    score: float
    level: ConfidenceLevel
    reason: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """The same attribute with different values in two sources."""

    text: str
    markers: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Sufficiency:
    is_sufficient: bool
    coverage_score: float
    has_conflicts: bool = False
    conflicts: tuple[Conflict, ...] = ()
    missing_aspects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    status: VerificationStatus = "off"
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost; `cost_usd` is 0 for free models and None if the price is unknown."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = 0.0
    calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        known = self.cost_usd is not None and other.cost_usd is not None
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
            self.calls + other.calls,
        )


@dataclass(frozen=True, slots=True)
class Spent:
    """What the questions of the last day cost, and how many tokens models usually write."""

    usd: float = 0.0
    questions: int = 0  # of which the cost is known, those answered from the cache included
    lengths: Mapping[tuple[str, str], float] = field(default_factory=dict)  # (model, role) -> mean of its last calls


@dataclass(frozen=True, slots=True)
class FailedModel:
    """A model that failed to answer; `code` is the error code."""

    model: str
    code: str


@dataclass(frozen=True, slots=True)
class FigureCell:
    """A cell that a figure was read or computed from; `citation` is its index in the answer's `citations`, from 0."""

    text: str
    row_path: tuple[str, ...]
    column_path: tuple[str, ...]
    number: float | None
    unit: str
    scale: str
    period: str
    citation: int


@dataclass(frozen=True, slots=True)
class Figure:
    """A value read from table cells, or computed from them by `formula`: `label`: `value`.

    `table` is the part of the table to show: its first `head_rows` rows are column headings; `marked` are the positions
    (row, column) of the cells that were used.
    """

    label: str
    value: str
    number: float | None
    unit: str
    scale: str
    operation: str
    formula: str
    cells: tuple[FigureCell, ...]
    table: tuple[tuple[str, ...], ...]
    head_rows: int
    marked: tuple[tuple[int, int], ...]
    document_id: str
    table_number: int
    page: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer: text with [1] markers, and the evidence for every sentence."""

    id: str
    question: str
    content: str
    short: str = ""  # the thing itself that was asked for ("Marie Curie"); "" where none is known
    figures: tuple[Figure, ...] = ()  # what was read from tables or computed from their cells
    claims: tuple[Claim, ...] = ()
    citations: tuple[Citation, ...] = ()
    sources: tuple[Source, ...] = ()
    related_documents: tuple[Source, ...] = ()  # retrieved but not cited
    confidence: Confidence = Confidence(0.0, "low", "")
    sufficiency: Sufficiency = Sufficiency(is_sufficient=False, coverage_score=0.0)
    verification: Verification = Verification()
    suggested_questions: tuple[str, ...] = ()
    corrected_question: str = ""
    standalone_question: str = ""
    route: Route = "needs_retrieval"
    intent: Intent = "factual"
    intent_confidence: float = 0.0  # from 0 to 1
    strategy: Strategy = "hybrid"
    level: Level = "standard"
    mode: Mode = "chat"
    response_mode: ResponseMode = "quick"
    model: str = "extractive"
    usage: Usage = Usage()
    metrics: Mapping[str, float] = field(default_factory=dict)  # stage -> ms, and counts
    cached: Cached = "no"
    conversation_id: str = ""
    trace_id: str = ""
    settings_fingerprint: str = ""
    is_answered: bool = True  # False: the documents do not say it
    notes: tuple[str, ...] = ()  # what the reader should know of how it came about, in sentences
    failed_models: tuple[FailedModel, ...] = ()  # who was to write it, and did not
    stopped: bool = False  # the reader stopped it or left: `content` is what was written until then, not checked

    def to_dict(self) -> dict[str, Any]:
        # Written out: `dataclasses.asdict` copies every value, and takes as long as the rest of a cached answer.
        made = _fields(self)
        for name in ("claims", "sources", "related_documents", "failed_models"):
            made[name] = [_fields(entry) for entry in made[name]]
        made["figures"] = [
            _fields(figure) | {"cells": [_fields(cell) for cell in figure.cells]} for figure in self.figures
        ]
        for name in ("confidence", "verification", "usage"):
            made[name] = _fields(made[name])
        conflicts = [_fields(conflict) for conflict in self.sufficiency.conflicts]
        made["sufficiency"] = _fields(self.sufficiency) | {"conflicts": conflicts}
        return made | {"citations": [citation.to_dict() for citation in self.citations], "metrics": dict(self.metrics)}


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__slots__}


# Answers to bytes and back: JSON shaped like `Answer.to_dict()`, so that an interface can send the bytes as they are.

_NUMPY = orjson.OPT_SERIALIZE_NUMPY  # a score may still be a float of numpy's


def encode_answer(answer: Answer) -> bytes:
    """`orjson.loads(encode_answer(answer))` is `answer.to_dict()` with lists for tuples."""
    try:
        return orjson.dumps(answer, default=_plain, option=_NUMPY)
    except orjson.JSONEncodeError:
        # A model may send half of a surrogate pair, which no encoding takes.
        return orjson.dumps(_sound(answer.to_dict()), default=_plain, option=_NUMPY)


@lru_cache(maxsize=128)
def decode_answer(data: bytes) -> Answer:
    """The answer that was encoded; every tuple is a tuple again. The same question tends to come again and again."""
    return answer_from_dict(orjson.loads(data))


def answer_from_dict(packed: Mapping[str, Any]) -> Answer:
    """From `Answer.to_dict()`; what a newer version has written beside it is left out."""
    answer: Answer = _maker(Answer)(packed)
    return answer


@cache
def _maker(kind: Any) -> Callable[[Any], Any]:
    """How a value of this type is made of what JSON has for it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        make = _maker(inner[0])
        return tuple if make is _same else lambda packed: tuple(map(make, packed))
    if kind is Box:
        return lambda packed: Box(**packed)
    if not is_dataclass(kind):
        return _same
    made: Any = kind
    hints = get_type_hints(kind)
    makers = [(field.name, _maker(hints[field.name])) for field in fields(kind)]
    return lambda packed: made(**{name: make(packed[name]) for name, make in makers if name in packed})


def _same(packed: Any) -> Any:
    return packed


def _plain(value: Any) -> Any:
    """What orjson does not know: boxes are named tuples, metrics may be any mapping."""
    if isinstance(value, Box):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple | frozenset | set):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no part of an answer")


def _sound(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return {_sound(name): _sound(item) for name, item in value.items()}
    return [_sound(element) for element in value] if isinstance(value, list | tuple) else value


# --- events: what a streamed answer is made of ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Thinking:
    """A stage has begun; `text` is for people: "Searching 312 documents"."""

    step: str
    text: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"type": "thinking", "data": {"step": self.step, "text": self.text}}


@dataclass(frozen=True, slots=True)
class Sources:
    """What the answer will be written from; the markers are those of the passages and may still change."""

    citations: tuple[Citation, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"type": "sources", "data": {"citations": [citation.to_dict() for citation in self.citations]}}


@dataclass(frozen=True, slots=True)
class Content:
    token: str

    def to_dict(self) -> dict[str, Any]:
        return {"type": "content", "data": {"token": self.token}}


@dataclass(frozen=True, slots=True)
class Verifying:
    """`status` is checking, then what came of it."""

    status: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"type": "verification", "data": {"status": self.status, "notes": list(self.notes)}}


@dataclass(frozen=True, slots=True)
class Replace:
    """All content so far is void; this stands in its place. More content may follow."""

    content: str
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"type": "replace", "data": {"content": self.content, "reason": self.reason}}


@dataclass(frozen=True, slots=True)
class Done:
    answer: Answer

    def to_dict(self) -> dict[str, Any]:
        return {"type": "done", "data": {"answer": self.answer.to_dict()}}


@dataclass(frozen=True, slots=True)
class Failed:
    """The stream ends here; `error` says at which stage, whether to try again, and what to do."""

    error: RefdeskError
    trace_id: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {"type": "error", "data": self.error.to_dict() | {"trace_id": self.trace_id}}


Event = Thinking | Sources | Content | Verifying | Replace | Done | Failed
