"""What happens on both sides of every number and comparison of cutting? Small documents in every size around them.

The results are frozen in tests/golden/edges-ingest.json.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from golden_files import check
from parsed_strategies import count_tokens, with_geometry
from refdesk.ingest.chunk import ChunkLimits, chunk, on_pages
from refdesk.ingest.split import best_breaks, context_line, cut_long, middle, shorten, weight
from refdesk.parsers.build import Builder
from refdesk.types import Chunk, Page, Parsed

SMALL = ChunkLimits(target=40, minimum=12, maximum=64, overlap=1)


def freeze(name: str, value: object) -> None:
    check("edges-ingest.json", value, name)


def words(count: int, word: str = "w") -> str:
    return " ".join(f"{word}{number}" for number in range(count))


def line(tokens: int) -> str:
    """A sentence of so many tokens, its full stop counted."""
    return f"S{' w' * (tokens - 2)}."


# --- where is a run of pieces cut? -----------------------------------------------------------------------------------


@pytest.mark.parametrize("can_drop", [True, False])
def test_best_breaks(can_drop: bool) -> None:
    """Sizes so small that every chunk is just too large, too small or right."""
    rng = random.Random(7)
    found = []
    for _ in range(250):
        count = rng.randint(1, 9)
        weights = [rng.randint(1, 9) for _ in range(count)]
        costs = [rng.choice((0.0, 0.03, 0.1, 0.5, 2.0)) for _ in range(count)]
        repeated = [0, *(rng.randint(0, 4) for _ in range(count - 1))]
        room = rng.randint(4, 14)
        found.append(
            best_breaks(weights, costs, repeated, target=8, minimum=rng.randint(2, 6), room=room, can_drop=can_drop)
        )
    freeze(f"best_breaks can_drop={can_drop}", found)


def test_best_breaks_weighs_a_small_chunk_against_a_cut() -> None:
    """One crumb at the end: whether it stays alone hangs on what the cut before it costs."""
    found = []
    for crumb in range(1, 9):
        for cost in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0):
            args = ([6, 6, crumb], [0.0, cost, 0.0], [0, 0, 0])
            found.append(len(best_breaks(*args, target=10, minimum=4, room=40, can_drop=True)))
    freeze("best_breaks crumbs", found)


def test_long_sentences_are_cut_where_it_hurts_least() -> None:
    texts = [
        words(12),
        "aa, bb cc dd ee ff gg",
        "aa bb cc, dd ee ff gg",
        "aa bb cc dd, ee ff gg",
        "a" * 100,
        "a" * 33 + " b",
        "公司收入增长利润下降报告年度费用",
        "x" * 31 + "é" + "́" * 2 + "y" * 40,
        "one two 公司收入 three",
        "ab公cd公ef公gh",
        "a" * 32 + "\u0301\u0301\u0301bc" + "d" * 40,
        "ab \u0301cd ef",
        "ab " * 3 + "c" * 60 + " d e f",
    ]
    found = {text: [cut_long([text], [size], count_tokens)[0] for size in range(1, 9)] for text in texts}
    freeze("cut_long", found)


def test_a_word_weighs_as_its_letters_when_the_tokeniser_gives_up() -> None:
    assert [weight(1, characters) for characters in (1, 8, 9, 16, 17)] == [1, 1, 2, 2, 3]
    assert weight(0, 0) == 1 and weight(3, 9) == 3


def test_middle() -> None:
    texts = [
        "ab",
        "a\u0301",
        "abc",
        "ab cdefgh",
        "abcdef gh",
        "a bcdefgh",
        "abc def gh",
        "a\u0301bcd",
        "xa\u0301b",
        "aa\u0301\u0301b",
    ]
    texts += [f"{'a' * before} {'b' * after}" for before in range(1, 8) for after in range(1, 8)]
    freeze("middle", {text: middle(text) for text in texts})


def test_shorten() -> None:
    text = "aaa bbb, ccc ddd"
    freeze("shorten", [shorten(text, length) for length in range(1, 18)])


def test_context_line() -> None:
    """Title of one to nine tokens, headings of as many, in a line that has room for ten."""
    found = []
    for title in range(10):
        for sizes in ((1,), (4,), (5,), (9,), (2, 2), (3, 4), (4, 4), (9, 1), (1, 9), (3, 3, 3)):
            path = tuple(words(size, f"h{place}") for place, size in enumerate(sizes))
            name = words(title, "t")
            tokens = {name: title} | dict(zip(path, sizes, strict=True))
            found.append(context_line(name, path, tokens, 10))
    assert context_line("A  b", ("a B", "C"), {}, 10) == "A b › C"
    assert context_line("A b", ("C",), {}, 10) == "A b › C" and context_line("", (), {}, 10) == ""
    found += [
        context_line("Aaa bbb ccc", ("Ddd eee",), tokens, limit)
        for limit in range(1, 7)
        for tokens in ({}, {"Ddd eee": 2})
    ]
    found += [context_line("Aaa bbb ccc", (), {"Aaa bbb ccc": 3}, limit) for limit in range(1, 7)]
    freeze("context_line", found)


# --- what becomes a chunk? -------------------------------------------------------------------------------------------


def cut(parsed: Parsed, limits: ChunkLimits = SMALL, title: str = "Report") -> list[Chunk]:
    return chunk(parsed, document_id="d", title=title, limits=limits, count_tokens=count_tokens)


def outline(chunks: Iterable[Chunk]) -> list[str]:
    """Kind, tokens, sentences, pages, path and both ends of each chunk."""
    return [
        f"{one.kind} {one.token_count} {len(one.sentences)} {one.pages} {'/'.join(one.heading_path)[:30]}: "
        f"{one.text[:12]}…{one.text[-12:]} {[(span.start, span.end, span.origin) for span in one.spans][-2:]}"
        for one in chunks
    ]


def built(*blocks: tuple[str, str] | tuple[str, str, int]) -> Parsed:
    builder = Builder()
    for kind, text, *level in blocks:
        if kind == "heading":
            builder.heading(text, level=level[0] if level else 1)
        elif kind == "table":
            builder.table([row.split(" | ") for row in text.split("\n")])
        else:
            builder.block(kind, text)  # type: ignore[arg-type]
    return builder.build("test")


TABLE = "item | price\npaper | 3\nink | 4"


@pytest.mark.parametrize("tokens", [29, 30, 31, 59, 60, 61])
@pytest.mark.parametrize("beside", ["plain", "caption", "colon", "note", "list"])
def test_what_stands_beside_a_table(tokens: int, beside: str) -> None:
    """Thirty tokens are a remark, sixty a caption; more is a chunk of its own."""
    text = {
        "plain": line(tokens),
        "caption": f"Table 1{' w' * (tokens - 3)}.",
        "colon": f"S{' w' * (tokens - 2)}:",
        "note": f"Source:{' w' * (tokens - 3)}.",
        "list": f"(a) R{' w' * (tokens - 5)}.",
    }[beside]
    kind = "list" if beside == "list" else "text"
    wide = ChunkLimits(target=200, minimum=12, maximum=256)
    before = cut(built(("text", line(90)), (kind, text), ("table", TABLE), ("text", line(90))), wide)
    after = cut(built(("text", line(90)), ("table", TABLE), (kind, text), ("text", line(90))), wide)
    last = cut(built(("table", TABLE), (kind, text)), wide)
    both = cut(
        built(("text", "Table 1 Costs"), ("table", TABLE), (kind, text), ("text", "Note: it is."), ("text", line(9))),
        wide,
    )
    freeze(f"beside a table {beside} {tokens}", [outline(one) for one in (before, after, last, both)])


def test_code_of_some_length_stands_alone() -> None:
    made = [cut(built(("text", line(14)), ("code", words(size)), ("text", line(14)))) for size in (5, 11, 12, 13)]
    freeze("code", [outline(chunks) for chunks in made])


def test_small_sections_are_joined() -> None:
    found = []
    for first in (5, 10, 11, 12):
        for second in (5, 10, 11, 12, 25):
            for levels in ((1, 1), (1, 2), (2, 1), (2, 2), (1, 3)):
                blocks = [("heading", "A", levels[0]), ("text", line(first)), ("heading", "B", levels[1])]
                blocks += [("text", line(second)), ("heading", "C", 2), ("text", line(6))]
                found.append([f"{'/'.join(one.heading_path)} {one.token_count}" for one in cut(built(*blocks))])
    freeze("joined sections", found)


def test_sections_of_every_depth_are_joined() -> None:
    rng = random.Random(3)
    found = []
    for _ in range(80):
        blocks: list[tuple[str, str, int]] = []
        for number in range(rng.randint(2, 6)):
            blocks.append(("heading", f"H{number}", rng.randint(1, 4)))
            blocks += [("text", line(rng.randint(2, 9)), 0)] * (rng.random() < 0.8)
        found.append([f"{'/'.join(one.heading_path)} {one.token_count}" for one in cut(built(*blocks))])
    freeze("sections of every depth", found)


def test_a_context_line_has_forty_tokens_and_a_small_section_sixty() -> None:
    """With the sizes that are the default."""
    found = []
    for size in (37, 38, 39, 40, 41, 50):
        blocks = [("heading", words(size, "h"), 1), ("text", line(59 - size), 0) if size < 50 else ("text", line(9), 0)]
        blocks += [("heading", "B", 1), ("text", line(20), 0), ("text", " ".join([line(30)] * 12), 0)]
        made = cut(built(*blocks), ChunkLimits(), words(size, "t"))
        found.append([[one.context, *outline([one])] for one in made])
    freeze("default sizes", found)


def test_joining_stops_at_the_ceiling() -> None:
    limits = ChunkLimits(target=20, minimum=16, maximum=64)
    sizes = [(first, second) for first in (8, 9, 10) for second in (8, 9, 10, 11)]
    made = [
        cut(built(("heading", "A"), ("text", line(a)), ("heading", "B"), ("text", line(b))), limits) for a, b in sizes
    ]
    assert [len(one) for one in made] == [1 if a + b + 2 <= 20 else 2 for a, b in sizes]


def test_headings_without_text() -> None:
    found = []
    for levels in (
        (1, 1),
        (1, 1, 1),
        (1, 1, 1, 1),
        (1, 2, 3),
        (1, 2, 2),
        (2, 1, 1),
        (0, 1),
        (1, 1, 1, 1, 1),
        (2, 2, 1, 1),
    ):
        again = [("heading", f"G{place}", level) for place, level in enumerate(levels)]
        blocks = [("heading", f"H{place}", level) for place, level in enumerate(levels)]
        found.append(
            [
                f"{'/'.join(one.heading_path)}: {one.text[:30]}"
                for one in cut(built(*blocks, ("text", line(20)), *again, ("text", line(20))))
            ]
        )
    freeze("headings without text", found)


def test_a_long_heading_is_shortened_in_the_path() -> None:
    long = ["h" * size for size in (199, 200, 201, 400)]
    assert [len(cut(built(("heading", text), ("text", line(20))))[0].heading_path[0]) for text in long] == [
        199,
        200,
        200,
        200,
    ]


@pytest.mark.parametrize("tokens", [39, 40, 41])
@pytest.mark.parametrize("kind", ["text", "list"])
def test_sentences_that_are_repeated(tokens: int, kind: str) -> None:
    """Sentences of up to 40 tokens are, of paragraphs alone, as many as the settings say."""
    found = []
    for overlap in (0, 1, 2, 3):
        limits = ChunkLimits(target=100, minimum=30, maximum=160, overlap=overlap)
        texts = [line(tokens)] * 7
        found.append(outline(cut(built((kind, ("\n- " if kind == "list" else " ").join(texts))), limits)))
    freeze(f"repeated {kind} {tokens}", found)


@pytest.mark.parametrize("columns", [2, 8, 14, 15, 16, 20])
def test_header_rows_are_repeated_when_they_leave_room(columns: int) -> None:
    header = " | ".join(f"c{number}" for number in range(columns))
    rows = "\n".join(" | ".join(f"{row}" for _ in range(columns)) for row in range(12))
    freeze(f"header of {columns}", outline(cut(with_geometry(built(("table", f"{header}\n{rows}"))))))


def test_chunks_of_random_documents() -> None:
    """Small blocks of every kind, so that every limit of 12, 40 and 64 tokens is met from both sides."""
    rng = random.Random(11)
    found = []
    for number in range(36):
        blocks: list[tuple[str, str, int]] = []
        for _ in range(rng.randint(2, 7)):
            kind = rng.choice(("heading", "text", "text", "text", "list", "table", "code", "figure"))
            texts = [line(rng.choice((3, 5, 8, 11, 12, 13, 20, 29, 41, 62, 63, 90))) for _ in range(rng.randint(1, 5))]
            if kind == "heading":
                blocks.append((kind, words(rng.choice((1, 2, 5, 12, 20)), "h"), rng.randint(1, 3)))
            elif kind == "table":
                size = rng.randint(2, 5)
                rows = [" | ".join(words(rng.randint(1, 3)) for _ in range(size)) for _ in range(rng.randint(2, 12))]
                blocks.append((kind, "\n".join(rows), 0))
            elif kind == "list":
                blocks.append((kind, "\n".join(f"- {text}" for text in texts), 0))
            elif kind == "code":
                blocks.append((kind, "\n".join(texts), 0))
            else:
                ends = rng.choice(("", "", " As follows:"))
                blocks.append((kind, " ".join(texts) + ends, 0))
        parsed = built(*blocks)
        parsed = with_geometry(parsed) if number % 2 else parsed
        limits = rng.choice((SMALL, ChunkLimits(20, 6, 30, 2), ChunkLimits(30, 10, 40, 0)))
        found.append(outline(cut(parsed, limits, words(rng.choice((0, 1, 3, 9, 20)), "t"))))
    freeze("random documents", found)


def greedy_tokens(texts: Iterable[str]) -> list[int]:
    """A tokeniser that finds a whole longer than the sum of its parts, as real ones do."""
    return [len(text.split()) + len(text) // 40 for text in texts]


def test_what_turns_out_too_long_is_made_smaller() -> None:
    found = []
    for size in (2, 3, 4, 5, 6, 9, 10, 11, 12, 25, 40):
        parsed = built(
            ("text", " ".join(line(size) for _ in range(6))),
            ("table", "\n".join(["a | b"] + ["word | " + words(size)] * 4)),
        )
        limits = ChunkLimits(target=10, minimum=4, maximum=12, overlap=1)
        found.append(outline(chunk(parsed, document_id="d", title="", limits=limits, count_tokens=greedy_tokens)))
    parsed = built(("text", "x" * 50 + " " + "y" * 90))
    limits = ChunkLimits(target=2, minimum=1, maximum=4, overlap=0)
    found.append(
        outline(
            chunk(
                parsed, document_id="d", title="", limits=limits, count_tokens=lambda texts: [len(one) for one in texts]
            )
        )
    )
    freeze("made smaller", found)


def test_on_pages() -> None:
    pages = [Page(1, 1, 1, 0, 10), Page(2, 1, 1, 10, 10), Page(3, 1, 1, 10, 20), Page(4, 1, 1, 20, 30)]
    ranges = [(0, 10), (0, 11), (9, 10), (9, 11), (10, 11), (10, 20), (19, 21), (20, 30), (5, 40), (10, 10), (29, 35)]
    freeze("on_pages", {str(one): list(on_pages(pages, *one)) for one in ranges})
