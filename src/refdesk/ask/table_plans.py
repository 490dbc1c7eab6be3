"""Which computations over a table could answer the question? Every one that the question's words point at, executed.

A plan selects rows (by the words of the question, by comparison, by order, by an extreme), then reads, counts or
computes over a column. Both ways round: the columns of a table are rows of the turned one. `rank` tells which plan
answers. Pure.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from refdesk.tables import Grid, cell_date, cell_number
from refdesk.terms import QUERY_STOP_WORDS, terms, words
from refdesk.text import word_list

MOST_SELECTIONS, MOST_PAIRS, MOST_FIELDS, MOST_LISTED = 40, 8, 40, 8
NUMBER_WORDS = {word: float(number) for number, word in enumerate(word_list("words", "number words")[:21])}
_YEAR = re.compile(r"(?:19|20)\d\d")
_DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows, and which words of the question chose them."""

    rows: tuple[int, ...]
    kind: str
    mask: int = 0
    quality: float = 0.0  # share of the row's own words that the question says
    by: int = -1  # the column that was looked at
    by_quality: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """An operation over rows and columns, and what it gives."""

    turned: bool
    operation: str
    selections: tuple[Selection, ...]
    fields: tuple[int, ...]
    mask: int
    kind: str  # of what it gives: number, date, text, computed
    texts: tuple[str, ...] = ()
    number: float | None = None
    field_quality: float = 0.0
    cells: tuple[tuple[int, int], ...] = ()


