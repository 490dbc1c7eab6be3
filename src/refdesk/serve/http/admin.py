"""Managing over HTTP: keys and sign-ins, settings, models, health and metrics."""

from __future__ import annotations

import asyncio
import logging
import os
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from starlette.responses import Response

from refdesk import __version__
from refdesk.access import Caller
from refdesk.config import IN_SETTINGS, Entered
from refdesk.desk import Refdesk
from refdesk.errors import NotFound, NotSignedIn, RefdeskError, UsageError
from refdesk.models import PROVIDERS, Provider
from refdesk.serve.http.errors import ServerStopping, reply
from refdesk.serve.http.guard import COOKIE, Library, Perhaps, Serving, Who, is_counted
from refdesk.serve.http.observe import CONTENT_TYPE
from refdesk.serve.http.openapi import Responses, about, returns
from refdesk.serve.http.requests import ConnectIn, KeyChange, KeyIn, ModelIn, PresetIn, ProviderIn, SessionIn
from refdesk.serve.http.responses import RIGHTS
from refdesk.settings import PRESETS, specs
from refdesk.trace import in_thread

router = APIRouter()


@router.get("/api/keys", **about("List the keys", "KeyList", tag="access"))
def keys(desk: Library, caller: Who) -> Response:
    caller.require("keys")
    return reply({"keys": [one.to_dict() for one in desk.keys.list()]})


@router.post("/api/keys", **about("Create a key", "NewKey", tag="access", status=201))
def add_key(desk: Library, caller: Who, body: KeyIn) -> Response:
    """The secret is returned only once."""
    caller.require("keys")
    if body.collections == []:  # a program that found none to name does not mean all of them
        raise UsageError("a key without collections opens nothing", hint="leave `collections` out for all of them")
    if not desk.keys.exist() and (body.role != "admin" or body.collections is not None):
        message = "the first key must be an admin's, for all collections"
        raise UsageError(message, hint="it closes the library, and only an admin can create more keys")
    key, secret = desk.keys.add(body.name, body.role, body.collections)
    return reply({"key": key.to_dict(), "secret": secret}, 201)


@router.patch("/api/keys/{key_id}", **about("Change a key", "ChangedKey", tag="access"))
def change_key(desk: Library, caller: Who, key_id: str, body: KeyChange) -> Response:
    """Its name, role or collections (`null`: all). Applies at once, also to running sign-ins.

    Its secret stays the same, and so do the holder's conversations and answers.
    """
    caller.require("keys")
    every = "collections" in body.model_fields_set and body.collections is None
    fields = body.model_dump()
    key = desk.keys.change(key_id, **fields, every_collection=every, keep_owner=True)
    return reply({"key": key.to_dict()})


@router.delete("/api/keys/{key_id}", **about("Revoke a key", "RevokedKey", tag="access"))
def revoke_key(desk: Library, caller: Who, key_id: str) -> Response:
    """It stops working at once, and so do sign-ins made with it."""
    caller.require("keys")
    return reply({"revoked": desk.keys.revoke(key_id, keep_owner=True).to_dict()})


@router.post("/api/session", **about("Sign in with a key", "Me", tag="access"))
async def sign_in(request: Request, service: Serving, body: SessionIn) -> Response:
    """Sets a cookie that no script can read and no other site can send."""
    desk = service.desk
    caller = await in_thread(desk.keys.verify, body.key)
    if caller is None:
        raise NotSignedIn("this key is not known")
    if is_counted(caller, request.url.path):  # the guard did not know yet whose request it is
        service.limits.count(caller, await in_thread(lambda: desk.settings))
    if known := request.cookies.get(COOKIE):
        await in_thread(desk.sessions.end, known)
    token, seconds = await in_thread(desk.sessions.begin, caller)
    answer = reply(await in_thread(_me, desk, caller))
    answer.set_cookie(
        COOKIE, token, max_age=seconds, httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )
    return answer


@router.delete("/api/session", **about("Sign out", "SignedOut", tag="access"))
def sign_out(request: Request, desk: Library) -> Response:
    if token := request.cookies.get(COOKIE):
        desk.sessions.end(token)
    answer = reply({"signed_in": False})
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return answer


@router.get("/api/me", **about("Who am I, and what may I do?", "Me", tag="access"))
def me(desk: Library, caller: Who) -> Response:
    return reply(_me(desk, caller))


