"""The words of many texts, as much of a library as spelling needs: nothing is embedded, so a corpus takes seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from refdesk.document_names import GENERIC
from refdesk.text import edit_distances, terms, words
from refdesk.types import Scope


class WordsOnly:
    """What spelling asks of a library: one that holds these texts, one chunk each, in documents of these names."""

    languages = ("en",)

    def __init__(self, texts: Iterable[str], names: Iterable[str] = ()) -> None:
        self._names = frozenset(word for name in names for word in words(name) if word not in GENERIC)
        self.words, self._stems = Counter[str](), Counter[str]()
        self.chunk_count = 0
        for text in texts:
            self.chunk_count += 1
            self.words.update(set(words(text)))
            self._stems.update(set(terms(text)))
        lengths: dict[int, list[str]] = {}
        for word in self.words:
            if word.isascii() and word.isalpha():
                lengths.setdefault(len(word), []).append(word)
        self._by_length = {length: (held, _letters(held)) for length, held in lengths.items()}

    def name_words(self, scope: Scope | None = None) -> Collection[str]:
        return self._names

    def frequencies(self, asked: Sequence[str]) -> dict[str, int]:
        return {term: self._stems[term] for term in asked}

    def similar_words(self, word: str, distance: int, scope: Scope | None = None) -> list[tuple[str, int]]:
        own = _letters([word])
        found: list[str] = []
        for length in range(len(word) - distance, len(word) + distance + 1):
            held, letters = self._by_length.get(length, ([], None))
            if letters is not None:
                near = np.flatnonzero(np.abs(letters - own).sum(axis=1) <= 2 * distance)
                near_words = [held[place] for place in near]
                edits = edit_distances(word, near_words)
                found += [one for one, needed in zip(near_words, edits, strict=True) if needed <= distance]
        return [(one, max((self._stems[term] for term in terms(one)), default=0)) for one in sorted(found)]


def _letters(held: Sequence[str]) -> np.ndarray[tuple[int, int], np.dtype[np.int8]]:
    found = np.zeros((len(held), 26), dtype=np.int8)
    for place, word in enumerate(held):
        for letter in word:
            found[place, ord(letter) - ord("a")] += 1
    return found
