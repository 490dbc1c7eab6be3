"""What OCR gives: lines of text with their place in the image. Pure values, shared by parsers and adapters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class OcrLine:
    """A line that OCR read: its text and its edges in pixels of the image it was given."""

    text: str
    left: float
    top: float
    right: float
    bottom: float


OcrEngine = Callable[[NDArray[np.uint8]], list[OcrLine]]  # an RGB image -> its lines, top to bottom
