"""One add: what to do for the given paths, texts or jobs, and the outcome of each.

Unchanged files are left alone, changed ones replaced in one step; jobs that a killed run has left are taken over.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from refdesk.config import hash_file
from refdesk.errors import DiskFull, ParserDied, RefdeskError, TooLarge, UnreadableFile
from refdesk.ingest.nested import NestedFiles
from refdesk.ingest.pipeline import Finished, FoundFile, NewDocument, Pipeline, discover, look
from refdesk.ingest.runs import (
    COUNTS,
    MOST_TAKEN,
    PARKED,
    Run,
    finished_job,
    is_tried_again,
    later,
    without_worker,
)
from refdesk.ingest.worker import Preparer
from refdesk.ingest.workers import (
    AttachedFile,
    EmbedsHere,
    EmbedTask,
    InProcess,
    PreparedFile,
    PrepareTask,
    Setup,
    WorkerPool,
    worker_pool,
)
from refdesk.ports import Embedder
from refdesk.records import NewText
from refdesk.settings import Settings
from refdesk.store_ports import DocumentStore, Files, Jobs, LibraryWriter, Ready
from refdesk.types import BACKGROUND, EVERYTHING, QUEUED, Added, Document, Job, Outcome, Progress, Scope

UPLOAD = "upload:"  # what the source of their documents begins with
TELL_S = 0.25  # progress is written down this often at most, and what was cancelled is looked for


class Intake:
    """Adds to one library; made anew for every add. Texts need no run: whoever hands them in waits for the result, so
    there is nothing to take over, and hundreds in a second need no rows of their own."""

    def __init__(
        self,
        documents: DocumentStore,
        writer: LibraryWriter,
        jobs: Jobs,
        files: Files,
        setup: Setup,
        embedder: Embedder,
        on_progress: Callable[[Progress], None],
        on_added: Callable[[Added], None],
        after_store: Callable[[], object],
        run: Run | None = None,
    ) -> None:
        self._documents = documents
        self._writer = writer
        self._jobs = jobs
        self._files = files
        self._setup = setup
        self._embedder = embedder
        self._on_progress = on_progress
        self._on_added = on_added
        self._after_store = after_store
        self._run = run
        self._worker = run.worker if run is not None else ""
        self._taken: dict[str, Job] = {}  # as they were last written
        self._became: dict[str, Added] = {}  # the file of each job
        self._under_way: Counter[str] = Counter()  # the documents of each job: its file, and what is attached to it
        self._begun: list[str] = []
        self._nested = NestedFiles(setup.settings.max_unpacked_mb << 20)
        self._written = self._looked = 0.0
        self.results: list[Added] = []

    @property
    def _settings(self) -> Settings:
        return self._setup.settings

    # files

    def add_paths(
        self,
        paths: Sequence[Path],
        collection: str,
        metadata: dict[str, str],
        password: str | None,
        *,
        sync: bool,
        follow_links: bool,
    ) -> None:
        self._clear_up()
        # Once each, though a file may be named itself and lie in a folder that is named too.
        wanted = (found_file for path in paths for found_file in discover(path.absolute(), follow_links=follow_links))
        found = list({file.path: file for file in wanted}.values())
        if sync:
            self._remove_missing([path.absolute() for path in paths], found)
        sources = self._sources(found, collection, metadata)
        mine = self._jobs.submit([self._file_job(source.document, password) for source in sources])
        self._taken = {job.id: job for job in mine}
        prepared = [self._prepare(source, job) for source, job in zip(sources, mine, strict=True)]
        left = self._jobs.take(
            self._worker,
            lambda free: [
                job for job in free if 0 < job.attempts <= MOST_TAKEN and job.is_due and job.kind not in BACKGROUND
            ],
        )
        places = {(job.collection, job.source) for job in mine}
        again = [job.id for job in left if (job.collection, job.source) in places]
        self._jobs.remove(again)
        self._work_off([job for job in left if job.id not in again], prepared)

    def _file_job(self, document: Document, password: str | None) -> Job:
        """Taken by this run from its beginning."""
        copied = ("name", "collection", "source", "size", "content_hash", "metadata")
        fields: Any = {name: getattr(document, name) for name in copied}
        return Job("", kind="file", worker=self._worker, attempts=1, password=password, **fields)

    def work(self, choose: Callable[[list[Job]], Sequence[Job]], *, alone: bool = True) -> bool:
        """Takes the jobs that are chosen of those that wait, unless, `alone`, another run is at it; says whether there
        were any.

        One that is cancelled is put down, also in the middle of it, and told as removed.
        """
        self._clear_up()
        jobs = self._jobs.take(self._worker, choose, alone=alone)
        parked = [job for job in jobs if job.attempts > MOST_TAKEN and job.kind in QUEUED]
        self._taken = {job.id: job for job in parked}
        self._give_up(ParserDied(f"its worker died {MOST_TAKEN} times while processing it", hint=PARKED))
        self._work_off([job for job in jobs if job not in parked], [])
        return bool(jobs)

    def _clear_up(self) -> None:
        """After killed runs: what they have put aside is of no use to anybody."""
        if self._files.clear_workspaces(self._jobs.alive):
            self._writer.clear_unused()

    def _work_off(self, waiting: list[Job], prepared: list[NewDocument]) -> None:
        self._taken |= {job.id: job for job in waiting}
        try:
            while waiting or prepared:
                sources: dict[Any, NewDocument] = {source.job: source for source in prepared}
                twins: list[Job] = []  # their turn comes when it is known what became of the first
                for job in waiting:
                    source = self._uploaded(job) if job.kind in QUEUED else self._resumed(job)
                    if source is not None:
                        key = (source.document.collection, source.document.content_hash)
                        if sources.setdefault(key, source) is not source:
                            twins.append(job)
                self._write_ended()
                if sources:
                    self._take_in(list(sources.values()))
                waiting, prepared = twins, []
        except BaseException as error:
            # Ctrl-C, a full disk: what is finished stays in, the rest is as if nobody had added it. But when a server
            # ends, what was uploaded is resumed at its next start, and keeps its ids until then.
            with suppress(RefdeskError):  # on a full disk it may not succeed; then the next add takes them over
                if isinstance(error, Exception) or any(job.kind not in QUEUED for job in self._taken.values()):
                    self._writer.withdraw(self._worker)
                self._give_up(error)
            raise
        # What the pipeline said nothing of must not be tried for ever.
        self._give_up(UnreadableFile("it was not added; try again"))

    def _uploaded(self, job: Job) -> NewDocument | None:
        """What to do for an upload, whose name replaces that of one before; None when nothing is."""
        retried = self._documents.visible(job.document_id, EVERYTHING) if job.document_id else None
        if retried is not None and retried.source and not retried.source.startswith(UPLOAD):
            # A file of this machine that was handed in again keeps its place.
            job = replace(job, name=retried.name, collection=retried.collection, source=retried.source)
        place = self._documents.at_place(job.collection, job.source)
        before = place[0] if place else None  # a second try; an upload may have been renamed or moved since
        if before is None and job.source.startswith(UPLOAD):
            before = self._documents.from_source(job.source)
        known = before or self._documents.upload_named(job.collection, job.name)
        document = Document(
            id=known.id if known else "",
            name=before.name if before else job.name,
            collection=before.collection if before else job.collection,
            content_hash="",
            status="pending",
            source=job.source,
            metadata=dict(job.metadata),
        )
        found = look(self._files.staged(job.id), job.name)
        try:
            content_hash = hash_file(found.path)
        except OSError as error:
            self._refuse(document, UnreadableFile(f"it cannot be read: {error.strerror or error}"), job.id)
            return None
        document = replace(document, size=found.size, content_hash=content_hash)
        twin = self._documents.with_content(document.collection, content_hash)
        is_whole = before is None or twin is None or twin.id != before.id or not self._documents.children(twin.id)
        if twin is not None and is_whole and twin.metadata.items() >= job.metadata.items():
            self._leave(document, twin, "" if twin.name == document.name else f"same content as {twin.name}", job.id)
            return None
        return self._prepare(NewDocument(document, None, found.modified, found.size), job, found.path)

    def _resumed(self, job: Job) -> NewDocument | None:
        """What to do for a file that a killed run has left; None when nothing is."""
        place = self._documents.at_place(job.collection, job.source)
        known = place[0] if place else None
        is_stored = known is not None and known.status == "ready" and known.content_hash == job.content_hash
        if known is None or (is_stored and not self._documents.children(known.id)):  # removed since, or finished
            self._jobs.remove([self._taken.pop(job.id).id])
            return None
        if is_stored:  # what is attached to it went with the run; it is still in the bytes that are kept
            source = NewDocument(known, None, place[1] if place else 0.0, known.size)
            return self._prepare(source, job, self._writer.original(known))
        found = look(Path(job.source), job.name)
        return self._prepare(NewDocument(known, None, found.modified, found.size), job)

    def _prepare(self, source: NewDocument, job: Job, path: Path | None = None) -> NewDocument:
        assert self._run is not None
        self._under_way[job.id] = 1
        task = PrepareTask(
            source.document, path=path or Path(job.source), folder=self._run.folder, password=job.password
        )
        return replace(source, task=task, job=job.id)

    def _take_in(self, sources: list[NewDocument]) -> None:
        self._writer.register([s.document for s in sources], [s.modified for s in sources], self._worker)
        assert self._run is not None
        embed = self._embedder.embed_chunks
        pool = self._run.pool.take(self._setup, lambda: worker_pool(self._setup, lambda task: embed(task.chunks)))
        try:
            self._pipeline(pool).run(sources)
        except BaseException:
            pool.close()  # some of it may still be at what nobody waits for
            raise
        self._run.pool.keep(pool)

    def _give_up(self, error: BaseException) -> None:
        """Jobs that are not finished: files are nobody's any more, uploads have failed or are free for the next run."""
        free, failed, gone = [], [], []
        for job in self._taken.values():
            is_stored = job.id in self._became
            if job.kind not in QUEUED and not is_stored:
                gone.append(job.id)
            elif not is_stored and is_tried_again(job, error):
                free.append(later(job, error))
            elif isinstance(error, RefdeskError) and not is_stored:
                is_full = isinstance(error, DiskFull)
                reason = "the server's disk is full; try again when there is space on it" if is_full else error.sentence
                failed.append(replace(without_worker(job), status="failed", reason=reason))
            elif isinstance(error, Exception):
                free.append(later(job, error))
            else:  # told to stop: nothing is wrong with it
                free.append(replace(job, worker="", attempts=job.attempts - 1))
        self._taken = {}
        self._jobs.remove(gone)
        self._jobs.change([*free, *failed], self._worker)

    def _sources(self, found: Sequence[FoundFile], collection: str, metadata: dict[str, str]) -> list[NewDocument]:
        """What has to be taken in; of new files with the same content, one."""
        changed: list[NewDocument] = []
        new: dict[str, NewDocument] = {}
        for found_file in found:
            if found_file.skipped:
                self._say(
                    Added(_text(found_file.name), "skipped", None, found_file.skipped, _text(str(found_file.path)))
                )
                continue
            source = self._source(found_file, collection, metadata) if self._is_nameable(found_file) else None
            if source is None:
                continue
            content_hash = source.document.content_hash
            if source.document.id or not content_hash:
                changed.append(source)
            elif content_hash in new:
                self._leave(source.document, None, f"same content as {new[content_hash].document.name}")
            else:
                new[content_hash] = source
        # A twin that is about to change will not hold this content any longer.
        leaving = {source.document.id for source in changed}
        for content_hash, source in list(new.items()):
            twin = self._documents.with_content(collection, content_hash)
            if twin is not None and twin.id not in leaving:
                self._leave(source.document, twin, f"same content as {twin.name}")
                del new[content_hash]
        return changed + list(new.values())

    def _is_nameable(self, found: FoundFile) -> bool:
        """File systems allow names that are no text in any encoding; neither SQL nor JSON can hold them."""
        if _text(str(found.path)) == str(found.path):
            return True
        error = UnreadableFile("its name is not valid text", hint="rename it, and add it again")
        self._say(Added(_text(found.name), "failed", None, error.sentence))
        return False

    def _source(self, found: FoundFile, collection: str, metadata: dict[str, str]) -> NewDocument | None:
        """What to do for one file; None when nothing is."""
        document = Document(
            id="",
            name=found.name,
            collection=collection,
            content_hash="",
            status="pending",
            size=found.size,
            source=str(found.path),
            metadata=metadata,
        )
        if found.error:
            error = UnreadableFile(found.error)
            if found.path.is_symlink() or found.path.exists() or self._documents.at_place(collection, str(found.path)):
                self._refuse(document, error)
            else:  # a name that was mistyped is no document
                self._say(Added(document.name, "failed", None, error.sentence))
            return None
        if found.size > self._settings.max_file_mb << 20:  # not even hashed
            self._refuse(document, TooLarge(f"it is larger than {self._settings.max_file_mb} MB"))
            return None
        known = self._documents.at_place(collection, document.source)
        if known is not None:  # it may have been moved since
            document = replace(document, collection=known[0].collection)
        unchanged = known is not None and known[0].status == "ready" and known[0].metadata.items() >= metadata.items()
        if known is not None and unchanged and (known[0].size, known[1]) == (found.size, found.modified):
            self._leave(document, known[0], "")
            return None
        try:
            content_hash = hash_file(found.path)
        except OSError as error:
            self._refuse(document, UnreadableFile(f"it cannot be read: {error.strerror or error}"))
            return None
        if known is not None and unchanged and known[0].content_hash == content_hash:
            self._leave(document, known[0], "")
            return None
        document = replace(document, id=known[0].id if known else "", content_hash=content_hash)
        return NewDocument(document, None, found.modified, found.size)

    def _remove_missing(self, roots: Sequence[Path], found: Sequence[FoundFile]) -> None:
        present = {str(found_file.path) for found_file in found}
        closed = [
            found_file.path for found_file in found if found_file.error and found_file.path.exists()
        ]  # nobody knows what lies in there
        for document in self._documents.documents(Scope()):
            if document.source in present or not document.source or document.parent_id is not None:
                continue
            if _lies_below(document.source, roots) and not _lies_below(document.source, closed):
                for gone in self._writer.remove([document]):
                    self._say(Added(gone.name, "removed", gone))

    # texts

    def add_texts(self, texts: Iterable[NewText]) -> None:
        """In this process: a text that a program hands in cannot crash a parser."""
        preparer = Preparer(self._settings, self._embedder)
        sources = []
        for text in {(text.collection, text.name): text for text in texts}.values():  # of one name, the last
            document = Document(
                id="",
                name=text.name,
                collection=text.collection,
                content_hash="",
                status="pending",
                format=text.format,
                title=text.title,
                date=text.date,
                metadata=text.metadata,
            )
            sources.append(NewDocument(document, PrepareTask(document, text=text.text), size=len(text.text)))
        sources = [source for source in sources if not self._is_known(source)]
        workers = InProcess(
            lambda task: preparer.prepare(task, _ignore) if isinstance(task, PrepareTask) else preparer.embed(task)
        )
        self._pipeline(workers).run(sources)

    def _is_known(self, source: NewDocument) -> bool:
        known = self._documents.text_named(source.document.collection, source.document.name)
        if known is None or known.status != "ready":
            return False
        same = (
            known.content_hash == source.task.content_hash
            and known.metadata.items() >= source.document.metadata.items()
            and source.document.title in ("", known.title)
        )
        if same:
            self._leave(source.document, known, "")
        return same

    # the pipeline's sink

    def begin(self, source: NewDocument) -> None:
        """Told when a document is being worked on; written down with the progress, each time costs a commit."""
        self._begun.append(source.document.source)

    def _tell(self, progress: Progress) -> None:
        if self._run is not None and time.monotonic() - self._written > TELL_S:
            self._written = time.monotonic()
            self._write_begun()
            self._write_progress(progress)
        self._on_progress(progress)

    def _write_begun(self) -> None:
        if self._run is not None and self._begun:
            self._writer.mark_processing(self._begun, self._worker)
        self._begun = []

    def _write_progress(self, progress: Progress) -> None:
        changed = []
        left = None if progress.seconds_left is None else round(progress.seconds_left, 1)
        for file in progress.files:
            before = self._taken.get(file.job)
            if before is not None:
                counts: Any = {name: getattr(file, name) for name in COUNTS}
                now = replace(before, status="processing", seconds_left=left, **counts)
                changed += [now] if now != before else []
        self._taken |= {job.id: job for job in self._jobs.change(changed, self._worker)}

    def _unwanted(self) -> set[str]:
        if self._run is None or time.monotonic() - self._looked < TELL_S:
            return set()
        self._looked = time.monotonic()
        return {job.id for job in self._jobs.cancelled(self._worker)}

    def store(self, batch: Sequence[Finished]) -> list[NewDocument]:
        """Makes documents visible; gives their attachments as further sources.

        What was cancelled since it was last looked for is not: a small file is read in less than that time.
        """
        if any(work.source.job in self._taken for work in batch):
            cancelled = {job.id for job in self._jobs.cancelled(self._worker)}
            for work in batch:
                if work.source.job in cancelled:
                    self.put_down(work.source)
            batch = [work for work in batch if work.source.job not in cancelled]
        self._write_begun()
        ready = []
        batch = [self._nested.bounded(work) for work in batch]
        for work in batch:
            result: PreparedFile = work.extra
            children = [_attached(work.prepared.document, child) for child in result.children]
            ready.append(
                Ready(work.prepared, work.embedded, result.original, work.source.modified, children, self._worker)
            )
        stored = self._writer.store(ready)
        more: list[NewDocument] = []
        for work, (document, outcome) in zip(batch, stored, strict=True):
            if outcome != "removed":
                attached = self._children(document, work.extra, work.source)
                self._under_way[work.source.job] += len(attached)
                more += attached
            self._end(Added(document.name, outcome, document, source=work.source.document.source), work.source)
        self._write_ended()
        self._after_store()
        return more

    def fail(self, source: NewDocument, error: RefdeskError) -> None:
        job = self._taken.get(source.job)
        if job is not None and job.kind in QUEUED and is_tried_again(job, error):
            self._became.pop(job.id, None)
            self._jobs.change([later(self._taken.pop(job.id), error)], self._worker)
            return
        self._fail(source, error, self._worker)
        self._write_ended()

    def _fail(self, source: NewDocument, error: RefdeskError, owner: str) -> None:
        document = replace(source.document, status="failed")
        kept = self._writer.fail(document, source.modified, error.sentence, owner)
        outcome: Outcome = "removed" if kept is None else "failed"
        self._end(Added(document.name, outcome, kept or document, error.sentence, document.source), source)

    def put_down(self, source: NewDocument) -> None:
        self._writer.cancel(source.document, self._worker)
        self._end(Added(source.document.name, "removed", None, source=source.document.source), source)
        self._write_ended()

    def _children(self, parent: Document, result: PreparedFile, inside: NewDocument) -> list[NewDocument]:
        """Attachments, which are documents of their own, were accepted with the parent and are part of its job."""
        if not result.children:
            return []
        known = {child.name: child for child in self._documents.children(parent.id)}
        sources = []
        for child in result.children:
            accepted = known.get(child.name)
            if accepted is None:  # removed this very moment, with what it was attached to
                continue
            if accepted.status == "ready" and accepted.content_hash == child.content_hash:
                continue
            document = replace(_attached(parent, child), id=accepted.id, parent_id=parent.id)
            task = replace(inside.task, document=document, path=child.path, depth=inside.task.depth + 1)
            sources.append(NewDocument(document, task, size=child.path.stat().st_size, job=inside.job))
        return sources

    # the end of a job

    def _end(self, added: Added, source: NewDocument) -> None:
        """One of a job's documents is finished."""
        self._say(added)
        if source.job in self._taken:
            if source.document.parent_id is None:
                self._became[source.job] = added
            self._under_way[source.job] -= 1

    def _write_ended(self) -> None:
        """The jobs whose documents are all finished; files of failed uploads are kept for another try."""
        ended = [
            self._taken.pop(added) for added in self._became if added in self._taken and self._under_way[added] <= 0
        ]
        uploads = {job.id: finished_job(job, self._became[job.id]) for job in ended if job.kind in QUEUED}
        gone = [job.id for job in ended if job.id not in uploads or self._became[job.id].outcome == "removed"]
        if uploads:
            self._drop(self._settled(uploads.values()))
        written = self._jobs.change([job for job in uploads.values() if job.id not in gone], self._worker)
        lost = uploads.keys() - {job.id for job in written} - set(gone)
        if lost:
            for job_id in lost.intersection(job.id for job in self._jobs.cancelled(self._worker)):
                became = self._became[job_id]  # finished in the moment in which it was cancelled
                if became.document is not None and became.outcome == "added":
                    self._writer.remove([became.document])
                gone.append(job_id)
        self._drop(gone)
        self._files.unstage(job.id for job in written if job.status == "ready")

    def _drop(self, ids: Sequence[str]) -> None:
        self._jobs.remove(ids)  # first: bytes without a job are nobody's
        self._files.unstage(ids)

    def _settled(self, ended: Iterable[Job]) -> list[str]:
        """Earlier tries that failed, under names of which a later one ends."""
        last = {(job.collection, job.name): job for job in ended}
        tries = [(last.get((job.collection, job.name)), job) for job in self._jobs.all().values()]
        return [
            job.id for by, job in tries if by is not None and job.status == "failed" and job.created_at < by.created_at
        ]

    # telling

    def _pipeline(self, workers: WorkerPool | EmbedsHere | InProcess) -> Pipeline:
        return Pipeline(
            workers,
            self,
            EmbedTask,
            self._tell,
            time_limit_s=float(self._settings.time_limit_s),
            file_time_limit_s=float(self._settings.file_time_limit_s),
            unwanted=self._unwanted,
        )

    def _leave(self, document: Document, known: Document | None, reason: str, job_id: str = "") -> None:
        self._end(
            Added(document.name, "unchanged", known, reason, document.source), NewDocument(document, None, job=job_id)
        )

    def _refuse(self, document: Document, error: RefdeskError, job_id: str = "") -> None:
        """One that was never accepted."""
        self._fail(NewDocument(document, None, job=job_id), error, "")

    def _say(self, added: Added) -> None:
        self.results.append(added)
        self._on_added(added)


def _attached(parent: Document, child: AttachedFile) -> Document:
    return Document(
        id="",
        name=child.name,
        collection=parent.collection,
        content_hash=child.content_hash,
        status="pending",
        date=parent.date,
        metadata=parent.metadata,
    )


def _lies_below(source: str, folders: Iterable[Path]) -> bool:
    """`/a/b.txt` lies below `/a`, and below `/a/b.txt` itself."""
    return any(source == str(folder) or source.startswith(f"{folder}{os.sep}") for folder in folders)


def _text(name: str) -> str:
    """What can be shown of a file's name."""
    return name.encode(errors="replace").decode()


def _ignore(done: int, total: int) -> None:
    """A text has no pages to count."""
