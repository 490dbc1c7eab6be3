"""Token vectors from the built-in embedder, or from a ColBERT model (ONNX) in a folder."""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.errors import ExtraMissing, ModelError
from refdesk.ports import TokenEmbedder
from refdesk.providers.shipped import OnnxEmbedder, one_thread_session
from refdesk.types import Chunk

Tokens = tuple[NDArray[np.int32], NDArray[np.float32]]
LONGEST = 512  # tokens
# Before a question and before a passage, as ColBERTv2 was trained; a vocabulary without them does without.
MARKS = ("[unused0]", "[unused1]")
HINT = "choose a folder with model.onnx and tokenizer.json"


def text_of(chunk: Chunk) -> str:
    return f"{chunk.context}\n{chunk.text}" if chunk.context else chunk.text


class ShippedTokens:
    """The token states of the shipped embedder, of its fourth layer and of its last."""

    layers, is_trained = 2, False

    def __init__(self, embedder: OnnxEmbedder) -> None:
        self._embedder = embedder
        self.name = f"{embedder.name} tokens, layers 4 and 6"

    def chunk_tokens(self, chunk: Chunk) -> Tokens:
        return self._embedder.token_vectors(text_of(chunk))

    def query_tokens(self, text: str) -> Tokens:
        return self._embedder.token_vectors(text)


class ColbertTokens:
    """A ColBERT model: `model.onnx`, whose first output is a vector for each token, and `tokenizer.json`."""

    layers, is_trained = 1, True

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder).expanduser()
        self.name = f"colbert:{self._folder.name}"
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def chunk_tokens(self, chunk: Chunk) -> Tokens:
        return self._tokens(text_of(chunk), MARKS[1])

    def query_tokens(self, text: str) -> Tokens:
        return self._tokens(text, MARKS[0])

    def _tokens(self, text: str, mark: str) -> Tokens:
        model, tokenizer = self._load()
        ids = tokenizer.encode(text).ids[:LONGEST]
        marked = tokenizer.token_to_id(mark)
        ids = ids if marked is None else [*ids[:1], marked, *ids[1:]][:LONGEST]
        row = np.array([ids], dtype=np.int64)
        wanted = {model_input.name for model_input in model.get_inputs()}
        feed = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        try:
            output = np.asarray(model.run(None, {name: feed[name] for name in wanted})[0], dtype=np.float32)
        except Exception as error:  # onnxruntime's errors share no base class
            reason = str(error).splitlines()[0]
            raise ModelError(f"the model in {self._folder} failed: {reason}", hint=HINT) from error
        if output.ndim != 3 or output.shape[1] != len(ids):
            raise ModelError(f"the model in {self._folder} gives no vector for each token", hint=HINT)
        return np.array(ids, dtype=np.int32), output[0]

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._opened()
            return self._loaded

    def _opened(self) -> tuple[Any, Any]:
        try:
            import tokenizers
        except ImportError as error:
            raise ExtraMissing(
                "a ColBERT model needs an extra package", hint="pip install 'refdesk[rerank]'"
            ) from error
        missing = [name for name in ("model.onnx", "tokenizer.json") if not (self._folder / name).is_file()]
        if missing:
            raise ModelError(f"{self._folder} holds no {missing[0]}", hint=HINT)
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(self._folder / "tokenizer.json"))
            return one_thread_session(str(self._folder / "model.onnx")), tokenizer
        except Exception as error:  # both libraries raise what they like
            reason = str(error).splitlines()[0]
            raise ModelError(f"the model in {self._folder} does not open: {reason}", hint=HINT) from error


@lru_cache(maxsize=4)
def token_embedder(folder: str) -> TokenEmbedder:
    """The model in a folder, loaded once; "" is the shipped one."""
    return ColbertTokens(folder) if folder else ShippedTokens(OnnxEmbedder())
