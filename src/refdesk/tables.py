"""What does a table say? Rows of text -> the path of every row and column, and the number of every cell. Pure.

["", "Years Ended September 30,", ""]       column paths: "Years Ended September 30, › 2019", "… › 2018"
["", "2019", "2018"]
["Sales:", "", ""]                          a row without values is the section of those below it
["Fixed price", "$ 1,452.4", "(1,146.2)"]   row path "Sales: › Fixed price", numbers 1452.4 and -1146.2

And which time does the head of a column, or the label of a row, speak of? One value, with a short text for it.

"Three Months Ended June 25, 2022"  P3M/2022-06-25    the three months up to that day, as ISO 8601 writes a duration
"Years Ended September 30, 2019"    P1Y/2019-09-30
"FY 2019", "2019"                   2019
"Q3 2022", "third quarter of 2022"  2022-Q3
"June 25, 2022"                     2022-06-25        a day: what a balance sheet is of
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.records import Path, StoredTable
from refdesk.terms import DATE_PATTERN, alike, period_spans, read_date
from refdesk.types import Chunk

# --- which time does a head or a label speak of? ----------------------------------------------------------------------

# `alike` has made "three months ended" and "13 weeks ended" a quarter.
_LENGTH = re.compile(
    r"\b(?:(?P<quarter>quarters?)|(?P<year>years?)|(?P<months>three|six|nine|twelve|\d{1,2})[\s-]months?"
    r"|(?P<weeks>thirteen|twenty[\s-]six|thirty[\s-]nine|fifty[\s-](?:two|three)|\d\d)[\s-]weeks?)"
    r"(?:\speriods?)?\s(?:end(?:ed|ing)|through|to)\b"
)
_NUMBER_OF_MONTHS = {"three": 3, "six": 6, "nine": 9, "twelve": 12}
_WEEKS = {"thirteen": 3, "twenty six": 6, "thirty nine": 9, "fifty two": 12, "fifty three": 12}
_SAID_DATE = re.compile(DATE_PATTERN, re.IGNORECASE)
_WEEKS_OF_A_MONTH = 13 / 3
_TEXT = re.compile(
    r"(?:P(?P<length>\d{1,3})(?P<unit>[MY])/)?(?P<end>\d{4}-\d\d-\d\d)|(?P<year>\d{4})?-?(?:Q(?P<quarter>[1-4])|(?P<month>\d\d))?"
)


@dataclass(frozen=True, slots=True)
class TablePeriod:
    """What a column or a row is of; 0 and "" where nothing is said, and false where nothing is said at all.

    `months` is how long the time before the day `end` was; 0: what holds on that day.
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
    said = alike(" ".join(text.replace("%", " | ").lower().split()))  # "2018 %" is no year where it is a number
    named = [readings[0] for match in _SAID_DATE.finditer(said) if len(readings := read_date(match)) == 1]
    years = {when.year for when in named if when.year and not when.decade}
    quarters = {when.quarter for when in named if when.quarter}
    days = {(when.month, when.day) for when in named if when.day}
    months = {when.month for when in named if when.month and not when.day}
    if max(len(years), len(quarters), len(days), len(months)) > 1 or any(when.decade for when in named):
        return TablePeriod()
    year, quarter = next(iter(years), 0), next(iter(quarters), 0)
    if days and year:
        month, day = next(iter(days))
        return TablePeriod(year, end=f"{year}-{month:02}-{day:02}", months=_length(said))
    return TablePeriod(year, quarter, 0 if quarter or not year else next(iter(months), 0))


@lru_cache(maxsize=65_536)
def label_period(text: str) -> TablePeriod:
    """Of a label that is a time, such as "Balance at December 31, 2018"; not of one that names it beside a thing.

    >>> str(label_period("Balance at June 1, 2018")), str(label_period("2.500% Notes due on June 1, 2022"))
    ('2018-06-01', '')
    """
    period = read_period(text)
    if not period:
        return period
    said = sum(len(match.group()) for pattern in (_SAID_DATE, _LENGTH) for match in pattern.finditer(text.lower()))
    return period if 2 * said >= len(text) else TablePeriod()


def spoken_periods(text: str) -> list[tuple[int, int]]:
    """Where a text speaks of times and of how long they were; the ranges may overlap."""
    lowered = text.lower()
    if len(lowered) != len(text):  # a letter such as İ that has two in lower case
        return []
    return [
        *period_spans(text),
        *(match.span() for pattern in (_SAID_DATE, _LENGTH) for match in pattern.finditer(lowered)),
    ]


