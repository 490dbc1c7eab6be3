"""How much a key may do: requests in an hour, questions at a time, bytes in a request."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest

from http_server import serving
from redis_server import RedisServer, running_redis
from refdesk import Refdesk, Settings
from refdesk.errors import TooLarge, TooManyRequests
from refdesk.records import LOCAL, Caller
from refdesk.redis_link import RedisLink
from refdesk.serve.http.guard import HEAVY_AT_ONCE, LONGEST_BODY, OPEN_AT_ONCE, Guard, Limits, duration
from refdesk.serve.http.shared import Presence, RedisCounts, SqlCounts
from refdesk.serve.uploads import Form
from timing import PATIENCE_S
from wire_server import WireServer

ANNA, OTTO = Caller("k1", "anna", "reader"), Caller("k2", "otto", "reader")
TEN = Settings().changed({"serve.requests_per_hour": 10, "serve.concurrent_asks": 2})


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with running_redis() as found:
        yield found


@pytest.fixture(params=["one process", "one machine", "redis"])
def worker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Makes the limits of one more worker of the same service."""
    made: list[Limits] = []
    with contextlib.ExitStack() as stack:

        def limits(clock: Any = time.monotonic) -> Limits:
            if request.param == "redis":
                link = RedisLink(request.getfixturevalue("redis").url, str(tmp_path))
                presence = Presence(link)
                stack.callback(link.close)
                stack.callback(presence.close)
                return Limits(RedisCounts(presence, SqlCounts(), clock if isinstance(clock, Clock) else time.time))
            if request.param == "one machine":
                return Limits(tmp_path, clock)
            made.append(made[0] if made else Limits(clock=clock))
            return made[0]

        yield limits


def used_up(limits: Limits, caller: Caller = ANNA) -> int:
    """How many requests pass until one is refused."""
    for passed in range(1000):
        try:
            limits.count(caller, TEN)
        except TooManyRequests:
            return passed
    return 1000


def test_an_hour_passes(worker: Any) -> None:
    clock = Clock()
    limits = worker(clock)
    assert used_up(limits) == 10 and used_up(limits) == 0
    assert used_up(limits, OTTO) == 10  # each has his own
    clock.now += 3600 + 1800  # half of what was done in the hour before still counts
    assert used_up(limits) == 5
    clock.now += 3 * 3600
    assert used_up(limits) == 10


