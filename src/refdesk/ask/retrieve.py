"""Chooses the chunks to read: search, prefer named documents, rerank, check, remove duplicates, order by reading.

A comparison is searched once for the whole question and once for each side; their hits are dealt in turn.

Chunks are looked for by strategies, which `rag.strategy` and the plan name (`ask/strategies`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Plan, Query, Retrieved, Turn
from refdesk.ask.authors import AUTHOR, with_authors
from refdesk.ask.citations import stands_alone
from refdesk.ask.no_answer import fitting, unfit_units, without_file_names
from refdesk.ask.sentences import COSINE, COVERAGE, Evidence, label_match, may_stand, question_words, tabulate
from refdesk.ask.strategies import STRATEGIES, SearchStrategy, register
from refdesk.ask.strategies.registry import with_engines
from refdesk.ask.strategies.survey import router_of
from refdesk.ask.wording import NUMBER, SentenceWords, has_question_word, read
from refdesk.document_names import as_called, match_names
from refdesk.library import EngineHits, LibraryReader, SearchPorts, convex, fuse, reciprocal_rank
from refdesk.ports import LEARNED_LANGUAGES, Embedder, Models, NoModels, NoReader, Reader, Reranker
from refdesk.settings import Settings
from refdesk.summaries import ChunkSummary
from refdesk.text import idf, query_terms
from refdesk.trace import Trace, in_thread
from refdesk.types import UNIT, Chunk, Hit, Method, Reading, Scope

# --- how are chunks looked for, unless another strategy is named? By BM25 and vectors ---------------------------------


def _by(method: Method) -> SearchStrategy:
    async def search(query: Query, ports: SearchPorts) -> list[EngineHits]:
        text, vector = query.standalone, query.vector
        hits = await in_thread(ports.library.search, text, vector, ports.k, method, ports.scope, ports.settings)
        return [EngineHits(method, hits)]

    return search


register("dense")(_by("dense"))
register("hybrid")(_by("hybrid"))
register("two_stage")(_by("hybrid"))  # with the plan's deeper candidates; the second stage is the reranker

# --- which of them will be read? --------------------------------------------------------------------------------------

ONE_SEARCH = frozenset({"dense", "hybrid", "two_stage"})
PREFERENCE = 0.3  # added to the score of a hit in the document the question names (benchmarks/filings.py)
# Of the candidates: how deep the named documents are searched alone, and how many of all go on to the reranker. As deep
# as the others, .69 of financebench's pages were among 20 hits; twice as deep .73, the same as with the document known.
PREFERRED_DEPTH, PREFERRED_ROOM = 2.0, 1.25
UNNAMED = 2  # best hits of any document that are read too: what a file is called after is named for itself as well
# How often the hits of a follow-up with its topic count beside those of it as typed. recall@5 of the 45 follow-ups of
# mtrag_govt that are not sure: typed .446, once .512, twice .579, three times .617, with the topic alone .599.
BESIDE_WEIGHT = 3
NO_READER, NO_MODELS = NoReader(), NoModels()
MOST_TABLES = 3  # added to the hits of a question that asks for a number
SAME_LABEL = 0.6  # F1 of the words of a row's label and of what is asked for


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What every step of one retrieval is handed; `rows` and `weights` are filled as chunks come in."""

    plan: Plan
    scope: Scope
    library: LibraryReader
    embedder: Embedder
    reranker: Reranker
    settings: Settings
    trace: Trace
    reader: Reader = NO_READER
    models: Models = NO_MODELS
    turns: Sequence[Turn] = ()
    rows: Evidence = field(default_factory=Evidence)
    weights: dict[str, float] = field(default_factory=dict)
    readings: dict[int, Reading] = field(default_factory=dict)
    preferred: dict[str, float] = field(default_factory=dict)
    chosen: set[int] = field(default_factory=set)  # ids of chunks that a model named one by one
    others: dict[int, ChunkSummary] = field(default_factory=dict)  # what is read in short, nearest first

    @property
    def has_router(self) -> bool:
        """A model that reads all there is needs no second search for sides or names: it is asked once."""
        return self.plan.strategy == "survey" and router_of(self.models) is not None


async def retrieve(query: Query, job: Retrieval) -> Retrieved:
    """The hits to be read, best first, with what the later stages need to know of them."""
    sides, ranked = await find(query, job)
    return await in_thread(choose, job, query, sides, ranked)


