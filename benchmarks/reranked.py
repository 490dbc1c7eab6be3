"""Does reranking by sentences order better?

python -m benchmarks.reranked [--questions 1000]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from benchmarks.answering import progress, questions
from benchmarks.common import Figure
from benchmarks.retrieval import library, ndcg
from refdesk.answer import Query
from refdesk.ask.retrieve import SentenceReranker
from refdesk.terms import idf, query_terms
from refdesk.types import Scope

SETS = ("squad_dev11", "scifact", "cranfield", "hotpot500", "mtrag_cloud", "mtrag_govt")
DEEP, LOOKED_AT = 50, 20  # hits, and those of them that are reranked
LOSS = 0.003  # most that reranking may cost a set


def reranked(name: str, most: int) -> tuple[float, float]:
    """nDCG@10 before and after reranking the first twenty candidates."""
    before = after = count = 0.0
    with library(name) as desk:
        reader = desk.parts.reader
        for row in progress(questions(name, most), name):
            wanted = tuple(query_terms(row["text"], reader.languages))
            query = Query(row["text"], row["text"], desk.parts.embedder.embed_query(row["text"]), wanted)
            hits = reader.search(row["text"], query.vector, DEEP, "hybrid", Scope(), desk.settings)
            vectors = reader.sentence_vectors([hit.chunk.id for hit in hits[:LOOKED_AT]])
            weights = idf(reader.frequencies(wanted), reader.chunk_count)
            ranked = SentenceReranker().rerank(query, hits[:LOOKED_AT], vectors, weights)
            relevant = dict.fromkeys(row["relevant"], 1)
            names = [hit.document.name for hit in hits]
            again = [*(hit.document.name for hit in ranked), *names[LOOKED_AT:]]
            before += ndcg(list(dict.fromkeys(names)), relevant)
            after += ndcg(list(dict.fromkeys(again)), relevant)
            count += 1
    return before / count, after / count


def figures(most: int = 1000) -> list[Figure]:
    found = []
    for name in SETS:
        before, after = reranked(name, most)
        is_met = after > before if name == "squad_dev11" else after >= before - LOSS
        found.append(Figure(f"rerank by sentences, {name}: nDCG@10", f"{before:.3f} → {after:.3f}", "no loss", is_met))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=1000)
    for one in figures(parser.parse_args(arguments).questions):
        print(one, flush=True)


if __name__ == "__main__":
    main()
