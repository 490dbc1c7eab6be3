"""Does a question that names a company and a period find the right filing, and in it the right page?

python -m benchmarks.filings

financebench: 52 questions over 20 annual and quarterly reports, with the page of the evidence. kgrag_10q: 195 questions
over 20 quarterly reports, with the documents of the evidence. Adding the 40 reports takes minutes, once.
"""

from __future__ import annotations

import asyncio
import csv
import fnmatch
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from benchmarks.common import CACHE, DATA, Figure, median_ms, read_jsonl, use_one_core, write
from refdesk import Refdesk
from refdesk.answer import EVERYTHING, Context, Plan, Query, Retrieved
from refdesk.ask.assemble import assemble
from refdesk.ask.plan import Budget
from refdesk.ask.retrieve import Retrieval, SentenceReranker, retrieve
from refdesk.document_names import match_names
from refdesk.text import query_terms
from refdesk.trace import Trace

FOLDERS = {
    "financebench": DATA / "pdf_qa" / "financebench" / "pdfs",
    "kgrag_10q": DATA / "pdf_qa" / "kgrag_10q" / "sec-10-q" / "data" / "v1" / "docs",
}
CUTS = (5, 10, 20)
PAGE_BAR = 0.7  # with the document known, 20 chunks hold the page for .73 of the questions


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the documents, and where known the pages, that hold its answer."""

    text: str
    documents: frozenset[str]
    pages: frozenset[int] = frozenset()


def library(name: str) -> Refdesk:
    desk = Refdesk(CACHE / "filings" / name, settings={"ingest.ocr": False})
    files = sorted(FOLDERS[name].glob("*.pdf"))
    if len(desk.documents(status="ready")) < len(files):
        print(f"adding {len(files)} reports of {name} …", flush=True)
        desk.add(FOLDERS[name])
    return desk


def financebench() -> list[Asked]:
    rows = read_jsonl(DATA / "pdf_qa" / "financebench" / "questions.jsonl")
    found = []
    for row in rows:
        evidence: list[dict[str, int]] = row["evidence"]  # type: ignore[assignment]
        pages = frozenset(one["evidence_page_num"] + 1 for one in evidence)
        found.append(Asked(str(row["question"]), frozenset({f"{row['doc_name']}.pdf"}), pages))
    return found


def kgrag(names: Iterable[str]) -> list[Asked]:
    with (FOLDERS["kgrag_10q"].parent / "qna_data.csv").open(encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    every = list(names)
    return [Asked(row["Question"], frozenset(fnmatch.filter(every, f"{row['Source Docs'].strip()}*"))) for row in rows]


def understood(desk: Refdesk, text: str) -> Query:
    return Query(
        text, text, desk.parts.embedder.embed_query(text), tuple(query_terms(text, desk.parts.reader.languages))
    )


def run(desk: Refdesk, query: Query, *, k: int, prefers: bool = True) -> Retrieved:
    settings = desk.settings.changed({"rag.prefer_documents": prefers})
    plan = Plan("hybrid", k, max(20, k))
    ports = (desk.parts.reader, desk.parts.embedder, SentenceReranker())
    return asyncio.run(retrieve(query, Retrieval(plan, EVERYTHING, *ports, settings, Trace())))


def read(desk: Refdesk, query: Query, retrieved: Retrieved) -> Context:
    budget = Budget.for_model(None, desk.settings)
    return assemble(query, Plan("hybrid", 10, 20), retrieved, desk.parts.reader, budget, desk.settings, None)


def share(asked: Iterable[Asked], holds: Callable[[Asked], bool]) -> float:
    judged = [holds(one) for one in asked]
    return sum(judged) / len(judged)


def page_figures(desk: Refdesk) -> list[Figure]:
    asked = financebench()
    queries = {one.text: understood(desk, one.text) for one in asked}
    figures = []
    for prefers in (False, True):
        found = {one.text: run(desk, queries[one.text], k=max(CUTS), prefers=prefers) for one in asked}
        pages, documents = (
            {cut: share(asked, partial(_hit, found=found, k=cut, by_page=by_page)) for cut in CUTS}
            for by_page in (True, False)
        )
        how = "with" if prefers else "without"
        shown = " · ".join(f"{cut}: {pages[cut]:.3f} ({documents[cut]:.3f})" for cut in CUTS)
        bar = (f"20: ≥ {PAGE_BAR}", pages[20] >= PAGE_BAR) if prefers else ("", None)
        figures.append(Figure(f"financebench, page (document) in the first k chunks, {how} preference", shown, *bar))
    held = share(asked, lambda one: _is_read(one, read(desk, queries[one.text], run(desk, queries[one.text], k=10))))
    figures.append(Figure("financebench, page among the passages that are read (10 hits, neighbours)", f"{held:.3f}"))
    return figures


def _hit(one: Asked, *, found: Mapping[str, Retrieved], k: int, by_page: bool) -> bool:
    return any(
        hit.document.name in one.documents and (not by_page or one.pages & set(hit.chunk.pages))
        for hit in found[one.text].hits[:k]
    )


def _is_read(one: Asked, context: Context) -> bool:
    return any(held.document.name in one.documents and one.pages & set(held.pages) for held in context.passages)


def name_figures(desk: Refdesk) -> list[Figure]:
    documents = desk.parts.reader.documents(EVERYTHING)
    names = {one.id: one.name for one in documents}
    asked = kgrag(names.values())
    single, several = ([one for one in asked if (len(one.documents) == 1) == is_single] for is_single in (True, False))
    named = {one.text: [names[key] for key in match_names(one.text, documents)] for one in asked}
    first = share(single, lambda one: bool(named[one.text]) and named[one.text][0] in one.documents)
    every = share(several, lambda one: one.documents <= set(named[one.text]))
    figures = [
        Figure(f"kgrag_10q, the one report is named first ({len(single)} questions)", f"{first:.3f}"),
        Figure(f"kgrag_10q, all reports of the company are named ({len(several)} questions)", f"{every:.3f}"),
    ]
    for prefers in (False, True):
        found = {one.text: run(desk, understood(desk, one.text), k=10, prefers=prefers) for one in asked}
        right = sum(_right(one, found[one.text]) for one in asked) / len(asked)
        covered = sum(_covered(one, found[one.text]) for one in several) / len(several)
        how = "with" if prefers else "without"
        figures.append(Figure(f"kgrag_10q, share of 10 hits in the right reports, {how} preference", f"{right:.3f}"))
        figures.append(Figure(f"kgrag_10q, share of the reports that are hit, {how} preference", f"{covered:.3f}"))
    return figures


def _right(one: Asked, found: Retrieved) -> float:
    return sum(hit.document.name in one.documents for hit in found.hits) / max(1, len(found.hits))


def _covered(one: Asked, found: Retrieved) -> float:
    return len({hit.document.name for hit in found.hits} & one.documents) / len(one.documents)


def time_figures(desk: Refdesk) -> list[Figure]:
    queries = [understood(desk, one.text) for one in financebench()]
    found = [run(desk, query, k=10, prefers=True) for query in queries]
    many = len(queries)
    searching = median_ms(lambda i: run(desk, queries[i % many], k=10, prefers=True), 2 * many)
    reading = median_ms(lambda i: read(desk, queries[i % many], found[i % many]), 2 * many)
    count = desk.parts.reader.chunk_count
    return [
        Figure(f"retrieve, {count} chunks, p50 (p95)", f"{searching[0]:.1f} ({searching[1]:.1f}) ms"),
        Figure(f"assemble, {count} chunks, p50 (p95)", f"{reading[0]:.1f} ({reading[1]:.1f}) ms"),
    ]


def figures() -> list[Figure]:
    with library("financebench") as desk:
        found = [*page_figures(desk), *time_figures(desk)]
    with library("kgrag_10q") as desk:
        return [*found, *name_figures(desk)]


def main() -> None:
    use_one_core()
    write("filings", "Filings: does the question find its document?", figures())


if __name__ == "__main__":
    main()
