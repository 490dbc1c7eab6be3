"""Uploads over HTTP: how far each has come, as a list and as events; another try; taken back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractContextManager, ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import IO, Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from refdesk.errors import RefdeskError, TooLarge, UsageError
from refdesk.records import Caller
from refdesk.serve.http import responses as shapes
from refdesk.serve.http.errors import reply
from refdesk.serve.http.guard import Service, Serving, Who
from refdesk.serve.http.openapi import about, returns_events
from refdesk.serve.http.requests import RetryIn, UploadId
from refdesk.serve.http.sse import EventResponse, Named
from refdesk.serve.uploads import Uploads
from refdesk.trace import in_thread
from refdesk.types import Job

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


router = APIRouter(prefix="/api/uploads", tags=["uploads"], lifespan=lifespan)


async def _uploads(request: Request) -> Uploads:
    found: Uploads = request.app.state.uploads
    return found


Queue = Annotated[Uploads, Depends(_uploads)]


def upload_json(upload: Job) -> dict[str, Any]:
    """As callers see it: whose key it was is nobody else's business."""
    found = upload.to_dict() | {"upload_id": upload.id}
    del found["owner"]
    return found


@router.get("", **about("List uploads", shapes.UploadList))
def uploads(queue: Queue, caller: Who) -> Response:
    """Your own, newest first; admins see everyone's. Finished ones are listed for a day."""
    return reply({"uploads": [upload_json(one) for one in queue.listed(caller)]})


@router.get("/events", summary="Follow uploads", responses=EVENTS)
async def events(request: Request, queue: Queue, caller: Who, service: Serving) -> Response:
    """An `upload` event for each upload, then for each change. Ends after two minutes; reconnect then."""
    stream = service.streams.begin(caller.id, _changes(service, queue, caller), request.state.request_id)
    return EventResponse(stream)


async def _changes(service: Service, queue: Uploads, caller: Caller) -> AsyncGenerator[Named, None]:
    until = time.monotonic() + FOLLOWED_S
    changes = queue.changes(caller)
    async with aclosing(changes):
        async for changed in changes:
            if caller.id and await in_thread(service.desk.keys.of, caller.id) != caller:  # revoked or changed meanwhile
                return
            for one in changed:
                yield "upload", upload_json(one)
            if time.monotonic() > until:
                return


@router.get("/{upload_id}", **about("Get an upload", shapes.Upload))
def upload(queue: Queue, caller: Who, upload_id: UploadId) -> Response:
    return reply(upload_json(queue.get(upload_id, caller)))


@router.post("/{upload_id}/retry", **about("Retry", shapes.Upload, status=202))
def retry(queue: Queue, caller: Who, upload_id: UploadId, body: RetryIn | None = None) -> Response:
    return reply(upload_json(queue.retry(upload_id, caller, body.password if body else None)), 202)


@router.delete("/{upload_id}", **about("Cancel or remove an upload", shapes.Deleted))
def forget(queue: Queue, caller: Who, upload_id: UploadId) -> Response:
    """Cancels one that is not finished; removes a finished one from the list, its document stays."""
    return reply({"deleted": queue.forget(upload_id, caller).id})


# How does a form with files come in? Piece by piece, straight to where they wait: never whole in memory, never a path.

MOST_FILES = 1000  # in one request
MOST_FIELDS = 100
LONGEST_FIELD = 100_000  # bytes
MOST_BESIDE = 8 << 20  # bytes of a form that are in no file: its fields, headers, and what stands around them
GATHER = 1 << 20  # bytes that are handed to the thread that writes, at a time
Receiving = Callable[[], AbstractContextManager[tuple[str, IO[bytes]]]]  # an id, and a file that goes if not accepted


@dataclass(slots=True)
class Received:
    """A file of the form, not accepted yet."""

    upload_id: str
    name: str
    file: IO[bytes]
    size: int = 0


