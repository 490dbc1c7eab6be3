"""The modes agent and report: parts, searches, notes, limits, and a text that is attested like any other."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import run_refdesk
from http_server import serving
from memory_desk import ON_DISK, AnyDesk, opened_again
from refdesk.answer import Answer, Done, Event, Query, Replace, Thinking
from refdesk.ask.agent import fitting, ruled_parts
from refdesk.ask.markers import statements
from refdesk.prompts import FENCE_CLOSES, NOTES_HEAD
from wire_server import Recorded, Reply, WireServer

STORES = ON_DISK  # and not in memory, to save time: what differs is the models
BOTH = "What does Skerry pay each year for the use of the seabed, and how heavy is the anchor of the wave buoy?"
MOON = "How far away is the moon?"
UNSURE = "How did sales of current meters develop against the year before?"  # a table says it, in other words
FOREIGN = "Quelle est la masse de l'ancre de la bouée ?"
FEE, ANCHOR = "What does Skerry pay each year for the use of the seabed?", "How heavy is the anchor of the wave buoy?"


def events(desk: AnyDesk, question: str, mode: str = "agent", **options: Any) -> list[Event]:
    async def every() -> list[Event]:
        found = [event async for event in desk.ask(question, mode=mode, cache=False, **options)]
        await desk.aclose()
        return found

    return asyncio.run(every())


def answer_of(found: list[Event]) -> Answer:
    assert isinstance(found[-1], Done), found[-1]
    return found[-1].answer


def steps(found: list[Event]) -> list[str]:
    return [event.text for event in found if isinstance(event, Thinking) and event.step == "step"]


# --- without a model --------------------------------------------------------------------------------------------------


def parts(text: str, *sides: str) -> list[str]:
    return ruled_parts(Query(text, text, np.zeros(2), (), parts=sides))


def test_a_question_is_taken_apart_by_its_clauses() -> None:
    assert parts(BOTH) == [FEE, ANCHOR]
    assert parts("How heavy is the WB-7 buoy? What does it cost?") == [
        "How heavy is the WB-7 buoy?",
        "What does the WB-7 buoy cost?",
    ]
    assert parts("Compare a and b", "the a", "the b") == ["the a", "the b"]
    assert parts("How heavy is the anchor?") == ["How heavy is the anchor?"]
    assert parts("Research and development costs?") == ["Research and development costs?"]


def test_every_part_is_searched_and_answered(own_examples: AnyDesk) -> None:
    found = events(own_examples, BOTH)
    assert steps(found) == [f"Step 1: {FEE}", f"Step 2: {ANCHOR}"]
    notes = [event.text for event in found if isinstance(event, Thinking) and event.step == "note"]
    assert "640 euros" in notes[0] and "harbour-authority-letter.pdf" in notes[0] and "350 kg" in notes[1]
    answer = answer_of(found)
    assert answer.mode == "agent" and answer.strategy == "agent" and answer.model == "extractive"
    assert "640 euros" in answer.content and "350 kg" in answer.content
    assert {one.document_name for one in answer.citations} >= {"harbour-authority-letter.pdf", "wb7-mooring-sheet.pdf"}
    assert all(claim.verdict == "supported" and claim.citations for claim in answer.claims)
    trace = own_examples.trace(answer.id)
    assert [one["input"]["part"] for one in trace["stages"] if one["name"] == "step"] == [FEE, ANCHOR]


def test_what_no_step_finds_is_said(own_examples: AnyDesk) -> None:
    answer = answer_of(events(own_examples, f"{ANCHOR} Who won the football world cup in 1998?"))
    assert "350 kg" in answer.content
    assert any("Nothing was found about" in note and "football" in note for note in answer.notes)


def test_a_part_that_nothing_answers_is_searched_once_more_in_another_way(own_examples: AnyDesk) -> None:
    found = events(own_examples, "Who won the football world cup in 1998?")
    assert len(steps(found)) == 2 and not answer_of(found).is_answered and not answer_of(found).citations
    stages = [one for one in own_examples.trace(answer_of(found).id)["stages"] if one["name"] == "step"]
    assert stages[0]["output"]["strategy"] != stages[1]["output"]["strategy"]


def test_each_kind_of_part_has_its_strategy() -> None:
    def of(intent: str, complexity: str = "simple", attempt: int = 0) -> str:
        return fitting(Query("q", "q", None, (), intent=intent, complexity=complexity), attempt)  # type: ignore[arg-type]

    assert of("factual") == "hybrid" and of("comparison") == "two_stage"
    assert of("factual", attempt=1) not in ("hybrid", "dense")


def test_steps_are_bounded_and_what_was_left_is_said(own_examples: AnyDesk) -> None:
    found = events(own_examples, BOTH, settings={"agent.max_steps": 1})
    assert len(steps(found)) == 1
    left = [one for one in answer_of(found).notes if "agent.max_steps" in one]
    assert left == [f"The search stopped after 1 step (agent.max_steps); not searched: “{ANCHOR}”."]


def test_the_same_question_is_not_answered_from_the_hits_of_another(own_examples: AnyDesk) -> None:
    first = own_examples.ask_sync(FEE, mode="agent")
    second = own_examples.ask_sync(ANCHOR, mode="agent")
    assert "640" in first.content and "350 kg" in second.content and "640" not in second.content


# --- with a model -----------------------------------------------------------------------------------------------------


class Model:
    """A planner of 70 billion behind a real server: plans, takes notes, and writes as it is told."""

    def __init__(self, server: WireServer, plan: list[tuple[str, str]], text: str = "") -> None:
        self.server, self.plan, self.text = server, plan, text
        self.following: dict[str, list[str]] = {}
        self.unanswered: set[str] = set()
        self.notes: list[Recorded] = []
        self.written: list[Recorded] = []
        server.answer_by(self)

    def __call__(self, request: Recorded) -> str | Reply:
        if '"parts"' in request.system:
            return json.dumps({"parts": [{"heading": heading, "question": asked} for heading, asked in self.plan]})
        if '"note"' in request.system:
            self.notes.append(request)
            asked = re.findall(r"^Question: (.+)$", request.question, re.MULTILINE)[-1]
            note = {
                "note": f"Noted on {asked}",
                "passages": [1],
                "answered": asked not in self.unanswered,
                "next": self.following.get(asked, []),
            }
            return json.dumps(note)
        if "route" in request.system:
            return json.dumps({"route": "needs_retrieval", "intent": "factual"})
        self.written.append(request)
        return self.text or self.section(request)

    def section(self, request: Recorded) -> str:
        for words, said in (
            ("cast iron sinker", "The anchor weighs 350 kg"),
            ("640 euros", "The annual fee is 640 euros"),
        ):
            if words in request.question:
                before = request.question[: request.question.index(words)]
                number = re.findall(r"^\[(\d+)\] ", before, re.MULTILINE)[-1]
                return f"{said} [{number}]."
        return "The documents do not say this."


@pytest.fixture
def asked(own_examples: AnyDesk, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in server.openai_env("planner-70b").items():
        monkeypatch.setenv(name, value)
    with opened_again(own_examples) as desk:
        yield desk


def test_a_model_plans_notes_and_asks_on(asked: AnyDesk, server: WireServer) -> None:
    model = Model(server, [("Fee", FEE)], "The annual fee is 640 euros [1].")
    model.following[FEE] = [ANCHOR, FEE]
    found = events(asked, BOTH)
    assert steps(found) == [f"Step 1: {FEE}", f"Step 2: {ANCHOR}"], "what was searched for is not searched for again"
    assert f"Noted on {FEE}" in model.notes[1].question, "later notes know the earlier ones"
    (written,) = model.written
    told = written.question
    assert told.index(NOTES_HEAD) < told.index(f"Noted on {ANCHOR}") < told.rindex(FENCE_CLOSES), "notes are data"
    answer = answer_of(found)
    assert answer.content == "The annual fee is 640 euros [1]." and answer.model == "openai:planner-70b"
    assert [claim.verdict for claim in answer.claims] == ["supported"]
    assert answer.usage.calls == 4, "a plan, two notes and the answer"


def test_a_part_without_an_answer_is_told_once_and_without_a_passage(asked: AnyDesk, server: WireServer) -> None:
    model = Model(server, [("Fee", FEE), ("Moon", MOON)], "The annual fee is 640 euros [1].")
    model.unanswered.add(MOON)
    events(asked, BOTH)
    told = model.written[0].question.partition(NOTES_HEAD)[2].partition(FENCE_CLOSES)[0]
    assert f"Noted on {FEE}" in told
    assert [line for line in told.splitlines() if MOON in line] == [f"- {MOON}: nothing was found"]


@pytest.mark.parametrize("writer", ["writer-70b", "writer-1b"])
def test_where_nothing_is_sure_no_note_says_that_nothing_was_found(
    writer: str, own_examples: AnyDesk, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model takes it for the answer, though the passages may hold one; by rules, doubt is all that a note knows."""
    for name, value in server.openai_env(writer, router="router-1b").items():
        monkeypatch.setenv(name, value)
    server.answer_by(lambda request: "The documents do not say this.")
    with opened_again(own_examples) as desk:
        events(desk, UNSURE)
    prompts = [request.question for request in server.requests if FENCE_CLOSES in request.question]
    assert prompts and not any(NOTES_HEAD in prompt or "nothing was found" in prompt for prompt in prompts)


