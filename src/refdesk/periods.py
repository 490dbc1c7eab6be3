"""How is a period or a date spelled? One spelling for each, so that searching and judging take equal ones for equal.

    "FY2019", "FY 19", "FY'19", "fiscal 2019", "fiscal year 2019", "2019 fiscal year"   -> "2019"
    "Q3", "3Q", "third quarter", "3rd-quarter"                                          -> "q3 quarter"
    "Q3 FY24", "3Q24", "2024Q3", "third quarter of fiscal 2024"                         -> "q3 quarter 2024"
    "three months ended June 25, 2022"                                                  -> "quarter ended june 25, 2022"
    "2023-07-01", "1 July 2023", "Jul. 1st, 2023"                                       -> "july 1, 2023"

What a document calls a year it calls so in all of its tables, which mostly say 2019 where the text says fiscal 2019;
so the year alone is the term. A quarter keeps the word, for a question that asks in which one. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from refdesk.types import Range

ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_NAMES = "january february march april may june july august september october november december"
MONTHS = {name: number for number, name in enumerate(_NAMES.split(), 1)}
_FULL = {name[:3]: name for name in MONTHS} | {"sept": "september"}
_BY_NUMBER = {number: name for name, number in MONTHS.items()}
_CENTURY = 70  # '69 is 2069, '70 is 1970

_YEAR = r"(?:19|20)\d\d"
_END = r"(?!\d|[.,]\d|\s?%)"
_ORDINAL = "|".join(ORDINALS)
_MONTH = "|".join((*MONTHS, *sorted(_FULL, key=len, reverse=True)))

_FISCAL = re.compile(
    rf"\b(?:fy|fiscal(?:\s+years?)?)[\s-]?['’]?({_YEAR}){_END}|\b(?:fy\s?['’]?|fiscal(?:\s+year)?\s['’])(\d\d){_END}"
    rf"|\b({_YEAR})\s(?:fiscal(?:\s+year)?|fy)\b"
)
_QUARTER = re.compile(
    rf"(?<![a-z\d])q([1-4])(?:['’](\d\d)(?!\d)|({_YEAR})(?!\d)|(?!\w|[.,]\d))"
    rf"|(?<![\w.])([1-4])q(?:['’]?({_YEAR}|\d\d)(?!\d)|(?!\w))"
    rf"|(?<!\d)({_YEAR})\s?q([1-4])(?!\w)"
)
_QUARTER_WORDS = re.compile(
    rf"\b((?:{_ORDINAL})(?:(?:,\s|\s(?:and|or|to|through)\s|,\s(?:and|or)\s)(?:{_ORDINAL})){{0,3}})[\s-]quarters?\b"
)
_EACH_ORDINAL = re.compile(rf"\b(?:{_ORDINAL})\b")
_THREE_MONTHS = re.compile(
    r"\b(?:(?:three|3)[\s-]months?|(?:thirteen|13)[\s-]weeks?)(?:\speriods?)?\s(end(?:ed|ing))\b"
)
_ISO_DAY = re.compile(r"(?<![\d.-])((?:19|20)\d\d)-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?![\d-])")
_MONTH_FIRST = re.compile(rf"\b({_MONTH})\.?\s(\d{{1,2}})(?:st|nd|rd|th)?,?\s({_YEAR}){_END}")
_DAY_FIRST = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?:\s(?:of\s)?|-)({_MONTH})(?:\.?,?\s|-)({_YEAR}){_END}")
_MONTH_ONLY = re.compile(rf"\b({'|'.join(sorted(_FULL, key=len, reverse=True))})\.?,?\s({_YEAR}){_END}")

_QUARTER_MARKS = tuple(f"q{number}" for number in range(1, 5)) + tuple(f"{number}q" for number in range(1, 5))
_MONTH_MARKS = tuple(name[:3] for name in MONTHS)


def alike(text: str) -> str:
    """Lower-case text, with its periods and dates in the one spelling.

    >>> alike("q3 fy24 revenue beat the third quarter of fiscal 2023")
    'q3 quarter 2024 revenue beat the q3 quarter of 2023'
    """
    for rewrite, pattern in _patterns(text):
        text = pattern.sub(rewrite, text)
    return text


def spans(text: str) -> list[Range]:
    """Where periods and dates stand in a text, in order; none within another."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter such as İ that has two in lower case
        return []
    found: list[Range] = []
    for _, pattern in _patterns(lowered):
        for match in pattern.finditer(lowered):
            if all(match.end() <= start or end <= match.start() for start, end in found):
                found.append(match.span())
    return sorted(found)


