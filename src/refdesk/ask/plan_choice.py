"""Chooses the plan and table that answer a question: compares all plans over the likeliest tables.

A word of the question that the document's name, its title or the text above a table says is no word that the table
itself must hold: "Amazon's net income in 2019" is asked of Amazon's tables as "net income in 2019". Pure.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.plans import TableViews, stated
from refdesk.ask.sentences import question_words
from refdesk.ask.sheet_view import sheet_view
from refdesk.ask.table_question import (
    AskedForm,
    RenamedRow,
    asked_forms,
    asking_clause,
    core_name,
    describe,
    document_words,
    is_of_other_length,
    length_asked,
    renamed,
    weights,
    without_names,
)
from refdesk.ask.table_view import MOST_TOLD, AskedWords, CellPlan, Places, View, head_words
from refdesk.ask.wording import KEPT, LIKELY
from refdesk.forms import is_form
from refdesk.periods import TablePeriod, alike, period_from, period_of, read_period, spoken_periods
from refdesk.ports import NoReader, Reader
from refdesk.records import MOST_CELLS, StoredCell, StoredTable
from refdesk.tables import Grid, cell_number, grid_of, month_words, spoken_heads, unit_of
from refdesk.text import QUERY_STOP_WORDS, terms
from refdesk.types import Document

FILE = "plan_choice.npz"
UNKNOWN_IDF = 6.0  # of a word that no idf is known of
SAME_DIGITS = 4  # behind the point, in which two numbers are one
MOST_PLANS = 10  # that a reader judges, and of one table that are compared with those of others
THEN = 0.25  # for a table that has a column of the time asked for, beside the share of words and the search's score
MOST_TABLES = 8  # that plans are made for: the best by the words they hold and by what the search gave
UNSURE = LIKELY  # what a chance is multiplied by of a figure of another length of time, or whose column nothing tells
PART = 1.5  # log-odds that a plan loses whose row is a part of another plan's
SMALLER = 0.8  # of a number, below which another one of the same name is a part of it
SUREST = 0.98  # chance of a plan among several ways to say a question
NEARLY = LIKELY  # of the best chance, from which on another reading is named beside it
Pair = tuple[float, float]
CLAUSE = re.compile(r"[.;:]\s")
MISSING, COLUMN_UNSAID, IS_THEN, IS_ASSUMED = 5, 9, 18, 26  # places among the features of a plan
# A day, though only its year is named.
AT_END = re.compile(r"\b(?:at|as of|by)\b[\w\s-]{0,12}\bend\b|\byear[- ]end\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table that may hold the answer, and how well the search found it (0 to 1)."""

    table: StoredTable
    document: Document
    score: float


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A plan over one table: how it ranks among those of its table, and what tells it from those of others."""

    candidate: FoundTable
    grid: TableViews
    question: AskedWords
    plan: CellPlan
    features: NDArray[np.float32]
    asked: str = ""  # the question as the judge gets it: times as the table names them, else in one spelling
    renamed: str = ""  # the question in the words of its row, where it has other words for that
    means: float = 1.0  # the chance that it is this row that is meant
    chance: float = 0.0  # that it answers
    by: str = ""  # the model that chose its cells, where one did
    other: TablePlan | None = None  # nearly as likely, and gives something else
    asked_months: int = 0  # of the time that is asked for, where the figure is of a longer or shorter one
    label: str = ""  # what it is called, where the plan in words does not say it
    formula: str = ""  # what its rows were chosen by, where the plan does not say it

    @property
    def stated(self) -> str:
        return stated(self.plan, self.grid, self.question)

    @property
    def guesses_column(self) -> bool:
        """Is a number read of a row by its name alone? "How tall is the WB-7?" has no word for a column "Revenue"."""
        if self.plan.operation != "value" or self.plan.kind != "number" or not len(self.features):
            return False
        is_untold = self.features[COLUMN_UNSAID] == 1.0 and not self.features[IS_THEN]
        return bool((is_untold or self.features[IS_ASSUMED]) and self.features[MISSING] > 0.0)

    @property
    def tells_its_only_year(self) -> bool:
        """Is it the year of all columns of its table? "When was it acquired?" is not answered by that of its sales."""
        years = {_period(period).year for period in self.candidate.table.periods}
        return self.plan.operation == "year" and len(years) == 1

    @property
    def keeps_order(self) -> bool:
        """Do its rows come as the question names them? "In 2018 and 2019" asks for that of 2018 first."""
        view, place = self.grid.view_of(self.plan), self.question.place
        named = [
            [place[stem] for stem in view.cells[row][0] if stem in place] for row, _ in self.plan.cells[:MOST_TOLD]
        ]
        # A word of all of them does not tell them apart: the last of its words does.
        return all(max(before, default=0) <= max(after, default=0) for before, after in itertools.pairwise(named))


def best_plan(
    text: str,
    candidates: Iterable[FoundTable],
    idf: Mapping[str, float],
    number: float,
    reader: Reader,
    *,
    may_rename: bool = True,
    unknown: Set[str] = frozenset(),
) -> TablePlan | None:
    """The likeliest plan over all tables; None where no table shares a word with the question.

    `may_rename`: rows may be called otherwise than the question does; `unknown`: stems that stand nowhere.
    """
    names = reader if may_rename else NoReader()
    found, scores = shortlist(plans_over(text, candidates, idf, number, names, unknown))
    if not found:
        return None
    length = length_asked(text, read_period(text))
    found = [replace(plan, asked_months=length) if _is_of_other_length(plan, length) else plan for plan in found]
    chances = _chances(found, scores, np.array(judge_plans(found, reader)))
    chances *= [UNSURE if plan.asked_months else 1.0 for plan in found]
    first, *others = [int(place) for place in np.argsort(-chances)]
    other = (
        replace(found[others[0]], chance=float(chances[others[0]]))
        if others and chances[others[0]] >= NEARLY * chances[first]
        else None
    )
    return replace(found[first], chance=float(chances[first]), other=other)


def _is_of_other_length(plan: TablePlan, length: int) -> bool:
    """Does it read a number of another length of time than is asked for? A sum of quarters is a year's."""
    cells = _used(plan.candidate, plan.grid, plan.plan) if length and plan.plan.operation == "value" else []
    report = report_period(plan.candidate.document)
    return any(is_of_other_length(_period(cell.period), length, report) for cell in cells)


