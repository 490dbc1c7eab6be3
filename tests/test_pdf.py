"""What the PDF parser gives, on PDFs whose truth is known (pdf_samples.py)."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.lib.utils import ImageReader

from pdf_samples import (
    Sample,
    Sheet,
    body,
    cjk,
    cropped,
    headings,
    hyphenated,
    list_and_code,
    mixed_views,
    negative_origin,
    over_the_page,
    overlap,
    plain,
    rotated,
    rotated_upright,
    running_lines,
    sentence,
    sideways,
    table,
    two_columns,
)
from refdesk.errors import BrokenFile, EmptyDocument, NeedsPassword, TooLarge
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.pdf import parse
from refdesk.parsers.pdf_letters import clean_word
from refdesk.types import OcrLine, Parsed, boxes_between

BOXES = [
    plain("Times-Roman", 11), plain("Courier", 9), rotated(90), rotated(180), rotated(270), rotated_upright(90),
    rotated_upright(270), sideways(), cropped(), cropped(90), negative_origin(180), two_columns("mixed"),
    two_columns("rowwise"), table(ruled=True, pages=3), table(ruled=False, pages=1), over_the_page(), mixed_views(),
    hyphenated(), cjk("japanese", "HeiseiMin-W3", ["図書館は町の中心にある。", "資料は毎朝九時から読むことができる。"]),
]  # fmt: skip


def read(sample: Sample, **options: object) -> Parsed:
    return parse(sample.data, replace(ParseOptions(), **options))  # type: ignore[arg-type]


def texts(parsed: Parsed, kind: str) -> list[str]:
    return [parsed.text[block.start : block.end] for block in parsed.blocks if block.kind == kind]


def check_contract(parsed: Parsed) -> None:
    """Pages tile the text, blocks follow one another, words ascend and lie on their page."""
    assert parsed.pages[0].start == 0 and parsed.pages[-1].end == len(parsed.text)
    assert all(a.end == b.start for a, b in zip(parsed.pages, parsed.pages[1:], strict=False))
    assert all(a.end < b.start for a, b in zip(parsed.blocks, parsed.blocks[1:], strict=False))
    words = parsed.geometry
    assert words is not None
    assert (words.start[1:] >= words.end[:-1]).all() and (words.end > words.start).all()
    assert (np.diff(words.line) >= 0).all() and (np.diff(words.page) >= 0).all()
    assert (words.edges >= 0).all() and (words.edges <= 100).all()
    assert (words.edges[:, 2] > words.edges[:, 0]).all() and (words.edges[:, 3] > words.edges[:, 1]).all()
    for start, end, page in zip(words.start.tolist(), words.end.tolist(), words.page.tolist(), strict=True):
        owner = parsed.pages[page - 1]
        assert owner.start <= start and end <= owner.end
        assert not any(character.isspace() for character in parsed.text[start:end])
    for line in np.unique(words.line).tolist():
        assert len(set(words.page[words.line == line].tolist())) == 1


@pytest.mark.parametrize("sample", BOXES, ids=lambda sample: sample.name)
def test_box_of_known_sentence_overlaps_truth(sample: Sample) -> None:
    parsed = read(sample)
    check_contract(parsed)
    assert parsed.geometry is not None
    for truth in sample.truths:
        start = parsed.text.find(truth.sentence)
        assert start >= 0, truth.sentence
        boxes = boxes_between(parsed.geometry, start, start + len(truth.sentence))
        assert [box.page for box in boxes] == [box[0] for box in truth.boxes]
        found = [(box.page, box.x, box.y, box.x + box.width, box.y + box.height) for box in boxes]
        assert overlap(found, list(truth.boxes)) >= 0.8, truth.sentence


@pytest.mark.parametrize(
    ("sample", "size"),
    [(rotated(0), (595, 842)), (rotated(90), (842, 595)), (cropped(), (495, 700)), (cropped(90), (700, 495))],
    ids=lambda value: value.name if isinstance(value, Sample) else "",
)  # fmt: skip
def test_page_size_is_the_displayed_one(sample: Sample, size: tuple[float, float]) -> None:
    page = read(sample).pages[0]
    assert (page.width, page.height) == pytest.approx(size, abs=0.6)


def test_text_outside_the_crop_box_is_left_out() -> None:
    assert "never seen" not in read(cropped()).text


@pytest.mark.parametrize("order", ["plain", "mixed", "rowwise"])
def test_two_columns_are_read_one_after_the_other(order: str) -> None:
    sample = two_columns(order)
    parsed = read(sample)
    places = [parsed.text.find(truth.sentence) for truth in sample.truths]
    if order == "rowwise":  # drawn alternately: even ones are the left column
        places = places[::2] + places[1::2]
    assert min(places) >= 0
    assert places == sorted(places)


def test_headings_get_levels_by_size_and_number() -> None:
    parsed = read(headings())
    found = [(parsed.text[b.start : b.end], b.level) for b in parsed.blocks if b.kind == "heading"]
    assert found == [
        ("The Harbour Study", 1),
        ("1 Introduction", 2),
        ("1.1 Purpose", 3),
        ("1.2 Method", 3),
        ("2 Results", 2),
        ("2.1 Ablation", 3),
    ]
    assert parsed.title == "The Harbour Study"


def test_running_header_and_page_numbers_go() -> None:
    sample = running_lines(6)
    parsed = read(sample)
    assert "Annual Report" not in parsed.text and "Page " not in parsed.text
    assert all(truth.sentence in parsed.text for truth in sample.truths)


def test_short_document_loses_page_numbers_only() -> None:
    sheet = Sheet("short")
    for page in (1, 2):
        sheet.text("Letter to the Harbour Board", 70, 800)
        body(sheet, page * 50, 70, 760, 440)
        sheet.text(str(page), 290, 40)
        if page == 1:
            sheet.next_page()
    sample = sheet.build()
    parsed = read(sample)
    assert parsed.text.count("Letter to the Harbour Board") == 2
    assert all(truth.sentence in parsed.text for truth in sample.truths)
    assert not any(line.strip().isdigit() for line in parsed.text.splitlines())


def test_small_print_on_both_of_two_pages_goes() -> None:
    sheet = Sheet("two_pages")
    for page in (1, 2):
        sheet.text("Harbour Board price list", 70, 805, size=8)
        body(sheet, page * 50, 70, 760, 440)
        if page == 1:
            sheet.next_page()
    assert "price list" not in read(sheet.build()).text


def test_pages_that_differ_in_a_number_only_are_kept() -> None:
    sheet = Sheet("alike")
    for page in range(1, 8):
        sheet.text(f"This is page {page} of the register", 70, 790)
        if page < 7:
            sheet.next_page()
    parsed = read(sheet.build())
    assert all(f"This is page {page} of the register" in parsed.text for page in range(1, 8))


def test_header_row_at_the_top_of_every_page_is_not_furniture() -> None:
    parsed = read(table(ruled=False, pages=3))
    assert "Product name | Ordered | Shipped | Price" in parsed.text


def test_years_over_columns_are_no_page_numbers() -> None:
    sheet = Sheet("years")
    for page in range(8):
        for row in range(7):
            label = "Years ended December 31," if row == 0 else f"Amount {page}.{row}"
            values = [str(2022 - page - i) if row == 0 else f"{page}{row},{i}00" for i in range(3)]
            for x, cell in zip((70, 300, 380, 460), (label, *values), strict=True):
                sheet.text(cell, x, 780 - 16 * row)
        sheet.text(f"Harbour Board {page + 1}", 270, 30)
        if page < 7:
            sheet.next_page()
    text = read(sheet.build()).text
    for page in range(8):
        assert f"Years ended December 31, | {2022 - page} | {2021 - page} | {2020 - page}" in text
    assert "Harbour Board" not in text


def test_hyphens_at_line_ends_are_repaired() -> None:
    text = read(hyphenated()).text
    assert "international treaty on coastal navigation would" in text
    assert "short-term costs differ; long-term and short-term views" in text


def test_word_over_two_lines_has_a_box_on_each() -> None:
    parsed = read(hyphenated())
    assert parsed.geometry is not None
    start = parsed.text.index("international")
    assert len(boxes_between(parsed.geometry, start, start + len("international"))) == 2


def test_ligatures_and_odd_spaces_are_normalised() -> None:
    assert clean_word("oﬃce") == "office" and clean_word("ﬁsh\u00ad") == "fish"
    assert clean_word("a\x00b\x07") == "ab"
    assert clean_word("\ufedf\ufe8e") == "لا"  # Arabic presentation forms
    sheet = Sheet("nbsp")
    sheet.text("one\u00a0two three", 70, 700)
    assert read(sheet.build()).text == "one two three"


@pytest.mark.parametrize("ruled", [True, False], ids=["ruled", "borderless"])
def test_table_rows_and_header(ruled: bool) -> None:
    parsed = read(table(ruled, pages=1))
    tables = [block for block in parsed.blocks if block.kind == "table"]
    assert len(tables) == 1
    rows = parsed.text[tables[0].start : tables[0].end].split("\n")
    assert rows[0] == "Product name | Ordered | Shipped | Price" and len(rows) == 13
    assert rows[2] == "Product mortar 2 | 74 | 22 | 6.50"
    header = tables[0].header
    assert header is not None and parsed.text[header[0] : header[1]] == rows[0]
    assert parsed.text.startswith(sentence(1, 12)) and sentence(3, 12) in parsed.text


@pytest.mark.parametrize("ruled", [True, False], ids=["ruled", "borderless"])
def test_table_over_pages_is_one_block_with_a_box_per_page(ruled: bool) -> None:
    parsed = read(table(ruled, pages=3))
    assert parsed.geometry is not None
    (block,) = [block for block in parsed.blocks if block.kind == "table"]
    rows = parsed.text[block.start : block.end].split("\n")
    assert len(rows) == 1 + 3 * 28 and rows.count(rows[0]) == 1
    assert {box.page for box in boxes_between(parsed.geometry, block.start, block.end)} == {1, 2, 3}


def test_rules_under_totals_are_no_ruled_table() -> None:
    sheet = Sheet("rules")
    body(sheet, 1, 70, 760, 440)
    for y in (500, 480):
        sheet.canvas.line(70, y, 500, y)
    assert not texts(read(sheet.build()), "table")


def test_lists_and_code() -> None:
    parsed = read(list_and_code())
    (items,) = texts(parsed, "list")
    assert items.split("\n")[0] == "• Bring the harbour and the thunder" and items.count("\n") == 3
    assert texts(parsed, "code") == ["def total(values):\n    result = sum(values)\n    return result"]


def test_contents_page() -> None:
    sheet = Sheet("contents")
    sheet.text("Contents", 70, 780, "Helvetica-Bold", 16)
    for index, title in enumerate(["Harbour dues", "Pilotage rules", "Tariffs and fees", "Night work", "Appeals"]):
        sheet.text(f"{title} {'.' * 40} {index * 4 + 3}", 70, 740 - 16 * index)
    sheet.next_page()
    body(sheet, 1, 70, 760, 440)
    (entries,) = texts(read(sheet.build()), "toc")
    assert entries.split("\n")[0] == "Harbour dues 3"


def test_sentence_goes_on_over_the_page_in_one_block() -> None:
    parsed = read(over_the_page())
    start = parsed.text.index("This sentence begins")
    (block,) = [block for block in parsed.blocks if block.start <= start < block.end]
    assert "end at the top of the second page." in parsed.text[block.start : block.end]
    assert parsed.pages[0].end == parsed.text.index("end at the top")


def _picture() -> ImageReader:
    pixels = (np.indices((80, 120)).sum(axis=0) * 2 % 256).astype(np.uint8)
    return ImageReader(Image.fromarray(pixels).convert("RGB"))


def test_figure_with_caption_is_cropped() -> None:
    sheet = Sheet("figure")
    body(sheet, 1, 70, 760, 440, 2)
    sheet.canvas.drawImage(_picture(), 150, 400, 240, 160)
    sheet.text("Figure 1: The harbour wall in spring", 150, 385)
    sheet.canvas.drawImage(_picture(), 150, 120, 240, 160)  # without a caption: left out
    parsed = read(sheet.build())
    (block,) = [block for block in parsed.blocks if block.kind == "figure"]
    assert parsed.text[block.start : block.end] == "Figure 1: The harbour wall in spring" and block.figure == 0
    (png,) = parsed.figures
    image = Image.open(io.BytesIO(png))
    assert image.format == "PNG" and image.width / image.height == pytest.approx(1.5, abs=0.05)


def test_drawn_figure_with_caption_is_cropped() -> None:
    sheet = Sheet("drawing")
    body(sheet, 1, 70, 760, 440, 2)
    for index in range(12):
        sheet.canvas.line(150 + 20 * index, 420, 160 + 20 * index, 430 + 10 * index)
    sheet.text("Fig. 2 The wall from the sea", 150, 400)
    body(sheet, 20, 70, 380, 440, 1)
    sheet.text("Figure 2 shows that the wall stands where the sea was once said to be.", 70, 250)
    parsed = read(sheet.build())
    assert texts(parsed, "figure") == ["Fig. 2 The wall from the sea"] and len(parsed.figures) == 1


def scan(pages: int = 1, text: str = "") -> Sample:
    sheet = Sheet("scan")
    for page in range(pages):
        sheet.canvas.drawImage(_picture(), 0, 0, 595, 842)
        if page < pages - 1:
            sheet.next_page()
    if text:
        sheet.next_page()
        sheet.text(text, 70, 700)
    return sheet.build()


def test_scan_without_ocr_says_what_to_install() -> None:
    with pytest.raises(EmptyDocument, match="scanned") as caught:
        read(scan())
    assert "refdesk[ocr]" in caught.value.hint
    parsed = read(scan(2, "But this page has a text layer of its own."))
    assert parsed.notes == ("2 of 3 pages are scans without text; install refdesk[ocr] to read them",)
    assert [page.start == page.end for page in parsed.pages] == [True, True, False]


def test_scan_goes_through_ocr_and_keeps_its_boxes() -> None:
    seen = []

    def engine(image: np.ndarray) -> list[OcrLine]:
        height, width, _ = image.shape
        seen.append((width, height))
        return [OcrLine("Harbour dues rise", 0.1 * width, 0.2 * height, 0.5 * width, 0.22 * height)]

    done: list[tuple[int, int]] = []
    parsed = read(scan(2), ocr=engine, progress=lambda a, b: done.append((a, b)))
    check_contract(parsed)
    assert seen == [(1240, 1755)] * 2 or seen == [(1240, 1754)] * 2  # 150 dpi
    assert done == [(1, 2), (2, 2)] and all(page.ocr for page in parsed.pages)
    assert parsed.geometry is not None
    (box,) = boxes_between(parsed.geometry, 0, len("Harbour"))
    assert (box.x, box.y, box.height) == pytest.approx((10, 20, 2), abs=0.1)
    assert box.width == pytest.approx(40 * 7 / 17, abs=0.2)  # its share of the letters


def test_password() -> None:
    sheet = Sheet("secret", encrypt=StandardEncryption("open sesame", "owner", strength=128))
    sheet.text("The vault holds nine barrels.", 70, 700)
    sample = sheet.build()
    with pytest.raises(NeedsPassword, match="this PDF needs a password"):
        read(sample)
    with pytest.raises(NeedsPassword, match="the password is wrong"):
        read(sample, password="wrong")
    assert read(sample, password="open sesame").text == "The vault holds nine barrels."


def test_bad_input_gives_one_clear_error() -> None:
    data = plain("Helvetica", 10).data
    for broken in (b"", b"%PDF-1.7\n", data[:200], b"garbage" * 100):
        with pytest.raises(BrokenFile):
            parse(broken, ParseOptions())
    with pytest.raises(EmptyDocument):
        read(Sheet("blank").build())
    with pytest.raises(TooLarge, match="6 pages"):
        read(running_lines(6), max_pages=5)


def test_broken_page_does_not_lose_the_others() -> None:
    data = running_lines(3).data
    assert data.count(b"/Kids [ 3 0 R") == 1
    broken = data.replace(b"/Kids [ 3 0 R", b"/Kids [ 2 0 R")  # a font where the first page should be
    parsed = parse(broken, ParseOptions())
    assert sentence(200, 7 + 200 % 6) in parsed.text and parsed.notes == ("1 of 3 pages could not be read",)


def test_metadata_and_title() -> None:
    sheet = Sheet("meta")
    sheet.canvas.setTitle("Microsoft Word - draft7.doc")
    sheet.canvas.setAuthor("Ada Harbour")
    sheet.text("Rules of the Quay", 70, 780, "Helvetica-Bold", 20)
    body(sheet, 1, 70, 740, 440)
    parsed = read(sheet.build())
    assert parsed.title == "Rules of the Quay" and parsed.metadata["author"] == "Ada Harbour"
    assert len(parsed.metadata["created"]) == 10
