"""What a model writes of a chunk for the graph is kept as far as the chunk says so itself."""

from __future__ import annotations

from typing import Any

import pytest

from extraction_samples import chunk, entity, said
from refdesk.entities import ALIAS, ALSO_CALLED, SHORT_FOR
from refdesk.ingest.graph import proved, usable
from refdesk.text import sentences


@pytest.mark.parametrize(
    ("text", "name", "kept"),
    [
        pytest.param("It met Ada Lund.", "Ada Lund", "Ada Lund", id="as_it_stands"),
        pytest.param("It met Ada\nLund.", "Ada Lund", "Ada Lund", id="over_two_lines"),
        pytest.param("Slow steaming is usual.", "slow steaming", "Slow steaming", id="as_the_chunk_writes_it"),
        pytest.param("The “Lund” boat’s keel.", "boat's keel", "boat’s keel", id="another_apostrophe"),
        pytest.param("東京都は首都です。", "東京都", "東京都", id="without_spaces"),
        pytest.param("It met Ada Lund.", "Bo Krag", "", id="invented"),
        pytest.param("It met Ada Lund.", "Ada Lund Holm", "", id="more_than_stands_there"),
        pytest.param("The Annex is open.", "Ann", "", id="the_beginning_of_a_word"),
        pytest.param("The McAda is open.", "Ada", "", id="the_end_of_a_word"),
        pytest.param("They told us so.", "US", "", id="another_word_in_small_letters"),
        pytest.param("In March 2020 it paid $3 million.", "March 2020", "", id="a_date"),
        pytest.param("In March 2020 it paid $3 million.", "$3 million", "", id="an_amount"),
        pytest.param("And they were there.", "they", "", id="a_pronoun"),
    ],
)
def test_a_name_is_kept_as_the_chunk_writes_it_or_not_at_all(text: str, name: str, kept: str) -> None:
    found, unproved = proved(chunk(text), said(entity(name)))
    assert [named.name for named in found.names] == ([kept] if kept else [])
    assert unproved == (0 if kept else 1)
    assert all(named.sentences == (0,) for named in found.names)


LUND = ("Ada Lund painted Tide Mill in Hestvik.", "Bo Krag bought it.", "It hangs in Odden.")


@pytest.mark.parametrize(
    ("relation", "proof"),
    [
        pytest.param(("Ada Lund", "painted", "Tide Mill"), 0, id="in_one_sentence"),
        pytest.param(("ada lund", "was painting", "tide mill"), 0, id="another_form_of_its_words"),
        pytest.param(("Ada Lund", "painted Tide Mill", "Tide Mill"), 0, id="repeats_its_end"),
        pytest.param(("Ada Lund", "sold", "Tide Mill"), None, id="a_word_that_is_not_there"),
        pytest.param(("Ada Lund", "did not paint", "Tide Mill"), None, id="denied_by_the_model"),
        pytest.param(("Ada Lund", "hangs in", "Odden"), None, id="no_sentence_of_both"),
        pytest.param(("Bo Krag", "hangs in", "Odden"), 2, id="the_sentence_before_names_the_other"),
        pytest.param(("Tide Mill", "bought", "Bo Krag"), 1, id="the_other_way_round_too"),
        pytest.param(("Ada Lund", "painted", "Karvo"), None, id="an_invented_end"),
        pytest.param(("Ada Lund", "painted", "Ada Lund"), None, id="with_itself"),
        pytest.param(("Ada Lund", "", "Tide Mill"), None, id="nothing_said"),
        pytest.param(("Ada Lund", 7, "Tide Mill"), None, id="no_text"),
        pytest.param((["Ada Lund"], "painted", "Tide Mill"), None, id="no_name"),
    ],
)
def test_a_relation_is_kept_where_a_sentence_says_so(relation: Any, proof: int | None) -> None:
    names = [entity(name) for name in ("Ada Lund", "Tide Mill", "Hestvik", "Bo Krag", "Odden")]
    found, unproved = proved(chunk(*LUND), said(*names, relations=[relation]))
    assert [one.sentence for one in found.relations] == ([] if proof is None else [proof])
    assert unproved == (proof is None)
    assert [found.first_sentence(one) for one in found.relations] == {None: [], 0: [0], 1: [0], 2: [1]}[proof]


def test_a_sentence_that_names_a_third_does_not_speak_of_the_one_before() -> None:
    text = chunk("Ada Lund lives in Hestvik.", "Bo Krag painted Tide Mill.", entities=("Bo Krag", "Tide Mill"))
    found, _ = proved(
        text, said(entity("Ada Lund"), entity("Tide Mill"), relations=[("Ada Lund", "painted", "Tide Mill")])
    )
    assert not found.relations, "the rules know of a third, though the model did not name him"


def test_what_a_sentence_denies_is_not_kept() -> None:
    both = (entity("Acme"), entity("Beta"))
    denied = chunk("Acme has never bought Beta.")
    assert not proved(denied, said(*both, relations=[("Acme", "bought", "Beta")]))[0].relations
    assert proved(denied, said(*both, relations=[("Acme", "never bought", "Beta")]))[0].relations


