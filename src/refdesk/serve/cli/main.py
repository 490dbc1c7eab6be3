"""The list of commands. Their code, and the engine, are imported when one is called.

`refdesk --help` lists them in a fifth of a second; importing the engine takes half a second more.
"""

from __future__ import annotations

import gc
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from refdesk import __version__
from refdesk.errors import RefdeskError, UsageError

DONE, FAILED, USAGE, NOTHING = 0, 1, 2, 3
COMMANDS, COMMON = "refdesk.serve.cli.documents", "refdesk.serve.cli.show"

# As their own help begins, which a test compares.
LISTED = {
    "ask": "Answer a question and cite page and lines for every sentence.",
    "chat": "Ask one question after another.",
    "eval": "Measure accuracy on questions whose answers you know.",
    "serve": "Serve the library over HTTP.",
    "worker": "Process uploads for the servers of this library; run any number of workers on any machine.",
    "mcp": "Offer the library to AI assistants as MCP tools, over stdio.",
    "add": "Add files and folders.",
    "import": "Import chunks made by another program, as JSONL.",
    "airtable": "Add the records of an Airtable table as chunks; later runs fetch only changes.",
    "summarise": "Let a model summarise every chunk, for surveys.",
    "tree": "Summarise sections, documents and groups of documents.",
    "graph": "Let a model find names and relations in every chunk, for the graph.",
    "search": "Find the best-matching passages, with page and lines.",
    "list": "List the documents.",
    "show": "Show a document, one of its pages, its chunks, or its tables.",
    "rename": "Rename a document.",
    "move": "Move documents to another collection, or rename a collection.",
    "remove": "Remove documents and their attachments.",
    "doctor": "Check the installation and the library, and suggest fixes.",
    "reindex": "Rebuild the search indexes and, after a change of embedder, the vectors.",
    "backup": "Write the whole library to one file.",
    "restore": "Restore a library from a backup.",
    "migrate": "Copy the library to or from PostgreSQL, vectors included.",
    "demo": "Add the example documents and ask three questions about them.",
    "settings": "Show the settings of this library, or change them.",
    "keys": "Manage the keys for network access to the library.",
    "model": "Connect a model that writes the answers.",
}


class Commands(TyperGroup):
    """A group whose commands are imported when one of them is called.

    Contexts and formatters are click's, which some versions of Typer bring along themselves.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return list(LISTED)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if not self.commands:
            self.commands = _imported()
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        limit = formatter.width - 6 - max(map(len, LISTED))  # as click counts it
        listed = [TyperCommand(name, help=text) for name, text in LISTED.items()]
        with formatter.section("Commands"):
            formatter.write_dl([(str(command.name), command.get_short_help_str(limit)) for command in listed])


def _imported() -> dict[str, Any]:
    # Looking for garbage among what is being imported takes a tenth of the time to start, and finds next to none.
    gc.disable()
    import_module(COMMANDS)  # which registers them at `app`
    gc.freeze()
    gc.enable()
    return dict(typer.main.get_command(app).commands)  # type: ignore[attr-defined]  # it is a group


app = typer.Typer(
    cls=Commands,
    help="A reference desk for your documents: add files, ask questions, see the page and lines behind every answer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help and errors as plain lines, which docs/cli.md shows as they are
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"refdesk {__version__}")
        raise typer.Exit(DONE)


@app.callback()
def options(
    context: typer.Context,
    library: Annotated[
        Path | None,
        typer.Option(
            "--library",
            "-l",
            metavar="DIR",
            envvar="REFDESK_LIBRARY",
            help="Library folder; default: ~/.refdesk.",
        ),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a setting for this run; repeatable.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    context.obj = {"library": library, "settings": pairs(setting or [], "--set")}


def pairs(values: list[str], option: str) -> dict[str, str]:
    """`["by=Maren"]` -> `{"by": "Maren"}`."""
    found = {}
    for value in values:
        name, equals, content = value.partition("=")
        if not equals or not name:
            raise UsageError(f"{option} takes NAME=VALUE, not '{value}'")
        found[name.strip()] = content.strip()
    return found


def _fail(error: RefdeskError) -> NoReturn:
    common: Any = import_module(COMMON)
    first, _, rest = error.sentence.partition(" ")
    sentence = f"{first.capitalize() if first.islower() and first.isalpha() else first} {rest}"  # file names stay
    common.messages.print(common.styled((f"{sentence}.", "red")), soft_wrap=True)
    raise SystemExit(USAGE if isinstance(error, UsageError) else FAILED)


def main() -> None:
    try:
        app()
    except RefdeskError as error:
        _fail(error)
    except KeyboardInterrupt:
        raise SystemExit(130) from None
