"""Documents over HTTP: upload, progress, list, download, rename, move, delete; pages, tables and figures.

Callers see the documents of their collections; for others they do not exist.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, asynccontextmanager
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from pydantic import Field, TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from refdesk.arguments import checked_collection, checked_metadata
from refdesk.caller_desk import CallerDesk
from refdesk.errors import NotFound, UsageError
from refdesk.records import Caller, PageText, StoredTable
from refdesk.serve import EXAMPLES, example_folder
from refdesk.serve.fetch import checked_networks, checked_url, fetch
from refdesk.serve.http import requests
from refdesk.serve.http import responses as shapes
from refdesk.serve.http.guard import Desk, Service, Serving, Who
from refdesk.serve.http.observe import reply
from refdesk.serve.http.openapi import Responses, about, failures, returns, returns_bytes, returns_events
from refdesk.serve.http.requests import CollectionName, DocumentId, UploadId
from refdesk.serve.http.sse import EventResponse, Named
from refdesk.serve.uploads import Uploads, new_upload, receive
from refdesk.tables import tables_on
from refdesk.trace import in_thread
from refdesk.types import Box, Document, Geometry, Job, Page

WITH_IMAGES = ("pdf", "image")  # formats whose pages can be drawn

document_routes = APIRouter(prefix="/api", tags=["documents"])
FORM = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": {"type": "array", "items": {"type": "string", "format": "binary"}},
                        "collection": {
                            "type": "string",
                            "description": "Collection to add them to; default: `default`.",
                        },
                        "metadata": {"type": "string", "description": "A JSON object with string values."},
                        "password": {"type": "string", "description": "Password for encrypted PDFs."},
                    },
                },
                "encoding": {"files": {"contentType": "application/octet-stream"}},
            }
        },
    }
}


FOLLOWED_S = 120.0  # then the reader comes back, with a key that is looked at anew
EVENTS = returns_events(upload=shapes.Upload, error=shapes.ErrorEvent)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Goes on with what was accepted before, and puts the work down at the end."""
    app.state.uploads = Uploads(app.state.service.desk)
    app.state.uploads.start()
    try:
        yield
    finally:
        await asyncio.to_thread(app.state.uploads.stop)


upload_routes = APIRouter(prefix="/api/uploads", tags=["uploads"], lifespan=lifespan)
ROUTERS = (document_routes, upload_routes)


async def _uploads(request: Request) -> Uploads:
    found: Uploads = request.app.state.uploads
    return found


Queue = Annotated[Uploads, Depends(_uploads)]


def upload_json(upload: Job) -> dict[str, Any]:
    """As callers see it: whose key it was is nobody else's business."""
    found = upload.to_dict() | {"upload_id": upload.id}
    del found["owner"]
    return found


def document_json(document: Document) -> dict[str, Any]:
    """As callers see it: the place on the server's disk stays there."""
    found = document.to_dict() | {"has_page_images": document.status == "ready" and document.format in WITH_IMAGES}
    del found["source"]
    return found


# handing in


@document_routes.post(
    "/documents",
    status_code=202,
    summary="Upload files",
    responses=returns(shapes.UploadList, 202, "Accepted; added in the background") | failures(413, 507),
    openapi_extra=FORM,
)
async def upload(request: Request, desk: Desk, queue: Queue) -> Response:
    """Each file is accepted once it is safely on disk; /api/uploads shows its progress.

    File types are detected from the content. An upload replaces an earlier one with the same name.
    """
    desk.require("add")
    await in_thread(queue.check_room)
    with ExitStack() as stack:
        settings = await in_thread(lambda: desk.settings)
        form = await receive(request, queue.receiving, stack, settings.max_upload_mb)
        if not form.files:
            raise UsageError("the form has no file", hint="send files in the field 'files'")
        collection = desk.place_for(form.fields.get("collection", ""))
        metadata = _metadata(form.fields.get("metadata", ""))
        password = form.fields.get("password") or None
        accepted = []
        for file in form.files:
            new = new_upload(
                file.upload_id, file.name, collection, desk.caller, size=file.size, metadata=metadata, password=password
            )
            accepted.append(await asyncio.to_thread(queue.accept, new, file.file))
    queue.wake()
    return reply({"uploads": [upload_json(job) for job in accepted]}, 202)


