"""What the benchmarks share: where the data is, where results go, how a figure is kept."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("REFDESK_DATA", ROOT / ".." / "shared" / "data")).resolve()
CACHE = Path(os.environ.get("REFDESK_BENCH_CACHE", ROOT / ".bench"))  # libraries that take minutes to embed
RESULTS = ROOT / "benchmarks" / "results"
MEASURED = RESULTS / "measured.json"  # figures that take minutes, each with its day; `make house` shows them


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: what was measured, the figure, the bar it must reach."""

    what: str
    figure: str
    bar: str = ""
    met: bool | None = None  # None: reported, not judged


def median_ms(call: Callable[[int], object], rounds: int, *, warm_up: int = 5) -> tuple[float, float]:
    """p50 and p95 of `call(i)` in milliseconds."""
    for i in range(min(warm_up, rounds)):
        call(i)
    times = []
    for i in range(rounds):
        begin = time.perf_counter()
        call(i)
        times.append(time.perf_counter() - begin)
    times.sort()
    return times[len(times) // 2] * 1000, times[int(len(times) * 0.95)] * 1000


def use_one_core() -> None:
    """Pins this process to one core, so that figures are per core whatever a library starts."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def write(name: str, title: str, figures: Iterable[Figure], notes: Sequence[str] = ()) -> None:
    """Prints the figures and keeps them as a Markdown table in benchmarks/results."""
    figures = list(figures)
    target = name if name == "house" else f"bench-{name}"
    lines = [f"# {title}", "", f"{time.strftime('%Y-%m-%d')}, {machine()}. Command: `make {target}`.", ""]
    lines += ["| what | figure | bar | |", "|---|---|---|---|"]
    for one in figures:
        verdict = {True: "met", False: "**missed**", None: ""}[one.met]
        lines.append(f"| {one.what} | {one.figure} | {one.bar} | {verdict} |")
    lines += ["", *notes] if notes else []
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


def remember(figures: Iterable[Figure]) -> None:
    """Keeps figures that are measured seldom; one that was measured before is replaced."""
    known = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    known |= {figure.what: [figure.figure, figure.bar, figure.met, time.strftime("%Y-%m-%d")] for figure in figures}
    MEASURED.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def remembered() -> list[Figure]:
    known = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    return [Figure(f"{what} ({day})", figure, bar, met) for what, (figure, bar, met, day) in known.items()]


def machine() -> str:
    return f"Python {platform.python_version()}, {os.cpu_count()} cores"


def read_jsonl(path: Path) -> list[dict[str, object]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]
