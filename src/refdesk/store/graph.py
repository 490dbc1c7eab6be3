"""The entity graph, in SQL and in memory: which chunks mention an entity, and how two entities are related.

What rules find is written with a chunk, what a model found is added later; both go with the chunk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import orjson
from sqlalchemy import Connection, Select, Subquery, Table, delete, func, insert, select, union_all

from refdesk.entities import (
    ALIAS,
    Extraction,
    Mention,
    Named,
    Relation,
    entity_key,
    key_of,
    names_of,
    stated,
)
from refdesk.store.database import changes, storable
from refdesk.store.documents import SqlDocuments, document_conditions
from refdesk.store.memory import MemoryDocuments
from refdesk.store.rows import bump
from refdesk.store.schema import (
    chunks,
    documents,
    entities,
    extracted_chunks,
    extracted_names,
    extracted_relations,
    relations,
)
from refdesk.types import Chunk, Document, Scope

_SOME = 500  # values in one condition
_FIELDS = ("subject", "predicate", "object", "chunk_id", "sentence")  # of a relation
_MOST_READ = 10_000  # relations of some keys, of which those are given that may be seen
_EVERY_NAME = union_all(
    select(entities.c.key, entities.c.name, entities.c.chunk_id),
    select(extracted_names.c.key, extracted_names.c.name, extracted_names.c.chunk_id).where(
        extracted_names.c.kind != ALIAS
    ),
).subquery("named")


def pack_entities(chunk: Chunk, chunk_id: int) -> list[dict[str, Any]]:
    return [
        {"chunk_id": chunk_id, "place": place, "name": name, "kind": "", "key": key_of(name)}
        for place, name in enumerate(chunk.entities)
    ]


def pack_relations(chunk: Chunk, chunk_id: int) -> list[dict[str, Any]]:
    return [
        _pack_relation(relation, chunk_id, place) | {"sentence": relation.sentence}
        for place, relation in enumerate(stated(chunk))
    ]


def _pack_relation(relation: Relation, chunk_id: int, place: int) -> dict[str, Any]:
    names = {"subject": relation.subject, "predicate": storable(relation.predicate), "object": relation.object}
    keys = {"subject_key": entity_key(relation.subject), "object_key": entity_key(relation.object)}
    return {"chunk_id": chunk_id, "place": place} | names | keys


def _pack_extraction(extraction: Extraction, chunk_id: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    names = [
        named._asdict()
        | {"chunk_id": chunk_id, "place": place, "sentences": orjson.dumps(list(named.sentences)).decode()}
        for place, named in enumerate(extraction.names)
    ]
    found = [
        _pack_relation(relation, chunk_id, place) | {"sentence": relation.sentence}
        for place, relation in enumerate(extraction.relations)
    ]
    return names, found


class SqlGraph:
    """The `GraphStore` port."""

    def __init__(self, documents: SqlDocuments) -> None:
        self._documents = documents

    def mentions(self, keys: Collection[str], scope: Scope, most: int) -> list[Mention]:
        wanted = [key for key in dict.fromkeys(keys) if key]
        found: list[Mention] = []
        by_rule = _named(entities, scope).order_by(entities.c.place)
        by_model = _named(extracted_names, scope).where(extracted_names.c.kind != ALIAS)
        with self._documents.engine.connect() as connection:
            has_more = _has_any(connection)
            for key in wanted:
                rows = list(connection.execute(by_rule.where(entities.c.key == key).limit(most)))
                seen = {chunk_id for _, _, chunk_id in rows}
                if has_more and len(rows) < most:
                    more = connection.execute(by_model.where(extracted_names.c.key == key).limit(most))
                    rows += [row for row in more if row.chunk_id not in seen][: most - len(rows)]
                found += [Mention(*row) for row in rows]
        return self._in_scope(found, scope)

    def known(self, keys: Collection[str], scope: Scope) -> set[str]:
        wanted = [key for key in dict.fromkeys(keys) if key]
        found: set[str] = set()
        with self._documents.engine.connect() as connection:
            for table in (entities, extracted_names) if _has_any(connection) else (entities,):
                for some in _portions(wanted):
                    query = _visible(select(table.c.key), table, scope).where(table.c.key.in_(some))
                    found |= set(connection.scalars(query.distinct()))
        return found

    def beginning(self, key: str, scope: Scope, most: int) -> list[tuple[str, str, int]]:
        with self._documents.engine.connect() as connection:
            source = _EVERY_NAME if _has_any(connection) else entities
            count = func.count(source.c.chunk_id.distinct())
            query = (
                _visible(select(source.c.key, func.min(source.c.name), count), source, scope)
                .where(source.c.key != "")
                .group_by(source.c.key)
                .order_by(count.desc(), source.c.key)
                .limit(most)
            )
            if key:
                query = query.where(source.c.key.startswith(key, autoescape=True))
            return [(found, name, number) for found, name, number in connection.execute(query)]

    def relations(self, keys: Collection[str], scope: Scope, most: int) -> list[Relation]:
        wanted = [key for key in dict.fromkeys(keys) if key][:_SOME]
        found: dict[Relation, None] = {}
        with self._documents.engine.connect() as connection:
            for table in (relations, extracted_relations) if _has_any(connection) else (relations,):
                for side in (table.c.subject_key, table.c.object_key):
                    # By the keys first: beside many of them SQLite would begin with every document there is.
                    named = select(table).where(side.in_(wanted)).order_by(table.c.chunk_id, table.c.place)
                    said = named.limit(_MOST_READ).subquery()
                    query = _visible(select(*(said.c[name] for name in _FIELDS), *_model(table, said)), said, scope)
                    query = query.order_by(said.c.chunk_id, said.c.place).limit(most)
                    found |= {Relation(*row): None for row in connection.execute(query)} if wanted else {}
        return list(found)

    def extracted(self, chunk_ids: Collection[int]) -> dict[int, Extraction]:
        found: dict[int, Extraction] = {}
        with self._documents.engine.connect() as connection:
            if not _has_any(connection):
                return {}
            for some in _portions(list(chunk_ids)):
                found |= _read_extractions(connection, some)
        return found

    def put_extracted(self, document: Document, model: str, found: Sequence[tuple[Chunk, Extraction]]) -> bool:
        texts = {chunk.sequence: chunk.text for chunk, _ in found}
        this = (documents.c.id == document.id, documents.c.content_hash == document.content_hash)
        there = (
            select(chunks.c.sequence, chunks.c.id, chunks.c.text)
            .join(documents, documents.c.key == chunks.c.document_key)
            .where(*this, documents.c.status == "ready", chunks.c.sequence.in_(list(texts)))
        )
        with changes(self._documents.engine, "library") as connection:
            rows = connection.execute(there).all()
            ids = {sequence: chunk_id for sequence, chunk_id, text in rows if text == texts[sequence]}
            kept = [(ids[chunk.sequence], extraction) for chunk, extraction in found if chunk.sequence in ids]
            if not kept:
                return False
            _write_extractions(connection, model, kept)
            bump(connection, "generation")
        return True

    def _in_scope(self, found: list[Mention], scope: Scope) -> list[Mention]:
        """What SQL cannot say of a scope: its metadata, kinds and pages."""
        if not (scope.metadata or scope.kinds or scope.pages):
            return found
        allowed = set(self._documents.chunk_ids(scope).tolist())
        return [mention for mention in found if mention.chunk_id in allowed]


def _has_any(connection: Connection) -> bool:
    """Whether a model has read any chunk: most libraries pay nothing more for what they do not have."""
    return connection.execute(select(extracted_chunks.c.chunk_id).limit(1)).first() is not None


def _visible(query: Select[Any], table: Table | Subquery, scope: Scope) -> Select[Any]:
    return (
        query.join(chunks, chunks.c.id == table.c.chunk_id)
        .join(documents, documents.c.key == chunks.c.document_key)
        .where(documents.c.status == "ready", *document_conditions(scope))
    )


def _model(table: Table, said: Subquery) -> list[Any]:
    """The column of who found a relation, where that was a model."""
    if table is relations:
        return []
    of_chunk = select(extracted_chunks.c.model).where(extracted_chunks.c.chunk_id == said.c.chunk_id)
    return [of_chunk.scalar_subquery()]


def _named(table: Table, scope: Scope) -> Select[Any]:
    query = select(table.c.key, table.c.name, table.c.chunk_id)
    return _visible(query, table, scope).order_by(table.c.chunk_id)


def _read_extractions(connection: Connection, some: Sequence[int]) -> dict[int, Extraction]:
    asked = select(extracted_chunks.c.chunk_id, extracted_chunks.c.model)
    models: dict[int, str] = {
        row.chunk_id: row.model for row in connection.execute(asked.where(extracted_chunks.c.chunk_id.in_(some)))
    }
    if not models:
        return {}
    names: dict[int, list[Named]] = {chunk_id: [] for chunk_id in models}
    found: dict[int, list[Relation]] = {chunk_id: [] for chunk_id in models}
    for row in connection.execute(_of_chunks(select(extracted_names), extracted_names, models)):
        names[row.chunk_id].append(Named(row.name, row.kind, row.key, tuple(orjson.loads(row.sentences))))
    columns = [extracted_relations.c[name] for name in _FIELDS]
    for row in connection.execute(_of_chunks(select(*columns), extracted_relations, models)):
        found[row.chunk_id].append(Relation(*row)._replace(by=models[row.chunk_id]))
    return {chunk_id: Extraction(tuple(names[chunk_id]), tuple(found[chunk_id])) for chunk_id in models}


def _of_chunks(query: Select[Any], table: Table, chunk_ids: Collection[int]) -> Select[Any]:
    return query.where(table.c.chunk_id.in_(list(chunk_ids))).order_by(table.c.chunk_id, table.c.place)


def _write_extractions(connection: Connection, model: str, kept: Sequence[tuple[int, Extraction]]) -> None:
    """In place of what was there before."""
    for some in _portions([chunk_id for chunk_id, _ in kept]):
        connection.execute(delete(extracted_chunks).where(extracted_chunks.c.chunk_id.in_(some)))
    packed = [_pack_extraction(extraction, chunk_id) for chunk_id, extraction in kept]
    for table, rows in (
        (extracted_chunks, [{"chunk_id": chunk_id, "model": model} for chunk_id, _ in kept]),
        (extracted_names, [row for names, _ in packed for row in names]),
        (extracted_relations, [row for _, found in packed for row in found]),
    ):
        if rows:
            connection.execute(insert(table), rows)


def _portions(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for at in range(0, len(values), _SOME):
        yield values[at : at + _SOME]


class MemoryGraph:
    """The same over documents in memory; what was found in a version that is gone is let go when next read."""

    def __init__(self, documents: MemoryDocuments) -> None:
        self._documents = documents
        self._held: dict[tuple[str, int], tuple[str, Extraction]] = {}  # by chunk: the document's content, what of it

    def mentions(self, keys: Collection[str], scope: Scope, most: int) -> list[Mention]:
        wanted, counts, found = {key for key in keys if key}, Counter[str](), list[Mention]()
        seen: set[tuple[str, int]] = set()
        for key, name, chunk_id in chain(self._by_rule(scope), self._by_model(scope)):
            if key in wanted and counts[key] < most and (key, chunk_id) not in seen:
                counts[key] += 1
                seen.add((key, chunk_id))
                found.append(Mention(key, name, chunk_id))
        return found

    def known(self, keys: Collection[str], scope: Scope) -> set[str]:
        return {key for key, _, _ in chain(self._by_rule(scope), self._by_model(scope))} & set(keys)

    def beginning(self, key: str, scope: Scope, most: int) -> list[tuple[str, str, int]]:
        names: dict[str, list[str]] = {}
        places: dict[str, set[int]] = {}
        for entity, name, chunk_id in chain(self._by_rule(scope), self._by_model(scope)):
            if entity.startswith(key):
                names.setdefault(entity, []).append(name)
                places.setdefault(entity, set()).add(chunk_id)
        counted = [(entity, min(found), len(places[entity])) for entity, found in names.items()]
        return sorted(counted, key=lambda counted_name: (-counted_name[2], counted_name[0]))[:most]

    def relations(self, keys: Collection[str], scope: Scope, most: int) -> list[Relation]:
        wanted = {key for key in keys if key}
        allowed = self._chunks(scope)
        extracted = self.extracted([chunk.id for chunk in allowed])
        by_rule = [relation for chunk in allowed for relation in stated(chunk)]
        by_model = [relation for extraction in extracted.values() for relation in extraction.relations]
        return [
            relation
            for every in (by_rule, by_model)
            for relation in [one for one in every if {entity_key(one.subject), entity_key(one.object)} & wanted][:most]
        ]

    def extracted(self, chunk_ids: Collection[int]) -> dict[int, Extraction]:
        found = {}
        wanted = set(chunk_ids)
        for document, chunk in self._documents.all_chunks() if self._held else ():
            content_hash, extraction = self._held.get((document.id, chunk.sequence), ("", Extraction()))
            if chunk.id in wanted and content_hash == document.content_hash:
                relations_here = tuple(relation._replace(chunk_id=chunk.id) for relation in extraction.relations)
                found[chunk.id] = replace(extraction, relations=relations_here)
        return found

    def put_extracted(self, document: Document, model: str, found: Sequence[tuple[Chunk, Extraction]]) -> bool:
        row = self._documents.rows.get(document.id)
        if row is None or row.document.status != "ready" or row.document.content_hash != document.content_hash:
            return False
        now = {there.id: there.content_hash for there in self._documents.documents(status="ready")}
        self._held = {place: held for place, held in self._held.items() if now.get(place[0]) == held[0]}
        texts = {chunk.sequence: chunk.text for chunk in row.chunks}
        kept = [(chunk, extraction) for chunk, extraction in found if texts.get(chunk.sequence) == chunk.text]
        for chunk, extraction in kept:
            by_model = tuple(relation._replace(by=model) for relation in extraction.relations)
            self._held[document.id, chunk.sequence] = document.content_hash, replace(extraction, relations=by_model)
        self._documents.generation += 1
        return bool(kept)

    def _by_rule(self, scope: Scope) -> Iterator[tuple[str, str, int]]:
        for chunk in self._chunks(scope):
            for key, name in names_of(chunk).items():
                yield key, name, chunk.id

    def _by_model(self, scope: Scope) -> Iterator[tuple[str, str, int]]:
        for chunk_id, extraction in self.extracted([chunk.id for chunk in self._chunks(scope)]).items():
            for named in extraction.names:
                if named.kind != ALIAS:
                    yield named.key, named.name, chunk_id

    def _chunks(self, scope: Scope) -> list[Chunk]:
        allowed = set(np.asarray(self._documents.chunk_ids(scope)).tolist())
        return [chunk for _, chunk in self._documents.all_chunks() if chunk.id in allowed]
