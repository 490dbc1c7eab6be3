"""Large libraries for timing: real words in real proportions, vectors in clusters as embeddings are."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np

from benchmarks.common import DATA, read_jsonl
from refdesk import Refdesk
from refdesk.config import hash_bytes
from refdesk.ingest.worker import chunk_limits, prepare
from refdesk.parsers.build import ParseOptions
from refdesk.ports import Embedded
from refdesk.records import Prepared
from refdesk.settings import Settings
from refdesk.store_ports import Ready
from refdesk.types import Box, Chunk, Document, Page, Sentence, Span

CHUNKS_PER_DOCUMENT = 50
DOCUMENTS_PER_BATCH = 40
CLUSTERS = 2000
LINE = 90  # characters


class Source:
    """Makes documents: chunk texts mix two halves of real passages, vectors scatter around cluster centres."""

    def __init__(self, dimensions: int, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._numbers = np.random.default_rng(seed)
        self._dimensions = dimensions
        self.centres = self._numbers.standard_normal((CLUSTERS, dimensions)).astype(np.float32)
        folder = DATA / "retrieval" / "squad_dev11"
        self._halves = [_halves(str(row["text"])) for row in read_jsonl(folder / "corpus.jsonl")]
        self.questions = [str(row["text"]) for row in read_jsonl(folder / "queries.jsonl")]

    def vectors(self, count: int) -> np.ndarray:
        centres = self.centres[self._numbers.integers(0, CLUSTERS, count)]
        found = centres + 0.9 * self._numbers.standard_normal((count, self._dimensions)).astype(np.float32)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    def document(self, number: int, chunks: int = CHUNKS_PER_DOCUMENT) -> Ready:
        name = f"document {number}"
        pieces = []
        for sequence in range(1, chunks + 1):
            text = self._random.choice(self._halves)[0] + " " + self._random.choice(self._halves)[1]
            page = (sequence + 1) // 2
            pieces.append(
                Chunk(
                    document_id="",
                    sequence=sequence,
                    kind="text",
                    text=text,
                    heading_path=(f"{page} Section",),
                    pages=(page,),
                    spans=_lines(text, page),
                    sentences=_sentences(text, page),
                    token_count=len(text) // 4,
                    context=name,
                )
            )
        vectors = self.vectors(chunks)
        rows = np.rint(vectors * 127).astype(np.int8)
        embedded = [
            Embedded(vector, np.repeat(row[None, :], len(piece.sentences), axis=0))
            for vector, row, piece in zip(vectors, rows, pieces, strict=True)
        ]
        collection = f"part/{number % 20}"
        document = Document("", name, collection, f"{number:064d}", "ready", title=name, language="en", format="text")
        pages = tuple(Page(page, 0, 0) for page in range(1, (chunks + 1) // 2 + 1))
        return Ready(Prepared(document, "", pages, tuple(pieces)), embedded)


def store_file(desk: Refdesk, name: str, data: bytes) -> None:
    """Read, cut and kept as any file is, but with vectors by chance: to embed 100,000 rows takes ten minutes."""
    embedder, document = desk.parts.embedder, Document("", name, "default", hash_bytes(data), "ready")
    prepared = prepare(data, document, ParseOptions(), chunk_limits(Settings(), embedder), embedder.count_tokens)
    vectors = Source(embedder.dimensions).vectors(len(prepared.chunks))
    embedded = [
        Embedded(vector, np.zeros((len(chunk.sentences), embedder.dimensions), np.int8))
        for vector, chunk in zip(vectors, prepared.chunks, strict=True)
    ]
    desk.parts.writer.store([Ready(prepared, embedded)])


def build(folder: Path, count: int) -> tuple[Refdesk, Source, float]:
    """A library of `count` chunks; gives the seconds it took, 0 when it was there already."""
    desk = Refdesk(folder)
    source = Source(desk.parts.embedder.dimensions)
    began = time.perf_counter()
    have = desk.parts.documents.counts(desk.parts.embedder.name)["chunks"]
    if have >= count:
        desk.parts.compact()  # a build that was stopped may have left that to do
        return desk, source, 0.0
    for number in range(have // CHUNKS_PER_DOCUMENT, count // CHUNKS_PER_DOCUMENT, DOCUMENTS_PER_BATCH):
        last = min(number + DOCUMENTS_PER_BATCH, count // CHUNKS_PER_DOCUMENT)
        desk.parts.writer.store([source.document(one) for one in range(number, last)])
    desk.parts.compact(force=True)
    return desk, source, time.perf_counter() - began


def _lines(text: str, page: int) -> tuple[Span, ...]:
    """As a PDF has them: a box for every line."""
    return tuple(
        Span(start, min(start + LINE, len(text)), start, page, _box(row, page))
        for row, start in enumerate(range(0, len(text), LINE))
    )


def _sentences(text: str, page: int) -> tuple[Sentence, ...]:
    found, start = [], 0
    for part in text.split(". "):
        end = min(len(text), start + len(part) + 1)
        boxes = tuple(_box(row, page) for row in range(start // LINE, end // LINE + 1))
        found.append(Sentence(start, end, page, boxes))
        start = end + 1
    return tuple(found)


def _box(row: int, page: int) -> Box:
    return Box(page, 10.123, 5.5 + 1.52 * row, 79.456, 1.152)


def _halves(text: str) -> tuple[str, str]:
    middle = text.find(". ", len(text) // 2) + 1 or len(text) // 2
    return text[:middle], text[middle:].strip()
