"""Query variants: rephrasings of the question, searched in parallel and merged by rank (`rag.rrf_k`, 30).

Without a model the library itself gives the words: what its nearest sentences say beside the question (pseudo-relevance
feedback), and keywords of the first hits that mean what a word of the question means.
With a model: two or three variations, the parts of a question that asks for several things, the question one step back,
and for short or abstract questions a passage that could answer it (HyDE).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Query
from refdesk.ask.strategies.registry import BESIDE, hybrid_hits, register
from refdesk.library import EngineHits, LibraryReader, SearchPorts
from refdesk.ports import LLM, Embedder
from refdesk.prompts import LONGEST_TEXT, VARIANTS_SCHEMA, VARIANTS_SYSTEM
from refdesk.text import QUERY_STOP_WORDS, idf, terms, words
from refdesk.trace import in_thread, is_able, json_reply
from refdesk.types import UNIT, Hit

READ, SENTENCES = 10, 3  # first hits that give words, the words that they give, the nearest sentences among them
TOWARDS = 0.6  # how far the vector moves to those sentences
SYNONYM, CANDIDATES = 0.6, 16  # cosine of two words that mean the same; keywords that are compared with the question's
VARIATIONS = 3  # that a model may write of the question, and parts of it
WORDS_KEPT = 4096
SHORT = 6  # words; a question of no more is met by a passage (HyDE) better than by itself


@dataclass(frozen=True, slots=True, eq=False)
class Variant:
    """Another text to search for; `vector` None: that of its text."""

    engine: str
    text: str
    vector: NDArray[np.float32] | None = None
    weight: float = 1.0


@register("fusion")
async def fusion(query: Query, ports: SearchPorts) -> list[EngineHits]:
    first = await hybrid_hits(query, ports)
    model = ports.models.role("router")
    variants: list[Variant] = []
    if model is not None and is_able(model):
        with ports.trace.optional("variants", model=model.name) as stage:
            variants = await _by_model(query, model, stage)
            stage.gave(variants=len(variants))
    if not variants:  # none is named, or it failed
        with ports.trace.stage("variants", hits=len(first)) as stage:
            variants = await in_thread(own_variants, query, first, ports)
            stage.gave(variants=len(variants))
    found = await asyncio.gather(*(_searched(variant, ports) for variant in variants))
    return [EngineHits("hybrid", first), *found]


async def _searched(variant: Variant, ports: SearchPorts) -> EngineHits:
    def search() -> list[Hit]:
        vector = variant.vector if variant.vector is not None else ports.embedder.embed_query(variant.text)
        return ports.library.search(variant.text, vector, ports.k, "hybrid", ports.scope, ports.settings)

    return EngineHits(variant.engine, await in_thread(search), variant.weight)


# --- words of the library ---------------------------------------------------------------------------------------------


def own_variants(query: Query, hits: Sequence[Hit], ports: SearchPorts) -> list[Variant]:
    """The question with words that the library gives; none where it gives none."""
    if not hits:
        return []
    return [
        *_from_feedback(query, hits, ports.library),
        *_with_synonyms(query, hits, ports.embedder),
    ]


def _from_feedback(query: Query, hits: Sequence[Hit], library: LibraryReader) -> list[Variant]:
    """Nearer to the sentences that say most about the question, with the most telling words that they share."""
    leading = hits[:READ]
    rows = library.sentence_vectors([hit.chunk.id for hit in leading])
    placed = [(hit, place) for hit in leading for place in range(len(rows.get(hit.chunk.id, ())))]
    if not placed:
        return []
    own = np.concatenate([rows[hit.chunk.id] for hit in leading if hit.chunk.id in rows]).astype(np.float32) / UNIT
    nearest = np.argsort(-np.vecdot(own, query.vector), kind="stable")[:SENTENCES]
    counts: Counter[str] = Counter()
    for number in nearest:
        hit, place = placed[number]
        sentence = hit.chunk.sentences[place]
        counts.update(set(words(hit.chunk.text[sentence.start : sentence.end])))
    asked = frozenset(query.terms)
    stems = {word: (terms(word) or [""])[0] for word in counts}
    new = [word for word in counts if stems[word] and stems[word] not in asked]
    weights = idf(library.frequencies([stems[word] for word in new]), library.chunk_count)
    telling = sorted(new, key=lambda word: (-counts[word] * weights[stems[word]], word))[:READ]
    vector = query.vector + TOWARDS * own[nearest].mean(axis=0)
    text = " ".join([query.standalone, *telling])
    return [Variant("feedback", text, vector / (np.linalg.norm(vector) or 1.0), BESIDE)]


def _with_synonyms(query: Query, hits: Sequence[Hit], embedder: Embedder) -> list[Variant]:
    """With keywords of the first hits that mean what a word of the question means: "fee" beside "price"."""
    asked = [word for word in words(query.standalone) if len(word) > 2 and word not in QUERY_STOP_WORDS]
    stems = frozenset(query.terms)
    counts = Counter(keyword.lower() for hit in hits[:READ] for keyword in hit.chunk.keywords)
    others = [keyword for keyword, _ in counts.most_common() if not stems & set(terms(keyword))][:CANDIDATES]
    if not asked or not others:
        return []
    vectors = word_vectors(embedder, [*others, *asked])
    near = np.stack([vectors[keyword] for keyword in others])
    found = []
    for word in asked:
        cosines = np.vecdot(near, vectors[word])
        best = int(cosines.argmax())
        if cosines[best] >= SYNONYM:
            found.append(others[best])
    return [Variant("synonyms", " ".join([query.standalone, *found]), query.vector, BESIDE)] if found else []


_known: dict[tuple[str, str], NDArray[np.float32]] = {}  # by embedder and word: they come again with other questions


def word_vectors(embedder: Embedder, wanted: Sequence[str]) -> dict[str, NDArray[np.float32]]:
    if len(_known) > WORDS_KEPT:
        _known.clear()
    found = {}
    for word in dict.fromkeys(wanted):
        vector = _known.get((embedder.name, word))
        if vector is None:
            vector = _known[embedder.name, word] = embedder.embed_query(word)
        found[word] = vector
    return found


# --- words of a model -------------------------------------------------------------------------------------------------


async def _by_model(query: Query, model: LLM, stage: Any) -> list[Variant]:
    reply = await json_reply(model, VARIANTS_SYSTEM, query.standalone, VARIANTS_SCHEMA, stage)
    return read_variants(reply, query)


def read_variants(reply: Mapping[str, Any], query: Query) -> list[Variant]:
    """What of a reply is searched for; texts of the wrong kind and repeats are left out."""
    wanted: list[tuple[str, Any]] = [("variation", text) for text in _listed(reply.get("variations"))[:VARIATIONS]]
    wanted += [("part", text) for text in _listed(reply.get("parts"))[:VARIATIONS]]
    wanted.append(("broader", reply.get("broader")))
    is_abstract = query.intent in ("analytical", "summary") or len(words(query.standalone)) <= SHORT
    if is_abstract:
        wanted.append(("passage", reply.get("passage")))
    found: dict[str, Variant] = {}
    for kind, text in wanted:
        kept = " ".join(text.split()) if isinstance(text, str) else ""
        if 0 < len(kept) <= LONGEST_TEXT and kept.casefold() != query.standalone.casefold():
            found.setdefault(kept.casefold(), Variant(f"{kind} {len(found) + 1}", kept))
    return list(found.values())


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
