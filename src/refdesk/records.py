"""What is kept, and handed out again: keys, conversations, answers, the state of a library. Values without any work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from refdesk.answer import Role, Turn
from refdesk.cells import StoredCell
from refdesk.types import Access, Box, Geometry, Page


class Record:
    """A row as JSON shows it."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        names: tuple[str, ...] = self.__slots__
        values = {name: getattr(self, name) for name in names}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


# the library


@dataclass(frozen=True, slots=True)
class LibraryState:
    """What a reader must know to see whether its view is current."""

    generation: int = 0  # rises with every change of what is visible
    epoch: int = 0  # rises when the list of dropped chunks was emptied: read everything anew
    space: str = ""  # the embedding model whose vectors are in use
    lexical: int = 0  # the lexical index in use; rebuilding makes another one and then switches
    folded: int = 0  # the last chunk whose terms it holds; those of later ones are read from the store


@dataclass(frozen=True, slots=True)
class LexicalEntry:
    """A chunk as the lexical index holds it."""

    chunk_id: int
    document_id: str
    collection: str
    kind: str
    first_page: int
    last_page: int
    date: str
    metadata: Sequence[tuple[str, str]]
    terms: Sequence[str]


@dataclass(frozen=True, slots=True)
class PageText:
    page: Page
    text: str
    words: Geometry | None


@dataclass(frozen=True, slots=True)
class PlacedCell:
    """A cell of a table with its page, and its boxes there: one for each line; none for formats without pages."""

    cell: StoredCell
    page: int
    boxes: tuple[Box, ...]

    def to_dict(self) -> dict[str, Any]:
        return self.cell._asdict() | {"page": self.page, "boxes": [box.to_dict() for box in self.boxes]}


@dataclass(frozen=True, slots=True)
class Move:
    """A document that was found in one collection and shall lie in another; a name of None keeps its own."""

    document_id: str
    origin: str
    collection: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Damage:
    """`name` is the document's or the upload's, `what` is "missing" or "altered"."""

    name: str
    what: str


# what is to be added


@dataclass(frozen=True, slots=True)
class NewText:
    """A text that a program adds."""

    name: str
    text: str
    collection: str
    metadata: dict[str, str]
    title: str = ""
    date: str = ""
    format: str = "text"


# who may come in


@dataclass(frozen=True, slots=True)
class Key(Record):
    """A key without its secret; `collections` None is every one."""

    id: str
    name: str
    role: str
    collections: tuple[str, ...] | None
    created_at: str
    last_used: str = ""

    @property
    def is_owner(self) -> bool:
        """Whether it may change keys and settings: an admin of every collection (access.py)."""
        return self.role == "admin" and self.collections is None


# what was asked and answered


@dataclass(frozen=True, slots=True)
class Conversation(Record):
    id: str
    title: str
    owner: str
    message_count: int
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True)
class Message(Record):
    key: int
    role: Role
    content: str
    answer_id: str
    created_at: str


@dataclass(frozen=True, slots=True)
class Older:
    """What no longer fits into memory: the summary so far, and the messages to add to it, up to `until`."""

    summary: str
    turns: tuple[Turn, ...]
    until: int


@dataclass(frozen=True, slots=True)
class AskedQuestion(Record):
    """One question that was asked, without its answer: a line in a list."""

    id: str
    question: str
    conversation_id: str
    owner: str
    collections: tuple[str, ...]
    created_at: str
    error: str = ""  # the code of what ended it


@dataclass(frozen=True, slots=True)
class Measured:
    """What analytics count of an answer, in columns of its own, so that nobody has to unpack answers for it."""

    total_ms: float
    stages: Mapping[str, float]  # milliseconds of each stage that ran
    cached: str
    cost_usd: float | None  # None: no price is known
    route: str
    is_answered: bool
    confidence: str
    model: str
    level: str
    failed_models: Sequence[tuple[str, str]] = ()  # (model, code) of those that were to write it and did not


Judgement = Literal["correct", "wrong"]
JUDGEMENTS: tuple[Judgement, ...] = get_args(Judgement)


@dataclass(frozen=True, slots=True)
class Feedback(Record):
    """Whether an answer was right: one word of each who asked."""

    answer_id: str
    owner: str
    verdict: str
    correction: str
    created_at: str


def lies_within(path: str, collections: Sequence[str]) -> bool:
    """`finance/2024` lies within `finance`; `finances` does not."""
    return any(path == one or path.startswith(f"{one}/") for one in collections)


def may_see(collections: Sequence[str], owner: str | None, access: Access) -> bool:
    """Whether who may read these collections sees an answer whose sources lie in those.

    One without sources may still tell of what its question came from; who is limited sees only his own of these.
    """
    if isinstance(access, Sequence):
        return all(lies_within(one, access) for one in collections) if collections else owner is not None
    return True
