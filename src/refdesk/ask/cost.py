"""What will an answer cost, and what is given up when that is too much?

Counted on the prompt as it was assembled and on the length that a model usually writes: the mean of its last answers in
this library, or `USUAL` for one that has not written here. Two limits:

    answer.cost_average_usd   the last day's questions on average; a dear question is fine while the others are cheap
    answer.cost_limit_usd     one question; nothing dearer is begun

Over a limit, what is cheapest to lose goes first, and each cut is said in the notes of the answer. What costs nothing
is never cut: the built-in check of every sentence stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from refdesk.answer import Context, Plan, Spent, Turn
from refdesk.ask.generate import make_request, prompt_tokens, recent
from refdesk.ask.plan import FEWEST_PASSAGES, FEWEST_WRITTEN, Budget
from refdesk.models import estimate, model_info, rough_tokens
from refdesk.ports import ModelRole, Models
from refdesk.prompts import RECONCILE_SYSTEM, VERIFY_SYSTEM
from refdesk.settings import Settings

# Tokens that a model writes of which nothing is known yet, and what one adds that thinks before it writes.
USUAL: Mapping[ModelRole, int] = {"answer": 400, "verifier": 250, "reconciler": 400}
THOUGHTS = 1_500
FEW_QUESTIONS = 10  # fewer than these say nothing of a day's average: they may cost as much as so many together
Assemble = Callable[[Plan, Budget], Context]
Cut = Callable[["Fitted"], "Fitted"]


@dataclass(frozen=True, slots=True)
class Fitted:
    """What will be done within the limits."""

    plan: Plan
    budget: Budget
    context: Context
    cuts: Mapping[str, str] = field(default_factory=dict)  # what was cut, and the sentence that says so
    expected_usd: float | None = None  # None: no price is known

    @property
    def sizes(self) -> dict[str, Any]:
        return {"expected_usd": self.expected_usd, "cuts": len(self.cuts)}


@dataclass(frozen=True, slots=True)
class Prices:
    """The models of one answer, and what is known of what they write."""

    names: Mapping[ModelRole, str]
    spent: Spent
    turns: Sequence[Turn]
    settings: Settings
    most_characters: int | None = None

    def expected(self, plan: Plan, budget: Budget, context: Context) -> float | None:
        """US dollars of an answer by this plan from this context; None where a price is not known."""
        if not plan.use_llm:
            return 0.0
        costs = [
            estimate(self.names[role], read, written) for role, read, written in self._calls(plan, budget, context)
        ]
        return None if any(cost is None for cost in costs) else sum(cost for cost in costs if cost is not None)

    def _calls(self, plan: Plan, budget: Budget, context: Context) -> Iterator[tuple[ModelRole, int, int]]:
        """(role, tokens read, tokens written) of each call that the plan may make."""
        yield "answer", self._prompt(plan, budget, context), self.usual("answer")
        answer = min(USUAL["answer"], self.usual("answer"))  # as it is read by others: without its thoughts
        if asks_verifier(plan, self.names):
            read = rough_tokens(VERIFY_SYSTEM) + context.token_count + answer
            yield "verifier", read, self.usual("verifier")
        if asks_reconciler(plan, self.names):
            read = rough_tokens(RECONCILE_SYSTEM) + context.token_count + 2 * answer
            yield "reconciler", read, self.usual("reconciler")

    def _prompt(self, plan: Plan, budget: Budget, context: Context) -> int:
        info = model_info(self.names["answer"])
        return prompt_tokens(make_request(plan, context, self.turns, info, budget, self.settings, self.most_characters))

    def usual(self, role: ModelRole) -> int:
        """Tokens that the model of this role usually writes."""
        name = self.names[role]
        known = self.spent.lengths.get((name, role))
        return round(known) if known is not None else USUAL[role] + THOUGHTS * model_info(name).thinks

    def affordable(self, plan: Plan, budget: Budget, context: Context, limit: float) -> int:
        """Tokens that the answering model may write so that all calls together stay under the limit."""
        read, usual = self._prompt(plan, budget, context), self.usual("answer")
        thousand, nothing = (estimate(self.names["answer"], read, count) or 0.0 for count in (1000, 0))
        spare = limit - (self.expected(plan, budget, context) or 0.0)
        each = (thousand - nothing) / 1000
        return budget.generation if each <= 0 else usual + int(spare / each)


def asks_verifier(plan: Plan, names: Mapping[ModelRole, str]) -> bool:
    return plan.verify and plan.ask_verifier and "verifier" in names


def asks_reconciler(plan: Plan, names: Mapping[ModelRole, str]) -> bool:
    return plan.verify and plan.reconcile and plan.ask_reconciler and "reconciler" in names


def named(models: Models) -> dict[ModelRole, str]:
    """The models that an answer may ask, by role."""
    return {role: llm.name for role in USUAL if (llm := models.role(role)) is not None}


def is_paid(names: Mapping[ModelRole, str]) -> bool:
    """Whether one of these models costs anything that is known."""
    return any(estimate(name, 1000, 1000) for name in names.values())


def fit_to_cost(
    plan: Plan, budget: Budget, context: Context, prices: Prices, assemble: Assemble, already_usd: float = 0.0
) -> Fitted:
    """The plan, budget and context, cut down until they fit; `assemble` makes the context of a smaller budget.

    The average never takes the model away, and leaves it half of the passages; the limit for one question may do more.
    A model without a known price is not cut: nothing can be said of it.
    """
    whole = Fitted(plan, budget, context, expected_usd=prices.expected(plan, budget, context))
    if not plan.use_llm or whole.expected_usd is None:
        return whole
    settings, spent = prices.settings, prices.spent
    questions = max(FEW_QUESTIONS, spent.questions + 1)
    left = max(settings.cost_average_usd, settings.cost_average_usd * questions - spent.usd) - already_usd
    why = f"questions cost ${spent.usd / max(1, spent.questions):.2g} on average in the last day, "
    why += f"and answer.cost_average_usd is ${settings.cost_average_usd:g}"
    cutter = Cutter(prices, assemble, context.token_count, why)
    fitted = cutter.cut(whole, left, (*cutter.first, cutter.without_verifier))
    limit = settings.cost_limit_usd - already_usd
    cutter = replace(cutter, why=f"one question may cost ${settings.cost_limit_usd:g} (answer.cost_limit_usd)")
    fitted = cutter.cut(fitted, limit, (*cutter.first, cutter.without_verifier, *cutter.last))
    return cutter.bounded(fitted, limit)


@dataclass(frozen=True, slots=True)
class Cutter:
    """What can be given up, each once; a cut that would change nothing gives back what it was given."""

    prices: Prices
    assemble: Assemble
    tokens: int  # of the whole context
    why: str

    @property
    def first(self) -> tuple[Cut, ...]:
        return self.without_reconciler, self.without_history, self.fewer(0.75), self.fewer(0.5)

    @property
    def last(self) -> tuple[Cut, ...]:
        return self.fewer(0.25), self.fewer(0.0), self.without_model

    def cut(self, fitted: Fitted, limit: float, cuts: Sequence[Cut]) -> Fitted:
        """One cut after the other, as far as is needed."""
        for cut in cuts:
            if fitted.expected_usd is None or fitted.expected_usd <= limit:
                break
            fitted = cut(fitted)
        return fitted

    def without_reconciler(self, fitted: Fitted) -> Fitted:
        if not asks_reconciler(fitted.plan, self.prices.names):
            return fitted
        said = f"{self.prices.names['reconciler']} is not asked to settle a dispute, refuted sentences are taken out"
        return self._changed(fitted, "reconcile", said, plan=replace(fitted.plan, ask_reconciler=False))

    def without_history(self, fitted: Fitted) -> Fitted:
        if not recent(self.prices.turns, fitted.budget.history):
            return fitted
        budget = replace(fitted.budget, history=0)
        return self._changed(fitted, "history", "The model was not told what was said before", budget=budget)

    def fewer(self, share: float) -> Cut:
        """With this share of the passages' tokens, and no less than the best passage needs."""

        def cut(fitted: Fitted) -> Fitted:
            tokens = max(FEWEST_PASSAGES, int(share * self.tokens))
            if tokens >= min(fitted.budget.passages, fitted.context.token_count):
                return fitted
            budget = replace(fitted.budget, passages=tokens)
            context = self.assemble(fitted.plan, budget)
            said = f"About {context.token_count:,} tokens of passages were read instead of {self.tokens:,}"
            return self._changed(fitted, "passages", said, budget=budget, context=context)

        return cut

    def without_verifier(self, fitted: Fitted) -> Fitted:
        if not asks_verifier(fitted.plan, self.prices.names):
            return fitted
        said = f"{self.prices.names['verifier']} did not check the answer, the built-in check did"
        return self._changed(fitted, "verify", said, plan=replace(fitted.plan, ask_verifier=False))

    def without_model(self, fitted: Fitted) -> Fitted:
        """The other cuts are void then: nothing of them is paid for."""
        plan = replace(fitted.plan, use_llm=False, reasoning=False)
        budget = Budget.for_model(None, self.prices.settings)
        said = f"{self.prices.names['answer']} was not asked, and the sentences are quoted from the documents"
        bare = replace(fitted, cuts={})
        return self._changed(bare, "model", said, plan=plan, budget=budget, context=self.assemble(plan, budget))

    def bounded(self, fitted: Fitted, limit: float) -> Fitted:
        """What is written is bounded too, so that a model that does not stop costs no more than the limit."""
        if not fitted.plan.use_llm or fitted.expected_usd is None:
            return fitted
        most = max(FEWEST_WRITTEN, self.prices.affordable(fitted.plan, fitted.budget, fitted.context, limit))
        if most >= fitted.budget.generation:
            return fitted
        said = f"{self.prices.names['answer']} may write {most:,} tokens at most"
        return self._changed(fitted, "length", said, budget=replace(fitted.budget, generation=most))

    def _changed(
        self,
        fitted: Fitted,
        what: str,
        said: str,
        plan: Plan | None = None,
        budget: Budget | None = None,
        context: Context | None = None,
    ) -> Fitted:
        plan, budget, context = plan or fitted.plan, budget or fitted.budget, context or fitted.context
        cuts = {**fitted.cuts, what: f"{said}: {self.why}."}
        return Fitted(plan, budget, context, cuts, self.prices.expected(plan, budget, context))
