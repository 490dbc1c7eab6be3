"""Forms: tables without a head, in which each value stands beside its own label. Pure.

["Policyholder", "Marta Lindqvist", "Policy number", "HX-88120"]    is read as two pairs, one below the other
["Vehicle",      "Volvo V60",       "Registration",  "KLM 482"]

What tells a form from a table whose first row names its columns is what stands below one another: in a table amounts
stand below amounts and days below days, in a form anything below anything.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

Rows = Sequence[Sequence[str]]
Places = list[list[tuple[int, int]]]  # of the cells of each row: (row, column) of the table

_DIGITS = re.compile(r"\d[\d.,]*")
_LETTERS = re.compile(r"[^\W\d_][^\d€$£%]*")
TEXT = "a"
FEWEST_ROWS = 3
MOST_ROWS = 200  # what is longer is a list of records
LONGEST_LABEL = 8  # words; what is longer is a text
ALIKE = 0.6  # of the values, at most, are of one shape


def is_form(rows: Rows) -> bool:
    """Whether all of these rows are the pairs of a form, one to a row."""
    return 0 < len(rows) <= MOST_ROWS and all(len(row) == 2 for row in rows) and _are_pairs(rows)


def form_parts(rows: Rows) -> list[tuple[Places, bool]]:
    """A table taken apart where it is a form, in whole or above the first row that is none: the pairs of the form, and
    the rows below it. Nothing where it is none.
    """
    width = max(map(len, rows), default=0)
    if width < 2 or width % 2 or len(rows) > MOST_ROWS:
        return []
    stop = next((number for number, row in enumerate(rows) if not _fits(row)), len(rows))
    while stop and not any(label and value for label, value in _pairs(rows[stop - 1])):
        stop -= 1  # a title of what follows
    if not _are_pairs(rows[:stop]) or (width == 2 and stop < len(rows)):
        return []
    pairs = [
        [(number, column) for column in range(first, min(first + 2, len(row))) if row[column].strip()]
        for number, row in enumerate(rows[:stop])
        for first in range(0, len(row), 2)
    ]
    rest = [[(number, column) for column in range(len(row))] for number, row in enumerate(rows) if number >= stop]
    return [([pair for pair in pairs if pair], True), *([(rest, False)] if rest else [])]


def _fits(row: Sequence[str]) -> bool:
    """Whether no value stands without a label, and every label is a few words; what stands alone is a title."""
    if sum(map(bool, row)) <= 1:
        return True
    for label, value in _pairs(row):
        if value and not label:
            return False
        if label and not (label[0].isalpha() and len(label.split()) <= LONGEST_LABEL):
            return False
    return True


def _pairs(row: Sequence[str]) -> Iterator[tuple[str, str]]:
    for first in range(0, len(row), 2):
        yield row[first].strip(), row[first + 1].strip() if first + 1 < len(row) else ""


def _are_pairs(rows: Rows) -> bool:
    if not all(map(_fits, rows)):
        return False
    filled = [[(label, value) for label, value in _pairs(row) if label and value] for row in rows]
    labels = [label.lower() for row in filled for label, _ in row]
    if sum(map(bool, filled)) < FEWEST_ROWS or len({*labels}) < len(labels):
        return False
    width = max(map(len, rows))
    columns = [[row[at].strip() for row in rows if at < len(row) and row[at].strip()] for at in range(1, width, 2)]
    shapes = Counter(_shape(value) for column in columns for value in column)
    return shapes.most_common(1)[0][1] <= ALIKE * shapes.total() and not any(map(_has_head, columns))


def _has_head(values: Sequence[str]) -> bool:
    """A word above what is of one shape names it: "Price" above amounts, "Due" above days."""
    below = Counter(map(_shape, values[1:]))
    if not below or _shape(values[0]) != TEXT:
        return False
    ((usual, count),) = below.most_common(1)
    return usual != TEXT and count > ALIKE * below.total()


def _shape(text: str) -> str:
    """What a value looks like: "€2,340" and "€18.5" are one shape, "14 February 2025" another, all words one.

    >>> _shape("€2,340"), _shape("14 February 2025"), _shape("Per Aronsen")
    ('€0', '0a0', 'a')
    """
    return "".join(_LETTERS.sub("a", _DIGITS.sub("0", text)).split())
