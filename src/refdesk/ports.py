"""The Protocols between the stages and the outside world; each has two implementations or more.

Scores are true scores: a BM25 score or a cosine, never a rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from refdesk.types import Chunk, Scope

Scored = tuple[int, float]  # (chunk id, score)


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """What one forward pass over a chunk gives."""

    vector: NDArray[np.float32]  # (dimensions,), unit length
    sentences: NDArray[np.int8]  # (sentences, dimensions): unit vectors scaled by 127 and rounded


class Embedder(Protocol):
    """Text to vectors. `name` names the vector space: another name is another space, never mixed."""

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """The window, special tokens included."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without special tokens, not truncated."""

    def embed_query(self, text: str) -> NDArray[np.float32]: ...

    def embed_chunks(self, chunks: Sequence[Chunk]) -> list[Embedded]: ...


class Index(Protocol):
    """The derived search index: BM25 and vectors over the chunks the library holds.

    A scope is applied inside the search, so k hits come back whenever k chunks are in scope.
    """

    def lexical(self, terms: Sequence[str], k: int, scope: Scope) -> list[Scored]:
        """The k chunks with the highest BM25 score, best first."""

    def dense(self, vector: NDArray[np.float32], k: int, scope: Scope) -> list[Scored]:
        """The k chunks with the highest cosine, best first."""

    def lexical_scores(self, terms: Sequence[str], chunk_ids: Sequence[int]) -> dict[int, float]:
        """BM25 of just these chunks; one that shares no term is missing."""

    def cosines(self, vector: NDArray[np.float32], chunk_ids: Sequence[int]) -> dict[int, float]:
        """Cosine of just these chunks."""
