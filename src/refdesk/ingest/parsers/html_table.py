"""Tables of a web page: which hold data and which only arrange the page, and what their rows say."""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from refdesk.ingest.parsers.outline import FREE_CELLS, MAX_PADDING, guess_header_rows, tidy_rows

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
