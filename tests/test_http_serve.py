"""`refdesk serve` as people start it: fast, closed to others without a key, several processes over one library."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import httpx2
import pytest

from conftest import run_refdesk
from http_server import Server, free_port, served
from refdesk import Refdesk
from refdesk.serve.cli.admin import listen
from timing import PATIENCE_S

QUESTION = {"q": "How heavy is the anchor of the standard wave buoy mooring?"}
FRESH = {"Connection": "close"}  # another connection, perhaps to another worker


def test_another_address_needs_a_key(own_folder: Path) -> None:
    done = run_refdesk("--library", own_folder, "serve", "--host", "0.0.0.0", "--port", str(free_port()))
    assert done.returncode == 2 and "there is no key" in done.stderr and "--insecure" in done.stderr
    with Refdesk(own_folder) as desk:
        secret = desk.keys.add("anna", "reader")[1]
    with served(own_folder, "--host", "0.0.0.0") as server:
        assert server.get("/api/me").status_code == 401
        assert server.get("/api/me", key=secret).json()["name"] == "anna"


def test_insecure_lets_everyone_in(own_folder: Path) -> None:
    with served(own_folder, "--host", "0.0.0.0", "--insecure") as server:
        assert server.get("/api/me", headers={"Host": "library.example"}).json()["role"] == "admin"


def port_in_use(server: Server, library: Path) -> list[str]:
    """What is said when one, and when several workers are to listen where somebody listens already."""
    begin = partial(run_refdesk, "--library", library, "serve", "--port", str(server.port), "--workers")
    found = [begin("1"), begin("2")]
    assert [done.returncode for done in found] == [2, 2]
    return [done.stderr for done in found]


def test_what_is_sent_does_not_wait() -> None:
    """asyncio's own loop turns Nagle's delay off for sockets that name their protocol; 40 ms of every answer else."""
    (listening,) = listen("127.0.0.1", 0)
    with listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_a_port_in_use_is_one_sentence_and_a_termination_ends_it_cleanly(own_folder: Path) -> None:
    with served(own_folder) as server:
        server.post("/api/query", json=QUESTION)
        for sentence in port_in_use(server, own_folder):
            assert "cannot be used" in sentence and "Traceback" not in sentence
        assert server.process is not None
        server.process.terminate()
        err = server.log_at_end()
    assert "Application shutdown complete" in err and "Traceback" not in err


@pytest.fixture(scope="module")
def two_workers(examples_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    """A server with two workers and the key of its administrator."""
    folder = Path(shutil.copytree(examples_folder, tmp_path_factory.mktemp("two") / "library"))
    with Refdesk(folder) as desk:
        key = desk.keys.add("root", "admin")[1]
    with served(folder, "--workers", "2") as server:
        for sentence in port_in_use(server, folder):
            assert "cannot be used" in sentence and "Traceback" not in sentence
        yield server, key


def test_two_workers_are_one_service(two_workers: tuple[Server, str]) -> None:
    """Keys, settings, answers and figures are the library's, whichever process is asked."""
    server, key = two_workers
    processes = _processes(server, key, 2)
    assert len(processes) == 2 and server.process is not None and server.process.pid not in processes
    made = server.post("/api/keys", key=key, json={"name": "zoe"}, headers=FRESH).json()["secret"]
    assert {server.get("/api/me", key=made, headers=FRESH).status_code for _ in range(12)} == {200}
    server.request("PATCH", "/api/settings", key=key, json={"answer.max_sentences": 1}, headers=FRESH)
    for _ in range(6):
        answer = server.post("/api/query", key=key, json=QUESTION, headers=FRESH).json()
        assert len(answer["claims"]) == 1
        assert server.get(f"/api/traces/{answer['id']}", key=key, headers=FRESH).status_code in (200, 404)
    pattern = r'refdesk_requests_total\{method="POST",route="/api/query",status="200"\} ([0-9.]+)'
    texts = [server.get("/metrics", key=key, headers=FRESH).text for _ in range(6)]
    assert {float(re.findall(pattern, text)[0]) for text in texts} == {6.0}  # added up over both


def test_a_worker_that_dies_is_replaced(two_workers: tuple[Server, str]) -> None:
    server, key = two_workers
    first = server.get("/readyz", key=key, headers=FRESH).json()["process"]
    os.kill(first, signal.SIGKILL)
    assert len(_processes(server, key, 2, but=first)) == 2


def test_workers_are_replaced_one_after_the_other(two_workers: tuple[Server, str]) -> None:
    """All the while somebody answers; who connects in the moment in which a process leaves may have to do so again."""
    server, key = two_workers
    before = _processes(server, key, 2)
    assert server.process is not None
    server.process.send_signal(signal.SIGHUP)
    seen: set[int] = set()
    lost, until = 0, time.monotonic() + 120
    while len(seen - before) < 2 and time.monotonic() < until:
        try:
            answer = server.get("/readyz", key=key, headers=FRESH)
            if answer.status_code == 200:  # one that leaves says so
                seen.add(answer.json()["process"])
        except httpx2.TransportError:
            lost += 1
        time.sleep(0.02)
    assert len(seen - before) == 2 and lost <= 2


def test_connections_that_come_at_once_are_dealt_out(two_workers: tuple[Server, str]) -> None:
    """By the system; on one socket the worker that wakes up first would take most of them."""
    server, key = two_workers
    _only_two_answer(server, key)
    lines = ["GET /readyz HTTP/1.1", "Host: localhost", f"Authorization: Bearer {key}", "Connection: close", ""]
    with ExitStack() as stack:
        many = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE_S)) for _ in range(100)
        ]
        for connection in many:
            connection.sendall("\r\n".join([*lines, ""]).encode())
        answers = [b"".join(iter(partial(connection.recv, 65536), b"")) for connection in many]
    taken = Counter(json.loads(answer.partition(b"\r\n\r\n")[2])["process"] for answer in answers)
    assert len(taken) == 2 and min(taken.values()) > 25, "by chance once in a million times"


def _only_two_answer(server: Server, key: str) -> None:
    """Waits until the workers that were replaced before have left: forty answers in a row come from two processes."""
    until, seen = time.monotonic() + PATIENCE_S, list[int]()
    while (len(seen) < 40 or len(set(seen)) != 2) and time.monotonic() < until:
        try:
            answer = server.get("/readyz", key=key, headers=FRESH)
            seen = [*seen[-39:], answer.json()["process"]] if answer.status_code == 200 else []
        except httpx2.TransportError:
            seen = []


def _processes(server: Server, key: str, wanted: int, but: int = 0) -> set[int]:
    """The workers that answer, asked again and again until there are so many."""
    seen: set[int] = set()
    until = time.monotonic() + PATIENCE_S
    while len(seen) < wanted and time.monotonic() < until:
        try:
            answer = server.get("/readyz", key=key, headers=FRESH)
            if answer.status_code == 200:  # one that leaves says so
                seen.add(answer.json()["process"])
        except httpx2.TransportError:
            time.sleep(0.05)
        seen.discard(but)
    return seen
