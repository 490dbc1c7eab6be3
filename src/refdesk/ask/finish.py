"""What goes into the answer beside its text: sources, related documents, questions to go on with. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from refdesk.answer import Citation, Context, Passage, Retrieved, Source
from refdesk.types import Document, Hit

RELATED = 5  # documents that were found and not cited
QUOTE = 200  # characters of a passage shown before the answer is written


def previews(context: Context) -> tuple[Citation, ...]:
    """What the answer will be written from, before any sentence of it is chosen."""
    return tuple(_preview(passage) for passage in context.passages)


def _preview(passage: Passage) -> Citation:
    hit = passage.hit
    return Citation(
        marker=passage.number,
        document_id=hit.document.id,
        document_name=hit.document.name,
        chunk_id=hit.chunk.id,
        chunk_sequence=hit.chunk.sequence,
        heading_path=hit.chunk.heading_path,
        page=hit.page,
        boxes=hit.boxes,
        located=bool(hit.boxes),
        quote=hit.chunk.text[:QUOTE],
        relevance_score=hit.score,
        similarity_score=hit.cosine,
        origin=(hit.chunk.spans[0].origin, hit.chunk.spans[0].origin + len(hit.chunk.text))
        if hit.chunk.spans
        else (0, 0),
    )


def sources(citations: Sequence[Citation], documents: dict[str, Document]) -> tuple[Source, ...]:
    """The cited documents once each, in the order they are first cited; `documents` by their ids."""
    found: dict[str, list[Citation]] = {}
    for citation in citations:
        found.setdefault(citation.document_id, []).append(citation)
    return tuple(
        Source(
            document_id,
            own[0].document_name,
            documents[document_id].title,
            tuple(sorted({box.page for one in own for box in one.boxes} | {one.page for one in own})),
            tuple(dict.fromkeys(one.marker for one in own)),
            documents[document_id].collection,
        )
        for document_id, own in found.items()
    )


def related(retrieved: Retrieved, citations: Sequence[Citation]) -> tuple[Source, ...]:
    """Documents that were found and not cited, best first."""
    cited = {one.document_id for one in citations}
    found: dict[str, list[Hit]] = {}
    for hit in (*retrieved.hits, *retrieved.considered):
        if hit.document.id not in cited:
            found.setdefault(hit.document.id, []).append(hit)
    return tuple(
        Source(one.id, one.name, one.title, tuple(sorted({hit.page for hit in own})), collection=one.collection)
        for own in list(found.values())[:RELATED]
        for one in (own[0].document,)
    )
