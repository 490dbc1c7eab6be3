"""Which plan of which table answers? The weights that compare plans of several tables, and with none at all.

python -m training.plan_choice DATA

Learned from TAT-QA's contexts with an even index (MIT), all of them one library: the candidates of a question are its
own table and the five others that hold most of its words. A question that the text answers is answered by no table.
Held back: every fourth of these contexts.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.table_questions import page
from numpy.typing import NDArray

from refdesk.ask.classify import asks_for_number
from refdesk.ask.plans import Question
from refdesk.ask.table_answer import FEATURES, FILE, Candidate, plans_over, vocabulary
from refdesk.cells import StoredTable
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.html import parse
from refdesk.providers.embed import OnnxEmbedder
from refdesk.terms import terms
from refdesk.text import ASSETS
from refdesk.types import Document
from training.plans import is_answer, tatqa_question

TABLES = 6
STEPS, RIDGE = 400, 0.02


def library(contexts: list[dict[str, Any]]) -> dict[int, StoredTable]:
    found = {}
    for number, context in enumerate(contexts):
        if number % 2 == 0:
            own = tables_of(parse(page(context).encode(), ParseOptions()))
            if own:
                found[number] = own[0]
    return found


def found(question: str, own: StoredTable, tables: dict[int, StoredTable], idf: dict[str, float]) -> list[Candidate]:
    """The question's own table and those that hold most of its words."""
    stems = Question(question).bits
    match = {
        number: sum(idf.get(stem, 6.0) for stem in stems if stem in vocabulary(table))
        for number, table in tables.items()
    }
    most = max(match.values()) or 1.0
    ranked = sorted(tables, key=lambda number: (tables[number] is not own, -match[number]))[:TABLES]
    nobody = Document("", "", "", "", "ready")
    return [Candidate(tables[number], nobody, match[number] / most) for number in ranked]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    contexts = json.loads((given.data / "tables" / "tatqa_dev.json").read_text(encoding="utf-8"))
    tables = library(contexts)
    frequencies = Counter(stem for table in tables.values() for stem in vocabulary(table) | {*terms(table.caption)})
    idf = {stem: math.log(1 + (len(tables) - count + 0.5) / (count + 0.5)) for stem, count in frequencies.items()}
    embedder = OnnxEmbedder(threads=1)
    groups: list[tuple[NDArray[np.float32], NDArray[np.bool_], bool, str]] = []
    for number, own in tables.items():
        for row in contexts[number]["questions"]:
            asked = tatqa_question(row, contexts[number]["table"]["table"], "", number % 8 == 6)
            candidates = found(asked.question, own, tables, idf)
            plans = plans_over(
                asked.question, candidates, idf, asks_for_number(embedder.embed_query(asked.question), embedder)
            )
            if not plans:
                continue
            right = [
                plan.candidate.table is own
                and bool(asked.answers or asked.computed is not None)
                and is_answer(asked, plan.plan)
                for plan in plans
            ]
            groups.append((np.array([plan.features for plan in plans]), np.array(right), number % 8 == 6, asked.kind))
    print(len(groups), "questions")
    weights = learn([group for group in groups if not group[2]])
    for held in (False, True):
        print("held back" if held else "learned", report(weights, [group for group in groups if group[2] == held]))
    print(np.round(weights, 2))
    for shown in (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5):
        print(shown, thresholds(weights, groups, shown))
    weights = learn(groups)
    np.save(ASSETS / FILE, weights.astype(np.float32))


def learn(groups: list[tuple[NDArray[np.float32], NDArray[np.bool_], bool, str]]) -> NDArray[np.float64]:
    """Full gradient steps with momentum; a question whose answer is no plan counts for `none`."""
    scale = np.concatenate([group[0] for group in groups]).std(axis=0) + 1e-6
    weights, moved = np.zeros(FEATURES + 1), np.zeros(FEATURES + 1)
    for _ in range(STEPS):
        gradient = np.zeros(FEATURES + 1)
        for features, right, *_ in groups:
            rows = np.c_[features / scale, np.ones(len(features))]
            scores = np.append(rows @ weights, 0.0)
            chances = np.exp(scores - scores.max())
            chances /= chances.sum()
            good = np.append(right, not right.any())
            target = chances * good / max(float((chances * good).sum()), 1e-12)
            gradient += (chances - target)[:-1] @ rows
        moved = 0.9 * moved - 0.5 * (gradient / len(groups) + RIDGE * np.append(weights[:-1], 0.0) / 10)
        weights += moved
    return weights / np.append(scale, 1.0)


def thresholds(
    weights: NDArray[np.float64], groups: list[tuple[NDArray[np.float32], NDArray[np.bool_], bool, str]], shown: float
) -> str:
    """What is shown from this chance on: of the questions to a table, of those to the text, and how many are right."""
    counts = {False: [0, 0, 0], True: [0, 0, 0]}
    for features, right, _, kind in groups:
        scores = features @ weights[:-1] + weights[-1]
        best = int(scores.argmax())
        chance = 1 / (np.exp(scores - scores[best]).sum() + math.exp(-scores[best]))
        own = counts[kind == "text"]
        own[0] += 1
        own[1] += chance >= shown
        own[2] += chance >= shown and bool(right[best])
    (tables, by_table, right_ones), (texts, by_text, _) = counts[False], counts[True]
    return f"table {by_table / tables:.2f} shown, {right_ones / tables:.3f} right; text {by_text / texts:.3f} shown"


def report(weights: NDArray[np.float64], groups: list[tuple[NDArray[np.float32], NDArray[np.bool_], bool, str]]) -> str:
    """By kind of question: right first, possible; and of the sure ones, how many are right."""
    counts: dict[str, list[int]] = {}
    sure = [0, 0]
    for features, right, _, kind in groups:
        scores = features @ weights[:-1] + weights[-1]
        best = int(scores.argmax())
        chance = 1 / (np.exp(scores - scores[best]).sum() + math.exp(-scores[best]))
        own = counts.setdefault(kind, [0, 0, 0, 0])
        own[0] += 1
        own[1] += bool(right[best])
        own[2] += bool(right.any())
        own[3] += scores[best] > 0
        sure[0] += chance > 0.6
        sure[1] += chance > 0.6 and bool(right[best])
    shown = [
        f"{kind} {a[1] / a[0]:.3f} of {a[0]} ({a[2] / a[0]:.2f} possible, {a[3] / a[0]:.2f} over none)"
        for kind, a in counts.items()
    ]
    return "; ".join(shown) + f"; sure {sure[0]}, right {sure[1] / max(1, sure[0]):.3f}"


if __name__ == "__main__":
    main()
