"""How much room has each part of a prompt? The window of a model, shared out by its size. Pure.

window 8,000 (small)  ->  system 960 · history 1,200 · passages 4,640 · generation 1,200
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from refdesk.answer import Plan
from refdesk.models import ModelInfo, Tier, estimate
from refdesk.settings import Settings

# Shares of the window: system, history, passages, generation; seed 001 step 8 (10–15, 10–15, 55–60 and 15–20 %).
SHARES: dict[Tier, tuple[float, float, float, float]] = {
    "tiny": (0.15, 0.10, 0.55, 0.20),
    "small": (0.12, 0.15, 0.58, 0.15),
    "medium": (0.10, 0.15, 0.60, 0.15),
    "large": (0.10, 0.15, 0.60, 0.15),
}
# More passages than this cost money and attention and add nothing: ten hits with neighbours are about 6,000 tokens.
MOST_PASSAGES: dict[Tier, int] = {"tiny": 2_500, "small": 5_000, "medium": 8_000, "large": 12_000}
MOST_HISTORY = 8_000
MOST_GENERATION = 4_000
MOST_HIDDEN = 8_000  # for models that think before they write: their thoughts count as written
EXTRACTIVE_WINDOW = 8_000  # without a model nothing is read by one; this bounds the work


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens for each part; `generation` is also the most that is written. Parts may take less than the window."""

    window: int
    system: int
    history: int
    passages: int
    generation: int
    tier: Tier = "medium"

    @classmethod
    def for_model(cls, info: ModelInfo | None, settings: Settings) -> Budget:
        """The shares of this model's window, bounded by the settings; without a model a generous default."""
        if info is None:
            passages = settings.max_context_tokens or 6_000
            return cls(max(EXTRACTIVE_WINDOW, passages), 0, 0, passages, settings.max_answer_tokens or 1_000)
        window = info.context_window
        system, history, passages, generation = (int(share * window) for share in SHARES[info.tier])
        most_written = MOST_HIDDEN if info.thinks else MOST_GENERATION
        return cls(
            window=window,
            system=system,
            history=min(history, MOST_HISTORY),
            passages=min(passages, settings.max_context_tokens or MOST_PASSAGES[info.tier]),
            generation=min(generation, settings.max_answer_tokens or most_written),
            tier=info.tier,
        )

    @property
    def prompt(self) -> int:
        return self.system + self.history + self.passages


SYSTEM_TOKENS = 700  # what the rules take, whatever their share
FEWEST_PASSAGES = 500
FEWEST_WRITTEN = 300
VERIFIER_WRITES = 400


def fit_to_cost(
    plan: Plan, budget: Budget, model: str, settings: Settings, *, verifier: str = "", reconciler: str = ""
) -> tuple[Plan, Budget]:
    """The plan and budget cut down until the estimate fits `answer.cost_limit_usd`; in the end without a model.

    What is given up, in order: the reconciler, half of the passages, the verifier, half of what is written, passages
    down to one, the model. A model without a known price is not cut: nothing can be said of it.
    """
    if not plan.use_llm:
        return plan, budget
    limit = settings.cost_limit_usd
    for tried_plan, tried_budget in _cuts(plan, budget):
        cost = expected_cost(tried_plan, tried_budget, model, verifier=verifier, reconciler=reconciler)
        if cost is None or cost <= limit:
            return tried_plan, tried_budget
    skipped = (*plan.skipped, ("model", f"{model} would cost more than ${limit:g}"))
    return replace(plan, use_llm=False, verify=False, reconcile=False, reasoning=False, skipped=skipped), budget


def _cuts(plan: Plan, budget: Budget) -> list[tuple[Plan, Budget]]:
    """Ever cheaper pairs, the one that was wished for first."""
    found = [(plan, budget)]

    def cut(name: str, plan: Plan, budget: Budget) -> None:
        before = found[-1]
        if (plan, budget) != before:
            why = (name, "the cost limit")
            found.append((replace(plan, skipped=(*before[0].skipped, why)), budget))

    cut("reconcile", replace(plan, reconcile=False), budget)
    half = replace(budget, passages=max(FEWEST_PASSAGES, budget.passages // 2), history=budget.history // 2)
    cut("passages", found[-1][0], half)
    cut("verify", replace(found[-1][0], verify=False), half)
    short = replace(half, generation=max(FEWEST_WRITTEN, half.generation // 2))
    cut("length", replace(found[-1][0], reasoning=False), short)
    least = replace(short, passages=min(short.passages, FEWEST_PASSAGES), history=0, generation=FEWEST_WRITTEN)
    cut("passages", found[-1][0], least)
    return found


def expected_cost(plan: Plan, budget: Budget, model: str, *, verifier: str = "", reconciler: str = "") -> float | None:
    """The most that an answer by this plan costs in US dollars; None where a price is not known."""
    read = SYSTEM_TOKENS + budget.history + budget.passages
    calls = [(model, read, budget.generation)]
    if plan.verify and verifier:
        calls.append((verifier, read + budget.generation, VERIFIER_WRITES))
    if plan.reconcile and reconciler:
        calls.append((reconciler, read + budget.generation + VERIFIER_WRITES, budget.generation))
    costs = [estimate(*call) for call in calls]
    return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)
