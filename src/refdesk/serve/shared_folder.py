"""A temporary folder that the processes of one server share; what a killed server has left goes at the next start."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX = "refdesk-workers-"
OWNER = "owner.lock"  # held by the server for as long as it lives: the system takes it back from a killed one
UNOWNED_S = 86_400.0  # one without such a lock is being made this moment, or is of a version that took none


@contextmanager
def shared_folder() -> Iterator[str]:
    clear_dead()
    made = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
    with made as folder, FileLock(str(Path(folder, OWNER)), mode=0o600):
        yield folder


def clear_dead(place: Path | None = None) -> None:
    """Removes such folders of ours whose server is gone; those of other users are none of our business."""
    for folder in (place or Path(tempfile.gettempdir())).glob(f"{PREFIX}*"):
        with suppress(OSError):
            state = folder.lstat()
            if stat.S_ISDIR(state.st_mode) and _is_ours(state) and _is_dead(folder, state):
                shutil.rmtree(folder, ignore_errors=True)


def _is_ours(state: os.stat_result) -> bool:
    return not hasattr(os, "getuid") or state.st_uid == os.getuid()


def _is_dead(folder: Path, state: os.stat_result) -> bool:
    lock = folder / OWNER
    if not lock.exists():
        return time.time() - state.st_mtime > UNOWNED_S
    probe = FileLock(str(lock), mode=0o600)
    try:
        probe.acquire(timeout=0)
    except Timeout:
        return False
    probe.release()
    return True