def _patterns(text: str) -> Iterator[tuple[Callable[[re.Match[str]], str], re.Pattern[str]]]:
    """Those that can match: most texts name no period, and looking for a few letters costs next to nothing."""
    if "fy" in text or "fiscal" in text:
        yield _fiscal, _FISCAL
    if "q" in text and any(mark in text for mark in _QUARTER_MARKS):
        yield _quarter, _QUARTER
    if "quarter" in text:
        yield _quarter_words, _QUARTER_WORDS
    if " end" in text:
        yield _three_months, _THREE_MONTHS
    if "-0" in text or "-1" in text:
        yield _iso_day, _ISO_DAY
    if ("19" in text or "20" in text) and any(mark in text for mark in _MONTH_MARKS):
        yield _month_first, _MONTH_FIRST
        yield _day_first, _DAY_FIRST
        yield _month_only, _MONTH_ONLY


def _fiscal(match: re.Match[str]) -> str:
    return match[1] or match[3] or full_year(match[2])


def _quarter(match: re.Match[str]) -> str:
    number = match[1] or match[4] or match[7]
    year = match[2] or match[3] or match[5] or match[6]
    return f"q{number} quarter {full_year(year)}" if year else f"q{number} quarter"


def _quarter_words(match: re.Match[str]) -> str:
    return " ".join(f"q{ORDINALS[one]}" for one in _EACH_ORDINAL.findall(match[1])) + " quarter"


def _three_months(match: re.Match[str]) -> str:
    return f"quarter {match[1]}"


def _iso_day(match: re.Match[str]) -> str:
    return f"{_BY_NUMBER[int(match[2])]} {int(match[3])}, {match[1]}"


def _month_first(match: re.Match[str]) -> str:
    return f"{_FULL.get(match[1], match[1])} {int(match[2])}, {match[3]}"


def _day_first(match: re.Match[str]) -> str:
    return f"{_FULL.get(match[2], match[2])} {int(match[1])}, {match[3]}"


def _month_only(match: re.Match[str]) -> str:
    return f"{_FULL[match[1]]} {match[2]}"


def full_year(digits: str) -> str:
    """`19` -> `2019`, `98` -> `1998`."""
    if len(digits) != 2:
        return digits
    return f"20{digits}" if int(digits) < _CENTURY else f"19{digits}"


# Which years, quarters and days does a text speak of?

_PERIOD_MONTH = "|".join(MONTHS)
# Four digits that no other digit, sign of money or decimal touches.
_PERIOD_YEAR = re.compile(r"(?<![\d.,$€£#])((?:19|20)\d\d)(?![\d%])(?![.,]\d)")
_RANGE = re.compile(r"((?:19|20)\d\d)\s?(?:-|–|—|to|through|until)\s?((?:19|20)\d\d)")
_PERIOD_QUARTER = re.compile(r"(?<!\w)q([1-4])(?!\w)")
_DAY = re.compile(rf"\b({_PERIOD_MONTH})\s(\d{{1,2}}),\s((?:19|20)\d\d)")
_PERIOD_ISO_DAY = re.compile(r"(?<!\d)((?:19|20)\d\d)[_ ]([01]\d)[_ ]([0-3]\d)(?!\d)")  # in the name of a file
SEPARATORS = re.compile(r"[_\-–—.,;:/\\()\[\]{}+\s]+")
EXTENSION = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}\Z")
_LONGEST_RANGE = 10  # years


