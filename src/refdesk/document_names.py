"""Which documents does a question name? Names, titles, years and quarters become a soft preference. Pure."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from refdesk.terms import EXTENSION, QUERY_STOP_WORDS, SEPARATORS, Period, document_period, period_of, words
from refdesk.types import Document

# Chunks from which on a document is found better for being named. A short one is named by each of its chunks, which
# carry its title; preferring it took .02 nDCG from hotpot500, whose documents are one chunk each.
LONG = 20
OTHER_PERIOD = 0.4  # of the strength remains when the period does not agree at all
COVERED = 0.6  # share of a name, by weight, that must stand in the question
ENOUGH = 0.3  # strength below which a document is not preferred
OLDER, OLDER_TOO = 0.6, 0.8  # when the question asks for the latest, and for the latest beside earlier ones
# Share of the best strength that a document of the same name needs beside it. Reports of other years share the room
# of the one that was asked for: .5 found the page of .65 of financebench's questions, .7 and .8 that of .69.
NEAR = 0.75
MOST_PREFERRED = 200  # more documents than this are not named, they are the subject of the library
MOST_DOCUMENTS = 200_000  # beyond it the index of names costs seconds after every change
LONGEST_JOIN = 3  # "Best Buy" is BESTBUY, "Johnson & Johnson Inc" is not looked for in four words
MOST_LOOKED_AT = 2_000  # names in one question
INDEXES_KEPT = 8

# Words of names that tell no document from another.
_GENERIC_WORDS = """
    inc corp corporation company companies co com ltd limited llc llp plc gmbh ag sa se nv bv group holding holdings
    international form report reports annual quarterly quarter filing filings document documents file copy final draft
    version scan page pages untitled new the and for pdf docx doc txt html earnings fy dated
