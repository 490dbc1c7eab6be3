"""What a parser is told besides the bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class OcrLine:
    """A line that OCR read: its text and its edges in pixels of the image it was given."""

    text: str
    left: float
    top: float
    right: float
    bottom: float


OcrEngine = Callable[[NDArray[np.uint8]], list[OcrLine]]  # an RGB image -> its lines, top to bottom


def ignore_progress(done: int, total: int) -> None:
    """Nobody is watching."""


@dataclass(frozen=True, slots=True)
class ParseOptions:
    """Limits and helpers; `ocr` is None when refdesk[ocr] is not installed or OCR is switched off."""

    password: str | None = None
    ocr: OcrEngine | None = None
    progress: Callable[[int, int], None] = ignore_progress  # pages done, pages in all
    max_pages: int = 20_000
    max_characters: int = 100_000_000
    max_unpacked_bytes: int = 1 << 30  # of an archive (DOCX, XLSX, EPUB …)
    ocr_dpi: int = 150  # MEASUREMENTS §5: word recall .999 at 150
