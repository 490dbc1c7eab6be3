"""Opens the database: one engine per library, SQLite in WAL mode or PostgreSQL, migrated if it is older."""

from __future__ import annotations

import atexit
import errno
import logging
import shutil
import sqlite3
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from filelock import FileLock
from sqlalchemy import (
    Connection,
    Delete,
    Dialect,
    Engine,
    Insert,
    PoolProxiedConnection,
    Select,
    Update,
    create_engine,
    event,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.exc import DatabaseError, DBAPIError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from refdesk.config import DATABASE, FILE, library_files, size_of
from refdesk.entities import key_of
from refdesk.errors import DiskFull, LibraryBusy, LibraryDamaged, LibraryError, LibraryTooNew
from refdesk.store.postgres import (
    PooledReads,
    PostgresServer,
    connect_server,
    explain_server,
    is_server,
    make_extension,
)
from refdesk.store.schema import chunks, entities, images, metadata, state

ADVICE = (
    "restore a backup with `refdesk restore FILE --replace`; `refdesk reindex` cannot help, as it reads the database; "
    "to start over, move the folder away first"
)


def check_database(path: Path, *, is_blank: bool = False) -> None:
    """Raises `LibraryDamaged` when the database is missing, or holds nothing, and other files of a library are there.

    It must be asked before SQLite opens the file: beside an empty one SQLite removes the changes that wait in
    library.db-wal. `is_blank` says that it was opened and has no tables.
    """
    size = size_of(path)
    if size and not is_blank:
        return
    beside = [library_file for library_file in library_files(path.parent) if library_file != DATABASE]
    if beside and (is_blank or not size_of(path)):  # looked at twice: another process may be making it
        what = "has no tables" if size else "is empty" if path.exists() else "is missing"
        raise LibraryDamaged(f"the database {path} {what}, but the folder holds {', '.join(beside)}", hint=ADVICE)


HEAD = "0011"  # the newest migration; a test compares it with the folder
FIRST = "0008"  # that of 0.1.0
COMPATIBLE = "compatible"  # the row of `state` that names the oldest schema whose programs may use this one
TABLES_MISSING = "missing"  # as the state says it: `refdesk reindex` reads them out of what is kept
_WRITES = "refdesk_writes"
FULL_BELOW = 1 << 16  # bytes free; SQLite asks for half of it at once
logger = logging.getLogger("refdesk.store")
BUSY_TIMEOUT_S = 60  # writers are serialised by the file lock; this covers checkpoints and backups


def open_database(path: Path, *, is_new: bool = False) -> Engine:
    """The engine of the SQLite file at `path`, created or migrated as needed; `is_new` when it is to be filled."""
    engine = _engine(path)
    event.listen(engine, "connect", _configure)
    if not is_new:
        check_database(path)
    with suppress(OSError):  # what SQLite makes beside it has the same rights; where it cannot be made, SQLite says why
        path.touch(mode=FILE)
    try:
        if not _is_current(engine):
            # Two processes may open a new library at once: one makes the tables, the other waits and finds them.
            with FileLock(str(path.with_name("writer.lock")), mode=FILE):
                version = _version(engine)
                if version is None and not is_new:
                    check_database(path, is_blank=True)
                if version != HEAD:
                    _migrate(engine, version, path)
                add_missing_tables(engine)
    except (DatabaseError, sqlite3.DatabaseError, OSError) as error:
        engine.dispose()
        reading = _open_to_read(path) if _cannot_be_written(error) else None
        if reading is None:
            raise _explained(error, path) from error
        return reading
    return engine


def open_server(server: PostgresServer) -> Engine:
    """The engine of a library in PostgreSQL, its tables created or migrated as needed."""
    engine = connect_server(server)
    where = f"in {engine.url.host or 'PostgreSQL'}/{engine.url.database}"
    try:
        if not _is_current(engine):
            # Two processes may open a new library at once: one makes the tables, the other waits and finds them.
            with writing(engine, "opening").begin() as connection:
                make_extension(connection)
                version = _version_of(connection)
                if version != HEAD:
                    _migrate_in(connection, version, where)
                metadata.create_all(connection)
    except DatabaseError as error:
        raise explain_server(error, engine.url) from error
    return engine


def _engine(path: Path, connect: Callable[[], sqlite3.Connection] | None = None) -> Engine:
    # No limit on connections: each thread that searches keeps one. What is written is not in the errors, which come
    # into the log: questions are in it only where that is asked for.
    options: dict[str, Any] = {"poolclass": QueuePool, "pool_size": 0, "hide_parameters": True}
    if connect is None:
        options["connect_args"] = {"timeout": BUSY_TIMEOUT_S, "check_same_thread": False}
    else:
        options["creator"] = connect
    engine = create_engine(f"sqlite:///{path}", **options)
    event.listen(engine, "begin", _begin)
    return engine


def _open_to_read(path: Path) -> Engine | None:
    """The database as it stands, where SQLite cannot make the two files that it keeps beside it; None if that is not
    all of it.

    A full disk and one that cannot be written let nobody else write either. Changes that lie in library.db-wal are
    only seen with those files.
    """
    try:
        if not path.stat().st_size or path.with_name(f"{path.name}-wal").stat().st_size:
            return None
    except FileNotFoundError:
        if not path.exists():
            return None

    def connect() -> sqlite3.Connection:
        found = sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True, check_same_thread=False)
        found.isolation_level = None
        return found

    engine = _engine(path, connect)
    try:
        if _is_current(engine):
            logger.warning("%s is read-only: its disk is full or not writable", path.parent)
            return engine
    except DatabaseError:
        pass
    engine.dispose()
    return None


