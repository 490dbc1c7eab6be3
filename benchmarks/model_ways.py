"""What do survey, agent, voting and reconciling give with a small model? The example questions, each in five ways.

REFDESK_GGUF=/path/to/model.gguf python -m benchmarks.model_ways [--questions 40] [--minutes 4] [--ways plain,agent]

plain      the answer as it is by default
survey     every summary is looked at, by the embedder as the model is too small to choose (rag.strategy = survey)
agent      the question is taken apart and searched for part by part
voting     the level `maximum`: all engines, three drafts, what two of them say and the passages prove
reconcile  a verifier says what of the draft is not proved and a reconciler writes it anew (response mode `thorough`)

The model (1.5 billion parameters, that of `benchmarks.with_model`) is router, verifier and reconciler too. Where a way
hands a part of its work to rules because the model is too small for it, the answer's notes and trace say so.

right: the answer holds what `examples/questions.json` says, by its figures or by most of its words, or is a refusal
where no document says it. cited: it cites the document that proves it, or both where two disagree. proved: sentences
with a marker and the verdict `supported`. Time is that of the processor, all cores together, so that what else the
machine does is not in it. Every answer is kept as soon as it is there and not asked for again; the order is one
question in all ways, then the next, so that ways with the same prompts share what the model has read of them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from benchmarks.common import CACHE, ROOT, Figure
from benchmarks.with_model import MISSING, VARIABLE
from refdesk import Refdesk
from refdesk.answer import Answer
from refdesk.text import terms

EXAMPLES = ROOT / "examples"
KEPT = CACHE / "model_ways.jsonl"
LIBRARY = CACHE / "examples"
WAYS: Mapping[str, Mapping[str, Any]] = {
    "without": {},
    "plain": {},
    "survey": {"settings": {"rag.strategy": "survey"}},
    "agent": {"mode": "agent"},
    "voting": {"level": "maximum", "settings": {"llm.reconciler": ""}},
    "reconcile": {"response_mode": "thorough"},
}
MOST = 40
DATE = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.(\d{4})\b")  # "27.02.2026" is one word, and says "27 February 2026"
ENOUGH = 0.6  # share of the words of an answer that has no figure


@dataclass(frozen=True, slots=True)
class Asked:
    """One question in one way, and what became of it."""

    way: str
    question: str
    is_right: bool
    is_cited: bool
    is_refused: bool
    is_by_model: bool
    sentences: int
    proved: int
    calls: int
    read: int  # tokens of all prompts
    written: int  # tokens
    seconds: float
    processor_seconds: float  # of both cores together: what else the machine does is not in it
    content: str
    verification: str
    notes: list[str]


def holds(content: str, wanted: str) -> bool:
    """Whether an answer says what is wanted: all of its figures, or most of its words where it has none."""
    held, asked = set(terms(DATE.sub(r"\1 \2 \3", content))), terms(wanted)
    figures = [term for term in asked if any(letter.isdigit() for letter in term)]
    if figures:
        return held.issuperset(figures)
    return sum(term in held for term in asked) >= ENOUGH * max(1, len(asked))


def is_right(row: Mapping[str, Any], content: str, *, is_refused: bool) -> bool:
    if row["answer"] is None:
        return is_refused
    return not is_refused and holds(content, row["answer"])


def told(way: str, row: Mapping[str, Any], answer: Answer, seconds: float, processor_seconds: float) -> Asked:
    proving = {*(row.get("documents") or [row["document"]])} - {None}
    return Asked(
        way=way,
        question=row["question"],
        is_right=is_right(row, answer.content, is_refused=not answer.is_answered),
        is_cited={citation.document_name for citation in answer.citations}.issuperset(proving),
        is_refused=not answer.is_answered,
        is_by_model=answer.model.startswith("gguf:"),
        sentences=len(answer.claims),
        proved=sum(bool(one.markers) and one.verdict == "supported" for one in answer.claims),
        calls=answer.usage.calls,
        read=answer.usage.prompt_tokens,
        written=answer.usage.completion_tokens,
        seconds=round(seconds, 2),
        processor_seconds=round(processor_seconds, 2),
        content=answer.content,
        verification=answer.verification.status,
        notes=list(answer.notes),
    )


def questions() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = orjson.loads((EXAMPLES / "questions.json").read_bytes())
    return found


def kept() -> list[Asked]:
    """What was answered, judged anew: how it is judged may have changed since."""
    every = [Asked(**orjson.loads(line)) for line in KEPT.read_bytes().splitlines()] if KEPT.exists() else []
    rows = {row["question"]: row for row in questions()}
    return [
        replace(one, is_right=is_right(rows[one.question], one.content, is_refused=one.is_refused))
        for one in every
        if one.question in rows
    ]


def ask_all(ways: Sequence[str], most: int, until: float, part: int = 0, parts: int = 1) -> None:
    """Asks what is not kept yet, until it is all there or the time is over."""
    rows = questions()
    spread = [rows[(place * 7) % len(rows)] for place in range(len(rows))]  # of all documents from the beginning
    known = {(one.way, one.question) for one in kept()}
    missing = [(row, way) for row in spread[:most][part::parts] for way in ways if (way, row["question"]) not in known]
    if not missing:
        return
    model = f"gguf:{os.environ[VARIABLE]}"
    roles = {f"llm.{role}": model for role in ("answer", "router", "verifier", "reconciler")}
    if not LIBRARY.exists():
        with Refdesk(LIBRARY) as desk:
            desk.add(EXAMPLES / "documents")
    with ExitStack() as held:
        copy = shutil.copytree(LIBRARY, Path(held.enter_context(tempfile.TemporaryDirectory())) / "library")
        desks: dict[str, Refdesk] = {}
        for row, way in missing:
            if time.monotonic() > until:
                return
            asked = dict(WAYS[way])
            own = asked.pop("settings", {})
            settings = own if way == "without" else {"llm.answer": model} | own
            settings |= roles if way in ("survey", "reconcile") else {}
            if way not in desks:
                desks[way] = held.enter_context(Refdesk(copy, settings=settings))
            began, worked = time.perf_counter(), time.process_time()
            answer = desks[way].ask_sync(row["question"], cache=False, **asked)
            one = told(way, row, answer, time.perf_counter() - began, time.process_time() - worked)
            with KEPT.open("ab") as file:
                file.write(orjson.dumps(asdict(one)) + b"\n")


def figures(most: int = MOST) -> list[Figure]:
    if Path(os.environ.get(VARIABLE, "")).is_file():
        ask_all(tuple(WAYS), most, float("inf"))
    return summed(kept())


def summed(every: Sequence[Asked]) -> list[Figure]:
    if not every:
        return [Figure("example questions with a model of 1.5 billion parameters", MISSING)]
    found = []
    for way in WAYS:
        own = [one for one in every if one.way == way]
        if not own:
            continue
        asked, sentences = len(own), sum(one.sentences for one in own)
        shown = (
            f"right {sum(one.is_right for one in own)}; cited {sum(one.is_cited for one in own)};"
            f" refused {sum(one.is_refused for one in own)};"
            f" proved {sum(one.proved for one in own)} of {sentences} sentences;"
            f" written by the model {sum(one.is_by_model for one in own)};"
            f" {sum(one.calls for one in own) / asked:.1f} calls,"
            f" {sum(one.read for one in own) / asked:.0f} tokens read and {sum(one.written for one in own) / asked:.0f}"
            f" written, {sum(one.processor_seconds for one in own) / asked:.0f} s of processor time a question"
        )
        found.append(Figure(f"examples, {way} ({asked} of {MOST} questions)", shown))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=MOST)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which no further question is asked")
    parser.add_argument(
        "--part", default="0/1", help="1/2: every second question, so that two processes share the work"
    )
    parser.add_argument("--again", action="store_true", help="begin anew")
    parser.add_argument("--show", action="store_true", help="every answer that is kept")
    options = parser.parse_args(arguments)
    if options.again:
        KEPT.unlink(missing_ok=True)
    part, parts = map(int, options.part.split("/"))
    if Path(os.environ.get(VARIABLE, "")).is_file():
        ask_all(options.ways.split(","), options.questions, time.monotonic() + 60 * options.minutes, part, parts)
    for one in kept() if options.show else ():
        print(asdict(one))
    for figure in summed(kept()):
        print(figure, flush=True)


if __name__ == "__main__":
    main()
