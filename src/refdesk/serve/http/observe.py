"""Request ids, logging and metrics, and the common format of errors.

    {"code": "not_found", "message": "there is no document 'x'", "stage": "", "retryable": false, "hint": "…",
     "request_id": "4f1c…"}

Requests that do not fit their schema are 400, like every other wrong call: one status says "correct your request".
Only a field that is not known is 422: a program may drop it and ask again. Nobody is shown a stack trace.

Log lines are JSON on standard error. Questions and passages are not in them, unless REFDESK_LOG_QUESTIONS=1.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import secrets
import sys
import time
from collections.abc import Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from refdesk import errors
from refdesk.answer import Answer
from refdesk.errors import AskError, DiskFull, NotSignedIn, ProviderError, RefdeskError, UsageError
from refdesk.serve import is_alive
from refdesk.serve.http.requests import ASK_NAMES, UNKNOWN_FIELD

# How does a value become the bytes of a response? Straight through orjson; FastAPI would walk through it twice.

# --- how is a failure said? -------------------------------------------------------------------------------------------

_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


def json_bytes(value: Any) -> bytes:
    return orjson.dumps(value, default=_plain, option=_OPTIONS)


def _plain(value: Any) -> Any:
    """What orjson does not know: values of ours, tuples with names, sets."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    raise TypeError


def reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_bytes(value), status, headers, "application/json")


logger = logging.getLogger("refdesk.http")


class UnknownField(UsageError):
    """A request has a field that nobody reads."""


class ServerStopping(RefdeskError):
    """What runs when the server is told to end is ended with this."""

    retryable = True
    hint = "try again in a moment"
    retry_after_s = 1.0

    def __init__(self) -> None:
        super().__init__("the server is stopping")


# The nearest class in an error's family tree decides.
STATUS: Mapping[type[RefdeskError], int] = {
    UsageError: 400,
    UnknownField: 422,
    errors.ModelNotAllowed: 422,
    NotSignedIn: 401,
    errors.AccessDenied: 403,
    errors.NotFound: 404,
    errors.TooLarge: 413,
    errors.UnsupportedFormat: 415,
    errors.DocumentError: 422,
    errors.TooManyRequests: 429,
    RefdeskError: 500,
    AskError: 500,
    errors.LibraryError: 500,
    errors.ModelError: 500,
    errors.ExtraMissing: 501,
    errors.ProviderError: 502,
    errors.ProviderUnavailable: 503,
    errors.LibraryBusy: 503,
    errors.FilesAway: 503,
    ServerStopping: 503,
    DiskFull: 507,
}
# What is not an error of the engine: codes of Starlette's own refusals.
CODES: Mapping[int, str] = {
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "too_large",
    415: "unsupported_format",
}


DEFECT = "something went wrong on the server"
# What the engine's hints name for whoever sits at a command line, and what shows the same over HTTP.
ROUTES: Mapping[str, str] = {"`refdesk list`": "GET /api/documents", "`refdesk keys list`": "GET /api/keys"}
# What a value of the wrong type should be, in words of people.
TYPES: Mapping[str, str] = {
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
}


def status_of(error: RefdeskError) -> int:
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def problem(error: RefdeskError, request_id: str) -> dict[str, Any]:
    """The one shape. What a defect of ours says of itself (SQL, paths) is for the log, not for the caller."""
    body = error.to_dict() | {"request_id": request_id}
    if status_of(error) == 500:
        fields = {"code": error.code, "stage": error.stage, "request_id": request_id}
        logger.warning("%s", error.sentence, exc_info=error, extra=fields)
        known = f"the stage '{error.stage}' failed" if isinstance(error, AskError) else DEFECT
        body |= {"message": known, "hint": in_the_log(request_id)}
    elif isinstance(error, DiskFull):  # which says where the library lies
        body |= {"message": "the server's disk is full", "hint": "try again when there is space on it"}
    else:
        for command, route in ROUTES.items():
            body["hint"] = body["hint"].replace(command, route)
    return body


def in_the_log(request_id: str) -> str:
    return f"the server's log has the details under {request_id}"


