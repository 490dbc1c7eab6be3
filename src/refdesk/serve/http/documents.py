"""Documents over HTTP: handed in, listed, given back as they came, and tried again.

A caller sees the documents of his collections; another one's is answered as if it were not there.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response

from refdesk.access import Caller
from refdesk.arguments import checked_collection, checked_metadata, one_of, sound
from refdesk.desk import DEFAULT_COLLECTION, STATUSES, Refdesk
from refdesk.errors import NotFound, UsageError
from refdesk.serve.cli.ask import COLLECTION, example_folder
from refdesk.serve.fetch import checked_networks, checked_url, fetch
from refdesk.serve.http.errors import reply
from refdesk.serve.http.guard import Library, Who
from refdesk.serve.http.openapi import failures, returns, returns_bytes
from refdesk.serve.http.requests import (
    ChangeIn,
    CollectionName,
    DocumentId,
    DocumentsIn,
    MoveIn,
    RenameIn,
    RetryIn,
    UrlIn,
)
from refdesk.serve.http.responses import (
    AddedExamples,
    CollectionList,
    DeletedDocuments,
    DocumentPage,
    MovedDocuments,
    UploadList,
)
from refdesk.serve.http.uploads import Queue, receive, shown
from refdesk.serve.uploads import Uploads, new_upload
from refdesk.trace import aside
from refdesk.types import EVERYTHING, Document, Upload

WITH_IMAGES = ("pdf", "image")  # formats whose pages can be drawn

router = APIRouter(prefix="/api", tags=["documents"])
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
                        "collection": {"type": "string", "description": "Where they go; `default` if not said."},
                        "metadata": {"type": "string", "description": "A JSON object of names and texts."},
                        "password": {"type": "string", "description": "Opens encrypted PDFs."},
                    },
                },
                "encoding": {"files": {"contentType": "application/octet-stream"}},
            }
        },
    }
}


def seen(desk: Refdesk, caller: Caller, document_id: str) -> Document:
    """The document of this id, for those who may read it; for the others it is not there."""
    found = desk.shelves.visible(sound(document_id), caller.access)
    if found is None:
        raise NotFound(f"there is no document '{sound(document_id)}'")
    return found


def readable(desk: Refdesk, caller: Caller, document_id: str) -> Document:
    """The same, once it has been read: before, and when that failed, it has neither pages nor text."""
    found = seen(desk, caller, document_id)
    if found.status == "failed":
        raise NotFound(f"{found.name} could not be read: {found.error}")
    if found.status != "ready":
        raise NotFound(f"{found.name} is not ready yet: it is {found.status}", hint="wait until it is ready")
    return found


def document_shown(document: Document) -> dict[str, Any]:
    """As callers see it: the place on the server's disk stays there."""
    found = document.to_dict() | {"has_page_images": document.status == "ready" and document.format in WITH_IMAGES}
    del found["source"]
    return found


# handing in


@router.post(
    "/documents",
    status_code=202,
    summary="Hand in files",
    responses=returns(UploadList, 202, "Accepted; they are added in the background") | failures(413, 507),
    openapi_extra=FORM,
)
async def upload(request: Request, desk: Library, queue: Queue, caller: Who) -> Response:
    """Any number of files. Each is accepted once it is safely on disk; its progress is at /api/uploads.

    What a file is, its content says. The name of an upload that is there already, in the same collection, replaces it.
    """
    caller.require("add")
    with ExitStack() as stack:
        settings = await aside(lambda: desk.settings)
        form = await receive(request, desk.spool, stack, settings.max_upload_mb)
        if not form.files:
            raise UsageError("there is no file in the form", hint="put files in the field 'files'")
        collection = _place(caller, form.fields.get("collection", ""))
        metadata = _metadata(form.fields.get("metadata", ""))
        password = form.fields.get("password") or None
        accepted = []
        for one in form.files:
            new = new_upload(
                one.upload_id, one.name, collection, caller, size=one.size, metadata=metadata, password=password
            )
            accepted.append(await asyncio.to_thread(desk.spool.accept, new, one.file))
    queue.wake()
    return reply({"uploads": [shown(one) for one in accepted]}, 202)


