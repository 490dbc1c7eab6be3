"""One add: what has to be done for these paths or texts, and what became of each.

Unchanged files are left alone, changed ones replaced in one step, unfinished ones of a killed run taken over.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from refdesk.adapters.catalogue import Catalogue
from refdesk.adapters.discover import Found, discover
from refdesk.adapters.files import hash_file
from refdesk.adapters.processes import WorkerPool
from refdesk.adapters.runs import Run, clear_dead, is_alive
from refdesk.adapters.writer import LibraryWriter, Ready
from refdesk.errors import RefdeskError, UnreadableFile
from refdesk.ingest.pipeline import Finished, InProcess, Pipeline, Source
from refdesk.ports import Embedder
from refdesk.settings import Settings
from refdesk.types import Added, Document, Progress, Scope
from refdesk.worker import Desk, EmbedTask, PreparedFile, PrepareTask, Setup

MOST_WORKERS = 8


@dataclass(frozen=True, slots=True)
class Text:
    """A text handed in by a program."""

    name: str
    text: str
    collection: str
    metadata: dict[str, str]
    title: str = ""
    date: str = ""
    format: str = "text"


class Intake:
    """Adds to one library; made anew for every add."""

    def __init__(
        self,
        catalogue: Catalogue,
        writer: LibraryWriter,
        runs: Path,
        setup: Setup,
        embedder: Embedder,
        on_progress: Callable[[Progress], None],
        on_added: Callable[[Added], None],
    ) -> None:
        self._catalogue = catalogue
        self._writer = writer
        self._runs = runs
        self._setup = setup
        self._embedder = embedder
        self._on_progress = on_progress
        self._on_added = on_added
        self._password: str | None = None
        self._run: Run | None = None
        self.results: list[Added] = []

    @property
    def _settings(self) -> Settings:
        return self._setup.settings

    # files

    def add_paths(
        self, paths: Sequence[Path], collection: str, metadata: dict[str, str], password: str | None, sync: bool
    ) -> None:
        self._password = password
        clear_dead(self._runs)
        found = [one for path in paths for one in discover(path.absolute())]
        if sync:
            self._remove_missing([path.absolute() for path in paths], {str(one.path) for one in found})
        with Run(self._runs) as self._run:
            sources = [s for s in (self._source(one, collection, metadata) for one in found) if s is not None]
            known = {source.document.source for source in sources}
            sources += [s for s in self._abandoned() if s.document.source not in known]
            if sources:
                self._take_in(sources, self._run)

    def _take_in(self, sources: list[Source], run: Run) -> None:
        self._writer.register([s.document for s in sources], [s.modified for s in sources], run.name)
        self._writer.mark_processing([s.document.source for s in sources[: _workers(self._settings)]], run.name)
        pool = WorkerPool(_workers(self._settings), self._setup, memory_limit_mb=self._settings.memory_limit_mb)
        try:
            self._pipeline(pool).run(sources)
        except BaseException:
            # Ctrl-C, a full disk: what is finished stays in, the rest is as if it had never been handed in.
            pool.close()
            self._writer.withdraw(run.name)
            raise
        finally:
            pool.close()

    def _source(self, found: Found, collection: str, metadata: dict[str, str]) -> Source | None:
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
            self._refuse(Source(document, None), UnreadableFile(found.error))
            return None
        if found.size > self._settings.max_file_mb << 20:
            # Not even hashed: the worker refuses it with the same words.
            return self._prepare(document, found)
        known = self._catalogue.at_place(collection, document.source)
        unchanged = known is not None and known[0].status == "ready" and known[0].metadata.items() >= metadata.items()
        if known is not None and unchanged and (known[0].size, known[1]) == (found.size, found.modified):
            self._leave(document, known[0], "")
            return None
        try:
            content_hash = hash_file(found.path)
        except OSError as error:
            self._refuse(Source(document, None), UnreadableFile(f"it cannot be read: {error.strerror or error}"))
            return None
        if known is not None and unchanged and known[0].content_hash == content_hash:
            self._leave(document, known[0], "")
            return None
        twin = self._catalogue.with_content(collection, content_hash)
        if known is None and twin is not None:
            self._leave(document, twin, f"same content as {twin.name}")
            return None
        return self._prepare(replace(document, id=known[0].id if known else ""), found)

    def _prepare(self, document: Document, found: Found) -> Source:
        assert self._run is not None
        task = PrepareTask(document, path=found.path, spool=self._run.spool, password=self._password)
        return Source(document, task, modified=found.modified, size=max(1, found.size))

    def _abandoned(self) -> list[Source]:
        """Documents that a killed run accepted and did not finish."""
        alive: dict[str, bool] = {}
        sources = []
        for document, owner in self._catalogue.unfinished():
            if owner not in alive:
                alive[owner] = is_alive(self._runs, owner)
            if not alive[owner] and document.source:
                found = discover(Path(document.source))
                sources += [self._prepare(document, replace(one, name=document.name)) for one in found]
        return sources

    def _remove_missing(self, roots: Sequence[Path], present: set[str]) -> None:
        for document in self._catalogue.documents(Scope()):
            below = any(document.source == str(root) or document.source.startswith(f"{root}{os.sep}") for root in roots)
            if document.source and document.parent_id is None and below and document.source not in present:
                for gone in self._writer.remove([document.id]):
                    self._say(Added(gone.name, "removed", gone))

    # texts

    def add_texts(self, texts: Iterable[Text]) -> None:
        """In this process: a text that a program hands in cannot crash a parser."""
        desk = Desk(self._setup, self._embedder)
        sources = []
        for text in texts:
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
            sources.append(Source(document, PrepareTask(document, text=text.text), size=max(1, len(text.text))))
        sources = [source for source in sources if not self._is_known(source)]
        workers = InProcess(
            lambda task: desk.prepare(task, _ignore) if isinstance(task, PrepareTask) else desk.embed(task)
        )
        self._pipeline(workers).run(sources)

    def _is_known(self, source: Source) -> bool:
        known = self._catalogue.text_named(source.document.collection, source.document.name)
        if known is None or known.status != "ready":
            return False
        same = (
            known.content_hash == source.task.content_hash
            and known.metadata.items() >= source.document.metadata.items()
        )
        if same:
            self._leave(source.document, known, "")
        return same

    # the pipeline's sink

    def store(self, batch: Sequence[Finished]) -> list[Source]:
        """Makes documents visible; gives their attachments as further sources."""
        ready = []
        for one in batch:
            result: PreparedFile = one.extra
            ready.append(Ready(one.prepared, one.embedded, result.original, one.source.modified))
        stored = self._writer.store(ready)
        children: list[Source] = []
        for one, (document, outcome) in zip(batch, stored, strict=True):
            self._say(Added(document.name, outcome, document))
            children += self._children(document, one.extra)
        return children

    def fail(self, source: Source, error: RefdeskError) -> None:
        kept = self._writer.fail(replace(source.document, status="failed"), source.modified, error.sentence)
        self._say(Added(source.document.name, "failed", kept, error.sentence))

    def _children(self, parent: Document, result: PreparedFile) -> list[Source]:
        """Attachments as documents of their own; those that the new version no longer has go."""
        names = {name for name, _ in result.children}
        old = {child.name: child for child in self._catalogue.children(parent.id)}
        self._writer.remove([child.id for name, child in old.items() if name not in names])
        sources = []
        for name, path in result.children:
            document = Document(
                id=old[name].id if name in old else "",
                name=name,
                collection=parent.collection,
                content_hash="",
                status="pending",
                parent_id=parent.id,
                date=parent.date,
                metadata=parent.metadata,
            )
            task = PrepareTask(document, path=path, spool=path.parent, password=self._password)
            sources.append(Source(document, task, size=max(1, path.stat().st_size)))
        return sources

    # telling

    def _pipeline(self, workers: WorkerPool | InProcess) -> Pipeline:
        return Pipeline(workers, self, EmbedTask, self._on_progress, time_limit_s=float(self._settings.time_limit_s))

    def _leave(self, document: Document, known: Document, reason: str) -> None:
        self._say(Added(document.name, "unchanged", known, reason))

    def _refuse(self, source: Source, error: RefdeskError) -> None:
        self.fail(source, error)

    def _say(self, added: Added) -> None:
        self.results.append(added)
        self._on_added(added)


def _workers(settings: Settings) -> int:
    return settings.workers or max(1, min(MOST_WORKERS, os.cpu_count() or 1))


def _ignore(done: int, total: int) -> None:
    """A text has no pages to count."""
