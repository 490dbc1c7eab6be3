"""Events as they happen, over one long response (Server-Sent Events).

    id: 19a…-7
    event: content
    data: {"token":"The "}

Every event has an id, "STREAM-NUMBER". A client that lost the connection repeats the request with the header
`Last-Event-ID` and gets what it missed. Work is cancelled `grace_s` after the last reader has left; events are kept for
`KEPT_S` after the end. A comment every `heartbeat_s` keeps proxies from closing the connection. The work is done in one
process; several that serve one library have their events in a log that they share (`shared.py`), so that
whichever is asked can follow a stream or stop it. Its id says when it began, for a server that has lost it (asking.py).
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator, MutableMapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from refdesk.errors import NotFound, RefdeskError
from refdesk.serve.http.observe import ServerStopping, defect, json_bytes, problem
from refdesk.serve.http.shared import EventLog, SqlEvents, Told

KEPT_S = 60.0
FINISH_S = 2.0  # for plain questions when the server is told to end; it waits for 5 in all
MOST_KEPT = 1000  # finished streams; some 30 kB each
LOOK_S = 0.1  # how often a process looks for events of another one, and whether to stop
CLOCK_S = 0.05  # a timer may fire a little before its time
HEARTBEAT = b": still here\n\n"
RETRY = b"retry: 1000\n\n"  # milliseconds after which a reader comes back

Named = tuple[str, Any]  # (name of the event, its data)
_ID = re.compile(r"([0-9a-f]{11})[0-9a-f]{12}")
_NUMBER = re.compile(r"[0-9]{1,9}")
logger = logging.getLogger("refdesk.http")


def new_id() -> str:
    """Milliseconds since 1970, then what nobody guesses."""
    return f"{int(time.time() * 1000):011x}{secrets.token_hex(6)}"


def began_at(stream_id: str) -> float | None:
    """Seconds since 1970 when the stream of this id began; None when it is no id of ours."""
    found = _ID.fullmatch(stream_id)
    return int(found[1], 16) / 1000 if found else None


@dataclass(frozen=True, slots=True)
class Waits:
    """How long is waited for who reads, and for who has left."""

    heartbeat_s: float = 15.0
    grace_s: float = 2.0  # a reconnecting reader is back within one; a stop button costs this much of a model's time


class Stream:
    """The events of one piece of work, for as many readers as like to; the work is a task of its own."""

    head = RETRY
    waits = Waits()
    is_enveloped = False  # seed 004: the data of each event says its type too

    def __init__(self, owner: str, request_id: str = "", own_id: str = "", about: tuple[str, str] = ("", "")) -> None:
        self.id = own_id or new_id()
        self.owner = owner
        self.conversation_id, self.question = about
        self.request_id = request_id
        self.parts: list[bytes] = []  # event n is parts[n - 1]
        self.is_done = False
        self.on_end: list[Callable[[], None]] = []
        self._news: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def start(self, events: AsyncGenerator[Named, None]) -> Stream:
        self._task = asyncio.create_task(self._run(events))
        self._task.add_done_callback(lambda _: self._end())  # also when it is cancelled before its first step
        return self

    def put(self, name: str, data: Any) -> None:
        self.parts.append(self._written(name, {"type": name, "data": data} if self.is_enveloped else data))
        for news in self._news:
            news.set()

    def _written(self, name: str, data: Any) -> bytes:
        number = f"{self.id}-{len(self.parts) + 1}"
        return b"id: %s\nevent: %s\ndata: %s\n\n" % (number.encode(), name.encode(), json_bytes(data))

    async def _run(self, events: AsyncGenerator[Named, None]) -> None:
        try:
            async with aclosing(events):
                async for name, data in events:
                    self.put(name, data)
        except asyncio.CancelledError:
            if self._is_stopped:
                self.put("error", problem(ServerStopping(), self.request_id))
            raise
        except RefdeskError as error:
            self.put("error", problem(error, self.request_id))
        except Exception:
            logger.exception("a stream failed", extra={"request_id": self.request_id})
            self.put("error", defect(self.request_id))

    def _end(self) -> None:
        self.is_done = True
        for news in self._news:
            news.set()
        for call in self.on_end:
            call()

    def stop(self) -> None:
        """Ends the work; readers get an `error` event."""
        self._is_stopped = True
        self.cancel()

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def stopped(self) -> None:
        """Ends the work for every reader, and waits until what was written is stored."""
        self.cancel()
        if self._task is not None:
            await asyncio.wait({self._task})

    def _leave(self) -> None:
        """Nobody reads any more; the work ends, unless somebody does in another process."""
        self.cancel()

    @contextmanager
    def reading(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever there is something new."""
        news = asyncio.Event()
        self._news.add(news)
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        try:
            yield news
        finally:
            self._news.discard(news)
            if not self._news and not self.is_done:
                self._leaving = asyncio.get_running_loop().call_later(
                    self.waits.grace_s if self.head else 0.0, self._leave
                )


