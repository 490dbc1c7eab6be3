"""ODT, as LibreOffice writes it: headings, lists, tables, notes, boxes and figures, in the shape of DOCX."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from urllib.parse import unquote

from refdesk.parsers.build import (
    CAPTION,
    CAPTION_LEVEL,
    Below,
    Beside,
    Builder,
    Item,
    ParseOptions,
    Table,
    contents_line,
    first_title,
    one_line,
    with_captions,
)
from refdesk.parsers.numbering import LEVELS, Numbering
from refdesk.parsers.office import MAX_FIGURES, Archive, Element, as_png, description_of, parse_xml
from refdesk.parsers.opendocument import (
    DRAW,
    HREF,
    OFFICE,
    SKIPPED,
    STYLE,
    SVG,
    TABLE,
    Inline,
    T,
    described,
    inline_of,
    open_package,
    plain_text,
    whole,
)
from refdesk.types import Parsed

CONTENTS = (f"{T}table-of-content", f"{T}illustration-index", f"{T}table-index", f"{T}alphabetical-index")
NUMBER_FORMATS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
HEADING_NAME = re.compile(r"heading(?:_20_| )?([1-9])", re.I)
CODE_NAME = re.compile(r"preformatted(?:_20_| )text|source(?:_20_| )?code", re.I)
OUTLINE = ""  # the name of the list that numbers headings
LENGTH = re.compile(r"(-?\d+(?:\.\d+)?)(cm|mm|in|pt|px)?")
IN_MM = {"cm": 10.0, "mm": 1.0, "in": 25.4, "pt": 0.353, "px": 0.265}
ROW_HEIGHT = 10.0  # mm: shapes whose tops differ by less stand side by side
MAX_SPAN = 100  # columns a cell of a text may claim
MAX_BASES = 20  # styles that build on one another; a circle ends here


def parse_odt(data: bytes, options: ParseOptions) -> Parsed:
    """A text; every heading of level 1 opens a page."""
    archive = open_package(data, options)
    reader = TextReader(archive)
    items = reader.whole()
    builder = Builder()
    builder.write(items)
    title, metadata = described(archive)
    return builder.build("odt", title=title or reader.title or first_title(items), metadata=metadata)


class TextReader:
    """Walks a text and gathers items; lines of code that follow one another are gathered into one."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        root = parse_xml(archive.read("content.xml"))
        self.body = next((child for body in root.iterchildren(f"{OFFICE}body") for child in body), root)
        self.parents: dict[str, str] = {}
        self.numbering = Numbering({}, {})
        roots = [parse_xml(archive.read("styles.xml")), root] if archive.has("styles.xml") else [root]
        for styles in roots:
            self._learn(styles)
        self.items: list[Item] = []
        self.code: list[str] = []
        self.title = ""
        self.notes = {"Footnote": 0, "Endnote": 0}
        self.figures = 0

    def _learn(self, root: Element) -> None:
        """Which style builds on which, and how lists and headings are numbered."""
        for style in root.iter(f"{STYLE}style"):
            self.parents[style.get(f"{STYLE}name") or ""] = style.get(f"{STYLE}parent-style-name") or ""
        for style in root.iter(f"{T}list-style", f"{T}outline-style"):
            name = (style.get(f"{STYLE}name") or "") if style.tag == f"{T}list-style" else OUTLINE
            levels = {}
            for level in style:
                depth = min(whole(level.get(f"{T}level"), 1), LEVELS) - 1
                form = level.get(f"{STYLE}num-format")
                kind = "none" if form == "" else NUMBER_FORMATS.get(form or "", "decimal" if form else "bullet")
                shown = min(whole(level.get(f"{T}display-levels"), 1), depth + 1)
                counts = ".".join(f"%{place}" for place in range(depth + 2 - shown, depth + 2))
                around = [level.get(f"{STYLE}num-{end}") or "" for end in ("prefix", "suffix")]
                start = whole(level.get(f"{T}start-value"), 1)
                levels[depth] = (kind, around[0] + counts + around[1], start)
            self.numbering.levels[name], self.numbering.lists[name] = levels, (name, {})

    def whole(self) -> list[Item]:
        """The items of the body; a list of a single line is text."""
        self.read(self.body)
        return with_captions(_tidied(self.items))

    def inside(self, elements: Iterable[Element]) -> list[Item]:
        """The items of boxes, read as small texts of their own."""
        outer = self.items, self.code
        self.items, self.code = [], []
        for element in elements:
            self._shape(element)
        self._close()
        inner = self.items
        self.items, self.code = outer
        # A heading inside a box is a call-out; it must not open a section of the document.
        return [replace(item, kind="text", level=0) if item.kind == "heading" else item for item in _tidied(inner)]

    def read(self, container: Element) -> None:
        for element in container:
            tag = element.tag
            if tag == f"{T}p" and CODE_NAME.fullmatch(self._style(element)):
                self.code.append(inline_of(element).text)
                continue
            if tag in (f"{T}p", f"{T}h"):
                self._close()
                self._paragraph(element)
            elif tag == f"{T}list":
                self._close()
                self._list(element)
            elif tag == f"{TABLE}table":
                self._close()
                self._table(element)
            elif tag in CONTENTS:
                self._close()
                self.items.append(Item("toc", "\n".join(map(contents_line, plain_text(element).split("\n")))))
            elif isinstance(tag, str) and tag.startswith(DRAW):
                self._close()
                self.items.extend(self.inside([element]))
            elif tag not in SKIPPED:  # a section
                self.read(element)
        self._close()

    def _close(self) -> None:
        if any(map(str.strip, self.code)):
            self.items.append(Item("code", "\n".join(self.code)))
        self.code = []

    def _style(self, paragraph: Element) -> str:
        """The name of the first style, of its own and those it builds on, that a person could have chosen."""
        name = paragraph.get(f"{T}style-name") or ""
        for _ in range(MAX_BASES):
            if not self.parents.get(name) or not re.fullmatch(r"P\d+|[A-Z]+\d+", name):
                break
            name = self.parents[name]
        return name

    def _paragraph(self, element: Element, label: str | None = None) -> None:
        inline = inline_of(element)
        text, name = one_line(inline.text), self._style(element)
        named = HEADING_NAME.fullmatch(name)
        if not text:
            pass
        elif element.tag == f"{T}h" or named or name == "Title":
            is_outline = element.tag == f"{T}h"
            level = whole(element.get(f"{T}outline-level"), 1) if is_outline else int(named.group(1)) if named else 1
            if name == "Title":
                self.title = self.title or text
            elif is_outline and label is None and element.get(f"{T}is-list-header") != "true":
                label = self.numbering.label(OUTLINE, min(level, LEVELS) - 1)
            self.items.append(Item("heading", f"{label} {text}" if label and label != "-" else text, level=level))
        else:
            is_caption = CAPTION.match(text) is not None and len(text) < 500
            text = re.sub(r"[ \t]+", " ", inline.text.strip())
            self.items.append(Item("text", text, level=CAPTION_LEVEL if is_caption else 0))
        self._beside(inline)

    def _beside(self, inline: Inline) -> None:
        """Pictures, boxes and notes of a paragraph follow it."""
        self.items.extend(self.inside(inline.shapes))
        for note in inline.notes:
            kind = "Endnote" if note.get(f"{T}note-class") == "endnote" else "Footnote"
            if text := one_line(plain_text(note)):
                self.notes[kind] += 1
                self.items.append(Item("text", f"{kind} {self.notes[kind]}: {text}"))

    # lists

    def _list(self, element: Element) -> None:
        """The items of a list, those of lists in it indented; a numbered heading that is kept in one is a heading."""
        style = element.get(f"{T}style-name") or ""
        previous = element.getprevious()
        goes_on = previous is not None and previous.tag == f"{T}list" and self._is_list()
        if element.get(f"{T}continue-numbering") != "true" and not element.get(f"{T}continue-list"):
            self.numbering.counters.pop(style, None)
        lines: list[str] = [self.items.pop().text] if goes_on else []
        beside: list[Inline] = []
        for depth, label, paragraph in self._entries(element, style, 0):
            if paragraph.tag == f"{T}h":
                self._end_list(lines, beside)
                lines, beside = [], []
                self._paragraph(paragraph, label)
                continue
            inline = inline_of(paragraph)
            if text := one_line(inline.text):
                lines.append("  " * depth + (f"{label} " if label else "  " if lines else "") + text)
            beside.append(inline)
        self._end_list(lines, beside)

    def _is_list(self) -> bool:
        return bool(self.items) and self.items[-1].kind == "list"

    def _end_list(self, lines: list[str], beside: list[Inline]) -> None:
        if lines:
            self.items.append(Item("list", "\n".join(lines)))
        for inline in beside:
            self._beside(inline)

    def _entries(self, element: Element, style: str, depth: int) -> Iterator[tuple[int, str, Element]]:
        """(depth, label, paragraph); paragraphs after the first of an item have no label."""
        for entry in element.iterchildren(f"{T}list-item", f"{T}list-header"):
            label = ""
            is_first = entry.tag == f"{T}list-item"
            for child in entry:
                if child.tag == f"{T}list":
                    yield from self._entries(child, child.get(f"{T}style-name") or style, depth + 1)
                elif child.tag in (f"{T}p", f"{T}h"):
                    if is_first:
                        label = self.numbering.label(style, min(depth, LEVELS - 1)) or "-"
                    yield depth, label if is_first else "", child
                    is_first = False

    # tables

    def _table(self, table: Element) -> None:
        beside = Inline()
        rows: list[list[str]] = []
        open_spans: dict[int, int] = {}  # column -> rows still covered from above
        header_rows = 0
        entries = list(_rows(table))
        if all(len(list(row.iterchildren(f"{TABLE}table-cell"))) <= 1 for row in entries):  # a frame around text
            for cell in (cell for row in entries for cell in row.iterchildren(f"{TABLE}table-cell")):
                self.read(cell)
            return
        for row in entries:
            texts = self._row(row, beside, rows[-1] if rows else [], open_spans)
            if any(texts):
                if row.getparent().tag == f"{TABLE}table-header-rows" and header_rows == len(rows):
                    header_rows += 1
                rows.append(texts)
        if rows:
            self.items.append(Item("table", table=Table.of(rows, header_rows)))
        self._beside(beside)

    def _row(self, row: Element, beside: Inline, above: list[str], open_spans: dict[int, int]) -> list[str]:
        """A merged cell is read in its first place and repeated below it."""
        texts: list[str] = []
        for cell in row.iterchildren(f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
            for _ in range(min(whole(cell.get(f"{TABLE}number-columns-repeated"), 1), MAX_SPAN)):
                column = len(texts)
                if cell.tag == f"{TABLE}table-cell":
                    texts.append(self._cell(cell, beside))
                    open_spans[column] = whole(cell.get(f"{TABLE}number-rows-spanned"), 1) - 1
                elif open_spans.get(column, 0) > 0:
                    open_spans[column] -= 1
                    texts.append(Below.of(above[column] if column < len(above) else ""))
                else:
                    texts.append(Beside())
        return texts

    def _cell(self, cell: Element, beside: Inline) -> str:
        """The text of a cell; a table inside it is written in place as "a, b; c, d"."""
        parts: list[str] = []
        for element in cell:
            if element.tag == f"{TABLE}table":
                rows = [[text for text in self._row(row, beside, [], {}) if text] for row in _rows(element)]
                parts.append("; ".join(", ".join(row) for row in rows if row))
            elif element.tag == f"{T}list":
                entries = self._entries(element, element.get(f"{T}style-name") or "", 0)
                parts.extend(f"{label} {one_line(inline_of(entry).text)}".strip() for _, label, entry in entries)
            elif element.tag in (f"{T}p", f"{T}h"):
                inline = inline_of(element)
                parts.append(one_line(inline.text))
                beside.notes.extend(inline.notes)
                beside.shapes.extend(inline.shapes)
        return " ".join(filter(None, parts))

    # shapes

    def _shape(self, shape: Element) -> None:
        """What a frame holds, as the first of its children that can be read: a text, a table, a chart or a picture."""
        if shape.tag == f"{DRAW}g":
            for inner in sorted(shape, key=place):
                self._shape(inner)
            return
        if shape.tag != f"{DRAW}frame":
            self.read(shape)
            return
        for content in shape:
            if content.tag == f"{DRAW}text-box":
                self.read(content)
            elif content.tag == f"{TABLE}table":
                self._table(content)
            elif content.tag == f"{DRAW}object" and (found := list(self._object(content))):
                self.items.extend(found)
            elif content.tag == f"{DRAW}image":
                self._picture(shape, content)
            else:
                continue
            return

    def _picture(self, frame: Element, image: Element) -> None:
        said = " ".join(filter(None, (frame.findtext(f"{SVG}{name}") for name in ("title", "desc"))))
        name = unquote(image.get(HREF) or "")
        png = as_png(self.archive.read(name)) if self.figures < MAX_FIGURES and self.archive.has(name) else None
        if png is not None:
            self.figures += 1
            self.items.append(Item("figure", description_of(said), image=png))

    def _object(self, link: Element) -> Iterator[Item]:
        """A chart as the table of its figures, a formula as it was typed."""
        part = posixpath.join(posixpath.normpath(unquote(link.get(HREF) or "")), "content.xml")
        if not self.archive.has(part):
            return
        root = parse_xml(self.archive.read(part), recover=True)
        typed = one_line(" ".join(element.text or "" for element in root.iter("{*}annotation")))
        if root.tag.endswith("}math") and typed:
            yield Item("text", typed)
        for chart in root.iter("{*}chart"):
            titles = [plain_text(title) for title in chart.iterchildren("{*}title")]
            if title := one_line(" ".join(titles)):
                yield Item("text", f"Chart: {title}")
            for table in chart.iterchildren(f"{TABLE}table"):
                yield Item("table", table=Table.of([self._row(row, Inline(), [], {}) for row in _rows(table)], 1))


def _tidied(items: list[Item]) -> list[Item]:
    alone = [item.kind == "list" and "\n" not in item.text for item in items]
    return [
        replace(item, kind="text", text=item.text.removeprefix("- ")) if is_alone else item
        for item, is_alone in zip(items, alone, strict=True)
    ]


def _rows(table: Element) -> Iterator[Element]:
    """The rows of a table, in groups or not."""
    for element in table:
        if element.tag == f"{TABLE}table-row":
            yield element
        elif element.tag in (f"{TABLE}table-header-rows", f"{TABLE}table-rows", f"{TABLE}table-row-group"):
            yield from _rows(element)


def place(shape: Element) -> tuple[bool, float, float]:
    """For reading order: rows from the top, each from the left; shapes without a place come last."""
    x, y = (LENGTH.match(shape.get(f"{SVG}{name}") or "") for name in ("x", "y"))
    if x is None or y is None:
        return True, 0.0, 0.0
    return False, _mm(y) // ROW_HEIGHT, _mm(x)


def _mm(length: re.Match[str]) -> float:
    return float(length.group(1)) * IN_MM.get(length.group(2) or "mm", 1.0)
