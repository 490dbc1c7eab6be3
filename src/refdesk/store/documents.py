"""Reads documents, pages, chunks and vectors from SQL, and stores the tables of documents."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Engine,
    Select,
    and_,
    func,
    or_,
    select,
)

from refdesk.errors import LibraryDamaged
from refdesk.records import (
    LARGEST,
    MOST_CELLS,
    Column,
    ColumnHead,
    LexicalEntry,
    LibraryState,
    Measure,
    PageText,
    StoredTable,
    readable_tables,
)
from refdesk.store import rows as codec
from refdesk.store.database import TABLES_MISSING, file_of, reads_of
from refdesk.store.postgres import is_server
from refdesk.store.rows import TABLE_FIELDS, unpack_column, unpack_texts, within
from refdesk.store.schema import chunks, documents, images, pages, vectors
from refdesk.store_ports import WHOLE_LIBRARY
from refdesk.types import EVERYTHING, Access, Chunk, Document, Everything, Page, Range, Scope

_DOCUMENT_COLUMNS = [column.name for column in documents.c]
_DOCUMENTS = f"SELECT {', '.join(_DOCUMENT_COLUMNS)} FROM documents"
_ENTRY = [chunks.c[name] for name in ("id", "kind", "first_page", "last_page", "context", "text")]
_ENTRIES = (
    f"SELECT {', '.join(map(str, (*_ENTRY, *documents.c)))}"
    " FROM (SELECT * FROM chunks WHERE id > ? ORDER BY id LIMIT 4096) AS chunks"  # read before any document is
    " JOIN documents ON documents.key = chunks.document_key ORDER BY chunks.id"
)
_PLACES = (
    "WITH wanted (document, sequence) AS (VALUES {}) SELECT chunks.id FROM wanted"
    " JOIN documents ON documents.id = wanted.document"
    " JOIN chunks ON chunks.document_key = documents.key AND chunks.sequence = wanted.sequence"
)
_LANGUAGES = (
    "SELECT language, count(*) FROM documents WHERE status = 'ready' AND language != ''"
    " GROUP BY language ORDER BY count(*) DESC, language"
)
# Leaps from each language to the next in the index: counting reads an entry for every document.
_SPOKEN = """
    WITH RECURSIVE spoken (language) AS (
        SELECT min(language) FROM documents WHERE status = 'ready' AND language > ''
        UNION ALL
        SELECT (SELECT min(language) FROM documents WHERE status = 'ready' AND language > spoken.language)
        FROM spoken WHERE spoken.language IS NOT NULL
    )
    SELECT language FROM spoken WHERE language IS NOT NULL
