"""Which part of a web page is its content? Navigation, banners and scripts are taken out of the tree."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from lxml import etree

Element = Any  # lxml's elements carry no useful types

NEVER = frozenset(
    [
        *(),
        *"script",),
        *"style",),
        *"noscript",),
        *"template",),
        *"svg",),
        *"iframe",),
        *"object",),
        *"embed",),
        *"applet",),
        *"canvas",),
        *"audio",),
        *"video",),
        *),
        *("map", "head", "link", "meta", "button", "select", "input", "textarea", "datalist", "progress", "dialog"),
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
MAIN_SHARE = 0.25  # of the page's text; a smaller <main> is a shell filled by scripts or misused
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
    for group in (_surroundings(top, keep), _link_lists(top)):
        candidates = _outermost(group)
        if not candidates:
            continue
        total = _characters(top)
        lost = sum(_characters(element) for element in candidates)
        if total - lost >= KEPT_SHARE * total:
            _remove(candidates)
        else:  # the small ones can still go
            _remove(
                element
                for element in candidates
                if _characters(element) < 0.1 * total and _name(element) in ("nav", "aside")
            )


def _surroundings(top: Element, keep: frozenset[str]) -> list[Element]:
    found = []
    for element in top.iterdescendants():
        tag = _name(element)
        if tag in keep or tag in ("body", "main", "article"):
            continue
        marked = tag in AROUND and (tag != "form" or not _holds_content(element))
        if marked or element.get("role") in AROUND_ROLES or (tag in NAMED_TAGS and _is_named_around(element)):
            found.append(element)
    return found


def _is_named_around(element: Element) -> bool:
    return any(name and AROUND_NAMES.search(name) for name in (element.get("class"), element.get("id")))


def _holds_content(form: Element) -> bool:
    """Some sites wrap the whole page in one form."""
    return form.find(".//p") is not None or form.find(".//table") is not None or form.find(".//h1") is not None


def _link_lists(top: Element) -> list[Element]:
    """Lists of many short links: menus that are not marked as such."""
    found = []
    for element in top.iterdescendants("ul", "ol"):
        links = element.findall(".//a")
        if len(links) < 5:
            continue
        linked = [" ".join("".join(link.itertext()).split()) for link in links]
        words = max(1, _characters(element))
        if sum(map(len, linked)) >= 0.9 * words and sum(map(len, linked)) / len(linked) < 30:
            found.append(element)
    return found


def _outermost(elements: Iterable[Element]) -> list[Element]:
    """Without those inside another one of them; document order puts ancestors first."""
    chosen: set[Element] = set()
    result = []
    for element in elements:
        inside = False
        for ancestor in element.iterancestors():
            if ancestor in chosen:
                inside = True
                break
        if not inside:
            chosen.add(element)
            result.append(element)
    return result


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


def _name(element: Element) -> str:
    return element.tag.lower() if isinstance(element.tag, str) else ""


def _characters(element: Element) -> int:
    """Characters without white space, counted in C."""
    text = etree.tostring(element, method="text", encoding="unicode", with_tail=False)
    return len(text) - sum(map(text.count, " \n\t"))