def test_aliases_are_merged_as_far_as_the_chunk_says() -> None:
    text = chunk(
        "Acme Corp (the “Lessor”) met the Bank of England, or BoE.",
        "The BoE lent money to the Lessor.",
        "It left.",
    )
    entities = (entity("Acme Corp", "Lessor", "ACI"), entity("Bank of England", "BoE"))
    found, unproved = proved(text, said(*entities, relations=[("Bank of England", "lent money to", "Acme Corp")]))
    assert unproved == 1, "nobody is called ACI there"
    keys = {(named.name, named.key) for named in found.names if named.kind == ALIAS}
    assert keys == {("Lessor", "acme corp"), ("BoE", "bank of england")}
    assert [one[:3] for one in found.relations] == [
        ("Acme Corp", ALSO_CALLED, "Lessor"),
        ("BoE", SHORT_FOR, "Bank of England"),
        ("Bank of England", "lent money to", "Acme Corp"),
    ]
    assert [one.sentence for one in found.relations] == [0, 0, 1], "the second names both by their aliases"
    assert [found.first_sentence(one) for one in found.relations] == [0, 0, 1]


@pytest.mark.parametrize(
    ("text", "name", "alias", "kept"),
    [
        pytest.param("Acme Corp (the “Lessor”) left.", "Acme Corp", "Lessor", True, id="in_brackets"),
        pytest.param("Acme Corp, hereinafter the Lessor, left.", "Acme Corp", "Lessor", True, id="by_a_word"),
        pytest.param("Ringo Starr (Richard Starkey) sang.", "Richard Starkey", "Ringo Starr", True, id="behind"),
        pytest.param("The Bank of England, or BoE, met.", "Bank of England", "BoE", True, id="its_letters"),
        pytest.param("Ada Lund came. Then Lund left.", "Ada Lund", "Lund", True, id="a_part_of_it"),
        pytest.param("Ada Lund and Per Lund came. Lund left.", "Ada Lund", "Lund", False, id="a_part_of_two"),
        pytest.param("Acme Corp acquired Beta Ltd.", "Acme Corp", "Beta Ltd", False, id="what_it_acquired"),
        pytest.param("Acme Corp, Beta Ltd and Gamma left.", "Acme Corp", "Beta Ltd", False, id="the_next_of_a_list"),
        pytest.param("Acme Corp (a part of Beta Ltd) left.", "Acme Corp", "Beta Ltd", False, id="more_in_the_brackets"),
        pytest.param("Acme Corp left. Beta Ltd stayed.", "Acme Corp", "Beta Ltd", False, id="in_no_sentence"),
    ],
)
def test_an_alias_is_one_where_the_chunk_says_so(text: str, name: str, alias: str, *, kept: bool) -> None:
    parts = [text[start:end] for start, end in sentences(text)]
    rest = [entity("Per Lund")] if "Per Lund" in text else []
    found, unproved = proved(chunk(*parts), said(entity(name, alias), *rest))
    assert [named.name for named in found.names if named.kind == ALIAS] == ([alias] if kept else [])
    assert unproved == (not kept) and (kept or not found.relations)


def test_a_name_with_its_acronym_in_brackets_is_two() -> None:
    found, _ = proved(chunk("The Nordic Film School (NFS) opened."), said(entity("Nordic Film School (NFS)")))
    assert {(named.name, named.key) for named in found.names} == {
        *(("Nordic Film School", "nordic film school"), ("NFS", "nordic film school"), ("NFS", "nfs")),
    }
    assert [one[:3] for one in found.relations] == [("NFS", SHORT_FOR, "Nordic Film School")]


def test_a_sentence_is_no_name() -> None:
    text = "The outer buoy is moored with a cast iron sinker of 350 kg"
    assert proved(chunk(text), said(entity(text)))[0].names == ()


def test_an_alias_of_two_is_nobodys() -> None:
    text = chunk("Acme Corp and Beta Inc are the Parties.", "Gamma is theirs.")
    entities = (entity("Acme Corp", "Parties", "Gamma"), entity("Beta Inc", "Parties"), entity("Gamma"))
    found, unproved = proved(text, said(*entities))
    assert [named.name for named in found.names] == ["Acme Corp", "Beta Inc", "Gamma"] and unproved == 3


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        pytest.param('{"chunks": [{"chunk": 1, "entities": [], "relations": []}]}', [1], id="one"),
        pytest.param('```{"chunks": [{"chunk": 2, "entities": [], "relations": []}]}```', [2], id="fenced"),
        pytest.param('{"chunks": [{"chunk": 9, "entities": [], "relations": []}]}', [], id="unknown"),
        pytest.param('{"chunks": [{"chunk": [1], "entities": [], "relations": []}, 7]}', [], id="types"),
        pytest.param('{"chunks": [{"chunk": 1, "entities": {}, "relations": []}]}', [], id="another_shape"),
        pytest.param('{"chunks": [{"chunk": 1, "entities": []}]}', [], id="a_part_is_missing"),
        pytest.param('{"entities": [], "relations": []}', [], id="of_which_chunk"),
        pytest.param("The chunk names Ada Lund.", [], id="prose"),
        pytest.param('{"chunks": [{"chunk": 1, "enti', [], id="cut_off"),
    ],
)
def test_what_a_model_wrote_is_checked(reply: str, expected: list[int]) -> None:
    assert list(usable(reply, [chunk("A."), chunk("B.", sequence=2)])) == expected


def test_a_reply_of_one_chunk_needs_no_number() -> None:
    for reply in ('{"entities": [], "relations": []}', '{"chunks": [{"chunk": 7, "entities": [], "relations": []}]}'):
        assert list(usable(reply, [chunk("A.", sequence=3)])) == [3]


@pytest.mark.parametrize("junk", [7, None, "x", [], {"name": 7}, {"name": "Ada Lund", "aliases": 7, "kind": []}])
def test_junk_among_the_names_is_left_out(junk: Any) -> None:
    found, _ = proved(chunk("Ada Lund met Bo Krag."), {"entities": [junk, entity("Bo Krag")], "relations": [junk]})
    assert "Bo Krag" in [named.name for named in found.names] and not found.relations
