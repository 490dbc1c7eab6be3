"""The mooring sheet: an upright page, a landscape page turned by /Rotate 90, and a page with a crop box."""

from __future__ import annotations

from io import BytesIO

from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Paragraph, Table, TableStyle

from makers.common import COMPANY, pdf_date

TITLE = "WB-7 mooring sheet"
NUMBER = "SI-MS-012, issue 4, 22 April 2025"
MARGIN = 56
BLEED = 36  # white border with the printer's marks, outside the crop box of page 3

# Embedded, unlike the standard fonts of the other PDFs; the files come with reportlab.
pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf"))
pdfmetrics.registerFont(TTFont("VeraBd", "VeraBd.ttf"))

BODY = ParagraphStyle("body", fontName="Vera", fontSize=9.6, leading=15, spaceAfter=8)
HEADING = ParagraphStyle("heading", fontName="VeraBd", fontSize=13, leading=18, spaceBefore=12, spaceAfter=5)
TOP = ParagraphStyle("top", fontName="VeraBd", fontSize=20, leading=26, spaceAfter=4)
SMALL = ParagraphStyle("small", fontName="Vera", fontSize=9, leading=13, textColor=colors.Color(0.35, 0.35, 0.35))

PAGE_1 = [
    (TOP, TITLE),
    (SMALL, NUMBER),
    (HEADING, "1 Purpose"),
    (BODY, "This sheet describes the standard mooring of the WB-7 wave buoy for water depths from 8 to 60 metres. It "
     "is written for riggers and boat crews. The parts are listed on page 2, the inspection rules on page 3."),
    (HEADING, "2 Layout"),
    (BODY, "The anchor is a cast iron sinker of 350 kg. A chain of 15 metres leads from the sinker to the rubber cord, "
     "which lets the buoy follow the waves. The cord is 30 metres long and stretches to three times its length. A "
     "swivel above and below the cord keeps it from twisting."),
    (BODY, "In water deeper than 35 metres a rope of polyester is added between chain and cord. The length of the rope "
     "is the water depth minus 20 metres."),
    (HEADING, "3 Limits"),
    (BODY, "The mooring holds in currents of up to 1.8 metres per second. At stronger currents the buoy is pulled "
     "under; use the spar version instead. The breaking load of the weakest part, the rubber cord, is 14 kN."),
    (HEADING, "4 Power"),
    (BODY, "With the standard battery pack and one report per hour, the WB-7 runs for 14 months. Plan the exchange of "
     "the battery pack together with the yearly inspection of the mooring."),
]  # fmt: skip

PARTS_NOTE = "Items 6 and 9 wear fastest and are replaced every year. Item 5 is used in water deeper than 35 metres."
PARTS = [
    ["Item", "Part", "Order number", "Material", "Size", "Quantity", "Mass (kg)", "Replace after"],
    ["1", "Sinker", "M-701", "cast iron", "700 mm square", "1", "350.0", "not needed"],
    ["2", "Bottom shackle", "M-702", "galvanised steel", "22 mm", "2", "1.4", "24 months"],
    ["3", "Ground chain", "M-703", "galvanised steel", "16 mm, 15 m", "1", "84.0", "36 months"],
    ["4", "Lower swivel", "M-704", "stainless steel", "16 mm", "1", "1.1", "24 months"],
    ["5", "Polyester rope", "M-705", "polyester", "20 mm", "as needed", "0.3 per m", "36 months"],
    ["6", "Rubber cord", "S-409", "natural rubber", "27 mm, 30 m", "1", "19.5", "12 months"],
    ["7", "Upper swivel", "M-706", "stainless steel", "13 mm", "1", "0.7", "24 months"],
    ["8", "Buoy shackle", "M-707", "titanium", "13 mm", "1", "0.2", "60 months"],
    ["9", "Zinc anode", "M-708", "zinc", "0.5 kg", "3", "1.5", "12 months"],
]

PAGE_3 = [
    (HEADING, "5 Inspection"),
    (BODY, "The mooring is inspected by divers once a year, before the autumn storms. Lift the buoy if the divers find "
     "a cord that has lost more than one fifth of its diameter, a shackle without its safety wire, or a swivel that "
     "does not turn by hand."),
    (BODY, "Photograph every part before it is cleaned. The photographs and the signed form are kept for ten years."),
    (HEADING, "6 Recovery"),
    (BODY, "Recover the mooring at slack water. Bring the buoy alongside first, secure it with two lines, and take the "
     "load of the chain on the winch. The load on the winch reaches 6 kN when the sinker breaks out of mud."),
    (BODY, "Never stand in line with a stretched rubber cord: when it parts, it flies back over 60 metres."),
]  # fmt: skip


def make() -> bytes:
    buffer = BytesIO()
    with pdf_date("2025-04-22"):
        canvas = Canvas(buffer, pagesize=A4, invariant=1, pageCompression=0)
        canvas.setTitle(TITLE)
        canvas.setAuthor(COMPANY)
        _upright_page(canvas)
        _landscape_page(canvas)
        _cropped_page(canvas)
        canvas.save()
    return buffer.getvalue()


