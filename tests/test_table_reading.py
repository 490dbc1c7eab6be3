"""What is understood of a table? Heads over columns, sections, marks, scales, money, periods, what goes on overleaf."""

from __future__ import annotations

from collections.abc import Sequence

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from format_samples import read, saved
from pdf_samples import Sheet
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import Builder, ParseOptions
from refdesk.parsers.pdf import parse
from refdesk.records import StoredCell, StoredTable
from refdesk.tables import column_paths, grid_of, head_rows, named_scale, without_marks
from refdesk.types import Block, Page, Parsed

Rows = Sequence[Sequence[str]]


def tables(*rows: Rows, above: Sequence[str] = (), header_rows: int = 1) -> list[StoredTable]:
    builder = Builder()
    for text in above:
        builder.block("text", text)
    for one in rows:
        builder.table(one, header_rows=header_rows)
    return tables_of(builder.build("html"))


def cell(table: StoredTable, row: int, column: int) -> StoredCell:
    (found,) = [one for one in table.cells if (one.row, one.column) == (row, column)]
    return found


def test_a_caption_says_what_numbers_count_and_of_which_time() -> None:
    (table,) = tables(
        [
            ["", "2019", "2018"],
            ["Net sales", "$ 1,452", "(1,146)"],
            ["Margin", "4.0 %", "3.5"],
            ["Weighted average shares", "467", "460"],
            ["Earnings per share (1)", "$ 2.50", "2.25"],
        ],
        above=[
            "The board met often. It spoke of 2015.",
            "Income",
            "(in millions, except per share data)",
            "Years ended September 30,",
        ],
    )
    assert table.caption.endswith("Income (in millions, except per share data) Years ended September 30,")
    assert [str(head.measure.period) for head in table.heads] == ["", "P1Y/2019-09-30", "P1Y/2018-09-30"]
    assert cell(table, 1, 1)[5:9] == (1452.0, "$", "million", "P1Y/2019-09-30")
    assert cell(table, 1, 2)[5:7] == (-1146.0, ""), "no sign stands above it in its column"
    assert cell(table, 2, 1)[5:8] == (4.0, "%", "")
    assert cell(table, 3, 1)[5:8] == (467.0, "", "million"), "a share is no dollar, but they are counted in millions"
    assert cell(table, 4, 1)[5:8] == (2.5, "$", "") and cell(table, 4, 2).scale == ""
    assert grid_of(table).rows[-1] == ("Earnings per share",)


def test_a_row_says_its_time_where_columns_do_not() -> None:
    (table,) = tables(
        [
            ["", "Common stock", "Total"],
            ["Balance at December 31, 2018", "12", "30"],
            ["Notes due on June 1, 2037", "4", "5"],
            ["Fiscal 2020", "", ""],
            ["First Quarter", "1", "2"],
        ]
    )
    periods = [one.period for one in table.cells if one.column == 1 and one.number is not None]
    assert periods == ["2018-12-31", "", "2020-Q1"]


SPANNING = [
    pytest.param(
        [["", "Years Ended September 30,", ""], ["", "2019", "2018"]],
        ["", "Years Ended September 30, 2019", "Years Ended September 30, 2018"],
        id="over_the_first_of_two",
    ),
    pytest.param(
        [["", "", "2019", "", "", "2018", ""], ["", "a", "b", "c", "d", "e", "f"]],
        ["", "2019 a", "2019 b", "2019 c", "2018 d", "2018 e", "2018 f"],
        id="over_the_middle_of_three",
    ),
    pytest.param(
        [["", "", "", "Europe,", "Latin", ""], ["", "Asia", "Africa", "Middle East", "America", "Rest"]],
        ["", "Asia", "Africa", "Europe, Middle East", "Latin America", "Rest"],
        id="lines_of_heads",
    ),
    pytest.param(
        [["", "December 31,", "", "", "", "Change"], ["", "2019", "2018", "2017", "Total", ""]],
        ["", "December 31, 2019", "December 31, 2018", "December 31, 2017", "December 31, Total", "Change"],
        id="all_filled",
    ),
    pytest.param(
        [["", "", "December 31,", "", "", ""], ["", "Units", "2019", "2018", "Now", "Then"]],
        ["", "Units", "December 31, 2019", "December 31, 2018", "Now", "Then"],
        id="a_day_over_its_years",
    ),
]


