"""Finds the table cell for a figure asked for by name, by ranking all rows of all tables of a document.

"Inventories at the end of FY2019" stands in the balance sheet, and under the same or a like name in the cash flows, the
deferred taxes and an acquisition. What people ask for is the line item: the row whose name is nearest, in the column of
the time, and of several such rows the one whose number is large and recurs in the tables of the document.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Query, Retrieved
from refdesk.ask.figures import SCALES
from refdesk.ask.plan_choice import AT_END, CLAUSE, NEARLY, FoundTable, TablePlan, report_period, table_of
from refdesk.ask.sentences import asking_part, question_words
from refdesk.ask.table_answer import (
    INSTEAD,
    SHOWN,
    SUREST_AMONG_MANY,
    TablesRead,
    reading,
)
from refdesk.ask.table_question import (
    QUARTER,
    asking_clause,
    columns_of,
    document_words,
    is_of_other_length,
    newest_columns,
    plain_name,
    things_asked,
)
from refdesk.ask.table_view import AskedWords, CellPlan, Selection
from refdesk.library import LibraryReader
from refdesk.periods import YEAR, TablePeriod, period_from, read_period, spoken_periods
from refdesk.ports import Reader
from refdesk.records import MOST_CELLS, StoredCell, StoredTable
from refdesk.tables import grid_of, touches
from refdesk.terms import terms, words
from refdesk.types import Document, Hit, Scope

Vectors = Callable[[Sequence[str]], NDArray[np.float32]]
_POSSESSIVE = re.compile(r"['’]s?$")
FEWEST_DIGITS = 3  # of a number that recurs for a reason
IN_CAPTION = 0.95  # cosine of a name that the text above its table makes whole
LEAST_NEAR = 0.45  # cosine of a name that may mean the same
WHOLE = frozenset(terms("total amount amounts consolidated overall value"))  # say that it is the whole of something
# What each thing weighs that tells the cell, in log-odds. Chosen on questions made from the statements of 40 filings
# and on the numbers asked of them (docs/log.md); none of it is about what a row is called.
WEIGHTS = {
    "near": 13.0,  # how near the name is, as a cosine
    "said": 2.0,  # share of the words that the row has
    "unsaid": -0.3,  # each word of the row that is not said
    "around": 1.0,  # share of the words that the sections and the caption have instead
    "recurs": 0.5,  # logarithm of the tables that have the number
    "shared": 3.5,  # share of the numbers of its table that other tables have
    "large": 0.5,  # each power of ten
    "percent": -3.0,
    "negative": -1.0,
    "fits": 1.3,  # it is of a time as long as the one that is asked for
    "total": 0.8,  # the row says that it is a whole
    "twin": -1.5,  # its table has several rows of that name, and the question says nothing of its section
    "spread": -1.0,  # its row has several numbers of that time: parts of something
    "own": 0.5,  # the report is of the time that is asked for
}
NOTHING = 16.5  # score of "none of them"
MOST_EXTRA = 4
SHORTEST_NAME = 2  # letters of what names a row: no R&D
USUAL, SMALLEST = 8.0, 6.0  # powers of ten that percentages, and small numbers, are weighed as
MOST_SERIES = 8  # documents that a series of figures is from
MOST_REPORTS = 4  # documents that are looked through
FEW_DOCUMENTS = 2  # that are looked through where the question names none
FEWEST_TABLES = 4  # of a document in which a figure is looked for by its name
REPORTS_KEPT = 8
LEAST = 0.2  # chance of a figure that is considered at all
AGREES = 0.05  # chance from which on a figure is meant by both, and not only by the plan that gives its number
PLANNED = 0.6  # of the chance of another plan, from which on the figure that is named is likelier
MOST_FOUND = 8  # readings of a question that are looked at
NO_NUMBER = 0.1  # chance that a number is asked for, below which none is shown: "what does it mean by billed business?"
BESIDE = 0.6  # what a chance is multiplied by for each word that is said beside the name of the row


class Wanted(NamedTuple):
    """A figure by its name and time."""

    what: str
    when: TablePeriod = TablePeriod()
    at_end: bool = False  # of a day, though only its year may be named
    of_quarter: bool = False  # of three months, though none are named


class LineItem(NamedTuple):
    """A row with numbers, as it stands in a table."""

    table: StoredTable
    row: int  # of the grid
    name: str
    stems: frozenset[str]
    around: frozenset[str]  # stems of its sections and of the caption
    section: str
    cells: tuple[StoredCell, ...]  # that are numbers


@dataclass(frozen=True, slots=True)
class ItemCell:
    """A cell of a line item, and how well it fits what is wanted."""

    item: LineItem
    cell: StoredCell
    document: Document
    score: float
    chance: float = 0.0  # that it is the figure that is asked for
    asked_months: int = 0  # of the time that is asked for, where it is of a longer or shorter one

    @property
    def value(self) -> float:
        """Without a scale and a sign: what flows out is a figure too."""
        return round(abs(self.cell.number or 0.0) * SCALES.get(self.cell.scale, 1.0), 4)


@lru_cache(maxsize=2048)
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
        name = plain_name(path[-1]) if path else ""
        if len(path) > 1 and WHOLE.issuperset(terms(name)):  # "Total" of what stands above
            name = f"{plain_name(path[-2])} {name}"
        if place in numbers and not WHOLE.issuperset(terms(name)):
            section = " ".join(path[:-1])
            around = frozenset(terms(f"{section} {above}"))
            cells = tuple(numbers[place])
            found.append(LineItem(table, row, name, frozenset(terms(name)), around, section, cells))
    return tuple(found)


class Report:
    """The tables of one document, and what tells its main figures from others."""

    def __init__(self, document: Document, tables: Sequence[StoredTable]) -> None:
        self.document, self.tables, self.period = document, tables, report_period(document)
        self._known: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None
        self.own_words = frozenset(word for word in words(document.name.replace("_", " ")) if word.isalpha())
        self.items = [self._without_own(item) for table in tables for item in line_items(table)]
        self.twins = Counter((item.table.id, item.stems) for item in self.items)
        self.captions = {frozenset(terms(CLAUSE.split(table.caption)[-1])) for table in tables}
        held: dict[float, set[int]] = defaultdict(set)
        for item in self.items:
            for cell in item.cells:
                if _digits(cell.number) >= FEWEST_DIGITS:
                    held[abs(cell.number or 0.0)].add(item.table.id)
        self.recurs = {number: len(own) for number, own in held.items()}
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
        said = text.split()
        plain = [_POSSESSIVE.sub("", word).strip(".,").lower() for word in said]
        own = {at for at, word in enumerate(plain) if word in self.own_words}
        own |= {
            at + step for at, pair in enumerate(pairwise(plain)) for step in (0, 1) if "".join(pair) in self.own_words
        }
        return " ".join(word for at, word in enumerate(said) if at not in own)

    def cells(self, wanted: Wanted, vectors: Vectors) -> Iterator[ItemCell]:
        """Those of rows that may be meant, of the time that is asked for."""
        if not self.items:
            return
        what = self.without_own(wanted.what) or wanted.what
        said = frozenset(terms(what))
        core = said - WHOLE or said
        if not core:
            return
        length = self._length(wanted)
        asked = vectors([what])[0]
        names, within = self._vectors(vectors)
        near, nearer = (names @ asked).tolist(), (within @ asked).tolist()
        for item, cosine, with_section in zip(self.items, near, nearer, strict=True):
            extra = item.stems - said - WHOLE
            if item.section and 2 * len(extra) <= len(item.stems):  # "Revenue › Cloud" is the revenue of the cloud
                cosine = max(cosine, with_section)
            if item.stems - WHOLE and item.stems <= said and core <= item.stems | item.around:
                cosine = max(cosine, IN_CAPTION)  # "LinkedIn" below "Revenue by product" is the revenue of LinkedIn
            if cosine < LEAST_NEAR and not core <= item.stems:
                continue
            told = {
                "near": cosine,
                "said": len(core & item.stems) / len(core),
                "unsaid": min(len(extra), MOST_EXTRA),
                "around": len((core - item.stems) & item.around) / len(core),
                "total": bool(item.stems & WHOLE),
                "shared": self.shared[item.table.id],
                "twin": self.twins[item.table.id, item.stems] > 1 and said.isdisjoint(terms(item.section)),
                "own": bool(wanted.when.year and self.period.is_of(wanted.when)),
            }
            cells = list(self._of_time(item, wanted))
            other = [is_of_other_length(period_from(cell.period), length, self.period) for cell in cells]
            times = Counter(cell.period for cell in cells if cell.unit != "%")
            for cell, is_other in zip(cells, other, strict=True):
                if is_other and not all(other):
                    continue
                every = told | self._told_by(cell, wanted) | {"spread": times[cell.period] > 1}
                score = sum(WEIGHTS[name] * every[name] for name in WEIGHTS)
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
        return 3 if wanted.of_quarter or when.quarter or (not when.year and self.period.quarter) else YEAR

    def _told_by(self, cell: StoredCell, wanted: Wanted) -> dict[str, float]:
        number, is_percent = abs(cell.number or 0.0), cell.unit == "%"
        period, when = period_from(cell.period) if cell.period else TablePeriod(), wanted.when
        length = self._length(wanted)
        if when.year and not period.year:
            fits = -1
        elif wanted.at_end:
            fits = bool(period.end and not period.months) - bool(period.months)
        elif is_of_other_length(period, length, self.period):
            fits = -1
        else:  # a year's figure may be one of its last day
            fits = int(period.length == length or (length == YEAR and bool(period.end) and not period.months))
        return {
            "recurs": math.log(self.recurs.get(number, 1)),
            "large": USUAL if is_percent else math.log10(max(10.0**SMALLEST, number * SCALES.get(cell.scale, 1.0))),
            "percent": is_percent,
            "negative": (cell.number or 0.0) < 0,
            "fits": fits,
        }


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
    every = sorted(best.values(), key=lambda found: -found.score)
    scores = np.array([NOTHING, *(one.score for one in every)])
    odds = np.exp(scores - scores.max())
    return [replace(one, chance=float(own)) for one, own in zip(every, (odds / odds.sum())[1:], strict=True)]


# --- what does a question ask for? ------------------------------------------------------------------------------------


def asked_by_name(
    text: str,
    reports: Sequence[Report],
    vectors: Vectors,
    when: TablePeriod | None = None,
    is_absent: Callable[[str], bool] = lambda _: False,
) -> list[ItemCell]:
    """The cells of what the question asks for, likeliest first; `when`: one of the times that it names.

    `is_absent`: does a word stand nowhere in these documents? Beside words of a row it says that another thing is
    meant: "revenue from the sale of cars" is no revenue.

    All that it names may be one thing ("revenue" and "the cloud segment"), or one of it alone. What is said beside
    that, and stands nowhere around the row, makes it less likely.
    """
    known = frozenset(stem for one in reports for stem in document_words(one.document, text))
    clause = _without_place(asking_clause(text), reports, known)
    things = [clause[start:end] for start, end in things_asked(clause, known)]
    things = [thing for thing in things if not _NO_THING.fullmatch(thing)]
    when = when or read_period(text)
    at_end = bool(when.end and not when.months) or AT_END.search(text) is not None
    of_quarter = QUARTER.search(text) is not None and not when.end
    stems = frozenset(stem for thing in things for stem in terms(thing)) - known - WHOLE
    timeless = clause
    for start, end in sorted(spoken_periods(clause), reverse=True):
        timeless = f"{timeless[:start]} {timeless[end:]}"
    capital = " ".join(word for word in timeless.split()[1:] if any(map(str.isupper, word)))
    held = frozenset(stem for report in reports for item in report.items for stem in item.stems)
    names = frozenset(stem for stem in terms(capital) if len(stem) > SHORTEST_NAME) - known - WHOLE
    names &= held
    absent = frozenset(stem for stem in stems - held if is_absent(stem))
    counted = frozenset(stem for thing in things if _COUNTED.match(thing) for stem in terms(thing))
    called = frozenset(
        stem for report in reports for item in report.items for stem in item.stems if len(item.stems) < 2
    )
    is_told = any(stems <= item.stems | item.around for report in reports for item in report.items)
    needed = names | (stems & called if is_told else frozenset())  # "gaming revenue" is not all revenue
    best: list[ItemCell] = []
    for thing in dict.fromkeys((" ".join(_apart(things)), *things)):
        own = frozenset(terms(thing))
        beside = stems - own
        if not absent <= own:
            continue

        def may_be(item: LineItem, own: Set[str] = own) -> bool:
            held = item.stems | item.around
            is_counted = not counted or not counted.isdisjoint(held)
            return needed <= held and (not absent or own.isdisjoint(item.stems)) and is_counted

        found = [
            replace(
                one, chance=one.chance * BESIDE ** (_strange(one.item, beside) + 2 * _strange(one.item, own & called))
            )
            for one in ranked(Wanted(thing, when, at_end, of_quarter), reports, vectors, may_be)
        ][:MOST_FOUND]
        if found and (not best or max(one.chance for one in found) > best[0].chance):
            best = sorted(found, key=lambda one: -one.chance)
    return best


def _strange(item: LineItem, said: Set[str]) -> int:
    """How many of these words neither the row nor what stands around it has."""
    return len(said - item.stems - item.around - WHOLE)


def _without_place(clause: str, reports: Sequence[Report], known: Set[str]) -> str:
    """ "The debt on the balance sheet" is the debt: what tables are headed by, and no row, says where it stands."""
    rows = {item.stems for report in reports for item in report.items}
    for start, end in reversed(things_asked(clause, known)):
        before = _PLACED.search(clause[:start])
        stems = frozenset(terms(clause[start:end]))
        if (
            before
            and len(stems) > 1
            and stems not in rows
            and any(stems <= above for report in reports for above in report.captions)
        ):
            clause = f"{clause[: before.start()]}{clause[end:]}"
    return clause


_PLACED = re.compile(r" (?:in|on|from|within) (?:(?:the|its|their) )?$", re.IGNORECASE)
_OWNER = re.compile(r"\b([A-Z][\w&.-]{0,40}(?: [A-Z][\w&.-]{0,40}){0,3})['’]s?\b")  # "Ortel's", "Ortel Works'"
_COUNTED = re.compile(r"many ", re.IGNORECASE)  # "how many warehouses" is no number of anything else
_NO_THING = re.compile(r"(?:much|many)|\d+-?\w{1,2}", re.IGNORECASE)  # "how much", "10-Q"


def _apart(things: Sequence[str]) -> list[str]:
    """Those that are no part of another one."""
    return [one for one in things if not any(one != other and one in other for other in things)]


def plan_of(found: ItemCell) -> TablePlan | None:
    """The cell as a plan over its table; None where no question can be put to that."""
    table, grid = found.item.table, table_of(found.item.table)
    if not grid.views:
        return None
    row, column = found.item.row, found.cell.column
    chosen = Selection((row,), "equal", 0, 1.0, 0)
    plan = CellPlan(False, "value", (chosen,), column, 0, 0.0, "number", ((row, column),), (found.cell.text,))
    candidate = FoundTable(table, found.document, 1.0)
    nothing = np.zeros(0, np.float32)
    asked = AskedWords(found.item.name)
    return TablePlan(candidate, grid, asked, plan, nothing, chance=found.chance, asked_months=found.asked_months)


# --- where are they looked for? ---------------------------------------------------------------------------------------


def named_reports(text: str, retrieved: Retrieved, library: LibraryReader, *, are_all: bool = False) -> list[Report]:
    """The documents that the question means, as far as they have several tables; where no time is named, the newest
    ones, unless all are asked for.

    Of the documents that were preferred, those that hold most of the names in the question: "10-Q" is a name that
    reports of other companies have too.
    """
    documents = {hit.document.id: hit.document for hit in (*retrieved.hits, *retrieved.considered)}
    preferred = [documents[one] for one in retrieved.preferred_documents if one in documents]
    wanted = preferred or list(documents.values())
    names = question_words(asking_clause(text)).sentence.names
    held = [len(names & document_words(one, text)) for one in wanted]
    most = max(held, default=0)
    if not preferred and not most and len(wanted) > FEW_DOCUMENTS:
        return []
    wanted = [one for one, count in zip(wanted, held, strict=True) if count == most]
    times = [read_period(when) for when in named_times(text)]
    if times and all(when.length == 12 and not when.end for when in times):  # reports of years say what a year was
        wanted = [one for one in wanted if not report_period(one).quarter] or wanted
    if len(times) == 1 and times[0].quarter:
        own = [one for one in wanted if report_period(one).quarter and report_period(one).is_of(times[0])]
        wanted = own or wanted
    if not are_all and not times:
        newest = max((_age(one) for one in wanted), default=(0, 0))
        wanted = [one for one in wanted if _age(one) == newest]
    return [
        found
        for one in wanted[: MOST_SERIES if are_all else MOST_REPORTS]
        if len((found := report_of(one, library)).tables) >= FEWEST_TABLES
    ]


def _age(document: Document) -> tuple[int, int]:
    period = report_period(document)
    return period.year, period.quarter


_reports: OrderedDict[tuple[str, str], Report] = OrderedDict()
_using_reports = threading.Lock()


def report_of(document: Document, library: LibraryReader) -> Report:
    """Kept for the next question, with the vectors of its rows."""
    tables = library.document_tables(document.id)
    key = document.id, ",".join(str(table.id) for table in tables)
    with _using_reports:
        if key in _reports:
            _reports.move_to_end(key)
            return _reports[key]
    made = Report(document, tables)
    with _using_reports:
        _reports[key] = made
        while len(_reports) > REPORTS_KEPT:
            _reports.popitem(last=False)
    return made


def with_named_figures(
    query: Query, retrieved: Retrieved, tables: TablesRead, library: LibraryReader, reader: Reader, may_rename: bool
) -> tuple[TablesRead, Retrieved]:
    """The figure that the question names, where it is likelier than the best plan over the tables that were found.

    Where both give the same number, it is likelier than either says. `may_rename`: the row may be called otherwise.
    """
    text = asking_part(query.fullest)
    vectors = vectors_of(reader)
    if vectors is None or len(named_times(text)) > 1 or query.number < NO_NUMBER:
        return tables, retrieved
    reports = named_reports(text, retrieved, library)
    if not reports or _is_of_others(text, reports):
        return tables, retrieved
    is_absent = absence(text, reports, library, reader)
    found = asked_by_name(text, reports, vectors, None, is_absent)
    if not may_rename:
        said = frozenset(terms(text))
        found = [one for one in found if one.item.stems - WHOLE <= said]
    plan = tables.best
    given = {_value_of(one): one.chance for one in (plan, plan.other if plan else None) if one is not None}
    joint = [
        replace(one, chance=1.0 - (1.0 - one.chance) * (1.0 - given.get(one.value, 0.0)))
        if one.chance >= AGREES
        else one
        for one in found
    ]
    joint.sort(key=lambda one: -one.chance)
    plans = [made for one in joint[:2] if (made := plan_of(one)) is not None]
    if not plans or plans[0].chance < LEAST:
        return tables, retrieved
    best = plans[0]
    if plan is not None and _value_of(plan) != _value_of(best):
        is_computed = plan.plan.kind == "computed" and plan.chance >= SHOWN > best.chance
        if is_computed or best.chance < PLANNED * plan.chance:
            return tables, retrieved
    chance = min(best.chance, SUREST_AMONG_MANY)
    other = plans[1] if len(plans) > 1 and plans[1].chance >= NEARLY * chance else None
    chosen = replace(best, chance=chance, other=other)
    is_likely = chance >= INSTEAD
    held = with_hits([one for one in (chosen, other) if one is not None], retrieved, library)
    return TablesRead(chosen, chance >= SHOWN, tables.candidates, is_likely), held


def _is_of_others(text: str, reports: Sequence[Report]) -> bool:
    """Is it the figure of somebody whom these reports, though they may speak of him, are not of?"""
    owners = _OWNER.findall(asking_clause(text))
    known = frozenset(stem for report in reports for stem in document_words(report.document, text))
    rows = frozenset(stem for report in reports for item in report.items for stem in (*item.stems, *item.around))
    return any((own := frozenset(terms(name))) and own.isdisjoint(known | rows) for name in owners)


def absence(text: str, reports: Sequence[Report], library: LibraryReader, reader: Reader) -> Callable[[str], bool]:
    """Whether a stem of the question stands nowhere in these documents; short forms stand for what does."""
    within = Scope(documents=tuple(report.document.id for report in reports))
    short = frozenset(stem for word in text.split() if reader.spelled(word) != word for stem in terms(word))
    return lambda stem: stem not in short and not library.holding([stem], within)


def line_item(what: str, when: str, reports: Sequence[Report], reader: Reader) -> TablePlan | None:
    """The likeliest cell of a figure that is called so, at a time in words."""
    vectors = vectors_of(reader)
    if vectors is None:
        return None
    at_end = AT_END.search(f"at {when}") is not None
    for found in ranked(Wanted(what, read_period(when), at_end), reports, vectors)[:1]:
        return plan_of(found)
    return None


def vectors_of(reader: Reader) -> Vectors | None:
    """How it tells names that mean the same; None where it cannot."""

    def vectors(names: Sequence[str]) -> NDArray[np.float32]:
        found = reader.name_vectors(names)
        assert found is not None
        return found

    return vectors if reader.name_vectors([""]) is not None else None


def named_times(text: str) -> list[str]:
    """The times that it names, in its words, each once, the earliest first.

    >>> named_times("By how much did sales grow from FY2018 to FY2019?")
    ['FY2018', 'FY2019']
    """
    spans = spoken_periods(text)
    widest = [one for one in spans if not any(other != one and _holds(other, one) for other in spans)]
    said = {str(when): text[slice(*span)] for span in widest if (when := read_period(text[slice(*span)])).year}
    return sorted(said.values(), key=lambda words: when_of(read_period(words)))


def _holds(span: tuple[int, int], other: tuple[int, int]) -> bool:
    return span[0] <= other[0] and other[1] <= span[1]


def when_of(period: TablePeriod) -> tuple[int, int, str]:
    return period.year, period.quarter, period.end


def _value_of(plan: TablePlan) -> float | None:
    """Of a plan that reads one number, as `ItemCell.value` is."""
    what = reading(plan)
    if plan.plan.operation != "value" or what.number is None:
        return None
    return round(abs(what.number) * SCALES.get(what.scale, 1.0), 4)


def with_hits(plans: Sequence[TablePlan], retrieved: Retrieved, library: LibraryReader) -> Retrieved:
    """With a part of each table that is read, so that it can be cited."""
    added: list[Hit] = []
    for plan in plans:
        table = plan.candidate.table
        if any(touches(hit.chunk, table) for hit in (*retrieved.hits, *retrieved.considered, *added)):
            continue
        chunks = [chunk for chunk in library.document_chunks(table.document_id) if touches(chunk, table)]
        added += [Hit(chunk, plan.candidate.document, 0.0, 0.0, 0.0) for chunk in chunks]
    return replace(retrieved, considered=(*retrieved.considered, *added)) if added else retrieved
