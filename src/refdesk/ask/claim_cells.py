"""Do the cells of the cited tables give the numbers of a claim? Looked up, and recomputed. Pure but for `cited_tables`.

"Net sales grew 27 % to $1,452 million in 2019"     1,452 is the cell of Net sales, 2019;
                                                    27 % is computed from it and the 1,146 of 2018
"Net sales were $1,146 million in 2019"             the cell of Net sales, 2019 says $1,452 million
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from refdesk.answer import Context
from refdesk.ask.figures import Quantity, agrees, figures
from refdesk.ask.support import direction
from refdesk.library import LibraryReader
from refdesk.records import MOST_CELLS, StoredCell, StoredTable
from refdesk.tables import SCALES, Grid, grid_of, period_from, shown_value, touches
from refdesk.terms import QUERY_STOP_WORDS, When, terms
from refdesk.text import Range

SHARES = ("%", "pp")
MOST_ROWS = 12  # of a table that a claim may speak of; more, and its words tell no rows apart

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
    stated = [one for one in figures(claim) if one.kind == "number" and not one.weak]
    if not stated or not tables:
        return NumberCheck()
    cells = list(_cells_of(claim, tables))
    if not cells:
        return NumberCheck()
    # "Deferred tax (note 16)": the 16 is part of a name, and no cell has it.
    names = [one for label in {cell.label for cell in cells} for one in figures(label)]
    stated = [one for one in stated if not any(agrees(one, other) for other in names)]
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
        for one in stated:
            if not self._given(one, self.timely) and (found := self._recomputed(one)) is not None:
                self.computed[one] = found

    def result(self) -> NumberCheck:
        proved: list[Range] = []
        wrong, missing = [], []
        for one in self.stated:
            shown = self.claim[one.start : one.end].strip()
            if self._given(one, self.timely) or one in self.computed or self._explains(one):
                proved.append((one.start, one.end))
            elif (instead := self._instead(one)) is not None:
                wrong.append(f"says {shown} where {instead}")
            elif not self._given(one, self.cells) and not self._is_said(one):
                missing.append(f"no cell gives {shown}, and none that it cites are computed to it")
        if proved:
            proved += [(one.start, one.end) for one in figures(self.claim) if one.kind == "date" and self._dates(one)]
        return NumberCheck(
            tuple(proved), tuple(text for text, _ in self.computed.values()), tuple(wrong), tuple(missing)
        )

    def _given(self, one: Quantity, cells: Sequence[_Cell]) -> list[_Cell]:
        return [cell for cell in cells if cell.quantity is not None and _is_same(one, cell, self.direction)]

    def _dates(self, one: Quantity) -> bool:
        return any(cell.is_of is not None and any(map(cell.is_of, one.when)) for cell in self.cells)

    def _is_said(self, one: Quantity) -> bool:
        return any(agrees(one, other) for other in figures(self.text) if other.kind == "number")

    def _explains(self, one: Quantity) -> bool:
        """It is what another number of the claim was computed from: "27 % more than the 1,146 of the year before"."""
        used = [cell for _, cells in self.computed.values() for cell in cells]
        return bool(self._given(one, used))

    def _pairs(self) -> Iterator[tuple[_Cell, _Cell]]:
        """Two cells of one row, or of one column; one of them of the period that the claim names, if it names any."""
        for first, second in itertools.permutations(self.cells, 2):
            is_beside = first.table == second.table and (first.row == second.row) != (first.column == second.column)
            if is_beside and (not self.asked or first.is_asked or second.is_asked):
                yield first, second

    def _recomputed(self, one: Quantity) -> tuple[str, tuple[_Cell, ...]] | None:
        shown = self.claim[one.start : one.end].strip()
        for first, second in self._pairs():
            for value, formula, is_change in _derived(first, second, one):
                turned = is_change and self.direction and (value < 0) != (self.direction == "fall") and value
                if not turned and abs(abs(one.value) - abs(value)) <= 0.5 * one.step * (1 + 1e-9):
                    return f"{shown} is {formula}", (first, second)
        return None

    def _instead(self, one: Quantity) -> str | None:
        """What the cells say in its place, where there can be no doubt which cell that is."""
        rows = {(cell.table, cell.row) for cell in self.cells}
        if one.unit in SHARES and self.direction and len(rows) == 1 and not self._is_said(one):
            return self._change(one)
        if one.unit in SHARES or len({cell.label for cell in self.cells}) != 1 or len(self.asked) != 1:
            return None
        (cell,) = self.asked
        is_alone = sum(other.unit not in SHARES for other in self.stated) == 1
        is_elsewhere = bool(self._given(one, self.cells))  # the number of another year
        if not is_alone or not (is_elsewhere or not self._is_said(one)):
            return None
        unit = cell.quantity.unit if cell.quantity is not None else ""
        if one.unit and unit and one.unit != unit:
            return None
        return f"the cell of {cell.name} says {cell.text}"

    def _change(self, one: Quantity) -> str | None:
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
        change = (first.value - second.value) / abs(second.value) * 100
        return f"{first.text} of {first.name} and {second.text} of {second.head} are a change of {change:.1f} %"


def _derived(first: _Cell, second: _Cell, one: Quantity) -> Iterator[tuple[float, str, bool]]:
    """(value, formula, whether it is a change) of what two cells may be computed to, in the unit of the number."""
    a, b = first.value, second.value
    is_share = _unit(first) in SHARES and _unit(second) in SHARES
    if one.unit in SHARES:
        if b:
            yield (a - b) / abs(b) * 100, f"({first.text} − {second.text}) / {second.text}", True
            yield a / b * 100, f"{first.text} / {second.text}", False
        if is_share:
            yield a - b, f"{first.text} − {second.text}", True
        return
    if one.unit and {one.unit} - {_unit(first), _unit(second), ""} and (_unit(first) or _unit(second)):
        return
    yield a - b, f"{first.text} − {second.text}", True
    yield a + b, f"{first.text} + {second.text}", False
    if b and not one.unit:
        yield a / b, f"{first.text} / {second.text}", False


def _unit(cell: _Cell) -> str:
    return cell.quantity.unit if cell.quantity is not None else ""


def _is_same(one: Quantity, cell: _Cell, way: str) -> bool:
    held = cell.quantity
    if held is None:
        return False
    if agrees(one, held) or (way == "fall" and agrees(one, _positive(held))):
        return True
    # "82,959" of a table in millions, where the claim does not say so
    plain = figures(shown_value(cell.text, "", ""))
    return bool(plain) and not one.unit and agrees(one, plain[0])


def _positive(one: Quantity) -> Quantity:
    return Quantity(one.kind, one.text, one.start, one.end, abs(one.value), one.step, one.unit, abs(one.bare))


# --- which cells does a claim speak of? -------------------------------------------------------------------------------


def _cells_of(claim: str, tables: Sequence[StoredTable]) -> Iterator[_Cell]:
    stems = frozenset(terms(claim))
    dates = [when for one in figures(claim) if one.kind == "date" for when in one.when if when.year]
    for number, table in enumerate(tables):
        grid = _grid(table)
        rows = _named_rows(grid, stems)
        for row in rows if len(rows) <= MOST_ROWS else ():
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
            is_quarter = bool(period.quarter) or period.months == 3
            if when.year != period.year or bool(when.quarter) != is_quarter:
                return False
            return not (when.quarter and period.quarter) or when.quarter == period.quarter

        return is_of
    held = [when for one in figures(head) if one.kind == "date" for when in one.when]
    return (lambda when: any(other.covers(when) for other in held)) if held else None


@lru_cache(maxsize=64)
def _grid(table: StoredTable) -> Grid:
    return grid_of(table)
