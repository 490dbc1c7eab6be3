"""What /openapi.json says about each route: its response, an example, and how it can fail.

Types are in requests.py and responses.py. Routes say theirs with `returns`, not with FastAPI's `response_model`, which
would build a validator for each at every start; here the components are made when the document is first asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from refdesk.serve.http.observe import plain_problem
from refdesk.serve.http.requests import EXAMPLES
from refdesk.serve.http.responses import MEANINGS, CompletionProblem, Problem

PLACE = "#/components/schemas/{model}"
JSON, EVENTS = "application/json", "text/event-stream"
Responses = dict[int | str, dict[str, Any]]

# What may happen on any route below /api and /v1; when something is changed, also 408 and 507.
ANYWHERE = (400, 401, 403, 413, 429, 500, 503)
CHANGING = ("post", "put", "patch", "delete")
TRY_AGAIN = frozenset((408, 429, 503, 507))
# What each status means, and the code and the message of its example.
FAILURES: Mapping[int, tuple[str, str, str]] = {
    400: ("The request is wrong", "usage_error", "top_k: should be greater than or equal to 1"),
    401: ("Missing or unknown key", "not_signed_in", "this library needs a key"),
    403: (
        "Not allowed for this key, or the request comes from another site",
        "access_denied",
        "a reader may not do this",
    ),
    404: ("Not found, or not visible to this caller", "not_found", "there is no document 'price-list.pdf'"),
    408: ("The body did not arrive", "request_timeout", "nothing arrived for 60 seconds"),
    413: ("Too large", "too_large", "a request can have at most 4 MB; upload larger files as documents"),
    415: ("This type of file is not supported", "unsupported_format", "this type of file is not supported"),
    422: (
        "An unknown field, or a document that cannot be read",
        "unknown_field",
        "'topk' (did you mean 'top_k'?) is not a field of this request; known fields: …",
    ),
    429: (
        "A limit for this key has been reached; Retry-After says when to try again",
        "too_many_requests",
        "this key has used its 1,000 requests for this hour",
    ),
    500: (
        "Internal error; the log has the details under the request id",
        "internal_error",
        "something went wrong on the server",
    ),
    501: ("An optional part is not installed", "extra_missing", "this needs refdesk[rerank]"),
    502: ("A model did not answer", "provider_refused", "the model's key was refused"),
    503: ("Busy; try again", "library_busy", "another program has locked the database"),
    507: ("The disk is full", "disk_full", "the server's disk is full"),
}
REQUEST_ID = {"description": "The id of this request in the log", "schema": {"type": "string"}}
RETRY_AFTER = {"description": "Seconds to wait before retrying", "schema": {"type": "integer"}}
# For parameters that a route does not describe itself.
PARAMETERS: Mapping[str, str] = {
    "job_id": "Id of a background job",
    "conversation_id": "The conversation's id; `session_id` in questions",
    "answer_id": "The answer's id, `query_id` or `trace_id`",
    "key_id": "The key's id or name",
    "name": "Its name",
    "limit": "Maximum number of results",
    "offset": "Number of results to skip",
    "order": "Ascending or descending",
    "days": "Number of days to look back",
    "format": "png or webp",
}

# How a route says it


# By name, what comes back: failures, and what the routes say that they return.
RETURNED: dict[str, Any] = {"Problem": Problem, "CompletionProblem": CompletionProblem}


def about(summary: str, returned: Any, *statuses: int, status: int = 200) -> dict[str, Any]:
    """For a route's decorator: its summary, what it returns, and how it may fail beside the usual ways."""
    responses = returns(returned, status, "Accepted" if status == 202 else "Done") | failures(*statuses)
    return {"summary": summary, "status_code": status, "responses": responses}


def returns(returned: Any, status: int = 200, description: str = "Done") -> Responses:
    """A JSON response of this type."""
    return {status: {"description": description, "content": {JSON: {"schema": _component(returned)}}}}


def _component(kind: Any) -> dict[str, str]:
    RETURNED[kind.__name__] = kind
    return {"$ref": PLACE.format(model=kind.__name__)}


def returns_events(**events: Any) -> Responses:
    """A stream: the type of an event's data by the event's name; `data` stands for events without a name.

    OpenAPI 3.1 has no way to describe a stream; the schema is that of one event, as OpenAPI 3.2 has it.
    """
    schema = {"oneOf": [_event("" if name == "data" else name, kind) for name, kind in events.items()]}
    return {200: {"description": "Server-Sent Events; see docs/http.md", "content": {EVENTS: {"schema": schema}}}}


