"""How the example documents are read, cut and described is what it was: every tuned number of ingest shows in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from golden_files import check, check_entries
from parsed_strategies import count_tokens
from refdesk.ingest.chunk import ChunkLimits
from refdesk.ingest.worker import prepare
from refdesk.parsers.build import ParseOptions
from refdesk.records import Prepared
from refdesk.types import Chunk, Document

DOCUMENTS = sorted((Path(__file__).parent.parent / "examples" / "documents").iterdir())
SCANNED = "harbour-authority-letter.pdf"  # needs OCR, whose models are no part of a test
NAMES = [path.name for path in DOCUMENTS if path.is_file() and path.name != SCANNED]
# Small chunks besides those of the default: every kind of cut is met in short documents too.
LIMITS = {"default": ChunkLimits(), "small": ChunkLimits(target=60, minimum=20, maximum=90)}


def described(chunk: Chunk) -> dict[str, Any]:
    return {
        "kind": chunk.kind,
        "pages": list(chunk.pages),
        "tokens": chunk.token_count,
        "sentences": len(chunk.sentences),
        "boxes": sum(len(sentence.boxes) for sentence in chunk.sentences),
        "begins": chunk.text[:40],
        "ends": chunk.text[-40:],
        "context": chunk.context,
        "summary": chunk.summary,
        "keywords": list(chunk.keywords),
        "entities": list(chunk.entities),
    }


def read(name: str, limits: ChunkLimits) -> Prepared:
    path = next(path for path in DOCUMENTS if path.name == name)
    document = Document("d", name, "c", "h", "ready")
    return prepare(path.read_bytes(), document, ParseOptions(), limits, count_tokens)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", LIMITS)
def test_reading(name: str, size: str) -> None:
    prepared = read(name, LIMITS[size])
    value = {
        "title": prepared.document.title,
        "language": prepared.document.language,
        "date": prepared.document.date,
        "pages": [[page.start, page.end, page.label] for page in prepared.pages],
        "figures": len(prepared.figures),
        "chunks": [described(chunk) for chunk in prepared.chunks],
    }
    check(f"reading-{size}.json", value, name)


@pytest.mark.parametrize("size", LIMITS)
def test_no_document_is_left_over(size: str) -> None:
    check_entries(f"reading-{size}.json", NAMES)
