"""What the service sends is what its OpenAPI document says: each response fits its schema, and has no key beside it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from http_server import Server, read_events, serving
from refdesk import Refdesk
from timing import PATIENCE_S
from wire_server import Reply, WireServer

JSON, EVENTS = "application/json", "text/event-stream"
ASKED = "What does the annual inspection of a tide gauge cost?"
SITE = "<title>Tides</title><p>High water at the pier is at nine.</p>"


def closed(schema: Any) -> Any:
    """The same schema, where an object has no other properties than those it names."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(value) for name, value in schema.items()}
    if found.get("type") == "object" and "properties" in found:
        found.setdefault("additionalProperties", False)
    return found


class Described:
    """A server, and the document in which it says what it sends."""

    def __init__(self, server: Server, secret: str) -> None:
        self.server, self.secret = server, secret
        self.document = server.get("/openapi.json", key=secret).json()
        self.components = closed(self.document["components"])
        self.called: set[tuple[str, str]] = set()

    def wrong(self, schema: Any, value: Any) -> list[str]:
        whole = closed(schema) | {"components": self.components}
        return [f"{one.json_path}: {one.message}" for one in Draft202012Validator(whole).iter_errors(value)]

    def operations(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for path, operations in self.document["paths"].items():
            for method, operation in operations.items():
                yield method.upper(), path, operation

    def call(self, method: str, path: str, status: int = 200, *, own: str | None = None, **options: Any) -> Any:
        """What comes back of a call; `{id}` in its path is filled from `path_of`, and the body must be as described."""
        ids = options.pop("path_of", {})
        key = self.secret if own is None else own
        response = self.server.request(method, path.format(**ids), key=key, **options)
        assert response.status_code == status, (method, path, response.text)
        described = self.document["paths"][path.partition("?")[0]][method.lower()]["responses"][str(status)]
        found = response.json()
        assert not self.wrong(described["content"][JSON]["schema"], found), (method, path)
        self.called.add((method, path.partition("?")[0]))
        return found


@pytest.fixture
def described(own_folder: Path) -> Iterator[Described]:
    with Refdesk(own_folder) as desk:
        desk.parts.settings_store.change({"llm.enabled": False, "serve.fetch_networks": "127.0.0.1/32"})
        secret = desk.keys.add("root", "admin")[1]
        with serving(desk) as server:
            yield Described(server, secret)


def test_every_response_is_as_described(described: Described) -> None:
    asking(described)
    handing_in(described)
    changing(described)
    managing(described)
    openai_interface(described)
    fetching(described)
    connecting(described)
    answering = {
        (method, path)
        for method, path, operation in described.operations()
        if any(JSON in one.get("content", {}) for status, one in operation["responses"].items() if status < "300")
    }
    assert described.called == answering


def asking(described: Described) -> None:
    call = described.call
    answer = call("POST", "/api/chat", json={"message": ASKED})
    assert answer["citations"][0]["boxes"] and answer["sources"][0]["chunk_id"] and answer["claims"]
    assert call("POST", "/api/query", json={"q": ASKED})["cached"] == "exact"
    refused = call("POST", "/api/query", json={"q": "Who won the football match?"})
    assert not refused["is_answered"]
    talk = {"conversation_id": answer["conversation_id"]}
    assert call("GET", "/api/conversations")["conversations"][0]["owner"]
    call("GET", "/api/conversations/{conversation_id}", path_of=talk)
    call("PATCH", "/api/conversations/{conversation_id}", path_of=talk, json={"title": "Gauges"})
    assert len(call("GET", "/api/conversations/{conversation_id}/messages", path_of=talk)["messages"]) == 2
    call("POST", "/api/feedback", json={"answer_id": answer["id"], "verdict": "wrong", "correction": "It costs more."})
    this = {"answer_id": answer["id"]}
    assert call("GET", "/api/answers/{answer_id}", path_of=this)["feedback"][0]["correction"] == "It costs more."
    assert call("GET", "/api/traces/{answer_id}", path_of=this)["stages"]
    assert call("GET", "/api/answers")["answers"]
    assert call("GET", "/api/analytics")["feedback"]["by_collection"]
    assert call("GET", "/api/graph?entity=TG-4")["edges"]
    assert (
        call("GET", "/api/search?q=tide gauge")["hits"] == call("POST", "/api/search", json={"q": "tide gauge"})["hits"]
    )
    call("DELETE", "/api/conversations/{conversation_id}", path_of=talk)
    call("POST", "/api/query/clear-cache")
    call("GET", "/api/traces/{answer_id}", 404, path_of={"answer_id": "nothing"})


TABLE = b"Bell,2020\nNorth,12\nSouth,14.5\n"


def handing_in(described: Described) -> None:
    call = described.call
    files = [
        ("files", (name, data))
        for name, data in (("a.txt", b"The bell rings at six."), ("b.pdf", b"%PDF-1.7 no"), ("c.csv", TABLE))
    ]
    form = {"collection": "bells", "metadata": '{"year": "2024"}'}
    call("POST", "/api/documents", 202, files=files, data=form)
    until = time.monotonic() + PATIENCE_S
    while {one["status"] for one in call("GET", "/api/uploads")["uploads"]} != {"ready", "failed"}:
        assert time.monotonic() < until
        time.sleep(0.05)
    uploads = {one["name"]: one for one in call("GET", "/api/uploads")["uploads"]}
    assert uploads["a.txt"]["metadata"] == {"year": "2024"} and uploads["b.pdf"]["reason"]
    failed = {"upload_id": uploads["b.pdf"]["id"], "document_id": uploads["b.pdf"]["document_id"]}
    call("GET", "/api/uploads/{upload_id}", path_of=failed)
    call("POST", "/api/uploads/{upload_id}/retry", 202, path_of=failed)
    while call("GET", "/api/uploads/{upload_id}", path_of=failed)["status"] != "failed":
        assert time.monotonic() < until
        time.sleep(0.05)
    call("POST", "/api/documents/{document_id}/retry", 202, path_of=failed)
    sheet = {"document_id": uploads["c.csv"]["document_id"]}
    (table,) = call("GET", "/api/documents/{document_id}/tables", path_of=sheet)["tables"]
    assert table["cells"][-1]["number"] == 14.5 and table["columns"][1]["period"] == "2020"
    assert call("POST", f"/api/ingest/index?doc_id={sheet['document_id']}")["indexed"] == 1
    call("DELETE", "/api/uploads/{upload_id}", path_of={"upload_id": uploads["a.txt"]["id"]})
    chunk = {"doc_id": "d1", "sequence_number": 1, "content_raw": "The bell of the pier rings at noon."}
    (imported,) = call("POST", "/api/import", json={"chunks": [chunk], "collection": "bells"})["documents"]
    assert imported["outcome"] == "added" and imported["document_id"]
    job = call("POST", "/api/background", 202, json={"kind": "tree", "collection": "bells"})
    while (jobs := call("GET", "/api/background")["jobs"])[0]["status"] != "ready":
        assert time.monotonic() < until
        time.sleep(0.05)
    assert jobs[0]["id"] == job["id"] and jobs[0]["chunks_done"] == jobs[0]["chunks_total"] > 0
    call("DELETE", "/api/background/{job_id}", path_of={"job_id": job["id"]})
    call("GET", "/api/background/cost", 400)
    call("POST", "/api/examples?wait=false", 202)


def changing(described: Described) -> None:
    call = described.call
    assert len(call("GET", "/api/collections")["collections"]) >= 2
    listed = call("GET", "/api/documents?collection=default")["documents"]
    first, second, third, *_ = ({"document_id": one["id"]} for one in listed if one["parent_id"] is None)
    call("GET", "/api/documents/{document_id}", path_of=first)
    pdf = next({"document_id": one["id"], "number": 1} for one in listed if one["format"] == "pdf")
    assert call("GET", "/api/documents/{document_id}/pages/{number}/text", path_of=pdf)["words"]
    call("GET", "/api/documents/{document_id}/pages/{number}/text", 404, path_of=pdf | {"number": 999})
    call("PATCH", "/api/documents/{document_id}", path_of=first, json={"name": "first"})
    call("POST", "/api/documents/move", json={"documents": [second["document_id"]], "collection": "moved"})
    call("PATCH", "/api/collections/{name}", path_of={"name": "moved"}, json={"name": "gone"})
    call("DELETE", "/api/collections/{name}", path_of={"name": "gone"})
    call("POST", "/api/documents/delete", json={"documents": [third["document_id"]]})
    call("DELETE", "/api/documents/{document_id}", path_of=first)


def managing(described: Described) -> None:
    call = described.call
    call("GET", "/healthz")
    assert call("GET", "/readyz")["version"] and set(call("GET", "/readyz", own="")) == {"status"}
    made = call("POST", "/api/keys", 201, json={"name": "anna", "role": "reader", "collections": ["moved"]})
    assert {one["name"] for one in call("GET", "/api/keys")["keys"]} == {"root", "anna"}
    call("PATCH", "/api/keys/{key_id}", path_of={"key_id": "anna"}, json={"role": "editor"})
    assert call("GET", "/api/me")["collections"] is None
    assert call("GET", "/api/me", own=made["secret"])["collections"] == ["moved"]
    call("GET", "/api/keys", 403, own=made["secret"])
    call("POST", "/api/session", own="", json={"key": made["secret"]})
    call("DELETE", "/api/session", own="", headers={"X-Refdesk": "1"})
    call("DELETE", "/api/keys/{key_id}", path_of={"key_id": "anna"})
    call("GET", "/api/settings")
    call("PATCH", "/api/settings", json={"rag.top_k": 7})
    call("PATCH", "/api/settings", 400, json={"no.such": 7})
    call("POST", "/api/settings/preset", json={"name": "speed"})
    call("DELETE", "/api/settings/{name}", path_of={"name": "rag.top_k"})
    call("DELETE", "/api/settings/{name}", 404, path_of={"name": "no.such"})


def openai_interface(described: Described) -> None:
    call = described.call
    call("GET", "/v1/models")
    call("GET", "/v1/models/{name}", path_of={"name": "refdesk-basic"})
    call("GET", "/v1/models/{name}", 404, path_of={"name": "nothing"})
    call("POST", "/v1/chat/completions", json={"messages": [{"role": "user", "content": ASKED}]})


class Site(BaseHTTPRequestHandler):
    """Any address gives the same page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(SITE.encode())

    def log_message(self, *_: object) -> None:
        pass


def fetching(described: Described) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{site.server_port}/tides.html"
        (upload,) = described.call("POST", "/api/documents/url", 202, json={"url": address})["uploads"]
        described.call("POST", "/api/documents/url", 400, json={"url": "http://127.0.0.2/tides.html"})
        site.shutdown()
    assert upload["url"] == address and upload["size"] == len(SITE)


def connecting(described: Described) -> None:
    call = described.call
    call("POST", "/api/models/list", 400, json={"provider": "openai"})  # models are switched off
    call("PATCH", "/api/settings", json={"llm.enabled": True})
    with WireServer() as model:
        model.models = ["tiny-1b"]
        entered = {"provider": "openai", "base_url": f"{model.url}/v1", "api_key": "sk-of-this-test-1234"}
        assert call("POST", "/api/models/list", json=entered) == {"models": ["tiny-1b"], "is_listed": True}
        model.say("It weighs 350 kg. [1]")
        connected = call("POST", "/api/models/connect", json=entered | {"model": "tiny-1b"})
        assert connected["answer"] == "openai:tiny-1b" and call("GET", "/api/models") == connected
        model.say("It weighs 350 kg. [1]")
        trial = call("POST", "/api/models/test", json={"model": "openai:tiny-1b"})
        assert trial["reply"] == "It weighs 350 kg. [1]" and trial["answers"] and trial["cites"]
        model.fail(401)
        call("POST", "/api/models/test", 502, json={"model": "openai:tiny-1b"})
        stopping(described, model)
    forgotten = call("DELETE", "/api/models/providers/{name}", path_of={"name": "openai"})
    assert not next(one["key"] for one in forgotten["providers"] if one["name"] == "openai")
    call("DELETE", "/api/models/providers/{name}", 404, path_of={"name": "nobody"})


def stopping(described: Described, model: WireServer) -> None:
    talk = {"conversation_id": "stopped"}
    model.answer_by(lambda _: Reply(pieces=["It ", "costs"], ending="hang"))
    key = {"Authorization": f"Bearer {described.secret}"}
    body = {"message": ASKED, "cache": False, "session_id": talk["conversation_id"]}
    with described.server.client.stream("POST", "/api/chat/stream", json=body, headers=key) as response:
        assert next(name for name, _, _ in read_events(response) if name == "content")
        assert described.call("POST", "/api/conversations/{conversation_id}/stop", path_of=talk)["stopped"]
    assert not described.call("POST", "/api/conversations/{conversation_id}/stop", path_of=talk)["stopped"]


# events


def kinds_of(described: Described, method: str, path: str) -> dict[str, Any]:
    """The schema of each event's data by the event's name."""
    content = described.document["paths"][path][method]["responses"]["200"]["content"]
    return {
        one["properties"].get("event", {}).get("const", ""): one["properties"]["data"]["contentSchema"]
        for one in content[EVENTS]["schema"]["oneOf"]
    }


def test_every_event_is_as_described(described: Described) -> None:
    kinds = kinds_of(described, "post", "/api/chat/stream")
    events = described.server.events("/api/chat/stream", {"message": ASKED}, key=described.secret)
    assert {"thinking", "sources", "content", "done"} <= {name for name, _, _ in events}
    assert not [wrong for name, data, _ in events if (wrong := described.wrong(kinds[name], data))]


def test_uploads_are_told_as_described(described: Described) -> None:
    kinds = kinds_of(described, "get", "/api/uploads/events")
    key = {"Authorization": f"Bearer {described.secret}"}
    described.call("POST", "/api/documents", 202, files=[("files", ("a.txt", b"The bell rings at six."))])
    with described.server.client.stream("GET", "/api/uploads/events", headers=key) as response:
        name, data, _ = next(read_events(response))
    assert name == "upload" and not described.wrong(kinds[name], data)


def test_chunks_for_openai_are_as_described(described: Described) -> None:
    kinds = kinds_of(described, "post", "/v1/chat/completions")
    body = {"stream": True, "stream_options": {"include_usage": True}, "messages": [{"role": "user", "content": ASKED}]}
    told = described.server.post("/v1/chat/completions", json=body, key=described.secret).text
    *chunks, end = [one.removeprefix("data: ") for one in told.split("\n\n") if one.startswith("data: ")]
    assert end == "[DONE]" and "refdesk" in json.loads(chunks[-2]) and "usage" in json.loads(chunks[-1])
    assert not [wrong for one in chunks if (wrong := described.wrong(kinds[""], json.loads(one)))]


# the document itself


def test_every_example_is_as_described(described: Described) -> None:
    for method, path, operation in described.operations():
        for status, response in operation["responses"].items():
            if JSON in (content := response.get("content", {})):
                shown = content[JSON]
                assert not described.wrong(shown["schema"], shown["example"]), (method, path, status)


def test_every_response_has_a_name_and_every_object_its_properties(described: Described) -> None:
    """A generated client has a class for each, not a bag of anything; what is open says of what."""
    for method, path, operation in described.operations():
        for status, response in operation["responses"].items():
            if JSON in (content := response.get("content", {})):
                assert list(content[JSON]["schema"]) == ["$ref"], (method, path, status)
    bare = [place for place in objects("", described.document["components"]["schemas"]) if place]
    assert not bare
    assert {"Document", "Upload", "Conversation", "Message", "Key", "Collection", "Trace", "Answer"} <= set(
        described.document["components"]["schemas"]
    )


def objects(place: str, schema: Any) -> Iterator[str]:
    """The places of objects of which nothing is said."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and not {"properties", "additionalProperties"} & set(schema):
            yield place
        for name, one in schema.items():
            yield from objects(f"{place}/{name}", one)
    elif isinstance(schema, list):
        for one in schema:
            yield from objects(place, one)
