"""DOCX: paragraphs, lists, tables (also nested), footnotes, text boxes and captioned images, in reading order.

Read from the XML itself: what a reader sees depends on tracked changes, content controls and numbering, which
python-docx passes over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from lxml import etree

from refdesk.parsers import html
from refdesk.parsers.build import (
    CAPTION,
    CAPTION_LEVEL,
    Below,
    Beside,
    Builder,
    Item,
    ParseOptions,
    Table,
    first_title,
    one_line,
    with_captions,
)
from refdesk.parsers.numbering import LEVELS, Numbering
from refdesk.parsers.office import (
    MAX_FIGURES,
    Archive,
    Element,
    as_png,
    description_of,
    main_part,
    open_office,
    parse_xml,
    properties,
    relations,
)
from refdesk.parsers.text import decode
from refdesk.types import Kind, Parsed

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
BLIP = "{http://schemas.openxmlformats.org/drawingml/2006/main}blip"
DRAWING_NAME = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}docPr"
VML_IMAGE = "{urn:schemas-microsoft-com:vml}imagedata"

# Content controls and accepted insertions are read as if they were not there.
TRANSPARENT = frozenset(f"{W}{name}" for name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag")) | {
    f"{MC}AlternateContent",
    f"{MC}Choice",
}
SKIPPED = frozenset(
    f"{W}{name}" for name in ("del", "moveFrom", "rPr", "pPr", "instrText", "delText", "rt", "sdtPr", "tblPr", "object")
)
WRITTEN = {  # elements that stand for a character: tabs, hyphens, and of formulas a fraction, a power, an index
    **{f"{W}tab": "\t", f"{W}cr": "\n", f"{W}noBreakHyphen": "-", f"{W}ptab": "\t"},
    **{f"{MATH}den": "/", f"{MATH}sup": "^", f"{MATH}sub": "_"},
}
# Characters of the fonts Wingdings and Symbol that carry meaning.
SYMBOLS = {"F0FE": "☒", "F0A8": "☐", "F06F": "☐", "F0FC": "✓", "F0B7": "•", "F0E0": "→", "F0B0": "°"}
NOTES = {f"{W}footnoteReference": "Footnote", f"{W}endnoteReference": "Endnote"}
HEADING_NAME = re.compile(r"heading\s*([1-9])", re.I)  # Word writes built-in names in English whatever its language
CONTENTS_LINE = re.compile(r"[^\t]{3,150}\t[\s.…]*(?:\d{1,4}|[ivxlc]{1,6}|[A-Z]?\d{0,2}-\d{1,3})", re.I)
MAX_BASES = 20  # styles that build on one another; a circle ends here
MAX_SPAN = 100  # columns a cell may claim


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """A Word document; every heading of level 1 opens a page."""
    archive = open_office(data, options)
    reader = _BodyReader(archive)
    reader.read(reader.body)
    items = with_captions(reader.items)
    builder = Builder()
    builder.write(items)
    title, metadata = properties(archive)
    return builder.build("docx", title=title or reader.title or first_title(items), metadata=metadata)


@dataclass(slots=True)
class Inline:
    """What one paragraph holds, with all tracked changes accepted."""

    text: str = ""
    notes: list[tuple[str, str]] = field(default_factory=list)  # (kind, id)
    boxes: list[Element] = field(default_factory=list)
    pictures: list[tuple[str, str]] = field(default_factory=list)  # (relation, description)


class _BodyReader:
    """Walks the body and gathers items; consecutive list items and contents lines are gathered into one."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        main = main_part(archive, "word/document.xml")
        self.relations = relations(archive, main)
        root = parse_xml(archive.read(main))
        self.body = next(root.iter(f"{W}body"), root)
        self.styles = _read_styles(self._related("styles"))
        self.numbering = _read_numbering(self._related("numbering"))
        self.note_texts = {"Footnote": self._notes("footnotes"), "Endnote": self._notes("endnotes")}
        self.note_numbers = {"Footnote": 0, "Endnote": 0}
        self.items: list[Item] = []
        self.title = ""
        self.gathered: list[str] = []
        self.gathered_kind = ""
        self.waiting: list[Item] = []  # notes and text boxes of the list or table under way
        self.figures = 0

    def read(self, container: Element) -> None:
        for element in _children(container, "p", "tbl", "altChunk"):
            if element.tag == f"{W}p":
                self._paragraph(element)
            elif element.tag == f"{W}tbl":
                self._table(element)
            else:
                self._web_page(element)
        self._close()

    def _paragraph(self, paragraph: Element) -> None:
        inline = _inline_of(paragraph)
        inherited = self._style_chain(paragraph)
        name = inherited[0].name.lower() if inherited else ""
        text = inline.text.strip()
        level = _heading_level(paragraph, inherited) if text else 0
        place = _list_place(paragraph, inherited) if text else None
        if level:
            self._close()
            label = self.numbering.label(*place) if place else None
            if name == "title":
                self.title = self.title or text
            self.items.append(Item("heading", f"{label} {text}" if label and label != "-" else text, level=level))
        elif (is_contents := name.startswith("toc ") or name == "table of figures") or CONTENTS_LINE.fullmatch(text):
            self._gather("toc" if is_contents else "perhaps toc", re.sub(r"(?<!\s)(?=\s*\t)\s+", " … ", text))
        elif place or name.startswith(("list bullet", "list number")):
            number, depth = place or ("", 0)
            label = self.numbering.label(number, depth) or "-"
            self._gather("list", "  " * depth + f"{label} " + one_line(text))
        elif text:
            self._close()
            text = re.sub(r"[ \t\xa0]+", " ", text)
            is_caption = (name == "caption" or CAPTION.match(text) is not None) and len(text) < 500
            self.items.append(Item("text", text, level=CAPTION_LEVEL if is_caption else 0))
        self._beside(inline)

    def _web_page(self, chunk: Element) -> None:
        """A web page put into the document whole, as report generators do."""
        data = self._part(chunk.get(f"{RELATION}id") or "")
        if b"<html" in data[:4096].lower() or b"<body" in data[:4096].lower():
            self._close()
            root, complete = html.read_tree(decode(data))
            self.items.extend(html.items_of(root) if complete else [])

    def _beside(self, inline: Inline) -> None:
        """Pictures, text boxes and notes of a paragraph follow it."""
        beside: list[Item] = []
        for relation, description in inline.pictures:
            image = as_png(self._part(relation)) if self.figures < MAX_FIGURES else None
            if image is not None:
                self.figures += 1
                beside.append(Item("figure", description, image=image))
        for box in inline.boxes:
            beside.extend(self._inside(box))
        for kind, identity in inline.notes:
            if text := self.note_texts[kind].get(identity, ""):
                self.note_numbers[kind] += 1
                beside.append(Item("text", f"{kind} {self.note_numbers[kind]}: {text}"))
        (self.waiting if self.gathered else self.items).extend(beside)

    def _inside(self, container: Element) -> list[Item]:
        """The items of a text box, read as a small document of its own."""
        outer = self.items, self.gathered, self.gathered_kind, self.waiting
        self.items, self.gathered, self.gathered_kind, self.waiting = [], [], "", []
        self.read(container)
        inner = self.items
        self.items, self.gathered, self.gathered_kind, self.waiting = outer
        # A heading inside a box is a call-out; it must not open a section of the document.
        return [replace(item, kind="text", level=0) if item.kind == "heading" else item for item in inner]

    def _table(self, table: Element) -> None:
        self._close()
        grid = [(row, list(_children(row, "tc"))) for row in _rows(table)]
        if all(len(cells) <= 1 for _, cells in grid):  # a frame around text
            for cell in [cell for _, cells in grid for cell in cells]:
                self.read(cell)
            return
        beside = Inline()
        rows: list[list[str]] = []
        header_rows = 0
        for row, _ in grid:
            texts = self._row(row, beside, rows[-1] if rows else [])
            if any(texts):
                if row.find(f"{W}trPr/{W}tblHeader") is not None and header_rows == len(rows):
                    header_rows += 1
                rows.append(texts)
        if rows:
            self.items.append(Item("table", table=Table.of(rows, header_rows)))
        self._beside(beside)

    def _row(self, row: Element, beside: Inline, above: list[str]) -> list[str]:
        """The cells of a row in grid columns; a merged cell is read in its first place and repeated below it."""
        texts = [""] * min(_whole(_value(row.find(f"{W}trPr/{W}gridBefore"))), MAX_SPAN)
        for cell in _children(row, "tc"):
            vertical, horizontal = cell.find(f"{W}tcPr/{W}vMerge"), cell.find(f"{W}tcPr/{W}hMerge")
            if vertical is not None and _value(vertical) in ("", "continue"):
                texts.append(Below.of(above[len(texts)] if len(texts) < len(above) else ""))
            elif horizontal is not None and _value(horizontal) in ("", "continue"):
                texts.append(Beside())
            else:
                texts.append(self._cell(cell, beside))
            width = min(_whole(_value(cell.find(f"{W}tcPr/{W}gridSpan")), 1), MAX_SPAN)
            texts.extend([Beside()] * (width - 1))
        return texts

    def _cell(self, cell: Element, beside: Inline) -> str:
        """The text of a cell; a table inside it is written in place as "a, b; c, d"."""
        parts: list[str] = []
        for element in _children(cell, "p", "tbl"):
            if element.tag == f"{W}tbl":
                rows = [[text for text in self._row(row, beside, []) if text] for row in _rows(element)]
                parts.append("; ".join(", ".join(row) for row in rows if row))
                continue
            inline = _inline_of(element)
            text = one_line(inline.text)
            place = _list_place(element, self._style_chain(element)) if text else None
            label = self.numbering.label(*place) if place else ""
            parts.append(f"{label} {text}" if label else text)
            beside.notes.extend(inline.notes)
            beside.boxes.extend(inline.boxes)
        return " ".join(part for part in parts if part)

    def _gather(self, kind: str, line: str) -> None:
        if self.gathered_kind != kind:
            self._close()
        self.gathered_kind = kind
        if line:
            self.gathered.append(line)

    def _close(self) -> None:
        if self.gathered:
            self.items.append(Item(_gathered_kind(self.gathered_kind, self.gathered), "\n".join(self.gathered)))
        self.items.extend(self.waiting)
        self.gathered, self.gathered_kind, self.waiting = [], "", []

    def _style_chain(self, paragraph: Element) -> list[Style]:
        """The style of a paragraph and those it builds on, nearest first."""
        chain: list[Style] = []
        style_id = _value(paragraph.find(f"{W}pPr/{W}pStyle"))
        while style_id in self.styles and len(chain) < MAX_BASES:
            chain.append(self.styles[style_id])
            style_id = chain[-1].base
        return chain

    def _part(self, relation: str) -> bytes:
        _, part = self.relations.get(relation, ("", ""))
        return self.archive.read(part) if part and self.archive.has(part) else b""

    def _related(self, kind: str) -> Element:
        """The root of the first part of this kind; an empty element where there is none."""
        key = next((key for key, (name, _) in self.relations.items() if name.endswith(f"/{kind}")), "")
        data = self._part(key)
        return parse_xml(data) if data else etree.Element("nothing")

    def _notes(self, kind: str) -> dict[str, str]:
        texts = {}
        for note in self._related(kind).iter(f"{W}footnote", f"{W}endnote"):
            if note.get(f"{W}type") not in ("separator", "continuationSeparator", "continuationNotice"):
                paragraphs = [one_line(_inline_of(paragraph).text) for paragraph in note.iter(f"{W}p")]
                texts[note.get(f"{W}id") or ""] = " ".join(text for text in paragraphs if text)
        return texts


