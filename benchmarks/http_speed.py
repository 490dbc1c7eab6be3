"""What does serving cost beside answering? Start, SSE per token, cached requests, 200 streams against a slow model.

python -m benchmarks.http_speed [--streams 200] [--seconds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import Request

from benchmarks.common import ROOT, Figure, write
from benchmarks.streaming import EVERY_S, Heard, Load, ask_many, slow_model
from benchmarks.streaming import TOKENS as TOKENS_OF_MODEL
from refdesk import Refdesk
from refdesk.answer import Content, Event
from refdesk.serve.http.app import create_app
from refdesk.serve.http.asking import named_events
from refdesk.serve.http.sse import EventResponse

DOCUMENTS = ROOT / "examples" / "documents"
REFDESK = Path(sys.executable).with_name("refdesk")
START_S, TOKEN_MS, CACHED_PER_S, DELAY_MS, GROWTH, FAIR = 1.5, 0.2, 400, 250, 0.10, 1.5
TOKENS = 5_000
# Reads a stream to its end; each write of the server is a chunk with two line ends.
READ = """
import socket, sys
stream = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
head = ("POST /bench HTTP/1.1", "Host: localhost", "Content-Length: 0", "Connection: close", "", "")
stream.sendall("\\r\\n".join(head).encode())
ends = 0
while data := stream.recv(65536):
    ends += data.count(b"\\r\\n")
assert ends > int(sys.argv[2]), ends
"""
WORKERS = 2


def figures(streams: int = 200, seconds: float = 5.0) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library"
        with Refdesk(library) as desk:
            desk.add(DOCUMENTS)
        return [
            _start(library),
            _sse(library),
            _cached(library, seconds),
            *_streams(library, streams),
        ]


def _start(library: Path, rounds: int = 5) -> Figure:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        with served(library) as port:
            times.append(time.perf_counter() - began)
            assert port
    middle = statistics.median(times)
    return Figure(
        "first byte after `refdesk serve`, existing library",
        f"p50 {middle:.2f} s, best {min(times):.2f} s",
        f"≤ {START_S:g} s",
        middle <= START_S,
    )


def _sse(library: Path) -> Figure:
    """Processor time of the whole way from an event of the engine to the socket, one write for each token."""

    async def tokens() -> AsyncGenerator[Event, None]:
        for number in range(TOKENS):
            yield Content(f"word{number} ")
            for _ in range(4):
                await asyncio.sleep(0)  # so that each is sent by itself

    async def bare() -> None:
        async for _ in tokens():
            pass

    with Refdesk(library) as desk:
        app = create_app(desk)

        @app.post("/bench")
        async def bench(request: Request) -> EventResponse:
            service = request.app.state.service
            return EventResponse(service.streams.begin("", named_events(request, service, tokens())))

        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))

        async def measure() -> tuple[float, float]:
            running = asyncio.create_task(server.serve([listening]))
            while not server.started:
                await asyncio.sleep(0.01)
            spent = []
            for _ in range(3):
                before = time.process_time()
                await _read_elsewhere(listening.getsockname()[1])
                spent.append(time.process_time() - before)
            before = time.process_time()
            await bare()
            alone = time.process_time() - before
            server.should_exit = True
            await running
            return min(spent), alone

        spent, alone = asyncio.run(measure())
    each = (spent - alone) / TOKENS * 1000
    return Figure("SSE overhead per token, server side", f"{each:.3f} ms", f"≤ {TOKEN_MS:g} ms", each <= TOKEN_MS)


async def _read_elsewhere(port: int) -> None:
    """Another process reads the stream to its end."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", READ, str(port), str(2 * TOKENS))
    assert await process.wait() == 0


