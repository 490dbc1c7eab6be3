"""Terms of chunks in memory, scored as tantivy scores them: all of a small index, what came last of a large one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from refdesk.records import LexicalEntry
from refdesk.text import edit_distances
from refdesk.types import Range

K1, B = 1.2, 0.75  # tantivy's, and Lucene's
K3 = 2.0  # a word that the query says twice counts 1.5 times, and never more than 3 times


@dataclass(frozen=True, slots=True)
class Corpus:
    """What the score of a chunk depends on besides itself: all chunks that are searched, wherever their terms are."""

    count: int
    mean_length: float
    frequency: Callable[[str], int]  # chunks that hold a term

    def idf(self, term: str) -> float:
        return inverse_frequency(self.count, self.frequency(term))


@dataclass(slots=True)
class Postings:
    """Chunks whose ids are greater than `after`; each search looks at those that hold one of its terms."""

    after: int = 0
    lengths: dict[int, int] = field(default_factory=dict)  # terms of each chunk, by id
    _by_term: dict[str, dict[int, int]] = field(default_factory=dict)  # how often it is in which chunk

    @property
    def last_id(self) -> int:
        return max(self.lengths, default=self.after)

    @property
    def terms(self) -> Iterable[str]:
        return self._by_term

    def frequency(self, term: str, allowed: Collection[int] | None = None) -> int:
        found = self._by_term.get(term, {})
        return len(found) if allowed is None else sum(chunk_id in allowed for chunk_id in tuple(found))

    def corpus(self) -> Corpus:
        """Where there are no others."""
        count = len(self.lengths)
        return Corpus(count, sum(self.lengths.values()) / max(1, count), self.frequency)

    def add(self, entries: Iterable[LexicalEntry]) -> None:
        for entry in entries:
            for term, count in Counter(entry.terms).items():
                self._by_term.setdefault(term, {})[entry.chunk_id] = count
            self.lengths[entry.chunk_id] = len(entry.terms)

    def drop(self, ranges: Sequence[Range]) -> None:
        late = [(first, last) for first, last in ranges if last > self.after]
        gone = {i for i in self.lengths if any(first <= i <= last for first, last in late)}
        for chunk_id in gone:
            del self.lengths[chunk_id]
        if gone:
            self._by_term = {term: left for term, of in self._by_term.items() if (left := _without(of, gone))}

    def scores(self, terms: Sequence[str], corpus: Corpus, allowed: Collection[int] | None = None) -> dict[int, float]:
        """BM25 of the chunks that hold a term, or of those that are allowed."""
        scores: dict[int, float] = {}
        for term, weight in term_weights(terms).items():
            # As one step: another thread may be adding.
            found = tuple(self._by_term.get(term, {}).items())
            idf = weight * corpus.idf(term) if found else 0.0
            for chunk_id, count in found:
                if allowed is None or chunk_id in allowed:
                    length = _rounded(self.lengths.get(chunk_id, 0)) / corpus.mean_length
                    part = count * (K1 + 1) / (count + K1 * (1 - B + B * length))
                    scores[chunk_id] = scores.get(chunk_id, 0.0) + idf * part
        return scores

    def resembling(
        self, terms: Sequence[str], distance: int, without: Collection[str], allowed: Collection[int] | None = None
    ) -> list[int]:
        """Chunks that hold a term within an edit distance, and none of `without`."""
        found: set[int] = set()
        known = tuple(self._by_term.items())
        for wanted in terms:
            edits = edit_distances(wanted, [term for term, _ in known])
            near = (chunk_ids for (_, chunk_ids), count in zip(known, edits, strict=True) if count <= distance)
            found.update(*map(tuple, near))
        for term in without:
            found.difference_update(tuple(self._by_term.get(term, ())))
        return sorted(chunk_id for chunk_id in found if allowed is None or chunk_id in allowed)


def term_weights(terms: Sequence[str]) -> dict[str, float]:
    """How much each term of a query counts: one that is there twice more, by BM25's own rule for words of the query.

    Weights are taken relative to their mean, so that scores can be compared with those of distinct terms.
    """
    weights = {term: count * (K3 + 1) / (K3 + count) for term, count in Counter(terms).items()}
    mean = sum(weights.values()) / max(1, len(weights))
    return {term: weight / mean for term, weight in weights.items()}


def inverse_frequency(count: int, holding: int) -> float:
    return math.log(1 + (count - holding + 0.5) / (holding + 0.5))


def _without(counts: dict[int, int], gone: Collection[int]) -> dict[int, int]:
    return {chunk_id: count for chunk_id, count in counts.items() if chunk_id not in gone}


def _rounded(length: int) -> int:
    """The length of a chunk as one byte keeps it: exact up to 40, then to four binary digits (Lucene's SmallFloat)."""
    if length < 40:
        return length
    shift = (length - 24).bit_length() - 4
    return 24 + ((length - 24) >> shift << shift)
