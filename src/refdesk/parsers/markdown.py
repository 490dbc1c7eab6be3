"""Markdown: headings, lists, code, tables; front matter becomes metadata."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape

from markdown_it import MarkdownIt
from markdown_it.token import Token

from refdesk.parsers.build import Builder, Item, ParseOptions, write
from refdesk.parsers.html import strip_tags
from refdesk.parsers.text import decode
from refdesk.types import Parsed

FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S)
FRONT_LINE = re.compile(r"([A-Za-z_][\w -]{0,40}):[ \t]+(.+)")
MAX_NESTING = 20  # levels of lists and quotes; deeper ones are read as text


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Reads CommonMark with tables; markup is dropped and the text of links kept."""
    text = decode(data)
    metadata, body = split_front_matter(text)
    parser = MarkdownIt("commonmark", {"maxNesting": MAX_NESTING, "html": True}).enable(["table", "strikethrough"])
    items = _items(parser.parse(body))
    builder = Builder()
    write(builder, items)
    title = metadata.pop("title", "")
    if not title:
        title = next((item.text for item in items if item.kind == "heading" and item.level == 1), "")
    return builder.build("markdown", title=title, metadata=metadata)


def split_front_matter(text: str) -> tuple[dict[str, str], str]:
    """The simple `key: value` lines between the first `---` lines, and the text below them.

    >>> split_front_matter("---\\ntitle: Costs\\n---\\nText")
    ({'title': 'Costs'}, 'Text')
    """
    found = FRONT_MATTER.match(text)
    if found is None:
        return {}, text
    metadata = {}
    for line in found.group(1).split("\n"):
        if pair := FRONT_LINE.fullmatch(line.rstrip()):
            metadata[pair.group(1).strip().lower()] = pair.group(2).strip().strip("\"'")
    return metadata, text[found.end() :]


def _items(tokens: Sequence[Token]) -> list[Item]:
    """Walks the flat token stream; lists are collected line by line until the outermost one closes."""
    items: list[Item] = []
    markers: list[str | int] = []  # per open list: "-" or the next number
    lines: list[str] = []
    position = 0
    while position < len(tokens):
        token = tokens[position]
        if token.type == "table_open":
            end = next(i for i in range(position, len(tokens)) if tokens[i].type == "table_close")
            items.append(_table(tokens[position:end]))
            position = end
        elif token.type in ("bullet_list_open", "ordered_list_open"):
            start = token.attrGet("start")
            markers.append("-" if token.type.startswith("bullet") else int(start if start is not None else 1))
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            markers.pop()
            if not markers:
                items.append(Item("list", "\n".join(lines)))
                lines = []
        elif token.type == "list_item_open":
            lines.append(_marker(markers))
        elif token.type == "heading_open":
            items.append(Item("heading", _plain(tokens[position + 1]), level=int(token.tag[1])))
            position += 1
        elif token.type in ("inline", "html_block", "fence", "code_block"):
            _add_text(token, items, lines, len(markers))
        position += 1
    return items


def _marker(markers: list[str | int]) -> str:
    marker = markers[-1]
    indentation = "  " * (len(markers) - 1)
    if isinstance(marker, int):
        markers[-1] = marker + 1
        return f"{indentation}{marker}. "
    return f"{indentation}- "


def _add_text(token: Token, items: list[Item], lines: list[str], depth: int) -> None:
    text = token.content if token.type in ("fence", "code_block") else _plain(token)
    if not text.strip():
        return
    if depth and lines:
        indentation = "  " * depth
        shown = ("\n" + indentation).join(text.strip("\n").split("\n"))
        lines[-1:] = (
            [lines[-1] + shown]
            if lines[-1].rstrip().endswith(("-", ".")) and lines[-1].endswith(" ")
            else [lines[-1], indentation + shown]
        )
    elif token.type in ("fence", "code_block"):
        items.append(Item("code", text))
    else:
        items.append(Item("text", text))


def _table(tokens: Sequence[Token]) -> Item:
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(_plain(token))
    return Item("table", rows=rows, header_rows=1)


def _plain(token: Token) -> str:
    """The text a reader sees: no markup, images by their description, HTML tags left out."""
    if token.type == "html_block":
        return unescape(strip_tags(token.content)).strip()
    parts = []
    for child in token.children or ():
        if child.type in ("text", "code_inline"):
            parts.append(child.content)
        elif child.type == "softbreak":
            parts.append(" ")
        elif child.type == "hardbreak":
            parts.append("\n")
        elif child.type == "image":
            parts.append(child.content)
    return "".join(parts).strip()
