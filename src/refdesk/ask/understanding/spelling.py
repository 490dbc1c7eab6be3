"""Which words of a question are misspelled, and what was meant? Word by word; a word the documents know is right.

>>> correct("How hevy is the anchr?", known=lambda words: {"anchor"} & set(words), similar=…, use_english=True).text
'How heavy is the anchor?'
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from refdesk.ask.understanding.english import CONTRACTIONS, english
from refdesk.ask.understanding.vocabulary import word_set
from refdesk.terms import QUERY_STOP_WORDS
from refdesk.text import STOP_WORDS

Known = Callable[[Sequence[str]], Collection[str]]  # of these words, those the documents hold
Similar = Callable[[str, int], Sequence[tuple[str, int]]]  # (word, distance) -> near words with their counts

SHORTEST = 4  # letters; nearly every shorter string is a word or a code
SHORTEST_NAME = 6  # "Stahl" and "Sahl" are two people
TWO_EDITS_FROM = 8  # letters; MEASUREMENTS: one edit below, two from here on
LEAST_WORDS, LEAST_CHARACTERS = 0.5, 0.6  # shares that must survive; seed 001 step 3
COMMON = 200_000  # count in the English list from which a word is common enough to be meant …
VERY_COMMON = 20_000_000  # … and by a question that begins with a capital, which may be a name
_DOCUMENT_BONUS = 6.0  # in units of ln(count): a word of the documents outweighs one e^6 times as frequent
_MANY = 50  # chunks; more make a word no likelier: "create" in every chunk does not make "creation" of "corelation"
_EDIT_COST = 9.0
_FIRST_LETTER_COST = 3.0  # the first letter is seldom the wrong one (Pollock and Zamora 1984: 8 % of typos)
_OPENING_WORDS = word_set("what which when where whose does list compare summarise summarize explain tell")
_OPENING_BONUS = 6.0
_KEYS_BESIDE = {
    "q": "wa", "w": "qeas", "e": "wrsd", "r": "etdf", "t": "ryfg", "y": "tugh", "u": "yihj", "i": "uojk", "o": "ipkl",
    "p": "ol", "a": "qwsz", "s": "awedxz", "d": "serfcx", "f": "drtgvc", "g": "ftyhbv", "h": "gyujnb", "j": "huikmn",
    "k": "jiolm", "l": "kop", "z": "asx", "x": "zsdc", "c": "xdfv", "v": "cfgb", "b": "vghn", "n": "bhjm", "m": "njk",
}  # fmt: skip
_TOKEN = re.compile(r"[^\s]+")
_CORE = re.compile(r"[A-Za-z]+(?:-[A-Za-z]+)*\Z")
_EDGES = "\"'“”‘’()[]{}<>.,;:!?…*"
_SMALL_WORDS = QUERY_STOP_WORDS | STOP_WORDS | CONTRACTIONS


@dataclass(frozen=True, slots=True)
class Correction:
    """The question as it will be searched, and each word that was changed: (typed, searched for)."""

    text: str
    changes: tuple[tuple[str, str], ...] = ()


def correct(text: str, known: Known, similar: Similar, *, use_english: bool = True) -> Correction:
    """The question with misspelled words replaced, or as it was when too little of it would survive."""
    places = list(_candidates(text))
    in_documents = known(list(dict.fromkeys(word.lower() for _, word in places))) if places else ()
    unknown = [(start, word) for start, word in places if word.lower() not in in_documents]
    use_english = use_english and bool(unknown) and _is_english(text)
    changes: list[tuple[int, str, str]] = []
    for start, word in unknown:
        lowered = word.lower()
        if use_english and lowered in english().counts:
            continue
        least_count = _least_count(start, word, text) if use_english else 0
        if meant := best(lowered, similar, least_count, opens=not text[:start].strip(_EDGES + " ")):
            changes.append((start, word, _in_case_of(word, meant)))
    if not changes:
        return Correction(text)
    corrected = text
    for start, word, meant in reversed(changes):
        corrected = corrected[:start] + meant + corrected[start + len(word) :]
    if not _survives(text, corrected):
        return Correction(text)
    return Correction(corrected, tuple(dict.fromkeys((word, meant) for _, word, meant in changes)))


def _is_english(text: str) -> bool:
    """Whether most words are English: a French question to English documents is not made English word by word."""
    tokens = re.findall(r"[^\W\d_]{2,}", text.lower())
    strange = [token for token in tokens if token not in _SMALL_WORDS and token not in english().counts]
    return len(strange) <= max(1, len(tokens) // 2) and (text.isascii() or len(strange) <= 1)


def _candidates(text: str) -> Iterable[tuple[int, str]]:
    """Where words begin that may be misspelled: letters alone, no codes, no names in capitals, no small words."""
    for token in _TOKEN.finditer(text):
        core = token.group().lstrip(_EDGES)
        start = token.end() - len(core)
        core = core.rstrip(_EDGES)
        core = core[:-2] if core.endswith(("'s", "’s")) else core
        if not _CORE.match(core):
            continue
        for part in re.finditer(r"[A-Za-z]+", core):
            word = part.group()
            has_inner_capital = not (word[1:].islower() if len(word) > 1 else True)
            is_name = word[0].isupper() and bool(text[: start + part.start()].strip(_EDGES + " "))
            shortest = SHORTEST_NAME if is_name else SHORTEST
            if len(word) >= shortest and not has_inner_capital and word.lower() not in _SMALL_WORDS:
                yield start + part.start(), word


def _least_count(start: int, word: str, text: str) -> int:
    """How common an English word must be to stand in for this one; 0: no English word may.

    A capital within the question is a name, and the English list knows none.
    """
    if word.islower():
        return COMMON
    return 0 if text[:start].strip(_EDGES + " ") else VERY_COMMON


def best(word: str, similar: Similar, least_count: int = 0, *, opens: bool = False) -> str:
    """The word that was most likely meant, "" when none is near: words of the documents first, then English ones.

    A word that `opens` the question is likely a question word: "wich" is "which", not "with".
    """
    allowed = 2 if len(word) >= TWO_EDITS_FROM else 1
    scored: dict[str, float] = {}
    for near, count in similar(word, allowed):
        if near.isalpha() and len(near) >= SHORTEST - 1 and _begins_alike(word, near, may_slip=True):
            _weigh(scored, word, near, math.log(1 + min(count, _MANY)) + _DOCUMENT_BONUS, allowed)
    if least_count:
        for near, count in english().near(word, allowed):
            if count >= least_count and _begins_alike(word, near, may_slip=False):
                _weigh(scored, word, near, math.log(count / COMMON), allowed)
    if opens:
        scored = {near: cost - _OPENING_BONUS * (near in _OPENING_WORDS) for near, cost in scored.items()}
    return min(scored, key=lambda near: (scored[near], near)) if scored else ""


def _weigh(scored: dict[str, float], word: str, near: str, weight: float, allowed: int) -> None:
    edits = edit_distance(word, near, allowed)
    if 0 < edits <= allowed:
        cost = edits * _EDIT_COST + _FIRST_LETTER_COST * (near[0] != word[0]) - weight
        scored[near] = min(cost, scored.get(near, cost))


def _begins_alike(word: str, near: str, *, may_slip: bool) -> bool:
    """The first letter is the same, or swapped with the second; or a finger slipped: added, or the key beside it.

    So "numpy" is not "bumpy" where no document says "bumpy", "laytime" is no "daytime" and "pgvector" no "vector".
    """
    if near[0] == word[0] or near[:2] == word[1::-1]:
        return True
    is_long = len(word) >= TWO_EDITS_FROM and word[1:] == near[1:]
    slipped = word[1:] == near or near[1:] == word or near[0] in _KEYS_BESIDE.get(word[0], "")
    return may_slip and (is_long or slipped)


def edit_distance(one: str, other: str, most: int) -> int:
    """Letters added, dropped, replaced, or swapped with the next; `most + 1` for anything beyond `most`.

    >>> edit_distance("recieve", "receive", 2)
    1
    """
    if abs(len(one) - len(other)) > most:
        return most + 1
    if one == other:
        return 0
    before: list[int] = []
    last = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        row = [i]
        for j, against in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
        before, last = last, row
    return min(last[-1], most + 1)


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
