"""What does OpenAPI say of a route? Its answer with an example, and the failures it may end in."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from refdesk.answer import Answer, Citation, Claim, Confidence, Source, Sufficiency
from refdesk.serve.http import responses as answer_shapes
from refdesk.serve.http import responses as response_shapes
from refdesk.serve.http.errors import json_bytes
from refdesk.serve.http.requests import Problem
from refdesk.serve.http.responses import (
    ContentEvent,
    DoneEvent,
    ErrorEvent,
    Feedback,
    ReplaceEvent,
    SourcesEvent,
    ThinkingEvent,
    VerificationEvent,
)
from refdesk.serve.http.seeds import answer_shape
from refdesk.types import Box

# What do OpenAPI's components say of what comes back? Read off the types of response_shapes and answer_shapes.

PLACE = "#/components/schemas/{model}"
TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
WHOLE: dict[str, Any] = {"type": "integer"}
PERHAPS_TEXT: dict[str, Any] = {"type": ["string", "null"]}
PARTS = ("x", "y", "width", "height")

SOURCE_CHUNK: dict[str, Any] = {
    **dict.fromkeys(("doc_name", "heading_path", "snippet"), TEXT),
    **dict.fromkeys(("chunk_id", "chunk_sequence", "page_number"), WHOLE),
    **dict.fromkeys(("relevance_score", "similarity_score"), NUMBER),
}

# Beside the fields of each value; seeds.py makes them.
BESIDE: dict[str, dict[str, Any]] = {
    "Citation": {
        **dict.fromkeys(("doc_id", "docId", "doc_name", "title", "section", "snippet", "text"), TEXT),
        **dict.fromkeys(("similarity", "score"), NUMBER),
        "matched": {"type": "boolean"},
        "page_number": WHOLE,
        "sourceUrls": {"type": "array", "items": TEXT},
        "bbox": {"type": ["object", "null"], "properties": dict.fromkeys(PARTS, NUMBER)},
    },
    "Source": {
        **SOURCE_CHUNK,
        **dict.fromkeys(("doc_id", "url"), TEXT),
        "chunks": {"type": "array", "items": {"type": "object", "properties": SOURCE_CHUNK}},
    },
    "Confidence": {"label": {"type": "string", "enum": ["High", "Medium", "Low"]}},
    "Answer": {
        **dict.fromkeys(("answer", "query_id", "session_id", "confidence_level"), TEXT),
        "confidence_score": NUMBER,
        "context_sufficiency": {"$ref": PLACE.format(model="Sufficiency")},
        "relatedDocs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": dict.fromkeys(("docId", "document_id", "document_name", "title", "category"), TEXT),
            },
        },
        "metadata": {
            "type": "object",
            "properties": {
                **dict.fromkeys(("chunksRetrieved", "chunksUsed"), WHOLE),
                "model": PERHAPS_TEXT,
                "processingTimeMs": NUMBER,
                "usage": {"type": "object", "properties": dict.fromkeys(("promptTokens", "completionTokens"), WHOLE)},
                "noResults": {"type": "boolean"},
            },
        },
        "metrics": {
            "type": "object",
            "description": "Milliseconds of each stage (`retrieve_ms` …) and counts.",
            "properties": {
                **dict.fromkeys(("retrieval_latency_ms", "llm_latency_ms", "total_latency_ms"), NUMBER),
                **dict.fromkeys(("context_length", "chunks_retrieved"), WHOLE),
                "tokens_used": {"$ref": PLACE.format(model="CompletionUsage")},
                "model": TEXT,
            },
            "additionalProperties": NUMBER,
        },
    },
}


# Wherever these stand they have all of it; a source that is not cited, and a confidence under /v1, have only their own.
ALWAYS = ("Answer", "Citation")


class _Whole(GenerateJsonSchema):
    """A value that is sent has all its fields, also those that have a default."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return field["type"] == "dataclass-field" or super().field_is_required(field, total)