"""
GENERIC = frozenset(_GENERIC_WORDS.split())
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TOKEN = re.compile(r"[^\W_]+(?:&[^\W_]+)?")
_LATEST = re.compile(
    r"\b(?:latest|newest|most (?:recent|current)|current (?:report|quarter|filing|year))\b", re.IGNORECASE
)
_BEFORE = re.compile(r"\b(?:previous|prior|preceding|earlier|past|over time|across)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Label:
    """What a document is called: the words of its name and of its title, and short forms of both."""

    names: tuple[tuple[str, ...], ...]
    aliases: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class NameIndex:
    """Every name of every document in a row, and in which of them each word stands.

    A document has one name or more; `owner` is the document's place, `whole` the weight of all words of the name.
    """

    documents: Sequence[Document]
    names: Sequence[tuple[str, ...]]
    owner: NDArray[np.int32]
    whole: NDArray[np.float32]
    holders: Mapping[str, NDArray[np.int32]]  # word -> places in `names`
    rarity: Mapping[str, float]  # of words and aliases: 1 in one document's name, 0 in every one's
    aliases: Mapping[str, Sequence[int]]  # short form -> places in `documents`


@dataclass(frozen=True, slots=True)
class QuestionNames:
    """The question as far as it may name documents."""

    tokens: frozenset[str]  # words, and up to three neighbours joined
    proper: frozenset[str]  # those written like a name
    aliases: frozenset[str]  # those written like a short form: JnJ, IBM
    period: Period
    older: float  # share of its strength that an older document keeps: "in the most recent report"


def match_names(question: str, documents: Sequence[Document], long: int = LONG) -> dict[str, float]:
    """Document id -> strength from 0 to 1, the strongest first; empty when the question names none.

    >>> match_names("3M's 2018 10-K: what was capital spending?", documents)
    {'b71f…': 1.0, '09aa…': 0.52}
    """
    if len(documents) < 2 or len(documents) > MOST_DOCUMENTS:
        return {}
    index = _kept_index(documents)
    asked = _asked(question)
    groups: dict[str, dict[int, float]] = {}  # documents that are named by the same name
    for place, (rarity, name) in _named(index, asked).items():
        groups.setdefault(name, {})[place] = _strength(index, place, rarity, asked, long)
    scored: dict[int, float] = {}
    for group in groups.values():
        strengths = _newest_first(index, group, asked.older)
        floor = max(ENOUGH, NEAR * max(strengths.values()))
        scored |= {place: strength for place, strength in strengths.items() if strength >= floor}
    if len(scored) > MOST_PREFERRED or len(scored) == len(documents):
        return {}
    return {documents[place].id: round(scored[place], 4) for place in sorted(scored, key=lambda p: (-scored[p], p))}


def name_words(documents: Sequence[Document]) -> Collection[str]:
    """The words that these documents are called by, those that every name has left out."""
    if len(documents) > MOST_DOCUMENTS:
        return ()
    if len(documents) < 2:
        return {word for one in documents for name in _label(one.name, one.title).names for word in name}
    return _kept_index(documents).holders.keys()


def _named(index: NameIndex, asked: QuestionNames) -> dict[int, tuple[float, str]]:
    """Place of a document -> rarity of its name and the name, for names of which most stands in the question.

    One word alone counts only when it is written like a name: "Amazon", "3M", not "summary".
    """
    matched = np.zeros(len(index.names), dtype=np.float32)
    rarest = np.zeros(len(index.names), dtype=np.float32)
    for token in asked.tokens & index.holders.keys():
        places = index.holders[token]
        matched[places] += index.rarity[token]
        rarest[places] = np.maximum(rarest[places], index.rarity[token])
    found: dict[int, tuple[float, str]] = {}
    likely = np.flatnonzero((rarest >= ENOUGH) & (matched >= COVERED * index.whole - 1e-6))
    for place in likely.tolist() if len(likely) <= MOST_LOOKED_AT else []:
        held = asked.tokens.intersection(index.names[place])
        if len(held) > 1 or held <= asked.proper:
            owner = int(index.owner[place])
            found[owner] = max((float(rarest[place]), " ".join(index.names[place])), found.get(owner, (0.0, "")))
    for alias in asked.aliases & index.aliases.keys():
        for owner in index.aliases[alias][:MOST_LOOKED_AT]:
            found[owner] = max((index.rarity[alias], alias), found.get(owner, (0.0, "")))
    return found


def _strength(index: NameIndex, place: int, rarity: float, asked: QuestionNames, long: int) -> float:
    """How rare the name is that the question holds, lowered for short documents and those of another period."""
    strength = rarity * min(1.0, index.documents[place].chunk_count / long)
    if not asked.period:
        return strength
    return strength * (OTHER_PERIOD + (1.0 - OTHER_PERIOD) * _period(index.documents[place]).agreement(asked.period))


def _newest_first(index: NameIndex, group: Mapping[int, float], older: float) -> dict[int, float]:
    """Of the documents of one name all but the newest are lowered to this share."""
    if older == 1.0:
        return dict(group)
    recency = {place: _recency(index.documents[place]) for place in group}
    newest = max(recency.values())
    return {place: strength * (1.0 if recency[place] == newest else older) for place, strength in group.items()}


# --- the question ----------------------------------------------------------------------------------------------------


def _asked(question: str) -> QuestionNames:
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
    period, older = period_of(question), 1.0
    if _LATEST.search(question) and not period.years:
        older = OLDER_TOO if _BEFORE.search(question) else OLDER
    return QuestionNames(frozenset(tokens), frozenset(proper), frozenset(aliases), period, older)


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
    labels = [_label(one.name, one.title) for one in documents]
    labels = _with_siblings(labels)
    rows = [(place, name) for place, label in enumerate(labels) for name in label.names]
    holders: dict[str, list[int]] = {}
    owners: dict[str, set[int]] = {}
    aliases: dict[str, list[int]] = {}
    for row, (place, name) in enumerate(rows):
        for word in set(name):
            holders.setdefault(word, []).append(row)
            owners.setdefault(word, set()).add(place)
    for place, label in enumerate(labels):
        for alias in label.aliases:
            aliases.setdefault(alias, []).append(place)
    rarity = {word: _rarity(len(own), len(documents)) for word, own in (*aliases.items(), *owners.items())}
    return NameIndex(
        documents,
        names=[name for _, name in rows],
        owner=np.array([place for place, _ in rows], dtype=np.int32),
        whole=np.array([sum(rarity[word] for word in set(name)) for _, name in rows], dtype=np.float32),
        holders={word: np.array(own, dtype=np.int32) for word, own in holders.items()},
        rarity=rarity,
        aliases=aliases,
    )


def _rarity(holding: int, total: int) -> float:
    """1 for a word in one document's name, 0 for one in every name.

    The square root lifts names that many documents share ("Boeing" in 40 of 400 filings) above the floor.
    """
    return math.sqrt(math.log(total / holding) / math.log(total))


def _with_siblings(labels: Sequence[Label]) -> list[Label]:
    """Files of one name lend each other their titles: `2023 Q1 INTC` is Intel's, because `2023 Q2 INTC` says so."""
    lent: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
    for label in labels:
        for title in label.names[1:]:
            counts = lent.setdefault(label.names[0], {})
            counts[title] = counts.get(title, 0) + 1
    found = []
    for label in labels:
        counts = lent.get(label.names[0], {}) if label.names else {}
        own = (*label.names, *(title for title, count in counts.items() if count >= 2 and title not in label.names))
        found.append(label if len(own) == len(label.names) else replace(label, names=own))
    return found


@lru_cache(maxsize=65_536)  # a changed library has mostly the documents it had before
def _label(name: str, title: str) -> Label:
    names = tuple(dict.fromkeys(found for found in (_name_words(EXTENSION.sub("", name)), _name_words(title)) if found))
    return Label(names, frozenset(alias for found in names for alias in _short_forms(found)))


def _period(document: Document) -> Period:
    """Of the name; where it tells none, of the title, the subject, and last the date of the file."""
    return document_period(document.name, document.title, document.metadata.get("subject", ""), document.date)


def _recency(document: Document) -> tuple[int, int, str]:
    """Year, quarter, date: what is newer is greater."""
    period = _period(document)
    return max(period.years, default=0), max(period.quarters, default=0), document.date


def _name_words(text: str) -> tuple[str, ...]:
    """`ActivisionBlizzard_2019_10K` -> ('activision', 'blizzard'): without years, forms and words all names have."""
    spaced = _CAMEL.sub(" ", SEPARATORS.sub(" ", text))
    found = [word for word in words(spaced) if word not in GENERIC and word not in QUERY_STOP_WORDS]
    return tuple(word for word in found if not _is_period(word) and len(word) > 1)


@lru_cache(maxsize=4096)
def _is_period(word: str) -> bool:
    return word.isdigit() or bool(period_of(word))


def _short_forms(name: Sequence[str]) -> Iterable[str]:
    """`('johnson', 'johnson')` -> 'jj' and 'jnj'."""
    if 2 <= len(name) <= 5:
        yield "".join(word[0] for word in name)
        yield "n".join(word[0] for word in name)