def test_in_another_language_the_nearest_is_shown(own_examples: AnyDesk) -> None:
    plain = own_examples.ask_sync(FOREIGN, cache=False)
    answer = answer_of(events(own_examples, FOREIGN))
    assert plain.citations and answer.citations, "as without the agent"
    assert set(plain.notes) <= set(answer.notes) and plain.notes


def test_steps_of_a_model_are_bounded_too(asked: AnyDesk, server: WireServer) -> None:
    model = Model(server, [("Part", f"What is part {number} of the buoy?") for number in range(9)], "It is [1].")
    found = events(asked, BOTH)
    assert len(steps(found)) == 6 and len(model.notes) == 6
    model.following = {f"What is part {number} of the buoy?": [f"And part {number + 20}?"] for number in range(9)}
    answer = answer_of(events(asked, BOTH))
    assert any("stopped after 6 steps" in note and "And part 20?" in note for note in answer.notes)


PART = "What is part {number} of the buoy?"


def limited(server: WireServer, note: Reply) -> None:
    """A planner that names three parts and takes every note in this way."""
    parts = {"parts": [{"heading": "Part", "question": PART.format(number=number)} for number in (1, 2, 3)]}
    told = json.dumps({"note": "It is there", "passages": [1], "answered": True, "next": []})

    def answer(request: Recorded) -> str | Reply:
        if '"parts"' in request.system:
            return json.dumps(parts)
        if '"note"' in request.system:
            return replace(note, pieces=[told])
        return "The annual fee is 640 euros [1]."

    server.answer_by(answer)


