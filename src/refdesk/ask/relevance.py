"""Is the answer there at all? A probability from how well the best sentence fits and how far it stands out. Pure.

Where the answer is, one passage stands out from the others of its topic; where it is not, several are equally near.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refdesk.answer import Query, Retrieved
from refdesk.ask.calibration import RELEVANCE, RELEVANCE_INTERCEPT
from refdesk.ask.evidence import COSINE, COVERAGE, PROXIMITY, Floats, Table, asked, tabulate
from refdesk.types import Hit

LOOKED_AT = 20  # hits that are judged
BESIDE = 7  # next best passages that the best one is compared with
USUAL = 0.25  # evidence of a passage about something else, where there is none to compare with
LEXICAL = 0.3  # share of a passage's BM25 over its ceiling; plateau .2-.6
CEILING = 2.2  # BM25 can give each term no more than k1 + 1 = 2.2 of its idf
MISSING = 0.3  # a word that less of than this is held anywhere is missing


@dataclass(frozen=True, slots=True)
class Relevance:
    """How likely the answer is in what was found; `missing_terms` are words of the question that nothing holds."""

    probability: float
    features: Mapping[str, float]
    missing_terms: tuple[str, ...]


def judge(query: Query, retrieved: Retrieved) -> Relevance:
    """The probability that the hits hold the answer; 0 when nothing was found."""
    hits = _judged(retrieved)
    table = _table(query, hits, retrieved)
    if not len(table.cosine) or not len(table.weights):
        return Relevance(0.0, {}, asked(query.standalone).words)
    found = features(query, hits, table, retrieved.idf)
    logit = RELEVANCE_INTERCEPT + sum(weight * found[name] for name, weight in RELEVANCE.items())
    return Relevance(1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit)))), found, _missing(query, table))


def features(query: Query, hits: Sequence[Hit], table: Table, idf: Mapping[str, float]) -> dict[str, float]:
    """What the probability is made of."""
    ceiling = CEILING * max(sum(idf.get(term, 0.0) for term in query.terms), 1e-6)
    lexical = np.array([hit.lexical_score / ceiling for hit in hits], dtype=np.float32)
    evidence = COSINE * table.cosine + COVERAGE * table.coverage + PROXIMITY * table.proximity
    evidence = evidence + LEXICAL * lexical[table.chunk]
    best = int(evidence.argmax())
    passages = np.full(len(hits), -1.0, dtype=np.float32)
    np.maximum.at(passages, table.chunk, evidence)
    ranked = np.sort(passages[passages > -1.0])[::-1]
    others = ranked[1 : 1 + BESIDE]
    place = int(table.chunk[best])
    return {
        "best": float(ranked[0]),
        "gap": float(ranked[0] - (others.mean() if len(others) else USUAL)),
        "cosine": float(table.cosine.max()),
        "coverage": float(_union(table, place) @ table.weights),
        "lacking": float(((1.0 - table.credit[best]) * table.weights).max()),
        "fit": float(table.fit[best]),
        "passage_cosine": float(hits[place].cosine),
        "lexical": float(lexical.max()),
    }


def _judged(retrieved: Retrieved) -> tuple[Hit, ...]:
    """What was looked at and has its sentences at hand, best first; the hits themselves are always among them."""
    own = {hit.chunk.id for hit in retrieved.hits}
    beside = sorted(retrieved.considered, key=lambda hit: -hit.score)
    more = [hit for hit in beside if hit.chunk.id not in own and hit.chunk.id in retrieved.sentence_vectors]
    return (*retrieved.hits, *more)[: max(LOOKED_AT, len(retrieved.hits))]


def _table(query: Query, hits: Sequence[Hit], retrieved: Retrieved) -> Table:
    placed = [(number, hit.chunk, hit.score) for number, hit in enumerate(hits)]
    languages = {hit.document.id: hit.document.language or "en" for hit in hits}
    return tabulate(query, placed, retrieved.sentence_vectors, retrieved.idf, languages)


def _union(table: Table, place: int) -> Floats:
    """How much of each word a passage holds."""
    found: Floats = table.credit[table.chunk == place].max(axis=0)
    return found


def _missing(query: Query, table: Table) -> tuple[str, ...]:
    """Words of the question, as they were typed, that no passage and no heading holds."""
    held = table.credit.max(axis=0)
    lacking = {
        word for word, part in zip(asked(query.standalone).words, held, strict=True) if part < MISSING and len(word) > 1
    }
    typed = query.standalone.replace("?", " ").replace(",", " ").split()
    by_word = {one.strip("\"'“”‘’().!:;").lower(): one.strip("\"'“”‘’().!:;") for one in typed}
    return tuple(by_word.get(word, word) for word in asked(query.standalone).words if word in lacking)
