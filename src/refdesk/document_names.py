"""Which documents a question mentions, and whether it asks about the list of documents itself. Pure.

Names, titles, years and quarters become a soft preference. Whether the catalogue is asked for is learned from examples
by `benchmarks/catalogue.py --fit`: a multinomial logistic model over the question's vector and the words that such
questions are made of.

>>> asks_catalogue("Which documents mention icebergs?", vector)
'mention'
"""

from __future__ import annotations

import json
import math
import re
import threading
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.periods import EXTENSION, SEPARATORS, SPOKEN_DATE, Period, document_period, period_of, spaced
from refdesk.text import ASSETS, QUERY_STOP_WORDS, STOP_WORDS, named_lines, query_terms, strip_accents, words
from refdesk.types import Chunk, Document, Hit

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
SHORTEST_PART, SHORTEST_REST = 5, 4  # letters of a word that begins a name, and of what is behind it
MOST_LOOKED_AT = 2_000  # names in one question
INDEXES_KEPT = 8

STRETCHES = named_lines("catalogue", "stretches")


def _day_names() -> dict[str, re.Pattern[str]]:
    """What names days without a number: "today", and "this week" with its like in other languages."""
    before, behind = named_lines("catalogue", "which"), named_lines("catalogue", "which behind")
    named = named_lines("catalogue", "day names")
    for stretch in ("week", "month", "year"):
        one = f"(?:{STRETCHES[stretch]})"
        for which, own in before.items():
            named[f"{which} {stretch}"] = rf"\b(?:(?:{own}) {one}|{one}[ -](?:{behind[which]}))\b"
    return {name: re.compile(own, re.IGNORECASE) for name, own in named.items()}


DAY_NAMES = _day_names()

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
    ordered: Sequence[str]  # the words of names by the alphabet
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
        return {word for document in documents for name in _label(document.name, document.title).names for word in name}
    return _kept_index(documents).holders.keys()


def _named(index: NameIndex, asked: QuestionNames) -> dict[int, tuple[float, str]]:
    """Place of a document -> rarity of its name and the name, for names of which most stands in the question.

    One word alone counts only when it is written like a name: "Amazon", "3M", not "summary".
    """
    matched = np.zeros(len(index.names), dtype=np.float32)
    rarest = np.zeros(len(index.names), dtype=np.float32)
    for token in {*(asked.tokens & index.holders.keys()), *_begun(index, asked)}:
        places = index.holders[token]
        matched[places] += index.rarity[token]
        rarest[places] = np.maximum(rarest[places], index.rarity[token])
    found: dict[int, tuple[float, str]] = {}
    likely = np.flatnonzero((rarest >= ENOUGH) & (matched >= COVERED * index.whole - 1e-6))
    for place in likely.tolist() if len(likely) <= MOST_LOOKED_AT else []:
        shared = asked.tokens.intersection(index.names[place])  # empty where one begins the name
        if len(shared) > 1 or shared <= asked.proper:
            owner = int(index.owner[place])
            found[owner] = max((float(rarest[place]), " ".join(index.names[place])), found.get(owner, (0.0, "")))
    for alias in asked.aliases & index.aliases.keys():
        for owner in index.aliases[alias][:MOST_LOOKED_AT]:
            found[owner] = max((index.rarity[alias], alias), found.get(owner, (0.0, "")))
    return found


