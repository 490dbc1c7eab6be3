"""Does a question ask for a number? How often that is told rightly, and the script that learns it.

python -m benchmarks.number_questions          measures
python -m benchmarks.number_questions --fit    learns anew and writes src/refdesk/assets/number_questions.npy

A logistic model over the question's vector (the shipped embedder's). Learned from the first 24 articles of squad_dev11,
TAT-QA's contexts with an even index, QAMR, PolicyQA and COVID-QA: is the answer short and does it hold a number? Beside
them questions made from the even contexts' tables (`training/made_plans.py`): for a cell, and for what no cell says.
Measured on squad_dev11's other articles and TAT-QA's odd contexts.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from training.made_plans import invented, made_of_words, made_questions

from benchmarks.answering import Articles, questions
from benchmarks.calibration import logistic
from benchmarks.common import DATA, Figure, read_jsonl
from benchmarks.table_questions import page
from refdesk.ask.classify import FILE
from refdesk.ask.wording import read
from refdesk.ingest.tables import tables_of
from refdesk.parsers.build import ParseOptions
from refdesk.parsers.html import parse
from refdesk.providers.shipped import OnnxEmbedder

Pairs = list[tuple[str, str]]  # question, answer
LONGEST = 6  # words of an answer that is a number with its unit
RIDGE = 3.0
MADE = 12  # questions of either kind from one table
SAMPLES = {"qamr.jsonl": 4000, "policyqa.jsonl": 600, "covidqa.jsonl": 600}


def squad(*, learning: bool) -> Pairs:
    articles = Articles()
    rows = questions("squad_dev11", 2500, lambda row: articles.is_for_learning(row) == learning)
    return [(row["text"], row["answers"][0]) for row in rows]


def tables(*, learning: bool) -> Pairs:
    contexts = json.loads((DATA / "tables" / "tatqa_dev.json").read_text(encoding="utf-8"))
    return [
        (one["question"], str(one["answer"][0] if isinstance(one["answer"], list) else one["answer"]))
        for number, context in enumerate(contexts)
        if (number % 2 == 0) == learning
        for one in context["questions"]
        if one["answer"]
    ]


def made() -> Pairs:
    contexts = json.loads((DATA / "tables" / "tatqa_dev.json").read_text(encoding="utf-8"))[::2]
    found: Pairs = []
    for number, context in enumerate(contexts):
        dice = random.Random(number)
        for table in tables_of(parse(page(context).encode(), ParseOptions())):
            company = invented(dice)
            found += [(text, answers[0]) for text, answers, _ in made_questions(table, company, dice, MADE)]
            found += [(text, "a reason") for text in made_of_words(table, company, dice, MADE)]
    return found


def sampled(name: str, most: int) -> Pairs:
    rows = read_jsonl(DATA / "train" / name)
    return [(str(row["question"]), str(row["answer"])) for row in rows[:: max(1, len(rows) // most)] if row["answer"]]


def vectors(pairs: Pairs) -> NDArray[np.float32]:
    embedder = OnnxEmbedder(threads=1)
    return np.stack([embedder.embed_query(question) for question, _ in pairs])


def are_numbers(pairs: Pairs) -> NDArray[np.float64]:
    return np.array([bool(read(answer).numbers) and len(answer.split()) <= LONGEST for _, answer in pairs], dtype=float)


def fit() -> None:
    pairs = squad(learning=True) + tables(learning=True)
    pairs += made() + [pair for name, most in SAMPLES.items() for pair in sampled(name, most)]
    weights = logistic(vectors(pairs).astype(float), are_numbers(pairs), np.ones(len(pairs)), RIDGE)
    np.save(FILE, weights.astype(np.float32))
    print(f"{len(pairs)} questions; {FILE.name} is written")


def figures() -> list[Figure]:
    weights, found = np.load(FILE), []
    for name, pairs in (("squad_dev11", squad(learning=False)), ("TAT-QA", tables(learning=False))):
        chance = 1 / (1 + np.exp(-(vectors(pairs) @ weights[:-1] + weights[-1])))
        right = float(((chance > 0.5) == are_numbers(pairs)).mean())
        usual = max(are_numbers(pairs).mean(), 1 - are_numbers(pairs).mean())
        found.append(
            Figure(f"asks for a number, {name} ({len(pairs)})", f"{right:.3f} right (the usual one: {usual:.3f})")
        )
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fit", action="store_true", help="learn anew and write the file")
    if parser.parse_args(arguments).fit:
        fit()
    for one in figures():
        print(one, flush=True)


if __name__ == "__main__":
    main()
