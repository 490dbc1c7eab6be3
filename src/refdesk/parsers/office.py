"""What Office files share: a zip that is safe to open, parts and their relations, properties, pictures.

Nothing is ever unpacked to disk, and XML is read without entities or network.
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
from refdesk.parsers.build import ParseOptions, one_line

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
            raise BrokenFile("the file is cut off or damaged: its table of contents cannot be read") from error
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
        raise NeedsPassword("this file is encrypted", hint="save it without a password and add that")
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
            raise HostileFile(f"the part {name} declares XML entities, which honest files of this kind never do")
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
