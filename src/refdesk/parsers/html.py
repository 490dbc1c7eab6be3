"""HTML: main content, headings, lists, tables, code; links with their full address."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from lxml import etree
from lxml.html import HTMLParser

from refdesk.errors import EmptyDocument
from refdesk.parsers.build import Builder, Item, ParseOptions, write
from refdesk.parsers.html_blocks import BOLD, Walk
from refdesk.parsers.text import decode
from refdesk.types import Parsed

# Which part of a web page is its content? Navigation, banners and scripts are taken out of the tree.

Element = Any  # lxml's elements carry no useful types

NEVER = frozenset(
    [
        *("script", "style", "noscript", "template", "svg", "iframe", "object", "embed", "applet", "canvas"),
        *("audio", "video", "map", "head", "link", "meta", "button", "select", "input", "textarea", "datalist"),
        *("progress", "dialog"),
        "ix:header",  # facts of a filing for machines
    ]
)
AROUND = frozenset(["nav", "header", "footer", "aside", "form", "menu"])
AROUND_ROLES = frozenset(
    ["navigation", "banner", "contentinfo", "complementary", "dialog", "alertdialog", "search", "menubar", "toolbar"]
)
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
MENU_LINK_SIZE = 25  # characters without spaces; the titles in a list of articles are longer
MAIN_SHARE = 0.25  # of the page's text; a smaller <main> is a shell filled by scripts or misused
LITTLE = 200  # characters outside links; with fewer, the links are the content
KEPT_SHARE = 0.4  # taking out "surroundings" may not cost more than the rest of the words


def content_of(root: Element) -> Element:
    """The element that holds the content; what surrounds and interrupts it is removed from the tree.

    A simple page is its whole body: nothing is taken out that would leave little behind.
    """
    _remove(element for element in root.iter() if _is_invisible(element))
    body = root.find(".//body")
    body = root if body is None else body
    total = _characters(body)
    for path in (".//main", ".//*[@role='main']", ".//article"):
        found = body.findall(path)
        if len(found) == 1 and _characters(found[0]) >= MAIN_SHARE * total:
            _remove_around(found[0], keep=frozenset(["header"]))
            return found[0]
    _remove_around(body, keep=frozenset())
    return body


def _is_invisible(element: Element) -> bool:
    tag = _name(element)
    if not tag or tag in NEVER:  # comments and processing instructions have no name
        return True
    if tag in ("html", "body", "main", "article"):
        return False  # hidden only until a script shows them
    style = element.get("style")
    hidden = element.get("hidden") is not None or element.get("aria-hidden") == "true"
    return hidden or bool(style and INVISIBLE.search(style))


def _remove_around(top: Element, keep: frozenset[str]) -> None:
    """Takes out navigation and the like, unless that would take most of the text."""
    for what in ("surroundings", "menus"):
        candidates = _surroundings(top, keep) if what == "surroundings" else _link_lists(top)
        # Links do not count as text: a short article may stand beside a long list of them.
        size = _prose if _prose(top) >= LITTLE else _characters
        total = size(top)
        lost = sum(size(element) for element in candidates)
        if total - lost >= KEPT_SHARE * total:
            _remove(candidates)
        else:  # what is certainly navigation can still go
            _remove(element for element in candidates if _name(element) in ("nav", "aside"))


def _surroundings(top: Element, keep: frozenset[str]) -> list[Element]:
    """The outermost elements that say of themselves that they are not content."""
    found = []
    walker = etree.iterwalk(top, events=("start",))
    for _, element in walker:
        tag = _name(element)
        if element is top or tag in keep or tag in ("body", "main", "article"):
            continue
        if tag == "header" and _heads_an_article(element):
            continue
        marked = tag in AROUND and (tag != "form" or not _holds_content(element))
        if marked or element.get("role") in AROUND_ROLES or (tag in NAMED_TAGS and _is_named_around(element)):
            found.append(element)
            walker.skip_subtree()
    return found


def _heads_an_article(header: Element) -> bool:
    """The title of an article stands in a header too."""
    return next(header.iter("h1"), None) is not None or next(header.iterancestors("article"), None) is not None


def _is_named_around(element: Element) -> bool:
    return any(name and AROUND_NAMES.search(name) for name in (element.get("class"), element.get("id")))


def _holds_content(form: Element) -> bool:
    """Some sites wrap the whole page in one form."""
    return any(next(form.iter(tag), None) is not None for tag in ("p", "table", "h1"))


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
        if links >= MENU_LINKS and linked >= 0.9 * size and linked < MENU_LINK_SIZE * links and element is not top:
            menus.add(element)
        after = _size(element.tail)
        outer = counts[-1]
        outer[0] += size + after
        outer[1] += linked + (after if link_depth else 0)
        outer[2] += links
    found = []
    walker = etree.iterwalk(top, events=("start",))
    for _, element in walker:
        if element in menus and element.tag in MENU_TAGS:
            found.append(element)
            walker.skip_subtree()
    return found


def _size(text: str | None) -> int:
    return len("".join(text.split())) if text else 0


def _remove(elements: Iterable[Element]) -> None:
    """Takes elements out of the tree; the text that follows them stays."""
    for element in list(elements):
        parent = element.getparent()
        if parent is None:
            continue
        if element.tail:
            previous = element.getprevious()
            if previous is not None:
                previous.tail = (previous.tail or "") + element.tail
            else:
                parent.text = (parent.text or "") + element.tail
        parent.remove(element)


def _prose(element: Element) -> int:
    return _characters(element) - sum(_characters(link) for link in element.iter("a"))


def _name(element: Element) -> str:
    return element.tag.lower() if isinstance(element.tag, str) else ""


def _characters(element: Element) -> int:
    """Characters without white space, counted in C."""
    text = etree.tostring(element, method="text", encoding="unicode", with_tail=False)
    return len(text) - sum(map(text.count, " \n\t"))


CHARSET = re.compile(
    rb"<meta[^>]{0,300}?charset\s*+=\s*+(?:[\"']\s*+)?([\w-]{1,40})|<\?xml[^>]{0,200}?encoding\s*+=\s*+[\"']([\w-]{1,40})",
    re.I,
)
PART = re.compile(r"PART\s+[IVX\d]+\b.{0,80}", re.I)
SECTION = re.compile(r"(?:ITEM|NOTE|SECTION|ARTICLE)\s+\d+", re.I)
PAGE_NUMBER = re.compile(r"\d{1,4}")
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
    walk = Walk(base, content)
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
