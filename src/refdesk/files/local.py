"""The files of a library, in its folder or in memory: originals, figures, waiting uploads, page images."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

import orjson
from PIL import Image, ImageDraw, ImageOps

from refdesk.config import damage, explain, hash_bytes, hash_file, make_folder, opener, sync_folder, write_new
from refdesk.errors import LibraryError, RefdeskError, UsageError
from refdesk.store_ports import Files
from refdesk.types import FIGURE_PLACE, Box, Chunk, Document, Job

STALE_S = 86_400.0  # a file that has been coming in for a day is not coming any more


class LocalFiles:
    """The `Files` port over a folder.

    files/ab/abcdef…    what was added, under the hash of its content
    files/waiting/ID    received whole and durably, until the job of this id adds it; `ID.part` is being received
    renders/            page images, which can be made again
    runs/WORKER/        what a worker has read and not yet stored
    """

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.waiting = self.files / "waiting"
        self.renders = folder / "renders"
        self._runs = folder / "runs"
        for kept_folder in (self.files, self.renders):
            make_folder(kept_folder)

    def render_cache(self) -> RenderCache:
        return RenderCache(self.renders)

    def path(self, content_hash: str) -> Path:
        return self.files / content_hash[:2] / content_hash

    def has(self, content_hash: str) -> bool:
        return self.path(content_hash).is_file()

    def put(self, data: bytes) -> str:
        content_hash = hash_bytes(data)
        if not self.has(content_hash):
            self.adopt(write_new(data, self.files), content_hash)
        return content_hash

    def adopt(self, file: Path, content_hash: str) -> None:
        """Moves a file to its place in one step."""
        target = self.path(content_hash)
        try:
            make_folder(target.parent)
            file.replace(target)
        except OSError as error:
            raise explain(error, target) from error

    def damage(self, content_hash: str) -> str:
        return damage(self.path(content_hash), content_hash)

    def clear_unfinished(self) -> None:
        for path in self.files.glob("new-*"):
            path.unlink(missing_ok=True)

    def hashes(self) -> set[str]:
        return {path.name for path in self.files.glob("??/*")}

    def clear_renders(self, kept: Collection[str]) -> None:
        for folder in self.renders.iterdir():
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def remove(self, hashes: Iterable[str]) -> None:
        for content_hash in hashes:
            self.path(content_hash).unlink(missing_ok=True)
            shutil.rmtree(self.renders / content_hash, ignore_errors=True)

    # what waits

    @contextmanager
    def receiving(self) -> Iterator[tuple[str, IO[bytes]]]:
        job_id = secrets.token_hex(12)
        part = self._part(job_id)
        try:
            make_folder(self.waiting)
            with open(part, "xb", opener=opener) as file:
                yield job_id, file
        except OSError as error:
            raise explain(error, part) from error
        finally:
            part.unlink(missing_ok=True)

    def stage(self, job_id: str, file: IO[bytes]) -> str:
        part = self._part(job_id)
        try:
            file.close()
            with part.open("rb+") as written:
                os.fsync(written.fileno())
            content_hash = hash_file(part)  # of what reached the disk, and still in the page cache
            part.replace(self.staged(job_id))
            sync_folder(self.waiting)
        except OSError as error:
            raise explain(error, part) from error
        return content_hash

    def restage(self, job_id: str, file: Path) -> None:
        make_folder(self.waiting)
        shutil.copyfile(file, self.staged(job_id))

    def staged(self, job_id: str) -> Path:
        return self.waiting / job_id

    def _part(self, job_id: str) -> Path:
        return self.waiting / f"{job_id}.part"

    def unstage(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            self.staged(job_id).unlink(missing_ok=True)

    def clear_staged(self, kept: Collection[str]) -> None:
        oldest = time.time() - STALE_S
        for path in self.waiting.glob("*"):
            with suppress(OSError):
                if path.name not in kept and path.stat().st_mtime < oldest:
                    path.unlink()

    def earlier_uploads(self, known: Collection[str]) -> Iterator[Job]:
        """Uploads of a library from before jobs were rows, which lie in a folder of their own, as jobs to be submitted;
        the next is asked for when one is."""
        folder = self.files.parent / "uploads"
        names = {field.name for field in fields(Job)}
        for record in sorted(folder.glob("*.json")):
            data = record.with_suffix(".data")
            with suppress(OSError, ValueError, TypeError, AttributeError):  # damaged; the others are not
                found = {name: value for name, value in orjson.loads(record.read_bytes()).items() if name in names}
                job = Job(**found, source=f"upload:{found['id']}", kind="url" if found.get("url") else "upload")
                if data.is_file():
                    make_folder(self.waiting)
                    data.replace(self.staged(job.id))
                if job.id not in known and not record.with_suffix(".stop").exists():
                    yield job
                record.unlink()
        shutil.rmtree(folder, ignore_errors=True)

    # what is under way

    @contextmanager
    def workspace(self, worker: str) -> Iterator[Path]:
        folder = self._runs / worker
        try:
            make_folder(self._runs)
            make_folder(folder)
        except OSError as error:
            raise explain(error, folder) from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def clear_workspaces(self, alive: Callable[[], Collection[str]]) -> bool:
        found = list(self._runs.glob("*"))
        if not found:
            return False
        living = alive()  # asked after the look: who began in between has no folder in it
        left = [path for path in found if path.name not in living]
        for path in left:
            if path.is_file():  # the lock of an earlier version
                path.unlink(missing_ok=True)
            shutil.rmtree(path, ignore_errors=True)
        return bool(left)


class MemoryFiles:
    """The `Files` port of one process that keeps nothing; who must have a file gets one in a temporary folder."""

    def __init__(self) -> None:
        self._bytes: dict[str, bytes] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="refdesk-files-")
        self.renders = Path(self._folder.name, "renders")

    def path(self, content_hash: str) -> Path:
        path = Path(self._folder.name, content_hash or "none")
        if content_hash in self._bytes and not path.exists():
            path.write_bytes(self._bytes[content_hash])
        return path

    def has(self, content_hash: str) -> bool:
        return content_hash in self._bytes

    def put(self, data: bytes) -> str:
        content_hash = hash_bytes(data)
        self._bytes[content_hash] = data
        return content_hash

    def adopt(self, file: Path, content_hash: str) -> None:
        self._bytes[content_hash] = file.read_bytes()
        file.unlink()

    def damage(self, content_hash: str) -> str:
        data = self._bytes.get(content_hash)
        return "missing" if data is None else "altered" if hash_bytes(data) != content_hash else ""

    def hashes(self) -> set[str]:
        return set(self._bytes)

    def remove(self, hashes: Iterable[str]) -> None:
        for content_hash in hashes:
            self._bytes.pop(content_hash, None)
            Path(self._folder.name, content_hash).unlink(missing_ok=True)

    def clear_unfinished(self) -> None:
        """Nothing is ever half there."""

    def clear_renders(self, kept: Collection[str]) -> None:
        """They go with the process."""

    @contextmanager
    def receiving(self) -> Iterator[tuple[str, IO[bytes]]]:
        job_id = secrets.token_hex(12)
        part = self.staged(f"{job_id}.part")
        try:
            with part.open("xb") as file:
                yield job_id, file
        finally:
            part.unlink(missing_ok=True)

    def stage(self, job_id: str, file: IO[bytes]) -> str:
        file.close()
        self.staged(f"{job_id}.part").replace(self.staged(job_id))
        return hash_file(self.staged(job_id))

    def restage(self, job_id: str, file: Path) -> None:
        self.staged(job_id).write_bytes(file.read_bytes())

    def staged(self, job_id: str) -> Path:
        return Path(self._folder.name, f"job-{job_id}")

    def unstage(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            self.staged(job_id).unlink(missing_ok=True)

    def clear_staged(self, kept: Collection[str]) -> None:
        """They go with the process."""

    @contextmanager
    def workspace(self, worker: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="refdesk-run-") as folder:
            yield Path(folder)

    def clear_workspaces(self, alive: Callable[[], Collection[str]]) -> bool:
        return False  # who dies takes all of it along


# Page images that were rendered before: kept up to a size, the ones not asked for longest go first.

# --- pages as images: PDF pages and pictures, with boxes marked on them -----------------------------------------------

MOST_BYTES = 1 << 30
LOOKED_AFTER = 64 << 20  # bytes written between two looks at the whole folder


class BoundedFolder:
    """Files at `FOLDER/NAME/NAME` that can be had again, kept up to a size; those not asked for longest go first.

    Safe to use from several threads and processes.
    """

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self._lock = threading.Lock()
        self._written = LOOKED_AFTER  # so that the first write looks: others may have filled it

    def grew(self, size: int) -> None:
        """One more file of this size; now and then all of them are looked at."""
        with self._lock:
            self._written += size
            is_due = self._written >= min(LOOKED_AFTER, self._most_bytes // 4)
            self._written = 0 if is_due else self._written
        if is_due:
            self._shrink()

    def _shrink(self) -> None:
        """To nine tenths of what may be kept."""
        found = sorted((state.st_mtime_ns, state.st_size, path) for path, state in self._files())
        size = sum(size_bytes for _, size_bytes, _ in found)
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


class RenderCache(BoundedFolder):
    """`renders/HASH/PAGE-WIDTH.FORMAT`."""

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
            self.grew(len(data))


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
        raise UsageError(f"{document.name} has no page images", hint="use its text instead")
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


def picture_of(files: Files, cache: RenderCache, document: Document, chunk: Chunk, width: int) -> bytes | None:
    """The figure of a chunk as it was cut out, else its page as PNG; None where the format has no pages."""
    try:
        if chunk.image:
            return files.path(chunk.image).read_bytes()
        return page_image(files, cache, document, chunk.page, width)
    except (OSError, RefdeskError):  # an original that is gone, or cannot be rendered: its text is there
        return None


def figure_place(files: Files, chunk: Chunk) -> Box | None:
    """Where on its page a figure was cut out; None of one that does not say, as those of earlier versions."""
    try:
        with Image.open(files.path(chunk.image or "")) as picture:
            x, y, width, height = map(float, str(picture.info.get(FIGURE_PLACE, "")).split())
    except (OSError, ValueError):
        return None
    return Box(chunk.page, x, y, width, height)


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
            f"page {number} of {document.name} cannot be rendered: {error}", hint="an encrypted PDF is kept as it came"
        ) from error
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise UsageError(f"page {number} of {document.name} cannot be rendered: {error}") from error


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
