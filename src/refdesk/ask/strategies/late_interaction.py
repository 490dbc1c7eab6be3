"""Late interaction: the first hits again by how well each word of the question is met by a word of theirs.

The token vectors are kept only where the owner wants them (`ingest.token_vectors`): they take 7 to 14 kB a chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from refdesk.answer import Query
from refdesk.ask.strategies.registry import hybrid_hits, register, unsaid_share
from refdesk.library import EngineHits, SearchPorts
from refdesk.trace import in_thread
from refdesk.types import Hit

DEPTH = 50  # hits that are looked at
SHARE = 0.5  # of the tokens in the new score
# Share of the question's weight in words that the first hit may leave unsaid. Where it leaves more, no passage alone
# meets the question, and those that lead on would fall behind: hotpot_train100 .848 (hybrid), .845 (.3), .830 (always);
# squad_dev11 .901, .907, .913; mtrag_govt .736, .738, .743 nDCG@10.
UNSAID = 0.3


@register("late_interaction")
async def late_interaction(query: Query, ports: SearchPorts) -> list[EngineHits]:
    hits = await hybrid_hits(query, replace(ports, k=max(DEPTH, ports.k)))
    if hits and await in_thread(unsaid_share, query, hits[0], ports.library) >= UNSAID:
        ports.trace.skip("late_interaction", "no passage alone meets the question")
        return [EngineHits("hybrid", hits[: ports.k])]
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
