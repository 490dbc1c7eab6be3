"""From drafts to the document's text: every word gets its place in the text and keeps its place on the page. Pure."""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from refdesk.parsers.build import CELL, SEPARATOR
from refdesk.parsers.pdf_columns import Row, group_rows
from refdesk.parsers.pdf_layout import Draft, PageDraft
from refdesk.parsers.pdf_page import Floats, Run, Words
from refdesk.parsers.pdf_tables import Cell, Line, text_of
from refdesk.types import Block, Geometry, Page

_LETTERS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_PLAIN = re.compile(r"^[^\W\d_]+$")
_CJK = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60]")
_LEADERS = re.compile(r"[.·…_]{3,}|^[.·…_]+$")


class Vocabulary:
    """The document's own words, to tell `exam-/ple` from `long-/term`; read only if a line ends with a hyphen."""

    def __init__(self, pages: list[PageDraft]) -> None:
        self._pages = pages
        self._words: set[str] | None = None

    def __contains__(self, word: str) -> bool:
        if self._words is None:
            self._words = {
                text.lower().strip(".,;:()[]\"'“”‘’") for page in self._pages for text in page.content.words.text
            }
        return word in self._words


class TextWriter:
    """Appends words, blanks and line breaks, and notes where each word went."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.parts: list[str] = []
        self.length = 0
        self.page_starts: dict[int, int] = {}
        self._vocabulary = vocabulary
        self._start, self._end, self._page, self._line = (array("i") for _ in range(4))
        self._edges: list[Floats] = []
        self._line_number = -1

    def raw(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def new_line(self) -> None:
        self._line_number += 1

    def run(self, run: Run, words: Words, page: int, unwanted: re.Pattern[str] | None = None) -> None:
        """The words of one run, separated by blanks, without what is unwanted inside them."""
        if page not in self.page_starts:
            self.page_starts[page] = self.length
        texts, glued, hyphens = words.text, words.glued, words.hyphen
        first = True
        for index in range(run.first, run.last):
            if not first and not glued[index]:
                self.raw(" ")
            first = False
            text = texts[index]
            if hyphens[index] and index < run.last - 1:
                text += "-"
            if unwanted is not None:
                text = unwanted.sub("", text)
            self._start.append(self.length)
            self.raw(text)
            self._end.append(self.length)
        count = run.last - run.first
        self._page.extend([page] * count)
        self._line.extend([self._line_number] * count)
        self._edges.append(words.edges[run.first : run.last])

    def lines(self, lines: list[Line]) -> None:
        """The lines of a paragraph, joined by blanks, with hyphens at line ends repaired."""
        for position, line in enumerate(lines):
            self.new_line()
            for place, run in enumerate(line.runs):
                if place:
                    self.raw(" ")
                self.run(run, line.words, line.page)
            last = line.runs[-1].last - 1
            following = lines[position + 1] if position + 1 < len(lines) else None
            if following is None:
                if line.words.hyphen[last]:
                    self._extend("-")
            else:
                self._join(line.words, last, following)

    def _join(self, words: Words, last: int, following: Line) -> None:
        """What stands between two lines: a blank, nothing after a hyphenated word, nothing in CJK text."""
        word, after = words.text[last], following.words.text[following.runs[0].first]
        if words.hyphen[last] or (word.endswith("-") and len(word) > 1 and word[-2].isalpha() and after[:1].islower()):
            if not words.hyphen[last]:
                self._shorten()
                word = word[:-1]
            if not self._is_split(word, after):
                self._extend("-")
            return
        if not (_CJK.match(word[-1:]) and _CJK.match(after[:1])):
            self.raw(" ")

    def _is_split(self, word: str, after: str) -> bool:
        """`exam` + `ple` was one word; `long` + `term`, `10` + `K` and `non` + `GAAP` keep their hyphen."""
        head, tail = _LETTERS.findall(word), _LETTERS.match(after)
        if not head or tail is None or not after[:1].islower() or not word[-1:].isalpha():
            return False
        joined, dashed = (head[-1] + tail.group()).lower(), f"{head[-1]}-{tail.group()}".lower()
        if joined in self._vocabulary:
            return True
        return dashed not in self._vocabulary

    def _extend(self, text: str) -> None:
        """Adds to the word just written."""
        self.raw(text)
        self._end[-1] = self.length

    def _shorten(self) -> None:
        self.parts[-1] = self.parts[-1][:-1]
        self.length -= 1
        self._end[-1] = self.length

    def code(self, lines: list[Line]) -> None:
        """Lines as they stand, with their indentation."""
        left = min(line.left for line in lines)
        for position, line in enumerate(lines):
            if position:
                self.raw("\n")
            width = line.main.width / max(1, line.main.letters + line.main.words - 1)
            self.raw(" " * min(40, round((line.left - left) / width)) if width > 0 else "")
            self.new_line()
            for place, run in enumerate(line.runs):
                if place:
                    self.raw(" ")
                self.run(run, line.words, line.page)

    def row(self, cells: list[Cell], words: Words, page: int) -> None:
        """One row of a table; runs level with one another share a line, so that the row has one box."""
        level: float | None = None
        for place, cell in enumerate(cells):
            if place:
                self.raw(CELL)
            for position, run in enumerate(cell):
                if position:
                    self.raw(" ")
                if level is None or abs(run.middle - level) > 0.4 * run.size:
                    self.new_line()
                    level = run.middle
                self.run(run, words, page)

    def contents(self, line: Line) -> None:
        """An entry of a table of contents without its dots."""
        self.new_line()
        begin = self.length
        for run in line.runs:
            for index in range(run.first, run.last):
                if not _LEADERS.sub("", line.words.text[index]):
                    continue
                if self.length > begin and not (line.words.glued[index] and index > run.first):
                    self.raw(" ")
                self.run(replace(run, first=index, last=index + 1), line.words, line.page, _LEADERS)

    def geometry(self) -> Geometry:
        edges = np.concatenate(self._edges) if self._edges else np.empty((0, 4), np.float32)
        start, end, page, line = (
            np.frombuffer(column, np.int32).copy() if len(column) else np.empty(0, np.int32)
            for column in (self._start, self._end, self._page, self._line)
        )
        return Geometry(start, end, page, line, edges.astype(np.float32))


def write(drafts: list[Draft], pages: list[PageDraft]) -> tuple[str, tuple[Block, ...], TextWriter, tuple[bytes, ...]]:
    """The text, its blocks, the writer that knows the places, and the pictures."""
    writer = TextWriter(Vocabulary(pages))
    blocks: list[Block] = []
    figures: list[bytes] = []
    for draft in drafts:
        if writer.length:
            writer.raw(SEPARATOR)
        start = writer.length
        header = None
        figure = None
        if draft.kind == "table":
            for index, (cells, words, page) in enumerate(draft.rows):
                if index:
                    writer.raw("\n")
                writer.row(cells, words, page)
                if index + 1 == draft.header_rows and index + 1 < len(draft.rows):
                    header = (start, writer.length)
        elif draft.kind == "code":
            writer.code(draft.lines)
        elif draft.kind == "toc":
            for index, line in enumerate(draft.lines):
                if index:
                    writer.raw("\n")
                writer.contents(line)
        else:
            for index, group in enumerate(draft.groups):
                if index:
                    writer.raw("\n")
                writer.lines(group)
            if draft.kind == "figure" and draft.first.figure is not None:
                figure = len(figures)
                figures.append(draft.first.figure)
        blocks.append(Block(draft.kind, start, writer.length, draft.level, header, figure))
    return "".join(writer.parts), tuple(blocks), writer, tuple(figures)


def page_values(pages: list[PageDraft], writer: TextWriter) -> tuple[Page, ...]:
    """Pages that tile the text; a page without words is an empty range."""
    starts = [0] * len(pages)
    following = writer.length
    for index in range(len(pages) - 1, -1, -1):
        following = writer.page_starts.get(pages[index].number, following)
        starts[index] = following
    if starts:
        starts[0] = 0
    ends = [*starts[1:], writer.length]
    return tuple(
        Page(page.number, start, end, round(page.width, 2), round(page.height, 2), page.label, page.ocr)
        for page, start, end in zip(pages, starts, ends, strict=True)
    )


# Which lines repeat on page after page? Running headers, footers and page numbers go.

ZONE = 0.13  # of the page's height at top and bottom, where furniture stands
EDGE = 0.08  # so near the edge a number alone is a page number whatever it says
OUTER = 4  # rows from the edge that may be furniture
MIN_REPEATS = 3
SHORT = 10  # pages
OFTEN = 0.05  # of the pages
FLOATING = 0.2  # of the pages, for footers outside the zone
SAME_PLACE = 0.015  # of the height
FIRST_YEAR = 1900  # as a page number: only in documents that long
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
    run: Run
    row: Row
    text: str
    place: float
    in_zone: bool
    apart: bool  # a blank stands between its row and the body
    outermost: bool
    last: bool  # nothing stands below: on a page that is not full a footer floats up with the text
    shares: Run | None  # the line towards the body that holds the other half of its sentence

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


def _other_half(run: Run, row: Row, words: Words) -> Run | None:
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
        if (edge.in_zone or edge.last) and any(character.isalpha() for character in key) and len(key) <= 200:
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
        if len(on) >= 0.3 * (on[-1] - on[0] + 1) or len(on) >= 0.2 * pages:
            kept = _title_among(same)
            doomed.update({id(edge.run): edge for edge in same if edge is not kept})
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


def _title_among(edges: list[_Edge]) -> _Edge | None:
    """A bold line below the outermost row may be the title of a part, repeated on its pages: its first stays."""
    first = min(edges, key=lambda edge: edge.page)
    return first if first.run.bold and first.alone and not any(edge.outermost for edge in edges) else None


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
        elif not (_YEAR.match(digits[0]) and len(pages) < FIRST_YEAR):
            found.append((edge, int(digits[0]) - edge.page))
    offsets = Counter(offset for _, offset in found)
    doomed = set()
    for edge, offset in found:
        counts = offsets[offset] >= MIN_REPEATS and offsets[offset] >= 0.1 * len(pages)
        labelled = offset == 1 or str(offset + edge.page) == pages[edge.page].label or offsets[offset] >= 2
        near_edge = edge.place < EDGE or edge.place > 1 - EDGE
        centred = abs(edge.run.left + edge.run.right - _width(pages[edge.page])) < 0.1 * _width(pages[edge.page])
        floating = edge.last and edge.alone and centred and offset == 1
        at_margin = floating or (edge.alone and edge.in_zone and (labelled or near_edge))
        if at_margin or (counts and (edge.alone or ((edge.in_zone or edge.last) and _only_number(edge)))):
            doomed.add(id(edge.run))
    return doomed


def _width(page: PageDraft) -> float:
    return page.frame.height if page.content.turns[0] % 2 else page.frame.width


def _only_number(edge: _Edge) -> bool:
    """A footer holds one number; rows of tables hold more."""
    return sum(run.digits > 0.5 * run.letters for run in edge.row) == 1
