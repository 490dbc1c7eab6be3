"""Groups the lines of a PDF into paragraphs, headings, lists, code and tables, and builds the document's text. Pure.

Blocks go over columns and pages; every word gets its place in the text and keeps its place on the page.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from refdesk.parsers.build import CELL, SEPARATOR, one_line
from refdesk.parsers.pdf_layout import SENTENCE_END, TextLine, drop_furniture, reading_order
from refdesk.parsers.pdf_page import CJK, Floats, PageDraft, WordRun, Words, text_of
from refdesk.parsers.pdf_tables import (
    CellRuns,
    Item,
    PageTable,
    find_tables,
    first_is_data,
    form_apart,
    ruled_tables,
    same_columns,
)
from refdesk.types import Block, Geometry, Kind, Page, Parsed

Region = list[Item]  # the lines and tables of one column
DraftRow = tuple[list[CellRuns], Words, int]  # the cells of a row, the words they point at, the page

# What US filings print larger than the company's name.
COVER = re.compile(r"^(united states|securities and exchange|washington, d|form \d)", re.I)
MOSTLY = 0.7  # of the letters


def put_together(
    pages: list[PageDraft], format: str, metadata: dict[str, str], title: str, notes: tuple[str, ...]
) -> Parsed:
    """Pages that were read become one document: shared by PDFs and images."""
    drop_furniture(pages)
    _forget_typewriter(pages)
    columns = [page_items(page) for page in pages]
    body = body_size(columns)
    drafts = compose(columns, body)
    headings = [draft for draft in drafts if draft.kind == "heading"]
    levels = assign_levels([(" ".join(line.text for line in draft.lines), draft.first) for draft in headings])
    for draft, level in zip(headings, levels, strict=True):
        draft.level = level
    writer = TextWriter(pages)
    for draft in drafts:
        writer.block(draft)
    text = "".join(writer.parts)
    return Parsed(
        text,
        writer.page_values(),
        tuple(writer.blocks),
        format,
        title=title or _first_title(text, writer.blocks, page_end=writer.page_starts.get(2, len(text))),
        metadata=metadata,
        geometry=writer.geometry(),
        figures=tuple(writer.figures),
        notes=notes,
    )


def _forget_typewriter(pages: list[PageDraft]) -> None:
    """Where nearly everything is set in one width, that says nothing: it is a typescript, not code."""
    runs = [run for page in pages for group in page.content.runs for run in group]
    letters = sum(run.letters for run in runs)
    if sum(run.letters for run in runs if run.mono) > MOSTLY * letters:
        for run in runs:
            run.mono = False


def page_items(page: PageDraft) -> list[Region]:
    """The columns of a page as lines and tables."""
    regions: list[Region] = []
    words = page.content.words
    for turn, runs in zip(page.content.turns, page.content.runs, strict=True):
        lines = page.frame.upright(page.rulings, turn) if len(page.rulings) else page.rulings
        flow = ruled_tables(lines, runs, words)
        regions += [find_tables(region, words) for region in reading_order(flow)]
    for region in regions:
        for item in region:
            item.page = page.number
    return regions


def _first_title(text: str, blocks: list[Block], page_end: int) -> str:
    """The first of the largest headings on page 1."""
    headings = [block for block in blocks if block.kind == "heading" and block.start < page_end]
    headings = [block for block in headings if not COVER.match(text[block.start : block.end])]
    if not headings:
        return ""
    best = min(headings, key=lambda block: (block.level, block.start))
    return one_line(text[best.start : best.end])[:300]


# What is a heading, and of which level? By size, weight, capitals, numbering; alike in the whole document.

_DECIMAL = re.compile(r"^(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+\S")
_NAMED = re.compile(
    r"^(part|item|chapter|appendix|section|article|annex|kapitel|teil)\s+([0-9]+[a-z]?|[ivxl]+|[a-z])\b", re.I
)
_DEPTH = {
    **dict.fromkeys(("part", "teil", "chapter", "kapitel", "appendix", "annex"), 1),
    **dict.fromkeys(("item", "article", "section"), 2),
}

LARGE, SMALL = 1.13, 0.93  # × body size
MAX_WORDS = 25
MAX_LEVEL = 6
MAX_CHAPTER = 40  # a larger number before a line counts something else
UNNUMBERED = 3  # where "Item 1." headings exist, plain ones stand below them


def looks_like_heading(group: list[TextLine], body: float) -> bool:
    """Short, and larger, bolder or numbered differently from the text around it."""
    text = " ".join(line.text for line in group)
    words, dense = text.split(), text.replace(" ", "")
    letters = sum(map(str.isalpha, text))
    numbered = number_depth(text) > 0
    if len(group) > 3 or letters < 2 or len(words) > MAX_WORDS or letters < 0.4 * len(dense):
        return False
    gap = any(right.left - left.right > 2 * left.size for left, right in pairwise(group[0].runs))
    if text[0] == "(" or (gap and not numbered):
        return False  # units, or titles of columns
    if text[0].islower() or text[-1] in ",;" or (text[-1] == "." and not numbered and len(words) > 3):
        return False
    size = group[0].size
    if size >= LARGE * body:
        return text[-1] != "." or len(words) <= 12
    if size < SMALL * body:
        return False
    if all(line.bold for line in group):
        return len(group) <= 2 and len(words) <= 20 and (text[-1] != "." or len(words) <= 8)
    capitals = text.isupper() and letters >= 4
    if _NAMED.match(text) and (capitals or group[0].runs[0].italic):
        return True
    return capitals and len(group) == 1 and 1 < len(words) <= 10 and letters > 0.8 * len(dense)


def number_depth(text: str) -> int:
    """`3.2 Ablation` -> 2, `Item 1A. Risk` -> 2, `PART I` -> 1, `Results` -> 0."""
    named = _NAMED.match(text)
    if named:
        return _DEPTH[named.group(1).lower()]
    decimal = _DECIMAL.match(text)
    parts = decimal.group(1).split(".") if decimal else []
    return len(parts) if parts and int(parts[0]) <= MAX_CHAPTER else 0


def assign_levels(headings: list[tuple[str, TextLine]]) -> list[int]:
    """A level from 1 to 6 for each heading; the same style has the same level everywhere."""
    sizes = _size_classes([line.size for _, line in headings])
    named = [(match, line) for text, line in headings if (match := _NAMED.match(text)) and line.page > 1]
    largest = max((sizes[line.size] for _, line in named), default=0.0)
    items = {sizes[line.size] for match, line in named if match.group(1).lower() == "item"}
    styles: list[tuple[float, int, bool, bool, bool]] = []  # sorted: larger, shallower, in capitals, bold, upright
    for text, line in headings:
        size, depth = sizes[line.size], number_depth(text)
        if largest and _NAMED.match(text):  # "PART I" stands above "Item 1." even where it is set smaller
            styles.append((-max(size, largest), depth, False, False, False))
        else:
            depth = depth or (UNNUMBERED if size in items else 1)
            styles.append((-size, depth, not text.isupper(), not line.bold, line.main.italic))
    counts = Counter(styles)
    inner = {style for style, (_, line) in zip(styles, headings, strict=True) if line.page > 1}
    # A style used once, or on the first page only, is a stray (a cover): it shares the level of the next smaller style.
    levels = {}
    level = 1
    for position, style in enumerate(sorted(counts)):
        levels[style] = min(level, MAX_LEVEL)
        level += position == 0 or (counts[style] > 1 and (style in inner or not inner))
    return [levels[style] for style in styles]


def _size_classes(sizes: list[float]) -> dict[float, float]:
    """Sizes within 4 per cent of one another are one: 11.95 and 12.0."""
    classes: dict[float, float] = {}
    current = 0.0
    for size in sorted(set(sizes), reverse=True):
        if not current or size < 0.96 * current:
            current = size
        classes[size] = current
    return classes


_BULLET = re.compile(r"^[•●○▪■◦‣⁃∙·➢✓❖◆\uf0b7\uf0a7]\s*\S|^[–—*\-]\s+\S")
_NUMBERED = re.compile(r"^(\(?\d{1,2}[.)]|\(?[a-zA-Z][.)]|\([ivxIVX]{1,4}\)|\[\d{1,3}\])\s+\S")

_ENTRY = re.compile(r"[\W\d]*+[^\W\d].* \d{1,4}$")

_CODE = re.compile(r"[{}<>=;$#\\]|\(\)|^(import|def|class|return|for|if|while|sudo|pip)\b")

PARAGRAPH_PITCH = 1.3  # × the usual distance of base lines: above it a new paragraph begins
SIZE_CHANGE = 1.08


@dataclass(slots=True, eq=False)
class BlockDraft:
    """A block to be: paragraphs and list items as groups of lines, or the rows of a table."""

    kind: Kind
    groups: list[list[TextLine]] = field(default_factory=list)
    rows: list[DraftRow] = field(default_factory=list)
    header_rows: int = 0
    level: int = 0
    table: PageTable | None = None  # the last part, to know a continuation
    right: float = 0.0  # edge of the column: a line that goes on reaches it

    @property
    def lines(self) -> list[TextLine]:
        return [line for group in self.groups for line in group]

    @property
    def first(self) -> TextLine:
        return self.groups[0][0]

    @property
    def last(self) -> TextLine:
        return self.groups[-1][-1]


def body_size(pages: list[list[Region]]) -> float:
    """The font size most letters of the document have."""
    sizes: Counter[float] = Counter()
    for line in (item for page in pages for region in page for item in region if isinstance(item, TextLine)):
        for run in line.runs:
            sizes[round(run.size * 2) / 2] += run.letters
    return sizes.most_common(1)[0][0] if sizes else 10.0


def compose(pages: list[list[Region]], body: float) -> list[BlockDraft]:
    """The blocks of the document in reading order."""
    drafts: list[BlockDraft] = []
    for page in pages:
        for number, region in enumerate(page):
            for position, draft in enumerate(_region_drafts(region, body)):
                if position == 0 and drafts and _goes_on(drafts[-1], draft, new_page=number == 0):
                    _append(drafts[-1], draft)
                else:
                    drafts.append(draft)
    return drafts


@dataclass(frozen=True, slots=True)
class _TextColumn:
    left: float
    right: float
    pitch: float

    @property
    def width(self) -> float:
        return max(self.right - self.left, 1.0)


def _column(lines: list[TextLine], body: float) -> _TextColumn:
    lefts = sorted(line.left for line in lines)
    rights = sorted(line.right for line in lines)
    pitches = sorted(
        lower.bottom - upper.bottom
        for upper, lower in pairwise(lines)
        if 0.5 * upper.size < lower.bottom - upper.bottom < 3.5 * upper.size and abs(upper.size - lower.size) < 1
    )
    pitch = pitches[int(0.4 * len(pitches))] if pitches else 1.25 * body
    return _TextColumn(lefts[len(lefts) // 10], rights[-1 - len(rights) // 10], pitch)


def _region_drafts(region: Region, body: float) -> list[BlockDraft]:
    lines = [item for item in region if isinstance(item, TextLine)]
    column = _column(lines, body) if lines else _TextColumn(0, 1, body)
    groups: list[list[TextLine] | PageTable] = []
    for item in region:
        if isinstance(item, PageTable):
            groups += form_apart(item)
        elif groups and isinstance(groups[-1], list) and not _begins(groups[-1], item, column, body):
            groups[-1].append(item)
        else:
            groups.append([item])
    drafts: list[BlockDraft] = []
    for group in groups:
        draft = _draft(group, body)
        draft.right = column.right
        if drafts and draft.kind == drafts[-1].kind and draft.kind in ("list", "code", "toc"):
            drafts[-1].groups += draft.groups
        else:
            drafts.append(draft)
    drafts = _join_contents(drafts)
    for draft, below in zip(drafts, [*drafts[1:], None], strict=True):
        one_item = draft.kind == "list" and len(draft.groups) == 1
        if (one_item and _NUMBERED.match(draft.first.text)) or (below is not None and _names_columns(draft, below)):
            draft.kind = "text"  # one numbered paragraph alone is no list
    return drafts


def _begins(group: list[TextLine], line: TextLine, column: _TextColumn, body: float) -> bool:
    """Does a new paragraph begin with this line?"""
    previous, first = group[-1], group[0]
    if line.contents or previous.contents or line.figure is not None:
        return True
    text = line.text
    if _differ(line.size, previous.size) or line.mono != previous.mono:
        return True
    step = line.bottom - previous.bottom
    usual = column.pitch * max(1.0, line.size / body) if line.size > 1.1 * body else column.pitch
    if step > PARAGRAPH_PITCH * max(usual, 1.05 * line.size) or step < -0.5 * line.size:
        return True
    if line.mono:
        return False
    ended = SENTENCE_END.search(previous.text) is not None
    if line.bold != previous.bold and line.size < 1.1 * body and (ended or not text[:1].islower()):
        return True
    full = previous.right >= column.right - 0.12 * column.width
    if is_item(text):
        return not (text[0] == "·" and full)  # a dot between keywords
    if is_item(first.text):
        return line.left < first.left - 2 or (line.left < first.left + 2 and ended and not full)
    indent = 0.8 * line.size
    if line.left - previous.left > indent and (full or ended) and not line.bold and len(text) > 1:
        return not text[:1].islower()
    hung = previous.left - line.left > indent and first.left < previous.left - indent
    if ended and (hung or not full):
        return True
    short = previous.right < column.right - 0.35 * column.width
    return short and not line.bold and text[:1].isupper() and line.size < SIZE_CHANGE * body


def _differ(size: float, other: float) -> bool:
    return max(size, other) > SIZE_CHANGE * min(size, other) + 0.2


def is_item(text: str) -> bool:
    return bool(_BULLET.match(text) or _NUMBERED.match(text))


def _draft(group: list[TextLine] | PageTable, body: float) -> BlockDraft:
    if isinstance(group, PageTable):
        rows = [(row, group.words, group.page) for row in group.rows]
        return BlockDraft("table", rows=rows, header_rows=group.header_rows, table=group)
    first = group[0]
    if first.contents:
        return BlockDraft("toc", [[line] for line in group])
    if first.figure is not None:
        return BlockDraft("figure", [group])
    if all(line.mono for line in group) and (len(group) > 1 or _CODE.search(first.text)):
        return BlockDraft("code", [group])
    if looks_like_heading(group, body):
        return BlockDraft("heading", [group])
    return BlockDraft("list" if is_item(first.text) else "text", [group])


def _join_contents(drafts: list[BlockDraft]) -> list[BlockDraft]:
    """A line with a page number between contents entries is one too: a chapter's title without dots."""
    joined: list[BlockDraft] = []
    for position, draft in enumerate(drafts):
        before = joined[-1].kind if joined else ""
        after = drafts[position + 1].kind if position + 1 < len(drafts) else ""
        if draft.kind in ("text", "list", "heading") and "toc" in (before, after) and _ENTRY.match(draft.last.text):
            draft = BlockDraft("toc", [[line] for line in draft.lines], right=draft.right)
        if draft.kind == "toc" and before == "toc":
            joined[-1].groups += draft.groups
        else:
            joined.append(draft)
    return joined


