"""Lines that OCR read, as the words and runs a text layer would have given. Pure."""

from __future__ import annotations

import re

import numpy as np

from refdesk.ingest.parsers.pdf_page import PageText, Run, Words, clean_word
from refdesk.ocr import OcrLine

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
