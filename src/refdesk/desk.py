"""The composition root: configuration and settings become ports, ports become `Refdesk`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from sqlalchemy import Engine

from refdesk.access import Parts, Sessions
from refdesk.arguments import checked_collection, checked_metadata, checked_text
from refdesk.ask.flow import Asking
from refdesk.caller_desk import DEFAULT_COLLECTION, CallerDesk
from refdesk.config import (
    DATABASE,
    GIVEN_EMBEDDER,
    close_to_others,
    explain,
    initial_settings,
    is_closed,
    is_open_to_others,
    load_config,
    make_folder,
    open_to_others,
)
from refdesk.errors import LibraryDamaged, RefdeskError, UsageError
from refdesk.files import backup as backups
from refdesk.files.local import LocalFiles, figure_place, page_image, picture_of
from refdesk.files.remote import RemoteFiles
from refdesk.index.local import LocalIndex
from refdesk.index.postgres import SESSION, PostgresIndex
from refdesk.index.tokens import FileTokens
from refdesk.ingest.add import Intake
from refdesk.ingest.imported import Airtable
from refdesk.ingest.runs import BackgroundPorts, Run, at_work
from refdesk.ingest.tables import kept_tables
from refdesk.ingest.workers import Setup
from refdesk.library import LibraryReader
from refdesk.library_desk import LibraryDesk
from refdesk.ports import LLM, Embedder, Reranker, TokenEmbedder
from refdesk.providers.directory import ModelDirectory
from refdesk.providers.extras import make_embedder, token_embedder
from refdesk.providers.given import TextEmbedder, checked_llm, given_embedder
from refdesk.providers.shipped import OnnxReader
from refdesk.records import LOCAL, Caller, Damage, LibraryState
from refdesk.redis_link import RedisLink
from refdesk.settings import Settings
from refdesk.store.cache import RedisCache, SqlCache
from refdesk.store.copying import check_copied, copy_database, copy_database_into, opened_copy
from refdesk.store.database import BackgroundWriter, PreparedReader, changes, open_database, open_server
from refdesk.store.documents import SqlDocuments, SqlTables
from refdesk.store.graph import SqlGraph
from refdesk.store.jobs import (
    Maintenance,
    Report,
    SqlJobs,
    clear_copy,
    damaged_originals,
    damaged_uploads,
    is_anyone_at_work,
)
from refdesk.store.keys import SqlKeys, SqlSessions
from refdesk.store.postgres import PooledReads, PostgresServer, connect_server, describe_server, is_server
from refdesk.store.records import SqlAnswers, SqlConversations, SqlFeedback, SqlSettings
from refdesk.store.summaries import SqlSummaries
from refdesk.store.writer import SqlWriter
from refdesk.store_ports import IndexWriter, Ready
from refdesk.types import UNFINISHED, Added, Document, Finding, Job, Progress

logger = logging.getLogger("refdesk")


class Refdesk(LibraryDesk):
    """A library of documents, opened by who may do everything with it.

    >>> with Refdesk("~/library") as desk:
    ...     desk.add("reports/")
    ...     desk.search("When is the price list revised?")[0].page
    """

    def __init__(
        self,
        library: str | Path | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        database: str | None = None,  # postgresql://… or "", SQLite in the folder; None: as REFDESK_DATABASE_URL says
        llm: LLM | None = None,
        embedder: Embedder | TextEmbedder | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        """`llm`, `embedder` and `reranker` are objects of the program's own, used in place of those that are named."""
        self.config = config = load_config(library, database=database)
        if embedder is not None:
            self.config = config = replace(config, embedder=GIVEN_EMBEDDER)
        overrides = dict(settings or {})
        base, gone = initial_settings(config)
        for note in gone:
            logger.warning("%s: %s", config.library, note)
        base.changed(overrides)  # what is wrong is said before anything is opened
        self.folder = config.library
        files = self._open_folder()
        embedder = make_embedder(config) if embedder is None else given_embedder(embedder)
        engine, follower = self._open_database()
        self._engine, self._follower = engine, follower
        self._reads = PreparedReader(engine)
        self._background = BackgroundWriter(engine)
        stored = SqlSettings(self._reads, base, gone, overrides)
        current = stored.in_use
        self._documents = documents = SqlDocuments(engine)
        searched = documents if follower is engine else SqlDocuments(follower)
        tables = SqlTables(searched)
        self.files, self.jobs = files, SqlJobs(self._reads)
        if (self.folder / "uploads").is_dir() and not is_closed(self.folder):
            with backups.writer_lock(self.folder):
                for earlier in files.earlier_uploads(self.jobs.all()):
                    self.jobs.submit([earlier])
        index = self._index_of(documents, embedder)
        seen = index if follower is engine else self._index_of(searched, embedder)
        self._writer = writer = SqlWriter(engine, documents, index, files, self.folder / "writer.lock", embedder.name)
        self._maintenance = Maintenance(documents, index, writer, files)
        self.tokens = FileTokens(self.folder / "index", documents, lambda: _token_embedder(current()))
        kept = (SqlGraph(searched), summaries := SqlSummaries(engine), self.tokens)
        reader = LibraryReader(searched, searched, tables, seen, embedder, self.reindex, *kept)
        models = ModelDirectory(config, checked_llm(llm) if llm is not None else None, reranker)
        self.background_ports = BackgroundPorts(
            *(documents, documents, summaries, SqlGraph(documents), self.jobs, embedder),
            *(lambda: models.of(current()), models.aclose),
        )
        self.open_airtable = Airtable.from_environment
        place = config.database_url or str(self.folder)
        self.redis = RedisLink(config.redis_url, place) if config.redis_url else None
        in_sql = SqlCache(self._reads, self._background, current)
        cache = in_sql if self.redis is None else RedisCache(self.redis, self._reads, in_sql, current)
        answers = SqlAnswers(engine, self._background, current)
        conversations = SqlConversations(engine)
        parts = Parts(
            config=config,
            documents=documents,
            chunks=documents,
            tables=tables,
            writer=writer,
            index=index,
            files=files,
            render=partial(page_image, files, files.render_cache()),
            embedder=embedder,
            reader=reader,
            asking=Asking(
                *(reader, embedder, models.of, models.reranker, OnnxReader(), cache, conversations, answers),
                picture=partial(picture_of, files, files.render_cache()),
                figure_place=partial(figure_place, files),
            ),
            feedback=SqlFeedback(engine, answers),
            keys=SqlKeys(self._reads, self._background),
            settings_store=stored,
            settings=current,
            models=models,
            compact=self._tidy,
        )
        super().__init__(parts, LOCAL)
        self.sessions = Sessions(SqlSessions(self._reads), self.keys, current)

    def _open_database(self) -> tuple[Engine, Engine]:
        """The database, and the one that is searched: a follower of it where one is named, else itself."""
        config = self.config
        server = PostgresServer(config.database_url, config.database_pool, config.database_timeout_s, SESSION)
        engine = open_server(server) if server.url else open_database(self.folder / DATABASE)
        check_copied(engine)
        return engine, connect_server(replace(server, url=config.replica_url)) if config.replica_url else engine

    def _index_of(self, documents: SqlDocuments, embedder: Embedder) -> IndexWriter:
        if is_server(self._engine):
            reads = PooledReads(documents.engine)
            return PostgresIndex(documents, embedder, reads.rows, partial(changes, self._engine, "library"))
        return LocalIndex(self.folder / "index", documents, embedder)

    def _open_folder(self) -> LocalFiles | RemoteFiles:
        try:
            make_folder(self.folder)
            backups.finish_restore(self.folder)
            # One that was made when others could read it is closed to them; looking at two modes costs nothing.
            paths = (self.folder, self.folder / DATABASE)
            is_open = any(is_open_to_others(path) for path in paths if path.exists())
            self.closed_to_others = close_to_others(self.folder) if is_open else 0
            return _files(self.folder, self.config.files_url)
        except OSError as error:
            raise explain(error, self.folder) from error

    def open_to_others(self) -> list[Path]:
        """Files and folders of the library that not only their owner can reach."""
        return list(open_to_others(self.folder))

    def __enter__(self) -> Refdesk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._background.close()
        if self.redis is not None:
            self.redis.close()
        self._documents.close()
        self._reads.close()
        self._engine.dispose()
        self._follower.dispose()

    def for_caller(self, caller: Caller) -> CallerDesk:
        """The library as this caller sees it: his collections, conversations and answers.

        >>> desk.for_caller(desk.keys.verify(secret)).search("price list")
        """
        return CallerDesk(self.parts, caller)

    # adding

    def add(
        self,
        *paths: str | Path,
        collection: str = DEFAULT_COLLECTION,
        metadata: Mapping[str, str] | None = None,
        password: str | None = None,
        sync: bool = False,
        follow_links: bool = False,
        on_progress: Callable[[Progress], None] | None = None,
        on_added: Callable[[Added], None] | None = None,
    ) -> list[Added]:
        """Adds files and folders; says of each file what became of it.

        A file that is unchanged costs nothing, a changed one is replaced in one step. With `sync`, documents whose
        file is gone from these folders are removed. One bad file does not stop the others. Symbolic links in a folder
        that lead out of it are skipped, and said so, unless `follow_links`.
        """
        resolved = [Path(path).expanduser() for path in paths]
        place, kept = checked_collection(collection), checked_metadata(metadata)
        with self.at_work() as run:
            intake = self._intake(on_progress, on_added, run)
            intake.add_paths(resolved, place, kept, password, sync=sync, follow_links=follow_links)
            self._tidy()
        return intake.results

    def add_text(
        self,
        name: str,
        text: str,
        *,
        collection: str = DEFAULT_COLLECTION,
        metadata: Mapping[str, str] | None = None,
        title: str = "",
        date: str = "",
        format: str = "text",
    ) -> Added:
        """Adds one text (`text`, `markdown` or `html`) under a name; the same name again replaces it."""
        entry = {"name": name, "text": text, "metadata": metadata, "title": title, "date": date, "format": format}
        return self.add_texts([entry], collection=collection)[0]

    def add_texts(
        self,
        texts: Iterable[Mapping[str, Any] | tuple[str, str]],
        *,
        collection: str = DEFAULT_COLLECTION,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> list[Added]:
        """Adds many texts: (name, text) pairs, or mappings that may also hold title, collection, metadata and date.

        A name that comes twice is added once, with its last text.
        """
        checked = [checked_text(text, collection) for text in texts]
        wanted = list({(text.collection, text.name): text for text in checked}.values())
        intake = self._intake(on_progress, None)
        intake.add_texts(wanted)
        self._tidy()
        order = {(text.collection, text.name): place for place, text in enumerate(wanted)}
        return sorted(intake.results, key=lambda result: order.get(result.place, len(order)))

    def work(
        self,
        run: Run,
        choose: Callable[[list[Job]], Sequence[Job]],
        *,
        alone: bool = True,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> list[Added]:
        """Works off the jobs that are chosen of those that wait, unless, `alone`, another run is at it.

        Those that are cancelled meanwhile are put down.
        """
        intake = self._intake(on_progress, None, run)
        if intake.work(choose, alone=alone):
            self._tidy()
        return intake.results

    def store_prepared(self, batch: Sequence[Ready]) -> list[Added]:
        """Makes documents visible that were prepared elsewhere (`refdesk.ray`); of the same content, one."""
        self.parts.reader.heal()
        new: dict[tuple[str, str], Ready] = {}
        results = []
        for ready in batch:
            document = ready.prepared.document
            key = (document.collection, document.content_hash)
            twin = self._documents.with_content(*key)
            if key in new or (twin is not None and twin.source != document.source):
                known = new[key].prepared.document if key in new else twin
                assert known is not None
                reason = f"same content as {known.name}"
                results.append(Added(document.name, "unchanged", twin, reason, document.source))
            else:
                new[key] = ready
        for stored, outcome in self._writer.store(list(new.values())):
            results.append(Added(stored.name, outcome, stored, source=stored.source))
        self._maintenance.compact()
        return results

    def document_from(self, source: str) -> Document | None:
        """The document that was made of a file or an upload (`upload:…`)."""
        return self._documents.from_source(source)

    def watch(self, *paths: str | Path, stop: threading.Event | None = None, **options: Any) -> Iterator[list[Added]]:
        """Adds these folders, then again whenever something in them changes; gives what each round did."""
        from watchfiles import DefaultFilter, watch  # starts a thread of its own; needed here only

        folders = [Path(path).expanduser().absolute() for path in paths]
        if missing := [folder for folder in folders if not folder.exists()]:
            raise UsageError(f"{missing[0]} does not exist and cannot be watched")
        yield self.add(*paths, sync=True, **options)
        outside = DefaultFilter(ignore_paths=[self.folder])  # an add changes the library, and must not cause another
        caught_up = False
        for seen in watch(
            *folders,
            watch_filter=outside,
            stop_event=stop,
            raise_interrupt=True,
            rust_timeout=1000,
            yield_on_timeout=True,
        ):
            if caught_up and not seen:
                continue
            caught_up = True  # the first time also without a change: one may have come before the watching began
            results = [added for added in self.add(*paths, sync=True, **options) if added.outcome != "unchanged"]
            if results:
                yield results

    def _intake(
        self,
        on_progress: Callable[[Progress], None] | None,
        on_added: Callable[[Added], None] | None,
        run: Run | None = None,
    ) -> Intake:
        self.parts.reader.heal()
        return Intake(
            self._documents,
            self._writer,
            self.jobs,
            self.files,
            Setup(self.config, self._ingest_settings()),
            self.parts.embedder,
            on_progress or (lambda progress: None),
            on_added or (lambda added: None),
            self._maintenance.compact,  # also during a long add, or searches would scan ever more
            run,
        )

    def _ingest_settings(self) -> Settings:
        """No chunk is longer than the window of an embedder that workers do not know."""
        settings, window = self.settings, self.parts.embedder.max_tokens
        if self.config.embedder != GIVEN_EMBEDDER or settings.chunk_maximum <= window:
            return settings
        return replace(settings, chunk_maximum=window, chunk_target=min(settings.chunk_target, window))

    # looking after it

    def reindex(self, report: Report = lambda done, total: None) -> int:
        """Builds all search indexes anew from SQL; with a new embedder, the vectors too.

        Of documents that were added before their tables were kept, these are read out of what is kept of them.
        """
        if not self.state().has_tables:
            ready = self._documents.documents(status="ready")
            for number, document in enumerate(ready, 1):
                pages, chunks = self._documents.pages(document.id), self._documents.chunks_of(document.id)
                found = kept_tables("".join(page.text for page in pages), [page.page for page in pages], chunks)
                self._writer.put_tables({document.id: found}, is_all=number == len(ready))
        count = self._maintenance.rebuild(self.parts.embedder, report)
        self._tidy()
        return count

    def _tidy(self, *, force: bool = False) -> bool:
        """After every change: the vectors are written anew where much has changed, and tokens kept where wanted.

        Gives whether the vectors were.
        """
        is_compacted = self._maintenance.compact(force=force)
        if self.settings.token_vectors or self.tokens.count:
            with self._writer.locked():
                if self.settings.token_vectors:
                    self.tokens.sync()
                else:
                    self.tokens.clear()
        return is_compacted

    def on_wait(self, tell: Callable[[], None]) -> None:
        """Is told once when a change has to wait for another process."""
        self._writer.on_wait = tell

    def state(self) -> LibraryState:
        """How the library stands; another generation after every change."""
        return self._documents.state()

    def refresh(self) -> LibraryState:
        """`state`, when the index was seen to open; raises when the library is gone or another one by now."""
        self._documents.check()
        return self.parts.reader.refresh()

    @property
    def chunk_count(self) -> int:
        return self.parts.reader.chunk_count

    def counts(self) -> dict[str, int]:
        """Documents by status, chunks and vectors."""
        return self._documents.counts(self._documents.state().embedder)

    def check(self) -> list[Finding]:
        """Compares the indexes with the database."""
        return self._maintenance.check()

    def check_database(self) -> Finding:
        """Where the truth is kept and how it is searched."""
        index = self.parts.index
        if not isinstance(index, PostgresIndex):
            return Finding("storage", True, f"SQLite in {self.folder}; BM25 by tantivy, vectors by usearch")
        index.refresh()
        server = describe_server(self._engine)
        searched = "" if self._follower is self._engine else "; searches go to its replica"
        return Finding("storage", True, f"{server}; {index.ranked_by}; {index.graph_by}{searched}")

    def check_embedder(self) -> Finding:
        """Whether it embeds, and is the one that the library was made with."""
        embedder, built_with = self.parts.embedder, self.state().embedder
        try:
            vector = embedder.embed_query("Refdesk")
        except RefdeskError as error:
            return Finding("embedder", False, error.sentence, error.hint)
        if built_with not in ("", embedder.name):
            text = f"the library was built with '{built_with}', but the embedder is '{embedder.name}'"
            hint = "run `refdesk reindex`, or set REFDESK_EMBEDDER to the old one"
            return Finding("embedder", False, text, hint)
        well = vector.shape == (embedder.dimensions,) and bool(np.isfinite(vector).all())
        return Finding("embedder", well, f"{embedder.name}, {embedder.dimensions} dimensions", "reinstall Refdesk")

    def check_files(self) -> list[Finding]:
        """Compares originals and uploads with their hashes; reads all of them."""
        return self._maintenance.check_files(self.jobs)

    def files_problem(self) -> str:
        """Why originals and uploads that are kept elsewhere cannot be reached, in a sentence; "" where they can."""
        return self.files.problem() if isinstance(self.files, RemoteFiles) else ""

    def at_work(self) -> AbstractContextManager[Run]:
        """For as long as the block lasts nobody replaces the library by a backup, and jobs can be taken."""
        return at_work(self.jobs, self.files)

    def backup(self, file: str | Path, *, on_damage: Callable[[str], None] = lambda problem: None) -> Path:
        """Writes the whole library into one file while others work; `on_damage` is told of missing or altered files."""

        def look(place: Path) -> None:
            for damage in _damaged(place):
                on_damage(f"{damage.name} is {damage.what}")

        def copy_to(copy: Path) -> None:
            if is_server(self._engine):
                target = open_database(copy, is_new=True)
                copy_database_into(self._engine, target)
                target.dispose()
            else:
                copy_database(self._engine, copy)
            with opened_copy(copy) as engine:
                clear_copy(engine)

        def fetch(place: Path) -> None:
            with opened_copy(place / DATABASE) as engine:
                hashes = SqlDocuments(engine).wanted_files()
            waiting = [job.id for job in self.jobs.all().values() if job.status != "ready"]
            backups.fetch_files(self.files, place / "files", hashes, waiting)

        is_elsewhere = bool(self.config.files_url)
        return backups.backup(self.folder, Path(file).expanduser(), copy_to, look, fetch if is_elsewhere else None)

    def migrate(self, to: str, report: Report = lambda done, total: None) -> dict[str, int]:
        """Copies the library into a PostgreSQL (`postgresql://…`) or a folder; gives the rows of each table.

        Nothing is embedded again. What is interrupted goes on where it was when it is called again. This library stays
        as it is; until the copy is whole and found to be the same, nobody can open it.
        """
        is_folder = "://" not in to
        folder = Path(to).expanduser().absolute() if is_folder else self.folder
        if is_folder and folder == self.folder and not is_server(self._engine):
            raise UsageError(
                f"the library is already in {folder}", hint="choose a PostgreSQL database or another folder"
            )
        if folder != self.folder and any(job.status in UNFINISHED for job in self.jobs.all().values()):
            raise UsageError("files are waiting to be added to this library", hint="wait until they have been added")
        make_folder(folder)
        with self._writer.locked():
            target = open_database(folder / DATABASE, is_new=True) if is_folder else open_server(PostgresServer(to))
            try:
                found = copy_database_into(self._engine, target, report)
            finally:
                target.dispose()
            if folder != self.folder:
                there = LocalFiles(folder)
                for content_hash in self.files.hashes() - there.hashes():
                    there.put(self.files.path(content_hash).read_bytes())
        with Refdesk(folder, database="" if is_folder else to) as desk:
            desk.reindex()
            if wrong := [finding for finding in desk.check() if not finding.well]:
                raise LibraryDamaged(f"the copy is incomplete: {wrong[0].text}", hint=wrong[0].advice)
        return found.rows

    @staticmethod
    def restore(file: str | Path, library: str | Path | None = None, *, replace: bool = False) -> Path:
        """Makes a library from a backup; an existing one is only replaced when asked to."""
        config = load_config(library)
        folder = config.library
        if config.database_url:
            raise UsageError(
                "backups can only be restored to a folder, but REFDESK_DATABASE_URL is set",
                hint="unset it, restore, and then `refdesk migrate --to postgresql://…`",
            )
        backups.restore(Path(file).expanduser(), folder, is_anyone_at_work, replace=replace)
        if config.files_url:
            backups.hand_over(folder, _files(folder, config.files_url))
        with Refdesk(folder) as desk:
            desk.reindex()
        return folder


def _files(folder: Path, url: str) -> LocalFiles | RemoteFiles:
    """In the library's folder, in another one that several machines may share, or behind an address."""
    if not url:
        return LocalFiles(folder)
    scheme, is_address, rest = url.partition("://")
    if is_address and scheme != "file":
        return RemoteFiles(folder, url)
    return LocalFiles(Path(rest if is_address else url).expanduser().absolute())


def _token_embedder(settings: Settings) -> TokenEmbedder:
    return token_embedder(settings.token_model)


def _damaged(place: Path) -> list[Damage]:
    """What of a copied library is missing or altered."""
    files = LocalFiles(place)
    with opened_copy(place / DATABASE) as engine:
        reader = PreparedReader(engine)
        try:
            return damaged_originals(SqlDocuments(engine), files) + damaged_uploads(SqlJobs(reader), files)
        finally:
            reader.close()
