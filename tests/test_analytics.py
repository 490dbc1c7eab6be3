"""What the figures say is what happened; what is not known is not taken for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, update

from memory_desk import KINDS, open_either
from postgres_server import opened_engine
from refdesk import UsageError
from refdesk.records import LOCAL, Caller, Measured
from refdesk.store.analytics import analytics
from refdesk.store.database import BackgroundWriter
from refdesk.store.records import SqlAnswers, SqlFeedback
from refdesk.store.schema import answers

STORES = KINDS
ANNA = Caller("anna", "Anna", "reader")

TODAY = date(2026, 3, 10)
USUAL = Measured(
    total_ms=100.0,
    stages={"understand": 10.0, "retrieve": 40.0},
    cached="no",
    cost_usd=0.25,
    route="needs_retrieval",
    is_answered=True,
    confidence="high",
    model="openai:gpt",
    level="standard",
)


class Records:
    """A database to which answers of any day are put."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.background = BackgroundWriter(engine)
        self.answers = SqlAnswers(engine, self.background)
        self.feedback = SqlFeedback(engine, self.answers)
        self.count = 0

    def put(self, days_ago: int = 0, measured: Measured | None = USUAL, **more: Any) -> str:
        self.count += 1
        name = f"answer {self.count}"
        given = {"question": "q", "answer": b"{}", "trace": {}, "measured": measured, "collections": ["finance"]}
        self.answers.put(name, **given | more)
        self.background.flush()
        moment = datetime(TODAY.year, TODAY.month, TODAY.day, 12, tzinfo=UTC) - timedelta(days=days_ago)
        with self.engine.begin() as connection:
            when = update(answers).where(answers.c.id == name).values(created_at=moment.isoformat())
            connection.execute(when)
        return name

    def figures(self, days: int = 7, **limits: Any) -> dict[str, Any]:
        return analytics(self.engine, days, today=TODAY, **limits)


IN_SQL = pytest.mark.only_on("sql", "postgres", reason="answers are dated back in the table")


@pytest.fixture
def records(store_kind: str, tmp_path: Path) -> Iterator[Records]:
    with opened_engine(store_kind, tmp_path) as engine:
        found = Records(engine)
        yield found
        found.background.close()


@IN_SQL
def test_days(records: Records) -> None:
    for days_ago in (0, 0, 1, 3, 6, 7):
        records.put(days_ago)
    found = records.figures(7)
    assert (found["from"], found["to"], found["questions"]) == ("2026-03-04", "2026-03-10", 5)
    assert [one["questions"] for one in found["per_day"]] == [1, 0, 0, 1, 0, 1, 2]
    assert found["per_day"][-1]["day"] == "2026-03-10"
    assert records.figures(8)["questions"] == 6 and records.figures(1)["questions"] == 2


@IN_SQL
def test_waiting(records: Records) -> None:
    for number in range(1, 101):
        stages = {"retrieve": float(number)} | ({"compact": 7.0} if number == 50 else {})
        records.put(measured=replace(USUAL, total_ms=10.0 * number, stages=stages))
    records.put(measured=replace(USUAL, total_ms=1.0, stages={"recall": 1.0}, cached="exact"))
    found = records.figures()["latency"]
    assert found["total"] == {"count": 101, "p50_ms": 500.0, "p95_ms": 950.0}
    assert found["not_cached"] == {"count": 100, "p50_ms": 500.0, "p95_ms": 950.0}
    assert found["stages"]["retrieve"] == {"count": 100, "p50_ms": 50.0, "p95_ms": 95.0}
    assert found["stages"]["compact"] == {"count": 1, "p50_ms": 7.0, "p95_ms": 7.0}


