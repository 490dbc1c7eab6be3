"""Reads the library's truth from SQL: documents, pages, chunks, vectors. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, PoolProxiedConnection, and_, func, or_, select

from refdesk.adapters import codec
from refdesk.adapters.collections import within
from refdesk.adapters.database import file_of
from refdesk.adapters.own_connections import OwnConnections
from refdesk.adapters.schema import chunks, documents, dropped, pages, vectors
from refdesk.errors import LibraryDamaged
from refdesk.geometry import Geometry
from refdesk.types import UNFINISHED, Chunk, Document, Everything, Page, Range, Scope

_CHUNK_COLUMNS = [
    chunks.c.id,
    chunks.c.sequence,
    chunks.c.kind,
    chunks.c.token_count,
    chunks.c.text,
    chunks.c.context,
    chunks.c.summary,
    chunks.c.details,
]
_DOCUMENT_COLUMNS = [column.name for column in documents.c]
_DOCUMENTS = f"SELECT {', '.join(_DOCUMENT_COLUMNS)} FROM documents"
_CHUNKS = f"SELECT document_key, {', '.join(column.name for column in _CHUNK_COLUMNS)} FROM chunks"
_MAPPED = 2 << 30  # bytes of the database that a searching thread reads through the page cache
EVERYTHING = Scope()
_FETCH = 4096  # rows at a time when reading whole tables


@dataclass(frozen=True, slots=True)
class Standing:
    """What a reader must know to see whether its view is current."""

    generation: int = 0  # rises with every change of what is visible
    epoch: int = 0  # rises when the list of dropped chunks was emptied: read everything anew
    space: str = ""  # the vector space in use
    lexical: int = 0  # the lexical index in use; rebuilding makes another one and then switches


@dataclass(frozen=True, slots=True)
class PageText:
    page: Page
    text: str
    words: Geometry | None


class Catalogue:
    """Every question the program asks of the SQL truth; safe to use from several threads."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._readers = OwnConnections(self._connect)
        self._known: dict[int, Document] = {}  # by key, valid for one generation
        self._known_generation = -1
        self._file = file_of(engine)

    def close(self) -> None:
        self._readers.close()

    def _connect(self) -> PoolProxiedConnection:
        reader = self.engine.raw_connection()
        # Halves the reading of twenty chunks from all over a large file.
        reader.cursor().execute(f"PRAGMA mmap_size = {_MAPPED}")
        reader.detach()  # the pool would keep it open, and so mapped, for whoever comes next
        return reader

    def _quick(self, statement: str) -> list[Any]:
        """Rows straight from the driver, on a connection of this thread's own: what every search asks.

        SQLAlchemy's checkout, BEGIN, compilation and ROLLBACK would double the time of a search.
        """
        cursor = self._readers.get().cursor()
        try:
            cursor.execute(statement)
            return list(cursor.fetchall())
        finally:
            cursor.close()

    # state

    def check(self) -> Standing:
        """Raises when the database is gone or another one by now: what is open would go on reading the old one."""
        if file_of(self.engine) != self._file:
            raise LibraryDamaged(
                f"the library {self.engine.url.database} is not the one any more that was opened",
                hint="put it back in its place, or start Refdesk anew",
            )
        return self.standing()

    def standing(self) -> Standing:
        return _standing(self._quick("SELECT name, value FROM state"))

    def languages(self) -> tuple[str, ...]:
        """The languages of the documents, the most frequent first."""
        query = (
            select(documents.c.language)
            .where(documents.c.status == "ready", documents.c.language != "")
            .group_by(documents.c.language)
            .order_by(func.count().desc(), documents.c.language)
        )
        with self.engine.connect() as connection:
            return tuple(connection.execute(query).scalars())

    # documents

    def documents(self, scope: Scope | None = None, status: str | None = None) -> list[Document]:
        query = select(documents).order_by(documents.c.collection, documents.c.name, documents.c.key)
        if scope is not None:
            query = query.where(*document_conditions(scope))
        if status is not None:
            query = query.where(documents.c.status == status)
        with self.engine.connect() as connection:
            found = [codec.unpack_document(row) for row in connection.execute(query).mappings()]
        return [document for document in found if scope is None or _has_metadata(document, scope)]

    def document(self, document_id: str, scope: Scope = EVERYTHING) -> Document | None:
        """By its id, or by the beginning of it when that is unique in the scope."""
        begins = documents.c.id.startswith(document_id, autoescape=True)
        query = select(documents).where(begins, *document_conditions(scope)).limit(2)
        with self.engine.connect() as connection:
            rows = connection.execute(query).mappings().all()
        return codec.unpack_document(rows[0]) if len(rows) == 1 else None

    def named(self, name: str, scope: Scope = EVERYTHING) -> list[Document]:
        query = select(documents).where(documents.c.name == name, *document_conditions(scope))
        with self.engine.connect() as connection:
            found = connection.execute(query.order_by(documents.c.key)).mappings()
            return [codec.unpack_document(row) for row in found]

    def collections(self, scope: Scope = EVERYTHING) -> list[tuple[str, int]]:
        """Each collection that holds a document, with how many lie in itself."""
        query = select(documents.c.collection, func.count()).where(*document_conditions(scope))
        with self.engine.connect() as connection:
            found = connection.execute(query.group_by(documents.c.collection).order_by(documents.c.collection))
            return [(path, count) for path, count in found]

    def at_place(self, collection: str, source: str) -> tuple[Document, float] | None:
        """The document that came from a file, with the time the file was changed."""
        query = select(documents).where(
            documents.c.collection == collection, documents.c.source == source, documents.c.parent_id.is_(None)
        )
        with self.engine.connect() as connection:
            row = connection.execute(query).mappings().first()
        return (codec.unpack_document(row), row["modified"]) if row is not None else None

    def text_named(self, collection: str, name: str) -> Document | None:
        """The text that a program handed in under a name."""
        return self._first(
            documents.c.collection == collection,
            documents.c.source == "",
            documents.c.name == name,
            documents.c.parent_id.is_(None),
        )

    def with_content(self, collection: str, content_hash: str) -> Document | None:
        return self._first(
            documents.c.collection == collection,
            documents.c.content_hash == content_hash,
            documents.c.status == "ready",
            documents.c.source != "",
        )

    def children(self, parent_id: str) -> list[Document]:
        query = select(documents).where(documents.c.parent_id == parent_id).order_by(documents.c.key)
        with self.engine.connect() as connection:
            return [codec.unpack_document(row) for row in connection.execute(query).mappings()]

    def unfinished(self) -> list[tuple[Document, str]]:
        """Documents that were accepted and are not finished, each with the run that is, or was, working on it."""
        accepted = or_(documents.c.status.in_(UNFINISHED), documents.c.owner != "")
        query = select(documents).where(accepted).order_by(documents.c.key)
        with self.engine.connect() as connection:
            return [(codec.unpack_document(row), row["owner"]) for row in connection.execute(query).mappings()]

    def _first(self, *conditions: Any) -> Document | None:
        with self.engine.connect() as connection:
            row = connection.execute(select(documents).where(*conditions).limit(1)).mappings().first()
        return codec.unpack_document(row) if row is not None else None

    # pages and chunks

    def pages(self, document_id: str, number: int | None = None) -> list[PageText]:
        query = (
            select(pages)
            .join(documents, documents.c.key == pages.c.document_key)
            .where(documents.c.id == document_id)
            .order_by(pages.c.number)
        )
        if number is not None:
            query = query.where(pages.c.number == number)
        with self.engine.connect() as connection:
            return [_page_text(row) for row in connection.execute(query).mappings()]

    def chunks_of(self, document_id: str) -> list[Chunk]:
        query = (
            select(*_CHUNK_COLUMNS)
            .join(documents, documents.c.key == chunks.c.document_key)
            .where(documents.c.id == document_id)
            .order_by(chunks.c.sequence)
        )
        with self.engine.connect() as connection:
            return [codec.unpack_chunk(row, document_id) for row in connection.execute(query)]

    def hydrate(self, ids: Sequence[int], generation: int) -> dict[int, tuple[Chunk, Document]]:
        """The chunks with these ids that are visible, each with its document."""
        found: dict[int, tuple[Chunk, Document]] = {}
        if not ids:
            return found
        rows = self._quick(f"{_CHUNKS} WHERE id IN ({','.join(str(int(i)) for i in ids)})")
        owners = self._documents_by_key({row[0] for row in rows}, generation)
        for row in rows:
            document = owners.get(row[0])
            if document is not None and document.status == "ready":
                found[row[1]] = (codec.unpack_chunk(row[1:], document.id), document)
        return found

    def _documents_by_key(self, keys: set[int], generation: int) -> dict[int, Document]:
        if generation != self._known_generation:
            self._known, self._known_generation = {}, generation
        known = self._known  # one dictionary per generation, so another thread's refresh cannot mix the two
        missing = [key for key in keys if key not in known]
        if missing:
            for row in self._quick(f"{_DOCUMENTS} WHERE key IN ({','.join(map(str, missing))})"):
                named = dict(zip(_DOCUMENT_COLUMNS, row, strict=True))
                known[named["key"]] = codec.unpack_document(named)
        return {key: known[key] for key in keys if key in known}

    # what the indexes are derived from

    def chunk_ids(self, scope: Scope) -> NDArray[np.int64]:
        """The ids of all visible chunks in scope, ascending."""
        with self.engine.connect() as connection:
            if not scope.kinds and scope.pages is None:
                rows = connection.execute(
                    select(documents.c.first_chunk, documents.c.last_chunk, documents.c.metadata)
                    .where(documents.c.status == "ready", *document_conditions(scope))
                    .order_by(documents.c.first_chunk)
                ).all()
                ranges = [np.arange(first, last + 1) for first, last, kept in rows if _metadata_holds(kept, scope)]
                return np.concatenate(ranges).astype(np.int64) if ranges else np.zeros(0, dtype=np.int64)
            query = (
                select(chunks.c.id, documents.c.metadata)
                .join(documents, documents.c.key == chunks.c.document_key)
                .where(documents.c.status == "ready", *document_conditions(scope), *_chunk_conditions(scope))
                .order_by(chunks.c.id)
            )
            found = [row[0] for row in connection.execute(query) if _metadata_holds(row[1], scope)]
        return np.array(found, dtype=np.int64)

    def vectors_after(self, space: str, after: int, dimensions: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids and vectors of the chunks whose id is greater than `after`, ascending."""
        query = (
            select(vectors.c.chunk_id, vectors.c.vector)
            .where(vectors.c.space == space, vectors.c.chunk_id > after)
            .order_by(vectors.c.chunk_id)
        )
        ids: list[int] = []
        parts: list[NDArray[np.float32]] = []
        with self.engine.connect() as connection:
            for rows in connection.execution_options(stream_results=True).execute(query).partitions(_FETCH):
                ids.extend(row[0] for row in rows)
                parts.append(codec.unpack_vectors([row[1] for row in rows], dimensions))
        matrix = np.concatenate(parts) if parts else np.zeros((0, dimensions), dtype=np.float32)
        return np.array(ids, dtype=np.int64), matrix

    def sentence_vectors(self, space: str, ids: Sequence[int], dimensions: int) -> dict[int, NDArray[np.int8]]:
        query = select(vectors.c.chunk_id, vectors.c.sentences).where(
            vectors.c.space == space, vectors.c.chunk_id.in_(list(ids))
        )
        with self.engine.connect() as connection:
            return {row[0]: codec.unpack_sentences(row[1], dimensions) for row in connection.execute(query)}

    def dropped(self, *, unpurged: bool = False) -> list[Range]:
        """Ranges of chunk ids that must not be found; `unpurged`: those that the lexical index may still hold."""
        query = select(dropped.c.first_chunk, dropped.c.last_chunk)
        if unpurged:
            query = query.where(dropped.c.purged == 0)
        with self.engine.connect() as connection:
            return [(row[0], row[1]) for row in connection.execute(query)]

    def all_chunks(self) -> Iterator[tuple[Document, Chunk, int]]:
        """Every visible chunk with its document and the document's key, in order of id."""
        query = (
            select(chunks.c.document_key, *_CHUNK_COLUMNS)
            .join(documents, documents.c.key == chunks.c.document_key)
            .where(documents.c.status == "ready")
            .order_by(chunks.c.id)
        )
        generation = self.standing().generation
        with self.engine.connect() as connection:
            for rows in connection.execution_options(stream_results=True).execute(query).partitions(_FETCH):
                owners = self._documents_by_key({row[0] for row in rows}, generation)
                for row in rows:
                    document = owners[row[0]]
                    yield document, codec.unpack_chunk(row[1:], document.id), row[0]

    def counts(self, space: str) -> dict[str, int]:
        """Documents by status, chunks and vectors: what the indexes must agree with."""
        with self.engine.connect() as connection:
            rows = connection.execute(select(documents.c.status, func.count()).group_by(documents.c.status))
            found = {f"documents_{status}": count for status, count in rows}
            found["chunks"] = connection.execute(select(func.count()).select_from(chunks)).scalar_one()
            found["vectors"] = connection.execute(
                select(func.count()).select_from(vectors).where(vectors.c.space == space)
            ).scalar_one()
        return found


def read_standing(connection: Connection) -> Standing:
    """Within a transaction of the writer's."""
    return _standing(connection.exec_driver_sql("SELECT name, value FROM state").fetchall())


def _standing(rows: Iterable[Any]) -> Standing:
    held: dict[str, str] = dict(rows)
    return Standing(
        int(held.get("generation", 0)), int(held.get("epoch", 0)), held.get("space", ""), int(held.get("lexical", 0))
    )


def document_conditions(scope: Scope) -> list[Any]:
    """SQL conditions on documents for all of a scope but its metadata, which is JSON and checked after."""
    conditions: list[Any] = []
    if scope.access is not Everything.EVERYTHING:
        conditions.append(within(documents.c.collection, scope.access))
    if scope.collections:
        conditions.append(within(documents.c.collection, scope.collections))
    if scope.documents:
        conditions.append(documents.c.id.in_(scope.documents))
    if scope.date_from:
        conditions.append(documents.c.date >= scope.date_from)
    if scope.date_to:
        conditions.append(and_(documents.c.date != "", documents.c.date <= scope.date_to))
    return conditions


def _chunk_conditions(scope: Scope) -> Iterable[Any]:
    if scope.kinds:
        yield chunks.c.kind.in_(scope.kinds)
    if scope.pages is not None:
        yield and_(chunks.c.first_page <= scope.pages[1], chunks.c.last_page >= scope.pages[0])


def _metadata_holds(packed: str, scope: Scope) -> bool:
    if not scope.metadata:
        return True
    held = orjson.loads(packed)
    return all(held.get(name) == value for name, value in scope.metadata)


def _has_metadata(document: Document, scope: Scope) -> bool:
    return all(document.metadata.get(name) == value for name, value in scope.metadata)


def _page_text(row: Any) -> PageText:
    page = Page(
        row["number"], row["start"], row["end"], row["width"], row["height"], row["label"], ocr=bool(row["ocr"])
    )
    words = codec.unpack_words(row["words"], page) if row["words"] is not None else None
    return PageText(page, row["text"], words)
