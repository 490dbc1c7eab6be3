"""Multi-hop search: a second search for what the first results mention and the question does not.

"Where was the director of Tide Mill born?" finds the film first. Its sentence names Ada Lund; what the passage does not
say yet is "where" and "born". So "born Ada Lund" is searched for next, near the question and that sentence in meaning.
A path is worth what both its searches say; where the first passage says all that is asked, there is no second search.

With a model that is able enough, the model reads the first evidence and says what to search for next, twice at most.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Query
from refdesk.ask.strategies.registry import LEADING, hybrid_hits, register
from refdesk.library import EngineHits, LibraryReader, SearchPorts
from refdesk.ports import LLM
from refdesk.prompts import NEXT_SEARCH, NEXT_SEARCH_SCHEMA, NEXT_SEARCH_SYSTEM
from refdesk.text import idf, query_terms, terms, words
from refdesk.trace import in_thread, is_able, json_reply
from refdesk.types import UNIT, Chunk, Hit

SENTENCES = 2  # of each first hit, that lead on
NEAR_SENTENCE = 0.5  # how far the second search leans towards the sentence that led on
FIRST_SHARE = 0.3  # of the first hit's score in that of a path
# Share of the question's weight in words that a passage must leave unsaid to lead on.
UNSAID = 0.15
STEP = 0.03  # between the scores of reordered hits; rerankers blend them with their own
MODEL_HOPS, EVIDENCE_CHARACTERS = 2, 2500


@dataclass(frozen=True, slots=True, eq=False)
class Bridge:
    """A first hit, and what it leads on to: the words of the next search and the direction of its vector."""

    hit: Hit
    text: str
    vector: NDArray[np.float32]


@register("multi_hop")
async def multi_hop(query: Query, ports: SearchPorts) -> list[EngineHits]:
    first = await hybrid_hits(query, ports)
    model = ports.models.role("router")
    if model is not None and is_able(model) and first:
        return await _led_by_model(query, ports, model, first)
    with ports.trace.stage("bridges", hits=len(first)) as stage:
        bridges = await in_thread(find_bridges, query, first, ports.library)
        stage.gave(bridges=len(bridges))
    if not bridges:
        ports.trace.skip("second_search", "the first results answer everything, or lead nowhere else")
        return [EngineHits("hybrid", first)]
    with ports.trace.stage("second_search", searches=len(bridges)) as stage:
        found = await in_thread(_followed, query, bridges, first, ports)
        stage.gave(hits=len(found))
    return [EngineHits("multi_hop", found)]


# --- what leads on? ---------------------------------------------------------------------------------------------------


def find_bridges(query: Query, hits: Sequence[Hit], library: LibraryReader) -> list[Bridge]:
    """Of the first hits those that leave something unsaid and name something new in the sentence nearest to it."""
    leading = hits[:LEADING]
    rows = library.sentence_vectors([hit.chunk.id for hit in leading])
    weights = idf(library.frequencies(query.terms), library.chunk_count)
    asked = frozenset(query.terms)
    found = []
    for hit in leading:
        vectors = rows.get(hit.chunk.id)
        if vectors is None or not len(vectors):
            continue
        unsaid = _unsaid(query, hit, weights)
        if unsaid is None:
            continue
        own = vectors.astype(np.float32) / UNIT
        cosines = np.vecdot(own, query.vector)
        names = _new_names(hit.chunk, asked, hit.document.language)
        nearest = sorted(range(len(own)), key=lambda place: -cosines[place])
        for place in [sentence for sentence in nearest[:SENTENCES] if names[sentence]]:
            towards = query.vector + NEAR_SENTENCE * own[place]
            text = " ".join([*unsaid, *names[place]])
            found.append(Bridge(hit, text, towards / (np.linalg.norm(towards) or 1.0)))
    return found


def _unsaid(query: Query, hit: Hit, weights: Mapping[str, float]) -> list[str] | None:
    """The words of the question that a passage does not hold; None where they weigh too little to be missed."""
    stems = frozenset(terms(f"{hit.chunk.context} {hit.chunk.text}", hit.document.language or "en"))
    total = sum(weights.values()) or 1.0
    if sum(weight for term, weight in weights.items() if term not in stems) < UNSAID * total:
        return None
    return [word for word in words(query.standalone) if not stems.issuperset(query_terms(word))]


def _new_names(chunk: Chunk, asked: frozenset[str], language: str) -> list[list[str]]:
    """What each sentence of the chunk names and the question does not."""
    new = [name for name in chunk.entities if not asked.issuperset(terms(name, language or "en"))]
    texts = [chunk.text[sentence.start : sentence.end] for sentence in chunk.sentences]
    return [[name for name in new if name in text] for text in texts]


# --- where does it lead? ----------------------------------------------------------------------------------------------


def _followed(query: Query, bridges: Sequence[Bridge], first: Sequence[Hit], ports: SearchPorts) -> list[Hit]:
    """The first hits and what their paths reach, the best paths first; with the true scores for the question itself."""
    paths: list[tuple[float, int, Hit, Hit]] = []
    for bridge in bridges:
        text, vector = bridge.text, bridge.vector
        reached = ports.library.search(text, vector, ports.k, "hybrid", ports.scope, ports.settings)
        others = [hit for hit in reached if hit.document.id != bridge.hit.document.id] or reached
        best = max((hit.score for hit in others), default=0.0) or 1.0
        paths += [(FIRST_SHARE * bridge.hit.score + hit.score / best, hit.chunk.id, bridge.hit, hit) for hit in others]
    paths.sort(key=lambda path: (-path[0], path[1]))
    ordered = {hit.chunk.id: hit for hit in first[:LEADING]}
    for _, _, start, end in paths:
        ordered.setdefault(start.chunk.id, start)
        ordered.setdefault(end.chunk.id, end)
    for hit in first:
        ordered.setdefault(hit.chunk.id, hit)
    return in_this_order(list(ordered.values())[: ports.k], first, query, ports.library)


def in_this_order(hits: Sequence[Hit], first: Sequence[Hit], query: Query, library: LibraryReader) -> list[Hit]:
    """Hits with the true scores for the question, and scores that keep their order."""
    best = max((hit.score for hit in first), default=1.0)
    scored = {hit.chunk.id: hit for hit in first}
    scored |= library.true_scores([hit for hit in hits if hit.chunk.id not in scored], query.standalone, query.vector)
    return [
        replace(hit, score=best - STEP * place) for place, hit in enumerate(scored[before.chunk.id] for before in hits)
    ]


# --- with a model -----------------------------------------------------------------------------------------------------


async def _led_by_model(query: Query, ports: SearchPorts, model: LLM, first: list[Hit]) -> list[EngineHits]:
    """The model says what to search for next, until it says that the evidence is enough."""
    lists, searched, evidence = [EngineHits("hybrid", first)], [query.standalone], list(first[:LEADING])
    for number in range(1, MODEL_HOPS + 1):
        wanted = ""
        with ports.trace.optional("next_search", model=model.name) as stage:
            message = NEXT_SEARCH.format(
                question=query.standalone, searched="\n".join(searched), evidence=_shown(evidence)
            )
            reply = await json_reply(model, NEXT_SEARCH_SYSTEM, message, NEXT_SEARCH_SCHEMA, stage)
            wanted = "" if reply.get("enough") is True else str(reply.get("search") or "").strip()
        if not wanted or wanted in searched:
            break
        searched.append(wanted)
        vector = await in_thread(ports.embedder.embed_query, wanted)
        asked = (wanted, vector, ports.k, "hybrid", ports.scope, ports.settings)
        hits = await in_thread(ports.library.search, *asked)
        lists.append(EngineHits(f"hop {number}", hits))
        evidence += [hit for hit in hits[:LEADING] if hit.chunk.id not in {known.chunk.id for known in evidence}]
    return lists


def _shown(evidence: Sequence[Hit]) -> str:
    """The passages, one after the other, each cut to its share."""
    share = EVIDENCE_CHARACTERS // max(1, len(evidence))
    return "\n\n".join(f"{hit.chunk.context}\n{hit.chunk.text[:share]}" for hit in evidence)
