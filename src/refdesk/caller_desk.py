"""A library as one caller sees it: documents, searching, asking, conversations, answers.

Whoever opens a library is a caller who sees all of it (`Refdesk`); `desk.for_caller(caller)` gives another one's desk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from refdesk import arguments
from refdesk.access import AdminDesk
from refdesk.answer import Answer, Citation, Context, Event, Image, Question
from refdesk.arguments import History, Names
from refdesk.ask.flow import collected, run_sync
from refdesk.ask.staged import StagedQuestion
from refdesk.entities import ALIAS, SHORT_FOR, Neighbour, beside, entity_key
from refdesk.errors import NotFound, UsageError
from refdesk.records import (
    MOST_CELLS,
    AskedQuestion,
    Conversation,
    Feedback,
    Message,
    Move,
    PageText,
    PlacedCell,
    StoredTable,
)
from refdesk.settings import Settings, labels_by_collection
from refdesk.types import (
    EVERYTHING,
    Box,
    Chunk,
    Document,
    Hit,
    Kind,
    Method,
    Range,
    Scope,
    boxes_between,
    lines_of,
)

DEFAULT_COLLECTION = "default"
SCOPE_OPTIONS = ("kind", "pages", "date_from", "date_to", "metadata")
MOST_EDGES, READ_FOR_GRAPH = 20, 200  # neighbours of an entity that are shown, and chunks that are read for them


class CallerDesk(AdminDesk):
    """A library as its caller sees it. What lies outside his collections is not there."""

    # documents

    def documents(self, *, collection: Names = None, status: str | None = None) -> list[Document]:
        if status is not None:
            arguments.one_of("status", status, arguments.STATUSES)
        return self.parts.documents.documents(self.scope(collection), status)

    def list_documents(
        self,
        *,
        text: str = "",
        limit: int = 50,
        offset: int = 0,
        collection: Names = None,
        status: str | None = None,
        sort: str = "place",
        is_falling: bool = False,
    ) -> tuple[list[Document], int]:
        """One page of the documents whose name or title holds a text, and how many there are in all."""
        if status is not None:
            arguments.one_of("status", status, arguments.STATUSES)
        wanted = (self.scope(collection), status, arguments.valid_utf8(text).strip())
        return self.parts.documents.page(*wanted, limit, offset, sort=sort, is_falling=is_falling)

    def collections(self) -> list[tuple[str, int]]:
        """Every collection that holds documents, with how many lie in itself: `[("finance/2024", 3)]`."""
        return self.parts.documents.collections(self.scope())

    def label(self, collection: str) -> str:
        """The name to show for a collection: its own in `serve.labels`, else that of one around it, else its path."""
        labels, place = labels_by_collection(self.settings.labels), collection
        while place and place not in labels:
            place = place.rpartition("/")[0]
        return labels.get(place, collection)

    def existing_collection(self, name: str) -> str:
        """The checked name of a collection that holds documents, for who may read all of it."""
        place = arguments.checked_collection(name)
        known = self.collections() if self.caller.may("read", place) else []
        if not any(f"{name}/".startswith(f"{place}/") for name, _ in known):
            raise NotFound(f"there is no collection '{place}'")
        return place

    def place_for(self, collection: str = "") -> str:
        """Where new documents go: where the caller says, else the one collection of his key, else the default one."""
        allowed = self.caller.collections or ()
        chosen = arguments.checked_collection(
            collection.strip() or (allowed[0] if len(allowed) == 1 else DEFAULT_COLLECTION)
        )
        self.require("add", chosen)
        return chosen

    def document(self, name: str) -> Document:
        """By name, by id, or by the beginning of an id; a name goes before the beginning of another one's id."""
        name, seen = arguments.valid_utf8(name), self.scope()
        if (exact := self.parts.documents.visible(name, seen.access)) is not None:
            return exact
        beginning = self.parts.documents.document(name, seen) if name else None
        named = self.parts.documents.named(name, seen)
        if len(named) > 1:
            raise UsageError(
                f"{len(named)} documents are called '{name}'", hint=f"use an id: {', '.join(d.id for d in named)}"
            )
        found = named[0] if named else beginning
        if found is None:
            raise NotFound(f"there is no document '{name}'", hint="`refdesk list` shows what there is")
        return found

    def find_document(self, document_id: str, *, is_read: bool = False) -> Document:
        """The document of this very id. `is_read`: before it was read, and when that failed, it has nothing to show."""
        found = self.parts.documents.visible(arguments.valid_utf8(document_id), self.caller.access)
        if found is None:
            raise NotFound(f"there is no document '{arguments.valid_utf8(document_id)}'")
        if is_read and found.status == "failed":
            raise NotFound(f"{found.name} could not be read: {found.error}")
        if is_read and found.status != "ready":
            raise NotFound(f"{found.name} is not ready yet: it is {found.status}", hint="wait until it is ready")
        return found

    def remove(self, *names: str) -> list[Document]:
        """Removes documents by id or name, with what was attached to them."""
        return self.remove_found([self.document(name) for name in names])

    def remove_found(self, found: Sequence[Document]) -> list[Document]:
        """Removes documents that were looked up before; gives those that are gone now, whoever removed them.

        One that was moved since stays.
        """
        self.require("delete", *(document.collection for document in found))
        self.parts.reader.heal()
        gone = self.parts.writer.remove(found)
        self.parts.compact()
        went = {document.id for document in gone}
        left = (document for document in found if document.id not in went)
        return gone + [document for document in left if self.parts.documents.visible(document.id, EVERYTHING) is None]

    def rename(self, document: str, name: str) -> Document:
        """Gives a document another name; gives it as it is now. A changed file that is added again brings its own."""
        found = self.document(document)
        self.require("rename", found.collection)
        self.parts.reader.heal()
        return self.parts.writer.rename(found, arguments.checked_name(name))

    def move(self, document: str, collection: str, *, name: str | None = None) -> Document:
        """Puts a document, with what is attached to it, into another collection; gives it as it is now.

        With a `name`, under that name: both or neither.
        """
        found, place = self.document(document), arguments.checked_collection(collection)
        if name is not None:
            name = arguments.checked_name(name)
            if found.collection == place:
                return self.rename(found.id, name)
        return self._moved([Move(found.id, found.collection, place, name)])[0]

    def move_all(self, documents: Iterable[str], collection: str) -> list[Document]:
        """Puts documents into another collection; when one cannot go, none does."""
        place = arguments.checked_collection(collection)
        found = [self.document(fromkey) for fromkey in dict.fromkeys(documents)]
        return self._moved([Move(document.id, document.collection, place) for document in found])

    def rename_collection(self, collection: str, name: str) -> list[Document]:
        """Gives a collection, with those inside it, another name or place; gives its documents as they are now.

        When one of them cannot go, none does. Keys are not changed: whoever may read the old name does not see the new
        one by it.
        """
        old, new = arguments.checked_collection(collection), arguments.checked_collection(name)
        found = self._top_documents(old)
        # Many go in several steps. Who stands where another goes must be gone by then, also after a kill in between.
        found.sort(key=lambda document: len(document.collection), reverse=len(new) > len(old))
        moves = [Move(document.id, document.collection, new + document.collection[len(old) :]) for document in found]
        for move in moves:
            arguments.checked_collection(move.collection)  # the longest of them may have become too long
        return self._moved(moves)

    def remove_collection(self, collection: str) -> list[Document]:
        """Removes every document of a collection and of those inside it; gives what went."""
        return self.remove_found(self._top_documents(arguments.checked_collection(collection)))

    def _top_documents(self, collection: str) -> list[Document]:
        """What lies in a collection, without what is attached to it."""
        found = [document for document in self.documents(collection=collection) if document.parent_id is None]
        if not found:
            raise NotFound(f"there is no collection '{collection}'", hint="`refdesk list` shows what there is")
        return found

    def _moved(self, moves: list[Move]) -> list[Document]:
        self.require("move", *(place for move in moves for place in (move.origin, move.collection)))
        self.parts.reader.heal()
        moved = self.parts.writer.move(moves)
        self.parts.compact()
        return moved

    def make_indexed(self, document_id: str) -> tuple[int, int]:
        """How many chunks a document has, and how many of them the index holds; it is built anew where they differ."""
        document = self.find_document(document_id, is_read=True)
        self.require("retry", document.collection)
        self.parts.reader.heal()
        ids = [chunk.id for chunk in self.parts.chunks.chunks_of(document.id)]
        vector = self.parts.embedder.embed_query(document.name)
        if len(self.parts.index.cosines(vector, ids)) < len(ids):
            self.parts.reader.rebuild()
        return len(ids), len(self.parts.index.cosines(vector, ids))

    def chunks(self, name: str) -> list[Chunk]:
        return self.parts.chunks.chunks_of(self.document(name).id)

    def chunks_by_id(self, ids: Collection[int]) -> dict[int, Chunk]:
        """Those of these chunks, as citations name them, that the caller may read; what is gone since is left out."""
        found = {chunk_id: chunk for chunk_id, (chunk, _) in self.parts.reader.chunks(tuple(ids)).items()}
        access = self.caller.access
        if access is EVERYTHING:
            return found
        seen = self.parts.documents.among({chunk.document_id for chunk in found.values()}, access)
        return {chunk_id: chunk for chunk_id, chunk in found.items() if chunk.document_id in seen}

    def pages(self, name: str, number: int | None = None) -> list[PageText]:
        """The text of a document's pages, or of one page, with the place of every word where the format has pages."""
        return self.parts.documents.pages(self.document(name).id, number)

    def tables(self, name: str) -> list[StoredTable]:
        """What was understood of a document's tables, in its order; `cells` reads what is in them."""
        return self.parts.tables.of_document(self.document(name).id)

    def cells(self, table: StoredTable, first_row: int = 0) -> tuple[list[PlacedCell], int | None]:
        """The cells of a table with their places, and the row to go on from; None: there are no more.

        So many whole rows as have `MOST_CELLS` cells at most.
        """
        document = self.find_document(table.document_id, is_read=True)
        (loaded,) = self.parts.tables.with_cells([table], None)
        cells, following = loaded.cells_from(first_row, MOST_CELLS)
        found: list[PlacedCell] = []
        number, last = table.page, max((cell.end for cell in cells), default=0)
        while len(found) < len(cells) and (texts := self.parts.documents.pages(document.id, number)):
            page, words = texts[0].page, texts[0].words
            here = [cell for cell in cells if page.start <= cell.start < page.end]
            lines = (
                lines_of(words, [(cell.start, cell.end) for cell in here]) if words is not None else [[]] * len(here)
            )
            found += [
                PlacedCell(cell, number, tuple(box for _, _, box in placed))
                for cell, placed in zip(here, lines, strict=True)
            ]
            if page.end >= last:
                break
            number += 1
        return found, following

    def page_image(
        self,
        name: str,
        number: int,
        *,
        width: int = 1000,
        boxes: Sequence[Box] = (),
        format: str = "png",
    ) -> bytes:
        """A page as PNG or WebP, these boxes marked on it."""
        arguments.one_of("image format", format, arguments.IMAGE_FORMATS)
        return self.parts.render(self.document(name), number, width, boxes, format)

    def original(self, name: str) -> Path:
        """The file that a document was made from, as it came."""
        document = self.document(name)
        path = self.parts.writer.original(document)
        if not document.content_hash or not path.is_file():
            raise NotFound(f"the original of {document.name} is not stored", hint="use its text instead")
        return path

    def figure(self, image: str) -> Path:
        """The picture that a passage names as `chunk.image`, as PNG."""
        path = self.parts.files.path(image)
        if not self.parts.documents.has_figure(image, self.caller.access) or not path.is_file():
            raise NotFound(f"there is no figure '{image}'")
        return path

    def locate(self, chunk: Chunk, start: int, end: int) -> tuple[Box, ...]:
        """Where characters `start..end` of a chunk stand, word by word; empty for formats without pages."""
        found: list[Box] = []
        for page in sorted({span.page for span in chunk.spans if span.start < end and span.end > start}):
            for text in self.parts.documents.pages(chunk.document_id, page):
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
    ) -> list[Hit]:
        """The k chunks that fit a text best, each with its true scores, page and boxes."""
        self.require("search")
        chosen = self._chosen(settings)
        if not isinstance(text, str) or not text.strip():
            raise UsageError("the search text is empty", hint="enter a question or a few words")
        scope = self.scope(collection, document, kind, pages, date_from, date_to, metadata)
        depth = chosen.top_k if k is None else k
        return self.search_vector(text, self.parts.embedder.embed_query, depth, method, scope, chosen)

    def graph(self, entity: str = "", *, collection: Names = None, most: int = MOST_EDGES) -> dict[str, Any]:
        """What the documents name beside an entity, each with the sentence that proves it; without one, what is named
        most. What a model says of two names carries its name (`by`), and which of them it is said of (`subject`).

        >>> desk.graph("Ada Lund")["edges"][0]["citation"].quote
        """
        self.require("search")
        scope, reader = self.scope(collection), self.parts.reader
        key = entity_key(entity)
        listed = reader.entities_beginning(key, scope, most)
        entities = [{"key": entity_key, "name": name, "chunks": count} for entity_key, name, count in listed]
        if not key:
            return {"entity": None, "edges": [], "entities": entities}
        stated = reader.relations([key], scope, most)
        forms = [relation for relation in stated if relation.predicate == SHORT_FOR]
        keys = {key, *(entity_key(form.subject) for form in forms), *(entity_key(form.object) for form in forms)}
        stated = reader.relations(keys, scope, most) if len(keys) > 1 else stated
        mentions = reader.mentions(keys, scope, READ_FOR_GRAPH)
        ids = [
            *dict.fromkeys([*(relation.chunk_id for relation in stated), *(mention.chunk_id for mention in mentions)])
        ]
        read = reader.chunks(ids)
        if not read:
            raise NotFound(f"no document mentions '{entity}'", hint="search for it instead")
        extracted = reader.extracted(list(read))
        edges = beside(keys, [chunk for chunk, _ in read.values()], stated, most, extracted)
        called = [named for one in extracted.values() for named in one.names if named.key in keys]
        spelled = [mention.name for mention in mentions] + [named.name for named in called]
        names = list(dict.fromkeys(spelled)) or [entity]
        kinds = [named.kind for named in called if named.kind != ALIAS]
        kind = max(kinds, key=kinds.count, default="")
        return {
            "entity": {"key": key, "name": names[0], "names": names, "kind": kind, "chunks": len(read)},
            "edges": [
                {"key": edge.key, "name": edge.name, "says": edge.says, "count": edge.count}
                | {"subject": edge.subject, "by": edge.by}
                | {"citation": self._proof(number, edge, read[edge.chunk.id][1])}
                for number, edge in enumerate(edges, 1)
            ],
            "entities": entities,
        }

    def _proof(self, marker: int, edge: Neighbour, document: Document) -> Citation:
        chunk, parts = edge.chunk, edge.chunk.sentences[edge.first : edge.sentence + 1]
        start, end, page = parts[0].start, parts[-1].end, parts[0].page
        boxes = tuple(box for part in parts for box in part.boxes or self.locate(chunk, part.start, part.end))
        origin = next(iter(chunk.origins(start, end, page)), (0, 0))
        return Citation(
            marker=marker,
            document_id=document.id,
            document_name=document.name,
            chunk_id=chunk.id,
            chunk_sequence=chunk.sequence,
            heading_path=chunk.heading_path,
            page=page,
            boxes=boxes,
            located=bool(boxes),
            quote=chunk.text[start:end],
            relevance_score=1.0,
            similarity_score=0.0,
            origin=origin,
        )

    def search_vector(
        self, text: str, embed: Callable[[str], Any], k: int, method: Method, scope: Scope, settings: Settings
    ) -> list[Hit]:
        """`search` with the query's vector given by the caller, and everything checked and resolved."""
        if not isinstance(k, int) or k < 1:
            raise UsageError(f"k must be a whole number of at least 1, not {k!r}")
        arguments.one_of("search method", method, arguments.METHODS)
        return self.parts.reader.search(text, embed(text), k, method, scope, settings)

    def _chosen(self, changed: Mapping[str, Any] | None) -> Settings:
        settings = self.parts.settings()
        return settings.changed(changed) if changed else settings

    def scope(
        self,
        collection: Names = None,
        document: Names = None,
        kind: Kind | Sequence[Kind] | None = None,
        pages: Range | None = None,
        date_from: str = "",
        date_to: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Scope:
        """What a search may see, from what a caller says."""
        return Scope(
            collections=arguments.checked_collections(collection),
            documents=tuple(self.document(name).id for name in arguments.names(document)),
            kinds=arguments.checked_kinds(kind),
            pages=arguments.checked_pages(pages),
            date_from=arguments.checked_date(date_from),
            date_to=arguments.checked_date(date_to),
            metadata=tuple(sorted(arguments.checked_metadata(metadata).items())),
            access=self.caller.access,
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
        model: str = "",
        conversation_id: str = "",
        history: History = (),
        verbatim: bool = False,
        max_context_chars: int | None = None,
        cache: bool = True,
        images: Sequence[bytes | str | Path | Image] = (),
        settings: Mapping[str, Any] | None = None,
        **scope: Any,
    ) -> AsyncGenerator[Event, None]:
        """The events of an answer as it is made: stages, text, checks, and last the `Answer` or an error.

        >>> async for event in desk.ask("When is the price list revised?"):
        ...     print(event.to_dict())
        """
        options: dict[str, Any] = {
            **{"k": k, "level": level, "mode": mode, "response_mode": response_mode, "model": model},
            **{"conversation_id": conversation_id, "history": history, "verbatim": verbatim, "cache": cache},
            **{"max_context_chars": max_context_chars, "images": images, "settings": settings},
            **{"collection": collection, "document": document, **scope},
        }
        return self.parts.asking.ask(*self._asked(question, **options))

    def _asked(
        self,
        question: str,
        *,
        model: str = "",
        conversation_id: str = "",
        images: Sequence[bytes | str | Path | Image] = (),
        settings: Mapping[str, Any] | None = None,
        collection: Names = None,
        document: Names = None,
        **options: Any,
    ) -> tuple[Question, Settings]:
        """A question as it is asked, checked, with the settings that hold for it."""
        scope = {name: options.pop(name) for name in SCOPE_OPTIONS if name in options}
        self.caller.require("ask")
        chosen = self._chosen(settings)
        if model.strip():
            chosen = self._put_to(model.strip(), chosen)
        if images:
            self.parts.asking.require_sight(chosen)
        pictures = import_module("refdesk.ask.vision").checked(images) if images else ()
        if self.caller.id and conversation_id:
            self.parts.asking.conversations.check_speaker(conversation_id, self.caller.id)
        asked = arguments.make_question(
            question,
            self.scope(collection, document, **scope),
            chosen,
            conversation_id=conversation_id,
            images=pictures,
            owner=self.caller.id,
            **options,
        )
        return asked, chosen

    async def answer(self, question: str, **options: Any) -> Answer:
        """`ask`, collected into its answer; an error is raised."""
        return await collected(self.ask(question, **options))

    def ask_sync(self, question: str, **options: Any) -> Answer:
        """`answer` for those who do not await: the only synchronous way to ask.

        >>> desk.ask_sync("When is the price list revised?").content
        'The price list is revised every January. [1]'
        """
        return run_sync(lambda: self.answer(question, **options), self.parts.models.aclose)

    def staged(self, question: str, **options: Any) -> StagedQuestion:
        """The question, to be asked stage by stage; see ask/staged.py. The options are those of `ask`."""
        asked, chosen = self._asked(question, **options)
        return StagedQuestion(asked, self.parts.asking.ports(asked, chosen))

    def context(self, question: str, **options: Any) -> Context:
        """What a model would be given to answer a question: the text, and where each passage of it stands.

        Empty where nothing is asked ("Hello"). The options are those of `ask`; `rag.context_format` chooses the form.

        >>> found = desk.context("What is Python?", k=6, max_context_chars=4000)
        >>> found.text, [citation.document_name for citation in found.citations]
        """

        async def gathered() -> Context:
            staged = self.staged(question, **(options | {"cache": False}))
            if await staged.route(must_search=True):
                return Context((), "", 0)
            await staged.retrieve()
            await staged.rerank()
            return await staged.context()

        return run_sync(gathered, self.parts.models.aclose)

    # what was answered

    def answer_kept(self, answer_id: str) -> dict[str, Any]:
        """An answer as JSON values; empty where the question ended in an error."""
        return self._kept(answer_id)[0]

    def recent_questions(self, limit: int = 50) -> list[AskedQuestion]:
        """The last questions that the caller may see, the newest first."""
        return self.parts.asking.answers.recent(limit, owner=self.caller.owner, access=self.caller.access)

    def trace(self, answer_id: str) -> dict[str, Any]:
        """What each stage of an answer took, gave, cost and skipped, and every passage that was looked at.

        Of the passages those of documents that the caller may read now.
        """
        trace, access = self._kept(answer_id)[1], self.caller.access
        passages = trace.get("passages", [])  # answers from before they were noted have none
        if access is not EVERYTHING:
            seen = self.parts.documents.among({passage["document_id"] for passage in passages}, access)
            passages = [passage for passage in passages if passage["document_id"] in seen]
        return trace | {"passages": passages}

    def _kept(self, answer_id: str) -> tuple[dict[str, Any], dict[str, Any]]:
        found = self.parts.asking.answers.get(answer_id, owner=self.caller.owner, access=self.caller.access)
        if found is None:
            raise NotFound(f"there is no answer '{answer_id}'")
        return found

    def analytics(self, days: int = 30) -> dict[str, Any]:
        """Volume, waiting, cache, cost, abstentions and accuracy of the last days, of what the caller may see."""
        return self.parts.asking.answers.analytics(days, access=self.caller.access, owner=self.caller.owner)

    def give_feedback(self, answer_id: str, verdict: str, correction: str = "") -> Feedback:
        """Says whether an answer was right; a later word replaces the one before."""
        self.require("feedback")
        return self.parts.feedback.give(answer_id, verdict, correction, caller=self.caller)

    def feedback_of(self, answer_id: str) -> list[Feedback]:
        return self.parts.feedback.of(answer_id, caller=self.caller)

    # conversations: the caller's own; on one's own machine everyone's

    @property
    def _whose(self) -> str | None:
        return self.caller.id or None

    def conversations(self, limit: int = 50) -> list[Conversation]:
        """The one last used first."""
        return self.parts.asking.conversations.recent(limit, owner=self._whose)

    def conversation(self, conversation_id: str) -> Conversation:
        return self.parts.asking.conversations.conversation(conversation_id, owner=self._whose)

    def messages(self, conversation_id: str, most: int | None = None) -> list[Message]:
        return self.parts.asking.conversations.messages(conversation_id, most, owner=self._whose)

    def rename_conversation(self, conversation_id: str, title: str) -> Conversation:
        self.parts.asking.conversations.rename(conversation_id, arguments.checked_title(title), owner=self._whose)
        return self.conversation(conversation_id)

    def remove_conversation(self, conversation_id: str) -> None:
        """With its messages, and the answers and traces that were given in it."""
        self.parts.asking.conversations.delete(conversation_id, owner=self._whose)

    def take_back(self, conversation_id: str, answer_id: str) -> None:
        """Removes the last exchange, if it is the one with this answer: it is about to be asked again."""
        self.parts.asking.conversations.take_back(conversation_id, answer_id, owner=self._whose)
