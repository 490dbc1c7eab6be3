"""DOCX: paragraphs, lists, tables (also nested), footnotes, text boxes and captioned pictures in true order.

Read from the XML itself: what a reader sees depends on tracked changes, content controls and numbering, which
python-docx passes over.
"""

from __future__ import annotations

import re
from dataclasses import replace

from refdesk.parsers import html
from refdesk.parsers.build import Builder, Item, ParseOptions, guess_header_rows, tidy_rows, write
from refdesk.parsers.docx_parts import (
    RELATION,
    Inline,
    W,
    body_blocks,
    chain,
    heading_level,
    inline_of,
    list_place,
    read_numbering,
    read_styles,
    row_cells,
    table_rows,
    value,
    whole,
)
from refdesk.parsers.office import Archive, Element, as_png, main_part, open_office, parse_xml, properties, relations
from refdesk.parsers.text import decode
from refdesk.types import Kind, Parsed

CAPTION = re.compile(r"(?:fig(?:ure|\.)?|abb(?:ildung|\.)?|figura|рис(?:унок|\.)?|図|图)\s*\d", re.I)
CAPTION_LEVEL = -1  # the level of a caption until its picture is found
CONTENTS_LINE = re.compile(r"[^\t]{3,150}\t[\s.…]*(?:\d{1,4}|[ivxlc]{1,6}|[A-Z]?\d{0,2}-\d{1,3})", re.I)
MAX_FIGURES = 200


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """A Word document; every heading of level 1 opens a page."""
    archive, _ = open_office(data, options)
    reader = _Reader(archive)
    reader.read(reader.body)
    items = _with_captions(reader.items)
    builder = Builder()
    write(builder, items)
    title, metadata = properties(archive)
    title = (
        title or reader.title or next((item.text for item in items if item.kind == "heading" and item.level == 1), "")
    )
    return builder.build("docx", title=title, metadata=metadata)


