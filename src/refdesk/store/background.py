"""Writes that no answer waits for: collected, then written together in one transaction by a thread of its own.

SQLite is told to reach the disk with every transaction; that takes milliseconds, on a slow disk a hundred of them.
"""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from refdesk.store.database import writing

GATHER_S = 0.2  # what comes within this time is written together; a killed process loses no more
MOST_WAITING = 10_000  # writes; more only wait when the disk has been stuck for minutes

Write = Callable[[Connection], None]
logger = logging.getLogger("refdesk.store")


class BackgroundWriter:
    """Takes writes at once and does them soon; `flush` does them now. A write that fails is counted, never raised."""

    def __init__(self, engine: Engine) -> None:
        self._engine = writing(engine)
        self._waiting: deque[Write] = deque()
        self._writing = threading.Lock()  # held while a batch is written
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.lost = 0  # writes that failed
        self.error = ""  # why the last one did
        _at_exit(self)

    def submit(self, write: Write) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._lose(1, f"{MOST_WAITING} writes are waiting for the disk")
            return
        self._waiting.append(write)
        if self._closed.is_set():
            self.flush()
            return
        if self._thread is None or not self._thread.is_alive():  # not alive: this process is a fork
            self._thread = threading.Thread(target=self._run, name="refdesk-store", daemon=True)
            self._thread.start()
        self._wake.set()

    def flush(self) -> None:
        """When it returns, everything submitted before is written, or counted as lost."""
        with self._writing:
            while batch := self._taken():
                self._write(batch)

    def close(self) -> None:
        self._closed.set()
        self._wake.set()
        self.flush()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._wake.wait()
            self._wake.clear()
            self._closed.wait(GATHER_S)
            self.flush()

    def _taken(self) -> list[Write]:
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def _write(self, batch: list[Write]) -> None:
        try:
            with self._engine.begin() as connection:
                for write in batch:
                    write(connection)
        except (SQLAlchemyError, OSError, ValueError, TypeError) as error:
            # One bad write must not take the others with it; a disk that is full or stuck takes none of them.
            if len(batch) > 1 and not isinstance(error, OperationalError | OSError):
                for write in batch:
                    self._write([write])
            else:
                self._lose(len(batch), str(getattr(error, "orig", error)))

    def _lose(self, count: int, why: str) -> None:
        if not self.lost:
            logger.warning("answers and their traces cannot be written down: %s", why)
        self.lost += count
        self.error = why


def _at_exit(writer: BackgroundWriter) -> None:
    """A program that forgets to close still keeps its answers; one that has dropped the writer is not held up."""
    reference = weakref.ref(writer)

    def flush() -> None:
        if (found := reference()) is not None:
            found.flush()

    atexit.register(flush)
    # Not at exit: it would take the flush away before it has run.
    weakref.finalize(writer, atexit.unregister, flush).atexit = False
