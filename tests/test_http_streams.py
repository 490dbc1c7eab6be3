"""Streams against a real model server: who leaves stops the work, who comes back goes on, a stop is said."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from http_server import Server, read_events, served, serving
from refdesk import Refdesk
from refdesk.serve.http import sse
from wire_server import WireServer

BODY = {"message": "What does the annual inspection of a tide gauge cost?", "cache": False}


@pytest.fixture
def model() -> Iterator[WireServer]:
    with WireServer() as found:
        yield found


@pytest.fixture
def server(own_folder: Path, model: WireServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name, value in model.openai_env("tiny-1b").items():
        monkeypatch.setenv(name, value)
    with Refdesk(own_folder) as desk, serving(desk) as found:
        yield found


def open_streams(server: Server) -> float:
    lines = server.get("/metrics").text.splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith("refdesk_streams_open")))


def test_tokens_come_as_the_model_writes_them(server: Server, model: WireServer) -> None:
    model.say(pieces=["It ", "costs ", "1,240 euros. ", "[1]"], delay=0.15)
    arrived = []
    with server.client.stream("POST", "/api/chat/stream", json=BODY) as response:
        arrived += [time.monotonic() for name, _, _ in read_events(response) if name == "content"]
    assert len(arrived) >= 3 and arrived[-1] - arrived[0] > 0.25


def test_who_leaves_ends_the_work(server: Server, model: WireServer) -> None:
    model.hang("It costs")
    events = server.events("/api/chat/stream", BODY, most=5)
    assert events
    assert not model.wait_for_disconnect(timeout=sse.GRACE_S / 2)  # he may come back
    assert model.wait_for_disconnect(timeout=sse.GRACE_S + 3)
    assert model.wait_until(lambda: open_streams(server) == 0)


def test_who_leaves_a_plain_question_ends_the_work(server: Server, model: WireServer) -> None:
    model.hang("It costs")
    with pytest.raises(httpx2.ReadTimeout):
        server.post("/api/query", json={"q": BODY["message"], "cache": False}, timeout=1.5)
    assert model.wait_for_disconnect()


def test_who_comes_back_in_time_goes_on(server: Server, model: WireServer) -> None:
    words = [f"word{number} " for number in range(30)] + ["[1]"]
    model.say(pieces=words, delay=0.05)
    first = server.events("/api/chat/stream", BODY, most=9)
    rest = server.events("/api/chat/stream", BODY, last=first[-1][2])
    assert len(model.requests) == 1 and not model.requests[0].disconnected
    numbers = [int(one.rpartition("-")[2]) for _, _, one in first + rest]
    assert numbers == list(range(1, len(numbers) + 1)) and rest[-1][0] == "done"


def test_two_readers_of_one_stream(server: Server, model: WireServer) -> None:
    model.say(pieces=[f"w{number} " for number in range(20)], delay=0.05)
    with server.client.stream("POST", "/api/chat/stream", json=BODY) as response:
        reading = read_events(response)
        first = next(reading)
        others: list[object] = []
        other = threading.Thread(target=lambda: others.extend(server.events("/api/chat/stream", BODY, last=first[2])))
        other.start()
        own = list(reading)
        other.join(10)
    assert others == own


def test_silence_is_filled_with_heartbeats(server: Server, model: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "HEARTBEAT_S", 0.1)
    model.say("It costs 1,240 euros. [1]", first_delay=0.6)
    with server.client.stream("POST", "/api/chat/stream", json=BODY) as response:
        lines = list(response.iter_lines())
    assert lines.count(": still here") >= 3


def test_a_model_that_is_down_is_an_error_of_its_own(server: Server, model: WireServer) -> None:
    model.fail(401)
    answer = server.post("/api/models/test", json={"model": "openai:tiny-1b"})
    said = answer.json()
    assert answer.status_code == 502 and said["code"] == "provider_refused" and "sk-test" not in str(said)
    model.say("Ready")
    assert server.post("/api/models/test", json={"model": "openai:tiny-1b"}).json()["reply"] == "Ready"
    unset = server.post("/api/models/test", json={"model": "mistral:large"})
    assert unset.status_code == 400 and "MISTRAL_API_KEY" in unset.json()["message"]


def test_a_stop_of_the_server_is_said(own_folder: Path, model: WireServer) -> None:
    model.hang("It costs")
    with served(own_folder, **model.openai_env("tiny-1b")) as server:
        found = []
        with server.client.stream("POST", "/api/chat/stream", json=BODY) as response:
            for event in read_events(response):
                found.append(event)
                if event[0] == "content":
                    assert server.process is not None
                    server.process.send_signal(signal.SIGINT)
        assert found[-1][0] == "error" and found[-1][1]["code"] == "server_stopping" and found[-1][1]["retryable"]
        err = server.log_at_end()
        assert server.process is not None and server.process.returncode == 0 and "Traceback" not in err, err
    assert model.wait_for_disconnect()
