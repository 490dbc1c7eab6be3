"""XLSX: a page per sheet; tables with their header row, titles above them as text, numbers as displayed."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lxml import etree

from refdesk.errors import TooLarge
from refdesk.parsers.build import Builder, ParseOptions, guess_header_rows, is_number, is_value, tidy_rows
from refdesk.parsers.number_format import BUILT_IN, shown
from refdesk.parsers.office import SAFE, Archive, main_part, open_office, parse_xml, properties, relations
from refdesk.types import Parsed

# The cells of a workbook as a reader sees them, streamed from its XML; memory grows with filled cells only.

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


DEFAULT_NAME = re.compile(r"(?:Sheet|Tabelle|Feuil|Hoja|Foglio|Лист|Blad|Plan|シート)\s?\d*", re.I)
MAX_HEADER_ROWS = 3


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Every sheet that holds something; several tables on a sheet are told apart by blank rows."""
    archive, _ = open_office(data, options)
    book = open_book(archive)
    builder = Builder()
    for done, (name, part) in enumerate(book.sheets, 1):
        rows, merges = read_sheet(archive, book, part, options)
        options.progress(done, len(book.sheets))
        if not rows:
            continue
        builder.page(name)
        if not DEFAULT_NAME.fullmatch(name):
            builder.heading(name, 1)
        for region in _regions(rows):
            _write_region(builder, region, merges)
    title, metadata = properties(archive)
    return builder.build("xlsx", title=title, metadata=metadata)


def _regions(rows: list[Row]) -> Iterator[list[Row]]:
    """Runs of rows without a blank row between them; one that only goes on after a gap is joined to its table."""
    region: list[Row] = []
    for row in rows:
        if region and row[0] > region[-1][0] + 1 and not _goes_on(region, row):
            yield region
            region = []
        region.append(row)
    if region:
        yield region


def _goes_on(region: list[Row], row: Row) -> bool:
    """Numbers after a blank row, where the table has not had any yet or has them in the same columns."""
    numbers = [column for column, text in row[1].items() if is_number(text)]
    if row[0] > region[-1][0] + 3 or len(row[1]) < 2 or len(numbers) * 2 < len(row[1]):
        return False
    if not any(is_value(text) for _, texts in region for text in texts.values()):
        return len(region[-1][1]) > 1 and len(region) <= MAX_HEADER_ROWS + 2  # so far only titles and a header
    return row[0] == region[-1][0] + 2 and len(region) > 2 and set(row[1]) <= set(region[0][1]) | set(region[-1][1])


def _write_region(builder: Builder, region: list[Row], merges: list[Merge]) -> None:
    """Lines above the table that fill a single cell are its titles; a region one column wide is text."""
    columns = sorted({column for _, texts in region for column in texts})
    if len(columns) == 1:
        lines = [texts[columns[0]] for _, texts in region]
        builder.block("text" if len(lines) <= 3 else "list", "\n".join(lines))
        return
    first = 0
    while first < len(region) - 1 and len(region[first][1]) == 1:
        text = next(iter(region[first][1].values()))
        if is_number(text):
            break
        builder.heading(text, 2) if first == 0 and len(text) <= 80 and text[-1:] not in ".:;" else builder.block(
            "text", text
        )
        first += 1
    last = len(region)
    notes: list[str] = []
    while last - first > 2 and len(region[last - 1][1]) == 1 and len(next(iter(region[last - 1][1].values()))) > 60:
        last -= 1
        notes.insert(0, next(iter(region[last][1].values())))
    body = region[first:last]
    rows = tidy_rows([[texts.get(column, "") for column in columns] for _, texts in body])
    if rows and len(rows[0]) == 1:
        builder.block("text", "\n".join(row[0] for row in rows))
    else:
        builder.table(rows, header_rows=_header_rows(rows, body, merges))
    for note in notes:
        builder.block("text", note)


def _header_rows(rows: list[list[str]], body: list[Row], merges: list[Merge]) -> int:
    """More than one when the first row has merged or empty cells that the rows below it explain, up to the numbers."""
    count = guess_header_rows(rows)
    top = body[0][0]
    spanning = any(merge.top == top and merge.right > merge.left for merge in merges)
    if not count or not (spanning or sum(1 for cell in rows[0] if cell) < 0.6 * len(rows[0])):
        return count
    while count < min(MAX_HEADER_ROWS, len(rows)) and not any(is_value(cell) for cell in rows[count]):
        count += 1
    return count if count < len(rows) and any(is_value(cell) for cell in rows[count]) else 1
