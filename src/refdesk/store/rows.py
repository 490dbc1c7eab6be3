"""What rows hold: documents, chunks, vectors and tables packed into columns and read back, and the library's state."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, TypeVar, overload

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import (
    BigInteger,
    Connection,
    Text,
    bindparam,
    cast,
    false,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert as upserted
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import GenericFunction

from refdesk.records import Column, LexicalEntry, Measure, StoredTable
from refdesk.store.database import SqlStatement
from refdesk.store.schema import (
    chunks,
    entities,
    images,
    state,
    tables,
)
from refdesk.text import terms
from refdesk.types import Box, Chunk, Document, Geometry, Page, Sentence, Span

_WORD = np.dtype(
    [("start", "<i4"), ("length", "<u2"), ("line", "<u2"), ("edges", "<u2", (4,))]
)  # start and line count from the page's first
_EDGE_SCALE = 600.0  # per cent -> 16 bits: steps of 0.0017 %, a hundredth of a point on A4
_LONGEST_WORD = 65_535
_T = TypeVar("_T")


def pack_chunk(chunk: Chunk, chunk_id: int, document_key: int) -> dict[str, Any]:
    of_spans = [span.box for span in chunk.spans if span.box is not None]
    of_sentences = [box for sentence in chunk.sentences for box in sentence.boxes]
    packed = iter(_pack_boxes([*of_spans, *of_sentences]))
    details = {
        "path": chunk.heading_path,
        "pages": chunk.pages,
        "spans": [[s.start, s.end, s.origin, s.page, None if s.box is None else next(packed)] for s in chunk.spans],
        "sentences": [[s.start, s.end, s.page, [[b.page, *next(packed)] for b in s.boxes]] for s in chunk.sentences],
        "keywords": chunk.keywords,
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


def pack_image(chunk: Chunk, chunk_id: int, document_key: int) -> list[dict[str, Any]]:
    if chunk.image is None:
        return []
    place = chunk.boxes[0] if chunk.boxes else (chunk.page, None, None, None, None)
    row = {"chunk_id": chunk_id, "document_key": document_key, "file": chunk.image}
    return [row | dict(zip(Box._fields, place, strict=True))]


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


class NamesInOrder(GenericFunction[str]):
    """What a chunk names as a JSON list, in the order of its text."""

    type = Text()
    inherit_cache = True


@compiles(NamesInOrder, "postgresql")
def _names_in_postgres(element: Any, compiler: Any, **options: Any) -> str:
    name = compiler.process(element.clauses, **options)
    return f"coalesce(json_agg({name} ORDER BY entities.place)::text, '[]')"


@compiles(NamesInOrder)
def _names_in_sqlite(element: Any, compiler: Any, **options: Any) -> str:
    return f"json_group_array({compiler.process(element.clauses, **options)})"


_NAMES = select(NamesInOrder(entities.c.name)).where(entities.c.chunk_id == chunks.c.id)
CHUNK_COLUMNS = (
    *(chunks.c[name] for name in ("id", "sequence", "kind", "token_count", "text", "context", "summary", "details")),
    _NAMES.correlate(chunks).scalar_subquery().label("entities"),  # one read for both
    select(images.c.file).where(images.c.chunk_id == chunks.c.id).correlate(chunks).scalar_subquery().label("image"),
)


def unpack_chunk(row: Any, document_id: str) -> Chunk:
    """A row of `CHUNK_COLUMNS`."""
    chunk_id, sequence, kind, token_count, text, context, summary, details, names, image = row
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
        entities=tuple(orjson.loads(names)) if names != "[]" else (),
        image=image,
        id=chunk_id,
    )


def _pack_boxes(boxes: Sequence[Box]) -> list[list[float]]:
    """All of a chunk at once: numpy rounds four times as fast."""
    packed: list[list[float]] = np.array([(b.x, b.y, b.width, b.height) for b in boxes]).round(3).tolist()
    return packed


_PACKED = ("metadata", "notes")  # JSON in a column
DOCUMENT_FIELDS = [field.name for field in fields(Document) if field.name not in _PACKED]


def unpack_document(row: Any) -> Document:
    """From a mapping, or a row of any kind, that has every column."""
    row = row if isinstance(row, Mapping) else row._asdict()
    metadata, notes = orjson.loads(row["metadata"]), tuple(orjson.loads(row["notes"]))
    return Document(**{name: row[name] for name in DOCUMENT_FIELDS}, metadata=metadata, notes=notes)


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


def lexical_entries(document: Document, made: Sequence[Chunk], start: int) -> Iterator[LexicalEntry]:
    """A document's chunks for the lexical index, numbered from `start`."""
    for chunk_id, chunk in enumerate(made, start):
        first, last = min(chunk.pages), max(chunk.pages)
        yield lexical_entry(document, chunk_id, chunk.kind, first, last, chunk.context, chunk.text)


def lexical_entry(
    document: Document, chunk_id: int, kind: str, first_page: int, last_page: int, context: str, text: str
) -> LexicalEntry:
    return LexicalEntry(
        chunk_id=chunk_id,
        document_id=document.id,
        collection=document.collection,
        kind=kind,
        first_page=first_page,
        last_page=last_page,
        date=document.date,
        metadata=tuple(document.metadata.items()),
        terms=terms(f"{context}\n{text}", document.language),
    )


