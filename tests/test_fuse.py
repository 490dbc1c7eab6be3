"""Literal scores in, literal scores out."""

from __future__ import annotations

import pytest

from refdesk.library import convex, reciprocal_rank


@pytest.mark.parametrize(
    "lexical, cosine, weight, expected",
    [
        pytest.param(
            {1: 4.0}, {1: 0.2, 2: 0.8}, 0.5, [(1, 0.5 * 1.2 / 1.8 + 0.5), (2, 0.5)], id="a_chunk_in_both_wins"
        ),
        pytest.param({1: 4.0, 2: 1.0}, {1: 0.0, 2: 1.0}, 1.0, [(2, 1.0), (1, 0.5)], id="weight_1:vectors_alone"),
        pytest.param({1: 4.0, 2: 1.0}, {1: 0.0, 2: 1.0}, 0.0, [(1, 1.0), (2, 0.25)], id="weight_0:terms_alone"),
        pytest.param({}, {1: 0.5, 2: 0.2}, 0.8, [(1, 0.8), (2, 0.8 * 1.2 / 1.5)], id="no_terms:vectors_decide"),
        pytest.param({3: 2.0}, {}, 0.8, [(3, 0.2)], id="no_vectors"),
        pytest.param({}, {}, 0.8, [], id="nothing:nothing"),
        pytest.param({1: 0.0}, {1: 0.5}, 0.8, [(1, 0.8)], id="best_lexical_0:no_division_by_zero"),
        pytest.param({}, {1: -0.5, 2: -0.75}, 1.0, [(1, 1.0), (2, 0.5)], id="negative_cosines:order_and_distance_kept"),
        pytest.param({}, {1: -1.0}, 1.0, [(1, 0.0)], id="best_cosine_-1:no_division_by_zero"),
        pytest.param({}, {9: 0.5, 4: 0.5}, 0.8, [(4, 0.8), (9, 0.8)], id="a_tie:the_lower_id_first"),
    ],
)
def test_convex(
    lexical: dict[int, float], cosine: dict[int, float], weight: float, expected: list[tuple[int, float]]
) -> None:
    fused = convex(lexical, cosine, weight)
    assert [chunk_id for chunk_id, _ in fused] == [chunk_id for chunk_id, _ in expected]
    assert [score for _, score in fused] == pytest.approx([score for _, score in expected])


@pytest.mark.parametrize(
    "lists, expected",
    [
        pytest.param([[7, 8], [8]], [(8, 1 / 32 + 1 / 31), (7, 1 / 31)], id="in_two_lists:first"),
        pytest.param([[1], [2]], [(1, 1 / 31), (2, 1 / 31)], id="a_tie:the_lower_id_first"),
        pytest.param([[], [5]], [(5, 1 / 31)], id="one_list_empty"),
        pytest.param([[], []], [], id="both_empty"),
        pytest.param([], [], id="no_lists"),
    ],
)
def test_reciprocal_rank(lists: list[list[int]], expected: list[tuple[int, float]]) -> None:
    fused = reciprocal_rank(lists, k=30)
    assert [chunk_id for chunk_id, _ in fused] == [chunk_id for chunk_id, _ in expected]
    assert [score for _, score in fused] == pytest.approx([score for _, score in expected])
