"""How sure may a reader be? Relevance times grounding, calibrated on data, with the reason in plain words. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from refdesk.answer import Citation, Claim, Confidence, ConfidenceLevel, Verdict
from refdesk.ask.evidence.calibration import CONFIDENCE, RIGHT, RIGHT_INTERCEPT
from refdesk.ask.evidence.extract import Quote
from refdesk.ask.evidence.relevance import Relevance, logistic
from refdesk.settings import Settings

HIGH, MEDIUM = 0.85, 0.5  # "high" is right at least so often
HOLDS = 0.5  # how well a quote must hold a thing of the kind asked for (sought.py) to be sure of it
# What a claim with this verdict is worth; an unsupported one may still be true, a contradicted one is not.
WORTH: Mapping[Verdict, float] = {"supported": 1.0, "partly": 0.6, "unsupported": 0.2, "contradicted": 0.0}


def confidence(
    relevance: Relevance,
    claims: Sequence[Claim],
    citations: Sequence[Citation],
    settings: Settings,
    quotes: Sequence[Quote] = (),
) -> Confidence:
    """The chance that the answer shown is right, and why. `quotes` are those of an answer that no model wrote."""
    if not claims:
        return Confidence(0.0, "low", "nothing was found that answers it")
    if quotes:
        return quoted_confidence(relevance, quotes)
    score = round(calibrated(relevance.probability) * grounding(claims), 3)
    if relevance.probability < settings.answer_floor:
        score = min(score, MEDIUM - 0.001)
    return Confidence(score, level(score), _reason(relevance, claims, citations))


def quoted_confidence(relevance: Relevance, quotes: Sequence[Quote]) -> Confidence:
    """The chance that one of the quotes answers, from what they hold: is the answer there, do these stand out, do they
    hold a thing of the kind asked for, and the names and numbers of the question?
    """
    found = right_features(relevance, quotes)
    score = logistic(RIGHT_INTERCEPT + sum(weight * found[name] for name, weight in RIGHT.items()))
    doubts = []
    if found["fit"] < HOLDS:
        doubts.append("no quoted sentence holds the kind of thing that is asked for")
    if found["unnamed"] > 0:
        doubts.append("the passage does not hold every name and number of the question")
    if doubts:
        score = min(score, HIGH - 0.001)
    return Confidence(round(score, 3), level(score), "; ".join(doubts) or _standing(found, score))


def right_features(relevance: Relevance, quotes: Sequence[Quote]) -> dict[str, float]:
    """What the confidence in quotes is made of."""
    likely = min(max(relevance.probability, 0.001), 0.999)
    return {
        "there": math.log(likely / (1.0 - likely)),
        "share": sum(quote.evidence.share for quote in quotes),
        "fit": max((quote.evidence.fit for quote in quotes), default=0.0),
        "unnamed": min((quote.evidence.unnamed for quote in quotes), default=1.0),
    }


def _standing(found: Mapping[str, float], score: float) -> str:
    if score >= HIGH:
        return "one passage stands out, with the question's names and the kind of thing that is asked for"
    if found["share"] < 0.5:
        return "other sentences answer it almost as well"
    return "the best passage does not stand far above the others"


def grounding(claims: Sequence[Claim]) -> float:
    """The mean worth of the claims, the longer ones counting more."""
    weights = [max(1, len(claim.text)) for claim in claims]
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
    parts.append(_coverage(relevance))
    return "; ".join(part for part in parts if part)


def _grounds(supported: int, claims: int, documents: int) -> str:
    if supported == claims:
        verb = "is" if claims == 1 else "are"
        return f"{_count(claims, 'sentence')} {verb} found in {_count(documents, 'document')}"
    if supported == 0:
        return "no sentence is fully supported by what it cites"
    return f"{supported} of {claims} sentences are supported by what they cite"


def _coverage(relevance: Relevance) -> str:
    if relevance.missing_terms:
        return f"no passage mentions {_quoted(relevance.missing_terms)}"
    if relevance.features.get("unnamed", 0.0) > 0:
        return "the best passage does not hold every name and number of the question"
    if relevance.features.get("coverage", 0.0) >= 0.9:
        return "one passage holds all of the question's words"
    if relevance.features.get("coverage", 0.0) < 0.5:
        return "no single passage has most of the question's words"
    return "most of the question's words stand in one passage"


def _quoted(found: Sequence[str]) -> str:
    shown = [f"'{word}'" for word in found[:3]]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