class Form:
    """What has come so far; `feed` is called in a thread, one piece after the other."""

    def __init__(self, receiving: Receiving, stack: ExitStack, content_type: str, most_mb: int) -> None:
        kind, options = parse_options_header(content_type)
        if kind != b"multipart/form-data" or not options.get(b"boundary"):
            raise UsageError("send files as multipart/form-data", hint="put them in the field 'files'")
        self.fields: dict[str, str] = {}
        self.files: list[Received] = []
        self._receiving, self._stack, self._most_mb = receiving, stack, most_mb
        self._is_whole = False
        self._parts = self._beside = 0
        self._header = [bytearray(), bytearray()]
        self._headers: dict[bytes, bytes] = {}
        self._file: Received | None = None
        self._field, self._value = "", bytearray()
        self._parser = MultipartParser(
            options[b"boundary"],
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
                "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._open,
                "on_part_data": self._take,
                "on_part_end": self._close,
                "on_end": self._end,
            },
        )

    def feed(self, data: bytes) -> None:
        self._beside += len(data)  # less what turns out to be of a file
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise UsageError("the form cannot be read", hint="send it as multipart/form-data") from error
        if self._beside > MOST_BESIDE:
            raise TooLarge(f"a form may have {MOST_BESIDE >> 20} MB beside its files")

    def finish(self) -> None:
        if not self._is_whole:  # the parser itself does not mind a form that breaks off
            raise UsageError("the form is truncated", hint="send it again")

    def _begin(self) -> None:
        self._parts += 1  # all of them: fields of one name, and files without one, are many too
        if self._parts > MOST_FILES + MOST_FIELDS:
            raise TooLarge(f"a request may have {MOST_FILES:,} files", hint="send the rest in another request")
        self._headers, self._file, self._value = {}, None, bytearray()

    def _end_header(self) -> None:
        name, value = (bytes(one) for one in self._header)
        self._headers[name.lower()] = value
        self._header = [bytearray(), bytearray()]

    def _open(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._field = options.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" not in options:
            if len(self.fields) >= MOST_FIELDS:
                raise UsageError(f"a form may have {MOST_FIELDS} fields")
            return
        if len(self.files) >= MOST_FILES:
            raise TooLarge(f"a request may have {MOST_FILES:,} files", hint="send the rest in another request")
        upload_id, file = self._stack.enter_context(self._receiving())
        name = options[b"filename"].decode("utf-8", "replace").replace("%22", '"')  # as browsers write a quote
        self._file = Received(upload_id, name, file)

    def _take(self, data: bytes, start: int, end: int) -> None:
        piece = data[start:end]
        if self._file is None:
            self._value += piece
            if len(self._value) > LONGEST_FIELD:
                raise TooLarge(f"the field '{self._field[:50]}' is longer than {LONGEST_FIELD:,} bytes")
            return
        self._file.size += len(piece)
        self._beside -= len(piece)
        if self._file.size > self._most_mb << 20:
            raise TooLarge(
                f"{self._file.name[:200]} is larger than {self._most_mb} MB",
                hint="split it, or raise serve.max_upload_mb",
            )
        self._file.file.write(piece)

    def _close(self) -> None:
        if self._file is None:
            self.fields[self._field] = self._value.decode("utf-8", "replace")
        else:
            self._file.file.close()  # a process has a thousand open files, connections included, and others need some
            if self._file.name or self._file.size:  # a form whose file was not chosen sends an empty one
                self.files.append(self._file)

    def _end(self) -> None:
        self._is_whole = True


async def receive(request: Request, receiving: Receiving, stack: ExitStack, most_mb: int) -> Form:
    """Reads a request's form; whatever of it is not accepted goes when the stack is closed."""
    form = Form(receiving, stack, request.headers.get("content-type", ""), most_mb)
    gathered = bytearray()
    stream = request.stream()
    try:
        async for piece in stream:
            gathered += piece
            if len(gathered) >= GATHER:
                await asyncio.to_thread(form.feed, bytes(gathered))
                gathered.clear()
        await asyncio.to_thread(form.feed, bytes(gathered))
        form.finish()
    except ClientDisconnect:  # nobody hears this; the log does
        raise UsageError("the client disconnected before the form was complete") from None
    except RefdeskError:
        # Whoever is still sending would see a broken connection, not the reason; so a while of it is read and dropped.
        left = most_mb << 20
        async for piece in stream:
            left -= len(piece)
            if left < 0:
                break
        raise
    return form
