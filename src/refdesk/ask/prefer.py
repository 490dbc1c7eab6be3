"""Which documents does the question name? Names, titles, years, quarters and forms become a soft preference. Pure.

    "What was 3M's capital spending in FY2018?"  prefers  3M_2018_10K.pdf

A document is preferred by strong evidence only: most of its name stands in the question, and that name is not the name
of every document. A period the question speaks of raises the document of that period above its siblings.
"""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from refdesk.ask.period import Period, period_of
from refdesk.terms import QUERY_STOP_WORDS, words
from refdesk.types import Document

COVERED = 0.6  # share of a name, by weight, that must stand in the question
ENOUGH = 0.3  # strength below which a document is not preferred
NEAR = 0.5  # share of the best strength that a document needs beside it
MOST_PREFERRED = 200  # more documents than this are not named, they are the subject of the library
MOST_DOCUMENTS = 200_000  # beyond it the index of names costs seconds after every change
LONGEST_JOIN = 3  # "Best Buy" is BESTBUY, "Johnson & Johnson Inc" is not looked for in four words
INDEXES_KEPT = 8

# Words of names that tell no document from another.
_GENERIC_WORDS = """
    inc corp corporation company companies co com ltd limited llc llp plc gmbh ag sa se nv bv group holding holdings
    international form report reports annual quarterly filing filings document documents file copy final draft version
    scan page pages untitled new the and for pdf docx doc txt html earnings fy dated
"""
_GENERIC = frozenset(_GENERIC_WORDS.split())
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[_\-–—.,;:/\\()\[\]{}+\s]+")
_TOKEN = re.compile(r"[^\W_]+(?:&[^\W_]+)?")
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}\Z")


@dataclass(frozen=True, slots=True)
class Label:
    """What a document is called: the words of its name and of its title, short forms of both, its period."""

    names: tuple[tuple[str, ...], ...]
    aliases: frozenset[str]
    period: Period


@dataclass(frozen=True, slots=True)
class NameIndex:
    """The labels of a library's documents, and in which of them each word stands."""

    documents: Sequence[Document]
    labels: Sequence[Label]
    holders: Mapping[str, Sequence[int]]  # word or alias -> places in `documents`


@dataclass(frozen=True, slots=True)
class Asked:
    """The question as far as it may name documents."""

    tokens: frozenset[str]  # words, and up to three neighbours joined
    proper: frozenset[str]  # those written like a name
    aliases: frozenset[str]  # those written like a short form: JnJ, IBM
    period: Period


def prefer(question: str, documents: Sequence[Document]) -> dict[str, float]:
    """Document id -> strength from 0 to 1, the strongest first; empty when the question names none.

    >>> prefer("3M's 2018 10-K: what was capital spending?", documents)
    {'b71f…': 1.0, '09aa…': 0.52}
    """
    if len(documents) < 2 or len(documents) > MOST_DOCUMENTS:
        return {}
    index = _kept_index(documents)
    asked = _asked(question)
    places = {place for token in asked.tokens for place in index.holders.get(token, ())}
    scored = {place: _strength(index, place, asked) for place in places}
    best = max(scored.values(), default=0.0)
    floor = max(ENOUGH, best * NEAR)
    named = sorted((place for place, strength in scored.items() if strength >= floor), key=lambda p: (-scored[p], p))
    if len(named) > MOST_PREFERRED or len(named) == len(documents):
        return {}
    return {documents[place].id: round(scored[place], 4) for place in named}


def _strength(index: NameIndex, place: int, asked: Asked) -> float:
    """How rare the name is that the question holds, lowered when the question speaks of another period."""
    label = index.labels[place]
    rarity = max((_covered(index, name, asked) for name in label.names), default=0.0)
    for alias in label.aliases & asked.aliases:
        rarity = max(rarity, _rarity(index, alias))
    if not rarity or not asked.period:
        return rarity
    return rarity * (0.4 + 0.6 * label.period.agreement(asked.period))


def _covered(index: NameIndex, name: Sequence[str], asked: Asked) -> float:
    """The rarity of a name when most of it stands in the question, else 0.

    One word alone counts only when it is written like a name: "Amazon", "3M", not "summary".
    """
    weights = {word: _rarity(index, word) for word in name}
    matched = [word for word in weights if word in asked.tokens]
    whole = sum(weights.values())
    if not matched or not whole or sum(weights[word] for word in matched) < COVERED * whole:
        return 0.0
    if len(matched) == 1 and matched[0] not in asked.proper:
        return 0.0
    return max(weights[word] for word in matched)


