"""PDF -> text, pages, blocks and the place of every word; a page is closed before the next is opened."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from string import ascii_lowercase
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium
from pypdfium2 import PdfDocument, PdfiumError

from refdesk.errors import BrokenFile, DocumentError, EmptyDocument, NeedsPassword, TooLarge
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.pdf_columns import reading_order
from refdesk.parsers.pdf_figures import add_form_fields, attach_figures, page_from_ocr
from refdesk.parsers.pdf_layout import PageDraft, assign_levels, body_size, compose
from refdesk.parsers.pdf_page import Drawn, Frame, PageText, frame_of, no_text, read_page, scan_objects
from refdesk.parsers.pdf_tables import Item, find_tables, ruled_tables
from refdesk.parsers.pdf_text import drop_furniture, page_values, write
from refdesk.types import Block, Parsed

# Pages that were read become one document: running lines out, columns, blocks, headings, text.

# What US filings print larger than the company's name.
COVER = re.compile(r"^(united states|securities and exchange|washington, d|form \d)", re.I)
MOSTLY = 0.7  # of the letters


def put_together(
    pages: list[PageDraft], format: str, metadata: dict[str, str], title: str, notes: tuple[str, ...]
) -> Parsed:
    """Pages that were read become one document: shared by PDFs and images."""
    drop_furniture(pages)
    _forget_typewriter(pages)
    for page in pages:
        page.regions = page_items(page)
    body = body_size(pages)
    drafts = compose(pages, body)
    headings = [draft for draft in drafts if draft.kind == "heading"]
    texts = [" ".join(line.text for line in draft.lines) for draft in headings]
    levels = assign_levels([(text, draft.first) for text, draft in zip(texts, headings, strict=True)])
    for draft, level in zip(headings, levels, strict=True):
        draft.level = level
    text, blocks, writer, figures = write(drafts, pages)
    return Parsed(
        text,
        page_values(pages, writer),
        blocks,
        format,
        title=title or _first_title(text, blocks, page_end=writer.page_starts.get(2, len(text))),
        metadata=metadata,
        geometry=writer.geometry(),
        figures=figures,
        notes=notes,
    )


def _forget_typewriter(pages: list[PageDraft]) -> None:
    """Where nearly everything is set in one width, that says nothing: it is a typescript, not code."""
    runs = [run for page in pages for group in page.content.runs for run in group]
    letters = sum(run.letters for run in runs)
    if sum(run.letters for run in runs if run.mono) > MOSTLY * letters:
        for run in runs:
            run.mono = False


def page_items(page: PageDraft) -> list[list[Item]]:
    """The columns of a page as lines and tables."""
    regions: list[list[Item]] = []
    words = page.content.words
    for turn, runs in zip(page.content.turns, page.content.runs, strict=True):
        lines = page.frame.upright(page.rulings, turn) if len(page.rulings) else page.rulings
        _, flow = ruled_tables(lines, runs, words)
        regions += [find_tables(region, words) for region in reading_order(flow)]
    for region in regions:
        for item in region:
            item.page = page.number
    return regions


def _first_title(text: str, blocks: tuple[Block, ...], page_end: int) -> str:
    """The first of the largest headings on page 1."""
    headings = [block for block in blocks if block.kind == "heading" and block.start < page_end]
    headings = [block for block in headings if not COVER.match(text[block.start : block.end])]
    if not headings:
        return ""
    best = min(headings, key=lambda block: (block.level, block.start))
    return " ".join(text[best.start : best.end].split())[:300]


# Can the text layer of a PDF page be text? A font may number its glyphs without saying which letters they show.

FEW_CHARACTERS = 12  # a stamp or page number on a scan is no text layer
UNREADABLE = 0.4  # share of characters without meaning: the text layer is garbage
FEW_LETTERS = 200  # Latin ones; fewer may be the codes of a parts list
VOWELS = "aeiouy"
LEAST_VOWELS, MOST_VOWELS = 0.2, 0.6  # share of Latin letters


def has_no_letters(content: PageText) -> bool:
    """Most characters are control codes, glyphs without Unicode or private ones."""
    return content.unreadable >= FEW_CHARACTERS and content.unreadable > UNREADABLE * content.characters


def has_no_language(content: PageText) -> bool:
    """Letters, but not those of a language: fonts that shift the alphabet leave too few vowels, or too many."""
    text = "".join(content.words.text).lower()
    if not _is_odd(text):
        return False
    return _is_odd(unicodedata.normalize("NFD", text))  # ế and ồ are vowels too


def _is_odd(text: str) -> bool:
    letters = sum(map(text.count, ascii_lowercase))
    if letters < FEW_LETTERS or letters < len(text) / 2:
        return False
    return not LEAST_VOWELS * letters <= sum(map(text.count, VOWELS)) <= MOST_VOWELS * letters


SCAN_COVER = 0.6  # of the page: an image that large on a page without text is a scan
PICTURE_COVER = 0.02  # of a page without any text
OUTLINES = 40  # shapes on a page without any text
MAX_OCR_SIDE = 4000  # pixels
OCR_HINT = "install refdesk[ocr] to read them"
_BAD_TITLE = re.compile(
    r"^(microsoft (word|powerpoint|excel) - |untitled|.*\.(docx?|pptx?|xlsx?|pdf|tex|dvi|indd|qxd|html?)$"
    r"|\(?anonymous\)?$|document\d*$|[\W\d_]*$)",  # the last: an accession number, "0001018724-18-000005"
    re.I,
)
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?")


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Reads a PDF: `parse(data, ParseOptions()).text`."""
    with _open(data, options) as document:
        count = len(document)
        if count == 0:
            raise EmptyDocument("this PDF has no pages")
        if count > options.max_pages:
            raise TooLarge(f"this PDF has {count:,} pages; the limit is {options.max_pages:,}")
        reader = _Reader(document, data, options)
        pages = [reader.read(index) for index in range(count)]
        metadata = _metadata(document)
        title = _metadata_title(document)
    if not any(page.content.runs for page in pages):
        if reader.scans:
            raise EmptyDocument("this PDF holds scanned pages without text", hint=OCR_HINT)
        if reader.unreadable:
            raise EmptyDocument("this PDF holds text whose letters the file does not name", hint=OCR_HINT)
        if reader.broken == count:
            raise BrokenFile("no page of this PDF can be read")
        raise EmptyDocument("this PDF holds no text")
    parsed = put_together(pages, "pdf", metadata, title, reader.notes(count))
    if len(parsed.text) > options.max_characters:
        raise TooLarge(f"this PDF holds {len(parsed.text):,} characters; the limit is {options.max_characters:,}")
    return parsed


