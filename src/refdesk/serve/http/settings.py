"""Settings over HTTP, for admins: every one with its help, default and bounds; presets."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query
from starlette.responses import Response

from refdesk.engine import Refdesk
from refdesk.serve.http.desk import Library
from refdesk.serve.http.documented import failures, gives
from refdesk.serve.http.guard import Who
from refdesk.serve.http.reply import reply
from refdesk.serve.http.response_shapes import Setting, SettingList
from refdesk.serve.http.shapes import PresetIn
from refdesk.settings import PRESETS, specs

router = APIRouter(prefix="/api", tags=["settings"])
SETTING: Setting = {
    "name": "rag.top_k",
    "section": "rag",
    "value": 5,
    "default": 10,
    "changed": True,
    "from": "library",
    "help": "Chunks that a search gives",
    "allowed": "1 to 1000",
    "choices": [],
    "minimum": 1,
    "maximum": 1000,
    "kind": "int",
    "per_request": True,
}
SETTINGS: SettingList = {"settings": [SETTING], "presets": {"speed": {"rag.top_k": 5}}, "notes": []}
Check = Annotated[bool, Query(description="Whether a model that is named is looked for at its provider.")]
Values = Annotated[
    dict[str, bool | int | float | str], Body(examples=[{"rag.top_k": 5}], description="Names and their new values.")
]


@router.get("/settings", summary="Every setting", responses=gives(SettingList, SETTINGS))
def settings(desk: Library, caller: Who) -> Response:
    caller.require("settings")
    return reply(listed(desk))


@router.patch("/settings", summary="Change some, or none when one is wrong", responses=gives(SettingList, SETTINGS))
async def change(desk: Library, caller: Who, values: Values, check: Check = True) -> Response:
    """A model is looked for at its provider first; `check=false` saves a name that cannot be reached now."""
    caller.require("settings")
    current = await asyncio.to_thread(lambda: desk.settings)
    await desk.asking.check_models(values, current.changed(values), online=check)
    await asyncio.to_thread(desk.settings_store.change, values)
    return reply(await asyncio.to_thread(listed, desk))


@router.post("/settings/preset", summary="Change several at once", responses=gives(SettingList, SETTINGS))
def preset(desk: Library, caller: Who, body: PresetIn) -> Response:
    caller.require("settings")
    desk.settings_store.use_preset(body.name)
    return reply(listed(desk))


@router.delete(
    "/settings/{name}", summary="Reset one to its default", responses=gives(SettingList, SETTINGS) | failures(404)
)
def reset(desk: Library, caller: Who, name: str) -> Response:
    caller.require("settings")
    desk.settings_store.reset(name)
    return reply(listed(desk))


def listed(desk: Refdesk) -> dict[str, Any]:
    """Each setting as it is now, where that comes from, and what it may be."""
    values = {name: value for name, value, _ in desk.settings.items()}
    places = dict.fromkeys(desk.config.settings, "refdesk.toml") | dict.fromkeys(desk.settings_store.load(), "library")
    rows = [
        {
            "name": spec.name,
            "section": spec.section,
            "value": values[spec.name],
            "default": spec.default,
            "changed": values[spec.name] != spec.default,
            "from": places.get(spec.name, "default" if values[spec.name] == spec.default else "program"),
            "help": spec.help,
            "allowed": spec.allowed,
            "choices": list(spec.choices),
            "minimum": spec.minimum,
            "maximum": spec.maximum,
            "kind": type(spec.default).__name__,
            "per_request": spec.per_request,
        }
        for spec in specs()
    ]
    presets = {name: dict(preset) for name, preset in PRESETS.items()}
    return {"settings": rows, "presets": presets, "notes": list(desk.settings_store.notes)}
