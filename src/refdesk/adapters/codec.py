"""Values to rows and back: how chunks, pages and vectors are packed into columns. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import orjson
from numpy.typing import NDArray

from refdesk.geometry import Box, Geometry
from refdesk.types import Chunk, Document, Page, Sentence, Span

_WORD = np.dtype(
    [("start", "<i4"), ("length", "<u2"), ("line", "<u2"), ("edges", "<u2", (4,))]
)  # start and line count from the page's first
_EDGE_SCALE = 600.0  # per cent -> 16 bits: steps of 0.0017 %, a hundredth of a point on A4
_LONGEST_WORD = 65_535
_T = TypeVar("_T")


def pack_chunk(chunk: Chunk, chunk_id: int, document_key: int) -> dict[str, Any]:
    details = {
        "path": chunk.heading_path,
        "pages": chunk.pages,
        "spans": [[s.start, s.end, s.origin, s.page, None if s.box is None else _pack_box(s.box)] for s in chunk.spans],
        "sentences": [[s.start, s.end, s.page, [[b.page, *_pack_box(b)] for b in s.boxes]] for s in chunk.sentences],
        "keywords": chunk.keywords,
        "entities": chunk.entities,
        "image": chunk.image,
    }
    return {
        "id": chunk_id,
        "document_key": document_key,
        "sequence": chunk.sequence,
        "kind": chunk.kind,
        "first_page": min(chunk.pages),
        "last_page": max(chunk.pages),
        "token_count": chunk.token_count,
        "text": chunk.text,
        "context": chunk.context,
        "summary": chunk.summary,
        "details": orjson.dumps(details),
    }


class Rows(Sequence[_T]):
    """Rows that become values when they are looked at: a search gives twenty chunks, its caller looks into a few.

    To everybody else it is the tuple it stands for.
    """

    __slots__ = ("_make", "_rows", "_values")

    def __init__(self, rows: list[Any], make: Callable[[Any], _T]) -> None:
        self._rows = rows
        self._make = make
        self._values: tuple[_T, ...] | None = None

    def _all(self) -> tuple[_T, ...]:
        if self._values is None:
            self._values = tuple(map(self._make, self._rows))
        return self._values

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, place: int) -> _T: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[_T, ...]: ...

    def __getitem__(self, place: int | slice) -> _T | tuple[_T, ...]:
        return self._all()[place]

    def __iter__(self) -> Iterator[_T]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Rows, tuple)) and self._all() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._all(),)


def _span(row: list[Any]) -> Span:
    start, end, origin, page, box = row
    return Span(start, end, origin, page, None if box is None else Box(page, *box))


def _sentence(row: list[Any]) -> Sentence:
    start, end, page, boxes = row
    return Sentence(start, end, page, tuple(map(Box._make, boxes)))


def unpack_chunk(row: Any, document_id: str) -> Chunk:
    """A row of (id, sequence, kind, token_count, text, context, summary, details)."""
    chunk_id, sequence, kind, token_count, text, context, summary, details = row
    more = orjson.loads(details)
    return Chunk(
        document_id=document_id,
        sequence=sequence,
        kind=kind,
        text=text,
        heading_path=tuple(more["path"]),
        pages=tuple(more["pages"]),
        spans=Rows(more["spans"], _span),
        sentences=Rows(more["sentences"], _sentence),
        token_count=token_count,
        context=context,
        summary=summary,
        keywords=tuple(more["keywords"]),
        entities=tuple(more["entities"]),
        image=more["image"],
        id=chunk_id,
    )


def _pack_box(box: Box) -> list[float]:
    return [round(box.x, 3), round(box.y, 3), round(box.width, 3), round(box.height, 3)]


def unpack_document(row: Any) -> Document:
    return Document(
        id=row["id"],
        name=row["name"],
        collection=row["collection"],
        content_hash=row["content_hash"],
        status=row["status"],
        title=row["title"],
        format=row["format"],
        language=row["language"],
        size=row["size"],
        page_count=row["page_count"],
        chunk_count=row["chunk_count"],
        source=row["source"],
        parent_id=row["parent_id"],
        date=row["date"],
        metadata=orjson.loads(row["metadata"]),
        error=row["error"],
        notes=tuple(orjson.loads(row["notes"])),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def pack_words(geometry: Geometry, page: Page) -> bytes:
    """The words that stand on a page, compressed; offsets count from the page's start."""
    first = int(np.searchsorted(geometry.start, page.start))
    last = int(np.searchsorted(geometry.start, page.end))
    table = np.zeros(last - first, dtype=_WORD)
    table["start"] = geometry.start[first:last] - page.start
    table["length"] = np.minimum(geometry.end[first:last] - geometry.start[first:last], _LONGEST_WORD)
    if last > first:
        # Line numbers are only compared with one another on this page.
        table["line"] = np.unique(geometry.line[first:last], return_inverse=True)[1]
    table["edges"] = np.clip(np.rint(geometry.edges[first:last] * _EDGE_SCALE), 0, 65_535)
    return zlib.compress(table.tobytes(), 6)


def unpack_words(packed: bytes, page: Page) -> Geometry:
    table = np.frombuffer(zlib.decompress(packed), dtype=_WORD)
    start = table["start"] + page.start
    return Geometry(
        start.astype(np.int32),
        (start + table["length"]).astype(np.int32),
        np.full(len(table), page.number, dtype=np.int32),
        table["line"].astype(np.int32),
        (table["edges"] / _EDGE_SCALE).astype(np.float32),
    )


def pack_vector(vector: NDArray[np.float32]) -> bytes:
    return vector.astype("<f2").tobytes()


def unpack_vectors(packed: list[bytes], dimensions: int) -> NDArray[np.float32]:
    if not packed:
        return np.zeros((0, dimensions), dtype=np.float32)
    return np.frombuffer(b"".join(packed), dtype="<f2").reshape(-1, dimensions).astype(np.float32)


def unpack_sentences(packed: bytes, dimensions: int) -> NDArray[np.int8]:
    return np.frombuffer(packed, dtype=np.int8).reshape(-1, dimensions)
