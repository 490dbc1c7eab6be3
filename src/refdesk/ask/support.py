"""Scores how well sentences support a claim: wording, figures, names, negation, opposites and meaning. Pure.

Each is a number; a logistic model with few coefficients joins them (assets/claims.json).
Figures, negations and opposites that clash are also reasons of their own: they name what is wrong.
"""

from __future__ import annotations

import json
import math
import re
from calendar import day_name
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import SCORE_DIGITS, Claim, Verdict
from refdesk.ask.figures import BESIDE, SCALES, Quantity, agrees, compact, figures
from refdesk.ask.wording import KEPT
from refdesk.negation import is_negated, is_negation, without_idioms, words
from refdesk.text import ASSETS, STOP_WORDS, fold, terms, word_set
from refdesk.types import UNIT

# --- does a sentence say the opposite of another? ------------------------------------------------------------------
# Which words of a sentence carry its meaning? Words, the stems of content words, names.

_LETTERS = re.compile(r"\w+")
_NAME = re.compile(r"(?<![\w’'])[A-Z][\w’'&.-]*\w")


def content_stems(text: str, language: str = "en") -> tuple[str, ...]:
    kept = [word for word in words(text) if word[0].isalnum() and word not in STOP_WORDS]
    return tuple(dict.fromkeys(terms(" ".join(kept), language)))


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
        if not common and not any(quantity.start <= match.start() < quantity.end for quantity in stated):
            parts = word.removesuffix("'s").removesuffix("’s").split("-")
            found += [part for part in parts if part[:1].isupper()]
    return tuple(dict.fromkeys(found))


_ENDS = frozenset(
    (".", ";", ":", "!", "?", "but", "however", "although", "though", "while", "whereas", "because", "aber")
)
REACH = 2  # content words after a negation that it is taken to deny

# Words that exclude each other: a claim that has one where its source has the other is wrong. Balanced accuracy on the
# claims of SciFact is .675 with the two directions and .662 without; forty more groups (colours, kinship …) gave
# nothing there, .0025 on FoolMeTwice. Weekdays are the one kind of date that is no figure.
_OPPOSED: Mapping[str, tuple[str, str]] = {
    **{stem: ("change", side) for side in ("rise", "fall") for word in word_set("words", side) for stem in terms(word)},
    **{stem: ("amount", side) for side in ("more", "less") for word in word_set("words", side) for stem in terms(word)},
    **{day.lower(): ("weekday", day) for day in day_name},
}


@lru_cache(maxsize=KEPT)
def _side(word: str) -> tuple[str, str]:
    """Of what pair it is one, and which."""
    return next((_OPPOSED[stem] for stem in terms(word) if stem in _OPPOSED), ("", ""))


def denied(text: str, language: str = "en") -> frozenset[str]:
    """The stems that a negation reaches.

    >>> sorted(denied("Pilots are not required to land, but boats are."))
    ['land', 'requir']
    """
    reached: list[str] = []
    left = 0
    for word in words(without_idioms(text)):
        if is_negation(word):
            left = REACH
        elif word in _ENDS:
            left = 0
        elif left and word not in STOP_WORDS:
            reached.append(word)
            left -= 1
    return frozenset(terms(" ".join(reached), language))


NEAR = 4  # words on each side in which both must share one, to speak of the same thing


def opposites(claim: Sequence[str], source: Sequence[str]) -> list[tuple[str, str]]:
    """Words of the claim that the source has not, with the word it has that excludes them, said of the same thing.

    >>> opposites(["revenue", "increased"], ["revenue", "decreased"])
    [('increased', 'decreased')]
    """
    found = []
    for place, word in enumerate(claim):
        kind, side = _side(word)
        held = [other for other, rival in enumerate(source) if kind and _side(rival)[0] == kind]
        if not any(_side(source[other])[1] == side for other in held):
            about = _about(claim, place)
            found += [(word, source[other]) for other in held if about & _about(source, other)][:1]
    return found


def is_change(word: str) -> bool:
    """`grew`, `lower`"""
    return _side(word)[0] == "change"


def direction(text: str) -> str:
    """ "rise", "fall", or nothing where the text speaks of no change, or of both."""
    found = {side for word in words(text) for kind, side in [_side(word)] if kind == "change"}
    return found.pop() if len(found) == 1 else ""


def _about(all_words: Sequence[str], place: int) -> frozenset[str]:
    near = [*all_words[max(0, place - NEAR) : place], *all_words[place + 1 : place + 1 + NEAR]]
    return frozenset(word[:6] for word in near if word[0].isalnum() and word not in STOP_WORDS)


# Does the source state the figures of a claim? What it says otherwise or not at all, in plain words.

