"""What do OpenAPI's components say of what comes back? Read off the types of response_shapes and answer_shapes."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from refdesk.serve.http import answer_shapes, response_shapes

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