def _chances(
    found: Sequence[TablePlan], scores: NDArray[np.float64], judged: NDArray[np.float64]
) -> NDArray[np.float64]:
    """That each plan answers: the question in its own words, or in those of the row that may be meant.

    Plans for the same words compete by their log-odds, the ways to say the question by the odds of their best plans.
    """
    chances = np.zeros(len(found))
    ways = [np.array([plan.renamed == text for plan in found]) for text in {plan.renamed for plan in found}]
    for own in ways:
        ranked = scores[own]
        if len(judged):
            ranked = beside(ranked, judged[own]) @ choice("judged")[:-1] + choice("judged")[-1]
        ranked = ranked - PART * _are_parts([plan for plan, is_own in zip(found, own, strict=True) if is_own])
        odds = np.exp(ranked - max(ranked.max(), 0.0))
        none = math.exp(-max(ranked.max(), 0.0))  # no table answers: a score of 0
        chances[own] = odds / (odds.sum() + none)
    chances *= [plan.means * (UNSURE if plan.guesses_column else 1.0) for plan in found]
    if len(ways) > 1:
        best = [min(float(chances[own].max()), SUREST) for own in ways]
        total = 1.0 + sum(chance / (1.0 - chance) for chance in best)
        for own, chance in zip(ways, best, strict=True):
            chances[own] *= 1.0 / ((1.0 - chance) * total)
    return chances


class _RowRead(NamedTuple):
    """What a plan reads of one row: its name, the times, and how large the numbers are."""

    name: frozenset[str]
    times: frozenset[str]
    document: str
    places: frozenset[tuple[int, int]]  # table and row
    size: float
    around: frozenset[str]  # words of its sections and of the text above the table


def _are_parts(found: Sequence[TablePlan]) -> NDArray[np.bool_]:
    """Which plans read a row that another one has as a whole?

    "Research and development" of the stock-based compensation is a part of all that is spent on it. Who names nothing
    but the row means the whole; a question with a word from around the part may mean the part.
    """
    rows = [_row_read(plan) for plan in found]
    is_part = np.zeros(len(found), dtype=bool)
    for at, (own, plan) in enumerate(zip(rows, found, strict=True)):
        for other in rows:
            if own is None or other is None or own[:3] != other[:3] or own.places == other.places:
                continue
            if own.size < SMALLER * other.size:
                asked = plan.question.bits.keys() & (own.around - other.around - own.name)
                is_part[at] |= not asked
    return is_part


