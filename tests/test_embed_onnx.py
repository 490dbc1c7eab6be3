"""The shipped embedder: pinned to the fp32 original, and doing with token states what it says."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tokenizers import Tokenizer

from refdesk.errors import ModelError
from refdesk.providers.shipped import ASSETS, MODEL_FILE, TOKENIZER_FILE, OnnxEmbedder, ShippedTokenizer, well_formed
from refdesk.types import Chunk, Sentence
from timing import PATIENCE_S

PINNED = json.loads(Path(__file__).with_name("embedding_vectors.json").read_text(encoding="utf-8"))
PUMP = "The pump failed in March."
CAT = "Cats sleep for most of the day."
MONEY = "Revenue rose by 8 % to $412 million."


@pytest.fixture(scope="module")
def embedder() -> OnnxEmbedder:
    return OnnxEmbedder(threads=1)


def chunk(*sentences: str, context: str = "", separator: str = " ") -> Chunk:
    ranges, start = [], 0
    for text in sentences:
        ranges.append(Sentence(start, start + len(text), 1))
        start += len(text) + len(separator)
    return Chunk("d", 1, "text", separator.join(sentences), (), (1,), (), tuple(ranges), 0, context=context)


def naive_states(text: str) -> tuple[NDArray[np.float32], list[tuple[int, int]]]:
    """Token states straight from the model, special tokens included, with the offsets of each token."""
    tokenizer = Tokenizer.from_file(str(ASSETS / TOKENIZER_FILE))
    tokenizer.enable_truncation(256)
    session = onnxruntime.InferenceSession(ASSETS / MODEL_FILE, providers=["CPUExecutionProvider"])
    encoded = tokenizer.encode(text)
    ids = np.array([encoded.ids], dtype=np.int64)
    states = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0][0]
    return states, encoded.offsets


def unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize("pinned", PINNED, ids=["question", "sentence", "table", "german_japanese", "paragraph"])
def test_pinned_vectors(embedder: OnnxEmbedder, pinned: dict[str, str]) -> None:
    vector = embedder.embed_query(pinned["text"])
    original = np.frombuffer(base64.b64decode(pinned["original"]), dtype=np.int8).astype(np.float32)
    # CPUs without 8-bit dot products saturate some sums: about .002 less in the mean, .018 in one (docs/embedding.md).
    assert float(vector @ unit(original)) >= 0.97
    np.testing.assert_allclose(vector[:5], pinned["first"], atol=0.02)


def test_vectors_are_unit_float32(embedder: OnnxEmbedder) -> None:
    (embedded,) = embedder.embed_chunks([chunk(PUMP, CAT)])
    assert embedded.vector.dtype == np.float32
    assert embedded.vector.shape == (embedder.dimensions,)
    assert embedded.sentences.dtype == np.int8
    assert embedded.sentences.shape == (2, embedder.dimensions)
    assert np.linalg.norm(embedded.vector) == pytest.approx(1, abs=1e-5)
    lengths = np.linalg.norm(embedded.sentences.astype(np.float32), axis=1)
    np.testing.assert_allclose(lengths, 127, rtol=0.02)


@pytest.mark.parametrize("context", ["", "Manual › Pumps › Faults"])
def test_chunk_and_sentence_vectors_equal_a_naive_computation(embedder: OnnxEmbedder, context: str) -> None:
    one = chunk(PUMP, CAT, MONEY, context=context)
    (embedded,) = embedder.embed_chunks([one])
    prefix = f"{context}\n" if context else ""
    states, offsets = naive_states(prefix + one.text)
    np.testing.assert_allclose(embedded.vector, unit(states.mean(axis=0)), atol=1e-4)
    for sentence, vector in zip(one.sentences, embedded.sentences, strict=True):
        first, last = sentence.start + len(prefix), sentence.end + len(prefix)
        inside = [
            state
            for state, (start, end) in zip(states, offsets, strict=True)
            if end > start and first <= start and end <= last
        ]
        expected = np.rint(unit(np.mean(inside, axis=0)) * 127)
        assert np.abs(expected - vector).max() <= 1  # a value on the edge may round either way


def test_sentences_find_their_questions(embedder: OnnxEmbedder) -> None:
    (embedded,) = embedder.embed_chunks([chunk(PUMP, CAT, MONEY)])
    for number, question in enumerate(["When did the pump break?", "How long do cats sleep?", "How much was earned?"]):
        cosines = embedded.sentences.astype(np.float32) @ embedder.embed_query(question)
        assert int(cosines.argmax()) == number, question


def test_neighbours_order_and_threads_change_nothing(embedder: OnnxEmbedder) -> None:
    chunks = [chunk(PUMP), chunk(PUMP, CAT, MONEY, context="Report"), chunk(CAT), chunk(MONEY * 30), chunk("")]
    alone = [embedder.embed_chunks([one])[0] for one in chunks]
    together = OnnxEmbedder(threads=3).embed_chunks(chunks[::-1])[::-1]
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one.vector, other.vector)
        np.testing.assert_array_equal(one.sentences, other.sentences)


def test_a_chunk_without_context_and_a_query_share_a_space(embedder: OnnxEmbedder) -> None:
    np.testing.assert_array_equal(embedder.embed_chunks([chunk(PUMP)])[0].vector, embedder.embed_query(PUMP))


def test_one_embedder_serves_many_threads() -> None:
    shared = OnnxEmbedder(threads=1)
    with ThreadPoolExecutor(4) as pool:
        vectors = list(pool.map(shared.embed_query, [PUMP, CAT] * 8))
    for vector in vectors[2:]:
        assert any(np.array_equal(vector, first) for first in vectors[:2])
    assert not np.array_equal(vectors[0], vectors[1])


def test_text_beyond_the_window_is_cut_and_its_sentences_get_the_vector_of_the_chunk(embedder: OnnxEmbedder) -> None:
    sentences = [f"Pump number {number} failed." for number in range(100)]
    (embedded,) = embedder.embed_chunks([chunk(*sentences)])
    states, _ = naive_states(" ".join(sentences))
    assert len(states) == embedder.max_tokens
    np.testing.assert_allclose(embedded.vector, unit(states.mean(axis=0)), atol=1e-4)
    whole = np.rint(embedded.vector * 127).astype(np.int8)
    np.testing.assert_array_equal(embedded.sentences[-1], whole)
    assert not np.array_equal(embedded.sentences[0], whole)


@pytest.mark.parametrize(
    "text", ["", "   \n", "\ud800", "\x00", "한국어 문장입니다.", "السلام عليكم", "👩‍👩‍👧 ok", "[SEP] [CLS] [MASK]"]
)
def test_any_text_has_a_vector(embedder: OnnxEmbedder, text: str) -> None:
    (embedded,) = embedder.embed_chunks([chunk(text)])
    assert np.linalg.norm(embedded.vector) == pytest.approx(1, abs=1e-5)
    assert embedded.sentences.shape == (1, 384)


def test_no_chunks_and_no_sentences(embedder: OnnxEmbedder) -> None:
    assert embedder.embed_chunks([]) == []
    assert embedder.embed_chunks([chunk()])[0].sentences.shape == (0, 384)


def test_tokens_are_counted_without_special_tokens_and_without_a_limit(embedder: OnnxEmbedder) -> None:
    assert embedder.count_tokens(["", "Pumps fail.", "pump " * 1000, "[SEP]"]) == [0, 3, 1000, 3]
    assert embedder.count_tokens([]) == []


@pytest.fixture(scope="module")
def reference() -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(ASSETS / TOKENIZER_FILE))
    tokenizer.encode_special_tokens = True  # "[SEP]" in a document is text
    return tokenizer


@given(
    st.text(
        st.characters(max_codepoint=0x6FF, exclude_categories=["Cs"]) | st.sampled_from("中国한국어ﬁ①“—👍\u2028\t\n")
    )
)
@settings(max_examples=500, deadline=None)
def test_tokens_are_those_of_the_tokenizers_library(reference: Tokenizer, text: str) -> None:
    expected = reference.encode(text, add_special_tokens=False)
    ids, starts = ShippedTokenizer().encode(text, 10_000)
    assert (ids, starts.tolist()) == (expected.ids, [start for start, _ in expected.offsets])


def test_tokens_of_real_texts_are_those_of_the_tokenizers_library(reference: Tokenizer) -> None:
    for path in sorted(Path(__file__).parent.parent.glob("docs/*.md")):
        text = path.read_text(encoding="utf-8")
        expected = reference.encode(text, add_special_tokens=False)
        ids, starts = ShippedTokenizer().encode(text, 10**6)
        assert (ids, starts.tolist()) == (expected.ids, [start for start, _ in expected.offsets]), path


@pytest.mark.parametrize("word", ["x" * 100, "x" * 101, "ß" * 101, "unaffable", "Antidisestablishmentarianism"])
def test_long_words_too(reference: Tokenizer, word: str) -> None:
    assert ShippedTokenizer().encode(word, 500)[0] == reference.encode(word, add_special_tokens=False).ids


def test_half_a_surrogate_pair_keeps_its_place() -> None:
    assert well_formed("a\ud800b") == "a?b"
    assert well_formed("naïve 👍") == "naïve 👍"


def test_importing_constructing_and_counting_do_not_load_the_model() -> None:
    program = (
        "import sys; from refdesk.providers.shipped import OnnxEmbedder; one = OnnxEmbedder();"
        "one.count_tokens(['a']); assert not {'tokenizers', 'onnxruntime'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)


def test_the_runtime_writes_no_id_of_the_machine_and_reports_nothing(tmp_path: Path) -> None:
    """onnxruntime would do both from 1.31 on."""
    code = "from refdesk.providers.shipped import OnnxEmbedder; OnnxEmbedder().embed_query('x')"
    home = {"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE_S, env=home)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        pytest.param(MODEL_FILE, None, "cannot be read", id="model:missing"),
        pytest.param(MODEL_FILE, b"half", "damaged", id="model:damaged"),
        pytest.param(TOKENIZER_FILE, None, "cannot be read", id="tokenizer:missing"),
        pytest.param(TOKENIZER_FILE, b"{}", "damaged", id="tokenizer:damaged"),
    ],
)
def test_missing_or_damaged_files_are_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    for file in (MODEL_FILE, TOKENIZER_FILE):
        (tmp_path / file).symlink_to(ASSETS / file)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=message) as caught:
        OnnxEmbedder(assets=tmp_path).embed_query("x")
    assert name in caught.value.sentence
    assert "reinstall Refdesk" in caught.value.sentence