def _cannot_be_written(error: Exception) -> bool:
    """Whether it may be the disk that is full or closed, and not the database that is damaged."""
    cause = error.orig if isinstance(error, DatabaseError) else error
    if isinstance(cause, OSError):
        return cause.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF  # the kind of it
    kinds = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
    return isinstance(cause, sqlite3.OperationalError) and code in kinds


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < FULL_BELOW
    except OSError:
        return False


def _configure(connection: sqlite3.Connection, _record: Any) -> None:
    # pysqlite's own transaction handling is switched off: SQLAlchemy's documented recipe for true transactions.
    connection.isolation_level = None
    cursor = connection.cursor()
    _use_write_ahead_log(cursor)
    cursor.execute("PRAGMA synchronous = FULL")  # an accepted document survives a power cut too
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute("PRAGMA cache_size = -65536")  # 64 MiB
    cursor.close()


def _use_write_ahead_log(cursor: sqlite3.Cursor) -> None:
    """SQLite does not wait where several processes turn a new database to its write-ahead log at once."""
    until = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.02)
        else:
            return


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, "")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def writing(engine: Engine, area: str = "records") -> Engine:
    """The same engine, whose transactions hold a write lock from their beginning: SQLite's own, or one of an area.

    SQLite refuses at once, without waiting, to let a transaction write that has read before another one's commit; and
    questions are written down while documents are added. In PostgreSQL only what is of one area waits for one another.
    """
    return engine.execution_options(**{_WRITES: area})


ROWS = "rows"  # the area of what locks the rows it changes, and needs no other lock in PostgreSQL


@contextmanager
def changes(engine: Engine, area: str = "records") -> Iterator[Connection]:
    """A transaction that writes; what the disk or the database says against it is said in words."""
    try:
        with writing(engine, area).begin() as connection:
            yield connection
    except DBAPIError as error:
        raise explained_error(error, engine) from error


def explained_error(error: DBAPIError, engine: Engine, folder: Path | None = None) -> Exception:
    """What either database says, in words."""
    if is_server(engine):
        return explain_server(error, engine.url)
    if not isinstance(error, DatabaseError):
        return error
    return explain_sql(error, folder or Path(engine.url.database or "").parent)


