"""`refdesk settings`: what is set, where it comes from, and how it is changed for good."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer
from rich.table import Table

from refdesk.engine import Refdesk
from refdesk.errors import UsageError
from refdesk.serve.common import AsJson, desk_of, messages, out, print_json
from refdesk.serve.show import escape, styled
from refdesk.settings import PRESETS, Settings, specs

app = typer.Typer(rich_markup_mode=None, no_args_is_help=False)

Name = Annotated[str, typer.Argument(metavar="NAME", help="For example rag.top_k.", show_default=False)]


@app.callback(invoke_without_command=True)
def settings(
    context: typer.Context,
    changed: Annotated[bool, typer.Option("--changed", help="Only those that are not at their default.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the settings, or change them for this library. Programs that run see a change at their next question."""
    if context.invoked_subcommand is not None:
        return
    with desk_of(context) as desk:
        rows = [row for row in _rows(desk, context) if row["from"] != "default" or not changed]
        notes = desk.settings_store.notes
    if as_json:
        print_json(rows)
        return
    if not rows:
        messages.print("Every setting is at its default.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "setting", "value", "default", "from", "what it does"):
        table.add_column(column, overflow="fold")
    for row in rows:
        is_changed = row["from"] != "default"
        default = _written(row["default"]) if is_changed else ""
        place = row["from"] if is_changed else ""
        value = styled((_written(row["value"]), "bold" if is_changed else ""))
        table.add_row("*" if is_changed else "", row["name"], value, escape(default), place, escape(row["help"]))
    out.print(table)
    for note in notes:
        messages.print(escape(f"{note[0].upper()}{note[1:]}."))


@app.command("get")
def get_setting(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Print the value of one setting."""
    with desk_of(context) as desk:
        found = [row for row in _rows(desk, context) if row["name"] == name]
    if not found:
        raise _unknown(name)
    if as_json:
        print_json(found[0])
    else:
        out.print(escape(_written(found[0]["value"])))


@app.command("set")
def set_setting(
    context: typer.Context,
    name: Name,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its new value.", show_default=False)],
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Whether a model is looked for at its provider first.")
    ] = True,
) -> None:
    """Change a setting of this library for good."""
    with desk_of(context) as desk:
        before = desk.settings_store.current()
        new = desk.settings.changed({name: value})
        asyncio.run(desk.asking.check_models({name: value}, new, online=check))
        desk.settings_store.set(name, value)
        _say_changes(before, desk.settings_store.current())


@app.command("reset")
def reset_setting(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which one; all of them if not said.", show_default=False)
    ] = None,
) -> None:
    """Reset one setting, or all, to what refdesk.toml says, else to the default."""
    with desk_of(context) as desk:
        before = desk.settings_store.current()
        desk.settings_store.reset(name)
        _say_changes(before, desk.settings_store.current())


@app.command("preset")
def use_preset(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="PRESET", help="One of " + ", ".join(PRESETS) + ".", show_default=False)
    ],
) -> None:
    """Change several settings at once. What other presets set is reset, the rest stays.

    Only balanced resets llm.enabled: no other preset lets models be asked again after offline.
    """
    with desk_of(context) as desk:
        before = desk.settings_store.current()
        desk.settings_store.use_preset(name)
        _say_changes(before, desk.settings_store.current())


def _rows(desk: Refdesk, context: typer.Context) -> list[dict[str, Any]]:
    values = {name: value for name, value, _ in desk.settings.items()}
    places = dict.fromkeys(desk.config.settings, "refdesk.toml")
    places |= dict.fromkeys(desk.settings_store.load(), "library") | dict.fromkeys(context.obj["settings"], "--set")
    return [
        {
            "name": spec.name,
            "value": values[spec.name],
            "default": spec.default,
            "from": places.get(spec.name, "default"),
            "allowed": spec.allowed,
            "choices": list(spec.choices),
            "minimum": spec.minimum,
            "maximum": spec.maximum,
            "per_request": spec.per_request,
            "help": spec.help,
        }
        for spec in specs()
    ]


def _say_changes(before: Settings, after: Settings) -> None:
    was = {name: value for name, value, _ in before.items()}
    lines = [
        f"{name}: {escape(_written(was[name]))} → {escape(_written(value))}"
        for name, value, _ in after.items()
        if value != was[name]
    ]
    messages.print("\n".join(lines) or "Nothing has changed.")


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unknown(name: str) -> UsageError:
    return UsageError(f"there is no setting '{name}'", hint="`refdesk settings` shows them all")
