"""Which of the hits are worth reading, and in which order? Penalties, relevance, repeats, diversity, sides. Pure.

Every function takes hits best first and gives hits best first; none looks anything up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Query
from refdesk.ask.sentences import COSINE, COVERAGE, tabulate
from refdesk.settings import Settings
from refdesk.types import Hit

Rows = Mapping[int, NDArray[np.int8]]  # sentence vectors by chunk id, scaled by 127

BM25_CEILING = 2.2  # k1 + 1: what a term adds at most for each unit of its idf
# Share of the question's weight in words, above which a chunk bears on it. With it and a threshold of .35, of the right
# chunks .08 % are dropped on squad_dev11, 0 on hotpot500, .15 on mtrag_govt, .16 on cranfield; of the others up to 5 %.
SHARED_WORDS = 0.1
STRONG_SENTENCE = 0.1  # cosine above the threshold that one sentence alone needs

_FACT = re.compile(r"(?<![^\W_])[^\W_]*(?:\d|[^\W\d_a-z])[\w.,]*\w|\d|[A-Z]")  # words with a digit or a capital letter


def penalise(hits: Sequence[Hit], settings: Settings) -> list[Hit]:
    """Glossaries, credits and tables of contents name much and answer little; seed 001 step 7."""
    taken = {
        "glossary": settings.glossary_penalty,
        "credits": settings.credits_penalty,
        "toc": settings.toc_penalty,
    }
    lowered = [
        replace(hit, score=hit.score * (1.0 - taken[hit.chunk.kind])) if hit.chunk.kind in taken else hit
        for hit in hits
    ]
    return best_first(lowered)


def raise_preferred(hits: Sequence[Hit], strengths: Mapping[str, float], bonus: float) -> list[Hit]:
    """Hits of documents that the question names move up by at most `bonus`; the others can still win.

    All are divided by the most that can be reached, so that a score still ends at 1.
    """
    if not strengths:
        return best_first(hits)
    most = 1.0 + bonus
    raised = (hit.score + bonus * strengths.get(hit.document.id, 0.0) for hit in hits)
    return best_first(replace(hit, score=score / most) for hit, score in zip(hits, raised, strict=True))


def best_first(hits: Iterable[Hit]) -> list[Hit]:
    """Sorted by score; equal scores keep the order of the library, so that the same question gives the same hits."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))


# --- relevance -------------------------------------------------------------------------------------------------------


def relevant(
    hits: Sequence[Hit], query: Query, rows: Rows, weights: Mapping[str, float], threshold: float
) -> list[Hit]:
    """The hits that bear on the question: near in meaning, or sharing telling words, or holding one near sentence.

    The best hit of all always stays: whether it answers is judged later, on all the evidence.
    """
    ceiling = BM25_CEILING * sum(weights.get(term, 0.0) for term in query.terms) or 1.0
    return [
        hit
        for place, hit in enumerate(hits)
        if place == 0
        or hit.cosine >= threshold
        or hit.lexical_score >= SHARED_WORDS * ceiling
        or best_sentence(query.vector, rows.get(hit.chunk.id))[0] >= threshold + STRONG_SENTENCE
    ]


def best_sentence(vector: NDArray[np.float32], rows: NDArray[np.int8] | None) -> tuple[float, int]:
    """(cosine, place) of the sentence nearest to a vector; (-1, -1) without sentences."""
    if rows is None or not len(rows):
        return -1.0, -1
    cosines = np.vecdot(rows.astype(np.float32), vector) / 127.0  # `@` would wake a second thread of BLAS
    place = int(cosines.argmax())
    return float(cosines[place]), place


# --- repeats and diversity -------------------------------------------------------------------------------------------


def chunk_vectors(hits: Sequence[Hit], rows: Rows) -> NDArray[np.float32]:
    """One unit vector per hit: the mean of its sentences; zeros where the library holds none."""
    known = [place for place, hit in enumerate(hits) if len(rows.get(hit.chunk.id, ()))]
    own = [rows[hits[place].chunk.id] for place in known]
    found = np.zeros((len(hits), own[0].shape[1] if own else 1), dtype=np.float32)
    if own:
        starts = np.cumsum([0, *(len(one) for one in own[:-1])])
        sums = np.add.reduceat(np.concatenate(own), starts, axis=0, dtype=np.float32)
        found[known] = sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
    return found


