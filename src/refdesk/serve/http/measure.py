"""What is counted for /metrics? Requests, answers, failures, stages, tokens, cost, open streams; of all workers.

With several workers the supervisor names a folder in PROMETHEUS_MULTIPROC_DIR; each worker writes its figures there,
and whichever is asked adds them up.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector

from refdesk.answer import Answer
from refdesk.errors import ProviderError, RefdeskError

MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
# Seconds; from an answer out of the cache to a model that thinks.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
CONTENT_TYPE = CONTENT_TYPE_LATEST


class Figures:
    """The figures of one app."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self.registry}
        self._requests = Counter("refdesk_requests", "Requests answered", ["method", "route", "status"], **own)
        self._latency = Histogram(
            "refdesk_request_seconds", "Time until a request was answered", ["route"], buckets=BUCKETS, **own
        )
        self._stages = Histogram(
            "refdesk_stage_seconds", "Time a stage of asking took", ["stage"], buckets=BUCKETS, **own
        )
        self._answers = Counter("refdesk_answers", "Answers given", ["cached", "answered", "level"], **own)
        self._failures = Counter("refdesk_failed_questions", "Questions that ended in an error", ["code"], **own)
        self._failed_models = Counter(
            "refdesk_model_failures", "Models that were to write an answer and did not", ["model", "code"], **own
        )
        self._tokens = Counter("refdesk_tokens", "Tokens that models read and wrote", ["kind"], **own)
        self._cost = Counter("refdesk_cost_usd", "What models cost, where a price is known", **own)
        self._streams = Gauge("refdesk_streams_open", "Questions being answered", multiprocess_mode="livesum", **own)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._requests.labels(method, route, str(status)).inc()
        self._latency.labels(route).observe(seconds)

    def began(self) -> None:
        self._streams.inc()

    def ended(self) -> None:
        self._streams.dec()

    def answer(self, answer: Answer) -> None:
        self._answers.labels(answer.cached, str(answer.is_answered).lower(), answer.level).inc()
        if answer.cached == "no":  # an answer from the cache still carries the times it was made in
            for name, took_ms in answer.metrics.items():
                if name.endswith("_ms"):
                    self._stages.labels(name.removesuffix("_ms")).observe(took_ms / 1000)
        for one in answer.failed_models:
            self._failed_models.labels(one.model, one.code).inc()
        self._tokens.labels("prompt").inc(answer.usage.prompt_tokens)
        self._tokens.labels("completion").inc(answer.usage.completion_tokens)
        self._cost.inc(answer.usage.cost_usd or 0.0)

    def failure(self, error: RefdeskError) -> None:
        self._failures.labels(error.code).inc()
        if isinstance(error, ProviderError) and error.model:  # nobody stood in for it
            self._failed_models.labels(error.model, error.code).inc()

    def text(self) -> bytes:
        registry = self.registry
        if folder := os.environ.get(MULTIPROCESS):
            _forget_the_dead(Path(folder))
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def _forget_the_dead(folder: Path) -> None:
    """What a worker that was killed had open is open no more; what it had counted still counts."""
    for path in folder.glob("gauge_live*.db"):  # gauge_livesum_4711.db
        number = path.stem.rpartition("_")[2]
        if number.isdigit() and not _is_alive(int(number)):
            path.unlink(missing_ok=True)  # another worker may tell its figures at the same moment


def _is_alive(number: int) -> bool:
    try:
        os.kill(number, 0)
    except OSError:  # nobody has this number, or someone whom we may not signal: not a worker of ours
        return False
    return True
