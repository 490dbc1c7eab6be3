"""Functional summaries of chunks by a model: telegraphic, 80 to 90 % shorter, with what the chunk defines.

    Fuel rates by ship, 2024–25. DEFINES: slow steaming = below 12 kn. CONDITIONS: rates hold in calm sea. REFS: Table 3

Beside it up to three questions that the chunk answers. Both are embedded, searched by a survey, and never quoted. What
a model leaves out, or writes at such length that it is no summary, is asked for once more by itself, then left out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refdesk.errors import ProviderError, ProviderUnavailable
from refdesk.models import estimate, model_info
from refdesk.ports import LLM, Embedder
from refdesk.prompts import FENCE_CLOSES, FENCE_OPENS, SUMMARISE_SCHEMA, SUMMARISE_SYSTEM
from refdesk.summaries import WrittenSummary
from refdesk.text import rough_tokens
from refdesk.trace import Stage, model_reply
from refdesk.types import Chunk, Document

AT_ONCE = 8  # chunks in one request
SIDE_BY_SIDE = 4  # requests
LONGEST_SHARE = 0.5  # of the chunk's characters: what is longer is no summary
SHORTEST = 240  # characters that any chunk may have for it: flags take room
LONGEST_QUESTION, MOST_QUESTIONS = 300, 3
WRITTEN_TOKENS = 90  # of a chunk's summary and questions, on average
THOUGHTS = 1_500  # of a model that thinks before it writes
MOST_FAILURES = 3  # requests in a row; then the model is not there


@dataclass(frozen=True, slots=True)
class SummaryCost:
    """What is to be done, said before it is begun."""

    model: str
    chunks: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None  # None: no price is known
    what: str = "chunk"  # is summed up

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__ if name != "what"}

    @property
    def sentence(self) -> str:
        price = "its price is not known" if self.cost_usd is None else f"about ${self.cost_usd:,.2f}"
        if self.cost_usd == 0:
            price = "which costs nothing"
        tokens = f"about {self.prompt_tokens:,} tokens to read and {self.completion_tokens:,} to write"
        return f"{self.chunks:,} {_several(self.what, self.chunks)}, {tokens} with {self.model}: {price}"


def _several(what: str, count: int) -> str:
    """`section or document`, 2 -> 'sections or documents'."""
    return what if count == 1 else " ".join(word if word == "or" else f"{word}s" for word in what.split())


def summary_cost(model: str, chunks: Sequence[Chunk]) -> SummaryCost:
    requests = -(-len(chunks) // AT_ONCE)
    read = requests * rough_tokens(SUMMARISE_SYSTEM) + sum(rough_tokens(chunk_block(chunk)) for chunk in chunks)
    write = WRITTEN_TOKENS * len(chunks) + THOUGHTS * requests * model_info(model).thinks
    return SummaryCost(model, len(chunks), read, write, estimate(model, read, write) if chunks else 0.0)


class Summariser:
    """One job's model; counts what it could not do."""

    def __init__(self, model: LLM, embedder: Embedder) -> None:
        self._model, self._embedder = model, embedder
        self._left_out = self._failures = 0

    @property
    def said(self) -> str:
        """What is to be known of the end of it."""
        count = self._left_out
        return f"{count} chunk{'s' * (count != 1)} got no summary that can be used" if count else ""

    def batches(self, chunks: Sequence[Chunk]) -> Iterator[Sequence[Chunk]]:
        """What is written down in one step."""
        size = AT_ONCE * SIDE_BY_SIDE
        for at in range(0, len(chunks), size):
            yield chunks[at : at + size]

    async def write(self, document: Document, chunks: Sequence[Chunk]) -> list[WrittenSummary]:
        """Summaries of these chunks of one document; those that came out usable."""
        some = [chunks[at : at + AT_ONCE] for at in range(0, len(chunks), AT_ONCE)]
        found: dict[int, tuple[str, tuple[str, ...]]] = {}
        for summaries in await asyncio.gather(*(self._asked(document, batch) for batch in some)):
            found |= summaries
        again = [chunk for chunk in chunks if chunk.sequence not in found] if len(chunks) > 1 else []
        for summaries in await asyncio.gather(*(self._asked(document, [chunk]) for chunk in again)):
            found |= summaries
        self._left_out += len(chunks) - len(found)
        return await asyncio.to_thread(self._embedded, found)

    async def _asked(self, document: Document, chunks: Sequence[Chunk]) -> dict[int, tuple[str, tuple[str, ...]]]:
        text = "\n\n".join(
            [f"Document: {' '.join(document.name.split())}", FENCE_OPENS, *map(chunk_block, chunks), FENCE_CLOSES]
        )
        most = 3 * WRITTEN_TOKENS * len(chunks) + THOUGHTS * model_info(self._model.name).thinks
        part = Stage("summarise", 0.0)
        try:
            reply = await model_reply(self._model, SUMMARISE_SYSTEM, text, SUMMARISE_SCHEMA, most, part, "summariser")
        except ProviderError as error:
            self._failures += 1
            if self._failures >= MOST_FAILURES or not isinstance(error, ProviderUnavailable):
                raise
            return {}
        self._failures = 0
        return usable(reply, chunks)

    def _embedded(self, found: Mapping[int, tuple[str, tuple[str, ...]]]) -> list[WrittenSummary]:
        written = []
        for sequence, (text, questions) in sorted(found.items()):
            rows = np.stack([self._embedder.embed_query(question) for question in (text, *questions)])
            scaled = np.clip(np.rint(rows * 127.0), -127, 127).astype(np.int8)
            written.append(WrittenSummary(sequence, text, questions, scaled, self._model.name))
        return written


def chunk_block(chunk: Chunk) -> str:
    heading = " > ".join(chunk.heading_path)
    return f"--- CHUNK {chunk.sequence} ({heading}) ---\n{chunk.text.replace('=====', '＝').replace('---', '—')}"


def usable(reply: str, chunks: Sequence[Chunk]) -> dict[int, tuple[str, tuple[str, ...]]]:
    """By sequence number what a model wrote of these chunks; what is malformed, unknown or too long is left out."""
    try:
        read = json.loads(reply[reply.find("{") : reply.rfind("}") + 1])
        rows = read["chunks"]
    except (ValueError, KeyError, TypeError):
        return {}
    known = {chunk.sequence: chunk for chunk in chunks}
    found: dict[int, tuple[str, tuple[str, ...]]] = {}
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, dict) or isinstance(row.get("chunk"), bool):
            continue
        chunk = known.get(row["chunk"]) if isinstance(row.get("chunk"), int) else None
        summary = row.get("summary")
        if chunk is None or not isinstance(summary, str):
            continue
        text = " ".join(summary.split())
        if text and len(text) <= max(SHORTEST, LONGEST_SHARE * len(chunk.text)):
            found[chunk.sequence] = (text, _questions(row.get("questions")))
    return found


def _questions(listed: object) -> tuple[str, ...]:
    texts = [" ".join(text.split()) for text in listed if isinstance(text, str)] if isinstance(listed, list) else []
    return tuple(dict.fromkeys(text for text in texts if 0 < len(text) <= LONGEST_QUESTION))[:MOST_QUESTIONS]