def explain_sql(error: DatabaseError, folder: Path) -> LibraryError:
    """What went wrong in the database of a library's folder."""
    if not isinstance(error, OperationalError):
        return LibraryDamaged(f"the database in {folder} is damaged: {error.orig}")
    message = str(error.orig)
    # SQLite says "full" of a full disk; a quota or a limit on the size of a file is a failed write to it.
    full = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE)
    code = getattr(error.orig, "sqlite_errorcode", 0)
    if "disk is full" in message or code in full or (_cannot_be_written(error) and _is_full(folder)):
        return DiskFull(f"the disk that holds {folder} is full")
    if code & 0xFF == sqlite3.SQLITE_READONLY:
        return LibraryError(
            f"the library {folder} cannot be written", hint="check the disk and the permissions of the folder"
        )
    if "disk I/O error" in message:
        return LibraryError(f"the disk that holds {folder} failed: {message}", hint="it may be full or failing")
    if "locked" in message:
        return LibraryBusy("the database is locked by another program")
    return LibraryError(f"the database refused: {message}", hint="run `refdesk doctor`")


def file_of(engine: Engine) -> tuple[int, int] | None:
    """Which file the database is (device and number); None where it is none, or where it is gone."""
    if is_server(engine):
        return None
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
        return _version_of(connection)


