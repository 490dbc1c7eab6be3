"""Files on this machine: who may read them, what their bytes hash to, and what the disk says in words."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from refdesk.errors import DiskFull, LibraryError

_STEP = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, a quota, a limit on the size of a file

# Files that nobody but their owner reads: 0600, in folders of 0700. Documents, questions and keys lie in a library.

FILE, FOLDER = 0o600, 0o700
OTHERS = 0o077  # whatever anybody but the owner may do


def make_folder(path: Path) -> None:
    """With those above it; one that is there stays as it is, and one above that is not ours is made as usual."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=FOLDER, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """For `open(…, opener=opener)`: what is made by it is the owner's alone."""
    return os.open(path, flags, FILE)


def is_closed(folder: Path) -> bool:
    """Whether nothing can be written there: a disk or a folder for reading only."""
    return not os.access(folder, os.W_OK)


def is_open_to_others(path: Path) -> bool:
    """Whether anybody but the owner may do anything with it; not asked on Windows, which has other rights."""
    if os.name == "nt":
        return False
    state = path.lstat()
    return not stat.S_ISLNK(state.st_mode) and bool(state.st_mode & OTHERS)


def open_to_others(folder: Path) -> Iterator[Path]:
    """What lies in a folder, and the folder itself, as far as others may reach it."""
    for place, folders, files in os.walk(folder):
        for path in (Path(place), *(Path(place, name) for name in files)):
            with suppress(OSError):  # gone this moment
                if is_open_to_others(path):
                    yield path
        folders[:] = [name for name in folders if not Path(place, name).is_symlink()]


def close_to_others(folder: Path) -> int:
    """Takes every right from everybody but the owner; gives how many files and folders were changed.

    What belongs to somebody else, or lies on a disk that cannot be written, stays as it is.
    """
    changed = 0
    for path in list(open_to_others(folder)):
        with suppress(OSError):
            path.chmod(stat.S_IMODE(path.lstat().st_mode) & ~OTHERS)
            changed += 1
    return changed


def write_new(data: bytes, folder: Path) -> Path:
    """Writes bytes durably to a file of its own; `Files.adopt` gives it its place."""
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix="new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise explain(error, folder / "new") from error
    return Path(name)


def hash_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while step := file.read(_STEP):
            digest.update(step)
    return digest.hexdigest()


def sync_folder(folder: Path) -> None:
    """Renames are durable once the folder is; Windows has no such call, and does it by itself."""
    if os.name != "nt":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def explain(error: OSError, path: Path) -> LibraryError:
    """An error of the disk in words."""
    if error.errno in _FULL:
        return DiskFull(f"the disk that holds {path.parent} is full")
    return LibraryError(f"{path} cannot be written: {error.strerror or error}", hint="check the folder and its rights")


# Is there a library in this folder? A database that is gone must not pass for a library that was never begun.

DATABASE = "library.db"
_SIGNS = {
    "library.db-wal": "changes that were not yet in the database",
    "files/??/*": "originals",
    "files/waiting/*": "uploads",
    "index/lexical-*": "search indexes",
    "index/vectors-*": "search indexes",
}


def library_files(folder: Path) -> list[str]:
    """What of a library lies in a folder: the database by its name, all else in words; empty of a folder without."""
    found = [DATABASE] if size_of(folder / DATABASE) else []
    for pattern, words in _SIGNS.items():
        if words not in found and any(path.is_dir() or size_of(path) for path in folder.glob(pattern)):
            found.append(words)
    return found


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def damage(path: Path, content_hash: str) -> str:
    """`missing`, `altered` or why it cannot be read; "" for a file that is as it was."""
    try:
        return "altered" if content_hash and hash_file(path) != content_hash else ""
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"not readable ({error.strerror or error})"
