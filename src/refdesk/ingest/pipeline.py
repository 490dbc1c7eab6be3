"""Processes many documents: parses and embeds in parallel workers, passes complete documents to one writer.

    sources -> [worker: prepare] -> chunks of several documents -> [worker: embed] -> whole documents -> sink

Memory stays flat: no further document is prepared while many chunks wait to be embedded.
Before it all: which files are meant by these paths?
"""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Protocol

from refdesk.config import DATABASE
from refdesk.errors import DocumentError, LibraryError, RefdeskError
from refdesk.file_names import is_junk
from refdesk.ports import Embedded
from refdesk.records import Prepared
from refdesk.types import Chunk, Document, FileProgress, Progress

# --- which files are meant by these paths? A file itself, or what lies below a folder ---------------------------------

LEADS_OUT = "it is a link to a place outside the added folder; use --follow-links to follow it"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file, its name within what was added, and how it looked at that moment.

    `error` says why it could not be seen, `skipped` why it was not looked at.
    """

    path: Path
    name: str
    size: int = 0
    modified: float = 0.0
    error: str = ""
    skipped: str = ""


def discover(path: Path, *, follow_links: bool = False) -> Iterator[FoundFile]:
    """A file itself, or all files below a folder in order of name; hidden files, junk and libraries are left out.

    A link within the folder to a file of it is that file once more, and one to a folder of it is passed over: its files
    are met anyway. Links that lead out of the folder are skipped unless they are followed. What is named is meant, also
    if it is a link.
    """
    if not path.is_dir():
        yield look(path, path.name)
        return
    yield from _walk(path, path, [path.resolve()], follow_links)


def _walk(folder: Path, top: Path, entered: list[Path], follow_links: bool) -> Iterator[FoundFile]:
    """`entered` are the folders that were named or that a followed link led to: no link leads into them again."""
    closed: list[OSError] = []
    for place, subfolders, names in os.walk(folder, onerror=closed.append):
        wanted = sorted(name for name in subfolders if not is_junk(name) and not _is_library(Path(place, name)))
        links = [name for name in wanted if Path(place, name).is_symlink()]
        subfolders[:] = [name for name in wanted if name not in links]
        for name in sorted(names):
            if not is_junk(name):
                file = Path(place, name)
                if not follow_links and file.is_symlink() and _leads_out(file, entered):
                    yield FoundFile(file, file.relative_to(top).as_posix(), skipped=LEADS_OUT)
                else:
                    yield look(file, file.relative_to(top).as_posix())
        for link in (Path(place, name) for name in links):
            if not _leads_out(link, entered):
                continue
            if follow_links:
                entered.append(link.resolve())
                yield from _walk(link, top, entered, follow_links)
            else:
                yield FoundFile(link, link.relative_to(top).as_posix(), skipped=LEADS_OUT)
    for error in closed:
        at = Path(error.filename or folder)
        yield FoundFile(at, at.name, error=f"this folder cannot be read: {error.strerror or error}")


def _leads_out(link: Path, entered: list[Path]) -> bool:
    """A dangling link leads nowhere, which is said when it is looked at; so is a circle of links."""
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):
        return False
    return not any(target.is_relative_to(folder) for folder in entered)


def look(path: Path, name: str) -> FoundFile:
    try:
        status = path.stat()
    except OSError as error:
        return FoundFile(path, name, error=f"it cannot be read: {error.strerror or error}")
    if not path.is_file():
        return FoundFile(path, name, error="it is not a regular file")
    return FoundFile(path, name, status.st_size, status.st_mtime)


def _is_library(folder: Path) -> bool:
    """A library of Refdesk's below the folder that is added, perhaps the very one it is added to."""
    try:
        return (folder / DATABASE).is_file() and (folder / "files").is_dir()
    except PermissionError:  # closed; reading it will say so
        return False


# How long will an add still take? Steady: what is said next differs little from what was said before.

# --- many documents at once -------------------------------------------------------------------------------------------

