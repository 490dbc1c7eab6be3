"""Connecting a model over HTTP, for admins: its provider's address and key, the names it lists, a word from it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from refdesk.config import IN_SETTINGS, Config, Entered
from refdesk.engine import Refdesk
from refdesk.errors import NotFound, UsageError
from refdesk.models import PROVIDERS, Provider
from refdesk.providers import CHECK_S, answering, check_model, entered_for, listed_by, make_model, save_entered
from refdesk.serve.http.desk import Library
from refdesk.serve.http.documented import failures, gives
from refdesk.serve.http.guard import Who
from refdesk.serve.http.reply import reply
from refdesk.serve.http.response_shapes import ModelNames, ModelReply, ModelState, ProviderState
from refdesk.serve.http.shapes import ConnectIn, ModelIn, ProviderIn

router = APIRouter(prefix="/api/models", tags=["settings"])
PROVIDER: ProviderState = {
    "name": "openai",
    "base_url": "https://api.openai.com/v1",
    "default_base_url": "https://api.openai.com/v1",
    "address_from": "provider",
    "needs_key": True,
    "key": "…4f2a",
    "key_from": "settings",
}
STATE: ModelState = {"answer": "openai:gpt-4o-mini", "enabled": True, "providers": [PROVIDER], "problems": []}
SHOWN_OF_KEY = 4
LONG_KEY = 16  # characters; of a shorter one, four are too many to show


@router.get("", summary="Which model writes, and which providers are known", responses=gives(ModelState, STATE))
def models(desk: Library, caller: Who) -> Response:
    caller.require("settings")
    return reply(_state(desk))


@router.post(
    "/list", summary="The models of a provider", responses=gives(ModelNames, {"models": ["gpt-4o"], "is_listed": True})
)
async def list_models(desk: Library, caller: Who, body: ProviderIn) -> Response:
    """As it is saved, or at an address and with a key that are not saved yet."""
    caller.require("settings")
    _require_enabled(desk)
    provider = _provider(body.provider)
    found = await listed_by(provider, desk.config, _entered(desk.config, provider, body.base_url, body.api_key))
    return reply({"models": found or [], "is_listed": found is not None})


@router.post("/connect", summary="Save a provider's address and key, and a model", responses=gives(ModelState, STATE))
async def connect(desk: Library, caller: Who, body: ConnectIn) -> Response:
    """Nothing is saved when the provider cannot be reached, refuses the key or does not list the model."""
    caller.require("settings")
    _require_enabled(desk)
    provider, model = _provider(body.provider), body.model.strip()
    name = f"{provider.name}:{model}"
    entered = _entered(desk.config, provider, body.base_url, body.api_key)
    make_model(f"{provider.name}:{model or 'any'}", desk.config, CHECK_S, entered)  # says what is missing or malformed
    if body.check and model:
        await check_model(name, desk.config, entered)
    elif body.check:
        await listed_by(provider, desk.config, entered)

    def save() -> dict[str, Any]:
        save_entered(provider, entered, desk.config)
        if model:
            desk.settings_store.change({"llm.answer": name})
        return _state(desk)

    return reply(await asyncio.to_thread(save))


@router.delete(
    "/providers/{name}",
    summary="Forget the address and key that were entered for a provider",
    responses=gives(ModelState, STATE) | failures(404),
)
def forget(desk: Library, caller: Who, name: str) -> Response:
    caller.require("settings")
    save_entered(_provider(name), Entered(), desk.config)
    return reply(_state(desk))


@router.post(
    "/test",
    summary="Ask a model for one word",
    responses=gives(ModelReply, {"model": "ollama:qwen2.5:14b", "reply": "Ready", "ms": 412.0}) | failures(502),
)
async def test_model(desk: Library, caller: Who, body: ModelIn) -> Response:
    """Also one that is being skipped after failures; when it answers, it is asked again from now on."""
    caller.require("settings")
    provider = PROVIDERS.get(body.model.partition(":")[0].strip())
    entered = _entered(desk.config, provider, body.base_url, body.api_key) if provider else None
    return reply(await desk.asking.test_model(body.model, desk.settings, entered))


def _provider(name: str) -> Provider:
    if name not in PROVIDERS:
        raise NotFound(f"there is no provider '{name}'", hint=f"use one of {', '.join(PROVIDERS)}")
    return PROVIDERS[name]


def _require_enabled(desk: Refdesk) -> None:
    if not desk.settings.llm_enabled:
        raise UsageError("models are switched off", hint="set llm.enabled to true first")


def _entered(config: Config, provider: Provider, base_url: str | None, api_key: str | None) -> Entered:
    """What is saved with what was said now; a saved key goes to the address it was saved for and to no other."""
    known = entered_for(provider, config)
    address = known.base_url if base_url is None else base_url.strip()
    if address.rstrip("/") == provider.base_url:
        address = ""
    kept = known.api_key if address == known.base_url else ""
    return replace(known, base_url=address, api_key=kept if api_key is None else api_key.strip())


def _state(desk: Refdesk) -> dict[str, Any]:
    settings = desk.settings
    return {
        "answer": answering(desk.config, settings),
        "enabled": settings.llm_enabled,
        "providers": [_shown(desk.config, provider) for provider in PROVIDERS.values()],
        "problems": list(desk.asking.model_problems(settings)),
    }


def _shown(config: Config, provider: Provider) -> ProviderState:
    known = entered_for(provider, config)
    try:
        access = config.access(provider, known)
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