def _rarity(index: NameIndex, word: str) -> float:
    """1 for a word in one document's name, 0 for one in every name.

    The square root lifts names that many documents share ("Boeing" in 40 of 400 filings) above the floor.
    """
    total, holding = len(index.documents), len(index.holders.get(word, ()))
    return math.sqrt(math.log(total / holding) / math.log(total)) if holding else 0.0


# --- the question ----------------------------------------------------------------------------------------------------


def _asked(question: str) -> Asked:
    found = [match.group() for match in _TOKEN.finditer(re.sub(r"['’]s\b", "", question))]
    lowered = [word.lower() for word in found]
    shouted_or_small = question.islower() or question.isupper()  # then capitals say nothing
    tokens: set[str] = set()
    proper: set[str] = set()
    for start, word in enumerate(lowered):
        for stop in range(start + 1, min(start + LONGEST_JOIN, len(found)) + 1):
            joined = "".join(lowered[start:stop])
            tokens.add(joined)
            if stop > start + 1 or (shouted_or_small and word not in QUERY_STOP_WORDS) or _is_proper(found, start):
                proper.add(joined)
    aliases = {word.lower() for word in found if sum(letter.isupper() for letter in word) >= 2}
    return Asked(frozenset(tokens), frozenset(proper), frozenset(aliases), period_of(question))


def _is_proper(found: Sequence[str], place: int) -> bool:
    """Capitals inside a sentence, or a digit among letters; the first word is capital anyway."""
    word = found[place]
    if any(letter.isdigit() for letter in word):
        return not word.isdigit()
    return (word[0].isupper() and (place > 0 or word.lower() not in QUERY_STOP_WORDS)) or word[1:] != word[1:].lower()


# --- the documents ---------------------------------------------------------------------------------------------------

_indexes: dict[int, NameIndex] = {}  # by the identity of the documents, which the library keeps for one generation
_lock = threading.Lock()


def _kept_index(documents: Sequence[Document]) -> NameIndex:
    """The index of these very documents; holding them keeps their identity from being used again."""
    with _lock:
        index = _indexes.get(id(documents))
        if index is None or index.documents is not documents:
            index = name_index(documents)
            while len(_indexes) >= INDEXES_KEPT:
                _indexes.pop(next(iter(_indexes)))
            _indexes[id(documents)] = index
        return index


def name_index(documents: Sequence[Document]) -> NameIndex:
    labels = [_label(one.name, one.title, one.metadata.get("subject", ""), one.date) for one in documents]
    holders: dict[str, list[int]] = {}
    for place, label in enumerate(labels):
        for word in {word for name in label.names for word in name} | label.aliases:
            holders.setdefault(word, []).append(place)
    return NameIndex(documents, labels, holders)


@lru_cache(maxsize=65_536)  # a changed library has mostly the documents it had before
def _label(name: str, title: str, subject: str, date: str) -> Label:
    stem = _EXTENSION.sub("", name)
    period = period_of(_SEPARATORS.sub(" ", stem)) or period_of(title) or period_of(subject) or period_of(date)
    names = tuple(dict.fromkeys(found for found in (_name_words(stem), _name_words(title)) if found))
    aliases = frozenset(alias for found in names for alias in _short_forms(found))
    return Label(names, aliases, period)


def _name_words(text: str) -> tuple[str, ...]:
    """`ActivisionBlizzard_2019_10K` -> ('activision', 'blizzard'): without years, forms and words all names have."""
    spaced = _CAMEL.sub(" ", _SEPARATORS.sub(" ", text))
    found = [word for word in words(spaced) if word not in _GENERIC and word not in QUERY_STOP_WORDS]
    return tuple(word for word in found if not _is_period(word) and len(word) > 1)


@lru_cache(maxsize=4096)
def _is_period(word: str) -> bool:
    return word.isdigit() or bool(period_of(word))


def _short_forms(name: Sequence[str]) -> Iterable[str]:
    """`('johnson', 'johnson')` -> 'jj' and 'jnj'."""
    if 2 <= len(name) <= 5:
        yield "".join(word[0] for word in name)
        yield "n".join(word[0] for word in name)
