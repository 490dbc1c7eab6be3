"""Pages as images: PDF pages and pictures, with boxes marked on them."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any

from PIL import Image, ImageDraw

from refdesk.adapters.files import FileStore
from refdesk.errors import UsageError
from refdesk.geometry import Box
from refdesk.types import Document

MARK = (255, 214, 0, 90)  # a text marker's yellow, translucent
WIDEST = 4000


def page_image(files: FileStore, document: Document, number: int, width: int, boxes: Sequence[Box] = ()) -> bytes:
    """A page as PNG, `width` pixels wide; unmarked images are kept and not drawn twice."""
    if document.format not in ("pdf", "image"):
        raise UsageError(f"{document.name} has no page images", hint="its text can be shown instead")
    if not 1 <= number <= document.page_count:
        raise UsageError(f"{document.name} has pages 1 to {document.page_count}, not {number}")
    if not 1 <= width <= WIDEST:
        raise UsageError(f"a page image can be 1 to {WIDEST} pixels wide, not {width}")
    kept = files.renders / document.content_hash / f"{number}-{width}.png"
    if kept.is_file():
        plain = kept.read_bytes()
    else:
        plain = _png(_draw(files.path(document.content_hash).read_bytes(), document.format, number, width))
        kept.parent.mkdir(parents=True, exist_ok=True)
        building = kept.with_suffix(f".{os.getpid()}")
        building.write_bytes(plain)
        building.replace(kept)
    return _marked(plain, [box for box in boxes if box.page == number])


def _draw(data: bytes, format: str, number: int, width: int) -> Any:
    if format == "image":
        image = Image.open(io.BytesIO(data))
        image.seek(number - 1)
        picture = image.convert("RGB")
        return picture.resize((width, max(1, round(picture.height * width / picture.width))))
    import pypdfium2

    document = pypdfium2.PdfDocument(data)
    try:
        page = document[number - 1]
        return page.render(scale=width / page.get_width()).to_pil().convert("RGB")
    finally:
        document.close()


def _marked(png: bytes, boxes: Sequence[Box]) -> bytes:
    if not boxes:
        return png
    image = Image.open(io.BytesIO(png)).convert("RGBA")
    layer = Image.new("RGBA", image.size)
    pen = ImageDraw.Draw(layer)
    for box in boxes:
        left, top = box.x * image.width / 100, box.y * image.height / 100
        right, bottom = (box.x + box.width) * image.width / 100, (box.y + box.height) * image.height / 100
        pen.rectangle((left, top, right, bottom), fill=MARK)
    return _png(Image.alpha_composite(image, layer).convert("RGB"))


def _png(image: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()
