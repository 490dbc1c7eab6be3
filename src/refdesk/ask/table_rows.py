"""Finds the rows of a table that a question asks for: over a number, the top three, in order, or under a name.

Of rows over or under a number the column is told by its unit ("kg" is that of "Mass (kg)") and the words of its head.
The top three are found by the plan for the top one, which was learned: "which three parts have the highest mass?" asks
for three where "which parts have the highest mass?" asks for one. A row is named by the column that the question asks
for, or by the first columns of words that tell the rows apart. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.figures import Quantity, figures
from refdesk.ask.plan_choice import FoundTable, TablePlan, place_of, table_of
from refdesk.ask.sentences import question_words
from refdesk.ask.table_question import WHOLE_STEMS, document_words
from refdesk.ask.table_view import MOST_TOLD, AskedWords, CellPlan, Places, Selection, View, head_text
from refdesk.ask.wording import ARTICLES, ASKING, YEAR_NUMBER, is_plural
from refdesk.negation import is_negated
from refdesk.records import StoredTable
from refdesk.tables import plain_name, shown_value, without_marks
from refdesk.text import terms, words

# Chance that these rows are what is asked for: of 14 questions to WikiTableQuestions' even tables that were answered so
# seven were right to the word, and three more were those that are now left alone for what they deny or leave out.
CHANCE = 0.55
WORDS = 0.8  # words of three letters and more that the cells of a column have on average, which names the rows
_OR_EQUAL = re.compile(r"\b(?:at least|at most|up to|not? (?:less|more|fewer) than)\b|[≥≤]|[<>]=", re.IGNORECASE)
_LEAVES_OUT = frozenset(("without", "besides", "except", "other"))


class _Compared(NamedTuple):
    """A column, the factor of its unit, and how well the question names it."""

    column: int
    factor: float
    worth: float


def filtered_rows(text: str, candidates: Iterable[FoundTable]) -> TablePlan | None:
    """The rows that are over or under the number, of the table whose column is named best; None where none is."""
    bounds = [
        quantity for quantity in figures(text) if quantity.kind == "number" and quantity.bound in ("over", "under")
    ]
    if len(bounds) != 1 or _leaves_out(_OR_EQUAL.sub("", text)):
        return None
    asked = AskedWords(text)
    options: list[tuple[FoundTable, _Compared]] = []
    for candidate in candidates:
        views = table_of(candidate.table).views
        compared = _column(views[0], asked, bounds[0]) if views and not views[0].has_records else None
        options += [(candidate, compared)] if compared is not None else []
    if not options:
        return None
    found, compared = max(options, key=lambda option: option[1].worth)
    return _plan(found, asked, bounds[0], compared, text)


def _leaves_out(text: str) -> bool:
    return is_negated(text) or not _LEAVES_OUT.isdisjoint(words(text))


def _column(view: View, asked: AskedWords, bound: Quantity) -> _Compared | None:
    """The one column of numbers that is meant; None where several may be, or the unit is another one's."""
    found = []
    for column in range(1, view.width):
        unit, factor = _unit(" ".join(view.grid.columns[column]))
        said = asked.match(view.names[column])[1]
        same = bool(bound.unit) and unit == bound.unit
        if view.is_number[column] and (same or (said > 0 and not (bound.unit and unit))):
            found.append(_Compared(column, factor if same else 0.0, 2.0 * same + said))
    found.sort(key=lambda option: -option.worth)
    is_clear = bool(found) and (len(found) == 1 or found[0].worth > found[1].worth)
    return found[0] if is_clear else None


def _unit(head: str) -> tuple[str, float]:
    """What the numbers below a head are in, and how much one of it is: "Mass (kg)" are 1,000 grams each."""
    for word in reversed(re.findall(r"[^\W\d_]+|[%€$£]", head_text(head))):
        for quantity in figures(f"1 {word}"):
            if quantity.unit:
                return quantity.unit, quantity.value
    return "", 1.0


def _plan(found: FoundTable, asked: AskedWords, bound: Quantity, compared: _Compared, text: str) -> TablePlan | None:
    table = table_of(found.table)
    view = table.views[0]
    numbers: NDArray[np.float64] = view.grid.numbers[:, compared.column]
    values, limit = (
        (numbers * compared.factor, bound.value) if compared.factor else (numbers, bound.bare or bound.value)
    )
    is_beyond = values > limit if bound.bound == "over" else values < limit
    if _OR_EQUAL.search(text):
        is_beyond |= values == limit
    rows = [row for row in np.flatnonzero(is_beyond).tolist() if row not in view.totals]
    names = _names(view, rows)
    if not 0 < len(rows) <= MOST_TOLD or len(rows) == view.count or not all(names):
        return None
    head = head_text(" ".join(view.grid.columns[compared.column]))
    cells = tuple((row, column) for row in rows for column in (*_naming(view), compared.column))
    chosen = Selection(tuple(rows), "more" if bound.bound == "over" else "less", 0, 1.0, compared.column)
    plan = CellPlan(False, "value", (chosen,), 0, 0, 0.0, "text", cells, tuple(names))
    label = f"{head} {bound.bound} {bound.text}"
    return TablePlan(found, table, asked, plan, np.zeros(0, np.float32), chance=CHANCE, label=label)


