"""`refdesk ask` and `refdesk chat`: one question, or a conversation."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from refdesk.answer import Answer
from refdesk.arguments import LEVELS
from refdesk.desk import Refdesk
from refdesk.errors import RefdeskError, UsageError
from refdesk.serve.cli import answers, show
from refdesk.serve.cli.main import DONE, NOTHING
from refdesk.serve.cli.show import (
    AddProgress,
    AsJson,
    Collection,
    DocumentNames,
    TopK,
    desk_of,
    escape,
    messages,
    out,
    print_json,
    styled,
)

LevelName = Annotated[
    str | None, typer.Option("--level", metavar="LEVEL", help="How much is done: " + ", ".join(LEVELS) + ".")
]
ModeName = Annotated[
    str | None,
    typer.Option("--mode", metavar="MODE", help="How much is checked: quick, standard, thorough; or general."),
]
Verbatim = Annotated[bool, typer.Option("--verbatim", help="Search for the very words: no correction, no rewriting.")]
ConversationId = Annotated[
    str,
    typer.Option("--conversation", metavar="ID", help="Go on with this conversation, or begin one under this name."),
]
HELP = "/open N shows the page of citation N, /new begins anew, /quit ends (so does Ctrl-D)"


def ask(
    context: typer.Context,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you want to know.", show_default=False)],
    k: TopK = None,
    level: LevelName = None,
    mode: ModeName = None,
    collection: Collection = None,
    document: DocumentNames = None,
    verbatim: Verbatim = False,
    conversation: ConversationId = "",
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not answer from the cache.")] = False,
    open_image: Annotated[
        bool, typer.Option("--open", help="Show the page of the first citation as an image, its lines marked.")
    ] = False,
    trace: Annotated[
        bool, typer.Option("--trace", help="Show what each stage took and gave, and every passage that was looked at.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Answer a question, every sentence with page and lines. The exit code is 3 when the documents do not say it."""
    with desk_of(context) as desk:
        options = {"level": level, "mode": mode, "collection": collection, "document": document, "verbatim": verbatim}
        answer = ask_once(desk, question, k=k, conversation_id=conversation, cache=not no_cache, **options)
        if as_json:
            print_json(answer.to_dict() | ({"trace": desk.trace(answer.id)} if trace else {}))
        else:
            answers.show(out, answer)
            if trace:
                answers.show_trace(out, desk.trace(answer.id))
        if open_image and answer.citations:
            open_page(desk, answer, answer.citations[0].marker)
    raise typer.Exit(DONE if answer.is_answered or answer.route != "needs_retrieval" else NOTHING)


def chat(
    context: typer.Context,
    conversation: ConversationId = "",
    level: LevelName = None,
    mode: ModeName = None,
    collection: Collection = None,
    document: DocumentNames = None,
    verbatim: Verbatim = False,
) -> None:
    """Ask one question after another. Each may lean on those before; Ctrl-C stops an answer, Ctrl-D ends."""
    options = {"level": level, "mode": mode, "collection": collection, "document": document, "verbatim": verbatim}
    with desk_of(context) as desk:
        converse(desk, conversation, options)


def ask_once(desk: Refdesk, question: str, **options: Any) -> Answer:
    """Asks and shows the stages on the terminal; Ctrl-C ends the work and says so."""
    return asyncio.run(answers.follow(desk.ask(question, **options), messages, live=messages.is_terminal))


def open_page(desk: Refdesk, answer: Answer, marker: int) -> Path | None:
    """Writes the page that a citation stands on as an image, its lines marked, and opens it where there is a screen."""
    cited = next((one for one in answer.citations if one.marker == marker), None)
    if cited is None:
        messages.print(f"There is no citation {marker}.")
        return None
    boxes = [box for box in cited.boxes if box.page == cited.page]
    image = desk.page_image(cited.document_id, cited.page, width=1400, boxes=boxes)
    folder = Path(tempfile.mkdtemp(prefix="refdesk-"))
    file = folder / f"{Path(cited.document_name).stem}-page-{cited.page}.png"
    file.write_bytes(image)
    messages.print(styled(f"Page {cited.page} of {cited.document_name}, lines marked: {file}"))
    if sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        typer.launch(str(file))  # without a screen, the path is what there is
    return file


def converse(desk: Refdesk, conversation_id: str, options: Mapping[str, Any]) -> None:
    """A conversation: each question may lean on those before; it can be gone on with by its id."""
    conversation_id = conversation_id or uuid.uuid4().hex
    messages.print(styled((HELP, "dim")))
    last: Answer | None = None
    while True:
        try:
            line = messages.input(styled("\n", ("›", "bold"), " ", lines=True)).strip()
        except (EOFError, KeyboardInterrupt):
            break
        if line in ("/quit", "/exit"):
            break
        if line == "/new":
            conversation_id, last = uuid.uuid4().hex, None
            messages.print(styled(("A new conversation.", "dim")))
        elif line.startswith("/open"):
            number = line.removeprefix("/open").strip() or "1"
            if last is None or not number.isdigit():
                messages.print("Ask something first, then /open 1.")
            else:
                _opened(desk, last, int(number))
        elif line.startswith("/"):
            messages.print(styled((HELP, "dim")))
        elif line:
            last = _answered(desk, line, conversation_id, options) or last
    messages.print()
    messages.print(styled((f"Go on with it later: refdesk chat --conversation {conversation_id}", "dim")))


def _answered(desk: Refdesk, line: str, conversation_id: str, options: Mapping[str, Any]) -> Answer | None:
    try:
        answer = ask_once(desk, line, conversation_id=conversation_id, **options)
    except KeyboardInterrupt:
        messages.print(styled(("Stopped.", "dim")))
        return None
    except RefdeskError as error:
        messages.print(styled((f"{error.sentence}.", "red")), soft_wrap=True)
        return None
    answers.show(out, answer)
    return answer


def _opened(desk: Refdesk, answer: Answer, marker: int) -> None:
    try:
        open_page(desk, answer, marker)
    except RefdeskError as error:
        messages.print(styled((f"{error.sentence}.", "red")), soft_wrap=True)


# `refdesk demo`: the example documents, three questions, and answers in which every sentence is proved.

COLLECTION = "examples"
QUESTIONS = (
    "What caused the drift of the pressure sensors?",
    "How long does the battery of the WB-7 buoy last?",
    "What does Skerry pay each year for the use of the seabed?",  # stands in a scan
)


def example_folder() -> Path:
    """The examples: inside an installed package, or beside the source."""
    package = Path(__file__).resolve().parent.parent.parent
    for folder in (package / "assets" / "examples", package.parent.parent / "examples" / "documents"):
        if folder.is_dir():
            return folder
    raise UsageError("the example documents are not installed", hint="name a folder with --documents")


def run_demo(desk: Refdesk, out: Console, messages: Console, documents: Path | None) -> int:
    """Adds and asks; gives the exit code."""
    folder = documents or example_folder()
    messages.print(f"Adding {escape(str(folder))} to {escape(str(desk.folder))} …")
    with AddProgress(messages, quiet=False) as progress:
        results = desk.add(folder, collection=COLLECTION, on_progress=progress.update, on_added=progress.added)
    show.added(out, results)
    for question in QUESTIONS:
        out.print(styled("\n", (question, "bold"), "\n", lines=True))
        answers.show(out, desk.ask_sync(question, collection=COLLECTION, cache=False))
    # As it was called: after `make demo` the program is .venv/bin/refdesk.
    out.print(f'\nNow yours:  {escape(sys.argv[0])} --library {escape(str(desk.folder))} ask "…"')
    return 1 if any(one.outcome == "failed" for one in results) else 0
