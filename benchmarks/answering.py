"""Questions answered without a model by the stages that ship, also as if some documents were not in the library.

Used by the benchmarks of answering and by the fitting of their numbers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.common import DATA, read_jsonl
from refdesk import Refdesk
from refdesk.answer import EVERYTHING, Context, Query, Question, Retrieved
from refdesk.ask.assemble import assemble, with_neighbours
from refdesk.ask.draft import NEAREST_SENTENCES
from refdesk.ask.extract import Quote, extract, ranked_sentences, short_answer
from refdesk.ask.judge import Relevance, doubted, judge, quoted_confidence
from refdesk.ask.plan import make_plan
from refdesk.ask.retrieve import Retrieval, SentenceReranker, retrieve
from refdesk.ask.understand import understand
from refdesk.ask.writing import doubt_of_quotes
from refdesk.library import LibraryReader, convex
from refdesk.ports import Reader
from refdesk.settings import Settings
from refdesk.text import fold
from refdesk.trace import Trace
from refdesk.types import Hit, Method, Scope

ARTICLES = frozenset(["a", "an", "the"])


class NoModels:
    """A library that names no model."""

    def role(self, *_: Any) -> None:
        return None


class Without:
    """The library as it would be without some documents, which are known by their names."""

    def __init__(self, reader: LibraryReader, gone: frozenset[str]) -> None:
        self._reader, self._gone = reader, gone

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)

    def search(self, text: str, vector: Any, k: int, method: Method, scope: Scope, settings: Settings) -> list[Hit]:
        hits = self._reader.search(text, vector, k + len(self._gone), method, scope, settings)
        left = {hit.chunk.id: hit for hit in hits if hit.document.name not in self._gone}
        lexical = {one: hit.lexical_score for one, hit in left.items() if hit.lexical_score > 0}
        weight = settings.dense_weight if method == "hybrid" else 1.0
        ranked = convex(lexical, {one: hit.cosine for one, hit in left.items()}, weight)
        return [replace(left[one], score=score) for one, score in ranked[:k]]


@dataclass(frozen=True, slots=True, eq=False)
class Answered:
    """What the stages gave for one question."""

    query: Query
    retrieved: Retrieved
    context: Context
    relevance: Relevance
    quotes: tuple[Quote, ...]
    is_refused: bool  # also where the nearest sentences are quoted as just that
    confidence: float
    level: str
    short: str = ""
    first_three: tuple[str, ...] = ()  # the sentences that answer best, also those that are not quoted

    @property
    def documents(self) -> list[str]:
        """The name of the document of each quote."""
        names = {one.number: one.document.name for one in self.context.passages}
        return [names[quote.passage] for quote in self.quotes]


def answer(
    desk: Refdesk,
    text: str,
    gone: frozenset[str] = frozenset(),
    scope: Scope = EVERYTHING,
    reader: Reader | None = None,
) -> Answered | None:
    """The question with the library's settings and its reader; None where it is not one to the documents."""
    library: Any = Without(desk.parts.reader, gone) if gone else desk.parts.reader
    trace, settings, question = Trace(), desk.settings, Question(text, scope)
    query = asyncio.run(understand(question, (), library, desk.parts.embedder, None, settings, trace))
    if query.route != "needs_retrieval":
        return None
    plan, budget = make_plan(question, query, NoModels(), settings, trace)  # type: ignore[arg-type]
    reranker = SentenceReranker()
    ports = (library, desk.parts.embedder, reranker)
    reader = reader or desk.parts.asking.passage_reader
    found = asyncio.run(retrieve(query, Retrieval(plan, scope, *ports, settings, trace, reader)))
    relevance = judge(query, found)
    context = assemble(query, plan, found, library, budget, settings)
    found = with_neighbours(found, context, library)
    quotes = tuple(extract(query, context, found, settings)) if found.hits else ()
    first = doubted(relevance, found, settings)
    nearest = extract(query, context, found, settings, NEAREST_SENTENCES) if first == "near" and found.hits else quotes
    doubt = doubt_of_quotes(first, query, relevance, found, settings, nearest)
    doubt = doubt or ("" if quotes else "missing")
    sure = quoted_confidence(relevance, quotes)
    short = "" if doubt else short_answer(query, quotes)
    ranked = ranked_sentences(query, context, found)[:3]
    texts = tuple(one.text for one in ranked)
    return Answered(query, found, context, relevance, quotes, bool(doubt), sure.score, sure.level, short, texts)


