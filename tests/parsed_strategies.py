"""Random parsed documents for property tests: many pages, kinds and scripts, with word boxes and without."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import strategies as st

from refdesk.parsers.build import Builder
from refdesk.types import Block, Geometry, Parsed

WORDS = (
    *(
        "the",
        "of",
        "revenue",
        "fell",
        "rose",
        "Acme",
        "Inc.",
        "Dr.",
        "e.g.",
        "3.14",
        "U.S.",
        "(see",
        "Fig.",
        "2)",
        "2023",
    ),
    *("Amcor,", "costs;", "profit:", "naïve", "—", "“quoted”", "www.example.org", "a@b.org", "Q3", "$5.2", "12%", "J."),
    *("iPhone", "Müller", "supercalifragilisticexpialidocious"),
)
CHINESE = "公司收入增长利润下降报告年度费用市场研究"
HEBREW = ("החברה", "דיווחה", "על", "הכנסות", "גבוהות", "יותר", "השנה")
ENDS = (".", "!", "?", "...", '."', "")


def tokens_of(text: str) -> int:
    """A pure stand-in for a tokeniser: words and marks."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def count_tokens(texts: object) -> list[int]:
    return [tokens_of(text) for text in texts]  # type: ignore[attr-defined]


@st.composite
def sentence(draw: st.DrawFn) -> str:
    script = draw(st.sampled_from(("latin", "latin", "latin", "chinese", "hebrew")))
    if script == "chinese":
        return "".join(draw(st.lists(st.sampled_from(CHINESE), min_size=1, max_size=30))) + "。"
    words = draw(st.lists(st.sampled_from(WORDS if script == "latin" else HEBREW), min_size=1, max_size=20))
    return " ".join(words).capitalize() + draw(st.sampled_from(ENDS))


def paragraph(size: int = 12) -> st.SearchStrategy[str]:
    return st.lists(sentence(), min_size=1, max_size=size).map(" ".join)


cells = st.lists(st.sampled_from(("item", "12", "3.5 %", "Total assets", "—", "年度")), min_size=2, max_size=4)


@st.composite
def documents(draw: st.DrawFn) -> Parsed:
    """Up to five pages of up to six blocks; about every second document knows where its words stand."""
    builder = Builder()
    for number in range(draw(st.integers(1, 5))):
        builder.page(f"page {number + 1}")
        for _ in range(draw(st.integers(0, 6))):
            kind = draw(st.sampled_from(("text", "text", "text", "heading", "list", "table", "code", "figure")))
            if kind == "heading":
                builder.heading(draw(paragraph(1)), level=draw(st.integers(1, 4)))
            elif kind == "table":
                rows = draw(st.integers(1, 40))
                builder.table([draw(cells)] * rows, header_rows=draw(st.integers(0, 2)))
            elif kind == "list":
                builder.block("list", "\n".join("- " + line for line in draw(st.lists(sentence(), max_size=8))))
            elif kind == "figure":
                builder.block("figure", draw(paragraph(2)), image=b"an image")
            else:
                builder.block(kind, draw(paragraph()))  # type: ignore[arg-type]
    parsed = builder.build("test", title="A title")
    if draw(st.booleans()):
        parsed = run_on(parsed)
    return with_geometry(parsed) if draw(st.booleans()) else parsed


def run_on(parsed: Parsed) -> Parsed:
    """Makes one block of neighbouring paragraphs, so that blocks and sentences reach over the end of a page."""
    text = parsed.text
    blocks: list[Block] = []
    for block in parsed.blocks:
        if blocks and blocks[-1].kind == block.kind == "text":
            text = text[: blocks[-1].end] + "\n " + text[block.start :]
            block = replace(blocks.pop(), end=block.end)
        blocks.append(block)
    return replace(parsed, text=text, blocks=tuple(blocks))


def with_geometry(parsed: Parsed, *, words_per_line: int = 7) -> Parsed:
    """Sets the words of a document on its pages, a few to a line, each block on a new line."""
    starts = {block.start for block in parsed.blocks}
    rows = []
    line = 0
    for page in parsed.pages:
        on_line = top = 0
        for match in re.finditer(r"\S+", parsed.text[page.start : page.end]):
            start, end = page.start + match.start(), page.start + match.end()
            if on_line == words_per_line or start in starts or not on_line:
                line, on_line, top = line + 1, 0, top + 1
            left = 10.0 * on_line + 5
            on_line += 1
            rows.append((start, end, page.number, line, left, top * 0.5, left + 9, top * 0.5 + 0.4))
    return replace(parsed, geometry=Geometry.from_rows(rows))
