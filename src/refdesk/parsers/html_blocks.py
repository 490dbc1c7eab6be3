"""From the tree of a web page to items: one pass that knows which list, heading or block it is in."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin, urlsplit

from lxml import etree

from refdesk.parsers import text as plain
from refdesk.parsers.build import FREE_CELLS, MAX_PADDING, Item, guess_header_rows, tidy_rows

# Tables of a web page: which hold data and which only arrange the page, and what their rows say.

Element = Any

MAX_SPAN = 1000  # columns a cell may claim; browsers stop there too
MAX_CELL = 1500  # characters; a longer cell holds a text, so the table arranges the page
MAX_COLUMNS = 2000
MAX_HEADER_ROWS = 3
APART = frozenset(["p", "div", "br", "li", "ul", "ol", "tr", "td", "th", "table", "h5", "h6"])


def is_layout(table: Element) -> bool:
    """A table that only arranges the page: it holds other tables, headings or whole texts, or is a single cell.

    Its cells are then read one after the other, like any other part of the page.
    """
    if table.get("role") in ("presentation", "none") or next(table.iterdescendants("table"), None) is not None:
        return True
    if next(table.iter("th"), None) is not None:
        return False
    if any(next(table.iter(tag), None) is not None for tag in ("h1", "h2", "h3", "h4", "pre")):
        return True
    cells = list(table.iter("td", "th"))
    filled = [
        length
        for cell in cells
        if (length := sum(len(text) for text in cell.itertext())) and "".join(cell.itertext()).strip()
    ]
    return len(filled) <= 1 or max(filled) > MAX_CELL


def read_table(table: Element) -> tuple[list[list[str]], int]:
    """Rows of cells without empty rows and columns, and how many of the first rows are headers.

    A cell over several rows is read in the first of them; one over several columns in the first of those.
    """
    rows: list[list[str]] = []
    header_flags: list[bool] = []
    names_rows = False  # "Born | 1815": the header cell is the first of its row
    open_spans: dict[int, int] = {}  # column -> rows still covered from above
    # Cells that only fill up a span: a page of 200 kB can claim billions. What is over the limit is read unspanned.
    padding = MAX_PADDING * sum(1 for _ in table.iter("td", "th")) + FREE_CELLS
    for row in table.iter("tr"):
        cells: list[str] = []
        texts: list[bool] = []
        for cell in row.iterchildren("td", "th"):
            while padding > 0 and open_spans.get(len(cells), 0) > 0:
                open_spans[len(cells)] -= 1
                cells.append("")
                padding -= 1
            width = min(_span(cell, "colspan"), MAX_SPAN, max(1, MAX_COLUMNS - len(cells)), max(1, padding))
            padding -= width - 1
            height = _span(cell, "rowspan")
            if height > 1:
                open_spans.update({len(cells) + offset: height - 1 for offset in range(width)})
            text = _cell_text(cell)
            if text:
                texts.append(cell.tag == "th")
            cells.extend([text] + [""] * (width - 1))
        while padding > 0 and open_spans.get(len(cells), 0) > 0:
            open_spans[len(cells)] -= 1
            cells.append("")
            padding -= 1
        if any(cells):
            rows.append(cells)
            names_rows = names_rows or (any(texts) and not all(texts))
            header_flags.append(_in_head(row) or (bool(texts) and all(texts)))
    header_rows = 0
    while header_rows < len(rows) and header_flags[header_rows]:
        header_rows += 1
    rows = join_columns(tidy_rows(join_signs(rows)))
    if header_rows >= len(rows) or (header_rows == 0 and not names_rows):
        header_rows = guess_header_rows(rows)
    return rows, header_rows


def join_signs(rows: list[list[str]]) -> list[list[str]]:
    """Signs that filings put into cells of their own go back to their number: "$", "5", ")" -> "$5)".

    The number's cell keeps its place, so that columns stay columns.
    """
    for row in rows:
        for column, cell in enumerate(row):
            if cell in ("$", "€", "£", "¥", "(", "($", "$("):
                following = next((c for c in range(column + 1, min(column + 4, len(row))) if row[c]), None)
                if following is not None and re.match(r"[\d(.,—–-]", row[following]):
                    row[following], row[column] = cell + row[following], ""
            elif cell in (")", "%", ")%", "%)", "pts", "pt"):
                before = next((c for c in range(column - 1, max(column - 4, -1), -1) if row[c]), None)
                if before is not None and re.fullmatch(r"[$€£¥(]*-?[\d.,]+", row[before]):
                    row[before], row[column] = row[before] + cell, ""
    return rows


def join_columns(rows: list[list[str]]) -> list[list[str]]:
    """A header that stands one column beside its numbers, as filings lay them out, goes above them.

    >>> join_columns([["", "2021", ""], ["Sales", "", "$5"]])
    [['', '2021'], ['Sales', '$5']]
    """
    if any(len(row) != len(rows[0]) for row in rows):  # too wide to be filled up: there are no columns to join
        return rows
    filled: list[set[int]] = [set() for _ in (rows[0] if rows else ())]
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            if cell:
                filled[column].add(number)
    dropped: set[int] = set()
    right = len(filled) - 1
    for left in range(len(filled) - 2, 0, -1):  # from the right, so that a header does not go to the labels before it
        apart = filled[left] and filled[right] and max(filled[left]) < min(filled[right])
        if apart and max(filled[left]) <= MAX_HEADER_ROWS:
            for row in rows:
                row[left] = row[left] or row[right]
            filled[left] |= filled[right]
            dropped.add(right)
        right = left
    return [[cell for column, cell in enumerate(row) if column not in dropped] for row in rows]


def _cell_text(cell: Element) -> str:
    parts = []
    for event, element in etree.iterwalk(cell, events=("start", "end")):
        if element.tag in APART and element is not cell:
            parts.append(" ")
        if event == "start" and element.text:
            parts.append(element.text)
        elif event == "end" and element is not cell and element.tail:
            parts.append(element.tail)
    return " ".join("".join(parts).replace("\u200b", "").split())


def _span(cell: Element, name: str) -> int:
    value = (cell.get(name) or "1").strip()
    return max(1, min(int(value), 65_534)) if value.isdigit() and len(value) < 6 else 1


def _in_head(row: Element) -> bool:
    parent = row.getparent()
    return parent is not None and parent.tag == "thead"


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