@document_routes.post(
    "/documents/url", **about("Add a document from a URL", shapes.UploadList, 413, 422, 507, status=202)
)
async def upload_url(desk: Desk, queue: Queue, body: requests.UrlIn) -> Response:
    """http and https only; private networks are refused."""
    collection = desk.place_for(body.collection)
    await in_thread(queue.check_room)
    settings = await in_thread(lambda: desk.settings)
    url = checked_url(body.url).geturl()
    with queue.receiving() as (upload_id, file):
        most, networks = settings.max_upload_mb << 20, checked_networks(settings.fetch_networks)
        fetched = await fetch(url, file, most_bytes=most, networks=networks)
        metadata = {"url": fetched.url} | checked_metadata(body.metadata)
        new = new_upload(
            upload_id, fetched.name, collection, desk.caller, size=fetched.size, metadata=metadata, url=fetched.url
        )
        accepted = await asyncio.to_thread(queue.accept, new, file)
    queue.wake()
    return reply({"uploads": [upload_json(accepted)]}, 202)


def _metadata(text: str) -> dict[str, str]:
    try:
        return checked_metadata(orjson.loads(text)) if text.strip() else {}
    except orjson.JSONDecodeError:
        raise UsageError("metadata must be a JSON object with string values", hint='write {"year": "2024"}') from None


# uploads: how far each has come, as a list and as events; another try; taken back


@upload_routes.get("", **about("List uploads", shapes.UploadList))
def uploads(queue: Queue, caller: Who) -> Response:
    """Lists your own uploads, newest first; admins see everyone's. Finished ones are listed for a day."""
    return reply({"uploads": [upload_json(job) for job in queue.listed(caller)]})


@upload_routes.get("/events", summary="Follow uploads", responses=EVENTS)
async def events(request: Request, queue: Queue, caller: Who, service: Serving) -> Response:
    """Sends an `upload` event for each upload, then for each change. Ends after two minutes; then reconnect."""
    stream = service.streams.begin(caller.id, _changes(service, queue, caller), request.state.request_id)
    return EventResponse(stream)


async def _changes(service: Service, queue: Uploads, caller: Caller) -> AsyncGenerator[Named, None]:
    until = time.monotonic() + FOLLOWED_S
    changes = queue.changes(caller)
    async with aclosing(changes):
        async for changed in changes:
            if caller.id and await in_thread(service.desk.keys.of, caller.id) != caller:  # revoked or changed meanwhile
                return
            for job in changed:
                yield "upload", upload_json(job)
            if time.monotonic() > until:
                return


@upload_routes.get("/{upload_id}", name="upload", **about("Get an upload", shapes.Upload))
def one_upload(queue: Queue, caller: Who, upload_id: UploadId) -> Response:
    return reply(upload_json(queue.get(upload_id, caller)))


@upload_routes.post("/{upload_id}/retry", name="retry", **about("Retry", shapes.Upload, status=202))
def retry_upload(queue: Queue, caller: Who, upload_id: UploadId, body: requests.RetryIn | None = None) -> Response:
    return reply(upload_json(queue.retry(upload_id, caller, body.password if body else None)), 202)


@upload_routes.delete("/{upload_id}", **about("Cancel or remove an upload", shapes.Deleted))
def forget(queue: Queue, caller: Who, upload_id: UploadId) -> Response:
    """Cancels an unfinished upload, or removes a finished one from the list; its document stays."""
    return reply({"deleted": queue.forget(upload_id, caller).id})


# looking


