"""The view of a sheet of 100,000 rows: the same as for a small table, from arrays. Pure.

Every different text of a column is read once: its words, its number, its day. Rows are arrays of numbers, and what
`plans.py` asks of them takes a millisecond each; so the plans and what they are ranked by are those of small tables.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar, overload
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.table_view import (
    MOST_TIED,
    MOSTLY,
    AskedWords,
    ColumnNumbers,
    Matched,
    Places,
    Rows,
    View,
    head_words,
)
from refdesk.ask.wording import YEAR_NUMBER
from refdesk.records import StoredTable
from refdesk.tables import Grid, cell_date, cell_number, months_of, spoken_heads, without_marks
from refdesk.text import QUERY_STOP_WORDS, terms, terms_of_each

FEW = 16  # rows that are a tuple, so that the same few rows are the same value wherever they come from
NEAR = (256, 8192)  # rows from an end of a column that are looked at first for the highest of some
MOST_WORDS = 62  # of a question: a bit of an integer for each
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]
T = TypeVar("T")


class Lazy(Sequence[T], Generic[T]):
    """A sequence whose values are made when they are looked at."""

    def __init__(self, count: int, get: Callable[[int], T]) -> None:
        self._count, self._get = count, get

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...
    def __getitem__(self, at: int | slice) -> T | Sequence[T]:
        if isinstance(at, slice):
            return tuple(self._get(index) for index in range(*at.indices(self._count)))
        if not -self._count <= at < self._count:
            raise IndexError(at)
        return self._get(at % self._count)


class RowSet(Lazy[int]):
    """Many rows of a sheet; equal to another one of the same rows."""

    def __init__(self, array: NDArray[Any]) -> None:
        super().__init__(len(array), lambda at: int(array[at]))
        self.array = array
        self._hash = hash(array.tobytes())

    def __iter__(self) -> Iterator[int]:
        return iter(self.array.tolist())

    def __contains__(self, row: object) -> bool:
        at = int(np.searchsorted(self.array, row))  # type: ignore[call-overload]
        return at < len(self) and bool(self.array[at] == row)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowSet) and self._hash == other._hash and np.array_equal(self.array, other.array)


class ColumnCells(Lazy[tuple[int, int]]):
    """The cells of many rows in one column."""

    def __init__(self, array: NDArray[Any], column: int) -> None:
        super().__init__(len(array), lambda at: (int(array[at]), column))
        self.array, self.column = array, column


class SheetColumn:
    """The different texts of a column, what each says, and which of them stands in which row (-1: none)."""

    def __init__(self, codes: Codes, texts: Sequence[str]) -> None:
        places: dict[str, int] = {}
        again = np.array([places.setdefault(_spaced(text), len(places)) for text in texts] + [-1], np.int32)
        self.codes = codes if len(places) == len(texts) else again[codes]
        self.texts = tuple(places)
        numbers, days, years = [], [], 0
        counts = np.bincount(self.codes + 1, minlength=len(self.texts) + 1)[1:]
        self._months = months = months_of(
            text for text, count in zip(self.texts, counts.tolist(), strict=True) if count
        )
        for text, count in zip(self.texts, counts.tolist(), strict=True):
            numbers.append(np.nan if text in months else _number(cell_number.__wrapped__(text)))
            # A text of digits and points alone is no day, and has no month to look for.
            is_plain = text not in months and text.replace(".", "").isdigit()
            day = months[text].key if text in months else None if is_plain else cell_date.__wrapped__(text)
            days.append(_number(day))
            years += count if YEAR_NUMBER.fullmatch(text) else 0
        self.is_used = counts > 0  # not so the texts of the head and of sections
        few = MOSTLY * len(codes)
        of_number, of_day = np.array([*numbers, np.nan]), np.array([*days, np.nan])
        of_key = np.where(np.isnan(of_day), of_number, of_day)
        known_counts = [int(counts[~np.isnan(column[:-1])].sum()) for column in (of_number, of_day, of_key)]
        self.is_number, self.is_date, self.is_ordered = (count > few for count in known_counts)
        self.is_year = years > few
        self.number_of_text = of_number
        self.numbers = of_number[self.codes] if self.is_number else np.zeros(0)
        self.keys = (
            (self.numbers if self.is_number and not known_counts[1] else of_key[self.codes])
            if known_counts[2]
            else None
        )
        self._read_words([self.said(text) for text in self.texts])

    def said(self, text: str) -> str:
        return self._months[text].words if text in self._months else text

    def _read_words(self, texts: Sequence[str]) -> None:
        """Pairs of a word and a text that holds it, by the hashes of the words: a question has few, a sheet many."""
        found = terms_of_each(texts)
        lengths = np.array([len(own) for own in found], np.int64)
        hashes = np.fromiter((hash(stem) for own in found for stem in own), np.int64, int(lengths.sum()))
        owners = np.repeat(np.arange(len(found), dtype=np.int32), lengths)
        places = np.arange(len(hashes)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        self.titled = np.zeros(len(found) + 1, bool)  # names a total
        self.titled[owners[(hashes == hash("total")) & (places < 2)]] = True
        telling = ~np.isin(hashes, [hash(word) for word in QUERY_STOP_WORDS])
        self.word_counts = np.bincount(owners[telling], minlength=len(found))
        order = np.argsort(hashes, kind="stable")
        self.hashes, self.owners = hashes[order], owners[order]

    def holding(self, stem: str) -> Codes:
        """The texts with this word, one as often as it says it."""
        wanted = hash(stem)
        start, stop = np.searchsorted(self.hashes, (wanted, wanted + 1)).tolist()
        return self.owners[start:stop]

    def match(self, question: AskedWords) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Of every text the words of the question that it holds, and their share of its own; last of no text."""
        masks, hits = np.zeros(len(self.texts) + 1, np.int64), np.zeros(len(self.texts) + 1)
        for stem, bit in question.bits.items():
            if bit < MOST_WORDS and stem not in QUERY_STOP_WORDS:
                own = self.holding(stem)
                masks[own] |= 1 << bit
                np.add.at(hits, own, 1.0)
        hits[:-1] /= np.maximum(self.word_counts, 1)
        return masks, hits

    @cached_property
    def ranked(self) -> tuple[Codes, NDArray[np.float64]]:
        """The rows by what they are ordered by, and that."""
        assert self.keys is not None
        filled = np.flatnonzero(~np.isnan(self.keys))
        order = filled[np.argsort(self.keys[filled], kind="stable")].astype(np.int32)
        return order, self.keys[order]

    @cached_property
    def years(self) -> NDArray[np.int32]:
        """The year that a text names, where it is one; last of no text."""
        found = [YEAR_NUMBER.findall(text) for text in self.texts]
        return np.array([*(int(own[0]) if len(own) == 1 else 0 for own in found), 0], np.int32)