def response_schemas() -> dict[str, Any]:
    """The components `Answer`, `Citation`, `Document`, `Upload` … by their names."""
    shapes = [
        (name, "serialization", TypeAdapter(shape))
        for module in (response_shapes, answer_shapes)
        for name, shape in vars(module).items()
        if isinstance(shape, type) and shape.__module__ == module.__name__ and not name.startswith("_")
    ]
    _, found = TypeAdapter.json_schemas(shapes, ref_template=PLACE, schema_generator=_Whole)  # type: ignore[arg-type]
    made: dict[str, Any] = _plain(found["$defs"])
    made["Box"] = {
        "type": "object",
        "description": "In per cent of the page as displayed, from its top left.",
        "properties": {"page": WHOLE} | dict.fromkeys(PARTS, NUMBER),
        "required": ["page", *PARTS],
    }
    for name, more in BESIDE.items():
        made[name]["properties"] |= more
        if name in ALWAYS:
            made[name]["required"] = list(made[name]["properties"])
    answer = made["Answer"]
    said = {"feedback": {"type": "array", "items": {"$ref": PLACE.format(model="Feedback")}}}
    made["KeptAnswer"] = answer | {
        "description": "An answer that was given, and what people said of it.",
        "properties": answer["properties"] | said,
        "required": [*answer["required"], *said],
    }
    return made


def _plain(schema: Any) -> Any:
    """Without the titles that repeat each name."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _plain(value) for name, value in schema.items() if not (name == "title" and isinstance(value, str))}


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
    422: "A field that is not known, or a document that cannot be read",
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
    422: ("unknown_field", "'topk' (did you mean 'top_k'?) is not a field of this request; it may have …"),
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


def gives(shape: type | str, example: Any, status: int = 200, description: str = "Done") -> Responses:
    """A JSON answer: one of the shapes of response_shapes.py, or the name of a component, shown by an example."""
    name = shape if isinstance(shape, str) else shape.__name__
    # As text until `_complete`: FastAPI leaves out of an example whatever is null.
    shown = {"schema": {"$ref": PLACE.format(model=name)}, "example": json_bytes(example).decode()}
    return {status: {"description": description, "content": {"application/json": shown}}}


def streams(events: Mapping[str, type], example: str) -> dict[str, Any]:
    """What one event of a text/event-stream is: the shape of its data by its name, "" for one that has none.

    OpenAPI 3.1 does not say what the schema of a stream describes; this is an event as OpenAPI 3.2 writes it down.
    """
    return {"schema": {"oneOf": [_event(name, shape) for name, shape in events.items()]}, "example": example}


def _event(name: str, shape: type) -> dict[str, Any]:
    inside = {"contentMediaType": "application/json", "contentSchema": {"$ref": PLACE.format(model=shape.__name__)}}
    data = {"data": {"type": "string", **inside}}
    named = {"id": {"type": "string"}, "event": {"type": "string", "const": name}} if name else {}
    parts: dict[str, Any] = named | data
    return {"type": "object", "title": name or shape.__name__, "properties": parts, "required": list(parts)}


def gives_events(events: Mapping[str, type], example: str) -> Responses:
    content = {"text/event-stream": streams(events, example)}
    return {200: {"description": "Server-Sent Events; see docs/http.md", "content": content}}


def failures(*statuses: int) -> Responses:
    """Beside those that may come anywhere."""
    return {status: _failure(status) for status in statuses}


def _failure(status: int) -> dict[str, Any]:
    words = WORDS.get(status, HTTPStatus(status).phrase)
    code, message = SAID.get(status, ("usage_error", words))
    example = {"code": code, "message": message, "stage": "", "retryable": status in TRY_AGAIN, "hint": ""}
    example |= {"request_id": "4f1c8a12be90d377"}
    return gives("Problem", example, status, words)[status]


def _as_openai(response: dict[str, Any], status: int) -> None:
    """Under /v1 a failure is said twice."""
    shown = response["content"]["application/json"]
    said = shown["example"]
    kind = "invalid_request_error" if status < 500 else "api_error"
    error = {"message": said["message"], "type": kind, "code": said["code"], "param": None}
    shown |= {"schema": {"$ref": PLACE.format(model="CompletionProblem")}, "example": said | {"error": error}}


def bytes_of(*types: str, description: str = "Done") -> Responses:
    """An answer that is not JSON."""
    content = {one: {"schema": {"type": "string", "format": "binary"}} for one in types}
    return {200: {"description": description, "content": content}}


def describe(app: FastAPI) -> dict[str, Any]:
    """The app's OpenAPI document: made once, when first asked for."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        components = schema.setdefault("components", {})
        problem = Problem.model_json_schema()
        components.setdefault("schemas", {}).update(response_schemas() | {"Problem": problem})
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
    has_fields = "application/json" in operation.get("requestBody", {}).get("content", {})
    for status in (*_anywhere(path, method), *((422,) if has_fields else ())):
        responses.setdefault(str(status), _failure(status))
    for status, response in responses.items():
        content = response.get("content", {})
        if len(content) > 1 and content.get("application/json") == {"schema": {}}:
            del content["application/json"]  # a guess where the route says better
        if shown := content.get("application/json"):
            shown["example"] = orjson.loads(shown["example"])
        if path.startswith("/v1/") and int(status) >= 400:
            _as_openai(response, int(status))
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


