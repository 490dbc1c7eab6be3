"""Sentences of documents become HTML to the letter."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refdesk.serve.http.page import TURNING, quoted_html

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
