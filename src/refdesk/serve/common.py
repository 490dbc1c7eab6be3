"""What every command shares: the library it works on, one JSON value on standard output, the two consoles."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import orjson
import typer

from refdesk.engine import Refdesk
from refdesk.serve import show
from refdesk.serve.commands import DONE, FAILED, NOTHING, USAGE
from refdesk.serve.show import escape, styled

__all__ = ["DONE", "FAILED", "NOTHING", "USAGE", "escape", "styled"]

out = show.console()
messages = show.console(stderr=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else on standard output.")]
Collection = Annotated[
    str | None, typer.Option("--collection", "-c", metavar="PATH", help="Only this collection and those below it.")
]
DocumentNames = Annotated[
    list[str] | None,
    typer.Option("--document", "-d", metavar="DOCUMENT", help="Only this document; may be repeated."),
]
TopK = Annotated[int | None, typer.Option("-k", metavar="K", help="How many chunks; rag.top_k, 10, if not said.")]


def desk_of(context: typer.Context) -> Refdesk:
    """The library and the settings that the options before the command name."""
    return Refdesk(context.obj["library"], settings=context.obj["settings"])


def print_json(value: Any) -> None:
    """Control characters that JSON lets stand (DEL, C1) and those that turn text about are written as `\\u009b`.

    The value is the same; the terminal is not steered by what a document says.
    """
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    sys.stdout.write(show.CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n")
