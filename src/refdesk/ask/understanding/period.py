"""Which years, quarters, days and forms does a text speak of? Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from refdesk.periods import MONTHS, alike

_MONTH = "|".join(MONTHS)
# Four digits that no other digit, sign of money or decimal touches.
_YEAR = re.compile(r"(?<![\d.,$€£#])((?:19|20)\d\d)(?![\d%])(?![.,]\d)")
_RANGE = re.compile(r"((?:19|20)\d\d)\s?(?:-|–|—|to|through|until)\s?((?:19|20)\d\d)")
_QUARTER = re.compile(r"(?<!\w)q([1-4])(?!\w)")
_FORM = re.compile(r"(?<![\w-])(10|8|20|6)[\s-]?([kqf])(?![a-z])")
_DAY = re.compile(rf"\b({_MONTH})\s(\d{{1,2}}),\s((?:19|20)\d\d)")
_ISO_DAY = re.compile(r"(?<!\d)((?:19|20)\d\d)[_ ]([01]\d)[_ ]([0-3]\d)(?!\d)")  # in the name of a file
SEPARATORS = re.compile(r"[_\-–—.,;:/\\()\[\]{}+\s]+")
EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}\Z")
_LONGEST_RANGE = 10  # years


@dataclass(frozen=True, slots=True)
class Period:
    """Sets of what was named; an empty one is false."""

    years: frozenset[int] = frozenset()
    quarters: frozenset[int] = frozenset()
    days: frozenset[str] = frozenset()  # ISO
    forms: frozenset[str] = frozenset()  # 10k, 10q, 8k

    def __bool__(self) -> bool:
        return bool(self.years or self.quarters or self.days or self.forms)

    def agreement(self, asked: Period) -> float:
        """How well a document of this period serves a question about another, from 0 to 1.

        A report of the year after still holds the year before beside its own, so it comes next.
        """
        if self.days & asked.days:
            return 1.0
        score = self._years_agree(asked)
        if asked.quarters:
            score *= 1.0 if self.quarters & asked.quarters else 0.6
        elif self.quarters and asked.years and not asked.forms:
            score *= 0.8  # a question about a year is rather answered by the report of the year
        if asked.forms and self.forms:
            score *= 1.0 if self.forms & asked.forms else 0.5
        return score

    def _years_agree(self, asked: Period) -> float:
        if not asked.years or not self.years:
            return 0.7
        latest = max(asked.years)
        if latest in self.years:
            return 1.0
        if self.years & asked.years:
            return 0.85
        return 0.6 if latest + 1 in self.years else 0.2


@lru_cache(maxsize=4096)
def period_of(text: str) -> Period:
    """`"Q3 2023 10-Q"` -> years {2023}, quarters {3}, forms {10q}."""
    if not any(character.isdigit() for character in text) and "quarter" not in text.lower():
        return Period()
    said = alike(text.lower())
    years = {int(match.group(1)) for match in _YEAR.finditer(said)}
    for first, last in _RANGE.findall(said):
        if 0 < int(last) - int(first) <= _LONGEST_RANGE:
            years |= set(range(int(first), int(last) + 1))
    quarters = {int(match.group(1)) for match in _QUARTER.finditer(said)}
    forms = {number + letter for number, letter in _FORM.findall(said)}
    return Period(frozenset(years), frozenset(quarters), frozenset(_days(said)), frozenset(forms))


def _days(text: str) -> set[str]:
    found = {"-".join(match.groups()) for match in _ISO_DAY.finditer(text)}
    return found | {f"{year}-{MONTHS[month]:02}-{int(day):02}" for month, day, year in _DAY.findall(text)}


def spaced(name: str) -> str:
    """The name of a file as words: `3M_2018_10K.pdf` -> `3M 2018 10K`."""
    return SEPARATORS.sub(" ", EXTENSION.sub("", name))


def document_period(name: str, title: str, *more: str) -> Period:
    """Of the name; where it tells none, of the title, then of what else is known, such as the date of the file."""
    return next(filter(None, map(period_of, (spaced(name), title, *more))), Period())
