"""What stands in a sentence, as far as looking for an answer goes? Its terms, numbers, names and signs. Pure, kept.

Each sentence is read once: reranking, judging, quoting and checking look at the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from refdesk import periods
from refdesk.terms import QUERY_STOP_WORDS, terms
from refdesk.text import STOP_WORDS

KEPT = 8192  # sentences remembered
HEAD = 4  # letters that words alike have in common, at least

STOP_TERMS = frozenset(terms(" ".join(STOP_WORDS | QUERY_STOP_WORDS)))
NUMBER_TERMS = frozenset(
    terms(
        """
        zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
        eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million billion
        trillion dozen half twice once third quarter double triple both several
        """
    )
)
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DATE = re.compile(
    rf"\b(?:1\d{{3}}|20\d\d)s?\b|\b(?:{_MONTHS})\b|\b(?:centur(?:y|ies)|decades?|BCE?|AD|CE)\b"
    rf"|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day\b|\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}\b|\d{{4}}年|(?<!\d)\d{{1,2}}月"
    rf"|\b(?:spring|summer|autumn|winter|midnight|noon|\d{{1,2}}:\d\d)\b"
)
_YEAR = re.compile(r"\b(?:1\d{3}|20\d\d)s?\b")
_PERCENT = re.compile(r"\d\s*%|\bper\s?cent\b|\bpercentage\b", re.IGNORECASE)
_MONEY = re.compile(
    r"[$€£¥₹]\s?\d|\d\s?[$€£¥₹]|\b(?:dollars?|euros?|pounds?|francs?|yen|cents|USD|EUR|GBP|million|billion)\b",
    re.IGNORECASE,
)
_DURATION = re.compile(
    r"\b(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|decades?|centur(?:y|ies)|annual(?:ly)?|daily|weekly"
    r"|monthly|yearly|millennia|always|permanent(?:ly)?)\b",
    re.IGNORECASE,
)
_MASS = re.compile(
    r"\d\s*(?:k?g|mg|t|lbs?|oz)\b|\b(?:kilo|milli)?grams?\b|\btonn?e?s?\b|\bpounds?\b|\bounces?\b|\bweigh\w*",
    re.IGNORECASE,
)
_SPEED = re.compile(
    r"\bper\s+(?:second|minute|hour|day|week|month|year|annum)\b|/(?:s|min|h|hr|day|year|yr|a)\b|\b(?:mph|kph|knots?)\b"
    r"|\b(?:a|every|each)\s+(?:second|minute|hour|day|week|month|year)\b",
    re.IGNORECASE,
)
_LENGTH = re.compile(
    r"\d\s*(?:[kcm]?m|ft|in|mi|yd|nm|µm)\b|\b(?:kilo|centi|milli|nano|micro)?met(?:er|re)s?\b|\b(?:feet|foot|inch(?:es)?"
    r"|miles?|yards?|fathoms?)\b",
    re.IGNORECASE,
)
_WARMTH = re.compile(r"°|\bdegrees?\b|\b(?:celsius|fahrenheit|kelvin)\b|\d\s*[CF]\b", re.IGNORECASE)
_REASON = re.compile(
    r"\b(?:because|due to|owing to|since|as a result|in order to|so that|so as to|caused? by|causes?|caused|leads? to"
    r"|led to|therefore|thus|hence|thanks to|for this reason|reason|attributed to|resulted|on account of|consequently"
    r"|prevents?|allows?|weil|wegen|damit|deshalb)\b|ため|ので",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"\b(?:in|at|near|from|to|of|on|outside|around|off|through|across|between)\s+(?:the\s+)?(?:[a-z]+(?:ern|al)\s+)?[A-Z]"
)
_NAME = re.compile(r"\b[A-ZÀ-ÖØ-Þ][\w'’-]+")
_QUOTED = re.compile(r"[\"“”«»„]")
_PRONOUN = re.compile(
    r"(?:It|They|He|She|This|These|That|Those|Its|Their|His|Her|Such|Both|The (?:former|latter|two|three|same))\b"
)


SIGNS: Mapping[str, re.Pattern[str]] = {
    "year": _YEAR,
    "date": _DATE,
    "percent": _PERCENT,
    "money": _MONEY,
    "duration": _DURATION,
    "mass": _MASS,
    "speed": _SPEED,
    "length": _LENGTH,
    "warmth": _WARMTH,
    "reason": _REASON,
    "place": _PLACE,
    "quote": _QUOTED,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """A sentence read: where each of its terms stands among its words."""

    text: str
    language: str
    places: Mapping[str, tuple[int, ...]]
    length: int  # words
    content: frozenset[str]  # terms that are not stop words
    heads: frozenset[str]  # how they begin

    @property
    def numbers(self) -> frozenset[str]:
        """ "1250", "seven"."""
        return frozenset(term for term in self.content if term[0].isdigit()) | (NUMBER_TERMS & self.places.keys())

    @property
    def amounts(self) -> frozenset[str]:
        """The numbers that count or measure: not those of years and dates."""
        return _amounts(self.text, self.language)

    @property
    def names(self) -> frozenset[str]:
        """Terms of capitalised words; the first word counts when it is no usual word."""
        return _names(self.text, self.language)

    def shows(self, sign: str) -> bool:
        """Does it hold a year, a date, a percentage, money, a duration, a reason, a place or quotation marks?"""
        return SIGNS[sign].search(self.text) is not None

    @property
    def leans(self) -> bool:
        """Does it begin with a pronoun, so that it leans on the sentence before?"""
        return _PRONOUN.match(self.text) is not None


def read(text: str, language: str = "en") -> Reading:
    """The sentence, read once.

    >>> sorted(read("The pier at Lodin Point stands in nine metres of water.").names)
    ['lodin', 'point']
    """
    return _read(text, language)  # the cache would tell `read(text)` from `read(text, "en")`


@lru_cache(maxsize=KEPT)
def _read(text: str, language: str) -> Reading:
    stems = terms(text, language)
    places: dict[str, tuple[int, ...]] = {}
    for place, term in enumerate(stems):
        places[term] = (*places[term], place) if term in places else (place,)
    content = frozenset(places.keys() - STOP_TERMS)
    return Reading(text, language, places, len(stems), content, frozenset(term[:HEAD] for term in content))


@lru_cache(maxsize=KEPT)
def _amounts(text: str, language: str) -> frozenset[str]:
    for start, end in reversed(periods.spans(text)):
        text = f"{text[:start]} {text[end:]}"
    return _read(_YEAR.sub(" ", text), language).numbers


@lru_cache(maxsize=KEPT)
def _names(text: str, language: str) -> frozenset[str]:
    found = [m.group() for m in _NAME.finditer(text) if m.start() or m.group().lower() not in STOP_WORDS]
    return frozenset(terms(" ".join(found), language)) if found else frozenset()
