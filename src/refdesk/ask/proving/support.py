"""How well do these sentences support this claim? Wording, figures, names, negation, opposites and meaning. Pure.

Each is a number; a logistic model with few coefficients joins them (fitted by `python -m benchmarks.claims --fit`).
Figures, negations and opposites that clash are also reasons of their own: they name what is wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.proving.figures import Quantity, agrees, figures
from refdesk.ask.proving.negation import denied, is_negated, opposites
from refdesk.ask.proving.stated import check_figures
from refdesk.ask.proving.wording import content_stems, names, words
from refdesk.terms import terms
from refdesk.text import fold

MOST_LINES = 3  # sentences that may support a claim together
CONSIDERED = 12  # of the lines that fit best, for their figures
FIGURES_WEIGHT = 0.5
NEAR_GAIN, FAR_GAIN = 0.08, 0.15  # words, by weight, that a further line must add
CELLS = " | "  # between the cells of a table's row
# "According to the handbook, …" says where it stands, not what.
_LEAD = re.compile(
    r"\A\s*(?:according to|based on|as (?:stated|described|noted) in|in) the [^,.]{1,60},\s+", re.IGNORECASE
)
# What speaks of itself is no document's.
_PERSONAL = frozenset(("i", "me", "my", "we", "you", "your", "i'm", "i've", "i'd"))


class Line(NamedTuple):
    """A sentence that may prove something: where it stands and what it says."""

    passage: int
    chunk: int  # place of the chunk in its passage
    sentence: int
    text: str
    stems: frozenset[str]
    cosine: float


@dataclass(frozen=True, slots=True)
class Reading:
    """A claim read once: its content stems with their weights, its names and figures."""

    text: str
    stems: tuple[str, ...]
    names: tuple[str, ...]
    figures: tuple[Quantity, ...]
    denied: frozenset[str]
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Support:
    """What was found: the lines that fit best, the features, and in plain words what does not fit."""

    lines: tuple[Line, ...]
    features: Mapping[str, float]
    covered: float  # share of the claim's words that stand in these lines or in their opposites, by weight
    clashes: tuple[str, ...]  # figures, negations and opposites that contradict
    gaps: tuple[str, ...]  # what the sources do not name


def read(text: str, language: str = "en") -> Reading:
    stated = figures(text)
    stems = content_stems(_LEAD.sub("", _without(text, stated)), language)
    return Reading(
        text,
        stems,
        names(text, stated),
        stated,
        denied(text, language),
        tuple(words(text)),
    )


def _without(text: str, stated: Sequence[Quantity]) -> str:
    """The words beside the figures: those are compared by what they mean, not by how they are written."""
    kept, position = [], 0
    for one in stated:
        if not one.weak:
            kept.append(text[position : one.start])
            position = one.end
    return " ".join([*kept, text[position:]])


def weights(claim: Reading, lines: Sequence[Line]) -> dict[str, float]:
    """A word that few of the sentences have says more; one that none has says most."""
    count = len(lines)
    held = {stem: sum(stem in line.stems for line in lines) for stem in claim.stems}
    return {stem: math.log(1 + (count + 1) / (held[stem] + 0.5)) for stem in claim.stems}


def choose(
    claim: Reading, lines: Sequence[Line], weight: Mapping[str, float], around: frozenset[str] = frozenset()
) -> list[Line]:
    """The best line, then those that add the most words to it: a neighbour may help, any other line must add more.

    Rows of a table often differ in their figures alone: of the best lines, those that state the claim's come first.
    """
    total = sum(weight.values()) or 1.0

    def covered(stems: frozenset[str]) -> float:
        return sum(value for stem, value in weight.items() if stem in stems) / total

    scored = sorted(((covered(line.stems) + line.cosine, line) for line in lines), key=lambda one: -one[0])
    if claim.figures:
        best = [(score + FIGURES_WEIGHT * _stated_share(claim, line.text), line) for score, line in scored[:CONSIDERED]]
        scored[:CONSIDERED] = sorted(best, key=lambda one: -one[0])
    ranked = [line for _, line in scored]
    if not ranked:
        return []
    chosen, seen = [ranked[0]], ranked[0].stems | around
    while len(chosen) < MOST_LINES:
        best_line, gain = None, 0.0
        for line in ranked[: 2 * CONSIDERED]:
            if line in chosen:
                continue
            added = covered(seen | line.stems) - covered(seen) - (NEAR_GAIN if _is_near(line, chosen) else FAR_GAIN)
            if added > gain:
                best_line, gain = line, added
        if best_line is None:
            break
        chosen.append(best_line)
        seen = seen | best_line.stems
    return chosen


def _stated_share(claim: Reading, text: str) -> float:
    held = figures(text)
    return sum(any(agrees(one, other) for other in held) for one in claim.figures) / len(claim.figures)


def _is_near(line: Line, chosen: Sequence[Line]) -> bool:
    return any(
        line.passage == other.passage and line.chunk == other.chunk and abs(line.sentence - other.sentence) <= 2
        for other in chosen
    )


def support(claim: Reading, lines: Sequence[Line], surroundings: str = "", language: str = "en") -> Support:
    """`lines` are all sentences of the cited passages; `surroundings` their titles and headings."""
    weight = weights(claim, lines)
    around = frozenset(terms(surroundings, language)) if surroundings else frozenset()
    chosen = choose(claim, lines, weight, around)
    if not chosen:
        return Support((), {}, 0.0, (), ())
    total = sum(weight.values()) or 1.0
    best = chosen[0]
    joined = " ".join(line.text for line in chosen)
    near = frozenset().union(*(line.stems for line in chosen))

    def covered(stems: frozenset[str]) -> float:
        return sum(value for stem, value in weight.items() if stem in stems) / total

    beyond = [surroundings, *(line.text for line in lines if CELLS not in line.text)]  # another row is another thing
    wrong, missing_figures = check_figures(claim.text, claim.figures, joined, "\n".join(beyond))
    text_of_all = fold(" ".join([*(line.text for line in lines), surroundings]))
    unnamed = [name for name in claim.names if not _is_named(name, text_of_all) and not _is_figure(name)]
    opposed = opposites(claim.words, words(joined))
    turned = _turned(claim, best.text, joined, language)
    together = covered(near | around)
    features = {
        "coverage": (covered(best.stems | around) + together) / 2,
        "cosine": best.cosine,
        "names": len(unnamed) / max(1, len(claim.names)),
        "figures": float(bool(wrong or missing_figures)),
        "negation": float(bool(turned)),
        "opposites": float(bool(opposed)),
        "personal": float(bool(_PERSONAL & set(claim.words) and not _PERSONAL & set(words(joined)))),
        "length": math.log(1 + len(claim.stems)),
    }
    clashes = [*wrong]
    if turned:
        clashes.append(turned)
    clashes += [f"says “{one}” where the source says “{other}”" for one, other in opposed]
    gaps = [*missing_figures, *(f"the source does not name {name}" for name in unnamed)]
    opposing = frozenset(terms(" ".join(one for one, _ in opposed), language))
    return Support(tuple(chosen), features, covered(near | around | opposing), tuple(clashes), tuple(gaps))


def _is_figure(name: str) -> bool:
    return any(character.isdigit() for character in name)


def _is_named(name: str, folded: str) -> bool:
    wanted = fold(name).strip(".")
    return wanted in folded or wanted.replace("-", " ") in folded or wanted.replace("-", "") in folded


def _turned(claim: Reading, best: str, joined: str, language: str) -> str:
    """Is something denied on one side only?"""
    own, theirs = is_negated(claim.text), is_negated(best)
    if own == theirs:
        return ""
    held = frozenset(terms(joined, language))
    if own and claim.denied & held and not claim.denied & denied(joined, language):
        return "says “not” where the source does not"
    if theirs and denied(best, language) & frozenset(claim.stems) and not denied(best, language) & claim.denied:
        return "leaves out a “not” of the source"
    return ""


def cosines(vector: NDArray[np.float32], rows: NDArray[np.int8]) -> NDArray[np.float32]:
    """Of a unit vector with rows of unit vectors scaled by 127."""
    found: NDArray[np.float32] = np.vecdot(rows.astype(np.float32), vector) / np.float32(127)
    return found