@router.post(
    "/documents/url",
    status_code=202,
    summary="Add a document from a URL",
    responses=returns(UploadList, 202, "Fetched and accepted") | failures(413, 422, 507),
)
async def upload_url(desk: Library, queue: Queue, caller: Who, body: UrlIn) -> Response:
    """http and https only, and never from a private network."""
    caller.require("add")
    collection = _place(caller, body.collection)
    settings = await aside(lambda: desk.settings)
    url = checked_url(body.url).geturl()
    with desk.spool.receiving() as (upload_id, file):
        most, networks = settings.max_upload_mb << 20, checked_networks(settings.fetch_networks)
        fetched = await fetch(url, file, most_bytes=most, networks=networks)
        metadata = {"url": fetched.url} | checked_metadata(body.metadata)
        new = new_upload(
            upload_id, fetched.name, collection, caller, size=fetched.size, metadata=metadata, url=fetched.url
        )
        accepted = await asyncio.to_thread(desk.spool.accept, new, file)
    queue.wake()
    return reply({"uploads": [shown(accepted)]}, 202)


def _place(caller: Caller, collection: str) -> str:
    """Where new documents go: where the caller says, else the one collection of his key, else the default one."""
    own = caller.collections[0] if caller.collections is not None and len(caller.collections) == 1 else ""
    chosen = checked_collection(collection.strip() or own or DEFAULT_COLLECTION)
    caller.require("add", chosen)
    return chosen


def _metadata(text: str) -> dict[str, str]:
    try:
        return checked_metadata(orjson.loads(text)) if text.strip() else {}
    except orjson.JSONDecodeError:
        raise UsageError("metadata is a JSON object of names and texts", hint='write {"year": "2024"}') from None


# looking


@router.get("/documents", summary="The documents", responses=returns(DocumentPage))
def documents(
    desk: Library,
    caller: Who,
    collection: Annotated[str, Query(max_length=1000, description="Only this one and those below it.")] = "",
    status: Annotated[str, Query(max_length=20, description="pending, processing, ready or failed.")] = "",
    q: Annotated[str, Query(max_length=1000, description="Only those whose name or title holds this.")] = "",
    sort: Annotated[
        Literal["place", "name", "size", "pages", "added", "changed", "status"],
        Query(description="By what: `place` is collection, then name."),
    ] = "place",
    order: Literal["up", "down"] = "up",
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    offset: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
) -> Response:
    scope = desk.scope(collection or None, access=caller.access)
    chosen = one_of("status", status, STATUSES) if status else None
    found, total = desk.shelves.page(
        scope, chosen, sound(q).strip(), limit, offset, sort=sort, is_falling=order == "down"
    )
    listed = [document_shown(one) for one in found]
    return reply({"documents": listed, "total": total, "limit": limit, "offset": offset})


@router.get("/documents/{document_id}", summary="One document", responses=returns(Document))
def document(desk: Library, caller: Who, document_id: DocumentId) -> Response:
    return reply(document_shown(seen(desk, caller, document_id)))


@router.head("/documents/{document_id}/original", include_in_schema=False)
@router.get(
    "/documents/{document_id}/original",
    summary="The file as it came",
    responses=returns_bytes("application/octet-stream", description="The file")
    | {206: {"description": "A part of it"}, 304: {"description": "The file that the caller has is the newest"}}
    | failures(416),
)
def original(request: Request, desk: Library, caller: Who, document_id: DocumentId) -> Response:
    """Always as a download: a page among the documents must not run as a page of this site. In parts, if wanted."""
    found = readable(desk, caller, document_id)
    path = desk.original(found.id, access=caller.access)
    headers = {
        "ETag": f'"{found.content_hash}"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "private, no-cache",
    }
    if is_known(request.headers.get("if-none-match", ""), headers["ETag"]):
        return Response(status_code=304, headers=headers)
    if not _is_range(request.headers.get("range", ""), path.stat().st_size):
        request.scope["headers"] = [pair for pair in request.scope["headers"] if pair[0] != b"range"]
    name = PurePosixPath(found.name).name or "document"
    return FileResponse(path, headers=headers, media_type="application/octet-stream", filename=name)


