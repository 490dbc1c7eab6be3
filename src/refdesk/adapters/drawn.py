"""Page images that were drawn before: kept up to a size, the ones not asked for longest go first."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from refdesk.adapters.files import put_aside
from refdesk.errors import LibraryError

MOST_BYTES = 1 << 30
LOOKED_AFTER = 64 << 20  # bytes written between two looks at the whole folder


class DrawnPages:
    """`renders/HASH/PAGE-WIDTH.FORMAT`; safe to use from several threads and processes."""

    def __init__(self, folder: Path, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self._lock = threading.Lock()
        self._written = LOOKED_AFTER  # so that the first write looks: others may have filled it

    def get(self, content_hash: str, name: str) -> bytes | None:
        path = self._folder / content_hash / name
        try:
            data = path.read_bytes()
        except OSError:  # never drawn
            return None
        with suppress(OSError):  # gone this very moment
            os.utime(path)  # asked for just now; not `touch`, which would make an empty one
        return data

    def put(self, content_hash: str, name: str, data: bytes) -> None:
        """A full disk costs time at the next look, not the image."""
        with suppress(OSError, LibraryError):
            folder = self._folder / content_hash
            folder.mkdir(parents=True, exist_ok=True)
            put_aside(data, folder).replace(folder / name)
            with self._lock:
                self._written += len(data)
                is_due = self._written >= min(LOOKED_AFTER, self._most_bytes // 4)
                self._written = 0 if is_due else self._written
            if is_due:
                self._shrink()

    def _shrink(self) -> None:
        """To nine tenths of what may be kept."""
        found = sorted((state.st_mtime_ns, state.st_size, path) for path, state in self._files())
        size = sum(one for _, one, _ in found)
        if size <= self._most_bytes:
            return
        for _, bytes_held, path in found:
            if size <= 0.9 * self._most_bytes:
                return
            with suppress(OSError):
                path.unlink()
                size -= bytes_held

    def _files(self) -> list[tuple[Path, os.stat_result]]:
        found = []
        for path in self._folder.glob("*/*"):
            with suppress(OSError):  # another process was quicker
                found.append((path, path.stat()))
        return found
