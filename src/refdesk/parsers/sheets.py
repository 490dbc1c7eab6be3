"""XLSX, CSV and TSV: one page per sheet or 1,000 rows; titles above a table as text, numbers as displayed."""

from __future__ import annotations

import csv
import io
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from functools import lru_cache
from itertools import pairwise
from math import isfinite

from lxml import etree

from refdesk.errors import TooLarge
from refdesk.parsers.build import (
    MAX_HEADER_ROWS,
    Below,
    Beside,
    Builder,
    ParseOptions,
    guess_header_rows,
    is_number,
    is_value,
    tidy_rows,
)
from refdesk.parsers.office import SAFE, Archive, Element, main_part, open_office, parse_xml, properties, relations
from refdesk.parsers.text import decode
from refdesk.types import Parsed

ROWS_PER_PAGE = 1000  # of a CSV; a page is what a citation opens: small enough to look through, few enough to list
DELIMITERS = ",;\t|"
NO_DELIMITER = "\x1f"  # a control character that texts do not hold: every line is one cell
SAMPLE = 1 << 16
MAX_COLUMNS = 16_384  # those of a spreadsheet; the header row is repeated on every page, so its width counts often

Row = tuple[int, dict[int, str]]  # (number of the row, text by number of the column), both from 1

REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})", re.I)
ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
MAX_CELLS = 20_000_000  # filled cells in one workbook
ERRORS = frozenset(["#REF!", "#NAME?", "#NULL!"])  # say nothing to a reader
DEFAULT_NAME = re.compile(r"(?:Sheet|Tabelle|Feuil|Hoja|Foglio|Лист|Blad|Plan|シート)\s?\d*", re.I)

