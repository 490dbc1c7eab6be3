"""Authentication and limits: a key or sign-in becomes a `Caller`; requests from other sites are rejected.

Everything needs a caller but `OPEN`. Routes ask for the library as the caller sees it (`Desk`).
Without any key the library is open to the machine it runs on: the caller is `LOCAL`. Then a page of another site could
reach it through the user's browser, so requests that say they come from one, or that call the server by a name which is
not this machine's, are refused.

The settings `serve.*` say how many requests a key has in an hour and how many questions at a time, in all workers
together; whoever is at the machine (no key) has no limit. Beyond that nobody may hold up the others: not with open
connections, nor with long computations, nor with a head or a body that never ends.
"""

from __future__ import annotations

import asyncio
import ipaddress
import math
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from fastapi import Depends, HTTPException, Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from refdesk.caller_desk import CallerDesk
from refdesk.desk import Refdesk
from refdesk.errors import AccessDenied, NotSignedIn, RefdeskError, TooManyRequests
from refdesk.records import LOCAL, Caller
from refdesk.serve.http.observe import Figures, Spans, headers_of, json_bytes, plain_problem, refusal
from refdesk.serve.http.shared import Counts, SqlCounts
from refdesk.serve.http.sse import Streams
from refdesk.settings import Settings
from refdesk.trace import in_thread

# How much may a caller send, and how much may a key do?

LONGEST_BODY = 4 << 20  # bytes; a long conversation sent with a question stays far below
SILENCE_S = 60.0  # between two pieces of a body; whoever is silent for longer has left, or holds a place on purpose
SOON_S = 2.0  # when to come back while other questions of the same key are being answered
OPEN_AT_ONCE = 100  # requests of a key beside its questions; a browser opens six connections
HEAVY_AT_ONCE = 2  # long computations of a key; its others wait for their turn


def bounded(receive: Receive, most: float = LONGEST_BODY, silence_s: float = SILENCE_S) -> Receive:
    """The same body, as long as it is not too long and keeps coming; it is not read further than that."""
    left = most
    is_whole = False

    async def receiving() -> Message:
        nonlocal left, is_whole
        if is_whole:  # the next message says that the client has left, whenever that is
            return await receive()
        # FastAPI's own exception: it turns every other one that is raised while it reads a body into 400.
        try:
            async with asyncio.timeout(silence_s):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, f"nothing arrived for {silence_s:.0f} seconds", {"Connection": "close"}) from None
        left -= len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if left < 0:
            most_mb = LONGEST_BODY >> 20
            raise HTTPException(413, f"a request can have at most {most_mb} MB; upload larger files as documents")
        return message

    return receiving


