"""Which rules go before the context? The same for assembling, which leaves room for them, and for asking. Pure."""

from __future__ import annotations

from refdesk.answer import Plan
from refdesk.ask.passages.budget import Budget
from refdesk.prompts import answering_system
from refdesk.settings import Settings


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
