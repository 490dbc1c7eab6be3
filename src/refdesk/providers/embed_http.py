"""An embedder behind any OpenAI-compatible `/embeddings` endpoint.

Sentences are embedded as texts of their own, in the same requests as their chunks. Tokens are counted with the
shipped tokenizer, which only approximates the one behind the endpoint; texts are cut to `max_tokens` by that count.
"""

from __future__ import annotations

import base64
import binascii
import random
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, NoReturn
from urllib.parse import urlsplit

import numpy as np
import orjson
from numpy.typing import NDArray

from refdesk.errors import ModelError, UsageError
from refdesk.ports import Embedded
from refdesk.providers.embed import ShippedTokenizer
from refdesk.types import Chunk

TRIES = 3
JITTER = 0.25  # so that several workers do not come back at the same moment
LONGEST_WAIT_S = 60.0  # an endpoint that asks for more is given up at once
BATCH_TEXTS, BATCH_CHARACTERS = 64, 200_000  # OpenAI takes 2,048 texts and 300,000 tokens; others take less
BLANK = "."  # stands for an empty text, which most endpoints refuse
HINTS = {
    401: "check the API key",
    403: "check what the API key may do",
    404: "check the base URL and the name of the model",
}


class HttpEmbedder:
    """Text to vectors over HTTP; safe to share between threads.

    `dimensions` is asked of the endpoint when given, else learned from its first answer. `pause_s` is the first wait
    after a failure; it doubles.

    >>> HttpEmbedder("bge-m3", "http://localhost:8080/v1", api_key="").name
    'bge-m3'
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
        self._model, self._api_key = model, api_key.strip()
        self._url = base_url.rstrip("/") + "/embeddings"
        self._host = parts.hostname
        self._asked_dimensions = dimensions
        self._dimensions = dimensions
        self.max_tokens = max_tokens
        self._timeout_s, self._pause_s = timeout_s, pause_s
        self._tokenizer = ShippedTokenizer()
        self._opener = urllib.request.build_opener(_NoRedirect)

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
            vectors.update(zip(batch, self._ask(sent), strict=True))
        return vectors

    def _ask(self, texts: list[str]) -> NDArray[np.float32]:
        payload: dict[str, Any] = {"model": self._model, "input": texts, "encoding_format": "float"}
        if self._asked_dimensions:
            payload["dimensions"] = self._asked_dimensions
        body = self._post(orjson.dumps(payload))
        try:
            vectors = _read_vectors(orjson.loads(body), len(texts))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._fail(f"gave an answer that cannot be read ({error or type(error).__name__})", cause=error)
        if self._dimensions not in (None, vectors.shape[1]):
            self._fail(
                f"gave vectors of {vectors.shape[1]} dimensions where {self._dimensions} were expected",
                hint="name the model and the dimensions the library was made with",
            )
        self._dimensions = vectors.shape[1]
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(np.isfinite(norms) & (norms > 0)):
            self._fail("gave a vector that has no direction")
        units: NDArray[np.float32] = vectors / norms
        return units

    def _post(self, body: bytes) -> bytes:
        """The answer's bytes; 429, 5xx and network errors are tried again, anything else is final."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        pause = self._pause_s
        for attempt in range(1, TRIES + 1):
            wait = pause * random.uniform(1 - JITTER, 1 + JITTER)
            pause *= 2
            hint = "try again later"
            cause: Exception
            try:
                request = urllib.request.Request(self._url, body, headers, method="POST")
                return self._read(request)
            except urllib.error.HTTPError as error:
                said = _said(error)
                problem = f"answered {error.code}" + (f": {self._redacted(said)}" if said else "")
                if error.code != 429 and error.code < 500:
                    self._fail(problem, hint=HINTS.get(error.code), cause=error)
                asked = _retry_after(error.headers.get("Retry-After"))
                wait, cause = max(wait, asked), error
            except (OSError, HTTPException) as error:  # URLError and TimeoutError are OSErrors
                reason = getattr(error, "reason", None) or error
                problem, cause = f"could not be reached ({reason or type(error).__name__})", error
                hint = "check the base URL and the network"
            if attempt == TRIES or wait > LONGEST_WAIT_S:
                tries = f" in {attempt} tries" if attempt > 1 else ""
                asks = f" and asks to wait {wait:.0f} s" if wait > LONGEST_WAIT_S else ""
                self._fail(f"{problem}{tries}{asks}", hint=hint, cause=cause, retryable=True)
            time.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _read(self, request: urllib.request.Request) -> bytes:
        """The whole answer inside the time limit, also when it comes drop by drop."""
        deadline = time.monotonic() + self._timeout_s
        parts = []
        with self._opener.open(request, timeout=self._timeout_s) as response:
            expected = response.headers.get("Content-Length")
            while part := response.read1(1 << 16):
                parts.append(part)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no whole answer in {self._timeout_s:g} s")
        body = b"".join(parts)
        if expected is not None and expected.isdigit() and len(body) < int(expected):
            raise HTTPException("the connection broke in the middle of the answer")
        return body

    def _redacted(self, text: str) -> str:
        return text.replace(self._api_key, "…") if self._api_key else text

    def _fail(
        self, problem: str, *, hint: str | None = None, cause: BaseException | None = None, retryable: bool = False
    ) -> NoReturn:
        error = ModelError(f"The embeddings endpoint at {self._host} {problem}", hint=hint)
        error.retryable = retryable
        raise error from cause


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: following it would hand the API key to another host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


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


def _retry_after(value: str | None) -> float:
    """Seconds to wait: "2" -> 2.0, an HTTP date -> the time until then, nothing or nonsense -> 0.0."""
    if not value:
        return 0.0
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return 0.0


def _said(error: urllib.error.HTTPError) -> str:
    """What the endpoint says went wrong: `{"error": {"message": "…"}}`, or the start of its text."""
    try:
        body = error.read(4096)
    except (OSError, HTTPException):
        return ""
    try:
        problem = orjson.loads(body)["error"]
        text = problem["message"] if isinstance(problem, dict) else problem
    except (ValueError, KeyError, TypeError):
        text = body.decode("utf-8", "replace")
    return " ".join(str(text).split())[:200]
