"""Summaries of the tree's sections and documents, written by a model if one is set.

    chunks of a section → its summary; summaries of the sections → that of the document (RAPTOR, arXiv 2401.18059)

The words are searched and never quoted: a node keeps the sentences that prove it, and its vector is the mean of its
own and that of the summary. What a model leaves empty or writes at too great length stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from refdesk.errors import ProviderError, ProviderUnavailable
from refdesk.ingest.summarise import MOST_FAILURES, THOUGHTS, SummaryCost, chunk_block
from refdesk.models import estimate, model_info
from refdesk.ports import LLM, Embedder
from refdesk.prompts import FENCE_CLOSES, FENCE_OPENS, SUM_UP_SCHEMA, SUM_UP_SYSTEM
from refdesk.summaries import DOCUMENT, SECTION, TreeNode
from refdesk.text import rough_tokens
from refdesk.trace import Stage, json_reply
from refdesk.types import Chunk, Document

READ_CHARACTERS = 12_000  # of one section or document; what is longer is cut
WRITTEN_TOKENS = 120  # of one summary, on average
LONGEST = 1_200  # characters of a summary


def tree_cost(model: str, nodes: Sequence[TreeNode], chunks: Sequence[Chunk]) -> SummaryCost:
    """What summaries of these nodes take; `chunks` are those of their documents."""
    sections = [node for node in nodes if node.level == SECTION]
    read = len(nodes) * rough_tokens(SUM_UP_SYSTEM) + sum(rough_tokens(_told(node, chunks)) for node in sections)
    read += WRITTEN_TOKENS * len(sections)  # documents are summed up from what was written of their sections
    write = (WRITTEN_TOKENS + THOUGHTS * model_info(model).thinks) * len(nodes)
    price = estimate(model, read, write) if nodes else 0.0
    return SummaryCost(model, len(nodes), read, write, price, what="section or document")


class TreeSummariser:
    """One job's model; counts what it could not do."""

    def __init__(self, model: LLM, embedder: Embedder) -> None:
        self._model, self._embedder = model, embedder
        self._left_out = self._failures = 0

    @property
    def said(self) -> str:
        count = self._left_out
        return f"{count} of them got no summary that can be used" if count else ""

    async def write(self, document: Document, nodes: Sequence[TreeNode], chunks: Sequence[Chunk]) -> list[TreeNode]:
        """The nodes of one document, with a summary each as far as the model gave one."""
        sections = [await self._written(document, node, _told(node, chunks)) for node in nodes if node.level == SECTION]
        text = "\n\n".join(f"{node.title}\n{node.text}" for node in sections)[:READ_CHARACTERS]
        whole = [await self._written(document, node, text) for node in nodes if node.level == DOCUMENT]
        return [*sections, *whole]

    async def _written(self, document: Document, node: TreeNode, told: str) -> TreeNode:
        if node.model:  # by an earlier job
            return node
        text = await self._asked(document, node, told)
        if not text or len(text) > LONGEST:
            self._left_out += 1
            return node
        both = node.vector + self._embedder.embed_query(text)
        vector = (both / max(float(np.linalg.norm(both)), 1e-6)).astype(np.float32)
        return replace(node, text=text, vector=vector, model=self._model.name)

    async def _asked(self, document: Document, node: TreeNode, told: str) -> str:
        head = f"Document: {' '.join(document.name.split())}\nSection: {' '.join(node.title.split())}"
        most = 3 * WRITTEN_TOKENS + THOUGHTS * model_info(self._model.name).thinks
        stage = Stage("summarise", 0.0)
        try:
            message = "\n\n".join([head, FENCE_OPENS, told, FENCE_CLOSES])
            reply = await json_reply(self._model, SUM_UP_SYSTEM, message, SUM_UP_SCHEMA, most, stage, "summariser")
        except ProviderError as error:
            self._failures += 1
            if self._failures >= MOST_FAILURES or not isinstance(error, ProviderUnavailable):
                raise
            return ""
        self._failures = 0
        found = reply.get("summary")
        return " ".join(found.split()) if isinstance(found, str) else ""


def _told(node: TreeNode, chunks: Sequence[Chunk]) -> str:
    first, last = node.sequences
    node_chunks = [
        chunk for chunk in chunks if chunk.document_id == node.document_id and first <= chunk.sequence <= last
    ]
    return "\n\n".join(map(chunk_block, node_chunks))[:READ_CHARACTERS]
