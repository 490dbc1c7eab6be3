"""OpenTelemetry: a real collector on this machine hears of the request and of each stage."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from http_server import serving
from refdesk import Refdesk
from wire_server import WireServer

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

QUESTION = {"q": "What does the annual inspection of a tide gauge cost?", "cache": False}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@contextmanager
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """Its address, and what it was sent."""
    heard: list[ExportTraceServiceRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                data = gzip.decompress(data)
            heard.append(ExportTraceServiceRequest.FromString(data))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        server.server_close()


def by_name(heard: list[Any]) -> dict[str, Any]:
    return {
        span.name: span
        for one in heard
        for resource in one.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }


def test_a_question_is_a_span_with_its_stages_below(examples: Refdesk, monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as (address, heard):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        with serving(examples) as server:
            headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
            response = server.post("/api/query", json=QUESTION, headers=headers)
            assert response.status_code == 200
        # The server has ended and sent what it had.
    spans = by_name(heard)
    request = spans["POST /api/query"]
    assert request.trace_id.hex() == TRACE and request.parent_span_id.hex() == "00f067aa0ba902b7"
    said = {one.key: one.value for one in request.attributes}
    assert said["http.response.status_code"].int_value == 200
    assert said["refdesk.request_id"].string_value == response.headers["x-request-id"]
    for stage in ("understand", "retrieve", "assemble", "generate", "attest"):
        span = spans[f"refdesk.{stage}"]
        assert span.parent_span_id == request.span_id and span.end_time_unix_nano > span.start_time_unix_nano
    assert spans["refdesk.understand"].end_time_unix_nano <= spans["refdesk.retrieve"].start_time_unix_nano + 10**6
    assert "tide gauge" not in str(heard)


def test_a_question_that_fails_is_a_span_that_failed(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a stream, whose response is 200; and a path that is none gives no name of its own."""
    with collector() as (address, heard), WireServer() as model:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        for name, value in model.openai_env("tiny-1b").items():
            monkeypatch.setenv(name, value)
        model.fail(401, times=3)
        with Refdesk(own_folder) as desk, serving(desk) as server:
            events = server.events("/api/chat/stream", {"message": "Write a poem.", "mode": "general"})
            assert events[-1][0] == "error"
            server.get("/api/no/such/place")
    spans = by_name(heard)
    request = spans["POST /api/chat/stream"]
    assert request.status.code == 2  # ERROR
    assert {one.key: one.value.string_value for one in request.attributes}["error.type"] == "provider_refused"
    assert "GET" in spans and "GET /api/no/such/place" not in spans


def test_without_an_endpoint_nothing_is_loaded(examples: Refdesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    with serving(examples) as server:
        assert server.app is not None and server.app.state.service.spans is None
