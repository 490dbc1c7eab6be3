"""OpenTelemetry: a span for each request and each stage of a question, sent when OTEL_EXPORTER_OTLP_ENDPOINT is set.

Needs `refdesk[otel]`. The SDK's own variables (OTEL_SERVICE_NAME, OTEL_EXPORTER_OTLP_HEADERS …) are heard.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any

from starlette.types import Scope

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
logger = logging.getLogger("refdesk.http")


class Spans:
    """Made once a process; `begin` and `end` surround a request, `stages` is told of a finished question."""

    def __init__(self, provider: Any, propagate: Any, trace: Any) -> None:
        self._provider, self._propagate, self._api = provider, propagate, trace
        self._tracer = provider.get_tracer("refdesk")

    def begin(self, scope: Scope) -> Any:
        """The request's span, below that of the caller when the request names one (`traceparent`)."""
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        above = self._propagate.extract(carrier)
        kind = self._api.SpanKind.SERVER
        span = self._tracer.start_span(scope["method"], context=above, kind=kind)  # its route is known at the end
        scope["state"]["span"] = span
        return span

    def end(self, span: Any, scope: Scope, status: int) -> None:
        route = getattr(scope.get("route"), "path", "")
        if route:
            span.update_name(f"{scope['method']} {route}")
            span.set_attribute("http.route", route)
        span.set_attribute("http.request.method", scope["method"])
        span.set_attribute("http.response.status_code", status)
        span.set_attribute("refdesk.request_id", scope["state"]["request_id"])
        if status >= 500:
            span.set_status(self._api.StatusCode.ERROR)
        span.end()

    def stages(self, above: Any, trace: Mapping[str, Any]) -> None:
        """A span for each stage that ran, at the times the trace says; the question ended now."""
        ended = time.time_ns()
        began = ended - int(trace["total_ms"] * 1e6)
        context = self._api.set_span_in_context(above)
        for one in trace["stages"]:
            if one["skipped"] and not one["error"]:
                continue
            first = began + int(one["started_ms"] * 1e6)
            span = self._tracer.start_span(f"refdesk.{one['name']}", context=context, start_time=first)
            for name, value in (one["input"] | one["output"]).items():
                if isinstance(value, str | bool | int | float):
                    span.set_attribute(f"refdesk.{name}", value)
            if one["error"]:
                span.set_status(self._api.StatusCode.ERROR)
            span.end(first + int(one["took_ms"] * 1e6))

    def failed(self, span: Any, code: str) -> None:
        """A question that ended in an error; in a stream the status of the response is 200 all the same."""
        span.set_attribute("error.type", code)
        span.set_status(self._api.StatusCode.ERROR)

    def close(self) -> None:
        self._provider.shutdown()


def make_spans() -> Spans | None:
    """None when no endpoint is named, or when the extra is missing, which is said once."""
    if not os.environ.get(ENDPOINT):
        return None
    try:
        from opentelemetry import propagate, trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        logger.warning("%s is set, but spans need refdesk[otel]; none are sent", ENDPOINT)
        return None
    name = os.environ.get("OTEL_SERVICE_NAME", "refdesk")
    provider = TracerProvider(resource=Resource.create({"service.name": name}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Spans(provider, propagate, trace)
