"""Every request as a type, validated before a route sees it and shown in OpenAPI with an example."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from refdesk.answer import Level, Mode, ResponseMode
from refdesk.errors import UsageError
from refdesk.ports import ModelRole
from refdesk.types import KINDS, Method

if TYPE_CHECKING:
    KnownKind = str
else:
    KnownKind = Literal[tuple(KINDS)]

LONGEST_QUERY = 1000  # characters of a question to /api/query (seed 002); elsewhere query.max_characters, 8,000
Text = Annotated[str, Field(max_length=100_000)]
Name = Annotated[str, Field(min_length=1, max_length=1000)]
MOST_NAMED = 5  # unknown fields that are named
Names = Name | Annotated[list[Name], Field(max_length=1000)]


def _sound(name: str) -> str:
    if not name.isprintable() or (name and not name.strip()):
        raise ValueError("a conversation id cannot contain invisible characters")
    if "/" in name or name in (".", ".."):  # no address would lead to /api/conversations/ID
        raise ValueError("a conversation id cannot contain '/' or be '.' or '..'")
    return name


ConversationId = Annotated[str, Field(max_length=80), AfterValidator(_sound)]  # the length is the store's


UNKNOWN_FIELD = "unknown_field"  # observe.py makes 422 of it
# Parameters of OpenAI that mean nothing here: clients send them, so they are accepted and ignored.
OPENAI = frozenset(
    (
        *("audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "metadata"),
        *("modalities", "moderation", "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key"),
        *("prompt_cache_options", "prompt_cache_retention", "reasoning_effort", "response_format"),
        *("safety_identifier", "seed", "service_tier", "stop", "store", "tool_choice", "tools", "top_logprobs"),
        *("top_p", "user", "verbosity", "web_search_options"),
    )
)


class Shape(BaseModel):
    """An unknown field is an error: whoever sends it expects it to do something. "5" is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True)
    ignored: ClassVar[frozenset[str]] = frozenset()  # accepted and left out
    spelled: ClassVar[Mapping[str, str]] = {}  # as other designs call a field (docs/seeds.md) -> its name here

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        """Names all unknown fields at once, and the known ones."""
        if not isinstance(value, dict) or cls.model_config.get("extra") != "forbid":
            return value
        value, known = {name: item for name, item in value.items() if name not in cls.ignored}, list(cls.model_fields)
        for name in [name for name in value if name in cls.spelled]:
            if cls.spelled[name] in value:
                both = f"'{name}' and '{cls.spelled[name]}' are the same field; send only one of them"
                raise PydanticCustomError("value_error", "{message}", {"message": both})
            value[cls.spelled[name]] = value.pop(name)
        if unknown := [name for name in value if name not in known]:
            raise PydanticCustomError(UNKNOWN_FIELD, "{message}", {"message": _unknown(unknown, known)})
        return value


def _unknown(names: list[Any], known: list[str]) -> str:
    """`'topk' is not a field of this request (did you mean 'top_k'?); it may have …`."""
    quoted = []
    for name in (str(name)[:60] for name in names[:MOST_NAMED]):  # comparing is slow
        near = get_close_matches(name, known, 1, 0.75)
        quoted.append(f"'{name}' (did you mean '{near[0]}'?)" if near else f"'{name}'")
    are = "is not a field" if len(names) == 1 else "are not fields"
    listed = ", ".join(quoted) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    return f"{listed} {are} of this request; known fields: {', '.join(known)}"


SCOPE_NAMES = {"document_ids": "document", "documentIds": "document", "collection_name": "collection"}
ASK_NAMES = SCOPE_NAMES | {"topK": "top_k", "responseMode": "response_mode", "maxContextChars": "max_context_chars"}


class TurnIn(Shape):
    role: Literal["user", "assistant"]
    content: Text


class ImageIn(Shape):
    """A PNG, JPEG, GIF or WebP image; the type is detected from the content."""

    data: Annotated[str, Field(min_length=1, max_length=4_000_000, description="In base64, or a `data:` URL.")]

    @property
    def content(self) -> bytes:
        return picture(self.data)


def picture(text: str) -> bytes:
    """`data:image/png;base64,iVBO…` or the base64 alone -> its bytes."""
    head, comma, rest = text.partition(",")
    if not comma or not head.startswith("data:"):
        rest = text
    try:
        return b64decode("".join(rest.split()), validate=True)
    except ValueError:
        raise UsageError("the image is not valid base64", hint="send its bytes in base64, or as a data: URL") from None


