"""What the program does today, seen from outside: any change of it fails here and is either a mistake or meant.

Nothing of Refdesk's inside is imported, so that all of it may be moved: only the public names, the installed command,
HTTP and the page are used. `make golden` writes the files anew; golden_files.py says how they are compared.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from playwright.sync_api import Page, Request, expect

import refdesk
from browser import ask, browsing, tab
from conftest import REFDESK, ROOT, run_refdesk
from golden_files import GOLDEN, IS_WRITING, check, check_entries, shape
from golden_model import answer
from http_server import Server, served
from onnx_samples import adds_exactly
from refdesk import Refdesk, Settings
from wire_server import Recorded, WireServer

ANCHOR = "How heavy is the anchor of the standard wave buoy mooring?"
MODELS = ("no model", "model")


def questions() -> dict[str, dict[str, Any]]:
    """The questions of the examples and those that only this test asks, by number and text."""
    examples = json.loads((ROOT / "examples" / "questions.json").read_text(encoding="utf-8"))
    more = json.loads((GOLDEN / "questions.json").read_text(encoding="utf-8"))
    every = [*({"question": one["question"]} for one in examples), *more]
    return {f"{number:02} {one.get('name') or one['question']}": one for number, one in enumerate(every, 1)}


QUESTIONS = questions()
# Their prompts are kept whole, to be read when the digest of one has changed: a question of each kind.
READABLE = ("13", "34", "35", "41", "43", "45", "47", "53", "56", "58", "60")


@pytest.fixture(scope="module")
def library(examples_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Copies of the examples, one for each server."""
    return lambda name: Path(shutil.copytree(examples_folder, tmp_path_factory.mktemp(name) / "library"))


@pytest.fixture(scope="module")
def server(library: Callable[[str], Path]) -> Iterator[Server]:
    with served(library("plain")) as found:
        yield found


@pytest.fixture(scope="module")
def model() -> Iterator[WireServer]:
    with WireServer() as found:
        found.answer_by(answer)
        yield found


@pytest.fixture(scope="module")
def server_with_model(library: Callable[[str], Path], model: WireServer) -> Iterator[Server]:
    with served(library("model"), **model.openai_env()) as found:
        yield found


# answers and prompts


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_without_a_model(server: Server, name: str) -> None:
    check_answer("answers-no-model.json", told(asked(server, QUESTIONS[name])), name)


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_with_a_model(server_with_model: Server, model: WireServer, name: str) -> None:
    before = len(model.requests)
    found = told(asked(server_with_model, QUESTIONS[name]))
    prompts = sorted(map(prompt, model.requests[before:]))
    if name[:2] in READABLE:  # first, because its difference can be read
        check_answer(f"prompts/{name[:2]}.txt", "\n".join(prompts))
    check_answer("answers-model.json", found | {"prompts": [digest(one) for one in prompts]}, name)


ROLES = ("router", "summariser", "verifier", "reconciler")


@pytest.fixture
def every_role(server_with_model: Server) -> Iterator[Server]:
    """A model for each thing that a model can do; otherwise one only answers and rewrites."""
    named = {f"llm.{role}": f"openai:{role}" for role in ROLES}
    assert server_with_model.request("PATCH", "/api/settings", json=named).status_code == 200
    yield server_with_model
    for name in named:
        server_with_model.request("DELETE", f"/api/settings/{name}")


@pytest.mark.parametrize("number", ["13", "41", "58"])
def test_an_answer_with_a_model_for_every_role(every_role: Server, model: WireServer, number: str) -> None:
    (name,) = (one for one in QUESTIONS if one.startswith(number))
    before = len(model.requests)
    found = told(asked(every_role, QUESTIONS[name] | {"mode": "thorough"}))
    prompts = sorted(map(prompt, model.requests[before:]))
    check_answer(
        "answers-every-role.json", found | {"models": sorted(one.model for one in model.requests[before:])}, name
    )
    check_answer(f"prompts/every-role-{number}.txt", "\n".join(prompts))


@pytest.mark.parametrize("file", ["answers-no-model.json", "answers-model.json"])
def test_no_answer_is_left_over(file: str) -> None:
    check_entries(file, list(QUESTIONS))


def check_answer(name: str, value: Any, entry: str | None = None) -> None:
    """As `check`; what is found hangs on vectors, of which there are two kinds of processor to make them."""
    here = {"adds 8-bit products exactly": adds_exactly()}
    if IS_WRITING:
        check("processor.json", here)
    try:
        check(name, value, entry)
    except pytest.fail.Exception:
        if here == json.loads((GOLDEN / "processor.json").read_text(encoding="utf-8")):
            raise
        pytest.skip("the golden answers are of a processor that adds 8-bit products otherwise, and embeds otherwise")


