"""Who wrote a document, where its list of properties does not say it: the lines below the title name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from refdesk.answer import Query
from refdesk.ask.catalogue import documents_meant
from refdesk.library import LibraryReader
from refdesk.ports import Reader
from refdesk.settings import Settings
from refdesk.text import query_terms
from refdesk.types import Chunk, Hit, Reading, Scope

AUTHOR = "author"  # what is asked of the list of documents (document_names.py)
OPENING = 2  # chunks from the title on
# `answered` and the likeliest span from which on the opening of a document names who wrote it. Of four papers at hand
# they are at least .9 and 6.7; of the 24 other chunks that were looked at no text has both.
NAMED, NAME = 0.5, 6.5
WHO = "Who are the authors of {title}?"


def with_authors(
    query: Query,
    hits: list[Hit],
    readings: dict[int, Reading],
    scope: Scope,
    library: LibraryReader,
    reader: Reader,
    settings: Settings,
) -> list[Hit]:
    """Before the hits the passage that names who wrote the document that is meant; what was
    read of it joins the readings.

    It shares no word with the question, and a line set apart is taken for a heading: it is read for the title.
    """
    if not hits:
        return hits
    for chunk in _opening(query, hits, scope, library):
        chunk = replace(chunk, heading_path=chunk.heading_path[:1], context="".join(chunk.heading_path[:1]))
        reading = reader.read(WHO.format(title=chunk.context), chunk) if chunk.context else None
        name = max((span.score for span in reading.spans if span), default=0.0) if reading is not None else 0.0
        placed = library.scored([chunk.id], query.standalone, query.vector, settings)
        if placed and reading is not None and reading.answered >= NAMED and name >= NAME:
            readings[chunk.id] = reading
            first = replace(placed[0], chunk=chunk, score=hits[0].score)
            return [first, *(hit for hit in hits if hit.chunk.id != chunk.id)]
    return hits


def _opening(query: Query, hits: Sequence[Hit], scope: Scope, library: LibraryReader) -> list[Chunk]:
    """The first chunks, from the title on, of the document whose author is asked for; none where that is not clear.

    A line above the title may be of the series that it appeared in.
    """
    documents = library.documents(scope)
    named, topics = documents_meant(AUTHOR, query.fullest, documents)
    among = {document.id for document in named or documents}
    meant = next((hit.document.id for hit in hits if hit.document.id in among), next(iter(among)))
    chunks = library.document_chunks(meant)
    first = next((place for place, chunk in enumerate(chunks) if chunk.heading_path), 0)
    opening = [chunk for chunk in chunks[first : first + OPENING] if chunk.kind == "text"]
    topic_terms = frozenset(query_terms(" ".join(topics)))
    opening_terms = frozenset(query_terms(" ".join(chunk.text for chunk in opening)))
    is_clear = bool(named) or len(documents) == 1 or (bool(topic_terms) and topic_terms <= opening_terms)
    return opening if is_clear else []
