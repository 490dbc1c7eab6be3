"""Settings over HTTP, for admins: every one with its help, default and bounds; presets; a word from a model."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body
from starlette.responses import Response

from refdesk.engine import Refdesk
from refdesk.serve.http.desk import Library
from refdesk.serve.http.documented import failures, gives
from refdesk.serve.http.guard import Who
from refdesk.serve.http.reply import reply
from refdesk.serve.http.response_shapes import ModelReply, Setting, SettingList
from refdesk.serve.http.shapes import ModelIn, PresetIn
from refdesk.settings import PRESETS, specs
from refdesk.threads import aside

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
Values = Annotated[
    dict[str, bool | int | float | str], Body(examples=[{"rag.top_k": 5}], description="Names and their new values.")
]


@router.get("/settings", summary="Every setting", responses=gives(SettingList, SETTINGS))
def settings(desk: Library, caller: Who) -> Response:
    caller.require("settings")
    return reply(listed(desk))


@router.patch("/settings", summary="Change some, or none when one is wrong", responses=gives(SettingList, SETTINGS))
def change(desk: Library, caller: Who, values: Values) -> Response:
    caller.require("settings")
    desk.settings_store.change(values)
    return reply(listed(desk))


@router.post("/settings/preset", summary="Change several at once", responses=gives(SettingList, SETTINGS))
def preset(desk: Library, caller: Who, body: PresetIn) -> Response:
    caller.require("settings")
    desk.settings_store.use_preset(body.name)
    return reply(listed(desk))


@router.delete("/settings/{name}", summary="Put one back", responses=gives(SettingList, SETTINGS) | failures(404))
def reset(desk: Library, caller: Who, name: str) -> Response:
    caller.require("settings")
    desk.settings_store.reset(name)
    return reply(listed(desk))


@router.post(
    "/models/test",
    summary="Ask a model for one word",
    responses=gives(ModelReply, {"model": "ollama:qwen2.5:14b", "reply": "Ready", "ms": 412.0}) | failures(502),
)
async def test_model(desk: Library, caller: Who, body: ModelIn) -> Response:
    """Only a provider whose key or address the server's environment has."""
    caller.require("settings")
    return reply(await desk.asking.test_model(body.model, await aside(lambda: desk.settings)))


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
