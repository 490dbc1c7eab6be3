"""What a document, a file's name or a question says reaches the terminal to the letter: it is never markup."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from conftest import REFDESK, run_refdesk
from timing import PATIENCE_S

ODD = "7:x:4, A:100:B, [red]red[/red], [link=http://a.b]c[/link], C:\\[x] :smile: [b]"
SENTENCE = f"The mooring code of the pilot boat is {ODD} on page\u00a0two of می\u200cخواهم."
assert len(SENTENCE) < 160, "a quote in the table of sources is cut there"
STEERING = "The anchor\x1b]0;owned\x07 of the pilot boat weighs\x1b[2J 350\x9b31m kg \u202e053."
NAME = "boat :x: [red]list.txt"
STEERING_NAME = "anchor\x1b[2J[bold] :100:.txt"
STYLE = re.compile(r"\x1b\[[0-9;]*m")  # colours, which are ours
OURS = re.compile(r"\x1b\[\?25[lh]|\x1b\[[012]?K|\x1b\[1A|\r")  # what draws the stages anew


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = tmp_path_factory.mktemp("files")
    (files / NAME).write_text(f"{SENTENCE}\n", encoding="utf-8")
    (files / STEERING_NAME).write_text(f"{STEERING}\n", encoding="utf-8")
    (files / "broken :x: [red].pdf").write_bytes(b"%PDF-1.7 nothing")
    folder = tmp_path_factory.mktemp("text") / "library :x: [red]"
    done = run_refdesk("--library", folder, "add", files, "-c", "a:x:b")
    assert "broken :x: [red].pdf:" in done.stderr and "failed" in done.stderr
    return folder


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["ask", "What is the mooring code of the pilot boat?"],
        ["search", "mooring code of the pilot boat"],
        ["show", NAME, "--page", "1"],
        ["show", NAME, "--chunks"],
    ],
    ids=["ask", "search", "page", "chunks"],
)
def test_a_documents_text_is_shown_to_the_letter(library: Path, arguments: list[str]) -> None:
    piped = run_refdesk("--library", library, *arguments)
    assert flat(SENTENCE) in flat(piped.stdout), piped.stdout + piped.stderr
    assert flat(SENTENCE) in flat(STYLE.sub("", on_a_terminal(library, *arguments)))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list"], [f" {NAME} ", "broken :x: [red].pdf:"]),
        (["show", NAME], [NAME, "a:x:b"]),
        (["ask", "What is the mooring code of the pilot boat?", "--trace"], [f"{NAME} ", "page 1"]),
        (["doctor"], ["library :x: [red] takes"]),
        (["keys", "add", "anna :x: [red]"], ["Key for anna :x: [red], reader"]),
        (["keys", "list"], ["anna :x: [red]"]),
        (["ask", ":x: [red]?", "--document", "[red]:x:"], ["no document '[red]:x:'"]),
        (["move", NAME, "--to", "c:x:d"], [f"moved {NAME} to c:x:d"]),
        (["backup", "{folder}/b:x:[red].tar"], ["b:x:[red].tar"]),
    ],
    ids=lambda value: "-".join(value[:2])[:20] if isinstance(value, list) else None,
)
def test_names_are_shown_to_the_letter(library: Path, arguments: list[str], said: list[str], tmp_path: Path) -> None:
    done = run_refdesk("--library", library, *(one.format(folder=tmp_path) for one in arguments))
    shown = done.stdout + done.stderr
    for text in said:
        assert text in shown, shown
    assert "❌" not in shown and "💯" not in shown


def test_no_control_character_of_a_document_reaches_the_terminal(library: Path) -> None:
    question = "How much does the anchor of the pilot boat weigh?"
    for arguments in (["ask", question], ["search", question], ["list"], ["ask", question, "--json"]):
        bare = STYLE.sub("", OURS.sub("", on_a_terminal(library, *arguments)))
        assert not set(bare) & {"\x1b", "\x07", "\x9b", "\u202e"}, repr(bare)
        assert "anchor" in bare


def test_json_says_what_the_document_says(library: Path) -> None:
    kept = json.loads(run_refdesk("--library", library, "search", "mooring code 7:x:4", "--json").stdout)
    assert flat(SENTENCE) in flat(kept[0]["text"])
    found = {one["document_name"]: one["text"] for one in kept}
    assert STEERING_NAME in found, found


def test_a_conversation_shows_questions_and_answers_to_the_letter(library: Path) -> None:
    done = subprocess.run(
        [str(REFDESK), "--library", str(library), "chat"],
        input="What is the mooring code of the pilot boat?\n/quit\n",
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        env={name: value for name, value in os.environ.items() if not name.startswith(("REFDESK_", "COLUMNS"))},
    )
    assert flat(SENTENCE) in flat(done.stdout), done.stdout + done.stderr


def on_a_terminal(library: Path, *arguments: str) -> str:
    """What a terminal of 300 columns is sent."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REFDESK_")}
    running = subprocess.Popen(
        [str(REFDESK), "--library", str(library), *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment | {"TERM": "xterm-256color", "COLUMNS": "300"},
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    running.wait(PATIENCE_S)
    os.close(ours)
    return b"".join(parts).decode()
