"""The rows of a document in the writer's transaction: found, inserted, replaced, moved and removed."""

from __future__ import annotations

import uuid
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
from sqlalchemy import Connection, Table, bindparam, delete, insert, literal, select, update

from refdesk.errors import NotFound, UsageError
from refdesk.records import Move, Prepared, StoredTable
from refdesk.store.database import SqlStatement
from refdesk.store.postgres import copy_in
from refdesk.store.rows import DOCUMENT_FIELDS, TABLE_FIELDS, now, pack_column, unpack_document
from refdesk.store.schema import (
    cells,
    chunks,
    documents,
    dropped,
    entities,
    extracted_chunks,
    extracted_names,
    extracted_relations,
    images,
    pages,
    relations,
    tables,
    tree_members,
    tree_nodes,
    vectors,
    written_summaries,
)
from refdesk.types import UNFINISHED, Document, Outcome

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
    return {name: getattr(document, name) for name in DOCUMENT_FIELDS} | {
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


# --- the tables of a document -----------------------------------------------------------------------------------------

_TABLE = SqlStatement(
    insert(tables).returning(tables.c.id), [column.name for column in tables.c if column.name != "id"]
)
_COLUMN = SqlStatement(insert(cells))


def insert_tables(connection: Connection, document_key: int, found: Sequence[StoredTable]) -> None:
    """The tables of one document, with all of their cells."""
    rows: list[dict[str, Any]] = []
    for table in found:
        values = {name: getattr(table, name) for name in TABLE_FIELDS}
        heads = orjson.dumps([[head.path, *head.measure] for head in table.heads])
        (table_id,) = _TABLE.run(connection, document_key=document_key, heads=heads, **values).fetchone()
        rows += [{"table_id": table_id, "column": n} | pack_column(column) for n, column in enumerate(table.columns)]
    _COLUMN.run_many(connection, rows)


def replace_tables(connection: Connection, document_id: str, found: Sequence[StoredTable]) -> None:
    """Other tables for a document that is there."""
    key = connection.execute(select(documents.c.key).where(documents.c.id == document_id)).scalar()
    if key is not None:
        connection.execute(delete(tables).where(tables.c.document_key == key))
        insert_tables(connection, key, found)


# --- how documents go to another collection: their chunks are numbered anew, so that readers see the old or the new ---


@dataclass(frozen=True, slots=True)
class Departure:
    """A document's row and those of what is attached to it, and where they all go."""

    rows: Sequence[Any]
    to: Move

    @property
    def chunk_count(self) -> int:
        return sum(row.last_chunk - row.first_chunk + 1 for row in self.rows)


def departures(connection: Connection, moves: Sequence[Move]) -> list[Departure]:
    """Those that are not there yet, in their order; raises `UsageError` when one of them cannot go.

    An attachment goes with what it is attached to. Documents that lay in one collection may do so in the next: a file
    and an upload of the same name, say.
    """
    wanted = {to.document_id: to for to in moves}
    going = [
        (row, to)
        for to in moves
        if (row := row_of(connection, to.document_id, to.origin)) and _is_elsewhere(row, to)
        if not _goes_with_another(connection, row, wanted)
    ]
    leaving = frozenset(row.key for row, _ in going)
    taken: dict[tuple[str, str], str] = {}
    found = []
    for row, to in going:
        check_finished(row)
        name = to.name or row.name
        check_place(connection, row, to.collection, name, leaving)
        for mark in (name, f"/{row.source}") if row.source else (name,):
            if taken.setdefault((to.collection, mark), row.collection) != row.collection:
                raise _is_taken(to.collection, name)
        relatives = family(connection, row.id)
        for relative in relatives[1:]:
            check_finished(relative)
        found.append(Departure(relatives, to))
    return found


def _is_elsewhere(row: Any, to: Move) -> bool:
    return bool(row.collection != to.collection or (to.name and to.name != row.name))


def _goes_with_another(connection: Connection, row: Any, wanted: Mapping[str, Move]) -> bool:
    parent = row.parent_id
    while parent is not None and parent not in wanted:
        parent = connection.execute(select(documents.c.parent_id).where(documents.c.id == parent)).scalar()
    return parent is not None


def check_finished(row: Any) -> None:
    """A document keeps still while it is taken in."""
    if row.status in UNFINISHED or row.owner:
        raise UsageError(f"'{row.name}' is still being added", hint="try again when it is ready")


def check_place(
    connection: Connection, row: Any, collection: str, name: str, leaving: frozenset[int] = frozenset()
) -> None:
    """No two of a collection are given one name, and no file lies there twice.

    Those that are `leaving` their places, by their keys, stand in nobody's way.
    """
    if row.parent_id is not None and collection != row.collection:
        raise UsageError(f"'{row.name}' is attached to another document", hint="move that document instead")
    top = select(documents.c.key, documents.c.name).where(
        documents.c.collection == collection, documents.c.parent_id.is_(None), documents.c.key != row.key
    )
    for other in connection.execute(top.where(documents.c.name == name)):
        if other.key not in leaving:
            raise _is_taken(collection, name)
    for other in connection.execute(top.where(documents.c.source == row.source)) if row.source else ():
        if other.key not in leaving:
            message = f"the file of '{row.name}' is already in '{collection}', as '{other.name}'"
            raise UsageError(message, hint="remove one of the two")


def _is_taken(collection: str, name: str) -> UsageError:
    return UsageError(f"there is already a document '{name}' in '{collection}'", hint="rename one of them")


def move_rows(connection: Connection, row: Any, collection: str, start: int) -> None:
    """The rows of one document in its new collection; its chunks and vectors are numbered from `start`."""
    # Whoever adds its file to the old collection again finds it by this; a document that came back needs it no more.
    drop_clusters(connection, row)
    added_to = row.added_to or row.collection
    values: dict[str, Any] = {"collection": collection, "added_to": "" if added_to == collection else added_to}
    if row.last_chunk >= row.first_chunk:
        shift = start - row.first_chunk
        extracted = (extracted_chunks, extracted_names, extracted_relations)
        for table in (chunks, vectors, entities, relations, images, *extracted):
            number = chunks.c.id if table is chunks else table.c.chunk_id
            others = [column for column in table.c if column is not number]
            copied = select(number + literal(shift), *others).where(number.between(row.first_chunk, row.last_chunk))
            connection.execute(insert(table).from_select([number, *others], copied))
        # And with them what belongs to them.
        connection.execute(delete(chunks).where(chunks.c.id.between(row.first_chunk, row.last_chunk)))
        drop_chunks(connection, row)
        values |= {"first_chunk": start, "last_chunk": row.last_chunk + shift}
    change_row(connection, row, **values)


def change_row(connection: Connection, row: Any, **values: Any) -> None:
    connection.execute(update(documents).where(documents.c.key == row.key).values(values | {"updated_at": now()}))
