"""Administration over HTTP: keys and sign-ins, settings, models, health and metrics, imports and background jobs."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

from refdesk import __version__
from refdesk.errors import NotSignedIn, RefdeskError, UsageError
from refdesk.records import Caller
from refdesk.serve.http import responses as shapes
from refdesk.serve.http.guard import COOKIE, Desk, Perhaps, Serving, is_counted
from refdesk.serve.http.observe import CONTENT_TYPE, ServerStopping, reply
from refdesk.serve.http.openapi import Responses, about, returns
from refdesk.serve.http.requests import (
    BackgroundIn,
    ConnectIn,
    ImportIn,
    KeyChange,
    KeyIn,
    ModelIn,
    PresetIn,
    ProviderIn,
    SessionIn,
)
from refdesk.types import Added, Job

access_routes = APIRouter(prefix="/api", tags=["access"])
settings_routes = APIRouter(prefix="/api", tags=["settings"])
health_routes = APIRouter(tags=["health"])
making_routes = APIRouter(prefix="/api", tags=["making"])
ROUTERS = (access_routes, settings_routes, health_routes, making_routes)


@access_routes.get("/keys", **about("List the keys", shapes.KeyList))
def keys(desk: Desk) -> Response:
    return reply({"keys": desk.keys.list()})


@access_routes.post("/keys", **about("Create a key", shapes.NewKey, status=201))
def add_key(desk: Desk, body: KeyIn) -> Response:
    """The secret is returned only once."""
    keys = desk.keys
    if body.collections == []:  # a program that found none to name does not mean all of them
        raise UsageError("a key without collections gives no access", hint="leave `collections` out for all of them")
    if not keys.exist() and (body.role != "admin" or body.collections is not None):
        message = "the first key must be an admin key for all collections"
        raise UsageError(message, hint="from then on the library needs a key, and only an admin can create more")
    key, secret = keys.add(body.name, body.role, body.collections)
    return reply({"key": key, "secret": secret}, 201)


@access_routes.patch("/keys/{key_id}", **about("Change a key", shapes.ChangedKey))
def change_key(desk: Desk, key_id: str, body: KeyChange) -> Response:
    """Its name, role or collections (`null`: all). Applies immediately, also to existing sign-ins.

    Its secret stays the same, and so do the holder's conversations and answers.
    """
    every = "collections" in body.model_fields_set and body.collections is None
    return reply({"key": desk.keys.change(key_id, **body.model_dump(), every_collection=every)})


@access_routes.delete("/keys/{key_id}", **about("Revoke a key", shapes.RevokedKey))
def revoke_key(desk: Desk, key_id: str) -> Response:
    """The key and all sign-ins made with it stop working immediately."""
    return reply({"revoked": desk.keys.revoke(key_id)})


@access_routes.post("/session", **about("Sign in with a key", shapes.Me))
def sign_in(request: Request, service: Serving, body: SessionIn) -> Response:
    """Sets a cookie (HttpOnly, SameSite)."""
    desk = service.desk
    caller = desk.keys.verify(body.key)
    if caller is None:
        raise NotSignedIn("unknown key")
    if is_counted(caller, request.url.path):  # the guard did not know yet whose request it is
        service.limits.count(caller, desk.settings)
    if known := request.cookies.get(COOKIE):
        desk.sessions.end(known)
    token, seconds = desk.sessions.begin(caller)
    answer = me(desk.for_caller(caller))
    answer.set_cookie(
        COOKIE, token, max_age=seconds, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return answer


@access_routes.delete("/session", **about("Sign out", shapes.SignedOut))
def sign_out(request: Request, service: Serving) -> Response:
    if token := request.cookies.get(COOKIE):
        service.desk.sessions.end(token)
    answer = reply({"signed_in": False})
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return answer


@access_routes.get("/me", **about("Get the caller's identity and permissions", shapes.Me))
def me(desk: Desk) -> Response:
    caller = desk.caller
    may = {name: caller.may(name) for name in shapes.RIGHTS}
    return reply(
        asdict(caller)
        | {
            "signed_in": bool(caller.id),
            "may": may,
            "model": desk.has_model,
            "models": desk.allowed_models(),
            "sees": desk.has_sight,
        }
    )


# Settings and presets, for admins

Check = Annotated[bool, Query(description="Check models with their provider first.")]
Values = Annotated[
    dict[str, bool | int | float | str], Body(examples=[{"rag.top_k": 5}], description="Setting names and new values.")
]


@settings_routes.get("/settings", **about("List the settings", shapes.SettingList))
def settings(desk: Desk) -> Response:
    listed = desk.list_settings()
    return reply({"settings": listed, "presets": desk.presets(), "notes": list(desk.settings_notes)})


@settings_routes.patch("/settings", **about("Change settings", shapes.SettingList))
async def change(desk: Desk, values: Values, check: Check = True) -> Response:
    """Changes all of them or none. Models are checked with their provider first unless `check=false`."""
    await desk.check_settings(values, online=check)
    await asyncio.to_thread(desk.change_settings, values)
    return await asyncio.to_thread(settings, desk)


@settings_routes.post("/settings/preset", **about("Apply a preset", shapes.SettingList))
def preset(desk: Desk, body: PresetIn) -> Response:
    desk.use_preset(body.name)
    return settings(desk)


@settings_routes.delete("/settings/{name}", **about("Reset a setting", shapes.SettingList))
def reset(desk: Desk, name: str) -> Response:
    desk.reset_settings(name)
    return settings(desk)


# Connecting a model, for admins: the address and key of its provider


@settings_routes.get("/models", **about("Get models and providers", shapes.ModelState))
def models(desk: Desk) -> Response:
    return reply(desk.model_state())


@settings_routes.post("/models/list", **about("List a provider's models", shapes.ModelNames))
async def list_models(desk: Desk, body: ProviderIn) -> Response:
    """Uses the saved address and key unless others are given."""
    found = await desk.list_models(body.provider, body.base_url, body.api_key)
    return reply({"models": found or [], "is_listed": found is not None})


@settings_routes.post("/models/connect", **about("Connect a model", shapes.ModelState))
async def connect(desk: Desk, body: ConnectIn) -> Response:
    """Saves a provider's address, key and model if the model answers a test question."""
    entered = (body.provider, body.model, body.base_url, body.api_key)
    connection = await desk.connect_model(*entered, role=body.role, check=body.check)
    await asyncio.to_thread(connection.save)
    return await asyncio.to_thread(models, desk)


