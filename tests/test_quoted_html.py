"""Sentences of documents become HTML to the letter."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refdesk.serve.export import Row, as_table, laid_out, row_of
from refdesk.serve.http.page import TURNING, quoted_html
from refdesk.types import Chunk, Sentence

BUTTON = re.compile(r'<button type="button" class="chip" data-marker="(\d+)" data-claim="\d+">\d+</button>')


def read(html: str) -> str:
    """What a reader sees, each marker as it stands in the answer."""
    html = BUTTON.sub(r"[\1]", html).replace("<br>", "\n").replace("</p><p>", "\n\n")
    html = re.sub(r'<span class="claim" data-claim="\d+">|</span>|^<p>|</p>$', "", html)
    assert "<" not in html and ">" not in html, html
    return unescape(html).replace("\u00a0", " ")


@pytest.mark.parametrize(
    "sentence",
    [
        "It is 2 * 3 * 4 _and_ `code` **bold**.",
        "<script>alert(1)</script> & <b>x</b>.",
        "# 1. A heading? | a | b |",
        "See [1] and [the list](http://a.b/c).",
        "1. First",
        "    indented four spaces",
        "a\\_b &amp; c ~~d~~ ![x](y)",
    ],
)
def test_a_sentence_is_shown_as_the_document_has_it(sentence: str) -> None:
    content = f"{sentence} [2]"
    html = quoted_html(content, [(0, len(content))], {2})
    assert read(html) == content
    assert html.count("<button") == 1
    assert html.count("<span") == 1


def test_a_marker_after_the_claim_and_one_without_a_citation() -> None:
    assert BUTTON.findall(quoted_html("A. [1] B. [7]", [(0, 2), (7, 9)], {1})) == ["1"]
    assert read(quoted_html("A. [1] B. [7]", [(0, 2), (7, 9)], {1})) == "A. [1] B. [7]"
    assert BUTTON.findall(quoted_html("It says [1]. [2]", [(0, 16)], {1, 2})) == ["2"]


def test_a_marker_without_a_citation_takes_no_text_with_it() -> None:
    assert read(quoted_html("One is long enough. [1] Two. [7]", [(0, 23), (24, 32)], {1})).endswith(" Two. [7]")


HEAD, NORTH, SOUTH = Row(("Lamp", "Range"), is_head=True), Row(("North", "12")), Row(("South", "14"))
OTHER_HEAD, LONGER = Row(("Boat", "Crew"), is_head=True), Row(("South", "14", "dim"))


def claims_of(content: str) -> list[tuple[int, int]]:
    """Each line is a claim, but for its dash."""
    found, at = [], 0
    for line in content.split("\n"):
        if line:
            found.append((at + 2 * line.startswith("- "), at + len(line)))
        at += len(line) + 1
    return found


@pytest.mark.parametrize(
    "content, rows, drawn",
    [
        pytest.param("- a | b [1]\n- c | d [1]", {0: HEAD, 1: NORTH}, [("rows", (0, 1))], id="one_table"),
        pytest.param(
            "- a | b\n- c | d\n- a | b\n- e | f",
            {0: HEAD, 1: NORTH, 2: HEAD, 3: SOUTH},
            [("rows", (0, 1, 3))],
            id="the_same_head_again:once",
        ),
        pytest.param(
            "- a | b\n- c | d\n- a | b\n- e | f",
            {0: HEAD, 1: NORTH, 2: OTHER_HEAD, 3: SOUTH},
            [("rows", (0, 1)), ("rows", (2, 3))],
            id="another_head:another_table",
        ),
        pytest.param(
            "- a | b\n- c | d\n- e | f | g\n- a | b\n- e | f",
            {0: HEAD, 1: NORTH, 2: LONGER, 3: HEAD, 4: SOUTH},
            [("rows", (0, 1)), ("rows", (2,)), ("rows", (3, 4))],
            id="other_widths:other_tables",
        ),
        pytest.param(
            "Two:\n\n- a | b\n- an item\n- one more\n\nThe end.",
            {1: NORTH},
            [("text", (0,)), ("rows", (1,)), ("items", (2, 3)), ("text", (4,))],
            id="among_others",
        ),
        pytest.param("a | b", {0: NORTH}, [("text", (0,))], id="no_dash:text"),
    ],
)
def test_what_is_drawn_as_one(content: str, rows: dict[int, Row], drawn: list[tuple[str, tuple[int, ...]]]) -> None:
    assert [(part.kind, part.claims) for part in laid_out(content, claims_of(content), rows)] == drawn


def test_rows_are_a_table_of_which_each_ends_with_its_marker() -> None:
    content = "- a | b [1]\n- c | d [1]"
    row = Row(("North <b>", "2025-10-20"))
    html = quoted_html(content, claims_of(content), {1}, {0: HEAD, 1: row})
    chips = [f'<td><button type="button" class="chip" data-marker="1" data-claim="{n}">1</button></td>' for n in (0, 1)]
    spans = [
        f'<span class="claim" data-claim="{number}">{text}</span>'
        for number, text in ((0, "Lamp"), (0, "Range"), (1, "North &lt;b&gt;"), (1, "2025-10-20"))
    ]
    assert html == (
        f'<table class="quoted"><thead><tr><th scope="col" class="">{spans[0]}</th>'
        f'<th scope="col" class=" number">{spans[1]}</th>{chips[0]}</tr></thead>'
        f'<tbody><tr><td class="">{spans[2]}</td>'
        f'<td class="unbroken number">{spans[3]}</td>{chips[1]}</tr></tbody></table>'
    )


def test_items_are_a_list() -> None:
    content = "- a [1]\n- b & c"
    html = quoted_html(content, claims_of(content), {1})
    assert re.sub(r"</?(?:span|button)[^>]*>", "", html) == "<ul><li>a\u00a01</li><li>b &amp; c</li></ul>"


def test_a_dash_of_the_document_stays() -> None:
    assert quoted_html("- a [1]", [(0, 7)], {1}).startswith('<p><span class="claim" data-claim="0">- a')


def test_rows_are_known_by_the_chunk_that_they_stand_in() -> None:
    lines = ["Lamps", "| Reach |  | Colour |", "North | 12 |  | red | "]
    text, sentences, at = "\n".join(lines), [], 0
    for line in lines:
        sentences.append(Sentence(at, at + len(line), 1, ()))
        at += len(line) + 1
    chunk = Chunk("d", 1, "table", text, (), (1,), (), tuple(sentences), 9)
    assert row_of("| Reach | | Colour |", chunk) == Row(("", "Reach", "", "Colour", ""), is_head=True)
    assert row_of("North | 12 | | red |", chunk) == Row(("North", "12", "", "red", ""))
    assert row_of("Lamps", chunk) is row_of("South | 14", chunk) is row_of("North | 12", None) is None
    assert row_of("North | 12 | | red |", replace(chunk, kind="code")) is None


def test_empty_columns_go_and_numbers_are_known() -> None:
    rows = [Row(("", "2024", "", ""), is_head=True), Row(("Sales", "$ (1,2)", "", "new"))]
    assert as_table(rows) == ([Row(("", "2024", ""), True), Row(("Sales", "$ (1,2)", "new"))], [False, True, False])


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=4))
def test_nothing_is_read_as_markup_whatever_the_documents_say(sentences: list[str]) -> None:
    content, claims = "", []
    for number, sentence in enumerate(sentences, 1):
        start = len(content)
        content += f"{sentence} [{number}]"
        claims.append((start, len(content)))
        content += " "
    html = quoted_html(content, claims, set(range(1, len(sentences) + 1)))
    wanted = TURNING.sub("", content).replace("\u00a0", " ")
    assert "".join(read(html).split()) == "".join(wanted.split())
