"""What stands in a Word paragraph, row or cell, with all tracked changes accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lxml import etree

from refdesk.ingest.parsers.docx_styles import W, value
from refdesk.ingest.parsers.office import Element

MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
MATH = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
MATH_SIGNS = {f"{MATH}den": "/", f"{MATH}sup": "^", f"{MATH}sub": "_"}  # a fraction, a power, an index
BLIP = "{http://schemas.openxmlformats.org/drawingml/2006/main}blip"
DRAWING_NAME = "{http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing}docPr"
VML_IMAGE = "{urn:schemas-microsoft-com:vml}imagedata"

TRANSPARENT = frozenset(f"{W}{name}" for name in ("sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag")) | {
    f"{MC}AlternateContent",
    f"{MC}Choice",
}
SKIPPED = frozenset(
    f"{W}{name}" for name in ("del", "moveFrom", "rPr", "pPr", "instrText", "delText", "rt", "sdtPr", "tblPr", "object")
)
CHARACTERS = {f"{W}tab": "\t", f"{W}cr": "\n", f"{W}noBreakHyphen": "-", f"{W}ptab": "\t"}
# Characters of the fonts Wingdings and Symbol that carry meaning.
SYMBOLS = {"F0FE": "☒", "F0A8": "☐", "F06F": "☐", "F0FC": "✓", "F0B7": "•", "F0E0": "→", "F0B0": "°"}
NOTE_REFERENCES = {f"{W}footnoteReference": "Footnote", f"{W}endnoteReference": "Endnote"}


@dataclass(slots=True)
class Inline:
    """What one paragraph holds besides its text."""

    text: str = ""
    notes: list[tuple[str, str]] = field(default_factory=list)  # (kind, id)
    boxes: list[Element] = field(default_factory=list)
    pictures: list[tuple[str, str]] = field(default_factory=list)  # (relation, description)


def body_blocks(container: Element) -> Iterator[Element]:
    """Paragraphs and tables in order, through content controls and tracked insertions, without deletions."""
    for element in container.iterchildren():
        if element.tag in (f"{W}p", f"{W}tbl", f"{W}altChunk"):
            yield element
        elif element.tag in TRANSPARENT:
            yield from body_blocks(element)


def inline_of(paragraph: Element) -> Inline:
    """The text of a paragraph as a reader sees it with all changes accepted, and what hangs on it."""
    inline = Inline()
    parts: list[str] = []
    description = ""
    walker = etree.iterwalk(paragraph, events=("start",))
    for _, element in walker:
        tag = element.tag
        if tag in (f"{W}t", f"{MATH}t"):
            parts.append(element.text or "")
        elif tag in MATH_SIGNS:
            parts.append(MATH_SIGNS[tag])
        elif tag == f"{W}sym":
            parts.append(SYMBOLS.get((element.get(f"{W}char") or "").upper(), ""))
        elif tag in CHARACTERS:
            parts.append(CHARACTERS[tag])
        elif tag == f"{W}br":
            parts.append("\n" if element.get(f"{W}type") in (None, "textWrapping") else " ")
        elif tag in NOTE_REFERENCES:
            inline.notes.append((NOTE_REFERENCES[tag], element.get(f"{W}id") or ""))
        elif tag == f"{W}txbxContent":
            inline.boxes.append(element)
            walker.skip_subtree()
        elif tag == DRAWING_NAME:
            description = element.get("descr") or ""
        elif tag in (BLIP, VML_IMAGE):
            relation = element.get(f"{RELATION}embed") or element.get(f"{RELATION}id") or ""
            inline.pictures.append((relation, _useful(description)))
        elif tag in SKIPPED or (tag == f"{MC}Fallback" and _has_choice(element)) or _is_hidden(element):
            walker.skip_subtree()
    inline.text = "".join(parts)
    return inline


def _has_choice(fallback: Element) -> bool:
    return fallback.getprevious() is not None


def _is_hidden(element: Element) -> bool:
    if element.tag != f"{W}r":
        return False
    mark = element.find(f"{W}rPr/{W}vanish")
    return mark is not None and value(mark) not in ("0", "false", "off")


def _useful(description: str) -> str:
    """Alternative text that a person wrote; programs write file names and guesses."""
    description = " ".join(description.split())
    made = re.search(
        r"\.(png|jpe?g|gif|emf|wmf)$|automatically generated|^(picture|image|grafik|bild)\s*\d*$", description, re.I
    )
    return "" if made or len(description) < 10 else description


def table_rows(table: Element) -> Iterator[Element]:
    for element in table.iterchildren():
        if element.tag == f"{W}tr":
            if element.find(f"{W}trPr/{W}del") is None:
                yield element
        elif element.tag in TRANSPARENT:
            yield from table_rows(element)


def row_cells(row: Element) -> Iterator[Element]:
    for element in row.iterchildren():
        if element.tag == f"{W}tc":
            yield element
        elif element.tag in TRANSPARENT:
            yield from row_cells(element)
