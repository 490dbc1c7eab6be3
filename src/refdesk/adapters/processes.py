"""Worker processes that may hang, run out of memory or crash without harm to the program.

Each worker is a fresh interpreter that runs `refdesk.worker` and speaks pickled messages over a socket, so
that the caller's main module is never imported again, as `multiprocessing` would.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

from refdesk.errors import ParserDied, ParseTimeout, RefdeskError

CLOSE_PATIENCE_S = 2.0
_COMMAND = "from refdesk.worker import main; main()"  # not `-m`, which would make its classes another module's


@dataclass(frozen=True, slots=True)
class Event:
    """What a worker says about the task that was handed in under `ticket`."""

    ticket: int
    kind: Literal["progress", "done", "failed"]
    value: Any


class _Worker:
    def __init__(self, setup: Any) -> None:
        mine, theirs = Pipe()
        self.connection: Connection = mine
        self.process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        )
        theirs.close()
        self.connection.send(setup)
        self.ticket: int | None = None
        self.patience = 0.0
        self.heard = 0.0

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


class WorkerPool:
    """A fixed number of workers, started when first needed; each does one task at a time."""

    def __init__(self, size: int, setup: Any, *, memory_limit_mb: int) -> None:
        self._size = size
        self._setup = setup
        self._memory_limit_mb = memory_limit_mb
        self._workers: list[_Worker] = []

    @property
    def idle(self) -> bool:
        """Whether another task can be handed in."""
        return len(self._workers) < self._size or any(worker.ticket is None for worker in self._workers)

    @property
    def busy(self) -> bool:
        return any(worker.ticket is not None for worker in self._workers)

    def submit(self, ticket: int, task: Any, *, time_limit_s: float) -> None:
        """Hands a task to an idle worker; it fails when nothing is heard of it for `time_limit_s`."""
        worker = next((one for one in self._workers if one.ticket is None), None)
        if worker is None:
            worker = _Worker(self._setup)
            self._workers.append(worker)
        worker.ticket, worker.patience, worker.heard = ticket, time_limit_s, time.monotonic()
        try:
            worker.connection.send(task)
        except OSError:  # it died while idle; the next look at it says so
            return

    def events(self, timeout_s: float) -> Iterator[Event]:
        """What the workers have said; waits up to `timeout_s` for a first word."""
        working = [worker for worker in self._workers if worker.ticket is not None]
        ready = set(wait([worker.connection for worker in working], timeout_s))
        for worker in working:
            if worker.connection in ready:
                yield from self._listen(worker)
            elif time.monotonic() - worker.heard > worker.patience:
                yield self._lose(worker, ParseTimeout(f"it was not finished after {worker.patience:.0f} seconds"))

    def _listen(self, worker: _Worker) -> Iterator[Event]:
        try:
            while worker.ticket is not None and worker.connection.poll():
                kind, value = worker.connection.recv()
                worker.heard = time.monotonic()
                ticket = worker.ticket
                if kind != "progress":
                    worker.ticket = None
                yield Event(ticket, kind, value)
        except (EOFError, OSError):
            yield self._lose(
                worker, ParserDied(f"reading it crashed, or took more than {self._memory_limit_mb} MB of memory")
            )

    def _lose(self, worker: _Worker, reason: RefdeskError) -> Event:
        ticket = worker.ticket
        assert ticket is not None
        worker.end()
        self._workers.remove(worker)
        return Event(ticket, "failed", reason)

    def close(self) -> None:
        """Ends all workers; whatever they were doing is lost."""
        for worker in self._workers:
            if worker.ticket is None:
                worker.connection.close()  # an idle worker leaves by itself
                try:
                    worker.process.wait(CLOSE_PATIENCE_S)
                    continue
                except subprocess.TimeoutExpired:
                    pass
            worker.end()
        self._workers.clear()
