"""`refdesk keys`: who may use the library when it is served, in which collections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from refdesk.access import ROLES
from refdesk.serve.common import AsJson, desk_of, messages, out, print_json
from refdesk.serve.show import escape

app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is.", show_default=False)]


@app.callback()
def keys() -> None:
    """Say who may use the library when it is served. Without a key it is open, on this machine alone."""


@app.command("add")
def add_key(
    context: typer.Context,
    name: Name,
    role: Annotated[str, typer.Option(metavar="ROLE", help="One of " + ", ".join(ROLES) + ".")] = "reader",
    collection: Annotated[
        list[str] | None,
        typer.Option("--collection", "-c", metavar="PATH", help="Only this one and below; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a key. Its secret is shown this once."""
    with desk_of(context) as desk:
        key, secret = desk.keys.add(name, role, collection)
    if as_json:
        print_json(key.to_dict() | {"secret": secret})
    else:
        out.print(secret, soft_wrap=True, highlight=False)
        messages.print(
            f"The key of {escape(key.name)}, {role} of {escape(_where(key.collections))}. It is not shown again."
        )


@app.command("list")
def list_keys(context: typer.Context, as_json: AsJson = False) -> None:
    """List the keys, without their secrets."""
    with desk_of(context) as desk:
        found = desk.keys.list()
    if as_json:
        print_json([key.to_dict() for key in found])
    elif not found:
        messages.print("There are no keys: refdesk keys add NAME --role reader")
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("name", "role", "collections", "made", "last used", "id"):
            table.add_column(column, overflow="fold")
        for key in found:
            where = ", ".join(key.collections) if key.collections is not None else "all"
            used = key.last_used[:16].replace("T", " ") or "never"
            table.add_row(escape(key.name), key.role, escape(where), key.created_at[:10], used, key.id)
        out.print(table)


@app.command("change")
def change_key(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="NAME", help="Its name or id.", show_default=False)],
    role: Annotated[str | None, typer.Option(metavar="ROLE", help="One of " + ", ".join(ROLES) + ".")] = None,
    collection: Annotated[
        list[str] | None,
        typer.Option("--collection", "-c", metavar="PATH", help="From now on only this one and below; repeatable."),
    ] = None,
    every_collection: Annotated[bool, typer.Option("--every-collection", help="From now on all of them.")] = False,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What it is called from now on.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a key's role, collections or name. Its secret and what belongs to it stay."""
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
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name or id.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Take a key back. Nobody gets in with it from now on."""
    with desk_of(context) as desk:
        key = desk.keys.revoke(name)
    if as_json:
        print_json(key.to_dict())
    else:
        messages.print(f"The key of {escape(key.name)} is revoked.")


def _where(collections: Sequence[str] | None) -> str:
    return "every collection" if collections is None else ", ".join(collections)
