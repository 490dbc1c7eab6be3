"""Does Refdesk know when the answer is not there? Without a model; thresholds fixed on other questions.

python -m benchmarks.abstention [--questions 4000]

Each of the first two takes out what answers a question for every second question; refusing those is right. The third
asks questions that a passage which is there does not answer.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Figure
from benchmarks.evidence import DEEP, Case, cases, retrieve, without
from benchmarks.retrieval import library
from refdesk import Refdesk
from refdesk.ask.evidence.relevance import judge

Judged = tuple[NDArray[np.float64], NDArray[np.int64]]  # probability that it is there; 1 where refusing is right
BARS = {"passage": 0.82, "article": 0.93, "squad2": 0.48}


def removed(most: int, *, whole_article: bool) -> Judged:
    """squad_dev11 with the passage, or its whole article, taken out for every second question."""
    found = []
    with library("squad_dev11") as desk:
        for number, case in enumerate(cases(desk, "squad_dev11", most, deep=DEEP)):
            is_absent = number // 2 % 2 == 0
            asked = without(case, _gone(case, whole_article), desk.settings.dense_weight) if is_absent else case
            found.append((_judge(desk, asked), int(is_absent)))
    return _columns(found)


def unanswerable(most: int, form: str) -> Judged:
    """squad2_disfl: questions that the passage they are about does not answer, in one of their two forms."""
    with library("squad2_disfl") as desk:
        rows = cases(desk, "squad2_disfl", most, form=form)
        return _columns([(_judge(desk, case), int(case.is_impossible)) for case in rows])


def f1(judged: Judged) -> tuple[float, float, float]:
    """F1 of refusing on the even questions at the threshold that is best on the odd ones; the threshold; the AUC."""
    probability, absent = judged
    threshold = best_threshold(probability[1::2], absent[1::2])
    refused, right = probability[::2] <= threshold, absent[::2]
    value = 2 * int((refused & (right == 1)).sum()) / max(1, int(refused.sum() + right.sum()))
    return value, threshold, auc(probability[::2], right)


def best_threshold(probability: NDArray[np.float64], absent: NDArray[np.int64]) -> float:
    order = np.argsort(probability)
    hits = np.cumsum(absent[order])
    values = 2 * hits / (np.arange(1, len(order) + 1) + absent.sum())
    return float(probability[order][int(values.argmax())])


def auc(probability: NDArray[np.float64], absent: NDArray[np.int64]) -> float:
    """The chance that a question whose answer is there gets more than one whose is not."""
    ranks = np.empty(len(probability))
    ranks[np.argsort(probability)] = np.arange(1, len(probability) + 1)
    there = int((absent == 0).sum())
    gone = len(absent) - there
    return float((ranks[absent == 0].sum() - there * (there + 1) / 2) / max(1, there * gone))


def _gone(case: Case, whole_article: bool) -> Callable[..., bool]:
    titles = {hit.document.title for hit in case.hits if hit.document.name in case.relevant}
    return lambda document: document.name in case.relevant or (whole_article and document.title in titles)


def _judge(desk: Refdesk, case: Case) -> float:
    return judge(case.query, retrieve(desk, case)).probability


def _columns(found: Sequence[tuple[float, int]]) -> Judged:
    return np.array([one for one, _ in found]), np.array([other for _, other in found])


def figures(most: int = 4000) -> list[Figure]:
    measured = [
        ("passage", "squad_dev11, passage removed", removed(most, whole_article=False)),
        ("article", "squad_dev11, whole article removed", removed(most, whole_article=True)),
        ("squad2", "squad2_disfl, as asked", unanswerable(2 * most, "text")),
        ("squad2", "squad2_disfl, disfluent form", unanswerable(2 * most, "disfluent")),
    ]
    found = []
    for name, what, judged in measured:
        value, threshold, area = f1(judged)
        shown = f"{value:.3f} (AUC {area:.3f}, threshold {threshold:.2f}, {len(judged[0])} questions)"
        found.append(Figure(f"abstention F1, {what}", shown, f"≥ {BARS[name]:.2f}"[:6], value >= BARS[name]))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=4000)
    for one in figures(parser.parse_args(arguments).questions):
        print(one, flush=True)


if __name__ == "__main__":
    main()