def _begun(index: NameIndex, asked: QuestionNames) -> Iterable[str]:
    """Names of several words in one, of which the question has the first: `activisionblizzard` for "Activision"."""
    for token in asked.proper:
        for name in islice(index.ordered, bisect_left(index.ordered, token), None):
            if not name.startswith(token):
                break
            if begins_name(token, name):
                yield name


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
    labels = [_label(document.name, document.title) for document in documents]
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
    rarity = {word: _rarity(len(places), len(documents)) for word, places in (*aliases.items(), *owners.items())}
    return NameIndex(
        documents,
        names=[name for _, name in rows],
        owner=np.array([place for place, _ in rows], dtype=np.int32),
        whole=np.array([sum(rarity[word] for word in set(name)) for _, name in rows], dtype=np.float32),
        holders={word: np.array(places, dtype=np.int32) for word, places in holders.items()},
        ordered=sorted(holders),
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
        names = (*label.names, *(title for title, count in counts.items() if count >= 2 and title not in label.names))
        found.append(label if len(names) == len(label.names) else replace(label, names=names))
    return found


@lru_cache(maxsize=65_536)  # a changed library has mostly the documents it had before
def _label(name: str, title: str) -> Label:
    names = tuple(dict.fromkeys(found for found in (_name_words(EXTENSION.sub("", name)), _name_words(title)) if found))
    return Label(names, frozenset(alias for found in names for alias in _short_forms(found)))


def short_names(document: Document) -> frozenset[str]:
    """What people shorten its name to: "JnJ" is Johnson & Johnson's."""
    return _label(document.name, document.title).aliases


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


FILE = ASSETS / "catalogue.npz"
LONGEST = 30  # words; a longer one tells a story before it asks
# The chance of all kinds together from which on a question is one: a list of documents is soon given in vain, others
# are left to the search where no document has the name. At .6 and .4 one of kgrag_10q's 195 questions got a list; of
# families held back in turn those know .76 (benchmarks/catalogue.py).
SURE, SURE_OF_NAMED = 0.7, 0.4
HALF = 0.5  # of that chance, for the kind itself: in doubt between two the documents are searched
LISTING = ("list", "mention")
GAP = 2  # small words that may stand inside a name or a topic: "Bank of the West"

_WORD = re.compile(r"[^\W_]+")
_DOTTED = re.compile(r"(?<![\w&+().-])[\w&+()-]++(?:\.[\w&+()-]++)++")
_EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}\Z")
_QUOTED = re.compile(r"[\"“”„«»]([^\"“”„«»]{2,200})[\"“”„«»]|(?<!\w)['‘‚]([^'’‘‚]{2,200})['’](?!\w)")
_BREAK = re.compile(r"[?!;:]")


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """What was learned: a row of weights per kind, and the words that stand around what is asked for."""

    kinds: tuple[str, ...]  # the first is "": not the catalogue
    places: dict[str, int]  # word -> its place among the features
    weights: NDArray[np.float32]  # (kinds, vector + words + signs + 1)
    carriers: dict[str, frozenset[str]]  # by kind


@cache
def learned() -> Learned:
    with np.load(FILE) as found:
        kinds, words = tuple(found["kinds"].tolist()), tuple(found["words"].tolist())
        carried = found["carriers"]
        carriers = {
            kind: frozenset(word for word, is_one in zip(words, row, strict=True) if is_one)
            for kind, row in zip(kinds, carried, strict=True)
        }
        places = {word: place for place, word in enumerate(words)}
        return Learned(kinds, places, found["weights"].astype(np.float32), carriers)


def asks_catalogue(text: str, vector: Any) -> str:
    """The kind of question to the catalogue, "" for every other one; the vector is the shipped embedder's."""
    if len(text.split()) > LONGEST:
        return ""
    return kind_of(text, vector, learned())


def kind_of(text: str, vector: Any, model: Learned) -> str:
    chances = likely(model.weights @ features(text, vector, model.places))
    best = int(np.argmax(chances[1:])) + 1
    kind, whole = model.kinds[best], 1.0 - chances[0]
    is_sure = whole >= (SURE if kind in LISTING else SURE_OF_NAMED)
    return kind if is_sure and chances[best] >= HALF * whole else ""


def likely(scores: NDArray[Any]) -> NDArray[Any]:
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    chances: NDArray[Any] = raised / raised.sum(axis=-1, keepdims=True)
    return chances


