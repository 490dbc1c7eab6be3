"""`refdesk model`: a model is connected by options or by questions on a terminal, and saved only if it answers."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import run_refdesk
from wire_server import WireServer

KEY = "sk-typed-in-a-terminal-7c1d"
RIGHT = "The anchor weighs 350 kg. [1]"


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with WireServer() as found:
        found.models, found.key = ["test-model", "other-model"], KEY
        yield found


def model(library: Path, *arguments: str) -> tuple[int, str, str]:
    done = run_refdesk("--library", library, "model", *arguments)
    return done.returncode, done.stdout, done.stderr


def test_connected_listed_tested_and_disconnected(tmp_path: Path, wire: WireServer) -> None:
    library = tmp_path / "library"
    assert "No model is connected" in model(library, "list")[2]
    given = ("--provider", "openai", "--address", f"{wire.url}/v1", "--key", KEY)
    code, out, _ = model(library, "list", *given)
    assert code == 0 and out.split() == ["other-model", "test-model"]
    wire.say("I am a helpful assistant.")
    code, _, said = model(library, "connect", *given, "--model", "test-model")
    assert code == 2 and "did not answer from the given passage" in said
    assert "No model is connected" in model(library, "list")[2], "saved only if it works"
    wire.say(RIGHT)
    code, out, _ = model(library, "connect", *given, "--model", "test-model", "--json")
    found = json.loads(out)
    assert code == 0 and found["model"] == "openai:test-model" and found["trial"]["cites"]
    code, out, _ = model(library, "list")
    assert "openai:test-model" in out and "…7c1d" in out and KEY not in out
    wire.say("About 350 kg.")
    code, out, _ = model(library, "test")
    assert code == 0 and "answered without citing it" in out
    wire.say("Who knows?")
    assert model(library, "test")[0] == 1
    assert "openai:test-model is disconnected." in model(library, "disconnect")[2]
    assert not json.loads((library / "providers.json").read_text()), "its key is forgotten"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--provider is missing"),
        (("--provider", "nobody"), "there is no provider 'nobody'"),
        (("--provider", "openai"), "--model is missing"),
        (("--provider", "openai", "--model", "x", "--role", "cook"), "there is no role 'cook'"),
        (("--provider", "gguf", "--model", "/no/such.gguf"), "there is no file /no/such.gguf"),
    ],
    ids=["nothing", "provider", "model", "role", "file"],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    code, _, error = model(tmp_path / "library", "connect", *arguments)
    assert code == 2 and said in error.lower().replace("’", "'") and len(error.splitlines()) <= 2


def test_a_key_from_standard_input(tmp_path: Path, wire: WireServer) -> None:
    wire.say(RIGHT)
    options = ["--provider", "openai", "--address", f"{wire.url}/v1", "--model", "test-model", "--key", "-"]
    command = [sys.executable, "-m", "refdesk", "--library", str(tmp_path / "library"), "model", "connect", *options]
    done = subprocess.run(command, input=f"{KEY}\n", capture_output=True, text=True, check=False)
    assert done.returncode == 0 and wire.requests[-1].key == KEY


def test_on_a_terminal_what_is_missing_is_asked_for(tmp_path: Path, wire: WireServer) -> None:
    wire.say(RIGHT)
    own, theirs = pty.openpty()
    command = [sys.executable, "-m", "refdesk", "--library", str(tmp_path / "library"), "model", "connect"]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stderr is not None
    said = b""
    for prompt, typed in (
        (b"gguf):", "openai"),
        (b"/v1]:", f"{wire.url}/v1"),
        (b"API key: ", KEY),  # the blank comes when what is typed is hidden: what was typed before is thrown away
        (b"Model:", "test-model"),
    ):
        seen = len(said)
        while prompt not in said[seen:]:
            more = os.read(process.stderr.fileno(), 1000)
            assert more, said
            said += more
        os.write(own, f"{typed}\n".encode())
    _, rest = process.communicate(timeout=120)
    assert process.returncode == 0 and b"is connected" in rest and KEY.encode() not in said + rest
    assert b"other-model" in said, "the models that it has"
