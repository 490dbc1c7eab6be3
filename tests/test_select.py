"""Penalties, relevance, repeats, diversity and sides, on literal hits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_samples import chunk, passage
from refdesk.answer import Query
from refdesk.ask.citations import sandwich
from refdesk.ask.retrieve import (
    best_sentence,
    diverse,
    facts,
    interleave,
    penalise,
    raise_preferred,
    relevant,
    without_repeats,
)
from refdesk.settings import Settings
from refdesk.types import Hit, Kind

EAST, NORTH = np.array([1.0, 0.0], np.float32), np.array([0.0, 1.0], np.float32)


def hit(
    number: int,
    score: float = 0.5,
    *,
    text: str = "It floats.",
    kind: Kind = "text",
    cosine: float = 0.5,
    lexical: float = 0.0,
) -> Hit:
    made = passage(1, chunk(text, id=number, sequence=number, document_id=f"d{number}", kind=kind)).hit
    return replace(made, score=score, cosine=cosine, lexical_score=lexical)


def rows(**vectors: np.ndarray) -> dict[int, np.ndarray]:
    return {int(name[1:]): np.rint(np.atleast_2d(vector) * 127).astype(np.int8) for name, vector in vectors.items()}


def ids(hits: list[Hit]) -> list[int]:
    return [one.chunk.id for one in hits]


@pytest.mark.parametrize(("kind", "left"), [("glossary", 0.7), ("credits", 0.6), ("toc", 0.5), ("text", 1.0)])
def test_kinds_that_answer_little_lose_score(kind: Kind, left: float) -> None:
    assert penalise([hit(1, 1.0, kind=kind)], Settings())[0].score == pytest.approx(left)


def test_penalties_change_the_order() -> None:
    assert ids(penalise([hit(1, 0.8, kind="toc"), hit(2, 0.5)], Settings())) == [2, 1]


def test_named_documents_move_up_and_the_others_can_still_win() -> None:
    hits = [hit(1, 0.9), hit(2, 0.7), hit(3, 0.3)]
    raised = raise_preferred(hits, {"d2": 1.0, "d3": 1.0}, 0.3)
    assert ids(raised) == [2, 1, 3]
    assert raised[0].score <= 1.0
    assert raise_preferred(hits, {}, 0.3) == hits


# --- relevance


def query(terms: tuple[str, ...] = ("anchor",)) -> Query:
    return Query("anchor?", "anchor?", EAST, terms)


@pytest.mark.parametrize(
    ("second", "own_rows", "stays"),
    [
        (hit(2, cosine=0.4), {}, True),
        (hit(2, cosine=0.1), {}, False),
        (hit(2, cosine=0.1, lexical=1.0), {}, True),  # a telling word
        (hit(2, cosine=0.1, lexical=0.2), {}, False),  # a frequent one
        (hit(2, cosine=0.1), rows(_2=0.6 * EAST), True),  # one near sentence
        (hit(2, cosine=0.1), rows(_2=NORTH), False),
    ],
    ids=["near", "far", "telling_word", "frequent_word", "near_sentence", "far_sentence"],
)
def test_hits_that_do_not_bear_on_the_question_go(second: Hit, own_rows: dict[int, np.ndarray], stays: bool) -> None:
    kept = relevant([hit(1), second], query(), own_rows, {"anchor": 3.0}, 0.35)
    assert ids(kept) == ([1, 2] if stays else [1])


def test_the_best_hit_is_left_to_the_judge() -> None:
    assert ids(relevant([hit(1, cosine=-0.2)], query(), {}, {"anchor": 3.0}, 0.35)) == [1]


def test_the_best_sentence_is_found() -> None:
    cosine, place = best_sentence(EAST, np.array([[0, 127], [127, 0]], np.int8))
    assert (round(cosine, 3), place) == (1.0, 1)
    assert best_sentence(EAST, None) == (-1.0, -1)


# --- repeats and diversity


def test_a_repeat_goes_and_the_same_with_other_figures_stays() -> None:
    hits = [
        hit(1, text="Revenue was 12 million in 2018."),
        hit(2, text="Revenue was 12 million in 2018."),
        hit(3, text="Revenue was 14 million in 2019."),
        hit(4, text="Revenue of Kiel was 12 million in 2018."),
    ]
    assert ids(without_repeats(hits, rows(_1=EAST, _2=EAST, _3=EAST, _4=EAST), 0.95)) == [1, 3, 4]


def test_what_is_not_near_is_no_repeat() -> None:
    hits = [hit(1, text="it floats"), hit(2, text="it sinks")]
    assert ids(without_repeats(hits, rows(_1=EAST, _2=NORTH), 0.95)) == [1, 2]
    assert ids(without_repeats(hits, rows(_1=EAST, _2=EAST), 0.95)) == [1]


def test_facts_are_numbers_codes_and_names() -> None:
    assert facts("the buoy W-7 of Kiel cost $3,500.") == {"W", "7", "Kiel", "3,500"}


def test_diversity_keeps_the_best_and_prefers_the_unlike() -> None:
    hits = [hit(1, 0.9), hit(2, 0.85), hit(3, 0.8), hit(4, 0.1)]
    own = rows(_1=EAST, _2=EAST, _3=NORTH, _4=NORTH)
    assert ids(diverse(hits, own, 0.5, 3)) == [1, 3, 2]
    assert ids(diverse(hits, own, 1.0, 3)) == [1, 2, 3]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0, 1), st.integers(1, 12))
def test_diversity_never_invents_or_loses_hits(scores: list[float], share: float, k: int) -> None:
    hits = sorted((hit(n, score) for n, score in enumerate(scores, 1)), key=lambda one: -one.score)
    chosen = diverse(hits, {}, share, k)
    assert len(chosen) == min(k, len(hits)) == len(set(ids(chosen)))
    assert chosen[0] == hits[0]


def test_sides_are_dealt_in_turn() -> None:
    assert ids(interleave([[hit(1), hit(2)], [hit(3), hit(1)], [hit(4)]])) == [1, 3, 4, 2]


@given(st.integers(0, 40))
def test_the_best_stand_outside_and_the_weakest_in_the_middle(count: int) -> None:
    order = sandwich(count)
    assert sorted(order) == list(range(count))
    if count > 2:
        assert (order[0], order[-1]) == (0, 1)
        assert order.index(count - 1) in ((count - 1) // 2, count // 2)
