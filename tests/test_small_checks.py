"""What a model of few parameters reads to check an answer: a page and a half of passages would take it minutes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_samples import chunk, context, passage
from refdesk import Refdesk
from refdesk.answer import Answer, Citation
from refdesk.ask.small_models import proofs
from refdesk.ask.writing import WORD_FOR_WORD
from refdesk.prompts import NOT_IN_DOCUMENTS, SUMMARY_MARK
from wire_server import Recorded, WireServer

QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"
UNSURE = "How did sales of current meters develop against the year before?"  # a table says it, in other words
PROOF = "The anchor is a cast iron sinker of 350 kg."
DRAFT = "The anchor weighs 350 kg. [1]"
LINES = [f"Line {number} of the log." for number in range(12)]


def cited(chunk_id: int, quote: str) -> Citation:
    return Citation(1, "d1", "d1.pdf", chunk_id, 1, (), 1, (), False, quote, 1.0, 0.5)


# --- which sentences ------------------------------------------------------------------------------------------------


def test_of_what_is_cited_the_sentences_around_are_read() -> None:
    held = context(*(passage(n, chunk(" ".join(LINES), id=n, document_id=f"d{n}")) for n in (1, 2, 3, 4, 5)))
    read = proofs(held, [cited(4, LINES[6]), cited(2, LINES[0])])
    assert [found.number for found in read.passages] == [2, 4], "their numbers stay: markers point at them"
    assert [found.text for found in read.passages] == [" ".join(LINES[:3]), " ".join(LINES[4:9])]


def test_what_the_draft_was_written_from_is_read_too() -> None:
    held = context(*(passage(n, chunk(" ".join(LINES), id=n, document_id=f"d{n}")) for n in (1, 2, 3)))
    focused = replace(held.passages[1], text=" ".join(LINES[:3]), resolution="sentences")
    held = replace(held, passages=(held.passages[0], focused, held.passages[2]))
    assert [found.text for found in proofs(held, [cited(2, LINES[1])]).passages] == [focused.text]
    read = proofs(held, [cited(2, LINES[10]), cited(3, LINES[0])]).passages
    assert [found.number for found in read] == [2, 3]
    assert read[0].text == f"{focused.text} … {' '.join(LINES[8:])}", "with what is cited and was not shown"


def test_where_nothing_is_cited_the_best_passages_are_read() -> None:
    held = context(*(passage(n, chunk(" ".join(LINES), id=n, document_id=f"d{n}")) for n in (1, 2, 3, 4)))
    assert proofs(held, ()).passages == held.passages[:3]


def test_a_row_keeps_the_head_of_its_table() -> None:
    rows = ["| Code | Price |", *(f"| C-{number} | {number} euros |" for number in range(20))]
    table = chunk("\n".join(rows), kind="table")
    quote = table.text[table.sentences[15].start : table.sentences[15].end]
    (read,) = proofs(context(passage(1, table)), [cited(1, quote)]).passages
    assert "Code" in read.text and quote in read.text and "C-2 " not in read.text


# --- in an answer ---------------------------------------------------------------------------------------------------


class Library:
    """The examples with models behind the server."""

    def __init__(self, folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.server, self._patch = folder, server, monkeypatch

    def ask(
        self,
        writer: str,
        verifier: str = "",
        own: Mapping[str, Any] | None = None,
        question: str = QUESTION,
        **options: Any,
    ) -> Answer:
        roles = {"verifier": verifier, "reconciler": verifier} if verifier else {}
        for name, value in self.server.openai_env(writer, **roles).items():
            self._patch.setenv(name, value)
        with Refdesk(self.folder, settings={"llm.tries": 1, **(own or {})}) as desk:
            return desk.ask_sync(question, cache=False, **options)

    def every(self, role: str) -> list[Recorded]:
        words = {"verifier": "You check an answer", "reconciler": "You correct an answer", "answer": "passages"}[role]
        return [request for request in self.server.requests if words in request.system]

    def asked(self, role: str) -> Recorded:
        return self.every(role)[0]


@pytest.fixture
def library(shared_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Library:
    return Library(shared_folder, server, monkeypatch)


def shown(request: Recorded) -> int:
    """How many passages it holds."""
    return len(re.findall(r"^\[\d+\] ", request.question, re.MULTILINE))


def disputing(request: Recorded) -> str:
    """The first claim is disputed, once; the reconciler writes the sentence of the document."""
    if "You check an answer" in request.system:
        claims = json.loads(request.question.split("as JSON:\n")[1])
        verdicts = ["unsupported", *["supported"] * (len(claims) - 1)]
        rows = [{"claim": n, "verdict": verdict, "reason": "r"} for n, verdict in enumerate(verdicts, 1)]
        return json.dumps({"verdicts": rows})
    return DRAFT


def test_a_tiny_verifier_and_reconciler_read_what_is_cited(library: Library) -> None:
    library.server.answer_by(disputing)
    answer = library.ask("writer-1b", "judge-1b", response_mode="thorough")
    assert answer.verification.status == "reconciled" and "350 kg" in answer.content
    for role in ("verifier", "reconciler"):
        request = library.asked(role)
        assert "cast iron sinker of 350 kg" in request.question
        assert shown(request) <= 3 and len(request.question) < 2_500, role


def test_a_tiny_verifier_is_asked_of_what_was_said_in_other_words_alone(library: Library) -> None:
    library.server.answer_by(disputing)
    answer = library.ask("writer-1b", "judge-1b", response_mode="quick")
    assert [PROOF in claim.text for claim in answer.claims] == [False, True], "the reader's sentence stands below"
    assert not library.every("verifier")
    library.server.requests.clear()
    library.ask("writer-1b", "judge-1b", response_mode="thorough")
    claims = json.loads(library.asked("verifier").question.split("as JSON:\n")[1])
    assert claims == [{"claim": 1, "text": "The anchor weighs 350 kg."}]


def test_what_stands_in_the_documents_word_for_word_is_not_put_to_a_tiny_verifier(library: Library) -> None:
    library.server.answer_by(lambda request: PROOF)
    answer = library.ask("writer-1b", "judge-1b", response_mode="thorough")
    assert not library.every("verifier") and [claim.verdict for claim in answer.claims] == ["supported"]
    assert (answer.verification.status, answer.verification.notes) == ("verified", (WORD_FOR_WORD,))
    library.server.requests.clear()
    library.server.answer_by(lambda request: disputing(request) if "You check" in request.system else PROOF)
    assert library.ask("writer-8b", "gpt-4o", response_mode="thorough").verification.status == "reconciled"
    assert library.every("verifier"), "a larger one may see what it is torn out of"


def test_a_reconciler_that_refuses_does_not_take_away_what_is_proved(library: Library) -> None:
    def write(request: Recorded) -> str:
        if "You check" in request.system or "You correct" in request.system:
            return disputing(request) if "You check" in request.system else NOT_IN_DOCUMENTS
        return f"The sky was green on that day. {PROOF}"

    library.server.answer_by(write)
    answer = library.ask("writer-8b", "gpt-4o", response_mode="thorough")
    assert library.every("reconciler")
    assert answer.content == f"{PROOF} [1]" and answer.is_answered and answer.verification.status == "reconciled"


@pytest.mark.parametrize(("second", "is_answered"), [("Sales rose 3.9 %. [1]", True), ("Sales are blue. [1]", False)])
def test_drafts_that_say_what_the_reader_says_end_its_doubt(library: Library, second: str, is_answered: bool) -> None:
    """As with one draft; what they make of it is not shown, the sentences are."""
    drafts = iter(["Sales of current meters: grew 3.9 %. [1]", second, "Sales of them are red. [1]"])
    library.server.answer_by(lambda request: next(drafts))
    answer = library.ask("writer-1b", question=UNSURE, level="maximum")
    assert "−3.9 %" in answer.content and "grew" not in answer.content and answer.model == "extractive"
    assert answer.is_answered is is_answered


def test_a_larger_one_reads_all_passages(library: Library) -> None:
    library.server.answer_by(disputing)
    library.ask("writer-8b", "gpt-4o", response_mode="thorough")
    for role in ("verifier", "reconciler"):
        assert shown(library.asked(role)) > 5, role


def test_in_a_survey_a_tiny_model_reads_sentences_and_no_summaries(library: Library) -> None:
    library.server.answer_by(lambda request: DRAFT)
    answer = library.ask("writer-1b", own={"rag.strategy": "survey"})
    request = library.asked("answer")
    assert "350 kg" in request.question and SUMMARY_MARK not in request.question
    assert shown(request) <= 3 and len(request.question) < 2_500
    assert "350 kg" in answer.content and answer.strategy == "survey"
    assert any("seen as summaries only" in note for note in answer.notes), "what was not read in full is still said"
