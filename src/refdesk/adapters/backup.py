"""The whole library in one file, taken while others work with it, and back again."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from pathlib import Path, PurePosixPath

from sqlalchemy import Engine, create_engine

from refdesk.adapters.damage import Damage, damaged_originals, damaged_uploads
from refdesk.adapters.files import FileStore, explain
from refdesk.adapters.private import close_to_others, make_folder, opener
from refdesk.adapters.restoring import INTENTION, NEW, put_in_place, restore_lock, settle_restore, writer_lock
from refdesk.adapters.runs import any_alive
from refdesk.adapters.spool import Spool
from refdesk.adapters.standing import traces
from refdesk.errors import LibraryBusy, LibraryDamaged, RefdeskError, UsageError

_DATABASE = "library.db"
_END = "backup-is-whole"  # the last file in the archive: a tar file that was cut off between two files opens too
_LEFTOVER = ".backup-"
_KEPT = ("files", "refdesk.toml")  # indexes and page images are made again from these
_WAITING = "uploads"


def backup(engine: Engine, folder: Path, spool: Spool, target: Path) -> tuple[Path, list[Damage]]:
    """Writes a tar file: SQLite's online copy of the database, the originals it names, the uploads that wait to be
    added or may be tried again, then a mark of the end. Gives what of them is missing or altered: a backup without
    it is better than none.

    Copy and originals are of one moment: a writer waits while the database is copied and the files are linked, and
    not while they are packed. Readers never wait.
    """
    target = target.absolute()
    building = target.with_name(target.name + ".building")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_LEFTOVER) as name:
            place = Path(name)
            with writer_lock(folder):
                _copy_database(engine, place / _DATABASE)
                for kept in _KEPT:
                    _link(folder / kept, place / kept)
                spool.copy(place / _WAITING, link_file)
            damaged = _damaged(place)
            (place / _END).touch()
            building.unlink(missing_ok=True)
            with open(building, "xb", opener=opener) as file:
                with tarfile.open(fileobj=file, mode="w") as archive:
                    for kept in (_DATABASE, *_KEPT, _WAITING, _END):
                        if (place / kept).exists():
                            archive.add(place / kept, kept)
                file.flush()
                os.fsync(file.fileno())
        building.replace(target)
    except OSError as error:
        building.unlink(missing_ok=True)
        raise explain(error, target) from error
    return target, damaged


def _damaged(place: Path) -> list[Damage]:
    """Of what is about to be packed."""
    copy = create_engine(f"sqlite:///{place / _DATABASE}")
    try:
        with copy.connect() as connection:
            found = damaged_originals(connection, FileStore(place))
    finally:
        copy.dispose()
    return found + damaged_uploads(Spool(place / _WAITING))


def _copy_database(engine: Engine, copy: Path) -> None:
    with engine.connect() as connection, contextlib.closing(sqlite3.connect(copy)) as target:
        source = connection.connection.driver_connection
        assert isinstance(source, sqlite3.Connection)
        source.rollback()  # a transaction that is open would keep the copy from starting
        source.backup(target)


def _link(path: Path, into: Path) -> None:
    """The same files a second time, at no cost: originals are never changed, only removed."""
    if path.is_dir():
        shutil.copytree(path, into, copy_function=link_file)
    elif path.exists():
        shutil.copy2(path, into)


def link_file(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copy2(source, target)


def _remove_leftovers(folder: Path) -> None:
    """Of backups that were killed an hour ago or longer."""
    for path in folder.glob(f"{_LEFTOVER}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > 3600:
                shutil.rmtree(path, ignore_errors=True)


def restore(file: Path, folder: Path, *, replace: bool) -> None:
    """Unpacks a backup within the library's folder and then puts it in its place, see restoring.py."""
    folder = folder.absolute()
    is_new = not folder.exists()
    try:
        make_folder(folder)
        settle_restore(folder)
        if not replace and (what := traces(folder)):
            raise UsageError(
                f"{folder} holds {'a library' if _DATABASE in what else 'files of a library'} already",
                hint="name another folder, or say --replace",
            )
        _check_idle(folder)
        with restore_lock(folder):
            try:
                _unpack(file, folder / NEW)
                close_to_others(folder / NEW)
                with writer_lock(folder):  # nobody is in the middle of writing to the old one
                    _check_idle(folder)
                    put_in_place(folder)
            except (RefdeskError, OSError):
                if not (folder / INTENTION).exists():
                    shutil.rmtree(folder if is_new else folder / NEW, ignore_errors=True)
                raise
        settle_restore(folder)
    except OSError as error:
        raise explain(error, folder) from error


def _check_idle(folder: Path) -> None:
    if any_alive(folder / "runs"):  # it would go on with files that are not there any more
        raise LibraryBusy(f"{folder} is being served or added to", hint="end that first, then restore")


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Plain files into this folder; a link, or a place outside of it, is a `TarError`."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    for member in archive.getmembers():  # Python 3.11.0 to 3.11.3 have no filters
        path = PurePosixPath(member.name)
        if not (member.isfile() or member.isdir()) or path.is_absolute() or ".." in path.parts:
            raise tarfile.TarError(f"{member.name!r} does not belong into one")
    archive.extractall(folder)


def _unpack(file: Path, fresh: Path) -> None:
    shutil.rmtree(fresh, ignore_errors=True)  # of a killed attempt
    make_folder(fresh)
    try:
        with tarfile.open(file) as archive:
            _extract(archive, fresh)
        if not (fresh / _END).exists():
            raise LibraryDamaged(f"{file} is not a whole backup: its end is missing", hint="use another backup")
        (fresh / _END).unlink()
        with contextlib.closing(sqlite3.connect(fresh / _DATABASE)) as database:
            state = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}") from None
    except (tarfile.TarError, EOFError, sqlite3.DatabaseError) as error:
        raise LibraryDamaged(f"{file} is not a whole backup: {error}", hint="use another backup") from error
    if state != "ok":
        raise LibraryDamaged(f"the database in {file} is damaged: {state}", hint="use another backup")
