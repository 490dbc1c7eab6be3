"""The library as tools for a model (Model Context Protocol): ask, search, list_documents, read_passage.

Over stdio the caller is whoever started the program; over HTTP it is the key in the Authorization header, or whoever
sits at the machine when the library has no keys. mcp_command.py loads this file when it is needed: the SDK takes a
second to import.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, aclosing, nullcontext
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp_types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import Field, TypeAdapter, ValidationError

from refdesk import __version__
from refdesk.access import LOCAL, Caller
from refdesk.answer import Answer
from refdesk.engine import Refdesk
from refdesk.errors import AskError, NotFound, NotSignedIn, RefdeskError, UsageError
from refdesk.events import Done, Failed, Thinking
from refdesk.serve.callers import caller_by_key
from refdesk.serve.mcp_values import (
    AnswerFound,
    DocumentsFound,
    PassageRead,
    PassagesFound,
    answer_found,
    answer_text,
    document_found,
    documents_text,
    passage_found,
    passages_text,
)
from refdesk.threads import aside

INSTRUCTIONS = (
    "Refdesk answers questions from a library of documents. Use `ask` for a question: every sentence of the answer "
    "carries a marker, and the citations say which document, page and words prove it; quote them. Use `search` to find "
    "passages, `read_passage` to read on around one, and `list_documents` to see what there is. When `answered` is "
    "false the documents do not say it: say so."
)
MOST_LISTED = 200
MOST_FOUND = 50
READS_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)

Request = Context[Any, Any]
Collection = Annotated[str, Field(description="Only this collection and those below it, such as finance/2024.")]
Wanted = Annotated[str, Field(description="Only this document: its name or id.", max_length=1000)]


def make_server(
    desk: Refdesk, place: Callable[[Caller], AbstractContextManager[None]] = lambda caller: nullcontext()
) -> MCPServer[Any]:
    """The server over an open library: `run("stdio")`, or serve its `streamable_http_app`.

    `place`: what holds a place among the caller's questions while one is answered, or refuses it.
    """
    server = Server("refdesk", title="Refdesk", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    tools = Tools(desk, place)
    for tool, title in (
        (tools.ask, "Ask the documents"),
        (tools.search, "Search the documents"),
        (tools.list_documents, "List the documents"),
        (tools.read_passage, "Read a page or a chunk"),
    ):
        said = " ".join((tool.__doc__ or "").split())  # a model pays for indentation too
        server.add_tool(tool, title=title, description=said, annotations=READS_ONLY)
    return server


class Server(MCPServer[Any]):
    """Says what is wrong with a call in one sentence, for a model to read and correct."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Request | None = None
    ) -> CallToolResult | InputRequiredResult:
        for tool in await self.list_tools():
            takes = list(tool.input_schema["properties"])
            strange = [one for one in arguments if one not in takes]
            if tool.name == name and strange:  # left out in silence, a filter would seem to have been kept to
                raise ToolError(f"{name} takes {', '.join(takes)}; there is no '{strange[0][:100]}'")
        try:
            return await super().call_tool(name, arguments, context)
        except UnexpectedToolError:
            raise
        except ToolError as error:
            raise ToolError(_sentence(error)) from error


def _sentence(error: ToolError) -> str:
    """`Error executing tool ask: 1 validation error for …` -> `question: field required`."""
    cause = error.__cause__
    if not isinstance(cause, ValidationError):
        return str(cause or error)
    first = cause.errors()[0]
    place, said = ".".join(str(part) for part in first["loc"]), first["msg"].removeprefix("Input ")
    return f"{place}: {said[:1].lower()}{said[1:]}"


def caller_of(desk: Refdesk, headers: Mapping[str, str] | None) -> Caller:
    """Who calls: without headers (stdio) whoever started the program; else the holder of the key that is sent."""
    if headers is None:
        return LOCAL
    if (caller := caller_by_key(desk, headers)) is not None:
        return caller
    if desk.keys.exist():
        raise NotSignedIn("this library needs a key", hint="send it as Authorization: Bearer KEY")
    return LOCAL


