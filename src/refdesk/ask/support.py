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

from refdesk.ask.figures import Quantity, agrees, compact, figures
from refdesk.ask.negation import denied, is_negated, opposites, words
from refdesk.terms import terms
from refdesk.text import STOP_WORDS, fold

_NAME = re.compile(r"(?<![\w’'])[A-Z][\w’'&.-]*\w")
_PERSONAL = frozenset(
    ("i", "me", "my", "we", "you", "your", "i'm", "i've", "i'd")
)  # what speaks of itself is no document's
_DECREASE = re.compile(
    r"\b(?:loss|lost|fell|fall|decline|drop|decrease|negative|minus|down|deficit|below|reduc|shrank)", re.I
)
_TABLE_SCALE = re.compile(
    r"\bin\s+(?:[A-Z$€£]{1,4}\s+)?(thousands|millions|billions)\b|[$€£](?:in\s+)?(000|m|mn|bn)\b", re.I
)
_TABLE_FACTOR = {"thousands": 1e3, "000": 1e3, "millions": 1e6, "m": 1e6, "mn": 1e6, "billions": 1e9, "bn": 1e9}


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


def content_stems(text: str, language: str = "en") -> tuple[str, ...]:
    kept = [word for word in words(text) if word[0].isalnum() and word not in STOP_WORDS]
    return tuple(dict.fromkeys(terms(" ".join(kept), language)))


def read(text: str, language: str = "en") -> Reading:
    stated = figures(text)
    stems = content_stems(_without(text, stated), language)
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


def names(text: str, stated: Sequence[Quantity] = ()) -> tuple[str, ...]:
    """Capitalised words that are not so only because they begin a sentence, nor part of a figure.

    >>> names("The Bay of Fundy and NATO met. Then they left.")
    ('Bay', 'Fundy', 'NATO')
    """
    found = []
    for match in _NAME.finditer(text):
        word, before = match.group(), text[: match.start()].rstrip(" \"'“‘(*")
        begins = not before or before[-1] in ".!?:|\n•-"
        common = word.lower() in STOP_WORDS or (begins and not any(c.isupper() for c in word[1:]))
        if not common and not any(one.start <= match.start() < one.end for one in stated):
            parts = word.removesuffix("'s").removesuffix("’s").split("-")
            found += [part for part in parts if part[:1].isupper()]
    return tuple(dict.fromkeys(found))


def weights(claim: Reading, lines: Sequence[Line]) -> dict[str, float]:
    """A word that few of the sentences have says more; one that none has says most."""
    count = len(lines)
    held = {stem: sum(stem in line.stems for line in lines) for stem in claim.stems}
    return {stem: math.log(1 + (count + 1) / (held[stem] + 0.5)) for stem in claim.stems}


def choose(claim: Reading, lines: Sequence[Line], most: int = 3) -> list[Line]:
    """The best line, then those that add the most words to it: a neighbour may help, any other line must add more."""
    weight = weights(claim, lines)
    total = sum(weight.values()) or 1.0

    def covered(stems: frozenset[str]) -> float:
        return sum(value for stem, value in weight.items() if stem in stems) / total

    ranked = sorted(lines, key=lambda line: -(covered(line.stems) + line.cosine))
    if not ranked:
        return []
    chosen = [ranked[0]]
    seen = ranked[0].stems
    while len(chosen) < most:
        best, gain = None, 0.0
        for line in ranked[:24]:
            if line in chosen:
                continue
            near = any(
                line.passage == other.passage and line.chunk == other.chunk and abs(line.sentence - other.sentence) <= 2
                for other in chosen
            )
            added = covered(seen | line.stems) - covered(seen)
            if added - (0.08 if near else 0.15) > gain:
                best, gain = line, added - (0.08 if near else 0.15)
        if best is None:
            break
        chosen.append(best)
        seen = seen | best.stems
    return chosen


def support(claim: Reading, lines: Sequence[Line], surroundings: str = "", language: str = "en") -> Support:
    """`lines` are all sentences of the cited passages; `surroundings` their titles and headings."""
    chosen = choose(claim, lines)
    if not chosen:
        return Support((), {}, 0.0, (), ())
    weight = weights(claim, lines)
    total = sum(weight.values()) or 1.0
    best = chosen[0]
    joined = " ".join(line.text for line in chosen)
    around = frozenset(terms(surroundings, language)) if surroundings else frozenset()
    near = frozenset().union(*(line.stems for line in chosen))

    def covered(stems: frozenset[str]) -> float:
        return sum(value for stem, value in weight.items() if stem in stems) / total

    wrong, missing_figures = check_figures(claim, joined, " ".join(line.text for line in lines) + " " + surroundings)
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


