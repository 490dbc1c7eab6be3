"""What stands in a Word paragraph, row or cell, with all tracked changes accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from lxml import etree

from refdesk.parsers.office import Element

# What does a paragraph's style make of it? Headings, titles, lists with their numbers, contents, captions.

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"

# Word writes built-in names in English whatever its language; other programs translate them.
HEADING_NAME = re.compile(
    r"(?:heading|überschrift|titre|título|titulo|titolo|kop|rubrik|overskrift|nagłówek|nadpis|заголовок|見出し|标题|標題|제목|"
    r"cabeçalho|otsikko|başlık)\s*([1-9])",
    re.I,
)
TITLE_NAME = re.compile(r"title|titel|titre|título|titolo|название|表題|标题|제목", re.I)
MAX_BASES = 20  # styles that build on one another; a circle ends here
LEVELS = 9


@dataclass(frozen=True, slots=True)
class Style:
    """What a style says about itself and, through `base`, what it inherits."""

    name: str
    base: str
    outline: int | None
    number: str | None
    depth: int | None


@dataclass(slots=True)
class Numbering:
    """Counts list items as Word does; a list is known by the number of its definition."""

    levels: dict[str, dict[int, tuple[str, str, int]]]  # abstract list -> level -> (format, text, start)
    lists: dict[str, tuple[str, dict[int, int]]]  # list -> (abstract list, levels that start anew)
    counters: dict[str, list[int | None]] = field(default_factory=dict)

    def label(self, number: str, depth: int) -> str | None:
        """The label of the next item: "- ", "2.", "(b)"; None when there is no such list."""
        abstract, overrides = self.lists.get(number, ("", {}))
        levels = self.levels.get(abstract)
        if levels is None:
            return None
        kind, text, start = levels.get(depth, ("bullet", "", 1))
        if kind in ("bullet", "none"):
            return "-" if kind == "bullet" else ""
        key = f"{abstract}/{number}" if overrides else abstract
        counters = self.counters.setdefault(key, [None] * LEVELS)
        current = counters[depth]
        counters[depth] = overrides.get(depth, start) if current is None else current + 1
        for deeper in range(depth + 1, LEVELS):
            counters[deeper] = None

        def shown(found: re.Match[str]) -> str:
            level = min(int(found.group(1)), LEVELS) - 1
            fallback = levels.get(level, ("decimal", "", 1))
            count = counters[level]
            return in_format(fallback[2] if count is None else count, fallback[0])

        return re.sub(r"%([1-9])", shown, text).strip()


def read_styles(root: Element | None) -> dict[str, Style]:
    if root is None:
        return {}
    styles = {}
    for style in root.iter(f"{W}style"):
        outline = style.find(f"{W}pPr/{W}outlineLvl")
        number = style.find(f"{W}pPr/{W}numPr/{W}numId")
        depth = style.find(f"{W}pPr/{W}numPr/{W}ilvl")
        styles[style.get(f"{W}styleId") or ""] = Style(
            value(style.find(f"{W}name")),
            value(style.find(f"{W}basedOn")),
            whole(value(outline)) if outline is not None else None,
            value(number) if number is not None else None,
            whole(value(depth)) if depth is not None else None,
        )
    return styles


def read_numbering(root: Element | None) -> Numbering:
    levels: dict[str, dict[int, tuple[str, str, int]]] = {}
    lists: dict[str, tuple[str, dict[int, int]]] = {}
    if root is None:
        return Numbering(levels, lists)
    linked: dict[str, str] = {}  # name of a list style -> its abstract list
    wanted: dict[str, str] = {}
    for abstract in root.iter(f"{W}abstractNum"):
        key = abstract.get(f"{W}abstractNumId") or ""
        if link := value(abstract.find(f"{W}styleLink")):
            linked[link] = key
        if link := value(abstract.find(f"{W}numStyleLink")):
            wanted[key] = link
        levels[key] = {
            min(whole(level.get(f"{W}ilvl")), LEVELS - 1): (
                value(level.find(f"{W}numFmt")) or "decimal",
                value(level.find(f"{W}lvlText")),
                whole(value(level.find(f"{W}start")), 1),
            )
            for level in abstract.iterchildren(f"{W}lvl")
        }
    for item in root.iter(f"{W}num"):
        abstract_key = value(item.find(f"{W}abstractNumId"))
        overrides = {
            min(whole(override.get(f"{W}ilvl")), LEVELS - 1): whole(value(override.find(f"{W}startOverride")), 1)
            for override in item.iterchildren(f"{W}lvlOverride")
            if override.find(f"{W}startOverride") is not None
        }
        abstract_key = linked.get(wanted.get(abstract_key, ""), abstract_key)
        lists[item.get(f"{W}numId") or ""] = (abstract_key, overrides)
    return Numbering(levels, lists)


def chain(styles: dict[str, Style], style_id: str) -> list[Style]:
    """A style and those it builds on, nearest first."""
    found: list[Style] = []
    while style_id in styles and len(found) < MAX_BASES:
        found.append(styles[style_id])
        style_id = styles[style_id].base
    return found


def heading_level(paragraph: Element, inherited: list[Style]) -> int:
    """1 to 9, 0 for what is no heading: by outline level, then by the name of the style."""
    own = paragraph.find(f"{W}pPr/{W}outlineLvl")
    if own is not None:
        return whole(value(own), 9) + 1 if whole(value(own), 9) < LEVELS else 0
    for style in inherited:
        if found := HEADING_NAME.fullmatch(style.name.strip()):
            return int(found.group(1))
        if style.outline is not None:
            return style.outline + 1 if style.outline < LEVELS else 0
    return 1 if inherited and TITLE_NAME.fullmatch(inherited[0].name.strip()) else 0


def list_place(paragraph: Element, inherited: list[Style]) -> tuple[str, int] | None:
    """(list, depth) of a list item, None for other paragraphs; list "0" switches numbering off."""
    number = depth = None
    own = paragraph.find(f"{W}pPr/{W}numPr")
    if own is not None:
        identity, level = own.find(f"{W}numId"), own.find(f"{W}ilvl")
        number = value(identity) if identity is not None else None
        depth = whole(value(level)) if level is not None else None
    for style in inherited:
        number = style.number if number is None else number
        depth = style.depth if depth is None else depth
    if number is None or number == "0":
        return None
    return number, max(0, min(depth or 0, LEVELS - 1))


def in_format(number: int, kind: str) -> str:
    """(4, "lowerRoman") -> "iv", (28, "upperLetter") -> "BB"."""
    if kind in ("lowerLetter", "upperLetter") and 0 < number <= 780:
        letters = chr(97 + (number - 1) % 26) * ((number - 1) // 26 + 1)
        return letters if kind == "lowerLetter" else letters.upper()
    if kind in ("lowerRoman", "upperRoman") and 0 < number < 4000:
        text, rest = "", number
        for size, sign in ROMAN:
            text, rest = text + sign * (rest // size), rest % size
        return text.lower() if kind == "lowerRoman" else text
    return f"{number:02d}" if kind == "decimalZero" else str(number)


ROMAN = ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"), (10, "X"),
         (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))  # fmt: skip


def value(element: Element | None) -> str:
    return "" if element is None else element.get(f"{W}val") or ""


def whole(text: str | None, otherwise: int = 0) -> int:
    return int(text) if text and text.isdigit() and len(text) < 10 else otherwise


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
