"""A question may be put to another model, if the owner has named it: in Python, the command line, HTTP and /v1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import run_refdesk
from http_server import serving
from memory_desk import ON_DISK
from refdesk import Refdesk
from refdesk.errors import ModelNotAllowed
from wire_server import WireServer

STORES = ON_DISK

QUESTION = "How heavy is the anchor of the standard wave buoy mooring?"
ALLOWED = {"llm.allowed": "openai:large-70b, anthropic:claude-test"}


@pytest.fixture
def desk(own_folder: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name, value in (server.anthropic_env() | server.openai_env("writer-8b")).items():
        monkeypatch.setenv(name, value)
    server.answer_by(lambda request: "The anchor weighs 350 kg [1].")
    with Refdesk(own_folder, settings=ALLOWED) as found:
        yield found


def test_a_model_of_the_list_writes(desk: Refdesk, server: WireServer) -> None:
    assert desk.allowed_models() == ["openai:writer-8b", "openai:large-70b", "anthropic:claude-test"]
    for name in desk.allowed_models():
        assert desk.ask_sync(QUESTION, model=name).model == name
    assert desk.ask_sync(QUESTION).model == "openai:writer-8b"
    assert {one.model for one in server.requests} == {"writer-8b", "large-70b", "claude-test"}


def test_answers_of_one_model_are_not_served_for_another(desk: Refdesk) -> None:
    assert desk.ask_sync(QUESTION, model="openai:large-70b").cached == "no"
    assert desk.ask_sync(QUESTION).cached == "no"
    assert desk.ask_sync(QUESTION, model="openai:large-70b").cached == "exact"


def test_any_other_is_refused_in_one_sentence(desk: Refdesk) -> None:
    with pytest.raises(ModelNotAllowed, match="'openai:gpt-9' is not allowed") as refused:
        desk.ask_sync(QUESTION, model="openai:gpt-9")
    assert "openai:large-70b" in refused.value.hint
    with pytest.raises(ModelNotAllowed, match="switched off"):
        desk.ask_sync(QUESTION, model="openai:gpt-9", settings={"llm.enabled": False})


def test_the_default_list_is_the_named_one(own_folder: Path, server: WireServer, monkeypatch: Any) -> None:
    for name, value in server.openai_env("writer-8b").items():
        monkeypatch.setenv(name, value)
    with Refdesk(own_folder) as desk:
        assert desk.allowed_models() == ["openai:writer-8b"]
        with pytest.raises(ModelNotAllowed):
            desk.ask_sync(QUESTION, model="openai:large-70b")
    monkeypatch.delenv("REFDESK_LLM")
    with Refdesk(own_folder) as desk, pytest.raises(ModelNotAllowed, match="is not allowed"):
        desk.ask_sync(QUESTION, model="openai:large-70b")


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_over_http(desk: Refdesk) -> None:
    with serving(desk) as server:
        assert server.get("/api/me").json()["models"] == desk.allowed_models()
        answered = server.post("/api/query", json={"q": QUESTION, "model": "openai:large-70b"}).json()
        assert answered["model"] == "openai:large-70b"
        refused = server.post("/api/query", json={"q": QUESTION, "model": "openai:gpt-9"})
        assert refused.status_code == 422 and refused.json()["code"] == "model_not_allowed"
        streamed = server.post("/api/chat/stream", json={"message": QUESTION, "model": "openai:gpt-9"})
        assert streamed.status_code == 422


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_v1_lists_and_takes_them(desk: Refdesk) -> None:
    with serving(desk) as server:
        listed = [one["id"] for one in server.get("/v1/models").json()["data"]]
        assert listed[0] == "refdesk" and listed[-1] == "anthropic:claude-test"
        body = {"model": "openai:large-70b", "messages": [{"role": "user", "content": QUESTION}]}
        reply = server.post("/v1/chat/completions", json=body).json()
        assert reply["model"] == "openai:large-70b" and "350 kg" in reply["choices"][0]["message"]["content"]
        assert server.get("/v1/models/openai:large-70b").json()["owned_by"] == "openai"
        assert server.post("/v1/chat/completions", json=body | {"model": "gpt-4o"}).status_code == 404


@pytest.mark.only_on("sql", reason="it is of the door, not of what is stored")
def test_on_the_command_line(own_folder: Path, server: WireServer) -> None:
    server.answer_by(lambda request: "The anchor weighs 350 kg [1].")
    call = ("--library", own_folder, "--set", "llm.allowed=openai:large-70b", "ask", QUESTION, "--json")
    done = run_refdesk(*call, "--model", "openai:large-70b", **server.openai_env("writer-8b"))
    assert done.returncode == 0 and '"model":"openai:large-70b"' in done.stdout.replace(" ", ""), done.stderr
    done = run_refdesk(*call, "--model", "openai:gpt-9", **server.openai_env("writer-8b"))
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "openai:gpt-9" in done.stderr
