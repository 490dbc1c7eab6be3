"""How much a key may do: requests in an hour, questions at a time, bytes in a request."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from http_server import serving
from refdesk import Refdesk, Settings
from refdesk.access import LOCAL, Caller
from refdesk.errors import TooManyRequests
from refdesk.serve.http.limits import LONGEST_BODY, Limits
from wire_server import WireServer

ANNA, OTTO = Caller("k1", "anna", "reader"), Caller("k2", "otto", "reader")
TEN = Settings().changed({"serve.requests_per_hour": 10, "serve.concurrent_asks": 2})


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def used_up(limits: Limits, caller: Caller = ANNA) -> int:
    """How many requests pass until one is refused."""
    for passed in range(1000):
        try:
            limits.count(caller, TEN)
        except TooManyRequests:
            return passed
    return 1000


def test_an_hour_passes() -> None:
    clock = Clock()
    limits = Limits(clock=clock)
    assert used_up(limits) == 10 and used_up(limits) == 0
    assert used_up(limits, OTTO) == 10  # each has his own
    clock.now += 3600 + 1800  # half of what was done in the hour before still counts
    assert used_up(limits) == 5
    clock.now += 3 * 3600
    assert used_up(limits) == 10


def test_it_says_when_to_come_back() -> None:
    clock = Clock()
    limits = Limits(clock=clock)
    used_up(limits)
    clock.now += 600
    with pytest.raises(TooManyRequests) as told:
        limits.count(ANNA, TEN)
    assert told.value.retry_after_s == 3000
    clock.now += told.value.retry_after_s + 1
    limits.count(ANNA, TEN)
    with pytest.raises(TooManyRequests) as told:
        limits.count(ANNA, TEN)
    assert 0 < told.value.retry_after_s < 1000  # the hour before fades, a tenth of it is enough
    clock.now += told.value.retry_after_s + 1
    limits.count(ANNA, TEN)


def test_whoever_sits_at_the_machine_has_no_limit() -> None:
    limits = Limits()
    for _ in range(100):
        limits.count(LOCAL, TEN)
        limits.begin(LOCAL, TEN)


def test_a_place_is_given_back() -> None:
    limits = Limits()
    first, _ = limits.begin(ANNA, TEN), limits.begin(ANNA, TEN)
    with pytest.raises(TooManyRequests):
        limits.begin(ANNA, TEN)
    first()
    limits.begin(ANNA, TEN)


def test_workers_share_a_limit() -> None:
    assert used_up(Limits(workers=2)) == 5


def test_questions_at_a_time(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with WireServer() as model:
        for name, value in model.openai_env("tiny-1b").items():
            monkeypatch.setenv(name, value)
        model.hang("It costs")
        model.say("It costs 5 euros. [1]", times=2)
        with Refdesk(own_folder, settings={"serve.concurrent_asks": 1}) as desk:
            key, other = desk.keys.add("anna", "reader")[1], desk.keys.add("otto", "reader")[1]
            body = {"message": "What does the annual inspection of a tide gauge cost?", "cache": False}
            with serving(desk) as server:
                headers = {"Authorization": f"Bearer {key}"}
                with server.client.stream("POST", "/api/chat/stream", json=body, headers=headers) as response:
                    lines = response.iter_lines()
                    next(lines)
                    assert model.wait_until(lambda: len(model.requests) == 1)  # this one hangs
                    for path, asked in (("/api/chat", body), ("/api/chat/stream", body)):
                        refused = server.post(path, json=asked, key=key)
                        assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
                    assert server.post("/api/chat", json=body, key=other).status_code == 200
                assert model.wait_until(lambda: server.post("/api/chat", json=body, key=key).status_code == 200)


def test_a_body_that_is_too_long(examples: Refdesk) -> None:
    with serving(examples) as server:
        response = server.post("/api/query", content=b'{"q": "' + b"x" * (LONGEST_BODY + 1) + b'"}')
        assert response.status_code == 413 and response.json()["code"] == "too_large"

        def unannounced() -> Iterator[bytes]:
            for _ in range(4 * LONGEST_BODY // 65536):
                yield b"x" * 65536

        with contextlib.suppress(httpx2.TransportError):  # the server may close it in the middle of the body
            assert server.post("/api/query", content=unannounced(), timeout=10).status_code == 413
        assert server.get("/healthz").status_code == 200
