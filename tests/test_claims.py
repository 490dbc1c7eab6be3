"""An answer is taken apart into what it claims; what claims nothing is left out."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk.ask.citations import code_ranges
from refdesk.ask.markers import is_refusal, statements
from refdesk.ask.support import denied, names, opposites


def split(content: str) -> list[tuple[str, tuple[int, ...]]]:
    return [(one.text, one.markers) for one in statements(content)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("It is deep [1]. It is cold. [2]", [("It is deep.", (1,)), ("It is cold.", (2,))]),
        ("It is deep. [1][2] It is cold.[3]", [("It is deep.", (1, 2)), ("It is cold.", (3,))]),
        ("Dr. Who paid $3.50 [1].", [("Dr. Who paid $3.50.", (1,))]),
        (
            "- The **anchor** is new [1]\n- Pilots wear orange. [2]",
            [("The anchor is new", (1,)), ("Pilots wear orange.", (2,))],
        ),
        ("1. First thing [1].\n2) Second thing [2].", [("First thing.", (1,)), ("Second thing.", (2,))]),
        ("| Item | Price |\n|---|---|\n| Anchor | 3 [1] |", [("Anchor | 3", (1,))]),
        ("# The anchor\n**Weight**\nIt is heavy [1].", [("It is heavy.", (1,))]),
        ("Use this:\n```\nx = a[1]\n```\nIt works [2].", [("It works.", (2,))]),
        ("Set `a[1]` to three [2].", [("Set a[1] to three.", (2,))]),
        ("See [the rules](http://a.example) for it [1].", [("See the rules for it.", (1,))]),
        ("A line that\ngoes on [1].", [("A line that goes on.", (1,))]),
    ],
)
def test_claims_and_their_markers(content: str, expected: list[tuple[str, tuple[int, ...]]]) -> None:
    assert split(content) == expected


@pytest.mark.parametrize(
    "content",
    [
        "Here is what the documents say:",
        "Hello!",
        "Would you like to know more?",
        "I hope this helps.",
        "## Anchors",
        "Yes.",
        "The documents do not say this.",
        "The documents do not say who built the harbour.",
        "The provided passages do not mention the crew.",
        "I could not find the price in the documents.",
        "The price is not stated in the documents.",
        "None of the passages mentions a fee.",
        "```\ncode\n```",
    ],
)
def test_what_claims_nothing(content: str) -> None:
    assert split(content) == []


@pytest.mark.parametrize(
    "text", ["The documents say that it is deep.", "The contract does not name a fee.", "It is not deep."]
)
def test_what_is_no_refusal(text: str) -> None:
    assert not is_refusal(text)


@given(st.text(max_size=120) | st.text("ab. [1]\n-|`#", max_size=80))
def test_claims_stand_in_order(content: str) -> None:
    found = statements(content)
    assert all(one.start < one.end <= len(content) for one in found)
    assert all(one.end <= other.start for one, other in pairwise(found))


def test_code() -> None:
    text = "a `b` ``c`d`` ```\n```\nx\n```\n`e | f`"
    assert [text[start:end] for start, end in code_ranges(text)] == ["`b`", "``c`d``", "```\nx\n```\n"]


def test_negation_reaches_the_next_words() -> None:
    assert denied("Pilots are not required to land, but boats are.") == {"requir", "land"}
    assert denied("It includes, but is not limited to, fees.") == frozenset()


@pytest.mark.parametrize(
    ("claim", "source", "found"),
    [
        ("revenue increased", "revenue decreased", [("increased", "decreased")]),
        ("revenue increased", "costs decreased", []),
        ("revenue increased", "revenue increased while costs decreased", []),
        ("open on monday morning", "open on tuesday morning", [("monday", "tuesday")]),
        ("some boats may land", "all boats may land", []),
    ],
)
def test_opposites(claim: str, source: str, found: list[tuple[str, str]]) -> None:
    assert opposites(claim.split(), source.split()) == found


def test_names() -> None:
    assert names("The Bay of Fundy and NATO met. Then they left.") == ("Bay", "Fundy", "NATO")