@document_routes.get("/documents", **about("List documents", shapes.DocumentPage))
def documents(
    desk: Desk,
    collection: Annotated[str, Query(max_length=1000, description="Only this collection and its subcollections.")] = "",
    status: Annotated[str, Query(max_length=20, description="pending, processing, ready or failed.")] = "",
    q: Annotated[str, Query(max_length=1000, description="Only documents with this in their name or title.")] = "",
    sort: Annotated[
        Literal["place", "name", "size", "pages", "added", "changed", "status"],
        Query(description="`place`: by collection, then by name."),
    ] = "place",
    order: Literal["up", "down"] = "up",
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
) -> Response:
    wanted: Any = {"collection": collection or None, "status": status or None, "text": q, "sort": sort}
    found, total = desk.list_documents(**wanted, limit=limit, offset=offset, is_falling=order == "down")
    listed = [document_json(document) for document in found]
    return reply({"documents": listed, "total": total, "limit": limit, "offset": offset})


@document_routes.get("/documents/{document_id}", **about("Get a document", shapes.Document))
def document(desk: Desk, document_id: DocumentId) -> Response:
    return reply(document_json(desk.find_document(document_id)))


@document_routes.head("/documents/{document_id}/original", include_in_schema=False)
@document_routes.get(
    "/documents/{document_id}/original",
    summary="Download the original file",
    responses=returns_bytes("application/octet-stream", description="The file")
    | {206: {"description": "The range"}, 304: {"description": "Not modified"}}
    | failures(416),
)
def original(request: Request, desk: Desk, document_id: DocumentId) -> Response:
    """Always sent as a download, so that HTML files cannot run on this site. Supports range requests."""
    found = desk.find_document(document_id, is_read=True)
    path = desk.original(found.id)
    headers = _cached(found.content_hash)
    if _is_known(request, headers):
        return Response(status_code=304, headers=headers)
    if not _is_range(request.headers.get("range", ""), path.stat().st_size):
        _without_range(request)
    name = PurePosixPath(found.name).name or "document"
    return FileResponse(path, headers=headers, media_type="application/octet-stream", filename=name)


def _cached(tag: str) -> dict[str, str]:
    """The content under a tag never changes, who may see it does; and whatever it is, it runs nothing."""
    return {
        "ETag": f'"{tag}"',
        "Cache-Control": "private, no-cache",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }


def _is_known(request: Request, headers: Mapping[str, str]) -> bool:
    """`If-None-Match: W/"a", "b"` holds `"b"`; `*` holds all."""
    known = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    return headers["ETag"] in known or "*" in known


def _without_range(request: Request) -> None:
    request.scope["headers"] = [pair for pair in request.scope["headers"] if pair[0] != b"range"]


def _is_range(header: str, size: int) -> bool:
    """`bytes=0-99` is one; several, or what cannot be understood, are answered with the whole (RFC 9110, 14.2)."""
    found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", header.strip())
    if found is None or found.groups() == ("", ""):
        return False
    first, last = (int(group) if group else None for group in found.groups())
    if first is not None and last is not None and first > last:
        return False
    if (first is not None and first >= size) or (first is None and last == 0):
        message = f"the file is only {size:,} bytes long"
        raise HTTPException(416, message, {"Content-Range": f"bytes */{size}"})
    return True


@document_routes.post("/documents/{document_id}/retry", **about("Retry", shapes.Upload, status=202))
def retry(desk: Desk, queue: Queue, document_id: DocumentId, body: requests.RetryIn | None = None) -> Response:
    """Reads the uploaded file again, or the original on the server."""
    found = desk.find_document(document_id)
    return reply(upload_json(queue.retry_document(found, desk.caller, body.password if body else None)), 202)


IndexedId = Annotated[str, Query(min_length=1, max_length=100, description="The document's id.")]


