"""Which chunks match a query? Candidates from the engines, their true scores, one ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refdesk.ports import Index, Scored
from refdesk.types import Method, Scope

# How are BM25 and vector scores joined into one ranking?


def convex(lexical: Mapping[int, float], cosine: Mapping[int, float], dense_weight: float) -> list[Scored]:
    """`a · (cos + 1) / (max cos + 1) + (1 − a) · bm25 / max bm25` for every member of both, best first.

    Both mappings hold the true score of every candidate; a chunk that shares no term with the query has no BM25 score.

    >>> convex({1: 4.0}, {1: 0.2, 2: 0.8}, 0.5)
    [(1, 0.833...), (2, 0.5)]
    """
    best_lexical = max(lexical.values(), default=0.0) or 1.0
    best_cosine = max(cosine.values(), default=0.0) + 1.0 or 1.0
    fused = [
        (
            chunk_id,
            dense_weight * (cosine.get(chunk_id, -1.0) + 1.0) / best_cosine
            + (1.0 - dense_weight) * lexical.get(chunk_id, 0.0) / best_lexical,
        )
        for chunk_id in {**cosine, **lexical}
    ]
    fused.sort(key=_best_first)
    return fused


def reciprocal_rank(lists: Sequence[Sequence[int]], k: int) -> list[Scored]:
    """`Σ 1 / (k + rank)` over ranked lists of chunk ids, best first.

    >>> reciprocal_rank([[7, 8], [8]], k=30)
    [(8, 0.0635...), (7, 0.0322...)]
    """
    fused: dict[int, float] = {}
    for ranked in lists:
        for rank, chunk_id in enumerate(ranked, 1):
            fused[chunk_id] = fused.get(chunk_id, 0.0) + 1.0 / (k + rank)
    return sorted(fused.items(), key=_best_first)


def _best_first(scored: Scored) -> tuple[float, int]:
    return -scored[1], scored[0]


@dataclass(frozen=True, slots=True)
class Weights:
    """How the engines are joined; from the settings."""

    dense_weight: float
    rrf_k: int
    candidates: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that was found, with its true scores and the score it is ranked by."""

    chunk_id: int
    lexical_score: float
    cosine: float
    score: float


def search(
    index: Index,
    terms: Sequence[str],
    vector: NDArray[np.float32],
    *,
    k: int,
    method: Method,
    scope: Scope,
    weights: Weights,
) -> list[Candidate]:
    """The k best candidates, each with both true scores whatever the method."""
    depth = max(k, weights.candidates) if method in ("hybrid", "rrf") else k
    by_terms = index.lexical(terms, depth, scope) if method != "dense" else []
    by_vector = index.dense(vector, depth, scope) if method != "bm25" else []
    if method == "rrf":
        ranked = reciprocal_rank([[i for i, _ in by_terms], [i for i, _ in by_vector]], weights.rrf_k)[:k]
        wanted = [chunk_id for chunk_id, _ in ranked]
    else:
        ranked, wanted = [], [chunk_id for chunk_id, _ in (*by_terms, *by_vector)]
    lexical, cosine = dict(by_terms), dict(by_vector)
    lexical |= index.lexical_scores(terms, [i for i in wanted if i not in lexical])
    cosine |= index.cosines(vector, [i for i in wanted if i not in cosine])
    if method == "hybrid":
        ranked = convex(lexical, cosine, weights.dense_weight)[:k]
    elif method == "bm25":
        ranked = by_terms
    elif method == "dense":
        ranked = by_vector
    return [Candidate(i, lexical.get(i, 0.0), cosine.get(i, 0.0), score) for i, score in ranked]
