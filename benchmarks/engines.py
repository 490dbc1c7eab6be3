"""Each engine alone and stacked: quality, waiting and disk on every retrieval set; what multi-hop adds to hybrid.

python -m benchmarks.engines [--sets hotpot500,cranfield] [--queries 100] [--engines hybrid,multi_hop,graph+fusion]

`nDCG@10` and `recall@5` are of what the strategy finds, before anything is reranked; `read` is recall@5 of the whole
stage, reranked and checked as in an answer (without the reader, which is the same for all).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.common import DATA, Figure, write
from benchmarks.retrieval import CUT, library, ndcg, questions
from refdesk import Refdesk
from refdesk.answer import Plan, Query
from refdesk.ask.retrieve import SentenceReranker, retrieve, together
from refdesk.ask.strategies import side_by_side
from refdesk.library import SearchPorts
from refdesk.terms import query_terms
from refdesk.trace import Trace
from refdesk.types import Hit, Scope

HOPS = ("hotpot500", "hotpot_train100", "musique_train100")
DEPTH = 20  # chunks that a strategy is asked for, as the standard level does
SHOWN = ("hybrid", "multi_hop", "fusion", "graph", "late_interaction")
STACKED = "hybrid+fusion+graph"
NOTES = (
    "Disk: multi-hop and variants keep nothing; the graph an indexed key for each name and a row for each acronym;",
    "late interaction its token vectors. `a+b` are lists of both, joined by rank; `read` is then not measured apart.",
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one engine on one set."""

    ndcg: float
    recall: float
    read: float
    ms: float


def names(hits: Sequence[Hit]) -> list[str]:
    return list(dict.fromkeys(hit.document.name for hit in hits))


def recall(ranked: Sequence[str], relevant: dict[str, int], cut: int = 5) -> float:
    return len(relevant.keys() & set(ranked[:cut])) / len(relevant)


async def measure(desk: Refdesk, asked: Sequence[tuple[Query, dict[str, int]]], engines: str) -> Measured:
    """`engines` are strategies with a plus between them."""
    stacked = engines.split("+")
    found = []
    for query, relevant in asked:
        parts = desk.parts
        ports = SearchPorts(parts.reader, parts.embedder, desk.settings, Scope(), DEPTH)
        begin = time.perf_counter()
        lists = await side_by_side(stacked, query, ports)
        hits = together(lists, desk.settings.rrf_k)
        took = time.perf_counter() - begin
        read = await retrieve_stage(desk, query, stacked) if len(stacked) == 1 else hits
        ranked = names(hits)
        found.append((ndcg(ranked, relevant), recall(ranked, relevant), recall(names(read), relevant), took * 1000))
    means = np.mean(np.array(found), axis=0)
    return Measured(*(float(one) for one in means[:3]), float(np.median([one[3] for one in found])))


async def retrieve_stage(desk: Refdesk, query: Query, stacked: Sequence[str]) -> Sequence[Hit]:
    plan = Plan(stacked[0], k=CUT, candidates=DEPTH, read=False)
    ports = (desk.parts.reader, desk.parts.embedder, SentenceReranker(), desk.settings, Trace())
    return (await retrieve(query, plan, Scope(), *ports)).hits


def understood(desk: Refdesk, asked: Sequence[tuple[str, dict[str, int]]]) -> list[tuple[Query, dict[str, int]]]:
    embed, languages = desk.parts.embedder.embed_query, desk.parts.reader.languages
    return [(Query(text, text, embed(text), tuple(query_terms(text, languages))), wanted) for text, wanted in asked]


def table(results: Mapping[tuple[str, str], Measured], notes: Mapping[str, str]) -> list[Figure]:
    """A line for each set and engine; the bars are those of what was measured."""
    figures = []
    for (name, engines), one in results.items():
        base = results.get((name, "hybrid"), one)
        bar, met = "", None
        if engines == "late_interaction":
            bar, met = "nDCG@10 no more than .005 lower", one.ndcg >= base.ndcg - 0.005
        elif engines == "multi_hop" and name in HOPS:
            bar, met = "recall@5 no lower", one.recall >= base.recall
        said = f"{one.ndcg:.4f} · {one.recall:.4f} · {one.read:.4f} · {one.ms:.1f} ms"
        figures.append(Figure(f"{name}, {engines}{notes.get(f'{name} {engines}', '')}", said, bar, met))
    if all((name, engines) in results for name in HOPS for engines in ("hybrid", "multi_hop")):
        more = float(np.mean([results[name, "multi_hop"].recall - results[name, "hybrid"].recall for name in HOPS]))
        figures.append(
            Figure("multi-hop, recall@5 over hybrid, mean of three sets", f"+{more:.4f}", "+.04", more >= 0.04)
        )
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    every = sorted(path.parent.name for path in (DATA / "retrieval").glob("*/corpus.jsonl"))
    parser.add_argument("--sets", default=",".join(every))
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--engines", default=",".join([*SHOWN, STACKED]))
    parser.add_argument("--write", action="store_true", help="keep the table in benchmarks/results")
    options = parser.parse_args(arguments)
    results: dict[tuple[str, str], Measured] = {}
    notes: dict[str, str] = {}
    for name in options.sets.split(","):
        with library(name) as desk:
            asked = understood(desk, questions(name, options.queries))
            for engines in options.engines.split(","):
                if "late_interaction" in engines:
                    desk.tokens.sync()
                    disk = desk.tokens.nbytes / max(1, desk.tokens.count)
                    notes[f"{name} late_interaction"] = f" ({disk / 1024:.1f} kB a chunk)"
                one = results[name, engines] = asyncio.run(measure(desk, asked, engines))
                said = f"nDCG@10 {one.ndcg:.4f} · recall@5 {one.recall:.4f} · read {one.read:.4f} · {one.ms:.1f} ms"
                print(f"{name} ({len(asked)}) {engines}: {said}", flush=True)
    if options.write:
        about = (
            f"Of {options.queries} questions a set: nDCG@10 · recall@5 · recall@5 as read · median time of the search."
        )
        write("engines", "Each engine alone and stacked", table(results, notes), [about, *NOTES])


if __name__ == "__main__":
    main()
