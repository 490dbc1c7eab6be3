"""Validates what callers pass in: names, scopes, texts and questions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import date as day
from typing import Any, TypeVar, get_args

from refdesk.answer import Image, Level, Mode, Question, ResponseMode, Role, Turn
from refdesk.errors import UsageError
from refdesk.records import NewText
from refdesk.settings import Settings
from refdesk.types import KINDS, Kind, Method, Range, Scope, Status

METHODS: tuple[Method, ...] = get_args(Method)
STATUSES: tuple[Status, ...] = get_args(Status)
IMAGE_FORMATS = ("png", "webp")
TEXT_FORMATS = ("text", "markdown", "html", "csv")
LEVELS: tuple[Level, ...] = get_args(Level)
MODES: tuple[Mode, ...] = get_args(Mode)
RESPONSE_MODES: tuple[ResponseMode, ...] = get_args(ResponseMode)
ROLES: tuple[Role, ...] = get_args(Role)

LONGEST_NAME = 500  # characters; file systems allow 255 bytes, names of texts may be paths
LONGEST_METADATA = 20_000  # characters; every list of documents carries them
# Control characters, and those that turn the order of letters about: "report\u202efdp.exe" looks like "reportexe.pdf".
HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

Names = str | Sequence[str] | None
History = Sequence[Turn | Mapping[str, str] | tuple[str, str]]
Choice = TypeVar("Choice", bound=str)


def names(value: Names) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


def checked_collections(value: Names) -> tuple[str, ...]:
    """The collections that a search is limited to.

    A name whose accents were typed as characters of their own also stands as it was typed: a library that was made
    before names were composed (see `checked_collection`) is searched by the names that it lists.
    """
    found: dict[str, None] = {}
    for path in names(value):
        for name in (checked_collection(path), _collection(path)):
            found[name] = None
    return tuple(found)


def checked_kinds(value: Kind | Sequence[Kind] | None) -> tuple[Kind, ...]:
    kinds: Sequence[Kind] = (value,) if isinstance(value, str) else tuple(value or ())
    for kind in kinds:
        one_of("kind", kind, KINDS)
    return tuple(kinds)


def one_of(what: str, value: Any, choices: Sequence[Choice]) -> Choice:
    if value not in choices:
        raise UsageError(f"there is no {what} '{value}'", hint=f"use one of {', '.join(choices)}")
    return value  # type: ignore[no-any-return]


def checked_pages(pages: Range | None) -> Range | None:
    if pages is not None and not 1 <= pages[0] <= pages[1]:
        raise UsageError(
            f"pages {pages[0]} to {pages[1]} is not a valid range", hint="pages count from 1, lower number first"
        )
    return pages


def checked_date(text: Any) -> str:
    """`2024-01-31` or nothing; a time of day is left out."""
    try:
        return day.fromisoformat(str(text)[:10]).isoformat() if text else ""
    except ValueError:
        raise UsageError(f"'{text}' is not a date", hint="write 2024-01-31") from None


def valid_utf8(text: Any) -> str:
    """A text that can be stored: halves of surrogate pairs, which no encoding takes, become "?"."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def checked_collection(path: str) -> str:
    """A collection's name or path, its accents composed (NFC): what looks the same is the same.

    `"Mo\\u0308we"` -> `"M\\u00f6we"`. Whatever is added, moved or granted goes by the composed name. A library that
    holds the other form from before keeps it: its documents are found by searches without a collection, by searches
    that name it exactly so, and by their names and ids; keys that were given the other form still open them. A move of
    the document, and `refdesk keys change` for a key, bring them to the composed name.
    """
    return unicodedata.normalize("NFC", _collection(path))


def _collection(path: str) -> str:
    """The same, its accents as they were typed."""
    parts = [part.strip() for part in valid_utf8(path).split("/")]
    found = "/".join(parts)
    if not all(parts) or any(part in (".", "..") for part in parts) or HIDDEN.search(found):
        raise UsageError(f"'{path}' is not a valid collection name", hint="use a name, or a path such as finance/2024")
    if len(found) > LONGEST_NAME:
        raise UsageError(f"a collection name can have at most {LONGEST_NAME} characters")
    return found


def checked_name(name: Any) -> str:
    """What a document may be called: one line that says something.

    Accents stay as they are: a file on disk has its name from its system, and a document is found by the name it has.
    """
    wanted = _one_line(name)
    if not 1 <= len(wanted) <= LONGEST_NAME:
        raise UsageError(f"a document name must have 1 to {LONGEST_NAME} characters")
    return wanted


def checked_title(title: Any) -> str:
    """What a conversation may be called: one line that says something; the store cuts it where it is long."""
    wanted = _one_line(title)
    if not wanted:
        raise UsageError("the title is empty")
    return wanted