@document_routes.post("/ingest/index", name="index", **about("Index a document", shapes.Indexed, 404))
def index_document(desk: Desk, queue: Queue, doc_id: IndexedId) -> Response:
    """Uploads are indexed automatically; this repairs an incomplete index and retries a failed document."""
    found = desk.find_document(doc_id)
    chunks = indexed = 0
    status: str = found.status
    if status == "ready":
        chunks, indexed = desk.make_indexed(doc_id)
    elif status == "failed":
        status = queue.retry_document(found, desk.caller).status
    return reply(
        {"doc_id": doc_id, "document_name": found.name, "status": status, "chunks": chunks, "indexed": indexed}
    )


# Changing


@document_routes.patch("/documents/{document_id}", **about("Rename or move a document", shapes.Document))
def change(desk: Desk, queue: Queue, document_id: DocumentId, body: requests.ChangeIn) -> Response:
    found = desk.find_document(document_id)
    _require_idle(desk, queue, [found])
    if body.collection is not None:
        found = desk.move(found.id, body.collection, name=body.name)
    elif body.name is not None:
        found = desk.rename(found.id, body.name)
    return reply(document_json(found))


@document_routes.delete("/documents/{document_id}", **about("Delete a document", shapes.DeletedDocuments))
def delete(desk: Desk, queue: Queue, document_id: DocumentId) -> Response:
    """Deletes its attachments too, immediately and for everyone. Cancels it if it is still being added."""
    return _deleted(desk, queue, [desk.find_document(document_id)])


@document_routes.post("/documents/move", **about("Move several documents", shapes.MovedDocuments, 404))
def move(desk: Desk, queue: Queue, body: requests.MoveIn) -> Response:
    """Moves all of them or none."""
    found = [desk.find_document(document) for document in body.documents]
    _require_idle(desk, queue, found)
    return _moved(desk.move_all([document.id for document in found], body.collection))


@document_routes.post("/documents/delete", **about("Delete several documents", shapes.DeletedDocuments, 404))
def delete_several(desk: Desk, queue: Queue, body: requests.DocumentsIn) -> Response:
    """Deletes their attachments too. Deletes all of them, or none if one is not permitted."""
    return _deleted(desk, queue, [desk.find_document(fromkey) for fromkey in dict.fromkeys(body.documents)])


@document_routes.patch("/collections/{name:path}", **about("Rename a collection", shapes.MovedDocuments))
def rename_collection(desk: Desk, queue: Queue, name: CollectionName, body: requests.RenameIn) -> Response:
    """Renames its subcollections too; moves all documents or none. Keys do not change.

    If the new name already exists, the two collections are merged.
    """
    place = desk.existing_collection(name)
    desk.require("move", place, checked_collection(body.name))
    if waiting := queue.waiting_in(place):
        files = "a file is" if len(waiting) == 1 else f"{len(waiting):,} files are"
        raise UsageError(f"{files} being added to {place}", hint="wait until they are ready")
    return _moved(desk.rename_collection(place, body.name))


@document_routes.delete("/collections/{name:path}", **about("Delete a collection", shapes.DeletedDocuments))
def delete_collection(desk: Desk, queue: Queue, name: CollectionName) -> Response:
    """Deletes its subcollections too, immediately and for everyone. Cancels running uploads."""
    place = desk.existing_collection(name)
    desk.require("delete", place)
    found = {document.id: document for document in desk.documents(collection=place)}
    queue.cancel(queue.waiting_in(place))
    found |= {document.id: document for document in desk.documents(collection=place)}  # begun in between
    return _gone(desk, queue, [document for document in found.values() if document.parent_id is None])


def _require_idle(desk: CallerDesk, queue: Uploads, documents: Sequence[Document]) -> None:
    """A document that is being added would come back under its old name."""
    desk.require("move", *(document.collection for document in documents))
    if waiting := queue.waiting_for(documents):
        raise UsageError(f"{waiting[0].name} is being added", hint="wait until it is ready")


def _deleted(desk: CallerDesk, queue: Uploads, documents: Sequence[Document]) -> Response:
    desk.require("delete", *(document.collection for document in documents))
    queue.cancel(queue.waiting_for(documents))  # or it would bring them back
    return _gone(desk, queue, documents)


