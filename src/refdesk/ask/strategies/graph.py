"""Graph search: from the entities in the question, over the sentences that mention them, to related chunks.

The graph is read around one question: the chunks that name an entity of the question, those that hybrid search finds,
and one step further those that name what their nearest sentences name. A sentence bridges two entities as far as it is
near to the question (LinearRAG, arXiv 2510.10114). A personalised PageRank over entities, themes and chunks ranks the
chunks; entities are the low level, keywords that several of them share the high one (LightRAG, arXiv 2410.05779).
Names and relations that a model found in the chunks count as those of the rules do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Query
from refdesk.ask.strategies.registry import BESIDE, LEADING, hybrid_hits, register
from refdesk.entities import NOTHING_EXTRACTED, SHORT_FOR, entity_key, names_by_sentence, names_of, phrases
from refdesk.library import EngineHits, LibraryReader, SearchPorts
from refdesk.text import terms
from refdesk.trace import in_thread
from refdesk.types import UNIT, Chunk, Document, Hit

NEIGHBOURS = 20  # chunks read for an entity, and entities that are followed from a hop
DAMPING = 0.4  # the walk stays near where it began (.5 in LinearRAG)
STEPS = NEIGHBOURS
NEAREST_TO_NONE = 0.01  # of cosines, so that no edge is lost
SHARPNESS = 3.0  # power of a sentence's cosine in the weight of its edges
CHUNK_SHARE = 0.7  # of the beginning in chunks that search finds, the rest in entities and themes of the question
THEME_WEIGHT = 0.3  # of an edge over a shared keyword, beside that of one over a name
COMMONEST = 0.2  # share of the chunks that name an entity above which it says nothing


@register("graph")
async def graph(query: Query, ports: SearchPorts) -> list[EngineHits]:
    first = await hybrid_hits(query, ports)
    with ports.trace.stage("graph", hits=len(first)) as stage:
        walked, sizes = await in_thread(walk, query, first, ports)
        stage.gave(**sizes)
    if not walked:
        return [EngineHits("hybrid", first)]
    return [EngineHits("hybrid", first), EngineHits("graph", walked, BESIDE)]


@dataclass(slots=True, eq=False)
class Around:
    """What is read of the graph around one question."""

    chunks: dict[int, tuple[Chunk, Document]] = field(default_factory=dict)
    cosines: dict[int, NDArray[np.float32]] = field(default_factory=dict)  # of the question and each sentence
    names: dict[int, list[list[str]]] = field(default_factory=dict)  # keys by sentence
    started: dict[str, float] = field(default_factory=dict)  # how much the question speaks of an entity

    def read(self, ids: Sequence[int], query: Query, library: LibraryReader, same: Mapping[str, str]) -> None:
        new = [chunk_id for chunk_id in dict.fromkeys(ids) if chunk_id not in self.chunks]
        rows = library.sentence_vectors(new) if new else {}
        extracted = library.extracted(new) if new else {}
        for chunk_id, found in (library.chunks(new) if new else {}).items():
            own = rows.get(chunk_id)
            if own is None or not len(own):
                continue
            self.chunks[chunk_id] = found
            self.cosines[chunk_id] = np.vecdot(own.astype(np.float32), query.vector) / UNIT
            named = names_by_sentence(found[0], extracted.get(chunk_id, NOTHING_EXTRACTED))
            self.names[chunk_id] = [[same.get(key, key) for key in keys] for keys in named]


def walk(query: Query, first: Sequence[Hit], ports: SearchPorts) -> tuple[list[Hit], dict[str, int]]:
    """The chunks that the question leads to, best first, and the sizes of what was walked."""
    library = ports.library
    asked = library.known_entities(phrases(query.fullest), ports.scope)
    same = one_name(asked, ports)
    around = Around(started={same.get(key, key): 1.0 for key in _longest(asked, query.fullest)})
    around.read([hit.chunk.id for hit in first[:LEADING]], query, library, same)
    # One hop: the chunks that name what the question names. Two: those that name what these speak of, near to it.
    for keys in (list(around.started), None):
        wanted = _bridged(around) if keys is None else keys
        found = library.mentions(wanted, ports.scope, NEIGHBOURS)
        counts = Counter(mention.key for mention in found)
        rare = [mention for mention in found if counts[mention.key] < max(2.0, COMMONEST * library.chunk_count)]
        around.read([mention.chunk_id for mention in rare], query, library, same)
    if not around.chunks:
        return [], {"entities": 0, "chunks": 0}
    ranks, sizes = _ranked(around, query, first)
    best = sorted(ranks, key=lambda chunk_id: (-ranks[chunk_id], chunk_id))[: ports.k]
    hits = [Hit(*around.chunks[chunk_id], lexical_score=0.0, cosine=0.0, score=ranks[chunk_id]) for chunk_id in best]
    true = library.true_scores(hits, query.standalone, query.vector)
    return [true[chunk_id] for chunk_id in best], sizes


def one_name(keys: set[str], ports: SearchPorts) -> dict[str, str]:
    """By the key of an acronym that of its long form, where the library says which is short for which."""
    found = ports.library.relations(keys, ports.scope, NEIGHBOURS)
    return {
        entity_key(relation.subject): entity_key(relation.object)
        for relation in found
        if relation.predicate == SHORT_FOR
    }


def _longest(known: set[str], question: str) -> list[str]:
    """Of names within one another the longest: "harbour board", not "board"."""
    found: list[str] = []
    for phrase in phrases(question):
        if phrase in known and not any(f" {phrase} " in f" {other} " for other in found):
            found.append(phrase)
    return found


def _bridged(around: Around) -> list[str]:
    """The entities that sentences near the question name beside those it began with, the nearest first."""
    near: dict[str, float] = {}
    for chunk_id, sentences in around.names.items():
        for keys, cosine in zip(sentences, around.cosines[chunk_id].tolist(), strict=False):
            begun = sum(around.started.get(key, 0.0) for key in keys)
            for key in keys:
                near[key] = max(near.get(key, 0.0), cosine * (1.0 + min(begun, 1.0)))
    followed = [key for key in sorted(near, key=lambda key: (-near[key], key)) if key not in around.started]
    return followed[:NEIGHBOURS]


# --- the rank of each chunk -------------------------------------------------------------------------------------------


def _ranked(around: Around, query: Query, first: Sequence[Hit]) -> tuple[dict[int, float], dict[str, int]]:
    chunk_ids = list(around.chunks)
    entities = list(dict.fromkeys(key for names in around.names.values() for keys in names for key in keys))
    themes = _themes(around)
    nodes = {node: place for place, node in enumerate([*chunk_ids, *entities, *(("theme", name) for name in themes)])}
    edges = np.zeros((len(nodes), len(nodes)), dtype=np.float32)
    for chunk_id in chunk_ids:
        row = nodes[chunk_id]
        for keys, cosine in zip(around.names[chunk_id], around.cosines[chunk_id].tolist(), strict=False):
            for key in keys:
                column = nodes[key]
                weight = max(cosine, NEAREST_TO_NONE) ** SHARPNESS
                edges[row, column] = edges[column, row] = max(edges[row, column], weight)
        for theme in _keywords(around.chunks[chunk_id][0]):
            if theme in themes:
                column = nodes["theme", theme]
                edges[row, column] = edges[column, row] = THEME_WEIGHT * max(
                    NEAREST_TO_NONE, float(around.cosines[chunk_id].max())
                )
    beginning = np.zeros(len(nodes), dtype=np.float32)
    stems = frozenset(query.terms)
    for key, weight in around.started.items():
        if key in nodes:
            beginning[nodes[key]] = weight
    for theme in themes:
        beginning[nodes["theme", theme]] = THEME_WEIGHT * (stems >= set(terms(theme)))
    beginning *= (1.0 - CHUNK_SHARE) / (float(beginning.sum()) or 1.0)
    own = {hit.chunk.id: hit.score for hit in first[:LEADING] if hit.chunk.id in nodes}
    total = sum(own.values()) or 1.0
    for chunk_id, score in own.items():
        beginning[nodes[chunk_id]] = CHUNK_SHARE * score / total
    ranks = page_rank(edges, beginning)
    sizes = {"entities": len(entities), "themes": len(themes), "chunks": len(chunk_ids)}
    return {chunk_id: float(ranks[nodes[chunk_id]]) for chunk_id in chunk_ids}, sizes


def page_rank(edges: NDArray[np.float32], beginning: NDArray[np.float32]) -> NDArray[np.float32]:
    """How often a random walk visits each node; it follows edges by their weight and often restarts.

    >>> page_rank(np.array([[0, 1], [1, 0]], dtype=np.float32), np.array([1, 0], dtype=np.float32)).round(2)
    array([0.67, 0.33], dtype=float32)
    """
    sums = edges.sum(axis=1, keepdims=True)
    steps = np.divide(edges, sums, out=np.zeros_like(edges), where=sums > 0).T.copy()
    beginning = beginning / (float(beginning.sum()) or 1.0)
    ranks = beginning
    for _ in range(STEPS):
        ranks = (1.0 - DAMPING) * beginning + DAMPING * np.vecdot(steps, ranks)
    return ranks


def _themes(around: Around) -> set[str]:
    """Keywords that more than one of the chunks has, and that are no names."""
    counts = Counter(theme for chunk, _ in around.chunks.values() for theme in _keywords(chunk))
    named = {key for chunk, _ in around.chunks.values() for key in names_of(chunk)}
    named |= {key for names in around.names.values() for keys in names for key in keys}
    return {theme for theme, count in counts.items() if count > 1 and theme not in named}


def _keywords(chunk: Chunk) -> list[str]:
    return list(dict.fromkeys(keyword.lower() for keyword in chunk.keywords))
