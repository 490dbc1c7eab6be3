"""What is quoted is the document's text to the letter, in the answer, its JSON, the terminal and the service.

Over the examples here; over 20,000 claims of other documents by `python -m benchmarks.quotes`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import orjson
import pytest

from conftest import run_refdesk
from memory_desk import KINDS, AnyDesk
from refdesk import Answer, Refdesk

STORES = KINDS

ROOT = Path(__file__).parent.parent
QUESTIONS = [
    entry["question"] for entry in json.loads((ROOT / "examples" / "questions.json").read_text(encoding="utf-8"))
]
MORE = [
    "List the working steps for lowering the mooring.",
    "Summarise the staff handbook.",
    "Compare the TG-4 and the WB-7.",
    "What are the conditions of the permit?",
    "Which parts of the mooring are made of titanium?",
]
ODD = [
    "The dose is 10 – 20 mg for the first 24 - 36 months.",
    "The three- and nine-month results of Kestrel.com, Inc. and Partners differ (a) in cost and (b) in time.",
    "The ratio is 7:x:4, sent as A:100:B to [bold]Kestrel[/bold] :smile: with *stars* and _lines_.",
    "Kestrel writes <b>tags</b>, `code[1]`, [1], [Source 2] and \\ back slashes.",
]


def bare(text: str) -> str:
    return "".join(text.split())


def check(desk: AnyDesk, answer: Answer) -> int:
    """The number of claims; each stands in its quote, and the quote on its page or goes on to the next."""

    @cache
    def page(document: str, number: int) -> str:
        pages = {one.page.number: one.text for one in desk.pages(document)}
        return bare(pages.get(number, "") + pages.get(number + 1, ""))

    shown = orjson.loads(orjson.dumps(answer.to_dict()))
    for claim, told in zip(answer.claims, shown["claims"], strict=True):
        assert told["text"] == claim.text
        assert claim.citations, claim.text
        assert bare(claim.text) == bare(re.sub(r"\[\d+\]$", "", bare(answer.content[claim.start : claim.end])))
        for place in claim.citations:
            citation = answer.citations[place]
            if not answer.figures:  # a figure is said in our words: its cells are the document's
                assert bare(claim.text) in bare(citation.quote)
            assert bare(citation.quote) in page(citation.document_id, citation.page), citation.quote
    for cell in (cell for figure in answer.figures for cell in figure.cells):
        assert bare(cell.text) in bare(answer.citations[cell.citation].quote)
    return len(answer.claims)


def asked_of(desk: AnyDesk, text: str) -> str:
    """Adds a note with this sentence; a question that it answers."""
    desk.add_text("kestrel", f"{text} Another sentence is about herons and reeds.")
    return f"What is said of {' '.join(re.findall(r'[A-Za-z]{4,}', text)[:6])}?"


@pytest.mark.only_on("sql", reason="test_ask compares those of the other stores with these")
def test_every_claim_over_the_examples_is_the_text_of_its_page(examples: Refdesk) -> None:
    assert sum(check(examples, examples.ask_sync(question)) for question in (*QUESTIONS, *MORE)) > 60


@pytest.mark.parametrize("text", ODD, ids=["dashes", "letters", "emoji", "markup"])
def test_odd_signs_are_kept_and_quoted(desk: AnyDesk, text: str) -> None:
    answer = desk.ask_sync(asked_of(desk, text))
    assert check(desk, answer) >= 1
    assert answer.claims[0].text == text


@pytest.mark.only_on("sql", reason="how it is shown is the same wherever it comes from")
@pytest.mark.parametrize("text", ODD, ids=["dashes", "letters", "emoji", "markup"])
def test_odd_signs_go_through_every_door(desk: Refdesk, tmp_path: Path, text: str) -> None:
    question = asked_of(desk, text)
    desk.close()
    done = run_refdesk("--library", tmp_path / "library", "ask", question, COLUMNS="200")
    assert bare(text) in bare(done.stdout), done.stdout
    done = run_refdesk("--library", tmp_path / "library", "ask", question, "--json")
    assert json.loads(done.stdout)["claims"][0]["text"] == text
    done = run_refdesk("--library", tmp_path / "library", "search", question, COLUMNS="200")
    assert bare(text) in bare(done.stdout), done.stdout
