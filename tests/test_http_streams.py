"""Streams against a real model server: who leaves stops the work, who comes back goes on, a stop is said."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from http_server import Server, read_events, served, serving
from memory_desk import ON_DISK
from refdesk import Refdesk
from refdesk.serve.http import sse
from timing import PATIENCE_S
from wire_server import WireServer

STORES = ON_DISK

BODY = {"message": "What does the annual inspection of a tide gauge cost?", "cache": False}


@pytest.fixture
def model() -> Iterator[WireServer]:
    with WireServer() as found:
        yield found


@pytest.fixture
def server(own_folder: Path, model: WireServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name, value in model.openai_env("writer-8b").items():
        monkeypatch.setenv(name, value)
    with Refdesk(own_folder) as desk, serving(desk) as found:
        yield found


def open_streams(server: Server) -> float:
    lines = server.get("/metrics").text.splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith("refdesk_streams_open")))


def test_tokens_come_as_the_model_writes_them(server: Server, model: WireServer) -> None:
    """The model writes the next piece when the one before has come here; else it is cut, and the answer replaced."""
    arrived: list[str] = []
    pieces = ["It ", "costs ", "1,240 euros. ", "[1]"]
    model.say(pieces=pieces, when=lambda: len(arrived) >= model.requests[0].pieces_sent)
    names = []
    with server.client.stream("POST", "/api/chat/stream", json=BODY) as response:
        for name, data, _ in read_events(response):
            names.append(name)
            if name == "content":
                arrived.append(data["token"])
    assert len(arrived) >= 3 and "".join(arrived).startswith("".join(pieces))
    assert "replace" not in names and names[-1] == "done" and len(model.requests) == 1


def test_who_leaves_ends_the_work(server: Server, model: WireServer) -> None:
    model.hang("It costs")
    events = server.events("/api/chat/stream", BODY, most=5)
    assert events
    assert not model.wait_for_disconnect(timeout=sse.Waits().grace_s / 2)  # he may come back
    assert model.wait_for_disconnect()
    assert model.wait_until(lambda: open_streams(server) == 0)


def test_who_leaves_a_plain_question_ends_the_work(server: Server, model: WireServer) -> None:
    model.hang("It costs")
    body = json.dumps({"q": BODY["message"], "cache": False}).encode()
    head = (
        f"POST /api/query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    )
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + b"\r\n\r\n" + body)
        assert model.wait_until(lambda: len(model.requests) == 1)
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
        other.join(PATIENCE_S)
    assert others == own


def test_silence_is_filled_with_heartbeats(server: Server, model: WireServer) -> None:
    assert server.app is not None
    lines: list[str] = []
    model.say(pieces=["It costs ", "1,240 euros. [1]"], when=lambda: lines.count(": still here") >= 3)
    with (
        serving(server.app.state.service.desk, waits=sse.Waits(heartbeat_s=0.1)) as quick,
        quick.client.stream("POST", "/api/chat/stream", json=BODY) as response,
    ):
        lines.extend(response.iter_lines())
    assert lines.count(": still here") >= 3 and model.requests[0].finished


def test_a_model_that_is_down_is_an_error_of_its_own(server: Server, model: WireServer) -> None:
    model.fail(401)
    answer = server.post("/api/models/test", json={"model": "openai:tiny-1b"})
    said = answer.json()
    assert answer.status_code == 502 and said["code"] == "provider_refused" and "sk-test" not in str(said)
    model.say("Ready")
    trial = server.post("/api/models/test", json={"model": "openai:tiny-1b"}).json()
    assert trial["reply"] == "Ready" and not trial["answers"] and not trial["cites"]
    unset = server.post("/api/models/test", json={"model": "mistral:large"})
    assert unset.status_code == 400 and "MISTRAL_API_KEY" in unset.json()["message"]


@pytest.mark.only_on("sql", reason="how processes end is the same on all of them")
@pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
def test_a_stop_of_the_server_is_said(own_folder: Path, model: WireServer, times: int) -> None:
    """Also to who presses Ctrl-C once more because it takes too long."""
    model.hang("It costs")
    with served(own_folder, **model.openai_env("tiny-1b")) as server:
        found = []
        with server.client.stream("POST", "/api/chat/stream", json=BODY) as response:
            for event in read_events(response):
                found.append(event)
                if event[0] == "content" and times:
                    assert server.process is not None
                    server.process.send_signal(signal.SIGINT)
                    times -= 1
        assert found[-1][0] == "error" and found[-1][1]["code"] == "server_stopping" and found[-1][1]["retryable"]
        err = server.log_at_end()
        assert server.process is not None and server.process.returncode == 0 and "Traceback" not in err, err
    assert model.wait_for_disconnect()


@pytest.mark.only_on("sql", reason="how processes end is the same on all of them")
def test_plain_questions_are_told_of_a_stop_too(own_folder: Path, model: WireServer) -> None:
    """Not with a bare 500 after the server's patience, and without a trace in the log."""
    model.hang("It costs")
    model.hang("It costs")
    asked = {"q": BODY["message"], "cache": False}
    completion = {"messages": [{"role": "user", "content": BODY["message"]}], "refdesk": {"cache": False}}
    with served(own_folder, **model.openai_env("tiny-1b")) as server, ThreadPoolExecutor(2) as pool:
        plain = pool.submit(httpx2.post, f"{server.url}/api/query", json=asked, timeout=PATIENCE_S)
        other = pool.submit(httpx2.post, f"{server.url}/v1/chat/completions", json=completion, timeout=PATIENCE_S)
        assert model.wait_until(lambda: len(model.requests) == 2)
        assert server.process is not None
        server.process.terminate()
        for response in (plain.result(), other.result()):
            said = response.json()
            assert response.status_code == 503 and response.headers["retry-after"] == "1"
            assert said["code"] == "server_stopping" and said["retryable"] and said["request_id"]
        assert other.result().json()["error"]["type"] == "api_error"
        err = server.log_at_end()
        assert "Traceback" not in err and "timeout graceful shutdown exceeded" not in err, err