def _cached(library: Path, seconds: float) -> Figure:
    with served(library, "--workers", str(WORKERS)) as port:
        body = json.dumps({"q": "What does the annual inspection of a tide gauge cost?"}).encode()
        asyncio.run(Load(port, body).run(2.0, connections=8))  # both workers have it
        load = Load(port, body)
        took = asyncio.run(load.run(seconds, connections=16))
    rate = load.count / took
    return Figure(
        f"`/api/query` cached, {WORKERS} workers, the client on the same cores",
        f"{rate:.0f} requests/s, p95 {load.p95_ms:.0f} ms, {load.failed} failed",
        f"≥ {CACHED_PER_S}/s",
        rate >= CACHED_PER_S and not load.failed,
    )


def _streams(library: Path, count: int) -> Iterator[Figure]:
    ready = multiprocessing.Event()
    found = multiprocessing.Value("i", 0)
    model = multiprocessing.Process(target=slow_model, args=(found, ready), daemon=True)
    model.start()
    ready.wait(30)
    environment = {
        "REFDESK_LLM": "openai:slow-1b",
        "OPENAI_BASE_URL": f"http://127.0.0.1:{found.value}/v1",
        "OPENAI_API_KEY": "sk-none",
    }
    try:
        with served(library, "--workers", str(WORKERS), **environment) as port:
            asyncio.run(ask_many(port, count))  # loads what is loaded once
            rounds = []
            memory = []
            for _ in range(3):
                rounds.append(asyncio.run(ask_many(port, count)))
                memory.append(_memory())
            every = Heard.together(rounds)
            grown = memory[-1] / memory[0] - 1
    finally:
        model.terminate()
        model.join()
        what = f"{count} concurrent streams, slow model, {WORKERS} workers"
    yield Figure(what, f"{every.failed} of {3 * count} failed", "none fails", every.failed == 0)
    yield Figure(
        f"{what}: delay of an event",
        f"p50 {every.delay_ms(50):.0f} ms, p95 {every.delay_ms(95):.0f} ms, worst {every.delay_ms(100):.0f} ms",
        f"p95 ≤ {DELAY_MS} ms",
        every.delay_ms(95) <= DELAY_MS,
    )
    yield Figure(
        f"{what}: time of a whole answer", f"fastest {min(every.took):.1f} s, slowest {max(every.took):.1f} s", ""
    )
    # Fair: once it has begun, no stream is left behind by the others.
    fair = max(every.wrote) / min(every.wrote)
    yield Figure(
        f"{what}: first token to last, the model alone takes {TOKENS_OF_MODEL * EVERY_S:.1f} s",
        f"fastest {min(every.wrote):.1f} s, slowest {max(every.wrote):.1f} s",
        f"slowest ≤ {FAIR:g} × fastest",
        fair <= FAIR,
    )
    yield Figure(
        f"{what}: memory of the workers, first to third round",
        f"{memory[0] / 1e6:.0f} → {memory[-1] / 1e6:.0f} MB",
        f"flat (± {GROWTH:.0%})",
        grown <= GROWTH,
    )


_children: list[int] = []


def _memory() -> int:
    """Bytes that the server and its workers hold."""
    return sum(_resident(pid) for pid in _family(_children[-1]))


def _family(pid: int) -> list[int]:
    task = Path(f"/proc/{pid}/task/{pid}/children")
    below = [int(one) for one in task.read_text().split()] if task.is_file() else []
    return [pid, *(found for child in below for found in _family(child))]


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return 0


@contextmanager
def served(library: Path, *arguments: str, **environment: str) -> Iterator[int]:
    """`refdesk serve` on a copy of the environment; gives the port once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [str(REFDESK), "--library", str(library), "serve", "--port", str(port), *arguments],
        env={**os.environ, "REFDESK_LOG_LEVEL": "warning", **environment},
        stderr=subprocess.DEVNULL,
    )
    _children.append(process.pid)
    try:
        while True:
            assert process.poll() is None
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=5) as one:
                    one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    if one.recv(15).startswith(b"HTTP/1.1 200"):
                        break
            except OSError:
                time.sleep(0.005)
        yield port
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5.0)
    options: Any = parser.parse_args()
    write("http", "Serving", figures(options.streams, options.seconds))


if __name__ == "__main__":
    main()
