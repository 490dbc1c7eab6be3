"""The trace of an answer names every passage that was looked at, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from library_samples import seen_by
from memory_desk import KINDS, AnyDesk, open_either

STORES = KINDS
QUESTION = "What does the berth cost a day?"


@pytest.fixture(scope="module")
def desk(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyDesk]:
    with open_either(store_kind, tmp_path_factory.mktemp("looked")) as opened:
        opened.add_text("tariff", "The berth costs 12 crowns a day.", collection="harbour")
        opened.add_text("water", "Fresh water is sold by the cubic metre at the berth.", collection="harbour")
        opened.add_text("pay", "The harbour master is paid 40 crowns a day.", collection="hr")
        opened.add_text("lamp", "The lamp was lit at dusk by two keepers.", collection="hr")
        for number in range(12):
            opened.add_text(f"berth {number}", f"Berth {number} costs {number + 7} crowns a day.", collection="quay")
        yield opened


def test_what_is_cited_read_and_dropped(desk: AnyDesk) -> None:
    answer = seen_by(desk, "harbour", "hr").ask_sync(QUESTION)
    passages = desk.trace(answer.id)["passages"]
    assert {one["document_name"] for one in passages} == {"tariff", "water", "pay", "lamp"}
    uses = {one["chunk_id"]: one["use"] for one in passages}
    cited = {citation.chunk_id for citation in answer.citations}
    assert cited and {chunk for chunk, use in uses.items() if use == "cited"} == cited
    assert {use for chunk, use in uses.items() if chunk not in cited} <= {"read", "dropped"}
    first = passages[0]
    assert (first["document_name"], first["page"], first["heading_path"]) == ("tariff", 1, [])
    assert first["lexical_score"] > 0 and 0 < first["cosine"] <= 1 and first["score"] > 0


def test_nothing_was_read_for_a_question_that_is_refused(desk: AnyDesk) -> None:
    answer = desk.ask_sync("Who won the chess championship of 1972?")
    passages = desk.trace(answer.id)["passages"]
    assert not answer.citations and passages
    assert {one["use"] for one in passages} <= {"kept", "dropped"}


def test_an_answer_from_the_cache_was_looked_up_nowhere(desk: AnyDesk) -> None:
    desk.ask_sync(QUESTION)
    again = desk.ask_sync(QUESTION)
    assert again.cached == "exact" and desk.trace(again.id)["passages"] == []


def test_a_name_that_was_looked_at_is_not_seen_without_its_collection(desk: AnyDesk) -> None:
    """The answer rests on the quay alone; papers of others were found, too."""
    anna = seen_by(desk, "quay", "hr", key="anna")
    answer = anna.ask_sync("What does berth 3 cost a day?", cache=False)
    assert {citation.document_name for citation in answer.citations} <= {f"berth {number}" for number in range(12)}

    def names(*access: str) -> set[str]:
        seen = (seen_by(desk, *access, key="anna") if access else desk).trace(answer.id)["passages"]
        return {one["document_name"] for one in seen}

    berths = {f"berth {number}" for number in range(12)}
    assert names() == names("quay", "hr") == berths | {"pay", "lamp"}
    assert names("quay") == berths
    desk.move("berth 11", "hr")
    assert names("quay") == berths - {"berth 11"}
