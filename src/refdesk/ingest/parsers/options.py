"""What a parser is told besides the bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from refdesk.ocr import OcrEngine, OcrLine

__all__ = ["OcrEngine", "OcrLine", "ParseOptions", "ignore_progress"]


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
    ocr_dpi: int = 150  # rapidocr reads .999 of the words of a dense page at 150
