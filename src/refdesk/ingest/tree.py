"""The tree above the chunks: sections, documents and collections, summarised in their own sentences. Pure.

    chunks → sections (1) → documents (2) → clusters of the documents of a collection (3)

Each node carries its key sentences, where these stand, and a vector: the mean of what lies below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.key_sentences import key_sentences, telling_chunks
from refdesk.summaries import CLUSTER, DOCUMENT, SECTION, Proof, TreeNode
from refdesk.types import Chunk, Document

MOST_SECTIONS = 40  # of one document; deeper headings are joined
WINDOW = 12  # chunks of a section of a document without headings
OF_SECTION, OF_CLUSTER = 2, 4  # sentences of a node; a document has those of `key_sentences`
DOCUMENTS_PER_CLUSTER = 8  # about; RAPTOR's clusters are of this size
ROUNDS = 12  # of moving documents to the nearest middle
TITLES = 3  # that name a cluster

Rows = Mapping[int, NDArray[np.int8]]


def tree_of(document: Document, chunks: Sequence[Chunk], rows: Rows) -> list[TreeNode]:
    """The sections of a document and, last, the document; `rows` are its sentences' vectors by chunk id."""
    if not chunks:
        return []
    telling = telling_chunks(document, chunks) or list(chunks)
    sections = [_section(document, title, section_chunks, rows) for title, section_chunks in sections_of(chunks)]
    title = document.title or document.name
    keys = _proofs(document, telling, rows)
    middle = _unit(np.stack([node.vector * (1 + node.sequences[1] - node.sequences[0]) for node in sections]))
    sequences = (chunks[0].sequence, chunks[-1].sequence)
    whole = TreeNode(DOCUMENT, title, _text(chunks, keys), keys, middle, document.id, sequences)
    return [*sections, whole]


def sections_of(chunks: Sequence[Chunk]) -> list[tuple[str, list[Chunk]]]:
    """Consecutive chunks under one heading, as deep as leaves few enough sections; windows where there is none."""
    deepest = max(len(chunk.heading_path) for chunk in chunks)
    found: list[tuple[tuple[str, ...], list[Chunk]]] = [((), list(chunks))]
    for depth in range(1, deepest + 1):
        deeper = [(path, list(group)) for path, group in groupby(chunks, key=lambda chunk: chunk.heading_path[:depth])]
        if len(deeper) > MOST_SECTIONS:
            break
        found = deeper
    if len(found) == 1 and len(chunks) > WINDOW:
        path = found[0][0]
        found = [(path, list(chunks[at : at + WINDOW])) for at in range(0, len(chunks), WINDOW)]
    return [(path[-1] if path else "", group) for path, group in found]


def _section(document: Document, title: str, chunks: Sequence[Chunk], rows: Rows) -> TreeNode:
    keys = _proofs(document, telling_chunks(document, chunks), rows)[:OF_SECTION]
    if not keys and chunks[0].sentences:  # tables, figures, lists of names: what it begins with
        keys = (Proof(document.id, chunks[0].sequence, 0),)
    sequences = (chunks[0].sequence, chunks[-1].sequence)
    return TreeNode(SECTION, title, _text(chunks, keys), keys, _middle(chunks, rows), document.id, sequences)


def _proofs(document: Document, chunks: Sequence[Chunk], rows: Rows) -> tuple[Proof, ...]:
    by_id = {chunk.id: chunk for chunk in chunks}
    return tuple(Proof(document.id, by_id[chunk_id].sequence, place) for chunk_id, place in key_sentences(chunks, rows))


def _text(chunks: Sequence[Chunk], keys: Sequence[Proof]) -> str:
    by_sequence = {chunk.sequence: chunk for chunk in chunks}
    placed = [(by_sequence[key.sequence], key.sentence) for key in keys if key.sequence in by_sequence]
    spans = [(chunk.text, chunk.sentences[place]) for chunk, place in placed]
    return " ".join(" ".join(text[span.start : span.end].split()) for text, span in spans)


def _middle(chunks: Sequence[Chunk], rows: Rows) -> NDArray[np.float32]:
    vectors = [rows[chunk.id] for chunk in chunks if chunk.id in rows and len(rows[chunk.id])]
    width = next((len(some[0]) for some in rows.values() if len(some)), 1)
    return _unit(np.concatenate(vectors).astype(np.float32)) if vectors else np.zeros(width, dtype=np.float32)


def _unit(matrix: NDArray[Any]) -> NDArray[np.float32]:
    mean = matrix.mean(axis=0)
    found: NDArray[np.float32] = (mean / max(float(np.linalg.norm(mean)), 1e-6)).astype(np.float32)
    return found


# --- clusters: documents of one collection that speak about the same --------------------------------------------------


def clusters_of(collection: str, nodes: Sequence[TreeNode]) -> list[TreeNode]:
    """The documents' nodes in groups of about eight, each named by those nearest to its middle."""
    if len(nodes) < 2:
        return []
    vectors = np.stack([node.vector for node in nodes])
    labels = _grouped(vectors, max(1, round(len(nodes) / DOCUMENTS_PER_CLUSTER)))
    found = []
    for label in sorted(set(labels.tolist())):
        places = np.flatnonzero(labels == label)
        middle = _unit(vectors[places])
        order = places[np.argsort(-(vectors[places] @ middle), kind="stable")]
        nearest = [nodes[place] for place in order.tolist()]
        nodes_told = [node for node in nearest if node.proofs][:OF_CLUSTER]
        found.append(
            TreeNode(
                CLUSTER,
                ", ".join(node.title for node in nearest[:TITLES]),
                " ".join(_first_sentence(node) for node in nodes_told),
                tuple(node.proofs[0] for node in nodes_told),
                middle,
                collection=collection,
                members=tuple(nodes[place].document_id for place in places.tolist()),
            )
        )
    return found


def _first_sentence(node: TreeNode) -> str:
    """Up to the first full stop that a blank follows; what is quoted is proved by `proofs`, not by this text."""
    head, stop, _ = node.text.partition(". ")
    return f"{head}." if stop else head


def _grouped(vectors: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Spherical k-means; the first middles lie far apart, so that the same documents give the same groups."""
    chosen = [0]
    nearest = vectors @ vectors[0]
    while len(chosen) < count:
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, vectors @ vectors[chosen[-1]])
    middles = vectors[chosen]
    labels: NDArray[np.int64] = (vectors @ middles.T).argmax(axis=1)
    for _ in range(ROUNDS):
        middles = np.stack(
            [
                _unit(vectors[labels == label]) if bool((labels == label).any()) else middles[label]
                for label in range(count)
            ]
        )
        moved = (vectors @ middles.T).argmax(axis=1)
        if bool((moved == labels).all()):
            break
        labels = moved
    return labels
