"""What files of OpenDocument share: opening them, their properties, the text of a paragraph."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from lxml import etree

from refdesk.errors import NeedsPassword
from refdesk.parsers.build import ParseOptions, one_line
from refdesk.parsers.office import Archive, Element, parse_xml

_URN = "urn:oasis:names:tc:opendocument:xmlns:{}:1.0"
T, TABLE, OFFICE, DRAW, STYLE, SHOW = (
    f"{{{_URN.format(name)}}}" for name in ("text", "table", "office", "drawing", "style", "presentation")
)
SVG = f"{{{_URN.format('svg-compatible')}}}"
HREF = "{http://www.w3.org/1999/xlink}href"
WRITTEN = {f"{T}tab": "\t", f"{T}line-break": "\n"}  # elements that stand for a character; blanks are counted
# Comments, what was deleted, how words are pronounced.
SKIPPED = frozenset(
    [
        *(f"{OFFICE}annotation", f"{OFFICE}forms", f"{TABLE}shapes", f"{SHOW}notes"),
        *(f"{T}tracked-changes", f"{T}ruby-text", f"{T}note-citation"),
        *(f"{T}sequence-decls", f"{T}variable-decls", f"{T}user-field-decls"),
    ]
)


def open_package(data: bytes, options: ParseOptions) -> Archive:
    archive = Archive(data, options, allow_doctype=True)  # OpenOffice wrote one, without entities
    manifest = archive.read("META-INF/manifest.xml") if archive.has("META-INF/manifest.xml") else b""
    if b"encryption-data" in manifest or archive.has("encrypted-package"):
        raise NeedsPassword(
            "this OpenDocument file is encrypted with a password", hint="save it without a password first"
        )
    return archive


def described(archive: Archive) -> tuple[str, dict[str, str]]:
    if not archive.has("meta.xml"):
        return "", {}
    root = parse_xml(archive.read("meta.xml"), recover=True)

    def named(*names: str) -> str:
        texts = (one_line(element.text or "") for name in names for element in root.iter(f"{{*}}{name}"))
        return next(filter(None, texts), "")

    metadata = {"author": named("creator", "initial-creator"), "date": named("date", "creation-date")[:19]}
    return named("title"), {key: value for key, value in metadata.items() if value}


@dataclass(slots=True)
class Inline:
    """What one paragraph holds."""

    text: str = ""
    notes: list[Element] = field(default_factory=list)
    shapes: list[Element] = field(default_factory=list)


def inline_of(paragraph: Element) -> Inline:
    """The text of a paragraph; a run of white space is one blank, as in HTML."""
    inline = Inline()
    parts: list[str] = []
    walker = etree.iterwalk(paragraph, events=("start", "end"))
    for event, element in walker:
        tag = element.tag
        if event == "end":
            parts.append(re.sub(r"[ \t\r\n]+", " ", (element.tail if element is not paragraph else None) or ""))
            continue
        if tag == f"{T}note":
            inline.notes.append(element)
        elif isinstance(tag, str) and tag.startswith(DRAW) and tag != f"{DRAW}a":
            inline.shapes.append(element)
        elif tag not in SKIPPED:
            written = " " * min(whole(element.get(f"{T}c"), 1), 100) if tag == f"{T}s" else WRITTEN.get(tag, "")
            parts.append(written or re.sub(r"[ \t\r\n]+", " ", element.text or ""))
            continue
        walker.skip_subtree()
    inline.text = "".join(parts)
    return inline


def plain_text(container: Element) -> str:
    """The paragraphs of a shape or a note, a line each."""
    texts = (inline_of(paragraph).text.strip() for paragraph in container.iter(f"{T}p", f"{T}h"))
    return "\n".join(filter(None, texts))


def whole(text: str | None, otherwise: int = 0) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 10 else otherwise
