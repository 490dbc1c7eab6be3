"""What is said of a claim, given what was found for it? The fitted model and the rules that overrule it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from refdesk.answer import Claim, Verdict
from refdesk.ask.proving.support import Support

FEATURES = ("coverage", "cosine", "names", "figures", "negation", "opposites", "personal", "length")
# Fitted by `python -m benchmarks.claims --fit` on one half of nine sets of labelled claims, each set and each label
# weighing the same; figures in docs/evals.md. Above .5 is supported.
COEFFICIENTS = {
    "intercept": -1.741, "coverage": 1.755, "cosine": 2.63, "names": -0.318, "figures": -0.209, "negation": -0.933,
    "opposites": -0.588, "personal": -2.093, "length": -0.154,
}  # fmt: skip
SUPPORTED, PARTLY = 0.5, 0.3
_SAME_MATTER, _SAME_MEANING = 0.5, 0.6  # words or cosine from which a clash is about the same thing


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict with its reason and the (passage, chunk, sentence) it rests on."""

    verdict: Verdict
    score: float
    note: str
    lines: tuple[tuple[int, int, int], ...]


def judge_claim(found: Support) -> Judged:
    """The verdict, a score in 0..1, and what does not fit in plain words."""
    lines = tuple((line.passage, line.chunk, line.sentence) for line in found.lines)
    if not found.lines:
        return Judged("unsupported", 0.0, "the passage has no sentences", ())
    score = probability(found.features, COEFFICIENTS)
    verdict, note = _verdict(found, score)
    return Judged(verdict, _most(verdict, score), note, lines)


def _most(verdict: Verdict, score: float) -> float:
    if verdict == "contradicted":
        return 0.2 * score
    return score if verdict == "supported" else min(score, 0.49)


def _verdict(found: Support, score: float) -> tuple[Verdict, str]:
    note = "; ".join((*found.clashes, *found.gaps)[:3])
    if found.clashes and (found.covered >= _SAME_MATTER or found.features["cosine"] >= _SAME_MEANING):
        return "contradicted", note
    if found.gaps or found.clashes:
        return ("partly" if score >= SUPPORTED else "unsupported"), note
    if score >= SUPPORTED:
        return "supported", ""
    if score >= PARTLY:
        return "partly", "only part of it stands in the source"
    return "unsupported", "the source does not say this"


def probability(features: Mapping[str, float], coefficients: Mapping[str, float]) -> float:
    total = coefficients["intercept"] + sum(coefficients[name] * features[name] for name in FEATURES)
    return 1 / (1 + math.exp(-total))


# --- two checks of one claim ------------------------------------------------------------------------------------------

_WORSE: Mapping[Verdict, int] = {verdict: place for place, verdict in enumerate(get_args(Verdict))}


def stricter(claims: Sequence[Claim], said: Sequence[tuple[Verdict, str]], by: str) -> tuple[Claim, ...]:
    """The claims with the worse of two verdicts each: their own, and (verdict, reason) of another reader, if any."""
    if not said:
        return tuple(claims)
    return tuple(_worse(claim, verdict, reason, by) for claim, (verdict, reason) in zip(claims, said, strict=True))


def _worse(claim: Claim, verdict: Verdict, reason: str, by: str) -> Claim:
    if verdict == "supported":
        return claim
    note = "; ".join(filter(None, (claim.note, f"{by}: {verdict}{f' ({reason})' if reason else ''}")))
    if _WORSE[verdict] <= _WORSE[claim.verdict]:
        return replace(claim, note=note)
    return replace(claim, verdict=verdict, score=round(_most(verdict, claim.score), 4), note=note)


def kept_verdicts(claims: Sequence[Claim], before: Sequence[Claim]) -> tuple[Claim, ...]:
    """Claims that were read again, each with its verdict of before where that was worse: only its place has changed."""
    known = {claim.text: claim for claim in before}
    return tuple(
        replace(claim, verdict=old.verdict, score=old.score, note=old.note)
        if (old := known.get(claim.text)) is not None and _WORSE[old.verdict] > _WORSE[claim.verdict]
        else claim
        for claim in claims
    )
