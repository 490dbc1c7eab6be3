"""OCR with the real engine, and images as documents."""

from __future__ import annotations

import io
import pickle
import subprocess
import sys

import numpy as np
import pypdfium2
import pytest
from PIL import Image

from pdf_samples import Sheet
from refdesk.errors import BrokenFile, EmptyDocument, TooLarge
from refdesk.parsers import pdf
from refdesk.parsers.build import ParseOptions
from refdesk.providers.extras import load_ocr
from refdesk.types import OcrEngine, OcrLine, boxes_between
from timing import PATIENCE_S

LINES = ("The pilot boat leaves at seven.", "Harbour dues rise in April.")


@pytest.fixture(scope="module")
def engine() -> OcrEngine:
    loaded = load_ocr()
    assert loaded is not None
    return loaded


def picture() -> Image.Image:
    """Two lines of type, as a scanner would see them."""
    sheet = Sheet("note", size=(300, 100))
    for index, line in enumerate(LINES):
        sheet.text(line, 30, 65 - 30 * index, size=14)
    document = pypdfium2.PdfDocument(sheet.build().data)
    rendered = document[0].render(scale=150 / 72).to_pil().convert("RGB")
    document.close()
    return rendered


def encoded(frames: list[Image.Image], format: str) -> bytes:
    buffer = io.BytesIO()
    frames[0].save(
        buffer, format, dpi=(150, 150), **({"save_all": True, "append_images": frames[1:]} if frames[1:] else {})
    )
    return buffer.getvalue()


def fixed(pixels: np.ndarray) -> list[OcrLine]:
    """Stands for an engine where only the plumbing around it is of interest."""
    return [OcrLine("Quay 7", 10, 10, 110, 30)]


def test_image_is_read_with_boxes(engine: OcrEngine) -> None:
    parsed = pdf.parse_image(encoded([picture()], "PNG"), ParseOptions(ocr=engine))
    assert parsed.format == "image" and parsed.pages[0].ocr
    assert all(line in parsed.text for line in LINES)
    assert (parsed.pages[0].width, parsed.pages[0].height) == pytest.approx((300, 100), abs=1)
    assert parsed.geometry is not None
    start = parsed.text.index(LINES[1])
    (box,) = boxes_between(parsed.geometry, start, start + len(LINES[1]))
    assert (box.x, box.y + box.height / 2) == pytest.approx((10, 60), abs=6)


def test_scanned_pdf_is_read(engine: OcrEngine) -> None:
    buffer = io.BytesIO()
    picture().save(buffer, "PDF", resolution=150)
    parsed = pdf.parse(buffer.getvalue(), ParseOptions(ocr=engine))
    assert LINES[0] in parsed.text and parsed.pages[0].ocr and not parsed.notes


def test_blank_image_has_no_lines(engine: OcrEngine) -> None:
    with pytest.raises(EmptyDocument, match="no text"):
        pdf.parse_image(encoded([Image.new("RGB", (300, 200), "white")], "PNG"), ParseOptions(ocr=engine))


def test_engine_crosses_to_a_worker_without_its_models(engine: OcrEngine) -> None:
    assert len(pickle.dumps(engine)) < 5000


def test_importing_the_adapter_does_not_load_rapidocr() -> None:
    load = "from refdesk.providers.extras import load_ocr; load_ocr()"
    code = f"import sys; {load}; sys.exit('rapidocr.main' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=PATIENCE_S).returncode == 0


@pytest.mark.parametrize("format", ["PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF"])
def test_image_formats(format: str) -> None:
    assert pdf.parse_image(encoded([picture()], format), ParseOptions(ocr=fixed)).text == "Quay 7"


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "I;16"])
def test_image_modes(mode: str) -> None:
    source = (
        picture().convert("L").point(lambda v: v * 256, "I").convert("I;16")
        if mode == "I;16"
        else picture().convert(mode)
    )
    seen = []

    def engine(pixels: np.ndarray) -> list[OcrLine]:
        seen.append((pixels.dtype, pixels.shape[2], float(pixels.mean())))
        return fixed(pixels)

    pdf.parse_image(encoded([source], "TIFF"), ParseOptions(ocr=engine))
    assert seen[0][0] == np.uint8 and seen[0][1] == 3
    assert seen[0][2] > 200  # dark type on white paper


def test_frames_of_a_tiff_are_pages() -> None:
    progress: list[tuple[int, int]] = []
    data = encoded([picture(), picture(), picture()], "TIFF")
    parsed = pdf.parse_image(data, ParseOptions(ocr=fixed, progress=lambda a, b: progress.append((a, b))))
    assert [page.number for page in parsed.pages] == [1, 2, 3] and progress == [(1, 3), (2, 3), (3, 3)]
    with pytest.raises(TooLarge):
        pdf.parse_image(data, ParseOptions(ocr=fixed, max_pages=2))


def test_bad_images_give_clear_errors() -> None:
    data = encoded([picture()], "PNG")
    with pytest.raises(EmptyDocument) as caught:
        pdf.parse_image(data, ParseOptions())
    assert "refdesk[ocr]" in caught.value.sentence
    for broken in (b"", b"\x89PNG\r\n\x1a\n", data[: len(data) // 2], b"nothing"):
        with pytest.raises(BrokenFile):
            pdf.parse_image(broken, ParseOptions(ocr=fixed))
