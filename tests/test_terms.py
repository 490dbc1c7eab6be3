"""What is a term: numbers, possessives, scripts without spaces, accents, stems, and parity with bm25s over them."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import bm25s
import pytest

from memory_desk import KINDS
from refdesk import Refdesk, Scope
from refdesk.periods import alike
from refdesk.text import QUERY_STOP_WORDS, STEMMERS, as_typed, query_terms, repeated_terms, terms, words

STORES = KINDS


@pytest.mark.parametrize(
    "text, language, expected",
    [
        pytest.param("1,250 pilots, 4.2 mm", "en", ["1250", "pilot", "4.2", "mm"], id="thousands_go:decimals_stay"),
        pytest.param("1,234,567.89", "en", ["1234567.89"], id="millions_with_decimals"),
        pytest.param("In 2024, 2025", "en", ["in", "2024", "2025"], id="a_list_of_years_is_no_number"),
        pytest.param("version 3.11.7", "en", ["version", "3.11.7"], id="version"),
        pytest.param("12%  $3.50", "en", ["12", "3.50"], id="signs_go"),
        pytest.param("10,5", "en", ["10", "5"], id="a_comma_before_one_digit_parts"),
        pytest.param("Skerry's gauges’ zero", "en", ["skerri", "gaug", "zero"], id="possessives_go"),
        pytest.param("don't DON’T donʼt", "en", ["do", "not"] * 3, id="contractions_part:whatever_the_apostrophe"),
        pytest.param("won't can’t isn't", "en", ["will", "not", "can", "not", "is", "not"], id="irregular_ones_too"),
        pytest.param(
            "we're they've it'll I'm he'd", "en", words("we are they have it will I am he"), id="joined_words"
        ),
        pytest.param("O'Brien's 'quoted' dogs'", "en", ["o", "brien", "quot", "dog"], id="other_apostrophes_part"),
        pytest.param("об'єкт", "uk", ["об", "єкт"], id="an_apostrophe_within_other_scripts_parts"),
        pytest.param("WB-7 e-mail", "en", ["wb", "7", "e", "mail"], id="hyphens_part"),
        pytest.param("queue_skip", "en", ["queue_skip"], id="identifiers_stay_whole"),
        pytest.param("東京都の港", "ja", ["東京", "京都", "都の", "の港"], id="japanese:pairs"),
        pytest.param("港", "ja", ["港"], id="one_character_alone"),
        pytest.param(
            "TG-4検潮器は2026年3月", "ja", ["tg", "4", "検潮", "潮器", "器は", "2026", "年", "3", "月"], id="mixed"
        ),
        pytest.param("ＴＧ４", "en", ["tg4"], id="full_width_letters_are_letters"),
        pytest.param("한국어", "ko", ["한국", "국어"], id="korean:pairs"),
        pytest.param("Café naïve CAFÉ", "en", ["cafe", "naiv", "cafe"], id="accents_go_after_stemming"),
        pytest.param("Häuser Haus", "de", ["haus", "haus"], id="german:plural_and_singular"),
        pytest.param("running runs", "en", ["run", "run"], id="english"),
        pytest.param("chevaux", "fr", ["cheval"], id="french"),
        pytest.param("running", "th", ["running"], id="no_stemmer:as_it_is"),
        pytest.param("शुल्क", "hi", ["शुल्क"], id="hindi_keeps_its_vowel_signs"),
        pytest.param("தமிழ் நாடு", "xx", ["தமிழ்", "நாடு"], id="tamil_keeps_its_vowel_signs"),
        pytest.param("ท่าเรือ", "th", ["ท่", "่า", "าเ", "เร", "รื", "ือ"], id="thai:pairs"),
        pytest.param("", "en", [], id="nothing"),
        pytest.param("?!… —", "en", [], id="punctuation_alone"),
        pytest.param("a\ud800b", "en", ["a", "b"], id="half_a_surrogate_pair_parts"),
    ],
)
def test_terms(text: str, language: str, expected: list[str]) -> None:
    assert terms(text, language) == expected


SAME_PERIODS = [
    ("2019", ["FY2019", "fy 2019", "FY 19", "FY'19", "FY’19", "fiscal 2019", "fiscal year 2019", "2019 fiscal year"]),
    ("third quarter", ["Q3", "3Q", "3rd quarter", "third-quarter", "Third Quarter"]),
    (
        "Q3 2024",
        ["third quarter of fiscal 2024", "3Q24", "Q3'24", "Q32024", "Q3 FY24", "3rd quarter of fiscal year 2024"],
    ),
    ("quarter ended June 25, 2022", ["three months ended June 25, 2022", "3 Months Ended 25 June 2022"]),
    ("July 1, 2023", ["1 July 2023", "2023-07-01", "Jul. 1, 2023", "July 1st, 2023", "July 01, 2023", "1-Jul-2023"]),
    ("September 2023", ["Sept. 2023", "Sep 2023"]),
]


@pytest.mark.parametrize(("one", "others"), SAME_PERIODS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_period_is_the_same_term_however_it_is_spelled(one: str, others: list[str]) -> None:
    """As a question's words and as a document's: both are read by the same function."""
    known = set(query_terms(one))
    assert [spelled for spelled in others if set(query_terms(spelled)) != known] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [("Q3", "Q2"), ("FY2019", "FY2018"), ("2023-07-01", "2023-01-07"), ("first quarter", "first half"), ("10-Q", "Q1")],
)
def test_other_periods_are_other_terms(one: str, other: str) -> None:
    assert set(query_terms(one)) != set(query_terms(other))


@pytest.mark.parametrize(
    "text",
    ["fiscal policy", "3 quarters of it", "IQ3", "a quarter of 2,019", "2011-12 season", "1.2023-07-01", "may 20 men"],
)
def test_what_is_no_period_stays_as_it_is(text: str) -> None:
    assert alike(text.lower()) == text.lower()


def test_words_are_shown_as_they_were_typed() -> None:
    shown = as_typed("Did Amazon's FY2021 sales, in the Third Quarter, exceed 1,250 and don’t O'Brien's?")
    wanted = ("amazon", "2021", "q3", "quarter", "1250", "brien", "not")
    assert [shown[word] for word in wanted] == [
        "Amazon",
        "FY2021",
        "Third Quarter",
        "Third Quarter",
        "1,250",
        "O'Brien",
        "don’t",
    ]


def test_a_question_finds_a_period_in_another_spelling(desk: Refdesk) -> None:
    desk.add_text("dues.txt", "Harbour dues were 4,100 in the third quarter of fiscal 2019.")
    desk.add_text("older.txt", "Harbour dues were 3,900 in the second quarter of fiscal 2018.")
    for question in ("dues Q3 FY2019", "dues 3Q19", "dues third quarter 2019"):
        scores = {hit.document.name: hit.lexical_score for hit in desk.search(question)}
        assert scores["dues.txt"] > 1.5 * scores.get("older.txt", 0.0), question


def test_hebrew_and_arabic_are_words() -> None:
    assert words("מנהל הנמל") == ["מנהל", "הנמל"]
    assert len(terms("رسوم الميناء", "ar")) == 2
    assert terms("שָׁלוֹם", "he") == terms("שלום", "he"), "points are left out"
    assert terms("مُحَمَّد", "ar") == terms("محمد", "ar")


def test_a_very_long_word_is_cut() -> None:
    assert [len(word) for word in words("x" * 10_000)] == [60]


def test_query_terms_drop_stop_words_unless_nothing_else_is_left() -> None:
    assert query_terms("What is the fee for the harbour?") == ["fee", "harbour"]
    assert query_terms("who is the who") == ["who", "is", "the"]
    assert query_terms("") == []


def test_repeated_terms_count_what_the_query_says() -> None:
    assert repeated_terms("the fee, which fees, and the berth") == ["fee", "fee", "berth"]
    assert repeated_terms("Häuser Häuser", ("en", "de")) == ["hauser", "hauser", "haus", "haus"]
    assert repeated_terms("fee", ("en", "de")) == ["fee"], "a word that two languages stem alike was said once"


def test_query_terms_are_stemmed_in_every_language_once() -> None:
    assert query_terms("Häuser", ("en", "de")) == ["hauser", "haus"]
    assert query_terms("fee fee", ("en", "de")) == ["fee"]
    assert query_terms("fees", ()) == ["fee"]


def test_every_stemmer_exists() -> None:
    for language in STEMMERS:
        assert terms("harbour", language)


def test_stop_words_are_terms_of_documents() -> None:
    assert terms("The Who") == ["the", "who"]
    assert {"the", "who", "of"} <= QUERY_STOP_WORDS


def test_threads_do_not_share_a_stemmer() -> None:
    """PyStemmer's cache is not guarded; one stemmer in eight threads gives wrong stems or ends the process."""
    texts = [f"running harbours number{i} relational conditional" for i in range(200)]
    expected = [terms(text) for text in texts]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            for found in pool.map(lambda _: [terms(text) for text in texts], range(32)):
                assert found == expected
    finally:
        sys.setswitchinterval(interval)


