"""`refdesk model`: which models are connected, and how is one? By questions on a terminal, elsewhere by options."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer

from refdesk.desk import Refdesk
from refdesk.errors import UsageError
from refdesk.models import PROVIDERS, Provider
from refdesk.ports import ModelRole
from refdesk.serve.cli.main import FAILED
from refdesk.serve.cli.show import AsJson, argument, desk_of, escape, messages, option, out, print_json, table, tell

ROLES: tuple[ModelRole, ...] = get_args(ModelRole)
SHOWN = 20  # names of a provider that are listed before one is chosen
STDIN = "-"
T = TypeVar("T")

model_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

ModelName = Annotated[
    str | None, option("MODEL", "Its name at the provider; for gguf the path of the file.", "--model")
]
Tested = Annotated[str | None, argument("MODEL", "provider:model; default: the one that answers.")]
ProviderName = Annotated[str | None, option("NAME", "One of " + ", ".join(PROVIDERS) + ".")]
Address = Annotated[str | None, option("URL", "Address, if it is not the provider's own.")]
Key = Annotated[str | None, option("KEY", "Its key; - reads it from standard input, so that no history keeps it.")]
Role = Annotated[str, option("ROLE", "One of " + ", ".join(ROLES) + ".")]


@model_app.callback()
def model() -> None:
    """Connect a model that writes the answers. Without one they are quoted from the documents."""


@model_app.command("connect")
def connect(
    context: typer.Context,
    provider: ProviderName = None,
    name: ModelName = None,
    address: Address = None,
    key: Key = None,
    role: Role = "answer",
    check: Annotated[bool, typer.Option("--check/--no-check", help="Save only if it answers a question.")] = True,
    as_json: AsJson = False,
) -> None:
    """Connect a model: ask it one question, and save it if it answers. On a terminal, what is missing is asked for."""
    wanted, secret = _role(role), _secret(key)
    with desk_of(context) as desk:
        chosen = _provider(provider or _asked("Provider", "--provider", ", ".join(PROVIDERS)))
        if not chosen.is_file and sys.stdin.isatty():
            address, secret = _access(desk, chosen, address, secret)
        name = name or _model(desk, chosen, address, secret)
        if chosen.is_file:
            name = str(Path(name).expanduser().absolute())  # later commands run in other folders
        if check:
            messages.print(f"Asking {chosen.name}:{escape(name)} one question …")
        connection = _run(desk, desk.connect_model(chosen.name, name, address, secret, role=wanted, check=check))
        connection.save()
    found = {"model": connection.name, "role": role, "trial": connection.trial}
    if connection.trial and not as_json:
        messages.print(escape(f"It said: {connection.trial['reply']} ({_seconds(connection.trial)})"))
    tell(as_json, found, f"{escape(connection.name)} is connected: {role}. Applies to the next question.", messages)


@model_app.command("list")
def list_models(
    context: typer.Context,
    provider: ProviderName = None,
    address: Address = None,
    key: Key = None,
    as_json: AsJson = False,
) -> None:
    """List what is connected, or with --provider the models that a provider has."""
    if provider is not None:
        _print_names(context, _provider(provider), address, _secret(key), as_json)
        return
    with desk_of(context) as desk:
        state = desk.model_state()
    if as_json:
        print_json(state)
        return
    if not state["enabled"]:
        messages.print("Models are switched off: llm.enabled is false.")
    elif not state["roles"]:
        messages.print("No model is connected. Connect one: refdesk model connect")
    else:
        known = {one["name"]: one for one in state["providers"]}
        rows = table("role", "model", "address", "key")
        for role, names in state["roles"].items():
            for place, one in enumerate(names):
                access = known.get(one.partition(":")[0], {"base_url": "", "key": ""})
                rows.add_row("fallback" if place else role, escape(one), escape(access["base_url"]), access["key"])
        out.print(rows)
    for problem in state["problems"]:
        messages.print(escape(problem))


@model_app.command("test")
def test(
    context: typer.Context,
    name: Tested = None,
    as_json: AsJson = False,
) -> None:
    """Ask a model one question about a passage: whether it answers, cites, and how long it takes."""
    with desk_of(context) as desk:
        chosen = name or desk.model_state()["answer"]
        if not chosen:
            raise UsageError("no model is connected", hint="connect one: refdesk model connect")
        trial = _run(desk, desk.test_model(chosen))
    cited = "and cited the passage" if trial["cites"] else "without citing it, which is then done for it"
    said = f"answered {cited}" if trial["answers"] else "did not answer from the passage it was given"
    tell(as_json, trial, escape(f"{trial['model']} {said} ({_seconds(trial)}): {trial['reply']}"))
    if not trial["answers"]:
        raise typer.Exit(FAILED)


@model_app.command("disconnect")
def disconnect(context: typer.Context, role: Role = "answer", as_json: AsJson = False) -> None:
    """Disconnect a model, and forget its key unless another one needs it."""
    with desk_of(context) as desk:
        gone, left = desk.disconnect_model(_role(role))
    sentence = f"{escape(gone)} is disconnected." if gone and gone != left else "Nothing was connected here."
    if left:
        sentence += f" {escape(left)} is still named, by the environment or refdesk.toml."
    tell(as_json, {"disconnected": gone if gone != left else "", "still_named": left}, sentence, messages)


# --- what was not given as an option


def _print_names(
    context: typer.Context, provider: Provider, address: str | None, key: str | None, as_json: bool
) -> None:
    with desk_of(context) as desk:
        names = _run(desk, desk.list_models(provider.name, address, key))
    if as_json:
        print_json({"provider": provider.name, "models": names})
    elif names is None:
        messages.print(f"{provider.name} does not list its models.")
    else:
        out.print(escape("\n".join(names), lines=True) or "It has no models.")


def _access(desk: Refdesk, provider: Provider, address: str | None, key: str | None) -> tuple[str | None, str | None]:
    """Address and key, asked for where they are not given; Enter keeps what is known."""
    known = next(one for one in desk.model_state()["providers"] if one["name"] == provider.name)
    if address is None:
        said = typer.prompt("Address", default=known["base_url"], err=True).strip()
        address = None if said == known["base_url"] else said
    if key is None and (provider.needs_key or known["key"]):
        hint = f"API key (Enter keeps {known['key']})" if known["key"] else "API key"
        key = typer.prompt(hint, default="", hide_input=True, show_default=False, err=True).strip() or None
    return address, key


def _model(desk: Refdesk, provider: Provider, address: str | None, key: str | None) -> str:
    if provider.is_file:
        return _asked("Path of the GGUF file", "--model")
    if not sys.stdin.isatty():
        raise UsageError("--model is missing", hint=f"`refdesk model list --provider {provider.name}` shows its models")
    if names := _run(desk, desk.list_models(provider.name, address, key)):
        more = f"\n  … and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        messages.print("It has:\n  " + escape("\n  ".join(names[:SHOWN]), lines=True) + more)
    return _asked("Model", "--model")


def _asked(what: str, name: str, choices: str = "") -> str:
    if not sys.stdin.isatty():
        raise UsageError(f"{name} is missing", hint=f"use one of {choices}" if choices else "give it as an option")
    return str(typer.prompt(f"{what} ({choices})" if choices else what, err=True)).strip()


def _secret(key: str | None) -> str | None:
    return sys.stdin.readline().strip() if key == STDIN else key


def _provider(name: str) -> Provider:
    if name not in PROVIDERS:
        raise UsageError(f"there is no provider '{name}'", hint=f"use one of {', '.join(PROVIDERS)}")
    return PROVIDERS[name]


def _role(name: str) -> ModelRole:
    for role in ROLES:
        if role == name:
            return role
    raise UsageError(f"there is no role '{name}'", hint=f"use one of {', '.join(ROLES)}")


def _run(desk: Refdesk, work: Coroutine[Any, Any, T]) -> T:
    async def closing() -> T:
        try:
            return await work
        finally:
            await desk.aclose()

    return asyncio.run(closing())


def _seconds(trial: dict[str, Any]) -> str:
    return f"{trial['ms'] / 1000:.1f} s"
