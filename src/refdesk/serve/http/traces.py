"""Answers that were given, how they came about, what people said of them, and all of it in figures."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from refdesk.answer_codec import answer_from_dict
from refdesk.errors import NotFound
from refdesk.serve.http.answer_shapes import AskedList, AskedQuestion, Feedback, LookedAt, Stage, Trace
from refdesk.serve.http.desk import Library
from refdesk.serve.http.documented import failures, gives
from refdesk.serve.http.documented_answers import FEEDBACK, KEPT_ANSWER
from refdesk.serve.http.guard import Who
from refdesk.serve.http.reply import reply
from refdesk.serve.http.response_shapes import Analytics, Percentiles
from refdesk.serve.http.seeds import answer_shape
from refdesk.serve.http.shapes import FeedbackIn

router = APIRouter(prefix="/api", tags=["answers"])
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


@router.get("/answers", summary="The last questions", responses=gives(AskedList, {"answers": [ASKED]}))
def recent(desk: Library, caller: Who, limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> Response:
    """A key's own; an admin sees everyone's, as far as his collections reach."""
    found = desk.asking.answers.recent(limit, owner=caller.owner, access=caller.access)
    return reply({"answers": [one.to_dict() for one in found]})


@router.get("/answers/{answer_id}", summary="One answer again", responses=KEPT_ANSWER | failures(404))
def answer(desk: Library, caller: Who, answer_id: str) -> Response:
    """As it was given, and `feedback`: what people said of it."""
    found = desk.asking.answers.get(answer_id, owner=caller.owner, access=caller.access)
    if found is None or not found[0]:
        raise NotFound(f"there is no answer '{answer_id}'")
    said = desk.feedback.of(answer_id, caller=caller)
    return reply(answer_shape(answer_from_dict(found[0])) | {"feedback": said})


@router.get("/traces/{answer_id}", summary="How an answer came about", responses=gives(Trace, TRACE) | failures(404))
def trace(desk: Library, caller: Who, answer_id: str) -> Response:
    return reply(desk.trace(answer_id, owner=caller.owner, access=caller.access))


@router.post(
    "/feedback", summary="Say whether an answer was right", responses=gives(Feedback, FEEDBACK) | failures(404)
)
def feedback(desk: Library, caller: Who, body: FeedbackIn) -> Response:
    caller.require("feedback")
    return reply(desk.feedback.give(body.answer_id, body.verdict, body.correction, caller=caller))


@router.get("/analytics", summary="Volume, waiting, cost and accuracy", responses=gives(Analytics, ANALYTICS))
def analytics(desk: Library, caller: Who, days: Annotated[int, Query(ge=1, le=3650)] = 30) -> Response:
    """Of one's own questions; an admin's are everyone's, as far as his collections reach."""
    return reply(desk.analytics(days, access=caller.access, owner=caller.owner))