@contextmanager
def _open(data: bytes, options: ParseOptions) -> Iterator[PdfDocument]:
    try:
        document = PdfDocument(data, password=options.password)
    except PdfiumError as error:
        if getattr(error, "err_code", None) == pdfium.FPDF_ERR_PASSWORD:
            if options.password:
                raise NeedsPassword("the password does not open this PDF") from error
            raise NeedsPassword("this PDF needs a password") from error
        if getattr(error, "err_code", None) == pdfium.FPDF_ERR_SECURITY:
            raise NeedsPassword("this PDF is protected in a way that is not supported") from error
        raise BrokenFile("this is not a complete PDF: it cannot be opened") from error
    try:
        with suppress(PdfiumError):  # a form that cannot be opened is read as the page it is printed on
            document.init_forms()  # before any page is opened; does nothing where there is no form
        yield document
    finally:
        document.close()


class _Reader:
    """Reads pages one by one and counts what went wrong."""

    def __init__(self, document: PdfDocument, data: bytes, options: ParseOptions) -> None:
        self._document = document
        self._options = options
        self._count = len(document)
        self._figure_bytes = 0
        self._units = _user_units(document) if b"/UserUnit" in data else {}
        self.scans = 0
        self.unreadable = 0
        self.broken = 0

    def read(self, index: int) -> PageDraft:
        try:
            draft = self._read(index)
        except (DocumentError, MemoryError):
            raise
        except Exception:  # whatever one page does, the others are read; the notes say so
            self.broken += 1
            draft = PageDraft(index + 1, 0.0, 0.0, no_text(), Frame(0, 0, 0, 0, 0), np.empty((0, 4), np.float32))
        self._options.progress(index + 1, self._count)
        return draft

    def _read(self, index: int) -> PageDraft:
        page = self._document[index]
        try:
            frame = frame_of(page)
            text_page = page.get_textpage()
            try:
                content = read_page(text_page, frame)
            finally:
                text_page.close()
            drawn = scan_objects(page, frame)
            ocr = False
            form = self._document.formenv
            if form is not None:
                content = add_form_fields(content, page, form, frame)
            if needs_ocr(content, drawn, frame):
                if self._options.ocr is None:
                    unreadable = content.characters >= FEW_CHARACTERS or has_no_letters(content)
                    self.scans += not unreadable
                    self.unreadable += unreadable
                    content = PageText(content.words) if has_no_letters(content) else content
                else:
                    content, ocr = self._recognise(page, frame), True
            if content.turns[:1] == [0] and not ocr:
                self._figure_bytes += attach_figures(
                    page, frame, drawn, content.runs[0], content.words, self._figure_bytes
                )
            unit = self._units.get(index, 1.0)
            label = _label(self._document, index)
            width, height = frame.width * unit, frame.height * unit
            return PageDraft(index + 1, width, height, content, frame, drawn.lines, label, ocr)
        finally:
            page.close()

    def _recognise(self, page: Any, frame: Frame) -> PageText:
        engine = self._options.ocr
        assert engine is not None
        # A poster is read at a lower resolution rather than not at all.
        scale = min(self._options.ocr_dpi / 72, MAX_OCR_SIDE / max(frame.width, frame.height))
        bitmap = page.render(scale=scale, rev_byteorder=True, force_bitmap_format=pdfium.FPDFBitmap_BGR)
        try:
            image = np.array(bitmap.to_numpy(), np.uint8)
        finally:
            bitmap.close()
        return page_from_ocr(engine(image), image.shape[1], image.shape[0], frame.width / image.shape[1])

    def notes(self, count: int) -> tuple[str, ...]:
        notes = []
        if self.scans:
            are = "page is a scan" if self.scans == 1 else "pages are scans"
            notes.append(f"{self.scans} of {count} {are} without text; {OCR_HINT}")
        if self.unreadable:
            have = "page has" if self.unreadable == 1 else "pages have"
            notes.append(f"{self.unreadable} of {count} {have} text whose letters the file does not name; {OCR_HINT}")
        if self.broken:
            notes.append(f"{self.broken} of {count} pages could not be read")
        return tuple(notes)


