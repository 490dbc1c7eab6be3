"""Backs up the whole library to one file while it is in use, and restores it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tarfile
import tempfile
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any

import orjson
from filelock import FileLock, Timeout

from refdesk.config import DATABASE, FILE, close_to_others, explain, library_files, make_folder, opener, sync_folder
from refdesk.errors import LibraryBusy, LibraryDamaged, RefdeskError, UsageError
from refdesk.files.local import LocalFiles
from refdesk.store_ports import Files

# A backup takes the place of a library in steps that the next start finishes or undoes, whoever is killed when.

NEW, OLD, INTENTION, LOCK = "restore.new", "restore.old", "restore.json", "restore.lock"
WRITER_LOCK = "writer.lock"
_STAYS = {NEW, OLD, INTENTION, LOCK, WRITER_LOCK}
_LATER = f"{INTENTION}.building"


def restore_lock(folder: Path) -> FileLock:
    return FileLock(str(folder / LOCK), mode=FILE)


def writer_lock(folder: Path) -> FileLock:
    return FileLock(str(folder / WRITER_LOCK), mode=FILE)


def put_in_place(folder: Path) -> None:
    """Makes the library in restore.new, which is whole, that of the folder; the caller holds both locks."""
    _sync()
    _intend(folder, "clear")
    _go_on(folder)


def finish_restore(folder: Path) -> None:
    """Finishes or undoes what a restore that was killed has begun; waits for one that is at work on its last steps."""
    if not any((folder / name).exists() for name in (INTENTION, NEW, OLD)):
        return
    try:
        if (folder / INTENTION).exists():
            with writer_lock(folder):
                _go_on(folder)
    except OSError as error:
        raise explain(error, folder / INTENTION) from error
    with suppress(OSError):  # they are in nobody's way on a disk that cannot be written
        _remove_leftovers(folder)


def _go_on(folder: Path) -> None:
    step = _step(folder)
    if step == "clear":
        make_folder(folder / OLD)
        for path in _entries(folder, _STAYS):
            path.rename(folder / OLD / path.name)
        sync_folder(folder)
        _intend(folder, "place")  # whatever lies there from now on is new
        step = "place"
    if step == "place":
        for path in _entries(folder / NEW, set()):
            path.rename(folder / path.name)
        sync_folder(folder)
        (folder / INTENTION).unlink()
        sync_folder(folder)


def _step(folder: Path) -> str:
    """Empty when there is nothing to go on with: whoever held the lock before has finished."""
    try:
        found: Any = orjson.loads((folder / INTENTION).read_bytes())
        return str(found["step"])
    except FileNotFoundError:
        return ""


def _intend(folder: Path, step: str) -> None:
    """In one step, and durably."""
    building = folder / _LATER
    with open(building, "wb", opener=opener) as file:
        file.write(orjson.dumps({"step": step}))
        file.flush()
        os.fsync(file.fileno())
    building.replace(folder / INTENTION)
    sync_folder(folder)


def _entries(folder: Path, without: set[str]) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name not in without and path.name != _LATER)


def _remove_leftovers(folder: Path) -> None:
    """Half a backup, or what was replaced; nothing while somebody is restoring at this moment."""
    lock = restore_lock(folder)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return
    try:
        if not (folder / INTENTION).exists():
            for name in (NEW, OLD):
                shutil.rmtree(folder / name, ignore_errors=True)
            (folder / _LATER).unlink(missing_ok=True)
    finally:
        lock.release()


def _sync() -> None:
    """What was unpacked reaches the disk before anybody relies on it."""
    if hasattr(os, "sync"):
        os.sync()


_END = "backup-is-whole"  # the last file in the archive: a tar file that was cut off between two files opens too
_LEFTOVER = ".backup-"
_KEPT = ("files", "refdesk.toml")  # indexes and page images are made again from these


def backup(
    folder: Path,
    target: Path,
    copy_database: Callable[[Path], None],
    on_copy: Callable[[Path], None],
    fetch: Callable[[Path], None] | None = None,
) -> Path:
    """Writes a tar file: SQLite's online copy of the database, the originals and the uploads that it names, then a mark
    of the end. `on_copy` is told where all of it lies before it is packed: a backup without a file that is missing or
    altered is better than none.

    Copy and originals are of one moment: a writer waits while the database is copied and the files are linked, and
    not while they are packed. Readers never wait. Where the files lie elsewhere, `fetch` brings those that the copy
    names, and nobody waits for that: what is removed meanwhile is missing, and said to be.
    """
    target = target.absolute()
    building = target.with_name(target.name + ".building")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _backup_remove_leftovers(folder)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_LEFTOVER) as name:
            place = Path(name)
            with writer_lock(folder):
                copy_database(place / DATABASE)
                for kept in _KEPT if fetch is None else _KEPT[1:]:
                    _link(folder / kept, place / kept)
            if fetch is not None:
                fetch(place)
            on_copy(place)
            (place / _END).touch()
            building.unlink(missing_ok=True)
            with open(building, "xb", opener=opener) as file:
                with tarfile.open(fileobj=file, mode="w") as archive:
                    for kept in (DATABASE, *_KEPT, _END):
                        if (place / kept).exists():
                            archive.add(place / kept, kept)
                file.flush()
                os.fsync(file.fileno())
        building.replace(target)
    except OSError as error:
        building.unlink(missing_ok=True)
        raise explain(error, target) from error
    return target


def fetch_files(files: Files, into: Path, hashes: Collection[str], uploads: Collection[str]) -> None:
    """Originals and uploads out of wherever they are kept, into a folder as a library has one."""
    for content_hash in hashes:
        _copy(files.path(content_hash), into / content_hash[:2] / content_hash)
    for job_id in uploads:
        _copy(files.staged(job_id), into / "waiting" / job_id)


def _copy(path: Path, target: Path) -> None:
    if path.is_file():  # else it is missing, which is said of the whole copy
        make_folder(target.parent)
        shutil.copyfile(path, target)


def hand_over(folder: Path, files: Files) -> None:
    """What a backup brought into the library's folder goes to where its files are kept from now on."""
    if isinstance(files, LocalFiles) and files.files.samefile(folder / "files"):
        return
    for path in (folder / "files").glob("??/*"):
        if not files.has(path.name):
            files.put(path.read_bytes())
    for path in (folder / "files" / "waiting").glob("*"):
        files.restage(path.name, path)
    shutil.rmtree(folder / "files")


