"""Decides whether the answer is there at all: a probability from how well the best sentence fits and stands out. Pure.

Where the answer is, one passage stands out from the others of its topic; where it is not, several are equally near.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from refdesk.answer import (
    CHANCE_DIGITS,
    SCORE_DIGITS,
    Answer,
    Citation,
    Claim,
    Confidence,
    ConfidenceLevel,
    Context,
    Plan,
    Query,
    Question,
    Retrieved,
    Source,
    Sufficiency,
    Verdict,
)
from refdesk.ask.assemble import sizes
from refdesk.ask.attest import Settled
from refdesk.ask.classify import asked_form
from refdesk.ask.draft import Draft, failed_models, not_planted
from refdesk.ask.extract import Quote, leaves_out, rare_names, short_answer
from refdesk.ask.figures import CURRENCIES, conflicts
from refdesk.ask.followup import points_back
from refdesk.ask.retrieve import BM25_CEILING
from refdesk.ask.sentences import (
    CALIBRATION,
    COSINE,
    COVERAGE,
    FRAME_WEIGHT,
    MISSING,
    PROXIMITY,
    SHARED_LETTERS,
    SentenceTable,
    answer_differently,
    are_alike,
    asking_part,
    question_words,
    tabulate,
)
from refdesk.ask.wording import LIKELY, SentenceWords, asks_yes_or_no, is_missing, log_odds, read, said, wanted
from refdesk.settings import Settings
from refdesk.text import as_typed, query_terms, terms
from refdesk.trace import Trace
from refdesk.types import Document, Hit

CONFIDENCE = CALIBRATION["confidence"]
LOOKED_AT = 20  # hits that are judged
BESIDE = 7  # next best passages that the best one is compared with
USUAL = 0.25  # evidence of a passage about something else, where there is none to compare with
LEXICAL = 0.3  # share of a passage's BM25 over its ceiling; plateau .2-.6
ODDS = 2.0  # two of three questions put to a library have their answer in it; `found` was fitted at even odds
FORM = 0.8  # chance that the caption of this number is meant; nothing has measured it


@dataclass(frozen=True, slots=True)
class Relevance:
    """How likely the answer is in what was found; `missing_terms` are words of the question that nothing holds.

    `missing_names` are those that name something: what is said of other things is no answer. `told` is how likely a
    reader finds it, also where words decide whether to refuse.
    """

    probability: float
    features: Mapping[str, float]
    missing_terms: tuple[str, ...]
    missing_names: tuple[str, ...] = ()
    told: float = 1.0
    asked_names: frozenset[str] = frozenset()

    @property
    def sizes(self) -> dict[str, float]:
        return {"probability": round(self.probability, CHANCE_DIGITS), "missing": len(self.missing_terms)}


def judge(query: Query, retrieved: Retrieved) -> Relevance:
    """The probability that the hits hold the answer; 0 when nothing was found."""
    hits = _judged(retrieved)
    table = _table(query, hits, retrieved)
    if not len(table.cosine) or not len(table.weights):
        return Relevance(0.0, {}, typed(query, question_words(query.fullest).words))
    chance = told = probability(found := features(query, hits, table, retrieved.idf))
    if readings := retrieved.readings.values():
        found |= {name: max(getattr(one, name) for one in readings) for name in ("answered", "relevant")}
        found["words"] = log_odds(learned("found", found))
        told = probability(found)
        if asks_yes_or_no(query.fullest):  # of which it has learned little: words count as much (docs/log.md)
            chance = logistic((log_odds(chance) + log_odds(told)) / 2)
        elif not (found["row"] and wanted(query) == "several"):  # nor of many cells
            chance = told
    if (is_asked := asked_form(query.fullest)) and any(is_asked(sentence.text) for sentence in table.sentences):
        chance = told = max(chance, FORM)
    missing = _missing(query, table)
    asked = question_words(asking_part(query.fullest)).sentence.names
    # What money it is asked in is no thing that must be named: reports write "$".
    names = [word for word in missing if (terms(word) or [""])[0] in asked and word not in CURRENCIES]
    opening = query.fullest.split()[0].strip("\"'“„«([")
    dotted = [name for name in names if name.isupper() and any(".".join(name) in hit.chunk.text for hit in hits)]
    names = [name for name in names if name != opening and name not in dotted]
    return Relevance(chance, found, missing, tuple(names), told, rare_names(asked.difference(terms(opening)), hits))


def probability(found: Mapping[str, float]) -> float:
    """Whether what is asked stands in what was found; a row of a table is judged by its words and by the reader."""
    if "answered" in found:
        return learned("read_row" if found["row"] else "read_found", found)
    even = learned("found", found)
    return ODDS * even / (ODDS * even + 1.0 - even)


def features(query: Query, hits: Sequence[Hit], table: SentenceTable, idf: Mapping[str, float]) -> dict[str, float]:
    """What the probability is made of."""
    ceiling = BM25_CEILING * max(sum(idf.get(term, 0.0) for term in query.terms), 1e-6)
    lexical = np.array([hit.lexical_score / ceiling for hit in hits], dtype=np.float32)
    evidence = COSINE * table.cosine + COVERAGE * table.coverage + PROXIMITY * table.proximity
    evidence = evidence + LEXICAL * lexical[table.chunk]
    best = int(evidence.argmax())
    starts = np.flatnonzero(np.diff(table.chunk, prepend=-1))  # sentences stand by chunk, in order
    ranked = np.sort(np.maximum.reduceat(evidence, starts))[::-1]  # each passage by its best sentence
    others = ranked[1 : 1 + BESIDE]
    place = int(table.chunk[best])
    return {
        "best": float(ranked[0]),
        "gap": float(ranked[0] - (others.mean() if len(others) else USUAL)),
        "cosine": float(table.cosine.max()),
        "coverage": float(table.credit[table.chunk == place].max(axis=0) @ table.weights),
        "passage_cosine": float(hits[place].cosine),
        "lexical": float(lexical.max()),
        "unnamed": float(table.unnamed[best]),
        "row": float(hits[place].chunk.kind == "table"),
    }


def _judged(retrieved: Retrieved) -> tuple[Hit, ...]:
    """What was looked at and has its sentences at hand, best first; the hits themselves are always among them."""
    own = {hit.chunk.id for hit in retrieved.hits}
    beside = sorted(retrieved.considered, key=lambda hit: -hit.score)
    more = [hit for hit in beside if hit.chunk.id not in own and hit.chunk.id in retrieved.sentence_vectors]
    return (*retrieved.hits, *more)[: max(LOOKED_AT, len(retrieved.hits))]


def _table(query: Query, hits: Sequence[Hit], retrieved: Retrieved) -> SentenceTable:
    placed = [(number, hit.chunk, hit.score) for number, hit in enumerate(hits)]
    documents = {hit.document.id: hit.document for hit in hits}
    return tabulate(query, placed, retrieved.sentence_vectors, retrieved.idf, documents)


def _missing(query: Query, table: SentenceTable) -> tuple[str, ...]:
    """Words of the question that no passage and no heading holds."""
    question = question_words(query.fullest)
    best_credit = table.credit.max(axis=0)
    lacking = [
        w for w, part in zip(question.words, best_credit, strict=True) if part < MISSING and not question.frames(w)
    ]
    return typed(query, [word for word in lacking if len(word) > 1])


def typed(query: Query, found: Sequence[str]) -> tuple[str, ...]:
    """The words as they were typed, once each: `fundy` -> `Fundy`, `2019` -> `FY2019`."""
    shown = as_typed(query.fullest)
    return tuple(dict.fromkeys(shown.get(word, word) for word in found))


def learned(name: str, found: Mapping[str, float]) -> float:
    """The chance that weights of this name give to features."""
    weights: Mapping[str, float] = CALIBRATION[name]
    return logistic(
        CALIBRATION[f"{name}_intercept"] + sum(weight * found[feature] for feature, weight in weights.items())
    )


def logistic(value: float) -> float:
    return 1.0 / (1.0 + math.exp(-value))


# Is the answer enough? What of the question it covers, where its sources disagree, what is missing.

ENOUGH = 0.5  # share of the question's words that the quotes and their headings hold
MOST_TOPICS = 3


def sufficiency(
    query: Query, relevance: Relevance, context: Context, claims: Sequence[Claim], citations: Sequence[Citation]
) -> Sufficiency:
    """How much of the question the cited sentences cover, and what they leave open."""
    if not claims or not citations:
        return Sufficiency(is_sufficient=False, coverage_score=0.0, missing_aspects=relevance.missing_terms)
    titles = {passage.document.id: passage.document.title for passage in context.passages}
    quoted = [
        f"{citation.quote} {' '.join(citation.heading_path)} {titles.get(citation.document_id, '')}"
        for citation in citations
    ]
    quoted_words = read(" ".join(quoted))  # with the headings it stands under
    missing = _left_open(query, relevance, quoted_words)
    coverage = _coverage(query, quoted_words)
    found = conflicts(query, context, citations)
    grounded = any(claim.verdict == "supported" for claim in claims)
    sides_missing = any(part in missing for part in query.parts)
    return Sufficiency(
        is_sufficient=grounded and coverage >= ENOUGH and not sides_missing,
        coverage_score=round(coverage, CHANCE_DIGITS),
        has_conflicts=bool(found),
        conflicts=found,
        missing_aspects=missing,
    )


def nearest_topics(retrieved: Retrieved) -> tuple[str, ...]:
    """Up to three headings or titles of what the library does hold near the question, best first.

    ("Travel and expenses", "Service price list 2026")
    """
    found: list[str] = []
    for hit in retrieved.hits:
        path = hit.chunk.heading_path
        topic = (path[-1] if path else "") or hit.document.title or hit.document.name
        if topic and topic not in found:
            found.append(topic)
    return tuple(found[:MOST_TOPICS])


# --- coverage --------------------------------------------------------------------------------------------------------


def _coverage(query: Query, words: SentenceWords) -> float:
    question = question_words(query.fullest)
    weights = [FRAME_WEIGHT if question.frames(word) else 1.0 for word in question.words]
    found = sum(w for word, w in zip(question.words, weights, strict=True) if _has(words, word))
    return found / sum(weights) if weights else 0.0


def _has(words: SentenceWords, word: str) -> bool:
    stem = (terms(word) or [word])[0]
    if stem in words.terms:
        return True
    return len(stem) >= SHARED_LETTERS and any(are_alike(stem, term) for term in words.content)


def _left_open(query: Query, relevance: Relevance, words: SentenceWords) -> tuple[str, ...]:
    """Sides of a comparison, names and numbers that no quote holds; where the answer is doubtful, every word.

    A good answer may well say "weighs" where the question says "heavy".
    """
    nowhere = frozenset(terms(" ".join(relevance.missing_terms)))
    sides = [
        part
        for part in query.parts
        if not words.terms.intersection(query_terms(part)) or nowhere.intersection(query_terms(part))
    ]
    question = question_words(query.fullest)
    absent = typed(
        query, [word for word in question.words if terms(word)[0] in question.named and not _has(words, word)]
    )
    doubtful = relevance.missing_terms if relevance.probability < ENOUGH else ()
    covered = " ".join(sides).lower()
    found = dict.fromkeys((*absent, *doubtful))
    return (*sides, *(word for word in found if word.lower() not in covered))


# How sure may a reader be? Relevance times grounding, calibrated on data, with the reason in plain words.

# "high" is right at least so often: .91 on squadshift_reddit, .93 on squad2_disfl, .97 on squad_dev11, a third of the
# questions without their passages (420 each); from .88 on .93, .92 and .93.
HIGH, MEDIUM = 0.9, LIKELY
# Log-odds less where quotes that answer almost as well say different things. Of squadshift_reddit and squad2_disfl (400
# short answers) 2 of 9 such that were `high` were right; the mean loss is .510 without it, .489 with it, .485 at 1.5.
DIFFERING = 1.0
ROWS = MEDIUM - 0.01  # the most that is claimed of an answer that quotes rows of tables
# What a claim with this verdict is worth; an unsupported one may still be true, a contradicted one is not.
WORTH: Mapping[Verdict, float] = {"supported": 1.0, "partly": 0.6, "unsupported": 0.2, "contradicted": 0.0}


def below(bound: float) -> float:
    """The most that is claimed of what must not reach a level."""
    return bound - 0.001


def sure_of(score: float, reason: str) -> Confidence:
    return Confidence(round(score, CHANCE_DIGITS), level(score), reason)


def confidence(
    relevance: Relevance,
    claims: Sequence[Claim],
    citations: Sequence[Citation],
    settings: Settings,
    quotes: Sequence[Quote] = (),
) -> Confidence:
    """The chance that the answer shown is right, and why. `quotes` are those of an answer that no model wrote."""
    if not claims:
        return Confidence(0.0, "low", "no answer was found")
    if quotes:
        return quoted_confidence(relevance, quotes)
    score = round(calibrated(relevance.probability) * grounding(claims), CHANCE_DIGITS)
    if relevance.probability < settings.answer_floor:
        score = min(score, below(MEDIUM))
    return Confidence(score, level(score), _reason(relevance, claims, citations))


def quoted_confidence(relevance: Relevance, quotes: Sequence[Quote]) -> Confidence:
    """The chance that one of the quotes answers: is the answer there, and do these stand out among the sentences?"""
    if quotes[0].chance is not None:
        return _chosen_confidence(relevance, quotes[0].chance)
    found = right_features(relevance, quotes)
    chance = learned("read_right" if "answered" in relevance.features else "right", found)
    differ = answer_differently([quote.evidence for quote in quotes])
    score = min(1.0 / (1.0 + (1.0 / chance - 1.0) * math.exp(DIFFERING * differ)), quotes[0].most)
    if any(quote.evidence.chunk.kind == "table" for quote in quotes):  # which column of its row is meant is left open
        score = min(score, ROWS)
    if found["unnamed"] > 0 or (score >= HIGH and leaves_out(quotes, relevance.asked_names)):
        return sure_of(min(score, below(HIGH)), "the passage does not mention every name and number in the question")
    return sure_of(score, _standing(found, score))


def _chosen_confidence(relevance: Relevance, chance: float) -> Confidence:
    """Of a list as much as is sure of the passage that it stands in; a summary is as good as the document's name."""
    if relevance.missing_terms:
        score = min(chance, below(HIGH))
        return sure_of(score, f"no passage mentions {_quoted(relevance.missing_terms)}")
    reason = "one passage clearly answers it" if chance >= HIGH else "another passage may be the right one"
    return sure_of(chance, reason)


