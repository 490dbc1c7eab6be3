"""No regular expression of the package takes more than linear time, whatever text it is given."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from pattern_attacks import ANCHORED, EVERYWHERE, Attack, Expression, attacks, cost, expressions

SIZES = (5_000, 10_000, 20_000)
FEW = SIZES[0] // 4
SHORT = 24  # characters that show an expression which takes exponential time
WORTH_A_LOOK_S = 0.002  # under this at 5,000 characters, ten times a linear scan's time, twice the text tells nothing
SLOW_S = 0.02  # over this, fewer characters tell as much
STEEPEST = 3.0  # times as long for twice the text: linear is 2, quadratic 4
CLEARLY_LINEAR = 2.4  # the same; needs no second look
EXPRESSIONS = expressions()


def growth(one: Expression, attack: Attack) -> float:
    """How much longer twice the text takes, at best of several tries; 1 where it takes next to nothing."""

    def least(size: int, tries: int) -> float:
        return min(cost(one, attack.text(size)) for _ in range(tries))

    if cost(one, attack.text(SHORT)) > WORTH_A_LOOK_S and least(SHORT, 2) > WORTH_A_LOOK_S:
        return float("inf")
    few = cost(one, attack.text(FEW))
    if few * (SIZES[0] / FEW) ** 2 < WORTH_A_LOOK_S:  # four times the text is not worth a look, even if it is quadratic
        return 1.0
    few = min(few, cost(one, attack.text(FEW)))
    if few > SLOW_S and (steepest := (least(FEW, 2) / least(FEW // 4, 3)) ** 0.5) > STEEPEST:
        return steepest
    first = cost(one, attack.text(SIZES[0]))
    if first < WORTH_A_LOOK_S:
        return 1.0
    if (steepest := (first / few) ** 0.5) <= CLEARLY_LINEAR:
        return steepest
    sizes = SIZES if first < SLOW_S else (FEW, 2 * FEW, 4 * FEW)
    for _ in range(3):
        times = [least(size, 3) for size in sizes]
        if times[sizes.index(SIZES[0])] < WORTH_A_LOOK_S:
            return 1.0
        steepest = max(later / before for before, later in pairwise(times))
        if steepest <= STEEPEST:
            return steepest
    return steepest


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_the_time_grows_with_the_text(where: str) -> None:
    one = EXPRESSIONS[where]
    steep = {attack: rate for attack in attacks(one) if (rate := growth(one, attack)) > STEEPEST}
    assert not steep, one.pattern.pattern


@pytest.mark.parametrize(
    "slow",
    [
        r"[\s*`]*(?:suggested)",
        r"(?:a+)+b",
        r"\s+$",
        r"<[^>]*>",
        r"\ba(?:-?[a-z]+)*\b",  # where no word ends
        r"Q\d\s*(?:of)?\s*\d",  # behind the beginning of a match
    ],
)
def test_a_slow_expression_is_found(slow: str) -> None:
    one = Expression("here", re.compile(slow), ANCHORED | EVERYWHERE)
    assert any(growth(one, attack) > STEEPEST for attack in attacks(one))
