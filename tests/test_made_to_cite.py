"""A model that leaves citations out, refuses what is there, or makes things up: what a reader gets all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from refdesk import Refdesk
from refdesk.answer import Answer
from refdesk.ask.attest import with_markers
from refdesk.ask.markers import ClaimText
from refdesk.ask.small_models import HEAD
from refdesk.prompts import NOT_IN_DOCUMENTS
from wire_server import WireServer

QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"
PROOF = "The anchor is a cast iron sinker of 350 kg."


class Library:
    def __init__(self, folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._server, self._patch = folder, server, monkeypatch

    def ask(self, model: str = "writer-8b", question: str = QUESTION) -> Answer:
        for name, value in self._server.openai_env(model).items():
            self._patch.setenv(name, value)
        with Refdesk(self._folder) as desk:
            return desk.ask_sync(question, cache=False)


@pytest.fixture
def library(shared_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Library:
    return Library(shared_folder, server, monkeypatch)


def test_a_sentence_without_a_marker_gets_that_of_its_proof(library: Library, server: WireServer) -> None:
    server.say("The anchor weighs 350 kg. The sky was green on that day.")
    answer = library.ask()
    assert answer.content == "The anchor weighs 350 kg. [1] The sky was green on that day."
    assert [(one.verdict, one.markers) for one in answer.claims] == [("supported", (1,)), ("unsupported", ())]
    assert [one.quote for one in answer.citations] == [PROOF]


def test_a_wrong_number_is_contradicted_also_without_a_marker(library: Library, server: WireServer) -> None:
    server.say("The anchor is a cast iron sinker of 450 kg.")
    (claim,) = library.ask().claims
    assert claim.verdict == "contradicted" and "350" in claim.note


@pytest.mark.parametrize("first", ["", "<think>Hm.", NOT_IN_DOCUMENTS], ids=["empty", "thoughts_alone", "refused"])
def test_it_is_asked_once_more_with_the_plain_question(library: Library, server: WireServer, first: str) -> None:
    server.say(first)
    server.say("The anchor weighs 350 kg.")
    answer = library.ask()
    assert answer.content == "The anchor weighs 350 kg. [1]" and answer.model == "openai:writer-8b"
    assert answer.notes == () and answer.failed_models == () and answer.usage.calls == 2
    plain = server.requests[1]
    assert plain.system == "" and plain.question.rstrip().endswith(QUESTION)
    assert plain.question.count("\n[") == 3, "the best three passages"


def test_who_refuses_twice_what_the_reader_finds_is_not_believed(library: Library, server: WireServer) -> None:
    server.say(NOT_IN_DOCUMENTS, times=2)
    answer = library.ask()
    assert answer.is_answered and "350 kg" in answer.content and answer.model == "extractive"
    assert answer.notes == (
        "openai:writer-8b did not find the answer in the passages, so this answer is quoted from the documents.",
    )


def test_below_a_tiny_model_stands_what_the_reader_chose(library: Library, server: WireServer) -> None:
    server.say("The anchor weighs 350 kg.")
    answer = library.ask("writer-1b")
    above, _, below = answer.content.partition(HEAD)
    assert above.strip() == "The anchor weighs 350 kg. [1]" and f"> {PROOF} [1]" in below
    assert {one.verdict for one in answer.claims} == {"supported"}
    assert server.requests[0].question.count("\n[") == 3 and "Example:" in server.requests[0].system


def test_a_tiny_model_that_copies_the_sentence_is_not_repeated(library: Library, server: WireServer) -> None:
    server.say(PROOF)
    assert HEAD not in library.ask("writer-1b").content


def test_what_a_tiny_model_makes_up_is_not_shown(library: Library, server: WireServer) -> None:
    server.say("The anchor was painted blue by the mayor of Paris in 1987.")
    answer = library.ask("writer-1b")
    assert "Paris" not in answer.content and "350 kg" in answer.content and answer.model == "extractive"
    assert answer.notes == (
        "openai:writer-1b wrote nothing that the documents support, so this answer is quoted from them.",
    )


def test_markers_are_numbered_anew() -> None:
    content = "A is so [1]. B is so. C is so [2]. `rows[7]` stays."
    claims = {ClaimText("A is so.", 0, 12, (1,)): 5, ClaimText("B is so.", 13, 21, ()): 4}
    assert with_markers(content, (4, 6), claims) == (
        "A is so. [1] B is so. [2] C is so [3]. `rows[7]` stays.",
        (5, 4, 6),
    )
