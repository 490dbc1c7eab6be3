"""How much of a request is read before it is known what it wants? Its head, within bounds of bytes, lines and time.

httptools has no limits of its own: an endless header would be gathered, copied at each packet, and hold up everybody on
the same event loop. Here what has come counts before it is parsed. The same bound holds for what stands between the
parts of a body (chunk sizes, trailers), of which there is no other limit.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from refdesk.serve.http.errors import json_bytes

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
