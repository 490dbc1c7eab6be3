"""HTML: main content, headings, lists, tables, code; links with their full address."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any
from urllib.parse import urljoin, urlsplit

from lxml import etree
from lxml.html import HTMLParser

from refdesk.errors import EmptyDocument
from refdesk.ingest.parsers import plain
from refdesk.ingest.parsers.builder import Builder
from refdesk.ingest.parsers.decode import decode
from refdesk.ingest.parsers.html_content import content_of
from refdesk.ingest.parsers.html_table import is_layout, read_table
from refdesk.ingest.parsers.options import ParseOptions
from refdesk.ingest.parsers.outline import Item, write
from refdesk.types import Parsed

Element = Any

HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
BLOCKS = frozenset(
    [
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hr",
        "html",
        "legend",
        "main",
        "nav",
        "p",
        "section",
        "summary",
        "table",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "option",
        "fieldset",
    ]
)
CHARSET = re.compile(
    rb"<meta[^>]{0,300}?charset\s*=\s*[\"']?\s*([\w-]{1,40})|<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w-]{1,40})", re.I
)
# A wiki page has hundreds of links to its own site: written out, the addresses would drown the text.
MAX_OWN_LINKS = 20
BOLD = -1  # the level of a bold line until it is known whether the page has headings
MAX_BOLD_HEADING = 150  # characters
BOLD_STYLE = re.compile(r"font-weight\s*:\s*(?:bold|[6-9]00)", re.I)
PART = re.compile(r"PART\s+[IVX\d]+\b.{0,80}", re.I)
SECTION = re.compile(r"(?:ITEM|NOTE|SECTION|ARTICLE)\s+\d+", re.I)
LETTER = 4000  # characters of preformatted text; laws and letters are put into <pre> whole
PAGE_NUMBER = re.compile(r"\d{1,4}")
MAX_ADDRESS = 200  # characters; longer ones are tracking
DEPTH_NOTE = "the page is nested so deeply that only its plain text could be read"


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """The content of a web page; a page of the document for every h1."""
    found = CHARSET.search(data[:4096])
    declared = (found.group(1) or found.group(2)).decode("ascii", "replace") if found else ""
    return parse_text(decode(data, declared))


def parse_text(text: str) -> Parsed:
    root, complete = read_tree(text)
    title, metadata, base = _about(root)
    items = items_of(root, base) if complete else [Item("text", part) for part in strip_tags(text).split("\n\n")]
    builder = Builder()
    write(builder, items)
    if not title:
        title = next((item.text for item in items if item.kind == "heading" and item.level == 1), "")
    return builder.build("html", title=title, metadata=metadata, notes=() if complete else (DEPTH_NOTE,))


def read_tree(text: str) -> tuple[Element, bool]:
    """The tree of a page and whether it is whole: libxml2 stops at 2,048 levels.

    Entities of a document type declaration are unknown to the HTML parser, so they cannot grow.
    """
    parser = HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    clean = re.sub("[\x00-\x08\x0b\x0e-\x1f\ud800-\udfff]", "", text)
    try:
        root = etree.fromstring(clean.encode("utf-8"), parser)
    except etree.ParserError as error:
        raise EmptyDocument("there is nothing on the page") from error
    if root is None:
        raise EmptyDocument("there is nothing on the page")
    return root, not any("depth" in entry.message for entry in parser.error_log)


def items_of(root: Element, base: str = "") -> list[Item]:
    """The blocks of the main content in reading order."""
    content = content_of(root)
    walk = _Walk(base, content)
    walk.run(content)
    return _without_page_numbers(_with_bold_headings(walk.items))


def _with_bold_headings(items: list[Item]) -> list[Item]:
    """Short bold lines are headings where a page has no others; filings have none.

    A part opens a page, items and notes come below it, other bold lines below those.
    """
    if any(item.kind == "heading" for item in items):
        return [replace(item, level=0) if item.level == BOLD else item for item in items]
    found = []
    for item in items:
        if item.level != BOLD:
            found.append(item)
        elif not SECTION.match(item.text) and (item.text[-1] in ".,;:" or not item.text[0].isalnum()):
            found.append(replace(item, level=0))
        else:
            level = 1 if PART.fullmatch(item.text) else 2 if SECTION.match(item.text) else 3
            found.append(replace(item, kind="heading", level=level))
    return found


def _without_page_numbers(items: list[Item]) -> list[Item]:
    """Printed documents saved as a page carry their page numbers: lone numbers that count upwards."""
    lone = [int(item.text) for item in items if item.kind == "text" and PAGE_NUMBER.fullmatch(item.text)]
    rising = sum(1 for one, two in pairwise(lone) if two == one + 1)
    if rising < 5 or rising < 0.7 * len(lone):
        return items
    return [item for item in items if item.kind != "text" or not PAGE_NUMBER.fullmatch(item.text)]


def _is_bold(element: Element, tag: str) -> bool:
    style = element.get("style")
    return tag in ("b", "strong") or bool(style and BOLD_STYLE.search(style))


class _Walk:
    """One pass over the tree; inline text gathers in `line` until a block begins or ends."""

    def __init__(self, base: str, content: Element) -> None:
        self.items: list[Item] = []
        self.line: list[str] = []
        self.list_lines: list[str] = []
        self.markers: list[str | int] = []  # per open list: "-" or the next number
        self.pending = ""  # the marker of a list item whose text has not begun
        self.heading = 0
        self.bold_depth = self.bold_size = self.size = 0  # how much of the block under way is bold
        self.base = base
        self.own_host = urlsplit(base).hostname or ""
        own = sum(1 for link in content.iter("a") if self._host(link.get("href") or "") == self.own_host)
        self.show_own = own <= MAX_OWN_LINKS

    def run(self, content: Element) -> None:
        walker = etree.iterwalk(content, events=("start", "end"))
        for event, element in walker:
            tag = element.tag.lower() if isinstance(element.tag, str) else ""
            if event == "end":
                self._end(element, tag)
                self.bold_depth -= _is_bold(element, tag)
            elif tag == "table" and not is_layout(element):
                self._flush()
                self._table(element)
                walker.skip_subtree()
            elif tag == "pre":
                self._flush()
                self._pre(element)
                walker.skip_subtree()
            else:
                self._start(element, tag)
            if event == "end" and element is not content and element.tail:
                self._text(element.tail)
        self._flush()
        self._close_lists()

    def _start(self, element: Element, tag: str) -> None:
        self.bold_depth += _is_bold(element, tag)
        if tag in HEADINGS:
            self._flush()
            if not self.markers:
                self.heading = HEADINGS[tag]
        elif tag in ("ul", "ol"):
            self._flush()
            start = element.get("start") or "1"
            self.markers.append(int(start) if tag == "ol" and start.isdigit() else 1 if tag == "ol" else "-")
        elif tag == "li":
            self._flush()
            self.pending = self._marker()
        elif tag == "br":
            self.line.append("\n")
        elif tag == "img":
            alt = " ".join((element.get("alt") or "").split())
            if len(alt) > 20:  # shorter ones are icons and decoration
                self.line.append(f" {alt} ")
        elif tag in BLOCKS:
            self._flush()
        if element.text and tag not in ("table", "pre"):
            self._text(element.text)

    def _end(self, element: Element, tag: str) -> None:
        if tag in HEADINGS:
            self._flush()
            self.heading = 0
        elif tag in ("ul", "ol"):
            self._flush()
            if self.markers:
                self.markers.pop()
            if not self.markers:
                self._close_lists()
        elif tag == "dt":
            self.pending = " ".join("".join(self.line).split()).rstrip(":") + ": "
            self.line = []
        elif tag == "li" or tag in BLOCKS:
            self._flush()
        elif tag in ("td", "th"):
            self.line.append(" ")
        elif tag == "a":
            self._address(element)

    def _text(self, text: str) -> None:
        text = re.sub(r"[ \t\n\r\f\u00a0\u200b]+", " ", text)
        self.line.append(text)
        self.size += len(text.strip())
        self.bold_size += len(text.strip()) if self.bold_depth else 0

    def _flush(self) -> None:
        """Ends the block under way."""
        text = "".join(self.line)
        self.line = []
        text = "\n".join(" ".join(part.split()) for part in text.split("\n")).strip()
        if not text:
            return
        if self.heading:
            self.items.append(Item("heading", text.replace("\n", " "), level=self.heading))
        elif self.markers:
            indentation = "  " * (len(self.markers) - 1)
            self.list_lines.append(indentation + (self.pending or "  ") + text.replace("\n", " "))
            self.pending = ""
        elif (
            self.bold_size and self.bold_size >= 0.95 * self.size and "\n" not in text and len(text) <= MAX_BOLD_HEADING
        ):
            self.items.append(Item("text", self.pending + text, level=BOLD))
        else:
            parts = re.split(r"\n\s*\n", self.pending + text)
            self.items.extend(Item("text", part) for part in parts)
        self.pending = "" if not self.markers else self.pending
        self.size = self.bold_size = 0

    def _close_lists(self) -> None:
        if self.list_lines:
            self.items.append(Item("list", "\n".join(self.list_lines)))
        self.list_lines = []

    def _marker(self) -> str:
        if not self.markers:
            return "- "
        marker = self.markers[-1]
        if isinstance(marker, int):
            self.markers[-1] = marker + 1
            return f"{marker}. "
        return "- "

    def _table(self, element: Element) -> None:
        caption = element.find("caption")
        if caption is not None:
            self.items.append(Item("text", " ".join("".join(caption.itertext()).split())))
        rows, header_rows = read_table(element)
        if self.markers:
            self.list_lines.extend("  " * len(self.markers) + " | ".join(row) for row in rows)
        elif len(rows) == 1:
            self.items.append(Item("text", " ".join(cell for cell in rows[0] if cell)))
        elif rows and max(map(len, rows)) == 1:
            self.items.extend(Item("text", row[0]) for row in rows)
        elif rows:
            self.items.append(Item("table", rows=rows, header_rows=header_rows))

    def _pre(self, element: Element) -> None:
        """Preformatted text is code, unless a whole letter was put into it."""
        text = "".join(element.itertext())
        if self.markers:
            self.list_lines.append("  " * len(self.markers) + " ".join(text.split()))
            return
        if len(text) > LETTER and not plain.is_structured(text):
            self.items.extend(plain.items_of(text, []))
        else:
            self.items.append(Item("code", text))

    def _address(self, link: Element) -> None:
        """Adds the address behind a link: "the report (https://example.org/report)"."""
        href = (link.get("href") or "").strip()
        if not href or href.startswith("#") or self.heading:
            return
        host = self._host(href)
        if not host or (host == self.own_host and not self.show_own):
            return
        address = self._resolved(href)
        shown = "".join(link.itertext()).strip()
        if (
            not shown
            or len(address) > MAX_ADDRESS
            or shown.rstrip("/") in (address.rstrip("/"), address.split("://", 1)[-1].rstrip("/"))
        ):
            return
        if self.base and address.split("#")[0] == self.base.split("#")[0]:
            return  # a link inside this page
        while self.line and self.line[-1].endswith(" "):
            self.line[-1] = self.line[-1].rstrip()
            if self.line[-1]:
                break
            self.line.pop()
        self.line.append(f" ({address})")

    def _host(self, href: str) -> str:
        try:
            address = urlsplit(self._resolved(href))
        except ValueError:
            return ""
        return (address.hostname or "") if address.scheme in ("http", "https") else ""

    def _resolved(self, href: str) -> str:
        try:
            return urljoin(self.base, href)
        except ValueError:
            return ""


def strip_tags(text: str) -> str:
    """The text between tags, in one pass from left to right."""
    parts = []
    position = 0
    while position < len(text):
        opening = text.find("<", position)
        if opening < 0:
            parts.append(text[position:])
            break
        parts.append(text[position:opening])
        closing = text.find("-->" if text.startswith("<!--", opening) else ">", opening)
        if closing < 0:
            break
        position = text.find(">", closing) + 1
    return re.sub(r"[^\S\n]+", " ", " ".join(part for part in parts if part.strip()))


def _about(root: Element) -> tuple[str, dict[str, str], str]:
    """Title, metadata and the address of the page, from its head."""
    metas: dict[str, str] = {}
    for meta in root.iter("meta"):
        key = (meta.get("property") or meta.get("name") or "").lower()
        if key and meta.get("content"):
            metas.setdefault(key, " ".join(meta.get("content").split()))
    title = metas.get("og:title", "")
    for element in root.iter("title"):
        if text := " ".join("".join(element.itertext()).split()):
            title = text
            break
    metadata = {}
    language = root.get("lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang") or root.get("xml:lang") or ""
    if language:
        metadata["language"] = language.strip().lower()
    for key, names in {
        "author": ("author", "article:author"),
        "description": ("description", "og:description"),
        "date": ("article:published_time", "date", "dc.date"),
    }.items():
        value = next((metas[name] for name in names if name in metas), "")
        if value and (key != "date" or re.match(r"\d{4}-\d\d-\d\d", value)):
            metadata[key] = value
    bases = [element.get("href") for element in root.iter("base") if element.get("href")]
    canonical = [link.get("href") for link in root.iter("link") if (link.get("rel") or "").lower() == "canonical"]
    addresses = [*bases, *canonical, metas.get("og:url")]
    base = next((a.strip() for a in addresses if a and a.strip().startswith(("http://", "https://"))), "")
    if base:
        metadata["url"] = base
    return title, metadata, base
