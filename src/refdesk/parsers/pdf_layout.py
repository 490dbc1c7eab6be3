"""Reading order of a PDF page: drops running headers and footers, finds columns by cuts along white space. Pure.

title across both columns        region 1
left column   right column       regions 2 and 3
footnote across both columns     region 4

A strip of white parts columns of text if most letters on both sides stand in lines of text. Letters are weighed, not
runs: the fifty labels of a figure weigh less than one paragraph. Where a side is not mostly text (a table beside a
column), the order in which the file draws the page decides: columns are drawn one after the other, rows of a table
from left to right.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from refdesk.parsers.pdf_page import Floats, PageDraft, WordRun, Words, text_of

Row = list[WordRun]
Region = list[Row]

Mask = NDArray[np.bool_]

MIN_COLUMN_ROWS = 3
MIN_STRIP_ROWS = 2  # of columns that are balanced above or below a figure, if all of it is text
MIN_LINE_LETTERS = 12  # of a line of text; cells of tables and labels of figures are shorter
MIN_LINE_WORDS = 3
MAX_DIGITS = 0.3  # share of digits: above it, it is a row of a table
FLOWS = 0.5  # share of a column's letters that stand in lines of text
FILLED = 0.6  # the same of lines that fill their column
FULL_LINE = 0.7  # of the width of the column
FULL_LINE_WORDS = 5
MIN_MIXED_ROWS = 6  # of a column that is no text, beside one that is
DRAWN_IN_COLUMNS = 0.25  # changes of side in drawing order, as a share of those that drawing row by row would make
DRAWN_APART = 0.1  # the same beside a column that is no text: a cell of several lines is drawn at one go too
MAX_DEPTH = 12
GUTTER = 5.0  # points that must stay empty; LaTeX's \columnsep is 10, newspapers use 8
OVERHANG = 0.05  # share of letters that may hang into the gutter: a line that was too long
STRIPE = 0.5  # × font size: white across all columns that is more than the space between two lines


def reading_order(runs: list[WordRun]) -> list[Region]:
    """Columns one after the other, each as rows from top to bottom."""
    return [region for region in _split(runs, 0) if region]


def group_rows(runs: list[WordRun]) -> list[Row]:
    """Runs whose middles are level are one row, ordered along the direction of the script."""
    rows: list[Row] = []
    for run in sorted(runs, key=_height):
        if rows and run.table is None:
            anchor = rows[-1][0]
            level = 0.45 * min(run.bottom - run.top, anchor.bottom - anchor.top)
            if anchor.table is None and abs(run.middle - anchor.middle) <= level:
                rows[-1].append(run)
                continue
        rows.append([run])
    rows = _join_marks(rows)
    for row in rows:
        if len(row) > 1:
            backwards = sum(run.letters for run in row if run.right_to_left) > sum(run.letters for run in row) / 2
            row.sort(key=lambda run: -run.right if backwards else run.left)
    return rows


def _join_marks(rows: list[Row]) -> list[Row]:
    """Superscripts and subscripts (all small, overlapping a larger row) belong to the row they overlap."""
    joined: list[Row] = []
    waiting: Row = []
    for row in rows:
        small = bool(joined) and row[0].table is None and max(run.size for run in row) < 0.82 * _size(joined[-1])
        if small and _overlaps(row, joined[-1]):
            joined[-1] += row
            continue
        joined.append(row)
        if len(joined) > 1 and row[0].table is None:
            waiting = joined[-2]
            if max(run.size for run in waiting) < 0.82 * _size(row) and _overlaps(waiting, row):
                row += waiting
                del joined[-2]
    return joined


def _size(row: Row) -> float:
    return 0.0 if row[0].table is not None else max(row, key=lambda run: run.letters).size


def _overlaps(small: Row, large: Row) -> bool:
    top, bottom = max(run.top for run in small), min(run.bottom for run in small)
    shared = min(bottom, max(run.bottom for run in large)) - max(top, min(run.top for run in large))
    if small[0].table is not None or shared < 0.3 * (bottom - top) or sum(run.letters for run in small) > 20:
        return False
    left, right = min(run.left for run in large) - 10, max(run.right for run in large) + 10
    return all(left <= run.left and run.right <= right for run in small)


def _height(run: WordRun) -> float:
    return run.top if run.table is not None else run.middle


@dataclass(frozen=True, slots=True)
class _Cut:
    """A strip of white between `top` and `bottom`: the right column begins at `x`."""

    x: float
    top: float
    bottom: float
    letters: float


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The runs of a part of a page as columns of numbers, so that a strip is tried in one step."""

    left: Floats
    top: Floats
    right: Floats
    bottom: Floats
    middle: Floats
    letters: Floats
    prose: Floats  # the letters of runs that are lines of text, 0 for cells, labels and amounts
    words: NDArray[np.intp]
    table: Mask
    drawn: NDArray[np.intp]  # the place in the order of drawing

    @classmethod
    def of(cls, runs: list[WordRun]) -> _Part:
        edges = np.array([(run.left, run.top, run.right, run.bottom, _height(run), run.letters) for run in runs])
        left, top, right, bottom, middle, letters = edges.astype(np.float32).T
        prose = np.array([run.letters if _is_line(run) else 0 for run in runs], np.float32)
        table = np.array([run.table is not None for run in runs])
        words, drawn = np.array([(run.words, run.first) for run in runs], np.intp).T
        return cls(left, top, right, bottom, middle, letters, prose, words, table, drawn)


