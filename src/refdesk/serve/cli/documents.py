"""The commands: each parses its arguments, calls the engine and prints. `main.py` lists them without importing this.

Exit codes: 0 done, 1 something failed, 2 wrong usage, 3 not in the documents.

`refdesk model` asks its questions on a terminal, and takes options elsewhere.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

import typer

from refdesk.arguments import METHODS, STATUSES
from refdesk.caller_desk import DEFAULT_COLLECTION
from refdesk.desk import Refdesk
from refdesk.errors import LibraryError, UsageError
from refdesk.models import PROVIDERS, Provider
from refdesk.ports import ModelRole
from refdesk.serve.cli import show
from refdesk.serve.cli.admin import examine, keys_app, mcp, serve, settings_app, worker
from refdesk.serve.cli.ask import ask, chat, eval_command, run_demo
from refdesk.serve.cli.main import DONE, FAILED, NOTHING, app, main, pairs
from refdesk.serve.cli.show import (
    AddProgress,
    AsJson,
    Collection,
    CountProgress,
    DocumentNames,
    TopK,
    argument,
    desk_of,
    escape,
    messages,
    option,
    out,
    print_json,
    styled,
    table,
    tell,
)
from refdesk.serve.cli.sources import airtable, graph, import_chunks, summarise, tree
from refdesk.types import Document

# --- `refdesk model`: which models are connected, and how is one? -----------------------------------------------------

ROLES: tuple[ModelRole, ...] = get_args(ModelRole)
SHOWN = 20  # names of a provider that are listed before one is chosen
STDIN = "-"
T = TypeVar("T")

model_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)

ModelName = Annotated[
    str | None, option("MODEL", "The provider's name for it; for gguf, the path of the file.", "--model")
]
Tested = Annotated[str | None, argument("MODEL", "provider:model; default: the answering model.")]
ProviderName = Annotated[str | None, option("NAME", "One of " + ", ".join(PROVIDERS) + ".")]
Address = Annotated[str | None, option("URL", "Base URL, if not the provider's default.")]
Key = Annotated[
    str | None, option("KEY", "API key; - reads it from standard input, which keeps it out of the shell history.")
]
Role = Annotated[str, option("ROLE", "One of " + ", ".join(ROLES) + ".")]


@model_app.callback()
def model() -> None:
    """Connect a model that writes the answers. Without one, answers are quoted from the documents."""


@model_app.command("connect")
def connect(
    context: typer.Context,
    provider: ProviderName = None,
    name: ModelName = None,
    address: Address = None,
    key: Key = None,
    role: Role = "answer",
    check: Annotated[bool, typer.Option("--check/--no-check", help="Save only if it answers a test question.")] = True,
    as_json: AsJson = False,
) -> None:
    """Connect a model: ask it a test question and save it if it answers. On a terminal, prompts for missing options."""
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
    """List the connected models or, with --provider, the models a provider offers."""
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
        known = {provider["name"]: provider for provider in state["providers"]}
        rows = table("role", "model", "address", "key")
        for role, names in state["roles"].items():
            for place, name in enumerate(names):
                access = known.get(name.partition(":")[0], {"base_url": "", "key": ""})
                rows.add_row("fallback" if place else role, escape(name), escape(access["base_url"]), access["key"])
        out.print(rows)
    for problem in state["problems"]:
        messages.print(escape(problem))


@model_app.command("test")
def test(context: typer.Context, name: Tested = None, as_json: AsJson = False) -> None:
    """Test a model with a question about a passage: does it answer and cite, and how long does it take?"""
    with desk_of(context) as desk:
        chosen = name or desk.model_state()["answer"]
        if not chosen:
            raise UsageError("no model is connected", hint="connect one: refdesk model connect")
        trial = _run(desk, desk.test_model(chosen))
    cited = "and cited the passage" if trial["cites"] else "without citing it; Refdesk adds the citations itself"
    outcome = f"answered {cited}" if trial["answers"] else "did not answer from the given passage"
    tell(as_json, trial, escape(f"{trial['model']} {outcome} ({_seconds(trial)}): {trial['reply']}"))
    if not trial["answers"]:
        raise typer.Exit(FAILED)


@model_app.command("disconnect")
def disconnect(context: typer.Context, role: Role = "answer", as_json: AsJson = False) -> None:
    """Disconnect a model and delete its key unless another model needs it."""
    with desk_of(context) as desk:
        gone, left = desk.disconnect_model(_role(role))
    sentence = f"{escape(gone)} is disconnected." if gone and gone != left else "Nothing was connected here."
    if left:
        sentence += f" {escape(left)} is still set in the environment or refdesk.toml."
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
        out.print(escape("\n".join(names), lines=True) or "This provider has no models.")


def _access(desk: Refdesk, provider: Provider, address: str | None, key: str | None) -> tuple[str | None, str | None]:
    """Address and key, asked for where they are not given; Enter keeps what is known."""
    known = next(row for row in desk.model_state()["providers"] if row["name"] == provider.name)
    if address is None:
        entered = typer.prompt("Address", default=known["base_url"], err=True).strip()
        address = None if entered == known["base_url"] else entered
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
        raise UsageError(f"{name} is missing", hint=f"use one of {choices}" if choices else "pass it as an option")
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


# `refdesk rename`, `move` and `remove`: what is done to documents and collections that are there.

# --- documents --------------------------------------------------------------------------------------------------------

Names = Annotated[list[str] | None, argument("DOCUMENT", "Names or ids.")]
Whole = Annotated[
    str | None, option("NAME", "A whole collection with its subcollections.", "--collection", "-c", show_default=False)
]


def rename(
    context: typer.Context,
    document: Annotated[str, argument("DOCUMENT", "Name or id.")],
    name: Annotated[str, argument("NAME", "New name.")],
    as_json: AsJson = False,
) -> None:
    """Rename a document."""
    with desk_of(context) as desk:
        found = desk.rename(document, name)
    tell(as_json, found, f"renamed to {escape(found.name)}")


def move(
    context: typer.Context,
    to: Annotated[str, option("NAME", "The new collection.", "--to", show_default=False)],
    names: Names = None,
    collection: Whole = None,
    as_json: AsJson = False,
) -> None:
    """Move documents to another collection, or rename a collection. All move, or none."""
    _one_of_both(names, collection)
    with desk_of(context) as desk:
        moved = desk.rename_collection(collection, to) if collection else desk.move_all(names or [], to)
    _say("moved", moved, as_json)


def remove(
    context: typer.Context,
    names: Names = None,
    collection: Whole = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before removing a whole collection.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove documents and their attachments. The original files stay."""
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
        raise UsageError("give either documents or a collection", hint="`refdesk list` shows what there is")