def _row_read(plan: TablePlan) -> _RowRead | None:
    """None where it reads several rows, no number, or per cent."""
    grid, table = plan.grid.grid, plan.candidate.table
    used = _used(plan.candidate, plan.grid, plan.plan)
    rows = {cell.row: bisect_left(grid.places, cell.row) for cell in used}  # a sheet has 100,000 of them
    paths = {row: grid.rows[at] for row, at in rows.items() if at < len(grid.places) and grid.places[at] == row}
    names = {frozenset(terms(core_name(path[-1]))) for path in paths.values() if path}
    if len(names) != 1 or any(cell.unit == "%" for cell in used):
        return None
    sections = " ".join(part for path in paths.values() for part in path[:-1])
    around = frozenset(terms(f"{sections} {CLAUSE.split(table.caption)[-1]}"))
    times = frozenset(cell.period for cell in used)
    places, size = frozenset((table.id, row) for row in paths), max(abs(cell.number or 0.0) for cell in used)
    return _RowRead(names.pop(), times, table.document_id, places, size, around)


def beside(scores: NDArray[np.float64], judged: NDArray[np.float64] | Sequence[float]) -> NDArray[np.float64]:
    """The log-odds of plans with what the judge says: of each against the best, and of the best.

    A question with many words around it makes the judge doubt every plan; which of them it doubts least still tells.
    """
    logits = np.array(judged)
    return np.stack([scores, logits - logits.max(), np.full(len(logits), logits.max())], axis=1)


def judge_plans(found: Sequence[TablePlan], reader: Reader) -> list[float]:
    """What the reader says of each plan.

    It has learned from questions that name a time as the table does, so it gets them so: "in the third quarter of 2022"
    is asked of the column "Three Months Ended June 25, 2022" by that name.
    """
    judged: list[float] = []
    for asked, plans in itertools.groupby(found, key=lambda plan: plan.asked):
        judged += reader.judge_plans(asked, [plan.stated for plan in plans])
    return judged


def as_meant(scores: NDArray[np.float64], found: Sequence[TablePlan]) -> NDArray[np.float64]:
    """Log-odds of plans that answer what their rows are called, as those of plans that answer what is asked."""
    means = np.array([plan.means for plan in found])
    chances = means / (1.0 + np.exp(-scores))
    return np.where(means < 1.0, np.log(chances / (1.0 - chances)), scores)


def shortlist(found: Sequence[TablePlan]) -> tuple[list[TablePlan], NDArray[np.float64]]:
    """The likeliest plans that give different things, with their log-odds.

    What several tables say is likelier than what one does, so that the odds of plans which give the same are added.
    """
    if not found:
        return [], np.zeros(0)
    learned = choice("plans").astype(np.float64)
    raw = np.array([plan.features for plan in found]) @ learned[:-1] + learned[-1]
    scores = as_meant(raw, found)
    best: dict[object, int] = {}
    odds: dict[object, float] = {}
    for at in np.argsort(-scores).tolist():
        key = result(found[at].plan)
        if key not in best or (not found[best[key]].keeps_order and found[at].keeps_order):
            best[key] = at
        odds[key] = float(np.logaddexp(odds.get(key, -np.inf), scores[at]))
    chosen = sorted(odds, key=lambda key: -odds[key])[:MOST_PLANS]
    plans = [found[best[key]] for key in chosen]
    # Whether the row is meant is weighed last, once.
    own = [odds[key] if plan.means == 1.0 else raw[best[key]] for key, plan in zip(chosen, plans, strict=True)]
    return plans, np.array(own)


def result(plan: CellPlan) -> object:
    """What a plan gives, so that equal results are known as such, in whatever order."""
    if plan.texts:
        given = (number if (number := cell_number(text)) is not None else text.lower() for text in plan.texts)
        return tuple(sorted(given, key=str))
    return round(plan.number or 0.0, SAME_DIGITS)


def likeliest_tables(text: str, candidates: Iterable[FoundTable], idf: Mapping[str, float]) -> list[FoundTable]:
    """The best by the words they hold and by what the search gave, as far as a question can be asked of them."""
    ranked = sorted(candidates, key=_Asked(text, idf, 0.0).worth, reverse=True)
    return [candidate for candidate in ranked if table_of(candidate.table).views]


