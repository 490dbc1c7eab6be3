"""What the tests of edges share: texts, an embedder of words without a model, a model that says what it is told."""

from __future__ import annotations

import json
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from golden_files import check
from refdesk.answer import Usage
from refdesk.ports import ModelRole, Piece, Request
from refdesk.text import terms

DIMENSIONS = 48
TEXTS = json.loads((Path(__file__).parent / "edge_texts.json").read_text(encoding="utf-8"))


def freeze(name: str, value: object) -> None:
    check("edges-ask.json", value, name)


def embed(text: str) -> NDArray[np.float32]:
    """A unit vector with a place for each word: texts that share words are near, on every processor alike."""
    vector = np.full(DIMENSIONS, 0.05)
    for term in terms(text):
        vector[zlib.crc32(term.encode()) % DIMENSIONS] += 1.0
    return (vector / np.linalg.norm(vector)).astype(np.float32)


class Says:
    """A model that says these texts, one a call, and keeps what it was asked."""

    def __init__(self, *texts: str, name: str = "openai:gpt-4o") -> None:
        self.name, self.texts = name, list(texts)
        self.asked: list[Request] = []

    async def stream(self, request: Request) -> AsyncIterator[Piece]:
        self.asked.append(request)
        text = self.texts.pop(0)
        half = len(text) // 2
        yield Piece(text=text[:half])
        yield Piece(text=text[half:], usage=Usage(10, 5, 0.25, 1), finish="stop", model=self.name)


class Named:
    """Models by role."""

    def __init__(self, **models: Says) -> None:
        self.models = models

    def role(self, role: ModelRole) -> Says | None:
        return self.models.get(role)
