"""How a document is taken in: parse -> chunk -> enrich. Embedding and indexing follow in `pipeline.py`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePath

from refdesk.errors import EmptyDocument
from refdesk.ingest.chunk import ChunkLimits, chunk
from refdesk.ingest.enrich import enrich
from refdesk.ingest.language import detect_language
from refdesk.ingest.parse import parse
from refdesk.ingest.parsers.options import ParseOptions
from refdesk.types import Document, Parsed, Prepared

CountTokens = Callable[[Sequence[str]], list[int]]


def prepare(
    data: bytes, document: Document, options: ParseOptions, limits: ChunkLimits, count_tokens: CountTokens
) -> Prepared:
    """Everything about a document but its vectors."""
    parsed = parse(data, document.name, options, document.format or None)
    title = document.title or parsed.title or readable_name(document.name)
    language = detect_language(parsed.text)
    chunks = chunk(parsed, document_id=document.id, title=title, limits=limits, count_tokens=count_tokens)
    chunks = enrich(chunks, title=title, language=language)
    if not chunks:
        raise EmptyDocument("nothing readable was found in it")
    figures = {hashlib.sha256(png).hexdigest(): png for png in parsed.figures}
    return Prepared(
        document=replace(
            document,
            title=title,
            format=parsed.format,
            language=language,
            page_count=len(parsed.pages),
            chunk_count=len(chunks),
            date=document.date or _date(parsed),
            metadata={**parsed.metadata, **document.metadata},
            notes=parsed.notes,
        ),
        text=parsed.text,
        pages=parsed.pages,
        chunks=tuple(chunks),
        geometry=parsed.geometry,
        figures=figures,
        children=parsed.children,
    )


def readable_name(name: str) -> str:
    """`3M_2018_10K.pdf` -> `3M 2018 10K`; a name that is only a number says nothing and gives ``."""
    stem = PurePath(name).stem if re.search(r"\.\w{1,5}$", name) else name
    words = re.sub(r"[_\s]+", " ", stem).strip()
    return words if re.search(r"[^\W\d_]{3}", words) else ""


def _date(parsed: Parsed) -> str:
    """The day the document gives as its own."""
    for name in ("date", "created", "modified"):
        if found := re.match(r"\d{4}-\d{2}-\d{2}", parsed.metadata.get(name, "")):
            return found.group()
    return ""
