"""Does the answer without a model hold the right sentence? And does reranking by sentences order better?

python -m benchmarks.extractive [--questions 1000]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.common import Figure
from benchmarks.evidence import LOOKED_AT, cases, contains, context, retrieve
from benchmarks.retrieval import library, ndcg
from refdesk.ask.evidence.extract import extract

FIRST_BAR, THREE_BAR = 0.77, 0.89
RANKED = ("squad_dev11", "scifact", "cranfield", "hotpot500", "mtrag_cloud", "mtrag_govt")
LOSS = 0.003  # most that reranking may cost a set


def answered(name: str, most: int) -> tuple[float, float, float]:
    """Share of questions whose first, whose first three sentences hold the answer, and sentences per answer."""
    first = three = sentences = count = 0
    with library(name) as desk:
        for case in cases(desk, name, most):
            found = retrieve(desk, case)
            pieces = extract(case.query, context(found), found, desk.settings)[:3]
            held = [contains(piece, case.answers) for piece in pieces]
            first += bool(held and held[0])
            three += any(held)
            sentences += len(pieces)
            count += 1
    return first / count, three / count, sentences / count


def reranked(name: str, most: int) -> tuple[float, float]:
    """nDCG@10 before and after reranking the first twenty candidates."""
    before = after = count = 0.0
    with library(name) as desk:
        for case in cases(desk, name, most, deep=50):
            relevant = dict.fromkeys(case.relevant, 1)
            rest = [hit.document.name for hit in case.hits[LOOKED_AT:]]
            plain = [hit.document.name for hit in case.hits]
            ranked = [hit.document.name for hit in retrieve(desk, case).considered]
            before += ndcg(list(dict.fromkeys(plain)), relevant)
            after += ndcg(list(dict.fromkeys(ranked + rest)), relevant)
            count += 1
    return before / count, after / count


def figures(most: int = 1000) -> list[Figure]:
    first, three, sentences = answered("squad_dev11", most)
    found = [
        Figure("extractive, squad_dev11: first sentence holds the answer", f"{first:.3f}", "≥ .77", first >= FIRST_BAR),
        Figure(
            f"extractive, squad_dev11: one of at most three does ({sentences:.1f} quoted)",
            f"{three:.3f}",
            "≥ .89",
            three >= THREE_BAR,
        ),
    ]
    other = answered("squadshift_reddit", most)
    found.append(Figure("the same on squadshift_reddit, first / of three", f"{other[0]:.3f} / {other[1]:.3f}"))
    for name in RANKED:
        before, after = reranked(name, most)
        is_met = after > before if name == "squad_dev11" else after >= before - LOSS
        found.append(Figure(f"rerank by sentences, {name}: nDCG@10", f"{before:.3f} → {after:.3f}", "no loss", is_met))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=1000)
    for one in figures(parser.parse_args(arguments).questions):
        print(one, flush=True)


if __name__ == "__main__":
    main()