def _gathered_kind(kind: str, lines: list[str]) -> Kind:
    """Lines that end in a number are contents when there are some and the numbers rise; else tabbed text."""
    if kind != "perhaps toc":
        return "toc" if kind == "toc" else "list"
    numbers = [int(line.rsplit(" ", 1)[-1]) for line in lines if line.rsplit(" ", 1)[-1].isdecimal()]
    return "toc" if len(lines) >= 5 and len(set(numbers)) > 1 and numbers == sorted(numbers) else "text"


# --- what an element holds -------------------------------------------------------------------------------------------


def _children(container: Element, *names: str) -> Iterator[Element]:
    """The children of these names in order, through content controls and tracked insertions, without deletions."""
    tags = [f"{W}{name}" for name in names]
    for element in container.iterchildren():
        if element.tag in tags:
            yield element
        elif element.tag in TRANSPARENT:
            yield from _children(element, *names)


def _rows(table: Element) -> list[Element]:
    return [row for row in _children(table, "tr") if row.find(f"{W}trPr/{W}del") is None]


def _inline_of(paragraph: Element) -> Inline:
    """The text of a paragraph as a reader sees it with all changes accepted, and what hangs on it."""
    inline = Inline()
    parts: list[str] = []
    description = ""
    walker = etree.iterwalk(paragraph, events=("start",))
    for _, element in walker:
        tag = element.tag
        if tag in (f"{W}t", f"{MATH}t"):
            parts.append(element.text or "")
        elif tag in WRITTEN:
            parts.append(WRITTEN[tag])
        elif tag == f"{W}sym":
            parts.append(SYMBOLS.get((element.get(f"{W}char") or "").upper(), ""))
        elif tag == f"{W}br":
            parts.append("\n" if element.get(f"{W}type") in (None, "textWrapping") else " ")
        elif tag in NOTES:
            inline.notes.append((NOTES[tag], element.get(f"{W}id") or ""))
        elif tag == f"{W}txbxContent":
            inline.boxes.append(element)
            walker.skip_subtree()
        elif tag == DRAWING_NAME:
            description = element.get("descr") or ""
        elif tag in (BLIP, VML_IMAGE):
            relation = element.get(f"{RELATION}embed") or element.get(f"{RELATION}id") or ""
            inline.pictures.append((relation, description_of(description)))
        elif tag in SKIPPED or (tag == f"{MC}Fallback" and element.getprevious() is not None) or _is_hidden(element):
            walker.skip_subtree()
    inline.text = "".join(parts)
    return inline


