"""What will be done for this question? Level, intent and complexity become a plan.

    level      strategy                                checks
    basic      dense                                   none beyond the citations
    standard   hybrid; two stages when it is not easy  relevance, claims, verifier
    enhanced   two stages                              + reasoning for questions why
    maximum    two stages, twice as deep               + reconciler

`skipped` is what was wished for and cannot be done, such as a check by a model that nobody named; the trace says it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from refdesk.answer import Plan, Query, Question, Strategy
from refdesk.models import ModelInfo, Tier, model_info
from refdesk.ports import Models
from refdesk.prompts import answering_system
from refdesk.settings import Settings
from refdesk.trace import Trace

# How much room has each part of a prompt? The window of a model, shared out by its size.

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
FEWEST_PASSAGES = 500  # tokens, however little an answer may cost: the best passage
FEWEST_WRITTEN = 300
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


BASIC_K = 5  # seed 001 step 5: dense only, five chunks
DEEP = 50  # candidates of the first of two stages
DEEPEST = 100
USUAL_TOP_K = 10  # what the hints of an intent are given for; rag.top_k scales them


def make_plan(
    question: Question, query: Query, models: Models, settings: Settings, trace: Trace
) -> tuple[Plan, Budget]:
    """What will be done and with how much room; what is left out is written into the trace."""
    writer, has_verifier = models.role("answer"), models.role("verifier") is not None
    plan = wished_plan(question, query, settings, has_llm=writer is not None, has_verifier=has_verifier)
    budget = Budget.for_model(model_info(writer.name) if writer is not None else None, settings)
    for what, why in plan.skipped:
        trace.skip(what, why)
    return plan, budget


def wished_plan(question: Question, query: Query, settings: Settings, *, has_llm: bool, has_verifier: bool) -> Plan:
    """The plan; it holds no model and no clock, so the same question gives the same plan."""
    strategy = _strategy(question, query, settings)
    skipped: list[tuple[str, str]] = []
    is_deep = strategy == "two_stage"
    k = question.k or _top_k(question, query, settings)
    verify = question.response_mode != "quick" and question.level != "basic"
    reconcile = question.response_mode == "thorough" or question.level == "maximum"
    if verify and has_llm and not has_verifier:
        skipped.append(("verify", "no verifier model is named; the built-in check stands"))
    return Plan(
        strategy=strategy,
        k=k,
        candidates=max(k, settings.candidates, (DEEPEST if question.level == "maximum" else DEEP) if is_deep else 0),
        rerank=settings.rerank and strategy != "dense",
        check_relevance=settings.verification_enabled and question.level != "basic",
        use_mmr=query.hints.use_mmr and question.level != "basic",
        reasoning=has_llm and _reasons(question, query, settings),
        template=query.hints.template,
        use_llm=has_llm,
        verify=verify,
        reconcile=reconcile,
        skipped=tuple(skipped),
    )


def _strategy(question: Question, query: Query, settings: Settings) -> Strategy:
    if settings.strategy != "auto":
        return cast(Strategy, settings.strategy)  # one of the setting's choices
    if question.level == "basic" or not settings.use_hybrid_search:
        return "dense"
    # Dense alone for easy questions, as seed 001 has it, loses a seventh of the answers (docs/evals.md) for 1 ms.
    is_easy = query.complexity != "complex" and query.intent in ("factual", "analytical")
    return "hybrid" if is_easy and question.level == "standard" else "two_stage"


def _top_k(question: Question, query: Query, settings: Settings) -> int:
    if question.level == "basic":
        return min(BASIC_K, settings.top_k)
    return max(1, round(query.hints.top_k * settings.top_k / USUAL_TOP_K))


def _reasons(question: Question, query: Query, settings: Settings) -> bool:
    return settings.reasoning or (query.hints.use_reasoning and question.level in ("enhanced", "maximum"))


# Which rules go before the context? The same for assembling, which leaves room for them, and for asking.


def system_message(plan: Plan, budget: Budget, settings: Settings, most: int | None) -> str:
    """The system message of one answer; within `most` bytes for the whole prompt it is shortened or left out."""
    return answering_system(
        plan.template,
        settings.context_format,
        reasoning=plan.reasoning,
        quote_first=budget.tier == "tiny",
        suggest=settings.suggest_questions,
        room=most,
    )
