"""Which English words are common, and which lie near a misspelled one? Read when first needed, 0.1 s.

symspellpy is here for its word list alone (82,765 words with how often they are written). Its own index of deletions
takes 3 s and 77 MB to build; a question has one unknown word at most times, and looking all words through for it by
their letters takes 2 ms.
"""

from __future__ import annotations

import importlib.util
import string
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.understanding.vocabulary import word_set

WORD_LIST = "frequency_dictionary_en_82_765.txt"
# What people write without its apostrophe; near other words, and meant.
CONTRACTIONS = word_set(
    """
    arent cant couldnt didnt doesnt dont hadnt hasnt havent hows isnt ive shouldnt thats theres theyre theyve wasnt
    werent whats whens wheres whos whys wont wouldnt youre youve
    """
)
_LETTERS = {letter: place for place, letter in enumerate(string.ascii_lowercase)}


@dataclass(frozen=True, slots=True, eq=False)
class English:
    """The words with their counts, and per word how often each letter stands in it."""

    counts: Mapping[str, int]
    words: tuple[str, ...]
    letters: NDArray[np.int8]  # (words, 26)

    def near(self, word: str, distance: int) -> list[tuple[str, int]]:
        """Words whose letters differ so little that they may lie within the distance; the caller measures it."""
        differences = np.abs(self.letters - _letters(word)).sum(axis=1, dtype=np.int16)
        # An edit adds a letter, drops one, or does both by replacing one; a swap changes no count.
        places = np.flatnonzero(differences <= 2 * distance)
        return [(self.words[place], self.counts[self.words[place]]) for place in places]


@cache
def english() -> English:
    """The word list; empty where the package that holds it is missing."""
    counts: dict[str, int] = {}
    package = importlib.util.find_spec("symspellpy")  # found, not imported
    if package is not None and package.submodule_search_locations:
        path = Path(package.submodule_search_locations[0]) / WORD_LIST
        for line in path.read_text(encoding="utf-8-sig").splitlines():
            word, _, count = line.partition(" ")
            if word.isascii() and word.isalpha():
                counts[word] = int(count)
    words = tuple(counts)
    letters = np.zeros((len(words), len(_LETTERS)), dtype=np.int8)
    lengths = np.fromiter(map(len, words), dtype=np.int64, count=len(words))
    codes = np.frombuffer("".join(words).encode(), dtype=np.uint8) - ord("a")
    np.add.at(letters, (np.repeat(np.arange(len(words)), lengths), codes), 1)
    return English(counts, words, letters)


def _letters(word: str) -> NDArray[np.int8]:
    found = np.zeros(len(_LETTERS), dtype=np.int8)
    for letter in word:
        found[_LETTERS[letter]] += 1
    return found
