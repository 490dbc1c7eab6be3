"""Imports and background jobs over HTTP."""

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


@router.post("/import", **about("Import chunks made by another program", shapes.ImportedList, 413, 422, 507))
def import_chunks(desk: Desk, service: Serving, body: ImportIn) -> Response:
    """Each chunk needs `doc_id` and `content_raw`; see docs/import.md. Unchanged documents are skipped."""
    collection = desk.place_for(body.collection)
    found = service.desk.import_chunks(body.chunks, collection=collection, metadata=body.metadata)
    return reply({"documents": [_imported(added) for added in found]})


@router.get("/background", **about("List background jobs", shapes.BackgroundList))
def jobs(desk: Desk, service: Serving) -> Response:
    """Waiting, running and finished jobs."""
    desk.require("settings")
    return reply({"jobs": [_job(job) for job in service.desk.background_jobs()]})


@router.get("/background/cost", **about("Estimate the cost of model summaries", shapes.SummaryCost))
def cost(
    desk: Desk,
    service: Serving,
    collection: Annotated[str, Query(max_length=1000, description="Only in this collection")] = "",
    kind: Annotated[
        Literal["summaries", "tree_summaries"], Query(description="Chunks, or the tree's sections and documents")
    ] = "summaries",
) -> Response:
    """Counts chunks, or sections and documents, without a summary; starts nothing."""
    desk.require("settings")
    return reply(_cost(service, kind, collection))


@router.post("/background", **about("Start a background job", shapes.BackgroundJob, 422, status=202))
def start(desk: Desk, service: Serving, body: BackgroundIn) -> Response:
    """`tree` summarises sections, documents and clusters in their own sentences. A model (at a cost) writes
    `summaries` of chunks and `tree_summaries` of sections and documents.
    """
    desk.require("settings")
    if body.kind != "tree":
        _cost(service, body.kind, body.collection)  # says at once that no model is named
    return reply(_job(service.desk.submit_background(body.kind, body.collection)), 202)


@router.delete("/background/{job_id}", **about("Cancel a job or remove a finished one", shapes.Deleted))
def cancel(desk: Desk, service: Serving, job_id: str) -> Response:
    """Results so far are kept."""
    desk.require("settings")
    service.desk.cancel_background(job_id)
    return reply({"deleted": job_id})


def _cost(service: Serving, kind: str, collection: str) -> dict[str, Any]:
    estimate = service.desk.tree_summary_cost if kind == "tree_summaries" else service.desk.summary_cost
    return estimate(collection).to_dict()


def _job(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in SHOWN}


def _imported(added: Added) -> dict[str, Any]:
    document = added.document
    return {
        "name": added.name,
        "outcome": added.outcome,
        "document_id": document.id if document else "",
        "reason": added.reason,
    }
