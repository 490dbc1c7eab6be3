"""What will be done for this question? Level, intent and complexity become a plan.

    level      strategy                                checks
    basic      dense                                   none beyond the citations
    standard   hybrid; two stages when it is not easy  relevance, claims, verifier
    enhanced   two stages                              + reasoning for questions why
    maximum    two stages, twice as deep               + reconciler

`skipped` is what was wished for and cannot be done, such as a check by a model that nobody named; the trace says it.
"""

from __future__ import annotations

from typing import cast

from refdesk.answer import Plan, Query, Question, Strategy
from refdesk.ask.passages.budget import Budget
from refdesk.models import model_info
from refdesk.ports import Models
from refdesk.settings import Settings
from refdesk.trace import Trace

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
