"""How is a failure said over HTTP? One shape for all of them, a status by the kind of error, never a stack trace.

    {"code": "not_found", "message": "there is no document 'x'", "stage": "", "retryable": false, "hint": "…",
     "request_id": "4f1c…"}

Requests that do not fit their schema are 400, like every other wrong call: one status says "correct your request".
Only a field that is not known is 422: a program may drop it and ask again.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from refdesk import errors
from refdesk.errors import AskError, DiskFull, NotSignedIn, RefdeskError, UsageError
from refdesk.serve.http.requests import UNKNOWN_FIELD

# How does a value become the bytes of a response? Straight through orjson; FastAPI would walk through it twice.

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
    hint = "ask again in a moment"
    retry_after_s = 1.0

    def __init__(self, message: str = "the server is stopping", *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)


# The nearest class in an error's family tree decides.
STATUS: Mapping[type[RefdeskError], int] = {
    UsageError: 400,
    UnknownField: 422,
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
        own = {"code": error.code, "stage": error.stage, "request_id": request_id}
        logger.warning("%s", error.sentence, exc_info=error, extra=own)
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
    if unknown := [one["msg"] for one in error.errors() if one["type"] == UNKNOWN_FIELD]:
        failure = UnknownField(unknown[0], hint=hint)
    kind = request.headers.get("content-type", "")
    if error.errors()[0]["loc"] == ("body",) and isinstance(error.body, bytes) and "json" not in kind:
        failure = UsageError("the body is not JSON", hint="send the header Content-Type: application/json")
    return refusal(failure, request.state.request_id, request.url.path)


async def _http_error(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, and bodies that could not be read."""
    assert isinstance(error, HTTPException)
    status, path = error.status_code, request.url.path
    sentence = {
        404: f"there is nothing at {path}",
        405: f"{request.method} is not a method of {path}",
    }.get(status, str(error.detail))
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
    for one in errors:
        place = _place(one, body)
        fields.setdefault(place[:2], []).append((place, one))
    first = next(iter(fields.values()))
    deepest = max(first, key=lambda pair: len(pair[0]))[0]  # of a wrong item in a list, the item
    expected = _expected([one for place, one in first if place == deepest])
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
    for one in errors:
        if one["type"] == "literal_error":
            choices += re.findall(r"'[^']*'", one["ctx"]["expected"])
        elif one["type"] in TYPES:
            types.append(TYPES[one["type"]])
        else:  # the type is right: its message about the value says more
            message = str(one["msg"]).removeprefix("Value error, ").removeprefix("Input ")
            return message[:1].lower() + message[1:]
    if choices:
        types = ["a list of them" if one == "a list" else one for one in types]
    allowed = list(dict.fromkeys(choices + types))
    return "should be " + ", ".join(allowed[:-1]) + " or " * (len(allowed) > 1) + allowed[-1]
