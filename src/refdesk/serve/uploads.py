"""Turns uploaded files into jobs that every process can see; `worker.py` processes them.

    receive -> accept (from here on nothing is lost) -> pending -> processing -> ready, or failed with the reason

Clients may leave and processes may be killed; whoever starts next resumes.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect, Request

from refdesk.arguments import valid_utf8
from refdesk.desk import Refdesk
from refdesk.errors import DiskFull, LibraryError, NotFound, RefdeskError, TooLarge, TooManyRequests, UsageError
from refdesk.records import Caller
from refdesk.serve.worker import UploadWorker
from refdesk.trace import in_thread
from refdesk.types import UNFINISHED, Document, Job

LOOK_S = 0.25  # how often a subscriber looks for changes; what a person still sees as "at once"
BUSY_S = 30.0  # when to come back while too much waits
LONGEST_NAME = 255
# What another try begins with; how far the one before came is forgotten.
ACCEPTED: tuple[str, ...] = (
    "id",
    "name",
    "collection",
    "owner",
    "size",
    "url",
    "metadata",
    "content_hash",
    "document_id",
)
ACCEPTED += ("created_at", "kind", "source")


class Uploads:
    """The uploads of one library as one process sees them."""

    def __init__(self, desk: Refdesk) -> None:
        self._desk, self._jobs, self._files = desk, desk.jobs, desk.files
        self._worker = UploadWorker(desk)
        self.start, self.stop, self.wake = self._worker.start, self._worker.stop, self._worker.wake

    # taking in

    def check_room(self) -> None:
        """Not more than can be worked off in a while: whoever sends faster than that is told to wait."""
        most, waiting = self._desk.settings.max_waiting, self._jobs.waiting()
        if most and waiting >= most:
            raise TooManyRequests(
                f"{waiting:,} files are already waiting to be added",
                hint=f"try again in {BUSY_S:.0f} seconds, or raise serve.max_waiting",
                retry_after_s=BUSY_S,
            )

    @contextmanager
    def receiving(self) -> Iterator[tuple[str, IO[bytes]]]:
        """The id of an upload to come, and a file to write to, which is gone after the block unless it is accepted."""
        with _in_plain_words(), self._files.receiving() as received:
            yield received

    def accept(self, job: Job, file: IO[bytes]) -> Job:
        """Promises: from here on the file survives a kill and a power cut; `file` may be closed already."""
        with _in_plain_words():
            content_hash = self._files.stage(job.id, file)
            try:
                (accepted,) = self._jobs.submit([replace(job, content_hash=content_hash)])
            except LibraryError:
                self._files.unstage([job.id])
                raise
        return accepted

    # what a caller sees: their own uploads; admins see everyone's in their collections

    @staticmethod
    def _visible(upload: Job, caller: Caller) -> bool:
        return (upload.owner == caller.id or caller.role == "admin") and caller.may("read", upload.collection)

    def listed(self, caller: Caller) -> list[Job]:
        """Newest first."""
        return [job for job in reversed(self._jobs.all().values()) if self._visible(job, caller)]

    def get(self, upload_id: str, caller: Caller) -> Job:
        found = self._jobs.all().get(upload_id)
        if found is None or not self._visible(found, caller):
            raise NotFound(f"there is no upload '{valid_utf8(upload_id)}'")
        return found

    # what a caller does

    def retry(self, upload_id: str, caller: Caller, password: str | None = None) -> Job:
        """Queues a failed upload once more."""
        upload = self.get(upload_id, caller)
        caller.require("retry", upload.collection)
        if upload.status != "failed":
            raise UsageError(f"{upload.name} has not failed: it is {upload.status}")
        return self._again(upload, password)

    def retry_document(self, document: Document, caller: Caller, password: str | None = None) -> Job:
        """Queues a document that could not be read: from its upload, or from its place on this machine."""
        caller.require("retry", document.collection)
        if not document.error:
            raise UsageError(f"{document.name} has not failed: it is {document.status}")
        is_upload = document.source.startswith("upload:")
        upload = self._jobs.all().get(document.source.removeprefix("upload:")) if is_upload else None
        if upload is not None and upload.status in UNFINISHED:
            return upload
        if upload is not None:  # under the name and in the place that it has by now
            return self._again(replace(upload, name=document.name, collection=document.collection), password)
        if document.parent_id is not None:
            raise UsageError(f"{document.name} is attached to another document", hint="retry that document")
        path = Path(document.source)
        if not document.source or is_upload or not path.is_file():
            raise UsageError(f"the file of {document.name} is no longer there", hint="add it again")
        copied = self._copied(
            *(path, document.name, document.collection, caller),
            size=document.size,
            metadata=document.metadata,
            password=password,
            document_id=document.id,
        )
        self.wake()
        return copied

    def _again(self, upload: Job, password: str | None) -> Job:
        if not self._files.staged(upload.id).is_file():
            raise UsageError(f"the file of {upload.name} is no longer there", hint="upload it again")
        kept: Any = {name: getattr(upload, name) for name in ACCEPTED}
        again = self._jobs.change([Job(**kept, password=password or None)])
        self.wake()
        return again[0] if again else upload

    def add_copies(self, paths: Iterable[Path], collection: str, caller: Caller) -> list[Job]:
        """Queues copies of files on this machine."""
        accepted = [self._copied(path, path.name, collection, caller, size=path.stat().st_size) for path in paths]
        self.wake()
        return accepted

    def wait_for(self, uploads: Sequence[Job], until: float) -> list[Job]:
        """The uploads once all are finished, or at that time (of `time.monotonic`)."""
        while True:
            known = self._jobs.all()
            now = [known.get(upload.id, upload) for upload in uploads]
            waits = any(job.id in known and job.status in UNFINISHED for job in now)
            if not waits or time.monotonic() >= until or self._worker.stopping.wait(LOOK_S):
                return now

    def _copied(self, path: Path, name: str, collection: str, caller: Caller, **options: Any) -> Job:
        with self.receiving() as (upload_id, file), path.open("rb") as original:
            shutil.copyfileobj(original, file)
            return self.accept(new_upload(upload_id, name, collection, caller, **options), file)

    def forget(self, upload_id: str, caller: Caller) -> Job:
        """Cancels an unfinished upload, or removes a finished one from the list; its document stays."""
        upload = self.get(upload_id, caller)
        caller.require("delete", upload.collection)
        if upload.status in UNFINISHED:
            self.cancel([upload])
        else:
            self._worker.remove([upload.id])
        return upload

    def waiting_for(self, documents: Iterable[Document]) -> list[Job]:
        """Unfinished uploads of these documents, or of new versions of them."""
        known_sources = {document.source for document in documents}
        places = {
            (document.collection, document.name) for document in documents if document.source.startswith("upload:")
        }
        return [job for job in self._waiting() if job.source in known_sources or (job.collection, job.name) in places]

    def waiting_in(self, collection: str) -> list[Job]:
        """Unfinished uploads to a collection or to one inside it."""
        return [job for job in self._waiting() if f"{job.collection}/".startswith(f"{collection}/")]

    def _waiting(self) -> list[Job]:
        return [job for job in self._jobs.all().values() if job.status in UNFINISHED]

    def cancel(self, uploads: Iterable[Job]) -> None:
        """Cancels these, waiting or running."""
        self._jobs.cancel(upload.id for upload in uploads)
        self.wake()

    def documents_removed(self, sources: Iterable[str]) -> None:
        """Forgets the uploads of removed documents."""
        known, gone = self._jobs.all(), {source.removeprefix("upload:") for source in sources}
        self._worker.remove(job_id for job_id in gone if job_id in known and known[job_id].status not in UNFINISHED)

    # subscribers

    async def changes(self, caller: Caller) -> AsyncGenerator[list[Job], None]:
        """All uploads that the caller sees, then those that have changed, about four times a second; `[]` is none.

        One that was removed comes a last time, as `gone`. Any number may follow; none can hold the work up.
        """
        seen: dict[str, Job] = {}
        before = -1
        while not self._worker.stopping.is_set():
            version = await in_thread(self._jobs.version)
            changed: list[Job] = []
            if version != before:
                known = await asyncio.to_thread(self._jobs.all)
                mine = {job.id: job for job in known.values() if self._visible(job, caller)}
                changed = [job for job in mine.values() if seen.get(job.id) != job]
                changed += [replace(job, status="gone") for job in seen.values() if job.id not in mine]
                seen, before = mine, version
            yield changed
            await asyncio.sleep(LOOK_S)


@contextmanager
def _in_plain_words() -> Iterator[None]:
    """For whoever sent the file: where the server keeps it is none of his business."""
    try:
        yield
    except DiskFull as error:
        raise DiskFull("the server's disk is full", hint="try again when there is space on it") from error
    except LibraryError as error:
        raise LibraryError(
            "the server cannot write to its upload folder", hint="the server's log has the details"
        ) from error


def new_upload(
    upload_id: str,
    name: str,
    collection: str,
    caller: Caller,
    *,
    size: int,
    metadata: Mapping[str, str] | None = None,
    password: str | None = None,
    **fields: str,
) -> Job:
    """An upload as it is accepted."""
    more: Any = fields | {"size": size, "metadata": dict(metadata or {}), "password": password or None}
    return Job(upload_id, label(name), collection, owner=caller.id, kind="url" if "url" in fields else "upload", **more)


def label(name: str) -> str:
    r"""What a file is called in the library: `C:\files\..\a.txt` -> `files/a.txt`. Never used as a path."""
    parts = [part.strip() for part in valid_utf8(name).replace("\\", "/").split("/")]
    shown = ("".join(letter for letter in part if letter.isprintable()) for part in parts)
    kept = "/".join(part for part in shown if part and part not in (".", "..") and not _is_drive(part))
    return kept[-LONGEST_NAME:].lstrip("/") or "unnamed"


def _is_drive(part: str) -> bool:
    return len(part) == 2 and part[1] == ":" and part[0].isalpha()


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
            raise UsageError("send files as multipart/form-data", hint="use the field 'files'")
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
            raise TooLarge(f"a form can have at most {MOST_BESIDE >> 20} MB besides its files")

    def finish(self) -> None:
        if not self._is_whole:  # the parser itself does not mind a form that breaks off
            raise UsageError("the form is truncated", hint="send it again")

    def _begin(self) -> None:
        self._parts += 1  # all of them: fields of one name, and files without one, are many too
        if self._parts > MOST_FILES + MOST_FIELDS:
            raise TooLarge(f"a request can have at most {MOST_FILES:,} files", hint="send the rest in another request")
        self._headers, self._file, self._value = {}, None, bytearray()

    def _end_header(self) -> None:
        name, value = (bytes(part) for part in self._header)
        self._headers[name.lower()] = value
        self._header = [bytearray(), bytearray()]

    def _open(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._field = options.get(b"name", b"").decode("utf-8", "replace")
        if b"filename" not in options:
            if len(self.fields) >= MOST_FIELDS:
                raise UsageError(f"a form can have at most {MOST_FIELDS} fields")
            return
        if len(self.files) >= MOST_FILES:
            raise TooLarge(f"a request can have at most {MOST_FILES:,} files", hint="send the rest in another request")
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
