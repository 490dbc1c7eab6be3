"""A model that fails is noticed: by the reader, in the log, in the figures; and what came of it is not kept."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from answer_samples import TYPICAL
from conftest import run_refdesk
from http_server import Server, served, serving
from refdesk import Refdesk
from refdesk.answer import FailedModel, answer_from_dict
from refdesk.errors import ProviderRefused, ProviderUnavailable
from refdesk.prompts import NOT_IN_DOCUMENTS
from wire_server import WireServer

QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"
DOUBTFUL = "Which colour is the housing of the CM-2 current meter?"
MODEL = "openai:writer-8b"
ONCE = {"llm.tries": 1}
KEY = "sk-test-key"
QUOTED = "so this answer is quoted from the documents."
REFUSED = f"{MODEL} did not answer (the API key was refused), {QUOTED}"

Fails = Callable[[WireServer], None]


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    with WireServer() as found:
        for name, value in found.openai_env("writer-8b").items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def desk(own_folder: Path, wire: WireServer) -> Iterator[Refdesk]:
    with Refdesk(own_folder) as found:
        yield found


@pytest.fixture
def server(desk: Refdesk) -> Iterator[Server]:
    desk.parts.settings_store.change(ONCE)
    with serving(desk) as found:
        yield found


def broken_twice(wire: WireServer) -> None:
    wire.cut("The anchor weighs about")
    wire.cut("The anchor wei")  # a stream that broke is begun anew once


@pytest.mark.parametrize(
    ("fail", "reason", "code", "status"),
    [
        pytest.param(lambda wire: wire.fail(400), "it refused the request", "provider_refused", 400, id="400"),
        pytest.param(lambda wire: wire.fail(401), "the API key was refused", "provider_refused", 401, id="401"),
        pytest.param(lambda wire: wire.fail(403), "the API key was refused", "provider_refused", 403, id="403"),
        pytest.param(
            lambda wire: wire.fail(404), "the provider does not know this model", "provider_refused", 404, id="404"
        ),
        pytest.param(
            lambda wire: wire.fail(429, code="insufficient_quota"),
            "the account has no credit left",
            "provider_refused",
            429,
            id="429:no_credit",
        ),
        pytest.param(lambda wire: wire.fail(429), "it is overloaded", "provider_unavailable", 429, id="429"),
        pytest.param(lambda wire: wire.fail(500), "its server failed", "provider_unavailable", 500, id="500"),
        pytest.param(
            lambda wire: wire.raw(b"<html>Bad gateway</html>"),
            "it is not available",
            "provider_unavailable",
            0,
            id="garbage",
        ),
        pytest.param(broken_twice, "the connection was lost", "provider_interrupted", 0, id="cut"),
        pytest.param(lambda wire: wire.say("", times=2), "it wrote nothing", "provider_empty", 0, id="empty"),
        pytest.param(
            lambda wire: wire.say("<think>Hm.", times=2), "it wrote nothing", "provider_empty", 0, id="thoughts_alone"
        ),
    ],
)
def test_reader_and_log_are_told(
    desk: Refdesk, wire: WireServer, caplog: pytest.LogCaptureFixture, fail: Fails, reason: str, code: str, status: int
) -> None:
    fail(wire)
    answer = desk.ask_sync(QUESTION, settings=ONCE)
    assert answer.model == "extractive" and "350 kg" in answer.content
    assert answer.notes == (f"{MODEL} did not answer ({reason}), {QUOTED}",)
    assert answer.failed_models == (FailedModel(MODEL, code),)
    said = [one for one in caplog.records if one.name == "refdesk.ask"]
    assert [(one.levelno, one.getMessage()) for one in said] == [(logging.WARNING, f"{MODEL} did not answer: {reason}")]
    told = vars(said[0])
    assert (told["model"], told["code"], told["status"], told["answer_id"]) == (MODEL, code, status, answer.id)


def test_nothing_of_what_the_provider_said_is_told(
    desk: Refdesk, wire: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Some say the key or the whole request again."""
    wire.fail(401, f"the key {KEY} of https://api.example.com is wrong; you asked: {QUESTION}")
    answer = desk.ask_sync(QUESTION, settings=ONCE)
    told = str([vars(one) for one in caplog.records if one.name == "refdesk.ask"]) + " ".join(answer.notes)
    assert MODEL in told and not [one for one in (KEY, "http", "127.0.0.1", "anchor") if one in told]


