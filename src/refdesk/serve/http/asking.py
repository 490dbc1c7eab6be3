"""Asking over HTTP: questions, event streams, searches, conversations and past answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, nullcontext, suppress
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Header, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from refdesk.answer import Answer, Citation, Content, Done, Event, Failed, Sources, answer_from_dict
from refdesk.ask.flow import collected
from refdesk.ask.wording import is_missing
from refdesk.caller_desk import CallerDesk
from refdesk.errors import NotFound, UsageError
from refdesk.records import Conversation, Feedback, Message
from refdesk.serve.export import DOCX_TYPE as DOCX
from refdesk.serve.export import FORMATS, MEDIA_TYPES
from refdesk.serve.http import requests
from refdesk.serve.http import responses as shapes
from refdesk.serve.http.documents import LONGEST_BOXES, MOST_BOXES, WITH_IMAGES
from refdesk.serve.http.guard import Desk, Service, Serving, Who
from refdesk.serve.http.observe import ServerStopping, log_question, problem, reply
from refdesk.serve.http.openapi import about, failures, returns_bytes, returns_events
from refdesk.serve.http.requests import LONGEST_SEARCH, MOST_HITS, KnownKind, Name
from refdesk.serve.http.sse import EventResponse, Named, Streams, began_at, disconnected, new_id
from refdesk.trace import in_thread
from refdesk.types import Box, Hit, Method

ask_routes = APIRouter(prefix="/api", tags=["asking"])
talk_routes = APIRouter(prefix="/api/conversations", tags=["conversations"])
answer_routes = APIRouter(prefix="/api", tags=["answers"])
ROUTERS = (ask_routes, talk_routes, answer_routes)
EVENTS = returns_events(
    thinking=shapes.ThinkingEvent,
    sources=shapes.SourcesEvent,
    content=shapes.ContentEvent,
    verification=shapes.VerificationEvent,
    replace=shapes.ReplaceEvent,
    done=shapes.DoneEvent,
    error=shapes.ErrorEvent,
)
LOOK_S = 0.2
LONGEST_NAME = 200  # characters
LastEvent = Annotated[
    str, Header(alias="Last-Event-ID", description="The id of the last event received; the stream continues after it.")
]


@ask_routes.post("/query", **about("Ask a question", shapes.Answer, 404, 501, 502))
async def query(request: Request, service: Serving, desk: Desk, body: requests.QueryRequest) -> Response:
    """Answers from the documents, with the keys of `Answer` and aliases for other clients."""
    answer = await ask_once(request, service, desk, body.text, body.options())
    return reply(await in_thread(answer_shape, answer, desk.label))


@ask_routes.post("/query/clear-cache", **about("Clear the answer cache", shapes.Cleared))
def clear_cache(desk: Desk) -> Response:
    desk.clear_cache()
    return reply({"cleared": True})


@ask_routes.post("/chat", **about("Ask in a conversation", shapes.Answer, 404, 501, 502))
async def chat(request: Request, service: Serving, desk: Desk, body: requests.ChatRequest) -> Response:
    """Asks in the given conversation, or in a new one whose id is returned."""
    options = in_conversation(body.options(), new_id())
    answer = await ask_once(request, service, desk, body.text, options)
    return reply(await in_thread(answer_shape, answer, desk.label))


@ask_routes.post("/chat/stream", summary="Ask, and stream the answer", responses=EVENTS | failures(404))
async def chat_stream(
    request: Request, service: Serving, desk: Desk, body: requests.ChatRequest, last_event_id: LastEvent = ""
) -> Response:
    """Events: thinking, sources, content, verification, replace, then done or error. See docs/http.md."""
    own_id = new_id()
    if not last_event_id:
        return await _stream(request, service, desk, body, in_conversation(body.options(), own_id), own_id)
    if found := await service.streams.find(last_event_id, desk.caller.id):
        return EventResponse(*found)
    lost = last_event_id.rpartition("-")[0]
    options = in_conversation(body.options(), lost)
    answer = await _finished_elsewhere(service, desk, body.text, options["conversation_id"], lost)
    if answer is None:
        return await _stream(request, service, desk, body, options, own_id, is_again=True)
    again = service.streams.begin(
        desk.caller.id, _replayed(answer, desk), request.state.request_id, is_enveloped=body.envelope
    )
    return EventResponse(again)


async def _stream(
    request: Request,
    service: Service,
    desk: CallerDesk,
    body: requests.ChatRequest,
    options: dict[str, Any],
    own_id: str,
    is_again: bool = False,
) -> Response:
    events, end = await begin_stream(service, desk, body.text, options)
    named = named_events(request, service, events, is_again)
    topic, about_it = (str(options["conversation_id"]), body.text), (request.state.request_id, end, own_id)
    return EventResponse(service.streams.begin(desk.caller.id, named, *about_it, topic, is_enveloped=body.envelope))


async def _finished_elsewhere(
    service: Service, desk: CallerDesk, text: str, conversation_id: str, lost: str
) -> Answer | None:
    """The answer if another process finishes it in a moment: it goes on for a moment after its reader has left."""
    until = time.monotonic() + service.streams.waits.grace_s
    while True:
        answer = await asyncio.to_thread(_finished, desk, text, conversation_id, began_at(lost))
        if answer is not None or time.monotonic() > until or service.streams.is_stopping:
            return answer
        await asyncio.sleep(LOOK_S)


def _finished(desk: CallerDesk, text: str, conversation_id: str, since: float | None) -> Answer | None:
    """The answer of a stream of another process, if it has one: the last of its conversation."""
    turns = desk.messages(conversation_id, 2)
    if (
        since is None
        or [turn.role for turn in turns] != ["user", "assistant"]
        or turns[0].content.strip() != text.strip()
    ):
        return None
    if datetime.fromisoformat(turns[1].created_at).timestamp() < since:
        return None  # the same was asked before
    with suppress(NotFound):
        found = desk.answer_kept(turns[1].answer_id)
        if not found.get("stopped"):
            return answer_from_dict(found) if found else None
        desk.take_back(conversation_id, turns[1].answer_id)  # nobody was there any more; the reader has come back
    return None


async def _replayed(answer: Answer, desk: CallerDesk) -> AsyncGenerator[Named, None]:
    yield "replace", {"content": answer.content, "reason": "finished"}
    yield "done", await in_thread(_done, answer, desk.label)


# what /v1 shares


async def begin(service: Service, desk: CallerDesk, text: str, options: dict[str, Any]) -> AsyncGenerator[Event, None]:
    """The events of a question, within the collections and conversations of the caller."""
    if service.streams.is_stopping:
        raise ServerStopping
    if not text.strip():
        raise UsageError("the question is empty", hint="send it in `question`, `message`, or a user message")
    log_question(text)

    def begun() -> AsyncGenerator[Event, None]:
        """In a thread: reads settings, conversations and documents."""
        if settings := options.get("settings"):
            desk.settings.for_request(settings)
        return desk.ask(text, **options)

    return await in_thread(begun)


async def begin_stream(
    service: Service, desk: CallerDesk, text: str, options: dict[str, Any]
) -> tuple[AsyncGenerator[Event, None], Callable[[], None]]:
    """The same, and what to call after the last event: until then it counts as one of the caller's questions."""
    end = await in_thread(lambda: service.limits.begin(desk.caller, desk.settings))
    try:
        return await begin(service, desk, text, options), end
    except BaseException:
        end()
        raise