def _is_hidden(element: Element) -> bool:
    mark = element.find(f"{W}rPr/{W}vanish") if element.tag == f"{W}r" else None
    return mark is not None and _value(mark) not in ("0", "false", "off")


def _value(element: Element | None) -> str:
    return "" if element is None else element.get(f"{W}val") or ""


def _whole(text: str | None, otherwise: int = 0) -> int:
    return int(text) if text and text.isdigit() and len(text) < 10 else otherwise


# --- what a paragraph's style makes of it ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Style:
    """What a style says about itself and, through `base`, what it inherits."""

    name: str
    base: str
    outline: int | None
    number: str | None
    depth: int | None


def _read_styles(root: Element) -> dict[str, Style]:
    styles = {}
    for style in root.iter(f"{W}style"):
        outline = style.find(f"{W}pPr/{W}outlineLvl")
        number, depth = _numbered(style)
        styles[style.get(f"{W}styleId") or ""] = Style(
            _value(style.find(f"{W}name")).strip(),
            _value(style.find(f"{W}basedOn")),
            None if outline is None else _whole(_value(outline)),
            number,
            depth,
        )
    return styles


def _numbered(element: Element) -> tuple[str | None, int | None]:
    """The list and the depth that a paragraph or a style names; None for what it leaves to its base."""
    number, depth = element.find(f"{W}pPr/{W}numPr/{W}numId"), element.find(f"{W}pPr/{W}numPr/{W}ilvl")
    return None if number is None else _value(number), None if depth is None else _whole(_value(depth))