@settings_routes.delete("/models/providers/{name}", **about("Delete a provider's address and key", shapes.ModelState))
def forget(desk: Desk, name: str) -> Response:
    desk.forget_provider(name)
    return models(desk)


@settings_routes.post("/models/test", **about("Test a model", shapes.ModelReply, 502))
async def test_model(desk: Desk, body: ModelIn) -> Response:
    """Asks the model about a passage. If it answers, it is used again even if it failed before."""
    return reply(await desk.test_model(body.model, body.base_url, body.api_key))


# Health and metrics

logger = logging.getLogger("refdesk.http")
EXAMPLE = 'refdesk_requests_total{method="POST",route="/api/query",status="200"} 12.0\n'
FIGURES: Responses = {
    200: {"description": "Figures", "content": {"text/plain": {"schema": {"type": "string"}, "example": EXAMPLE}}}
}


# Some watchers ask with HEAD.
@health_routes.head("/healthz", include_in_schema=False)
@health_routes.get("/healthz", **about("Is the process alive?", shapes.Health))
async def healthz() -> Response:
    return reply({"status": "ok"})


@health_routes.head("/readyz", include_in_schema=False)
@health_routes.get(
    "/readyz",
    summary="Is the service ready?",
    responses=returns(shapes.Readiness) | returns(shapes.Readiness, 503, "Not ready"),
)
def readyz(service: Serving, caller: Perhaps) -> Response:
    """Details are for admins of the whole library. `degraded` lists optional parts that are unavailable."""
    desk = service.desk
    try:
        if service.streams.is_stopping:
            raise ServerStopping
        state = desk.refresh()
    except Exception as error:  # whatever it is: it cannot answer
        reason = error.sentence if isinstance(error, RefdeskError) else f"the database does not answer: {error}"
        logger.warning("not ready: %s", reason)
        return reply({"status": "not ready"} | _details(caller, {"reason": reason}), 503)
    found: dict[str, Any] = {"version": __version__, "chunks": desk.chunk_count, "process": os.getpid()}
    found["generation"] = state.generation
    away: dict[str, str] = {}  # questions are answered all the same
    if desk.redis is not None and not desk.redis.is_there():
        away["redis"] = desk.redis.problem
    if problem := desk.files_problem():
        away["files"] = problem
    ready: dict[str, Any] = {"status": "ready"} | ({"degraded": list(away)} if away else {})
    return reply(ready | _details(caller, found | away))