def needs_ocr(content: PageText, drawn: Drawn, frame: Frame) -> bool:
    """No usable text layer, and something to look at."""
    if has_no_letters(content) or has_no_language(content):
        return True
    if content.characters >= FEW_CHARACTERS:
        return False
    area = frame.width * frame.height
    if area <= 0:
        return False
    images = drawn.images
    width = np.clip(images[:, 2], 0, frame.width) - np.clip(images[:, 0], 0, frame.width)
    height = np.clip(images[:, 3], 0, frame.height) - np.clip(images[:, 1], 0, frame.height)
    cover = float((width * height).sum())
    if content.characters == 0:  # a small picture may hold a table, and letters may be drawn as outlines
        return cover > PICTURE_COVER * area or len(drawn.shapes) >= OUTLINES
    return cover > SCAN_COVER * area


def _label(document: PdfDocument, index: int) -> str:
    label = str(document.get_page_label(index) or "").strip()
    return "" if label == str(index + 1) else label


def _metadata_title(document: PdfDocument) -> str:
    title = " ".join(str(document.get_metadata_value("Title") or "").replace("\x00", "").split())
    return "" if _BAD_TITLE.match(title) or COVER.match(title) or len(title) > 300 else title


def _metadata(document: PdfDocument) -> dict[str, str]:
    found = {}
    for key, name in (("Author", "author"), ("Subject", "subject")):
        value = " ".join(str(document.get_metadata_value(key) or "").replace("\x00", "").split())
        if value:
            found[name] = value[:500]
    date = _DATE.match(str(document.get_metadata_value("CreationDate") or ""))
    if date and 1 <= int(date.group(2) or 1) <= 12 and 1 <= int(date.group(3) or 1) <= 31:
        found["created"] = f"{date.group(1)}-{date.group(2) or '01'}-{date.group(3) or '01'}"
    return found


def _user_units(document: Any) -> dict[int, float]:
    """UserUnit by page, which pdfium does not tell; it is read from what pdfium saves, which has no password."""
    from pypdf import PdfReader

    try:
        document.save(saved := BytesIO(), flags=pdfium.FPDF_REMOVE_SECURITY)
        pages = PdfReader(saved).pages
        return {index: unit for index, page in enumerate(pages) if (unit := float(page.user_unit)) > 0}
    except Exception:
        return {}
