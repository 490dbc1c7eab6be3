"""A worker reads files of strangers: it knows no secret, nothing it answers is run, and it cannot go on for ever."""

from __future__ import annotations

import json
import os
import pickle
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from library_samples import open_desk, wait_until, write_notes
from refdesk import errors
from refdesk.config import Config
from refdesk.errors import NeedsPassword, ParserDied, ParseTimeout, RefdeskError
from refdesk.ingest import workers as processes
from refdesk.ingest.workers import (
    AttachedFile,
    EmbedTask,
    Failure,
    PreparedFile,
    PrepareTask,
    Setup,
    Task,
    WorkerEvent,
    WorkerMessage,
    WorkerPool,
    decode,
    encode,
    failure,
)
from refdesk.ports import Embedded
from refdesk.records import Prepared
from refdesk.settings import Settings
from refdesk.types import Box, Chunk, Document, Geometry, Page, Progress, Sentence, Span

BOX = Box(1, 10.0, 20.5, 30.25, 4.125)
DOCUMENT = Document("", "ä.pdf", "default", "", "pending", metadata={"value": "x", "parts": "[1]"}, notes=("one",))
CHUNK = Chunk(
    document_id="",
    sequence=1,
    kind="table",
    text="Ein Text 🙂",
    heading_path=("A", "B"),
    pages=(1, 2),
    spans=(Span(0, 3, 0, 1, BOX), Span(3, 9, 3, 2)),
    sentences=(Sentence(0, 9, 1, (BOX, BOX)),),
    token_count=4,
    image="ab",
)


def same(one: Any, other: Any) -> bool:
    """Arrays are compared by what they hold."""
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        names = one.__dataclass_fields__
        return type(one) is type(other) and all(same(getattr(one, n), getattr(other, n)) for n in names)
    return bool(one == other)


def test_every_message_comes_back_as_it_was() -> None:
    geometry = Geometry.from_rows([(0, 3, 1, 1, 0.1, 0.2, 0.3, 0.4), (4, 9, 2, 2, 1.0, 2.0, 3.0, 4.0)])
    figures = {"ab": bytes(range(256)), "cd": b""}
    prepared = Prepared(DOCUMENT, CHUNK.text, (Page(1, 0, 9, label="iv"),), (CHUNK, CHUNK), geometry, figures)
    attached = AttachedFile("a.txt", Path(os.fsdecode(b"/tmp/\xff")), "ef")
    vector = np.linspace(0, 1, 8, dtype=np.float32)
    for message in (
        Setup(Config(Path("/library"), settings={"rag.top_k": 5}), Settings().changed({"ingest.workers": 3})),
        Task(prepare=PrepareTask(DOCUMENT, path=Path("/a"), folder=Path("/b"), password="half a pair: \udc80")),
        Task(embed=EmbedTask((CHUNK,))),
        WorkerMessage(),
        WorkerMessage(progress=(3, 10)),
        WorkerMessage(prepared=PreparedFile(prepared, Path("/b/new-1"), (attached,))),
        WorkerMessage(embedded=(Embedded(vector, np.array([[1, -127]], dtype=np.int8)),)),
        WorkerMessage(failed=Failure("BrokenFile", "cut off", "save it again", False)),
    ):
        assert same(decode(encode(message), type(message)), message), message


def test_every_error_comes_back_as_it_was() -> None:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, RefdeskError):
            found = failure(kind("what happened", hint="what to do")).error()
            assert (type(found), found.sentence) == (kind, "what happened; what to do")
    assert failure(NeedsPassword("it is locked")).error().hint == NeedsPassword.hint
    for name in ("os", "Any", "no such", "RefdeskError.__init__"):
        with pytest.raises(ValueError, match="no error"):
            Failure(name, "", "", False).error()