def in_conversation(options: dict[str, Any], new: str) -> dict[str, Any]:
    """A new conversation has the id of its stream, so that a client can find it again."""
    return options if options.get("conversation_id") else options | {"conversation_id": new}


async def ask_once(request: Request, service: Service, desk: CallerDesk, text: str, options: dict[str, Any]) -> Answer:
    end = await in_thread(lambda: service.limits.begin(desk.caller, desk.settings))
    try:
        events = await begin(service, desk, text, options)
        return await unless_disconnected(request, service.streams, collected(counted(request, service, events)))
    finally:
        end()


async def unless_disconnected(request: Request, streams: Streams, work: Coroutine[Any, Any, Answer]) -> Answer:
    """The result, unless the client leaves or the server stops: then the work is cancelled."""
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(disconnected(request.receive))
    streams.answering.add(task)
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if task.cancelled():
            raise ServerStopping
        if not task.done():
            raise HTTPException(499, "the client disconnected before the answer was ready")
        return task.result()
    finally:
        streams.answering.discard(task)
        leaving.cancel()
        task.cancel()


async def counted(
    request: Request, service: Service, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[Event, None]:
    """The same events, counted for /metrics; the stages become spans where spans are sent."""
    with service.figures.asking.track_inprogress():
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Done):
                    service.figures.answer(event.answer)
                    await _spans(request, service, event.answer.id)
                elif isinstance(event, Failed):
                    service.figures.failure(event.error)
                    if service.spans is not None:
                        service.spans.failed(request.state.span, event.error.code)
                        with suppress(NotFound):  # nothing was written down of it
                            await _spans(request, service, event.trace_id)
                yield event