def _flow(canvas: Canvas, parts: list[tuple[ParagraphStyle, str]], left: float, top: float, width: float) -> float:
    """Draws paragraphs downwards from `top` and says where the last one ends."""
    for style, text in parts:
        paragraph = Paragraph(text, style)
        _, height = paragraph.wrap(width, 800)
        top -= style.spaceBefore + height
        paragraph.drawOn(canvas, left, top)
        top -= style.spaceAfter
    return top


def _footer(canvas: Canvas, page: int, width: float) -> None:
    canvas.setFont("Vera", 8)
    canvas.setFillGray(0.35)
    canvas.drawString(MARGIN, 30, f"{COMPANY}  ·  {TITLE}")
    canvas.drawRightString(width - MARGIN, 30, f"Page {page} of 3")
    canvas.setFillGray(0)


def _upright_page(canvas: Canvas) -> None:
    _flow(canvas, PAGE_1, MARGIN, A4[1] - 60, A4[0] - 2 * MARGIN)
    _footer(canvas, 1, A4[0])
    canvas.showPage()


def _landscape_page(canvas: Canvas) -> None:
    """Stored upright with its text running up the sheet; /Rotate 90 shows it as landscape."""
    width, height = A4[1], A4[0]
    canvas.setPageRotation(90)
    canvas.setPageSize((width, height))  # as shown; reportlab stores it turned
    canvas.translate(A4[0], 0)
    canvas.rotate(90)
    heading = (HEADING, "Parts list")
    top = _flow(canvas, [heading, (BODY, PARTS_NOTE)], MARGIN, height - 50, width - 2 * MARGIN)
    table = Table(PARTS, colWidths=[36, 106, 88, 114, 104, 78, 84, 120], rowHeights=20)
    table.setStyle(
        TableStyle(
            [
                ("FONT", (0, 0), (-1, -1), "Vera", 8.6),
                ("FONT", (0, 0), (-1, 0), "VeraBd", 8.6),
                ("GRID", (0, 0), (-1, -1), 0.6, colors.black),
                ("BACKGROUND", (0, 0), (-1, 0), colors.Color(0.88, 0.92, 0.96)),
                ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            ]
        )
    )
    _, table_height = table.wrap(width - 2 * MARGIN, height)
    table.drawOn(canvas, MARGIN, top - table_height - 4)
    _sketch(canvas, MARGIN + 40, 78, width - 2 * MARGIN - 80)
    _footer(canvas, 2, width)
    canvas.showPage()


def _sketch(canvas: Canvas, left: float, bottom: float, width: float) -> None:
    """The mooring lying on its side: sinker, chain, swivel, cord, swivel, buoy."""
    y = bottom + 50
    canvas.setLineWidth(1.2)
    canvas.rect(left, y - 16, 44, 32)
    canvas.setDash(3, 2)
    canvas.line(left + 44, y, left + width * 0.35, y)
    canvas.setDash()
    canvas.setLineWidth(4)
    canvas.setStrokeGray(0.35)
    canvas.line(left + width * 0.37, y, left + width * 0.82, y)
    canvas.setStrokeGray(0)
    canvas.setLineWidth(1.2)
    for share in (0.36, 0.83):
        canvas.circle(left + width * share, y, 5)
    canvas.line(left + width * 0.84, y, left + width - 50, y)
    canvas.circle(left + width - 25, y, 25)
    canvas.setFont("Vera", 9)
    places = {0.03: "sinker", 0.2: "chain", 0.36: "swivel", 0.6: "rubber cord", 0.83: "swivel", 0.965: "buoy"}
    for share, label in places.items():
        canvas.drawCentredString(left + width * share, y - 44, label)


def _cropped_page(canvas: Canvas) -> None:
    """A printer's sheet: marks and a colour slug stand outside the crop box and are never shown."""
    sheet = (A4[0] + 2 * BLEED, A4[1] + 2 * BLEED)
    canvas.setPageRotation(0)
    canvas.setPageSize(sheet)
    canvas.setCropBox((BLEED, BLEED, BLEED + A4[0], BLEED + A4[1]))
    canvas.setLineWidth(0.5)
    for x in (BLEED, BLEED + A4[0]):
        canvas.line(x, 4, x, BLEED - 8)
        canvas.line(x, sheet[1] - 4, x, sheet[1] - BLEED + 8)
    canvas.setFont("Vera", 6)
    canvas.drawString(BLEED + 12, 14, "SI-MS-012 sheet 3 of 3  printer's proof  CMYK")
    canvas.translate(BLEED, BLEED)
    _flow(canvas, PAGE_3, MARGIN, A4[1] - 50, A4[0] - 2 * MARGIN)
    _footer(canvas, 3, A4[0])
    canvas.showPage()