def _one_line(text: Any) -> str:
    """Without control characters and those that turn letters about; "" for what is no text."""
    return " ".join(HIDDEN.sub("", " ".join(valid_utf8(text).split())).split()) if isinstance(text, str) else ""


def checked_metadata(metadata: Mapping[str, Any] | None) -> dict[str, str]:
    if metadata is not None and not isinstance(metadata, Mapping):
        raise UsageError(f"metadata must map names to values, not {metadata!r:.100}")
    found = {valid_utf8(name): valid_utf8(value) for name, value in (metadata or {}).items()}
    if sum(len(name) + len(value) for name, value in found.items()) > LONGEST_METADATA:
        raise UsageError(f"a document can have at most {LONGEST_METADATA:,} characters of metadata")
    return found


def checked_text(given: Mapping[str, Any] | tuple[str, str], collection: str) -> NewText:
    is_pair = isinstance(given, (tuple, list)) and len(given) == 2
    fields: Mapping[str, Any] = dict(zip(("name", "text"), given, strict=True)) if is_pair else given  # type: ignore[assignment]
    known = {"name", "text", "title", "collection", "metadata", "date", "format"}
    if (
        not isinstance(fields, Mapping)
        or not known.issuperset(fields)
        or not isinstance(fields.get("text"), str)
        or not fields.get("name")
    ):
        raise UsageError(
            "a text needs a name and a text",
            hint="use (name, text), or a mapping with these and any of title, collection, metadata, date, format",
        )
    if (format := fields.get("format") or "text") not in TEXT_FORMATS:
        raise UsageError(f"a text cannot have the format '{format}'", hint=f"use one of {', '.join(TEXT_FORMATS)}")
    metadata = checked_metadata(fields.get("metadata"))
    title = valid_utf8(fields.get("title") or metadata.get("title", ""))
    return NewText(
        name=valid_utf8(fields["name"]),
        text=valid_utf8(fields["text"]) if fields["text"].strip() else title,  # a title alone is worth finding
        collection=checked_collection(fields.get("collection") or collection),
        metadata=metadata,
        title=title,
        date=checked_date(fields.get("date")) or _date_within(metadata),
        format=format,
    )


def _date_within(metadata: Mapping[str, str]) -> str:
    """The date that metadata give, when it is one: "spring 2024" is theirs to say."""
    try:
        return checked_date(metadata.get("date"))
    except UsageError:
        return ""


def make_question(
    text: str,
    scope: Scope,
    settings: Settings,
    *,
    level: str | None = None,
    mode: str | None = None,
    response_mode: str | None = None,
    k: int | None = None,
    conversation_id: str = "",
    history: History = (),
    verbatim: bool = False,
    max_context_chars: int | None = None,
    cache: bool = True,
    images: tuple[Image, ...] = (),
    owner: str = "",
) -> Question:
    """A caller's words checked; `mode` takes quick, standard and thorough too, which no other mode is called."""
    if not isinstance(text, str) or not text.strip():
        raise UsageError("the question is empty", hint="ask something, such as “When is the price list revised?”")
    if len(text) > settings.max_question_characters:
        most = settings.max_question_characters
        raise UsageError(f"a question can have at most {most:,} characters, not {len(text):,}", hint="shorten it")
    if mode in RESPONSE_MODES:
        mode, response_mode = None, response_mode or mode
    chosen = one_of("mode", mode or "chat", MODES)
    if k is not None and (not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= 1000):
        raise UsageError(f"k must be a whole number between 1 and 1000, not {k!r}")
    if max_context_chars is not None and (not isinstance(max_context_chars, int) or max_context_chars < 1):
        raise UsageError(f"max_context_chars must be a whole number of at least 1, not {max_context_chars!r}")
    return Question(
        text=text.strip().encode("utf-8", "replace").decode("utf-8"),
        scope=scope,
        level=one_of("level", level or settings.level, LEVELS),
        mode=chosen,
        response_mode=one_of("response mode", response_mode or settings.response_mode, RESPONSE_MODES),
        history=tuple(_turn(turn) for turn in history),
        conversation_id=conversation_id,
        verbatim=verbatim,
        k=k,
        max_context_chars=max_context_chars or settings.max_context_chars or None,
        use_cache=cache and settings.cache_enabled,
        images=images,
        owner=owner,
    )


def _turn(given: Any) -> Turn:
    if isinstance(given, Turn):
        return given
    role, content = (given.get("role"), given.get("content")) if isinstance(given, Mapping) else tuple(given)
    if role not in ROLES or not isinstance(content, str):
        raise UsageError("each history turn needs a role (user or assistant) and a text")
    return Turn(role, content)