def _names_columns(draft: BlockDraft, below: BlockDraft) -> bool:
    """Bold words over the columns of a table ("Three Months Ended") name columns; they are no heading."""
    table = below.table
    if draft.kind != "heading" or table is None or draft.first.left <= table.left + 40:
        return False
    return abs(draft.first.left + draft.last.right - table.left - table.right) >= 60  # else it is centred


def _goes_on(upper: BlockDraft, lower: BlockDraft, new_page: bool) -> bool:
    """Does the last block of a column or page go on in the next one?"""
    if upper.table is not None and lower.table is not None:
        if not new_page or not same_columns(upper.table, lower.table):
            return False
        return not lower.header_rows or first_is_data(lower.table) or _header_of(upper) == _header_of(lower)
    if upper.kind not in ("text", "list") or lower.kind != "text" or upper.last.mono or lower.first.mono:
        return False
    before, after = upper.last.text, lower.first.text
    if _differ(upper.last.size, lower.first.size) or upper.last.bold != lower.first.bold:
        return False
    if SENTENCE_END.search(before) or (len(before) < 25 and before[-1] != "-"):
        return False
    if upper.last.right < upper.right - 4 * upper.last.size:
        return False
    return after[:1].islower() or bool(_CJK.match(before[-1:]) and len(upper.lines) > 1)


