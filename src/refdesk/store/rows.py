"""The rows of a document: packing values into columns, and finding, writing and deleting rows in a transaction."""

from __future__ import annotations

import uuid
import zlib
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any, TypeVar, overload

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import (
    BigInteger,
    Connection,
    Table,
    Text,
    bindparam,
    cast,
    delete,
    false,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upserted
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from refdesk.errors import NotFound
from refdesk.records import LexicalEntry, Prepared
from refdesk.store.database import SqlStatement
from refdesk.store.postgres import copy_in
from refdesk.store.schema import (
    chunks,
    documents,
    dropped,
    entities,
    images,
    pages,
    relations,
    state,
    tables,
    tree_members,
    tree_nodes,
    vectors,
    written_summaries,
)
from refdesk.terms import terms
from refdesk.types import Box, Chunk, Document, Geometry, Outcome, Page, Sentence, Span

_WORD = np.dtype(
    [("start", "<i4"), ("length", "<u2"), ("line", "<u2"), ("edges", "<u2", (4,))]
)  # start and line count from the page's first
_EDGE_SCALE = 600.0  # per cent -> 16 bits: steps of 0.0017 %, a hundredth of a point on A4
_LONGEST_WORD = 65_535
_T = TypeVar("_T")


def pack_chunk(chunk: Chunk, chunk_id: int, document_key: int) -> dict[str, Any]:
    details = {
        "path": chunk.heading_path,
        "pages": chunk.pages,
        "spans": [[s.start, s.end, s.origin, s.page, None if s.box is None else _pack_box(s.box)] for s in chunk.spans],
        "sentences": [[s.start, s.end, s.page, [[b.page, *_pack_box(b)] for b in s.boxes]] for s in chunk.sentences],
        "keywords": chunk.keywords,
    }
    return {
        "id": chunk_id,
        "document_key": document_key,
        "sequence": chunk.sequence,
        "kind": chunk.kind,
        "first_page": min(chunk.pages),
        "last_page": max(chunk.pages),
        "token_count": chunk.token_count,
        "text": chunk.text,
        "context": chunk.context,
        "summary": chunk.summary,
        "details": orjson.dumps(details),
    }


def pack_image(chunk: Chunk, chunk_id: int, document_key: int) -> list[dict[str, Any]]:
    if chunk.image is None:
        return []
    place = chunk.boxes[0] if chunk.boxes else (chunk.page, None, None, None, None)
    row = {"chunk_id": chunk_id, "document_key": document_key, "file": chunk.image}
    return [row | dict(zip(Box._fields, place, strict=True))]


class Rows(Sequence[_T]):
    """Rows that become values when they are looked at: a search gives twenty chunks, its caller looks into a few.

    To everybody else it is the tuple it stands for.
    """

    __slots__ = ("_make", "_rows", "_values")

    def __init__(self, rows: list[Any], make: Callable[[Any], _T]) -> None:
        self._rows = rows
        self._make = make
        self._values: tuple[_T, ...] | None = None

    def _all(self) -> tuple[_T, ...]:
        if self._values is None:
            self._values = tuple(map(self._make, self._rows))
        return self._values

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> _T: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[_T, ...]: ...

    def __getitem__(self, place: int | slice) -> _T | tuple[_T, ...]:
        return self._all()[place]

    def __iter__(self) -> Iterator[_T]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Rows, tuple)) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._all(),)


def _span(row: list[Any]) -> Span:
    start, end, origin, page, box = row
    return Span(start, end, origin, page, None if box is None else Box(page, *box))


def _sentence(row: list[Any]) -> Sentence:
    start, end, page, boxes = row
    return Sentence(start, end, page, tuple(map(Box._make, boxes)))


class NamesInOrder(GenericFunction[str]):
    """What a chunk names as a JSON list, in the order of its text."""

    type = Text()
    inherit_cache = True


@compiles(NamesInOrder, "postgresql")
def _names_in_postgres(element: Any, compiler: Any, **options: Any) -> str:
    name = compiler.process(element.clauses, **options)
    return f"coalesce(json_agg({name} ORDER BY entities.place)::text, '[]')"


