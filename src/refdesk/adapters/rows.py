"""The rows of a document, as the writer's transactions find, write and drop them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from refdesk.adapters import codec
from refdesk.adapters.lexical_tantivy import LexicalEntry
from refdesk.adapters.quick import Statement
from refdesk.adapters.schema import chunks, documents, dropped, pages, state
from refdesk.errors import NotFound
from refdesk.terms import terms
from refdesk.types import Document, Outcome, Prepared

_SOME = 500  # values in one condition

# What a store runs for every document.
_OF_ID = Statement(select(documents).where(documents.c.id == bindparam("id")))
_ATTACHED = Statement(
    select(documents).where(documents.c.parent_id == bindparam("parent_id"), documents.c.name == bindparam("name"))
)
_FILE = Statement(
    select(documents).where(
        # Not its name: a file has a shorter one when its own folder is added than when the folder above is.
        documents.c.collection == bindparam("collection"),
        documents.c.source == bindparam("source"),
        documents.c.parent_id.is_(None),
    )
)
_TEXT = Statement(
    select(documents).where(
        documents.c.collection == bindparam("collection"),
        documents.c.source == bindparam("source"),
        documents.c.name == bindparam("name"),
        documents.c.parent_id.is_(None),
    )
)
_INSERT = Statement(insert(documents), [column.name for column in documents.c if column.name != "key"])
_KEPT_COLUMNS = ("key", "id", "created_at", "added_to")  # of a row whose document is replaced
_REPLACE = Statement(
    update(documents).where(documents.c.key == bindparam("replaced")),
    [column.name for column in documents.c if column.name not in _KEPT_COLUMNS],
)
_EMPTY = [Statement(delete(table).where(table.c.document_key == bindparam("of"))) for table in (chunks, pages)]
_DROP = Statement(insert(dropped))
_STATE = Statement(select(state.c.value).where(state.c.name == bindparam("of")))
_CHANGE_STATE = Statement(update(state).where(state.c.name == bindparam("of")), ["value"])
_NEW_STATE = Statement(insert(state))


def document_values(document: Document, modified: float) -> dict[str, Any]:
    moment = now()
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
        "added_to": "",
        "created_at": moment,
        "updated_at": moment,
    }


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
    return found.first()


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
        result = _INSERT.run(connection, **values)
        return int(result.lastrowid), codec.unpack_document(values), "added"
    drop_chunks(connection, row)
    for emptying in _EMPTY:
        emptying.run(connection, of=row.key)
    _REPLACE.run(connection, replaced=row.key, **values)
    stored = codec.unpack_document(values | {name: row._mapping[name] for name in _KEPT_COLUMNS})
    return int(row.key), stored, "replaced" if row.status == "ready" else "added"


def drop_chunks(connection: Connection, row: Any) -> None:
    if row.last_chunk >= row.first_chunk:
        drop_ids(connection, row.first_chunk, row.last_chunk)


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
class Kept:
    """Hashes of files that documents need: what was added, and pictures, cut out of a page or added as such."""

    originals: frozenset[str]
    pictures: frozenset[str]

    def __or__(self, other: Kept) -> Kept:
        return Kept(self.originals | other.originals, self.pictures | other.pictures)


def kept_files(connection: Connection, keys: Sequence[int] | None = None) -> Kept:
    """What these documents need; without keys, what all do."""
    added = select(documents.c.content_hash, documents.c.format)
    cut_out = select(chunks.c.details).where(chunks.c.kind == "figure")
    originals: set[str] = set()
    pictures: set[str] = set()
    for some in [None] if keys is None else [keys[at : at + _SOME] for at in range(0, len(keys), _SOME)]:
        these = added if some is None else added.where(documents.c.key.in_(some))
        for content_hash, format in connection.execute(these):
            (pictures if format == "image" else originals).add(content_hash)
        figures = cut_out if some is None else cut_out.where(chunks.c.document_key.in_(some))
        pictures.update(orjson.loads(details)["image"] or "" for details in connection.execute(figures).scalars())
    return Kept(frozenset(originals - {""}), frozenset(pictures - {""}))


def unused(connection: Connection, before: Kept) -> set[str]:
    """Those of the files that no document needs any more."""
    left = set(before.originals | before.pictures)
    hashes = sorted(left)
    for at in range(0, len(hashes), _SOME):
        used = select(documents.c.content_hash).where(documents.c.content_hash.in_(hashes[at : at + _SOME]))
        left.difference_update(connection.execute(used).scalars())
    if left & before.pictures:  # the same picture may have been cut out of another document: all have to be looked at
        left -= kept_files(connection).pictures
    return left


def by_key(connection: Connection, key: int) -> Document:
    return codec.unpack_document(connection.execute(select(documents).where(documents.c.key == key)).mappings().one())


def entries(prepared: Prepared, document_id: str, start: int) -> Iterator[LexicalEntry]:
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
    if not _CHANGE_STATE.run(connection, of=name, value=value).rowcount:
        _NEW_STATE.run(connection, name=name, value=value)


def read_state(connection: Connection, name: str) -> int:
    """A number that is kept; 0 before it was."""
    return int(_STATE.run(connection, of=name).scalar() or 0)


def bump(connection: Connection, name: str) -> int:
    value = read_state(connection, name) + 1
    set_state(connection, name, str(value))
    return value


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
