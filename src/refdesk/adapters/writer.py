"""The one writer: how a document becomes visible, and how it goes, so that a kill at any point does no harm.

    1. reserve ids, and list them as dropped      (transaction; nobody sees them)
    2. write them to the lexical index            (its own durable commit)
    3. rows of the document, ids taken off the list, replaced ids put on it, generation + 1   (transaction)
    4. purge what is on the list from the lexical index

Killed before 3: the ids are still listed, and the next writer purges them. Killed after 3: the document is there whole.
Vectors need no step of their own: readers take them from SQL.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from filelock import FileLock, Timeout
from sqlalchemy import Connection, Engine, and_, delete, func, insert, select, update
from sqlalchemy.exc import OperationalError

from refdesk.adapters import codec
from refdesk.adapters.catalogue import Catalogue, read_standing
from refdesk.adapters.files import FileStore, explain
from refdesk.adapters.index_local import LocalIndex
from refdesk.adapters.lexical_tantivy import SEGMENTS_BORNE, LexicalEntry
from refdesk.adapters.schema import chunks, documents, dropped, pages, state, vectors
from refdesk.errors import DiskFull, LibraryBusy, LibraryDamaged, LibraryError, UsageError
from refdesk.ports import Embedded
from refdesk.terms import terms
from refdesk.types import Document, Outcome, Prepared, Range

LOCK_PATIENCE_S = 3600.0  # a long queue of writers is not an error; a writer holds the lock for a flush, not for a run


@dataclass(frozen=True, slots=True)
class Ready:
    """A document with its vectors, ready to be stored; `original` is the spooled file, None for text handed in."""

    prepared: Prepared
    embedded: Sequence[Embedded]
    original: Path | None = None
    modified: float = 0.0


class LibraryWriter:
    """Changes the library; every public method takes the lock itself."""

    def __init__(
        self, engine: Engine, catalogue: Catalogue, index: LocalIndex, files: FileStore, lock: Path, space: str
    ) -> None:
        self._engine = engine
        self._catalogue = catalogue
        self._index = index
        self._files = files
        self._lock = FileLock(str(lock), thread_local=False)
        self._space = space
        self.on_wait: Callable[[], None] = lambda: None  # told once when the lock is held by somebody else

    @contextmanager
    def locked(self, *, repair: bool = True) -> Iterator[None]:
        """Holds the library's lock, first waiting in the queue; repairs what a killed writer has left."""
        if not self._lock.is_locked:
            try:
                self._lock.acquire(timeout=0)
            except Timeout:
                self.on_wait()
                self._wait()
        else:
            self._lock.acquire()
        try:
            with explained(self._files.files):
                if self._lock.lock_counter == 1 and repair:
                    self._index.refresh()  # another process may have rebuilt the lexical index
                    self._purge()
                yield
        finally:
            self._lock.release()

    def _wait(self) -> None:
        try:
            self._lock.acquire(timeout=LOCK_PATIENCE_S, poll_interval=0.02)
        except Timeout:
            raise LibraryBusy("another process has been writing to this library for an hour") from None

    # documents

    def register(self, wanted: Sequence[Document], modified: Sequence[float], owner: str) -> None:
        """Accepts documents as `pending`; one that has a row already keeps it, and its content stays visible."""
        with self.locked(), self._engine.begin() as connection:
            for document, changed in zip(wanted, modified, strict=True):
                row = _find(connection, document)
                if row is None:
                    values = _document_values(document, changed) | {"owner": owner}
                    connection.execute(insert(documents).values(values))
                elif row.status != "ready":
                    connection.execute(
                        update(documents)
                        .where(documents.c.key == row.key)
                        .values(status="pending", owner=owner, error="", updated_at=_now())
                    )

    def withdraw(self, owner: str) -> None:
        """Takes back what a run accepted and did not finish."""
        unfinished = documents.c.status.in_(("pending", "processing"))
        with self.locked(), self._engine.begin() as connection:
            connection.execute(delete(documents).where(documents.c.owner == owner, unfinished))

    def mark_processing(self, sources: Sequence[str], owner: str) -> None:
        with self.locked(), self._engine.begin() as connection:
            connection.execute(
                update(documents)
                .where(documents.c.owner == owner, documents.c.source.in_(sources), documents.c.status == "pending")
                .values(status="processing", updated_at=_now())
            )

    def fail(self, document: Document, modified: float, reason: str) -> Document:
        """Records why a document could not be taken in; an older version of it that is visible stays."""
        with self.locked(), self._engine.begin() as connection:
            row = _find(connection, document)
            if row is None:
                values = _document_values(document, modified) | {"status": "failed", "error": reason}
                connection.execute(insert(documents).values(values))
            else:
                known = {"error": reason, "owner": "", "modified": modified, "updated_at": _now()}
                if row.status != "ready":
                    known |= {"status": "failed", "content_hash": document.content_hash, "size": document.size}
                connection.execute(update(documents).where(documents.c.key == row.key).values(known))
            kept = _find(connection, document)
        return codec.unpack_document(kept._mapping)

    def store(self, batch: Sequence[Ready]) -> list[tuple[Document, Outcome]]:
        """Makes a batch of documents visible in one step; gives them as stored, and whether each is new."""
        if not batch:
            return []
        with self.locked():
            self._claim_space()
            total = sum(len(ready.prepared.chunks) for ready in batch)
            first = self._reserve(total)
            numbered, start = [], first
            for ready in batch:
                numbered.append((ready, start))
                start += len(ready.prepared.chunks)
            self._keep_files(batch)
            with self._engine.begin() as connection:
                owners = [_upsert(connection, ready, start) for ready, start in numbered]
                # Rows first, index second, commit last: the index must know the ids the rows were given.
                entries = [
                    entry
                    for (ready, start), (_, document_id, _) in zip(numbered, owners, strict=True)
                    for entry in _entries(ready.prepared, document_id, start)
                ]
                self._index.lexical_index.write(entries)
                for (ready, start), (key, _, _) in zip(numbered, owners, strict=True):
                    self._insert_content(connection, ready, key, start)
                connection.execute(delete(dropped).where(dropped.c.first_chunk == first))
                bump(connection, "generation")
                stored = [(_by_key(connection, key), outcome) for key, _, outcome in owners]
            self._purge()
            self._index.lexical_index.merge(SEGMENTS_BORNE)
        return stored

    def remove(self, document_ids: Sequence[str]) -> list[Document]:
        """Removes documents and what was attached to them; gives what went."""
        with self.locked():
            with self._engine.begin() as connection:
                gone = [row for document_id in document_ids for row in _family(connection, document_id)]
                for row in gone:
                    _drop_chunks(connection, row)
                    connection.execute(delete(documents).where(documents.c.key == row.key))
                bump(connection, "generation")
                removed = [codec.unpack_document(row._mapping) for row in gone]
                unused = [d.content_hash for d in removed if not _is_used(connection, d.content_hash)]
            self._files.remove(unused)
            self._purge()
        return removed

    # the steps of a store

    def _claim_space(self) -> None:
        with self._engine.begin() as connection:
            space = read_standing(connection).space
            if not space:
                set_state(connection, "space", self._space)
            elif space != self._space:
                raise UsageError(
                    f"this library's vectors were made by '{space}', but the embedder now is '{self._space}'",
                    hint="run `refdesk reindex` to embed everything anew, or name the old embedder",
                )

    def _reserve(self, count: int) -> int:
        with self._engine.begin() as connection:
            found = connection.execute(select(state.c.value).where(state.c.name == "next_chunk")).scalar()
            first = int(found) if found else 1
            set_state(connection, "next_chunk", str(first + count))
            if count:
                connection.execute(insert(dropped).values(first_chunk=first, last_chunk=first + count - 1, purged=0))
        return first

    def _keep_files(self, batch: Sequence[Ready]) -> None:
        for ready in batch:
            if ready.original is not None:
                self._files.adopt(ready.original, ready.prepared.document.content_hash)
            for figure in ready.prepared.figures.values():
                self._files.put(figure)

    def _insert_content(self, connection: Connection, ready: Ready, key: int, start: int) -> None:
        prepared = ready.prepared
        page_rows = [
            {
                "document_key": key,
                "number": page.number,
                "start": page.start,
                "end": page.end,
                "width": page.width,
                "height": page.height,
                "label": page.label,
                "ocr": int(page.ocr),
                "text": prepared.text[page.start : page.end],
                "words": None if prepared.geometry is None else codec.pack_words(prepared.geometry, page),
            }
            for page in prepared.pages
        ]
        if page_rows:
            connection.execute(insert(pages), page_rows)
        if not prepared.chunks:
            return
        connection.execute(
            insert(chunks), [codec.pack_chunk(chunk, start + i, key) for i, chunk in enumerate(prepared.chunks)]
        )
        connection.execute(
            insert(vectors),
            [
                {
                    "space": self._space,
                    "chunk_id": start + i,
                    "vector": codec.pack_vector(one.vector),
                    "sentences": one.sentences.tobytes(),
                }
                for i, one in enumerate(ready.embedded)
            ],
        )

    def _purge(self) -> None:
        """Takes every id on the list out of the lexical index."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(dropped.c.first_chunk, dropped.c.last_chunk).where(dropped.c.purged == 0))
            ranges: list[Range] = [(row[0], row[1]) for row in rows]
        if ranges:
            self._index.lexical_index.write((), drop=ranges)
            with self._engine.begin() as connection:
                firsts = [first for first, _ in ranges]
                for place in range(0, len(firsts), 500):
                    some = dropped.c.first_chunk.in_(firsts[place : place + 500])
                    connection.execute(update(dropped).where(some).values(purged=1))


# rows


def _document_values(document: Document, modified: float) -> dict[str, Any]:
    now = _now()
    return {
        "id": document.id or uuid.uuid4().hex[:16],
        "name": document.name,
        "collection": document.collection,
        "content_hash": document.content_hash,
        "status": document.status,
        "title": document.title,
        "format": document.format,
        "language": document.language,
        "size": document.size,
        "modified": modified,
        "page_count": document.page_count,
        "chunk_count": document.chunk_count,
        "source": document.source,
        "parent_id": document.parent_id,
        "date": document.date,
        "metadata": orjson.dumps(dict(document.metadata)).decode(),
        "error": document.error,
        "notes": orjson.dumps(list(document.notes)).decode(),
        "owner": "",
        "first_chunk": 0,
        "last_chunk": -1,
        "created_at": now,
        "updated_at": now,
    }


def _find(connection: Connection, document: Document) -> Any:
    """The row that stands for the same thing: the same file, the same attachment, or the same name of a text."""
    if document.id:
        same = documents.c.id == document.id
    else:
        same = and_(
            documents.c.collection == document.collection,
            documents.c.source == document.source,
            documents.c.name == document.name,
            documents.c.parent_id.is_(None)
            if document.parent_id is None
            else documents.c.parent_id == document.parent_id,
        )
    return connection.execute(select(documents).where(same)).first()


def _upsert(connection: Connection, ready: Ready, start: int) -> tuple[int, str, Outcome]:
    """Writes the document's row, visible; what it held before goes. Gives its key, its id and what happened."""
    document = ready.prepared.document
    values = _document_values(document, ready.modified) | {"status": "ready"}
    values |= {"first_chunk": start, "last_chunk": start + len(ready.prepared.chunks) - 1}
    row = _find(connection, document)
    if row is None:
        result = connection.execute(insert(documents).values(values))
        key = result.inserted_primary_key
        assert key is not None
        return int(key[0]), str(values["id"]), "added"
    _drop_chunks(connection, row)
    for table in (chunks, pages):
        connection.execute(delete(table).where(table.c.document_key == row.key))
    del values["id"], values["created_at"]
    connection.execute(update(documents).where(documents.c.key == row.key).values(values))
    return int(row.key), str(row.id), "replaced" if row.status == "ready" else "added"


