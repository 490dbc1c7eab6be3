"""Late interaction: the first hits again by how well each word of the question is met by a word of theirs.

The token vectors are kept only where the owner wants them (`ingest.token_vectors`): they take 7 to 14 kB a chunk.
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
# Share of the tokens in the new score. nDCG@10 with 0, .3, .5, .7 and 1: squad_dev11 .903, .912, .916, .928, .909;
# musique .672, .674, .673, .673, .602; mtrag_govt .717, .720, .721, .729, .680.
SHARE = 0.6


@register("late_interaction")
async def late_interaction(query: Query, ports: SearchPorts) -> list[EngineHits]:
    hits = await hybrid_hits(query, replace(ports, k=max(DEPTH, ports.k)))
    with ports.trace.stage("late_interaction", hits=min(len(hits), DEPTH)) as stage:
        ids = [hit.chunk.id for hit in hits[:DEPTH]]
        late = await in_thread(ports.library.late_scores, query.standalone, ids) if ids else {}
        stage.gave(scored=len(late))
    if not late:
        why = "no token vectors are kept: set ingest.token_vectors and run `refdesk reindex`"
        ports.trace.skip("late_interaction", why)
        return [EngineHits("hybrid", hits[: ports.k])]
    return [EngineHits("late_interaction", blended(hits, late)[: ports.k])]


def blended(hits: Sequence[Hit], late: Mapping[int, float]) -> list[Hit]:
    """The hits by both scores; the best score stays what it was. One without its tokens has the least of the others."""
    best, most, least = max(hit.score for hit in hits) or 1.0, max(late.values()), min(late.values())
    worth = [
        (1.0 - SHARE) * hit.score / best + SHARE * (late.get(hit.chunk.id, least) + 1.0) / (most + 1.0) for hit in hits
    ]
    scale = best / (max(worth) or 1.0)
    scored = [replace(hit, score=one * scale) for hit, one in zip(hits, worth, strict=True)]
    return sorted(scored, key=lambda hit: (-hit.score, hit.chunk.id))