def _details(caller: Caller | None, details: dict[str, Any]) -> dict[str, Any]:
    return details if caller is not None and caller.may("settings") else {}


@health_routes.get("/metrics", summary="Metrics for Prometheus", responses=FIGURES)
def metrics(service: Serving, desk: Desk) -> Response:
    desk.require("analytics")
    service.figures.waiting.set(service.desk.jobs.waiting())
    return Response(service.figures.text(), media_type=CONTENT_TYPE)


# --- imports and background jobs --------------------------------------------------------------------------------------


SHOWN = ("id", "kind", "status", "collection", "chunks_done", "chunks_total", "reason", "created_at", "updated_at")


@making_routes.post("/import", **about("Import chunks made by another program", shapes.ImportedList, 413, 422, 507))
def import_chunks(desk: Desk, service: Serving, body: ImportIn) -> Response:
    """Each chunk needs `doc_id` and `content_raw`; see docs/import.md. Unchanged documents are skipped."""
    collection = desk.place_for(body.collection)
    found = service.desk.import_chunks(body.chunks, collection=collection, metadata=body.metadata)
    return reply({"documents": [_imported(added) for added in found]})


@making_routes.get("/background", **about("List background jobs", shapes.BackgroundList))
def jobs(desk: Desk, service: Serving) -> Response:
    """Waiting, running and finished jobs."""
    desk.require("settings")
    return reply({"jobs": [_job(job) for job in service.desk.background_jobs()]})


@making_routes.get("/background/cost", **about("Estimate the cost of a job for a model", shapes.SummaryCost))
def cost(
    desk: Desk,
    service: Serving,
    collection: Annotated[str, Query(max_length=1000, description="Only in this collection")] = "",
    kind: Annotated[
        Literal["summaries", "tree_summaries", "graph"],
        Query(description="Summaries of chunks, or of the tree's sections and documents, or names and relations"),
    ] = "summaries",
) -> Response:
    """Counts chunks, or sections and documents, that no model has read for this yet; starts nothing."""
    desk.require("settings")
    return reply(_cost(service, kind, collection))


@making_routes.post("/background", **about("Start a background job", shapes.BackgroundJob, 422, status=202))
def start(desk: Desk, service: Serving, body: BackgroundIn) -> Response:
    """`tree` summarises sections, documents and clusters in their own sentences. A model (at a cost) writes
    `summaries` of chunks and `tree_summaries` of sections and documents, and finds names and relations (`graph`).
    """
    desk.require("settings")
    if body.kind != "tree":
        _cost(service, body.kind, body.collection)  # says at once that no model is named
    return reply(_job(service.desk.submit_background(body.kind, body.collection)), 202)


@making_routes.delete("/background/{job_id}", **about("Cancel a job or remove a finished one", shapes.Deleted))
def cancel(desk: Desk, service: Serving, job_id: str) -> Response:
    """Results so far are kept."""
    desk.require("settings")
    service.desk.cancel_background(job_id)
    return reply({"deleted": job_id})


def _cost(service: Serving, kind: str, collection: str) -> dict[str, Any]:
    desk = service.desk
    estimates = {"tree_summaries": desk.tree_summary_cost, "graph": desk.graph_cost}
    return estimates.get(kind, desk.summary_cost)(collection).to_dict()


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