# How does OpenAPI show an answer, and the events on the way to it?

SENTENCE = "The price list is revised every January."
EXAMPLE = Answer(
    id="0f3a9c",
    question="When is the price list revised?",
    content=f"{SENTENCE} [1]",
    claims=(Claim(SENTENCE, 0, 44, markers=(1,), citations=(0,), verdict="supported", score=0.97),),
    citations=(
        Citation(
            marker=1,
            document_id="b4f2c6d1a0937e55",
            document_name="price-list.pdf",
            chunk_id=17,
            chunk_sequence=3,
            heading_path=("Prices", "Revision"),
            page=2,
            boxes=(Box(2, 10.0, 41.5, 63.0, 1.6),),
            located=True,
            quote=SENTENCE,
            relevance_score=0.91,
            similarity_score=0.83,
            origin=(1804, 1844),
        ),
    ),
    sources=(Source("b4f2c6d1a0937e55", "price-list.pdf", "Price list 2026", (2,), (1,), "default"),),
    confidence=Confidence(0.9, "high", "one passage says it in the question's words"),
    sufficiency=Sufficiency(is_sufficient=True, coverage_score=1.0),
    standalone_question="When is the price list revised?",
    metrics={"retrieve_ms": 12.2, "total_ms": 31.4, "chunks_retrieved": 10},
    conversation_id="tuesday",
    trace_id="0f3a9c",
)
FEEDBACK: Feedback = {
    "answer_id": "0f3a9c",
    "owner": "3c9a1f",
    "verdict": "correct",
    "correction": "",
    "created_at": "2026-01-31T09:02:00.000+00:00",
}
ANSWER = gives(Answer, answer_shape(EXAMPLE), description="The answer")
KEPT_ANSWER = gives("KeptAnswer", answer_shape(EXAMPLE) | {"feedback": [FEEDBACK]}, description="The answer")

# What of it is long is cut.
TOLD = (
    ("thinking", '{"step":"retrieve","text":"Searching 9 documents"}'),
    ("sources", '{"citations":[{"marker":1,"chunk_id":17,"page":2,"text":"The price list is revised …"}]}'),
    ("content", '{"token":"The price list is revised every January. "}'),
    ("content", '{"token":"[1]"}'),
    ("verification", '{"status":"checking","notes":[]}'),
    ("verification", '{"status":"verified","notes":["every sentence was checked against the lines it cites"]}'),
    ("done", '{"answer":{"id":"0f3a9c","content":"The price list is … [1]"},"traceUrl":"/api/traces/0f3a9c"}'),
)
EVENTS = gives_events(
    {
        "thinking": ThinkingEvent,
        "sources": SourcesEvent,
        "content": ContentEvent,
        "verification": VerificationEvent,
        "replace": ReplaceEvent,
        "done": DoneEvent,
        "error": ErrorEvent,
    },
    "".join(
        f"id: 19a85c3e5f04f1c8a12be90-{number}\nevent: {name}\ndata: {data}\n\n"
        for number, (name, data) in enumerate(TOLD, 1)
    ),
)
