"""How a document goes to another collection: its chunks are numbered anew, so that readers see the old or the new.

The lexical index holds the collection of every chunk. Were it changed there under the same number, a reader would for a
moment see index and SQL disagree, and a writer killed in between would leave them so. New numbers take the way of a new
document instead (see writer.py): listed as dropped, written to the index, then made visible in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, literal, select, update

from refdesk.adapters import codec
from refdesk.adapters.lexical_tantivy import LexicalEntry
from refdesk.adapters.rows import drop_chunks, lexical_entry, now
from refdesk.adapters.schema import chunks, documents, vectors
from refdesk.errors import UsageError
from refdesk.types import Chunk, Document


def check_place(connection: Connection, row: Any, collection: str, name: str) -> None:
    """A document keeps still while it is taken in, and no two of a collection are given one name."""
    if row.status in ("pending", "processing") or row.owner:
        raise UsageError(f"'{row.name}' is still being added", hint="try again when it is ready")
    if row.parent_id is not None and collection != row.collection:
        raise UsageError(f"'{row.name}' is attached to another document", hint="move that one")
    taken = documents.c.collection == collection, documents.c.name == name, documents.c.parent_id.is_(None)
    same_file = documents.c.collection == collection, documents.c.source == row.source, documents.c.parent_id.is_(None)
    for conditions in (taken, same_file) if row.source else (taken,):
        if connection.execute(select(documents.c.key).where(*conditions, documents.c.key != row.key)).first():
            raise UsageError(f"there is a document '{name}' in '{collection}' already", hint="take another name")


def moved_entries(row: Any, found: Sequence[Chunk], collection: str, start: int) -> Iterator[LexicalEntry]:
    """A document's chunks for the lexical index, in their new collection and numbered from `start`."""
    document: Document = codec.unpack_document({**row._mapping, "collection": collection})
    for place, chunk in enumerate(found):
        yield lexical_entry(document, document.id, start + place, chunk.kind, chunk.pages, chunk.context, chunk.text)


def move_rows(connection: Connection, row: Any, collection: str, start: int) -> None:
    """The rows of one document in its new collection; its chunks and vectors are numbered from `start`."""
    values: dict[str, Any] = {"collection": collection, "updated_at": now()}
    if row.last_chunk >= row.first_chunk:
        shift = start - row.first_chunk
        own = chunks.c.id.between(row.first_chunk, row.last_chunk)
        columns = [column for column in chunks.c if column.name != "id"]
        copied = select(chunks.c.id + literal(shift), *columns).where(own)
        connection.execute(insert(chunks).from_select(["id", *(column.name for column in columns)], copied))
        held = vectors.c.chunk_id.between(row.first_chunk, row.last_chunk)
        names = ["space", "chunk_id", "vector", "sentences"]
        shifted = select(vectors.c.space, vectors.c.chunk_id + literal(shift), vectors.c.vector, vectors.c.sentences)
        connection.execute(insert(vectors).from_select(names, shifted.where(held)))
        connection.execute(delete(chunks).where(own))  # and with them their vectors
        drop_chunks(connection, row)
        values |= {"first_chunk": start, "last_chunk": row.last_chunk + shift}
    connection.execute(update(documents).where(documents.c.key == row.key).values(values))