def _is_line(run: WordRun) -> bool:
    """Long enough for a line of a paragraph; where every character is a word (CJK), the letters count."""
    return (
        run.table is None
        and run.words >= MIN_LINE_WORDS
        and run.letters >= MIN_LINE_LETTERS
        and run.digits <= MAX_DIGITS * run.letters
    )


def _split(runs: list[WordRun], depth: int) -> list[Region]:
    if len(runs) < 2 * MIN_STRIP_ROWS or depth > MAX_DEPTH:
        return [group_rows(runs)]
    cut = _best_cut(_Part.of(runs))
    if cut is None:
        return [group_rows(runs)]
    above = [run for run in runs if _height(run) <= cut.top]
    below = [run for run in runs if _height(run) >= cut.bottom]
    band = [run for run in runs if cut.top < _height(run) < cut.bottom]
    left = [run for run in band if run.left < cut.x - 1]
    right = [run for run in band if run.left >= cut.x - 1]
    if all(run.right_to_left for run in band if _is_line(run)):
        left, right = right, left
    return [region for part in (above, left, right, below) if part for region in _split(part, depth + 1)]


def _best_cut(part: _Part) -> _Cut | None:
    """The strip of white that parts most letters into columns of text."""
    best: _Cut | None = None
    weight = part.prose + np.where(part.table, part.letters, 0)
    for x in _gutters(part):
        before, beside = part.right <= x - 1, part.left >= x - 1
        if weight[before].sum() < MIN_LINE_LETTERS or weight[beside].sum() < MIN_LINE_LETTERS:
            continue
        for top, bottom in _bands(part, ~(before | beside)):
            inside = (part.middle > top) & (part.middle < bottom)
            cut = _columns(part, x, inside & before, inside & beside, top, bottom)
            if cut is not None and (best is None or cut.letters > best.letters):
                best = cut
    return None if best is None else _narrowed(part, best)


def _gutters(part: _Part) -> list[float]:
    """Where a column may begin: left edges that several runs share, or right edges (text that runs to the left)."""
    text = (part.prose > 0) | part.table  # one side at least is text, so the cells of a table need not be tried
    starts = part.left[text & (part.left > part.left.min() + 30)]
    ends = part.right[text & (part.right < part.right.max() - 30)] + GUTTER + 1
    return [*_shared(starts), *_shared(ends)]


