"""The scanned letter: text drawn as an image, slightly turned and noisy, with no text layer."""

from __future__ import annotations

import random
from io import BytesIO
from itertools import pairwise
from pathlib import Path

import reportlab
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from reportlab.lib.pagesizes import A4
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from makers.common import pdf_date, source_text

FONTS = Path(reportlab.__file__).parent / "fonts"  # the Bitstream Vera fonts that come with reportlab
DPI = 160
SIZE = (1323, 1871)  # A4 at 160 dpi
LEFT, TOP, LINE, BLANK = 140, 310, 35, 22
TURN = 0.35  # degrees; what a sheet laid on the glass by hand shows
NOISE = 0.05
SIGNATURE = (
    (150, 40), (162, 8), (176, 0), (170, 40), (168, 62), (190, 22), (206, 12), (200, 44), (222, 30), (236, 18),
    (240, 44), (262, 34), (276, 8), (290, 0), (286, 50), (308, 26), (330, 20), (352, 40), (392, 30), (470, 22),
)  # fmt: skip


def make() -> bytes:
    buffer = BytesIO()
    with pdf_date("2025-05-19"):
        canvas = Canvas(buffer, pagesize=A4, invariant=1, pageCompression=0)
        canvas.setTitle("Scan 2025-05-19")
        canvas.drawImage(ImageReader(BytesIO(draw_letter())), 0, 0, *A4)
        canvas.showPage()
        canvas.save()
    return buffer.getvalue()


def draw_letter() -> bytes:
    """The sheet as a scanner gives it: a grey JPEG."""
    paper = Image.new("L", SIZE, 246)
    draw = ImageDraw.Draw(paper)
    _letterhead(draw)
    text = _font("Vera.ttf", 23)
    y = TOP
    for line in source_text("harbour-letter.txt").rstrip().splitlines():
        if line.startswith("Permission"):
            draw.text((LEFT, y), line, fill=35, font=_font("VeraBd.ttf", 25))
        elif line.startswith("Our reference"):
            reference, _, day = line.partition("   ")
            draw.text((LEFT, y), reference, fill=35, font=text)
            draw.text((SIZE[0] - LEFT, y), day.strip(), fill=35, font=text, anchor="ra")
        else:
            indent = 36 if line.startswith(" ") else 0
            draw.text((LEFT + indent, y), line.strip(), fill=35, font=text)
        y += LINE if line else BLANK
    _signature(draw, y + 26)
    scan = paper.rotate(TURN, resample=Image.Resampling.BICUBIC, fillcolor=246).filter(ImageFilter.GaussianBlur(0.6))
    noise = Image.frombytes("L", SIZE, random.Random(118).randbytes(SIZE[0] * SIZE[1]))
    buffer = BytesIO()
    Image.blend(scan, noise, NOISE).save(buffer, "JPEG", quality=62, dpi=(DPI, DPI))
    return buffer.getvalue()


def _font(name: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(FONTS / name), size, layout_engine=ImageFont.Layout.BASIC)


def _letterhead(draw: ImageDraw.ImageDraw) -> None:
    draw.text((LEFT, 128), "Brannoch Harbour Authority", fill=30, font=_font("VeraBd.ttf", 36))
    draw.text((LEFT, 182), "The Pilot House, North Mole, Brannoch", fill=70, font=_font("Vera.ttf", 19))
    draw.line([(LEFT, 226), (SIZE[0] - LEFT, 226)], fill=60, width=3)
    x, y = SIZE[0] - LEFT - 50, 150
    draw.ellipse([x - 42, y - 42, x + 42, y + 42], outline=60, width=4)
    draw.line([(x, y - 28), (x, y + 26)], fill=60, width=5)
    draw.line([(x - 14, y - 12), (x + 14, y - 12)], fill=60, width=5)
    draw.arc([x - 26, y - 24, x + 26, y + 28], 20, 160, fill=60, width=5)


def _signature(draw: ImageDraw.ImageDraw, y: int) -> None:
    points = [(float(LEFT - 140 + x), float(y + height)) for x, height in SIGNATURE]
    for _ in range(3):  # Chaikin's corner cutting turns the strokes into curves
        points = [
            (x * share + next_x * (1 - share), height * share + next_height * (1 - share))
            for (x, height), (next_x, next_height) in pairwise(points)
            for share in (0.75, 0.25)
        ]
    draw.line(points, fill=60, width=4, joint="curve")
    draw.text((LEFT, y + 90), "Captain Elspeth Marr", fill=35, font=_font("Vera.ttf", 23))
    draw.text((LEFT, y + 90 + LINE), "Harbour Master", fill=35, font=_font("Vera.ttf", 23))
