"""The MCP server over streamable HTTP at /mcp: every request needs a key when the library has keys.

The limits of a key are those of `refdesk serve`, counted here for themselves.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from refdesk.access import Caller
from refdesk.engine import Refdesk
from refdesk.errors import NotSignedIn, RefdeskError
from refdesk.serve.http.errors import refusal
from refdesk.serve.http.limits import Limits, bounded
from refdesk.serve.http.protocol import BoundedProtocol
from refdesk.serve.mcp import caller_of, make_server
from refdesk.settings import Settings
from refdesk.threads import aside

GRACE_S = 5  # for open connections after Ctrl-C
LOCAL_HOSTS = ["127.0.0.1:*", "localhost:*", "[::1]:*"]


class KeyRequired:
    """Turns away, before anything is read, who has no key that is known, or has done enough for now."""

    def __init__(self, app: ASGIApp, desk: Refdesk, limits: Limits, *, needs_key: bool) -> None:
        self.app, self._desk, self._limits, self._needs_key = app, desk, limits, needs_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with ExitStack() as stack:
            try:
                caller, settings = await aside(self._admitted, headers)
                self._limits.count(caller, settings)
                stack.enter_context(self._limits.opened(caller, settings))
            except RefdeskError as error:
                await refusal(error, secrets.token_hex(8))(scope, receive, send)
                return
            await self.app(scope, bounded(receive), send)

    def _admitted(self, headers: Mapping[str, str]) -> tuple[Caller, Settings]:
        """In a thread: keys and settings are read from the database."""
        if self._needs_key and not self._desk.keys.exist():
            raise NotSignedIn("this library has no key any more", hint="`refdesk keys add NAME` makes one")
        return caller_of(self._desk, headers), self._desk.settings


def http_app(desk: Refdesk, *, is_local: bool, needs_key: bool = False) -> ASGIApp:
    """The app to serve. `is_local`: only called by the names of this machine, so that no web page reaches it.

    `needs_key`: reached from elsewhere, so that nobody gets in when the last key has been revoked.
    """
    guarded = TransportSecuritySettings(
        enable_dns_rebinding_protection=is_local,
        allowed_hosts=LOCAL_HOSTS,
        allowed_origins=[f"http://{host}" for host in LOCAL_HOSTS],
    )
    # Stateless: a session would belong to one process and outlive its key.
    limits = Limits()
    server = make_server(desk, lambda caller: limits.asking(caller, desk.settings))
    app = server.streamable_http_app(stateless_http=True, transport_security=guarded)
    return KeyRequired(app, desk, limits, needs_key=needs_key)


def serve_http(desk: Refdesk, listening: Any, *, is_local: bool, needs_key: bool) -> None:
    config = uvicorn.Config(
        http_app(desk, is_local=is_local, needs_key=needs_key),
        http=BoundedProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    uvicorn.Server(config).run([listening])
