"""Sample files of every format, made in code, so that a test shows what it reads."""

from __future__ import annotations

import datetime
import io
import zipfile
from email.message import EmailMessage
from typing import Any

import docx
import openpyxl
import pptx
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import nsdecls, qn
from openpyxl.styles import Font
from PIL import Image
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.util import Inches

from refdesk.ingest.parse import parse
from refdesk.parsers.build import ParseOptions
from refdesk.types import Block, Kind, Parsed

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def read(data: bytes, name: str = "", options: ParseOptions | None = None) -> Parsed:
    """Parses and holds what every result must satisfy: pages tile the text, blocks lie inside, UTF-8 can carry it."""
    parsed = parse(data, name, options or ParseOptions())
    parsed.text.encode("utf-8")
    assert parsed.pages[0].start == 0
    assert parsed.pages[-1].end == len(parsed.text)
    assert all(one.end == two.start for one, two in zip(parsed.pages, parsed.pages[1:], strict=False))
    last = 0
    for block in parsed.blocks:
        assert last <= block.start < block.end <= len(parsed.text)
        last = block.end
        if block.header is not None:
            assert block.start <= block.header[0] < block.header[1] < block.end
    return parsed


def texts(parsed: Parsed, kind: Kind) -> list[str]:
    return [text_of(parsed, block) for block in parsed.blocks if block.kind == kind]


def text_of(parsed: Parsed, block: Block) -> str:
    return parsed.text[block.start : block.end]


def header_of(parsed: Parsed, block: Block) -> str:
    return "" if block.header is None else parsed.text[block.header[0] : block.header[1]]


def headings(parsed: Parsed) -> list[tuple[int, str]]:
    return [(block.level, text_of(parsed, block)) for block in parsed.blocks if block.kind == "heading"]


def saved(document: Any) -> bytes:
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def picture(width: int = 80, height: int = 60) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (width, height), "navy").save(target, "JPEG")
    return target.getvalue()