@compiles(NamesInOrder)
def _names_in_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"json_group_array({compiler.process(element.clauses, **options)})"


_NAMES = select(NamesInOrder(entities.c.name)).where(entities.c.chunk_id == chunks.c.id)
CHUNK_COLUMNS = (
    *(chunks.c[name] for name in ("id", "sequence", "kind", "token_count", "text", "context", "summary", "details")),
    _NAMES.correlate(chunks).scalar_subquery().label("entities"),  # one read for both
    select(images.c.file).where(images.c.chunk_id == chunks.c.id).correlate(chunks).scalar_subquery().label("image"),
)


def unpack_chunk(row: Any, document_id: str) -> Chunk:
    """A row of `CHUNK_COLUMNS`."""
    chunk_id, sequence, kind, token_count, text, context, summary, details, names, image = row
    more = orjson.loads(details)
    return Chunk(
        document_id=document_id,
        sequence=sequence,
        kind=kind,
        text=text,
        heading_path=tuple(more["path"]),
        pages=tuple(more["pages"]),
        spans=Rows(more["spans"], _span),
        sentences=Rows(more["sentences"], _sentence),
        token_count=token_count,
        context=context,
        summary=summary,
        keywords=tuple(more["keywords"]),
        entities=tuple(orjson.loads(names)) if names != "[]" else (),
        image=image,
        id=chunk_id,
    )


def _pack_box(box: Box) -> list[float]:
    return [round(box.x, 3), round(box.y, 3), round(box.width, 3), round(box.height, 3)]


_PACKED = ("metadata", "notes")  # JSON in a column
_PLAIN = [field.name for field in fields(Document) if field.name not in _PACKED]


def unpack_document(row: Any) -> Document:
    """From a mapping, or a row of any kind, that has every column."""
    row = row if isinstance(row, Mapping) else row._asdict()
    metadata, notes = orjson.loads(row["metadata"]), tuple(orjson.loads(row["notes"]))
    return Document(**{name: row[name] for name in _PLAIN}, metadata=metadata, notes=notes)


def pack_words(geometry: Geometry, page: Page) -> bytes:
    """The words that stand on a page, compressed; offsets count from the page's start."""
    first = int(np.searchsorted(geometry.start, page.start))
    last = int(np.searchsorted(geometry.start, page.end))
    table = np.zeros(last - first, dtype=_WORD)
    table["start"] = geometry.start[first:last] - page.start
    table["length"] = np.minimum(geometry.end[first:last] - geometry.start[first:last], _LONGEST_WORD)
    if last > first:
        # Line numbers are only compared with one another on this page.
        table["line"] = np.unique(geometry.line[first:last], return_inverse=True)[1]
    table["edges"] = np.clip(np.rint(geometry.edges[first:last] * _EDGE_SCALE), 0, 65_535)
    return zlib.compress(table.tobytes(), 6)


def unpack_words(packed: bytes, page: Page) -> Geometry:
    table = np.frombuffer(zlib.decompress(packed), dtype=_WORD)
    start = table["start"] + page.start
    return Geometry(
        start.astype(np.int32),
        (start + table["length"]).astype(np.int32),
        np.full(len(table), page.number, dtype=np.int32),
        table["line"].astype(np.int32),
        (table["edges"] / _EDGE_SCALE).astype(np.float32),
    )


def pack_vector(vector: NDArray[np.float32]) -> bytes:
    return vector.astype("<f2").tobytes()


def unpack_vectors(packed: list[bytes], dimensions: int) -> NDArray[np.float32]:
    if not packed:
        return np.zeros((0, dimensions), dtype=np.float32)
    return np.frombuffer(b"".join(packed), dtype="<f2").reshape(-1, dimensions).astype(np.float32)


def unpack_sentences(packed: bytes, dimensions: int) -> NDArray[np.int8]:
    return np.frombuffer(packed, dtype=np.int8).reshape(-1, dimensions)


_SOME = 500  # values in one condition

