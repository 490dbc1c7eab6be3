"""Read access to a library through its store and index: searching, neighbours, words, vectors."""

from __future__ import annotations

import copy
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Turn
from refdesk.document_names import name_words
from refdesk.entities import Extraction, GraphStore, Mention, Relation
from refdesk.errors import IndexDamaged
from refdesk.ports import Embedder, Index, Models, NoModels, Scored, TokenVectors
from refdesk.records import LARGEST, MOST_CELLS, Column, LibraryState, PageText, StoredTable
from refdesk.settings import Settings
from refdesk.store_ports import ChunkStore, DocumentStore, TableStore, other_embedder
from refdesk.summaries import ChunkSummary, NoSummaries, Summaries, SummaryStore, TreeNode, own_sentences
from refdesk.text import edit_distances, query_terms, repeated_terms, terms, words
from refdesk.trace import Trace
from refdesk.types import EVERYTHING, UNIT, Access, Box, Chunk, Document, Hit, Method, Range, Scope, Span, boxes_between

MOST_LANGUAGES = 4  # a query is stemmed in each of the library's most frequent languages
SCOPES_KEPT = 64  # lists of documents remembered for one generation
MOST_REPORT_CELLS = (
    30_000  # of the tables of one document that are looked through for a figure; a long report has 15,000
)
SIMILAR_CHUNKS, SIMILAR_LOOKS = 20, 6  # chunks read at once for the words that resemble a misspelled one, how often
ENDINGS, SHORTEST_STEM = (2, 3, 4), 4  # letters taken off a misspelled word, and left of it


@dataclass(slots=True)
class _Lists:
    """Documents by scope, of one generation; shared by a reader and its limited ones."""

    documents: tuple[int, dict[Scope, tuple[Document, ...]]] = field(default_factory=lambda: (-1, {}))


