"""What the search of the product finds for the questions that measure the reader. Nothing of this is learned from.

    python -m training.found FILE          writes FILE (JSON, xz), which `python -m training` reads

Each question carries the best passages of the hybrid search with their scores; those of squad_dev11 also the best ones
outside their article. Needs the data and the libraries of the benchmarks; runs where Refdesk runs, without torch.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any

from benchmarks.answering import Articles, questions
from benchmarks.common import DATA, read_jsonl
from benchmarks.retrieval import library

from refdesk.text import sentences
from refdesk.types import Scope

DEPTH, OUTSIDE, DEEP = 50, 10, 200
MOST = {
    "squad_dev11": 2000, "squadshift_reddit": 1000, "squad2_disfl": 2400, "scifact": 300, "cranfield": 225,
    "hotpot500": 300, "hotpot_train100": 100, "musique_train100": 100, "mtrag_govt": 250,
}  # fmt: skip


def found(name: str, most: int) -> dict[str, Any]:
    """The passages and the questions of a set; of squad_dev11 the questions about the 24 articles that measure."""
    passages = {str(row["_id"]): row for row in read_jsonl(DATA / "retrieval" / name / "corpus.jsonl")}
    articles = Articles() if name == "squad_dev11" else None
    keep = (lambda row: not articles.is_for_learning(row)) if articles else (lambda row: True)
    asked = []
    with library(name) as desk:
        for row in questions(name, most, keep):
            vector = desk.parts.embedder.embed_query(row["text"])
            depth = DEEP if articles else DEPTH
            hits = desk.search_vector(row["text"], lambda _, v=vector: v, depth, "hybrid", Scope(), desk.settings)
            best = {hit.document.name: hit for hit in reversed(hits)}  # a passage of several chunks by its best one
            ranked = [
                (one, round(hit.score, 4), round(hit.cosine, 4), round(hit.lexical_score, 3))
                for one, hit in sorted(best.items(), key=lambda item: -item[1].score)
            ]
            gone = articles.around(row["relevant"]) if articles else frozenset()
            outside = [one for one in ranked if one[0] not in gone][:OUTSIDE] if articles else []
            asked.append(
                {
                    "text": row["text"],
                    "answers": row.get("answers", []),
                    "is_impossible": bool(row.get("is_impossible")),
                    "relevant": sorted(row["relevant"]) or [row["context_id"]],
                    "hits": ranked[:DEPTH],
                    "outside": outside,
                }
            )
    named = {one for row in asked for one in (*row["relevant"], *(hit[0] for hit in row["hits"] + row["outside"]))}
    return {
        "passages": {
            one: {
                "title": " ".join(str(passages[one].get("title") or "").split()),
                "text": passages[one]["text"],
                "sentences": list(sentences(passages[one]["text"])),
            }
            for one in sorted(named)
        },
        "questions": asked,
    }


def main() -> None:
    every = {}
    for name, most in MOST.items():
        every[name] = found(name, most)
        print(f"{name}: {len(every[name]['questions'])} questions, {len(every[name]['passages'])} passages", flush=True)
    Path(sys.argv[1]).write_bytes(lzma.compress(json.dumps(every, ensure_ascii=False).encode(), preset=6))


if __name__ == "__main__":
    main()
