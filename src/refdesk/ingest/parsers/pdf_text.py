"""From drafts to the document's text: every word gets its place in the text and keeps its place on the page. Pure."""

from __future__ import annotations

import re
from array import array
from dataclasses import replace

import numpy as np

from refdesk.geometry import Geometry
from refdesk.ingest.parsers.builder import CELL, SEPARATOR
from refdesk.ingest.parsers.pdf_layout import Draft, PageDraft
from refdesk.ingest.parsers.pdf_page import Floats, Run, Words
from refdesk.ingest.parsers.pdf_tables import Cell, Line
from refdesk.types import Block, Page

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