"""
_VECTORS = "SELECT chunk_id, vector FROM vectors WHERE space = ? AND chunk_id > ? ORDER BY chunk_id LIMIT 16384"
_VECTORS_OF = "SELECT chunk_id, vector FROM vectors WHERE space = ? AND chunk_id"
_SENTENCES = "SELECT chunk_id, sentences FROM vectors WHERE space = ? AND chunk_id"
_DROPPED = "SELECT first_chunk, last_chunk FROM dropped"
_TEXT = f"{_DOCUMENTS} WHERE collection = ? AND source = '' AND name = ? AND parent_id IS NULL"
_READ_KEPT = 512  # chunks kept of what was read last: some 5 MB
_MOST_IDS = 512  # values in one condition
_MAPPED = 2 << 30  # bytes of the database that a searching thread reads through the page cache
_FETCH = 4096  # rows at a time when reading whole tables


_NAME = func.lower(documents.c.name)  # of ASCII; as people expect it, not all capitals first
SORTS: Mapping[str, tuple[ColumnElement[Any], ...]] = {
    "place": (documents.c.collection, documents.c.name),
    "name": (_NAME, documents.c.collection),
    "size": (documents.c.size, _NAME),
    "pages": (documents.c.page_count, _NAME),
    "added": (documents.c.created_at, _NAME),
    "changed": (documents.c.updated_at, _NAME),
    "status": (documents.c.status, _NAME),
}


class SqlDocuments:
    """Documents, pages, chunks and vectors as SQL holds them; safe to use from several threads."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # Halves the reading of twenty chunks from all over a large file.
        self._readers = reads_of(engine, f"PRAGMA mmap_size = {_MAPPED}")
        self._is_server = is_server(engine)
        selected = select(chunks.c.document_key, *codec.CHUNK_COLUMNS).compile(dialect=engine.dialect)
        self._chunks = " ".join(str(selected).split())
        self._known: dict[int, Document] = {}  # by key, valid for one generation
        self._known_generation = -1
        self._read: dict[int, tuple[Chunk, Document]] = {}  # chunks by id, of one generation
        self._read_generation = -1
        self._file = file_of(engine)

    def close(self) -> None:
        self._readers.close()

    def quick(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Rows straight from the driver, on a connection of this thread's own: what every search asks.

        SQLAlchemy's checkout, BEGIN, compilation and ROLLBACK would double the time of a search. The driver keeps what
        it has prepared by its text, so that texts must be few.
        """
        return self._readers.rows(statement.replace("?", "%s") if self._is_server else statement, values)

    def quick_in(self, statement: str, ids: Iterable[int], *before: Any) -> list[Any]:
        """`quick` for a statement that ends in a column, of which one of these values is wanted."""
        found: list[Any] = []
        every = list(ids)
        for at in range(0, len(every), _MOST_IDS):
            some = every[at : at + _MOST_IDS]
            some += some[-1:] * (room(len(some)) - len(some))
            found += self.quick(f"{statement} IN ({','.join('?' * len(some))})", (*before, *some))
        return found

    # state

    def check(self) -> LibraryState:
        if file_of(self.engine) != self._file:
            raise LibraryDamaged(
                f"the library {self.engine.url.database} was replaced while it was open",
                hint="move it back, or restart Refdesk",
            )
        return self.state()

    def state(self) -> LibraryState:
        return library_state(self.quick("SELECT name, value FROM state"))

    def languages(self) -> tuple[str, ...]:
        return tuple(language for language, _ in self.quick(_LANGUAGES))

    def spoken(self) -> frozenset[str]:
        return frozenset(language for (language,) in self.quick(_SPOKEN))

    # documents

    def documents(self, scope: Scope | None = None, status: str | None = None) -> list[Document]:
        query = select(documents).order_by(documents.c.collection, documents.c.name, documents.c.key)
        if scope is not None:
            query = query.where(*document_conditions(scope))
        if status is not None:
            query = query.where(documents.c.status == status)
        return [document for document in self._select(query) if scope is None or _has_metadata(document, scope)]

    def document(self, document_id: str, scope: Scope = WHOLE_LIBRARY) -> Document | None:
        begins = documents.c.id.startswith(document_id, autoescape=True)
        query = select(documents).where(begins, *document_conditions(scope)).limit(2)
        found = self._select(query)
        return found[0] if len(found) == 1 else None

    def named(self, name: str, scope: Scope = WHOLE_LIBRARY) -> list[Document]:
        query = select(documents).where(documents.c.name == name, *document_conditions(scope))
        return self._select(query.order_by(documents.c.key))

    def collections(self, scope: Scope = WHOLE_LIBRARY) -> list[tuple[str, int]]:
        query = select(documents.c.collection, func.count()).where(*document_conditions(scope))
        with self.engine.connect() as connection:
            found = connection.execute(query.group_by(documents.c.collection).order_by(documents.c.collection))
            return [(path, count) for path, count in found]

    def at_place(self, collection: str, source: str) -> tuple[Document, float] | None:
        top = select(documents).where(documents.c.source == source, documents.c.parent_id.is_(None))
        with self.engine.connect() as connection:
            row = connection.execute(top.where(documents.c.collection == collection)).mappings().first()
            if row is None:
                row = connection.execute(top.where(documents.c.added_to == collection)).mappings().first()
        return (codec.unpack_document(row), row["modified"]) if row is not None else None

    def text_named(self, collection: str, name: str) -> Document | None:
        rows = self.quick(_TEXT, (collection, name))
        return _document(rows[0]) if rows else None

    def with_content(self, collection: str, content_hash: str) -> Document | None:
        return self._first(
            documents.c.collection == collection,
            documents.c.content_hash == content_hash,
            documents.c.status == "ready",
            documents.c.source != "",
        )

    def children(self, parent_id: str) -> list[Document]:
        query = select(documents).where(documents.c.parent_id == parent_id).order_by(documents.c.key)
        return self._select(query)

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
        conditions = [*document_conditions(scope), *_holding(text)]
        if status is not None:
            conditions.append(documents.c.status == status)
        count = select(func.count()).select_from(documents).where(*conditions)
        rows = select(documents).where(*conditions)
        columns = [column.desc() if is_falling else column for column in SORTS[sort]]
        rows = rows.order_by(*columns, documents.c.key).limit(limit).offset(offset)
        with self.engine.connect() as connection:
            return self._select(rows), int(connection.execute(count).scalar_one())

    def visible(self, document_id: str, access: Access) -> Document | None:
        scope = Scope(documents=(document_id,), access=access if access is EVERYTHING else tuple(access))
        return self._first(*document_conditions(scope))

    def among(self, ids: Collection[str], access: tuple[str, ...]) -> set[str]:
        conditions = document_conditions(Scope(documents=tuple(ids), access=access))
        with self.engine.connect() as connection:
            return set(connection.scalars(select(documents.c.id).where(*conditions))) if ids else set()

    def from_source(self, source: str) -> Document | None:
        return self._first(documents.c.source == source, documents.c.parent_id.is_(None))

    def upload_named(self, collection: str, name: str) -> Document | None:
        """The document of that name that was uploaded."""
        return self._first(
            documents.c.collection == collection,
            documents.c.name == name,
            documents.c.source.startswith("upload:"),
            documents.c.parent_id.is_(None),
        )

    def has_figure(self, image: str, access: Access) -> bool:
        found = select(images.c.chunk_id).join(documents, documents.c.key == images.c.document_key)
        scope = Scope(access=access if access is EVERYTHING else tuple(access))
        found = found.where(images.c.file == image, documents.c.status == "ready", *document_conditions(scope))
        with self.engine.connect() as connection:
            return connection.execute(found.limit(1)).first() is not None

    def _select(self, query: Select[Any]) -> list[Document]:
        with self.engine.connect() as connection:
            return [codec.unpack_document(row) for row in connection.execute(query).mappings()]

    def _first(self, *conditions: Any) -> Document | None:
        return next(iter(self._select(select(documents).where(*conditions).limit(1))), None)

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
            select(*codec.CHUNK_COLUMNS)
            .join(documents, documents.c.key == chunks.c.document_key)
            .where(documents.c.id == document_id)
            .order_by(chunks.c.sequence)
        )
        with self.engine.connect() as connection:
            return [codec.unpack_chunk(row, document_id) for row in connection.execute(query)]

    def hydrate(self, ids: Collection[int], generation: int) -> dict[int, tuple[Chunk, Document]]:
        # One dictionary per generation, replaced and never emptied. A question searches more than once, and asks for
        # the neighbours of what it found, but each row is read once.
        if generation != self._read_generation or len(self._read) > _READ_KEPT:
            self._read, self._read_generation = {}, generation
        known = self._read
        missing = [chunk_id for chunk_id in ids if chunk_id not in known]
        rows = self.quick_in(f"{self._chunks} WHERE chunks.id", missing)
        if rows and len(missing) < len(ids) and (now := self.state().generation) != generation:
            return self.hydrate(ids, now)  # or a chunk that was replaced would stand beside what replaced it
        owners = self._documents_by_key({row[0] for row in rows}, generation)
        for row in rows:
            document = owners.get(row[0])
            if document is not None and document.status == "ready":
                known[row[1]] = (codec.unpack_chunk(row[1:], document.id), document)
        return {chunk_id: known[chunk_id] for chunk_id in ids if chunk_id in known}

    def chunks_at(self, places: Collection[tuple[str, int]], generation: int) -> dict[tuple[str, int], Chunk]:
        wanted = [place for place in places if place[1] > 0]
        if not wanted:
            return {}
        wanted += wanted[-1:] * (room(len(wanted)) - len(wanted))
        statement = _PLACES.format(",".join(["(?, ?)"] * len(wanted)))
        found = self.quick(statement, list(chain.from_iterable(wanted)))
        chunks = (chunk for chunk, _ in self.hydrate({chunk_id for (chunk_id,) in found}, generation).values())
        return {(chunk.document_id, chunk.sequence): chunk for chunk in chunks}

    def _documents_by_key(self, keys: set[int], generation: int) -> dict[int, Document]:
        if generation != self._known_generation:
            self._known, self._known_generation = {}, generation
        known = self._known  # one dictionary per generation, so another thread's refresh cannot mix the two
        missing = [key for key in keys if key not in known]
        if missing:
            for row in self.quick_in(f"{_DOCUMENTS} WHERE key", missing):
                known[row[0]] = _document(row)
        return {key: known[key] for key in keys if key in known}

    # what the indexes are derived from

    def chunk_ids(self, scope: Scope) -> NDArray[np.int64]:
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

    def vectors_after(
        self, embedder: str, after: int, dimensions: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        ids: list[int] = []
        parts = [np.zeros((0, dimensions), dtype=np.float32)]
        while rows := self.quick(_VECTORS, (embedder, ids[-1] if ids else after)):
            ids.extend(row[0] for row in rows)
            parts.append(codec.unpack_vectors([row[1] for row in rows], dimensions))
        return np.array(ids, dtype=np.int64), np.concatenate(parts)

    def vectors_of(self, embedder: str, ids: Sequence[int]) -> dict[int, NDArray[np.float32]]:
        rows = self.quick_in(_VECTORS_OF, ids, embedder)
        return {chunk_id: codec.unpack_vectors([packed], len(packed) // 2)[0] for chunk_id, packed in rows}

    def sentence_vectors(self, embedder: str, ids: Sequence[int], dimensions: int) -> dict[int, NDArray[np.int8]]:
        rows = self.quick_in(_SENTENCES, ids, embedder)
        return {chunk_id: codec.unpack_sentences(packed, dimensions) for chunk_id, packed in rows}

    def dropped(self, *, unpurged: bool = False) -> list[Range]:
        rows = self.quick(f"{_DROPPED} WHERE purged = 0" if unpurged else _DROPPED)
        return [(first, last) for first, last in rows]

    def all_chunks(self) -> Iterator[tuple[Document, Chunk]]:
        query = (
            select(chunks.c.document_key, *codec.CHUNK_COLUMNS)
            .join(documents, documents.c.key == chunks.c.document_key)
            .where(documents.c.status == "ready")
            .order_by(chunks.c.id)
        )
        generation = self.state().generation
        with self.engine.connect() as connection:
            for rows in connection.execution_options(stream_results=True).execute(query).partitions(_FETCH):
                owners = self._documents_by_key({row[0] for row in rows}, generation)
                for row in rows:
                    document = owners[row[0]]
                    yield document, codec.unpack_chunk(row[1:], document.id)

    def entries_after(self, after: int) -> Iterator[LexicalEntry]:
        while rows := self.quick(_ENTRIES, (after,)):
            # Read with its chunks: what is remembered of a document may be of an older version.
            width = len(_ENTRY)
            owners = {key: _document(row) for key, row in {row[width]: row[width:] for row in rows}.items()}
            for row in rows:
                yield codec.lexical_entry(owners[row[width]], *row[:width])
            after = rows[-1][0]

    def counts(self, embedder: str) -> dict[str, int]:
        with self.engine.connect() as connection:
            rows = connection.execute(select(documents.c.status, func.count()).group_by(documents.c.status))
            found = {f"documents_{status}": count for status, count in rows}
            found["chunks"] = connection.execute(select(func.count()).select_from(chunks)).scalar_one()
            found["vectors"] = connection.execute(
                select(func.count()).select_from(vectors).where(vectors.c.embedder == embedder)
            ).scalar_one()
        return found

    def integrity(self) -> tuple[str, int, set[int]]:
        size = func.coalesce(func.sum(documents.c.last_chunk - documents.c.first_chunk + 1), 0)
        with self.engine.connect() as connection:
            # PostgreSQL looks after its own pages; what is missing shows below.
            problem = "ok" if self._is_server else str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
            expected = connection.execute(select(size).where(documents.c.status == "ready")).scalar_one()
            return problem, expected, set(connection.execute(select(chunks.c.id)).scalars())

    def wanted_files(self) -> dict[str, str]:
        wanted: dict[str, str] = {}
        is_ready = documents.c.status == "ready"
        added = (documents.c.source != "") | documents.c.parent_id.is_not(None)
        figures = select(images.c.file, documents.c.name).join(documents, documents.c.key == images.c.document_key)
        with self.engine.connect() as connection:
            for content_hash, name in connection.execute(
                select(documents.c.content_hash, documents.c.name).where(is_ready, added)
            ):
                wanted.setdefault(content_hash, name)
            for file, name in connection.execute(figures.where(is_ready)):
                wanted.setdefault(file, f"a figure of {name}")
        wanted.pop("", None)
        return wanted


def library_state(rows: Iterable[Any]) -> LibraryState:
    """From the rows of the table `state`."""
    values: dict[str, str] = dict(rows)
    generation, epoch, lexical = (int(values.get(name, 0)) for name in ("generation", "epoch", "lexical"))
    # Before it was written down, every chunk was in the lexical index.
    folded = int(values.get("folded") or int(values.get("next_chunk", 1)) - 1)
    has_tables = values.get("tables") != TABLES_MISSING
    return LibraryState(generation, epoch, values.get("space", ""), lexical, folded, has_tables)


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
    metadata = orjson.loads(packed)
    return all(metadata.get(name) == value for name, value in scope.metadata)


def _has_metadata(document: Document, scope: Scope) -> bool:
    return all(document.metadata.get(name) == value for name, value in scope.metadata)


def room(count: int) -> int:
    """The power of two that is enough: searches for 17 to 32 chunks share one statement.

    >>> room(20)
    32
    """
    return 1 << max(0, count - 1).bit_length()


def _document(row: Sequence[Any]) -> Document:
    """From a row of all columns."""
    return codec.unpack_document(dict(zip(_DOCUMENT_COLUMNS, row, strict=True)))


def _page_text(row: Any) -> PageText:
    page = Page(
        row["number"], row["start"], row["end"], row["width"], row["height"], row["label"], ocr=bool(row["ocr"])
    )
    words = codec.unpack_words(row["words"], page) if row["words"] is not None else None
    return PageText(page, row["text"], words)


def _holding(text: str) -> Iterator[Any]:
    """SQLite folds the case of ASCII alone; a few spellings of the text do for the other alphabets."""
    if text:
        spellings = {text, text.lower(), text.upper(), text.title(), text.capitalize()}
        columns = (documents.c.name, documents.c.title)
        yield or_(
            *(column.icontains(spelling, autoescape=True) for column in columns for spelling in sorted(spellings))
        )


REMEMBERED = 50_000  # cells of tables that were asked for: some 15 MB
_SELECTED = "SELECT tables.id, documents.id, tables.heads, " + ", ".join(f'tables."{name}"' for name in TABLE_FIELDS)
_OF_DOCUMENT = f"{_SELECTED} FROM documents JOIN tables ON tables.document_key = documents.key WHERE documents.id = ?"
_BETWEEN = (
    'WITH wanted (document, "start", "end") AS (VALUES {}) '
    f"{_SELECTED} FROM wanted JOIN documents ON documents.id = wanted.document"
    ' JOIN tables ON tables.document_key = documents.key AND tables."start" < wanted."end"'
    ' AND tables."end" > wanted."start"'
)
_CELLS = 'SELECT table_id, "column", numbers, texts, places FROM cells WHERE table_id'
_UNPLACED = _CELLS.replace(", places", "")
_FIRST_COLUMNS = (
    "SELECT cells.texts FROM documents JOIN tables ON tables.document_key = documents.key"
    ' JOIN cells ON cells.table_id = tables.id AND cells."column" = 0'
    ' WHERE documents.id = ? AND tables.cell_count <= ? ORDER BY tables."number"'
)


class SqlTables:
    """The `TableStore` port; safe to use from several threads.

    `remembered` and `largest` are the cells of small tables and of sheets that stay in memory.
    """

    def __init__(self, documents: SqlDocuments, *, remembered: int = REMEMBERED, largest: int = LARGEST) -> None:
        self._documents = documents
        self._remembered, self._largest = remembered, largest
        self._loaded: dict[int, StoredTable] = {}  # with their cells, by id
        self._sheets: dict[int, StoredTable] = {}  # the same of large ones, the one read last at the end
        self._reading_sheets = threading.Lock()

    def of_document(self, document_id: str) -> list[StoredTable]:
        found = map(_table, self._documents.quick(_OF_DOCUMENT, (document_id,)))
        return sorted(found, key=lambda table: table.number)

    def row_names(self, document_id: str) -> list[str]:
        found = self._documents.quick(_FIRST_COLUMNS, (document_id, MOST_CELLS))
        return list(dict.fromkeys(text for (packed,) in found for text in unpack_texts(packed)))

    def between(self, places: Sequence[tuple[str, int, int]]) -> list[StoredTable]:
        if not places:
            return []
        wanted = [*places, *[places[-1]] * (room(len(places)) - len(places))]
        statement = _BETWEEN.format(",".join(["(?, ?, ?)"] * len(wanted)))
        found = {table.id: table for table in map(_table, self._documents.quick(statement, [*chain(*wanted)]))}
        return list(found.values())

    def with_cells(self, found: Sequence[StoredTable], most: int | None = MOST_CELLS) -> list[StoredTable]:
        # A question asks for what the one before has asked for. No id is ever given to another table, so that what is
        # remembered stays true; one dictionary, replaced and never emptied, for threads may be reading it.
        if sum(table.cell_count for table in self._loaded.values()) > self._remembered:
            self._loaded = {}
        known = self._loaded
        wanted = readable_tables(found, most)
        if most is not None and (large := [table for table in wanted if table.cell_count > MOST_CELLS]):
            sheets = self._with_sheets(large)
            return [sheets.get(table.id, table) for table in self.with_cells(found, MOST_CELLS)]
        missing = {table.id: table for table in wanted if table.id not in known}
        columns: dict[int, dict[int, Column]] = {table_id: {} for table_id in missing}
        for table_id, number, *packed in self._documents.quick_in(_CELLS, missing):
            columns[table_id][number] = unpack_column(*packed)
        loaded = {
            table_id: replace(missing[table_id], columns=tuple(by_number[number] for number in sorted(by_number)))
            for table_id, by_number in columns.items()
        }
        known.update(
            (stored_table.id, stored_table) for stored_table in loaded.values() if stored_table.cell_count <= MOST_CELLS
        )
        return [loaded.get(table.id) or (known.get(table.id, table) if table in wanted else table) for table in found]

    def _with_sheets(self, wanted: Sequence[StoredTable]) -> dict[int, StoredTable]:
        """Read by one thread at a time: twice the same sheet would be twice the memory."""
        with self._reading_sheets:
            for table in wanted:
                sheet = self._sheets.pop(table.id, None) or self.with_cells([table], None)[0]
                if sheet.is_loaded:  # else it is gone
                    self._sheets[table.id] = sheet
            found = {table.id: self._sheets[table.id] for table in wanted if table.id in self._sheets}
            while sum(sheet.cell_count for sheet in self._sheets.values()) > self._largest:
                self._sheets.pop(next(iter(self._sheets)))
        return found

    def columns(self, table_id: int, numbers: Collection[int], *, are_placed: bool = False) -> dict[int, Column]:
        wanted = ",".join(map(str, sorted(map(int, numbers))))
        selected = _CELLS if are_placed else _UNPLACED
        rows = self._documents.quick(f'{selected} = ? AND "column" IN ({wanted})', (table_id,))
        return {number: unpack_column(*packed) for _, number, *packed in rows}


def _table(row: Sequence[Any]) -> StoredTable:
    table_id, document_id, packed, *plain = row
    heads = tuple(ColumnHead(tuple(path), Measure(*measure)) for path, *measure in orjson.loads(packed))
    return StoredTable(**dict(zip(TABLE_FIELDS, plain, strict=True)), heads=heads, id=table_id, document_id=document_id)
