"""Processes uploads: in one thread of a server, or in any number of `refdesk worker` processes on any machine.

    waits -> taken under a lease -> added; or waits again, for longer each time; or is parked with the reason

A worker that dies is seen by the end of its lease, on its own machine at once, and others take over what it had taken.
What was taken over twice is taken by itself from then on, so that one document that ends its workers does not take the
others along; after `MOST_TAKEN` times it is parked, as failed, until somebody tries it again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from refdesk.desk import Refdesk
from refdesk.errors import RefdeskError
from refdesk.types import BACKGROUND, QUEUED, UNFINISHED, Job, Progress

IDLE_S = 2.0  # how often an idle worker looks for what another, perhaps killed, process has left
LOOK_S = 0.25  # how often one of `refdesk worker` looks whether something was accepted
STUCK_S = 900.0  # a worker that has not said anything for so long is stuck; a page of OCR takes a minute at most
BATCH = 64  # files added together: one start of the parsing processes for all of them
BATCH_BYTES = 8 << 20  # about a minute's work; what comes meanwhile waits no longer for its turn
SUSPECT = 2  # how often a job was taken that is taken by itself from now on
KEEP = {
    "ready": timedelta(hours=24),  # how long a finished upload is listed; its document stays
    "failed": timedelta(days=30),  # how long the file of a failed one is kept for another try
}
CLEAR_S = 3600.0

logger = logging.getLogger("refdesk.uploads")


class Stopped(BaseException):
    """Ends an add when the server stops; the next one starts it again."""


class PutDown(BaseException):
    """Ends a job in the background for a while: an upload waits."""


class UploadWorker:
    """Adds the uploads of one library, in a thread of a server or as a process of its own."""

    def __init__(self, desk: Refdesk, *, is_one_of_many: bool = False) -> None:
        self._desk, self._jobs, self._files = desk, desk.jobs, desk.files
        self._is_one_of_many = is_one_of_many
        self._wake = threading.Event()
        self.stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._cleared = -CLEAR_S
        self.last_sign = time.monotonic()  # of life

    def start(self) -> None:
        """Resumes what was accepted before; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self.run, name="refdesk-uploads", daemon=True)
            self._thread.start()

    def stop(self, patience_s: float = 20.0) -> None:
        """Cancels the work; the next start resumes what is not finished."""
        self.stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(patience_s)

    def wake(self) -> None:
        """Something was accepted."""
        self._wake.set()

    @property
    def is_stuck(self) -> bool:
        return time.monotonic() - self.last_sign > STUCK_S

    def run(self) -> None:
        """Until it is told to stop: a worker that ends in silence would leave every later upload waiting.

        After a failure it begins a new run, and gives back what the one before had taken.
        """
        reported = ""
        lost: list[str] = []  # runs whose end could not be written down
        while not self.stopping.is_set():
            self.last_sign = time.monotonic()
            try:
                with self._desk.at_work() as run:
                    self._give_back(lost)
                    lost.append(run.worker)
                    self._keep_working(run)
                    lost.remove(run.worker)
            except RefdeskError as error:  # a full disk, a database that restarts; what is there can be asked
                if error.sentence != reported:
                    logger.warning("uploads cannot be processed: %s", error.sentence)
                reported = error.sentence
                self.stopping.wait(IDLE_S)
            except Exception:
                logger.exception("uploads cannot be processed")
                self.stopping.wait(IDLE_S)

    def _give_back(self, lost: list[str]) -> None:
        """What runs of this very process had taken when the database went: nobody died, so it does not count."""
        while lost:
            lost_jobs = [job for job in self._jobs.all().values() if job.worker == lost[0] and job.status in UNFINISHED]
            self._jobs.change([replace(job, worker="", attempts=job.attempts - 1) for job in lost_jobs], lost[0])
            self._jobs.end(lost[0])
            lost.pop(0)

    def _keep_working(self, run: Any) -> None:
        has_resumed = False
        while not self.stopping.is_set():
            self.last_sign = time.monotonic()
            try:
                self.clear()
                if not self._work(run, is_first=not has_resumed):
                    self._wait()
                has_resumed = True
            except Stopped:
                return

    def _wait(self) -> None:
        """Until it is time to look again; who is woken by nobody looks for changes meanwhile."""
        version, until = self._jobs.version(), time.monotonic() + IDLE_S
        while not self.stopping.is_set() and time.monotonic() < until:
            if self._wake.wait(LOOK_S if self._is_one_of_many else IDLE_S):
                self._wake.clear()
                return
            if self._is_one_of_many and self._jobs.version() != version:
                return

    def clear(self) -> None:
        """Once an hour, what nobody needs any more."""
        if time.monotonic() - self._cleared >= CLEAR_S:
            self._cleared = time.monotonic()
            oldest = {status: (datetime.now(UTC) - age).isoformat() for status, age in KEEP.items()}
            known = self._jobs.all()
            self.remove(job.id for job in known.values() if job.updated_at < oldest.get(job.status, ""))
            self._files.clear_staged(known)

    def remove(self, ids: Iterable[str]) -> None:
        gone = list(ids)
        self._jobs.remove(gone)  # first: bytes without a job are nobody's
        self._files.unstage(gone)

    def _work(self, run: Any, *, is_first: bool) -> bool:
        """Adds what waits; returns whether there was anything to do for this process."""
        if not self._is_one_of_many and not self._desk.settings.adds:
            return False
        for job in self._jobs.cancelled():
            # Nobody is at it: what a server that is gone had begun is put down, too; and so is what was finished
            # between the moment in which it was looked whether it is wanted and the one in which it was cancelled.
            begun = self._desk.document_from(job.source)
            if begun is not None and (begun.status in UNFINISHED or job.outcome == "added"):
                self._desk.remove_found([begun])
            self.remove([job.id])
        if is_first or self._jobs.waiting():
            choose = self._apart(run.worker) if self._is_one_of_many else batch
            if self._desk.work(run, choose, alone=not self._is_one_of_many, on_progress=self._check_stopping):
                return True
        run.pool.close()
        return self._in_background(run)

    def _in_background(self, run: Any) -> bool:
        """A job over documents that are there; it is put down, and resumed, when an upload comes."""
        try:
            return self._desk.work_in_background(run, check=self._check_waiting) is not None
        except PutDown:
            return True

    def _apart(self, worker: str) -> Callable[[list[Job]], Sequence[Job]]:
        """A batch in which nothing has the name or the content of what another worker is at.

        Who the others are is asked after the free jobs were read: what was free then is taken by one of us, and what
        had been taken before is seen to be.
        """

        def choose(free: list[Job]) -> Sequence[Job]:
            at_work = [job for job in self._jobs.all().values() if job.worker not in ("", worker)]
            names = {(job.collection, job.name) for job in at_work}
            contents = {(job.collection, job.content_hash) for job in at_work}
            chosen = []
            for job in free:
                # Files that a killed `refdesk add` has left can be read on its own machine alone.
                is_here = job.kind in QUEUED or Path(job.source).is_file()
                content = (job.collection, job.content_hash)
                if is_here and (job.collection, job.name) not in names and content not in contents:
                    chosen.append(job)
                    contents.add(content)  # of two with the same content, the second waits for what becomes of it
            return batch(chosen)

        return choose

    def _check_stopping(self, _: Progress | None = None) -> None:
        self.last_sign = time.monotonic()
        if self.stopping.is_set():
            raise Stopped

    def _check_waiting(self) -> None:
        self._check_stopping()
        uploads = self._jobs.all().values()
        if any(job.status in UNFINISHED and not job.worker and job.is_due for job in uploads):
            raise PutDown