@pytest.mark.parametrize("head, wanted", SPANNING)
def test_heads_stand_over_their_columns(head: list[list[str]], wanted: list[str]) -> None:
    assert [" ".join(path) for path in column_paths(head, len(head[0]), is_placed=True)] == wanted


def test_what_a_format_says_of_spans_is_believed() -> None:
    page = b"""<table><tr><td rowspan=2>Region</td><td colspan=2>Sales</td><td></td></tr>
    <tr><td>Q1 2020</td><td>Q2 2020</td><td>Notes</td></tr>
    <tr><td>North</td><td colspan=2>5</td><td>new</td></tr><tr><td colspan=4>Later:</td></tr>
    <tr><td>South</td><td>7</td><td>8</td><td></td></tr></table>"""
    (table,) = tables_of(read(page, "a.html"))
    assert [head.path for head in table.heads] == [("Region",), ("Sales", "Q1 2020"), ("Sales", "Q2 2020"), ("Notes",)]
    assert [head.measure.period for head in table.heads] == ["", "2020-Q1", "2020-Q2", ""]
    assert (cell(table, 2, 1).columns, cell(table, 2, 1).number) == (2, 5.0)
    grid = grid_of(table)
    assert grid.texts[0] == ("North", "5", "5", "new"), "a merged value belongs to each of its columns"
    assert grid.rows == (("North",), ("Later:", "South")), "a label that spans a row is the section of those below"


def test_heads_of_a_page_stand_where_they_are_drawn() -> None:
    """Over two columns a head has its middle between them; a line of a head stands over one."""
    sheet = Sheet("heads")
    lines = [[("Qualified", 310), ("Benefits", 465)], [("2019", 220), ("2018", 320), ("2019", 420), ("2018", 520)]]
    for number, label in enumerate(["Service cost", "Interest cost", "Settlements", "Other"]):
        lines.append([(label, 50), *((f"{number},{x}", x) for x in (220, 320, 420, 520))])
    for number, line in enumerate(lines):
        for text, x in line:
            sheet.text(text, x, 700 - 14 * number)
    (table,) = tables_of(parse(sheet.build().data, ParseOptions()))
    paths = [head.path for head in table.heads]
    assert paths == [(), ("2019",), ("Qualified", "2018"), ("Benefits", "2019"), ("Benefits", "2018")]


def test_marks_of_footnotes_are_no_part_of_names_and_numbers() -> None:
    assert without_marks("Sales (1)(2)") == without_marks("Sales*") == without_marks("Sales²") == "Sales"
    assert without_marks("Loans (net)") == "Loans (net)" and without_marks("(1)") == "(1)"
    assert head_rows([["", "2019 (1)", "2018"], ["Sales", "5", "6"]]) == 1
    (table,) = tables([["", "2019(1)", "2018"], ["Sales (2)", "1,452 (3)", "12*"]])
    assert [head.path for head in table.heads] == [(), ("2019",), ("2018",)]
    assert [one.number for one in table.cells if one.row] == [None, 1452.0, 12.0]
    assert grid_of(table).rows == (("Sales",),)


def test_a_number_of_billions_is_no_scale() -> None:
    assert named_scale("$ 16.0 billion of notes (in millions)") == "million"


HEAD = ["Ship", "Length"]


def test_a_table_that_goes_on_overleaf_is_one() -> None:
    builder = Builder()
    for page in range(3):
        builder.page(f"Rows {page}")
        builder.table([HEAD, *([f"ship {page}.{row}", f"{page}{row}"] for row in range(4))])
    (table,) = tables_of(builder.build("csv"))
    assert (table.row_count, table.cell_count, table.page) == (13, 26, 1)
    assert [one.number for one in table.cells if one.column and one.row] == [
        float(f"{page}{row}") for page in range(3) for row in range(4)
    ]
    text = builder.build("csv").text
    assert all(text[one.start : one.end] == one.text for one in table.cells)


