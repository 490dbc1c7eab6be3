"""What does a document say, in a few sentences? The key sentence of each of its sections, in the document's order.

A key sentence lies near the middle of what its section says and of what the document says. What a document says of
itself is left out: its cover, who wrote it, its contents and what it refers to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Context, Passage, Query, Retrieved
from refdesk.ask.answer_type import read
from refdesk.document_names import match_names
from refdesk.library import LibraryReader
from refdesk.terms import terms
from refdesk.text import rough_tokens
from refdesk.types import Chunk, Document, Hit, Scope

MOST_SENTENCES = 6
FEW_SECTIONS = 3  # of so many or fewer, each may give two sentences
SHORTEST, LONGEST = 5, 45  # words of a sentence that says something, and that is read at once
DOCUMENT = 0.5  # what nearness to the whole document counts beside nearness to the section
EARLY = 0.05  # for the first sentences of a section: they say what it is about
NAMED = 0.5  # share of the words of a question, its frame aside, that the document's name and title hold
LIKE = 0.85  # cosine of two sentences of which one is enough
REFERRING = 0.5  # share of a passage's sentences that name years, pages and initials: a list of references
PROSE = ("text", "list", "glossary")

_REFERENCE = re.compile(r"\((?:19|20)\d\d[a-z]?\)|\bet al\.|\bpp?\. ?\d|\bpages \d|\bvol\.|\bdoi\b|https?://|\^ ")
_ADDRESS = re.compile(r"\S+@\S+|https?://|www\.")


def named_document(query: Query, retrieved: Retrieved, library: LibraryReader, scope: Scope) -> Document | None:
    """The document that is to be summed up: the only one in scope, or one that the question names."""
    documents = library.documents(scope)
    if len(documents) == 1:
        return documents[0]
    found = match_names(query.fullest, documents, long=1)
    likeliest = [one for one in documents if one.id in found and found[one.id] >= max(found.values())]
    subject = {term for term in query.terms if term in _label_terms(documents)}
    hits: dict[str, float] = {}
    for hit in retrieved.hits:
        hits[hit.document.id] = hits.get(hit.document.id, 0.0) + hit.score
    shares = {
        one.id: len(subject & _label(one)) / max(1, len(_subject(query))) for one in documents if one.id in hits
    }
    best = max(shares, key=lambda one: (shares[one], hits[one]), default="")
    if likeliest and (not best or shares[best] < 1.0):
        return max(likeliest, key=lambda one: (hits.get(one.id, 0.0), one.date))
    return next((one for one in documents if one.id == best and shares[best] >= NAMED), None)


def _subject(query: Query) -> frozenset[str]:
    """The terms of a question that the search counts, without those that ask for a summary."""
    return frozenset(query.terms) - _FRAME


_FRAME = frozenset(terms("summary summarise summarize overview outline gist recap about give main key points say"))


def _label_terms(documents: Sequence[Document]) -> frozenset[str]:
    return frozenset().union(*(_label(one) for one in documents))


def _label(document: Document) -> frozenset[str]:
    """Stems of its name and its title."""
    return frozenset(terms(re.sub(r"[\W_]+", " ", f"{document.name} {document.title}")))


# --- its key sentences -----------------------------------------------------------------------------------------------


def summed_up(query: Query, document: Document, retrieved: Retrieved, library: LibraryReader) -> tuple[Retrieved, Context]:
    """What was retrieved, with the document's key sentences, and the passages that these stand in."""
    chunks = [chunk for chunk in library.document_chunks(document.id) if chunk.kind in PROSE]
    vectors = library.sentence_vectors([chunk.id for chunk in chunks])
    keys = key_sentences(chunks, vectors)
    by_id = {chunk.id: chunk for chunk in chunks}
    used = list(dict.fromkeys(chunk_id for chunk_id, _ in keys))
    scores = {hit.chunk.id: hit for hit in (*retrieved.hits, *retrieved.considered)}
    hits = [scores.get(chunk_id) or Hit(by_id[chunk_id], document, 0.0, 0.0, 0.0) for chunk_id in used]
    passages = tuple(Passage(number, hit, (hit.chunk,), hit.chunk.text) for number, hit in enumerate(hits, 1))
    text = "\n\n".join(passage.text for passage in passages)
    known = {**retrieved.sentence_vectors, **vectors}
    return (
        replace(retrieved, sentence_vectors=known, key_sentences=tuple(keys)),
        Context(passages, text, rough_tokens(text)),
    )


