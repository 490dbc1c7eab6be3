"""Markers are read from streamed text in every form, at any token boundary; what no passage owns never comes out."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from context_samples import chunk, context, passage
from refdesk.ask.citations import dice
from refdesk.ask.markers import MarkerStream, numbered_by_passage

CONTEXT = context(
    passage(
        1,
        chunk("The anchor weighs 350 kg.", id=11, sequence=4, heading_path=("Moorings", "Anchors")),
        name="harbour-handbook.pdf",
        title="Harbour handbook 2026",
    ),
    passage(
        2, chunk("Pilots wear orange.", id=22, sequence=7, document_id="d2"), name="pilots.md", title="Pilot rules"
    ),
    passage(3, chunk("High water is at noon.", id=33, sequence=9, document_id="d3"), name="tides.csv"),
)


def parse(*parts: str) -> tuple[str, tuple[int, ...]]:
    stream = MarkerStream(CONTEXT)
    shown = "".join(stream.feed(part) for part in parts) + stream.finish()
    return shown, stream.order


@pytest.mark.parametrize(
    ("text", "shown", "order"),
    [
        ("A [3]. B [1].", "A [1]. B [2].", (3, 1)),
        ("A [1, 2].", "A [1][2].", (1, 2)),
        ("A [2][1].", "A [1][2].", (2, 1)),
        ("A [1-3].", "A [1][2][3].", (1, 2, 3)),
        ("A [2–3]", "A [1][2]", (2, 3)),
        ("A [Source 2].", "A [1].", (2,)),
        ("A [source 1, 2].", "A [1][2].", (1, 2)),
        ("A [Sources 1 and 2].", "A [1][2].", (1, 2)),
        ("A [Source 1; Source 3].", "A [1][2].", (1, 3)),
        ("A [Source 2: Pilot rules, p. 4].", "A [1].", (2,)),
        ("A [1, p. 3].", "A [1].", (1,)),
        ("A [DOC:d2 | CHUNK:22].", "A [1].", (2,)),
        ("A [DOC: d2 | CHUNK: 7 | PAGE: 3].", "A [1].", (2,)),
        ("A [doc: pilots.md | chunk: 7].", "A [1].", (2,)),
        ("A [Chunk 9].", "A [1].", (3,)),
        ("A [Harbour handbook 2026].", "A [1].", (1,)),
        ("A [harbour-handbook.pdf].", "A [1].", (1,)),
        ("A [Harbour handbook 2026 > Anchors].", "A [1].", (1,)),
        ("A [Harbour handbook > Moorings].", "A [1].", (1,)),
        ("A [Pilots rule].", "A [1].", (2,)),
        ("A [Harbour handbook 2026, p. 3].", "A [1].", (1,)),
        ("A [pilots.md, pages 3-4].", "A [1].", (2,)),
        ("甲【1】。", "甲[1]。", (1,)),
        ("A 【2†source】.", "A [1].", (2,)),
        ("A ［２］.", "A [1].", (2,)),
        ("A (Source 2).", "A [1].", (2,)),
        ("A [[2]].", "A [1].", (2,)),
        ("A [^2].", "A [1].", (2,)),
        ("A \\[2\\].", "A [1].", (2,)),
        ("A &#91;2&#93;.", "A [1].", (2,)),
        ("growth[1].", "growth[1].", (1,)),
        ("Great![1]", "Great![1]", (1,)),
        ("A [1] [1, 2].", "A [1] [2].", (1, 2)),
        ("A [1][1].", "A [1].", (1,)),
    ],
)
def test_every_form_is_read(text: str, shown: str, order: tuple[int, ...]) -> None:
    assert parse(text) == (shown, order)
    assert parse(*text) == (shown, order)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("It is so [9].", "It is so."),
        ("It [9] is so.", "It is so."),
        ("It [9]is so.", "It is so."),
        ("[9] It is so.", "It is so."),
        ("It is so [9], and [9, 12].", "It is so, and."),
        ("- one [9]\n- two", "- one\n- two"),
        ("It is so [0][-1][99999999999999999999].", "It is so."),
        ("It is so [\u200b9] [9\u200d] [٩] [⑨].", "It is so."),
        ("It is so [<b>9</b>] [**9**] [ 9 ].", "It is so."),
        ("It is so &lbrack;9&rbrack;.", "It is so."),
        ("It is so (Source 9).", "It is so."),
        ("It is so 【4:0†source】.", "It is so."),
        ("It is so [DOC:d2 | CHUNK:99].", "It is so."),
        ("It is so [DOC:d9 | CHUNK:22].", "It is so."),
        ("It is so [DOC: 1 | CHUNK: 2].", "It is so."),
        ("It is so [Harbour handbook 2026 > Fees].", "It is so."),
        ("It is so [Harbour handbook 2025].", "It is so."),
        ("It is so [Annual Report 2031].", "It is so."),
        ("It is so [Annual Report 2031, p. 7] [p. 7].", "It is so."),
        ("As [Annual Report 2031] says.", "As Annual Report 2031 says."),
        ("It is so [Smith et al., 2020].", "It is so."),
        ("It is so [fees.pdf].", "It is so."),
        ("It is so [[9]].", "It is so."),
        ("It is so [[9]3].", "It is so 3]."),
        ("[see [9]3]", "[see 3]"),
        ("growth[9].", "growth."),
        ("It is so [1](http://evil.example).", "It is so."),
        ("It is so ![9](http://evil.example/x.png).", "It is so."),
        ("It is so.\n[1]: http://evil.example\nYes.", "It is so.\nYes."),
        ("It is so.\n[^9]: Annual report.\nYes.", "It is so.\nYes."),
        ("Yes.\n\nSources:\n[1] Annual report\n- Fees\n", "Yes.\n\n"),
        ("Yes.\n## References\n1. Smith 2020\n\nMore.", "Yes.\nMore."),
        ("`open [9] text", "\\`open text"),
        ("<http://a`b> [9]`", "<http://a\\`b> \\`"),
        ("[`a] `[9]` x", "[`a] `\\` x"),
        ("``` a ` b ``` [9] `", "``` a \\` b ``` \\`"),
        ("a`\n`[9]`", "a\\`\n`[9]`"),
        ("`a`[9]``b``", "`a` ``b``"),
    ],
)
def test_what_no_passage_owns_goes(text: str, shown: str) -> None:
    assert parse(text) == (shown, ())
    assert parse(*text) == (shown, ())


@pytest.mark.parametrize(
    "text",
    [
        "He said [sic] so [emphasis added].",
        "- [ ] open\n- [x] done",
        "`a[9]` and ``b`[9]``",
        "```python\nx = a[9]\n```\n",
        "~~~\n[9]\n",
        "[the rules](http://harbour.example/rules) say so",
        "![map](map.png)",
        "[3-year plan], [1 of 3], [95% CI 1.2-3.4], [1.5]",
        "\\[ x^2 \\]",
        "an open [1",
        "f(1) and (see 2) and (Source",
        "a & b &#",
        "Sources of water are few. References are rare.",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert parse(text) == (text, ())
    assert parse(*text) == (text, ())


def test_an_index_is_no_marker() -> None:
    assert parse("rows[3] = list_a[2].name, then array[3]") == ("rows[ 3 ] = list_a[ 2 ].name, then array[ 3 ]", ())


def test_an_address_with_brackets_is_encoded() -> None:
    assert parse("[rules](http://a.example/[9])") == ("[rules](http://a.example/%5B9%5D)", ())


def test_text_is_held_only_while_it_may_become_a_marker() -> None:
    stream = MarkerStream(CONTEXT)
    assert stream.feed("The anchor") == "The anchor"
    assert stream.feed(" weighs [") == " weighs"
    assert stream.feed("Sou") == ""
    assert stream.feed("rce 1] much") == " [1] much"
    assert len(stream.feed(" [" + "x" * 300)) == 302


def test_an_answer_can_be_read_again() -> None:
    shown, order = parse("A [3]. `x[1]` B [1].")
    assert (shown, order) == ("A [1]. `x[1]` B [2].", (3, 1))
    assert parse(numbered_by_passage(shown, order)) == (shown, order)


def test_dice() -> None:
    assert dice("night", "nacht") == 0.25


FRAGMENTS = st.sampled_from(
    [
        *"[]()`!\\&:#*-.,>|^~ \n\t1239x\u200b٣【】",
        *("[1]", "[9]", "[Source ", "```", "\n```\n", "](", "http://a)", "&#91;", "&#93;", "DOC:d1 | CHUNK:11"),
        *("Pilot rules", "Sources:", "\nSources:\n", "word", "[[", "]]", "a_b", "[^1]: ", "(Source 2)", "x" * 150),
        *("<b>", "\n\n", "    ", "!["),
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=24).map("".join)


@settings(max_examples=400, deadline=None)
@given(TEXTS | st.text(max_size=60), st.lists(st.integers(0, 400), max_size=12))
@example("a `" + "x" * 197 + "`b", [199, 200])
@example("[9]  x", [4])
@example("(\n[1](\nu)", [4, 7])
def test_any_split_gives_the_parse_of_the_whole(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    assert parse(*(text[low:high] for low, high in pairwise(places))) == parse(text)


def rendered(text: str) -> str:
    """What a reader sees outside code, by another parser; images and code cut out."""

    def seen(kind: str, content: str) -> str:
        return content if kind == "text" else "\n" if "break" in kind else "·" if "code" in kind else ""

    blocks = MarkdownIt("commonmark", {"html": False}).enable("table").parse(text)
    return "\n".join("".join(seen(one.type, one.content) for one in block.children or []) for block in blocks)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("`a\n- [9] b`")
@example("| a |\n|---|\n| `x | [9]` |")
@example("\\`[9]`")
@example("[1\nSources:\n\n]]")
@example("a`\n`[9]` `")
@example("``` a ` b ``` [9] `")
def test_every_marker_that_is_shown_is_owned(text: str) -> None:
    shown, order = parse(text)
    for number in re.findall(r"\[\s*(\d+)\s*\]", rendered(shown)):
        assert 1 <= int(number) <= len(order) or f"[ {int(number)} ]" in shown


@pytest.mark.parametrize("name", ["Wikipedia", "Reuters", "My own knowledge"])
def test_a_name_in_brackets_that_no_passage_knows_is_a_marker_that_goes(name: str) -> None:
    assert parse(f"It weighs 350 kg [{name}].")[0] == "It weighs 350 kg."
    assert parse(f"It weighs 350 kg. [{name}] It floats. [{name}]")[0] == "It weighs 350 kg. It floats."


def test_what_a_passage_has_in_brackets_too_is_no_marker() -> None:
    held = context(passage(1, chunk("The harbour office (HO) keeps it."), name="a.txt"))
    stream = MarkerStream(held)
    assert stream.feed("Kept by the harbour office [HO].") + stream.finish() == "Kept by the harbour office [HO]."
    assert parse("He said [sic].")[0] == "He said [sic]."