async def find(query: Query, job: Retrieval) -> tuple[list[Query], list[list[Hit]]]:
    """What is searched for, each side of a comparison too, and the candidates of each."""
    has_sides = len(query.parts) > 1 and not job.has_router
    sides = [query, *(await in_thread(_sides, job, query) if has_sides else ())]
    return sides, [await _ranked(job, side) for side in sides]


def choose(job: Retrieval, query: Query, sides: Sequence[Query], ranked: Sequence[list[Hit]]) -> Retrieved:
    """Of what was found for each side, what will be read."""
    considered = interleave(ranked) if len(ranked) > 1 else ranked[0]
    kept = [_checked(job, side, hits) for side, hits in zip(sides, ranked, strict=True)]
    hits = _with_rows(job, query, _thinned(job, query, interleave(kept) if len(kept) > 1 else kept[0]), considered)
    return Retrieved(
        hits=tuple(hits),
        considered=tuple(considered),
        sentence_vectors=job.rows,
        idf={term: job.weights[term] for term in query.terms},
        preferred_documents=tuple(job.preferred),
        neighbours=_neighbours(job, hits),
        readings=job.readings,
        others=_in_short(job, hits),
    )


def _in_short(job: Retrieval, hits: Sequence[Hit]) -> tuple[ChunkSummary, ...]:
    """What a survey has seen and does not read in full; hits that were thinned out are among it."""
    if job.plan.strategy != "survey":
        return ()
    read = {hit.chunk.id for hit in hits}
    return tuple(summary for chunk_id, summary in job.others.items() if chunk_id not in read)


# --- searching -------------------------------------------------------------------------------------------------------


def _sides(job: Retrieval, query: Query) -> list[Query]:
    """The sides of a comparison as queries of their own; each costs one embedding."""
    with job.trace.stage("sides", parts=len(query.parts)):
        languages = job.library.languages
        sides = [(part, job.embedder.embed_query(part), tuple(query_terms(part, languages))) for part in query.parts]
        return [replace(query, standalone=part, vector=vector, terms=own, parts=()) for part, vector, own in sides]


async def _ranked(job: Retrieval, query: Query) -> list[Hit]:
    """The candidates of one query, in the order they answer it."""
    with job.trace.stage("search", strategy=job.plan.strategy, k=job.plan.candidates) as stage:
        hits = fuse(await _found(job, query), job.settings.rrf_k)[: max(job.plan.candidates, len(job.chosen))]
        stage.gave(hits=len(hits))
    strengths, ranked = await in_thread(_ranked_unless_named, job, query, hits)
    if strengths and not job.chosen:
        with job.trace.stage("prefer", hits=len(hits), documents=len(strengths)) as stage:
            named = replace(job.scope, documents=tuple(strengths))
            own = await _search(job, query, named, round(PREFERRED_DEPTH * job.plan.candidates))
            most = round(PREFERRED_ROOM * job.plan.candidates)
            if job.plan.strategy in ONE_SEARCH:
                weight = 1.0 if job.plan.strategy == "dense" else job.settings.dense_weight
                found = merged(hits, fuse(own, job.settings.rrf_k), job.settings, weight)
            else:  # their order is not that of two scores
                found = together([EngineHits("all", hits), *own], job.settings.rrf_k)
            hits = strongest(found, strengths, most)
            stage.gave(hits=len(hits))
        ranked = await in_thread(_reranked_within, job, query, hits, strengths)
    return ranked


def _reranked_within(job: Retrieval, query: Query, hits: list[Hit], strengths: Mapping[str, float]) -> list[Hit]:
    """By the question with and without the names of these documents, which tell none of their passages from another."""
    ranked = _reranked(job, query, hits, strengths)
    files = [document.name for document in job.library.documents(job.scope) if document.id in strengths]
    if not (text := without_file_names(query.standalone, files)):
        return ranked
    vector, terms = job.embedder.embed_query(text), tuple(query_terms(text, job.library.languages))
    nameless = replace(query, standalone=text, vector=vector, terms=terms)
    other = {hit.chunk.id: hit.score for hit in _reranked(job, nameless, hits, strengths)}
    return best_first(replace(hit, score=(hit.score + other[hit.chunk.id]) / 2) for hit in ranked)