def _shared(values: Floats) -> Iterator[float]:
    edges = np.sort(values)
    index = 0
    while index < len(edges):
        stop = int(np.searchsorted(edges, edges[index] + 3))
        if stop - index >= MIN_STRIP_ROWS:
            yield float(edges[index])
        index = max(stop, index + 1)


def _bands(part: _Part, crossing: Mask) -> Iterator[tuple[float, float]]:
    """The heights between the runs that cross a strip."""
    lower, upper = float(part.top.min()) - 1, float(part.bottom.max()) + 1
    order = np.argsort(part.top[crossing])
    for top, bottom in zip(part.top[crossing][order].tolist(), part.bottom[crossing][order].tolist(), strict=True):
        if top > lower:
            yield lower, top
        lower = max(lower, bottom)
    if upper > lower:
        yield lower, upper


def _columns(part: _Part, x: float, left: Mask, right: Mask, top: float, bottom: float) -> _Cut | None:
    """The runs on both sides of a strip as columns; None if they are not, for all that is known, columns of text."""
    if min(_count_rows(part, left), _count_rows(part, right)) < MIN_STRIP_ROWS and not part.table[left | right].any():
        return None
    hanging = part.letters[left & (part.right > x - GUTTER)].sum()
    if hanging > OVERHANG * part.letters[left].sum():
        return None
    flowing = [_flows(part, side) for side in (left, right)]
    if not any(flowing):
        sure = _is_strip(part, left) and _is_strip(part, right) and _changes(part, left, right) <= 0
    elif all(flowing):  # drawn row by row it was read by OCR, or is a table of words: the lines must fill their columns
        sure = _changes(part, left, right) <= DRAWN_IN_COLUMNS or (_fills(part, left) and _fills(part, right))
    else:
        rows = min(_count_rows(part, left), _count_rows(part, right))
        sure = rows >= MIN_MIXED_ROWS and _changes(part, left, right) <= DRAWN_APART
    if not sure:
        return None
    return _Cut(x, top, bottom, float(part.letters[left | right].sum()))


def _flows(part: _Part, side: Mask) -> bool:
    """Is this mostly lines of text? A ruled table says nothing about the column it stands in."""
    text = part.letters[side & ~part.table].sum()
    if not text:
        return True
    lines = _count_rows(part, side & (part.prose > 0))
    return lines >= MIN_COLUMN_ROWS and float(part.prose[side].sum()) >= FLOWS * float(text)


def _is_strip(part: _Part, side: Mask) -> bool:
    """Two lines are enough for a column if both are long and nothing else is there."""
    return bool((part.words[side] >= FULL_LINE_WORDS).all() and (part.prose[side] > 0).all())


def _fills(part: _Part, side: Mask) -> bool:
    """Do most letters stand in lines that are as long as the lines of one column are? Cells are of any length."""
    text = side & ~part.table
    if not text.any():
        return True
    width = part.right[text] - part.left[text]
    columns = len(width) / max(1, _count_rows(part, text))
    column = (part.right[text].max() - part.left[text].min()) / max(1, round(columns))
    long = (width >= FULL_LINE * column) & (part.words[text] >= FULL_LINE_WORDS) & (part.prose[text] > 0)
    return float(part.letters[text][long].sum()) >= FILLED * float(part.letters[text].sum())


def _changes(part: _Part, left: Mask, right: Mask) -> float:
    """How often the file changes sides while it draws: near 0 for columns, 1 for rows."""
    chosen = np.flatnonzero((left | right) & ~part.table)
    sides = right[chosen[np.argsort(part.drawn[chosen], kind="stable")]]
    changes = int((sides[1:] != sides[:-1]).sum())
    shorter = min(_count_rows(part, left & ~part.table), _count_rows(part, right & ~part.table))
    return (changes - 1) / (2 * shorter) if shorter else 0.0


def _count_rows(part: _Part, chosen: Mask) -> int:
    middles = np.sort(part.middle[chosen])
    return int((np.diff(middles) > 2).sum()) + bool(len(middles))


