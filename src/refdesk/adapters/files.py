"""Originals, figures and page images in the data folder, each under the hash of its content."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Collection, Iterable
from pathlib import Path

from refdesk.adapters.private import make_folder
from refdesk.errors import DiskFull, LibraryError

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
