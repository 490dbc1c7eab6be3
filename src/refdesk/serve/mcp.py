"""The library as MCP tools: ask, search, list_documents, read_passage.

Over stdio the caller is whoever started the program; over HTTP the one that the guard has let in (http/app.py). Loaded
when needed: the SDK takes a second to import.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import Field, TypeAdapter, ValidationError
from starlette.types import ASGIApp

from refdesk import __version__
from refdesk.answer import Answer, Done, Failed, Thinking
from refdesk.caller_desk import CallerDesk
from refdesk.desk import Refdesk
from refdesk.errors import AskError, NotFound, RefdeskError, UsageError
from refdesk.records import LOCAL, Caller
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
    """`answer` has markers such as [1]; `citations` say what they point at. `answered` false: it is not in there.

    `short` is the thing itself that was asked for, "" where that is not sure.
    """

    answer: str
    short: str
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
        short=answer.short,
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
    lines = [*([f"{found.short}\n"] if found.short else []), found.answer, ""]
    lines += [f"[{cited.marker}] {cited.document}, page {cited.page}: “{cited.quote}”" for cited in found.citations]
    lines += [f"Not in the documents: {text}" for text in found.missing]
    lines += [f"The documents disagree: {text}" for text in found.conflicts]
    lines += [f"Not supported by the documents: {text}" for text in found.unsupported]
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
    return "\n\n".join(parts) or "Nothing found."


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
        lines.append(f"These are {len(lines)} of {found.total}; use `offset` for more or `name` to narrow the list.")
    return "\n".join(lines) or "No matching documents."


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
Collection = Annotated[str, Field(description="Only this collection and its subcollections, such as finance/2024.")]
Wanted = Annotated[str, Field(description="Only this document: its name or id.", max_length=1000)]


# Holds a place among the caller's questions while one is answered, or refuses it.
Place = Callable[[Caller], AbstractContextManager[None]]


def make_server(desk: Refdesk, place: Place = lambda caller: nullcontext()) -> MCPServer[Any]:
    """The server over an open library: `run("stdio")`, or serve its `streamable_http_app`."""
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


class Tools:
    """What a model may call. The first sentences are what it reads to choose."""

    def __init__(self, desk: Refdesk, place: Place) -> None:
        self._desk, self._place = desk, place

    async def ask(
        self,
        question: Annotated[str, Field(description="The question, as a full sentence.", max_length=8000)],
        context: Request,
        collection: Collection = "",
        document: Wanted = "",
        mode: Annotated[
            Literal["chat", "agent", "report", "vision"],
            Field(description="agent: several searches; report: a long answer; vision: pages as images."),
        ] = "chat",
        level: Annotated[
            Literal["", "basic", "standard", "enhanced", "maximum"],
            Field(description="How thoroughly to search and check."),
        ] = "",
        model: Annotated[str, Field(description="Another model, one of those the owner allows.", max_length=200)] = "",
    ) -> Annotated[CallToolResult, AnswerFound]:
        """Answer a question from the documents. Each sentence has a marker such as [1]; the citations give document,
        page and the words that prove it. When the documents do not say it, `answered` is false."""

        async def work(desk: CallerDesk) -> CallToolResult:
            with await in_thread(self._place, desk.caller):  # which reads the settings
                options = {"collection": collection or None, "document": document or None, "mode": mode}
                options |= {"level": level or None, "model": model}
                found = answer_found(await _answer(desk, question, options, context))
            return _result(found, answer_text(found))

        return await self._call(context, work)

    async def search(
        self,
        query: Annotated[str, Field(description="A question or a few words.", max_length=8000)],
        context: Request,
        k: Annotated[int, Field(ge=1, le=MOST_FOUND, description="Number of passages.")] = 8,
        collection: Collection = "",
        document: Wanted = "",
    ) -> Annotated[CallToolResult, PassagesFound]:
        """Find the passages that fit a question or a few words best, with document, page, heading and full text. Use it
        to look for yourself; `ask` writes the answer and proves it."""

        def work(desk: CallerDesk) -> CallToolResult:
            hits = desk.search(query, k=k, collection=collection or None, document=document or None)
            found = PassagesFound([passage_found(hit) for hit in hits])
            return _result(found, passages_text(found))

        return await self._call(context, lambda desk: asyncio.to_thread(work, desk))

    async def list_documents(
        self,
        context: Request,
        collection: Collection = "",
        name: Annotated[
            str, Field(description="Only documents whose name or title contains this.", max_length=1000)
        ] = "",
        limit: Annotated[int, Field(ge=1, le=MOST_LISTED, description="Maximum number of results.")] = 50,
        offset: Annotated[int, Field(ge=0, le=10_000_000, description="Number of results to skip.")] = 0,
    ) -> Annotated[CallToolResult, DocumentsFound]:
        """List the documents that can be asked about, with collection, number of pages, status and id."""

        def work(desk: CallerDesk) -> CallToolResult:
            listed, total = desk.list_documents(collection=collection or None, text=name, limit=limit, offset=offset)
            found = DocumentsFound([document_found(document) for document in listed], total)
            return _result(found, documents_text(found))

        return await self._call(context, lambda desk: asyncio.to_thread(work, desk))

    async def read_passage(
        self,
        document: Annotated[str, Field(description="Name or id.", max_length=1000)],
        context: Request,
        page: Annotated[int | None, Field(ge=1, le=10_000_000, description="The page to read, from 1.")] = None,
        chunk: Annotated[
            int | None, Field(ge=1, le=10_000_000, description="Or the chunk number, as given by search and citations.")
        ] = None,
    ) -> Annotated[CallToolResult, PassageRead]:
        """Read the text of one page or one chunk of a document, such as the page of a citation or the one after it.
        Without either, the first page."""

        def work(desk: CallerDesk) -> CallToolResult:
            found = _read(desk, document, page, chunk)
            return _result(found, f"{found.document}, page {found.page} of {found.pages}\n\n{found.text}")

        return await self._call(context, lambda desk: asyncio.to_thread(work, desk))

    async def _call(self, context: Request, work: Callable[[CallerDesk], Awaitable[CallToolResult]]) -> CallToolResult:
        """Does the work for whoever calls; an error is one sentence."""
        request = context.request_context.request
        caller: Caller = LOCAL if request is None else request.state.caller  # as the guard has let it in
        try:
            return await work(self._desk.for_caller(caller))
        except RefdeskError as error:
            # Whoever reads this has tools, and no command line.
            raise ToolError(error.sentence.replace("`refdesk list`", "list_documents")) from error


async def _answer(desk: CallerDesk, question: str, options: Mapping[str, Any], context: Request) -> Answer:
    events = await in_thread(desk.ask, question, **options)
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


def _read(desk: CallerDesk, name: str, page: int | None, chunk: int | None) -> PassageRead:
    document = desk.document(name)
    if document.status != "ready":
        raise NotFound(f"{document.name} cannot be read: {document.error or f'it is {document.status}'}")
    heading, label, number = "", "", page or 1
    if chunk is not None:
        found = next((found_chunk for found_chunk in desk.chunks(document.id) if found_chunk.sequence == chunk), None)
        if found is None:
            raise NotFound(f"{document.name} has chunks 1 to {document.chunk_count}, not {chunk}")
        if page is not None and page not in found.pages:
            raise UsageError(f"chunk {chunk} of {document.name} is not on page {page}", hint="give only one of the two")
        heading, number, text = heading_of(found.heading_path), page or found.page, found.text
    else:
        pages = desk.pages(document.id, number)
        if not pages:
            raise NotFound(f"{document.name} has pages 1 to {document.page_count}, not {number}")
        text, label = pages[0].text, pages[0].page.label
    counts = {"pages": document.page_count, "chunks": document.chunk_count}
    return PassageRead(document.name, document.id, number, label, chunk, heading, text=text, **counts)


def _result(value: Any, text: str) -> CallToolResult:
    """The same twice: as text for a model, and as a value for a program."""
    plain = TypeAdapter(type(value)).dump_python(value, mode="json")
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=plain)


# Over streamable HTTP, at /mcp; what lets callers in stands before it.

LOCAL_HOSTS = ["127.0.0.1:*", "localhost:*", "[::1]:*"]


def http_app(desk: Refdesk, place: Place, *, is_local: bool) -> ASGIApp:
    """`is_local`: only called by the names of this machine, so that no web page reaches it."""
    guarded = TransportSecuritySettings(
        enable_dns_rebinding_protection=is_local,
        allowed_hosts=LOCAL_HOSTS,
        allowed_origins=[f"http://{host}" for host in LOCAL_HOSTS],
    )
    # Stateless: a session would belong to one process and outlive its key.
    return make_server(desk, place).streamable_http_app(stateless_http=True, transport_security=guarded)
