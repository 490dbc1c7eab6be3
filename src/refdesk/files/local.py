"""Originals, figures and page images in the data folder, each under the hash of its content."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from refdesk.disk import FILE, damage, explain, hash_bytes, make_folder, write_new


class LocalFiles:
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
        content_hash = hash_bytes(data)
        if not self.has(content_hash):
            self.adopt(write_new(data, self.files), content_hash)
        return content_hash

    def adopt(self, file: Path, content_hash: str) -> None:
        """Moves a file to its place in one step."""
        target = self.path(content_hash)
        try:
            make_folder(target.parent)
            file.replace(target)
        except OSError as error:
            raise explain(error, target) from error

    def damage(self, content_hash: str) -> str:
        return damage(self.path(content_hash), content_hash)

    def clear_unfinished(self) -> None:
        for path in self.files.glob("new-*"):
            path.unlink(missing_ok=True)

    def hashes(self) -> set[str]:
        return {path.name for path in self.files.glob("??/*")}

    def clear_renders(self, kept: Collection[str]) -> None:
        for folder in self.renders.iterdir():
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def remove(self, hashes: Iterable[str]) -> None:
        for content_hash in hashes:
            self.path(content_hash).unlink(missing_ok=True)
            shutil.rmtree(self.renders / content_hash, ignore_errors=True)


# Who is adding at this moment? A lease is an operating-system lock, which the system takes back when its holder dies.


class LocalLease:
    """A name, a lock and a folder for one adding process."""

    def __init__(self, folder: Path) -> None:
        self.name = secrets.token_hex(8)
        self._above = folder
        self.folder = folder / self.name
        self._lock = FileLock(str(folder / f"{self.name}.lock"), mode=FILE)

    def __enter__(self) -> LocalLease:
        try:
            make_folder(self._above)
            self._lock.acquire()
            make_folder(self.folder)
        except OSError as error:
            self._lock.release()
            raise explain(error, self.folder) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()
        (self._above / f"{self.name}.lock").unlink(missing_ok=True)


class LocalLeases:
    """The `Leases` port over a folder of lock files.

    >>> with LocalLeases(Path("library/runs")).hold() as lease:
    ...     (lease.folder / "page.pdf").write_bytes(b"…")
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def hold(self) -> LocalLease:
        return LocalLease(self._folder)

    def is_alive(self, name: str) -> bool:
        path = self._folder / f"{name}.lock"
        if not path.exists():
            shutil.rmtree(self._folder / name, ignore_errors=True)
            return False
        probe = FileLock(str(path), mode=FILE)
        try:
            probe.acquire(timeout=0)
        except Timeout:
            return True
        shutil.rmtree(self._folder / name, ignore_errors=True)
        path.unlink(missing_ok=True)
        probe.release()
        return False

    def any_alive(self) -> bool:
        return any(self.is_alive(path.stem) for path in self._folder.glob("*.lock"))

    def clear_dead(self) -> bool:
        return bool([path for path in self._folder.glob("*.lock") if not self.is_alive(path.stem)])
