"""Which words of a question are misspelled, and what was meant? Word by word; a word that is known is right.

Known is what the documents hold, and what stands in the word list of one of their languages. For any other word, every
near word is a possible meaning, and so is the word itself, which may be a name or a rare word: a learned choice between
all of them (assets/spelling.json, made by scripts/fit_spelling.py) says which is the most likely.

>>> correct("How hevy is the anchr?", known=lambda words: {"anchor"} & set(words), similar=…, languages=("en",)).text
'How heavy is the anchor?'
"""

from __future__ import annotations

import difflib
import gzip
import importlib.util
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from refdesk.terms import QUERY_STOP_WORDS
from refdesk.text import STOP_WORDS, word_set

# Which words does a language have, how common are they, and which lie near a misspelled one?

_LETTERS = 26
# What pyspellchecker's list lacks, British spellings ("harbour") above all: words of symspellpy's list (MIT).
MORE_ENGLISH = Path(__file__).parent.parent / "assets" / "english_words.txt"


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
    for word in MORE_ENGLISH.read_text(encoding="utf-8").split() if language == "en" else ():
        counts.setdefault(word, 1)
    total = sum(counts.values())
    lengths: dict[int, list[str]] = {}
    for word in counts:
        if word.isascii() and word.isalpha() and word.islower():
            lengths.setdefault(len(word), []).append(word)
    by_length = {length: (tuple(words), _letter_counts(words)) for length, words in lengths.items()}
    return WordList({word: 1e9 * count / total for word, count in counts.items()}, by_length)


def _letter_counts(words: tuple[str, ...] | list[str]) -> NDArray[np.int8]:
    """How often each letter stands in each of these words of one length."""
    letters = np.zeros((len(words), _LETTERS), dtype=np.int8)
    codes = np.frombuffer("".join(words).encode(), dtype=np.uint8).astype(np.intp) - ord("a")
    np.add.at(letters, (np.repeat(np.arange(len(words)), len(words[0])), codes), 1)
    return letters


Known = Callable[[Sequence[str]], Collection[str]]  # of these words, those the documents hold
Similar = Callable[[str, int], Sequence[tuple[str, int]]]  # (word, distance) -> near words with their counts