def test_who_stood_in_is_named(desk: Refdesk, wire: WireServer) -> None:
    wire.fail(401, model="writer-8b")
    wire.say("It weighs 350 kg [1].", model="second")
    settings = {**ONCE, "llm.fallbacks": "openai:second"}
    answer = desk.ask_sync(QUESTION, settings=settings)
    assert answer.model == "openai:second"
    assert answer.notes == (f"{MODEL} did not answer (the API key was refused), so openai:second wrote this instead.",)
    assert answer.failed_models == (FailedModel(MODEL, "provider_refused"),)
    wire.fail(401, model="writer-8b")
    wire.fail(500, model="second")
    answer = desk.ask_sync(QUESTION, settings=settings)
    both = f"{MODEL} did not answer (the API key was refused), nor did openai:second (its server failed), {QUOTED}"
    assert answer.model == "extractive" and answer.notes == (both,)
    assert [one.code for one in answer.failed_models] == ["provider_refused", "provider_unavailable"]


def test_a_model_that_began_anew_has_not_failed(
    desk: Refdesk, wire: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    wire.cut("The anchor weighs about")
    wire.say("It weighs 350 kg [1].")
    answer = desk.ask_sync(QUESTION, settings=ONCE)
    assert (answer.model, answer.notes, answer.failed_models) == (MODEL, (), ())
    assert not [one for one in caplog.records if one.name == "refdesk.ask"]


def test_no_model_named_is_no_failure(own_examples: Refdesk) -> None:
    answer = own_examples.ask_sync(QUESTION)
    assert (answer.model, answer.notes, answer.failed_models) == ("extractive", (), ())


def test_a_doubt_that_the_model_was_to_settle_stays_one(desk: Refdesk, wire: WireServer) -> None:
    """Without the model, the nearest sentences are no answer; they were shown as one."""
    wire.fail(500)
    answer = desk.ask_sync(DOUBTFUL, settings=ONCE)
    assert len(wire.requests) == 1, "a model may find what words do not show"
    assert not answer.is_answered and answer.content.startswith(NOT_IN_DOCUMENTS) and answer.confidence.level == "low"
    assert answer.notes == (f"{MODEL} did not answer (its server failed), {QUOTED}",)


@pytest.mark.parametrize("question", [QUESTION, DOUBTFUL], ids=["answered", "not_answered"])
def test_an_outage_is_not_kept(desk: Refdesk, wire: WireServer, question: str) -> None:
    """Neither for the very same question nor for a similar one; once the model is back, what it writes is."""
    similar = question.replace("?", " ?")
    wire.fail(401, times=3)
    wire.answer_by(lambda request: "It is written here [1].")
    for text in (question, question, similar):
        assert desk.ask_sync(text, settings=ONCE).cached == "no"
    assert len(wire.requests) == 3
    assert desk.ask_sync(question, settings=ONCE).notes == ()
    assert desk.ask_sync(question, settings=ONCE).cached == "exact"
    assert desk.ask_sync(similar, settings=ONCE).cached == "semantic"


def test_answers_of_the_version_before_have_no_notes() -> None:
    packed = TYPICAL.to_dict()
    del packed["notes"], packed["failed_models"]
    answer = answer_from_dict(packed)
    assert (answer.content, answer.notes, answer.failed_models) == (TYPICAL.content, (), ())


# what an admin sees


def figure(server: Server, code: str, model: str = MODEL) -> float:
    pattern = rf'^refdesk_model_failures_total{{code="{code}",model="{model}"}} ([0-9.]+)$'
    found = re.search(pattern, server.get("/metrics").text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_figures_over_http(server: Server, wire: WireServer) -> None:
    wire.fail(401, times=2)
    for _ in range(2):
        found = server.post("/api/query", json={"q": QUESTION})
        assert found.status_code == 200 and found.json()["cached"] == "no" and found.json()["notes"] == [REFUSED]
        assert found.json()["failed_models"] == [{"model": MODEL, "code": "provider_refused"}]
    again = server.get(f"/api/answers/{found.json()['id']}").json()
    assert again["notes"] == [REFUSED], "as it was given"
    assert figure(server, "provider_refused") == 2
    failed = server.get("/api/analytics").json()["model_failures"]
    assert failed["answers"] == 2 and failed["share"] == 1.0
    assert failed["models"] == [{"model": MODEL, "code": "provider_refused", "answers": 2}]


def test_streams_and_openai_clients_are_told_too(server: Server, wire: WireServer) -> None:
    wire.fail(401, times=2)
    name, data, _ = server.events("/api/chat/stream", {"message": QUESTION})[-1]
    assert name == "done" and data["answer"]["notes"] == [REFUSED]
    body = {"model": "refdesk", "messages": [{"role": "user", "content": QUESTION}]}
    said = server.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    assert said["refdesk"]["notes"] == [REFUSED] and "350 kg" in said["content"]
    assert figure(server, "provider_refused") == 2


@pytest.mark.parametrize(
    ("status", "code", "given"),
    [(401, ProviderRefused("").code, 502), (500, ProviderUnavailable("").code, 503)],
    ids=["refused", "unavailable"],
)
def test_without_documents_nobody_stands_in(
    server: Server, wire: WireServer, caplog: pytest.LogCaptureFixture, status: int, code: str, given: int
) -> None:
    """The mode `general` has nothing to quote: there a failing model is an error, as when one is tried."""
    wire.fail(status, times=2)
    found = server.post("/api/chat", json={"message": "What makes the tides?", "mode": "general"})
    assert (found.status_code, found.json()["code"]) == (given, code)
    name, data, _ = server.events("/api/chat/stream", {"message": "What makes the tides?", "mode": "general"})[-1]
    assert (name, data["code"]) == ("error", code)
    assert figure(server, code) == 2
    assert server.get("/api/analytics").json()["failures"]["codes"] == {code: 2}
    assert len([one for one in caplog.records if one.name == "refdesk.ask" and one.levelno == logging.WARNING]) == 2


def test_the_log_and_the_figures_of_two_workers(own_folder: Path, wire: WireServer) -> None:
    wire.fail(401, times=6)
    environment = wire.openai_env("writer-8b")
    with served(own_folder, "--workers", "2", **environment) as server:
        for number in range(6):
            headers = {"X-Request-Id": f"own-{number}", "Connection": "close"}
            assert server.post("/api/query", json={"q": QUESTION}, headers=headers).json()["notes"] == [REFUSED]
        assert {figure(server, "provider_refused") for _ in range(4)} == {6}, "whichever is asked"
        assert server.process is not None
        server.process.terminate()
        lines = [json.loads(line) for line in server.log_at_end().splitlines() if line.startswith("{")]
    said = [line for line in lines if line["logger"] == "refdesk.ask"]
    assert {line["request_id"] for line in said} == {f"own-{number}" for number in range(6)} and len(said) == 6
    assert all(line["level"] == "warning" and line["hint"] == "check the API key in OPENAI_API_KEY" for line in said)
    assert "anchor" not in str(said) and KEY not in str(lines)


def test_the_terminal(own_folder: Path, wire: WireServer) -> None:
    wire.fail(401)
    done = run_refdesk("--library", own_folder, "ask", QUESTION, **wire.openai_env("writer-8b"))
    assert done.returncode == 0 and REFUSED in done.stdout and KEY not in done.stdout + done.stderr
