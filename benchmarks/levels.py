"""What does each level and each mode of several searches give, and how long does it take? Without a model, as shipped.

python -m benchmarks.levels [--sets squad_dev11,hotpot500] [--queries 25]

`cited` is the share of questions whose answer cites a relevant passage, `all` that of those whose relevant passages are
all cited; `read` the share whose relevant passages were among those that were read. Milliseconds are those of the whole
question, p50 and p95.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import CACHE
from benchmarks.retrieval import library, questions
from refdesk import Refdesk

WAYS = ({"level": "basic"}, {"level": "standard"}, {"level": "enhanced"}, {"level": "maximum"}, {"mode": "agent"})


def measure(desk: Refdesk, asked: list[tuple[str, dict[str, int]]], way: dict[str, str]) -> dict[str, float]:
    took: list[float] = []
    cited, every, read = [], [], []
    for text, relevant in asked:
        began = time.perf_counter()
        answer = desk.ask_sync(text, cache=False, **way)
        took.append((time.perf_counter() - began) * 1000)
        named = {citation.document_name for citation in answer.citations}
        seen = {one["document_name"] for one in desk.trace(answer.id)["passages"] if one["use"] in ("read", "cited")}
        cited.append(bool(named & relevant.keys()))
        every.append(relevant.keys() <= named)
        read.append(len(seen & relevant.keys()) / len(relevant))
    p50, p95 = np.percentile(took, [50, 95])
    return {"cited": np.mean(cited), "all": np.mean(every), "read": np.mean(read), "p50_ms": p50, "p95_ms": p95}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="squad_dev11,hotpot500")
    parser.add_argument("--queries", type=int, default=25)
    chosen = parser.parse_args()
    for name in chosen.sets.split(","):
        library(name).close()  # made where it is missing
        with tempfile.TemporaryDirectory() as folder:  # answers are kept, and the shared library stays as it is
            copy = shutil.copytree(CACHE / "retrieval" / name, Path(folder) / "library")
            with Refdesk(copy) as desk:
                asked = questions(name, chosen.queries)
                desk.ask_sync(asked[0][0], cache=False, level="maximum")
                for way in WAYS:
                    found = measure(desk, asked, way)
                    figures = "  ".join(
                        f"{what} {value:.3f}" if value <= 1 else f"{what} {value:.0f}" for what, value in found.items()
                    )
                    print(f"{name:18} {next(iter(way.values())):10} {figures}", flush=True)


if __name__ == "__main__":
    main()
