"""What do neighbouring chunks say together? Their texts in a row, a sentence that both repeat said once. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from refdesk.types import Chunk

_ALONE = frozenset({"table", "figure", "code"})


def stands_alone(chunk: Chunk) -> bool:
    return chunk.kind in _ALONE


def may_join(one: Chunk, other: Chunk) -> bool:
    """Do these follow one another under one heading, as prose? Tables, figures and code stand alone."""
    return (
        one.document_id == other.document_id
        and abs(one.sequence - other.sequence) == 1
        and one.heading_path == other.heading_path
        and not stands_alone(one)
        and not stands_alone(other)
    )


def joined(chunks: Sequence[Chunk]) -> list[tuple[Chunk, str]]:
    """Each chunk with what it adds to the one before: the overlap at its beginning is left out.

    >>> [text for _, text in joined((first, second))]
    ['The pump runs. It is old.', 'It will be replaced.']
    """
    found: list[tuple[Chunk, str]] = []
    reached = -1  # in the document's text
    for chunk in chunks:
        found.append((chunk, chunk.text[_new_from(chunk, reached) :].lstrip()))
        reached = max([reached, *(span.origin + span.end - span.start for span in chunk.spans)])
    return found


def _new_from(chunk: Chunk, reached: int) -> int:
    """Where the chunk's text goes beyond a position of the document's text; its end when nothing does."""
    if reached < 0 or not chunk.spans:
        return 0
    for span in chunk.spans:
        if span.origin >= reached:
            return span.start
        if span.origin + span.end - span.start > reached:
            return span.start + reached - span.origin
    return len(chunk.text)


def joined_text(chunks: Sequence[Chunk]) -> str:
    return "\n".join(text for _, text in joined(chunks) if text)
