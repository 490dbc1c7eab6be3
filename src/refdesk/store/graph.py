"""The entity graph, in SQL and in memory: which chunks mention an entity, and how two entities are related."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from sqlalchemy import func, select

from refdesk.entities import Mention, Relation, entity_key, key_of, names_of, stated
from refdesk.store.documents import SqlDocuments, document_conditions
from refdesk.store.memory import MemoryDocuments
from refdesk.store.schema import chunks, documents, entities, relations
from refdesk.types import Chunk, Scope

_SOME = 500  # values in one condition


def pack_entities(chunk: Chunk, chunk_id: int) -> list[dict[str, Any]]:
    return [
        {"chunk_id": chunk_id, "place": place, "name": name, "kind": "", "key": key_of(name)}
        for place, name in enumerate(chunk.entities)
    ]


def pack_relations(chunk: Chunk, chunk_id: int) -> list[dict[str, Any]]:
    return [
        relation._asdict()
        | {"chunk_id": chunk_id, "place": place}
        | {"subject_key": entity_key(relation.subject), "object_key": entity_key(relation.object)}
        for place, relation in enumerate(stated(chunk))
    ]


class SqlGraph:
    """The `GraphStore` port."""

    def __init__(self, documents: SqlDocuments) -> None:
        self._documents = documents

    def mentions(self, keys: Collection[str], scope: Scope, most: int) -> list[Mention]:
        wanted = [key for key in dict.fromkeys(keys) if key]
        found: list[Mention] = []
        query = (
            select(entities.c.key, entities.c.name, entities.c.chunk_id)
            .join(chunks, chunks.c.id == entities.c.chunk_id)
            .join(documents, documents.c.key == chunks.c.document_key)
            .where(documents.c.status == "ready", *document_conditions(scope))
            .order_by(entities.c.chunk_id, entities.c.place)
        )
        with self._documents.engine.connect() as connection:
            for key in wanted:
                rows = connection.execute(query.where(entities.c.key == key).limit(most))
                found += [Mention(*row) for row in rows]
        return self._in_scope(found, scope)

    def known(self, keys: Collection[str], scope: Scope) -> set[str]:
        wanted = [key for key in dict.fromkeys(keys) if key]
        found: set[str] = set()
        with self._documents.engine.connect() as connection:
            for start in range(0, len(wanted), _SOME):
                query = (
                    select(entities.c.key)
                    .join(chunks, chunks.c.id == entities.c.chunk_id)
                    .join(documents, documents.c.key == chunks.c.document_key)
                    .where(documents.c.status == "ready", *document_conditions(scope))
                    .where(entities.c.key.in_(wanted[start : start + _SOME]))
                    .distinct()
                )
                found |= set(connection.scalars(query))
        return found

    def beginning(self, key: str, scope: Scope, most: int) -> list[tuple[str, str, int]]:
        count = func.count()
        query = (
            select(entities.c.key, func.min(entities.c.name), count)
            .join(chunks, chunks.c.id == entities.c.chunk_id)
            .join(documents, documents.c.key == chunks.c.document_key)
            .where(documents.c.status == "ready", entities.c.key != "", *document_conditions(scope))
            .group_by(entities.c.key)
            .order_by(count.desc(), entities.c.key)
            .limit(most)
        )
        if key:
            query = query.where(entities.c.key.startswith(key, autoescape=True))
        with self._documents.engine.connect() as connection:
            return [(found, name, number) for found, name, number in connection.execute(query)]

    def relations(self, keys: Collection[str], scope: Scope, most: int) -> list[Relation]:
        wanted = [key for key in dict.fromkeys(keys) if key][:_SOME]
        columns = [relations.c[name] for name in ("subject", "predicate", "object", "chunk_id", "sentence")]
        query = (
            select(*columns)
            .join(chunks, chunks.c.id == relations.c.chunk_id)
            .join(documents, documents.c.key == chunks.c.document_key)
            .where(documents.c.status == "ready", *document_conditions(scope))
            .order_by(relations.c.chunk_id, relations.c.place)
            .limit(most)
        )
        found: dict[Relation, None] = {}
        with self._documents.engine.connect() as connection:
            for side in (relations.c.subject_key, relations.c.object_key):
                rows = connection.execute(query.where(side.in_(wanted))) if wanted else ()
                found |= {Relation(*row): None for row in rows}
        return list(found)

    def _in_scope(self, found: list[Mention], scope: Scope) -> list[Mention]:
        """What SQL cannot say of a scope: its metadata, kinds and pages."""
        if not (scope.metadata or scope.kinds or scope.pages):
            return found
        allowed = set(self._documents.chunk_ids(scope).tolist())
        return [mention for mention in found if mention.chunk_id in allowed]


class MemoryGraph:
    """The same over documents in memory."""

    def __init__(self, documents: MemoryDocuments) -> None:
        self._documents = documents

    def mentions(self, keys: Collection[str], scope: Scope, most: int) -> list[Mention]:
        wanted, counts, found = {key for key in keys if key}, dict.fromkeys(keys, 0), list[Mention]()
        for chunk in self._chunks(scope):
            for key, name in names_of(chunk).items():
                if key in wanted and counts[key] < most:
                    counts[key] += 1
                    found.append(Mention(key, name, chunk.id))
        return found

    def known(self, keys: Collection[str], scope: Scope) -> set[str]:
        return {key for chunk in self._chunks(scope) for key in names_of(chunk)} & set(keys)

    def beginning(self, key: str, scope: Scope, most: int) -> list[tuple[str, str, int]]:
        found: dict[str, list[str]] = {}
        for chunk in self._chunks(scope):
            for entity, name in names_of(chunk).items():
                if entity.startswith(key):
                    found.setdefault(entity, []).append(name)
        counted = [(entity, min(names), len(names)) for entity, names in found.items()]
        return sorted(counted, key=lambda counted_name: (-counted_name[2], counted_name[0]))[:most]

    def relations(self, keys: Collection[str], scope: Scope, most: int) -> list[Relation]:
        wanted = {key for key in keys if key}
        every = [relation for chunk in self._chunks(scope) for relation in stated(chunk)]
        return [relation for relation in every if {entity_key(relation.subject), entity_key(relation.object)} & wanted][
            :most
        ]

    def _chunks(self, scope: Scope) -> list[Chunk]:
        allowed = set(np.asarray(self._documents.chunk_ids(scope)).tolist())
        return [chunk for _, chunk in self._documents.all_chunks() if chunk.id in allowed]
