"""What does a whole question cost without a model that writes? Embedding, search, reading, checks and all, on one core.

python -m benchmarks.ask_speed [--questions 100]

Judged by the processor's time, which other work on the machine changes little; the time waited is shown beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from benchmarks.common import Figure, use_one_core
from benchmarks.retrieval import library, questions
from refdesk import Refdesk
from refdesk.answer import Level

SET = "scifact"  # 9,872 chunks; the bars are for 10,000
BARS: dict[Level, float] = {"standard": 150.0, "basic": 15.0}
CACHED_MS = 2.0


def figures(count: int = 100) -> list[Figure]:
    use_one_core()
    found = []
    texts = list(dict.fromkeys(text for text, _ in questions(SET, count)))
    with library(SET) as desk:
        chunks = desk.parts.reader.chunk_count
        for level, bar in BARS.items():
            what = f"whole question, {SET}, {chunks:,} chunks, `{level}`, one core"
            found.append(_figure(what, _times(desk, texts, level, cache=False), bar))
        _times(desk, texts[:50], "standard", cache=True)  # fills the cache
        cached = _times(desk, texts[:50], "standard", cache=True)
    found.append(_figure(f"the same question again, {SET}", cached, CACHED_MS))
    return found


def _times(desk: Refdesk, texts: Sequence[str], level: Level, *, cache: bool) -> list[tuple[float, float]]:
    """(milliseconds of the processor, milliseconds waited) of each question."""
    desk.ask_sync(texts[0], cache=False, level=level)  # loads the models and opens the files
    times = []
    for text in texts:
        begin, spent = time.perf_counter(), time.process_time()
        desk.ask_sync(text, cache=cache, level=level)
        times.append(((time.process_time() - spent) * 1000, (time.perf_counter() - begin) * 1000))
    return times


def _figure(what: str, times: Sequence[tuple[float, float]], bar: float) -> Figure:
    spent, waited = (sorted(one[place] for one in times) for place in (0, 1))
    p50, p95 = spent[len(spent) // 2], spent[int(len(spent) * 0.95)]
    shown = f"p50 {p50:.1f} ms, p95 {p95:.1f} ms; waited p50 {waited[len(waited) // 2]:.1f} ms ({len(times)} questions)"
    return Figure(what, shown, f"p50 ≤ {bar:g} ms", p50 <= bar)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=100)
    for one in figures(parser.parse_args().questions):
        print(one)


if __name__ == "__main__":
    main()