@IN_SQL
def test_cache_cost_abstentions_confidence_models(records: Records) -> None:
    records.put()
    records.put(measured=replace(USUAL, cached="exact", cost_usd=0.0))
    records.put(measured=replace(USUAL, cached="semantic", cost_usd=0.0, confidence="medium"))
    records.put(measured=replace(USUAL, cost_usd=None, model="ollama:small", confidence="low"))  # no price is known
    records.put(measured=replace(USUAL, is_answered=False, confidence="low", model="none"), days_ago=1)
    records.put(measured=replace(USUAL, route="conversational", is_answered=False, confidence="low", model="none"))
    found = records.figures()
    cache = {"exact": 1, "semantic": 1, "no": 4, "unknown": 0, "exact_share": 0.1667, "semantic_share": 0.1667}
    assert found["cache"] == cache
    assert found["cost"] == {"total_usd": 0.75, "unknown": 1}
    assert [one["cost_usd"] for one in found["per_day"]][-2:] == [0.25, 0.5]
    assert [one["cost_unknown"] for one in found["per_day"]][-2:] == [0, 1]
    assert [one["abstained"] for one in found["per_day"]][-2:] == [1, 0]
    assert found["abstentions"] == {"answered": 4, "abstained": 1, "not_searched": 1, "unknown": 0, "share": 0.2}
    assert found["confidence"] == {"high": 2, "medium": 1, "low": 2, "unknown": 0}
    assert found["models"][0] == {"model": "openai:gpt", "questions": 3}
    assert {one["model"]: one["questions"] for one in found["models"]}["none"] == 2


@IN_SQL
def test_answers_without_figures_are_unknown_and_not_nothing(records: Records) -> None:
    records.put(measured=None)
    records.put()
    found = records.figures()
    assert found["questions"] == 2 and found["latency"]["total"] == {"count": 1, "p50_ms": 100.0, "p95_ms": 100.0}
    assert found["cache"]["unknown"] == 1 and found["cache"]["exact_share"] == 0.0
    assert found["cost"] == {"total_usd": 0.25, "unknown": 1}
    assert found["abstentions"]["unknown"] == 1 and found["abstentions"]["share"] == 0.0
    assert found["confidence"]["unknown"] == 1
    assert {"model": "unknown", "questions": 1} in found["models"]


@IN_SQL
def test_answers_whose_model_failed(records: Records) -> None:
    refused, busy = ("openai:gpt", "provider_refused"), ("groq:llama", "provider_unavailable")
    records.put()
    records.put(1, measured=replace(USUAL, model="extractive", failed_models=[refused]))
    records.put(measured=replace(USUAL, model="extractive", failed_models=[refused, busy]))
    records.put(measured=None)
    found = records.figures()
    assert found["model_failures"] == {
        "answers": 2,
        "share": 0.5,
        "models": [
            {"model": "openai:gpt", "code": "provider_refused", "answers": 2},
            {"model": "groq:llama", "code": "provider_unavailable", "answers": 1},
        ],
    }
    assert [one["model_failed"] for one in found["per_day"]][-2:] == [1, 1]
    assert found["failures"]["failed"] == 0, "there was an answer"


@IN_SQL
def test_accuracy_by_collection(records: Records) -> None:
    finance, both, hr, old = (
        records.put(collections=["finance"]),
        records.put(collections=["finance", "hr"]),
        records.put(collections=["hr"]),
        records.put(30, collections=["hr"]),
    )
    records.put(collections=["law"])  # nobody has judged it
    other = Caller("other", "Other", "admin")
    for name, verdict, caller in (
        (finance, "correct", LOCAL),
        (finance, "correct", other),
        (both, "wrong", LOCAL),
        (hr, "correct", LOCAL),
        (old, "wrong", LOCAL),
    ):
        records.feedback.give(name, verdict, caller=caller)
    found = records.figures()["feedback"]
    assert {name: found[name] for name in ("correct", "wrong", "accuracy")} == {
        "correct": 3,
        "wrong": 1,
        "accuracy": 0.75,
    }
    assert found["by_collection"] == [
        {"collection": "finance", "correct": 2, "wrong": 1, "accuracy": 0.6667},
        {"collection": "hr", "correct": 1, "wrong": 1, "accuracy": 0.5},
    ]
    limited = records.figures(access=("hr",))["feedback"]
    assert limited["by_collection"] == [{"collection": "hr", "correct": 1, "wrong": 0, "accuracy": 1.0}]