class ScopeFields(Shape):
    """What may be searched."""

    collection: Names | None = Field(None, description="Only these collections and their subcollections.")
    document: Names | None = Field(None, description="Only these documents, by id or name; alias `document_ids`.")
    kind: KnownKind | list[KnownKind] | None = Field(None, description="Only chunks of these kinds.")
    pages: Annotated[list[Annotated[int, Field(ge=1, le=1_000_000)]], Field(min_length=2, max_length=2)] | None = Field(
        None, description="First and last page."
    )
    date_from: Annotated[str, Field(max_length=40)] = ""
    date_to: Annotated[str, Field(max_length=40)] = ""
    metadata: dict[str, str] | None = Field(None, description="Only documents with this metadata.")
    spelled = SCOPE_NAMES

    def scope(self) -> dict[str, Any]:
        """The same as keyword arguments of `desk.search` and `desk.ask`, without those that are not set."""
        fields = {name: getattr(self, name) for name in ScopeFields.model_fields}
        return _given(fields | {"pages": tuple(self.pages) if self.pages else None})


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


class AskFields(ScopeFields):
    """Fields that every question accepts."""

    top_k: (
        Annotated[int, Field(ge=1, le=1000, description="Number of chunks to retrieve; aliases `k` and `topK`.")] | None
    ) = None
    k: Annotated[int, Field(ge=1, le=1000)] | None = None
    max_context_chars: (
        Annotated[int, Field(ge=1, le=10_000_000, description="Maximum characters in the prompt.")] | None
    ) = None
    level: Level | None = Field(None, description="How thoroughly to search and check.")
    mode: Mode | ResponseMode | None = Field(None, description="How the question is answered, or a response mode.")
    response_mode: ResponseMode | None = Field(None, description="How the answer is checked; alias `responseMode`.")
    model: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="Model that writes the answer, one of `models` from /api/me."
    )
    images: Annotated[list[ImageIn], Field(max_length=4)] | None = Field(
        None, description="Images to consider along with the documents; for models that accept images."
    )
    conversation_id: ConversationId = Field("", description="Continues this conversation.")
    history: Annotated[list[TurnIn], Field(max_length=1000)] | None = Field(
        None, description="The conversation so far."
    )
    conversation_history: Annotated[list[TurnIn], Field(max_length=1000)] | None = None  # seed 000
    verbatim: bool = Field(False, description="No spelling correction, no rewriting.")
    cache: bool = Field(True, description="Allow answers from the cache.")
    settings: dict[str, bool | int | float | str] | None = Field(
        None, description="Settings for this question only; docs/settings.md marks those allowed."
    )
    spelled = ASK_NAMES

    def options(self) -> dict[str, Any]:
        """The keyword arguments of `desk.ask`, without those that are not set."""
        names = ("max_context_chars", "level", "mode", "response_mode", "model", "conversation_id", "settings")
        fields = {name: getattr(self, name) for name in names} | {"k": self.top_k or self.k}
        history = [(turn.role, turn.content) for turn in self.history or self.conversation_history or ()]
        fields |= {"images": [image.content for image in self.images or ()]}
        return self.scope() | _given(fields | {"history": history}) | {"verbatim": self.verbatim, "cache": self.cache}


Query = Annotated[str, Field(max_length=LONGEST_QUERY)]


class QueryRequest(AskFields):
    """A question, in one of three fields."""

    question: Query | None = None
    q: Query | None = Field(None, description="Alias of `question`.")
    query: Query | None = Field(None, description="Alias of `question`.")

    @property
    def text(self) -> str:
        return self.question or self.q or self.query or ""


LONGEST_SEARCH = 8000  # characters, as of a question to /api/chat
MOST_HITS = 100  # each comes with its whole text and a box for every line
Searched = Annotated[str, Field(max_length=LONGEST_SEARCH)]


class SearchRequest(ScopeFields):
    """What to search for, and where."""

    q: Searched | None = None
    query: Searched | None = Field(None, description="Alias of `q`.")
    k: Annotated[int, Field(ge=1, le=MOST_HITS, description="Number of hits; default: `rag.top_k`.")] | None = None
    method: Method = Field("hybrid", description="By words, by meaning, or both.")

    @property
    def text(self) -> str:
        return self.q or self.query or ""


