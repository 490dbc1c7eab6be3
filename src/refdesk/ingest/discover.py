"""Which files are meant by these paths? A file itself, or what lies below a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from refdesk.disk import DATABASE

# What programs leave lying about; nobody means these when adding a folder.
JUNK_NAMES = frozenset({"thumbs.db", "desktop.ini", "__macosx", "__pycache__", "node_modules"})
JUNK_BEGINNINGS = (".", "~$")


LEADS_OUT = "it is a link that leads out of the added folder; --follow-links follows it"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file, its name within what was added, and how it looked at that moment.

    `error` says why it could not be seen, `skipped` why it was not looked at.
    """

    path: Path
    name: str
    size: int = 0
    modified: float = 0.0
    error: str = ""
    skipped: str = ""


def discover(path: Path, *, follow_links: bool = False) -> Iterator[FoundFile]:
    """A file itself, or all files below a folder in order of name; hidden files, junk and libraries are left out.

    A link within the folder to a file of it is that file once more, and one to a folder of it is passed over: its files
    are met anyway. Links that lead out of the folder are skipped unless they are followed. What is named is meant, also
    if it is a link.
    """
    if not path.is_dir():
        yield look(path, path.name)
        return
    yield from _walk(path, path, [path.resolve()], follow_links)


def _walk(folder: Path, top: Path, entered: list[Path], follow_links: bool) -> Iterator[FoundFile]:
    """`entered` are the folders that were named or that a followed link led to: no link leads into them again."""
    closed: list[OSError] = []
    for place, subfolders, names in os.walk(folder, onerror=closed.append):
        wanted = sorted(name for name in subfolders if not _is_junk(name) and not _is_library(Path(place, name)))
        links = [name for name in wanted if Path(place, name).is_symlink()]
        subfolders[:] = [name for name in wanted if name not in links]
        for name in sorted(names):
            if not _is_junk(name):
                file = Path(place, name)
                if not follow_links and file.is_symlink() and _leads_out(file, entered):
                    yield FoundFile(file, file.relative_to(top).as_posix(), skipped=LEADS_OUT)
                else:
                    yield look(file, file.relative_to(top).as_posix())
        for link in (Path(place, name) for name in links):
            if not _leads_out(link, entered):
                continue
            if follow_links:
                entered.append(link.resolve())
                yield from _walk(link, top, entered, follow_links)
            else:
                yield FoundFile(link, link.relative_to(top).as_posix(), skipped=LEADS_OUT)
    for error in closed:
        at = Path(error.filename or folder)
        yield FoundFile(at, at.name, error=f"this folder cannot be read: {error.strerror or error}")


def _leads_out(link: Path, entered: list[Path]) -> bool:
    """A dangling link leads nowhere, which is said when it is looked at; so is a circle of links."""
    try:
        target = link.resolve(strict=True)
    except (OSError, RuntimeError):
        return False
    return not any(target.is_relative_to(folder) for folder in entered)


def look(path: Path, name: str) -> FoundFile:
    try:
        status = path.stat()
    except OSError as error:
        return FoundFile(path, name, error=f"it cannot be read: {error.strerror or error}")
    if not path.is_file():
        return FoundFile(path, name, error="it is not a regular file")
    return FoundFile(path, name, status.st_size, status.st_mtime)


def _is_library(folder: Path) -> bool:
    """A library of Refdesk's below the folder that is added, perhaps the very one it is added to."""
    try:
        return (folder / DATABASE).is_file() and (folder / "files").is_dir()
    except PermissionError:  # closed; reading it will say so
        return False


def _is_junk(name: str) -> bool:
    return name.startswith(JUNK_BEGINNINGS) or name.lower() in JUNK_NAMES