@pytest.mark.only_on("sql", reason="how processes end is the same on all of them")
def test_what_a_killed_worker_had_open_is_not_counted_on(own_folder: Path, model: WireServer) -> None:
    model.hang("It costs")
    with served(own_folder, "--workers", "2", **model.openai_env("tiny-1b")) as server:
        with server.client.stream("POST", "/api/chat/stream", json=BODY) as response:
            reading = read_events(response)  # held: one that is thrown away closes the connection, and the work ends
            assert next(reading)
            assert model.wait_until(lambda: len(model.requests) == 1)
            assert model.wait_until(lambda: _open_streams(server) == 1.0)
            for process in _workers(server):
                os.kill(process, signal.SIGKILL)
        assert model.wait_until(lambda: _open_streams(server) == 0.0)


LOOKS_S = 1.5  # in which a server looks after its workers more than once: every half second
UVICORN_S = 5  # its own limit for a worker's answer


@pytest.mark.only_on("sql", reason="how processes end is the same on all of them")
def test_a_worker_that_does_not_answer_for_a_while_is_not_killed(own_folder: Path, model: WireServer) -> None:
    """A busy machine may hold one up for longer than the five seconds after which uvicorn would replace it."""
    model.hang("It costs")
    with (
        served(own_folder, "--workers", "2", **model.openai_env("tiny-1b")) as server,
        server.client.stream("POST", "/api/chat/stream", json=BODY) as response,
    ):
        reading = read_events(response)
        assert next(reading)
        before = _workers(server)
        with _held_up(*before):
            time.sleep(UVICORN_S + LOOKS_S)
        assert _workers(server) == before
        assert model.wait_until(lambda: _open_streams(server) == 1.0)


@pytest.mark.only_on("sql", reason="how processes end is the same on all of them")
def test_a_worker_that_ends_is_replaced_while_another_is_held_up(own_folder: Path) -> None:
    """Nobody waits for the one to answer before the other's end is noticed."""
    with served(own_folder, "--workers", "2") as server:
        held, ended = _workers(server)
        with _held_up(held):
            time.sleep(LOOKS_S)  # so that it has been asked for a sign of life
            os.kill(ended, signal.SIGKILL)
            assert WireServer.wait_until(lambda: _who_answers(server) not in (None, held, ended))
        assert held in _workers(server)  # the server did not give it up first


