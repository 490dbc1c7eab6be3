"""Worker processes that may hang, run out of memory or crash without harm to the program.

Each worker is a fresh interpreter that runs `refdesk.worker` and speaks pickled messages over a socket, so
that the caller's main module is never imported again, as `multiprocessing` would. Its standard input is its lifeline:
when that ends, the program is gone, and the worker goes too, in the middle of a task if need be.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

from refdesk.errors import ParserDied, ParseTimeout, RefdeskError

CLOSE_PATIENCE_S = 2.0
START_PATIENCE_S = 120.0  # an interpreter and the model, on a machine that is busy; not part of a task's time
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
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C in a terminal is for the program alone
            env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        )
        theirs.close()
        self.connection.send(setup)
        self.has_started = False
        self.ticket: int | None = None
        self.patience = 0.0
        self.heard = 0.0

    @property
    def is_overdue(self) -> bool:
        patience = self.patience if self.has_started else max(self.patience, START_PATIENCE_S)
        return time.monotonic() - self.heard > patience

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        self.connection.close()
        if self.process.stdin is not None:
            self.process.stdin.close()


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
        worker = self._idle_worker()
        worker.ticket, worker.patience, worker.heard = ticket, time_limit_s, time.monotonic()
        with suppress(OSError):  # it died this very moment; the next look at it says so
            worker.connection.send(task)

    def _idle_worker(self) -> _Worker:
        for worker in [one for one in self._workers if one.ticket is None]:
            if not worker.connection.poll() and worker.process.poll() is None:  # idle workers say nothing
                return worker
            worker.end()  # it died while idle, which is no fault of the next task
            self._workers.remove(worker)
        worker = _Worker(self._setup)
        self._workers.append(worker)
        return worker

    def events(self, timeout_s: float) -> Iterator[Event]:
        """What the workers have said; waits up to `timeout_s` for a first word."""
        working = [worker for worker in self._workers if worker.ticket is not None]
        ready = set(wait([worker.connection for worker in working], timeout_s))
        for worker in working:
            if worker.connection in ready:
                yield from self._listen(worker)
            elif worker.is_overdue:
                yield self._lose(worker, ParseTimeout(f"it was not finished after {worker.patience:.0f} seconds"))

    def _listen(self, worker: _Worker) -> Iterator[Event]:
        try:
            while worker.ticket is not None and worker.connection.poll():
                kind, value = worker.connection.recv()
                worker.heard = time.monotonic()
                if kind == "started":
                    worker.has_started = True
                    continue
                ticket = worker.ticket
                if kind != "progress":
                    worker.ticket = None
                yield Event(ticket, kind, value)
        except (EOFError, OSError):
            yield self._lose(
                worker, ParserDied(f"reading it crashed, or took more than {self._memory_limit_mb} MB of memory")
            )

    def cancel(self, ticket: int) -> None:
        """Ends what is done under a ticket; nothing more is heard of it."""
        for worker in [one for one in self._workers if one.ticket == ticket]:
            worker.end()
            self._workers.remove(worker)

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
                worker.close()  # an idle worker leaves by itself
                try:
                    worker.process.wait(CLOSE_PATIENCE_S)
                    continue
                except subprocess.TimeoutExpired:
                    pass
            worker.end()
        self._workers.clear()
