"""Plans that the reader learns to tell apart: the best ones of each question by the log-linear ranking, in words.

    python -m training.plan_groups DATA WORK [--questions 7000] [--processes 2]

Writes WORK/plan-groups.json.xz, and WORK/plan-examples.pickle on the way, which `training.plans` reads. Plans that give
the same stand together: the likeliest one speaks for them, with the chance of all. Only tables with an even number.
"""

from __future__ import annotations

import argparse
import json
import lzma
import pickle
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from refdesk.ask.plans import TableViews, stated
from refdesk.ask.table_question import describe, weights
from refdesk.ask.table_view import AskedWords
from refdesk.tables import read_grid
from training.plans import Asked, Example, example_of, tatqa, wiki_tables

LOOKED, KEPT = 100, 16  # plans by their rank, and what they give

Row = dict[str, Any]


class Both(NamedTuple):
    example: Example
    group: Row


def both(asked: Asked) -> Both:
    """The plans of a question as numbers, and the best of them in words."""
    table = TableViews(read_grid(asked.rows, asked.caption, asked.head))
    question = AskedWords(asked.question)
    plans = table.plans(question)
    described = describe(question, table, plans)
    example = example_of(asked, plans, described)
    scores = weights().scores(described)
    chances = np.exp(scores - scores.max())
    chances /= chances.sum()
    first: dict[Any, int] = {}
    together: dict[Any, float] = {}
    for place in np.argsort(-scores[:-1])[:LOOKED].tolist():
        plan = plans[place]
        gives = plan.texts or round(plan.number or 0.0, 4)
        first.setdefault(gives, place)
        together[gives] = together.get(gives, 0.0) + float(chances[place])
    kept = [
        [stated(plans[place], table, question), bool(example.is_right[place]), round(float(scores[place]), 3),
         round(together[gives], 5)]
        for gives, place in list(first.items())[:KEPT]
    ]  # fmt: skip
    group = {
        "kind": asked.kind,
        "question": asked.question,
        "is_held_back": asked.is_held_back,
        "is_possible": bool(example.is_right[:-1].any()),
        "none": [round(float(scores[-1]), 3), round(float(chances[-1]), 5)],
        "plans": kept,
    }
    return Both(example, group)


def write(asked: Sequence[Asked], work: Path, processes: int) -> None:
    with Pool(processes) as pool:
        found = list(pool.imap(both, asked, chunksize=16))
    groups = [one.group for one in found]
    (work / "plan-groups.json.xz").write_bytes(lzma.compress(json.dumps(groups, ensure_ascii=False).encode()))
    (work / "plan-examples.pickle").write_bytes(pickle.dumps([one.example for one in found]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--questions", type=int, default=7000, help="of WikiTableQuestions, at most")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    write([*tatqa(given.data), *wiki_tables(given.data, given.questions)], given.work, given.processes)


if __name__ == "__main__":
    main()
