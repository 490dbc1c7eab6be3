"""Finds the rows of a table whose number is over or under one that the question says: "which parts weigh over 10 kg?"

Which column is meant is told by the unit ("kg" is that of "Mass (kg)") and by the words of its head; a row is named by
the first columns of words that tell the rows apart. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.figures import Quantity, figures
from refdesk.ask.plan_choice import FoundTable, TablePlan, table_of
from refdesk.ask.table_view import AskedWords, CellPlan, Selection, View, head_text

MOST = 24  # rows that are told
# Chance that these rows are what is asked for: of 14 questions to WikiTableQuestions' even tables that were answered so
# seven were right to the word, and three more were those that are now left alone for what they deny or leave out.
CHANCE = 0.55
WORDS = 0.8  # words of three letters and more that the cells of a column have on average, which names the rows
_NAME = re.compile(r"[^\W\d_]{3,}")
_OR_EQUAL = re.compile(r"\b(?:at least|at most|up to|(?:no|not) (?:less|more|fewer) than)\b|[≥≤]|[<>]=", re.IGNORECASE)
_LEAVES_OUT = re.compile(r"\b(?:no|not|never|without|besides|except|other)\b|n['’]t\b", re.IGNORECASE)


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
    if len(bounds) != 1 or _LEAVES_OUT.search(_OR_EQUAL.sub("", text)):
        return None
    asked = AskedWords(text)
    options: list[tuple[FoundTable, _Compared]] = []
    for candidate in candidates:
        views = table_of(candidate.table).views
        compared = _column(views[0], asked, bounds[0]) if views and not views[0].is_sheet else None
        options += [(candidate, compared)] if compared is not None else []
    if not options:
        return None
    found, compared = max(options, key=lambda option: option[1].worth)
    return _plan(found, asked, bounds[0], compared, text)


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
    if not 0 < len(rows) <= MOST or len(rows) == view.count or not all(names):
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
        if view.is_number[column] or sum(len(_NAME.findall(text)) for text in texts) < WORDS * max(1, len(texts)):
            continue
        chosen.append(column)
        named = {tuple(view.texts[row][own] for own in chosen) for row in range(view.count)}
        if len(named) == view.count:
            break
    return chosen or [0]


def _names(view: View, rows: Sequence[int]) -> list[str]:
    naming = _naming(view)
    return [", ".join(text for column in naming if (text := view.texts[row][column])) for row in rows]
