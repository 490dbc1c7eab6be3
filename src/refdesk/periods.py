"""The period that a column heading, a row label or a question refers to, as one value with a short text.

"Three Months Ended June 25, 2022"  P3M/2022-06-25    the three months up to that day, as ISO 8601 writes a duration
"Years Ended September 30, 2019"    P1Y/2019-09-30
"January–June 2023"                 P6M/2023-06-30
"The first nine months of 2022"     P9M/2022
"FY 2019", "2019"                   2019
"Q3 2022", "third quarter of 2022"  2022-Q3
"June 25, 2022"                     2022-06-25        a day: what a balance sheet is of

And how dates are written in texts: one spelling for each, and what it says.
"""

from __future__ import annotations

import re
from calendar import month_name, monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from refdesk.types import Range

# --- how is a period or a date spelled? One spelling for each, so that equal ones are taken for equal -----------------
#
#     "FY2019", "FY 19", "FY'19", "fiscal 2019", "fiscal year 2019", "2019 fiscal year"   -> "2019"
#     "Q3", "3Q", "third quarter", "3rd-quarter"                                          -> "q3 quarter"
#     "Q3 FY24", "3Q24", "2024Q3", "third quarter of fiscal 2024"                         -> "q3 quarter 2024"
#     "three months ended June 25, 2022"                                                -> "quarter ended june 25, 2022"
#     "2023-07-01", "1 July 2023", "Jul. 1st, 2023"                                       -> "july 1, 2023"
#
# What a document calls a year it calls so in all of its tables, which mostly say 2019 where the text says fiscal 2019;
# so the year alone is the term. A quarter keeps the word, for a question that asks in which one.

ORDINALS = {"first": 1, "second": 2, "third": 3, "fourth": 4, "1st": 1, "2nd": 2, "3rd": 3, "4th": 4}
_NAMES = (
    "january february march april may june july august september october november december",
    "januar februar märz april mai juni juli august september oktober november dezember",
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
)
MONTHS = {name: number for number, name in enumerate(_NAMES[0].split(), 1)}
_FULL = {name[:3]: name for name in MONTHS} | {"sept": "september"}
_BY_NUMBER = {number: name for name, number in MONTHS.items()}
CENTURY = 70  # '69 is 2069, '70 is 1970

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
_MONTH_AND_DAY = len("september. 30th, ")
_FOUR_DIGITS = re.compile(_YEAR)


def alike(text: str) -> str:
    """Lower-case text, with its periods and dates in the one spelling.

    >>> alike("q3 fy24 revenue beat the third quarter of fiscal 2023")
    'q3 quarter 2024 revenue beat the q3 quarter of 2023'
    """
    for rewrite, pattern in _patterns(text):
        text = pattern.sub(rewrite, text)
    return text


def period_spans(text: str) -> list[Range]:
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
    if ("19" in text or "20" in text) and _has_month_before_year(text):
        yield _month_first, _MONTH_FIRST
        yield _day_first, _DAY_FIRST
        yield _month_only, _MONTH_ONLY


def _has_month_before_year(text: str) -> bool:
    """Looking before the years is quicker than looking for twenty-five names of months everywhere."""
    befores = (text[max(0, year.start() - _MONTH_AND_DAY) : year.start()] for year in _FOUR_DIGITS.finditer(text))
    return any(mark in before for before in befores for mark in _MONTH_MARKS)


def _fiscal(match: re.Match[str]) -> str:
    return match[1] or match[3] or full_year(match[2])


def _quarter(match: re.Match[str]) -> str:
    number = match[1] or match[4] or match[7]
    year = match[2] or match[3] or match[5] or match[6]
    return f"q{number} quarter {full_year(year)}" if year else f"q{number} quarter"