@dataclass(frozen=True, slots=True)
class Period:
    """Sets of what was named; an empty one is false."""

    years: frozenset[int] = frozenset()
    quarters: frozenset[int] = frozenset()
    days: frozenset[str] = frozenset()  # ISO

    def __bool__(self) -> bool:
        return bool(self.years or self.quarters or self.days)

    def agreement(self, asked: Period) -> float:
        """How well a document of this period serves a question about another, from 0 to 1.

        A report of the year after still holds the year before beside its own, so it comes next.
        """
        if self.days & asked.days:
            return 1.0
        score = self._years_agree(asked)
        if asked.quarters:
            score *= 1.0 if self.quarters & asked.quarters else 0.6
        elif self.quarters and asked.years:
            score *= 0.8  # a question about a year is rather answered by the report of the year
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
    """`"Q3 2023"` -> years {2023}, quarters {3}."""
    if not any(character.isdigit() for character in text) and "quarter" not in text.lower():
        return Period()
    said = alike(text.lower())
    years = {int(match.group(1)) for match in _PERIOD_YEAR.finditer(said)}
    for first, last in _RANGE.findall(said):
        if 0 < int(last) - int(first) <= _LONGEST_RANGE:
            years |= set(range(int(first), int(last) + 1))
    quarters = {int(match.group(1)) for match in _PERIOD_QUARTER.finditer(said)}
    return Period(frozenset(years), frozenset(quarters), frozenset(_days(said)))


def _days(text: str) -> set[str]:
    found = {"-".join(match.groups()) for match in _PERIOD_ISO_DAY.finditer(text)}
    return found | {f"{year}-{MONTHS[month]:02}-{int(day):02}" for month, day, year in _DAY.findall(text)}


def spaced(name: str) -> str:
    """The name of a file as words: `3M_2018_10K.pdf` -> `3M 2018 10K`."""
    return SEPARATORS.sub(" ", EXTENSION.sub("", name))


def document_period(name: str, title: str, *more: str) -> Period:
    """Of the name; where it tells none, of the title, then of what else is known, such as the date of the file."""
    return next(filter(None, map(period_of, (spaced(name), title, *more))), Period())


# Which days, months, quarters and years does a text name, and at which hours?


