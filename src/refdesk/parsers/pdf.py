"""PDF to text, pages, blocks and word positions, one page at a time; images the same way, by OCR."""

from __future__ import annotations

import ctypes
import io
import re
import textwrap
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import numpy as np
import pypdfium2.raw as pdfium
from pypdfium2 import PdfDocument, PdfiumError

from refdesk.errors import BrokenFile, DocumentError, EmptyDocument, HostileFile, NeedsPassword, TooLarge
from refdesk.parsers.build import ParseOptions, one_line
from refdesk.parsers.pdf_blocks import COVER, put_together
from refdesk.parsers.pdf_letters import clean_word
from refdesk.parsers.pdf_page import (
    CJK,
    Box4,
    Drawn,
    Floats,
    Frame,
    PageContent,
    PageDraft,
    WordRun,
    Words,
    frame_of,
    no_text,
    read_page,
    scan_objects,
    text_of,
)
from refdesk.types import FIGURE_PLACE, OcrEngine, OcrLine, Parsed

if TYPE_CHECKING:
    from PIL import Image

FEW_CHARACTERS = 12  # a stamp or page number on a scan is no text layer
UNREADABLE = 0.4  # share of characters without meaning: the text layer is garbage
FEW_LETTERS = 200  # Latin ones; fewer may be the codes of a parts list
VOWELS = "aeiouy"
LEAST_VOWELS, MOST_VOWELS = 0.2, 0.6  # share of Latin letters
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
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?")

# "Figure 3: …", "Fig. 2 The wall", not "Figure 3 shows".
CAPTION = re.compile(
    r"^(?i:figure|fig\.?|abbildung|abb\.|figura|chart|図|图)\s*(\d{1,3}|[A-Z]{1,2}\d{0,2}|[IVX]+)([.\-]\d+)*[a-z]?"
    r"(\s*[:.|–—\-)]|\s*$|\s+[^\Wa-z_])"
)

MIN_SHAPES = 6  # lines and curves: fewer are rules and boxes around text
MAX_SHAPES = 5000
BLANK = 24.0  # points without a shape: the drawing ends
MARGIN = 8.0  # points around a drawing, for the labels at its edge
MAX_WIDTH = 1200  # pixels of a crop
MAX_HEIGHT = 1800
MAX_BYTES = 64 << 20  # of all crops of one document
MIN_SIDE = 40.0  # points: smaller pictures are icons
NEAR = 40.0  # points between a picture and its caption
SCALE = 2.0  # 144 dpi

PIECES = re.compile(rf"[{CJK}]|[^\s{CJK}]+")  # of a line that OCR read
LINE_HEIGHT = 1.25  # × font size: OCR boxes reach from ascender to descender and a little more

