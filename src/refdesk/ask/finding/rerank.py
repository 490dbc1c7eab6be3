"""In which order should hits be read? By their fused score and by the best sentence each of them holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from refdesk.answer import Query
from refdesk.ask.evidence.weigh import COSINE, COVERAGE, tabulate
from refdesk.types import Hit

SHARE = 0.4  # of the sentences in the new score: plateau .2-.5, above which scifact and cranfield lose (docs/log.md)


class SentenceReranker:
    """The default `Reranker`: no model is run, the sentences' vectors and words are at hand."""

    name = "sentences"

    def rerank(
        self, query: Query, hits: Sequence[Hit], sentence_vectors: Mapping[int, Any], idf: Mapping[str, float]
    ) -> list[Hit]:
        """The same hits, best first; the best score stays what it was, so that scores of two searches compare."""
        if len(hits) < 2:
            return list(hits)
        best = max(hit.score for hit in hits) or 1.0
        placed = [(number, hit.chunk, 0.0) for number, hit in enumerate(hits)]
        documents = {hit.document.id: hit.document for hit in hits}
        table = tabulate(query, placed, sentence_vectors, idf, documents)
        sentences = np.zeros(len(hits), dtype=np.float32)
        np.maximum.at(sentences, table.chunk, COSINE * table.cosine + COVERAGE * table.coverage)
        top = float(sentences.max()) or 1.0
        blended = [
            (1.0 - SHARE) * hit.score / best + SHARE * float(one) / top
            for hit, one in zip(hits, sentences, strict=True)
        ]
        scale = best / (max(blended) or 1.0)
        scored = [replace(hit, score=one * scale) for hit, one in zip(hits, blended, strict=True)]
        return sorted(scored, key=lambda hit: -hit.score)
