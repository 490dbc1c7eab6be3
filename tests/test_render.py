"""Pages as images: real PDFs and pictures, turned and broken ones too."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from refdesk import Box, Document, LibraryError, Refdesk, RefdeskError, UsageError
from refdesk.files.local import MARK, LocalFiles, RenderCache, page_image


def pdf(width: float = 200, height: float = 100, **options: str) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(width, height), **options)
    canvas.drawString(10, height / 2, "Harbour")
    canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def stored(folder: Path, data: bytes, format: str = "pdf", pages: int = 1) -> tuple[LocalFiles, Document]:
    files = LocalFiles(folder)
    return files, Document("id", f"name.{format}", "c", files.put(data), "ready", format=format, page_count=pages)


def draw(files: LocalFiles, document: Document, number: int, width: int, boxes: Sequence[Box] = ()) -> bytes:
    return page_image(files, RenderCache(files.renders), document, number, width, boxes)


def opened(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png)).convert("RGB")


def test_a_page_is_as_wide_as_asked_and_kept(tmp_path: Path) -> None:
    files, document = stored(tmp_path, pdf())
    first = draw(files, document, 1, 400)
    assert opened(first).size == (400, 200)
    assert [path.name for path in files.renders.rglob("*.png")] == ["1-400.png"]
    assert draw(files, document, 1, 400) == first


def test_the_images_not_asked_for_longest_go_first(tmp_path: Path) -> None:
    files, document = stored(tmp_path, pdf())
    drawn = RenderCache(files.renders, most_bytes=20_000)
    for page in range(1, 6):
        drawn.put("a", f"{page}-100.png", bytes(3_000))
        os.utime(files.renders / "a" / f"{page}-100.png", (page, page))
    assert drawn.get("a", "1-100.png") == bytes(3_000)  # and so it is the newest
    for page in range(1, 6):
        drawn.put("b", f"{page}-100.png", bytes(3_000))
    kept = {f"{path.parent.name}{path.name[0]}" for path in files.renders.glob("*/*.png")}
    assert sum(path.stat().st_size for path in files.renders.glob("*/*.png")) <= 25_000  # it looks now and then
    assert {"a1", "b5"} <= kept and not {"a2", "a3"} & kept
    assert drawn.get("a", "2-100.png") is None
    assert page_image(files, drawn, document, 1, 400) == page_image(files, drawn, document, 1, 400)


def test_an_image_that_goes_while_it_is_read_leaves_none_behind(tmp_path: Path) -> None:
    """Two readers and two writers, and room for a few: nobody ever sees an empty image."""
    drawn = RenderCache(tmp_path, most_bytes=20_000)
    names = [f"{page}-100.png" for page in range(1, 12)]

    def work(is_writing: bool) -> set[bytes | None]:
        seen: set[bytes | None] = set()
        for place in range(1500):
            name = names[place % len(names)]
            if is_writing:
                drawn.put("a", name, b"x" * 3_000)
            else:
                seen.add(drawn.get("a", name))
        return seen

    with ThreadPoolExecutor(4) as pool:
        seen = set().union(*pool.map(work, (True, True, False, False)))
    assert seen <= {None, b"x" * 3_000}
    assert all(path.stat().st_size for path in tmp_path.rglob("*.png"))


def test_boxes_are_marked_on_their_page_only(tmp_path: Path) -> None:
    files, document = stored(tmp_path, pdf())
    marked = opened(draw(files, document, 1, 400, [Box(1, 50, 0, 25, 20), Box(2, 0, 0, 100, 100)]))
    assert marked.getpixel((250, 20)) != (255, 255, 255)
    assert marked.getpixel((190, 20)) == marked.getpixel((310, 20)) == marked.getpixel((250, 60)) == (255, 255, 255)
    assert MARK[3] < 255, "the words show through"


def test_a_picture_that_was_taken_sideways_stands_upright(tmp_path: Path) -> None:
    """OCR reads it upright, so its boxes are of the upright picture."""
    picture = Image.new("RGB", (60, 20), "white")
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", exif=exif)
    files, document = stored(tmp_path, buffer.getvalue(), "image")
    assert opened(draw(files, document, 1, 20)).size == (20, 60)


@pytest.mark.parametrize(
    "number, width, message",
    [
        pytest.param(0, 100, "has pages 1 to 1, not 0", id="page_0"),
        pytest.param(2, 100, "has pages 1 to 1, not 2", id="page_2"),
        pytest.param(1, 0, "1 to 4000 pixels wide", id="no_width"),
        pytest.param(1, 10**6, "1 to 4000 pixels wide", id="a_million_wide"),
    ],
)
def test_wrong_pages_and_sizes(tmp_path: Path, number: int, width: int, message: str) -> None:
    files, document = stored(tmp_path, pdf())
    with pytest.raises(UsageError, match=message):
        draw(files, document, number, width)


@pytest.mark.parametrize(
    "data, format",
    [
        pytest.param(pdf(1, 14_000), "pdf", id="a_page_a_hair_wide"),
        pytest.param(pdf(encrypt="secret"), "pdf", id="an_encrypted_pdf"),
        pytest.param(b"%PDF-1.7 and nothing more", "pdf", id="a_broken_pdf"),
        pytest.param(b"not a picture", "image", id="a_broken_picture"),
    ],
)
def test_what_cannot_be_drawn_gets_one_sentence(tmp_path: Path, data: bytes, format: str) -> None:
    files, document = stored(tmp_path, data, format)
    with pytest.raises(RefdeskError, match="page 1 of name"):
        draw(files, document, 1, 4000)


def test_a_missing_original(tmp_path: Path) -> None:
    files, document = stored(tmp_path, pdf())
    files.path(document.content_hash).unlink()
    with pytest.raises(LibraryError, match=r"the original of name\.pdf is missing"):
        draw(files, document, 1, 100)


def test_formats_without_pages_have_no_images(examples: Refdesk) -> None:
    with pytest.raises(UsageError, match="has no page images"):
        examples.page_image("staff-handbook.docx", 1)


def test_threads_draw_at_once(examples: Refdesk) -> None:
    """PDFium ends the process when two threads are in it."""
    jobs = [(name, width) for name in ("tg4-drift-report.pdf", "wb7-mooring-sheet.pdf") for width in range(300, 316)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda job: examples.page_image(job[0], 1, width=job[1]), jobs))
    assert [opened(png).width for png in found] == [width for _, width in jobs]
