"""Is the confidence what it says? Its calibration error, and the script that fits the numbers in ask/calibration.py.

python -m benchmarks.calibration           measures
python -m benchmarks.calibration --fit     fits anew and writes src/refdesk/ask/calibration.py

Nothing is fitted on squad*. "Was the right passage found?" is learned from sets of other kinds by asking each question
as it is, without its relevant passages, and without its whole topic. The confidence is fitted on the odd questions of
these sets, every third without its passages, and judged on the even ones and on squad_dev11.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import ROOT, Figure
from benchmarks.evidence import Case, cases, contains, context, retrieve, without
from benchmarks.retrieval import library
from refdesk import Refdesk
from refdesk.answer import Retrieved
from refdesk.ask.evidence.confidence import calibrated
from refdesk.ask.evidence.extract import extract
from refdesk.ask.evidence.relevance import judge, probability
from refdesk.settings import Settings

# Sets with complete judgements: in mtrag what is taken out often stands elsewhere too, and right quotes count as wrong.
SETS = ("hotpot500", "hotpot_train100", "musique_train100", "scifact")
# The last one has claims, not questions.
FOUND_SETS = SETS[:3]
FOUND = ("best", "gap", "cosine", "unnamed")
DEEP, TOPIC = 60, 12  # hits kept, and hits taken out with the relevant ones to leave the topic
BINS, KNOTS, BAR = 10, 9, 0.08
FILE = ROOT / "src" / "refdesk" / "ask" / "calibration.py"

Floats = NDArray[np.float64]


class Row(NamedTuple):
    """One way of asking a question: what was taken out, the features, and whether what is quoted is right."""

    number: int
    way: str  # whole, passage, topic
    features: dict[str, float]
    is_right: bool


def rows(name: str, most: int, ways: Sequence[str] = ("whole", "passage", "topic")) -> Iterator[Row]:
    """Each question in each way; right is a quote from a relevant passage, on squad* one that holds the answer.

    The answer to a question of several steps stands in no single sentence, so that its words would not tell.
    """
    with library(name) as desk:
        for number, case in enumerate(cases(desk, name, most, deep=DEEP)):
            for way in ways:
                asked = _without(desk, case, way)
                if asked.hits:
                    found = retrieve(desk, asked)
                    features = dict(judge(asked.query, found).features)
                    if features:
                        yield Row(
                            number,
                            way,
                            features,
                            _is_right(asked, found, desk.settings, by_answer=name.startswith("squad")),
                        )


def _without(desk: Refdesk, case: Case, way: str) -> Case:
    if way == "whole":
        return case
    near = {hit.document.id for hit in case.hits[:TOPIC]} if way == "topic" else frozenset()
    return without(case, lambda one: one.name in case.relevant or one.id in near, desk.settings.dense_weight)


def _is_right(case: Case, found: Retrieved, settings: Settings, *, by_answer: bool) -> bool:
    pieces = extract(case.query, context(found), found, settings)[: settings.max_sentences]
    if by_answer:
        return any(contains(piece, case.answers) for piece in pieces)
    numbers = {int(piece.rsplit("[", 1)[1].rstrip("]")) for piece in pieces}
    return any(found.hits[number - 1].document.name in case.relevant for number in numbers)


# --- fitting ---------------------------------------------------------------------------------------------------------


def fit_found(found: Sequence[Row]) -> tuple[dict[str, float], float]:
    """Logistic weights for 'the right passage is there', both classes of equal weight."""
    features = np.array([[row.features[name] for name in FOUND] for row in found])
    there = np.array([row.way == "whole" for row in found], dtype=float)
    mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-9
    balance = np.where(there == 1, 0.5 / there.mean(), 0.5 / (1 - there.mean()))
    weights = logistic((features - mean) / spread, there, balance)
    raw = weights[:-1] / spread
    named = {name: round(float(value), 2) for name, value in zip(FOUND, raw, strict=True)}
    return named, round(float(weights[-1] - raw @ mean), 2)


def logistic(features: Floats, target: Floats, balance: Floats, ridge: float = 1.0) -> Floats:
    """Newton's method; the last weight is the constant."""
    design = np.hstack([features, np.ones((len(features), 1))])
    weights = np.zeros(design.shape[1])
    penalty = np.diag([ridge] * features.shape[1] + [1e-6])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        slope = design.T @ (balance * (chance - target)) + penalty @ weights
        bend = (design * (balance * chance * (1 - chance))[:, None]).T @ design + penalty
        step = np.linalg.solve(bend, slope)
        weights -= step
        if np.abs(step).max() < 1e-8:
            break
    return weights


