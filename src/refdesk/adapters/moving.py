"""How documents go to another collection: their chunks are numbered anew, so that readers see the old or the new.

The lexical index holds the collection of every chunk. Were it changed there under the same number, a reader would for a
moment see index and SQL disagree, and a writer killed in between would leave them so. New numbers take the way of a new
document instead (see writer.py): listed as dropped, written to the index, then made visible in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, literal, select, update

from refdesk.adapters import codec
from refdesk.adapters.lexical_tantivy import LexicalEntry
from refdesk.adapters.rows import drop_chunks, family, lexical_entry, now, row_of
from refdesk.adapters.schema import chunks, documents, vectors
from refdesk.errors import UsageError
from refdesk.types import UNFINISHED, Chunk, Document


@dataclass(frozen=True, slots=True)
class Move:
    """A document that was found in one collection and shall lie in another; a name of None keeps its own."""

    document_id: str
    origin: str
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
        check_settled(row)
        name = to.name or row.name
        check_place(connection, row, to.collection, name, leaving)
        for mark in (name, f"/{row.source}") if row.source else (name,):
            if taken.setdefault((to.collection, mark), row.collection) != row.collection:
                raise _is_taken(to.collection, name)
        relatives = family(connection, row.id)
        for one in relatives[1:]:
            check_settled(one)
        found.append(Departure(relatives, to))
    return found


def _is_elsewhere(row: Any, to: Move) -> bool:
    return bool(row.collection != to.collection or (to.name and to.name != row.name))


def _goes_with_another(connection: Connection, row: Any, wanted: Mapping[str, Move]) -> bool:
    parent = row.parent_id
    while parent is not None and parent not in wanted:
        parent = connection.execute(select(documents.c.parent_id).where(documents.c.id == parent)).scalar()
    return parent is not None


def check_settled(row: Any) -> None:
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
        raise UsageError(f"'{row.name}' is attached to another document", hint="move that one")
    top = select(documents.c.key, documents.c.name).where(
        documents.c.collection == collection, documents.c.parent_id.is_(None), documents.c.key != row.key
    )
    for other in connection.execute(top.where(documents.c.name == name)):
        if other.key not in leaving:
            raise _is_taken(collection, name)
    for other in connection.execute(top.where(documents.c.source == row.source)) if row.source else ():
        if other.key not in leaving:
            said = f"the file of '{row.name}' is in '{collection}' already, as '{other.name}'"
            raise UsageError(said, hint="remove one of the two")


def _is_taken(collection: str, name: str) -> UsageError:
    return UsageError(f"there is a document '{name}' in '{collection}' already", hint="take another name for one")


def moved_entries(row: Any, found: Sequence[Chunk], collection: str, start: int) -> Iterator[LexicalEntry]:
    """A document's chunks for the lexical index, in their new collection and numbered from `start`."""
    document: Document = codec.unpack_document({**row._mapping, "collection": collection})
    for place, chunk in enumerate(found):
        yield lexical_entry(document, document.id, start + place, chunk.kind, chunk.pages, chunk.context, chunk.text)


def move_rows(connection: Connection, row: Any, collection: str, start: int) -> None:
    """The rows of one document in its new collection; its chunks and vectors are numbered from `start`."""
    # Whoever adds its file to the old collection again finds it by this; a document that came back needs it no more.
    added_to = row.added_to or row.collection
    values: dict[str, Any] = {"collection": collection, "updated_at": now()}
    values["added_to"] = "" if added_to == collection else added_to
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
