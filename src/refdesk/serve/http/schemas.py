"""What is an answer made of, as OpenAPI says it? Read off the values themselves, with the keys of seeds.py beside."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from refdesk.answer import Answer

PLACE = "#/components/schemas/{model}"
TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
WHOLE: dict[str, Any] = {"type": "integer"}
PERHAPS_TEXT: dict[str, Any] = {"type": ["string", "null"]}
PARTS = ("x", "y", "width", "height")

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
        **dict.fromkeys(("doc_id", "doc_name", "heading_path", "snippet", "url"), TEXT),
        **dict.fromkeys(("chunk_id", "chunk_sequence", "page_number"), WHOLE),
        **dict.fromkeys(("relevance_score", "similarity_score"), NUMBER),
        "chunks": {"type": "array", "items": {"type": "object"}},
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
                "tokens_used": {"type": "object"},
                "model": TEXT,
            },
        },
    },
}


def answer_schemas() -> dict[str, Any]:
    """The components `Answer`, `Citation`, `Claim` … by their names."""
    answer = _plain(TypeAdapter(Answer).json_schema(mode="serialization", ref_template=PLACE))
    made: dict[str, Any] = answer.pop("$defs") | {"Answer": answer}
    made["Box"] = {
        "type": "object",
        "description": "In per cent of the page as displayed, from its top left.",
        "properties": {"page": WHOLE} | dict.fromkeys(PARTS, NUMBER),
        "required": ["page", *PARTS],
    }
    for name, more in BESIDE.items():
        made[name]["properties"] |= more
    return made


def _plain(schema: Any) -> Any:
    """Without the titles that repeat each name."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: _plain(value) for name, value in schema.items() if not (name == "title" and isinstance(value, str))}
