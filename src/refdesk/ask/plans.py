"""Which computations over a table could answer a question? Every one that the question's words point at, executed.

A plan selects rows (by the words of the question, by a comparison, by order, by an extreme), then reads, counts or
computes over a column. Both ways round: the columns of a table are the rows of the turned one, so "in which year was
it largest" is an extreme over columns. `plan_rank` tells which plan answers. Pure.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from refdesk.tables import Grid, cell_date, cell_number, named_scale
from refdesk.terms import QUERY_STOP_WORDS, period_spans, terms, words
from refdesk.text import word_list

MOST_SELECTIONS, MOST_SETS, MOST_PICKED, MOST_SINGLE, MOST_LISTED = 40, 70, 400, 8, 8
MOST_ANY = 12  # rows that a question names one by one
MOST_COLUMNS = 40  # that a question chooses from: the best matching
WIDEST_TURNED, LONGEST_TURNED = 15, 80  # a table with more columns or rows is not looked at sideways
MOST_STATED = 160  # letters of a plan in words, and of what it gives: what the reader sees of it
MOSTLY = 0.6  # of the cells of a column are numbers: it is a column of numbers
NUMBER_WORDS = {
    word: float(number) for number, word in enumerate(word_list("words", "number words")[:21]) if number > 1
}
_YEAR = re.compile(r"(?:19|20)\d\d")
_DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")

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

    rows: tuple[int, ...]
    kind: str
    mask: int = 0  # a bit for each word of the question
    quality: float = 0.0  # share of the row's own words that the question says
    by: int = -1  # the column that was looked at
    by_quality: float = 0.0
    number: float = 0.0  # that was compared with


class CellPlan(NamedTuple):
    """An operation over rows and columns, and what it gives: texts of cells, or a number."""

    turned: bool
    operation: str
    selections: tuple[Selection, ...]
    column: int  # -1 where none is read
    mask: int
    column_quality: float
    kind: str
    cells: tuple[tuple[int, int], ...] = ()  # row, column of the view
    texts: tuple[str, ...] = ()
    number: float | None = None
    backwards: bool = False  # the second that the question names comes first


class AskedWords:
    """The words of a question that may name something in a table."""

    def __init__(self, text: str, around: frozenset[str] = frozenset()) -> None:
        """`around`: stems that what stands around the table says; a table need not hold them."""
        self.text = text
        self.words = words(text)
        self.stems = [terms(word)[0] if terms(word) else word for word in self.words]
        self.bits: dict[str, int] = {}
        for word, stem in zip(self.words, self.stems, strict=True):
            if word not in QUERY_STOP_WORDS and stem not in around:
                self.bits.setdefault(stem, len(self.bits))
        self.place = {stem: place for place, stem in reversed(list(enumerate(self.stems)))}
        dates = period_spans(text)  # the day of a date is no number that anything is compared with
        found = [
            float(match.group().replace(",", ""))
            for match in _DIGITS.finditer(text)
            if _YEAR.fullmatch(match.group()) or not any(start <= match.start() < end for start, end in dates)
        ]
        found += [NUMBER_WORDS[word] for word in self.words if word in NUMBER_WORDS]
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
        return mask, hits / total if total else 0.0


class View:
    """One way round of a table with the stems of its cells; made once for all questions."""

    def __init__(self, grid: Grid, *, turned: bool) -> None:
        self.grid, self.turned, self.texts = grid, turned, grid.texts
        self.count, self.width = len(grid.texts), grid.width
        # "(dollars in millions, except per share amounts)" above a column says what is counted, not which column it is.
        self.names = [terms(" ".join(part for part in path if not _is_scale(part))) for path in grid.columns]
        self.last_names = [terms(path[-1]) if path else [] for path in grid.columns]
        self.cells = [[terms(text) for text in row] for row in self.texts]
        self.sections = [terms(path[0]) if len(path) > 1 else [] for path in grid.rows]
        self.numbers = [[cell_number(text) for text in row] for row in self.texts]
        days = [[cell_date(text) for text in row] for row in self.texts]
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
            sum(_YEAR.fullmatch(row[c].strip()) is not None for row in self.texts) > few for c in range(self.width)
        ]
        self.totals = {row for row in range(self.count) if "total" in self.cells[row][0][:2]}
        self.kinds = [
            "date" if day else "number" if number else "text"
            for day, number in zip(self.is_date, self.is_number, strict=True)
        ]
        self.vocabulary = {stem for row in self.cells for cell in row for stem in cell}.union(*self.names)


def _is_scale(head: str) -> bool:
    return bool(named_scale(head)) and not any(map(str.isdigit, head))


class TableViews:
    """A grid both ways round, ready for questions."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.views = [View(grid, turned=False)] if grid.texts and grid.width > 1 else []
        if self.views and grid.width <= WIDEST_TURNED and len(grid.texts) <= LONGEST_TURNED:
            filled = [number is not None for row in self.views[0].numbers for number in row[1:]]
            if sum(filled) > len(filled) / 2:
                self.views.append(View(grid.turned(), turned=True))

    def plans(self, question: AskedWords) -> list[CellPlan]:
        """Every plan that the words of the question point at."""
        return [plan for view in self.views for plan in _Maker(question, view).plans()]