def _version_of(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _is_current(engine: Engine) -> bool:
    with engine.connect() as connection:
        version = _version_of(connection)
        return (version == HEAD or _may_be_used(connection, version)) and not _missing_tables(connection)


def _may_be_used(connection: Connection, version: str | None) -> bool:
    """Whether a newer program has only added to the schema: it says who may go on using it (docs/postgresql.md)."""
    if version is None or version <= HEAD:
        return False
    oldest = connection.execute(select(state.c.value).where(state.c.name == COMPATIBLE)).scalar()
    return oldest is not None and oldest <= HEAD


def _missing_tables(connection: Connection) -> set[str]:
    return set(metadata.tables) - set(inspect(connection).get_table_names())


def add_missing_tables(engine: Engine) -> None:
    """Libraries of the weeks before 0.1.0 have fewer; what a chunk names and shows was then part of its details."""
    with writing(engine).begin() as connection:
        missing = _missing_tables(connection)
        metadata.create_all(connection)
        if "tables" in missing and connection.execute(select(chunks.c.id).limit(1)).first() is not None:
            connection.execute(insert(state).values(name="tables", value=TABLES_MISSING))
        if "entities" not in missing:
            return
        rows = connection.execute(select(chunks.c.id, chunks.c.document_key, chunks.c.first_page, chunks.c.details))
        for some in rows.partitions(4096):
            details = {row.id: orjson.loads(row.details) for row in some}
            named = [
                {"chunk_id": chunk_id, "place": place, "name": name, "key": key_of(name)}
                for chunk_id, more in details.items()
                for place, name in enumerate(more.get("entities", ()))
            ]
            shown = [
                {"chunk_id": row.id, "document_key": row.document_key, "page": row.first_page, "file": file}
                for row in some
                if (file := details[row.id].get("image"))
            ]
            for table, values in ((entities, named), (images, shown)):
                if values:
                    connection.execute(insert(table), values)


def _migrate(engine: Engine, version: str | None, path: Path) -> None:
    with engine.begin() as connection:
        _migrate_in(connection, version, str(path.parent))


def _migrate_in(connection: Connection, version: str | None, where: str) -> None:
    """A new library is made as the schema says; one of an earlier release is brought there."""
    from alembic import command  # imported here: opening an up-to-date library must stay fast
    from alembic.config import Config
    from alembic.util import CommandError

    if version is not None and version < FIRST:
        raise LibraryError(
            f"the library {where} was written by a Refdesk before 0.1.0 (schema {version})",
            hint="create a new library and add the documents to it",
        )
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    try:
        if version is None:
            metadata.create_all(connection)
            command.stamp(config, "head")
        else:
            command.upgrade(config, "head")
    except CommandError as error:
        raise LibraryTooNew(f"the library {where} was written by a newer Refdesk (schema {version})") from error


def _explained(error: Exception, path: Path) -> LibraryError:
    cause = error.orig if isinstance(error, DatabaseError) else error
    if isinstance(cause, sqlite3.DatabaseError) and not isinstance(cause, sqlite3.OperationalError):
        return LibraryDamaged(f"the database {path} does not open: {cause}")
    code = getattr(cause, "sqlite_errorcode", 0)
    if (
        code == sqlite3.SQLITE_FULL
        or getattr(cause, "errno", 0) == errno.ENOSPC
        or (_cannot_be_written(error) and _is_full(path.parent))
    ):
        return DiskFull(f"the disk that holds {path.parent} is full")
    return LibraryError(
        f"the database {path} does not open: {cause}", hint="check the folder, its permissions and the disk"
    )


# A connection of its own for every thread that reads SQLite, closed when the thread ends; PostgreSQL has a pool.


class _ThreadConnection:
    """Lives as long as the thread whose local value it is."""

    def __init__(self, connection: PoolProxiedConnection) -> None:
        self.connection = connection


class OwnConnections:
    """Safe to use from several threads."""

    def __init__(self, connect: Callable[[], PoolProxiedConnection]) -> None:
        self._connect = connect
        self._per_thread = threading.local()
        self._lock = threading.Lock()
        self._closers: list[weakref.finalize[..., _ThreadConnection]] = []

    def get(self) -> PoolProxiedConnection:
        per_thread: _ThreadConnection | None = getattr(self._per_thread, "held", None)
        if per_thread is None:
            per_thread = self._per_thread.held = _ThreadConnection(self._connect())
            closer = weakref.finalize(per_thread, per_thread.connection.close)
            closer.atexit = False
            with self._lock:
                self._closers = [closer for closer in self._closers if closer.alive] + [closer]
        return per_thread.connection

    def rows(self, statement: str, values: Any = ()) -> list[Any]:
        cursor = self.get().cursor()
        try:
            cursor.execute(statement, values)
            return list(cursor.fetchall())
        finally:
            cursor.close()

    def close(self) -> None:
        """Also those of threads that go on; whoever asks again gets a new one."""
        self._per_thread = threading.local()
        with self._lock:
            for closer in self._closers:
                closer()
            self._closers = []


# What every question reads and every document writes: statements that are written out once and go to the driver.


class SqlStatement:
    """Written out when it is first run, once in each dialect.

    Values are given by name, as the driver takes them. `columns` are those that an INSERT fills, if not all.
    """

    def __init__(self, statement: Select[Any] | Insert | Update | Delete, columns: Sequence[str] | None = None) -> None:
        self._statement = statement
        self._columns = None if columns is None else list(columns)
        self._written: dict[str, tuple[str, Mapping[str, Any], Sequence[str] | None]] = {}

    def run(self, connection: Connection, **values: Any) -> Any:
        """The driver's own cursor, within the connection's transaction: SQLAlchemy's would take as long again."""
        text, given = self.written(connection.dialect, values)
        cursor = connection.connection.cursor()
        try:
            cursor.execute(text, given)
        except connection.dialect.loaded_dbapi.Error as error:  # as SQLAlchemy raises it, without the values
            base = connection.dialect.loaded_dbapi.Error
            raise DBAPIError.instance(text, None, error, base, hide_parameters=True) from error
        return cursor

    def run_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Once for each row, in one call of the driver; each row holds every value."""
        if rows:
            text, _ = self.written(connection.dialect, rows[0])
            connection.exec_driver_sql(text, [self.written(connection.dialect, row)[1] for row in rows])

    def written(self, dialect: Dialect, values: Mapping[str, Any]) -> tuple[str, Any]:
        """The text and the values as the driver takes them."""
        known = self._written.get(dialect.name)
        if known is None:
            compiled = self._statement.compile(dialect=dialect, column_keys=self._columns)
            # A value that is forgotten is an error, not the mark that SQLAlchemy has for it.
            set_before = {name: bind.effective_value for name, bind in compiled.binds.items() if not bind.required}
            known = self._written[dialect.name] = (str(compiled), set_before, compiled.positiontup)
        text, fixed, order = known
        every = {**fixed, **values}
        return text, every if order is None else tuple(every[name] for name in order)


def reads_of(engine: Engine, prepare: str = "") -> OwnConnections | PooledReads:
    """How a library is read outside of transactions; each read sees what is committed at that moment.

    `prepare` is what a new connection to SQLite runs first.
    """

    def connect() -> PoolProxiedConnection:
        found = engine.raw_connection()
        if prepare:
            found.cursor().execute(prepare)
        found.detach()  # the pool would keep it open, and so mapped, for whoever comes next
        return found

    return PooledReads(engine) if is_server(engine) else OwnConnections(connect)


class PreparedReader:
    """Runs SELECTs that are written out once; for several threads. Each read sees what is committed at that moment."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._connections = reads_of(engine)

    def rows(self, statement: SqlStatement, **values: Any) -> list[Any]:
        return self._connections.rows(*statement.written(self.engine.dialect, values))

    def close(self) -> None:
        self._connections.close()


# Writes that no answer waits for: collected, then written together in one transaction by a thread of its own. SQLite is
# told to reach the disk with every transaction; that takes milliseconds, on a slow disk a hundred of them.

GATHER_S = 0.2  # what comes within this time is written together; a killed process loses no more
MOST_WAITING = 10_000  # writes; more only wait when the disk has been stuck for minutes

Write = Callable[[Connection], None]


class BackgroundWriter:
    """Takes writes at once and does them soon; `flush` does them now. A write that fails is counted, never raised."""

    def __init__(self, engine: Engine) -> None:
        self._engine = writing(engine)
        self._waiting: deque[Write] = deque()
        self._writing = threading.Lock()  # held while a batch is written
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.lost = 0  # writes that failed
        self.error = ""  # why the last one did
        _at_exit(self)

    def submit(self, write: Write) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self._lose(1, f"{MOST_WAITING} writes are waiting for the disk")
            return
        self._waiting.append(write)
        if self._closed.is_set():
            self.flush()
            return
        if self._thread is None or not self._thread.is_alive():  # not alive: this process is a fork
            self._thread = threading.Thread(target=self._run, name="refdesk-store", daemon=True)
            self._thread.start()
        self._wake.set()

    def flush(self) -> None:
        """When it returns, everything submitted before is written, or counted as lost."""
        with self._writing:
            while batch := self._taken():
                self._write(batch)

    def close(self) -> None:
        self._closed.set()
        self._wake.set()
        self.flush()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._wake.wait()
            self._wake.clear()
            self._closed.wait(GATHER_S)
            self.flush()

    def _taken(self) -> list[Write]:
        return [self._waiting.popleft() for _ in range(len(self._waiting))]

    def _write(self, batch: list[Write]) -> None:
        try:
            with self._engine.begin() as connection:
                for write in batch:
                    write(connection)
        except (SQLAlchemyError, OSError, ValueError, TypeError) as error:
            # One bad write must not take the others with it; a disk that is full or stuck takes none of them.
            if len(batch) > 1 and not isinstance(error, OperationalError | OSError):
                for write in batch:
                    self._write([write])
            else:
                self._lose(len(batch), str(getattr(error, "orig", error)))

    def _lose(self, count: int, why: str) -> None:
        if not self.lost:
            logger.warning("answers and their traces cannot be saved: %s", why)
        self.lost += count
        self.error = why


def _at_exit(writer: BackgroundWriter) -> None:
    """A program that forgets to close still keeps its answers; one that has dropped the writer is not held up."""
    reference = weakref.ref(writer)

    def flush() -> None:
        if (found := reference()) is not None:
            found.flush()

    atexit.register(flush)
    # Not at exit: it would take the flush away before it has run.
    weakref.finalize(writer, atexit.unregister, flush).atexit = False
