"""Does a small model make answers better? The same questions with a model in a file and without any.

REFDESK_GGUF=/path/to/model.gguf python -m benchmarks.with_model [--questions 20] [--other] [--minutes 4] [--again]

20 questions each of squad_dev11's second 24 articles, squadshift_reddit and squad2_disfl, those that have an answer,
evenly spread, and 20 of squad2_disfl that their passage does not answer. The prompts and rules were chosen with
`--other`: the questions half-way between those that count.

right: the answer holds one of the right ones as whole words; below what so small a model writes, the answer may also
quote the sentences that the reader chose, so `by its own words` counts the part above them. Wrongly refused: it says
that the documents do not say it, or quotes the nearest sentences as just that. Proved: a sentence that carries a marker
and whose verdict is `supported`.

Every answer is kept in the folder of the cache as soon as it is there, under the name of the run (`--run`), and is not
asked for again: so a run can be ended (`--minutes`) and taken up. `--again` begins it anew, `--show` shows them.

The model is Qwen2.5-Coder-1.5B-Instruct (Q4_K_M, 1.1 GB, sha256 cc324af0…933bb046), which is no part of the project.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from benchmarks.answering import Articles, contains, questions
from benchmarks.common import CACHE, Figure
from benchmarks.retrieval import library
from refdesk import Refdesk
from refdesk.answer import Answer
from refdesk.ask.small_models import HEAD

VARIABLE = "REFDESK_GGUF"
SETS = ("squad_dev11", "squadshift_reddit", "squad2_disfl")
NO_ANSWER = "squad2_disfl without an answer"
EACH = 20
MISSING = f"not measured: {VARIABLE} names no model file"
KEPT = CACHE / "with_model"


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, and what became of it."""

    of: str  # the set
    kind: str  # with, without
    question: str
    is_right: bool
    is_refused: bool
    is_by_model: bool
    is_own: bool  # right in the words of the model alone
    sentences: int
    proved: int
    seconds: float
    wanted: list[str]
    content: str
    notes: list[str]
    claims: list[list[Any]]
    confidence: float = 0.0


def told(of: str, kind: str, row: dict[str, Any], answer: Answer, seconds: float) -> Asked:
    is_by_model = answer.model.startswith("gguf:")
    is_given = answer.is_answered and not row["is_impossible"]
    return Asked(
        of=of,
        kind=kind,
        question=row["text"],
        is_right=is_given and contains(answer.content, row["answers"]),
        is_refused=not answer.is_answered,
        is_by_model=is_by_model,
        is_own=is_given and is_by_model and contains(answer.content.partition(HEAD)[0], row["answers"]),
        sentences=len(answer.claims),
        proved=sum(bool(one.markers) and one.verdict == "supported" for one in answer.claims),
        seconds=round(seconds, 2),
        wanted=list(row["answers"][:3]),
        content=answer.content,
        notes=list(answer.notes),
        claims=[[one.text, one.verdict, list(one.markers), one.note] for one in answer.claims],
        confidence=answer.confidence.score,
    )


def chosen(name: str, most: int, *, other: bool = False) -> list[dict[str, Any]]:
    """`most` questions of a set that its documents answer, or do not; `other`: those half-way between them."""
    articles = Articles() if name == "squad_dev11" else None

    def keep(row: dict[str, Any]) -> bool:
        if articles is not None:
            return not articles.is_for_learning(row)
        return bool(row["is_impossible"]) == (name == NO_ANSWER)

    found = questions(name.split()[0], 2 * most, keep)
    return found[1::2] if other else found[::2]


def kept(run: str) -> list[Asked]:
    path = KEPT / f"{run}.jsonl"
    return [Asked(**orjson.loads(line)) for line in path.read_bytes().splitlines()] if path.exists() else []