def _header_of(draft: BlockDraft) -> list[str]:
    return [_row_text(row) for row in draft.rows[: draft.header_rows]]


def _row_text(row: DraftRow) -> str:
    cells, words, _ = row
    return one_line(" ".join(text_of(cell, words) for cell in cells))


def _append(upper: BlockDraft, lower: BlockDraft) -> None:
    if lower.table is None:
        upper.groups[-1] += lower.groups[0]
        upper.groups += lower.groups[1:]
        return
    header = _header_of(upper)
    repeated = [_row_text(row) for row in lower.rows[: len(header)]] == header
    upper.rows += lower.rows[len(header) :] if repeated else lower.rows
    upper.table = lower.table


# --- from blocks to text ---------------------------------------------------------------------------------------------

_LETTERS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_CJK = re.compile(f"[{CJK}]")
_LEADERS = re.compile(r"[.·…_]{3,}|^[.·…_]+$")


class TextWriter:
    """Appends words, blanks and line breaks, and notes where each word went."""

    def __init__(self, pages: list[PageDraft]) -> None:
        self._pages = pages
        self.parts: list[str] = []
        self.length = 0
        self.blocks: list[Block] = []
        self.figures: list[bytes] = []
        self.page_starts: dict[int, int] = {}
        self._start, self._end, self._page, self._line = (array("i") for _ in range(4))
        self._edges: list[Floats] = []
        self._line_number = -1

    @cached_property
    def _vocabulary(self) -> set[str]:
        """The document's own words, to tell `exam-/ple` from `long-/term`; read only if a line ends with a hyphen."""
        return {text.lower().strip(".,;:()[]\"'“”‘’") for page in self._pages for text in page.content.words.text}

    def raw(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def new_line(self) -> None:
        self._line_number += 1

    def run(self, run: WordRun, words: Words, page: int, unwanted: re.Pattern[str] | None = None) -> None:
        """The words of one run, separated by blanks, without what is unwanted inside them."""
        if page not in self.page_starts:
            self.page_starts[page] = self.length
        texts, glued, hyphens = words.text, words.glued, words.hyphen
        for index in range(run.first, run.last):
            if index > run.first and not glued[index]:
                self.raw(" ")
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

    def lines(self, lines: list[TextLine]) -> None:
        """The lines of a paragraph, joined by blanks, with hyphens at line ends repaired."""
        for position, line in enumerate(lines):
            self._runs(line)
            last = line.runs[-1].last - 1
            following = lines[position + 1] if position + 1 < len(lines) else None
            if following is None:
                if line.words.hyphen[last]:
                    self._extend("-")
            else:
                self._join(line.words, last, following)

    def _runs(self, line: TextLine) -> None:
        self.new_line()
        for place, run in enumerate(line.runs):
            self.raw(" " if place else "")
            self.run(run, line.words, line.page)

    def _join(self, words: Words, last: int, following: TextLine) -> None:
        """What stands between two lines: a blank, nothing after a hyphenated word, nothing in CJK text."""
        word, after = words.text[last], following.words.text[following.runs[0].first]
        if words.hyphen[last] or (word.endswith("-") and len(word) > 1 and word[-2].isalpha() and after[:1].islower()):
            if not words.hyphen[last]:
                self.parts[-1] = self.parts[-1][:-1]
                self.length = self._end[-1] = self.length - 1
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
        return joined in self._vocabulary or dashed not in self._vocabulary

    def _extend(self, text: str) -> None:
        """Adds to the word just written."""
        self.raw(text)
        self._end[-1] = self.length

    def code(self, lines: list[TextLine]) -> None:
        """Lines as they stand, with their indentation."""
        left = min(line.left for line in lines)
        for position, line in enumerate(lines):
            if position:
                self.raw("\n")
            width = line.main.width / max(1, line.main.letters + line.main.words - 1)
            self.raw(" " * min(40, round((line.left - left) / width)) if width > 0 else "")
            self._runs(line)

    def row(self, number: int, cells: list[CellRuns], words: Words, page: int) -> Iterator[tuple[int, ...]]:
        """One row of a table; runs level with one another share a line, so that the row has one box."""
        level: float | None = None
        for place, cell in enumerate(cells):
            if place:
                self.raw(CELL)
            start = self.length
            for position, run in enumerate(cell):
                if position:
                    self.raw(" ")
                if level is None or abs(run.middle - level) > 0.4 * run.size:
                    self.new_line()
                    level = run.middle
                self.run(run, words, page)
            if cell:
                yield number, place, cell.rows, cell.columns, start, self.length

    def contents(self, line: TextLine) -> None:
        """An entry of a table of contents without its dots."""
        self.new_line()
        begin = self.length
        for run in line.runs:
            for index in range(run.first, run.last):
                if not _LEADERS.sub("", line.words.text[index]):
                    continue
                self.raw(" " if self.length > begin else "")
                self.run(replace(run, first=index, last=index + 1), line.words, line.page, _LEADERS)

    def block(self, draft: BlockDraft) -> None:
        """One block after the others, with the place of its header row and its picture."""
        self.raw(SEPARATOR if self.length else "")
        start = self.length
        header = figure = cells = None
        if draft.kind == "table":
            found: list[tuple[int, ...]] = []
            for index, row in enumerate(draft.rows):
                self.raw("\n" if index else "")
                found += self.row(index, *row)
                if index + 1 == draft.header_rows < len(draft.rows):
                    header = (start, self.length)
            cells = np.array(found, np.int32).reshape(-1, 6)
        elif draft.kind == "code":
            self.code(draft.lines)
        elif draft.kind == "toc":
            for index, line in enumerate(draft.lines):
                self.raw("\n" if index else "")
                self.contents(line)
        else:
            for index, group in enumerate(draft.groups):
                self.raw("\n" if index else "")
                self.lines(group)
        if draft.kind == "figure" and draft.first.figure is not None:
            figure = len(self.figures)
            self.figures.append(draft.first.figure)
        self.blocks.append(Block(draft.kind, start, self.length, draft.level, header, figure, cells))

    def page_values(self) -> tuple[Page, ...]:
        """Pages that tile the text; a page without words is an empty range."""
        starts = []
        following = self.length
        for page in reversed(self._pages):
            following = self.page_starts.get(page.number, following)
            starts.append(following)
        starts = [0, *reversed(starts[:-1])]
        return tuple(
            Page(page.number, start, end, round(page.width, 2), round(page.height, 2), page.label, page.ocr)
            for page, start, end in zip(self._pages, starts, [*starts[1:], self.length], strict=True)
        )

    def geometry(self) -> Geometry:
        start, end, page, line = (np.array(a, np.int32) for a in (self._start, self._end, self._page, self._line))
        return Geometry(start, end, page, line, np.concatenate([np.empty((0, 4), np.float32), *self._edges]))
