"""What must hold for the chunks of any document."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parsed_strategies import count_tokens, documents, sentence, tokens_of, with_geometry
from refdesk.ingest.chunk import ChunkLimits, chunk, embedded_text, on_pages
from refdesk.ingest.split import ranges_of, weight
from refdesk.parsers.build import Builder
from refdesk.types import Chunk, Parsed, boxes_between, lines_of

sizes = st.builds(
    ChunkLimits,
    target=st.sampled_from((30, 60, 200)),
    minimum=st.sampled_from((10, 25)),
    maximum=st.sampled_from((64, 90, 256)),
    overlap=st.integers(0, 2),
)
relaxed = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def chunks_of(parsed: Parsed, limits: ChunkLimits) -> list[Chunk]:
    return chunk(parsed, document_id="d", title="A title", limits=limits, count_tokens=count_tokens)


def origins(found: Chunk) -> list[tuple[int, int, int]]:
    return [(span.start, span.end, span.origin) for span in found.spans]


def every_character_of_every_block_is_in_a_chunk(parsed: Parsed, limits: ChunkLimits, made: list[Chunk]) -> None:
    seen = bytearray(len(parsed.text))
    for found in made:
        for start, end, origin in origins(found):
            assert found.text[start:end] == parsed.text[origin : origin + end - start]
            seen[origin : origin + end - start] = b"\1" * (end - start)
    for block in parsed.blocks:
        missing = [i for i in range(block.start, block.end) if not seen[i] and not parsed.text[i].isspace()]
        assert not missing, parsed.text[missing[0] : missing[0] + 40]


def spans_and_sentences_stand_on_the_page_of_their_characters(
    parsed: Parsed, limits: ChunkLimits, made: list[Chunk]
) -> None:
    for found in made:
        previous = 0
        for span in found.spans:
            assert previous <= span.start < span.end <= len(found.text)
            previous = span.end
            last = span.origin + span.end - span.start
            assert [page for *_, page in on_pages(parsed.pages, span.origin, last)] == [span.page]
            assert (span.box is None) == (parsed.geometry is None)
            assert span.box is None or span.box.page == span.page
        headers = [block.header for block in parsed.blocks if block.header]
        lent = [s for s in found.spans if any(low <= s.origin < high for low, high in headers)]
        own = [span for span in found.spans if span not in lent] or lent
        assert set(found.pages) - {span.page for span in lent} <= {span.page for span in own} <= set(found.pages)
        assert found.pages == tuple(sorted(found.pages)) and found.pages
        covered = {i for span in found.spans for i in range(span.start, span.end)}
        assert all(i in covered for i, character in enumerate(found.text) if not character.isspace())
        where = {i: span.origin + i - span.start for span in found.spans for i in range(span.start, span.end)}
        for part in found.sentences:
            assert part.page == next(on_pages(parsed.pages, where[part.start], where[part.start] + 1))[2]
            if parsed.geometry is not None:
                assert part.boxes == boxes_between(parsed.geometry, where[part.start], where[part.end - 1] + 1)


def sentences_lie_in_order_inside_the_text_and_leave_nothing_out(
    parsed: Parsed, limits: ChunkLimits, made: list[Chunk]
) -> None:
    for found in made:
        previous = 0
        for part in found.sentences:
            assert previous <= part.start < part.end <= len(found.text)
            assert not found.text[previous : part.start].strip()
            previous = part.end
        assert not found.text[previous:].strip()


def limits_hold_and_numbers_count_from_one(parsed: Parsed, limits: ChunkLimits, made: list[Chunk]) -> None:
    assert [found.sequence for found in made] == list(range(1, len(made) + 1))
    for found in made:
        assert found.text.strip() == found.text != ""
        assert tokens_of(embedded_text(found.context, found.text)) <= limits.maximum - 2
        assert tokens_of(found.text) == found.token_count
    assert made == chunks_of(parsed, limits)


def only_a_sentence_too_long_for_a_chunk_is_torn(parsed: Parsed, limits: ChunkLimits, made: list[Chunk]) -> None:
    whole = {
        (block.start + a, block.start + b)
        for block in parsed.blocks
        for a, b in ranges_of(block, parsed.text[block.start : block.end])
    }
    for found in made:
        where = {i: span.origin + i - span.start for span in found.spans for i in range(span.start, span.end)}
        room = limits.maximum - 2 - tokens_of(found.context)
        for part in found.sentences:
            start, end = where[part.start], where[part.end - 1] + 1
            if (start, end) not in whole:
                around = next((a, b) for a, b in whole if a <= start and end <= b)
                assert weight(tokens_of(parsed.text[around[0] : around[1]]), around[1] - around[0]) > room


def a_chunk_never_mixes_paths_and_tables_stand_alone(parsed: Parsed, limits: ChunkLimits, made: list[Chunk]) -> None:
    for found in made:
        kinds = {
            block.kind for block in parsed.blocks for span in found.spans if block.start <= span.origin < block.end
        }
        assert not {"table", "figure"} <= kinds
        if "table" in kinds:
            assert found.kind == "table" and "code" not in kinds
        if found.kind == "heading":
            assert kinds == {"heading"}


PROPERTIES = (
    every_character_of_every_block_is_in_a_chunk,
    spans_and_sentences_stand_on_the_page_of_their_characters,
    sentences_lie_in_order_inside_the_text_and_leave_nothing_out,
    limits_hold_and_numbers_count_from_one,
    only_a_sentence_too_long_for_a_chunk_is_torn,
    a_chunk_never_mixes_paths_and_tables_stand_alone,
)


@relaxed
@given(documents(), sizes)
def test_properties_of_chunks(parsed: Parsed, limits: ChunkLimits) -> None:
    """Together: making up a document takes longer than all that is asked of its chunks."""
    made = chunks_of(parsed, limits)
    for holds in PROPERTIES:
        holds(parsed, limits, made)


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(("word ", "word, ", "字", "x", "नमस्ते ", "שלום ", "a;")), sizes)
def test_limits_hold_for_one_sentence_of_50_000_characters(part: str, limits: ChunkLimits) -> None:
    builder = Builder()
    builder.heading("One sentence", level=1)
    builder.block("text", (part * 50_000)[:50_000])
    parsed = with_geometry(builder.build("text"))
    made = chunks_of(parsed, limits)
    for found in made:
        assert tokens_of(embedded_text(found.context, found.text)) <= limits.maximum - 2
        assert len(found.text) <= limits.maximum * 8
    assert "".join("".join(found.text for found in made).split()) == "".join(parsed.text.split())


def count_bytes(texts: Sequence[str]) -> list[int]:
    """A tokeniser that finds more in the whole than in its parts, as a byte-level one may."""
    return [len(text.encode()) // 3 + text.count(" ") + text.count("\n") for text in texts]


@relaxed
@given(documents(), sizes)
def test_limits_hold_when_the_whole_counts_more_than_its_parts(parsed: Parsed, limits: ChunkLimits) -> None:
    made = chunk(parsed, document_id="d", title="A title", limits=limits, count_tokens=count_bytes)
    for found in made:
        assert count_bytes([embedded_text(found.context, found.text)])[0] <= limits.maximum - 2
    kept = {c for found in made for c in found.text}
    assert {c for block in parsed.blocks for c in parsed.text[block.start : block.end] if not c.isspace()} <= kept


@relaxed
@given(st.lists(sentence(), min_size=1, max_size=30), st.data())
def test_looking_up_many_ranges_gives_what_looking_up_each_gives(parts: list[str], data: st.DataObject) -> None:
    builder = Builder()
    for part in parts:
        builder.block("text", part)
    parsed = with_geometry(builder.build("text"))
    assert parsed.geometry is not None
    bounds = st.integers(0, len(parsed.text))
    ranges = data.draw(st.lists(st.tuples(bounds, bounds).map(lambda pair: (min(pair), max(pair))), max_size=20))
    assert lines_of(parsed.geometry, ranges) == [lines_of(parsed.geometry, [pair])[0] for pair in ranges]
