"""Which chunks match a query? Candidates from the engines, their true scores, one ranking."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.finding.fuse import convex, reciprocal_rank
from refdesk.ports import Index
from refdesk.types import Method, Scope


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
