"""Is there a library in this folder? A database that is gone must not pass for a library that was never begun."""

from __future__ import annotations

from pathlib import Path

from refdesk.errors import LibraryDamaged

DATABASE = "library.db"
_SIGNS = {
    "library.db-wal": "changes that were not yet in the database",
    "files/??/*": "originals",
    "uploads/*.data": "uploads",
    "index/lexical-*": "search indexes",
    "index/vectors-*": "search indexes",
}
ADVICE = (
    "restore a backup with `refdesk restore FILE --replace`; `refdesk reindex` cannot help, it reads the database; "
    "to begin anew, move the folder away first"
)


def traces(folder: Path) -> list[str]:
    """What of a library lies in a folder: the database by its name, all else in words; empty of a folder without."""
    found = [DATABASE] if _size(folder / DATABASE) else []
    for pattern, words in _SIGNS.items():
        if words not in found and any(path.is_dir() or _size(path) for path in folder.glob(pattern)):
            found.append(words)
    return found


def check_database(path: Path, *, is_blank: bool = False) -> None:
    """Raises `LibraryDamaged` when the database is missing, or holds nothing, and other files of a library are there.

    It must be asked before SQLite opens the file: beside an empty one SQLite removes the changes that wait in
    library.db-wal. `is_blank` says that it was opened and has no tables.
    """
    size = _size(path)
    if size and not is_blank:
        return
    beside = [one for one in traces(path.parent) if one != DATABASE]
    if beside and (is_blank or not _size(path)):  # looked at twice: another process may be making it
        what = "has no tables" if size else "is empty" if path.exists() else "is missing"
        raise LibraryDamaged(f"the database {path} {what}, but the folder holds {', '.join(beside)}", hint=ADVICE)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