class PlainStream(Stream):
    """Events in OpenAI's format, without ids: nobody can come back to them, so the work ends when the reader leaves."""

    head = b""

    def _written(self, name: str, data: Any) -> bytes:
        if name == "error":
            data = data | {"error": data | {"type": "api_error"}}
        return b"data: %s\n\n" % (json_bytes(data) if name != "end" else b"[DONE]")


class SharedStream(Stream):
    """A stream of this process that others may follow and stop."""

    def __init__(self, shared: EventLog, owner: str, request_id: str, own_id: str, about: tuple[str, str]) -> None:
        super().__init__(owner, request_id, own_id, about)
        self._shared = shared
        self._last_read = 0.0  # elsewhere, as far as is known here
        shared.begin(Told(self.id, owner, *about), self.parts)

    def start(self, events: AsyncGenerator[Named, None]) -> Stream:
        self._watching = asyncio.create_task(self._watch())
        return super().start(events)

    def put(self, name: str, data: Any) -> None:
        super().put(name, data)
        self._shared.grew(self.id)

    async def _watch(self) -> None:
        while (found := await asyncio.to_thread(self._shared.find, self.id)) is None or not found.is_stopped:
            self._last_read = self._last_read if found is None else found.last_read
            await asyncio.sleep(LOOK_S)
        self.cancel()

    def _end(self) -> None:
        self._watching.cancel()
        self._shared.finish(self.id)
        super()._end()

    def _leave(self) -> None:
        if time.time() - self._last_read < self.waits.grace_s:
            self._leaving = asyncio.get_running_loop().call_later(self.waits.grace_s, self._leave)
        else:
            self.cancel()


class FollowedStream(Stream):
    """A stream of another process, as it is seen here."""

    def __init__(self, shared: EventLog, record: Told, parts: list[bytes]) -> None:
        """`parts`: what a reader has seen already must be there when he comes back."""
        super().__init__(record.owner, "", record.id, (record.conversation, record.question))
        self._shared = shared
        self.parts = parts
        self._task = asyncio.create_task(self._follow())
        self._task.add_done_callback(lambda _: self._end())

    async def _read(self) -> None:
        self.parts += await asyncio.to_thread(self._shared.after, self.id, len(self.parts))
        for news in self._news:
            news.set()

    async def _follow(self) -> None:
        seen = time.monotonic()
        while True:
            found = await asyncio.to_thread(self._shared.find, self.id)
            if found is not None:
                seen = time.monotonic()
                await self._read()
                if found.is_done:
                    return
                if self._news:
                    await asyncio.to_thread(self._shared.read, self.id)
            elif time.monotonic() - seen > self._shared.patience_s:
                break
            await asyncio.sleep(LOOK_S)
        self.put("error", problem(ServerStopping(), self.request_id))  # its process was killed

    async def stopped(self) -> None:
        await asyncio.to_thread(self._shared.stop, self.id)
        while (found := await asyncio.to_thread(self._shared.find, self.id)) is not None and not found.is_done:
            await asyncio.sleep(LOOK_S)
        await self._read()
        await super().stopped()


