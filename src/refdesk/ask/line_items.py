"""Finds the table cell for a figure asked for by name, by ranking all rows of all tables of a document.

"Inventories at the end of FY2019" stands in the balance sheet, and under the same or a like name in the cash flows, the
deferred taxes and an acquisition. What people ask for is the line item: the row whose name is nearest, in the column of
the time, and of several such rows the one whose number is large and recurs in the tables of the document.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.figures import SCALES
from refdesk.ask.plan_choice import CLAUSE, SAME_DIGITS, SMALLER, report_period
from refdesk.ask.table_question import (
    columns_of,
    core_name,
    is_of_other_length,
    newest_columns,
)
from refdesk.ask.wording import KEPT, POSSESSIVE
from refdesk.periods import QUARTER_MONTHS, YEAR, TablePeriod, period_from, when_of
from refdesk.ports import Reader
from refdesk.records import MOST_CELLS, StoredCell, StoredTable
from refdesk.tables import grid_of, plain_name
from refdesk.text import asset_lines, terms, words
from refdesk.types import Document

_LEGAL_FORMS = frozenset(("co", "inc", "corp", "ltd", "plc", "llc", "company", "corporation", "ag", "sa", "nv", "se"))
_DOTTED = re.compile(r"\b(?:[A-Z]\.){1,3}[A-Z]\b\.?")
FEWEST_DIGITS = 3  # of a number that recurs for a reason
IN_CAPTION = 0.95  # cosine of a name that the text above its table makes whole
LEAST_NEAR = 0.45  # cosine of a name that may mean the same
WHOLE = frozenset(terms("total amount amounts consolidated overall value"))  # say that it is the whole of something


# What each thing weighs that tells the cell, in log-odds. Chosen on questions made from the statements of 40 filings
# and on the numbers asked of them (docs/log.md); none of it is about what a row is called.
class Signs(NamedTuple):
    """What tells the cell."""

    near: float
    said: float
    unsaid: float
    around: float
    recurs: float
    shared: float
    large: float
    percent: float
    negative: float
    fits: float
    total: float
    twin: float
    spread: float
    own: float


WEIGHTS = Signs(
    near=13.0,  # how near the name is, as a cosine
    said=2.0,  # share of the words that the row has
    unsaid=-0.3,  # each word of the row that is not said
    around=1.0,  # share of the words that the sections and the caption have instead
    recurs=0.5,  # logarithm of the tables that have the number
    shared=3.5,  # share of the numbers of its table that other tables have
    large=0.5,  # each power of ten
    percent=-3.0,
    negative=-1.0,
    fits=1.3,  # it is of a time as long as the one that is asked for
    total=0.8,  # the row says that it is a whole
    twin=-1.5,  # its table has several rows of that name, and the question says nothing of its section
    spread=-1.0,  # its row has several numbers of that time: parts of something
    own=0.5,  # the report is of the time that is asked for
)
NOTHING = 16.5  # score of "none of them"
MOST_EXTRA = 4
OTHERWISE = 0.5  # what a row loses that is called by another name of the same line item than is asked for
OTHER = PART = 2.5  # the same where the report has a row of the very name: total revenue is more than net sales there;
# and what a row loses that another one of its name is the whole of
NO_RATE = 3.0  # what an amount in millions, a count or a percentage loses where something per share is asked for
USUAL, SMALLEST = 8.0, 6.0  # powers of ten that percentages, and small numbers, are weighed as


class Wanted(NamedTuple):
    """A figure by its name and time."""

    what: str
    when: TablePeriod = TablePeriod()
    at_end: bool = False  # of a day, though only its year may be named
    of_quarter: bool = False  # of three months, though none are named


class LineItem(NamedTuple):
    """A row with numbers in a table."""

    table: StoredTable
    row: int  # of the grid
    name: str
    stems: frozenset[str]
    around: frozenset[str]  # stems of its sections and of the caption
    section: str
    cells: tuple[StoredCell, ...]  # that are numbers
    also: frozenset[str] = frozenset()  # stems of the other names of this line item
    is_spent: bool = False  # its name says so: it may stand below zero

    @property
    def held(self) -> frozenset[str]:
        """The words that it is, or may be, called by and that stand around it."""
        return self.stems | self.around | self.also


@dataclass(frozen=True, slots=True)
class ItemCell:
    """A cell of a line item, and how well it fits what is wanted."""

    item: LineItem
    cell: StoredCell
    document: Document
    score: float
    chance: float = 0.0  # that it is the figure that is asked for
    asked_months: int = 0  # of the time that is asked for, where it is of a longer or shorter one
    is_part: bool = False  # of a larger number of the same name

    @property
    def value(self) -> float:
        """Without a scale and a sign: what flows out is a figure too."""
        return round(abs(self.cell.number or 0.0) * SCALES.get(self.cell.scale, 1.0), SAME_DIGITS)


@lru_cache(maxsize=KEPT)
def line_items(table: StoredTable) -> tuple[LineItem, ...]:
    if not table.is_loaded or table.cell_count > MOST_CELLS:
        return ()
    numbers: dict[int, list[StoredCell]] = {}
    for cell in table.cells:
        if cell.number is not None and cell.column > 0:
            numbers.setdefault(cell.row, []).append(cell)
    grid, above = grid_of(table), ""
    for clause in CLAUSE.split(table.caption):  # the last, but not "(in millions, except per share amounts)"
        above = plain_name(clause) or above
    found = []
    for row, (path, place) in enumerate(zip(grid.rows, grid.places, strict=True)):
        name = undotted(plain_name(path[-1])) if path else ""
        if len(path) > 1 and WHOLE.issuperset(terms(name)):  # "Total" of the rows above
            name = f"{plain_name(path[-2])} {name}"
        if place in numbers and not WHOLE.issuperset(terms(name)):
            section = undotted(" ".join(path[:-1]))
            around = frozenset(terms(f"{section} {above}"))
            around |= frozenset(stem for names in _names_within(around) for other in names for stem in terms(other))
            core, cells = core_name(name), tuple(numbers[place])
            is_spent, name = len(core) < len(name) or _SPENT.match(name) is not None, core
            also = frozenset(stem for other in other_names(name) for stem in terms(other))
            found.append(LineItem(table, row, name, frozenset(terms(name)), around, section, cells, also, is_spent))
    return tuple(found)


def undotted(text: str) -> str:
    """ "U.S. sales" are US sales."""
    return _DOTTED.sub(lambda match: match.group().replace(".", ""), text)


@cache
def _item_names() -> tuple[tuple[str, ...], ...]:
    """The names that companies give one line item, of every line item that has several (assets/ratios.txt)."""
    return tuple(tuple(name.strip() for name in line.split(",")) for line in asset_lines("ratios", "names"))


def _by_stems() -> dict[frozenset[str], tuple[str, ...]]:
    return {frozenset(terms(name)) - WHOLE: names for names in _item_names() for name in names}


@lru_cache(maxsize=KEPT)
def other_names(what: str) -> tuple[str, ...]:
    """Of the line item that is called so.

    >>> "net earnings" in other_names("Net income")
    True
    """
    own = frozenset(terms(core_name(what))) - WHOLE
    return tuple(name for name in _by_stems().get(own, ()) if frozenset(terms(name)) != own)


@lru_cache(maxsize=KEPT)
def _names_within(stems: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Those of the line items that a text speaks of: "Net sales by product" is of revenue."""
    return tuple(dict.fromkeys(names for own, names in _by_stems().items() if own <= stems))