def test_tables_alike_that_are_two() -> None:
    body = [["a", "1"], ["b", "2"]]
    assert len(tables([HEAD, *body], [HEAD, *body])) == 2, "on one page"
    builder = Builder()
    for page in ("North", "South"):
        builder.page(page)
        builder.heading(page, 1)
        builder.table([HEAD, *body])
    assert [table.caption for table in tables_of(builder.build("xlsx"))] == ["North", "South"]


def test_the_rest_of_a_table_has_the_same_head() -> None:
    builder = Builder()
    builder.table([["(in millions)", "2019", "2018"], ["Cash", "5", "6"]])
    builder.block("text", "Commitments and contingencies")
    builder.table([["Issued shares — none", "—", "—"], ["Equity", "7", "8"]], header_rows=0)
    _, rest = tables_of(builder.build("html"))
    assert [head.path[-1] for head in rest.heads] == ["(in millions)", "2019", "2018"] and rest.head_rows == 0
    assert cell(rest, 1, 2)[5:9] == (8.0, "", "million", "2018")


def test_a_table_known_by_its_lines_alone() -> None:
    text = "Quay | Fee\nNorth | 5\nSouth |  | 7"
    parsed = Parsed(text, (Page(1, 0, len(text)),), (Block("table", 0, len(text)),), "text")
    (table,) = tables_of(parsed)
    assert table.column_count == 3 and [one.number for one in table.cells if one.number is not None] == [5.0, 7.0]


def test_what_is_no_table() -> None:
    assert tables([["one", "row"]]) == tables([["a"], ["b"]]) == []
    assert tables_of(Builder().build("text")) == []


def workbook(rows: Sequence[Sequence[object]]) -> bytes:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(list(row))
    return saved(book)


def test_tables_side_by_side_are_two() -> None:
    rows = [["Ship", "Length", None, "Quay", "Fee"], ["Ulla", 12, None, "North", 5], ["Brandt", 9, None, "South", 7]]
    ships, quays = tables_of(read(workbook([*rows, ["Anna", 4]]), "a.xlsx"))
    assert [head.path for head in ships.heads] == [("Ship",), ("Length",)] and ships.row_count == 4
    assert [head.path for head in quays.heads] == [("Quay",), ("Fee",)]
    assert [one.number for one in quays.cells if one.column and one.row] == [5.0, 7.0]


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(
            [["Item", None, "2019", "2018"], ["Sales", None, 5, 6], ["Cost", None, 7, 8]], id="only_labels_left"
        ),
        pytest.param(
            [["Item", "Unit", None, 2019, 2018], ["Sales", "t", None, 5, 6], ["Cost", "t", None, 7, 8]], id="numbers"
        ),
    ],
)
def test_a_gap_within_a_table_is_none_between_two(rows: list[list[object]]) -> None:
    assert len(tables_of(read(workbook(rows), "a.xlsx"))) == 1


@given(st.lists(st.lists(st.text("a1,.$%()— |\n", max_size=6), min_size=1, max_size=5), min_size=1, max_size=6))
def test_whatever_stands_in_a_table_every_cell_is_where_it_says(rows: list[list[str]]) -> None:
    builder = Builder()
    builder.table(rows, header_rows=1)
    parsed = builder.build("html")
    for table in tables_of(parsed):
        assert all(parsed.text[one.start : one.end] == one.text for one in table.cells)
        assert all(one.row < table.row_count and one.column < table.column_count for one in table.cells)
        grid_of(table)


