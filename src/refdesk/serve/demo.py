"""`refdesk demo`: the example documents, three questions, and answers in which every sentence is proved."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console

from refdesk.engine import Refdesk
from refdesk.errors import UsageError
from refdesk.serve import answers, show
from refdesk.serve.progress import AddProgress
from refdesk.serve.show import escape, styled

COLLECTION = "examples"
QUESTIONS = (
    "What caused the drift of the pressure sensors?",
    "How long does the battery of the WB-7 buoy last?",
    "What does Skerry pay each year for the use of the seabed?",  # stands in a scan
)


def example_folder() -> Path:
    """The examples: inside an installed package, or beside the source."""
    package = Path(__file__).resolve().parent.parent
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
