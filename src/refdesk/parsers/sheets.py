"""XLSX, CSV and TSV: one page per sheet or 1,000 rows; titles above a table as text, numbers as displayed."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import isfinite

from lxml import etree

from refdesk.errors import TooLarge
from refdesk.parsers.build import Builder, ParseOptions, guess_header_rows, is_number, tidy_rows
from refdesk.parsers.office import SAFE, Archive, Element, main_part, open_office, parse_xml, properties, relations
from refdesk.parsers.sheet_layout import ERRORS, MAX_COLUMNS, Merge, Sheet
from refdesk.parsers.sheet_numbers import BUILT_IN, shown
from refdesk.parsers.text import decode
from refdesk.types import Parsed

ROWS_PER_PAGE = 1000  # of a CSV; a page is what a citation opens: small enough to look through, few enough to list
DELIMITERS = ",;\t|"
NO_DELIMITER = "\x1f"  # a control character that texts do not hold: every line is one cell
SAMPLE = 1 << 16

REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})", re.I)
ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


@dataclass(frozen=True, slots=True)
class Book:
    """What sheets share: texts, number formats by style, and where each sheet is."""

    sheets: tuple[tuple[str, str], ...]  # (name, part)
    strings: tuple[str, ...]
    formats: tuple[str, ...]
    from_1904: bool


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Every sheet that holds something; several tables on a sheet are told apart by blank rows."""
    archive = open_office(data, options)
    book = _open_book(archive)
    builder = Builder()
    for done, (name, part) in enumerate(book.sheets, 1):
        _read_sheet(archive, book, part, options).write(builder, name)
        options.progress(done, len(book.sheets))
    title, metadata = properties(archive)
    return builder.build("xlsx", title=title, metadata=metadata)


def parse_csv(data: bytes, options: ParseOptions) -> Parsed:
    """Rows become lines "cell | cell"; the header row stands at the head of every page."""
    text = decode(data)
    if len(text) > options.max_characters:
        raise TooLarge(f"the text has {len(text):,} characters, over the limit of {options.max_characters:,}")
    delimiter = find_delimiter(text)
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
    reader = csv.reader(io.StringIO(text.replace("\x00", ""), newline=""), delimiter=delimiter, skipinitialspace=True)
    rows = tidy_rows(list(reader))
    widest = max(map(len, rows), default=0)
    if widest > MAX_COLUMNS:
        raise TooLarge(f"a row of this file has {widest:,} columns; at most {MAX_COLUMNS:,} are read")
    builder = Builder()
    titles = _titles(rows)
    rows = tidy_rows(rows[len(titles) :])
    header_rows = guess_header_rows(rows) or _single_column_header(rows)
    header, body = rows[:header_rows], rows[header_rows:]
    for begin in range(0, max(1, len(body)), ROWS_PER_PAGE):
        part = body[begin : begin + ROWS_PER_PAGE]
        many = len(body) > ROWS_PER_PAGE
        builder.page(f"Rows {begin + 1:,}–{begin + len(part):,}" if many else "")
        if begin == 0:
            builder.block("text", "\n".join(titles))
        builder.table([*header, *part], header_rows=header_rows)
    return builder.build("tsv" if delimiter == "\t" else "csv", metadata={"rows": str(len(body))})


def find_delimiter(text: str) -> str:
    """The delimiter that cuts the first lines into the most equal rows; none when most lines have none.

    >>> find_delimiter("name;price\\nA, B;3\\n")
    ';'
    """
    sample = text[:SAMPLE]
    if len(text) > SAMPLE:
        sample = sample[: sample.rfind("\n") + 1] or sample
    best, best_score = NO_DELIMITER, 0.0
    for delimiter in DELIMITERS:
        try:
            widths = [len(row) for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter) if row][:200]
        except csv.Error:
            continue
        usual = max(sorted(set(widths), reverse=True), key=widths.count, default=1)
        # How many rows agree, then how many columns: agreement matters more than a wide split.
        score = 0.0 if usual == 1 else widths.count(usual) / len(widths) + min(usual, 50) / 1000
        if score > best_score:
            best, best_score = delimiter, score
    return best


def _titles(rows: list[list[str]]) -> list[str]:
    """Lines above the table that fill a single cell: "Sales 2024,,,"."""
    titles: list[str] = []
    for row, _ in pairwise(rows):
        if len(row) < 2 or not row[0] or any(row[1:]) or is_number(row[0]):
            break
        titles.append(row[0])
    return titles if len(titles) <= 3 and len(rows) - len(titles) >= 2 else []