def _length(text: str) -> int:
    """In months, of a time that ends on a day."""
    match = _LENGTH.search(text)
    if match is None:
        return 0
    if match["quarter"] or match["year"]:
        return 3 if match["quarter"] else 12
    number = re.sub(r"[\s-]", " ", match["months"] or match["weeks"])
    if match["months"]:
        return _NUMBER_OF_MONTHS.get(number) or int(number)
    return _WEEKS.get(number) or round(int(number) / _WEEKS_OF_A_MONTH)


# --- what does a table say? -------------------------------------------------------------------------------------------

Rows = Sequence[Sequence[str]]

MOST_HEAD_ROWS = 5
DASHES = ("-", "–", "—")  # what stands for nothing
_MONTHS = {name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}  # noqa: SIM905
_NUMBER = re.compile(
    r"^[\s~≈<>≤≥+]*+(?P<open>\()?\s*+(?P<minus>[-−–])?\s*+(?P<money>[A-Z]{0,3}[$€£¥])?\s*+(?P<open2>\()?"
    r"(?P<minus2>[-−–])?\s*+(?P<digits>\d{1,3}(?:,\d{3})++(?:\.\d++)?|\d++(?:\.\d++)?|\.\d++)\s*+(?P<percent>%)?"
)
_MARKS = re.compile(r"(?<=\w)(?:\s?(?:\((?:\d{1,2}|[a-z])\)|\[\d{1,2}\]|[*†‡§]{1,3}|[¹²³⁴⁵⁶⁷⁸⁹⁰]{1,2})){1,4}+\s*$")
_TIME = re.compile(r"^\s*(?:(\d+):)?(\d{1,2}):(\d{2}(?:\.\d+)?)\b")
_OFF_MIDDLE = 0.35  # of a column's width that a head may stand off the middle of its columns
_BETWEEN = 0.1  # of a column from the middle between two
_DAY = re.compile(r"\b\d{1,2},?$")
_YEAR = re.compile(r"^\D{0,12}(?:19|20)\d\d\D*$")
# "21/20" over a column of changes, "2021-2022" and "1-3 years" over what falls due then
_SPAN = re.compile(r"\s*(?:(\d\d)/(\d\d)|(?:19|20)\d\d\s?[-–/]\s?(?:19|20)?\d\d|\d{1,2}\s?[-–]\s?\d{1,2}\b[^\d]*)\s*")
_NAMES_YEAR = re.compile(r"(?:19|20)\d\d(?!\d)")
_DATE = re.compile(
    r"\b([A-Za-z]{3})[a-z]*\.?\s+(\d{1,2})(?:st|nd|rd|th)?(?:,?\s+(\d{4}))?|\b(\d{1,2})\s+([A-Za-z]{3})[a-z]*\.?,?(?:\s+(\d{4}))?"
)
_ISO = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b|\b(\d{1,2})/(\d{1,2})/(\d{4})\b")
# "in millions", "$m", "€ million", "£000", "USD ‘000", "(in thousands)"
SCALE_PATTERN = (
    r"(?<!\d )(?<!\d)\b(?P<word>thousand|million|billion|trillion)s?\b"
    r"|(?P<thousands>['’‘]000|[$€£]\s?000|\b000['’]?s)\b|[$€£](?P<letter>k|mm?|mn|mio|mln|bn|b)\b"
)
_SCALE = re.compile(SCALE_PATTERN, re.I)
_SCALE_LETTERS = {"k": "thousand", "m": "million", "b": "billion"}
_MONEY = re.compile(r"US\s?\$|[$€£¥]|\b(?:USD|EUR|GBP|CHF|JPY)\b|\bdollars?\b|\beuros?\b", re.I)
_SIGNS = {"dollar": "$", "euro": "€"}
SCALES = {"": 1.0, "thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}


def named_scale(text: str) -> str:
    """The scale that a caption, a head or a label names.

    >>> named_scale("(in millions, except per share)"), named_scale("2019 €m"), named_scale("USD ‘000")
    ('million', 'million', 'thousand')
    """
    match = _SCALE.search(text)
    if match is None:
        return ""
    if match["word"]:
        return match["word"].lower()
    return "thousand" if match["thousands"] else _SCALE_LETTERS[match["letter"][0].lower()]


def is_scale(head: str) -> bool:
    """Nothing but what is counted: "(dollars in millions, except per share amounts)"."""
    return bool(named_scale(head)) and not any(map(str.isdigit, head))


def without_marks(text: str) -> str:
    """A label or a head without the marks of its footnotes.

    >>> without_marks("Net sales (1)(2)"), without_marks("2019*"), without_marks("Loans (net)")
    ('Net sales', '2019', 'Loans (net)')
    """
    return _MARKS.sub("", text) or text


@lru_cache(maxsize=65_536)
def cell_number(text: str) -> float | None:
    """The number that a cell begins with; one in brackets is negative.

    >>> cell_number("$ (1,146.2)"), cell_number("4.00%"), cell_number("n/a")
    (-1146.2, 4.0, None)
    """
    if timed := _TIME.match(text):
        hours, minutes, seconds = timed.groups()
        return int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds)
    match = _NUMBER.match(text)
    if match is None:
        return None
    number = float(match["digits"].replace(",", ""))
    negative = match["open"] or match["open2"] or match["minus"] or match["minus2"]
    return -number if negative else number


