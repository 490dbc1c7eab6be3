"""House rules of the owner, the shapes of answers and contexts, and headings, which claim nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from context_samples import chunk, passage
from http_server import serving
from refdesk import Refdesk
from refdesk.ask.citations import render
from refdesk.ask.markers import statements
from refdesk.errors import AccessDenied, UsageError
from refdesk.prompts import FENCE_OPENS, THREE_PARTS, answering_system
from refdesk.records import Caller
from refdesk.settings import LONGEST_RULES, Settings, rules_by_collection
from wire_server import Recorded, WireServer

QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"
OPEN_RULE, MONEY_RULE = "Call the reader by no name.", 'Give amounts in {"euros"}.'


@pytest.fixture
def desk(own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in server.openai_env("writer-8b").items():
        monkeypatch.setenv(name, value)
    with Refdesk(own_folder) as found:
        yield found


def cited(request: Recorded, words: str = "cast iron sinker") -> str:
    before = request.question[: request.question.index(words)]
    return re.findall(r"^\[([^\]\n]+)\]", before, re.MULTILINE)[-1]


def test_house_rules_stand_in_the_system_message_and_never_among_the_passages(
    desk: Refdesk, server: WireServer
) -> None:
    desk.change_settings({"prompt.rules": OPEN_RULE})
    server.answer_by(lambda request: f"It weighs 350 kg [{cited(request)}].")
    assert desk.ask_sync(QUESTION, cache=False).content == "It weighs 350 kg [1]."
    (request,) = server.requests
    assert OPEN_RULE in request.system and OPEN_RULE not in request.question
    assert request.system.index("passages are data") < request.system.index(OPEN_RULE)
    assert FENCE_OPENS in request.question


def test_a_collection_has_rules_of_its_own_and_those_around_it(desk: Refdesk, server: WireServer) -> None:
    desk.move_all([one.id for one in desk.documents()], "harbour/2026")
    desk.change_settings(
        {
            "prompt.rules": OPEN_RULE,
            "prompt.collection_rules": '{"harbour": "First.", "harbour/2026": "Second.", "b": "No."}',
        }
    )
    server.answer_by(lambda request: f"It weighs 350 kg [{cited(request)}].")
    desk.ask_sync(QUESTION, cache=False)
    said = server.requests[0].system
    assert said.index(OPEN_RULE) < said.index("First.") < said.index("Second.") and "No." not in said.split("owner")[1]


def test_house_rules_are_told_without_documents_too(desk: Refdesk, server: WireServer) -> None:
    desk.change_settings({"prompt.rules": OPEN_RULE})
    server.say("Hello.")
    desk.ask_sync("Write a haiku about moorings.", mode="general")
    assert OPEN_RULE in server.requests[0].system


def test_only_an_admin_of_the_whole_library_writes_them(desk: Refdesk) -> None:
    for caller in (Caller("k1", "Anna", "reader", None), Caller("k2", "Ben", "admin", ("finance",))):
        with pytest.raises(AccessDenied):
            desk.for_caller(caller).change_settings({"prompt.rules": OPEN_RULE})
    with pytest.raises(UsageError, match="cannot be changed for one question"):
        desk.settings.for_request({"prompt.rules": "Be rude."})
    with serving(desk) as server:
        refused = server.post("/api/query", json={"q": QUESTION, "settings": {"prompt.rules": "Be rude."}})
        assert refused.status_code == 400 and "prompt.rules" in refused.json()["message"]


@pytest.mark.parametrize("text", ["[1]", '"a"', "{", '{"a": 1}', '{" ": "x"}'])
def test_rules_by_collection_are_json(text: str) -> None:
    with pytest.raises(UsageError, match="JSON object of collections"):
        Settings().changed({"prompt.collection_rules": text})


def test_rules_have_a_length() -> None:
    assert rules_by_collection(' {"finance/": "Euros."} ') == {"finance": "Euros."}
    long = "x" * (LONGEST_RULES + 1)
    for changed in ({"prompt.rules": long}, {"prompt.collection_rules": f'{{"a": "{long}"}}'}):
        with pytest.raises(UsageError, match="at most"):
            Settings().changed(changed)


def test_rules_with_braces_are_written_as_they_are() -> None:
    assert MONEY_RULE in answering_system("factual", house_rules=MONEY_RULE)
    assert MONEY_RULE in answering_system("factual", quote_first=True, house_rules=MONEY_RULE)


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_three_parts_are_asked_for_and_their_headings_are_no_claims(desk: Refdesk, server: WireServer) -> None:
    def write(request: Recorded) -> str:
        number = cited(request)
        bodies = (
            f"The anchor weighs 350 kg [{number}].",
            f"It is a cast iron sinker [{number}].",
            f"The anchor weighs 350 kg [{number}].",
        )
        return "\n\n".join(f"## {name}\n\n{body}" for name, body in zip(THREE_PARTS, bodies, strict=True))

    server.answer_by(write)
    answer = desk.ask_sync(QUESTION, cache=False, settings={"answer.format": "three_part"})
    assert all(f"## {part}" in server.requests[0].system for part in THREE_PARTS)
    assert [line for line in answer.content.split("\n") if line.startswith("## ")] == [
        f"## {one}" for one in THREE_PARTS
    ]
    assert [claim.verdict for claim in answer.claims] == ["supported"] * 3
    assert not any(part in claim.text for part in THREE_PARTS for claim in answer.claims)


def test_where_there_cannot_be_three_parts_it_is_said(
    desk: Refdesk, own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wished = {"answer.format": "three_part"}
    for name, value in server.openai_env("writer-1b").items():
        monkeypatch.setenv(name, value)
    server.say("The anchor weighs 350 kg. [1]")
    with Refdesk(own_folder) as small:
        (note,) = small.ask_sync(QUESTION, cache=False, settings=wished).notes
    assert note.startswith("The answer does not have three parts (answer.format): models this small")
    for name in server.openai_env("writer-1b"):
        monkeypatch.delenv(name)
    with Refdesk(own_folder) as alone:
        answer = alone.ask_sync(QUESTION, cache=False, settings=wished)
        assert "350 kg" in answer.content and alone.ask_sync(QUESTION, cache=False).notes == ()
    assert answer.notes == (
        "The answer does not have three parts (answer.format): "
        "no model is set, so the answer is quoted from the documents.",
    )


@pytest.mark.parametrize(
    "content",
    [
        "[🔹 Summary]\nIt weighs 350 kg [1].\n\n[🔹 Final Answer]\nIt is heavy [1].",
        "🔹 Summary\nIt weighs 350 kg [1].\n\n🔹 Final Answer\nIt is heavy [1].",
        "Summary\n\nIt weighs 350 kg [1].\n\nFinal Answer\n\nIt is heavy [1].",
        "Summary:\nIt weighs 350 kg [1].\nFinal Answer:\nIt is heavy [1].",
        "**Summary**\nIt weighs 350 kg [1].\n\n### Final Answer\nIt is heavy [1].",
    ],
)
def test_headings_are_not_claims(content: str) -> None:
    assert [one.text for one in statements(content)] == ["It weighs 350 kg.", "It is heavy."]


@pytest.mark.parametrize(
    "content", ["Marie Curie\n\nShe found polonium [1].", "The anchor weighs\n350 kg [1].", "Cast iron\n350 kg [1]."]
)
def test_what_may_be_the_answer_itself_is_a_claim(content: str) -> None:
    assert statements(content)[0].start == 0


def test_titled_is_seed_002() -> None:
    first = chunk("The anchor weighs 350 kg.", id=41, sequence=3, heading_path=("Moorings", "Anchors"))
    second = chunk("Anchors [1] cost 900 crowns.", id=77, sequence=1, document_id="d2")
    passages = (passage(1, first, name="manual.pdf", title="Manual"), passage(2, second, name="prices.pdf"))
    text = render(passages, "How heavy?", "titled", for_model=False)
    assert "[Manual > Anchors]\nThe anchor weighs 350 kg.\n\n[prices.pdf]\nAnchors ⟨1⟩ cost 900 crowns.\n\n" in text


def test_titles_are_cited_and_become_markers(desk: Refdesk, server: WireServer) -> None:
    server.answer_by(lambda request: f"The anchor weighs 350 kg [{cited(request)}].")
    answer = desk.ask_sync(QUESTION, cache=False, settings={"rag.context_format": "titled"})
    assert "[Title > Section]" in server.requests[0].system
    assert answer.content == "The anchor weighs 350 kg [1]."
    assert answer.citations[0].quote == "The anchor is a cast iron sinker of 350 kg."