@IN_SQL
@pytest.mark.parametrize(
    "limits, questions",
    [
        pytest.param({}, 6, id="everyone"),
        pytest.param({"access": ("finance",)}, 2, id="below_is_open_too"),
        pytest.param({"access": ("finance/2024",)}, 1, id="above_is_closed"),
        pytest.param({"access": ("fin",)}, 0, id="not_by_the_beginning_of_a_name"),
        pytest.param({"access": ("Finance",)}, 0, id="not_in_another_case"),
        pytest.param({"access": ("finance", "hr")}, 4, id="all_of_them"),
        pytest.param({"access": ()}, 0, id="no_access"),
        pytest.param({"owner": "anna"}, 2, id="own_ones"),
        pytest.param({"owner": "anna", "access": ("hr",)}, 1, id="own_ones:rights_taken_away"),
    ],
)
def test_what_is_counted_is_what_may_be_seen(records: Records, limits: dict[str, Any], questions: int) -> None:
    """The same rule as for answers themselves."""
    records.put(collections=["finance"])
    records.put(collections=["finance/2024"])
    records.put(collections=["hr"])
    records.put(collections=["finance", "hr"], owner="anna")
    records.put(collections=[])  # it rests on nothing; its question may tell of anything
    records.put(collections=[], owner="anna")
    assert records.figures(**limits)["questions"] == questions
    assert len(records.answers.recent(**limits)) == questions


@IN_SQL
@pytest.mark.parametrize("days", [0, -1, 3651, 1.5, True, "7"])
def test_days_that_are_none(records: Records, days: Any) -> None:
    with pytest.raises(UsageError, match="analytics can cover 1 to 3650 days"):
        records.figures(days)


@IN_SQL
def test_no_answer_is_unpacked_for_it(records: Records) -> None:
    records.put()
    seen: list[str] = []
    event.listen(records.engine, "before_cursor_execute", lambda *details: seen.append(details[2]))
    records.figures(access=("finance",))
    assert seen and not [one for one in seen if "answers.answer," in one or "answers.trace" in one]


# the whole way


def test_questions_that_are_asked_are_counted(store_kind: str, tmp_path: Path) -> None:
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_text("note", "The harbour crane lifts forty tonnes.", collection="harbour")
        question = "How much does the harbour crane lift?"
        anna = desk.for_caller(ANNA)
        first, second = anna.ask_sync(question), anna.ask_sync(question)
        desk.ask_sync("Hello!")
        assert first.is_answered and second.cached == "exact"
        found = desk.analytics(1)
        assert found["questions"] == 3 and found["cache"]["exact"] == 1 and found["cache"]["unknown"] == 0
        assert found["abstentions"]["answered"] == 2 and found["abstentions"]["not_searched"] == 1
        assert found["confidence"]["unknown"] == 0 and found["cost"] == {"total_usd": 0.0, "unknown": 0}
        stages = found["latency"]["stages"]
        assert stages["retrieve"]["count"] == 1, "an answer from the cache has not searched"
        assert stages["recall"]["count"] == 3 and stages["generate"]["p50_ms"] > 0
        assert found["latency"]["total"]["p95_ms"] >= stages["retrieve"]["p95_ms"]
        desk.parts.feedback.give(first.id, "correct", caller=LOCAL)
        accuracy = desk.for_caller(Caller("k", "n", "admin", ("harbour",))).analytics(1)["feedback"]["by_collection"]
        assert accuracy == [{"collection": "harbour", "correct": 1, "wrong": 0, "accuracy": 1.0}]


def test_a_question_that_ends_in_an_error_is_kept_and_counted(store_kind: str, tmp_path: Path) -> None:
    with open_either(store_kind, tmp_path / "library") as desk:
        desk.add_text("note", "The harbour crane lifts forty tonnes.", collection="harbour")
        desk.for_caller(ANNA).ask_sync("How much does the harbour crane lift?")
        with pytest.raises(UsageError, match="model"):  # the general mode answers without documents: it needs a model
            desk.for_caller(ANNA).ask_sync("What makes the tides?", mode="general")
        found = desk.analytics(1)
        assert found["questions"] == 2 and found["abstentions"]["answered"] == 1
        assert found["failures"] == {"failed": 1, "share": 0.5, "codes": {"usage_error": 1}}
        assert found["per_day"][-1]["failed"] == 1
        assert found["cache"]["unknown"] == 0 and found["models"] == [{"model": "extractive", "questions": 1}]
        failed, answered = desk.parts.asking.answers.recent()
        assert (failed.question, failed.error, answered.error) == ("What makes the tides?", "usage_error", "")
        trace = desk.for_caller(ANNA).trace(failed.id)
        assert {"recall", "understand"} <= {one["name"] for one in trace["stages"]}
        assert trace["error"]["code"] == "usage_error" and "model" in trace["error"]["message"]
        # What it had read is not known: who sees only some collections sees only his own.
        assert desk.parts.asking.answers.recent(access=("harbour",)) == [answered]
        assert len(desk.parts.asking.answers.recent(owner="anna", access=("harbour",))) == 2
