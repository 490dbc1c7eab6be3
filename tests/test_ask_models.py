"""Whole questions with a model behind a real HTTP server that streams, fails, lies and breaks off as it is told."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from refdesk import Refdesk
from refdesk.answer import Answer, Content, Done, Event, Replace, Verifying
from refdesk.prompts import FENCE_CLOSES, FENCE_OPENS, NOT_IN_DOCUMENTS
from wire_server import Recorded, WireServer

QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"
DOUBTFUL = "Which colour is the housing of the CM-2 current meter?"
FAST = {"llm.tries": 1}


class Asker:
    """A library whose models are those of the server."""

    def __init__(self, folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.server, self.monkeypatch = folder, server, monkeypatch

    def desk(self, model: str = "writer-8b", *, anthropic: bool = False, **roles: str) -> Refdesk:
        environment = self.server.anthropic_env if anthropic else self.server.openai_env
        for name, value in environment(model, **roles).items():
            self.monkeypatch.setenv(name, value)
        return Refdesk(self.folder)

    def ask(self, question: str = QUESTION, *, roles: dict[str, str] | None = None, **options: Any) -> Answer:
        with self.desk(**(roles or {})) as desk:
            return desk.ask_sync(question, cache=False, **options)

    def events(self, question: str = QUESTION, *, roles: dict[str, str] | None = None, **options: Any) -> list[Event]:
        async def every() -> list[Event]:
            found = [event async for event in desk.ask(question, cache=False, **options)]
            await desk.aclose()
            return found

        with self.desk(**(roles or {})) as desk:
            return asyncio.run(every())


@pytest.fixture
def asker(shared_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Asker:
    return Asker(shared_folder, server, monkeypatch)


def number_of(request: Recorded, words: str) -> str:
    """The number under which the prompt holds the passage with these words."""
    before = request.question[: request.question.index(words)]
    return re.findall(r"^\[(\d+)\]", before, re.MULTILINE)[-1]


def test_a_model_writes_and_every_sentence_is_checked(asker: Asker, server: WireServer) -> None:
    server.answer_by(
        lambda request: (
            f"The anchor weighs 350 kg [{number_of(request, 'cast iron sinker')}]."
            "\nSUGGESTED_QUESTIONS: What is the sinker made of?|How long is the chain?"
        )
    )
    answer = asker.ask()
    assert answer.content == "The anchor weighs 350 kg [1]."
    assert answer.model == "openai:writer-8b" and answer.usage.prompt_tokens > 0 and answer.usage.calls == 1
    assert [claim.verdict for claim in answer.claims] == ["supported"]
    assert answer.citations[0].quote == "The anchor is a cast iron sinker of 350 kg."
    assert answer.citations[0].located
    assert answer.suggested_questions == ("What is the sinker made of?", "How long is the chain?")
    prompt = server.requests[0].question
    assert prompt.index(FENCE_OPENS) < prompt.index("cast iron sinker") < prompt.index(FENCE_CLOSES)
    assert prompt.rstrip().endswith(QUESTION)


def test_anthropic_speaks_its_own_format(asker: Asker, server: WireServer) -> None:
    server.answer_by(lambda request: f"It weighs 350 kg [{number_of(request, 'cast iron sinker')}].")
    with asker.desk("test-model", anthropic=True) as desk:
        answer = desk.ask_sync(QUESTION, cache=False)
    assert server.requests[0].is_anthropic
    assert answer.content == "It weighs 350 kg [1]." and answer.model == "anthropic:test-model"


def test_fabricated_citations_never_come_out(asker: Asker, server: WireServer) -> None:
    server.say("The anchor weighs 350 kg [99]. See [Source 42] and [Imaginary Manual > Chapter 7] [DOC:x | CHUNK:9].")
    answer = asker.ask()
    assert re.findall(r"\[[^\]]*\]", answer.content) == ["[1]"], "that of the passage which proves the first sentence"
    assert [one.quote for one in answer.citations] == ["The anchor is a cast iron sinker of 350 kg."]


def test_a_wrong_number_is_marked(asker: Asker, server: WireServer) -> None:
    server.answer_by(lambda request: f"The anchor weighs 450 kg [{number_of(request, 'cast iron sinker')}].")
    answer = asker.ask()
    assert answer.claims[0].verdict in ("contradicted", "unsupported") and "350" in answer.claims[0].note
    assert answer.verification.status == "disputed"
    assert answer.confidence.level != "high"


def test_thorough_takes_out_what_nothing_proves(asker: Asker, server: WireServer) -> None:
    def lie(request: Recorded) -> str:
        number = number_of(request, "cast iron sinker")
        return f"The anchor is a cast iron sinker of 350 kg [{number}]. It was painted blue in 1987 [{number}]."

    server.answer_by(lie)
    found = asker.events(mode="thorough")
    replaced = [one for one in found if isinstance(one, Replace)]
    assert [one.content for one in replaced] == ["The anchor is a cast iron sinker of 350 kg [1]."]
    done = found[-1]
    assert isinstance(done, Done) and done.answer.content == replaced[0].content
    assert done.answer.verification.status == "reconciled"


def test_a_model_that_says_so_is_believed_where_the_reader_finds_nothing_either(
    asker: Asker, server: WireServer
) -> None:
    server.answer_by(lambda request: NOT_IN_DOCUMENTS)  # also as the router, where it is no answer
    answer = asker.ask(DOUBTFUL, roles={"model": "writer-70b"})
    assert not answer.is_answered and answer.content == NOT_IN_DOCUMENTS and not answer.citations


def test_no_model_is_called_when_nothing_is_found(asker: Asker, server: WireServer) -> None:
    answer = asker.ask("Who won the football world cup in 1998?")
    assert not answer.is_answered and server.requests == []


def test_reasoning_and_preambles_are_not_shown(asker: Asker, server: WireServer) -> None:
    def think(request: Recorded) -> str:
        return (
            "<think>Passage 2 says 350.</think>Sure! Based on the provided context, the anchor weighs 350 kg"
            f" [{number_of(request, 'cast iron sinker')}]."
        )

    server.answer_by(think)
    found = asker.events()
    shown = "".join(one.token for one in found if isinstance(one, Content))
    assert shown.lower() == "the anchor weighs 350 kg [1]."


# when it fails


@pytest.mark.parametrize("status", [400, 401, 429, 500], ids=str)
def test_a_model_that_fails_leaves_the_extractive_answer(asker: Asker, server: WireServer, status: int) -> None:
    server.fail(status)
    answer = asker.ask(settings=FAST)
    assert answer.model == "extractive" and "350 kg" in answer.content
    assert all(claim.verdict == "supported" for claim in answer.claims)


def test_a_fallback_that_is_named_is_asked_first(asker: Asker, server: WireServer) -> None:
    server.fail(401, model="writer-8b")
    server.say("It weighs 350 kg [1].", model="second")
    answer = asker.ask(settings={**FAST, "llm.fallbacks": "openai:second"})
    assert [one.model for one in server.requests] == ["writer-8b", "second"]
    assert answer.model == "openai:second"


def test_a_stream_that_breaks_is_announced_and_begun_anew(asker: Asker, server: WireServer) -> None:
    server.cut("The anchor weighs about", model="writer-8b")
    server.say("It weighs 350 kg [1].", model="second")
    found = asker.events(settings={**FAST, "llm.fallbacks": "openai:second"})
    texts = [one for one in found if isinstance(one, Content | Replace)]
    at = next(place for place, one in enumerate(texts) if isinstance(one, Replace))
    assert "".join(one.token for one in texts[:at]).startswith("The anchor")  # type: ignore[union-attr]
    assert "".join(one.token for one in texts[at + 1 :]).startswith("It weighs 350 kg")  # type: ignore[union-attr]
    done = found[-1]
    assert isinstance(done, Done) and "about" not in done.answer.content


def test_an_answer_of_nothing_is_no_answer(asker: Asker, server: WireServer) -> None:
    server.say("<think>I wonder.")
    answer = asker.ask()
    assert answer.model == "extractive" and "350 kg" in answer.content


def test_what_was_answered_while_the_model_was_down_is_not_kept(asker: Asker, server: WireServer) -> None:
    server.fail(401)
    server.say("It weighs 350 kg [1].")
    with asker.desk() as desk:
        assert desk.ask_sync(QUESTION).model == "extractive"
        again = desk.ask_sync(QUESTION)
        assert (again.model, again.cached) == ("openai:writer-8b", "no")
        assert desk.ask_sync(QUESTION).cached == "exact"


def test_closing_the_stream_ends_the_request(asker: Asker, server: WireServer) -> None:
    server.say("word " * 400, delay=0.05)

    async def leave() -> None:
        stream = desk.ask(QUESTION, cache=False)
        async for event in stream:
            if isinstance(event, Content):
                break
        await stream.aclose()
        await desk.aclose()

    with asker.desk() as desk:
        asyncio.run(leave())
    assert server.wait_for_disconnect()
    assert server.requests[0].pieces_sent < 300


def test_cancelling_the_task_ends_the_request(asker: Asker, server: WireServer) -> None:
    server.say("word " * 400, delay=0.05)

    async def cancel() -> None:
        task = asyncio.create_task(desk.answer(QUESTION, cache=False))
        while not server.requests or not server.requests[0].pieces_sent:
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await desk.aclose()

    with asker.desk() as desk:
        asyncio.run(cancel())
    assert server.wait_for_disconnect()


# checks by a second model


def verdicts(request: Recorded, verdict: str) -> str:
    numbers = [int(one) for one in re.findall(r"(?m)^\s*(?:Claim\s+)?(\d+)[.):]", request.question)] or [1]
    return json.dumps({"verdicts": [{"claim": one, "verdict": verdict, "reason": "because"} for one in numbers[:1]]})


def test_a_verifier_that_talks_nonsense_is_no_agreement(asker: Asker, server: WireServer) -> None:
    server.answer_by(
        lambda request: (
            "yes yes all good"
            if request.model == "judge"
            else f"The anchor weighs 350 kg [{number_of(request, 'cast iron sinker')}]."
        )
    )
    answer = asker.ask(roles={"verifier": "judge"})
    assert "judge" in [one.model for one in server.requests]
    assert answer.verification.status == "failed"


def test_a_verifier_that_fails_is_no_agreement(asker: Asker, server: WireServer) -> None:
    server.answer_by(lambda request: f"The anchor weighs 350 kg [{number_of(request, 'cast iron sinker')}].")
    server.fail(500, model="judge")
    found = asker.events(roles={"verifier": "judge"}, settings=FAST)
    assert [one.status for one in found if isinstance(one, Verifying)] == ["checking", "failed"]


def lying(judge: str | None) -> Callable[[Recorded], str]:
    """A writer with one true and one false sentence; a judge that says this of both, or nonsense."""

    def say(request: Recorded) -> str:
        if request.model == "judge":
            rows = [{"claim": number, "verdict": judge, "reason": ""} for number in (1, 2)]
            return json.dumps({"verdicts": rows}) if judge else "yes yes all good"
        number = number_of(request, "cast iron sinker")
        return f"The anchor is a cast iron sinker of 350 kg [{number}]. The anchor weighs 950 kg [{number}]."

    return say


@pytest.mark.parametrize("judge", ["supported", None], ids=["yes", "nonsense"])
def test_no_verifier_overrules_what_the_source_says(asker: Asker, server: WireServer, judge: str | None) -> None:
    server.answer_by(lying(judge))
    answer = asker.ask(roles={"verifier": "judge"})
    assert answer.claims[1].verdict == "contradicted" and "350 kg" in answer.claims[1].note
    assert answer.verification.status == ("disputed" if judge else "failed")
    assert any("950 kg" in note and "350 kg" in note for note in answer.verification.notes)


@pytest.mark.parametrize("judge", ["supported", None], ids=["yes", "nonsense"])
def test_thorough_takes_out_what_the_source_contradicts_whatever_a_verifier_says(
    asker: Asker, server: WireServer, judge: str | None
) -> None:
    server.answer_by(lying(judge))
    answer = asker.ask(roles={"verifier": "judge"}, mode="thorough")
    assert answer.content == "The anchor is a cast iron sinker of 350 kg [1]."
    assert answer.verification.status == ("reconciled" if judge else "failed")


def test_what_a_verifier_alone_disputes_is_disputed_and_goes_in_thorough(asker: Asker, server: WireServer) -> None:
    def say(request: Recorded) -> str:
        if request.model == "judge":
            rows = [{"claim": 1, "verdict": "supported"}, {"claim": 2, "verdict": "unsupported", "reason": "off topic"}]
            return json.dumps({"verdicts": rows})
        number = number_of(request, "cast iron sinker")
        return f"The anchor weighs 350 kg [{number}]. The anchor is a cast iron sinker of 350 kg [{number}]."

    server.answer_by(say)
    shown = asker.ask(roles={"verifier": "judge"})
    assert [claim.verdict for claim in shown.claims] == ["supported", "unsupported"]
    assert "off topic" in shown.claims[1].note and shown.verification.status == "disputed"
    assert asker.ask(roles={"verifier": "judge"}, mode="thorough").content == "The anchor weighs 350 kg [1]."


def test_a_reconciler_that_is_contradicted_is_corrected_too(asker: Asker, server: WireServer) -> None:
    def say(request: Recorded) -> str:
        number = number_of(request, "cast iron sinker")
        true = f"The anchor is a cast iron sinker of 350 kg [{number}]."
        return f"{true} The anchor weighs {'850' if request.model == 'arbiter' else '950'} kg [{number}]."

    server.answer_by(say)
    answer = asker.ask(roles={"reconciler": "arbiter"}, mode="thorough")
    assert answer.content == "The anchor is a cast iron sinker of 350 kg [1]."


def test_quick_asks_no_second_model(asker: Asker, server: WireServer) -> None:
    server.answer_by(lambda request: f"The anchor weighs 350 kg [{number_of(request, 'cast iron sinker')}].")
    answer = asker.ask(roles={"verifier": "judge"}, mode="quick")
    assert [one.model for one in server.requests] == ["writer-8b"]
    assert answer.verification.status == "off" and answer.claims[0].verdict == "supported"


# general mode, cost, offline


def test_general_mode_searches_nothing_and_proves_nothing(asker: Asker, server: WireServer) -> None:
    server.say("Tides come from the moon [1].")
    answer = asker.ask("What makes the tides?", mode="general")
    assert "No documents were searched" in server.requests[-1].system
    assert server.requests[-1].question == "What makes the tides?"
    assert answer.content == "Tides come from the moon."
    assert not answer.citations and answer.confidence.level == "low" and "no documents" in answer.confidence.reason


def test_a_cost_limit_cuts_the_plan_and_does_not_fail(asker: Asker, server: WireServer) -> None:
    with asker.desk("gpt-4o") as desk:
        answer = desk.ask_sync(QUESTION, cache=False, settings={"answer.cost_limit_usd": 0.0})
        skipped = {one["name"]: one["skipped"] for one in desk.trace(answer.id)["stages"] if one["skipped"]}
    assert answer.model == "extractive" and server.requests == []
    assert "cost" in skipped["model"]


def test_cost_is_on_the_answer(asker: Asker, server: WireServer) -> None:
    server.answer_by(lambda request: f"It weighs 350 kg [{number_of(request, 'cast iron sinker')}].")
    with asker.desk("gpt-4o-mini") as desk:
        answer = desk.ask_sync(QUESTION, cache=False)
    assert answer.usage.cost_usd is not None and 0 < answer.usage.cost_usd < 0.05


def test_offline_calls_nobody(asker: Asker, server: WireServer) -> None:
    answer = asker.ask(settings={"llm.enabled": False})
    assert answer.model == "extractive" and server.requests == []


def test_the_budget_of_characters_is_held_to_the_byte(asker: Asker, server: WireServer) -> None:
    server.answer_by(lambda request: "It weighs 350 kg [1].")
    asker.ask(max_context_chars=2000)
    request = server.requests[0]
    assert len((request.system + request.question).encode()) <= 2000
    assert QUESTION in request.question


@pytest.mark.parametrize("most", [1, 50])
def test_a_context_that_holds_no_passage_is_said_and_not_taken_for_no_answer(
    asker: Asker, server: WireServer, most: int
) -> None:
    answer = asker.ask("How often must a TG-4 be recalibrated?", max_context_chars=most)
    assert answer.is_answered and "every 12 months" in answer.content and answer.claims[0].verdict == "supported"
    assert answer.metrics["context_characters"] <= most
    assert answer.model == "extractive" and server.requests == [], "a model would have had nothing to read"
    why = f"No passage fits into the context (max_context_chars is {most}), so only the best one was used."
    assert answer.notes == (why,) and answer.failed_models == ()


def test_history_reaches_the_model(asker: Asker, server: WireServer) -> None:
    server.answer_by(lambda request: "It weighs 350 kg [1].")
    asker.ask(history=[("user", "Which mooring is standard?"), ("assistant", "The one with the rubber cord.")])
    said = [one["content"] for one in server.requests[-1].json["messages"]]
    assert "Which mooring is standard?" in said
