"""Chunks, and what a model writes of them for the graph."""

from __future__ import annotations

from typing import Any

from refdesk.text import sentences
from refdesk.types import Chunk, Sentence


def chunk(*parts: str, sequence: int = 1, **more: Any) -> Chunk:
    text = " ".join(parts)
    spans = [Sentence(start, end, 1) for start, end in sentences(text)]
    assert len(spans) == len(parts)
    return Chunk("d", sequence, "text", text, (), (1,), (), tuple(spans), 100, **more)


def entity(name: str, *aliases: str, kind: str = "organisation") -> dict[str, Any]:
    return {"name": name, "kind": kind, "aliases": list(aliases)}


def said(*entities: dict[str, Any], relations: Any = ()) -> dict[str, Any]:
    rows = [dict(zip(("subject", "predicate", "object"), relation, strict=True)) for relation in relations]
    return {"entities": list(entities), "relations": rows}
