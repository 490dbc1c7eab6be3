"""Who is adding at this moment? A run holds an operating-system lock, which the system takes back when it dies.

Documents that are not finished name their run; when its lock can be taken, nobody is working on them any more, and
another run may take them over.
"""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path
from types import TracebackType

from filelock import FileLock, Timeout

from refdesk.adapters.files import explain
from refdesk.adapters.private import FILE, make_folder


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
