"""Leases on jobs (which run is working on what), what becomes of a job, and the delay before it is tried again."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from refdesk.errors import DiskFull, LibraryError, ModelError, RefdeskError
from refdesk.store_ports import Files, Jobs
from refdesk.types import Added, Job

MOST_TAKEN = 5  # times that a job is taken; what has ended its worker, or met nobody, so often waits for a person
FIRST_WAIT_S = 5.0  # before the second try
PARKED = "it is saved; try again with more memory, or split it"
BEAT_S = 15.0  # a quarter of the lease
COUNTS = ("pages_done", "pages_total", "chunks_done", "chunks_total")


class _Closable(Protocol):
    def close(self) -> None: ...


_Pool = TypeVar("_Pool", bound=_Closable)


class KeptPool:
    """The processes that parse, kept from one batch to the next: to start them takes as long as to read ten files."""

    def __init__(self) -> None:
        self._of: Any = None
        self._pool: Any = None

    def take(self, of: object, make: Callable[[], _Pool]) -> _Pool:
        """The pool that was kept, where it was made of the same; whoever takes it gives it back or closes it."""
        pool, self._pool = self._pool, None
        if pool is not None and self._of != of:
            pool.close()
            pool = None
        self._of = of
        found: _Pool = make() if pool is None else pool
        return found

    def keep(self, pool: _Closable) -> None:
        self.close()
        self._pool = pool

    def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()


@dataclass(frozen=True, slots=True)
class Run:
    worker: str
    folder: Path
    pool: KeptPool = field(default_factory=KeptPool)


@contextmanager
def at_work(jobs: Jobs, files: Files) -> Iterator[Run]:
    """A run of this process; what it has taken and not finished at the end of the block is free for others."""
    worker = jobs.start()
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_S):
            with suppress(Exception):  # a full disk, a database that restarts; the lease lasts for some more beats
                jobs.beat(worker)

    thread = threading.Thread(target=beat, name="refdesk-lease", daemon=True)
    thread.start()
    try:
        with files.workspace(worker) as folder:
            run = Run(worker, folder)
            try:
                yield run
            finally:
                run.pool.close()
    finally:
        ended.set()
        thread.join()
        with suppress(RefdeskError):  # the lease ends by itself
            jobs.end(worker)


def is_tried_again(job: Job, error: BaseException) -> bool:
    """Whether somebody else failed, who may be there again soon: a model behind an address, the database, the files."""
    is_of_others = isinstance(error, ModelError | LibraryError) and error.retryable and not isinstance(error, DiskFull)
    return is_of_others and job.attempts < MOST_TAKEN


def later(job: Job, error: BaseException) -> Job:
    """The same job for another try, after a while that doubles from one to the next; a defect of ours says nothing."""
    wait = FIRST_WAIT_S * 2 ** (job.attempts - 1) * random.uniform(0.75, 1.25)
    reason = error.sentence if isinstance(error, RefdeskError) else ""
    return replace(job, status="pending", worker="", seconds_left=None, lease_until=time.time() + wait, reason=reason)


def without_worker(job: Job) -> Job:
    return replace(job, worker="", password=None, seconds_left=None)


def finished_job(job: Job, added: Added) -> Job:
    """A job as it is when its documents are finished."""
    document = added.document
    ended = replace(without_worker(job), reason=added.reason, document_id=document.id if document else "")
    if added.outcome == "failed":
        return replace(ended, status="failed", outcome="")
    pages = document.page_count if document else job.pages_total
    chunks = document.chunk_count if document else job.chunks_total
    counts: Any = dict(zip(COUNTS, (pages, pages, chunks, chunks), strict=True))
    return replace(ended, status="ready", outcome=added.outcome, **counts)
