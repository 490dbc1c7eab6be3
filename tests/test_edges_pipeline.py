"""How are documents handed out, embedded and written? Every batch and every progress of one add, by a clock of its own.

The workers and the writer are small ones of this file: the pipeline knows them by its ports alone.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from golden_files import check
from refdesk.errors import DocumentError, LibraryError, RefdeskError, TooLarge
from refdesk.ingest.pipeline import Finished, NewDocument, Pipeline
from refdesk.ingest.worker import Preparer, _distinct, readable_name
from refdesk.ingest.workers import PrepareTask, Setup, Task, WorkerEvent, decode, encode
from refdesk.records import Prepared
from refdesk.settings import Settings
from refdesk.types import Chunk, Document, Page, Progress

STEP_S = 0.25  # passes whenever the workers are asked


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Hands:
    """Does what is handed in at the next look, in order; embedding fails for chunks that are told to."""

    def __init__(self, clock: Clock, size: int = 2, progress: bool = False) -> None:
        self.clock, self.size, self.progress = clock, size, progress
        self.waiting: deque[tuple[int, Any]] = deque()
        self.log: list[str] = []
        self.failing: dict[str, list[RefdeskError]] = {}

    @property
    def idle(self) -> bool:
        return len(self.waiting) < self.size

    def submit(self, ticket: int, task: Any, *, time_limit_s: float, file_time_limit_s: float = 0.0) -> None:
        self.waiting.append((ticket, task))
        said = f"embed {len(task)}" if isinstance(task, tuple) else f"prepare {task.name}"
        self.log.append(f"{ticket} {said} {time_limit_s:g}")

    def cancel(self, ticket: int) -> None:
        self.waiting = deque(one for one in self.waiting if one[0] != ticket)
        self.log.append(f"cancel {ticket}")

    def events(self, timeout_s: float) -> Iterator[WorkerEvent]:
        self.clock.now += STEP_S if timeout_s else 0.5 * STEP_S
        if not self.waiting:
            return
        ticket, task = self.waiting.popleft()
        names = {chunk.document_id for chunk in task} if isinstance(task, tuple) else {task.name}
        for name in sorted(names):
            if self.failing.get(name):
                yield WorkerEvent(ticket, "failed", self.failing[name].pop(0))
                return
        if isinstance(task, tuple):
            yield WorkerEvent(ticket, "done", [np.zeros(2, np.float32)] * len(task))
            return
        if self.progress:
            yield WorkerEvent(ticket, "progress", (1, task.pages))
        yield WorkerEvent(ticket, "done", SimpleNamespace(prepared=task.prepared()))


class File(SimpleNamespace):
    def prepared(self) -> Prepared:
        pages = tuple(Page(number + 1, 1, 1, number, number + 1) for number in range(self.pages))
        chunks = tuple(
            Chunk(self.name, number + 1, "text", "It.", (), (1,), (), (), 2) for number in range(self.chunks)
        )
        return Prepared(Document(self.name, self.name, "", "h", "ready"), "It.", pages, chunks)


def source(name: str, chunks: int, pages: int = 1, job: str = "") -> NewDocument:
    document = Document(name, name, "", "h", "pending", source=name)
    return NewDocument(document, File(name=name, chunks=chunks, pages=pages), size=100 * (chunks + 1), job=job)


class Shelf:
    """Writes down what is stored, what failed and what was put down."""

    def __init__(self, log: list[str]) -> None:
        self.log = log
        self.attached: dict[str, list[NewDocument]] = {}

    def begin(self, source: NewDocument) -> None:
        self.log.append(f"begin {source.document.name}")

    def store(self, batch: Sequence[Finished]) -> list[NewDocument]:
        self.log.append(f"store {[(one.source.document.name, len(one.embedded)) for one in batch]}")
        return [more for one in batch for more in self.attached.pop(one.source.document.name, [])]

    def fail(self, source: NewDocument, error: RefdeskError) -> None:
        self.log.append(f"fail {source.document.name}: {error}")

    def put_down(self, source: NewDocument) -> None:
        self.log.append(f"put down {source.document.name}")


def run(
    sources: list[NewDocument],
    *,
    size: int = 2,
    progress: bool = False,
    failing: dict[str, list[RefdeskError]] | None = None,
    attached: dict[str, list[NewDocument]] | None = None,
    unwanted: Callable[[float], Collection[str]] = lambda now: (),
) -> list[Any]:
    """What was done in its order, and every progress that was told."""
    clock = Clock()
    hands = Hands(clock, size, progress)
    hands.failing = failing or {}
    shelf = Shelf(hands.log)
    shelf.attached = attached or {}
    seen: list[Progress] = []

    def told(now: Progress) -> None:
        seen.append(now)
        hands.log.append(f"progress {len(seen)}")

    # The clock is the outside here: how long things take must not depend on the machine.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", clock)
        pipeline = Pipeline(
            hands,
            shelf,
            lambda chunks: chunks,
            told,
            time_limit_s=7.0,
            file_time_limit_s=9.0,
            unwanted=lambda: unwanted(clock.now),
        )
        pipeline.run(sources)
    # The clock begins at 1000, so that a third decimal of a quarter second shows.
    rows = [list(asdict(one).values()) for one in seen]
    return [hands.log, rows]


def freeze(name: str, value: object) -> None:
    check("edges-pipeline.json", value, name)


def test_small_documents() -> None:
    sizes = [0, 1, 2, 29, 31, 32, 33, 64, 5]
    freeze(
        "small", run([source(f"{size}.txt", size, pages=size % 3 + 1, job=f"j{size}") for size in sizes], progress=True)
    )


def test_large_documents_wait_for_their_vectors() -> None:
    """No further document is parsed while 1,024 chunks wait."""
    for size in (1022, 1023, 1024, 1025):
        log, rows = run([source("a.pdf", size), source("b.pdf", 3), source("c.md", 300), source("d.md", 1)], size=1)
        kept = [one for one in log if not one.startswith("progress")]
        freeze(f"large {size}", [kept[:6], len(kept), rows[2:40:9], [one for one in kept if one.startswith("store")]])


@pytest.mark.parametrize("size", [127, 128, 129, 255, 256, 257])
def test_what_is_written_in_one_go(size: int) -> None:
    log, rows = run([source(f"{n}.txt", size) for n in range(3)] + [source("z.txt", 1)], size=9)
    freeze(f"written {size}", [one for one in log if one.startswith(("store", "progress"))] + rows[-2:])


def test_documents_that_fail() -> None:
    broken, worse = DocumentError("broken"), DocumentError("worse")
    plain = [source("a.txt", 20, job="j1"), source("b.txt", 20, 2, job="j2"), source("c.txt", 3), source("d.txt", 50)]
    freeze("failing to prepare", run(plain, failing={"b.txt": [broken]}, progress=True))
    freeze("failing to embed once", run(plain, failing={"a.txt": [worse], "d.txt": []}))
    again: dict[str, list[RefdeskError]] = {"a.txt": [], "b.txt": []}
    embeds = run(plain, size=1, failing=again | {"d.txt": []})
    freeze("nothing fails", embeds)


def test_a_batch_that_fails_twice_fails_its_documents() -> None:
    class Late(dict[str, list[RefdeskError]]):
        """Chunks of the document fail; reading it does not."""

        reads = 0

        def get(self, name: str, default: Any = None) -> Any:
            if name == "a.txt":
                Late.reads += 1
                return self["a.txt"] if Late.reads > 1 else []
            return default

    files = [source("a.txt", 40), source("b.txt", 3), source("c.txt", 30)]
    freeze("failing twice", run(files, failing=Late({"a.txt": [DocumentError("one"), DocumentError("two")]})))


def test_a_full_disk_ends_the_add() -> None:
    with pytest.raises(LibraryError):
        run([source("a.txt", 3)], failing={"a.txt": [LibraryError("the disk is full")]})


def test_attachments_are_taken_in_too() -> None:
    more = {"mail.eml": [source("x.txt", 2), source("y.txt", 0)]}
    freeze("attached", run([source("mail.eml", 4, job="m"), source("b.txt", 2)], attached=more))


@pytest.mark.parametrize("when", [1000.0, 1000.25, 1000.5, 1000.75, 1001.0, 1001.5])
def test_what_nobody_wants_any_more_is_put_down(when: float) -> None:
    files = [source("a.txt", 50, 3, job="a"), source("b.txt", 40, job="b"), source("c.txt", 2, job="a")]
    freeze(f"unwanted at {when}", run(files, progress=True, unwanted=lambda now: ("a",) if now >= when else ()))


# --- a worker ---------------------------------------------------------------------------------------------------------


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    read_up_to_a_limit(tmp_path)


def read_up_to_a_limit(folder: Path) -> None:
    from refdesk.providers.shipped import OnnxEmbedder

    preparer = Preparer(Settings(max_file_mb=1), OnnxEmbedder())
    for size, is_read in ((1 << 20, True), ((1 << 20) + 1, False)):
        file = folder / "a.txt"
        file.write_bytes(b"word " * (size // 5) + b"w" * (size % 5))
        task = PrepareTask(Document("d", "a.txt", "", "", "pending"), path=file)
        if is_read:
            assert preparer.prepare(task, lambda done, total: None).prepared.document.size == size
        else:
            with pytest.raises(TooLarge):
                preparer.prepare(task, lambda done, total: None)


def test_attachments_are_told_apart() -> None:
    assert _distinct(["a.png", "a.png", "b", "a.png", "b"]) == ["a.png", "a (2).png", "b", "a (3).png", "b (2)"]


def test_names_that_say_something() -> None:
    names = ["3M_2018_10K.pdf", "12.pdf", "ab.pdf", "abc.pdf", "a.b.c", "report.abcdef", "report.abcde", "A  b_c d"]
    freeze("names", {name: readable_name(name) for name in names})


def test_messages_of_workers_come_back() -> None:
    prepared = File(name="a", chunks=2, pages=2).prepared()
    task = Task(prepare=PrepareTask(prepared.document, Path("/tmp/é"), "text", None, "secret"))
    assert decode(encode(task), Task) == task
    assert decode(encode(prepared), Prepared).chunks == prepared.chunks
    for broken in (b"", encode(task)[:9], b"\x00\x00\x00\x02{}", b"\x00\x00\x00\x00"):
        with pytest.raises(ValueError):
            decode(broken, Task)
    with pytest.raises(ValueError):
        decode(encode(task), Setup)
