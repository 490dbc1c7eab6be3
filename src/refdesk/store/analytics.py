"""Usage analytics: volume, latency, cache, cost, refusals, failures, accuracy, counted from columns only.

What is not known (answers older than the columns, models without a price) is counted as unknown, never as nothing.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import orjson
from sqlalchemy import Engine, func, not_, select

from refdesk.errors import UsageError
from refdesk.store.rows import within
from refdesk.store.schema import answer_collections, answers, feedback
from refdesk.types import EVERYTHING, Access

MOST_DAYS = 3650
TOP_MODELS = 10
SEARCHED = "needs_retrieval"  # the route of a question to the documents; small talk neither abstains nor is confident
_FETCH = 4096
COLUMNS: tuple[str, ...] = (
    "created_at",
    "total_ms",
    "stages",
    "cached",
    "cost_usd",
    "route",
    "is_answered",
    "confidence",
    "model",
)
COLUMNS += ("error", "failed_models")


def analytics(
    engine: Engine, days: int = 30, *, access: Access = EVERYTHING, owner: str | None = None, today: date | None = None
) -> dict[str, Any]:
    """The last days, today included; only answers all of whose collections are in `access`, and the owner's if named.

    >>> analytics(engine, 7)["questions"]
    12
    """
    first, last = window(days, today)
    seen = [answers.c.created_at >= first.isoformat(), *_visible(access, owner)]
    found = UsageTally(first, last)
    query = select(*(answers.c[name] for name in COLUMNS)).where(*seen)
    with engine.connect() as connection:
        for rows in connection.execution_options(stream_results=True).execute(query).partitions(_FETCH):
            for row in rows:
                found.count(row)
        # How many of each verdict, in all and by the collections that the answers rest on.
        judged = select(feedback.c.verdict, func.count()).join(answers).where(*seen)
        verdicts: dict[str, int] = dict(connection.execute(judged.group_by(feedback.c.verdict)).all())
        place = answer_collections.c.collection
        by_place = select(place, feedback.c.verdict, func.count()).select_from(feedback).join(answers)
        by_place = by_place.join(answer_collections, answer_collections.c.answer_id == answers.c.id).where(*seen)
        placed: dict[str, dict[str, int]] = defaultdict(dict)
        for collection, verdict, count in connection.execute(by_place.group_by(place, feedback.c.verdict)):
            placed[collection][verdict] = count
    return found.to_dict() | {"feedback": accuracy(verdicts, placed)}


def window(days: int, today: date | None) -> tuple[date, date]:
    """The first and the last day."""
    if not isinstance(days, int) or isinstance(days, bool) or not 1 <= days <= MOST_DAYS:
        raise UsageError(f"analytics can cover 1 to {MOST_DAYS} days, not {days!r}")
    last = today or datetime.now(UTC).date()
    return last - timedelta(days=days - 1), last


def accuracy(verdicts: Mapping[str, int], placed: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """In all, and by the collections that the answers rest on."""
    by_collection = [{"collection": day} | _accuracy(placed[day]) for day in sorted(placed)]
    return _accuracy(verdicts) | {"by_collection": by_collection}


def _visible(access: Access, owner: str | None) -> list[Any]:
    """The rule of `AnswerStore`, inside the query."""
    conditions: list[Any] = [] if owner is None else [answers.c.owner == owner]
    if access is not EVERYTHING:
        resting = select(answer_collections.c.answer_id).where(answer_collections.c.answer_id == answers.c.id)
        outside = resting.where(not_(within(answer_collections.c.collection, access)))
        conditions.append(~outside.correlate(answers).exists())
        if owner is None:
            conditions.append(resting.correlate(answers).exists())
    return conditions


class UsageTally:
    """What is added up while the rows go by."""

    def __init__(self, first: date, last: date) -> None:
        self.first, self.last = first, last
        days = [(first + timedelta(days=step)).isoformat() for step in range((last - first).days + 1)]
        self.questions = Counter(dict.fromkeys(days, 0))
        self.costs = dict.fromkeys(days, 0.0)
        self.unpriced = Counter[str]()
        self.abstained = Counter[str]()
        self.failed = Counter[str]()
        self.errors = Counter[str]()
        self.totals: list[float] = []
        self.fresh: list[float] = []
        self.stages: dict[str, list[float]] = defaultdict(list)
        self.cached = Counter[str]()
        self.models = Counter[str]()
        self.failed_models = Counter[tuple[str, str]]()  # by model and code
        self.without_model = Counter[str]()
        self.confidence = Counter[str]()
        self.outcomes = Counter[str]()

    def count(self, row: Any) -> None:
        # Taken apart at once: a row's attributes cost more than all that is done with them.
        created_at, total_ms, stages, cached, cost_usd, route, is_answered, confidence, model, error, failed = row
        day = created_at[:10]
        self.questions[day] += 1
        if error:  # nothing else is known of it
            self.failed[day] += 1
            self.errors[error] += 1
            return
        if cost_usd is None:
            self.unpriced[day] += 1
        else:
            self.costs[day] = self.costs.get(day, 0.0) + cost_usd
        if total_ms is not None:
            self.totals.append(total_ms)
            if cached == "no":
                self.fresh.append(total_ms)
        for name, took in orjson.loads(stages or "{}").items():
            self.stages[name].append(took)
        self.cached[cached or "unknown"] += 1
        self.models[model or "unknown"] += 1
        if failed and failed != "[]":
            self.without_model[day] += 1
            self.failed_models.update((name, code) for name, code in orjson.loads(failed))
        if route is None or is_answered is None:
            self.outcomes["unknown"] += 1
            self.confidence["unknown"] += 1
        elif route != SEARCHED:
            self.outcomes["not_searched"] += 1
        else:
            self.outcomes["answered" if is_answered else "abstained"] += 1
            self.abstained[day] += not is_answered
            self.confidence[confidence or "unknown"] += 1

    def to_dict(self) -> dict[str, Any]:
        return {
            "days": (self.last - self.first).days + 1,
            "from": self.first.isoformat(),
            "to": self.last.isoformat(),
            "questions": self.questions.total(),
            "per_day": [
                {
                    "day": day,
                    "questions": self.questions[day],
                    "abstained": self.abstained[day],
                    "failed": self.failed[day],
                    "model_failed": self.without_model[day],
                    "cost_usd": round(self.costs[day], 6),
                    "cost_unknown": self.unpriced[day],
                }
                for day in sorted(self.costs)
            ],
            "latency": {
                "total": _percentiles(self.totals),
                "not_cached": _percentiles(self.fresh),
                "stages": {name: _percentiles(self.stages[name]) for name in sorted(self.stages)},
            },
            "cache": self._cache(),
            "cost": {"total_usd": round(sum(self.costs.values()), 6), "unknown": self.unpriced.total()},
            "abstentions": {
                "answered": self.outcomes["answered"],
                "abstained": self.outcomes["abstained"],
                "not_searched": self.outcomes["not_searched"],
                "unknown": self.outcomes["unknown"],
                "share": _share(self.outcomes["abstained"], self.outcomes["answered"] + self.outcomes["abstained"]),
            },
            "failures": {
                "failed": self.errors.total(),
                "share": _share(self.errors.total(), self.questions.total()),
                "codes": dict(self.errors.most_common()),
            },
            "model_failures": {
                "answers": self.without_model.total(),
                "share": _share(self.without_model.total(), self.questions.total()),
                "models": [
                    {"model": name, "code": code, "answers": count}
                    for (name, code), count in self.failed_models.most_common(TOP_MODELS)
                ],
            },
            "confidence": {name: self.confidence[name] for name in ("high", "medium", "low", "unknown")},
            "models": [{"model": name, "questions": count} for name, count in self.models.most_common(TOP_MODELS)],
        }

    def _cache(self) -> dict[str, Any]:
        counts = {name: self.cached[name] for name in ("exact", "semantic", "no", "unknown")}
        known = counts["exact"] + counts["semantic"] + counts["no"]
        return counts | {
            "exact_share": _share(counts["exact"], known),
            "semantic_share": _share(counts["semantic"], known),
        }


def _percentiles(values: Iterable[float]) -> dict[str, Any]:
    """The nearest rank: a time that somebody did wait."""
    ordered = sorted(values)
    found = {f"p{part}_ms": ordered[math.ceil(part / 100 * len(ordered)) - 1] if ordered else None for part in (50, 95)}
    return {"count": len(ordered)} | found


def _accuracy(verdicts: Mapping[str, int]) -> dict[str, Any]:
    correct, wrong = verdicts.get("correct", 0), verdicts.get("wrong", 0)
    return {"correct": correct, "wrong": wrong, "accuracy": _share(correct, correct + wrong)}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
