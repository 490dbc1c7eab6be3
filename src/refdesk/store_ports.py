"""The Protocols for stores, indexes and file storage; each has an implementation in memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Spent
from refdesk.errors import UsageError
from refdesk.ports import Conversations, Embedded, Index
from refdesk.records import (
    MOST_CELLS,
    AskedQuestion,
    Caller,
    Column,
    Conversation,
    Feedback,
    Key,
    KeyRole,
    LexicalEntry,
    LibraryState,
    Measured,
    Message,
    Move,
    PageText,
    Prepared,
    StoredTable,
)
from refdesk.settings import Settings
from refdesk.types import EVERYTHING, QUEUED, Access, Chunk, Document, Job, JobKind, Outcome, Range, Scope

WHOLE_LIBRARY = Scope()

# documents and chunks


class DocumentStore(Protocol):
    """Reads documents and their pages; what is outside a scope's `access` is not there."""

    def documents(self, scope: Scope | None = None, status: str | None = None) -> list[Document]: ...

    def document(self, document_id: str, scope: Scope = WHOLE_LIBRARY) -> Document | None:
        """By its id, or by the beginning of it when that is unique in the scope."""

    def visible(self, document_id: str, access: Access) -> Document | None:
        """The document of this very id, if it lies in one of these collections."""

    def named(self, name: str, scope: Scope = WHOLE_LIBRARY) -> list[Document]: ...

    def page(
        self,
        scope: Scope,
        status: str | None,
        text: str,
        limit: int,
        offset: int,
        *,
        sort: str = "place",
        is_falling: bool = False,
    ) -> tuple[list[Document], int]:
        """Documents whose name or title holds a text, `limit` of them from the `offset`th, and how many there are."""

    def collections(self, scope: Scope = WHOLE_LIBRARY) -> list[tuple[str, int]]:
        """Each collection that holds a document, with how many lie in itself."""

    def among(self, ids: Collection[str], access: tuple[str, ...]) -> set[str]:
        """Those of these documents that lie in these collections."""

    def at_place(self, collection: str, source: str) -> tuple[Document, float] | None:
        """The document that came from a file, with the time the file was changed.

        It lies in the collection, or was added there and moved since.
        """

    def text_named(self, collection: str, name: str) -> Document | None:
        """The text that a program added under a name."""

    def with_content(self, collection: str, content_hash: str) -> Document | None: ...

    def from_source(self, source: str) -> Document | None: ...

    def upload_named(self, collection: str, name: str) -> Document | None:
        """The document of that name that was uploaded."""

    def children(self, parent_id: str) -> list[Document]: ...

    def pages(self, document_id: str, number: int | None = None) -> list[PageText]: ...

    def has_figure(self, image: str, access: Access) -> bool:
        """Whether a document in one of these collections holds the figure of this hash."""