# What a store runs for every document.
_OF_ID = SqlStatement(select(documents).where(documents.c.id == bindparam("id")))
_ATTACHED = SqlStatement(
    select(documents).where(documents.c.parent_id == bindparam("parent_id"), documents.c.name == bindparam("name"))
)
_FILE = SqlStatement(
    select(documents).where(
        # Not its name: a file has a shorter one when its own folder is added than when the folder above is.
        documents.c.collection == bindparam("collection"),
        documents.c.source == bindparam("source"),
        documents.c.parent_id.is_(None),
    )
)
_TEXT = SqlStatement(
    select(documents).where(
        documents.c.collection == bindparam("collection"),
        documents.c.source == bindparam("source"),
        documents.c.name == bindparam("name"),
        documents.c.parent_id.is_(None),
    )
)
_INSERT = SqlStatement(
    insert(documents).returning(documents.c.key), [column.name for column in documents.c if column.name != "key"]
)
_KEPT_COLUMNS = ("key", "id", "created_at", "added_to")  # of a row whose document is replaced
_REPLACE = SqlStatement(
    update(documents).where(documents.c.key == bindparam("replaced")),
    [column.name for column in documents.c if column.name not in _KEPT_COLUMNS],
)
_EMPTY = [
    SqlStatement(delete(table).where(table.c.document_key == bindparam("of")))
    for table in (chunks, pages, tables, written_summaries, tree_nodes)
]
_CLUSTERS = SqlStatement(
    delete(tree_nodes).where(
        tree_nodes.c.id.in_(select(tree_members.c.node_id).where(tree_members.c.document_key == bindparam("of")))
    )
)
_DROP = SqlStatement(insert(dropped))
_STATE = SqlStatement(select(state.c.value).where(state.c.name == bindparam("of")))
_CHANGE_STATE = SqlStatement(update(state).where(state.c.name == bindparam("of")), ["value"])
_NEW_STATE = SqlStatement(insert(state))


_INSERTS = {table: SqlStatement(insert(table)) for table in (pages, chunks, vectors, entities, relations, images)}


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """What a store writes, whatever the number of its documents."""
    if rows and connection.dialect.name == "postgresql":
        copy_in(connection, table, rows)
    else:
        _INSERTS[table].run_many(connection, rows)


def document_values(document: Document, modified: float) -> dict[str, Any]:
    """The columns of a new row; it has no chunks yet."""
    moment = now()
    return {name: getattr(document, name) for name in _PLAIN} | {
        "id": document.id or uuid.uuid4().hex[:16],
        "modified": modified,
        "metadata": orjson.dumps(dict(document.metadata)).decode(),
        "notes": orjson.dumps(list(document.notes)).decode(),
        "owner": "",
        "first_chunk": 0,
        "last_chunk": -1,
        "added_to": "",
        "created_at": moment,
        "updated_at": moment,
    }


DocumentRow = namedtuple("DocumentRow", [column.name for column in documents.c])  # type: ignore[misc]


def find(connection: Connection, document: Document) -> Any:
    """The row that stands for the same thing: the same file, the same attachment, or the same name of a text."""
    if document.id:
        found = _OF_ID.run(connection, id=document.id)
    elif document.parent_id is not None:
        found = _ATTACHED.run(connection, parent_id=document.parent_id, name=document.name)
    elif document.source:
        found = _FILE.run(connection, collection=document.collection, source=document.source)
    else:
        found = _TEXT.run(connection, collection=document.collection, source="", name=document.name)
    row = found.fetchone()
    return None if row is None else DocumentRow._make(row)


def in_place(row: Any, prepared: Prepared) -> Prepared:
    """What was moved while its new version was being read stays where it is, and an upload keeps its new name."""
    if row is None:
        return prepared
    document = prepared.document
    is_upload = document.source.startswith("upload:")
    placed = replace(document, collection=row.collection, name=row.name if is_upload else document.name)
    return prepared if placed == document else replace(prepared, document=placed)