_BELOW_ZERO = frozenset(terms("loss negative minus deficit below")) | {
    stem for stem, (_, side) in _OPPOSED.items() if side == "fall"
}
_TABLE_SCALE = re.compile(
    r"\bin\s+(?:[A-Z$€£]{1,4}\s+)?(thousands|millions|billions)\b|[$€£](?:in\s+)?(000|m|mn|bn)\b", re.I
)
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[,.\s]+(?=\d)")


def check_figures(claim: str, stated: Sequence[Quantity], near: str, everything: str) -> tuple[list[str], list[str]]:
    """(what the source says otherwise, what it does not say), each in plain words.

    A figure is looked for in the chosen lines; where these say another in its place that is a clash, else the rest of
    the cited passages may say it.
    """
    if not stated:
        return [], []
    held = figures(near)
    factor = _table_factor(everything)
    free, open_figures = list(held), []
    for figure in stated:  # each figure of the source proves one of the claim, unless it is said twice
        proof = next((quantity for quantity in free if _agrees(claim, figure, quantity, factor)), None)
        if proof is not None:
            free.remove(proof)
        elif not any(_agrees(claim, figure, quantity, factor) for quantity in held) and not _is_spelled(figure, near):
            open_figures.append(figure)
    beyond: tuple[Quantity, ...] | None = None
    wrong, missing = [], []
    for figure in open_figures:
        shown = claim[figure.start : figure.end].strip()
        rival = _rival(claim, figure, free, near)
        if rival is not None:
            wrong.append(f"says {shown} where the source says {near[rival.start : rival.end].strip()}")
            continue
        if figure.weak:
            continue
        beyond = figures(everything) if beyond is None else beyond
        if not any(_agrees(claim, figure, quantity, factor) for quantity in beyond) and not _is_spelled(
            figure, everything
        ):
            missing.append(f"the source does not say {shown}")
    return wrong, missing


def _agrees(claim: str, figure: Quantity, quantity: Quantity, factor: float) -> bool:
    if agrees(figure, quantity):
        return True
    if quantity.kind != "number" or figure.kind != "number":
        return figure.kind == "ordinal" == quantity.kind and figure.value == quantity.value
    if figure.value * quantity.value < 0 and not _BELOW_ZERO.isdisjoint(terms(claim)):
        return agrees(positive(figure), positive(quantity))
    if factor > 1 and not quantity.unit:
        scaled = replace(quantity, value=quantity.value * factor, step=quantity.step * factor, unit=figure.unit)
        return agrees(figure, scaled)
    return False


def positive(quantity: Quantity) -> Quantity:
    """The same amount without its sign."""
    return replace(quantity, value=abs(quantity.value), bare=abs(quantity.bare))


def _table_factor(text: str) -> float:
    match = _TABLE_SCALE.search(text)
    return SCALES.get((match[1] or match[2]).lower(), SCALES["thousand"]) if match else 1.0  # "$000"


def _is_spelled(figure: Quantity, text: str) -> bool:
    """The same letters or digits, written in another way: `12 345`, `56, 000`, `TG 4`."""
    if figure.kind == "code":
        return _stands(figure.text, _compacted(text), lambda before: before.isascii() and before.isalnum())
    digits = "".join(filter(str.isdecimal, figure.text))
    if figure.kind != "number" or len(digits) < 4 or figure.unit:
        return False
    return _stands(digits, _joined(text), str.isdecimal)


def _stands(part: str, text: str, is_joined: Callable[[str], bool]) -> bool:
    """Whether it stands there as a whole. Not by a pattern made for it: to make one takes longer than all the rest."""
    at = text.find(part)
    while at >= 0:
        end = at + len(part)
        if not is_joined(text[max(0, at - 1) : at]) and not text[end : end + 1].isdecimal():
            return True
        at = text.find(part, at + 1)
    return False


# A claim may have a hundred figures, and all of them are looked for in the same passages.
@lru_cache(maxsize=8)
def _compacted(text: str) -> str:
    return compact(text)


@lru_cache(maxsize=8)
def _joined(text: str) -> str:
    """Digits with nothing between them."""
    return _BETWEEN_DIGITS.sub("", text)


def _rival(claim: str, figure: Quantity, free: Sequence[Quantity], near: str) -> Quantity | None:
    """The figure of the source that stands where the claim has another: its unit, or the same word beside it."""
    for quantity in free:
        if figure.kind == "date" and quantity.kind == "date":
            if any(known.clashes(time) for time in figure.when for known in quantity.when):
                return quantity
        elif figure.kind == "code" or quantity.kind == "code":
            if figure.kind == quantity.kind and figure.text[:2] == quantity.text[:2]:
                return quantity
        elif (figure.unit and figure.unit == quantity.unit and not figure.weak) or (
            _beside(claim, figure) & _beside(near, quantity)
        ):
            return quantity
    return None


