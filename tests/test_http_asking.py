"""Asking over HTTP: the keys of every system that is joined here, streams, what is refused."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from http_server import Server, serving
from memory_desk import ON_DISK
from refdesk import Refdesk
from timing import PATIENCE_S

STORES = ON_DISK

QUESTION = "What does the annual inspection of a tide gauge cost?"
UNKNOWN = "Who won the chess championship in 1972?"


@pytest.fixture(scope="module")
def server(examples: Refdesk) -> Iterator[Server]:
    with serving(examples) as found:
        yield found


SEED_KEYS = {
    "000": {"answer", "sources"},
    "001": {"content", "sources", "confidence_score", "confidence_level", "suggested_questions", "context_sufficiency"},
    "002": {"answer", "sources", "relatedDocs", "citations", "confidence", "metadata"},
    "003": {"answer", "citations", "sources", "metrics", "query_id"},
}
METRICS = {
    *("retrieval_latency_ms", "llm_latency_ms", "total_latency_ms"),
    *("context_length", "chunks_retrieved", "tokens_used", "model"),
}


@pytest.mark.parametrize("name", ["question", "q", "query"])
def test_a_question_has_three_names(server: Server, name: str) -> None:
    answer = server.post("/api/query", json={name: QUESTION}).json()
    assert answer["question"] == QUESTION and answer["citations"]


def test_the_answer_has_the_keys_of_every_seed(server: Server, examples: Refdesk) -> None:
    answer = server.post("/api/query", json={"q": QUESTION, "top_k": 6, "max_context_chars": 4000}).json()
    for seed, keys in SEED_KEYS.items():
        assert keys <= set(answer), seed
    own = examples.ask_sync(QUESTION, k=6, max_context_chars=4000).to_dict()
    assert set(own) <= set(answer)
    assert answer["answer"] == answer["content"] == own["content"]
    assert set(answer["metrics"]) >= METRICS
    assert answer["metrics"]["chunks_retrieved"] <= 6 and 0 < answer["metrics"]["context_length"] <= 4000
    assert answer["query_id"] == answer["id"] and answer["metadata"]["chunksRetrieved"] <= 6
    assert answer["metadata"]["model"] is None  # no model was called
    assert answer["context_sufficiency"] == answer["sufficiency"]


def test_citations_and_sources_carry_the_keys_of_all(server: Server) -> None:
    answer = server.post("/api/query", json={"q": QUESTION}).json()
    (first, *_), source = answer["citations"], answer["sources"][0]
    assert {"doc_id", "chunk_id", "page", "similarity", "marker", "boxes", "quote"} <= set(first)  # 003, Answer
    assert {"title", "matched", "sourceUrls", "docId", "score"} <= set(first)  # 002
    assert first["doc_id"] == first["document_id"] and first["similarity"] == first["similarity_score"]
    assert {"doc_name", "chunk_sequence", "heading_path"} <= set(source)  # 000
    assert {"document_id", "chunk_id", "page_number", "snippet", "relevance_score", "similarity_score"} <= set(source)
    assert isinstance(source["heading_path"], str) and source["doc_name"] == source["document_name"]
    assert {one["document_id"] for one in answer["sources"]} <= {one["docId"] for one in answer["relatedDocs"]}
    box = first["bbox"]
    assert all(
        box["x"] <= one["x"] and one["x"] + one["width"] <= box["x"] + box["width"] + 1e-6 for one in first["boxes"]
    )


def test_a_level_in_both_spellings_and_a_category(server: Server) -> None:
    """Seed 001 says "high" and seed 002 "High" of the same; the category of seed 002 is the collection."""
    answer = server.post("/api/query", json={"query": QUESTION}).json()
    assert answer["confidence"]["level"] == answer["confidence_level"] in ("high", "medium", "low")
    assert answer["confidence"]["label"] == answer["confidence"]["level"].capitalize()
    assert {one["category"] for one in answer["relatedDocs"]} == {"default"}
    assert {one["collection"] for one in answer["sources"]} == {"default"}


def test_what_the_documents_do_not_say(server: Server) -> None:
    answer = server.post("/api/query", json={"q": UNKNOWN}).json()
    assert answer["relatedDocs"] == [] and answer["metadata"]["chunksRetrieved"] == 0  # seed 002's no-results path
    assert answer["metadata"]["model"] is None and answer["confidence"]["label"] == "Low"
    assert answer["is_answered"] is False and answer["sources"] == [] and answer["confidence"]["level"] == "low"
    assert answer["metadata"]["noResults"] is True


def test_scope_and_settings_reach_the_engine(server: Server) -> None:
    body = {"q": QUESTION, "document": "budget-2026.xlsx", "level": "basic", "cache": False}
    answer = server.post("/api/query", json=body).json()
    assert answer["level"] == "basic"
    assert {one["document_name"] for one in answer["citations"]} <= {"budget-2026.xlsx"}
    asked = {"q": "How heavy is the anchor of the standard wave buoy mooring?"}
    changed = server.post("/api/query", json=asked | {"settings": {"answer.max_sentences": 1}}).json()
    assert len(changed["claims"]) == 1


def test_the_cache_is_used_and_cleared(server: Server) -> None:
    body = {"q": "How heavy is the anchor of the mooring?"}
    server.post("/api/query", json=body)
    assert server.post("/api/query", json=body).json()["cached"] == "exact"
    assert server.post("/api/query/clear-cache").json() == {"cleared": True}
    assert server.post("/api/query", json=body).json()["cached"] == "no"


# what is refused


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "the question is empty"),
        ({"q": "   "}, "the question is empty"),
        ({"q": "x" * 1001}, "1000 characters"),
        ({"q": 5}, "q"),
        ({"q": "x", "top_k": 0}, "top_k"),
        ({"q": "x", "top_k": "5"}, "top_k"),
        ({"q": "x", "level": "genius"}, "level"),
        ({"q": "x", "mode": "wizard"}, "'chat', 'general'"),
        ({"q": "x", "settings": {"llm.answer": "openai:gpt-4o"}}, "cannot be changed for one question"),
        ({"q": "x", "settings": {"rag.nonsense": 1}}, "there is no setting"),
        ({"q": "x", "pages": [3, 1]}, "not a valid range"),
        ({"q": "x", "date_from": "spring"}, "not a date"),
        ({"q": "x", "conversation_id": "a\nb"}, "invisible"),
        ({"q": "x", "conversation_id": "  "}, "invisible"),
        ([], "body"),
    ],
)
def test_a_wrong_request_is_told_what_is_wrong(server: Server, body: object, words: str) -> None:
    response = server.post("/api/query", json=body)
    said = response.json()
    assert response.status_code == 400 and said["code"] == "usage_error"
    assert words in said["message"], said
    assert set(said) == {"code", "message", "stage", "retryable", "hint", "request_id"}


def test_a_body_that_is_not_sent_as_json(server: Server) -> None:
    """What curl -d does without a header."""
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        response = server.post("/api/query", content='{"q": "x"}', headers={"Content-Type": kind})
        said = response.json()
        assert response.status_code == 400 and "the body is not JSON" in said["message"]
        assert "Content-Type: application/json" in said["hint"]


def test_a_body_that_does_not_come_is_told_so(examples: Refdesk) -> None:
    head = b"POST /api/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n"
    with (
        serving(examples, silence_s=0.2) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as connection,
    ):
        connection.sendall(head)
        heard = b"".join(iter(lambda: connection.recv(4096), b""))
    said = json.loads(heard.partition(b"\r\n\r\n")[2])
    assert said["code"] == "request_timeout" and said["retryable"] and said["request_id"]


def test_a_scope_without_documents(server: Server) -> None:
    answer = server.post("/api/query", json={"q": QUESTION, "collection": "nowhere"}).json()
    assert not answer["is_answered"] and answer["confidence"]["reason"] == "there are no documents to search"


def test_a_document_that_is_not_there(server: Server) -> None:
    response = server.post("/api/query", json={"q": QUESTION, "document": "nowhere.pdf"})
    assert response.status_code == 404 and response.json()["code"] == "not_found"


def test_long_questions_go_to_chat(server: Server) -> None:
    assert server.post("/api/chat", json={"message": QUESTION + " " + "x" * 1200}).status_code == 200
    response = server.post("/api/chat", json={"message": "x" * 8001})
    assert response.status_code == 400 and "8,000 characters" in response.json()["message"]


# conversations


def test_chat_takes_every_field_of_its_request(server: Server) -> None:
    body = {
        "message": QUESTION,
        "session_id": "all-fields",
        "mode": "chat",
        "collection_filter": "default",
        "folder_id": "default",
        "intelligence_level": "basic",
        "temperature_override": 0.2,
        "enable_cot": True,
        "enable_verification": False,
    }
    answer = server.post("/api/chat", json=body).json()
    assert answer["session_id"] == answer["conversation_id"] == "all-fields"
    assert answer["level"] == "basic" and answer["response_mode"] == "quick"
    assert SEED_KEYS["001"] <= set(answer)


def test_a_follow_up_leans_on_what_was_said(server: Server) -> None:
    first = server.post("/api/chat", json={"message": "What does the tide gauge inspection cost?"}).json()
    assert first["session_id"]
    again = server.post("/api/chat", json={"message": "And its calibration?", "session_id": first["session_id"]}).json()
    assert again["session_id"] == first["session_id"]
    assert again["standalone_question"] != "And its calibration?"


def test_a_folder_lies_in_its_collection(server: Server) -> None:
    body = {"message": QUESTION, "collection_filter": "finance", "folder_id": "hr"}
    response = server.post("/api/chat", json=body)
    assert response.status_code == 400 and "is not in" in response.json()["message"]


# streams


def test_a_stream_is_events_with_ids(server: Server) -> None:
    events = server.events("/api/chat/stream", {"message": QUESTION, "cache": False})
    names = [name for name, _, _ in events]
    assert names[0] == "thinking" and names[-1] == "done" and {"sources", "content", "verification"} <= set(names)
    assert [int(one.rpartition("-")[2]) for _, _, one in events] == list(range(1, len(events) + 1))
    text = ""
    for name, data, _ in events:
        text = data["content"] if name == "replace" else text + data["token"] if name == "content" else text
    answer = events[-1][1]["answer"]
    assert text == answer["content"] and answer["citations"]
    assert server.get(events[-1][1]["traceUrl"]).json()["stages"]
    sources = next(data for name, data, _ in events if name == "sources")
    assert {"marker", "chunk_id", "page", "bbox", "text"} <= set(sources["citations"][0])


def test_an_error_before_the_stream_is_an_ordinary_one(server: Server) -> None:
    for body in ({"message": ""}, {"message": QUESTION, "session_id": "a\nb"}):
        response = server.post("/api/chat/stream", json=body)
        assert response.status_code == 400 and response.json()["code"] == "usage_error"


def test_a_stream_is_taken_up_where_it_was_left(server: Server) -> None:
    body = {"message": QUESTION, "cache": False}
    events = server.events("/api/chat/stream", body)
    rest = server.events("/api/chat/stream", body, last=events[2][2])
    assert rest == events[3:]
    assert server.events("/api/chat/stream", body, last=events[-1][2]) == []
    response = server.post("/api/chat/stream", json=body, headers={"Last-Event-ID": "nobody-3"})
    assert response.status_code == 404 and response.json()["code"] == "not_found"
