"""Learns which plan over a table answers a question, and writes src/refdesk/assets/plans.npz.

python -m training.plans DATA WORK [--questions 7000] [--processes 2]

From WikiTableQuestions' tables with an even number (CC BY-SA 4.0) and TAT-QA's contexts with an even index (MIT). Only
answers are known, not plans: every plan that gives the answer counts as right, and their chance together is what is
raised. Where none does, or the answer stands in the text, `none` is right. Tables whose number leaves 6 when divided
by 8 are held back and measured after each pass; the odd ones are touched by benchmarks only.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import pickle
import random
import re
import time
import unicodedata
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.plans import TableViews
from refdesk.ask.table_question import FILE, Described, PlanWeights, describe
from refdesk.ask.table_view import KINDS, OPERATIONS, SELECTIONS, AskedWords, CellPlan
from refdesk.tables import cell_number, read_grid

ASSETS = Path(__file__).parent.parent / "src" / "refdesk" / "assets"
SEED, PASSES, STEP, MOST_WRONG = 7, 6, 0.15, 500
SHRINK = 3e-5


class Asked(NamedTuple):
    """A question of a table, with its answers."""

    kind: str
    question: str
    rows: Sequence[Sequence[str]]
    caption: str
    head: int | None
    answers: tuple[str, ...]
    computed: float | None
    is_held_back: bool


class Example(NamedTuple):
    kind: str
    described: Described
    is_right: NDArray[np.bool_]
    is_held_back: bool


def normal(text: str) -> str:
    """As the WikiTableQuestions evaluator compares."""
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if unicodedata.category(c) != "Mn")
    text = re.sub(r"[‘’´`]", "'", text)
    text = re.sub(r"[“”]", '"', text)
    text = re.sub(r"[‐‑‒–—−]", "-", text)
    while True:
        before = text
        text = re.sub(r"((?<!^)\[[^\]]*\]|\[\d+\]|[•♦†‡*#+])*$", "", text.strip())
        text = re.sub(r"(?<!^)( \([^)]*\))*$", "", text.strip())
        text = re.sub(r'^"([^"]*)"$', r"\1", text.strip())
        if text == before:
            break
    return re.sub(r"\s+", " ", text.removesuffix(".")).lower().strip()


def is_answer(asked: Asked, plan: CellPlan) -> bool:
    """Does the plan give just the answer?"""
    if asked.computed is not None:
        return plan.number is not None and not plan.texts and _same(plan.number, asked.computed)
    wanted = sorted(map(normal, asked.answers))
    if plan.texts:
        found = sorted(map(normal, plan.texts))
        return len(found) == len(wanted) and all(map(_same_text, found, wanted))
    if len(wanted) != 1 or plan.number is None:
        return False
    number = cell_number(wanted[0])
    return number is not None and bool(re.fullmatch(r"[-+$€£\d.,%\s]+", wanted[0])) and _same(plan.number, number)


def _same(found: float, wanted: float) -> bool:
    return abs(round(found, 2) - wanted) <= 0.0051 or abs(found - wanted) <= 1e-4 * abs(wanted)


def _same_text(found: str, wanted: str) -> bool:
    if found == wanted or (wanted in found and len(wanted) >= 0.6 * len(found)):
        return True
    numbers = cell_number(found), cell_number(wanted)
    return None not in numbers and numbers[0] == numbers[1] and bool(re.fullmatch(r"[-+$€£\d.,%()\s]+", found))


def wiki_tables(data: Path, most: int) -> Iterator[Asked]:
    folder = data / "tables" / "wikitablequestions"
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if int(row["table"].split("-")[1]) % 2 == 0]
    random.Random(SEED).shuffle(rows)
    with zipfile.ZipFile(folder / "tables.zip") as archive:
        for row in rows[:most]:
            text = io.TextIOWrapper(archive.open(f"{row['table']}.csv"), encoding="utf-8", newline="")
            held = int(row["table"].split("-")[1]) % 8 == 6
            yield Asked(
                "wiki", row["question"], [*csv.reader(text, escapechar="\\")], "", 1, tuple(row["answers"]), None, held
            )


def tatqa(data: Path) -> Iterator[Asked]:
    contexts = json.loads((data / "tables" / "tatqa_dev.json").read_text(encoding="utf-8"))
    for number, context in enumerate(contexts):
        if number % 2:
            continue
        caption = " ".join(paragraph["text"] for paragraph in context["paragraphs"][:1])
        for row in context["questions"]:
            yield tatqa_question(row, context["table"]["table"], caption, number % 8 == 6)


def tatqa_question(row: dict[str, Any], table: Sequence[Sequence[str]], caption: str, held: bool) -> Asked:
    answer = row["answer"]
    computed = None
    if row["answer_from"] == "text":
        answers: tuple[str, ...] = ()
    elif row["answer_type"] in ("arithmetic", "count"):
        answers, computed = (), float(answer)
    else:
        answers = tuple(map(str, answer if isinstance(answer, list) else [answer]))
    kind = "text" if row["answer_from"] == "text" else row["answer_type"]
    return Asked(kind, row["question"], table, caption, None, answers, computed, held)


def example(asked: Asked) -> Example:
    table = TableViews(read_grid(asked.rows, asked.caption, asked.head))
    question = AskedWords(asked.question)
    plans = table.plans(question)
    return example_of(asked, plans, describe(question, table, plans))


def example_of(asked: Asked, plans: Sequence[CellPlan], described: Described) -> Example:
    right = (
        [is_answer(asked, plan) for plan in plans]
        if asked.answers or asked.computed is not None
        else [False] * len(plans)
    )
    compact = described._replace(features=described.features.astype(np.float16))
    return Example(asked.kind, compact, np.array([*right, not any(right)]), asked.is_held_back)


def examples(asked: Sequence[Asked], processes: int) -> list[Example]:
    with Pool(processes) as pool:
        return list(pool.imap(example, asked, chunksize=16))


def learn(rows: Sequence[Example], report: Callable[[PlanWeights, int], None]) -> PlanWeights:
    """AdaGrad, a question a step; wrong plans are sampled."""
    weights, dice = PlanWeights(), np.random.default_rng(SEED)
    squares = {name: np.full_like(array, 1e-6) for name, array in weights.arrays.items()}
    order = np.arange(len(rows))
    for number in range(PASSES):
        dice.shuffle(order)
        step = STEP / (1 + number / 2)
        for at in order:
            _learn_one(weights, squares, rows[at], step, dice)
        report(weights, number)
    return weights


def _learn_one(
    weights: PlanWeights, squares: dict[str, Any], row: Example, step: float, dice: np.random.Generator
) -> None:
    described, right = row.described, row.is_right
    if len(right) > MOST_WRONG:
        wrong = (
            dice.choice(np.flatnonzero(~right[:-1]), MOST_WRONG, replace=False)
            if (~right[:-1]).sum() > MOST_WRONG
            else np.flatnonzero(~right[:-1])
        )
        kept = np.concatenate([np.flatnonzero(right[:-1]), wrong, [len(right) - 1]])
        described = described._replace(ids=described.ids[kept], features=described.features[kept])
        right = right[kept]
    features = described.features.astype(np.float32)
    scores = weights.scores(described._replace(features=features))
    chances = np.exp(scores - scores.max())
    chances /= chances.sum()
    good = chances * right
    change = chances - good / max(float(good.sum()), 1e-9)
    operation, selection, kind = described.ids.T

    def move(name: str, at: Any, gradient: NDArray[np.float32], speed: float) -> None:
        array, square = weights.arrays[name], squares[name]
        gradient = gradient + SHRINK * array[at]
        square[at] += gradient * gradient
        array[at] -= step * speed * gradient / np.sqrt(square[at])

    for name, of, size in (
        ("operation", operation, len(OPERATIONS)),
        ("selection", selection, len(SELECTIONS)),
        ("kind", kind, len(KINDS)),
    ):
        moved = np.bincount(of, change, size).astype(np.float32)
        touched = np.flatnonzero(np.abs(moved) > 1e-6)
        if len(touched):
            move(
                name,
                np.ix_(touched, described.slots),
                np.repeat(moved[touched][:, None], len(described.slots), axis=1),
                0.3,
            )
    bias = np.zeros_like(weights.arrays["bias"])
    np.add.at(bias, (operation, selection, kind), change)
    move("bias", ..., bias, 1.0)
    move("fit", ..., change @ features, 1.0)
    for name, of in (("fit_operation", operation), ("fit_selection", selection)):
        moved = np.zeros_like(weights.arrays[name])
        np.add.at(moved, of, change[:, None] * features)
        move(name, ..., moved, 0.5)


def shares(weights: PlanWeights, rows: Sequence[Example]) -> str:
    """Right at the first place, among ten, and possible at all, by kind of question; answered though none is right."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
    for row in rows:
        scores = weights.scores(row.described._replace(features=row.described.features.astype(np.float32)))
        top, count = np.argsort(-scores[:-1])[:10], counts[row.kind]
        count[0] += 1
        possible = bool(row.is_right[:-1].any())
        count[1] += possible and bool(row.is_right[top[0]])  # `none` aside
        count[2] += possible and bool(row.is_right[top].any())
        count[3] += possible
        count[4] += int(scores.argmax()) != len(row.is_right) - 1
    return "; ".join(
        f"{kind} {right / total:.3f} of {total}"
        f" ({ten / total:.2f} among ten, {possible / total:.2f} possible, {said / total:.2f} answered)"
        for kind, (total, right, ten, possible, said) in counts.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--questions", type=int, default=7000, help="of WikiTableQuestions, at most")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    file = given.work / "plan-examples.pickle"
    if not file.exists():
        asked = [*tatqa(given.data), *wiki_tables(given.data, given.questions)]
        file.write_bytes(pickle.dumps(examples(asked, given.processes)))
    rows: list[Example] = pickle.loads(file.read_bytes())
    learned = [row for row in rows if not row.is_held_back]
    held = [row for row in rows if row.is_held_back]
    begin = time.monotonic()

    def report(weights: PlanWeights, number: int) -> None:
        print(f"{number} {time.monotonic() - begin:.0f} s: {shares(weights, held)}", flush=True)

    weights = learn(learned, report)
    np.savez_compressed(ASSETS / FILE, **{name: array.astype(np.float16) for name, array in weights.arrays.items()})
    print(f"{(ASSETS / FILE).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