def _event(name: str, kind: Any) -> dict[str, Any]:
    data = {"contentMediaType": JSON, "contentSchema": _component(kind)}
    head = {"id": {"type": "string"}, "event": {"type": "string", "const": name}} if name else {}
    parts: dict[str, Any] = head | {"data": {"type": "string"} | data}
    return {"type": "object", "title": name or kind.__name__, "properties": parts, "required": list(parts)}


def returns_bytes(*types: str, description: str, example: str = "") -> Responses:
    schema = {"schema": {"type": "string", "format": "binary"}} | ({"example": example} if example else {})
    content = dict.fromkeys(types, schema)
    return {200: {"description": description, "content": content}}


def failures(*statuses: int) -> Responses:
    """Beside those that may happen anywhere."""
    return {status: _failure(status) for status in statuses}


def _failure(status: int, is_openai: bool = False) -> dict[str, Any]:
    phrase = HTTPStatus(status).phrase
    about, code, message = FAILURES.get(status, (phrase, "usage_error", phrase))
    example = plain_problem(code, message, "4f1c8a12be90d377", retryable=status in TRY_AGAIN)
    response = returns(CompletionProblem if is_openai else Problem, status, about)[status]
    if is_openai:  # as OpenAI's clients expect it
        kind = "invalid_request_error" if status < 500 else "api_error"
        example["error"] = {"message": message, "type": kind, "code": code, "param": None}
    response["content"][JSON]["example"] = example
    return response


# The document


