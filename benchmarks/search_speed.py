"""How long does a search take at 100k and at 1M chunks, and how soon is a new document found?

python -m benchmarks.search_speed [--large 1000000]      (the large library takes some minutes to build, once)
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.common import CACHE, Figure, median_ms, use_one_core, write
from benchmarks.synthetic import Source, build
from refdesk import Refdesk
from refdesk.types import Method, Scope

SMALL = 100_000
K = 20
ROUNDS = 500


def search_ms(desk: Refdesk, source: Source, method: Method, scope: Scope, rounds: int = ROUNDS) -> tuple[float, float]:
    """p50 and p95 of a whole search, hits with their chunks included, the query's embedding not."""
    vectors = source.vectors(rounds)
    texts = source.questions[:rounds]

    def once(number: int) -> object:
        vector = vectors[number]
        return desk.search_vector(texts[number], lambda _: vector, K, method, scope, desk.settings)

    return median_ms(once, rounds, warm_up=50)


def add_ms(desk: Refdesk, source: Source, rounds: int = 15) -> tuple[float, float]:
    """p50 and p95 of storing a document of 50 chunks until a search finds it, its vectors given."""
    base = 10_000_000
    while desk.parts.documents.named(f"document {base}"):
        base += 1000
    readies = [source.document(base + number) for number in range(rounds)]

    def once(number: int) -> object:
        ready = readies[number]
        desk.parts.writer.store([ready])
        vector = ready.embedded[7].vector
        hits = desk.search_vector(
            ready.prepared.chunks[7].text[:80], lambda _: vector, K, "hybrid", Scope(), desk.settings
        )
        assert any(hit.document.name == ready.prepared.document.name for hit in hits), "not found after adding"
        return hits

    figures = median_ms(once, rounds, warm_up=0)
    added = [desk.parts.documents.named(f"document {base + number}")[0] for number in range(rounds)]
    desk.parts.writer.remove(added)
    return figures


def recall(desk: Refdesk, source: Source, rounds: int = 100) -> float:
    """Share of the true 20 nearest that the graph finds."""
    ids, matrix = desk.parts.documents.vectors_after(desk.parts.embedder.name, 0, desk.parts.embedder.dimensions)
    total = 0.0
    for vector in source.vectors(rounds):
        truth = set(ids[np.argpartition(-(matrix @ vector), K)[:K]].tolist())
        total += len(truth & {i for i, _ in desk.parts.index.dense(vector, K, Scope())}) / K
    return total / rounds


def resident_mb() -> float:
    """Memory in use now, pages of mapped files included."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def folder_mb(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    figures: list[Figure] = []
    base = 0.0
    for count in (SMALL, options.large):
        folder = CACHE / f"synthetic-{count}"
        desk, source, seconds = build(folder, count)
        if seconds:
            figures.append(Figure(f"{count:,} chunks: building the library, vectors given", f"{seconds:.0f} s"))
        use_one_core()
        with desk:
            for method in ("bm25", "dense"):
                p50, p95 = search_ms(desk, source, method, Scope())
                figures.append(
                    Figure(f"{count:,} chunks: {method} top {K}, one core", f"p50 {p50:.2f} ms, p95 {p95:.2f} ms")
                )
            p50, p95 = search_ms(desk, source, "hybrid", Scope())
            limit = 2.0 if count == SMALL else 3 * base
            base = base or p50
            figures.append(
                Figure(
                    f"{count:,} chunks: hybrid top {K}, one core",
                    f"p50 {p50:.2f} ms, p95 {p95:.2f} ms",
                    f"p50 ≤ {limit:.2f} ms",
                    p50 <= limit,
                )
            )
            figures.append(Figure(f"{count:,} chunks: memory of the searching process", f"{resident_mb():,.0f} MB"))
            for share, scope in (
                ("5 %", Scope(collections=("part/3",))),
                ("all, by filter", Scope(collections=("part",))),
            ):
                p50, p95 = search_ms(desk, source, "hybrid", scope, 200)
                figures.append(
                    Figure(
                        f"{count:,} chunks: hybrid, filter that leaves {share}", f"p50 {p50:.2f} ms, p95 {p95:.2f} ms"
                    )
                )
            if count == SMALL:
                figures.append(Figure(f"{count:,} chunks: recall@{K} of the graph", f"{recall(desk, source):.4f}"))
            p50, p95 = add_ms(desk, source)
            figures.append(
                Figure(
                    f"{count:,} chunks: one document of 50 chunks until it is found",
                    f"p50 {p50:.0f} ms, p95 {p95:.0f} ms",
                    "≤ 150 ms" if count == SMALL else "",
                    p50 <= 150 if count == SMALL else None,
                )
            )
            figures.append(Figure(f"{count:,} chunks: disk", f"{folder_mb(folder):,.0f} MB"))
    write("search", "Speed of search", figures)


if __name__ == "__main__":
    main()
