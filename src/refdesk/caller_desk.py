"""What one caller sees of a library, and may do with it: documents, searching, asking, conversations, answers.

Whoever opens a library is a caller who sees all of it (`Refdesk`); `desk.for_caller(caller)` gives another one's desk.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refdesk.access import Action, Caller
from refdesk.answer import Answer, Turn
from refdesk.arguments import (
    IMAGE_FORMATS,
    METHODS,
    STATUSES,
    History,
    Names,
    checked_collection,
    checked_collections,
    checked_date,
    checked_kinds,
    checked_metadata,
    checked_name,
    checked_pages,
    make_question,
    names,
    one_of,
    valid_utf8,
)
from refdesk.ask.flow import Asking, collected, collected_sync
from refdesk.ask.library import LibraryReader
from refdesk.errors import AskError, NotFound, UsageError
from refdesk.events import Event
from refdesk.ports import Embedder
from refdesk.records import AskedQuestion, Conversation, Feedback, Message, Move, PageText
from refdesk.settings import Settings
from refdesk.store_ports import ChunkStore, DocumentStore, FeedbackStore, Files, LibraryWriter
from refdesk.types import (
    EVERYTHING,
    Access,
    Box,
    Chunk,
    Document,
    Hit,
    Kind,
    Method,
    Range,
    Scope,
    boxes_between,
)
from refdesk.types import Seen as SeenBy

Render = Callable[[Document, int, int, Sequence[Box], str], bytes]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a desk is made of; wired in desk.py."""

    documents: DocumentStore
    chunks: ChunkStore
    writer: LibraryWriter
    files: Files
    render: Render
    embedder: Embedder
    reader: LibraryReader
    asking: Asking
    feedback: FeedbackStore
    compact: Callable[[], object]
    settings: Callable[[], Settings]
    close_models: Callable[[], Any]


