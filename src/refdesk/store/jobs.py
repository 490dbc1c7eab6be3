"""The job queue: one table of jobs visible to every process of a library, and the same in memory.

    submit -> pending, free -> taken by a run -> processing -> ready, or failed with the reason; or cancelled

A run is a process at work; its row is its lease. A run that is not heard of for a minute, or whose process is known to
be dead, is at an end: its jobs are free again, and whoever comes next takes them.

Beside adding, the derived indexes are kept right: compacted, rebuilt from the store, checked against it.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import orjson
from sqlalchemy import Connection, Engine, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import DatabaseError

from refdesk.config import DATABASE, damage
from refdesk.errors import LibraryError
from refdesk.ports import Embedder
from refdesk.records import Damage, LexicalEntry
from refdesk.store.copying import opened_copy
from refdesk.store.database import ROWS, PreparedReader, SqlStatement, changes, storable
from refdesk.store.rows import SHARED, bump, now
from refdesk.store.schema import jobs as table
from refdesk.store.schema import state
from refdesk.store_ports import ChunkStore, Files, IndexWriter, Jobs, LibraryWriter
from refdesk.types import QUEUED, UNFINISHED, Finding, Job, JobKind

LEASE_S = 60.0  # a run that was not heard of for so long is at an end
RUNS: tuple[JobKind, ...] = ("run",)
TRIES = 5  # to take jobs that others are taking
_SOME = 500  # values in one condition
_FIELDS = [field.name for field in fields(Job)]
Choose = Callable[[list[Job]], Sequence[Job]]

# Is a process at an end? Its id names machine, process and moment of its start, which tell on the machine itself.


def new_run() -> Job:
    pid = os.getpid()
    run_id = ".".join((_machine(), str(pid), _started(pid), secrets.token_hex(4)))
    return Job(run_id, f"process {pid}", "", "processing", kind="run", worker=run_id, lease_until=_lease())


def is_over(run: Job) -> bool:
    machine, pid, started, _ = run.id.rsplit(".", 3)
    is_here = machine == _machine() != "elsewhere"
    return run.lease_until < time.time() or (is_here and _is_dead(int(pid), started))


def _lease() -> float:
    return time.time() + LEASE_S


@cache
def _machine() -> str:
    """This start of this machine, or of this container: the only ones whose processes can be looked at."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return "elsewhere"


def _started(pid: int) -> str:
    """When a process began, in ticks since the machine did; "" of one that is no more."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ""
    return "" if state in "ZX" else rest[18]


def _is_dead(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # somebody else's, who may hide when it began
        return False
    return _started(pid) != started  # another one has its number by now


class _Clock:
    """Moments, each later than the one before, so that of two files with one name the second replaces the first."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._last = datetime.min.replace(tzinfo=UTC)

    def next(self) -> str:
        with self._guard:
            self._last = max(datetime.now(UTC), self._last + timedelta(microseconds=1))
            return self._last.isoformat(timespec="microseconds")

    def submitted(self, job: Job) -> Job:
        moment = self.next()
        job_id = job.id or secrets.token_hex(12)
        source = job.source or f"upload:{job_id}"
        return replace(job, id=job_id, source=source, created_at=job.created_at or moment, updated_at=now())