def _beside(text: str, figure: Quantity) -> set[tuple[str, str]]:
    """The content word after the figure, and the one before it."""
    after, before = (
        content_stems(text[figure.end : figure.end + BESIDE]),
        content_stems(text[max(0, figure.start - BESIDE) : figure.start]),
    )
    return {("after", stem) for stem in after[:1]} | {("before", stem) for stem in before[-1:]}


MOST_LINES = 3  # sentences that may support a claim together
CONSIDERED = 12  # of the lines that fit best, for their figures
FIGURES_WEIGHT = 0.5
NEAR_GAIN, FAR_GAIN = 0.08, 0.15  # words, by weight, that a further line must add
CELLS = " | "  # between the cells of a table's row
# "According to the handbook, …" says where it stands, not what.
_LEAD = re.compile(r"\A\s*(?:according to|based on|(?:as \w+ )?in) the [^,.]{1,60},\s+", re.IGNORECASE)
# What speaks of itself is no document's.
_PERSONAL = frozenset(("i", "me", "my", "we", "you", "your", "i'm", "i've", "i'd"))


class SourceSentence(NamedTuple):
    """A sentence that may prove something: where it stands and what it says."""

    passage: int
    chunk: int  # place of the chunk in its passage
    sentence: int
    text: str
    stems: frozenset[str]
    cosine: float


@dataclass(frozen=True, slots=True)
class ClaimWords:
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

    lines: tuple[SourceSentence, ...]
    features: Mapping[str, float]
    covered: float  # share of the claim's words that stand in these lines or in their opposites, by weight
    clashes: tuple[str, ...]  # figures, negations and opposites that contradict
    gaps: tuple[str, ...]  # what the sources do not name

    def judged(self, logit: float | None) -> Support:
        """With what a judge says of claim and evidence; as it is where there is none."""
        return self if logit is None or not self.lines else replace(self, features={**self.features, JUDGED: logit})


EVIDENCE = 160  # words of the source that a judge reads with a claim; it has learned from so many


def evidence(claim: str, texts: Sequence[str], most: int = EVIDENCE, proofs: Iterable[int] = ()) -> str:
    """The sentences that share most with the claim, in their order, up to so many words; `proofs` before all others."""
    wanted = set(_LETTERS.findall(claim.lower()))
    bags = [set(_LETTERS.findall(text.lower())) for text in texts]
    often = Counter(word for bag in bags for word in bag)
    worth = [sum(1 / often[word] ** 0.5 for word in wanted & bag) for bag in bags]
    first = set(proofs)
    chosen, size = set(), 0
    for place in sorted(range(len(texts)), key=lambda place: (place not in first, -worth[place])):
        own = len(texts[place].split())
        if not size or size + own <= most:
            chosen.add(place)
            size += own
    return " ".join(" ".join(texts[place].split()) for place in sorted(chosen))


def read_claim(text: str, language: str = "en") -> ClaimWords:
    stated = figures(text)
    stems = content_stems(_LEAD.sub("", _without(text, stated)), language)
    return ClaimWords(text, stems, names(text, stated), stated, denied(text, language), tuple(words(text)))


def _without(text: str, stated: Sequence[Quantity]) -> str:
    """The words beside the figures: those are compared by what they mean, not by how they are written."""
    kept, position = [], 0
    for quantity in stated:
        if not quantity.weak:
            kept.append(text[position : quantity.start])
            position = quantity.end
    return " ".join([*kept, text[position:]])


def weights(claim: ClaimWords, lines: Sequence[SourceSentence]) -> dict[str, float]:
    """A word that few of the sentences have says more; one that none has says most."""
    count = len(lines)
    held = {stem: sum(stem in line.stems for line in lines) for stem in claim.stems}
    return {stem: math.log(1 + (count + 1) / (held[stem] + 0.5)) for stem in claim.stems}


def choose(
    claim: ClaimWords,
    lines: Sequence[SourceSentence],
    weight: Mapping[str, float],
    around: frozenset[str] = frozenset(),
) -> list[SourceSentence]:
    """The best line, then those that add the most words to it: a neighbour may help, any other line must add more.

    Rows of a table often differ in their figures alone: of the best lines, those that state the claim's come first.
    """
    total = sum(weight.values()) or 1.0

    def covered(stems: frozenset[str]) -> float:
        return sum(value for stem, value in weight.items() if stem in stems) / total

    scored = sorted(((covered(line.stems) + line.cosine, line) for line in lines), key=lambda pair: -pair[0])
    if claim.figures:
        best = [(score + FIGURES_WEIGHT * _stated_share(claim, line.text), line) for score, line in scored[:CONSIDERED]]
        scored[:CONSIDERED] = sorted(best, key=lambda pair: -pair[0])
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


