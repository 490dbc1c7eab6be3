"""A document's pages over HTTP: as an image with lines marked on it, and as text with the place of every word."""

from __future__ import annotations

import hashlib
import math
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Path, Query, Request
from starlette.responses import FileResponse, Response

from refdesk.access import Caller
from refdesk.desk import Refdesk
from refdesk.errors import NotFound, UsageError
from refdesk.serve.http.documents import WITH_IMAGES, is_known, readable
from refdesk.serve.http.errors import reply
from refdesk.serve.http.guard import Library, Who
from refdesk.serve.http.openapi import Responses, about, returns_bytes
from refdesk.serve.http.requests import DocumentId
from refdesk.types import Box, Document, Geometry, Page

NARROWEST, WIDEST = 16, 3000  # pixels
MOST_BOXES = 100
LONGEST_BOXES = 4000  # characters; an address has some 64,000 bytes at most

router = APIRouter(prefix="/api", tags=["documents"])
Number = Annotated[int, Path(ge=1, le=10_000_000, description="The page, from 1.")]
Boxes = Annotated[
    str,
    Query(
        max_length=LONGEST_BOXES,
        description="Boxes to mark, as JSON: `[[x, y, width, height], …]` in per cent of the page, 100 at most.",
        examples=["[[10,41.5,63,1.6]]"],
    ),
]
UNCHANGED: Responses = {304: {"description": "Not modified"}}


@router.head("/documents/{document_id}/pages/{number}/image", include_in_schema=False)
@router.get(
    "/documents/{document_id}/pages/{number}/image",
    summary="Get a page as an image",
    responses=returns_bytes("image/png", "image/webp", description="The image") | UNCHANGED,
)
def image(
    request: Request,
    desk: Library,
    caller: Who,
    document_id: DocumentId,
    number: Number,
    width: Annotated[int, Query(ge=NARROWEST, le=WIDEST, description="Pixels.")] = 1000,
    format: Literal["png", "webp"] = "png",
    boxes: Boxes = "",
) -> Response:
    """For PDFs and pictures; other formats have text only."""
    document = readable(desk, caller, document_id)
    if document.format not in WITH_IMAGES:
        raise NotFound(f"{document.name} has no page images", hint="its text can be shown instead")
    _page(desk, caller, document, number)
    marked = checked_boxes(boxes, number)
    tag = _tag(document, number, width, format, marked)
    headers = {"ETag": tag, "Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff"}
    if is_known(request.headers.get("if-none-match", ""), tag):
        return Response(status_code=304, headers=headers)
    data = desk.page_image(document.id, number, width=width, boxes=marked, format=format, access=caller.access)
    return Response(data, headers=headers, media_type=f"image/{format}")


@router.get("/documents/{document_id}/pages/{number}/text", **about("Get a page's text", "PageText"))
def text(desk: Library, caller: Who, document_id: DocumentId, number: Number) -> Response:
    """With the box of every word where the format has pages."""
    document = readable(desk, caller, document_id)
    page = _page(desk, caller, document, number)
    found = desk.pages(document.id, number, access=caller.access)
    words = _words(found[0].words, page) if found and found[0].words is not None else []
    return reply(
        {
            "document_id": document.id,
            "page": number,
            "label": page.label,
            "start": page.start,
            "width": page.width,
            "height": page.height,
            "ocr": page.ocr,
            "text": found[0].text,
            "words": words,
        }
    )


def checked_boxes(text: str, page: int) -> tuple[Box, ...]:
    """`[[10, 41.5, 63, 1.6]]` -> the boxes on this page."""
    if not text:
        return ()
    wrong = UsageError("boxes are [[x, y, width, height], …] in per cent of the page", hint=f"{MOST_BOXES} at most")
    try:
        rows = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise wrong from None
    if not isinstance(rows, list) or len(rows) > MOST_BOXES:
        raise wrong
    found = []
    for row in rows:
        if not isinstance(row, list) or len(row) != 4 or not all(_is_share(one) for one in row):
            raise wrong
        found.append(Box(page, *(float(one) for one in row)))
    return tuple(found)


def _is_share(value: Any) -> bool:
    return (
        isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value <= 100
    )


def _page(desk: Refdesk, caller: Caller, document: Document, number: int) -> Page:
    found = desk.pages(document.id, number, access=caller.access)
    if not found:
        raise NotFound(f"{document.name} has pages 1 to {document.page_count}, not {number}")
    return found[0].page


def _words(words: Geometry, page: Page) -> list[dict[str, Any]]:
    first = int(words.line[0]) if len(words) else 0
    rows = zip(words.start.tolist(), words.end.tolist(), words.line.tolist(), words.edges.tolist(), strict=True)
    return [
        {
            "start": start - page.start,
            "end": end - page.start,
            "line": line - first,
            "x": round(left, 3),
            "y": round(top, 3),
            "width": round(right - left, 3),
            "height": round(bottom - top, 3),
        }
        for start, end, line, (left, top, right, bottom) in rows
    ]


def _tag(document: Document, number: int, width: int, format: str, boxes: tuple[Box, ...]) -> str:
    parts = f"{document.content_hash} {number} {width} {format} {boxes}"
    return f'"{hashlib.blake2b(parts.encode(), digest_size=12).hexdigest()}"'


# Figures over HTTP: the pictures that were cut out of documents, at the address that passages give a model.

Hash = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The hash of its content.", examples=["9f" * 32])]


@router.head("/images/{image}", include_in_schema=False)
@router.get(
    "/images/{image}",
    summary="Get a figure",
    responses=returns_bytes("image/png", description="The figure") | UNCHANGED,
)
def figure(request: Request, desk: Library, caller: Who, image: Hash) -> Response:
    """A PNG image that was cut out of a document."""
    path = desk.figure(image, access=caller.access)
    headers = {
        "ETag": f'"{image}"',
        "Cache-Control": "private, no-cache",  # the content never changes, who may see it does
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    if is_known(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    request.scope["headers"] = [pair for pair in request.scope["headers"] if pair[0] != b"range"]
    return FileResponse(path, headers=headers, media_type="image/png")