def upsert(
    connection: Connection, prepared: Prepared, modified: float, start: int, row: Any
) -> tuple[int, Document, Outcome]:
    """Writes the document's row, visible; what the `row` found for it held goes. Gives its key, it, and what happened.

    >>> upsert(connection, prepared, 0.0, 17, find(connection, prepared.document))
    (3, Document(id='5b8…'), 'added')
    """
    values = document_values(prepared.document, modified) | {"status": "ready"}
    values |= {"first_chunk": start, "last_chunk": start + len(prepared.chunks) - 1}
    if row is None:
        (key,) = _INSERT.run(connection, **values).fetchone()
        return int(key), unpack_document(values), "added"
    drop_chunks(connection, row)
    drop_clusters(connection, row)
    for emptying in _EMPTY:
        emptying.run(connection, of=row.key)
    _REPLACE.run(connection, replaced=row.key, **values)
    stored = unpack_document(values | {name: getattr(row, name) for name in _KEPT_COLUMNS})
    return int(row.key), stored, "replaced" if row.status == "ready" else "added"


def drop_chunks(connection: Connection, row: Any) -> None:
    if row.last_chunk >= row.first_chunk:
        drop_ids(connection, row.first_chunk, row.last_chunk)


def drop_clusters(connection: Connection, row: Any) -> None:
    """What was said of several documents, of which one is no longer what or where it was."""
    _CLUSTERS.run(connection, of=row.key)


def drop_ids(connection: Connection, first: int, last: int) -> None:
    """From now on nobody finds these chunks."""
    _DROP.run(connection, first_chunk=first, last_chunk=last, purged=0)


def row_of(connection: Connection, document_id: str, collection: str | None = None) -> Any:
    """The row of this id; with a `collection`, if it still lies there: the caller may see no other."""
    row = connection.execute(select(documents).where(documents.c.id == document_id)).first()
    if row is None or collection not in (None, row.collection):  # removed or moved this very moment
        raise NotFound(f"there is no document '{document_id}'")
    return row


def family(connection: Connection, document_id: str) -> list[Any]:
    """A document's row and the rows of everything attached to it."""
    rows = list(connection.execute(select(documents).where(documents.c.id == document_id)))
    children = connection.execute(select(documents.c.id).where(documents.c.parent_id == document_id)).scalars()
    return rows + [row for child in list(children) for row in family(connection, child)]


def remove_family(connection: Connection, document_id: str) -> list[Any]:
    """Takes a document and everything attached to it out of the tables; gives the rows that went."""
    gone = family(connection, document_id)
    for row in gone:
        drop_chunks(connection, row)
        drop_clusters(connection, row)
        connection.execute(delete(documents).where(documents.c.key == row.key))
    return gone


def keep_children(connection: Connection, parent_id: str, wanted: Sequence[Document], owner: str) -> None:
    """Makes a document's attachments those of its new version: what it no longer has goes, what is new is pending.

    One that has changed stays visible until it is replaced; its owner says that somebody is about to.
    """
    query = select(documents).where(documents.c.parent_id == parent_id)
    known = {row.name: row for row in connection.execute(query).all()}
    for name in known.keys() - {child.name for child in wanted}:
        remove_family(connection, known[name].id)
    for child in wanted:
        row = known.get(child.name)
        if row is None:
            values = document_values(child, 0.0) | {"parent_id": parent_id, "status": "pending", "owner": owner}
            connection.execute(insert(documents).values(values))
        elif row.status != "ready" or row.content_hash != child.content_hash:
            changed = {"owner": owner, "error": "", "updated_at": now()}
            changed |= {} if row.status == "ready" else {"status": "pending"}
            connection.execute(update(documents).where(documents.c.key == row.key).values(changed))


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """Hashes of files that documents need: what was added, and pictures, cut out of a page or added as such."""

    originals: frozenset[str]
    pictures: frozenset[str]

    def __or__(self, other: KeptFiles) -> KeptFiles:
        return KeptFiles(self.originals | other.originals, self.pictures | other.pictures)


