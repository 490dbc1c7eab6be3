"""Optional providers: an embedder over HTTP, token vectors, and a reranker and OCR that come as extras.

The embedder is any OpenAI-compatible `/embeddings` endpoint, the reranker a file of the user's own (`refdesk[rerank]`),
and OCR (`refdesk[ocr]`) runs on the CPU like it. Token vectors for late interaction are of the shipped embedder, or of
a ColBERT model in a folder.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import json
import logging
import math
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import orjson
from numpy.typing import NDArray

from refdesk.answer import Query
from refdesk.config import GIVEN_EMBEDDER, SHIPPED_EMBEDDER, Config
from refdesk.errors import (
    ExtraMissing,
    ModelError,
    ProviderInterrupted,
    ProviderRefused,
    ProviderUnavailable,
    UsageError,
)
from refdesk.ports import Embedded, Embedder, TokenEmbedder
from refdesk.providers.shipped import OnnxEmbedder, ShippedTokenizer, one_thread_session
from refdesk.providers.wire import Endpoint, post, wait_before
from refdesk.types import UNIT, Chunk, Hit, OcrEngine, OcrLine

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
            embedded.append(Embedded(vector, np.rint(table * UNIT).astype(np.int8)))
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
            problem = f"gave an unreadable answer ({error or type(error).__name__})"
            raise ModelError(self._endpoint.problem(problem)) from error
        if self._dimensions not in (None, vectors.shape[1]):
            raise ModelError(
                self._endpoint.problem(
                    f"gave vectors of {vectors.shape[1]} dimensions where {self._dimensions} were expected"
                ),
                hint="use the model and dimensions the library was built with",
            )
        self._dimensions = vectors.shape[1]
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.all(np.isfinite(norms) & (norms > 0)):
            raise ModelError(self._endpoint.problem("gave a zero vector"))
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
                    tries = f" after {attempt} attempts" if attempt > 1 else ""
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
    if config.embedder in (SHIPPED_EMBEDDER, GIVEN_EMBEDDER):  # given: workers count tokens, the program embeds
        return OnnxEmbedder(threads=threads)
    return HttpEmbedder(
        config.embedder.removeprefix("openai:"),
        config.embedder_base_url,
        config.embedder_api_key,
        dimensions=config.embedder_dimensions or None,
    )


# A cross-encoder: a folder with `model.onnx` and `tokenizer.json`. Any export whose inputs are `input_ids`,
# `attention_mask` and perhaps `token_type_ids`, and whose first output has one score per pair (or two classes, of which
# the last means "relevant"), will do.

MODEL_FILE, TOKENIZER_FILE = "model.onnx", "tokenizer.json"
# --- with an extra ----------------------------------------------------------------------------------------------------

INPUTS = frozenset({"input_ids", "attention_mask", "token_type_ids"})
LONGEST = 512  # tokens of a pair where the folder names no limit
BATCH = 8
HINT = "rag.reranker needs a folder with model.onnx and tokenizer.json; leave it empty to rerank by sentences"


class OnnxReranker:
    """A `Reranker` that reads question and passage together; loaded when first used, safe to share between threads."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).expanduser()
        self.name = f"onnx:{self.folder.name}"
        self._lock = threading.Lock()
        self._model: Any = None
        self._tokenizer: Any = None

    def rerank(
        self, query: Query, hits: Sequence[Hit], sentence_vectors: Mapping[int, Any], idf: Mapping[str, float]
    ) -> list[Hit]:
        """The same hits with the model's score, between 0 and 1, best first."""
        if not hits:
            return []
        model, tokenizer = self._load()
        texts = [f"{hit.chunk.context}\n{hit.chunk.text}" if hit.chunk.context else hit.chunk.text for hit in hits]
        scores: list[float] = []
        for start in range(0, len(texts), BATCH):
            scores += self._scores(model, tokenizer, query.standalone, texts[start : start + BATCH])
        scored = [replace(hit, score=score) for hit, score in zip(hits, scores, strict=True)]
        return sorted(scored, key=lambda hit: -hit.score)

    def _scores(self, model: Any, tokenizer: Any, question: str, texts: Sequence[str]) -> list[float]:
        encoded = tokenizer.encode_batch([(question, text) for text in texts])
        columns = {
            "input_ids": [encoding.ids for encoding in encoded],
            "attention_mask": [encoding.attention_mask for encoding in encoded],
            "token_type_ids": [encoding.type_ids for encoding in encoded],
        }
        wanted = {get_input.name for get_input in model.get_inputs()}
        feed = {name: np.array(rows, dtype=np.int64) for name, rows in columns.items() if name in wanted}
        try:
            output = np.asarray(model.run(None, feed)[0], dtype=np.float64)
        except Exception as error:  # onnxruntime's errors share no base class
            raise ModelError(f"the reranker in {self.folder} failed: {_first_line(error)}", hint=HINT) from error
        return _chances(self.folder, output, len(texts))

    def _load(self) -> tuple[Any, Any]:
        with self._lock:
            if self._model is None:
                self._tokenizer = self._read_tokenizer()
                self._model = self._read_model()
            return self._model, self._tokenizer

    def _read_tokenizer(self) -> Any:
        try:
            import tokenizers
        except ImportError as error:
            raise ExtraMissing("a reranker needs an extra package", hint="pip install 'refdesk[rerank]'") from error
        path = self._file(TOKENIZER_FILE)
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the tokenizers library raises plain Exception
            raise ModelError(f"{path} is no tokenizer: {_first_line(error)}", hint=HINT) from error
        tokenizer.enable_truncation(self._longest(), strategy="only_second")
        tokenizer.enable_padding()
        return tokenizer

    def _read_model(self) -> Any:
        path = self._file(MODEL_FILE)
        try:
            model = one_thread_session(str(path))
        except Exception as error:  # onnxruntime's errors share no base class
            raise ModelError(f"{path} is no ONNX model: {_first_line(error)}", hint=HINT) from error
        names = {get_input.name for get_input in model.get_inputs()}
        if "input_ids" not in names or not names <= INPUTS:
            raise ModelError(f"{path} is no cross-encoder: it wants {', '.join(sorted(names))}", hint=HINT)
        return model

    def _file(self, name: str) -> Path:
        if not self.folder.is_dir():
            raise ModelError(f"there is no folder {self.folder}", hint=HINT)
        path = self.folder / name
        if not path.is_file():
            raise ModelError(f"{self.folder} holds no {name}", hint=HINT)
        return path

    def _longest(self) -> int:
        """The least limit that the folder's configuration names."""
        named = [LONGEST]
        for name, key in (("tokenizer_config.json", "model_max_length"), ("config.json", "max_position_embeddings")):
            path = self.folder / name
            if path.is_file():
                try:
                    value = json.loads(path.read_text(encoding="utf-8")).get(key)
                except (OSError, ValueError, AttributeError) as error:
                    raise ModelError(f"{path} cannot be read: {_first_line(error)}", hint=HINT) from error
                if isinstance(value, int | float) and 8 <= value <= 1_000_000:  # 1e30 stands for "no limit"
                    named.append(int(value))
        return min(named)


