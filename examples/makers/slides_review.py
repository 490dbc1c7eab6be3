"""The quarterly review as PPTX: titles, bullets, a table and speaker notes."""

from __future__ import annotations

from datetime import datetime
from io import BytesIO

from pptx import Presentation
from pptx.presentation import Presentation as PresentationObject
from pptx.util import Cm, Pt

from makers.common import COMPANY, steady_office_file

DAY = datetime(2025, 10, 14, 9, 0)
TITLE = "Quarterly review Q3 2025"

# (title, bullets, speaker notes)
SLIDES = [
    (
        "Highlights of the quarter",
        [
            "Revenue of 6.84 million euros, 8 % above the third quarter of 2024",
            "Order intake of 7.9 million euros, the best quarter since the company was founded in 1987",
            "Delivered: 212 tide gauges, 61 current meters and 17 wave buoys",
            "214 employees at the end of September, nine more than in June",
        ],
        "Thank the assembly team: the 17 wave buoys were built with only three fitters.",
    ),
    ("Revenue by product line", [], ""),
    (
        "Quality",
        [
            "Warranty returns of tide gauges fell from 2.9 % to 1.7 %",
            "The copper guard has been standard equipment since July",
            "The most frequent fault is a damaged cable connector",
        ],
        "The fall in returns is too early to be an effect of the guard. It comes from the new leak test in assembly.",
    ),
    (
        "Outlook",
        [
            "Expected revenue in the fourth quarter: 7.2 million euros",
            "Port of Vessel Bay has ordered 12 wave buoys for delivery by April 2026",
            "The tow tank closes for three weeks in February 2026 for a new carriage",
            "A second supplier of lithium cells will be approved in December",
        ],
        "Do not promise the Vessel Bay buoys before April: the satellite modems arrive in late January.",
    ),
]
REVENUE = [
    ["Product line", "Q3 2025 (million EUR)", "Q3 2024 (million EUR)", "Change"],
    ["TG-4 tide gauges", "3.10", "2.84", "+9.2 %"],
    ["CM-2 current meters", "1.46", "1.52", "−3.9 %"],
    ["WB-7 wave buoys", "0.98", "0.71", "+38.0 %"],
    ["Services", "1.30", "1.26", "+3.2 %"],
    ["Total", "6.84", "6.33", "+8.1 %"],
]


def make() -> bytes:
    presentation = Presentation()
    presentation.core_properties.title = TITLE
    presentation.core_properties.author = "Ruben Aalto"
    cover = presentation.slides.add_slide(presentation.slide_layouts[0])
    cover.shapes.title.text = TITLE
    cover.placeholders[1].text = f"{COMPANY}\nRuben Aalto, Managing Director, 14 October 2025"
    for title, bullets, notes in SLIDES:
        _add_slide(presentation, title, bullets, notes)
    buffer = BytesIO()
    presentation.save(buffer)
    return steady_office_file(buffer.getvalue(), DAY)


def _add_slide(presentation: PresentationObject, title: str, bullets: list[str], notes: str) -> None:
    slide = presentation.slides.add_slide(presentation.slide_layouts[1 if bullets else 5])
    slide.shapes.title.text = title
    if bullets:
        frame = slide.placeholders[1].text_frame
        for number, bullet in enumerate(bullets):
            paragraph = frame.paragraphs[0] if number == 0 else frame.add_paragraph()
            paragraph.text = bullet
            paragraph.font.size = Pt(24)
    else:
        shape = slide.shapes.add_table(len(REVENUE), 4, Cm(1.5), Cm(5), Cm(22.4), Cm(8))
        for y, row in enumerate(REVENUE):
            for x, text in enumerate(row):
                cell = shape.table.cell(y, x)
                cell.text = text
                cell.text_frame.paragraphs[0].font.size = Pt(16)
    if notes:
        slide.notes_slide.notes_text_frame.text = notes
