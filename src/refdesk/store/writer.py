"""The single writer: makes documents visible and removes them, safe to kill at any point.

    1. rows of the document, replaced ids put on the list of dropped ones, generation + 1   (transaction)
    2. within it, when many chunks are in SQL alone: all of them into the lexical index      (its own durable commit),
       and the last of their ids noted as `folded`
    3. purge what is on the list from the lexical index

Readers take vectors, and the terms of chunks after the folded ones, from SQL, and of the lexical index no later ids.
Killed within 1 or 2: nobody finds what was written there, and the next fold overwrites it. Killed after: it is there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import DBAPIError

from refdesk.config import FILE, explain
from refdesk.errors import DiskFull, LibraryBusy, LibraryDamaged, LibraryError, UsageError
from refdesk.ports import Embedded
from refdesk.records import LexicalEntry, Move, StoredTable
from refdesk.store import rows as codec
from refdesk.store.database import explained_error, writing
from refdesk.store.document_rows import (
    Departure,
    KeptFiles,
    by_key,
    change_row,
    check_finished,
    check_place,
    departures,
    document_values,
    family,
    find,
    in_place,
    insert_rows,
    insert_tables,
    keep_children,
    kept_files,
    move_rows,
    remove_family,
    replace_tables,
    row_of,
    unused,
    upsert,
)
from refdesk.store.documents import SqlDocuments
from refdesk.store.graph import pack_entities, pack_relations
from refdesk.store.postgres import ServerLock, is_server
from refdesk.store.rows import bump, lexical_entries, now, set_state, state_number, state_text
from refdesk.store.schema import chunks, documents, dropped, entities, images, pages, relations, vectors
from refdesk.store_ports import Files, IndexWriter, Ready, other_embedder
from refdesk.types import UNFINISHED, Chunk, Document, Outcome

LAST_ID = 2**53  # greater than any
CHANGED_AT_ONCE = 2_000  # chunks; a transaction that moves or removes more would keep other writers waiting
Item = TypeVar("Item")
Vectors = Mapping[int, NDArray[np.float32]]  # by the ids of chunks
LOCK_PATIENCE_S = 3600.0  # a long queue of writers is not an error; a writer holds the lock for a flush, not for a run


class SqlWriter:
    """The `LibraryWriter` port; every public method takes the lock itself."""

    def __init__(
        self, engine: Engine, documents: SqlDocuments, index: IndexWriter, files: Files, lock: Path, embedder: str
    ) -> None:
        self._engine = writing(engine, "library")
        self._documents = documents
        self._index = index
        self._files = files
        self._folder = lock.parent
        alone = FileLock(str(lock), mode=FILE, thread_local=False)
        self._lock = ServerLock(engine) if is_server(engine) else alone
        self._threads = threading.RLock()  # a file lock is held by a process, whichever of its threads took it
        self._embedder = embedder
        self.changed_at_once = CHANGED_AT_ONCE
        self.on_wait: Callable[[], None] = lambda: None  # told once when the lock is held by somebody else

    @contextmanager
    def locked(self, *, repair: bool = True) -> Iterator[None]:
        """Holds the library's lock, first waiting in the queue; repairs what a killed writer has left."""
        with self._threads, explained(self._folder / "files", self._engine):
            self._acquire()
            try:
                if self._lock.lock_counter == 1 and repair:
                    self._index.refresh()  # another process may have rebuilt the lexical index
                    self._purge()
                    self._files.clear_unfinished()
                yield
            finally:
                self._lock.release()

    def _acquire(self) -> None:
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            self.on_wait()
            try:
                self._lock.acquire(timeout=LOCK_PATIENCE_S, poll_interval=0.02)
            except Timeout:
                raise LibraryBusy("another process has been writing to this library for an hour") from None

    # documents

    def register(self, wanted: Sequence[Document], modified: Sequence[float], owner: str) -> None:
        with self.locked(), self._engine.begin() as connection:
            self._claim_space(connection)  # before hours of parsing, not after
            for document, changed in zip(wanted, modified, strict=True):
                row = find(connection, document)
                if row is None:
                    values = document_values(document, changed) | {"owner": owner}
                    connection.execute(insert(documents).values(values))
                elif row.status != "ready":
                    change_row(connection, row, status="pending", owner=owner, error="")

    def withdraw(self, owner: str) -> None:
        unfinished = documents.c.status.in_(UNFINISHED)
        handed_in = documents.c.parent_id.is_(None)
        with self.locked(), self._engine.begin() as connection:
            connection.execute(delete(documents).where(documents.c.owner == owner, unfinished, handed_in))

    def cancel(self, document: Document, owner: str) -> None:
        with self.locked(), self._engine.begin() as connection:
            row = find(connection, document)
            if row is not None and row.owner == owner and row.status in UNFINISHED:
                connection.execute(delete(documents).where(documents.c.key == row.key))

    def mark_processing(self, sources: Sequence[str], owner: str) -> None:
        with self.locked(), self._engine.begin() as connection:
            connection.execute(
                update(documents)
                .where(documents.c.owner == owner, documents.c.source.in_(sources), documents.c.status == "pending")
                .values(status="processing", updated_at=now())
            )

    def fail(self, document: Document, modified: float, reason: str, owner: str = "") -> Document | None:
        with self.locked(), self._engine.begin() as connection:
            row = find(connection, document)
            if row is None and owner:
                return None
            if row is None:
                values = document_values(document, modified) | {"status": "failed", "error": reason}
                connection.execute(insert(documents).values(values))
            else:
                known: dict[str, Any] = {"error": reason, "owner": ""}
                if row.status != "ready":  # a visible one keeps its file's marks, so that the change is tried again
                    known |= {"status": "failed", "content_hash": document.content_hash}
                    known |= {"modified": modified, "size": document.size, "source": document.source}
                change_row(connection, row, **known)
            kept = find(connection, document)
        return codec.unpack_document(kept)

    def store(self, batch: Sequence[Ready]) -> list[tuple[Document, Outcome]]:
        if not batch:
            return []
        with self.locked():
            self._keep_files(batch)
            with self._engine.begin() as connection:
                first = self._number(connection, sum(len(ready.prepared.chunks) for ready in batch))
                starts = accumulate((len(ready.prepared.chunks) for ready in batch), initial=first)
                numbered = list(zip(batch, starts, strict=False))
                # All are looked up before any is written: they are different documents.
                rows = [find(connection, ready.prepared.document) for ready in batch]
                before = kept_files(connection, _keys(connection, rows)) | _brought(batch)
                coming = _still_wanted(numbered, rows)
                owners = {
                    place: upsert(connection, ready.prepared, ready.modified, start, rows[place])
                    for place, (ready, start) in coming.items()
                }
                self._insert_content(
                    connection, [(ready, owners[place][0], start) for place, (ready, start) in coming.items()]
                )
                # Rows first, index second, commit last: the index must know the ids the rows were given.
                self._fold(
                    connection,
                    first,
                    (
                        entry
                        for place, (ready, start) in coming.items()
                        for entry in lexical_entries(owners[place][1], ready.prepared.chunks, start)
                    ),
                    {
                        n: embedded.vector
                        for ready, start in coming.values()
                        for n, embedded in enumerate(ready.embedded, start)
                    },
                )
                for place, (ready, _) in coming.items():
                    if ready.children or rows[place] is not None:
                        keep_children(connection, owners[place][1].id, ready.children, ready.owner)
                bump(connection, "generation")
                gone = unused(connection, before)
            self._files.remove(gone)
            self._purge()
        stored: dict[int, tuple[Document, Outcome]] = {
            place: (document, outcome) for place, (_, document, outcome) in owners.items()
        }
        return [stored.get(place, (ready.prepared.document, "removed")) for place, ready in enumerate(batch)]

    def remove(self, found: Sequence[Document]) -> list[Document]:
        """Removes documents and what was attached to them; gives what went. What has been moved since stays.

        Many go in several steps: a process killed in between has removed some.
        """
        went: list[Document] = []
        with self.locked():
            for some in _portions(found, lambda ready: ready.chunk_count, self.changed_at_once):
                with self._engine.begin() as connection:
                    ids = [document.id for document in some if _lies_there(connection, document)]
                    keys = [row.key for document_id in ids for row in family(connection, document_id)]
                    before = kept_files(connection, keys)
                    rows = [row for document_id in ids for row in remove_family(connection, document_id)]
                    bump(connection, "generation")
                    gone = unused(connection, before)
                self._files.remove(gone)
                went += [codec.unpack_document(row) for row in rows]
            with suppress(OSError, ValueError, LibraryError):  # they are gone; the next writer takes this step too
                self._purge()
        return went

    def rename(self, document: Document, name: str) -> Document:
        with self.locked(), self._engine.begin() as connection:
            row = row_of(connection, document.id, document.collection)
            check_finished(row)
            check_place(connection, row, row.collection, name)
            change_row(connection, row, name=name)
            bump(connection, "generation")
            return by_key(connection, row.key)

    def move(self, moves: Sequence[Move]) -> list[Document]:
        """Documents, with what is attached to them, in other collections; gives them as they are now.

        When one of them cannot go, none does. Many go in several steps: a process killed in between has moved some.
        """
        with self.locked():
            with self._engine.begin() as connection:
                going = departures(connection, moves)
            for some in _portions(going, lambda departure: departure.chunk_count, self.changed_at_once):
                self._move(some)
            if going:
                self._purge()
            with self._engine.connect() as connection:
                return [codec.unpack_document(row_of(connection, move.document_id)) for move in moves]

    def _move(self, going: Sequence[Departure]) -> None:
        relatives = [(row, departure.to.collection) for departure in going for row in departure.rows]
        sizes = [row.last_chunk - row.first_chunk + 1 for row, _ in relatives]
        with self._engine.begin() as connection:
            first = self._number(connection, sum(sizes))
            placed = [
                (row, collection, start)
                for (row, collection), start in zip(relatives, accumulate(sizes, initial=first), strict=False)
            ]
            # Rows first, index second, commit last, as in a store.
            for row, collection, start in placed:
                move_rows(connection, row, collection, start)
            for move in going:
                if move.to.name:
                    change_row(connection, move.rows[0], name=move.to.name)
            self._fold(
                connection,
                first,
                (
                    entry
                    for row, collection, start in placed
                    for entry in lexical_entries(
                        replace(codec.unpack_document(row), collection=collection),
                        self._documents.chunks_of(row.id),
                        start,
                    )
                ),
                {n: vector for row, _, start in placed for n, vector in self._vectors_of(row, start).items()},
            )
            bump(connection, "generation")

    def _vectors_of(self, row: Any, start: int) -> Vectors:
        """Those of a document's chunks, numbered from `start`, for an index that keeps them itself."""
        ids = range(row.first_chunk, row.last_chunk + 1) if self._index.keeps_vectors else ()
        shift = start - row.first_chunk
        return {n + shift: vector for n, vector in self._documents.vectors_of(self._embedder, ids).items()}

    def put_vectors(self, embedder: str, chunks: Sequence[Chunk], embedded: Sequence[Embedded]) -> None:
        ids = [chunk.id for chunk in chunks]
        with self._engine.begin() as connection:
            connection.execute(delete(vectors).where(vectors.c.embedder == embedder, vectors.c.chunk_id.in_(ids)))
            insert_rows(connection, vectors, [_vector_row(embedder, *pair) for pair in zip(ids, embedded, strict=True)])

    def put_tables(self, tables: Mapping[str, Sequence[StoredTable]], *, is_all: bool) -> None:
        with self.locked(repair=False), self._engine.begin() as connection:
            for document_id, found in tables.items():
                replace_tables(connection, document_id, found)
            if is_all:
                set_state(connection, "tables", "")
            bump(connection, "generation")

    def begin_epoch(self) -> None:
        with self.locked(repair=False), self._engine.begin() as connection:
            connection.execute(delete(dropped).where(dropped.c.purged == 1))
            bump(connection, "epoch")
            bump(connection, "generation")

    def switch_index(self, embedder: str, lexical: int) -> None:
        with self.locked(repair=False), self._engine.begin() as connection:
            set_state(connection, "space", embedder)
            set_state(connection, "lexical", str(lexical))
            set_state(connection, "folded", str(state_number(connection, "next_chunk") - 1))
            connection.execute(delete(vectors).where(vectors.c.embedder != embedder))
            connection.execute(update(dropped).values(purged=1))
            bump(connection, "epoch")
            bump(connection, "generation")

    def clear_unused(self) -> None:
        with self.locked(), self._engine.connect() as connection:
            kept = kept_files(connection)
            self._files.remove(self._files.hashes() - kept.originals - kept.pictures)
            self._files.clear_renders(kept.originals | kept.pictures)

    def original(self, document: Document) -> Path:
        return self._files.path(document.content_hash)

    # the steps of a store

    def _claim_space(self, connection: Connection) -> None:
        embedder = state_text(connection, "space")
        if not embedder:
            set_state(connection, "space", self._embedder)
        elif embedder != self._embedder:
            raise other_embedder(embedder, self._embedder)

    def _number(self, connection: Connection, count: int) -> int:
        """The first of so many new ids."""
        self._claim_space(connection)
        first = state_number(connection, "next_chunk") or 1
        if not state_text(connection, "folded"):  # a new library, or one in which every chunk was indexed at once
            set_state(connection, "folded", str(first - 1))
        set_state(connection, "next_chunk", str(first + count))
        return first

    def _fold(self, connection: Connection, first: int, new: Iterable[LexicalEntry], vectors: Vectors) -> None:
        """Brings the terms of the chunks from `first` on, and of those in SQL alone, into the lexical index.

        Few of them wait there for more: see `LocalIndex`.
        """
        folded, last = state_number(connection, "folded"), state_number(connection, "next_chunk") - 1
        if last - folded <= self._index.tail_room:
            return
        later = dropped.c.first_chunk > folded
        gone = connection.execute(select(dropped.c.first_chunk, dropped.c.last_chunk).where(later)).all()
        waiting = (
            entry
            for entry in (self._documents.entries_after(folded) if first > folded + 1 else ())
            if not any(begin <= entry.chunk_id <= end for begin, end in gone)
        )
        # What a killed writer has left there goes first.
        self._index.write(chain(waiting, new), drop=[(folded + 1, LAST_ID)], vectors=vectors, within=connection)
        connection.execute(update(dropped).where(later).values(purged=1))
        set_state(connection, "folded", str(last))

    def _keep_files(self, batch: Sequence[Ready]) -> None:
        for ready in batch:
            if ready.original is not None:
                self._files.adopt(ready.original, ready.prepared.document.content_hash)
            for figure in ready.prepared.figures.values():
                self._files.put(figure)

    def _insert_content(self, connection: Connection, batch: Sequence[tuple[Ready, int, int]]) -> None:
        """Pages, chunks, vectors and tables of documents, each with its key and the id of its first chunk."""
        page_rows: list[dict[str, Any]] = []
        chunk_rows: list[dict[str, Any]] = []
        vector_rows: list[dict[str, Any]] = []
        entity_rows, image_rows, relation_rows = (list[dict[str, Any]]() for _ in range(3))
        for ready, key, start in batch:
            prepared = ready.prepared
            page_rows += [
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
            for chunk_id, chunk in enumerate(prepared.chunks, start):
                chunk_rows.append(codec.pack_chunk(chunk, chunk_id, key))
                entity_rows += pack_entities(chunk, chunk_id)
                relation_rows += pack_relations(chunk, chunk_id)
                image_rows += codec.pack_image(chunk, chunk_id, key)
            vector_rows += [
                _vector_row(self._embedder, start + i, embedded) for i, embedded in enumerate(ready.embedded)
            ]
        for table, found in (
            *((pages, page_rows), (chunks, chunk_rows), (vectors, vector_rows)),
            *((entities, entity_rows), (relations, relation_rows), (images, image_rows)),
        ):
            insert_rows(connection, table, found)
        for ready, key, _ in batch:
            insert_tables(connection, key, ready.prepared.tables)

    def _purge(self) -> None:
        """Takes every id on the list out of the lexical index, which holds none after the folded ones."""
        folded = self._documents.state().folded
        ranges = [(first, last) for first, last in self._documents.dropped(unpurged=True) if first <= folded]
        if ranges:
            self._index.write((), drop=ranges)
            with self._engine.begin() as connection:
                firsts = [first for first, _ in ranges]
                for place in range(0, len(firsts), 500):
                    some = dropped.c.first_chunk.in_(firsts[place : place + 500])
                    connection.execute(update(dropped).where(some).values(purged=1))


def _vector_row(embedder: str, chunk_id: int, embedded: Embedded) -> dict[str, Any]:
    packed = codec.pack_vector(embedded.vector)
    return {"embedder": embedder, "chunk_id": chunk_id, "vector": packed, "sentences": embedded.sentences.tobytes()}


def _keys(connection: Connection, rows: Iterable[Any]) -> list[int]:
    """Of the rows that a batch will replace, and of what is attached to them."""
    return [member.key for row in rows if row is not None for member in family(connection, row.id)]


def _still_wanted(numbered: Sequence[tuple[Ready, int]], rows: Sequence[Any]) -> dict[int, tuple[Ready, int]]:
    """By their places in the batch, those that were not removed while they were read, each as it lies now.

    What a run takes in has had a row since it was accepted.
    """
    found = {}
    for place, ((ready, start), row) in enumerate(zip(numbered, rows, strict=True)):
        if row is not None or not ready.owner:
            found[place] = replace(ready, prepared=in_place(row, ready.prepared)), start
    return found


def _brought(batch: Iterable[Ready]) -> KeptFiles:
    """The files that these documents come with."""
    found = list(batch)
    originals = frozenset(ready.prepared.document.content_hash for ready in found if ready.original is not None)
    return KeptFiles(originals, frozenset(image for ready in found for image in ready.prepared.figures))


def _lies_there(connection: Connection, document: Document) -> bool:
    row = connection.execute(select(documents.c.collection).where(documents.c.id == document.id)).first()
    return row is not None and row.collection == document.collection


def _portions(many: Sequence[Item], chunks_of: Callable[[Item], int], most: int) -> Iterator[list[Item]]:
    """Each of about `most` chunks."""
    some: list[Item] = []
    size = 0
    for item in many:
        some.append(item)
        size += 1 + chunks_of(item)
        if size >= most:
            yield some
            some, size = [], 0
    if some:
        yield some


@contextmanager
def explained(folder: Path, engine: Engine) -> Iterator[None]:
    """Turns the errors of the database, tantivy and the disk into words."""
    try:
        yield
    except DBAPIError as error:
        raise explained_error(error, engine, folder.parent) from error
    except OSError as error:
        raise explain(error, Path(error.filename) if isinstance(error.filename, str) else folder) from error
    except ValueError as error:  # tantivy raises its own failures as ValueError
        if isinstance(error, UsageError):
            raise
        if any(sign in str(error) for sign in ("No space left", "StorageFull", "File too large", "FileTooLarge")):
            raise DiskFull(f"the disk that holds {folder.parent} is full") from error
        raise LibraryDamaged(f"the search index cannot be written: {error}", hint="run `refdesk reindex`") from error
