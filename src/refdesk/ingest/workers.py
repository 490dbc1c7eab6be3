"""Manages worker processes that may hang, run out of memory or crash without affecting the program.

Each worker is a fresh interpreter that runs `refdesk.worker` and speaks the messages below over a socket, so
that the caller's main module is never imported again, as `multiprocessing` would. Its standard input is its lifeline:
when that ends, the program is gone, and the worker goes too, in the middle of a task if need be.

A worker reads files of strangers: it is given no variable of the program's environment, no API key, and its answers
are never run.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import orjson
from numpy.typing import NDArray

from refdesk import errors
from refdesk.config import SHIPPED_EMBEDDER, Config, hash_bytes
from refdesk.errors import DocumentError, ParserDied, ParseTimeout, RefdeskError
from refdesk.ports import Embedded
from refdesk.records import Prepared
from refdesk.settings import Settings
from refdesk.types import Chunk, Document

# What the program and its worker processes say to one another, as bytes that can only become plain values.

_LENGTH = 4  # bytes that hold the length of the JSON
_ARRAYS = ("<f4", "<f8", "<i4", "|i1")  # what geometry, vectors and cells are made of
Read = Callable[[Any, list[bytes]], Any]


@dataclass(frozen=True, slots=True)
class Setup:
    config: Config
    settings: Settings


@dataclass(frozen=True, slots=True)
class PrepareTask:
    """Read a file, or take a text, and prepare it; the bytes that were read are kept in `folder`."""

    document: Document
    path: Path | None = None
    text: str | None = None
    folder: Path | None = None
    password: str | None = None
    depth: int = 0  # in how many other files it lies

    @property
    def content_hash(self) -> str:
        """Of a text; a file is hashed as it is read."""
        return hash_bytes((self.text or "").encode())


@dataclass(frozen=True, slots=True)
class EmbedTask:
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class AttachedFile:
    """An attachment, staged until it is taken in as a document of its own."""

    name: str
    path: Path
    content_hash: str


@dataclass(frozen=True, slots=True)
class PreparedFile:
    prepared: Prepared
    original: Path | None
    children: tuple[AttachedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One of the two."""

    prepare: PrepareTask | None = None
    embed: EmbedTask | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A `RefdeskError` by the name of its class."""

    name: str
    message: str
    hint: str
    retryable: bool

    def error(self) -> RefdeskError:
        kind = getattr(errors, self.name, None)
        if not (isinstance(kind, type) and issubclass(kind, RefdeskError)):
            raise ValueError(f"there is no error '{self.name}'")
        found = kind(self.message, hint=self.hint)
        found.retryable = self.retryable
        return found


def failure(error: RefdeskError) -> Failure:
    return Failure(type(error).__name__, str(error), error.hint, error.retryable)


@dataclass(frozen=True, slots=True)
class WorkerMessage:
    """What a worker answers: one of these, or that it has started."""

    progress: tuple[int, int] | None = None
    prepared: PreparedFile | None = None
    embedded: tuple[Embedded, ...] | None = None
    failed: Failure | None = None


# writing


def encode(value: object) -> bytes:
    """A dataclass of plain values, arrays and bytes.

    >>> decode(encode(Task(embed=EmbedTask(()))), Task)
    Task(prepare=None, embed=EmbedTask(chunks=()))
    """
    parts: list[bytes] = []

    def plain(item: Any) -> Any:
        if is_dataclass(item):
            return [getattr(item, field.name) for field in fields(item)]
        if isinstance(item, tuple):  # a named one
            return list(item)
        if isinstance(item, np.ndarray):
            parts.append(np.ascontiguousarray(item).tobytes())
            return [len(parts) - 1, item.dtype.str, list(item.shape)]
        if isinstance(item, np.generic):
            return item.item()
        if isinstance(item, Path):  # a name on the disk need not be text
            item = os.fsencode(item)
        if isinstance(item, bytes):
            parts.append(item)
            return len(parts) - 1
        if isinstance(item, Mapping):
            return dict(item)
        if isinstance(item, Sequence):
            return list(item)
        raise TypeError(f"{type(item).__name__} is not sent to workers")

    try:
        body = orjson.dumps(value, default=plain, option=orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError:  # half a surrogate pair, which a command line may hold
        parts.clear()
        body = json.dumps(value, default=plain).encode()
    head = b'{"value":' + body + b',"parts":' + orjson.dumps([len(part) for part in parts]) + b"}"
    return b"".join([len(head).to_bytes(_LENGTH, "big"), head, *parts])


# reading


def decode(data: bytes, wanted: Any) -> Any:
    """The value of that type; ValueError when the bytes are none."""
    try:
        end = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
        head = data[_LENGTH:end]
        try:
            message = orjson.loads(head)
        except orjson.JSONDecodeError:
            message = json.loads(head)
        parts: list[bytes] = []
        for length in message["parts"]:
            parts.append(data[end : end + _whole(length)])
            end += length
        return _reader(wanted)(message["value"], parts)
    except (LookupError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a message: {error}") from error


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a length")
    return value


@cache
def _reader(wanted: Any) -> Read:
    """How a value of a type is read; the type is ours, the value the other's."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if wanted is Any:
        return lambda value, parts: value
    if wanted in (str, int, bool, type(None)):
        return lambda value, parts: _exactly(value, wanted)
    if wanted is float:
        return lambda value, parts: float(value if type(value) is int else _exactly(value, float))
    if wanted is bytes:
        return lambda value, parts: parts[_whole(value)]
    if wanted is Path:
        return lambda value, parts: Path(os.fsdecode(parts[_whole(value)]))
    if origin is Literal:
        return lambda value, parts: inner[inner.index(value)]
    if origin in (Union, types.UnionType):
        (one,) = [_reader(part) for part in inner if part is not type(None)]
        return lambda value, parts: None if value is None else one(value, parts)
    if origin in (np.ndarray, NDArray):  # the second from numpy 2.5 on, where NDArray is a name for the first
        return _array
    if isinstance(origin, type) and issubclass(origin, Mapping):
        read = _reader(inner[1])
        return lambda value, parts: {key: read(item, parts) for key, item in _exactly(value, dict).items()}
    if origin is tuple and inner[-1] is not Ellipsis:
        return _fixed(tuple, [_reader(part) for part in inner])
    if isinstance(origin, type) and issubclass(origin, Sequence):
        read = _reader(inner[0])
        return lambda value, parts: tuple([read(item, parts) for item in _exactly(value, list)])
    hints = get_type_hints(wanted)
    if is_dataclass(wanted):
        make: Any = wanted
        return _fixed(lambda values: make(*values), [_reader(hints[field.name]) for field in fields(wanted)])
    return _fixed(wanted._make, [_reader(hints[name]) for name in wanted._fields])