@lru_cache(maxsize=65_536)
def cell_date(text: str) -> float | None:
    """A day as a number that grows with time; without a year, within the year."""
    if match := _ISO.search(text):
        year, month, day, month2, day2, year2 = match.groups()
        return int(year or year2) * 372 + int(month or month2) * 31 + int(day or day2)
    for match in _DATE.finditer(text):
        name = (match[1] or match[5]).lower()
        if name in _MONTHS:
            return int(match[3] or match[6] or 0) * 372 + _MONTHS[name] * 31 + int(match[2] or match[4])
    return None


def is_span(text: str) -> bool:
    """From one time to another, which names a column: "21/20", "2021-2022", "1-3 years"."""
    match = _SPAN.fullmatch(text)
    return match is not None and (not match[1] or abs(int(match[1]) - int(match[2])) == 1)


def is_value(text: str) -> bool:
    """A number that is no year: what stands below a head and not in it."""
    text = without_marks(text)
    is_head = _YEAR.match(text) or is_span(text) or _SCALE.fullmatch(text.strip(" ()"))
    return cell_number(text) is not None and not is_head and cell_date(text) is None


def unit_of(text: str) -> str:
    """`%`, a sign of money, or nothing. What a caption calls dollars is what its cells call $.

    >>> unit_of("4.00%"), unit_of("US$ 12"), unit_of("millions of dollars"), unit_of("Shares")
    ('%', 'US$', '$', '')
    """
    if "%" in text or "percent" in text.lower():
        return "%"
    match = _MONEY.search(text)
    return _SIGNS.get(match.group().lower().removesuffix("s"), match.group()) if match else ""


@dataclass(frozen=True)
class Grid:
    """A table below its head: the path of every row and column, and the text of every cell."""

    caption: str
    columns: tuple[Path, ...]
    rows: Sequence[Path]
    texts: Sequence[Sequence[str]]
    unit: str = ""
    scale: str = ""  # thousand, million, billion: of all numbers that have no other
    places: Sequence[int] = ()  # the row of the table that each row was read from

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """Of every cell; NaN where there is none."""
        found = [[cell_number(text) for text in row] for row in self.texts]
        return np.array([[np.nan if number is None else number for number in row] for row in found], dtype=float)

    @property
    def width(self) -> int:
        return len(self.columns)

    def turned(self) -> Grid:
        """Columns as rows: "in which year was it largest" asks for a column."""
        first = self.columns[0] if self.columns else ()
        names = tuple(row for row in self.rows)
        texts = tuple(
            (" ".join(self.columns[column]), *(row[column] for row in self.texts)) for column in range(1, self.width)
        )
        return Grid(self.caption, (first, *names), self.columns[1:], texts, self.unit, self.scale)


def grid_of(table: StoredTable) -> Grid:
    """The grid of a table whose cells are loaded."""
    columns = tuple(head.path for head in table.heads)
    return replace(read_grid(table.rows(), table.caption, table.head_rows), columns=columns, scale=table.scale)


