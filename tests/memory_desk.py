"""A desk whose every port is the implementation in memory: what the tests of a store run on a second time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import postgres_server
from library_samples import SETTINGS, open_desk
from refdesk import Refdesk
from refdesk.access import Parts, Sessions
from refdesk.arguments import checked_text
from refdesk.ask.flow import Asking
from refdesk.caller_desk import CallerDesk
from refdesk.config import initial_settings, load_config
from refdesk.files.local import MemoryFiles, RenderCache, figure_place, page_image, picture_of
from refdesk.index.lexical import MemoryIndex
from refdesk.index.tokens import MemoryTokens
from refdesk.ingest.add import Intake
from refdesk.ingest.runs import Run, at_work
from refdesk.ingest.workers import Setup
from refdesk.library import LibraryReader
from refdesk.ports import Embedded
from refdesk.providers.directory import ModelDirectory
from refdesk.providers.extras import token_embedder
from refdesk.providers.shipped import OnnxEmbedder, OnnxReader
from refdesk.records import LOCAL, Caller, Prepared
from refdesk.store.graph import MemoryGraph
from refdesk.store.jobs import Maintenance, MemoryJobs
from refdesk.store.keys import MemoryKeys
from refdesk.store.memory import MemoryDocuments, MemoryTables, MemoryWriter
from refdesk.store.memory_records import (
    MemoryAnswers,
    MemoryCache,
    MemoryConversations,
    MemoryFeedback,
    MemorySessions,
)
from refdesk.store.records import MemorySettings
from refdesk.store.summaries import MemorySummaries
from refdesk.store_ports import Ready
from refdesk.types import Added, Finding

KINDS = ("sql", "memory", "postgres")
ON_DISK = ("sql", "postgres")  # what a folder and a database hold, so that several processes may open it
EMBEDDER = OnnxEmbedder()


class MemoryDesk(CallerDesk):
    def __init__(self, **settings: Any) -> None:
        """Its models are those that the environment names, as of every library."""
        documents, files = MemoryDocuments(), MemoryFiles()
        config = load_config(files.renders, database="")  # a folder in which there is nothing
        stored = MemorySettings(initial_settings(config)[0].changed(SETTINGS | settings))
        tables = MemoryTables(documents)
        self.jobs, self.files = MemoryJobs(), files
        index = MemoryIndex(documents, EMBEDDER)
        writer = MemoryWriter(documents, index, files, EMBEDDER.name)
        self.maintenance = Maintenance(documents, index, writer, files)
        summaries = MemorySummaries(documents)
        self.tokens = MemoryTokens(documents, lambda: token_embedder(""))
        reader = LibraryReader(
            documents, documents, tables, index, EMBEDDER, self.reindex, MemoryGraph(documents), summaries, self.tokens
        )
        answers, keys, models = MemoryAnswers(), MemoryKeys(), ModelDirectory(config)
        renders = RenderCache(files.renders)
        cache, conversations = MemoryCache(stored.current), MemoryConversations(answers)
        parts: Any = {
            "config": config,
            "documents": documents,
            "chunks": documents,
            "tables": tables,
            "writer": writer,
            "index": index,
            "files": files,
            "render": partial(page_image, files, renders),
            "embedder": EMBEDDER,
            "reader": reader,
            "asking": Asking(
                *(reader, EMBEDDER, models.of, models.reranker, OnnxReader(), cache, conversations, answers),
                picture=partial(picture_of, files, renders),
                figure_place=partial(figure_place, files),
            ),
            "feedback": MemoryFeedback(answers),
            "keys": keys,
            "settings_store": stored,
            "settings": stored.current,
            "models": models,
            "compact": self.maintenance.compact,
        }
        super().__init__(Parts(**parts), LOCAL)
        self.sessions = Sessions(MemorySessions(keys), self.keys, stored.current)

    def for_caller(self, caller: Caller) -> CallerDesk:
        return CallerDesk(self.parts, caller)

    @property
    def chunk_count(self) -> int:
        return self.parts.reader.chunk_count

    def reindex(self) -> int:
        return self.maintenance.rebuild(EMBEDDER)

    def check(self) -> list[Finding]:
        return self.maintenance.check()

    def check_files(self) -> list[Finding]:
        return self.maintenance.check_files(self.jobs)

    def intake(self, run: Run | None = None, on_progress: Any = print) -> Intake:
        setup = Setup(self.parts.config, self.settings)
        ports = (self.parts.documents, self.parts.writer, self.jobs, self.files)
        return Intake(*ports, setup, EMBEDDER, on_progress, lambda added: None, list, run)

    def at_work(self) -> AbstractContextManager[Run]:
        return at_work(self.jobs, self.files)

    def add(self, *paths: Path) -> list[Added]:
        with self.at_work() as run:
            intake = self.intake(run)
            intake.add_paths(list(paths), "default", {}, None, sync=False, follow_links=False)
        return intake.results

    def work(self, run: Run, choose: Any, *, on_progress: Any = None) -> list[Added]:
        intake = self.intake(run, on_progress or print)
        intake.work(choose)
        return intake.results

    def add_text(self, name: str, text: str, *, collection: str = "default", **more: Any) -> Added:
        return self.add_texts([{"name": name, "text": text, **more}], collection=collection)[0]

    def add_texts(self, texts: Any, *, collection: str = "default") -> list[Added]:
        intake = self.intake()
        intake.add_texts([checked_text(one, collection) for one in texts])
        return intake.results


AnyDesk = Refdesk | MemoryDesk


def copied(source: AnyDesk, **settings: Any) -> MemoryDesk:
    """The documents of a library in memory: the same chunks, vectors and tables under the same ids."""
    desk = MemoryDesk(**settings)
    parts, kept = source.parts, desk.parts.documents
    model, width = parts.embedder.name, parts.embedder.dimensions
    held = [(document, parts.chunks.chunks_of(document.id)) for document in parts.documents.documents()]
    for document, chunks in sorted(held, key=lambda pair: pair[1][0].id if pair[1] else 0):
        ids = [chunk.id for chunk in chunks]
        vectors = parts.chunks.vectors_of(model, ids)
        sentences = parts.chunks.sentence_vectors(model, ids, width)
        tables = parts.tables.with_cells(parts.tables.of_document(document.id), None)
        kept.next_chunk = ids[0] if ids else kept.next_chunk
        prepared = Prepared(document, "", (), tuple(chunks), tables=tuple(tables))
        desk.parts.writer.store([Ready(prepared, [Embedded(vectors[one], sentences[one]) for one in ids])])
        row = kept.rows[document.id]
        row.document, row.pages = document, parts.documents.pages(document.id)
    for content_hash in source.files.hashes():
        desk.files.put(source.files.path(content_hash).read_bytes())
    return desk


@contextmanager
def kept_in(kind: str, source: Refdesk) -> Iterator[AnyDesk]:
    """A library in SQLite, or the same in another kind of store: nothing is read or embedded again."""
    if kind == "memory":
        yield copied(source)
    elif kind == "postgres":
        with postgres_server.database() as url:
            source.migrate(url)
            with Refdesk(source.folder, database=url) as desk:
                yield desk
    else:
        yield source


@contextmanager
def opened_again(desk: AnyDesk, **settings: Any) -> Iterator[AnyDesk]:
    """The same library as another process has it; of one in memory, another that holds the same documents."""
    if isinstance(desk, MemoryDesk):
        yield copied(desk, **settings)
    else:
        with Refdesk(desk.folder, settings=settings, database=desk.config.database_url) as again:
            yield again


@contextmanager
def open_either(kind: str, folder: Path, **settings: Any) -> Iterator[Any]:
    """A library of this kind: in SQLite, index files and folders; in PostgreSQL and folders; or all of it in memory."""
    if kind == "memory":
        yield MemoryDesk(**settings)
    elif kind == "postgres":
        with postgres_server.database() as url, pytest.MonkeyPatch.context() as patch:
            patch.setenv("REFDESK_DATABASE_URL", url)
            with open_desk(folder, **settings) as desk:
                yield desk
    else:
        with open_desk(folder, **settings) as desk:
            yield desk