def _naming(view: View) -> list[int]:
    """The first columns of words that tell the rows apart."""
    chosen: list[int] = []
    for column in range(view.width):
        texts = [view.texts[row][column] for row in range(view.count)]
        said = sum(len(word) > 2 and word.isalpha() for text in texts for word in words(text))
        if view.is_number[column] or said < WORDS * max(1, len(texts)):
            continue
        chosen.append(column)
        named = {tuple(view.texts[row][own] for own in chosen) for row in range(view.count)}
        if len(named) == view.count:
            break
    return chosen or [0]


def _names(view: View, rows: Sequence[int]) -> list[str]:
    naming = _naming(view)
    return [", ".join(text for column in naming if (text := view.texts[row][column])) for row in rows]


# --- the top three, and all in order ----------------------------------------------------------------------------------

_SORTED = re.compile(
    r"^\W*(?:please\s+)?(?:sort|rank|order)\b|\b(?:sorted|ranked|ordered)(?=\s+by\b)"
    r"|\bin (?:\w+ )?order (?=(?:of|by)\b)",
    re.IGNORECASE,
)
_BY = re.compile(r"\b(?:by|of)\b([^,;.?]+)", re.IGNORECASE)
_FROM = re.compile(
    r"\bfrom (?:the )?((?:most|least)(?: \w+)??|\w+est) to (?:the )?(?:(?:most|least)\b|\w+est\b)", re.IGNORECASE
)
# What says that the least comes first; of everything else the highest does.
_RISING = re.compile(
    r"\b(?:ascending|increasing|rising|(?:low|small|cheap|few|earli|old|short|light)est|least|bottom)\b", re.IGNORECASE
)
_FALLING = re.compile(r"\b(?:descending|decreasing|falling|\w+est|most)\b", re.IGNORECASE)
_BEHIND = frozenset(("from", "in", "with"))  # "by price in ascending order"
_FIRST = re.compile(r"\w+(?:-\w+)?")
_AFTER = re.compile(r"\s+(?P<words>\w[\w'’-]*(?:\s+\w[\w'’-]*){0,2})")
# "The top 3", "which two", "what are the 5 largest" count the answers; "with 3 goals", "of the top 3" do not. Of 95
# questions to WikiTableQuestions' even tables that say such a number 17 were right before, and 20 are; of 96 to the odd
# ones 16 and 17.
_COUNTED = re.compile(
    rf"\W*(?:(?:{'|'.join(sorted(ASKING | ARTICLES))}|in|and|please|list|name|give|show|tell|me|us|top|bottom|most"
    r"|least|\w*est|\w+['’]s)\s+)*",
    re.IGNORECASE,
)


class Order(NamedTuple):
    """What a question asks to have sorted."""

    first: str  # the question that asks for the first alone
    most: int  # how many are asked for; 0: all
    is_way_told: bool = (
        True  # whether the highest or the lowest comes first; days without a word begin with the earliest
    )


def asked_order(text: str) -> Order | None:
    """How many of what are asked for in an order; None where one thing is, or no order.

    >>> asked_order("Which three gauges have the highest drift?")
    Order(first='Which gauges have the highest drift?', most=3, is_way_told=True)
    >>> asked_order("List the departments sorted by budget")
    Order(first='Which departments has the highest budget?', most=0, is_way_told=False)
    >>> asked_order("Show the parts from lightest to heaviest")
    Order(first='Which parts is the lightest?', most=0, is_way_told=True)
    """
    return _all_in_order(text) or _first_few(text)