def key_sentences(chunks: Sequence[Chunk], vectors: Mapping[int, NDArray[np.int8]]) -> list[tuple[int, int]]:
    """(chunk id, sentence) of each, in the document's order."""
    sections = _sections([chunk for chunk in chunks if not _refers(chunk)])
    usable = [[(c, s) for c in own for s in range(len(c.sentences)) if _says_something(c, s)] for own in sections]
    usable = [own for own in usable if own]
    if not usable:
        return []
    matrices = [np.stack([_unit(vectors, chunk, place) for chunk, place in own]) for own in usable]
    middle = _mean(np.stack([_mean(matrix) for matrix in matrices]))
    ranked: list[list[tuple[float, Chunk, int, NDArray[Any]]]] = []
    for own, matrix in zip(usable, matrices, strict=True):
        worth = matrix @ _mean(matrix) + DOCUMENT * (matrix @ middle)
        worth = worth + EARLY * (np.arange(len(own)) < 2)
        order = np.argsort(-worth)
        ranked.append([(float(worth[at]), *own[at], matrix[at]) for at in order.tolist()])
    chosen = _chosen(ranked, middle)
    return [(chunk.id, place) for chunk, place, _ in sorted(chosen, key=lambda one: (one[0].sequence, one[1]))]


def _chosen(
    ranked: Sequence[Sequence[tuple[float, Chunk, int, NDArray[Any]]]], middle: NDArray[Any]
) -> list[tuple[Chunk, int, NDArray[Any]]]:
    """The best of the sections that say most of what the document says, the first one always; none says it twice."""
    first, *others = range(len(ranked))
    others.sort(key=lambda at: -float(ranked[at][0][3] @ middle))
    chosen: list[tuple[Chunk, int, NDArray[Any]]] = []
    for turn in range(2 if len(ranked) <= FEW_SECTIONS else 1):
        for at in (first, *others):
            for _, chunk, place, vector in ranked[at][turn:]:
                if len(chosen) < MOST_SENTENCES and all(float(vector @ other) < LIKE for *_, other in chosen):
                    chosen.append((chunk, place, vector))
                    break
    return chosen


def _sections(chunks: Sequence[Chunk]) -> list[list[Chunk]]:
    """Chunks by the headings that divide the document: those below what all of them stand under."""
    paths = [chunk.heading_path for chunk in chunks]
    depth = 0
    while paths and all(len(path) > depth and path[depth] == paths[0][depth] for path in paths if path):
        depth += 1
        if all(len(path) <= depth for path in paths):
            break
    found: dict[Any, list[Chunk]] = {}
    for chunk in chunks:
        found.setdefault(chunk.heading_path[: depth + 1] or chunk.sequence, []).append(chunk)
    return list(found.values())


def _refers(chunk: Chunk) -> bool:
    """Is it a list of what the document refers to?"""
    texts = [chunk.text[start:end] for start, end, *_ in chunk.sentences]
    return sum(_REFERENCE.search(text) is not None for text in texts) > REFERRING * len(texts)


def _says_something(chunk: Chunk, place: int) -> bool:
    """A whole sentence that can be understood alone: no heading, author, address, question or lead-in."""
    start, end = chunk.sentences[place][:2]
    text = " ".join(chunk.text[start:end].split())
    is_whole = text[-1:] in ".!。！" and SHORTEST <= len(text.split()) <= LONGEST and text[:1].isupper()
    return is_whole and not _ADDRESS.search(text) and not read(text).begins_with_pronoun


def _unit(vectors: Mapping[int, NDArray[np.int8]], chunk: Chunk, place: int) -> NDArray[Any]:
    rows = vectors.get(chunk.id)
    if rows is None or place >= len(rows):
        return np.zeros(1 if not vectors else len(next(iter(vectors.values()))[0]), dtype=np.float32)
    found = rows[place].astype(np.float32)
    return found / max(float(np.linalg.norm(found)), 1e-6)


def _mean(matrix: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = matrix.mean(axis=0)
    return found / max(float(np.linalg.norm(found)), 1e-6)