def test_a_very_wide_table_is_read_soon() -> None:
    """4,000 columns with heads over two of them each: in no more steps than there are columns."""
    width = 4_001
    pairs = ["", *(f"pair {at // 2}" if at % 2 else "" for at in range(1, width))]
    names, values = ["", *(f"name {at}" for at in range(1, width))], ["row", *(str(at) for at in range(1, width))]
    (table,) = tables([pairs, names, values], header_rows=2)
    assert [head.path for head in table.heads][3:5] == [("pair 1", "name 3"), ("pair 1", "name 4")]
    assert [column.numbers[-1] for column in table.columns[1:]] == list(range(1, width))
    sparse = [["", *("x" if at % 3 == 2 else "" for at in range(1, 200)), "y"], names[:201], values[:201]]
    (table,) = tables(sparse, header_rows=2)
    assert table.heads[2].path[-1] == "name 2"


STACKED = [
    ["", "2022", "2021"],
    ["Domestic", "$ 4,931", "$ 4,204"],
    ["Total", "$ 6,680", "$ 5,367"],
    ["The provisions for income taxes were:", "", ""],
    ["", "Six Months Ended June 30,", ""],
    ["", "2023", "2022"],
    ["Current", "718", "616"],
    ["Matures in", "2031", "2032"],
]


def test_a_second_head_begins_a_table_of_its_own() -> None:
    upper, lower = tables(STACKED, above=["Taxes (in millions)"])
    assert [head.measure.period for head in upper.heads] == ["", "2022", "2021"]
    assert (upper.row_count, upper.cells[-1].text) == (3, "$ 5,367")
    assert [head.measure.period for head in lower.heads] == ["", "P6M/2023-06-30", "P6M/2022-06-30"]
    assert lower.caption.endswith("The provisions for income taxes were:")
    current = next(one for one in lower.cells if one.text == "718")
    assert (current.scale, current.period) == ("million", "P6M/2023-06-30")
    assert lower.start > upper.end and lower.cells[-1].text == "2032", "a row of years with a name of its own is data"


def test_a_unit_between_the_heads_and_the_numbers_parts_no_table() -> None:
    sheet = Sheet("unit")
    lines = [
        [("Nine Months Ended", 450)],
        [("October 30, 2022", 404), ("October 31, 2021", 509)],
        [("(In millions)", 469)],
    ]
    lines += [[("Cash of operating activities", 19), ("$", 391), ("3,393", 460), ("$", 496), ("6,075", 565)]]
    lines += [[("Cash of investing activities", 19), ("7,378", 460), ("(8,244)", 562)]]
    for number, line in enumerate(lines):
        for text, x in line:
            sheet.text(text, x, 700 - 14 * number, size=9)
    (table,) = tables_of(parse(sheet.build().data, ParseOptions()))
    assert table.periods == ("P9M/2022-10-30", "P9M/2021-10-31")
    assert [one.number for one in table.cells if one.number is not None] == [3393.0, 6075.0, 7378.0, -8244.0]
    assert {one.scale for one in table.cells if one.number is not None} == {"million"}


def test_rows_of_years_are_no_heads() -> None:
    careers = [["Country", "Club", "From", "To", "Games"], ["Spain", "Elche", "1998", "1999", "31"]]
    careers += [
        ["", "Murcia", "1999", "2000", ""],
        ["", "2000", "2001", "Xerez", ""],
        ["Italy", "Bari", "2001", "2002", "9"],
    ]
    assert len(tables(careers)) == 1


NOTES = "Notes to the Financial Statements (Dollars in millions, except per share and warehouse count data)"


def test_what_a_part_of_a_document_states_holds_for_its_money() -> None:
    builder = Builder()
    builder.heading("Item 8", 2)
    builder.block("text", NOTES)
    builder.heading("Note 1", 3)
    builder.table(
        [
            ["", "2022", "2021"],
            ["Units granted", "4,527,189", "595,122"],
            ["Warehouse expenses", "$ 665", "$ 619"],
            ["Dividends", "$ 3.16", "$ 2.80"],
            ["Rate", "4.5 %", "4 %"],
        ]
    )
    builder.heading("Item 9", 2)
    builder.table([["", "2022"], ["Fees", "$ 12"]])
    notes, fees = tables_of(builder.build("html"))
    assert [(one.text, one.scale) for one in notes.cells if one.column == 1 and one.row] == [
        ("4,527,189", ""), ("$ 665", "million"), ("$ 3.16", ""), ("4.5 %", ""),
    ]  # fmt: skip
    assert notes.scale == "million" and {one.scale for one in fees.cells} == {""}