def _narrowed(part: _Part, cut: _Cut) -> _Cut:
    """A page that is drawn in bands, each with its columns, is read band by band: the cut goes as far as one band.

    first  | second       drawn in this order: white across both columns parts two bands, not two paragraphs
    third  | fourth
    """
    inside = (part.middle > cut.top) & (part.middle < cut.bottom) & ~part.table
    left, right = inside & (part.left < cut.x - 1), inside & (part.left >= cut.x - 1)
    if _changes(part, left, right) > DRAWN_IN_COLUMNS:
        return cut
    for height in _stripes(part, inside):
        upper = part.middle < height
        if not (right & upper).any() or not (left & ~upper).any():
            continue
        if part.drawn[right & upper].max() < part.drawn[left & ~upper].min():
            if _flows(part, left & upper) and _flows(part, right & upper):
                return replace(cut, bottom=height)
            return _narrowed(part, replace(cut, top=height))
    return cut


def _stripes(part: _Part, inside: Mask) -> Iterator[float]:
    """Heights at which no run stands, from top to bottom."""
    chosen = np.flatnonzero(inside)
    chosen = chosen[np.argsort(part.top[chosen], kind="stable")]
    reached = np.maximum.accumulate(part.bottom[chosen])
    space = STRIPE * (part.bottom[chosen] - part.top[chosen])[1:]
    for index in np.flatnonzero(part.top[chosen][1:] - reached[:-1] > space).tolist():
        yield float(part.top[chosen[index + 1]] + reached[index]) / 2


# --- running headers, footers and page numbers: which lines repeat on page after page ---------------------------------

ZONE = 0.13  # of the page's height at top and bottom, where furniture stands
EDGE = 0.08  # so near the edge a number alone is a page number whatever it says
OUTER = 4  # rows from the edge that may be furniture
MIN_REPEATS = 3
SHORT = 10  # pages
OFTEN = 0.05  # of the pages
FLOATING = 0.2  # of the pages, for footers outside the zone
SAME_PLACE = 0.015  # of the height
_YEAR = re.compile(r"^(19|20)\d\d$")
SENTENCE_END = re.compile(r"[.!?:;。！？：；]['\")\]’”»）」]*$")
_DIGITS = re.compile(r"\d+")
_PAGE_NUMBER = re.compile(
    r"^[\-–—|\[(•·\s]*(?:(?:page|seite|p\.)\s*)?(\d{1,4}|[ivxlc]{1,6}|[A-Z]-?\d{1,3})(?:\s*(?:of|/|von)\s*\d{1,4})?"
    r"[\-–—|\])•·\s]*$",
    re.I,
)


@dataclass(frozen=True, slots=True, eq=False)
class _Edge:
    """A run in one of the outer rows of a page; `place` is its lower edge as a share of the height."""

    page: int
    run: WordRun
    row: Row
    text: str
    place: float
    in_zone: bool
    apart: bool  # a blank stands between its row and the body
    outermost: bool
    last: bool  # nothing stands below: on a page that is not full a footer floats up with the text
    shares: WordRun | None  # the line towards the body that holds the other half of its sentence

    @property
    def alone(self) -> bool:
        return len(self.row) == 1


def drop_furniture(pages: list[PageDraft]) -> None:
    """Takes running headers, footers and page numbers out of the pages' runs."""
    edges = [_edges(index, page) for index, page in enumerate(pages)]
    numbers = _page_numbers([edge for page in edges for edge in page], pages)
    flat = [edge for page in edges for edge in page]
    repeated = _repeated(flat, len(pages), numbers) if len(pages) >= MIN_REPEATS else _small_print(flat, pages)
    for page in pages:
        if not page.content.runs:
            continue
        runs = page.content.runs[0]
        kept = [run for run in runs if id(run) not in repeated and id(run) not in numbers]
        if not kept:  # the same short text on every page is not furniture but all there is
            kept = [run for run in runs if id(run) not in numbers] or runs
        page.content.runs[0] = kept


