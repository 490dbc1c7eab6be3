"""A customer's mail with a calibration certificate attached as PDF."""

from __future__ import annotations

from email.message import EmailMessage
from email.policy import SMTP
from io import BytesIO

from reportlab.lib import colors
from reportlab.lib.pagesizes import A5
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Paragraph, Table, TableStyle

from makers.common import COMPANY, pdf_date

ATTACHMENT = "calibration-certificate-tg4-0632.pdf"
BODY = """\
Dear support team,

our tide gauge TG-4 with the serial number 0632 has been reading 14 mm too high since 3 November. We compared it
with the tide staff at the north quay over two full cycles, and the difference is the same at high and at low water.

The gauge was bought in February and calibrated by your laboratory on 11 March 2025; the certificate is attached.
It was mounted on 2 April at a depth of 6 metres and has not been lifted since. The copper guard is in place.

Please tell us
- whether this is covered by the warranty,
- whether you can lend us a gauge, because the pilots need the level for the deep-water berth by 1 December,
- and where we should send the instrument.

Our order number is VB-88213. You reach me on weekdays until 16:00.

Kind regards
Dana Lindqvist
Port of Vessel Bay, Hydrography
"""
POINTS = [
    ["Reference level (m)", "Reading (m)", "Deviation (mm)"],
    ["0.000", "0.0004", "0.4"],
    ["3.000", "3.0007", "0.7"],
    ["6.000", "5.9991", "-0.9"],
    ["9.000", "9.0016", "1.6"],
    ["12.000", "12.0011", "1.1"],
]
TEXT = ParagraphStyle("text", fontName="Helvetica", fontSize=9.5, leading=13.5)


def make() -> bytes:
    message = EmailMessage(policy=SMTP)
    message["From"] = "Dana Lindqvist <d.lindqvist@port-vesselbay.example>"
    message["To"] = "Skerry Support <support@skerry.example>"
    message["Cc"] = "Ines Carrow <i.carrow@skerry.example>"
    message["Subject"] = "TG-4 0632 reads too high: warranty?"
    message["Date"] = "Mon, 17 Nov 2025 08:42:00 +0000"
    message["Message-ID"] = "<20251117084200.4711@port-vesselbay.example>"
    message.set_content(BODY, cte="8bit")
    message.add_attachment(make_certificate(), maintype="application", subtype="pdf", filename=ATTACHMENT)
    message.set_boundary("=_skerry_example_0632")
    return message.as_bytes()


def make_certificate() -> bytes:
    buffer = BytesIO()
    width, height = A5
    with pdf_date("2025-03-11"):
        canvas = Canvas(buffer, pagesize=A5, invariant=1, pageCompression=0)
        canvas.setTitle("Calibration certificate 2025-0311-07")
        canvas.setAuthor(COMPANY)
        canvas.setFont("Helvetica-Bold", 16)
        canvas.drawString(40, height - 60, "Calibration certificate")
        canvas.setFont("Helvetica", 9.5)
        lines = (
            "Certificate number: 2025-0311-07",
            "Instrument: TG-4 tide gauge, serial number 0632",
            "Date of calibration: 11 March 2025",
            "Method: dead-weight tester, five points, at 20.1 °C",
        )
        for number, line in enumerate(lines):
            canvas.drawString(40, height - 86 - 15 * number, line)
        table = Table(POINTS, colWidths=[115, 105, 115], rowHeights=18)
        table.setStyle(
            TableStyle(
                [
                    ("FONT", (0, 0), (-1, -1), "Helvetica", 9.5),
                    ("FONT", (0, 0), (-1, 0), "Helvetica-Bold", 9.5),
                    ("GRID", (0, 0), (-1, -1), 0.5, colors.black),
                    ("ALIGN", (0, 0), (-1, -1), "RIGHT"),
                    ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
                ]
            )
        )
        table.wrap(width, height)
        table.drawOn(canvas, 40, height - 282)
        closing = Paragraph(
            "The expanded uncertainty of the reference is 0.3 mm. The instrument meets its specification of 5 mm at "
            "all points. Calibrated by Ines Carrow, head of the calibration laboratory.",
            TEXT,
        )
        _, used = closing.wrap(width - 80, 200)
        closing.drawOn(canvas, 40, height - 304 - used)
        canvas.showPage()
        canvas.save()
    return buffer.getvalue()
