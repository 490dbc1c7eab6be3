"""Asking over HTTP: questions, streams of events, searches, conversations, and the answers that were given."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, nullcontext, suppress
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Header, Query, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from refdesk.answer import Answer, answer_from_dict
from refdesk.caller_desk import CallerDesk
from refdesk.errors import NotFound, RefdeskError, UsageError
from refdesk.events import Content, Done, Event, Failed, Sources
from refdesk.serve.http.documents import LONGEST_BOXES, MOST_BOXES, WITH_IMAGES
from refdesk.serve.http.errors import ServerStopping, problem, reply
from refdesk.serve.http.guard import Desk, Service, Serving, Who
from refdesk.serve.http.observe import log_question
from refdesk.serve.http.openapi import about, failures, returns_events
from refdesk.serve.http.requests import (
    LONGEST_SEARCH,
    MOST_HITS,
    ChatRequest,
    FeedbackIn,
    KnownKind,
    Name,
    QueryRequest,
    SearchRequest,
    TitleIn,
)
from refdesk.serve.http.responses import answer_shape, citation_shape
from refdesk.serve.http.sse import GRACE_S, EventResponse, Named, Streams, began_at, disconnected, new_id
from refdesk.trace import in_thread
from refdesk.types import Hit, Method

router = APIRouter()
EVENTS = returns_events(
    thinking="ThinkingEvent",
    sources="SourcesEvent",
    content="ContentEvent",
    verification="VerificationEvent",
    replace="ReplaceEvent",
    done="DoneEvent",
    error="ErrorEvent",
)
AGAIN_S = GRACE_S
LOOK_S = 0.2
LastEvent = Annotated[
    str,
    Header(alias="Last-Event-ID", description="The id of the last event received; the stream continues after it."),
]


@router.post("/api/query", **about("Ask a question", "Answer", 404, 501, 502, tag="asking"))
async def query(request: Request, service: Serving, desk: Desk, body: QueryRequest) -> Response:
    """Answers from the documents. Has the keys of `Answer` and those of other systems."""
    answer = await ask_once(request, service, desk, body.text, body.options())
    return reply(answer_shape(answer))


@router.post("/api/query/clear-cache", **about("Clear the cache of answers", "Cleared", tag="asking"))
def clear_cache(desk: Desk) -> Response:
    desk.clear_cache()
    return reply({"cleared": True})


@router.post("/api/chat", **about("Ask in a conversation", "Answer", 404, 501, 502, tag="asking"))
async def chat(request: Request, service: Serving, desk: Desk, body: ChatRequest) -> Response:
    """The same in a conversation: the one named, or a new one, whose id is in the answer."""
    options = in_conversation(body.options(), new_id())
    return reply(answer_shape(await ask_once(request, service, desk, body.text, options)))


@router.post(
    "/api/chat/stream",
    tags=["asking"],
    summary="Ask, and stream the answer",
    responses=EVENTS | failures(404),
)
async def chat_stream(
    request: Request, service: Serving, desk: Desk, body: ChatRequest, last_event_id: LastEvent = ""
) -> Response:
    """Events: thinking, sources, content, verification, replace, then done or error. See docs/http.md."""
    own_id = new_id()
    if not last_event_id:
        return await _stream(request, service, desk, body.text, in_conversation(body.options(), own_id), own_id)
    if found := service.streams.find(last_event_id, desk.caller.id):
        return EventResponse(*found)
    lost = last_event_id.rpartition("-")[0]
    options = in_conversation(body.options(), lost)
    answer = await _finished_elsewhere(service, desk, body.text, options["conversation_id"], lost)
    if answer is None:
        return await _stream(request, service, desk, body.text, options, own_id, is_again=True)
    return EventResponse(service.streams.begin(desk.caller.id, _replayed(answer), request.state.request_id))


async def _stream(
    request: Request,
    service: Service,
    desk: CallerDesk,
    text: str,
    options: dict[str, Any],
    own_id: str,
    is_again: bool = False,
) -> Response:
    events, end = await begin_stream(service, desk, text, options)
    named = named_events(request, service, events, is_again)
    topic = (str(options["conversation_id"]), text)
    return EventResponse(service.streams.begin(desk.caller.id, named, request.state.request_id, end, own_id, topic))


async def _finished_elsewhere(
    service: Service, desk: CallerDesk, text: str, conversation_id: str, lost: str
) -> Answer | None:
    """The answer if another process finishes it in a moment: it goes on for `GRACE_S` after its reader has left."""
    until = time.monotonic() + AGAIN_S
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


async def _replayed(answer: Answer) -> AsyncGenerator[Named, None]:
    yield "replace", {"content": answer.content, "reason": "finished"}
    yield "done", _done(answer)


# what /v1 shares


async def begin(service: Service, desk: CallerDesk, text: str, options: dict[str, Any]) -> AsyncGenerator[Event, None]:
    """The events of a question, within the collections and conversations of the caller."""
    if service.streams.is_stopping:
        raise ServerStopping
    if not text.strip():
        raise UsageError("there is no question", hint="put it in `question`, `message`, or a user message")
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
    end = service.limits.begin(desk.caller, await in_thread(lambda: desk.settings))
    try:
        return await begin(service, desk, text, options), end
    except BaseException:
        end()
        raise


def in_conversation(options: dict[str, Any], new: str) -> dict[str, Any]:
    """A new conversation has the id of its stream, so that a client can find it again."""
    return options if options.get("conversation_id") else options | {"conversation_id": new}


async def ask_once(request: Request, service: Service, desk: CallerDesk, text: str, options: dict[str, Any]) -> Answer:
    with service.limits.asking(desk.caller, await in_thread(lambda: desk.settings)):
        events = await begin(service, desk, text, options)
        return await unless_disconnected(request, service.streams, _collected(request, service, events))


async def _collected(request: Request, service: Service, events: AsyncGenerator[Event, None]) -> Answer:
    async with aclosing(counted(request, service, events)) as stream:
        async for event in stream:
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Done):
                return event.answer
    raise RefdeskError("the stream ended without an answer")


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
            raise HTTPException(499, "the client left before there was an answer")
        return task.result()
    finally:
        streams.answering.discard(task)
        leaving.cancel()
        task.cancel()


async def counted(
    request: Request, service: Service, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[Event, None]:
    """The same events, counted for /metrics; the stages become spans where spans are sent."""
    service.figures.began()
    try:
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
    finally:
        service.figures.ended()


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
                yield "sources", {"citations": [citation_shape(one) for one in event.citations]}
            elif isinstance(event, Done):
                yield "done", _done(event.answer)
            elif isinstance(event, Failed):
                yield "error", problem(event.error, request.state.request_id) | {"trace_id": event.trace_id}
            else:
                fields = event.to_dict()
                yield fields["type"], fields["data"]


def _done(answer: Answer) -> dict[str, Any]:
    return {"answer": answer_shape(answer), "traceUrl": f"/api/traces/{answer.trace_id}"}


# Searching

Several = Annotated[list[Name] | None, Query(max_length=100)]


@router.post("/api/search", **about("Search", "SearchResult", 404, tag="asking"))
async def search(service: Serving, desk: Desk, body: SearchRequest) -> Response:
    """The chunks that match best; no model writes anything."""
    if not body.text.strip():
        raise UsageError("there is nothing to search for", hint="put it in `q`")
    log_question(body.text)
    # A key's searches take turns, so that other keys do not wait.
    async with service.limits.turn(desk.caller) if desk.caller.id else nullcontext():
        hits = await asyncio.to_thread(desk.search, body.text, k=body.k, method=body.method, **body.scope())
    return reply({"query": body.text, "method": body.method, "hits": [hit_shape(one) for one in hits]})


@router.get("/api/search", **about("Search, with a plain address", "SearchResult", 404, tag="asking"))
async def search_address(
    service: Serving,
    desk: Desk,
    q: Annotated[str, Query(max_length=LONGEST_SEARCH, description="What to look for.", examples=["price list"])],
    k: Annotated[int | None, Query(ge=1, le=MOST_HITS, description="How many; default: `rag.top_k`.")] = None,
    method: Annotated[Method, Query(description="By words, by meaning, or both.")] = "hybrid",
    collection: Annotated[Several, Query(description="Only these and those inside them; repeatable.")] = None,
    document: Annotated[Several, Query(description="Only these, by id or name; repeatable.")] = None,
    kind: Annotated[list[KnownKind] | None, Query(max_length=100, description="Only these kinds; repeatable.")] = None,
    date_from: Annotated[str, Query(max_length=40, description="Only documents of this day or later.")] = "",
    date_to: Annotated[str, Query(max_length=40, description="Only documents of this day or earlier.")] = "",
) -> Response:
    """The same with GET; pages and metadata need POST."""
    fields = {"q": q, "k": k, "method": method, "collection": collection, "document": document, "kind": kind}
    wanted = SearchRequest.model_validate(fields | {"date_from": date_from, "date_to": date_to})
    return await search(service, desk, wanted)


def hit_shape(hit: Hit) -> dict[str, Any]:
    """`Hit`, with the places of its lines and the addresses of its page."""
    document, chunk = hit.document, hit.chunk
    place = f"/api/documents/{document.id}/pages/{hit.page}"
    return hit.to_dict() | {
        "collection": document.collection,
        "title": document.title,
        "date": document.date,
        "lines": [
            {"start": one.start, "end": one.end, "page": one.page, "box": one.box and one.box.to_dict()}
            for one in chunk.spans
        ],
        "page_text": f"{place}/text",
        "page_image": f"{place}/image{_marked(hit)}" if document.format in WITH_IMAGES else None,
        "figure": f"/api/images/{chunk.image}" if chunk.image else None,
    }


def _marked(hit: Hit) -> str:
    """`?boxes=…` that marks its lines on the page; empty if there are too many for an address."""
    boxes = [[one.x, one.y, one.width, one.height] for one in hit.boxes if one.page == hit.page]
    text = orjson.dumps(boxes).decode()
    return f"?boxes={quote(text)}" if 0 < len(boxes) <= MOST_BOXES and len(text) <= LONGEST_BOXES else ""


# Conversations: a caller's own, their messages and titles

Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("/api/conversations", **about("List conversations", "ConversationList", tag="conversations"))
def recent(desk: Desk, limit: Limit = 50) -> Response:
    return reply({"conversations": [one.to_dict() for one in desk.conversations(limit)]})


@router.get("/api/conversations/{conversation_id}", **about("Get a conversation", "Conversation", tag="conversations"))
def conversation(desk: Desk, conversation_id: str) -> Response:
    return reply(desk.conversation(conversation_id).to_dict())


@router.get(
    "/api/conversations/{conversation_id}/messages",
    **about("List the messages of a conversation", "MessageList", tag="conversations"),
)
async def messages(service: Serving, desk: Desk, conversation_id: str, limit: Limit = 200) -> Response:
    """`running` is the question being answered; follow its stream with `Last-Event-ID: STREAM-0`."""
    stream = service.streams.in_conversation(conversation_id, desk.caller.id)

    def read() -> list[dict[str, Any]]:
        if stream is None:
            desk.conversation(conversation_id)
        return [one.to_dict() for one in desk.messages(conversation_id, limit)]

    running = {"stream": stream.id, "question": stream.question} if stream is not None else None
    return reply({"messages": await asyncio.to_thread(read), "running": running})


@router.post(
    "/api/conversations/{conversation_id}/stop",
    **about("Stop the running answer", "Stopped", tag="conversations"),
)
async def stop(service: Serving, caller: Who, conversation_id: str) -> Response:
    """Returns once the text so far is stored; false if nothing was running."""
    stream = service.streams.in_conversation(conversation_id, caller.id)
    if stream is not None:
        await stream.stopped()
    return reply({"stopped": stream is not None})


@router.patch(
    "/api/conversations/{conversation_id}", **about("Rename a conversation", "Conversation", tag="conversations")
)
def rename(desk: Desk, conversation_id: str, body: TitleIn) -> Response:
    return reply(desk.rename_conversation(conversation_id, body.title).to_dict())


@router.delete("/api/conversations/{conversation_id}", **about("Delete a conversation", "Deleted", tag="conversations"))
def delete(desk: Desk, conversation_id: str) -> Response:
    desk.remove_conversation(conversation_id)
    return reply({"deleted": conversation_id})


# Answers, their traces, feedback, and analytics


@router.get("/api/answers", name="recent", **about("List the latest questions", "AskedList", tag="answers"))
def recent_answers(desk: Desk, limit: Limit = 50) -> Response:
    """Your own; admins see everyone's in their collections."""
    return reply({"answers": [one.to_dict() for one in desk.recent_questions(limit)]})


@router.get("/api/answers/{answer_id}", **about("Get an answer", "KeptAnswer", tag="answers"))
def answer(desk: Desk, answer_id: str) -> Response:
    """As it was given, with its feedback."""
    found = desk.answer_kept(answer_id)
    if not found:
        raise NotFound(f"there is no answer '{answer_id}'")
    return reply(answer_shape(answer_from_dict(found)) | {"feedback": desk.feedback_of(answer_id)})


@router.get("/api/traces/{answer_id}", **about("Get the trace of an answer", "Trace", tag="answers"))
def trace(desk: Desk, answer_id: str) -> Response:
    return reply(desk.trace(answer_id))


@router.post("/api/feedback", **about("Give feedback", "Feedback", 404, tag="answers"))
def feedback(desk: Desk, body: FeedbackIn) -> Response:
    return reply(desk.give_feedback(body.answer_id, body.verdict, body.correction))


@router.get("/api/analytics", **about("Usage, latency, cost and accuracy", "Analytics", tag="answers"))
def analytics(desk: Desk, days: Annotated[int, Query(ge=1, le=3650)] = 30) -> Response:
    """Of your own questions; admins see everyone's in their collections."""
    return reply(desk.analytics(days))