def _first_few(text: str) -> Order | None:
    for quantity in figures(text):
        number = _FIRST.match(quantity.text)  # of "two yards" the two, for yards are what is asked for
        end = quantity.start + number.end() if number else quantity.end
        after = _AFTER.match(text, end)
        is_plain = quantity.kind == "number" and not (quantity.bound or quantity.weak) and number is not None
        # "In round 2" counts nothing: what is counted are several, and their name follows.
        are_several = after is not None and any(map(is_plural, words(after["words"])))
        count = quantity.bare or quantity.value
        if is_plain and are_several and count in range(2, MOST_TOLD + 1) and _counts_answers(text[: quantity.start]):
            by = _BY.search(text, end)
            if by and by.group()[:2].lower() == "by":  # "the top 2 names by hours"
                things, column = text[end : by.start()].strip(), _column_named(by[1])
                return Order(f"Which {things} has the {_way(text)} {column}?", int(count))
            return Order(f"{text[: quantity.start].rstrip()} {text[end:].lstrip()}", int(count))
    return None


def _way(text: str) -> str:
    return "lowest" if _RISING.search(text) else "highest"


def _counts_answers(before: str) -> bool:
    return _COUNTED.fullmatch(before.rpartition(",")[2]) is not None


def _column_named(text: str) -> str:
    return " ".join(takewhile(lambda word: word not in _BEHIND, text.split()))


def _all_in_order(text: str) -> Order | None:
    if match := _FROM.search(text):
        things, column = text[: match.start()], text[match.end() :].strip(" .?!")
        how = f"has the {match[1]} {column}" if column else f"is the {match[1]}"
    elif (match := _SORTED.search(text)) and (by := _BY.search(text, match.end())):
        things = text[match.end() : by.start()].strip(" ,") or text[: match.start()]
        how = f"has the {_way(text)} {_column_named(by[1])}"
    else:
        return None
    named = things.split()
    at = next((at for at, word in enumerate(named, 1) if word.lower() in ("the", "all")), 0)
    things = " ".join(named[at:]).strip(" ,")
    is_way_told = bool(_RISING.search(text) or _FALLING.search(text))
    return Order(f"Which {things} {how}?", 0, is_way_told) if things else None


def ordered_rows(text: str, choose: Callable[[str], TablePlan | None]) -> TablePlan | None:
    """The rows that are asked for, the first of them first; None where no order is asked for or no column is clear.

    `choose` gives the likeliest plan for a question.
    """
    order = asked_order(text)
    chosen = choose(order.first) if order else None
    for found in (chosen, chosen.other if chosen else None):
        # A column that no word of the question names is not what it asks to sort by.
        if order and found and found.plan.selections[0].by_quality > 0 and (widened := in_order(found, order)):
            return widened
    return None


def in_order(found: TablePlan, order: Order) -> TablePlan | None:
    """The plan for the first alone, widened; None where it is of no highest or lowest, or there are too few."""
    plan, view = found.plan, found.grid.view_of(found.plan)
    chosen = plan.selections[0]
    if chosen.kind not in ("max", "min") or not len(chosen.among):
        return None
    is_date, is_falling = view.is_date[chosen.by], chosen.kind == "max"
    if is_date and not order.is_way_told:
        is_falling = False
    sign = -1.0 if is_falling else 1.0
    among = np.array(chosen.among, np.int64)
    among = among[~np.isin(among, list(view.totals))]
    keys = sign * view.compared_by(chosen.by)[among]
    ranked = np.argsort(keys, kind="stable")[: int(np.sum(~np.isnan(keys)))]  # what has no number comes last
    if 0 < order.most < len(ranked):  # those that tie with the last one are as good as it
        ranked = ranked[keys[ranked] <= keys[ranked[order.most - 1]]]
    rows = tuple(int(row) for row in among[ranked[:MOST_TOLD]])
    is_named = plan.column == 0 or (plan.column > 0 and view.kinds[plan.column] == "text")
    naming = [plan.column] if is_named else _naming(view)
    names = tuple(", ".join(text for column in naming if (text := view.texts[row][column])) for row in rows)
    if len(rows) < max(2, order.most) or not all(names):  # a table that has fewer is not the one that is meant
        return None
    columns = (0,) if plan.grouped is not None else (*naming, chosen.by)
    cells: Places = tuple((row, column) for row in rows for column in columns)
    head = head_text(" ".join(view.grid.columns[chosen.by]))
    end = ("latest" if is_falling else "earliest") if is_date else ("highest" if is_falling else "lowest")
    label = f"{len(rows)} {end} by {head}" if order.most else f"By {head}, {end} first"
    if not order.most and len(ranked) > MOST_TOLD:
        label = f"{label}, {MOST_TOLD} of {len(ranked):,}"
    widened = plan._replace(
        operation="value",
        selections=(chosen._replace(rows=rows, number=float(order.most)),),
        column=0 if plan.grouped is not None else plan.column,
        kind="text",
        cells=cells,
        texts=names,
        number=None,
    )
    told = replace(found, plan=widened, other=None, label=label)
    return replace(told, formula="" if plan.grouped is not None else _amounts(told, rows, names))


