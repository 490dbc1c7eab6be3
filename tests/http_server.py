"""A real server over a real library: uvicorn in a thread on a free port, or `refdesk serve` as a process.

with serving(desk) as server:                         # in a thread, over a library that is open
    server.get("/healthz").json()
    server.post("/api/query", json={"q": "…"}, key=secret)
    for name, data, event_id in server.events("/api/chat/stream", {"message": "…"}): …
with served(folder, "--workers", "2") as server: …    # the command itself
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import httpx2
import uvicorn
from fastapi import FastAPI

from forked import ForkedProcess
from forked import environment as environment_of
from refdesk import Refdesk
from refdesk.serve.http.app import create_app
from refdesk.serve.http.guard import BoundedProtocol
from timing import PATIENCE_S

REFDESK = Path(sys.executable).with_name("refdesk")
Event = tuple[str, Any, str]  # name, data, id
Process = ForkedProcess | subprocess.Popen[bytes]
_logs: dict[int, IO[str]] = {}  # of the processes, by their ids


@dataclass
class Server:
    """What a test holds of a running server."""

    url: str
    client: httpx2.Client
    app: FastAPI | None = None
    process: Process | None = None

    def log_at_end(self, seconds: float = 120.0) -> str:
        """What the process said on standard error, once it has ended."""
        assert self.process is not None
        self.process.wait(seconds)
        return said_by(self.process)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def request(self, method: str, path: str, key: str = "", **options: Any) -> httpx2.Response:
        headers = dict(options.pop("headers", None) or {})
        if key:
            headers["Authorization"] = f"Bearer {key}"
        return self.client.request(method, path, headers=headers, **options)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx2.Response:
        return self.request("POST", path, **options)

    def events(self, path: str, body: Any = None, *, key: str = "", last: str = "", most: int = 0) -> list[Event]:
        """The events of a stream up to its end, or the first `most` of them."""
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        headers |= {"Last-Event-ID": last} if last else {}
        found: list[Event] = []
        with self.client.stream("POST", path, json=body, headers=headers) as response:
            assert response.status_code == 200, response.read()
            for event in read_events(response):
                found.append(event)
                if most and len(found) == most:
                    break
        return found


def read_events(response: httpx2.Response) -> Iterator[Event]:
    """Events as they come; comments and `retry` are left out."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            if "event" in fields:
                yield fields["event"], json.loads(fields["data"]), fields.get("id", "")
            fields = {}


@contextmanager
def serving(desk: Refdesk, *, protocol: type[BoundedProtocol] = BoundedProtocol, **options: Any) -> Iterator[Server]:
    """The app in a thread of this process; `options` are those of `create_app`."""
    app = create_app(desk, **options)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(
            app, http=protocol, log_config=None, access_log=False, timeout_graceful_shutdown=3, lifespan="on"
        )
    )
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    _wait(lambda: server.started)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    try:
        with httpx2.Client(base_url=url, timeout=PATIENCE_S) as client:
            yield Server(url, client, app)
    finally:
        server.should_exit = True
        thread.join(120)
        assert not thread.is_alive()


@contextmanager
def served(library: Path, *arguments: str, port: int = 0, **environment: str) -> Iterator[Server]:
    """`refdesk serve` as people start it; ended with Ctrl-C."""
    port = port or free_port()
    process = start_serve(library, *arguments, "--port", str(port), **environment)
    url = f"http://127.0.0.1:{port}"
    try:
        with httpx2.Client(base_url=url, timeout=PATIENCE_S) as client:
            wait_for(url, process)
            yield Server(url, client, process=process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def start_serve(library: Path, *arguments: str, **environment: str) -> Process:
    command = ["--library", str(library), "serve", *arguments]
    # Not a pipe, which nobody reads and which then is full.
    log = tempfile.NamedTemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed with the process of the tests
    if "--workers" not in arguments:
        process: Process = ForkedProcess(command, environment_of(environment), Path(os.devnull), Path(log.name))
    else:  # which start theirs from the program that was started
        process = subprocess.Popen(
            [str(REFDESK), *command], env=environment_of(environment), stdout=subprocess.DEVNULL, stderr=log
        )
    _logs[process.pid] = log
    return process


def said_by(process: Process) -> str:
    """What a process of `start_serve` has said on standard error."""
    log = _logs[process.pid]
    log.seek(0)
    return log.read()


def wait_for(url: str, process: Process, seconds: float = PATIENCE_S) -> float:
    """Seconds until the first byte came."""
    began = time.perf_counter()

    def answers() -> bool:
        assert process.poll() is None, said_by(process)
        try:
            return httpx2.get(f"{url}/healthz", timeout=5).status_code == 200
        except httpx2.TransportError:
            return False

    _wait(answers, seconds)
    return time.perf_counter() - began


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait(holds: Any, seconds: float = PATIENCE_S) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "the server did not start"
        time.sleep(0.01)
