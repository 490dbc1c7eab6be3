"""How much may a key do? Requests in an hour, and questions at a time; the settings `serve.*` say how many.

Whoever sits at the machine (no key) has no limit. Requests and questions are those of all workers together.
Beyond that nobody may hold up the others: not with connections that stay open, nor with what takes long to compute,
nor with a body that never ends.
"""

from __future__ import annotations

import asyncio
import math
import mmap
import os
import secrets
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from fastapi import HTTPException
from starlette.types import Message, Receive
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from refdesk.access import Caller
from refdesk.errors import TooManyRequests
from refdesk.serve.http.errors import json_bytes
from refdesk.settings import Settings

# How much has a key done in all workers together? Each writes its own counts to a file that the others read.

RECORD = struct.Struct("<16sdqqq")  # the key's id, then the fields of `Counts`
MOST_KEYS = 4096  # of a process; those that come later are counted in each worker for itself
LOOK_S = 1.0  # how often it is looked for workers that have come or gone


@dataclass(slots=True)
class Counts:
    """Requests in this hour and the one before, since when this hour runs, and questions being answered."""

    began: float
    count: int = 0
    before: int = 0
    asking: int = 0


@dataclass(slots=True)
class _Other:
    """The file of another process, and where in it the keys stand that were seen there so far."""

    held: mmap.mmap
    places: dict[bytes, int] = field(default_factory=dict)

    def of(self, key: bytes) -> Counts | None:
        while key not in self.places and len(self.places) < MOST_KEYS:  # records are only ever added behind the last
            found = RECORD.unpack_from(self.held, len(self.places) * RECORD.size)[0]
            if not found.strip(b"\0"):
                return None
            self.places[found] = len(self.places)
        place = self.places.get(key)
        return None if place is None else Counts(*RECORD.unpack_from(self.held, place * RECORD.size)[1:])


