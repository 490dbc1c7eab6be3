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
from refdesk.serve.http.guard import Who
from refdesk.serve.http.openapi import FEEDBACK, KEPT_ANSWER, failures, gives
from refdesk.serve.http.requests import FeedbackIn, TitleIn
from refdesk.serve.http.responses import (
    Analytics,
    AskedList,
    AskedQuestion,
    Conversation,
    ConversationList,
    Deleted,
    Feedback,
    LookedAt,
    Message,
    MessageList,
    Percentiles,
    Running,
    Stage,
    Stopped,
    Trace,
)
from refdesk.serve.http.seeds import answer_shape
from refdesk.serve.http.service import Library, Serving

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


# Answers that were given, how they came about, what people said of them, and all of it in figures.

traces_router = APIRouter(prefix="/api", tags=["answers"])
ASKED: AskedQuestion = {
    "id": "0f3a9c",
    "question": "When is the price list revised?",
    "conversation_id": "tuesday",
    "owner": "3c9a1f",
    "collections": ["default"],
    "created_at": "2026-01-31T09:00:00.000+00:00",
    "error": "",
}
STAGE: Stage = {
    "name": "retrieve",
    "depth": 0,
    "started_ms": 1.2,
    "took_ms": 12.2,
    "input": {"k": 10},
    "output": {"hits": 10},
    "skipped": "",
    "error": "",
    "cost_usd": 0.0,
}
PASSAGE: LookedAt = {
    "chunk_id": 12,
    "document_id": "b4f2c6d1a0937e55",
    "document_name": "prices.pdf",
    "page": 2,
    "heading_path": ["Prices"],
    "lexical_score": 7.31,
    "cosine": 0.61,
    "score": 0.83,
    "use": "cited",
}
TRACE: Trace = {"id": "0f3a9c", "total_ms": 31.4, "stages": [STAGE], "passages": [PASSAGE]}
WAITED: Percentiles = {"count": 1, "p50_ms": 31.4, "p95_ms": 31.4}
ANALYTICS: Analytics = {
    "days": 1,
    "from": "2026-01-31",
    "to": "2026-01-31",
    "questions": 1,
    "per_day": [
        {
            "day": "2026-01-31",
            "questions": 1,
            "abstained": 0,
            "failed": 0,
            "model_failed": 0,
            "cost_usd": 0.0,
            "cost_unknown": 0,
        },
    ],
    "latency": {"total": WAITED, "not_cached": WAITED, "stages": {"retrieve": WAITED}},
    "cache": {"exact": 0, "semantic": 0, "no": 1, "unknown": 0, "exact_share": 0.0, "semantic_share": 0.0},
    "cost": {"total_usd": 0.0, "unknown": 0},
    "abstentions": {"answered": 1, "abstained": 0, "not_searched": 0, "unknown": 0, "share": 0.0},
    "failures": {"failed": 0, "share": 0.0, "codes": {}},
    "model_failures": {"answers": 0, "share": 0.0, "models": []},
    "confidence": {"high": 1, "medium": 0, "low": 0, "unknown": 0},
    "models": [{"model": "extractive", "questions": 1}],
    "feedback": {"correct": 0, "wrong": 0, "accuracy": None, "by_collection": []},
}


@traces_router.get("/answers", summary="The last questions", responses=gives(AskedList, {"answers": [ASKED]}))
def traces_recent(desk: Library, caller: Who, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> Response:
    """A key's own; an admin sees everyone's, as far as his collections reach."""
    found = desk.asking.answers.recent(limit, owner=caller.owner, access=caller.access)
    return reply({"answers": [one.to_dict() for one in found]})


@traces_router.get("/answers/{answer_id}", summary="One answer again", responses=KEPT_ANSWER | failures(404))
def answer(desk: Library, caller: Who, answer_id: str) -> Response:
    """As it was given, and `feedback`: what people said of it."""
    found = desk.asking.answers.get(answer_id, owner=caller.owner, access=caller.access)
    if found is None or not found[0]:
        raise NotFound(f"there is no answer '{answer_id}'")
    said = desk.feedback.of(answer_id, caller=caller)
    return reply(answer_shape(answer_from_dict(found[0])) | {"feedback": said})


@traces_router.get(
    "/traces/{answer_id}", summary="How an answer came about", responses=gives(Trace, TRACE) | failures(404)
)
def trace(desk: Library, caller: Who, answer_id: str) -> Response:
    return reply(desk.trace(answer_id, owner=caller.owner, access=caller.access))


@traces_router.post(
    "/feedback", summary="Say whether an answer was right", responses=gives(Feedback, FEEDBACK) | failures(404)
)
def feedback(desk: Library, caller: Who, body: FeedbackIn) -> Response:
    caller.require("feedback")
    return reply(desk.feedback.give(body.answer_id, body.verdict, body.correction, caller=caller))


@traces_router.get("/analytics", summary="Volume, waiting, cost and accuracy", responses=gives(Analytics, ANALYTICS))
def analytics(desk: Library, caller: Who, days: Annotated[int, Query(ge=1, le=3650)] = 30) -> Response:
    """Of one's own questions; an admin's are everyone's, as far as his collections reach."""
    return reply(desk.analytics(days, access=caller.access, owner=caller.owner))
