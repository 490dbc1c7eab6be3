"""PPTX: a page per slide with title, text, tables, charts and notes, read from top to bottom."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from refdesk.parsers.build import Below, Beside, Builder, Item, ParseOptions, Table, one_line
from refdesk.parsers.office import MAX_FIGURES, as_png, description_of, open_office, parse_xml, properties
from refdesk.types import Parsed

Shape = Any  # python-pptx is untyped

FURNITURE = ("DATE", "FOOTER", "SLIDE_NUMBER", "HEADER")  # placeholders that repeat on every slide
TITLES = ("TITLE", "CENTER_TITLE", "VERTICAL_TITLE")
ROW_HEIGHT = 360_000  # EMU, 1 cm: shapes whose tops differ by less stand side by side
MAX_DEPTH = 30  # groups inside groups
MAX_POINTS = 10_000  # of a chart
GENERIC_TITLE = re.compile(r"PowerPoint.presentation|presentation ?\d*|slide ?\d*", re.I)


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Slides in the order of the show, hidden ones included; a slide is called "Slide 3: Title"."""
    from pptx.package import Package  # half a second to import

    archive, data = open_office(data, options)
    presentation = Package.open(io.BytesIO(data)).main_document_part.presentation  # also slide shows and templates
    builder = Builder()
    slides = list(presentation.slides)
    figures = 0
    first_title = ""
    for number, slide in enumerate(slides, 1):
        title = _title(slide)
        first_title = first_title or title
        builder.page(f"Slide {number}: {title}" if title else f"Slide {number}")
        if title:
            builder.heading(title, 1)
        for item in _items(_ordered(slide.shapes), slide):
            if item.image is not None and figures >= MAX_FIGURES:
                continue
            figures += item.image is not None
            builder.add(item)
        if notes := _notes(slide):
            builder.block("text", f"Notes: {notes}")
        options.progress(number, len(slides))
    title, metadata = properties(archive)
    if not title or GENERIC_TITLE.fullmatch(title):
        title = first_title
    return builder.build("pptx", title=title, metadata=metadata)


def _title(slide: Any) -> str:
    shape = slide.shapes.title
    return one_line(shape.text_frame.text) if shape is not None and shape.has_text_frame else ""


def _ordered(shapes: Any) -> list[Shape]:
    """Shapes in reading order: rows from the top, each from the left; those without a place come last."""
    placed = []
    for index, shape in enumerate(shapes):
        try:
            top, left = shape.top, shape.left
        except (AttributeError, KeyError, ValueError):  # a placeholder whose layout is missing
            top = left = None
        placed.append((1 if top is None else 0, (top or 0) // ROW_HEIGHT, left or 0, index, shape))
    return [entry[-1] for entry in sorted(placed, key=lambda entry: entry[:-1])]


def _items(shapes: list[Shape], slide: Any, depth: int = 0) -> Iterator[Item]:
    for shape in shapes:
        if _role(shape) in FURNITURE or _role(shape) in TITLES:
            continue
        if hasattr(shape, "shapes"):
            if depth < MAX_DEPTH:
                yield from _items(_ordered(shape.shapes), slide, depth + 1)
        elif getattr(shape, "has_table", False) and shape.has_table:
            yield Item("table", table=Table.of(_rows(shape.table), header_rows=int(shape.table.first_row)))
        elif getattr(shape, "has_chart", False) and shape.has_chart:
            yield from _chart(shape)
        elif getattr(shape, "has_text_frame", False) and shape.has_text_frame:
            yield from _text(shape)
        elif picture := _picture(shape):
            yield picture
        else:
            yield from _smart_art(shape, slide)


def _rows(table: Any) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in table.rows:
        texts: list[str] = []
        for cell in row.cells:
            if cell._tc.hMerge:
                texts.append(Beside())
            elif cell._tc.vMerge:
                texts.append(Below.of(rows[-1][len(texts)] if rows else ""))
            else:
                texts.append(cell.text_frame.text)
        rows.append(texts)
    return rows


def _role(shape: Shape) -> str:
    """The kind of placeholder a shape is, "" for others."""
    try:
        return shape.placeholder_format.type.name if shape.is_placeholder else ""
    except (ValueError, AttributeError, KeyError):
        return ""


def _text(shape: Shape) -> Iterator[Item]:
    """Body text as a list by indentation; a lone paragraph, or one with sentences, as text."""
    lines = [(paragraph.level, one_line("".join(_runs(paragraph)))) for paragraph in shape.text_frame.paragraphs]
    lines = [(level, text) for level, text in lines if text]
    if not lines:
        return
    body = _role(shape) in ("BODY", "OBJECT", "VERTICAL_BODY", "VERTICAL_OBJECT") or any(level for level, _ in lines)
    if len(lines) == 1 or not body:
        yield Item("text", "\n".join(text for _, text in lines))
    else:
        yield Item("list", "\n".join("  " * level + f"- {text}" for level, text in lines))


def _runs(paragraph: Any) -> Iterator[str]:
    """Runs, fields, line breaks and formulas of a paragraph."""
    for element in paragraph._p.iter():
        name = element.tag.rsplit("}", 1)[-1] if isinstance(element.tag, str) else ""
        if name == "t":
            yield element.text or ""
        elif name == "br":
            yield " "


def _chart(shape: Shape) -> Iterator[Item]:
    """A chart as a table: categories down, series across."""
    try:
        chart = shape.chart
        title = chart.chart_title.text_frame.text if chart.has_title and chart.chart_title.has_text_frame else ""
        plot = chart.plots[0]
        categories = [str(category) for category in plot.categories]
        series = [(str(one.name), list(one.values)) for plot in chart.plots for one in plot.series]
    except (AttributeError, IndexError, KeyError, ValueError, NotImplementedError):
        return
    if title.strip():
        yield Item("text", f"Chart: {title}")
    columns = [[_value(value) for value in values] for _, values in series]
    rows = [["", *(name for name, _ in series)]]
    for index in range(min(max([len(categories), *map(len, columns)]), MAX_POINTS)):
        label = categories[index] if index < len(categories) else str(index + 1)
        rows.append([label, *(column[index] if index < len(column) else "" for column in columns)])
    if len(rows) > 1 and series:
        yield Item("table", table=Table(rows, 1))


def _value(number: Any) -> str:
    return "" if number is None else f"{number:.10g}" if isinstance(number, float) else str(number)


def _picture(shape: Shape) -> Item | None:
    """A picture with a description that a person wrote."""
    description = description_of(shape._element.xpath("string(.//*[local-name()='cNvPr']/@descr)") or "")
    try:
        return Item("figure", description, image=as_png(shape.image.blob)) if description else None
    except (AttributeError, KeyError, ValueError):
        return None


def _smart_art(shape: Shape, slide: Any) -> Iterator[Item]:
    """The texts of a diagram, which stand in a part of their own."""
    for identity in shape._element.xpath(".//*[local-name()='relIds']/@*[local-name()='dm']"):
        try:
            blob = slide.part.related_part(identity).blob
        except (KeyError, AttributeError):
            continue
        points = parse_xml(blob).xpath("//*[local-name()='pt']")
        texts = [one_line("".join(point.xpath(".//*[local-name()='t']/text()"))) for point in points]
        if lines := [f"- {text}" for text in texts if text]:
            yield Item("list", "\n".join(lines))


def _notes(slide: Any) -> str:
    try:
        frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    except (KeyError, AttributeError):
        return ""
    return frame.text.strip() if frame is not None else ""
