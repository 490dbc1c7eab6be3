"""How is the library read? The `Library` port over the store and its index: searching, neighbours, words, vectors."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.spelling import edit_distances
from refdesk.ask.strategies.hybrid import Candidate, Weights, search
from refdesk.errors import IndexDamaged
from refdesk.ports import Embedder, Index
from refdesk.records import LibraryState
from refdesk.settings import Settings
from refdesk.store_ports import ChunkStore, DocumentStore, other_embedder
from refdesk.terms import query_terms, repeated_terms, terms, words
from refdesk.types import EVERYTHING, Access, Chunk, Document, Hit, Method, Scope

MOST_LANGUAGES = 4  # a query is stemmed in each of the library's most frequent languages
SCOPES_KEPT = 64  # lists of documents remembered for one generation
SIMILAR_CHUNKS = 50  # chunks read for the words that resemble a misspelled one
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
        index: Index,
        embedder: Embedder,
        rebuild: Callable[[], object],
    ) -> None:
        self._documents = documents
        self._chunks = chunks
        self._index = index
        self._embedder = embedder
        self._rebuild = rebuild
        self._healing = threading.Lock()
        self._lists = _Lists()
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
        return self._index.languages[:MOST_LANGUAGES]

    @property
    def chunk_count(self) -> int:
        return self._index.count(self._seen)

    def generation(self) -> int:
        return self.refresh().generation

    def search(
        self, text: str, vector: NDArray[np.float32], k: int, method: Method, scope: Scope, settings: Settings
    ) -> list[Hit]:
        if method == "hybrid" and settings.fusion == "rrf":
            method = "rrf"
        weights = Weights(settings.dense_weight, settings.rrf_k, settings.candidates)
        depth: int = k
        hits: list[Hit] = []
        for _ in range(4):
            state = self.refresh()
            if method != "bm25" and state.space not in ("", self._embedder.name):
                raise other_embedder(state.space, self._embedder.name)
            wanted = repeated_terms(text, self.languages)
            found = search(self._index, wanted, vector, k=depth, method=method, scope=scope, weights=weights)
            hits = self._hits(found, state.generation)
            # A chunk that vanished between index and store was replaced or deleted this very moment: look again.
            if len(hits) >= min(k, len(found)):
                break
            depth += len(found) - len(hits)
        return hits[:k]

    def _hits(self, found: Sequence[Candidate], generation: int) -> list[Hit]:
        rows = self._chunks.hydrate([one.chunk_id for one in found], generation)
        return [
            Hit(*rows[one.chunk_id], lexical_score=one.lexical_score, cosine=one.cosine, score=one.score)
            for one in found
            if one.chunk_id in rows
        ]

    def documents(self, scope: Scope) -> tuple[Document, ...]:
        generation = self.generation()
        if self._lists.documents[0] != generation:
            self._lists.documents = (generation, {})
        known = self._lists.documents[1]  # one dictionary per generation
        if scope not in known:
            if len(known) >= SCOPES_KEPT:
                known.clear()
            known[scope] = tuple(self._documents.documents(scope, "ready"))
        return known[scope]

    def neighbours(self, chunks: Sequence[Chunk], reach: int) -> dict[int, list[Chunk]]:
        # The ids of a document's chunks follow its sequence numbers.
        around = {one.id: [one.id + step for step in range(-reach, reach + 1) if step] for one in chunks}
        known = {one.id: one for one in chunks}
        wanted = dict.fromkeys(chunk_id for ids in around.values() for chunk_id in ids if chunk_id not in known)
        known |= {chunk_id: row[0] for chunk_id, row in self._chunks.hydrate(wanted, self.generation()).items()}
        return {
            one.id: [
                known[chunk_id]
                for chunk_id in around[one.id]
                if chunk_id in known and known[chunk_id].document_id == one.document_id
            ]
            for one in chunks
        }

    def sentence_vectors(self, chunk_ids: Sequence[int]) -> dict[int, NDArray[np.int8]]:
        return self._chunks.sentence_vectors(self._embedder.name, chunk_ids, self._embedder.dimensions)

    def frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        return {term: self._index.frequency(term, self._seen) for term in terms}

    def similar_words(self, word: str, distance: int, scope: Scope) -> list[tuple[str, int]]:
        """Words of chunks in scope whose stem resembles this one's, or else what is left of it without its ending."""
        stems = query_terms(word, self.languages)
        # "definirion" has no ending that a stemmer knows, and lies far from the stem "definit"; "definir" does not.
        cut = [word[:-letters] for letters in ENDINGS if len(word) - letters >= SHORTEST_STEM]
        near = self._near(word, distance, stems, distance, scope) or self._near(word, distance, cut, 1, scope)
        return sorted(
            (one, max(self.frequencies(terms(one, language)).values(), default=0)) for one, language in near.items()
        )

    def _near(self, word: str, distance: int, stems: Sequence[str], reach: int, scope: Scope) -> dict[str, str]:
        """Words within the distance, with their language, from chunks that hold a term within `reach` of a stem."""
        generation = self.refresh().generation
        rows = self._chunks.hydrate(self._index.resembling(stems, reach, SIMILAR_CHUNKS, scope), generation)
        found: dict[str, str] = {}
        for chunk, document in rows.values():
            found.update(dict.fromkeys(words(chunk.text), document.language or "en"))
        likely = [one for one in found if abs(len(one) - len(word)) <= distance]
        edits = edit_distances(word, likely)
        return {one: found[one] for one, needed in zip(likely, edits, strict=True) if needed <= distance}

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
                if (space := self._chunks.state().space) not in ("", self._embedder.name):
                    raise other_embedder(space, self._embedder.name) from None
                self._rebuild()
