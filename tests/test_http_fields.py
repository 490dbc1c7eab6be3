"""A field that nobody reads is refused, with the names that are known; what OpenAI's clients send is taken."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from http_server import Server, serving
from refdesk import Refdesk
from refdesk.serve.http.requests import OPENAI


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Refdesk(tmp_path_factory.mktemp("fields")) as desk:
        desk.add_text("prices.txt", "The price list is revised every January.")
        with serving(desk) as running:
            yield running


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/query", {"question": "When is the price list revised?"}),
        ("POST", "/api/chat", {"message": "When is the price list revised?"}),
        ("POST", "/api/chat/stream", {"message": "When is the price list revised?"}),
        ("POST", "/api/search", {"q": "price list"}),
        ("POST", "/api/feedback", {"answer_id": "x", "verdict": "wrong"}),
        ("POST", "/api/keys", {"name": "anna"}),
        ("POST", "/api/documents/url", {"url": "http://127.0.0.1:1/"}),
        ("POST", "/api/documents/move", {"documents": ["x"], "collection": "y"}),
        ("PATCH", "/api/documents/x", {"name": "y"}),
        ("PATCH", "/api/conversations/x", {"title": "y"}),
        ("POST", "/api/settings/preset", {"name": "speed"}),
        ("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "When?"}]}),
    ],
)
def test_an_unknown_field_is_named_with_the_known_ones(
    server: Server, method: str, path: str, body: dict[str, Any]
) -> None:
    said = server.request(method, path, json=body | {"doc_ids": ["a"], "topk": 3})
    assert said.status_code == 422, said.text
    problem = said.json()
    assert problem["code"] == "unknown_field"
    assert "'doc_ids'" in problem["message"] and "'topk'" in problem["message"]
    assert all(name in problem["message"] for name in body)


def test_a_near_name_is_offered(server: Server) -> None:
    said = server.post("/api/query", json={"question": "When?", "topk": 3}).json()["message"]
    assert said.startswith("'topk' (did you mean 'top_k'?) is not a field of this request; known fields: ")
    said = server.post("/api/query", json={"question": "When?", "modus": "gpt-9"}).json()["message"]
    assert said.startswith("'modus' ") and "question" in said


def test_fields_within_fields_are_looked_at_too(server: Server) -> None:
    body = {"messages": [{"role": "user", "content": "When?"}], "refdesk": {"cach": False}}
    said = server.post("/v1/chat/completions", json=body)
    assert said.status_code == 422 and "did you mean 'cache'?" in said.json()["error"]["message"]
    said = server.post("/api/query", json={"question": "When?", "history": [{"role": "user", "content": "", "x": 1}]})
    assert said.status_code == 422 and "'x'" in said.json()["message"]


def test_what_the_clients_of_openai_send_is_taken(server: Server) -> None:
    message = {"role": "user", "name": "anna", "content": [{"type": "text", "text": "When is the price list revised?"}]}
    before = {
        "role": "assistant",
        "content": "Hello",
        "refusal": None,
        "refdesk": {"citations": []},
        "tool_calls": None,
    }
    body: dict[str, Any] = {"model": "refdesk", "messages": [before, message], "n": 1, **dict.fromkeys(OPENAI)}
    said = server.post("/v1/chat/completions", json=body)
    assert said.status_code == 200, said.text
    assert said.json()["choices"][0]["message"]["content"]


def test_a_wrong_value_of_a_known_field_is_still_a_wrong_request(server: Server) -> None:
    said = server.post("/api/query", json={"question": "When?", "top_k": 0})
    assert said.status_code == 400 and said.json()["code"] == "usage_error"
