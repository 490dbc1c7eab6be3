"""Does the source state the figures of a claim? What it says otherwise or not at all, in plain words. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from refdesk.ask.proving.figures import Quantity, agrees, compact, figures
from refdesk.ask.proving.wording import content_stems

_DECREASE = re.compile(
    r"\b(?:loss|lost|fell|fall|decline|drop|decrease|negative|minus|down|deficit|below|reduc|shrank)", re.I
)
_TABLE_SCALE = re.compile(
    r"\bin\s+(?:[A-Z$€£]{1,4}\s+)?(thousands|millions|billions)\b|[$€£](?:in\s+)?(000|m|mn|bn)\b", re.I
)
_NO_DIGIT = re.compile(r"\D")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)[,.\s]+(?=\d)")
_TABLE_FACTOR = {"thousands": 1e3, "000": 1e3, "millions": 1e6, "m": 1e6, "mn": 1e6, "billions": 1e9, "bn": 1e9}


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
        proof = next((one for one in free if _agrees(claim, figure, one, factor)), None)
        if proof is not None:
            free.remove(proof)
        elif not any(_agrees(claim, figure, one, factor) for one in held) and not _is_spelled(figure, near):
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
        if not any(_agrees(claim, figure, one, factor) for one in beyond) and not _is_spelled(figure, everything):
            missing.append(f"the source does not say {shown}")
    return wrong, missing


def _agrees(claim: str, figure: Quantity, held: Quantity, factor: float) -> bool:
    if agrees(figure, held):
        return True
    if held.kind != "number" or figure.kind != "number":
        return figure.kind == "ordinal" == held.kind and figure.value == held.value
    if figure.value * held.value < 0 and _DECREASE.search(claim):
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
        return _stands(figure.text, _compacted(text), lambda before: before.isascii() and before.isalnum())
    digits = _NO_DIGIT.sub("", figure.text)
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
    for one in free:
        if figure.kind == "date" and one.kind == "date":
            if any(held.clashes(said) for said in figure.when for held in one.when):
                return one
        elif figure.kind == "code" or one.kind == "code":
            if figure.kind == one.kind and figure.text[:2] == one.text[:2]:
                return one
        elif (figure.unit and figure.unit == one.unit and not figure.weak) or (
            _beside(claim, figure) & _beside(near, one)
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