def is_known(header: str, tag: str) -> bool:
    """`W/"a", "b"` holds `"b"`; `*` holds all."""
    known = [one.strip().removeprefix("W/") for one in header.split(",")]
    return tag in known or "*" in known


def _is_range(header: str, size: int) -> bool:
    """`bytes=0-99` is one; several, or what cannot be understood, are answered with the whole (RFC 9110, 14.2)."""
    found = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", header.strip())
    if found is None or found.groups() == ("", ""):
        return False
    first, last = (int(one) if one else None for one in found.groups())
    if first is not None and last is not None and first > last:
        return False
    if (first is not None and first >= size) or (first is None and last == 0):
        said = f"the file has {size:,} bytes, and none from there on"
        raise HTTPException(416, said, {"Content-Range": f"bytes */{size}"})
    return True


# once more


@router.post(
    "/documents/{document_id}/retry",
    status_code=202,
    summary="Try a failed one again",
    responses=returns(Upload, 202),
)
def retry(desk: Library, queue: Queue, caller: Who, document_id: DocumentId, body: RetryIn | None = None) -> Response:
    """From the file that was kept of the upload, or from its place on the server."""
    found = seen(desk, caller, document_id)
    return reply(shown(queue.retry_document(found, caller, body.password if body else None)), 202)


# Documents changed over HTTP: renamed, moved and deleted; one of them, several, or a whole collection.

CHANGED = returns(Document) | failures(404)
DELETED = returns(DeletedDocuments) | failures(404)
MOVED = returns(MovedDocuments) | failures(404)


# one


@router.patch("/documents/{document_id}", summary="Rename or move", responses=CHANGED)
def change(desk: Library, queue: Queue, caller: Who, document_id: DocumentId, body: ChangeIn) -> Response:
    found = seen(desk, caller, document_id)
    if body.name is not None:
        caller.require("rename", found.collection)
    if body.collection is not None:
        caller.require("move", found.collection)
        caller.require("move", checked_collection(body.collection))
    _settled(queue, [found])
    if body.collection is not None:
        found = desk.move(found.id, body.collection, name=body.name, access=caller.access)
    elif body.name is not None:
        found = desk.rename(found.id, body.name, access=caller.access)
    return reply(document_shown(found))


@router.delete("/documents/{document_id}", summary="Delete", responses=DELETED)
def delete(desk: Library, queue: Queue, caller: Who, document_id: DocumentId) -> Response:
    """With what is attached to it, at once and for everyone. One that is being added is put down."""
    found = seen(desk, caller, document_id)
    caller.require("delete", found.collection)
    return _deleted(desk, queue, [found])


# several


@router.post("/documents/move", summary="Move several", responses=MOVED)
def move(desk: Library, queue: Queue, caller: Who, body: MoveIn) -> Response:
    """All of them, or none when one cannot go."""
    found = [seen(desk, caller, one) for one in body.documents]
    for place in {checked_collection(body.collection), *(one.collection for one in found)}:
        caller.require("move", place)
    _settled(queue, found)
    return _moved(desk.move_all([one.id for one in found], body.collection, access=caller.access))


@router.post("/documents/delete", summary="Delete several", responses=DELETED)
def delete_several(desk: Library, queue: Queue, caller: Who, body: DocumentsIn) -> Response:
    """With what is attached to them. When the caller may not delete one of them, none goes."""
    found = [seen(desk, caller, one) for one in dict.fromkeys(body.documents)]
    for place in {one.collection for one in found}:
        caller.require("delete", place)
    return _deleted(desk, queue, found)


# a collection


@router.patch("/collections/{name:path}", summary="Rename a collection", responses=MOVED)
def rename_collection(desk: Library, queue: Queue, caller: Who, name: CollectionName, body: RenameIn) -> Response:
    """With the collections inside it. When one of its documents cannot go, none does. Keys are not changed by it.

    The new name may be that of another collection, which then holds both.
    """
    place = _held(desk, caller, name)
    for one in (place, checked_collection(body.name)):
        caller.require("move", one)
    if waiting := queue.waiting_in(place):
        files = "a file is" if len(waiting) == 1 else f"{len(waiting):,} files are"
        raise UsageError(f"{files} being added to {place} this moment", hint="wait until they are ready")
    return _moved(desk.rename_collection(place, body.name, access=caller.access))


