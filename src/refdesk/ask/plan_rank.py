"""Which plan answers the question? A log-linear model over plans, learned from questions whose answers are known.

What a plan does (operation, selection, kind of result) is weighed by the question's word sequences; how well it fits
(words covered, qualities, order) by a weight each. One more plan, `none`, stands for "the table does not answer this".
`training/plans.py` learns the weights in assets/plans.npz, and says from which questions.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Container, Sequence
from functools import cache
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.plan_words import KINDS, OPERATIONS, SELECTIONS, CellPlan, Selection
from refdesk.ask.plans import TableViews
from refdesk.ask.table_view import AskedWords, View
from refdesk.terms import QUERY_STOP_WORDS

FILE = "plans.npz"
SLOTS = 1 << 12  # that word sequences are hashed into
OPERATION = {name: number for number, name in enumerate(OPERATIONS)}
SELECTION = {name: number for number, name in enumerate(SELECTIONS)}
KIND = {name: number for number, name in enumerate(KINDS)}
COMPARING = frozenset(("max", "min", "more", "less", "least", "most", "same"))
_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMBER = re.compile(r"\d")
_WORD = re.compile(r"\w+")
WIDTH = 30
MOST_ROWS = 30  # that are told apart by their number: nine in ten sets of rows that it was learned from are smaller


class Described(NamedTuple):
    """The plans of one question as numbers: the last one is `none`."""

    slots: NDArray[np.int32]
    ids: NDArray[np.int16]  # operation, selection, kind
    features: NDArray[np.float32]


def word_slots(question: AskedWords, vocabulary: Container[str]) -> NDArray[np.int32]:
    """One to three words in a row, hashed; words of the table and numbers stand for themselves only as such."""
    said = ["^"]
    for word, stem in zip(question.words, question.stems, strict=True):
        if _NUMBER.match(word):
            said.append("#year" if _YEAR.fullmatch(word) else "#")
        else:
            said.append("_" if stem in vocabulary and word not in QUERY_STOP_WORDS else word)
    said.append("$")
    runs = {" ".join(said[at : at + length]) for length in (1, 2, 3) for at in range(len(said) - length + 1)}
    return np.array(sorted({zlib.crc32(run.encode()) % SLOTS for run in runs}), dtype=np.int32)


def describe(question: AskedWords, table: TableViews, plans: Sequence[CellPlan], context: int = 0) -> Described:
    """`context`: the question's words that stand around the table: in its caption, headings, the document's name."""
    words = max(1, len(question.bits))
    lowered, own_words = question.text.lower(), set(question.words)
    chosen: dict[tuple[int, tuple[Selection, ...]], list[float]] = {}  # many plans share their rows
    shown: dict[tuple[str, ...], tuple[float, float, float]] = {}
    ids, rows = [], []
    for plan in plans:
        view = table.view_of(plan)
        key = (id(view), plan.selections)
        own = chosen.get(key)
        if own is None:
            own = chosen[key] = _of_rows(view, plan.selections, words)
        row = own.copy()
        first, mask, quality, number = plan.selections[0], plan.mask, plan.column_quality, plan.number
        covered = mask.bit_count()
        row[0] = covered / words
        row[1] = words - covered
        row[2] = (mask | context).bit_count() / words
        row[4] = quality
        row[5] = quality > 0
        row[6] = quality >= 1
        row[7] = plan.column == 0
        row[9] = plan.operation == "value" and len(plan.texts) == 1
        row[10] = len(plan.texts) > 1
        row[11] = plan.column == first.by
        row[14] = plan.turned
        if plan.texts:
            if plan.texts not in shown:
                shown[plan.texts] = _of_texts(plan.texts, lowered, own_words)
            row[15:18] = shown[plan.texts]
        row[22] = number == 0
        row[23] = number is not None and abs(number) > 1000
        row[25] = plan.backwards
        if plan.backwards:
            row[26] = -row[26]
        row[29] = first.kind == "any" and covered / words
        rows.append(row)
        ids.append((OPERATION[plan.operation], SELECTION[first.kind], KIND[plan.kind]))
    features = np.array(rows, dtype=np.float32).reshape(len(rows), WIDTH)
    best = np.zeros((1, WIDTH), dtype=np.float32)
    if rows:
        best[0, :5] = features[:, :5].max(axis=0)
    vocabulary: Container[str] = table.views[0].vocabulary if table.views else ()
    return Described(
        word_slots(question, vocabulary),
        np.array([*ids, (OPERATION["none"], 0, KIND["text"])], dtype=np.int16),
        np.concatenate([features, best]),
    )


def _of_rows(view: View, selections: tuple[Selection, ...], words: int) -> list[float]:
    """The features that depend on the chosen rows alone."""
    row, first = [0.0] * WIDTH, selections[0]
    row[3] = sum(selection.quality for selection in selections) / len(selections)
    row[8] = math.log1p(min(len(first.rows), MOST_ROWS))
    if first.kind in COMPARING:
        row[12], row[13] = first.by_quality, first.by_quality == 0
    row[19] = first.quality >= 1
    row[20] = first.by == 0
    row[21] = first.mask.bit_count() / words
    row[27] = len(first.rows) == 1
    if len(selections) == 2:
        row[18] = first.by == selections[1].by
        row[24] = selections[1].mask.bit_count() / words
        row[26] = _order(view.texts, selections)
        row[28] = _alike(view, selections)
    return row


def _of_texts(texts: Sequence[str], lowered: str, own_words: set[str]) -> tuple[float, float, float]:
    shown = " ".join(texts).lower()
    shown_words = _WORD.findall(shown)
    repeated = sum(word in own_words for word in shown_words) / max(1, len(shown_words))
    return float(len(shown) > 2 and shown in lowered), repeated, min(len(shown), 80) / 80


def _alike(view: View, selections: Sequence[Selection]) -> float:
    """Share of the words that the names of both rows have: "assets 2018" is compared with "assets 2019"."""
    first, second = ({*view.cells[chosen.rows[0]][0]} for chosen in selections)
    return len(first & second) / max(1, len(first | second))


def _order(texts: Sequence[Sequence[str]], selections: Sequence[Selection]) -> float:
    """1 where the later year comes first, -1 where the earlier does."""
    years = [_YEAR.search(texts[chosen.rows[0]][0]) for chosen in selections]
    if years[0] is None or years[1] is None or years[0][0] == years[1][0]:
        return 0.0
    return 1.0 if years[0][0] > years[1][0] else -1.0


class PlanWeights:
    """What was learned."""

    def __init__(self, arrays: dict[str, NDArray[np.float32]] | None = None) -> None:
        if arrays is None:
            arrays = {
                "operation": np.zeros((len(OPERATION), SLOTS), np.float32),
                "selection": np.zeros((len(SELECTION), SLOTS), np.float32),
                "kind": np.zeros((len(KIND), SLOTS), np.float32),
                "bias": np.zeros((len(OPERATION), len(SELECTION), len(KIND)), np.float32),
                "fit": np.zeros(WIDTH, np.float32),
                "fit_operation": np.zeros((len(OPERATION), WIDTH), np.float32),
                "fit_selection": np.zeros((len(SELECTION), WIDTH), np.float32),
            }
        self.arrays = arrays

    def scores(self, described: Described) -> NDArray[np.float32]:
        """Of every plan, `none` last; their softmax is the chance that each is the right one."""
        arrays, (operation, selection, kind) = self.arrays, described.ids.T
        slots, features = described.slots, described.features
        words = (
            arrays["operation"][:, slots].sum(axis=1)[operation] + arrays["selection"][:, slots].sum(axis=1)[selection]
        )
        words += arrays["kind"][:, slots].sum(axis=1)[kind]
        fit = arrays["fit"] + arrays["fit_operation"][operation] + arrays["fit_selection"][selection]
        found: NDArray[np.float32] = words + arrays["bias"][operation, selection, kind] + (features * fit).sum(axis=1)
        return found


@cache
def weights() -> PlanWeights:
    with resources.files("refdesk.assets").joinpath(FILE).open("rb") as file, np.load(file) as kept:
        return PlanWeights({name: kept[name].astype(np.float32) for name in kept.files})