def _me(desk: Refdesk, caller: Caller) -> dict[str, Any]:
    allowed = None if caller.collections is None else list(caller.collections)
    own = {"id": caller.id, "name": caller.name, "role": caller.role, "collections": allowed}
    may = {name: caller.may(name) for name in RIGHTS}
    return own | {"signed_in": bool(caller.id), "may": may, "model": desk.models.is_answering(desk.settings)}


# Settings and presets, for admins

SPEC = ("name", "section", "default", "help", "allowed", "minimum", "maximum", "per_request")
Check = Annotated[bool, Query(description="Whether to check models with their provider.")]
Values = Annotated[
    dict[str, bool | int | float | str], Body(examples=[{"rag.top_k": 5}], description="Names and their new values.")
]


@router.get("/api/settings", **about("List the settings", "SettingList", tag="settings"))
def settings(desk: Library, caller: Who) -> Response:
    caller.require("settings")
    return reply(listed(desk))


@router.patch("/api/settings", **about("Change settings", "SettingList", tag="settings"))
async def change(desk: Library, caller: Who, values: Values, check: Check = True) -> Response:
    """All or none. A model is checked with its provider first; `check=false` skips that."""
    caller.require("settings")
    current = await asyncio.to_thread(lambda: desk.settings)
    await desk.models.check_settings(values, current.changed(values), online=check)
    await asyncio.to_thread(desk.settings_store.change, values)
    return reply(await asyncio.to_thread(listed, desk))


@router.post("/api/settings/preset", **about("Apply a preset", "SettingList", tag="settings"))
def preset(desk: Library, caller: Who, body: PresetIn) -> Response:
    caller.require("settings")
    desk.settings_store.use_preset(body.name)
    return reply(listed(desk))


@router.delete("/api/settings/{name}", **about("Reset a setting", "SettingList", tag="settings"))
def reset(desk: Library, caller: Who, name: str) -> Response:
    caller.require("settings")
    desk.settings_store.reset(name)
    return reply(listed(desk))


def listed(desk: Refdesk) -> dict[str, Any]:
    """Each setting as it is now, where that comes from, and what it may be."""
    values = {name: value for name, value, _ in desk.settings.items()}
    places = dict.fromkeys(desk.config.settings, "refdesk.toml") | dict.fromkeys(desk.settings_store.load(), "library")
    rows = [
        {name: getattr(spec, name) for name in SPEC}
        | {
            "value": values[spec.name],
            "changed": values[spec.name] != spec.default,
            "from": places.get(spec.name, "default" if values[spec.name] == spec.default else "program"),
            "choices": list(spec.choices),
            "kind": type(spec.default).__name__,
        }
        for spec in specs()
    ]
    presets = {name: dict(preset) for name, preset in PRESETS.items()}
    return {"settings": rows, "presets": presets, "notes": list(desk.settings_store.notes)}


# Connecting a model, for admins: the address and key of its provider

SHOWN_OF_KEY = 4
LONG_KEY = 16  # characters; of a shorter one, four are too many to show


@router.get("/api/models", **about("The model and the providers", "ModelState", tag="settings"))
def models(desk: Library, caller: Who) -> Response:
    caller.require("settings")
    return reply(_state(desk))


@router.post("/api/models/list", **about("List a provider's models", "ModelNames", tag="settings"))
async def list_models(desk: Library, caller: Who, body: ProviderIn) -> Response:
    """With the saved address and key, or with others."""
    caller.require("settings")
    _require_enabled(desk)
    provider = _provider(body.provider)
    found = await desk.models.listed(provider, _entered(desk, provider, body.base_url, body.api_key))
    return reply({"models": found or [], "is_listed": found is not None})


@router.post("/api/models/connect", **about("Connect a model", "ModelState", tag="settings"))
async def connect(desk: Library, caller: Who, body: ConnectIn) -> Response:
    """Saves a provider's address and key, and a model, if the provider accepts the key and lists the model."""
    caller.require("settings")
    _require_enabled(desk)
    provider, model = _provider(body.provider), body.model.strip()
    name = f"{provider.name}:{model}"
    entered = _entered(desk, provider, body.base_url, body.api_key)
    await desk.models.check(provider, model, entered, online=body.check)

    def save() -> dict[str, Any]:
        desk.models.enter(provider, entered)
        if model:
            desk.settings_store.change({"llm.answer": name})
        return _state(desk)

    return reply(await asyncio.to_thread(save))