def _edges(index: int, page: PageDraft) -> list[_Edge]:
    if not page.content.runs:
        return []
    rows = group_rows(page.content.runs[0])
    height = (page.frame.width if page.content.turns[0] % 2 else page.frame.height) or 1.0
    found = []
    for position, row in enumerate(rows):
        if OUTER <= position < len(rows) - OUTER:
            continue
        upper = max(run.bottom for run in row) < ZONE * height
        lower = min(run.top for run in row) > (1 - ZONE) * height
        last = position == len(rows) - 1
        if not (upper or lower or last or position == 0):
            continue
        neighbour = rows[min(max(position + (1 if upper else -1), 0), len(rows) - 1)][0]
        gap = max(neighbour.top - row[0].bottom, row[0].top - neighbour.bottom)
        towards = rows[position + 1] if upper and not last else rows[position - 1] if lower and position else []
        for run in row:
            text = text_of([run], page.content.words)
            apart = gap > 0.8 * run.size
            found.append(
                _Edge(
                    index,
                    run,
                    row,
                    text,
                    run.bottom / height,
                    upper or lower,
                    apart,
                    last or position == 0,
                    last and apart,
                    None if apart else _other_half(run, towards, page.content.words),
                )
            )
    return found


def _other_half(run: WordRun, row: Row, words: Words) -> WordRun | None:
    """The run of the neighbouring row that goes on with the sentence of this run, or that this one goes on with."""
    for other in row:
        if min(run.right, other.right) <= max(run.left, other.left) or abs(run.size - other.size) > 0.08 * run.size:
            continue
        upper, lower = (run, other) if run.top < other.top else (other, run)
        before, after = text_of([upper], words), text_of([lower], words)
        if not SENTENCE_END.search(before) and after[:1].isalpha() and not after[:1].isupper():
            return other
    return None


def _repeated(edges: list[_Edge], pages: int, numbers: set[int]) -> set[int]:
    """Runs with the same words at the same place on several pages near one another."""
    places: dict[str, list[_Edge]] = defaultdict(list)
    for edge in edges:
        key = " ".join(_DIGITS.sub("#", edge.text.lower()).split())
        if (edge.in_zone or edge.last) and any(character.isalpha() for character in key):
            places[key].append(edge)
    doomed: dict[int, _Edge] = {}
    for seen in places.values():
        middle = median(edge.place for edge in seen)
        same = [edge for edge in seen if edge.last or abs(edge.place - middle) < SAME_PLACE]
        on = sorted({edge.page for edge in same})
        # A row with a page number in it is surely furniture; other lines must repeat more: in a long document a
        # title or a unit ("in millions") may well stand at the same place three times.
        numbered = sum(any(id(run) in numbers for run in edge.row) for edge in same) > len(same) / 2
        least = MIN_REPEATS if numbered or pages <= SHORT else max(4, OFTEN * pages)
        if sum(edge.in_zone for edge in same) < len(same) / 2:
            least = max(4, FLOATING * pages)
        if len(on) < least or not _numbers_hold(same):
            continue
        # Chapter titles alternate with the book's title, so every third page of their stretch is enough.
        if len(on) >= 0.3 * (on[-1] - on[0] + 1):
            doomed.update({id(edge.run): edge for edge in same})
    # A row of several runs goes only as a whole and if it stands apart: else it is the header of a table.
    every = doomed.keys() | numbers
    going = {key: edge for key, edge in doomed.items() if edge.alone or _goes_whole(edge, every, numbers)}
    # A sentence goes as a whole or not at all: its first line may stand where another page has a header.
    while torn := [key for key, edge in going.items() if edge.shares is not None and id(edge.shares) not in going]:
        for number in torn:
            del going[number]
    return set(going)


