"""What happened to each request? Its id, a line in the log, figures, and the last word when all else failed.

Log lines are JSON on standard error. Questions and passages are not in them, unless REFDESK_LOG_QUESTIONS=1.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import sys
import time
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from refdesk.serve.http.errors import ServerStopping, crash, refusal
from refdesk.serve.http.measure import Figures
from refdesk.serve.http.reply import json_bytes
from refdesk.serve.http.spans import Spans

LONGEST_ID = 64
_SOUND_ID = re.compile(rb"[A-Za-z0-9._-]{1,%d}" % LONGEST_ID)
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
# Nothing is guessed from a response's bytes, nothing is framed, nothing is sent along to other sites.
SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)

request_id: ContextVar[str] = ContextVar("request_id", default="")
logger = logging.getLogger("refdesk.http")


class Observe:
    """The outermost layer: nothing leaves without an id, and no exception leaves at all."""

    def __init__(self, app: ASGIApp, figures: Figures, spans: Spans | None = None) -> None:
        self.app, self._figures, self._spans = app, figures, spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        own_id = _id_of(scope)
        scope.setdefault("state", {})["request_id"] = own_id
        token = request_id.set(own_id)
        answered: list[int] = []

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered.append(message["status"])
                _add_headers(message, own_id)
            await send(message)

        span = self._spans.begin(scope) if self._spans is not None else None
        try:
            await self.app(scope, receive, sending)
        except asyncio.CancelledError:
            # The server ends and has waited long enough. Raised on, it would be a trace in the log and a bare 500.
            if not answered:
                await refusal(ServerStopping(), own_id, scope["path"])(scope, receive, sending)
        except Exception:
            logger.exception("a request failed", extra={"path": scope["path"]})
            if not answered:
                await crash(own_id, scope["path"])(scope, receive, sending)
        finally:
            status = answered[0] if answered else 499  # the client left before there was an answer
            seconds = time.perf_counter() - began
            self._figures.request(scope["method"], route_of(scope), status, seconds)
            if span is not None and self._spans is not None:
                self._spans.end(span, scope, status)
            _log(scope, status, seconds)
            request_id.reset(token)


def _id_of(scope: Scope) -> str:
    """The caller's own, when it is fit for a log; else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _SOUND_ID.fullmatch(value):
            return str(value.decode())
    return secrets.token_hex(8)


def _add_headers(message: MutableMapping[str, Any], own_id: str) -> None:
    headers = list(message["headers"])
    given = {name.lower() for name, _ in headers}
    headers.append((b"x-request-id", own_id.encode()))
    headers += [one for one in SECURITY_HEADERS if one[0] not in given]
    if b"cache-control" not in given:
        headers.append((b"cache-control", b"no-store"))
    message["headers"] = headers


def route_of(scope: Scope) -> str:
    """`/api/documents/{id}`, not the path itself: a figure for each document would be too many."""
    return str(getattr(scope.get("route"), "path", "")) or "unknown"


def _log(scope: Scope, status: int, seconds: float) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    said = {
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "ms": round(seconds * 1000, 1),
        "caller": getattr(scope["state"].get("caller"), "name", ""),
    }
    logger.info("request", extra=said)


def log_question(text: str) -> None:
    if os.environ.get("REFDESK_LOG_QUESTIONS") == "1":
        logger.info("question", extra={"question": text})


class JsonLines(logging.Formatter):
    """One JSON value a line; what `extra` carries is in it."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if own := request_id.get():
            line["request_id"] = own
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json_bytes(line).decode()


def set_up_logging(level: str = "INFO") -> None:
    """Everything Refdesk and uvicorn say becomes JSON lines on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(lambda record: not _is_second_stop(record))
    for name in ("refdesk", "uvicorn"):
        one = logging.getLogger(name)
        one.handlers, one.propagate = [handler], False
        one.setLevel(level)


def _is_second_stop(record: logging.LogRecord) -> bool:
    """After a second Ctrl-C uvicorn does not wait for the app's end, and tells of it as if that were a defect."""
    return record.name == "uvicorn.error" and record.getMessage().rstrip().endswith("CancelledError")