def _chances(folder: Path, output: NDArray[np.float64], count: int) -> list[float]:
    """Scores between 0 and 1 from logits of one or two classes."""
    rows = output.reshape(len(output), -1) if output.ndim else output.reshape(1, 1)
    if len(rows) != count or rows.shape[1] not in (1, 2) or not np.isfinite(rows).all():
        shape = " × ".join(map(str, output.shape))
        raise ModelError(f"the reranker in {folder} gives {shape} values, not one score per passage", hint=HINT)
    logits = rows[:, 0] if rows.shape[1] == 1 else rows[:, 1] - rows[:, 0]
    return [1.0 / (1.0 + math.exp(-max(-50.0, min(50.0, float(logit))))) for logit in logits]


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# OCR with rapidocr: the models come with its package, nothing is downloaded.

DOUBLE = 0.5  # of the smaller box


def load_ocr() -> OcrEngine | None:
    """An engine that loads its models at first use, or None when rapidocr or its models are not installed."""
    spec = importlib.util.find_spec("rapidocr")
    if spec is None or spec.origin is None:
        return None
    models = _models(Path(spec.origin).parent / "models")
    return RapidOcr(models) if models is not None else None


def _models(folder: Path) -> dict[str, str] | None:
    """The three model files by task; None if one is missing, since rapidocr would fetch it from the network."""
    found = {}
    for task in ("det", "cls", "rec"):
        files = sorted(folder.glob(f"*_{task}_*.onnx"))
        if not files:
            return None
        found[task] = str(files[0])
    return found


