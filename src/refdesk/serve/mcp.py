"""The library as tools for a model (Model Context Protocol): ask, search, list_documents, read_passage.

Over stdio the caller is whoever started the program; over HTTP the holder of the key in the Authorization header, or
whoever is at the machine when the library has no keys. Loaded when needed: the SDK takes a second to import.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, aclosing, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import Field, TypeAdapter, ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from refdesk import __version__
from refdesk.access import LOCAL, Caller
from refdesk.answer import Answer
from refdesk.desk import Refdesk
from refdesk.errors import AskError, NotFound, NotSignedIn, RefdeskError, UsageError
from refdesk.events import Done, Failed, Thinking
from refdesk.serve.http.errors import refusal
from refdesk.serve.http.guard import caller_by_key
from refdesk.serve.http.limits import BoundedProtocol, Limits, bounded
from refdesk.settings import Settings
from refdesk.trace import in_thread
from refdesk.types import Document, Hit

# What do the tools return? Plain values, and the same as text for a model to read.


@dataclass(frozen=True)
class CitationFound:
    marker: int
    document: str
    document_id: str
    page: int
    quote: str
    heading: str
    chunk: int


@dataclass(frozen=True)
class AnswerFound:
    """`answer` has markers such as [1]; `citations` say what they point at. `answered` false: it is not in there."""

    answer: str
    answered: bool
    confidence: str
    confidence_score: float
    reason: str
    citations: list[CitationFound]
    missing: list[str]
    conflicts: list[str]
    unsupported: list[str]
    answer_id: str


@dataclass(frozen=True)
class PassageFound:
    document: str
    document_id: str
    collection: str
    chunk: int
    page: int
    heading: str
    score: float
    text: str


@dataclass(frozen=True)
class PassagesFound:
    passages: list[PassageFound]


@dataclass(frozen=True)
class DocumentFound:
    id: str
    name: str
    collection: str
    title: str
    status: str
    format: str
    pages: int
    chunks: int
    date: str
    problem: str


@dataclass(frozen=True)
class DocumentsFound:
    documents: list[DocumentFound]
    total: int


@dataclass(frozen=True)
class PassageRead:
    """The text of a page or of a chunk; `pages` and `chunks` are how many the document has."""

    document: str
    document_id: str
    page: int
    label: str
    chunk: int | None
    heading: str
    pages: int
    chunks: int
    text: str


def heading_of(path: Sequence[str]) -> str:
    return " › ".join(path)


def answer_found(answer: Answer) -> AnswerFound:
    return AnswerFound(
        answer=answer.content,
        answered=answer.is_answered,
        confidence=answer.confidence.level,
        confidence_score=round(answer.confidence.score, 3),
        reason=answer.confidence.reason,
        citations=[
            CitationFound(
                *(cited.marker, cited.document_name, cited.document_id, cited.page, cited.quote),
                heading=heading_of(cited.heading_path),
                chunk=cited.chunk_sequence,
            )
            for cited in answer.citations
        ],
        missing=list(answer.sufficiency.missing_aspects),
        conflicts=[conflict.text for conflict in answer.sufficiency.conflicts],
        unsupported=[claim.text for claim in answer.claims if claim.verdict in ("unsupported", "contradicted")],
        answer_id=answer.id,
    )


def answer_text(found: AnswerFound) -> str:
    """The answer, then what its markers point at, one line each."""
    lines = [found.answer, ""]
    lines += [f"[{cited.marker}] {cited.document}, page {cited.page}: “{cited.quote}”" for cited in found.citations]
    lines += [f"Not in the documents: {text}" for text in found.missing]
    lines += [f"The documents disagree: {text}" for text in found.conflicts]
    lines += [f"Not proved by the documents: {text}" for text in found.unsupported]
    lines.append(f"Confidence: {found.confidence}" + (f" ({found.reason})" if found.reason else ""))
    return "\n".join(lines).strip()


def passage_found(hit: Hit) -> PassageFound:
    document, chunk = hit.document, hit.chunk
    place = (document.name, document.id, document.collection, chunk.sequence, hit.page)
    return PassageFound(*place, heading=heading_of(hit.heading_path), score=round(hit.score, 4), text=chunk.text)


def passages_text(found: PassagesFound) -> str:
    parts = []
    for passage in found.passages:
        heading = f", {passage.heading}" if passage.heading else ""
        parts.append(f"{passage.document}, page {passage.page}{heading} (chunk {passage.chunk})\n{passage.text}")
    return "\n\n".join(parts) or "Nothing was found."


def document_found(document: Document) -> DocumentFound:
    return DocumentFound(
        *(document.id, document.name, document.collection, document.title, document.status, document.format),
        pages=document.page_count,
        chunks=document.chunk_count,
        date=document.date,
        problem=document.error,
    )


def documents_text(found: DocumentsFound) -> str:
    lines = []
    for document in found.documents:
        status = f", {document.status}" if document.status != "ready" else ""
        pages = f"{document.pages} page{'s' * (document.pages != 1)}"
        lines.append(f"{document.name} ({document.collection}, {pages}{status}, id {document.id})")
    if found.total > len(lines) > 0:
        lines.append(f"These are {len(lines)} of {found.total}; `offset` shows others, `name` narrows them.")
    return "\n".join(lines) or "There are no such documents."


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
        description = " ".join((tool.__doc__ or "").split())  # a model pays for indentation too
        server.add_tool(tool, title=title, description=description, annotations=READS_ONLY)
    return server


class Server(MCPServer[Any]):
    """Says what is wrong with a call in one sentence, for a model to read and correct."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Request | None = None
    ) -> CallToolResult | InputRequiredResult:
        for tool in await self.list_tools():
            takes = list(tool.input_schema["properties"])
            unknown = [field for field in arguments if field not in takes]
            if tool.name == name and unknown:  # ignored in silence, a filter would seem to have worked
                raise ToolError(f"{name} takes {', '.join(takes)}; there is no '{unknown[0][:100]}'")
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
    place, message = ".".join(str(part) for part in first["loc"]), first["msg"].removeprefix("Input ")
    return f"{place}: {message[:1].lower()}{message[1:]}"


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
            with await in_thread(self._place, caller):  # which reads the settings
                found = answer_found(await self._answer(question, caller, collection, document, context))
            return _result(found, answer_text(found))

        return await self._call(context, work)

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
            return _result(found, passages_text(found))

        return await self._call(context, _in_a_thread(work))

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
            return _result(found, documents_text(found))

        return await self._call(context, _in_a_thread(work))

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
            return _result(found, f"{found.document}, page {found.page} of {found.pages}\n\n{found.text}")

        return await self._call(context, _in_a_thread(work))

    # the engine

    async def _answer(self, question: str, caller: Caller, collection: str, document: str, context: Request) -> Answer:
        named = {"collection": collection or None, "document": document or None}
        events = await in_thread(self._desk.ask, question, **named, owner=caller.id, access=caller.access)
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
            heading, number, text = heading_of(found.heading_path), page or found.page, found.text
        else:
            pages = self._desk.pages(document.id, number, access=caller.access)
            if not pages:
                raise NotFound(f"{document.name} has pages 1 to {document.page_count}, not {number}")
            text, label = pages[0].text, pages[0].page.label
        counts = {"pages": document.page_count, "chunks": document.chunk_count}
        return PassageRead(document.name, document.id, number, label, chunk, heading, text=text, **counts)

    async def _call(self, context: Request, work: Callable[[Caller], Awaitable[CallToolResult]]) -> CallToolResult:
        """Does the work for whoever calls; an error is one sentence."""
        try:
            return await work(await in_thread(caller_of, self._desk, context.headers))
        except RefdeskError as error:
            # Whoever reads this has tools, and no command line.
            raise ToolError(error.sentence.replace("`refdesk list`", "list_documents")) from error


