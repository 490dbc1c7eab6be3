"""Documents, chunks and their writer in memory, for one process: the reference for other stores, used in tests."""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from refdesk.errors import NotFound, UsageError
from refdesk.ports import Embedded
from refdesk.records import (
    MOST_CELLS,
    Column,
    LexicalEntry,
    LibraryState,
    Move,
    PageText,
    StoredTable,
    lies_within,
    readable_tables,
)
from refdesk.store.rows import lexical_entries, now
from refdesk.store_ports import WHOLE_LIBRARY, Files, IndexWriter, Ready, other_embedder
from refdesk.types import EVERYTHING, UNFINISHED, Access, Chunk, Document, Geometry, Outcome, Range, Scope, Status


@dataclass(slots=True, eq=False)
class _Row:
    """A document and all that belongs to it."""

    document: Document
    modified: float = 0.0
    owner: str = ""  # the lease under which it is being added
    added_to: str = ""  # the collection it was moved out of first
    pages: list[PageText] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)
    vectors: dict[str, list[Embedded]] = field(default_factory=dict)  # by embedding model
    tables: list[StoredTable] = field(default_factory=list)

    @property
    def is_unfinished(self) -> bool:
        return self.document.status in UNFINISHED or bool(self.owner)


_SORTS: dict[str, Callable[[Document], tuple[object, ...]]] = {
    "place": lambda document: (document.collection, document.name),
    "name": lambda document: (document.name.lower(), document.collection),
    "size": lambda document: (document.size, document.name.lower()),
    "pages": lambda document: (document.page_count, document.name.lower()),
    "added": lambda document: (document.created_at, document.name.lower()),
    "changed": lambda document: (document.updated_at, document.name.lower()),
    "status": lambda document: (document.status, document.name.lower()),
}


