"""What do the tools of the MCP server give? Plain values, and the same as text for a model to read."""

from __future__ import annotations

from dataclasses import dataclass

from refdesk.answer import Answer
from refdesk.types import Document, Hit


@dataclass(frozen=True)
class CitationFound:
    marker: int
    document: str
    document_id: str
    page: int
    quote: str
    heading: str
    chunk: int


@dataclass(frozen=True)
class AnswerFound:
    """`answer` has markers such as [1]; `citations` say what they point at. `answered` false: it is not in there."""

    answer: str
    answered: bool
    confidence: str
    confidence_score: float
    reason: str
    citations: list[CitationFound]
    missing: list[str]
    conflicts: list[str]
    unsupported: list[str]
    answer_id: str


@dataclass(frozen=True)
class PassageFound:
    document: str
    document_id: str
    collection: str
    chunk: int
    page: int
    heading: str
    score: float
    text: str


@dataclass(frozen=True)
class PassagesFound:
    passages: list[PassageFound]


@dataclass(frozen=True)
class DocumentFound:
    id: str
    name: str
    collection: str
    title: str
    status: str
    format: str
    pages: int
    chunks: int
    date: str
    problem: str


@dataclass(frozen=True)
class DocumentsFound:
    documents: list[DocumentFound]
    total: int


@dataclass(frozen=True)
class PassageRead:
    """The text of a page or of a chunk; `pages` and `chunks` are how many the document has."""

    document: str
    document_id: str
    page: int
    label: str
    chunk: int | None
    heading: str
    pages: int
    chunks: int
    text: str


def answer_found(answer: Answer) -> AnswerFound:
    return AnswerFound(
        answer=answer.content,
        answered=answer.is_answered,
        confidence=answer.confidence.level,
        confidence_score=round(answer.confidence.score, 3),
        reason=answer.confidence.reason,
        citations=[
            CitationFound(
                marker=one.marker,
                document=one.document_name,
                document_id=one.document_id,
                page=one.page,
                quote=one.quote,
                heading=" › ".join(one.heading_path),
                chunk=one.chunk_sequence,
            )
            for one in answer.citations
        ],
        missing=list(answer.sufficiency.missing_aspects),
        conflicts=[one.text for one in answer.sufficiency.conflicts],
        unsupported=[one.text for one in answer.claims if one.verdict in ("unsupported", "contradicted")],
        answer_id=answer.id,
    )


def answer_text(found: AnswerFound) -> str:
    """The answer, then what its markers point at, one line each."""
    lines = [found.answer, ""]
    lines += [f"[{one.marker}] {one.document}, page {one.page}: “{one.quote}”" for one in found.citations]
    lines += [f"Not in the documents: {one}" for one in found.missing]
    lines += [f"The documents disagree: {one}" for one in found.conflicts]
    lines += [f"Not proved by the documents: {one}" for one in found.unsupported]
    lines.append(
        f"Confidence: {found.confidence} ({found.reason})" if found.reason else f"Confidence: {found.confidence}"
    )
    return "\n".join(lines).strip()


def passage_found(hit: Hit) -> PassageFound:
    return PassageFound(
        document=hit.document.name,
        document_id=hit.document.id,
        collection=hit.document.collection,
        chunk=hit.chunk.sequence,
        page=hit.page,
        heading=" › ".join(hit.heading_path),
        score=round(hit.score, 4),
        text=hit.chunk.text,
    )


def passages_text(found: PassagesFound) -> str:
    if not found.passages:
        return "Nothing was found."
    parts = []
    for one in found.passages:
        place = f"{one.document}, page {one.page}" + (f", {one.heading}" if one.heading else "")
        parts.append(f"{place} (chunk {one.chunk})\n{one.text}")
    return "\n\n".join(parts)


def document_found(document: Document) -> DocumentFound:
    return DocumentFound(
        id=document.id,
        name=document.name,
        collection=document.collection,
        title=document.title,
        status=document.status,
        format=document.format,
        pages=document.page_count,
        chunks=document.chunk_count,
        date=document.date,
        problem=document.error,
    )


def documents_text(found: DocumentsFound) -> str:
    if not found.documents:
        return "There are no such documents."
    lines = [
        f"{one.name} ({one.collection}, {one.pages} page{'s' * (one.pages != 1)}"
        + (f", {one.status}" if one.status != "ready" else "")
        + f", id {one.id})"
        for one in found.documents
    ]
    if found.total > len(found.documents):
        lines.append(f"These are {len(found.documents)} of {found.total}; `offset` shows others, `name` narrows them.")
    return "\n".join(lines)