def read_grid(rows: Rows, caption: str = "", head: int | None = None) -> Grid:
    """`head`: how many rows are the head, where the format tells."""
    width = max((len(row) for row in rows), default=0)
    filled = [[" ".join(cell.split()) for cell in row] + [""] * (width - len(row)) for row in rows]
    numbered = [(place, row) for place, row in enumerate(filled) if any(row)]
    filled = [row for _, row in numbered]
    count = head_rows(filled) if head is None else sum(place < head for place, _ in numbered)
    columns = column_paths(filled[:count], width)
    paths: list[Path] = []
    texts: list[tuple[str, ...]] = []
    places: list[int] = []
    section = ""
    for place, row in numbered[count:]:
        if row[0] and not any(row[1:]) and width > 2:
            section = without_marks(row[0])
            continue
        label = without_marks(row[0])
        paths.append((section, label) if section and not section.startswith(label) else (label,))
        texts.append(tuple(row))
        places.append(place)
    above = " ".join([caption, *(cell for row in filled[:count] for cell in row)])
    return Grid(caption, columns, tuple(paths), tuple(texts), scale=named_scale(above), places=tuple(places))


def head_rows(rows: Rows) -> int:
    """Rows above the first that holds a value; one where no row or the first holds any."""
    for number, row in enumerate(rows[: MOST_HEAD_ROWS + 1]):
        if any(is_value(cell) or (row[0] and cell in DASHES) for cell in row[1:]):
            return max(number, 0) if number else (1 if len(rows) > 1 and not row[0] else 0)
        is_label = row[0] and number and not any(row[1:]) and any(any(above[1:]) for above in rows[:number])
        if is_label and not is_scale(row[0]):
            following = rows[number + 1] if number + 1 < len(rows) else [""]
            if not heads_anew(following[0], following[1:]):
                return number  # the first section begins
    return 1


def heads_anew(label: str, cells: Sequence[str], years: frozenset[int] = frozenset()) -> bool:
    """Do these name the columns below them, though they stand below other rows of the table?

    They are times one after another, beside nothing that is a value: "Years ended | 2022 | 2021 | Change". Years beside
    a name of their own, such as "Matures in", do so where they are the `years` of the head above.

    >>> heads_anew("(Millions)", ["2022", "2021", "2020"]), heads_anew("Matures in", ["2031", "2032"])
    (True, False)
    """
    filled = [without_marks(cell) for cell in cells if cell]
    if len(filled) < 2 or not any(map(_NAMES_YEAR.search, filled)):
        return False
    times = [time for cell in filled if (time := label_period(cell)).year]
    if len(times) < 2 or 2 * len(times) < len(filled) or any(map(is_value, filled)):
        return False
    named = [time.year for time in times]
    follow = all(after == named[0] or abs(after - before) <= 1 for before, after in itertools.pairwise(named))
    if not follow or len({*map(str, times)}) < 2:
        return False
    return not label or {*named} == years or bool(named_scale(label) or spoken_periods(label))


def column_paths(
    head: Rows, width: int, *, is_placed: bool = False, middles: Sequence[Mapping[int, float]] | None = None
) -> tuple[Path, ...]:
    """Texts of the head from top to bottom; one that spans several columns stands over each of them.

    `is_placed`: the parser has kept empty cells, so that each text is in the column it stands over. `middles` says of
    the texts of each row, by their first columns, where their middles are on the page: 1.5 is between columns 1 and 2.
    """
    plain = [[without_marks(cell) for cell in row] for row in head]
    placed = plain if is_placed else [_in_place(row, width) for row in plain]
    last = max((number for number, row in enumerate(placed) if any(row[1:])), default=0)
    spread: list[list[str]] = []
    for number, over in enumerate(placed):
        if any(over[1:]) and (number < last or sum(map(bool, over[1:])) == 1):
            below = head[number + 1] if number < last else ()
            over = _spanning(over, below, middles[number] if middles else None)
        spread.append(over)
    return tuple(tuple(dict.fromkeys(row[column] for row in spread if row[column])) for column in range(width))


