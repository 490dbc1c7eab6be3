"""The cells of a workbook as a reader sees them, streamed from its XML; memory grows with filled cells only."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lxml import etree

from refdesk.errors import TooLarge
from refdesk.ingest.archive import Archive
from refdesk.ingest.parsers.number_format import BUILT_IN, shown
from refdesk.ingest.parsers.office import SAFE, main_part, parse_xml, relations
from refdesk.ingest.parsers.options import ParseOptions

Row = tuple[int, dict[int, str]]  # (number of the row, text by number of the column), both from 1

REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})", re.I)
ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
MAX_CELLS = 20_000_000  # filled cells in one workbook
ERRORS = frozenset(["#REF!", "#NAME?", "#NULL!"])  # say nothing to a reader


@dataclass(frozen=True, slots=True)
class Book:
    """What sheets share: texts, number formats by style, and where each sheet is."""

    sheets: tuple[tuple[str, str], ...]  # (name, part)
    strings: tuple[str, ...]
    formats: tuple[str, ...]
    from_1904: bool


@dataclass(frozen=True, slots=True)
class Merge:
    """A rectangle of cells shown as one."""

    top: int
    left: int
    bottom: int
    right: int


def open_book(archive: Archive) -> Book:
    main = main_part(archive, "xl/workbook.xml")
    workbook = parse_xml(archive.read(main))
    related = relations(archive, main)
    sheets = []
    for sheet in workbook.iter("{*}sheet"):
        relation = next((value for key, value in sheet.attrib.items() if key.endswith("}id")), "")
        kind, part = related.get(relation, ("", ""))
        if kind.endswith("/worksheet") and archive.has(part):
            sheets.append((sheet.get("name") or "", part))
    by_kind = {kind.rsplit("/", 1)[-1]: part for kind, part in related.values()}
    properties = next(workbook.iter("{*}workbookPr"), None)
    return Book(
        tuple(sheets),
        _strings(archive, by_kind.get("sharedStrings", "")),
        _formats(archive, by_kind.get("styles", "")),
        properties is not None and properties.get("date1904") in ("1", "true"),
    )


def read_sheet(archive: Archive, book: Book, part: str, options: ParseOptions) -> tuple[list[Row], list[Merge]]:
    """The filled rows of a sheet in order, with the text of vertically merged cells in each of their rows."""
    rows: list[Row] = []
    merges: list[Merge] = []
    cells = characters = number = 0
    with archive.open(part) as source:
        for _, element in etree.iterparse(source, tag=("{*}row", "{*}mergeCell"), **SAFE):
            if element.tag.endswith("}mergeCell"):
                if merge := _merge(element.get("ref") or ""):
                    merges.append(merge)
            else:
                claimed = element.get("r") or ""
                number = int(claimed) if claimed.isdigit() and len(claimed) < 8 else number + 1
                if texts := _row(element, book):
                    rows.append((number, texts))
                    cells += len(texts)
                    characters += sum(map(len, texts.values()))
                if cells > MAX_CELLS or characters > options.max_characters:
                    raise TooLarge(f"the workbook has more than {min(cells, MAX_CELLS):,} filled cells")
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    rows.sort(key=lambda row: row[0])
    _fill_down(rows, merges)
    return rows, merges


def _row(element: Any, book: Book) -> dict[int, str]:
    texts: dict[int, str] = {}
    column = 0
    for cell in element:
        letters = (cell.get("r") or "").rstrip("0123456789")
        column = column_number(letters) if letters.isalpha() and len(letters) <= 3 else column + 1
        text = _cell(cell, book)
        if text:
            texts[column] = text
    return texts


def _cell(cell: Any, book: Book) -> str:
    kind = cell.get("t") or "n"
    if kind == "inlineStr":
        return _rich_text(next(cell.iterchildren("{*}is"), None))
    value = next((child.text for child in cell if child.tag.endswith("}v")), None) or ""
    if not value:
        # A formula that no program has computed yet; files written by scripts have such.
        formula = next((child.text for child in cell if child.tag.endswith("}f")), None)
        return f"={formula}" if formula else ""
    if kind == "s":
        return book.strings[int(value)] if value.isdigit() and int(value) < len(book.strings) else ""
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE"
    if kind == "e":
        return "" if value in ERRORS else value
    if kind == "d":
        return value.replace("T00:00:00", "").removesuffix(".000").replace("T", " ")
    if kind == "str":
        return _unescaped(value).strip()
    return _number(value, cell.get("s") or "0", book)


def _number(value: str, style: str, book: Book) -> str:
    try:
        number = float(value)
    except ValueError:
        return value
    if number != number or number in (float("inf"), float("-inf")):
        return value
    index = int(style) if style.isdigit() else 0
    code = book.formats[index] if index < len(book.formats) else "General"
    return shown(number, code, from_1904=book.from_1904)


def _fill_down(rows: list[Row], merges: list[Merge]) -> None:
    """A value merged over several rows belongs to each of them; over several columns it is shown once."""
    numbers = [number for number, _ in rows]
    for merge in merges:
        if merge.bottom == merge.top:
            continue
        first = bisect_left(numbers, merge.top)
        if first == len(rows) or numbers[first] != merge.top:
            continue
        text = rows[first][1].get(merge.left, "")
        if not text:
            continue
        for _, texts in rows[first + 1 : bisect_right(numbers, merge.bottom)]:
            texts.setdefault(merge.left, text)


def _merge(reference: str) -> Merge | None:
    corners = [REFERENCE.fullmatch(corner) for corner in reference.replace("$", "").split(":")]
    if len(corners) != 2 or corners[0] is None or corners[1] is None:
        return None
    left, right = column_number(corners[0].group(1)), column_number(corners[1].group(1))
    return Merge(int(corners[0].group(2)), left, int(corners[1].group(2)), right)


@lru_cache(maxsize=20_000)
def column_number(letters: str) -> int:
    """ "A" -> 1, "AA" -> 27."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number


def _strings(archive: Archive, part: str) -> tuple[str, ...]:
    if not archive.has(part):
        return ()
    texts = []
    with archive.open(part) as source:
        for _, element in etree.iterparse(source, tag="{*}si", **SAFE):
            texts.append(_rich_text(element))
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]
    return tuple(texts)


def _rich_text(element: Any) -> str:
    """The text of all runs, without the reading aids of Japanese (rPh)."""
    if element is None:
        return ""
    runs = [t.text or "" for t in element.iter("{*}t") if not t.getparent().tag.endswith("}rPh")]
    return _unescaped("".join(runs)).strip()


def _unescaped(text: str) -> str:
    return ESCAPED.sub(lambda found: chr(int(found.group(1), 16)), text) if "_x" in text else text


def _formats(archive: Archive, part: str) -> tuple[str, ...]:
    """The number format of each cell style."""
    if not archive.has(part):
        return ()
    styles = parse_xml(archive.read(part))
    own = {item.get("numFmtId"): item.get("formatCode") or "General" for item in styles.iter("{*}numFmt")}
    cell_styles = next(styles.iter("{*}cellXfs"), None)
    if cell_styles is None:
        return ()
    ids = [style.get("numFmtId") or "0" for style in cell_styles.iterchildren("{*}xf")]
    return tuple(own.get(key) or BUILT_IN.get(int(key) if key.isdigit() else 0, "General") for key in ids)