@contextmanager
def _held_up(*processes: int) -> Iterator[None]:
    for one in processes:
        os.kill(one, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in processes:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)


def _who_answers(server: Server) -> int | None:
    try:
        return int(httpx2.get(f"{server.url}/readyz", timeout=2).json()["process"])
    except httpx2.TransportError:
        return None  # who is held up, or starting


def _open_streams(server: Server) -> float | None:
    try:
        text = httpx2.get(f"{server.url}/metrics", timeout=PATIENCE_S).text
    except httpx2.TransportError:
        return None  # of a worker that is starting
    return float(next(line.split()[-1] for line in text.splitlines() if line.startswith("refdesk_streams_open")))


def _workers(server: Server) -> set[int]:
    asked = (httpx2.get(f"{server.url}/readyz", timeout=PATIENCE_S).json()["process"] for _ in range(200))
    found: set[int] = set()
    for one in asked:
        found.add(one)
        if len(found) == 2:
            break
    return found


# a stream of another process: two servers over one library do not know each other's streams


def _again(server: Server, body: Any, last: str) -> list[tuple[str, Any, str]]:
    return server.events("/api/chat/stream", body, last=last)


def test_who_comes_back_to_another_process_gets_the_finished_answer(own_folder: Path) -> None:
    with Refdesk(own_folder) as desk, serving(desk) as first, serving(desk) as second:
        for body in (BODY, BODY | {"session_id": "tuesday"}):
            events = first.events("/api/chat/stream", body)
            done = events[-1][1]
            again = _again(second, body, events[3][2])
            assert [name for name, _, _ in again] == ["replace", "done"]
            assert again[0][1]["content"] == done["answer"]["content"]
            assert again[1][1]["answer"]["id"] == done["answer"]["id"] and again[1][1]["traceUrl"] == done["traceUrl"]
            conversation = done["answer"]["conversation_id"]
            assert len(first.get(f"/api/conversations/{conversation}/messages").json()["messages"]) == 2


def test_work_that_another_process_still_ends_is_not_done_twice(server: Server, model: WireServer) -> None:
    model.say(pieces=[f"word{number} " for number in range(12)] + ["[1]"], delay=0.1)
    assert server.app is not None
    with serving(server.app.state.service.desk) as other:
        first = server.events("/api/chat/stream", BODY, most=6)
        again = _again(other, BODY, first[-1][2])
        assert [name for name, _, _ in again] == ["replace", "done"] and len(model.requests) == 1


def test_who_comes_back_to_another_process_too_early_begins_again(own_folder: Path) -> None:
    hasty = sse.Waits(grace_s=0.1)
    with Refdesk(own_folder) as desk, serving(desk) as first, serving(desk, waits=hasty) as second:
        earlier = first.events("/api/chat/stream", BODY | {"session_id": "tuesday"})[-1][1]["answer"]
        lost = first.events("/api/chat/stream", BODY | {"message": "How heavy is the anchor?"})
        stream = lost[0][2].rpartition("-")[0]
        # As if it had not come to its end: nothing was written down under this stream's id.
        first.request("DELETE", f"/api/conversations/{stream}")
        again = _again(second, BODY | {"message": "How heavy is the anchor?"}, f"{stream}-2")
        assert again[0][:2] == ("replace", {"content": "", "reason": "begun_again"}) and again[-1][0] == "done"
        assert again[-1][1]["answer"]["conversation_id"] == stream
        # The same question was answered in this conversation before the stream began: that is not its answer.
        again = _again(second, BODY | {"session_id": "tuesday"}, f"{sse.new_id()}-2")
        assert again[0][0] == "replace" and again[-1][1]["answer"]["id"] != earlier["id"]


def test_a_stream_of_someone_else_is_not_there(own_folder: Path) -> None:
    with Refdesk(own_folder) as desk:
        anna, ben = (desk.keys.add(name, "reader")[1] for name in ("anna", "ben"))
        with serving(desk) as first, serving(desk) as second:
            events = first.events("/api/chat/stream", BODY, key=anna)
            for server in (first, second):
                headers = {"Last-Event-ID": events[3][2]}
                response = server.post("/api/chat/stream", json=BODY, key=ben, headers=headers)
                assert response.status_code == 404 and "1,240" not in response.text