class When(NamedTuple):
    """What is said of a date; 0 where nothing is said. `decade`: any year of the ten that begin with `year`."""

    year: int = 0
    quarter: int = 0
    month: int = 0
    day: int = 0
    decade: bool = False

    def covers(self, claim: When) -> bool:
        """Does this say all that the claim says? A year covers no day; a day covers its month, quarter and year."""
        if self.decade or claim.decade:
            return self.year // 10 == claim.year // 10 and not (claim.month or claim.day)
        quarter = self.quarter or ((self.month + 2) // 3 if self.month else 0)
        own = (self.year, quarter if claim.quarter else 0, self.month, self.day)
        said = (claim.year, claim.quarter, claim.month, claim.day)
        return all(not wanted or wanted == held for wanted, held in zip(said, own, strict=True))

    def clashes(self, claim: When) -> bool:
        """Do both say something of the same part, and differ in it?"""
        pairs = zip(self[:4], claim[:4], strict=True)
        return any(held and wanted and held != wanted for wanted, held in pairs)


_DATES_NAMES = "january february march april may june july august september october november december".split()  # noqa: SIM905
MONTH_NUMBERS = {name: number for number, name in enumerate(_DATES_NAMES, 1)}
MONTH_NUMBERS |= {name[:3]: number for name, number in list(MONTH_NUMBERS.items())} | {"sept": 9}
_GERMAN = (
    "januar",
    "februar",
    "märz",
    "april",
    "mai",
    "juni",
    "juli",
    "august",
    "september",
    "oktober",
    "november",
    "dezember",
)
_FRENCH = (
    "janvier",
    "février",
    "mars",
    "avril",
    "mai",
    "juin",
    "juillet",
    "août",
    "septembre",
    "octobre",
    "novembre",
    "décembre",
)
MONTH_NUMBERS |= {name: number for names in (_GERMAN, _FRENCH) for number, name in enumerate(names, 1)}

_DATES_MONTH = "(?P<{}>" + "|".join(sorted(MONTH_NUMBERS, key=len, reverse=True)) + r")\b\.?"
_DATES_YEAR = r"(?P<{}>(?:1\d|20|21)\d\d)\b"
_DATES_DAY = r"(?P<{}>[0-3]?\d)(?:st|nd|rd|th|\.)?"
_QUARTERS = {
    "first": 1,
    "second": 2,
    "third": 3,
    "fourth": 4,
    "1st": 1,
    "2nd": 2,
    "3rd": 3,
    "4th": 4,
    "final": 4,
    "last": 4,
}

PATTERN = "|".join(
    (
        r"\b(?P<y1>(?:1\d|20|21)\d\d)[-/](?P<m1>[01]?\d)[-/](?P<d1>[0-3]?\d)\b",
        r"\b(?P<a2>[0-3]?\d)(?P<sep2>[./-])(?P<b2>[0-3]?\d)(?P=sep2)(?P<y2>(?:1\d|20)\d\d|\d\d)\b(?![./-]\d)",
        rf"\b{_DATES_DAY.format('d3')}\s+(?:of\s+|de\s+)?{_DATES_MONTH.format('m3')},?(?:\s+(?:of\s+)?{_DATES_YEAR.format('y3')})?",
        rf"\b{_DATES_MONTH.format('m4')}\s+(?:the\s+)?(?P<d4>[0-3]?\d)(?:st|nd|rd|th)?\b(?!\s*(?:%|per\s?cent|million))"
        rf"(?:,?\s+{_DATES_YEAR.format('y4')})?",
        r"\b" + _DATES_MONTH.format("m5") + r",?\s+(?:of\s+)?" + _DATES_YEAR.format("y5"),
        r"(?-i:\b(?P<m12>January|February|April|June|July|August|September|October|November|December)\b)",
        r"(?-i:(?<=\b[Ii]n )|(?<=\bof )|(?<=\bsince )|(?<=\bby )|(?<=\buntil ))(?-i:(?P<m13>May|March)\b)",
        r"\bQ(?P<q6>[1-4])(?:\s*+(?:of\s++)?(?:FY|fiscal(?:\s+year)?)?\s*+['’]?(?P<y6>(?:19|20)\d\d|\d\d)\b)?(?!\d)",
        r"\b(?P<q7>[1-4])Q\s*['’]?(?P<y7>(?:19|20)\d\d|\d\d)\b",
        r"\b(?P<q8>first|second|third|fourth|final|last|1st|2nd|3rd|4th)[\s-]+quarter"
        r"(?:,?\s+(?:of\s+)?(?:the\s+)?(?:fiscal\s+)?(?:year\s+)?(?P<y8>(?:19|20)\d\d)\b)?",
        r"\b(?:FY|fiscal(?:\s+year)?)\s*['’]?(?P<y9>(?:19|20)\d\d|\d\d)\b",
        r"\b(?P<y10>(?:1\d|20)\d0)['’]?s\b",
        r"\b(?P<y11>(?:1\d|20)\d\d)(?P<to11>[-–/]\d\d)?\b(?![,.]*\d)(?!\s*(?:%|per\s?cent|percent))",
    )
)  # fmt: skip
_GROUPS = re.compile(r"([a-z]+)(\d+)")


def read(match: re.Match[str]) -> tuple[When, ...]:
    """The readings of a match of PATTERN: one, two for a date such as 03/04/2025, none for what is no date."""
    parts = {name: value for name, value in match.groupdict().items() if value is not None and _GROUPS.fullmatch(name)}
    number = max(int(_GROUPS.fullmatch(name)[2]) for name in parts)  # type: ignore[index]
    own = {_GROUPS.fullmatch(name)[1]: value for name, value in parts.items()}  # type: ignore[index]
    year = _year(own.get("y", ""))
    if number == 2:
        first, second = int(own["a"]), int(own["b"])
        return tuple(
            When(year, 0, month, day)
            for day, month in dict.fromkeys(((first, second), (second, first)))
            if 1 <= month <= 12 and 1 <= day <= 31
        )
    if "q" in own:
        return (When(year, int(own["q"]) if own["q"].isdigit() else _QUARTERS[own["q"].lower()]),)
    month = own.get("m", "0").lower()
    month_number = int(month) if month.isdigit() else MONTH_NUMBERS[month]
    day = int(own.get("d", 0))
    if number == 10:
        return (When(year, decade=True),)
    if month_number > 12 or day > 31 or ("d" in own and day == 0) or (number == 1 and month_number == 0):
        return ()
    return (When(year, 0, month_number, day),)


def _year(text: str) -> int:
    if len(text) != 2:
        return int(text or 0)
    return int(text) + (2000 if int(text) < 70 else 1900)
