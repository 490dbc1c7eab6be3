"""Which lines belong together? Lines -> paragraphs, headings, lists, code and tables, over columns and pages. Pure."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from refdesk.parsers.pdf_page import Floats, Frame, PageText, Words
from refdesk.parsers.pdf_tables import (
    Cell,
    Item,
    Line,
    Table,
    first_is_data,
    header_text,
    row_text,
    same_columns,
    text_of,
)
from refdesk.types import Kind

# What is a heading, and of which level? By size, weight, capitals, numbering; alike in the whole document.

_DECIMAL = re.compile(r"^(\d{1,2}(?:\.\d{1,2}){0,4})\.?\s+\S")
_APPENDIX = re.compile(r"^([A-Z](?:\.\d{1,2}){0,4})\.?\s+[A-Z]\S")
_NAMED = re.compile(
    r"^(part|item|chapter|appendix|section|article|annex|kapitel|teil)\s+([0-9]+[a-z]?|[ivxl]+|[a-z])\b", re.I
)
_DEPTH = {
    "part": 1,
    "teil": 1,
    "chapter": 1,
    "kapitel": 1,
    "appendix": 1,
    "annex": 1,
    "item": 2,
    "article": 2,
    "section": 2,
}

LARGE = 1.13  # × body size
MAX_WORDS = 25
MAX_LEVEL = 6
UNNUMBERED = 3  # where "Item 1." headings exist, plain ones stand below them


def looks_like_heading(group: list[Line], body: float) -> bool:
    """Short, and larger, bolder or numbered differently from the text around it."""
    if len(group) > 3:
        return False
    text = " ".join(line.text for line in group)
    words = text.split()
    letters = sum(character.isalpha() for character in text)
    if letters < 2 or len(words) > MAX_WORDS or len(text) > 220 or letters < 0.4 * len(text.replace(" ", "")):
        return False
    if text[:1] == "(" or (len(group[0].runs) > 1 and _has_gap(group[0]) and not number_depth(text)):
        return False  # units, or titles of columns
    size = group[0].size
    numbered = number_depth(text) > 0
    if text[-1] in ",;" or (text[-1] == "." and not numbered and len(words) > 3):
        return False
    if text[:1].islower():
        return False
    if size >= LARGE * body:
        return len(words) <= MAX_WORDS and not (text[-1] == "." and len(words) > 12)
    if size < 0.93 * body:
        return False
    bold = all(line.bold for line in group)
    if bold:
        return len(group) <= 2 and len(words) <= 20 and not (text[-1] == "." and len(words) > 8)
    named = _NAMED.match(text)
    capitals = text.isupper() and letters >= 4
    if named and (capitals or group[0].runs[0].italic) and len(words) <= 15:
        return True
    return (
        capitals
        and len(group) == 1
        and 1 < len(words) <= 10
        and text[-1] not in ".:"
        and letters > 0.8 * len(text.replace(" ", ""))
    )


def _has_gap(line: Line) -> bool:
    return any(right.left - left.right > 2 * left.size for left, right in pairwise(line.runs))


def number_depth(text: str) -> int:
    """`3.2 Ablation` -> 2, `Item 1A. Risk` -> 2, `PART I` -> 1, `Results` -> 0."""
    named = _NAMED.match(text)
    if named:
        return _DEPTH[named.group(1).lower()]
    decimal = _DECIMAL.match(text)
    if decimal:
        parts = decimal.group(1).split(".")
        return len(parts) if int(parts[0]) <= 40 else 0
    appendix = _APPENDIX.match(text)
    return appendix.group(1).count(".") + 1 if appendix and "." in appendix.group(1) else 0


@dataclass(frozen=True, slots=True, order=True)
class _Style:
    """Sorted from high to low: larger, shallower, in capitals, bold, upright."""

    size: float  # negative, so that larger comes first
    depth: int
    small: bool
    light: bool
    italic: bool


def assign_levels(headings: list[tuple[str, Line]]) -> list[int]:
    """A level from 1 to 6 for each heading; the same style has the same level everywhere."""
    if not headings:
        return []
    sizes = _size_classes([line.size for _, line in headings])
    named = [(match, line) for text, line in headings if (match := _NAMED.match(text)) and line.page > 1]
    largest = max((sizes[line.size] for _, line in named), default=0.0)
    items = {sizes[line.size] for match, line in named if match.group(1).lower() == "item"}
    styles = []
    for text, line in headings:
        size, depth = sizes[line.size], number_depth(text)
        if largest and _NAMED.match(text):  # "PART I" stands above "Item 1." even where it is set smaller
            styles.append(_Style(-max(size, largest), depth, False, False, False))
        else:
            depth = depth or (UNNUMBERED if size in items else 1)
            styles.append(_Style(-size, depth, not text.isupper(), not line.bold, line.main.italic))
    counts = Counter(styles)
    inner = {style for style, (_, line) in zip(styles, headings, strict=True) if line.page > 1}
    # A style used once, or on the first page only, is a stray (a cover): it shares the level of the next smaller style.
    levels: dict[_Style, int] = {}
    level = 1
    for position, style in enumerate(sorted(counts)):
        levels[style] = min(level, MAX_LEVEL)
        if position == 0 or (counts[style] > 1 and (style in inner or not inner)):
            level += 1
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
_TERMINAL = re.compile(r"[.!?:;。！？：；]['\")\]’”»）」]*$")
_ENTRY = re.compile(r"[\W\d]*+[^\W\d].* \d{1,4}$")
_CJK_END = re.compile(r"[\u2e80-\u9fff\uff00-\uff60]$")

_CODE = re.compile(r"[{}<>=;$#\\]|\(\)|^(import|def|class|return|for|if|while|sudo|pip)\b")

PARAGRAPH_PITCH = 1.3  # × the usual distance of base lines: above it a new paragraph begins
SIZE_CHANGE = 1.08


@dataclass(slots=True, eq=False)
class PageDraft:
    """One page: its words and runs as read, then its columns."""

    number: int
    width: float
    height: float
    content: PageText
    frame: Frame
    rulings: Floats = field(default_factory=lambda: np.empty((0, 4), np.float32))  # the lines drawn on the page
    label: str = ""
    ocr: bool = False
    regions: list[list[Item]] = field(default_factory=list)  # columns of lines and tables, in reading order


@dataclass(slots=True, eq=False)
class Draft:
    """A block to be: paragraphs and list items as groups of lines, or the rows of a table."""

    kind: Kind
    groups: list[list[Line]] = field(default_factory=list)
    rows: list[tuple[list[Cell], Words, int]] = field(default_factory=list)
    header_rows: int = 0
    level: int = 0
    table: Table | None = None  # the last part, to know a continuation
    right: float = 0.0  # edge of the column: a line that goes on reaches it

    @property
    def lines(self) -> list[Line]:
        return [line for group in self.groups for line in group]

    @property
    def first(self) -> Line:
        return self.groups[0][0]

    @property
    def last(self) -> Line:
        return self.groups[-1][-1]


def body_size(pages: list[PageDraft]) -> float:
    """The font size most letters of the document have."""
    sizes: Counter[float] = Counter()
    for page in pages:
        for region in page.regions:
            for item in region:
                if isinstance(item, Line):
                    for run in item.runs:
                        sizes[round(run.size * 2) / 2] += run.letters
    return sizes.most_common(1)[0][0] if sizes else 10.0


def compose(pages: list[PageDraft], body: float) -> list[Draft]:
    """The blocks of the document in reading order."""
    drafts: list[Draft] = []
    for page in pages:
        for number, region in enumerate(page.regions):
            for position, draft in enumerate(_region_drafts(region, body)):
                if position == 0 and drafts and _goes_on(drafts[-1], draft, new_page=number == 0):
                    _append(drafts[-1], draft)
                else:
                    drafts.append(draft)
    return drafts


@dataclass(frozen=True, slots=True)
class _Column:
    left: float
    right: float
    pitch: float

    @property
    def width(self) -> float:
        return max(self.right - self.left, 1.0)


def _column(lines: list[Line], body: float) -> _Column:
    lefts = sorted(line.left for line in lines)
    rights = sorted(line.right for line in lines)
    pitches = sorted(
        lower.bottom - upper.bottom
        for upper, lower in itertools.pairwise(lines)
        if 0.5 * upper.size < lower.bottom - upper.bottom < 3.5 * upper.size and abs(upper.size - lower.size) < 1
    )
    pitch = pitches[int(0.4 * len(pitches))] if pitches else 1.25 * body
    return _Column(lefts[len(lefts) // 10], rights[-1 - len(rights) // 10], pitch)


def _region_drafts(region: list[Item], body: float) -> list[Draft]:
    lines = [item for item in region if isinstance(item, Line)]
    column = _column(lines, body) if lines else _Column(0, 1, body)
    groups: list[list[Line] | Table] = []
    for item in region:
        if isinstance(item, Table):
            groups.append(item)
        elif groups and isinstance(groups[-1], list) and not _begins(groups[-1], item, column, body):
            groups[-1].append(item)
        else:
            groups.append([item])
    drafts: list[Draft] = []
    for group in groups:
        draft = _table_draft(group) if isinstance(group, Table) else _draft(group, body)
        draft.right = column.right
        previous = drafts[-1] if drafts else None
        if previous is not None and draft.kind == previous.kind and draft.kind in ("list", "code", "toc"):
            previous.groups += draft.groups
        else:
            drafts.append(draft)
    drafts = _join_contents(drafts)
    _lonely_numbers(drafts)
    _column_titles(drafts)
    return drafts


def _table_draft(table: Table) -> Draft:
    rows = [(row, table.words, table.page) for row in table.rows]
    return Draft("table", rows=rows, header_rows=table.header_rows, table=table)


def _begins(group: list[Line], line: Line, column: _Column, body: float) -> bool:
    """Does a new paragraph begin with this line?"""
    previous, first = group[-1], group[0]
    if line.contents or previous.contents or line.figure is not None:
        return True
    text = line.text
    larger, smaller = max(line.size, previous.size), min(line.size, previous.size)
    if larger > SIZE_CHANGE * smaller + 0.2 or line.mono != previous.mono:
        return True
    step = line.bottom - previous.bottom
    usual = column.pitch * max(1.0, line.size / body) if line.size > 1.1 * body else column.pitch
    if step > PARAGRAPH_PITCH * max(usual, 1.05 * line.size) or step < -0.5 * line.size:
        return True
    if line.mono:
        return False
    before = previous.text
    if (
        line.bold != previous.bold
        and line.size < 1.1 * body
        and not (text[:1].islower() and not _TERMINAL.search(before))
    ):
        return True
    full = previous.right > column.right - 0.12 * column.width
    if is_item(text):
        return not (text[0] == "·" and full and not _TERMINAL.search(before))  # a dot between keywords
    if is_item(first.text):
        return line.left < first.left - 2 or (
            line.left < first.left + 2
            and bool(_TERMINAL.search(before))
            and previous.right < column.right - 0.12 * column.width
        )
    indent = 0.8 * line.size
    if line.left - previous.left > indent and (full or _TERMINAL.search(before)) and not line.bold and len(text) > 1:
        return not text[:1].islower()
    if (
        len(group) > 1
        and previous.left - line.left > indent
        and _TERMINAL.search(before)
        and first.left < previous.left - indent
    ):
        return True
    if previous.right < column.right - 0.12 * column.width and _TERMINAL.search(before):
        return True
    short = previous.right < column.right - 0.35 * column.width
    return short and not line.bold and text[:1].isupper() and line.size < SIZE_CHANGE * body


def is_item(text: str) -> bool:
    return bool(_BULLET.match(text) or _NUMBERED.match(text))


def _draft(group: list[Line], body: float) -> Draft:
    first = group[0]
    if first.contents:
        return Draft("toc", [[line] for line in group])
    if first.figure is not None:
        return Draft("figure", [group])
    if all(line.mono for line in group) and (len(group) > 1 or _CODE.search(first.text)):
        return Draft("code", [group])
    if looks_like_heading(group, body):
        return Draft("heading", [group])
    if is_item(first.text):
        return Draft("list", [group])
    return Draft("text", [group])


def _join_contents(drafts: list[Draft]) -> list[Draft]:
    """A line with a page number between contents entries is one too: a chapter's title without dots."""
    joined: list[Draft] = []
    for position, draft in enumerate(drafts):
        before = joined[-1].kind if joined else ""
        after = drafts[position + 1].kind if position + 1 < len(drafts) else ""
        if draft.kind in ("text", "list", "heading") and "toc" in (before, after) and _ENTRY.match(draft.last.text):
            draft = Draft("toc", [[line] for line in draft.lines], right=draft.right)
        if draft.kind == "toc" and before == "toc":
            joined[-1].groups += draft.groups
        else:
            joined.append(draft)
    return joined


