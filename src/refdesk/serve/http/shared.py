"""State shared by the processes of a server: usage per key, and the answers being streamed.

Two ports, each for one machine (SQLite, in a folder that its processes share, or in memory) and for many (Redis, in
`shared_redis.py`). None of it is kept for long, and a service that loses all of it goes on.
"""

from __future__ import annotations

import logging
import math
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from filelock import FileLock

from refdesk.serve import is_alive

HOUR_S = 3600.0
logger = logging.getLogger("refdesk.http")

# How much has a key done?


class Counts(Protocol):
    """Requests of an hour and questions at a time, by the id of a key."""

    def count(self, key: str, most: int) -> float:
        """One more request, and 0; or, when there were `most` already, for how many seconds to wait."""

    def begin(self, key: str, most: int) -> tuple[str, int]:
        """A place among the questions of a key, to be handed to `end`; or "" and how many are being answered.

        `most` 0 is no limit. What a process that died had begun is ended.
        """

    def end(self, place: str) -> None: ...


def hour_of(now: float, began: float, count: int, earlier: int) -> tuple[float, int, int]:
    """When this hour began, its requests, and those of the hour before."""
    if now - began < HOUR_S:
        return began, count, earlier
    return (began + HOUR_S, 0, count) if now - began < 2 * HOUR_S else (now, 0, 0)


def wait_for(now: float, began: float, count: int, earlier: int, most: int) -> float:
    """Seconds until one more request is within the limit; 0: it is now.

    The requests of this hour and a share of the hour before estimate those of the last sixty minutes.
    """
    recent = count + earlier * (1 - (now - began) / HOUR_S)
    if recent < most:
        return 0.0
    # Until enough of the hour before has faded, or else until this hour is over.
    fading = (recent - most + 1) / earlier * HOUR_S if earlier else math.inf
    return min(fading, HOUR_S - (now - began))


LIMITS = "limits.sqlite"  # not .db: Prometheus takes those of the same folder for its own
# `began`: when the hour of `count` began; `earlier`: requests of the hour before. One row of `asking` is one question.
COUNT_TABLES = """
CREATE TABLE IF NOT EXISTS requests (key TEXT PRIMARY KEY, began REAL, count INTEGER, earlier INTEGER);
CREATE TABLE IF NOT EXISTS asking (id INTEGER PRIMARY KEY, key TEXT, process INTEGER);
"""


