"""Sentences, rows and normal forms."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refdesk.text import fold, is_cjk, items, normalise, rows, sentences
from timing import steepness

CASES = {
    "titles": ["Mr. Smith met Dr. J. Jones at 5 p.m. on Jan. 5.", "They talked."],
    "initials": ["J. R. R. Tolkien wrote The Hobbit.", "He lived in Oxford."],
    "references": ["See Fig. 3 and Table 2.", "No. 5 is missing.", "No.", "The answer is wrong."],
    "country": ["The U.S. Government acted.", "It is in the U.S.", "The company grew."],
    "firms": ["Acme Inc. Annual Report.", "It was Acme Inc.", "The firm grew."],
    "et_al": ["Smith et al. (2020) showed it.", "Others disagree."],
    "numbers": ["It cost $3.50 vs. $4.00.", "Version 1.2.3 is out.", "See section 3.2.1 for more."],
    "runs": ["Wait... what?", "Really?!", "Yes."],
    "speech": ['"Is it true?" he asked.', '"Yes!" she said.'],
    "closers": ['He said "Go."', "Then he left.", "(It rained.)", "We stayed."],
    "latin_short": ["We use e.g. apples, i.e. fruit.", "Approx. 5 kg. etc. and so on."],
    "numbering": ["1. Install it.", "2. Run it."],
    "section_number": ["3.2. Results are good.", "They hold."],
    "small_letters": ["the cat sat.", "it slept.", "nobody cared."],
    "camel": ["iPhone sales rose.", "iPhone 15 was released.", "eBay fell."],
    "note_marks": ["Revenue grew.1", "The cost fell.[12]", "Profit rose."],
    "labels": ["Table 1. What things cost.", "See Table 2.", "It is long.", "ITEM 1A. RISK FACTORS"],
    "degree": ["Ph.D. students work.", "She has a Ph.D.", "The thesis is long."],
    "exclaimed_name": ["Yahoo! is a company.", "It was sold."],
    "german": ["Das kostet z.B. 5 Euro.", "Hr. Müller kommt am 3. Mai."],
    "addresses": ["Mail a.b@c.com or see www.x.org.", "Thanks."],
    "law": ["It is 17 C.F.R. 240.10b-5.", "The court agreed."],
}


@pytest.mark.parametrize("expected", CASES.values(), ids=CASES.keys())
def test_sentences_end_where_a_reader_says(expected: list[str]) -> None:
    text = " ".join(expected)
    assert [text[start:end] for start, end in sentences(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("我喜欢你。你呢？是的！好", ["我喜欢你。", "你呢？", "是的！", "好"], id="chinese"),
        pytest.param(
            "彼は「行こう。」と言った。そして去った。", ["彼は「行こう。」と言った。", "そして去った。"], id="japanese"
        ),
        pytest.param("هل أنت هنا؟ نعم أنا هنا. شكرا.", ["هل أنت هنا؟", "نعم أنا هنا.", "شكرا."], id="arabic"),
        pytest.param("यह एक वाक्य है। यह दूसरा है।", ["यह एक वाक्य है।", "यह दूसरा है।"], id="hindi"),
        pytest.param(
            "One line\nwraps here. Next.\n \nNew part", ["One line\nwraps here.", "Next.", "New part"], id="lines"
        ),
        pytest.param(" \n\n ", [], id="blank"),
    ],
)
def test_sentences_of_other_scripts_and_lines(text: str, expected: list[str]) -> None:
    assert [text[start:end] for start, end in sentences(text)] == expected


@given(st.text(alphabet="aB1 .!?…\"')\n。？-J|é", max_size=200))
def test_sentences_tile_what_is_not_white(text: str) -> None:
    for split in (sentences, rows, items):
        previous = 0
        for start, end in split(text):
            assert previous <= start < end
            assert not text[previous:start].strip()
            assert text[start:end] == text[start:end].strip()
            previous = end
        assert not text[previous:].strip()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("A sentence of ordinary length, with some words. " * 40_000, id="prose"),
        pytest.param("." * 1_000_000 + "x", id="dots"),
        pytest.param('."' * 500_000, id="quotes"),
        pytest.param("\n " * 500_000, id="blank_lines"),
        pytest.param("- x\n" * 250_000, id="bullets"),
        pytest.param("word " * 200_000, id="one_sentence"),
    ],
)
def test_time_grows_with_the_length_only(text: str) -> None:
    def divided(characters: int) -> None:
        for split in (sentences, rows, items):
            split(text[:characters])

    assert steepness(divided, len(text) // 64) < 1.5


def test_a_list_line_without_a_marker_goes_on_with_its_item() -> None:
    text = "1. First item that\nwraps. And more.\n2. Second"
    assert [text[a:b] for a, b in items(text)] == ["1. First item that\nwraps.", "And more.", "2. Second"]
    plain = "apples\npears"
    assert [plain[a:b] for a, b in items(plain)] == ["apples", "pears"]


def test_normal_form_is_plain_and_stable() -> None:
    assert normalise("eﬃ\u00adcient\u00a0cafe\u0301\u200b\r\na\x00b") == "efficient café\nab"
    assert normalise("می\u200cخواهم") == "می\u200cخواهم"


@given(st.text())
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)
    assert fold(fold(text)) == fold(text)


def test_folding_unites_what_a_reader_would() -> None:
    assert fold("“Naïve” – ÉCOLE ﬁn ’s Straße ２０") == '"naive" - ecole fin \'s strasse 20'
    assert fold("パリ") != fold("ハリ")


def test_cjk_letters_are_told_from_marks() -> None:
    assert all(map(is_cjk, "漢かカ한ㄅ々𠀀"))
    assert not any(map(is_cjk, "aé1。「א "))
