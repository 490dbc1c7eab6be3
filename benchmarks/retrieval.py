"""nDCG@10 of every search method on every retrieval set, and the agreement of our BM25 with bm25s.

python -m benchmarks.retrieval [--sets squad_dev11,cranfield] [--queries 1500]
"""

from __future__ import annotations

import argparse
import math
import shutil
from collections.abc import Sequence

import bm25s

from benchmarks.common import CACHE, DATA, Figure, read_jsonl, write
from refdesk import Refdesk
from refdesk.text import query_terms, terms
from refdesk.types import Method, Scope

METHODS: tuple[Method, ...] = ("bm25", "dense", "rrf", "hybrid")
BARS = {"squad_dev11": 0.88, "cranfield": 0.55}
DEPTH = 50  # chunks asked for; several may be of one passage
CUT = 10


def library(name: str, *, fresh: bool = False) -> Refdesk:
    """The set's passages as a library, kept between runs because embedding takes minutes."""
    folder = CACHE / "retrieval" / name
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    desk = Refdesk(folder)
    passages = read_jsonl(DATA / "retrieval" / name / "corpus.jsonl")
    known = len(desk.documents(status="ready"))
    if known < len(passages):
        print(f"embedding {len(passages)} passages of {name} …", flush=True)
        desk.add_texts(
            {"name": str(one["_id"]), "title": str(one.get("title") or ""), "text": str(one["text"])}
            for one in passages
        )
    return desk


def questions(name: str, most: int) -> list[tuple[str, dict[str, int]]]:
    """(question, relevant passages), evenly spread over the set when there are more than `most`."""
    folder = DATA / "retrieval" / name
    relevant: dict[str, dict[str, int]] = {}
    for path in (folder / "qrels").glob("*.tsv"):
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            query, passage, grade = line.split("\t")
            if int(grade) > 0:
                relevant.setdefault(query, {})[passage] = int(grade)
    files = [folder / "queries.jsonl", *sorted(folder.glob("*_rewrite.jsonl"))]
    rows = next(read_jsonl(path) for path in files if path.exists())
    found = [(str(row["text"]), relevant[str(row["_id"])]) for row in rows if str(row["_id"]) in relevant]
    step = max(1.0, len(found) / most)
    return [found[int(i * step)] for i in range(min(most, len(found)))]


def ndcg(ranked: Sequence[str], relevant: dict[str, int]) -> float:
    """Binary gain, cut at ten."""
    gain = sum(1 / math.log2(place + 2) for place, name in enumerate(ranked[:CUT]) if name in relevant)
    ideal = sum(1 / math.log2(place + 2) for place in range(min(CUT, len(relevant))))
    return gain / ideal


def measure(desk: Refdesk, asked: Sequence[tuple[str, dict[str, int]]]) -> dict[str, float]:
    totals = dict.fromkeys(METHODS, 0.0)
    for text, relevant in asked:
        vector = desk.parts.embedder.embed_query(text)
        for method in METHODS:
            hits = desk.search_vector(text, lambda _, v=vector: v, DEPTH, method, Scope(), desk.settings)
            ranked = list(dict.fromkeys(hit.document.name for hit in hits))
            totals[method] += ndcg(ranked, relevant)
    return {method: total / len(asked) for method, total in totals.items()}


def agreement(desk: Refdesk, asked: Sequence[tuple[str, dict[str, int]]], depth: int = 20) -> float:
    """Share of our BM25's top 20 chunks that bm25s has in its own, over the same terms."""
    chunks = [
        (chunk.id, terms(f"{chunk.context}\n{chunk.text}", document.language))
        for document, chunk in desk.parts.documents.all_chunks()
    ]
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(term, len(vocabulary)) for term in found] for _, found in chunks]
    reference = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    reference.index((ids, vocabulary), show_progress=False)
    total = 0.0
    for text, _ in asked:
        wanted = query_terms(text)
        ours = {i for i, _ in desk.parts.index.lexical(wanted, depth, Scope())}
        known = [vocabulary[term] for term in wanted if term in vocabulary]
        places, scores = reference.retrieve([known], k=depth, show_progress=False)
        theirs = {chunks[place][0] for place, score in zip(places[0], scores[0], strict=True) if score > 0}
        total += len(ours & theirs) / max(1, len(theirs))
    return total / len(asked)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    every = sorted(path.parent.name for path in (DATA / "retrieval").glob("*/corpus.jsonl"))
    parser.add_argument("--sets", default=",".join(every))
    parser.add_argument("--queries", type=int, default=1500)
    parser.add_argument("--fresh", action="store_true", help="embed anew")
    options = parser.parse_args(arguments)
    figures: list[Figure] = []
    for name in options.sets.split(","):
        asked = questions(name, options.queries)
        with library(name, fresh=options.fresh) as desk:
            scores = measure(desk, asked)
            best = max(scores["bm25"], scores["dense"])
            bar = BARS.get(name, 0.0)
            shown = " · ".join(f"{method} {scores[method]:.4f}" for method in METHODS)
            figures.append(
                Figure(
                    f"nDCG@10 {name} ({len(asked)} questions)",
                    shown,
                    f"hybrid ≥ {max(bar, best):.4f}" if best > bar else f"hybrid ≥ {bar}",
                    scores["hybrid"] >= max(bar, best),
                )
            )
            print(figures[-1], flush=True)
            if name == "squad_dev11":
                same = agreement(desk, asked)
                figures.append(
                    Figure("BM25 top 20 shared with bm25s, squad_dev11", f"{same:.4f}", "≥ .95", same >= 0.95)
                )
    if options.sets == ",".join(every):
        write("retrieval", "Retrieval quality", figures)


if __name__ == "__main__":
    main()
