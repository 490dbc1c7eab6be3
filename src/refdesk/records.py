"""Stored values: keys, conversations, answers, documents, table cells. Pure.

A sheet has 100,000 rows, so that cells lie in arrays and become values of their own when they are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Role, Turn
from refdesk.errors import AccessDenied
from refdesk.types import EVERYTHING, Access, Attachment, Box, Chunk, Document, Geometry, Page, Seen

# --- the cells of a table ---------------------------------------------------------------------------------------------

Path = tuple[str, ...]
MOST_CELLS = 5_000  # of a small table; a larger one is a sheet, which is looked at by column
LARGEST = 2_000_000  # cells of the sheets that are read for a question, all together: some 300 MB


class Measure(NamedTuple):
    """What a number counts: its unit (`%`, `$`), its scale (`million`), and its period (see `tables.py`)."""

    unit: str = ""
    scale: str = ""
    period: str = ""


class StoredCell(NamedTuple):
    """Characters `start..end` of the document's text; `row` and `column` count from 0, rows of the head included."""

    row: int
    column: int
    rows: int
    columns: int
    text: str
    number: float | None
    unit: str
    scale: str
    period: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ColumnHead:
    """What the head says of a column: its texts from top to bottom, and what numbers below it count."""

    path: Path
    measure: Measure


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """The cells of a column that hold something, from top to bottom, an entry for each in every array."""

    rows: NDArray[np.int32]  # the number of its row
    numbers: NDArray[np.float64]  # NaN: it begins with none
    codes: NDArray[np.int32]  # which of the texts
    texts: tuple[str, ...]  # each once
    measured: NDArray[np.int32]  # which of the measures
    measures: tuple[Measure, ...]  # each once
    places: NDArray[np.int32]  # (cells, 4): rows and columns that it covers, start, end; empty: not read

    def between(self, first_row: int, end: int) -> Column:
        """Those of rows from the first to before the last."""
        # Of another kind of number, all of the rows would be copied to compare them.
        start, stop = np.searchsorted(self.rows, np.array((first_row, end), self.rows.dtype)).tolist()
        part = slice(start, stop)
        rows, codes, places = self.rows[part], self.codes[part], self.places[part]
        return Column(rows, self.numbers[part], codes, self.texts, self.measured[part], self.measures, places)

    def of_rows(self, wanted: NDArray[np.int64]) -> Column:
        """Those of these rows that hold something, in the order of the rows."""
        at = np.searchsorted(self.rows, wanted.astype(self.rows.dtype))
        at = at[(at < len(self.rows)) & (self.rows[np.minimum(at, len(self.rows) - 1)] == wanted)] if len(at) else at
        places = self.places[at] if len(self.places) else self.places
        return Column(
            self.rows[at], self.numbers[at], self.codes[at], self.texts, self.measured[at], self.measures, places
        )

    def counted(self) -> tuple[set[Measure], int]:
        """What its numbers count, and how many decimals they are written with at most."""
        is_number = ~np.isnan(self.numbers)
        texts = (self.texts[code] for code in np.unique(self.codes[is_number]).tolist())
        decimals = max((len(text.partition(".")[2].rstrip(" %)")) for text in texts), default=0)
        return {self.measures[code] for code in np.unique(self.measured[is_number]).tolist()}, decimals

    def cells(self, column: int) -> list[StoredCell]:
        """As values; `column` is its number in the table."""
        numbers = [None if number != number else number for number in self.numbers.tolist()]
        return [
            StoredCell._make(
                (row, column, rows, columns, self.texts[code], number, *self.measures[measure], start, end)
            )
            for row, code, measure, number, (rows, columns, start, end) in zip(
                self.rows.tolist(),
                self.codes.tolist(),
                self.measured.tolist(),
                numbers,
                self.places.tolist(),
                strict=True,
            )
        ]


