"""The entities that chunks mention, and which occur together: keys of names, acronyms, names by sentence.

What a model found is kept beside what rules find (`Extraction`), with the sentences of the chunk that say so.

A name is met under one key however it is written, and an acronym under its long form where a text says so:

>>> entity_key("The Harbour Board’s"), entity_key("harbour board")
('harbour board', 'harbour board')
>>> acronyms("The World Meteorological Organization (WMO) met.")
[('WMO', 'World Meteorological Organization')]
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Protocol

from refdesk.periods import period_of
from refdesk.text import strip_accents, words
from refdesk.types import Chunk, Document, Scope

SHORT_FOR = "is short for"  # the predicate by which two names are one entity, wherever they stand
ALSO_CALLED = "is also called"  # in one chunk; "the Company" is another one in the next contract
ALIAS = "alias"  # the kind of a name that stands for another one of its chunk
LONGEST_KEY = 200  # characters
LONGEST_PHRASE = 6  # words of a name that is looked for in a question
LONGEST_SHORT = 12  # characters of an acronym
LONGEST_BETWEEN = 80  # characters between two names that say how they are related

_IN_BRACKETS = re.compile(r"\(([A-Z][A-Za-z&.-]{1,9}?)s?\)")
_CODE = re.compile(r"(?!FY|Q\d)[A-Z]{2,}")
_WORD = re.compile(r"[\w’'&-]+")
_DAYS = frozenset(name.lower() for name in (*calendar.month_name, *calendar.day_name) if name)
_SMALL = frozenset({"of", "the", "and", "for", "in", "on", "de", "la", "to", "&"})


class Relation(NamedTuple):
    """What a sentence of a chunk says of two names."""

    subject: str
    predicate: str
    object: str
    chunk_id: int = 0
    sentence: int = -1  # its place among the sentences of the chunk; -1 is not known
    by: str = ""  # the model that found it; "": a rule


@dataclass(frozen=True, slots=True)
class Mention:
    """A chunk that names an entity, with how it writes the name."""

    key: str
    name: str
    chunk_id: int


class Named(NamedTuple):
    """A name as a chunk writes it, found by a model; of an `ALIAS` the key is that of the name it stands for."""

    name: str
    kind: str
    key: str
    sentences: tuple[int, ...]  # of the chunk, that hold the whole name


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a model found in a chunk, as far as the chunk itself says so."""

    names: tuple[Named, ...] = ()
    relations: tuple[Relation, ...] = ()

    def sentences_of(self, key: str) -> frozenset[int]:
        return frozenset(place for named in self.names if named.key == key for place in named.sentences)

    def first_sentence(self, relation: Relation) -> int:
        """Where the proof of a relation begins: at the sentence before, where one of its names stands only there."""
        ends = (entity_key(relation.subject), entity_key(relation.object))
        is_in_one = all(relation.sentence in self.sentences_of(end) for end in ends)
        return relation.sentence if is_in_one else relation.sentence - 1


NOTHING_EXTRACTED = Extraction()


class GraphStore(Protocol):
    """Reads which visible chunks in scope name an entity, by its key; what a model found is kept with its chunk."""

    def mentions(self, keys: Collection[str], scope: Scope, most: int) -> list[Mention]:
        """The chunks that name these, `most` for each key."""

    def known(self, keys: Collection[str], scope: Scope) -> set[str]:
        """Those of these keys that a chunk in scope names."""

    def beginning(self, key: str, scope: Scope, most: int) -> list[tuple[str, str, int]]:
        """The keys that begin so, each with a name and how many chunks have it, the most frequent first."""

    def relations(self, keys: Collection[str], scope: Scope, most: int) -> list[Relation]:
        """What is said of these and another name; what rules found comes first."""

    def extracted(self, chunk_ids: Collection[int]) -> dict[int, Extraction]:
        """What a model found in those of these chunks that one has read."""

    def put_extracted(self, document: Document, model: str, found: Sequence[tuple[Chunk, Extraction]]) -> bool:
        """Keeps it in place of what was found before; False where the document is gone, or is another by now."""


def entity_key(name: str) -> str:
    """By which all ways to write a name are found; "" where there is nothing to find."""
    found = words(name.replace("&", " and "))
    if len(found) > 1 and found[0] == "the":
        found = found[1:]
    if len(found) > 1 and all(len(word) == 1 for word in found):
        found = ["".join(found)]  # U.S. and US
    return strip_accents(" ".join(found))[:LONGEST_KEY]


def is_entity(name: str) -> bool:
    """Whether a candidate is a thing that texts speak about, and no amount and no date."""
    has_digit = any(letter.isdigit() for letter in name)
    letters = sum(letter.isalpha() for letter in name)
    if letters < (1 if has_digit else 2) or name[0] in "$€£¥₹" or name[0].isdigit() or name.endswith("%"):
        return False
    if name.lower() in _DAYS:
        return False
    return not period_of(name) or bool(_CODE.match(name))  # ISO 9001:2015 is a code, March 2020 a date


@lru_cache(maxsize=20_000)  # names come again and again, within a document and from one to the next
def key_of(name: str) -> str:
    """The key of an entity, "" of an amount or a date."""
    return entity_key(name) if is_entity(name) else ""


def names_of(chunk: Chunk) -> dict[str, str]:
    """The entities that rules find in a chunk by their keys, each as it is written first."""
    found: dict[str, str] = {}
    for name in chunk.entities:
        if key := key_of(name):
            found.setdefault(key, name)
    return found


