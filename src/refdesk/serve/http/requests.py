"""What may be sent, and what comes back? The requests and responses as OpenAPI shows them, with examples."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from refdesk.answer import Level, Mode, ResponseMode
from refdesk.errors import UsageError
from refdesk.types import Kind, Method

LONGEST_QUERY = 1000  # characters of a question to /api/query (seed 002); elsewhere query.max_characters, 8,000
Text = Annotated[str, Field(max_length=100_000)]
Name = Annotated[str, Field(min_length=1, max_length=1000)]
MOST_NAMED = 5  # unknown fields that are named
Names = Name | Annotated[list[Name], Field(max_length=1000)]


def _sound(name: str) -> str:
    if not name.isprintable() or (name and not name.strip()):
        raise ValueError("a conversation's id has no invisible characters")
    if "/" in name or name in (".", ".."):  # no address would lead to /api/conversations/ID
        raise ValueError("a conversation's id has no '/', and is not '.' or '..'")
    return name


ConversationId = Annotated[str, Field(max_length=80), AfterValidator(_sound)]  # the length is the store's


UNKNOWN_FIELD = "unknown_field"  # errors.py makes 422 of it
# What OpenAI's interface knows and has no meaning here: every client may send it, so it is taken and left alone. Others
# are refused, as OpenAI itself does.
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
    """A field that is not known is an error: whoever sends it expects that it does something. "5" is not a number."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if cls.model_config.get("extra") == "forbid":
            refuse_unknown(value, list(cls.model_fields))
        return value


def refuse_unknown(value: Any, known: list[str]) -> None:
    """Says all that are unknown at once, and the names that are known."""
    if unknown := [name for name in value if name not in known] if isinstance(value, dict) else []:
        raise PydanticCustomError(UNKNOWN_FIELD, "{said}", {"said": _unknown(unknown, known)})


def _unknown(names: list[Any], known: list[str]) -> str:
    """`'topk' is not a field of this request (did you mean 'top_k'?); it may have …`."""
    asked = []
    for name in (str(one)[:60] for one in names[:MOST_NAMED]):  # comparing takes its time
        near = get_close_matches(name, known, 1, 0.75)
        asked.append(f"'{name}' (did you mean '{near[0]}'?)" if near else f"'{name}'")
    are = "is not a field" if len(names) == 1 else "are not fields"
    shown = ", ".join(asked) + (f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else "")
    return f"{shown} {are} of this request; it may have {', '.join(known)}"


class TurnIn(Shape):
    role: Literal["user", "assistant"]
    content: Text


class ScopeFields(Shape):
    """What may be searched."""

    collection: Names | None = Field(None, description="Only these collections and what lies below them.")
    document: Names | None = Field(None, description="Only these documents, by id or name.")
    kind: Kind | list[Kind] | None = Field(None, description="Only chunks of these kinds.")
    pages: Annotated[list[Annotated[int, Field(ge=1, le=1_000_000)]], Field(min_length=2, max_length=2)] | None = Field(
        None, description="First and last page."
    )
    date_from: Annotated[str, Field(max_length=40)] = ""
    date_to: Annotated[str, Field(max_length=40)] = ""
    metadata: dict[str, str] | None = Field(None, description="Only documents with these metadata.")

    def scope(self) -> dict[str, Any]:
        """The same as keyword arguments of `desk.search` and `desk.ask`; those that are not given stay away."""
        given: dict[str, Any] = {
            "collection": self.collection,
            "document": self.document,
            "kind": self.kind,
            "pages": tuple(self.pages) if self.pages else None,
            "date_from": self.date_from,
            "date_to": self.date_to,
            "metadata": self.metadata,
        }
        return {name: value for name, value in given.items() if value not in (None, "", [])}


class AskFields(ScopeFields):
    """What every question may say about itself."""

    top_k: Annotated[int, Field(ge=1, le=1000, description="Chunks to retrieve; `k` is the same.")] | None = None
    k: Annotated[int, Field(ge=1, le=1000)] | None = None
    max_context_chars: Annotated[int, Field(ge=1, le=10_000_000, description="Characters of the prompt.")] | None = None
    level: Level | None = Field(None, description="How much is done for an answer.")
    mode: Mode | ResponseMode | None = Field(None, description="Where the answer comes from; or a response mode.")
    response_mode: ResponseMode | None = Field(None, description="How an answer is checked.")
    conversation_id: ConversationId = Field("", description="Goes on with this conversation.")
    history: Annotated[list[TurnIn], Field(max_length=1000)] | None = Field(None, description="What was said before.")
    conversation_history: Annotated[list[TurnIn], Field(max_length=1000)] | None = None  # seed 000
    verbatim: bool = Field(False, description="No spelling correction, no rewriting.")
    cache: bool = Field(True, description="An answer that is known already may be given.")
    settings: dict[str, bool | int | float | str] | None = Field(
        None, description="Settings for this question; those marked so in docs/settings.md."
    )

    def options(self) -> dict[str, Any]:
        """The keyword arguments of `desk.ask`; those that are not given stay away."""
        given: dict[str, Any] = {
            "k": self.top_k or self.k,
            "max_context_chars": self.max_context_chars,
            "level": self.level,
            "mode": self.mode,
            "response_mode": self.response_mode,
            "conversation_id": self.conversation_id,
            "history": [(one.role, one.content) for one in self.history or self.conversation_history or ()],
            "settings": self.settings,
        }
        said = {name: value for name, value in given.items() if value not in (None, "", [])}
        return self.scope() | said | {"verbatim": self.verbatim, "cache": self.cache}