def _quarter_words(match: re.Match[str]) -> str:
    return " ".join(f"q{ORDINALS[ordinal]}" for ordinal in _EACH_ORDINAL.findall(match[1])) + " quarter"


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
    return f"20{digits}" if int(digits) < CENTURY else f"19{digits}"


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
        values = (self.year, quarter if claim.quarter else 0, self.month, self.day)
        claimed = (claim.year, claim.quarter, claim.month, claim.day)
        return all(not wanted or wanted == value for wanted, value in zip(claimed, values, strict=True))

    def clashes(self, claim: When) -> bool:
        """Do both say something of the same part, and differ in it?"""
        pairs = zip(self[:4], claim[:4], strict=True)
        return any(value and wanted and value != wanted for wanted, value in pairs)


MONTH_NUMBERS = {name: number for names in _NAMES for number, name in enumerate(names.split(), 1)}
MONTH_NUMBERS |= {short: MONTHS[name] for short, name in _FULL.items()}
_DATES_MONTH = "(?P<{}>" + "|".join(sorted(MONTH_NUMBERS, key=len, reverse=True)) + r")\b\.?"
_DATES_YEAR = r"(?P<{}>(?:1\d|20|21)\d\d)\b"
_DATES_DAY = r"(?P<{}>[0-3]?\d)(?:st|nd|rd|th|\.)?"
_QUARTERS = ORDINALS | {"final": 4, "last": 4}

DATE_PATTERN = "|".join(
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
        r"(?<![$€£#])\b(?P<y11>(?:1\d|20)\d\d)(?P<to11>[-–/]\d\d)?\b(?![,.]*\d)(?!\s*(?:%|per\s?cent|percent))",
    )
)  # fmt: skip
_GROUPS = re.compile(r"([a-z]+)(\d+)")


def read_date(match: re.Match[str]) -> tuple[When, ...]:
    """The readings of a match of DATE_PATTERN: one, two for a date such as 03/04/2025, none for what is no date."""
    parts = {name: value for name, value in match.groupdict().items() if value is not None and _GROUPS.fullmatch(name)}
    number = max(int(_GROUPS.fullmatch(name)[2]) for name in parts)  # type: ignore[index]
    groups = {_GROUPS.fullmatch(name)[1]: value for name, value in parts.items()}  # type: ignore[index]
    year = int(full_year(groups.get("y", "0")))
    if number == 2:
        first, second = int(groups["a"]), int(groups["b"])
        return tuple(
            When(year, 0, month, day)
            for day, month in dict.fromkeys(((first, second), (second, first)))
            if 1 <= month <= 12 and 1 <= day <= 31
        )
    if "q" in groups:
        return (When(year, int(groups["q"]) if groups["q"].isdigit() else _QUARTERS[groups["q"].lower()]),)
    month = groups.get("m", "0").lower()
    month_number = int(month) if month.isdigit() else MONTH_NUMBERS[month]
    day = int(groups.get("d", 0))
    if number == 10:
        return (When(year, decade=True),)
    if month_number > 12 or day > 31 or ("d" in groups and day == 0) or (number == 1 and month_number == 0):
        return ()
    return (When(year, 0, month_number, day),)


# Which years, quarters and days does a text speak of?

SPOKEN_DATE = re.compile(DATE_PATTERN, re.IGNORECASE)
_RANGE = re.compile(r"((?:19|20)\d\d)\s?(?:-|–|—|to|through|until)\s?((?:19|20)\d\d)")
_NAMED_DAY = re.compile(r"(?<!\d)((?:19|20)\d\d)[_ ]([01]\d)[_ ]([0-3]\d)(?!\d)")  # in the name of a file
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
    lowered = alike(text.lower())
    named = [readings[0] for match in SPOKEN_DATE.finditer(lowered) if len(readings := read_date(match)) == 1]
    named += [When(int(year), 0, int(month), int(day)) for year, month, day in _NAMED_DAY.findall(lowered)]
    years = {when.year for when in named if 1900 <= when.year < 2100}
    years = years.union(*year_ranges(lowered))
    days = {f"{when.year}-{when.month:02}-{when.day:02}" for when in named if when.year and when.day}
    return Period(frozenset(years), frozenset(when.quarter for when in named if when.quarter), frozenset(days))


