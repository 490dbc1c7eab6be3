"""Which captions belong to a picture? Crops the picture above or below a line that begins "Figure 3"."""

from __future__ import annotations

import ctypes
import io
import re
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium

from refdesk.parsers.pdf_page import Drawn, Floats, Frame, PageText, Run, Words, clean_word
from refdesk.parsers.pdf_tables import text_of
from refdesk.types import OcrLine

Box4 = tuple[float, float, float, float]

# "Figure 3: …", "Fig. 2 The wall", not "Figure 3 shows".
_CAPTION = re.compile(
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


def attach_figures(page: Any, frame: Frame, drawn: Drawn, runs: list[Run], words: Words, used: int) -> int:
    """Gives each caption the PNG of its picture; returns how many bytes the pictures take."""
    captions = [run for run in runs if _CAPTION.match(text_of([run], words))]
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


def _drawing(caption: Run, shapes: Floats, frame: Frame) -> Box4 | None:
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


def _nearest(line: Run, boxes: list[Box4]) -> Box4 | None:
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
    left, top, right, bottom = box
    scale = min(SCALE, MAX_WIDTH / (right - left), MAX_HEIGHT / (bottom - top))
    # pypdfium2 takes what to cut off each side of the displayed page, in its points: left, bottom, right, top.
    crop = (max(left, 0), max(frame.height - bottom, 0), max(frame.width - right, 0), max(top, 0))
    bitmap = page.render(scale=scale, crop=crop)
    try:
        image = bitmap.to_pil().convert("RGB")
        buffer = io.BytesIO()
        image.save(buffer, "PNG", optimize=False)
    finally:
        bitmap.close()
    return buffer.getvalue()


# Lines that OCR read, as the words and runs a text layer would have given.

_PIECES = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60]|[^\s\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60]+")
LINE_HEIGHT = 1.25  # × font size: OCR boxes reach from ascender to descender and a little more


def page_from_ocr(lines: list[OcrLine], width: float, height: float, points: float) -> PageText:
    """`width` and `height` of the image in pixels; `points` is the length of a pixel in points."""
    texts: list[str] = []
    glued: list[bool] = []
    edges: list[tuple[float, float, float, float]] = []
    runs: list[Run] = []
    for line in lines:
        pieces = [(match.start(), match.end(), clean_word(match.group())) for match in _PIECES.finditer(line.text)]
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
        letters = sum(len(piece[2]) for piece in pieces)
        digits = sum(map(str.isdigit, line.text))
        size = (line.bottom - line.top) * points / LINE_HEIGHT
        runs.append(
            Run(first, len(texts), line.left * points, line.top * points, line.right * points, line.bottom * points,
                size, False, False, False, letters, len(pieces), digits)
        )  # fmt: skip
    percent = np.array(edges, np.float32).reshape(-1, 4) * np.array([100 / width, 100 / height] * 2, np.float32)
    spans = np.array(edges, np.float32).reshape(-1, 4)[:, [0, 2]] * points
    words = Words(texts, bytes(glued), bytes(len(texts)), np.clip(percent, 0, 100), spans)
    _level_sizes(runs)
    return PageText(words, [runs] if runs else [], [0] if runs else [], sum(map(len, texts)))


def _level_sizes(runs: list[Run]) -> None:
    """OCR heights waver with the letters of a line: sizes within a quarter of the usual one are the usual one."""
    if not runs:
        return
    usual = float(np.median([run.size for run in runs]))
    for run in runs:
        if 0.75 * usual < run.size < 1.3 * usual:
            run.size = usual


# What was filled into the form fields of a PDF page? Values as words and runs at the place of their fields.

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


@dataclass(frozen=True, slots=True)
class _Field:
    text: str
    box: Box4  # left, top, right, bottom in page space
    multiline: bool


def add_form_fields(content: PageText, page: Any, form: Any, frame: Frame) -> PageText:
    """The page with the values of its form fields among its runs; the same page if it has none."""
    fields = _fields(page, form)
    if not fields or frame.width <= 0 or frame.height <= 0:
        return content
    boxes = frame.display(np.array([field.box for field in fields], np.float32))
    return _with_fields(content, fields, boxes, frame)


