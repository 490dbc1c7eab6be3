"""A window is shared out by the size of the model, and an answer that would cost too much is made cheaper."""

from __future__ import annotations

import pytest

from refdesk.answer import Plan
from refdesk.ask.passages.budget import SHARES, Budget, expected_cost, fit_to_cost
from refdesk.models import model_info
from refdesk.settings import Settings

PLAN = Plan("hybrid", 10, 20, use_llm=True, verify=True, reconcile=True, reasoning=True)
MODEL = "openai:gpt-4o"


@pytest.mark.parametrize("tier", SHARES)
def test_the_shares_are_those_of_the_seed(tier: str) -> None:
    system, history, passages, generation = SHARES[tier]  # type: ignore[index]
    assert 0.10 <= system <= 0.15
    assert 0.10 <= history <= 0.15
    assert 0.55 <= passages <= 0.60
    assert 0.15 <= generation <= 0.20
    assert system + history + passages + generation == pytest.approx(1.0)


@pytest.mark.parametrize(
    "name", ["ollama:llama3.2", "ollama:llama3.1", "ollama:qwen2.5:14b", "openai:gpt-4o", "anthropic:claude-3-opus"]
)
def test_a_budget_stays_within_the_window(name: str) -> None:
    budget = Budget.for_model(model_info(name), Settings())
    assert budget.prompt + budget.generation <= budget.window
    assert min(budget.system, budget.history, budget.passages, budget.generation) > 0


def test_small_windows_are_shared_and_large_ones_bounded() -> None:
    small = Budget.for_model(model_info("ollama:llama3.1"), Settings())
    assert (small.system, small.history, small.passages, small.generation) == (960, 1200, 4640, 1200)
    assert Budget.for_model(model_info("anthropic:claude-3-opus"), Settings()).passages == 12_000


def test_settings_go_before_the_shares() -> None:
    settings = Settings().changed({"rag.max_context_tokens": 900, "answer.max_tokens": 80})
    budget = Budget.for_model(model_info(MODEL), settings)
    assert (budget.passages, budget.generation) == (900, 80)
    assert Budget.for_model(None, settings).passages == 900
    assert Budget.for_model(None, Settings()).passages == 6000


def cost(limit: float, model: str = MODEL) -> tuple[Plan, Budget]:
    budget = Budget.for_model(model_info(model), Settings())
    settings = Settings().changed({"answer.cost_limit_usd": limit})
    return fit_to_cost(PLAN, budget, model, settings, verifier=model, reconciler=model)


def test_what_fits_is_left_alone() -> None:
    plan, budget = cost(10.0)
    assert (plan, budget) == (PLAN, Budget.for_model(model_info(MODEL), Settings()))


@pytest.mark.parametrize("limit", [0.2, 0.1, 0.06, 0.04, 0.02, 0.01, 0.006])
def test_the_plan_is_cut_down_to_the_limit(limit: float) -> None:
    plan, budget = cost(limit)
    assert plan.use_llm
    expected = expected_cost(plan, budget, MODEL, verifier=MODEL, reconciler=MODEL)
    assert expected is not None
    assert expected <= limit


def test_cuts_come_in_order_and_say_so() -> None:
    whole = expected_cost(
        PLAN, Budget.for_model(model_info(MODEL), Settings()), MODEL, verifier=MODEL, reconciler=MODEL
    )
    assert whole is not None
    first, _ = cost(whole * 0.9)
    assert (first.reconcile, first.verify) == (False, True)
    assert first.skipped == (("reconcile", "the cost limit"),)
    last, budget = cost(0.006)
    assert (last.verify, last.reasoning, budget.history) == (False, False, 0)
    assert [what for what, _ in last.skipped] == ["reconcile", "passages", "verify", "length", "passages"]


def test_in_the_end_no_model_is_asked() -> None:
    plan, _ = cost(0.0)
    assert not plan.use_llm
    assert plan.skipped[-1] == ("model", "openai:gpt-4o would cost more than $0")


@pytest.mark.parametrize("model", ["ollama:llama3.1", "openai:a-model-nobody-priced"])
def test_models_without_a_price_are_not_cut(model: str) -> None:
    plan, _ = cost(0.0, model)
    assert plan == PLAN
