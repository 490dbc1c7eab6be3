"""The shape of JSON as the providers want it described: every object closed, every property required."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

# What Anthropic's structured outputs refuse; the caller checks values anyway.
LIMITS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}) | frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "uniqueItems"}
)
INSTRUCTION = "Answer with one JSON object of this JSON schema and with nothing else:"


def closed(schema: Mapping[str, Any], without: Collection[str] = ()) -> dict[str, Any]:
    """The schema with `additionalProperties: false` and all properties required in each object, as strict modes demand.

    {"type": "object", "properties": {"a": {"type": "string"}}}
    -> {"type": "object", "properties": {…}, "required": ["a"], "additionalProperties": False}
    """
    new: dict[str, Any] = {}
    for name, value in schema.items():
        if name in without:
            continue
        if name in ("properties", "$defs", "definitions"):
            new[name] = {own: closed(one, without) for own, one in value.items()}
        elif isinstance(value, Mapping):
            new[name] = closed(value, without)
        elif isinstance(value, list | tuple):
            new[name] = [closed(one, without) if isinstance(one, Mapping) else one for one in value]
        else:
            new[name] = value
    if "properties" in new:
        new |= {"required": list(new["properties"]), "additionalProperties": False}
    return new
