"""Copies a library from one database to another, row by row in key order, and compares them afterwards.

    SQLite -> PostgreSQL, PostgreSQL -> SQLite, PostgreSQL -> PostgreSQL

Nothing is embedded or read again. A copy that was interrupted goes on after the last row that arrived; until all of it
is there, and the same, nobody can open it. Search indexes are not copied: they are made anew from the rows. A backup
is a file that SQLite copies by itself.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, delete, func, insert, select, tuple_, update

from refdesk.errors import LibraryDamaged, UsageError
from refdesk.store.database import SqlStatement, changes, storable
from refdesk.store.postgres import continue_keys, is_server
from refdesk.store.rows import set_state, state_text
from refdesk.store.schema import documents, jobs, metadata, state

COPYING = "copying"  # the row of the table `state` that says from where a copy is under way
LOCAL_STATES = (COPYING, "shared")  # what is of one database alone
BATCH = 1000  # rows
_NUMBERED = [
    (table.name, column.name)
    for table in metadata.sorted_tables
    for column in table.primary_key.columns
    if len(table.primary_key.columns) == 1 and column.autoincrement is True
]


@dataclass(frozen=True, slots=True)
class Copied:
    """What is in both databases: the rows of each table, and one hash of all of it."""

    rows: dict[str, int]
    digest: str


Report = Callable[[int, int], None]  # rows done, in all


def copy_database_into(source: Engine, target: Engine, report: Report = lambda done, total: None) -> Copied:
    """Copies every row, resuming what was interrupted, and compares; the caller lets nobody add meanwhile."""
    with source.connect() as reading:
        if is_server(source):  # one moment of it, as SQLite's transactions are
            reading = reading.execution_options(isolation_level="REPEATABLE READ")
        _begin(reading, target)
        total = sum(_count(reading, table) for table in _tables())
        done = 0
        for table in _tables():
            done += _copy(reading, target, table, partial(_reported, report, done, total))
        found = _compared(reading, target)
    with changes(target, "library") as writing:
        writing.execute(delete(jobs).where(jobs.c.kind == "run"))  # who was at work there is not at work here
        writing.execute(update(jobs).values(worker=""))
        if is_server(target):
            continue_keys(writing, _NUMBERED)
        writing.execute(delete(state).where(state.c.name == COPYING))
    return found


def _reported(report: Report, before: int, total: int, some: int) -> None:
    report(before + some, total)


def check_copied(engine: Engine) -> None:
    """Raises when a copy into this database has begun and not ended."""
    with engine.connect() as connection:
        if state_text(connection, COPYING):
            raise LibraryDamaged(
                "a library is being copied into this database, or a copy was interrupted",
                hint="run the same `refdesk migrate` again",
            )


def _tables() -> list[Table]:
    return metadata.sorted_tables


def _begin(reading: Connection, target: Engine) -> None:
    """Marks the target; empties what another state of the source had left there."""
    mark = f"{state_text(reading, 'generation')}-{_count(reading, documents)}"
    with changes(target, "library") as writing:
        known = state_text(writing, COPYING)
        if not known and (state_text(writing, "generation") or _count(writing, documents)):
            raise UsageError("the target already contains a library", hint="choose an empty database or a new folder")
        if known and known != mark:
            for table in reversed(_tables()):
                writing.execute(delete(table))
        set_state(writing, COPYING, mark)


def _copy(reading: Connection, target: Engine, table: Table, report: Callable[[int], None]) -> int:
    """The rows that are missing at the target; gives how many there are."""
    keys = list(table.primary_key.columns)
    with target.connect() as connection:
        last = connection.execute(select(*keys).order_by(*(key.desc() for key in keys)).limit(1)).first()
        done = _count(connection, table)
    if table is state:
        last, done = None, 0
    adding = SqlStatement(insert(table), [column.key for column in table.columns])
    for rows in _batches(reading, table, last):
        with changes(target, "library") as writing:
            if table is state:
                writing.execute(delete(state).where(state.c.name.in_([row["name"] for row in rows])))
            adding.run_many(writing, rows)
        done += len(rows)
        report(done)
    return done


def _batches(connection: Connection, table: Table, after: Any = None) -> Iterator[list[dict[str, Any]]]:
    keys, names = list(table.primary_key.columns), [column.key for column in table.columns]
    query = select(*table.columns).order_by(*keys).limit(BATCH)
    if table is state:
        query = query.where(state.c.name.not_in(LOCAL_STATES))
    while True:
        wanted = query if after is None else query.where(tuple_(*keys) > tuple(after))
        rows = [dict(zip(names, row, strict=True)) for row in connection.execute(wanted)]
        if not rows:
            return
        after = tuple(rows[-1][key.key] for key in keys)
        yield [
            {name: storable(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows
        ]


def _compared(reading: Connection, target: Engine) -> Copied:
    """Both sides, row by row; a table that has changed since its first part was copied is copied once more."""
    counts: dict[str, int] = {}
    every = hashlib.sha256()
    for table in _tables():
        count, digest = _digest(reading, table)
        with target.connect() as connection:
            there = _digest(connection, table)
        if there != (count, digest):
            with changes(target, "library") as writing:
                writing.execute(delete(table).where(table.c.name != COPYING) if table is state else delete(table))
            _copy(reading, target, table, lambda done: None)
            with target.connect() as connection:
                there = _digest(connection, table)
        if there != (count, digest):
            raise LibraryDamaged(
                f"the copy of {table.name} is not the same: {there[0]} rows of {count}",
                hint="run the same command again; nothing was changed at the source",
            )
        counts[table.name] = count
        every.update(digest.encode())
    return Copied(counts, every.hexdigest())


def _digest(connection: Connection, table: Table) -> tuple[int, str]:
    names = sorted(column.key for column in table.columns)
    found, count = hashlib.sha256(), 0
    for rows in _batches(connection, table):
        count += len(rows)
        for row in rows:
            found.update(repr([row[name] for name in names]).encode())
    return count, found.hexdigest()


def _count(connection: Connection, table: Table) -> int:
    return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


# --- a copy of an SQLite database as a file, for backups --------------------------------------------------------------


def copy_database(engine: Engine, copy: Path) -> None:
    """SQLite's online copy: of one moment, while others read."""
    with engine.connect() as connection, closing(sqlite3.connect(copy)) as target:
        source = connection.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        source.rollback()  # a transaction that is open would keep the copy from starting
        source.backup(target)


@contextmanager
def opened_copy(path: Path) -> Iterator[Engine]:
    """A copy that nobody else has open."""
    engine = create_engine(f"sqlite:///{path}")
    try:
        yield engine
    finally:
        engine.dispose()
