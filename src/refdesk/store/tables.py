"""The tables of documents: how their cells are packed into columns, written, and read for a question or a door."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import Connection, insert

from refdesk.cells import MOST_CELLS, Column, ColumnHead, Measure, StoredTable
from refdesk.store.database import SqlStatement
from refdesk.store.documents import SqlDocuments, room
from refdesk.store.schema import cells, tables

LEVEL = 1  # of compression: numbers as people write them shrink to a third, and are back in a millisecond per 10,000
_PLAIN = [one.name for one in fields(StoredTable) if one.name in tables.c and one.name not in ("id", "heads")]
_SELECTED = "SELECT tables.id, documents.id, tables.heads, " + ", ".join(f'tables."{name}"' for name in _PLAIN)
_OF_DOCUMENT = f"{_SELECTED} FROM documents JOIN tables ON tables.document_key = documents.key WHERE documents.id = ?"
_BETWEEN = (
    'WITH wanted (document, "start", "end") AS (VALUES {}) '
    f"{_SELECTED} FROM wanted JOIN documents ON documents.id = wanted.document"
    ' JOIN tables ON tables.document_key = documents.key AND tables."start" < wanted."end"'
    ' AND tables."end" > wanted."start"'
)
_CELLS = 'SELECT table_id, "column", numbers, texts, places FROM cells WHERE table_id'
_TABLE = SqlStatement(insert(tables), [column.name for column in tables.c if column.name != "id"])
_COLUMN = SqlStatement(insert(cells))


def insert_tables(connection: Connection, document_key: int, found: Sequence[StoredTable]) -> None:
    """The tables of one document, with all of their cells."""
    rows: list[dict[str, Any]] = []
    for table in found:
        values = {name: getattr(table, name) for name in _PLAIN}
        heads = orjson.dumps([[head.path, *head.measure] for head in table.heads])
        table_id = _TABLE.run(connection, document_key=document_key, heads=heads, **values).lastrowid
        rows += [{"table_id": table_id, "column": n} | pack_column(one) for n, one in enumerate(table.columns)]
    _COLUMN.run_many(connection, rows)


class SqlTables:
    """The `TableStore` port; safe to use from several threads."""

    def __init__(self, documents: SqlDocuments) -> None:
        self._documents = documents

    def of_document(self, document_id: str) -> list[StoredTable]:
        found = map(_table, self._documents.quick(_OF_DOCUMENT, (document_id,)))
        return sorted(found, key=lambda table: table.number)

    def between(self, places: Sequence[tuple[str, int, int]]) -> list[StoredTable]:
        if not places:
            return []
        wanted = [*places, *[places[-1]] * (room(len(places)) - len(places))]
        statement = _BETWEEN.format(",".join(["(?, ?, ?)"] * len(wanted)))
        found = {table.id: table for table in map(_table, self._documents.quick(statement, [*chain(*wanted)]))}
        return list(found.values())

    def with_cells(self, found: Sequence[StoredTable], most: int | None = MOST_CELLS) -> list[StoredTable]:
        small = [table.id for table in found if most is None or table.cell_count <= most]
        columns: dict[int, dict[int, Column]] = {table_id: {} for table_id in small}
        for table_id, number, *packed in self._documents.quick_in(_CELLS, small):
            columns[table_id][number] = unpack_column(*packed)
        return [
            replace(table, columns=tuple(columns[table.id][number] for number in sorted(columns[table.id])))
            if table.id in columns
            else table
            for table in found
        ]

    def columns(self, table_id: int, numbers: Collection[int]) -> dict[int, Column]:
        wanted = ",".join(map(str, sorted(map(int, numbers))))
        rows = self._documents.quick(f'{_CELLS} = ? AND "column" IN ({wanted})', (table_id,))
        return {number: unpack_column(*packed) for _, number, *packed in rows}


def pack_column(column: Column) -> dict[str, bytes]:
    return {
        "numbers": _pack(column.measures, column.rows, column.numbers, column.measured),
        "texts": _pack(column.texts, column.codes),
        "places": _pack((), column.places),
    }


def unpack_column(numbers: bytes, texts: bytes, places: bytes) -> Column:
    measures, data = _unpack(numbers)
    rows, values, measured = _split(data, "<i4", "<f8", "<i4")
    known, data = _unpack(texts)
    (codes,) = _split(data, "<i4")
    _, data = _unpack(places)
    at = np.frombuffer(data, "<i4").reshape(-1, 4)
    return Column(rows, values, codes, tuple(known), measured, tuple(Measure(*one) for one in measures), at)


def _pack(plain: Any, *arrays: NDArray[Any]) -> bytes:
    """The length of the JSON, the JSON, and the arrays one after the other."""
    said = orjson.dumps(plain, default=list)
    parts = [array.astype(array.dtype.newbyteorder("<")).tobytes() for array in arrays]
    return zlib.compress(b"".join([len(said).to_bytes(4, "big"), said, *parts]), LEVEL)


def _unpack(packed: bytes) -> tuple[Any, bytes]:
    data = zlib.decompress(packed)
    end = 4 + int.from_bytes(data[:4], "big")
    return orjson.loads(data[4:end]), data[end:]


def _split(data: bytes, *kinds: str) -> list[NDArray[Any]]:
    """Arrays of these kinds, all of one length."""
    sizes = [np.dtype(kind).itemsize for kind in kinds]
    count, at, found = len(data) // sum(sizes), 0, []
    for kind, size in zip(kinds, sizes, strict=True):
        found.append(np.frombuffer(data, kind, count, at))
        at += count * size
    return found


def _table(row: Sequence[Any]) -> StoredTable:
    table_id, document_id, packed, *plain = row
    heads = tuple(ColumnHead(tuple(path), Measure(*measure)) for path, *measure in orjson.loads(packed))
    return StoredTable(**dict(zip(_PLAIN, plain, strict=True)), heads=heads, id=table_id, document_id=document_id)