def _ranked_unless_named(job: Retrieval, query: Query, hits: list[Hit]) -> tuple[dict[str, float], list[Hit]]:
    """The documents that are named, which are then searched too; the hits in their order where none is."""
    strengths = _strengths(job, query)
    return strengths, [] if strengths else _reranked(job, query, hits, strengths)


def _reranked(job: Retrieval, query: Query, hits: list[Hit], strengths: Mapping[str, float]) -> list[Hit]:
    _weigh(job, query.terms)
    _load(job, (hit.chunk.id for hit in hits))
    if not job.plan.rerank:
        job.trace.skip("rerank", "not part of the plan")
    elif len(hits) > 1:
        with job.trace.optional("rerank", hits=len(hits), reranker=job.reranker.name):
            weights = {term: job.weights[term] for term in query.terms}
            hits = job.reranker.rerank(query, hits, job.rows, weights)
    return raise_preferred(penalise(hits, job.settings, is_read=job.plan.read), strengths, PREFERENCE)


async def _search(job: Retrieval, query: Query, scope: Scope, k: int) -> list[EngineHits]:
    strategy = STRATEGIES.get(job.plan.strategy, STRATEGIES["hybrid"])
    ports = SearchPorts(job.library, job.embedder, job.settings, scope, k, job.models, job.trace, job.turns)
    found = await strategy(query, ports)
    if job.plan.engines:
        found = await with_engines(job.plan.engines, found, query, ports)
    for engine in found:
        job.chosen.update(hit.chunk.id for hit in engine.hits if engine.are_chosen)
        for summary in engine.others:
            job.others.setdefault(summary.chunk_id, summary)
    return found if len(found) < 2 else [EngineHits(job.plan.strategy, together(found, job.settings.rrf_k))]


def together(lists: Sequence[EngineHits], rrf_k: int) -> list[Hit]:
    """`fuse`, with scores on the scale of the first list: what is added to them later is meant for that one."""
    hits = fuse(lists, rrf_k)
    if len(lists) < 2 or not hits:
        return hits
    scale = (max((hit.score for hit in lists[0].hits), default=0.0) or 1.0) / hits[0].score
    return [replace(hit, score=hit.score * scale) for hit in hits]


async def _found(job: Retrieval, query: Query) -> list[EngineHits]:
    """What the plan's strategy finds; for a follow-up that is not sure, also for the question as typed.

    `query.vector` is that of the question with its topic.
    """
    if not query.beside or job.has_router:
        return await _search(job, query, job.scope, job.plan.candidates)
    vector = await in_thread(job.embedder.embed_query, query.standalone)
    with_topic = await _search(job, replace(query, standalone=query.beside), job.scope, job.plan.candidates)
    typed = await _search(job, replace(query, vector=vector), job.scope, job.plan.candidates)
    return [*(replace(found, weight=BESIDE_WEIGHT) for found in with_topic), *typed]


def merged(hits: Sequence[Hit], others: Sequence[Hit], settings: Settings, dense_weight: float) -> list[Hit]:
    """Two lists as one; their scores are made anew, because each was made relative to its own best hit."""
    every = {hit.chunk.id: hit for hit in (*others, *hits)}
    if settings.fusion == "rrf":
        ranked = reciprocal_rank([[hit.chunk.id for hit in ranking] for ranking in (hits, others)], settings.rrf_k)
    else:
        lexical = {chunk_id: hit.lexical_score for chunk_id, hit in every.items() if hit.lexical_score}
        cosines = {chunk_id: hit.cosine for chunk_id, hit in every.items()}
        ranked = convex(lexical, cosines, dense_weight)
    return [replace(every[chunk_id], score=score) for chunk_id, score in ranked]


def strongest(hits: Sequence[Hit], strengths: Mapping[str, float], most: int) -> list[Hit]:
    """As many as the reranker is given, chosen as if their documents had been preferred already."""
    preferred = raise_preferred(hits, strengths, PREFERENCE)[:most]
    chosen = {hit.chunk.id for hit in (*preferred, *best_first(hits)[:UNNAMED])}
    return [hit for hit in hits if hit.chunk.id in chosen]


