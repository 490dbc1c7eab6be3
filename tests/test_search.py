"""Search: true scores whatever the method, filters inside the search, and every strange query a person can type."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_desk import KINDS, AnyDesk, open_either, opened_again
from refdesk import Refdesk, Scope, UsageError
from refdesk.arguments import METHODS
from refdesk.ports import Embedded
from refdesk.records import Prepared
from refdesk.store_ports import Ready
from refdesk.text import query_terms
from refdesk.types import Chunk, Document, Kind, Page, Sentence, Span

STORES = KINDS
QUESTION = "How often must a TG-4 be recalibrated?"


# scores


@pytest.mark.parametrize("method", METHODS)
def test_hits_carry_both_true_scores(examples: AnyDesk, method: Any) -> None:
    hits = examples.search(QUESTION, k=10, method=method)
    ids = [hit.chunk.id for hit in hits]
    assert len(set(ids)) == 10
    terms = query_terms(QUESTION, examples.parts.index.languages)
    lexical = examples.parts.index.lexical_scores(terms, ids)
    cosines = examples.parts.index.cosines(examples.parts.embedder.embed_query(QUESTION), ids)
    for hit in hits:
        assert hit.lexical_score == pytest.approx(lexical.get(hit.chunk.id, 0.0), rel=1e-4)
        assert hit.cosine == pytest.approx(cosines[hit.chunk.id], abs=1e-3)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    if method == "bm25":
        assert scores == [hit.lexical_score for hit in hits]
    if method == "dense":
        assert scores == [hit.cosine for hit in hits]


def test_the_hybrid_score_is_the_formula(examples: AnyDesk) -> None:
    """TM2C2 over the candidates of both engines, computed here by hand."""
    examples.parts.index.refresh()
    vector = examples.parts.embedder.embed_query(QUESTION)
    terms = query_terms(QUESTION, examples.parts.index.languages[:4])
    depth, weight = examples.settings.candidates, examples.settings.dense_weight
    lexical = dict(examples.parts.index.lexical(terms, 1000, Scope()))
    cosines = dict(examples.parts.index.dense(vector, 1000, Scope()))
    best = lambda scores: sorted(scores, key=lambda i: -scores[i])[:depth]  # noqa: E731
    candidates = {*best(lexical), *best(cosines)}
    most_lexical, most_cosine = max(lexical.values()), max(cosines.values())
    expected = {
        i: weight * (cosines[i] + 1) / (most_cosine + 1) + (1 - weight) * lexical.get(i, 0.0) / most_lexical
        for i in candidates
    }
    hits = examples.search(QUESTION, k=20)
    assert [hit.chunk.id for hit in hits] == sorted(expected, key=lambda i: -expected[i])[:20]
    assert [hit.score for hit in hits] == pytest.approx([expected[hit.chunk.id] for hit in hits], abs=1e-4)


def test_the_weight_is_a_setting(examples: AnyDesk) -> None:
    def order(weight: float) -> list[int]:
        return [hit.chunk.id for hit in examples.search(QUESTION, k=5, settings={"rag.dense_weight": weight})]

    dense = [hit.chunk.id for hit in examples.search(QUESTION, k=5, method="dense")]
    assert order(1.0) == dense != order(0.0)


def test_rrf_scores_come_from_ranks(examples: AnyDesk) -> None:
    first = examples.search(QUESTION, k=1, method="rrf")[0]
    assert first.score <= 2 / 31
    by_setting = examples.search(QUESTION, k=1, settings={"rag.fusion": "rrf"})[0]
    assert (by_setting.chunk.id, by_setting.score) == (first.chunk.id, first.score)


def test_the_order_is_the_same_every_time(examples: AnyDesk) -> None:
    runs = [[hit.chunk.id for hit in examples.search(QUESTION, k=30)] for _ in range(5)]
    assert all(run == runs[0] for run in runs)
    with opened_again(examples) as again:
        assert [hit.chunk.id for hit in again.search(QUESTION, k=30)] == runs[0]
    shallow = [hit.chunk.id for hit in examples.search(QUESTION, k=3)]
    assert shallow == runs[0][:3], "asking for fewer gives the beginning of the same list"


def test_threads_search_at_once(examples: AnyDesk) -> None:
    questions = [QUESTION, "parental leave", "copper guard", "wave buoy", "検潮器"] * 8
    alone = [[hit.chunk.id for hit in examples.search(text, k=10)] for text in questions]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda text: [hit.chunk.id for hit in examples.search(text, k=10)], questions))
    assert together == alone


def test_a_hit_as_a_dictionary_has_what_a_citation_needs(examples: AnyDesk) -> None:
    hit = examples.search("anchor of the standard wave buoy mooring", k=1)[0]
    said = hit.to_dict()
    assert said["document_name"] == "wb7-mooring-sheet.pdf" and said["page"] == 1 and said["pages"] == [1]
    assert {"page", "x", "y", "width", "height"} == set(said["boxes"][0])
    assert said["text"] == hit.chunk.text and isinstance(said["heading_path"], list)


# filters: a few worse chunks in scope, thousands of better ones outside

OUTSIDE, INSIDE = 3000, 12
QUERY = "harbour fee"


@pytest.fixture(scope="module")
def crowded(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyDesk]:
    with open_either(store_kind, tmp_path_factory.mktemp("crowded") / "library") as desk:
        wanted = desk.parts.embedder.embed_query(QUERY)
        numbers = np.random.default_rng(3)
        far = numbers.standard_normal((INSIDE, len(wanted))).astype(np.float32)
        far /= np.linalg.norm(far, axis=1, keepdims=True)
        near = np.repeat(wanted[None, :], OUTSIDE, axis=0)
        best = Document("", "all", "public", "0" * 64, "ready", language="en", date="2020-01-01", metadata={"by": "x"})
        desk.parts.writer.store([_ready(best, ["harbour fee " * 5] * OUTSIDE, near, "text", range(1, OUTSIDE + 1))])
        chosen = Document("", "few", "port/2024/q1", "1" * 64, "ready", language="en", date="2024-02-03")
        chosen = replace(chosen, metadata={"by": "y", "tide": "low"})
        texts = [f"a note on the fee number {i}" for i in range(INSIDE)]
        desk.parts.writer.store([_ready(chosen, texts, far, "table", range(5001, 5001 + INSIDE))])
        yield desk


def _ready(document: Document, texts: list[str], vectors: np.ndarray, kind: Kind, pages: range) -> Ready:
    chunks = [
        Chunk(
            document_id="",
            sequence=number,
            kind=kind,
            text=text,
            heading_path=(),
            pages=(page,),
            spans=(Span(0, len(text), 0, page),),
            sentences=(Sentence(0, len(text), page),),
            token_count=5,
        )
        for number, (text, page) in enumerate(zip(texts, pages, strict=True), 1)
    ]
    embedded = [Embedded(vector, np.rint(vector * 127).astype(np.int8)[None, :]) for vector in vectors]
    return Ready(Prepared(document, "", tuple(Page(page, 0, 0) for page in pages), tuple(chunks)), embedded)


FILTERS: list[Any] = [
    pytest.param({"collection": "port/2024/q1"}, id="collection"),
    pytest.param({"collection": "port"}, id="collection:and_what_lies_below"),
    pytest.param({"collection": ["port/2024", "nowhere"]}, id="collections"),
    pytest.param({"document": "few"}, id="document"),
    pytest.param({"document": ["few"]}, id="documents"),
    pytest.param({"kind": "table"}, id="kind"),
    pytest.param({"kind": ["table", "list"]}, id="kinds"),
    pytest.param({"pages": (5001, 6000)}, id="pages"),
    pytest.param({"date_from": "2024-02-03"}, id="date_from"),
    pytest.param({"date_from": "2021-01-01", "date_to": "2024-02-03"}, id="dates"),
    pytest.param({"metadata": {"by": "y"}}, id="metadata"),
    pytest.param({"metadata": {"by": "y", "tide": "low"}}, id="metadata:both_must_hold"),
    pytest.param({"collection": "port", "kind": "table", "pages": (1, 9000), "metadata": {"tide": "low"}}, id="all"),
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("filters", FILTERS)
def test_filters_are_inside_the_search(crowded: AnyDesk, method: Any, filters: dict[str, Any]) -> None:
    hits = crowded.search(QUERY, k=10, method=method, **filters)
    assert [hit.document.name for hit in hits] == ["few"] * 10
    assert all(hit.lexical_score > 0 for hit in hits), "BM25 of the whole library, not of the scope"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "filters",
    [
        pytest.param({"collection": "por"}, id="a_beginning_is_no_collection"),
        pytest.param({"collection": "PORT"}, id="case_counts"),
        pytest.param({"date_from": "2024-02-04"}, id="a_day_late"),
        pytest.param({"date_to": "2019-12-31"}, id="a_day_early"),
        pytest.param({"pages": (3001, 5000)}, id="between_the_pages"),
        pytest.param({"kind": "figure"}, id="no_such_chunks"),
        pytest.param({"metadata": {"by": "y", "tide": "high"}}, id="one_of_two_is_not_enough"),
        pytest.param({"document": "few", "collection": "public"}, id="not_there"),
    ],
)
def test_an_empty_scope_gives_nothing(crowded: AnyDesk, method: Any, filters: dict[str, Any]) -> None:
    assert crowded.search(QUERY, k=10, method=method, **filters) == []


def test_one_page(crowded: AnyDesk) -> None:
    assert [hit.page for hit in crowded.search(QUERY, k=10, pages=(7, 7))] == [7]


def test_all_of_a_large_library(crowded: AnyDesk) -> None:
    assert len(crowded.search(QUERY, k=10**9)) == OUTSIDE + INSIDE


def test_removed_documents_are_not_found(own_examples: AnyDesk) -> None:
    assert own_examples.search(QUESTION, k=3)[0].document.name in ("service-price-list-2026.pdf", "tg4-support.html")
    own_examples.remove("service-price-list-2026.pdf", "tg4-support.html")
    names = {hit.document.name for method in METHODS for hit in own_examples.search(QUESTION, k=50, method=method)}
    assert names and not names & {"service-price-list-2026.pdf", "tg4-support.html"}


# queries and arguments


@pytest.mark.parametrize(
    "arguments, message",
    [
        pytest.param({"k": 0}, "k must be a whole number of at least 1, not 0", id="k_0"),
        pytest.param({"k": -3}, "k must be a whole number of at least 1", id="k_negative"),
        pytest.param({"k": "5"}, "k must be a whole number of at least 1, not '5'", id="k_a_text"),
        pytest.param({"text": None}, "the search text is empty", id="none"),
        pytest.param({"document": "half\ud800"}, r"no document 'half\?'", id="half_surrogate_in_a_name"),
        pytest.param({"method": "magic"}, "no search method 'magic'", id="method"),
        pytest.param({"document": "missing.pdf"}, "no document 'missing.pdf'", id="document"),
        pytest.param({"kind": "tabel"}, "no kind 'tabel'", id="kind"),
        pytest.param({"pages": (5, 2)}, "pages 5 to 2", id="pages_backwards"),
        pytest.param({"pages": (0, 2)}, "pages 0 to 2", id="page_0"),
        pytest.param({"date_from": "2024"}, "'2024' is not a date", id="date"),
        pytest.param({"date_to": "31.01.2024"}, "is not a date", id="german_date"),
        pytest.param({"collection": "a//b"}, "'a//b' is not a valid collection name", id="collection"),
        pytest.param({"metadata": "by=x"}, "metadata must map", id="metadata"),
        pytest.param({"settings": {"rag.top": 3}}, "no setting 'rag.top'", id="setting"),
        pytest.param({"text": ""}, "the search text is empty", id="empty"),
        pytest.param({"text": " \n\t"}, "the search text is empty", id="blank"),
    ],
)
def test_a_wrong_call_gets_one_sentence(examples: AnyDesk, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        examples.search(**{"text": "gauge", **arguments})


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("what is it that they are", id="stop_words"),
        pytest.param("?!… — ()", id="punctuation"),
        pytest.param("a\ud800b\x00c", id="half_surrogate_and_nul"),
        pytest.param('"quoted" AND field:value OR (x~2 ^5 *', id="query_syntax_is_text"),
        pytest.param("gauge " * 20_000, id="120,000_characters"),
        pytest.param(" ".join(f"word{i}" for i in range(5_000)), id="5,000_words"),
        pytest.param("x" * 50_000, id="one_long_word"),
        pytest.param("検潮器の点検", id="japanese"),
        pytest.param("مقياس المد والجزر", id="arabic"),
        pytest.param("מד גאות ושפל", id="hebrew"),
        pytest.param("🛟⚓", id="emoji"),
    ],
)
@pytest.mark.parametrize("method", METHODS)
def test_any_text_may_be_asked(examples: AnyDesk, text: str, method: Any) -> None:
    hits = examples.search(text, k=5, method=method)
    assert len(hits) == 5 or method == "bm25"
    for hit in hits:
        assert math.isfinite(hit.score) and -1.001 <= hit.cosine <= 1.001 and hit.lexical_score >= 0


def test_stop_words_are_searched_for_when_nothing_else_is_left(examples: AnyDesk) -> None:
    assert examples.search("what is the", k=3, method="bm25")
    assert examples.search("?!", method="bm25") == []


def test_japanese_finds_japanese(examples: AnyDesk) -> None:
    hits = examples.search("次回の点検", k=1, method="bm25")
    assert hits[0].document.name == "kitahama-maintenance.txt" and hits[0].lexical_score > 0


def test_german_words_are_stemmed_in_a_mixed_library(examples: AnyDesk) -> None:
    """The minutes say "Geräte" and "Nachrüstung"; the question says "Gerät" and "Nachrüstungen"."""
    for text in ("Gerät", "Nachrüstungen", "NACHRÜSTUNG"):
        assert examples.search(text, k=1, method="bm25")[0].document.name == "protokoll-cuxhaven.txt"


def test_right_to_left_text_is_found(desk: AnyDesk) -> None:
    desk.add_text("fees", "رسوم الميناء للعام المقبل هي ستمائة يورو.")
    desk.add_text("tides", "מנהל הנמל קבע את התעריפים לשנה הבאה.")
    desk.add_text("other", "Nothing of the kind.")
    assert desk.search("رسوم", k=1, method="bm25")[0].document.name == "fees"
    assert desk.search("התעריפים", k=1, method="bm25")[0].document.name == "tides"


@pytest.fixture(scope="module")
def empty(store_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyDesk]:
    """A library in which nothing is, and nothing must be after a test."""
    with open_either(store_kind, tmp_path_factory.mktemp("empty") / "library") as desk:
        yield desk


@pytest.mark.parametrize("method", METHODS)
def test_an_empty_library_gives_nothing(empty: AnyDesk, method: Any) -> None:
    assert empty.search("anything", method=method) == []
    assert empty.documents() == []


# texts


def test_a_text_is_replaced_under_its_name(desk: AnyDesk) -> None:
    first = desk.add_text("note", "The pilot boat is red.")
    assert first.outcome == "added" and first.document is not None
    assert desk.add_text("note", "The pilot boat is red.").outcome == "unchanged"
    second = desk.add_text("note", "The pilot boat is green.")
    assert second.outcome == "replaced" and second.document is not None
    assert second.document.id == first.document.id
    assert [hit.chunk.text for hit in desk.search("pilot boat", k=5)] == ["The pilot boat is green."]
    elsewhere = desk.add_text("note", "The pilot boat is blue.", collection="other")
    assert elsewhere.outcome == "added", "another collection is another place"
    assert len(desk.documents()) == 2
    with pytest.raises(UsageError, match="2 documents are called 'note'"):
        desk.document("note")


def test_texts_as_pairs_and_mappings(desk: AnyDesk) -> None:
    results = desk.add_texts(
        [
            ("pair", "A text in a pair."),
            ["list", "A text in a list."],  # type: ignore[list-item]
            {"name": "mapping", "text": "A text in a mapping.", "collection": "x/y", "date": "2024-05-06T10:00:00"},
            {"name": "more", "text": "# Head\n\nBody.", "format": "markdown", "metadata": {"year": 2024}, "title": "T"},
        ],
        collection="texts",
    )
    assert [one.name for one in results] == ["pair", "list", "mapping", "more"]
    assert {one.outcome for one in results} == {"added"}
    mapping, more = desk.document("mapping"), desk.document("more")
    assert (mapping.collection, mapping.date) == ("x/y", "2024-05-06")
    assert (more.collection, more.metadata["year"], more.title, more.format) == ("texts", "2024", "T", "markdown")
    assert desk.search("text", metadata={"year": 2024})[0].document.name == "more"  # type: ignore[dict-item]


def test_halves_of_surrogate_pairs_do_no_harm(desk: AnyDesk) -> None:
    one = {"name": "n\ud800", "text": "A \udfff text.", "metadata": {"m\ud800": "v\ud800"}, "collection": "c\ud800"}
    assert [added.outcome for added in desk.add_texts([one])] == ["added"]
    assert desk.document("n\ud800").name == "n?"
    hit = desk.search("text", collection="c\ud800", metadata={"m\ud800": "v\ud800"})[0]
    assert hit.chunk.text == "A ? text."


def test_a_zero_character_in_a_name_does_no_harm(desk: AnyDesk) -> None:
    """PostgreSQL refuses texts that hold one."""
    one = {"name": "n\0", "text": "A \0 text.", "title": "t\0", "metadata": {"m": "v\0"}}
    (added,) = desk.add_texts([one, ("n", "Another.")])[:1]
    assert added.outcome == "added" and added.document is not None
    assert desk.document("n\0").id == added.document.id and desk.document("n").id != added.document.id
    assert [hit.document.id for hit in desk.search("text", metadata={"m": "v\0"})] == [added.document.id]


def test_the_last_text_of_a_name_wins(desk: AnyDesk) -> None:
    results = desk.add_texts([("one", "The first says red."), ("two", "Blue."), ("one", "The second says green.")])
    assert [(one.name, one.outcome) for one in results] == [("one", "added"), ("two", "added")]
    assert desk.pages("one")[0].text.strip() == "The second says green."


@pytest.mark.parametrize(
    "bad, message",
    [
        pytest.param("ab", "a text needs a name and a text", id="a_string_is_no_pair"),
        pytest.param(("a", "b", "c"), "a text needs a name and a text", id="three"),
        pytest.param(None, "a text needs a name and a text", id="none"),
        pytest.param(("", "b"), "a text needs a name and a text", id="no_name"),
        pytest.param(("a", 5), "a text needs a name and a text", id="a_number_is_no_text"),
        pytest.param({"name": "a"}, "a text needs a name and a text", id="no_text"),
        pytest.param({"name": "a", "text": "b", "colour": "red"}, "a text needs a name and a text", id="unknown_field"),
        pytest.param({"name": "a", "text": "b", "format": "pdf"}, "cannot have the format 'pdf'", id="format"),
        pytest.param({"name": "a", "text": "b", "date": "yesterday"}, "'yesterday' is not a date", id="date"),
        pytest.param({"name": "a", "text": "b", "metadata": 5}, "metadata must map", id="metadata"),
        pytest.param(
            {"name": "a", "text": "b", "collection": "../x"}, "'../x' is not a valid collection name", id="collection"
        ),
    ],
)
def test_a_bad_text_gets_one_sentence_and_adds_nothing(empty: AnyDesk, bad: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        empty.add_texts([("good", "A good text."), bad])
    assert empty.documents() == []


def test_an_empty_text_fails_alone(desk: AnyDesk) -> None:
    results = desk.add_texts([("empty", ""), ("blank", " \n "), ("good", "A good text.")])
    assert [one.outcome for one in results] == ["failed", "failed", "added"]
    assert "nothing" in results[0].reason


def test_a_name_goes_before_the_beginning_of_an_id(desk: AnyDesk) -> None:
    """Otherwise `remove("3")` could take away the document whose id begins with 3."""
    added = desk.add_texts([(letter, f"Text number {letter}.") for letter in "0123456789abcdef"])
    for one in added:
        assert desk.document(one.name).name == one.name
    assert desk.document(added[0].document.id).name == "0"  # type: ignore[union-attr]
    assert desk.document(added[3].document.id[:12]).name == "3"  # type: ignore[union-attr]


def test_documents_by_collection_and_status(desk: AnyDesk) -> None:
    desk.add_texts([("a", "One."), ("b", "")], collection="x/y")
    assert [one.name for one in desk.documents(collection="x", status="ready")] == ["a"]
    assert [one.name for one in desk.documents(status="failed")] == ["b"]
    with pytest.raises(UsageError, match="no status 'lost'"):
        desk.documents(status="lost")


def test_a_library_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        Refdesk(tmp_path / "file")


def test_a_word_that_is_said_twice_counts_more(desk: AnyDesk) -> None:
    desk.add_texts([("fee", "The fee is due."), ("berth", "The berth is due."), ("crane", "The crane is out.")])

    def scores(text: str, method: Any) -> dict[str, float]:
        return {hit.document.name: hit.lexical_score for hit in desk.search(text, method=method)}

    for method in METHODS:  # a chunk that only the vectors found gets its BM25 score afterwards, counted alike
        even, uneven = scores("fee berth", method), scores("fee fee berth", method)
        assert even["fee"] == pytest.approx(even["berth"])
        assert uneven["fee"] == pytest.approx(1.5 * uneven["berth"])
        assert uneven["fee"] + uneven["berth"] == pytest.approx(even["fee"] + even["berth"]), "comparable"