@router.delete("/collections/{name:path}", summary="Delete a collection", responses=DELETED)
def delete_collection(desk: Library, queue: Queue, caller: Who, name: CollectionName) -> Response:
    """Every document in it and in the collections inside it, at once and for everyone; what waits is put down."""
    place = _held(desk, caller, name)
    caller.require("delete", place)
    found = {one.id: one for one in desk.documents(collection=place, access=caller.access)}
    queue.put_down(queue.waiting_in(place))
    found |= {one.id: one for one in desk.documents(collection=place, access=caller.access)}  # begun in between
    return _gone(desk, queue, [one for one in found.values() if one.parent_id is None])


def _held(desk: Refdesk, caller: Caller, name: str) -> str:
    """A collection that holds documents, for those who may read all of it; for the others it is not there."""
    place = checked_collection(name)
    counts = dict(desk.collections(caller.access)) if caller.may("read", place) else {}
    if not any(f"{one}/".startswith(f"{place}/") for one in counts):
        raise NotFound(f"there is no collection '{place}'")
    return place


def _settled(queue: Uploads, documents: Sequence[Document]) -> None:
    """What is being added this moment would come back under its old name."""
    if waiting := queue.waiting_for(documents):
        raise UsageError(f"{waiting[0].name} is being added this moment", hint="wait until it is ready")


def _deleted(desk: Refdesk, queue: Uploads, documents: Sequence[Document]) -> Response:
    queue.put_down(queue.waiting_for(documents))  # or it would bring them back
    return _gone(desk, queue, documents)


def _gone(desk: Refdesk, queue: Uploads, documents: Sequence[Document]) -> Response:
    gone = desk.remove_found(documents)
    went = {one.id for one in gone}
    # One that was being added goes by itself once it is put down, perhaps before it is removed here.
    gone += [one for one in documents if one.id not in went and desk.shelves.visible(one.id, EVERYTHING) is None]
    queue.documents_removed(one.source for one in gone)
    return reply({"deleted": [one.id for one in gone]})


def _moved(documents: Sequence[Document]) -> Response:
    return reply({"documents": [document_shown(one) for one in documents]})


# Collections over HTTP: the folders that documents live in.


@router.get("/collections", summary="The collections that the caller may read", responses=returns(CollectionList))
def collections(desk: Library, caller: Who) -> Response:
    """With how many documents lie in each itself; those of the caller's key also when they are empty."""
    counts = dict(desk.collections(caller.access))
    names = sorted(counts.keys() | set(caller.collections or ()))
    return reply(
        {
            "collections": [
                {"name": name, "documents": counts.get(name, 0), "may_edit": caller.may("add", name)} for name in names
            ]
        }
    )


# The example documents over HTTP: handed in like any other files, so that their progress is seen.

LONGEST_WAIT_S = 300.0
LATER = returns(AddedExamples, 202, "Accepted; they are added in the background")


@router.post("/examples", summary="Add the example documents", responses=returns(AddedExamples) | LATER | failures(507))
def add_examples(
    desk: Library,
    queue: Queue,
    caller: Who,
    wait: Annotated[bool, Query(description="Answer when they are added; `false` answers at once with 202.")] = True,
) -> Response:
    """Adds the documents that come with Refdesk to the collection `examples`; progress is at /api/uploads."""
    caller.require("add", COLLECTION)
    uploads = queue.hand_in(sorted(example_folder().iterdir()), COLLECTION, caller)
    until = time.monotonic() + (LONGEST_WAIT_S if wait else 0.0)
    uploads = queue.settled(uploads, until)
    waiting = sum(one.status not in ("ready", "failed") for one in uploads)
    said = {
        "added": sum(one.status == "ready" for one in uploads),
        "failed": [{"name": one.name, "reason": one.reason} for one in uploads if one.status == "failed"],
        "waiting": waiting,
        "collection": COLLECTION,
        "uploads": [shown(one) for one in uploads],
    }
    return reply(said, 202 if waiting else 200)
