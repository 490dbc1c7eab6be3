"""The Protocols between the stages and the outside world; each has at least two implementations, one in memory.

Scores are true scores: a BM25 score or a cosine, never a rank.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from refdesk.answer import Query, Turn, Usage
from refdesk.errors import ProviderError
from refdesk.records import LibraryState, Older
from refdesk.types import Chunk, Hit, Reading, Scope

Scored = tuple[int, float]  # (chunk id, score)


@dataclass(frozen=True, slots=True, eq=False)
class Embedded:
    """What one forward pass over a chunk gives."""

    vector: NDArray[np.float32]  # (dimensions,), unit length
    sentences: NDArray[np.int8]  # (sentences, dimensions): unit vectors scaled by 127 and rounded


class Embedder(Protocol):
    """Text to vectors. `name` names the embedding model: vectors of two models are never mixed."""

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


class TokenEmbedder(Protocol):
    """Text to a vector for each of its tokens, with the tokens' numbers."""

    @property
    def name(self) -> str: ...

    @property
    def layers(self) -> int:
        """How many vectors of a token stand side by side, each of which is compared with its like."""

    @property
    def is_trained(self) -> bool:
        """Whether it has learned to be compared token by token; else its vectors have a direction in common."""

    def chunk_tokens(self, chunk: Chunk) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...

    def query_tokens(self, text: str) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...


class TokenVectors(Protocol):
    """The tokens of all chunks, for late interaction; derived, and not kept unless the owner wants it."""

    @property
    def count(self) -> int:
        """How many chunks have their tokens kept."""

    @property
    def nbytes(self) -> int: ...

    def scores(self, text: str, chunk_ids: Sequence[int]) -> dict[int, float]:
        """How well a chunk's tokens meet those of the text, from -1 to 1; a chunk without its tokens is missing."""

    def sync(self, report: Callable[[int, int], None] = ...) -> int:
        """Embeds what is new and lets go what is gone; gives how many chunks were embedded."""


class Index(Protocol):
    """The derived search index: BM25 and vectors over the chunks the library holds.

    A scope is applied inside the search, so k hits come back whenever k chunks are in scope.
    """

    @property
    def languages(self) -> tuple[str, ...]:
        """Of the documents, the most frequent first."""

    def refresh(self) -> LibraryState:
        """Looks at the library as it is now; cheap when nothing has changed."""

    def lexical(self, terms: Sequence[str], k: int, scope: Scope) -> list[Scored]:
        """The k chunks with the highest BM25 score, best first; a term that is there twice counts more."""

    def dense(self, vector: NDArray[np.float32], k: int, scope: Scope) -> list[Scored]:
        """The k chunks with the highest cosine, best first."""

    def lexical_scores(self, terms: Sequence[str], chunk_ids: Sequence[int]) -> dict[int, float]:
        """BM25 of just these chunks; one that shares no term is missing."""

    def cosines(self, vector: NDArray[np.float32], chunk_ids: Sequence[int]) -> dict[int, float]:
        """Cosine of just these chunks."""

    def resembling(
        self, terms: Sequence[str], distance: int, k: int, scope: Scope, without: Collection[str] = ()
    ) -> list[int]:
        """Chunks that hold a term within an edit distance (2 at most; two letters swapped count once).

        Those that hold a term of `without` are left out.
        """

    def count(self, scope: Scope) -> int:
        """How many chunks are in scope."""

    def frequency(self, term: str, scope: Scope) -> int:
        """How many chunks in scope hold a term."""


# asking


class Reranker(Protocol):
    """Orders hits by how well they answer; gives the same hits with `score` replaced, best first."""

    @property
    def name(self) -> str: ...

    def rerank(
        self,
        query: Query,
        hits: Sequence[Hit],
        sentence_vectors: Mapping[int, NDArray[np.int8]],
        idf: Mapping[str, float],
    ) -> list[Hit]: ...


LEARNED_LANGUAGES = frozenset({"en", ""})  # that a reader has learned; "" is not known


class Reader(Protocol):
    """Reads a question and one chunk together."""

    @property
    def name(self) -> str: ...

    def read(self, question: str, chunk: Chunk) -> Reading | None:
        """What the chunk says to the question; None where it cannot tell."""

    def judge_plans(self, question: str, stated: Sequence[str]) -> list[float]:
        """How well each of these plans over tables, said in words, answers; logits. Empty where it cannot tell."""

    def judge_claim(self, claim: str, evidence: str, title: str) -> float | None:
        """Whether the evidence, from a page of this title, supports the claim; a logit. None where it cannot tell."""

    def name_vectors(self, names: Sequence[str]) -> NDArray[np.float32] | None:
        """A vector of length 1 for each; names that mean the same lie near one another. None where it cannot tell."""

    def spelled(self, name: str) -> str:
        """With the short forms that it knows as what they stand for: "COGS" as "cost of goods sold"."""

    def meant_row(self, name: str, rows: Sequence[str]) -> tuple[int, float]:
        """The row whose name is nearest to this one, and the chance that it is the row that is meant."""


