"""What does a table say of groups of its rows? A row for each text of a column, with totals and averages. Pure.

"Which region has the highest total amount?" over one row a sale is the highest of a table that has a row for each
region and a column "total amount". Plans over it are those of any table; `cells` tells what they were computed from.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from refdesk.ask.table_view import AskedWords, Places, Rows, View
from refdesk.tables import Grid
from refdesk.terms import terms

MOST_GROUPS = 500
NAMED = 0.5  # of the words of a head that the question says, to name the column: "salary" is "Salary (EUR)"
TOTAL, AVERAGE = ("total", "sum"), ("average", "mean")  # what the columns of groups are called: as the question does


class GroupedView(View):
    """The groups of some rows of a view by the texts of one column."""

    def __init__(self, base: View, by: int, rows: Rows, names: Sequence[str], condition: str) -> None:
        """`names`: of what is computed; `condition`: the rows in words, where they are not all."""
        self.base, self.by, self.condition = base, by, condition
        groups = base.groups(rows, by)
        self.members = [own for _, own in groups]
        numeric = [c for c in range(base.width) if base.kinds[c] == "number" and not base.is_year[c] and c != by]
        self.sources = [by, *(column for column in numeric for _ in names)]
        heads = [base.grid.columns[by], *((name, *base.grid.columns[column]) for column in numeric for name in names)]
        texts = [
            (text, *(_shown(base, own, column, name) for column in numeric for name in names)) for text, own in groups
        ]
        labels = [(text,) for text, _ in groups]
        super().__init__(Grid(base.grid.caption, tuple(heads), labels, texts), turned=False)

    def used(self, cells: Places, by: int) -> Iterator[tuple[int, int]]:
        """The cells of the view below that these are made of, and those of what they were compared by."""
        for row, column in cells:
            if column == 0:
                yield self.members[row][0], self.by
            for source in {self.sources[one] for one in (column, by) if one > 0}:
                yield from ((member, source) for member in self.members[row])


def _shown(base: View, rows: Rows, column: int, name: str) -> str:
    numbers = [number for row in rows if (number := base.number(row, column)) is not None]
    if not numbers:
        return ""
    found = sum(numbers) if name in TOTAL else sum(numbers) / len(numbers)
    return f"{found:,.4f}".rstrip("0").rstrip(".")


def named_groups(question: AskedWords, view: View) -> tuple[list[int], list[str]]:
    """The columns that the question asks for by groups, and what it calls what is computed of them."""
    said = {name: terms(name)[0] for name in (*TOTAL, *AVERAGE) if name in question.words}
    # Where "total" is the name of a row or a column, that is asked for.
    names = [name for name, stem in said.items() if stem in question.bits and stem not in view.vocabulary]
    columns: list[int] = []
    if not names:
        return columns, names
    for column in range(view.width):
        is_kind = view.kinds[column] == "text" or view.is_year[column]
        if is_kind and (question.match(view.names[column])[1] >= NAMED or _names_groups(question, view, column)):
            distinct = view.distinct(view.rows, column)
            if 1 < distinct <= MOST_GROUPS and distinct < len(view.rows):
                columns.append(column)
    return columns, names


def _names_groups(question: AskedWords, view: View, column: int) -> bool:
    """Does it name two of the texts of the column: "between the North and the South"?"""
    whole = [mask for mask, quality in view.matched(question, column) if quality >= 1]
    return any(first & ~second and second & ~first for first, second in itertools.combinations(whole, 2))


def foremost(view: View, rows: Rows, column: int, count: int) -> Iterator[tuple[str, Rows]]:
    """The `count` highest and lowest of these rows, the first of them first; none where it is not clear which."""
    keys = view.compared_by(column)[np.array(rows, np.int64)]
    filled = np.flatnonzero(~np.isnan(keys))
    if len(filled) <= count:
        return
    for kind, sign in (("max", -1), ("min", 1)):
        order = filled[np.argsort(sign * keys[filled], kind="stable")]
        if keys[order[count - 1]] != keys[order[count]]:
            yield kind, tuple(int(rows[at]) for at in order[:count].tolist())
