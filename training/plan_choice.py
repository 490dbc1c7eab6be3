"""Which plan of which table answers? The weights that compare plans of several tables, and with none at all.

python -m training.plan_choice DATA

Learned from TAT-QA's contexts with an even index (MIT), all of them one library: the candidates of a question are its
own table and the five others that hold most of its words. A question that the text answers is answered by no table.
Beside them, questions made from the same tables: a cell by its row, its period as people spell it and the name of an
invented company, whose report the tables are taken to be from. They tell how much a period, a name and a unit weigh.
`plans`: the weights of the features of a plan, from all of these contexts. `judged`: those of that and of what the
shipped judge says, from the contexts that the judge has not learned from (every fourth of them).
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.table_questions import page
from numpy.typing import NDArray

from refdesk.ask.classify import asks_for_number
from refdesk.ask.plan_choice import (
    FILE,
    FoundTable,
    TablePlan,
    beside,
    choice,
    judge_plans,
    plans_over,
    shortlist,
    vocabulary,
)
from refdesk.ask.table_view import AskedWords
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.html import parse
from refdesk.ports import NoReader
from refdesk.providers.shipped import OnnxEmbedder, OnnxReader
from refdesk.records import StoredTable
from refdesk.text import ASSETS, terms
from refdesk.types import Document
from training.made_plans import invented, made_changes, made_questions
from training.plans import Asked, is_answer, tatqa_question

SEED = 11
MADE = 6  # questions from a table, at most
ABSENT = 0.2  # share of the made questions from which the table is taken away
OTHERS = 0.3  # of the other tables are from a report of another company
TABLES = 6
RIDGE = 0.002
SHOWN = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
Floats = NDArray[np.float64]


class Group(NamedTuple):
    """The plans of one question: a row of features for each, and which are right."""

    features: Floats
    is_right: NDArray[np.bool_]
    kind: str
    is_held_back: bool


class Planned(NamedTuple):
    asked: Asked
    own: StoredTable
    plans: list[TablePlan]

    def group(self, plans: Sequence[TablePlan], features: Floats) -> Group:
        has_answer = bool(self.asked.answers or self.asked.computed is not None)
        right = [has_answer and plan.candidate.table is self.own and is_answer(self.asked, plan.plan) for plan in plans]
        return Group(features, np.array(right, dtype=bool), self.asked.kind, self.asked.is_held_back)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    contexts = json.loads((parser.parse_args().data / "tables" / "tatqa_dev.json").read_text(encoding="utf-8"))
    planned = list(questions(contexts))
    groups = [one.group(one.plans, np.array([plan.features for plan in one.plans], dtype=float)) for one in planned]
    learned = learn([group for group in groups if not group.is_held_back])
    print("features, held back:", report(learned, [group for group in groups if group.is_held_back]))
    file = ASSETS / FILE
    np.savez(file, plans=learned.astype(np.float32), judged=np.zeros(4, np.float32))
    choice.cache_clear()
    judged = [judge(one, OnnxReader()) for one in planned if one.asked.is_held_back]
    last = learn(judged)
    print("with the judge, held back:", np.round(last, 2), report(last, judged))
    for shown in SHOWN:
        print(shown, thresholds(last, judged, shown))
    np.savez(file, plans=learn(groups).astype(np.float32), judged=last.astype(np.float32))


def questions(
    contexts: list[dict[str, Any]], most: int = MADE, *, turn: int = 0, is_held_back: bool | None = None
) -> Iterator[Planned]:
    """The real ones and `most` made ones of each table, all one library; of those held back or not, or of all.

    Another turn makes others of the same cells.
    """
    tables = {}
    for number, context in enumerate(contexts):
        if number % 2 == 0 and (own := tables_of(parse(page(context).encode(), ParseOptions()))):
            tables[number] = own[0]
    frequencies = Counter(stem for table in tables.values() for stem in vocabulary(table) | {*terms(table.caption)})
    idf = {stem: math.log(1 + (len(tables) - count + 0.5) / (count + 0.5)) for stem, count in frequencies.items()}
    embedder = OnnxEmbedder(threads=1)
    asked_of = {number: own for number, own in tables.items() if is_held_back in (None, number % 8 == 6)}
    for number, own in asked_of.items():
        for row in contexts[number]["questions"] if turn == 0 else ():
            asked = tatqa_question(row, contexts[number]["table"]["table"], "", number % 8 == 6)
            number_chance = asks_for_number(embedder.embed_query(asked.question), embedder)
            plans = plans_over(asked.question, found(asked.question, own, tables, idf), idf, number_chance, NoReader())
            if plans:
                yield Planned(asked, own, plans)
    for number, own in asked_of.items():
        dice = random.Random(SEED + number + 1000 * turn)
        company = invented(dice)
        made = (*made_questions(own, company, dice, most), *made_changes(own, company, dice, most // 2))
        for text, answers, computed in made:
            asked = Asked("made", text, (), "", None, answers, computed, number % 8 == 6)
            number_chance = asks_for_number(embedder.embed_query(text), embedder)
            report = Document("", f"{company} annual report", "", "", "ready")
            rival = Document("", f"{invented(dice)} annual report", "", "", "ready")
            candidates = [
                replace(one, document=rival if one.table is not own and dice.random() < OTHERS else report)
                for one in found(text, own, tables, idf)
            ]
            if dice.random() < ABSENT:
                candidates = [one for one in candidates if one.table is not own]
            if plans := plans_over(text, candidates, idf, number_chance, NoReader()):
                yield Planned(asked, own, plans)


def found(question: str, own: StoredTable, tables: dict[int, StoredTable], idf: dict[str, float]) -> list[FoundTable]:
    """The question's own table and those that hold most of its words."""
    stems = AskedWords(question).bits
    match = {
        number: sum(idf.get(stem, 6.0) for stem in stems if stem in vocabulary(table))
        for number, table in tables.items()
    }
    most = max(match.values()) or 1.0
    ranked = sorted(tables, key=lambda number: (tables[number] is not own, -match[number]))[:TABLES]
    nobody = Document("", "", "", "", "ready")
    return [FoundTable(tables[number], nobody, match[number] / most) for number in ranked]


