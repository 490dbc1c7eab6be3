"""The field manual as EPUB: four chapters, each one item of the spine."""

from __future__ import annotations

from datetime import datetime
from html import escape

from makers.common import COMPANY, source_blocks, steady_zip

DAY = datetime(2025, 6, 30, 9, 0)
TITLE = "WB-7 field manual"

CONTAINER = """<?xml version="1.0" encoding="UTF-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>
"""
PAGE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" xml:lang="en">
<head><title>{title}</title></head>
<body>
{body}
</body>
</html>
"""
PACKAGE = """<?xml version="1.0" encoding="UTF-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">urn:skerry:wb7-field-manual:2025-06</dc:identifier>
<dc:title>{title}</dc:title>
<dc:creator>{creator}</dc:creator>
<dc:language>en</dc:language>
<dc:date>2025-06-30</dc:date>
<meta property="dcterms:modified">2025-06-30T09:00:00Z</meta>
</metadata>
<manifest>
<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>
{items}
</manifest>
<spine>
{references}
</spine>
</package>
"""


def chapters() -> list[tuple[str, list[str]]]:
    """The chapters with their paragraphs: `[("1 Before you sail", ["The WB-7 is …", …]), …]`."""
    result: list[tuple[str, list[str]]] = []
    for kind, text in source_blocks("field-manual.md"):
        if kind == "h1":
            result.append((text, []))
        else:
            result[-1][1].append(text)
    return result


def make() -> bytes:
    book = chapters()
    names = [f"chapter{number}" for number in range(1, len(book) + 1)]
    items = "\n".join(f'<item id="{name}" href="{name}.xhtml" media-type="application/xhtml+xml"/>' for name in names)
    references = "\n".join(f'<itemref idref="{name}"/>' for name in names)
    links = "\n".join(
        f'<li><a href="{name}.xhtml">{escape(title)}</a></li>' for name, (title, _) in zip(names, book, strict=True)
    )
    nav = f'<nav epub:type="toc"><h1>Contents</h1><ol>\n{links}\n</ol></nav>'
    entries = {
        "mimetype": b"application/epub+zip",
        "META-INF/container.xml": CONTAINER.encode(),
        "OEBPS/book.opf": PACKAGE.format(title=TITLE, creator=COMPANY, items=items, references=references).encode(),
        "OEBPS/nav.xhtml": PAGE.format(title="Contents", body=nav).encode(),
    }
    for name, (title, paragraphs) in zip(names, book, strict=True):
        body = "\n".join([f"<h1>{escape(title)}</h1>", *(f"<p>{escape(text)}</p>" for text in paragraphs)])
        entries[f"OEBPS/{name}.xhtml"] = PAGE.format(title=escape(title), body=body).encode()
    return steady_zip(entries, DAY)