class ChunkStore(Protocol):
    """Reads chunks and vectors, and what an index must know to follow them."""

    def state(self) -> LibraryState: ...

    def check(self) -> LibraryState:
        """Raises when the library is gone or another one by now: what is open would go on reading the old one."""

    def languages(self) -> tuple[str, ...]:
        """The languages of the documents, the most frequent first."""

    def spoken(self) -> frozenset[str]:
        """The same in no order, in a few microseconds however many documents there are."""

    def chunks_of(self, document_id: str) -> list[Chunk]: ...

    def hydrate(self, ids: Collection[int], generation: int) -> dict[int, tuple[Chunk, Document]]:
        """The chunks with these ids that are visible, each with its document."""

    def chunks_at(self, places: Collection[tuple[str, int]], generation: int) -> dict[tuple[str, int], Chunk]:
        """The visible chunks at these places: a document's id and a sequence number."""

    def all_chunks(self) -> Iterator[tuple[Document, Chunk]]:
        """Every visible chunk with its document, in order of id."""

    def entries_after(self, after: int) -> Iterator[LexicalEntry]:
        """The visible chunks whose id is greater, ascending, as a lexical index takes them."""

    def chunk_ids(self, scope: Scope) -> NDArray[np.int64]:
        """The ids of all visible chunks in scope, ascending."""

    def vectors_after(
        self, embedder: str, after: int, dimensions: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids and vectors of the chunks whose id is greater than `after`, ascending."""

    def vectors_of(self, embedder: str, ids: Sequence[int]) -> dict[int, NDArray[np.float32]]:
        """The vectors of these chunks."""

    def sentence_vectors(self, embedder: str, ids: Sequence[int], dimensions: int) -> dict[int, NDArray[np.int8]]: ...

    def dropped(self, *, unpurged: bool = False) -> list[Range]:
        """Ranges of chunk ids that must not be found; `unpurged`: those that the lexical index may still hold."""

    def counts(self, embedder: str) -> dict[str, int]:
        """Documents by status, chunks and vectors: what the indexes must agree with."""

    def integrity(self) -> tuple[str, int, set[int]]:
        """ "ok" or what is wrong with the store; how many chunks ready documents have; the ids of all chunks."""

    def wanted_files(self) -> dict[str, str]:
        """The hashes of the originals and figures of ready documents, each with what to call it."""


class TableStore(Protocol):
    """Reads the tables of visible documents; without their cells, unless these are asked for."""

    def of_document(self, document_id: str) -> list[StoredTable]:
        """In the document's order."""

    def row_names(self, document_id: str) -> list[str]:
        """What stands in the first column of its tables, each text once."""

    def between(self, places: Sequence[tuple[str, int, int]]) -> list[StoredTable]:
        """Those of which some part lies in one of these ranges of a document's text, in no order."""

    def with_cells(self, found: Sequence[StoredTable], most: int | None = MOST_CELLS) -> list[StoredTable]:
        """The same tables with their cells, but for those that have more than `most`.

        Sheets, which have more than `MOST_CELLS`, are read in this order while all of theirs are no more than `most`.
        """

    def columns(self, table_id: int, numbers: Collection[int], *, are_placed: bool = False) -> dict[int, Column]:
        """These columns of a table, however large it is; nothing of a table that is gone.

        Where their cells stand in the text is read when it is asked for: it is most of what is kept of a number.
        """


@dataclass(frozen=True, slots=True)
class Ready:
    """A document with its vectors, ready to be stored; `original` is the file it was read from, None for a text.

    `children` are its attachments, which the holder of the lease `owner` will take in next.
    """

    prepared: Prepared
    embedded: Sequence[Embedded]
    original: Path | None = None
    modified: float = 0.0
    children: Sequence[Document] = ()
    owner: str = ""


class LibraryWriter(Protocol):
    """Changes the library, one writer at a time; every change is seen whole or not at all."""

    on_wait: Callable[[], None]  # told once when another process is writing

    def locked(self, *, repair: bool = True) -> AbstractContextManager[None]: ...

    def register(self, wanted: Sequence[Document], modified: Sequence[float], owner: str) -> None:
        """Accepts documents as `pending`; one that has a row already keeps it, and its content stays visible."""

    def withdraw(self, owner: str) -> None:
        """Takes back what the holder of a lease accepted and did not finish.

        An attachment of what did get in stays pending: its mail is unchanged, so nobody would add it again.
        """

    def cancel(self, document: Document, owner: str) -> None:
        """Takes back one that was accepted under this lease and is not finished; an older version of it stays."""

    def mark_processing(self, sources: Sequence[str], owner: str) -> None: ...

    def fail(self, document: Document, modified: float, reason: str, owner: str = "") -> Document | None:
        """Records why a document could not be taken in; an older version of it that is visible stays.

        With an `owner`, the lease under which it was accepted; None says that it was removed since.
        """

    def store(self, batch: Sequence[Ready]) -> list[tuple[Document, Outcome]]:
        """Makes a batch of different documents visible in one step; gives them as stored, and whether each is new.

        One that was removed while it was read is not stored, and called removed.
        """

    def remove(self, found: Sequence[Document]) -> list[Document]:
        """Removes documents and what was attached to them; gives what went. What has been moved since stays."""

    def rename(self, document: Document, name: str) -> Document:
        """Another name for a document; gives it as it is now."""

    def move(self, moves: Sequence[Move]) -> list[Document]:
        """Documents, with what is attached to them, in other collections; gives them as they are now.

        When one of them cannot go, none does.
        """

    def put_vectors(self, embedder: str, chunks: Sequence[Chunk], embedded: Sequence[Embedded]) -> None:
        """Vectors of another embedding model beside those in use."""

    def put_tables(self, tables: Mapping[str, Sequence[StoredTable]], *, is_all: bool) -> None:
        """Other tables for documents, by their ids; `is_all`: no document is left whose tables are missing."""

    def begin_epoch(self) -> None:
        """Forgets the list of dropped chunks: indexes are written without them."""

    def switch_index(self, embedder: str, lexical: int) -> None:
        """From now on this embedding model's vectors and the lexical index of this number are in use."""

    def clear_unused(self) -> None:
        """Removes files that no document names: a process was killed between keeping them and naming them."""

    def original(self, document: Document) -> Path:
        """Where the bytes of a document lie."""


def other_embedder(built_with: str, embedder: str) -> UsageError:
    """A library's vectors and the embedder do not fit."""
    return UsageError(
        f"this library's vectors were made by '{built_with}', but the embedder now is '{embedder}'",
        hint="run `refdesk reindex` to embed everything again, or use the old embedder",
    )


@dataclass(frozen=True, slots=True)
class IndexContent:
    """What an index holds, for checks."""

    lexical_ids: frozenset[int]
    vector_count: int
    has_current_terms: bool  # made as those of questions are now


NO_VECTORS: Mapping[int, NDArray[np.float32]] = {}


class IndexWriter(Index, Protocol):
    """The same index for whoever holds the library's lock."""

    @property
    def tail_room(self) -> int:
        """How many chunks may be in the store alone, their terms read from there by whoever searches."""

    @property
    def keeps_vectors(self) -> bool:
        """Whether it must be given the vectors of what it takes in; another one reads them from the store."""

    def write(
        self,
        entries: Iterable[LexicalEntry],
        drop: Sequence[Range] = (),
        *,
        vectors: Mapping[int, NDArray[np.float32]] = NO_VECTORS,
        within: Any = None,
    ) -> None:
        """Drops ranges of chunk ids, adds entries, and makes both durable in one step.

        `within` is the transaction of the store: an index that lives in the same database is written in it.
        """

    def needs_compaction(self, dropped: int) -> bool:
        """Whether so much is new, or dropped, that searches are slower for it."""

    def compact(self, state: LibraryState) -> None:
        """Writes all vectors anew, to be read from the epoch after this state's on."""

    def remove_old(self, state: LibraryState) -> None:
        """Lets go what nobody reads who looks at this state, or the vectors of the one before."""

    def rebuild(self, number: int, batches: Iterable[Sequence[LexicalEntry]]) -> None:
        """A whole new lexical index beside the old one, which searches use until the state names its number."""

    def forget_vectors(self, state: LibraryState) -> None:
        """Lets vectors go that were written for the epoch after this state's: they are to be read anew."""

    def content(self) -> IndexContent: ...


# what is remembered


class ConversationStore(Conversations, Protocol):
    """Conversations and their messages; `owner` None sees everyone's. All is written when a method returns."""

    def messages(self, conversation_id: str, most: int | None = None, *, owner: str | None = None) -> list[Message]: ...

    def take_back(self, conversation_id: str, answer_id: str, *, owner: str | None = None) -> None:
        """Removes the last exchange, if it is the one with this answer: it is about to be asked again."""

    def check_speaker(self, conversation_id: str, owner: str) -> None:
        """`append` would refuse who speaks in a conversation of somebody else: better before than after the work."""

    def create(self, conversation_id: str = "", *, title: str = "", owner: str = "") -> str:
        """Begins an empty conversation; gives its id. The caller's own id must be new."""

    def conversation(self, conversation_id: str, *, owner: str | None = None) -> Conversation: ...

    def recent(self, limit: int = 50, *, owner: str | None = None) -> list[Conversation]:
        """The conversations, the one last used first."""

    def rename(self, conversation_id: str, title: str, *, owner: str | None = None) -> None: ...

    def delete(self, conversation_id: str, *, owner: str | None = None) -> None:
        """Removes a conversation with its messages, and the answers and traces that were given in it."""

    def summary(self, conversation_id: str, *, owner: str | None = None) -> str: ...


class AnswerStore(Protocol):
    """What was answered, and how. `owner` and `access` narrow what is seen; an owner of None is no limit.

    `access` are collections: an answer is seen by who may read every collection that its sources are in (`may_see`).
    """

    def put(
        self,
        answer_id: str,
        *,
        question: str,
        answer: bytes,
        trace: Mapping[str, Any],
        conversation_id: str = "",
        owner: str = "",
        collections: Sequence[str] = (),
        measured: Measured | None = None,
        error: str = "",
    ) -> None:
        """Returns at once. `answer` is what `encode_answer` gives; empty when the question ended in an `error`."""

    def get(
        self, answer_id: str, *, owner: str | None = None, access: Access = EVERYTHING
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """(answer, trace) as JSON values, the answer empty where there was none; None when nobody knows the id."""

    def is_seen(self, answer_id: str, *, owner: str | None = None, access: Access = EVERYTHING) -> bool:
        """Whether there is such an answer for who asks; cheaper than reading it."""

    def recent(self, limit: int = 50, *, owner: str | None = None, access: Access = EVERYTHING) -> list[AskedQuestion]:
        """The last questions, the newest first."""

    def spent(self) -> Spent:
        """What the last day cost, and the lengths that models wrote in the last answers of all."""

    def analytics(
        self, days: int = 30, *, access: Access = EVERYTHING, owner: str | None = None, today: date | None = None
    ) -> dict[str, Any]:
        """Volume, waiting, cache, cost, abstentions and accuracy of the last days."""


class FeedbackStore(Protocol):
    """Was the answer right? What those who asked said of it; one word for each of them and answer."""

    def give(self, answer_id: str, verdict: str, correction: str = "", *, caller: Caller) -> Feedback:
        """Says of an answer that the caller may see whether it was right; a later word replaces the one before."""

    def of(self, answer_id: str, *, caller: Caller | None = None) -> list[Feedback]:
        """What was said of an answer, the last word first; who does not see everyone's answers sees only his own."""


class KeyStore(Protocol):
    """The keys of a library; what one process adds, changes or revokes is so in all of them at once."""

    def add(self, name: str, role: KeyRole, collections: Sequence[str] | None) -> tuple[Key, str]:
        """A new key and its secret, which nobody can see again."""

    def list(self) -> list[Key]:
        """All keys by name, with when each was last used."""

    def change(
        self,
        name_or_id: str,
        *,
        name: str | None = None,
        role: KeyRole | None = None,
        collections: Sequence[str] | None = None,
        every_collection: bool = False,
        keep_owner: bool = False,
    ) -> Key:
        """What is given is so from now on; gives the key as it is. Its secret and its id, with all it owns, stay.

        `keep_owner`: see `revoke`.
        """

    def revoke(self, name_or_id: str, *, keep_owner: bool = False) -> Key:
        """From now on nobody gets in with it; gives what it was.

        `keep_owner` refuses what would leave keys and none among them that may change keys.
        """

    def exist(self) -> bool:
        """Whether there is any key at all: without one a library on one's own machine is open."""

    def verify(self, secret: str) -> Key | None:
        """The key of a secret; None for one that is unknown or revoked."""

    def of(self, key_id: str) -> Key | None:
        """The key with this id, its use noted."""


class SessionStore(Protocol):
    """Sign-ins: a random token in a browser's cookie stands for a key until it expires or the key is revoked."""

    def begin(self, key_id: str, seconds: float) -> str:
        """A token that stands for the key for so long; those that have expired are forgotten on the way."""

    def key_id(self, token: str) -> str | None:
        """Whose key a token stands for; None when it is unknown, has expired, or the key is gone."""

    def end(self, token: str) -> None: ...


class SettingsStore(Protocol):
    """Names and values as they were set; `base` are the defaults and refdesk.toml, `own` those of this program."""

    base: Settings
    own: Mapping[str, Any]

    @property
    def notes(self) -> tuple[str, ...]:
        """What is stored and not used, and why."""

    def load(self) -> dict[str, Any]:
        """The values that are set and that this version knows."""

    def current(self) -> Settings:
        """`base` with the library's values; the same object until somebody changes one."""

    def in_use(self) -> Settings:
        """`current` with the values of this program over them."""

    def reset(self, name: str | None = None) -> None:
        """Resets one setting, or all, to what refdesk.toml or the default says."""

    def use_preset(self, name: str) -> None: ...

    def change(self, values: Mapping[str, Any], reset: Iterable[str] = ()) -> None:
        """Sets some and resets others, in one step; nothing is changed when one of them is wrong."""


# files and jobs


class Files(Protocol):
    """Originals and figures, each under the hash of its content; and the bytes that wait until a job adds them."""

    def path(self, content_hash: str) -> Path:
        """A file on this machine that holds the bytes; it need not be there."""

    def has(self, content_hash: str) -> bool: ...

    def put(self, data: bytes) -> str:
        """Keeps bytes and gives their hash."""

    def adopt(self, file: Path, content_hash: str) -> None:
        """Takes over a file that was written in full."""

    def damage(self, content_hash: str) -> str:
        """`missing`, `altered` or why it cannot be read; "" for a file that is as it was."""

    def hashes(self) -> set[str]:
        """Of all that is kept."""

    def remove(self, hashes: Iterable[str]) -> None:
        """With the page images that were made of them."""

    def clear_unfinished(self) -> None:
        """Removes what a killed writer has left; the caller holds the library's lock."""

    def clear_renders(self, kept: Collection[str]) -> None:
        """Removes page images of documents that are gone: one may have been rendered while its document went."""

    def receiving(self) -> AbstractContextManager[tuple[str, IO[bytes]]]:
        """The id of a job to come and a file to write to; what is not staged before the end of the block is removed."""

    def stage(self, job_id: str, file: IO[bytes]) -> str:
        """From here on the bytes survive a kill and a power cut; gives their hash. `file` may be closed already."""

    def restage(self, job_id: str, file: Path) -> None:
        """Keeps what a backup held, under the id of its job."""

    def staged(self, job_id: str) -> Path:
        """Where the bytes of a job wait; they need not be there."""

    def unstage(self, job_ids: Iterable[str]) -> None: ...

    def clear_staged(self, kept: Collection[str]) -> None:
        """Removes bytes that are a day old and of no job that is kept."""

    def workspace(self, worker: str) -> AbstractContextManager[Path]:
        """A folder for what a worker has read and not yet stored; its files can be adopted."""

    def clear_workspaces(self, alive: Callable[[], Collection[str]]) -> bool:
        """Removes what killed workers have left; says whether there was anything."""


class Jobs(Protocol):
    """What is to be added: every process of a library sees the same jobs, takes them under a lease, says how far it is.

    A run is a process at work. Its lease ends when it has not been heard of for a while, or is known to be dead; then
    its jobs are free again.
    """

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        """Promises: from here on they survive a kill and a power cut; gives them with their ids and times."""

    def all(self, kinds: Collection[JobKind] = QUEUED) -> dict[str, Job]:
        """By id, the oldest first; cancelled ones are not there."""

    def version(self) -> int:
        """Another number after every change: a look, and no more."""

    def waiting(self) -> int:
        """How many uploads are not finished."""

    def start(self) -> str:
        """Begins a run; gives its id, which is what `worker` says."""

    def beat(self, worker: str) -> None:
        """It is alive: its lease goes on."""

    def end(self, worker: str) -> None:
        """Ends a run; its jobs are free."""

    def alive(self) -> set[str]:
        """The runs at work; jobs of dead ones are set free on the way."""

    def take(self, worker: str, choose: Callable[[list[Job]], Sequence[Job]], *, alone: bool = False) -> list[Job]:
        """Those that are chosen of the free and unfinished jobs, the oldest first, are the worker's from now on.

        None are taken when it must be `alone` and another one is at work on uploads.
        """

    def change(self, jobs: Iterable[Job], worker: str = "") -> list[Job]:
        """How they stand now, in one step; gives those that were changed: not cancelled, and still this worker's."""

    def cancel(self, ids: Iterable[str]) -> None:
        """They are not to be added; removed by who is at them, or by the next who looks."""

    def cancelled(self, worker: str | None = None) -> list[Job]:
        """Of one worker, or those that nobody is at."""

    def remove(self, ids: Iterable[str]) -> None: ...
