"""HTML and Markdown: main content, headings, lists, tables and code, with full link addresses.

The tree is read in three steps: what surrounds the content is taken out, one pass turns the rest into items, and what
only the whole page can tell is decided last (bold lines as headings, page numbers). Markdown is read as the page it
describes, all of which is content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from urllib.parse import urljoin, urlsplit

from lxml import etree
from lxml.html import HTMLParser

from refdesk.errors import EmptyDocument
from refdesk.parsers import text as plain
from refdesk.parsers.build import (
    CELL,
    Below,
    Beside,
    Builder,
    Item,
    ParseOptions,
    Table,
    first_title,
    join_columns,
    join_signs,
    one_line,
    padding,
    tidy_rows,
)
from refdesk.parsers.office import Element
from refdesk.parsers.text import decode
from refdesk.types import Parsed

# The last is a filing's facts for machines.
NEVER = frozenset((
    "script", "style", "noscript", "template", "svg", "iframe", "object", "embed", "applet", "canvas", "audio",
    "video", "map", "head", "link", "meta", "button", "select", "input", "textarea", "datalist", "progress",
    "dialog", "ix:header",
))  # fmt: skip
AROUND = frozenset(("nav", "header", "footer", "aside", "form", "menu"))
AROUND_ROLES = frozenset((
    "navigation", "banner", "contentinfo", "complementary", "dialog", "alertdialog", "search", "menubar", "toolbar",
))  # fmt: skip
AROUND_NAMES = re.compile(
    r"\b(?:cookie|consent|gdpr|navbar|nav|(?:main|nav|dropdown|site)-?menu|menu-?bar|sidebar|breadcrumbs?|footer|masthead|"
    r"(?:share|social)-?(?:bar|buttons?|links|icons|media)|newsletter|skip-?link|noprint|advert(?:isement)?|navbox|"
    r"mw-editsection|mw-jump-link|catlinks|printfooter)\b",
    re.I,
)
NAMED_TAGS = frozenset(["div", "section", "ul", "span", "table", "p"])
INVISIBLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.I)
MENU_TAGS = frozenset(["ul", "ol", "div", "p", "td", "section", "center"])
MENU_LINKS = 5
MENU_SHARE = 0.9  # of its characters stand in links
MENU_LINK_SIZE = 25  # characters without spaces; the titles in a list of articles are longer
MAIN_SHARE = 0.25  # of the page's text; a smaller <main> is a shell filled by scripts or misused
BOX_SHARE = 0.8  # of the characters of an aside that stand outside links; of navigation most stand in them
LITTLE = 200  # characters outside links; with fewer, the links are the content
KEPT_SHARE = 0.4  # taking out "surroundings" may not cost more than the rest of the words
MAX_SPAN = 1000  # columns a cell may claim; browsers stop there too
MAX_CELL = 1500  # characters; a longer cell holds a text, so the table arranges the page
MAX_COLUMNS = 2000
APART = frozenset(["p", "div", "br", "li", "ul", "ol", "tr", "td", "th", "table", "h5", "h6"])
HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
BLOCKS = frozenset((
    *HEADINGS,
    "address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html", "legend", "li", "main", "nav",
    "ol", "p", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul",
))  # fmt: skip
BOLD = -1  # the level of a bold line until it is known whether the page has headings
MAX_BOLD_HEADING = 150  # characters
BOLD_STYLE = re.compile(r"font-weight\s*:\s*(?:bold|[6-9]00)", re.I)
LETTER = 4000  # characters of preformatted text; laws and letters are put into <pre> whole
# A wiki page has hundreds of links to its own site: written out, the addresses would drown the text.
MAX_OWN_LINKS = 20
MAX_ADDRESS = 200  # characters; longer ones are tracking
CHARSET = re.compile(
    rb"<meta[^>]{0,300}?charset\s*+=\s*+(?:[\"']\s*+)?([\w-]{1,40})|<\?xml[^>]{0,200}?encoding\s*+=\s*+[\"']([\w-]{1,40})",
    re.I,
)
PART = re.compile(r"PART\s+[IVX\d]+\b.{0,80}", re.I)
SECTION = re.compile(r"(?:ITEM|NOTE|SECTION|ARTICLE)\s+\d+", re.I)
PAGE_NUMBER = re.compile(r"\d{1,4}")
ABOUT = {  # metadata by the names pages use for it
    "author": ("author", "article:author"),
    "description": ("description", "og:description"),
    "date": ("article:published_time", "date", "dc.date"),
}
TAG = re.compile(r"<!--.*?(?:-->|\Z)|<[^>]*(?:>|\Z)", re.S)  # one that does not end takes the rest
FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S)
FRONT_LINE = re.compile(r"([A-Za-z_][\w -]{0,40}):[ \t]+(.+)")
MAX_NESTING = 20  # levels of lists and quotes in Markdown; deeper ones are read as text
DEPTH_NOTE = "the page is nested so deeply that only its plain text could be read"


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """The content of a web page; a page of the document for every h1."""
    charset = CHARSET.search(data[:4096])
    text = decode(data, (charset.group(1) or charset.group(2)).decode("ascii", "replace") if charset else "")
    root, complete = read_tree(text)
    title, metadata, base = _about(root)
    items = items_of(root, base) if complete else [Item("text", part) for part in strip_tags(text).split("\n\n")]
    builder = Builder()
    builder.write(items)
    notes = () if complete else (DEPTH_NOTE,)
    return builder.build("html", title=title or first_title(items), metadata=metadata, notes=notes)


def parse_markdown(data: bytes, options: ParseOptions) -> Parsed:
    """CommonMark with tables; the `key: value` lines between the first `---` lines become metadata."""
    text = decode(data)
    metadata = {}
    if front := FRONT_MATTER.match(text):
        pairs = filter(None, (FRONT_LINE.fullmatch(line.rstrip()) for line in front.group(1).split("\n")))
        metadata = {pair.group(1).strip().lower(): pair.group(2).strip().strip("\"'") for pair in pairs}
        text = text[front.end() :]
    items = markdown_items(text)
    builder = Builder()
    builder.write(items)
    return builder.build("markdown", title=metadata.pop("title", "") or first_title(items), metadata=metadata)


def markdown_items(text: str) -> list[Item]:
    """The blocks of a text in Markdown, all of which is content."""
    from markdown_it import MarkdownIt  # 40 ms to import

    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING}).enable(["table", "strikethrough"])
    rendered = parser.render(text)
    if not rendered.strip():
        return []
    root, _ = read_tree(rendered)
    _remove_invisible(root)
    etree.strip_tags(root, "a")  # addresses are markup here: the text of a link stays
    return Walk("", root).run()


def read_tree(text: str) -> tuple[Element, bool]:
    """The tree of a page and whether it is whole: libxml2 stops at 2,048 levels.

    Entities of a document type declaration are unknown to the HTML parser, so they cannot grow.
    """
    parser = HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    clean = re.sub("[\x00-\x08\x0b\x0e-\x1f\ud800-\udfff]", "", text)
    root = None
    with suppress(etree.ParserError):
        root = etree.fromstring(clean.encode("utf-8"), parser)
    if root is None:
        raise EmptyDocument("there is nothing on the page")
    return root, not any("depth" in entry.message for entry in parser.error_log)


def items_of(root: Element, base: str = "") -> list[Item]:
    """The blocks of the main content in reading order."""
    return _without_page_numbers(_with_bold_headings(Walk(base, content_of(root)).run()))


def _with_bold_headings(items: list[Item]) -> list[Item]:
    """Short bold lines are headings where a page has no others; filings have none.

    A part opens a page, items and notes come below it, other bold lines below those.
    """
    has_headings = any(item.kind == "heading" for item in items)

    def settled(item: Item) -> Item:
        if item.level != BOLD:
            return item
        is_section = SECTION.match(item.text) is not None
        if has_headings or not (is_section or (item.text[-1] not in ".,;:" and item.text[0].isalnum())):
            return replace(item, level=0)
        return replace(item, kind="heading", level=1 if PART.fullmatch(item.text) else 2 if is_section else 3)

    return [settled(item) for item in items]


def _without_page_numbers(items: list[Item]) -> list[Item]:
    """Printed documents saved as a page carry their page numbers: lone numbers that count upwards."""
    lone = [item for item in items if item.kind == "text" and PAGE_NUMBER.fullmatch(item.text)]
    rising = sum(1 for item, following in pairwise(lone) if int(following.text) == int(item.text) + 1)
    return items if rising < 5 or rising < 0.7 * len(lone) else [item for item in items if item not in lone]


def strip_tags(text: str) -> str:
    """The text between tags, in one pass from left to right."""
    return re.sub(r"[^\S\n]+", " ", " ".join(part for part in TAG.split(text) if part.strip()))


def _about(root: Element) -> tuple[str, dict[str, str], str]:
    """Title, metadata and the address of the page, from its head."""
    metas: dict[str, str] = {}
    for meta in root.iter("meta"):
        key = (meta.get("property") or meta.get("name") or "").lower()
        if key and meta.get("content"):
            metas.setdefault(key, one_line(meta.get("content")))
    titles = (one_line(element.text_content()) for element in root.iter("title"))
    title = next(filter(None, titles), metas.get("og:title", ""))
    bases = [element.get("href") for element in root.iter("base")]
    canonical = [link.get("href") for link in root.iter("link") if (link.get("rel") or "").lower() == "canonical"]
    addresses = [(address or "").strip() for address in (*bases, *canonical, metas.get("og:url"))]
    base = next((address for address in addresses if address.startswith(("http://", "https://"))), "")
    language = root.get("lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang") or root.get("xml:lang") or ""
    metadata = {"language": language.strip().lower()}
    for key, names in ABOUT.items():
        metadata[key] = next((metas[name] for name in names if name in metas), "")
    if not re.match(r"\d{4}-\d\d-\d\d", metadata["date"]):
        metadata["date"] = ""
    metadata["url"] = base
    return title, {key: value for key, value in metadata.items() if value}, base


# --- what is content -------------------------------------------------------------------------------------------------


def content_of(root: Element) -> Element:
    """The element that holds the content; what surrounds and interrupts it is removed from the tree.

    A simple page is its whole body: nothing is taken out that would leave little behind.
    """
    _remove_invisible(root)
    body = root.find(".//body")
    top = body = root if body is None else body
    total = _characters(body)
    for path in (".//main", ".//*[@role='main']", ".//article"):
        candidates = body.findall(path)
        if len(candidates) == 1 and _characters(candidates[0]) >= MAIN_SHARE * total:
            top = candidates[0]
            break
    _remove_around(top, _surroundings(top, keep_header=top is not body))
    _remove_around(top, _link_lists(top))
    return top


def _remove_invisible(root: Element) -> None:
    _remove(element for element in root.iter() if _is_invisible(element))


def _is_invisible(element: Element) -> bool:
    tag = element.tag
    if tag in NEVER:
        return True
    if tag in ("html", "body", "main", "article"):
        return False  # hidden only until a script shows them
    style = element.get("style")
    hidden = element.get("hidden") is not None or element.get("aria-hidden") == "true"
    return hidden or bool(style and INVISIBLE.search(style))


def _remove_around(top: Element, candidates: list[Element]) -> None:
    """Takes out navigation and the like, unless that would take most of the text."""
    # Links do not count as text: a short article may stand beside a long list of them.
    size = _prose if _prose(top) >= LITTLE else _characters
    total = size(top)
    lost = sum(size(element) for element in candidates)
    if total - lost < KEPT_SHARE * total:  # what is certainly navigation can still go
        candidates = [element for element in candidates if element.tag in ("nav", "aside")]
    _remove(candidates)


def _surroundings(top: Element, keep_header: bool) -> list[Element]:
    """The outermost elements that say of themselves that they are not content."""
    found = []
    walker = etree.iterwalk(top, events=("start",))
    for _, element in walker:
        tag = element.tag
        if element is top or tag in ("body", "main", "article"):
            continue
        if tag == "header" and (keep_header or _holds(element, "h1") or list(element.iterancestors("article"))):
            continue  # the title of an article
        marked = tag in AROUND and (tag != "form" or not _holds(element, "p", "table", "h1"))  # one around all
        names = f"{element.get('class') or ''} {element.get('id') or ''}" if tag in NAMED_TAGS else ""
        named = AROUND_NAMES.search(names)
        if (marked or named or element.get("role") in AROUND_ROLES) and not _is_box(element, tag, named):
            found.append(element)
            walker.skip_subtree()
    return found


def _is_box(element: Element, tag: str, named: re.Match[str] | None) -> bool:
    """Is what is called an aside or a sidebar a box of running text? Manuals set tips, notes and footnotes so."""
    is_aside = tag == "aside" or bool(named and named.group().lower() == "sidebar")
    return is_aside and "." in (text := one_line(element.text_content())) and _prose(element) >= BOX_SHARE * _size(text)


def _holds(element: Element, *tags: str) -> bool:
    return next(element.iterdescendants(*tags), None) is not None


def _link_lists(top: Element) -> list[Element]:
    """The outermost elements that are nothing but many short links: menus that are not marked as such."""
    menus: set[Element] = set()
    counts: list[list[int]] = [[0, 0, 0]]  # per open element: characters, of these in links, links
    link_depth = 0
    for event, element in etree.iterwalk(top, events=("start", "end")):
        if event == "start":
            link_depth += element.tag == "a"
            size = _size(element.text)
            counts.append([size, size if link_depth else 0, element.tag == "a"])
            continue
        link_depth -= element.tag == "a"
        size, linked, links = counts.pop()
        short = linked >= MENU_SHARE * size and linked < MENU_LINK_SIZE * links
        if links >= MENU_LINKS and short and element is not top and element.tag in MENU_TAGS:
            menus.add(element)
        after = _size(element.tail)
        outer = counts[-1]
        outer[0] += size + after
        outer[1] += linked + (after if link_depth else 0)
        outer[2] += links
    return [menu for menu in menus if menus.isdisjoint(menu.iterancestors())]


def _size(text: str | None) -> int:
    return len("".join(text.split())) if text else 0


def _remove(elements: Iterable[Element]) -> None:
    """Takes elements out of the tree; the text that follows them stays."""
    for element in list(elements):
        if element.getparent() is not None:
            element.drop_tree()


def _prose(element: Element) -> int:
    return _characters(element) - sum(_characters(link) for link in element.iter("a"))


def _characters(element: Element) -> int:
    """Characters without white space, counted in C."""
    text = etree.tostring(element, method="text", encoding="unicode", with_tail=False)
    return len(text) - sum(map(text.count, " \n\t"))


# --- from the tree to items ------------------------------------------------------------------------------------------


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
        self.content = content
        self.own_host = urlsplit(base).hostname or ""
        own_links = sum(1 for link in content.iter("a") if self._resolved(link.get("href") or "")[0] == self.own_host)
        self.show_own = own_links <= MAX_OWN_LINKS

    def run(self) -> list[Item]:
        walker = etree.iterwalk(self.content, events=("start", "end"))
        for event, element in walker:
            tag = element.tag
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
            if event == "end" and element is not self.content and element.tail:
                self._text(element.tail)
        self._flush()
        self._close_lists()
        return self.items

    def _start(self, element: Element, tag: str) -> None:
        self.bold_depth += _is_bold(element, tag)
        if tag in BLOCKS:
            self._flush()
        if tag == "dt":
            self._flush_term()
        if tag in HEADINGS and not self.markers:
            self.heading = HEADINGS.index(tag) + 1
        elif tag in ("ul", "ol"):
            start = element.get("start") or "1"
            self.markers.append("-" if tag == "ul" else int(start) if start.isdigit() else 1)
        elif tag == "li":
            self.pending = self._marker()
        elif tag == "br":
            self.line.append("\n")
        elif tag == "img":
            alternative = one_line(element.get("alt") or "")
            if len(alternative) > 20:  # shorter ones are icons and decoration
                self.line.append(f" {alternative} ")
        if element.text:
            self._text(element.text)

    def _end(self, element: Element, tag: str) -> None:
        if tag == "dt":
            self.pending = one_line("".join(self.line)).rstrip(":") + ": "
            self.line = []
        elif tag in BLOCKS:
            self._flush()
            if tag == "dl":
                self._flush_term()
        elif tag == "a":
            self._address(element)
        if tag in HEADINGS:
            self.heading = 0
        elif tag in ("ul", "ol") and self.markers:
            self.markers.pop()
            if not self.markers:
                self._close_lists()

    def _text(self, text: str) -> None:
        text = re.sub(r"[ \t\n\r\f\u00a0\u200b]+", " ", text)
        self.line.append(text)
        self.size += len(text.strip())
        self.bold_size += len(text.strip()) if self.bold_depth else 0

    def _flush(self) -> None:
        """Ends the block under way."""
        text = "\n".join(map(one_line, "".join(self.line).split("\n"))).strip()
        self.line = []
        if not text:
            return
        is_bold = self.bold_size and self.bold_size >= 0.95 * self.size
        if self.heading:
            self.items.append(Item("heading", one_line(text), level=self.heading))
        elif self.markers:
            indentation = "  " * (len(self.markers) - 1)
            self.list_lines.append(indentation + (self.pending or "  ") + text.replace("\n", " "))
        elif is_bold and "\n" not in text and len(text) <= MAX_BOLD_HEADING:
            self.items.append(Item("text", self.pending + text, level=BOLD))
        else:
            self.items.extend(Item("text", part) for part in re.split(r"\n\s*\n", self.pending + text))
        self.pending = ""
        self.size = self.bold_size = 0

    def _flush_term(self) -> None:
        """A term that nothing describes, as in a table of contents, is a line of its own."""
        if self.pending.endswith(": "):
            self.line, self.pending = [self.pending.removesuffix(": ")], ""
            self._flush()

    def _close_lists(self) -> None:
        if self.list_lines:
            self.items.append(Item("list", "\n".join(self.list_lines)))
        self.list_lines = []

    def _marker(self) -> str:
        marker = self.markers[-1] if self.markers else "-"
        if isinstance(marker, str):
            return "- "
        self.markers[-1] = marker + 1
        return f"{marker}. "

    def _table(self, element: Element) -> None:
        caption = element.find("caption")
        if caption is not None:
            self.items.append(Item("text", one_line(caption.text_content())))
        table = read_table(element)
        rows = table.rows
        if self.markers:
            self.list_lines.extend("  " * len(self.markers) + CELL.join(row) for row in rows)
        elif len(rows) == 1:
            self.items.append(Item("text", " ".join(cell for cell in rows[0] if cell)))
        elif rows and max(map(len, rows)) == 1:
            self.items.extend(Item("text", row[0]) for row in rows)
        elif rows:
            self.items.append(Item("table", table=table))

    def _pre(self, element: Element) -> None:
        """Preformatted text is code, unless a whole letter was put into it."""
        text = element.text_content()
        if self.markers:
            self.list_lines.extend("  " * len(self.markers) + line for line in text.strip("\n").split("\n"))
        elif len(text) > LETTER and not plain.is_structured(text):
            self.items.extend(plain.items_of(text, []))
        else:
            self.items.append(Item("code", text))

    def _address(self, link: Element) -> None:
        """Adds the address behind a link: "the report (https://example.org/report)"."""
        href = (link.get("href") or "").strip()
        if not href or href.startswith("#") or self.heading:
            return
        host, address = self._resolved(href)
        if not host or (host == self.own_host and not self.show_own) or len(address) > MAX_ADDRESS:
            return
        label = link.text_content().strip().rstrip("/")
        if not label or label in (address.rstrip("/"), address.split("://", 1)[-1].rstrip("/")):
            return
        if self.base and address.split("#")[0] == self.base.split("#")[0]:
            return  # a link inside this page
        self.line = ["".join(self.line).rstrip(" "), f" ({address})"]

    def _resolved(self, href: str) -> tuple[str, str]:
        """Host and full address of a link; "" as the host of what is no address of the web."""
        try:
            address = urljoin(self.base, href)
            parts = urlsplit(address)
            return (parts.hostname or "") if parts.scheme in ("http", "https") else "", address
        except ValueError:
            return "", ""


def _is_bold(element: Element, tag: str) -> bool:
    style = element.get("style")
    return tag in ("b", "strong") or bool(style and BOLD_STYLE.search(style))


# --- tables ----------------------------------------------------------------------------------------------------------


def is_layout(table: Element) -> bool:
    """A table that only arranges the page: it holds other tables, headings or whole texts, or is a single cell.

    Its cells are then read one after the other, like any other part of the page.
    """
    if table.get("role") in ("presentation", "none") or _holds(table, "table"):
        return True
    if _holds(table, "th"):
        return False
    texts = [cell.text_content() for cell in table.iter("td")]
    filled = [len(text) for text in texts if text.strip()]
    return _holds(table, "h1", "h2", "h3", "h4", "pre") or len(filled) <= 1 or max(filled) > MAX_CELL


def read_table(table: Element) -> Table:
    """Rows of cells without empty rows and columns.

    A cell over several rows is read in each of them; one over several columns in the first of those.
    """
    rows: list[list[str]] = []
    header_flags: list[bool] = []
    names_rows = False  # "Born | 1815": the header cell is the first of its row
    open_spans: dict[int, tuple[int, str]] = {}  # column -> rows still covered from above, with what
    # Cells that only fill up a span: a page of 200 kB can claim billions. What is over the limit is read unspanned.
    left = padding(len(list(table.iter("td", "th"))))
    for row in table.iter("tr"):
        cells: list[str] = []
        in_header: list[bool] = []  # of the cells that say something
        for cell in [*row.iterchildren("td", "th"), None]:
            while left > 0 and (covered := open_spans.get(len(cells), (0, Beside())))[0] > 0:
                open_spans[len(cells)] = (covered[0] - 1, covered[1])
                cells.append(covered[1])
                left -= 1
            if cell is None:
                break
            width = min(_span(cell, "colspan"), MAX_SPAN, max(1, MAX_COLUMNS - len(cells)), max(1, left))
            left -= width - 1
            height = _span(cell, "rowspan")
            text = _cell_text(cell)
            if height > 1:
                again = [Below.of(text), *[Beside()] * (width - 1)]
                open_spans.update({len(cells) + offset: (height - 1, place) for offset, place in enumerate(again)})
            if text:
                in_header.append(cell.tag == "th")
            cells.extend([text, *[Beside()] * (width - 1)])
        if in_header:
            rows.append(cells)
            names_rows = names_rows or (any(in_header) and not all(in_header))
            header_flags.append(row.getparent().tag == "thead" or all(in_header))
    header_rows = [*header_flags, False].index(False)
    rows = join_columns(tidy_rows(join_signs(rows)))
    if header_rows >= len(rows) or (header_rows == 0 and not names_rows):
        return Table.of(rows)
    return Table(rows, header_rows)


def _cell_text(cell: Element) -> str:
    parts = []
    for event, element in etree.iterwalk(cell, events=("start", "end")):
        if element.tag in APART and element is not cell:
            parts.append(" ")
        if event == "start" and element.text:
            parts.append(element.text)
        elif event == "end" and element is not cell and element.tail:
            parts.append(element.tail)
    return one_line("".join(parts).replace("\u200b", ""))


def _span(cell: Element, name: str) -> int:
    value = (cell.get(name) or "1").strip()
    return max(1, min(int(value), 65_534)) if value.isdigit() and len(value) < 6 else 1