CHECKED, UNCHECKED = "☑", "☐"
MAX_FIELDS = 5000  # of one page
MAX_VALUE = 100_000  # characters of one field
SIZE = 10.0  # points: a form's usual size, where the field has room for it
LINE = 1.2  # × size: the distance of base lines
LETTER = 0.5  # × size: the mean width of a letter in Helvetica
PASSWORD = 1 << 13  # field flag: never to be shown
MULTILINE = 1 << 12
BOXES = (pdfium.FPDF_FORMFIELD_CHECKBOX, pdfium.FPDF_FORMFIELD_RADIOBUTTON)
VALUES = (pdfium.FPDF_FORMFIELD_TEXTFIELD, pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX)
INVISIBLE = pdfium.FPDF_ANNOT_FLAG_HIDDEN | pdfium.FPDF_ANNOT_FLAG_NOVIEW


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Reads a PDF: `parse(data, ParseOptions()).text`."""
    with _open(data, options) as document:
        count = len(document)
        if count == 0:
            raise EmptyDocument("this PDF has no pages")
        if count > options.max_pages:
            raise TooLarge(f"this PDF has {count:,} pages; the limit is {options.max_pages:,}")
        reader = _PageReader(document, options)
        pages = [reader.read(index) for index in range(count)]
        title, metadata = _metadata(document)
    if not any(page.content.runs for page in pages):
        if reader.scans:
            raise EmptyDocument("this PDF has only scanned pages without text", hint=OCR_HINT)
        if reader.unreadable:
            raise EmptyDocument("this PDF has text without character codes", hint=OCR_HINT)
        if reader.broken == count:
            raise BrokenFile("no page of this PDF can be read")
        raise EmptyDocument("this PDF contains no text")
    parsed = put_together(pages, "pdf", metadata, title, reader.notes(count))
    if len(parsed.text) > options.max_characters:
        raise TooLarge(f"this PDF has {len(parsed.text):,} characters; the limit is {options.max_characters:,}")
    return parsed


@contextmanager
def _open(data: bytes, options: ParseOptions) -> Iterator[PdfDocument]:
    try:
        document = PdfDocument(data, password=options.password)
    except PdfiumError as error:
        if getattr(error, "err_code", None) == pdfium.FPDF_ERR_PASSWORD:
            if options.password:
                raise NeedsPassword("the password is wrong") from error
            raise NeedsPassword("this PDF needs a password") from error
        if getattr(error, "err_code", None) == pdfium.FPDF_ERR_SECURITY:
            raise NeedsPassword("this PDF uses an unsupported kind of protection") from error
        raise BrokenFile("this PDF is damaged or incomplete and cannot be opened") from error
    try:
        with suppress(PdfiumError):  # a form that cannot be opened is read as the page it is printed on
            document.init_forms()  # before any page is opened; does nothing where there is no form
        yield document
    finally:
        document.close()


class _PageReader:
    """Reads pages one by one and counts what went wrong."""

    def __init__(self, document: PdfDocument, options: ParseOptions) -> None:
        self._document = document
        self._options = options
        self._count = len(document)
        self._figure_bytes = 0
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
            draft = PageDraft(index + 1, 0.0, 0.0, no_text(), Frame(0, 0, 0, 0, 0))
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
                    content = PageContent(content.words) if has_no_letters(content) else content
                else:
                    content, ocr = self._recognise(page, frame), True
            if content.turns[:1] == [0] and not ocr:
                self._figure_bytes += attach_figures(
                    page, frame, drawn, content.runs[0], content.words, self._figure_bytes
                )
            label = _label(self._document, index)
            return PageDraft(index + 1, frame.width, frame.height, content, frame, drawn.lines, label, ocr)
        finally:
            page.close()

    def _recognise(self, page: Any, frame: Frame) -> PageContent:
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
            notes.append(f"{self.unreadable} of {count} {have} text without character codes; {OCR_HINT}")
        if self.broken:
            notes.append(f"{self.broken} of {count} pages could not be read")
        return tuple(notes)


def has_no_letters(content: PageContent) -> bool:
    """Most characters are control codes, glyphs without Unicode or private ones."""
    return content.unreadable >= FEW_CHARACTERS and content.unreadable > UNREADABLE * content.characters


def has_no_language(content: PageContent) -> bool:
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


def needs_ocr(content: PageContent, drawn: Drawn, frame: Frame) -> bool:
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


def _metadata(document: PdfDocument) -> tuple[str, dict[str, str]]:
    """The title, where it is no file name or the like, and author, subject and date."""
    values = {key: one_line(str(value).replace("\x00", "")) for key, value in document.get_metadata_dict().items()}
    title = values.get("Title", "")
    if _BAD_TITLE.match(title) or COVER.match(title) or len(title) > 300:
        title = ""
    found = {"author": values.get("Author", "")[:500], "subject": values.get("Subject", "")[:500]}
    date = _DATE.match(values.get("CreationDate", ""))
    if date and 1 <= int(date.group(2) or 1) <= 12 and 1 <= int(date.group(3) or 1) <= 31:
        found["created"] = f"{date.group(1)}-{date.group(2) or '01'}-{date.group(3) or '01'}"
    return title, {key: value for key, value in found.items() if value}


# --- figures: the picture above or below a line that begins "Figure 3" ------------------------------------------------


def attach_figures(page: Any, frame: Frame, drawn: Drawn, runs: list[WordRun], words: Words, used: int) -> int:
    """Gives each caption the PNG of its picture; returns how many bytes the pictures take."""
    captions = [run for run in runs if CAPTION.match(text_of([run], words))]
    boxes = _pictures(drawn.images, frame) if captions else []
    total = 0
    for run in captions:
        box = _nearest(run, boxes) or _drawing(run, drawn.shapes, frame)
        if box is None or used + total > MAX_BYTES:
            continue
        if box in boxes:
            boxes.remove(box)
        run.figure = _crop(page, frame, box)
        total += len(run.figure)
    return total


def _drawing(caption: WordRun, shapes: Floats, frame: Frame) -> Box4 | None:
    """A figure made of lines: the shapes above the caption, from the nearest upwards until a blank."""
    if not MIN_SHAPES <= len(shapes) <= MAX_SHAPES:
        return None
    inside = (
        (shapes[:, 3] <= caption.top + 6) & (shapes[:, 1] >= 0) & (shapes[:, 2] - shapes[:, 0] < 0.95 * frame.width)
    )
    beside = (shapes[:, 0] < caption.right + NEAR) & (shapes[:, 2] > caption.left - NEAR)
    found = shapes[inside & beside]
    top = caption.top
    members: list[tuple[float, float, float, float]] = []
    for left, upper, right, lower in found[np.argsort(-found[:, 3])].tolist():
        if top - lower > (BLANK if members else NEAR):
            break
        top = min(top, upper)
        members.append((left, upper, right, lower))
    if len(members) < MIN_SHAPES:
        return None
    box = (
        max(0.0, min(m[0] for m in members) - MARGIN),
        max(0.0, top - MARGIN),
        min(frame.width, max(m[2] for m in members) + MARGIN),
        max(m[3] for m in members) + MARGIN,
    )
    return box if min(box[2] - box[0], box[3] - box[1]) >= 1.5 * MIN_SIDE else None


def _pictures(images: Floats, frame: Frame) -> list[Box4]:
    """Boxes of the images on the page; parts that touch are one picture, and full-page backgrounds are none."""
    boxes: list[Box4] = []
    for left, top, right, bottom in images[:400].tolist():
        box = (max(left, 0.0), max(top, 0.0), min(right, frame.width), min(bottom, frame.height))
        if box[2] - box[0] < 4 or box[3] - box[1] < 4:
            continue
        if (box[2] - box[0]) * (box[3] - box[1]) > 0.9 * frame.width * frame.height:
            continue
        touching = [
            b for b in boxes if b[0] <= box[2] + 3 and box[0] <= b[2] + 3 and b[1] <= box[3] + 3 and box[1] <= b[3] + 3
        ]
        for other in touching:
            boxes.remove(other)
            box = (min(box[0], other[0]), min(box[1], other[1]), max(box[2], other[2]), max(box[3], other[3]))
        boxes.append(box)
    return [box for box in boxes if box[2] - box[0] >= MIN_SIDE and box[3] - box[1] >= MIN_SIDE]


def _nearest(line: WordRun, boxes: list[Box4]) -> Box4 | None:
    """The picture right above the caption, else the one right below it."""
    best, distance = None, NEAR
    for box in boxes:
        if min(box[2], line.right) - max(box[0], line.left) <= 0:
            continue
        gap = line.top - box[3] if line.top >= box[3] - 6 else 1.5 * (box[1] - line.bottom)
        if -6 <= gap < distance:
            best, distance = box, gap
    return best


def _crop(page: Any, frame: Frame, box: Box4) -> bytes:
    from PIL.PngImagePlugin import PngInfo

    left, top, right, bottom = box
    scale = min(SCALE, MAX_WIDTH / (right - left), MAX_HEIGHT / (bottom - top))
    # pypdfium2 takes what to cut off each side of the displayed page, in its points: left, bottom, right, top.
    crop = (max(left, 0), max(frame.height - bottom, 0), max(frame.width - right, 0), max(top, 0))
    bitmap = page.render(scale=scale, crop=crop)
    try:
        image = bitmap.to_pil().convert("RGB")
        buffer = io.BytesIO()
        # The picture says itself where it was cut out: x, y, width and height in per cent of the page.
        edges = (left / frame.width, top / frame.height, (right - left) / frame.width, (bottom - top) / frame.height)
        place = PngInfo()
        place.add_text(FIGURE_PLACE, " ".join(f"{100 * edge:.2f}" for edge in edges))
        image.save(buffer, "PNG", optimize=False, pnginfo=place)
    finally:
        bitmap.close()
    return buffer.getvalue()


# --- lines that OCR read, as the words and runs a text layer would have given -----------------------------------------


def page_from_ocr(lines: list[OcrLine], width: float, height: float, points: float) -> PageContent:
    """`width` and `height` of the image in pixels; `points` is the length of a pixel in points."""
    texts: list[str] = []
    glued: list[bool] = []
    edges: list[Box4] = []
    runs: list[WordRun] = []
    for line in lines:
        pieces = [(match.start(), match.end(), clean_word(match.group())) for match in PIECES.finditer(line.text)]
        pieces = [piece for piece in pieces if piece[2]]
        if not pieces or line.right <= line.left or line.bottom <= line.top:
            continue
        first, per_letter = len(texts), (line.right - line.left) / len(line.text)
        end = -1
        for start, stop, text in pieces:
            texts.append(text)
            glued.append(start == end)
            edges.append((line.left + start * per_letter, line.top, line.left + stop * per_letter, line.bottom))
            end = stop
        box = (line.left * points, line.top * points, line.right * points, line.bottom * points)
        runs.append(_run(texts, first, box, (line.bottom - line.top) * points / LINE_HEIGHT))
    # Heights waver with the letters of a line: sizes within a quarter of the usual one are the usual one.
    usual = float(np.median([run.size for run in runs])) if runs else 0.0
    for run in runs:
        run.size = usual if 0.75 * usual < run.size < 1.3 * usual else run.size
    boxes = np.array(edges, np.float32).reshape(-1, 4)
    percent = np.clip(boxes * np.array([100 / width, 100 / height] * 2, np.float32), 0, 100)
    words = Words(texts, bytes(glued), bytes(len(texts)), percent, boxes[:, [0, 2]] * points)
    return PageContent(words, [runs] if runs else [], [0] if runs else [], sum(map(len, texts)))


def _run(texts: list[str], first: int, box: Box4, size: float) -> WordRun:
    """The words from `first` on as a run."""
    words = texts[first:]
    digits = sum(map(str.isdigit, "".join(words)))
    return WordRun(first, len(texts), *box, size, sum(map(len, words)), len(words), digits)


# --- what was filled into the form fields of a page, as words and runs at the place of their fields -------------------


@dataclass(frozen=True, slots=True)
class _Field:
    text: str
    box: Box4  # left, top, right, bottom in page space
    multiline: bool

    def lines(self, width: float) -> list[str]:
        if not self.multiline:
            return [one_line(self.text)]
        room = max(1, int(width / (LETTER * SIZE)))
        return [line for part in self.text.splitlines() for line in textwrap.wrap(part, room)] or [self.text]


def add_form_fields(content: PageContent, page: Any, form: Any, frame: Frame) -> PageContent:
    """The page with the values of its form fields among its runs; the same page if it has none."""
    fields = _fields(page, form)
    if not fields or frame.width <= 0 or frame.height <= 0:
        return content
    texts = list(content.words.text)
    edges: list[Box4] = []
    runs: list[WordRun] = []
    boxes = frame.display(np.array([field.box for field in fields], np.float32)).tolist()
    for field, (left, top, right, bottom) in zip(fields, boxes, strict=True):
        lines = field.lines(right - left)
        size = min(SIZE, (bottom - top) / LINE)
        pitch = min(LINE * size, (bottom - top) / len(lines)) if field.multiline else bottom - top
        for number, line in enumerate(lines):
            words = list(filter(None, map(clean_word, line.split())))
            if not words:
                continue
            # Where a value is longer than its field, all of it is kept inside: a mark must not leave the field.
            letter = min(LETTER * size, (right - left) / (sum(map(len, words)) + len(words) - 1))
            middle, half = top + (number + 0.5) * pitch, min(size, pitch) / 2
            first, place = len(texts), left
            for word in words:
                edges.append((place, middle - half, place + letter * len(word), middle + half))
                place += letter * (len(word) + 1)
            texts += words
            runs.append(_run(texts, first, (left, middle - half, edges[-1][2], middle + half), size))
    return _joined(content, texts, np.array(edges, np.float32), runs, frame) if runs else content


def _fields(page: Any, form: Any) -> list[_Field]:
    fields = []
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page.raw), MAX_FIELDS)):
        annotation = pdfium.FPDFPage_GetAnnot(page.raw, index)
        if not annotation:
            continue
        try:
            if pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_WIDGET:
                fields.append(_field(annotation, form))
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)
    return [field for field in fields if field is not None]


def _field(annotation: Any, form: Any) -> _Field | None:
    kind = pdfium.FPDFAnnot_GetFormFieldType(form.raw, annotation)
    flags = pdfium.FPDFAnnot_GetFormFieldFlags(form.raw, annotation)
    if pdfium.FPDFAnnot_GetFlags(annotation) & INVISIBLE:
        return None
    is_text = kind == pdfium.FPDF_FORMFIELD_TEXTFIELD
    if kind in BOXES:
        text = CHECKED if pdfium.FPDFAnnot_IsChecked(form.raw, annotation) else UNCHECKED
    elif kind in VALUES and not (is_text and flags & PASSWORD):
        text = _value(annotation, form)
    else:  # buttons and signatures hold no text
        return None
    rectangle = pdfium.FS_RECTF()
    if not text.strip() or not pdfium.FPDFAnnot_GetRect(annotation, rectangle):
        return None
    left, right = sorted((rectangle.left, rectangle.right))
    bottom, top = sorted((rectangle.bottom, rectangle.top))
    if right <= left or top <= bottom:
        return None
    return _Field(text, (left, top, right, bottom), is_text and bool(flags & MULTILINE))


def _value(annotation: Any, form: Any) -> str:
    length = pdfium.FPDFAnnot_GetFormFieldValue(form.raw, annotation, None, 0)
    if length <= 2:
        return ""
    buffer = ctypes.create_string_buffer(length)
    pointer = ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR))
    pdfium.FPDFAnnot_GetFormFieldValue(form.raw, annotation, pointer, length)
    return buffer.raw[: length - 2].decode("utf-16-le", "replace")[:MAX_VALUE]


def _joined(content: PageContent, texts: list[str], edges: Floats, runs: list[WordRun], frame: Frame) -> PageContent:
    """The words of the fields behind those of the text layer; their runs in the main direction of reading."""
    turn = content.turns[0] if content.turns else 0
    upright = frame.upright(edges, turn)
    words, added = content.words, len(edges)
    for run in runs:
        first, last = run.first - len(words), run.last - len(words)
        run.left, run.top = upright[first:last, :2].min(axis=0).tolist()
        run.right, run.bottom = upright[first:last, 2:].max(axis=0).tolist()
    scale = np.array([100 / frame.width, 100 / frame.height] * 2, np.float32)
    joined = Words(
        texts,
        words.glued + bytes(added),
        words.hyphen + bytes(added),
        np.concatenate((words.edges, np.clip(edges * scale, 0, 100))).astype(np.float32),
        np.concatenate((words.spans, upright[:, [0, 2]])).astype(np.float32),
    )
    main = [*(content.runs[0] if content.runs else []), *runs]
    characters = content.characters + sum(run.letters for run in runs)
    return PageContent(joined, [main, *content.runs[1:]], content.turns or [0], characters, content.unreadable)


# --- images: the frames of a TIFF are pages ---------------------------------------------------------------------------

OCR_SIDE = 4000  # pixels given to OCR: 24 inches at the 150 dpi it needs
FRAME_PIXELS = 200_000_000  # of one frame: 600 MB unpacked
DEFAULT_DPI = 150.0  # of an image that does not say


def parse_image(data: bytes, options: ParseOptions) -> Parsed:
    """Reads an image with `options.ocr`: `parse_image(png, ParseOptions(ocr=load_ocr())).text`."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data))
    except Image.DecompressionBombError as error:
        raise HostileFile("this image unpacks to an implausible number of pixels") from error
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise BrokenFile("this image cannot be opened") from error
    with image:
        count = int(getattr(image, "n_frames", 1)) if image.format == "TIFF" else 1
        if count > options.max_pages:
            raise TooLarge(f"this image has {count:,} pages; the limit is {options.max_pages:,}")
        if options.ocr is None:
            raise EmptyDocument("this image cannot be read without OCR", hint="install refdesk[ocr] to read it")
        pages = []
        for index in range(count):
            pages.append(_read_frame(image, index, options.ocr))
            options.progress(index + 1, count)
    if not any(page.content.runs for page in pages):
        raise EmptyDocument("no text was found in this image")
    return put_together(pages, "image", {}, "", ())


