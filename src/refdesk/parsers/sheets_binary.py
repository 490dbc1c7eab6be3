"""XLS and XLSB: workbooks that are not XML, with numbers as displayed and merged cells, one page per sheet."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from math import isfinite
from typing import Any

from refdesk.errors import BrokenFile, NeedsPassword
from refdesk.parsers import compound
from refdesk.parsers.build import Builder, ParseOptions
from refdesk.parsers.office import Archive, main_part, open_office, properties, relations
from refdesk.parsers.sheet_layout import ERRORS, Merge, Sheet
from refdesk.parsers.sheet_numbers import BUILT_IN, shown
from refdesk.types import Parsed

BY_COUNTRY = (14, 22)  # dates as the reader's country writes them; ISO here
# Of [MS-XLSB] and [MS-XLS] 2.5.10.
ERROR_TEXTS = {0: "#NULL!", 7: "#DIV/0!", 15: "#VALUE!", 23: "#REF!", 29: "#NAME?", 36: "#NUM!", 42: "#N/A"}


def _number(value: float, code: str, from_1904: bool) -> str:
    return shown(value, code, from_1904=from_1904) if isfinite(value) else ""


def _error(code: int) -> str:
    text = ERROR_TEXTS.get(code, "")
    return "" if text in ERRORS else text


# --- XLS, with xlrd --------------------------------------------------------------------------------------------------


class _Silent(io.TextIOBase):
    """Where xlrd tells what it thinks of a file."""

    def write(self, text: str) -> int:
        return len(text)


def parse_xls(data: bytes, options: ParseOptions) -> Parsed:
    """Sheets of Excel 97–2003, and of the versions before."""
    import xlrd  # 60 ms to import

    with compound.open_compound(data) as container:
        stream = compound.stream(container, "Workbook", "Book")  # xlrd would follow sectors in circles for ever
    try:
        book = xlrd.open_workbook(
            file_contents=stream, formatting_info=True, on_demand=True, ragged_rows=True, logfile=_Silent()
        )
    except xlrd.XLRDError as error:
        if "encrypted" in str(error):
            raise NeedsPassword(
                "this Excel workbook is encrypted with a password", hint="save it without a password first"
            ) from error
        raise BrokenFile("this Excel workbook is truncated or damaged") from error
    builder = Builder()
    for place, name in enumerate(book.sheet_names()):
        _read_xls(book, book.sheet_by_index(place), options).write(builder, name)
        book.unload_sheet(place)
        options.progress(place + 1, book.nsheets)
    title, metadata = compound.properties(data)
    return builder.build("xls", title=title, metadata=metadata)


def _read_xls(book: Any, source: Any, options: ParseOptions) -> Sheet:
    sheet = Sheet(options)
    from_1904 = book.datemode == 1
    codes = [_code(book, style.format_key) for style in book.xf_list]
    for row in range(source.nrows):
        texts: dict[int, str] = {}
        for column, cell in enumerate(source.row(row)):
            code = codes[cell.xf_index] if cell.xf_index is not None and cell.xf_index < len(codes) else "General"
            if text := _xls_cell(cell, code, from_1904):
                texts[column + 1] = text
        sheet.add(row + 1, texts)
    for top, bottom, left, right in source.merged_cells:  # from 0, the second of each pair excluded
        sheet.merges.append(Merge(top + 1, left + 1, bottom, right))
    return sheet


def _code(book: Any, key: int) -> str:
    if key in BY_COUNTRY:
        return BUILT_IN[key]
    found = book.format_map.get(key)
    return (found.format_str if found is not None else "") or "General"


def _xls_cell(cell: Any, code: str, from_1904: bool) -> str:
    match cell.ctype:
        case 1:
            return str(cell.value).strip()
        case 2 | 3:
            return _number(cell.value, code, from_1904)
        case 4:
            return "TRUE" if cell.value else "FALSE"
        case 5:
            return _error(cell.value)
    return ""


# --- XLSB: parts of records; what they are called in [MS-XLSB] -------------------------------------------------------

ROW, RK, ERROR, BOOL, REAL, STRING, SHARED = 0, 2, 3, 4, 5, 6, 7  # BrtRowHdr, BrtCellRk, …
FORMULA = {8: STRING, 9: REAL, 10: BOOL, 11: ERROR}  # the value is kept before the formula
RICH_STRING, SHARED_ITEM, FORMAT, STYLE = 62, 19, 44, 47  # BrtCellRString, BrtSSTItem, BrtFmt, BrtXF
BOOK_SETTINGS, SHEET_ENTRY, MERGED = 153, 156, 176  # BrtWbProp, BrtBundleSh, BrtMergeCell
CELL_STYLES = (617, 618)  # BrtBeginCellXFs, BrtEndCellXFs
CELL = 8  # bytes that say the column and the style


def parse_xlsb(data: bytes, options: ParseOptions) -> Parsed:
    """Sheets of a binary workbook, read record by record."""
    archive = open_office(data, options)
    main = main_part(archive, "xl/workbook.bin")
    related = relations(archive, main)
    by_kind = {kind.rsplit("/", 1)[-1]: part for kind, part in related.values()}
    book = _Book(archive, by_kind.get("sharedStrings", ""), by_kind.get("styles", ""))
    sheets = []
    for kind, record in _records(archive, main):
        if kind == BOOK_SETTINGS:
            book.from_1904 = bool(record[0] & 1)
        elif kind == SHEET_ENTRY:
            relation, end = _wide(record, 8)
            relation_kind, part = related.get(relation, ("", ""))
            if relation_kind.endswith("/worksheet") and archive.has(part):
                sheets.append((_wide(record, end)[0], part))
    builder = Builder()
    for done, (name, part) in enumerate(sheets, 1):
        _read_xlsb(archive, part, book, options).write(builder, name)
        options.progress(done, len(sheets))
    title, metadata = properties(archive)
    return builder.build("xlsb", title=title, metadata=metadata)


class _Book:
    """What the sheets share: texts, and the number format of each style."""

    def __init__(self, archive: Archive, strings: str, styles: str) -> None:
        self.from_1904 = False
        self.strings = [
            _wide(record, 1)[0].strip() for kind, record in _records(archive, strings) if kind == SHARED_ITEM
        ]
        self.codes: list[str] = []
        formats = dict(BUILT_IN)
        in_cells = False
        for kind, record in _records(archive, styles):
            if kind == FORMAT:
                formats[int.from_bytes(record[:2], "little")] = _wide(record, 2)[0]
            elif kind in CELL_STYLES:
                in_cells = kind == CELL_STYLES[0]
            elif kind == STYLE and in_cells:
                self.codes.append(formats.get(int.from_bytes(record[2:4], "little"), "General"))


def _read_xlsb(archive: Archive, part: str, book: _Book, options: ParseOptions) -> Sheet:
    sheet = Sheet(options)
    number, texts = 0, dict[int, str]()
    for kind, record in _records(archive, part):
        if kind == ROW:
            sheet.add(number, texts)
            number, texts = int.from_bytes(record[:4], "little") + 1, {}
        elif kind == MERGED:
            top, bottom, left, right = struct.unpack_from("<4I", record)
            sheet.merges.append(Merge(top + 1, left + 1, bottom + 1, right + 1))
        elif RK <= kind <= 11 or kind == RICH_STRING:
            column, style = struct.unpack_from("<2I", record)
            if text := _xlsb_cell(FORMULA.get(kind, kind), record, style & 0xFFFFFF, book):
                texts[column + 1] = text
    sheet.add(number, texts)
    return sheet


def _xlsb_cell(kind: int, record: bytes, style: int, book: _Book) -> str:
    match kind:
        case 2 | 5:
            code = book.codes[style] if style < len(book.codes) else "General"
            value = _rk(record) if kind == RK else struct.unpack_from("<d", record, CELL)[0]
            return _number(value, code, book.from_1904)
        case 3:
            return _error(record[CELL])
        case 4:
            return "TRUE" if record[CELL] else "FALSE"
        case 7:
            place = int.from_bytes(record[CELL : CELL + 4], "little")
            return book.strings[place] if place < len(book.strings) else ""
    return _wide(record, CELL + (kind == RICH_STRING))[0].strip()


def _rk(record: bytes) -> float:
    """A number in four bytes: an integer or the upper half of a double, perhaps times a hundred (2.5.123)."""
    bits = int.from_bytes(record[CELL : CELL + 4], "little", signed=True)
    value = float(bits >> 2) if bits & 2 else struct.unpack("<d", struct.pack("<iI", 0, bits & 0xFFFFFFFC))[0]
    return value / 100 if bits & 1 else value


def _wide(record: bytes, start: int) -> tuple[str, int]:
    """A string that its length stands before, and where it ends; no length stands for none."""
    length = int.from_bytes(record[start : start + 4], "little")
    if length == 0xFFFFFFFF:
        return "", start + 4
    end = start + 4 + 2 * length
    return record[start + 4 : end].decode("utf-16-le", "replace"), end


def _records(archive: Archive, part: str) -> Iterator[tuple[int, bytes]]:
    """(kind, content) of each record of a part; none where there is no such part. Streamed."""
    if not archive.has(part):
        return
    with archive.open(part) as source:
        while head := source.read(1):
            kind = head[0]
            if kind & 0x80:
                kind = (kind & 0x7F) | (_byte(source.read(1)) << 7)
            size = 0
            for shift in (0, 7, 14, 21):
                byte = _byte(source.read(1))
                size |= (byte & 0x7F) << shift
                if not byte & 0x80:
                    break
            record = source.read(size)
            if len(record) < size:
                raise BrokenFile("the workbook is truncated: a part of it ends in the middle of a record")
            yield kind, record


def _byte(read: bytes) -> int:
    if not read:
        raise BrokenFile("the workbook is truncated: a part of it ends in the middle of a record")
    return read[0]
