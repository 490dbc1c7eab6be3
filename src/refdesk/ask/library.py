"""How is the library read? The `Library` port over the store and its index: searching, neighbours, words, vectors."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.strategies.hybrid import Candidate, Weights, search
from refdesk.errors import IndexDamaged
from refdesk.ports import Embedder, Index
from refdesk.records import LibraryState
from refdesk.settings import Settings
from refdesk.store_ports import ChunkStore, DocumentStore, other_embedder
from refdesk.terms import query_terms, repeated_terms, terms, words
from refdesk.text import edit_distance
from refdesk.types import EVERYTHING, Access, Chunk, Document, Hit, Method, Scope

MOST_LANGUAGES = 4  # a query is stemmed in each of the library's most frequent languages
SCOPES_KEPT = 64  # lists of documents remembered for one generation
SIMILAR_CHUNKS = 50  # chunks read for the words that resemble a misspelled one
ENDINGS, SHORTEST_STEM = (2, 3, 4), 4  # letters taken off a misspelled word, and left of it


@dataclass(slots=True)
class _Lists:
    """Documents by scope, of one generation; shared by a reader and its limited ones."""

    documents: tuple[int, dict[Scope, tuple[tuple[Document, ...], dict[str, str]]]] = field(
        default_factory=lambda: (-1, {})
    )


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
        return self._listed(scope)[0]

    def collections(self, scope: Scope) -> Mapping[str, str]:
        """Where each ready document in scope lies, by its id; kept until the library changes."""
        return self._listed(scope)[1]

    def _listed(self, scope: Scope) -> tuple[tuple[Document, ...], dict[str, str]]:
        generation = self.generation()
        if self._lists.documents[0] != generation:
            self._lists.documents = (generation, {})
        known = self._lists.documents[1]  # one dictionary per generation
        if scope not in known:
            if len(known) >= SCOPES_KEPT:
                known.clear()
            found = tuple(self._documents.documents(scope, "ready"))
            known[scope] = found, {document.id: document.collection for document in found}
        return known[scope]

    def neighbours(self, chunks: Sequence[Chunk], reach: int) -> dict[int, list[Chunk]]:
        steps = [step for step in range(-reach, reach + 1) if step]
        around = {chunk.id: [(chunk.document_id, chunk.sequence + step) for step in steps] for chunk in chunks}
        known = {(chunk.document_id, chunk.sequence): chunk for chunk in chunks}
        missing = dict.fromkeys(place for places in around.values() for place in places if place not in known)
        known |= self._chunks.chunks_at(missing, self.generation())
        return {chunk.id: [known[place] for place in around[chunk.id] if place in known] for chunk in chunks}

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
        letters = set(word)
        return {
            one: language
            for one, language in found.items()
            # An edit changes two letters of the set at most: quicker than the distance itself, for nearly every word.
            if len(letters.symmetric_difference(one)) <= 2 * distance and edit_distance(word, one, distance) <= distance
        }

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
