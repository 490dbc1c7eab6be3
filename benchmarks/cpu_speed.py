"""How much CPU time does one process take to search, to add, and to say what it can do?

CPU time of the process, all its threads: what a search costs on a machine that has other things to do.

python -m benchmarks.cpu_speed [--large 100000]      (the libraries are built once, and kept)
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.common import CACHE, DATA, Figure, read_jsonl, write
from benchmarks.synthetic import Source, build
from refdesk import Refdesk
from refdesk import desk as engine
from refdesk.ports import Embedded, Embedder
from refdesk.types import Chunk, Scope

SIZES = (5_000, 10_000, 19_000, 30_000)
K = 20
ROUNDS = 200
TEXTS = 1_500
LATIN = "Gallia est omnis divisa in partes tres, quarum unam incolunt Belgae, aliam Aquitani, tertiam Celtae. " * 3

# Opens a library and searches it once with a vector that is given; prints the CPU time of that search.
FIRST = """
import sys, time
import numpy as np
from refdesk import Refdesk, Scope
with Refdesk(sys.argv[1]) as desk:
    vector = np.random.default_rng(1).standard_normal(desk.embedder.dimensions).astype(np.float32)
    vector /= np.linalg.norm(vector)
    began = time.process_time()
    desk.search_vector("In what year did the war end?", lambda _: vector, 20, "hybrid", Scope(), desk.settings)
    print((time.process_time() - began) * 1000)
"""
HELP = """
import sys, time
from refdesk.__main__ import main
sys.argv = ["refdesk", "--help"]
try:
    main()
finally:
    print(time.process_time(), file=sys.stderr)