class SqlJobs:
    """The `Jobs` port; for several threads and processes."""

    def __init__(self, reader: PreparedReader) -> None:
        self._reader = reader
        self._clock = _Clock()
        self._find_version = SqlStatement(select(state.c.value).where(state.c.name == "jobs"))
        self._insert = SqlStatement(insert(table))
        waits = (table.c.kind == QUEUED[0]) | (table.c.kind == QUEUED[1])
        unfinished = (table.c.status == UNFINISHED[0]) | (table.c.status == UNFINISHED[1])
        self._count = SqlStatement(select(func.count()).select_from(table).where(waits, unfinished))
        self._seen: dict[tuple[JobKind, ...], tuple[int, dict[str, Job]]] = {}

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        with changes(self._reader.engine, ROWS) as connection:
            is_sqlite = connection.dialect.name == "sqlite"
            if is_sqlite:  # nothing is left of a password on a page of the file that is free
                connection.exec_driver_sql("PRAGMA secure_delete = ON").close()
            yield connection
            bump(connection, "jobs")
            if is_sqlite:
                connection.exec_driver_sql("PRAGMA secure_delete = OFF").close()

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        made = [self._clock.submitted(job) for job in jobs]
        if not made:
            return []
        with self._changing() as connection:
            self._insert.run_many(connection, [_row(job) for job in made])
        return made

    def version(self) -> int:
        rows = self._reader.rows(self._find_version)
        return int(rows[0][0]) if rows else 0

    def waiting(self) -> int:
        return int(self._reader.rows(self._count)[0][0])

    def all(self, kinds: Collection[JobKind] = QUEUED) -> dict[str, Job]:
        key = tuple(kinds)
        version = self.version()  # before the rows: they may be newer than it says, never older
        known = self._seen.get(key)
        if known is None or known[0] != version:
            query = select(table).where(table.c.kind.in_(key), table.c.status != "cancelled")
            with self._reader.engine.connect() as connection:
                found = _read(connection, query.order_by(table.c.created_at, table.c.id))
            known = self._seen[key] = (version, {job.id: job for job in found})
        return known[1]

    # runs

    def start(self) -> str:
        (run,) = self.submit([new_run()])
        return run.id

    def beat(self, worker: str) -> None:
        with changes(self._reader.engine, ROWS) as connection:  # nobody's version changes by it
            known = update(table).where(table.c.id == worker).values(lease_until=_lease())
            if not connection.execute(known).rowcount:  # it was thought to be dead: it had slept, say
                self._insert.run_many(connection, [_row(replace(self._clock.submitted(new_run()), id=worker))])

    def end(self, worker: str) -> None:
        with self._changing() as connection:
            _set_free(connection, [worker])

    def alive(self) -> set[str]:
        with self._reader.engine.connect() as connection:
            runs = _read(connection, select(table).where(table.c.kind == "run"))
        if any(is_over(run) for run in runs):
            with self._changing() as connection:
                runs = _living(connection)
        return {run.id for run in runs}

    def take(self, worker: str, choose: Choose, *, alone: bool = False) -> list[Job]:
        for _ in range(TRIES):
            with changes(self._reader.engine, "jobs" if alone else ROWS) as connection:
                _living(connection)
                waits = select(table).where(table.c.status.in_(UNFINISHED), table.c.kind != "run")
                others = waits.where(table.c.kind.in_(QUEUED), table.c.worker.not_in(("", worker))).limit(1)
                if alone and connection.execute(others).first() is not None:
                    return []
                free = waits.where(table.c.worker == "").order_by(table.c.created_at, table.c.id)
                chosen = choose(_read(connection, free))
                left = {  # another one may have taken some since they were read, or be about to
                    job.id: replace(job, worker=worker, attempts=job.attempts + 1)
                    for some in _portions([job.id for job in chosen])
                    for job in _read(connection, free.where(table.c.id.in_(some)).with_for_update(skip_locked=True))
                }
                taken = [left[job.id] for job in chosen if job.id in left]
                _write(connection, taken)
                if taken:
                    bump(connection, "jobs")
            if taken or not chosen:
                return taken
        return []  # others were faster each time; there is more where that came from

    # jobs

    def change(self, jobs: Iterable[Job], worker: str = "") -> list[Job]:
        changed = [replace(job, updated_at=now()) for job in jobs]
        if not changed:
            return []
        with self._changing() as connection:
            own_jobs = (
                select(table.c.id).where(table.c.worker == worker, table.c.status != "cancelled").with_for_update()
            )
            ids = _portions([job.id for job in changed])
            left = {
                scalar for some in ids for scalar in connection.execute(own_jobs.where(table.c.id.in_(some))).scalars()
            }
            changed = [job for job in changed if job.id in left]
            _write(connection, changed)
        return changed

    def cancel(self, ids: Iterable[str]) -> None:
        self._each(ids, lambda some: update(table).where(table.c.id.in_(some)).values(status="cancelled"))

    def cancelled(self, worker: str | None = None) -> list[Job]:
        query = select(table).where(table.c.status == "cancelled", table.c.worker == (worker or ""))
        with self._reader.engine.connect() as connection:
            return _read(connection, query.order_by(table.c.created_at))

    def remove(self, ids: Iterable[str]) -> None:
        self._each(ids, lambda some: delete(table).where(table.c.id.in_(some)))

    def _each(self, ids: Iterable[str], statement: Callable[[Sequence[str]], Any]) -> None:
        if known := list(ids):
            with self._changing() as connection:
                for some in _portions(known):
                    connection.execute(statement(some))


