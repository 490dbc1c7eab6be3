"""What does OpenAPI say of a route? Its answer with an example, and the failures it may end in."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from refdesk.serve.http.schemas import answer_schemas
from refdesk.serve.http.shapes import Problem

Responses = dict[int | str, dict[str, Any]]

# What any request under /api and /v1 may come to, whatever the route; a change also to 408 and to a full disk.
ANYWHERE = (400, 401, 403, 413, 429, 500, 503)
CHANGING = ("post", "put", "patch", "delete")
WORDS: Mapping[int, str] = {
    400: "The request is wrong",
    401: "No key, or one that is not known",
    403: "The key may not do this, or the request comes from another site",
    404: "It is not there, or not for this caller",
    408: "The body did not come",
    413: "Over a limit on size",
    415: "A type that is not read",
    422: "The document cannot be read",
    429: "Over a limit of this key; Retry-After says when to come back",
    500: "A defect; the log has the request's id",
    501: "An optional part is not installed",
    502: "A model did not answer",
    503: "Busy; try again",
    507: "The disk is full",
}
# The code and the sentence that stand for each status in its example.
SAID: Mapping[int, tuple[str, str]] = {
    400: ("usage_error", "top_k: should be greater than or equal to 1"),
    401: ("not_signed_in", "this library needs a key"),
    403: ("access_denied", "a reader may not do this"),
    404: ("not_found", "there is no document 'price-list.pdf'"),
    408: ("request_timeout", "nothing came for 60 seconds"),
    413: ("too_large", "a request has 4 MB at most; send less, or upload it as a document"),
    415: ("unsupported_format", "files of this type are not read"),
    422: ("needs_password", "it is encrypted"),
    429: ("too_many_requests", "this key has made its 1,000 requests of the hour"),
    500: ("internal_error", "something went wrong on the server's side"),
    501: ("extra_missing", "this needs refdesk[rerank]"),
    502: ("provider_refused", "the model's key was refused"),
    503: ("library_busy", "the database is locked by another program"),
    507: ("disk_full", "the disk that holds the library is full"),
}
TRY_AGAIN = frozenset((408, 429, 503, 507))
REQUEST_ID = {"description": "Of this request, as the log has it", "schema": {"type": "string"}}
RETRY_AFTER = {"description": "Seconds until another try may succeed", "schema": {"type": "integer"}}
# Where a route does not say it itself.
PARAMETERS: Mapping[str, str] = {
    "conversation_id": "The conversation's id, its `session_id` in a question",
    "answer_id": "The answer's id, its `query_id` or `trace_id`",
    "key_id": "The key's id or name",
    "name": "Its name",
    "limit": "How many at most",
    "offset": "How many to leave out",
    "order": "How they are ordered",
    "days": "How many days back",
    "format": "png or webp",
}
PROBLEM = {"$ref": "#/components/schemas/Problem"}
CITATION: dict[str, Any] = {
    "marker": 1,
    "document_id": "b4f2c6d1",
    "document_name": "price-list.pdf",
    "chunk_id": 17,
    "chunk_sequence": 3,
    "heading_path": ["Prices", "Revision"],
    "page": 2,
    "boxes": [{"page": 2, "x": 10.0, "y": 41.5, "width": 63.0, "height": 1.6}],
    "located": True,
    "quote": "The price list is revised every January.",
    "relevance_score": 0.91,
    "similarity_score": 0.83,
    "doc_id": "b4f2c6d1",
    "similarity": 0.83,
}
ANSWER_EXAMPLE: dict[str, Any] = {
    "id": "0f3a9c",
    "question": "When is the price list revised?",
    "content": "The price list is revised every January. [1]",
    "answer": "The price list is revised every January. [1]",
    "claims": [
        {
            "text": "The price list is revised every January.",
            "start": 0,
            "end": 44,
            "markers": [1],
            "citations": [0],
            "verdict": "supported",
            "score": 0.97,
            "note": "",
        }
    ],
    "citations": [CITATION],
    "sources": [{"document_id": "b4f2c6d1", "document_name": "price-list.pdf", "doc_name": "price-list.pdf"}],
    "confidence": {"score": 0.9, "level": "high", "reason": "one passage says it in the question's words"},
    "metrics": {"total_ms": 31.4, "retrieval_latency_ms": 12.2, "chunks_retrieved": 10},
    "query_id": "0f3a9c",
    "cached": "no",
}


def gives(example: Any, status: int = 200, description: str = "Done") -> Responses:
    """A JSON answer, shown by an example; its schema is an object or an array."""
    kind = "array" if isinstance(example, list) else "object"
    schema: dict[str, Any] = {"type": kind}
    if isinstance(example, dict):
        schema["required"] = sorted(example)
    return {
        status: {"description": description, "content": {"application/json": {"schema": schema, "example": example}}}
    }


def failures(*statuses: int) -> Responses:
    """Beside those that may come anywhere."""
    return {status: _failure(status) for status in statuses}


def _failure(status: int) -> dict[str, Any]:
    words = WORDS.get(status, HTTPStatus(status).phrase)
    code, message = SAID.get(status, ("usage_error", words))
    example = {"code": code, "message": message, "stage": "", "retryable": status in TRY_AGAIN, "hint": ""}
    example |= {"request_id": "4f1c8a12be90d377"}
    return {"description": words, "content": {"application/json": {"schema": PROBLEM, "example": example}}}


def bytes_of(*types: str, description: str = "Done") -> Responses:
    """An answer that is not JSON."""
    content = {one: {"schema": {"type": "string", "format": "binary"}} for one in types}
    return {200: {"description": description, "content": content}}


# What of it is long is cut.
TOLD = (
    ("thinking", '{"step":"retrieve","text":"Searching 9 documents"}'),
    ("sources", '{"citations":[{"marker":1,"chunk_id":17,"page":2,"text":"The price list is revised …"}]}'),
    ("content", '{"token":"The price list is revised every January. "}'),
    ("content", '{"token":"[1]"}'),
    ("verification", '{"status":"checking","notes":[]}'),
    ("verification", '{"status":"verified","notes":["every sentence was checked against the lines it cites"]}'),
    (
        "done",
        '{"answer":{"id":"0f3a9c","content":"The price list is … [1]"},"traceUrl":"/api/traces/0f3a9c"}',
    ),
)


def _answer() -> Responses:
    made = gives(ANSWER_EXAMPLE, description="The answer")
    made[200]["content"]["application/json"]["schema"] = {"$ref": "#/components/schemas/Answer"}
    return made


ANSWER: Responses = _answer()
EVENTS: Responses = {
    200: {
        "description": "Server-Sent Events; see docs/http.md",
        "content": {
            "text/event-stream": {
                "schema": {},  # of each event; what it carries is in docs/http.md
                "example": "".join(
                    f"id: 19a85c3e5f04f1c8a12be90-{number}\nevent: {name}\ndata: {data}\n\n"
                    for number, (name, data) in enumerate(TOLD, 1)
                ),
            }
        },
    }
}


def describe(app: FastAPI) -> dict[str, Any]:
    """The app's OpenAPI document: made once, when first asked for."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        components = schema.setdefault("components", {})
        problem = Problem.model_json_schema()
        components.setdefault("schemas", {}).update(answer_schemas() | {"Problem": problem})
        for unused in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(unused, None)
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "refdesk_session"},
        }
        schema["security"] = [{"bearer": []}, {"header": []}, {"cookie": []}, {}]
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                _complete(operation, path, method)
        app.openapi_schema = schema
    return app.openapi_schema


def _complete(operation: dict[str, Any], path: str, method: str) -> None:
    """What holds for every route and what FastAPI gets wrong."""
    responses = operation["responses"]
    if "HTTPValidationError" in str(responses.get("422")):
        del responses["422"]
    for status in _anywhere(path, method):
        responses.setdefault(str(status), _failure(status))
    for status, response in responses.items():
        content = response.get("content", {})
        if len(content) > 1 and content.get("application/json") == {"schema": {}}:
            del content["application/json"]  # a guess where the route says better
        headers = response.setdefault("headers", {})
        headers["X-Request-Id"] = REQUEST_ID
        if status in ("429", "503"):
            headers["Retry-After"] = RETRY_AFTER
    for one in operation.get("parameters", ()):
        if one["name"] in PARAMETERS:
            one.setdefault("description", PARAMETERS[one["name"]])


def _anywhere(path: str, method: str) -> tuple[int, ...]:
    if not path.startswith(("/api/", "/v1/")):
        return (400, 401, 403, 500)
    return (*ANYWHERE, 408, 507) if method in CHANGING else ANYWHERE
