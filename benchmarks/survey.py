"""Does a survey read the right chunk in full as often as hybrid search does? The embedder is the router.

python -m benchmarks.survey

The filings of `benchmarks.filings`: whether the page that answers is in full among the passages that are read
(financebench), and how many of these passages are of the right reports, and how many of the reports are among them
(kgrag_10q). Both strategies within the same budget of tokens: hybrid reads ten hits with their neighbours, a survey
twenty chunks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from benchmarks.common import Figure, median_ms, use_one_core, write
from benchmarks.filings import Asked, financebench, kgrag, library, understood
from refdesk import Refdesk
from refdesk.answer import EVERYTHING, Context, Query, Question
from refdesk.ask.assemble import assemble
from refdesk.ask.plan import Budget, wished_plan
from refdesk.ask.retrieve import Retrieval, SentenceReranker, retrieve
from refdesk.trace import Trace

STRATEGIES = ("hybrid", "survey")


def read(desk: Refdesk, query: Query, strategy: str) -> Context:
    """The passages as the program reads them with this strategy."""
    settings = desk.settings.changed({"rag.strategy": strategy})
    plan = wished_plan(Question(query.question), query, settings, has_llm=False, has_verifier=False)
    ports = (desk.parts.reader, desk.parts.embedder, SentenceReranker())
    found = asyncio.run(retrieve(query, Retrieval(plan, EVERYTHING, *ports, settings, Trace())))
    return assemble(query, plan, found, desk.parts.reader, Budget.for_model(None, settings), settings, None)


def holds_page(one: Asked, context: Context) -> float:
    full = [passage for passage in context.passages if passage.resolution == "full"]
    return any(passage.document.name in one.documents and one.pages & set(passage.pages) for passage in full)


def right(one: Asked, context: Context) -> float:
    names = [passage.document.name for passage in context.passages]
    return sum(name in one.documents for name in names) / max(1, len(names))


def covered(one: Asked, context: Context) -> float:
    return len({passage.document.name for passage in context.passages} & one.documents) / len(one.documents)


def compared(desk: Refdesk, asked: Sequence[Asked], what: str) -> list[Figure]:
    measures = {"the page in full": holds_page} if asked[0].pages else {"right reports": right, "reports read": covered}
    contexts = {name: [read(desk, understood(desk, one.text), name) for one in asked] for name in STRATEGIES}
    figures = []
    for label, measure in measures.items():
        means = [
            sum(measure(one, context) for one, context in zip(asked, contexts[name], strict=True)) / len(asked)
            for name in STRATEGIES
        ]
        met = means[1] >= means[0] if label != "right reports" else None
        shown = " · ".join(f"{name} {mean:.3f}" for name, mean in zip(STRATEGIES, means, strict=True))
        figures.append(
            Figure(f"{what}, {label} ({len(asked)} questions)", shown, "≥ hybrid's" if met is not None else "", met)
        )
    tokens = [sum(one.token_count for one in contexts[name]) // len(asked) for name in STRATEGIES]
    figures.append(Figure(f"{what}, tokens of the context", f"hybrid {tokens[0]} · survey {tokens[1]}"))
    return figures


def figures() -> list[Figure]:
    with library("financebench") as desk:
        asked = financebench()
        found = compared(desk, asked, "financebench")
        queries = [understood(desk, one.text) for one in asked]
        for name in STRATEGIES:
            times = median_ms(lambda i, name=name: read(desk, queries[i % len(queries)], name), len(queries))  # type: ignore[misc]
            found.append(Figure(f"{name}, retrieve and assemble, p50 (p95)", f"{times[0]:.1f} ({times[1]:.1f}) ms"))
    with library("kgrag_10q") as desk:
        return [*found, *compared(desk, kgrag(one.name for one in desk.documents()), "kgrag_10q")]


def main() -> None:
    use_one_core()
    write("survey", "Survey: is the right chunk read in full?", figures())


if __name__ == "__main__":
    main()