class LibraryReader:
    """One process's view of a library; safe to share between threads."""

    def __init__(
        self,
        documents: DocumentStore,
        chunks: ChunkStore,
        tables: TableStore,
        index: Index,
        embedder: Embedder,
        rebuild: Callable[[], object],
        graph: GraphStore,
        summaries: SummaryStore | None = None,
        tokens: TokenVectors | None = None,
    ) -> None:
        self._documents = documents
        self._chunks = chunks
        self._tables = tables
        self._index = index
        self._embedder = embedder
        self._rebuild = rebuild
        self._graph = graph
        self._tokens = tokens
        self._healing = threading.Lock()
        self._lists = _Lists()
        self._summaries = Summaries(summaries or NoSummaries())
        self._seen = Scope()  # whose words are counted

    def limited(self, access: Access) -> LibraryReader:
        """The reader for who may read these collections alone: words that stand nowhere else count for nothing.

        A scope is asked for with every search; but how often a word stands in the library, and so whether it is taken
        for a misspelling, would tell of documents that the caller may not read.
        """
        if access is EVERYTHING:
            return self
        found = copy.copy(self)
        found._seen = Scope(access=tuple(sorted(set(access))))
        return found

    @property
    def languages(self) -> tuple[str, ...]:
        """Of its documents, the most frequent first."""
        return self._index.languages[:MOST_LANGUAGES]

    @property
    def chunk_count(self) -> int:
        return self._index.count(self._seen)

    def generation(self) -> int:
        """The version of the corpus: another number after every change."""
        return self.refresh().generation

    def search(
        self, text: str, vector: NDArray[np.float32], k: int, method: Method, scope: Scope, settings: Settings
    ) -> list[Hit]:
        """The k best chunks in scope, best first, with both true scores; a damaged index is healed on the way."""
        if method == "hybrid" and settings.fusion == "rrf":
            method = "rrf"
        weights = Weights(settings.dense_weight, settings.rrf_k, settings.candidates)
        depth: int = k
        hits: list[Hit] = []
        for _ in range(4):
            state = self.refresh()
            if method != "bm25" and state.embedder not in ("", self._embedder.name):
                raise other_embedder(state.embedder, self._embedder.name)
            wanted = repeated_terms(text, self.languages)
            found = search(self._index, wanted, vector, k=depth, method=method, scope=scope, weights=weights)
            hits = self._hits(found, state.generation)
            # A chunk that vanished between index and store was replaced or deleted this very moment: look again.
            if len(hits) >= min(k, len(found)):
                break
            depth += len(found) - len(hits)
        return hits[:k]

    def scored(self, chunk_ids: Sequence[int], text: str, vector: NDArray[np.float32], settings: Settings) -> list[Hit]:
        """Hits of just these chunks with both true scores, best first; what is gone is left out."""
        generation = self.generation()
        lexical = self._index.lexical_scores(repeated_terms(text, self.languages), chunk_ids)
        cosines = self._index.cosines(vector, chunk_ids)
        ranked = convex(lexical, cosines, settings.dense_weight)
        found = [
            Candidate(chunk_id, lexical.get(chunk_id, 0.0), cosines.get(chunk_id, 0.0), score)
            for chunk_id, score in ranked
        ]
        return self._hits(found, generation)

    def _hits(self, found: Sequence[Candidate], generation: int) -> list[Hit]:
        rows = self._chunks.hydrate([candidate.chunk_id for candidate in found], generation)
        return [
            Hit(
                *rows[candidate.chunk_id],
                lexical_score=candidate.lexical_score,
                cosine=candidate.cosine,
                score=candidate.score,
            )
            for candidate in found
            if candidate.chunk_id in rows
        ]

    def true_scores(self, hits: Sequence[Hit], text: str, vector: NDArray[np.float32]) -> dict[int, Hit]:
        """The same hits, by the ids of their chunks, with the true scores for this text and vector."""
        ids = [hit.chunk.id for hit in hits]
        lexical = self._index.lexical_scores(repeated_terms(text, self.languages), ids) if ids else {}
        cosines = self._index.cosines(vector, ids) if ids else {}
        return {
            hit.chunk.id: replace(
                hit, lexical_score=lexical.get(hit.chunk.id, 0.0), cosine=cosines.get(hit.chunk.id, 0.0)
            )
            for hit in hits
        }

    def documents(self, scope: Scope) -> tuple[Document, ...]:
        """The ready documents in scope; kept until the library changes."""
        generation = self.generation()
        if self._lists.documents[0] != generation:
            self._lists.documents = (generation, {})
        known = self._lists.documents[1]  # one dictionary per generation
        if scope not in known:
            if len(known) >= SCOPES_KEPT:
                known.clear()
            known[scope] = tuple(self._documents.documents(scope, "ready"))
        return known[scope]

    def name_words(self, scope: Scope) -> Collection[str]:
        """The words that the documents in scope are called by."""
        return name_words(self.documents(scope))

    def neighbours(self, chunks: Sequence[Chunk], reach: int) -> dict[int, list[Chunk]]:
        """By the id of each of these, the chunks of its document around it, itself left out; all in one read."""
        steps = [step for step in range(-reach, reach + 1) if step]
        around = {chunk.id: [(chunk.document_id, chunk.sequence + step) for step in steps] for chunk in chunks}
        known = {(chunk.document_id, chunk.sequence): chunk for chunk in chunks}
        missing = dict.fromkeys(place for places in around.values() for place in places if place not in known)
        known |= self._chunks.chunks_at(missing, self.generation())
        return {chunk.id: [known[place] for place in around[chunk.id] if place in known] for chunk in chunks}

    def document_chunks(self, document_id: str) -> list[Chunk]:
        """All of one document, in their order."""
        return self._chunks.chunks_of(document_id)

    def sentence_vectors(self, chunk_ids: Sequence[int]) -> dict[int, NDArray[np.int8]]:
        return self._chunks.sentence_vectors(self._embedder.name, chunk_ids, self._embedder.dimensions)

    def tables(self, chunk_ids: Sequence[int]) -> list[StoredTable]:
        rows = self._chunks.hydrate(chunk_ids, self.generation())
        ranges = [
            (
                chunk.document_id,
                min(span.origin for span in chunk.spans),
                max(_last_origin(span) for span in chunk.spans),
            )
            for chunk, _ in (rows[chunk_id] for chunk_id in chunk_ids if chunk_id in rows)
            if chunk.spans
        ]

        def first_met(table: StoredTable) -> int:
            return next(
                place
                for place, (document, start, end) in enumerate(ranges)
                if document == table.document_id and table.start < end and table.end > start
            )

        found = sorted(self._tables.between(ranges), key=lambda table: (first_met(table), table.number))
        return self._tables.with_cells(found, LARGEST)

    def document_tables(self, document_id: str) -> list[StoredTable]:
        """The tables of one document with their cells, but for sheets and for what is beyond a long report's."""
        small = [table for table in self._tables.of_document(document_id) if table.cell_count <= MOST_CELLS]
        cells = accumulate(table.cell_count for table in small)
        read = [table for table, count in zip(small, cells, strict=True) if count <= MOST_REPORT_CELLS]
        return self._tables.with_cells(read)

    def row_names(self, document_id: str) -> list[str]:
        return self._tables.row_names(document_id)

    def cell_places(self, table: StoredTable, ranges: Sequence[Range]) -> list[tuple[int, tuple[Box, ...], str]]:
        """Of these ranges of the text the page, the boxes there, and the line that they stand in."""
        found: dict[Range, tuple[int, tuple[Box, ...], str]] = {}
        read: dict[int, PageText | None] = {}

        def page(number: int) -> PageText | None:
            if number not in read:
                read[number] = next(iter(self._documents.pages(table.document_id, number)), None)
            return read[number]

        def ends_before(number: int) -> bool:
            return (shown := page(number)) is not None and shown.page.end <= start

        for start, end in sorted(ranges):
            last = table.page
            while ends_before(last):  # the table goes on overleaf; that of a sheet over hundreds of pages
                last = 2 * last
            number = bisect_left(
                range(last + 1), True, table.page, key=lambda page_number: not ends_before(page_number)
            )
            shown = page(number)
            if shown is None:
                found[start, end] = (table.page, (), "")
                continue
            at = start - shown.page.start
            stop = shown.text.find("\n", at)  # a sheet is one page of megabytes, of which no copy is made
            line = shown.text[shown.text.rfind("\n", 0, at) + 1 : stop if stop >= 0 else None]
            boxes = boxes_between(shown.words, start, end) if shown.words is not None else ()
            found[start, end] = (number, boxes, line)
        return [found[place] for place in ranges]

    def columns(self, table_id: int, numbers: Collection[int], *, are_placed: bool = False) -> dict[int, Column]:
        return self._tables.columns(table_id, numbers, are_placed=are_placed)

    def frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        return {term: self._index.frequency(term, self._seen) for term in terms}

    def similar_words(self, word: str, distance: int, scope: Scope) -> list[tuple[str, int]]:
        """Words of chunks in scope whose stem resembles this one's, or else what is left of it without its ending."""
        stems = query_terms(word, self.languages)
        # "definirion" has no ending that a stemmer knows, and lies far from the stem "definit"; "definir" does not.
        cut = [word[:-letters] for letters in ENDINGS if len(word) - letters >= SHORTEST_STEM]
        near = self._near(word, distance, stems, distance, scope) or self._near(word, distance, cut, 1, scope)
        return sorted(
            (word, max(self.frequencies(terms(word, language)).values(), default=0)) for word, language in near.items()
        )

    def _near(self, word: str, distance: int, stems: Sequence[str], reach: int, scope: Scope) -> dict[str, str]:
        """Words within the distance, with their language, from chunks that hold a term within `reach` of a stem.

        Chunks with a term that was met are left out of the next look, so that "able" in hundreds of them does not hide
        "Apple" when "Aple" was typed.
        """
        generation = self.refresh().generation
        met: set[str] = set()
        found: dict[str, str] = {}
        for _ in range(SIMILAR_LOOKS if stems else 0):
            ids = self._index.resembling(stems, reach, SIMILAR_CHUNKS, scope, met)
            read: dict[str, str] = {}
            for chunk, document in self._chunks.hydrate(ids, generation).values():
                read.update(dict.fromkeys(words(chunk.text), document.language or "en"))
            found |= {known: read[known] for known in _within(word, read, distance)}
            new = {term for word, language in read.items() for term in terms(word, language)} - met
            near = {term for stem in stems for term in _within(stem, new, reach)}
            if not near or len(ids) < SIMILAR_CHUNKS:
                break
            met |= near
        return found

    def holding(self, stems: Sequence[str], scope: Scope) -> set[int]:
        """The ids of all chunks in scope that hold one of these terms."""
        counts = {stem: count for stem in stems if (count := self._index.frequency(stem, scope))}
        return {found for stem in counts for found, _ in self._index.lexical([stem], counts[stem], scope)}

    def chunks(self, ids: Sequence[int]) -> dict[int, tuple[Chunk, Document]]:
        return self._chunks.hydrate(ids, self.generation())

    def late_scores(self, text: str, chunk_ids: Sequence[int]) -> dict[int, float]:
        """How well each of these chunks meets the words of a text; nothing where no token vectors are kept."""
        return self._tokens.scores(text, chunk_ids) if self._tokens is not None else {}

    def known_entities(self, keys: Collection[str], scope: Scope) -> set[str]:
        """Those of these keys that a chunk in scope names."""
        return self._graph.known(keys, scope)

    def entities_beginning(self, key: str, scope: Scope, most: int) -> list[tuple[str, str, int]]:
        """The keys that begin so, each with a name and how many chunks in scope have it, the most frequent first."""
        return self._graph.beginning(key, scope, most)

    def mentions(self, keys: Collection[str], scope: Scope, most: int) -> list[Mention]:
        return self._graph.mentions(keys, scope, most)

    def relations(self, keys: Collection[str], scope: Scope, most: int) -> list[Relation]:
        return self._graph.relations(keys, scope, most)

    def extracted(self, chunk_ids: Collection[int]) -> dict[int, Extraction]:
        """What a model found in these chunks."""
        return self._graph.extracted(chunk_ids)

    # in short

    def summaries(self, scope: Scope) -> list[ChunkSummary]:
        """Of every chunk in scope, by document and sequence; kept until the library changes."""
        return self._summaries.of(self.documents(scope), scope, self.generation(), self._embedder.name)

    def summary_cosines(self, some: Sequence[ChunkSummary], vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """How near each of these summaries is; of a model's also the questions that it wrote beside it."""
        embedder, generation = self._embedder.name, self.generation()
        documents = [
            document for document in self.documents(Scope()) if document.id in {summary.document_id for summary in some}
        ]
        written = self._summaries.written(documents, generation, embedder)
        missing = [
            summary.chunk_id
            for summary in some
            if not summary.is_written and summary.chunk_id not in self._summaries.vectors
        ]
        if missing:
            rows, chunks = self.sentence_vectors(missing), self._chunks.hydrate(missing, generation)
            self._summaries.keep(
                {
                    chunk_id: own_sentences(chunks[chunk_id][0], rows[chunk_id])
                    for chunk_id in rows
                    if chunk_id in chunks
                }
            )
        known = self._summaries.vectors
        found = np.full(len(some), -1.0, dtype=np.float32)
        for place, summary in enumerate(some):
            if summary.is_written and (by_model := written.get(summary.document_id, {}).get(summary.sequence)):
                found[place] = float(np.max(by_model.vectors.astype(np.float32) @ vector)) / UNIT
        unwritten = [
            place for place, summary in enumerate(some) if not summary.is_written and summary.chunk_id in known
        ]
        if unwritten:
            found[unwritten] = (
                np.stack([known[some[place].chunk_id] for place in unwritten]).astype(np.float32) @ vector
            )
        return found

    def tree_nodes(self, level: int, scope: Scope) -> list[TreeNode]:
        """Documents or clusters in scope; empty where no tree was built."""
        return self._summaries.nodes(self.documents(scope), level, self.generation(), self._embedder.name)

    def sections(self, document_ids: Sequence[str]) -> list[TreeNode]:
        return self._summaries.sections(document_ids, self._embedder.name)

    # keeping it usable

    def refresh(self) -> LibraryState:
        try:
            return self._index.refresh()
        except IndexDamaged:
            self.heal()
            return self._index.refresh()

    def heal(self) -> None:
        """Rebuilds a search index that does not open; the store has everything it takes."""
        with self._healing:
            try:
                self._index.refresh()
            except IndexDamaged:
                # Only with the library's own embedder: nobody has asked for all vectors to be made anew.
                if (built_with := self._chunks.state().embedder) not in ("", self._embedder.name):
                    raise other_embedder(built_with, self._embedder.name) from None
                self._rebuild()

    def rebuild(self) -> None:
        """Builds the search index anew, from what the store has."""
        with self._healing:
            self._rebuild()
            self._index.refresh()


def _last_origin(span: Span) -> int:
    return span.origin + span.end - span.start


# How are the scores of two engines joined into one ranking?


def convex(lexical: Mapping[int, float], cosine: Mapping[int, float], dense_weight: float) -> list[Scored]:
    """`a · (cos + 1) / (max cos + 1) + (1 − a) · bm25 / max bm25` for every member of both, best first.

    Both mappings hold the true score of every candidate; a chunk that shares no term with the query has no BM25 score.

    >>> convex({1: 4.0}, {1: 0.2, 2: 0.8}, 0.5)
    [(1, 0.833...), (2, 0.5)]
    """
    best_lexical = max(lexical.values(), default=0.0) or 1.0
    best_cosine = max(cosine.values(), default=0.0) + 1.0 or 1.0
    fused = [
        (
            chunk_id,
            dense_weight * (cosine.get(chunk_id, -1.0) + 1.0) / best_cosine
            + (1.0 - dense_weight) * lexical.get(chunk_id, 0.0) / best_lexical,
        )
        for chunk_id in {**cosine, **lexical}
    ]
    fused.sort(key=_best_first)
    return fused


def reciprocal_rank(lists: Sequence[Sequence[int]], k: int, weights: Sequence[float] = ()) -> list[Scored]:
    """`Σ weight / (k + rank)` over ranked lists of chunk ids, best first; a list without a weight counts once.

    >>> reciprocal_rank([[7, 8], [8]], k=30)
    [(8, 0.0635...), (7, 0.0322...)]
    """
    fused: dict[int, float] = {}
    for number, ranked in enumerate(lists):
        weight = weights[number] if weights else 1.0
        for rank, chunk_id in enumerate(ranked, 1):
            fused[chunk_id] = fused.get(chunk_id, 0.0) + weight / (k + rank)
    return sorted(fused.items(), key=_best_first)


def _best_first(scored: Scored) -> tuple[float, int]:
    return -scored[1], scored[0]


@dataclass(frozen=True, slots=True)
class Weights:
    """How the engines are joined; from the settings."""

    dense_weight: float
    rrf_k: int
    candidates: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that was found, with its true scores and the score it is ranked by."""

    chunk_id: int
    lexical_score: float
    cosine: float
    score: float


def search(
    index: Index,
    terms: Sequence[str],
    vector: NDArray[np.float32],
    *,
    k: int,
    method: Method,
    scope: Scope,
    weights: Weights,
) -> list[Candidate]:
    """The k best candidates, each with both true scores whatever the method."""
    depth = max(k, weights.candidates) if method in ("hybrid", "rrf") else k
    by_terms = index.lexical(terms, depth, scope) if method != "dense" else []
    by_vector = index.dense(vector, depth, scope) if method != "bm25" else []
    if method == "rrf":
        ranked = reciprocal_rank([[i for i, _ in by_terms], [i for i, _ in by_vector]], weights.rrf_k)[:k]
        wanted = [chunk_id for chunk_id, _ in ranked]
    else:
        ranked, wanted = [], [chunk_id for chunk_id, _ in (*by_terms, *by_vector)]
    lexical, cosine = dict(by_terms), dict(by_vector)
    lexical |= index.lexical_scores(terms, [i for i in wanted if i not in lexical])
    cosine |= index.cosines(vector, [i for i in wanted if i not in cosine])
    if method == "hybrid":
        ranked = convex(lexical, cosine, weights.dense_weight)[:k]
    elif method == "bm25":
        ranked = by_terms
    elif method == "dense":
        ranked = by_vector
    return [Candidate(i, lexical.get(i, 0.0), cosine.get(i, 0.0), score) for i, score in ranked]


def _within(word: str, others: Iterable[str], distance: int) -> list[str]:
    """Of these words those that lie within an edit distance."""
    likely = [other for other in others if abs(len(other) - len(word)) <= distance]
    return [term for term, needed in zip(likely, edit_distances(word, likely), strict=True) if needed <= distance]


# What is a strategy handed, and what does it give? See refdesk.ask.strategies.


@dataclass(frozen=True, slots=True)
class SearchPorts:
    """What a strategy may use, and how much it is to find; `turns` are what was said before the question."""

    library: LibraryReader
    embedder: Embedder
    settings: Settings
    scope: Scope
    k: int
    models: Models = field(default_factory=NoModels)
    trace: Trace = field(default_factory=Trace)
    turns: Sequence[Turn] = ()


@dataclass(frozen=True, slots=True)
class EngineHits:
    """The hits of one engine, best first; `weight` is how much they count beside those of others."""

    engine: str
    hits: Sequence[Hit]
    weight: float = 1.0
    are_chosen: bool = False  # one by one, by a model that has read what there is: all of them are read
    others: Sequence[ChunkSummary] = ()  # what is read in short beside the hits, nearest first


def fuse(lists: Sequence[EngineHits], rrf_k: int) -> list[Hit]:
    """Any number of lists as one. One alone keeps its scores; several are joined by rank: theirs cannot be compared."""
    if len(lists) == 1:
        return list(lists[0].hits)
    every = {hit.chunk.id: hit for found in reversed(lists) for hit in found.hits}  # the first list's scores are kept
    ranked = [[hit.chunk.id for hit in found.hits] for found in lists]
    weights = [found.weight for found in lists]
    return [replace(every[chunk_id], score=score) for chunk_id, score in reciprocal_rank(ranked, rrf_k, weights)]
