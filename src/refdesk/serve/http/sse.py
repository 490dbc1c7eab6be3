"""Events as they happen, over one long response (Server-Sent Events).

    id: 19a…-7
    event: content
    data: {"token":"The "}

Every event has an id, "STREAM-NUMBER". A client that lost the connection repeats the request with the header
`Last-Event-ID` and gets what it missed. Work is cancelled `GRACE_S` after the last reader has left; events are kept for
`KEPT_S` after the end. A comment every `HEARTBEAT_S` keeps proxies from closing the connection. A stream lives in one
process; its id says when it began, for other processes that are asked for it (asking.py).
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
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from refdesk.errors import NotFound, RefdeskError
from refdesk.serve.http.errors import ServerStopping, defect, json_bytes, problem

HEARTBEAT_S = 15.0
GRACE_S = 2.0  # a reconnecting reader is back within one; a stop button costs this much of a model's time
KEPT_S = 60.0
FINISH_S = 2.0  # for plain questions when the server is told to end; it waits for 5 in all
MOST_KEPT = 1000  # finished streams; some 30 kB each
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


class Stream:
    """The events of one piece of work, for as many readers as like to; the work is a task of its own."""

    def __init__(self, owner: str, request_id: str = "", own_id: str = "", about: tuple[str, str] = ("", "")) -> None:
        self.id = own_id or new_id()
        self.owner = owner
        self.conversation_id, self.question = about
        self.request_id = request_id
        self.parts: list[bytes] = []  # event n is parts[n - 1]
        self.is_done = False
        self.on_end: list[Callable[[], None]] = []
        self._head = f"id: {self.id}-".encode()
        self._news: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._is_stopped = False

    def start(self, events: AsyncGenerator[Named, None]) -> Stream:
        self._task = asyncio.create_task(self._run(events))
        self._task.add_done_callback(lambda _: self._end())  # also when it is cancelled before its first step
        return self

    def put(self, name: str, data: Any) -> None:
        self.parts.append(
            b"%s%d\nevent: %s\ndata: %s\n\n" % (self._head, len(self.parts) + 1, name.encode(), json_bytes(data))
        )
        for news in self._news:
            news.set()

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
                self._leaving = asyncio.get_running_loop().call_later(GRACE_S, self.cancel)


class Streams:
    """The streams of this process, running ones and those just finished."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Stream] = OrderedDict()
        self.running = 0
        self.is_stopping = False
        self.working: set[asyncio.Task[None]] = set()  # streams that nobody can take up again
        self.answering: set[asyncio.Future[Any]] = set()  # plain questions

    def begin(
        self,
        owner: str,
        events: AsyncGenerator[Named, None],
        request_id: str = "",
        on_end: Callable[[], None] | None = None,
        own_id: str = "",
        about: tuple[str, str] = ("", ""),
    ) -> Stream:
        """`about` is the conversation and the question."""
        stream = Stream(owner, request_id, own_id, about)
        self._known[stream.id] = stream
        self.running += 1
        stream.on_end.append(lambda: self._ended(stream))
        if on_end is not None:
            stream.on_end.append(on_end)
        return stream.start(events)

    def find(self, last_event_id: str, owner: str) -> tuple[Stream, int] | None:
        """The stream and the number of the last event that was seen: `"19a…-7"` -> (the stream, 7).

        None: of another process, or of this one some time ago.
        """
        name, _, number = last_event_id.rpartition("-")
        stream = self._known.get(name)
        is_id = _NUMBER.fullmatch(number) is not None and began_at(name) is not None
        if not is_id or (stream is not None and (stream.owner != owner or int(number) > len(stream.parts))):
            raise NotFound("there is no such stream, or no such event in it", hint="ask again without Last-Event-ID")
        return None if stream is None else (stream, int(number))

    def in_conversation(self, conversation_id: str, owner: str) -> Stream | None:
        """The stream that answers in this conversation at this moment, for whom it belongs to."""
        for stream in reversed(self._known.values()):
            if stream.conversation_id == conversation_id and stream.owner == owner and not stream.is_done:
                return stream
        return None

    def stop(self) -> None:
        self.is_stopping = True
        for stream in list(self._known.values()):
            if not stream.is_done:
                stream.stop()
        for task in self.working:
            task.cancel()
        asyncio.get_running_loop().call_later(FINISH_S, lambda: [task.cancel() for task in self.answering])

    def _ended(self, stream: Stream) -> None:
        self.running -= 1
        asyncio.get_running_loop().call_later(KEPT_S, self._known.pop, stream.id, None)
        while len(self._known) - self.running > MOST_KEPT:
            oldest = next(name for name, one in self._known.items() if one.is_done)
            del self._known[oldest]


class _Unbuffered(Response):
    media_type = "text/event-stream"

    def __init__(self) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]


class EventResponse(_Unbuffered):
    """Sends a stream's events after number `after`, as they come, until the work is done or the reader has left."""

    def __init__(self, stream: Stream, after: int = 0) -> None:
        super().__init__()
        self._stream, self._after = stream, after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send(_body(RETRY))
        loop = asyncio.get_running_loop()
        leaving = asyncio.create_task(disconnected(receive))
        with self._stream.reading() as news:
            leaving.add_done_callback(lambda _: news.set())
            beat = loop.call_later(HEARTBEAT_S, news.set)
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
                        beat = loop.call_later(HEARTBEAT_S, news.set)
                        await send(_body(HEARTBEAT))
                    else:
                        await news.wait()
            finally:
                beat.cancel()
                leaving.cancel()
        await send(_body(b"", more=False))


class PlainResponse(_Unbuffered):
    """Events in OpenAI's format, which cannot be resumed: the work is cancelled when the reader leaves."""

    def __init__(
        self, streams: Streams, chunks: AsyncGenerator[bytes, None], request_id: str, on_end: Callable[[], None]
    ) -> None:
        super().__init__()
        self._streams, self._chunks, self._request_id, self._on_end = streams, chunks, request_id, on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(disconnected(receive))
        self._streams.working.add(sending)
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            leaving.cancel()
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            self._streams.working.discard(sending)
            self._on_end()

    async def _send(self, send: Send) -> None:
        beating = asyncio.create_task(_beat(send))
        try:
            async with aclosing(self._chunks):
                async for chunk in self._chunks:
                    await send(_body(chunk))
        except asyncio.CancelledError:
            if self._streams.is_stopping:
                failure = problem(ServerStopping(), self._request_id)
                await send(_body(b"data: %s\n\n" % json_bytes(failure | {"error": failure})))
            raise
        finally:
            beating.cancel()
            await send(_body(b"", more=False))


async def _beat(send: Send) -> None:
    """Comments, which clients skip; they keep proxies from closing the connection."""
    while True:
        await asyncio.sleep(HEARTBEAT_S)
        await send(_body(HEARTBEAT))


def _body(data: bytes, more: bool = True) -> MutableMapping[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
