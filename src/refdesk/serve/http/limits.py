"""How much may a caller send, and how much may a key do?

The settings `serve.*` say how many requests a key has in an hour and how many questions at a time, in all workers
together; whoever is at the machine (no key) has no limit. Beyond that nobody may hold up the others: not with open
connections, nor with long computations, nor with a head or a body that never ends.
"""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from fastapi import HTTPException
from starlette.types import Message, Receive
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from refdesk.errors import TooManyRequests
from refdesk.records import Caller
from refdesk.serve.http.errors import json_bytes, plain_problem
from refdesk.settings import Settings

HOUR_S = 3600.0
LONGEST_BODY = 4 << 20  # bytes; a long conversation sent with a question stays far below
SILENCE_S = 60.0  # between two pieces of a body; whoever is silent for longer has left, or holds a place on purpose
SOON_S = 2.0  # when to come back while other questions of the same key are being answered
OPEN_AT_ONCE = 100  # requests of a key beside its questions; a browser opens six connections
HEAVY_AT_ONCE = 2  # long computations of a key; its others wait for their turn
FILE = "limits.sqlite"  # not .db: Prometheus takes those of the same folder for its own
# `began`: when the hour of `count` began; `earlier`: requests of the hour before. One row of `asking` is one question.
TABLES = """
CREATE TABLE IF NOT EXISTS requests (key TEXT PRIMARY KEY, began REAL, count INTEGER, earlier INTEGER);
CREATE TABLE IF NOT EXISTS asking (id INTEGER PRIMARY KEY, key TEXT, process INTEGER);
"""


def bounded(receive: Receive, most: float = LONGEST_BODY) -> Receive:
    """The same body, as long as it is not too long and keeps coming; it is not read further than that."""
    left = most
    is_whole = False

    async def receiving() -> Message:
        nonlocal left, is_whole
        if is_whole:  # the next message says that the client has left, whenever that is
            return await receive()
        # FastAPI's own exception: it turns every other one that is raised while it reads a body into 400.
        try:
            async with asyncio.timeout(SILENCE_S):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"nothing arrived for {SILENCE_S:.0f} seconds", {"Connection": "close"}) from None
        left -= len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if left < 0:
            most_mb = LONGEST_BODY >> 20
            raise HTTPException(413, f"a request can have at most {most_mb} MB; upload larger files as documents")
        return message

    return receiving