def _fields(page: Any, form: Any) -> list[_Field]:
    found = []
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page.raw), MAX_FIELDS)):
        annotation = pdfium.FPDFPage_GetAnnot(page.raw, index)
        if not annotation:
            continue
        try:
            if pdfium.FPDFAnnot_GetSubtype(annotation) == pdfium.FPDF_ANNOT_WIDGET:
                field = _field(annotation, form)
                if field is not None:
                    found.append(field)
        finally:
            pdfium.FPDFPage_CloseAnnot(annotation)
    return found


def _field(annotation: Any, form: Any) -> _Field | None:
    kind = pdfium.FPDFAnnot_GetFormFieldType(form.raw, annotation)
    flags = pdfium.FPDFAnnot_GetFormFieldFlags(form.raw, annotation)
    if pdfium.FPDFAnnot_GetFlags(annotation) & INVISIBLE:
        return None
    if kind in BOXES:
        text = CHECKED if pdfium.FPDFAnnot_IsChecked(form.raw, annotation) else UNCHECKED
    elif kind in VALUES and not (kind == pdfium.FPDF_FORMFIELD_TEXTFIELD and flags & PASSWORD):
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
    multiline = kind == pdfium.FPDF_FORMFIELD_TEXTFIELD and bool(flags & MULTILINE)
    return _Field(text, (left, top, right, bottom), multiline)


def _value(annotation: Any, form: Any) -> str:
    length = pdfium.FPDFAnnot_GetFormFieldValue(form.raw, annotation, None, 0)
    if length <= 2:
        return ""
    buffer = ctypes.create_string_buffer(length)
    pointer = ctypes.cast(buffer, ctypes.POINTER(pdfium.FPDF_WCHAR))
    pdfium.FPDFAnnot_GetFormFieldValue(form.raw, annotation, pointer, length)
    return buffer.raw[: length - 2].decode("utf-16-le", "replace")[:MAX_VALUE]


def _with_fields(content: PageText, fields: list[_Field], boxes: Any, frame: Frame) -> PageText:
    """The words of the fields behind those of the text layer; their runs in the main direction of reading."""
    texts, edges = list(content.words.text), []
    runs: list[Run] = []
    for entry, (left, top, right, bottom) in zip(fields, boxes.tolist(), strict=True):
        lines = _lines(entry, right - left)
        size = min(SIZE, (bottom - top) / LINE)
        pitch = min(LINE * size, (bottom - top) / len(lines))
        for number, line in enumerate(lines):
            words = [word for word in map(clean_word, line.split()) if word]
            if not words:
                continue
            # Where a value is longer than its field, all of it is kept inside: a mark must not leave the field.
            letter = min(LETTER * size, (right - left) / (sum(map(len, words)) + len(words) - 1))
            if entry.multiline:
                upper, lower = top + number * pitch, top + (number + 1) * pitch
            else:
                upper, lower = top, bottom
            middle, half = (upper + lower) / 2, min(size, lower - upper) / 2
            upper, lower = middle - half, middle + half
            first, place = len(texts), left
            for word in words:
                edges.append((place, upper, place + letter * len(word), lower))
                place += letter * (len(word) + 1)
            texts += words
            letters = sum(map(len, words))
            digits = sum(map(str.isdigit, "".join(words)))
            runs.append(
                Run(first, len(texts), left, upper, edges[-1][2], lower, size, False, False, False, letters,
                    len(words), digits)
            )  # fmt: skip
    if not runs:
        return content
    return _joined(content, texts, np.array(edges, np.float32), runs, frame)


def _lines(field: _Field, width: float) -> list[str]:
    if not field.multiline:
        return [" ".join(field.text.split())]
    room = max(1, int(width / (LETTER * SIZE)))
    return [line for part in field.text.splitlines() for line in textwrap.wrap(part, room)] or [field.text]


def _joined(content: PageText, texts: list[str], edges: Any, runs: list[Run], frame: Frame) -> PageText:
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
    return PageText(joined, [main, *content.runs[1:]], content.turns or [0], characters, content.unreadable)
