"""What do documents over HTTP cost? Uploads while questions are asked, memory of a large one, page images.

python -m benchmarks.uploads
"""

from __future__ import annotations

import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.common import ROOT, Figure, write
from refdesk import Refdesk

DOCUMENTS = ROOT / "examples" / "documents"
REFDESK = Path(sys.executable).with_name("refdesk")
FILES, ASKERS, LARGE_MB = 20, 2, 190
QUESTIONS = (
    "When is the price list revised?",
    "How heavy is the buoy?",
    "What is the budget?",
    "Who signed the letter?",
)


def figures() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library"
        with Refdesk(library) as desk:
            desk.add(DOCUMENTS)
        with _served(library) as (client, process):
            return [*_while_asking(client), _memory(client, process, Path(folder) / "large.bin"), *_images(client)]


def _while_asking(client: httpx2.Client) -> list[Figure]:
    times: list[float] = []
    failed: list[Any] = []
    done = threading.Event()

    def ask(first: int) -> None:
        with httpx2.Client(base_url=client.base_url, timeout=60) as own:
            for number in range(first, 100_000):
                if done.is_set():
                    return
                began = time.perf_counter()
                answer = own.post("/api/query", json={"q": QUESTIONS[number % len(QUESTIONS)], "cache": False})
                times.append(time.perf_counter() - began)
                if answer.status_code != 200:
                    failed.append(answer.text)

    askers = [threading.Thread(target=ask, args=(number,)) for number in range(ASKERS)]
    for one in askers:
        one.start()
    began, sent = time.perf_counter(), []
    for number in range(FILES):
        text = f"# Note {number}\n\n" + f"The buoy {number} was moored in the outer harbour. " * 20
        before = time.perf_counter()
        answer = client.post("/api/documents", files={"files": (f"note-{number}.md", text.encode())})
        sent.append(time.perf_counter() - before)
        if answer.status_code != 202:
            failed.append(answer.text)
    _wait(client)
    seconds = time.perf_counter() - began
    done.set()
    for one in askers:
        one.join()
    times.sort()
    asked = f"{len(times)} asked, p50 {_ms(times)} ms, p95 {times[int(len(times) * 0.95)] * 1000:.0f} ms"
    return [
        Figure(f"{FILES} small files while {ASKERS} ask: failed requests", str(len(failed)), "0", not failed),
        Figure(f"{FILES} small files, from the first byte to all ready", f"{seconds:.1f} s"),
        Figure("one upload accepted, safely on disk", f"p50 {_ms(sent)} ms"),
        Figure("questions meanwhile, not from the cache", asked),
    ]


def _memory(client: httpx2.Client, process: subprocess.Popen[str], path: Path) -> Figure:
    with path.open("wb") as file:
        for _ in range(LARGE_MB):
            file.write(os.urandom(1 << 20))
    before, began = _peak_mb(process.pid), time.perf_counter()
    with path.open("rb") as file:
        assert client.post("/api/documents", files={"files": ("large.bin", file)}).status_code == 202
    seconds = time.perf_counter() - began
    _wait(client)
    grown = _peak_mb(process.pid) - before
    said = f"+{grown:.0f} MB at {LARGE_MB / seconds:.0f} MB/s"
    return Figure(f"the server's memory while {LARGE_MB} MB come in", said, "≤ 32 MB", grown <= 32)


def _images(client: httpx2.Client) -> Iterator[Figure]:
    listed = client.get("/api/documents", params={"limit": 100}).json()["documents"]
    pages = [f"/api/documents/{one['id']}/pages/1/image" for one in listed if one["format"] == "pdf"]
    for format in ("png", "webp"):
        spent: dict[str, list[float]] = {"drawn": [], "kept": [], "304": []}
        for page in pages:
            tag = ""
            for kind, times in spent.items():
                headers = {"If-None-Match": tag} if kind == "304" else {}
                began = time.perf_counter()
                with client.stream("GET", page, params={"width": 1000, "format": format}, headers=headers) as answer:
                    times.append(time.perf_counter() - began)
                    answer.read()
                    tag = answer.headers["etag"]
        said = ", ".join(f"{kind} {_ms(times)} ms" for kind, times in spent.items())
        yield Figure(f"first byte of a page image, {format}, 1000 pixels ({len(pages)} PDFs)", said)


@contextmanager
def _served(library: Path) -> Iterator[tuple[httpx2.Client, subprocess.Popen[str]]]:
    command = [str(REFDESK), "--library", str(library), "serve", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"http://[\d.]+:\d+", process.stderr.readline())
        assert found is not None
        threading.Thread(target=process.stderr.read, daemon=True).start()  # the log, which nobody reads
        with httpx2.Client(base_url=found[0], timeout=120) as client:
            _until(lambda: _answers(client))
            yield client, process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def _answers(client: httpx2.Client) -> bool:
    try:
        return client.get("/healthz").status_code == 200
    except httpx2.TransportError:
        return False


def _wait(client: httpx2.Client) -> None:
    _until(lambda: all(one["status"] in ("ready", "failed") for one in client.get("/api/uploads").json()["uploads"]))


def _until(holds: Any, seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.1)


def _peak_mb(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def _ms(times: list[float]) -> str:
    return f"{statistics.median(times) * 1000:.0f}"


if __name__ == "__main__":
    write("uploads", "Documents over HTTP", figures())