class Tally:
    """The counts of this process, and those of the others when there is a folder that they share."""

    def __init__(self, folder: Path | None = None) -> None:
        self._counts: dict[str, Counts] = {}
        self._places: dict[str, int] = {}
        self._folder, self._looked = folder, -LOOK_S
        self._others: dict[str, _Other] = {}
        if folder is not None:
            self._name = f"limits-{os.getpid()}-{secrets.token_hex(4)}.bin"
            with (folder / self._name).open("xb+") as file:
                file.truncate(MOST_KEYS * RECORD.size)
                self._held = mmap.mmap(file.fileno(), 0)

    def own(self, key_id: str) -> Counts | None:
        return self._counts.get(key_id)

    def write(self, key_id: str, counts: Counts) -> None:
        """Notes the counts of a key, for the others to see."""
        self._counts[key_id] = counts
        place = self._places.setdefault(key_id, len(self._places))
        if self._folder is not None and place < MOST_KEYS:
            values = counts.began, counts.count, counts.before, counts.asking
            RECORD.pack_into(self._held, place * RECORD.size, _packed(key_id), *values)

    def all(self, key_id: str) -> Iterator[Counts]:
        """What each process counts of a key, this one first."""
        if (own := self.own(key_id)) is not None:
            yield own
        if self._folder is None:
            return
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            self._look(self._folder)
        for other in self._others.values():
            if (found := other.of(_packed(key_id))) is not None:
                yield found

    def _look(self, folder: Path) -> None:
        alive = {path.name for path in folder.glob("limits-*.bin") if path.name != self._name and _is_alive(path.name)}
        for gone in self._others.keys() - alive:
            del self._others[gone]
        for name in alive - self._others.keys():
            with (folder / name).open("rb") as file:
                if os.fstat(file.fileno()).st_size == MOST_KEYS * RECORD.size:  # else it is being made this moment
                    self._others[name] = _Other(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _packed(key_id: str) -> bytes:
    return key_id.encode()[:16].ljust(16, b"\0")


def _is_alive(name: str) -> bool:
    if os.name == "nt":  # where the same call would end the process
        return True
    try:
        os.kill(int(name.split("-")[1]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


HOUR_S = 3600.0
LONGEST_BODY = 4 << 20  # bytes; a long conversation handed in with a question stays far below
SILENCE_S = 60.0  # between two pieces of a body; whoever is silent for longer has left, or holds a place on purpose
SOON_S = 2.0  # when to come back while other questions of the same key are being answered
OPEN_AT_ONCE = 100  # requests of a key beside its questions; a browser opens six connections
HEAVY_AT_ONCE = 2  # of what computes for up to seconds in a request; the others of the key wait for their turn


def bounded(receive: Receive, most: float = LONGEST_BODY) -> Receive:
    """The same body, as long as it is not too long and keeps coming; it is not read further than that."""
    left = most
    is_whole = False

    async def receiving() -> Message:
        nonlocal left, is_whole
        if is_whole:  # what comes now is that the client has left, whenever that is
            return await receive()
        # Of FastAPI's own kind: it turns every other one that is raised while it reads a body into 400.
        try:
            async with asyncio.timeout(SILENCE_S):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"nothing came for {SILENCE_S:.0f} seconds", {"Connection": "close"}) from None
        left -= len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if left < 0:
            raise HTTPException(413, f"a request has {LONGEST_BODY >> 20} MB at most; upload more as a document")
        return message

    return receiving


class Limits:
    def __init__(self, shared: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`shared`: a folder of all workers, where each finds what the others have counted."""
        self._tally, self._clock = Tally(shared), clock
        self._open: dict[str, int] = {}
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def count(self, caller: Caller, settings: Settings) -> None:
        """One more request of this caller, or `TooManyRequests`."""
        most = settings.requests_per_hour
        if not caller.id or not most:
            return
        moment = self._clock()
        own = self._current(caller.id)
        hours = [_rolled(one, moment) for one in self._tally.all(caller.id)]
        # Requests in this hour and the one before together estimate those of the last sixty minutes.
        recent = sum(one.count + one.before * (1 - (moment - one.began) / HOUR_S) for one in hours)
        if recent >= most:
            # Until enough of the hour before has faded, or else until this hour is over.
            before = sum(one.before for one in hours)
            fading = (recent - most + 1) / before * HOUR_S if before else math.inf
            wait = min(fading, *(HOUR_S - (moment - one.began) for one in hours if one.count or one.before))
            said = f"this key has made its {most:,} request{'s' * (most != 1)} of the hour"
            raise TooManyRequests(said, hint=f"try again in {duration(wait)}", retry_after_s=wait)
        own.count += 1
        self._tally.write(caller.id, own)

    def begin(self, caller: Caller, settings: Settings) -> Callable[[], None]:
        """A place among the questions of this caller; call what it gives when the question is done."""
        if not caller.id:
            return lambda: None
        most = settings.concurrent_asks
        own = self._current(caller.id)
        running = sum(one.asking for one in self._tally.all(caller.id))
        if most and running >= most:
            raise TooManyRequests(
                f"{running} questions of this key are being answered already"
                if running != 1
                else "a question of this key is being answered already",
                hint="wait until it is done" if running == 1 else "wait until one of them is done",
                retry_after_s=SOON_S,
            )
        own.asking += 1
        self._tally.write(caller.id, own)
        return lambda: self._end(caller.id)

    @contextmanager
    def asking(self, caller: Caller, settings: Settings) -> Iterator[None]:
        end = self.begin(caller, settings)
        try:
            yield
        finally:
            end()

    @contextmanager
    def opened(self, caller: Caller, settings: Settings) -> Iterator[None]:
        """A request for as long as it lasts: events that are followed and bodies that drip hold a connection each."""
        running = self._open.get(caller.id, 0)
        if caller.id and settings.concurrent_asks and running >= settings.concurrent_asks + OPEN_AT_ONCE:
            raise TooManyRequests(
                f"{running} requests of this key are open already",
                hint="close some of them",
                retry_after_s=SOON_S,
            )
        self._open[caller.id] = running + 1
        try:
            yield
        finally:
            _less(self._open, caller.id)

    def turn(self, caller: Caller) -> asyncio.Semaphore:
        """`async with` it around what computes for long: a key that wants much of it waits for itself alone."""
        found = self._turns.get(caller.id)
        if found is None:
            found = self._turns[caller.id] = asyncio.Semaphore(HEAVY_AT_ONCE)
        return found

    def _end(self, key_id: str) -> None:
        own = self._current(key_id)
        own.asking -= 1
        self._tally.write(key_id, own)

    def _current(self, key_id: str) -> Counts:
        """What this process counts of a key."""
        own = self._tally.own(key_id)
        return Counts(self._clock()) if own is None else _rolled(own, self._clock())


def duration(seconds: float) -> str:
    """`3301.2` -> `56 minutes`, `40` -> `40 seconds`; never less than it takes."""
    count, unit = (math.ceil(seconds / 60), "minute") if seconds > 90 else (max(1, math.ceil(seconds)), "second")
    return f"{count} {unit}{'s' * (count != 1)}"


def _rolled(counts: Counts, moment: float) -> Counts:
    """The same in the hour that runs now."""
    passed = moment - counts.began
    if passed < HOUR_S:
        return counts
    if passed < 2 * HOUR_S:
        return Counts(counts.began + HOUR_S, 0, counts.count, counts.asking)
    return Counts(moment, asking=counts.asking)


def _less(counts: dict[str, int], key_id: str) -> None:
    counts[key_id] -= 1
    if not counts[key_id]:
        del counts[key_id]


# How much of a request is read before its route is known? Its head, limited in bytes, headers and time.
#
# httptools has no limits of its own: an endless header would be collected, copied at each packet, and hold up everybody
# on the same event loop. The same limit holds for what stands between the parts of a body (chunk sizes, trailers).

MOST_BYTES = 128 << 10  # the request line too: GET /api/search takes 8,000 characters, each up to 12 bytes when escaped
MOST_HEADERS = 100  # as Apache's own limit; browsers behind proxies send about 40
HEAD_S = 30.0  # from the first byte of a request, or from the connection, to the end of its head
TOO_LARGE: tuple[int, str, str] = (431, "headers_too_large", "the head of this request is too long")
TOO_MANY: tuple[int, str, str] = (431, "headers_too_large", f"this request has more than {MOST_HEADERS} headers")
TOO_SLOW: tuple[int, str, str] = (408, "request_timeout", "the head of this request took too long")


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with a bound on what comes before a body; who goes beyond is told so and disconnected."""

    most_bytes = MOST_BYTES
    most_headers = MOST_HEADERS
    head_seconds = HEAD_S

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._held = 0  # bytes since a head or a part of a body was whole
        self._has_begun = False  # a request, of which the head is not whole
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
            part, rest = rest[: self.most_bytes - self._held], rest[self.most_bytes - self._held :]
            self._held += len(part)
            super().data_received(bytes(part))
            if self._held >= self.most_bytes:
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
        self._held, self._has_begun = 0, False
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._held = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._held = 0
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
        body = json_bytes(
            {"code": code, "message": message, "stage": "", "retryable": status == 408, "hint": "", "request_id": ""}
        )
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
        if self.cycle is None or self.cycle.response_complete:  # else an answer is on its way: it is cut off
            self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()
