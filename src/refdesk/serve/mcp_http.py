"""The MCP server over streamable HTTP at /mcp: every request needs a key when the library has keys."""

from __future__ import annotations

from typing import Any

import orjson
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Receive, Scope, Send

from refdesk.engine import Refdesk
from refdesk.errors import NotSignedIn
from refdesk.serve.mcp import caller_of, make_server

GRACE_S = 5  # for open connections after Ctrl-C
LOCAL_HOSTS = ["127.0.0.1:*", "localhost:*", "[::1]:*"]


class KeyRequired:
    """Turns away, before anything is read, who has no key that is known."""

    def __init__(self, app: ASGIApp, desk: Refdesk, *, needs_key: bool) -> None:
        self.app, self._desk, self._needs_key = app, desk, needs_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            try:
                if self._needs_key and not self._desk.keys.exist():
                    raise NotSignedIn("this library has no key any more", hint="`refdesk keys add NAME` makes one")
                caller_of(self._desk, headers)
            except NotSignedIn as error:
                await _refuse(error, send)
                return
        await self.app(scope, receive, send)


async def _refuse(error: NotSignedIn, send: Send) -> None:
    headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(error.to_dict())})


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
    app = make_server(desk).streamable_http_app(stateless_http=True, transport_security=guarded)
    return KeyRequired(app, desk, needs_key=needs_key)


def serve_http(desk: Refdesk, listening: Any, *, is_local: bool, needs_key: bool) -> None:
    config = uvicorn.Config(
        http_app(desk, is_local=is_local, needs_key=needs_key),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    uvicorn.Server(config).run([listening])