class CallerDesk:
    """A library as its caller sees it. What lies outside his collections is not there."""

    def __init__(self, parts: Parts, caller: Caller | None) -> None:
        self._parts = parts
        self._caller = caller  # None: every call has to say its access

    # `access` are the collections that the caller may read. Not said, they are those of this desk's caller; in what
    # serves many callers (`Refdesk.for_callers`) that is an error, and gives nothing.

    def _seen(self, access: Access | None) -> SeenBy:
        if access is None:
            if self._caller is None:
                raise AskError("a call does not say what its caller may read", stage="access")
            access = self._caller.access
        return EVERYTHING if access is EVERYTHING else tuple(access)

    @property
    def _me(self) -> Caller:
        if self._caller is None:
            raise AskError("a call does not say who its caller is", stage="access")
        return self._caller

    def _require(self, action: Action, *collections: str) -> None:
        """What changes documents needs the right to do so there; who serves many callers asks each of them himself."""
        for collection in collections if self._caller is not None else ():
            self._me.require(action, collection)

    # documents

    def documents(
        self, *, collection: Names = None, status: str | None = None, access: Access | None = None
    ) -> list[Document]:
        if status is not None:
            one_of("status", status, STATUSES)
        return self._parts.documents.documents(self.scope(collection, access=access), status)

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
        scope = self.scope(collection)
        return self._parts.documents.page(scope, status, text, limit, offset, sort=sort, is_falling=is_falling)

    def collections(self, access: Access | None = None) -> list[tuple[str, int]]:
        """Every collection that holds documents, with how many lie in itself: `[("finance/2024", 3)]`."""
        return self._parts.documents.collections(self.scope(access=access))

    def document(self, name: str, *, access: Access | None = None) -> Document:
        """By name, by id, or by the beginning of an id; a name goes before the beginning of another one's id."""
        name, seen = valid_utf8(name), self.scope(access=access)
        if (exact := self._parts.documents.visible(name, seen.access)) is not None:
            return exact
        beginning = self._parts.documents.document(name, seen) if name else None
        named = self._parts.documents.named(name, seen)
        if len(named) > 1:
            raise UsageError(
                f"{len(named)} documents are called '{name}'", hint=f"use an id: {', '.join(d.id for d in named)}"
            )
        found = named[0] if named else beginning
        if found is None:
            raise NotFound(f"there is no document '{name}'", hint="`refdesk list` shows what there is")
        return found

    def find_document(self, document_id: str) -> Document | None:
        """The document of this very id; None when there is none that the caller may read."""
        return self._parts.documents.visible(valid_utf8(document_id), self._seen(None))

    def remove(self, *names: str, access: Access | None = None) -> list[Document]:
        """Removes documents by id or name, with what was attached to them."""
        return self.remove_found([self.document(name, access=access) for name in names])

    def remove_found(self, found: Sequence[Document]) -> list[Document]:
        """Removes documents that were looked up before; one that has gone or was moved since is passed over."""
        self._require("delete", *(one.collection for one in found))
        self._parts.reader.heal()
        return self._parts.writer.remove(found)

    def rename(self, document: str, name: str, *, access: Access | None = None) -> Document:
        """Gives a document another name; gives it as it is now. A changed file that is added again brings its own."""
        found = self.document(document, access=access)
        self._require("rename", found.collection)
        self._parts.reader.heal()
        return self._parts.writer.rename(found, checked_name(name))

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
        found = self._top_documents(old, access)
        # Many go in several steps. Who stands where another goes must be gone by then, also after a kill in between.
        found.sort(key=lambda one: len(one.collection), reverse=len(new) > len(old))
        moves = [Move(one.id, one.collection, new + one.collection[len(old) :]) for one in found]
        for one in moves:
            checked_collection(one.collection)  # the longest of them may have become too long
        return self._moved(moves)

    def remove_collection(self, collection: str, *, access: Access | None = None) -> list[Document]:
        """Removes every document of a collection and of those inside it; gives what went."""
        return self.remove_found(self._top_documents(checked_collection(collection), access))

    def _top_documents(self, collection: str, access: Access | None) -> list[Document]:
        """What lies in a collection, without what is attached to it."""
        found = [one for one in self.documents(collection=collection, access=access) if one.parent_id is None]
        if not found:
            raise NotFound(f"there is no collection '{collection}'", hint="`refdesk list` shows what there is")
        return found

    def _moved(self, moves: list[Move]) -> list[Document]:
        self._require("move", *(place for one in moves for place in (one.origin, one.collection)))
        self._parts.reader.heal()
        moved = self._parts.writer.move(moves)
        self._parts.compact()
        return moved

    def chunks(self, name: str, *, access: Access | None = None) -> list[Chunk]:
        return self._parts.chunks.chunks_of(self.document(name, access=access).id)

    def pages(self, name: str, number: int | None = None, *, access: Access | None = None) -> list[PageText]:
        """The text of a document's pages, or of one page, with the place of every word where the format has pages."""
        return self._parts.documents.pages(self.document(name, access=access).id, number)

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
        return self._parts.render(self.document(name, access=access), number, width, boxes, format)

    def original(self, name: str, *, access: Access | None = None) -> Path:
        """The file that a document was made from, as it came."""
        document = self.document(name, access=access)
        path = self._parts.writer.original(document)
        if not document.content_hash or not path.is_file():
            raise NotFound(f"the original of {document.name} is not kept", hint="its text can be shown instead")
        return path

    def figure(self, image: str, *, access: Access | None = None) -> Path:
        """The picture that a passage names as `chunk.image`, as PNG."""
        path = self._parts.files.path(image)
        if not self._parts.documents.has_figure(image, self._seen(access)) or not path.is_file():
            raise NotFound(f"there is no figure '{image}'")
        return path

    def locate(self, chunk: Chunk, start: int, end: int) -> tuple[Box, ...]:
        """Where characters `start..end` of a chunk stand, word by word; empty for formats without pages."""
        found: list[Box] = []
        for page in sorted({span.page for span in chunk.spans if span.start < end and span.end > start}):
            for text in self._parts.documents.pages(chunk.document_id, page):
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
        chosen = self._chosen(settings)
        if not isinstance(text, str) or not text.strip():
            raise UsageError("there is nothing to search for", hint="give a question or a few words")
        scope = self.scope(collection, document, kind, pages, date_from, date_to, metadata, access)
        depth = chosen.top_k if k is None else k
        return self.search_vector(text, self._parts.embedder.embed_query, depth, method, scope, chosen)

    def search_vector(
        self, text: str, embed: Callable[[str], Any], k: int, method: Method, scope: Scope, settings: Settings
    ) -> list[Hit]:
        """`search` with the query's vector given by the caller, and everything checked and resolved."""
        if not isinstance(k, int) or k < 1:
            raise UsageError(f"k must be a whole number of at least 1, not {k!r}")
        one_of("search method", method, METHODS)
        return self._parts.reader.search(text, embed(text), k, method, scope, settings)

    def _chosen(self, changed: Mapping[str, Any] | None) -> Settings:
        settings = self._parts.settings()
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
        owner: str | None = None,
        **scope: Any,
    ) -> AsyncGenerator[Event, None]:
        """The events of an answer as it is made: stages, text, checks, and last the `Answer` or an error.

        `owner` is whose conversation and answer it is: the id of a key, "" on one's own machine.

        >>> async for event in desk.ask("When is the price list revised?"):
        ...     print(event.to_dict())
        """
        chosen = self._chosen(settings)
        if owner is None:
            owner = self._caller.id if self._caller else ""
        if owner and conversation_id:
            self._parts.asking.conversations.check_speaker(conversation_id, owner)
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
        return self._parts.asking.ask(asked, chosen)

    async def answer(self, question: str, **options: Any) -> Answer:
        """`ask`, collected into its answer; an error is raised."""
        return await collected(self.ask(question, **options))

    def ask_sync(self, question: str, **options: Any) -> Answer:
        """`answer` for those who do not await: the one synchronous door.

        >>> desk.ask_sync("When is the price list revised?").content
        'The price list is revised every January. [1]'
        """
        return collected_sync(lambda: self.ask(question, **options), self._parts.close_models)

    # what was answered

    def answer_kept(self, answer_id: str) -> dict[str, Any]:
        """An answer as JSON values; empty where the question ended in an error."""
        found = self._parts.asking.answers.get(answer_id, owner=self._me.owner, access=self._seen(None))
        if found is None:
            raise NotFound(f"there is no answer '{answer_id}'")
        return found[0]

    def recent_questions(self, limit: int = 50) -> list[AskedQuestion]:
        """The last questions that the caller may see, the newest first."""
        return self._parts.asking.answers.recent(limit, owner=self._me.owner, access=self._seen(None))

    def trace(self, answer_id: str, *, owner: str | None = None, access: Access | None = None) -> dict[str, Any]:
        """What each stage of an answer took, gave, cost and skipped, and every passage that was looked at.

        `owner` None sees everyone's. With `access`, of the passages those of documents that lie there now.
        """
        seen_in = self._seen(access)
        if owner is None and self._caller is not None:
            owner = self._caller.owner
        found = self._parts.asking.answers.get(answer_id, owner=owner, access=seen_in)
        if found is None:
            raise NotFound(f"there is no answer '{answer_id}'")
        passages = found[1].get("passages", [])  # answers from before they were noted have none
        if seen_in is not EVERYTHING:
            seen = self._parts.documents.among({one["document_id"] for one in passages}, seen_in)
            passages = [one for one in passages if one["document_id"] in seen]
        return found[1] | {"passages": passages}

    def analytics(self, days: int = 30, *, access: Access | None = None, owner: str | None = None) -> dict[str, Any]:
        """Volume, waiting, cache, cost, abstentions and accuracy of the last days; `owner` None counts everyone's."""
        if owner is None and self._caller is not None:
            owner = self._caller.owner
        return self._parts.asking.answers.analytics(days, access=self._seen(access), owner=owner)

    def give_feedback(self, answer_id: str, verdict: str, correction: str = "") -> Feedback:
        """Says whether an answer was right; a later word replaces the one before."""
        return self._parts.feedback.give(answer_id, verdict, correction, caller=self._me)

    def feedback_of(self, answer_id: str) -> list[Feedback]:
        return self._parts.feedback.of(answer_id, caller=self._me)

    # conversations: the caller's own; on one's own machine everyone's

    @property
    def _whose(self) -> str | None:
        return self._me.id or None

    def conversations(self, limit: int = 50) -> list[Conversation]:
        """The one last used first."""
        return self._parts.asking.conversations.recent(limit, owner=self._whose)

    def conversation(self, conversation_id: str) -> Conversation:
        return self._parts.asking.conversations.conversation(conversation_id, owner=self._whose)

    def messages(self, conversation_id: str, most: int | None = None) -> list[Message]:
        return self._parts.asking.conversations.messages(conversation_id, most, owner=self._whose)

    def begin_conversation(self, conversation_id: str = "", *, title: str = "", turns: Sequence[Turn] = ()) -> str:
        """Gives its id; the caller's own id must be new."""
        made = self._parts.asking.conversations.create(conversation_id, title=title, owner=self._me.id)
        self._parts.asking.conversations.append(made, turns, owner=self._me.id)
        return made

    def rename_conversation(self, conversation_id: str, title: str) -> Conversation:
        self._parts.asking.conversations.rename(conversation_id, title, owner=self._whose)
        return self.conversation(conversation_id)

    def remove_conversation(self, conversation_id: str) -> None:
        """With its messages, and the answers and traces that were given in it."""
        self._parts.asking.conversations.delete(conversation_id, owner=self._whose)

    def take_back(self, conversation_id: str, answer_id: str) -> None:
        """Removes the last exchange, if it is the one with this answer: it is about to be asked again."""
        self._parts.asking.conversations.take_back(conversation_id, answer_id, owner=self._whose)
