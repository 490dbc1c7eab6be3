"""What does a whole question cost beside the model's own time? Embedding, search, checks and all, on one core.

python -m benchmarks.ask_speed [--questions 150]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from benchmarks.common import Figure, use_one_core
from benchmarks.retrieval import library, questions
from refdesk import Refdesk

SETS = ("mtrag_cloud", "scifact")  # 17,181 and 9,872 chunks; the bar is for 10,000
WHOLE_MS, CACHED_MS = 60.0, 2.0


def figures(count: int = 150) -> list[Figure]:
    use_one_core()
    found = []
    for name in SETS:
        texts = list(dict.fromkeys(text for text, _ in questions(name, count)))
        with library(name) as desk:
            chunks = desk.parts.reader.chunk_count
            whole = _times(desk, texts, cache=False)
            _times(desk, texts[:50], cache=True)  # fills the cache
            cached = _times(desk, texts[:50], cache=True)
        found.append(_figure(f"whole question, {name}, {chunks:,} chunks, `standard`, one core", whole, WHOLE_MS))
        found.append(_figure(f"the same question again, {name}", cached, CACHED_MS))
    return found


def _times(desk: Refdesk, texts: Sequence[str], *, cache: bool) -> list[float]:
    desk.ask_sync(texts[0], cache=False)  # loads the model and opens the files
    times = []
    for text in texts:
        begin = time.perf_counter()
        desk.ask_sync(text, cache=cache)
        times.append((time.perf_counter() - begin) * 1000)
    return sorted(times)


def _figure(what: str, times: Sequence[float], bar: float) -> Figure:
    p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
    return Figure(what, f"p50 {p50:.1f} ms, p95 {p95:.1f} ms", f"p50 ≤ {bar:g} ms", p50 <= bar)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=150)
    for one in figures(parser.parse_args().questions):
        print(one)


if __name__ == "__main__":
    main()
