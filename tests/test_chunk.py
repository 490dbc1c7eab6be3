"""Chunks of small documents, read line by line."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from parsed_strategies import count_tokens, run_on, tokens_of, with_geometry
from refdesk.ingest.chunk import ChunkLimits, chunk, embedded_text, spans_of
from refdesk.ingest.split import context_line
from refdesk.parsers.build import Builder
from refdesk.providers.shipped import OnnxEmbedder
from refdesk.types import Block, Box, Chunk, Page, Parsed

DATA = Path(os.environ.get("REFDESK_DATA", Path(__file__).parents[2] / "shared" / "data"))
SMALL = ChunkLimits(target=40, minimum=12, maximum=64, overlap=1)


def cut(parsed: Parsed, limits: ChunkLimits = SMALL, title: str = "Report") -> list[Chunk]:
    return chunk(parsed, document_id="d", title=title, limits=limits, count_tokens=count_tokens)


def prose(count: int, *, length: int = 9) -> str:
    return " ".join(f"Sentence {n} has " + "words " * (length - 4) + "here." for n in range(1, count + 1))


def test_a_heading_opens_its_section_and_names_the_path() -> None:
    builder = Builder()
    builder.heading("1 Results", level=1)
    builder.heading("1.1 Ablation", level=2)
    builder.block("text", prose(2))
    builder.heading("2 Limits", level=1)
    builder.block("text", prose(2))
    first, second = cut(builder.build("test"))
    assert first.text.startswith("1 Results\n\n1.1 Ablation\n\nSentence 1")
    assert first.heading_path == ("1 Results", "1.1 Ablation")
    assert first.context == "Report › 1 Results › 1.1 Ablation"
    assert second.heading_path == ("2 Limits",)
    assert [first.text[s.start : s.end] for s in first.sentences][:2] == ["1 Results", "1.1 Ablation"]


def test_cuts_fall_between_paragraphs_rather_than_inside_one() -> None:
    builder = Builder()
    for _ in range(4):
        builder.block("text", prose(3, length=12))  # 36 tokens each
    made = cut(builder.build("test"), ChunkLimits(target=40, minimum=12, maximum=64, overlap=0))
    assert [found.text for found in made] == [prose(3, length=12)] * 4


def test_the_last_chunk_is_not_a_crumb() -> None:
    builder = Builder()
    builder.block("text", prose(7))  # 70 tokens: 60 + 10 would fit, 40 + 30 is better
    made = cut(builder.build("test"), ChunkLimits(target=40, minimum=12, maximum=64, overlap=0))
    assert sorted(found.token_count for found in made) == [30, 40]


def test_overlap_repeats_the_sentence_before_with_its_boxes() -> None:
    builder = Builder()
    builder.block("text", prose(12))
    parsed = with_geometry(builder.build("test"))
    made = cut(parsed)
    for before, after in pairwise(made):
        last, first = before.sentences[-1], after.sentences[0]
        assert before.text[last.start : last.end] == after.text[first.start : first.end]
        assert last.boxes == first.boxes != ()
    assert all(found.token_count <= 60 for found in made)


def test_overlap_stays_inside_its_section() -> None:
    builder = Builder()
    for name in ("One", "Two"):
        builder.heading(name, level=1)
        builder.block("text", prose(4))
    made = cut(builder.build("test"))
    assert [found.text.split("\n")[0] for found in made] == ["One", "Two"]


def test_small_siblings_share_a_chunk_under_their_parent() -> None:
    builder = Builder()
    builder.heading("Questions", level=1)
    builder.block("text", prose(4))
    for name in ("Colour", "Weight", "Price"):
        builder.heading(name, level=2)
        builder.block("text", f"The {name.lower()} is fine.")
    made = cut(builder.build("test"))
    assert [found.heading_path for found in made] == [("Questions",), ("Questions",), ("Questions", "Price")]
    assert made[1].text == "Colour\n\nThe colour is fine.\n\nWeight\n\nThe weight is fine."


def table_document(rows: int) -> Parsed:
    builder = Builder()
    builder.heading("Costs", level=1)
    builder.block("text", prose(5))
    builder.block("text", "Table 1. What things cost")
    builder.table([["item", "price"], *([f"thing {n}", str(n)] for n in range(rows))])
    builder.block("text", "Source: the shop.")
    builder.block("text", prose(5))
    return builder.build("test")


def test_a_table_stands_alone_with_caption_and_source() -> None:
    made = cut(table_document(3))
    assert [found.kind for found in made] == ["text", "table", "text"]
    assert made[1].text.startswith("Table 1. What things cost\n\nitem | price\nthing 0 | 0")
    assert made[1].text.endswith("thing 2 | 2\n\nSource: the shop.")


def test_each_chunk_of_a_long_table_begins_with_the_header() -> None:
    parsed = with_geometry(table_document(60))
    tables = [found for found in cut(parsed) if found.kind == "table"]
    assert len(tables) > 4
    for found in tables[1:]:
        assert found.text.startswith("item | price\nthing ")
        header = found.sentences[0]
        assert (header.start, header.end) == (0, len("item | price"))
        assert header.boxes == tables[0].sentences[1].boxes  # where it is really printed
    rows = [line for found in tables for line in found.text.split("\n") if line.startswith("thing")]
    assert rows == [f"thing {n} | {n}" for n in range(60)]


def test_a_table_over_two_pages_keeps_boxes_on_both() -> None:
    builder = Builder()
    builder.page()
    builder.table([["item", "price"], ["paper", "3"]])
    builder.page()
    builder.block("table", "ink | 4")
    parsed = with_geometry(builder.build("test"))
    (found,) = cut(replace(parsed, blocks=(Block("table", 0, len(parsed.text)),)))
    assert found.pages == (1, 2)
    assert {box.page for box in found.boxes} == {1, 2}


def test_a_sentence_over_two_pages_stands_on_the_first_and_has_boxes_on_both() -> None:
    builder = Builder()
    builder.page()
    builder.block("text", "It begins. The second sentence goes on")
    builder.page()
    builder.block("text", "over the page. It ends.")
    parsed = with_geometry(run_on(builder.build("test")))
    (found,) = cut(parsed)
    assert [(part.page, {box.page for box in part.boxes}) for part in found.sentences] == [
        (1, {1}),
        (1, {1, 2}),
        (2, {2}),
    ]
    assert found.pages == (1, 2)


def test_code_of_a_line_stays_in_its_text_and_long_code_stands_alone() -> None:
    builder = Builder()
    builder.block("text", "Install it like this:")
    builder.block("code", "pip install refdesk")
    builder.block("text", prose(1))
    builder.block("code", "\n".join(f"x{n} = call({n})" for n in range(5)))
    made = cut(builder.build("test"))
    assert [found.kind for found in made] == ["text", "code"]
    assert "pip install refdesk" in made[0].text


def test_kinds_follow_the_blocks() -> None:
    builder = Builder()
    builder.heading("List", level=1)
    builder.block("list", "- " + "\n- ".join(["one two three four five six"] * 4))
    builder.heading("Picture", level=1)
    builder.block("figure", "Figure 1. " + prose(2), image=b"pixels")
    builder.heading("Nothing follows", level=1)
    made = cut(builder.build("test"))
    assert [found.kind for found in made] == ["list", "figure", "heading"]
    assert made[1].image == hashlib.sha256(b"pixels").hexdigest()
    assert made[0].image is None


def test_pages_without_boxes_give_ranges() -> None:
    builder = Builder()
    builder.page("Slide 1")
    builder.block("text", "On the first slide.")
    builder.page("Slide 2")
    builder.block("text", "On the second slide.")
    (found,) = cut(builder.build("pptx"))
    assert [(span.page, span.origin, span.box) for span in found.spans] == [(1, 0, None), (2, 21, None)]
    assert [part.page for part in found.sentences] == [1, 2]


def test_nothing_gives_nothing() -> None:
    assert cut(Builder().build("test")) == []


@pytest.mark.parametrize(
    ("title", "path", "limit", "expected"),
    [
        pytest.param("", ("A", "B"), 40, "A › B", id="no_title:path_only"),
        pytest.param("Report", (), 40, "Report", id="no_headings:title_only"),
        pytest.param("Report", ("REPORT", "B"), 40, "Report › B", id="heading_is_title:once"),
        pytest.param("R", ("one two three four", "five six", "seven"), 8, "R › five six › seven", id="long:left_goes"),
        pytest.param("R", ("a " * 50 + "z",), 12, "R › a a a a a a a a a…", id="long_heading:shortened"),
        pytest.param("", (), 40, "", id="nothing"),
    ],
)
def test_context_line(title: str, path: tuple[str, ...], limit: int, expected: str) -> None:
    tokens = {part: tokens_of(part) for part in (title, *path)}
    line = context_line(title, path, tokens, limit)
    assert line == expected


def test_real_tokeniser_keeps_the_window_on_mixed_scripts() -> None:
    embedder = OnnxEmbedder()
    builder = Builder()
    builder.heading("Mixed", level=1)
    for _ in range(6):
        builder.block("text", prose(20))
        builder.block("text", "公司收入增长了百分之五。" * 30 + "利润下降" * 400)
        builder.block("text", "החברה דיווחה על הכנסות גבוהות. " * 20 + "x" * 5000)
    parsed = builder.build("test")
    made = chunk(parsed, document_id="d", title="Report", limits=ChunkLimits(), count_tokens=embedder.count_tokens)
    counts = embedder.count_tokens([embedded_text(found.context, found.text) for found in made])
    assert max(counts) <= 254
    assert "".join("".join(c.text.split()) for c in made).count("x") >= 30_000


@pytest.mark.skipif(not DATA.exists(), reason="REFDESK_DATA names no folder")
def test_a_novel_gives_chunks_near_the_target() -> None:
    text = (DATA / "formats/unstructured/example-docs/book-war-and-peace-1225p.txt").read_text()[:400_000]
    builder = Builder()
    for paragraph in text.split("\n\n"):
        builder.block("text", paragraph)
    sizes = sorted(found.token_count for found in cut(builder.build("text"), ChunkLimits()))
    assert 190 <= sizes[len(sizes) // 2] <= 215
    assert sizes[len(sizes) // 10] >= 150


def test_a_block_without_known_words_has_a_span_also_between_two_lines() -> None:
    """A picture's text begins where the line before it ends, and ends where the next begins: neither is its own."""
    box = Box(1, 10.0, 10.0, 80.0, 3.0)
    blocks = [(0, 10), (10, 30), (30, 30), (30, 40)]
    found = spans_of((0, 40), 0, blocks, [(0, 10, box), (30, 40, box)], [Page(1, 0, 40)])
    assert [(one.start, one.end, one.box) for one in found] == [(0, 10, box), (10, 30, None), (30, 40, box)]