def right_features(relevance: Relevance, quotes: Sequence[Quote]) -> dict[str, float]:
    """What the confidence in quotes is made of."""
    # What is told in order, under a heading or in a section, has one share together: that of what was found.
    shares = {(quote.evidence.chunk.id, quote.evidence.score): quote.evidence.share for quote in quotes}
    return {
        "there": log_odds(min(relevance.probability, relevance.told)),
        "share": sum(shares.values()),
        "unnamed": min((quote.evidence.unnamed for quote in quotes), default=1.0),
    }


def _standing(found: Mapping[str, float], score: float) -> str:
    if score >= HIGH:
        return "one passage clearly answers it and mentions every name in the question"
    if found["share"] < ENOUGH:
        return "other sentences answer it almost as well"
    return "the best passage is not clearly better than the others"


def grounding(claims: Sequence[Claim]) -> float:
    """The mean worth of the claims, the longer ones counting more."""
    weights = [len(claim.text) for claim in claims]
    total = sum(weight * WORTH[claim.verdict] for claim, weight in zip(claims, weights, strict=True))
    return total / sum(weights)


def calibrated(probability: float) -> float:
    """The share of right answers among those with this probability, between fitted points."""
    given, share = zip(*CONFIDENCE, strict=True)
    return float(np.interp(probability, given, share))


