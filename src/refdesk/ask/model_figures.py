"""Tables and models: asks a model which cells answer if no plan is certain, and checks the numbers a model writes.

It sees the question, heads and names of rows of the best tables; never is a number taken from its reply. What does not
fit the tables to the letter is no plan, and the question goes on as if no model had been asked. The numbers of what it
writes are looked up in the cells of the tables that it cites, and recomputed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from refdesk.answer import Context
from refdesk.ask.figures import Quantity, agrees, figures
from refdesk.ask.plan_choice import FoundTable, TablePlan, table_of
from refdesk.ask.plans import MOST_SINGLE, TableViews
from refdesk.ask.support import direction, positive
from refdesk.ask.table_question import LONGEST_NAME
from refdesk.ask.table_rows import asked_order, in_order
from refdesk.ask.table_view import MOST_AT_ONCE, AskedWords, CellPlan, Rows, Selection, View, compared
from refdesk.ask.wording import LIKELY
from refdesk.library import LibraryReader
from refdesk.models import estimate
from refdesk.periods import QUARTER_MONTHS, When, period_from
from refdesk.ports import LLM
from refdesk.prompts import PLAN_COMPARISONS, PLAN_OPERATIONS, PLAN_SCHEMA, PLAN_SYSTEM
from refdesk.records import MOST_CELLS, StoredCell, StoredTable
from refdesk.tables import SCALES, Grid, cell_date, cell_number, grid_of, shown_value, touches
from refdesk.text import QUERY_STOP_WORDS, rough_tokens, terms
from refdesk.trace import REPLY_TOKENS, Stage, in_thread, json_reply
from refdesk.types import Range

MOST_TABLES, MOST_NAMES = 3, 60  # that the model is shown
CHANCE = LIKELY  # medium: how often a model reads the right cells was not measured
PAIRED = {"difference": "difference", "growth": "growth", "ratio": "ratio", "share": "share"}


def request_text(question: str, tables: Sequence[FoundTable]) -> str:
    """The question, and of each table its heads, its rows, and what a column of names holds."""
    parts = [f"Question: {question}"]
    for number, found in enumerate(tables, 1):
        view = table_of(found.table).views[0]
        parts.append(f"Table {number}, {found.document.name}: {found.table.caption}"[: 4 * LONGEST_NAME])
        parts.append("columns: " + "; ".join(_short(name) for name in _heads(view)))
        names = [_short(" › ".join(path)) for path in view.grid.rows[: 1 if view.has_records else MOST_NAMES]]
        parts.append(f"{view.count:,} rows: " + "; ".join(names))
        parts += [f"{head} holds: {'; '.join(values)}" for head, values in _values(view) if view.has_records]
    return "\n".join(parts)


async def model_plan(
    question: str, tables: Sequence[FoundTable], model: LLM, limit_usd: float, stage: Stage
) -> TablePlan | None:
    """None where the reply is none of the schema, does not fit the tables, or says that none answers."""
    text = await in_thread(request_text, question, tables)
    expected = estimate(model.name, rough_tokens(PLAN_SYSTEM + text), REPLY_TOKENS)
    if expected is not None and expected > limit_usd:
        stage.gave(fell_back="it would cost more than answer.cost_limit_usd")
        return None
    reply = await json_reply(model, PLAN_SYSTEM, text, PLAN_SCHEMA, stage)
    found = await in_thread(read_plan, reply, question, tables, model.name)
    stage.gave(operation=found.plan.operation if found else "none")
    return found


def read_plan(reply: Mapping[str, Any], question: str, tables: Sequence[FoundTable], by: str = "") -> TablePlan | None:
    """The reply as a plan that was executed; `by`: the model that gave it."""
    number, operation = reply.get("table"), reply.get("operation")
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= len(tables):
        return None
    rows, columns = (_texts(reply.get(name)) for name in ("rows", "columns"))
    filters = reply.get("filters", [])
    if operation not in PLAN_OPERATIONS or operation == "none" or rows is None or columns is None:
        return None
    if not isinstance(filters, list) or not all(isinstance(filter_, dict) for filter_ in filters):
        return None
    chosen, asked = tables[number - 1], AskedWords(question)
    table = table_of(chosen.table)
    plan = _Reading(table, asked).plan(operation, rows, columns, filters)
    if plan is None:
        return None
    found, order = (
        TablePlan(chosen, table, asked, plan, np.zeros(0, np.float32), chance=CHANCE, by=by),
        asked_order(question),
    )
    return (in_order(found, order) if order else None) or found  # how many, the question says itself


class _Reading:
    """A reply over one table: names become places, then a plan."""

    def __init__(self, table: TableViews, asked: AskedWords) -> None:
        self.table, self.asked, self.view = table, asked, table.views[0]

    def plan(
        self, operation: str, rows: Sequence[str], columns: Sequence[str], filters: Sequence[Mapping[str, Any]]
    ) -> CellPlan | None:
        heads = [self._column(name) for name in columns]
        chosen = self._selection(rows, filters)
        if chosen is None or None in heads:
            return None
        places = [head for head in heads if head is not None]
        if operation in PAIRED:
            return self._pair(operation, chosen.rows, places)
        if operation == "count":
            return self._made(self.view, "count", (chosen,), -1, number=float(len(chosen.rows)))
        if len(places) > 1 and len(chosen.rows) == 1 and operation != "value":
            return self._over_columns(operation, chosen.rows[0], places)
        return self._over_rows(operation, chosen, places)

    # names

    def _column(self, name: str) -> int | None:
        found = [place for place, head in enumerate(_heads(self.view)) if _same(head, name)]
        found = found or [place for place, path in enumerate(self.view.grid.columns) if path and _same(path[-1], name)]
        return found[0] if len(found) == 1 else None

    def _selection(self, names: Sequence[str], filters: Sequence[Mapping[str, Any]]) -> Selection | None:
        """Rows of these names that fulfil every filter; None where a name or a column is not there."""
        conditions = []
        if names:
            places = [self._row(name) for name in names]
            if None in places:
                return None
            named = tuple(place for place in places if place is not None)
            conditions.append(Selection(named, "any", self._mask(" ".join(names)), 1.0, 0))
        for filter_ in filters:
            condition = self._filter(filter_)
            if condition is None:
                return None
            conditions.append(condition)
        if not conditions:
            return Selection(self.view.rows, "all", 0, 0.5)
        if len(conditions) == 1:
            return conditions[0]
        rows = conditions[0].rows
        for condition in conditions[1:]:
            rows = self.view.common(rows, condition.rows)
        return conditions[-1]._replace(rows=rows, conditions=tuple(conditions)) if len(rows) else None

    def _row(self, name: str) -> int | None:
        column = AskedWords(name)
        near = self.view.matched(column, 0) if column.bits else {}
        rows = [row for found in near.values() for row in found[: 4 * MOST_NAMES]]
        found = [row for row in rows if _same(self.view.texts[row][0], name)]
        found = found or [row for row in rows if _same(" › ".join(self.view.grid.rows[row]), name)]
        return found[0] if len(found) == 1 else None

    def _filter(self, condition: Mapping[str, Any]) -> Selection | None:
        column, way, value = (
            self._column(str(condition.get("column", ""))),
            condition.get("is"),
            str(condition.get("value", "")),
        )
        if column is None or way not in PLAN_COMPARISONS:
            return None
        mask = self._mask(value)
        if way == "equal":
            asked = AskedWords(value)
            whole = (1 << len(asked.bits)) - 1
            matched = self.view.matched(asked, column) if asked.bits else {}
            whole_matches = {key: rows for key, rows in matched.items() if key[0] == whole}
            exact = [rows for (_, share), rows in whole_matches.items() if share >= 1]
            rows = self.view.merged(exact or whole_matches.values()) if whole_matches else ()
            return Selection(rows, "equal", mask, 1.0, column) if len(rows) else None
        number = day if (day := cell_date(value)) is not None else cell_number(value)
        if number is None:
            return None
        keys = self.view.compared_by(column)
        flags = {"more": keys > number, "least": keys >= number, "less": keys < number, "most": keys <= number}
        rows = self.view.where(flags[way])
        return Selection(rows, way, mask, 1.0, column, 0.0, number) if len(rows) else None

    def _mask(self, text: str) -> int:
        return self.asked.match(terms(text))[0]

    # plans

    def _made(
        self,
        view: View,
        operation: str,
        selections: tuple[Selection, ...],
        column: int,
        cells: Sequence[tuple[int, int]] = (),
        texts: tuple[str, ...] = (),
        number: float | None = None,
    ) -> CellPlan:
        kind = "computed" if not texts else view.kinds[column]
        return CellPlan(view.turned, operation, selections, column, 0, 0.0, kind, cells, texts, number)

    def _over_rows(self, operation: str, chosen: Selection, columns: Sequence[int]) -> CellPlan | None:
        """One column of the rows; a second one is what is shown of the highest."""
        if not columns:
            return None
        column, view = columns[0], self.view
        if operation == "value":
            if len(columns) > 1 or len(chosen.rows) > MOST_SINGLE:
                return None
            cells = tuple((row, column) for row in chosen.rows if view.texts[row][column])
            texts = tuple(view.texts[row][column] for row, _ in cells)
            return self._made(view, "value", (chosen,), column, cells, texts) if texts else None
        if operation in ("largest", "smallest") and len(columns) == 2 and view.is_ordered[column]:
            kind = "max" if operation == "largest" else "min"
            best = next((rows for way, rows in view.extremes(chosen.rows, column) if way == kind), None)
            if best is None:
                return None
            picked = Selection(best, kind, chosen.mask, 1.0, column, among=chosen.rows)
            cells = tuple((row, columns[1]) for row in best)
            texts = tuple(view.texts[row][columns[1]] for row in best)
            return self._made(view, "value", (picked,), columns[1], cells, texts)
        if len(columns) > 1 or not view.is_number[column] or (added := view.added(chosen.rows, column)) is None:
            return None
        return self._computed(view, operation, chosen, column, added)

    def _computed(self, view: View, operation: str, chosen: Selection, column: int, added: Any) -> CellPlan:
        if operation in ("largest", "smallest"):
            number, row = added.highest if operation == "largest" else added.lowest
            text = (view.texts[row][column],)
            return self._made(view, operation, (chosen,), column, ((row, column),), text, number)
        number = added.total if operation == "sum" else added.total / len(added.cells)
        return self._made(view, operation, (chosen,), column, added.cells, number=number)

    def _turned(self) -> View | None:
        return self.table.views[1] if len(self.table.views) > 1 else None

    def _over_columns(self, operation: str, row: int, columns: Sequence[int]) -> CellPlan | None:
        """One row over several columns: the table seen the other way round."""
        view = self._turned()
        if view is None or 0 in columns:
            return None
        chosen = Selection(tuple(column - 1 for column in columns), "any", 0, 1.0, 0)
        added = view.added(chosen.rows, row + 1)
        return self._computed(view, operation, chosen, row + 1, added) if added is not None else None

    def _pair(self, operation: str, rows: Rows, columns: Sequence[int]) -> CellPlan | None:
        if len(rows) == 2 and len(columns) == 1:
            view, places, column = self.view, tuple(rows), columns[0]
        elif len(rows) == 1 and len(columns) == 2 and 0 not in columns and (turned := self._turned()) is not None:
            view, places, column = turned, tuple(column - 1 for column in columns), rows[0] + 1
        else:
            return None
        above, below = (view.number(place, column) for place in places)
        if above is None or below is None or (operation != "difference" and not below):
            return None
        number = above - below if operation == "difference" else compared(above, below)._asdict()[operation]
        both = tuple(Selection((place,), "equal", 0, 1.0, 0) for place in places)
        return self._made(view, operation, both, column, tuple((place, column) for place in places), number=number)


def _heads(view: View) -> list[str]:
    return [" › ".join(path) for path in view.grid.columns]


def _values(view: View) -> Iterator[tuple[str, list[str]]]:
    """What the columns of names hold, where that is little."""
    for column, head in enumerate(_heads(view)):
        if view.kinds[column] == "text" and view.distinct(view.rows, column) <= MOST_AT_ONCE:
            seen: dict[str, None] = {}
            for row in view.rows:
                seen.setdefault(view.texts[row][column])
                if len(seen) >= view.distinct(view.rows, column):
                    break
            yield head, [_short(text) for text in seen if text]


def _texts(found: Any) -> list[str] | None:
    return found if isinstance(found, list) and all(isinstance(text, str) for text in found) else None


def _same(text: str, other: str) -> bool:
    return terms(text) == terms(other) and bool(text.strip())


def _short(text: str) -> str:
    return " ".join(text.split())[:LONGEST_NAME]


SHARES = ("%", "pp")

Tables = Mapping[int, Sequence[StoredTable]]  # by number of passage


@dataclass(frozen=True, slots=True)
class NumberCheck:
    """What the cells say of the numbers of a claim, in plain words."""

    proved: tuple[Range, ...] = ()  # characters of the numbers and dates that cells give, or give computed
    computed: tuple[str, ...] = ()  # "27 % is (1,452 − 1,146) / 1,146"
    wrong: tuple[str, ...] = ()  # what the cells say instead
    missing: tuple[str, ...] = ()  # neither the cells nor the text give these


class _Cell(NamedTuple):
    """A number of a table with its names."""

    table: int
    row: int
    column: int
    label: str
    head: str
    text: str
    value: float  # with its scale
    quantity: Quantity | None
    is_asked: bool  # of a period that the claim names
    is_of: Callable[[When], bool] | None  # whether it is of a time; None where its own is not known

    @property
    def name(self) -> str:
        return ", ".join(filter(None, (self.label, self.head)))


def cites_tables(context: Context, order: Sequence[int]) -> bool:
    cited = (passage for passage in context.passages if passage.number in order)
    return any(chunk.kind == "table" for passage in cited for chunk in passage.chunks)


def cited_tables(context: Context, order: Sequence[int], library: LibraryReader) -> Tables:
    """The tables of the passages that are cited. Sheets are left out: of their rows the text says as much."""
    passages = {passage.number: passage for passage in context.passages if passage.number in order}
    chunks = [chunk for passage in passages.values() for chunk in passage.chunks if chunk.kind == "table"]
    found = [table for table in library.tables([chunk.id for chunk in chunks]) if 0 < len(table.cells) <= MOST_CELLS]
    return {
        number: [table for table in found if any(touches(chunk, table) for chunk in passage.chunks)]
        for number, passage in passages.items()
    }


def check_numbers(claim: str, tables: Sequence[StoredTable], text: str) -> NumberCheck:
    """`text`: all of the cited passages. Nothing is said where no row of the tables is what the claim speaks of."""
    stated = [figure for figure in figures(claim) if figure.kind == "number" and not figure.weak]
    if not stated or not tables:
        return NumberCheck()
    cells = list(_cells_of(claim, tables))
    if not cells:
        return NumberCheck()
    # "Deferred tax (note 16)": the 16 is part of a name, and no cell has it.
    names = [figure for label in {cell.label for cell in cells} for figure in figures(label)]
    stated = [quantity for quantity in stated if not any(agrees(quantity, other) for other in names)]
    return _Check(claim, stated, cells, text).result() if stated else NumberCheck()


class _Check:
    """The numbers of one claim beside the cells of the rows that it names."""

    def __init__(self, claim: str, stated: Sequence[Quantity], cells: Sequence[_Cell], text: str) -> None:
        self.claim, self.stated, self.cells, self.text = claim, stated, cells, text
        self.asked = [cell for cell in cells if cell.is_asked]
        # A column "Change in %" is of no year of its own.
        self.timely = [cell for cell in cells if cell.is_asked or cell.is_of is None] if self.asked else cells
        self.direction = direction(claim)
        self.computed: dict[Quantity, tuple[str, tuple[_Cell, ...]]] = {}
        for quantity in stated:
            if not self._given(quantity, self.timely) and (found := self._recomputed(quantity)) is not None:
                self.computed[quantity] = found

    def result(self) -> NumberCheck:
        proved: list[Range] = []
        wrong, missing = [], []
        for quantity in self.stated:
            shown = self.claim[quantity.start : quantity.end].strip()
            if self._given(quantity, self.timely) or quantity in self.computed or self._explains(quantity):
                proved.append((quantity.start, quantity.end))
            elif (instead := self._instead(quantity)) is not None:
                wrong.append(f"says {shown} where {instead}")
            elif not self._given(quantity, self.cells) and not self._is_said(quantity):
                missing.append(f"no cell gives {shown}, and it does not follow from the cited cells")
        if proved:
            proved += [
                (figure.start, figure.end)
                for figure in figures(self.claim)
                if figure.kind == "date" and self._dates(figure)
            ]
        return NumberCheck(
            tuple(proved), tuple(text for text, _ in self.computed.values()), tuple(wrong), tuple(missing)
        )

    def _given(self, quantity: Quantity, cells: Sequence[_Cell]) -> list[_Cell]:
        return [cell for cell in cells if cell.quantity is not None and _is_same(quantity, cell, self.direction)]

    def _dates(self, quantity: Quantity) -> bool:
        return any(cell.is_of is not None and any(map(cell.is_of, quantity.when)) for cell in self.cells)

    def _is_said(self, quantity: Quantity) -> bool:
        return any(agrees(quantity, other) for other in figures(self.text) if other.kind == "number")

    def _explains(self, quantity: Quantity) -> bool:
        """It is what another number of the claim was computed from: "27 % more than the 1,146 of the year before"."""
        used = [cell for _, cells in self.computed.values() for cell in cells]
        return bool(self._given(quantity, used))

    def _pairs(self) -> Iterator[tuple[_Cell, _Cell]]:
        """Two cells of one row, or of one column; one of them of the period that the claim names, if it names any."""
        for first, second in itertools.permutations(self.cells, 2):
            is_beside = first.table == second.table and (first.row == second.row) != (first.column == second.column)
            if is_beside and (not self.asked or first.is_asked or second.is_asked):
                yield first, second

    def _recomputed(self, quantity: Quantity) -> tuple[str, tuple[_Cell, ...]] | None:
        shown = self.claim[quantity.start : quantity.end].strip()
        for first, second in self._pairs():
            for value, formula, is_change in _derived(first, second, quantity):
                turned = is_change and self.direction and (value < 0) != (self.direction == "fall") and value
                if not turned and abs(abs(quantity.value) - abs(value)) <= 0.5 * quantity.step * (1 + 1e-9):
                    return f"{shown} is {formula}", (first, second)
        return None

    def _instead(self, quantity: Quantity) -> str | None:
        """What the cells say in its place, where there can be no doubt which cell that is."""
        rows = {(cell.table, cell.row) for cell in self.cells}
        if quantity.unit in SHARES and self.direction and len(rows) == 1 and not self._is_said(quantity):
            return self._change(quantity)
        if quantity.unit in SHARES or len({cell.label for cell in self.cells}) != 1 or len(self.asked) != 1:
            return None
        (cell,) = self.asked
        is_alone = sum(other.unit not in SHARES for other in self.stated) == 1
        is_elsewhere = bool(self._given(quantity, self.cells))  # the number of another year
        if not is_alone or not (is_elsewhere or not self._is_said(quantity)):
            return None
        unit = cell.quantity.unit if cell.quantity is not None else ""
        if quantity.unit and unit and quantity.unit != unit:
            return None
        return f"the cell of {cell.name} says {cell.text}"

    def _change(self, quantity: Quantity) -> str | None:
        """From the only other period of the row, or between the two that the claim names."""
        asked, others = self.asked, [cell for cell in self.cells if not cell.is_asked]
        if len(asked) == 2:
            first, second = sorted(asked, key=lambda cell: cell.head, reverse=True)
        elif len(asked) == 1 and len(others) == 1:
            first, second = asked[0], others[0]
        else:
            return None
        if not second.value or first.is_of is None or second.is_of is None:
            return None
        change = compared(first.value, second.value).growth
        return f"{first.text} of {first.name} and {second.text} of {second.head} are a change of {change:.1f} %"


def _derived(first: _Cell, second: _Cell, quantity: Quantity) -> Iterator[tuple[float, str, bool]]:
    """(value, formula, whether it is a change) of what two cells may be computed to, in the unit of the number."""
    a, b = first.value, second.value
    is_share = _unit(first) in SHARES and _unit(second) in SHARES
    if quantity.unit in SHARES:
        if b:
            yield compared(a, b).growth, f"({first.text} − {second.text}) / {second.text}", True
            yield compared(a, b).share, f"{first.text} / {second.text}", False
        if is_share:
            yield a - b, f"{first.text} − {second.text}", True
        return
    if quantity.unit and {quantity.unit} - {_unit(first), _unit(second), ""} and (_unit(first) or _unit(second)):
        return
    yield a - b, f"{first.text} − {second.text}", True
    yield a + b, f"{first.text} + {second.text}", False
    if b and not quantity.unit:
        yield a / b, f"{first.text} / {second.text}", False


def _unit(cell: _Cell) -> str:
    return cell.quantity.unit if cell.quantity is not None else ""


def _is_same(quantity: Quantity, cell: _Cell, way: str) -> bool:
    cell_quantity = cell.quantity
    if cell_quantity is None:
        return False
    if agrees(quantity, cell_quantity) or (way == "fall" and agrees(quantity, positive(cell_quantity))):
        return True
    # "82,959" of a table in millions, where the claim does not say so
    plain = figures(shown_value(cell.text, "", ""))
    return bool(plain) and not quantity.unit and agrees(quantity, plain[0])


# --- which cells does a claim speak of? -------------------------------------------------------------------------------


def _cells_of(claim: str, tables: Sequence[StoredTable]) -> Iterator[_Cell]:
    stems = frozenset(terms(claim))
    dates = [when for figure in figures(claim) if figure.kind == "date" for when in figure.when if when.year]
    for number, table in enumerate(tables):
        grid = _grid(table)
        rows = _named_rows(grid, stems)
        for row in rows if len(rows) <= MOST_AT_ONCE else ():
            place = grid.places[row]
            for cell in table.at((place, column) for column in range(1, grid.width)):
                if cell.number is not None:
                    yield _cell(number, row, cell, grid, dates)


def _named_rows(grid: Grid, stems: frozenset[str]) -> list[int]:
    """Rows whose name is said by the claim, but for those whose name is a part of another's that is said."""
    found: dict[int, frozenset[str]] = {}
    for row, path in enumerate(grid.rows):
        own = frozenset(stem for stem in terms(path[-1]) if stem not in QUERY_STOP_WORDS) if path else frozenset()
        if own and own <= stems:
            found[row] = own
    fullest = [row for row, own in found.items() if not any(own < other for other in found.values())]
    in_section = [row for row in fullest if len(grid.rows[row]) > 1 and {*terms(grid.rows[row][0])} & stems]
    return in_section or fullest