# Formats a file names by number only (ECMA-376 part 1, 18.8.30); 14 and 22 follow the reader's country, so ISO it is.
BUILT_IN = {
    0: "General", 1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?",
    13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM",
    20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 37: "#,##0;(#,##0)", 38: "#,##0;(#,##0)",
    39: "#,##0.00;(#,##0.00)", 40: "#,##0.00;(#,##0.00)", 41: "#,##0", 42: "$#,##0",
    43: "#,##0.00", 44: "$#,##0.00", 45: "mm:ss", 46: "[h]:mm:ss",
    47: "mm:ss.0", 48: "##0.0E+0", 49: "@",
}  # fmt: skip
TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|_.|\*.|\[\$(?P<currency>[^\]-]{0,255}+)[^\]]{0,255}+\]|\[[^\]]{0,255}\]'
    r"|(?P<general>General)|(?P<exponent>E[+-])|(?P<half>AM/PM|A/P)|(?P<date>y+|m+|d+|h+|s+|\.0+(?=$|[^0#?]))"
    r"|(?P<digits>[0#?][0#?,]*)|(?P<other>.)",
    re.I,
)
DATE_LETTERS = re.compile(r"[ymdhs]", re.I)
QUOTED = re.compile(r'"[^"]*"|\\.|\[[^\]]{0,255}\]|_.|\*.|General|E[+-]', re.I)
ELAPSED = re.compile(r"\[(?:h+|m+|s+)\]", re.I)


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


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Every sheet that holds something; several tables on a sheet are told apart by blank rows."""
    archive = open_office(data, options)
    book = _open_book(archive)
    builder = Builder()
    for done, (name, part) in enumerate(book.sheets, 1):
        rows, merges = _read_sheet(archive, book, part, options)
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


# --- what stands on a sheet ------------------------------------------------------------------------------------------


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
    first, last = 0, len(region)
    while first < last - 1 and (text := _only_text(region[first])) and not is_number(text):
        if first == 0 and len(text) <= 80 and text[-1] not in ".:;":
            builder.heading(text, 2)
        else:
            builder.block("text", text)
        first += 1
    notes = _notes_above(region[first:last], columns, merges)
    for row in region[first : first + notes]:
        builder.block("text", " ".join(row[1].values()))
    first += notes
    while last - first > 2 and len(_only_text(region[last - 1])) > 60:  # notes below the table
        last -= 1
    body = region[first:last]
    beside = _side_by_side(body, columns, merges)
    if len(beside) > 1:
        for group in beside:
            group_rows = [
                (number, {column: texts[column] for column in group if column in texts}) for number, texts in body
            ]
            _write_region(builder, [row for row in group_rows if row[1]], merges)
        for row in region[last:]:
            builder.block("text", _only_text(row))
        return
    widths = {(merge.top, merge.left): merge.right for merge in merges if merge.right > merge.left}
    rows = tidy_rows([_in_places(row, columns, widths) for row in body])
    if len(rows[0]) == 1:
        builder.block("text", "\n".join(row[0] for row in rows))
    else:
        builder.table(rows, header_rows=_header_rows(rows))
    for row in region[last:]:
        builder.block("text", _only_text(row))


def _notes_above(rows: list[Row], columns: list[int], merges: list[Merge]) -> int:
    """How many rows above the one that names every column are notes: they begin in the column of the labels.

    Names over several columns leave that column free, or have a cell that goes down to the names below. What names
    columns stands right above a value.
    """
    head = next((place for place, row in enumerate(rows[: MAX_HEADER_ROWS + 1]) if len(row[1]) == len(columns)), 0)
    names, above = list(rows[head][1].values()), rows[:head]
    texts = [text for row in above for text in row[1].values()]
    if len(set(names)) < len(names) or any(map(is_value, (*names, *texts))):
        return 0
    if not any(is_value(text) for row in rows[head + 1 : head + 2] for text in row[1].values()):
        return 0
    notes = [place for place, (_, own) in enumerate(above) if own.get(columns[0], names[0]) != names[0]]
    is_merged = any(merge.top <= number <= merge.bottom for number, _ in above for merge in merges)
    return 0 if not notes or (is_merged and len(notes) < 2) else notes[-1] + 1


def _side_by_side(body: list[Row], columns: list[int], merges: list[Merge]) -> list[list[int]]:
    """The columns of each table of a region, where an empty column stands between tables with heads of their own.

    A table has a label in its first column; numbers beside an empty column belong to what is left of it.
    """
    groups: list[list[int]] = [[columns[0]]]
    for before, column in pairwise(columns):
        bridged = any(
            merge.left <= before and merge.right >= column and body[0][0] <= merge.top <= body[-1][0]
            for merge in merges
        )
        if column > before + 1 and not bridged:
            groups.append([])
        groups[-1].append(column)
    for group in groups:
        head = [body[0][1].get(column, "") for column in group]
        labels = [texts[group[0]] for _, texts in body[1:] if group[0] in texts]
        is_table = len(group) > 1 and all(head) and not any(map(is_value, head))
        if not is_table or 2 * sum(map(is_number, labels)) >= max(1, len(labels)):
            return [columns]
    return groups


def _only_text(row: Row) -> str:
    """The text of a row that fills a single cell, "" for others."""
    return next(iter(row[1].values())) if len(row[1]) == 1 else ""


def _in_places(row: Row, columns: list[int], widths: dict[tuple[int, int], int]) -> list[str]:
    """The texts of a row under all columns of its table; `widths` are the last columns of merged cells."""
    number, texts = row
    places: list[str] = []
    last = 0
    for column in columns:
        places.append(texts.get(column) or (Beside() if column <= last else ""))
        last = widths.get((number, column), last)
    return places


def _header_rows(rows: list[list[str]]) -> int:
    """More than one when the first row has merged or empty cells that the rows below it explain, up to the numbers."""
    count = guess_header_rows(rows)
    spanning = any(isinstance(cell, Beside) for cell in rows[0])
    if not count or not (spanning or sum(1 for cell in rows[0] if cell) < 0.6 * len(rows[0])):
        return count
    while count < min(MAX_HEADER_ROWS, len(rows)) and not any(is_value(cell) for cell in rows[count]):
        count += 1
    return count if count < len(rows) and any(is_value(cell) for cell in rows[count]) else 1


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


def _read_sheet(archive: Archive, book: Book, part: str, options: ParseOptions) -> tuple[list[Row], list[Merge]]:
    """The filled rows of a sheet in order, with the text of vertically merged cells in each of their rows."""
    rows: list[Row] = []
    merges: list[Merge] = []
    cells = characters = number = 0
    for element in _stream(archive, part, "{*}row", "{*}mergeCell"):
        if element.tag.endswith("}mergeCell"):
            if merge := _merge(element.get("ref") or ""):
                merges.append(merge)
            continue
        claimed = element.get("r") or ""
        number = int(claimed) if claimed.isdigit() and len(claimed) < 8 else number + 1
        if texts := _row(element, book):
            rows.append((number, texts))
            cells += len(texts)
            characters += sum(map(len, texts.values()))
        if cells > MAX_CELLS or characters > options.max_characters:
            raise TooLarge(f"the workbook has more than {min(cells, MAX_CELLS):,} filled cells")
    rows.sort(key=lambda row: row[0])
    # A value merged over several rows belongs to each of them; over several columns it is shown once.
    numbers = [number for number, _ in rows]
    for merge in merges:
        first, last = bisect_left(numbers, merge.top), bisect_right(numbers, merge.bottom)
        if first < last and numbers[first] == merge.top and (text := rows[first][1].get(merge.left)):
            for _, texts in rows[first + 1 : last]:
                texts.setdefault(merge.left, Below.of(text))
    return rows, merges


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


# --- how a spreadsheet shows a number --------------------------------------------------------------------------------


def shown(value: float, code: str, *, from_1904: bool = False) -> str:
    """The number as displayed.

    >>> shown(1234.5, "$#,##0.00"), shown(0.125, "0.0%"), shown(45352, "yyyy-mm-dd")
    ('$1,234.50', '12.5%', '2024-03-01')
    """
    if code == "General":
        return _general(value)
    sections = _sections(code)
    if _is_date(sections[0]):
        return _shown_date(value, sections[0], from_1904)
    if len(sections) >= 2 and value < 0:
        return _shown_number(-value, sections[1])
    if len(sections) >= 3 and value == 0:
        return _shown_number(0, sections[2])
    text = _shown_number(abs(value), sections[0])
    return f"-{text}" if value < 0 and re.search("[1-9]", text) else text


@lru_cache(maxsize=1000)
def _is_date(section: str) -> bool:
    return bool(ELAPSED.search(section) or DATE_LETTERS.search(QUOTED.sub("", section)))


@lru_cache(maxsize=1000)
def _sections(code: str) -> tuple[str, ...]:
    """Cut at semicolons that are not quoted: positive, negative, zero, text."""
    parts, quoted, escaped = [""], False, False
    for c in code[:500]:
        if c == ";" and not quoted and not escaped:
            parts.append("")
            continue
        quoted = quoted != (c == '"' and not escaped)
        escaped = c == "\\" and not escaped
        parts[-1] += c
    return tuple(parts)


@lru_cache(maxsize=1000)
def _tokens(section: str) -> list[tuple[str, str]]:
    """(kind, text) by the groups of TOKEN; what only makes room has no kind."""
    return [(token.lastgroup or "", token.group(token.lastgroup or 0)) for token in TOKEN.finditer(section)]


def _general(value: float) -> str:
    """As in a cell without a format: eleven characters at most, no needless zeros."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.10g}"