def _amounts(found: TablePlan, rows: Sequence[int], names: Sequence[str]) -> str:
    """What each row was sorted by, with its unit: "Sinker: 350.0 kg; Ground chain: 84.0 kg"."""
    by, table = found.plan.selections[0].by, found.candidate.table
    told = []
    for row, name in zip(rows, names, strict=True):
        (cell,) = table.at([place_of(found.grid.grid, found.plan, row, by)]) or (None,)
        told += [f"{name}: {shown_value(cell.text, cell.unit, cell.scale)}"] if cell is not None else []
    return "; ".join(told)


# --- what does a table list under a name? -----------------------------------------------------------------------------

# Finds what a table lists under a name: the rows of a section, or those that a total is the sum of.
#
# "What does current assets consist of?" is answered by the names of the rows below "Current assets", as far as the
# row that adds them up; "What makes up total revenue?" by those above "Total revenue" whose numbers add up to it. Which
# rows these are is told by the numbers, in all columns that have any. Pure.

FEWEST = 2  # rows that are several
ROUNDED = 0.51  # by how much each number may be off in its last digit, which is what a sum differs by
# Chance that the rows are what is asked for: of ten questions to TAT-QA's even contexts that are answered so, seven are
# right to the word and two in part.
PARTS_CHANCE = 0.7
_NOT = "non"  # "non-current assets" are no "current assets"


class _Named(NamedTuple):
    """Rows that something of the question is the name of."""

    name: str
    mask: int  # words of the question that are this name
    rows: Sequence[int]


def table_parts(
    text: str, candidates: Iterable[FoundTable], passages: Iterable[str], *, is_list: bool = True
) -> TablePlan | None:
    """The rows of what the question names, in the first of these tables that has such a thing, most words first.

    `passages`: what was found, which tells what words are said together. Where no list is asked for (`is_list`), the
    question may not speak of a column, but for its time, and must say more of a total than its name.
    """
    asked = _AskedNames(text, passages, is_list)
    found: list[tuple[FoundTable, _Named]] = []
    for candidate in candidates:
        table = table_of(candidate.table)
        if not table.views or table.views[0].has_records or not (named := _named_rows(table.views[0], asked)):
            continue
        # A section that is called after the company of the report is not what a question means that names the company.
        if not document_words(candidate.document, text).issuperset(terms(named.name)):
            found.append((candidate, named))
    if not found:
        return None
    candidate, named = max(found, key=lambda option: option[1].mask.bit_count())
    table = table_of(candidate.table)
    chosen = Selection(tuple(named.rows), "equal", named.mask, 1.0, 0)
    cells = tuple((row, 0) for row in named.rows)
    labels = tuple(table.grid.rows[row][-1] for row in named.rows)
    plan = CellPlan(False, "value", (chosen,), 0, named.mask, 0.0, "text", cells, labels)
    return TablePlan(
        candidate, table, asked.words, plan, np.zeros(0, np.float32), chance=PARTS_CHANCE, label=named.name
    )


class _AskedNames:
    """What a question says, beside what is said in the passages that were found for it."""

    def __init__(self, text: str, passages: Iterable[str], is_list: bool) -> None:
        self.words, self._passages, self._is_list = AskedWords(text), passages, is_list
        self._metric = question_words(text).metric

    @cached_property
    def _found(self) -> str:
        return " ".join(" ".join(words(passage)) for passage in self._passages)

    def name(self, name: str, view: View) -> int:
        """The words of the question that are this name, side by side and alone; 0 where it says less or more.

        It says more where a word beside the name is said with it elsewhere too: "assets" are not what "current assets"
        asks for, but "what makes up assets" asks for them.
        """
        return self._name(name, view) or self._name(plain_name(name), view)

    def _name(self, name: str, view: View) -> int:
        own = [stem for stem in terms(name) if stem not in WHOLE_STEMS]
        mask, share = self.words.match(own)
        bits, stems = self.words.bits, self.words.stems
        places = [self.words.place[stem] for stem in own if stem in bits]
        if share < 1.0 or not places or (_NOT in stems and _NOT not in own):
            return 0
        first, last = min(places), max(places)
        is_whole = all(stem in own or stem not in bits for stem in stems[first:last])
        is_more = self._are_together(first - 1) or self._are_together(last)
        heads = {stem for head in view.names for stem in head}.difference(own)
        others = [stem for stem in heads if stem in bits and not self.words.of_time >> bits[stem] & 1]
        # "What were the total costs?" says nothing of a list.
        is_amount = self._metric <= {*own, *WHOLE_STEMS} and not WHOLE_STEMS.isdisjoint(stems)
        return mask if is_whole and not is_more and (self._is_list or not (others or is_amount)) else 0

    def _are_together(self, place: int) -> bool:
        """Does what was found say this word and the next one of the question together?"""
        pair = self.words.stems[max(0, place) : place + 2]
        are_telling = len(pair) == 2 and all(stem in self.words.bits and stem not in WHOLE_STEMS for stem in pair)
        return are_telling and f" {' '.join(self.words.words[place : place + 2])} " in f" {self._found} "