def without_repeats(hits: Sequence[Hit], rows: Rows, threshold: float) -> list[Hit]:
    """Hits that say again what a better one said are left out.

    Nearness alone is not enough: the same table of another year is as near as a copy. What is dropped must hold no
    number and no name that the better hit does not hold.
    """
    if len(hits) < 2:
        return list(hits)
    vectors = chunk_vectors(hits, rows)
    likeness = np.vecdot(vectors[:, None], vectors[None])
    kept: list[int] = []
    for place, hit in enumerate(hits):
        near = [
            other for other in kept if likeness[place, other] > threshold or hit.chunk.text == hits[other].chunk.text
        ]
        if not any(facts(hit.chunk.text) <= facts(hits[other].chunk.text) for other in near):
            kept.append(place)
    return [hits[place] for place in kept]


def facts(text: str) -> frozenset[str]:
    """The numbers, codes and names of a text: every word with a digit or a capital letter.

    >>> facts("Buoy W-7 cost $3,500.")
    frozenset({'Buoy', 'W', '7', '3,500'})
    """
    return frozenset(_FACT.findall(text))


def diverse(hits: Sequence[Hit], rows: Rows, share: float, k: int) -> list[Hit]:
    """Maximal marginal relevance: each next hit is relevant and unlike those before it; the best hit stays first.

    Scores are spread over 0 … 1 first, so that `share` (lambda) weighs relevance against likeness on one scale.
    """
    if len(hits) <= 2:
        return list(hits[:k])
    scores = np.array([hit.score for hit in hits], dtype=np.float32)
    scores = (scores - scores.min()) / (float(np.ptp(scores)) or 1.0)
    vectors = chunk_vectors(hits, rows)
    chosen = [0]
    nearest = np.vecdot(vectors, vectors[0])
    while len(chosen) < min(k, len(hits)):
        worth = share * scores - (1.0 - share) * nearest
        worth[chosen] = -np.inf
        chosen.append(int(worth.argmax()))
        nearest = np.maximum(nearest, np.vecdot(vectors, vectors[chosen[-1]]))
    return [hits[place] for place in chosen]


def interleave(sides: Sequence[Sequence[Hit]]) -> list[Hit]:
    """One hit of each side in turn, each chunk once: both sides of a comparison get their share."""
    found: dict[int, Hit] = {}
    for row in zip_longest(*sides):
        for hit in row:
            if hit is not None:
                found.setdefault(hit.chunk.id, hit)
    return list(found.values())


def sandwich(count: int) -> list[int]:
    """Places by rank so that the best stand first and last and the weakest in the middle.

    A model reads the beginning and the end of a long context best (Liu et al. 2023, "Lost in the Middle").

    >>> sandwich(5)
    [0, 2, 4, 3, 1]
    """
    return [*range(0, count, 2), *reversed(range(1, count, 2))]


# In which order should hits be read? By their fused score and by the best sentence each of them holds.

SHARE = 0.4  # of the sentences in the new score: plateau .2-.5, above which scifact and cranfield lose (docs/log.md)


class SentenceReranker:
    """The default `Reranker`: no model is run, the sentences' vectors and words are at hand."""

    name = "sentences"

    def rerank(
        self, query: Query, hits: Sequence[Hit], sentence_vectors: Mapping[int, Any], idf: Mapping[str, float]
    ) -> list[Hit]:
        """The same hits, best first; the best score stays what it was, so that scores of two searches compare."""
        if len(hits) < 2:
            return list(hits)
        best = max(hit.score for hit in hits) or 1.0
        placed = [(number, hit.chunk, 0.0) for number, hit in enumerate(hits)]
        documents = {hit.document.id: hit.document for hit in hits}
        table = tabulate(query, placed, sentence_vectors, idf, documents)
        sentences = np.zeros(len(hits), dtype=np.float32)
        np.maximum.at(sentences, table.chunk, COSINE * table.cosine + COVERAGE * table.coverage)
        top = float(sentences.max()) or 1.0
        blended = [
            (1.0 - SHARE) * hit.score / best + SHARE * float(one) / top
            for hit, one in zip(hits, sentences, strict=True)
        ]
        scale = best / (max(blended) or 1.0)
        scored = [replace(hit, score=one * scale) for hit, one in zip(hits, blended, strict=True)]
        return sorted(scored, key=lambda hit: -hit.score)