def _fixed(make: Callable[[list[Any]], Any], readers: list[Read]) -> Read:
    def read(value: Any, parts: list[bytes]) -> Any:
        return make([reader(part, parts) for reader, part in zip(readers, _exactly(value, list), strict=True)])

    return read


def _array(value: Any, parts: list[bytes]) -> Any:
    place, kind, shape = _exactly(value, list)
    if kind not in _ARRAYS:
        raise ValueError(f"arrays of {kind!r} are not sent")
    return np.frombuffer(parts[_whole(place)], dtype=kind).reshape([_whole(side) for side in shape])


def _exactly(value: Any, wanted: type[Any]) -> Any:
    if type(value) is not wanted:
        raise ValueError(f"{wanted.__name__} was expected, not {type(value).__name__}")
    return value


MOST_WORKERS = 8
CLOSE_PATIENCE_S = 2.0
HOSTILE = "do not trust its source"
START_PATIENCE_S = 120.0  # an interpreter and the model, on a machine that is busy; not part of a task's time
# What an interpreter needs to find its libraries; nobody keeps a secret in these.
_ENVIRONMENT = ("PYTHONHOME", "PYTHONPATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
_SETTLED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
_COMMAND = "from refdesk.worker import main; main()"  # not `-m`, which would make its classes another module's


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """What a worker says about the task that was submitted under `ticket`."""

    ticket: int
    kind: Literal["progress", "done", "failed"]
    value: Any


class _Worker:
    def __init__(self, setup: Setup, command: str) -> None:
        mine, theirs = Pipe()
        self.connection: Connection = mine
        self.process = subprocess.Popen(
            [sys.executable, "-c", command, str(theirs.fileno())],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            process_group=0,  # Ctrl-C in a terminal is for the program alone
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | _SETTLED,
        )
        theirs.close()
        self.connection.send_bytes(encode(setup))
        self.has_started = False
        self.ticket: int | None = None
        self.task: PrepareTask | EmbedTask | None = None
        self.patience = self.whole_patience = 0.0
        self.heard = self.began = 0.0

    def begin(self, ticket: int, task: PrepareTask | EmbedTask, time_limit_s: float, file_time_limit_s: float) -> None:
        self.ticket, self.task = ticket, task
        self.patience, self.whole_patience = time_limit_s, file_time_limit_s
        self.heard = self.began = time.monotonic()

    def overdue(self) -> ParseTimeout | None:
        """Why it is not waited for any longer: nothing was heard of it, or the whole file takes too long."""
        moment = time.monotonic()
        if not self.has_started:
            if moment - self.heard > max(self.patience, START_PATIENCE_S):
                return ParseTimeout(f"it was not finished after {self.patience:.0f} seconds")
            return None
        if moment - self.began > self.whole_patience:
            message = f"it was not finished after {self.whole_patience:.0f} seconds in total"
            return ParseTimeout(message, hint="split it, or raise ingest.file_time_limit_s")
        if moment - self.heard > self.patience:
            return ParseTimeout(f"it was not finished after {self.patience:.0f} seconds")
        return None

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.close()

    def close(self) -> None:
        self.connection.close()
        if self.process.stdin is not None:
            self.process.stdin.close()


class WorkerPool:
    """A fixed number of workers, started when first needed; each does one task at a time."""

    def __init__(self, size: int, setup: Setup, *, memory_limit_mb: int, command: str = _COMMAND) -> None:
        self._size, self._command = size, command
        # Neither the environment nor a key: an endpoint that embeds is spoken to by the program itself.
        self._setup = replace(setup, config=replace(setup.config, environment=None, embedder_api_key=""))
        self._memory_limit_mb = memory_limit_mb
        self._workers: list[_Worker] = []

    @property
    def idle(self) -> bool:
        """Whether another task can be submitted."""
        return len(self._workers) < self._size or any(worker.ticket is None for worker in self._workers)

    @property
    def working(self) -> int:
        """How many workers are at a task."""
        return sum(worker.ticket is not None for worker in self._workers)

    def submit(
        self, ticket: int, task: PrepareTask | EmbedTask, *, time_limit_s: float, file_time_limit_s: float = math.inf
    ) -> None:
        """Hands a task to an idle worker.

        It fails when nothing is heard of it for `time_limit_s`, and when it is not done after `file_time_limit_s`,
        however often something is heard.
        """
        worker = self._idle_worker()
        worker.begin(ticket, task, time_limit_s, file_time_limit_s)
        message = Task(prepare=task) if isinstance(task, PrepareTask) else Task(embed=task)
        with suppress(OSError):  # it died this very moment; the next look at it says so
            worker.connection.send_bytes(encode(message))

    def _idle_worker(self) -> _Worker:
        for worker in [worker for worker in self._workers if worker.ticket is None]:
            if not worker.connection.poll() and worker.process.poll() is None:  # idle workers say nothing
                return worker
            worker.end()  # it died while idle, which is no fault of the next task
            self._workers.remove(worker)
        worker = _Worker(self._setup, self._command)
        self._workers.append(worker)
        return worker

    def events(self, timeout_s: float, also: Sequence[Connection] = ()) -> Iterator[WorkerEvent]:
        """What the workers have said; waits up to `timeout_s` for a first word, or for one of somebody else's."""
        working = [worker for worker in self._workers if worker.ticket is not None]
        ready = set(wait([*(worker.connection for worker in working), *also], timeout_s))
        for worker in working:
            if worker.connection in ready:
                yield from self._listen(worker)
            if worker.ticket is not None and (reason := worker.overdue()) is not None:
                yield self._lose(worker, reason)

    def _listen(self, worker: _Worker) -> Iterator[WorkerEvent]:
        try:
            while worker.ticket is not None and worker.connection.poll():
                # It cannot hold more than it may use, so whatever claims to be longer is no answer.
                message: WorkerMessage = decode(
                    worker.connection.recv_bytes(self._memory_limit_mb << 20), WorkerMessage
                )
                worker.heard = time.monotonic()
                if not worker.has_started:
                    worker.has_started, worker.began = True, worker.heard
                    continue
                event = _event(worker, message)
                if event.kind != "progress":
                    worker.ticket = None
                yield event
        except (EOFError, OSError):
            yield self._lose(
                worker, ParserDied(f"reading it crashed or needed more than {self._memory_limit_mb} MB of memory")
            )
        except ValueError:
            yield self._lose(worker, ParserDied("the parser sent an invalid reply", hint=HOSTILE))

    def cancel(self, ticket: int) -> None:
        """Ends what is done under a ticket; nothing more is heard of it."""
        for worker in [worker for worker in self._workers if worker.ticket == ticket]:
            worker.end()
            self._workers.remove(worker)

    def _lose(self, worker: _Worker, reason: RefdeskError) -> WorkerEvent:
        ticket, worker.ticket = worker.ticket, None
        assert ticket is not None
        worker.end()
        self._workers.remove(worker)
        return WorkerEvent(ticket, "failed", reason)

    def close(self) -> None:
        """Ends all workers; whatever they were doing is lost."""
        for worker in self._workers:
            if worker.ticket is None:
                worker.close()  # an idle worker leaves by itself
                try:
                    worker.process.wait(CLOSE_PATIENCE_S)
                    continue
                except subprocess.TimeoutExpired:
                    pass
            worker.end()
        self._workers.clear()


def _event(worker: _Worker, worker_message: WorkerMessage) -> WorkerEvent:
    """What a worker has said about its task; ValueError when it is no answer to that."""
    ticket, task = worker.ticket, worker.task
    assert ticket is not None
    if worker_message.progress is not None:
        return WorkerEvent(ticket, "progress", worker_message.progress)
    if worker_message.failed is not None:
        return WorkerEvent(ticket, "failed", worker_message.failed.error())
    if isinstance(task, PrepareTask) and worker_message.prepared is not None and _is_of(task, worker_message.prepared):
        return WorkerEvent(ticket, "done", worker_message.prepared)
    if (
        isinstance(task, EmbedTask)
        and worker_message.embedded is not None
        and len(worker_message.embedded) == len(task.chunks)
    ):
        return WorkerEvent(ticket, "done", worker_message.embedded)
    raise ValueError("the answer is to another question")


def _is_of(task: PrepareTask, result: PreparedFile) -> bool:
    """Whether it is about the document that was asked for, and names no files but those it was to make.

    They are moved into the library; any other file of the user's would be, too.
    """
    made, asked = result.prepared.document, task.document
    same = all(getattr(made, name) == getattr(asked, name) for name in ("id", "collection", "source", "parent_id"))
    files = [path for path in (result.original, *(child.path for child in result.children)) if path is not None]
    return same and all(file.parent == task.folder and file.name not in ("", "..") for file in files)


class EmbedsHere:
    """A pool whose chunks are embedded by threads of this process: an endpoint's key is no business of its workers."""

    def __init__(self, pool: WorkerPool, size: int, embed: Callable[[EmbedTask], Any]) -> None:
        self._pool, self._size, self._embed = pool, size, embed
        self._threads = ThreadPoolExecutor(size, "refdesk-embed")
        self._running: dict[int, Future[Any]] = {}
        self._heard, self._tell = Pipe(duplex=False)  # a word for every task that is done

    @property
    def idle(self) -> bool:
        return self._pool.idle and len(self._running) + self._pool.working < self._size

    def submit(self, ticket: int, task: Any, *, time_limit_s: float, file_time_limit_s: float = math.inf) -> None:
        if isinstance(task, EmbedTask):
            self._running[ticket] = self._threads.submit(self._embed, task)  # a request has time limits of its own
            self._running[ticket].add_done_callback(self._wake)
        else:
            self._pool.submit(ticket, task, time_limit_s=time_limit_s, file_time_limit_s=file_time_limit_s)

    def _wake(self, _: object) -> None:
        with suppress(OSError):  # nobody waits any more
            self._tell.send_bytes(b".")

    def cancel(self, ticket: int) -> None:
        self._running.pop(ticket, None)
        self._pool.cancel(ticket)

    def events(self, timeout_s: float) -> Iterator[WorkerEvent]:
        yield from self._pool.events(timeout_s, [self._heard])
        while self._heard.poll():
            self._heard.recv_bytes()
        for ticket in [running for running, future in self._running.items() if future.done()]:
            try:
                yield WorkerEvent(ticket, "done", self._running.pop(ticket).result())
            except RefdeskError as error:
                yield WorkerEvent(ticket, "failed", error)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pool.close()
        self._heard.close()
        self._tell.close()


def worker_pool(setup: Setup, embed: Callable[[EmbedTask], Any]) -> WorkerPool | EmbedsHere:
    """As many workers as the settings say; `embed` is what this process does with chunks when it has to."""
    settings = setup.settings
    size = settings.workers or max(1, min(MOST_WORKERS, os.cpu_count() or 1))
    pool = WorkerPool(size, setup, memory_limit_mb=settings.memory_limit_mb)
    return pool if setup.config.embedder == SHIPPED_EMBEDDER else EmbedsHere(pool, size, embed)


class InProcess:
    """A pool without processes: does each task when it is handed in."""

    def __init__(self, perform: Callable[[Any], Any]) -> None:
        self._perform = perform
        self._results: list[WorkerEvent] = []

    @property
    def idle(self) -> bool:
        return not self._results

    def submit(self, ticket: int, task: Any, *, time_limit_s: float, file_time_limit_s: float = math.inf) -> None:
        try:
            result = WorkerEvent(ticket, "done", self._perform(task))
        except RefdeskError as error:
            result = WorkerEvent(ticket, "failed", error)
        except Exception as error:  # what its author did not think of costs this document only
            reason = DocumentError(f"reading it failed: {type(error).__name__}: {error}"[:300])
            result = WorkerEvent(ticket, "failed", reason)
        self._results.append(result)

    def cancel(self, ticket: int) -> None:
        self._results = [result for result in self._results if result.ticket != ticket]

    def events(self, timeout_s: float) -> Iterator[WorkerEvent]:
        results, self._results = self._results, []
        yield from results