def plans_over(
    text: str,
    candidates: Iterable[FoundTable],
    idf: Mapping[str, float],
    number: float,
    reader: Reader,
    unknown: Set[str] = frozenset(),
) -> list[TablePlan]:
    """The best plans of every table that may answer; `number` is the chance that the question asks for one."""
    asked = _Asked(text, idf, number)
    names, meant = _of_what_is_named(text, candidates)
    known = frozenset(stem for table in meant for stem in document_words(table.document, text))
    others = renamed(text, [table.table for table in meant], known, unknown | names, reader)
    read = [(found_table, rows) for found_table, rows in zip(meant, others, strict=True) if rows or not names]
    ranked = sorted(read, key=lambda pair: asked.worth(*pair), reverse=True)[:MOST_TABLES]
    asked.named = asked.weights.keys() & {
        stem for found_table, _ in ranked for stem in document_words(found_table.document, text)
    }
    most = max((candidate.score for candidate, _ in ranked), default=0.0) or 1.0
    return [plan for candidate, rows in ranked for plan in asked.plans(candidate, candidate.score / most, rows)]


def _of_what_is_named(text: str, candidates: Iterable[FoundTable]) -> tuple[Set[str], list[FoundTable]]:
    """Those that hold most of the names in the question: another company's table has the same rows, and no answer.

    The names come first where nothing holds any of them. Then they are names of rows that have other ones, or of
    something that no table speaks of, however well a row and a year fit.
    """
    clause = asking_clause(text)
    times = {stem for start, end in spoken_periods(clause) for stem in terms(clause[start:end])}
    asked = question_words(clause)
    names = asked.sentence.names - times
    held = [
        (sum(name in around or name in vocabulary(candidate.table) for name in names), candidate)
        for candidate in candidates
        for around in [context_words(candidate, text)]
    ]
    most = max((count for count, _ in held), default=0)
    sure = asked.named - asked.sentence.numbers - times  # any word may begin a question with a capital
    return frozenset() if most else sure, [one for count, one in held if count == most]


