"""The price list: a ruled table of sixty-one rows that runs over two pages, with text before and after it."""

from __future__ import annotations

import csv
from io import BytesIO

from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import Flowable, Paragraph, SimpleDocTemplate, Spacer, Table, TableStyle

from makers.common import COMPANY, pdf_date, source_text

TITLE = "Service price list 2026"
HEAD = ["Code", "Kind", "Instrument", "Work", "Working days", "Price (EUR)"]
WIDTHS = [44, 70, 128, 134, 70, 63]
MARGIN = 43

BEFORE = [
    "This list is valid from 1 January to 31 December 2026 for all orders placed with the service centres in Brannoch "
    "and Cuxhaven. Prices are net of value added tax and of carriage. Working days count from the arrival of the "
    "instrument to the day it leaves the laboratory.",
    "The TG-4 must be recalibrated every 12 months, or its warranty ends. Customers who order three or more "
    "calibrations at once receive a discount of 8 %.",
]
AFTER = [
    ("h", "Terms"),
    ("p", "Invoices are payable within 30 days. An instrument that cannot be repaired is returned or scrapped free of "
     "charge, as the customer wishes. A cost estimate is free if the order follows, and costs 60 euros otherwise."),
    ("p", "Express service is available for tide gauges only and must be announced by telephone two days before the "
     "instrument is sent. Instruments must arrive clean; cleaning of heavily overgrown instruments is charged at "
     "75 euros per hour."),
    ("h", "Hire"),
    ("p", "Hired instruments are insured by the customer at their list price. The deposit is one quarter of the list "
     "price and is paid back within ten days of return."),
]  # fmt: skip

BODY = ParagraphStyle("body", fontName="Helvetica", fontSize=9.5, leading=13, spaceAfter=6)
HEADING = ParagraphStyle("heading", fontName="Helvetica-Bold", fontSize=12, leading=16, spaceBefore=10, spaceAfter=4)
TOP = ParagraphStyle("top", fontName="Helvetica-Bold", fontSize=19, leading=25, spaceAfter=8)


def rows() -> list[list[str]]:
    """The rows of the table below its header: `["C-101", "Calibration", "TG-4 tide gauge", "3 points", "5", "240"]`."""
    return [[*row[:-1], f"{int(row[-1]):,}"] for row in csv.reader(source_text("price-list.csv").splitlines())]


def make() -> bytes:
    buffer = BytesIO()
    with pdf_date("2025-11-03"):
        template = SimpleDocTemplate(
            buffer, pagesize=A4, leftMargin=MARGIN - 6, rightMargin=MARGIN - 6, topMargin=64, bottomMargin=56,
            title=TITLE, author=COMPANY, invariant=1, pageCompression=0,
        )  # fmt: skip
        template.build(_story(), onFirstPage=_running_lines, onLaterPages=_running_lines)
    return buffer.getvalue()


def _story() -> list[Flowable]:
    story: list[Flowable] = [Paragraph(TITLE, TOP), Paragraph("Validity", HEADING)]
    story += [Paragraph(text, BODY) for text in BEFORE]
    story += [Paragraph("Services, spare parts and hire", HEADING), _table(), Spacer(0, 6)]
    story += [Paragraph(text, HEADING if kind == "h" else BODY) for kind, text in AFTER]
    return story


def _table() -> Table:
    table = Table([HEAD, *rows()], colWidths=WIDTHS, rowHeights=15.4, repeatRows=1)
    table.setStyle(
        TableStyle(
            [
                ("FONT", (0, 0), (-1, -1), "Helvetica", 8.6),
                ("FONT", (0, 0), (-1, 0), "Helvetica-Bold", 8.6),
                ("GRID", (0, 0), (-1, -1), 0.5, colors.Color(0.45, 0.5, 0.55)),
                ("BACKGROUND", (0, 0), (-1, 0), colors.Color(0.86, 0.91, 0.95)),
                ("ALIGN", (4, 0), (-1, -1), "RIGHT"),
                ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            ]
        )
    )
    return table


def _running_lines(canvas: Canvas, template: SimpleDocTemplate) -> None:
    canvas.saveState()
    canvas.setFont("Helvetica", 8)
    canvas.setFillGray(0.35)
    canvas.drawString(MARGIN, A4[1] - 40, f"{COMPANY}  ·  {TITLE}")
    canvas.drawRightString(A4[0] - MARGIN, 34, f"Page {template.page}")
    canvas.restoreState()