@dataclass(frozen=True, eq=False)
class StoredTable:
    """A table of a document: its place, what is said above it, what its head says, and its cells.

    Of one that is larger than what is read for a question there are the heads and no columns.
    """

    number: int  # in the document, from 1
    page: int  # on which it begins
    start: int
    end: int
    caption: str
    head_rows: int
    row_count: int
    scale: str  # of all numbers that have no other
    heads: tuple[ColumnHead, ...]
    cell_count: int
    columns: tuple[Column, ...] = ()
    id: int = 0  # given by the library
    document_id: str = ""

    @property
    def column_count(self) -> int:
        return len(self.heads)

    @property
    def is_loaded(self) -> bool:
        return len(self.columns) == len(self.heads)

    @cached_property
    def cells(self) -> tuple[StoredCell, ...]:
        """Row by row; none while its columns are not loaded."""
        return tuple(sorted(cell for number, column in enumerate(self.columns) for cell in column.cells(number)))

    @property
    def periods(self) -> tuple[str, ...]:
        """Those that its columns are of, each once."""
        return tuple(dict.fromkeys(head.measure.period for head in self.heads if head.measure.period))

    def to_dict(self) -> dict[str, Any]:
        """All but its cells."""
        plain = ("id", "document_id", "number", "page", "start", "end", "caption", "scale")
        return {name: getattr(self, name) for name in plain} | {
            "head_rows": self.head_rows,
            "row_count": self.row_count,
            "cell_count": self.cell_count,
            "columns": [{"path": list(head.path), **head.measure._asdict()} for head in self.heads],
        }

    def cells_from(self, first_row: int, most: int) -> tuple[list[StoredCell], int | None]:
        """The cells of whole rows from this one on, one row or `most` at most, and the row after; None: the table ends.

        Of a loaded table, however large: only those cells become values.
        """
        counts = np.zeros(self.row_count + 1, np.int64)
        for column in self.columns:
            counts[1:] += np.bincount(column.rows, minlength=self.row_count)[: self.row_count]
        before = np.cumsum(counts)
        first_row = min(first_row, self.row_count)
        end = int(np.searchsorted(before, before[first_row] + most, side="right")) - 1
        end = min(max(end, first_row + 1), self.row_count)
        cells = [
            cell for number, column in enumerate(self.columns) for cell in column.between(first_row, end).cells(number)
        ]
        return sorted(cells), end if end < self.row_count else None

    def at(self, places: Iterable[tuple[int, int]]) -> list[StoredCell]:
        """The cells at these rows and columns, as far as one begins there. However large the table is."""
        found = []
        for row, column in places:
            found += self.columns[column].between(row, row + 1).cells(column) if row >= 0 else []
        return found

    def some_rows(self, wanted: Sequence[int]) -> list[list[str]]:
        """These of its `rows`. However large the table is."""
        if self.cell_count <= MOST_CELLS:
            rows = self.rows()
            return [rows[row] for row in wanted]
        found = [[""] * self.column_count for _ in wanted]
        for number, column in enumerate(self.columns):
            for at, row in enumerate(wanted):
                covers = np.flatnonzero((column.rows <= row) & (column.rows + column.places[:, 0] > row))
                for cell in covers.tolist():
                    last = number + int(column.places[cell, 1]) if number else 1
                    text = column.texts[column.codes[cell]]
                    found[at][number:last] = [text] * (min(last, self.column_count) - number)
        return found

    def rows(self) -> list[list[str]]:
        """The texts as rows of equal length; a merged cell stands in each place that it covers.

        But for a label over values: it names its row, or the rows below it, and is no value.
        """
        found = [[""] * self.column_count for _ in range(self.row_count)]
        for cell in self.cells:
            last = cell.column + cell.columns if cell.column else 1
            for row in range(cell.row, min(cell.row + cell.rows, self.row_count)):
                for column in range(cell.column, min(last, self.column_count)):
                    found[row][column] = cell.text
        return found


def readable_tables(found: Sequence[StoredTable], most: int | None) -> list[StoredTable]:
    """Those whose cells are read where `most` are: see `TableStore.with_cells`."""
    if most is None:
        return list(found)
    left, readable = most, []
    for table in found:
        if table.cell_count <= min(MOST_CELLS, most):
            readable.append(table)
        elif table.cell_count <= left:
            readable.append(table)
            left -= table.cell_count
    return readable


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
    embedder: str = ""  # whose vectors are in use
    lexical: int = 0  # the lexical index in use; rebuilding makes another one and then switches
    folded: int = 0  # the last chunk whose terms it holds; those of later ones are read from the store
    has_tables: bool = True  # not so where documents were added before their tables were kept


@dataclass(frozen=True, slots=True)
class Prepared:
    """A document parsed, chunked and enriched: all that is stored of it, but for the vectors."""

    document: Document
    text: str
    pages: tuple[Page, ...]
    chunks: tuple[Chunk, ...]
    geometry: Geometry | None = None
    figures: Mapping[str, bytes] = field(default_factory=dict)  # content hash -> PNG
    children: tuple[Attachment, ...] = ()
    tables: tuple[StoredTable, ...] = ()


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

    def require(self, action: Action, *collections: str) -> None:
        """`AccessDenied` without the right to do this, and to do it in each of these collections."""
        if not self.may(action):
            limited = self.role == "admin"  # so it is the collections that forbid it
            kind = "an admin of some collections" if limited else f"a{'n' * (self.role == 'editor')} {self.role}"
            raise AccessDenied(f"{kind} may not {SAYING[action]}")
        if denied := [collection for collection in collections if not self.may(action, collection)]:
            raise AccessDenied(f"this key may not {SAYING[action]} in '{denied[0]}'")


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
    """Feedback on an answer: one verdict per user."""

    answer_id: str
    owner: str
    verdict: Judgement
    correction: str
    created_at: str


def lies_within(path: str, collections: Sequence[str]) -> bool:
    """`finance/2024` lies within `finance`; `finances` does not."""
    return any(path == collection or path.startswith(f"{collection}/") for collection in collections)


def may_see(collections: Sequence[str], owner: str | None, access: Access) -> bool:
    """Whether who may read these collections sees an answer whose sources lie in those.

    One without sources may still tell of what its question came from; who is limited sees only his own of these.
    """
    if isinstance(access, Sequence):
        return all(lies_within(collection, access) for collection in collections) if collections else owner is not None
    return True
