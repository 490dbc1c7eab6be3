"""Models, embedders and rerankers passed in by a program: `Refdesk(…, llm=…, embedder=…, reranker=…)`.

    class Mine:
        name = "mine"

        async def stream(self, request: Request) -> AsyncIterator[Piece]:
            yield Piece(await my_model(request.system, request.messages))

The three protocols are `LLM`, `Embedder` and `Reranker` of ports.py; an embedder may also be just a name and
`embed(texts)`, which gives a vector for each.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Usage
from refdesk.errors import ModelError, ProviderError, ProviderUnavailable, UsageError
from refdesk.models import OWN, model_info
from refdesk.ports import LLM, Embedded, Embedder, ModelRole, Models, Piece, Request
from refdesk.providers.llm import rough_usage
from refdesk.providers.shipped import ShippedTokenizer
from refdesk.types import UNIT, Chunk

BATCH = 64  # texts handed over at once
WINDOW = 512  # tokens of a text, where the embedder does not say


def _unheard(event: object) -> None:
    """Nobody listens."""


@dataclass(frozen=True, slots=True)
class GivenLLM:
    """A model of the program's own. What it raises is told as a provider's failure; usage it leaves out is counted."""

    given: LLM
    on_failure: Callable[[ProviderError], None] = _unheard

    @property
    def name(self) -> str:
        """`provider:model` stays; any other name is one of our own kind."""
        try:
            model_info(self.given.name)
        except UsageError:
            return f"{OWN}:{self.given.name}"
        return self.given.name

    async def stream(self, request: Request) -> AsyncGenerator[Piece, None]:
        text, is_counted = "", False
        try:
            pieces: Any = self.given.stream(request)
            async with aclosing(pieces):
                async for piece in pieces:
                    text, is_counted = text + piece.text, is_counted or piece.usage is not None
                    yield replace(piece, model=self.name)
            if not is_counted:
                yield Piece(usage=rough_usage(request, text) if text else Usage(), finish="stop", model=self.name)
        except ProviderError as error:
            raise self._failed(error) from error
        except Exception as error:
            raise self._failed(ProviderUnavailable(f"{self.name} failed: {type(error).__name__}")) from error

    def _failed(self, error: ProviderError) -> ProviderError:
        error.model = self.name
        self.on_failure(error)
        return error


@dataclass(frozen=True, slots=True)
class GivenModels:
    """The `Models` of a program with a model of its own: it answers; who is named for another role keeps it."""

    llm: GivenLLM
    others: Models

    @property
    def problems(self) -> tuple[str, ...]:
        return self.others.problems

    def for_question(self) -> GivenModels:
        return replace(self, others=self.others.for_question())

    def role(
        self,
        name: ModelRole,
        on_event: Callable[[str], None] | None = None,
        on_failure: Callable[[ProviderError], None] | None = None,
    ) -> LLM | None:
        given = replace(self.llm, on_failure=on_failure or _unheard)
        if name == "answer":
            return given
        named = self.others.role(name, on_event, on_failure)
        may_route = name == "router" and model_info(given.name).tier in ("medium", "large")
        return given if named is None and (name == "summariser" or may_route) else named


class TextEmbedder(Protocol):
    """As little as an embedder can be."""

    @property
    def name(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> Any:
        """A vector for each text."""


class GivenEmbedder:
    """An `Embedder` of one that only turns texts into vectors: chunks and their sentences are texts to it."""

    def __init__(self, given: TextEmbedder) -> None:
        self._given, self._dimensions = given, 0
        self._tokenizer = ShippedTokenizer()
        self.name = given.name
        self.max_tokens = int(getattr(given, "max_tokens", WINDOW))

    @property
    def dimensions(self) -> int:
        return self._dimensions or len(self._vectors(["a"])[0])

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self._tokenizer.count(texts)

    def embed_query(self, text: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self._vectors([text])[0]
        return vector

    def embed_chunks(self, chunks: Sequence[Chunk]) -> list[Embedded]:
        found = []
        for chunk in chunks:
            whole = f"{chunk.context}\n{chunk.text}" if chunk.context else chunk.text
            rows = self._vectors([whole, *(chunk.text[sentence.start : sentence.end] for sentence in chunk.sentences)])
            found.append(Embedded(rows[0], np.rint(rows[1:] * UNIT).astype(np.int8)))
        return found

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Of length 1; an empty text has a vector too."""
        parts = []
        for start in range(0, len(texts), BATCH):
            batch = [text if text.strip() else "." for text in texts[start : start + BATCH]]
            try:
                rows = np.asarray(self._given.embed(batch), dtype=np.float32)
            except Exception as error:
                raise ModelError(f"the embedder {self.name} failed: {type(error).__name__}: {error}") from error
            if rows.ndim != 2 or len(rows) != len(batch) or (self._dimensions and rows.shape[1] != self._dimensions):
                expected = f"{len(batch)} vectors" + (f" of {self._dimensions} dimensions" if self._dimensions else "")
                raise ModelError(
                    f"the embedder {self.name} gave an array of {rows.shape} where {expected} were expected"
                )
            self._dimensions = rows.shape[1]
            parts.append(rows)
        found = np.concatenate(parts)
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        if not np.all(np.isfinite(lengths) & (lengths > 0)):
            raise ModelError(f"the embedder {self.name} gave a zero vector")
        units: NDArray[np.float32] = found / lengths
        return units


def given_embedder(given: Embedder | TextEmbedder) -> Embedder:
    """As it is where it does all that an `Embedder` does."""
    if hasattr(given, "embed_query") and hasattr(given, "embed_chunks"):
        whole: Any = given
        embedder: Embedder = whole
        return embedder
    texts: Any = given
    if not (hasattr(given, "embed") and hasattr(given, "name")):
        raise UsageError("an embedder needs a name and embed(texts)", hint="see docs/embedding.md")
    return GivenEmbedder(texts)


def checked_llm(given: LLM) -> GivenLLM:
    if not (hasattr(given, "stream") and hasattr(given, "name")):
        raise UsageError("a model needs a name and stream(request)", hint="see docs/models.md")
    return GivenLLM(given)
