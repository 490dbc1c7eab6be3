"""Is the service alive, and can it answer? And its figures for Prometheus."""

from __future__ import annotations

import logging
import os
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from refdesk import __version__
from refdesk.access import Caller
from refdesk.desk import Refdesk
from refdesk.errors import RefdeskError
from refdesk.serve.http.errors import ServerStopping, reply
from refdesk.serve.http.guard import Perhaps, Who
from refdesk.serve.http.observe import CONTENT_TYPE
from refdesk.serve.http.openapi import Responses, gives
from refdesk.serve.http.responses import Health, Readiness
from refdesk.serve.http.service import Serving

router = APIRouter(tags=["health"])
logger = logging.getLogger("refdesk.http")
EXAMPLE = 'refdesk_requests_total{method="POST",route="/api/query",status="200"} 12.0\n'
FIGURES: Responses = {
    200: {"description": "Figures", "content": {"text/plain": {"schema": {"type": "string"}, "example": EXAMPLE}}}
}


# Some watchers ask with HEAD.
@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", summary="The process is alive", responses=gives(Health, {"status": "ok"}))
async def healthz() -> Response:
    return reply({"status": "ok"})


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    summary="The library opens and its index is fresh",
    responses=gives(Readiness, {"status": "ready"})
    | gives(Readiness, {"status": "not ready"}, 503, "It cannot answer now"),
)
def readyz(service: Serving, caller: Perhaps) -> Response:
    """Details are for admins of the whole library."""
    desk = service.desk
    try:
        if service.streams.is_stopping:
            raise ServerStopping
        desk.catalogue.check()
        standing = desk.reader.refresh()
    except Exception as error:  # whatever it is: it cannot answer
        said = error.sentence if isinstance(error, RefdeskError) else f"the database does not answer: {error}"
        logger.warning("not ready: %s", said)
        return reply({"status": "not ready"} | _details(caller, {"reason": said}), 503)
    return reply({"status": "ready"} | _details(caller, _library(desk) | {"generation": standing.generation}))


def _details(caller: Caller | None, details: dict[str, Any]) -> dict[str, Any]:
    return details if caller is not None and caller.may("settings") else {}


def _library(desk: Refdesk) -> dict[str, Any]:
    return {"version": __version__, "chunks": desk.reader.chunk_count, "process": os.getpid()}


@router.get(
    "/metrics",
    summary="Figures for Prometheus",
    responses=FIGURES,
)
def metrics(service: Serving, caller: Who) -> Response:
    caller.require("analytics")
    return Response(service.figures.text(), media_type=CONTENT_TYPE)
