"""The structure of a table: rows of text to the path of every row and column, and the number of every cell. Pure.

["", "Years Ended September 30,", ""]       column paths: "Years Ended September 30, › 2019", "… › 2018"
["", "2019", "2018"]
["Sales:", "", ""]                          a row without values is the section of those below it
["Fixed price", "$ 1,452.4", "(1,146.2)"]   row path "Sales: › Fixed price", numbers 1452.4 and -1146.2
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.forms import is_form
from refdesk.periods import CENTURY, MONTH_NUMBERS, MONTHS, label_period, spoken_periods
from refdesk.records import Path, StoredTable
from refdesk.types import Chunk, Page

Rows = Sequence[Sequence[str]]

MOST_HEAD_ROWS = 5
FEWEST_MONTHS = 3  # heads from which on they are months: one alone may be a word ("May", "Mar")
DASHES = ("-", "–", "—")  # what stands for nothing
_MONTHS = {name: number for number, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}  # noqa: SIM905
_NUMBER = re.compile(
    r"^[\s~≈<>≤≥+]*+(?P<open>\()?\s*+(?P<minus>[-−–])?\s*+(?P<money>[A-Z]{0,3}[$€£¥])?\s*+(?P<open2>\()?"
    r"(?P<minus2>[-−–])?\s*+(?P<digits>\d{1,3}(?:,\d{3})++(?:\.\d++)?|\d++(?:\.\d++)?|\.\d++)\s*+(?P<percent>%)?"
)
_MARKS = re.compile(r"(?<=\w)(?:\s?(?:\((?:\d{1,2}|[a-z])\)|\[\d{1,2}\]|[*†‡§]{1,3}|[¹²³⁴⁵⁶⁷⁸⁹⁰]{1,2})){1,4}+\s*$")
_ASIDE = re.compile(r"\([^()]*\)")
_TIME = re.compile(r"^\s*(?:(\d+):)?(\d{1,2}):(\d{2}(?:\.\d+)?)\b")
_OFF_MIDDLE = 0.35  # of a column's width that a head may stand off the middle of its columns
_BETWEEN = 0.1  # of a column from the middle between two
_DAY = re.compile(r"\b\d{1,2},?$")
_YEAR = re.compile(r"^\D{0,12}(?:19|20)\d\d\D*$")
# "21/20" over a column of changes, "2021-2022" and "1-3 years" over what falls due then
_SPAN = re.compile(r"\s*(?:(\d\d)/(\d\d)|(?:19|20)\d\d\s?[-–/]\s?(?:19|20)?\d\d|\d{1,2}\s?[-–]\s?\d{1,2}\b[^\d]*)\s*")
_NAMES_YEAR = re.compile(r"(?:19|20)\d\d(?!\d)")
_DATE = re.compile(
    r"\b([A-Za-z]{3})[a-z]*\.?\s+(\d{1,2})(?!\d)(?:st|nd|rd|th)?(?:,?\s+(\d{4}))?"
    r"|\b(\d{1,2})\s+([A-Za-z]{3})[a-z]*\.?,?(?:\s+(\d{4}))?"
)
_MONTH_NAMES = tuple(map(str.capitalize, MONTHS))
_MONTH = re.compile(r"(\d{4})[-/.](\d{1,2})|(\d{1,2})[-/.](\d{4})|([^\W\d_]{3,9})\.?(?:[-–,'’\s]{1,2}(\d{4}|\d\d))?")
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


def plain_name(label: str) -> str:
    """A label without footnote marks and parentheses."""
    return " ".join(_ASIDE.sub("", without_marks(label)).split()).strip(" :.—–-")


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


class Month(NamedTuple):
    """A month that a cell names: in words, and as a number that grows with time."""

    words: str
    key: float


def months_of(texts: Iterable[str]) -> dict[str, Month]:
    """The months that the cells of one column name; none where one of them names none.

    >>> months_of(["2026-01", "2026-02"])["2026-02"].words, months_of(["Jan-26", "Feb-26"])["Feb-26"].words
    ('February 2026', 'February 2026')
    >>> months_of(["2008-09", "2009-10"])  # seasons
    {}
    """
    found: dict[str, Month] = {}
    for text in dict.fromkeys(text for text in texts if text.strip()):
        month = _month(text.strip())
        if month is None:
            return {}
        found[text] = month
    return found if len(found) > 1 and not all(map(_is_season, found)) else {}


def _month(text: str) -> Month | None:
    match = _MONTH.fullmatch(text)
    number = int(match[2] or match[3] or MONTH_NUMBERS.get(match[5].lower(), 0)) if match else 0
    if match is None or not 1 <= number <= 12:
        return None
    year = int(match[1] or match[4] or match[6] or 0)
    year += (1900 if year >= CENTURY else 2000) * (0 < year < 100)
    return Month(f"{_MONTH_NAMES[number - 1]} {year or ''}".strip(), year * 372 + number * 31)


def _is_season(text: str) -> bool:
    match = _MONTH.fullmatch(text.strip())
    return match is not None and bool(match[2]) and (int(match[1]) + 1) % 100 == int(match[2])


def spoken_heads(paths: Sequence[Path]) -> list[Path]:
    """The heads of the columns, those that are months in words: "Jan", "Feb", "Mar" as "January" and so on."""
    months = months_of(path[-1] for path in paths if path and _month(path[-1].strip()))
    if len(months) < FEWEST_MONTHS:
        return list(paths)
    return [(*path[:-1], months[path[-1]].words) if path and path[-1] in months else path for path in paths]


@lru_cache(maxsize=256)
def month_words(table: StoredTable) -> dict[str, str]:
    """What the cells below the heads of its columns of months say in words: `2026-02` -> `February 2026`."""
    found: dict[str, str] = {}
    for column in table.columns:
        codes = np.unique(column.codes[column.rows >= table.head_rows]).tolist()
        found |= {text: month.words for text, month in months_of(column.texts[code] for code in codes).items()}
    return found


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
    """Rows above the first that holds a value; one where no row or the first holds any. A form has none."""
    if is_form(rows):
        return 0
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
            over = _over_all(over, placed[number + 1 :]) or _spanning(over, below, middles[number] if middles else None)
        spread.append(over)
    paths = _stacked(spread, width)
    if len({*paths[1:]}) < width - 1:  # two columns of one name: heads of blocks that are not set over their middles
        others = _stacked(_over_blocks(placed, spread, width), width)
        paths = max(paths, others, key=lambda found: (len({*found[1:]}), sum(map(len, found))))
    return paths


def _over_all(row: Sequence[str], below: Rows) -> list[str]:
    """A row whose one text is a time, over columns of which none has a time of its own: it is that of all of them.

    It may be set over the last of them: "In millions | | | January–June 2023" over "Sales | Profit | Costs".
    """
    (time, *others) = [text for text in row[1:] if text] or [""]
    named = [text for line in below for text in line[1:] if text]
    if others or len(named) < 2 or not label_period(time) or any(spoken_periods(text) for text in named):
        return []
    return [row[0], *[time] * (len(row) - 1)]


def _stacked(rows: Sequence[Sequence[str]], width: int) -> tuple[Path, ...]:
    return tuple(tuple(dict.fromkeys(row[column] for row in rows if row[column])) for column in range(width))


def _repeated(names: Sequence[str]) -> int:
    """How many columns come again and again: 2 of "2022, 2021, 2022, 2021"; 0 where none do.

    >>> _repeated(["2022", "2021", "Change", "2022", "2021", "Change"]), _repeated(["2022", "2021", "2020"])
    (3, 0)
    """
    for size in range(2, len(names) // 2 + 1):
        if len(names) % size == 0 and all(names) and list(names[:-size]) == list(names[size:]):
            return size if len({*names[:size]}) == size else 0
    return 0


def _over_blocks(head: Rows, spread: Rows, width: int) -> Rows:
    """The head over columns that come again and again: each of these blocks has names of its own.

    "Three Months Ended" and "Six Months Ended" may be set over the last column of their blocks, or over the first.
    `spread`: what it is where nothing of the kind is so.

    >>> _over_blocks([["", "", "Three", "", "Six"], ["", "2022", "2021", "2022", "2021"]], [], 5)[0]
    ['', 'Three', 'Three', 'Six', 'Six']
    """
    lowest = [max((at for at, row in enumerate(head) if row[column]), default=-1) for column in range(width)]
    names = [head[at][column] if at >= 0 else "" for column, at in enumerate(lowest)]
    size = _repeated(names[1:])
    found = [list(row) for row in spread or head]
    for at, row in enumerate(head if size else ()):
        over = [
            _over_block(row, [c for c in range(start, start + size) if lowest[c] > at])
            for start in range(1, width, size)
        ]
        if all(over) and len({(*block.values(),) for block in over}) > 1:  # what all say is no name of a block
            for column, name in (pair for block in over for pair in block.items()):
                found[at][column] = name
            for column in range(1, width):
                found[at][column] = row[column] if lowest[column] <= at else found[at][column]
    return found


def _over_block(row: Sequence[str], columns: Sequence[int]) -> dict[int, str]:
    """Which of its texts stands over each of these columns; nothing where they do not fill them."""
    block = ["", *(row[column] for column in columns)]
    size = len(columns)
    units = [at for at in range(1, size + 1) if block[at] and block[at] != block[at - 1]]
    ends = [next((at - 1 for at in range(unit, size + 1) if block[at] != block[unit]), size) for unit in units]
    spans = (
        [(1, size)] if len(units) == 1 else _filled(list(zip(units, ends, strict=True)), {}, size) if units else None
    )
    return {
        columns[at - 1]: block[unit]
        for unit, (first, end) in zip(units, spans or (), strict=False)
        for at in range(first, end + 1)
    }


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
        for at in range(start, end + 1):  # "January 29," over a year stands over no column that has a day of its own
            has_day = _DAY.search(row[unit]) and at < len(below) and label_period(below[at]).end
            found[at] = row[at] if has_day else row[unit]
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


class TablePart(NamedTuple):
    """Where a table stands in the text of a page, a row a line."""

    start: int
    end: int
    head_rows: int


def tables_on(page: Page, tables: Iterable[StoredTable]) -> list[TablePart]:
    """Of a table that began on a page before, no row is the head."""
    return [
        TablePart(
            max(table.start, page.start) - page.start,
            min(table.end, page.end) - page.start,
            table.head_rows if table.start >= page.start else 0,
        )
        for table in tables
        if table.start < page.end and table.end > page.start
    ]