def _read_frame(image: Image.Image, index: int, ocr: OcrEngine) -> PageDraft:
    from PIL import Image, ImageOps

    try:
        image.seek(index)
        if image.width * image.height > FRAME_PIXELS:
            raise TooLarge(f"this image has {image.width:,} × {image.height:,} pixels; the limit is {FRAME_PIXELS:,}")
        stated = image.info.get("dpi")
        dpi = float(stated[0]) if isinstance(stated, tuple) and stated else 0.0
        frame = _on_white(ImageOps.exif_transpose(image))
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise BrokenFile("this image is damaged or incomplete") from error
    points = 72 / (dpi if 30 <= dpi <= 2400 else DEFAULT_DPI)
    width, height = frame.width * points, frame.height * points
    frame.thumbnail((OCR_SIDE, OCR_SIDE))
    lines = ocr(np.asarray(frame, np.uint8))
    content = page_from_ocr(lines, frame.width, frame.height, width / frame.width)
    return PageDraft(index + 1, width, height, content, Frame(0, 0, width, height, 0), ocr=True)


def _on_white(image: Image.Image) -> Image.Image:
    """RGB; what is transparent becomes paper."""
    from PIL import Image

    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    if image.mode in ("I;16", "I", "F"):  # sixteen bits a pixel and more do not convert by themselves
        values = np.asarray(image, np.float64)
        span = float(values.max() - values.min()) or 1.0
        return Image.fromarray(((values - values.min()) * (255 / span)).astype(np.uint8)).convert("RGB")
    return image.convert("RGB")
