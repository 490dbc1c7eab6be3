"""Files built to do harm, and damaged ones: one clear sentence, in time, and never another kind of error."""

from __future__ import annotations

import random
import struct
import zipfile
from collections.abc import Callable

import openpyxl
import pytest

import format_samples as samples
import old_samples as old
from refdesk.errors import BrokenFile, DocumentError, EmptyDocument, HostileFile, NeedsPassword, TooLarge
from refdesk.parsers.build import ParseOptions
from timing import steepness

LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BOMB = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "lol">{LAUGHS}]><x>&l9;</x>'


def outcome(data: bytes, name: str) -> str:
    """The text, or the sentence of the DocumentError; anything else fails the test."""
    try:
        return samples.read(data, name).text
    except DocumentError as error:
        return error.sentence


@pytest.mark.parametrize("make", [samples.word_document, samples.presentation, samples.workbook])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_in_office_files_are_refused(make: object, encoding: str) -> None:
    assert callable(make)
    data = samples.with_part(make(), "docProps/core.xml", BOMB.encode(encoding))
    with pytest.raises(HostileFile, match=r"docProps/core\.xml declares XML entities"):
        samples.read(data)


def test_entities_behind_a_long_comment_are_refused() -> None:
    hidden = b"<?xml version='1.0'?><!--" + b"x" * 100_000 + b"-->" + BOMB[21:].encode()
    with pytest.raises(HostileFile):
        samples.read(samples.with_part(samples.word_document(), "word/document.xml", hidden))


@pytest.mark.parametrize("name", ["a.xml", "a.svg", "a.html", "a.txt"])
def test_entities_in_text_stay_text(name: str) -> None:
    assert len(outcome(BOMB.encode(), name)) < 5000
    page = BOMB.replace("<x>", "<html><body><p>before ").replace("</x>", "</p></body></html>")
    assert len(outcome(page.encode(), "a.html")) < 5000


def test_entities_in_an_ebook_are_refused() -> None:
    with pytest.raises(HostileFile):
        samples.read(samples.with_part(samples.book(), "OPS/text/two.xhtml", BOMB.encode()))


@pytest.mark.parametrize("part", ["content.xml", "styles.xml", "meta.xml", "META-INF/manifest.xml"])
@pytest.mark.parametrize("make", [old.open_text, old.open_show, old.open_sheet])
def test_entities_in_opendocument_are_refused(make: Callable[[], bytes], part: str) -> None:
    with pytest.raises(HostileFile, match="declares XML entities"):
        samples.read(samples.with_part(make(), part, BOMB.encode()))


@pytest.mark.parametrize("part", ["content.xml", "styles.xml"])
@pytest.mark.parametrize("make", [old.open_text, old.open_show, old.open_sheet])
def test_content_of_opendocument_damaged_inside(make: Callable[[], bytes], part: str) -> None:
    """The same inside the archive, where most flips leave it readable."""
    dice = random.Random(11)
    content = samples.part_of(make(), part)
    for _ in range(20):
        flipped = bytearray(content)
        for _ in range(3):
            flipped[dice.randrange(len(flipped))] = dice.choice(b'<>/"=&0123456789-')
        assert outcome(samples.with_part(make(), part, bytes(flipped)), "x")


def test_sectors_in_a_circle_end() -> None:
    """Of an Excel workbook and of a message: every sector is said to be followed by the first."""
    for data in (old.old_workbook(), old.outlook_message()):
        looped = bytearray(data)
        table = 512 * (1 + struct.unpack_from("<I", data, 76)[0])
        for place in range(table, table + 512, 4):
            if struct.unpack_from("<I", looped, place)[0] < 0xFFFFFFF0:
                struct.pack_into("<I", looped, place, 0)
        assert outcome(bytes(looped), "x")


def test_zip_bomb_is_refused_before_unpacking() -> None:
    data = samples.with_part(samples.word_document(), "word/media/image1.png", b"\0" * 60_000_000)
    with pytest.raises(HostileFile, match="zip bomb"):
        samples.read(data)


def test_unpacked_size_is_limited() -> None:
    with pytest.raises(HostileFile, match="over the limit of 1 MB"):
        samples.read(
            samples.with_part(samples.word_document(), "word/media/a.bin", random.Random(1).randbytes(1_500_000)),
            options=ParseOptions(max_unpacked_bytes=1_000_000),
        )


def test_a_size_that_lies_does_not_unpack_more() -> None:
    data = bytearray(samples.with_part(samples.word_document(), "word/styles.xml", b"<a>" + b" " * 5_000_000 + b"</a>"))
    entry = data.rfind(b"word/styles.xml") - 46  # its record in the table of contents
    assert data[entry : entry + 4] == b"PK\x01\x02"
    data[entry + 24 : entry + 28] = struct.pack("<I", 100)
    assert "damaged" in outcome(bytes(data), "a.docx") or "not valid" in outcome(bytes(data), "a.docx")


