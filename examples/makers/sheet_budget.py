"""The budget as XLSX: two sheets, merged header cells, and numbers whose display differs from their value."""

from __future__ import annotations

from datetime import date, datetime
from io import BytesIO

from openpyxl import Workbook
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.worksheet.worksheet import Worksheet

from makers.common import steady_office_file

DAY = datetime(2025, 11, 10, 9, 0)
EUROS = '#,##0\\ "€"'
PERCENT = "0.0%"
DATE = "dd.mm.yyyy"

# (department, cost centre, first half, second half, total of 2025)
DEPARTMENTS = [
    ("Research", 4100, 720_000, 760_000, 1_390_000),
    ("Calibration laboratory", 4200, 415_000, 432_000, 825_000),
    ("Production", 4300, 3_180_000, 3_420_000, 6_240_000),
    ("Field operations", 4400, 388_000, 352_000, 705_000),
    ("Lodin Point test station", 4450, 96_000, 88_000, 179_000),
    ("Service office Cuxhaven", 4500, 540_000, 505_000, 960_000),
    ("Data services", 4600, 298_000, 312_000, 548_000),
    ("Sales and marketing", 4700, 610_000, 655_000, 1_240_000),
    ("Administration", 4800, 472_000, 468_000, 930_000),
]
# (project, lead, start, end, budget, share spent by the end of October 2025)
PROJECTS = [
    ("CM-3 current meter", "Maren Oduya", date(2025, 2, 1), date(2026, 11, 30), 1_150_000, 0.412),
    ("Tow tank carriage", "Ines Carrow", date(2025, 9, 15), date(2026, 2, 27), 186_000, 0.675),
    ("Move to Grüner Kai", "Katrin Behrens", date(2025, 10, 1), date(2026, 3, 31), 240_000, 0.083),
    ("Drift trial Lodin Point", "Tobias Feld", date(2023, 1, 1), date(2027, 12, 31), 95_000, 0.584),
    ("Customer portal redesign", "Sam Okafor", date(2026, 1, 12), date(2026, 9, 30), 128_000, 0.0),
]
BOLD = Font(bold=True)
SHADE = PatternFill("solid", fgColor="DCE6F1")


def make() -> bytes:
    book = Workbook()
    book.properties.title = "Budget 2026"
    book.properties.creator = "Priya Nandan"
    _departments(book.active)
    _projects(book.create_sheet("Projects"))
    buffer = BytesIO()
    book.save(buffer)
    return steady_office_file(buffer.getvalue(), DAY)


def _departments(sheet: Worksheet) -> None:
    sheet.title = "Departments"
    sheet.append(["Budget 2026 by department"])
    sheet.append(["Department", "Cost centre", "Plan 2026", None, None, "Share of total", "Change from 2025"])
    sheet.append([None, None, "First half", "Second half", "Year", None, None])
    for merged in ("A1:G1", "A2:A3", "B2:B3", "C2:E2", "F2:F3", "G2:G3"):
        sheet.merge_cells(merged)
    total = sum(first + second for _, _, first, second, _ in DEPARTMENTS)
    before = sum(previous for *_, previous in DEPARTMENTS)
    for name, centre, first, second, previous in DEPARTMENTS:
        year = first + second
        sheet.append([name, centre, first, second, year, year / total, year / previous - 1])
    first_half, second_half = sum(row[2] for row in DEPARTMENTS), sum(row[3] for row in DEPARTMENTS)
    sheet.append(["Total", None, first_half, second_half, total, 1, total / before - 1])
    for row in sheet.iter_rows(min_row=4):
        for cell in row[2:5]:
            cell.number_format = EUROS
        for cell in row[5:7]:
            cell.number_format = PERCENT
    _dress(sheet, header_rows=3, widths=(28, 12, 15, 15, 15, 15, 17))
    for cell in sheet[sheet.max_row]:
        cell.font = BOLD


def _projects(sheet: Worksheet) -> None:
    sheet.append(["Project", "Lead", "Start", "End", "Budget", "Spent by October 2025"])
    for row in PROJECTS:
        sheet.append(list(row))
    for row in sheet.iter_rows(min_row=2):
        row[2].number_format = row[3].number_format = DATE
        row[4].number_format = EUROS
        row[5].number_format = PERCENT
    _dress(sheet, header_rows=1, widths=(28, 18, 13, 13, 15, 24))


def _dress(sheet: Worksheet, header_rows: int, widths: tuple[int, ...]) -> None:
    for row in sheet.iter_rows(max_row=header_rows):
        for cell in row:
            cell.font = BOLD
            cell.fill = SHADE
            cell.alignment = Alignment(horizontal="center", vertical="center")
    for number, width in enumerate(widths):
        sheet.column_dimensions["ABCDEFG"[number]].width = width
    sheet.freeze_panes = sheet.cell(header_rows + 1, 1)
