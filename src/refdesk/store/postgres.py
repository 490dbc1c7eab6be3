"""PostgreSQL specifics: opening it, reading through a pool, one writer among many machines, error messages.

All that differs between SQLite and PostgreSQL stands here and in `database.py`; statements are written for both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from filelock import Timeout
from sqlalchemy import URL, Connection, Engine, PoolProxiedConnection, Table, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, InterfaceError, OperationalError

from refdesk.errors import DiskFull, ExtraMissing, LibraryBusy, LibraryError, UsageError

SCHEMES = ("postgresql", "postgres")
OLDEST = 150000  # 15; as the server gives its version
OLDEST_VECTOR = (0, 7)  # pgvector that has halfvec
READS = "refdesk_reads"  # the option of an engine under which the engine of its reads is found
AREAS = {"records": 1, "library": 2, "opening": 3, "jobs": 4}  # written by one transaction at a time; keys of locks
_WRITER = "hashtext(current_schema()), 9"  # the key of the lock that a writer holds from one transaction to the next
_FULL = ("53100", "53200")  # disk full, out of memory
_TIMED_OUT = ("57014", "55P03")  # statement time-out, lock time-out
_ENDED = ("57P01", "57P02", "57P03")  # the server is shutting down, crashed, or not up yet


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """Where a PostgreSQL is, and how it is used."""

    url: str
    pool: int = 10  # connections for reading, and as many for writing
    timeout_s: float = 30.0  # of one statement that reads
    options: str = ""  # of the session, as `psql` takes them: -c name=value


def parsed_url(url: str) -> URL:
    """The address as SQLAlchemy takes it, with the driver that Refdesk uses."""
    try:
        found = make_url(url)
    except ArgumentError:
        raise UsageError(
            "REFDESK_DATABASE_URL is not a valid address", hint="give it as postgresql://user:password@host/database"
        ) from None
    if found.drivername.partition("+")[0] not in SCHEMES:
        raise UsageError(
            f"'{found.drivername}' databases are not supported",
            hint="use postgresql://, or unset REFDESK_DATABASE_URL to keep the library in its folder",
        )
    if not found.database:
        raise UsageError(
            "REFDESK_DATABASE_URL names no database", hint="end it with the name of an existing database: /NAME"
        )
    return found.set(drivername="postgresql+psycopg")


def connect_server(server: PostgresServer) -> Engine:
    """The engine of a server that answers; the one that reads is an option of it."""
    try:
        import psycopg  # noqa: F401  # an extra; nothing else of Refdesk needs it
    except ImportError as error:
        raise ExtraMissing(
            "PostgreSQL needs a driver that is not installed", hint="pip install 'refdesk[postgres]'"
        ) from error
    url = parsed_url(server.url)
    writes = _engine(url, server, timeout_s=0.0)
    reads = _engine(url, server, server.timeout_s, isolation_level="AUTOCOMMIT")
    event.listen(writes, "begin", _begin)
    event.listen(writes, "engine_disposed", lambda _: reads.dispose())
    try:
        with reads.connect() as connection:
            _check(connection)
    except DBAPIError as error:
        reads.dispose()
        raise explain_server(error, url) from error
    return writes.execution_options(**{READS: reads})


def _engine(url: URL, server: PostgresServer, timeout_s: float, **more: Any) -> Engine:
    ours = f"-c statement_timeout={int(timeout_s * 1000)} -c jit=off {server.options}"
    given = url.query.get("options", "")
    options = f"{given if isinstance(given, str) else ' '.join(given)} {ours}".strip()
    engine = create_engine(
        url.update_query_dict({"options": options}),
        connect_args={"application_name": "refdesk", "connect_timeout": 10},
        pool_size=server.pool,
        max_overflow=server.pool,
        pool_timeout=30,
        pool_pre_ping="isolation_level" not in more,  # reads try again by themselves
        pool_use_lifo=True,
        hide_parameters=True,  # errors come into the log, and questions do not
        **more,
    )
    event.listen(engine, "connect", _take_zero_characters)
    return engine


def _take_zero_characters(connection: Any, _: object) -> None:
    """Texts with a zero character, which PostgreSQL refuses, are sent with another sign in its place.

    SQLite takes them: a name or an id in which somebody types one is then known to no one, and that is no error.
    """
    for dumper in _text_dumpers():
        connection.adapters.register_dumper(str, dumper)


@cache
def _text_dumpers() -> tuple[type, type]:
    """As in lists, and the usual one, which must come last."""
    from psycopg.types.string import StrBinaryDumper, StrDumperUnknown

    class ListedText(StrBinaryDumper):
        def dump(self, obj: str) -> Any:
            return super().dump(_without_zero(obj))

    class Text(StrDumperUnknown):
        def dump(self, obj: str) -> Any:
            return super().dump(_without_zero(obj))

    return ListedText, Text


def _without_zero(text: str) -> str:
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}") if "\0" in text else text


def _check(connection: Connection) -> None:
    version = int(connection.exec_driver_sql("SHOW server_version_num").scalar_one())
    if version < OLDEST:
        raise LibraryError(f"PostgreSQL {version // 10000} is too old", hint="Refdesk needs 15 or later")
    ask = "SELECT coalesce(e.extversion, a.default_version) FROM pg_available_extensions a LEFT JOIN pg_extension e"
    vector = connection.exec_driver_sql(f"{ask} ON e.extname = a.name WHERE a.name = 'vector'").scalar()
    if vector is None or tuple(map(int, vector.split(".")[:2])) < OLDEST_VECTOR:
        what = "has no pgvector" if vector is None else f"has pgvector {vector}"
        raise LibraryError(f"this PostgreSQL {what}", hint="install pgvector 0.7 or later on the server")


def make_extension(connection: Connection) -> None:
    """pgvector in this database; somebody with more rights may have made it before."""
    if connection.exec_driver_sql("SELECT 1 FROM pg_extension WHERE extname = 'vector'").first() is None:
        try:
            connection.exec_driver_sql("CREATE EXTENSION vector")
        except DBAPIError as error:
            raise LibraryError(
                f"pgvector cannot be switched on: {_said(error)}",
                hint="let an administrator run CREATE EXTENSION vector in this database",
            ) from error


def _begin(connection: Connection) -> None:
    """What is written in one area waits for its turn: the statements were made for SQLite, which has one writer."""
    area = connection.get_execution_options().get("refdesk_writes", "")
    if area in AREAS:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock(hashtext(current_schema()), {AREAS[area]})")


class PooledReads:
    """Reads of several threads, each on a connection of a pool; tried once more when the server has gone and come."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Engine = engine.get_execution_options()[READS]

    def rows(self, statement: str, values: Any = ()) -> list[Any]:
        try:
            return self._rows(statement, values)
        except (OperationalError, InterfaceError) as error:
            if not error.connection_invalidated:
                raise explain_server(error, self._engine.url) from error
        try:
            return self._rows(statement, values)
        except DBAPIError as error:
            raise explain_server(error, self._engine.url) from error

    def _rows(self, statement: str, values: Any) -> list[Any]:
        base = self._engine.dialect.loaded_dbapi.Error
        try:
            connection = self._engine.raw_connection()
        except base as error:  # nobody listens: as it is raised from a connection that broke
            raise DBAPIError.instance(statement, None, error, base, hide_parameters=True) from error
        try:
            cursor = connection.cursor(binary=True)
            cursor.execute(statement, values)
            return list(cursor.fetchall())
        except base as error:
            is_broken = bool(getattr(connection.driver_connection, "broken", False))
            if is_broken:
                connection.invalidate(error)
                self._engine.dispose()  # the others of the pool are as old
            raise DBAPIError.instance(
                statement, None, error, base, hide_parameters=True, connection_invalidated=is_broken
            ) from error
        finally:
            connection.close()

    def close(self) -> None:
        self._engine.dispose()


