"""Whether the answer is there: yes for what the documents say, less for what they do not, and never an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from evidence_samples import add, ask, find
from memory_desk import KINDS, AnyDesk, open_either
from refdesk.answer import Retrieved
from refdesk.ask.judge import LOOKED_AT, Relevance, judge, probability

STORES = KINDS


@pytest.fixture(scope="module")
def desk(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyDesk]:
    with open_either(store_kind, tmp_path_factory.mktemp("relevance")) as opened:
        add(opened)
        yield opened


def judged(desk: AnyDesk, text: str) -> Relevance:
    query = ask(desk, text)
    return judge(query, find(desk, query))


PAIRS = [
    ("How heavy is the anchor?", "How heavy is the anchor of the Titanic?"),
    ("When were gliders first tried?", "When were submarines first sold to Norway?"),
    ("How much does lunch cost in the canteen?", "How much does the managing director earn?"),
    ("Where is the archive?", "Where is the embassy of Peru?"),
]


@pytest.mark.parametrize(("there", "absent"), PAIRS)
def test_what_is_there_is_likelier_than_what_is_not(desk: AnyDesk, there: str, absent: str) -> None:
    assert judged(desk, there).probability > judged(desk, absent).probability


@pytest.mark.parametrize("question", [one for one, _ in PAIRS])
def test_what_is_there_stays_above_the_floor(desk: AnyDesk, question: str) -> None:
    assert judged(desk, question).probability > desk.settings.answer_floor


def test_what_is_far_off_falls_below_the_floor(desk: AnyDesk) -> None:
    assert judged(desk, "Who won the chess championship in Reykjavik in 1972?").probability < desk.settings.answer_floor


def test_missing_words_are_named_as_typed(desk: AnyDesk) -> None:
    missing = judged(desk, "How many gliders were sold to Norway?").missing_terms
    assert "Norway" in missing
    assert "gliders" not in missing
    assert "many" not in missing


def test_nothing_found_is_certain(desk: AnyDesk) -> None:
    query = ask(desk, "How heavy is the anchor?")
    empty = judge(query, Retrieved((), (), {}, {}))
    assert empty.probability == 0.0
    assert empty.missing_terms == ("heavy", "anchor")


@pytest.mark.parametrize("text", ["", "?", "the of", "北浜港の点検はいつですか。", "a" * 5000, "1 2 3 4"])
def test_odd_questions_are_judged_too(desk: AnyDesk, text: str) -> None:
    assert 0.0 <= judged(desk, text).probability <= 1.0


def test_without_vectors_the_words_still_speak(desk: AnyDesk) -> None:
    query = ask(desk, "How heavy is the anchor?")
    found = replace(find(desk, query), sentence_vectors={})
    assert 0.0 < judge(query, found).probability < 1.0


def test_standing_out_raises_the_probability() -> None:
    level = {"best": 0.6, "gap": 0.1, "cosine": 0.5, "unnamed": 0.0}
    assert probability(level | {"gap": 0.3}) > probability(level) > probability(level | {"unnamed": 0.4})


def test_what_a_reader_says_decides() -> None:
    level = {"best": 0.6, "gap": 0.1, "cosine": 0.5, "unnamed": 0.0, "answered": 0.0, "relevant": 1.0, "row": 0.0}
    assert probability(level | {"answered": 3.0}) > 0.7 > probability(level) > probability(level | {"answered": -3.0})


def test_of_a_row_words_and_the_reader_decide() -> None:
    level = {"words": 0.5, "answered": -3.0, "relevant": 1.0, "row": 1.0}
    assert probability(level | {"answered": 3.0}) > 0.45 > probability(level)
    assert probability(level | {"words": 2.0}) > probability(level)


def test_what_was_looked_at_counts_beside_the_hits(desk: AnyDesk) -> None:
    query = ask(desk, "How heavy is the anchor?")
    found = find(desk, query)
    alone = replace(found, hits=found.hits[:1])
    assert judge(query, alone).features["gap"] == pytest.approx(judge(query, found).features["gap"])
    assert len(found.considered) <= LOOKED_AT


@pytest.mark.parametrize(("before", "is_judged"), [(19, True), (20, False)])
def test_only_so_many_are_looked_at(desk: AnyDesk, before: int, is_judged: bool) -> None:
    """A passage that says it, behind others that say nothing of it."""
    query = ask(desk, "How heavy is the anchor?")
    found = find(desk, query)
    (says,) = (hit for hit in found.hits if "sinker" in hit.chunk.text)
    (other,) = (hit for hit in found.hits if "canteen" in hit.chunk.text)
    others = [replace(other, chunk=replace(other.chunk, id=1000 + place), score=0.9) for place in range(before)]
    vectors = {**found.sentence_vectors, **{hit.chunk.id: found.sentence_vectors[other.chunk.id] for hit in others}}
    behind = replace(
        found,
        hits=tuple(others[:1]),
        considered=(*others, replace(says, score=0.1)),
        sentence_vectors=vectors,
    )
    alone = replace(behind, considered=tuple(others))
    assert (judge(query, behind).features["best"] > judge(query, alone).features["best"]) is is_judged
