"""What is kept, and handed out again: keys and callers, conversations, answers, the state of a library. Pure values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from refdesk.answer import Role, Turn
from refdesk.cells import StoredCell
from refdesk.errors import AccessDenied
from refdesk.types import EVERYTHING, Access, Box, Geometry, Page, Seen


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
    has_tables: bool = True  # not so where documents were added before their tables were kept


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


# who may come in, and do what


@dataclass(frozen=True, slots=True)
class Key(Record):
    """A key without its secret."""

    id: str
    name: str
    role: KeyRole
    collections: tuple[str, ...] | None  # None: every one
    created_at: str
    last_used: str = ""

    @property
    def is_owner(self) -> bool:
        """Whether it may change keys and settings: an admin of every collection (see `Caller`)."""
        return self.role == "admin" and self.collections is None


KeyRole = Literal["reader", "editor", "admin"]
Reading = Literal["search", "ask", "read", "feedback"]
Editing = Literal["add", "rename", "move", "delete", "retry"]
Managing = Literal["traces", "analytics", "settings", "keys", "clear_cache"]
Action = Reading | Editing | Managing
ROLES: tuple[KeyRole, ...] = get_args(KeyRole)  # each may do what those before it may

SAYING: dict[Action, str] = {
    "search": "search",
    "ask": "ask questions",
    "read": "read documents",
    "feedback": "judge answers",
    "add": "add documents",
    "rename": "rename documents",
    "move": "move documents",
    "delete": "delete documents",
    "retry": "try documents again",
    "traces": "see everyone's questions",
    "analytics": "see everyone's figures",
    "settings": "change settings",
    "keys": "see or change keys",
    "clear_cache": "clear the cache",
}
# They reach every collection (a key for another one, a setting that sends passages elsewhere), so whoever does them
# must be allowed every collection.
WHOLE: frozenset[Action] = frozenset(("settings", "keys", "clear_cache"))


def needed(action: Action) -> KeyRole:
    """The least of the roles that may do it."""
    if action in get_args(Reading):
        return "reader"
    return "editor" if action in get_args(Editing) else "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a key, or whoever sits at the machine (id ""). `collections` None is every one.

    >>> Caller("k1", "Anna", "editor", ("finance",)).may("add", "finance/2024")
    True
    """

    id: str
    name: str
    role: KeyRole
    collections: tuple[str, ...] | None = None

    @property
    def access(self) -> Seen:
        """The collections that are read for this caller."""
        return EVERYTHING if self.collections is None else self.collections

    @property
    def owner(self) -> str | None:
        """Whose answers, traces and figures are seen: the caller's own; None is everyone's."""
        return None if self.may("traces") else self.id

    def may(self, action: Action, collection: str | None = None) -> bool:
        """Whether the role allows it, and the collections do where it is about one."""
        if ROLES.index(self.role) < ROLES.index(needed(action)):
            return False
        if self.collections is None:
            return True
        return action not in WHOLE and (collection is None or lies_within(collection, self.collections))

    def require(self, action: Action, collection: str | None = None) -> None:
        if self.may(action, collection):
            return
        if not self.may(action):
            limited = self.role == "admin"  # so it is the collections that forbid it
            kind = "an admin of some collections" if limited else f"a{'n' * (self.role == 'editor')} {self.role}"
            raise AccessDenied(f"{kind} may not {SAYING[action]}")
        raise AccessDenied(f"this key may not {SAYING[action]} in '{collection}'")


LOCAL = Caller("", "local", "admin")


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
    """A question without its answer."""

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
    verdict: Judgement
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
