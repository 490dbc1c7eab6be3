"""The type of a file is decided by its content."""

from __future__ import annotations

import gzip
import io
import sqlite3
import tarfile

import pytest

import format_samples as samples
import old_samples as old
from refdesk.errors import BrokenFile, EmptyDocument, NeedsPassword, UnsupportedFormat
from refdesk.ingest.parse import sniff

MAIL = b"From: a@example.org\nTo: b@example.org\nSubject: Hello\n\nBody\n"


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        pytest.param(b"%PDF-1.7\n", "", "pdf", id="pdf"),
        pytest.param(b"junk\r\n" * 100 + b"%PDF-1.4\nendobj", "", "pdf", id="pdf:after_junk"),
        pytest.param(b"The header %PDF-1.4 begins such a file.", "a.txt", "text", id="text:about_pdf"),
        pytest.param(samples.picture(), "a.txt", "image", id="jpeg:named_txt"),
        pytest.param(b"<!DOCTYPE html><html><body>x</body></html>", "a.txt", "html", id="html:named_txt"),
        pytest.param(b"<?xml version='1.0'?>\n<html xmlns='x'><p>a</p></html>", "", "html", id="xhtml"),
        pytest.param(b"<p>only</p><p>a</p><div>fragment</div>", "", "html", id="html:fragment"),
        pytest.param(b"<?xml version='1.0'?><note><to>a</to></note>", "n.xml", "text", id="xml"),
        pytest.param(b'{"a": [1, 2]}', "a.json", "text", id="json"),
        pytest.param(MAIL, "letter.txt", "eml", id="mail:named_txt"),
        pytest.param(b"Subject: none of this\nis a mail at all", "a.txt", "text", id="text:one_header"),
        pytest.param("From: a@b.c\nTo: d@e.f\n\nx".encode("utf-16"), "", "eml", id="mail:utf16"),
        pytest.param(b"# Title\n\ntext", "a.md", "markdown", id="markdown:by_name"),
        pytest.param(b"# Title\n\n- [a](http://b)\n", "", "markdown", id="markdown:by_signs"),
        pytest.param(b"# not a heading but a comment", "a.py", "text", id="code"),
        pytest.param(b"a;b\n1;2\n", "a.csv", "csv", id="csv:by_name"),
        pytest.param(b"a\tb\n1\t2\n3\t4\n", "", "tsv", id="tsv:by_content"),
        pytest.param(b"a,b,c\n1,2,3\n4,5,6\n", "", "csv", id="csv:by_content"),
        pytest.param(b"One, two, three.\nFour, five, six.\nA, b, c.\n", "", "text", id="text:commas"),
        pytest.param("Привет, мир".encode("cp1251"), "a.txt", "text", id="text:cp1251"),
        pytest.param("ordinary text".encode("utf-16-le"), "a.txt", "text", id="text:utf16_without_mark"),
        pytest.param(b"ID3 tags are explained here.", "a.txt", "text", id="text:begins_like_mp3"),
    ],
)
def test_format_by_content(data: bytes, name: str, expected: str) -> None:
    assert sniff(data, name) == expected


@pytest.mark.parametrize("name", ["right.docx", "wrong.pdf", "", "wrong.zip"])
def test_office_files_under_any_name(name: str) -> None:
    assert sniff(samples.word_document(), name) == "docx"
    assert sniff(samples.presentation(), name) == "pptx"
    assert sniff(samples.workbook(), name) == "xlsx"
    assert sniff(samples.book(), name) == "epub"


@pytest.mark.parametrize("name", ["right", "wrong.pdf", "wrong.txt", ""])
def test_older_formats_under_any_name(name: str) -> None:
    made = {
        "xls": old.old_workbook(), "xlsb": old.binary_workbook(), "ods": old.open_sheet(), "odt": old.open_text(),
        "odp": old.open_show(), "rtf": old.rich_text(), "msg": old.outlook_message(), "ipynb": old.notebook(),
        "zip": samples.zipped({"a.txt": "x"}), "doc": old.compound({"WordDocument": b"x"}),
        "ppt": old.compound({"PowerPoint Document": b"x"}), "eml": old.mail_folder(),
    }  # fmt: skip
    assert {kind: sniff(data, name) for kind, data in made.items()} == {kind: kind for kind in made}


def test_what_is_attached_does_not_say_what_a_file_is() -> None:
    """A workbook that holds a Word document is a workbook; where the container is damaged, names are all there is."""
    data = old.compound({"Workbook": b"x", "MBD0001": {"WordDocument": b"y"}})
    assert sniff(data) == "xls"
    assert sniff(samples.compound_file("Workbook", "WordDocument")) == "doc"


def _tar() -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a"), io.BytesIO())
    return target.getvalue()


def _database() -> bytes:
    connection = sqlite3.connect(":memory:")
    connection.execute("create table t (a)")
    return connection.serialize()


OPEN_DOCUMENT = {"mimetype": "application/vnd.oasis.opendocument.graphics", "content.xml": "<x/>"}


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(samples.compound_file("VisioDocument"), "a Visio drawing", id="visio"),
        pytest.param(samples.compound_file("Whatever"), "an Office 97–2003 file", id="other_compound"),
        pytest.param(samples.zipped(OPEN_DOCUMENT), "an OpenDocument drawing", id="odg"),
        pytest.param(samples.zipped({"META-INF/MANIFEST.MF": "x"}), "a Java archive", id="jar"),
        pytest.param(gzip.compress(b"x"), "a gzip archive", id="gzip"),
        pytest.param(_tar(), "a tar archive", id="tar"),
        pytest.param(b"7z\xbc\xaf\x27\x1c\0\0", "a 7-Zip archive", id="7z"),
        pytest.param(b"Rar!\x1a\x07\x01\x00", "a RAR archive", id="rar"),
        pytest.param(b"\x7fELF\x02\x01\x01\0", "a program", id="elf"),
        pytest.param(b"MZ\x90\0\x03\0\0\0\x04\0", "a program", id="exe"),
        pytest.param(b"ID3\x04\0\0\0\0\0\0", "an audio file", id="mp3"),
        pytest.param(b"RIFF\x24\0\0\0WAVEfmt ", "an audio file", id="wav"),
        pytest.param(b"\0\0\0\x18ftypmp42\0\0", "a video", id="mp4"),
        pytest.param(b"\0\x01\0\0\0\x10\0\x80", "a font", id="ttf"),
        pytest.param(_database(), "an SQLite database", id="sqlite"),
        pytest.param(b"PAR1\x15\x04\x15\0\0\0", "a Parquet table", id="parquet"),
        pytest.param(bytes(range(256)) * 20, "a binary file", id="unknown"),
    ],
)
def test_unsupported_says_what_it_is(data: bytes, words: str) -> None:
    with pytest.raises(UnsupportedFormat, match=f"this is {words}.*, which Refdesk does not read"):
        sniff(data, "file.pdf")


def test_encrypted_office_file_needs_a_password() -> None:
    with pytest.raises(NeedsPassword, match="encrypted") as caught:
        sniff(samples.compound_file("EncryptionInfo", "EncryptedPackage"), "a.xlsx")
    assert "without a password" in caught.value.hint


def test_no_bytes_is_empty() -> None:
    with pytest.raises(EmptyDocument):
        sniff(b"", "a.txt")


def test_truncated_office_file_is_broken_not_unsupported() -> None:
    data = samples.word_document()
    with pytest.raises(BrokenFile, match="DOCX"):
        sniff(data[: len(data) // 2], "a.docx")
