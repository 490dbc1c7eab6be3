"""PPTX, and what Office files share: safe zip reading, parts and their relations, properties, images.

Nothing is ever unpacked to disk, and XML is read without entities or network. Of a presentation each slide is a page
with title, text, tables, charts and notes, read from top to bottom.
"""

from __future__ import annotations

import io
import posixpath
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any
from urllib.parse import unquote

from lxml import etree

from refdesk.errors import BrokenFile, HostileFile, NeedsPassword
from refdesk.parsers.build import Below, Beside, Builder, Item, ParseOptions, Table, one_line
from refdesk.types import Parsed

Element = Any  # lxml's elements carry no useful types

MAX_ENTRIES = 20_000  # a workbook of 5,000 sheets has about 10,000 parts
SUSPICIOUS_RATIO = 200  # XML rarely packs better than 1:50; a deflate bomb reaches 1:1000
SUSPICIOUS_BYTES = 50_000_000  # below this even the highest ratio does no harm
LOCAL_HEADER = 30  # bytes before the name of a part (APPNOTE 4.3.7)
PROLOG_BYTES = 1 << 16  # the root element of an honest part begins within its first kilobyte
# A byte order mark, declarations, comments; then perhaps a document type.
PROLOG = re.compile(
    rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?+(?:\s++|<\?.*?(?:\?>|\Z)|<!--.*?(?:-->|\Z))*+(<!DOCTYPE[^>]*+)?", re.S | re.I
)

MAX_PIXELS = 40_000_000  # a scan of A3 at 400 dpi; larger pictures are bombs or posters
MAX_SIDE = 2000  # pixels; what a reader's screen shows
MIN_SIDE = 24  # smaller pictures are bullets and rules
MAX_FIGURES = 200  # pictures kept of one document

SAFE: dict[str, Any] = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": True}
XML_SUFFIXES = (".xml", ".rels", ".opf", ".ncx", ".xhtml", ".html", ".htm", ".vml", ".svg")
PLAIN_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # bz2 and lzma are unpacked without a limit by zipfile
# Alternative text that programs write: file names and guesses.
GENERATED = re.compile(
    r"\.(png|jpe?g|gif|emf|wmf)$|automatically generated|generated$|^(picture|image|grafik|bild)\s*\d*$", re.I
)
STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")


class Archive:
    """A zip file whose sizes were checked; `read` gives one part, `has` says whether it is there."""

    def __init__(self, data: bytes, options: ParseOptions, *, allow_doctype: bool = False) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            entries = self._zip.infolist()
        except (zipfile.BadZipFile, ValueError, OSError, struct.error, NotImplementedError) as error:
            raise BrokenFile("the file is truncated or damaged: its table of contents cannot be read") from error
        _check_sizes(entries, len(data), options)
        self._entries = {entry.filename: entry for entry in entries}
        self._folded = {name.lower().lstrip("/"): name for name in self._entries}
        for name in self._entries:
            if name.lower().endswith(XML_SUFFIXES):
                with self.open(name) as part:
                    _check_prolog(name, part.read(PROLOG_BYTES), allow_doctype=allow_doctype)

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    def has(self, name: str) -> bool:
        return name.lower().lstrip("/") in self._folded

    def read(self, name: str) -> bytes:
        """The bytes of one part; names are compared without regard to case, as Office does."""
        found = self._folded.get(name.lower().lstrip("/"))
        if found is None:
            raise BrokenFile(f"the file is incomplete: its part {name} is missing")
        with self.open(found) as part:
            return part.read()

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """The same as a stream, for parts too large to hold."""
        try:
            with self._zip.open(self._folded[name.lower().lstrip("/")]) as part:
                yield part
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
            raise BrokenFile(f"the file is damaged: its part {name} cannot be unpacked") from error


def open_office(data: bytes, options: ParseOptions) -> tuple[Archive, bytes]:
    """A checked Office file and its bytes, with the namespaces of "Strict Open XML" turned into the usual ones.

    The libraries that read Office files know only the usual ones; Word and Excel write either.
    """
    archive = Archive(data, options)
    if not archive.has("_rels/.rels") or not STRICT.search(archive.read("_rels/.rels")):
        return archive, data
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as changed:
        for name in archive.names:
            part = archive.read(name)
            if name.lower().endswith(XML_SUFFIXES):
                part = STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", part)
            changed.writestr(name, part)
    rewritten = target.getvalue()
    return Archive(rewritten, options), rewritten


def _check_sizes(entries: list[zipfile.ZipInfo], packed: int, options: ParseOptions) -> None:
    if len(entries) > MAX_ENTRIES:
        raise HostileFile(f"the file holds {len(entries):,} parts, more than the {MAX_ENTRIES:,} Refdesk opens")
    total = sum(entry.file_size for entry in entries)
    if total > options.max_unpacked_bytes:
        raise HostileFile(
            f"the file unpacks to {_megabytes(total)}, over the limit of {_megabytes(options.max_unpacked_bytes)}"
        )
    if total > SUSPICIOUS_BYTES and total > SUSPICIOUS_RATIO * packed:
        raise HostileFile(f"the file is a zip bomb: {_megabytes(packed)} that unpack to {_megabytes(total)}")
    if any(entry.flag_bits & 1 for entry in entries):
        raise NeedsPassword("this file is encrypted", hint="save it without a password first")
    if any(entry.compress_type not in PLAIN_METHODS for entry in entries):
        raise BrokenFile("the file is packed with a method that Office and e-book files do not use")
    previous_end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset < previous_end:
            raise HostileFile("the file is a zip bomb: its parts overlap")
        previous_end = entry.header_offset + LOCAL_HEADER + entry.compress_size


