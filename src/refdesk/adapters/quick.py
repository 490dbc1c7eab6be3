"""What every question reads and every document writes: statements that are written out once and go to the driver.

SQLAlchemy's checkout, BEGIN, execution and ROLLBACK take 0.2 ms; an answer from the cache has 2 ms in all. Composing
the eleven statements that a new document took, and looking each up in SQLAlchemy's cache, took 3 ms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, CursorResult, Delete, Dialect, Engine, Insert, PoolProxiedConnection, Select, Update

from refdesk.adapters.own_connections import OwnConnections


class Prepared:
    """A statement written out once in the database's own dialect."""

    def __init__(self, engine: Engine, statement: Select[Any] | Insert | Delete) -> None:
        self._compiled = statement.compile(dialect=engine.dialect)
        self.text = str(self._compiled)

    def parameters(self, values: dict[str, Any]) -> Any:
        every = self._compiled.construct_params(values)
        order = self._compiled.positiontup
        return every if order is None else tuple(every[name] for name in order)

    def run(self, connection: Connection, values: dict[str, Any]) -> None:
        """For a change, within the connection's transaction; values are given as the driver takes them."""
        connection.exec_driver_sql(self.text, self.parameters(values))


class Statement:
    """For a transaction: written out when it is first run, once in each dialect.

    Values are given by name, as the driver takes them. `columns` are those that an INSERT fills, if not all.
    """

    def __init__(self, statement: Select[Any] | Insert | Update | Delete, columns: Sequence[str] | None = None) -> None:
        self._statement = statement
        self._columns = None if columns is None else list(columns)
        self._written: dict[str, tuple[str, Mapping[str, Any], Sequence[str] | None]] = {}

    def run(self, connection: Connection, **values: Any) -> CursorResult[Any]:
        text, fixed, order = self._in(connection.dialect)
        given = {**fixed, **values}
        return connection.exec_driver_sql(text, given if order is None else tuple(given[name] for name in order))

    def run_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Once for each row, in one call of the driver; each row holds every value."""
        if rows:
            text, _, order = self._in(connection.dialect)
            given = list(rows) if order is None else [tuple(row[name] for name in order) for row in rows]
            connection.exec_driver_sql(text, given)

    def _in(self, dialect: Dialect) -> tuple[str, Mapping[str, Any], Sequence[str] | None]:
        written = self._written.get(dialect.name)
        if written is None:
            compiled = self._statement.compile(dialect=dialect, column_keys=self._columns)
            # A value that is forgotten is an error, not the mark that SQLAlchemy has for it.
            fixed = {name: bind.effective_value for name, bind in compiled.binds.items() if not bind.required}
            written = self._written[dialect.name] = (str(compiled), fixed, compiled.positiontup)
        return written


class QuickReader:
    """Runs prepared SELECTs; safe to use from several threads. Each read sees what is committed at that moment."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._connections = OwnConnections(self._connect)

    def prepare(self, statement: Select[Any]) -> Prepared:
        return Prepared(self.engine, statement)

    def rows(self, prepared: Prepared, **values: Any) -> list[Any]:
        cursor = self._connections.get().cursor()
        try:
            cursor.execute(prepared.text, prepared.parameters(values))
            return list(cursor.fetchall())
        finally:
            cursor.close()

    def _connect(self) -> PoolProxiedConnection:
        found = self.engine.raw_connection()
        if self.engine.dialect.name != "sqlite":  # SQLite's are opened so, see database.py
            found.driver_connection.autocommit = True  # type: ignore[union-attr]
        found.detach()  # never goes back to the pool with a mode of its own
        return found

    def close(self) -> None:
        self._connections.close()
