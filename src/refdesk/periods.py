"""The period that a column heading, a row label or a question refers to, as one value with a short text.

"Three Months Ended June 25, 2022"  P3M/2022-06-25    the three months up to that day, as ISO 8601 writes a duration
"Years Ended September 30, 2019"    P1Y/2019-09-30
"January–June 2023"                 P6M/2023-06-30
"The first nine months of 2022"     P9M/2022
"FY 2019", "2019"                   2019
"Q3 2022", "third quarter of 2022"  2022-Q3
"June 25, 2022"                     2022-06-25        a day: what a balance sheet is of

And the days that a question about the list of documents means: "last week", "since 1 March".
"""

from __future__ import annotations

import datetime
import re
from calendar import month_name, monthrange
from dataclasses import dataclass, replace
from functools import lru_cache

from refdesk.terms import DATE_PATTERN, When, alike, period_spans, read_date
from refdesk.text import patterns

# `alike` has made "three months ended" and "13 weeks ended" a quarter.
_LENGTH = re.compile(
    r"\b(?:(?P<quarter>quarters?)|(?P<year>years?)|(?P<half>(?:(?:first|second)\shalf|half[\s-]year)(?:\sof)?)"
    r"|(?P<months>three|six|nine|twelve|\d{1,2})[\s-]months?(?:\sof)?"
    r"|(?P<weeks>thirteen|twenty[\s-]six|thirty[\s-]nine|fifty[\s-](?:two|three)|\d\d)[\s-]weeks?)"
    r"(?:\speriods?)?(?:\s(?:end(?:ed|ing)|through|to)\b|(?<=\bof)(?=\s))"
)
_NUMBER_OF_MONTHS = {"three": 3, "six": 6, "nine": 9, "twelve": 12}
_MONTH_COUNTS = {count: name for name, count in _NUMBER_OF_MONTHS.items()}
_WEEKS = {"thirteen": 3, "twenty six": 6, "thirty nine": 9, "fifty two": 12, "fifty three": 12}
SPOKEN_DATE = re.compile(DATE_PATTERN, re.IGNORECASE)
_MONTH = "|".join(rf"{name[:3].lower()}[a-z]{{0,6}}\.?" for name in month_name[1:])
_MONTHS = re.compile(rf"\b({_MONTH})\s?(?:-|–|—|to|through)\s?({_MONTH}),?\s((?:19|20)\d\d)\b")  # "January–June 2023"
_NUMBERS = {name[:3].lower(): number for number, name in enumerate(month_name) if name}
_RUN_ON = re.compile(r"(?<=[a-z]{3})(?=\d{1,2},)")  # "December31," as some files have it
_WEEKS_OF_A_MONTH = 13 / 3
YEAR = 12  # months
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


# --- which days are meant? -------------------------------------------------------------------------------------------

DAY_NAMES = patterns("catalogue", "periods", re.IGNORECASE)
_STRETCHES = patterns("catalogue", "stretches", re.IGNORECASE)
_WEEKDAYS = patterns("catalogue", "weekdays", re.IGNORECASE)
_ENDS = patterns("catalogue", "ends", re.IGNORECASE)
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
    if match := _ENDS["since"].search(text, begin, found.start):
        return Days(found.first, None, match.start(), found.end)
    if match := _ENDS["until"].search(text, begin, found.start):
        return Days(None, found.first - datetime.timedelta(days=1), match.start(), found.end)
    return found


def _relative(text: str, today: datetime.date) -> Days | None:
    for name, pattern in DAY_NAMES.items():
        if match := pattern.search(text):
            return Days(*_named_days(name, today), *match.span())
    for number, pattern in _WEEKDAYS.items():
        if match := pattern.search(text):
            day = today - datetime.timedelta(days=(today.weekday() - int(number)) % 7)
            return Days(day, day, *match.span())
    for unit, pattern in _STRETCHES.items():
        if (match := pattern.search(text)) and (count := _COUNT.search(text[: match.start()])):
            first = today - datetime.timedelta(days=min(int(count[1]) * _DAYS[unit], 36_500))
            return Days(first, today, count.start(), match.end())
    return None


def _named_days(name: str, today: datetime.date) -> tuple[datetime.date, datetime.date]:
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
    for match in SPOKEN_DATE.finditer(text):
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