def year_ranges(text: str) -> Iterator[range]:
    """The years from one to another that a text names, ten at most.

    >>> list(year_ranges("FY2015 - FY2017"))
    [range(2015, 2018)]
    """
    for first, last in _RANGE.findall(alike(text.lower())):
        if 0 < int(last) - int(first) <= _LONGEST_RANGE:
            yield range(int(first), int(last) + 1)


def spaced(name: str) -> str:
    """The name of a file as words: `3M_2018_10K.pdf` -> `3M 2018 10K`."""
    return SEPARATORS.sub(" ", EXTENSION.sub("", name))


def document_period(name: str, title: str, *more: str) -> Period:
    """Of the name; where it tells none, of the title, then of what else is known, such as the date of the file."""
    return next(filter(None, map(period_of, (spaced(name), title, *more))), Period())


# --- which period is a column or a row of? ----------------------------------------------------------------------------

# `alike` has made "three months ended" and "13 weeks ended" a quarter.
_LENGTH = re.compile(
    r"\b(?:(?P<quarter>quarters?)|(?P<year>years?)|(?P<half>(?:(?:first|second)\shalf|half[\s-]year)(?:\sof)?)"
    r"|(?:first\s)?(?P<months>three|six|nine|twelve|\d{1,2})[\s-]months?(?:\sof)?"
    r"|(?P<weeks>thirteen|twenty[\s-]six|thirty[\s-]nine|fifty[\s-](?:two|three)|\d\d)[\s-]weeks?)"
    r"(?:\speriods?)?(?:\s(?:end(?:ed|ing)|through|to)\b|(?<=\bof)(?=\s))"
)
_NUMBER_OF_MONTHS = {"three": 3, "six": 6, "nine": 9, "twelve": 12}
_MONTH_COUNTS = {count: name for name, count in _NUMBER_OF_MONTHS.items()}
_WEEKS = {"thirteen": 3, "twenty six": 6, "thirty nine": 9, "fifty two": 12, "fifty three": 12}
_MONTH_WORD = "|".join(rf"{name[:3].lower()}[a-z]{{0,6}}\.?" for name in month_name[1:])
_MONTHS = re.compile(
    rf"\b({_MONTH_WORD})\s?(?:-|–|—|to|through)\s?({_MONTH_WORD}),?\s((?:19|20)\d\d)\b"
)  # "January–June 2023"
_NUMBERS = {name[:3].lower(): number for number, name in enumerate(month_name) if name}
_RUN_ON = re.compile(r"(?<=[a-z]{3})(?=\d{1,2},)")  # "December31," as some files have it
_WEEKS_OF_A_MONTH = 13 / 3
QUARTER_MONTHS, YEAR = 3, 12  # months
_TEXT = re.compile(
    r"(?:P(?P<length>\d{1,3})(?P<unit>[MY])/)?(?:(?P<end>\d{4}-\d\d-\d\d)|(?P<part>(?<=/)\d{4}))"
    r"|(?P<year>\d{4})?-?(?:Q(?P<quarter>[1-4])|(?P<month>\d\d))?"
)


