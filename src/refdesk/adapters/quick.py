"""Reads that every question makes, in a few microseconds: straight from the driver, on a thread's own connection.

SQLAlchemy's checkout, BEGIN, execution and ROLLBACK take 0.2 ms; an answer from the cache has 2 ms in all.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Delete, Engine, Insert, PoolProxiedConnection, Select

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
