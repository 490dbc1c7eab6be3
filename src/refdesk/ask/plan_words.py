"""What is a plan over a table, and how is it said in words? Pure."""

from __future__ import annotations

from typing import NamedTuple

from refdesk.ask.group_view import GroupedView
from refdesk.ask.table_view import AskedWords, Places, Rows, View
from refdesk.tables import Grid
from refdesk.terms import terms

OPERATIONS = {
    "none": "",
    "value": "{field} of {rows}",
    "year": "year of {rows}",
    "count": "number of {rows}",
    "distinct": "number of different {field} of {rows}",
    "sum": "sum of {field} of {rows}",
    "average": "average {field} of {rows}",
    "range": "highest less lowest {field} of {rows}",
    "largest": "highest {field} of {rows}",
    "smallest": "lowest {field} of {rows}",
    "commonest": "most frequent {field} of {rows}",
    "rarest": "least frequent {field} of {rows}",
    "which_more": "which has more {field}, {rows}",
    "which_less": "which has less {field}, {rows}",
    "sum2": "{field}, sum of {rows}",
    "average2": "{field}, average of {rows}",
    "apart": "{field}, difference between {rows}",
    "difference": "{field}, change from {second} to {first}",
    "growth": "{field}, percentage change from {second} to {first}",
    "share": "{field}, {first} as percentage of {second}",
    "ratio": "{field}, ratio of {first} to {second}",
}
SELECTIONS = {
    "all": "all",
    "equal": "{cells}",
    "any": "{cells}",
    "both": "{cells}",
    "more": "{by} over {number}",
    "least": "{by} at least {number}",
    "less": "{by} under {number}",
    "most": "{by} at most {number}",
    "first": "the first{of}",
    "last": "the last{of}",
    "max": "the highest {by}{of}",
    "min": "the lowest {by}{of}",
    "next": "the one after {anchor}",
    "previous": "the one before {anchor}",
    "same": "others with the same {by}",
}
KINDS = ("number", "date", "text", "computed")  # of what a plan gives


class Selection(NamedTuple):
    """Rows, and which words of the question chose them."""

    rows: Rows
    kind: str
    mask: int = 0  # a bit for each word of the question
    quality: float = 0.0  # share of the row's own words that the question says
    by: int = -1  # the column that was looked at
    by_quality: float = 0.0
    number: float = 0.0  # that was compared with
    conditions: tuple[Selection, ...] = ()  # that all of its rows fulfil, where they are several


class CellPlan(NamedTuple):
    """An operation over rows and columns, and what it gives: texts of cells, or a number."""

    turned: bool
    operation: str
    selections: tuple[Selection, ...]
    column: int  # -1 where none is read
    mask: int
    column_quality: float
    kind: str
    cells: Places = ()  # row, column of the view
    texts: tuple[str, ...] = ()
    number: float | None = None
    backwards: bool = False  # the second that the question names comes first
    grouped: GroupedView | None = None  # whose rows and columns these are


def said(plan: CellPlan, view: View, question: AskedWords, *, for_people: bool = False) -> str:
    """The plan as a phrase that a person would say, without what it gives.

    What it was learned to be judged by says words as stems, and those of the column twice; people are spared that.
    """
    names = [" ".join(path) for path in view.grid.columns]
    rows = [
        chosen_rows(selection, view.grid, question, is_sheet=view.is_sheet, for_people=for_people)
        for selection in plan.selections
    ]
    first, second = (rows[::-1] if plan.backwards else rows) if len(rows) == 2 else (rows[0], "")
    field = (names[plan.column] if plan.column >= 0 else "") or "name"
    phrase = OPERATIONS[plan.operation].format(field=field, rows=" and ".join(rows), first=first, second=second)
    return f"{phrase}, {plan.grouped.condition}" if plan.grouped and plan.grouped.condition else phrase


def _number_of(selection: Selection) -> str:
    return f"{len(selection.rows)} " if selection.number and selection.kind in ("max", "min") else ""


def chosen_rows(
    selection: Selection,
    grid: Grid,
    question: AskedWords,
    *,
    is_sheet: bool,
    for_people: bool,
) -> str:
    names = [" ".join(path) for path in grid.columns]
    if selection.conditions:
        parts = [
            chosen_rows(one, grid, question, is_sheet=is_sheet, for_people=for_people) for one in selection.conditions
        ]
        return ", ".join(parts)

    def cell(row: int) -> str:
        path = grid.rows[row]
        return " ".join(path) if selection.by <= 0 and len(path) > 1 else grid.texts[row][max(selection.by, 0)]

    beside = {"next": -1, "previous": 1}.get(selection.kind, 0)
    matched = [stem for stem, bit in question.bits.items() if selection.mask >> bit & 1]
    said = dict(zip(question.stems, question.words, strict=True))
    cells = list(dict.fromkeys(cell(row) for row in selection.rows[:4]))
    if for_people:
        own = terms(names[selection.by]) if selection.by >= 0 else []
        of = [said[stem] for stem in matched if stem not in own]
    else:
        of = matched
    if is_sheet and matched and (len(cells) > 1 or selection.kind == "any"):
        # The days of a year, of which it may hold all: "2023", as the question says it.
        cells = [" ".join(said[stem] for stem in matched)]
    return SELECTIONS[selection.kind].format(
        cells=", ".join(cells),
        by=_number_of(selection) + (names[selection.by] if selection.by >= 0 else ""),
        number=f"{selection.number:g}",
        of=f" of {' '.join(of)}" if of else "",
        anchor=cell(selection.rows[0] + beside) if selection.rows else "",  # all, of a table of nothing but totals
    )
