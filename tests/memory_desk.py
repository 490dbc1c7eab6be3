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
from refdesk.access import Parts, Sessions
from refdesk.arguments import checked_text
from refdesk.ask.flow import Asking
from refdesk.caller_desk import CallerDesk
from refdesk.config import Config
from refdesk.files.local import MemoryFiles, RenderCache, page_image
from refdesk.index.lexical import MemoryIndex
from refdesk.index.tokens import MemoryTokens
from refdesk.ingest.add import Intake
from refdesk.ingest.runs import Run, at_work
from refdesk.ingest.workers import Setup
from refdesk.library import LibraryReader
from refdesk.ports import NoModels
from refdesk.providers.extras import token_embedder
from refdesk.providers.shipped import OnnxEmbedder, OnnxReader
from refdesk.records import LOCAL, Caller
from refdesk.settings import Settings
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
from refdesk.types import Added, Finding

KINDS = ("sql", "memory", "postgres")
EMBEDDER = OnnxEmbedder()


class NoDirectory(NoModels):
    """No model is set, and none can be connected."""

    def of(self, settings: Settings) -> NoModels:
        return self

    async def aclose(self) -> None:
        """There is none to close."""


class MemoryDesk(CallerDesk):
    def __init__(self) -> None:
        stored, documents, files = MemorySettings(Settings().changed(SETTINGS)), MemoryDocuments(), MemoryFiles()
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
        answers, keys, models = MemoryAnswers(), MemoryKeys(), NoDirectory()
        cache, conversations = MemoryCache(stored.current), MemoryConversations(answers)
        parts: Any = {
            "config": Config(Path("nowhere")),
            "documents": documents,
            "chunks": documents,
            "tables": tables,
            "writer": writer,
            "index": index,
            "files": files,
            "render": partial(page_image, files, RenderCache(files.renders)),
            "embedder": EMBEDDER,
            "reader": reader,
            "asking": Asking(
                reader, EMBEDDER, lambda _: models, lambda _: None, OnnxReader(), cache, conversations, answers
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


@contextmanager
def open_either(kind: str, folder: Path) -> Iterator[Any]:
    """A library of this kind: in SQLite, index files and folders; in PostgreSQL and folders; or all of it in memory."""
    if kind == "memory":
        yield MemoryDesk()
    elif kind == "postgres":
        with postgres_server.database() as url, pytest.MonkeyPatch.context() as patch:
            patch.setenv("REFDESK_DATABASE_URL", url)
            with open_desk(folder) as desk:
                yield desk
    else:
        with open_desk(folder) as desk:
            yield desk