def level(score: float) -> ConfidenceLevel:
    return "high" if score >= HIGH else "medium" if score >= MEDIUM else "low"


def _reason(relevance: Relevance, claims: Sequence[Claim], citations: Sequence[Citation]) -> str:
    supported = sum(claim.verdict == "supported" for claim in claims)
    documents = len({citation.document_id for citation in citations})
    parts = [_grounds(supported, len(claims), documents)]
    if against := sum(claim.verdict == "contradicted" for claim in claims):
        parts.append(f"{_count(against, 'sentence')} {'is' if against == 1 else 'are'} contradicted")
    parts.append(_coverage_in_words(relevance))
    return "; ".join(part for part in parts if part)


def _grounds(supported: int, claims: int, documents: int) -> str:
    if supported == claims:
        verb = "is" if claims == 1 else "are"
        return f"{_count(claims, 'sentence')} {verb} found in {_count(documents, 'document')}"
    if supported == 0:
        return "no sentence is fully supported by its citation"
    return f"{supported} of {claims} sentences are supported by their citations"


def _coverage_in_words(relevance: Relevance) -> str:
    if relevance.missing_terms:
        return f"no passage mentions {_quoted(relevance.missing_terms)}"
    if relevance.features.get("unnamed", 0.0) > 0:
        return "the best passage does not mention every name and number in the question"
    if relevance.features.get("coverage", 0.0) >= HIGH:
        return "one passage contains all words of the question"
    if relevance.features.get("coverage", 0.0) < ENOUGH:
        return "no single passage contains most words of the question"
    return "one passage contains most words of the question"