class ServerLock:
    """Held by one process of all machines, in the way of a `FileLock`: for as long as a session of the server lasts."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: PoolProxiedConnection | None = None
        self.lock_counter = 0

    def acquire(self, timeout: float, poll_interval: float = 0.0) -> None:
        """Waits in the queue of the server for so long; raises `filelock.Timeout`."""
        if self.lock_counter == 0 and not self._locked(timeout):
            raise Timeout("the library")
        self.lock_counter += 1

    def _locked(self, timeout: float) -> bool:
        base = self._engine.dialect.loaded_dbapi.Error
        try:
            connection = self._engine.raw_connection()
            connection.driver_connection.autocommit = True  # type: ignore[union-attr]
            self._held, cursor = connection, connection.cursor()
            if timeout > 0:
                cursor.execute(f"SET lock_timeout = {int(timeout * 1000)}")
                cursor.execute(f"SELECT pg_advisory_lock({_WRITER})")
                cursor.execute("RESET lock_timeout")
                return True
            cursor.execute(f"SELECT pg_try_advisory_lock({_WRITER})")
            if (cursor.fetchone() or (False,))[0]:
                return True
        except base as error:
            self._let_go(error)
            if getattr(error, "sqlstate", "") not in _TIMED_OUT:
                wrapped = DBAPIError.instance(None, None, error, base, hide_parameters=True)
                raise explain_server(wrapped, self._engine.url) from error  # type: ignore[arg-type]
            return False
        self._let_go()
        return False

    def release(self) -> None:
        self.lock_counter -= 1
        if self.lock_counter == 0 and self._held is not None:
            try:
                self._held.cursor().execute(f"SELECT pg_advisory_unlock({_WRITER})")
            except self._engine.dialect.loaded_dbapi.Error as error:  # the session is over, and the lock with it
                self._let_go(error)
            self._let_go()

    def _let_go(self, error: BaseException | None = None) -> None:
        """Gives the connection back to the pool, or ends it with the lock that it may hold."""
        connection, self._held = self._held, None
        if connection is not None and error is not None:
            connection.invalidate(error)
        elif connection is not None:
            connection.driver_connection.autocommit = False  # type: ignore[union-attr]
        if connection is not None:
            connection.close()


def explain_server(error: DBAPIError, url: URL) -> LibraryError:
    """What went wrong in PostgreSQL, in words; never with the password, nor with what was written."""
    where = _place(url)
    state = getattr(error.orig, "sqlstate", None) or ""
    message = _said(error)
    if state in _FULL:
        return DiskFull(f"the disk or the memory of the database {where} is full")
    if state in _TIMED_OUT:
        return LibraryBusy(f"the database {where} took too long", hint="try again, or raise REFDESK_DATABASE_TIMEOUT_S")
    if (
        state.startswith("28") or "authentication failed" in message or 'FATAL: role "' in message
    ):  # without a state when it comes at connecting
        return LibraryError(f"the database {where} refused this user: {message}", hint="check REFDESK_DATABASE_URL")
    if state == "3D000" or ('database "' in message and message.endswith("does not exist")):
        return LibraryError(f"there is no database {where}", hint="create it, or correct REFDESK_DATABASE_URL")
    if state == "25006":
        return LibraryError(f"the database {where} is read-only", hint="use the primary, not a replica")
    if (
        state in _ENDED
        or state.startswith("08")
        or (isinstance(error, OperationalError | InterfaceError) and not state)
    ):
        found = LibraryError(
            f"the database {where} cannot be reached: {message}", hint="start it, or try again in a moment"
        )
        found.retryable = True
        return found
    return LibraryError(f"the database {where} refused: {message}", hint="run `refdesk doctor`")


def _said(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split("\n")[0].split()) if isinstance(error, DatabaseError) else str(error.orig)


def describe_server(engine: Engine) -> str:
    """Which server, which pgvector."""
    with engine.connect() as connection:
        version = connection.exec_driver_sql("SHOW server_version").scalar_one().split()[0]
        asked = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
        vector = connection.exec_driver_sql(asked).scalar_one()
    return f"PostgreSQL {version} at {_place(engine.url)}; vectors by pgvector {vector}"


def _place(url: URL) -> str:
    """Without user and password."""
    return f"{url.host or url.query.get('host', 'this machine')}/{url.database}"


def is_server(engine: Engine) -> bool:
    return engine.dialect.name == "postgresql"


# Many rows at once: COPY in PostgreSQL's own binary form, a third of the time of as many INSERTs, here and there.

_TYPES = {"BIGINT": "int8", "INTEGER": "int4", "TEXT": "text", "VARCHAR": "text", "FLOAT": "float8", "BLOB": "bytea"}


def copy_in(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Rows of the same columns into a table; a column that none has takes what the server knows for it."""
    names = list(rows[0])
    types = [_TYPES[str(table.c[name].type.as_generic()).partition("(")[0]] for name in names]
    base = connection.dialect.loaded_dbapi.Error
    quoted = ", ".join(f'"{table.c[name].name}"' for name in names)
    statement = f"COPY {table.name} ({quoted}) FROM STDIN (FORMAT BINARY)"
    driver: Any = connection.connection.driver_connection
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row([row[name] for name in names])
    except base as error:  # as SQLAlchemy raises it, without the values
        raise DBAPIError.instance(statement, None, error, base, hide_parameters=True) from error


# What a server must know that SQLite knows by itself: keys that were copied are not given again.


def continue_keys(connection: Connection, tables: Sequence[tuple[str, str]]) -> None:
    """The next key of these tables and columns comes after the greatest that is there."""
    for table, column in tables:
        connection.exec_driver_sql(
            f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'),"
            f" (SELECT coalesce(max({column}), 0) + 1 FROM {table}), false)"
        )