@router.delete(
    "/api/models/providers/{name}",
    **about("Forget a provider's address and key", "ModelState", tag="settings"),
)
def forget(desk: Library, caller: Who, name: str) -> Response:
    caller.require("settings")
    desk.models.enter(_provider(name), Entered())
    return reply(_state(desk))


@router.post("/api/models/test", **about("Test a model", "ModelReply", 502, tag="settings"))
async def test_model(desk: Library, caller: Who, body: ModelIn) -> Response:
    """Asks it for one word. If it answers, it is used again even after failures."""
    caller.require("settings")
    provider = PROVIDERS.get(body.model.partition(":")[0].strip())
    entered = _entered(desk, provider, body.base_url, body.api_key) if provider else None
    return reply(await desk.models.test(body.model, desk.settings, entered))


def _provider(name: str) -> Provider:
    if name not in PROVIDERS:
        raise NotFound(f"there is no provider '{name}'", hint=f"use one of {', '.join(PROVIDERS)}")
    return PROVIDERS[name]


def _require_enabled(desk: Refdesk) -> None:
    if not desk.settings.llm_enabled:
        raise UsageError("models are switched off", hint="set llm.enabled to true first")


def _entered(desk: Refdesk, provider: Provider, base_url: str | None, api_key: str | None) -> Entered:
    """What is saved with what was said now; a saved key goes to the address it was saved for and to no other."""
    known = desk.models.entered(provider)
    address = known.base_url if base_url is None else base_url.strip()
    if address.rstrip("/") == provider.base_url:
        address = ""
    kept = known.api_key if address == known.base_url else ""
    return replace(known, base_url=address, api_key=kept if api_key is None else api_key.strip())


def _state(desk: Refdesk) -> dict[str, Any]:
    settings = desk.settings
    return {
        "answer": desk.models.answering(settings),
        "enabled": settings.llm_enabled,
        "providers": [_shown(desk, provider) for provider in PROVIDERS.values()],
        "problems": list(desk.models.problems(settings)),
    }


def _shown(desk: Refdesk, provider: Provider) -> dict[str, Any]:
    known = desk.models.entered(provider)
    try:
        access = desk.config.access(provider, known)
        base_url, key, variable = access.base_url, access.api_key, access.key_variable
    except UsageError:  # no key yet, or an address that is none
        base_url, key, variable = known.base_url or provider.base_url, "", ""
    is_own = base_url == provider.base_url
    return {
        "name": provider.name,
        "base_url": base_url,
        "default_base_url": provider.base_url,
        "address_from": "settings" if known.base_url else "provider" if is_own else "environment",
        "needs_key": provider.needs_key,
        "key": ("…" + key[-SHOWN_OF_KEY:] if len(key) >= LONG_KEY else "…") if key else "",
        "key_from": "" if not key else "settings" if variable == IN_SETTINGS else "environment",
    }


# Health and metrics

logger = logging.getLogger("refdesk.http")
EXAMPLE = 'refdesk_requests_total{method="POST",route="/api/query",status="200"} 12.0\n'
FIGURES: Responses = {
    200: {"description": "Figures", "content": {"text/plain": {"schema": {"type": "string"}, "example": EXAMPLE}}}
}


# Some watchers ask with HEAD.
@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", **about("Is the process alive?", "Health", tag="health"))
async def healthz() -> Response:
    return reply({"status": "ok"})


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    tags=["health"],
    summary="Can it answer?",
    responses=returns("Readiness") | returns("Readiness", 503, "It cannot answer now"),
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
        reason = error.sentence if isinstance(error, RefdeskError) else f"the database does not answer: {error}"
        logger.warning("not ready: %s", reason)
        return reply({"status": "not ready"} | _details(caller, {"reason": reason}), 503)
    return reply({"status": "ready"} | _details(caller, _library(desk) | {"generation": standing.generation}))


def _details(caller: Caller | None, details: dict[str, Any]) -> dict[str, Any]:
    return details if caller is not None and caller.may("settings") else {}


def _library(desk: Refdesk) -> dict[str, Any]:
    return {"version": __version__, "chunks": desk.reader.chunk_count, "process": os.getpid()}


@router.get(
    "/metrics",
    tags=["health"],
    summary="Metrics for Prometheus",
    responses=FIGURES,
)
def metrics(service: Serving, caller: Who) -> Response:
    caller.require("analytics")
    return Response(service.figures.text(), media_type=CONTENT_TYPE)