def describe(app: FastAPI) -> dict[str, Any]:
    """The app's OpenAPI document, made once."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        schemas.update(response_schemas())
        for name, examples in EXAMPLES.items():
            schemas[name]["examples"] = examples
        for unused in ("HTTPValidationError", "ValidationError"):
            schemas.pop(unused, None)
        schema["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            "cookie": {"type": "apiKey", "in": "cookie", "name": "refdesk_session"},
        }
        schema["security"] = [{"bearer": []}, {"header": []}, {"cookie": []}, {}]
        for path, operations in schema["paths"].items():
            for method, operation in operations.items():
                _complete(operation, path, method, schemas)
        app.openapi_schema = schema
    return app.openapi_schema


def _complete(operation: dict[str, Any], path: str, method: str, schemas: dict[str, Any]) -> None:
    """Adds what holds for every route, and the examples; removes what FastAPI guesses wrong."""
    documented = operation["responses"]
    if "HTTPValidationError" in str(documented.get("422")):
        del documented["422"]
    statuses: tuple[int, ...] = (400, 401, 403, 500)
    if path.startswith(("/api/", "/v1/")):
        statuses = (*ANYWHERE, 408, 507) if method in CHANGING else ANYWHERE
    if "{" in path:
        statuses = (*statuses, 404)
    if JSON in operation.get("requestBody", {}).get("content", {}):
        statuses = (*statuses, 422)
    for status in statuses:
        documented.setdefault(str(status), _failure(status))
    for status, response in documented.items():
        if path.startswith("/v1/") and int(status) >= 400:
            response |= _failure(int(status), is_openai=True)
        content = response.get("content", {})
        if len(content) > 1 and content.get(JSON) == {"schema": {}}:
            del content[JSON]
        for kind, shown in content.items():
            if kind == JSON and "example" not in shown:
                shown["example"] = example_of(shown["schema"], schemas)
            elif kind == EVENTS:
                shown["example"] = _event_examples(shown["schema"]["oneOf"], schemas)
        response["headers"] = {"X-Request-Id": REQUEST_ID}
        if status in ("429", "503"):
            response["headers"]["Retry-After"] = RETRY_AFTER
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in PARAMETERS:
            parameter.setdefault("description", PARAMETERS[parameter["name"]])


class _Whole(GenerateJsonSchema):
    """A value that is sent has all its fields, also those with a default."""

    def field_is_required(self, field: Any, total: bool) -> bool:
        return field["type"] == "dataclass-field" or super().field_is_required(field, total)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> Any:
        return self.generate_inner(schema["schema"])


def response_schemas() -> dict[str, Any]:
    """The components `Answer`, `Citation`, `Document`, `Upload` … by name."""
    adapters: Any = [(name, "serialization", TypeAdapter(kind)) for name, kind in RETURNED.items()]
    _, found = TypeAdapter.json_schemas(adapters, ref_template=PLACE, schema_generator=_Whole)
    schemas: dict[str, Any] = found["$defs"]
    schemas["AnswerMetrics"]["additionalProperties"] = {"type": "number"}
    for name, schema in schemas.items():
        schema.pop("title", None)  # which repeats the name
        for field, value in schema.get("properties", {}).items():
            if meaning := MEANINGS.get(f"{name}.{field}") or MEANINGS.get(field):
                value["description"] = meaning
    return schemas


# Examples, made from the schemas: the value of a field, by its name or by its component and name

SENTENCE, QUESTION = "The price list is revised every January.", "When is the price list revised?"
PAGE = "/api/documents/b4f2c6d1a0937e55/pages/2"
VALUES: Mapping[str, Any] = {
    **dict.fromkeys(("created_at", "updated_at"), "2026-01-31T09:00:00.000+00:00"),
    **dict.fromkeys(("day", "date", "from", "to"), "2026-01-31"),
    **dict.fromkeys(("document_id", "Document.id", "doc_id", "docId", "deleted"), "b4f2c6d1a0937e55"),
    **dict.fromkeys(("answer_id", "query_id", "trace_id", "Answer.id", "Trace.id", "AskedQuestion.id"), "0f3a9c"),
    **dict.fromkeys(("Upload.id", "upload_id"), "9f2c41d07be355a8c1d2e3f4"),
    **dict.fromkeys(("Key.id", "Me.id", "owner"), "3c9a1f"),
    **dict.fromkeys(("conversation_id", "session_id", "Conversation.id"), "tuesday"),
    **dict.fromkeys(("Completion.id", "CompletionChunk.id"), "chatcmpl-0f3a9c"),
    **dict.fromkeys(("name", "document_name", "doc_name"), "price-list.pdf"),
    **dict.fromkeys(("Key.name", "Me.name"), "anna"),
    **dict.fromkeys(("collection", "collections", "category", "Collection.name"), "finance"),
    **dict.fromkeys(("question", "standalone_question", "Conversation.title", "Message.content"), QUESTION),
    **dict.fromkeys(("content", "answer"), f"{SENTENCE} [1]"),
    **dict.fromkeys(("text", "quote", "snippet"), SENTENCE),
    **dict.fromkeys(("page", "page_number", "pages"), 2),
    **dict.fromkeys(("start", "citations"), 0),
    **dict.fromkeys(("heading_path", "section"), "Prices"),
    **dict.fromkeys(("model", "ModelState.answer"), "openai:gpt-4o-mini"),
    **dict.fromkeys(("Stage.name", "step"), "retrieve"),
    **dict.fromkeys(("parent_id", "seconds_left", "figure"), None),
    **{name: [] for name in ("conflicts", "related_documents", "failed_models", "AddedExamples.failed")},
    **dict.fromkeys(("is_answered", "located", "matched", "is_sufficient", "signed_in", "has_page_images"), True),
    **dict.fromkeys(("cleared", "Stopped.stopped", "changed", "enabled", "is_listed", "needs_key"), True),
    **{"title": "Price list 2026", "format": "pdf", "language": "en", "token": "The ", "query": "price list revised"},
    **{"SearchHit.page_text": f"{PAGE}/text", "page_image": f"{PAGE}/image", "traceUrl": "/api/traces/0f3a9c"},
    **{"Setting.name": "rag.top_k", "Setting.section": "rag", "allowed": "1 to 1000", "secret": "rd_…"},
    **{"ThinkingEvent.text": "Searching 9 documents", "reply": "Ready", "Claim.end": 44, "label": "2"},
}
PLAIN: Mapping[str, Any] = {"string": "", "integer": 1, "number": 0.5, "boolean": False, "null": None}


def example_of(schema: Mapping[str, Any], schemas: Mapping[str, Any], owner: str = "", field: str = "") -> Any:
    """A value that fits the schema; `owner` is the component that has it as its `field`."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return example_of(schemas[name], schemas, name, field)
    value = VALUES.get(f"{owner}.{field}", VALUES.get(field, ""))
    if "anyOf" in schema:
        return None if value is None else example_of(schema["anyOf"][0], schemas, owner, field)
    if choices := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return value if value in choices else choices[0]
    if schema["type"] == "array":
        items = schema["prefixItems"] if "prefixItems" in schema else [schema["items"]]
        is_empty = value == [] or (value == "" and items == [{"type": "string"}])
        return [] if is_empty else [example_of(item, schemas, owner, field) for item in items]
    if schema["type"] == "object":
        return {name: example_of(part, schemas, owner, name) for name, part in schema.get("properties", {}).items()}
    plain = PLAIN[schema["type"]]
    return value if type(value) is type(plain) else plain


def _event_examples(kinds: list[dict[str, Any]], schemas: Mapping[str, Any]) -> str:
    text = ""
    for number, kind in enumerate(kinds, 1):
        parts = kind["properties"]
        head = f"id: 19a85c3e5f04f1c8a12be90-{number}\nevent: {parts['event']['const']}\n" if "event" in parts else ""
        example = example_of(parts["data"]["contentSchema"], schemas)
        text += f"{head}data: {orjson.dumps(example).decode()}\n\n"
    return text
