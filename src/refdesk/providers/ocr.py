"""OCR with rapidocr (`refdesk[ocr]`): the models come with its package, nothing is downloaded."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.types import OcrEngine, OcrLine

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
