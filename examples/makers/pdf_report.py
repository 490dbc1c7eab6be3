"""The two-column report with a figure, a table, numbered headings and a running header."""

from __future__ import annotations

import re
from io import BytesIO
from xml.sax.saxutils import escape

from PIL import Image as Raster
from PIL import ImageDraw, ImageFont
from reportlab.lib import colors
from reportlab.lib.enums import TA_CENTER, TA_JUSTIFY
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    FrameBreak,
    Image,
    KeepTogether,
    NextPageTemplate,
    PageTemplate,
    Paragraph,
    Spacer,
    Table,
    TableStyle,
)

from makers.common import pdf_date, source_blocks

TITLE = "Long-term drift of the TG-4 tide gauge"
SUBTITLE = "Twelve gauges over 26 months at Lodin Point"
AUTHORS = "Maren Oduya, Tobias Feld and Ines Carrow"
HEADER = "Skerry Technical Report SI-TR-031"
CAPTION = (
    "Figure 1: Mean zero shift of six bare and six guarded TG-4 gauges against the radar reference, "
    "January 2023 to February 2025."
)
TABLE_CAPTION = "Table 1: Drift of each gauge and its offset at the end of the trial."
ABSTRACT = (
    "Twelve TG-4 pressure gauges were compared with a levelled radar gauge for 26 months. Bare gauges drifted by "
    "3.4 mm per year, gauges with a copper guard by 0.9 mm per year. At least half of the drift is caused by growth "
    "on the diaphragm. We recommend the guard as standard equipment."
)

# serial number -> (guarded, drift in mm per year)
GAUGES = {
    "0409": (False, 5.2), "0410": (False, 3.1), "0411": (False, 2.8),
    "0412": (False, 3.6), "0413": (False, 2.5), "0414": (False, 3.2),
    "0415": (True, 0.7), "0416": (True, 1.1), "0417": (True, 0.8),
    "0418": (True, 1.3), "0419": (True, 0.6), "0420": (True, 0.9),
}  # fmt: skip
MONTHS = 26

# Where long words may be broken at the end of a line.
BREAKS = (
    "instru-ments", "cali-bration", "photo-graphed", "tempera-ture", "unpro-tected", "recom-mend", "refer-ence",
    "uncer-tainty", "astro-nomical", "equip-ment", "differ-ence", "deploy-ment", "observ-er", "baro-meter",
    "bench-marks", "pro-duction", "compar-ison", "intro-duced", "diaph-ragm", "specifi-cation", "instal-lation",
    "signifi-cant", "coeffi-cient",
)  # fmt: skip

MARGIN, GUTTER, TOP, BOTTOM = 52, 18, 62, 56
COLUMN = (A4[0] - 2 * MARGIN - GUTTER) / 2
TITLE_HEIGHT = 148

BODY = ParagraphStyle("body", fontName="Times-Roman", fontSize=10, leading=12.8, alignment=TA_JUSTIFY, spaceAfter=6)
HEADING = ParagraphStyle("heading", fontName="Helvetica-Bold", keepWithNext=1)
STYLES = {
    "text": BODY,
    "h1": ParagraphStyle("h1", parent=HEADING, fontSize=12.5, leading=15, spaceBefore=9, spaceAfter=4),
    "h2": ParagraphStyle("h2", parent=HEADING, fontSize=10.5, leading=13, spaceBefore=5, spaceAfter=3),
    "number": ParagraphStyle("number", parent=BODY, leftIndent=12, firstLineIndent=-12, spaceAfter=3),
    "title": ParagraphStyle("title", fontName="Helvetica-Bold", fontSize=18, leading=22, alignment=TA_CENTER),
    "subtitle": ParagraphStyle("subtitle", fontName="Helvetica", fontSize=12, leading=16, alignment=TA_CENTER),
    "authors": ParagraphStyle("authors", fontName="Times-Italic", fontSize=10.5, leading=15, alignment=TA_CENTER),
    "abstract": ParagraphStyle("abstract", parent=BODY, leftIndent=36, rightIndent=36, spaceBefore=10),
    "caption": ParagraphStyle("caption", parent=BODY, fontName="Times-Italic", fontSize=8.6, leading=10.5),
}


def make() -> bytes:
    buffer = BytesIO()
    with pdf_date("2025-03-17"):
        template = BaseDocTemplate(
            buffer, pagesize=A4, title=TITLE, author=AUTHORS, subject=HEADER, invariant=1, pageCompression=0
        )
        template.addPageTemplates([_first_page(), _later_page()])
        template.build(_story())
    return buffer.getvalue()


def _frame(column: int, height: float) -> Frame:
    left = MARGIN + column * (COLUMN + GUTTER)
    return Frame(left, BOTTOM, COLUMN, height, leftPadding=0, rightPadding=0, topPadding=0, bottomPadding=0)


def _first_page() -> PageTemplate:
    height = A4[1] - TOP - BOTTOM
    title = Frame(MARGIN, BOTTOM + height - TITLE_HEIGHT, A4[0] - 2 * MARGIN, TITLE_HEIGHT, 0, 0, 0, 0)
    body = height - TITLE_HEIGHT - 6
    return PageTemplate("first", [title, _frame(0, body), _frame(1, body)], onPage=_running_lines)


def _later_page() -> PageTemplate:
    height = A4[1] - TOP - BOTTOM
    return PageTemplate("later", [_frame(0, height), _frame(1, height)], onPage=_running_lines)