def asked(server: Server, given: dict[str, Any]) -> dict[str, Any]:
    """The answer to a question, or to the last of a conversation; never one from the cache."""
    body = {key: value for key, value in given.items() if key not in ("name", "question", "before")} | {"cache": False}
    if "before" not in given:
        return answered(server, "/api/query", body | {"question": given["question"]})
    talk: dict[str, Any] = {}
    for message in [*given["before"], given["question"]]:
        found = answered(server, "/api/chat", body | {"message": message} | talk)
        talk = {"conversation_id": found["conversation_id"]}
    return found


def answered(server: Server, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = server.post(path, json=body)
    assert response.status_code == 200, response.text
    return dict(response.json())


# What is made at random or by the clock, and other names for what is there already (test_the_shape_of_an_answer).
LEFT_OUT = {
    "": "id trace_id query_id session_id conversation_id settings_fingerprint metrics question answer relatedDocs"
    " metadata confidence_score confidence_level context_sufficiency",
    "citations": "document_id chunk_id doc_id docId doc_name title section similarity score matched sourceUrls"
    " page_number snippet text bbox",
    "sources": "document_id doc_id doc_name chunk_id chunk_sequence heading_path page_number snippet relevance_score"
    " similarity_score url chunks",
    "related_documents": "document_id",
    "figures": "document_id",
}


def told(found: dict[str, Any]) -> dict[str, Any]:
    """What an answer says, without what differs from run to run."""
    kept = _without(found, "")
    for part in ("citations", "sources", "related_documents", "figures"):
        kept[part] = [_without(one, part) for one in kept[part]]
    for one in kept["citations"]:
        one["boxes"] = [[box["page"], *(round(box[side], 1) for side in SIDES)] for box in one["boxes"]]
    return kept | {"chunks_retrieved": found["metrics"].get("chunks_retrieved")}


NUMBERED = r"^\[\d+\] "
SIDES = ("x", "y", "width", "height")


def _without(value: dict[str, Any], part: str) -> dict[str, Any]:
    return {key: one for key, one in value.items() if key not in LEFT_OUT[part].split()}


def prompt(request: Recorded) -> str:
    """A request to the model as a page to read."""
    options = {key: value for key, value in request.json.items() if key != "messages"}
    messages = [f"--- {one['role']}\n{one['content']}" for one in request.json["messages"]]
    return "\n".join([f"=== {json.dumps(options, sort_keys=True)}", *messages, ""])


def digest(text: str) -> str:
    """Of a prompt with the number of its passages: the last ones are nearly even, and change with the processor."""
    head, begin, rest = text.partition("=====BEGIN PASSAGES=====\n")
    passages, end, tail = rest.partition("=====END PASSAGES=====\n")
    counted = f"{head}{begin}{len(re.findall(NUMBERED, passages, re.M))}{end}{tail}"
    return hashlib.sha256(counted.encode()).hexdigest()[:16]


# what is served


def test_openapi(server: Server) -> None:
    check("openapi.json", server.get("/openapi.json").json())


def test_the_shape_of_an_answer(server: Server) -> None:
    check(
        "answer-shape.json", {path: shape(answered(server, path, {key: ANCHOR, "cache": False})) for path, key in PATHS}
    )


PATHS = (("/api/query", "question"), ("/api/chat", "message"))


@pytest.mark.parametrize("which", MODELS)
def test_a_stream(request: pytest.FixtureRequest, which: str) -> None:
    server: Server = request.getfixturevalue("server" if which == "no model" else "server_with_model")
    events = server.events("/api/chat/stream", {"message": ANCHOR, "cache": False})
    names = [name for name, _, _ in events]
    order = [name for number, name in enumerate(names) if number == 0 or names[number - 1] != name]
    shapes = {name: [shape(data) for one, data, _ in events if one == name][-1] for name in names}
    check("stream.json", {"order": order, "shapes": shapes}, which)


def test_openai_routes(server: Server) -> None:
    body = {"model": "refdesk", "messages": [{"role": "user", "content": ANCHOR}]}
    done = server.post("/v1/chat/completions", json=body).json()
    check("openai.json", {"models": server.get("/v1/models").json(), "completion": shape(done)})


def test_mcp_tools(tmp_path: Path) -> None:
    async def tools() -> list[dict[str, Any]]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("REFDESK_")}
        arguments = ["--library", str(tmp_path / "library"), "mcp"]
        command = StdioServerParameters(command=str(REFDESK), args=arguments, env=environment)
        async with Client(command, read_timeout_seconds=60) as client:
            listed = (await client.list_tools()).tools
            return [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in listed]

    check("mcp-tools.json", {one["name"]: one for one in asyncio.run(tools())})