def _small_print(edges: list[_Edge], pages: list[PageDraft]) -> set[int]:
    """In two pages a repetition proves little: only small type on both, outermost, apart and at the very same place."""
    letters: Counter[float] = Counter()
    for page in pages:
        for run in page.content.runs[0] if page.content.runs else ():
            letters[round(run.size, 1)] += run.letters
    body = letters.most_common(1)[0][0] if letters else 0.0
    places: dict[str, list[_Edge]] = defaultdict(list)
    for edge in edges:
        if edge.outermost and edge.apart and edge.in_zone and edge.run.size < 0.95 * body:
            places[edge.text].append(edge)
    return {
        id(edge.run)
        for seen in places.values()
        if len({edge.page for edge in seen}) == 2 and max(e.place for e in seen) - min(e.place for e in seen) < 0.003
        for edge in seen
    }


def _numbers_hold(edges: list[_Edge]) -> bool:
    """The numbers in a running line stay the same or count the pages; "NOTE 1", "NOTE 2" are headings."""
    columns = zip(*([int(digits) for digits in _DIGITS.findall(edge.text)] for edge in edges), strict=True)
    for values in columns:
        offsets = Counter(value - edge.page for value, edge in zip(values, edges, strict=True))
        distinct = len(set(values))
        if distinct > max(1, 0.34 * len(edges)) and offsets.most_common(1)[0][1] < 0.6 * len(edges):
            return False
    return True


def _goes_whole(edge: _Edge, doomed: set[int], numbers: set[int]) -> bool:
    numbered = any(id(run) in numbers for run in edge.row)
    return (edge.apart or numbered) and all(id(run) in doomed for run in edge.row)


def _page_numbers(edges: list[_Edge], pages: list[PageDraft]) -> set[int]:
    """Numbers that count with the pages, or stand alone so near the edge that they can be nothing else."""
    found: list[tuple[_Edge, int]] = []  # offset of the number to the page
    for edge in edges:
        match = _PAGE_NUMBER.match(edge.text)
        if match is None:
            continue
        digits = _DIGITS.findall(match.group(1))
        if not digits:
            if (edge.alone and edge.in_zone) or edge.last:
                found.append((edge, -1_000_000))  # roman
        # 2022 over a column of one page and 2021 over a column of the page before also "count": years never do.
        elif not _YEAR.match(digits[0]):
            found.append((edge, int(digits[0]) - edge.page))
    offsets = Counter(offset for _, offset in found)
    doomed = set()
    for edge, offset in found:
        counts = offsets[offset] >= MIN_REPEATS and offsets[offset] >= 0.1 * len(pages)
        labelled = offset == 1 or str(offset + edge.page) == pages[edge.page].label or offsets[offset] >= 2
        near_edge = edge.place < EDGE or edge.place > 1 - EDGE
        centred = abs(edge.run.left + edge.run.right - _width(pages[edge.page])) < 0.1 * _width(pages[edge.page])
        floating = edge.last and centred and offset == 1
        at_margin = floating or (edge.alone and edge.in_zone and (labelled or near_edge))
        if at_margin or (counts and (edge.alone or ((edge.in_zone or edge.last) and _only_number(edge)))):
            doomed.add(id(edge.run))
    return doomed


def _width(page: PageDraft) -> float:
    return page.frame.height if page.content.turns[0] % 2 else page.frame.width


def _only_number(edge: _Edge) -> bool:
    """A footer holds one number; rows of tables hold more."""
    return sum(run.digits > 0.5 * run.letters for run in edge.row) == 1


@dataclass(slots=True, eq=False)
class TextLine:
    """One row of text that is not part of a table."""

    runs: Row
    words: Words
    left: float
    top: float
    right: float
    bottom: float
    contents: bool = False  # an entry of a table of contents
    page: int = 0

    @property
    def figure(self) -> bytes | None:
        return self.runs[0].figure

    @property
    def main(self) -> WordRun:
        return self.runs[0] if len(self.runs) == 1 else max(self.runs, key=lambda run: run.letters)

    @property
    def size(self) -> float:
        return self.main.size

    @property
    def bold(self) -> bool:
        return all(run.bold for run in self.runs)

    @property
    def mono(self) -> bool:
        return all(run.mono for run in self.runs)

    @property
    def text(self) -> str:
        return text_of(self.runs, self.words)
