"""How fast do two workers add into one PostgreSQL when embedding costs nothing?

The figure of the bar: `refdesk worker` twice, as processes of their own, from a queue of uploaded files to documents
that are found. What reads, cuts, enriches and stores is the program's own; vectors come by chance instead of from a
model. `python -m benchmarks.postgres` runs it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import DATA, Figure, read_jsonl
from refdesk import Refdesk
from refdesk.ports import Embedded
from refdesk.providers.shipped import ShippedTokenizer
from refdesk.records import LOCAL
from refdesk.serve.uploads import Uploads, new_upload
from refdesk.serve.worker import UploadWorker
from refdesk.types import Chunk

WORKERS = 2
PASSAGES = 24  # of a document
DIMENSIONS = 384


class ByChance:
    """An embedder that costs next to nothing: its vectors are cut out of one row of numbers."""

    name, dimensions, max_tokens = "by-chance", DIMENSIONS, 256

    def __init__(self) -> None:
        numbers = np.random.default_rng(3)
        rows = numbers.standard_normal((4096, DIMENSIONS)).astype(np.float32)
        self._rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self._sentences = numbers.integers(-127, 127, (256, DIMENSIONS)).astype(np.int8)
        self._tokenizer, self._next = ShippedTokenizer(), os.getpid()

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._tokenizer.count(texts)

    def embed_query(self, text: str) -> Any:
        return self._rows[len(text) % len(self._rows)]

    def embed_chunks(self, chunks: Sequence[Chunk]) -> list[Embedded]:
        self._next += len(chunks)
        return [
            Embedded(self._rows[(self._next + n) % 4096], self._sentences[: len(chunk.sentences)])
            for n, chunk in enumerate(chunks)
        ]


def texts(count: int) -> list[str]:
    """Markdown of real passages, no two alike."""
    rows = [str(row["text"]) for row in read_jsonl(DATA / "retrieval" / "squad_dev11" / "corpus.jsonl")]
    made = []
    for number in range(count):
        chosen = [rows[(number * 7 + 13 * place) % len(rows)] for place in range(PASSAGES)]
        parts = [f"## {place} Section\n\n{text}\n" for place, text in enumerate(chosen, 1)]
        made.append(f"# Report {number}\n\n" + "\n".join(parts))
    return made


def added(url: str, folder: Path, count: int, cpu_seconds: Callable[[], float]) -> list[Figure]:
    """`count` documents through two workers; the clock runs from their start to the last document that is ready."""
    shutil.rmtree(folder, ignore_errors=True)
    os.environ["REFDESK_FILES_URL"] = str(folder / "files")
    with Refdesk(folder / "node", database=url, embedder=ByChance()) as desk:
        uploads = Uploads(desk)
        for number, text in enumerate(texts(count)):
            data = text.encode()
            with uploads.receiving() as (upload_id, file):
                file.write(data)
                uploads.accept(new_upload(upload_id, f"{number}.md", "default", LOCAL, size=len(data)), file)
        command = [sys.executable, "-m", "benchmarks.adding", url]
        workers = [
            subprocess.Popen([*command, str(folder / f"worker-{n}")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            for n in range(WORKERS)
        ]
        try:
            for worker in workers:
                assert worker.stdout is not None and worker.stdout.readline() == b"ready\n"
            began, used = time.perf_counter(), cpu_seconds()
            for worker in workers:
                assert worker.stdin is not None
                worker.stdin.write(b"go\n")
                worker.stdin.flush()
            while desk.jobs.waiting():
                time.sleep(0.1)
            took, server = time.perf_counter() - began, cpu_seconds() - used
            spent = sum(float((worker.communicate()[0] or b"0").split()[-1]) for worker in workers)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        chunks = desk.counts()["chunks"]
        failed = [job.reason for job in desk.jobs.all().values() if job.status != "ready"]
        assert not failed, failed[:3]
    rate, busy = chunks / took, 1000 * (server + spent) / chunks
    return [
        Figure(
            f"adding {count:,} files by {WORKERS} workers, embedding excluded: {chunks:,} chunks in {took:.1f} s",
            f"{rate:,.0f} chunks/s",
            "≥ 1,000",
            rate >= 1000,
        ),
        Figure(
            "the same: seconds of a core for 1,000 chunks",
            f"{busy:.2f} ({1000 * spent / chunks:.2f} workers, {1000 * server / chunks:.2f} database)",
        ),
    ]


def work(url: str, folder: str) -> None:
    """One worker: says when it is there, waits for a word, works until nothing waits, says what it spent."""
    with Refdesk(folder, database=url, embedder=ByChance()) as desk:
        print("ready", flush=True)
        sys.stdin.readline()
        worker = UploadWorker(desk, is_one_of_many=True)
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        while desk.jobs.waiting():
            time.sleep(0.2)
        worker.stop()
        thread.join(20)
    spent = os.times()
    print(spent.user + spent.system + spent.children_user + spent.children_system, flush=True)


if __name__ == "__main__":
    work(*sys.argv[1:])
