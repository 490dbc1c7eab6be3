"""Which part of a web page is its content? Navigation, banners and scripts are taken out of the tree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lxml import etree

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
