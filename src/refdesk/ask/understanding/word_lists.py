"""Which words does a language have, how common are they, and which lie near a misspelled one?

pyspellchecker is here for its word lists alone (twelve languages with how often each word is written); a list is read
when it is first needed, 0.1 to 0.3 s. Looking a list through by the letters of its words takes 1 ms.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_LETTERS = 26


@dataclass(frozen=True, slots=True, eq=False)
class WordList:
    """The words of one language with how often each is written in a billion, and per length how often which letter."""

    frequencies: Mapping[str, float]
    by_length: Mapping[int, tuple[tuple[str, ...], NDArray[np.int8]]]  # words of a to z: (words, 26) counts

    def __contains__(self, word: str) -> bool:
        return word in self.frequencies

    def near(self, word: str, distance: int) -> list[tuple[str, float]]:
        """Words whose letters differ so little that they may lie within the distance; the caller measures it."""
        own = _letter_counts((word,))[0]
        found: list[tuple[str, float]] = []
        for length in range(len(word) - distance, len(word) + distance + 1):
            if length in self.by_length:
                words, letters = self.by_length[length]
                differences = np.abs(letters - own).sum(axis=1, dtype=np.int16)
                # An edit adds a letter, drops one, or does both by replacing one; a swap changes no count.
                near = np.flatnonzero(differences <= 2 * distance)
                found += [(words[place], self.frequencies[words[place]]) for place in near]
        return found


@cache
def word_list(language: str) -> WordList | None:
    """The list of a language by its ISO 639-1 code; None where there is none."""
    package = importlib.util.find_spec("spellchecker")  # found, not imported
    if package is None or not package.submodule_search_locations or not language.isalpha():
        return None
    path = Path(package.submodule_search_locations[0]) / "resources" / f"{language}.json.gz"
    if not path.is_file():
        return None
    counts: dict[str, int] = json.loads(gzip.decompress(path.read_bytes()))
    for word in _british() if language == "en" else ():
        counts.setdefault(word, 1)
    total = sum(counts.values())
    lengths: dict[int, list[str]] = {}
    for word in counts:
        if word.isascii() and word.isalpha() and word.islower():
            lengths.setdefault(len(word), []).append(word)
    by_length = {length: (tuple(words), _letter_counts(words)) for length, words in lengths.items()}
    return WordList({word: 1e9 * count / total for word, count in counts.items()}, by_length)


def _british() -> list[str]:
    """English words as both sides of the Atlantic write them: pyspellchecker has "harbor" alone."""
    package = importlib.util.find_spec("symspellpy")
    if package is None or not package.submodule_search_locations:
        return []
    path = Path(package.submodule_search_locations[0]) / "frequency_dictionary_en_82_765.txt"
    return [line.partition(" ")[0] for line in path.read_text(encoding="utf-8-sig").splitlines()]


def _letter_counts(words: tuple[str, ...] | list[str]) -> NDArray[np.int8]:
    """How often each letter stands in each of these words of one length."""
    letters = np.zeros((len(words), _LETTERS), dtype=np.int8)
    codes = np.frombuffer("".join(words).encode(), dtype=np.uint8).astype(np.intp) - ord("a")
    np.add.at(letters, (np.repeat(np.arange(len(words)), len(words[0])), codes), 1)
    return letters
