"""What was filled into the form fields of a PDF page? Values as words and runs at the place of their fields.

A text layer holds the labels only: values live in the fields. Their text is set into the field's box as a reader
would show it, line by line, so that a value stands in the row of its label.
"""

from __future__ import annotations

import ctypes
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
import pypdfium2.raw as pdfium

from refdesk.ingest.parsers.pdf_page import Frame, PageText, Run, Words, clean_word

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

Box4 = tuple[float, float, float, float]


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
    for field, (left, top, right, bottom) in zip(fields, boxes.tolist(), strict=True):
        lines = _lines(field, right - left)
        size = min(SIZE, (bottom - top) / LINE)
        pitch = min(LINE * size, (bottom - top) / len(lines))
        for number, line in enumerate(lines):
            words = [word for word in map(clean_word, line.split()) if word]
            if not words:
                continue
            # Where a value is longer than its field, all of it is kept inside: a mark must not leave the field.
            letter = min(LETTER * size, (right - left) / (sum(map(len, words)) + len(words) - 1))
            if field.multiline:
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
