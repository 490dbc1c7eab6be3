"""Which years, quarters, days and forms does a text speak of? Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_MONTH_NAMES = "january february march april may june july august september october november december"
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES.split(), 1)}
_MONTH = "|".join(_MONTHS) + "|" + "|".join(name[:3] for name in _MONTHS)
# "2018", "FY2018", "2024Q2", "Q22023": four digits that no other digit or decimal touches.
_YEAR = re.compile(r"(?:(?<![\d.,$€£#])|(?<=q[1-4]))(?:fy\s?)?((?:19|20)\d\d)(?![\d%])(?![.,]\d)", re.IGNORECASE)
_SHORT_YEAR = re.compile(r"\bfy\s?['’]?(\d\d)(?!\d)|\b[1-4]q['’]?(\d\d)(?!\d)|\bq[1-4]['’](\d\d)(?!\d)", re.IGNORECASE)
_RANGE = re.compile(r"((?:19|20)\d\d)\s?(?:-|–|—|to|through|until)\s?(?:fy\s?)?((?:19|20)\d\d)", re.IGNORECASE)
_QUARTER = re.compile(r"(?<![a-z])q([1-4])(?=\D|20\d\d|\Z)|(?<!\d)([1-4])q(?=\W|\d\d|\Z)", re.IGNORECASE)
_QUARTER_WORDS = re.compile(rf"\b({'|'.join(_ORDINALS)})[\s-]quarter", re.IGNORECASE)
_FORM = re.compile(r"(?<![\w-])(10|8|20|6)[\s-]?([kqf])(?![a-z])", re.IGNORECASE)
_DAY = re.compile(rf"\b({_MONTH})\.?\s(\d{{1,2}}),?\s((?:19|20)\d\d)", re.IGNORECASE)
_ISO_DAY = re.compile(r"(?<!\d)((?:19|20)\d\d)[-_ ]([01]\d)[-_ ]([0-3]\d)(?!\d)")
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
    years = {int(match.group(1)) for match in _YEAR.finditer(text)}
    years |= {2000 + int(next(filter(None, match.groups()))) for match in _SHORT_YEAR.finditer(text)}
    for first, last in _RANGE.findall(text):
        if 0 < int(last) - int(first) <= _LONGEST_RANGE:
            years |= set(range(int(first), int(last) + 1))
    quarters = {int(match.group(1) or match.group(2)) for match in _QUARTER.finditer(text)}
    quarters |= {_ORDINALS[match.group(1).lower()] for match in _QUARTER_WORDS.finditer(text)}
    forms = {(number + letter).lower() for number, letter in _FORM.findall(text)}
    return Period(frozenset(years), frozenset(quarters), frozenset(_days(text)), frozenset(forms))


def _days(text: str) -> set[str]:
    found = {"-".join(match.groups()) for match in _ISO_DAY.finditer(text)}
    for month, day, year in _DAY.findall(text):
        number = next(number for name, number in _MONTHS.items() if name.startswith(month.lower()[:3]))
        found.add(f"{year}-{number:02}-{int(day):02}")
    return found
