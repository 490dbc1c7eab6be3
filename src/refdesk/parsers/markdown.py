"""Markdown: headings, lists, code, tables; front matter becomes metadata."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from refdesk.parsers.build import Builder, Item, ParseOptions, Table, first_title
from refdesk.parsers.html import strip_tags
from refdesk.parsers.text import decode
from refdesk.types import Parsed

FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S)
FRONT_LINE = re.compile(r"([A-Za-z_][\w -]{0,40}):[ \t]+(.+)")
MAX_NESTING = 20  # levels of lists and quotes; deeper ones are read as text
CODE = ("fence", "code_block")


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Reads CommonMark with tables; markup is dropped and the text of links kept."""
    metadata, body = split_front_matter(decode(data))
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING, "html": True}).enable(["table", "strikethrough"])
    items = _items(parser.parse(body))
    builder = Builder()
    builder.write(items)
    return builder.build("markdown", title=metadata.pop("title", "") or first_title(items), metadata=metadata)


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """The simple `key: value` lines between the first `---` lines, and the text below them.

    >>> split_front_matter("---\\ntitle: Costs\\n---\\nText")
    ({'title': 'Costs'}, 'Text')
    """
    front = FRONT_MATTER.match(text)
    if front is None:
        return {}, text
    metadata = {}
    for line in front.group(1).split("\n"):
        if pair := FRONT_LINE.fullmatch(line.rstrip()):
            metadata[pair.group(1).strip().lower()] = pair.group(2).strip().strip("\"'")
    return metadata, text[front.end() :]


def _items(tokens: Sequence[Token]) -> list[Item]:
    """Walks the flat token stream; lists are collected line by line until the outermost one closes."""
    items: list[Item] = []
    markers: list[str | int] = []  # per open list: "-" or the next number
    lines: list[str] = []  # of the list under way
    rows: list[list[str]] | None = None  # of the table under way
    for position, token in enumerate(tokens):
        if token.type == "table_open":
            rows = []
        elif token.type == "table_close":
            items.append(Item("table", table=Table(rows or [], 1)))
            rows = None
        elif rows is not None:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(_plain(token))
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            start = token.attrGet("start")
            markers.append("-" if token.type.startswith("bullet") else int(start if start is not None else 1))
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            markers.pop()
            if not markers:
                items.append(Item("list", "\n".join(lines)))
                lines = []
        elif token.type == "list_item_open":
            marker = markers[-1]
            sign = "-" if isinstance(marker, str) else f"{marker}."
            markers[-1] = marker if isinstance(marker, str) else marker + 1
            lines.append("  " * (len(markers) - 1) + sign + " ")
        elif token.type == "inline" and tokens[position - 1].type == "heading_open":
            items.append(Item("heading", _plain(token), level=int(tokens[position - 1].tag[1])))
        elif token.type in ("inline", "html_block", *CODE):
            text = token.content if token.type in CODE else _plain(token)
            if text.strip() and lines:
                _add_to_list(text, lines, "  " * len(markers))
            elif text.strip():
                items.append(Item("code" if token.type in CODE else "text", text))
    return items


def _add_to_list(text: str, lines: list[str], indentation: str) -> None:
    """The first text of an item stands behind its marker, what follows on lines of its own."""
    text = ("\n" + indentation).join(text.strip("\n").split("\n"))
    if lines[-1].endswith(("- ", ". ")):
        lines[-1] += text
    else:
        lines.append(indentation + text)


def _plain(token: Token) -> str:
    """The text a reader sees: no markup, images by their description, HTML tags left out."""
    if token.type == "html_block":
        return unescape(strip_tags(token.content)).strip()
    breaks = {"softbreak": " ", "hardbreak": "\n"}
    parts = []
    for child in token.children or ():
        if child.type in ("text", "code_inline", "image"):
            parts.append(child.content)
        else:
            parts.append(breaks.get(child.type, ""))
    return "".join(parts).strip()