def ask_all(run: str, most: int, *, other: bool, until: float, part: int = 0, parts: int = 1) -> None:
    """Asks what is not kept yet, until it is all there or the time is over; each set in turn."""
    KEPT.mkdir(parents=True, exist_ok=True)
    known = {(one.of, one.kind, one.question) for one in kept(run)}
    every = [[(name, row) for row in chosen(name, most, other=other)] for name in (*SETS, NO_ANSWER)]
    wanted = [*(one for several in zip(*every[:-1], strict=False) for one in several), *every[-1]][part::parts]
    missing = [
        (name, kind, row)
        for name, row in wanted
        for kind in ("without", "with")
        if (name, kind, row["text"]) not in known
    ]
    if not missing:
        return
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        desks: dict[tuple[str, str], Refdesk] = {}
        for name, kind, row in missing:
            if time.monotonic() > until:
                return
            source = name.split()[0]
            if not (copy := folder / source).exists():  # answers are kept, and the shared library stays as it is
                library(source).close()
                shutil.copytree(CACHE / "retrieval" / source, copy)
            if (source, kind) not in desks:
                own = {"llm.answer": f"gguf:{os.environ[VARIABLE]}"} if kind == "with" else {}
                desks[source, kind] = held.enter_context(Refdesk(copy, settings=own))
            began = time.perf_counter()
            answer = desks[source, kind].ask_sync(row["text"], cache=False)
            one = told(name, kind, row, answer, time.perf_counter() - began)
            with (KEPT / f"{run}.jsonl").open("ab") as file:
                file.write(orjson.dumps(asdict(one)) + b"\n")


def figures(most: int = EACH, run: str = "counted") -> list[Figure]:
    """The figures of what is kept of a run, after asking what is missing."""
    if Path(os.environ.get(VARIABLE, "")).is_file():
        ask_all(run, most, other=False, until=float("inf"))
    return summed(kept(run))


def summed(every: Sequence[Asked]) -> list[Figure]:
    both = {(one.of, one.question) for one in every if one.kind == "with"}
    every = [one for one in every if (one.of, one.question) in both]
    if not every:
        return [Figure("with a model of 1.5 billion parameters", MISSING)]
    found = [_line(f"{name} ", [one for one in every if one.of == name]) for name in (*SETS, NO_ANSWER)]
    answerable = [one for one in every if one.of != NO_ANSWER]
    return [*(one for one in found if one is not None), *filter(None, [_line("all that have an answer ", answerable)])]


def _line(name: str, every: Sequence[Asked]) -> Figure | None:
    bare, model = ([one for one in every if one.kind == kind] for kind in ("without", "with"))
    if not model:
        return None
    asked, is_all = len(model), name.startswith("all")
    right, bare_right = (sum(one.is_right for one in several) / asked for several in (model, bare))
    refused, bare_refused = (sum(one.is_refused for one in several) / asked for several in (model, bare))
    sentences = sum(one.sentences for one in model)
    proved = sum(one.proved for one in model) / max(1, sentences)
    shown = (
        ""
        if name.startswith(NO_ANSWER)
        else f"right {right:.3f} against {bare_right:.3f} ({right - bare_right:+.3f}); "
    )
    shown += (
        f"proved {proved:.3f} of {sentences} sentences; refused {refused:.3f} against {bare_refused:.3f};"
        f" written by the model {sum(one.is_by_model for one in model)} of {asked},"
        f" right by its own words {sum(one.is_own for one in model)};"
        f" {sum(one.seconds for one in model) / asked:.0f} s a question"
    )
    what = f"with a model of 1.5 billion parameters, {name}({asked} questions)"
    if not is_all:
        return Figure(what, shown)
    is_met = right - bare_right >= 0.05 and proved >= 0.95 and refused <= 0.05
    return Figure(what, shown, "right ≥ +.05 / proved ≥ .95 / refused ≤ .05", is_met)


def show(one: Asked) -> None:
    print(
        f"{'+' if one.is_right else '-'} {one.of} {one.kind} {one.seconds} s by model {one.is_by_model}: {one.question}"
    )
    print(f"    wanted {one.wanted}\n    {one.content!r} {one.notes} {one.confidence}")
    print("   ", [(verdict, markers, note) for _, verdict, markers, note in one.claims])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=EACH, help="of each set")
    parser.add_argument("--other", action="store_true", help="the questions that prompts may be chosen on")
    parser.add_argument("--run", help="the name under which answers are kept")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no further question is asked")
    parser.add_argument("--part", default="0/1", help="1/2: every second question, so that two processes share a run")
    parser.add_argument("--again", action="store_true", help="begin the run anew")
    parser.add_argument("--show", action="store_true", help="every answer that is kept")
    options = parser.parse_args(arguments)
    run = options.run or ("other" if options.other else "counted")
    if options.again:
        (KEPT / f"{run}.jsonl").unlink(missing_ok=True)
    until = time.monotonic() + 60 * options.minutes
    part, parts = map(int, options.part.split("/"))
    if Path(os.environ.get(VARIABLE, "")).is_file():
        ask_all(run, options.questions, other=options.other, until=until, part=part, parts=parts)
    for asked in kept(run) if options.show else ():
        show(asked)
    for one in summed(kept(run)):
        print(one, flush=True)


if __name__ == "__main__":
    main()
