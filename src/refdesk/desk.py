"""The composition root: configuration and settings become ports, ports become `Refdesk`."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, get_args

from refdesk.access import Keys, Sessions
from refdesk.answer import Answer
from refdesk.arguments import (
    History,
    Names,
    checked_collection,
    checked_collections,
    checked_date,
    checked_kinds,
    checked_metadata,
    checked_name,
    checked_pages,
    checked_text,
    make_question,
    names,
    one_of,
    sound,
)
from refdesk.ask.asking import Asking, collected, collected_sync
from refdesk.ask.library import LibraryReader
from refdesk.config import load_config
from refdesk.errors import AskError, NotFound, UsageError
from refdesk.events import Event
from refdesk.files import backup as backups
from refdesk.files.backup import settle_restore
from refdesk.files.local import (
    FileStore,
    Run,
    clear_dead,
    close_to_others,
    explain,
    is_open_to_others,
    make_folder,
    open_to_others,
)
from refdesk.files.render import IMAGE_FORMATS, DrawnPages, page_image
from refdesk.files.uploads import Spool
from refdesk.index.local import LocalIndex
from refdesk.ingest.add import SPOOL, Handed, Intake
from refdesk.ingest.workers import Setup
from refdesk.ports import Embedder
from refdesk.providers.registry import make_embedder
from refdesk.settings import Settings
from refdesk.store.analytics import analytics
from refdesk.store.answers import FeedbackStore
from refdesk.store.database import QuickReader, open_database
from refdesk.store.documents import Catalogue, PageText, Shelves
from refdesk.store.keys import KeyStore, SessionStore
from refdesk.store.maintenance import Maintenance, Report
from refdesk.store.settings import SettingsStore
from refdesk.store.writer import LibraryWriter, Move
from refdesk.types import (
    EVERYTHING,
    Access,
    Added,
    Box,
    Chunk,
    Document,
    Hit,
    Kind,
    Method,
    Progress,
    Range,
    Scope,
    Status,
    boxes_between,
)
from refdesk.types import Seen as SeenBy

logger = logging.getLogger("refdesk")
METHODS: tuple[Method, ...] = get_args(Method)
STATUSES: tuple[Status, ...] = get_args(Status)
DEFAULT_COLLECTION = "default"


class Refdesk:
    """A library of documents.

    >>> with Refdesk("~/library") as desk:
    ...     desk.add("reports/")
    ...     desk.search("When is the price list revised?")[0].page
    """

    def __init__(self, library: str | Path | None = None, *, settings: Mapping[str, Any] | None = None) -> None:
        self.config = load_config(library)
        self._own_settings = dict(settings or {})
        self._needs_access = False
        base, gone = Settings().changed_leniently(self.config.settings)
        for note in gone:
            logger.warning("%s: %s", self.config.library / "refdesk.toml", note)
        made = base.changed(self._own_settings)  # what is wrong is said before anything is opened
        self.folder = self.config.library
        try:
            make_folder(self.folder)
            settle_restore(self.folder)
            # One that was made when others could read it is closed to them; looking at two modes costs nothing.
            self.closed_to_others = close_to_others(self.folder) if self._is_open_to_others() else 0
            self._files = FileStore(self.folder)
            self._drawn = DrawnPages(self._files.renders)
        except OSError as error:
            raise explain(error, self.folder) from error
        self.embedder: Embedder = make_embedder(self.config)
        self._engine = open_database(self.folder / "library.db")
        self._quick = QuickReader(self._engine)
        self.settings_store = SettingsStore(self._quick, base, gone)
        self._made_settings = (base, made)  # the store's, and those with this program's own
        self.catalogue = Catalogue(self._engine)
        self.shelves = Shelves(self._engine)
        self.spool = Spool(self.folder / SPOOL)
        self.index = LocalIndex(self.folder / "index", self.catalogue, self.embedder)
        self.writer = LibraryWriter(
            self._engine, self.catalogue, self.index, self._files, self.folder / "writer.lock", self.embedder.name
        )
        self.maintenance = Maintenance(self.catalogue, self.index, self.writer, self._files)
        self.reader = LibraryReader(self.catalogue, self.index, self.embedder, self.reindex)
        self.asking = Asking(self._engine, self._quick, self.reader, self.embedder, self.config, lambda: self.settings)
        self.keys = Keys(KeyStore(self._quick, self.asking.background))
        self.sessions = Sessions(SessionStore(self._quick), self.keys, lambda: self.settings)
        self.feedback = FeedbackStore(self._engine, self.asking.answers)

    def _is_open_to_others(self) -> bool:
        database = self.folder / "library.db"
        return is_open_to_others(self.folder) or (database.exists() and is_open_to_others(database))

    def open_to_others(self) -> list[Path]:
        """Files and folders of the library that not only their owner can reach."""
        return list(open_to_others(self.folder))

    def __enter__(self) -> Refdesk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def settings(self) -> Settings:
        """As they are now: the defaults, refdesk.toml, the library's own in SQL, then those of this program."""
        stored, made = self._made_settings
        current = self.settings_store.current()
        if current is not stored:  # every question asks, few change them
            made = current.changed(self._own_settings)
            self._made_settings = (current, made)
        return made

    def for_callers(self) -> Refdesk:
        """The same library for a door that serves others: a call that forgets `access` fails there, and gives nothing.

        It is still closed by who opened it.
        """
        found = copy.copy(self)
        found._needs_access = True
        return found

    def _seen(self, access: Access | None) -> SeenBy:
        if access is None:
            if self._needs_access:
                raise AskError("a call does not say what its caller may read", stage="access")
            return EVERYTHING
        return EVERYTHING if access is EVERYTHING else tuple(access)

    def close(self) -> None:
        self.asking.close()
        self.catalogue.close()
        self._quick.close()
        self._engine.dispose()

    # taking in

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
        intake = self._intake(on_progress, on_added)
        resolved = [Path(path).expanduser() for path in paths]
        place, kept = checked_collection(collection), checked_metadata(metadata)
        intake.add_paths(resolved, place, kept, password, sync=sync, follow_links=follow_links)
        self.maintenance.settle()
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
        one = {"name": name, "text": text, "metadata": metadata, "title": title, "date": date, "format": format}
        return self.add_texts([one], collection=collection)[0]

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
        checked = [checked_text(one, collection) for one in texts]
        wanted = list({(text.collection, text.name): text for text in checked}.values())
        intake = self._intake(on_progress, None)
        intake.add_texts(wanted)
        self.maintenance.settle()
        order = {(text.collection, text.name): place for place, text in enumerate(wanted)}
        return sorted(intake.results, key=lambda one: order.get(one.place, len(order)))

    def add_handed(
        self,
        files: Sequence[Handed],
        *,
        on_progress: Callable[[Progress], None] | None = None,
        on_added: Callable[[Added], None] | None = None,
        unwanted: Callable[[], Collection[str]] = frozenset,
    ) -> list[Added]:
        """Adds files that were handed in over the network and lie aside under names of their own.

        `unwanted` is asked all the while and gives the sources that are not to be added any more.
        """
        intake = self._intake(on_progress, on_added)
        intake.add_handed(files, unwanted)
        self.maintenance.settle()
        return intake.results

    def add_attached(self) -> None:
        """Clears up after a killed process, and finishes the attachments that it has left."""
        if clear_dead(self.folder / "runs"):
            self.writer.clear_unused()
        if any(document.parent_id is not None for document, _ in self.catalogue.unfinished()):
            self._intake(None, None).add_attached()
            self.maintenance.settle()

    def watch(self, *paths: str | Path, stop: threading.Event | None = None, **options: Any) -> Iterator[list[Added]]:
        """Adds these folders, then again whenever something in them changes; gives what each round did."""
        from watchfiles import DefaultFilter, watch  # starts a thread of its own; needed here only

        folders = [Path(path).expanduser().absolute() for path in paths]
        if missing := [folder for folder in folders if not folder.exists()]:
            raise UsageError(f"there is nothing to watch at {missing[0]}")
        yield self.add(*paths, sync=True, **options)
        outside = DefaultFilter(ignore_paths=[self.folder])  # an add changes the library, and must not cause another
        caught_up = False
        for changes in watch(
            *folders,
            watch_filter=outside,
            stop_event=stop,
            raise_interrupt=True,
            rust_timeout=1000,
            yield_on_timeout=True,
        ):
            if caught_up and not changes:
                continue
            caught_up = True  # the first time also without a change: one may have come before the watching began
            results = [one for one in self.add(*paths, sync=True, **options) if one.outcome != "unchanged"]
            if results:
                yield results

    def _intake(
        self, on_progress: Callable[[Progress], None] | None, on_added: Callable[[Added], None] | None
    ) -> Intake:
        self.reader.heal()
        return Intake(
            self.catalogue,
            self.writer,
            self.folder / "runs",
            Setup(self.config, self.settings),
            self.embedder,
            on_progress or (lambda progress: None),
            on_added or (lambda added: None),
            self.maintenance.settle,  # also during a long add, or searches would scan ever more
        )

    # documents

    # `access` are the collections that the caller may read, and what lies outside is not there. Not said, it is every
    # one for whoever opened the library, and an error in what serves others (`for_callers`).

    def documents(
        self, *, collection: Names = None, status: str | None = None, access: Access | None = None
    ) -> list[Document]:
        if status is not None:
            one_of("status", status, STATUSES)
        return self.catalogue.documents(self.scope(collection, access=access), status)

    def collections(self, access: Access | None = None) -> list[tuple[str, int]]:
        """Every collection that holds documents, with how many lie in itself: `[("finance/2024", 3)]`."""
        return self.catalogue.collections(self.scope(access=access))

    def document(self, name: str, *, access: Access | None = None) -> Document:
        """By name, by id, or by the beginning of an id; a name goes before the beginning of another one's id."""
        name, seen = sound(name), self.scope(access=access)
        if (exact := self.shelves.visible(name, seen.access)) is not None:
            return exact
        beginning = self.catalogue.document(name, seen) if name else None
        named = self.catalogue.named(name, seen)
        if len(named) > 1:
            raise UsageError(
                f"{len(named)} documents are called '{name}'", hint=f"use an id: {', '.join(d.id for d in named)}"
            )
        found = named[0] if named else beginning
        if found is None:
            raise NotFound(f"there is no document '{name}'", hint="`refdesk list` shows what there is")
        return found

    def remove(self, *names: str, access: Access | None = None) -> list[Document]:
        """Removes documents by id or name, with what was attached to them."""
        return self.remove_found([self.document(name, access=access) for name in names])

    def remove_found(self, found: Sequence[Document]) -> list[Document]:
        """Removes documents that were looked up before; one that has gone or was moved since is passed over."""
        self.reader.heal()
        return self.writer.remove(found)

    def rename(self, document: str, name: str, *, access: Access | None = None) -> Document:
        """Gives a document another name; gives it as it is now. A changed file that is added again brings its own."""
        found = self.document(document, access=access)
        self.reader.heal()
        return self.writer.rename(found, checked_name(name))

    def move(
        self, document: str, collection: str, *, name: str | None = None, access: Access | None = None
    ) -> Document:
        """Puts a document, with what is attached to it, into another collection; gives it as it is now.

        With a `name`, under that name: both or neither.
        """
        found, place = self.document(document, access=access), checked_collection(collection)
        if name is not None:
            name = checked_name(name)
            if found.collection == place:
                return self.rename(found.id, name, access=access)
        return self._moved([Move(found.id, found.collection, place, name)])[0]

    def move_all(self, documents: Iterable[str], collection: str, *, access: Access | None = None) -> list[Document]:
        """Puts documents into another collection; when one cannot go, none does."""
        place = checked_collection(collection)
        found = [self.document(one, access=access) for one in dict.fromkeys(documents)]
        return self._moved([Move(one.id, one.collection, place) for one in found])

    def rename_collection(self, collection: str, name: str, *, access: Access | None = None) -> list[Document]:
        """Gives a collection, with those inside it, another name or place; gives its documents as they are now.

        When one of them cannot go, none does. Keys are not changed: whoever may read the old name does not see the new
        one by it.
        """
        old, new = checked_collection(collection), checked_collection(name)
        found = self._held(old, access)
        # Many go in several steps. Who stands where another goes must be gone by then, also after a kill in between.
        found.sort(key=lambda one: len(one.collection), reverse=len(new) > len(old))
        moves = [Move(one.id, one.collection, new + one.collection[len(old) :]) for one in found]
        for one in moves:
            checked_collection(one.collection)  # the longest of them may have become too long
        return self._moved(moves)

    def remove_collection(self, collection: str, *, access: Access | None = None) -> list[Document]:
        """Removes every document of a collection and of those inside it; gives what went."""
        return self.remove_found(self._held(checked_collection(collection), access))

    def _held(self, collection: str, access: Access | None) -> list[Document]:
        """What lies in a collection, without what is attached to it."""
        found = [one for one in self.documents(collection=collection, access=access) if one.parent_id is None]
        if not found:
            raise NotFound(f"there is no collection '{collection}'", hint="`refdesk list` shows what there is")
        return found

    def _moved(self, moves: list[Move]) -> list[Document]:
        self.reader.heal()
        moved = self.writer.move(moves)
        self.maintenance.settle()
        return moved

    def chunks(self, name: str, *, access: Access | None = None) -> list[Chunk]:
        return self.catalogue.chunks_of(self.document(name, access=access).id)

    def pages(self, name: str, number: int | None = None, *, access: Access | None = None) -> list[PageText]:
        """The text of a document's pages, or of one page, with the place of every word where the format has pages."""
        return self.catalogue.pages(self.document(name, access=access).id, number)

    def page_image(
        self,
        name: str,
        number: int,
        *,
        width: int = 1000,
        boxes: Sequence[Box] = (),
        format: str = "png",
        access: Access | None = None,
    ) -> bytes:
        """A page as PNG or WebP, these boxes marked on it."""
        one_of("image format", format, IMAGE_FORMATS)
        document = self.document(name, access=access)
        return page_image(self._files, self._drawn, document, number, width, boxes, format)

    def original(self, name: str, *, access: Access | None = None) -> Path:
        """The file that a document was made from, as it came."""
        document = self.document(name, access=access)
        path = self.writer.original(document)
        if not document.content_hash or not path.is_file():
            raise NotFound(f"the original of {document.name} is not kept", hint="its text can be shown instead")
        return path

    def figure(self, image: str, *, access: Access | None = None) -> Path:
        """The picture that a passage names as `chunk.image`, as PNG."""
        path = self._files.path(image)
        if not self.shelves.has_figure(image, self._seen(access)) or not path.is_file():
            raise NotFound(f"there is no figure '{image}'")
        return path

    def locate(self, chunk: Chunk, start: int, end: int) -> tuple[Box, ...]:
        """Where characters `start..end` of a chunk stand, word by word; empty for formats without pages."""
        found: list[Box] = []
        for page in sorted({span.page for span in chunk.spans if span.start < end and span.end > start}):
            for text in self.catalogue.pages(chunk.document_id, page):
                if text.words is not None:
                    for first, last in chunk.origins(start, end, page):
                        found.extend(boxes_between(text.words, first, last))
        return tuple(dict.fromkeys(found))

    # finding

    def search(
        self,
        text: str,
        *,
        k: int | None = None,
        method: Method = "hybrid",
        collection: Names = None,
        document: Names = None,
        kind: Kind | Sequence[Kind] | None = None,
        pages: Range | None = None,
        date_from: str = "",
        date_to: str = "",
        metadata: Mapping[str, str] | None = None,
        settings: Mapping[str, Any] | None = None,
        access: Access | None = None,
    ) -> list[Hit]:
        """The k chunks that fit a text best, each with its true scores, page and boxes."""
        chosen = self.settings.changed(settings) if settings else self.settings
        if not isinstance(text, str) or not text.strip():
            raise UsageError("there is nothing to search for", hint="give a question or a few words")
        scope = self.scope(collection, document, kind, pages, date_from, date_to, metadata, access)
        depth = chosen.top_k if k is None else k
        return self.search_vector(text, self.embedder.embed_query, depth, method, scope, chosen)

    def search_vector(
        self, text: str, embed: Callable[[str], Any], k: int, method: Method, scope: Scope, settings: Settings
    ) -> list[Hit]:
        """`search` with the query's vector given by the caller, and everything checked and resolved."""
        if not isinstance(k, int) or k < 1:
            raise UsageError(f"k must be a whole number of at least 1, not {k!r}")
        one_of("search method", method, METHODS)
        return self.reader.search(text, embed(text), k, method, scope, settings)

    def scope(
        self,
        collection: Names = None,
        document: Names = None,
        kind: Kind | Sequence[Kind] | None = None,
        pages: Range | None = None,
        date_from: str = "",
        date_to: str = "",
        metadata: Mapping[str, str] | None = None,
        access: Access | None = None,
    ) -> Scope:
        """What a search may see, from what a caller says."""
        return Scope(
            collections=checked_collections(collection),
            documents=tuple(self.document(name, access=access).id for name in names(document)),
            kinds=checked_kinds(kind),
            pages=checked_pages(pages),
            date_from=checked_date(date_from),
            date_to=checked_date(date_to),
            metadata=tuple(sorted(checked_metadata(metadata).items())),
            access=self._seen(access),
        )

    # asking

    def ask(
        self,
        question: str,
        *,
        k: int | None = None,
        collection: Names = None,
        document: Names = None,
        level: str | None = None,
        mode: str | None = None,
        response_mode: str | None = None,
        conversation_id: str = "",
        history: History = (),
        verbatim: bool = False,
        max_context_chars: int | None = None,
        cache: bool = True,
        settings: Mapping[str, Any] | None = None,
        owner: str = "",
        **scope: Any,
    ) -> AsyncGenerator[Event, None]:
        """The events of an answer as it is made: stages, text, checks, and last the `Answer` or an error.

        `owner` is whose conversation and answer it is: the id of a key, "" on one's own machine.

        >>> async for event in desk.ask("When is the price list revised?"):
        ...     print(event.to_dict())
        """
        chosen = self.settings.changed(settings) if settings else self.settings
        if owner and conversation_id:
            self.asking.conversations.check_speaker(conversation_id, owner)
        asked = make_question(
            question,
            self.scope(collection, document, **scope),
            chosen,
            level=level,
            mode=mode,
            response_mode=response_mode,
            k=k,
            conversation_id=conversation_id,
            history=history,
            verbatim=verbatim,
            max_context_chars=max_context_chars,
            cache=cache,
            owner=owner,
        )
        return self.asking.ask(asked, chosen)

    async def answer(self, question: str, **options: Any) -> Answer:
        """`ask`, collected into its answer; an error is raised."""
        return await collected(self.ask(question, **options))

    def ask_sync(self, question: str, **options: Any) -> Answer:
        """`answer` for those who do not await: the one synchronous door.

        >>> desk.ask_sync("When is the price list revised?").content
        'The price list is revised every January. [1]'
        """
        return collected_sync(lambda: self.ask(question, **options), self.asking.aclose)

    def trace(self, answer_id: str, *, owner: str | None = None, access: Access | None = None) -> dict[str, Any]:
        """What each stage of an answer took, gave, cost and skipped, and every passage that was looked at.

        `owner` None sees everyone's. With `access`, of the passages those of documents that lie there now.
        """
        seen_in = self._seen(access)
        found = self.asking.answers.get(answer_id, owner=owner, access=seen_in)
        if found is None:
            raise NotFound(f"there is no answer '{answer_id}'")
        passages = found[1].get("passages", [])  # answers from before they were noted have none
        if seen_in is not EVERYTHING:
            seen = self.shelves.among({one["document_id"] for one in passages}, seen_in)
            passages = [one for one in passages if one["document_id"] in seen]
        return found[1] | {"passages": passages}

    def analytics(self, days: int = 30, *, access: Access | None = None, owner: str | None = None) -> dict[str, Any]:
        """Volume, waiting, cache, cost, abstentions and accuracy of the last days; `owner` None counts everyone's."""
        self.asking.background.flush()
        return analytics(self._engine, days, access=self._seen(access), owner=owner)

    # looking after it

    def reindex(self, report: Report = lambda done, total: None) -> int:
        """Builds all search indexes anew from SQL; with a new embedder, the vectors too."""
        return self.maintenance.rebuild(self.embedder, report)

    def at_work(self) -> AbstractContextManager[object]:
        """For as long as the block lasts nobody replaces the library by a backup; one thread enters and leaves."""
        return Run(self.folder / "runs")

    def backup(self, file: str | Path, *, on_damage: Callable[[str], None] = lambda said: None) -> Path:
        """Writes the whole library into one file while others work; `on_damage` is told of missing or altered files."""
        written, damaged = backups.backup(self._engine, self.folder, self.spool, Path(file).expanduser())
        for one in damaged:
            on_damage(f"{one.name} is {one.what}")
        return written

    @staticmethod
    def restore(file: str | Path, library: str | Path | None = None, *, replace: bool = False) -> Path:
        """Makes a library from a backup; an existing one is only replaced when asked to."""
        folder = load_config(library).library
        backups.restore(Path(file).expanduser(), folder, replace=replace)
        with Refdesk(folder) as desk:
            desk.reindex()
        return folder
