"""Several workers are one service: whichever is asked, an answer that another one writes is followed and stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx2
import pytest

from http_server import Event, Server, read_events, served
from redis_server import RedisServer, running_redis
from refdesk.serve.http.sse import Named, Streams
from timing import while_written
from wire_server import WireServer

TALK = "workers"
BODY = {"message": "What does the annual inspection of a tide gauge cost?", "session_id": TALK, "cache": False}
WAIT_S = 120.0


@pytest.fixture
def model() -> Iterator[WireServer]:
    with WireServer() as found:
        yield found


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with running_redis() as found:
        yield found


@contextmanager
def two_services(folder: Path, redis: RedisServer, model: WireServer) -> Iterator[list[Server]]:
    """As on two machines: they know nothing of one another but the library and Redis."""
    environment = model.openai_env("tiny-1b") | {"REFDESK_REDIS_URL": redis.url}
    with served(folder, **environment) as one, served(folder, **environment) as other:
        yield [one, other]


@pytest.fixture(params=["workers", "redis"])
def both(request: pytest.FixtureRequest, own_folder: Path, model: WireServer) -> Iterator[list[Server]]:
    """The same service twice, each by a connection that is kept to one of its workers; or two services over Redis."""
    if request.param == "redis":
        with two_services(own_folder, request.getfixturevalue("redis"), model) as found:
            yield found
        return
    with served(own_folder, "--workers", "2", **model.openai_env("tiny-1b")) as server, ExitStack() as stack:
        found: dict[int, Server] = {}
        while len(found) < 2:
            client = stack.enter_context(httpx2.Client(base_url=server.url, timeout=WAIT_S))
            found.setdefault(client.get("/readyz").json()["process"], Server(server.url, client))
        yield list(found.values())


def test_an_answer_is_followed_from_another_worker(both: list[Server], model: WireServer) -> None:
    here, there = both
    go_on = threading.Event()
    words = ["It ", "costs ", "1,240 euros. ", "[1]"]
    model.say(pieces=words, when=lambda: model.requests[-1].pieces_sent < 2 or go_on.is_set())
    others: list[Event] = []
    with here.client.stream("POST", "/api/chat/stream", json=BODY) as response:
        reading = read_events(response)
        first = next(event for event in reading if event[0] == "content")
        running = there.get(f"/api/conversations/{TALK}/messages").json()["running"]
        assert running["question"] == BODY["message"] and first[2].startswith(f"{running['stream']}-")
        follow = threading.Thread(
            target=lambda: others.extend(there.events("/api/chat/stream", BODY, last=f"{running['stream']}-0"))
        )
        follow.start()
        go_on.set()
        own = list(reading)
        follow.join(WAIT_S)
    assert own[-1][0] == "done" and others[-1] == own[-1] and first in others
    assert len(model.requests) == 1
    again = there.events("/api/chat/stream", BODY, last=first[2])
    assert again == others[others.index(first) + 1 :], "also what has ended, from where it was left"


def test_an_answer_is_stopped_from_another_worker(both: list[Server], model: WireServer) -> None:
    here, there = both
    model.hang("It costs 1,240 euros. [1] And the")
    with here.client.stream("POST", "/api/chat/stream", json=BODY) as response:
        for event in read_events(response):
            if event[0] == "content" and "And" in event[1]["token"]:
                assert there.post(f"/api/conversations/{TALK}/stop").json() == {"stopped": True}
    said = there.get(f"/api/conversations/{TALK}/messages").json()
    assert said["running"] is None
    place = f"/api/answers/{said['messages'][-1]['answer_id']}"
    assert model.wait_until(lambda: there.get(place).status_code == 200), "written in the background"
    answer = there.get(place).json()
    assert answer["stopped"] is True and "1,240 euros" in answer["content"] and model.requests[-1].disconnected
    assert there.post(f"/api/conversations/{TALK}/stop").json() == {"stopped": False}


def test_it_goes_on_while_somebody_follows_it(both: list[Server], model: WireServer) -> None:
    """Who asked has closed the page; a second one, at another worker, still reads."""
    here, there = both
    go_on = threading.Event()
    model.say(
        pieces=["It ", "costs ", "1,240 euros. ", "[1]"],
        when=lambda: model.requests[-1].pieces_sent < 2 or go_on.is_set(),
    )
    others: list[Event] = []
    begun = threading.Event()
    with here.client.stream("POST", "/api/chat/stream", json=BODY) as response:
        first = next(event for event in read_events(response) if event[0] == "content")

        def follow() -> None:
            last = f"{first[2].rpartition('-')[0]}-0"
            with there.client.stream("POST", "/api/chat/stream", json=BODY, headers={"Last-Event-ID": last}) as found:
                for event in read_events(found):
                    others.append(event)
                    begun.set()

        following = threading.Thread(target=follow)
        following.start()
        assert begun.wait(WAIT_S)
    threading.Event().wait(6.0)  # longer than the grace after which an answer that nobody reads ends
    go_on.set()
    following.join(WAIT_S)
    assert others[-1][0] == "done" and others[-1][1]["answer"]["stopped"] is False


def test_no_token_waits_for_the_database_of_the_others(tmp_path: Path) -> None:
    """Another worker may hold its lock: who writes an answer goes on, and the others see it afterwards."""

    async def words() -> AsyncGenerator[Named, None]:
        for number in range(50):
            yield "content", {"token": str(number)}

    async def answer() -> int:
        streams = Streams(tmp_path)
        with while_written(tmp_path / "streams.sqlite"):
            stream = streams.begin("anna", words(), about=("talk", "why"))
            with stream.reading() as news:
                while not stream.is_done:
                    await news.wait()
                    news.clear()
        others = Streams(tmp_path)
        while others._shared is None or len(others._shared.after(stream.id, 0)) < len(stream.parts):
            await asyncio.sleep(0.01)
        return len(stream.parts)

    assert asyncio.run(answer()) == 50


# Redis, and the services around it, come and go


def test_an_answer_goes_on_when_redis_is_restarted(own_folder: Path, model: WireServer) -> None:
    """Who reads it where it is written notices nothing; who follows it elsewhere gets the rest when Redis is back."""
    steps = threading.Semaphore(2)
    words = ["It ", "costs ", "1,240 ", "euros. ", "[1]"]
    model.say(pieces=words, when=lambda: steps.acquire(timeout=0.01))
    others: list[Event] = []
    with (
        running_redis() as redis,
        two_services(own_folder, redis, model) as (here, there),
        here.client.stream("POST", "/api/chat/stream", json=BODY) as response,
    ):
        reading = read_events(response)
        first = next(event for event in reading if event[0] == "content")
        last = f"{first[2].rpartition('-')[0]}-0"
        assert model.wait_until(lambda: there.get(f"/api/conversations/{TALK}/messages").json()["running"])
        redis.stop()
        away = there.get("/readyz")
        assert away.status_code == 200 and away.json()["status"] == "ready"
        assert away.json()["degraded"] == ["redis"] and "Redis is unavailable" in away.json()["redis"]
        redis.start()
        steps.release()
        assert next(event for event in reading if event[0] == "content")
        assert model.wait_until(lambda: "degraded" not in there.get("/readyz").json())
        assert model.wait_until(lambda: there.get(f"/api/conversations/{TALK}/messages").json()["running"])
        follow = threading.Thread(target=lambda: others.extend(there.events("/api/chat/stream", BODY, last=last)))
        follow.start()
        for _ in words:
            steps.release()
        own = list(reading)
        follow.join(WAIT_S)
    assert own[-1][0] == "done" and others[-1] == own[-1] and first in others


def test_an_answer_whose_service_is_killed_is_asked_again(own_folder: Path, model: WireServer) -> None:
    model.hang("It costs 1,240 euros. [1] And the")
    with running_redis() as redis, two_services(own_folder, redis, model) as (here, there):
        with here.client.stream("POST", "/api/chat/stream", json=BODY) as response:
            first = next(event for event in read_events(response) if event[0] == "content")
            assert here.process is not None
            here.process.kill()
        model.say("It costs 1,240 euros. [1]")
        last = f"{first[2].rpartition('-')[0]}-0"
        found: list[Event] = []
        while not found or found[-1][0] != "done":  # as a page does it: it comes back until there is an end
            found = there.events("/api/chat/stream", BODY, last=found[-1][2] if found and found[-1][2] else last)
        assert found[-1][1]["answer"]["question"] == BODY["message"] and len(model.requests) == 2


def test_without_redis_from_the_start(own_folder: Path, model: WireServer) -> None:
    """A service starts, answers, and says what is missing."""
    model.say("It costs 1,240 euros. [1]")
    environment = model.openai_env("tiny-1b") | {"REFDESK_REDIS_URL": "redis://127.0.0.1:1/0"}
    with served(own_folder, **environment) as server:
        assert server.get("/readyz").json()["degraded"] == ["redis"]
        for cached in ("no", "exact"):
            body = {"question": BODY["message"]}
            assert server.post("/api/query", json=body).json()["cached"] == cached, "in SQL meanwhile"