class ChatRequest(AskFields):
    """A message in a conversation; without `session_id` (or `conversation_id`), a new conversation is started."""

    message: Text | None = None
    question: Text | None = None
    session_id: ConversationId = Field("", description="Alias of `conversation_id`.")
    collection_filter: Names | None = Field(None, description="Alias of `collection`.")
    folder_id: Name | None = Field(
        None, description="A subcollection of `collection_filter`, or a collection on its own."
    )
    intelligence_level: Level | None = Field(None, description="Alias of `level`.")
    temperature_override: Annotated[float, Field(ge=0.0, le=2.0)] | None = None
    enable_cot: bool | None = Field(None, description="Sets `answer.reasoning`.")
    ensemble_voting: bool | None = Field(
        None, description="Write three drafts and keep what they agree on; sets `answer.drafts`."
    )
    enable_verification: bool | None = Field(
        None, description="Check the relevance of chunks; also sets `response_mode` to standard (on) or quick (off)."
    )
    envelope: bool = Field(
        False,
        description="/api/chat/stream: wrap the data of each event as `{type, data}`, for clients without event names.",
    )

    @property
    def text(self) -> str:
        return self.message or self.question or ""

    def options(self) -> dict[str, Any]:
        options = super().options()
        toggles = {
            "answer.temperature": self.temperature_override,
            "answer.reasoning": self.enable_cot,
            "answer.drafts": None if self.ensemble_voting is None else 3 if self.ensemble_voting else 1,
            "rag.verification_enabled": self.enable_verification,
        }
        if settings := {name: value for name, value in toggles.items() if value is not None} | (self.settings or {}):
            options["settings"] = settings
        if self.enable_verification is not None:
            options.setdefault("response_mode", "standard" if self.enable_verification else "quick")
        if place := _narrowed(self.collection or self.collection_filter, self.folder_id):
            options["collection"] = place
        if level := self.level or self.intelligence_level:
            options["level"] = level
        if self.session_id:
            options["conversation_id"] = self.session_id
        return options


def _narrowed(collection: str | list[str] | None, folder: str | None) -> str | list[str] | None:
    """A folder lies in the collection that is named beside it, or is one itself."""
    if folder is None or collection is None:
        return folder or collection
    names = [collection] if isinstance(collection, str) else collection
    if any(f"{folder}/".startswith(f"{name}/") for name in names):
        return folder
    within = [name for name in names if name.startswith(f"{folder}/")]
    if not within:
        raise UsageError(f"the folder '{folder}' is not in '{', '.join(names)}'")
    return within


# what the other routes take


class TitleIn(Shape):
    title: Annotated[str, Field(min_length=1, max_length=1000)]


class FeedbackIn(Shape):
    answer_id: Name
    verdict: Literal["correct", "wrong"]
    correction: Text = ""


class PresetIn(Shape):
    name: Name


Address = Annotated[str, Field(max_length=2000, description="http://host:port/path; empty: the provider's default.")]
ApiKey = Annotated[str, Field(max_length=1000, description="Default: the key saved for this address.")]


class ConnectionFields(Shape):
    base_url: Address | None = None
    api_key: ApiKey | None = None


class ModelIn(ConnectionFields):
    """`base_url` and `api_key` are used instead of the saved ones."""

    model: Name


class ProviderIn(ConnectionFields):
    provider: Name


class ConnectIn(ProviderIn):
    """A provider's address and key, and the roles of its models; empty: no change."""

    model: Annotated[str, Field(max_length=1000)] = ""
    role: ModelRole = "answer"
    check: bool = Field(True, description="False: save without testing the model.")


class KeyIn(Shape):
    name: Name
    role: Literal["reader", "editor", "admin"] = "reader"
    collections: Annotated[list[Name], Field(max_length=1000)] | None = None


class KeyChange(Shape):
    """Omitted fields stay unchanged."""

    name: Name | None = None
    role: Literal["reader", "editor", "admin"] | None = None
    collections: Annotated[list[Name], Field(max_length=1000)] | None = Field(
        None, description="Only these collections and their subcollections; `null`: all."
    )


class SessionIn(Shape):
    key: Annotated[str, Field(min_length=1, max_length=1000)]


# OpenAI's interface


class Carried(Shape):
    """Clients send back what they were given, `refdesk` included, and parts of kinds that are not read here."""

    model_config = ConfigDict(extra="ignore")


class ImageUrl(Carried):
    url: Annotated[str, Field(max_length=4_000_000)] = ""


class ContentPart(Carried):
    type: str
    text: Text = ""
    image_url: ImageUrl | None = None


class ChatMessage(Carried):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Text | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.text)
        return self.content or ""

    @property
    def images(self) -> list[bytes]:
        parts = self.content if isinstance(self.content, list) else []
        addresses = [part.image_url.url for part in parts if part.image_url is not None]
        if any(not url.startswith("data:") for url in addresses):
            raise UsageError("images must be sent as data: URLs, not as web addresses", hint="send the image in base64")
        return [picture(url) for url in addresses]


