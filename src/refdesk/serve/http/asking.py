"""Asking over HTTP: one question, a conversation, a stream of events."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from refdesk.access import Caller
from refdesk.answer import Answer
from refdesk.errors import NotFound, RefdeskError, UsageError
from refdesk.events import Content, Done, Event, Failed, Sources
from refdesk.serve.http.desk import Service, Serving
from refdesk.serve.http.documented import ANSWER, EVENTS, failures, gives
from refdesk.serve.http.guard import Who
from refdesk.serve.http.observe import log_question
from refdesk.serve.http.reply import reply
from refdesk.serve.http.seeds import answer_shape, citation_shape
from refdesk.serve.http.shapes import ChatRequest, QueryRequest
from refdesk.serve.http.sse import EventResponse, Named

router = APIRouter(tags=["asking"])


@router.post("/api/query", summary="Ask one question", responses=ANSWER | failures(404, 502))
async def query(request: Request, service: Serving, caller: Who, body: QueryRequest) -> Response:
    """Answers from the documents, with the keys of `Answer` and those of other systems beside them."""
    answer = await ask_once(request, service, caller, body.text, body.options())
    return reply(answer_shape(answer))


@router.post("/api/query/clear-cache", summary="Forget known answers", responses=gives({"cleared": True}))
def clear_cache(service: Serving, caller: Who) -> Response:
    caller.require("clear_cache")
    service.desk.asking.cache.clear()
    return reply({"cleared": True})


@router.post("/api/chat", summary="Ask in a conversation", responses=ANSWER | failures(404, 502))
async def chat(request: Request, service: Serving, caller: Who, body: ChatRequest) -> Response:
    options = in_conversation(body.options())
    return reply(answer_shape(await ask_once(request, service, caller, body.text, options)))


@router.post("/api/chat/stream", summary="Ask, and hear the answer as it is made", responses=EVENTS | failures(404))
async def chat_stream(request: Request, service: Serving, caller: Who, body: ChatRequest) -> Response:
    """Events: thinking, sources, content, verification, replace, and last done or error. See docs/http.md."""
    if seen := request.headers.get("last-event-id"):
        return EventResponse(*service.streams.find(seen, caller.id))
    options = in_conversation(body.options())
    end = service.limits.begin(caller, service.desk.settings)
    try:
        events = await begin(service, caller, body.text, options)
    except BaseException:
        end()
        raise
    named = named_events(request, service, events)
    return EventResponse(service.streams.begin(caller.id, named, request.state.request_id, end))


# what /v1 shares


async def begin(service: Service, caller: Caller, text: str, options: dict[str, Any]) -> AsyncGenerator[Event, None]:
    """The events of a question of this caller: his collections, his conversations, settings of his own question."""
    caller.require("ask")
    if not text.strip():
        raise UsageError("there is no question", hint="say it in `question` or `message`")
    log_question(text)
    desk = service.desk
    if settings := options.get("settings"):
        desk.settings.for_request(settings)
    if (known := options.get("conversation_id")) and caller.id:
        await asyncio.to_thread(_own_conversation, service, known, caller)
    return desk.ask(text, owner=caller.id, access=caller.access, **options)


def _own_conversation(service: Service, conversation_id: str, caller: Caller) -> None:
    """Said before the work begins: a conversation of someone else is not there."""
    conversations = service.desk.asking.conversations
    try:
        found = conversations.conversation(conversation_id)
    except NotFound:
        return  # it will be begun
    if found.owner != caller.id:
        raise NotFound(f"there is no conversation '{conversation_id}'")


def in_conversation(options: dict[str, Any]) -> dict[str, Any]:
    return options if options.get("conversation_id") else options | {"conversation_id": uuid.uuid4().hex}


async def ask_once(request: Request, service: Service, caller: Caller, text: str, options: dict[str, Any]) -> Answer:
    with service.limits.asking(caller, service.desk.settings):
        events = await begin(service, caller, text, options)
        return await unless_gone(request, _collected(request, service, events))


async def _collected(request: Request, service: Service, events: AsyncGenerator[Event, None]) -> Answer:
    async with aclosing(counted(request, service, events)) as stream:
        async for event in stream:
            if isinstance(event, Failed):
                raise event.error
            if isinstance(event, Done):
                return event.answer
    raise RefdeskError("the stream ended without an answer")


async def unless_gone(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """The work's result; when the client leaves, the work is cancelled."""
    task = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait({task, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise HTTPException(499, "the client left before there was an answer")
        return task.result()
    finally:
        leaving.cancel()
        task.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


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
                    service.figures.failure(event.error.code)
                yield event
    finally:
        service.figures.ended()


async def _spans(request: Request, service: Service, answer_id: str) -> None:
    if service.spans is not None:
        trace = await asyncio.to_thread(service.desk.trace, answer_id)
        service.spans.stages(request.state.span, trace)


async def named_events(
    request: Request, service: Service, events: AsyncGenerator[Event, None]
) -> AsyncGenerator[Named, None]:
    """(name, data) of each event, as seed 004 names them."""
    async with aclosing(counted(request, service, events)) as stream:
        async for event in stream:
            if isinstance(event, Content):  # the one that comes a hundred times
                yield "content", {"token": event.token}
            elif isinstance(event, Sources):
                yield "sources", {"citations": [citation_shape(one) for one in event.citations]}
            elif isinstance(event, Done):
                found = event.answer
                yield "done", {"answer": answer_shape(found), "traceUrl": f"/api/traces/{found.trace_id}"}
            elif isinstance(event, Failed):
                yield "error", event.to_dict()["data"] | {"request_id": request.state.request_id}
            else:
                said = event.to_dict()
                yield said["type"], said["data"]