FIRST_S = 5.0  # nothing is said before: the first files start processes and load the model
PACE_S = 180.0  # the time over which the pace is remembered
CALM_S = 15.0  # the time in which what is said follows what is true
GUESSED = 1.0  # files of a kind whose own figures weigh as much as those of all kinds
MOST_CHANGE = 1.25  # between two times that are said, beside the time that went by


class TimeLeft:
    """Fed with what happened; `seconds(now, chunks_done)` says what is left, None while it is too early to say."""

    def __init__(self, now: float) -> None:
        self._began = self._looked = now
        self._waiting: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])  # by kind: files, bytes
        self._parsed: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])  # by kind: files, bytes, chunks
        self._chunks = 0
        self._seen = 0  # chunks done when it was last looked
        self._done_lately = self._time_lately = 0.0
        self._told: float | None = None

    def coming(self, kind: str, size: int) -> None:
        """A file of so many bytes is to be added."""
        self._waiting[kind][0] += 1
        self._waiting[kind][1] += size

    def parsed(self, kind: str, size: int, chunks: int) -> None:
        self.dropped(kind, size)
        self._parsed[kind] = [a + b for a, b in zip(self._parsed[kind], (1, size, chunks), strict=True)]
        self._chunks += chunks

    def dropped(self, kind: str, size: int) -> None:
        """It will give no more chunks than it has: it was parsed, it failed, or nobody wants it any more."""
        self._waiting[kind][0] -= 1
        self._waiting[kind][1] -= size

    def seconds(self, now: float, chunks_done: int) -> float | None:
        passed, self._looked = now - self._looked, now
        kept = math.exp(-passed / PACE_S)
        self._done_lately = self._done_lately * kept + chunks_done - self._seen
        self._time_lately = self._time_lately * kept + passed
        self._seen = chunks_done
        if now - self._began < FIRST_S or self._done_lately <= 0.0:
            return self._told
        true = (self._expected() - chunks_done) * self._time_lately / self._done_lately
        self._told = true if self._told is None else _nearer(self._told, true, passed)
        return self._told

    def _expected(self) -> float:
        """Chunks in all: those that are known, and what the files to come will give by their kinds."""
        files = sum(count for count, _, _ in self._parsed.values())
        size = sum(length for _, length, _ in self._parsed.values())
        expected = float(self._chunks)
        for kind, (count, waiting) in self._waiting.items() if size else ():
            own_files, own_size, own_chunks = self._parsed.get(kind, (0, 0, 0))
            # Of a kind that was not met yet: between as many chunks for each byte and as many for each file as usual.
            guess = self._chunks * math.sqrt(max(waiting, 0) / size * max(count, 0) / files)
            trust = own_files / (own_files + GUESSED)
            expected += trust * waiting * own_chunks / max(own_size, 1) + (1.0 - trust) * guess
        return expected


def _nearer(shown: float, true: float, passed: float) -> float:
    """From what was told before towards what is true, by steps that nobody stumbles over."""
    counted = max(shown - passed, 0.0)
    step = counted + (true - counted) * (1.0 - math.exp(-passed / CALM_S))
    most = math.pow(MOST_CHANGE, min(1.0, passed / CALM_S))
    return min(max(step, counted / most), counted * most + passed)


