"""Who is at work on jobs, and what is tried again? Leases of runs, and the time between two tries of a job."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from refdesk.errors import DiskFull, LibraryError, ModelError, RefdeskError
from refdesk.store_ports import Files, Jobs
from refdesk.types import Job

MOST_TAKEN = 5  # times that a job is taken; what has ended its worker, or met nobody, so often waits for a person
FIRST_WAIT_S = 5.0  # before the second try
PARKED = "it is kept; try it again when there is more memory, or split it"
BEAT_S = 15.0  # a quarter of the lease


@dataclass(frozen=True, slots=True)
class Run:
    worker: str
    folder: Path


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
            yield Run(worker, folder)
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
