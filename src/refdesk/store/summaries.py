"""Summaries and the tree, in SQL and in memory; deleted along with their documents."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine, Select, delete, insert, select

from refdesk.store.database import changes, storable
from refdesk.store.memory import MemoryDocuments
from refdesk.store.rows import bump, pack_vector, unpack_vectors
from refdesk.store.schema import chunks, documents, images, tree_members, tree_nodes, written_summaries
from refdesk.summaries import CLUSTER, ChunkSummary, Proof, TreeNode, WrittenSummary
from refdesk.types import Document

_SOME = 500  # values in one condition
_SUMMARY = [chunks.c[name] for name in ("id", "sequence", "kind", "summary", "token_count", "first_page", "last_page")]
_IMAGE = select(images.c.file).where(images.c.chunk_id == chunks.c.id).correlate(chunks).scalar_subquery()


class SqlSummaries:
    """The `SummaryStore` port; safe to use from several threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def chunk_summaries(self, document_ids: Collection[str]) -> dict[str, tuple[ChunkSummary, ...]]:
        query = (
            select(documents.c.id.label("document"), *_SUMMARY, chunks.c.details, _IMAGE.label("image"))
            .join(documents, documents.c.key == chunks.c.document_key)
            .where(documents.c.status == "ready")
            .order_by(documents.c.key, chunks.c.sequence)
        )
        paths: dict[tuple[str, ...], tuple[str, ...]] = {}  # many chunks share one
        found: dict[str, list[ChunkSummary]] = defaultdict(list)
        for row in self._of(query, document_ids):
            document_id, chunk_id, sequence, kind, summary, tokens, first, last, details, image = row
            path = tuple(orjson.loads(details)["path"])
            fields = (
                chunk_id,
                document_id,
                sequence,
                kind,
                summary,
                paths.setdefault(path, path),
                tokens,
                (first, last),
            )
            found[document_id].append(ChunkSummary(*fields, image))
        return {document_id: tuple(summaries) for document_id, summaries in found.items()}

    def written(
        self, embedder: str, document_ids: Collection[str] | None = None
    ) -> dict[str, dict[int, WrittenSummary]]:
        query = (
            select(documents.c.id.label("document"), written_summaries)
            .join(documents, documents.c.key == written_summaries.c.document_key)
            .where(documents.c.status == "ready", written_summaries.c.embedder == embedder)
        )
        found: dict[str, dict[int, WrittenSummary]] = defaultdict(dict)
        for row in self._of(query, document_ids):
            questions = tuple(orjson.loads(row.questions))
            vectors = np.frombuffer(row.vectors, dtype=np.int8).reshape(1 + len(questions), -1)
            found[row.document][row.sequence] = WrittenSummary(row.sequence, row.text, questions, vectors, row.model)
        return dict(found)

    def put_written(self, document: Document, embedder: str, found: Sequence[WrittenSummary]) -> bool:
        with changes(self._engine, "library") as connection:
            key = _key(connection, document)
            if key is None:
                return False
            of_document = written_summaries.c.document_key == key
            for some in _portions([summary.sequence for summary in found]):
                connection.execute(delete(written_summaries).where(of_document, written_summaries.c.sequence.in_(some)))
            rows = [_pack_written(summary, key, embedder) for summary in found]
            if rows:
                connection.execute(insert(written_summaries), rows)
                bump(connection, "generation")
        return True

    def nodes(self, embedder: str, level: int, document_ids: Collection[str] | None = None) -> list[TreeNode]:
        query = (
            select(documents.c.id.label("document"), tree_nodes)
            .select_from(tree_nodes)
            .outerjoin(documents, documents.c.key == tree_nodes.c.document_key)
            .where(tree_nodes.c.level == level, tree_nodes.c.embedder == embedder)
            .order_by(tree_nodes.c.document_key, tree_nodes.c.first_sequence, tree_nodes.c.id)
        )
        rows = list(self._of(query, document_ids))
        members = self._members([row.id for row in rows]) if level == CLUSTER else {}
        return [_node(row, tuple(members.get(row.id, ()))) for row in rows]

    def put_nodes(self, document: Document, embedder: str, nodes: Sequence[TreeNode]) -> bool:
        with changes(self._engine, "library") as connection:
            key = _key(connection, document)
            if key is None:
                return False
            connection.execute(delete(tree_nodes).where(tree_nodes.c.document_key == key))
            rows = [_pack_node(node, embedder) | {"document_key": key} for node in nodes]
            if rows:
                connection.execute(insert(tree_nodes), rows)
            bump(connection, "generation")
        return True

    def put_clusters(self, collection: str, embedder: str, nodes: Sequence[TreeNode]) -> None:
        with changes(self._engine, "library") as connection:
            of_collection = (tree_nodes.c.level == CLUSTER, tree_nodes.c.collection == collection)
            connection.execute(delete(tree_nodes).where(*of_collection))
            for node in nodes:
                keys = _keys(connection, collection, node.members)
                if len(keys) < len(node.members):  # one of them went, or was moved, this very moment
                    continue
                values = _pack_node(node, embedder) | {"document_key": None, "collection": collection}
                (node_id,) = connection.execute(insert(tree_nodes).values(values)).inserted_primary_key or (0,)
                connection.execute(insert(tree_members), [{"node_id": node_id, "document_key": key} for key in keys])
            bump(connection, "generation")

    def _of(self, query: Select[Any], document_ids: Collection[str] | None) -> Iterator[Any]:
        """The rows; of these documents alone where they are named."""
        with self._engine.connect() as connection:
            if document_ids is None:
                yield from connection.execute(query)
                return
            for some in _portions(list(document_ids)):
                yield from connection.execute(query.where(documents.c.id.in_(some)))

    def _members(self, node_ids: Sequence[int]) -> dict[int, list[str]]:
        found: dict[int, list[str]] = defaultdict(list)
        query = select(tree_members.c.node_id, documents.c.id).join(
            documents, documents.c.key == tree_members.c.document_key
        )
        with self._engine.connect() as connection:
            for some in _portions(list(node_ids)):
                rows = connection.execute(query.where(tree_members.c.node_id.in_(some)).order_by(documents.c.key))
                for node_id, document_id in rows:
                    found[node_id].append(document_id)
        return found