EMBED_BATCH = 32  # chunks of one embed task: about a second of one core
BACKLOG = 1024  # chunks waiting to be embedded, above which no further document is parsed
FLUSH_CHUNKS = 512  # chunks that are written in one go …
FLUSH_SECONDS = 1.0  # … or what has come together in this time
EMBED_TIME_LIMIT_S = 600.0
_TICK_S = 0.2


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to take in, the task that prepares it, as the workers understand it, and the job it is part of."""

    document: Document
    task: Any
    modified: float = 0.0
    size: int = 0
    job: str = ""


@dataclass(frozen=True, slots=True)
class Finished:
    """A document with its vectors; `extra` is what the worker gave beside the prepared document."""

    source: NewDocument
    prepared: Prepared
    embedded: Sequence[Embedded]
    extra: Any


class ParseWorkers(Protocol):
    """Does tasks side by side: worker processes, or this process for texts."""

    @property
    def idle(self) -> bool: ...

    def submit(self, ticket: int, task: Any, *, time_limit_s: float, file_time_limit_s: float = math.inf) -> None: ...

    def cancel(self, ticket: int) -> None: ...

    def events(self, timeout_s: float) -> Iterable[Any]: ...


class Sink(Protocol):
    """Where documents go; may give further sources, the attachments of what it stored."""

    def begin(self, source: NewDocument) -> None: ...

    def store(self, batch: Sequence[Finished]) -> Iterable[NewDocument]: ...

    def fail(self, source: NewDocument, error: RefdeskError) -> None: ...

    def put_down(self, source: NewDocument) -> None: ...


@dataclass(slots=True)
class _Open:
    """A document between its parsing and its last vector."""

    source: NewDocument
    prepared: Prepared
    extra: Any
    vectors: list[Embedded | None]
    missing: int


@dataclass(slots=True)
class _Step:
    """What a ticket stands for: the preparing of a source, or the embedding of these (document, chunk number)s."""

    source: NewDocument | None = None
    places: list[tuple[_Open, int]] = field(default_factory=list)
    is_second_try: bool = False


class Pipeline:
    """One add: `run()` takes every source in and returns when all are stored, have failed or are not wanted any more.

    `unwanted` is asked all the while, and names jobs that were cancelled.
    """

    def __init__(
        self,
        workers: ParseWorkers,
        sink: Sink,
        embed_task: Callable[[tuple[Chunk, ...]], Any],
        on_progress: Callable[[Progress], None],
        *,
        time_limit_s: float,
        file_time_limit_s: float = math.inf,
        unwanted: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        self._workers = workers
        self._sink = sink
        self._embed_task = embed_task
        self._on_progress = on_progress
        self._time_limit_s = time_limit_s
        self._file_time_limit_s = file_time_limit_s
        self._unwanted = unwanted
        self._sources: deque[NewDocument] = deque()
        self._jobs: dict[int, _Step] = {}
        self._waiting: deque[tuple[_Open, int]] = deque()
        self._opened: dict[int, _Open] = {}  # parsed and not yet stored, by identity
        self._named: dict[int, _Open] = {}  # those of them that progress is told of by file
        self._whole: list[_Open] = []
        self._whole_chunks = 0
        self._last_flush = time.monotonic()
        self._tally = _ProgressCounts()

    def run(self, sources: Iterable[NewDocument]) -> None:
        self._sources.extend(sources)
        self._tally.add(self._sources)
        while self._sources or self._jobs or self._waiting or self._whole:
            self._put_down(self._unwanted())
            self._hand_out()
            for event in self._workers.events(_TICK_S if self._jobs else 0.0):
                self._receive(event)
            self._flush(force=not (self._sources or self._jobs or self._waiting))
            self._on_progress(self._tally.progress(self._jobs, self._named.values()))
        self._on_progress(self._tally.progress({}, ()))

    # handing out

    def _hand_out(self) -> None:
        while self._workers.idle:
            nothing_to_parse = not self._sources and all(job.source is None for job in self._jobs.values())
            if len(self._waiting) >= EMBED_BATCH or (self._waiting and nothing_to_parse):
                places = [self._waiting.popleft() for _ in range(min(EMBED_BATCH, len(self._waiting)))]
                self._embed(_Step(places=places))
            elif self._sources and len(self._waiting) < BACKLOG:
                source = self._sources.popleft()
                self._sink.begin(source)
                self._submit(_Step(source=source), source.task, self._time_limit_s, self._file_time_limit_s)
            else:
                return

    def _embed(self, job: _Step) -> None:
        task = self._embed_task(tuple(opened.prepared.chunks[number] for opened, number in job.places))
        self._submit(job, task, EMBED_TIME_LIMIT_S)

    def _submit(self, job: _Step, task: Any, time_limit_s: float, file_time_limit_s: float = math.inf) -> None:
        ticket = self._tally.next_ticket()
        self._jobs[ticket] = job
        self._workers.submit(ticket, task, time_limit_s=time_limit_s, file_time_limit_s=file_time_limit_s)

    # receiving

    def _receive(self, event: Any) -> None:
        job = self._jobs[event.ticket]
        if event.kind == "progress":
            self._tally.pages(event.ticket, *event.value)
            return
        del self._jobs[event.ticket]
        if event.kind == "failed":
            self._fail(event.ticket, job, event.value)
        elif job.source is not None:
            self._open(event.ticket, job.source, event.value)
        else:
            self._tally.chunks_done += len(job.places)
            for (opened, number), vector in zip(job.places, event.value, strict=True):
                opened.vectors[number] = vector
                opened.missing -= 1
                if not opened.missing:
                    self._complete(opened)

    def _open(self, ticket: int, source: NewDocument, result: Any) -> None:
        prepared: Prepared = result.prepared
        self._tally.parsed(ticket, source, prepared)
        count = len(prepared.chunks)
        opened = _Open(source, prepared, result, [None] * count, count)
        self._opened[id(opened)] = opened
        if _is_named(source):
            self._named[id(opened)] = opened
        self._waiting.extend((opened, number) for number in range(count))
        if not count:
            self._complete(opened)

    def _complete(self, opened: _Open) -> None:
        self._whole.append(opened)
        self._whole_chunks += len(opened.prepared.chunks)

    def _fail(self, ticket: int, job: _Step, error: RefdeskError) -> None:
        """One document failed, or a batch of chunks did: then every document in it has."""
        if isinstance(error, LibraryError):  # a full disk is no fault of this document, and no other will fare better
            raise error
        self._tally.stopped(ticket)
        if job.source is None and isinstance(error, DocumentError) and not job.is_second_try:
            # A worker that dies over chunks of many documents was ended from outside; none of them is to blame.
            self._embed(_Step(places=job.places, is_second_try=True))
            return
        if job.source is not None:
            lost = [job.source]
        else:
            touched = {id(opened): opened for opened, _ in job.places}
            lost = [opened.source for opened in touched.values() if opened.missing >= 0]
            self._close(touched)
        for source in lost:
            self._sink.fail(source, error)
            self._tally.dropped(source, is_parsed=job.source is None, failed=True)

    def _close(self, keys: Collection[int]) -> None:
        """These are not taken in; vectors of them that are still under way are not waited for."""
        self._waiting = deque(place for place in self._waiting if id(place[0]) not in keys)
        self._whole = [opened for opened in self._whole if id(opened) not in keys]
        self._whole_chunks = sum(len(opened.prepared.chunks) for opened in self._whole)
        for key in keys:
            if (closed := self._forget(key)) is not None:
                closed.missing = -1

    def _forget(self, key: int) -> _Open | None:
        self._named.pop(key, None)
        return self._opened.pop(key, None)

    # leaving be

    def _put_down(self, unwanted: Collection[str]) -> None:
        """Whatever is being done for these; all others go on."""
        if not unwanted:
            return
        left = [source for source in self._sources if source.job in unwanted]
        self._sources = deque(source for source in self._sources if source.job not in unwanted)
        for ticket, job in list(self._jobs.items()):
            if job.source is not None and job.source.job in unwanted:
                self._workers.cancel(ticket)
                self._tally.stopped(ticket)
                del self._jobs[ticket]
                left.append(job.source)
        closed = {key: opened for key, opened in self._opened.items() if opened.source.job in unwanted}
        self._close(closed)
        parsed = [opened.source for opened in closed.values()]
        for source in left + parsed:
            self._sink.put_down(source)
            self._tally.dropped(source, is_parsed=source in parsed, failed=False)

    # writing

    def _flush(self, *, force: bool) -> None:
        due = self._whole_chunks >= FLUSH_CHUNKS or time.monotonic() - self._last_flush >= FLUSH_SECONDS
        if not self._whole or not (force or due):
            return
        batch = []
        for opened in self._whole:
            vectors = [vector for vector in opened.vectors if vector is not None]
            batch.append(Finished(opened.source, opened.prepared, vectors, opened.extra))
            self._forget(id(opened))
        self._whole, self._whole_chunks = [], 0
        more = list(self._sink.store(batch))
        self._sources.extend(more)
        self._tally.stored(batch, more)
        self._last_flush = time.monotonic()


class _ProgressCounts:
    """Counts for the progress value."""

    def __init__(self) -> None:
        self._ticket = 0
        self._started = time.monotonic()
        self._documents_total = self._documents_done = self._documents_failed = 0
        self._pages_before = 0
        self._pages_now: dict[int, tuple[int, int]] = {}
        self._chunks_total = 0
        self._time_left = TimeLeft(self._started)
        self.chunks_done = 0

    def next_ticket(self) -> int:
        self._ticket += 1
        return self._ticket

    def pages(self, ticket: int, done: int, total: int) -> None:
        self._pages_now[ticket] = (done, total)

    def parsed(self, ticket: int, source: NewDocument, prepared: Prepared) -> None:
        self._pages_now.pop(ticket, None)
        self._pages_before += len(prepared.pages)
        self._chunks_total += len(prepared.chunks)
        self._time_left.parsed(_kind(source), source.size, len(prepared.chunks))

    def stopped(self, ticket: int) -> None:
        done, _ = self._pages_now.pop(ticket, (0, 0))
        self._pages_before += done

    def dropped(self, source: NewDocument, *, is_parsed: bool, failed: bool) -> None:
        """It failed, or nobody wants it any more."""
        if not is_parsed:
            self._time_left.dropped(_kind(source), source.size)
        self._documents_done += failed
        self._documents_failed += failed
        self._documents_total -= not failed

    def stored(self, batch: Sequence[Finished], more: Iterable[NewDocument]) -> None:
        self._documents_done += len(batch)
        self.add(more)

    def add(self, sources: Iterable[NewDocument]) -> None:
        for source in sources:
            self._documents_total += 1
            self._time_left.coming(_kind(source), source.size)

    def _files(self, steps: dict[int, _Step], opened: Iterable[_Open]) -> Iterator[FileProgress]:
        """Of those that jobs name, as all of `opened` are; an attachment is part of its mail."""
        for ticket, step in steps.items():
            if step.source is not None and _is_named(step.source):
                yield FileProgress(step.source.job, *self._pages_now.get(ticket, (0, 0)))
        for document in opened:
            pages, chunks = len(document.prepared.pages), len(document.prepared.chunks)
            yield FileProgress(document.source.job, pages, pages, chunks - document.missing, chunks)

    def progress(self, jobs: dict[int, _Step], opened: Iterable[_Open]) -> Progress:
        seconds = time.monotonic() - self._started
        done_pages = self._pages_before + sum(done for done, _ in self._pages_now.values())
        total_pages = self._pages_before + sum(total for _, total in self._pages_now.values())
        left = self._time_left.seconds(self._started + seconds, self.chunks_done)
        names = (job.source.document.name for job in jobs.values() if job.source is not None)
        return Progress(
            documents_total=self._documents_total,
            documents_done=self._documents_done,
            documents_failed=self._documents_failed,
            pages_total=total_pages,
            pages_done=done_pages,
            chunks_total=self._chunks_total,
            chunks_done=self.chunks_done,
            seconds=round(seconds, 3),
            chunks_per_second=round(self.chunks_done / seconds, 1) if seconds else 0.0,
            seconds_left=left,
            working_on=tuple(names),
            files=tuple(self._files(jobs, opened)),
        )


def _is_named(source: NewDocument) -> bool:
    return bool(source.job) and source.document.parent_id is None


def _kind(source: NewDocument) -> str:
    """By the ending of its name: what the file really is, nobody knows yet."""
    return PurePath(source.document.name).suffix.lower()
