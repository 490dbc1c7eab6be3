"""Conversations over HTTP: a caller's own, their messages, titles; gone with everything said in them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from refdesk.access import Caller
from refdesk.answer import answer_from_dict
from refdesk.arguments import checked_title
from refdesk.errors import NotFound
from refdesk.serve.http.errors import reply
from refdesk.serve.http.guard import Library, Serving, Who
from refdesk.serve.http.openapi import failures, returns
from refdesk.serve.http.requests import FeedbackIn, TitleIn
from refdesk.serve.http.responses import (
    Analytics,
    AskedList,
    Conversation,
    ConversationList,
    Deleted,
    Feedback,
    MessageList,
    Stopped,
    Trace,
)
from refdesk.serve.http.seeds import answer_shape

router = APIRouter(prefix="/api")
Limit = Annotated[int, Query(ge=1, le=1000)]


def _owner(caller: Caller) -> str | None:
    """A key sees its own; whoever sits at the machine sees all."""
    return caller.id or None


@router.get(
    "/conversations", tags=["conversations"], summary="The last conversations", responses=returns(ConversationList)
)
def recent(desk: Library, caller: Who, limit: Limit = 50) -> Response:
    found = desk.asking.conversations.recent(limit, owner=_owner(caller))
    return reply({"conversations": [one.to_dict() for one in found]})


@router.get(
    "/conversations/{conversation_id}",
    tags=["conversations"],
    summary="One conversation",
    responses=returns(Conversation),
)
def conversation(desk: Library, caller: Who, conversation_id: str) -> Response:
    return reply(desk.asking.conversations.conversation(conversation_id, owner=_owner(caller)).to_dict())


@router.get(
    "/conversations/{conversation_id}/messages",
    tags=["conversations"],
    summary="What was said in it",
    responses=returns(MessageList),
)
async def messages(service: Serving, caller: Who, conversation_id: str, limit: Limit = 200) -> Response:
    """`running` is the question that is being answered; its stream is followed with `Last-Event-ID: STREAM-0`."""
    store, owner = service.desk.asking.conversations, _owner(caller)
    stream = service.streams.in_conversation(conversation_id, caller.id)

    def read() -> list[dict[str, Any]]:
        if stream is None:
            store.conversation(conversation_id, owner=owner)
        return [one.to_dict() for one in store.messages(conversation_id, limit, owner=owner)]

    running = {"stream": stream.id, "question": stream.question} if stream is not None else None
    return reply({"messages": await asyncio.to_thread(read), "running": running})


@router.post(
    "/conversations/{conversation_id}/stop",
    tags=["conversations"],
    summary="Stop the answer that is being written",
    responses=returns(Stopped),
)
async def stop(service: Serving, caller: Who, conversation_id: str) -> Response:
    """Answers when what was written until now is stored in the conversation; false when nothing was being written."""
    stream = service.streams.in_conversation(conversation_id, caller.id)
    if stream is not None:
        await stream.stopped()
    return reply({"stopped": stream is not None})


@router.patch(
    "/conversations/{conversation_id}",
    tags=["conversations"],
    summary="Give it a title",
    responses=returns(Conversation),
)
def rename(desk: Library, caller: Who, conversation_id: str, body: TitleIn) -> Response:
    store, owner = desk.asking.conversations, _owner(caller)
    store.rename(conversation_id, checked_title(body.title), owner=owner)
    return reply(store.conversation(conversation_id, owner=owner).to_dict())


@router.delete(
    "/conversations/{conversation_id}",
    tags=["conversations"],
    summary="Remove it, with its answers",
    responses=returns(Deleted),
)
def delete(desk: Library, caller: Who, conversation_id: str) -> Response:
    desk.asking.conversations.delete(conversation_id, owner=_owner(caller))
    return reply({"deleted": conversation_id})


# Answers that were given, how they came about, what people said of them, and all of it in figures.


@router.get("/answers", name="recent", tags=["answers"], summary="The last questions", responses=returns(AskedList))
def recent_answers(desk: Library, caller: Who, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> Response:
    """A key's own; an admin sees everyone's, as far as his collections reach."""
    found = desk.asking.answers.recent(limit, owner=caller.owner, access=caller.access)
    return reply({"answers": [one.to_dict() for one in found]})


@router.get(
    "/answers/{answer_id}",
    tags=["answers"],
    summary="One answer again",
    responses=returns("KeptAnswer"),
)
def answer(desk: Library, caller: Who, answer_id: str) -> Response:
    """As it was given, and `feedback`: what people said of it."""
    found = desk.asking.answers.get(answer_id, owner=caller.owner, access=caller.access)
    if found is None or not found[0]:
        raise NotFound(f"there is no answer '{answer_id}'")
    said = desk.feedback.of(answer_id, caller=caller)
    return reply(answer_shape(answer_from_dict(found[0])) | {"feedback": said})


@router.get(
    "/traces/{answer_id}",
    tags=["answers"],
    summary="How an answer came about",
    responses=returns(Trace),
)
def trace(desk: Library, caller: Who, answer_id: str) -> Response:
    return reply(desk.trace(answer_id, owner=caller.owner, access=caller.access))


@router.post(
    "/feedback",
    tags=["answers"],
    summary="Say whether an answer was right",
    responses=returns(Feedback) | failures(404),
)
def feedback(desk: Library, caller: Who, body: FeedbackIn) -> Response:
    caller.require("feedback")
    return reply(desk.feedback.give(body.answer_id, body.verdict, body.correction, caller=caller))


@router.get("/analytics", tags=["answers"], summary="Volume, waiting, cost and accuracy", responses=returns(Analytics))
def analytics(desk: Library, caller: Who, days: Annotated[int, Query(ge=1, le=3650)] = 30) -> Response:
    """Of one's own questions; an admin's are everyone's, as far as his collections reach."""
    return reply(desk.analytics(days, access=caller.access, owner=caller.owner))