def _in_a_thread(work: Callable[[Caller], CallToolResult]) -> Callable[[Caller], Awaitable[CallToolResult]]:
    """The engine's reading is synchronous, and other callers must not wait for it."""
    return lambda caller: asyncio.to_thread(work, caller)


def _result(value: Any, text: str) -> CallToolResult:
    """The same twice: as text for a model, and as a value for a program."""
    plain = TypeAdapter(type(value)).dump_python(value, mode="json")
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=plain)


# The MCP server over streamable HTTP at /mcp: every request needs a key when the library has keys.

GRACE_S = 5  # for open connections after Ctrl-C
LOCAL_HOSTS = ["127.0.0.1:*", "localhost:*", "[::1]:*"]


class KeyRequired:
    """Turns away, before anything is read, who has no key that is known, or has done enough for now."""

    def __init__(self, app: ASGIApp, desk: Refdesk, limits: Limits, *, needs_key: bool) -> None:
        self.app, self._desk, self._limits, self._needs_key = app, desk, limits, needs_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        with ExitStack() as stack:
            try:
                caller, settings = await in_thread(self._admitted, headers)
                stack.enter_context(self._limits.opened(caller, settings))
            except RefdeskError as error:
                await refusal(error, secrets.token_hex(8))(scope, receive, send)
                return
            await self.app(scope, bounded(receive), send)

    def _admitted(self, headers: Mapping[str, str]) -> tuple[Caller, Settings]:
        """In a thread: keys, settings and counts are in databases."""
        if self._needs_key and not self._desk.keys.exist():
            raise NotSignedIn("this library has no key any more", hint="`refdesk keys add NAME` makes one")
        caller, settings = caller_of(self._desk, headers), self._desk.settings
        self._limits.count(caller, settings)
        return caller, settings


def http_app(desk: Refdesk, *, is_local: bool, needs_key: bool = False) -> ASGIApp:
    """The app to serve. `is_local`: only called by the names of this machine, so that no web page reaches it.

    `needs_key`: reached from elsewhere, so that nobody gets in when the last key has been revoked.
    """
    guarded = TransportSecuritySettings(
        enable_dns_rebinding_protection=is_local,
        allowed_hosts=LOCAL_HOSTS,
        allowed_origins=[f"http://{host}" for host in LOCAL_HOSTS],
    )
    # Stateless: a session would belong to one process and outlive its key.
    limits = Limits()
    server = make_server(desk, lambda caller: limits.asking(caller, desk.settings))
    app = server.streamable_http_app(stateless_http=True, transport_security=guarded)
    return KeyRequired(app, desk, limits, needs_key=needs_key)


def serve_http(desk: Refdesk, listening: Any, *, is_local: bool, needs_key: bool) -> None:
    config = uvicorn.Config(
        http_app(desk, is_local=is_local, needs_key=needs_key),
        http=BoundedProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    uvicorn.Server(config).run([listening])
