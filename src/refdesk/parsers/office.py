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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
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
AES = 99
UNLOCKED = "save it without a password first"
PLAIN_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # bz2 and lzma are unpacked without a limit by zipfile
# Alternative text that programs write: file names and guesses.
GENERATED = re.compile(
    r"\.(png|jpe?g|gif|emf|wmf)$|automatically generated|generated$|^(picture|image|grafik|bild)\s*\d*$", re.I
)
STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/")


class Archive:
    """A zip file whose sizes were checked; `read` gives one part, `has` says whether it is there."""

    def __init__(
        self, data: bytes, options: ParseOptions, *, allow_doctype: bool = False, holds_files: bool = False
    ) -> None:
        """`holds_files`: its parts are anybody's files, which are checked when they are read themselves."""
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            entries = self._zip.infolist()
        except (zipfile.BadZipFile, ValueError, OSError, struct.error, NotImplementedError) as error:
            raise BrokenFile("the file is truncated or damaged: its table of contents cannot be read") from error
        _check_sizes(entries, len(data), options)
        if any(entry.flag_bits & 1 for entry in entries):
            if not holds_files:  # of Office files only damaged ones say so
                raise NeedsPassword("this file is encrypted", hint=UNLOCKED)
            self._unlock(entries, options.password)
        self._entries = {entry.filename: entry for entry in entries}
        self._folded = {name.lower().lstrip("/"): name for name in self._entries}
        for name in self._entries if not holds_files else ():
            if name.lower().endswith(XML_SUFFIXES):
                with self.open(name) as part:
                    _check_prolog(name, part.read(PROLOG_BYTES), allow_doctype=allow_doctype)

    def _unlock(self, entries: list[zipfile.ZipInfo], password: str | None) -> None:
        if password is None:
            raise NeedsPassword("this archive is encrypted")
        self._zip.setpassword(password.encode())
        for entry in entries:
            if entry.flag_bits & 1:  # one is enough to know
                try:
                    with self._zip.open(entry) as part:
                        part.read(1)
                except RuntimeError as error:
                    raise NeedsPassword("this archive is encrypted, and the password is not right") from error
                return

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    @property
    def entries(self) -> list[zipfile.ZipInfo]:
        return list(self._entries.values())

    def has(self, name: str) -> bool:
        return name.lower().lstrip("/") in self._folded

    def read(self, name: str) -> bytes:
        """The bytes of one part; names are compared without regard to case, as Office does."""
        found = name if name in self._entries else self._folded.get(name.lower().lstrip("/"))
        if found is None:
            raise BrokenFile(f"the file is incomplete: its part {name} is missing")
        with self.open(found) as part:
            return part.read()

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """The same as a stream, for parts too large to hold."""
        try:
            exact = name if name in self._entries else self._folded[name.lower().lstrip("/")]
            with self._zip.open(exact) as part:
                yield part
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
            raise BrokenFile(f"the file is damaged: its part {name} cannot be unpacked") from error


def open_office(data: bytes, options: ParseOptions) -> Archive:
    """A checked Office file, with the namespaces of "Strict Open XML" turned into the usual ones.

    The parsers know only the usual ones; Word and Excel write either.
    """
    archive = Archive(data, options)
    if not archive.has("_rels/.rels") or not STRICT.search(archive.read("_rels/.rels")):
        return archive
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as changed:
        for name in archive.names:
            part = archive.read(name)
            if name.lower().endswith(XML_SUFFIXES):
                part = STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", part)
            changed.writestr(name, part)
    return Archive(target.getvalue(), options)


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
    if any(entry.compress_type == AES for entry in entries):
        raise NeedsPassword("this file is encrypted with AES, which Refdesk cannot open", hint=UNLOCKED)
    if any(entry.compress_type not in PLAIN_METHODS for entry in entries):
        raise BrokenFile("the file is packed with a method that Refdesk does not unpack", hint="pack it again as ZIP")
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

