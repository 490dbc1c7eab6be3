"""Hierarchical search: the ten best documents first, then three chunks of each.

With a tree the documents are ranked by the nearness of the document, of its nearest section and of its cluster beside
what was found in them, and chunks of the nearest sections come first. Without one, by what was found in them alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from refdesk.answer import Query
from refdesk.ask.strategies.registry import DEEPEST, hybrid_hits, register
from refdesk.library import EngineHits, SearchPorts
from refdesk.summaries import CLUSTER, DOCUMENT, TreeNode
from refdesk.trace import in_thread
from refdesk.types import Hit

DOCUMENTS, CHUNKS = 10, 3  # seed 001, step 6
# Of the tree's nearness beside the best hit of a document, of a section's beside a hit's score, of a cluster's beside
# its document's.
TREE, SECTION_SHARE, CLUSTER_SHARE = 0.3, 0.1, 0.2

# Of the few of each document beside what is found in all of them (benchmarks/filings.py, docs/log.md).
WEIGHT = 0.5


@register("hierarchical")
async def hierarchical(query: Query, ports: SearchPorts) -> list[EngineHits]:
    """The chosen documents' best chunks, beside what is found without choosing any."""
    whole = await hybrid_hits(query, replace(ports, k=max(DEEPEST, ports.k)))
    with ports.trace.stage("documents", hits=len(whole)) as stage:
        chosen, sections = await in_thread(_documents, query, ports, whole)
        stage.gave(documents=len(chosen), sections=len(sections))
    if not chosen:
        return [EngineHits("hybrid", whole[: ports.k])]
    within = replace(ports, scope=replace(ports.scope, documents=tuple(chosen)), k=DOCUMENTS * CHUNKS * 3)
    own = await hybrid_hits(query, within)
    few = three_of_each(query, own, chosen, sections)[: max(ports.k, DOCUMENTS * CHUNKS)]
    return [EngineHits("hybrid", whole[: ports.k]), EngineHits("hierarchical", few, WEIGHT)]


def _documents(query: Query, ports: SearchPorts, hits: Sequence[Hit]) -> tuple[dict[str, float], list[TreeNode]]:
    """The documents to search in, with what each is worth, and the sections of them that are nearest."""
    best: dict[str, float] = {}
    top = max((hit.score for hit in hits), default=0.0) or 1.0
    for hit in hits:
        best[hit.document.id] = max(best.get(hit.document.id, 0.0), hit.score / top)
    nodes = ports.library.tree_nodes(DOCUMENT, ports.scope)
    if not nodes:
        return dict(sorted(best.items(), key=lambda pair: (-pair[1], pair[0]))[:DOCUMENTS]), []
    near = {node.document_id: float(node.vector @ query.vector) for node in nodes}
    for cluster in ports.library.tree_nodes(CLUSTER, ports.scope):
        cosine = float(cluster.vector @ query.vector)
        for member in cluster.members:
            near[member] = (1.0 - CLUSTER_SHARE) * near.get(member, 0.0) + CLUSTER_SHARE * cosine
    worth = {
        document_id: (1.0 - TREE) * best.get(document_id, 0.0) + TREE * near.get(document_id, 0.0)
        for document_id in {**best, **near}
    }
    chosen = dict(sorted(worth.items(), key=lambda pair: (-pair[1], pair[0]))[:DOCUMENTS])
    return chosen, ports.library.sections(list(chosen))


def three_of_each(
    query: Query, hits: Sequence[Hit], chosen: Mapping[str, float], sections: Sequence[TreeNode]
) -> list[Hit]:
    """The best chunks of every document, the best first; how near its section is counts for a part."""
    cosines = [(node.document_id, node.sequences, float(node.vector @ query.vector)) for node in sections]
    top = max((hit.score for hit in hits), default=0.0) or 1.0

    def worth(hit: Hit) -> float:
        around = [
            cosine
            for document_id, (first, last), cosine in cosines
            if document_id == hit.document.id and first <= hit.chunk.sequence <= last
        ]
        section = max(around, default=hit.cosine)
        return (1.0 - SECTION_SHARE) * hit.score / top + SECTION_SHARE * max(0.0, section)

    counts: dict[str, int] = {}
    kept: list[Hit] = []
    for hit in sorted(hits, key=lambda found: (-worth(found), found.chunk.id)) if sections else hits:
        count = counts.get(hit.document.id, 0)
        if hit.document.id in chosen and count < CHUNKS:
            counts[hit.document.id] = count + 1
            kept.append(replace(hit, score=worth(hit) * top) if sections else hit)
    return kept