def kept_files(connection: Connection, keys: Sequence[int] | None = None) -> KeptFiles:
    """What these documents need; without keys, what all do."""
    added = select(documents.c.content_hash, documents.c.format)
    cut_out = select(images.c.file)
    originals: set[str] = set()
    pictures: set[str] = set()
    for some in [None] if keys is None else [keys[at : at + _SOME] for at in range(0, len(keys), _SOME)]:
        these = added if some is None else added.where(documents.c.key.in_(some))
        for content_hash, format in connection.execute(these):
            (pictures if format == "image" else originals).add(content_hash)
        figures = cut_out if some is None else cut_out.where(images.c.document_key.in_(some))
        pictures.update(connection.execute(figures).scalars())
    return KeptFiles(frozenset(originals - {""}), frozenset(pictures))


def unused(connection: Connection, before: KeptFiles) -> set[str]:
    """Those of the files that no document needs any more."""
    left = set(before.originals | before.pictures)
    hashes = sorted(left)
    for at in range(0, len(hashes), _SOME):
        used = select(documents.c.content_hash).where(documents.c.content_hash.in_(hashes[at : at + _SOME]))
        left.difference_update(connection.execute(used).scalars())
        cut_out = select(images.c.file).where(images.c.file.in_(hashes[at : at + _SOME]))
        left.difference_update(connection.execute(cut_out).scalars())
    return left


def by_key(connection: Connection, key: int) -> Document:
    return unpack_document(connection.execute(select(documents).where(documents.c.key == key)).mappings().one())


def lexical_entries(document: Document, made: Sequence[Chunk], start: int) -> Iterator[LexicalEntry]:
    """A document's chunks for the lexical index, numbered from `start`."""
    for chunk_id, chunk in enumerate(made, start):
        first, last = min(chunk.pages), max(chunk.pages)
        yield lexical_entry(document, chunk_id, chunk.kind, first, last, chunk.context, chunk.text)


def lexical_entry(
    document: Document, chunk_id: int, kind: str, first_page: int, last_page: int, context: str, text: str
) -> LexicalEntry:
    return LexicalEntry(
        chunk_id=chunk_id,
        document_id=document.id,
        collection=document.collection,
        kind=kind,
        first_page=first_page,
        last_page=last_page,
        date=document.date,
        metadata=tuple(document.metadata.items()),
        terms=terms(f"{context}\n{text}", document.language),
    )


SHARED = "shared"  # under which name Redis keeps the answers of this library; a backup has none, see redis_cache.py


def set_state(connection: Connection, name: str, value: str) -> None:
    if not _CHANGE_STATE.run(connection, of=name, value=value).rowcount:
        _NEW_STATE.run(connection, name=name, value=value)


def state_text(connection: Connection, name: str) -> str:
    """A value that is kept; "" before it was."""
    found = _STATE.run(connection, of=name).fetchone()
    return str(found[0]) if found else ""


def state_number(connection: Connection, name: str) -> int:
    return int(state_text(connection, name) or 0)


_BUMP = SqlStatement(
    upserted(state)
    .values(name=bindparam("of"), value="1")
    .on_conflict_do_update(index_elements=["name"], set_={"value": cast(cast(state.c.value, BigInteger) + 1, Text)})
    .returning(state.c.value)
)


def bump(connection: Connection, name: str) -> int:
    """In one step: where rows are locked one by one, another process may be counting too."""
    return int(_BUMP.run(connection, of=name).fetchone()[0])


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# What lies within a collection? The same rule as a condition in SQL and in Python: the collection itself and below.


def within(column: Any, collections: Sequence[str]) -> Any:
    """In one of these collections or below one; in none when there are none."""
    if not collections:
        return false()
    # One condition for all names of a length: SQLite takes a thousand in a row at most, and a key may have so many.
    by_length: dict[int, list[str]] = {}
    for collection in collections:
        by_length.setdefault(len(collection) + 1, []).append(f"{collection}/")
    # not LIKE, which ignores case in SQLite: "HR" must not admit "hr/salaries"
    below = (func.substr(column, 1, length).in_(names) for length, names in by_length.items())
    return or_(column.in_(collections), *below)