def _gone(desk: CallerDesk, queue: Uploads, documents: Sequence[Document]) -> Response:
    gone = desk.remove_found(documents)
    queue.documents_removed(document.source for document in gone)
    return reply({"deleted": [document.id for document in gone]})


def _moved(documents: Sequence[Document]) -> Response:
    return reply({"documents": [document_json(document) for document in documents]})


@document_routes.get("/collections", **about("List collections", shapes.CollectionList))
def collections(desk: Desk) -> Response:
    """Lists the collections you may read, with the number of documents directly in each."""
    caller, counts = desk.caller, dict(desk.collections())
    names = sorted(counts.keys() | set(caller.collections or ()))
    rows = [
        {
            "name": name,
            "label": desk.label(name),
            "documents": counts.get(name, 0),
            "may_edit": caller.may("add", name),
        }
        for name in names
    ]
    return reply({"collections": rows})


LONGEST_WAIT_S = 300.0
LATER = returns(shapes.AddedExamples, 202, "Accepted; added in the background")


@document_routes.post(
    "/examples", summary="Add the example documents", responses=returns(shapes.AddedExamples) | LATER | failures(507)
)
def add_examples(
    desk: Desk,
    queue: Queue,
    wait: Annotated[bool, Query(description="Wait until they are added; `false` returns 202 at once.")] = True,
) -> Response:
    """Adds the documents that come with Refdesk to the collection `examples`."""
    desk.require("add", EXAMPLES)
    uploads = queue.add_copies(sorted(example_folder().iterdir()), EXAMPLES, desk.caller)
    until = time.monotonic() + (LONGEST_WAIT_S if wait else 0.0)
    uploads = queue.wait_for(uploads, until)
    waiting = sum(upload.status not in ("ready", "failed") for upload in uploads)
    result = {
        "added": sum(upload.status == "ready" for upload in uploads),
        "failed": [{"name": upload.name, "reason": upload.reason} for upload in uploads if upload.status == "failed"],
        "waiting": waiting,
        "collection": EXAMPLES,
        "uploads": [upload_json(upload) for upload in uploads],
    }
    return reply(result, 202 if waiting else 200)


# Pages: as an image with lines marked on it, and as text with the place of every word; and figures

NARROWEST, WIDEST = 16, 3000  # pixels
MOST_BOXES = 100
LONGEST_BOXES = 4000  # characters; an address has some 64,000 bytes at most

PerCent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
BOXES = TypeAdapter(Annotated[list[tuple[PerCent, PerCent, PerCent, PerCent]], Field(max_length=MOST_BOXES)])
Number = Annotated[int, Path(ge=1, le=10_000_000, description="The page, from 1.")]
Boxes = Annotated[
    str,
    Query(
        max_length=LONGEST_BOXES,
        description="Boxes to highlight, as JSON: `[[x, y, width, height], …]` in per cent of the page; at most 100.",
        examples=["[[10,41.5,63,1.6]]"],
    ),
]
UNCHANGED: Responses = {304: {"description": "Not modified"}}


@document_routes.head("/documents/{document_id}/pages/{number}/image", include_in_schema=False)
@document_routes.get(
    "/documents/{document_id}/pages/{number}/image",
    summary="Get a page as an image",
    responses=returns_bytes("image/png", "image/webp", description="The image") | UNCHANGED,
)
def image(
    request: Request,
    desk: Desk,
    document_id: DocumentId,
    number: Number,
    width: Annotated[int, Query(ge=NARROWEST, le=WIDEST, description="Pixels.")] = 1000,
    format: Literal["png", "webp"] = "png",
    boxes: Boxes = "",
) -> Response:
    """For PDFs and images; other formats have text only."""
    document = desk.find_document(document_id, is_read=True)
    if document.format not in WITH_IMAGES:
        raise NotFound(f"{document.name} has no page images", hint="use its text instead")
    _page(desk, document, number)
    marked = checked_boxes(boxes, number)
    parts = f"{document.content_hash} {number} {width} {format} {marked}"
    headers = _cached(hashlib.blake2b(parts.encode(), digest_size=12).hexdigest())
    if _is_known(request, headers):
        return Response(status_code=304, headers=headers)
    data = desk.page_image(document.id, number, width=width, boxes=marked, format=format)
    return Response(data, headers=headers, media_type=f"image/{format}")