def _shown_number(value: float, section: str) -> str:
    """The number where its first placeholder stands, literals around it."""
    tokens = _tokens(section)
    plain = QUOTED.sub("", section)
    exponent = any(kind == "exponent" for kind, _ in tokens)
    placeholders = [index for index, (kind, _) in enumerate(tokens) if kind == "digits"]
    if placeholders and "/" in plain and not exponent:
        return _general(value)  # a fraction, 1/8: as the decimal number it is
    if placeholders:
        scale = 1000 ** len(re.findall(r",(?=[^0#?]*$)", re.sub(r"[^0#?,.]", "", plain)))
        mantissa = QUOTED.sub("", re.split(r"E[+-]", section, flags=re.I)[0])
        number = _digits(value * 100 ** plain.count("%") / scale, mantissa, exponent)
    parts: list[str] = []
    for index, (kind, text) in enumerate(tokens):
        inside = placeholders and placeholders[0] < index < placeholders[-1]
        if kind == "digits":
            parts.append(number if index == placeholders[0] else "")
        elif kind == "general":
            parts.append(_general(value))
        elif kind in ("quoted", "escaped", "currency") or (
            kind == "other" and text not in ".,?#@" and not (inside and text in "/ 0123456789")
        ):
            parts.append(text)
    return " ".join("".join(parts).split()) if placeholders else "".join(parts)