def _read_numbering(root: Element) -> Numbering:
    levels: dict[str, dict[int, tuple[str, str, int]]] = {}
    lists: dict[str, tuple[str, dict[int, int]]] = {}
    linked: dict[str, str] = {}  # name of a list style -> its abstract list
    wanted: dict[str, str] = {}
    for abstract in root.iter(f"{W}abstractNum"):
        key = abstract.get(f"{W}abstractNumId") or ""
        if link := _value(abstract.find(f"{W}styleLink")):
            linked[link] = key
        if link := _value(abstract.find(f"{W}numStyleLink")):
            wanted[key] = link
        levels[key] = {
            min(_whole(level.get(f"{W}ilvl")), LEVELS - 1): (
                _value(level.find(f"{W}numFmt")) or "decimal",
                _value(level.find(f"{W}lvlText")),
                _whole(_value(level.find(f"{W}start")), 1),
            )
            for level in abstract.iterchildren(f"{W}lvl")
        }
    for item in root.iter(f"{W}num"):
        key = _value(item.find(f"{W}abstractNumId"))
        overrides = {
            min(_whole(override.get(f"{W}ilvl")), LEVELS - 1): _whole(_value(start), 1)
            for override in item.iterchildren(f"{W}lvlOverride")
            if (start := override.find(f"{W}startOverride")) is not None
        }
        lists[item.get(f"{W}numId") or ""] = (linked.get(wanted.get(key, ""), key), overrides)
    return Numbering(levels, lists)


def _heading_level(paragraph: Element, inherited: list[Style]) -> int:
    """1 to 9, 0 for what is no heading: by outline level, then by the name of the style."""
    outline_level = paragraph.find(f"{W}pPr/{W}outlineLvl")
    if outline_level is not None:
        level = _whole(_value(outline_level), LEVELS) + 1
        return level if level <= LEVELS else 0
    for style in inherited:
        if name := HEADING_NAME.fullmatch(style.name):
            return int(name.group(1))
        if style.outline is not None:
            return style.outline + 1 if style.outline < LEVELS else 0
    return 1 if inherited and inherited[0].name.lower() == "title" else 0


def _list_place(paragraph: Element, inherited: list[Style]) -> tuple[str, int] | None:
    """(list, depth) of a list item, None for other paragraphs; list "0" switches numbering off."""
    number, depth = _numbered(paragraph)
    for style in inherited:
        number = style.number if number is None else number
        depth = style.depth if depth is None else depth
    if number is None or number == "0":
        return None
    return number, max(0, min(depth or 0, LEVELS - 1))
