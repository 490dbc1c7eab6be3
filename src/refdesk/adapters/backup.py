"""The whole library in one file, taken while others work with it, and back again."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tarfile
import tempfile
from pathlib import Path

from sqlalchemy import Engine

from refdesk.adapters.files import explain
from refdesk.errors import LibraryDamaged, UsageError

_DATABASE = "library.db"
_KEPT = ("files", "refdesk.toml")  # indexes and page images are made again from these


def backup(engine: Engine, folder: Path, target: Path) -> Path:
    """Writes a tar file: SQLite's online copy of the database, then the originals it names.

    The copy is of one moment. A file that is added later is not in it; one that is deleted meanwhile may be missing,
    and then so is its document in the library that is running.
    """
    target = target.absolute()
    building = target.with_name(target.name + ".building")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".refdesk-") as place:
            copy = Path(place) / _DATABASE
            _copy_database(engine, copy)
            with tarfile.open(building, "w") as archive:
                archive.add(copy, _DATABASE)
                for name in _KEPT:
                    if (folder / name).exists():
                        _add(archive, folder / name, name)
        with building.open("rb") as file:
            os.fsync(file.fileno())
        building.replace(target)
    except OSError as error:
        building.unlink(missing_ok=True)
        raise explain(error, target) from error
    return target


def _copy_database(engine: Engine, copy: Path) -> None:
    with engine.connect() as connection, contextlib.closing(sqlite3.connect(copy)) as target:
        source = connection.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        source.rollback()  # a transaction that is open would keep the copy from starting
        source.backup(target)


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    if path.is_dir():
        for child in sorted(path.iterdir()):
            _add(archive, child, f"{name}/{child.name}")
    elif not path.name.startswith("new-"):
        with contextlib.suppress(FileNotFoundError):  # deleted a moment ago
            archive.add(path, name)


def restore(file: Path, folder: Path, *, replace: bool) -> None:
    """Unpacks a backup beside the library's folder and then puts it in its place."""
    if (folder / _DATABASE).exists() and not replace:
        raise UsageError(f"{folder} holds a library already", hint="name another folder, or say --replace")
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".refdesk-") as place:
            fresh = Path(place) / "library"
            _unpack(file, fresh)
            if folder.exists():
                old = Path(place) / "old"
                folder.rename(old)
            fresh.rename(folder)
    except OSError as error:
        raise explain(error, folder) from error


def _unpack(file: Path, fresh: Path) -> None:
    try:
        with tarfile.open(file) as archive:
            archive.extractall(fresh, filter="data")
        with contextlib.closing(sqlite3.connect(fresh / _DATABASE)) as database:
            state = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}") from None
    except (tarfile.TarError, EOFError, sqlite3.DatabaseError) as error:
        raise LibraryDamaged(f"{file} is not a whole backup: {error}", hint="use another backup") from error
    if state != "ok":
        raise LibraryDamaged(f"the database in {file} is damaged: {state}", hint="use another backup")