class Question:
    """The words of a question that may name something in a table."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.all = words(text)
        stems = terms(text)
        self.stems = stems
        self.bits: dict[str, int] = {}
        for word, stem in zip(self.all, stems, strict=True) if len(self.all) == len(stems) else zip(stems, stems, strict=True):
            if word not in QUERY_STOP_WORDS:
                self.bits.setdefault(stem, len(self.bits))
        self.place = {stem: place for place, stem in reversed(list(enumerate(stems)))}
        found = [float(match.replace(",", "")) for match in _DIGITS.findall(text) if match.replace(",", "").strip(".")]
        found += [NUMBER_WORDS[word] for word in self.all if word in NUMBER_WORDS and word not in ("one", "zero")]
        self.numbers = list(dict.fromkeys(found))[:3]

    def match(self, own: Sequence[str]) -> tuple[int, float]:
        """(mask of the question's words that these hold, share of these that the question says)."""
        mask = hit = 0
        total = 0
        for stem in own:
            if stem in QUERY_STOP_WORDS:
                continue
            total += 1
            bit = self.bits.get(stem)
            if bit is not None:
                mask |= 1 << bit
                hit += 1
        return mask, hit / total if total else 0.0


class View:
    """One way round of a table, with the stems of its cells and columns."""

    def __init__(self, grid: Grid, *, turned: bool) -> None:
        self.grid, self.turned = grid, turned
        self.texts = grid.texts
        self.count, self.width = len(grid.texts), grid.width
        self.names = [terms(" ".join(path)) for path in grid.columns]
        self.last_names = [terms(path[-1]) if path else [] for path in grid.columns]
        self.cells = [[terms(text) for text in row] for row in self.texts]
        self.sections = [terms(path[0]) if len(path) > 1 else [] for path in grid.rows]
        self.keys = np.array([[_key(text) for text in row] for row in self.texts]).reshape(self.count, self.width)
        self.is_number = [
            self.count > 0 and float(np.mean([cell_number(row[c]) is not None for row in self.texts])) > 0.6
            for c in range(self.width)
        ]
        self.is_ordered = [self.count > 0 and float(np.mean(~np.isnan(self.keys[:, c]))) > 0.6 for c in range(self.width)]
        self.is_date = [
            self.count > 0 and float(np.mean([cell_date(row[c]) is not None for row in self.texts])) > 0.6
            for c in range(self.width)
        ]
        self.totals = {
            number for number, row in enumerate(self.texts) if any(stem in ("total", "totals") for stem in self.cells[number][0][:2])
        }

    def kind(self, column: int) -> str:
        if self.is_date[column]:
            return "date"
        return "number" if self.is_number[column] else "text"


def _key(text: str) -> float:
    """What a cell is ordered by."""
    day = cell_date(text)
    if day is not None:
        return day
    number = cell_number(text)
    return np.nan if number is None else number


def plans(question: Question, grid: Grid) -> list[Plan]:
    """Every plan that the words of the question point at."""
    if not grid.texts or grid.width < 2:
        return []
    found = list(_Maker(question, View(grid, turned=False)).plans())
    numeric = float(np.mean(~np.isnan(grid.numbers[:, 1:]))) if grid.width > 1 else 0.0
    if numeric > 0.5 and grid.width <= 15 and len(grid.texts) <= 80:
        found += _Maker(question, View(grid.turned(), turned=True)).plans()
    return found


class _Maker:
    def __init__(self, question: Question, view: View) -> None:
        self.question, self.view = question, view
        matches = [question.match(name) for name in view.names]
        lasts = [question.match(name)[1] for name in view.last_names]
        self.field_mask = [mask for mask, _ in matches]
        self.field_quality = [max(quality, last) for (_, quality), last in zip(matches, lasts, strict=True)]
        order = sorted(range(view.width), key=lambda c: -self.field_quality[c])
        self.fields = sorted(order[:MOST_FIELDS])

    # rows

    @cached_property
    def equal(self) -> list[Selection]:
        """Rows whose cells hold words of the question: by column, the best, and those of every word."""
        found: dict[tuple[int, ...], Selection] = {}

        def keep(rows: Iterable[int], mask: int, quality: float, by: int, kind: str = "equal") -> None:
            key = tuple(rows)
            known = found.get(key)
            if key and mask and (known is None or (mask.bit_count(), quality) > (known.mask.bit_count(), known.quality)):
                found[key] = Selection(key, kind, mask, quality, by, self.field_quality[by])

        for column in range(self.view.width):
            matched = [self.question.match(self.view.cells[r][column]) for r in range(self.view.count)]
            if column == 0:
                matched = [self._with_section(r, *pair) for r, pair in enumerate(matched)]
            hits = [(mask.bit_count(), quality, r) for r, (mask, quality) in enumerate(matched) if mask]
            if not hits:
                continue
            best = max((count, quality) for count, quality, _ in hits)
            rows = [r for count, quality, r in hits if (count, quality) == best]
            keep(rows, matched[rows[0]][0], best[1], column)
            full = [r for _, quality, r in hits if quality >= 0.99]
            by_mask: dict[int, list[int]] = {}
            for r in full:
                by_mask.setdefault(matched[r][0], []).append(r)
            for mask, group in itertools.islice(by_mask.items(), 6):
                keep(group, mask, 1.0, column)
            if 1 < len(full) <= 12:
                mask = 0
                for r in full:
                    mask |= matched[r][0]
                keep(full, mask, 1.0, column, "any")
            for bit in {b for mask, _ in matched for b in _bits(mask)}:
                group = [r for r, (mask, _) in enumerate(matched) if mask >> bit & 1]
                if len(group) < self.view.count:
                    keep(group, 1 << bit, float(np.mean([matched[r][1] for r in group])), column)
            ranked = sorted(hits, key=lambda hit: (-hit[0], -hit[1]))[:4]
            for _, quality, r in ranked:
                keep((r,), matched[r][0], quality, column)
        chosen = sorted(found.values(), key=lambda s: (-s.mask.bit_count(), -s.quality, len(s.rows)))
        return chosen[:MOST_SELECTIONS]

    def _with_section(self, row: int, mask: int, quality: float) -> tuple[int, float]:
        if not mask:
            return mask, quality
        return mask | self.question.match(self.view.sections[row])[0], quality

    @cached_property
    def compared(self) -> list[Selection]:
        """Rows whose number is larger or smaller than one of the question's."""
        found = []
        for number, column in itertools.product(self.question.numbers, self.fields):
            if not self.view.is_ordered[column] or self.view.is_date[column]:
                continue
            keys = self.view.keys[:, column]
            for kind, chosen in (("more", keys > number), ("least", keys >= number), ("less", keys < number), ("most", keys <= number)):
                rows = tuple(int(r) for r in np.flatnonzero(chosen) if r not in self.view.totals)
                if 0 < len(rows) < self.view.count:
                    found.append(Selection(rows, kind, self.field_mask[column] | self._number_mask(number), 1.0, column, self.field_quality[column]))
        found.sort(key=lambda s: -s.by_quality)
        return found[: MOST_SELECTIONS // 2]

    def _number_mask(self, number: float) -> int:
        for stem, bit in self.question.bits.items():
            if stem.replace(",", "") == f"{number:g}" or NUMBER_WORDS.get(stem) == number:
                return 1 << bit
        return 0

    @cached_property
    def sets(self) -> list[Selection]:
        """Sets of rows: all, equal, compared, and two conditions together."""
        everything = Selection(tuple(r for r in range(self.view.count) if r not in self.view.totals), "all", 0, 0.5)
        found = [everything, *self.equal, *self.compared]
        pool = self.equal[:8] + self.compared[:6]
        for first, second in itertools.combinations(pool, 2):
            if first.by == second.by:
                continue
            rows = tuple(sorted(set(first.rows) & set(second.rows)))
            if rows and len(rows) < min(len(first.rows), len(second.rows)):
                found.append(
                    Selection(rows, "both", first.mask | second.mask, min(first.quality, second.quality), first.by, first.by_quality)
                )
        return found[: MOST_SELECTIONS + 30]

    @cached_property
    def picked(self) -> list[Selection]:
        """Single rows by order or by an extreme."""
        found: list[Selection] = []
        for chosen in self.sets:
            if len(chosen.rows) < 2:
                continue
            if chosen.kind in ("all", "equal", "more", "less", "least", "most", "both", "any"):
                for kind, row in (("first", chosen.rows[0]), ("last", chosen.rows[-1])):
                    found.append(Selection((row,), kind, chosen.mask, chosen.quality, chosen.by, chosen.by_quality))
            for column in self.fields:
                if self.view.is_ordered[column] and column != chosen.by:
                    keys = self.view.keys[list(chosen.rows), column]
                    if np.isnan(keys).all():
                        continue
                    for kind, key in (("max", np.nanmax(keys)), ("min", np.nanmin(keys))):
                        rows = tuple(r for r, own in zip(chosen.rows, keys, strict=True) if own == key)
                        if len(rows) <= 3:
                            found.append(
                                Selection(rows, kind, chosen.mask | self.field_mask[column], chosen.quality, column, self.field_quality[column])
                            )
            if len(found) > 400:
                break
        for anchor in self.equal:
            if len(anchor.rows) == 1:
                row = anchor.rows[0]
                for kind, other in (("next", row + 1), ("previous", row - 1)):
                    if 0 <= other < self.view.count:
                        found.append(Selection((other,), kind, anchor.mask, anchor.quality, anchor.by, anchor.by_quality))
                for column in range(self.view.width):
                    if column != anchor.by and self.view.texts[row][column]:
                        same = tuple(r for r in range(self.view.count) if r != row and self.view.texts[r][column] == self.view.texts[row][column])
                        if 0 < len(same) <= 6 and self.field_mask[column]:
                            found.append(Selection(same, "same", anchor.mask | self.field_mask[column], anchor.quality, column, self.field_quality[column]))
        return found

    # plans

    def plans(self) -> Iterator[Plan]:
        yield from self._readings()
        yield from self._aggregates()
        yield from self._pairs()
        if not self.view.turned:
            yield from self._modes()

    def _plan(self, operation: str, selections: tuple[Selection, ...], fields: tuple[int, ...], kind: str, cells: Sequence[tuple[int, int]] = (), texts: tuple[str, ...] = (), number: float | None = None) -> Plan:
        mask = 0
        for selection in selections:
            mask |= selection.mask
        for column in fields:
            mask |= self.field_mask[column]
        quality = float(np.mean([self.field_quality[c] for c in fields])) if fields else 0.0
        return Plan(self.view.turned, operation, selections, fields, mask, kind, texts, number, quality, tuple(cells))

    def _readings(self) -> Iterator[Plan]:
        kinds = ("any", "all", "more", "less", "least", "most")
        simple = [s for s in self.sets if s.kind in kinds] if self.view.turned else self.sets
        for chosen in itertools.chain(simple, self.picked):
            if len(chosen.rows) > MOST_LISTED:
                continue
            if self.view.turned:
                years = tuple(dict.fromkeys(_YEAR.findall(" ".join(self.view.texts[r][0] for r in chosen.rows))))
                if years:
                    yield self._plan("year", (chosen,), (0,), "date", [(r, 0) for r in chosen.rows], years)
            columns = self._read_columns(chosen)
            for column in columns:
                texts = tuple(t for r in chosen.rows if (t := self.view.texts[r][column])) if self.view.turned else tuple(dict.fromkeys(t for r in chosen.rows if (t := self.view.texts[r][column])))
                if texts and not (column == chosen.by and chosen.kind in ("equal", "any") and column == 0 and len(texts) == 1):
                    yield self._plan("value", (chosen,), (column,), self.view.kind(column), [(r, column) for r in chosen.rows], texts)

    def _read_columns(self, chosen: Selection) -> Sequence[int]:
        if chosen.kind == "all" or (self.view.turned and chosen.kind in ("max", "min")):
            return (0,)
        return self.fields if self.view.turned else range(self.view.width)

    def _aggregates(self) -> Iterator[Plan]:
        for chosen in self.sets:
            yield self._plan("count", (chosen,), (), "computed", number=float(len(chosen.rows)))
            if len(chosen.rows) < 2:
                continue
            for column in self.fields:
                if column == chosen.by and chosen.kind == "equal":
                    continue
                if chosen.kind == "all" or chosen.kind == "equal":
                    distinct = {self.view.texts[r][column] for r in chosen.rows if self.view.texts[r][column]}
                    if self.field_mask[column] and len(distinct) < len(chosen.rows):
                        yield self._plan("distinct", (chosen,), (column,), "computed", number=float(len(distinct)))
                if not self.view.is_number[column] or not (self.field_mask[column] or self.view.width <= 6):
                    continue
                numbers = [(r, n) for r in chosen.rows if (n := cell_number(self.view.texts[r][column])) is not None]
                if len(numbers) < 2:
                    continue
                own = np.array([n for _, n in numbers])
                cells = [(r, column) for r, _ in numbers]
                yield self._plan("sum", (chosen,), (column,), "computed", cells, number=float(own.sum()))
                yield self._plan("average", (chosen,), (column,), "computed", cells, number=float(own.mean()))
                yield self._plan("range", (chosen,), (column,), "computed", cells, number=float(own.max() - own.min()))
                for name, at in (("largest", int(own.argmax())), ("smallest", int(own.argmin()))):
                    row = numbers[at][0]
                    yield self._plan(name, (chosen,), (column,), "number", [(row, column)], (self.view.texts[row][column],), float(own[at]))

    def _pairs(self) -> Iterator[Plan]:
        single = [s for s in self.equal if len(s.rows) == 1][:MOST_PAIRS]
        single.sort(key=self._mentioned)
        single += [s for s in self.picked if s.kind in ("first", "last") and not s.mask][:2]
        for first, second in itertools.combinations(single, 2):
            if first.rows == second.rows:
                continue
            a, b = first.rows[0], second.rows[0]
            for column in self.fields:
                x, y = cell_number(self.view.texts[a][column]), cell_number(self.view.texts[b][column])
                if x is None or y is None or not self.view.is_number[column]:
                    continue
                if not self.view.turned and first.by == second.by:
                    row = a if x >= y else b
                    other = b if x >= y else a
                    yield self._plan("which_more", (first, second), (column,), "text", [(row, first.by)], (self.view.texts[row][first.by],))
                    yield self._plan("which_less", (first, second), (column,), "text", [(other, first.by)], (self.view.texts[other][first.by],))
                cells = [(a, column), (b, column)]
                yield self._plan("sum2", (first, second), (column,), "computed", cells, number=x + y)
                yield self._plan("average2", (first, second), (column,), "computed", cells, number=(x + y) / 2)
                yield self._plan("difference", (first, second), (column,), "computed", cells, number=x - y)
                yield self._plan("difference_back", (first, second), (column,), "computed", cells, number=y - x)
                yield self._plan("apart", (first, second), (column,), "computed", cells, number=abs(x - y))
                if y:
                    yield self._plan("growth", (first, second), (column,), "computed", cells, number=(x - y) / abs(y) * 100)
                    yield self._plan("share", (first, second), (column,), "computed", cells, number=x / y * 100)
                    yield self._plan("ratio", (first, second), (column,), "computed", cells, number=x / y)
                if x:
                    yield self._plan("growth_back", (first, second), (column,), "computed", cells, number=(y - x) / abs(x) * 100)
                    yield self._plan("share_back", (first, second), (column,), "computed", cells, number=y / x * 100)
                    yield self._plan("ratio_back", (first, second), (column,), "computed", cells, number=y / x)

    def _mentioned(self, chosen: Selection) -> int:
        """Where the question first says a word of the selection."""
        places = [self.question.place[stem] for stem, bit in self.question.bits.items() if chosen.mask >> bit & 1 and stem in self.question.place]
        own = [p for p in places if all(not (s.mask >> self.question.bits[self.question.stems[p]] & 1) for s in self.equal if s.rows != chosen.rows and len(s.rows) == 1)]
        return min(own or places or [99])

    def _modes(self) -> Iterator[Plan]:
        for chosen in self.sets[:10]:
            if len(chosen.rows) < 3:
                continue
            for column in self.fields:
                counts = Counter(self.view.texts[r][column] for r in chosen.rows if self.view.texts[r][column])
                if len(counts) > 1:
                    (text, most), (_, second) = counts.most_common(2)
                    if most > second:
                        yield self._plan("commonest", (chosen,), (column,), self.view.kind(column), texts=(text,))
                    rare = counts.most_common()[-1]
                    if rare[1] < counts.most_common()[-2][1]:
                        yield self._plan("rarest", (chosen,), (column,), self.view.kind(column), texts=(rare[0],))


def _bits(mask: int) -> Iterator[int]:
    place = 0
    while mask:
        if mask & 1:
            yield place
        mask >>= 1
        place += 1


# --- a plan in words ---------------------------------------------------------------------------------------------------

_SAID = {
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
    "difference": "{field}, change from {second} to {first}",
    "difference_back": "{field}, change from {first} to {second}",
    "apart": "{field}, difference between {rows}",
    "growth": "{field}, percentage change from {second} to {first}",
    "growth_back": "{field}, percentage change from {first} to {second}",
    "share": "{field}, {first} as percentage of {second}",
    "share_back": "{field}, {second} as percentage of {first}",
    "ratio": "{field}, ratio of {first} to {second}",
    "ratio_back": "{field}, ratio of {second} to {first}",
    "year": "year of {rows}",
    "value": "{field} of {rows}",
}
_CHOSEN = {
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


def described(plan: Plan, grid: Grid, question: Question, result: str) -> str:
    """The plan as a phrase that a person would say, with what it gives."""
    view = grid.turned() if plan.turned else grid
    names = [" ".join(path) for path in view.columns]
    rows = [_chosen(selection, view, names, question) for selection in plan.selections]
    field = " and ".join(names[column] or "name" for column in plan.fields)
    said = _SAID[plan.operation].format(
        field=field, rows=" and ".join(rows), first=rows[0], second=rows[1] if len(rows) > 1 else ""
    )
    return f"{said}: {result}"


def _chosen(selection: Selection, view: Grid, names: Sequence[str], question: Question) -> str:
    def cell(row: int) -> str:
        text = view.texts[row][max(selection.by, 0)] if 0 <= row < len(view.texts) else ""
        path = view.rows[row] if selection.by <= 0 and 0 <= row < len(view.rows) else ()
        return " ".join(path) if len(path) > 1 else text

    matched = [stem for stem, bit in question.bits.items() if selection.mask >> bit & 1]
    return _CHOSEN[selection.kind].format(
        cells=", ".join(dict.fromkeys(cell(row) for row in selection.rows[:4])),
        by=names[selection.by] if selection.by >= 0 else "",
        number=question.numbers[0] if question.numbers else "",
        of=f" of {' '.join(matched)}" if matched else "",
        anchor=cell(selection.rows[0] + (-1 if selection.kind == "next" else 1)),
    )
