"""Summaries: of chunks by a model, and of sections, documents and collections. Those of chunks are telegraphic:

    Fuel rates by ship, 2024–25. DEFINES: slow steaming = below 12 kn. CONDITIONS: rates hold in calm sea. REFS: Table 3

They have 80 to 90 % fewer words. Beside each are up to three questions that the chunk answers. Both are embedded,
searched by a survey, and never quoted. What a model leaves out, or writes at such length that it is no summary, is
asked for once more by itself, then left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.errors import ProviderError, ProviderUnavailable
from refdesk.models import estimate, model_info
from refdesk.ports import LLM, Embedder
from refdesk.prompts import FENCE_CLOSES, FENCE_OPENS, SUM_UP_SCHEMA, SUM_UP_SYSTEM, SUMMARISE_SCHEMA, SUMMARISE_SYSTEM
from refdesk.summaries import CLUSTER, DOCUMENT, SECTION, Proof, TreeNode, WrittenSummary, key_sentences, telling_chunks
from refdesk.text import rough_tokens
from refdesk.trace import Stage, json_object, model_reply
from refdesk.types import UNIT, Chunk, Document

AT_ONCE = 8  # chunks in one request
SIDE_BY_SIDE = 4  # requests
LONGEST_SHARE = 0.5  # of the chunk's characters: what is longer is no summary
SHORTEST = 240  # characters that any chunk may have for it: flags take room
LONGEST_QUESTION, MOST_QUESTIONS = 300, 3
WRITTEN_TOKENS = 90  # of a chunk's summary and questions, on average
THOUGHTS = 1_500  # of a model that thinks before it writes
MOST_FAILURES = 3  # requests in a row; then the model is not there


@dataclass(frozen=True, slots=True)
class SummaryCost:
    """What is to be done, said before it is begun."""

    model: str
    chunks: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None  # None: no price is known
    what: str = "chunk"  # is summed up

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "what"}

    @property
    def sentence(self) -> str:
        price = "its price is not known" if self.cost_usd is None else f"about ${self.cost_usd:,.2f}"
        if self.cost_usd == 0:
            price = "which costs nothing"
        tokens = f"about {self.prompt_tokens:,} tokens to read and {self.completion_tokens:,} to write"
        return f"{self.chunks:,} {_several(self.what, self.chunks)}, {tokens} with {self.model}: {price}"


def _several(what: str, count: int) -> str:
    """`section or document`, 2 -> 'sections or documents'."""
    return what if count == 1 else " ".join(word if word == "or" else f"{word}s" for word in what.split())


def summary_cost(model: str, chunks: Sequence[Chunk]) -> SummaryCost:
    requests = -(-len(chunks) // AT_ONCE)
    read = requests * rough_tokens(SUMMARISE_SYSTEM) + sum(rough_tokens(chunk_block(chunk)) for chunk in chunks)
    write = WRITTEN_TOKENS * len(chunks) + THOUGHTS * requests * model_info(model).thinks
    return SummaryCost(model, len(chunks), read, write, estimate(model, read, write) if chunks else 0.0)


class JobModel:
    """The model of one job over chunks; counts what it could not do."""

    def __init__(self, model: LLM) -> None:
        self._model = model
        self._left_out = self._failures = 0

    async def _reply(self, system: str, head: str, text: str, schema: Mapping[str, Any], tokens: int) -> str:
        """What it wrote of a text; "" where it was not there. Too often in a row, or refused, is raised."""
        message = "\n\n".join([head, FENCE_OPENS, text, FENCE_CLOSES])
        most = tokens + THOUGHTS * model_info(self._model.name).thinks
        stage = Stage("summarise", 0.0)
        try:
            reply = await model_reply(self._model, system, message, schema, most, stage, "summariser")
        except ProviderError as error:
            self._failures += 1
            if self._failures >= MOST_FAILURES or not isinstance(error, ProviderUnavailable):
                raise
            return ""
        self._failures = 0
        return reply


class Summariser(JobModel):
    """Summaries of chunks."""

    def __init__(self, model: LLM, embedder: Embedder) -> None:
        super().__init__(model)
        self._embedder = embedder

    @property
    def note(self) -> str:
        """What is to be known of the end of it."""
        count = self._left_out
        return f"{count} chunk{'s' * (count != 1)} got no summary that can be used" if count else ""

    def batches(self, chunks: Sequence[Chunk]) -> Iterator[Sequence[Chunk]]:
        """What is written down in one step."""
        size = AT_ONCE * SIDE_BY_SIDE
        for at in range(0, len(chunks), size):
            yield chunks[at : at + size]

    async def write(self, document: Document, chunks: Sequence[Chunk]) -> list[WrittenSummary]:
        """Summaries of these chunks of one document; those that came out usable."""
        some = [chunks[at : at + AT_ONCE] for at in range(0, len(chunks), AT_ONCE)]
        found: dict[int, tuple[str, tuple[str, ...]]] = {}
        for summaries in await asyncio.gather(*(self._asked(document, batch) for batch in some)):
            found |= summaries
        again = [chunk for chunk in chunks if chunk.sequence not in found] if len(chunks) > 1 else []
        for summaries in await asyncio.gather(*(self._asked(document, [chunk]) for chunk in again)):
            found |= summaries
        self._left_out += len(chunks) - len(found)
        return await asyncio.to_thread(self._embedded, found)

    async def _asked(self, document: Document, chunks: Sequence[Chunk]) -> dict[int, tuple[str, tuple[str, ...]]]:
        head = f"Document: {' '.join(document.name.split())}"
        text = "\n\n".join(map(chunk_block, chunks))
        tokens = 3 * WRITTEN_TOKENS * len(chunks)
        return usable(await self._reply(SUMMARISE_SYSTEM, head, text, SUMMARISE_SCHEMA, tokens), chunks)

    def _embedded(self, found: Mapping[int, tuple[str, tuple[str, ...]]]) -> list[WrittenSummary]:
        written = []
        for sequence, (text, questions) in sorted(found.items()):
            rows = np.stack([self._embedder.embed_query(question) for question in (text, *questions)])
            scaled = np.clip(np.rint(rows * UNIT), -UNIT, UNIT).astype(np.int8)
            written.append(WrittenSummary(sequence, text, questions, scaled, self._model.name))
        return written


def chunk_block(chunk: Chunk) -> str:
    heading = " > ".join(chunk.heading_path)
    return f"--- CHUNK {chunk.sequence} ({heading}) ---\n{chunk.text.replace('=====', '＝').replace('---', '—')}"


def usable(reply: str, chunks: Sequence[Chunk]) -> dict[int, tuple[str, tuple[str, ...]]]:
    """By sequence number what a model wrote of these chunks; what is malformed, unknown or too long is left out."""
    rows = json_object(reply).get("chunks")
    known = {chunk.sequence: chunk for chunk in chunks}
    found: dict[int, tuple[str, tuple[str, ...]]] = {}
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, dict) or isinstance(row.get("chunk"), bool):
            continue
        chunk = known.get(row["chunk"]) if isinstance(row.get("chunk"), int) else None
        summary = row.get("summary")
        if chunk is None or not isinstance(summary, str):
            continue
        text = " ".join(summary.split())
        if text and len(text) <= max(SHORTEST, LONGEST_SHARE * len(chunk.text)):
            found[chunk.sequence] = (text, _questions(row.get("questions")))
    return found


def _questions(listed: object) -> tuple[str, ...]:
    texts = [" ".join(text.split()) for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    return tuple(dict.fromkeys(text for text in texts if 0 < len(text) <= LONGEST_QUESTION))[:MOST_QUESTIONS]


# --- sections and documents -------------------------------------------------------------------------------------------
#
#     chunks of a section → its summary; summaries of the sections → that of the document (RAPTOR, arXiv 2401.18059)
#
# The words are searched and never quoted: a node keeps the sentences that prove it, and its vector is the mean of its
# own and that of the summary. What a model leaves empty or writes at too great length stays as it was.

READ_CHARACTERS = 12_000  # of one section or document; what is longer is cut
TREE_TOKENS = 120  # of one summary, on average
LONGEST_OF_NODE = 1_200  # characters of a summary


def tree_cost(model: str, nodes: Sequence[TreeNode], chunks: Sequence[Chunk]) -> SummaryCost:
    """What summaries of these nodes take; `chunks` are those of their documents."""
    sections = [node for node in nodes if node.level == SECTION]
    read = len(nodes) * rough_tokens(SUM_UP_SYSTEM) + sum(rough_tokens(_passages(node, chunks)) for node in sections)
    read += TREE_TOKENS * len(sections)  # documents are summed up from what was written of their sections
    write = (TREE_TOKENS + THOUGHTS * model_info(model).thinks) * len(nodes)
    price = estimate(model, read, write) if nodes else 0.0
    return SummaryCost(model, len(nodes), read, write, price, what="section or document")


class TreeSummariser(JobModel):
    """Summaries of sections and documents."""

    def __init__(self, model: LLM, embedder: Embedder) -> None:
        super().__init__(model)
        self._embedder = embedder

    @property
    def note(self) -> str:
        count = self._left_out
        return f"{count} of them got no summary that can be used" if count else ""

    async def write(self, document: Document, nodes: Sequence[TreeNode], chunks: Sequence[Chunk]) -> list[TreeNode]:
        """The nodes of one document, with a summary each as far as the model gave one."""
        sections = [
            await self._written(document, node, _passages(node, chunks)) for node in nodes if node.level == SECTION
        ]
        text = "\n\n".join(f"{node.title}\n{node.text}" for node in sections)[:READ_CHARACTERS]
        whole = [await self._written(document, node, text) for node in nodes if node.level == DOCUMENT]
        return [*sections, *whole]

    async def _written(self, document: Document, node: TreeNode, passages: str) -> TreeNode:
        if node.model:  # by an earlier job
            return node
        text = await self._asked(document, node, passages)
        if not text or len(text) > LONGEST_OF_NODE:
            self._left_out += 1
            return node
        both = node.vector + self._embedder.embed_query(text)
        vector = (both / max(float(np.linalg.norm(both)), 1e-6)).astype(np.float32)
        return replace(node, text=text, vector=vector, model=self._model.name)

    async def _asked(self, document: Document, node: TreeNode, passages: str) -> str:
        head = f"Document: {' '.join(document.name.split())}\nSection: {' '.join(node.title.split())}"
        reply = await self._reply(SUM_UP_SYSTEM, head, passages, SUM_UP_SCHEMA, 3 * TREE_TOKENS)
        found = json_object(reply).get("summary")
        return " ".join(found.split()) if isinstance(found, str) else ""


def _passages(node: TreeNode, chunks: Sequence[Chunk]) -> str:
    first, last = node.sequences
    node_chunks = [
        chunk for chunk in chunks if chunk.document_id == node.document_id and first <= chunk.sequence <= last
    ]
    return "\n\n".join(map(chunk_block, node_chunks))[:READ_CHARACTERS]


# --- the tree above the chunks ----------------------------------------------------------------------------------------

# The tree above the chunks: sections, documents and collections, summarised in their own sentences. Pure.
#
#     chunks → sections (1) → documents (2) → clusters of the documents of a collection (3)
#
# Each node carries its key sentences, where these stand, and a vector: the mean of what lies below it.

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
