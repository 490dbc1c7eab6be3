"""Which labelled questions are nearest to this one? Their labels say what kind of question it is.

The examples are ours (assets/questions.json); their vectors for the shipped embedder stand beside them, made by
scripts/embed_questions.py. For another embedder they are made in the background, once: no question waits for them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from refdesk.ports import Embedder

ASSETS = Path(__file__).parent.parent.parent / "assets"
QUESTIONS_FILE, VECTORS_FILE = "questions.json", "questions.npy"
SHIPPED = "minilm-l6-v2-int8"  # the embedder that the kept vectors belong to
NEAREST = 7  # examples that vote


@dataclass(frozen=True, slots=True, eq=False)
class Examples:
    """Labelled questions and their unit vectors."""

    labels: tuple[str, ...]
    vectors: NDArray[np.float32]

    def votes(self, vector: NDArray[np.float32]) -> dict[str, float]:
        """The share of each label among the nearest examples, weighed by how near they are; best first."""
        cosines = np.vecdot(self.vectors, vector)
        nearest = np.argsort(-cosines)[:NEAREST]
        weights = np.exp(10.0 * (cosines[nearest] - cosines[nearest[0]]))  # a cosine .1 lower counts a third
        votes: dict[str, float] = {}
        for place, weight in zip(nearest, weights / weights.sum(), strict=True):
            votes[self.labels[place]] = votes.get(self.labels[place], 0.0) + float(weight)
        return dict(sorted(votes.items(), key=lambda vote: -vote[1]))

    def closest(self, vector: NDArray[np.float32]) -> dict[str, float]:
        """Per label the cosine of its nearest example."""
        cosines = np.vecdot(self.vectors, vector)
        closest: dict[str, float] = {}
        for label, cosine in zip(self.labels, cosines, strict=True):
            closest[label] = max(closest.get(label, -1.0), float(cosine))
        return closest


@cache
def questions() -> tuple[tuple[str, str], ...]:
    """(label, question) of every example, in the order of the kept vectors."""
    listed: Mapping[str, list[str]] = json.loads((ASSETS / QUESTIONS_FILE).read_text(encoding="utf-8"))
    return tuple((label, text) for label, texts in listed.items() for text in texts)


_made: dict[str, Examples | None] = {}  # by embedder; None while they are being made, or when that failed
_making = threading.Lock()


def examples(embedder: Embedder) -> Examples | None:
    """The examples in the embedder's space; None until they are there, and rules alone decide."""
    with _making:
        if embedder.name not in _made:
            _made[embedder.name] = None
            if embedder.name == SHIPPED:
                kept = np.load(ASSETS / VECTORS_FILE).astype(np.float32)
                _made[embedder.name] = _examples(kept)
            else:
                threading.Thread(target=_make, args=(embedder,), name="examples", daemon=True).start()
    return _made[embedder.name]


def _make(embedder: Embedder) -> None:
    try:
        vectors = np.stack([embedder.embed_query(text) for _, text in questions()])
    except Exception:  # a server that does not answer: rules alone decide
        return
    _made[embedder.name] = _examples(vectors)


def _examples(vectors: NDArray[np.float32]) -> Examples:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return Examples(tuple(label for label, _ in questions()), vectors / np.maximum(lengths, 1e-9))