def judge(planned: Planned, judging: OnnxReader) -> Group:
    plans, scores = shortlist(planned.plans)
    logits = judge_plans(plans, judging)
    return planned.group(plans, beside(scores, logits))


def learn(groups: Sequence[Group], steps: int = 400) -> Floats:
    """Full gradient steps with momentum; a question whose answer is no plan counts for `none`, whose score is 0."""
    scale = np.concatenate([group.features for group in groups]).std(axis=0) + 1e-6
    weights = np.zeros(len(scale) + 1)
    moved = weights.copy()
    for _ in range(steps):
        gradient = np.zeros_like(weights)
        for group in groups:
            rows = np.c_[group.features / scale, np.ones(len(group.features))]
            scores = np.append(rows @ weights, 0.0)
            chances = np.exp(scores - scores.max())
            chances /= chances.sum()
            good = np.append(group.is_right, not group.is_right.any())
            target = chances * good / max(float((chances * good).sum()), 1e-12)
            gradient += (chances - target)[:-1] @ rows
        moved = 0.9 * moved - 0.5 * (gradient / len(groups) + RIDGE * np.append(weights[:-1], 0.0))
        weights = weights + moved
    return weights / np.append(scale, 1.0)


def best(weights: Floats, group: Group) -> tuple[int, float]:
    """The likeliest plan and its chance."""
    scores = group.features @ weights[:-1] + weights[-1]
    at = int(scores.argmax())
    return at, float(1 / (np.exp(scores - scores[at]).sum() + math.exp(-scores[at])))


def report(weights: Floats, groups: Sequence[Group]) -> str:
    """By kind of question: right first, and possible."""
    counts: dict[str, list[int]] = {}
    for group in groups:
        own = counts.setdefault(group.kind, [0, 0, 0])
        own[0] += 1
        own[1] += bool(group.is_right[best(weights, group)[0]])
        own[2] += bool(group.is_right.any())
    return "; ".join(
        f"{kind} {right / total:.3f} of {total} ({possible / total:.2f} possible)"
        for kind, (total, right, possible) in counts.items()
    )


def thresholds(weights: Floats, groups: Sequence[Group], shown: float) -> str:
    """What is shown from this chance on: of the questions to a table, of those to the text, and how many are right."""
    counts = {False: [0, 0, 0], True: [0, 0, 0]}
    for group in groups:
        at, chance = best(weights, group)
        own = counts[group.kind == "text"]
        own[0] += 1
        own[1] += chance >= shown
        own[2] += chance >= shown and bool(group.is_right[at])
    (tables, by_table, right), (texts, by_text, _) = counts[False], counts[True]
    return f"table {by_table / tables:.2f} shown, {right / tables:.3f} right; text {by_text / texts:.3f} shown"


if __name__ == "__main__":
    main()