def _drop_chunks(connection: Connection, row: Any) -> None:
    if row.last_chunk >= row.first_chunk:
        connection.execute(insert(dropped).values(first_chunk=row.first_chunk, last_chunk=row.last_chunk, purged=0))


def _family(connection: Connection, document_id: str) -> list[Any]:
    """A document's row and the rows of everything attached to it."""
    rows = list(connection.execute(select(documents).where(documents.c.id == document_id)))
    children = connection.execute(select(documents.c.id).where(documents.c.parent_id == document_id)).scalars()
    return rows + [row for child in list(children) for row in _family(connection, child)]


def _is_used(connection: Connection, content_hash: str) -> bool:
    query = select(func.count()).select_from(documents).where(documents.c.content_hash == content_hash)
    return bool(connection.execute(query).scalar_one())


def _by_key(connection: Connection, key: int) -> Document:
    return codec.unpack_document(connection.execute(select(documents).where(documents.c.key == key)).mappings().one())


def _entries(prepared: Prepared, document_id: str, start: int) -> Iterator[LexicalEntry]:
    document = prepared.document
    for place, chunk in enumerate(prepared.chunks):
        yield lexical_entry(document, document_id, start + place, chunk.kind, chunk.pages, chunk.context, chunk.text)


def lexical_entry(
    document: Document, document_id: str, chunk_id: int, kind: str, on: Sequence[int], context: str, text: str
) -> LexicalEntry:
    return LexicalEntry(
        chunk_id=chunk_id,
        document_id=document_id,
        collection=document.collection,
        kind=kind,
        first_page=min(on),
        last_page=max(on),
        date=document.date,
        metadata=tuple(document.metadata.items()),
        terms=terms(f"{context}\n{text}", document.language),
    )