class RapidOcr:
    """Callable: an RGB image -> its lines, top to bottom. One thread, so that workers do not fight over cores."""

    def __init__(self, models: dict[str, str]) -> None:
        self._models = models
        self._engine: Any = None

    def __call__(self, image: NDArray[np.uint8]) -> list[OcrLine]:
        if self._engine is None:
            self._engine = self._load()
        found = self._engine(np.ascontiguousarray(image[:, :, ::-1]))  # rapidocr takes BGR
        if found.boxes is None or found.txts is None:
            return []
        scored = []
        for corners, text, score in zip(found.boxes, found.txts, found.scores, strict=True):
            left, top = np.min(corners, axis=0).tolist()
            right, bottom = np.max(corners, axis=0).tolist()
            if text.strip():
                scored.append((float(score), OcrLine(text, left, top, right, bottom)))
        return sorted(_without_doubles(scored), key=lambda line: (line.top + line.bottom) / 2)

    def _load(self) -> Any:
        from rapidocr import RapidOCR  # heavy: OpenCV and onnxruntime

        logging.getLogger("RapidOCR").setLevel(logging.ERROR)
        return RapidOCR(
            params={
                "Global.log_level": "error",
                "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                "Det.model_path": self._models["det"],
                "Cls.model_path": self._models["cls"],
                "Rec.model_path": self._models["rec"],
            }
        )

    def __reduce__(self) -> tuple[Any, ...]:  # crosses to worker processes without its models
        return (RapidOcr, (self._models,))


def _without_doubles(scored: list[tuple[float, OcrLine]]) -> list[OcrLine]:
    """Of two lines read at the same place the surer one stays."""
    kept: list[OcrLine] = []
    for _, line in sorted(scored, key=lambda entry: -entry[0]):
        if not any(_shared(line, other) > DOUBLE for other in kept):
            kept.append(line)
    return kept


def _shared(ocr_line: OcrLine, other: OcrLine) -> float:
    """Common area as a share of the smaller of the two."""
    width = min(ocr_line.right, other.right) - max(ocr_line.left, other.left)
    height = min(ocr_line.bottom, other.bottom) - max(ocr_line.top, other.top)
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(line.right - line.left) * (line.bottom - line.top) for line in (ocr_line, other)]
    return width * height / max(min(areas), 1.0)


# --- token vectors, of the shipped embedder or of a ColBERT model (ONNX) in a folder ----------------------------------


Tokens = tuple[NDArray[np.int32], NDArray[np.float32]]
LONGEST_TOKENS = 512  # tokens
# Before a question and before a passage, as ColBERTv2 was trained; a vocabulary without them does without.
MARKS = ("[unused0]", "[unused1]")
COLBERT_HINT = "choose a folder with model.onnx and tokenizer.json"


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
        ids = tokenizer.encode(text).ids[:LONGEST_TOKENS]
        marked = tokenizer.token_to_id(mark)
        ids = ids if marked is None else [*ids[:1], marked, *ids[1:]][:LONGEST_TOKENS]
        row = np.array([ids], dtype=np.int64)
        wanted = {model_input.name for model_input in model.get_inputs()}
        feed = {"input_ids": row, "attention_mask": np.ones_like(row), "token_type_ids": np.zeros_like(row)}
        try:
            output = np.asarray(model.run(None, {name: feed[name] for name in wanted})[0], dtype=np.float32)
        except Exception as error:  # onnxruntime's errors share no base class
            reason = str(error).splitlines()[0]
            raise ModelError(f"the model in {self._folder} failed: {reason}", hint=COLBERT_HINT) from error
        if output.ndim != 3 or output.shape[1] != len(ids):
            raise ModelError(f"the model in {self._folder} gives no vector for each token", hint=COLBERT_HINT)
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
            raise ModelError(f"{self._folder} holds no {missing[0]}", hint=COLBERT_HINT)
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(self._folder / "tokenizer.json"))
            return one_thread_session(str(self._folder / "model.onnx")), tokenizer
        except Exception as error:  # both libraries raise what they like
            reason = str(error).splitlines()[0]
            raise ModelError(f"the model in {self._folder} does not open: {reason}", hint=COLBERT_HINT) from error


@lru_cache(maxsize=4)
def token_embedder(folder: str) -> TokenEmbedder:
    """The model in a folder, loaded once; "" is the shipped one."""
    return ColbertTokens(folder) if folder else ShippedTokens(OnnxEmbedder())
