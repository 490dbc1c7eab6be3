"""Summarises a document or section in a few sentences: the key sentence of each part, in order. Pure.

One that lies near the middle of what its section says and of what the document says. What a document says of itself is
left out: its cover, who wrote it, its contents and what it refers to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.types import Chunk, Document

MOST_SENTENCES = 6
FEW_SECTIONS = 3  # of so many or fewer, each may give two sentences
SHORTEST, LONGEST = 5, 45  # words of a sentence that says something, and that is read at once
DOCUMENT = 0.5  # what nearness to the whole document counts beside nearness to the section
EARLY = (0.4, 0.3, 0.2, 0.1)  # for the first sentences of a section: they say what it is about
MOST_NAMES = 0.5  # share of the words of a sentence that are names or numbers
LONG = 20  # pages of a document whose first page is a cover
LIKE = 0.85  # cosine of two sentences of which one is enough
REFERRING = 0.5  # share of a passage's sentences that name years, pages and initials: a list of references
LEAST_HALVED = 8  # sentences of a part that is long enough to be two
ENDS = frozenset(".!?…:;\"'”’»)]。！？」』")  # what a sentence ends with; a heading ends with none
PROSE = ("text", "list", "glossary")

Placed = tuple[Chunk, int]  # a chunk and a place among its sentences

_REFERENCE = re.compile(r"\((?:19|20)\d\d[a-z]?\)|\bet al\.|\bpp?\. ?\d|\bpages \d|\bvol\.|\bdoi\b|https?://|\^ ")
_ADDRESS = re.compile(r"\S@\S|https?://|www\.")
# A sentence that begins so can only be understood with the one before.
PRONOUN = re.compile(
    r"(?:It|They|He|She|This|These|That|Those|Its|Their|His|Her|Such|Both|The (?:former|latter|two|three|same))\b"
)


def telling_chunks(document: Document, chunks: Sequence[Chunk]) -> list[Chunk]:
    """Those that say something in sentences; not the cover of a long document."""
    has_cover = document.page_count > LONG
    return [chunk for chunk in chunks if chunk.kind in PROSE and not (has_cover and chunk.page == 1)]


def key_sentences(chunks: Sequence[Chunk], vectors: Mapping[int, NDArray[np.int8]]) -> list[tuple[int, int]]:
    """(chunk id, sentence) of each, in the document's order."""
    sections = [section for section in _sections(chunks) if not _refers(section)]
    usable = [[place for place in section if says_something(*place)] for section in sections]
    usable = [section for section in usable if section]
    if not usable:
        return []
    matrices = [np.stack([_unit(vectors, chunk, place) for chunk, place in section]) for section in usable]
    middle = _mean(np.stack([_mean(matrix) for matrix in matrices]))
    ranked: list[list[tuple[float, Chunk, int, NDArray[Any]]]] = []
    for section, matrix in zip(usable, matrices, strict=True):
        worth = matrix @ _mean(matrix) + DOCUMENT * (matrix @ middle)
        worth[: len(EARLY)] += EARLY[: len(worth)]
        order = np.argsort(-worth)
        ranked.append([(float(worth[at]), *section[at], matrix[at]) for at in order.tolist()])
    chosen = _chosen(ranked)
    return [(chunk.id, place) for chunk, place in sorted(chosen, key=lambda placed: (placed[0].sequence, placed[1]))]


def _chosen(ranked: Sequence[Sequence[tuple[float, Chunk, int, NDArray[Any]]]]) -> list[Placed]:
    """The best of the longest sections; none says again what another one says.

    By nearness to the middle of the document instead of length, annual reports were told by what their auditors say.
    """
    order = sorted(range(len(ranked)), key=lambda at: -len(ranked[at]))
    chosen: dict[str, tuple[Chunk, int, NDArray[Any]]] = {}  # by text: a reply quotes the mail before it
    for turn in range(2 if len(ranked) <= FEW_SECTIONS else 1):
        for at in order:
            for _, chunk, place, vector in ranked[at][turn:]:
                text = " ".join(chunk.text[slice(*chunk.sentences[place][:2])].split())
                is_new = text not in chosen and all(float(vector @ other) < LIKE for *_, other in chosen.values())
                if is_new and len(chosen) < MOST_SENTENCES:
                    chosen[text] = (chunk, place, vector)
                    break
    return [(chunk, place) for chunk, place, _ in chosen.values()]


