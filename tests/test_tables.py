"""Are tables read as cells? Their place in the grid, what merged ones cover, their place in the text and on pages."""

from __future__ import annotations

import docx
import openpyxl
import pptx
import pytest
from pptx.util import Inches

from format_samples import read, saved
from pdf_samples import Sheet
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.pdf import parse
from refdesk.types import Parsed, boxes_between, cells_of

Found = tuple[str, int, int, int, int]  # text, row, column, rows, columns

# Region over two rows, Sales over two columns, nothing sold in the second quarter of the south.
MERGED: list[Found] = [
    ("Region", 0, 0, 2, 1),
    ("Sales", 0, 1, 1, 2),
    ("Q1", 1, 1, 1, 1),
    ("Q2", 1, 2, 1, 1),
    ("North", 2, 0, 1, 1),
    ("5", 2, 1, 1, 1),
    ("6", 2, 2, 1, 1),
    ("South", 3, 0, 1, 1),
    ("8", 3, 2, 1, 1),
]
ROWS = [["Region", "Sales", ""], ["", "Q1", "Q2"], ["North", "5", "6"], ["South", "", "8"]]


def cells(parsed: Parsed) -> list[Found]:
    (block,) = [block for block in parsed.blocks if block.kind == "table"]
    return [(parsed.text[c.start : c.end], c.row, c.column, c.rows, c.columns) for c in cells_of(block)]


def word() -> bytes:
    document = docx.Document()
    table = document.add_table(rows=4, cols=3)
    for row, texts in enumerate(ROWS):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    table.cell(0, 0).merge(table.cell(1, 0))
    table.cell(0, 1).merge(table.cell(0, 2))
    return saved(document)


def slide() -> bytes:
    show = pptx.Presentation()
    page = show.slides.add_slide(show.slide_layouts[6])
    table = page.shapes.add_table(4, 3, Inches(1), Inches(1), Inches(6), Inches(3)).table
    for row, texts in enumerate(ROWS):
        for column, text in enumerate(texts):
            table.cell(row, column).text = text
    table.cell(0, 0).merge(table.cell(1, 0))
    table.cell(0, 1).merge(table.cell(0, 2))
    return saved(show)


def workbook() -> bytes:
    book = openpyxl.Workbook()
    for row in ROWS:
        book.active.append([int(text) if text.isdigit() else text or None for text in row])
    book.active.merge_cells("A1:A2")
    book.active.merge_cells("B1:C1")
    return saved(book)


PAGE = b"""<table><tr><td rowspan=2>Region</td><td colspan=2>Sales</td></tr><tr><td>Q1</td><td>Q2</td></tr>
<tr><td>North</td><td>5</td><td>6</td></tr><tr><td>South</td><td></td><td>8</td></tr></table>"""


@pytest.mark.parametrize(
    ("data", "name"),
    [
        pytest.param(word(), "a.docx", id="docx"),
        pytest.param(slide(), "a.pptx", id="pptx"),
        pytest.param(workbook(), "a.xlsx", id="xlsx"),
        pytest.param(PAGE, "a.html", id="html"),
    ],
)
def test_merged_cells_say_what_they_cover(data: bytes, name: str) -> None:
    parsed = read(data, name)
    assert cells(parsed) == MERGED
    assert "Region | Q1 | Q2" in parsed.text  # the value again in each of its rows


@pytest.mark.parametrize(
    ("data", "name"),
    [
        pytest.param(b"item,price\npaper,\n,4\n", "a.csv", id="csv"),
        pytest.param(b"| item | price |\n|---|---|\n| paper | |\n| | 4 |\n", "a.md", id="markdown"),
    ],
)
def test_empty_cells_keep_their_place(data: bytes, name: str) -> None:
    expected = [("item", 0, 0, 1, 1), ("price", 0, 1, 1, 1), ("paper", 1, 0, 1, 1), ("4", 2, 1, 1, 1)]
    assert cells(read(data, name)) == expected


def test_cells_move_with_the_text_when_control_characters_go() -> None:
    assert cells(read(b"item,price\npa\x7fper,3\n", "a.csv"))[2:] == [("paper", 1, 0, 1, 1), ("3", 1, 1, 1, 1)]


def drawn(sheet: Sheet) -> Parsed:
    return parse(sheet.build().data, ParseOptions())


def test_a_pdf_without_rules_keeps_columns_and_heads() -> None:
    sheet = Sheet("borderless")
    sheet.text("Three Months Ended", 285, 715)
    rows = (
        ("", "2022", "2021"),
        ("Net sales", "82,959", "81,434"),
        ("Costs", "", "46,179"),
        ("Taxes", "3,624", "2,625"),
    )
    for y, row in zip((700, 685, 670, 655), rows, strict=True):
        for x, text in zip((70, 280, 360), row, strict=True):
            sheet.text(text, x, y)
    parsed = drawn(sheet)
    found = cells(parsed)
    assert found[0] == ("Three Months Ended", 0, 1, 1, 2)
    assert ("46,179", 3, 2, 1, 1) in found and ("3,624", 4, 1, 1, 1) in found
    assert "Costs |  | 46,179" in parsed.text