class Limits:
    """Counts in a database in the folder that all workers share; in memory where there is one worker."""

    def __init__(self, shared: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        place = ":memory:" if shared is None else str(shared / FILE)
        self._database = sqlite3.connect(place, timeout=10, isolation_level=None, check_same_thread=False)
        # The counts outlive a killed worker; they need not outlive a crash of the machine.
        self._database.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = PERSIST;" + TABLES)
        self._open: Counter[str] = Counter()
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @contextmanager
    def _counts(self) -> Iterator[sqlite3.Connection]:
        """No other worker counts meanwhile."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            finally:
                self._database.execute("COMMIT")

    def count(self, caller: Caller, settings: Settings) -> None:
        """One more request of this caller, or `TooManyRequests`."""
        most = settings.requests_per_hour
        if not caller.id or not most:
            return
        now = self._clock()
        with self._counts() as database:
            row = database.execute("SELECT began, count, earlier FROM requests WHERE key = ?", (caller.id,)).fetchone()
            began, count, earlier = _this_hour(now, *(row or (now, 0, 0)))
            # The requests of this hour and a share of the hour before estimate those of the last sixty minutes.
            recent = count + earlier * (1 - (now - began) / HOUR_S)
            if recent >= most:
                # Until enough of the hour before has faded, or else until this hour is over.
                fading = (recent - most + 1) / earlier * HOUR_S if earlier else math.inf
                wait = min(fading, HOUR_S - (now - began))
                message = f"this key has used its {most:,} request{'s' * (most != 1)} for this hour"
                raise TooManyRequests(message, hint=f"try again in {duration(wait)}", retry_after_s=wait)
            database.execute("REPLACE INTO requests VALUES (?, ?, ?, ?)", (caller.id, began, count + 1, earlier))

    def begin(self, caller: Caller, settings: Settings) -> Callable[[], None]:
        """A place among the questions of this caller; call the result when the question is done."""
        if not caller.id:
            return lambda: None
        most = settings.concurrent_asks
        with self._counts() as database:
            if most and _running(database, caller.id) >= most:
                for (process,) in database.execute("SELECT DISTINCT process FROM asking").fetchall():
                    if not is_alive(process):  # a worker that was killed ends no question
                        database.execute("DELETE FROM asking WHERE process = ?", (process,))
            running = _running(database, caller.id)
            if most and running >= most:
                several = running != 1
                raise TooManyRequests(
                    f"{f'{running} questions' if several else 'a question'} of this key "
                    f"{'are' if several else 'is'} being answered already",
                    hint="wait until one of them is done" if several else "wait until it is done",
                    retry_after_s=SOON_S,
                )
            row = database.execute("INSERT INTO asking (key, process) VALUES (?, ?)", (caller.id, os.getpid()))
        return lambda: self._end(row.lastrowid)

    def _end(self, row: int | None) -> None:
        with self._counts() as database:
            database.execute("DELETE FROM asking WHERE id = ?", (row,))

    @contextmanager
    def asking(self, caller: Caller, settings: Settings) -> Iterator[None]:
        end = self.begin(caller, settings)
        try:
            yield
        finally:
            end()

    @contextmanager
    def opened(self, caller: Caller, settings: Settings) -> Iterator[None]:
        """A request for as long as it lasts: streams and slow bodies hold a connection each."""
        running = self._open[caller.id]
        if caller.id and settings.concurrent_asks and running >= settings.concurrent_asks + OPEN_AT_ONCE:
            message = f"{running} requests of this key are open already"
            raise TooManyRequests(message, hint="close some of them", retry_after_s=SOON_S)
        self._open[caller.id] += 1
        try:
            yield
        finally:
            self._open[caller.id] -= 1
            self._open += Counter()  # without those that have none

    def turn(self, caller: Caller) -> asyncio.Semaphore:
        """`async with` it around long computations: a key that wants many of them waits for itself alone."""
        turns = self._turns.get(caller.id)
        if turns is None:
            turns = self._turns[caller.id] = asyncio.Semaphore(HEAVY_AT_ONCE)
        return turns


def _running(database: sqlite3.Connection, key_id: str) -> int:
    return int(database.execute("SELECT count(*) FROM asking WHERE key = ?", (key_id,)).fetchone()[0])


def _this_hour(now: float, began: float, count: int, earlier: int) -> tuple[float, int, int]:
    """When this hour began, its requests, and those of the hour before."""
    if now - began < HOUR_S:
        return began, count, earlier
    return (began + HOUR_S, 0, count) if now - began < 2 * HOUR_S else (now, 0, 0)


def is_alive(process: int) -> bool:
    if os.name == "nt":  # where the same call would end the process
        return True
    try:
        os.kill(process, 0)
    except OSError:  # it is gone, or its number is now that of another user's process
        return False
    return True


def duration(seconds: float) -> str:
    """`3301.2` -> `56 minutes`, `40` -> `40 seconds`; never less than it takes."""
    count, unit = (math.ceil(seconds / 60), "minute") if seconds > 90 else (max(1, math.ceil(seconds)), "second")
    return f"{count} {unit}{'s' * (count != 1)}"


# How much of a request is read before its route is known? Its head, limited in bytes, headers and time.
#
# httptools has no limits of its own: an endless header would be collected, copied at each packet, and hold up everybody
# on the same event loop. The same limit holds for what stands between the parts of a body (chunk sizes, trailers).

MOST_BYTES = 128 << 10  # the request line too: GET /api/search takes 8,000 characters, each up to 12 bytes when escaped
MOST_HEADERS = 100  # as Apache's own limit; browsers behind proxies send about 40
HEAD_S = 30.0  # from the first byte of a request, or from the connection, to the end of its head
TOO_LARGE = (431, "headers_too_large", "the head of this request is too long")
TOO_MANY = (431, "headers_too_large", f"this request has more than {MOST_HEADERS} headers")
TOO_SLOW = (408, "request_timeout", "the head of this request took too long")


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a limit on heads; whoever exceeds it is told so and disconnected."""

    most_bytes = MOST_BYTES
    most_headers = MOST_HEADERS
    head_seconds = HEAD_S

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._pending = 0  # bytes since a head or a part of a body was complete
        self._has_begun = False  # a request whose head is not complete
        self._count = 0
        self._refusal: tuple[int, str, str] | None = None
        self._waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest and not self.transport.is_closing() and self.parser is not None:
            # Never more than there is room for: the parser does not see what is beyond.
            part, rest = rest[: self.most_bytes - self._pending], rest[self.most_bytes - self._pending :]
            self._pending += len(part)
            super().data_received(bytes(part))
            if self._pending >= self.most_bytes:
                self._refuse(TOO_LARGE)

    # what the parser finds

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._has_begun, self._count = True, 0
        if self._waiting is None:
            self._wait()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count += 1
        if self._count > self.most_headers:
            self._refusal = TOO_MANY
            raise ValueError(TOO_MANY[2])  # ends the parsing; `send_400_response` is what uvicorn does then
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._pending, self._has_begun = 0, False
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._pending = 0
        super().on_message_complete()

    # limits

    def send_400_response(self, msg: str) -> None:
        if self._refusal is None:
            super().send_400_response(msg)
        else:
            self._refuse(self._refusal)

    def _wait(self) -> None:
        self._waiting = self.loop.call_later(self.head_seconds, self._timed_out)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _timed_out(self) -> None:
        self._waiting = None
        if self._has_begun:
            self._refuse(TOO_SLOW)
        else:  # nobody has asked for anything: a browser that connected in advance
            self.transport.close()

    def _refuse(self, refusal: tuple[int, str, str]) -> None:
        if self.transport.is_closing():
            return
        status, code, message = refusal
        body = json_bytes(plain_problem(code, message, "", retryable=status == 408))
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        if self.cycle is None or self.cycle.response_complete:  # else an answer is on its way: it is cut off
            self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
