"""Builds and executes every computation over a table that the words of the question suggest.

A plan selects rows (by the words of the question, by a comparison, by order, by an extreme), then reads, counts or
computes over a column. Both ways round: the columns of a table are the rows of the turned one, so "in which year was
it largest" is an extreme over columns. `table_question` tells which plan answers. Pure.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from refdesk.ask.table_view import (
    MOST_AT_ONCE,
    NAMED,
    AskedWords,
    CellPlan,
    GroupedView,
    Matched,
    Places,
    Rows,
    Selection,
    View,
    chosen_rows,
    compared,
    foremost,
    named_groups,
    said,
)
from refdesk.ask.wording import NUMBER_WORDS, YEAR_NUMBER
from refdesk.tables import Grid
from refdesk.text import terms

MOST_SELECTIONS, MOST_SETS, MOST_PICKED, MOST_SINGLE = 40, 70, 400, 8
MOST_OTHER = 6  # sets of rows and columns that no word of the question points at
MOST_CONDITIONS = 4  # of a sheet that a question names together; and sets of rows that are grouped, and rows of a
# column that match best, each tried alone
OF_GROUPS = frozenset(("value", "which_more", "which_less", "apart", "difference", "growth", "share", "ratio"))
WIDEST_TURNED, LONGEST_TURNED = 15, 80  # a larger table is not read by columns
YEARS = 1900, 2100
MOST_STATED = 160  # letters of a plan in words, and of what it gives: what the reader sees of it


class TableViews:
    """A grid both ways round, ready for questions."""

    def __init__(self, grid: Grid, views: Sequence[View] = ()) -> None:
        """`views`: those of a sheet, which has its own."""
        self.grid = grid
        self.views = list(views)
        if views:
            return
        self.views = [View(grid, turned=False)] if grid.texts and grid.width > 1 else []
        if self.views and grid.width <= WIDEST_TURNED and len(grid.texts) <= LONGEST_TURNED:
            filled = [number is not None for row in self.views[0].numbers for number in row[1:]]
            if sum(filled) > len(filled) / 2:
                self.views.append(View(grid.turned(), turned=True))

    def view_of(self, plan: CellPlan) -> View:
        return plan.grouped or self.views[plan.turned]

    def plans(self, question: AskedWords) -> list[CellPlan]:
        """Every plan that the words of the question point at."""
        makers = [_Maker(question, view) for view in self.views]
        return [plan for maker in makers for plan in maker.plans()] + [*makers[0].of_groups()] if makers else []


class _Maker:
    """The plans of one view."""

    def __init__(self, question: AskedWords, view: View) -> None:
        self.question, self.view = question, view
        matches = [question.match(name) for name in view.names]
        lasts = [question.match(name)[1] for name in view.last_names]
        self.masks = [mask for mask, _ in matches]
        self.qualities = [max(quality, last) for (_, quality), last in zip(matches, lasts, strict=True)]
        best = sorted(range(view.width), key=lambda column: -self.qualities[column])
        self.columns = sorted(best[:MOST_SELECTIONS])
        self.ordered = [c for c in self.columns if view.is_ordered[c]]
        self.listed = [number for number in question.numbers if number in range(2, MOST_SINGLE + 1)]

    # rows

    @cached_property
    def equal(self) -> list[Selection]:
        """Rows whose cells hold words of the question: by column, the best ones, and those of every word."""
        found: dict[Rows, Selection] = {}

        def keep(rows: Rows, mask: int, quality: float, by: int, kind: str = "equal") -> None:
            known = found.get(rows)
            if len(rows) and (known is None or (mask.bit_count(), quality) > (known.mask.bit_count(), known.quality)):
                found[rows] = Selection(rows, kind, mask, quality, by, self.qualities[by])

        view = self.view
        for column in range(view.width):
            matched = view.matched(self.question, column)
            if not matched:
                continue
            ranked = self._ranked(matched)
            first = ranked[0]
            alike = [rows for key, rows in matched.items() if _fit(key) == _fit(first[1:])]
            keep(view.merged(alike), *first[1:], column)
            if view.has_records:
                held = {key: rows for key, rows in matched.items() if not first[1] & ~key[0]}
                keep(view.merged(held.values()), first[1], _mean(held), column)  # texts that say more hold them too
                for named in _named_together(matched):  # "in 2018 and 2019", "March and April 2024"
                    keep(view.merged(named.values()), _union(mask for mask, _ in named), _mean(named), column, "any")
            for row, mask, quality in ranked:
                # Of many rows that match alike, no one is the one that is meant.
                alike = [rows for key, rows in matched.items() if _fit(key) == _fit((mask, quality))]
                if sum(map(len, alike)) <= (1 if view.has_records else MOST_AT_ONCE):
                    keep((row,), mask, quality, column)
            full = {mask: rows for (mask, quality), rows in matched.items() if quality >= 1}
            for mask, rows in itertools.islice(sorted(full.items(), key=lambda item: item[1][0]), MOST_OTHER):
                keep(rows, mask, 1.0, column)
            if 1 < sum(map(len, full.values())) <= MOST_AT_ONCE:
                keep(view.merged(full.values()), _union(full), 1.0, column, "any")
            for rows in (self._one_each(matched), self._years_between(column)):
                if 1 < len(rows) <= MOST_AT_ONCE:
                    own = [
                        next((key for key, all_rows in matched.items() if row in all_rows), (0, 0.0)) for row in rows
                    ]
                    quality = sum(quality for _, quality in own) / len(own)
                    keep(rows, _union(mask for mask, _ in own), quality, column, "any")
            for bit in set(_bits(_union(mask for mask, _ in matched))):
                held = {key: rows for key, rows in matched.items() if key[0] >> bit & 1}
                if sum(map(len, held.values())) < view.count:
                    keep(view.merged(held.values()), 1 << bit, _mean(held), column)
        chosen = sorted(
            found.values(), key=lambda selection: (-selection.mask.bit_count(), -selection.quality, len(selection.rows))
        )
        return chosen[:MOST_SELECTIONS]

    def _ranked(self, matched: Matched) -> list[tuple[int, int, float]]:
        """The rows that match best, each with its words and its share of them."""
        rows = [(row, *key) for key, rows in matched.items() for row in rows[:MOST_CONDITIONS]]
        return sorted(rows, key=lambda row: (*_fit(row[1:]), row[0]))[:MOST_CONDITIONS]

    def _one_each(self, matched: Matched) -> Rows:
        """The best row for every word that tells rows apart, in the order of the question: "in 2018 and 2019"."""
        common = ~0
        for mask, _ in matched:
            common &= mask
        found: dict[int, None] = {}
        telling = _union(mask for mask, _ in matched) & ~common
        for bit in self.question.bits.values():
            if telling >> bit & 1:
                best = max(mask.bit_count() for mask, _ in matched if mask >> bit & 1)
                own = [rows for (mask, _), rows in matched.items() if mask >> bit & 1 and mask.bit_count() == best]
                if sum(map(len, own)) > MOST_AT_ONCE:
                    return ()
                found.update(dict.fromkeys(self.view.merged(own)))
        return tuple(found)

    def _years_between(self, column: int) -> Rows:
        """ "from 2015 to 2019": the rows of these years and of those between them."""
        years = sorted(number for number in self.question.numbers if YEARS[0] <= number < YEARS[1])
        return self.view.years_between(*years) if not column and len(years) == 2 else ()

    @cached_property
    def compared(self) -> list[Selection]:
        """Rows whose number is larger or smaller than one of the question's."""
        found = []
        for number, column in itertools.product(self.question.numbers, self.ordered):
            is_year = YEARS[0] <= number < YEARS[1]
            if self.view.is_date[column] or is_year != self.view.is_year[column]:
                continue
            keys, mask = self.view.compared_by(column), self.masks[column] | self._number_mask(number)
            kinds = {"more": keys > number, "least": keys >= number, "less": keys < number, "most": keys <= number}
            for kind, chosen in kinds.items():
                rows = self.view.where(chosen)
                if 0 < len(rows) < self.view.count:
                    found.append(Selection(rows, kind, mask, 1.0, column, self.qualities[column], number))
        found.sort(key=lambda selection: -selection.by_quality)
        return found[: MOST_SELECTIONS // 2]

    def _number_mask(self, number: float) -> int:
        for stem, bit in self.question.bits.items():
            if stem == f"{number:g}" or (number > 1 and NUMBER_WORDS.get(stem) == number):
                return 1 << bit
        return 0

    @cached_property
    def sets(self) -> list[Selection]:
        """Sets of rows: all, those equal or compared, and those of two conditions together."""
        found = [Selection(self.view.rows, "all", 0, 0.5), *self.equal, *self.compared]
        if self.view.has_records:
            every, *conditions = found
            # Who names a region and a year asks for the rows of both, not for all of the region.
            conditions += self._together()
            # "Staff number 1234" is as full a reading as all above it, to which the name of the column adds.
            full = {condition: condition.mask | self.masks[condition.by] for condition in conditions}
            fullest = [
                condition
                for condition in conditions
                if not any(full[condition] & ~m == 0 != m & ~full[condition] for m in full.values())
            ]
            return [every, *fullest][:MOST_SETS]
        for first, second in itertools.combinations(self.equal[:MOST_SINGLE] + self.compared[:MOST_OTHER], 2):
            if first.by == second.by:
                continue
            rows = self.view.common(first.rows, second.rows)
            if 0 < len(rows) < min(len(first.rows), len(second.rows)):
                quality = min(first.quality, second.quality)
                found.append(Selection(rows, "both", first.mask | second.mask, quality, first.by, first.by_quality))
        if not self.view.turned and (totals := self.view.totals):
            # "What was capital expenditure in 2018?" names a column; its sum is in the row of the total.
            found.insert(1, Selection((max(totals),), "equal", 0, 0.5, 0, self.qualities[0]))
        return found[:MOST_SETS]

    def _together(self) -> list[Selection]:
        """Rows of a sheet that fulfil every condition of the question: a row is a record, with a column for each.

        In small tables words of one name stand in several columns, and what was learned there of `both` is to beware.
        """
        best: dict[int, Selection] = {}  # by column; not one row of several that match alike
        for chosen in sorted(self.equal, key=lambda one: (-one.mask.bit_count(), -one.quality, -len(one.rows))):
            best.setdefault(chosen.by, chosen)
        single = list(best.values())[:MOST_CONDITIONS]
        made: list[Selection | None] = []
        for count in range(MOST_CONDITIONS, 0, -1):
            for equal in itertools.combinations(single, count):
                covered = _union(selection.mask for selection in equal)
                # What is compared with is a number of its own, and not that of "product 17".
                compared = [
                    selection
                    for selection in self.compared[:MOST_SINGLE]
                    if self._number_mask(selection.number) & ~covered
                ]
                made += [
                    self._joined(conditions) for conditions in (equal, *((selection, *equal) for selection in compared))
                ]
        return [selection for selection in made if selection is not None][: MOST_SETS // 2]

    def _joined(self, conditions: Sequence[Selection]) -> Selection | None:
        """None where one says nothing new, where it is one alone, or no row is left.

        The name of another one's column is nothing new: in "opened in June" that the state is open.
        """
        rows, mask = conditions[0].rows, conditions[0].mask
        for selection in conditions:
            names = _union(self.masks[other.by] for other in conditions if other is not selection)
            if not selection.mask & ~names:
                return None
        for selection in conditions[1:]:
            if not selection.mask & ~mask or selection.by == conditions[0].by:
                return None
            rows, mask = self.view.common(rows, selection.rows), mask | selection.mask
        first, quality = conditions[0], sum(condition.quality for condition in conditions) / len(conditions)
        if not len(rows) or len(conditions) < 2:
            return None
        return Selection(rows, first.kind, mask, quality, first.by, first.by_quality, first.number, tuple(conditions))

    @cached_property
    def picked(self) -> list[Selection]:
        """Rows by their order, by an extreme, or by the row beside them."""
        found: list[Selection] = []
        for chosen in self.sets:
            if len(chosen.rows) < 2 or len(found) > MOST_PICKED:
                continue
            _, _, mask, quality, by, by_quality, number, *_ = chosen
            found.append(Selection(chosen.rows[:1], "first", mask, quality, by, by_quality, number))
            found.append(Selection(chosen.rows[-1:], "last", mask, quality, by, by_quality, number))
            for column in self.ordered:
                both = mask | self.masks[column]
                for kind, rows in self.view.extremes(chosen.rows, column) if column != by else ():
                    fit = self.qualities[column]
                    found.append(Selection(rows, kind, both, quality, column, fit, among=chosen.rows))
                for count in self.listed if column != by else ():  # "the top three"
                    both |= self._number_mask(count)
                    for kind, rows in foremost(self.view, chosen.rows, column, int(count)):
                        found.append(Selection(rows, kind, both, quality, column, self.qualities[column], count))
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
                same = self.view.same(row, column)
                if 0 < len(same) <= MOST_SINGLE:
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
        cells: Places = (),
        texts: tuple[str, ...] = (),
        number: float | None = None,
    ) -> CellPlan:
        mask, quality = (
            (chosen.mask | self.masks[column], self.qualities[column]) if column >= 0 else (chosen.mask, 0.0)
        )
        return CellPlan(self.view.turned, operation, (chosen,), column, mask, quality, kind, cells, texts, number)

    def _readings(self) -> Iterator[CellPlan]:
        """Cells as they stand."""
        texts, turned = self.view.texts, self.view.turned
        kinds = ("any", "all", "more", "less", "least", "most")  # one column is read the other way round
        simple = [chosen for chosen in self.sets if chosen.kind in kinds] if turned else self.sets
        for chosen in itertools.chain(simple, self.picked):
            if len(chosen.rows) > MOST_SINGLE:
                continue
            if turned:
                years = tuple(dict.fromkeys(YEAR_NUMBER.findall(" ".join(texts[row][0] for row in chosen.rows))))
                if years:
                    yield self._plan("year", chosen, 0, "date", tuple((row, 0) for row in chosen.rows), years)
            only_label = chosen.kind == "all" or (turned and chosen.kind in ("max", "min"))
            for column in (0,) if only_label else self.columns:
                if column == 0 == chosen.by and chosen.kind == "equal":
                    continue  # the question says it
                if chosen.kind == "equal" and not chosen.mask and not self.masks[column] & ~self.question.of_time:
                    continue  # of a total a column is asked for, by more than its time
                cells = tuple((row, column) for row in chosen.rows if texts[row][column])
                shown = tuple(texts[row][column] for row, _ in cells)
                if shown and not (self.view.has_records and self._says(shown)):
                    shown = shown if turned else tuple(dict.fromkeys(shown))
                    yield self._plan("value", chosen, column, self.view.kinds[column], cells, shown)

    def _says(self, shown: Sequence[str]) -> bool:
        """The question says all of it: "West" is no answer to what is the highest amount in the West."""
        return all(self.question.match(terms(text))[1] >= 1 for text in shown)

    def _aggregates(self) -> Iterator[CellPlan]:
        """Over all rows of a set."""
        view = self.view
        for chosen in self.sets:
            if not self._asks_beyond(chosen, are_counted=True):
                yield self._plan("count", chosen, -1, "computed", number=float(len(chosen.rows)))
            if len(chosen.rows) < 2:
                continue
            for column in self.columns:
                if column == chosen.by and chosen.kind == "equal":
                    continue
                if chosen.kind in ("all", "equal") and self.masks[column]:
                    distinct = view.distinct(chosen.rows, column)
                    if distinct < len(chosen.rows):
                        yield self._plan("distinct", chosen, column, "computed", number=float(distinct))
                if not view.is_number[column] or not (self.masks[column] or view.width <= MOST_OTHER):
                    continue
                if (added := view.added(chosen.rows, column)) is None:
                    continue
                cells, total, (top, highest), (bottom, lowest) = added
                yield self._plan("sum", chosen, column, "computed", cells, number=total)
                yield self._plan("average", chosen, column, "computed", cells, number=total / len(cells))
                yield self._plan("range", chosen, column, "computed", cells, number=top - bottom)
                for name, row, extreme in (("largest", highest, top), ("smallest", lowest, bottom)):
                    text = view.texts[row][column]
                    yield self._plan(name, chosen, column, "number", ((row, column),), (text,), extreme)

    def _asks_beyond(self, chosen: Selection, *, are_counted: bool = False) -> bool:
        """The question names a column of a sheet that did not choose these rows, so that it asks for more than them.

        "How many units went to the North?" is not how many rows did; and how many customers, not if they come twice.
        """
        if not self.view.has_records or len(chosen.rows) < 2:
            return False
        by = {chosen.by, *(condition.by for condition in chosen.conditions)}
        named = [column for column in self.columns if self.qualities[column] >= NAMED and column not in by]
        kinds = self.view.kinds
        return any(
            kinds[column] == "number"
            or (are_counted and kinds[column] == "text" and self.view.distinct(chosen.rows, column) < len(chosen.rows))
            for column in named
        )

    def _pairs(self) -> Iterator[CellPlan]:
        """Two rows beside one another."""
        single = sorted((selection for selection in self.equal if len(selection.rows) == 1), key=self._mentioned)[
            :MOST_SINGLE
        ]
        single += [
            selection for selection in self.picked if selection.kind in ("first", "last") and not selection.mask
        ][:2]
        number_of, texts, paths = self.view.number, self.view.texts, self.view.grid.rows
        for first, second in itertools.combinations(single, 2):
            (a,), (b,) = first.rows, second.rows
            is_one = texts[a][first.by] == texts[b][second.by] and paths[a][:-1] == paths[b][:-1]  # of one section
            if a == b or (first.by == second.by and is_one):
                continue
            mask = first.mask | second.mask
            for column in self.columns:
                x, y = number_of(a, column), number_of(b, column)
                if x is None or y is None or not self.view.is_number[column]:
                    continue
                made: list[tuple[str, float, bool]] = [("sum2", x + y, False), ("average2", (x + y) / 2, False)]
                made += [("apart", abs(x - y), False), ("difference", x - y, False), ("difference", y - x, True)]
                for above, below, backwards in ((x, y, False), (y, x, True)):
                    if below:
                        told = compared(above, below)._asdict().items()
                        made += [(name, number, backwards) for name, number in told]
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

    def of_groups(self) -> Iterator[CellPlan]:
        """Plans over groups of rows: of all, or of those that fulfil the conditions that the question names best."""
        columns, names = named_groups(self.question, self.view)
        conditions = [
            chosen
            for chosen in self.sets[1:]
            if chosen.by not in columns
            and len(chosen.rows) > 1
            # A number alone is a condition of a column that the question names: not so "the top 2".
            and all(
                self.view.kinds[selection.by] != "number" or self.qualities[selection.by] >= NAMED
                for selection in _each(chosen)
            )
        ]
        best = max((chosen.mask.bit_count() for chosen in conditions), default=0)
        for by, chosen in itertools.product(
            columns,
            [self.sets[0], *(condition for condition in conditions if condition.mask.bit_count() == best)][
                :MOST_CONDITIONS
            ],
        ):
            words = ""
            if chosen.mask:
                words = chosen_rows(chosen, self.view, self.question, has_records=True, for_people=True)
            grouped = GroupedView(self.view, by, chosen.rows, names, words)
            for plan in _Maker(self.question, grouped).plans() if grouped.count > 1 else ():
                # The total of one group is a sum over its rows.
                if plan.operation in OF_GROUPS and (plan.operation, plan.selections[0].kind) != ("value", "equal"):
                    yield plan._replace(mask=plan.mask | chosen.mask, grouped=grouped)

    def _mentioned(self, chosen: Selection) -> int:
        """Where the question says it: first a word that only this row has."""
        others = _union(
            selection.mask for selection in self.equal if len(selection.rows) == 1 and selection.rows != chosen.rows
        )
        own = chosen.mask & ~others or chosen.mask
        return min(
            (self.question.place[stem] for stem, bit in self.question.bits.items() if own >> bit & 1), default=99
        )

    def _frequencies(self) -> Iterator[CellPlan]:
        for chosen in self.sets[:10]:
            if len(chosen.rows) < 3 or self._asks_beyond(chosen):
                continue
            for column in self.columns:
                for name, shown, cells in self.view.frequent(chosen.rows, column):
                    yield self._plan(name, chosen, column, self.view.kinds[column], cells, (shown,))


def _each(chosen: Selection) -> tuple[Selection, ...]:
    return chosen.conditions or (chosen,)


def _fit(key: tuple[int, float]) -> tuple[int, float]:
    """Less is better: more words of the question, and a larger share of the cell's."""
    return -key[0].bit_count(), -key[1]


def _named_together(matched: Matched) -> Iterator[Matched]:
    """Texts of one column that the question names one beside the other: those that match best, and whole ones."""
    best = min(map(_fit, matched))
    full = {key: rows for key, rows in matched.items() if key[1] >= 1}
    whole = {key: full[key] for key in full if not any(key[0] & ~mask == 0 != mask & ~key[0] for mask, _ in full)}
    for found in ({key: rows for key, rows in matched.items() if _fit(key) == best}, whole):
        if len(found) > 1:
            yield found


def _mean(matched: Matched) -> float:
    """The share of a cell's words that the question says, over all of these rows."""
    count = sum(map(len, matched.values()))
    return sum(quality * len(rows) for (_, quality), rows in matched.items()) / count


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


def described(plan: CellPlan, table: TableViews, question: AskedWords, *, for_people: bool = False) -> str:
    return said(plan, table.view_of(plan), question, for_people=for_people)


def stated(plan: CellPlan, table: TableViews, question: AskedWords) -> str:
    """The plan with what it gives, as the reader judges it: "change in sales from 2018 to 2019: 412"."""
    if plan.texts:
        given = "; ".join(plan.texts)
    else:
        given = "" if plan.number is None else f"{plan.number:,.2f}".removesuffix(".00")
    return ": ".join(" ".join(part.split())[:MOST_STATED] for part in (described(plan, table, question), given))