def _link(path: Path, into: Path) -> None:
    """The same files a second time, at no cost: originals are never changed, only removed."""
    if path.is_dir():
        unfinished = shutil.ignore_patterns("*.part", "new-*")
        shutil.copytree(path, into, copy_function=_link_file, ignore=unfinished)
    elif path.exists():
        shutil.copy2(path, into)


def _link_file(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # a file system without links
        shutil.copy2(source, target)


def _backup_remove_leftovers(folder: Path) -> None:
    """Of backups that were killed an hour ago or longer."""
    for path in folder.glob(f"{_LEFTOVER}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > 3600:
                shutil.rmtree(path, ignore_errors=True)


def restore(file: Path, folder: Path, is_at_work: Callable[[Path], bool], *, replace: bool) -> None:
    """Unpacks a backup within the library's folder and then puts it in its place; not while somebody is at work."""
    folder = folder.absolute()
    is_new = not folder.exists()
    try:
        make_folder(folder)
        finish_restore(folder)
        if not replace and (what := library_files(folder)):
            raise UsageError(
                f"{folder} holds {'a library' if DATABASE in what else 'files of a library'} already",
                hint="choose another folder, or use --replace",
            )
        _check_idle(folder, is_at_work)
        with restore_lock(folder):
            try:
                _unpack(file, folder / NEW)
                close_to_others(folder / NEW)
                with writer_lock(folder):  # nobody is in the middle of writing to the old one
                    _check_idle(folder, is_at_work)
                    put_in_place(folder)
            except (RefdeskError, OSError):
                if not (folder / INTENTION).exists():
                    shutil.rmtree(folder if is_new else folder / NEW, ignore_errors=True)
                raise
        finish_restore(folder)
    except OSError as error:
        raise explain(error, folder) from error


def _check_idle(folder: Path, is_at_work: Callable[[Path], bool]) -> None:
    if is_at_work(folder):  # it would go on with files that are not there any more
        raise LibraryBusy(f"{folder} is being served or added to", hint="stop it first, then restore")


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
        with contextlib.closing(sqlite3.connect(fresh / DATABASE)) as database:
            state = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    except FileNotFoundError:
        raise UsageError(f"there is no file {file}") from None
    except (tarfile.TarError, EOFError, sqlite3.DatabaseError) as error:
        raise LibraryDamaged(f"{file} is not a whole backup: {error}", hint="use another backup") from error
    if state != "ok":
        raise LibraryDamaged(f"the database in {file} is damaged: {state}", hint="use another backup")