def test_it_says_when_to_come_back(worker: Any) -> None:
    clock = Clock()
    limits = worker(clock)
    used_up(limits)
    clock.now += 600
    with pytest.raises(TooManyRequests) as told:
        limits.count(ANNA, TEN)
    assert told.value.retry_after_s == 3000 and told.value.hint == "try again in 50 minutes"
    clock.now += told.value.retry_after_s + 1
    limits.count(ANNA, TEN)
    with pytest.raises(TooManyRequests) as told:
        limits.count(ANNA, TEN)
    assert 0 < told.value.retry_after_s < 1000  # the hour before fades, a tenth of it is enough
    clock.now += told.value.retry_after_s + 1
    limits.count(ANNA, TEN)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 second"),
        (1, "1 second"),
        (40.1, "41 seconds"),
        (90, "90 seconds"),
        (91, "2 minutes"),
        (3301.2, "56 minutes"),
        (3600, "60 minutes"),
    ],
)
def test_how_long_that_is(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_one_is_one(worker: Any) -> None:
    limits, one = worker(), Settings().changed({"serve.requests_per_hour": 1, "serve.concurrent_asks": 1})
    limits.count(ANNA, one)
    with pytest.raises(TooManyRequests, match="its 1 request for this hour"):
        limits.count(ANNA, one)
    limits.begin(ANNA, one)
    with pytest.raises(TooManyRequests, match=r"^a question of this key is already being answered$"):
        limits.begin(ANNA, one)


def test_whoever_sits_at_the_machine_has_no_limit() -> None:
    limits = Limits()
    for _ in range(100):
        limits.count(LOCAL, TEN)
        limits.begin(LOCAL, TEN)


def test_a_place_is_given_back(worker: Any) -> None:
    limits = worker()
    first, _ = limits.begin(ANNA, TEN), limits.begin(ANNA, TEN)
    with pytest.raises(TooManyRequests):
        limits.begin(ANNA, TEN)
    first()
    limits.begin(ANNA, TEN)


def test_workers_share_a_limit(worker: Any) -> None:
    """Whichever of them a client talks to, and all of it when that is one of them."""
    clock = Clock()
    one, two = worker(clock), worker(clock)
    for _ in range(4):
        one.count(ANNA, TEN)
    assert used_up(two) == 6 and used_up(one) == 0
    assert used_up(one, OTTO) == 10 and used_up(two, OTTO) == 0
    clock.now += 3 * 3600
    assert used_up(two) == 10 and used_up(one) == 0


def test_workers_share_the_questions_at_a_time(worker: Any) -> None:
    one, two = worker(), worker()
    first, _ = one.begin(ANNA, TEN), two.begin(ANNA, TEN)
    for limits in (one, two):
        with pytest.raises(TooManyRequests, match="2 questions"):
            limits.begin(ANNA, TEN)
    first()
    two.begin(ANNA, TEN)
    two.begin(OTTO, TEN)


def test_the_counts_of_a_worker_that_died_count_no_more(tmp_path: Path) -> None:
    """Killed in the middle of two questions; nobody would ever end them."""
    code = (
        "import sys; from pathlib import Path; from refdesk import Settings; from refdesk.records import Caller;"
        "from refdesk.serve.http.guard import Limits; limits = Limits(Path(sys.argv[1]));"
        "[limits.begin(Caller('k1', 'anna', 'reader'), Settings()) for _ in range(2)];"
        "print('ready', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    limits = Limits(tmp_path)
    with pytest.raises(TooManyRequests, match="2 questions"):
        limits.begin(ANNA, TEN)
    process.kill()
    process.wait()
    Limits(tmp_path).begin(ANNA, TEN)


def test_the_questions_of_a_process_that_is_gone_count_no_more_in_redis(redis: RedisServer, tmp_path: Path) -> None:
    links = [RedisLink(redis.url, str(tmp_path)) for _ in range(2)]
    gone, here = (Presence(link) for link in links)
    for _ in range(2):
        Limits(RedisCounts(gone, SqlCounts())).begin(ANNA, TEN)
    limits = Limits(RedisCounts(here, SqlCounts()))
    with pytest.raises(TooManyRequests, match="2 questions"):
        limits.begin(ANNA, TEN)
    gone.close()  # as when it has not been heard of for ten seconds
    limits.begin(ANNA, TEN)
    here.close()


def test_while_redis_is_away_each_machine_counts(tmp_path: Path) -> None:
    with running_redis() as redis:
        link = RedisLink(redis.url, str(tmp_path))
        presence = Presence(link)
        limits = Limits(RedisCounts(presence, SqlCounts()))
        for _ in range(4):
            limits.count(ANNA, TEN)
        first, second = limits.begin(ANNA, TEN), limits.begin(ANNA, TEN)
        redis.stop()
        assert used_up(limits) == 10, "counted anew, and still limited"
        third, _ = limits.begin(ANNA, TEN), limits.begin(ANNA, TEN)
        with pytest.raises(TooManyRequests):
            limits.begin(ANNA, TEN)
        first()
        third()
        limits.begin(ANNA, TEN)
        redis.start()
        until = time.monotonic() + PATIENCE_S
        while not link.is_there():
            assert time.monotonic() < until
            time.sleep(0.05)
        assert used_up(limits) == 10, "Redis keeps nothing here over a restart"
        second()
        presence.close()
        link.close()


def test_connections_that_stay_open() -> None:
    limits = Limits()
    with contextlib.ExitStack() as stack:
        for _ in range(OPEN_AT_ONCE + 2):
            stack.enter_context(limits.opened(ANNA, TEN))
        with pytest.raises(TooManyRequests, match="102 open requests"), limits.opened(ANNA, TEN):
            pass
        with limits.opened(OTTO, TEN), limits.opened(LOCAL, TEN):
            pass
    with limits.opened(ANNA, TEN):
        pass


def test_what_computes_for_long_takes_turns() -> None:
    """Ten of one key hold up that key alone."""
    limits, running, most = Limits(), 0, 0

    async def heavy(caller: Caller) -> None:
        nonlocal running, most
        async with limits.turn(caller):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1

    async def together() -> None:
        await asyncio.gather(*(heavy(ANNA) for _ in range(10)), heavy(OTTO))

    asyncio.run(together())
    assert most == HEAVY_AT_ONCE + 1


def test_a_key_s_heavy_requests_take_turns_at_the_guard(tmp_path: Path) -> None:
    """A reader who wants twelve texts made into HTML, or twelve pages drawn, at once does not get twelve threads."""
    running: list[str] = []
    most: list[int] = []

    async def counting(scope: Any, receive: Any, send: Any) -> None:
        running.append(scope["path"])
        most.append(len(running))
        await asyncio.sleep(0.05)  # all of them meet, however busy the machine is
        running.pop()

    async def together(guard: Guard, path: str, secret: str) -> int:
        most.clear()
        headers = [(b"x-api-key", secret.encode())]
        scopes = [
            {"type": "http", "method": "GET", "path": path, "headers": headers, "state": {"request_id": "1"}}
            for _ in range(12)
        ]
        await asyncio.gather(*(guard(scope, counting, counting) for scope in scopes))  # type: ignore[arg-type]
        return max(most)

    with Refdesk(tmp_path / "library") as desk:
        secret = desk.keys.add("anna", "reader")[1]
        for path, expected in (("/page/render", 2), ("/api/documents/x/pages/1/image", 2), ("/api/me", 12)):
            guard = Guard(counting, desk, Limits(), is_local=True, needs_key=False)
            assert asyncio.run(together(guard, path, secret)) == expected


def test_a_sign_in_counts_as_a_request(tmp_path: Path) -> None:
    with Refdesk(tmp_path / "library", settings={"serve.requests_per_hour": 2}) as desk:
        secret = desk.keys.add("anna", "reader")[1]
        with serving(desk) as server:
            said = [server.client.post("/api/session", json={"key": secret}, headers={"Cookie": ""}) for _ in range(3)]
            assert [one.status_code for one in said] == [200, 200, 429]


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
            assert server.post("/api/query", content=unannounced(), timeout=PATIENCE_S).status_code == 413
        assert server.get("/healthz").status_code == 200


def test_a_body_that_does_not_come(examples: Refdesk) -> None:
    multipart = "multipart/form-data; boundary=x"
    with serving(examples, silence_s=0.3) as server:
        for path, kind in (("/api/query", "application/json"), ("/api/documents", multipart)):
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection:
                head = (
                    f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: 99\r\n\r\n{{"
                )
                connection.sendall(head.encode())
                assert connection.recv(4096).startswith(b"HTTP/1.1 408 ")
        # What waits after the body was sent whole is the client, and may wait for as long as the answer takes.
        with server.client.stream("GET", "/api/uploads/events") as response:
            time.sleep(0.5)
            assert response.status_code == 200 and next(response.iter_lines()).startswith("retry")


class AttachedFile:
    """A spool that only hands out files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0

    @contextlib.contextmanager
    def receiving(self) -> Iterator[tuple[str, IO[bytes]]]:
        self.count += 1
        with (self.folder / str(self.count)).open("xb") as file:
            yield str(self.count), file


def part(number: int, name: str, body: bytes = b"") -> bytes:
    head = f'--x\r\nContent-Disposition: form-data; name="{name}"; filename="{number}.txt"\r\n\r\n'
    return head.encode() + body + b"\r\n"


@pytest.mark.parametrize(
    "piece",
    [
        part(0, "files").replace(b"0.txt", b""),
        b'--x\r\nContent-Disposition: form-data; name="same"\r\n\r\n\r\n',
        part(0, "files", b"1"),
    ],
    ids=["files_without_a_name", "one_field_again_and_again", "files"],
)
def test_a_form_of_endless_parts(tmp_path: Path, piece: bytes) -> None:
    spool = AttachedFile(tmp_path)
    with contextlib.ExitStack() as stack, pytest.raises(TooLarge):
        form = Form(spool.receiving, stack, "multipart/form-data; boundary=x", 1)
        for _ in range(100):
            form.feed(piece * 20)
    assert spool.count <= 1100


def test_a_form_with_much_beside_its_files(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack, pytest.raises(TooLarge, match="8 MB beside"):
        form = Form(AttachedFile(tmp_path).receiving, stack, "multipart/form-data; boundary=x", 1)
        form.feed(part(0, "files", b"1") + b"--x--\r\n")
        for _ in range(20):  # what follows the end
            form.feed(b"y" * (1 << 20))


def test_a_form_of_many_files_holds_few_of_them_open(tmp_path: Path) -> None:
    """A process may have 256 or 1,024 open, and connections are among them."""
    with contextlib.ExitStack() as stack:
        form = Form(AttachedFile(tmp_path).receiving, stack, "multipart/form-data; boundary=x", 1)
        for number in range(200):
            form.feed(part(number, "files", b"1"))
        assert sum(not one.file.closed for one in form.files) <= 1
        assert len(form.files) >= 199 and (tmp_path / "7").read_bytes() == b"1"