async def _spans(request: Request, service: Service, answer_id: str) -> None:
    if service.spans is not None:
        trace = await in_thread(service.desk.trace, answer_id)
        service.spans.stages(request.state.span, trace)


async def named_events(
    request: Request, service: Service, events: AsyncGenerator[Event, None], is_again: bool = False
) -> AsyncGenerator[Named, None]:
    """(name, data) of each event, as seed 004 names them. `is_again`: the reader forgets what came before."""
    if is_again:
        yield "replace", {"content": "", "reason": "begun_again"}
    async with aclosing(counted(request, service, events)) as stream:
        async for event in stream:
            if isinstance(event, Content):  # the one that comes a hundred times
                yield "content", {"token": event.token}
            elif isinstance(event, Sources):
                yield "sources", {"citations": [citation_shape(citation) for citation in event.citations]}
            elif isinstance(event, Done):
                yield "done", await in_thread(_done, event.answer, service.desk.label)
            elif isinstance(event, Failed):
                yield "error", problem(event.error, request.state.request_id) | {"trace_id": event.trace_id}
            else:
                fields = event.to_dict()
                yield fields["type"], fields["data"]


def _done(answer: Answer, label: Callable[[str], str]) -> dict[str, Any]:
    return {"answer": answer_shape(answer, label), "traceUrl": f"/api/traces/{answer.trace_id}"}


# An answer with the keys of other designs (see responses.py)

SNIPPET = 200  # characters (seed 001)
REFUSED = "none"  # the model of an answer for which nothing was found that is worth reading
NO_MODEL = (REFUSED, "extractive")
# Of a citation, what says where its chunk is.
CHUNK = (
    *("doc_name", "doc_id", "chunk_id", "chunk_sequence", "page_number", "snippet", "url"),
    *("relevance_score", "similarity_score", "support_score"),
)


def answer_shape(answer: Answer, label: Callable[[str], str]) -> dict[str, Any]:
    """`Answer`, with the keys of /api/query (seeds 000, 002, 003) and of RAGResponse (seed 001).

    `label` gives the name that is shown for a collection.
    """
    fields = answer.to_dict()
    fields["citations"] = [citation_shape(citation) for citation in answer.citations]
    fields["sources"] = [chunk for source in fields["sources"] for chunk in _chunks(source, fields["citations"])]
    fields["metrics"] = _metrics(answer)
    fields["confidence"]["label"] = answer.confidence.level.capitalize()
    return fields | {
        "answer": answer.content,
        "relatedDocs": _related_docs(answer, label),
        "metadata": _metadata(answer),
        "query_id": answer.id,
        "session_id": answer.conversation_id,
        "confidence_score": answer.confidence.score,
        "confidence_level": answer.confidence.level,
        "context_sufficiency": fields["sufficiency"],
    }


