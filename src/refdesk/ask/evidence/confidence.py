"""How sure may a reader be? Relevance times grounding, calibrated on data, with the reason in plain words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from refdesk.answer import Citation, Claim, Confidence, ConfidenceLevel, Verdict
from refdesk.ask.evidence.calibration import CONFIDENCE
from refdesk.ask.evidence.relevance import Relevance
from refdesk.settings import Settings

HIGH, MEDIUM = 0.75, 0.45
# What a claim with this verdict is worth; an unsupported one may still be true, a contradicted one is not.
WORTH: Mapping[Verdict, float] = {"supported": 1.0, "partly": 0.6, "unsupported": 0.2, "contradicted": 0.0}


def confidence(
    relevance: Relevance, claims: Sequence[Claim], citations: Sequence[Citation], settings: Settings
) -> Confidence:
    """The chance that the answer shown is right, and why.

    Confidence(0.88, "high", "2 sentences from 1 document support it; all of the question's words are there")
    """
    if not claims:
        return Confidence(0.0, "low", "nothing was found that answers it")
    score = round(calibrated(relevance.probability) * grounding(claims), 3)
    if relevance.probability < settings.answer_floor:
        score = min(score, MEDIUM - 0.001)
    return Confidence(score, level(score), _reason(relevance, claims, citations))


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
