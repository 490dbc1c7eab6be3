"""Images -> text by OCR; the frames of a TIFF are pages."""

from __future__ import annotations

import io
import warnings

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from refdesk.errors import BrokenFile, EmptyDocument, HostileFile, TooLarge
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.pdf import page_from_ocr
from refdesk.parsers.pdf_blocks import put_together
from refdesk.parsers.pdf_page import Frame, PageDraft
from refdesk.types import OcrEngine, Parsed

MAX_SIDE = 4000  # pixels given to OCR: 24 inches at the 150 dpi it needs
MAX_PIXELS = 200_000_000  # of one frame: 600 MB unpacked
DEFAULT_DPI = 150.0  # of an image that does not say


def parse(data: bytes, options: ParseOptions) -> Parsed:
    """Reads an image with `options.ocr`: `parse(png, ParseOptions(ocr=load_ocr())).text`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data))
    except Image.DecompressionBombError as error:
        raise HostileFile("this image unpacks to far more pixels than a picture has") from error
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
            pages.append(_read(image, index, options.ocr))
            options.progress(index + 1, count)
    if not any(page.content.runs for page in pages):
        raise EmptyDocument("no text was found in this image")
    return put_together(pages, "image", {}, "", ())


def _read(image: Image.Image, index: int, ocr: OcrEngine) -> PageDraft:
    try:
        image.seek(index)
        if image.width * image.height > MAX_PIXELS:
            raise TooLarge(f"this image has {image.width:,} × {image.height:,} pixels; the limit is {MAX_PIXELS:,}")
        stated = image.info.get("dpi")
        dpi = float(stated[0]) if isinstance(stated, tuple) and stated else 0.0
        frame = _on_white(ImageOps.exif_transpose(image))
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise BrokenFile("this image is damaged or incomplete") from error
    points = 72 / (dpi if 30 <= dpi <= 2400 else DEFAULT_DPI)
    width, height = frame.width * points, frame.height * points
    frame.thumbnail((MAX_SIDE, MAX_SIDE))
    lines = ocr(np.asarray(frame, np.uint8))
    content = page_from_ocr(lines, frame.width, frame.height, width / frame.width)
    return PageDraft(index + 1, width, height, content, Frame(0, 0, width, height, 0), ocr=True)


def _on_white(image: Image.Image) -> Image.Image:
    """RGB; what is transparent becomes paper."""
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    if image.mode in ("I;16", "I", "F"):  # sixteen bits a pixel and more do not convert by themselves
        values = np.asarray(image, np.float64)
        span = float(values.max() - values.min()) or 1.0
        return Image.fromarray(((values - values.min()) * (255 / span)).astype(np.uint8)).convert("RGB")
    return image.convert("RGB")
