"""Feedback: one word for each caller and answer, and only of answers that the caller may see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from answer_samples import TYPICAL
from memory_desk import KINDS, open_either
from refdesk import Refdesk, UsageError
from refdesk.answer import Turn, encode_answer
from refdesk.errors import NotFound
from refdesk.records import LOCAL, Caller

ANNA = Caller("anna", "Anna", "reader", ("finance",))
BEN = Caller("ben", "Ben", "reader")


@pytest.fixture(params=KINDS)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Refdesk]:
    with open_either(request.param, tmp_path / "library") as found:
        for name, owner, collections in (("one", "anna", ["finance/2024"]), ("hr", "anna", ["finance", "hr"])):
            found.parts.asking.answers.put(
                name, question="q", answer=encode_answer(TYPICAL), trace={}, owner=owner, collections=collections
            )
        yield found


def test_a_word_is_kept(desk: Refdesk) -> None:
    given = desk.parts.feedback.give("one", "wrong", "  it is 350 kg\0 ", caller=ANNA)
    assert desk.parts.feedback.of("one") == [given]
    assert given.to_dict() | {"created_at": ""} == {
        "answer_id": "one",
        "owner": "anna",
        "verdict": "wrong",
        "correction": "it is 350 kg",
        "created_at": "",
    }


def test_a_later_word_replaces(desk: Refdesk) -> None:
    desk.parts.feedback.give("one", "wrong", "it is 350 kg", caller=ANNA)
    desk.parts.feedback.give("one", "correct", caller=ANNA)
    (found,) = desk.parts.feedback.of("one")
    assert (found.verdict, found.correction) == ("correct", "")


def test_two_callers_have_two_words(desk: Refdesk) -> None:
    desk.parts.feedback.give("one", "wrong", caller=ANNA)
    time.sleep(0.003)  # times are in milliseconds
    desk.parts.feedback.give("one", "correct", caller=LOCAL)
    assert [(one.owner, one.verdict) for one in desk.parts.feedback.of("one")] == [("", "correct"), ("anna", "wrong")]
    assert [one.owner for one in desk.parts.feedback.of("one", caller=ANNA)] == ["anna"]
    assert len(desk.parts.feedback.of("one", caller=LOCAL)) == 2


@pytest.mark.parametrize(
    "answer_id, caller",
    [
        pytest.param("nothing", LOCAL, id="unknown"),
        pytest.param("one", BEN, id="of_somebody_else"),
        pytest.param("hr", ANNA, id="own:a_collection_that_was_taken_away"),
        pytest.param("hr", Caller("boss", "Boss", "admin", ("finance",)), id="admin_of_some_collections"),
    ],
)
def test_nobody_judges_what_he_does_not_see(desk: Refdesk, answer_id: str, caller: Caller) -> None:
    for door in (
        lambda: desk.parts.feedback.give(answer_id, "wrong", caller=caller),
        lambda: desk.parts.feedback.of(answer_id, caller=caller),
    ):
        with pytest.raises(NotFound) as refused:
            door()
        assert str(refused.value) == f"there is no answer '{answer_id}'"
    assert desk.parts.feedback.of(answer_id) == []


@pytest.mark.parametrize(
    "verdict, correction, sentence",
    [
        pytest.param("good", "", "an answer is correct or wrong, not 'good'", id="no_such_verdict"),
        pytest.param("wrong", "x" * 8001, "a text of at most 8,000 characters", id="too_long"),
        pytest.param("wrong", None, "a correction must be a text", id="not_a_text"),
    ],
)
def test_what_is_no_feedback_is_refused(desk: Refdesk, verdict: str, correction: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        desk.parts.feedback.give("one", verdict, correction, caller=ANNA)
    assert desk.parts.feedback.of("one") == []


def test_it_goes_with_its_answer(desk: Refdesk) -> None:
    desk.parts.asking.conversations.append("talk", [Turn("user", "q")], owner="anna")
    desk.parts.asking.answers.put("said", question="q", answer=b"{}", trace={}, owner="anna", conversation_id="talk")
    desk.parts.feedback.give("said", "wrong", caller=ANNA)
    desk.parts.feedback.give("one", "wrong", caller=ANNA)
    desk.parts.asking.conversations.delete("talk")
    assert desk.parts.feedback.of("said") == [] and len(desk.parts.feedback.of("one")) == 1