def _check_prolog(name: str, head: bytes, *, allow_doctype: bool) -> None:
    """Refuses a document type declaration, which only attacks need in Office files, before any library sees it."""
    text = (
        head.replace(b"\x00", b"") if b"\x00" in head[:64] else head
    )  # UTF-16 and UTF-32 are ASCII with zeros between
    prolog = PROLOG.match(text)
    if prolog and (declared := prolog.group(1)) is not None:
        if not allow_doctype or b"[" in declared:
            raise HostileFile(f"the part {name} declares XML entities, which legitimate files of this kind never do")
    elif prolog and prolog.end() == len(text) and len(head) >= PROLOG_BYTES:
        raise HostileFile(f"the part {name} hides its beginning behind a very long comment")


def _megabytes(size: int) -> str:
    return f"{max(1, round(size / 1_000_000)):,} MB"


def parse_xml(data: bytes, *, recover: bool = False) -> Element:
    """The root of a part; a damaged one is a broken file, or is read as far as it goes."""
    try:
        root = etree.fromstring(data, etree.XMLParser(recover=recover, **SAFE))
    except etree.XMLSyntaxError as error:
        raise BrokenFile("a part of the file is not valid XML") from error
    if root is None:
        raise BrokenFile("a part of the file is not valid XML")
    return root


def main_part(archive: Archive, usual: str) -> str:
    """The name of the part that holds the document itself."""
    for kind, part in relations(archive, "").values():
        if kind.endswith("/officeDocument") and archive.has(part):
            return part
    return usual


def relations(archive: Archive, part: str) -> dict[str, tuple[str, str]]:
    """Relations of a part by id: (kind, part it points at); links to the outside are left out."""
    folder, name = posixpath.split(part)
    path = posixpath.join(folder, "_rels", f"{name}.rels")
    if not archive.has(path):
        return {}
    found = {}
    for relation in parse_xml(archive.read(path)).iter("{*}Relationship"):
        if relation.get("TargetMode") == "External":
            continue
        target = unquote(relation.get("Target") or "")
        full = target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
        found[relation.get("Id") or ""] = (relation.get("Type") or "", full)
    return found


def properties(archive: Archive) -> tuple[str, dict[str, str]]:
    """Title and metadata (author, date) of an Office file."""
    if not archive.has("docProps/core.xml"):
        return "", {}
    try:
        root = parse_xml(archive.read("docProps/core.xml"))
    except BrokenFile:
        return "", {}
    values = {etree.QName(child).localname: (child.text or "").strip() for child in root if isinstance(child.tag, str)}
    metadata = {"author": values.get("creator"), "date": values.get("modified") or values.get("created")}
    return values.get("title", ""), {key: value for key, value in metadata.items() if value}


def description_of(alternative: str) -> str:
    """The alternative text of a picture if a person wrote it, else ""."""
    text = one_line(alternative)
    return "" if GENERATED.search(text) or len(text) < 10 else text


def as_png(data: bytes) -> bytes | None:
    """A picture as PNG, made smaller when it is large; None when it cannot be read or is only decoration."""
    from PIL import Image, UnidentifiedImageError  # 60 ms to import, and most documents have no captioned picture

    try:
        with Image.open(io.BytesIO(data)) as picture:
            width, height = picture.size
            if width * height > MAX_PIXELS or min(width, height) < MIN_SIDE:
                return None
            picture.thumbnail((MAX_SIDE, MAX_SIDE))
            target = io.BytesIO()
            picture.convert("RGBA" if "A" in picture.getbands() or picture.mode == "P" else "RGB").save(target, "PNG")
            return target.getvalue()
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError, EOFError):
        return None


# --- presentations ----------------------------------------------------------------------------------------------------

Shape = Any  # python-pptx is untyped

FURNITURE = ("DATE", "FOOTER", "SLIDE_NUMBER", "HEADER")  # placeholders that repeat on every slide
TITLES = ("TITLE", "CENTER_TITLE", "VERTICAL_TITLE")
ROW_HEIGHT = 360_000  # EMU, 1 cm: shapes whose tops differ by less stand side by side
MAX_DEPTH = 30  # groups inside groups
MAX_POINTS = 10_000  # of a chart
GENERIC_TITLE = re.compile(r"PowerPoint.presentation|presentation ?\d*|slide ?\d*", re.I)


def parse_pptx(data: bytes, options: ParseOptions) -> Parsed:
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
        series = [(str(line.name), list(line.values)) for plot in chart.plots for line in plot.series]
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
