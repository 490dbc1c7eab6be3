"""The registry of search strategies: each takes a query and ports and returns what its engines found. Late interaction.

    @register("survey")
    async def survey(query: Query, ports: SearchPorts) -> list[EngineHits]: ...

The lists of one strategy are joined by rank (`refdesk.library.fuse`). Those of several may be too: each list carries
the name of its engine, so that what two strategies both search is counted once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from refdesk import settings
from refdesk.answer import Query
from refdesk.library import EngineHits, SearchPorts
from refdesk.trace import in_thread
from refdesk.types import Hit

SearchStrategy = Callable[[Query, SearchPorts], Awaitable[list[EngineHits]]]
STRATEGIES: dict[str, SearchStrategy] = {}
DEEP, DEEPEST = 50, 100  # hits that are reranked, and by which documents are ranked
LEADING = 3  # first hits that lead on to others, and that stay before what they lead to
BESIDE = 0.3  # weight of an engine, or of a variant of ours, beside the question as it stands; a model's counts as much


def register(name: str) -> Callable[[SearchStrategy], SearchStrategy]:
    def keep(strategy: SearchStrategy) -> SearchStrategy:
        STRATEGIES[name] = strategy
        if name not in settings.STRATEGIES:
            settings.STRATEGIES.append(name)
        return strategy

    return keep


async def side_by_side(names: Iterable[str], query: Query, ports: SearchPorts) -> list[EngineHits]:
    """What these strategies find, searched at the same time; an engine that several of them ask counts once."""
    found = await asyncio.gather(*(STRATEGIES[name](query, ports) for name in names))
    return list({list_.engine: list_ for lists in reversed(found) for list_ in reversed(lists)}.values())[::-1]


async def with_engines(
    names: Iterable[str], found: list[EngineHits], query: Query, ports: SearchPorts
) -> list[EngineHits]:
    """What was found, and what these strategies find beside it, one after the other; one that fails is left out."""
    found = list(found)
    for name in names:
        with ports.trace.optional(name, k=ports.k) as stage:
            beside = await STRATEGIES[name](query, ports)
            known = {hits.engine for hits in found}
            found += [hits for hits in beside if hits.engine not in known]
            stage.gave(hits=sum(len(hits.hits) for hits in beside))
    return found


async def hybrid_hits(query: Query, ports: SearchPorts) -> list[Hit]:
    """BM25 and vectors, which every other engine adds to."""
    text, vector = query.standalone, query.vector
    return await in_thread(ports.library.search, text, vector, ports.k, "hybrid", ports.scope, ports.settings)


# --- late interaction: reranks the first hits by how well each word of the question matches a word of theirs ---------
# The token vectors are kept only where the owner wants them (`ingest.token_vectors`): they take 14 to 28 kB a chunk.

# What a perfect match of all words adds to a score of at most 1. nDCG@10 over hybrid on squad_dev11,
# squadshift_reddit, hotpot_train100 and cranfield: .75 +.015, +.025, -.005, +.007; 1 +.018, +.037, -.004, +.004;
# 1.25 +.017, +.037, -.002, +.001.
WEIGHT = 1.0


@register("late_interaction")
async def late_interaction(query: Query, ports: SearchPorts) -> list[EngineHits]:
    hits = await hybrid_hits(query, replace(ports, k=max(DEEP, ports.k)))
    with ports.trace.stage("late_interaction", hits=min(len(hits), DEEP)) as stage:
        ids = [hit.chunk.id for hit in hits[:DEEP]]
        late = await in_thread(ports.library.late_scores, query.standalone, ids) if ids else {}
        stage.gave(scored=len(late))
    if not late:
        why = "no token vectors are stored: set ingest.token_vectors and run `refdesk reindex`"
        ports.trace.skip("late_interaction", why)
        return [EngineHits("hybrid", hits[: ports.k])]
    return [EngineHits("late_interaction", blended(hits, late)[: ports.k])]


def blended(hits: Sequence[Hit], late: Mapping[int, float]) -> list[Hit]:
    """The hits by both scores; the best score stays what it was. One without its tokens has the least of the others."""
    best, least = max(hit.score for hit in hits) or 1.0, min(late.values())
    worth = [hit.score / best + WEIGHT * late.get(hit.chunk.id, least) for hit in hits]
    scale = best / (max(worth) or 1.0)
    scored = [replace(hit, score=value * scale) for hit, value in zip(hits, worth, strict=True)]
    return sorted(scored, key=lambda hit: (-hit.score, hit.chunk.id))