def refusal(error: RefdeskError, request_id: str, path: str = "") -> Response:
    """The response to a request that failed."""
    body = problem(error, request_id)
    headers: dict[str, str] = {}
    wait = getattr(error, "retry_after_s", 0.0)
    if wait and error.retryable:
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    if isinstance(error, NotSignedIn):
        headers["WWW-Authenticate"] = "Bearer"
    return _response(body, status_of(error), path, headers)


def plain_problem(code: str, message: str, request_id: str, hint: str = "", retryable: bool = False) -> dict[str, Any]:
    """The same for what is no error of the engine."""
    fields = {"code": code, "message": message, "stage": "", "retryable": retryable, "hint": hint}
    return fields | {"request_id": request_id}


def defect(request_id: str) -> dict[str, Any]:
    """A bug of ours; the log has the rest."""
    return plain_problem("internal_error", DEFECT, request_id, in_the_log(request_id))


def crash(request_id: str, path: str = "") -> Response:
    return _response(defect(request_id), 500, path)


def _response(body: dict[str, Any], status: int, path: str = "", headers: Mapping[str, str] | None = None) -> Response:
    if path.startswith("/v1/"):  # as programs written for OpenAI's interface look for it
        kind = "invalid_request_error" if status < 500 else "api_error"
        body = body | {"error": {"message": body["message"], "type": kind, "code": body["code"], "param": None}}
    return Response(json_bytes(body), status, headers, "application/json")


def add_handlers(app: FastAPI) -> None:
    app.add_exception_handler(RefdeskError, _refdesk_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)


async def _refdesk_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefdeskError)
    if status_of(error) > 500:  # what ends in 500 is written down by `problem`, in streams too
        logger.warning("%s", error.sentence, extra={"code": error.code, "stage": error.stage})
    return refusal(error, request.state.request_id, request.url.path)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    hint = "see /openapi.json and docs/http.md"
    failure = UsageError(in_words(error.errors(), error.body), hint=hint)
    if unknown := [problem["msg"] for problem in error.errors() if problem["type"] == UNKNOWN_FIELD]:
        failure = UnknownField(unknown[0], hint=hint)
    kind = request.headers.get("content-type", "")
    if error.errors()[0]["loc"] == ("body",) and isinstance(error.body, bytes) and "json" not in kind:
        failure = UsageError("the body is not JSON", hint="send the header Content-Type: application/json")
    return refusal(failure, request.state.request_id, request.url.path)


