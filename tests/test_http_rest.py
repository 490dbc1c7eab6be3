"""Conversations, settings, traces, errors, health and figures over HTTP."""

from __future__ import annotations

import errno
import json
import logging
import os
import re
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from http_server import Server, serving
from memory_desk import ON_DISK
from refdesk import Refdesk, Settings
from refdesk.errors import AskError, DiskFull, LibraryDamaged, LibraryError, ModelError, RefdeskError
from refdesk.serve.http.observe import JsonLines, _forget_the_dead
from refdesk.serve.uploads import Uploads
from timing import PATIENCE_S

STORES = ON_DISK

QUESTION = "What does the annual inspection of a tide gauge cost?"


@pytest.fixture(scope="module")
def server(examples_of_file: Refdesk) -> Iterator[Server]:
    with serving(examples_of_file) as found:
        yield found


# conversations


def test_a_conversation_from_its_first_word_to_its_last(server: Server) -> None:
    server.post("/api/chat", json={"message": QUESTION, "session_id": "c1"})
    listed = server.get("/api/conversations").json()["conversations"]
    assert next(one for one in listed if one["id"] == "c1")["title"] == QUESTION
    messages = server.get("/api/conversations/c1/messages").json()["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant"]
    assert server.get(f"/api/answers/{messages[1]['answer_id']}").json()["content"] == messages[1]["content"]
    renamed = server.request("PATCH", "/api/conversations/c1", json={"title": "Gauges"})
    assert renamed.json()["title"] == "Gauges"
    assert server.get("/api/conversations/c1").json()["title"] == "Gauges"
    assert server.request("DELETE", "/api/conversations/c1").json() == {"deleted": "c1"}
    for path in ("/api/conversations/c1", "/api/conversations/c1/messages", f"/api/traces/{messages[1]['answer_id']}"):
        assert server.get(path).status_code == 404


@pytest.mark.parametrize("wrong", ["a/b", "/", ".", "..", "../x", "a\u202eb", " "])
def test_a_conversation_that_no_address_leads_to_is_not_begun(server: Server, wrong: str) -> None:
    for path, body in (
        ("/api/chat", {"message": QUESTION, "session_id": wrong}),
        ("/api/chat/stream", {"message": QUESTION, "conversation_id": wrong}),
        ("/api/query", {"q": QUESTION, "conversation_id": wrong}),
    ):
        response = server.post(path, json=body)
        assert response.status_code == 400 and "a conversation id cannot" in response.json()["message"], response.text


@pytest.mark.parametrize("odd", ["a b", "a.b", "...", "50%", "a?b", "a#b", "Möwe", "a\\b"])
def test_whatever_is_begun_can_be_reached(server: Server, odd: str) -> None:
    assert server.post("/api/chat", json={"message": QUESTION, "session_id": odd}).status_code == 200
    path = f"/api/conversations/{quote(odd, safe='')}"
    assert server.get(path).json()["id"] == odd
    assert server.request("DELETE", path).json() == {"deleted": odd}


def test_a_title_holds_nothing_that_turns_letters_about(server: Server) -> None:
    server.post("/api/chat", json={"message": QUESTION, "session_id": "titled"})

    def renamed(title: str) -> Any:
        return server.request("PATCH", "/api/conversations/titled", json={"title": title})

    assert renamed("\u202egauges\u2066\x07 and\n\ttides ").json()["title"] == "gauges and tides"
    for nothing in ("\u202e", " \x00 ", "\n"):
        refused = renamed(nothing)
        assert refused.status_code == 400 and refused.json()["message"] == "the title is empty"
    assert server.get("/api/conversations/titled").json()["title"] == "gauges and tides"


# answers, traces, feedback, figures


