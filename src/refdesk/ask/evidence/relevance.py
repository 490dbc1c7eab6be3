"""Is the answer there at all? A probability from how well the best sentence fits and how far it stands out. Pure.

Where the answer is, one passage stands out from the others of its topic; where it is not, several are equally near.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from refdesk.answer import Query, Retrieved
from refdesk.ask.evidence.calibration import FOUND, FOUND_INTERCEPT
from refdesk.ask.evidence.weigh import COSINE, COVERAGE, MISSING, PROXIMITY, Floats, Table, asked, tabulate
from refdesk.terms import as_typed, terms
from refdesk.types import Hit

LOOKED_AT = 20  # hits that are judged
BESIDE = 7  # next best passages that the best one is compared with
USUAL = 0.25  # evidence of a passage about something else, where there is none to compare with
LEXICAL = 0.3  # share of a passage's BM25 over its ceiling; plateau .2-.6
CEILING = 2.2  # BM25 can give each term no more than k1 + 1 = 2.2 of its idf


# Does a passage that is about it also say it? Set by hand: a question that negates is not answered by a sentence that
# does not, nor by one that lacks its names or its heaviest word.
SAID = {"cosine": 2.0, "lacking": -2.0, "unnamed": -2.0, "negated": -3.0, "fit": 0.3}
SAID_INTERCEPT = 0.1
ODDS = 2.0  # two of three questions put to a library have their answer in it; the weights were fitted at even odds

_NEGATION = re.compile(r"\b(?:not|never|no longer|without|cannot|neither|nor)\b|n['’]t\b|n ['’] t\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Relevance:
    """How likely the answer is in what was found; `missing_terms` are words of the question that nothing holds.

    `missing_names` are those of them that name something: what is said of other things is no answer.
    """

    probability: float
    features: Mapping[str, float]
    missing_terms: tuple[str, ...]
    missing_names: tuple[str, ...] = ()

    @property
    def sizes(self) -> dict[str, float]:
        return {"probability": round(self.probability, 3), "missing": len(self.missing_terms)}


def judge(query: Query, retrieved: Retrieved) -> Relevance:
    """The probability that the hits hold the answer; 0 when nothing was found."""
    hits = _judged(retrieved)
    table = _table(query, hits, retrieved)
    if not len(table.cosine) or not len(table.weights):
        return Relevance(0.0, {}, typed(query, asked(query.fullest).words))
    found = features(query, hits, table, retrieved.idf)
    missing = _missing(query, table)
    names = [word for word in missing if (terms(word) or [""])[0] in asked(query.fullest).reading.names]
    opening = query.fullest.split()[0].strip("\"'“„«([")
    return Relevance(probability(found), found, missing, tuple(one for one in names if one != opening))


def probability(
    found: Mapping[str, float], weights: Mapping[str, float] = FOUND, constant: float = FOUND_INTERCEPT
) -> float:
    """Whether the right passage was found, times whether it says what is asked, at the odds of asking."""
    even = logistic(constant + _sum(weights, found)) * logistic(SAID_INTERCEPT + _sum(SAID, found))
    return ODDS * even / (ODDS * even + 1.0 - even)


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
        "unnamed": float(table.unnamed[best]),
        "negated": float(_is_negated(query.fullest) and not _is_negated(table.readings[best].text)),
    }


def _is_negated(text: str) -> bool:
    return _NEGATION.search(text) is not None


def _judged(retrieved: Retrieved) -> tuple[Hit, ...]:
    """What was looked at and has its sentences at hand, best first; the hits themselves are always among them."""
    own = {hit.chunk.id for hit in retrieved.hits}
    beside = sorted(retrieved.considered, key=lambda hit: -hit.score)
    more = [hit for hit in beside if hit.chunk.id not in own and hit.chunk.id in retrieved.sentence_vectors]
    return (*retrieved.hits, *more)[: max(LOOKED_AT, len(retrieved.hits))]


def _table(query: Query, hits: Sequence[Hit], retrieved: Retrieved) -> Table:
    placed = [(number, hit.chunk, hit.score) for number, hit in enumerate(hits)]
    documents = {hit.document.id: hit.document for hit in hits}
    return tabulate(query, placed, retrieved.sentence_vectors, retrieved.idf, documents)


def _union(table: Table, place: int) -> Floats:
    """How much of each word a passage holds."""
    found: Floats = table.credit[table.chunk == place].max(axis=0)
    return found


def _missing(query: Query, table: Table) -> tuple[str, ...]:
    """Words of the question that no passage and no heading holds."""
    question = asked(query.fullest)
    held = table.credit.max(axis=0)
    lacking = [w for w, part in zip(question.words, held, strict=True) if part < MISSING and not question.frames(w)]
    return typed(query, [word for word in lacking if len(word) > 1])


def typed(query: Query, found: Sequence[str]) -> tuple[str, ...]:
    """The words as they were typed, once each: `fundy` -> `Fundy`, `2019` -> `FY2019`."""
    shown = as_typed(query.fullest)
    return tuple(dict.fromkeys(shown.get(word, word) for word in found))


def _sum(weights: Mapping[str, float], found: Mapping[str, float]) -> float:
    return sum(weight * found[name] for name, weight in weights.items())


def logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, value))))