def zipped(parts: dict[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return target.getvalue()


def part_of(data: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name)


def with_part(data: bytes, name: str, content: bytes) -> bytes:
    """The same zip file with one part replaced or added."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts: dict[str, bytes | str] = {entry: archive.read(entry) for entry in archive.namelist()}
    return zipped(parts | {name: content})


def word_document() -> bytes:
    """Two sections with lists, a nested and a merged table, a figure, tracked changes, a content control."""
    document = docx.Document()
    document.core_properties.title = ""
    document.add_heading("Annual report", 0)
    document.add_heading("Results", 1)
    document.add_paragraph("Sales rose by four per cent.")
    document.add_heading("Ablation", 2)
    document.add_paragraph("First step", style="List Number")
    document.add_paragraph("Second step", style="List Number")
    document.add_paragraph("A point", style="List Bullet")
    document.add_paragraph("A point below", style="List Bullet 2")
    outer = document.add_table(rows=2, cols=2)
    outer.cell(0, 0).text, outer.cell(0, 1).text = "Region", "Detail"
    outer.cell(1, 0).text = "North"
    inner = outer.cell(1, 1).add_table(rows=2, cols=2)
    for row, values in enumerate((("city", "sales"), ("Oslo", "12"))):
        for column, value in enumerate(values):
            inner.cell(row, column).text = value
    document.add_paragraph("After the table.")
    merged = document.add_table(rows=2, cols=2)
    merged.cell(0, 0).merge(merged.cell(0, 1)).text = "Merged header"
    merged.cell(1, 0).text, merged.cell(1, 1).text = "left", "right"
    _add_changes(document)
    document.add_heading("Outlook", 1)
    document.add_paragraph().add_run().add_picture(io.BytesIO(picture()))
    document.add_paragraph("Figure 1: Sales by region", style="Caption")
    document.sections[0].header.paragraphs[0].text = "CONFIDENTIAL RUNNING HEADER"
    document.sections[0].footer.paragraphs[0].text = "page footer"
    return saved(document)


def _add_changes(document: Any) -> None:
    """A tracked insertion and deletion, and a paragraph inside a content control."""
    paragraph = document.add_paragraph("The price is ")
    paragraph._p.append(parse_xml(f'<w:del {W} w:id="1" w:author="a"><w:r><w:delText>nine</w:delText></w:r></w:del>'))
    paragraph._p.append(parse_xml(f'<w:ins {W} w:id="2" w:author="a"><w:r><w:t>ten</w:t></w:r></w:ins>'))
    control = parse_xml(
        f"<w:sdt {W}><w:sdtPr/><w:sdtContent><w:p><w:r><w:t>Inside a control.</w:t></w:r></w:p></w:sdtContent></w:sdt>"
    )
    document.element.body.insert(len(document.element.body) - 1, control)


def word_with_notes() -> bytes:
    """A paragraph with a footnote and one with a text box; python-docx writes neither, so parts are added."""
    document = docx.Document()
    paragraph = document.add_paragraph("Water boils at 100 degrees")
    run = OxmlElement("w:r")
    reference = OxmlElement("w:footnoteReference")
    reference.set(qn("w:id"), "2")
    run.append(reference)
    paragraph._p.append(run)
    box = parse_xml(
        f"<w:r {nsdecls('w')} xmlns:v='urn:schemas-microsoft-com:vml'><w:pict><v:shape><v:textbox><w:txbxContent>"
        "<w:p><w:r><w:t>Words in a box.</w:t></w:r></w:p></w:txbxContent></v:textbox></v:shape></w:pict></w:r>"
    )
    document.add_paragraph("Beside it stands a box.")._p.append(box)
    notes = (
        f'<w:footnotes {W}><w:footnote w:type="separator" w:id="0"><w:p/></w:footnote>'
        '<w:footnote w:id="2"><w:p><w:r><w:t>At sea level.</w:t></w:r></w:p></w:footnote></w:footnotes>'
    )
    data = with_part(saved(document), "word/footnotes.xml", notes.encode())
    relations = part_of(data, "word/_rels/document.xml.rels").decode()
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    relation = f'<Relationship Id="rIdNotes" Type="{kind}" Target="footnotes.xml"/></Relationships>'
    return with_part(data, "word/_rels/document.xml.rels", relations.replace("</Relationships>", relation).encode())


def presentation() -> bytes:
    """Three slides: bullets with notes; a table and grouped shapes; a chart."""
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "Plan"
    frame = slide.placeholders[1].text_frame
    frame.text = "Buy paper"
    deeper = frame.add_paragraph()
    deeper.text, deeper.level = "Recycled only", 1
    slide.notes_slide.notes_text_frame.text = "Mention the budget."
    second = show.slides.add_slide(show.slide_layouts[5])
    second.shapes.title.text = "Costs"
    table = second.shapes.add_table(2, 2, Inches(1), Inches(2), Inches(4), Inches(1)).table
    for row, values in enumerate((("item", "price"), ("paper", "3"))):
        for column, value in enumerate(values):
            table.cell(row, column).text = value
    group = second.shapes.add_group_shape()
    for left, text in ((Inches(5), "right box"), (Inches(1), "left box")):
        group.shapes.add_textbox(left, Inches(5), Inches(2), Inches(1)).text_frame.text = text
    third = show.slides.add_slide(show.slide_layouts[6])
    data = CategoryChartData()
    data.categories = ["East", "West"]
    data.add_series("Sales", (19.2, 21.4))
    third.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, Inches(1), Inches(1), Inches(5), Inches(3), data)
    third._element.set("show", "0")
    return saved(show)


def workbook() -> bytes:
    """A sheet of prices with a title, number formats, a merged region and a second table; and one far-off cell."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Costs"
    sheet["A1"] = "Prices of 2024"
    sheet["A1"].font = Font(bold=True)
    sheet.append([])
    sheet.append(["region", "item", "price", "share", "since"])
    sheet.append(["North", "paper", 1234.5, 0.125, datetime.date(2024, 3, 1)])
    sheet.append([None, "ink", -7, 0.5, datetime.date(2024, 12, 24)])
    sheet.merge_cells("A4:A5")
    for row in (4, 5):
        sheet.cell(row, 3).number_format = '"$"#,##0.00'
        sheet.cell(row, 4).number_format = "0.0%"
        sheet.cell(row, 5).number_format = "yyyy-mm-dd"
    sheet["A8"], sheet["B8"] = "city", "people"
    sheet["A9"], sheet["B9"] = "Oslo", 709037
    sheet["B9"].number_format = "#,##0"
    far = book.create_sheet("Far")
    far["A1"], far["B1"] = "name", "value"
    far["A2"], far["B2"] = "first", 1
    far["XFD1048576"] = "the last cell"
    return saved(book)


def mail() -> bytes:
    """A message with plain and HTML bodies, a PDF-like attachment, an inline picture and a forwarded message."""
    message = EmailMessage()
    message["Subject"] = "Grüße aus Oslo"
    message["From"] = "Ada <ada@example.org>"
    message["To"] = "bob@example.org"
    message["Date"] = "Fri, 16 Dec 2022 17:04:16 -0500"
    message.set_content("Dear Bob,\n\nthe contract ends in May.\n")
    message.add_alternative("<p>Dear Bob, <b>HTML body</b></p>", subtype="html")
    message.add_attachment(b"name,price\npaper,3\n", maintype="text", subtype="csv", filename="../prices.csv")
    message.add_attachment(
        picture(), maintype="image", subtype="jpeg", filename="logo.jpg", disposition="inline", cid="<logo>"
    )
    inner = EmailMessage()
    inner["Subject"], inner["From"] = "Old news", "carol@example.org"
    inner.set_content("Forwarded text.")
    message.add_attachment(inner)
    message.add_attachment(b"0\x82", maintype="application", subtype="pkcs7-signature", filename="smime.p7s")
    return message.as_bytes()


def book(encryption: str = "") -> bytes:
    """An e-book of two chapters and a table of contents."""
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        "<dc:title>Winter</dc:title><dc:creator>E. Benson</dc:creator><dc:language>en</dc:language>"
        "</metadata><manifest>"
        '<item id="n" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/>'
        '<item id="two" href="text/two.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="one" href="text/one%20a.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="n"/><itemref idref="one"/><itemref idref="two"/></spine></package>'
    )
    page = '<?xml version="1.0"?><!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml"><body>{}</body></html>'
    parts: dict[str, bytes | str] = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>',
        "OPS/book.opf": package,
        "OPS/nav.xhtml": page.format('<nav><ol><li><a href="one.xhtml">Snow</a></li><li><a>Ice</a></li></ol></nav>'),
        "OPS/text/one a.xhtml": page.format("<h1>Snow</h1><p>It fell all night.</p>"),
        "OPS/text/two.xhtml": page.format("<h1>Ice</h1><p>The lake froze.</p>"),
    }
    if encryption:
        parts["META-INF/encryption.xml"] = (
            f'<encryption><EncryptedData><EncryptionMethod Algorithm="{encryption}"/></EncryptedData></encryption>'
        )
    return zipped(parts)


def compound_file(*streams: str) -> bytes:
    """Enough of an Office 97–2003 file to be recognised: its magic and the names of its streams."""
    names = b"".join(stream.encode("utf-16-le").ljust(64, b"\0") for stream in streams)
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 504 + names + b"\0" * 512
