"""The registry of search strategies: each takes a query and the ports and returns what its engines found.

    @register("survey")
    async def survey(query: Query, ports: SearchPorts) -> list[EngineHits]: ...

The lists of one strategy are joined by rank (`refdesk.library.fuse`). Those of several may be too: each list carries
the name of its engine, so that what two strategies both search is counted once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from refdesk import settings
from refdesk.answer import Query
from refdesk.library import EngineHits, SearchPorts
from refdesk.trace import in_thread
from refdesk.types import Hit

SearchStrategy = Callable[[Query, SearchPorts], Awaitable[list[EngineHits]]]
STRATEGIES: dict[str, SearchStrategy] = {}


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
    """BM25 and vectors: what every other engine stands beside."""
    text, vector = query.standalone, query.vector
    return await in_thread(ports.library.search, text, vector, ports.k, "hybrid", ports.scope, ports.settings)
