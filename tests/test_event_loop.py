"""Nothing that waits for the database or a file runs on the event loop: one question must not hold up the others.

Every statement on the way, prepared ones too, is seen by the driver's own trace; files by Python's audit events. What
runs in the thread of a loop, under a library that is served and asked for real, is a failure.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.pool import Pool

from http_server import serving
from refdesk import Refdesk
from wire_server import WireServer

QUESTION = "How heavy is the anchor of the wave buoy?"
TEXT = "The anchor of the wave buoy weighs 350 kg. Its chain is 15 metres long."
OPENED = ("open", "sqlite3.connect")


class Monitor:
    """Notes what is done on an event loop's thread while it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.seen: list[str] = []
        self.is_on = False

    def note(self, what: str) -> None:
        if self.is_on and asyncio._get_running_loop() is not None:
            calls = [f"{frame.f_code.co_name}" for frame in _stack() if "/refdesk/" in frame.f_code.co_filename]
            self.seen.append(f"{what[:90]} in {' < '.join(calls[:6])}")

    def audit(self, name: str, arguments: tuple[Any, ...]) -> None:
        if self.is_on and name in OPENED and self.folder in str(arguments[0]):
            self.note(f"{name} {arguments[0]}")


def _stack() -> list[Any]:
    found, frame = [], sys._getframe(2)
    while frame is not None:
        found.append(frame)
        frame = frame.f_back
    return found


_monitors: list[Monitor] = []


def _traced(connection: Any, _: Any) -> None:
    if not hasattr(connection, "set_trace_callback"):
        return  # a library of another test, in PostgreSQL
    connection.set_trace_callback(lambda statement: [one.note(statement) for one in _monitors])


event.listen(Pool, "connect", _traced)  # of every library from here on, whoever runs the statements
sys.addaudithook(lambda name, arguments: [one.audit(name, arguments) for one in _monitors] and None)


@contextmanager
def watched(desk: Refdesk) -> Iterator[Monitor]:
    monitor = Monitor(desk.folder)
    _monitors.append(monitor)
    monitor.is_on = True
    try:
        yield monitor
    finally:
        monitor.is_on = False
        _monitors.remove(monitor)


def make(folder: Path) -> Refdesk:
    desk = Refdesk(folder / "library")
    desk.add_text("mooring.txt", TEXT)
    return desk


def test_the_monitor_sees_a_statement_on_the_loop(tmp_path: Path) -> None:
    async def blocking() -> None:
        desk.documents()
        desk.parts.settings_store.load()

    with make(tmp_path) as desk, watched(desk) as monitor:
        desk.documents()
        assert monitor.seen == []
        asyncio.run(blocking())
        assert {"documents", "load"} <= {call for one in monitor.seen for call in one.split()}, monitor.seen


def test_questions_in_a_conversation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask_all() -> None:
        asked: list[tuple[str, dict[str, str]]] = [
            (QUESTION, {}),
            (QUESTION, {}),  # from the cache
            (QUESTION, {"conversation_id": "a"}),
            ("And how long is the chain?", {"conversation_id": "a"}),
            ("What is the salary of the cook?", {}),
            ("Hello!", {}),
            ("How heavy is the buoy's anchor?", {}),
        ]
        for question, options in asked:
            events = await asyncio.to_thread(partial(desk.ask, question, **options))
            async for _ in events:
                pass

    with WireServer() as server, make(tmp_path) as first:
        with watched(first) as monitor:
            desk = first
            asyncio.run(ask_all())
            assert monitor.seen == []
        server.answer_by(lambda request: "The anchor weighs 350 kg. [1]")
        for name, value in server.openai_env("writer-8b").items():
            monkeypatch.setenv(name, value)
        with Refdesk(tmp_path / "library", settings={"llm.tries": 1}) as desk, watched(desk) as monitor:
            asyncio.run(ask_all())
            assert monitor.seen == []


def test_every_door_of_the_service(tmp_path: Path) -> None:
    with make(tmp_path) as desk:
        _, key = desk.keys.add("anna", "admin")
        with serving(desk) as server, watched(desk) as monitor:
            assert server.post("/api/query", key=key, json={"q": QUESTION}).json()["content"]
            assert server.events("/api/chat/stream", {"message": QUESTION, "session_id": "a"}, key=key)
            assert server.post("/api/search", key=key, json={"q": "anchor"}).json()["hits"]
            body = {"model": "refdesk", "messages": [{"role": "user", "content": QUESTION}]}
            for stream in (False, True):
                assert server.post("/v1/chat/completions", key=key, json=body | {"stream": stream}).status_code == 200
            (found,) = server.get("/api/documents", key=key).json()["documents"]
            for path in (
                f"/api/documents/{found['id']}",
                f"/api/documents/{found['id']}/pages/1/text",
                "/api/settings",
            ):
                assert server.get(path, key=key).status_code == 200
            for path in (
                "/api/conversations",
                "/api/conversations/a",
                "/api/collections",
                "/api/keys",
                "/api/answers",
                "/api/analytics",
            ):
                assert server.get(path, key=key).status_code == 200, path
            assert server.request("PATCH", "/api/settings", key=key, json={"rag.top_k": 7}).status_code == 200
            assert server.get("/readyz", key=key).status_code == 200
            server.client.post("/api/session", json={"key": key})
            assert server.get("/api/me").status_code == 200
            threading.Event().wait(0.1)
            assert monitor.seen == []