def test_an_answer_its_trace_and_what_was_said_of_it(server: Server) -> None:
    answer = server.post("/api/query", json={"q": QUESTION}).json()
    assert server.get("/api/answers?limit=1").json()["answers"][0]["id"] == answer["id"]
    trace = server.get(f"/api/traces/{answer['id']}").json()
    assert trace["stages"][0]["name"] == "recall"
    given = {"answer_id": answer["id"], "verdict": "wrong", "correction": "It is dearer."}
    assert server.post("/api/feedback", json=given).json()["verdict"] == "wrong"
    kept = server.get(f"/api/answers/{answer['id']}").json()["feedback"]
    assert [one["correction"] for one in kept] == ["It is dearer."]
    assert server.post("/api/feedback", json=given | {"answer_id": "nobody"}).status_code == 404
    assert server.post("/api/feedback", json=given | {"verdict": "so-so"}).status_code == 400
    figures = server.get("/api/analytics?days=7").json()
    assert figures and server.get("/api/analytics?days=0").status_code == 400


# settings


def test_settings_are_listed_changed_and_put_back(server: Server) -> None:
    listed = server.get("/api/settings").json()
    assert {one["name"] for one in listed["settings"]} == {name for name, _, _ in Settings().items()}
    top_k = next(one for one in listed["settings"] if one["name"] == "rag.top_k")
    assert top_k["help"] and top_k["default"] == 10 and (top_k["minimum"], top_k["maximum"]) == (1, 1000)
    assert "speed" in listed["presets"]

    def value() -> tuple[object, bool]:
        rows = server.get("/api/settings").json()["settings"]
        return next((one["value"], one["changed"]) for one in rows if one["name"] == "rag.top_k")

    server.request("PATCH", "/api/settings", json={"rag.top_k": 7})
    assert value() == (7, True)
    wrong = server.request("PATCH", "/api/settings", json={"rag.top_k": 3, "rag.rrf_k": 0})
    assert wrong.status_code == 400 and value() == (7, True)
    server.request("DELETE", "/api/settings/rag.top_k")
    assert value() == (10, False)
    server.post("/api/settings/preset", json={"name": "speed"})
    assert value() == (5, True)
    server.post("/api/settings/preset", json={"name": "balanced"})
    assert value() == (10, False)
    assert server.post("/api/settings/preset", json={"name": "warp"}).status_code == 400
    assert server.request("DELETE", "/api/settings/no.such").status_code == 404


# errors


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "not_found"),
        ("GET", "/api/nowhere", 404, "not_found"),
        ("DELETE", "/api/query", 405, "method_not_allowed"),
        ("GET", "/api/traces/nobody", 404, "not_found"),
        ("GET", "/api/conversations?limit=many", 400, "usage_error"),
    ],
)
def test_every_failure_has_one_shape(server: Server, method: str, path: str, status: int, code: str) -> None:
    response = server.request(method, path)
    said = response.json()
    assert (response.status_code, said["code"]) == (status, code)
    assert set(said) == {"code", "message", "stage", "retryable", "hint", "request_id"}
    assert said["request_id"] == response.headers["x-request-id"]


def test_a_body_that_is_not_json(server: Server) -> None:
    response = server.post("/api/query", content=b'{"q": ', headers={"Content-Type": "application/json"})
    assert response.status_code == 400 and response.json()["message"] == "the body is not JSON"


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/api/query", {"q": "x", "kind": "nope"}, "kind: should be 'text', 'table', 'list'"),
        ("/api/query", {"q": "x", "kind": ["text", "nope"]}, "kind.1: should be 'text', 'table', 'list'"),
        ("/api/query", {"q": "x", "collection": 5}, "collection: should be a text or a list"),
        ("/api/query", {"q": "x", "mode": "x"}, "'vision', 'quick', 'standard' or 'thorough'"),
        ("/api/query", {"q": "x", "top_k": "5"}, "top_k: should be a whole number"),
        ("/api/query", {"q": "x", "top_k": 0}, "top_k: should be greater than or equal to 1"),
        ("/api/query", {"q": 1, "cache": 1, "k": []}, "(and 2 more)"),
        ("/api/query", [], "the body: should be an object"),
        ("/api/feedback", {"verdict": "wrong"}, "answer_id: field required"),
    ],
)
def test_a_wrong_field_is_named_with_what_it_may_be(server: Server, path: str, body: object, sentence: str) -> None:
    response = server.post(path, json=body)
    assert response.status_code == 400 and sentence in response.json()["message"], response.text
    assert "literal" not in response.text and "constrained" not in response.text