def _cell(table: int, row: int, cell: StoredCell, grid: Grid, dates: Sequence[When]) -> _Cell:
    text = shown_value(cell.text, cell.unit, cell.scale)
    read = figures(text)
    head = " ".join(grid.columns[cell.column])
    value = (cell.number or 0.0) * SCALES.get(cell.scale, 1.0)
    is_of = _period_of(cell, head)
    is_asked = is_of is not None and any(is_of(when) for when in dates)
    label = " ".join(grid.rows[row])
    quantity = read[0] if read and read[0].kind == "number" else None
    return _Cell(table, row, cell.column, label, head, text, value, quantity, is_asked, is_of)


def _period_of(cell: StoredCell, head: str) -> Callable[[When], bool] | None:
    """Whether the cell is of a time that a claim names; None where it is of no time that is known."""
    if cell.period:
        period = period_from(cell.period)

        def is_of(when: When) -> bool:
            is_quarter = bool(period.quarter) or period.months == QUARTER_MONTHS
            if when.year != period.year or bool(when.quarter) != is_quarter:
                return False
            return not (when.quarter and period.quarter) or when.quarter == period.quarter

        return is_of
    dates = [when for figure in figures(head) if figure.kind == "date" for when in figure.when]
    return (lambda when: any(other.covers(when) for other in dates)) if dates else None


@lru_cache
def _grid(table: StoredTable) -> Grid:
    return grid_of(table)