# the command line

# Every help text in one process: a process each would take half a minute.
HELP = """
import contextlib, importlib.metadata, io, json, re, sys

(command,) = importlib.metadata.entry_points(group="console_scripts", name="refdesk")
main, found = command.load(), {}

def walk(path):
    out, sys.argv = io.StringIO(), ["refdesk", *path, "--help"]
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main()
    text = found[" ".join(["refdesk", *path])] = out.getvalue()
    for name in re.findall(r"^  ([a-z][a-z-]*)  ", text.partition("\\nCommands:\\n")[2], re.M):
        walk([*path, name])

walk([])
print(json.dumps(found))
"""


def test_help() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REFDESK_")}
    done = subprocess.run(
        [sys.executable, "-c", HELP], env=environment | {"COLUMNS": "80"}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) > 20 and all(found.values())
    check("help.txt", "\n".join(f"=== {name} --help\n{text}" for name, text in found.items()))


def test_ask_on_the_command_line(library: Callable[[str], Path]) -> None:
    folder = library("command")
    plain = run_refdesk("--library", folder, "ask", ANCHOR)
    as_json = run_refdesk("--library", folder, "ask", "--no-cache", "--json", ANCHOR)
    assert as_json.returncode == 0, as_json.stderr
    text = re.sub(r"\d+\.\d+(?=\)| s$)", "…", plain.stdout, flags=re.M)  # how sure, and how long it took
    lines = [line.rstrip() for line in text.splitlines()]
    check("ask.json", {"code": plain.returncode, "text": lines, "json": shape(json.loads(as_json.stdout))})


# the public names


def test_public_names() -> None:
    found = {name: described(getattr(refdesk, name)) for name in refdesk.__all__}
    found["Settings"] = {"values": {name: value for name, value, _ in Settings().items()}}
    check("public-names.json", found)


def described(value: type) -> dict[str, Any]:
    """A class as its users see it, without the modules that its parts live in."""
    inherited = {*dir(tuple), *dir(Exception)}
    names = [name for name in dir(value) if not name.startswith("_") and name not in inherited]
    found = {name: getattr(value, name) for name in names}
    calls = {name: signature(one) for name, one in found.items() if inspect.isroutine(one) and callable(one)}
    bases = [one.__name__ for one in value.__mro__[1:] if one is not object]
    own = {"bases": bases, "call": signature(value), "calls": calls, "fields": sorted(set(names) - set(calls))}
    return {key: one for key, one in own.items() if one}


def signature(value: Any) -> list[str]:
    found = inspect.signature(value)
    parameters = [str(one) for one in found.parameters.values() if one.name != "self"]
    kinds = [one.kind.description for one in found.parameters.values() if one.name != "self"]
    lines = [f"{one}  ({kind})" if kind == "keyword-only" else one for one, kind in zip(parameters, kinds, strict=True)]
    returned = [] if found.return_annotation is inspect.Signature.empty else [f"-> {found.return_annotation}"]
    plain = [re.sub(r"\b(?:[a-z_]\w*\.)+(?=\w)|ForwardRef\('(\w+)'\)", r"\1", line) for line in [*lines, *returned]]
    return [re.sub(r"<function .*? at 0x\w+>", "a function", line) for line in plain]


# a backup of an older version


