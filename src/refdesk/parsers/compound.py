"""Compound files, the container of Office 97–2003 and Outlook: what kind of document is inside, its properties."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

from refdesk.errors import BrokenFile
from refdesk.parsers.text import codepage

MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


@contextmanager
def open_compound(data: bytes) -> Iterator[Any]:
    """The streams of a compound file; damaged tables are read as far as they go."""
    import olefile  # 20 ms to import, and few files are of this kind

    try:
        container = olefile.OleFileIO(data)
    except (OSError, ValueError, IndexError, TypeError) as error:
        raise BrokenFile("the file is truncated or damaged: its table of contents cannot be read") from error
    with container:
        yield container


def folders(container: Any) -> dict[tuple[str, ...], list[str]]:
    """The names of what lies directly in each folder; () is the top."""
    found: dict[tuple[str, ...], list[str]] = {(): []}
    for path in container.listdir(streams=True, storages=True):
        found.setdefault(tuple(path[:-1]), []).append(path[-1])
    return found


def stream(container: Any, *names: str) -> bytes:
    """The content of the first of these streams at the top that is there; one whose sectors go in circles ends."""
    found = {name.lower(): name for name in folders(container)[()]}
    name = next((found[name.lower()] for name in names if name.lower() in found), None)
    if name is None:
        return b""
    try:
        return bytes(container.openstream([name]).read())
    except OSError as error:
        raise BrokenFile("the file is truncated or damaged: a part of it cannot be read") from error


def properties(data: bytes) -> tuple[str, dict[str, str]]:
    """Title and metadata (author, date) of an Office 97–2003 file; none where its list of properties is damaged."""
    with suppress(Exception), open_compound(data) as container:  # olefile raises many kinds on damaged properties
        found = container.get_metadata()
        moment = found.last_saved_time or found.create_time
        metadata = {"author": _text(found.author, found.codepage)}
        if isinstance(moment, datetime) and moment.year > 1980:  # 1601 stands for none
            metadata["date"] = moment.isoformat()
        return _text(found.title, found.codepage), {key: value for key, value in metadata.items() if value}
    return "", {}


def _text(value: Any, number: Any) -> str:
    if not isinstance(value, bytes):
        return value if isinstance(value, str) else ""
    return value.decode(codepage(number or 1252), "replace").strip("\0 ")