class _Asked:
    """The words of a question and how telling each is."""

    def __init__(self, text: str, idf: Mapping[str, float], number: float) -> None:
        self.text, self.number = text, number
        self.stems = list(AskedWords(text).bits)
        self.weights = {stem: idf.get(stem, UNKNOWN_IDF) for stem in self.stems}
        self.total = sum(self.weights.values()) or 1.0
        self.when, self.years = read_period(text), period_of(text).years
        self.of_when = frozenset(stem for start, end in spoken_periods(text) for stem in terms(text[start:end]))
        self.asks_of_day = bool(self.when.end and not self.when.months) or AT_END.search(text) is not None
        self.says_percent = unit_of(text) == "%"
        self.named: Set[str] = frozenset()  # its words that name any of the documents searched: the company, the year

    def share(self, stems: Iterable[str]) -> float:
        """Of the question's weight, that of these words."""
        return sum(self.weights[stem] for stem in stems) / self.total

    def worth(self, candidate: FoundTable, rows: Sequence[RenamedRow] = ()) -> float:
        own, around = vocabulary(candidate.table), context_words(candidate, self.text)
        missing = [stem for stem in self.stems if stem not in own and stem not in around]
        covered = 1.0 - self.share(missing)
        covered += max((row.chance * self.share(row.said.intersection(missing)) for row in rows), default=0.0)
        is_then = self.when.year and any(_period(when).is_of(self.when) for when in candidate.table.periods)
        return covered + candidate.score + (THEN if is_then else 0.0)

    def plans(self, candidate: FoundTable, relative: float, rows: Sequence[RenamedRow]) -> list[TablePlan]:
        table = table_of(candidate.table)
        if not table.views:
            return []
        names = document_words(candidate.document, self.text)
        own = without_names(self.text, {stem for stem in names if stem not in table.views[0].vocabulary})
        return [
            plan
            for row in (RenamedRow(own), *rows)
            for form in asked_forms(row.text, candidate.table, report_period(candidate.document))
            for plan in self._of_form(candidate, relative, form, row)
        ]

    def _of_form(self, candidate: FoundTable, relative: float, form: AskedForm, row: RenamedRow) -> list[TablePlan]:
        table, around = table_of(candidate.table), context_words(candidate, self.text)
        vocabulary = table.views[0].vocabulary
        question = AskedWords(form.text, around=frozenset(stem for stem in around if stem not in vocabulary))
        plans = [plan for plan in table.plans(question) if not self._is_said(plan)]
        if _is_form(candidate.table):  # each value is of another kind: it is named, not counted, compared or computed
            plans = [plan for plan in plans if (plan.operation, plan.selections[0].kind) == ("value", "equal")]
        if form.is_assumed and form.columns:  # these are read, and nothing is computed over them
            plans = [plan for plan in plans if _columns(table, plan) <= form.columns and plan.operation == "value"]
        if not plans:
            return []
        scores = weights().scores(describe(question, table, plans))
        best = np.argsort(-scores[:-1])[:MOST_PLANS]
        asked = form.text.lower() if form.columns else alike(form.text.lower())
        described = [
            self._features(candidate, table, question, plans[at], around, relative, (scores[at], scores[-1]), form, row)
            for at in best.tolist()
        ]
        return [
            TablePlan(candidate, table, question, plans[at], features, asked, row.text if row.said else "", row.chance)
            for at, features in zip(best.tolist(), described, strict=True)
        ]

    def _is_said(self, plan: CellPlan) -> bool:
        """Does it give back what the question says itself? "What did gauge 0418 record?" does not ask for 0418."""
        lowered = self.text.lower()
        return plan.operation == "value" and bool(plan.texts) and all(text.lower() in lowered for text in plan.texts)

    def _features(
        self,
        candidate: FoundTable,
        table: TableViews,
        question: AskedWords,
        plan: CellPlan,
        around: frozenset[str],
        relative: float,
        scores: Pair,
        form: AskedForm,
        row: RenamedRow,
    ) -> NDArray[np.float32]:
        """`scores`: its own and that of `none`."""
        score, none = scores
        covered = {stem for stem, bit in question.bits.items() if plan.mask >> bit & 1 and stem in self.weights}
        asked = self.weights.keys() | question.bits.keys()
        used = _used(candidate, table, plan)
        timed = [cell for cell in used if _period(cell.period).year]
        when = [_period(cell.period) for cell in timed]
        if form.columns is None or form.is_assumed:
            is_then = bool(when) and self._asks_of(when)
        else:
            is_then = bool(when) and {cell.column for cell in timed} <= form.columns
        if is_then:
            covered |= self.of_when & self.weights.keys()
        covered |= row.said & self.weights.keys()
        caption = CLAUSE.split(candidate.table.caption)[-1]
        is_percent = unit_of(caption) == "%" or any(cell.unit == "%" for cell in used)
        missing = [stem for stem in self.stems if stem not in covered and stem not in around]
        labels, sections, column = _names(table.view_of(plan), plan)
        return np.array(
            [
                score,
                score - none,
                relative,
                self.share(covered),
                self.share(stem for stem in around if stem in self.weights and stem not in covered),
                self.share(missing),
                max((self.weights[stem] for stem in missing), default=0.0) / UNKNOWN_IDF,
                _unsaid(labels, asked),
                _unsaid(sections, asked),
                _unsaid(column, asked),
                plan.kind == "computed",
                plan.operation == "value" and plan.kind == "number",
                plan.operation == "count",
                len(plan.texts) > 1,
                plan.selections[0].kind in ("equal", "both", "any"),
                _twins(table.view_of(plan), plan) * _unsaid(sections, asked),
                self.number * (plan.kind in ("number", "computed")),
                self.number * (plan.kind == "text"),
                is_then,
                bool(when) and bool(self.years) and not is_then,
                bool(when) and not self.years,
                any(self.when.length and period.length and period.length != self.when.length for period in when),
                self.asks_of_day and any(period.months for period in when),
                self.asks_of_day and any(period.end and not period.months for period in when),
                is_percent and not self.says_percent,
                is_percent and self.says_percent,
                form.is_assumed,
                self.share(stem for stem in self.named - around if stem not in covered),
            ],
            dtype=np.float32,
        )

    def _asks_of(self, when: Sequence[TablePeriod]) -> bool:
        """Are these the times that the question names?"""
        if self.when:
            return all(period.is_of(self.when) for period in when)
        return bool(self.years) and {period.year for period in when} <= self.years


