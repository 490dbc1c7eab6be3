"""Is the service alive, and can it answer? And its figures for Prometheus."""

from __future__ import annotations

import os
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from refdesk import __version__
from refdesk.access import Caller
from refdesk.engine import Refdesk
from refdesk.errors import RefdeskError
from refdesk.serve.http.desk import Library, Serving
from refdesk.serve.http.documented import Responses, gives
from refdesk.serve.http.guard import Perhaps, Who
from refdesk.serve.http.measure import CONTENT_TYPE
from refdesk.serve.http.reply import reply

router = APIRouter(tags=["health"])
FIGURES: Responses = {200: {"description": "Figures", "content": {"text/plain": {"schema": {"type": "string"}}}}}


@router.get("/healthz", summary="The process is alive", responses=gives({"status": "ok"}))
async def healthz() -> Response:
    return reply({"status": "ok"})


@router.get(
    "/readyz",
    summary="The library opens and its index is fresh",
    responses=gives({"status": "ready"}) | gives({"status": "not ready"}, 503, "It cannot answer now"),
)
def readyz(desk: Library, caller: Perhaps) -> Response:
    """Details are for admins of the whole library."""
    try:
        standing = desk.reader.refresh()
    except RefdeskError as error:
        return reply({"status": "not ready"} | _details(caller, {"reason": error.sentence}), 503)
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
