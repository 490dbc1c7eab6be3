"""Uploads over HTTP: how far each has come, as a list and as events; another try; taken back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.responses import Response

from refdesk.access import Caller
from refdesk.serve.http.answer_shapes import ErrorEvent
from refdesk.serve.http.desk import Service, Serving
from refdesk.serve.http.document_shapes import RetryIn, UploadId
from refdesk.serve.http.documented import failures, gives, gives_events
from refdesk.serve.http.guard import Who
from refdesk.serve.http.reply import json_bytes, reply
from refdesk.serve.http.response_shapes import Deleted, UploadList
from refdesk.serve.http.response_shapes import Upload as ShownUpload
from refdesk.serve.http.sse import EventResponse, Named
from refdesk.serve.uploads import Uploads
from refdesk.threads import aside
from refdesk.types import Upload

FOLLOWED_S = 120.0  # then the reader comes back, with a key that is looked at anew
UPLOAD: ShownUpload = {
    "id": "9f2c41d07be355a8c1d2e3f4",
    "upload_id": "9f2c41d07be355a8c1d2e3f4",
    "name": "price-list.pdf",
    "collection": "default",
    "status": "processing",
    "size": 48213,
    "url": "",
    "metadata": {},
    "document_id": "",
    "outcome": "",
    "reason": "",
    "pages_done": 3,
    "pages_total": 12,
    "chunks_done": 0,
    "chunks_total": 0,
    "seconds_left": None,
    "created_at": "2026-01-31T09:00:00.000+00:00",
    "updated_at": "2026-01-31T09:00:01.000+00:00",
}
EVENTS = gives_events(
    {"upload": ShownUpload, "error": ErrorEvent},
    f"id: 19a85c3e5f04f1c8a12be90-1\nevent: upload\ndata: {json_bytes(UPLOAD).decode()}\n\n",
)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Goes on with what was accepted before, and puts the work down at the end."""
    app.state.uploads = Uploads(app.state.service.desk)
    app.state.uploads.start()
    try:
        yield
    finally:
        await asyncio.to_thread(app.state.uploads.stop)


router = APIRouter(prefix="/api/uploads", tags=["uploads"], lifespan=lifespan)


async def _uploads(request: Request) -> Uploads:
    found: Uploads = request.app.state.uploads
    return found


Queue = Annotated[Uploads, Depends(_uploads)]


def shown(upload: Upload) -> dict[str, Any]:
    """As callers see it: whose key it was is nobody else's business."""
    found = upload.to_dict() | {"upload_id": upload.id}
    del found["owner"]
    return found


@router.get("", summary="What was handed in lately", responses=gives(UploadList, {"uploads": [UPLOAD]}))
def uploads(queue: Queue, caller: Who) -> Response:
    """The caller's own, the newest first; an admin sees everyone's. Finished ones are listed for a day."""
    return reply({"uploads": [shown(one) for one in queue.listed(caller)]})


@router.get("/events", summary="Progress as it happens", responses=EVENTS)
async def events(request: Request, queue: Queue, caller: Who, service: Serving) -> Response:
    """An `upload` event for every one there is, then whenever one changes. Ends after two minutes; come back then."""
    stream = service.streams.begin(caller.id, _changes(service, queue, caller), request.state.request_id)
    return EventResponse(stream)


async def _changes(service: Service, queue: Uploads, caller: Caller) -> AsyncGenerator[Named, None]:
    until = time.monotonic() + FOLLOWED_S
    changes = queue.changes(caller)
    async with aclosing(changes):
        async for changed in changes:
            if caller.id and await aside(service.desk.keys.of, caller.id) != caller:  # revoked or changed meanwhile
                return
            for one in changed:
                yield "upload", shown(one)
            if time.monotonic() > until:
                return


@router.get("/{upload_id}", summary="One upload", responses=gives(ShownUpload, UPLOAD) | failures(404))
def upload(queue: Queue, caller: Who, upload_id: UploadId) -> Response:
    return reply(shown(queue.get(upload_id, caller)))


@router.post(
    "/{upload_id}/retry",
    status_code=202,
    summary="Try a failed one again",
    responses=gives(ShownUpload, UPLOAD, 202) | failures(404),
)
def retry(queue: Queue, caller: Who, upload_id: UploadId, body: RetryIn | None = None) -> Response:
    return reply(shown(queue.retry(upload_id, caller, body.password if body else None)), 202)


@router.delete(
    "/{upload_id}",
    summary="Take it back, or off the list",
    responses=gives(Deleted, {"deleted": UPLOAD["id"]}) | failures(404),
)
def forget(queue: Queue, caller: Who, upload_id: UploadId) -> Response:
    """One that waits is not added; a finished one leaves the list, and its document stays."""
    return reply({"deleted": queue.forget(upload_id, caller).id})
