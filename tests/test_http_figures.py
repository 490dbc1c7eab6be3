"""Figures and the example documents over HTTP, and what is said of documents that have not been read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from docx import Document as Word
from docx.shared import Inches
from PIL import Image

from http_server import Server, serving
from library_samples import open_desk, wait_until
from refdesk import Refdesk
from refdesk.serve import example_folder


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Refdesk]:
    with open_desk(tmp_path / "library") as found:
        yield found


@pytest.fixture
def server(desk: Refdesk) -> Iterator[Server]:
    with serving(desk) as found:
        yield found


def with_figure(path: Path, colour: str) -> Path:
    """A Word document with one picture of a colour."""
    drawn = io.BytesIO()
    picture = Image.new("RGB", (320, 240), colour)
    picture.paste("white", (40, 40, 200, 120))
    picture.save(drawn, "PNG")
    document = Word()
    document.add_heading("Mooring", 1)
    document.add_paragraph("The buoy is held by three chains, as the drawing shows.")
    shape = document.add_picture(io.BytesIO(drawn.getvalue()), width=Inches(3))
    shape._inline.docPr.set("descr", "Drawing of a buoy with three chains")
    document.save(str(path))
    return path


def image_of(desk: Refdesk, name: str) -> str:
    return next(one.image for one in desk.chunks(name) if one.image)


def message(answer: httpx2.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert {"code", "message", "hint", "request_id"} <= answer.json().keys()
    return str(answer.json()["message"])


def test_a_figure_is_served_at_the_address_that_passages_name(server: Server, desk: Refdesk, tmp_path: Path) -> None:
    desk.add(with_figure(tmp_path / "mooring.docx", "navy"))
    address = f"/api/images/{image_of(desk, 'mooring.docx')}"
    answer = server.get(address)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    assert Image.open(io.BytesIO(answer.content)).convert("RGB").getpixel((5, 5)) == (0, 0, 128)
    known = server.get(address, headers={"If-None-Match": answer.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")
    head = server.request("HEAD", address)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", answer.headers["etag"])
    assert int(head.headers["content-length"]) == len(answer.content) and head.headers["content-type"] == "image/png"
    assert message(server.get("/api/images/" + "0" * 64), 404) == f"there is no figure '{'0' * 64}'"
    message(server.get("/api/images/..%2Flibrary.db"), 404)
    message(server.get("/api/images/mooring"), 400)


def test_the_original_of_a_document_is_no_figure(server: Server, desk: Refdesk, tmp_path: Path) -> None:
    """Both are kept under the hash of their content; only figures are given out here."""
    (document,) = (one.document for one in desk.add(with_figure(tmp_path / "mooring.docx", "navy")))
    assert document is not None
    message(server.get(f"/api/images/{document.content_hash}"), 404)
    desk.remove(document.id)
    message(server.get(f"/api/images/{document.content_hash}"), 404)


def test_a_figure_is_only_for_those_who_may_read_a_document_that_holds_it(
    server: Server, desk: Refdesk, tmp_path: Path
) -> None:
    desk.add(with_figure(tmp_path / "secret.docx", "navy"), collection="board")
    secret = image_of(desk, "secret.docx")
    _, reader = desk.keys.add("Rita", "reader", ("open",))
    _, board = desk.keys.add("Bo", "reader", ("board",))
    assert server.get(f"/api/images/{secret}", key=board).status_code == 200
    hidden = message(server.get(f"/api/images/{secret}", key=reader), 404)
    unknown = message(server.get("/api/images/" + "0" * 64, key=reader), 404)
    assert hidden.replace(secret, "") == unknown.replace("0" * 64, "")
    assert server.get(f"/api/images/{secret}").status_code == 401
    desk.add(with_figure(tmp_path / "flyer.docx", "navy"), collection="open")  # with the same picture
    assert server.get(f"/api/images/{secret}", key=reader).status_code == 200


def test_examples_go_through_the_queue(server: Server, desk: Refdesk) -> None:
    answer = server.post("/api/examples?wait=false")
    assert answer.status_code == 202, answer.text
    said = answer.json()
    files = sorted(one.name for one in example_folder().iterdir())
    assert sorted(one["name"] for one in said["uploads"]) == files
    assert said["collection"] == "examples" and said["added"] + said["waiting"] == len(files)
    seen: set[str] = set()

    def progress() -> bool:
        listed = server.get("/api/uploads").json()["uploads"]
        seen.update(one["status"] for one in listed)
        return all(one["status"] in ("ready", "failed") for one in listed)

    assert wait_until(progress)
    assert {"processing", "ready"} <= seen
    again = server.post("/api/examples")  # answers when they are all there, which they are
    assert (again.status_code, again.json()["added"]) == (200, len(files) - 1)
    assert [one["name"] for one in again.json()["failed"]] == ["harbour-authority-letter.pdf"], "a scan, and OCR is off"
    assert {one["outcome"] for one in again.json()["uploads"]} == {"unchanged", ""}


def test_what_is_not_read_yet_or_could_not_be_says_so(server: Server, desk: Refdesk) -> None:
    long = b"The gauge was read at noon, and the tide was falling. " * 6_000
    parts = [("files", (name, data)) for name, data in (("torn.pdf", b"%PDF-1.7 torn"), ("long.md", long))]
    server.post("/api/documents", files=parts)
    listed = {}

    def both_begun() -> bool:
        listed.update({one["name"]: one for one in server.get("/api/documents").json()["documents"]})
        return {one["status"] for one in listed.values()} == {"failed", "processing"}

    assert wait_until(both_begun)
    for kind in ("pages/1/text", "pages/1/image", "original"):
        torn = message(server.get(f"/api/documents/{listed['torn.pdf']['id']}/{kind}"), 404)
        assert torn.startswith("torn.pdf could not be read: this PDF is damaged or incomplete")
        waits = message(server.get(f"/api/documents/{listed['long.md']['id']}/{kind}"), 404)
        assert waits == "long.md is not ready yet: it is processing"
    gone = server.client.delete(f"/api/documents/{listed['long.md']['id']}")
    assert gone.json() == {"deleted": [listed["long.md"]["id"]]}, "it is put down"
    assert [one["name"] for one in server.get("/api/documents").json()["documents"]] == ["torn.pdf"]


@pytest.mark.parametrize(
    ("wanted", "status", "length"),
    [
        ("bytes=0-3", 206, 4),
        ("bytes=-3", 206, 3),
        ("bytes=4-", 206, 16),
        ("bites=0-3", 200, 20),
        ("bytes=9-2", 200, 20),
        ("bytes=0-1,4-5", 200, 20),
        ("bytes=x", 200, 20),
    ],
)
def test_parts_of_the_original(
    server: Server, desk: Refdesk, tmp_path: Path, wanted: str, status: int, length: int
) -> None:
    (tmp_path / "note.txt").write_bytes(b"The lamp is lit now.")
    desk.add(tmp_path / "note.txt")
    address = f"/api/documents/{desk.document('note.txt').id}/original"
    answer = server.get(address, headers={"Range": wanted})
    assert (answer.status_code, len(answer.content)) == (status, length)
    assert server.get(address, headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    beyond = server.get(address, headers={"Range": "bytes=20-"})
    assert message(beyond, 416) == "the file is only 20 bytes long"
    assert beyond.headers["content-range"] == "bytes */20"


def test_documents_are_sorted_as_wanted(server: Server, desk: Refdesk) -> None:
    for name, text, place in (("b.md", "Ebb.", "x"), ("A.md", "Flood at four.", "y"), ("c.md", "Slack water.", "x")):
        desk.add_text(name, text, collection=place)

    def names(query: str) -> list[str]:
        return [one["name"] for one in server.get(f"/api/documents?{query}").json()["documents"]]

    assert names("") == names("sort=place") == ["b.md", "c.md", "A.md"]
    assert names("sort=name") == ["A.md", "b.md", "c.md"] and names("sort=name&order=down") == ["c.md", "b.md", "A.md"]
    assert names("sort=added") == ["b.md", "A.md", "c.md"]
    assert names("sort=size&order=down&limit=1&offset=1") == ["c.md"]
    assert "sort" in message(server.get("/api/documents?sort=colour"), 400)
    assert names("q=%20%20a.md%20") == ["A.md"]
