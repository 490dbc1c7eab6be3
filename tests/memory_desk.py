"""A desk whose every port is the implementation in memory: what the tests of a store run on a second time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from library_samples import SETTINGS, open_desk
from refdesk.access import LOCAL, Keys, Sessions
from refdesk.arguments import checked_text
from refdesk.ask.flow import Asking
from refdesk.ask.library import LibraryReader
from refdesk.caller_desk import CallerDesk, Parts
from refdesk.config import Config
from refdesk.files.local import MemoryFiles
from refdesk.files.render import RenderCache, page_image
from refdesk.index.memory import MemoryIndex
from refdesk.ingest.add import Intake, Run, at_work
from refdesk.ingest.workers import Setup
from refdesk.ports import NoModels
from refdesk.providers.embed import OnnxEmbedder
from refdesk.settings import Settings
from refdesk.store.jobs import MemoryJobs
from refdesk.store.maintenance import Maintenance
from refdesk.store.memory import MemoryDocuments, MemoryWriter
from refdesk.store.memory_records import (
    MemoryAnswers,
    MemoryCache,
    MemoryConversations,
    MemoryFeedback,
    MemoryKeys,
    MemorySessions,
    MemorySettings,
)
from refdesk.types import Added

KINDS = ("sql", "memory")
EMBEDDER = OnnxEmbedder()


async def _no_models_to_close() -> None:
    """There is none."""


class MemoryDesk(CallerDesk):
    def __init__(self) -> None:
        self.settings_store = MemorySettings(Settings().changed(SETTINGS))
        self.embedder = EMBEDDER
        self.catalogue = documents = MemoryDocuments()
        self.jobs, self.files = MemoryJobs(), MemoryFiles()
        self.index = MemoryIndex(documents, EMBEDDER)
        self.writer = MemoryWriter(documents, self.index, self.files, EMBEDDER.name)
        self.maintenance = Maintenance(documents, self.index, self.writer, self.files)
        self.reader = LibraryReader(documents, documents, self.index, EMBEDDER, self.reindex)
        answers = MemoryAnswers()
        self.asking = Asking(
            self.reader,
            EMBEDDER,
            lambda settings: NoModels(),
            lambda settings: None,
            MemoryCache(self.settings_store.current),
            MemoryConversations(answers),
            answers,
        )
        keys = MemoryKeys()
        self.keys = Keys(keys)
        self.sessions = Sessions(MemorySessions(keys), self.keys, self.settings_store.current)
        self.feedback = MemoryFeedback(answers)
        parts = Parts(
            documents,
            documents,
            self.writer,
            self.files,
            partial(page_image, self.files, RenderCache(self.files.renders)),
            EMBEDDER,
            self.reader,
            self.asking,
            self.feedback,
            self.maintenance.compact,
            self.settings_store.current,
            _no_models_to_close,
        )
        super().__init__(parts, LOCAL)

    @property
    def settings(self) -> Settings:
        return self.settings_store.current()

    def reindex(self) -> int:
        return self.maintenance.rebuild(EMBEDDER)

    def intake(self, run: Run | None = None, on_progress: Any = print) -> Intake:
        setup = Setup(Config(Path("nowhere")), self.settings)
        ports = (self.catalogue, self.writer, self.jobs, self.files)
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
    """A library of this kind: in SQL, index files and folders, or all of it in memory."""
    if kind == "memory":
        yield MemoryDesk()
    else:
        with open_desk(folder) as desk:
            yield desk