SHAPES = ("sp", "pic", "grpSp", "graphicFrame", "cxnSp", "contentPart")
FURNITURE = ("dt", "ftr", "sldNum", "hdr")  # placeholders that repeat on every slide
TITLES = ("title", "ctrTitle")
OF_MASTER = {"ctrTitle": "title", **{kind: kind for kind in ("title", *FURNITURE)}}  # all others are its body
PLACES = ("{*}spPr/{*}xfrm/{*}off", "{*}xfrm/{*}off", "{*}grpSpPr/{*}xfrm/{*}off")
REFERENCE = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
ROW_HEIGHT = 360_000  # EMU, 1 cm: shapes whose tops differ by less stand side by side
MAX_DEPTH = 30  # groups inside groups
MAX_POINTS = 10_000  # of a chart
GENERIC_TITLE = re.compile(r"PowerPoint.presentation|presentation ?\d*|slide ?\d*", re.I)


class SlidePart:
    """A slide, its layout, master or notes: the shapes on it, and the parts that it refers to."""

    def __init__(self, archive: Archive, name: str) -> None:
        self.archive, self.root, self.relations = archive, parse_xml(archive.read(name)), relations(archive, name)
        tree = self.root.find("{*}cSld/{*}spTree")
        self.shapes: list[Element] = [] if tree is None else shapes_in(tree)

    def data(self, identity: str) -> bytes | None:
        """The bytes of the part that a shape refers to; None if it is not in the file."""
        _, name = self.relations.get(identity, ("", ""))
        return self.archive.read(name) if name and self.archive.has(name) else None

    def related(self, kind: str) -> str:
        """The name of its layout, master or notes, "" if it has none."""
        names = (name for found, name in self.relations.values() if found.endswith(f"/{kind}"))
        return next((name for name in names if self.archive.has(name)), "")


def parse_pptx(data: bytes, options: ParseOptions) -> Parsed:
    """Slides in the order of the show, hidden ones included; a slide is called "Slide 3: Title"."""
    archive = open_office(data, options)
    main = main_part(archive, "ppt/presentation.xml")  # also of slide shows and templates
    found, listed = relations(archive, main), parse_xml(archive.read(main)).iterfind("{*}sldIdLst/{*}sldId")
    names = [found.get(_reference(entry, "id"), ("", "a slide"))[1] for entry in listed]
    builder = Builder()
    figures = 0
    first_title = ""
    layout_part = cache(partial(SlidePart, archive))
    for number, name in enumerate(names, 1):
        slide = SlidePart(archive, name)
        title = _title(slide)
        first_title = first_title or title
        builder.page(f"Slide {number}: {title}" if title else f"Slide {number}")
        if title:
            builder.heading(title, 1)
        for item in _items(_ordered(slide.shapes, _layouts(slide, layout_part)), slide):
            if item.image is not None and figures >= MAX_FIGURES:
                continue
            figures += item.image is not None
            builder.add(item)
        if notes := _notes(slide):
            builder.block("text", f"Notes: {notes}")
        options.progress(number, len(names))
    title, metadata = properties(archive)
    if not title or GENERIC_TITLE.fullmatch(title):
        title = first_title
    return builder.build("pptx", title=title, metadata=metadata)


def _reference(element: Element | None, name: str) -> str:
    """The id of the relation that an element refers to, "" if it does not."""
    return "" if element is None else element.get(REFERENCE + name) or ""


def _name(element: Element) -> str:
    """The name of an element without its namespace, "" for comments."""
    return element.tag.rsplit("}", 1)[-1] if isinstance(element.tag, str) else ""


def shapes_in(tree: Element) -> list[Element]:
    return [child for child in tree if _name(child) in SHAPES]


def _placeholder(shape: Element) -> Element | None:
    return shape.find("*/{*}nvPr/{*}ph")


def _role(shape: Element) -> str:
    """The kind of placeholder a shape is, "" for others."""
    found = _placeholder(shape)
    return "" if found is None else found.get("type") or "obj"


def _index(shape: Element) -> str:
    """The number by which a slide's placeholder is found in its layout, "" for other shapes."""
    found = _placeholder(shape)
    return "" if found is None else found.get("idx") or "0"