def _sections(chunks: Sequence[Chunk]) -> list[list[Placed]]:
    """The sentences by the headings that divide the document, in as many parts as are wanted, if it can be."""
    deepest = max((len(chunk.heading_path) for chunk in chunks), default=0)
    found: list[list[Placed]] = []
    for depth in range(deepest + 1):
        by_path: dict[tuple[str, ...], list[Placed]] = {}
        for chunk in chunks:
            by_path.setdefault(chunk.heading_path[:depth], []).extend((chunk, s) for s in range(len(chunk.sentences)))
        found = list(by_path.values())
        if len(found) >= MOST_SENTENCES:
            return found
    found = [part for section in found for part in _under_headings(section)]  # small sections stand in one chunk
    while len(found) < MOST_SENTENCES and max(map(len, found), default=0) >= LEAST_HALVED:  # few headings
        longest = max(range(len(found)), key=lambda at: len(found[at]))
        section = found[longest]
        found[longest : longest + 1] = [section[: len(section) // 2], section[len(section) // 2 :]]
    return found


def _under_headings(section: Sequence[Placed]) -> list[list[Placed]]:
    """Cut where a block begins that nothing ends: a heading."""
    found: list[list[Placed]] = [[]]
    for chunk, place in section:
        start, end = chunk.sentences[place][:2]
        begins = place == 0 or "\n\n" in chunk.text[chunk.sentences[place - 1].end : start]
        if begins and chunk.text[start:end].rstrip()[-1:] not in ENDS:
            found.append([])
        found[-1].append((chunk, place))
    return [part for part in found if part]


def _refers(section: Sequence[Placed]) -> bool:
    """Is it a list of what the document refers to?"""
    texts = [chunk.text[slice(*chunk.sentences[place][:2])] for chunk, place in section]
    refer = [_REFERENCE.search(text) is not None or _is_mostly_names(text.split()) for text in texts]
    return sum(refer) > REFERRING * len(texts)


def tells_something(chunks: Sequence[Chunk]) -> bool:
    """Whether a section says anything itself: no list of references, no cover, no addresses."""
    placed = [(chunk, place) for chunk in chunks if chunk.kind in PROSE for place in range(len(chunk.sentences))]
    return not placed or (not _refers(placed) and any(says_something(*place) for place in placed))


def _is_mostly_names(words: Sequence[str]) -> bool:
    """`Skerry Technical Report SI-TR-017, 2021.`"""
    return sum(not word[:1].islower() for word in words) >= MOST_NAMES * len(words)


def says_something(chunk: Chunk, place: int) -> bool:
    """A whole sentence that can be understood alone: no heading, author, address, question or lead-in."""
    start, end = chunk.sentences[place][:2]
    text = " ".join(chunk.text[start:end].split())
    words = text.split()
    is_whole = text[-1:] in ".!。！" and SHORTEST <= len(words) <= LONGEST and text[:1].isupper()
    return is_whole and not _is_mostly_names(words) and not _ADDRESS.search(text) and not PRONOUN.match(text)


def _unit(vectors: Mapping[int, NDArray[np.int8]], chunk: Chunk, place: int) -> NDArray[Any]:
    rows = vectors.get(chunk.id)
    if rows is None or place >= len(rows):
        return np.zeros(1 if not vectors else len(next(iter(vectors.values()))[0]), dtype=np.float32)
    found: NDArray[Any] = rows[place].astype(np.float32)
    return found / max(float(np.linalg.norm(found)), 1e-6)


def _mean(matrix: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = matrix.mean(axis=0)
    return found / max(float(np.linalg.norm(found)), 1e-6)
