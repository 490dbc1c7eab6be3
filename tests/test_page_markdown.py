"""An answer as HTML: Markdown, claims and markers come through; nothing that could run does."""

from __future__ import annotations

import re

import pytest

from refdesk.serve.http.page import FOLDER, html_of
from timing import cpu


def test_claims_and_markers() -> None:
    html = html_of("It weighs **350 kg**. [1] It floats. [2]", [(0, 25), (26, 40)], {1})
    assert html == (
        '<p><span class="claim" data-claim="0">It weighs </span>'
        '<strong><span class="claim" data-claim="0">350 kg</span></strong>'
        '<span class="claim" data-claim="0">.\u00a0</span>'
        '<button type="button" class="chip" data-marker="1" data-claim="0">1</button> '
        '<span class="claim" data-claim="1">It floats. [2]</span></p>\n'
    )


def test_lists_and_tables_stay_what_they_are() -> None:
    content = "- one [1]\n- two\n\n| a | b |\n|---|---|\n| c | d |\n"
    html = html_of(content, [(0, 9), (10, 15), (37, 46)], {1})
    assert html.count("<li>") == 2 and '<li><span class="claim" data-claim="0">one' in html
    assert '<li><span class="claim" data-claim="1">two</span></li>' in html
    assert '<td><span class="claim" data-claim="2">c</span></td>' in html


def test_headings_stand_below_the_question() -> None:
    assert html_of("# One\n\n##### Five") == "<h3>One</h3>\n<h6>Five</h6>\n"


def test_code_holds_no_buttons() -> None:
    assert html_of("`a[1]`\n\n```\nb[1]\n```", (), {1}) == "<p><code>a[1]</code></p>\n<pre><code>b[1]\n</code></pre>\n"


HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt:alert(1))",
    "[click](data:text/html;base64,PHNjcmlwdD4=)",
    "[click](vbscript:x)",
    "<javascript:alert(1)>",
    "![x](https://example.com/pixel.png)",
    '<a href="https://example.com" onclick="alert(1)">x</a>',
    "<iframe src=https://example.com></iframe>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "| a |\n|---|\n| <img src=x onerror=alert(1)> |",
    "[1]: javascript:alert(1)\n\n[1]",
    "[1](javascript:alert(1))",
    "`<button class=chip data-marker=1>`",
]


@pytest.mark.parametrize("content", HOSTILE)
def test_nothing_runs(content: str) -> None:
    html = html_of(content, [(0, len(content))], {1})
    for tag in ("<script", "<img", "<svg", "<iframe", "<style"):
        assert tag not in html
    assert "<a href" not in html or 'href="http' in html
    tags = [part.split(">")[0] for part in html.split("<")[1:]]
    assert not [tag for tag in tags if "onclick=" in tag or "onerror=" in tag or "style=" in tag]


def test_links_out_are_marked() -> None:
    html = html_of('[a](https://example.com/?q="b")')
    assert 'rel="noopener noreferrer nofollow"' in html and 'target="_blank"' in html


@pytest.mark.parametrize(
    "claims", [[(5, 3)], [(0, 999)], [(2, 8), (4, 12)], [(0, 0)]], ids=["backwards", "beyond", "overlapping", "empty"]
)
def test_ranges_that_cannot_be_are_left_out(claims: list[tuple[int, int]]) -> None:
    html = html_of("A sentence here.", claims)
    assert html.replace("</span>", "").replace('<span class="claim" data-claim="0">', "") == "<p>A sentence here.</p>\n"


def test_private_characters_of_a_text_do_no_harm() -> None:
    html = html_of("a\ue000\ue011\ue001b\ue001", [(0, 6)])
    assert html == '<p><span class="claim" data-claim="0">a���b�</span></p>\n'


def test_emoji_do_not_shift_the_claims() -> None:
    html = html_of("🛟 A buoy. It floats.", [(0, 9), (10, 20)])
    assert '<span class="claim" data-claim="1">It floats.</span>' in html


def test_letters_are_not_turned_about() -> None:
    assert html_of("It weighs \u202e053\u202c kg.", [(0, 19)]) == (
        '<p><span class="claim" data-claim="0">It weighs 053 kg.</span></p>\n'
    )


@pytest.mark.parametrize("content", [">" * 100_000, "- " * 50_000, "|" * 100_000], ids=["quotes", "lists", "cells"])
def test_a_text_of_nothing_but_markup_takes_no_longer_than_another(content: str) -> None:
    claims = [(place, place + 20) for place in range(0, 80_000, 20)]
    prose = "It floats on the sea. " * (len(content) // 22)
    usual = cpu(lambda: html_of(prose, claims, range(500)), 2)
    assert cpu(lambda: html_of(content, claims, range(500)), 2) < 20 * usual  # 200 when every claim went through all


SINKS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|setTimeout\(\""
)


def test_the_page_makes_html_in_one_place() -> None:
    """Names, titles, headings, metadata, corrections: all else goes in as text, whatever it holds."""
    found = [
        (path.name, line.strip())
        for path in sorted(FOLDER.glob("*.js"))
        for line in path.read_text("utf-8").splitlines()
        if SINKS.search(line)
    ]
    assert found == [("dom.js", "template.innerHTML = html;")]