def fit_confidence(given: Floats, right: Floats) -> tuple[tuple[float, float], ...]:
    """Isotonic: the share of right answers in groups of rising probability, made to rise."""
    order = np.argsort(given)
    groups = [(float(given[part].mean()), float(right[part].mean())) for part in np.array_split(order, KNOTS)]
    pooled: list[tuple[float, float, int]] = []
    for place, share in groups:
        pooled.append((place, share, 1))
        while len(pooled) > 1 and pooled[-2][1] > pooled[-1][1]:
            (a, x, m), (b, y, n) = pooled[-2:]
            pooled[-2:] = [((a * m + b * n) / (m + n), (x * m + y * n) / (m + n), m + n)]
    knots = [(round(place, 3), round(share, 3)) for place, share, _ in pooled]
    return ((0.0, 0.0), *knots, (1.0, knots[-1][1]))


def ece(score: Floats, right: Floats) -> float:
    """Expected calibration error over ten bins of equal width."""
    bins = np.minimum((score * BINS).astype(int), BINS - 1)
    return float(sum(abs(score[bins == b].mean() - right[bins == b].mean()) * (bins == b).mean() for b in set(bins)))


def dev_rows(*, odd: bool, found: Sequence[Row]) -> list[Row]:
    """Half of the questions: two of three as they are, the third without its passages."""
    half = [row for row in found if (row.number % 2 == 1) == odd]
    return [row for row in half if row.way == ("passage" if row.number // 2 % 3 == 0 else "whole")]


def columns(found: Sequence[Row]) -> tuple[Floats, Floats]:
    given = np.array([probability(row.features) for row in found])
    return given, np.array([row.is_right for row in found], dtype=float)


def fit() -> None:
    """The weights first; the confidence rests on them."""
    by_set = {name: list(rows(name, 2000)) for name in SETS}
    weights, constant = fit_found([row for name in FOUND_SETS for row in by_set[name]])
    found = [row for name in SETS for row in by_set[name]]
    fitted = dev_rows(odd=True, found=found)
    given = np.array([probability(row.features, weights, constant) for row in fitted])
    right = np.array([row.is_right for row in fitted], dtype=float)
    _write(weights, constant, fit_confidence(given, right))


def _write(weights: dict[str, float], constant: float, knots: Sequence[tuple[float, float]]) -> None:
    shown = ", ".join(f'"{name}": {value}' for name, value in weights.items())
    lines = [
        '"""Fitted numbers, written by `python -m benchmarks.calibration --fit`; not by hand."""',
        "",
        "from __future__ import annotations",
        "",
        "# Was the right passage found? Logistic weights of the features in relevance.py.",
        f"FOUND = {{{shown}}}",
        f"FOUND_INTERCEPT = {constant}",
        "",
        "# Share of right answers (second) among those with this probability (first), straight lines between.",
        "CONFIDENCE = (",
        *(f"    ({place}, {share})," for place, share in knots),
        ")",
    ]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


# --- measuring -------------------------------------------------------------------------------------------------------


def figures(most: int = 2000) -> list[Figure]:
    found = [row for name in SETS for row in rows(name, most, ("whole", "passage"))]
    given, right = columns(dev_rows(odd=False, found=found))
    error = ece(np.array([calibrated(one) for one in given]), right)
    told = Figure(
        f"calibration error of confidence, held half ({len(given)} questions)", f"{error:.3f}", "≤ .08", error <= BAR
    )
    squad = list(rows("squad_dev11", most, ("whole", "passage")))
    given, right = columns(dev_rows(odd=False, found=squad) + dev_rows(odd=True, found=squad))
    error = ece(np.array([calibrated(one) for one in given]), right)
    what = f"the same on squad_dev11, on which nothing was fitted, a third of the passages removed ({len(given)})"
    return [told, Figure(what, f"{error:.3f}", "≤ .08", error <= BAR)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="fit anew and write the file")
    if parser.parse_args(arguments).fit:
        fit()
        print(FILE.read_text(encoding="utf-8"))
    else:
        for one in figures():
            print(one, flush=True)


if __name__ == "__main__":
    main()
