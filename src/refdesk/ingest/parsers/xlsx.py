"""XLSX: a page per sheet; tables with their header row, titles above them as text, numbers as displayed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from refdesk.ingest.archive import open_office
from refdesk.ingest.parsers.builder import Builder
from refdesk.ingest.parsers.office import properties
from refdesk.ingest.parsers.options import ParseOptions
from refdesk.ingest.parsers.outline import guess_header_rows, is_number, is_value, tidy_rows
from refdesk.ingest.parsers.xlsx_cells import Merge, Row, open_book, read_sheet
from refdesk.types import Parsed

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
