"""How are BM25 and vector scores joined into one ranking? Pure.

Convex fusion (TM2C2, Bruch et al. 2023) keeps the distances between true scores; reciprocal rank fusion keeps only
the order, and its scores must never be compared with a threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from refdesk.ports import Scored


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
