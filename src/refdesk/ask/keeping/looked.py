"""What was looked at for an answer, and what became of it? For its trace. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refdesk.answer import Citation, Context, Retrieved
from refdesk.types import Hit


def looked_at(
    retrieved: Retrieved, context: Context | None = None, citations: Sequence[Citation] = ()
) -> list[dict[str, Any]]:
    """Every chunk that a search gave, the best first, with its scores and its `use`.

    `cited`: the answer points at it. `read`: it stood before whoever wrote the answer. `kept`: it was good enough, but
    nothing was written, or there was no room. `dropped`: too far off, or said by another one.
    """
    kept = {hit.chunk.id: hit for hit in retrieved.hits}
    found = {hit.chunk.id: hit for hit in retrieved.considered} | kept
    cited = {citation.chunk_id for citation in citations}
    uses = dict.fromkeys(kept, "kept")
    for passage in context.passages if context is not None else ():
        ids = {chunk.id for chunk in passage.chunks}
        uses |= dict.fromkeys(ids, "cited" if ids & cited else "read")
    return [_shown(hit, uses.get(chunk_id, "dropped")) for chunk_id, hit in found.items()]


def _shown(hit: Hit, use: str) -> dict[str, Any]:
    return {
        "chunk_id": hit.chunk.id,
        "document_id": hit.document.id,
        "document_name": hit.document.name,
        "page": hit.page,
        "heading_path": list(hit.heading_path),
        "lexical_score": round(hit.lexical_score, 4),
        "cosine": round(hit.cosine, 4),
        "score": round(hit.score, 4),
        "use": use,
    }
