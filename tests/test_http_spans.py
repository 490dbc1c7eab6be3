"""OpenTelemetry: a real collector on this machine hears of the request and of each stage."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from http_server import serving
from refdesk import Refdesk

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


def test_a_question_is_a_span_with_its_stages_below(examples: Refdesk, monkeypatch: pytest.MonkeyPatch) -> None:
    with collector() as (address, heard):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
        with serving(examples) as server:
            headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
            response = server.post("/api/query", json=QUESTION, headers=headers)
            assert response.status_code == 200
        # The server has ended and sent what it had.
    spans = {
        span.name: span
        for one in heard
        for resource in one.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }
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


def test_without_an_endpoint_nothing_is_loaded(examples: Refdesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    with serving(examples) as server:
        assert server.app is not None and server.app.state.service.spans is None
