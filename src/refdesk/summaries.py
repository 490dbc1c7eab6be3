"""Summaries of chunks, sections and documents: the values, the Protocol of their store, and the key sentences.

    chunk      a summary of its own sentences; beside it what a model wrote of it, which is searched and never quoted
    section    level 1 of the tree: the key sentences under a heading
    document   level 2
    cluster    level 3: documents of one collection that speak about the same

A node of the tree is no source: it names the sentences that it was made of, and these are cited.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

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
        """The summaries of the chunks of these documents that are in scope; a model's comes before the chunk's own."""
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


# --- the key sentences of a document or section: one of each part, in order -----------------------------------------
# One near the mean of its section and of the document, by its vector. What a document says about itself
# is left out: its cover, who wrote it, its contents and what it refers to.

MOST_SENTENCES = 6
FEW_SECTIONS = 3  # of so many or fewer, each may give two sentences
SHORTEST, LONGEST = 5, 45  # words of a sentence that says something, and that is read at once
WHOLE_DOCUMENT = 0.5  # what nearness to the whole document counts beside nearness to the section
EARLY = (0.4, 0.3, 0.2, 0.1)  # for the first sentences of a section: they say what it is about
MOST_NAMES = 0.5  # share of the words of a sentence that are names or numbers
LONG = 20  # pages of a document whose first page is a cover
LIKE = 0.85  # cosine of two sentences of which one is enough
REFERRING = 0.5  # share of a passage's sentences that name years, pages and initials: a list of references
LEAST_HALVED = 8  # sentences of a part that is long enough to be two
ENDS = frozenset(".!?…:;\"'”’»)]。！？」』")  # what a sentence ends with; a heading ends with none
PROSE = ("text", "list", "glossary")

Placed = tuple[Chunk, int]  # a chunk and a place among its sentences

_REFERENCE = re.compile(r"\((?:19|20)\d\d[a-z]?\)|\bet al\.|\bpp?\. ?\d|\bpages \d|\bvol\.|\bdoi\b|https?://|\^ ")
_ADDRESS = re.compile(r"\S@\S|https?://|www\.")
# A sentence that begins so can only be understood with the one before.
PRONOUN = re.compile(
    r"(?:It|They|He|She|This|These|That|Those|Its|Their|His|Her|Such|Both|The (?:former|latter|two|three|same))\b"
)


def telling_chunks(document: Document, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Those that say something in sentences; not the cover of a long document."""
    has_cover = document.page_count > LONG
    return [chunk for chunk in chunks if chunk.kind in PROSE and not (has_cover and chunk.page == 1)]


def key_sentences(chunks: Sequence[Chunk], vectors: Mapping[int, NDArray[np.int8]]) -> list[tuple[int, int]]:
    """(chunk id, sentence) of each, in the document's order."""
    sections = [section for section in _sections(chunks) if not _refers(section)]
    usable = [[place for place in section if says_something(*place)] for section in sections]
    usable = [section for section in usable if section]
    if not usable:
        return []
    matrices = [np.stack([_unit(vectors, chunk, place) for chunk, place in section]) for section in usable]
    middle = _mean(np.stack([_mean(matrix) for matrix in matrices]))
    ranked: list[list[tuple[float, Chunk, int, NDArray[Any]]]] = []
    for section, matrix in zip(usable, matrices, strict=True):
        worth = matrix @ _mean(matrix) + WHOLE_DOCUMENT * (matrix @ middle)
        worth[: len(EARLY)] += EARLY[: len(worth)]
        order = np.argsort(-worth)
        ranked.append([(float(worth[at]), *section[at], matrix[at]) for at in order.tolist()])
    chosen = _chosen(ranked, middle)
    return [(chunk.id, place) for chunk, place in sorted(chosen, key=lambda placed: (placed[0].sequence, placed[1]))]


