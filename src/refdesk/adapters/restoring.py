"""A backup takes the place of a library in steps that the next start finishes or undoes, whoever is killed when.

    restore.new/    the unpacked backup; until it is whole and checked, nothing else has changed
    restore.json    the intention: written in one step, and from then on the new library is the one that counts
    restore.old/    what lay there before, moved away entry by entry
    restore.lock    held by whoever is restoring

Killed without an intention: the old library is whole, and the next start removes restore.new. Killed with one: the next
start goes on. All of it happens inside the library's folder, which may be a disk of its own.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from filelock import FileLock, Timeout

from refdesk.adapters.files import explain, sync_folder
from refdesk.adapters.private import FILE, make_folder, opener

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


def settle_restore(folder: Path) -> None:
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
