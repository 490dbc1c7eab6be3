"""Spreadsheets, texts, slides and mails in the formats that Office wrote before, and others write."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

import format_samples as samples
import old_samples as old
from format_samples import header_of, headings, read, texts
from refdesk.errors import (
    BrokenFile,
    EmptyDocument,
    HostileFile,
    NeedsPassword,
    ParseTimeout,
    TooLarge,
    UnsupportedFormat,
)
from refdesk.parsers import libreoffice
from refdesk.parsers.build import ParseOptions
from timing import PATIENCE_S

PRICES = (
    "region | item | price | share | since\n"
    "North | paper | $1,234.50 | 12.5% | 2024-03-01\n"
    "North | ink | -$7.00 | 50.0% | 2024-12-24"
)


class TestWorkbooks:
    def test_old_workbook_is_read_as_a_new_one(self) -> None:
        """All but the cell that is beyond the last row of the old format."""
        then, now = read(old.old_workbook(), "a.xls"), read(samples.workbook(), "a.xlsx")
        assert (then.format, then.text) == ("xls", now.text.replace("\n\nthe last cell", ""))
        assert texts(then, "table")[0] == PRICES
        assert [page.label for page in then.pages] == ["Costs", "Far"]
        assert then.metadata["author"] == "openpyxl"

    def test_binary_workbook_shows_numbers_as_displayed(self) -> None:
        parsed = read(old.binary_workbook(), "a.xlsb")
        assert parsed.format == "xlsb"
        assert texts(parsed, "table") == [
            "region | item | price | share | since\n"
            "North | paper | $1,234.50 | 1250.00% | 2024-03-01\n"
            "North | ink | -$7.00 | #N/A | TRUE"
        ]
        (page,) = parsed.pages
        assert page.label == "Costs"

    def test_binary_workbook_that_ends_early_is_broken(self) -> None:
        with pytest.raises(BrokenFile, match="in the middle of a record"):
            read(old.binary_workbook(old.row(0) + old.cell(6, 0, old.wide("name"))[:-4]))

    def test_sheet_of_opendocument(self) -> None:
        parsed = read(old.open_sheet(), "a.ods")
        assert (parsed.format, parsed.metadata) == ("ods", {"author": "Ada Brook", "date": "2024-03-01T10:00:00"})
        assert texts(parsed, "table") == [
            "region | item | price\nNorth | paper | $1,234.50\nNorth | ink | 7\nSouth | 9 | 9\nSouth | 9 | 9"
        ]
        assert [page.label for page in parsed.pages] == ["Costs"]

    def test_rows_without_end_are_too_large(self) -> None:
        cell = '<table:table-cell table:number-columns-repeated="16384"><text:p>x</text:p></table:table-cell>'
        rows = f'<table:table-row table:number-rows-repeated="999999999">{cell}</table:table-row>'
        with pytest.raises(TooLarge, match="filled cells"):
            read(
                old.opendocument("spreadsheet", f"<table:table>{rows}</table:table>"),
                options=ParseOptions(max_characters=100_000),
            )


class TestTexts:
    def test_text_of_opendocument(self) -> None:
        parsed = read(old.open_text(), "a.odt")
        assert (parsed.format, parsed.title) == ("odt", "Lease")
        assert headings(parsed) == [(1, "Lease"), (1, "1 Rent"), (2, "1.1 Payment"), (1, "2 End")]
        assert [page.label for page in parsed.pages] == ["Lease", "2 End"]
        assert texts(parsed, "text") == [
            "The rent is 900 euros.",
            "Footnote 1: Without heating.",
            "See the box.",
            "Words in a box.",
            "It ends in June.",
        ]
        assert texts(parsed, "list") == ["1. by transfer\n  - in euros\n2. in advance"]
        (table,) = (block for block in parsed.blocks if block.kind == "table")
        assert header_of(parsed, table) == "month | rent"

    def test_cells_over_several_rows_and_columns(self) -> None:
        rows = old.table(("item", "price", "*"), ("paper", "3", "4"), ("*", "5", "6"))
        for text, side in (("price", "columns"), ("paper", "rows")):
            spanned = f'<table:table-cell table:number-{side}-spanned="2"><text:p>{text}'
            rows = rows.replace(f"<table:table-cell><text:p>{text}", spanned)
        parsed = read(old.opendocument("text", rows))
        assert texts(parsed, "table") == ["item | price | \npaper | 3 | 4\npaper | 5 | 6"]
        (block,) = parsed.blocks
        assert block.cells is not None
        places = {tuple(map(int, cell[:4])) for cell in block.cells}
        assert {(0, 1, 1, 2), (1, 0, 2, 1)} <= places

    def test_rich_text(self) -> None:
        parsed = read(old.rich_text(), "a.rtf")
        assert (parsed.format, parsed.title) == ("rtf", "The lease")
        assert parsed.metadata == {"author": "Ada Brook", "date": "2024-03-01"}
        assert headings(parsed) == [(1, "Rent"), (2, "1.1 Payment"), (1, "End")]
        assert [page.label for page in parsed.pages] == ["Rent", "End"]
        assert texts(parsed, "text") == [
            "The rent is 900 €, not — Привет a link.",
            "Footnote 1: Without heating.",
            "It ends in June.",
            "Words in a box.",
        ]
        assert texts(parsed, "list") == ["- by transfer\n  - in euros"]
        assert texts(parsed, "table") == ["month | rent\nMay | 900\nMay | 950\nin euros each | "]

    @pytest.mark.parametrize(
        ("data", "text"),
        [
            pytest.param(rb"{\rtf1\ansi\u-10179?\u-8704?!}", "😀!", id="surrogates"),
            pytest.param(rb"{\rtf1\ansi\uc2\u233ab x\uc0\u233 y}", "é xéy", id="replacements"),
            pytest.param(rb"{\rtf1\ansi{\fonttbl{\f0\fcharset128 M;}}\f0\'93\'8c\'8b\'9e}", "東京", id="two_bytes"),
            pytest.param(rb"{\rtf1\mac caf\'8e}", "café", id="mac"),
            pytest.param(rb"{\rtf1{\upr{a}{\*\ud{\u945?}}}}", "a", id="said_twice"),
            pytest.param(rb"{\rtf1\bin3 }}} after}", "after", id="binary"),
            pytest.param(b"{\\rtf1 one\\\ntwo}", "one\n\ntwo", id="line_ends"),
            pytest.param(rb"{\rtf1{\*\htmltag <b>}\htmlrtf{\b\htmlrtf0 bold\htmlrtf}\htmlrtf0}", "bold", id="html"),
            pytest.param(rb"   {\rtf1 led by blanks}", "led by blanks", id="blanks"),
        ],
    )
    def test_characters_of_rich_text(self, data: bytes, text: str) -> None:
        assert read(data).text == text

    def test_slides_of_opendocument(self) -> None:
        parsed = read(old.open_show(), "a.odp")
        assert (parsed.format, parsed.title) == ("odp", "Plan")
        assert [page.label for page in parsed.pages] == ["Slide 1: Plan", "Slide 2"]
        assert parsed.text == (
            "Plan\n\n- Buy paper\n- Buy ink\n\nNotes: Mention the budget.\n\n"
            "item | price\npaper | 3\n\nleft box\n\nright box"
        )

    def test_notebook(self) -> None:
        parsed = read(old.notebook(), "")
        assert (parsed.format, parsed.title, parsed.metadata) == ("ipynb", "Cities", {"author": "Ada Brook"})
        assert [block.kind for block in parsed.blocks] == ["heading", "text", "code", "table", "code", "text"]
        assert texts(parsed, "table") == ["city | people\nOslo | 709037"]
        assert texts(parsed, "code") == ["cities", "read 1 row"]

    def test_json_about_notebooks_is_text(self) -> None:
        assert read(b'{"cell_type": "code", "cells": ["A1", "B2"]}', "a.json").format == "text"


class TestMails:
    def test_outlook_message(self) -> None:
        parsed = read(old.outlook_message(), "a.msg")
        assert (parsed.format, parsed.title) == ("msg", "Grüße aus Oslo")
        assert parsed.text == (
            "Subject: Grüße aus Oslo\nFrom: Ada <ada@example.org>\nTo: Bob <bob@example.org>\nCc: carol@example.org\n"
            "Date: Fri, 16 Dec 2022 22:04:16 +0000\n\nDear Bob,\n\nthe contract ends in May."
        )
        assert parsed.metadata["date"] == "2022-12-16T22:04:16+00:00"
        assert [child.name for child in parsed.children] == ["prices.csv", "Old news.eml"]
        assert parsed.children[0].data == b"name,price\npaper,3\n" * 300
        inner = read(parsed.children[1].data, "Old news.eml")
        assert inner.text == "Subject: Old news\nFrom: Carol <carol@example.org>\n\nForwarded text."

    def test_outlook_body_in_rich_text_only(self) -> None:
        """The example of [MS-OXRTFCP] 4.1: some of it refers to what was said before."""
        packed = bytes.fromhex(
            "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"
        )
        body = {**old.properties(32, p0037="Hello"), "__substg1.0_10090102": packed}
        assert read(old.compound(body)).text == "Subject: Hello\n\nhello world"

    def test_encrypted_outlook_message_says_so(self) -> None:
        message = {**old.properties(32, p0037="Secret", p001A="IPM.Note.SMIME", p1000="never")}
        parsed = read(old.compound(message))
        assert (parsed.text, parsed.children) == ("Subject: Secret", ())
        assert parsed.notes == ("the email is encrypted; only its headers are readable",)

    def test_mailbox_keeps_lines_that_begin_with_from(self) -> None:
        parsed = read(old.mail_folder(), "box")
        assert (parsed.format, parsed.text) == ("mbox", "- One\n- Two")
        assert "\n\nFrom Oslo we went on." in read(parsed.children[0].data, "One.eml").text


class TestArchives:
    def test_files_become_children_by_their_paths(self) -> None:
        data = samples.zipped({
            "../report.txt": "Sales rose.", "a/b/prices.csv": "x", "C:\\d.txt": "y", "a/": "", "__MACOSX/._a": "z",
            ".hidden": "h", "~$lock.docx": "l",
        })  # fmt: skip
        parsed = read(data, "a.zip")
        assert [child.name for child in parsed.children] == ["report.txt", "a/b/prices.csv", "C:/d.txt"]
        assert parsed.text == "- report.txt\n- a/b/prices.csv\n- C:/d.txt"
        assert parsed.children[0].data == b"Sales rose."

    def test_names_that_differ_in_case_only_are_two_files(self) -> None:
        parsed = read(samples.zipped({"A.txt": "large", "a.txt": "small"}))
        assert [child.data for child in parsed.children] == [b"large", b"small"]

    def test_links_are_not_followed(self) -> None:
        link = zipfile.ZipInfo("link.txt")
        link.external_attr = 0o120777 << 16
        data = samples.zipped({"a.txt": "text"})
        path = Path(os.environ.get("TMPDIR", "/tmp")) / f"refdesk-links-{os.getpid()}.zip"
        try:
            path.write_bytes(data)
            with zipfile.ZipFile(path, "a") as archive:
                archive.writestr(link, "/etc/passwd")
            assert [child.name for child in read(path.read_bytes()).children] == ["a.txt"]
        finally:
            path.unlink()

    def test_nothing_in_it_is_empty(self) -> None:
        with pytest.raises(EmptyDocument, match="no files in this ZIP"):
            read(samples.zipped({"folder/": ""}))

    def test_bombs_are_refused(self) -> None:
        with pytest.raises(HostileFile, match="zip bomb"):
            read(samples.zipped({"a.txt": b"\0" * 60_000_000}))
        with pytest.raises(HostileFile, match="over the limit of 1 MB"):
            read(samples.zipped({"a.txt": os.urandom(2_000_000)}), options=ParseOptions(max_unpacked_bytes=1_000_000))

    def test_other_methods_are_refused(self) -> None:
        with pytest.raises(BrokenFile, match="packed with a method"):
            read(samples.zipped({"a.txt": "text"}, zipfile.ZIP_LZMA))

    def test_entities_in_files_are_for_their_own_parsers(self) -> None:
        (child,) = read(samples.zipped({"a.xml": '<!DOCTYPE x [<!ENTITY a "b">]><x>&a;</x>'})).children
        assert "&a;" in read(child.data, child.name).text

    def test_locked_archive_opens_with_its_password(self) -> None:
        data = old.locked_archive(b"Sales rose.", b"open sesame")
        with pytest.raises(NeedsPassword, match="this archive is encrypted"):
            read(data)
        with pytest.raises(NeedsPassword, match="the password is not right"):
            read(data, options=ParseOptions(password="wrong"))
        (child,) = read(data, options=ParseOptions(password="open sesame")).children
        assert child.data == b"Sales rose."


class TestEncrypted:
    @pytest.mark.parametrize(
        "data",
        [
            pytest.param(old.compound({"EncryptionInfo": b"x", "EncryptedPackage": b"y"}), id="office"),
            pytest.param(old.opendocument("text", "", manifest="<encryption-data/>"), id="opendocument"),
            pytest.param(old.compound({"WordDocument": bytes(10) + b"\x00\x01" + bytes(20)}), id="word"),
            pytest.param(
                old.compound({"PowerPoint Document": b"x", "Current User": bytes(12) + b"\xdf\xc4\xd1\xf3"}),
                id="slides",
            ),
        ],
    )
    def test_needs_a_password(self, data: bytes) -> None:
        with pytest.raises(NeedsPassword, match="encrypted with a password") as caught:
            read(data)
        assert "without a password" in caught.value.hint


# --- LibreOffice -----------------------------------------------------------------------------------------------------

needs_libreoffice = pytest.mark.skipif(libreoffice.find_program() is None, reason="LibreOffice is not installed")


def script(folder: Path, text: str) -> str:
    """A program that stands in for LibreOffice."""
    path = folder / "soffice"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


class TestLibreOffice:
    def test_without_it_the_refusal_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(libreoffice, "PLACES", ("/nowhere",))
        with pytest.raises(UnsupportedFormat, match="only where LibreOffice is installed") as caught:
            read(old.compound({"WordDocument": bytes(2000)}), "a.doc")
        assert caught.value.hint == "install LibreOffice, or save it as DOCX first"

    @needs_libreoffice
    def test_word_97_is_read_as_the_docx_it_was_made_of(self) -> None:
        made = libreoffice.converted(samples.word_document(), "docx", "doc", "a test")
        then, now = read(made, "a.doc"), read(samples.word_document(), "a.docx")
        assert (then.format, then.text) == ("doc", now.text)
        assert [(block.kind, block.level) for block in then.blocks] == [
            (block.kind, block.level) for block in now.blocks
        ]

    @needs_libreoffice
    def test_slides_of_97_are_read(self) -> None:
        parsed = read(libreoffice.converted(samples.presentation(), "pptx", "ppt", "a test"), "a.ppt")
        assert parsed.format == "ppt"
        assert [page.label for page in parsed.pages] == ["Slide 1: Plan", "Slide 2: Costs", "Slide 3"]
        assert texts(parsed, "table") == ["item | price\npaper | 3", " | Sales\nEast | 19.2\nWest | 21.4"]

    @needs_libreoffice
    def test_what_it_cannot_read_is_broken(self) -> None:
        with pytest.raises(BrokenFile, match="LibreOffice could not read"):
            read(old.compound({"WordDocument": bytes(5000)}), "a.doc")

    def test_it_is_ended_with_its_children_after_its_time(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(libreoffice, "TIME_LIMIT_S", 0.5)
        program = script(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; wait")
        with pytest.raises(ParseTimeout, match="LibreOffice had not finished"):
            libreoffice.converted(b"x", "doc", "docx", "a test", program)
        assert is_gone(int((tmp_path / "child").read_text()))

    def test_it_ends_with_whoever_waits_for_it(self, tmp_path: Path) -> None:
        program = script(tmp_path, f"sleep 600 & echo $! > {tmp_path}/child; echo $HOME > {tmp_path}/home; wait")
        code = f"from refdesk.parsers import libreoffice; libreoffice.converted(b'x', 'doc', 'docx', 'a', {program!r})"
        waiting = subprocess.Popen([sys.executable, "-c", code])
        until = time.monotonic() + PATIENCE_S
        while not (tmp_path / "home").exists() or not (tmp_path / "home").read_text().strip():
            assert time.monotonic() < until
            time.sleep(0.02)
        waiting.send_signal(signal.SIGKILL)
        waiting.wait()
        assert is_gone(int((tmp_path / "child").read_text()))
        assert not (Path((tmp_path / "home").read_text().strip()) / "document.doc").exists()


def is_gone(process: int) -> bool:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        state = Path(f"/proc/{process}/stat")
        try:
            os.kill(process, 0)
            if state.exists() and state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True  # ended, and not yet missed by anybody
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False