def _chosen(ranked: Sequence[Sequence[tuple[float, Chunk, int, NDArray[Any]]]], middle: NDArray[Any]) -> list[Placed]:
    """The best of the sections that are long and say what the document says; none says again what another one says.

    By nearness to the middle of the document alone, annual reports were told by what their auditors say.
    """
    worth = [float(section[0][3] @ middle) * math.log1p(len(section)) for section in ranked]
    order = sorted(range(len(ranked)), key=lambda at: -worth[at])
    chosen: dict[str, tuple[Chunk, int, NDArray[Any]]] = {}  # by text: a reply quotes the mail before it
    for turn in range(2 if len(ranked) <= FEW_SECTIONS else 1):
        for at in order:
            for _, chunk, place, vector in ranked[at][turn:]:
                text = " ".join(chunk.text[slice(*chunk.sentences[place][:2])].split())
                is_new = text not in chosen and all(float(vector @ other) < LIKE for *_, other in chosen.values())
                if is_new and len(chosen) < MOST_SENTENCES:
                    chosen[text] = (chunk, place, vector)
                    break
    return [(chunk, place) for chunk, place, _ in chosen.values()]


def _sections(chunks: Sequence[Chunk]) -> list[list[Placed]]:
    """The sentences by the headings that divide the document, in as many parts as are wanted, if it can be."""
    deepest = max((len(chunk.heading_path) for chunk in chunks), default=0)
    found: list[list[Placed]] = []
    for depth in range(deepest + 1):
        by_path: dict[tuple[str, ...], list[Placed]] = {}
        for chunk in chunks:
            by_path.setdefault(chunk.heading_path[:depth], []).extend((chunk, s) for s in range(len(chunk.sentences)))
        found = list(by_path.values())
        if len(found) >= MOST_SENTENCES:
            return found
    found = [part for section in found for part in _under_headings(section)]  # small sections stand in one chunk
    while len(found) < MOST_SENTENCES and max(map(len, found), default=0) >= LEAST_HALVED:  # few headings
        longest = max(range(len(found)), key=lambda at: len(found[at]))
        section = found[longest]
        found[longest : longest + 1] = [section[: len(section) // 2], section[len(section) // 2 :]]
    return found


def _under_headings(section: Sequence[Placed]) -> list[list[Placed]]:
    """Cut where a block begins that nothing ends: a heading."""
    found: list[list[Placed]] = [[]]
    for chunk, place in section:
        start, end = chunk.sentences[place][:2]
        begins = place == 0 or "\n\n" in chunk.text[chunk.sentences[place - 1].end : start]
        if begins and chunk.text[start:end].rstrip()[-1:] not in ENDS:
            found.append([])
        found[-1].append((chunk, place))
    return [part for part in found if part]


def _refers(section: Sequence[Placed]) -> bool:
    """Is it a list of what the document refers to?"""
    texts = [chunk.text[slice(*chunk.sentences[place][:2])] for chunk, place in section]
    refer = [_REFERENCE.search(text) is not None or _is_mostly_names(text.split()) for text in texts]
    return sum(refer) > REFERRING * len(texts)


def tells_something(chunks: Sequence[Chunk]) -> bool:
    """Whether a section says anything itself: no list of references, no cover, no addresses."""
    placed = [(chunk, place) for chunk in chunks if chunk.kind in PROSE for place in range(len(chunk.sentences))]
    return not placed or (not _refers(placed) and any(says_something(*place) for place in placed))


def _is_mostly_names(words: Sequence[str]) -> bool:
    """`Skerry Technical Report SI-TR-017, 2021.`"""
    return sum(not word[:1].islower() for word in words) >= MOST_NAMES * len(words)


def says_something(chunk: Chunk, place: int) -> bool:
    """A whole sentence that can be understood alone: no heading, author, address, question or lead-in."""
    start, end = chunk.sentences[place][:2]
    text = " ".join(chunk.text[start:end].split())
    words = text.split()
    is_whole = text[-1:] in ".!。！" and SHORTEST <= len(words) <= LONGEST and text[:1].isupper()
    return is_whole and not _is_mostly_names(words) and not _ADDRESS.search(text) and not PRONOUN.match(text)


def _unit(vectors: Mapping[int, NDArray[np.int8]], chunk: Chunk, place: int) -> NDArray[Any]:
    rows = vectors.get(chunk.id)
    if rows is None or place >= len(rows):
        return np.zeros(1 if not vectors else len(next(iter(vectors.values()))[0]), dtype=np.float32)
    found: NDArray[Any] = rows[place].astype(np.float32)
    return found / max(float(np.linalg.norm(found)), 1e-6)


def _mean(matrix: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = matrix.mean(axis=0)
    return found / max(float(np.linalg.norm(found)), 1e-6)
