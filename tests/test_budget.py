"""A window is shared out by the size of the model."""

from __future__ import annotations

import pytest

from refdesk.ask.plan import SHARES, Budget
from refdesk.models import Tier, model_info
from refdesk.settings import Settings

MODEL = "openai:gpt-4o"


@pytest.mark.parametrize("tier", SHARES)
def test_the_shares_are_those_of_the_seed(tier: Tier) -> None:
    history, passages, generation = SHARES[tier]
    assert 0.10 - 1e-9 <= 1 - sum(SHARES[tier]) <= 0.15 + 1e-9  # for the rules
    assert 0.10 <= history <= 0.15
    assert 0.55 <= passages <= 0.60
    assert 0.15 <= generation <= 0.20


@pytest.mark.parametrize(
    "name", ["ollama:llama3.2", "ollama:llama3.1", "ollama:qwen2.5:14b", "openai:gpt-4o", "anthropic:claude-3-opus"]
)
def test_a_budget_stays_within_the_window(name: str) -> None:
    budget = Budget.for_model(model_info(name), Settings())
    assert budget.history + budget.passages + budget.generation < model_info(name).context_window
    assert min(budget.history, budget.passages, budget.generation) > 0


def test_small_windows_are_shared_and_large_ones_bounded() -> None:
    small = Budget.for_model(model_info("ollama:llama3.1"), Settings())
    assert (small.history, small.passages, small.generation) == (1200, 4800, 1200)
    assert Budget.for_model(model_info("anthropic:claude-3-opus"), Settings()).passages == 12_000


def test_settings_go_before_the_shares() -> None:
    settings = Settings().changed({"rag.max_context_tokens": 900, "answer.max_tokens": 80})
    budget = Budget.for_model(model_info(MODEL), settings)
    assert (budget.passages, budget.generation) == (900, 80)
    assert Budget.for_model(None, settings).passages == 900
    assert Budget.for_model(None, Settings()).passages == 6000