def _stated_share(claim: ClaimWords, text: str) -> float:
    held = figures(text)
    return sum(any(agrees(figure, other) for other in held) for figure in claim.figures) / len(claim.figures)


def _is_near(line: SourceSentence, chosen: Sequence[SourceSentence]) -> bool:
    return any(
        line.passage == other.passage and line.chunk == other.chunk and abs(line.sentence - other.sentence) <= 2
        for other in chosen
    )


def support(
    claim: ClaimWords, lines: Sequence[SourceSentence], surroundings: str = "", language: str = "en"
) -> Support:
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
    clashes += [f"says “{word}” where the source says “{other}”" for word, other in opposed]
    gaps = [*missing_figures, *(f"the source does not name {name}" for name in unnamed)]
    opposing = frozenset(terms(" ".join(word for word, _ in opposed), language))
    return Support(tuple(chosen), features, covered(near | around | opposing), tuple(clashes), tuple(gaps))


def _is_figure(name: str) -> bool:
    return any(character.isdigit() for character in name)


def _is_named(name: str, folded: str) -> bool:
    wanted = fold(name).strip(".")
    return wanted in folded or wanted.replace("-", " ") in folded or wanted.replace("-", "") in folded


def _turned(claim: ClaimWords, best: str, joined: str, language: str) -> str:
    """Is something denied on one side only?"""
    own, theirs = is_negated(claim.text), is_negated(best)
    if own == theirs:
        return ""
    held = frozenset(terms(joined, language))
    if own and claim.denied & held and not claim.denied & denied(joined, language):
        return "says “not” where the source does not"
    if theirs and denied(best, language) & frozenset(claim.stems) and not denied(best, language) & claim.denied:
        return "omits a “not” in the source"
    return ""


def cosines(vector: NDArray[np.float32], rows: NDArray[np.int8]) -> NDArray[np.float32]:
    """Of a unit vector with rows of unit vectors scaled by 127."""
    found: NDArray[np.float32] = np.vecdot(rows.astype(np.float32), vector) / np.float32(UNIT)
    return found


# What is said of a claim, given what was found for it? The fitted model and the rules that overrule it.

JUDGED = "judged"  # the logit of a judge that has read claim and evidence, where there is one
# Learned by `python -m benchmarks.claims --fit`; figures in docs/evals.md. Above .5 is supported.
_LEARNED = json.loads((ASSETS / "claims.json").read_text(encoding="utf-8"))
COEFFICIENTS: Mapping[str, float] = _LEARNED["without_judge"]
WITH_JUDGE: Mapping[str, float] = _LEARNED["with_judge"]
SUPPORTED, PARTLY = 0.5, 0.3
MOST_SAID = 3  # things that do not fit, in one note
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
    score = probability(found.features, WITH_JUDGE if JUDGED in found.features else COEFFICIENTS)
    verdict, note = _verdict(found, score)
    return Judged(verdict, most(verdict, score), note, lines)


def most(verdict: Verdict, score: float) -> float:
    """The most that a claim of this verdict is supported."""
    if verdict == "contradicted":
        return 0.2 * score
    return score if verdict == "supported" else min(score, 0.49)


def _verdict(found: Support, score: float) -> tuple[Verdict, str]:
    note = "; ".join((*found.clashes, *found.gaps)[:MOST_SAID])
    if found.clashes and (found.covered >= _SAME_MATTER or found.features["cosine"] >= _SAME_MEANING):
        return "contradicted", note
    if found.gaps or found.clashes:
        return ("partly" if score >= SUPPORTED else "unsupported"), note
    if score >= SUPPORTED:
        return "supported", ""
    if score >= PARTLY:
        return "partly", "the source says only part of this"
    return "unsupported", "the source does not say this"


def probability(features: Mapping[str, float], coefficients: Mapping[str, float]) -> float:
    """The intercept is the coefficient that has no feature."""
    total = sum(weight * features.get(name, 1.0) for name, weight in coefficients.items())
    return 1 / (1 + math.exp(-total))


# --- two checks of one claim ---------------------------------------------------------------------------------------

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
    return replace(claim, verdict=verdict, score=round(most(verdict, claim.score), SCORE_DIGITS), note=note)


def kept_verdicts(claims: Sequence[Claim], before: Sequence[Claim]) -> tuple[Claim, ...]:
    """Claims that were read again, each with its verdict of before where that was worse: only its place has changed."""
    known = {claim.text: claim for claim in before}
    return tuple(
        replace(claim, verdict=old.verdict, score=old.score, note=old.note)
        if (old := known.get(claim.text)) is not None and _WORSE[old.verdict] > _WORSE[claim.verdict]
        else claim
        for claim in claims
    )
