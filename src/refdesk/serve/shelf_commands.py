"""`refdesk rename`, `move` and `remove`: what is done to documents and collections that are there."""

from __future__ import annotations

from typing import Annotated

import typer

from refdesk.errors import UsageError
from refdesk.serve.common import AsJson, desk_of, out, print_json
from refdesk.serve.show import escape
from refdesk.types import Document

Names = Annotated[list[str] | None, typer.Argument(metavar="DOCUMENT", help="Names or ids.", show_default=False)]
Whole = Annotated[
    str | None,
    typer.Option(
        "--collection", "-c", metavar="NAME", help="A whole collection, with those inside it.", show_default=False
    ),
]


def rename(
    context: typer.Context,
    document: Annotated[str, typer.Argument(metavar="DOCUMENT", help="Its name or id.", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it shall be called.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Give a document another name."""
    with desk_of(context) as desk:
        found = desk.rename(document, name)
    if as_json:
        print_json(found.to_dict())
    else:
        out.print(f"it is called {escape(found.name)}")


def move(
    context: typer.Context,
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="The collection they go to.", show_default=False)],
    names: Names = None,
    collection: Whole = None,
    as_json: AsJson = False,
) -> None:
    """Put documents into another collection, or give a collection another name. All go, or none when one cannot."""
    _one_of_both(names, collection)
    with desk_of(context) as desk:
        moved = desk.rename_collection(collection, to) if collection else desk.move_all(names or [], to)
    _say("moved", moved, as_json)


def remove(
    context: typer.Context,
    names: Names = None,
    collection: Whole = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a whole collection goes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove documents, and what was attached to them. The files that they were added from stay."""
    _one_of_both(names, collection)
    with desk_of(context) as desk:
        if collection and not yes:
            count = len(desk.documents(collection=collection))
            amount = "1 document" if count == 1 else f"{count:,} documents"
            if count:
                typer.confirm(f"Remove {amount} of {collection}?", abort=True, err=True)
        gone = desk.remove_collection(collection) if collection else desk.remove(*names or ())
    _say("removed", gone, as_json)


def _one_of_both(names: list[str] | None, collection: str | None) -> None:
    if bool(names) == bool(collection):
        raise UsageError("name documents, or a collection", hint="`refdesk list` shows what there is")


def _say(done: str, documents: list[Document], as_json: bool) -> None:
    if as_json:
        print_json([one.to_dict() for one in documents])
        return
    for one in documents:
        place = f" to {escape(one.collection)}" if done == "moved" else ""
        out.print(f"{done} {escape(one.name)}{place}")
