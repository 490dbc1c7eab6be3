"""HTTP, /v1 and MCP carry what a document says to the letter."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from mcp import Client

from http_server import serving
from refdesk import Refdesk
from refdesk.serve.mcp import make_server
from test_cli_text import SENTENCE, flat

QUESTION = "What is the mooring code of the pilot boat?"


def test_every_door_says_what_the_document_says(tmp_path: Path) -> None:
    async def called() -> list[str]:
        async with Client(make_server(desk)) as client:
            found = [await client.call_tool("search", {"query": "mooring code"})]
            found.append(await client.call_tool("read_passage", {"document": "boat.txt"}))
            return [str(part.text) for one in found for part in one.content if part.type == "text"]

    with Refdesk(tmp_path / "library") as desk:
        desk.add_text("boat.txt", SENTENCE)
        desk.add_text("office.txt", "The harbour office opens at eight. Its clock is on the tower.")
        with serving(desk) as server:
            hit = server.post("/api/search", json={"q": "mooring code"}).json()["hits"][0]
            page = server.get(hit["page_text"]).json()
            answer = server.post("/api/query", json={"q": QUESTION}).json()
            body: dict[str, Any] = {"messages": [{"role": "user", "content": QUESTION}]}
            message = server.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
        said = [hit["text"], page["text"], *asyncio.run(called())]
        quotes = [answer["citations"], message["refdesk"]["citations"]]
    for text in said:
        assert flat(SENTENCE) in flat(text)
    for citations in quotes:
        assert all(flat(one["quote"]) in flat(SENTENCE) for one in citations if one["document_name"] == "boat.txt")
