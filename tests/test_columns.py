"""Columns, form fields, text layers that are no text, running lines and very wide tables: what a page is read as."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pytest
from reportlab.pdfgen.canvas import Canvas

from refdesk.errors import EmptyDocument, TooLarge
from refdesk.files.local import _draw_page
from refdesk.ingest.parse import parse
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.pdf import has_no_language
from refdesk.parsers.pdf_page import PageContent, Words
from refdesk.types import OcrLine, Parsed, boxes_between
from timing import steepness

NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight")
LEFT = [f"the left column goes on with line number {number} of" for number in NUMBERS]
RIGHT = [f"on the right side there is line number {number} and" for number in NUMBERS]
THIRD = [f"a third column has a line number {number} to add" for number in NUMBERS]


def read(draw: Callable[[Canvas], None], **options: object) -> Parsed:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(595, 842), invariant=1)
    draw(canvas)
    canvas.save()
    return parse(buffer.getvalue(), "page.pdf", ParseOptions(**options))  # type: ignore[arg-type]


def column(canvas: Canvas, lines: list[str], x: float, top: float, size: float = 8) -> None:
    canvas.setFont("Helvetica", size)
    for number, line in enumerate(lines):
        canvas.drawString(x, top - 12 * number, line)


def test_figure_labels_do_not_outvote_the_text_around_them() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 6)
        for row in range(14):  # the labels of a figure on top of the right column
            for place in range(3):
                canvas.drawString(320 + 60 * place, 790 - 9 * row, f"label {row}{place}")
        column(canvas, LEFT * 5, 50, 790)
        column(canvas, RIGHT * 3, 310, 640)

    parsed = read(draw)
    assert " ".join(LEFT) in parsed.text and " ".join(RIGHT) in parsed.text
    assert not any("left column" in parsed.text[b.start : b.end] for b in parsed.blocks if b.kind == "table")


def test_three_columns_with_uneven_base_lines_are_read_one_after_the_other() -> None:
    def draw(canvas: Canvas) -> None:
        for lines, x, shift in ((LEFT, 40, 0), (RIGHT, 225, 4), (THIRD, 410, 8)):
            column(canvas, lines * 6, x, 780 - shift, 7.5)

    text = read(draw).text
    places = [text.find(" ".join(lines)) for lines in (LEFT, RIGHT, THIRD)]
    assert -1 not in places and places == sorted(places)


def test_columns_drawn_line_by_line_are_no_table() -> None:
    def draw(canvas: Canvas) -> None:
        for number, (left, right) in enumerate(zip(LEFT * 3, RIGHT * 3, strict=True)):
            column(canvas, [left], 50, 780 - 12 * number)
            column(canvas, [right], 310, 780 - 12 * number)

    parsed = read(draw)
    assert " ".join(LEFT) in parsed.text and " ".join(RIGHT) in parsed.text
    assert {block.kind for block in parsed.blocks} == {"text"}


def test_table_of_words_beside_its_numbers_stays_a_table() -> None:
    def draw(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 8)
        for number in range(12):
            canvas.drawString(50, 780 - 14 * number, f"Net cash used in the activity number {number}")
            canvas.drawRightString(400, 780 - 14 * number, f"{number * 731:,}")
            canvas.drawRightString(500, 780 - 14 * number, f"{number * 419:,}")

    (table,) = read(draw).blocks
    assert table.kind == "table"


def test_bands_of_columns_are_read_band_by_band() -> None:
    def draw(canvas: Canvas) -> None:
        column(canvas, LEFT[:4], 50, 780)
        column(canvas, RIGHT[:4], 310, 780)
        column(canvas, LEFT[4:], 50, 560)  # a picture without text stands between the bands
        column(canvas, RIGHT[4:], 310, 560)

    text = read(draw).text
    places = [text.find(" ".join(part)) for part in (LEFT[:4], RIGHT[:4], LEFT[4:], RIGHT[4:])]
    assert -1 not in places and places == sorted(places)


def form(canvas: Canvas) -> None:
    canvas.setFont("Helvetica", 10)
    canvas.drawString(50, 700, "Name of the keeper")
    canvas.acroForm.textfield(name="keeper", value="Ada Skerry", x=200, y=692, width=150, height=20)
    canvas.drawString(50, 660, "Notes")
    canvas.acroForm.textfield(
        name="notes", value="The lamp was cleaned. " * 6, x=200, y=560, width=150, height=110, fieldFlags="multiline"
    )
    canvas.acroForm.checkbox(name="lit", checked=True, x=50, y=500, size=14)
    canvas.drawString(75, 503, "Lamp is lit")
    canvas.acroForm.checkbox(name="out", checked=False, x=50, y=480, size=14)
    canvas.drawString(75, 483, "Lamp is out")
    canvas.acroForm.textfield(name="code", value="hunter2", x=200, y=440, width=150, height=20, fieldFlags="password")


def test_form_fields_are_read_beside_their_labels_and_have_boxes() -> None:
    parsed = read(form)
    text = " ".join(parsed.text.split())
    assert "Name of the keeper Ada Skerry" in text
    assert "Notes The lamp was cleaned." in text and text.count("The lamp was cleaned.") == 6
    assert "☑ Lamp is lit" in text and "☐ Lamp is out" in text
    assert "hunter2" not in text
    assert parsed.geometry is not None
    start = parsed.text.index("Ada Skerry")
    (box,) = boxes_between(parsed.geometry, start, start + len("Ada Skerry"))
    assert box.x >= 200 / 595 * 100 - 0.1 and box.x + box.width <= 350 / 595 * 100 + 0.1
    assert box.y >= (842 - 712) / 842 * 100 - 0.1 and box.y + box.height <= (842 - 692) / 842 * 100 + 0.1


def test_page_image_shows_what_was_filled_in(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("form") / "form.pdf"
    canvas = Canvas(str(path), pagesize=(595, 842), invariant=1)
    form(canvas)
    canvas.save()
    image = np.asarray(_draw_page(path, 1, 595).convert("L"))
    inside = image[842 - 709 : 842 - 695, 205:300]  # inside the border of the field
    assert (inside < 128).sum() > 30


def without_unicode(text: str) -> bytes:
    """A page whose letters are drawn by a font that numbers its glyphs from 3 and does not say what they are."""
    codes = {letter: number for number, letter in enumerate(sorted(set(text)), 3)}
    string = "".join(f"{codes[letter]:02x}" for letter in text)
    content = f"BT /F1 12 Tf 50 700 Td <{string}> Tj ET".encode()
    names = " ".join(f"/g{number}" for number in range(3, 3 + len(codes)))
    procedures = "".join(f"/g{number} 4 0 R " for number in range(3, 3 + len(codes)))
    glyph = b"600 0 0 0 500 700 d1 0 0 500 700 re f"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents 5 0 R "
        b"/Resources << /Font << /F1 6 0 R >> >> >>",
        b"<< /Length %d >> stream\n%s\nendstream" % (len(glyph), glyph),
        b"<< /Length %d >> stream\n%s\nendstream" % (len(content), content),
        f"<< /Type /Font /Subtype /Type3 /FontBBox [0 0 600 700] /FontMatrix [0.001 0 0 0.001 0 0] /FirstChar 3 "
        f"/LastChar {2 + len(codes)} /Widths [{'600 ' * len(codes)}] /CharProcs << {procedures} >> "
        f"/Encoding << /Type /Encoding /Differences [3 {names}] >> >>".encode(),
    ]
    data, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(data)
    return data + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
        % (len(objects) + 1, table, len(objects) + 1, start)
    )


def test_text_layer_of_control_codes_goes_through_ocr() -> None:
    data = without_unicode("the harbour master keeps the keys")

    def engine(image: object) -> list[OcrLine]:
        return [OcrLine("the harbour master keeps the keys", 100, 280, 700, 310)]

    parsed = parse(data, "page.pdf", ParseOptions(ocr=engine))
    assert parsed.text == "the harbour master keeps the keys"
    assert parsed.pages[0].ocr
    with pytest.raises(EmptyDocument, match="text without character codes"):
        parse(data, "page.pdf", ParseOptions())


SENTENCES = [
    "The harbour master keeps the keys of the old lighthouse and counts the boats that come in before night.",
    "Der Hafenmeister verwahrt die Schlüssel des alten Leuchtturms und zählt die Boote, die abends einlaufen.",
    "Strč prst skrz krk, řekl strážce majáku, když počítal lodě, které přijely do přístavu před setměním.",
    "Quản lý cảng giữ chìa khóa của ngọn hải đăng cũ và đếm những con thuyền vào bến trước khi trời tối.",
]


def one_page(text: str) -> PageContent:
    words = text.split()
    none = np.zeros((len(words), 4), np.float32)
    return PageContent(Words(words, bytes(len(words)), bytes(len(words)), none, none[:, :2]), characters=len(text))


def shifted(text: str) -> str:
    """What a font says whose glyphs are numbered from the blank on: "the" becomes "WKH"."""
    return "".join(chr(ord(letter) - 29) if letter.islower() else letter for letter in text)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_letters_of_a_language_are_left_alone(sentence: str) -> None:
    assert not has_no_language(one_page(sentence * 4))


def test_letters_that_no_language_has_go_through_ocr() -> None:
    def draw(canvas: Canvas) -> None:
        column(canvas, [shifted(SENTENCES[0])] * 6, 50, 700)

    def engine(image: object) -> list[OcrLine]:
        return [OcrLine(SENTENCES[0], 100, 280, 700, 310)]

    assert read(draw, ocr=engine).text == SENTENCES[0]
    assert read(draw).notes == ("1 of 1 page has text without character codes; install refdesk[ocr] to read them",)


def test_half_a_sentence_is_no_running_line() -> None:
    def draw(canvas: Canvas) -> None:
        for page in range(4):
            canvas.setFont("Helvetica", 10)
            canvas.drawString(50, 815, f"The keeper's handbook, page {page + 1}")
            canvas.drawString(50, 790, "This clause is here to show how a page is read and carries no")
            canvas.drawString(50, 778, f"weight at all, whatever number {page * 37 % 11} may say.")
            for line in range(20):
                canvas.drawString(50, 740 - 14 * line, f"Entry {page * 20 + line}: the lamp was seen from afar.")
            canvas.showPage()

    text = " ".join(read(draw).text.split())
    assert text.count("carries no weight at all") == 4
    assert "handbook" not in text


def test_running_sentence_over_two_lines_goes_as_a_whole() -> None:
    def draw(canvas: Canvas) -> None:
        for page in range(4):
            canvas.setFont("Helvetica", 10)
            canvas.drawString(50, 815, "This handbook belongs to the harbour and may not be taken")
            canvas.drawString(50, 803, "away from the lighthouse by anybody.")
            for line in range(20):
                canvas.drawString(50, 740 - 14 * line, f"Entry {page * 20 + line}: the lamp was seen from afar.")
            canvas.showPage()

    text = read(draw).text
    assert "handbook" not in text and "lighthouse" not in text


def spanned(rows: int) -> tuple[bytes, str]:
    """Every row opens a cell that goes down to the end: the last row stands below all the others' cells."""
    return f"<table>{'<tr><td rowspan=65000>a</td></tr>' * rows}</table>".encode(), "page.html"


def one_wide_row(rows: int) -> tuple[bytes, str]:
    return f"<table><tr>{'<td>x</td>' * (rows // 4)}</tr>{'<tr><td>b</td></tr>' * rows}</table>".encode(), "page.html"


def wide_csv(columns: int) -> tuple[bytes, str]:
    header = ",".join(f"c{n}" for n in range(columns))
    return (header + "\n" + "1,2\n" * (2 * columns)).encode(), "table.csv"


@pytest.mark.parametrize(("make", "size"), [(spanned, 600), (one_wide_row, 2000), (wide_csv, 4000)])
def test_wide_tables_take_linear_time(make: Callable[[int], tuple[bytes, str]], size: int) -> None:
    assert steepness(lambda rows: parse(*make(rows), ParseOptions()), size // 4) < 1.5


def test_csv_of_too_many_columns_is_refused_in_one_sentence() -> None:
    data = (",".join("c" * 200_000) + "\n" + ",".join("1" * 200_000) + "\n").encode()
    with pytest.raises(TooLarge, match="has 200,000 columns; at most 16,384 are read"):
        parse(data, "table.csv", ParseOptions())
