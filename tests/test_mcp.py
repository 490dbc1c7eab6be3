"""`refdesk mcp`, driven by the official client: a real process over stdio, and one over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from conftest import REFDESK
from refdesk import Refdesk
from timing import PATIENCE_S

QUESTION = "Within how many days are invoices payable?"
Work = Callable[[Client], Awaitable[Any]]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("REFDESK_")}


def over_stdio(folder: Path, work: Work) -> Any:
    async def run() -> Any:
        arguments = ["--library", str(folder), "mcp"]
        server = StdioServerParameters(command=str(REFDESK), args=arguments, env=environment())
        async with Client(server, read_timeout_seconds=60) as client:
            return await work(client)

    return asyncio.run(run())


@contextmanager
def served(folder: Path, *options: str) -> Iterator[str]:
    """The address of a server of its own."""
    command = [str(REFDESK), "--library", str(folder), "mcp", "--http", "0", *options]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert " on http://" in said, said + process.stderr.read()
        yield said.split(" on ")[1].split(". Press Ctrl-C")[0]
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def over_http(address: str, work: Work, key: str = "") -> Any:
    async def run() -> Any:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
            Client(streamable_http_client(address, http_client=http), read_timeout_seconds=60) as client,
        ):
            return await work(client)

    return asyncio.run(run())


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


async def use_every_tool(client: Client) -> dict[str, Any]:
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    steps: list[str | None] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        steps.append(message)

    asked = await client.call_tool("ask", {"question": QUESTION}, progress_callback=on_progress)
    cited = asked.structured_content["citations"][0]
    return {
        "tools": tools,
        "steps": steps,
        "ask": asked,
        "search": await client.call_tool("search", {"query": "mooring buoys", "k": 3}),
        "list": await client.call_tool("list_documents", {"limit": 2}),
        "page": await client.call_tool("read_passage", {"document": cited["document_id"], "page": cited["page"]}),
        "chunk": await client.call_tool("read_passage", {"document": cited["document"], "chunk": cited["chunk"]}),
        "unknown": await client.call_tool("read_passage", {"document": "no-such.pdf"}),
        "beyond": await client.call_tool("read_passage", {"document": cited["document"], "page": 9999}),
        "empty": await client.call_tool("ask", {"question": "  "}),
        "wrong": await client.call_tool("search", {"query": "x", "k": 0}),
        "missing": await client.call_tool("ask", {}),
        "strange": await client.call_tool("search", {"query": "x", "folder": "hr"}),
        "absent": await client.call_tool("ask", {"question": "Who won the chess championship of 1972?"}),
    }


def check_every_tool(said: dict[str, Any], desk: Refdesk) -> None:
    assert sorted(said["tools"]) == ["ask", "list_documents", "read_passage", "search"]
    for tool in said["tools"].values():
        assert "  " not in tool.description and all(
            "description" in one for one in tool.input_schema["properties"].values()
        )
        assert tool.output_schema and tool.description and tool.annotations.read_only_hint
        assert "context" not in tool.input_schema["properties"]
    answer = said["ask"].structured_content
    assert "[1]" in answer["answer"] and answer["answered"] is True and answer["confidence"] in ("high", "medium")
    cited = answer["citations"][0]
    assert {"document", "page", "quote"} <= cited.keys()
    page = desk.pages(cited["document_id"], cited["page"])[0].text
    assert " ".join(cited["quote"].split()) in " ".join(page.split())
    assert answer["answer"] in text_of(said["ask"]) and cited["document"] in text_of(said["ask"])
    assert said["steps"], "the stages are reported while it works"
    passages = said["search"].structured_content["passages"]
    assert len(passages) == 3 and all(one["text"] and one["page"] >= 1 for one in passages)
    listed = said["list"].structured_content
    assert len(listed["documents"]) == 2 and listed["total"] == len(desk.documents())
    assert said["page"].structured_content["text"] == page
    assert " ".join(cited["quote"].split()) in " ".join(said["chunk"].structured_content["text"].split())
    assert all(one["id"] in text_of(said["list"]) for one in listed["documents"]), "to tell two of one name apart"
    for name, sentence in {
        "unknown": "there is no document 'no-such.pdf'; list_documents shows what there is",
        "beyond": "not 9999",
        "empty": "the question is empty",
        "wrong": "k: should be greater than or equal to 1",
        "missing": "question: field required",
        "strange": "search takes query, k, collection, document; there is no 'folder'",
    }.items():
        assert said[name].is_error and sentence in text_of(said[name]), said[name]
        assert "\n" not in text_of(said[name]) and "Error executing" not in text_of(said[name])
    assert said["absent"].structured_content["answered"] is False and not said["absent"].is_error


def test_every_tool_over_stdio(own_folder: Path) -> None:
    said = over_stdio(own_folder, use_every_tool)
    with Refdesk(own_folder) as desk:
        check_every_tool(said, desk)


def test_every_tool_over_http(own_folder: Path) -> None:
    with served(own_folder) as address:
        said = over_http(address, use_every_tool)
    with Refdesk(own_folder) as desk:
        check_every_tool(said, desk)


def test_standard_output_carries_the_protocol_and_nothing_else(own_folder: Path) -> None:
    """Also what a library prints while it loads must not get between two messages."""
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    ask = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "ask", "arguments": {"question": QUESTION}},
    }
    process = subprocess.Popen(
        [str(REFDESK), "--library", str(own_folder), "mcp"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("".join(json.dumps(one) + "\n" for one in (hello, ready, ask)))
    process.stdin.flush()
    messages = [json.loads(process.stdout.readline()) for _ in range(2)]
    assert [one["id"] for one in messages] == [1, 2]
    assert "[1]" in messages[1]["result"]["structuredContent"]["answer"]
    rest, complaints = process.communicate(timeout=PATIENCE_S)
    assert rest == "" and complaints == "" and process.returncode == 0


def test_with_keys_http_needs_one_and_sees_what_it_may(own_folder: Path) -> None:
    with Refdesk(own_folder) as desk:
        desk.add_text("pay.txt", "The harbour master earns 4,711 crowns a month.", collection="hr")
        _, reader = desk.keys.add("Rita", "reader", ["default"])
        _, chief = desk.keys.add("Hanna", "admin")

    async def look(client: Client) -> list[Any]:
        calls = [
            ("ask", {"question": "How much does the harbour master earn?"}),
            ("search", {"query": "harbour master earns crowns", "k": 20}),
            ("list_documents", {"limit": 200}),
            ("read_passage", {"document": "pay.txt"}),
            ("ask", {"question": "How much does the harbour master earn?", "document": "pay.txt"}),
            ("read_passage", {"document": "nothing.txt"}),
        ]
        return [await client.call_tool(name, arguments) for name, arguments in calls]

    with served(own_folder) as address:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}):
            refused = httpx2.post(address, json={}, headers=headers)
            assert refused.status_code == 401 and refused.json()["code"] == "not_signed_in"
            assert "hr" not in refused.text and "pay" not in refused.text
        allowed = over_http(address, look, chief)
        assert "4,711" in text_of(allowed[0]) and "4,711" in text_of(allowed[3])
        held_back = over_http(address, look, reader)
        assert "4,711" not in "".join(map(text_of, held_back))
        assert "pay.txt" not in "".join(map(text_of, held_back[:3]))
        assert text_of(held_back[3]).replace("pay.txt", "nothing.txt") == text_of(held_back[5])
        with Refdesk(own_folder) as desk:
            desk.keys.revoke("Rita")
            desk.parts.settings_store.change({"serve.requests_per_hour": 1})
        gone = httpx2.post(address, json={}, headers={"Authorization": f"Bearer {reader}"})
        assert gone.status_code == 401
        enough = httpx2.post(address, json={}, headers={"Authorization": f"Bearer {chief}"})
        assert enough.status_code == 429 and int(enough.headers["retry-after"]) > 0


def test_on_the_network_it_needs_a_key_and_at_home_no_web_page_reaches_it(own_folder: Path) -> None:
    arguments = [str(REFDESK), "--library", str(own_folder), "mcp", "--http", "0", "--host", "0.0.0.0"]
    refused = subprocess.run(arguments, env=environment(), capture_output=True, text=True, timeout=PATIENCE_S)
    assert refused.returncode == 2 and "there is no key" in refused.stderr
    with served(own_folder) as address:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        accept = {"Accept": "application/json, text/event-stream"}
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
            assert httpx2.post(address, json=body, headers=accept | headers).status_code in (403, 421)


def test_without_its_package_the_extra_is_asked_for(own_folder: Path) -> None:
    program = (
        "import sys; sys.modules['mcp'] = None; sys.argv[1:] = ['--library', sys.argv[1], 'mcp'];"
        "from refdesk.__main__ import main; main()"
    )
    told = subprocess.run([sys.executable, "-c", program, str(own_folder)], capture_output=True, text=True, timeout=120)
    assert told.returncode != 0 and "Traceback" not in told.stderr
    assert "needs an extra package" in told.stderr and "pip install 'refdesk[mcp]'" in told.stderr