# --- tables: each column of cells is packed into numbers, texts and positions -----------------------------------------

TABLE_FIELDS = [
    field.name for field in fields(StoredTable) if field.name in tables.c and field.name not in ("id", "heads")
]
_LEVEL = 1  # of compression: numbers as people write them shrink to a third, and are back in a millisecond per 10,000


def pack_column(column: Column) -> dict[str, bytes]:
    return {
        "numbers": _pack(column.measures, column.rows, column.numbers, column.measured),
        "texts": _pack(column.texts, column.codes),
        "places": _pack((), *column.places.T),
    }


def unpack_column(numbers: bytes, texts: bytes, places: bytes | None = None) -> Column:
    measures, (rows, values, measured) = _unpack(numbers, "<i4", "<f8", "<i4")
    known, (codes,) = _unpack(texts, "<i4")
    at = np.zeros((0, 4), np.int32)
    if places is not None:
        at = np.stack(_unpack(places, *["<i4"] * 4)[1], axis=1)
    return Column(rows, values, codes, tuple(known), measured, tuple(Measure(*measure) for measure in measures), at)


def _pack(plain: Any, *arrays: NDArray[Any]) -> bytes:
    """The length of the JSON, the JSON, and the arrays one after the other.

    Of an array whose numbers rise by the same step, as those of rows do, the JSON says all there is.
    """
    steps = [_step(array) for array in arrays]
    head = orjson.dumps([plain, len(arrays[0]), steps], default=list)
    written = [
        array.astype(array.dtype.newbyteorder("<")).tobytes()
        for array, step in zip(arrays, steps, strict=True)
        if step is None
    ]
    return zlib.compress(b"".join([len(head).to_bytes(4, "big"), head, *written]), _LEVEL)


def _unpack(packed: bytes, *kinds: str) -> tuple[Any, list[NDArray[Any]]]:
    data = zlib.decompress(packed)
    end = 4 + int.from_bytes(data[:4], "big")
    plain, count, steps = orjson.loads(data[4:end])
    found: list[NDArray[Any]] = []
    for kind, step in zip(kinds, steps, strict=True):
        if step is None:
            found.append(np.frombuffer(data, kind, count, end))
            end += found[-1].nbytes
        else:
            found.append((step[0] + step[1] * np.arange(count)).astype(kind))
    return plain, found


def _step(array: NDArray[Any]) -> tuple[int, int] | None:
    """The first number and the step to each of the others; None: they do not rise so."""
    if array.dtype.kind != "i" or not len(array):
        return None
    first, step = int(array[0]), int(array[1]) - int(array[0]) if len(array) > 1 else 0
    return (first, step) if bool((np.diff(array) == step).all()) else None


def unpack_texts(texts: bytes) -> Sequence[str]:
    """The different texts of a column."""
    known: Sequence[str] = _unpack(texts, "<i4")[0]
    return known


# --- what is known of the library as a whole, and what lies in which collection ---------------------------------------

SHARED = "shared"  # under which name Redis keeps the answers of this library; a backup has none, see cache.py
_STATE = SqlStatement(select(state.c.value).where(state.c.name == bindparam("of")))
_CHANGE_STATE = SqlStatement(update(state).where(state.c.name == bindparam("of")), ["value"])
_NEW_STATE = SqlStatement(insert(state))


def set_state(connection: Connection, name: str, value: str) -> None:
    if not _CHANGE_STATE.run(connection, of=name, value=value).rowcount:
        _NEW_STATE.run(connection, name=name, value=value)


def state_text(connection: Connection, name: str) -> str:
    """A value that is kept; "" before it was."""
    found = _STATE.run(connection, of=name).fetchone()
    return str(found[0]) if found else ""


def state_number(connection: Connection, name: str) -> int:
    return int(state_text(connection, name) or 0)


_BUMP = SqlStatement(
    upserted(state)
    .values(name=bindparam("of"), value="1")
    .on_conflict_do_update(index_elements=["name"], set_={"value": cast(cast(state.c.value, BigInteger) + 1, Text)})
    .returning(state.c.value)
)


def bump(connection: Connection, name: str) -> int:
    """In one step: where rows are locked one by one, another process may be counting too."""
    return int(_BUMP.run(connection, of=name).fetchone()[0])


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# What lies within a collection? The same rule as a condition in SQL and in Python: the collection itself and below.


def within(column: Any, collections: Sequence[str]) -> Any:
    """In one of these collections or below one; in none when there are none."""
    if not collections:
        return false()
    # One condition for all names of a length: SQLite takes a thousand in a row at most, and a key may have so many.
    by_length: dict[int, list[str]] = {}
    for collection in collections:
        by_length.setdefault(len(collection) + 1, []).append(f"{collection}/")
    # not LIKE, which ignores case in SQLite: "HR" must not admit "hr/salaries"
    below = (func.substr(column, 1, length).in_(names) for length, names in by_length.items())
    return or_(column.in_(collections), *below)