def with_unnamed(hits: Sequence[Hit], strengths: Mapping[str, float], most: int) -> list[Hit]:
    """The first of them; behind as many of these as there are, those that would be first had nothing been named."""
    if not strengths:
        return list(hits[:most])
    raised = {name: PREFERENCE * strength / (1.0 + PREFERENCE) for name, strength in strengths.items()}
    unnamed = sorted(hits, key=lambda hit: (raised.get(hit.document.id, 0.0) - hit.score, hit.chunk.id))[:UNNAMED]
    return list({hit.chunk.id: hit for hit in (*hits[:UNNAMED], *unnamed, *hits)}.values())[:most]


def _strengths(job: Retrieval, query: Query) -> dict[str, float]:
    """The documents that this query names; none when the caller has chosen the document himself."""
    if not job.settings.prefer_documents or len(job.scope.documents) == 1:
        job.trace.skip("prefer", "switched off" if not job.settings.prefer_documents else "one document is in scope")
        return {}
    strengths = match_names(query.fullest, job.library.documents(job.scope))
    if not strengths:
        job.trace.skip("prefer", "the question names no document")
    for document_id, strength in strengths.items():
        job.preferred[document_id] = max(strength, job.preferred.get(document_id, 0.0))
    return strengths


def _weigh(job: Retrieval, terms: Iterable[str]) -> None:
    new = [term for term in terms if term not in job.weights]
    job.weights.update(idf(job.library.frequencies(new), job.library.chunk_count))


def _load(job: Retrieval, chunk_ids: Iterable[int]) -> None:
    if missing := [chunk_id for chunk_id in chunk_ids if chunk_id not in job.rows]:
        job.rows.update(job.library.sentence_vectors(missing))


def _neighbours(job: Retrieval, hits: Sequence[Hit]) -> dict[int, list[Chunk]]:
    """The chunks that may be joined to a hit; their sentence vectors too: they are quoted and checked like its own."""
    growing = [hit.chunk for hit in hits if not stands_alone(hit.chunk)] if job.settings.neighbours else []
    found = job.library.neighbours(growing, job.settings.neighbours) if growing else {}
    _load(job, dict.fromkeys(chunk.id for around in found.values() for chunk in around))
    return found


# --- choosing --------------------------------------------------------------------------------------------------------


def _checked(job: Retrieval, query: Query, hits: Sequence[Hit]) -> list[Hit]:
    """Without the hits that do not bear on the question (self-RAG)."""
    if not job.plan.check_relevance:
        job.trace.skip("check", "not part of the plan")
        return list(hits)
    with job.trace.stage("check", hits=len(hits)) as stage:
        kept = relevant(hits, query, job.rows, job.weights, job.settings.similarity_threshold)
        if job.chosen:
            kept = [hit for hit in hits if hit.chunk.id in job.chosen or hit in kept]
        stage.gave(hits=len(kept))
    return kept


def _with_rows(job: Retrieval, query: Query, hits: list[Hit], considered: Sequence[Hit]) -> list[Hit]:
    """Where a number is asked for, also the tables that have a row for it.

    A row shares few words with a question, so that its table ranks below the prose that speaks about it.
    """
    if query.number < NUMBER:
        job.trace.skip("rows", "the question does not ask for a number")
        return hits
    question, known = question_words(query.fullest), {hit.chunk.id for hit in hits}
    tables = [hit for hit in considered if hit.chunk.kind == "table" and hit.chunk.id not in known]
    with job.trace.stage("rows", tables=len(tables)) as stage:
        matches = {hit.chunk.id: max(label_match(question, row) for row in _rows(hit.chunk)) for hit in tables}
        best = sorted(tables, key=lambda hit: -matches[hit.chunk.id])
        found = [hit for hit in best[:MOST_TABLES] if matches[hit.chunk.id] >= SAME_LABEL]
        stage.gave(tables=len(found))
    return [*hits, *found]


def _rows(chunk: Chunk) -> list[SentenceWords]:
    return [read(chunk.text[start:end]) for start, end, *_ in chunk.sentences] or [read(chunk.text)]


