"""`refdesk keys`: who may use the library when it is served, in which collections."""

from __future__ import annotations

import asyncio
import importlib.util
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, Any

import typer

from refdesk.desk import Refdesk
from refdesk.errors import RefdeskError, UsageError
from refdesk.records import ROLES
from refdesk.serve.cli.show import AsJson, argument, desk_of, escape, messages, option, out, print_json, styled, table
from refdesk.settings import PRESETS
from refdesk.types import Finding

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Name = Annotated[str, argument("NAME", "Who the key is for.")]


@app.callback()
def keys() -> None:
    """Manage the keys to the library over the network. Without a key, only this machine can use it."""


@app.command("add")
def add_key(
    context: typer.Context,
    name: Name,
    role: Annotated[str, option("ROLE", "One of " + ", ".join(ROLES) + ".")] = "reader",
    collection: Annotated[
        list[str] | None,
        option("PATH", "Only this collection and those inside it; repeatable.", "--collection", "-c"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key. Its secret is shown only once."""
    with desk_of(context) as desk:
        key, secret = desk.keys.add(name, role, collection)
    if as_json:
        print_json(key.to_dict() | {"secret": secret})
    else:
        out.print(secret, soft_wrap=True, highlight=False)
        owner = f"{escape(key.name)}, {role} of {escape(_where(key.collections))}"
        messages.print(f"The key of {owner}. It is shown only this once.")


@app.command("list")
def list_keys(context: typer.Context, as_json: AsJson = False) -> None:
    """List the keys, without their secrets."""
    with desk_of(context) as desk:
        found = desk.keys.list()
    if as_json:
        print_json([key.to_dict() for key in found])
    elif not found:
        messages.print("There are no keys. Create one: refdesk keys add NAME --role reader")
    else:
        rows = table("name", "role", "collections", "created", "last used", "id")
        for key in found:
            where = ", ".join(key.collections) if key.collections is not None else "all"
            used = key.last_used[:16].replace("T", " ") or "never"
            rows.add_row(escape(key.name), key.role, escape(where), key.created_at[:10], used, key.id)
        out.print(rows)


@app.command("change")
def change_key(
    context: typer.Context,
    key: Annotated[str, argument("NAME", "Its name or id.")],
    role: Annotated[str | None, option("ROLE", "One of " + ", ".join(ROLES) + ".")] = None,
    collection: Annotated[
        list[str] | None,
        option("PATH", "Only this collection and those inside it; repeatable.", "--collection", "-c"),
    ] = None,
    every_collection: Annotated[bool, typer.Option("--every-collection", help="All collections.")] = False,
    name: Annotated[str | None, option("NAME", "New name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a key's role, collections or name. Its secret stays the same."""
    with desk_of(context) as desk:
        changed = desk.keys.change(
            key, name=name, role=role, collections=collection or None, every_collection=every_collection
        )
    if as_json:
        print_json(changed.to_dict())
    else:
        messages.print(f"The key of {escape(changed.name)}: {changed.role} of {escape(_where(changed.collections))}.")


@app.command("revoke")
def revoke_key(
    context: typer.Context,
    name: Annotated[str, argument("NAME", "Its name or id.")],
    as_json: AsJson = False,
) -> None:
    """Revoke a key. It stops working at once."""
    with desk_of(context) as desk:
        key = desk.keys.revoke(name)
    if as_json:
        print_json(key.to_dict())
    else:
        messages.print(f"The key of {escape(key.name)} is revoked.")


def _where(collections: Sequence[str] | None) -> str:
    return "every collection" if collections is None else ", ".join(collections)


# `refdesk settings`: what is set, where it comes from, and how it is changed for good.

settings_app = typer.Typer(rich_markup_mode=None, no_args_is_help=False)

SettingName = Annotated[str, argument("NAME", "For example rag.top_k.")]


@settings_app.callback(invoke_without_command=True)
def settings(
    context: typer.Context,
    changed: Annotated[bool, typer.Option("--changed", help="Only those that differ from the default.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the settings of this library, or change them. Changes apply to the next question."""
    if context.invoked_subcommand is not None:
        return
    with desk_of(context) as desk:
        rows = [row for row in _rows(desk) if row["from"] != "default" or not changed]
        notes = desk.settings_notes
    if as_json:
        print_json(rows)
        return
    if not rows:
        messages.print("Every setting is at its default.")
        return
    shown = table("", "setting", "value", "default", "from", "what it does")
    for row in rows:
        is_changed = row["from"] != "default"
        default = _written(row["default"]) if is_changed else ""
        place = row["from"] if is_changed else ""
        value = styled((_written(row["value"]), "bold" if is_changed else ""))
        shown.add_row("*" if is_changed else "", row["name"], value, escape(default), place, escape(row["help"]))
    out.print(shown)
    for note in notes:
        messages.print(escape(f"{note[0].upper()}{note[1:]}."))


@settings_app.command("get")
def get_setting(context: typer.Context, name: SettingName, as_json: AsJson = False) -> None:
    """Print the value of one setting."""
    with desk_of(context) as desk:
        found = [row for row in _rows(desk) if row["name"] == name]
    if not found:
        raise UsageError(f"there is no setting '{name}'", hint="`refdesk settings` shows them all")
    if as_json:
        print_json(found[0])
    else:
        out.print(escape(_written(found[0]["value"])))


@settings_app.command("set")
def set_setting(
    context: typer.Context,
    name: SettingName,
    value: Annotated[str, argument("VALUE", "Its new value.")],
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Check first that the provider has the model.")
    ] = True,
) -> None:
    """Change a setting of this library."""
    with desk_of(context) as desk:
        asyncio.run(desk.check_settings({name: value}, online=check))
        _say_changes(desk.change_settings({name: value}))


@settings_app.command("reset")
def reset_setting(
    context: typer.Context,
    name: Annotated[str | None, argument("NAME", "Which one; default: all.")] = None,
) -> None:
    """Reset one setting or all of them to refdesk.toml or the default."""
    with desk_of(context) as desk:
        _say_changes(desk.reset_settings(name))


@settings_app.command("preset")
def use_preset(
    context: typer.Context,
    name: Annotated[str, argument("PRESET", "One of " + ", ".join(PRESETS) + ".")],
) -> None:
    """Change several settings at once. Settings of other presets are reset, the rest stays.

    After offline, only balanced turns models on again.
    """
    with desk_of(context) as desk:
        _say_changes(desk.use_preset(name))


def _rows(desk: Refdesk) -> list[dict[str, Any]]:
    """The program that changes them is this one, by its option."""
    return [row | {"from": "--set"} if row["from"] == "program" else row for row in desk.list_settings()]


def _say_changes(changed: Mapping[str, tuple[Any, Any]]) -> None:
    lines = [f"{name}: {escape(_written(old))} → {escape(_written(new))}" for name, (old, new) in changed.items()]
    messages.print("\n".join(lines) or "Nothing changed.")


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# What `refdesk doctor` looks at: versions, models, the data folder, the indexes against SQL, free disk.

LOW_DISK = 1 << 30  # bytes free under which a library cannot grow much
_PACKAGES = ("sqlalchemy", "tantivy", "usearch", "onnxruntime", "tokenizers", "pypdfium2")


def examine(desk: Refdesk) -> Iterator[Finding]:
    """Every finding, the most general first; changes nothing."""
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    yield Finding("versions", True, f"Refdesk {version('refdesk')}, Python {platform.python_version()}; {versions}")
    yield desk.check_embedder()
    yield from _models(desk)
    has_ocr = importlib.util.find_spec("rapidocr") is not None
    yield Finding(
        "OCR", True, "installed" if has_ocr else "not installed: scans cannot be read (pip install 'refdesk[ocr]')"
    )
    usage = shutil.disk_usage(desk.folder)
    yield Finding(
        "disk",
        usage.free > LOW_DISK,
        f"{_size(usage.free)} free; the library {desk.folder} takes {_size(_folder_size(desk))}",
        "free some space, or move the library",
    )
    yield _rights(desk)
    counts = desk.counts()
    said = [f"{counts[key]} {key.removeprefix('documents_')}" for key in sorted(counts) if key.startswith("documents_")]
    yield Finding("documents", True, ", ".join(said) or "none yet")
    waiting = counts.get("documents_pending", 0) + counts.get("documents_processing", 0)
    if waiting:
        yield Finding("unfinished", True, f"{waiting} documents are unfinished: `refdesk add --resume` finishes them")
    try:
        yield from desk.check()
        yield from desk.check_files()
    except RefdeskError as error:
        yield Finding("indexes", False, str(error), error.hint)


def _rights(desk: Refdesk) -> Finding:
    """Who else may read the library: opening it has closed what could be closed."""
    if left := desk.open_to_others():
        text = f"{len(left)} files or folders can be read by others, for example {left[0]}"
        return Finding("rights", False, text, f"run `chmod -R go= {desk.folder}` as their owner")
    closed = desk.closed_to_others
    note = f"; {closed} files and folders that others could reach were closed just now" if closed else ""
    return Finding("rights", True, f"only the owner can read the library{note}")


def _models(desk: Refdesk) -> Iterator[Finding]:
    """Every model that is named: whether it can be used, and its provider lists it."""
    for name, error in asyncio.run(desk.check_models()):
        text = f"{name} answers at its address" if error is None else f"{name}: {error}"
        yield Finding("model", error is None, text, "" if error is None else error.hint)


def _folder_size(desk: Refdesk) -> int:
    total = 0
    for path in desk.folder.rglob("*"):
        with suppress(OSError):  # gone a moment later
            total += path.stat().st_size
    return total


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
