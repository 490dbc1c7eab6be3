"""Sentences are weighed by vectors, words and where they stand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from evidence_samples import add, ask, chunk, find
from memory_desk import KINDS, AnyDesk, kept_in
from refdesk import Refdesk
from refdesk.answer import Query
from refdesk.ask.sentences import score_sentences, tabulate
from refdesk.ask.wording import table_header
from refdesk.text import idf
from refdesk.types import Document

STORES = KINDS


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refdesk]:
    folder: Path = tmp_path_factory.mktemp("evidence")
    with Refdesk(folder) as opened:
        add(opened)
        yield opened


@pytest.fixture(scope="module")
def desk(store_kind: str, made: Refdesk) -> Iterator[AnyDesk]:
    with kept_in(store_kind, made) as found:
        yield found


def query(text: str, *, terms: tuple[str, ...] = ()) -> Query:
    return Query(text, text, np.zeros(4, dtype=np.float32), terms)


def best(desk: AnyDesk, text: str) -> str:
    asked = ask(desk, text)
    found = find(desk, asked)
    placed = [(number, hit.chunk, hit.score) for number, hit in enumerate(found.hits, 1)]
    return score_sentences(asked, placed, found.sentence_vectors, found.idf)[0].text


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("How heavy is the anchor?", "The anchor is a cast iron sinker of 350 kg."),
        ("Who orders new chain?", "Ines Carrow orders new chain from a yard in Cuxhaven."),
        ("When were gliders first tried?", "Gliders were first tried in 1999."),
        ("Why is lunch cheap?", "Lunch costs 6 euros because the company pays half."),
    ],
)
def test_the_direct_sentence_is_first(desk: AnyDesk, question: str, sentence: str) -> None:
    assert best(desk, question) == sentence


def test_idf_falls_with_frequency() -> None:
    weights = idf({"anchor": 1, "the": 9, "unknown": 0}, 10)
    assert weights["unknown"] > weights["anchor"] > weights["the"] > 0


def test_no_passages_give_no_evidence() -> None:
    assert score_sentences(query("anything?"), [], {}, {}) == []
    empty = chunk([])
    assert score_sentences(query("anything?"), [(1, empty, 1.0)], {}, {}) == []


def test_a_sentence_gets_part_of_the_credit_of_its_surroundings() -> None:
    near = chunk(["Fundy has high tides.", "They reach 16 metres.", "Lunch is at noon."], heading_path=("Canada",))
    table = tabulate(query("tides of Fundy in Canada"), [(1, near, 1.0)], {}, {})
    own, after, far = table.coverage.tolist()
    assert own > after > far > 0


def test_rows_of_a_table_are_read_with_its_header() -> None:
    prices = chunk(["Prices", "item | euros", "paper | 3", "ink | 9"], kind="table")
    assert table_header(prices) == slice(0, 2)
    found = score_sentences(query("How many euros is ink?"), [(1, prices, 1.0)], {}, {})
    assert next(one.text for one in found if one.sentence >= 2) == "ink | 9"
    table = tabulate(query("euros"), [(1, prices, 1.0)], {}, {})
    assert table.coverage[3] > 0  # the word stands in the header alone


def test_words_alike_count_partly() -> None:
    near, far = chunk(["He had no intention of leaving."]), chunk(["He had no umbrella at all."])
    assert 0 < tabulate(query("intend"), [(1, near, 1.0)], {}, {}).credit.max() < 1
    assert tabulate(query("intend"), [(1, far, 1.0)], {}, {}).credit.max() == 0


def test_other_languages_are_stemmed_as_their_documents() -> None:
    german = chunk(["Die Häfen werden geprüft."], document_id="de")
    asked = query("Prüfung der Häfen")
    plain = tabulate(asked, [(1, german, 1.0)], {}, {}).coverage[0]
    document = Document("de", "hafen.txt", "default", "", "ready", language="de")
    stemmed = tabulate(asked, [(1, german, 1.0)], {}, {}, {"de": document}).coverage[0]
    assert stemmed >= plain > 0


def test_a_sentence_without_a_vector_gets_a_weak_cosine() -> None:
    one, other = chunk(["A b c.", "D e f."], id=1), chunk(["G h i."], id=2)
    vectors = {1: np.array([[127, 0, 0, 0], [0, 127, 0, 0]], dtype=np.int8)}
    asked = Query("x?", "x?", np.array([1, 0, 0, 0], dtype=np.float32), ())
    cosine = tabulate(asked, [(1, one, 1.0), (2, other, 1.0)], vectors, {}).cosine
    assert cosine[0] == pytest.approx(1.0)
    assert cosine[1] <= cosine[2] < cosine[0]


def test_another_year_is_not_the_year_that_is_asked_for() -> None:
    page = chunk(["Sales were 5 million in 2021.", "Sales were 6 million in 2022.", "Sales rose."])
    missing = tabulate(query("What were sales in 2022?"), [(1, page, 1.0)], {}, {}).unnamed
    assert missing[0] > 0 and missing[1] == missing[2] == 0
    table = chunk(["Year | 2021 | 2022", "Sales 2021 | 5 | 6"], kind="table")
    assert not tabulate(query("What were sales in 2022?"), [(1, table, 1.0)], {}, {}).unnamed.any()
