"""The other side of the HTTP benchmarks: a client that costs little, and a model that writes slowly.

The model writes the time into each token, so that whoever reads it at the far end knows how long it was on its way.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

TOKENS, EVERY_S = 100, 0.05  # a small model on a laptop: twenty tokens a second
QUESTION = "What does the inspection number {number} of a tide gauge cost?"
_STAMP = re.compile(r"t(\d{10}\.\d{4})")


class Load:
    """The same request over and over, on connections that stay open."""

    def __init__(self, port: int, body: bytes, path: str = "/api/query") -> None:
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self._port = port
        self._times: list[float] = []
        self.failed = 0

    @property
    def count(self) -> int:
        return len(self._times)

    @property
    def p95_ms(self) -> float:
        return sorted(self._times)[int(len(self._times) * 0.95)] * 1000

    async def run(self, seconds: float, connections: int) -> float:
        began = time.perf_counter()
        await asyncio.gather(*(self._one(began + seconds) for _ in range(connections)))
        return time.perf_counter() - began

    async def _one(self, until: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while (began := time.perf_counter()) < until:
            writer.write(self._request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1])  # type: ignore[index]
            await reader.readexactly(length)
            if head.startswith(b"HTTP/1.1 200"):
                self._times.append(time.perf_counter() - began)
            else:
                self.failed += 1
        writer.close()


@dataclass
class Heard:
    """What the readers of many streams saw."""

    failed: int = 0
    delays: list[float] = field(default_factory=list)
    took: list[float] = field(default_factory=list)
    wrote: list[float] = field(default_factory=list)  # from the first token to the last

    @classmethod
    def together(cls, rounds: Sequence[Heard]) -> Heard:
        return cls(
            sum(one.failed for one in rounds),
            [delay for one in rounds for delay in one.delays],
            [took for one in rounds for took in one.took],
            [wrote for one in rounds for wrote in one.wrote],
        )

    def delay_ms(self, percent: int) -> float:
        ordered = sorted(self.delays)
        return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1000


async def ask_many(port: int, count: int) -> Heard:
    """So many streams at once, each with a question of its own."""
    heard = Heard()
    await asyncio.gather(*(_listen(port, number, heard) for number in range(count)))
    return heard


async def _listen(port: int, number: int, heard: Heard) -> None:
    body = json.dumps({"message": QUESTION.format(number=number), "cache": False}).encode()
    head = "POST /api/chat/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close"
    began, last = time.time(), ""
    tokens: list[float] = []
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        writer.write(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        async for raw in reader:
            line = raw.decode()
            if line.startswith("event: "):
                last = line[7:].strip()
            elif line.startswith("data: ") and last == "content":
                moment = time.time()
                tokens.append(moment)
                heard.delays += [moment - float(stamp) for stamp in _STAMP.findall(line)]
        writer.close()
    except OSError:
        last = ""
    heard.failed += last != "done"
    heard.took.append(time.time() - began)
    heard.wrote += [tokens[-1] - tokens[0]] if tokens else []


def slow_model(port: Any, ready: Any) -> None:
    """A process of its own that speaks OpenAI's format: the time, every fiftieth of a second, a hundred times."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE)[1]))  # type: ignore[index]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for place in range(TOKENS):
            await asyncio.sleep(EVERY_S)
            end = " [1]." if place == TOKENS - 1 else ""
            delta = {"choices": [{"index": 0, "delta": {"content": f"t{time.time():.4f} {end}"}}]}
            writer.write(b"data: " + orjson.dumps(delta) + b"\n\n")
            await writer.drain()
        writer.write(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(_quiet(serve), "127.0.0.1", 0, limit=1 << 22, backlog=1000)
        port.value = server.sockets[0].getsockname()[1]
        ready.set()
        await server.serve_forever()

    asyncio.run(main())


def _quiet(serve: Any) -> Any:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    return served
