"""Which boxes hold these characters? Literal words in, literal boxes out."""

from __future__ import annotations

import pytest

from refdesk.types import Box, Geometry, boxes_between, lines_of

# "The quick fox" on one line of page 1, "jumps" below it, "over" on page 2.
WORDS = Geometry.from_rows(
    [
        (0, 3, 1, 0, 10, 10, 20, 12),
        (4, 9, 1, 0, 22, 9, 40, 12),
        (10, 13, 1, 0, 42, 10, 50, 13),
        (14, 19, 1, 1, 10, 15, 30, 17),
        (20, 24, 2, 2, 5, 5, 15, 8),
    ]
)


@pytest.mark.parametrize(
    "start, end, expected",
    [
        pytest.param(0, 13, [Box(1, 10, 9, 40, 4)], id="a_line:the_box_around_its_words"),
        pytest.param(4, 9, [Box(1, 22, 9, 18, 3)], id="a_word"),
        pytest.param(5, 6, [Box(1, 22, 9, 18, 3)], id="part_of_a_word:the_whole_word"),
        pytest.param(4, 19, [Box(1, 22, 9, 28, 4), Box(1, 10, 15, 20, 2)], id="two_lines:begins_in_the_middle"),
        pytest.param(14, 24, [Box(1, 10, 15, 20, 2), Box(2, 5, 5, 10, 3)], id="over_the_page"),
        pytest.param(3, 4, [], id="the_space_between_words"),
        pytest.param(24, 90, [], id="after_the_last_word"),
        pytest.param(0, 0, [], id="nothing"),
    ],
)
def test_boxes_between(start: int, end: int, expected: list[Box]) -> None:
    assert list(boxes_between(WORDS, start, end)) == expected


def test_lines_say_which_characters_they_hold() -> None:
    assert [(start, end) for start, end, _ in lines_of(WORDS, [(5, 24)])[0]] == [(4, 13), (14, 19), (20, 24)]


def test_a_document_without_words() -> None:
    empty = Geometry.from_rows([])
    assert len(empty) == 0 and boxes_between(empty, 0, 100) == ()
