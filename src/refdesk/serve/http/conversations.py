"""Conversations over HTTP: a caller's own, their messages, titles; gone with everything said in them."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from refdesk.access import Caller
from refdesk.arguments import checked_title
from refdesk.serve.http.answer_shapes import Conversation, ConversationList, Message, MessageList, Running, Stopped
from refdesk.serve.http.desk import Library, Serving
from refdesk.serve.http.documented import failures, gives
from refdesk.serve.http.guard import Who
from refdesk.serve.http.reply import reply
from refdesk.serve.http.response_shapes import Deleted
from refdesk.serve.http.shapes import TitleIn

router = APIRouter(prefix="/api/conversations", tags=["conversations"])
CONVERSATION: Conversation = {
    "id": "tuesday",
    "title": "When is the price list revised?",
    "owner": "3c9a1f",
    "message_count": 2,
    "created_at": "2026-01-31T09:00:00.000+00:00",
    "updated_at": "2026-01-31T09:00:04.000+00:00",
}
MESSAGE: Message = {
    "key": 1,
    "role": "user",
    "content": "When is the price list revised?",
    "answer_id": "",
    "created_at": "2026-01-31T09:00:00.000+00:00",
}
RUNNING: Running = {"stream": "19a8c1d2e3f4a5b6c7d8e9f", "question": "And what does it cost?"}
Limit = Annotated[int, Query(ge=1, le=1000)]


def _owner(caller: Caller) -> str | None:
    """A key sees its own; whoever sits at the machine sees all."""
    return caller.id or None


@router.get("", summary="The last conversations", responses=gives(ConversationList, {"conversations": [CONVERSATION]}))
def recent(desk: Library, caller: Who, limit: Limit = 50) -> Response:
    found = desk.asking.conversations.recent(limit, owner=_owner(caller))
    return reply({"conversations": [one.to_dict() for one in found]})


@router.get(
    "/{conversation_id}", summary="One conversation", responses=gives(Conversation, CONVERSATION) | failures(404)
)
def conversation(desk: Library, caller: Who, conversation_id: str) -> Response:
    return reply(desk.asking.conversations.conversation(conversation_id, owner=_owner(caller)).to_dict())


@router.get(
    "/{conversation_id}/messages",
    summary="What was said in it",
    responses=gives(MessageList, {"messages": [MESSAGE], "running": RUNNING}) | failures(404),
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
    "/{conversation_id}/stop",
    summary="Stop the answer that is being written",
    responses=gives(Stopped, {"stopped": True}),
)
async def stop(service: Serving, caller: Who, conversation_id: str) -> Response:
    """Answers when what was written until now is stored in the conversation; false when nothing was being written."""
    stream = service.streams.in_conversation(conversation_id, caller.id)
    if stream is not None:
        await stream.stopped()
    return reply({"stopped": stream is not None})


@router.patch(
    "/{conversation_id}", summary="Give it a title", responses=gives(Conversation, CONVERSATION) | failures(404)
)
def rename(desk: Library, caller: Who, conversation_id: str, body: TitleIn) -> Response:
    store, owner = desk.asking.conversations, _owner(caller)
    store.rename(conversation_id, checked_title(body.title), owner=owner)
    return reply(store.conversation(conversation_id, owner=owner).to_dict())


@router.delete(
    "/{conversation_id}",
    summary="Remove it, with its answers",
    responses=gives(Deleted, {"deleted": "tuesday"}) | failures(404),
)
def delete(desk: Library, caller: Who, conversation_id: str) -> Response:
    desk.asking.conversations.delete(conversation_id, owner=_owner(caller))
    return reply({"deleted": conversation_id})