Query = Annotated[str, Field(max_length=LONGEST_QUERY)]


class QueryRequest(AskFields):
    """A question under any of three names."""

    question: Query | None = None
    q: Query | None = Field(None, description="The question, as seed 003 calls it.")
    query: Query | None = Field(None, description="The question, as seed 002 calls it.")

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"question": "When is the price list revised?", "top_k": 6, "max_context_chars": 4000}]
        }
    )

    @property
    def text(self) -> str:
        return self.question or self.q or self.query or ""


LONGEST_SEARCH = 8000  # characters, as of a question to /api/chat
MOST_HITS = 100  # each comes with its whole text and a box for every line
Searched = Annotated[str, Field(max_length=LONGEST_SEARCH)]


class SearchRequest(ScopeFields):
    """What to look for, under either name, and where."""

    q: Searched | None = None
    query: Searched | None = Field(None, description="The same as `q`.")
    k: Annotated[int, Field(ge=1, le=MOST_HITS, description="How many hits; `rag.top_k` if not said.")] | None = None
    method: Method = Field("hybrid", description="By words, by meaning, or both.")

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"q": "price list revised", "k": 5, "collection": "finance", "kind": "text"}]}
    )

    @property
    def text(self) -> str:
        return self.q or self.query or ""


class ChatRequest(AskFields):
    """A message of a conversation; `session_id` is `conversation_id`, a new one is begun when none is named."""

    message: Text | None = None
    question: Text | None = None
    session_id: ConversationId = Field("", description="The same as `conversation_id`.")
    collection_filter: Names | None = Field(None, description="The same as `collection`.")
    folder_id: Name | None = Field(None, description="A collection below `collection_filter`, or the only one.")
    intelligence_level: Level | None = Field(None, description="The same as `level`.")
    temperature_override: Annotated[float, Field(ge=0.0, le=2.0)] | None = None
    enable_cot: bool | None = Field(None, description="The setting `answer.reasoning`.")
    enable_verification: bool | None = Field(
        None, description="Relevance check of chunks; and `response_mode` standard when on, quick when off."
    )

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "message": "When is the price list revised?",
                    "session_id": "tuesday",
                    "intelligence_level": "standard",
                }
            ]
        }
    )

    @property
    def text(self) -> str:
        return self.message or self.question or ""

    def options(self) -> dict[str, Any]:
        said = super().options()
        toggles = {
            "answer.temperature": self.temperature_override,
            "answer.reasoning": self.enable_cot,
            "rag.verification_enabled": self.enable_verification,
        }
        if settings := {name: value for name, value in toggles.items() if value is not None} | (self.settings or {}):
            said["settings"] = settings
        if self.enable_verification is not None:
            said.setdefault("response_mode", "standard" if self.enable_verification else "quick")
        if place := _narrowed(self.collection or self.collection_filter, self.folder_id):
            said["collection"] = place
        if level := self.level or self.intelligence_level:
            said["level"] = level
        if self.session_id:
            said["conversation_id"] = self.session_id
        return said


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
    model_config = ConfigDict(json_schema_extra={"examples": [{"title": "Moorings"}]})


class FeedbackIn(Shape):
    answer_id: Name
    verdict: Literal["correct", "wrong"]
    correction: Text = ""
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"answer_id": "4f1c…", "verdict": "wrong", "correction": "It is 350 kg."}]}
    )


class PresetIn(Shape):
    name: Name
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "quality"}]})


Address = Annotated[str, Field(max_length=2000, description="http://host:port/path; empty: the provider's own.")]
ApiKey = Annotated[str, Field(max_length=1000, description="Not said: the one that is known for this address.")]


