"""Summaries of chunks, sections and documents: the values, and the Protocol of their store.

    chunk      a summary of its own sentences; beside it what a model wrote of it, which is searched and never quoted
    section    level 1 of the tree: the key sentences under a heading
    document   level 2
    cluster    level 3: documents of one collection that speak about the same

A node of the tree is no source: it names the sentences that it was made of, and these are cited.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from refdesk.types import Chunk, Document, Kind, Range, Scope

SECTION, DOCUMENT, CLUSTER = 1, 2, 3
MOST_VECTORS = 50_000  # of summaries, kept in memory: some 40 MB
BEGINNING = 60  # characters by which a sentence is known that a summary cuts short
SPARE = 1000  # documents whose summaries may be kept beside those that are asked for


@dataclass(frozen=True, slots=True)
class ChunkSummary:
    """A chunk as a router sees it (seed 000, step Q1), with its first and last page and its picture."""

    chunk_id: int
    document_id: str
    sequence: int
    kind: Kind
    summary: str
    heading_path: tuple[str, ...]
    token_count: int
    pages: Range
    image: str | None = None
    is_written: bool = False  # by a model


@dataclass(frozen=True, slots=True, eq=False)
class WrittenSummary:
    """What a model wrote of a chunk: a summary, and questions that the chunk answers.

    `vectors` has a row for the summary and one for each question: unit vectors scaled by 127.
    """

    sequence: int
    text: str
    questions: tuple[str, ...]
    vectors: NDArray[np.int8]
    model: str = ""


class Proof(NamedTuple):
    """A sentence that a node was made of: the document, the chunk by its sequence number, its place in the chunk."""

    document_id: str
    sequence: int
    sentence: int


@dataclass(frozen=True, slots=True, eq=False)
class TreeNode:
    """A section, a document or a cluster of documents, in a few sentences."""

    level: int
    title: str
    text: str
    proofs: tuple[Proof, ...]
    vector: NDArray[np.float32]
    document_id: str = ""  # "": a cluster
    sequences: Range = (0, 0)  # the first and the last chunk of a section or a document
    collection: str = ""  # of a cluster
    members: tuple[str, ...] = ()  # the ids of its documents
    model: str = ""  # who wrote the text; "": it is quoted
    id: int = 0  # given by the store


class SummaryStore(Protocol):
    """Summaries and the tree, of visible documents; they go with the documents that they were made of."""

    def chunk_summaries(self, document_ids: Collection[str]) -> dict[str, tuple[ChunkSummary, ...]]:
        """By document, in the order of the chunks; without what a model wrote."""

    def written(
        self, embedder: str, document_ids: Collection[str] | None = None
    ) -> dict[str, dict[int, WrittenSummary]]:
        """What models wrote, by document and sequence number; their vectors are of this embedding model."""

    def put_written(self, document: Document, embedder: str, found: Sequence[WrittenSummary]) -> bool:
        """Keeps them; False where the document is gone, or another version is there by now."""

    def nodes(self, embedder: str, level: int, document_ids: Collection[str] | None = None) -> list[TreeNode]:
        """The nodes of a level, in the order of documents; of some documents alone where these are named."""

    def put_nodes(self, document: Document, embedder: str, nodes: Sequence[TreeNode]) -> bool:
        """The sections and the node of one document, in place of those it had; False as for `put_written`."""

    def put_clusters(self, collection: str, embedder: str, nodes: Sequence[TreeNode]) -> None:
        """The clusters of one collection, in place of those it had."""


class NoSummaries:
    """The `SummaryStore` of a reader that is made without one."""

    def chunk_summaries(self, document_ids: Collection[str]) -> dict[str, tuple[ChunkSummary, ...]]:
        return {}

    def written(
        self, embedder: str, document_ids: Collection[str] | None = None
    ) -> dict[str, dict[int, WrittenSummary]]:
        return {}

    def put_written(self, document: Document, embedder: str, found: Sequence[WrittenSummary]) -> bool:
        return False

    def nodes(self, embedder: str, level: int, document_ids: Collection[str] | None = None) -> list[TreeNode]:
        return []

    def put_nodes(self, document: Document, embedder: str, nodes: Sequence[TreeNode]) -> bool:
        return False

    def put_clusters(self, collection: str, embedder: str, nodes: Sequence[TreeNode]) -> None:
        """There is no place for them."""


@dataclass(slots=True)
class _SummaryGeneration:
    """What was read for one generation; replaced, never changed, for threads may be reading it."""

    generation: int = -1
    documents: Mapping[str, tuple[str, tuple[ChunkSummary, ...]]] = field(default_factory=dict)  # with `updated_at`
    written: Mapping[str, Mapping[int, WrittenSummary]] = field(default_factory=dict)
    nodes: dict[int, list[TreeNode]] = field(default_factory=dict)  # by level, read when first asked for


class Summaries:
    """The summaries of a library in memory: read anew only for documents that have changed.

    Whose documents are seen is the caller's to say, with every call.
    """

    def __init__(self, store: SummaryStore) -> None:
        self._store = store
        self._kept = _SummaryGeneration()
        self._reading = threading.Lock()
        self.vectors: dict[int, NDArray[np.float16]] = {}  # of chunks' own summaries, by the id of the chunk

    def of(self, documents: Sequence[Document], scope: Scope, generation: int, embedder: str) -> list[ChunkSummary]:
        """The summaries of the chunks of these documents that are in scope; a model's goes before the chunk's own."""
        kept = self._current(documents, generation, embedder)
        found: list[ChunkSummary] = []
        for document in documents:
            written = kept.written.get(document.id, {})
            for summary in kept.documents[document.id][1]:
                if _is_seen(summary, scope):
                    by_model = written.get(summary.sequence)
                    found.append(replace(summary, summary=by_model.text, is_written=True) if by_model else summary)
        return found

    def written(
        self, documents: Sequence[Document], generation: int, embedder: str
    ) -> Mapping[str, Mapping[int, WrittenSummary]]:
        """What models wrote of these documents, by id and sequence number."""
        kept = self._current(documents, generation, embedder).written
        return {document.id: kept[document.id] for document in documents if document.id in kept}

    def nodes(self, documents: Sequence[Document], level: int, generation: int, embedder: str) -> list[TreeNode]:
        """The documents' nodes of a level; of clusters those that hold no other document."""
        kept = self._current((), generation, embedder)
        if level not in kept.nodes:
            kept.nodes[level] = self._store.nodes(embedder, level)
        seen = {document.id for document in documents}
        if level == CLUSTER:
            return [node for node in kept.nodes[level] if seen.issuperset(node.members)]
        return [node for node in kept.nodes[level] if node.document_id in seen]

    def keep(self, vectors: Mapping[int, NDArray[np.float16]]) -> None:
        """A chunk's id is never given to another, so that what is kept stays true; replaced, for others may read it."""
        kept = self.vectors if len(self.vectors) + len(vectors) <= MOST_VECTORS else {}
        self.vectors = {**kept, **vectors}

    def sections(self, document_ids: Sequence[str], embedder: str) -> list[TreeNode]:
        """Those of a few documents, read from the store: there may be a hundred of each."""
        return self._store.nodes(embedder, SECTION, document_ids)

    def _current(self, documents: Sequence[Document], generation: int, embedder: str) -> _SummaryGeneration:
        with self._reading:  # by one thread at a time: all others would read the same
            kept = self._kept
            if kept.generation != generation:
                # Those of documents that are gone are let go when they are the greater part of what is kept.
                is_mostly_gone = len(kept.documents) > SPARE + 2 * len(documents) > SPARE
                kept = _SummaryGeneration(
                    generation, {} if is_mostly_gone else kept.documents, self._store.written(embedder)
                )
            stale = [
                document for document in documents if kept.documents.get(document.id, ("",))[0] != document.updated_at
            ]
            if stale:
                read = self._store.chunk_summaries([document.id for document in stale])
                new = {document.id: (document.updated_at, read.get(document.id, ())) for document in stale}
                kept = _SummaryGeneration(generation, {**kept.documents, **new}, kept.written, kept.nodes)
            self._kept = kept
            return kept


def _is_seen(summary: ChunkSummary, scope: Scope) -> bool:
    if scope.kinds and summary.kind not in scope.kinds:
        return False
    return scope.pages is None or (summary.pages[0] <= scope.pages[1] and summary.pages[1] >= scope.pages[0])


def own_sentences(chunk: Chunk, rows: NDArray[np.int8]) -> NDArray[np.float16]:
    """The vector of a summary that is made of a chunk's own sentences: the mean of theirs; of all where none is."""
    texts = [" ".join(chunk.text[sentence.start : sentence.end].split()) for sentence in chunk.sentences]
    quoted = [place for place, text in enumerate(texts[: len(rows)]) if text and text[:BEGINNING] in chunk.summary]
    mean: NDArray[np.float32] = (rows[quoted] if quoted else rows).astype(np.float32).mean(axis=0)
    unit: NDArray[np.float16] = (mean / max(float(np.linalg.norm(mean)), 1e-6)).astype(np.float16)
    return unit
