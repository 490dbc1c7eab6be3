"""Each engine alone and stacked: quality, waiting and disk on every retrieval set; what multi-hop adds to hybrid.

python -m benchmarks.engines [--sets hotpot500,cranfield] [--queries 100] [--engines hybrid,multi_hop,graph+fusion]

`nDCG@10` and `recall@5` are of what the strategy finds, before anything is reranked; `read` is recall@5 of the whole
stage, reranked and checked as in an answer (without the reader, which is the same for all).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.common import DATA
from benchmarks.retrieval import CUT, library, ndcg, questions
from refdesk import Refdesk
from refdesk.answer import Plan, Query
from refdesk.ask.retrieve import SentenceReranker, retrieve, together
from refdesk.ask.strategies import STRATEGIES, side_by_side
from refdesk.library import SearchPorts
from refdesk.terms import query_terms
from refdesk.trace import Trace
from refdesk.types import Hit, Scope

HOPS = ("hotpot500", "hotpot_train100", "musique_train100")
DEPTH = 20  # chunks that a strategy is asked for, as the standard level does
SHOWN = ("hybrid", "multi_hop", "fusion", "graph", "late_interaction")


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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    every = sorted(path.parent.name for path in (DATA / "retrieval").glob("*/corpus.jsonl"))
    alone = [one for one in SHOWN if one in STRATEGIES]
    parser.add_argument("--sets", default=",".join(every))
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--engines", default=",".join(alone))
    options = parser.parse_args(arguments)
    results: dict[tuple[str, str], Measured] = {}
    for name in options.sets.split(","):
        with library(name) as desk:
            asked = understood(desk, questions(name, options.queries))
            for engines in options.engines.split(","):
                one = results[name, engines] = asyncio.run(measure(desk, asked, engines))
                said = f"nDCG@10 {one.ndcg:.4f} · recall@5 {one.recall:.4f} · read {one.read:.4f} · {one.ms:.1f} ms"
                print(f"{name} ({len(asked)}) {engines}: {said}", flush=True)


if __name__ == "__main__":
    main()
