"""Is every quote the document's text? Asks without a model and compares each claim with its quote and its page.

python -m benchmarks.quotes [--claims 20000]

White space aside, a claim must stand in its quote and the quote on its page (a sentence may go on to the next one), in
the answer itself, in its JSON, and in its text without our markers.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

import orjson

from benchmarks import conflicts
from benchmarks.answering import questions
from benchmarks.common import CACHE, Figure
from benchmarks.retrieval import library
from refdesk import Answer, Refdesk
from refdesk.ask.catalogue import READ

SETS = ("squad_dev11", "squadshift_reddit", "hotpot500", "squad2_disfl", "musique_train100", "mtrag_govt")
_MARKER = re.compile(r"\s*\[\d+\]")


def bare(text: str) -> str:
    return "".join(text.split())


def altered(desk: Refdesk, answer: Answer) -> list[str]:
    """What is not as the document has it."""
    found = []
    shown = json.loads(orjson.dumps(answer.to_dict()))
    content = bare(_MARKER.sub("", answer.content))
    for claim, told in zip(answer.claims, shown["claims"], strict=True):
        quotes = [answer.citations[place] for place in claim.citations]
        # Said in our words, what it cites is not: a computed figure, and the list of documents.
        is_ours = bool(answer.figures) or answer.confidence.reason.startswith(READ)
        if not quotes or (not is_ours and any(bare(claim.text) not in bare(one.quote) for one in quotes)):
            found.append(f"not in its quote: {claim.text}")
        if any(bare(one.quote) not in page_text(desk, one.document_id, one.page) for one in quotes):
            found.append(f"not on its page: {claim.text}")
        if told["text"] != claim.text or bare(_MARKER.sub("", claim.text)) not in content:
            found.append(f"not in the text or the JSON: {claim.text}")
    cells = [cell for figure in answer.figures for cell in figure.cells]
    other = [cell for cell in cells if bare(cell.text) not in bare(answer.citations[cell.citation].quote)]
    return found + [f"no cell of its quote: {cell.text}" for cell in other]


@lru_cache(maxsize=20_000)
def page_text(desk: Refdesk, document: str, page: int) -> str:
    """The page and the one after it: a sentence may begin on one and end on the next."""
    pages = {one.page.number: one.text for one in desk.pages(document)}
    return bare(pages.get(page, "") + pages.get(page + 1, ""))


def asked() -> Iterator[tuple[Refdesk, str]]:
    """Every set in turn, its questions evenly spread; then the reports, in which tables and lists are quoted."""
    with conflicts.library() as desk:
        for question in (one for part in conflicts.questions(desk).values() for one in part):
            yield desk, question
    for name in SETS:
        if (CACHE / "retrieval" / name).exists() or name == SETS[0]:
            with library(name) as desk:
                for row in questions(name, 10_000):
                    yield desk, row["text"]


def figures(most: int = 20_000) -> list[Figure]:
    claims = answers = 0
    wrong: list[str] = []
    for desk, question in asked():
        answer = desk.ask_sync(question, settings={"cache.enabled": False})
        found = altered(desk, answer)
        wrong += found
        for one in found:
            print(f"  {question}\n    {one}", flush=True)
        claims += len(answer.claims)
        answers += 1
        if answers % 1000 == 0:
            print(f"  {claims} claims of {answers} questions, {len(wrong)} altered", flush=True)
        if claims >= most:
            break
    shown = f"{len(wrong)} of {claims} claims, {answers} questions"
    return [Figure("altered quotes: engine, JSON, text", shown, "0 of 20,000", not wrong and claims >= most)]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claims", type=int, default=20_000)
    for one in figures(parser.parse_args(arguments).claims):
        print(one, flush=True)


if __name__ == "__main__":
    main()
