"""Which plan does a model make of a question, where the learned one is not sure? Its reply is checked and executed.

The model sees the question, heads and names of rows of the best tables; never is a number taken from its reply. What
does not fit the tables to the letter is no plan, and the question goes on as if no model had been asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from refdesk.ask.plan_choice import FoundTable, TablePlan, table_of
from refdesk.ask.plan_words import CellPlan, Selection
from refdesk.ask.plans import TableViews
from refdesk.ask.table_view import AskedWords, Rows, View
from refdesk.models import estimate
from refdesk.ports import LLM
from refdesk.prompts import PLAN_COMPARISONS, PLAN_OPERATIONS, PLAN_SCHEMA, PLAN_SYSTEM
from refdesk.tables import cell_date, cell_number
from refdesk.terms import terms
from refdesk.text import rough_tokens
from refdesk.trace import Stage, in_thread, json_reply

MOST_TABLES, MOST_NAMES, MOST_VALUES, LONGEST_NAME = 3, 60, 12, 80  # that the model is shown
MOST_TOKENS = 300  # of its reply
MOST_LISTED = 8  # cells that are one answer
WORTH_ASKING = 0.05  # chance of the learned plan; below it the question is hardly one to a table
CHANCE = 0.5  # medium: how often a model reads the right cells was not measured
PAIRED = {"difference": "difference", "growth": "growth", "ratio": "ratio", "share": "share"}


def request_text(question: str, tables: Sequence[FoundTable]) -> str:
    """The question, and of each table its heads, its rows, and what a column of names holds."""
    parts = [f"Question: {question}"]
    for number, found in enumerate(tables, 1):
        view = table_of(found.table).views[0]
        parts.append(f"Table {number}, {found.document.name}: {found.table.caption}"[: 4 * LONGEST_NAME])
        parts.append("columns: " + "; ".join(_short(name) for name in _heads(view)))
        names = [_short(" › ".join(path)) for path in view.grid.rows[: 1 if view.is_sheet else MOST_NAMES]]
        parts.append(f"{view.count:,} rows: " + "; ".join(names))
        parts += [f"{head} holds: {'; '.join(values)}" for head, values in _values(view) if view.is_sheet]
    return "\n".join(parts)


async def model_plan(
    question: str, tables: Sequence[FoundTable], model: LLM, limit_usd: float, stage: Stage
) -> TablePlan | None:
    """None where the reply is none of the schema, does not fit the tables, or says that none answers."""
    text = await in_thread(request_text, question, tables)
    expected = estimate(model.name, rough_tokens(PLAN_SYSTEM + text), MOST_TOKENS)
    if expected is not None and expected > limit_usd:
        stage.gave(fell_back="it would cost more than answer.cost_limit_usd")
        return None
    reply = await json_reply(model, PLAN_SYSTEM, text, PLAN_SCHEMA, MOST_TOKENS, stage)
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
    if not isinstance(filters, list) or not all(isinstance(one, dict) for one in filters):
        return None
    chosen, asked = tables[number - 1], AskedWords(question)
    table = table_of(chosen.table)
    plan = _Reading(table, asked).plan(operation, rows, columns, filters)
    return TablePlan(chosen, table, asked, plan, np.zeros(0, np.float32), chance=CHANCE, by=by) if plan else None


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
        for one in filters:
            condition = self._filter(one)
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

    def _filter(self, one: Mapping[str, Any]) -> Selection | None:
        column, way, value = self._column(str(one.get("column", ""))), one.get("is"), str(one.get("value", ""))
        if column is None or way not in PLAN_COMPARISONS:
            return None
        mask = self._mask(value)
        if way == "equal":
            asked = AskedWords(value)
            whole = (1 << len(asked.bits)) - 1
            matched = self.view.matched(asked, column) if asked.bits else {}
            held = {key: rows for key, rows in matched.items() if key[0] == whole}
            exact = [rows for (_, share), rows in held.items() if share >= 1]
            rows = self.view.merged(exact or held.values()) if held else ()
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
            if len(columns) > 1 or len(chosen.rows) > MOST_LISTED:
                return None
            cells = tuple((row, column) for row in chosen.rows if view.texts[row][column])
            texts = tuple(view.texts[row][column] for row, _ in cells)
            return self._made(view, "value", (chosen,), column, cells, texts) if texts else None
        if operation in ("largest", "smallest") and len(columns) == 2 and view.is_ordered[column]:
            kind = "max" if operation == "largest" else "min"
            best = next((rows for way, rows in view.extremes(chosen.rows, column) if way == kind), None)
            if best is None:
                return None
            picked = Selection(best, kind, chosen.mask, 1.0, column)
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
            view, places, column = turned, tuple(one - 1 for one in columns), rows[0] + 1
        else:
            return None
        above, below = (view.number(place, column) for place in places)
        if above is None or below is None or (operation != "difference" and not below):
            return None
        number = {
            "difference": above - below,
            "growth": (above - below) / abs(below) * 100 if below else 0.0,
            "ratio": above / below if below else 0.0,
            "share": above / below * 100 if below else 0.0,
        }[operation]
        both = tuple(Selection((place,), "equal", 0, 1.0, 0) for place in places)
        return self._made(view, operation, both, column, tuple((place, column) for place in places), number=number)


def _heads(view: View) -> list[str]:
    return [" › ".join(path) for path in view.grid.columns]


def _values(view: View) -> Iterator[tuple[str, list[str]]]:
    """What the columns of names hold, where that is little."""
    for column, head in enumerate(_heads(view)):
        if view.kinds[column] == "text" and view.distinct(view.rows, column) <= MOST_VALUES:
            seen: dict[str, None] = {}
            for row in view.rows:
                seen.setdefault(view.texts[row][column])
                if len(seen) >= view.distinct(view.rows, column):
                    break
            yield head, [_short(text) for text in seen if text]


def _texts(found: Any) -> list[str] | None:
    return found if isinstance(found, list) and all(isinstance(one, str) for one in found) else None


def _same(one: str, other: str) -> bool:
    return terms(one) == terms(other) and bool(one.strip())


def _short(text: str) -> str:
    return " ".join(text.split())[:LONGEST_NAME]