class Report:
    """The tables of one document, and what tells its main figures from others."""

    def __init__(self, document: Document, tables: Sequence[StoredTable]) -> None:
        self.document, self.tables, self.period = document, tables, report_period(document)
        self._known: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
        self.own_words = frozenset(word for word in words(document.name.replace("_", " ")) if word.isalpha())
        self.items = [self._without_own(item) for table in tables for item in line_items(table)]
        self.names = {item.stems - WHOLE for item in self.items}
        self.amounts = {item.stems - WHOLE for item in self.items if any(cell.unit != "%" for cell in item.cells)}
        self.twins = Counter((item.table.id, item.stems) for item in self.items)
        self.captions = {frozenset(terms(CLAUSE.split(table.caption)[-1])) for table in tables}
        held: dict[float, set[int]] = defaultdict(set)
        self.scales: dict[float, set[str]] = defaultdict(set)  # that tables state for a number
        for item in self.items:
            for cell in item.cells:
                if _digits(cell.number) >= FEWEST_DIGITS:
                    held[abs(cell.number or 0.0)].add(item.table.id)
                    if cell.scale:
                        self.scales[abs(cell.number or 0.0)].add(cell.scale)
        self.recurs = {number: len(own) for number, own in held.items()}
        self.years = {period_from(cell.period).year for item in self.items for cell in item.cells if cell.period}
        self.years |= {self.period.year}
        self.newest: dict[int, tuple[int, int, str]] = defaultdict(lambda: (0, 0, ""))
        for item in self.items:
            for cell in item.cells:
                if cell.period:
                    own = when_of(period_from(cell.period))
                    self.newest[item.table.id] = max(self.newest[item.table.id], own)
        shares: dict[int, list[bool]] = defaultdict(list)
        for item in self.items:
            shares[item.table.id] += [self.recurs.get(abs(cell.number or 0.0), 1) > 1 for cell in item.cells]
        self.shared = {number: sum(own) / len(own) for number, own in shares.items()}

    def _without_own(self, item: LineItem) -> LineItem:
        """ "Net earnings attributable to Ortel shareholders" are those of shareholders, in Ortel's own report."""
        name = self.without_own(item.name)
        stems = frozenset(terms(name))
        return item._replace(name=name, stems=stems) if name != item.name and stems else item

    def without_own(self, text: str) -> str:
        """Without the words of the document's name; "Best Buy" is "BestBuy" there."""
        text_words = text.split()
        plain = [POSSESSIVE.sub("", word).strip(".,").lower() for word in text_words]
        own = {at for at, word in enumerate(plain) if word in self.own_words}
        own |= {
            at + step for at, pair in enumerate(pairwise(plain)) for step in (0, 1) if "".join(pair) in self.own_words
        }
        for at, word in enumerate(plain):  # "Ortel Co., Inc."
            if word in _LEGAL_FORMS and at - 1 in own:
                own.add(at)
        return " ".join(word for at, word in enumerate(text_words) if at not in own)

    def cells(self, wanted: Wanted, vectors: Vectors) -> Iterator[ItemCell]:
        """Those of rows that may be meant, of the time that is asked for."""
        if not self.items or (wanted.when.year and self.years.isdisjoint((wanted.when.year, 0))):
            return  # what has no time is of one that the report is of, if of any
        what = vectors.spelled(self.without_own(wanted.what) or wanted.what)
        yield from self._called(what, wanted, vectors)
        is_there = frozenset(terms(core_name(what))) - WHOLE in self.names
        for name in other_names(what):
            for found in self._called(name, wanted, vectors, is_whole=True):
                yield replace(found, score=found.score - (OTHER if is_there else OTHERWISE))

    def _called(self, what: str, wanted: Wanted, vectors: Vectors, *, is_whole: bool = False) -> Iterator[ItemCell]:
        """Cells of rows with this name or one that is near it; `is_whole`: of those with all of its words alone."""
        what = core_name(what)
        stems = frozenset(terms(what))
        core = stems - WHOLE or stems
        if not core:
            return
        length, is_rate, of_each = self._length(wanted), _RATE.search(what) is not None, _of_each(what)
        asked = vectors([what])[0]
        names, within = self._vectors(vectors)
        near, nearer = (names @ asked).tolist(), (within @ asked).tolist()
        for item, cosine, with_section in zip(self.items, near, nearer, strict=True):
            extra = item.stems - stems - WHOLE
            if item.section and 2 * len(extra) <= len(item.stems):  # "Revenue › Cloud" is the revenue of the cloud
                cosine = max(cosine, with_section)
            if item.stems - WHOLE and item.stems <= stems and core <= item.stems | item.around:
                cosine = max(cosine, IN_CAPTION)  # "LinkedIn" below "Revenue by product" is the revenue of LinkedIn
            if cosine < LEAST_NEAR and not core <= item.stems:
                continue
            if is_whole and not core <= item.stems | item.around:  # "net profit" is no gross profit
                continue
            if of_each and not any(name <= item.held for name in of_each):
                continue
            is_of_each = _RATE.search(f"{item.name} {item.section}") is not None
            total, shared = bool(item.stems & WHOLE), self.shared[item.table.id]
            twin = self.twins[item.table.id, item.stems] > 1 and stems.isdisjoint(terms(item.section))
            own = bool(wanted.when.year and self.period.is_of(wanted.when))
            cells = list(self._of_time(item, wanted))
            other = [is_of_other_length(period_from(cell.period), length, self.period) for cell in cells]
            times = Counter(cell.period for cell in cells if cell.unit != "%")
            for cell, is_other in zip(cells, other, strict=True):
                if is_other and not all(other):
                    continue
                number, is_percent = abs(cell.number or 0.0), cell.unit == "%"
                power = math.log10(max(10.0**SMALLEST, number * SCALES.get(cell.scale, 1.0)))
                every = Signs(
                    near=cosine,
                    said=len(core & item.stems) / len(core),
                    unsaid=min(len(extra), MOST_EXTRA),
                    around=len((core - item.stems) & item.around) / len(core),
                    recurs=math.log(self.recurs.get(number, 1)),
                    shared=shared,
                    large=USUAL if is_percent else power,
                    percent=is_percent and item.stems - WHOLE in self.amounts,  # a rate is no share of an amount
                    negative=(cell.number or 0.0) < 0 and not item.is_spent,
                    fits=self._fits(cell, wanted),
                    total=total,
                    twin=twin,
                    spread=times[cell.period] > 1,
                    own=own,
                )
                score = sum(weight * sign for weight, sign in zip(WEIGHTS, every, strict=True))
                if is_of_each and not is_rate and _is_rate(cell):
                    score -= NO_RATE
                if is_rate:
                    score += WEIGHTS.large * (USUAL - every.large) - NO_RATE * (not _is_rate(cell))
                yield ItemCell(item, cell, self.document, score, asked_months=length if is_other else 0)

    def _vectors(self, vectors: Vectors) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Of the names of the rows, and of these with their sections."""
        if self._known is None:
            names = [item.name for item in self.items]
            self._known = vectors(names), vectors([f"{item.name} {item.section}" for item in self.items])
        return self._known

    def _of_time(self, item: LineItem, wanted: Wanted) -> Iterator[StoredCell]:
        columns = columns_of(item.table, wanted.when, self.period) if wanted.when.year else newest_columns(item.table)
        if not columns and not wanted.when.year:  # times stand in its rows
            newest = self.newest[item.table.id]
            yield from (cell for cell in item.cells if not cell.period or when_of(period_from(cell.period)) == newest)
            return
        for cell in item.cells:
            if columns:
                is_then = cell.column in columns
            elif columns is None or not wanted.when.year:
                is_then = not cell.period or not period_from(cell.period).clashes(wanted.when)
            else:
                is_then = False
            if is_then:
                yield cell

    def _length(self, wanted: Wanted) -> int:
        """In months, of the time that is asked for; 0: of a day."""
        when = wanted.when
        if when.end or when.months:
            return when.length
        return QUARTER_MONTHS if wanted.of_quarter or when.quarter or (not when.year and self.period.quarter) else YEAR

    def _fits(self, cell: StoredCell, wanted: Wanted) -> int:
        """Is it of a time as long as the one that is asked for? -1: it is not."""
        period, when = period_from(cell.period) if cell.period else TablePeriod(), wanted.when
        length = self._length(wanted)
        if when.year and not period.year:
            return -1
        if wanted.at_end:
            return bool(period.end and not period.months) - bool(period.months)
        if is_of_other_length(period, length, self.period):
            return -1
        # A year's figure may be one of its last day.
        return int(period.length == length or (length == YEAR and bool(period.end) and not period.months))


_RATE = re.compile(r"\bper [a-z]{3,}", re.IGNORECASE)  # "earnings per share", but no "per cent"


_SPENT = re.compile(r"(?:cost|costs|purchases?|payments?|repayments?) of\b", re.IGNORECASE)


@lru_cache(maxsize=KEPT)
def _of_each(what: str) -> frozenset[frozenset[str]]:
    """What is told for each of many, by all names of such line items; none where no rate is asked for.

    The dividend per share is no earnings per share, but these are the net income per share.
    """
    rate = _RATE.search(what)
    own = frozenset(terms(_RATE.sub(" ", what))) - WHOLE if rate else frozenset()
    kin = (names for stems, names in _by_stems().items() if own & stems)
    return frozenset(
        (*(frozenset((stem,)) for stem in own), *(frozenset(terms(name)) for names in kin for name in names))
    )


def _is_rate(cell: StoredCell) -> bool:
    """May it be something for each of many? Such an amount is written out, and seldom a whole number."""
    return cell.unit != "%" and not float(cell.number or 0.0).is_integer()


def _digits(number: float | None) -> int:
    return len(f"{abs(number or 0.0):.10g}".replace(".", "").strip("0"))


def ranked(
    wanted: Wanted, reports: Sequence[Report], vectors: Vectors, may_be: Callable[[LineItem], bool] = lambda _: True
) -> list[ItemCell]:
    """The best cell of each number, likeliest first, each with the chance that it is meant; none of them may be."""
    best: dict[float, ItemCell] = {}
    for report in reports:
        for found in report.cells(wanted, vectors):
            if (found.value not in best or found.score > best[found.value].score) and may_be(found.item):
                best[found.value] = found
    asked = frozenset(terms(vectors.spelled(wanted.what)))
    # The figure of a longer or shorter time is none where the time that is asked for has its own.
    if any(not found.asked_months and asked - WHOLE <= found.item.held for found in best.values()):
        best = {value: found for value, found in best.items() if not found.asked_months}
    every = sorted(_parts_weighed(list(best.values()), asked), key=lambda found: -found.score)
    scores = np.array([NOTHING, *(cell.score for cell in every)])
    odds = np.exp(scores - scores.max())
    return [replace(cell, chance=float(own)) for cell, own in zip(every, (odds / odds.sum())[1:], strict=True)]


def _parts_weighed(every: Sequence[ItemCell], asked: Set[str]) -> Iterator[ItemCell]:
    """A smaller number of the same name, time and document is a part of the larger one: that of a segment.

    Unless the question has a word of its surroundings.
    """
    whole: dict[tuple[str, frozenset[str], str], ItemCell] = {}
    for found in every:
        key = _of_whom(found)
        if key not in whole or found.value > whole[key].value:
            whole[key] = found
    for found in every:
        largest = whole[_of_whom(found)]
        is_part = found.value < SMALLER * largest.value and found.cell.unit == largest.cell.unit
        own = _around_alone(found.item, largest.item) - found.item.stems
        if is_part and asked.isdisjoint(own):
            found = replace(found, score=found.score - PART, is_part=True)
        yield found


def _around_alone(item: LineItem, other: LineItem) -> frozenset[str]:
    """What stands around one of two rows and not the other: of one table, in their sections alone, for the text above
    it may speak of both ("revenue and operating income by segment").
    """
    if item.table.id == other.table.id:
        return frozenset(terms(item.section)) - frozenset(terms(other.section))
    return item.around - other.around


def _of_whom(found: ItemCell) -> tuple[str, frozenset[str], str]:
    return found.document.id, found.item.stems - WHOLE, found.cell.period


# --- how are names and times told? ------------------------------------------------------------------------------------


class Vectors:
    """Names as vectors, of those that mean the same near ones; short forms are spelled out."""

    def __init__(self, reader: Reader) -> None:
        self.spelled = reader.spelled
        self._vectors = reader.name_vectors

    def __call__(self, names: Sequence[str]) -> NDArray[np.float32]:
        found = self._vectors(names)
        assert found is not None
        return found


def vectors_of(reader: Reader) -> Vectors | None:
    """How it tells names that mean the same; None where it cannot."""
    return Vectors(reader) if reader.name_vectors([""]) is not None else None