def _say(done: str, documents: list[Document], as_json: bool) -> None:
    if as_json:
        print_json(documents)
        return
    for document in documents:
        place = f" to {escape(document.collection)}" if done == "moved" else ""
        out.print(f"{done} {escape(document.name)}{place}")


__all__ = ["app", "main"]

app.command()(ask)
app.command()(chat)
app.command("eval")(eval_command)
app.command()(serve)
app.command()(worker)
app.command()(mcp)
app.add_typer(settings_app, name="settings")
app.add_typer(keys_app, name="keys")
app.add_typer(model_app, name="model")

DocumentName = Annotated[str, argument("DOCUMENT", "Name, id or start of an id.")]


@app.command()
def add(
    context: typer.Context,
    paths: Annotated[list[Path] | None, argument("PATHS", "Files and folders.")] = None,
    collection: Annotated[
        str, option("PATH", "Where to put the documents, e.g. finance/2024.", "--collection", "-c")
    ] = DEFAULT_COLLECTION,
    metadata: Annotated[
        list[str] | None, option("NAME=VALUE", "Metadata for all documents; repeatable.", "--meta")
    ] = None,
    password: Annotated[str | None, option("TEXT", "Password for encrypted PDFs and ZIP archives.")] = None,
    sync: Annotated[
        bool, typer.Option("--sync", help="Also remove documents whose files are gone from these folders.")
    ] = False,
    follow_links: Annotated[
        bool, typer.Option("--follow-links", help="Also follow symbolic links out of these folders.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running and pick up changes until Ctrl-C.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Finish an interrupted run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Add files and folders. Unchanged files are skipped; a bad file does not stop the others."""
    if not paths and (watch or not resume):
        raise UsageError("nothing to add", hint="give files or folders, or use --resume")
    with desk_of(context) as desk, AddProgress(messages, quiet=as_json) as progress:
        desk.on_wait(lambda: messages.print("Another process is adding documents; waiting for it …"))
        options: dict[str, Any] = {
            "collection": collection,
            "metadata": pairs(metadata or [], "--meta"),
            "password": password,
            "follow_links": follow_links,
            "on_progress": progress.update,
            "on_added": progress.added,
        }
        try:
            if watch:
                for round_results in desk.watch(*(paths or []), **options):
                    progress.round_done(round_results)
            results = desk.add(*(paths or []), sync=sync, **options)
        except KeyboardInterrupt:
            progress.stop()
            messages.print("Stopped. Finished documents are in the library; the others are not.")
            raise typer.Exit(130) from None
    if as_json:
        print_json([result.to_dict() for result in results])
    else:
        show.added(out, results)
    raise typer.Exit(FAILED if any(result.outcome == "failed" for result in results) else DONE)


app.command("import")(import_chunks)
app.command()(airtable)
app.command()(summarise)
app.command()(tree)
app.command()(graph)


@app.command()
def search(
    context: typer.Context,
    text: Annotated[str, argument("TEXT", "Text to search for.")],
    k: TopK = None,
    method: Annotated[str, option("METHOD", "One of " + ", ".join(METHODS) + ".")] = "hybrid",
    collection: Collection = None,
    document: DocumentNames = None,
    kind: Annotated[list[str] | None, option("KIND", "Only text, table, list, code, figure …; repeatable.")] = None,
    pages: Annotated[str | None, option("PAGES", "Only these pages: 7, or 3-12.")] = None,
    date_from: Annotated[str, option("DATE", "Only documents dated on or after this day: 2024-01-31.")] = "",
    date_to: Annotated[str, option("DATE", "Only documents dated on or before this day.")] = "",
    metadata: Annotated[list[str] | None, option("NAME=VALUE", "Only documents with this metadata.", "--meta")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the best-matching passages, with page and lines. Exits with 3 if there are none."""
    with desk_of(context) as desk:
        hits = desk.search(
            text,
            k=k,
            method=method,  # type: ignore[arg-type]  # checked by the engine, which names the choices
            collection=collection,
            document=document,
            kind=kind,
            pages=_page_range(pages),
            date_from=date_from,
            date_to=date_to,
            metadata=pairs(metadata or [], "--meta"),
        )
        if as_json:
            print_json([hit.to_dict() for hit in hits])
        elif hits:
            show.hits(out, text, hits)
        else:
            is_empty = not desk.documents(status="ready")
            messages.print(show.EMPTY if is_empty else "Nothing found.")
    raise typer.Exit(DONE if hits else NOTHING)


@app.command("list")
def list_documents(
    context: typer.Context,
    collection: Collection = None,
    status: Annotated[str | None, option("STATUS", "Only documents with status " + ", ".join(STATUSES) + ".")] = None,
    as_json: AsJson = False,
) -> None:
    """List the documents."""
    with desk_of(context) as desk:
        found = desk.documents(collection=collection, status=status)
    if as_json:
        print_json(found)
    elif found:
        show.documents(out, found)
    elif collection or status:
        messages.print("No matching documents.")
    else:
        messages.print(show.EMPTY)


@app.command("show")
def show_document(
    context: typer.Context,
    name: DocumentName,
    page: Annotated[int | None, option("NUMBER", "Show the text of this page.", "--page", "-p")] = None,
    image: Annotated[Path | None, option("FILE", "Write the page as a PNG image to this file.")] = None,
    chunks: Annotated[bool, typer.Option("--chunks", help="Show the chunks.")] = False,
    tables: Annotated[bool, typer.Option("--tables", help="Show the tables found in it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a document, one of its pages, its chunks, or its tables."""
    with desk_of(context) as desk:
        document = desk.document(name)
        if tables:
            understood = [table for table in desk.tables(document.id) if page in (None, table.page)]
            if as_json:
                print_json([stored_table.to_dict() for stored_table in understood])
            else:
                show.tables(out, understood)
        elif image is not None:
            _write(image, desk.page_image(document.id, page or 1))
            messages.print(f"Page {page or 1} of {escape(document.name)} is in {escape(str(image))}.")
        elif page is not None:
            found = desk.pages(document.id, page)
            if not found:
                raise UsageError(f"{document.name} has pages 1 to {document.page_count}, not {page}")
            shown = {"page": page, "label": found[0].page.label, "text": found[0].text}
            tell(as_json, shown, escape(found[0].text, lines=True))
        elif chunks:
            pieces = desk.chunks(document.id)
            if as_json:
                print_json([piece.to_dict() for piece in pieces])
            else:
                show.chunks(out, pieces)
        elif as_json:
            print_json(document)
        else:
            show.document(out, document)


app.command()(rename)
app.command()(move)
app.command()(remove)


@app.command()
def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Check the installation and the library, and suggest fixes."""
    with desk_of(context) as desk:
        findings = list(examine(desk))
    if as_json:
        print_json(findings)
    else:
        table = show.table()
        for finding in findings:
            mark = styled(("ok", "green") if finding.well else ("problem", "red"))
            advice = "" if finding.well or not finding.advice else f"\n→ {escape(finding.advice)}"
            table.add_row(mark, finding.name, escape(finding.text) + advice)
        out.print(table)
    raise typer.Exit(DONE if all(finding.well for finding in findings) else FAILED)


@app.command()
def reindex(context: typer.Context) -> None:
    """Rebuild the search indexes and, after a change of embedder, the vectors."""
    with desk_of(context) as desk, CountProgress(messages, "reindexing", "chunks") as progress:
        count = desk.reindex(progress.update)
    messages.print(f"Indexed {count} chunks.")


@app.command()
def backup(context: typer.Context, file: Annotated[Path, argument("FILE", "The file to write.")]) -> None:
    """Write the whole library to one file. The library stays usable meanwhile."""
    damaged: list[str] = []
    with desk_of(context) as desk:
        written = desk.backup(file, on_damage=damaged.append)
    messages.print(f"Saved to {escape(str(written))} ({written.stat().st_size / 1e6:.1f} MB).")
    for name in damaged:
        messages.print(f"damaged  {escape(name)}: its original file is not in the backup", soft_wrap=True)
    raise typer.Exit(FAILED if damaged else DONE)


@app.command()
def restore(
    context: typer.Context,
    file: Annotated[Path, argument("FILE", "A file written by `refdesk backup`.")],
    replace: Annotated[bool, typer.Option("--replace", help="Replace the existing library.")] = False,
) -> None:
    """Restore a library from a backup."""
    folder = Refdesk.restore(file, context.obj["library"], replace=replace)
    messages.print(f"Restored to {escape(str(folder))}.")


@app.command()
def migrate(
    context: typer.Context,
    to: Annotated[str, option("TARGET", "postgresql://user:password@host/database, or a folder.")],
) -> None:
    """Copy the library to or from PostgreSQL, vectors included. Run it again to resume."""
    with desk_of(context) as desk, CountProgress(messages, "copying", "rows") as progress:
        rows = desk.migrate(to, progress.update)
    counted = f"{rows['documents']} documents, {rows['chunks']} chunks, {rows['vectors']} vectors"
    messages.print(f"Copied and compared: {counted}.")


@app.command()
def demo(
    context: typer.Context,
    documents: Annotated[Path | None, option("DIR", "Use the documents in this folder instead.")] = None,
) -> None:
    """Add the example documents and ask three questions about them."""
    with desk_of(context) as desk:
        raise typer.Exit(run_demo(desk, out, messages, documents))


def _page_range(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", text.strip())
    if found is None:
        raise UsageError(f"--pages takes a page or a range such as 3-12, not '{text}'")
    return int(found[1]), int(found[2] or found[1])


def _write(file: Path, data: bytes) -> None:
    try:
        file.write_bytes(data)
    except OSError as error:
        raise LibraryError(f"{file} cannot be written: {error.strerror or error}") from error
