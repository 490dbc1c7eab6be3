"""Pages as images: PDF pages and pictures, with boxes marked on them."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageOps

from refdesk.disk import write_new
from refdesk.errors import LibraryError, UsageError
from refdesk.store_ports import Files
from refdesk.types import Box, Document

# Page images that were rendered before: kept up to a size, the ones not asked for longest go first.

MOST_BYTES = 1 << 30
LOOKED_AFTER = 64 << 20  # bytes written between two looks at the whole folder


class RenderCache:
    """`renders/HASH/PAGE-WIDTH.FORMAT`; safe to use from several threads and processes."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self._lock = threading.Lock()
        self._written = LOOKED_AFTER  # so that the first write looks: others may have filled it

    def get(self, content_hash: str, name: str) -> bytes | None:
        path = self._folder / content_hash / name
        try:
            data = path.read_bytes()
        except OSError:  # never drawn
            return None
        with suppress(OSError):  # gone this very moment
            os.utime(path)  # asked for just now; not `touch`, which would make an empty one
        return data

    def put(self, content_hash: str, name: str, data: bytes) -> None:
        """A full disk costs time at the next look, not the image."""
        with suppress(OSError, LibraryError):
            folder = self._folder / content_hash
            folder.mkdir(parents=True, exist_ok=True)
            write_new(data, folder).replace(folder / name)
            with self._lock:
                self._written += len(data)
                is_due = self._written >= min(LOOKED_AFTER, self._most_bytes // 4)
                self._written = 0 if is_due else self._written
            if is_due:
                self._shrink()

    def _shrink(self) -> None:
        """To nine tenths of what may be kept."""
        found = sorted((state.st_mtime_ns, state.st_size, path) for path, state in self._files())
        size = sum(one for _, one, _ in found)
        if size <= self._most_bytes:
            return
        for _, bytes_held, path in found:
            if size <= 0.9 * self._most_bytes:
                return
            with suppress(OSError):
                path.unlink()
                size -= bytes_held

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        found = []
        for path in self._folder.glob("*/*"):
            with suppress(OSError):  # another process was quicker
                found.append((path, path.stat()))
        return found


MARK = (255, 214, 0, 90)  # a text marker's yellow, translucent
WIDEST = 4000
KEPT_STEP = 100  # pixels; images of other widths are drawn each time
TALLEST = 20_000  # pixels; a page a hair wide would be drawn miles long

_pdfium = threading.Lock()  # PDFium must not be entered by two threads at once


def page_image(
    files: Files,
    cache: RenderCache,
    document: Document,
    number: int,
    width: int,
    boxes: Sequence[Box] = (),
    format: str = "png",
) -> bytes:
    """A page as PNG or WebP, `width` pixels wide; unmarked images are kept and not drawn twice."""
    if document.format not in ("pdf", "image"):
        raise UsageError(f"{document.name} has no page images", hint="its text can be shown instead")
    if not 1 <= number <= document.page_count:
        raise UsageError(f"{document.name} has pages 1 to {document.page_count}, not {number}")
    if not 1 <= width <= WIDEST:
        raise UsageError(f"a page image can be 1 to {WIDEST} pixels wide, not {width}")
    # Whoever asks for every width there is must not fill the disk.
    is_kept = width % KEPT_STEP == 0
    name = f"{number}-{width}.{format}"
    plain = cache.get(document.content_hash, name) if is_kept else None
    if plain is None:
        plain = _encoded(_rendered(files, document, number, width), format)
        if is_kept:
            cache.put(document.content_hash, name, plain)
    return _marked(plain, [box for box in boxes if box.page == number], format)


def _rendered(files: Files, document: Document, number: int, width: int) -> Any:
    import pypdfium2

    try:
        path = files.path(document.content_hash)
        if document.format == "image":
            return _draw_picture(path.read_bytes(), number, width)
        with _pdfium:
            return _draw_page(path, number, width)
    except FileNotFoundError as error:
        raise LibraryError(f"the original of {document.name} is missing", hint="add the document again") from error
    except pypdfium2.PdfiumError as error:
        raise UsageError(
            f"page {number} of {document.name} cannot be drawn: {error}", hint="an encrypted PDF is kept as it came"
        ) from error
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise UsageError(f"page {number} of {document.name} cannot be drawn: {error}") from error


def _draw_picture(data: bytes, number: int, width: int) -> Any:
    image = Image.open(io.BytesIO(data))
    image.seek(number - 1)
    picture = ImageOps.exif_transpose(image).convert("RGB")  # upright, as it was read
    return picture.resize((width, _height(width, picture.width, picture.height)))


def _draw_page(path: Path, number: int, width: int) -> Any:
    import pypdfium2

    document = pypdfium2.PdfDocument(path)  # which reads what the page needs, not hundreds of megabytes
    try:
        document.init_forms()  # so that what was filled into a form is drawn too
        page = document[number - 1]
        _height(width, page.get_width(), page.get_height())
        scale = (width - 0.01) / page.get_width()  # the size is rounded up, and must not round past the width
        return page.render(scale=scale).to_pil().convert("RGB")
    finally:
        document.close()


def _height(width: int, page_width: float, page_height: float) -> int:
    height = max(1, round(width * page_height / page_width))
    if height > TALLEST:
        raise ValueError(f"it would be {height:,} pixels tall")
    return height


def _marked(plain: bytes, boxes: Sequence[Box], format: str) -> bytes:
    if not boxes:
        return plain
    image = Image.open(io.BytesIO(plain)).convert("RGBA")
    layer = Image.new("RGBA", image.size)
    pen = ImageDraw.Draw(layer)
    for box in boxes:
        left, top = box.x * image.width / 100, box.y * image.height / 100
        right, bottom = (box.x + box.width) * image.width / 100, (box.y + box.height) * image.height / 100
        pen.rectangle((left, top, right, bottom), fill=MARK)
    return _encoded(Image.alpha_composite(image, layer).convert("RGB"), format)


def _encoded(image: Any, format: str) -> bytes:
    buffer = io.BytesIO()
    if format == "webp":
        image.save(buffer, "WEBP", quality=90, method=2)
    else:
        image.save(buffer, "PNG", compress_level=2)  # a scan in 136 ms, not in 424, for 3 % more bytes
    return buffer.getvalue()