class Limits:
    """What a key may do in an hour and at a time; counted for all workers together (`shared.py`)."""

    def __init__(self, shared: Path | Counts | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._counts = SqlCounts(shared, clock) if shared is None or isinstance(shared, Path) else shared
        self._open: Counter[str] = Counter()
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def count(self, caller: Caller, settings: Settings) -> None:
        """One more request of this caller, or `TooManyRequests`."""
        most = settings.requests_per_hour
        if caller.id and most and (wait := self._counts.count(caller.id, most)):
            message = f"this key has used its {most:,} request{'s' * (most != 1)} for this hour"
            raise TooManyRequests(message, hint=f"try again in {duration(wait)}", retry_after_s=wait)

    def begin(self, caller: Caller, settings: Settings) -> Callable[[], None]:
        """A place among the questions of this caller; call the result when the question is done."""
        if not caller.id:
            return lambda: None
        place, running = self._counts.begin(caller.id, settings.concurrent_asks)
        if not place:
            several = running != 1
            raise TooManyRequests(
                f"{f'{running} questions' if several else 'a question'} of this key "
                f"{'are' if several else 'is'} already being answered",
                hint="wait until one of them is finished" if several else "wait until it is finished",
                retry_after_s=SOON_S,
            )
        return lambda: self._counts.end(place)

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
            message = f"this key already has {running} open requests"
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


def duration(seconds: float) -> str:
    """`3301.2` -> `56 minutes`, `40` -> `40 seconds`; never less than it takes."""
    count, unit = (math.ceil(seconds / 60), "minute") if seconds > 90 else (max(1, math.ceil(seconds)), "second")
    return f"{count} {unit}{'s' * (count != 1)}"


# Who asks?

COOKIE = "refdesk_session"
HEADER = "x-refdesk"  # any page may send a form; a header of one's own only the same site's script
# Paths that need no caller; what ends in "/" covers all below it.
OPEN = frozenset(("/", "/sign-in", "/healthz", "/readyz", "/api/session", "/favicon.ico"))
OPEN_BELOW = ("/static/",)
HEALTH = frozenset(("/healthz", "/readyz"))
SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
COUNTED = ("/api/", "/v1/", "/mcp")
# For whoever may change settings: a limit that was set too low must not keep out the one who can raise it.
REPAIRING = ("/api/me", "/api/session", "/api/settings")
UPLOADS = "/api/documents"  # has a limit of its own, see uploads.py
HEAVY = ("/image", "/page/render")  # drawing a page and making HTML compute for up to seconds


class Guard:
    """Stands before every route, those that come later too."""

    def __init__(
        self,
        app: ASGIApp,
        desk: Refdesk,
        limits: Limits,
        *,
        is_local: bool,
        needs_key: bool,
        silence_s: float = SILENCE_S,
    ) -> None:
        """`needs_key`: reached from elsewhere, so that nobody gets in when the last key has been revoked."""
        self.app, self._desk, self._limits, self._is_local = app, desk, limits, is_local
        self._needs_key, self._silence_s = needs_key, silence_s
        self._had_keys = True  # when they were last read
        self._settings = Settings()  # as they were last read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            caller, settings = await in_thread(self._admitted, scope)
        except RefdeskError as error:
            await refusal(error, scope["state"]["request_id"], scope["path"])(scope, receive, send)
            return
        scope["state"]["caller"] = caller
        receive = bounded(receive, math.inf if scope["path"] == UPLOADS else LONGEST_BODY, self._silence_s)
        if caller is None or not caller.id:
            await self.app(scope, receive, send)
            return
        await self._in_turn(caller, settings, scope, receive, send)

    async def _in_turn(self, caller: Caller, settings: Settings, scope: Scope, receive: Receive, send: Send) -> None:
        """For a key: not too much at a time, so that there is something left for the others."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._limits.opened(caller, settings))
            except RefdeskError as error:
                await refusal(error, scope["state"]["request_id"], scope["path"])(scope, receive, send)
                return
            async with self._limits.turn(caller) if scope["path"].endswith(HEAVY) else nullcontext():
                await self.app(scope, receive, send)

    def _admitted(self, scope: Scope) -> tuple[Caller | None, Settings]:
        """In a thread: keys, sign-ins, settings and counts are in databases.

        When the library cannot be read, /readyz still answers, with details if they could be seen a moment ago.
        """
        try:
            caller = self._admit(scope, headers_of(scope))
            self._settings = self._desk.settings
        except (sqlite3.Error, SQLAlchemyError):
            if scope["path"] not in HEALTH:
                raise
            caller = None if self._needs_key or self._had_keys else LOCAL
        if caller is not None and is_counted(caller, scope["path"]):
            self._limits.count(caller, self._settings)
        return caller, self._settings

    def _admit(self, scope: Scope, headers: Mapping[str, str]) -> Caller | None:
        path = scope["path"]
        # Without keys whatever is sent is ignored: clients of OpenAI cannot send none.
        self._had_keys = self._desk.keys.exist()
        if not self._needs_key and not self._had_keys:
            if self._is_local and not _is_this_machine(_host(headers)):
                raise AccessDenied(
                    "this library only accepts requests from its own machine", hint="use the address localhost"
                )
            if scope["method"] not in SAFE_METHODS:
                _same_site(headers, needs_header=False)
            return LOCAL
        if secret := _secret(headers):
            if (caller := self._desk.keys.verify(secret)) is None:
                raise NotSignedIn("unknown key")
            return caller
        token = _cookie(headers)
        if token and (caller := self._desk.sessions.caller(token)) is not None:
            if scope["method"] not in SAFE_METHODS:
                _same_site(headers, needs_header=True)
            return caller
        if path in OPEN or path.startswith(OPEN_BELOW):
            if scope["method"] not in SAFE_METHODS:  # or another site signs its visitors in with a key of its own
                _same_site(headers, needs_header=False)
            return None
        raise NotSignedIn("this library needs a key")


def is_counted(caller: Caller, path: str) -> bool:
    """Whether a request counts against `serve.requests_per_hour`."""
    if not caller.id or not path.startswith(COUNTED):
        return False
    is_repair = path in REPAIRING or path.startswith("/api/settings/")
    return not (is_repair and caller.may("settings"))


def _secret(headers: Mapping[str, str]) -> str:
    """`Authorization: Bearer KEY`, or `X-API-Key: KEY`."""
    kind, _, secret = headers.get("authorization", "").partition(" ")
    return (secret.strip() if kind.lower() == "bearer" else "") or headers.get("x-api-key", "").strip()


def _cookie(headers: Mapping[str, str]) -> str:
    """Not by `http.cookies`, which finds none at all when another one, of any program on this machine, is odd."""
    for cookie in headers.get("cookie", "").split(";"):
        name, _, value = cookie.strip().partition("=")
        if name == COOKIE and value:
            return value
    return ""


def _host(headers: Mapping[str, str]) -> str:
    """`localhost:8080` -> `localhost`, `[::1]:8080` -> `::1`."""
    try:
        return urlsplit(f"//{headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def _is_this_machine(host: str) -> bool:
    """Names that no one else's name server can lead here: localhost, and addresses of the machine itself."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _same_site(headers: Mapping[str, str], *, needs_header: bool) -> None:
    """Refuses what another site's page sends. Browsers say where a request comes from; programs say nothing."""
    origin = headers.get("origin", "")
    elsewhere = origin != "" and _netloc(origin) != headers.get("host", "")
    if elsewhere or headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise AccessDenied("this request comes from another site", hint="use Refdesk's own page")
    if needs_header and headers.get(HEADER) != "1":
        raise AccessDenied("a change made with the cookie needs the header X-Refdesk: 1")


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


# What routes work with: the caller, the library, and what lives as long as the app.


@dataclass(frozen=True, slots=True)
class Service:
    """What lives as long as the app; routers of others may reach all of it."""

    desk: Refdesk
    limits: Limits = field(default_factory=Limits)
    figures: Figures = field(default_factory=Figures)
    streams: Streams = field(default_factory=Streams)
    spans: Spans | None = None


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _perhaps(request: Request) -> Caller | None:
    caller: Caller | None = request.state.caller
    return caller


Serving = Annotated[Service, Depends(_service)]
Perhaps = Annotated[Caller | None, Depends(_perhaps)]  # for the paths in OPEN


async def _who(caller: Perhaps) -> Caller:
    if caller is None:
        raise NotSignedIn("this needs a key")
    return caller


Who = Annotated[Caller, Depends(_who)]


async def _desk(service: Serving, caller: Who) -> CallerDesk:
    return service.desk.for_caller(caller)


Desk = Annotated[CallerDesk, Depends(_desk)]  # the library as the caller sees it


# How much of a request is read before its route is known? Its head, limited in bytes, headers and time.
#
# httptools has no limits of its own: an endless header would be collected, copied at each packet, and hold up everybody
# on the same event loop. The same limit holds for what stands between the parts of a body (chunk sizes, trailers).

MOST_BYTES = 128 << 10  # the request line too: GET /api/search takes 8,000 characters, each up to 12 bytes when escaped
MOST_HEADERS = 100  # as Apache's own limit; browsers behind proxies send about 40
HEAD_S = 30.0  # from the first byte of a request, or from the connection, to the end of its head
TOO_LARGE = (431, "headers_too_large", "the request headers are too long")
TOO_MANY = (431, "headers_too_large", f"this request has more than {MOST_HEADERS} headers")
TOO_SLOW = (408, "request_timeout", "the request headers took too long to arrive")


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
