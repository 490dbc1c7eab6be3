"""Stores a document's tables in SQL: each column of cells is packed into numbers, texts and positions."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, insert, select

from refdesk.records import Column, Measure, StoredTable
from refdesk.store.database import SqlStatement
from refdesk.store.schema import cells, documents, tables

LEVEL = 1  # of compression: numbers as people write them shrink to a third, and are back in a millisecond per 10,000


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
    return zlib.compress(b"".join([len(head).to_bytes(4, "big"), head, *written]), LEVEL)


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


# Writing the tables of a document.

PLAIN = [field.name for field in fields(StoredTable) if field.name in tables.c and field.name not in ("id", "heads")]
_TABLE = SqlStatement(
    insert(tables).returning(tables.c.id), [column.name for column in tables.c if column.name != "id"]
)
_COLUMN = SqlStatement(insert(cells))


def insert_tables(connection: Connection, document_key: int, found: Sequence[StoredTable]) -> None:
    """The tables of one document, with all of their cells."""
    rows: list[dict[str, Any]] = []
    for table in found:
        values = {name: getattr(table, name) for name in PLAIN}
        heads = orjson.dumps([[head.path, *head.measure] for head in table.heads])
        (table_id,) = _TABLE.run(connection, document_key=document_key, heads=heads, **values).fetchone()
        rows += [{"table_id": table_id, "column": n} | pack_column(column) for n, column in enumerate(table.columns)]
    _COLUMN.run_many(connection, rows)


def replace_tables(connection: Connection, document_id: str, found: Sequence[StoredTable]) -> None:
    """Other tables for a document that is there."""
    key = connection.execute(select(documents.c.key).where(documents.c.id == document_id)).scalar()
    if key is not None:
        connection.execute(delete(tables).where(tables.c.document_key == key))
        insert_tables(connection, key, found)
