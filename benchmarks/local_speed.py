"""Is Refdesk on one machine as fast as an earlier version of it?

python -m benchmarks.local_speed [--against aec2e7cc] [--rounds 7]

aec2e7cc is the last version without PostgreSQL, Redis and S3. It runs in an environment made from its own lock.
Both are measured in turns and begin by turns, by the processor's time, over libraries that the earlier version
built and this one migrated a copy of. Each figure has a new process pinned to one core, since one would pay for the
garbage of another, and what stands when a library is open is kept out of the collection of garbage, as the server
and the commands do. What counts is the median of the ratios of the rounds: a slow minute falls on both sides of
one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from benchmarks.adding_time import environment
from benchmarks.common import CACHE, DATA, ROOT, Figure, write

AGAINST = "aec2e7cc"
BAR = 1.05
SIZES = (10_000, 100_000)

_MEASURE = """
import gc, json, sys
from benchmarks import cpu_speed
from benchmarks.common import CACHE, use_one_core
from benchmarks.synthetic import build

use_one_core()
cpu_speed.ROUNDS = 600
what, size = sys.argv[1], int(sys.argv[2])
folder = CACHE / f"synthetic-{size}"
if what == "help":
    found = {"`refdesk --help`": cpu_speed.help_s() * 1000}
elif what == "search":
    desk, source, _ = build(folder, size)
    gc.collect()
    gc.freeze()
    with desk:
        found = {f"hybrid search, {size:,} chunks, top 20": cpu_speed.searching({size: desk}, source)[size]}
elif what == "first":
    found = {f"first search in a process, {size:,} chunks": cpu_speed.first_search_ms(folder)}
elif what == "add_one":
    desk, source, _ = build(folder, size)
    gc.collect()
    gc.freeze()
    with desk:
        found = {f"a text until it is found among {size:,} chunks": cpu_speed.add_and_search(desk, source, 25)[0]}
else:
    found = dict(zip(("adding a one-chunk text, its vector given", "storing it"), cpu_speed.adding(CACHE / "adding")))
print(json.dumps(found))
"""
FIGURES = (
    *(("search", size) for size in SIZES), *(("first", size) for size in SIZES),
    ("add_one", SIZES[-1]), ("add", 0), ("help", 0),
)  # fmt: skip


def measured(python: Path, code: Path, cache: Path) -> dict[str, float]:
    """Milliseconds of the processor by what was done."""
    search = f"{code / 'src'}{os.pathsep}{code}"
    found: dict[str, float] = {}
    for what, size in FIGURES:
        done = subprocess.run(
            [python, "-c", _MEASURE, what, str(size)],
            check=True,
            stdout=subprocess.PIPE,
            cwd=code,
            env=os.environ | {"PYTHONPATH": search, "REFDESK_BENCH_CACHE": str(cache), "REFDESK_DATA": str(DATA)},
        )
        found |= json.loads(done.stdout.splitlines()[-1])
    return found


def figures(commit: str, rounds: int) -> list[Figure]:
    folder = CACHE / "local-speed"
    shutil.rmtree(folder / "now", ignore_errors=True)
    turn = [("earlier", *environment(commit)), ("now", Path(sys.executable), ROOT)]
    for name, python, code in turn:  # builds the libraries
        for size in SIZES if name == "now" else ():
            shutil.copytree(folder / "earlier" / f"synthetic-{size}", folder / name / f"synthetic-{size}")
        measured(python, code, folder / name)
    took: list[dict[str, dict[str, float]]] = []
    for number in range(rounds):
        both = {name: measured(python, code, folder / name) for name, python, code in turn[:: 1 if number % 2 else -1]}
        took.append(both)
        print(f"round {number + 1}: {json.dumps(both)}", flush=True)
    found = []
    for what in took[0]["now"]:
        earlier, now = (statistics.median(both[name][what] for both in took) for name in ("earlier", "now"))
        times = statistics.median(both["now"][what] / both["earlier"][what] for both in took)
        shown = f"{times:.3f} × ({earlier:.2f} ms, now {now:.2f} ms)"
        found.append(Figure(what, shown, f"≤ {BAR} ×", times <= BAR))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", default=AGAINST, help="a commit of this repository")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    notes = [f"Against {given.against}, {given.rounds} rounds: medians of ratios and of milliseconds of the processor."]
    write("local-speed", "One machine against an earlier version", figures(given.against, given.rounds), notes)


if __name__ == "__main__":
    main()
