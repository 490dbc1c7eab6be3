"""Which embedder does a library have? The shipped model, or any OpenAI-compatible `/embeddings` endpoint over HTTP."""

from __future__ import annotations

import base64
import binascii
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import orjson
from numpy.typing import NDArray

from refdesk.config import SHIPPED_EMBEDDER, Config
from refdesk.errors import ModelError, ProviderInterrupted, ProviderRefused, ProviderUnavailable, UsageError
from refdesk.ports import Embedded, Embedder
from refdesk.providers.shipped import OnnxEmbedder, ShippedTokenizer
from refdesk.providers.wire import Endpoint, post, wait_before
from refdesk.types import Chunk

TRIES = 3
LONGEST_WAIT_S = 60.0  # an endpoint that asks for more is given up at once
BATCH_TEXTS, BATCH_CHARACTERS = 64, 200_000  # OpenAI takes 2,048 texts and 300,000 tokens; others take less
BLANK = "."  # stands for an empty text, which most endpoints refuse


class HttpEmbedder:
    """Any OpenAI-compatible `/embeddings` endpoint; safe to share between threads.

    Sentences are embedded as texts of their own, in the same requests as their chunks. Tokens are counted with the
    shipped tokenizer, which only approximates the one behind the endpoint; texts are cut to `max_tokens` by that count.
    `dimensions` is asked of the endpoint when given, else learned from its first answer. `pause_s` is the first wait
    after a failure; it doubles.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        api_key: str,
        dimensions: int | None = None,
        max_tokens: int = 512,  # what the smaller of today's models read
        *,
        timeout_s: float = 60.0,
        pause_s: float = 1.0,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"The base URL {base_url!r} is not an http or https address")
        self._model = model
        self._endpoint = Endpoint(f"The embedder {model}", base_url, api_key.strip(), "OPENAI_API_KEY", timeout_s)
        self._asked_dimensions = dimensions
        self._dimensions = dimensions
        self.max_tokens = max_tokens
        self._pause_s = pause_s
        self._tokenizer = ShippedTokenizer()

    @property
    def name(self) -> str:
        return f"{self._model}@{self._asked_dimensions}" if self._asked_dimensions else self._model

    @property
    def dimensions(self) -> int:
        """Asks the endpoint when nothing was embedded yet."""
        if self._dimensions is None:
            self._embed([BLANK])
        assert self._dimensions is not None
        return self._dimensions

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._tokenizer.count(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return self._embed([text])[text]

    def embed_chunks(self, chunks: Sequence[Chunk]) -> list[Embedded]:
        texts = [[_chunk_text(chunk), *(chunk.text[s.start : s.end] for s in chunk.sentences)] for chunk in chunks]
        vectors = self._embed([text for group in texts for text in group])
        embedded = []
        for whole, *sentences in texts:
            vector = vectors[whole]
            table = np.array([vectors[text] for text in sentences], dtype=np.float32).reshape(-1, len(vector))
            embedded.append(Embedded(vector, np.rint(table * 127).astype(np.int8)))
        return embedded

    def _embed(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The vector of each different text; a chunk of one sentence is sent once."""
        vectors: dict[str, NDArray[np.float32]] = {}
        for batch in _batches(list(dict.fromkeys(texts))):
            sent = [self._tokenizer.cut(text, self.max_tokens - 2) if text.strip() else BLANK for text in batch]
            vectors.update(zip(batch, self._units(sent), strict=True))
        return vectors

    def _units(self, texts: list[str]) -> NDArray[np.float32]:
        payload: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self._asked_dimensions:
            payload["dimensions"] = self._asked_dimensions
        body = self._post(payload)
        try:
            vectors = _read_vectors(orjson.loads(body), len(texts))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = f"gave an answer that cannot be read ({error or type(error).__name__})"
            raise ModelError(self._endpoint.problem(problem)) from error
        if self._dimensions not in (None, vectors.shape[1]):
            raise ModelError(
                self._endpoint.problem(
                    f"gave vectors of {vectors.shape[1]} dimensions where {self._dimensions} were expected"
                ),
                hint="name the model and the dimensions the library was made with",
            )
        self._dimensions = vectors.shape[1]
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(np.isfinite(norms) & (norms > 0)):
            raise ModelError(self._endpoint.problem("gave a vector that has no direction"))
        units: NDArray[np.float32] = vectors / norms
        return units

    def _post(self, payload: Mapping[str, Any]) -> bytes:
        """The answer's bytes; 429, 5xx and network errors are tried again, anything else is final."""
        key = self._endpoint.api_key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        attempt = 0
        while True:
            attempt += 1
            try:
                return post(self._endpoint, "/embeddings", headers, payload)
            except ProviderRefused as error:
                raise ModelError(str(error), hint=error.hint) from error
            except (ProviderUnavailable, ProviderInterrupted) as error:
                asked = error.retry_after_s if isinstance(error, ProviderUnavailable) else 0.0
                wait = max(self._pause_s * wait_before(attempt + 1, chance=random.random()), asked)
                if attempt == TRIES or wait > LONGEST_WAIT_S:
                    tries = f" in {attempt} tries" if attempt > 1 else ""
                    asks = f" and asks to wait {wait:.0f} s" if wait > LONGEST_WAIT_S else ""
                    final = ModelError(f"{error}{tries}{asks}", hint="try again later" if error.status else error.hint)
                    final.retryable = True
                    raise final from error
            time.sleep(wait)


def _chunk_text(chunk: Chunk) -> str:
    return f"{chunk.context}\n{chunk.text}" if chunk.context else chunk.text


def _batches(texts: list[str]) -> Iterator[list[str]]:
    """Consecutive texts that fit one request.

    >>> [len(batch) for batch in _batches(["a"] * 100)]
    [64, 36]
    """
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == BATCH_TEXTS or characters + len(text) > BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _read_vectors(answer: Any, count: int) -> NDArray[np.float32]:
    """`{"data": [{"index": 1, "embedding": […]}, …]}` -> rows in the order of the texts; floats or base64."""
    data = answer["data"]
    if len(data) != count:
        raise ValueError(f"{len(data)} vectors for {count} texts")
    rows: list[NDArray[np.float32] | None] = [None] * count
    for position, item in enumerate(data):
        index = item.get("index", position)
        if not isinstance(index, int) or not 0 <= index < count or rows[index] is not None:
            raise ValueError(f"index {index!r} among {count} texts")
        rows[index] = _read_vector(item["embedding"])
    table = [row for row in rows if row is not None]
    if len({row.shape for row in table}) != 1 or table[0].ndim != 1 or not len(table[0]):
        raise ValueError("vectors of different lengths")
    return np.stack(table)


def _read_vector(embedding: Any) -> NDArray[np.float32]:
    if isinstance(embedding, str):
        try:
            return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4").astype(np.float32)
        except binascii.Error as error:
            raise ValueError("a vector is not base64") from error
    return np.array(embedding, dtype=np.float32)


def make_embedder(config: Config, *, threads: int = 0) -> Embedder:
    """The shipped model, or any OpenAI-compatible endpoint; nothing is loaded before it is used."""
    if config.embedder == SHIPPED_EMBEDDER:
        return OnnxEmbedder(threads=threads)
    return HttpEmbedder(
        config.embedder.removeprefix("openai:"),
        config.embedder_base_url,
        config.embedder_api_key,
        dimensions=config.embedder_dimensions or None,
    )