def _thinned(job: Retrieval, query: Query, hits: Sequence[Hit]) -> list[Hit]:
    """Without repeats, as a reader orders them, diverse where the plan asks for it, as many as the plan reads."""
    k = max(job.plan.k, len(job.chosen))
    with job.trace.stage("deduplicate", hits=len(hits)) as stage:
        # Twice as many as are read leaves room for what is dropped; the rest cannot come in.
        first = {hit.chunk.id for hit in with_unnamed(hits, job.preferred, 2 * k)}
        unique = without_repeats([hit for hit in hits if hit.chunk.id in first], job.rows, job.settings.deduplication)
        stage.gave(hits=len(unique))
    unique = _read(job, query, unique)
    if not job.plan.use_mmr:
        job.trace.skip("diversify", "the question does not ask for breadth")
        return unique[:k]
    with job.trace.stage("diversify", hits=len(unique)) as stage:
        chosen = diverse(unique, job.rows, job.settings.mmr_lambda, k)
        stage.gave(hits=len(chosen))
    return chosen


def _read(job: Retrieval, query: Query, hits: list[Hit]) -> list[Hit]:
    """The hits in the order that a reader gives them; what it has read is kept for judging and quoting."""
    if not job.plan.read:
        job.trace.skip("read", "not part of this level")
    elif len(query.parts) > 1 or query.intent == "summary":
        job.trace.skip("read", "no single passage can answer it")
    else:
        with job.trace.optional("read", hits=len(hits), reader=job.reader.name) as stage:
            units = unfit_units(query.fullest, job.embedder)
            fit = partial(fitting, query=query, units=units, embedder=job.embedder, reader=job.reader)
            in_turn = with_unnamed(hits, job.preferred, len(hits))
            job.readings.update(read_hits(_read_for(query), in_turn, job.reader, fit))
            if query.catalogue == AUTHOR:
                hits = with_authors(query, hits, job.readings, job.scope, job.library, job.reader, job.settings)
            _load(job, (hit.chunk.id for hit in hits[:1]))
            stage.gave(passages=len(job.readings), tokens=sum(reading.tokens for reading in job.readings.values()))
    return ordered(hits, job.readings)


def _read_for(query: Query) -> str:
    """Without the question before, where this one asks by itself: "And the total? (Who is the cashier?)" gave him."""
    return query.standalone if query.beside and has_question_word(query.standalone) else query.fullest


# --- which of the hits are worth reading, and in which order? Penalties, relevance, repeats, diversity, sides ---------

Rows = Mapping[int, NDArray[np.int8]]  # sentence vectors by chunk id, scaled by 127

BM25_CEILING = 2.2  # k1 + 1: what a term adds at most for each unit of its idf
# Share of the question's weight in words, above which a chunk bears on it. With it and a threshold of .35, of the right
# chunks .08 % are dropped on squad_dev11, 0 on hotpot500, .15 on mtrag_govt, .16 on cranfield; of the others up to 5 %.
SHARED_WORDS = 0.1
STRONG_SENTENCE = 0.1  # cosine above the threshold that one sentence alone needs

_FACT = re.compile(r"(?<![^\W_])[^\W_]*(?:\d|[^\W\d_a-z])[\w.,]*\w|\d|[A-Z]")  # words with a digit or a capital letter


def penalise(hits: Sequence[Hit], settings: Settings, *, is_read: bool = False) -> list[Hit]:
    """Glossaries, credits and contents name much and answer little (seed 001 step 7); a reader judges a glossary."""
    taken = {"credits": settings.credits_penalty, "toc": settings.toc_penalty}
    taken |= {} if is_read else {"glossary": settings.glossary_penalty}
    lowered = [
        replace(hit, score=hit.score * (1.0 - taken[hit.chunk.kind])) if hit.chunk.kind in taken else hit
        for hit in hits
    ]
    return best_first(lowered)


def raise_preferred(hits: Sequence[Hit], strengths: Mapping[str, float], bonus: float) -> list[Hit]:
    """Hits of documents that the question names move up by at most `bonus`; the others can still win.

    All are divided by the most that can be reached, so that a score still ends at 1.
    """
    if not strengths:
        return best_first(hits)
    most = 1.0 + bonus
    raised = (hit.score + bonus * strengths.get(hit.document.id, 0.0) for hit in hits)
    return best_first(replace(hit, score=score / most) for hit, score in zip(hits, raised, strict=True))


def best_first(hits: Iterable[Hit]) -> list[Hit]:
    """Sorted by score; equal scores keep the order of the library, so that the same question gives the same hits."""
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))


# --- relevance -------------------------------------------------------------------------------------------------------


