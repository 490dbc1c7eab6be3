"""What happens on both sides of every number and comparison of reading? Small inputs in every size around them.

The results are frozen in tests/golden/edges-ingest.json; what a grid of letters means stands beside its test.
"""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable

import pytest

from golden_files import check
from refdesk.errors import RefdeskError
from refdesk.ingest.enrich import enrich, entities_of, kind_of
from refdesk.ingest.parse import parse, sniff
from refdesk.ingest.pipeline import TimeLeft
from refdesk.ingest.worker import detect_language
from refdesk.parsers.build import ParseOptions
from refdesk.text import STOP_WORDS, sentences
from refdesk.types import Chunk, Sentence


def freeze(name: str, value: object) -> None:
    check("edges-ingest.json", value, name)


def words(count: int, word: str = "w") -> str:
    return " ".join(f"{word}{number}" for number in range(count))


# --- what is a chunk about? ------------------------------------------------------------------------------------------


def piece(text: str, heading: str = "", kind: str = "text", path: tuple[str, ...] = ()) -> Chunk:
    path = path or ((heading,) if heading else ())
    ranges = [(0, len(text))] if not text else []
    position = 0
    for part in text.split("\n"):
        ranges += [(position + a, position + b) for a, b in sentences(part)]
        position += len(part) + 1
    found = tuple(Sentence(start, end, 1, ()) for start, end in ranges)
    return Chunk("d", 1, kind, text, path, (1,), (), found, len(text) // 4)  # type: ignore[arg-type]


LINES = {
    "leaders": "Introduction ....... {n}",
    "page": "Part one of it {n}",
    "entry": "Bond: a loan that is sold",
    "cell": "EBIT | earnings",
    "credit": "Photo by Ann Lee",
    "short": "Some words here",
    "long": "w" * 121,
    "stopped": "It is so.",
}


LETTERS = {"text": "t", "toc": "o", "glossary": "g", "credits": "c", "list": "l", "table": "b"}


def grid(first: str, second: str, heading: str = "", kind: str = "text", most: int = 7) -> list[str]:
    """A row for each number of the first lines, a letter for each number of the second."""
    found = []
    for a in range(most):
        row = ""
        for b in range(most):
            texts = [LINES[first].format(n=n + 1) for n in range(a)] + [
                LINES[second].format(n=n + 50) for n in range(b)
            ]
            row += LETTERS[kind_of(piece("\n".join(texts), heading, kind))]
        found.append(row)
    return found


@pytest.mark.parametrize(
    ("first", "second", "heading", "kind"),
    [
        ("leaders", "stopped", "", "text"),
        ("leaders", "stopped", "", "table"),
        ("page", "stopped", "", "text"),
        ("page", "page", "", "text"),
        ("page", "short", "", "table"),
        ("entry", "stopped", "", "text"),
        ("entry", "stopped", "Glossary", "text"),
        ("cell", "stopped", "3.1 Glossary:", "text"),
        ("credit", "stopped", "", "text"),
        ("short", "stopped", "Contents", "text"),
        ("short", "long", "Contents", "list"),
        ("stopped", "long", "Imprint", "text"),
    ],
)
def test_kinds_by_how_many_lines_show_it(first: str, second: str, heading: str, kind: str) -> None:
    """Of lines of one shape and lines of another: t for text, o for contents, g for glossary, c for credits."""
    texts = [kind_of(piece("\n".join([LINES[first].format(n=1)] * 5), heading, kind))]
    freeze(f"kinds {first} {second} {heading} {kind}", texts + grid(first, second, heading, kind, most=11))


def test_lines_are_looked_at_up_to_a_length() -> None:
    far = ["Bond: a loan that is sold", "x" * 119, "x" * 120, "x" * 121]
    found = []
    for size in (190, 199, 200, 201, 395, 405, 406, 407, 408, 409, 410, 700):
        page = "\n".join("P " + "w" * (size - 4) + f" {n}" for n in range(1, 7))
        credit = "\n".join(["w" * (size - 9) + " © 2024."] * 3)
        found.append([kind_of(piece(page)), kind_of(piece(credit))])
    found += [
        [kind_of(piece("\n".join([text] * 5), "Contents")), kind_of(piece("\n".join([text] * 4)))] for text in far
    ]
    pages = [(1, 2, 3, 4, 5), (1, 1, 1, 1, 1), (1, 1, 1, 1, 2), (1, 2, 2, 2, 2), (2, 1, 3, 4, 5), (1, 2, 3, 4)]
    found += [[kind_of(piece("\n".join(f"Part {n}" for n in one)))] for one in pages]
    leaders = ["A .... 3", "A ... 3", "A . . . 3", "A …… 3", "A ____", "A ....", "w" * 55 + " .... 12", "w .... 12345"]
    found += [[kind_of(piece("\n".join([one] * 3)))] for one in leaders]
    freeze("lines looked at", found)


NAMED = [
    "Lyrica and Viagra and more.", "He met Securities and Exchange people.", "We asked Ann and Bob today.",
    "The Three Months Ended was here.", "It is Three Months Ended here.",
    "See NASA, XIV, ABCDEFG, ABCDEF, A and U.S. in it.",
    "He met AB here. He met Ab here. He met Abc here.", "Rain Acme Corp came.", "Three Beta Gamma came. Ann is.",
    "He is The of Acme Corp & here.", "ANNUAL REPORT of it. It is ANNUAL REPORT.",
    "In Acme Corp’s hall and Acme’s hall.", "Paid $3 million, 5%, 2021-03-04, Q2 2023, FY 21, 1499, 1500, 2099, 2100.",
    "This Form 10-Q and Item 1A(b) and ISO 9001 and AB-12 and RFC 2119.", "a@b.org and www.a.org, and http://x.org/y.",
    "A | Bond Street | ACME | C", "The Acme Corp bought Beta Inc. The Acme Corp sold Beta Inc. Gamma Ltd slept.",
    "He knows Rain Or Shine well. Rain fell. rain rain", "“Acme is here.” (Beta is not.)", "Of The And. of X",
    "He of A B C D E F G H I went.", "He met R&D and AT&T and O'Neil’s.", "one Two three Four", "3M and 4K came.",
]  # fmt: skip


def test_entities() -> None:
    def is_common(word: str) -> bool:
        return word.lower() in STOP_WORDS | {"rain", "three", "months", "ended", "annual", "report", "see", "he", "it"}

    freeze("entities", {text: entities_of(text, sentences(text), is_common) for text in NAMED})


def test_a_word_that_is_mostly_written_small_is_no_name() -> None:
    found = []
    for small in range(4):
        for large in range(1, 10):
            text = " ".join(["He saw Harbour there."] * large + ["He saw harbour there."] * small)
            found.append("Harbour" in enrich([piece(text)], language="en")[0].entities)
    freeze("written small", ["".join("ny"[one] for one in found)])


def test_twenty_entities_are_kept() -> None:
    names = [f"{chr(65 + n)}lpha{chr(97 + n)} Corp" for n in range(24)]
    text = f"It met {', '.join(names)}."
    assert len(entities_of(text, sentences(text), lambda word: False)) == 20


def about(chunks: list[Chunk], language: str = "en") -> list[object]:
    return [[one.kind, one.summary, one.keywords, one.entities] for one in enrich(chunks, language=language)]


SUBJECTS = ("hydrogen storage", "battery recycling", "wind turbines", "tidal power", "solar glass", "heat pumps")


def test_summaries_and_keywords() -> None:
    """The same document in many lengths: sentences just shorter and longer than what a summary has room for."""
    found = []
    for extra in range(0, 30, 2):
        chunks = [
            piece(
                f"The company studied {subject} for {words(extra, 'year')}. Costs of {subject} fell{' again' * (extra // 2)}. "  # noqa: E501
                f"It was late. The plant for {subject} in Leeds grew by {extra} hectares{' or more' * (extra // 3)}. Some rain.",  # noqa: E501
                subject.title(),
            )
            for subject in SUBJECTS[: 1 + extra % 6]
        ]
        found.append(about(chunks))
    freeze("summaries", found)


@pytest.mark.parametrize(
    "size", [17, 18, 19, 20, 21, 87, 88, 89, 90, 91, 92, 108, 109, 110, 111, 198, 199, 200, 201, 202]
)
def test_a_summary_has_room_for_two_hundred_characters(size: int) -> None:
    first = f"Hydrogen tanks {'o' * (size - 16)}."
    second = f"Turbine blades {'u' * max(1, size - 16)}."
    short = f"Battery cells {'i' * max(1, 200 - size - 17)}."
    pairs = [(first, "Small rain."), (second, first), (first, short), (short, first), ("Steam.", first, short)]
    freeze(f"summary of {size}", [about([piece("\n".join(one))])[0] for one in pairs])


def test_the_best_sentence_for_its_length() -> None:
    """Sentences of one to twelve words, some of them met again: which one sums up the chunk?"""
    rng = random.Random(5)
    found = []
    for _ in range(60):
        stock = [f"{chr(97 + n) * 2}{chr(122 - n) * 2}topic" for n in range(14)]
        texts = [" ".join(rng.choice(stock) for _ in range(rng.randint(1, 12))) + "." for _ in range(rng.randint(2, 6))]
        chunks = [piece("\n".join(texts)), piece("\n".join(texts[: rng.randint(1, len(texts))]))]
        found.append([sum(1 for _ in one.summary.split()) for one in enrich(chunks, language="en")])
        found.append([one.summary[:4] for one in enrich(chunks, language="en")])
    freeze("best sentences", found)


def test_words_of_a_document_are_rare_or_not() -> None:
    """A word that stands in one to eight of eight chunks."""
    topics = [f"{chr(97 + n) * 3}word" for n in range(8)]
    chunks = [
        piece(
            f"{' '.join(topic for place, topic in enumerate(topics) if place >= number)} and the common thing. {topics[number].title()} {topics[number]} again."  # noqa: E501
        )
        for number in range(8)
    ]
    for language in ("en", "", "de"):
        freeze(f"rare words {language}", about(chunks, language))


@pytest.mark.parametrize("count", [3, 4, 5, 6, 10])
def test_words_of_another_language_that_stand_everywhere(count: int) -> None:
    found = []
    for holding in range(count + 1):
        chunks = [
            piece(
                f"{'Hafen' if number < holding else 'Kran'} liegt dort am {chr(97 + number) * 4}platz ab zz Ort tor. 公司 公司收入. Der Ort {'Tor' * (number % 2)}."  # noqa: E501
            )
            for number in range(count)
        ]
        found.append([one.keywords for one in enrich(chunks, language="de")])
    freeze(f"everywhere {count}", found)


def test_keywords_of_pairs_and_short_words() -> None:
    found = []
    for times in range(1, 6):
        text = " ".join(
            f"Tidal power {chr(97 + n) * 3}run ab abc 9th 公司收入 司入 公司收 x {chr(97 + n)}y." for n in range(times)
        )
        found.append(about([piece(text), piece("Tidal lamps. Power cords. rain RAIN Rain")]))
        many = " ".join(f"{chr(97 + n) * 4}item" for n in range(times + 5))
        found.append(about([piece(f"{many}.")]))
    freeze("pairs", found)


def test_sentences_repeated_from_the_chunk_before_are_not_its_summary() -> None:
    texts = [f"Sentence {word} tells of the {word} harbour." for word in ("red", "green", "blue", "white", "black")]
    found = []
    for repeated in range(1, 5):
        chunks = [piece("\n".join(texts)), piece("\n".join([*texts[-repeated:], "Nothing else is new here today."]))]
        found.append(about(chunks)[1])
    freeze("repeated sentences", found)


def test_tables_sum_up_their_rows() -> None:
    texts = [
        "a | b",
        "a | b\n1 | 2",
        "Table 2 Costs.\na | b\n1 | 2\n3 | 4",
        "Costs\nnothing",
        "One two",
        "T\nU\na | b\nv\nw",
    ]
    texts += [f"{'h' * size} | b\n1 | 2" for size in (183, 184, 185, 186, 187, 188)]
    freeze("table summaries", [about([piece(text, kind="table")])[0] for text in texts])
    freeze("code summaries", [about([piece(text, kind="code")])[0] for text in ("", "x = 1\ny = 2", "z" * 201)])


# --- which format is it? ---------------------------------------------------------------------------------------------


def told(data: bytes, name: str = "") -> str:
    try:
        return sniff(data, name)
    except RefdeskError as error:
        return str(error)


HTML = b"<p>a</p>"
MAIL = b"From: a@b.org\nSubject: hello\n\nText"
BYTES: dict[str, Callable[[int], bytes]] = {
    "nothing": lambda n: b"",
    "pdf after rubbish": lambda n: b"x" * (1000 + 3 * n) + b"%PDF-1.4 endobj",
    "bitmap": lambda n: b"BM" + b"\x01\x02\x03\x04" + b"\x00" * (4 + n) + b"\x01" * 2,
    "program": lambda n: b"MZ" + b"\x01" * (54 + n) + b"\x00" + b"\x02" * 400,
    "letters of a signature": lambda n: b"BZh" + b"a" * (4084 + n) + b"\x00" + b"text " * 300,
    "controls in text": lambda n: b"\x01" * n + b"a" * (400 - n),
    "controls in longer wide text": lambda n: ("\ufeff" + "\x01" * n + "a" * (400 - n)).encode("utf-16-le"),
    "controls in odd wide text": lambda n: ("\ufeff" + "\x01" * n + "a" * (397 - n)).encode("utf-16-le") + b"a",
    "rich text": lambda n: b" " * n + b"{\\rtf1 text}",
    "one line of a mailbox": lambda n: b"From here on" + b"\nFrom: a" * (n % 3) + b"\nTo: b" * (n % 2),
    "long headers of mail": lambda n: b"".join(b"X-%d: %s\n" % (k, b"a" * 1900) for k in range(n)) + MAIL,
    "tags": lambda n: b"<p>" + b"<br>" * n,
    "tags in text": lambda n: b"a" + b"<br>" * n,
    "tables with an odd line": lambda n: b"a,b,c\n" * (190 + n) + b"a,b\na,b,c\n",
    "controls in wide text": lambda n: ("\ufeff" + "\x01" * n + "a" * (399 - n)).encode("utf-16-le"),
    "mail with headers": lambda n: b"\n".join([b"X-%d: a" % k for k in range(n)] + [b"From: a", b"To: b", b"", b"c"]),
    "mail of many headers": lambda n: b"\n".join([b"X-%d: a" % k for k in range(50 + n)] + [b"From: a", b"To: b"]),
    "mailbox": lambda n: b"From a\n" + b"".join(MAIL.split(b"\n")[0] + b"\n" for _ in range(n)) + b"To: c\n\nText",
    "paragraphs": lambda n: HTML * n,
    "paragraphs after a comment": lambda n: b"<!-- a -->" * n + HTML * 3,
    "html far below": lambda n: b"<!-- a -->" + b"<x>" + b" " * (4070 + 2 * n) + b"<html > a",
    "tables by tabs": lambda n: b"\n".join([b"a\tb"] * n),
    "tables by commas": lambda n: b"\n".join([b"a,b,c"] * n),
    "cells by commas": lambda n: b"\n".join([b",".join([b"a"] * n)] * 4),
    "cells by tabs": lambda n: b"\n".join([b"\t".join([b"a"] * n)] * 4),
    "wide first line": lambda n: b"a,b,c" + b"d" * (4985 + n) + b"\na,b,c\na,b,c",
    "signs of markdown": lambda n: b"# A\n" + b"- [a](b)\n" * n + b"text",
    "headings of markdown": lambda n: b"# A\n" * n + b"see [it](http://a.org)",
    "long table, last line cut": lambda n: (b"a,b," + b"c" * 100 + b"\n") * (146 + n) + b"a,b",
    "two lines and a rest": lambda n: b"a,b,c\n" * n + b"a" * 16384,
    "tags far below": lambda n: b"<div>" + b" " * (19970 + 2 * n) + HTML,
}  # fmt: skip


@pytest.mark.parametrize("name", BYTES)
def test_formats_by_how_much_shows_them(name: str) -> None:
    """Each with 0 to 23 of what tells the format; also under names that say something."""
    found = [told(BYTES[name](number)) for number in range(24)]
    runs = [[kind, sum(1 for _ in group)] for kind, group in _runs(found)]
    named = {
        ending: told(BYTES[name](3), f"a{ending}")
        for ending in (".html", ".csv", ".md", ".txt", ".yaml", ".eml", ".tab")
    }
    freeze(f"format {name}", {"runs": runs, "named": named})


def test_what_kind_of_archive_it_is_stands_in_a_short_part() -> None:
    found = []
    for size in (20, 199, 200, 201):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("mimetype", "application/epub+zip".ljust(size))
        found.append(told(file.getvalue()))
    assert found == ["epub", "epub", "zip", "zip"]


def _runs(found: list[str]) -> list[tuple[str, list[str]]]:
    runs: list[tuple[str, list[str]]] = []
    for one in found:
        if runs and runs[-1][0] == one:
            runs[-1][1].append(one)
        else:
            runs.append((one, [one]))
    return runs


def test_how_long_a_text_may_be() -> None:
    for size, limit, is_read in ((9, 10, True), (10, 10, True), (11, 10, False)):
        options = ParseOptions(max_characters=limit)
        if is_read:
            assert parse(b"a" * size, "a.txt", options).text == "a" * size
        else:
            with pytest.raises(RefdeskError):
                parse(b"a" * size, "a.txt", options)
    for pages, is_read in ((2, True), (3, False)):
        text = "\f".join(["Some text."] * pages).encode()
        options = ParseOptions(max_pages=2)
        if is_read:
            assert len(parse(text, "a.txt", options).pages) == pages
        else:
            with pytest.raises(RefdeskError):
                parse(text, "a.txt", options)


def test_what_is_no_text_is_taken_out_and_everything_moves() -> None:
    parsed = parse(
        b"# A\x01b\n\ncd\x02e \x03fg\n\n| a\x04 | b |\n|---|---|\n| 1 | \x05\x062 |\n",
        "a.md",
        ParseOptions(),
        "markdown",
    )
    blocks = [(one.kind, parsed.text[one.start : one.end], one.header) for one in parsed.blocks]
    cells = [one.cells.tolist() for one in parsed.blocks if one.cells is not None]
    freeze("taken out", [parsed.text, blocks, cells, [(one.start, one.end) for one in parsed.pages]])


# --- how long does it take, and in which language is it? -------------------------------------------------------------


def test_time_left() -> None:
    """Files of three kinds, one after the other, at a pace that changes; told every second."""
    clock = TimeLeft(100.0)
    for number in range(30):
        clock.coming((".pdf", ".txt", ".md")[number % 3], 1000 + 100 * number)
    told: list[float | None] = []
    done = 0
    for second in range(60):
        if second % 4 == 0 and second < 48:
            number = second // 4
            clock.parsed((".pdf", ".txt")[number % 2], 1000 + 100 * number, 10 + number)
        if second in (20, 21):
            clock.dropped(".md", 1200)
        done += 0 if second < 3 else 2 if second < 30 else 5
        left = clock.seconds(100.0 + second * (1.0 if second < 50 else 1.3), min(done, 180))
        told.append(None if left is None else round(left, 2))
    freeze("time left", told)


@pytest.mark.parametrize("size", [3, 4, 5, 30, 100])
def test_time_left_after_a_pause(size: int) -> None:
    clock = TimeLeft(0.0)
    clock.coming(".pdf", 0)
    clock.coming(".pdf", size)
    clock.coming(".md", size)
    found = [clock.seconds(1.0, 0), clock.seconds(4.99, 0)]
    clock.parsed(".pdf", 0, 5)
    found += [clock.seconds(5.0, 1), clock.seconds(5.5, 1)]
    clock.parsed(".pdf", size, 50)
    found += [clock.seconds(6.0 + size, 20), clock.seconds(6.0 + 2 * size, 20), clock.seconds(7.0 + 2 * size, 55)]
    freeze(f"time left after {size}", [None if one is None else round(one, 3) for one in found])


GERMAN = "Der Hafenmeister hat die Gebühren für das nächste Jahr bereits festgelegt und allen Schiffern mitgeteilt. "
DUTCH = "De havenmeester heeft de tarieven voor het volgende jaar al vastgesteld en aan alle schippers meegedeeld. "
ENGLISH = "The harbour master has set the fees that are due from the boats which were there when the year began. "


def test_languages() -> None:
    found = [detect_language(GERMAN[:size]) for size in (90, 110, 114, 115, 116, 117, 118, 119, 120, 130)]
    found += [
        detect_language(text)
        for text in (GERMAN * 3, DUTCH * 3, ENGLISH * 3, "公司收入增长利润下降", "公司" + "a" * 50)
    ]
    # English at one of the three places that are looked at, German elsewhere.
    for place in (0, 3900, 4100, 8000, 11900, 12000, 16000):
        text = GERMAN * 200
        found.append(detect_language(text[:place] + ENGLISH * 30 + text[place:]))
    shares = [detect_language(GERMAN * 6 + "the and " * number) for number in range(0, 12)]
    freeze("languages", [*found, *shares])


def test_words_are_counted_in_their_script() -> None:
    latin = [
        detect_language("ab" * latin + " " + "公司" * other) for latin in (40, 49, 50, 51) for other in (20, 49, 50, 51)
    ]
    freeze("scripts", latin)
