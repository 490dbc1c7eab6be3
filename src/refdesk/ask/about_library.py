"""Does a question ask for the catalogue rather than for what documents say, and for what of it? Pure.

>>> asks_catalogue("Which documents mention icebergs?", vector)
'mention'

Learned from examples by `benchmarks/catalogue.py --fit`: a multinomial logistic model over the question's vector and
the words that such questions are made of.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.document_names import GENERIC, match_names
from refdesk.terms import DATE_PATTERN, QUERY_STOP_WORDS, When, document_period, period_of, read_date, spaced
from refdesk.text import ASSETS, STOP_WORDS, patterns
from refdesk.types import Document

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
    held = np.zeros(len(places), dtype=np.float32)
    for word in found:
        if word in places:
            held[places[word]] = 1.0
    unknown = sum(word not in places and word not in STOP_WORDS for word in found)
    signs = (
        bool(file_names(text)),
        _QUOTED.search(text) is not None,
        any(pattern.search(text) for pattern in _PERIODS.values()),
        _DATE.search(text) is not None,
        min(unknown, 8) / 8,
        len(found) <= 8,
    )
    return np.concatenate([vector, held, np.array(signs, dtype=np.float32), np.ones(1, dtype=np.float32)])


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
    labels = {one.id: _label(one) for one in documents}
    strong = match_names(subject, documents, long=1)
    parts, told = _parts(asked, frozenset().union(*labels.values()))
    for place, word in enumerate(asked):
        if place in told or word in GENERIC or period_of(word):
            continue
        if not match_names(word.upper(), documents, long=1).keys() & strong.keys():  # JNJ
            return []
    likely = [one for one in documents if one.id in strong or (parts and labels[one.id].issuperset(parts))]
    for part in parts:
        if not match_names(part.upper(), documents, long=1):  # files of one name lend each other their titles
            likely = [one for one in likely if part in labels[one.id]] or likely
    if period_of(subject):
        likely = [one for one in likely if _agrees(one, subject)] or likely
    return likely


def _parts(asked: Sequence[str], held: frozenset[str]) -> tuple[list[str], set[int]]:
    """Words, or up to three written together (`10-K`, `Best Buy`), that names hold, and the places they cover."""
    found: list[str] = []
    covered: set[int] = set()
    for length in (3, 2, 1):
        for start in range(len(asked) - length + 1):
            joined, places = "".join(asked[start : start + length]), set(range(start, start + length))
            if joined in held and not places & covered:
                found.append(joined)
                covered |= places
    return found, covered


def _agrees(document: Document, subject: str) -> bool:
    own, wanted = document_period(document.name, document.title, document.date), period_of(subject)
    has_year = not wanted.years or bool(own.years & wanted.years)
    return has_year and (not wanted.quarters or bool(own.quarters & wanted.quarters))


def _label(document: Document) -> frozenset[str]:
    found = [tokens(spaced(document.name)), tokens(document.title)]
    return frozenset(part for own in found for part in (*own, *map("".join, pairwise(own))))


# --- which days are meant? -------------------------------------------------------------------------------------------

_PERIODS = patterns("catalogue", "periods", re.IGNORECASE)
_STRETCHES = patterns("catalogue", "stretches", re.IGNORECASE)
_WEEKDAYS = patterns("catalogue", "weekdays", re.IGNORECASE)
_ENDS = patterns("catalogue", "ends", re.IGNORECASE)
_LANGUAGES = patterns("catalogue", "languages", re.IGNORECASE)
_DATE = re.compile(DATE_PATTERN, re.IGNORECASE)
_COUNT = re.compile(r"(?:(?<!\w)\w++\s++){0,2}(?<!\w)(\d{1,4})\s++\Z")  # with what stands before it: "in the last 7"
LATELY = 30  # days
_DAYS = {"hour": 1, "day": 1, "week": 7, "month": 30, "year": 365}


@dataclass(frozen=True, slots=True)
class Days:
    """From the first to the last day, both included; None is open. `start..end` is where the question says so."""

    first: datetime.date | None
    last: datetime.date | None
    start: int = 0
    end: int = 0

    @property
    def is_long(self) -> bool:
        """A year or more."""
        return self.first is None or self.last is None or (self.last - self.first).days >= 364


def days_of(text: str, today: datetime.date) -> Days | None:
    """The days that a question names, None where it names none.

    >>> days_of("What was added since 1 March?", datetime.date(2026, 11, 16))
    Days(first=datetime.date(2026, 3, 1), last=None, start=15, end=28)
    """
    found = _relative(text, today) or _dated(text, today)
    if found is None or found.first is None or found.last is None:
        return found
    begin = max(0, found.start - 14)
    if said := _ENDS["since"].search(text, begin, found.start):
        return Days(found.first, None, said.start(), found.end)
    if said := _ENDS["until"].search(text, begin, found.start):
        return Days(None, found.first - datetime.timedelta(days=1), said.start(), found.end)
    return found


def _relative(text: str, today: datetime.date) -> Days | None:
    for name, pattern in _PERIODS.items():
        if match := pattern.search(text):
            return Days(*_named(name, today), *match.span())
    for number, pattern in _WEEKDAYS.items():
        if match := pattern.search(text):
            day = today - datetime.timedelta(days=(today.weekday() - int(number)) % 7)
            return Days(day, day, *match.span())
    for unit, pattern in _STRETCHES.items():
        if (match := pattern.search(text)) and (count := _COUNT.search(text[: match.start()])):
            first = today - datetime.timedelta(days=min(int(count[1]) * _DAYS[unit], 36_500))
            return Days(first, today, count.start(), match.end())
    return None


def _named(name: str, today: datetime.date) -> tuple[datetime.date, datetime.date]:
    if name in ("today", "yesterday"):
        day = today - datetime.timedelta(days=name == "yesterday")
        return day, day
    if name == "lately":
        return today - datetime.timedelta(days=LATELY), today
    which, _, unit = name.partition(" ")
    if unit == "week":
        first = today - datetime.timedelta(days=today.weekday() + 7 * (which == "last"))
        return first, min(first + datetime.timedelta(days=6), today)
    first = today.replace(day=1) if unit == "month" else today.replace(month=1, day=1)
    if which == "this":
        return first, today
    last = first - datetime.timedelta(days=1)
    return (last.replace(day=1) if unit == "month" else last.replace(month=1, day=1)), last


def _dated(text: str, today: datetime.date) -> Days | None:
    for match in _DATE.finditer(text):
        for when in read_date(match)[:1]:
            if found := _whole(when, today):
                return Days(*found, *match.span())
    return None


def _whole(when: When, today: datetime.date) -> tuple[datetime.date, datetime.date] | None:
    """The first and the last day of it; a day or a month without a year is the last one that has been."""
    if when.decade or not (when.year or when.month):
        return None
    year = when.year or today.year
    first_month = when.month or (3 * when.quarter - 2 if when.quarter else 1)
    last_month = when.month or (3 * when.quarter if when.quarter else 12)
    try:
        first = datetime.date(year, first_month, when.day or 1)
        after = datetime.date(year + last_month // 12, last_month % 12 + 1, 1)
    except ValueError:  # 31 February
        return None
    last = first if when.day else after - datetime.timedelta(days=1)
    if not when.year and first > today:
        return _whole(when._replace(year=year - 1), today)
    return first, last


def language_of(text: str) -> tuple[str, tuple[int, int]] | None:
    """The code of the language that a question names, and where."""
    for code, pattern in _LANGUAGES.items():
        if match := pattern.search(text):
            return code, match.span()
    return None


def language_name(code: str) -> str:
    """In English, where it is known; else the code."""
    pattern = _LANGUAGES.get(code)
    return pattern.pattern.split("|")[0].rpartition(":")[2] if pattern else code