def test_a_backup_of_version_0_1(tmp_path: Path) -> None:
    held = json.loads((GOLDEN / "backup-0.1.json").read_text(encoding="utf-8"))
    library, key, talk = tmp_path / "library", held["key"]["secret"], held["conversation"]
    done = run_refdesk("--library", library, "restore", GOLDEN / "backup-0.1.tar")
    assert done.returncode == 0, done.stderr
    with Refdesk(library) as desk:
        documents = {one.name: {"collection": one.collection, "id": one.id} for one in desk.documents(status="ready")}
        assert documents == held["documents"]
        assert "24 crowns" in desk.ask_sync("What does a mooring at the quay cost?").content
        settings = {name: value for name, value, _ in desk.settings.items()}
        assert {name: settings[name] for name in held["settings"]} == held["settings"]
    with served(library) as server:
        assert server.get("/api/documents").status_code == 401
        me = server.get("/api/me", key=key).json()
        assert (me["name"], me["role"]) == (held["key"]["name"], held["key"]["role"])
        messages = server.get(f"/api/conversations/{talk['id']}/messages", key=key).json()["messages"]
        assert [one["content"] for one in messages if one["role"] == "user"] == talk["questions"]
        assert [one["content"] for one in messages if one["role"] == "assistant"] == talk["answers"]
        kept = server.get(f"/api/answers/{held['feedback']['answer_id']}", key=key).json()
        assert kept["citations"][0]["document_id"] == held["documents"]["lamp.txt"]["id"]
        (told,) = kept["feedback"]
        assert (told["verdict"], told["correction"]) == (held["feedback"]["verdict"], held["feedback"]["correction"])
        body = {"message": "When does the Tern depart?", "conversation_id": talk["id"]}
        assert "11:40" in server.post("/api/chat", json=body, key=key).json()["content"]
        original = server.get(f"/api/documents/{held['documents']['ferries.csv']['id']}/original", key=key)
        assert original.text.startswith("ferry,departs,fare")


# the page


def test_what_the_page_requests(library: Callable[[str], Path], tmp_path: Path) -> None:
    note = tmp_path / "crane.txt"
    note.write_text("The crane on the north mole lifts 12 tonnes.", encoding="utf-8")
    sent: list[Request] = []
    answered: list[Request] = []
    with served(library("page")) as server, browsing() as browser, tab(browser, "about:blank") as page:
        page.on("request", lambda request: sent.append(request))
        page.on("response", lambda response: answered.append(response.request))
        page.goto(server.url)
        paths = list(server.get("/openapi.json").json()["paths"])
        use_the_page(page, server.url, note)
        until = time.monotonic() + 15
        while set(sent) - set(answered) and time.monotonic() < until:
            page.wait_for_timeout(50)
        found = {requested(one, paths) for one in answered}
    check("page-requests.json", sorted(found))


def use_the_page(page: Page, url: str, note: Path) -> None:
    ask(page, ANCHOR)
    page.locator(".answer .chip").first.click()
    expect(page.locator(".viewer .mark").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#viewer")).to_be_hidden()
    with page.expect_response(re.compile("/api/feedback")):
        page.get_by_role("button", name="This is wrong").click()
    page.get_by_role("link", name="How this was answered").click()
    expect(page.locator(".fall")).to_be_visible()
    page.goto(f"{url}/#/documents")
    page.get_by_label("Choose files").set_input_files(note)
    # Read by then: the button opens the document, and there is none for one that waits.
    expect(page.get_by_role("button", name="Delete crane.txt")).to_be_visible(timeout=60_000)
    with page.expect_response(re.compile("/text$")):
        page.get_by_role("button", name="crane.txt", exact=True).click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Delete crane.txt").click()
    with page.expect_response(lambda response: response.request.method == "DELETE"):
        page.get_by_role("button", name="Delete", exact=True).click()
    page.goto(f"{url}/#/settings")
    row = page.locator(".setting[data-name='rag.top_k']")
    row.get_by_role("textbox").fill("7")
    with page.expect_response(lambda response: response.request.method == "PATCH"):
        row.get_by_role("textbox").press("Enter")
    with page.expect_response(lambda response: response.request.method == "DELETE"):
        row.get_by_role("button", name="Reset to default").click()
    page.goto(f"{url}/#/analytics")
    expect(page.locator(".figure").first).to_be_visible()
    page.goto(f"{url}/#/")
    expect(page.get_by_label("Question", exact=True)).to_be_visible()


def requested(request: Request, paths: list[str]) -> str:
    """`PATCH /api/settings {rag.top_k} 200`; the files that the page is made of are one line for each folder."""
    path, _, query = request.url.partition("://")[2].partition("/")[2].partition("?")
    names = sorted(pair.partition("=")[0] for pair in query.split("&") if pair)
    path = re.sub(r"\b[0-9a-f]{16}(?=/.*\.\w+$)", "{version}", path)
    matching = [one for one in paths if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", one), f"/{path}")]
    template = min(matching, key=lambda one: one.count("{"), default=re.sub(r"[^/]+\.(\w+)$", r"*.\1", f"/{path}"))
    sent = request.headers.get("content-type", "").partition(";")[0]
    body = f"{sent} {' '.join(sorted(request.post_data_json)) if sent == 'application/json' else ''}".strip()
    response = request.response()
    assert response is not None
    parts = [request.method, template, f"?{'&'.join(names)}" if names else "", body, str(response.status)]
    return " ".join(filter(None, parts))