def _title(slide: SlidePart) -> str:
    first = next((shape for shape in slide.shapes if _index(shape) == "0"), None)
    return "" if first is None else one_line(_lines(first.find("{*}txBody")))


def _layouts(slide: SlidePart, part: Callable[[str], SlidePart]) -> list[SlidePart]:
    """The layout of a slide and the master of that, each read once for all slides."""
    layout = part(name) if (name := slide.related("slideLayout")) else None
    master = part(name) if layout and (name := layout.related("slideMaster")) else None
    return [found for found in (layout, master) if found]


def _ordered(shapes: list[Element], layouts: Sequence[SlidePart] = ()) -> list[Element]:
    """Shapes in reading order: rows from the top, each from the left; those without a place come last."""

    def order(shape: Element) -> tuple[bool, int, int]:
        place = _place(shape, layouts)
        try:
            return (True, 0, 0) if place is None else (False, int(place.get("y")) // ROW_HEIGHT, int(place.get("x")))
        except (TypeError, ValueError):  # one that is no number
            return True, 0, 0

    return sorted(shapes, key=order)


def _place(shape: Element, layouts: Sequence[SlidePart]) -> Element | None:
    """Where a shape says that it stands; a placeholder stands where the layout has it, or else the master."""
    places = (found.find(path) for found in _inherited(shape, layouts) for path in PLACES)
    return next((place for place in places if place is not None), None)


def _inherited(shape: Element, layouts: Sequence[SlidePart]) -> Iterator[Element]:
    """The shape itself, the placeholder of the layout that it fills, and that of the master which this one fills."""
    yield shape
    if not layouts or not _role(shape) or _name(shape) == "graphicFrame":
        return
    for filled in [other for other in layouts[0].shapes if _index(other) == _index(shape)][:1]:
        yield filled
        wanted = OF_MASTER.get(_role(filled), "body")
        yield from [other for master in layouts[1:] for other in master.shapes if _role(other) == wanted][:1]


def _items(shapes: list[Element], slide: SlidePart, depth: int = 0) -> Iterator[Item]:
    for shape in shapes:
        if _role(shape) in FURNITURE or _role(shape) in TITLES:
            continue
        match _name(shape):
            case "grpSp":
                if depth < MAX_DEPTH:
                    yield from _items(_ordered(shapes_in(shape)), slide, depth + 1)
            case "sp":
                yield from _text(shape)
            case "pic":
                yield from _picture(shape, slide)
            case "graphicFrame":
                graphic = shape.find("{*}graphic/{*}graphicData")
                for content in () if graphic is None else graphic:
                    if _name(content) == "tbl":
                        header = content.find("{*}tblPr")
                        marked = header is not None and header.get("firstRow") in ("1", "true")
                        yield Item("table", table=Table.of(_rows(content), header_rows=int(marked)))
                    elif _name(content) == "chart":
                        yield from _chart(slide.data(_reference(content, "id")))
                    elif _name(content) == "relIds":
                        yield from _smart_art(slide.data(_reference(content, "dm")))


def _rows(table: Element) -> list[list[str]]:
    rows: list[list[str]] = []
    for row in table.iterfind("{*}tr"):
        texts: list[str] = []
        for cell in row.iterfind("{*}tc"):
            if cell.get("hMerge") in ("1", "true"):
                texts.append(Beside())
            elif cell.get("vMerge") in ("1", "true"):
                above = rows[-1] if rows else []
                texts.append(Below.of(above[len(texts)] if len(texts) < len(above) else ""))
            else:
                texts.append(_lines(cell.find("{*}txBody")))
        rows.append(texts)
    return rows


def _lines(frame: Element | None) -> str:
    """The paragraphs of a text, a line each."""
    paragraphs = () if frame is None else frame.iterfind("{*}p")
    return "\n".join("".join(_runs(paragraph)) for paragraph in paragraphs)


def _runs(paragraph: Element) -> Iterator[str]:
    """Runs, fields, line breaks and formulas of a paragraph."""
    for element in paragraph.iter():
        if _name(element) == "t":
            yield element.text or ""
        elif _name(element) == "br":
            yield " "


def _text(shape: Element) -> Iterator[Item]:
    """Body text as a list by indentation; a lone paragraph, or one with sentences, as text."""
    paragraphs = shape.findall("{*}txBody/{*}p")
    lines = [(_level(paragraph), one_line("".join(_runs(paragraph)))) for paragraph in paragraphs]
    lines = [(level, text) for level, text in lines if text]
    if not lines:
        return
    body = _role(shape) in ("body", "obj") or any(level for level, _ in lines)
    if len(lines) == 1 or not body:
        yield Item("text", "\n".join(text for _, text in lines))
    else:
        yield Item("list", "\n".join("  " * level + f"- {text}" for level, text in lines))


def _level(paragraph: Element) -> int:
    properties = paragraph.find("{*}pPr")
    level = "0" if properties is None else properties.get("lvl", "0")
    return min(int(level), MAX_DEPTH) if level.isdecimal() else 0


def _chart(data: bytes | None) -> Iterator[Item]:
    """A chart as a table: categories down, series across."""
    chart = parse_xml(data).find("{*}chart") if data else None
    area = None if chart is None else chart.find("{*}plotArea")
    plots = [] if area is None else [child for child in area if _name(child).endswith("Chart")]
    if chart is None or not plots:
        return
    if title := one_line(_lines(chart.find("{*}title/{*}tx/{*}rich"))):
        yield Item("text", f"Chart: {title}")
    categories = _points(plots[0].find("{*}ser/{*}cat"))
    series = [line for plot in plots for line in sorted(plot.iterfind("{*}ser"), key=_series_order)]
    columns = [_points(line.find("{*}val" if line.find("{*}val") is not None else "{*}yVal")) for line in series]
    rows = [["", *((line.findtext("{*}tx//{*}v") or "") for line in series)]]
    for index in range(max([len(categories), *map(len, columns)], default=0)):
        label = categories[index] if index < len(categories) else str(index + 1)
        rows.append([label, *(_value(column[index]) if index < len(column) else "" for column in columns)])
    if len(rows) > 1 and series:
        yield Item("table", table=Table(rows, 1))


def _series_order(series: Element) -> int:
    order = series.find("{*}order")
    value = "0" if order is None else order.get("val", "0")
    return int(value) if value.isdecimal() else 0


def _points(source: Element | None) -> list[str]:
    """The categories or values of a chart as stored with it, "" for empty ones; of nested ones the innermost."""
    count = None if source is None else source.find(".//{*}ptCount")
    if source is None or count is None or not count.get("val", "").isdecimal():
        return []
    level = source.find(".//{*}lvl")
    points = (source if level is None else level).iter("{*}pt")
    texts = {point.get("idx"): point.findtext("{*}v") or "" for point in points}
    return [texts.get(str(index), "") for index in range(min(int(count.get("val")), MAX_POINTS))]


def _value(text: str) -> str:
    """A number without the digits that only its storage has: "19.199999999999999" is 19.2."""
    try:
        return f"{float(text):.10g}"
    except ValueError:
        return text


def _picture(shape: Element, slide: SlidePart) -> Iterator[Item]:
    """A picture with a description that a person wrote."""
    properties = shape.find(".//{*}cNvPr")
    description = description_of(properties.get("descr", "") if properties is not None else "")
    picture = slide.data(_reference(shape.find("{*}blipFill/{*}blip"), "embed")) if description else None
    if picture is not None:
        yield Item("figure", description, image=as_png(picture))


def _smart_art(data: bytes | None) -> Iterator[Item]:
    """The texts of a diagram, which stand in a part of their own."""
    points = parse_xml(data).iter("{*}pt") if data else ()
    texts = [one_line("".join(text.text or "" for text in point.iter("{*}t"))) for point in points]
    if lines := [f"- {text}" for text in texts if text]:
        yield Item("list", "\n".join(lines))


def _notes(slide: SlidePart) -> str:
    name = slide.related("notesSlide")
    shapes = SlidePart(slide.archive, name).shapes if name else []
    body = next((shape for shape in shapes if _role(shape) == "body"), None)
    return "" if body is None else _lines(body.find("{*}txBody")).strip()