def batch(waiting: Iterable[Job]) -> list[Job]:
    """Those that are added together, the oldest first, and each who handed in takes turns with the others.

    Not two of one name, of which the second shall replace the first; not more than a minute's work, so that one page
    does not wait for another one's archive; and what has ended its workers, perhaps, by itself.
    """
    due = [job for job in waiting if job.is_due and job.kind not in BACKGROUND]
    if due and due[0].attempts >= SUSPECT:
        return due[:1]
    turns: dict[str, int] = {}
    order: list[tuple[int, Job]] = []
    oldest: dict[tuple[str, str], Job] = {}
    for upload in due:
        turns[upload.owner] = turns.get(upload.owner, 0) + 1
        order.append((turns[upload.owner], oldest.setdefault((upload.collection, upload.name), upload)))
    chosen: dict[str, Job] = {}
    size = 0
    for _, upload in sorted(order, key=lambda pair: pair[0]):
        if chosen and (len(chosen) >= BATCH or size + upload.size > BATCH_BYTES or upload.attempts >= SUSPECT):
            break
        size += 0 if upload.id in chosen else upload.size
        chosen[upload.id] = upload
    return list(chosen.values())


# Is a worker that has no HTTP service alive? One line for whoever looks after processes.


def tell_health(worker: UploadWorker, host: str, port: int) -> ThreadingHTTPServer:
    """Answers every GET at this port with 200 while the worker gives signs of life, else 503; `.shutdown()` ends it."""

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # as http.server calls it
            status, body = (503, b'{"status":"stuck"}') if worker.is_stuck else (200, b'{"status":"ok"}')
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *values: Any) -> None:
            """A line for every look would bury all others."""

    server = ThreadingHTTPServer((host, port), Health)
    threading.Thread(target=server.serve_forever, name="refdesk-health", daemon=True).start()
    return server