def _spanning(row: list[str], below: Sequence[str], middles: Mapping[int, float] | None) -> list[str]:
    """A row of the head whose texts may span columns: each stands over the middle of its own, or over the first.

    Where they cannot be so, they are lines of heads that go on below them, each over one column.
    """
    last = len(row) - 1
    units = [at for at in range(1, last + 1) if row[at] and (at == 1 or row[at] != row[at - 1])]
    ends = [next((at - 1 for at in range(unit, last + 1) if row[at] != row[unit]), last) for unit in units]
    if middles is None:
        spans = _first_of_each(units, ends, last) or _filled(list(zip(units, ends, strict=True)), {}, last)
    else:
        spans = _filled(list(zip(units, ends, strict=True)), middles, last)
    found = list(row)
    if spans is None or (middles is None and len(spans) > 2 and min(end - start for start, end in spans) == 0):
        for unit in units:
            middle = (middles or {}).get(unit, float(unit))
            between = (math.floor(middle), math.ceil(middle)) if abs(middle % 1 - 0.5) <= _BETWEEN else ()
            for at in between:  # in the middle between two columns it stands over both
                found[at] = found[at] or (row[unit] if at else "")
            # "December 31," over 2019 and 2018, beside a column that has no year
            for step, at in ((1, unit + 1), (-1, unit - 1)):
                while _DAY.search(row[unit]) and 0 < at < len(below) and not row[at] and _YEAR.match(below[at]):
                    found[at] = row[unit]
                    at += step
        return found
    for unit, (start, end) in zip(units, spans, strict=True):
        found[start : end + 1] = [row[unit]] * (end - start + 1)
    return found


def _first_of_each(units: Sequence[int], ends: Sequence[int], last: int) -> list[tuple[int, int]] | None:
    """Each text stands over the first of its columns; not so where a text is known to span some."""
    if units[0] != 1 or list(units) != list(ends):
        return None
    return [(start, end - 1) for start, end in zip(units, [*units[1:], last + 1], strict=True)]


def _filled(units: Sequence[tuple[int, int]], middles: Mapping[int, float], last: int) -> list[tuple[int, int]] | None:
    """Ranges that fill the columns `1..last`, each with one of these nearest its middle; None: there are none.

    >>> _filled([(2, 2), (5, 5)], {}, 6), _filled([(3, 3), (4, 4)], {}, 6)
    ([(1, 3), (4, 6)], None)
    """
    # By the column that comes next: how far off the middles are so far, and the ranges, the last one first.
    ways: dict[int, tuple[float, tuple[Any, ...]]] = {1: (0.0, ())}
    for number, (first, end) in enumerate(units):
        middle = middles.get(first, (first + end) / 2)
        reach = _OFF_MIDDLE if first in middles else 0.5
        limit = units[number + 1][0] - 1 if number + 1 < len(units) else last
        further: dict[int, tuple[float, tuple[Any, ...]]] = {}
        for start, (off, ranges) in ways.items():
            lowest, highest = math.ceil(2 * (middle - reach) - start), math.floor(2 * (middle + reach) - start)
            for at in range(max(end, lowest), min(limit, highest) + 1) if start <= first else ():
                now = off + abs((start + at) / 2 - middle)
                if at + 1 not in further or now < further[at + 1][0]:
                    further[at + 1] = now, ((start, at), ranges)
        ways = further
    if last + 1 not in ways:
        return None
    found, rest = [], ways[last + 1][1]
    while rest:
        found.append(rest[0])
        rest = rest[1]
    return found[::-1]


def _in_place(row: Sequence[str], width: int) -> list[str]:
    """A row of the head over its columns: where fewer cells than columns were read, they stand over the last ones."""
    cells = list(row)
    last = max((column for column, cell in enumerate(cells) if cell), default=-1)
    if (
        width > 2
        and cells[0]
        and all(cells[: last + 1])
        and last < width - 1
        and not (last == 0 and is_scale(cells[0]))
    ):
        return [""] * (width - 1 - last) + cells[: last + 1]
    return cells


def shown_value(text: str, unit: str, scale: str) -> str:
    """A number as a person would write it.

    >>> shown_value("82,959", "$", "million"), shown_value("$ (1,146)", "$", ""), shown_value("12.5", "%", "")
    ('$82,959 million', '-$1,146', '12.5%')
    >>> shown_value("1,146", "dollars", "million")
    '1,146 million dollars'
    """
    is_negative = (cell_number(text) or 0.0) < 0
    digits = text.strip().strip("()-−–$€£¥ ").removesuffix("%").strip(" )")
    digits = digits.lstrip("($€£¥ -−–")
    if unit == "%":
        shown = f"{digits}%"
    elif len(unit) == 1:
        shown = f"{unit}{digits} {scale}"
    else:
        shown = f"{digits} {scale} {unit if unit not in digits else ''}"
    return f"{'-' if is_negative else ''}{' '.join(shown.split())}"


def touches(chunk: Chunk, table: StoredTable) -> bool:
    """Whether the chunk holds some part of the table."""
    return chunk.document_id == table.document_id and any(
        span.origin < table.end and span.origin + span.end - span.start > table.start for span in chunk.spans
    )
