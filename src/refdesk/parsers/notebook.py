"""IPYNB, a Jupyter notebook: its texts as Markdown, its code, and what the code has shown, tables as tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from refdesk.errors import BrokenFile
from refdesk.parsers import html
from refdesk.parsers.build import Builder, Item, ParseOptions, first_title
from refdesk.parsers.text import decode
from refdesk.types import Parsed

MAX_OUTPUT = 20_000  # characters of what one cell has printed; more is a log
COLOURS = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")  # of a terminal


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Cells in their order; a heading of level 1 opens a page."""
    try:
        book = json.loads(decode(data))
    except ValueError as error:
        raise BrokenFile("this Jupyter notebook is truncated or damaged: it is not valid JSON") from error
    items = [item for cell in _cells(book) for item in _items(cell)]
    builder = Builder()
    builder.write(items)
    about = _dict(_dict(book).get("metadata"))
    authors = [_text(_dict(author).get("name")) for author in _list(about.get("authors"))]
    metadata = {"author": ", ".join(filter(None, authors))} if any(authors) else {}
    return builder.build("ipynb", title=_text(about.get("title")) or first_title(items), metadata=metadata)


def _cells(book: Any) -> list[dict[str, Any]]:
    """Of nbformat 4, and of 3, which had worksheets."""
    sheets = [book, *_list(_dict(book).get("worksheets"))]
    return [_dict(cell) for sheet in sheets for cell in _list(_dict(sheet).get("cells"))]


def _items(cell: dict[str, Any]) -> Iterator[Item]:
    source = _text(cell.get("source", cell.get("input")))
    match cell.get("cell_type"):
        case "markdown":
            yield from html.markdown_items(source)
        case "heading":
            level = cell.get("level")
            yield Item("heading", source, level=level if isinstance(level, int) and 0 < level < 7 else 1)
        case "code":
            yield Item("code", source)
            for output in _list(cell.get("outputs")):
                yield from _shown(_dict(output))
        case _:
            yield Item("text", source)


def _shown(output: dict[str, Any]) -> Iterator[Item]:
    """What a cell has shown, in the richest form that is text; pictures and errors say nothing to a reader."""
    if output.get("output_type") in ("pyerr", "error"):
        return
    data = _dict(output.get("data")) or output
    for kind, old in (("text/html", "html"), ("text/markdown", "markdown"), ("text/plain", "text")):
        if not (text := _text(data.get(kind, data.get(old)))).strip():
            continue
        if old == "html":
            root, complete = html.read_tree(text)
            yield from html.items_of(root) if complete else [Item("text", html.strip_tags(text))]
        elif old == "markdown":
            yield from html.markdown_items(text)
        else:
            yield Item("code", COLOURS.sub("", text)[:MAX_OUTPUT])
        return


def _text(value: Any) -> str:
    """Texts are kept whole or as a list of lines."""
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