@given(st.binary() | st.builds(lambda head: len(head).to_bytes(4, "big") + head, st.binary()))
def test_other_bytes_are_no_message(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(data, WorkerMessage)


@pytest.mark.parametrize(
    "value",
    [
        '{"progress":[1,2]}',
        '[["1",2],null,null,null]',
        "[[1,2,3],null,null,null]",
        '[null,null,[[[0,"|O",[1]],[0,"|i1",[1]]]],null]',
        '[null,[["x"],null,[]],null,null]',
        "[" * 5000 + "]" * 5000,
    ],
)
def test_what_is_of_another_type_is_no_message(value: str) -> None:
    head = b'{"value":' + value.encode() + b',"parts":[1]}'
    with pytest.raises(ValueError):
        decode(len(head).to_bytes(4, "big") + head + b"x", WorkerMessage)


# real workers

# Workers of other makes, in place of `refdesk.worker`: one answers a pickle that writes a file, one says page
# after page that it goes on, one answers what it was not asked.
PICKLING = """
import os, sys
from multiprocessing.connection import Connection
class Evil:
    def __reduce__(self):
        return (os.mkdir, ({path!r},))
connection = Connection(int(sys.argv[1]))
connection.recv_bytes()
connection.send(("started", None))
connection.send(("done", Evil()))
connection.recv_bytes()
connection.recv_bytes()
"""
ENDLESS = """
import sys, time
from multiprocessing.connection import Connection
from refdesk.ingest.workers import WorkerMessage, encode
connection = Connection(int(sys.argv[1]))
connection.send_bytes(encode(WorkerMessage()))
while True:
    connection.send_bytes(encode(WorkerMessage(progress=(1, 1_000_000))))
    time.sleep(0.02)
"""
STEALING = """
import sys
from dataclasses import replace
from pathlib import Path
from multiprocessing.connection import Connection
from refdesk.ingest.workers import PreparedFile, WorkerMessage, Setup, Task, decode, encode
from refdesk.records import Prepared
connection = Connection(int(sys.argv[1]))
connection.recv_bytes()
connection.send_bytes(encode(WorkerMessage()))
task = decode(connection.recv_bytes(), Task).prepare
prepared = Prepared(replace(task.document, {changed}), "", (), ())
connection.send_bytes(encode(WorkerMessage(prepared=PreparedFile(prepared, {path}))))
connection.recv_bytes()
"""
MISTAKEN = """
import sys
from multiprocessing.connection import Connection
from refdesk.ingest.workers import WorkerMessage, encode
connection = Connection(int(sys.argv[1]))
connection.send_bytes(encode(WorkerMessage()))
connection.send_bytes(encode(WorkerMessage(embedded=())))
connection.recv_bytes(), connection.recv_bytes(), connection.recv_bytes()
"""


def outcome(script: str, file_time_limit_s: float = 600.0) -> WorkerEvent:
    """What is made of a worker that runs this script instead of ours."""
    pool = WorkerPool(1, Setup(Config(Path("/none")), Settings()), memory_limit_mb=512, command=script)
    task = PrepareTask(DOCUMENT, text="A text.", folder=Path("/none/spool"))
    try:
        pool.submit(7, task, time_limit_s=600.0, file_time_limit_s=file_time_limit_s)
        while True:
            for event in pool.events(1.0):
                if event.kind != "progress":
                    return event
    finally:
        pool.close()


def test_no_answer_of_a_worker_is_run(tmp_path: Path) -> None:
    made = tmp_path / "made by the pickle"
    pickle.loads(pickle.dumps(1))  # the very module that would run it is there
    event = outcome(PICKLING.format(path=str(made)))
    assert (event.ticket, event.kind, type(event.value)) == (7, "failed", ParserDied)
    assert not made.exists()


def test_an_answer_to_another_question_fails_the_document() -> None:
    event = outcome(MISTAKEN)
    assert (event.kind, type(event.value)) == ("failed", ParserDied)


@pytest.mark.parametrize(
    ("changed", "path", "kind"),
    [
        ("title='x'", "None", "done"),
        ("title='x'", "task.folder / 'new-1'", "done"),
        ("title='x'", "Path('/etc/passwd')", "failed"),
        ("title='x'", "task.folder / 'deeper' / 'new-1'", "failed"),
        ("id='another'", "None", "failed"),
        ("collection='another'", "None", "failed"),
    ],
)
def test_a_worker_names_no_files_and_no_documents_but_its_own(changed: str, path: str, kind: str) -> None:
    assert outcome(STEALING.format(changed=changed, path=path)).kind == kind


def test_pages_without_end_meet_the_limit_of_the_whole_file() -> None:
    event = outcome(ENDLESS, file_time_limit_s=1.0)
    assert (event.kind, type(event.value)) == ("failed", ParseTimeout)
    assert "ingest.file_time_limit_s" in event.value.sentence


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")
def test_workers_are_given_no_variable_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "also-secret")
    notes, seen = write_notes(tmp_path / "notes", 2), []

    def on_progress(progress: Progress) -> None:
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if b"refdesk.worker" in (path / "cmdline").read_bytes():
                    parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
                    if parent == os.getpid():
                        seen.append((path / "environ").read_bytes())
            except OSError:
                continue

    with open_desk(tmp_path / "library") as desk:
        assert {one.outcome for one in desk.add(notes, on_progress=on_progress)} == {"added"}
    assert wait_until(lambda: seen, 0.1)
    names = {entry.partition(b"=")[0].decode() for environ in seen for entry in environ.split(b"\0") if entry}
    assert names <= {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONWARNINGS", *processes._ENVIRONMENT}
    assert not any(b"secret" in one for one in seen)


def test_the_key_of_an_endpoint_does_not_travel() -> None:
    setup = Setup(Config(Path("/l"), embedder_api_key="sk-1", environment={"OPENAI_API_KEY": "sk-2"}), Settings())
    assert b"sk-" not in encode(WorkerPool(1, setup, memory_limit_mb=512)._setup)


@pytest.fixture
def endpoint() -> Iterator[tuple[str, list[str]]]:
    """An embeddings endpoint, and the keys that it was shown."""
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            keys.append(self.headers.get("Authorization", ""))
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            rows = [[1.0, *map(float, text.encode()[:7].ljust(7))] for text in texts]
            data = [{"index": place, "embedding": row} for place, row in enumerate(rows)]
            body = json.dumps({"data": data}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1", keys
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_endpoint_is_spoken_to_by_the_program_and_not_by_its_workers(
    endpoint: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, keys = endpoint
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.setenv("REFDESK_EMBEDDER", "openai:bytes")
    notes = write_notes(tmp_path / "notes", 5)
    with open_desk(tmp_path / "library") as desk:
        assert [one.outcome for one in desk.add(notes)] == ["added"] * 5
        found = {hit.document.name for hit in desk.search("buoy", method="dense", k=5)}
        assert found == {f"note-{number}.md" for number in range(5)}
    assert set(keys) == {"Bearer sk-mine"}