def clear_copy(engine: Engine) -> None:
    """Makes a copied database fit for a backup: nobody is at work in it, and nobody keeps a password."""
    with engine.begin() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA secure_delete = ON").close()
        connection.execute(delete(table).where(table.c.kind == "run"))
        connection.execute(update(table).values(worker="", password=None))
        connection.execute(delete(state).where(state.c.name == SHARED))


def is_anyone_at_work(folder: Path) -> bool:
    """Whether anybody serves a library or adds to it; nobody does when it is damaged or there is none."""
    if not (folder / DATABASE).is_file():
        return False
    with opened_copy(folder / DATABASE) as engine:
        try:
            return bool(SqlJobs(PreparedReader(engine)).alive())
        except (DatabaseError, LibraryError):
            return False


def _living(connection: Connection) -> list[Job]:
    """The runs at work; what the others had taken is free from now on."""
    runs = _read(connection, select(table).where(table.c.kind == "run"))
    over = [run.id for run in runs if is_over(run)]
    if over:
        _set_free(connection, over)
    return [run for run in runs if run.id not in over]


def _set_free(connection: Connection, workers: Sequence[str]) -> None:
    connection.execute(delete(table).where(table.c.id.in_(workers)))
    connection.execute(update(table).where(table.c.worker.in_(workers)).values(worker=""))


_UPDATE = SqlStatement(
    update(table)
    .where(table.c.id == bindparam("of"))
    .values({name: bindparam(name) for name in _FIELDS if name != "id"})
)


def _write(connection: Connection, jobs: Iterable[Job]) -> None:
    _UPDATE.run_many(connection, [_row(job) | {"of": job.id} for job in jobs])


def _row(job: Job) -> dict[str, Any]:
    found = {name: getattr(job, name) for name in _FIELDS}
    for name in ("name", "source", "reason", "url"):
        found[name] = storable(found[name])
    return found | {"metadata": orjson.dumps(dict(job.metadata)).decode()}


def _read(connection: Connection, query: Any) -> list[Job]:
    return [Job(**{**row, "metadata": orjson.loads(row["metadata"])}) for row in connection.execute(query).mappings()]


def _portions(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(ids), _SOME):
        yield ids[at : at + _SOME]