def test_tokens_are_bounded(asked: AnyDesk, server: WireServer) -> None:
    limited(server, Reply(usage=(450, 50)))
    found = events(asked, BOTH, settings={"agent.max_tokens": 1000})
    assert len(steps(found)) == 2, "the plan takes 18 tokens, each note 500"
    (note,) = [one for one in answer_of(found).notes if "agent.max_tokens" in one]
    left = PART.format(number=3)
    assert note == f"The search stopped after 1,018 tokens (agent.max_tokens); not searched: “{left}”."
    limited(server, Reply(usage=(400, 50)))
    assert len(steps(events(asked, BOTH, settings={"agent.max_tokens": 1000}))) == 3


def test_seconds_are_bounded(asked: AnyDesk, server: WireServer) -> None:
    limited(server, Reply(first_delay=1.2))
    found = events(asked, BOTH, settings={"agent.max_seconds": 1.0})
    assert len(steps(found)) == 1, "the first note is still waited for"
    (note,) = [one for one in answer_of(found).notes if "agent.max_seconds" in one]
    left = ", ".join(f"“{PART.format(number=number)}”" for number in (2, 3))
    assert note == f"The search stopped after 1 s (agent.max_seconds); not searched: {left}."
    assert answer_of(found).content, "what was found until then is written"


def test_a_planner_that_writes_nonsense_is_not_followed(asked: AnyDesk, server: WireServer) -> None:
    server.answer_by(lambda request: "no JSON" if "JSON" in request.system else "The annual fee is 640 euros [1].")
    found = events(asked, BOTH)
    assert steps(found) == [f"Step 1: {FEE}", f"Step 2: {ANCHOR}"]
    assert "640 euros" in answer_of(found).content


def test_what_a_model_invents_is_marked_as_in_every_mode(asked: AnyDesk, server: WireServer) -> None:
    Model(server, [("Fee", FEE)], "The annual fee is 990 euros [1]. See [Invented Manual > 7].")
    answer = answer_of(events(asked, FEE))
    assert answer.claims[0].verdict in ("contradicted", "unsupported") and "Invented" not in answer.content


