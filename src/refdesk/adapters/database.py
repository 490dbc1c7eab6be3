"""Opens the database: one engine per library, SQLite in WAL mode, migrated when it is older than this program."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.pool import QueuePool

from refdesk.adapters.private import FILE
from refdesk.adapters.standing import check_database
from refdesk.errors import DiskFull, LibraryBusy, LibraryDamaged, LibraryError, LibraryTooNew

HEAD = "0008"  # the newest migration; a test compares it with the folder
_WRITES = "refdesk_writes"
BUSY_TIMEOUT_S = 60  # writers are serialised by the file lock; this covers checkpoints and backups


def open_database(path: Path) -> Engine:
    """The engine of the SQLite file at `path`, created or migrated as needed."""
    # No limit on connections: each thread that searches keeps one.
    options = {"timeout": BUSY_TIMEOUT_S, "check_same_thread": False}
    # What is written is not in the errors, which come into the log: questions are in it only where that is asked for.
    engine = create_engine(
        f"sqlite:///{path}", connect_args=options, poolclass=QueuePool, pool_size=0, hide_parameters=True
    )
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    check_database(path)
    with suppress(OSError):  # what SQLite makes beside it has the same rights; where it cannot be made, SQLite says why
        path.touch(mode=FILE)
    try:
        if _version(engine) != HEAD:
            # Two processes may open a new library at once: one makes the tables, the other waits and finds them.
            with FileLock(str(path.with_name("writer.lock")), mode=FILE):
                version = _version(engine)
                if version is None:
                    check_database(path, is_blank=True)
                if version != HEAD:
                    _migrate(engine, version, path)
    except (DatabaseError, sqlite3.DatabaseError, OSError) as error:
        engine.dispose()
        raise _explained(error, path) from error
    return engine


def _configure(connection: sqlite3.Connection, _record: Any) -> None:
    # pysqlite's own transaction handling is switched off: SQLAlchemy's documented recipe for true transactions.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")  # an accepted document survives a power cut too
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA cache_size = -65536")  # 64 MiB
    cursor.close()


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def writing(engine: Engine) -> Engine:
    """The same engine, whose transactions hold the database's write lock from their beginning.

    SQLite refuses at once, without waiting, to let a transaction write that has read before another one's commit; and
    questions are written down while documents are added.
    """
    return engine.execution_options(**{_WRITES: True})


@contextmanager
def changes(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes; what the disk or the database says against it is said in words."""
    try:
        with writing(engine).begin() as connection:
            yield connection
    except DatabaseError as error:
        raise explain_sql(error, Path(engine.url.database or "").parent) from error


def explain_sql(error: DatabaseError, folder: Path) -> LibraryError:
    """What went wrong in the database of a library's folder."""
    if not isinstance(error, OperationalError):
        return LibraryDamaged(f"the database in {folder} is damaged: {error.orig}")
    said = str(error.orig)
    # SQLite says "full" of a full disk; a quota or a limit on the size of a file is a failed write to it.
    full = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
    if "disk is full" in said or getattr(error.orig, "sqlite_errorcode", 0) in full:
        return DiskFull(f"the disk that holds {folder} is full")
    if "disk I/O error" in said:
        return LibraryError(f"the disk that holds {folder} failed: {said}", hint="it may be full or failing")
    if "locked" in said:
        return LibraryBusy("the database is locked by another program")
    return LibraryError(f"the database refused: {said}", hint="run `refdesk doctor`")


def file_of(engine: Engine) -> tuple[int, int] | None:
    """Which file the database is (device and number); None where it is none, or where it is gone."""
    try:
        found = Path(engine.url.database or "").stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def storable(text: str) -> str:
    """A text that SQLite and PostgreSQL both take: no zero characters, no halves of surrogate pairs."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _version(engine: Engine) -> str | None:
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _migrate(engine: Engine, version: str | None, path: Path) -> None:
    from alembic import command  # imported here: opening an up-to-date library must stay fast
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise LibraryTooNew(
                f"the library {path.parent} was written by a newer Refdesk (schema {version})"
            ) from error


def _explained(error: Exception, path: Path) -> LibraryError:
    cause = error.orig if isinstance(error, DatabaseError) else error
    if isinstance(cause, sqlite3.DatabaseError) and not isinstance(cause, sqlite3.OperationalError):
        return LibraryDamaged(f"the database {path} does not open: {cause}")
    if getattr(cause, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL or getattr(cause, "errno", 0) == errno.ENOSPC:
        return DiskFull(f"the disk that holds {path.parent} is full")
    return LibraryError(f"the database {path} does not open: {cause}", hint="check the folder, its rights and the disk")