@document_routes.get("/documents/{document_id}/pages/{number}/text", **about("Get a page's text", shapes.PageText))
def text(desk: Desk, document_id: DocumentId, number: Number) -> Response:
    """Includes the box of every word if the format has pages, and where its tables are."""
    document = desk.find_document(document_id, is_read=True)
    found = _page(desk, document, number)
    page = found.page
    fields = {name: getattr(page, name) for name in ("label", "start", "width", "height", "ocr")}
    words = _words(found.words, page) if found.words is not None else []
    tables = [part._asdict() for part in tables_on(page, desk.tables(document.id))]
    shown = {"text": found.text, "words": words, "tables": tables}
    return reply({"document_id": document.id, "page": number, **fields, **shown})


def checked_boxes(text: str, page: int) -> tuple[Box, ...]:
    """`[[10, 41.5, 63, 1.6]]` -> the boxes on this page."""
    try:
        return tuple(Box(page, *row) for row in BOXES.validate_json(text, strict=True)) if text else ()
    except ValidationError:
        message = "boxes must be [[x, y, width, height], …] in per cent of the page"
        raise UsageError(message, hint=f"send at most {MOST_BOXES}") from None


def _page(desk: CallerDesk, document: Document, number: int) -> PageText:
    found = desk.pages(document.id, number)
    if not found:
        raise NotFound(f"{document.name} has pages 1 to {document.page_count}, not {number}")
    return found[0]


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


@document_routes.get("/documents/{document_id}/tables", **about("List a document's tables", shapes.TablePage))
def tables(
    desk: Desk,
    document_id: DocumentId,
    page: Annotated[int | None, Query(ge=1, le=10_000_000, description="Only tables that start on this page.")] = None,
    number: Annotated[int | None, Query(ge=1, le=10_000_000, description="Only this table, counted from 1.")] = None,
    cells: Annotated[bool, Query(description="`false`: omit the cells.")] = True,
    row: Annotated[int, Query(ge=0, le=100_000_000, description="Return cells from this row on; see `next_row`.")] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
) -> Response:
    """Includes the cells: text as displayed, number, unit, scale, period, page and boxes.

    Large tables come about 5,000 cells at a time; `next_row` starts the next part, `null` at the end.
    """
    document = desk.find_document(document_id, is_read=True)
    found = [
        table for table in desk.tables(document.id) if page in (None, table.page) and number in (None, table.number)
    ]
    some = [_table(desk, table, row, is_whole=cells) for table in found[offset : offset + limit]]
    return reply({"document_id": document.id, "tables": some, "total": len(found), "limit": limit, "offset": offset})


def _table(desk: CallerDesk, table: StoredTable, row: int, *, is_whole: bool) -> dict[str, Any]:
    cells, following = desk.cells(table, row) if is_whole else ([], None)
    fields = table.to_dict()
    del fields["document_id"]
    return fields | {"cells": [cell.to_dict() for cell in cells], "next_row": following}


Hash = Annotated[str, Path(pattern="^[0-9a-f]{64}$", description="The hash of its content.", examples=["9f" * 32])]


@document_routes.head("/images/{image}", include_in_schema=False)
@document_routes.get(
    "/images/{image}",
    summary="Get a figure",
    responses=returns_bytes("image/png", description="The figure") | UNCHANGED,
)
def figure(request: Request, desk: Desk, image: Hash) -> Response:
    """A PNG image from a document."""
    path, headers = desk.figure(image), _cached(image)
    if _is_known(request, headers):
        return Response(status_code=304, headers=headers)
    _without_range(request)
    return FileResponse(path, headers=headers, media_type="image/png")
