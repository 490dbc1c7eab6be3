"""The `IndexWriter` port in memory: BM25 as tantivy counts it, and every cosine. What other indexes are held to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from refdesk.index.lexical import term_weights
from refdesk.ports import Embedder, Scored
from refdesk.records import LexicalEntry, LibraryState
from refdesk.store_ports import ChunkStore, IndexContent
from refdesk.types import Range, Scope

K1, B = 1.2, 0.75  # tantivy's, and Lucene's


class MemoryIndex:
    """Looks at every chunk for every search; exact, and meant for thousands."""

    def __init__(self, chunks: ChunkStore, embedder: Embedder) -> None:
        self._chunks, self._embedder = chunks, embedder
        self._entries: dict[int, LexicalEntry] = {}
        self._counts: dict[int, Counter[str]] = {}

    @property
    def languages(self) -> tuple[str, ...]:
        return self._chunks.languages()

    def refresh(self) -> LibraryState:
        return self._chunks.state()

    # searching

    def lexical(self, terms: Sequence[str], k: int, scope: Scope) -> list[Scored]:
        scores = self.lexical_scores(terms, self._ids(scope))
        return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[: max(0, k)]

    def lexical_scores(self, terms: Sequence[str], chunk_ids: Sequence[int]) -> dict[int, float]:
        weights = term_weights(terms)
        total = len(self._counts)
        mean = sum(counts.total() for counts in self._counts.values()) / max(1, total)
        scores: dict[int, float] = {}
        for term, weight in weights.items():
            holding = sum(term in counts for counts in self._counts.values())
            idf = math.log(1 + (total - holding + 0.5) / (holding + 0.5))
            for chunk_id in chunk_ids:
                counts = self._counts.get(chunk_id, Counter())
                if term in counts:
                    length = _rounded(counts.total()) / mean
                    part = counts[term] * (K1 + 1) / (counts[term] + K1 * (1 - B + B * length))
                    scores[chunk_id] = scores.get(chunk_id, 0.0) + weight * idf * part
        return scores

    def dense(self, vector: NDArray[np.float32], k: int, scope: Scope) -> list[Scored]:
        scores = self.cosines(vector, self._ids(scope))
        return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[: max(0, k)]

    def cosines(self, vector: NDArray[np.float32], chunk_ids: Sequence[int]) -> dict[int, float]:
        ids, vectors = self._chunks.vectors_after(self._embedder.name, 0, self._embedder.dimensions)
        wanted = set(chunk_ids)
        scores = np.vecdot(vectors, vector) if len(ids) else np.zeros(0)
        return {int(i): float(score) for i, score in zip(ids, scores, strict=True) if int(i) in wanted}

    def resembling(self, terms: Sequence[str], distance: int, k: int, scope: Scope) -> list[int]:
        wanted = set(terms)
        known = {term for counts in self._counts.values() for term in counts}
        near = {term for term in known if any(_distance(term, one) <= distance for one in wanted)}
        return [chunk_id for chunk_id in self._ids(scope) if near & self._counts.get(chunk_id, Counter()).keys()][:k]

    def count(self, scope: Scope) -> int:
        return len(self._ids(scope))

    def frequency(self, term: str, scope: Scope) -> int:
        return sum(term in self._counts.get(chunk_id, ()) for chunk_id in self._ids(scope))

    def _ids(self, scope: Scope) -> list[int]:
        return [int(chunk_id) for chunk_id in self._chunks.chunk_ids(scope)]

    # writing

    def write(self, entries: Iterable[LexicalEntry], drop: Sequence[Range] = ()) -> None:
        for chunk_id in [i for i in self._entries if any(first <= i <= last for first, last in drop)]:
            del self._entries[chunk_id], self._counts[chunk_id]
        for entry in entries:
            self._entries[entry.chunk_id], self._counts[entry.chunk_id] = entry, Counter(entry.terms)

    def rebuild(self, number: int, batches: Iterable[Sequence[LexicalEntry]]) -> None:
        entries = [entry for batch in batches for entry in batch]
        self._entries, self._counts = {}, {}
        self.write(entries)

    def merge(self) -> None:
        """Nothing is in pieces."""

    def needs_compaction(self, dropped: int) -> bool:
        return dropped > max(1, len(self._entries))

    def compact(self, state: LibraryState) -> None:
        """Vectors are the store's own."""

    def remove_old(self, state: LibraryState) -> None:
        """There is nothing old."""

    def forget_vectors(self, state: LibraryState) -> None:
        """Vectors are the store's own."""

    def content(self) -> IndexContent:
        return IndexContent(frozenset(self._entries), len(self._ids(Scope())), has_current_terms=True)


def _rounded(length: int) -> int:
    """The length of a chunk as one byte keeps it: exact up to 40, then to four binary digits (Lucene's SmallFloat)."""
    if length < 40:
        return length
    shift = (length - 24).bit_length() - 4
    return 24 + ((length - 24) >> shift << shift)


def _distance(one: str, other: str) -> int:
    """Edits that make one word of another; two letters that are swapped count once."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        last, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