def _single_column_header(rows: list[list[str]]) -> int:
    """A column of numbers under a word has a header too."""
    if len(rows) < 3 or len(rows[0]) != 1 or is_number(rows[0][0]):
        return 0
    return 1 if all(is_number(row[0]) for row in rows[1:20]) else 0


# --- the cells of a workbook, streamed from its XML; memory grows with filled cells only -----------------------------


def _open_book(archive: Archive) -> Book:
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
    strings = by_kind.get("sharedStrings", "")
    styles = by_kind.get("styles", "")
    settings = next(workbook.iter("{*}workbookPr"), None)
    return Book(
        tuple(sheets),
        tuple(map(_rich_text, _stream(archive, strings, "{*}si"))) if archive.has(strings) else (),
        _formats(parse_xml(archive.read(styles))) if archive.has(styles) else (),
        settings is not None and settings.get("date1904") in ("1", "true"),
    )


def _formats(styles: Element) -> tuple[str, ...]:
    """The number format of each cell style."""
    formats = {item.get("numFmtId"): item.get("formatCode") or "General" for item in styles.iter("{*}numFmt")}
    ids = [style.get("numFmtId") or "0" for style in styles.iterfind(".//{*}cellXfs/{*}xf")]
    return tuple(formats.get(key) or BUILT_IN.get(int(key) if key.isdigit() else 0, "General") for key in ids)


def _stream(archive: Archive, part: str, *tags: str) -> Iterator[Element]:
    """The elements of these tags one after the other; each is forgotten when the next is asked for."""
    with archive.open(part) as source:
        for _, element in etree.iterparse(source, tag=tags, **SAFE):
            yield element
            element.clear()
            while element.getprevious() is not None:
                del element.getparent()[0]


def _read_sheet(archive: Archive, book: Book, part: str, options: ParseOptions) -> Sheet:
    sheet = Sheet(options)
    number = 0
    for element in _stream(archive, part, "{*}row", "{*}mergeCell"):
        if element.tag.endswith("}mergeCell"):
            if merge := _merge(element.get("ref") or ""):
                sheet.merges.append(merge)
            continue
        claimed = element.get("r") or ""
        number = int(claimed) if claimed.isdigit() and len(claimed) < 8 else number + 1
        sheet.add(number, _row(element, book))
    return sheet


def _row(element: Element, book: Book) -> dict[int, str]:
    texts: dict[int, str] = {}
    column = 0
    for cell in element:
        letters = (cell.get("r") or "").rstrip("0123456789")
        column = _column_number(letters) if letters.isalpha() and len(letters) <= 3 else column + 1
        if text := _cell(cell, book):
            texts[column] = text
    return texts


def _cell(cell: Element, book: Book) -> str:
    kind = cell.get("t") or "n"
    if kind == "inlineStr":
        return "".join(_rich_text(text) for text in cell.iterchildren("{*}is"))
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
    try:
        number = float(value)
    except ValueError:
        return value
    style = cell.get("s") or "0"
    index = int(style) if style.isdigit() else 0
    code = book.formats[index] if index < len(book.formats) else "General"
    return shown(number, code, from_1904=book.from_1904) if isfinite(number) else value


def _merge(reference: str) -> Merge | None:
    corners = [REFERENCE.fullmatch(corner) for corner in reference.replace("$", "").split(":")]
    if len(corners) != 2 or corners[0] is None or corners[1] is None:
        return None
    left, right = _column_number(corners[0].group(1)), _column_number(corners[1].group(1))
    return Merge(int(corners[0].group(2)), left, int(corners[1].group(2)), right)


@lru_cache(maxsize=20_000)
def _column_number(letters: str) -> int:
    """ "A" -> 1, "AA" -> 27."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - 64
    return number


def _rich_text(element: Element) -> str:
    """The text of all runs, without the reading aids of Japanese (rPh)."""
    runs = [t.text or "" for t in element.iter("{*}t") if not t.getparent().tag.endswith("}rPh")]
    return _unescaped("".join(runs)).strip()


def _unescaped(text: str) -> str:
    return ESCAPED.sub(lambda code: chr(int(code.group(1), 16)), text) if "_x" in text else text
