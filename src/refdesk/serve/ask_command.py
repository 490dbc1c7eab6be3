"""`refdesk ask` and `refdesk chat`: one question, or a conversation."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from refdesk.answer import Answer
from refdesk.engine import Refdesk
from refdesk.errors import RefdeskError
from refdesk.serve import answers
from refdesk.serve.show import escape

HELP = "/open N shows the page of citation N, /new begins anew, /quit ends (so does Ctrl-D)"


def ask_once(desk: Refdesk, question: str, messages: Console, **options: Any) -> Answer:
    """Asks and shows the stages on the terminal; Ctrl-C ends the work and says so."""
    return asyncio.run(answers.follow(desk.ask(question, **options), messages, live=messages.is_terminal))


def open_page(desk: Refdesk, answer: Answer, marker: int, messages: Console) -> Path | None:
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
    messages.print(f"Page {cited.page} of {escape(cited.document_name)}, lines marked: {escape(str(file))}")
    typer.launch(str(file))
    return file


def chat(desk: Refdesk, out: Console, messages: Console, conversation_id: str, options: Mapping[str, Any]) -> None:
    """A conversation: each question may lean on those before; it can be gone on with by its id."""
    conversation_id = conversation_id or uuid.uuid4().hex
    messages.print(f"[dim]{escape(HELP)}[/]")
    last: Answer | None = None
    while True:
        try:
            line = messages.input("\n[bold]›[/] ").strip()
        except (EOFError, KeyboardInterrupt):
            break
        if line in ("/quit", "/exit"):
            break
        if line == "/new":
            conversation_id, last = uuid.uuid4().hex, None
            messages.print("[dim]A new conversation.[/]")
        elif line.startswith("/open"):
            number = line.removeprefix("/open").strip() or "1"
            if last is None or not number.isdigit():
                messages.print("Ask something first, then /open 1.")
            else:
                _told(lambda: open_page(desk, last, int(number), messages), messages)  # type: ignore[arg-type]
        elif line.startswith("/"):
            messages.print(f"[dim]{escape(HELP)}[/]")
        elif line:
            last = _answered(desk, line, out, messages, conversation_id, options) or last
    messages.print(f"\n[dim]Go on with it later: refdesk chat --conversation {conversation_id}[/]")


def _answered(
    desk: Refdesk, line: str, out: Console, messages: Console, conversation_id: str, options: Mapping[str, Any]
) -> Answer | None:
    try:
        answer = ask_once(desk, line, messages, conversation_id=conversation_id, **options)
    except KeyboardInterrupt:
        messages.print("[dim]Stopped.[/]")
        return None
    except RefdeskError as error:
        messages.print(f"[red]{escape(error.sentence)}.[/]", soft_wrap=True)
        return None
    answers.show(out, answer)
    return answer


def _told(action: Any, messages: Console) -> None:
    try:
        action()
    except RefdeskError as error:
        messages.print(f"[red]{escape(error.sentence)}.[/]", soft_wrap=True)