class Tools:
    """What a model may call. The first sentences are what it reads to choose."""

    def __init__(self, desk: Refdesk, place: Callable[[Caller], AbstractContextManager[None]]) -> None:
        self._desk, self._place = desk.for_callers(), place

    async def ask(
        self,
        question: Annotated[str, Field(description="The question, in whole words.", max_length=8000)],
        context: Request,
        collection: Collection = "",
        document: Wanted = "",
    ) -> Annotated[CallToolResult, AnswerFound]:
        """Answer a question from the documents. Each sentence has a marker such as [1]; the citations give document,
        page and the words that prove it. When the documents do not say it, `answered` is false."""

        async def work(caller: Caller) -> CallToolResult:
            with await aside(self._place, caller):  # which reads the settings
                found = answer_found(await self._answer(question, caller, collection, document, context))
            return _given(found, answer_text(found))

        return await self._said(context, work)

    async def search(
        self,
        query: Annotated[str, Field(description="A question or a few words.", max_length=8000)],
        context: Request,
        k: Annotated[int, Field(ge=1, le=MOST_FOUND, description="How many passages.")] = 8,
        collection: Collection = "",
        document: Wanted = "",
    ) -> Annotated[CallToolResult, PassagesFound]:
        """Find the passages that fit a question or a few words best, with document, page, heading and full text. Use it
        to look for yourself; `ask` writes the answer and proves it."""

        def work(caller: Caller) -> CallToolResult:
            hits = self._desk.search(
                query, k=k, collection=collection or None, document=document or None, access=caller.access
            )
            found = PassagesFound([passage_found(hit) for hit in hits])
            return _given(found, passages_text(found))

        return await self._said(context, _in_a_thread(work))

    async def list_documents(
        self,
        context: Request,
        collection: Collection = "",
        name: Annotated[str, Field(description="Only those whose name or title holds this.", max_length=1000)] = "",
        limit: Annotated[int, Field(ge=1, le=MOST_LISTED, description="How many at most.")] = 50,
        offset: Annotated[int, Field(ge=0, le=10_000_000, description="How many to pass over first.")] = 0,
    ) -> Annotated[CallToolResult, DocumentsFound]:
        """List the documents that can be asked about, with collection, number of pages, status and id."""

        def work(caller: Caller) -> CallToolResult:
            scope = self._desk.scope(collection or None, access=caller.access)
            listed, total = self._desk.shelves.page(scope, None, name, limit, offset)
            found = DocumentsFound([document_found(one) for one in listed], total)
            return _given(found, documents_text(found))

        return await self._said(context, _in_a_thread(work))

    async def read_passage(
        self,
        document: Annotated[str, Field(description="Its name or id.", max_length=1000)],
        context: Request,
        page: Annotated[int | None, Field(ge=1, le=10_000_000, description="The page to read, from 1.")] = None,
        chunk: Annotated[
            int | None, Field(ge=1, le=10_000_000, description="Or the chunk, as search and citations name it.")
        ] = None,
    ) -> Annotated[CallToolResult, PassageRead]:
        """Read the text of one page or one chunk of a document, such as the page of a citation or the one after it.
        Without either, the first page."""

        def work(caller: Caller) -> CallToolResult:
            found = self._read(document, caller, page, chunk)
            return _given(found, f"{found.document}, page {found.page} of {found.pages}\n\n{found.text}")

        return await self._said(context, _in_a_thread(work))

    # the engine

    async def _answer(self, question: str, caller: Caller, collection: str, document: str, context: Request) -> Answer:
        named = {"collection": collection or None, "document": document or None}
        events = await aside(self._desk.ask, question, **named, owner=caller.id, access=caller.access)
        step = 0
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Thinking):
                    step += 1
                    await context.report_progress(step, None, event.text or event.step)
                elif isinstance(event, Done):
                    return event.answer
                elif isinstance(event, Failed):
                    raise event.error
        raise AskError("the question ended without an answer", stage="answer")

    def _read(self, name: str, caller: Caller, page: int | None, chunk: int | None) -> PassageRead:
        document = self._desk.document(name, access=caller.access)
        if document.status != "ready":
            raise NotFound(f"{document.name} cannot be read: {document.error or f'it is {document.status}'}")
        heading, label, number = "", "", page or 1
        if chunk is not None:
            found = next(
                (one for one in self._desk.chunks(document.id, access=caller.access) if one.sequence == chunk), None
            )
            if found is None:
                raise NotFound(f"{document.name} has chunks 1 to {document.chunk_count}, not {chunk}")
            if page is not None and page not in found.pages:
                raise UsageError(f"chunk {chunk} of {document.name} is not on page {page}", hint="name one of the two")
            heading, number, text = " › ".join(found.heading_path), page or found.page, found.text
        else:
            pages = self._desk.pages(document.id, number, access=caller.access)
            if not pages:
                raise NotFound(f"{document.name} has pages 1 to {document.page_count}, not {number}")
            text, label = pages[0].text, pages[0].page.label
        counts = {"pages": document.page_count, "chunks": document.chunk_count}
        return PassageRead(document.name, document.id, number, label, chunk, heading, text=text, **counts)

    async def _said(self, context: Request, work: Callable[[Caller], Awaitable[CallToolResult]]) -> CallToolResult:
        """Does the work for whoever calls; an error is one sentence."""
        try:
            return await work(await aside(caller_of, self._desk, context.headers))
        except RefdeskError as error:
            # Whoever reads this has tools, and no command line.
            raise ToolError(error.sentence.replace("`refdesk list`", "list_documents")) from error


def _in_a_thread(work: Callable[[Caller], CallToolResult]) -> Callable[[Caller], Awaitable[CallToolResult]]:
    """The engine's reading is synchronous, and other callers must not wait for it."""
    return lambda caller: asyncio.to_thread(work, caller)


def _given(value: Any, text: str) -> CallToolResult:
    """The same twice: as text for a model, and as a value for a program."""
    plain = TypeAdapter(type(value)).dump_python(value, mode="json")
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=plain)