def _quoted(found: Sequence[str]) -> str:
    shown = [f"'{word}'" for word in found[:3]]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


# --- what comes back? The answer put together from what the stages gave; also when there is none ---------------------

RELATED = 5  # documents that were found and not cited


def sources(citations: Sequence[Citation], documents: dict[str, Document]) -> tuple[Source, ...]:
    """The cited documents once each, in the order they are first cited; `documents` by their ids."""
    found: dict[str, list[Citation]] = {}
    for citation in citations:
        found.setdefault(citation.document_id, []).append(citation)
    return tuple(
        Source(
            document_id,
            own[0].document_name,
            documents[document_id].title,
            tuple(sorted({box.page for cited in own for box in cited.boxes} | {cited.page for cited in own})),
            tuple(dict.fromkeys(cited.marker for cited in own)),
            documents[document_id].collection,
        )
        for document_id, own in found.items()
    )


def related(retrieved: Retrieved, citations: Sequence[Citation]) -> tuple[Source, ...]:
    """Documents that were found and not cited, best first."""
    cited = {citation.document_id for citation in citations}
    found: dict[str, list[Hit]] = {}
    for hit in (*retrieved.hits, *retrieved.considered):
        if hit.document.id not in cited:
            found.setdefault(hit.document.id, []).append(hit)
    return tuple(
        Source(about.id, about.name, about.title, tuple(sorted({hit.page for hit in own})), collection=about.collection)
        for own in list(found.values())[:RELATED]
        for about in (own[0].document,)
    )