async def _http_error(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, and bodies that could not be read."""
    assert isinstance(error, HTTPException)
    status, path = error.status_code, request.url.path
    sentence = {404: f"{path} does not exist", 405: f"{path} does not accept {request.method}"}.get(
        status, str(error.detail)
    )
    code = CODES.get(status, "usage_error" if status < 500 else "internal_error")
    hint = "docs/http.md lists the routes" if status in (404, 405) else ""
    body = plain_problem(code, sentence, request.state.request_id, hint, status >= 500 or status == 408)
    return _response(body, status, path, error.headers)


def in_words(errors: Sequence[Any], body: Any = None) -> str:
    """`[{"loc": ("body", "top_k"), "msg": "Input should be …"}]` -> `top_k: should be …`.

    Where a field may be one of several types there is an error for each of them: they become one sentence.
    """
    if errors[0]["type"] == "json_invalid":
        return "the body is not JSON"
    fields: dict[Any, list[tuple[tuple[Any, ...], Any]]] = {}
    for error in errors:
        place = _place(error, body)
        fields.setdefault(place[:2], []).append((place, error))
    first = next(iter(fields.values()))
    deepest = max(first, key=lambda pair: len(pair[0]))[0]  # of a wrong item in a list, the item
    expected = _expected([error for place, error in first if place == deepest])
    name = ".".join(str(part) for part in deepest[1:]) or ("the body" if deepest[:1] == ("body",) else "")
    more = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
    return f"{name}: {expected}{more}" if name else f"{expected}{more}"


def _place(error: Any, body: Any) -> tuple[Any, ...]:
    """`("body", "kind", "list[…]", 0)` -> `("body", "kind", 0)`: without the names of types that were tried."""
    place = tuple(error["loc"])
    if place[:1] != ("body",) or not isinstance(body, (dict, list)):
        return place
    found, value = ["body"], body
    for part in place[1:]:
        if isinstance(value, dict):  # as the caller calls it
            part = next((name for name, alias in ASK_NAMES.items() if alias == part and name in value), part)
        is_there = part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
        if is_there:
            found.append(part)
            value = value[part]
    if error["type"] == "missing":
        found.append(place[-1])
    return tuple(found)


def _expected(errors: Sequence[Any]) -> str:
    """What is wrong with one value: the first of what is said, or all that it might have been."""
    choices: list[str] = []
    types: list[str] = []
    for problem in errors:
        if problem["type"] == "literal_error":
            choices += re.findall(r"'[^']*'", problem["ctx"]["expected"])
        elif problem["type"] in TYPES:
            types.append(TYPES[problem["type"]])
        else:  # the type is right: its message about the value says more
            message = str(problem["msg"]).removeprefix("Value error, ").removeprefix("Input ")
            return message[:1].lower() + message[1:]
    if choices:
        types = ["a list of them" if type_ == "a list" else type_ for type_ in types]
    allowed = list(dict.fromkeys(choices + types))
    return "should be " + ", ".join(allowed[:-1]) + " or " * (len(allowed) > 1) + allowed[-1]


# OpenTelemetry: a span for each request and each stage of a question, sent when OTEL_EXPORTER_OTLP_ENDPOINT is set.

# --- what happened to each request? -----------------------------------------------------------------------------------

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


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
        for stage in trace["stages"]:
            if stage["skipped"] and not stage["error"]:
                continue
            first = began + int(stage["started_ms"] * 1e6)
            span = self._tracer.start_span(f"refdesk.{stage['name']}", context=context, start_time=first)
            for name, value in (stage["input"] | stage["output"]).items():
                if isinstance(value, str | bool | int | float):
                    span.set_attribute(f"refdesk.{name}", value)
            if stage["error"]:
                span.set_status(self._api.StatusCode.ERROR)
            span.end(first + int(stage["took_ms"] * 1e6))

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
        registered: dict[str, Any] = {"registry": self.registry}
        self._requests = Counter("refdesk_requests", "Requests answered", ["method", "route", "status"], **registered)
        self._latency = Histogram(
            "refdesk_request_seconds", "Time to answer a request", ["route"], buckets=BUCKETS, **registered
        )
        self._stages = Histogram(
            "refdesk_stage_seconds", "Time spent in a stage of answering", ["stage"], buckets=BUCKETS, **registered
        )
        self._answers = Counter("refdesk_answers", "Answers given", ["cached", "answered", "level"], **registered)
        self._failures = Counter("refdesk_failed_questions", "Questions that failed", ["code"], **registered)
        self._failed_models = Counter(
            "refdesk_model_failures", "Failures of models to write an answer", ["model", "code"], **registered
        )
        self._tokens = Counter("refdesk_tokens", "Tokens read and written by models", ["kind"], **registered)
        self._cost = Counter("refdesk_cost_usd", "Cost of models with a known price", **registered)
        self.waiting = Gauge("refdesk_jobs_waiting", "Unfinished uploads", multiprocess_mode="mostrecent", **registered)
        self.asking = Gauge(
            "refdesk_streams_open", "Questions being answered", multiprocess_mode="livesum", **registered
        )

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def answer(self, answer: Answer) -> None:
        self._answers.labels(answer.cached, str(answer.is_answered).lower(), answer.level).inc()
        if answer.cached == "no":  # an answer from the cache still carries the times it was made in
            for name, took_ms in answer.metrics.items():
                if name.endswith("_ms"):
                    self._stages.labels(name.removesuffix("_ms")).observe(took_ms / 1000)
        for failed_model in answer.failed_models:
            self._failed_models.labels(failed_model.model, failed_model.code).inc()
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
    headers += [header for header in SECURITY_HEADERS if header[0] not in given]
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
        if current_id := request_id.get():
            line["request_id"] = current_id
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
        named_logger = logging.getLogger(name)
        named_logger.handlers, named_logger.propagate = [handler], False
        named_logger.setLevel(level)


def _is_second_stop(record: logging.LogRecord) -> bool:
    """After a second Ctrl-C uvicorn does not wait for the app's end, and tells of it as if that were a defect."""
    return record.name == "uvicorn.error" and record.getMessage().rstrip().endswith("CancelledError")
