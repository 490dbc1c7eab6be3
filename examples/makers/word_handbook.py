"""The staff handbook as DOCX: headings, a numbered list, a footnote, and a table with a table inside."""

from __future__ import annotations

from datetime import datetime
from io import BytesIO

from docx import Document
from docx.document import Document as DocumentObject
from docx.enum.style import WD_STYLE_TYPE
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.table import _Cell
from docx.text.paragraph import Paragraph

from makers.common import COMPANY, source_blocks, steady_office_file

DAY = datetime(2025, 2, 3, 9, 0)
TITLE = "Staff handbook 2025"
FOOTNOTE = "Claims from sea trips of more than four weeks may be handed in within 60 days of return."
ALLOWANCES = [
    ["Destination", "Meals per day (EUR)", "Hotel limit per night (EUR)"],
    ["Home country", "32", "110"],
    ["Germany", "38", "135"],
    ["Japan", "46", "170"],
    ["Test stations", "", ""],
]
STATIONS = [["Station", "Meals per day (EUR)"], ["Lodin Point", "24"], ["Research vessel", "18"]]
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
FOOTNOTES_XML = f"""<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<w:footnotes xmlns:w="{W}">
<w:footnote w:type="separator" w:id="-1"><w:p><w:r><w:separator/></w:r></w:p></w:footnote>
<w:footnote w:type="continuationSeparator" w:id="0"><w:p><w:r><w:continuationSeparator/></w:r></w:p></w:footnote>
<w:footnote w:id="1"><w:p><w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:footnoteRef/></w:r>
<w:r><w:t xml:space="preserve"> {FOOTNOTE}</w:t></w:r></w:p></w:footnote>
</w:footnotes>
"""


def make() -> bytes:
    document = _empty_document()
    document.core_properties.title = TITLE
    document.core_properties.author = COMPANY
    document.sections[0].header.paragraphs[0].text = f"{COMPANY} · {TITLE}"
    document.add_paragraph(TITLE, style="Title")
    for kind, text in source_blocks("staff-handbook.md"):
        if kind in ("h1", "h2"):
            document.add_heading(text, level=int(kind[1]))
        elif kind == "number":
            document.add_paragraph(text, style="List Number")
        elif kind == "insert":
            _add_allowances(document)
        else:
            before, mark, after = text.partition("@footnote")
            paragraph = document.add_paragraph(before)
            if mark:
                _add_footnote(document, paragraph)
                paragraph.add_run(after)
    buffer = BytesIO()
    document.save(buffer)
    return steady_office_file(buffer.getvalue(), DAY)


def _empty_document() -> DocumentObject:
    """The library's template without the 800 KB of styles that no one uses here, and without its thumbnail."""
    document = Document()
    for style in list(document.styles):
        if style.type == WD_STYLE_TYPE.TABLE and style.name not in ("Normal Table", "Table Grid"):
            style.delete()
    for rels in (document.part.rels, document.part.package.rels):
        for name in [
            name for name, relation in rels.items() if relation.reltype.endswith(("WithEffects", "thumbnail"))
        ]:
            del rels[name]
    return document


def _add_allowances(document: DocumentObject) -> None:
    """The last row has a table of its own in a merged cell."""
    table = document.add_table(rows=len(ALLOWANCES), cols=3, style="Table Grid")
    for row, texts in zip(table.rows, ALLOWANCES, strict=True):
        for cell, text in zip(row.cells, texts, strict=True):
            cell.text = text
    for cell in table.rows[0].cells:
        cell.paragraphs[0].runs[0].bold = True
    last = table.rows[-1]
    _add_stations(last.cells[1].merge(last.cells[2]))
    document.add_paragraph()


def _add_stations(cell: _Cell) -> None:
    inner = cell.add_table(rows=len(STATIONS), cols=2)
    inner.style = "Table Grid"
    for row, texts in zip(inner.rows, STATIONS, strict=True):
        for inner_cell, text in zip(row.cells, texts, strict=True):
            inner_cell.text = text
    # The library adds the paragraph a cell must end with; the empty one before the table is not needed.
    cell.paragraphs[0]._p.getparent().remove(cell.paragraphs[0]._p)


def _add_footnote(document: DocumentObject, paragraph: Paragraph) -> None:
    """python-docx has no footnotes, so the part and the reference are written by hand."""
    part = Part(
        PackURI("/word/footnotes.xml"),
        "application/vnd.openxmlformats-officedocument.wordprocessingml.footnotes+xml",
        FOOTNOTES_XML.encode(),
        document.part.package,
    )
    document.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)
    run = paragraph.add_run()
    run.font.superscript = True
    reference = OxmlElement("w:footnoteReference")
    reference.set(qn("w:id"), "1")
    run._r.append(reference)
