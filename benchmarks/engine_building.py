"""What does it take to build every engine, against embedding the same chunks? Without a model, on all cores there are.

python -m benchmarks.engine_building [--chunks 10000]

The chunks are taken in turn from all retrieval sets and kept as a library between runs; the first run makes it. Then,
each from nothing: the vectors of chunks and sentences (embedding, which every library needs); the names, acronyms,
summaries and keywords of chunks, and the rows of the graph; the tree; the token vectors; the survey's summaries.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path

from sqlalchemy import delete, insert

from benchmarks.common import CACHE, DATA, Figure, read_jsonl
from refdesk import Refdesk
from refdesk.ingest.enrich import enrich
from refdesk.store.database import open_database
from refdesk.store.graph import pack_entities, pack_relations
from refdesk.store.schema import entities, relations
from refdesk.types import Chunk, Scope

MOST = 2.0  # times of embedding
SPARE = 1.3  # passages have a chunk or more


def library(chunks: int) -> Path:
    """A library of about so many chunks."""
    folder = CACHE / f"engine-building-{chunks}"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        corpora = [read_jsonl(path) for path in sorted((DATA / "retrieval").glob("*/corpus.jsonl"))]
        passages = [one for some in zip_longest(*corpora) for one in some if one]
        with Refdesk(folder) as desk:
            texts = (
                {"name": f"{place}", "title": str(one.get("title") or ""), "text": str(one["text"])}
                for place, one in enumerate(passages)
            )
            while desk.chunk_count < chunks:
                left = chunks - desk.chunk_count
                desk.add_texts([text for text, _ in zip(texts, range(max(1, int(left / SPARE))), strict=False)])
        (folder / "done").touch()
    return folder


def timed(job: Callable[[], object]) -> float:
    begin = time.perf_counter()
    job()
    return time.perf_counter() - begin


def rows_of(by_document: Sequence[list[Chunk]], folder: Path) -> None:
    """What the graph, the survey and the tree are made of: enriched anew, and the rows of the graph written."""
    database = open_database(folder / "library.db")
    try:
        with database.begin() as connection:
            connection.execute(delete(entities))
            connection.execute(delete(relations))
            found = [(chunk, chunk.id) for own in by_document for chunk in enrich(own, language="en")]
            connection.execute(insert(entities), [row for one in found for row in pack_entities(*one)])
            connection.execute(insert(relations), [row for one in found for row in pack_relations(*one)])
    finally:
        database.dispose()


def figures(chunks: int = 10_000) -> list[Figure]:
    """The time of each engine, and of all against embedding."""
    kept = library(chunks)
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(kept, copy := Path(scratch) / "library")
        with Refdesk(copy) as desk:
            documents: dict[str, list[Chunk]] = {}
            for document, chunk in desk.parts.documents.all_chunks():
                documents.setdefault(document.id, []).append(chunk)
            every = [chunk for own in documents.values() for chunk in own]
            embedder = desk.parts.embedder
            embedder.embed_chunks(every[:20])  # the model is loaded
            embedding = timed(lambda: embedder.embed_chunks(every))
            took = {
                "graph, with names, keywords and summaries": timed(lambda: rows_of(list(documents.values()), copy)),
                "tree": timed(desk.build_tree),
                "token vectors": timed(desk.tokens.sync),
                "survey": timed(lambda: desk.parts.reader.summaries(Scope())),
            }
            disk = desk.tokens.nbytes
    times = sum(took.values()) / embedding
    found = [Figure(f"embedding {len(every):,} chunks of {len(documents):,} documents", f"{embedding:.1f} s")]
    found += [Figure(f"building: {name}", f"{seconds:.1f} s") for name, seconds in took.items()]
    found += [
        Figure("token vectors on disk", f"{disk / len(every) / 1024:.1f} kB a chunk"),
        Figure("building all engines, against embedding", f"{times:.2f} ×", f"≤ {MOST:.0f} ×", times <= MOST),
    ]
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--prepare", action="store_true", help="only make the library")
    options = parser.parse_args(arguments)
    if options.prepare:
        library(options.chunks)
        return
    for one in figures(options.chunks):
        print(one)


if __name__ == "__main__":
    main()
