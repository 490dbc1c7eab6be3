"""What comes with an extra: a reranker of the user's own (`refdesk[rerank]`), and OCR (`refdesk[ocr]`), on the CPU."""

from __future__ import annotations

import importlib.util
import json
import logging
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Query
from refdesk.errors import ExtraMissing, ModelError
from refdesk.providers.shipped import one_thread_session
from refdesk.types import Hit, OcrEngine, OcrLine

# A cross-encoder: a folder with `model.onnx` and `tokenizer.json`. Any export whose inputs are `input_ids`,
# `attention_mask` and perhaps `token_type_ids`, and whose first output has one score per pair (or two classes, of which
# the last means "relevant"), will do.

MODEL_FILE, TOKENIZER_FILE = "model.onnx", "tokenizer.json"
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
            "input_ids": [one.ids for one in encoded],
            "attention_mask": [one.attention_mask for one in encoded],
            "token_type_ids": [one.type_ids for one in encoded],
        }
        wanted = {one.name for one in model.get_inputs()}
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
        names = {one.name for one in model.get_inputs()}
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
    return [1.0 / (1.0 + math.exp(-max(-50.0, min(50.0, float(one))))) for one in logits]


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


def _shared(one: OcrLine, other: OcrLine) -> float:
    """Common area as a share of the smaller of the two."""
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    if width <= 0 or height <= 0:
        return 0.0
    areas = [(line.right - line.left) * (line.bottom - line.top) for line in (one, other)]
    return width * height / max(min(areas), 1.0)
