"""A real small library, and questions asked of it by hand, for the tests of evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from refdesk import Refdesk
from refdesk.answer import Context, Passage, Query, Retrieved
from refdesk.text import idf, query_terms
from refdesk.types import Chunk, Scope, Sentence

TEXTS = {
    "anchor": (
        "Mooring of the buoy",
        "The standard mooring was drawn in Brannoch in 2019. The anchor is a cast iron sinker of 350 kg. It is lowered"
        " by the crane of the vessel. Two divers check the shackles every spring.",
    ),
    "chain": (
        "Mooring of the buoy",
        "The chain of the mooring is 45 metres long. Its links are made of galvanised steel. Ines Carrow orders new"
        " chain from a yard in Cuxhaven.",
    ),
    "canteen": (
        "Canteen",
        "The canteen opens at noon. Lunch costs 6 euros because the company pays half. On Fridays there is fish.",
    ),
    "glider": (
        "Gliders",
        "A glider sinks and rises by changing its volume. The battery lasts for 30 days. Gliders were first tried in"
        " 1999.",
    ),
    "archive": (
        "Archive",
        "Paper files older than ten years are kept in the archive. The archive is in the cellar of building B.",
    ),
    "parking": ("Parking", "Visitors park behind building C. The gate closes at 20:00."),
}


def add(desk: Refdesk) -> None:
    desk.add_texts({"name": name, "title": title, "text": text} for name, (title, text) in TEXTS.items())


def ask(desk: Refdesk, text: str, **understood: Any) -> Query:
    wanted = tuple(query_terms(text, desk.parts.reader.languages))
    return replace(Query(text, text, desk.parts.embedder.embed_query(text), wanted), **understood)


def find(desk: Refdesk, query: Query, k: int = 8) -> Retrieved:
    hits = tuple(desk.parts.reader.search(query.standalone, query.vector, k, "hybrid", Scope(), desk.settings))
    vectors = desk.parts.reader.sentence_vectors([hit.chunk.id for hit in hits])
    weights = idf(desk.parts.reader.frequencies(query.terms), desk.parts.reader.chunk_count)
    return Retrieved(hits, hits, vectors, weights)


def context(retrieved: Retrieved) -> Context:
    passages = (Passage(i, hit, (hit.chunk,), hit.chunk.text) for i, hit in enumerate(retrieved.hits, 1))
    return Context(tuple(passages), "", 0)


def chunk(lines: list[str], kind: Any = "text", **fields: Any) -> Chunk:
    """A chunk whose sentences are these lines."""
    sentences, at = [], 0
    for line in lines:
        sentences.append(Sentence(at, at + len(line), 1))
        at += len(line) + 1
    chunk = Chunk("d1", 1, kind, "\n".join(lines), (), (1,), (), tuple(sentences), 50, id=1)
    return replace(chunk, **fields)