@dataclass(frozen=True, slots=True)
class TablePeriod:
    """What a column or a row is of; 0 and "" where nothing is said, and false where nothing is said at all.

    `months` is how long the time before the day `end` was; 0: what holds on that day. Without a day it is a part of the
    year that is as long: "the first nine months of 2022".
    """

    year: int = 0
    quarter: int = 0
    month: int = 0
    end: str = ""  # ISO
    months: int = 0

    def __bool__(self) -> bool:
        return self != TablePeriod()

    def __str__(self) -> str:
        if self.end:
            length = f"P{self.months // 12}Y/" if self.months and self.months % 12 == 0 else f"P{self.months}M/"
            return length + self.end if self.months else self.end
        if self.year and self.months:
            return f"P{self.months}M/{self.year}"
        part = f"Q{self.quarter}" if self.quarter else f"{self.month:02}" if self.month else ""
        return "-".join(filter(None, (str(self.year or ""), part)))

    def of_year(self, year: int) -> TablePeriod:
        """This, if it ends in that year; nothing where no year is asked for, or it does not."""
        return self if year and self.end[:4] == str(year) else TablePeriod()

    def within(self, other: TablePeriod) -> TablePeriod:
        """This, and what only the other one says: the row "Q1" in the column "2019" is 2019-Q1."""
        if not self:
            return other
        if self.quarter and not self.year and other.year and not (other.quarter or other.end):
            return replace(self, year=other.year)
        return other.within(self) if other.quarter and not other.year and self.year and not self.quarter else self

    @property
    def length(self) -> int:
        """In months; 0 of a day, and where it is not said."""
        return self.months or (3 if self.quarter else 1 if self.month else 0 if self.end or not self.year else 12)

    def length_in(self, report: TablePeriod) -> int:
        """Its length in a document that is of the time `report`: a year over a column may mean its quarter there."""
        return 0 if self == TablePeriod(self.year) and report.quarter else self.length

    def is_of(self, asked: TablePeriod) -> bool:
        """Is it the time that is asked for, as far as both say it? A fiscal quarter is the quarter of any calendar."""
        if asked.end and self.end:
            return asked.end == self.end
        if self._in_month and asked._in_month and self._in_month != asked._in_month:
            return False
        if asked.quarter and self.quarter and asked.quarter != self.quarter:
            return False
        return asked.year == self.year

    @property
    def _in_month(self) -> int:
        """The month that it is or lies in; 0 for a longer time and where none is named."""
        return self.month or (int(self.end[5:7]) if self.end and not self.months else 0)

    def clashes(self, asked: TablePeriod) -> bool:
        """Is it another time than the one that is asked for?"""
        return bool(asked.year and self.year) and not self.is_of(asked)


