"""A stopped answer is kept with its conversation and marked; who opens that conversation meanwhile follows it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from http_server import Event, Server, read_events, serving
from refdesk import Refdesk
from refdesk.serve.http.sse import Waits
from timing import PATIENCE_S
from wire_server import WireServer

TALK = "stopping"
BODY = {"message": "What does the annual inspection of a tide gauge cost?", "session_id": TALK, "cache": False}


@pytest.fixture
def model() -> Iterator[WireServer]:
    with WireServer() as found:
        yield found


@pytest.fixture
def desk(own_folder: Path, model: WireServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Refdesk]:
    for name, value in model.openai_env("tiny-1b").items():
        monkeypatch.setenv(name, value)
    with Refdesk(own_folder) as found:
        yield found


@pytest.fixture
def hasty(desk: Refdesk) -> Iterator[Server]:
    """Waits for hardly anybody who has left."""
    with serving(desk, waits=Waits(grace_s=0.1)) as found:
        yield found


@pytest.fixture
def server(desk: Refdesk) -> Iterator[Server]:
    with serving(desk) as found:
        yield found


def messages(server: Server, talk: str = TALK) -> dict[str, Any]:
    found: dict[str, Any] = server.get(f"/api/conversations/{talk}/messages").json()
    return found


def last_answer(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = server.get(f"/api/answers/{messages(server)['messages'][-1]['answer_id']}").json()
    return found


def test_a_stopped_answer_is_kept_and_marked(server: Server, model: WireServer) -> None:
    model.hang("It costs 1,240 euros. [1] And the")
    heard: list[Event] = []
    with server.client.stream("POST", "/api/chat/stream", json=BODY) as response:
        for event in read_events(response):
            heard.append(event)
            if event[0] == "content" and "And" in event[1]["token"]:
                assert server.post(f"/api/conversations/{TALK}/stop").json() == {"stopped": True}
    assert model.requests[-1].disconnected and "done" not in [name for name, _, _ in heard]
    said = messages(server)
    assert said["running"] is None
    assert said["messages"][0]["content"] == BODY["message"]
    answer = last_answer(server)
    shown = "".join(data["token"] for name, data, _ in heard if name == "content")
    assert answer["stopped"] is True and answer["content"] == shown.strip() and "1,240 euros" in answer["content"]
    assert [one["marker"] for one in answer["citations"]] == [1] and answer["confidence"]["level"] == "low"
    assert server.post(f"/api/conversations/{TALK}/stop").json() == {"stopped": False}


def test_who_leaves_finds_what_was_written(hasty: Server, model: WireServer) -> None:
    server = hasty
    model.hang("It costs 1,240 euros. And")
    with server.client.stream("POST", "/api/chat/stream", json=BODY) as response:
        next(event for event in read_events(response) if event[0] == "content")
    assert model.wait_for_disconnect()
    assert model.wait_until(lambda: server.get(f"/api/conversations/{TALK}").status_code == 200)
    assert last_answer(server)["stopped"] is True


def test_a_question_stopped_before_its_first_word_says_nothing_to_the_next(
    server: Server, desk: Refdesk, model: WireServer
) -> None:
    model.hang()
    with server.client.stream("POST", "/api/chat/stream", json=BODY) as response:
        for name, data, _ in read_events(response):
            if name == "thinking" and data["step"] == "generate":
                server.post(f"/api/conversations/{TALK}/stop")
    assert last_answer(server)["stopped"] is True and last_answer(server)["content"] == ""
    assert desk.parts.asking.conversations.turns(TALK, 10) == []


def test_a_second_reader_follows_a_conversation_that_has_just_begun(server: Server, model: WireServer) -> None:
    go_on = threading.Event()
    words = ["It ", "costs ", "1,240 euros. ", "[1]"]
    model.say(pieces=words, when=lambda: model.requests[-1].pieces_sent < 2 or go_on.is_set())
    others: list[Event] = []
    with server.client.stream("POST", "/api/chat/stream", json=BODY) as response:
        reading = read_events(response)
        first = next(event for event in reading if event[0] == "content")
        said = messages(server)
        assert said["messages"] == [] and said["running"]["question"] == BODY["message"]
        stream = said["running"]["stream"]
        assert first[2].startswith(f"{stream}-")
        body = {"message": said["running"]["question"], "session_id": TALK}
        other = threading.Thread(
            target=lambda: others.extend(server.events("/api/chat/stream", body, last=f"{stream}-0"))
        )
        other.start()
        go_on.set()
        own = list(reading)
        other.join(PATIENCE_S)
    assert own[-1][0] == "done" and others[-1] == own[-1] and first in others
    assert len(model.requests) == 1 and messages(server)["running"] is None


def test_who_comes_back_to_a_server_that_lost_the_stream_is_answered_whole(hasty: Server, model: WireServer) -> None:
    """The stopped half goes; the conversation has the question once."""
    server = hasty
    model.hang("It costs 1,240")
    with server.client.stream("POST", "/api/chat/stream", json=BODY) as response:
        event = next(event for event in read_events(response) if event[0] == "content")
    assert model.wait_until(lambda: server.get(f"/api/conversations/{TALK}").status_code == 200)
    assert server.app is not None
    server.app.state.service.streams._known.clear()  # as in another process
    model.say("It costs 1,240 euros. [1]")
    again = server.events("/api/chat/stream", BODY, last=event[2])
    assert again[0][0] == "replace" and again[-1][0] == "done"
    assert len(messages(server)["messages"]) == 2 and not last_answer(server)["stopped"]


def test_what_runs_is_seen_by_its_owner_alone(server: Server, desk: Refdesk, model: WireServer) -> None:
    anna, otto = desk.keys.add("anna", "reader")[1], desk.keys.add("otto", "reader")[1]
    model.hang("It costs 1,240 euros.")
    headers = {"Authorization": f"Bearer {anna}"}
    with server.client.stream("POST", "/api/chat/stream", json=BODY, headers=headers) as response:
        next(event for event in read_events(response) if event[0] == "content")
        path = f"/api/conversations/{TALK}"
        assert server.get(f"{path}/messages", key=otto).status_code == 404
        assert server.post(f"{path}/stop", key=otto).json() == {"stopped": False}
        assert server.get(f"{path}/messages", key=anna).json()["running"]["question"] == BODY["message"]
        assert server.post(f"{path}/stop", key=anna).json() == {"stopped": True}