def names_by_sentence(chunk: Chunk, extraction: Extraction = NOTHING_EXTRACTED) -> list[dict[str, str]]:
    """For each sentence of a chunk the keys of the entities that it names, each with the name as it stands there.

    A sentence that proves a relation names both ends of it, though one may stand in the sentence before.
    """
    known = names_of(chunk)
    texts = [chunk.text[part.start : part.end] for part in chunk.sentences]
    found = [{key: name for key, name in known.items() if name in text} for text in texts]
    named = [(place, one.key, one.name) for one in extraction.names for place in one.sentences]
    ends = [(one.sentence, name) for one in extraction.relations for name in (one.subject, one.object)]
    for place, key, name in (*named, *((place, entity_key(name), name) for place, name in ends)):
        if 0 <= place < len(found):
            found[place].setdefault(key, name)
    return found


def phrases(question: str) -> list[str]:
    """The keys that a question may name: every run of its words, the longest first."""
    found = [strip_accents(word) for word in words(question.replace("&", " and "))]
    lengths = range(min(LONGEST_PHRASE, len(found)), 0, -1)
    runs = (found[start : start + count] for count in lengths for start in range(len(found) - count + 1))
    return list(dict.fromkeys(" ".join(run) for run in runs))


# --- acronyms ---------------------------------------------------------------------------------------------------------


def acronyms(text: str) -> list[tuple[str, str]]:
    """(short, long) of "Long Form (LF)", where the letters are those that the words begin with."""
    found = []
    for match in _IN_BRACKETS.finditer(text):
        short = match.group(1)
        letters = [letter.lower() for letter in short if letter.isupper()]
        before = list(_WORD.finditer(text, max(0, match.start() - 120), match.start()))
        if len(letters) >= 2 and (start := _beginning([match.group() for match in before], letters)) is not None:
            found.append((short, " ".join(text[before[start].start() : match.start()].split())))
    return found


def initials(short: str, long: str) -> bool:
    """Whether a short name is made of the letters with which the words of the long one begin.

    >>> initials("BoE", "Bank of England"), initials("the Company", "Acme Corp")
    (True, False)
    """
    letters = [letter.lower() for letter in short if letter.isupper()]
    is_short = len(letters) >= 2 and len(short) <= LONGEST_SHORT and " " not in short
    found = [word for word in _WORD.findall(long) if word.lower() != "the"]
    return is_short and _beginning(found, letters) == 0


def _beginning(before: Sequence[str], letters: Sequence[str]) -> int | None:
    """The word at which a long form begins; small words between may have no letter."""
    waiting = list(letters)
    for place in range(len(before) - 1, -1, -1):
        word = before[place]
        if word[0].lower() == waiting[-1]:
            waiting.pop()
            if not waiting:
                return place
        elif word.lower() not in _SMALL:
            return None
    return None


def stated(chunk: Chunk) -> Iterator[Relation]:
    """What a chunk says of two names without a doubt: which is short for which."""
    if "(" not in chunk.text:
        return
    for place, part in enumerate(chunk.sentences):
        for short, long in acronyms(chunk.text[part.start : part.end]):
            yield Relation(short, SHORT_FOR, long, chunk.id, place)


def between(text: str, name: str, other: str) -> str:
    """The words between two names in a sentence, where they are few: what a reader takes for their relation."""
    first, second = text.find(name), text.find(other)
    if first < 0 or second < 0:
        return ""
    start, end = (first + len(name), second) if first < second else (second + len(other), first)
    found = " ".join(text[start:end].split()).strip(' ,;:()|“”"')
    return found if 0 < len(found) <= LONGEST_BETWEEN else ""


# --- the neighbourhood of an entity -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A name that stands beside another one; `says` are the words between, or what is stated; sentences prove it."""

    key: str
    name: str
    says: str
    count: int  # sentences that name both
    chunk: Chunk
    sentence: int  # the last of the proof …
    first: int  # … and the first
    subject: str = ""  # of what is stated: of which of the two it is said
    by: str = ""  # the model that says so
    is_stated: bool = False


def beside(
    keys: Collection[str],
    chunks: Iterable[Chunk],
    relations: Iterable[Relation],
    most: int,
    extracted: Mapping[int, Extraction] | None = None,
) -> list[Neighbour]:
    """What stands in one sentence with an entity, which has these keys; what is stated of both comes first."""
    found: dict[str, Neighbour] = {}
    extracted = extracted or {}
    read = {chunk.id: chunk for chunk in chunks}
    for relation in relations:
        ends = (relation.subject, relation.object)
        others = [name for name in ends if entity_key(name) not in keys] or [ends[1]]
        if relation.chunk_id in read and relation.sentence >= 0:
            chunk, key = read[relation.chunk_id], entity_key(others[0])
            last = relation.sentence
            first = extracted[chunk.id].first_sentence(relation) if relation.by and chunk.id in extracted else last
            says, subject = relation.predicate, relation.subject
            neighbour = Neighbour(key, others[0], says, 0, chunk, last, first, subject, relation.by, is_stated=True)
            found.setdefault(key, neighbour)
    for chunk in read.values():
        for place, named in enumerate(names_by_sentence(chunk, extracted.get(chunk.id, NOTHING_EXTRACTED))):
            own = next((key for key in named if key in keys), None)
            if own is None:
                continue
            part = chunk.sentences[place]
            text = chunk.text[part.start : part.end]
            for key in named:
                if key in keys:
                    continue
                says, before = between(text, named[own], named[key]), found.get(key)
                count = before.count + 1 if before else 1
                if before and (before.is_stated or before.says or not says):  # a sentence that says how proves more
                    found[key] = replace(before, count=count)
                else:
                    found[key] = Neighbour(key, named[key], says, count, chunk, place, place)
    counted = [replace(neighbour, count=max(1, neighbour.count)) for neighbour in found.values()]
    return sorted(counted, key=lambda neighbour: (not neighbour.is_stated, -neighbour.count, neighbour.key))[:most]