class Streams:
    """The streams of this process, running ones and those just finished, and those of others that are followed here."""

    def __init__(self, shared: Path | EventLog | None = None, waits: Waits = Waits()) -> None:  # noqa: B008
        """`shared`: what the processes of one server, or of many, have in common; None: there is one."""
        self.waits = waits
        self._shared = SqlEvents(shared) if isinstance(shared, Path) else shared
        self._known: OrderedDict[str, Stream] = OrderedDict()
        self.running = 0
        self.is_stopping = False
        self.answering: set[asyncio.Future[Any]] = set()  # plain questions

    def begin(
        self,
        owner: str,
        events: AsyncGenerator[Named, None],
        request_id: str = "",
        on_end: Callable[[], None] | None = None,
        own_id: str = "",
        about: tuple[str, str] = ("", ""),
        kind: type[Stream] = Stream,
        is_enveloped: bool = False,
    ) -> Stream:
        """`about` is the conversation and the question."""
        stream = kind(owner, request_id, own_id, about)
        if self._shared is not None and about[0]:
            stream = SharedStream(self._shared, owner, request_id, stream.id, about)
        stream.waits, stream.is_enveloped = self.waits, is_enveloped
        self._known[stream.id] = stream
        self.running += 1
        stream.on_end.append(lambda: self._ended(stream))
        if on_end is not None:
            stream.on_end.append(on_end)
        return stream.start(events)

    async def find(self, last_event_id: str, owner: str) -> tuple[Stream, int] | None:
        """The stream and the number of the last event that was seen: `"19a…-7"` -> (the stream, 7).

        None: of some time ago, or of a process that is gone.
        """
        name, _, number = last_event_id.rpartition("-")
        stream = self._known.get(name) or await self._followed(lambda shared: shared.find(name))
        is_id = _NUMBER.fullmatch(number) is not None and began_at(name) is not None
        if not is_id or (stream is not None and (stream.owner != owner or int(number) > len(stream.parts))):
            raise NotFound("there is no such stream, or no such event in it", hint="ask again without Last-Event-ID")
        return None if stream is None else (stream, int(number))

    async def in_conversation(self, conversation_id: str, owner: str) -> Stream | None:
        """The stream that answers in this conversation at this moment, for whom it belongs to."""
        for stream in reversed(self._known.values()):
            if stream.conversation_id == conversation_id and stream.owner == owner and not stream.is_done:
                return stream
        return await self._followed(lambda shared: shared.running(conversation_id, owner))

    async def _followed(self, look: Callable[[EventLog], Told | None]) -> Stream | None:
        shared = self._shared
        if shared is None:
            return None

        def found() -> tuple[Told, list[bytes]] | None:
            record = look(shared)
            return None if record is None else (record, shared.after(record.id, 0))

        if (seen := await asyncio.to_thread(found)) is None:
            return None
        told, parts = seen
        if (known := self._known.get(told.id)) is not None:  # somebody came for it in the same moment
            return known
        stream = self._known[told.id] = FollowedStream(shared, told, parts)
        stream.waits = self.waits
        self.running += 1
        stream.on_end.append(lambda: self._ended(stream))
        return stream

    def stop(self) -> None:
        self.is_stopping = True
        for stream in list(self._known.values()):
            if not stream.is_done:
                stream.stop()
        asyncio.get_running_loop().call_later(FINISH_S, lambda: [task.cancel() for task in self.answering])

    def _ended(self, stream: Stream) -> None:
        self.running -= 1
        kept_s = 0.0 if isinstance(stream, FollowedStream) else KEPT_S  # who follows it again asks again
        asyncio.get_running_loop().call_later(kept_s, self._known.pop, stream.id, None)
        if isinstance(stream, SharedStream) and (shared := self._shared) is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(KEPT_S, lambda: loop.run_in_executor(None, shared.forget, stream.id))
        while len(self._known) - self.running > MOST_KEPT:
            oldest = next(name for name, stream in self._known.items() if stream.is_done)
            del self._known[oldest]


class EventResponse(Response):
    """Sends a stream's events after number `after`, as they come, until the work is done or the reader has left."""

    media_type = "text/event-stream"

    def __init__(self, stream: Stream, after: int = 0) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._stream, self._after = stream, after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send(_body(self._stream.head))
        loop = asyncio.get_running_loop()
        leaving = asyncio.create_task(disconnected(receive))
        with self._stream.reading() as news:
            leaving.add_done_callback(lambda _: news.set())
            beat = loop.call_later(self._stream.waits.heartbeat_s, news.set)
            try:
                while not leaving.done():
                    news.clear()
                    parts = self._stream.parts[self._after :]
                    if parts:
                        self._after += len(parts)
                        await send(_body(b"".join(parts)))
                    elif self._stream.is_done:
                        break
                    elif loop.time() + CLOCK_S >= beat.when():
                        beat = loop.call_later(self._stream.waits.heartbeat_s, news.set)
                        await send(_body(HEARTBEAT))
                    else:
                        await news.wait()
            finally:
                beat.cancel()
                leaving.cancel()
        await send(_body(b"", more=False))


def _body(data: bytes, more: bool = True) -> MutableMapping[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
