"""Questions with what was found for them, as the benchmarks of answering without a model use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.common import DATA, read_jsonl
from benchmarks.retrieval import library
from refdesk import Refdesk
from refdesk.answer import Context, Passage, Query, Retrieved
from refdesk.ask.evidence.weigh import idf
from refdesk.ask.finding.fuse import convex
from refdesk.ask.finding.rerank import SentenceReranker
from refdesk.ask.understanding.fluent import fluent
from refdesk.terms import query_terms
from refdesk.text import fold
from refdesk.types import Document, Hit, Scope

LOOKED_AT, READ = 20, 8  # candidates that are reranked, and passages that are read
DEEP = 120  # hits kept, so that enough are left when an article is taken out


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A question, what is known about its answer, and its hits."""

    query: Query
    relevant: frozenset[str]  # names of the documents that answer it
    answers: tuple[str, ...]
    is_impossible: bool
    hits: tuple[Hit, ...]
    weights: Mapping[str, float]


def relevant_documents(name: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for path in (DATA / "retrieval" / name / "qrels").glob("*.tsv"):
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            question, passage, grade = line.split("\t")
            if int(grade) > 0:
                found.setdefault(question, set()).add(passage)
    return {question: frozenset(names) for question, names in found.items()}


def questions(name: str, most: int) -> list[dict[str, Any]]:
    """The rows of a set, evenly spread."""
    folder = DATA / "retrieval" / name
    files = [folder / "queries.jsonl", *sorted(folder.glob("*_rewrite.jsonl"))]
    rows: list[dict[str, Any]] = next(read_jsonl(path) for path in files if path.exists())
    known = relevant_documents(name)
    rows = [row | {"relevant": known.get(str(row["_id"]), frozenset())} for row in rows]
    rows = [row for row in rows if row["relevant"] or "is_impossible" in row]
    step = max(1.0, len(rows) / most)
    return [rows[int(i * step)] for i in range(min(most, len(rows)))]


def cases(desk: Refdesk, name: str, most: int, *, deep: int = LOOKED_AT, form: str = "text") -> Iterator[Case]:
    """Every question with its hits by the library's own search."""
    reader, count = desk.reader, desk.reader.chunk_count
    for row in questions(name, most):
        text = fluent(str(row[form]).replace("|user|:", "").strip())  # as `understand` reads it
        wanted = query_terms(text, reader.languages)
        query = Query(text, text, desk.embedder.embed_query(text), tuple(wanted))
        yield Case(
            query=query,
            relevant=row["relevant"],
            answers=tuple(row.get("answers") or ()),
            is_impossible=bool(row.get("is_impossible")),
            hits=tuple(reader.search(text, query.vector, deep, "hybrid", Scope(), desk.settings)),
            weights=idf(reader.frequencies(wanted), count),
        )


def without(case: Case, is_gone: Callable[[Document], bool], dense_weight: float) -> Case:
    """The same question to a library that does not hold these documents."""
    left = [hit for hit in case.hits if not is_gone(hit.document)]
    lexical = {hit.chunk.id: hit.lexical_score for hit in left if hit.lexical_score > 0}
    ranked = convex(lexical, {hit.chunk.id: hit.cosine for hit in left}, dense_weight)
    by_id = {hit.chunk.id: hit for hit in left}
    return replace(case, hits=tuple(replace(by_id[chunk_id], score=score) for chunk_id, score in ranked))


def retrieve(desk: Refdesk, case: Case) -> Retrieved:
    """What asking hands on: the candidates reranked, the best of them read."""
    looked_at = case.hits[:LOOKED_AT]
    vectors = desk.reader.sentence_vectors([hit.chunk.id for hit in looked_at])
    ranked = tuple(SentenceReranker().rerank(case.query, looked_at, vectors, case.weights))
    return Retrieved(ranked[:READ], ranked, vectors, case.weights)


def context(retrieved: Retrieved) -> Context:
    """Each hit a passage, no neighbours."""
    passages = (Passage(i, hit, (hit.chunk,), hit.chunk.text) for i, hit in enumerate(retrieved.hits, 1))
    return Context(tuple(passages), "", 0)


def contains(sentence: str, answers: Sequence[str]) -> bool:
    """Does the sentence hold one of the answers as whole words, whatever their case, accents and spacing?"""
    text = f" {_words(sentence)} "
    return any(f" {_words(answer)} " in text for answer in answers if _words(answer))


def _words(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in fold(text)).split())


__all__ = ["Case", "cases", "contains", "context", "library", "questions", "retrieve", "without"]