def relevant(
    hits: Sequence[Hit], query: Query, rows: Rows, weights: Mapping[str, float], threshold: float
) -> list[Hit]:
    """The hits that bear on the question: near in meaning, or sharing telling words, or holding one near sentence.

    The best hit of all always stays: whether it answers is judged later, on all the evidence.
    """
    ceiling = BM25_CEILING * sum(weights.get(term, 0.0) for term in query.terms) or 1.0
    return [
        hit
        for place, hit in enumerate(hits)
        if place == 0
        or hit.cosine >= threshold
        or hit.lexical_score >= SHARED_WORDS * ceiling
        or best_sentence(query.vector, rows.get(hit.chunk.id))[0] >= threshold + STRONG_SENTENCE
    ]


def best_sentence(vector: NDArray[np.float32], rows: NDArray[np.int8] | None) -> tuple[float, int]:
    """(cosine, place) of the sentence nearest to a vector; (-1, -1) without sentences."""
    if rows is None or not len(rows):
        return -1.0, -1
    cosines = np.vecdot(rows.astype(np.float32), vector) / UNIT  # `@` would wake a second thread of BLAS
    place = int(cosines.argmax())
    return float(cosines[place]), place


# --- repeats and diversity -------------------------------------------------------------------------------------------


def chunk_vectors(hits: Sequence[Hit], rows: Rows) -> NDArray[np.float32]:
    """One unit vector per hit: the mean of its sentences; zeros where the library holds none."""
    known = [place for place, hit in enumerate(hits) if len(rows.get(hit.chunk.id, ()))]
    own = [rows[hits[place].chunk.id] for place in known]
    found = np.zeros((len(hits), own[0].shape[1] if own else 1), dtype=np.float32)
    if own:
        starts = np.cumsum([0, *(len(vectors) for vectors in own[:-1])])
        sums = np.add.reduceat(np.concatenate(own), starts, axis=0, dtype=np.float32)
        with np.errstate(invalid="ignore"):
            found[known] = np.nan_to_num(sums / np.linalg.norm(sums, axis=1, keepdims=True))
    return found


def without_repeats(hits: Sequence[Hit], rows: Rows, threshold: float) -> list[Hit]:
    """Hits that say again what a better one said are left out.

    Nearness alone is not enough: the same table of another year is as near as a copy. What is dropped must hold no
    number and no name that the better hit does not hold.
    """
    if not hits:
        return []
    vectors = chunk_vectors(hits, rows)
    likeness = np.vecdot(vectors[:, None], vectors[None])
    kept: list[int] = []
    for place, hit in enumerate(hits):
        near = [
            other for other in kept if likeness[place, other] > threshold or hit.chunk.text == hits[other].chunk.text
        ]
        if not any(facts(hit.chunk.text) <= facts(hits[other].chunk.text) for other in near):
            kept.append(place)
    return [hits[place] for place in kept]


def facts(text: str) -> frozenset[str]:
    """The numbers, codes and names of a text: every word with a digit or a capital letter.

    >>> facts("Buoy W-7 cost $3,500.")
    frozenset({'Buoy', 'W', '7', '3,500'})
    """
    return frozenset(_FACT.findall(text))


def diverse(hits: Sequence[Hit], rows: Rows, share: float, k: int) -> list[Hit]:
    """Maximal marginal relevance: each next hit is relevant and unlike those before it; the best hit stays first.

    Scores are spread over 0 … 1 first, so that `share` (lambda) weighs relevance against likeness on one scale.
    """
    if not hits or k < 1:
        return []
    scores = np.array([hit.score for hit in hits], dtype=np.float32)
    scores = (scores - scores.min()) / (float(np.ptp(scores)) or 1.0)
    vectors = chunk_vectors(hits, rows)
    chosen = [0]
    nearest = np.vecdot(vectors, vectors[0])
    while len(chosen) < min(k, len(hits)):
        worth = share * scores - (1.0 - share) * nearest
        worth[chosen] = -np.inf
        chosen.append(int(worth.argmax()))
        nearest = np.maximum(nearest, np.vecdot(vectors, vectors[chosen[-1]]))
    return [hits[place] for place in chosen]


def interleave(sides: Sequence[Sequence[Hit]]) -> list[Hit]:
    """One hit of each side in turn, each chunk once: both sides of a comparison get their share."""
    found: dict[int, Hit] = {}
    for row in zip_longest(*sides):
        for hit in row:
            if hit is not None:
                found.setdefault(hit.chunk.id, hit)
    return list(found.values())