class StreamOptions(Carried):
    include_usage: bool = False


class CompletionRequest(Shape):
    """The supported parts of OpenAI's request; `refdesk` takes the fields of /api/query."""

    model: Annotated[str, Field(max_length=200)] = "refdesk"
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=2000)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0.0, le=2.0)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = 1
    refdesk: AskFields | None = None
    ignored = OPENAI

    @model_validator(mode="after")
    def _asks(self) -> CompletionRequest:
        if not any(message.role == "user" for message in self.messages):
            raise ValueError("there is no user message")
        return self


# What may be sent about documents? The requests as OpenAPI shows them.

Metadata = Annotated[
    dict[Annotated[str, Field(max_length=200)], Annotated[str, Field(max_length=10_000)]], Field(max_length=100)
]

DocumentId = Annotated[str, Path(min_length=1, max_length=100, description="The document's id.")]
CollectionName = Annotated[str, Path(min_length=1, max_length=1000, description="Full path: `finance/2024`.")]
UploadId = Annotated[str, Path(min_length=1, max_length=100, description="The upload's id.")]


class UrlIn(Shape):
    url: Annotated[str, Field(min_length=1, max_length=2000)]
    collection: Annotated[str, Field(max_length=1000)] = ""
    metadata: Metadata | None = None


class ImportIn(Shape):
    chunks: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=10_000)]
    collection: Annotated[str, Field(max_length=1000)] = ""
    metadata: Metadata | None = None


class BackgroundIn(Shape):
    kind: Literal["summaries", "tree", "tree_summaries", "graph"]
    collection: Annotated[str, Field(max_length=1000)] = ""


class ChangeIn(Shape):
    name: Name | None = None
    collection: Name | None = None

    @model_validator(mode="after")
    def _changes(self) -> ChangeIn:
        if self.name is None and self.collection is None:
            raise ValueError("give a new name or a new collection")
        return self


class DocumentsIn(Shape):
    documents: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=100)]], Field(min_length=1, max_length=1000)
    ]


class MoveIn(DocumentsIn):
    collection: Name


class RenameIn(Shape):
    name: Name


class RetryIn(Shape):
    password: Annotated[str, Field(max_length=1000)] | None = None


# What /openapi.json shows of each
EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "QueryRequest": [{"question": "When is the price list revised?", "top_k": 6, "max_context_chars": 4000}],
    "SearchRequest": [{"q": "price list revised", "k": 5, "collection": "finance", "kind": "text"}],
    "ChatRequest": [
        {"message": "When is the price list revised?", "session_id": "tuesday", "intelligence_level": "standard"}
    ],
    "TitleIn": [{"title": "Moorings"}],
    "ImportIn": [
        {
            "chunks": [{"doc_id": "d1", "sequence_number": 1, "content_raw": "The anchor weighs 350 kg."}],
            "collection": "",
        }
    ],
    "BackgroundIn": [{"kind": "tree", "collection": ""}],
    "FeedbackIn": [{"answer_id": "4f1c…", "verdict": "wrong", "correction": "It is 350 kg."}],
    "PresetIn": [{"name": "quality"}],
    "ModelIn": [{"model": "ollama:qwen2.5:14b"}],
    "ProviderIn": [{"provider": "ollama", "base_url": "127.0.0.1:11434"}],
    "ConnectIn": [{"provider": "openai", "api_key": "sk-…", "model": "gpt-4o-mini"}],
    "KeyIn": [{"name": "anna", "role": "reader", "collections": ["finance"]}],
    "KeyChange": [{"role": "editor"}, {"collections": ["finance", "hr/2024"]}],
    "SessionIn": [{"key": "rd_…"}],
    "CompletionRequest": [
        {"model": "refdesk", "messages": [{"role": "user", "content": "When is the price list revised?"}]}
    ],
    "UrlIn": [{"url": "https://example.org/report.pdf", "collection": "finance/2024"}],
    "ChangeIn": [{"name": "prices.pdf", "collection": "finance/2024"}],
    "DocumentsIn": [{"documents": ["b4f2c6d1a0937e55"]}],
    "MoveIn": [{"documents": ["b4f2c6d1a0937e55"], "collection": "finance/2024"}],
    "RenameIn": [{"name": "finance/2024"}],
    "RetryIn": [{}, {"password": "sesame"}],
}
