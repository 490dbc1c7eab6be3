"""What comes from elsewhere, and what is made of documents, over HTTP: imported chunks, and jobs in the background."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.responses import Response

from refdesk.serve.http import responses as shapes
from refdesk.serve.http.guard import Desk, Serving
from refdesk.serve.http.observe import reply
from refdesk.serve.http.openapi import about
from refdesk.serve.http.requests import BackgroundIn, ImportIn
from refdesk.types import Added, Job

router = APIRouter(prefix="/api", tags=["making"])
SHOWN = ("id", "kind", "status", "collection", "chunks_done", "chunks_total", "reason", "created_at", "updated_at")


@router.post("/import", **about("Import chunks that another program made", shapes.ImportedList, 413, 422, 507))
def import_chunks(desk: Desk, service: Serving, body: ImportIn) -> Response:
    """Each with at least `doc_id` and `content_raw`; see docs/import.md. What is unchanged is left as it is."""
    collection = desk.place_for(body.collection)
    found = service.desk.import_chunks(body.chunks, collection=collection, metadata=body.metadata)
    return reply({"documents": [_imported(one) for one in found]})


@router.get("/background", **about("List jobs in the background", shapes.BackgroundList))
def jobs(desk: Desk, service: Serving) -> Response:
    """Those that wait, run or have ended."""
    desk.require("settings")
    return reply({"jobs": [_job(job) for job in service.desk.background_jobs()]})


@router.get("/background/cost", **about("Tell what summaries by a model would cost", shapes.SummaryCost))
def cost(
    desk: Desk,
    service: Serving,
    collection: Annotated[str, Query(max_length=1000, description="Only of this collection")] = "",
    kind: Annotated[
        Literal["summaries", "tree_summaries"], Query(description="Of chunks, or of the tree's sections and documents")
    ] = "summaries",
) -> Response:
    """Of the chunks, or the sections and documents, that have none yet; nothing is begun."""
    desk.require("settings")
    return reply(_cost(service, kind, collection))


@router.post("/background", **about("Start a job in the background", shapes.BackgroundJob, 422, status=202))
def start(desk: Desk, service: Serving, body: BackgroundIn) -> Response:
    """`tree` sums up sections, documents and clusters in their own sentences. A model is asked, which costs, for
    `summaries` of chunks and `tree_summaries` of sections and documents.
    """
    desk.require("settings")
    if body.kind != "tree":
        _cost(service, body.kind, body.collection)  # says at once that no model is named
    return reply(_job(service.desk.submit_background(body.kind, body.collection)), 202)


@router.delete("/background/{job_id}", **about("Cancel a job, or take an ended one off the list", shapes.Deleted))
def cancel(desk: Desk, service: Serving, job_id: str) -> Response:
    """What it has made stays."""
    desk.require("settings")
    service.desk.cancel_background(job_id)
    return reply({"deleted": job_id})


def _cost(service: Serving, kind: str, collection: str) -> dict[str, Any]:
    own = service.desk.tree_summary_cost if kind == "tree_summaries" else service.desk.summary_cost
    return own(collection).to_dict()


def _job(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in SHOWN}


def _imported(one: Added) -> dict[str, Any]:
    document = one.document
    return {
        "name": one.name,
        "outcome": one.outcome,
        "document_id": document.id if document else "",
        "reason": one.reason,
    }
