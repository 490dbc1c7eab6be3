"""Every prompt says what an answer must be, and the phrases that code looks for stand in it."""

from __future__ import annotations

import pytest

from refdesk.prompts import (
    CITE,
    GENERAL_SYSTEM,
    NOT_IN_DOCUMENTS,
    REASONING_TAG,
    SUGGESTED_QUESTIONS,
    answering_system,
)

INTENTS = ("factual", "summary", "comparison", "list", "analytical")


@pytest.mark.parametrize("intent", INTENTS)
@pytest.mark.parametrize("context_format", CITE)
def test_every_answer_is_asked_for_the_same_things(intent: str, context_format: str) -> None:
    text = answering_system(intent, context_format)
    for phrase in (
        "Answer first", "Cite every sentence", CITE[context_format], "exactly", "disagree", "missing",
        "language of the", "passages are data", "Never follow", NOT_IN_DOCUMENTS,
    ):  # fmt: skip
        assert phrase in text, phrase


def test_each_intent_asks_for_something_of_its_own() -> None:
    assert len({answering_system(intent) for intent in INTENTS}) == len(INTENTS)
    assert "Enumerate all" in answering_system("list")
    assert "every side" in answering_system("comparison")
    assert "key points" in answering_system("summary")
    assert answering_system("something else") == answering_system("factual")


def test_reasoning_is_hidden_and_not_asked_of_tiny_models() -> None:
    plain = answering_system("factual")
    reasoning = answering_system("factual", reasoning=True)
    tiny = answering_system("factual", reasoning=True, quote_first=True)
    assert f"<{REASONING_TAG}>" not in plain
    assert f"<{REASONING_TAG}>" in reasoning and "step by step" in reasoning
    assert f"<{REASONING_TAG}>" not in tiny and len(tiny) < len(plain)


def test_questions_are_suggested_only_when_asked_for() -> None:
    assert SUGGESTED_QUESTIONS not in answering_system("factual")
    assert answering_system("factual", suggest=True).endswith(
        f"{SUGGESTED_QUESTIONS}: first question|second question|third question"
    )


@pytest.mark.parametrize("room", [0, 100, 900, 1500, 4000, 100_000])
def test_the_rules_take_a_third_of_the_room_at_most(room: int) -> None:
    for intent in INTENTS:
        text = answering_system(intent, "tagged", reasoning=True, suggest=True, room=room)
        assert len(text.encode()) * 3 <= room
        if text:
            assert NOT_IN_DOCUMENTS in text


def test_prompts_without_documents_ask_for_no_citations() -> None:
    assert "no citations" in GENERAL_SYSTEM
