"""The `IndexWriter` port in memory: BM25 as tantivy counts it, and every cosine. What other indexes are held to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from refdesk.index.postings import Postings
from refdesk.ports import Embedder, Scored
from refdesk.records import LexicalEntry, LibraryState
from refdesk.store_ports import ChunkStore, IndexContent
from refdesk.types import Range, Scope


class MemoryIndex:
    """Looks at every chunk for every search; exact, and meant for thousands."""

    tail_room = 0

    def __init__(self, chunks: ChunkStore, embedder: Embedder) -> None:
        self._chunks, self._embedder = chunks, embedder
        self._postings = Postings()

    @property
    def languages(self) -> tuple[str, ...]:
        return self._chunks.languages()

    def refresh(self) -> LibraryState:
        return self._chunks.state()

    # searching

    def lexical(self, terms: Sequence[str], k: int, scope: Scope) -> list[Scored]:
        return _best(self.lexical_scores(terms, self._ids(scope)), k)

    def lexical_scores(self, terms: Sequence[str], chunk_ids: Sequence[int]) -> dict[int, float]:
        return self._postings.scores(terms, self._postings.corpus(), set(chunk_ids))

    def dense(self, vector: NDArray[np.float32], k: int, scope: Scope) -> list[Scored]:
        return _best(self.cosines(vector, self._ids(scope)), k)

    def cosines(self, vector: NDArray[np.float32], chunk_ids: Sequence[int]) -> dict[int, float]:
        ids, vectors = self._chunks.vectors_after(self._embedder.name, 0, self._embedder.dimensions)
        wanted = set(chunk_ids)
        scores = np.vecdot(vectors, vector) if len(ids) else np.zeros(0)
        return {int(i): float(score) for i, score in zip(ids, scores, strict=True) if int(i) in wanted}

    def resembling(
        self, terms: Sequence[str], distance: int, k: int, scope: Scope, without: Collection[str] = ()
    ) -> list[int]:
        return self._postings.resembling(terms, distance, without, set(self._ids(scope)))[:k]

    def count(self, scope: Scope) -> int:
        return len(self._ids(scope))

    def frequency(self, term: str, scope: Scope) -> int:
        return self._postings.frequency(term, set(self._ids(scope)))

    def _ids(self, scope: Scope) -> list[int]:
        return [int(chunk_id) for chunk_id in self._chunks.chunk_ids(scope)]

    # writing

    def write(self, entries: Iterable[LexicalEntry], drop: Sequence[Range] = ()) -> None:
        self._postings.drop(drop)
        self._postings.add(entries)

    def rebuild(self, number: int, batches: Iterable[Sequence[LexicalEntry]]) -> None:
        postings = Postings()
        for batch in batches:
            postings.add(batch)
        self._postings = postings

    def needs_compaction(self, dropped: int) -> bool:
        return dropped > max(1, len(self._postings.lengths))

    def compact(self, state: LibraryState) -> None:
        """Vectors are the store's own."""

    def remove_old(self, state: LibraryState) -> None:
        """There is nothing old."""

    def forget_vectors(self, state: LibraryState) -> None:
        """Vectors are the store's own."""

    def content(self) -> IndexContent:
        return IndexContent(frozenset(self._postings.lengths), len(self._ids(Scope())), has_current_terms=True)


def _best(scores: dict[int, float], k: int) -> list[Scored]:
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[: max(0, k)]