def citation_shape(cited: Citation) -> dict[str, Any]:
    """A citation as `Answer` has it, and as seeds 001 to 004 call its parts."""
    return cited.to_dict() | {
        **dict.fromkeys(("doc_id", "docId"), cited.document_id),
        **dict.fromkeys(("doc_name", "title"), cited.document_name),
        "label": f"[{cited.marker}]",
        "section": " > ".join(cited.heading_path),
        "similarity": cited.similarity_score,
        "score": cited.relevance_score,
        "matched": True,
        "sourceUrls": [cited.url] if cited.url else [],
        "page_number": cited.page,
        "snippet": cited.quote[:SNIPPET],
        "text": cited.quote,
        "bbox": _around(cited.boxes),
    }


def _around(boxes: tuple[Box, ...]) -> dict[str, float] | None:
    """The smallest box around those on the first page (seed 004's one `bbox`)."""
    on_page = [box for box in boxes if box.page == boxes[0].page]
    if not on_page:
        return None
    left, top = min(box.x for box in on_page), min(box.y for box in on_page)
    right, bottom = max(box.x + box.width for box in on_page), max(box.y + box.height for box in on_page)
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


def _chunks(source: dict[str, Any], citations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An entry for each chunk of a document that is cited, as seeds 000 and 001 have it; one for a document without."""
    cited: dict[int, list[dict[str, Any]]] = {}
    for citation in citations:
        if citation["document_id"] == source["document_id"]:
            cited.setdefault(citation["chunk_id"], []).append(citation)
    return [
        source
        | {name: cites[0][name] for name in CHUNK}
        | {
            "heading_path": cites[0]["section"],
            "markers": sorted({citation["marker"] for citation in cites}),
            "pages": sorted(
                {citation["page"] for citation in cites}
                | {box["page"] for citation in cites for box in citation["boxes"]}
            ),
            "support_score": max(citation["support_score"] for citation in cites),
        }
        for cites in cited.values()
    ] or [source | {"doc_id": source["document_id"], "doc_name": source["document_name"]}]


def _related_docs(answer: Answer, label: Callable[[str], str]) -> list[dict[str, Any]]:
    """The documents of all chunks that were read, cited or not (seed 002); none where nothing was worth reading."""
    if answer.model == REFUSED:
        return []
    return [
        {
            "docId": source.document_id,
            "document_id": source.document_id,
            "document_name": source.document_name,
            "title": source.title or source.document_name,
            "category": label(source.collection),
        }
        for source in (*answer.sources, *answer.related_documents)
    ]


def _metrics(answer: Answer) -> dict[str, Any]:
    times = answer.metrics
    return dict(times) | {
        "retrieval_latency_ms": times.get("retrieve_ms", 0.0),
        "llm_latency_ms": times.get("generate_ms", 0.0),
        "total_latency_ms": times.get("total_ms", 0.0),
        "context_length": int(times.get("context_characters", 0)),
        "chunks_retrieved": int(times.get("chunks_retrieved", 0)),
        "tokens_used": token_counts(answer),
        "model": answer.model,
    }


def token_counts(answer: Answer) -> dict[str, int]:
    prompt, completion = answer.usage.prompt_tokens, answer.usage.completion_tokens
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _metadata(answer: Answer) -> dict[str, Any]:
    usage = answer.usage
    return {
        "chunksRetrieved": 0 if answer.model == REFUSED else int(answer.metrics.get("chunks_retrieved", 0)),
        "chunksUsed": len({citation.chunk_id for citation in answer.citations}),
        "model": None if answer.model in NO_MODEL else answer.model,
        "processingTimeMs": answer.metrics.get("total_ms", 0.0),
        "usage": {"promptTokens": usage.prompt_tokens, "completionTokens": usage.completion_tokens},
        "noResults": is_missing(answer.content),
    }


# Searching

Several = Annotated[list[Name] | None, Query(max_length=100)]


@ask_routes.post("/search", **about("Search", shapes.SearchResult, 404))
async def search(service: Serving, desk: Desk, body: requests.SearchRequest) -> Response:
    """Returns the best-matching chunks; no model is used to write."""
    if not body.text.strip():
        raise UsageError("the search text is empty", hint="send it in `q`")
    log_question(body.text)
    # A key's searches take turns, so that other keys do not wait.
    async with service.limits.turn(desk.caller) if desk.caller.id else nullcontext():
        hits = await asyncio.to_thread(desk.search, body.text, k=body.k, method=body.method, **body.scope())
    return reply({"query": body.text, "method": body.method, "hits": [hit_shape(hit) for hit in hits]})


@ask_routes.get("/search", **about("Search with GET", shapes.SearchResult, 404))
async def search_address(
    service: Serving,
    desk: Desk,
    q: Annotated[str, Query(max_length=LONGEST_SEARCH, description="Text to search for.", examples=["price list"])],
    k: Annotated[int | None, Query(ge=1, le=MOST_HITS, description="Number of hits; default: `rag.top_k`.")] = None,
    method: Annotated[Method, Query(description="By words, by meaning, or both.")] = "hybrid",
    collection: Annotated[
        Several, Query(description="Only these collections and their subcollections; repeatable.")
    ] = None,
    document: Annotated[Several, Query(description="Only these documents, by id or name; repeatable.")] = None,
    kind: Annotated[list[KnownKind] | None, Query(max_length=100, description="Only these kinds; repeatable.")] = None,
    date_from: Annotated[str, Query(max_length=40, description="Only documents dated on or after this day.")] = "",
    date_to: Annotated[str, Query(max_length=40, description="Only documents dated on or before this day.")] = "",
) -> Response:
    """Filters by pages and metadata need POST."""
    fields = {"q": q, "k": k, "method": method, "collection": collection, "document": document, "kind": kind}
    wanted = requests.SearchRequest.model_validate(fields | {"date_from": date_from, "date_to": date_to})
    return await search(service, desk, wanted)


@ask_routes.get("/graph", **about("Get an entity and its neighbours", shapes.Neighbourhood, 404))
async def graph(
    desk: Desk,
    entity: Annotated[
        str, Query(max_length=LONGEST_NAME, description="Name of the entity; empty: the most frequent ones.")
    ] = "",
    collection: Annotated[
        Several, Query(description="Only these collections and their subcollections; repeatable.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="Number of neighbours.")] = 20,
) -> Response:
    """Names mentioned in the same sentence, each with a citation."""
    found = await asyncio.to_thread(desk.graph, entity, collection=collection, most=limit)
    edges = [edge | {"citation": citation_shape(edge["citation"])} for edge in found["edges"]]
    return reply(found | {"edges": edges})


def hit_shape(hit: Hit) -> dict[str, Any]:
    """`Hit`, with the places of its lines and the addresses of its page."""
    document, chunk = hit.document, hit.chunk
    place = f"/api/documents/{document.id}/pages/{hit.page}"
    return hit.to_dict() | {
        "collection": document.collection,
        "title": document.title,
        "date": document.date,
        "lines": [
            {"start": span.start, "end": span.end, "page": span.page, "box": span.box and span.box.to_dict()}
            for span in chunk.spans
        ],
        "page_text": f"{place}/text",
        "page_image": f"{place}/image{_marked(hit)}" if document.format in WITH_IMAGES else None,
        "figure": f"/api/images/{chunk.image}" if chunk.image else None,
    }


def _marked(hit: Hit) -> str:
    """`?boxes=…` that marks its lines on the page; empty if there are too many for an address."""
    boxes = [[box.x, box.y, box.width, box.height] for box in hit.boxes if box.page == hit.page]
    text = orjson.dumps(boxes).decode()
    return f"?boxes={quote(text)}" if 0 < len(boxes) <= MOST_BOXES and len(text) <= LONGEST_BOXES else ""


# Conversations: a caller's own, their messages and titles

Limit = Annotated[int, Query(ge=1, le=1000)]


@talk_routes.get("", **about("List conversations", shapes.ConversationList))
def recent(desk: Desk, limit: Limit = 50) -> Response:
    return reply({"conversations": desk.conversations(limit)})


@talk_routes.get("/{conversation_id}", **about("Get a conversation", Conversation))
def conversation(desk: Desk, conversation_id: str) -> Response:
    return reply(desk.conversation(conversation_id))


@talk_routes.get("/{conversation_id}/messages", **about("List the messages of a conversation", shapes.MessageList))
async def messages(service: Serving, desk: Desk, conversation_id: str, limit: Limit = 200) -> Response:
    """`running` is the question being answered; follow its stream with `Last-Event-ID: STREAM-0`."""
    stream = await service.streams.in_conversation(conversation_id, desk.caller.id)

    def read() -> list[Message]:
        if stream is None:
            desk.conversation(conversation_id)
        return desk.messages(conversation_id, limit)

    running = {"stream": stream.id, "question": stream.question} if stream is not None else None
    return reply({"messages": await asyncio.to_thread(read), "running": running})


@talk_routes.post("/{conversation_id}/stop", **about("Stop the running answer", shapes.Stopped))
async def stop(service: Serving, caller: Who, conversation_id: str) -> Response:
    """Returns once the text so far is stored; false if nothing was running."""
    stream = await service.streams.in_conversation(conversation_id, caller.id)
    if stream is not None:
        await stream.stopped()
    return reply({"stopped": stream is not None})


@talk_routes.patch("/{conversation_id}", **about("Rename a conversation", Conversation))
def rename(desk: Desk, conversation_id: str, body: requests.TitleIn) -> Response:
    return reply(desk.rename_conversation(conversation_id, body.title))


@talk_routes.delete("/{conversation_id}", **about("Delete a conversation", shapes.Deleted))
def delete(desk: Desk, conversation_id: str) -> Response:
    desk.remove_conversation(conversation_id)
    return reply({"deleted": conversation_id})


# Answers, their traces, feedback, and analytics


@answer_routes.get("/answers", name="recent", **about("List the latest questions", shapes.AskedList))
def recent_answers(desk: Desk, limit: Limit = 50) -> Response:
    """Lists your own; admins see everyone's in their collections."""
    return reply({"answers": desk.recent_questions(limit)})


@answer_routes.get("/answers/{answer_id}", **about("Get an answer", shapes.KeptAnswer))
def answer(desk: Desk, answer_id: str) -> Response:
    """The answer as given, with its feedback."""
    found = desk.answer_kept(answer_id)
    if not found:
        raise NotFound(f"there is no answer '{answer_id}'")
    return reply(answer_shape(answer_from_dict(found), desk.label) | {"feedback": desk.feedback_of(answer_id)})


@answer_routes.get(
    "/answers/{answer_id}/export",
    summary="Download an answer",
    responses=returns_bytes(
        "text/markdown", "text/html", DOCX, description="The answer as a file", example="# How heavy …"
    )
    | failures(404),
)
def export(desk: Desk, answer_id: str, format: Literal["markdown", "html", "docx"] = "markdown") -> Response:
    """With its sources, as Markdown, HTML or a Word document."""
    found = desk.answer_kept(answer_id)
    if not found:
        raise NotFound(f"there is no answer '{answer_id}'")
    suffix = {"markdown": "md"}.get(format, format)
    headers = {
        "Content-Disposition": f'attachment; filename="answer-{answer_id[:8]}.{suffix}"',
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(FORMATS[format](answer_from_dict(found)), headers=headers, media_type=MEDIA_TYPES[format])


@answer_routes.get("/traces/{answer_id}", **about("Get the trace of an answer", shapes.Trace))
def trace(desk: Desk, answer_id: str) -> Response:
    return reply(desk.trace(answer_id))


@answer_routes.post("/feedback", **about("Give feedback", Feedback, 404))
def feedback(desk: Desk, body: requests.FeedbackIn) -> Response:
    return reply(desk.give_feedback(body.answer_id, body.verdict, body.correction))


@answer_routes.get("/analytics", **about("Usage, latency, cost and accuracy", shapes.Analytics))
def analytics(desk: Desk, days: Annotated[int, Query(ge=1, le=3650)] = 30) -> Response:
    """Covers your own questions; admins see everyone's in their collections."""
    return reply(desk.analytics(days))
