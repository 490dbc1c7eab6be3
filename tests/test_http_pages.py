"""Pages over HTTP, against a real server: images with lines marked on them, and text with the place of every word."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from PIL import Image

from http_server import Server, serving
from pdf_samples import plain
from refdesk import Refdesk


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "plain.pdf").write_bytes(plain("Helvetica", 11).data)
    (folder / "note.md").write_text("# Weir\n\nThe weir is öpen at ebb.\n", encoding="utf-8")
    with Refdesk(folder / "library", settings={"ingest.workers": 1, "ingest.ocr": False}) as found:
        found.add(folder / "plain.pdf", folder / "note.md")
        yield found


@pytest.fixture(scope="module")
def server(desk: Refdesk) -> Iterator[Server]:
    with serving(desk) as found:
        yield found


def place(desk: Refdesk, name: str, page: int = 1) -> str:
    return f"/api/documents/{desk.document(name).id}/pages/{page}"


def picture(answer: httpx2.Response) -> Image.Image:
    assert answer.status_code == 200, answer.text
    return Image.open(io.BytesIO(answer.content))


@pytest.mark.parametrize(("format", "width"), [("png", 400), ("webp", 400), ("png", 333), ("webp", 16)])
def test_an_image_has_its_format_and_width(server: Server, desk: Refdesk, format: str, width: int) -> None:
    answer = server.get(f"{place(desk, 'plain.pdf')}/image", params={"width": width, "format": format})
    found = picture(answer)
    assert (found.format, found.width) == (format.upper(), width)
    assert found.height == pytest.approx(width * 842 / 595, abs=1)
    assert answer.headers["content-type"] == f"image/{format}"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "private" in answer.headers["cache-control"], "no proxy keeps it for others"


def test_the_head_of_an_image_is_told_without_it(server: Server, desk: Refdesk) -> None:
    path = f"{place(desk, 'plain.pdf')}/image?width=400&format=webp"
    head, whole = server.request("HEAD", path), server.get(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("etag", "content-type", "content-length", "cache-control"):
        assert head.headers[name] == whole.headers[name]
    known = server.request("HEAD", path, headers={"If-None-Match": whole.headers["etag"]})
    assert known.status_code == 304
    assert server.request("HEAD", f"{place(desk, 'note.md')}/image").status_code == 404


def test_the_head_of_an_original_is_told_without_it(server: Server, desk: Refdesk) -> None:
    path = f"/api/documents/{desk.document('plain.pdf').id}/original"
    head, whole = server.request("HEAD", path), server.get(path)
    assert (head.status_code, head.content) == (200, b"") and int(head.headers["content-length"]) == len(whole.content)
    for name in ("etag", "content-type", "content-disposition", "accept-ranges"):
        assert head.headers[name] == whole.headers[name]
    known = server.request("HEAD", path, headers={"If-None-Match": whole.headers["etag"]})
    assert known.status_code == 304
    assert server.request("HEAD", "/api/documents/nothing/original").status_code == 404


def test_only_round_widths_are_kept(server: Server, desk: Refdesk) -> None:
    path = f"{place(desk, 'plain.pdf')}/image"
    for width in (700, 701, 702):
        assert server.get(path, params={"width": width}).status_code == 200
    kept = {one.name for one in (desk.folder / "renders").rglob("*-7*.png")}
    assert kept == {"1-700.png"}


def test_who_has_the_image_gets_no_second_one(server: Server, desk: Refdesk) -> None:
    path = f"{place(desk, 'plain.pdf')}/image?width=400"
    tag = server.get(path).headers["etag"]
    for header in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = server.get(path, headers={"If-None-Match": header})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    others = ["width=500", "width=400&format=webp", "width=400&boxes=[[1,1,1,1]]"]
    tags = {server.get(f"{place(desk, 'plain.pdf')}/image?{one}").headers["etag"] for one in others}
    assert len(tags) == 3 and tag not in tags


def test_the_marked_box_covers_the_quoted_words(server: Server, desk: Refdesk) -> None:
    page = server.get(f"{place(desk, 'plain.pdf')}/text").json()
    line = [one for one in page["words"] if one["line"] == page["words"][0]["line"]]
    x, y = line[0]["x"], min(one["y"] for one in line)
    box = [x, y, line[-1]["x"] + line[-1]["width"] - x, max(one["y"] + one["height"] for one in line) - y]
    query = {"width": 800, "boxes": json.dumps([box], separators=(",", ":"))}
    before = picture(server.get(f"{place(desk, 'plain.pdf')}/image", params={"width": 800})).convert("RGB")
    after = picture(server.get(f"{place(desk, 'plain.pdf')}/image", params=query)).convert("RGB")
    inside = (int((x + 0.5) / 100 * 800), int((y + 0.2) / 100 * after.height))
    assert before.getpixel(inside) != after.getpixel(inside)
    assert before.getpixel((5, 5)) == after.getpixel((5, 5))
    webp = picture(server.get(f"{place(desk, 'plain.pdf')}/image", params=query | {"format": "webp"})).convert("RGB")
    red, green, blue = webp.getpixel(inside)  # type: ignore[misc]
    assert blue < min(red, green) - 20, "a marker's yellow"


def test_words_stand_where_the_text_says(server: Server, desk: Refdesk) -> None:
    page = server.get(f"{place(desk, 'plain.pdf')}/text").json()
    assert (page["page"], page["width"], page["height"], page["ocr"]) == (1, 595.0, 842.0, False)
    assert page["start"] == 0 and page["document_id"] == desk.document("plain.pdf").id
    words = [page["text"][one["start"] : one["end"]] for one in page["words"]]
    assert words == page["text"].split()
    for one in page["words"]:
        assert 0 <= one["x"] <= one["x"] + one["width"] <= 100 and 0 <= one["y"] <= one["y"] + one["height"] <= 100


def test_a_format_without_pages_has_text_and_no_image(server: Server, desk: Refdesk) -> None:
    page = server.get(f"{place(desk, 'note.md')}/text").json()
    assert "öpen" in page["text"] and page["words"] == [] and page["width"] == 0
    refused = server.get(f"{place(desk, 'note.md')}/image")
    assert refused.status_code == 404 and "no page images" in refused.json()["message"]
    assert server.get(f"/api/documents/{desk.document('note.md').id}").json()["has_page_images"] is False


@pytest.mark.parametrize(
    "query",
    [
        *("width=0", "width=15", "width=3001", "width=wide", "format=gif", "boxes=[[1,2,3]]", "boxes=[[1,2,3,400]]"),
        *(
            "boxes=[1,2,3,4]",
            "boxes={}",
            "boxes=[[1,2,3,-1]]",
            "boxes=[[true,1,1,1]]",
            "boxes=[[1,2,3,1e999]]",
            "boxes=x",
        ),
        "boxes=[" + ",".join(["[1,1,1,1]"] * 101) + "]",
    ],
)
def test_what_is_out_of_bounds_is_refused(server: Server, desk: Refdesk, query: str) -> None:
    answer = server.get(f"{place(desk, 'plain.pdf')}/image?{query}")
    assert answer.status_code == 400 and answer.json()["code"] == "usage_error"


@pytest.mark.parametrize(("page", "status"), [("2", 404), ("99999", 404), ("0", 400), ("-1", 400), ("one", 400)])
def test_pages_that_are_not_there(server: Server, desk: Refdesk, page: str, status: int) -> None:
    document = desk.document("plain.pdf").id
    for what in ("image", "text"):
        assert server.get(f"/api/documents/{document}/pages/{page}/{what}").status_code == status


def test_many_readers_at_once(server: Server, desk: Refdesk) -> None:
    path = f"{place(desk, 'plain.pdf')}/image"
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda width: server.get(path, params={"width": width}), range(200, 1000, 25)))
    assert {one.status_code for one in answers} == {200}