def test_overlapping_parts_are_refused() -> None:
    data = bytearray(samples.word_document())
    first = data.find(b"PK\x01\x02")
    second = data.find(b"PK\x01\x02", first + 4)
    data[second + 42 : second + 46] = data[first + 42 : first + 46]  # both now begin at the same place
    with pytest.raises((HostileFile, BrokenFile)):
        samples.read(bytes(data), "a.docx")


def test_unusual_compression_is_refused() -> None:
    data = samples.zipped({"[Content_Types].xml": "<a/>", "word/document.xml": "<a/>"}, zipfile.ZIP_BZIP2)
    with pytest.raises(BrokenFile, match="method"):
        samples.read(data)


def test_too_many_parts_are_refused() -> None:
    parts: dict[str, bytes | str] = {f"word/{number}": "" for number in range(20_001)}
    with pytest.raises(HostileFile, match="20,001 parts"):
        samples.read(samples.zipped(parts, zipfile.ZIP_STORED))


def test_protected_ebook_says_so_but_hidden_fonts_do_not_matter() -> None:
    with pytest.raises(NeedsPassword, match="DRM"):
        samples.read(samples.book("http://www.w3.org/2001/04/xmlenc#aes128-cbc"))
    assert "It fell all night." in samples.read(samples.book("http://www.idpf.org/2008/embedding")).text


@pytest.mark.parametrize(
    "make",
    [
        *(samples.word_document, samples.presentation, samples.workbook, samples.book, samples.mail),
        *(old.old_workbook, old.binary_workbook, old.open_text, old.open_show, old.open_sheet, old.rich_text),
        *(old.outlook_message, old.mail_folder, old.notebook),
        lambda: samples.zipped({"a.txt": "text", "b/c.txt": "more"}),
    ],
)
def test_damaged_files_give_a_sentence(make: object) -> None:
    """Cut anywhere or with bytes flipped: a text or a DocumentError, nothing else."""
    assert callable(make)
    data = make()
    dice = random.Random(7)
    for _ in range(12):
        assert outcome(data[: dice.randrange(1, len(data))], "x")
        flipped = bytearray(data)
        for _ in range(10):
            flipped[dice.randrange(len(flipped))] = dice.randrange(256)
        assert outcome(bytes(flipped), "x")


@pytest.mark.parametrize("part", ["word/document.xml", "_rels/.rels", "[Content_Types].xml", "word/styles.xml"])
def test_missing_or_senseless_parts(part: str) -> None:
    assert outcome(samples.with_part(samples.word_document(), part, b"<a><b></a>"), "a.docx")
    assert outcome(samples.with_part(samples.word_document(), part, b""), "a.docx")


