"""What Office files share: parts, relations between them, and properties; XML without entities or network."""

from __future__ import annotations

import io
import posixpath
from typing import Any
from urllib.parse import unquote

from lxml import etree

from refdesk.errors import BrokenFile
from refdesk.ingest.archive import Archive

Element = Any  # lxml's elements carry no useful types

SAFE: dict[str, Any] = {"resolve_entities": False, "no_network": True, "load_dtd": False, "huge_tree": True}
MAX_PIXELS = 40_000_000  # a scan of A3 at 400 dpi; larger pictures are bombs or posters
MAX_SIDE = 2000  # pixels; what a reader's screen shows
MIN_SIDE = 24  # smaller pictures are bullets and rules


def parse_xml(data: bytes) -> Element:
    """The root of a part; a damaged one is a broken file."""
    try:
        return etree.fromstring(data, etree.XMLParser(**SAFE))
    except etree.XMLSyntaxError as error:
        raise BrokenFile("a part of the file is not valid XML") from error


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
    metadata = {}
    if values.get("creator"):
        metadata["author"] = values["creator"]
    if date := values.get("modified") or values.get("created"):
        metadata["date"] = date
    return values.get("title", ""), metadata


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