def features(text: str, vector: Any, places: dict[str, int]) -> NDArray[np.float32]:
    """The vector, 1 for each known word that is there, a few signs, and 1 for the constant."""
    found = tokens(text)
    present = np.zeros(len(places), dtype=np.float32)
    for word in found:
        if word in places:
            present[places[word]] = 1.0
    unknown = sum(word not in places and word not in STOP_WORDS for word in found)
    signs = (
        bool(file_names(text)),
        _QUOTED.search(text) is not None,
        any(pattern.search(text) for pattern in DAY_NAMES.values()),
        SPOKEN_DATE.search(text) is not None,
        min(unknown, 8) / 8,
        len(found) <= 8,
    )
    return np.concatenate([vector, present, np.array(signs, dtype=np.float32), np.ones(1, dtype=np.float32)])


def tokens(text: str) -> list[str]:
    return [match.group().lower() for match in _WORD.finditer(text)]


# --- what is the question about? Names, topics and words, without those that every such question is made of ---------


def file_names(text: str) -> list[str]:
    """>>> file_names("Who wrote annual_report-2021.pdf?")
    ['annual_report-2021.pdf']
    """
    found = [match.group().strip("()") for match in _DOTTED.finditer(text)]
    return [name for name in found if _EXTENSION.search(name[-6:])]


def subjects(text: str, kind: str, left_out: Sequence[tuple[int, int]] = ()) -> list[str]:
    """Stretches of the question that say what it is about, as typed; what is in quotes alone, where there is any.

    >>> subjects("Which documents mention the Bank of America?", "mention")
    ['Bank of America']
    """
    if quoted := [(match[1] or match[2]).strip() for match in _QUOTED.finditer(text)]:
        return quoted
    small = STOP_WORDS | QUERY_STOP_WORDS
    carriers = learned().carriers.get(kind, frozenset()) | small
    found: list[tuple[int, int]] = []
    gap = 0  # small words since the last stretch; more than GAP where it cannot go on
    for match in _WORD.finditer(text):
        word = match.group().lower()
        if word in carriers or any(start <= match.start() < end for start, end in left_out):
            gap += 1 if word in small else GAP + 1
            continue
        if found and gap <= GAP and not _BREAK.search(text, found[-1][1], match.start()):
            found[-1] = (found[-1][0], match.end())
        else:
            found.append(match.span())
        gap = 0
    return [text[start:end] for start, end in found]


# --- which documents does it name? ------------------------------------------------------------------------------------


def named_documents(subject: str, documents: Sequence[Document]) -> list[Document]:
    """Documents whose names or titles hold all that the stretch says; none when a word of it is in no name.

    `Amazon 10-K of 2019` leaves AMAZON_2019_10K.pdf of Amazon's filings; `Walmart 10-K` leaves none, though other
    filings are called 10-K too.
    """
    asked = [word for word in tokens(subject) if word not in QUERY_STOP_WORDS]
    labels = {document.id: _words_of(document) for document in documents}
    strong = match_names(subject, documents, long=1)
    parts, told = _parts(asked, frozenset().union(*labels.values()))
    for place, word in enumerate(asked):
        if place in told or word in GENERIC or period_of(word):
            continue
        if not match_names(word.upper(), documents, long=1).keys() & strong.keys():  # JNJ
            return []
    wanted = {key for key, words in labels.items() if key in strong or (parts and words.issuperset(parts))}
    likely = [document for document in documents if document.id in wanted]
    for part in parts:
        if not match_names(part.upper(), documents, long=1):  # files of one name lend each other their titles
            likely = [document for document in likely if part in labels[document.id]] or likely
    if period_of(subject):
        likely = [document for document in likely if _agrees(document, subject)] or likely
    return likely


def _parts(asked: Sequence[str], words: frozenset[str]) -> tuple[list[str], set[int]]:
    """Words, or up to three written together (`10-K`, `Best Buy`), that names hold, and the places they cover."""
    found: list[str] = []
    covered: set[int] = set()
    for length in (3, 2, 1):
        for start in range(len(asked) - length + 1):
            joined, places = "".join(asked[start : start + length]), set(range(start, start + length))
            if joined in words and not places & covered:
                found.append(joined)
                covered |= places
    return found, covered


def _agrees(document: Document, subject: str) -> bool:
    period, wanted = document_period(document.name, document.title, document.date), period_of(subject)
    has_year = not wanted.years or bool(period.years & wanted.years)
    return has_year and (not wanted.quarters or bool(period.quarters & wanted.quarters))