class SqlCounts:
    """The `Counts` port in a database in the folder that all workers share; in memory where there is one worker."""

    def __init__(self, shared: Path | None = None, clock: Any = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        place = ":memory:" if shared is None else str(shared / LIMITS)
        self._database = sqlite3.connect(place, timeout=10, isolation_level=None, check_same_thread=False)
        # The counts outlive a killed worker; they need not outlive a crash of the machine.
        self._database.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = PERSIST;" + COUNT_TABLES)

    @contextmanager
    def _alone(self) -> Iterator[sqlite3.Connection]:
        """No other worker counts meanwhile."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            finally:
                self._database.execute("COMMIT")

    def count(self, key: str, most: int) -> float:
        now = self._clock()
        with self._alone() as database:
            row = database.execute("SELECT began, count, earlier FROM requests WHERE key = ?", (key,)).fetchone()
            began, count, earlier = hour_of(now, *(row or (now, 0, 0)))
            if wait := wait_for(now, began, count, earlier, most):
                return wait
            database.execute("REPLACE INTO requests VALUES (?, ?, ?, ?)", (key, began, count + 1, earlier))
        return 0.0

    def begin(self, key: str, most: int) -> tuple[str, int]:
        with self._alone() as database:
            if most and _running(database, key) >= most:
                for (process,) in database.execute("SELECT DISTINCT process FROM asking").fetchall():
                    if not is_alive(process):  # a worker that was killed ends no question
                        database.execute("DELETE FROM asking WHERE process = ?", (process,))
            running = _running(database, key)
            if most and running >= most:
                return "", running
            row = database.execute("INSERT INTO asking (key, process) VALUES (?, ?)", (key, os.getpid()))
            return str(row.lastrowid), running

    def end(self, place: str) -> None:
        with self._alone() as database:
            database.execute("DELETE FROM asking WHERE id = ?", (int(place),))


def _running(database: sqlite3.Connection, key: str) -> int:
    return int(database.execute("SELECT count(*) FROM asking WHERE key = ?", (key,)).fetchone()[0])


# Which answers are being streamed?


@dataclass(frozen=True, slots=True)
class Told:
    """A stream as the other processes see it."""

    id: str
    owner: str
    conversation: str
    question: str
    is_done: bool = False
    is_stopped: bool = False  # somebody has asked that it ends
    last_read: float = 0.0  # seconds since 1970, by who follows it in another process


class EventLog(Protocol):
    """The streams of all processes. What is told here is seen by the others a moment later; nobody waits for it."""

    patience_s: float  # for how long a stream that was there may not be found, before it counts as gone

    def begin(self, stream: Told, parts: Sequence[bytes]) -> None:
        """`parts` will hold its events, in this process, for as long as it runs."""

    def grew(self, stream_id: str) -> None:
        """There is one more event in its parts."""

    def finish(self, stream_id: str) -> None: ...

    def stop(self, stream_id: str) -> None:
        """Asks the process that writes it to end it."""

    def read(self, stream_id: str) -> None:
        """Somebody is reading it here."""

    def forget(self, stream_id: str) -> None: ...

    def find(self, stream_id: str) -> Told | None:
        """None also for a stream of a process that was killed: nobody goes on with it."""

    def running(self, conversation: str, owner: str) -> Told | None:
        """The one that answers in this conversation at this moment."""

    def after(self, stream_id: str, number: int) -> list[bytes]:
        """Its events after the first `number` of them."""


STREAM_TABLES = """
PRAGMA synchronous = OFF;
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS streams (
    id TEXT PRIMARY KEY, owner TEXT, conversation TEXT, question TEXT, process INTEGER,
    is_done INTEGER DEFAULT 0, is_stopped INTEGER DEFAULT 0, last_read REAL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS events (stream TEXT, number INTEGER, data BLOB, PRIMARY KEY (stream, number));
"""


class SqlEvents:
    """The `EventLog` port in a database in the folder of the processes of one server.

    A thread writes, in the order of the calls, so that no token waits on the event loop for the lock of the database;
    readers do not wait for a writer (WAL).
    """

    patience_s = 0.0

    def __init__(self, folder: Path) -> None:
        self._place = folder / "streams.sqlite"
        self._waiting: SimpleQueue[tuple[str, tuple[Any, ...]]] = SimpleQueue()
        self._own: dict[str, Sequence[bytes]] = {}
        self._database = self._open()
        threading.Thread(target=self._write, name="shared-events", daemon=True).start()

    def _open(self) -> sqlite3.Connection:
        with FileLock(f"{self._place}.lock"):  # two workers that start at once: WAL is switched on by one of them
            database = sqlite3.connect(self._place, timeout=10, isolation_level=None, check_same_thread=False)
            database.executescript(STREAM_TABLES)
        database.row_factory = sqlite3.Row
        return database

    def _write(self) -> None:
        database = self._open()
        while True:
            changes = [self._waiting.get()]
            while not self._waiting.empty():
                changes.append(self._waiting.get())
            try:
                database.execute("BEGIN IMMEDIATE")
                for statement, values in changes:
                    database.execute(statement, values)
                database.execute("COMMIT")
            except sqlite3.Error:  # a full disk: whoever follows in another process misses these events
                logger.exception("events could not be shared with the other workers")
                if database.in_transaction:
                    database.execute("ROLLBACK")

    def _change(self, statement: str, *values: Any) -> None:
        self._waiting.put((statement, values))

    def begin(self, stream: Told, parts: Sequence[bytes]) -> None:
        self._own[stream.id] = parts
        new = (stream.id, stream.owner, stream.conversation, stream.question, os.getpid())
        self._change("INSERT INTO streams (id, owner, conversation, question, process) VALUES (?, ?, ?, ?, ?)", *new)

    def grew(self, stream_id: str) -> None:
        parts = self._own[stream_id]
        self._change("INSERT INTO events VALUES (?, ?, ?)", stream_id, len(parts), parts[-1])

    def finish(self, stream_id: str) -> None:
        self._own.pop(stream_id, None)
        self._change("UPDATE streams SET is_done = 1 WHERE id = ?", stream_id)

    def stop(self, stream_id: str) -> None:
        self._change("UPDATE streams SET is_stopped = 1 WHERE id = ?", stream_id)

    def read(self, stream_id: str) -> None:
        self._change("UPDATE streams SET last_read = ? WHERE id = ?", time.time(), stream_id)

    def forget(self, stream_id: str) -> None:
        self._change("DELETE FROM streams WHERE id = ?", stream_id)
        self._change("DELETE FROM events WHERE stream = ?", stream_id)

    def find(self, stream_id: str) -> Told | None:
        return self._told("id = ?", stream_id)

    def running(self, conversation: str, owner: str) -> Told | None:
        return self._told("conversation = ? AND owner = ? AND NOT is_done", conversation, owner)

    def _told(self, condition: str, *values: str) -> Told | None:
        query = f"SELECT * FROM streams WHERE {condition} ORDER BY id DESC LIMIT 1"
        for row in self._database.execute(query, values).fetchall():
            if row["is_done"] or is_alive(row["process"]):
                about = (row["id"], row["owner"], row["conversation"], row["question"])
                return Told(*about, bool(row["is_done"]), bool(row["is_stopped"]), row["last_read"])
        return None

    def after(self, stream_id: str, number: int) -> list[bytes]:
        query = "SELECT data FROM events WHERE stream = ? AND number > ? ORDER BY number"
        return [row["data"] for row in self._database.execute(query, (stream_id, number)).fetchall()]