# --- the sets --------------------------------------------------------------------------------------------------------


def relevant_documents(name: str) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for path in (DATA / "retrieval" / name / "qrels").glob("*.tsv"):
        for line in path.read_text(encoding="utf-8").splitlines()[1:]:
            question, passage, grade = line.split("\t")
            if int(grade) > 0:
                found.setdefault(question, set()).add(passage)
    return {question: frozenset(names) for question, names in found.items()}


def questions(name: str, most: int, keep: Callable[[dict[str, Any]], bool] = lambda row: True) -> list[dict[str, Any]]:
    """The rows of a set that are wanted, evenly spread; `relevant` are the names of the documents that answer."""
    folder = DATA / "retrieval" / name
    files = [folder / "queries.jsonl", *sorted(folder.glob("*_rewrite.jsonl"))]
    rows: list[dict[str, Any]] = next(read_jsonl(path) for path in files if path.exists())
    known = relevant_documents(name)
    rows = [row | {"relevant": known.get(str(row["_id"]), frozenset())} for row in rows]
    rows = [row for row in rows if (row["relevant"] or "is_impossible" in row) and keep(row)]
    step = max(1.0, len(rows) / most)
    chosen = [rows[int(i * step)] for i in range(min(most, len(rows)))]
    return [row | {"text": str(row["text"]).replace("|user|:", "").strip()} for row in chosen]


class Articles:
    """The articles of squad_dev11: the first 24 may be learned from, the other 24 only measure."""

    def __init__(self) -> None:
        self._article: dict[str, int] = {}
        self._passages: list[set[str]] = []
        numbers: dict[str, int] = {}
        for row in read_jsonl(DATA / "retrieval" / "squad_dev11" / "corpus.jsonl"):
            number = numbers.setdefault(str(row["title"]), len(numbers))
            if number == len(self._passages):
                self._passages.append(set())
            self._passages[number].add(str(row["_id"]))
            self._article[str(row["_id"])] = number

    def is_for_learning(self, row: dict[str, Any]) -> bool:
        return all(self._article[name] < 24 for name in row["relevant"])

    def around(self, names: frozenset[str]) -> frozenset[str]:
        """All passages of the articles that these passages are from."""
        return frozenset().union(*(self._passages[self._article[name]] for name in names))


def contains(sentence: str, answers: Sequence[str]) -> bool:
    """Does the sentence hold one of the answers as whole words, whatever their case, accents and spacing?"""
    text = f" {_words(sentence)} "
    return any(f" {_words(one)} " in text for one in answers if _words(one))


def short_f1(short: str, answers: Sequence[str]) -> float:
    """F1 over the words of the short answer and the nearest of the right ones, articles aside, as SQuAD counts it."""
    return max((_f1(short, one) for one in answers), default=0.0)


def _f1(given: str, right: str) -> float:
    own, other = ([word for word in _words(text).split() if word not in ARTICLES] for text in (given, right))
    shared = sum((Counter(own) & Counter(other)).values())
    return 2 * shared / (len(own) + len(other)) if shared else 0.0


def _words(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in fold(text)).split())


def progress(rows: Sequence[dict[str, Any]], what: str) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(rows):
        if number and number % 500 == 0:
            print(f"  {what}: {number} of {len(rows)}", flush=True)
        yield row
