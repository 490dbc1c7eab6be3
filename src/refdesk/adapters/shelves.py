"""What lists of documents ask of SQL: one page of them, and the document that a file handed in has made."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from sqlalchemy import ColumnElement, Engine, func, or_, select

from refdesk.adapters import codec
from refdesk.adapters.catalogue import document_conditions
from refdesk.adapters.schema import chunks, documents
from refdesk.types import EVERYTHING, Access, Document, Scope

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


class Shelves:
    """Reads only; safe to use from several threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

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
        """Documents whose name or title holds a text, `limit` of them from the `offset`th, and how many there are."""
        conditions = [*document_conditions(scope), *_holding(text)]
        if status is not None:
            conditions.append(documents.c.status == status)
        count = select(func.count()).select_from(documents).where(*conditions)
        rows = select(documents).where(*conditions)
        columns = [column.desc() if is_falling else column for column in SORTS[sort]]
        rows = rows.order_by(*columns, documents.c.key).limit(limit).offset(offset)
        with self._engine.connect() as connection:
            found = [codec.unpack_document(row) for row in connection.execute(rows).mappings()]
            return found, int(connection.execute(count).scalar_one())

    def visible(self, document_id: str, access: Access) -> Document | None:
        """The document of this very id, if it lies in one of these collections."""
        scope = Scope(documents=(document_id,), access=access if access is EVERYTHING else tuple(access))
        return self._first(*document_conditions(scope))

    def among(self, ids: Collection[str], access: tuple[str, ...]) -> set[str]:
        """Those of these documents that lie in these collections."""
        conditions = document_conditions(Scope(documents=tuple(ids), access=access))
        with self._engine.connect() as connection:
            return set(connection.scalars(select(documents.c.id).where(*conditions))) if ids else set()

    def from_source(self, source: str) -> Document | None:
        return self._first(documents.c.source == source, documents.c.parent_id.is_(None))

    def upload_named(self, collection: str, name: str) -> Document | None:
        """The document of that name that was handed in over the network."""
        return self._first(
            documents.c.collection == collection,
            documents.c.name == name,
            documents.c.source.startswith("upload:"),
            documents.c.parent_id.is_(None),
        )

    def has_figure(self, image: str, access: Access) -> bool:
        """Whether a document in one of these collections holds the figure of this hash."""
        holds = func.instr(chunks.c.details, f'"image":"{image}"'.encode()) > 0
        found = select(chunks.c.id).join(documents, documents.c.key == chunks.c.document_key)
        scope = Scope(access=access if access is EVERYTHING else tuple(access))
        conditions = [*document_conditions(scope), documents.c.status == "ready"]
        with self._engine.connect() as connection:
            rows = connection.execute(found.where(chunks.c.kind == "figure", holds, *conditions).limit(1))
            return rows.first() is not None

    def _first(self, *conditions: Any) -> Document | None:
        with self._engine.connect() as connection:
            row = connection.execute(select(documents).where(*conditions).limit(1)).mappings().first()
        return codec.unpack_document(row) if row is not None else None


def _holding(text: str) -> Iterator[Any]:
    """SQLite folds the case of ASCII alone; a few spellings of the text do for the other alphabets."""
    if text:
        spellings = {text, text.lower(), text.upper(), text.title(), text.capitalize()}
        columns = (documents.c.name, documents.c.title)
        yield or_(*(column.icontains(one, autoescape=True) for column in columns for one in sorted(spellings)))