def period_from(text: str) -> TablePeriod:
    """The period of its short text.

    >>> period_from("P3M/2022-06-25").months, period_from("2022-Q3").quarter
    (3, 3)
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no period")
    if match["end"]:
        months = int(match["length"] or 0) * (12 if match["unit"] == "Y" else 1)
        return TablePeriod(int(match["end"][:4]), end=match["end"], months=months)
    if match["part"]:
        return TablePeriod(int(match["part"]), months=int(match["length"]))
    year, quarter, month = (int(match[name] or 0) for name in ("year", "quarter", "month"))
    return TablePeriod(year, quarter, month)


@lru_cache(maxsize=65_536)
def read_period(text: str) -> TablePeriod:
    """What a head or a label speaks of; nothing where it names two times, as "2019 compared with 2018" does.

    >>> str(read_period("Three Months Ended June 25, 2022")), str(read_period("Fiscal Year 2019"))
    ('P3M/2022-06-25', '2019')
    """
    if not any(letter.isdigit() for letter in text) and "quarter" not in text.lower():
        return TablePeriod()
    plain = _RUN_ON.sub(" ", text.replace("%", " | ").lower())  # "2018 %" is no year where it is a number
    if between := _MONTHS.search(plain):
        return _months_between(between)
    text_said = alike(" ".join(plain.split()))
    named = [readings[0] for match in SPOKEN_DATE.finditer(text_said) if len(readings := read_date(match)) == 1]
    years = {when.year for when in named if when.year and not when.decade}
    quarters = {when.quarter for when in named if when.quarter}
    days = {(when.month, when.day) for when in named if when.day}
    months = {when.month for when in named if when.month and not when.day}
    if max(len(years), len(quarters), len(days), len(months)) > 1 or any(when.decade for when in named):
        return TablePeriod()
    year, quarter = next(iter(years), 0), next(iter(quarters), 0)
    if days and year:
        month, day = next(iter(days))
        return TablePeriod(year, end=f"{year}-{month:02}-{day:02}", months=_length(text_said))
    month = 0 if quarter or not year else next(iter(months), 0)
    length = 0 if quarter or month or not year else _length(text_said)
    return TablePeriod(year, quarter, month, months=length if length != YEAR else 0)


def _months_between(found: re.Match[str]) -> TablePeriod:
    """From the first day of a month to the last one of another: "January–June 2023" is P6M/2023-06-30."""
    first, last, year = _NUMBERS[found[1][:3]], _NUMBERS[found[2][:3]], int(found[3])
    end = f"{year}-{last:02}-{monthrange(year, last)[1]:02}"
    return TablePeriod(year, end=end, months=(last - first) % 12 + 1)


@lru_cache(maxsize=65_536)
def label_period(text: str) -> TablePeriod:
    """Of a label that is a time, such as "Balance at December 31, 2018"; not of one that names it beside a thing.

    >>> str(label_period("Balance at June 1, 2018")), str(label_period("2.500% Notes due on June 1, 2022"))
    ('2018-06-01', '')
    """
    period = read_period(text)
    if not period:
        return period
    covered = sum(
        len(match.group()) for pattern in (SPOKEN_DATE, _LENGTH, _MONTHS) for match in pattern.finditer(text.lower())
    )
    return period if 2 * covered >= len(text) else TablePeriod()


def spoken_period(period: TablePeriod) -> str:
    """As a person would say it.

    >>> spoken_period(period_from("P3M/2023-09-30")), spoken_period(period_from("2022-12-31"))
    ('three months ended September 30, 2023', 'December 31, 2022')
    """
    length = ("year" if period.months == YEAR else f"{_MONTH_COUNTS.get(period.months, period.months)} months") * bool(
        period.months
    )
    if not period.end:
        return f"{length} of {period.year}" if length and period.year else ""
    year, month, day = map(int, period.end.split("-"))
    return f"{length} ended {month_name[month]} {day}, {year}".removeprefix(" ended ")


def spoken_periods(text: str) -> list[tuple[int, int]]:
    """Where a text speaks of times and of how long they were; the ranges may overlap."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter such as İ that has two in lower case
        return []
    return [
        *period_spans(text),
        *(match.span() for pattern in (SPOKEN_DATE, _LENGTH, _MONTHS) for match in pattern.finditer(lowered)),
    ]


def named_times(text: str) -> list[str]:
    """The times that it names, in its words, each once, the earliest first.

    >>> named_times("By how much did sales grow from FY2018 to FY2019?")
    ['FY2018', 'FY2019']
    """
    spans = spoken_periods(text)
    widest = [span for span in spans if not any(other != span and _holds(other, span) for other in spans)]
    named = {str(when): text[slice(*span)] for span in widest if (when := read_period(text[slice(*span)])).year}
    return sorted(named.values(), key=lambda words: when_of(read_period(words)))


def _holds(span: tuple[int, int], other: tuple[int, int]) -> bool:
    return span[0] <= other[0] and other[1] <= span[1]


def when_of(period: TablePeriod) -> tuple[int, int, str]:
    return period.year, period.quarter, period.end


def length_at_end(text: str) -> int:
    """In months, of the time that a text ends with the length of, so that the day stands below it; else 0.

    >>> length_at_end("Cash flows (in millions): Twelve Months Ended"), length_at_end("Twelve months ended in May")
    (12, 0)
    """
    lowered = alike(" ".join(text.lower().split()))
    matches = [match for match in _LENGTH.finditer(lowered) if match.end() == len(lowered)]
    return _length(matches[0].group()) if matches else 0


def _length(text: str) -> int:
    """In months, of a time that ends on a day."""
    match = _LENGTH.search(text)
    if match is None:
        return 0
    if match["quarter"] or match["year"] or match["half"]:
        return 3 if match["quarter"] else 6 if match["half"] else YEAR
    number = re.sub(r"[\s-]", " ", match["months"] or match["weeks"])
    if match["months"]:
        return _NUMBER_OF_MONTHS.get(number) or int(number)
    return _WEEKS.get(number) or round(int(number) / _WEEKS_OF_A_MONTH)