class _Reader:
    """Walks the body and gathers items; consecutive list items and contents lines are gathered into one."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        main = main_part(archive, "word/document.xml")
        self.relations = relations(archive, main)
        root = parse_xml(archive.read(main))
        self.body = next(root.iter(f"{W}body"), root)
        self.styles = read_styles(self._related("styles"))
        self.numbering = read_numbering(self._related("numbering"))
        self.note_texts = {"Footnote": self._notes("footnotes"), "Endnote": self._notes("endnotes")}
        self.note_numbers = {"Footnote": 0, "Endnote": 0}
        self.items: list[Item] = []
        self.title = ""
        self.gathered: list[str] = []
        self.gathered_kind: str = ""
        self.waiting: list[Item] = []  # notes and text boxes of the list or table under way
        self.figures = 0

    def read(self, container: Element) -> None:
        for element in body_blocks(container):
            if element.tag == f"{W}p":
                self._paragraph(element)
            elif element.tag == f"{W}altChunk":
                self._web_page(element)
            else:
                self._table(element)
        self._close()

    def _paragraph(self, paragraph: Element) -> None:
        inline = inline_of(paragraph)
        inherited = chain(self.styles, value(paragraph.find(f"{W}pPr/{W}pStyle")))
        name = inherited[0].name.lower() if inherited else ""
        text = inline.text.strip()
        level = heading_level(paragraph, inherited) if text else 0
        place = list_place(paragraph, inherited) if text else None
        if level:
            self._close()
            label = self.numbering.label(*place) if place else None
            heading = f"{label} {text}" if label and label != "-" else text
            if name == "title":
                self.title = self.title or text
            self.items.append(Item("heading", heading, level=level))
        elif name.startswith("toc ") or name == "table of figures":
            self._gather("toc", re.sub(r"(?<!\s)(?=\s*\t)\s+", " … ", text))
        elif CONTENTS_LINE.fullmatch(text):
            self._gather("perhaps toc", re.sub(r"(?<!\s)(?=\s*\t)\s+", " … ", text))
        elif place or name.startswith(("list bullet", "list number")):
            self._gather("list", self._list_line(text, place))
        elif text:
            self._close()
            text = re.sub(r"[ \t\xa0]+", " ", text)
            self.items.append(Item("text", text, level=CAPTION_LEVEL if _is_caption(name, text) else 0))
        self._beside(inline)

    def _web_page(self, chunk: Element) -> None:
        """A web page put into the document whole, as report generators do."""
        _, part = self.relations.get(chunk.get(f"{RELATION}id") or "", ("", ""))
        data = self.archive.read(part) if part and self.archive.has(part) else b""
        if b"<html" in data[:4096].lower() or b"<body" in data[:4096].lower():
            self._close()
            root, complete = html.read_tree(decode(data))
            self.items.extend(html.items_of(root) if complete else [])

    def _list_line(self, text: str, place: tuple[str, int] | None) -> str:
        label = self.numbering.label(*place) if place else "-"
        depth = place[1] if place else 0
        return "  " * depth + f"{label or '-'} " + " ".join(text.split())

    def _beside(self, inline: Inline) -> None:
        """Pictures, text boxes and notes of a paragraph follow it."""
        found: list[Item] = []
        for relation, description in inline.pictures:
            if image := self._picture(relation):
                found.append(Item("figure", description, image=image))
        for box in inline.boxes:
            inner = self._inside(box)
            found.extend(inner)
        for kind, identity in inline.notes:
            if text := self.note_texts[kind].get(identity, ""):
                self.note_numbers[kind] += 1
                found.append(Item("text", f"{kind} {self.note_numbers[kind]}: {text}"))
        if self.gathered:
            self.waiting.extend(found)
        else:
            self.items.extend(found)

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
        cells = [cell for row in table_rows(table) for cell in row_cells(row)]
        if len(cells) == 1 or (cells and all(sum(1 for _ in row_cells(row)) == 1 for row in table_rows(table))):
            for cell in cells:
                self.read(cell)
            return
        beside = Inline()
        rows: list[list[str]] = []
        header_rows = 0
        for row in table_rows(table):
            texts = self._row(row, beside)
            if any(texts):
                if row.find(f"{W}trPr/{W}tblHeader") is not None and header_rows == len(rows):
                    header_rows += 1
                rows.append(texts)
        rows = tidy_rows(rows)
        if rows:
            self.items.append(Item("table", rows=rows, header_rows=header_rows or guess_header_rows(rows)))
        beside.pictures = []
        self._beside(beside)

    def _row(self, row: Element, beside: Inline) -> list[str]:
        """The cells of a row in grid columns; a merged cell is read once, in its first place."""
        texts = [""] * min(whole(value(row.find(f"{W}trPr/{W}gridBefore"))), 100)
        for cell in row_cells(row):
            merge = cell.find(f"{W}tcPr/{W}vMerge")
            horizontal = cell.find(f"{W}tcPr/{W}hMerge")
            goes_on = any(part is not None and value(part) in ("", "continue") for part in (merge, horizontal))
            texts.append("" if goes_on else self._cell(cell, beside))
            width = min(whole(value(cell.find(f"{W}tcPr/{W}gridSpan")), 1), 100)
            texts.extend([""] * (width - 1))
        return texts

    def _cell(self, cell: Element, beside: Inline) -> str:
        """The text of a cell; a table inside it is written in place as "a, b; c, d"."""
        parts: list[str] = []
        for element in body_blocks(cell):
            if element.tag == f"{W}altChunk":
                continue
            if element.tag == f"{W}tbl":
                rows = [[text for text in self._row(row, beside) if text] for row in table_rows(element)]
                parts.append("; ".join(", ".join(row) for row in rows if row))
                continue
            inline = inline_of(element)
            text = " ".join(inline.text.split())
            place = list_place(element, chain(self.styles, value(element.find(f"{W}pPr/{W}pStyle")))) if text else None
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

    def _related(self, kind: str) -> Element | None:
        part = next((part for found, part in self.relations.values() if found.endswith(f"/{kind}")), "")
        return parse_xml(self.archive.read(part)) if part and self.archive.has(part) else None

    def _notes(self, kind: str) -> dict[str, str]:
        root = self._related(kind)
        if root is None:
            return {}
        texts = {}
        for note in root.iter(f"{W}footnote", f"{W}endnote"):
            if note.get(f"{W}type") in ("separator", "continuationSeparator", "continuationNotice"):
                continue
            paragraphs = [" ".join(inline_of(paragraph).text.split()) for paragraph in note.iter(f"{W}p")]
            texts[note.get(f"{W}id") or ""] = " ".join(text for text in paragraphs if text)
        return texts

    def _picture(self, relation: str) -> bytes | None:
        _, part = self.relations.get(relation, ("", ""))
        if not part or not self.archive.has(part) or self.figures >= MAX_FIGURES:
            return None
        image = as_png(self.archive.read(part))
        self.figures += image is not None
        return image


def _gathered_kind(kind: str, lines: list[str]) -> Kind:
    """Lines that end in a number are contents when there are some and the numbers rise; else tabbed text."""
    if kind != "perhaps toc":
        return "toc" if kind == "toc" else "list"
    numbers = [int(line.rsplit(" ", 1)[-1]) for line in lines if line.rsplit(" ", 1)[-1].isdecimal()]
    return "toc" if len(lines) >= 5 and len(set(numbers)) > 1 and numbers == sorted(numbers) else "text"


def _is_caption(style: str, text: str) -> bool:
    return (style == "caption" or CAPTION.match(text) is not None) and len(text) < 500


def _with_captions(items: list[Item]) -> list[Item]:
    """A picture and the caption below or above it become one figure; a picture that says nothing is left out.

    Captions are marked with a level of their own until here.
    """
    result: list[Item] = []
    position = 0
    while position < len(items):
        item = items[position]
        following = items[position + 1] if position + 1 < len(items) else None
        if item.kind == "figure":
            if (
                following is not None
                and following.level == CAPTION_LEVEL
                and not re.match("table|tabelle", following.text, re.I)
            ):
                result.append(replace(item, text=following.text))
                position += 1
            elif result and result[-1].level == CAPTION_LEVEL and CAPTION.match(result[-1].text):
                result[-1] = replace(item, text=result[-1].text)
            elif item.text:
                result.append(item)
        else:
            result.append(item)
        position += 1
    return [replace(item, level=0) if item.level == CAPTION_LEVEL else item for item in result]