def _key(connection: Connection, document: Document) -> int | None:
    """The key of the document, if this very version of it is there."""
    same = (documents.c.id == document.id, documents.c.content_hash == document.content_hash)
    return connection.execute(select(documents.c.key).where(*same, documents.c.status == "ready")).scalar()


def _keys(connection: Connection, collection: str, ids: Sequence[str]) -> list[int]:
    there = select(documents.c.key).where(documents.c.collection == collection, documents.c.status == "ready")
    return [
        key for some in _portions(ids) for key in connection.execute(there.where(documents.c.id.in_(some))).scalars()
    ]


def _pack_written(summary: WrittenSummary, key: int, embedder: str) -> dict[str, Any]:
    return {
        "document_key": key,
        "sequence": summary.sequence,
        "embedder": embedder,
        "text": storable(summary.text),
        "questions": storable(orjson.dumps(list(summary.questions)).decode()),
        "vectors": np.ascontiguousarray(summary.vectors, dtype=np.int8).tobytes(),
        "model": summary.model,
    }


def _pack_node(node: TreeNode, embedder: str) -> dict[str, Any]:
    return {
        "level": node.level,
        "embedder": embedder,
        "collection": node.collection,
        "title": storable(node.title),
        "text": storable(node.text),
        "proofs": orjson.dumps([list(proof) for proof in node.proofs]).decode(),
        "first_sequence": node.sequences[0],
        "last_sequence": node.sequences[1],
        "vector": pack_vector(node.vector),
        "model": node.model,
    }


