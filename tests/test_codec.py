"""What is packed into a row comes out again."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, insert, select

from refdesk.store import rows as codec
from refdesk.store import schema
from refdesk.store.graph import pack_entities
from refdesk.types import Box, Chunk, Geometry, Page, Sentence, Span

texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)
thousandths = st.integers(0, 100_000).map(lambda number: number / 1000)
pages = st.integers(1, 20_000)
positions = st.integers(0, 2**31 - 1)


@st.composite
def boxes(draw: Any, page: int | None = None) -> Box:
    return Box(page or draw(pages), draw(thousandths), draw(thousandths), draw(thousandths), draw(thousandths))


@st.composite
def spans(draw: Any) -> Span:
    page = draw(pages)
    return Span(draw(positions), draw(positions), draw(positions), page, draw(st.one_of(st.none(), boxes(page))))


sentences = st.builds(Sentence, positions, positions, pages, st.lists(boxes(), max_size=3).map(tuple))
chunks = st.builds(
    Chunk,
    document_id=st.just("document"),
    sequence=st.integers(1, 10**6),
    kind=st.sampled_from(["text", "table", "figure"]),
    text=texts,
    heading_path=st.lists(texts, max_size=3).map(tuple),
    pages=st.lists(pages, min_size=1, max_size=3, unique=True).map(lambda found: tuple(sorted(found))),
    spans=st.lists(spans(), max_size=4).map(tuple),
    sentences=st.lists(sentences, max_size=4).map(tuple),
    token_count=st.integers(0, 10**6),
    context=texts,
    summary=texts,
    keywords=st.lists(texts, max_size=3).map(tuple),
    entities=st.lists(texts, max_size=3).map(tuple),
    image=st.one_of(st.none(), st.just(hashlib.sha256(b"x").hexdigest())),
    id=st.integers(1, 2**53),
)
ENGINE = create_engine("sqlite://")
schema.metadata.create_all(ENGINE)


@given(chunks)
def test_chunks(chunk: Chunk) -> None:
    row = codec.pack_chunk(chunk, chunk.id, 7)
    assert (row["first_page"], row["last_page"]) == (chunk.pages[0], chunk.pages[-1])
    with ENGINE.connect() as connection:  # rolled back
        connection.execute(insert(schema.chunks), row)
        for table, rows in (
            (schema.entities, pack_entities(chunk, chunk.id)),
            (schema.images, codec.pack_image(chunk, chunk.id, 7)),
        ):
            if rows:
                connection.execute(insert(table), rows)
        assert codec.unpack_chunk(connection.execute(select(*codec.CHUNK_COLUMNS)).one(), "document") == chunk


@st.composite
def words(draw: Any) -> tuple[Geometry, list[Page]]:
    """Words of two pages, in order, a few to a line."""
    rows, position, line, found = [], 0, 0, []
    for number in (1, 2):
        begin = position
        for _ in range(draw(st.integers(0, 8))):
            length = draw(st.integers(1, 300))
            line += draw(st.integers(0, 1))
            x, y = draw(st.floats(0, 90)), draw(st.floats(0, 90))
            rows.append((position, position + length, number, line, x, y, x + draw(st.floats(0, 10)), y + 1.5))
            position += length + draw(st.integers(0, 2))
        line += 1
        found.append(Page(number, begin, position + 1))
        position += 1
    return Geometry.from_rows(rows), found


@given(words())
def test_words_within_a_hundredth_of_a_per_cent(given_words: tuple[Geometry, list[Page]]) -> None:
    geometry, on_pages = given_words
    parts = [codec.unpack_words(codec.pack_words(geometry, page), page) for page in on_pages]
    assert sum(map(len, parts)) == len(geometry)
    assert np.array_equal(np.concatenate([part.start for part in parts]), geometry.start)
    assert np.array_equal(np.concatenate([part.end for part in parts]), geometry.end)
    assert np.array_equal(np.concatenate([part.page for part in parts]), geometry.page)
    edges = np.concatenate([part.edges for part in parts])
    assert not len(edges) or float(np.abs(edges - geometry.edges).max()) <= 0.01
    for page, part in zip(on_pages, parts, strict=True):
        before = geometry.line[geometry.page == page.number]
        assert np.array_equal(np.diff(before) > 0, np.diff(part.line) > 0), "the same words share a line"


def test_edges_outside_the_page_are_cut_to_it() -> None:
    geometry = Geometry.from_rows([(0, 4, 1, 0, -3.0, -0.5, 104.0, 250.0)])
    left, top, right, bottom = codec.unpack_words(codec.pack_words(geometry, Page(1, 0, 4)), Page(1, 0, 4)).edges[0]
    assert left == top == 0 and 100 <= right <= 110 and 100 <= bottom <= 110


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(0, 5))
def test_vectors_keep_their_cosines(seed: int, count: int) -> None:
    vectors = np.random.default_rng(seed).standard_normal((count, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = codec.unpack_vectors([codec.pack_vector(vector) for vector in vectors], 384)
    assert found.shape == (count, 384) and found.dtype == np.float32
    assert np.allclose((found * vectors).sum(axis=1), 1, atol=1e-3)


@given(st.integers(0, 6))
def test_sentence_vectors(count: int) -> None:
    rows = np.arange(count * 8, dtype=np.int8).reshape(count, 8)
    assert np.array_equal(codec.unpack_sentences(rows.tobytes(), 8), rows)