# In which order should hits be read? By their fused score and by the best sentence each of them holds.

SHARE = 0.4  # of the sentences in the new score: plateau .2-.5, above which scifact and cranfield lose (docs/log.md)


class SentenceReranker:
    """The default `Reranker`: no model is run, the sentences' vectors and words are at hand."""

    name = "sentences"

    def rerank(
        self, query: Query, hits: Sequence[Hit], sentence_vectors: Mapping[int, Any], idf: Mapping[str, float]
    ) -> list[Hit]:
        """The same hits, best first; the best score stays what it was, so that scores of two searches compare."""
        if not hits:
            return []
        best = max(hit.score for hit in hits) or 1.0
        placed = [(number, hit.chunk, 0.0) for number, hit in enumerate(hits)]
        documents = {hit.document.id: hit.document for hit in hits}
        table = tabulate(query, placed, sentence_vectors, idf, documents)
        sentences = np.zeros(len(hits), dtype=np.float32)
        np.maximum.at(sentences, table.chunk, COSINE * table.cosine + COVERAGE * table.coverage)
        top = float(sentences.max()) or 1.0
        blended = [
            (1.0 - SHARE) * hit.score / best + SHARE * float(sentence) / top
            for hit, sentence in zip(hits, sentences, strict=True)
        ]
        scale = best / (max(blended) or 1.0)
        scored = [replace(hit, score=score * scale) for hit, score in zip(hits, blended, strict=True)]
        return sorted(scored, key=lambda hit: -hit.score)


# --- what do the first of them say to the question? A reader reads one after the other until one is sure --------------

# Over the nine sets of training.found, hybrid .737: six passages .773, with the sure one as the last .771 of which 3.9
# are read; the passages not read at -2 .774 (-4 .772, -1 .773, 0 .765). No set is lower than it was.
# Where none of these answers, up to eight: passages of reports are long, so that four of them were 900 tokens.
MOST_PASSAGES, MOST_TOKENS = (6, 8), (900, 2400)
LAST = 3.0  # `answered` of a passage from which on no further one is read
STATED = 4.0  # logit of the answer itself; in 98 of 100 sure passages that answer (squad_dev11, squad2_disfl) above 4.8
UNREAD = -2.0  # what counts as `relevant` of a passage that was not read
SCALE = 20.0  # of the score among the logits; a plateau from 10 to 30


def read_hits(
    question: str, hits: Sequence[Hit], reader: Reader, fit: Callable[[Reading, Hit], Reading] | None = None
) -> dict[int, Reading]:
    """What the first hits say, by the id of their chunk; `fit` leaves out what is no answer to this question."""
    found: dict[int, Reading] = {}
    tokens = 0
    for hit in hits:
        is_learned = hit.document.language in LEARNED_LANGUAGES
        if not is_learned or (reading := reader.read(question, as_called(question, hit))) is None:
            continue
        reading = fit(reading, hit) if fit else reading
        found[hit.chunk.id] = reading
        tokens += reading.tokens
        is_sure = reading.answered >= LAST and _is_quotable(reading, hit.chunk)
        none_answers = max(one.answered for one in found.values()) < 0.0
        if is_sure or len(found) >= MOST_PASSAGES[none_answers] or tokens >= MOST_TOKENS[none_answers]:
            break
    return found


def _is_quotable(reading: Reading, chunk: Chunk) -> bool:
    """Does a sentence that says something hold the likeliest answer? A title may answer, where none of them does."""
    known = [(span.score, place) for place, span in enumerate(reading.spans) if span is not None]
    return not known or (max(known)[0] >= STATED and may_stand(chunk, max(known)[1], is_read=True))


def ordered(hits: Sequence[Hit], readings: dict[int, Reading]) -> list[Hit]:
    """The same hits by their scores and what was read; the best score stays what it was."""
    best = max((hit.score for hit in hits), default=0.0)
    if not readings or best <= 0.0:
        return list(hits)
    worth = [hit.score / best + _relevant(readings.get(hit.chunk.id)) / SCALE for hit in hits]
    most = max(worth)
    scored = [replace(hit, score=best * (value - most + 1.0)) for hit, value in zip(hits, worth, strict=True)]
    return sorted(scored, key=lambda hit: -hit.score)


def _relevant(reading: Reading | None) -> float:
    return UNREAD if reading is None else reading.relevant
