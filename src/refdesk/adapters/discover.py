"""Which files are meant by these paths?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What programs leave lying about; nobody means these when adding a folder.
JUNK_NAMES = frozenset({"thumbs.db", "desktop.ini", "__macosx", "__pycache__", "node_modules"})
JUNK_BEGINNINGS = (".", "~$")


@dataclass(frozen=True, slots=True)
class Found:
    """A file, its name within what was added, and how it looked at that moment; `error` when it could not be seen."""

    path: Path
    name: str
    size: int = 0
    modified: float = 0.0
    error: str = ""


def discover(path: Path) -> Iterator[Found]:
    """A file itself, or all files below a folder in order of name; hidden files, junk and libraries are left out.

    Links to folders are not followed, so a link to its own parent does no harm.
    """
    if not path.is_dir():
        yield _look(path, path.name)
        return
    closed: list[OSError] = []
    for folder, subfolders, names in os.walk(path, onerror=closed.append):
        subfolders[:] = sorted(
            name for name in subfolders if not _is_junk(name) and not _is_library(Path(folder, name))
        )
        for name in sorted(names):
            if not _is_junk(name):
                file = Path(folder) / name
                yield _look(file, file.relative_to(path).as_posix())
    for error in closed:
        at = Path(error.filename or path)
        yield Found(at, at.name, error=f"this folder cannot be read: {error.strerror or error}")


def _look(path: Path, name: str) -> Found:
    try:
        status = path.stat()
    except OSError as error:
        return Found(path, name, error=f"it cannot be read: {error.strerror or error}")
    if not path.is_file():
        return Found(path, name, error="it is not a regular file")
    return Found(path, name, status.st_size, status.st_mtime)


def _is_library(folder: Path) -> bool:
    """A library of Refdesk's below the folder that is added, perhaps the very one it is added to."""
    try:
        return (folder / "library.db").is_file() and (folder / "files").is_dir()
    except PermissionError:  # closed; reading it will say so
        return False


def _is_junk(name: str) -> bool:
    return name.startswith(JUNK_BEGINNINGS) or name.lower() in JUNK_NAMES
