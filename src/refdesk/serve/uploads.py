"""How do uploaded files become documents? One thread of one process adds them, the others look on.

    receive -> accept (from here on nothing is lost) -> pending -> processing -> ready, or failed with the reason

The spool folder is the truth: clients may leave and processes may be killed; whoever starts next resumes.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import threading
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from refdesk.access import Caller
from refdesk.arguments import valid_utf8
from refdesk.desk import Refdesk
from refdesk.errors import DiskFull, NotFound, RefdeskError, UsageError
from refdesk.records import UploadedFile
from refdesk.types import UNFINISHED, Added, Document, Progress, Upload

LOOK_S = 0.25  # how often a subscriber looks for changes; what a person still sees as "at once"
TELL_S = 0.25  # progress is written down this often at most, and what was taken back is looked for
IDLE_S = 2.0  # how often an idle worker looks for what another, perhaps killed, process has left
BATCH = 64  # files added together: one start of the parsing processes for all of them
BATCH_BYTES = 8 << 20  # about a minute's work; what comes meanwhile waits no longer for its turn
KEEP = {
    "ready": timedelta(hours=24),  # how long a finished upload is listed; its document stays
    "failed": timedelta(days=30),  # how long the file of a failed one is kept for another try
}
CLEAR_S = 3600.0
LONGEST_NAME = 255
COUNTS = ("pages_done", "pages_total", "chunks_done", "chunks_total")

logger = logging.getLogger("refdesk.uploads")


class Stopped(BaseException):
    """Ends an add when the server stops; the next one starts it again."""


class Uploads:
    """The queue of one library as one process sees it."""

    def __init__(self, desk: Refdesk) -> None:
        self._desk = desk
        self._spool = desk.uploads
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._told = self._looked = 0.0
        self._cleared = -CLEAR_S
        self._has_resumed = False
        self._failed: dict[str, Upload] = {}  # as they were when the work began: reading all records takes a while

    def start(self) -> None:
        """Resumes what was accepted before; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="refdesk-uploads", daemon=True)
            self._thread.start()

    def stop(self, patience_s: float = 20.0) -> None:
        """Cancels the work; the next start resumes what is not finished."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(patience_s)

    def wake(self) -> None:
        """Something was accepted."""
        self._wake.set()

    # what a caller sees: their own uploads; admins see everyone's in their collections

    @staticmethod
    def _visible(upload: Upload, caller: Caller) -> bool:
        return (upload.owner == caller.id or caller.role == "admin") and caller.may("read", upload.collection)

    def listed(self, caller: Caller) -> list[Upload]:
        """Newest first."""
        return [one for one in reversed(self._spool.all().values()) if self._visible(one, caller)]

    def get(self, upload_id: str, caller: Caller) -> Upload:
        found = self._spool.all().get(upload_id)
        if found is None or not self._visible(found, caller):
            raise NotFound(f"there is no upload '{valid_utf8(upload_id)}'")
        return found

    def of_document(self, source: str) -> Upload | None:
        """The upload that a document came from, while it is listed."""
        return self._spool.all().get(source.removeprefix("upload:")) if source.startswith("upload:") else None

    # what a caller does

    def retry(self, upload_id: str, caller: Caller, password: str | None = None) -> Upload:
        """Queues a failed upload once more."""
        upload = self.get(upload_id, caller)
        caller.require("retry", upload.collection)
        if upload.status != "failed":
            raise UsageError(f"{upload.name} has not failed: it is {upload.status}")
        return self._again(upload, password)

    def retry_document(self, document: Document, caller: Caller, password: str | None = None) -> Upload:
        """Queues a document that could not be read: from its upload, or from its place on this machine."""
        caller.require("retry", document.collection)
        if not document.error:
            raise UsageError(f"{document.name} has not failed: it is {document.status}")
        upload = self.of_document(document.source)
        if upload is not None and upload.status in UNFINISHED:
            return upload
        if upload is not None:  # under the name and in the place that it has by now
            return self._again(replace(upload, name=document.name, collection=document.collection), password)
        if document.parent_id is not None:
            raise UsageError(f"{document.name} is attached to another document", hint="try that one again")
        path = Path(document.source)
        if not document.source or document.source.startswith("upload:") or not path.is_file():
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

    def _again(self, upload: Upload, password: str | None) -> Upload:
        if not self._spool.has_data(upload.id):
            raise UsageError(f"the file of {upload.name} is no longer there", hint="upload it again")
        # As it was when it was accepted.
        counts: Any = dict.fromkeys(COUNTS, 0)
        begun = replace(upload, status="pending", outcome="", reason="", seconds_left=None, updated_at="", **counts)
        again = self._spool.write(replace(begun, password=password or None), durable=True)
        self.wake()
        return again

    def add_copies(self, paths: Iterable[Path], collection: str, caller: Caller) -> list[Upload]:
        """Queues copies of files on this machine."""
        accepted = [self._copied(path, path.name, collection, caller, size=path.stat().st_size) for path in paths]
        self.wake()
        return accepted

    def wait_for(self, uploads: Sequence[Upload], until: float) -> list[Upload]:
        """The uploads once all are finished, or at that time (of `time.monotonic`)."""
        while True:
            known = self._spool.all()
            now = [known.get(one.id, one) for one in uploads]
            waits = any(one.id in known and one.status in UNFINISHED for one in now)
            if not waits or time.monotonic() >= until or self._stopping.wait(LOOK_S):
                return now

    def _copied(self, path: Path, name: str, collection: str, caller: Caller, **options: Any) -> Upload:
        with self._spool.receiving() as (upload_id, file), path.open("rb") as original:
            shutil.copyfileobj(original, file)
            return self._spool.accept(new_upload(upload_id, name, collection, caller, **options), file)

    def forget(self, upload_id: str, caller: Caller) -> Upload:
        """Cancels an unfinished upload, or removes a finished one from the list; its document stays."""
        upload = self.get(upload_id, caller)
        caller.require("delete", upload.collection)
        if upload.status in UNFINISHED:
            self._spool.take_back(upload.id)
            self.wake()
        else:
            self._spool.remove(upload.id)
        return upload

    def waiting_for(self, documents: Iterable[Document]) -> list[Upload]:
        """Unfinished uploads of these documents, or of new versions of them."""
        own = {one.source for one in documents}
        places = {(one.collection, one.name) for one in documents if one.source.startswith("upload:")}
        return [one for one in self._waiting() if one.source in own or (one.collection, one.name) in places]

    def waiting_in(self, collection: str) -> list[Upload]:
        """Unfinished uploads to a collection or to one inside it."""
        return [one for one in self._waiting() if f"{one.collection}/".startswith(f"{collection}/")]

    def _waiting(self) -> list[Upload]:
        return [one for one in self._spool.all().values() if one.status in UNFINISHED]

    def cancel(self, uploads: Iterable[Upload]) -> None:
        """Cancels these, waiting or running."""
        for one in uploads:
            self._spool.take_back(one.id)
        self.wake()

    def documents_removed(self, sources: Iterable[str]) -> None:
        """Forgets the uploads of removed documents."""
        known = self._spool.all()
        for source in sources:
            upload = known.get(source.removeprefix("upload:"))
            if upload is not None and upload.status not in UNFINISHED:
                self._spool.remove(upload.id)

    # subscribers

    async def changes(self, caller: Caller) -> AsyncGenerator[list[Upload], None]:
        """All uploads that the caller sees, then those that have changed, about four times a second; `[]` is none.

        One that was removed comes a last time, as `gone`. Any number may follow; none can hold the work up.
        """
        seen: dict[str, Upload] = {}
        before: dict[str, Upload] | None = None
        while not self._stopping.is_set():
            now = self._spool.unchanged()
            if now is None:
                now = await asyncio.to_thread(self._spool.all)
            changed: list[Upload] = []
            if now is not before:
                mine = {one.id: one for one in now.values() if self._visible(one, caller)}
                changed = [one for one in mine.values() if seen.get(one.id) != one]
                changed += [replace(one, status="gone") for one in seen.values() if one.id not in mine]
                seen, before = mine, now
            yield changed
            await asyncio.sleep(LOOK_S)

    # the worker

    def _run(self) -> None:
        with ExitStack() as stack:
            try:
                stack.enter_context(self._desk.at_work())
            except RefdeskError as error:  # a full disk, say; what is there can be asked all the same
                logger.warning("%s", error.sentence)
            self._keep_working()

    def _keep_working(self) -> None:
        while not self._stopping.is_set():
            try:
                self._clear()
                if not self._work():
                    self._wake.wait(IDLE_S)
                    self._wake.clear()
            except Stopped:
                return
            except Exception:  # a worker that ends in silence would leave every later upload waiting
                logger.exception("uploads cannot be worked on")
                self._stopping.wait(IDLE_S)

    def _clear(self) -> None:
        if time.monotonic() - self._cleared >= CLEAR_S:
            self._cleared = time.monotonic()
            now = datetime.now(UTC)
            self._spool.clear({status: (now - age).isoformat(timespec="milliseconds") for status, age in KEEP.items()})

    def _work(self) -> bool:
        """Adds what waits; returns whether there was anything to do for this process."""
        waits = any(one.status in UNFINISHED for one in self._spool.all().values())
        if not (waits or self._spool.taken_back() or not self._has_resumed):
            return False
        with self._spool.working() as mine:
            if not mine:  # another process is at it
                return False
            for upload_id in self._spool.taken_back():
                # Nobody is at it: what a server that is gone had begun is put down, too; and so is what was finished
                # between the moment in which it was looked whether it is wanted and the one in which it was taken back.
                begun = self._desk.document_from(f"upload:{upload_id}")
                if begun is not None and (begun.status in UNFINISHED or self._spool.outcome(upload_id) == "added"):
                    self._desk.remove_found([begun])
                self._spool.remove(upload_id)
            if not self._has_resumed:
                self._desk.add_attached()
                self._has_resumed = True
            # The lock is ours, so whatever is called processing was left by a process that is gone.
            known = self._spool.all(anew=True)
            batch = _batch(one for one in known.values() if one.status in UNFINISHED)
            self._failed = {one.id: one for one in known.values() if one.status == "failed"}
            if batch:
                self._add(batch)
        return bool(batch)

    def _add(self, batch: list[Upload]) -> None:
        files = [self._handed(one) for one in batch]
        known = {file.source: one for file, one in zip(files, batch, strict=True)}

        def on_progress(progress: Progress) -> None:
            if self._stopping.is_set():
                raise Stopped
            if time.monotonic() - self._told >= TELL_S:
                self._told = time.monotonic()
                self._tell(known, progress)

        def on_added(added: Added) -> None:
            if added.source in known:
                self._finish(known.pop(added.source), added)

        def unwanted() -> set[str]:
            if time.monotonic() - self._looked < TELL_S:
                return set()
            self._looked = time.monotonic()
            taken_back = self._spool.taken_back()
            return {source for source, one in known.items() if one.id in taken_back}

        try:
            self._desk.add_uploads(files, on_progress=on_progress, on_added=on_added, unwanted=unwanted)
        except RefdeskError as error:  # of the library, not of a file: a full disk, another embedder
            is_full = isinstance(error, DiskFull)
            reason = "the server's disk is full; try again when there is space on it" if is_full else error.sentence
            for upload in known.values():
                self._end(replace(upload, status="failed", reason=reason))
            return
        for upload in known.values():  # what the pipeline said nothing of must not be tried for ever
            self._end(replace(upload, status="failed", reason="it was not taken in; try again"))

    def _handed(self, upload: Upload) -> UploadedFile:
        """The file as the engine takes it; a retried file of this machine keeps its original place."""
        document = None
        if upload.document_id:
            with suppress(NotFound):
                document = self._desk.find_document(upload.document_id)
        path, metadata = self._spool.data(upload.id), dict(upload.metadata)
        if document is not None and document.source and not document.source.startswith("upload:"):
            return UploadedFile(path, document.name, document.collection, document.source, metadata, upload.password)
        return UploadedFile(path, upload.name, upload.collection, upload.source, metadata, upload.password)

    def _tell(self, known: dict[str, Upload], progress: Progress) -> None:
        for one in progress.files:
            before = known.get(one.source)
            if before is None:
                continue
            left = None if progress.seconds_left is None else round(progress.seconds_left, 1)
            counts = {name: getattr(one, name) for name in COUNTS}
            now = replace(before, status="processing", seconds_left=left, **counts)
            if now != before:
                known[one.source] = self._spool.write(now)

    def _finish(self, upload: Upload, added: Added) -> None:
        document = added.document
        if added.outcome == "removed":  # somebody deleted it while it was read
            self._spool.remove(upload.id)
            return
        if document is not None and added.outcome == "added" and upload.id in self._spool.taken_back():
            self._desk.remove_found([document])  # finished in the moment in which it was taken back
            self._spool.remove(upload.id)
            return
        upload = replace(upload, reason=added.reason, document_id=document.id if document else "")
        if added.outcome == "failed":
            self._end(replace(upload, status="failed", outcome=""))
            return
        pages = document.page_count if document else upload.pages_total
        chunks = document.chunk_count if document else upload.chunks_total
        counts: Any = dict(zip(COUNTS, (pages, pages, chunks, chunks), strict=True))
        self._end(replace(upload, status="ready", outcome=added.outcome, **counts))

    def _end(self, upload: Upload) -> None:
        """Stores the outcome; the file of a failed one is kept for a retry."""
        for other in list(self._failed.values()):  # an earlier try under the same name is settled by this one
            same = (other.collection, other.name) == (upload.collection, upload.name)
            if same and other.id != upload.id and other.created_at < upload.created_at:
                self._spool.remove(other.id)
                del self._failed[other.id]
        ended = self._spool.write(replace(upload, password=None, seconds_left=None), durable=True)
        if ended.status == "ready":
            self._spool.drop_data(ended.id)
        else:
            self._failed[ended.id] = ended


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
) -> Upload:
    """An upload as it is accepted."""
    own: Any = fields | {"size": size, "metadata": dict(metadata or {}), "password": password or None}
    return Upload(upload_id, label(name), collection, owner=caller.id, **own)


def label(name: str) -> str:
    r"""What a file is called in the library: `C:\files\..\a.txt` -> `files/a.txt`. Never used as a path."""
    parts = [part.strip() for part in valid_utf8(name).replace("\\", "/").split("/")]
    shown = ("".join(letter for letter in part if letter.isprintable()) for part in parts)
    kept = "/".join(part for part in shown if part and part not in (".", "..") and not _is_drive(part))
    return kept[-LONGEST_NAME:].lstrip("/") or "unnamed"


def _is_drive(part: str) -> bool:
    return len(part) == 2 and part[1] == ":" and part[0].isalpha()


def _batch(waiting: Iterable[Upload]) -> list[Upload]:
    """Those that are added together, the oldest first, and each who handed in takes turns with the others.

    Not two of one name, of which the second shall replace the first; and not more than a minute's work, so that one
    page does not wait for another one's archive.
    """
    turns: dict[str, int] = {}
    order: list[tuple[int, Upload]] = []
    oldest: dict[tuple[str, str], Upload] = {}
    for upload in waiting:
        turns[upload.owner] = turns.get(upload.owner, 0) + 1
        order.append((turns[upload.owner], oldest.setdefault((upload.collection, upload.name), upload)))
    chosen: dict[str, Upload] = {}
    size = 0
    for _, upload in sorted(order, key=lambda pair: pair[0]):
        if chosen and (len(chosen) >= BATCH or size + upload.size > BATCH_BYTES):
            break
        size += 0 if upload.id in chosen else upload.size
        chosen[upload.id] = upload
    return list(chosen.values())
