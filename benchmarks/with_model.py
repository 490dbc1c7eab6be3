"""Does a small model make answers better? The same questions with a model in a file and without any.

REFDESK_GGUF=/path/to/model.gguf python -m benchmarks.with_model [--questions 20] [--other] [--show]

20 questions each of squad_dev11's second 24 articles, squadshift_reddit and squad2_disfl, those that have an answer,
evenly spread. The prompts and rules were chosen with `--other`: the questions half-way between those that count.

right: the answer holds one of the right ones as whole words; below what so small a model writes, the answer also quotes
the sentences that the reader chose, so `by its own words` counts the part above them. Wrongly refused: it says that the
documents do not say it, or quotes the nearest sentences as just that. Proved: a sentence that carries a marker and
whose verdict is `supported`.

The model is Qwen2.5-Coder-1.5B-Instruct (Q4_K_M, 1.1 GB, sha256 cc324af0…933bb046), which is no part of the project.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.answering import Articles, contains, questions
from benchmarks.common import CACHE, Figure
from benchmarks.retrieval import library
from refdesk import Refdesk
from refdesk.answer import Answer
from refdesk.ask.extract import HEAD

VARIABLE = "REFDESK_GGUF"
SETS = ("squad_dev11", "squadshift_reddit", "squad2_disfl")
EACH = 20
MISSING = f"not measured: {VARIABLE} names no model file"


@dataclass(slots=True)
class Tally:
    """Of the answers of one kind."""

    asked: int = 0
    right: int = 0
    refused: int = 0
    sentences: int = 0
    proved: int = 0
    by_model: int = 0
    own: int = 0  # right in the words of the model alone
    seconds: float = 0.0

    def add(self, answer: Answer, answers: Sequence[str], seconds: float) -> None:
        self.asked += 1
        self.seconds += seconds
        if answer.model.startswith("gguf:"):
            self.by_model += 1
            self.own += contains(answer.content.partition(HEAD)[0], answers)
        self.refused += not answer.is_answered
        self.right += answer.is_answered and contains(answer.content, answers)
        self.sentences += len(answer.claims)
        self.proved += sum(bool(one.markers) and one.verdict == "supported" for one in answer.claims)


def chosen(name: str, most: int, *, other: bool = False) -> list[dict[str, Any]]:
    """`most` questions of a set that its documents answer; `other`: those half-way between them."""
    articles = Articles() if name == "squad_dev11" else None

    def keep(row: dict[str, Any]) -> bool:
        return not articles.is_for_learning(row) if articles else not row["is_impossible"]

    found = questions(name, 2 * most, keep)
    return found[1::2] if other else found[::2]


def measured(most: int, *, other: bool = False, show: bool = False) -> dict[str, Tally]:
    """The tallies with the model and without, by set and of all; none where there is no model."""
    path = os.environ.get(VARIABLE, "")
    if not Path(path).is_file():
        return {}
    tallies: dict[str, Tally] = {}
    for name in SETS:
        library(name).close()
        with ExitStack() as open_desks:
            desks = {
                kind: open_desks.enter_context(Refdesk(CACHE / "retrieval" / name, settings=settings))
                for kind, settings in (("without", {}), ("with", {"llm.answer": f"gguf:{path}"}))
            }
            for row in chosen(name, most, other=other):
                for kind, desk in desks.items():
                    began = time.perf_counter()
                    answer = desk.ask_sync(row["text"], cache=False)
                    took = time.perf_counter() - began
                    for key in (f"{name} {kind}", kind):
                        tallies.setdefault(key, Tally()).add(answer, row["answers"], took)
                    if show:
                        is_right = answer.is_answered and contains(answer.content, row["answers"])
                        print(f"{'+' if is_right else '-'} {kind} {took:.1f} s {answer.model}: {row['text']}")
                        print(f"    wanted {row['answers'][:3]}\n    {answer.content!r} {list(answer.notes)}")
                        print("   ", [(one.verdict, one.markers, one.note) for one in answer.claims], flush=True)
    return tallies


def figures(most: int = EACH, *, other: bool = False, show: bool = False) -> list[Figure]:
    tallies = measured(most, other=other, show=show)
    if not tallies:
        return [Figure("with a model of 1.5 billion parameters", MISSING)]
    found = []
    for name in (*(f"{one} " for one in SETS), ""):
        bare, model = tallies[f"{name}without"], tallies[f"{name}with"]
        gain = (model.right - bare.right) / model.asked
        proved, refused = model.proved / max(1, model.sentences), model.refused / model.asked
        shown = (
            f"right {model.right / model.asked:.3f} against {bare.right / bare.asked:.3f} ({gain:+.3f});"
            f" proved {proved:.3f} of {model.sentences} sentences;"
            f" refused {refused:.3f} against {bare.refused / bare.asked:.3f};"
            f" written by the model {model.by_model} of {model.asked}, right by its own words {model.own};"
            f" {model.seconds / model.asked:.0f} s a question"
        )
        what = f"with a model of 1.5 billion parameters, {name or 'all '}({model.asked} questions)"
        if name:
            found.append(Figure(what, shown))
        else:
            is_met = gain >= 0.05 and proved >= 0.95 and refused <= 0.05
            found.append(Figure(what, shown, "right ≥ +.05 / proved ≥ .95 / refused ≤ .05", is_met))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=EACH, help="of each set")
    parser.add_argument("--other", action="store_true", help="the questions that prompts may be chosen on")
    parser.add_argument("--show", action="store_true", help="every answer")
    options = parser.parse_args(arguments)
    for one in figures(options.questions, other=options.other, show=options.show):
        print(one, flush=True)


if __name__ == "__main__":
    main()