def _spaced(text: str) -> str:
    """With single blanks; the very same text where it has no others, for there are a hundred thousand of them."""
    return text if (spaced := " ".join(text.split())) == text else spaced


def _number(found: float | None) -> float:
    return np.nan if found is None else found


class _Words(Container[str]):
    """Whether a sheet holds a word."""

    def __init__(self, columns: Sequence[SheetColumn], names: Iterable[Sequence[str]]) -> None:
        self._columns, self._names = columns, frozenset(stem for name in names for stem in name)

    def __contains__(self, stem: object) -> bool:
        matches = (column.is_used[column.holding(str(stem))].any() for column in self._columns)
        return stem in self._names or any(matches)


class SheetView(View):
    """A large table as a question sees it; see `View` for what its methods give."""

    has_records = True

    def __init__(self, table: StoredTable) -> None:
        coded, texts = _filled(table)
        body = coded[:, table.head_rows :]
        filled = (body >= 0).sum(axis=0)
        is_section = (filled == 1) & (body[0] >= 0) & (table.column_count > 2)
        kept = np.flatnonzero((filled > 0) & ~is_section)
        self._columns = [SheetColumn(column, own) for column, own in zip(body[:, kept], texts, strict=True)]
        self._section_texts = [without_marks(texts[0][code]) for code in body[0][is_section].tolist()]
        self._section = np.cumsum(is_section)[kept] - 1  # -1: it stands in none
        self.count, self.width, self.turned = len(kept), table.column_count, False
        self.texts = self._each(self._text)
        self.cells = self._each(lambda row, column: terms(self.spoken(row, column)))
        columns = tuple(head.path for head in table.heads)
        places = RowSet(kept + table.head_rows)  # of the view there is no way back to the table, which it lives with
        rows = Lazy(self.count, self._path)
        self.grid = Grid(table.caption, columns, rows, self.texts, scale=table.scale, places=places)
        self.sections = Lazy(self.count, lambda row: terms(path[0]) if len(path := rows[row]) > 1 else [])
        heads = spoken_heads(columns)
        self.names = [head_words(" ".join(path)) for path in heads]
        self.last_names = [head_words(path[-1]) if path else [] for path in heads]
        self.is_number = [column.is_number for column in self._columns]
        self.is_date = [column.is_date for column in self._columns]
        self.is_ordered = [column.is_ordered for column in self._columns]
        self.is_year = [column.is_year for column in self._columns]
        self.kinds = [
            "date" if column.is_date else "number" if column.is_number else "text" for column in self._columns
        ]
        self._is_total = self._columns[0].titled[self._columns[0].codes]
        self.totals = {*np.flatnonzero(self._is_total).tolist()}
        self.vocabulary = _Words(self._columns, self.names)

    def _each(self, get: Callable[[int, int], T]) -> Sequence[Sequence[T]]:
        return Lazy(self.count, lambda row: Lazy(self.width, lambda column: get(row, column)))

    def _text(self, row: int, column: int) -> str:
        code = int(self._columns[column].codes[row])
        return self._columns[column].texts[code] if code >= 0 else ""

    def spoken(self, row: int, column: int) -> str:
        return self._columns[column].said(self._text(row, column))

    def _path(self, row: int) -> tuple[str, ...]:
        label, section = without_marks(self._text(row, 0)), int(self._section[row])
        above = self._section_texts[section] if section >= 0 else ""
        return (above, label) if above and not above.startswith(label) else (label,)

    # rows

    @staticmethod
    def _rows(found: NDArray[Any]) -> Rows:
        return tuple(found.tolist()) if len(found) <= FEW else RowSet(found)

    @staticmethod
    def _array(rows: Rows) -> NDArray[Any]:
        return rows.array if isinstance(rows, RowSet) else np.array(rows, np.int64)

    def _flags(self, rows: Rows) -> Flags:
        found = np.zeros(self.count, bool)
        found[self._array(rows)] = True
        return found

    @cached_property
    def rows(self) -> Rows:
        return self._rows(np.flatnonzero(~self._is_total))

    def matched(self, question: AskedWords, column: int) -> Matched:
        own = self._columns[column]
        masks, shares = own.match(question)
        if not masks.any():
            return {}
        rows = np.flatnonzero(masks[own.codes])
        row_masks, row_shares = masks[own.codes[rows]], shares[own.codes[rows]]
        if column == 0 and self._section_texts:
            above = [question.match(terms(text))[0] & ((1 << MOST_WORDS) - 1) for text in self._section_texts]
            row_masks |= np.array([*above, 0])[self._section[rows]]
        kinds = np.stack([row_masks, row_shares.view(np.int64)], axis=1)
        order = np.lexsort((kinds[:, 1], kinds[:, 0]))  # stable: rows keep their order
        cuts = np.flatnonzero((np.diff(kinds[order], axis=0) != 0).any(axis=1)) + 1
        parts = sorted((part for part in np.split(order, cuts) if len(part)), key=lambda part: part[0])
        return {(int(row_masks[part[0]]), float(row_shares[part[0]])): self._rows(rows[part]) for part in parts}

    def years_between(self, first: float, last: float) -> Rows:
        years = self._columns[0].years[self._columns[0].codes]
        return self._rows(np.flatnonzero((years >= first) & (years <= last)))

    def merged(self, found: Iterable[Rows]) -> Rows:
        parts = list(found)
        if len(parts) == 1:
            return parts[0]
        return self._rows(np.sort(np.concatenate([self._array(rows) for rows in parts])))

    def common(self, first: Rows, second: Rows) -> Rows:
        if min(len(first), len(second)) <= FEW:
            few, many = (first, second) if len(first) <= len(second) else (second, first)
            return tuple(sorted(row for row in few if row in many))
        return self._rows(np.flatnonzero(self._flags(first) & self._flags(second)))

    def compared_by(self, column: int) -> NDArray[np.float64]:
        keys = self._columns[column].keys
        return np.full(self.count, np.nan) if keys is None else keys

    def where(self, chosen: NDArray[np.bool_]) -> Rows:
        return self._rows(np.flatnonzero(chosen & ~self._is_total))

    def extremes(self, rows: Rows, column: int) -> Iterator[tuple[str, Rows]]:
        if self._columns[column].keys is None:
            return
        order, keys = self._columns[column].ranked
        chosen = self._flags(rows)
        for kind, ends in (("max", order[::-1]), ("min", order)):
            for near in (*NEAR, self.count):
                hits = np.flatnonzero(chosen[ends[:near]])
                if len(hits):
                    at = int(hits[0]) if kind == "min" else len(order) - 1 - int(hits[0])
                    tied = order[slice(*(np.searchsorted(keys, keys[at], side) for side in ("left", "right")))]
                    found = np.sort(tied[chosen[tied]])
                    if len(found) <= MOST_TIED:
                        yield kind, tuple(found.tolist())
                    break

    # cells

    def same(self, row: int, column: int) -> Rows:
        codes = self._columns[column].codes
        found = np.flatnonzero(codes == codes[row])
        return self._rows(found[found != row])

    def twins(self, row: int) -> int:
        codes = self._columns[0].codes
        return int((codes == codes[row]).sum())

    def number(self, row: int, column: int) -> float | None:
        found = float(self._columns[column].number_of_text[self._columns[column].codes[row]])
        return None if found != found else found

    def distinct(self, rows: Rows, column: int) -> int:
        is_there = np.zeros(len(self._columns[column].texts) + 1, bool)
        is_there[self._columns[column].codes[self._array(rows)]] = True
        return int(is_there[:-1].sum())

    def groups(self, rows: Rows, column: int) -> list[tuple[str, Rows]]:
        own, array = self._columns[column], self._array(rows)
        order = np.argsort(own.codes[array], kind="stable")
        codes = own.codes[array][order]
        parts = np.split(array[order], np.flatnonzero(np.diff(codes)) + 1)
        parts = sorted((part for part in parts if len(part) and own.codes[part[0]] >= 0), key=lambda part: part[0])
        return [(own.texts[int(own.codes[part[0]])], self._rows(part)) for part in parts]

    def added(self, rows: Rows, column: int) -> ColumnNumbers | None:
        array = self._array(rows)
        numbers = self._columns[column].numbers[array]
        if np.isnan(numbers).any():
            array, numbers = array[~np.isnan(numbers)], numbers[~np.isnan(numbers)]
        if len(numbers) < 2:
            return None
        ends = [(float(numbers[at]), int(array[at])) for at in (numbers.argmax(), numbers.argmin())]
        return ColumnNumbers(self._cells(array, column), float(numbers.sum()), ends[0], ends[1])

    def frequent(self, rows: Rows, column: int) -> Iterator[tuple[str, str, Places]]:
        own, array = self._columns[column], self._array(rows)
        counts = np.bincount(own.codes[array] + 1, minlength=len(own.texts) + 1)[1:]
        present = np.flatnonzero(counts)
        if len(present) < 2:
            return
        for name, most in (("commonest", counts[present].max()), ("rarest", counts[present].min())):
            found = present[counts[present] == most]
            if len(found) == 1:
                cells = self._cells(array[own.codes[array] == found[0]], column)
                yield name, own.texts[int(found[0])], cells

    @staticmethod
    def _cells(array: NDArray[Any], column: int) -> Places:
        return ColumnCells(array, column)


def _filled(table: StoredTable) -> tuple[Codes, list[list[str]]]:
    """Which of its column's texts stands in every place, -1 for none; a merged cell in each place that it covers."""
    coded = np.full((table.column_count, table.row_count), -1, np.int32)
    texts = [dict(zip(column.texts, range(len(column.texts)), strict=True)) for column in table.columns]
    for number, column in enumerate(table.columns):
        coded[number, column.rows] = column.codes
    for number, column in enumerate(table.columns):
        for at in np.flatnonzero((column.places[:, :2] > 1).any(axis=1)).tolist():
            row, (rows, columns, *_), text = int(column.rows[at]), column.places[at], column.texts[column.codes[at]]
            for beside in range(number, min(number + int(columns), table.column_count) if number else 1):
                coded[beside, row : row + int(rows)] = texts[beside].setdefault(text, len(texts[beside]))
    return coded, [list(own) for own in texts]


_views: WeakKeyDictionary[StoredTable, SheetView] = WeakKeyDictionary()  # as long as the store remembers the table


def sheet_view(table: StoredTable) -> SheetView:
    """Made once of a table; the same of two threads at once is made twice and kept once."""
    found = _views.get(table)
    if found is None:
        found = _views.setdefault(table, SheetView(table))
    return found
