"""HTML: main content, headings, lists, tables, code; links with their full address."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

from lxml import etree
from lxml.html import HTMLParser

from refdesk.errors import EmptyDocument
from refdesk.ingest.parsers.builder import Builder
from refdesk.ingest.parsers.decode import decode
from refdesk.ingest.parsers.html_content import content_of
from refdesk.ingest.parsers.html_walk import BOLD, Walk
from refdesk.ingest.parsers.options import ParseOptions
from refdesk.ingest.parsers.outline import Item, write
from refdesk.types import Parsed

Element = Any

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