QUERIES = [
    "drift of the bare gauges",
    "calibration of a tide gauge",
    "price of a spare part",
    "battery of the wave buoy",
    "copper guard",
    "parental leave",
    "water level and temperature",
    "mooring anchor shackle",
    "budget of the test station",
    "error code of the telemetry gateway",
]


def test_bm25_agrees_with_bm25s(examples: Refdesk) -> None:
    """The same terms, k1 1.2, b .75: the top ten are shared but for ties and tantivy's one-byte lengths."""
    chunks = [
        (chunk.id, terms(f"{chunk.context}\n{chunk.text}", document.language))
        for document, chunk in examples.parts.documents.all_chunks()
    ]
    vocabulary: dict[str, int] = {}
    ids = [[vocabulary.setdefault(term, len(vocabulary)) for term in found] for _, found in chunks]
    reference = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    reference.index((ids, vocabulary), show_progress=False)
    examples.parts.index.refresh()
    shared = wanted = 0
    for text in QUERIES:
        known = [term for term in query_terms(text) if term in vocabulary]
        ours = dict(examples.parts.index.lexical(known, 10, Scope()))
        places, scores = reference.retrieve([[vocabulary[term] for term in known]], k=10, show_progress=False)
        theirs = {chunks[place][0]: score for place, score in zip(places[0], scores[0], strict=True) if score > 0}
        shared += len(ours.keys() & theirs.keys())
        wanted += len(theirs)
        for chunk_id in ours.keys() & theirs.keys():
            # bm25s leaves out the constant factor k1 + 1 that tantivy, as Lucene before 8, multiplies by.
            assert ours[chunk_id] / theirs[chunk_id] == pytest.approx(2.2, rel=0.05)
    assert wanted > 60
    assert shared / wanted >= 0.95