# --- reports ----------------------------------------------------------------------------------------------------------


def headings(content: str) -> list[str]:
    return [line.removeprefix("## ") for line in content.split("\n") if line.startswith("## ")]


def test_a_report_has_the_sections_of_the_documents(own_examples: AnyDesk) -> None:
    answer = answer_of(events(own_examples, "Write a report on the drift of the TG-4 tide gauges", "report"))
    assert answer.mode == "report" and len(headings(answer.content)) >= 3 and "References" not in answer.content
    assert len(answer.claims) >= 5 and all(claim.verdict == "supported" for claim in answer.claims)
    assert not any(claim.text.startswith("#") for claim in answer.claims)
    assert answer.confidence.score <= 0.8


def test_a_report_of_parts_has_a_section_for_each(own_examples: AnyDesk) -> None:
    answer = answer_of(events(own_examples, BOTH, "report"))
    assert headings(answer.content) == [FEE.rstrip("?"), ANCHOR.rstrip("?")]


def test_a_model_writes_section_by_section(asked: AnyDesk, server: WireServer) -> None:
    model = Model(server, [("The fee", FEE), ("The anchor", ANCHOR), ("Football", "Who won the world cup?")])
    found = events(asked, BOTH, "report")
    answer = answer_of(found)
    assert headings(answer.content) == ["The fee", "The anchor"]
    assert [one.text for one in statements(answer.content)] == [claim.text for claim in answer.claims]
    assert [claim.verdict for claim in answer.claims] == ["supported", "supported"]
    assert len(model.written) >= 2 and not any(isinstance(event, Replace) for event in found)


def test_a_report_whose_model_fails_is_quoted(asked: AnyDesk, server: WireServer) -> None:
    server.answer_by(lambda request: Reply(status=400, message="no"))
    answer = answer_of(events(asked, BOTH, "report", settings={"llm.tries": 1}))
    assert answer.model == "extractive" and headings(answer.content) == [FEE.rstrip("?"), ANCHOR.rstrip("?")]
    assert answer.failed_models and any("did not answer" in note for note in answer.notes)


# --- doors ------------------------------------------------------------------------------------------------------------


@pytest.mark.only_on("sql", "postgres", reason="a service serves a library that outlives it")
def test_over_http_with_steps_in_the_stream_and_a_file_at_the_end(own_examples: AnyDesk) -> None:
    with serving(own_examples) as server:
        found = server.events("/api/chat/stream", {"message": BOTH, "mode": "report"})
        assert [data["text"] for name, data, _ in found if name == "thinking" and data["step"] == "step"]
        answer = found[-1][1]["answer"]
        assert answer["mode"] == "report"
        shown = server.post("/page/render", json={
            "content": answer["content"], "claims": [[one["start"], one["end"]] for one in answer["claims"]],
            "markers": [1, 2], "quoted": True, "chunks": [],
        }).json()["html"]  # fmt: skip
        assert shown.startswith("<h4>What does Skerry pay") and "##" not in shown
        for form, kind in (("markdown", "text/markdown"), ("html", "text/html")):
            file = server.get(f"/api/answers/{answer['id']}/export?format={form}")
            assert file.headers["content-type"].startswith(kind) and "attachment" in file.headers["content-disposition"]
            assert "640 euros" in file.text and "harbour-authority-letter.pdf" in file.text
        assert server.get("/api/answers/nobody/export").status_code == 404
        word = server.get(f"/api/answers/{answer['id']}/export?format=docx")
        assert word.headers["content-disposition"].endswith('.docx"') and word.content.startswith(b"PK")
        assert server.get(f"/api/answers/{answer['id']}/export?format=odt").status_code == 400


def test_on_the_command_line(own_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    done = run_refdesk("--library", own_folder, "ask", BOTH, "--mode", "report", "--out", file)
    assert done.returncode == 0 and "640 euros" in done.stdout and "## " not in done.stdout, done.stderr
    assert file.read_text().startswith("<!doctype html>") and 'href="#source-1"' in file.read_text()
    done = run_refdesk("--library", own_folder, "ask", BOTH, "--mode", "agent", "--json")
    assert json.loads(done.stdout)["mode"] == "agent"
    done = run_refdesk("--library", own_folder, "ask", BOTH, "--out", tmp_path / "report.odt")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "report.odt" in done.stderr
