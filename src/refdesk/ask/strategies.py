"""How are chunks looked for? A strategy is an async function from a query and the ports to what each engine found.

    @register("survey")
    async def survey(query: Query, ports: SearchPorts) -> list[Found]: ...

`rag.strategy` and the plan choose one by its name; what several engines found is fused by rank.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from refdesk import settings
from refdesk.answer import Query
from refdesk.library import LibraryReader, reciprocal_rank
from refdesk.ports import Embedder
from refdesk.settings import Settings
from refdesk.trace import in_thread
from refdesk.types import Hit, Method, Scope


@dataclass(frozen=True, slots=True)
class SearchPorts:
    """What a strategy may use, and how much it is to find."""

    library: LibraryReader
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
        if name not in settings.STRATEGIES:
            settings.STRATEGIES.append(name)
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
