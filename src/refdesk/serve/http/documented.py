"""What does OpenAPI say of a route? Its answer with an example, and the failures it may end in."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from refdesk.serve.http.shapes import Problem

Responses = dict[int | str, dict[str, Any]]

# What any request under /api and /v1 may come to, whatever the route.
ANYWHERE = (400, 401, 403, 413, 429, 500, 503)
WORDS: Mapping[int, str] = {
    400: "The request is wrong",
    401: "No key, or one that is not known",
    403: "The key may not do this, or the request comes from another site",
    404: "It is not there, or not for this caller",
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
    return {"description": words, "content": {"application/json": {"schema": PROBLEM}}}


def bytes_of(*types: str, description: str = "Done") -> Responses:
    """An answer that is not JSON."""
    content = {one: {"schema": {"type": "string", "format": "binary"}} for one in types}
    return {200: {"description": description, "content": content}}


ANSWER: Responses = gives(ANSWER_EXAMPLE, description="The answer")
EVENTS: Responses = {
    200: {
        "description": "Server-Sent Events; see docs/http.md",
        "content": {
            "text/event-stream": {
                "schema": {},  # of each event; what it carries is in docs/http.md
                "example": 'id: Zk3aQ-1\nevent: thinking\ndata: {"step":"retrieve","text":"Searching 9 files"}\n\n',
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
        components.setdefault("schemas", {})["Problem"] = problem
        for unused in ("HTTPValidationError", "ValidationError"):
            components["schemas"].pop(unused, None)
        components["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "refdesk_session"},
        }
        schema["security"] = [{"bearer": []}, {"header": []}, {"cookie": []}, {}]
        for path, operations in schema["paths"].items():
            for operation in operations.values():
                responses = operation["responses"]
                if "HTTPValidationError" in str(responses.get("422")):
                    del responses["422"]
                for status in ANYWHERE if path.startswith(("/api/", "/v1/")) else (400, 401, 403, 500):
                    responses.setdefault(str(status), _failure(status))
        app.openapi_schema = schema
    return app.openapi_schema