WEIGHTS_FILE = Path(__file__).parent.parent / "assets" / "spelling.json"
SHORTEST = 3  # letters
TWO_EDITS_FROM = 8  # letters; MEASUREMENTS: one edit below, two from here on
LEAST_WORDS, LEAST_CHARACTERS = 0.5, 0.6  # shares that must survive; seed 001 step 3
_OFTEN = 50.0  # in a thousand chunks; more make a word no likelier: "create" does not make "creation" of "corelation"
_VOWELS = frozenset("aeiouy")
_KEYS_BESIDE = {
    "q": "wa", "w": "qeas", "e": "wrsd", "r": "etdf", "t": "ryfg", "y": "tugh", "u": "yihj", "i": "uojk", "o": "ipkl",
    "p": "ol", "a": "qwsz", "s": "awedxz", "d": "serfcx", "f": "drtgvc", "g": "ftyhbv", "h": "gyujnb", "j": "huikmn",
    "k": "jiolm", "l": "kop", "z": "asx", "x": "zsdc", "c": "xdfv", "v": "cfgb", "b": "vghn", "n": "bhjm", "m": "njk",
}  # fmt: skip
_TOKEN = re.compile(r"[^\s]+")
_CORE = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+)*\Z")
_EDGES = "\"'“”‘’()[]{}<>.,;:!?…*"
_SMALL_WORDS = QUERY_STOP_WORDS | STOP_WORDS | word_set("words", "contractions")
# Of an edit, what was done; of a near word, whether and how often it is written in the documents and in its language.
FEATURES = (
    "any", "swapped", "key_beside", "vowel", "other_letter", "single_for_double", "left_out", "double_for_single",
    "put_in", "first_letter", "last_letter", "two_edits", "in_documents", "documents", "in_language", "language",
    "length", "name",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Correction:
    """The question as it will be searched, and each word that was changed: (typed, searched for)."""

    text: str
    changes: tuple[tuple[str, str], ...] = ()


def correct(
    text: str, known: Known, similar: Similar, languages: Sequence[str] = ("en",), chunks: int = 1000
) -> Correction:
    """The question with misspelled words replaced, or as it was when too little of it would survive.

    `similar` counts in how many of all `chunks` a word stands.
    """
    places = list(candidates(text))
    in_documents = known(list(dict.fromkeys(word.lower() for _, word in places))) if places else ()
    unknown = [(start, word) for start, word in places if word.lower() not in in_documents]
    if not unknown:
        return Correction(text)
    lists = {language: found for language in languages if (found := word_list(language)) is not None}
    own = _asked_in(text, lists)
    if lists and own is None:
        return Correction(text)  # in a language that the documents are not in: none of their words is meant
    changes: list[tuple[int, str, str]] = []
    for start, word in unknown:
        lowered = word.lower()
        if any(lowered in one for one in lists.values()):
            continue
        is_name = word[0].isupper() and bool(text[:start].strip(_EDGES + " "))
        if meant := best(lowered, meanings(lowered, similar, own, chunks), is_name=is_name):
            changes.append((start, word, _in_case_of(word, meant)))
    if not changes:
        return Correction(text)
    corrected = text
    for start, word, meant in reversed(changes):
        corrected = corrected[:start] + meant + corrected[start + len(word) :]
    if not _survives(text, corrected):
        return Correction(text)
    return Correction(corrected, tuple(dict.fromkeys((word, meant) for _, word, meant in changes)))


def _asked_in(text: str, lists: Mapping[str, WordList]) -> WordList | None:
    """The list of the language that most words of a question are of; a French question is not made English."""
    tokens = re.findall(r"[^\W\d_]{2,}", text.lower())
    # Words that are hardly ever written say nothing: "est" and "bon" stand in English lists too.
    counts = {
        language: sum(words.frequencies.get(token, 0.0) > 1.0 for token in tokens) for language, words in lists.items()
    }
    most = max(counts, key=lambda language: counts[language], default="")
    # Half of the words, or all but one: a short question may be one typo and little else.
    is_sure = bool(most) and counts[most] >= min(len(tokens) / 2, len(tokens) - 1)
    return lists[most] if is_sure else None


def candidates(text: str) -> Iterable[tuple[int, str]]:
    """Where words begin that may be misspelled: letters alone, no codes, nothing in capitals, no small words."""
    for token in _TOKEN.finditer(text):
        core = token.group().lstrip(_EDGES)
        start = token.end() - len(core)
        core = core.rstrip(_EDGES)
        core = core[:-2] if core.endswith(("'s", "’s")) else core
        if not _CORE.match(core):
            continue
        for part in re.finditer(r"[A-Za-z]+", core):
            word = part.group()
            has_inner_capital = not word[1:].islower()
            if len(word) >= SHORTEST and not has_inner_capital and word.lower() not in _SMALL_WORDS:
                yield start + part.start(), word


def meanings(word: str, similar: Similar, language: WordList | None, chunks: int) -> dict[str, tuple[float, float]]:
    """Near words, with in how many of a thousand chunks and how often in a billion words each is written."""
    allowed = 2 if len(word) >= TWO_EDITS_FROM else 1
    found = {near: (1000.0 * count / max(1, chunks), 0.0) for near, count in similar(word, allowed)}
    for near, frequency in language.near(word, allowed) if language is not None else ():
        found[near] = (found.get(near, (0.0, 0.0))[0], frequency)
    likely = [near for near in found if len(near) >= SHORTEST and near.isalpha()]
    distances = edit_distances(word, likely)
    return {near: found[near] for near, edits in zip(likely, distances, strict=True) if 0 < edits <= allowed}


def best(word: str, near: Mapping[str, tuple[float, float]], *, is_name: bool) -> str:
    """The word that was most likely meant; "" when none is likelier than all others and the word itself together."""
    weights = _weights()
    scores = {
        one: sum(weights[name] * value for name, value in features(word, one, *counts, is_name=is_name).items())
        for one, counts in near.items()
    }
    if not scores:
        return ""
    total = 1.0 + sum(math.exp(min(score, 50.0)) for score in scores.values())  # 1: the word itself
    meant = min(scores, key=lambda one: (-scores[one], one))
    return meant if math.exp(min(scores[meant], 50.0)) > 0.5 * total else ""


def features(word: str, near: str, documents: float, language: float, *, is_name: bool) -> dict[str, float]:
    """What speaks for it that `near` was meant by `word`; those of `FEATURES` that are not 0."""
    edits = list(_edits(word, near))
    found: dict[str, float] = {"any": 1.0, "length": min(len(word), 12) / 10}
    for what, place in edits:
        found[what] = found.get(what, 0.0) + 1.0
        if place == 0:
            found["first_letter"] = 1.0
        if place >= len(word) - 1:
            found["last_letter"] = 1.0
    if len(edits) > 1:
        found["two_edits"] = 1.0
    if documents:
        found |= {"in_documents": 1.0, "documents": math.log1p(min(documents, _OFTEN))}
    if language:
        found |= {"in_language": 1.0, "language": math.log1p(language) / 10}
    if is_name:
        found["name"] = 1.0
    return found


@cache
def _weights() -> Mapping[str, float]:
    weights: Mapping[str, float] = json.loads(WEIGHTS_FILE.read_text(encoding="utf-8"))["weights"]
    return weights


# --- edits -----------------------------------------------------------------------------------------------------------


def edit_distances(word: str, others: Sequence[str]) -> list[int]:
    """Letters added, dropped, replaced, or swapped with the next, to each of the others; all in one pass.

    >>> edit_distances("recieve", ["receive", "relieve"])
    [1, 1]
    """
    if not others:
        return []
    lengths = [len(one) for one in others]
    width = max(lengths)
    padded = "".join(one.ljust(width, "\0") for one in others).encode("utf-32-le")
    letters = np.frombuffer(padded, dtype=np.uint32).reshape(len(others), width)
    columns = np.arange(width + 1, dtype=np.int32)
    before, last = columns, np.tile(columns, (len(others), 1))
    for row, letter in enumerate(map(ord, word), 1):
        cost = np.empty_like(last)
        cost[:, 0] = row
        cost[:, 1:] = np.minimum(last[:, 1:] + 1, last[:, :-1] + (letters != letter))
        if row > 1:
            is_swapped = (letters[:, :-1] == letter) & (letters[:, 1:] == ord(word[row - 2]))
            cost[:, 2:] = np.where(is_swapped, np.minimum(cost[:, 2:], before[:, :-2] + 1), cost[:, 2:])
        # A letter put in costs one more than the column before, however many of them there are.
        before, last = last, np.minimum.accumulate(cost - columns, axis=1) + columns
    return [int(row[length]) for row, length in zip(last, lengths, strict=True)]


def _edits(word: str, near: str) -> Iterator[tuple[str, int]]:
    """(what was done, at which letter of the word) from what was meant to what was typed, the last edit first."""
    rows = [list(range(len(near) + 1))]
    for i, letter in enumerate(word, 1):
        row = [i]
        for j, meant in enumerate(near, 1):
            cost = min(rows[-1][j] + 1, row[j - 1] + 1, rows[-1][j - 1] + (letter != meant))
            row.append(min(cost, rows[i - 2][j - 2] + 1) if _is_swapped(word, near, i, j) else cost)
        rows.append(row)
    i, j = len(word), len(near)
    while i or j:
        cost = rows[i][j]
        if i and j and word[i - 1] == near[j - 1] and cost == rows[i - 1][j - 1]:
            i, j = i - 1, j - 1
        elif _is_swapped(word, near, i, j) and cost == rows[i - 2][j - 2] + 1:
            i, j = i - 2, j - 2
            yield "swapped", i
        elif i and j and cost == rows[i - 1][j - 1] + 1:
            i, j = i - 1, j - 1
            yield _replacement(word[i], near[j]), i
        elif j and cost == rows[i][j - 1] + 1:
            j -= 1
            yield ("single_for_double" if near[j] in _beside(near, j) else "left_out"), i
        else:
            i -= 1
            yield ("double_for_single" if word[i] in _beside(word, i) else "put_in"), i


def _is_swapped(word: str, near: str, i: int, j: int) -> bool:
    return i > 1 and j > 1 and word[i - 1] == near[j - 2] and word[i - 2] == near[j - 1]


def _beside(word: str, place: int) -> str:
    return word[max(0, place - 1) : place] + word[place + 1 : place + 2]


def _replacement(typed: str, meant: str) -> str:
    if meant in _KEYS_BESIDE.get(typed, ""):
        return "key_beside"
    return "vowel" if typed in _VOWELS and meant in _VOWELS else "other_letter"


def _in_case_of(typed: str, meant: str) -> str:
    return meant[0].upper() + meant[1:] if typed[0].isupper() else meant


def _survives(typed: str, corrected: str) -> bool:
    """Whether enough of the question is left as it was typed; seed 001 step 3."""
    before, after = typed.lower().split(), corrected.lower().split()
    kept = len([word for word in before if word in after]) / max(1, len(before))
    if len(before) == 1:  # a single word is changed or not; its letters decide
        kept = 1.0
    alike = difflib.SequenceMatcher(None, typed.lower(), corrected.lower(), autojunk=False).ratio()
    return kept >= LEAST_WORDS and alike >= LEAST_CHARACTERS