def set_state(connection: Connection, name: str, value: str) -> None:
    changed = connection.execute(update(state).where(state.c.name == name).values(value=value))
    if not changed.rowcount:
        connection.execute(insert(state).values(name=name, value=value))


def bump(connection: Connection, name: str) -> int:
    found = connection.execute(select(state.c.value).where(state.c.name == name)).scalar()
    value = int(found or 0) + 1
    set_state(connection, name, str(value))
    return value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turns the errors of SQLite, tantivy and the disk into words."""
    try:
        yield
    except OperationalError as error:
        raise _explain_sql(error, folder) from error
    except OSError as error:
        raise explain(error, folder) from error
    except ValueError as error:  # tantivy raises its own failures as ValueError
        if isinstance(error, UsageError):
            raise
        if "No space left" in str(error) or "StorageFull" in str(error):
            raise DiskFull(f"the disk that holds {folder.parent} is full") from error
        raise LibraryDamaged(f"the search index cannot be written: {error}", hint="run `refdesk reindex`") from error


def _explain_sql(error: OperationalError, folder: Path) -> LibraryError:
    text = str(error.orig)
    if "disk is full" in text or getattr(error.orig, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
        return DiskFull(f"the disk that holds {folder.parent} is full")
    if "disk I/O error" in text:
        return LibraryError(f"the disk that holds {folder.parent} failed: {text}", hint="it may be full or failing")
    if "locked" in text:
        return LibraryBusy("the database is locked by another program")
    return LibraryError(f"the database refused: {text}", hint="run `refdesk doctor`")