class NoReader:
    """The `Reader` of a library that does without: sentences are chosen by their vectors and words."""

    name = "none"

    def read(self, question: str, chunk: Chunk) -> None:
        """It cannot tell."""

    def judge_plans(self, question: str, stated: Sequence[str]) -> list[float]:
        return []

    def judge_claim(self, claim: str, evidence: str, title: str) -> None:
        """It cannot tell."""

    def name_vectors(self, names: Sequence[str]) -> None:
        """It cannot tell."""

    def spelled(self, name: str) -> str:
        return name

    def meant_row(self, name: str, rows: Sequence[str]) -> tuple[int, float]:
        return 0, 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a model. `schema` asks for JSON of that shape; `role` is for the trace."""

    system: str
    messages: tuple[Turn, ...]
    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0  # 0: as the model does by itself
    schema: Mapping[str, Any] | None = None
    stop: tuple[str, ...] = ()
    role: str = "answer"
    thinking: int = 0  # tokens that it may think first, where it can be told so


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a streamed completion; the last one carries the usage and why it ended.

    `restarted`: the stream broke and another model begins anew; all text before is void, and `model` names the new one.
    """

    text: str = ""
    usage: Usage | None = None
    finish: str = ""  # stop, length
    model: str = ""
    restarted: bool = False


class LLM(Protocol):
    """A model that writes. Failures are `ProviderError`s; closing the iterator ends the request."""

    @property
    def name(self) -> str:
        """`openai:gpt-4o-mini`."""

    def stream(self, request: Request) -> AsyncIterator[Piece]: ...


ModelRole = Literal["answer", "router", "verifier", "reconciler", "summariser"]


class Models(Protocol):
    """The models that are named, by what they do."""

    def role(
        self,
        name: ModelRole,
        on_event: Callable[[str], None] | None = None,
        on_failure: Callable[[ProviderError], None] | None = None,
    ) -> LLM | None:
        """The model for this role, None where none is named.

        `on_event` hears of tries that fail, `on_failure` of models that were given up, one that stands in or not.
        """

    @property
    def problems(self) -> tuple[str, ...]:
        """Of models that are named and cannot be used, in sentences."""

    def for_question(self) -> Models:
        """The same models for one question: however often one of them fails it, that counts once."""


class NoModels:
    """The `Models` of a library without a model: answers are quoted from the documents."""

    problems: tuple[str, ...] = ()

    def role(self, name: ModelRole, on_event: object = None, on_failure: object = None) -> None:
        """There is none."""

    def for_question(self) -> NoModels:
        return self


class Cache(Protocol):
    """Answers by key, and by nearness of question within a key's namespace.

    A namespace is everything but the question: scope, access, level, mode, settings, model and corpus version.
    It begins with that version and a dash (`17-…`), so that a cache can let go what is out of date.
    """

    def get(self, namespace: str, question: str) -> bytes | None: ...

    def nearest(self, namespace: str, vector: NDArray[np.float32], k: int) -> list[tuple[str, float, bytes]]:
        """(question, cosine, answer) of the k most similar questions, best first; only those not expired."""

    def put(self, namespace: str, question: str, vector: NDArray[np.float32] | None, answer: bytes) -> None: ...

    def clear(self) -> None: ...


class Conversations(Protocol):
    """What answering reads and writes of a conversation; `owner` None sees everyone's."""

    def turns(self, conversation_id: str, most: int, *, owner: str | None = None) -> list[Turn]:
        """The last messages, oldest first; empty for an unknown conversation.

        A question whose answer was stopped before its first word is left out: nothing was said to it.
        """

    def append(self, conversation_id: str, turns: Sequence[Turn], answer_id: str = "", *, owner: str = "") -> None:
        """Adds messages, written when it returns; a new conversation is begun, its first question being its title.

        `owner` is who speaks: only in a conversation of his own, unless he sits at the machine ("").
        """

    def older(self, conversation_id: str, keep: int, *, owner: str | None = None) -> Older:
        """What was said before the last `keep` messages and is not in the summary yet."""

    def set_summary(self, conversation_id: str, summary: str, until: int, *, owner: str | None = None) -> None:
        """`until` is that of the `Older` which the summary was made of."""