def _lonely_numbers(drafts: list[Draft]) -> None:
    """One numbered paragraph alone is text, not a list."""
    for draft in drafts:
        if draft.kind == "list" and len(draft.groups) == 1 and _NUMBERED.match(draft.first.text):
            draft.kind = "text"


def _column_titles(drafts: list[Draft]) -> None:
    """Bold words over the columns of a table ("Three Months Ended") name columns; they are no heading."""
    for draft, below in pairwise(drafts):
        if draft.kind == "heading" and below.table is not None and draft.first.left > below.table.left + 40:
            centred = abs(draft.first.left + draft.last.right - below.table.left - below.table.right) < 60
            if not centred:
                draft.kind = "text"


def _goes_on(upper: Draft, lower: Draft, new_page: bool) -> bool:
    """Does the last block of a column or page go on in the next one?"""
    if upper.kind == "table" and lower.kind == "table" and upper.table and lower.table:
        if not new_page or not same_columns(upper.table, lower.table):
            return False
        return not lower.header_rows or first_is_data(lower.table) or _same_header(upper, lower.table)
    if upper.kind not in ("text", "list") or lower.kind != "text" or upper.last.mono or lower.first.mono:
        return False
    before, after = upper.last.text, lower.first.text
    if max(upper.last.size, lower.first.size) > SIZE_CHANGE * min(upper.last.size, lower.first.size) + 0.2:
        return False
    if _TERMINAL.search(before) or upper.last.bold != lower.first.bold:
        return False
    hyphenated = before.endswith("-")
    if upper.last.right < upper.right - 4 * upper.last.size or (len(before) < 25 and not hyphenated):
        return False
    return after[:1].islower() or bool(_CJK_END.search(before) and len(upper.lines) > 1)


def _same_header(upper: Draft, lower: Table) -> bool:
    first = [" ".join(text.split()) for text in _header_of(upper)]
    return bool(first) and [" ".join(text.split()) for text in header_text(lower)] == first


def _header_of(draft: Draft) -> list[str]:
    return [" ".join(text_of(cell, words) for cell in row) for row, words, _ in draft.rows[: draft.header_rows]]


def _append(upper: Draft, lower: Draft) -> None:
    if lower.table is None:
        upper.groups[-1] += lower.groups[0]
        upper.groups += lower.groups[1:]
        return
    rows = lower.rows
    header = [" ".join(text.split()) for text in _header_of(upper)]
    start = [" ".join(row_text(lower.table, index).split()) for index in range(min(len(header), len(rows)))]
    if header and start == header:
        rows = rows[len(header) :]
    upper.rows += rows
    upper.table = lower.table
