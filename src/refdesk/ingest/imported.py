"""Imports chunks made by other programs, unchanged: one JSON object per line (seed 000, Q1).

    {"chunk_id": "c7", "doc_id": "d1", "sequence_number": 7, "chunk_type": "text", "heading_path": "Costs > Fuel",
     "content_raw": "Fuel cost 4 % more.", "content_summary": "Fuel costs.", "token_count": 6, "doc_name": "report.pdf"}

`doc_id` and `content_raw` are needed. Chunks of one `doc_id` are one document, in the order of their numbers; none is
cut or joined. A summary that comes with a chunk stands for the one we would make; tokens are counted by our model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from refdesk.config import hash_bytes
from refdesk.errors import UsageError
from refdesk.ingest.enrich import enrich
from refdesk.ingest.split import CountTokens
from refdesk.ingest.worker import detect_language, readable_name
from refdesk.ports import Embedder
from refdesk.records import Prepared
from refdesk.store_ports import DocumentStore, LibraryWriter, Ready
from refdesk.text import sentences
from refdesk.types import KINDS, Added, Chunk, Document, Page, Scope, Sentence, Span

FIELDS = ("chunk_id", "doc_id", "sequence_number", "chunk_type", "content_summary", "heading_path", "token_count")
BESIDE = ("content_raw", "doc_name", "page")
KIND_OF = {"graphic": "figure", "image": "figure", "paragraph": "text", "title": "heading"}
PATH_MARKS = (" > ", " › ", " / ")
LONGEST_CHUNK = 200_000  # characters
BETWEEN = "\n\n"


@dataclass(frozen=True, slots=True)
class ImportedChunk:
    """A chunk as another program made it."""

    document: str
    name: str
    sequence: int
    text: str
    kind: str = ""
    summary: str = ""
    heading_path: tuple[str, ...] = ()
    page: int = 1


@dataclass(frozen=True, slots=True)
class ImportedDocument:
    """The chunks of one document, in their order."""

    id: str  # as the other program calls it
    name: str
    chunks: tuple[ImportedChunk, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def content_hash(self) -> str:
        rows = [
            [chunk.sequence, chunk.text, chunk.kind, chunk.summary, chunk.heading_path, chunk.page]
            for chunk in self.chunks
        ]
        return hash_bytes(json.dumps([self.name, rows]).encode("utf-8", "replace"))


def read_lines(lines: Iterable[str]) -> list[ImportedChunk]:
    """JSONL to chunks; the first line that is wrong is named."""
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError:
            raise UsageError(f"line {number} is not JSON", hint="write one object per line") from None
        if not isinstance(row, dict):
            raise UsageError(f"line {number} is not a JSON object", hint="write one object per line")
        found.append(checked_chunk(row, f"line {number}", number))
    return found


def checked_chunk(row: Mapping[str, Any], where: str, number: int) -> ImportedChunk:
    """A row by the names of seed 000; `number` is its place, for rows that have none of their own."""
    text = _text(row.get("content_raw"))
    document = _text(row.get("doc_id"))
    if not document:
        raise UsageError(f"{where} has no doc_id", hint="it identifies the chunk's document")
    if not text.strip():
        raise UsageError(f"{where} has no content_raw", hint="a summary alone cannot be cited")
    if len(text) > LONGEST_CHUNK:
        raise UsageError(
            f"the content_raw of {where} is longer than {LONGEST_CHUNK:,} characters", hint="split it first"
        )
    kind = _text(row.get("chunk_type")).strip().lower()
    kind = KIND_OF.get(kind, kind)
    return ImportedChunk(
        document=document,
        name=_text(row.get("doc_name")) or document,
        sequence=_number(row.get("sequence_number"), number, where, "sequence_number"),
        text=text.strip(),
        kind=kind if kind in KINDS else "",
        summary=" ".join(_text(row.get("content_summary")).split()),
        heading_path=_path(row.get("heading_path")),
        page=max(1, _number(row.get("page"), 1, where, "page")),
    )


def _text(value: object) -> str:
    """Airtable gives a list for a field that looks into another table."""
    if isinstance(value, list):
        value = value[0] if value else ""
    if isinstance(value, bool) or value is None:
        return ""
    return str(value).replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _number(value: object, default: int, where: str, name: str) -> int:
    if value is None or value == "":
        return default
    try:
        return int(_text(value))
    except ValueError:
        raise UsageError(f"the {name} of {where} is not a whole number: {_text(value)[:50]!r}") from None


def _path(value: object) -> tuple[str, ...]:
    """`["Costs", "Fuel"]`, `"Costs > Fuel"`."""
    if isinstance(value, list):
        parts = [_text(part) for part in value]
    else:
        text = _text(value)
        mark = next((mark for mark in PATH_MARKS if mark in text), PATH_MARKS[0])
        parts = text.split(mark)
    return tuple(" ".join(part.split()) for part in parts if part.strip())


def by_document(chunks: Iterable[ImportedChunk], metadata: Mapping[str, str]) -> list[ImportedDocument]:
    """Documents in the order they come; of two chunks with one number the later one counts."""
    grouped: dict[str, dict[int, ImportedChunk]] = {}
    for chunk in chunks:
        grouped.setdefault(chunk.document, {})[chunk.sequence] = chunk
    return [
        ImportedDocument(
            document, next(iter(chunks.values())).name, tuple(chunks[at] for at in sorted(chunks)), metadata
        )
        for document, chunks in grouped.items()
    ]


def prepared(found: ImportedDocument, document: Document, count_tokens: CountTokens) -> Prepared:
    """All that is stored of a document, but for its vectors: its chunks as they came."""
    title = document.title or readable_name(found.name) or found.name
    text = BETWEEN.join(chunk.text for chunk in found.chunks)
    language = detect_language(text)
    chunks: list[Chunk] = []
    start = 0
    contexts = [" › ".join((title, *(part for part in chunk.heading_path if part != title))) for chunk in found.chunks]
    tokens = count_tokens([f"{context}\n{chunk.text}" for context, chunk in zip(contexts, found.chunks, strict=True)])
    first = min(chunk.sequence for chunk in found.chunks)
    shift = max(0, 1 - first)  # numbers begin with 1
    for imported, context, count in zip(found.chunks, contexts, tokens, strict=True):
        end = len(imported.text)
        chunks.append(
            Chunk(
                document_id=document.id,
                sequence=imported.sequence + shift,
                kind=imported.kind or "text",
                text=imported.text,
                heading_path=imported.heading_path,
                pages=(1,),
                spans=(Span(0, end, start, 1),),
                sentences=tuple(Sentence(first, last, 1) for first, last in sentences(imported.text))
                or (Sentence(0, end, 1),),
                token_count=count,
                context=context,
            )
        )
        start += end + len(BETWEEN)
    made = [
        replace(enriched, kind=imported.kind or enriched.kind, summary=imported.summary or enriched.summary)
        for enriched, imported in zip(enrich(chunks, language=language), found.chunks, strict=True)
    ]
    full = replace(
        document, title=title, language=language, page_count=1, chunk_count=len(made), size=len(text.encode())
    )
    return Prepared(full, text, (Page(1, 0, len(text)),), tuple(made))


def as_document(found: ImportedDocument, collection: str) -> Document:
    """As a text that a program hands in: known by its name within the collection."""
    return Document(
        id="",
        name=found.name,
        collection=collection,
        content_hash=found.content_hash,
        status="pending",
        format="chunks",
        metadata={**found.metadata, "doc_id": found.id},
    )


class Importer:
    """Stores documents whose chunks were made elsewhere; one that is unchanged costs nothing."""

    def __init__(self, documents: DocumentStore, writer: LibraryWriter, embedder: Embedder) -> None:
        self._documents, self._writer, self._embedder = documents, writer, embedder

    def store(self, found: Sequence[ImportedDocument], collection: str, on_added: Callable[[Added], None]) -> None:
        for imported in self._named_apart(found, collection):
            document = as_document(imported, collection)
            known = self._documents.text_named(collection, imported.name)
            if known is not None and known.status == "ready" and known.content_hash == document.content_hash:
                on_added(Added(imported.name, "unchanged", known))
                continue
            made = prepared(imported, document, self._embedder.count_tokens)
            ready = Ready(made, self._embedder.embed_chunks(made.chunks))
            ((stored, outcome),) = self._writer.store([ready])
            on_added(Added(stored.name, outcome, stored))

    def _named_apart(self, found: Sequence[ImportedDocument], collection: str) -> list[ImportedDocument]:
        """Two documents of one name are told apart by the ids they had elsewhere."""
        taken: dict[str, str] = {}
        apart = []
        for imported in found:
            known = self._documents.text_named(collection, imported.name)
            owner = taken.get(imported.name, known.metadata.get("doc_id", "") if known is not None else imported.id)
            name = imported.name if owner == imported.id else f"{imported.name} ({imported.id})"
            taken.setdefault(imported.name, owner)
            apart.append(replace(imported, name=name))
        return apart

    def remove_missing(self, mark: tuple[str, str], collection: str, kept: set[str]) -> list[Added]:
        """Documents that carry this metadata and that the source has no more."""
        scope = Scope(collections=(collection,), metadata=(mark,))
        gone = [
            document for document in self._documents.documents(scope) if document.metadata.get("doc_id", "") not in kept
        ]
        return [Added(document.name, "removed", document) for document in self._writer.remove(gone)] if gone else []
