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
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from refdesk.answer import Answer
from refdesk.errors import ProviderError, RefdeskError
from refdesk.serve import is_alive
from refdesk.serve.http.errors import ServerStopping, crash, json_bytes, refusal

# OpenTelemetry: a span for each request and each stage of a question, sent when OTEL_EXPORTER_OTLP_ENDPOINT is set.

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
logger = logging.getLogger("refdesk.http")


class Spans:
    """Made once a process; `begin` and `end` surround a request, `stages` is told of a finished question."""

    def __init__(self, provider: Any, propagate: Any, trace: Any) -> None:
        self._provider, self._propagate, self._api = provider, propagate, trace
        self._tracer = provider.get_tracer("refdesk")

    def begin(self, scope: Scope) -> Any:
        """The request's span, below that of the caller when the request names one (`traceparent`)."""
        above = self._propagate.extract(headers_of(scope))
        kind = self._api.SpanKind.SERVER
        span = self._tracer.start_span(scope["method"], context=above, kind=kind)  # its route is known at the end
        scope["state"]["span"] = span
        return span

    def end(self, span: Any, scope: Scope, status: int) -> None:
        route = getattr(scope.get("route"), "path", "")
        if route:
            span.update_name(f"{scope['method']} {route}")
            span.set_attribute("http.route", route)
        span.set_attribute("http.request.method", scope["method"])
        span.set_attribute("http.response.status_code", status)
        span.set_attribute("refdesk.request_id", scope["state"]["request_id"])
        if status >= 500:
            span.set_status(self._api.StatusCode.ERROR)
        span.end()

    def stages(self, above: Any, trace: Mapping[str, Any]) -> None:
        """A span for each stage that ran, at the times the trace says; the question ended now."""
        ended = time.time_ns()
        began = ended - int(trace["total_ms"] * 1e6)
        context = self._api.set_span_in_context(above)
        for one in trace["stages"]:
            if one["skipped"] and not one["error"]:
                continue
            first = began + int(one["started_ms"] * 1e6)
            span = self._tracer.start_span(f"refdesk.{one['name']}", context=context, start_time=first)
            for name, value in (one["input"] | one["output"]).items():
                if isinstance(value, str | bool | int | float):
                    span.set_attribute(f"refdesk.{name}", value)
            if one["error"]:
                span.set_status(self._api.StatusCode.ERROR)
            span.end(first + int(one["took_ms"] * 1e6))

    def failed(self, span: Any, code: str) -> None:
        """A question that ended in an error; in a stream the status of the response is 200 all the same."""
        span.set_attribute("error.type", code)
        span.set_status(self._api.StatusCode.ERROR)

    def close(self) -> None:
        self._provider.shutdown()


def make_spans() -> Spans | None:
    """None when no endpoint is named, or when the extra is missing, which is said once."""
    if not os.environ.get(ENDPOINT):
        return None
    try:
        from opentelemetry import propagate, trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.warning("%s is set, but spans need refdesk[otel]; none are sent", ENDPOINT)
        return None
    name = os.environ.get("OTEL_SERVICE_NAME", "refdesk")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Spans(provider, propagate, trace)


# What is counted for /metrics? Requests, answers, failures, stages, tokens, cost, open streams; of all workers.

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
# Seconds; from an answer out of the cache to a model that thinks.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Figures:
    """The figures of one app."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self._requests = Counter("refdesk_requests", "Requests answered", ["method", "route", "status"], **own)
        self._latency = Histogram(
            "refdesk_request_seconds", "Time until a request was answered", ["route"], buckets=BUCKETS, **own
        )
        self._stages = Histogram(
            "refdesk_stage_seconds", "Time a stage of asking took", ["stage"], buckets=BUCKETS, **own
        )
        self._answers = Counter("refdesk_answers", "Answers given", ["cached", "answered", "level"], **own)
        self._failures = Counter("refdesk_failed_questions", "Questions that ended in an error", ["code"], **own)
        self._failed_models = Counter(
            "refdesk_model_failures", "Models that were to write an answer and did not", ["model", "code"], **own
        )
        self._tokens = Counter("refdesk_tokens", "Tokens that models read and wrote", ["kind"], **own)
        self._cost = Counter("refdesk_cost_usd", "What models cost, where a price is known", **own)
        self.asking = Gauge("refdesk_streams_open", "Questions being answered", multiprocess_mode="livesum", **own)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def answer(self, answer: Answer) -> None:
        self._answers.labels(answer.cached, str(answer.is_answered).lower(), answer.level).inc()
        if answer.cached == "no":  # an answer from the cache still carries the times it was made in
            for name, took_ms in answer.metrics.items():
                if name.endswith("_ms"):
                    self._stages.labels(name.removesuffix("_ms")).observe(took_ms / 1000)
        for one in answer.failed_models:
            self._failed_models.labels(one.model, one.code).inc()
        self._tokens.labels("prompt").inc(answer.usage.prompt_tokens)
        self._tokens.labels("completion").inc(answer.usage.completion_tokens)
        self._cost.inc(answer.usage.cost_usd or 0.0)

    def failure(self, error: RefdeskError) -> None:
        self._failures.labels(error.code).inc()
        if isinstance(error, ProviderError) and error.model:  # nobody stood in for it
            self._failed_models.labels(error.model, error.code).inc()

    def text(self) -> bytes:
        registry = self.registry
        if folder := os.environ.get(MULTIPROCESS):
            _forget_the_dead(Path(folder))
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def _forget_the_dead(folder: Path) -> None:
    """What a worker that was killed had open is open no more; what it had counted still counts."""
    for path in folder.glob("gauge_live*.db"):  # gauge_livesum_4711.db
        number = path.stem.rpartition("_")[2]
        if number.isdigit() and not is_alive(int(number)):
            path.unlink(missing_ok=True)  # another worker may tell its figures at the same moment


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


def headers_of(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def route_of(scope: Scope) -> str:
    """`/api/documents/{id}`, not the path itself: a figure for each document would be too many."""
    return str(getattr(scope.get("route"), "path", "")) or "unknown"


def _log(scope: Scope, status: int, seconds: float) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    fields = {
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "ms": round(seconds * 1000, 1),
        "caller": getattr(scope["state"].get("caller"), "name", ""),
    }
    logger.info("request", extra=fields)


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
