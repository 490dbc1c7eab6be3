"""Finds what a table lists under a name: the rows of a section, or those that a total is the sum of.

"What does current assets consist of?" is answered by the names of the rows below "Current assets", as far as the row
that adds them up; "What makes up total revenue?" by those above "Total revenue" whose numbers add up to it. Which rows
these are is told by the numbers, in all columns that have any. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.plan_choice import FoundTable, TablePlan, table_of
from refdesk.ask.sentences import question_words
from refdesk.ask.table_question import WHOLE_STEMS, plain_name
from refdesk.ask.table_view import AskedWords, CellPlan, Selection, View
from refdesk.ask.wording import YEAR_NUMBER
from refdesk.records import StoredTable
from refdesk.tables import without_marks
from refdesk.text import terms, words

FEWEST = 2  # rows that are several
MOST = 20  # rows that are told
ROUNDED = 0.51  # by how much each number may be off in its last digit, which is what a sum differs by
# Chance that the rows are what is asked for: of ten questions to TAT-QA's even contexts that are answered so, seven are
# right to the word and two in part.
CHANCE = 0.7
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
        if table.views and not table.views[0].is_sheet and (named := _named_rows(table.views[0], asked)):
            found.append((candidate, named))
    if not found:
        return None
    candidate, named = max(found, key=lambda option: option[1].mask.bit_count())
    table = table_of(candidate.table)
    chosen = Selection(tuple(named.rows), "equal", named.mask, 1.0, 0)
    cells = tuple((row, 0) for row in named.rows)
    labels = tuple(table.grid.rows[row][-1] for row in named.rows)
    plan = CellPlan(False, "value", (chosen,), 0, named.mask, 0.0, "text", cells, labels)
    return TablePlan(candidate, table, asked.words, plan, np.zeros(0, np.float32), chance=CHANCE, label=named.name)


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
        is_several = FEWEST <= len(option.rows) <= MOST
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
    for first in range(total - FEWEST, max(-1, total - MOST - 1), -1):
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