class MemoryJobs:
    """The `Jobs` port of one process that keeps nothing."""

    def __init__(self) -> None:
        self._clock = _Clock()
        self._guard = threading.RLock()
        self._jobs: dict[str, Job] = {}  # replaced, never changed: whoever reads it needs no lock
        self._version = 0

    def _put(self, jobs: Iterable[Job], gone: Collection[str] = ()) -> None:
        left = {job_id: job for job_id, job in self._jobs.items() if job_id not in gone}
        self._jobs, self._version = left | {job.id: job for job in jobs}, self._version + 1

    def submit(self, jobs: Sequence[Job]) -> list[Job]:
        with self._guard:
            made = [self._clock.submitted(job) for job in jobs]
            self._put(made)
        return made

    def version(self) -> int:
        return self._version

    def waiting(self) -> int:
        return sum(job.status in UNFINISHED for job in self.all().values())

    def all(self, kinds: Collection[JobKind] = QUEUED) -> dict[str, Job]:
        return {job.id: job for job in self._jobs.values() if job.kind in kinds and job.status != "cancelled"}

    def start(self) -> str:
        return self.submit([new_run()])[0].id

    def beat(self, worker: str) -> None:
        with self._guard:
            self._put([replace(self._jobs.get(worker, new_run()), id=worker, lease_until=_lease())])

    def end(self, worker: str) -> None:
        with self._guard:
            self._put([replace(job, worker="") for job in self._jobs.values() if job.worker == worker], ())
            self._put((), {worker})

    def alive(self) -> set[str]:
        with self._guard:
            for run in self.all(RUNS).values():
                if is_over(run):
                    self.end(run.id)
            return set(self.all(RUNS))

    def take(self, worker: str, choose: Choose, *, alone: bool = False) -> list[Job]:
        with self._guard:
            self.alive()
            waiting = [job for job in self._jobs.values() if job.kind != "run" and job.status in UNFINISHED]
            if alone and any(job.kind in QUEUED and job.worker not in ("", worker) for job in waiting):
                return []
            chosen = choose([job for job in waiting if not job.worker])
            taken = [replace(job, worker=worker, attempts=job.attempts + 1) for job in chosen]
            self._put(taken)
        return taken

    def change(self, jobs: Iterable[Job], worker: str = "") -> list[Job]:
        with self._guard:
            left = {job.id for job in self._jobs.values() if job.worker == worker and job.status != "cancelled"}
            changed = [replace(job, updated_at=now()) for job in jobs if job.id in left]
            self._put(changed)
        return changed

    def cancel(self, ids: Iterable[str]) -> None:
        with self._guard:
            self._put(replace(self._jobs[id_], status="cancelled") for id_ in ids if id_ in self._jobs)

    def cancelled(self, worker: str | None = None) -> list[Job]:
        return [job for job in self._jobs.values() if job.status == "cancelled" and job.worker == (worker or "")]

    def remove(self, ids: Iterable[str]) -> None:
        with self._guard:
            self._put((), set(ids))


# --- keeping the derived indexes right --------------------------------------------------------------------------------

_NAMED = 3  # files that a sentence names; the others are counted
_BATCH = 512
_T = TypeVar("_T")

Report = Callable[[int, int], None]  # done, in all