def test_a_wrong_setting_is_named_with_what_it_may_be(server: Server) -> None:
    response = server.request("PATCH", "/api/settings", json={"rag.top_k": None})
    said = "rag.top_k: should be true or false, a whole number, a number or a text"
    assert response.status_code == 400 and response.json()["message"] == said


def test_hints_name_routes_and_no_commands(server: Server) -> None:
    response = server.post("/api/query", json={"q": QUESTION, "document": "nothing.pdf"})
    assert response.status_code == 404 and response.json()["hint"] == "GET /api/documents shows what there is"


def test_a_defect_gives_nothing_away(server: Server) -> None:
    assert server.app is not None

    @server.app.get("/broken")
    def broken() -> None:
        raise ZeroDivisionError("the secret of the pump")

    response = server.get("/broken")
    assert response.status_code == 500 and response.json()["code"] == "internal_error"
    assert "pump" not in response.text and "Zero" not in response.text


def test_a_request_keeps_its_callers_id_when_it_is_sound(server: Server) -> None:
    assert server.get("/healthz", headers={"X-Request-Id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert server.get("/healthz", headers={"X-Request-Id": "a b\t{}"}).headers["x-request-id"] != "a b\t{}"


def test_every_answer_is_told_what_it_is(server: Server) -> None:
    headers = server.get("/healthz").headers
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"


# logs


def test_the_log_has_the_request_and_not_the_question(
    server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    formatter = JsonLines()
    with caplog.at_level(logging.INFO, "refdesk.http"):
        own_id = server.post("/api/query", json={"q": QUESTION}).headers["x-request-id"]
        assert _until(lambda: [one for one in caplog.records if getattr(one, "path", "") == "/api/query"])
        lines = [json.loads(formatter.format(record)) for record in caplog.records]
        line = next(one for one in lines if one.get("path") == "/api/query")
        assert line["status"] == 200 and line["method"] == "POST" and line["ms"] > 0 and own_id
        assert "tide gauge" not in str(lines)
        monkeypatch.setenv("REFDESK_LOG_QUESTIONS", "1")
        server.post("/api/query", json={"q": QUESTION})
        assert any(getattr(record, "question", "") == QUESTION for record in caplog.records)


def _until(holds: Callable[[], object], seconds: float = PATIENCE_S) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.01)
    return False


# health and figures


def test_health(server: Server) -> None:
    assert server.get("/healthz").json() == {"status": "ok"}
    ready = server.get("/readyz").json()
    assert ready["status"] == "ready" and ready["chunks"] > 10


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_is_told_without_words(server: Server, path: str) -> None:
    response = server.request("HEAD", path)
    assert response.status_code == 200 and response.content == b""


def test_a_library_that_is_gone_is_not_ready(examples_folder: Path, tmp_path: Path) -> None:
    """Connections that are open would go on reading a file that has no name any more, or another one's old place."""
    folder = tmp_path / "library"
    shutil.copytree(examples_folder, folder)
    with Refdesk(folder) as desk, serving(desk) as server:
        assert server.get("/readyz").status_code == 200
        folder.rename(tmp_path / "elsewhere")
        gone = server.get("/readyz")
        assert gone.status_code == 503 and gone.json()["status"] == "not ready" and gone.json()["reason"]
        assert server.get("/healthz").status_code == 200
        shutil.copytree(tmp_path / "elsewhere", folder)  # another one in its place
        assert server.get("/readyz").status_code == 503
        shutil.rmtree(folder)
        (tmp_path / "elsewhere").rename(folder)
        assert server.get("/readyz").json()["status"] == "ready"


def test_a_defect_keeps_its_words_to_the_log(examples_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "library"
    shutil.copytree(examples_folder, folder)
    with Refdesk(folder) as desk, serving(desk) as server:
        with sqlite3.connect(folder / "library.db") as connection:
            connection.execute("DROP TABLE messages")
        said = server.post("/api/chat", json={"message": QUESTION, "session_id": "x"})
        events = server.events("/api/chat/stream", {"message": QUESTION, "session_id": "x"})
        for problem in (said.json(), events[-1][1]):
            assert problem["request_id"] in problem["hint"], problem
            assert not {"sqlite", "SELECT", "INSERT", "sqlalche"} & set(re.split(r"\W", str(problem))), problem
        assert said.status_code == 500


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (LibraryError("/srv/lib/files cannot be written", hint="check /srv/lib"), 500, "something went wrong on"),
        (LibraryDamaged("the database in /srv/lib is damaged"), 500, "something went wrong on the server"),
        (ModelError("/srv/models/tiny.onnx does not open"), 500, "something went wrong on the server"),
        (AskError("/srv/lib failed", stage="retrieve"), 500, "the stage 'retrieve' failed"),
        (DiskFull("the disk that holds /srv/lib is full"), 507, "the server's disk is full"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else "",
)
def test_where_the_server_keeps_things_is_for_its_log(
    server: Server, caplog: pytest.LogCaptureFixture, error: RefdeskError, status: int, message: str
) -> None:
    assert server.app is not None
    path = f"/failing/{type(error).__name__}"

    @server.app.get(path)
    def failing() -> None:
        raise error

    response = server.get(path)
    said = response.json()
    assert response.status_code == status and said["message"].startswith(message) and "/srv" not in response.text
    assert said["code"] == error.code and said["stage"] == error.stage
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records if "/srv" in record.getMessage()]
    assert len(lines) == 1
    if status == 500:
        assert said["request_id"] in said["hint"] and lines[0]["request_id"] == said["request_id"]
        assert "Traceback" in lines[0]["exception"]


def test_where_the_server_keeps_uploads_is_not_told(desk: Refdesk) -> None:
    with pytest.raises(LibraryError) as told, Uploads(desk).receiving():
        raise OSError(errno.EACCES, "Permission denied", str(desk.files.waiting))
    assert told.value.sentence.startswith("the server cannot write to its upload folder")
    assert str(desk.folder) not in told.value.sentence
    assert str(desk.folder) in str(told.value.__cause__), "for the log"


def test_figures(server: Server) -> None:
    def figure(pattern: str) -> float:
        found = re.search(rf"^{pattern} ([0-9.e+-]+)$", server.get("/metrics").text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    asked = r'refdesk_requests_total\{method="POST",route="/api/query",status="200"\}'
    before = figure(asked), figure(r'refdesk_stage_seconds_count\{stage="retrieve"\}')
    server.post("/api/query", json={"q": QUESTION, "cache": False})
    assert (figure(asked), figure(r'refdesk_stage_seconds_count\{stage="retrieve"\}')) == (before[0] + 1, before[1] + 1)
    assert figure("refdesk_streams_open") == 0
    text = server.get("/metrics").text
    assert "refdesk_tokens_total" in text and "refdesk_cost_usd_total" in text and 'cached="exact"' in text


def test_workers_that_tell_their_figures_at_once_forget_the_dead_together(tmp_path: Path) -> None:
    """One of them finds the file that the other one is about to remove."""
    for number in range(300):
        (tmp_path / f"gauge_livesum_{9_000_000 + number}.db").touch()  # numbers that no process can have
    own = tmp_path / f"gauge_livesum_{os.getpid()}.db"
    own.touch()
    ready = threading.Barrier(4)

    def forget(_: int) -> None:
        ready.wait()
        _forget_the_dead(tmp_path)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(forget, range(4)))
    assert list(tmp_path.iterdir()) == [own]