class _Maker:
    """The plans of one view."""

    def __init__(self, question: AskedWords, view: View) -> None:
        self.question, self.view = question, view
        matches = [question.match(name) for name in view.names]
        lasts = [question.match(name)[1] for name in view.last_names]
        self.masks = [mask for mask, _ in matches]
        self.qualities = [max(quality, last) for (_, quality), last in zip(matches, lasts, strict=True)]
        best = sorted(range(view.width), key=lambda column: -self.qualities[column])
        self.columns = sorted(best[:MOST_COLUMNS])
        self.ordered = [c for c in self.columns if view.is_ordered[c]]

    # rows

    @cached_property
    def equal(self) -> list[Selection]:
        """Rows whose cells hold words of the question: by column, the best ones, and those of every word."""
        found: dict[tuple[int, ...], Selection] = {}

        def keep(rows: Iterable[int], mask: int, quality: float, by: int, kind: str = "equal") -> None:
            key = tuple(rows)
            known = found.get(key)
            if key and (known is None or (mask.bit_count(), quality) > (known.mask.bit_count(), known.quality)):
                found[key] = Selection(key, kind, mask, quality, by, self.qualities[by])

        for column in range(self.view.width):
            matched = self._matched(column)
            if not matched:
                continue
            order = sorted(matched, key=lambda row: (-matched[row][0].bit_count(), -matched[row][1]))
            best = matched[order[0]]
            alike = [
                row
                for row in matched
                if (matched[row][0].bit_count(), matched[row][1]) == (best[0].bit_count(), best[1])
            ]
            keep(alike, best[0], best[1], column)
            for row in order[:4]:
                keep((row,), *matched[row], column)
            full = [row for row, (_, quality) in matched.items() if quality >= 1]
            by_mask: dict[int, list[int]] = {}
            for row in full:
                by_mask.setdefault(matched[row][0], []).append(row)
            for mask, rows in itertools.islice(by_mask.items(), 6):
                keep(rows, mask, 1.0, column)
            if 1 < len(full) <= MOST_ANY:
                keep(full, _union(matched[row][0] for row in full), 1.0, column, "any")
            for rows in (self._one_each(matched), self._years_between(column)):
                if 1 < len(rows) <= MOST_ANY:
                    own = [matched.get(row, (0, 0.0)) for row in rows]
                    quality = sum(quality for _, quality in own) / len(own)
                    keep(rows, _union(mask for mask, _ in own), quality, column, "any")
            for bit in set(_bits(_union(mask for mask, _ in matched.values()))):
                rows = [row for row, (mask, _) in matched.items() if mask >> bit & 1]
                if len(rows) < self.view.count:
                    keep(rows, 1 << bit, sum(matched[row][1] for row in rows) / len(rows), column)
        chosen = sorted(found.values(), key=lambda one: (-one.mask.bit_count(), -one.quality, len(one.rows)))
        return chosen[:MOST_SELECTIONS]

    def _one_each(self, matched: dict[int, tuple[int, float]]) -> list[int]:
        """The best row for every word that tells rows apart, in the order of the question: "in 2018 and 2019"."""
        common = ~0
        for mask, _ in matched.values():
            common &= mask
        found: dict[int, None] = {}
        telling = _union(mask for mask, _ in matched.values()) & ~common
        for bit in self.question.bits.values():
            if telling >> bit & 1:
                rows = [row for row, (mask, _) in matched.items() if mask >> bit & 1]
                best = max(matched[row][0].bit_count() for row in rows)
                found.update(dict.fromkeys(row for row in rows if matched[row][0].bit_count() == best))
        return list(found)

    def _years_between(self, column: int) -> list[int]:
        """ "from 2015 to 2019": the rows of these years and of those between them."""
        years = sorted(number for number in self.question.numbers if 1900 <= number < 2100)
        if column or len(years) != 2:
            return []
        named = {row: _YEAR.findall(self.view.texts[row][0]) for row in range(self.view.count)}
        return [row for row, own in named.items() if len(own) == 1 and years[0] <= int(own[0]) <= years[1]]

    def _matched(self, column: int) -> dict[int, tuple[int, float]]:
        """The rows whose cell in this column holds a word of the question."""
        found = {}
        for row in range(self.view.count):
            mask, quality = self.question.match(self.view.cells[row][column])
            if mask:
                if column == 0 and self.view.sections[row]:
                    mask |= self.question.match(self.view.sections[row])[0]
                found[row] = (mask, quality)
        return found

    @cached_property
    def compared(self) -> list[Selection]:
        """Rows whose number is larger or smaller than one of the question's."""
        found = []
        for number, column in itertools.product(self.question.numbers, self.ordered):
            is_year = 1900 <= number < 2100
            if self.view.is_date[column] or is_year != self.view.is_year[column]:
                continue
            keys, mask = self.view.keys[:, column], self.masks[column] | self._number_mask(number)
            kinds = {"more": keys > number, "least": keys >= number, "less": keys < number, "most": keys <= number}
            for kind, chosen in kinds.items():
                rows = tuple(row for row in np.flatnonzero(chosen).tolist() if row not in self.view.totals)
                if 0 < len(rows) < self.view.count:
                    found.append(Selection(rows, kind, mask, 1.0, column, self.qualities[column], number))
        found.sort(key=lambda one: -one.by_quality)
        return found[: MOST_SELECTIONS // 2]

    def _number_mask(self, number: float) -> int:
        for stem, bit in self.question.bits.items():
            if stem == f"{number:g}" or NUMBER_WORDS.get(stem) == number:
                return 1 << bit
        return 0

    @cached_property
    def sets(self) -> list[Selection]:
        """Sets of rows: all, those equal or compared, and those of two conditions together."""
        rows = tuple(row for row in range(self.view.count) if row not in self.view.totals)
        found = [Selection(rows, "all", 0, 0.5), *self.equal, *self.compared]
        for first, second in itertools.combinations(self.equal[:8] + self.compared[:6], 2):
            if first.by == second.by:
                continue
            rows = tuple(sorted({*first.rows} & {*second.rows}))
            if rows and len(rows) < min(len(first.rows), len(second.rows)):
                quality = min(first.quality, second.quality)
                found.append(Selection(rows, "both", first.mask | second.mask, quality, first.by, first.by_quality))
        return found[:MOST_SETS]

    @cached_property
    def picked(self) -> list[Selection]:
        """Rows by their order, by an extreme, or by the row beside them."""
        found: list[Selection] = []
        for chosen in self.sets:
            if len(chosen.rows) < 2 or len(found) > MOST_PICKED:
                continue
            _, _, mask, quality, by, by_quality, number = chosen
            found.append(Selection(chosen.rows[:1], "first", mask, quality, by, by_quality, number))
            found.append(Selection(chosen.rows[-1:], "last", mask, quality, by, by_quality, number))
            for column in self.ordered:
                keys = self.view.keys[list(chosen.rows), column]
                if column == by or np.isnan(keys).all():
                    continue
                for kind, extreme in (("max", np.nanmax(keys)), ("min", np.nanmin(keys))):
                    rows = tuple(row for row, key in zip(chosen.rows, keys, strict=True) if key == extreme)
                    if len(rows) <= 3:
                        both = mask | self.masks[column]
                        found.append(Selection(rows, kind, both, quality, column, self.qualities[column]))
        for anchor in self.equal:
            if len(anchor.rows) == 1:
                found.extend(self._beside(anchor))
        return found

    def _beside(self, anchor: Selection) -> Iterator[Selection]:
        row = anchor.rows[0]
        for kind, other in (("next", row + 1), ("previous", row - 1)):
            if 0 <= other < self.view.count:
                yield Selection((other,), kind, anchor.mask, anchor.quality, anchor.by, anchor.by_quality)
        for column in range(self.view.width):
            own = self.view.texts[row][column]
            if column != anchor.by and own and self.masks[column]:
                same = tuple(r for r in range(self.view.count) if r != row and self.view.texts[r][column] == own)
                if 0 < len(same) <= MOST_LISTED:
                    mask = anchor.mask | self.masks[column]
                    yield Selection(same, "same", mask, anchor.quality, column, self.qualities[column])

    # plans

    def plans(self) -> Iterator[CellPlan]:
        yield from self._readings()
        yield from self._aggregates()
        yield from self._pairs()
        if not self.view.turned:
            yield from self._frequencies()

    def _plan(
        self,
        operation: str,
        chosen: Selection,
        column: int,
        kind: str,
        cells: Sequence[tuple[int, int]] = (),
        texts: tuple[str, ...] = (),
        number: float | None = None,
    ) -> CellPlan:
        mask, quality = (
            (chosen.mask | self.masks[column], self.qualities[column]) if column >= 0 else (chosen.mask, 0.0)
        )
        return CellPlan(
            self.view.turned, operation, (chosen,), column, mask, quality, kind, tuple(cells), texts, number
        )

    def _readings(self) -> Iterator[CellPlan]:
        """Cells as they stand."""
        texts, turned = self.view.texts, self.view.turned
        kinds = ("any", "all", "more", "less", "least", "most")  # one column is read the other way round
        simple = [chosen for chosen in self.sets if chosen.kind in kinds] if turned else self.sets
        for chosen in itertools.chain(simple, self.picked):
            if len(chosen.rows) > MOST_LISTED:
                continue
            if turned:
                years = tuple(dict.fromkeys(_YEAR.findall(" ".join(texts[row][0] for row in chosen.rows))))
                if years:
                    yield self._plan("year", chosen, 0, "date", [(row, 0) for row in chosen.rows], years)
            only_label = chosen.kind == "all" or (turned and chosen.kind in ("max", "min"))
            for column in (0,) if only_label else self.columns:
                if column == 0 == chosen.by and chosen.kind == "equal":
                    continue  # the question says it
                cells = [(row, column) for row in chosen.rows if texts[row][column]]
                shown = tuple(texts[row][column] for row, _ in cells)
                if shown:
                    shown = shown if turned else tuple(dict.fromkeys(shown))
                    yield self._plan("value", chosen, column, self.view.kinds[column], cells, shown)

    def _aggregates(self) -> Iterator[CellPlan]:
        """Over all rows of a set."""
        texts = self.view.texts
        for chosen in self.sets:
            yield self._plan("count", chosen, -1, "computed", number=float(len(chosen.rows)))
            if len(chosen.rows) < 2:
                continue
            for column in self.columns:
                if column == chosen.by and chosen.kind == "equal":
                    continue
                if chosen.kind in ("all", "equal") and self.masks[column]:
                    distinct = {texts[row][column] for row in chosen.rows} - {""}
                    if len(distinct) < len(chosen.rows):
                        yield self._plan("distinct", chosen, column, "computed", number=float(len(distinct)))
                if not self.view.is_number[column] or not (self.masks[column] or self.view.width <= 6):
                    continue
                cells = [(row, column) for row in chosen.rows if self.view.numbers[row][column] is not None]
                numbers = [self.view.numbers[row][column] or 0.0 for row, _ in cells]
                if len(numbers) < 2:
                    continue
                total, top, bottom = sum(numbers), max(numbers), min(numbers)
                yield self._plan("sum", chosen, column, "computed", cells, number=total)
                yield self._plan("average", chosen, column, "computed", cells, number=total / len(numbers))
                yield self._plan("range", chosen, column, "computed", cells, number=top - bottom)
                for name, extreme in (("largest", top), ("smallest", bottom)):
                    at = cells[numbers.index(extreme)]
                    yield self._plan(name, chosen, column, "number", [at], (texts[at[0]][column],), extreme)

    def _pairs(self) -> Iterator[CellPlan]:
        """Two rows beside one another."""
        single = sorted((one for one in self.equal if len(one.rows) == 1), key=self._mentioned)[:MOST_SINGLE]
        single += [one for one in self.picked if one.kind in ("first", "last") and not one.mask][:2]
        numbers, texts = self.view.numbers, self.view.texts
        for first, second in itertools.combinations(single, 2):
            (a,), (b,) = first.rows, second.rows
            if a == b:
                continue
            mask = first.mask | second.mask
            for column in self.columns:
                x, y = numbers[a][column], numbers[b][column]
                if x is None or y is None or not self.view.is_number[column]:
                    continue
                made: list[tuple[str, float, bool]] = [("sum2", x + y, False), ("average2", (x + y) / 2, False)]
                made += [("apart", abs(x - y), False), ("difference", x - y, False), ("difference", y - x, True)]
                for above, below, backwards in ((x, y, False), (y, x, True)):
                    if below:
                        growth = (above - below) / abs(below) * 100
                        made += [("growth", growth, backwards), ("share", above / below * 100, backwards)]
                        made.append(("ratio", above / below, backwards))
                both, quality = mask | self.masks[column], self.qualities[column]
                cells = ((a, column), (b, column))
                for name, number, backwards in made:
                    yield CellPlan(
                        self.view.turned,
                        name,
                        (first, second),
                        column,
                        both,
                        quality,
                        "computed",
                        cells,
                        (),
                        number,
                        backwards,
                    )
                if not self.view.turned and first.by == second.by:
                    more, less = (a, b) if x >= y else (b, a)
                    for name, row in (("which_more", more), ("which_less", less)):
                        shown = (texts[row][first.by],)
                        at = ((row, first.by), *cells)
                        yield CellPlan(False, name, (first, second), column, both, quality, "text", at, shown)

    def _mentioned(self, chosen: Selection) -> int:
        """Where the question says it: first a word that only this row has."""
        others = _union(one.mask for one in self.equal if len(one.rows) == 1 and one.rows != chosen.rows)
        own = chosen.mask & ~others or chosen.mask
        return min(
            (self.question.place[stem] for stem, bit in self.question.bits.items() if own >> bit & 1), default=99
        )

    def _frequencies(self) -> Iterator[CellPlan]:
        texts = self.view.texts
        for chosen in self.sets[:10]:
            if len(chosen.rows) < 3:
                continue
            for column in self.columns:
                counts = Counter(texts[row][column] for row in chosen.rows if texts[row][column]).most_common()
                for name, ranked in (("commonest", counts), ("rarest", counts[::-1])):
                    if len(ranked) > 1 and ranked[0][1] != ranked[1][1]:
                        shown = ranked[0][0]
                        cells = [(row, column) for row in chosen.rows if texts[row][column] == shown]
                        yield self._plan(name, chosen, column, self.view.kinds[column], cells, (shown,))


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def described(plan: CellPlan, table: TableViews, question: AskedWords) -> str:
    """The plan as a phrase that a person would say, without what it gives."""
    view = table.views[plan.turned].grid
    names = [" ".join(path) for path in view.columns]
    rows = [_chosen(selection, view, names, question) for selection in plan.selections]
    first, second = (rows[::-1] if plan.backwards else rows) if len(rows) == 2 else (rows[0], "")
    field = (names[plan.column] if plan.column >= 0 else "") or "name"
    return OPERATIONS[plan.operation].format(field=field, rows=" and ".join(rows), first=first, second=second)


def stated(plan: CellPlan, table: TableViews, question: AskedWords) -> str:
    """The plan with what it gives, as the reader judges it: "change in sales from 2018 to 2019: 412"."""
    if plan.texts:
        given = "; ".join(plan.texts)
    else:
        given = "" if plan.number is None else f"{plan.number:,.2f}".removesuffix(".00")
    return ": ".join(" ".join(part.split())[:MOST_STATED] for part in (described(plan, table, question), given))


def _chosen(selection: Selection, grid: Grid, names: Sequence[str], question: AskedWords) -> str:
    def cell(row: int) -> str:
        path = grid.rows[row]
        return " ".join(path) if selection.by <= 0 and len(path) > 1 else grid.texts[row][max(selection.by, 0)]

    beside = {"next": -1, "previous": 1}.get(selection.kind, 0)
    matched = [stem for stem, bit in question.bits.items() if selection.mask >> bit & 1]
    return SELECTIONS[selection.kind].format(
        cells=", ".join(dict.fromkeys(cell(row) for row in selection.rows[:4])),
        by=names[selection.by] if selection.by >= 0 else "",
        number=f"{selection.number:g}",
        of=f" of {' '.join(matched)}" if matched else "",
        anchor=cell(selection.rows[0] + beside),
    )
