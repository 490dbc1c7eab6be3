"""Does a question ask for a number? Learned from questions whose answers are known (benchmarks/number_questions.py)."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refdesk.ask.understanding.examples import ASSETS, SHIPPED
from refdesk.ports import Embedder

FILE = ASSETS / "number_questions.npy"  # a weight for each dimension of the question's vector, then the constant


def asks_for_number(vector: Any, embedder: Embedder) -> float:
    """The chance; 0 for embedders that it was not learned for."""
    if embedder.name != SHIPPED:
        return 0.0
    weights = _weights()
    return 1.0 / (1.0 + math.exp(-float(vector @ weights[:-1] + weights[-1])))


@cache
def _weights() -> NDArray[np.float32]:
    found: NDArray[np.float32] = np.load(FILE)
    return found
