"""The shipped embedder: all-MiniLM-L6-v2 as int8 ONNX, on the CPU, without torch or a download.

One forward pass over a chunk gives its vector (the mean of its token states) and one vector per sentence (the mean
over the tokens of that sentence). Each pass reads one chunk. A batch shares the ranges its activations are quantised
by, so a chunk's vector would depend on its neighbours (cosine down to .991 between batches of 1 and 8), and from 60
tokens on a batch is hardly faster (docs/embedding.md). Several cores work on several chunks instead.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.errors import ModelError
from refdesk.ports import Embedded
from refdesk.types import Chunk, Sentence

ASSETS = Path(__file__).parent.parent / "assets"
MODEL_FILE, TOKENIZER_FILE = "minilm-l6-v2.int8.onnx", "tokenizer.json"
SHA256 = {
    MODEL_FILE: "7b564170e959dab28f063c4d3f6403004541d21db90b2efe9be0eca037fc2043",
    TOKENIZER_FILE: "9114256b104cca80e04367526f03f46aa3c443c2ed174904142a73bbf13b9fbb",
}
OPENING, CLOSING = 101, 102  # [CLS] and [SEP]


class ShippedTokenizer:
    """The tokenizer of the shipped model, loaded when first used.

    >>> ShippedTokenizer().count(["Pumps fail.", ""])
    [3, 0]
    """

    def __init__(self, assets: Path = ASSETS) -> None:
        self._assets = assets

    def count(self, texts: Sequence[str]) -> list[int]:
        tokenizer = self._load()
        return [len(tokenizer.encode(well_formed(text), add_special_tokens=False)) for text in texts]

    def encode(self, text: str, limit: int) -> tuple[list[int], NDArray[np.int32]]:
        """The first `limit` tokens and where each begins in the text, special tokens left out."""
        encoded = self._load().encode(well_formed(text), add_special_tokens=False)
        offsets = np.array(encoded.offsets[:limit], dtype=np.int32).reshape(-1, 2)
        return encoded.ids[:limit], offsets[:, 0]

    def cut(self, text: str, limit: int) -> str:
        """The text up to its first `limit` tokens, well formed."""
        text = well_formed(text)
        _, starts = self.encode(text, limit + 1)
        return text[: int(starts[limit])] if len(starts) > limit else text

    def _load(self) -> Any:
        with _loading:
            return _tokenizer(self._assets)


class OnnxEmbedder:
    """Text to vectors with the shipped model; safe to share between threads, cheap until first used.

    `threads` is how many chunks are embedded at the same time; 0 takes every core this process may use.

    >>> OnnxEmbedder().embed_query("Which pump failed?").shape
    (384,)
    """

    name = "minilm-l6-v2-int8"
    dimensions = 384
    max_tokens = 256  # the length it was trained for; positions up to 512 exist but were never fine-tuned

    def __init__(self, threads: int = 0, assets: Path = ASSETS) -> None:
        self._threads = threads if threads > 0 else _cores()
        self._assets = assets
        self._tokenizer = ShippedTokenizer(assets)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._tokenizer.count(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        ids, _ = self._tokenizer.encode(text, self.max_tokens - 2)
        return _unit(self._token_states(ids).mean(axis=0))

    def embed_chunks(self, chunks: Sequence[Chunk]) -> list[Embedded]:
        workers = min(self._threads, len(chunks))
        if workers <= 1:
            return [self._embed_chunk(chunk) for chunk in chunks]
        self._load()
        with ThreadPoolExecutor(workers, thread_name_prefix="embed") as pool:
            return list(pool.map(self._embed_chunk, chunks))

    def _embed_chunk(self, chunk: Chunk) -> Embedded:
        prefix = f"{chunk.context}\n" if chunk.context else ""
        ids, starts = self._tokenizer.encode(prefix + chunk.text, self.max_tokens - 2)
        states = self._token_states(ids)
        vector = _unit(states.mean(axis=0))
        return Embedded(vector, _sentence_vectors(states[1:-1], starts - len(prefix), chunk.sentences, vector))

    def _token_states(self, ids: list[int]) -> NDArray[np.float32]:
        """The last hidden states of [CLS], the tokens and [SEP]."""
        session = self._load()
        row = np.array([[OPENING, *ids, CLOSING]], dtype=np.int64)
        try:
            output = session.run(None, {"input_ids": row, "attention_mask": np.ones_like(row)})
        except Exception as error:  # onnxruntime's errors share no base class
            raise ModelError(f"The embedding model failed on a text of {len(ids)} tokens: {error}") from error
        states: NDArray[np.float32] = output[0][0]
        return states

    def _load(self) -> Any:
        with _loading:
            return _session(self._assets)


# Loaded once in a process, however many libraries it opens: the model is 60 MB, and a tenth of a second to load.
_loading = threading.Lock()


@cache
def _tokenizer(assets: Path) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_buffer(read_asset(assets / TOKENIZER_FILE))
    tokenizer.encode_special_tokens = True  # "[SEP]" in a document is text
    return tokenizer


@cache
def _session(assets: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # One thread per pass, on the caller's: 2 chunks on 2 cores beat 1 chunk on both, and nothing spins.
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.enable_mem_pattern = False  # a plan is kept for each length of text, 254 of them
    options.log_severity_level = 3
    model = read_asset(assets / MODEL_FILE)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def well_formed(text: str) -> str:
    """The text with halves of surrogate pairs, which no encoder takes, as "?"; its length stays.

    >>> well_formed("a\\ud800b")
    'a?b'
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def read_asset(path: Path) -> bytes:
    """The bytes of a shipped file, as they were shipped."""
    hint = "install Refdesk again"
    try:
        data = path.read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise ModelError(f"The model file {path} cannot be read ({reason})", hint=hint) from error
    if hashlib.sha256(data).hexdigest() != SHA256[path.name]:
        raise ModelError(f"The model file {path} is damaged ({len(data)} bytes that were not shipped)", hint=hint)
    return data


def _sentence_vectors(
    states: NDArray[np.float32], starts: NDArray[np.int32], sentences: Sequence[Sentence], whole: NDArray[np.float32]
) -> NDArray[np.int8]:
    """The mean token state of each sentence; one that has no token in the window gets the vector of the chunk."""
    if not sentences:
        return np.zeros((0, len(whole)), dtype=np.int8)
    first = np.searchsorted(starts, [sentence.start for sentence in sentences]).tolist()
    last = np.searchsorted(starts, [sentence.end for sentence in sentences]).tolist()
    # Slices, not one matrix product: BLAS would wake a second thread for it, and keep it spinning.
    means = [states[a:b].mean(axis=0) if a < b else whole for a, b in zip(first, last, strict=True)]
    vectors: NDArray[np.float32] = np.stack(means)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.rint(vectors * 127).astype(np.int8)


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = (vector / np.linalg.norm(vector)).astype(np.float32)
    return unit


def _cores() -> int:
    """Cores this process may use, which a container makes fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
