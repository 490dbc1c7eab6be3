"""`refdesk import`, `airtable`, `summarise`, `tree` and `graph`: imports, and what a model makes of documents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from refdesk.caller_desk import DEFAULT_COLLECTION
from refdesk.errors import UsageError
from refdesk.serve.cli import show
from refdesk.serve.cli.main import DONE, FAILED, pairs
from refdesk.serve.cli.show import (
    AsJson,
    CountProgress,
    argument,
    desk_of,
    escape,
    messages,
    option,
    out,
    print_json,
    tell,
)
from refdesk.types import Added, JobKind

Place = Annotated[str, option("PATH", "Where to put the documents, e.g. finance/2024.", "--collection", "-c")]
Some = Annotated[str, option("PATH", "Only documents in this collection.", "--collection", "-c")]


def import_chunks(
    context: typer.Context,
    file: Annotated[Path, argument("FILE", "JSONL with one chunk per line; - reads standard input.")],
    collection: Place = DEFAULT_COLLECTION,
    metadata: Annotated[
        list[str] | None, option("NAME=VALUE", "Metadata for all documents; repeatable.", "--meta")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Import chunks made by another program, as JSONL. Unchanged documents are skipped."""
    with desk_of(context) as desk:
        source = Path("/dev/stdin") if str(file) == "-" else file
        results = desk.import_chunks(source, collection=collection, metadata=pairs(metadata or [], "--meta"))
    _show(results, as_json)


def airtable(
    context: typer.Context,
    base: Annotated[str, argument("BASE", "Base id: app…")],
    table: Annotated[str, argument("TABLE", "Table id or name.")],
    field: Annotated[
        list[str] | None,
        option("NAME=FIELD", "Map a field to its Airtable name: content_raw=Text; repeatable.", "--field"),
    ] = None,
    collection: Place = DEFAULT_COLLECTION,
    formula: Annotated[
        str, option("FORMULA", "Only records that match this Airtable formula: {Status} = 'ready'.")
    ] = "",
    full: Annotated[
        bool,
        typer.Option("--full", help="Read all records again and remove documents that no longer exist in Airtable."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Add the records of an Airtable table as chunks; later runs fetch only changes. Needs AIRTABLE_API_KEY."""
    with desk_of(context) as desk:
        mapped = pairs(field or [], "--field")
        results = desk.add_airtable(base, table, fields=mapped, collection=collection, formula=formula, full=full)
    _show(results, as_json)


def summarise(
    context: typer.Context,
    collection: Some = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a model summarise every chunk, for surveys. Shows the cost first."""
    _by_model(context, collection, "summaries", is_agreed=yes, as_json=as_json)


def graph(
    context: typer.Context,
    collection: Some = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Let a model find names and relations in every chunk, for the graph. Shows the cost first."""
    _by_model(context, collection, "graph", is_agreed=yes, as_json=as_json)


SAID = {  # of a job: what it does, with what, and what was done with them
    "summaries": ("Summing up", "chunks", "summarised"),
    "tree_summaries": ("Summing up", "sections and documents", "summarised"),
    "graph": ("Reading", "chunks", "read for names and relations"),
}


def _by_model(context: typer.Context, collection: str, kind: JobKind, *, is_agreed: bool, as_json: bool) -> None:
    """A job for which a model is asked: its cost, then the question whether to begin, then the job."""
    with desk_of(context) as desk:
        estimate, begin = {
            "tree_summaries": (desk.tree_summary_cost, desk.summarise_tree),
            "graph": (desk.graph_cost, desk.extract_graph),
        }.get(kind, (desk.summary_cost, desk.summarise))
        doing, what, done = SAID[kind]
        cost = estimate(collection)
        if not as_json or not is_agreed:
            messages.print(escape(f"{cost.sentence}."))
        if not cost.chunks:
            tell(as_json, cost.to_dict() | {"status": "ready", "reason": ""}, "There is nothing to do.", messages)
            return
        if not is_agreed:
            if not sys.stdin.isatty():
                raise UsageError("nothing was started", hint="use --yes to start")
            typer.confirm("Begin?", abort=True, err=True)
        with CountProgress(messages, doing, what) as progress:
            job = begin(collection, on_progress=lambda now: progress.update(now.chunks_done, now.chunks_total))
    message = f"{job.chunks_done:,} {what} {done}" + (f"; {job.reason}." if job.reason else ".")
    tell(as_json, cost.to_dict() | {"status": job.status, "reason": job.reason}, message)


def tree(
    context: typer.Context,
    collection: Some = "",
    by_model: Annotated[
        bool, typer.Option("--by-model", help="Let a model write the summaries; shows the cost first.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Start without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Summarise sections, documents and groups of documents. Unchanged ones are skipped."""
    if by_model:
        _by_model(context, collection, "tree_summaries", is_agreed=yes, as_json=as_json)
        return
    with desk_of(context) as desk, CountProgress(messages, "Building the tree", "chunks") as progress:
        job = desk.build_tree(collection, on_progress=lambda now: progress.update(now.chunks_done, now.chunks_total))
    message = f"The tree is built: {job.chunks_total:,} new chunks." if job.chunks_total else "The tree is up to date."
    tell(as_json, {"status": job.status, "chunks": job.chunks_total}, message)


def _show(results: list[Added], as_json: bool) -> None:
    if as_json:
        print_json([result.to_dict() for result in results])
    else:
        show.added(out, results)
    raise typer.Exit(FAILED if any(result.outcome == "failed" for result in results) else DONE)
