"""The tables of documents: how their cells are packed into columns, written, and read for a question or a door."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Collection, Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import Connection, delete, insert, select

from refdesk.cells import LARGEST, MOST_CELLS, Column, ColumnHead, Measure, StoredTable, readable_tables
from refdesk.store.database import SqlStatement
from refdesk.store.documents import SqlDocuments, room
from refdesk.store.schema import cells, documents, tables

LEVEL = 1  # of compression: numbers as people write them shrink to a third, and are back in a millisecond per 10,000
REMEMBERED = 50_000  # cells of tables that were asked for: some 15 MB
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
_UNPLACED = _CELLS.replace(", places", "")
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


def replace_tables(connection: Connection, document_id: str, found: Sequence[StoredTable]) -> None:
    """Other tables for a document that is there."""
    key = connection.execute(select(documents.c.key).where(documents.c.id == document_id)).scalar()
    if key is not None:
        connection.execute(delete(tables).where(tables.c.document_key == key))
        insert_tables(connection, key, found)


class SqlTables:
    """The `TableStore` port; safe to use from several threads."""

    def __init__(self, documents: SqlDocuments) -> None:
        self._documents = documents
        self._loaded: dict[int, StoredTable] = {}  # with their cells, by id
        self._sheets: dict[int, StoredTable] = {}  # the same of large ones, the one read last at the end
        self._reading_sheets = threading.Lock()

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
        # A question asks for what the one before has asked for. No id is ever given to another table, so that what is
        # remembered stays true; one dictionary, replaced and never emptied, for threads may be reading it.
        if sum(table.cell_count for table in self._loaded.values()) > REMEMBERED:
            self._loaded = {}
        known = self._loaded
        wanted = readable_tables(found, most)
        if most is not None and (large := [table for table in wanted if table.cell_count > MOST_CELLS]):
            sheets = self._with_sheets(large)
            return [sheets.get(table.id, table) for table in self.with_cells(found, MOST_CELLS)]
        missing = {table.id: table for table in wanted if table.id not in known}
        columns: dict[int, dict[int, Column]] = {table_id: {} for table_id in missing}
        for table_id, number, *packed in self._documents.quick_in(_CELLS, missing):
            columns[table_id][number] = unpack_column(*packed)
        loaded = {
            table_id: replace(missing[table_id], columns=tuple(own[number] for number in sorted(own)))
            for table_id, own in columns.items()
        }
        known.update((one.id, one) for one in loaded.values() if one.cell_count <= MOST_CELLS)
        return [loaded.get(table.id) or (known.get(table.id, table) if table in wanted else table) for table in found]

    def _with_sheets(self, wanted: Sequence[StoredTable]) -> dict[int, StoredTable]:
        """Read by one thread at a time: twice the same sheet would be twice the memory."""
        with self._reading_sheets:
            for table in wanted:
                sheet = self._sheets.pop(table.id, None) or self.with_cells([table], None)[0]
                if sheet.is_loaded:  # else it is gone
                    self._sheets[table.id] = sheet
            found = {table.id: self._sheets[table.id] for table in wanted if table.id in self._sheets}
            while sum(sheet.cell_count for sheet in self._sheets.values()) > LARGEST:
                self._sheets.pop(next(iter(self._sheets)))
        return found

    def columns(self, table_id: int, numbers: Collection[int], *, are_placed: bool = False) -> dict[int, Column]:
        wanted = ",".join(map(str, sorted(map(int, numbers))))
        selected = _CELLS if are_placed else _UNPLACED
        rows = self._documents.quick(f'{selected} = ? AND "column" IN ({wanted})', (table_id,))
        return {number: unpack_column(*packed) for _, number, *packed in rows}


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
    return Column(rows, values, codes, tuple(known), measured, tuple(Measure(*one) for one in measures), at)


def _pack(plain: Any, *arrays: NDArray[Any]) -> bytes:
    """The length of the JSON, the JSON, and the arrays one after the other.

    Of an array whose numbers rise by the same step, as those of rows do, the JSON says all there is.
    """
    steps = [_step(array) for array in arrays]
    said = orjson.dumps([plain, len(arrays[0]), steps], default=list)
    written = [
        array.astype(array.dtype.newbyteorder("<")).tobytes()
        for array, step in zip(arrays, steps, strict=True)
        if step is None
    ]
    return zlib.compress(b"".join([len(said).to_bytes(4, "big"), said, *written]), LEVEL)


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


def _table(row: Sequence[Any]) -> StoredTable:
    table_id, document_id, packed, *plain = row
    heads = tuple(ColumnHead(tuple(path), Measure(*measure)) for path, *measure in orjson.loads(packed))
    return StoredTable(**dict(zip(_PLAIN, plain, strict=True)), heads=heads, id=table_id, document_id=document_id)