LOW = 0.3  # the most that is claimed of a question that was not answered
Doubt = Literal["missing", "near", ""]


def begin(question: Question, query: Query, settings: Settings, trace: Trace) -> Answer:
    """What is known of the answer once the question is understood."""
    return Answer(
        id=trace.id,
        question=question.text,
        content="",
        corrected_question=query.corrected,
        standalone_question=query.standalone,
        route=query.route,
        intent=query.intent,
        intent_confidence=query.confidence,
        level=question.level,
        mode=question.mode,
        response_mode=question.response_mode,
        conversation_id=question.conversation_id,
        trace_id=trace.id,
        settings_fingerprint=settings.fingerprint,
    )


def say(answer: Answer, content: str) -> Answer:
    """Small talk, or what is not a question to documents: nothing was searched."""
    reason = "nothing was searched: this is not a question about the documents"
    return replace(answer, content=content, model="none", is_answered=False, confidence=Confidence(0.0, "low", reason))


def doubted(relevance: Relevance, retrieved: Retrieved, settings: Settings) -> Doubt:
    """Is the answer missing, or only near? A model may still find what words do not show, so it is asked when in doubt.

    Below a fifth of `answer.floor` (of rows by their words) nothing is written; up to the floor, the nearest sentences
    are quoted as just that, unless a model has written.
    """
    if retrieved.key_sentences:  # of the document that is named
        return ""
    by_words = relevance.features.get("row") and "words" in relevance.features
    likely = logistic(relevance.features["words"]) if by_words else relevance.probability
    if not retrieved.hits or likely < settings.answer_floor / 5:
        return "missing"
    # What is said of other things is no answer, however near: the code of one star for that of another.
    return "near" if relevance.probability < settings.answer_floor or relevance.missing_names else ""