# --- figures ----------------------------------------------------------------------------------------------------------


def check_figures(claim: Reading, near: str, everything: str) -> tuple[list[str], list[str]]:
    """(what the source says otherwise, what it does not say), each in plain words.

    A figure is looked for in the chosen lines; where these say another in its place that is a clash, else the rest of
    the cited passages may say it.
    """
    if not claim.figures:
        return [], []
    held = figures(near)
    factor = _table_factor(everything)
    free = [one for one in held if not any(_agrees(claim, figure, one, factor) for figure in claim.figures)]
    beyond: tuple[Quantity, ...] | None = None
    wrong, missing = [], []
    for figure in claim.figures:
        if any(_agrees(claim, figure, one, factor) for one in held) or _is_spelled(figure, near):
            continue
        shown = claim.text[figure.start : figure.end].strip()
        rival = _rival(claim, figure, free, near)
        if rival is not None:
            wrong.append(f"says {shown} where the source says {near[rival.start : rival.end].strip()}")
            continue
        if figure.weak:
            continue
        beyond = figures(everything) if beyond is None else beyond
        if not any(_agrees(claim, figure, one, factor) for one in beyond) and not _is_spelled(figure, everything):
            missing.append(f"the source does not say {shown}")
    return wrong, missing


def _agrees(claim: Reading, figure: Quantity, held: Quantity, factor: float) -> bool:
    if agrees(figure, held):
        return True
    if held.kind != "number" or figure.kind != "number":
        return figure.kind == "ordinal" == held.kind and figure.value == held.value
    if figure.value * held.value < 0 and _DECREASE.search(claim.text):
        return agrees(_positive(figure), _positive(held))
    if factor > 1 and not held.unit:
        scaled = Quantity(
            "number", held.text, held.start, held.end, held.value * factor, held.step * factor, figure.unit
        )
        return agrees(figure, scaled)
    return False


def _positive(one: Quantity) -> Quantity:
    return Quantity(one.kind, one.text, one.start, one.end, abs(one.value), one.step, one.unit, abs(one.bare))


def _table_factor(text: str) -> float:
    match = _TABLE_SCALE.search(text)
    return _TABLE_FACTOR[(match[1] or match[2]).lower()] if match else 1.0


def _is_spelled(figure: Quantity, text: str) -> bool:
    """The same letters or digits, written in another way: `12 345`, `56, 000`, `TG 4`."""
    if figure.kind == "code":
        return re.search(rf"(?<![a-z0-9]){re.escape(figure.text)}(?!\d)", compact(text)) is not None
    digits = re.sub(r"\D", "", figure.text)
    if figure.kind != "number" or len(digits) < 4 or figure.unit:
        return False
    return re.search(rf"(?<!\d){digits}(?!\d)", re.sub(r"(?<=\d)[,.\s]+(?=\d)", "", text)) is not None


def _rival(claim: Reading, figure: Quantity, free: Sequence[Quantity], near: str) -> Quantity | None:
    """The figure of the source that stands where the claim has another: its unit, or the same word beside it."""
    for one in free:
        if figure.kind == "date" and one.kind == "date":
            if any(held.clashes(said) for said in figure.when for held in one.when):
                return one
        elif figure.kind == "code" or one.kind == "code":
            if figure.kind == one.kind and figure.text[:2] == one.text[:2]:
                return one
        elif (figure.unit and figure.unit == one.unit and not figure.weak) or (
            _beside(claim.text, figure) & _beside(near, one)
        ):
            return one
    return None


def _beside(text: str, figure: Quantity) -> set[tuple[str, str]]:
    """The content word after the figure, and the one before it."""
    after, before = (
        content_stems(text[figure.end : figure.end + 40]),
        content_stems(text[max(0, figure.start - 40) : figure.start]),
    )
    return {("after", stem) for stem in after[:1]} | {("before", stem) for stem in before[-1:]}


# --- the model --------------------------------------------------------------------------------------------------------

FEATURES = ("coverage", "cosine", "names", "figures", "negation", "opposites", "personal", "length")


def probability(features: Mapping[str, float], coefficients: Mapping[str, float]) -> float:
    total = coefficients["intercept"] + sum(coefficients[name] * features[name] for name in FEATURES)
    return 1 / (1 + math.exp(-total))


def cosines(vector: NDArray[np.float32], rows: NDArray[np.int8]) -> NDArray[np.float32]:
    """Of a unit vector with rows of unit vectors scaled by 127."""
    return rows.astype(np.float32) @ vector / np.float32(127)
