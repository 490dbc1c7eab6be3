"""The view of a table that a question sees: words, numbers and order of its cells, and its groups. Pure.

What `plans.py` asks of rows, it asks here: which hold words of the question, which are largest, what they add up to. A
sheet of 100,000 rows answers the same from arrays (`sheet_view.py`). What a plan over a table is, and how it is said in
words, stands here too.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.wording import NUMBER_WORDS, YEAR_NUMBER
from refdesk.periods import period_spans, spoken_periods
from refdesk.tables import Grid, cell_date, cell_number, is_scale, months_of, spoken_heads
from refdesk.text import QUERY_STOP_WORDS, terms, words

Rows = Sequence[int]  # numbers of rows, rising
Places = Sequence[tuple[int, int]]  # row and column of cells
Matched = dict[tuple[int, float], Rows]  # (words of the question, share of the cell's words that they are) -> rows


class Compared(NamedTuple):
    """What two numbers are to one another; growth and share in per cent."""

    growth: float
    share: float
    ratio: float


def compared(above: float, below: float) -> Compared:
    return Compared((above - below) / abs(below) * 100, above / below * 100, above / below)


MOST_TOLD = 24  # rows and cells that are named, cited or read one by one
MOST_AT_ONCE = 12  # rows, values or figures that one question, claim or formula names together
MOSTLY = 0.6  # of the cells of a column are numbers: it is a column of numbers
REPEATED = 2  # times that the texts of a first column which names no row stand there, in the mean
MOST_ADDED = 9  # numbers from which on a formula names the first four alone
MOST_TIED = 3  # rows that are the highest together
CODE = re.compile(r"\b\d+-[a-z]{1,2}\b", re.IGNORECASE)  # "10-Q", "8-K"
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")


class ColumnNumbers(NamedTuple):
    """The numbers of some rows in one column, taken together."""

    cells: Places  # those that hold a number
    total: float
    highest: tuple[float, int]  # with its row
    lowest: tuple[float, int]


class AskedWords:
    """The words of a question that may name something in a table."""

    def __init__(self, text: str, around: frozenset[str] = frozenset()) -> None:
        """`around`: stems of the text around the table; a table need not hold them."""
        self.text = text
        self.words = words(text)
        self.stems = [_stem(word) for word in self.words]
        self.bits: dict[str, int] = {}
        for word, stem in zip(self.words, self.stems, strict=True):
            if word not in QUERY_STOP_WORDS and stem not in around:
                self.bits.setdefault(stem, len(self.bits))
        # "10-Q" is a name: neither "10" nor "q" alone is said of anything, and it is no number to compare with.
        codes = [match.span() for match in CODE.finditer(text)]
        parts = [{*map(_stem, words(text[start:end]))} & self.bits.keys() for start, end in codes]
        self.codes = [sum(1 << self.bits[stem] for stem in own) for own in parts if own]
        times = [stem for start, end in spoken_periods(text) for stem in terms(text[start:end])]
        self.of_time = sum(1 << bit for stem, bit in self.bits.items() if stem in times)  # words that say when
        self.place = {stem: place for place, stem in reversed(list(enumerate(self.stems)))}
        dates = [*period_spans(text), *codes]  # the day of a date is no number that anything is compared with
        found = [
            float(match.group().replace(",", ""))
            for match in _DIGITS.finditer(text)
            if YEAR_NUMBER.fullmatch(match.group()) or not any(start <= match.start() < end for start, end in dates)
        ]
        found += [float(number) for word in self.words if (number := NUMBER_WORDS.get(word, 0)) > 1]
        self.numbers = list(dict.fromkeys(found))[:3]

    def match(self, stems: Iterable[str]) -> tuple[int, float]:
        """(mask of the question's words among these, share of these that the question says)."""
        mask = hits = total = 0
        for stem in stems:
            if stem in QUERY_STOP_WORDS:
                continue
            total += 1
            bit = self.bits.get(stem)
            if bit is not None:
                mask |= 1 << bit
                hits += 1
        for code in self.codes:
            if 0 < mask & code < code:
                hits -= (mask & code).bit_count()
                mask &= ~code
        return mask, hits / total if total else 0.0


def head_words(name: str) -> list[str]:
    """The stems of a column's name, which programs write as one word: "water_level_m", "waterLevel".

    >>> head_words("water_level_m"), head_words("unitPrice (EUR)")
    (['water', 'level', 'm'], ['unit', 'price', 'eur'])
    """
    return terms(head_text(name))


def head_text(name: str) -> str:
    """A column's name as people would write it."""
    return _HUMP.sub(" ", name.replace("_", " "))


def _stem(word: str) -> str:
    found = terms(word)
    return found[0] if found else word


class View:
    """One way round of a table with the stems of its cells; made once for all questions."""

    has_records: bool  # its rows are records: who names several things asks for the rows that hold all of them

    def __init__(self, grid: Grid, *, turned: bool) -> None:
        self.grid, self.turned, self.texts = grid, turned, grid.texts
        self.count, self.width = len(grid.texts), grid.width
        # "(dollars in millions, except per share amounts)" above a column says what is counted, not which column it is.
        heads = spoken_heads(grid.columns)
        self.names = [head_words(" ".join(part for part in path if not is_scale(part))) for path in heads]
        self.last_names = [head_words(path[-1]) if path else [] for path in heads]
        self._months = months = [months_of(row[c] for row in self.texts) for c in range(self.width)]
        self.cells: Sequence[Sequence[list[str]]] = [
            [terms(self.spoken(row, column)) for column in range(self.width)] for row in range(self.count)
        ]
        self.sections: Sequence[list[str]] = [terms(path[0]) if len(path) > 1 else [] for path in grid.rows]
        self.numbers = [
            [None if text in own else cell_number(text) for text, own in zip(row, months, strict=True)]
            for row in self.texts
        ]
        days = [
            [own[text].key if text in own else cell_date(text) for text, own in zip(row, months, strict=True)]
            for row in self.texts
        ]
        keys = [
            [
                np.nan if (key := day if day is not None else number) is None else key
                for day, number in zip(*row, strict=True)
            ]
            for row in zip(days, self.numbers, strict=True)
        ]
        self.keys = np.array(keys, dtype=float).reshape(self.count, self.width)  # what a column is ordered by
        few = MOSTLY * self.count
        self.is_number = [sum(row[c] is not None for row in self.numbers) > few for c in range(self.width)]
        self.is_date = [sum(row[c] is not None for row in days) > few for c in range(self.width)]
        self.is_ordered = [bool(np.sum(~np.isnan(self.keys[:, c])) > few) for c in range(self.width)]
        self.is_year = [
            sum(YEAR_NUMBER.fullmatch(row[c].strip()) is not None for row in self.texts) > few
            for c in range(self.width)
        ]
        self.totals = {row for row in range(self.count) if "total" in self.cells[row][0][:2]}
        first = [row[0] for row in self.texts]  # a row that its first cell does not name
        self.has_records = not turned and len({*first}) * REPEATED <= len(first)
        self.kinds = [
            "date" if day else "number" if number else "text"
            for day, number in zip(self.is_date, self.is_number, strict=True)
        ]
        self.vocabulary: Container[str] = {stem for row in self.cells for cell in row for stem in cell}.union(
            *self.names
        )

    @cached_property
    def rows(self) -> Rows:
        """All but those of totals."""
        return tuple(row for row in range(self.count) if row not in self.totals)

    def spoken(self, row: int, column: int) -> str:
        """A text in the words of a question: `2026-03` of a column of months is March 2026."""
        text, months = self.texts[row][column], self._months[column]
        return months[text].words if text in months else text

    def matched(self, question: AskedWords, column: int) -> Matched:
        """The rows whose cell in this column holds a word of the question."""
        found: dict[tuple[int, float], list[int]] = {}
        for row in range(self.count):
            mask, quality = question.match(self.cells[row][column])
            if mask:
                if column == 0 and self.sections[row]:
                    mask |= question.match(self.sections[row])[0]
                found.setdefault((mask, quality), []).append(row)
        return {key: tuple(rows) for key, rows in found.items()}

    def years_between(self, first: float, last: float) -> Rows:
        """Those whose name says one year, from the first to the last."""
        named = {row: YEAR_NUMBER.findall(self.texts[row][0]) for row in range(self.count)}
        return tuple(row for row, own in named.items() if len(own) == 1 and first <= int(own[0]) <= last)

    def merged(self, found: Iterable[Rows]) -> Rows:
        return tuple(sorted(itertools.chain(*found)))

    def common(self, first: Rows, second: Rows) -> Rows:
        return tuple(sorted({*first} & {*second}))

    def compared_by(self, column: int) -> NDArray[np.float64]:
        """What every row is ordered by: a day, or a number; NaN where it has none."""
        return self.keys[:, column]

    def where(self, chosen: NDArray[np.bool_]) -> Rows:
        """But for totals."""
        return tuple(row for row in np.flatnonzero(chosen).tolist() if row not in self.totals)

    def extremes(self, rows: Rows, column: int) -> Iterator[tuple[str, Rows]]:
        """The highest and the lowest of these rows, where they are few."""
        keys = self.keys[list(rows), column]
        if np.isnan(keys).all():
            return
        for kind, extreme in (("max", np.nanmax(keys)), ("min", np.nanmin(keys))):
            found = tuple(row for row, key in zip(rows, keys, strict=True) if key == extreme)
            if len(found) <= MOST_TIED:
                yield kind, found

    def same(self, row: int, column: int) -> Rows:
        """Other rows with the same text in this column."""
        own = self.texts[row][column]
        return tuple(r for r in range(self.count) if r != row and self.texts[r][column] == own)

    def twins(self, row: int) -> int:
        """How many rows have this one's name: "Net sales" of every region."""
        label = self.cells[row][0]
        return sum(cells[0] == label for cells in self.cells)

    def number(self, row: int, column: int) -> float | None:
        return self.numbers[row][column]

    def distinct(self, rows: Rows, column: int) -> int:
        """Different texts, nothing left out."""
        return len({self.texts[row][column] for row in rows} - {""})

    def groups(self, rows: Rows, column: int) -> list[tuple[str, Rows]]:
        """The rows that have each text of this column, in the order of the first of them."""
        found: dict[str, list[int]] = {}
        for row in rows:
            if self.texts[row][column]:
                found.setdefault(self.texts[row][column], []).append(row)
        return [(text, tuple(own)) for text, own in found.items()]

    def added(self, rows: Rows, column: int) -> ColumnNumbers | None:
        """None of a single number."""
        cells = tuple((row, column) for row in rows if self.numbers[row][column] is not None)
        numbers = [self.numbers[row][column] or 0.0 for row, _ in cells]
        if len(numbers) < 2:
            return None
        top, bottom = max(numbers), min(numbers)
        highest, lowest = ((edge, cells[numbers.index(edge)][0]) for edge in (top, bottom))
        return ColumnNumbers(cells, sum(numbers), highest, lowest)

    def frequent(self, rows: Rows, column: int) -> Iterator[tuple[str, str, Places]]:
        """The text that most and that fewest of these rows have, each where it is one."""
        texts = self.texts
        counts = Counter(texts[row][column] for row in rows if texts[row][column]).most_common()
        for name, ranked in (("commonest", counts), ("rarest", counts[::-1])):
            if len(ranked) > 1 and ranked[0][1] != ranked[1][1]:
                shown = ranked[0][0]
                yield name, shown, tuple((row, column) for row in rows if texts[row][column] == shown)


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
            for source in {self.sources[number] for number in (column, by) if number > 0}:
                yield from ((member, source) for member in self.members[row])


def _shown(base: View, rows: Rows, column: int, name: str) -> str:
    numbers = [number for row in rows if (number := base.number(row, column)) is not None]
    if not numbers:
        return ""
    found = sum(numbers) if name in TOTAL else sum(numbers) / len(numbers)
    return f"{found:,.4f}".rstrip("0").rstrip(".")


def named_groups(question: AskedWords, view: View) -> tuple[list[int], list[str]]:
    """The columns that the question asks for by groups, and what it calls what is computed of them."""
    group_stems = {name: terms(name)[0] for name in (*TOTAL, *AVERAGE) if name in question.words}
    # Where "total" is the name of a row or a column, that is asked for.
    names = [name for name, stem in group_stems.items() if stem in question.bits and stem not in view.vocabulary]
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
    by: int = -1  # the column that was compared
    by_quality: float = 0.0
    number: float = 0.0  # that was compared with
    conditions: tuple[Selection, ...] = ()  # that all of its rows fulfil, where they are several
    among: Rows = ()  # of which they are the highest or lowest


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
    names = [head_text(" ".join(path)) for path in spoken_heads(view.grid.columns)]
    rows = [
        chosen_rows(selection, view, question, has_records=view.has_records, for_people=for_people)
        for selection in plan.selections
    ]
    first, second = (rows[::-1] if plan.backwards else rows) if len(rows) == 2 else (rows[0], "")
    field = (names[plan.column] if plan.column >= 0 else "") or "name"
    form = OPERATIONS[plan.operation]
    if for_people and field == "name":  # a column without a head
        form = form.replace(" {field},", ",")
    phrase = form.format(field=field, rows=" and ".join(rows), first=first, second=second)
    return f"{phrase}, {plan.grouped.condition}" if plan.grouped and plan.grouped.condition else phrase


def _are_all_called(stem: str, grid: Grid) -> bool:
    """Does the word stand in the name of every row ("Year ended 2018", "Year ended 2019") and so tell none of them?"""
    return all(stem in terms(row[0]) for row in grid.texts)


def _number_of(selection: Selection) -> str:
    return f"{len(selection.rows)} " if selection.number and selection.kind in ("max", "min") else ""


def chosen_rows(
    selection: Selection,
    view: View,
    question: AskedWords,
    *,
    has_records: bool,
    for_people: bool,
) -> str:
    grid = view.grid
    names = [head_text(" ".join(path)) for path in spoken_heads(grid.columns)]
    if selection.conditions:
        parts = [
            chosen_rows(condition, view, question, has_records=has_records, for_people=for_people)
            for condition in selection.conditions
        ]
        return ", ".join(parts)

    def cell(row: int) -> str:
        path = grid.rows[row]
        return " ".join(path) if selection.by <= 0 and len(path) > 1 else view.spoken(row, max(selection.by, 0))

    beside = {"next": -1, "previous": 1}.get(selection.kind, 0)
    matched = [stem for stem, bit in question.bits.items() if selection.mask >> bit & 1]
    words_by_stem = dict(zip(question.stems, question.words, strict=True))
    cells = list(dict.fromkeys(cell(row) for row in selection.rows[:4]))
    if for_people:
        own = terms(names[selection.by]) if selection.by >= 0 else []
        of = [
            words_by_stem[stem]
            for stem in matched
            if stem not in own and (has_records or not _are_all_called(stem, grid))
        ]
    else:
        of = matched
    if has_records and matched and (len(cells) > 1 or selection.kind == "any"):
        # The days of a year, of which it may hold all: "2023", as the question says it.
        cells = [" ".join(words_by_stem[stem] for stem in matched)]
    return SELECTIONS[selection.kind].format(
        cells=", ".join(cells),
        by=_number_of(selection) + (names[selection.by] if selection.by >= 0 else ""),
        number=f"{selection.number:,.10g}" if for_people else f"{selection.number:g}",
        of=f" of {' '.join(of)}" if of else "",
        anchor=cell(selection.rows[0] + beside) if selection.rows else "",  # all, of a table of nothing but totals
    )


def formula_of(plan: CellPlan, view: View, value: str) -> str:
    """How a number was computed, in numbers."""
    numbers = [text for row, column in plan.cells[:MOST_ADDED] if (text := view.texts[row][column])]
    count = max(len(numbers), len(plan.cells) if len(plan.cells) > MOST_ADDED else 0)
    first, second = (numbers[::-1] if plan.backwards else numbers) if len(numbers) == 2 else ("", "")
    match plan.operation:
        case "sum" | "sum2":
            return f"{_listed(numbers, count)} = {value}"
        case "average" | "average2":
            return f"({_listed(numbers, count)}) / {count:,} = {value}"
        case "range":
            return f"highest − lowest of {count:,} values = {value}"
        case "difference" | "apart":
            return f"{first} − {second} = {value}"
        case "growth":
            return f"({first} − {second}) / {second} = {value}"
        case "share" | "ratio":
            return f"{first} / {second} = {value}"
    return ""


def _listed(numbers: Sequence[str], count: int) -> str:
    return " + ".join(numbers) if count < MOST_ADDED else f"{' + '.join(numbers[:4])} + … ({count:,} values)"