def refuse(answer: Answer, plan: Plan, query: Query, retrieved: Retrieved, relevance: Relevance) -> Answer:
    """The documents do not say it: no model was called; what they do say nearby is offered."""
    topics, missing = nearest_topics(retrieved), relevance.missing_terms
    offered = f" {said('nearest', query.question)} {'; '.join(topics)}." if topics else ""
    return replace(
        answer,
        content=f"{said('missing', query.question)}{offered}",
        metrics=sizes(retrieved),
        strategy=plan.strategy,
        model="none",
        is_answered=False,
        related_documents=related(retrieved, ()),
        confidence=_unanswered(relevance, retrieved),
        sufficiency=Sufficiency(False, 0.0, missing_aspects=missing or (query.standalone,)),
    )


def _unanswered(relevance: Relevance, retrieved: Retrieved) -> Confidence:
    missing = ", ".join(f"“{term}”" for term in relevance.missing_terms[:MOST_TOPICS])
    why = f"no passage mentions {missing}" if missing else "no passage answers the question"
    return sure_of(min(relevance.probability, LOW), why if retrieved.considered else "there are no documents to search")


def conclude(
    answer: Answer,
    plan: Plan,
    query: Query,
    retrieved: Retrieved,
    relevance: Relevance,
    context: Context,
    draft: Draft,
    settled: Settled,
    settings: Settings,
) -> Answer:
    """The answer of a question that was searched, written and checked."""
    content, claims, citations = settled.attested.content, settled.attested.claims, settled.attested.citations
    content = content or said("missing", query.question)
    is_answered = not is_missing(content)
    quotes = [placed.quote for placed in draft.quotes]
    sure = _unanswered(relevance, retrieved)
    if is_answered:
        sure = confidence(relevance, claims, citations, settings, quotes)
    has_several = len({hit.document.id for hit in retrieved.hits}) > 1
    if is_answered and has_several and (pointing := points_back(query.fullest)):
        score = min(sure.score, below(HIGH))  # "the purpose of this rule": each of several documents may have one
        sure = Confidence(score, level(score), f"it is unclear which document '{pointing}' refers to")
    enough = sufficiency(query, relevance, context, claims, citations)
    if is_answered and (unsaid := [part for part in query.parts if part in enough.missing_aspects]):
        score = min(sure.score, below(MEDIUM))
        sure = Confidence(score, level(score), f"nothing was found about {_quoted(unsaid)}")
    documents = {passage.document.id: passage.document for passage in context.passages}
    return replace(
        answer,
        content=content,
        short=short_answer(query, quotes) if is_answered else "",
        claims=claims,
        citations=citations,
        sources=sources(citations, documents),
        related_documents=related(retrieved, citations),
        confidence=sure,
        sufficiency=enough,
        verification=settled.verification,
        suggested_questions=not_planted(draft.suggested, context.passages)[:MOST_TOPICS],
        strategy=plan.strategy,
        model=draft.model,
        usage=draft.usage + settled.usage,
        metrics=sizes(retrieved, context),
        is_answered=is_answered,
        notes=tuple(draft.notes),
        failed_models=failed_models(draft),
    )


# What was looked at for an answer, and what became of it? For its trace.


def candidates(
    retrieved: Retrieved, context: Context | None = None, citations: Sequence[Citation] = ()
) -> list[dict[str, Any]]:
    """Every chunk that a search gave, the best first, with its scores and its `use`.

    `cited`: the answer points at it. `read`: it stood before whoever wrote the answer. `kept`: it was good enough, but
    nothing was written, or there was no room. `dropped`: too far off, or said by another one.
    """
    kept = {hit.chunk.id: hit for hit in retrieved.hits}
    found = {hit.chunk.id: hit for hit in retrieved.considered} | kept
    cited = {citation.chunk_id for citation in citations}
    uses = dict.fromkeys(kept, "kept")
    for passage in context.passages if context is not None else ():
        ids = {chunk.id for chunk in passage.chunks}
        uses |= dict.fromkeys(ids, "cited" if ids & cited else "read")
    return [_shown(hit, uses.get(chunk_id, "dropped")) for chunk_id, hit in found.items()]


def _shown(hit: Hit, use: str) -> dict[str, Any]:
    return {
        "chunk_id": hit.chunk.id,
        "document_id": hit.document.id,
        "document_name": hit.document.name,
        "page": hit.page,
        "heading_path": list(hit.heading_path),
        **{name: round(getattr(hit, name), SCORE_DIGITS) for name in ("lexical_score", "cosine", "score")},
        "use": use,
    }
