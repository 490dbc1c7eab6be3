"""Answers without a model: the right sentences, in the right order, word for word, each with its marker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from evidence_samples import add, ask, chunk, context, find
from memory_desk import KINDS, AnyDesk, open_either
from refdesk.answer import Context, Passage, Retrieved
from refdesk.ask.extract import Quote, extract
from refdesk.providers.shipped import OnnxReader
from refdesk.settings import Settings
from refdesk.types import Chunk

STORES = KINDS
SETTINGS = Settings()


@pytest.fixture(scope="module")
def desk(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyDesk]:
    with open_either(store_kind, tmp_path_factory.mktemp("extract")) as opened:
        add(opened)
        yield opened


def shown(quotes: list[Quote]) -> list[str]:
    return [f"{one.before}{one.text} [{one.passage}]" for one in quotes]


def pieces(desk: AnyDesk, text: str, settings: Settings = SETTINGS, **understood: object) -> list[str]:
    query = ask(desk, text, **understood)
    found = find(desk, query)
    return shown(extract(query, context(found), found, settings))


def over(desk: AnyDesk, text: str, chunks: list[Chunk], *, is_read: bool = False, **understood: object) -> list[str]:
    """The answer from chunks made by hand, without vectors."""
    query = ask(desk, text, **understood)
    found = find(desk, query)
    hits = [replace(found.hits[0], chunk=one, score=1.0) for one in chunks]
    passages = tuple(Passage(i, hit, (hit.chunk,), hit.chunk.text) for i, hit in enumerate(hits, 1))
    readings = {one.id: OnnxReader().read(text, one) for one in chunks} if is_read else {}
    found = Retrieved(tuple(hits), tuple(hits), {}, {}, readings=readings)
    return shown(extract(query, Context(passages, "", 0), found, SETTINGS))


def test_a_fact_is_answered_by_its_sentence_first(desk: AnyDesk) -> None:
    answer = pieces(desk, "How heavy is the anchor?")
    assert answer[0].startswith("The anchor is a cast iron sinker of 350 kg. [")
    assert 1 <= len(answer) <= SETTINGS.max_sentences


def test_what_was_said_within_a_sentence_before_is_not_said_again(desk: AnyDesk) -> None:
    long = "Cleaning brought the zero back, so at least half of the drift is caused by growth on the sensor."
    short = "At least half of the drift is caused by growth on the sensor."
    question = "What brought the zero back, and what caused the drift of the sensor?"
    assert over(desk, question, [chunk([long], id=1), chunk([short], id=2)]) == [f"{long} [1]"]


def test_a_row_with_the_code_that_is_asked_about_stands_alone(desk: AnyDesk) -> None:
    codes = ["Code | Meaning", "E23 | Water in the housing", "E31 | Clock not set", "E42 | Pressure out of range"]
    page = chunk(["The meaning of an error is shown.", "E23 ends the measuring."], id=2)
    said = over(desk, "What is the meaning of E23?", [chunk(codes, id=1, kind="table"), page])
    assert said == ["- Code | Meaning [1]", "\n- E23 | Water in the housing [1]", "\n\nE23 ends the measuring. [2]"]
    said = over(desk, "What is the meaning of the codes?", [chunk(codes, id=1, kind="table")])
    assert len(said) == 4


def test_a_second_head_of_a_table_is_no_row(desk: AnyDesk) -> None:
    rows = ["item | code | price | ", "item | code | net | gross", "ink | I-1 | 9 | 11", "pen | P-1 | 2 | 3"]
    said = over(desk, "What is the price of an item?", [chunk(rows, kind="table")])
    assert [one.strip("\n- ") for one in said[:2]] == [f"{rows[0].strip()} [1]", f"{rows[1]} [1]"]
    assert {one.strip("\n- ") for one in said[2:]} <= {f"{rows[2]} [1]", f"{rows[3]} [1]"}


@pytest.mark.parametrize("most", [1, 2, 5])
def test_no_more_sentences_than_allowed(desk: AnyDesk, most: int) -> None:
    settings = replace(SETTINGS, max_sentences=most)
    for question in ("How heavy is the anchor?", "How is it lowered?", "When were gliders first tried?"):
        assert len(pieces(desk, question, settings)) <= most


def test_every_piece_is_word_for_word_and_marked(desk: AnyDesk) -> None:
    query = ask(desk, "Who orders new chain from Cuxhaven?")
    found = find(desk, query)
    passages = context(found)
    for quote in extract(query, passages, found, SETTINGS):
        passage = passages.passage(quote.passage)
        assert passage is not None
        assert quote.text in passage.text


@pytest.mark.parametrize("is_read", [False, True])
def test_a_leading_pronoun_brings_the_sentence_before(desk: AnyDesk, is_read: bool) -> None:
    page = chunk(["The yard is old.", "Ines Carrow leads the yard.", "She was born in Cuxhaven in 1970."])
    answer = "".join(over(desk, "When was Ines Carrow born?", [page], is_read=is_read))
    assert answer.index("Ines Carrow leads") < answer.index("She was born")


def test_a_pronoun_that_nothing_stands_before_is_not_quoted(desk: AnyDesk) -> None:
    lone = chunk(["She was already the editor of the yard paper in 1970."], id=1)
    named = chunk(["Ines Carrow was editor of the yard paper."], id=2)
    assert over(desk, "Who was the editor of the yard paper in 1970?", [lone, named]) == [f"{named.text} [2]"]
    assert over(desk, "Who was the editor of the yard paper in 1970?", [lone]), "better than nothing"


def test_the_same_sentence_is_quoted_once(desk: AnyDesk) -> None:
    same = ["The gate closes at 20:00.", "Nobody is at the desk then."]
    answer = over(desk, "When does the gate close?", [chunk(same, id=1), chunk(same, id=2, document_id="d2")])
    assert "".join(answer).count("The gate closes") == 1


def test_two_values_of_one_thing_are_both_quoted(desk: AnyDesk) -> None:
    one, other = chunk(["The gate closes at 20:00."], id=1), chunk(["The gate closes at 21:00."], id=2)
    answer = "".join(over(desk, "When does the gate close?", [one, other]))
    assert "20:00" in answer
    assert "21:00" in answer


def test_headings_tables_of_contents_and_lead_ins_are_not_quoted(desk: AnyDesk) -> None:
    page = chunk(["Gate times", "The gate times are these:", "The gate closes at 20:00."], heading_path=("Gate times",))
    contents = chunk(["Gate times closing 4"], kind="toc", id=2)
    answer = "".join(over(desk, "What are the gate times?", [contents, page]))
    assert answer == "The gate closes at 20:00. [2]"


def test_a_row_is_quoted_with_the_names_of_its_columns(desk: AnyDesk) -> None:
    prices = chunk(["item | euros", "paper | 3", "ink | 9"], kind="table")
    answer = over(desk, "How many euros is ink?", [prices])
    assert answer[:2] == ["- item | euros [1]", "\n- ink | 9 [1]"]


def test_a_line_has_one_bullet_and_a_sentence_none(desk: AnyDesk) -> None:
    assert over(desk, "How many euros is ink?", [chunk(["- Ink at 9 euros"], kind="list")]) == ["- Ink at 9 euros [1]"]
    sold = chunk(["• The ink is sold in the harbour office."], kind="list")
    assert over(desk, "Where is ink sold?", [sold]) == ["The ink is sold in the harbour office. [1]"]
    initial = chunk(["A. Smith sells the ink."])
    assert over(desk, "Who sells the ink?", [initial]) == ["A. Smith sells the ink. [1]"]
    code = chunk(["- ink: 9"], kind="code")
    assert over(desk, "How much is ink?", [code]) == ["- - ink: 9 [1]"], "code is shown as it stands"


def test_rows_stand_apart_from_sentences(desk: AnyDesk) -> None:
    prices = chunk(["item | euros", "ink | 9"], kind="table", id=1)
    answer = over(desk, "How many euros is ink?", [prices, chunk(["Ink is 9 euros."], id=2)])
    assert sorted("".join(answer).split("\n\n")) == ["- item | euros [1]\n- ink | 9 [1]", "Ink is 9 euros. [2]"]


def test_a_list_gives_one_line_per_item_in_order(desk: AnyDesk) -> None:
    kit = chunk(["The kit holds:", "- two shackles", "- one rope of 30 m", "- a spare hatch seal"], kind="list")
    answer = over(desk, "What does the kit hold?", [kit], intent="list")
    items = "- two shackles [1]\n- one rope of 30 m [1]\n- a spare hatch seal [1]"
    assert "".join(answer) == f"The kit holds: [1]\n{items}"


def test_a_comparison_quotes_both_sides(desk: AnyDesk) -> None:
    parts = ("the weight of the anchor", "the length of the chain")
    answer = "".join(pieces(desk, "Compare the anchor and the chain.", intent="comparison", parts=parts))
    assert "350 kg" in answer
    assert "45 metres" in answer


def test_a_summary_takes_the_opening_of_each_section_in_order(desk: AnyDesk) -> None:
    first = chunk(["Gliders dive.", "They are slow indeed."], heading_path=("Use",), sequence=1, id=1)
    second = chunk(["Batteries last 30 days.", "They are heavy and dear."], heading_path=("Power",), sequence=2, id=2)
    answer = "".join(over(desk, "Summarise the gliders.", [second, first], intent="summary"))
    assert answer.index("Gliders dive.") < answer.index("Batteries last 30 days.")


def test_an_analysis_gives_the_reason_first(desk: AnyDesk) -> None:
    page = chunk(["Returns fell in May.", "Lunch was fish.", "Returns fell because of the new leak test."])
    answer = over(desk, "Why did returns fall?", [page], is_read=True, intent="analytical")
    assert answer[0] == "Returns fell because of the new leak test. [1]"


def test_nothing_found_gives_nothing(desk: AnyDesk) -> None:
    query = ask(desk, "How heavy is the anchor?")
    empty = Retrieved((), (), {}, {})
    assert extract(query, Context((), "", 0), empty, SETTINGS) == []


@pytest.mark.parametrize(
    "text",
    [
        "The dose is 10 – 20 mg for the anchor crew.",
        "The anchor is kept for 24 - 36 months.",
        "The three- and nine-month tests of the anchor failed.",
        "The anchor of Amazon.com, Inc. and others weighs 9 t.",
        "The anchor (a) is old and (b) is heavy, c. 350 kg.",
        "A. Smith owns the anchor.",
        "The anchor is 1,230 km [note 2][1] away.",
        "[Source 3] said that the anchor weighs 7:x:4 t.",
        "The anchor weighs *about* 350 kg, <b>not</b> 400, see `rows[1]` and http://a.b/c_d_e.",
    ],
)
def test_a_sentence_is_quoted_to_the_letter(desk: AnyDesk, text: str) -> None:
    assert over(desk, "What is known of the anchor?", [chunk([text])]) == [f"{text} [1]"]


@pytest.mark.parametrize(
    "text",
    [
        "What is an anchor of a buoy?",
        "Anchor of the buoy",
        "Subject: your anchor",
    ],
    ids=["question", "heading", "subject"],
)
def test_what_says_nothing_is_not_quoted(desk: AnyDesk, text: str) -> None:
    page = chunk([text, "An anchor is a sinker of cast iron."], context="your anchor")
    assert over(desk, "What is an anchor?", [page]) == ["An anchor is a sinker of cast iron. [1]"]


def test_one_sentence_answers_unless_a_further_one_adds_something(desk: AnyDesk) -> None:
    page = chunk(
        ["The gate closes at 20:00.", "The canteen serves fish on Fridays.", "Nobody parks behind building C."]
    )
    other = chunk(["Gates are painted every second year by the yard."], id=2, document_id="d2")
    assert over(desk, "When does the gate close?", [page, other]) == ["The gate closes at 20:00. [1]"]


def test_the_steps_of_one_section_are_given_in_their_order(desk: AnyDesk) -> None:
    steps = chunk(
        ["1. Create a key.", "2. Put it into the file.", "3. Run the mount command."],
        kind="list",
        heading_path=("Mounting a bucket",),
        context="Guide › Mounting a bucket",
        id=1,
    )
    noise = chunk(["A bucket holds files.", "Mounting is slow.", "Buckets are billed by the month."], id=2)
    said = over(desk, "What are the steps for mounting a bucket?", [noise, steps], intent="list")
    assert said == ["1. Create a key. [2]", "\n2. Put it into the file. [2]", "\n3. Run the mount command. [2]"]
