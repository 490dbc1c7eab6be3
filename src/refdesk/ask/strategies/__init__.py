"""How are chunks looked for? A strategy is an async function from a query and the ports to what each engine found.

    @register("survey")
    async def survey(query: Query, ports: SearchPorts) -> list[Found]: ...

`rag.strategy` and the plan choose one by its name; what several engines found is fused by rank.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Query
from refdesk.ports import Embedder, Index, Library, Scored
from refdesk.settings import Settings
from refdesk.trace import in_thread
from refdesk.types import Hit, Method, Scope


@dataclass(frozen=True, slots=True)
class SearchPorts:
    """What a strategy may use, and how much it is to find."""

    library: Library
    embedder: Embedder
    settings: Settings
    scope: Scope
    k: int


@dataclass(frozen=True, slots=True)
class EngineHits:
    """The hits of one engine, best first; `weight` is how often they count beside those of others."""

    engine: str
    hits: Sequence[Hit]
    weight: int = 1


SearchStrategy = Callable[[Query, SearchPorts], Awaitable[list[EngineHits]]]
STRATEGIES: dict[str, SearchStrategy] = {}


def register(name: str) -> Callable[[SearchStrategy], SearchStrategy]:
    def keep(strategy: SearchStrategy) -> SearchStrategy:
        STRATEGIES[name] = strategy
        return strategy

    return keep


def _by(method: Method) -> SearchStrategy:
    async def search(query: Query, ports: SearchPorts) -> list[EngineHits]:
        text, vector = query.standalone, query.vector
        hits = await in_thread(ports.library.search, text, vector, ports.k, method, ports.scope, ports.settings)
        return [EngineHits(method, hits)]

    return search


register("dense")(_by("dense"))
register("hybrid")(_by("hybrid"))
register("two_stage")(_by("hybrid"))  # with the plan's deeper candidates; the second stage is the reranker


def fuse(lists: Sequence[EngineHits], rrf_k: int) -> list[Hit]:
    """Any number of lists as one. One alone keeps its scores; several are joined by rank: theirs cannot be compared."""
    if len(lists) == 1:
        return list(lists[0].hits)
    every = {hit.chunk.id: hit for found in reversed(lists) for hit in found.hits}  # the first list's scores are kept
    ranked = [[hit.chunk.id for hit in found.hits] for found in lists for _ in range(found.weight)]
    return [replace(every[chunk_id], score=score) for chunk_id, score in reciprocal_rank(ranked, rrf_k)]


# --- how are the scores of engines joined into one ranking? ---


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
