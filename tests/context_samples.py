"""Small contexts for the tests of answers: passages made of literal chunks, boxes and vectors where asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Context, Passage, Query
from refdesk.text import rows, sentences
from refdesk.types import Box, Chunk, Document, Hit, Kind, Sentence, Span


def chunk(
    text: str,
    *,
    id: int = 1,
    sequence: int = 1,
    document_id: str = "d1",
    heading_path: tuple[str, ...] = (),
    kind: Kind = "text",
    paged: bool = True,
    origin: int = 0,
) -> Chunk:
    """One line per sentence on page 1, when the format has pages."""
    ranges = rows(text) if kind in ("table", "code") else sentences(text)
    found = []
    for place, (start, end) in enumerate(ranges):
        boxes = (Box(1, 10.0, 10.0 + 4 * place, 80.0, 3.0),) if paged else ()
        found.append(Sentence(start, end, 1, boxes))
    spans = [Span(0, len(text), origin, 1, Box(1, 10.0, 10.0, 80.0, 20.0) if paged else None)]
    return Chunk(document_id, sequence, kind, text, heading_path, (1,), spans, found, len(text) // 4, id=id)


def passage(number: int, *chunks: Chunk, name: str = "", title: str = "") -> Passage:
    document_id = chunks[0].document_id
    document = Document(document_id, name or f"{document_id}.pdf", "", "hash", "ready", title=title)
    hit = Hit(chunks[0], document, 1.0, 0.5, 0.5)
    return Passage(number, hit, chunks, "\n\n".join(one.text for one in chunks))


def context(*passages: Passage) -> Context:
    text = "\n\n".join(f"[{one.number}] {one.text}" for one in passages)
    return Context(passages, text, len(text) // 4)


def texts(*found: str, paged: bool = True) -> Context:
    """Each text a passage of a document of its own: d1, d2, …"""
    return context(
        *(
            passage(n, chunk(text, id=n, document_id=f"d{n}", paged=paged), name=f"d{n}.pdf")
            for n, text in enumerate(found, 1)
        )
    )


def query(text: str = "What is it?") -> Query:
    return Query(text, text, np.zeros(384, np.float32), ())


def vectors_of(context: Context, embed: Callable[[str], NDArray[np.float32]]) -> dict[int, NDArray[np.int8]]:
    """Sentence vectors as a library keeps them, each sentence embedded alone."""
    return {
        one.id: np.array([np.rint(embed(one.text[s.start : s.end]) * 127) for s in one.sentences], np.int8)
        for held in context.passages
        for one in held.chunks
    }


def stream(parts: Sequence[str], feed: Callable[[str], str], finish: Callable[[], str]) -> str:
    return "".join([*(feed(part) for part in parts), finish()])
