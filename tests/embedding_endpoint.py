"""An OpenAI-compatible endpoint for embeddings, on this machine."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

DIMENSIONS = 8


def vector_of(text: str) -> list[float]:
    """A direction that belongs to the text alone, not of unit length."""
    return (np.random.default_rng(sum(text.encode())).normal(size=DIMENSIONS) * 3).tolist()


def unit(text: str) -> np.ndarray:
    vector = np.array(vector_of(text), dtype=np.float32)
    return vector / np.linalg.norm(vector)


class Reply:
    """What the server does with one request: status, headers and body, or nothing good."""

    def __init__(self, status: int = 200, body: bytes | None = None, *, delay: float = 0, **headers: str) -> None:
        self.status, self.body, self.delay, self.headers = status, body, delay, headers


class Endpoint:
    """An OpenAI-compatible endpoint that first plays `script` and then answers properly, last text first."""

    def __init__(self) -> None:
        self.script: list[Reply] = []
        self.requests: list[dict[str, Any]] = []
        self.moments: list[float] = []  # of each of them
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[dict[str, Any]], Any] = self.proper
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.requests.append(json.loads(body) | {"path": self.path})
                endpoint.moments.append(time.monotonic())
                endpoint.headers.append(dict(self.headers))
                reply = endpoint.script.pop(0) if endpoint.script else Reply()
                time.sleep(reply.delay)
                content = reply.body
                if content is None:
                    content = json.dumps(endpoint.answer(endpoint.requests[-1])).encode()
                self.send_response(reply.status)
                for name, value in ({"Content-Length": str(len(content))} | reply.headers).items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # the client may have gone away, tired of waiting
                    self.wfile.write(content)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    @staticmethod
    def proper(request: dict[str, Any]) -> Any:
        data = [{"index": i, "embedding": vector_of(text)} for i, text in enumerate(request["input"])]
        return {"data": data[::-1]}


@contextlib.contextmanager
def running_endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    thread = threading.Thread(target=endpoint.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        endpoint.server.shutdown()
        endpoint.server.server_close()
