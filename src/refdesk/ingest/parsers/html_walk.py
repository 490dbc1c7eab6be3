"""From the tree of a web page to items: one pass that knows which list, heading or block it is in."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from lxml import etree

from refdesk.ingest.parsers import plain
from refdesk.ingest.parsers.html_table import is_layout, read_table
from refdesk.ingest.parsers.outline import Item

Element = Any

HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
BLOCKS = frozenset(
    [
        *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt"),
        *("fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html", "legend", "main", "nav", "p"),
        *("section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr"),
    ]
)
BOLD = -1  # the level of a bold line until it is known whether the page has headings
MAX_BOLD_HEADING = 150  # characters
BOLD_STYLE = re.compile(r"font-weight\s*:\s*(?:bold|[6-9]00)", re.I)
LETTER = 4000  # characters of preformatted text; laws and letters are put into <pre> whole
# A wiki page has hundreds of links to its own site: written out, the addresses would drown the text.
MAX_OWN_LINKS = 20
MAX_ADDRESS = 200  # characters; longer ones are tracking


class Walk:
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


def _is_bold(element: Element, tag: str) -> bool:
    style = element.get("style")
    return tag in ("b", "strong") or bool(style and BOLD_STYLE.search(style))
