"""ODP and ODS, as LibreOffice writes them: a page for each slide and for each sheet, as of PPTX and XLSX."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from refdesk.parsers.build import Builder, ParseOptions, one_line
from refdesk.parsers.office import SAFE, Archive, Element
from refdesk.parsers.opendocument import (
    DRAW,
    OFFICE,
    SHOW,
    TABLE,
    T,
    described,
    inline_of,
    open_package,
    plain_text,
    whole,
)
from refdesk.parsers.opendocument_text import TextReader, place
from refdesk.parsers.sheet_layout import MAX_COLUMNS, Merge, Sheet
from refdesk.types import Parsed

FURNITURE = ("date-time", "footer", "header", "page-number", "page", "notes")  # classes of what repeats on slides


def parse_odp(data: bytes, options: ParseOptions) -> Parsed:
    """Slides in the order of the show; a slide is called "Slide 3: Title"."""
    archive = open_package(data, options)
    reader = TextReader(archive)
    builder = Builder()
    pages = list(reader.body.iterchildren(f"{DRAW}page"))
    first = ""
    for number, page in enumerate(pages, 1):
        shapes = [shape for shape in page if shape.tag != f"{SHOW}notes" and _role(shape) not in FURNITURE]
        titles = [shape for shape in shapes if _role(shape) == "title"]
        title = one_line(" ".join(plain_text(shape) for shape in titles))
        first = first or title
        builder.page(f"Slide {number}: {title}" if title else f"Slide {number}")
        builder.heading(title, 1)
        for shape in sorted((shape for shape in shapes if shape not in titles), key=place):
            for item in reader.inside([shape]):
                builder.add(item)
        notes = [shape for shape in page.iterfind(f"{SHOW}notes/*") if _role(shape) == "notes"]
        if text := "\n".join(filter(None, map(plain_text, notes))):
            builder.block("text", f"Notes: {text}")
        options.progress(number, len(pages))
    title, metadata = described(archive)
    return builder.build("odp", title=title or first, metadata=metadata)


def _role(shape: Element) -> str:
    """What a shape is on its slide, "" for those that were put there freely."""
    return shape.get(f"{SHOW}class") or ""


# --- sheets ----------------------------------------------------------------------------------------------------------

VALUES = {"string": "string-value", "date": "date-value", "time": "time-value", "boolean": "boolean-value"}


def parse_ods(data: bytes, options: ParseOptions) -> Parsed:
    """Sheets, streamed; cells say what they show."""
    archive = open_package(data, options)
    builder = Builder()
    for done, (name, sheet) in enumerate(_sheets(archive, options), 1):
        sheet.write(builder, name)
        options.progress(done, done)
    title, metadata = described(archive)
    return builder.build("ods", title=title, metadata=metadata)


def _sheets(archive: Archive, options: ParseOptions) -> Iterator[tuple[str, Sheet]]:
    sheet, number, depth = Sheet(options), 1, 0
    tags = (f"{TABLE}table", f"{TABLE}table-row")
    with archive.open("content.xml") as source:
        for event, element in etree.iterparse(source, events=("start", "end"), tag=tags, **SAFE):
            if element.tag == f"{TABLE}table":
                depth += 1 if event == "start" else -1
                if depth == 1 and event == "start":
                    sheet, number = Sheet(options), 1
                elif depth == 0:
                    yield element.get(f"{TABLE}name") or "", sheet
                    element.clear()
            elif depth == 1 and event == "end":
                number = _add_row(sheet, number, element)
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]


def _add_row(sheet: Sheet, number: int, row: Element) -> int:
    """Adds a row, as often as it says that it is repeated; gives the number of the next."""
    texts: dict[int, str] = {}
    column = 1
    for cell in row.iterchildren(f"{TABLE}table-cell", f"{TABLE}covered-table-cell"):
        times = whole(cell.get(f"{TABLE}number-columns-repeated"), 1)
        text = _sheet_cell(cell) if len(cell) or cell.get(f"{OFFICE}value-type") else ""
        if text and cell.tag == f"{TABLE}table-cell":
            texts.update((place, text) for place in range(column, min(column + times, MAX_COLUMNS + 1)))
            down, right = (whole(cell.get(f"{TABLE}number-{side}-spanned"), 1) for side in ("rows", "columns"))
            if down > 1 or right > 1:
                sheet.merges.append(Merge(number, column, number + down - 1, column + right - 1))
        column += times
    repeated = whole(row.get(f"{TABLE}number-rows-repeated"), 1)
    for again in range(number, number + repeated) if texts else ():
        sheet.add(again, dict(texts))
    return number + repeated


def _sheet_cell(cell: Element) -> str:
    """What a cell shows; where it does not say, as scripts leave it, what it holds."""
    paragraphs = [
        one_line(inline_of(paragraph).text if len(paragraph) else paragraph.text or "")  # most hold a text alone
        for paragraph in cell.iterchildren(f"{T}p")
    ]
    kind = cell.get(f"{OFFICE}value-type") or ""
    return "\n".join(filter(None, paragraphs)) or cell.get(OFFICE + VALUES.get(kind, "value")) or ""
