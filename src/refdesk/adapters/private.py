"""Files that nobody but their owner reads: 0600, in folders of 0700. Documents, questions and keys lie in a library."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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