def _digits(value: float, mantissa: str, exponent: bool) -> str:
    whole, _, decimals = mantissa.partition(".")
    places = len(re.findall(r"[0#?]", decimals))
    if exponent:
        digits, power = f"{value:.{places}e}".split("e")
        return f"{digits}E{'-' if int(power) < 0 else '+'}{abs(int(power)):02d}"
    with localcontext() as context:
        context.prec = 400
        try:
            rounded = Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
        except InvalidOperation:
            return _general(value)
    grouped = re.search(r"[0#?],[0#?]", whole) is not None
    integer, _, rest = (f"{rounded:,f}" if grouped else f"{rounded:f}").partition(".")
    least = decimals.count("0")
    rest = rest[:least] + rest[least:].rstrip("0")
    zeros = whole.count("0")
    integer = "" if integer == "0" and zeros == 0 else integer.rjust(zeros, "0")
    return integer + (f".{rest}" if rest else "")


def _shown_date(value: float, section: str, from_1904: bool) -> str:
    if ELAPSED.search(section):
        return _elapsed(value, section.lower())
    # Serial 60 is 29 February 1900, which never was (Lotus 1-2-3); days before it are one later than counted.
    origin = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30 if value >= 60 else 31)
    try:
        moment = origin + timedelta(milliseconds=round(value * 86_400_000))
    except OverflowError:
        return _general(value)
    tokens = _tokens(section)
    letters = [text[0].lower() if kind == "date" and text[0] != "." else "" for kind, text in tokens]
    twelve = any(kind == "half" for kind, _ in tokens)
    parts = []
    for index, (kind, text) in enumerate(tokens):
        if kind == "half":
            parts.append("AM" if moment.hour < 12 else "PM")
        elif kind == "date":
            # `m` means minutes after hours or before seconds.
            before, after = "".join(letters[:index])[-1:], "".join(letters[index + 1 :])[:1]
            minutes = letters[index] == "m" and len(text) <= 2 and (before == "h" or after == "s")
            parts.append(_date_part(moment, text.lower(), minutes=minutes, twelve=twelve))
        elif kind in ("quoted", "escaped") or (kind == "other" and text not in "@;"):
            parts.append(text)
    return " ".join("".join(parts).split())


def _date_part(moment: datetime, code: str, *, minutes: bool, twelve: bool) -> str:
    if code[0] == ".":
        return f".{moment.microsecond:06d}"[: len(code)]
    if code[0] == "y":
        return f"{moment.year:04d}" if len(code) > 2 else f"{moment.year % 100:02d}"
    if len(code) > 2 and code[0] in "md":
        return moment.strftime({"mmm": "%b", "ddd": "%a"}.get(code, "%B" if code[0] == "m" else "%A"))
    hour = (moment.hour - 1) % 12 + 1 if twelve else moment.hour
    number = {"d": moment.day, "h": hour, "s": moment.second, "m": moment.minute if minutes else moment.month}[code[0]]
    return f"{number:02d}" if len(code) == 2 else str(number)


def _elapsed(value: float, section: str) -> str:
    """Durations count on past 24 hours: 1.5 under [h]:mm is "36:00"."""
    seconds = abs(round(value * 86_400))
    sign = "-" if round(value * 86_400) < 0 else ""
    if "[h" in section:
        text = f"{seconds // 3600}:{seconds % 3600 // 60:02d}"
        return sign + text + (f":{seconds % 60:02d}" if "s" in section else "")
    if "[m" in section:
        return f"{sign}{seconds // 60}:{seconds % 60:02d}"
    return f"{sign}{seconds}"
