"""The guard of the semantic cache: an answer is only served again for the same question."""

from __future__ import annotations

import pytest

from near_misses import SAME, near_misses
from refdesk.ask.wording import meaning, same_question, threshold

NEAR_MISSES = near_misses()


def test_there_are_enough_near_misses() -> None:
    assert len(set(NEAR_MISSES)) >= 250
    assert not [one for one in NEAR_MISSES if one[1] == one[2]]


def test_no_near_miss_is_served() -> None:
    served = [one for one in NEAR_MISSES if same_question(one[1], one[2]) or same_question(one[2], one[1])]
    assert not served


def test_most_plain_paraphrases_are_served() -> None:
    """A guard that says no to everything would pass the test above."""
    served = [pair for pair in SAME if same_question(*pair)]
    assert len(SAME) >= 60
    assert len(served) >= 0.7 * len(SAME)


def test_a_question_is_the_same_as_itself() -> None:
    assert all(same_question(one, one) and same_question(other, other) for _, one, other in NEAR_MISSES)
    assert not same_question("", "")


@pytest.mark.parametrize(
    ("question", "asks", "content", "figures"),
    [
        ("What is the price of the TG-4?", "what", ("price",), ((0, "tg-4"),)),
        ("How many ships called in June 2020?", "how many", ("ship", "called"), ((-1, "june"), (-1, "2020"))),
        ("Is the deposit of $100 refundable?", "", ("deposit", "refundable"), ((1, "$"), (1, "100"))),
    ],
)
def test_meaning(question: str, asks: str, content: tuple[str, ...], figures: tuple[tuple[int, str], ...]) -> None:
    found = meaning(question)
    assert (found.asks, found.content, found.figures) == (asks, content, figures)


def test_short_questions_need_more() -> None:
    assert threshold("precision", "TG-4 price") == 0.95
    assert threshold("recall", "TG-4 price") == 0.85
    short, long = "TG-4 price", "What is the price of the TG-4 buoy with the long chain and the lamp on the mast today?"
    assert threshold("adaptive", short) > threshold("adaptive", long) >= 0.85