class MemoryDocuments:
    """The `DocumentStore` and `ChunkStore` ports."""

    def __init__(self) -> None:
        self.rows: dict[str, _Row] = {}  # by id, in the order they came
        self.generation = self.epoch = self.lexical = 0
        self.embedder = ""
        self.next_chunk = self.next_table = 1
        self.lock = threading.RLock()

    # documents

    def documents(self, scope: Scope | None = None, status: str | None = None) -> list[Document]:
        found = [row.document for row in self._in(scope or WHOLE_LIBRARY)]
        found = [document for document in found if status is None or document.status == status]
        return sorted(found, key=lambda document: (document.collection, document.name))

    def document(self, document_id: str, scope: Scope = WHOLE_LIBRARY) -> Document | None:
        found = [row.document for row in self._in(scope) if row.document.id.startswith(document_id)]
        return found[0] if len(found) == 1 else None

    def visible(self, document_id: str, access: Access) -> Document | None:
        row = self.rows.get(document_id)
        seen = row is not None and (access is EVERYTHING or lies_within(row.document.collection, tuple(access)))
        return row.document if row is not None and seen else None

    def named(self, name: str, scope: Scope = WHOLE_LIBRARY) -> list[Document]:
        return [row.document for row in self._in(scope) if row.document.name == name]

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
        wanted = text.casefold()
        found = [row.document for row in self._in(scope)]
        found = [
            document for document in found if wanted in document.name.casefold() or wanted in document.title.casefold()
        ]
        found = [document for document in found if status is None or document.status == status]
        found.sort(key=_SORTS[sort], reverse=is_falling)
        return found[offset : offset + limit], len(found)

    def collections(self, scope: Scope = WHOLE_LIBRARY) -> list[tuple[str, int]]:
        return sorted(Counter(row.document.collection for row in self._in(scope)).items())

    def among(self, ids: Collection[str], access: tuple[str, ...]) -> set[str]:
        return {id_ for id_ in ids if self.visible(id_, access)}

    def at_place(self, collection: str, source: str) -> tuple[Document, float] | None:
        tops = [row for row in self.rows.values() if row.document.source == source and row.document.parent_id is None]
        for place in ([top.document.collection for top in tops], [top.added_to for top in tops]):
            if collection in place:
                row = tops[place.index(collection)]
                return row.document, row.modified
        return None

    def text_named(self, collection: str, name: str) -> Document | None:
        return self._first(
            lambda document: (document.collection, document.source, document.name) == (collection, "", name)
        )

    def with_content(self, collection: str, content_hash: str) -> Document | None:
        wanted = (collection, content_hash, "ready")
        found = (row.document for row in self.rows.values() if row.document.source)
        return next(
            (document for document in found if (document.collection, document.content_hash, document.status) == wanted),
            None,
        )

    def from_source(self, source: str) -> Document | None:
        return self._first(lambda document: document.source == source)

    def upload_named(self, collection: str, name: str) -> Document | None:
        return self._first(
            lambda document: (
                (document.collection, document.name) == (collection, name) and document.source.startswith("upload:")
            )
        )

    def children(self, parent_id: str) -> list[Document]:
        return [row.document for row in self.rows.values() if row.document.parent_id == parent_id]

    def pages(self, document_id: str, number: int | None = None) -> list[PageText]:
        row = self.rows.get(document_id)
        return [page for page in row.pages if number is None or page.page.number == number] if row else []

    def has_figure(self, image: str, access: Access) -> bool:
        rows = [row for row in self.rows.values() if self.visible(row.document.id, access)]
        return any(chunk.image == image for row in rows for chunk in row.chunks if row.document.status == "ready")

    def _first(self, holds: Callable[[Document], bool]) -> Document | None:
        tops = (row.document for row in self.rows.values() if row.document.parent_id is None)
        return next((top for top in tops if holds(top)), None)

    def _in(self, scope: Scope) -> list[_Row]:
        return [row for row in self.rows.values() if _holds(row.document, scope)]

    # chunks

    def state(self) -> LibraryState:
        return LibraryState(self.generation, self.epoch, self.embedder, self.lexical, self.next_chunk - 1)

    check = state

    def languages(self) -> tuple[str, ...]:
        found = Counter(document.language for document in self.documents(status="ready") if document.language)
        return tuple(sorted(found, key=lambda document: (-found[document], document)))

    def spoken(self) -> frozenset[str]:
        return frozenset(self.languages())

    def chunks_of(self, document_id: str) -> list[Chunk]:
        return list(self.rows[document_id].chunks) if document_id in self.rows else []

    def hydrate(self, ids: Collection[int], generation: int) -> dict[int, tuple[Chunk, Document]]:
        known = {chunk.id: (chunk, document) for document, chunk in self.all_chunks()}
        return {chunk_id: known[chunk_id] for chunk_id in ids if chunk_id in known}

    def chunks_at(self, places: Collection[tuple[str, int]], generation: int) -> dict[tuple[str, int], Chunk]:
        known = {(document.id, chunk.sequence): chunk for document, chunk in self.all_chunks()}
        return {place: known[place] for place in places if place in known}

    def all_chunks(self) -> Iterator[tuple[Document, Chunk]]:
        with self.lock:
            ready = [row for row in self.rows.values() if row.document.status == "ready"]
            yield from sorted(
                ((row.document, chunk) for row in ready for chunk in row.chunks), key=lambda pair: pair[1].id
            )

    def entries_after(self, after: int) -> Iterator[LexicalEntry]:
        for document, chunk in self.all_chunks():
            if chunk.id > after:
                yield from lexical_entries(document, [chunk], chunk.id)

    def chunk_ids(self, scope: Scope) -> NDArray[np.int64]:
        first, last = scope.pages or (0, 0)
        ids = [
            chunk.id
            for document, chunk in self.all_chunks()
            if _holds(document, scope) and (not scope.kinds or chunk.kind in scope.kinds)
            if scope.pages is None or (min(chunk.pages) <= last and max(chunk.pages) >= first)
        ]
        return np.array(ids, dtype=np.int64)

    def vectors_after(
        self, embedder: str, after: int, dimensions: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        found = sorted((i, embedded.vector) for i, embedded in self._embedded(embedder).items() if i > after)
        matrix = np.array([vector for _, vector in found], dtype=np.float16).reshape(-1, dimensions)
        return np.array([i for i, _ in found], dtype=np.int64), matrix.astype(np.float32)

    def vectors_of(self, embedder: str, ids: Sequence[int]) -> dict[int, NDArray[np.float32]]:
        known = self._embedded(embedder)
        return {chunk_id: known[chunk_id].vector for chunk_id in ids if chunk_id in known}

    def sentence_vectors(self, embedder: str, ids: Sequence[int], dimensions: int) -> dict[int, NDArray[np.int8]]:
        known = self._embedded(embedder)
        return {chunk_id: known[chunk_id].sentences for chunk_id in ids if chunk_id in known}

    def dropped(self, *, unpurged: bool = False) -> list[Range]:
        return []  # what goes is gone at once

    def counts(self, embedder: str) -> dict[str, int]:
        found = Counter(f"documents_{row.document.status}" for row in self.rows.values())
        found["chunks"] = sum(len(row.chunks) for row in self.rows.values())
        found["vectors"] = len(self._embedded(embedder))
        return dict(found)

    def integrity(self) -> tuple[str, int, set[int]]:
        ids = {chunk.id for _, chunk in self.all_chunks()}
        return "ok", len(ids), ids

    def wanted_files(self) -> dict[str, str]:
        ready = [row for row in self.rows.values() if row.document.status == "ready"]
        added = [row.document for row in ready if row.document.source or row.document.parent_id]
        wanted = {
            chunk.image: f"a figure of {row.document.name}" for row in ready for chunk in row.chunks if chunk.image
        }
        return wanted | {document.content_hash: document.name for document in added if document.content_hash}

    def _embedded(self, embedder: str) -> dict[int, Embedded]:
        return {
            chunk.id: embedded
            for row in self.rows.values()
            for chunk, embedded in zip(row.chunks, row.vectors.get(embedder, ()), strict=False)
        }


class MemoryTables:
    """The `TableStore` port."""

    def __init__(self, documents: MemoryDocuments) -> None:
        self._documents = documents

    def of_document(self, document_id: str) -> list[StoredTable]:
        row = self._documents.rows.get(document_id)
        return [replace(table, columns=()) for table in row.tables] if row else []

    def row_names(self, document_id: str) -> list[str]:
        row = self._documents.rows.get(document_id)
        tables = [table for table in row.tables if table.columns and table.cell_count <= MOST_CELLS] if row else []
        first = [table.columns[0] for table in tables]
        return list(dict.fromkeys(text for column in first for text in column.texts))

    def between(self, places: Sequence[tuple[str, int, int]]) -> list[StoredTable]:
        return [
            table
            for document_id in dict.fromkeys(place[0] for place in places)
            for table in self.of_document(document_id)
            if any(
                wanted_id == document_id and table.start < end and table.end > start for wanted_id, start, end in places
            )
        ]

    def with_cells(self, found: Sequence[StoredTable], most: int | None = MOST_CELLS) -> list[StoredTable]:
        readable = {table.id for table in readable_tables(found, most)}
        kept = {
            table.id: table for row in self._documents.rows.values() for table in row.tables if table.id in readable
        }
        return [kept.get(table.id, table) for table in found]

    def columns(self, table_id: int, numbers: Collection[int], *, are_placed: bool = False) -> dict[int, Column]:
        tables = (table for row in self._documents.rows.values() for table in row.tables if table.id == table_id)
        return {number: column for table in tables for number, column in enumerate(table.columns) if number in numbers}


def _holds(document: Document, scope: Scope) -> bool:
    return (
        (scope.access is EVERYTHING or lies_within(document.collection, scope.access))
        and (not scope.collections or lies_within(document.collection, scope.collections))
        and (not scope.documents or document.id in scope.documents)
        and document.date >= scope.date_from
        and (not scope.date_to or "" < document.date <= scope.date_to)
        and all(document.metadata.get(name) == value for name, value in scope.metadata)
    )


class MemoryWriter:
    """The `LibraryWriter` port."""

    def __init__(self, documents: MemoryDocuments, index: IndexWriter, files: Files, embedder: str) -> None:
        self._documents, self._index, self._files, self._embedder = documents, index, files, embedder
        self.on_wait: Callable[[], None] = lambda: None

    @contextmanager
    def locked(self, *, repair: bool = True) -> Iterator[None]:
        with self._documents.lock:
            yield

    def register(self, wanted: Sequence[Document], modified: Sequence[float], owner: str) -> None:
        with self.locked():
            self._claim_space()
            for document, changed in zip(wanted, modified, strict=True):
                row = self._find(document)
                if row is None:
                    self._insert(document, changed).owner = owner
                elif row.document.status != "ready":
                    row.document = replace(row.document, status="pending", error="", updated_at=now())
                    row.owner = owner

    def withdraw(self, owner: str) -> None:
        with self.locked():
            for row in self._unfinished(owner):
                if row.document.parent_id is None:
                    del self._documents.rows[row.document.id]

    def cancel(self, document: Document, owner: str) -> None:
        with self.locked():
            row = self._find(document)
            if row is not None and row in self._unfinished(owner):
                del self._documents.rows[row.document.id]

    def mark_processing(self, sources: Sequence[str], owner: str) -> None:
        with self.locked():
            for row in self._unfinished(owner):
                if row.document.source in sources and row.document.status == "pending":
                    row.document = replace(row.document, status="processing", updated_at=now())

    def fail(self, document: Document, modified: float, reason: str, owner: str = "") -> Document | None:
        with self.locked():
            row = self._find(document)
            if row is None and owner:
                return None
            if row is None:
                row = self._insert(replace(document, status="failed"), modified)
            elif row.document.status != "ready":
                size, source, content = document.size, document.source, document.content_hash
                row.document = replace(row.document, status="failed", size=size, source=source, content_hash=content)
                row.modified = modified
            row.document, row.owner = replace(row.document, error=reason, updated_at=now()), ""
            return row.document

    def store(self, batch: Sequence[Ready]) -> list[tuple[Document, Outcome]]:
        with self.locked():
            self._claim_space()
            stored = [self._store(ready) for ready in batch]
            self._changed()
            return stored

    def _store(self, ready: Ready) -> tuple[Document, Outcome]:
        prepared = ready.prepared
        row = self._find(prepared.document)
        if row is None and ready.owner:
            return prepared.document, "removed"
        outcome: Outcome = "replaced" if row is not None and row.document.status == "ready" else "added"
        if ready.original is not None:
            self._files.adopt(ready.original, prepared.document.content_hash)
        for figure in prepared.figures.values():
            self._files.put(figure)
        if row is None:
            row = self._insert(prepared.document, ready.modified)
        else:  # what was moved while it was read stays where it is, and an upload keeps its new name
            known = row.document
            is_upload = prepared.document.source.startswith("upload:")
            name = known.name if is_upload else prepared.document.name
            row.document = replace(
                prepared.document, id=known.id, collection=known.collection, name=name, created_at=known.created_at
            )
        row.document = replace(row.document, status="ready", updated_at=now())
        row.modified, row.owner = ready.modified, ""
        row.pages = [
            PageText(page, prepared.text[page.start : page.end], _words(prepared.geometry, page.number))
            for page in prepared.pages
        ]
        row.vectors = {self._embedder: list(ready.embedded)}
        self._keep_tables(row, prepared.tables)
        self._number(row, prepared.chunks)
        self._keep_children(row.document, ready)
        return row.document, outcome

    def put_tables(self, tables: Mapping[str, Sequence[StoredTable]], *, is_all: bool) -> None:
        with self.locked():
            for document_id, found in tables.items():
                if document_id in self._documents.rows:
                    self._keep_tables(self._documents.rows[document_id], found)
            self._changed()

    def _keep_tables(self, row: _Row, tables: Sequence[StoredTable]) -> None:
        first = self._documents.next_table
        row.tables = [replace(table, id=first + at, document_id=row.document.id) for at, table in enumerate(tables)]
        self._documents.next_table += len(row.tables)

    def _number(self, row: _Row, chunks: Sequence[Chunk]) -> None:
        """New ids for its chunks: whoever holds old ones does not find them."""
        gone = [(chunk.id, chunk.id) for chunk in row.chunks]
        document, first = row.document, self._documents.next_chunk
        row.chunks = [replace(chunk, id=first + place, document_id=document.id) for place, chunk in enumerate(chunks)]
        self._documents.next_chunk += len(chunks)
        self._index.write(lexical_entries(document, row.chunks, first), gone)

    def _keep_children(self, parent: Document, ready: Ready) -> None:
        known = {child.name: self._documents.rows[child.id] for child in self._documents.children(parent.id)}
        for name in known.keys() - {child.name for child in ready.children}:
            self._remove(known[name])
        for child in ready.children:
            row = known.get(child.name)
            if row is None:
                self._insert(replace(child, parent_id=parent.id, status="pending"), 0.0).owner = ready.owner
            elif row.document.status != "ready" or row.document.content_hash != child.content_hash:
                status: Status = "ready" if row.document.status == "ready" else "pending"
                row.document, row.owner = replace(row.document, status=status, error=""), ready.owner

    def remove(self, found: Sequence[Document]) -> list[Document]:
        with self.locked():
            rows = [self._documents.rows.get(document.id) for document in found]
            there = [
                row
                for row, before in zip(rows, found, strict=True)
                if row and row.document.collection == before.collection
            ]
            went = [gone for row in there if row.document.id in self._documents.rows for gone in self._remove(row)]
            self._changed()
            return went

    def _remove(self, row: _Row) -> list[Document]:
        gone = [member.document for member in self._family(row)]
        for member in self._family(row):
            self._index.write((), [(chunk.id, chunk.id) for chunk in member.chunks])
            del self._documents.rows[member.document.id]
        return gone

    def rename(self, document: Document, name: str) -> Document:
        with self.locked():
            row = self._at(document.id, document.collection)
            self._check_finished([row])
            self._check_place(row, row.document.collection, name, ())
            row.document = replace(row.document, name=name, updated_at=now())
            self._changed()
            return row.document

    def move(self, moves: Sequence[Move]) -> list[Document]:
        with self.locked():
            wanted = {move.document_id: move for move in moves}
            going = [(self._at(move.document_id, move.origin), move) for move in moves]
            going = [(row, move) for row, move in going if not self._goes_with_another(row, wanted)]
            going = [
                (row, move)
                for row, move in going
                if (row.document.collection, row.document.name) != (move.collection, move.name or row.document.name)
            ]
            leaving = [row for row, _ in going]
            taken: dict[tuple[str, str], str] = {}
            for row, move in going:
                self._check_finished(self._family(row))
                self._check_place(row, move.collection, move.name or row.document.name, leaving)
                for mark in (move.name or row.document.name, f"/{row.document.source}"):
                    origin = taken.setdefault((move.collection, mark), row.document.collection)
                    if mark != "/" and origin != row.document.collection:
                        raise _is_taken(move.collection, move.name or row.document.name)
            for row, move in going:
                row.document = replace(row.document, name=move.name or row.document.name)
                for relative in self._family(row):
                    first = relative.added_to or relative.document.collection
                    relative.added_to = "" if first == move.collection else first
                    relative.document = replace(relative.document, collection=move.collection, updated_at=now())
                    self._number(relative, relative.chunks)
            self._changed()
            return [self._documents.rows[move.document_id].document for move in moves]

    def put_vectors(self, embedder: str, chunks: Sequence[Chunk], embedded: Sequence[Embedded]) -> None:
        new = {chunk.id: vector for chunk, vector in zip(chunks, embedded, strict=True)}
        for row in self._documents.rows.values():
            known = {
                chunk.id: vector for chunk, vector in zip(row.chunks, row.vectors.get(embedder, ()), strict=False)
            } | new
            if row.chunks and row.chunks[-1].id in known:
                row.vectors[embedder] = [known[chunk.id] for chunk in row.chunks]

    def begin_epoch(self) -> None:
        self._documents.epoch += 1
        self._documents.generation += 1

    def switch_index(self, embedder: str, lexical: int) -> None:
        self._documents.embedder, self._documents.lexical = embedder, lexical
        for row in self._documents.rows.values():
            row.vectors = {embedder: row.vectors.get(embedder, [])}
        self.begin_epoch()

    def clear_unused(self) -> None:
        rows = self._documents.rows.values()
        kept = {row.document.content_hash for row in rows} | {chunk.image for row in rows for chunk in row.chunks}
        self._files.remove(self._files.hashes() - kept)

    def original(self, document: Document) -> Path:
        return self._files.path(document.content_hash)

    # rows

    def _claim_space(self) -> None:
        if self._documents.embedder not in ("", self._embedder):
            raise other_embedder(self._documents.embedder, self._embedder)
        self._documents.embedder = self._embedder

    def _changed(self) -> None:
        self._documents.generation += 1
        self.clear_unused()

    def _insert(self, document: Document, modified: float) -> _Row:
        document_id, moment = document.id or uuid.uuid4().hex[:16], now()
        row = _Row(replace(document, id=document_id, created_at=moment, updated_at=moment), modified)
        self._documents.rows[document_id] = row
        return row

    def _find(self, document: Document) -> _Row | None:
        """The row that stands for the same thing: the same file, the same attachment, or the same name of a text."""
        if document.id:
            return self._documents.rows.get(document.id)

        def mark(other: Document) -> tuple[str | None, ...]:
            if document.parent_id is not None:
                return other.parent_id, other.name
            place = (other.parent_id, other.collection, other.source)
            return place if document.source else (*place, other.name)

        return next((row for row in self._documents.rows.values() if mark(row.document) == mark(document)), None)

    def _unfinished(self, owner: str) -> list[_Row]:
        rows = self._documents.rows.values()
        return [row for row in rows if row.owner == owner and row.document.status in UNFINISHED]

    def _family(self, row: _Row) -> list[_Row]:
        children = [self._documents.rows[child.id] for child in self._documents.children(row.document.id)]
        return [row, *(member for child in children for member in self._family(child))]

    def _at(self, document_id: str, collection: str) -> _Row:
        row = self._documents.rows.get(document_id)
        if row is None or row.document.collection != collection:
            raise NotFound(f"there is no document '{document_id}'")
        return row

    def _goes_with_another(self, row: _Row, wanted: Collection[str]) -> bool:
        parent = row.document.parent_id
        while parent is not None and parent not in wanted:
            parent = self._documents.rows[parent].document.parent_id
        return parent is not None

    def _check_finished(self, rows: Sequence[_Row]) -> None:
        for row in rows:
            if row.is_unfinished:
                raise UsageError(f"'{row.document.name}' is still being added", hint="try again when it is ready")

    def _check_place(self, row: _Row, collection: str, name: str, leaving: Sequence[_Row]) -> None:
        document = row.document
        if document.parent_id is not None and collection != document.collection:
            raise UsageError(f"'{document.name}' is attached to another document", hint="move that document instead")
        for other in self._documents.rows.values():
            there = other.document
            if other in (row, *leaving) or there.parent_id is not None or there.collection != collection:
                continue
            if there.name == name:
                raise _is_taken(collection, name)
            if there.source and there.source == document.source:
                problem = f"the file of '{document.name}' is already in '{collection}', as '{there.name}'"
                raise UsageError(problem, hint="remove one of the two")


def _words(geometry: Geometry | None, page: int) -> Geometry | None:
    """Those of one page."""
    if geometry is None:
        return None
    there = geometry.page == page
    start, end, pages, line, edges = (getattr(geometry, name)[there] for name in geometry.__slots__)
    return Geometry(start, end, pages, line, edges)


def _is_taken(collection: str, name: str) -> UsageError:
    return UsageError(f"there is already a document '{name}' in '{collection}'", hint="rename one of them")