@pytest.mark.parametrize(
    ("make", "size", "name"),
    [
        pytest.param(lambda n: b"<html><body>" + b"<div>" * n + b"deep" + b"</div>" * n, 100_000, "a.html", id="divs"),
        pytest.param(lambda n: b"<html><body>" + b"<ul><li>x" * n, 20_000, "a.html", id="lists"),
        pytest.param(lambda n: b"<html><body>" + b"<table><tr><td>x" * n, 20_000, "a.html", id="tables"),
        pytest.param(lambda n: b"<html><body>" + b"<a href='x'>y" * n, 50_000, "a.html", id="links"),
        pytest.param(lambda n: b"<html><table>" + b"<tr><td colspan=1000>x" * n, 2_000, "a.html", id="spans"),
        pytest.param(lambda n: b"[" * n, 200_000, "a.json", id="json"),
        pytest.param(lambda n: b'{"a":' * n, 100_000, "a.json", id="json_objects"),
        pytest.param(lambda n: b"x" * n, 5_000_000, "a.txt", id="one_line"),
        pytest.param(lambda n: b"word " * n, 400_000, "a.txt", id="one_line_of_words"),
        pytest.param(lambda n: b"= " * n + b"\n" * (n // 10), 400_000, "a.txt", id="signs"),
        pytest.param(lambda n: b" \n" * n, 400_000, "a.txt", id="blank_lines"),
        pytest.param(lambda n: (b" " * n + b"x\n") * 4, 500_000, "a.txt", id="spaces"),
        pytest.param(lambda n: b"<!---->" * n + b"x", 100_000, "a.html", id="empty_comments"),
        pytest.param(lambda n: b"- \n" * n, 100_000, "a.txt", id="bullets"),
        pytest.param(lambda n: b"a," * n + b"\n" + b"1," * n, 20_000, "a.csv", id="wide_csv"),
        pytest.param(lambda n: b'"' * (n + 1), 1_000_000, "a.csv", id="quotes"),
        pytest.param(lambda n: b"a,b\n" * n, 100_000, "a.csv", id="long_csv"),
        pytest.param(lambda n: b"<!--" * n, 200_000, "a.md", id="comments"),
        pytest.param(lambda n: b"> " * n + b"x", 50_000, "a.md", id="quotes_in_quotes"),
        pytest.param(lambda n: b"- " * n + b"x", 50_000, "a.md", id="lists_in_lists"),
        pytest.param(lambda n: b"[" * n, 100_000, "a.md", id="brackets"),
        pytest.param(lambda n: b"From: a\nTo: b\n" + b"X-Y: z\n" * n + b"\nbody", 100_000, "a.eml", id="headers"),
        pytest.param(lambda n: b"{\\rtf1" + b"{" * n, 200_000, "a.rtf", id="groups"),
        pytest.param(lambda n: b"{\\rtf1" + b"{\\b x}" * n, 50_000, "a.rtf", id="short_groups"),
        pytest.param(lambda n: b"{\\rtf1" + b"x\\par " * n, 50_000, "a.rtf", id="paragraphs"),
        pytest.param(lambda n: b"{\\rtf1" + b"{\\footnote x}" * n, 50_000, "a.rtf", id="footnotes"),
        pytest.param(lambda n: b"{\\rtf1\\intbl" + b"x\\cell " * n + b"\\row", 50_000, "a.rtf", id="cells"),
        pytest.param(
            lambda n: b"{\\rtf1" + b"".join(b"\\trowd\\cellx%d x\\cell\\row" % (k * 99) for k in range(n)),
            5_000,
            "a.rtf",
            id="edges",
        ),
        pytest.param(lambda n: b"{\\rtf1" + b"\\u8364?" * n, 50_000, "a.rtf", id="unicode"),
        pytest.param(lambda n: b"From a\nTo: b\n\n" * n, 5_000, "a.mbox", id="messages"),
        pytest.param(
            lambda n: b'{"cells": [' + b'{"cell_type": "code", "source": "x"},' * n + b"{}]}",
            20_000,
            "a.ipynb",
            id="notebook_cells",
        ),
        pytest.param(lambda n: old.opendocument("text", "<text:span>" * n), 20_000, "a.odt", id="open_spans"),
        pytest.param(
            lambda n: old.opendocument("text", "<text:p>x</text:p>" * n), 10_000, "a.odt", id="open_paragraphs"
        ),
        pytest.param(
            lambda n: old.opendocument(
                "text", "<text:list><text:list-item><text:p>x</text:p></text:list-item></text:list>" * n
            ),
            5_000,
            "a.odt",
            id="open_lists",
        ),
        pytest.param(lambda n: b"\xff\xfe" + b"\0\xd8" * n, 100_000, "a.txt", id="half_surrogates"),
        pytest.param(lambda n: b"\x81\x8d\x8f\x90\x9d" * n + b" text", 100_000, "a.txt", id="undefined_bytes"),
    ],
)
def test_pathological_input_takes_time_by_its_length(make: Callable[[int], bytes], size: int, name: str) -> None:
    small, large = make(size // 16), make(size)
    assert steepness(lambda n: outcome(small if n < size else large, name), size // 16) < 1.5


@pytest.mark.parametrize("tag", ["text:section", "text:list", "draw:g", "table:table"])
def test_opendocument_nested_without_end_gives_a_sentence(tag: str) -> None:
    deep = f"<{tag}>" * 50_000 + f"</{tag}>" * 50_000
    for data in (old.opendocument("text", deep), old.opendocument("presentation", f"<draw:page>{deep}</draw:page>")):
        assert outcome(data, "x")


def test_deep_nesting_keeps_the_text() -> None:
    page = b"<html><body><p>before</p>" + b"<div>" * 100_000 + b"deep" + b"</div>" * 100_000 + b"<p>after</p>"
    parsed = samples.read(page, "a.html")
    assert all(word in parsed.text for word in ("before", "deep", "after"))
    assert "nested" in parsed.notes[0]


def test_huge_dimensions_with_few_cells_are_cheap() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet["A1"], sheet["B1"], sheet["XFD1048576"] = "a", "b", "end"
    sheet.merge_cells("A1:A2")
    data = samples.saved(book)
    part = samples.part_of(data, "xl/worksheets/sheet1.xml")
    data = samples.with_part(data, "xl/worksheets/sheet1.xml", part.replace(b'"A1:A2"', b'"A1:XFD1048576"'))
    assert "end" in outcome(data, "a.xlsx")


def test_characters_that_are_not_text_are_removed() -> None:
    parsed = samples.read(
        f"Be\x00fore.\n\nA\x07fter\x9f \ud800 {'and more ' * 50}".encode("utf-8", "surrogatepass"), "a.txt"
    )
    assert parsed.text.startswith("Before.\n\nAfter")
    assert samples.texts(parsed, "text")[0] == "Before."
    assert not set(parsed.text) & set("\x00\x07\x9f\ud800")


def test_text_over_the_limit_is_too_large() -> None:
    with pytest.raises(TooLarge, match="over the limit of 1,000"):
        samples.read(b"word " * 1000, "a.txt", ParseOptions(max_characters=1000))
    with pytest.raises(TooLarge):
        samples.read(samples.workbook(), options=ParseOptions(max_characters=10))


@pytest.mark.parametrize("data", [b"   \n\n ", b"<html><body></body></html>", b"\xef\xbb\xbf"])
def test_nothing_readable_is_empty(data: bytes) -> None:
    with pytest.raises(EmptyDocument):
        samples.read(data, "a.txt")