class ModelIn(Shape):
    """`base_url` and `api_key` are tried instead of those that are saved."""

    model: Name
    base_url: Address | None = None
    api_key: ApiKey | None = None
    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "ollama:qwen2.5:14b"}]})


class ProviderIn(Shape):
    provider: Name
    base_url: Address | None = None
    api_key: ApiKey | None = None
    model_config = ConfigDict(json_schema_extra={"examples": [{"provider": "ollama", "base_url": "127.0.0.1:11434"}]})


class ConnectIn(ProviderIn):
    """Address and key of a provider, and the model of it that is to write answers; without one, it stays as it is."""

    model: Annotated[str, Field(max_length=200)] = ""
    check: bool = Field(True, description="False: saved without asking the provider whether it works.")
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"provider": "openai", "api_key": "sk-…", "model": "gpt-4o-mini"}]}
    )


class KeyIn(Shape):
    name: Name
    role: Literal["reader", "editor", "admin"] = "reader"
    collections: Annotated[list[Name], Field(max_length=1000)] | None = None
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "anna", "role": "reader", "collections": ["finance"]}]}
    )


class KeyChange(Shape):
    """What is not named stays."""

    name: Name | None = None
    role: Literal["reader", "editor", "admin"] | None = None
    collections: Annotated[list[Name], Field(max_length=1000)] | None = Field(
        None, description="Only these and what lies below them; `null` is every one."
    )
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"role": "editor"}, {"collections": ["finance", "hr/2024"]}]}
    )


class SessionIn(Shape):
    key: Annotated[str, Field(min_length=1, max_length=1000)]
    model_config = ConfigDict(json_schema_extra={"examples": [{"key": "rd_…"}]})


# OpenAI's interface


class Carried(Shape):
    """Clients send back what they were given, `refdesk` included, and parts of kinds that are not read here."""

    model_config = ConfigDict(extra="ignore")


class ContentPart(Carried):
    type: str
    text: Text = ""


class ChatMessage(Carried):
    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Text | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.text)
        return self.content or ""


class StreamOptions(Carried):
    include_usage: bool = False


class CompletionRequest(Shape):
    """What of OpenAI's request is heard; `refdesk` takes the fields of /api/query. Its other parameters are taken."""

    model: Annotated[str, Field(max_length=200)] = "refdesk"
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=2000)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0.0, le=2.0)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    n: Annotated[int, Field(ge=1, le=1)] | None = 1
    refdesk: AskFields | None = None
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"model": "refdesk", "messages": [{"role": "user", "content": "When is the price list revised?"}]}
            ]
        }
    )

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if isinstance(value, dict):
            value = {name: one for name, one in value.items() if name not in OPENAI}
        refuse_unknown(value, list(cls.model_fields))
        return value

    @model_validator(mode="after")
    def _asks(self) -> CompletionRequest:
        if not any(one.role == "user" for one in self.messages):
            raise ValueError("there is no message of the user")
        return self


# What may be sent about documents? The requests as OpenAPI shows them.

Metadata = Annotated[
    dict[Annotated[str, Field(max_length=200)], Annotated[str, Field(max_length=10_000)]], Field(max_length=100)
]

DocumentId = Annotated[str, Path(min_length=1, max_length=100, description="The document's id.")]
CollectionName = Annotated[str, Path(min_length=1, max_length=1000, description="Its whole path: `finance/2024`.")]
UploadId = Annotated[str, Path(min_length=1, max_length=100, description="The upload's id.")]


class UrlIn(Shape):
    url: Annotated[str, Field(min_length=1, max_length=2000)]
    collection: Annotated[str, Field(max_length=1000)] = ""
    metadata: Metadata | None = None
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"url": "https://example.org/report.pdf", "collection": "finance/2024"}]}
    )


class ChangeIn(Shape):
    name: Name | None = None
    collection: Name | None = None
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "prices.pdf", "collection": "finance/2024"}]})

    @model_validator(mode="after")
    def _changes(self) -> ChangeIn:
        if self.name is None and self.collection is None:
            raise ValueError("name a new name or a new collection")
        return self


class DocumentsIn(Shape):
    documents: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=100)]], Field(min_length=1, max_length=1000)
    ]
    model_config = ConfigDict(json_schema_extra={"examples": [{"documents": ["b4f2c6d1a0937e55"]}]})


class MoveIn(DocumentsIn):
    collection: Name
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"documents": ["b4f2c6d1a0937e55"], "collection": "finance/2024"}]}
    )


class RenameIn(Shape):
    name: Name
    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "finance/2024"}]})


class RetryIn(Shape):
    password: Annotated[str, Field(max_length=1000)] | None = None
    model_config = ConfigDict(json_schema_extra={"examples": [{}, {"password": "sesame"}]})
