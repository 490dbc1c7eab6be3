"""Is a whole question faster than it was? An earlier commit and this one asked in turns, each in a process of its own.

python -m benchmarks.question_speed [--against fb8819b] [--questions 150]

This one is asked at the levels `standard`, which reads the best passages with a small network that the earlier commit
did not have, and `basic`, which like the earlier commit does without. All answer over scifact's passages (about 10,000
chunks), pinned to one core, without a model, past the cache. Each version has a library that its own code has made: the
older one cannot read what the newer has written.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import CACHE, DATA, ROOT, Figure, remember
from benchmarks.retrieval import library, questions

SET, AGAINST, BAR = "scifact", "fb8819b", 0.5

# Reads questions from standard input, a line each, and answers with the milliseconds waited and spent.
ASKER = """
import json, os, sys, time

if hasattr(os, "sched_setaffinity"):  # before anything is imported that starts threads of its own
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from refdesk import Refdesk

with Refdesk(sys.argv[1]) as desk:
    passages = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
    if len(desk.documents(status="ready")) < len(passages):
        desk.add_texts(
            {"name": str(row["_id"]), "title": str(row.get("title") or ""), "text": str(row["text"])}
            for row in passages
        )
    for line in sys.stdin:
        began, spent = time.perf_counter(), time.process_time()
        desk.ask_sync(line.strip(), cache=False, level=sys.argv[3])
        print((time.perf_counter() - began) * 1000, (time.process_time() - spent) * 1000, flush=True)
"""


class Asker:
    """A process that answers with one version of the code."""

    def __init__(self, source: Path, folder: Path, level: str) -> None:
        corpus = DATA / "retrieval" / SET / "corpus.jsonl"
        self._process = subprocess.Popen(
            [sys.executable, "-c", ASKER, str(folder), str(corpus), level],
            env=os.environ | {"PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, question: str) -> tuple[float, float]:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(" ".join(question.split()) + "\n")
        self._process.stdin.flush()
        waited, spent = self._process.stdout.readline().split()
        return float(waited), float(spent)

    def close(self) -> None:
        self._process.communicate()


def code_of(commit: str) -> Path:
    """The package as it was at a commit."""
    folder = CACHE / f"code-{commit}"
    if not folder.exists():
        folder.mkdir(parents=True)
        archive = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True)
        subprocess.run(["tar", "-x"], cwd=folder, input=archive.stdout, check=True)
    return folder / "src"


def figures(against: str = AGAINST, count: int = 150) -> list[Figure]:
    library(SET).close()
    texts = [text for text, _ in questions(SET, count)]
    askers = [
        Asker(code_of(against), CACHE / f"{SET}-{against}", "standard"),
        Asker(ROOT / "src", CACHE / "retrieval" / SET, "standard"),
        Asker(ROOT / "src", CACHE / "retrieval" / SET, "basic"),
    ]
    for text in texts[:10]:
        for asker in askers:
            asker.ask(text)
    times = [[asker.ask(text) for asker in askers] for text in texts]
    for asker in askers:
        asker.close()
    found = []
    for level, version in (("standard", 1), ("basic", 2)):
        for kind, place in (("waited", 0), ("CPU", 1)):
            before, now = (sorted(row[asker][place] for row in times) for asker in (0, version))
            for name, share in (("p50", 0.5), ("p95", 0.95)):
                old, new = (values[int(len(values) * share)] for values in (before, now))
                ratio = new / old
                found.append(
                    Figure(
                        f"whole question, {SET}, `{level}`, one core, {kind}, {name}: now / {against}",
                        f"{new:.1f} / {old:.1f} ms = {ratio:.2f}",
                        f"≤ {BAR} ×" if kind == "waited" else "",
                        ratio <= BAR if kind == "waited" else None,
                    )
                )
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", default=AGAINST)
    parser.add_argument("--questions", type=int, default=150)
    options = parser.parse_args(arguments)
    found = figures(options.against, options.questions)
    for figure in found:
        print(figure, flush=True)
    remember(found)


if __name__ == "__main__":
    main()