"""


class Given:
    """An embedder that costs nothing: vectors that were made before."""

    name, dimensions, max_tokens = "given", 384, 512

    def __init__(self) -> None:
        vectors = np.random.default_rng(2).standard_normal((4096, self.dimensions)).astype(np.float32)
        self._vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self._rows = np.rint(self._vectors * 127).astype(np.int8)
        self._given = 0

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text) // 4 for text in texts]

    def embed_query(self, text: str) -> np.ndarray:
        return np.asarray(self._vectors[len(text)])

    def embed_chunks(self, chunks: Sequence[Chunk]) -> list[Embedded]:
        found = []
        for chunk in chunks:
            self._given = (self._given + 1) % len(self._vectors)
            rows = np.repeat(self._rows[self._given][None, :], len(chunk.sentences), axis=0)
            found.append(Embedded(self._vectors[self._given], rows))
        return found


@contextmanager
def given(embedder: Embedder) -> Iterator[None]:
    """Libraries that are opened meanwhile have this embedder, which no configuration can name."""
    usual = engine.make_embedder
    engine.make_embedder = lambda config: embedder  # type: ignore[assignment, misc]
    try:
        yield
    finally:
        engine.make_embedder = usual


def cpu_ms(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return (time.process_time() - began) * 1000


def searching(desks: dict[int, Refdesk], source: Source) -> dict[int, float]:
    """Mean CPU milliseconds of a hybrid search, the libraries in turn, so that all meet the same machine."""
    spent = dict.fromkeys(desks, 0.0)
    for number in range(-20, ROUNDS):  # some to warm up
        text, vector = source.questions[number], source.vectors(1)[0]
        for count, desk in desks.items():
            took = cpu_ms(
                lambda desk=desk, text=text, vector=vector: desk.search_vector(  # type: ignore[misc]
                    text, lambda _: vector, K, "hybrid", Scope(), desk.settings
                )
            )
            spent[count] += took if number >= 0 else 0.0
    return {count: total / ROUNDS for count, total in spent.items()}


def first_search_ms(folder: Path) -> float:
    """Median CPU of the first search in a process."""
    runs = [subprocess.run([sys.executable, "-c", FIRST, folder], capture_output=True, check=True) for _ in range(3)]
    return statistics.median(float(one.stdout) for one in runs)


def adding(folder: Path) -> tuple[float, float]:
    """CPU milliseconds of a one-chunk text through `add_texts`, and of storing one, the vectors given."""
    shutil.rmtree(folder, ignore_errors=True)
    passages = [str(row["text"])[:600] for row in read_jsonl(DATA / "retrieval" / "squad_dev11" / "corpus.jsonl")]
    embedder: Embedder = Given()
    with given(embedder), Refdesk(folder, settings={"ingest.ocr": False}) as desk:
        desk.add_texts([("first", passages[0]), ("second", LATIN)])  # loads what tells languages
        texts = [(f"text {number}", f"{passages[number % len(passages)]} {number}") for number in range(TEXTS)]
        added = cpu_ms(lambda: desk.add_texts(texts)) / TEXTS
        assert desk.catalogue.counts(embedder.name)["chunks"] == TEXTS + 2, "not one chunk each"
        source = Source(embedder.dimensions)
        made = [source.document(number, 1) for number in range(TEXTS)]
        batches = [made[at : at + 256] for at in range(0, TEXTS, 256)]
        stored = cpu_ms(lambda: [desk.writer.store(batch) for batch in batches]) / TEXTS
    shutil.rmtree(folder)
    return added, stored


def add_and_search(desk: Refdesk, source: Source, rounds: int = 25) -> tuple[float, float]:
    """Medians of CPU and of waiting for a new one-chunk text until a search has found it, its vector given."""
    base = 20_000_000
    while desk.catalogue.named(f"document {base}"):
        base += 1000
    readies = [source.document(base + number, 1) for number in range(rounds)]
    times: list[tuple[float, float]] = []
    for ready in readies:
        vector = ready.embedded[0].vector
        began = time.process_time(), time.perf_counter()
        desk.writer.store([ready])
        hits = desk.search_vector(
            ready.prepared.chunks[0].text[:80], lambda _, v=vector: v, K, "hybrid", Scope(), desk.settings
        )
        times.append((time.process_time() - began[0], time.perf_counter() - began[1]))
        assert any(hit.document.name == ready.prepared.document.name for hit in hits), "not found after adding"
    desk.writer.remove([desk.catalogue.named(ready.prepared.document.name)[0] for ready in readies])
    return statistics.median(cpu for cpu, _ in times) * 1000, statistics.median(wall for _, wall in times) * 1000


def help_s() -> float:
    runs = [subprocess.run([sys.executable, "-c", HELP], capture_output=True, check=True) for _ in range(3)]
    return statistics.median(float(one.stderr) for one in runs)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", type=int, default=100_000, help="chunks of the library that one text is added to")
    options = parser.parse_args(arguments)
    figures: list[Figure] = []
    took = help_s()
    figures.append(Figure("`refdesk --help`", f"{took:.2f} s", "≤ .25 s", took <= 0.25))
    added, stored = adding(CACHE / "adding")
    figures.append(
        Figure("adding one-chunk texts, vectors given", f"{1000 / added:.0f} a second", "≥ 400", 1000 / added >= 400)
    )
    figures.append(Figure("storing them alone: rows, both indexes", f"{1000 / stored:.0f} a second"))
    built = {count: build(CACHE / f"synthetic-{count}", count) for count in SIZES}
    source = built[SIZES[0]][1]
    spent = searching({count: desk for count, (desk, _, _) in built.items()}, source)
    for desk, _, _ in built.values():
        desk.close()
    for count in SIZES:
        is_judged = count < SIZES[-1]
        figures.append(
            Figure(
                f"{count:,} chunks: hybrid top {K}",
                f"{spent[count]:.2f} ms",
                f"≤ {spent[SIZES[-1]]:.2f} ms" if is_judged else "",
                spent[count] <= spent[SIZES[-1]] if is_judged else None,
            )
        )
    for count in SIZES:
        first = first_search_ms(CACHE / f"synthetic-{count}")
        figures.append(Figure(f"{count:,} chunks: first search in a process", f"{first:.0f} ms"))
    desk, source, _ = build(CACHE / f"synthetic-{options.large}", options.large)
    with desk:
        cpu, wall = add_and_search(desk, source)
    figures.append(
        Figure(
            f"{options.large:,} chunks: a one-chunk text until it is found",
            f"{cpu:.1f} ms ({wall:.1f} ms waited)",
            "≤ 15 ms",
            cpu <= 15,
        )
    )
    write("cpu", "CPU time of one process", figures)


if __name__ == "__main__":
    main()