def _running_lines(canvas: Canvas, template: BaseDocTemplate) -> None:
    canvas.saveState()
    canvas.setFont("Helvetica", 8)
    canvas.setFillGray(0.3)
    canvas.drawString(MARGIN, A4[1] - 38, HEADER)
    canvas.drawRightString(A4[0] - MARGIN, A4[1] - 38, "March 2025")
    canvas.setStrokeGray(0.6)
    canvas.setLineWidth(0.5)
    canvas.line(MARGIN, A4[1] - 44, A4[0] - MARGIN, A4[1] - 44)
    canvas.drawCentredString(A4[0] / 2, 32, str(template.page))
    canvas.restoreState()


def _story() -> list[Flowable]:
    story: list[Flowable] = [
        Paragraph(TITLE, STYLES["title"]),
        Paragraph(SUBTITLE, STYLES["subtitle"]),
        Spacer(0, 6),
        Paragraph(AUTHORS, STYLES["authors"]),
        Paragraph("Skerry Instruments Ltd., Research, Brannoch", STYLES["authors"]),
        Paragraph(f"<b>Abstract.</b> {ABSTRACT}", STYLES["abstract"]),
        NextPageTemplate("later"),
        FrameBreak(),
    ]
    step = 0
    for kind, text in source_blocks("drift-report.md"):
        step = step + 1 if kind == "number" else 0
        if text == "References":
            story.append(FrameBreak())
        if kind == "number":
            story.append(Paragraph(_breakable(f"{step}. {text}"), STYLES["number"]))
        elif kind == "insert":
            story.append(_figure() if text == "figure" else _table())
        else:
            story.append(Paragraph(_breakable(text) if kind == "text" else escape(text), STYLES[kind]))
    return story


def _breakable(text: str) -> str:
    """Puts soft hyphens into long words, which show only where a line ends."""
    text = escape(text)
    for word in BREAKS:
        text = re.sub(word.replace("-", ""), word.replace("-", "\u00ad"), text)
    return text


def _figure() -> Flowable:
    image = Image(BytesIO(draw_chart()), width=COLUMN, height=COLUMN * 0.62)
    return KeepTogether([Spacer(0, 4), image, Spacer(0, 3), Paragraph(CAPTION, STYLES["caption"]), Spacer(0, 6)])


def _table() -> Flowable:
    rows = [["Gauge", "Guard", "Drift (mm/year)", "Offset (mm)"]]
    for serial, (guarded, drift) in GAUGES.items():
        rows.append([serial, "yes" if guarded else "no", f"{drift:.1f}", f"{drift * MONTHS / 12:.1f}"])
    table = Table(rows, colWidths=[COLUMN * share for share in (0.2, 0.2, 0.33, 0.27)], rowHeights=14)
    table.setStyle(
        TableStyle(
            [
                ("FONT", (0, 0), (-1, -1), "Times-Roman", 9),
                ("FONT", (0, 0), (-1, 0), "Times-Bold", 9),
                ("GRID", (0, 0), (-1, -1), 0.5, colors.black),
                ("BACKGROUND", (0, 0), (-1, 0), colors.Color(0.9, 0.93, 0.96)),
                ("ALIGN", (2, 0), (-1, -1), "RIGHT"),
                ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            ]
        )
    )
    return KeepTogether([Spacer(0, 4), Paragraph(TABLE_CAPTION, STYLES["caption"]), table, Spacer(0, 8)])


def draw_chart() -> bytes:
    """The chart of Figure 1 as a JPEG: two straight lines with a small seasonal wave."""
    width, height = 960, 595
    left, right, top, bottom = 90, 930, 30, 500
    picture = Raster.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(picture)
    font = ImageFont.load_default(24)

    def place(month: float, shift: float) -> tuple[float, float]:
        return left + (right - left) * month / MONTHS, bottom - (bottom - top) * shift / 8

    for shift in range(0, 9, 2):
        y = place(0, shift)[1]
        draw.line([(left, y), (right, y)], fill=(205, 210, 216), width=2)
        draw.text((left - 14, y), str(shift), fill="black", font=font, anchor="rm")
    for month, label in ((0, "Jan 2023"), (12, "Jan 2024"), (24, "Jan 2025")):
        x = place(month, 0)[0]
        draw.line([(x, bottom), (x, bottom + 10)], fill="black", width=2)
        draw.text((x, bottom + 16), label, fill="black", font=font, anchor="ma" if month else "la")
    draw.line([(left, top), (left, bottom), (right, bottom)], fill="black", width=3)
    season = (-5, -4, -2, 0, 2, 4, 5, 4, 2, 0, -2, -4)  # twentieths of a millimetre, January to December
    for yearly, colour, name in ((3.4, (190, 60, 40), "bare"), (0.9, (30, 90, 160), "guarded")):
        points = [place(month, max(0.0, yearly * month / 12 + season[month % 12] / 20)) for month in range(MONTHS + 1)]
        draw.line(points, fill=colour, width=6, joint="curve")
        draw.text((points[17][0], points[17][1] - 22), name, fill=colour, font=font, anchor="rb")
    draw.text((left + 16, top), "zero shift (mm)", fill="black", font=font, anchor="la")
    draw.text(((left + right) / 2, height - 12), "month", fill="black", font=font, anchor="md")
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=88)
    return buffer.getvalue()
