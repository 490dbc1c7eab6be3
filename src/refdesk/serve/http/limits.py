"""How much may a key do? Requests in an hour, and questions at a time; the settings `serve.*` say how many.

Whoever sits at the machine (no key) has no limit. Requests and questions are those of all workers together.
Beyond that nobody may hold up the others: not with connections that stay open, nor with what takes long to compute,
nor with a body that never ends.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakValueDictionary

from fastapi import HTTPException
from starlette.types import Message, Receive

from refdesk.access import Caller
from refdesk.errors import TooManyRequests
from refdesk.serve.http.tally import Counts, Tally
from refdesk.settings import Settings

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
