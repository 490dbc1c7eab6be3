"""The example documents are what `make_documents.py` makes, and each question's proof stands where it is said to stand.

The documents are read here without Refdesk's parsers, so that these can be judged by the same questions.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default as modern
from pathlib import Path
from typing import Any

import docx
import numpy as np
import pypdfium2
import pytest
from docx.oxml.ns import qn
from lxml import etree, html
from openpyxl import load_workbook
from openpyxl.cell.cell import Cell
from pptx import Presentation

EXAMPLES = Path(__file__).parent.parent / "examples"
DOCUMENTS = EXAMPLES / "documents"
QUESTIONS: list[dict[str, Any]] = json.loads((EXAMPLES / "questions.json").read_text(encoding="utf-8"))

SCAN = "harbour-authority-letter.pdf"
# Their images are drawn and packed as JPEG by Pillow, whose releases differ in a pixel here and there.
WITH_IMAGES = {SCAN, "tg4-drift-report.pdf"}
MOST_DIFFERENCE = 2.0  # grey levels of 255, mean over a page
MOST_BYTES = 2_500_000

Pages = list[list[str]]  # the lines (paragraphs, table rows) of each page


def proofs() -> list[Any]:
    """One case for each place a question points at: (document, page, quote or cells)."""
    cases = []
    for entry in QUESTIONS:
        if "documents" in entry:
            places = list(zip(entry["documents"], entry["pages"], entry["quotes"], strict=True))
        elif entry["document"]:
            places = [(entry["document"], entry["page"], entry.get("quote") or entry["cells"])]
        else:
            continue
        cases += [pytest.param(*place, id=f"{place[0]}:{place[1]}:{entry['question'][:40]}") for place in places]
    return cases


@pytest.fixture(scope="module")
def remade(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    subprocess.run([sys.executable, EXAMPLES / "make_documents.py", folder], check=True, capture_output=True)
    return folder


@pytest.mark.parametrize(("document", "page", "proof"), proofs())
def test_proof_stands_on_the_page_named(document: str, page: int, proof: str | list[str]) -> None:
    lines = read_pages(document)[page - 1]
    if isinstance(proof, str):
        assert fold(proof) in fold(" ".join(lines))
    else:
        in_order = re.compile(r".*\b ?".join(re.escape(fold(cell)) for cell in proof))
        assert any(in_order.search(fold(line)) for line in lines), f"no row holds {proof}"


@pytest.mark.parametrize("name", sorted(path.name for path in DOCUMENTS.iterdir()))
def test_document_is_made_again(name: str, remade: Path) -> None:
    before, after = DOCUMENTS / name, remade / name
    if name not in WITH_IMAGES:
        assert after.read_bytes() == before.read_bytes()
        return
    old, new = pypdfium2.PdfDocument(before), pypdfium2.PdfDocument(after)
    assert len(old) == len(new)
    for old_page, new_page in zip(old, new, strict=True):
        assert pdf_lines(old_page) == pdf_lines(new_page)
        old_pixels, new_pixels = (page.render(scale=0.5).to_numpy().astype(int) for page in (old_page, new_page))
        assert np.abs(old_pixels - new_pixels).mean() < MOST_DIFFERENCE


def test_documents_are_all_made_and_small(remade: Path) -> None:
    names = {path.name for path in DOCUMENTS.iterdir()}
    assert names == {path.name for path in remade.iterdir()}
    assert sum(path.stat().st_size for path in DOCUMENTS.iterdir()) < MOST_BYTES


def test_questions_cover_every_document() -> None:
    asked = {entry.get("document") for entry in QUESTIONS} | {
        name for q in QUESTIONS for name in q.get("documents", ())
    }
    assert asked >= {path.name for path in DOCUMENTS.iterdir()}


def test_questions_have_one_shape() -> None:
    assert 30 <= len(QUESTIONS) <= 40
    assert len({entry["question"] for entry in QUESTIONS}) == len(QUESTIONS)
    conflicts = [entry for entry in QUESTIONS if "documents" in entry]
    unanswerable = [entry for entry in QUESTIONS if entry.get("document", "") is None]
    assert len(conflicts) == 2
    assert len(unanswerable) == 4
    for entry in unanswerable:
        assert set(entry) == {"question", "document", "page", "answer"}
        assert entry["answer"] is None
    for entry in QUESTIONS:
        if entry not in unanswerable:
            assert entry["answer"]
            assert sum(key in entry for key in ("quote", "cells", "quotes")) == 1


def test_scan_has_no_text_layer() -> None:
    assert [pdf_lines(page) for page in pypdfium2.PdfDocument(DOCUMENTS / SCAN)] == [[]]


def test_mooring_sheet_is_turned_and_cropped() -> None:
    first, second, third = pypdfium2.PdfDocument(DOCUMENTS / "wb7-mooring-sheet.pdf")
    assert (first.get_rotation(), second.get_rotation(), third.get_rotation()) == (0, 90, 0)
    assert second.get_width() > second.get_height()
    assert third.get_cropbox() != third.get_mediabox()


def test_report_breaks_a_word_at_a_line_end() -> None:
    text = pypdfium2.PdfDocument(DOCUMENTS / "tg4-drift-report.pdf")[0].get_textpage().get_text_range()
    assert "unpro\ufffetected" in text  # how pdfium reports a hyphen at the end of a line


def fold(text: str) -> str:
    return " ".join(text.replace("\ufffe", "").split())


def read_pages(name: str) -> Pages:
    path = DOCUMENTS / name
    if not path.exists():
        return pdf_pages(attachment(name))
    match path.suffix:
        case ".pdf":
            # Nothing but OCR can read a scan; what was drawn is known.
            source = (EXAMPLES / "source" / "harbour-letter.txt").read_text(encoding="utf-8")
            return [source.splitlines()] if name == SCAN else pdf_pages(path.read_bytes())
        case ".docx":
            return docx_pages(path)
        case ".pptx":
            return [list(slide_lines(slide)) for slide in Presentation(str(path)).slides]
        case ".xlsx":
            return [[" ".join(map(shown, row)) for row in sheet.iter_rows()] for sheet in load_workbook(path)]
        case ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                return [[" ".join(row) for row in csv.reader(file)]]
        case ".html":
            return [html_lines(path.read_bytes())]
        case ".epub":
            return epub_pages(path)
        case ".eml":
            body = mail(path).get_body(("plain",))
            assert body is not None
            return [[body.get_content()]]
        case _:
            text = path.read_text(encoding="latin-1" if name.startswith("protokoll") else "utf-8")
            sections = re.split(r"\n(?=\d\. \w+\n)", text) if path.suffix == ".txt" else [text]
            return [section.splitlines() for section in sections]


def pdf_pages(data: bytes) -> Pages:
    return [pdf_lines(page) for page in pypdfium2.PdfDocument(data)]


def pdf_lines(page: pypdfium2.PdfPage) -> list[str]:
    return [line for line in page.get_textpage().get_text_range().splitlines() if line.strip()]


def mail(path: Path) -> EmailMessage:
    message = message_from_bytes(path.read_bytes(), policy=modern)
    assert isinstance(message, EmailMessage)
    return message


def attachment(name: str) -> bytes:
    for part in mail(DOCUMENTS / "warranty-enquiry.eml").iter_attachments():
        if part.get_filename() == name:
            content = part.get_content()
            assert isinstance(content, bytes)
            return content
    raise AssertionError(f"{name} is neither a document nor attached to one")


def docx_pages(path: Path) -> Pages:
    """One page for each heading of level 1; a footnote stands where it is referred to."""
    document = docx.Document(str(path))
    with zipfile.ZipFile(path) as archive:
        notes = etree.fromstring(archive.read("word/footnotes.xml"))
    footnotes = {note.get(qn("w:id")): joined(note) for note in notes}
    pages: Pages = []
    for element in document.element.body.iterchildren():
        style = element.find(f".//{qn('w:pStyle')}")
        if style is not None and style.get(qn("w:val")) == "Heading1":
            pages.append([])
        if not pages:
            continue  # the title
        rows = list(element.iter(qn("w:tr")))
        pages[-1] += [joined(part) for part in rows or [element]]
        pages[-1] += [footnotes[mark.get(qn("w:id"))] for mark in element.iter(qn("w:footnoteReference"))]
    return pages


def joined(element: Any) -> str:
    return " ".join("".join(text.text for text in part.iter(qn("w:t"))) for part in element.iter(qn("w:p")))


def slide_lines(slide: Any) -> Iterator[str]:
    for shape in slide.shapes:
        if shape.has_text_frame:
            yield shape.text_frame.text
        if shape.has_table:
            yield from (" ".join(cell.text for cell in row.cells) for row in shape.table.rows)
    if slide.has_notes_slide:
        yield slide.notes_slide.notes_text_frame.text


def shown(cell: Cell) -> str:
    """A cell as a spreadsheet program shows it, for the formats used here."""
    value = cell.value
    if isinstance(value, datetime):
        return value.strftime("%d.%m.%Y")
    if "€" in cell.number_format:
        return f"{value:,} €"
    if cell.number_format.endswith("%"):
        return f"{value:.1%}"
    return "" if value is None else str(value)


def html_lines(data: bytes) -> list[str]:
    main = html.fromstring(data.decode()).find(".//main")
    assert main is not None
    return [(" " if element.tag == "tr" else "").join(map(str, element.itertext())) for element in main.iter()]


def epub_pages(path: Path) -> Pages:
    """One page for each item of the spine."""
    opf = "{http://www.idpf.org/2007/opf}"
    with zipfile.ZipFile(path) as archive:
        package = etree.fromstring(archive.read("OEBPS/book.opf"))
        files = {item.get("id"): item.get("href") for item in package.iter(f"{opf}item")}
        spine = [files[reference.get("idref")] for reference in package.iter(f"{opf}itemref")]
        chapters = [etree.parse(io.BytesIO(archive.read(f"OEBPS/{file}"))) for file in spine]
    return [[str(text) for text in chapter.getroot().itertext()] for chapter in chapters]
