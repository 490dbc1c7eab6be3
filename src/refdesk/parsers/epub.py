"""EPUB: the spine in reading order, a page for every item of it."""

from __future__ import annotations

import posixpath
from urllib.parse import unquote

from refdesk.errors import BrokenFile, NeedsPassword
from refdesk.parsers import html
from refdesk.parsers.build import Builder, ParseOptions, one_line
from refdesk.parsers.office import Archive, Element, parse_xml
from refdesk.parsers.text import decode
from refdesk.types import Parsed

FONT_METHODS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")  # hide fonts only


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Each item of the spine is read as a web page; a table of contents is marked as one."""
    archive = Archive(data, options, allow_doctype=True)
    _refuse_protected(archive)
    package_path = _package_path(archive)
    package = parse_xml(archive.read(package_path), recover=True)
    folder = posixpath.dirname(package_path)
    manifest = {item.get("id"): item for item in package.iter("{*}item")}
    builder = Builder()
    spine = [manifest[ref.get("idref")] for ref in package.iter("{*}itemref") if ref.get("idref") in manifest]
    for done, item in enumerate(spine, 1):
        path = posixpath.normpath(posixpath.join(folder, unquote(item.get("href") or "")))
        kind = item.get("media-type") or ""
        if archive.has(path) and ("html" in kind or path.lower().endswith(("html", "htm", "xml"))):
            _write_page(builder, decode(archive.read(path)), "nav" in (item.get("properties") or "").split())
        options.progress(done, len(spine))
    names = {"language": "language", "publisher": "publisher", "date": "date", "author": "creator"}
    metadata = {key: value for key, name in names.items() if (value := _dublin(package, name))}
    return builder.build("epub", title=_dublin(package, "title"), metadata=metadata)


def _write_page(builder: Builder, text: str, is_toc: bool) -> None:
    if not text.strip():
        return
    root, complete = html.read_tree(text)
    if is_toc:
        lines = [one_line(link.text_content()) for link in root.iter("a")]
        builder.page("Contents")
        builder.block("toc", "\n".join(line for line in lines if line))
    elif not complete:
        builder.page()
        builder.block("text", html.strip_tags(text))
    elif items := html.items_of(root):  # nothing to read on a cover picture
        builder.page(next((item.text for item in items if item.kind == "heading"), ""))
        builder.write(items, paged=False)


def _refuse_protected(archive: Archive) -> None:
    if not archive.has("META-INF/encryption.xml"):
        return
    for method in parse_xml(archive.read("META-INF/encryption.xml"), recover=True).iter("{*}EncryptionMethod"):
        if (method.get("Algorithm") or "") not in FONT_METHODS:
            raise NeedsPassword(
                "this e-book is protected against copying (DRM), so its text cannot be read",
                hint="add a copy without protection",
            )


def _package_path(archive: Archive) -> str:
    if archive.has("META-INF/container.xml"):
        for rootfile in parse_xml(archive.read("META-INF/container.xml"), recover=True).iter("{*}rootfile"):
            path = unquote(rootfile.get("full-path") or "")
            if archive.has(path):
                return path
    package = next((name for name in archive.names if name.lower().endswith(".opf")), None)
    if package is None:
        raise BrokenFile("the e-book has no list of its chapters")
    return package


def _dublin(package: Element, name: str) -> str:
    """A field of the package; `{*}` because makers of e-books disagree about namespaces."""
    texts = (one_line("".join(element.itertext())) for element in package.iter(f"{{*}}{name}"))
    return next(filter(None, texts), "")