def test_a_sign_of_currency_opens_a_cell_however_near_the_cell_before() -> None:
    sheet = Sheet("signs")
    rows = (("", "1st", "2nd"), ("Revenue", "9,379", "$ 9,590"), ("Profit", "22%", "$ 2,324"), ("Taxes", "244", "277"))
    for y, row in zip((700, 685, 670, 655), rows, strict=True):
        for x, text in zip((70, 280, 308), row, strict=True):
            sheet.text(text, x, y)
    found = cells(drawn(sheet))
    assert ("$ 9,590", 1, 2, 1, 1) in found and ("$ 2,324", 2, 2, 1, 1) in found


def ruled(name: str, *, across: tuple[float, ...], upright: tuple[tuple[float, float, float], ...]) -> Sheet:
    sheet = Sheet(name)
    for y in across:
        sheet.canvas.line(60, y, 420, y)
    for x, bottom, top in upright:
        sheet.canvas.line(x, bottom, x, top)
    for y, row in ((702, ("Country", "Domestic", "Total")), (682, ("Austria", "92.9", "5,821")),
                   (662, ("Belgium", "", "5,906")), (642, ("Cyprus", "100.0", "17"))):  # fmt: skip
        for x, text in zip((70, 200, 320), row, strict=True):
            sheet.text(text, x, y)
    return sheet


@pytest.mark.parametrize(
    "sheet",
    [
        pytest.param(
            ruled(
                "no_rules_between_rows",
                across=(717, 697, 637),
                upright=((60, 637, 717), (180, 637, 717), (300, 637, 717), (420, 637, 717)),
            ),
            id="no_rules_between_rows",
        ),
        pytest.param(
            ruled(
                "no_rules_between_columns",
                across=(717, 697, 677, 657, 637),
                upright=((60, 637, 717), (180, 697, 717), (300, 697, 717), (420, 637, 717)),
            ),
            id="no_rules_between_columns",
        ),
    ],
)
def test_rows_and_columns_of_a_grid_that_is_not_fully_ruled(sheet: Sheet) -> None:
    parsed = drawn(sheet)
    assert [found[:3] for found in cells(parsed)] == [
        ("Country", 0, 0), ("Domestic", 0, 1), ("Total", 0, 2),
        ("Austria", 1, 0), ("92.9", 1, 1), ("5,821", 1, 2),
        ("Belgium", 2, 0), ("5,906", 2, 2),
        ("Cyprus", 3, 0), ("100.0", 3, 1), ("17", 3, 2),
    ]  # fmt: skip


def test_the_box_of_a_cell_is_its_place_on_the_page() -> None:
    parsed = drawn(ruled("box", across=(717, 697, 677, 657, 637),
                         upright=tuple((x, 637, 717) for x in (60, 180, 300, 420))))  # fmt: skip
    (block,) = [block for block in parsed.blocks if block.kind == "table"]
    cell = next(c for c in cells_of(block) if parsed.text[c.start : c.end] == "5,906")
    assert parsed.geometry is not None
    (box,) = boxes_between(parsed.geometry, cell.start, cell.end)
    assert box.x == pytest.approx(100 * 320 / 595, abs=0.5) and box.y == pytest.approx(100 * (842 - 670) / 842, abs=0.5)


def test_labels_of_a_chart_are_no_table() -> None:
    sheet = Sheet("chart")
    for step in range(8):
        sheet.text(str(50 * (8 - step)), 60, 700 - 20 * step)
    for step in range(8):
        sheet.text(f"{2004 + step}", 90 + 50 * step, 540)
    assert not [block for block in drawn(sheet).blocks if block.kind == "table"]


def test_a_second_head_in_a_pdf_begins_a_table_with_columns_of_its_own() -> None:
    sheet = Sheet("two_heads")
    upper = (("Net sales", "2022", "2021"), ("Safety", "11,604", "11,981"), ("Consumer", "5,298", "5,513"))
    lower = (
        ("(Millions)", "2022", "2021", "2022", "2021"),
        ("Safety", "11,730", "11,744", "566", "593"),
        ("Consumer", "2,753", "2,783", "148", "147"),
    )
    for y, row in zip((700, 685, 670), upper, strict=True):
        for x, text in zip((70, 330, 420), row, strict=True):
            sheet.text(text, x, y)
    sheet.text("Assets", 250, 655)
    sheet.text("Depreciation", 390, 655)
    for y, row in zip((640, 625, 610), lower, strict=True):
        for x, text in zip((70, 220, 290, 370, 440), row, strict=True):
            sheet.text(text, x, y)
    first, second = tables_of(drawn(sheet))
    assert [head.path for head in first.heads] == [("Net sales",), ("2022",), ("2021",)]
    assert [" ".join(head.path) for head in second.heads][1:] == [
        "Assets 2022", "Assets 2021", "Depreciation 2022", "Depreciation 2021",
    ]  # fmt: skip
    assert [cell.period for cell in second.cells if cell.text in ("566", "593")] == ["2022", "2021"]


def test_times_and_one_row_of_amounts_are_a_table() -> None:
    sheet = Sheet("short")
    for y, row in ((700, ("(Millions)", "2023", "2024", "Total")), (685, ("Deposits", "5,790", "—", "16,096"))):
        for x, text in zip((70, 280, 360, 440), row, strict=True):
            sheet.text(text, x, y)
    assert [found[0] for found in cells(drawn(sheet))][-3:] == ["5,790", "—", "16,096"]
