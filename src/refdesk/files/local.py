"""Originals, figures and page images in the data folder, each under the hash of its content."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from refdesk.errors import DiskFull, LibraryError

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


_STEP = 1 << 20
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, a quota, a limit on the size of a file


class FileStore:
    """`files/ab/abcdef…` for what was added, `renders/` for page images that can be made again."""

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.renders = folder / "renders"
        for one in (self.files, self.renders):
            make_folder(one)

    def path(self, content_hash: str) -> Path:
        return self.files / content_hash[:2] / content_hash

    def has(self, content_hash: str) -> bool:
        return self.path(content_hash).is_file()

    def put(self, data: bytes) -> str:
        """Keeps bytes and gives their hash."""
        content_hash = hash_bytes(data)
        if not self.has(content_hash):
            self.adopt(put_aside(data, self.files), content_hash)
        return content_hash

    def adopt(self, spooled: Path, content_hash: str) -> None:
        """Moves a spooled file to its place in one step."""
        target = self.path(content_hash)
        try:
            make_folder(target.parent)
            spooled.replace(target)
        except OSError as error:
            raise explain(error, target) from error

    def clear_unfinished(self) -> None:
        """Removes what a killed writer had put aside; the caller holds the library's lock."""
        for path in self.files.glob("new-*"):
            path.unlink(missing_ok=True)

    def hashes(self) -> set[str]:
        """Of all that is kept."""
        return {path.name for path in self.files.glob("??/*")}

    def clear_renders(self, kept: Collection[str]) -> None:
        """Removes page images of documents that are gone: one may have been drawn while its document went."""
        for folder in self.renders.iterdir():
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def remove(self, hashes: Iterable[str]) -> None:
        for content_hash in hashes:
            self.path(content_hash).unlink(missing_ok=True)
            shutil.rmtree(self.renders / content_hash, ignore_errors=True)


def put_aside(data: bytes, folder: Path) -> Path:
    """Writes bytes durably to a file of its own; `FileStore.adopt` gives it its place."""
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


# Who is adding at this moment? A run holds an operating-system lock, which the system takes back when it dies.


class Run:
    """A name, a lock and a spool folder for one adding process.

    >>> with Run(Path("library/runs")) as run:
    ...     (run.spool / "upload").write_bytes(b"…")
    """

    def __init__(self, folder: Path) -> None:
        self.name = secrets.token_hex(8)
        self._folder = folder
        self.spool = folder / self.name
        self._lock = FileLock(str(folder / f"{self.name}.lock"), mode=FILE)

    def __enter__(self) -> Run:
        try:
            make_folder(self._folder)
            self._lock.acquire()
            make_folder(self.spool)
        except OSError as error:
            self._lock.release()
            raise explain(error, self.spool) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.spool, ignore_errors=True)
        self._lock.release()
        (self._folder / f"{self.name}.lock").unlink(missing_ok=True)


def is_alive(folder: Path, name: str) -> bool:
    """Whether the run of that name is still at work; what a dead one has left is removed."""
    path = folder / f"{name}.lock"
    if not path.exists():
        shutil.rmtree(folder / name, ignore_errors=True)
        return False
    probe = FileLock(str(path), mode=FILE)
    try:
        probe.acquire(timeout=0)
    except Timeout:
        return True
    shutil.rmtree(folder / name, ignore_errors=True)
    path.unlink(missing_ok=True)
    probe.release()
    return False


def any_alive(folder: Path) -> bool:
    """Whether anyone is at work; a server is, for as long as it runs."""
    return any(is_alive(folder, path.stem) for path in folder.glob("*.lock"))


def clear_dead(folder: Path) -> bool:
    """Removes what killed runs have left behind; says whether there were any."""
    dead = [path for path in folder.glob("*.lock") if not is_alive(folder, path.stem)]
    return bool(dead)
