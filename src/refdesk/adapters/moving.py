"""How documents go to another collection: their chunks are numbered anew, so that readers see the old or the new.

The lexical index holds the collection of every chunk. Were it changed there under the same number, a reader would for a
moment see index and SQL disagree, and a writer killed in between would leave them so. New numbers take the way of a new
document instead (see writer.py): listed as dropped, written to the index, then made visible in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, literal, select, update

from refdesk.adapters import codec
from refdesk.adapters.lexical_tantivy import LexicalEntry
from refdesk.adapters.rows import drop_chunks, family, lexical_entry, now, row_of
from refdesk.adapters.schema import chunks, documents, vectors
from refdesk.errors import UsageError
from refdesk.types import Chunk, Document


@dataclass(frozen=True, slots=True)
class Move:
    """The collection that a document shall lie in, and its name there; None keeps the name."""

    document_id: str
    collection: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """A document's row and those of what is attached to it, and where they all go."""

    rows: Sequence[Any]
    to: Move

    @property
    def chunk_count(self) -> int:
        return sum(row.last_chunk - row.first_chunk + 1 for row in self.rows)


def departures(connection: Connection, moves: Sequence[Move]) -> list[Departure]:
    """Those that are not there yet; raises `UsageError` when one of them cannot go."""
    going = [(row, to) for to in moves if (row := row_of(connection, to.document_id)).collection != to.collection]
    leaving = frozenset(row.key for row, _ in going)
    taken: set[tuple[str, str]] = set()
    found = []
    for row, to in going:
        place = (to.collection, to.name or row.name)
        check_place(connection, row, *place, leaving)
        if place in taken:
            raise _is_taken(*place)
        taken.add(place)
        relatives = family(connection, row.id)
        for one in relatives[1:]:
            check_place(connection, one, one.collection, one.name)
        found.append(Departure(relatives, to))
    return found


def check_place(
    connection: Connection, row: Any, collection: str, name: str, leaving: frozenset[int] = frozenset()
) -> None:
    """A document keeps still while it is taken in, and no two of a collection are given one name.

    Those that are `leaving` their places, by their keys, stand in nobody's way.
    """
    if row.status in ("pending", "processing") or row.owner:
        raise UsageError(f"'{row.name}' is still being added", hint="try again when it is ready")
    if row.parent_id is not None and collection != row.collection:
        raise UsageError(f"'{row.name}' is attached to another document", hint="move that one")
    taken = documents.c.collection == collection, documents.c.name == name, documents.c.parent_id.is_(None)
    same_file = documents.c.collection == collection, documents.c.source == row.source, documents.c.parent_id.is_(None)
    for conditions in (taken, same_file) if row.source else (taken,):
        others = connection.execute(select(documents.c.key).where(*conditions, documents.c.key != row.key)).scalars()
        if not leaving.issuperset(others):
            raise _is_taken(collection, name)


def _is_taken(collection: str, name: str) -> UsageError:
    return UsageError(f"there is a document '{name}' in '{collection}' already", hint="take another name")


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
