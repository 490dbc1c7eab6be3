"""One add: what has to be done for these paths or texts, and what became of each.

Unchanged files are left alone, changed ones replaced in one step, unfinished ones of a killed run taken over.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from refdesk.config import SHIPPED_EMBEDDER
from refdesk.disk import DATABASE, hash_file
from refdesk.errors import RefdeskError, TooLarge, UnreadableFile
from refdesk.ingest.pipeline import Finished, InProcess, NewDocument, Pipeline
from refdesk.ingest.worker import Preparer
from refdesk.ingest.workers import AttachedFile, EmbedsHere, EmbedTask, PreparedFile, PrepareTask, Setup, WorkerPool
from refdesk.ports import Embedder
from refdesk.records import NewText, UploadedFile
from refdesk.settings import Settings
from refdesk.store_ports import DocumentStore, Jobs, Lease, Leases, LibraryWriter, Ready
from refdesk.types import Added, Document, Outcome, Progress, Scope

# Which files are meant by these paths?

# What programs leave lying about; nobody means these when adding a folder.
JUNK_NAMES = frozenset({"thumbs.db", "desktop.ini", "__macosx", "__pycache__", "node_modules"})
JUNK_BEGINNINGS = (".", "~$")


LEADS_OUT = "it is a link that leads out of the added folder; --follow-links follows it"


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
        yield _look(path, path.name)
        return
    yield from _walk(path, path, [path.resolve()], follow_links)


def _walk(folder: Path, top: Path, entered: list[Path], follow_links: bool) -> Iterator[FoundFile]:
    """`entered` are the folders that were named or that a followed link led to: no link leads into them again."""
    closed: list[OSError] = []
    for place, subfolders, names in os.walk(folder, onerror=closed.append):
        wanted = sorted(name for name in subfolders if not _is_junk(name) and not _is_library(Path(place, name)))
        links = [name for name in wanted if Path(place, name).is_symlink()]
        subfolders[:] = [name for name in wanted if name not in links]
        for name in sorted(names):
            if not _is_junk(name):
                file = Path(place, name)
                if not follow_links and file.is_symlink() and _leads_out(file, entered):
                    yield FoundFile(file, file.relative_to(top).as_posix(), skipped=LEADS_OUT)
                else:
                    yield _look(file, file.relative_to(top).as_posix())
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


def _look(path: Path, name: str) -> FoundFile:
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


def _is_junk(name: str) -> bool:
    return name.startswith(JUNK_BEGINNINGS) or name.lower() in JUNK_NAMES


MOST_WORKERS = 8
UPLOAD = "upload:"  # what the source of their documents begins with


class Intake:
    """Adds to one library; made anew for every add."""

    def __init__(
        self,
        documents: DocumentStore,
        writer: LibraryWriter,
        leases: Leases,
        uploads: Jobs,
        setup: Setup,
        embedder: Embedder,
        on_progress: Callable[[Progress], None],
        on_added: Callable[[Added], None],
        after_store: Callable[[], object],
    ) -> None:
        self._documents = documents
        self._writer = writer
        self._leases = leases
        self._setup = setup
        self._embedder = embedder
        self._on_progress = on_progress
        self._on_added = on_added
        self._after_store = after_store
        self._uploads = uploads
        self._password: str | None = None
        self._lease: Lease | None = None
        self._unwanted: Callable[[], Collection[str]] = frozenset
        self._begun: list[str] = []
        self._written = 0.0
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
        self._password = password
        if self._leases.clear_dead():
            self._writer.clear_unused()
        # Once each, though a file may be named itself and lie in a folder that is named too.
        wanted = (one for path in paths for one in discover(path.absolute(), follow_links=follow_links))
        found = list({one.path: one for one in wanted}.values())
        if sync:
            self._remove_missing([path.absolute() for path in paths], found)
        with self._leases.hold() as self._lease:
            sources = self._sources(found, collection, metadata)
            places = {(source.document.collection, source.document.source) for source in sources}
            sources += [s for s in self._abandoned() if (s.document.collection, s.document.source) not in places]
            if sources:
                self._take_in(sources, self._lease)

    def add_uploads(self, files: Sequence[UploadedFile], unwanted: Callable[[], Collection[str]]) -> None:
        """Files that lie aside under names of their own; the name of an upload before replaces that document.

        Sources that `unwanted` names are put down, also in the middle of it, and told as removed.
        """
        self._unwanted = unwanted
        with self._leases.hold() as self._lease:
            waiting = list(files)
            while waiting:
                sources: dict[tuple[str, str], NewDocument] = {}
                twins: list[UploadedFile] = []  # their turn comes when it is known what became of the first
                for one in waiting:
                    source = self._uploaded(one)
                    if source is not None:
                        key = (source.document.collection, source.document.content_hash)
                        if sources.setdefault(key, source) is not source:
                            twins.append(one)
                if sources:
                    self._take_in(list(sources.values()), self._lease, is_uploaded=True)
                waiting = twins

    def add_attached(self) -> None:
        """Attachments that a killed run did not get to: their mail is there, so nobody would hand it in again."""
        with self._leases.hold() as self._lease:
            sources = self._abandoned(only_attached=True)
            if sources:
                self._take_in(sources, self._lease)

    def _uploaded(self, one: UploadedFile) -> NewDocument | None:
        """What to do for one of them; None when nothing is."""
        place = self._documents.at_place(one.collection, one.source)
        before = place[0] if place else None  # a second try; an upload may have been renamed or moved since
        if before is None and one.source.startswith(UPLOAD):
            before = self._documents.from_source(one.source)
        known = before or self._documents.upload_named(one.collection, one.name)
        document = Document(
            id=known.id if known else "",
            name=before.name if before else one.name,
            collection=before.collection if before else one.collection,
            content_hash="",
            status="pending",
            source=one.source,
            metadata=one.metadata,
        )
        (found,) = discover(one.path)
        try:
            content_hash = hash_file(one.path)
        except OSError as error:
            self._refuse(NewDocument(document, None), UnreadableFile(f"it cannot be read: {error.strerror or error}"))
            return None
        document = replace(document, size=found.size, content_hash=content_hash)
        twin = self._documents.with_content(document.collection, content_hash)
        if twin is not None and twin.metadata.items() >= one.metadata.items():
            self._leave(document, twin, "" if twin.name == document.name else f"same content as {twin.name}")
            return None
        assert self._lease is not None
        task = PrepareTask(document, path=one.path, folder=self._lease.folder, password=one.password)
        return NewDocument(document, task, modified=found.modified, size=max(1, found.size))

    def _take_in(self, sources: list[NewDocument], lease: Lease, *, is_uploaded: bool = False) -> None:
        self._writer.register([s.document for s in sources], [s.modified for s in sources], lease.name)
        pool = self._pool()
        try:
            self._pipeline(pool).run(sources)
        except BaseException as error:
            # Ctrl-C, a full disk: what is finished stays in, the rest is as if nobody had added it. But when a server
            # ends, what was uploaded is resumed at its next start, and keeps its ids until then.
            pool.close()
            if isinstance(error, Exception) or not is_uploaded:
                with suppress(RefdeskError):  # on a full disk it may not succeed; then the next add takes them over
                    self._writer.withdraw(lease.name)
            raise
        finally:
            pool.close()

    def _pool(self) -> WorkerPool | EmbedsHere:
        size = _workers(self._settings)
        pool = WorkerPool(size, self._setup, memory_limit_mb=self._settings.memory_limit_mb)
        if self._setup.config.embedder == SHIPPED_EMBEDDER:
            return pool
        return EmbedsHere(pool, size, lambda task: self._embedder.embed_chunks(task.chunks))

    def _sources(self, found: Sequence[FoundFile], collection: str, metadata: dict[str, str]) -> list[NewDocument]:
        """What has to be taken in; of new files with the same content, one."""
        changed: list[NewDocument] = []
        new: dict[str, NewDocument] = {}
        for one in found:
            if one.skipped:
                self._say(Added(_text(one.name), "skipped", None, one.skipped, _text(str(one.path))))
                continue
            source = self._source(one, collection, metadata) if self._is_nameable(one) else None
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
                self._refuse(NewDocument(document, None), error)
            else:  # a name that was mistyped is no document
                self._say(Added(document.name, "failed", None, error.sentence))
            return None
        if found.size > self._settings.max_file_mb << 20:  # not even hashed
            self._refuse(NewDocument(document, None), TooLarge(f"it is larger than {self._settings.max_file_mb} MB"))
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
            self._refuse(NewDocument(document, None), UnreadableFile(f"it cannot be read: {error.strerror or error}"))
            return None
        if known is not None and unchanged and known[0].content_hash == content_hash:
            self._leave(document, known[0], "")
            return None
        return self._prepare(replace(document, id=known[0].id if known else "", content_hash=content_hash), found)

    def _prepare(self, document: Document, found: FoundFile) -> NewDocument:
        assert self._lease is not None
        task = PrepareTask(document, path=found.path, folder=self._lease.folder, password=self._password)
        return NewDocument(document, task, modified=found.modified, size=max(1, found.size))

    def _abandoned(self, *, only_attached: bool = False) -> list[NewDocument]:
        """Documents that a killed run accepted and did not finish."""
        alive: dict[str, bool] = {}
        sources: dict[str, NewDocument] = {}
        for document, owner in self._documents.unfinished():
            if owner not in alive:
                alive[owner] = self._leases.is_alive(owner)
            if alive[owner]:
                continue
            if document.parent_id is not None:  # its bytes went with the run; they are still in what it is attached to
                parent = self._documents.document(document.parent_id)
                if parent is not None and parent.status == "ready":
                    sources[parent.id] = self._again(parent)
            elif not only_attached:
                for one in discover(self._place(document.source)):
                    sources[document.id] = self._prepare(document, one)
        return list(sources.values())

    def _place(self, source: str) -> Path:
        """Where the bytes lie that a document was, or is to be, made from."""
        return self._uploads.data(source.removeprefix(UPLOAD)) if source.startswith(UPLOAD) else Path(source)

    def _again(self, document: Document) -> NewDocument:
        """Takes a document in once more from the bytes that are kept of it."""
        place = self._documents.at_place(document.collection, document.source) if document.source else None
        found = FoundFile(self._writer.original(document), document.name, document.size, place[1] if place else 0.0)
        return self._prepare(document, found)

    def _remove_missing(self, roots: Sequence[Path], found: Sequence[FoundFile]) -> None:
        present = {str(one.path) for one in found}
        closed = [one.path for one in found if one.error and one.path.exists()]  # nobody knows what lies in there
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
            sources.append(NewDocument(document, PrepareTask(document, text=text.text), size=max(1, len(text.text))))
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
        """Told when a document is being worked on; written down once a second at most, each time costs a commit."""
        self._begun.append(source.document.source)
        self._write_if_due()

    def _tell(self, progress: Progress) -> None:
        self._write_if_due()  # what was begun within a second of the last time, and takes long
        self._on_progress(progress)

    def _write_if_due(self) -> None:
        if self._begun and time.monotonic() - self._written > 1.0:
            self._write_begun()

    def _write_begun(self) -> None:
        if self._lease is not None and self._begun:
            self._writer.mark_processing(self._begun, self._lease.name)
        self._begun, self._written = [], time.monotonic()

    def store(self, batch: Sequence[Finished]) -> list[NewDocument]:
        """Makes documents visible; gives their attachments as further sources."""
        self._write_begun()
        ready = []
        for one in batch:
            result: PreparedFile = one.extra
            children = [_attached(one.prepared.document, child) for child in result.children]
            owner = self._lease.name if self._lease else ""
            ready.append(Ready(one.prepared, one.embedded, result.original, one.source.modified, children, owner))
        stored = self._writer.store(ready)
        more: list[NewDocument] = []
        for one, (document, outcome) in zip(batch, stored, strict=True):
            self._say(Added(document.name, outcome, document, source=one.source.document.source))
            if outcome != "removed":
                more += self._children(document, one.extra)
        self._after_store()
        return more

    def fail(self, source: NewDocument, error: RefdeskError) -> None:
        self._fail(source, error, self._lease.name if self._lease else "")

    def _fail(self, source: NewDocument, error: RefdeskError, owner: str) -> None:
        document = replace(source.document, status="failed")
        kept = self._writer.fail(document, source.modified, error.sentence, owner)
        outcome: Outcome = "removed" if kept is None else "failed"
        self._say(Added(document.name, outcome, kept or document, error.sentence, document.source))

    def put_down(self, source: NewDocument) -> None:
        if self._lease is not None:
            self._writer.cancel(source.document, self._lease.name)
        self._say(Added(source.document.name, "removed", None, source=source.document.source))

    def _children(self, parent: Document, result: PreparedFile) -> list[NewDocument]:
        """Attachments, which are documents of their own and were accepted with the parent."""
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
            task = PrepareTask(document, path=child.path, folder=child.path.parent, password=self._password)
            sources.append(NewDocument(document, task, size=max(1, child.path.stat().st_size)))
        return sources

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

    def _leave(self, document: Document, known: Document | None, reason: str) -> None:
        self._say(Added(document.name, "unchanged", known, reason, document.source))

    def _refuse(self, source: NewDocument, error: RefdeskError) -> None:
        """One that was never accepted."""
        self._fail(source, error, "")

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


def _workers(settings: Settings) -> int:
    return settings.workers or max(1, min(MOST_WORKERS, os.cpu_count() or 1))


def _ignore(done: int, total: int) -> None:
    """A text has no pages to count."""
