"""EPUB: the spine in reading order, a page for every item of it."""

from __future__ import annotations

import posixpath
from typing import Any
from urllib.parse import unquote

from lxml import etree

from refdesk.errors import BrokenFile, NeedsPassword
from refdesk.parsers import html
from refdesk.parsers.build import Builder, ParseOptions, add
from refdesk.parsers.office import Archive
from refdesk.parsers.text import decode
from refdesk.types import Parsed

FONT_METHODS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # hide fonts only


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Each item of the spine is read as a web page; a table of contents is marked as one."""
    archive = Archive(data, options, allow_doctype=True)
    _refuse_protected(archive)
    package_path = _package_path(archive)
    package = _xml(archive.read(package_path))
    folder = posixpath.dirname(package_path)
    manifest = {item.get("id"): item for item in _all(package, "item")}
    builder = Builder()
    spine = [manifest[ref.get("idref")] for ref in _all(package, "itemref") if ref.get("idref") in manifest]
    for done, item in enumerate(spine, 1):
        path = posixpath.normpath(posixpath.join(folder, unquote(item.get("href") or "")))
        kind = item.get("media-type") or ""
        if archive.has(path) and ("html" in kind or path.lower().endswith(("html", "htm", "xml"))):
            _write_page(builder, archive.read(path), "nav" in (item.get("properties") or "").split())
        options.progress(done, len(spine))
    metadata = {key: value for key in ("creator", "language", "publisher", "date") if (value := _dublin(package, key))}
    if "creator" in metadata:
        metadata["author"] = metadata.pop("creator")
    return builder.build("epub", title=_dublin(package, "title"), metadata=metadata)


def _write_page(builder: Builder, data: bytes, is_toc: bool) -> None:
    text = decode(data)
    if not text.strip():
        return
    root, complete = html.read_tree(text)
    if is_toc:
        lines = [" ".join("".join(link.itertext()).split()) for link in root.iter("a")]
        builder.page("Contents")
        builder.block("toc", "\n".join(line for line in lines if line))
        return
    items = html.items_of(root) if complete else []
    label = next((item.text for item in items if item.kind == "heading"), "")
    if not items and complete:
        return  # a cover picture
    builder.page(" ".join(label.split())[:200])
    for item in items:
        add(builder, item)
    if not complete:
        builder.block("text", html.strip_tags(text))


def _refuse_protected(archive: Archive) -> None:
    if not archive.has("META-INF/encryption.xml"):
        return
    for method in _all(_xml(archive.read("META-INF/encryption.xml")), "EncryptionMethod"):
        if (method.get("Algorithm") or "") not in FONT_METHODS:
            raise NeedsPassword(
                "this e-book is protected against copying (DRM), so its text cannot be read",
                hint="add a copy without protection",
            )


def _package_path(archive: Archive) -> str:
    if archive.has("META-INF/container.xml"):
        for rootfile in _all(_xml(archive.read("META-INF/container.xml")), "rootfile"):
            path = unquote(rootfile.get("full-path") or "")
            if archive.has(path):
                return path
    found = next((name for name in archive.names if name.lower().endswith(".opf")), None)
    if found is None:
        raise BrokenFile("the e-book has no list of its chapters")
    return found


def _xml(data: bytes) -> Any:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, load_dtd=False)
    root = etree.fromstring(data, parser)
    if root is None:
        raise BrokenFile("a part of the e-book is not valid XML")
    return root


def _all(root: Any, name: str) -> list[Any]:
    """Elements of this name in any namespace; makers of e-books disagree about them."""
    return [
        element for element in root.iter() if isinstance(element.tag, str) and etree.QName(element).localname == name
    ]


def _dublin(package: Any, name: str) -> str:
    found = [" ".join("".join(element.itertext()).split()) for element in _all(package, name)]
    return next((text for text in found if text), "")
