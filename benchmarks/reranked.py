"""Does reading order passages better? nDCG@10 of the hybrid search, of its sentences, and of what the reader read.

python -m benchmarks.reranked [--questions 1500]

`whole` is the order in which `ask` reads passages: searched, reranked by sentences, the first of them read. It is
compared with the hybrid search of the first version (benchmarks/results/retrieval.md of fb8819b: up to 1,500 questions
of each set) and with today's hybrid search on the same questions. Of squad_dev11 those 24 articles are asked that the
reader has not learned from. It has learned from the sets of `LEARNED`, which have a mean of their own.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchmarks.answering import Articles, NoModels, progress, questions
from benchmarks.common import CACHE, Figure
from benchmarks.retrieval import library, ndcg
from refdesk.answer import EVERYTHING, Question
from refdesk.ask.plan import make_plan
from refdesk.ask.retrieve import Retrieval, SentenceReranker, retrieve
from refdesk.ask.understand import understand
from refdesk.trace import Trace
from refdesk.types import Scope

# hybrid of fb8819b
BEFORE = {
    "squad_dev11": 0.9036, "squadshift_reddit": 0.6126, "squad2_disfl": 0.9068, "scifact": 0.7398,
    "cranfield": 0.4356, "cacm": 0.5270, "hotpot500": 0.8264, "hotpot_train100": 0.8481, "musique_train100": 0.6732,
    "mtrag_govt": 0.7138, "mtrag_cloud": 0.3000,
}  # fmt: skip
LEARNED = ("hotpot500", "hotpot_train100", "musique_train100", "mtrag_govt", "mtrag_cloud")
DEEP = 50  # hits
GAIN, LOSS = 0.03, 0.003  # of the mean, at least; of a set, at most


class Order(NamedTuple):
    """nDCG@10 of one set."""

    asked: int
    hybrid: float
    whole: float


def ordered(name: str, most: int) -> Order:
    hybrid = whole = count = 0.0
    articles = Articles() if name == "squad_dev11" else None
    keep = (lambda row: not articles.is_for_learning(row)) if articles else (lambda row: not row.get("is_impossible"))
    with library(name) as desk:
        reader, settings = desk.parts.reader, desk.settings
        ports = (reader, desk.parts.embedder, SentenceReranker(), settings)
        for row in progress([one for one in questions(name, most, keep) if one["relevant"]], name):
            relevant = dict.fromkeys(row["relevant"], 1)
            trace, question = Trace(), Question(row["text"], EVERYTHING)
            query = asyncio.run(understand(question, (), reader, desk.parts.embedder, None, settings, trace))
            hits = reader.search(row["text"], query.vector, DEEP, "hybrid", Scope(), settings)
            names = list(dict.fromkeys(hit.document.name for hit in hits))
            plan, _ = make_plan(question, query, NoModels(), settings, trace)  # type: ignore[arg-type]
            job = Retrieval(plan, EVERYTHING, *ports, trace, desk.parts.asking.passage_reader)
            found = asyncio.run(retrieve(query, job))
            read = [hit.document.name for hit in (*found.hits, *found.considered)]
            hybrid += ndcg(names, relevant)
            whole += ndcg(list(dict.fromkeys([*read, *names])), relevant)
            count += 1
    return Order(int(count), hybrid / count, whole / count)


def figures(most: int = 1500, sets: Sequence[str] = ()) -> list[Figure]:
    """Of the sets whose passages are embedded already, where none are named: others take minutes each."""
    chosen = sets or [name for name in BEFORE if (CACHE / "retrieval" / name / "library.db").exists()] or list(BEFORE)
    orders = {name: ordered(name, most) for name in chosen}
    found = []
    for name, order in orders.items():
        shown = f"{order.hybrid:.3f} → {order.whole:.3f} ({order.asked} questions); fb8819b {BEFORE[name]:.3f}"
        learned = ", which the reader has learned from" if name in LEARNED else ""
        is_met = order.whole >= BEFORE[name] - LOSS
        found.append(Figure(f"after reading, {name}{learned}: nDCG@10, hybrid → read", shown, "no set lower", is_met))
    new = {name: order for name, order in orders.items() if name not in LEARNED}
    if new and len(new) < len(orders):
        found.append(_mean("after reading, mean of the sets it has not learned from: nDCG@10", new))
    found.append(_mean("after reading, mean of the sets: nDCG@10", orders))
    return found


def _mean(what: str, orders: Mapping[str, Order]) -> Figure:
    names = list(orders)
    first = sum(BEFORE[name] for name in names) / len(names)
    today = sum(order.hybrid for order in orders.values()) / len(names)
    after = sum(order.whole for order in orders.values()) / len(names)
    shown = f"{today:.3f} → {after:.3f}, {after - today:+.3f}; fb8819b {first:.3f}, {after - first:+.3f}"
    return Figure(what, f"{shown} (mean of {len(names)} sets)", f"+ {GAIN}", after - first >= GAIN)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=1500)
    parser.add_argument("--sets", default="", help="names, with commas between them")
    options = parser.parse_args(arguments)
    for one in figures(options.questions, [name for name in options.sets.split(",") if name]):
        print(one, flush=True)


if __name__ == "__main__":
    main()