def test_the_caption_of_a_table_holds_for_no_other() -> None:
    builder = Builder()
    builder.heading("Sales", 1)
    builder.block("text", "Sales by region were (in millions):")
    builder.table([["", "2022"], ["North", "$ 5"]])
    builder.heading("Fees", 1)
    builder.table([["", "2022"], ["Audit", "$ 12"]])
    sales, fees = tables_of(builder.build("html"))
    assert (sales.scale, fees.scale) == ("million", "")


@pytest.mark.parametrize(
    ("caption", "label", "scale"),
    [
        pytest.param("(net income in millions and shares in thousands)", "Diluted shares", "thousand", id="two"),
        pytest.param("(net income in millions and shares in thousands)", "Net income", "million", id="the_first"),
        pytest.param(
            "(In millions, except number of shares, which are reflected in thousands)", "Shares", "thousand", id="which"
        ),
        pytest.param("(In millions, except lease term)", "Lease liabilities", "million", id="not_the_thing"),
        pytest.param("(In millions, except lease term)", "Lease term", "", id="the_thing"),
        pytest.param("", "Shares (in millions)", "million", id="of_the_row"),
        pytest.param("Sales ($MM)", "Net income", "million", id="mm"),
        pytest.param("in 000s", "Net income", "thousand", id="zeros"),
    ],
)
def test_the_scale_of_a_row(caption: str, label: str, scale: str) -> None:
    rows = [["", "2022", "2021"], ["Lease term", "12", "13"], ["Net income", "8", "9"], [label, "467", "460"]]
    (table,) = tables(rows, above=[caption])
    assert table.cells[-1].scale == scale


def test_the_scale_of_one_column_is_not_that_of_the_others() -> None:
    (table,) = tables([["", "Units (in 000s)", "Fair value"], ["Granted", "1,982", "$ 369.15"]])
    assert [one.scale for one in table.cells[-2:]] == ["thousand", ""]


def test_a_line_that_says_the_scale_belongs_to_the_head() -> None:
    (table,) = tables([["", "2022", "2021"], ["(Dollars in Millions)", "", ""], ["Sales", "$ 5", "4"]])
    assert (table.head_rows, table.scale) == (2, "million")
    assert [head.measure.period for head in table.heads] == ["", "2022", "2021"]
    (table,) = tables([["(MILLIONS)", "2021", "2020", "21/20"], ["Sales", "5", "4", "25"]])
    assert table.head_rows == 1 and table.heads[3].path == ("21/20",)


def test_a_head_of_lines_that_ends_in_a_label() -> None:
    paths = column_paths([["2019", "2018", ""], ["(in millions)", "", ""], ["Sales", "", ""]], 3)
    assert [path[0] for path in paths] == ["(in millions)", "2019", "2018"]


def test_spans_of_time_name_columns() -> None:
    due = [["(In thousands)", "Total", "2020", "2021-2022"], ["Capital leases", "65", "27", "38"]]
    assert tables(due)[0].heads[3].path == ("2021-2022",)
    assert head_rows([["", "Total", "1-3 years", "4–5"], ["Leases", "65", "27", "38"]]) == 1


@pytest.mark.parametrize(("others", "scale"), [("1,204", ""), ("3120", "thousand")])
def test_a_year_is_no_amount_where_amounts_are_written_otherwise(others: str, scale: str) -> None:
    (table,) = tables(
        [["(in thousands)", "2019"], ["Carryforwards", others], ["Last year of expiration", "2027"]], header_rows=1
    )
    assert table.cells[-1].scale == scale
