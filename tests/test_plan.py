"""Level, intent and complexity become a plan."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from refdesk import settings as settings_module
from refdesk.answer import Complexity, Hints, Intent, Level, Query, Question, ResponseMode
from refdesk.ask.plan import make_plan, wished_plan
from refdesk.ask.strategies import STRATEGIES, register
from refdesk.errors import UsageError
from refdesk.library import EngineHits, SearchPorts
from refdesk.settings import Settings
from refdesk.trace import Trace


class NoModels:
    def role(self, name: str, on_event: object = None) -> None:
        return None

    async def aclose(self) -> None: ...


def query(intent: Intent = "factual", complexity: Complexity = "simple", **hints: object) -> Query:
    return Query(
        "q", "q", np.zeros(2), ("q",), intent=intent, complexity=complexity, hints=Hints(template=intent, **hints)
    )


def plan(level: Level = "standard", response: ResponseMode = "standard", asked: Query | None = None, **changed: object):
    settings = Settings().changed(changed)
    return wished_plan(
        Question("q", level=level, response_mode=response), asked or query(), settings, has_llm=True, has_verifier=True
    )


@pytest.mark.parametrize(
    ("level", "asked", "strategy"),
    [
        ("basic", query(), "dense"),
        ("standard", query(), "hybrid"),
        ("standard", query(complexity="complex"), "two_stage"),
        ("standard", query("comparison"), "two_stage"),
        ("standard", query("list"), "two_stage"),
        ("enhanced", query(), "two_stage"),
        ("maximum", query(), "two_stage"),
    ],
    ids=lambda one: one if isinstance(one, str) else f"{one.intent}-{one.complexity}",
)
def test_strategy(level: Level, asked: Query, strategy: str) -> None:
    assert plan(level, asked=asked).strategy == strategy


def test_a_strategy_that_is_named_is_taken() -> None:
    assert plan(**{"rag.strategy": "dense"}).strategy == "dense"
    assert plan(**{"rag.use_hybrid_search": False}).strategy == "dense"


def test_no_level_promises_what_it_does_not_do() -> None:
    assert all(plan(level).skipped == () for level in get_args(Level))


def test_checks_by_mode() -> None:
    assert not plan(response="quick").verify
    assert plan(response="standard").verify and not plan(response="standard").reconcile
    assert plan(response="thorough").reconcile
    assert plan("maximum", "quick").reconcile
    assert not plan("basic", "standard").verify


def test_depth() -> None:
    assert plan("basic").k == 5
    assert plan().k == 10
    assert plan(asked=query("list", top_k=15)).k == 15
    assert plan(asked=query("list", top_k=15), **{"rag.top_k": 20}).k == 30
    assert plan("maximum").candidates > plan("enhanced").candidates > plan().candidates
    asked = Question("q", k=3)
    assert wished_plan(asked, query(), Settings(), has_llm=False, has_verifier=False).k == 3


def test_what_is_skipped_is_in_the_trace() -> None:
    trace = Trace()
    made, budget = make_plan(Question("q", level="maximum"), query(), NoModels(), Settings(), trace)
    assert [one.name for one in trace.stages if one.skipped] == [what for what, _ in made.skipped]
    assert not made.use_llm and budget.passages > 0


def test_a_registered_strategy_can_be_chosen_by_its_name() -> None:
    async def nothing(query: Query, ports: SearchPorts) -> list[EngineHits]:
        return []

    with pytest.raises(UsageError):
        Settings().changed({"rag.strategy": "nothing"})
    register("nothing")(nothing)
    try:
        assert STRATEGIES[plan(**{"rag.strategy": "nothing"}).strategy] is nothing
    finally:
        del STRATEGIES["nothing"]
        settings_module.STRATEGIES.remove("nothing")