class Maintenance:
    """Work on the whole library; each method holds the writer's lock."""

    def __init__(self, chunks: ChunkStore, index: IndexWriter, writer: LibraryWriter, files: Files) -> None:
        self._chunks, self._index, self._writer, self._files = chunks, index, writer, files

    def compact(self, *, force: bool = False) -> bool:
        """Writes the vectors anew when much has come, or gone, since they were written last."""
        self._index.refresh()
        gone = sum(last - first + 1 for first, last in self._chunks.dropped())
        if not (force or self._index.needs_compaction(gone)):
            return False
        with self._writer.locked():
            self._index.compact(self._index.refresh())
            self._writer.begin_epoch()
            self._index.remove_old(self._index.refresh())
        return True

    def rebuild(self, embedder: Embedder, report: Report = lambda done, total: None) -> int:
        """Builds every index anew from the store, with new vectors when the embedder is another one; gives the chunks.

        Searches use the old ones until the new ones are complete.
        """
        with self._writer.locked(repair=False):  # the index to repair may be the one that is damaged
            total = self._chunks.counts(embedder.name)["chunks"]
            if self._chunks.state().embedder not in ("", embedder.name):
                self._embed_anew(embedder, total, report)
            state = self._chunks.state()
            self._index.rebuild(state.lexical + 1, self._entries(total, report))
            self._index.forget_vectors(state)
            self._writer.switch_index(embedder.name, state.lexical + 1)
            self.compact(force=True)
            self._writer.clear_unused()
        return total

    def _entries(self, total: int, report: Report) -> Iterator[list[LexicalEntry]]:
        done = 0
        for batch in _batches(self._chunks.entries_after(0), _BATCH * 8):
            yield batch
            done += len(batch)
            report(done, total)

    def _embed_anew(self, embedder: Embedder, total: int, report: Report) -> None:
        done = 0
        for batch in _batches(self._chunks.all_chunks(), _BATCH):
            chunks = [chunk for _, chunk in batch]
            self._writer.put_vectors(embedder.name, chunks, embedder.embed_chunks(chunks))
            done += len(batch)
            report(done, total)

    def check(self) -> list[Finding]:
        """Compares the indexes with the store, while nobody changes either."""
        with self._writer.locked(repair=False):
            return list(self._findings())

    def check_files(self, jobs: Jobs) -> list[Finding]:
        """Compares originals and uploads with their hashes; reads all of them, and nobody waits for it."""
        damaged = damaged_originals(self._chunks, self._files)
        if damaged:  # one that was replaced or removed meanwhile is no damage
            with self._writer.locked(repair=False):
                damaged = damaged_originals(self._chunks, self._files)
        return [
            _finding("originals", damaged, "add those files again, or restore a backup with `refdesk restore FILE`"),
            _finding("uploads", damaged_uploads(jobs, self._files), "upload those files again"),
        ]

    def _findings(self) -> Iterator[Finding]:
        state = self._index.refresh()
        counts = self._chunks.counts(state.embedder)
        integrity, expected, truth = self._chunks.integrity()
        yield Finding("database", integrity == "ok", integrity, "restore a backup with `refdesk restore FILE`")
        yield Finding(
            "chunks",
            counts["chunks"] == expected,
            f"{counts['chunks']} chunks stored, {expected} belong to documents that are ready",
            "add the documents again",
        )
        waiting = {i for first, last in self._chunks.dropped() for i in range(first, last + 1)}
        content = self._index.content()
        lexical = content.lexical_ids - waiting
        yield Finding(
            "BM25 index",
            lexical == truth,
            f"{len(lexical)} chunks, {len(truth - lexical)} missing, {len(lexical - truth)} too many",
            "run `refdesk reindex`",
        )
        yield Finding(
            "tables",
            state.has_tables,
            "stored as cells"
            if state.has_tables
            else "some documents were added by an earlier version that stored none",
            "run `refdesk reindex`",
        )
        is_current = content.has_current_terms
        yield Finding(
            "BM25 terms",
            is_current,
            "up to date" if is_current else "made by an earlier version; search finds less",
            "run `refdesk reindex`",
        )
        yield Finding(
            "vectors",
            counts["vectors"] == len(truth) == content.vector_count,
            f"{counts['vectors']} stored, {content.vector_count} searchable ({state.embedder or 'no model yet'})",
            "run `refdesk reindex`",
        )


def damaged_originals(chunks: ChunkStore, files: Files) -> list[Damage]:
    """Of documents and of the pictures cut out of them; a text that a program added has no original."""
    found = [(name, files.damage(content_hash)) for content_hash, name in chunks.wanted_files().items()]
    return [Damage(name, what) for name, what in found if what]


def damaged_uploads(jobs: Jobs, files: Files) -> list[Damage]:
    """Those that wait to be added, or may be tried again, and cannot be."""
    waiting = [job for job in jobs.all().values() if job.status != "ready"]
    found = [(job, damage(files.staged(job.id), job.content_hash)) for job in waiting]
    left = jobs.all()  # one that was added meanwhile is no damage
    return [Damage(job.name, what) for job, what in found if what and left.get(job.id, job).status == job.status]


def _finding(title: str, damaged: Sequence[Damage], advice: str) -> Finding:
    sentences = [f"{name.name} is {name.what}" for name in damaged[:_NAMED]]
    if len(damaged) > _NAMED:
        sentences.append(f"{len(damaged) - _NAMED} more")
    return Finding(title, not damaged, "; ".join(sentences) or "all present and unchanged", advice)


def _batches(items: Iterator[_T], size: int) -> Iterator[list[_T]]:
    while batch := list(islice(items, size)):
        yield batch