def _named_rows(view: View, asked: _AskedNames) -> _Named | None:
    """Those of the section, or of the total, of whose name the question says every word; of several the longest."""
    numbers = view.grid.numbers[:, 1:]
    options = [_Named(name, asked.name(name, view), _until_sum(rows, view, numbers)) for name, rows in _sections(view)]
    for row, path in enumerate(view.grid.rows):
        if mask := asked.name(path[-1], view):
            options.append(_Named(path[-1], mask, _addends(row, view, numbers)))
    # Of "other current assets" nothing may be listed, and then no current assets are what is asked for.
    most = max((option.mask.bit_count() for option in options), default=0)
    for option in options if most else ():
        is_several = FEWEST <= len(option.rows) <= MOST_TOLD
        # Who says the name of one of the rows asks for that one.
        if option.mask.bit_count() == most and is_several and not _says_row(option, view, asked):
            return option
    return None


def _says_row(option: _Named, view: View, asked: _AskedNames) -> bool:
    return any(asked.name(view.texts[row][0], view) for row in option.rows)


def _sections(view: View) -> list[tuple[str, list[int]]]:
    found: dict[str, list[int]] = {}
    for row, path in enumerate(view.grid.rows):
        if len(path) > 1:
            found.setdefault(path[0], []).append(row)
    return list(found.items())


def _until_sum(rows: Sequence[int], view: View, numbers: NDArray[np.float64]) -> list[int]:
    """The first of these rows, as far as the one that has no name or is their sum; what follows that is more."""
    found: list[int] = []
    for row in range(rows[0], rows[-1] + 1):
        is_sum = len(found) >= FEWEST and _adds_up(found, row, view, numbers)
        if not view.texts[row][0] or is_sum or row not in rows:
            break
        found.append(row)
    return [row for row in found if row not in view.totals]


def _addends(total: int, view: View, numbers: NDArray[np.float64]) -> list[int]:
    """The fewest rows right above that add up to this one."""
    for first in range(total - FEWEST, max(-1, total - MOST_TOLD - 1), -1):
        rows = list(range(first, total))
        if _adds_up(rows, total, view, numbers):
            return rows
    return []


def _adds_up(rows: Sequence[int], total: int, view: View, numbers: NDArray[np.float64]) -> bool:
    """Is this row the sum of those, in every column in which it has a number?"""
    own = numbers[total]
    filled = ~np.isnan(own)
    if not filled.any() or np.isnan(numbers[list(rows)][:, filled]).all():
        return False
    step = 10.0 ** -max(decimals_of(text) for text in view.texts[total][1:])
    added = np.nansum(numbers[list(rows)][:, filled], axis=0)
    off = np.abs(added - own[filled])
    is_some = np.abs(own[filled]) > 0
    return bool(is_some.any() and np.all(off <= ROUNDED * step * max(2, len(rows) - 1)))


def decimals_of(text: str) -> int:
    digits = text.rstrip(" )%").rpartition(".")
    return len(digits[2]) if digits[1] and digits[2].isdigit() else 0


# --- which cells tell a year? -----------------------------------------------------------------------------------------


def years_compared(plan: CellPlan, view: View) -> list[tuple[int, int]]:
    """The numbers by which a year was chosen: of all years where it is the highest or lowest, else its own."""
    if plan.operation != "year":
        return []
    chosen = plan.selections[0]
    rows = range(view.count) if chosen.kind in ("max", "min") else chosen.rows
    parts = [part for part in chosen.conditions or (chosen,) if part.by > 0]
    return [(row, part.by) for part in parts for row in rows if view.texts[row][part.by]]


def head_place(table: StoredTable, column: int) -> tuple[int, int]:
    """Where the head of a column stands: the nearest cell that says when, for a time may stand over several columns."""
    above = table.at((row, left) for row in range(table.head_rows) for left in range(column + 1))
    named = [cell for cell in above if without_marks(cell.text) in table.heads[column].path]
    timed = [cell for cell in named if YEAR_NUMBER.search(cell.text)] or named
    best = max(timed, key=lambda cell: (cell.column, cell.row), default=None)
    return (best.row, best.column) if best else (-1, column)