def _unsaid(stems: frozenset[str], asked: Set[str]) -> float:
    """Share of these words that the question does not say."""
    own = [stem for stem in stems if stem not in QUERY_STOP_WORDS]
    return sum(stem not in asked for stem in own) / len(own) if own else 0.0


def _columns(table: TableViews, plan: CellPlan) -> frozenset[int]:
    """Those of the stored table that a plan reads."""
    return frozenset(place_of(table.grid, plan, row, column)[1] for row, column in read_cells(plan)[:MOST_TOLD])


def _used(candidate: FoundTable, table: TableViews, plan: CellPlan) -> list[StoredCell]:
    """The numbers that a plan reads, as they are kept."""
    places = [place_of(table.grid, plan, row, column) for row, column in read_cells(plan)[:MOST_TOLD]]
    return [cell for cell in candidate.table.at(places) if cell.number is not None]


@lru_cache(maxsize=KEPT)
def _period(text: str) -> TablePeriod:
    return period_from(text) if text else TablePeriod()


def _names(view: View, plan: CellPlan) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The words of the rows that were chosen, of the sections they stand in, and of the column that is read."""
    rows = [row for selection in plan.selections for row in selection.rows[:4]]
    labels = frozenset(stem for row in rows for stem in view.cells[row][0])
    sections = frozenset(stem for row in rows for stem in view.sections[row])
    return labels, sections, frozenset(view.names[plan.column]) if plan.column >= 0 else frozenset()


def _twins(view: View, plan: CellPlan) -> float:
    """How many rows have the name of the one that was chosen: "Net sales" of every region."""
    row, *others = plan.selections[0].rows or (-1,)
    if others or row < 0:
        return 0.0
    return math.log(max(1, view.twins(row)))


def vocabulary(table: StoredTable) -> Container[str]:
    return sheet_view(table).vocabulary if table.cell_count > MOST_CELLS else _vocabulary(table)


@lru_cache(maxsize=KEPT)
def _vocabulary(table: StoredTable) -> frozenset[str]:
    heads = (
        stem for head in spoken_heads([head.path for head in table.heads]) for part in head for stem in head_words(part)
    )
    texts = (*(cell.text for cell in table.cells), *month_words(table).values())
    return frozenset(terms(" ".join(texts))).union(heads)


def context_words(candidate: FoundTable, text: str) -> frozenset[str]:
    """What is said around the table: the document's name and title, the headings and the text above it; around a value
    of a form, which is of one thing, also all else that it says: "the registration of the Volvo".
    """
    around = document_words(candidate.document, text) | _context_words(candidate.table.caption)
    return around | _vocabulary(candidate.table) if _is_form(candidate.table) else around


def report_period(document: Document) -> TablePeriod:
    """The time that its name, else its title, says it is of."""
    return read_period(document.name.replace("_", " ")) or read_period(document.title)


@lru_cache(maxsize=KEPT)
def _is_form(table: StoredTable) -> bool:
    return not table.head_rows and table.cell_count <= MOST_CELLS and is_form(table.rows())


@lru_cache(maxsize=KEPT)
def _context_words(text: str) -> frozenset[str]:
    return frozenset(terms(text))


def table_of(table: StoredTable) -> TableViews:
    if table.cell_count > MOST_CELLS:
        view = sheet_view(table)
        return TableViews(view.grid, [view])
    return _table_of(table)


@lru_cache
def _table_of(table: StoredTable) -> TableViews:
    return TableViews(grid_of(table))


@cache
def choice(name: str) -> NDArray[np.float32]:
    """The weights of the features and a constant, learned by `training/plan_choice.py`."""
    with resources.files("refdesk.assets").joinpath(FILE).open("rb") as file, np.load(file) as kept:
        learned: NDArray[np.float32] = kept[name]
    return learned


def read_cells(plan: CellPlan) -> Places:
    """The cells of the table, or of the turned one, that a plan reads."""
    return plan.cells if plan.grouped is None else tuple(plan.grouped.used(plan.cells, plan.selections[0].by))


def place_of(grid: Grid, plan: CellPlan, row: int, column: int) -> tuple[int, int]:
    """Of a cell of a view, its row and column in the stored table; the name of a column stands in the head."""
    if not plan.turned:
        return grid.places[row], column
    return (grid.places[column - 1] if column else -1), row + 1
