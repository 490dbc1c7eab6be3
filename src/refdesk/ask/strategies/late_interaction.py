"""Late interaction: reranks the first hits by how well each word of the question matches a word of theirs.

The token vectors are kept only where the owner wants them (`ingest.token_vectors`): they take 14 to 28 kB a chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from refdesk.answer import Query
from refdesk.ask.strategies.registry import hybrid_hits, register
from refdesk.library import EngineHits, SearchPorts
from refdesk.trace import in_thread
from refdesk.types import Hit

DEPTH = 50  # hits that are looked at
# What a question that is met word for word adds to a score that is 1 at best. nDCG@10 over hybrid on squad_dev11,
# squadshift_reddit, hotpot_train100 and cranfield: .75 +.015, +.025, -.005, +.007; 1 +.018, +.037, -.004, +.004;
# 1.25 +.017, +.037, -.002, +.001.
WEIGHT = 1.0


@register("late_interaction")
async def late_interaction(query: Query, ports: SearchPorts) -> list[EngineHits]:
    hits = await hybrid_hits(query, replace(ports, k=max(DEPTH, ports.k)))
    with ports.trace.stage("late_interaction", hits=min(len(hits), DEPTH)) as stage:
        ids = [hit.chunk.id for hit in hits[:DEPTH]]
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
