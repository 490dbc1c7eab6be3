"""What chunks are about: kind, summary, keywords, entities."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings

from parsed_strategies import count_tokens, documents
from refdesk.ingest.chunk import ChunkLimits, chunk
from refdesk.ingest.enrich import enrich, entities_of
from refdesk.parsers.build import Builder
from refdesk.text import STOP_WORDS, sentences
from refdesk.types import Chunk, Kind, Parsed


def chunks_of(parsed: Parsed) -> list[Chunk]:
    return chunk(parsed, document_id="d", title="T", limits=ChunkLimits(), count_tokens=count_tokens)


def one(kind: Kind, text: str, heading: str = "") -> Chunk:
    builder = Builder()
    builder.heading(heading, level=1)
    if kind == "table":
        builder.table([line.split(" | ") for line in text.split("\n")])
    else:
        builder.block(kind, text)
    return enrich(chunks_of(builder.build("test")), language="en")[0]


CONTENTS = "1 Introduction ........ 3\n2 Method ........ 7\n3 Results ........ 19"
PLAIN_CONTENTS = "Introduction 1\nMethod 4\nResults 9\nDiscussion 15\nReferences 21"
TERMS = (
    "Accrual: a cost that is known but not paid\nBond: a loan that can be sold on\n"
    "Coupon: the yearly interest of a bond\nDefault: failing to pay what is owed"
)
FORM = "Name: Ann of the mill\nAddress: 12 Main St, Leeds\nPaid: 5 pounds 3 pence\nOn: May 2 in the shop"
PROSE = "The mill closed in May. Its owner moved the looms to another town. Nobody was paid for the last month."


@pytest.mark.parametrize(
    ("kind", "text", "heading", "expected"),
    [
        pytest.param("text", CONTENTS, "", "toc", id="dot_leaders:toc"),
        pytest.param("list", PLAIN_CONTENTS, "", "toc", id="rising_page_numbers:toc"),
        pytest.param("list", "Introduction\nMethod\nResults", "Contents", "toc", id="heading_contents:toc"),
        pytest.param("text", PROSE, "Contents", "text", id="prose_under_contents:text"),
        pytest.param("table", "a | 1\nb | 2\nc | 3\nd | 4\ne | 5\nf | 6", "", "table", id="table_of_numbers:table"),
        pytest.param("text", TERMS, "", "glossary", id="term_and_meaning:glossary"),
        pytest.param(
            "table", "EBIT | earnings before interest\nCFO | chief officer", "Glossary", "glossary", id="cells"
        ),
        pytest.param("text", FORM, "", "text", id="filled_form:text"),
        pytest.param("text", PROSE, "Defined terms", "text", id="prose_under_definitions:text"),
        pytest.param("text", "Photo by Ann Lee. Image courtesy of NASA.", "", "credits", id="photographs:credits"),
        pytest.param("text", "© 2021 Acme Press. All rights reserved.", "", "credits", id="rights:credits"),
        pytest.param("text", "We thank our colleagues for their help.", "Acknowledgements", "credits", id="thanks"),
        pytest.param("text", PROSE + " A photo by Ann Lee shows it.", "", "text", id="one_credit_in_prose:text"),
        pytest.param("code", CONTENTS, "", "code", id="code_stays_code"),
    ],
)
def test_kind(kind: Kind, text: str, heading: str, expected: Kind) -> None:
    assert one(kind, text, heading).kind == expected


def names(text: str, common: str = "") -> tuple[str, ...]:
    return entities_of(text, sentences(text), lambda word: word.lower() in STOP_WORDS | set(common.split()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "The firm Acme Corp paid $3.5 million in Q2 2023.", ("Acme Corp", "$3.5 million", "Q2 2023"), id="deal"
        ),
        pytest.param(
            "It fell 12.5% by March 3, 2021 (5 percent in 2020).",
            ("12.5%", "March 3, 2021", "5 percent", "2020"),
            id="numbers",
        ),
        pytest.param("See Item 1A and ISO 9001 in this Form 10-K.", ("Item 1A", "ISO 9001", "Form 10-K"), id="codes"),
        pytest.param(
            "Write to ann.lee@example.org or see https://example.org/a?b=1.",
            ("ann.lee@example.org", "https://example.org/a?b=1"),
            id="addresses",
        ),
        pytest.param(
            "The U.S. Securities and Exchange Commission asked NASA.",
            ("U.S. Securities and Exchange Commission", "NASA"),
            id="offices",
        ),
        pytest.param("We sell Lyrica and Viagra.", ("Lyrica", "Viagra"), id="two_names"),
        pytest.param("Yesterday it rained. Rain fell.", (), id="sentence_starts"),
        pytest.param("ANNUAL REPORT OF THE BOARD", (), id="capitals"),
        pytest.param("Amcor’s plant is old. He likes Amcor. She likes Bemis.", ("Amcor", "Bemis"), id="by_count"),
    ],
)
def test_entities(text: str, expected: tuple[str, ...]) -> None:
    assert names(text, common="yesterday rain write see we") == expected


def report() -> list[Chunk]:
    builder = Builder()
    for topic in ("hydrogen storage", "battery recycling", "wind turbines", "tidal power"):
        builder.heading(topic.title(), level=1)
        builder.block(
            "text",
            f"The company studied {topic} for two years. Costs of {topic} fell, and the plant for {topic} in Leeds "
            f"grew. It was late. The board of the company will decide next year. There was some rain.",
        )
    limits = ChunkLimits(target=60, minimum=10, maximum=128)
    made = chunk(builder.build("test"), document_id="d", title="T", limits=limits, count_tokens=count_tokens)
    return enrich(made, language="en")


def test_keywords_tell_the_chunks_of_a_document_apart() -> None:
    made = report()
    assert [found.keywords[0].lower() for found in made] == [
        "hydrogen storage",
        "battery recycling",
        "wind turbines",
        "tidal power",
    ]
    assert all(len(found.keywords) <= 8 and not STOP_WORDS & set(found.keywords) for found in made)


def test_summary_quotes_the_sentence_that_carries_the_topic() -> None:
    assert report()[0].summary.startswith(("Costs of hydrogen storage fell", "The company studied hydrogen storage"))


def test_summary_is_not_the_sentence_repeated_from_the_chunk_before() -> None:
    builder = Builder()
    builder.block("text", " ".join(f"The plant number {n} of the company made paper and board." for n in range(50)))
    made = enrich(chunks_of(builder.build("test")), language="en")
    assert len(made) > 1
    for before, after in pairwise(made):
        first, last = after.sentences[0], before.sentences[-1]
        assert after.text[first.start : first.end] == before.text[last.start : last.end]
        assert after.text[first.start : first.end] not in after.summary


@pytest.mark.parametrize(("length", "is_quoted"), [(200, True), (201, False)])
def test_summary_rather_quotes_a_sentence_that_fits_than_a_long_one_cut_off(length: int, is_quoted: bool) -> None:
    said = (
        "gauge records water levels, currents, salinity, pressure, wind, temperature, rainfall and waves in the basin"
    )
    fitting = f"Every {said} which the pilots of the harbour ask for "
    fitting += "x" * (length - len(fitting) - 1) + "."
    long = f"The {said}, beside turbidity, oxygen, nitrate, sediment, humidity, sunlight and the depth of the fairway."
    builder = Builder()
    builder.block("text", f"{long} {fitting}")
    (found,) = enrich(chunks_of(builder.build("test")), language="en")
    assert (found.summary == fitting) is is_quoted and len(fitting) == length


def test_summary_of_a_table_is_its_header_and_size() -> None:
    builder = Builder()
    builder.block("text", "Table 2. Prices")
    builder.table([["item", "price"], ["paper", "3"], ["ink", "4"]])
    (found,) = enrich(chunks_of(builder.build("test")), language="en")
    assert found.summary == "Table 2. Prices: item | price (2 rows)"


def test_chinese_keywords_are_pairs_of_letters() -> None:
    (found,) = enrich(chunks_of(_chinese()), language="zh")
    assert "收入" in found.keywords
    assert found.summary in "".join(found.text.split("\n"))


def _chinese() -> Parsed:
    builder = Builder()
    builder.block("text", "公司收入增长。收入来自市场。收入很高。")
    return builder.build("test")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_any_document_keeps_its_text_and_the_limits(parsed: Parsed) -> None:
    before = chunks_of(parsed)
    after = enrich(before, language="")
    assert [(found.text, found.spans, found.sequence) for found in after] == [
        (found.text, found.spans, found.sequence) for found in before
    ]
    for found in after:
        assert 0 < len(found.summary) <= 200
        assert len(found.keywords) <= 8 and len(found.entities) <= 20
        assert len(set(found.entities)) == len(found.entities)
        lowered = " ".join(found.text.lower().split())
        assert all(word.lower() in lowered for word in found.keywords)
    assert after == enrich(before, language="")
