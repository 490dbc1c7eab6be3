"""The service keeps what its OpenAPI document promises: requests made up from it find no 5xx and no unknown status."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import CHECKS

from http_server import Server, serving
from refdesk import Refdesk
from refdesk.serve.http.app import create_app

ROOT = Path(__file__).parent.parent
SHEET = ROOT / "examples" / "documents" / "wb7-mooring-sheet.pdf"
EXAMPLES = 40  # requests for each of some fifty operations: about a minute
HARBOUR = ("harbour.txt", "The harbour office opens at eight.")
WANTED = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
# A stream that never ends; addresses and models elsewhere, whose absence is a 5xx; nine documents at every call.
LEFT_OUT = {
    ("GET", "/api/uploads/events"),
    ("POST", "/api/documents/url"),
    ("POST", "/api/models/test"),
    ("POST", "/api/examples"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With a key from the beginning: one that is made up on the way must not close the door to all that follows."""
    own = {"serve.requests_per_hour": 0, "serve.concurrent_asks": 0, "llm.enabled": False}
    with Refdesk(tmp_path_factory.mktemp("schema") / "library", settings=own) as desk:
        desk.add_text(*HARBOUR, collection="public")
        secret = desk.keys.add("root", "admin")[1]
        with serving(desk) as found:
            found.client.headers["Authorization"] = f"Bearer {secret}"
            yield found


@pytest.mark.slow
def test_nothing_breaks_and_every_status_is_documented(server: Server) -> None:
    key = {"Authorization": server.client.headers["Authorization"]}
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json", headers=key)
    seen: Counter[int] = Counter()
    found: Counter[str] = Counter()
    known: dict[str, Any] = {}
    checks = CHECKS.get_by_names(list(WANTED))
    operations = [one.ok() for one in schema.get_all_operations()]
    tried = 0
    for operation in operations:
        if (operation.method.upper(), operation.path) in LEFT_OUT:
            continue
        known.update(there_is(server))  # anew: the operation before may have removed it

        @hypothesis.given(case=operation.as_strategy())
        @hypothesis.settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        )
        def attempt(case: Any) -> None:
            """As it was made up; then with ids of what is there."""
            options = {"base_url": server.url, "checks": checks, "headers": key, "timeout": 30}
            seen[case.call_and_validate(**options).status_code] += 1
            names = case.path_parameters or {}
            if there := {name: known.get(case.path, known[name]) for name in names if name in known}:
                case.path_parameters |= there
                status = case.call_and_validate(**options).status_code
                seen[status] += 1
                found[f"{case.method} {case.path}"] += status == 200

        attempt()
        tried += 1
    # Whatever has an id was found by it at least once.
    assert all(count for name, count in found.items() if name.startswith(("GET", "PATCH"))), found
    assert tried >= 30 and seen[200] > 300 and seen[401] <= EXAMPLES, seen  # 401: signing in with a made-up key


def there_is(server: Server) -> dict[str, Any]:
    """Ids of what is there: a document, a conversation, its answer, a key."""
    answer = server.post("/api/chat", json={"message": "How heavy is the anchor?", "document": SHEET.name})
    if answer.status_code == 404:
        desk: Refdesk = server.app.state.service.desk  # type: ignore[union-attr]
        # It may lie elsewhere, or under another name: whoever adds its file again finds it there.
        desk.remove_found([one for one in desk.documents() if one.source == str(SHEET)])
        desk.add(SHEET, collection="public")
        return there_is(server)
    answer = answer.json()
    server.post("/api/keys", json={"name": "guest", "role": "reader"})  # refused while there is one
    return {
        "document_id": answer["citations"][0]["document_id"],
        "conversation_id": answer["conversation_id"],
        "answer_id": answer["id"],
        "number": 1,
        "key_id": "guest",
        "name": "refdesk",
        "/api/settings/{name}": "rag.top_k",
        "/api/collections/{name}": answer["sources"][0]["collection"],
    }


def test_every_operation_has_a_summary_and_an_example(server: Server) -> None:
    schema = server.get("/openapi.json").json()
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            assert operation.get("summary"), where
            responses = operation["responses"]
            assert {"400", "401", "403", "500"} <= set(responses), where
            assert {"408", "507"} <= set(responses) or method == "get", where
            assert all("X-Request-Id" in one["headers"] for one in responses.values()), where
            assert "Retry-After" in responses.get("429", {"headers": "Retry-After"})["headers"], where
            for status, one in responses.items():
                for kind, content in one.get("content", {}).items():
                    assert "example" in content or not kind.startswith(("application/json", "text/")), (where, status)
            assert all(one.get("description") for one in operation.get("parameters", ())), where
            has_fields = "application/json" in operation.get("requestBody", {}).get("content", {})
            assert ("422" in responses) == has_fields or path.startswith("/api/documents"), where
            if "application/json" in (body := operation.get("requestBody", {})).get("content", {}):
                assert "example" in str(body) or _has_example(schema, body), where


def test_every_operation_has_a_name_of_its_own_that_clients_can_use(server: Server) -> None:
    paths = server.client.get("/openapi.json").json()["paths"]
    names = [operation["operationId"] for path in paths.values() for operation in path.values()]
    assert len(set(names)) == len(names) > 40 and {"asking_query", "documents_upload"} <= set(names)
    assert all(re.fullmatch(r"[A-Za-z]+(_[a-z]+)+", name) for name in names)


def test_an_answer_is_described_to_its_last_part(server: Server) -> None:
    desk: Refdesk = server.app.state.service.desk  # type: ignore[union-attr]
    desk.add_text(*HARBOUR, collection="public")  # the requests that were made up may have removed it
    schema = server.get("/openapi.json").json()
    parts = schema["components"]["schemas"]
    answer = server.post("/api/query", json={"q": "When does the harbour office open?"}).json()
    assert set(answer) == set(parts["Answer"]["properties"])
    assert set(answer["citations"][0]) == set(parts["Citation"]["properties"])
    assert set(answer["sources"][0]) == set(parts["Source"]["properties"])
    assert set(answer["claims"][0]) == set(parts["Claim"]["properties"])
    assert set(answer["citations"][0]["boxes"][0] if answer["citations"][0]["boxes"] else parts["Box"]["required"]) == {
        *("page", "x", "y", "width", "height")
    }
    assert set(answer["metadata"]) == set(parts["AnswerMetadata"]["properties"])
    assert set(answer["confidence"]) == set(parts["Confidence"]["properties"])
    stream = schema["paths"]["/api/chat/stream"]["post"]
    assert [one["name"] for one in stream["parameters"]] == ["Last-Event-ID"]


def _has_example(schema: dict[str, Any], body: dict[str, Any]) -> bool:
    names = re.findall(r"#/components/schemas/([\w-]+)", str(body))
    return any("example" in str(schema["components"]["schemas"][name]) for name in names)


def test_the_page_lists_every_route(examples: Refdesk) -> None:
    """docs/http.md names each route of the app, and none that is not there."""
    paths = create_app(examples).openapi()["paths"]
    routes = {(method.upper(), path) for path, operations in paths.items() for method in operations}
    page = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^\| `(GET|POST|PATCH|PUT|DELETE|HEAD) ([^`]+)` \|", page, re.MULTILINE))
    assert listed == routes, (sorted(routes - listed), sorted(listed - routes))
