"""Who asks? A key or the cookie of a sign-in becomes a `Caller`; what comes from another site is turned away.

Everything needs a caller but `OPEN`. Routes ask for the library as the caller sees it (`Desk`).
Without any key the library is open to the machine it runs on: the caller is `LOCAL`. Then a page of another site could
reach it through the user's browser, so requests that say they come from one, or that call the server by a name which is
not this machine's, are refused.
"""

from __future__ import annotations

import ipaddress
import math
import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from sqlalchemy.exc import SQLAlchemyError
from starlette.types import ASGIApp, Receive, Scope, Send

from refdesk.caller_desk import CallerDesk
from refdesk.desk import Refdesk
from refdesk.errors import AccessDenied, NotSignedIn, RefdeskError
from refdesk.records import LOCAL, Caller
from refdesk.serve.http.errors import refusal
from refdesk.serve.http.limits import LONGEST_BODY, Limits, bounded
from refdesk.serve.http.observe import Figures, Spans
from refdesk.serve.http.sse import Streams
from refdesk.settings import Settings
from refdesk.trace import in_thread

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

    def __init__(self, app: ASGIApp, desk: Refdesk, limits: Limits, *, is_local: bool, needs_key: bool) -> None:
        """`needs_key`: reached from elsewhere, so that nobody gets in when the last key has been revoked."""
        self.app, self._desk, self._limits, self._is_local = app, desk, limits, is_local
        self._needs_key = needs_key
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
        receive = bounded(receive, math.inf if scope["path"] == UPLOADS else LONGEST_BODY)
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
            caller = self._admit(scope, _headers(scope))
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
                raise AccessDenied("this library is open to its own machine only", hint="call it by localhost")
            if scope["method"] not in SAFE_METHODS:
                _same_site(headers, needs_header=False)
            return LOCAL
        if secret := _secret(headers):
            if (caller := self._desk.keys.verify(secret)) is None:
                raise NotSignedIn("this key is not known")
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


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _secret(headers: Mapping[str, str]) -> str:
    """`Authorization: Bearer KEY`, or `X-API-Key: KEY`."""
    kind, _, secret = headers.get("authorization", "").partition(" ")
    return (secret.strip() if kind.lower() == "bearer" else "") or headers.get("x-api-key", "").strip()


def _cookie(headers: Mapping[str, str]) -> str:
    """Not by `http.cookies`, which finds none at all when another one, of any program on this machine, is odd."""
    for one in headers.get("cookie", "").split(";"):
        name, _, value = one.strip().partition("=")
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
        raise AccessDenied("this request comes from another site", hint="open Refdesk's own page")
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