def _node(row: Any, members: tuple[str, ...]) -> TreeNode:
    vector: NDArray[np.float32] = unpack_vectors([row.vector], len(row.vector) // 2)[0]
    return TreeNode(
        level=row.level,
        title=row.title,
        text=row.text,
        proofs=tuple(Proof(*proof) for proof in orjson.loads(row.proofs)),
        vector=vector,
        document_id=row.document or "",
        sequences=(row.first_sequence, row.last_sequence),
        collection=row.collection,
        members=members,
        model=row.model,
        id=row.id,
    )


def _portions(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for at in range(0, len(values), _SOME):
        yield values[at : at + _SOME]


@dataclass(slots=True)
class _DocumentSummaries:
    """What was made of one version of a document, for one embedding model."""

    content_hash: str
    embedder: str
    written: dict[int, WrittenSummary]
    nodes: list[TreeNode]


class MemorySummaries:
    """The `SummaryStore` port of one process; what was made of a document that is gone is let go when next read."""

    def __init__(self, documents: MemoryDocuments) -> None:
        self._documents = documents
        self._held: dict[str, _DocumentSummaries] = {}
        self._clusters: list[tuple[str, TreeNode, dict[str, str]]] = []  # embedder, node, members with their content
        self._next_node = 1

    def chunk_summaries(self, document_ids: Collection[str]) -> dict[str, tuple[ChunkSummary, ...]]:
        found: dict[str, list[ChunkSummary]] = defaultdict(list)
        for document, chunk in self._documents.all_chunks():
            if document.id in document_ids:
                place = (
                    chunk.id,
                    document.id,
                    chunk.sequence,
                    chunk.kind,
                    chunk.summary,
                    chunk.heading_path,
                    chunk.token_count,
                )
                found[document.id].append(ChunkSummary(*place, (min(chunk.pages), max(chunk.pages)), chunk.image))
        return {document_id: tuple(summaries) for document_id, summaries in found.items()}

    def written(
        self, embedder: str, document_ids: Collection[str] | None = None
    ) -> dict[str, dict[int, WrittenSummary]]:
        current = self._current(embedder, document_ids)
        return {document_id: dict(entry.written) for document_id, entry in current.items() if entry.written}

    def put_written(self, document: Document, embedder: str, found: Sequence[WrittenSummary]) -> bool:
        entry = self._place(document, embedder)
        if entry is not None:
            entry.written |= {summary.sequence: summary for summary in found}
            self._documents.generation += 1
        return entry is not None

    def nodes(self, embedder: str, level: int, document_ids: Collection[str] | None = None) -> list[TreeNode]:
        current = self._current(embedder, document_ids).values()
        if level == CLUSTER:
            return [node for node_embedder, node, _ in self._clusters if node_embedder == embedder]
        return [node for entry in current for node in entry.nodes if node.level == level]

    def put_nodes(self, document: Document, embedder: str, nodes: Sequence[TreeNode]) -> bool:
        entry = self._place(document, embedder)
        if entry is not None:
            entry.nodes = [self._numbered(node) for node in nodes]
            self._documents.generation += 1
        return entry is not None

    def put_clusters(self, collection: str, embedder: str, nodes: Sequence[TreeNode]) -> None:
        self._current(embedder, None)
        self._clusters = [cluster for cluster in self._clusters if cluster[1].collection != collection]
        for node in nodes:
            content = {member: self._ready(member) for member in node.members}
            if all(there is not None and there.collection == collection for there in content.values()):
                hashes = {member: there.content_hash for member, there in content.items() if there is not None}
                self._clusters.append((embedder, self._numbered(replace(node, collection=collection)), hashes))
        self._documents.generation += 1

    def _numbered(self, node: TreeNode) -> TreeNode:
        self._next_node += 1
        return replace(node, id=self._next_node - 1)

    def _ready(self, document_id: str) -> Document | None:
        row = self._documents.rows.get(document_id)
        return row.document if row is not None and row.document.status == "ready" else None

    def _place(self, document: Document, embedder: str) -> _DocumentSummaries | None:
        there = self._ready(document.id)
        if there is None or there.content_hash != document.content_hash:
            return None
        entry = self._current(embedder, None).get(document.id) or _DocumentSummaries(
            document.content_hash, embedder, {}, []
        )
        return self._held.setdefault(document.id, entry)

    def _current(self, embedder: str, document_ids: Collection[str] | None) -> dict[str, _DocumentSummaries]:
        def is_there(document_id: str, content_hash: str, collection: str | None = None) -> bool:
            there = self._ready(document_id)
            is_same = there is not None and there.content_hash == content_hash
            return is_same and (collection is None or (there is not None and there.collection == collection))

        self._held = {
            document_id: entry for document_id, entry in self._held.items() if is_there(document_id, entry.content_hash)
        }
        self._clusters = [
            (number, node, content)
            for number, node, content in self._clusters
            if all(
                is_there(document_id, content_hash, node.collection) for document_id, content_hash in content.items()
            )
        ]
        return {
            document_id: entry
            for document_id, entry in self._held.items()
            if entry.embedder == embedder and (document_ids is None or document_id in document_ids)
        }
