"""Three drafts: what two of them say and the passages prove stays; the first was shown, and is replaced."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from http_server import serving
from refdesk import Refdesk
from refdesk.answer import Answer, Claim, Content, Done, Event, Replace, Thinking
from refdesk.ask.support import read_claim
from refdesk.ask.voting import align, is_kept, same
from refdesk.prompts import NOT_IN_DOCUMENTS
from refdesk.providers.shipped import OnnxEmbedder
from wire_server import Recorded, Reply, WireServer

QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"
EMBED = OnnxEmbedder().embed_query
RIGHT, ALSO, WRONG = (
    "The anchor weighs 350 kg [{n}].",
    "It is a cast iron sinker [{n}].",
    "It was painted blue in 1987 [{n}].",
)


class Voter:
    def __init__(self, folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.server, self.monkeypatch = folder, server, monkeypatch

    def drafts(self, *texts: str | Reply) -> None:
        """The first draft, then the others, in the order of the requests."""
        numbers = itertools.count()

        def write(request: Recorded) -> str | Reply:
            text = texts[min(next(numbers), len(texts) - 1)]
            before = request.question[: request.question.index("cast iron sinker")]
            number = re.findall(r"^\[(\d+)\]", before, re.MULTILINE)[-1]
            return text if isinstance(text, Reply) else text.replace("{n}", number)

        self.server.answer_by(write)

    def events(self, model: str = "writer-8b", **options: Any) -> list[Event]:
        for name, value in self.server.openai_env(model).items():
            self.monkeypatch.setenv(name, value)

        async def every() -> list[Event]:
            found = [event async for event in desk.ask(QUESTION, level="maximum", cache=False, **options)]
            await desk.aclose()
            return found

        with Refdesk(self.folder) as desk:
            return asyncio.run(every())

    def answer(self, **options: Any) -> Answer:
        done = self.events(**options)[-1]
        assert isinstance(done, Done), done
        return done.answer


@pytest.fixture
def voter(shared_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Voter:
    return Voter(shared_folder, server, monkeypatch)


def test_what_only_one_draft_says_goes(voter: Voter, server: WireServer) -> None:
    voter.drafts(f"{RIGHT} {WRONG}", RIGHT, f"{RIGHT} {ALSO}")
    found = voter.events()
    assert isinstance(found[-1], Done)
    answer = found[-1].answer
    assert len(server.requests) == 3 and answer.usage.calls == 3
    assert answer.content == "The anchor weighs 350 kg [1]." and [one.verdict for one in answer.claims] == ["supported"]
    assert any(isinstance(one, Thinking) and one.step == "vote" for one in found)
    shown = "".join(one.token for one in found if isinstance(one, Content))
    assert "painted blue" in shown and [one.content for one in found if isinstance(one, Replace)] == [""]
    assert any("in two drafts" in note for note in answer.notes)


def test_what_two_others_say_comes_in(voter: Voter) -> None:
    voter.drafts(RIGHT, f"{RIGHT} {ALSO}", f"{ALSO} {RIGHT}")
    assert voter.answer().content == "The anchor weighs 350 kg [1]. It is a cast iron sinker [1]."


def test_two_that_agree_on_what_nothing_proves_do_not_win(voter: Voter) -> None:
    voter.drafts(f"{RIGHT} {WRONG}", f"{RIGHT} {WRONG}", RIGHT)
    assert voter.answer().content == "The anchor weighs 350 kg [1]."


def test_drafts_that_agree_are_left_alone(voter: Voter) -> None:
    voter.drafts(RIGHT, "The weight of the anchor is 350 kg [{n}].", RIGHT)
    found = voter.events()
    assert not any(isinstance(one, Replace) for one in found)
    assert isinstance(found[-1], Done) and any("they agree" in note for note in found[-1].answer.notes)


def test_drafts_that_agree_on_nothing_give_way_to_the_documents(voter: Voter) -> None:
    voter.drafts("The anchor weighs 450 kg [{n}].", "The anchor weighs 550 kg [{n}].", "It weighs 650 kg [{n}].")
    answer = voter.answer()
    assert answer.model == "extractive" and "350 kg" in answer.content
    assert any("agree on nothing" in note for note in answer.notes)


def test_a_draft_that_fails_is_left_out(voter: Voter) -> None:
    voter.drafts(f"{RIGHT} {WRONG}", Reply(status=400, message="no"), RIGHT)
    answer = voter.answer(settings={"llm.tries": 1})
    assert answer.content == "The anchor weighs 350 kg [1]." and not answer.failed_models


def test_one_draft_alone_stands_and_that_is_said(voter: Voter) -> None:
    voter.drafts(RIGHT, Reply(status=400, message="no"))
    answer = voter.answer(settings={"llm.tries": 1})
    assert answer.content == "The anchor weighs 350 kg [1]." and any("Only one of" in one for one in answer.notes)


def test_one_that_refuses_does_not_outvote_two(voter: Voter) -> None:
    voter.drafts(RIGHT, NOT_IN_DOCUMENTS, RIGHT)
    assert voter.answer().content == "The anchor weighs 350 kg [1]."


def test_the_others_are_written_at_another_temperature(voter: Voter, server: WireServer) -> None:
    voter.drafts(RIGHT)
    voter.answer()
    first, *others = [one.json["temperature"] for one in server.requests]
    assert first < 0.7 and others == [0.7, 0.7]


def test_the_number_of_drafts_is_a_setting(voter: Voter, server: WireServer) -> None:
    voter.drafts(RIGHT)
    voter.answer(settings={"answer.drafts": 1})
    assert len(server.requests) == 1


def test_a_request_may_ask_for_it_at_any_level(voter: Voter, server: WireServer) -> None:
    voter.drafts(RIGHT)
    for name, value in server.openai_env("writer-8b").items():
        voter.monkeypatch.setenv(name, value)
    with Refdesk(voter.folder) as desk, serving(desk) as http:
        body = {"message": QUESTION, "ensemble_voting": True, "cache": False}
        assert http.post("/api/chat", json=body).status_code == 200 and len(server.requests) == 3
        body |= {"ensemble_voting": False, "level": "maximum"}
        assert http.post("/api/chat", json=body).status_code == 200 and len(server.requests) == 4


# --- which claims say the same? ---------------------------------------------------------------------------------------


def alike(one: str, other: str) -> bool:
    return same((read_claim(one), EMBED(one)), (read_claim(other), EMBED(other)))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("The anchor weighs 350 kg.", "The weight of the anchor is 350 kg.", True),
        ("The anchor weighs 350 kg.", "The anchor weighs 0.35 t.", True),
        ("The anchor weighs 350 kg.", "The anchor weighs 450 kg.", False),
        ("The anchor weighs 350 kg.", "The anchor is heavy.", False),
        ("The licence may be renewed.", "The licence may not be renewed.", False),
        ("The buoy is serviced every spring.", "The chain is replaced after five years.", False),
        ("Skerry pays 640 euros a year.", "Each year, Skerry pays 640 euros.", True),
    ],
)
def test_same(one: str, other: str, is_same: bool) -> None:
    assert alike(one, other) is is_same and alike(other, one) is is_same


def claims(*texts: tuple[str, str]) -> Sequence[Claim]:
    return [Claim(text, 0, len(text), (1,), (0,), verdict, 0.9) for text, verdict in texts]  # type: ignore[arg-type]


def test_a_group_needs_two_drafts_and_a_proof() -> None:
    anchor, chain = "The anchor weighs 350 kg.", "The chain is 12 m long."
    drafts = [
        claims((anchor, "supported"), (anchor, "supported")),
        claims((chain, "partly")),
        claims((chain, "partly")),
    ]
    groups = align(drafts, EMBED)
    assert [dict(one.members) for one in groups] == [{0: (0, 1)}, {1: (0,), 2: (0,)}]
    assert not any(map(is_kept, groups)), "said twice by one draft; by two drafts, but not proved"