def _words_of(document: Document) -> frozenset[str]:
    found = [tokens(spaced(document.name)), tokens(document.title)]
    return frozenset(part for tokens in found for part in (*tokens, *map("".join, pairwise(tokens))))


# --- which language does it name? ------------------------------------------------------------------------------------

_FRAMES = json.loads((ASSETS / "frames.json").read_text(encoding="utf-8"))["languages"]
_NAMES_OF_LANGUAGES: dict[str, str] = _FRAMES["en"]["languages"]


def _spelled(code: str) -> str:
    """What the languages of the catalogue's own words call a language, with and without accents."""
    names = [_FRAMES[own]["languages"][code] for own in ("en", "de", "fr", "es")]
    return "|".join(dict.fromkeys(form for name in names for form in (name, strip_accents(name))))


_LANGUAGES = {  # "Englische", "anglaises", "inglesa", "italiano", "italiennes"
    code: re.compile(rf"\b(?:{_spelled(code)})(?:n?e[nrs]?|e?s|[ao]s?)?\b", re.IGNORECASE)
    for code in _NAMES_OF_LANGUAGES
}


def language_of(text: str) -> tuple[str, tuple[int, int]] | None:
    """The code of the language that a question names, and where."""
    for code, pattern in _LANGUAGES.items():
        if match := pattern.search(text):
            return code, match.span()
    return None


def language_name(code: str) -> str:
    """In English, where it is known; else the code."""
    return _NAMES_OF_LANGUAGES.get(code, code)


# --- what does a question call a document or a section by? ------------------------------------------------------------

SHORTEST_ROOT = 5  # letters of a stem that another one may go on from: "recov", "recoveri"


def called_by(question: Sequence[str], file: str) -> list[str]:
    """The words of a question that a file is called by, also where its name has them in one: of `BESTBUY_2023.pdf`
    "Best" and "Buy", of `ACTIVISIONBLIZZARD_2019.pdf` "Activision" alone too.
    """
    names = words(spaced(file))
    found: list[str] = []
    for start in range(len(question)):
        for stop in range(start + 1, min(start + LONGEST_JOIN, len(question)) + 1):
            joined = "".join(question[start:stop])
            if joined not in QUERY_STOP_WORDS and any(joined == name or begins_name(joined, name) for name in names):
                found += question[start:stop]
    return list(dict.fromkeys(found))


def begins_name(word: str, name: str) -> bool:
    """Is it the first of two words that a name has in one? "activision" of "activisionblizzard"."""
    return len(word) >= SHORTEST_PART and len(name) - len(word) >= SHORTEST_REST and name.startswith(word)


def as_called(question: str, hit: Hit) -> Chunk:
    """The chunk under what the question calls its document by, where its title does not say it: of a file
    `receipt_retail.pdf`, "Techmart" is the title, and no reader knows that its "TOTAL" is that of the retail receipt.
    """
    known = {*words(hit.chunk.context), *QUERY_STOP_WORDS}
    called = [word for word in called_by(words(question), hit.document.name) if word not in known and word.isalpha()]
    return replace(hit.chunk, context=f"{' '.join(called)} › {hit.chunk.context}") if called else hit.chunk


def is_called_after(heading: str, question: str) -> bool:
    """Is a section called after what the question asks how to do?

    >>> is_called_after("6 Recovery", "How do I recover the buoy?")
    True
    >>> is_called_after("The buoy", "How do I recover the buoy?")
    False
    """
    named = [stem for stem in query_terms(heading) if any(map(str.isalpha, stem))]  # not its number, "26.1.1"
    asked = query_terms(question)
    if not named or not asked:
        return False
    tells_what_is_done = any(_have_one_root(stem, asked[0]) for stem in named)
    return tells_what_is_done and all(any(_have_one_root(stem, other) for other in asked) for stem in named)


def _have_one_root(stem: str, other: str) -> bool:
    short, long = sorted((stem, other), key=len)
    return short == long or (len(short) >= SHORTEST_ROOT and long.startswith(short))
