"""Files, leases and uploads of one process that keeps nothing: the bytes are in memory, or in a temporary folder."""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from refdesk.disk import damage, hash_bytes, hash_file
from refdesk.records import Damage
from refdesk.types import UNFINISHED, Upload


class MemoryFiles:
    """The `Files` port."""

    def __init__(self) -> None:
        self._bytes: dict[str, bytes] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="refdesk-files-")
        self.renders = Path(self._folder.name, "renders")

    def path(self, content_hash: str) -> Path:
        """A copy for whoever must have a file."""
        path = Path(self._folder.name, content_hash or "none")
        if content_hash in self._bytes and not path.exists():
            path.write_bytes(self._bytes[content_hash])
        return path

    def has(self, content_hash: str) -> bool:
        return content_hash in self._bytes

    def put(self, data: bytes) -> str:
        content_hash = hash_bytes(data)
        self._bytes[content_hash] = data
        return content_hash

    def adopt(self, file: Path, content_hash: str) -> None:
        self._bytes[content_hash] = file.read_bytes()
        file.unlink()

    def damage(self, content_hash: str) -> str:
        data = self._bytes.get(content_hash)
        return "missing" if data is None else "altered" if hash_bytes(data) != content_hash else ""

    def hashes(self) -> set[str]:
        return set(self._bytes)

    def remove(self, hashes: Iterable[str]) -> None:
        for content_hash in hashes:
            self._bytes.pop(content_hash, None)
            Path(self._folder.name, content_hash).unlink(missing_ok=True)

    def clear_unfinished(self) -> None:
        """Nothing is ever half there."""

    def clear_renders(self, kept: Collection[str]) -> None:
        """They go with the process."""


@dataclass(frozen=True, slots=True)
class MemoryLease:
    name: str
    folder: Path


class MemoryLeases:
    """The `Leases` port."""

    def __init__(self) -> None:
        self._held: set[str] = set()

    @contextmanager
    def hold(self) -> Iterator[MemoryLease]:
        name = secrets.token_hex(8)
        with tempfile.TemporaryDirectory(prefix="refdesk-lease-") as folder:
            self._held.add(name)
            try:
                yield MemoryLease(name, Path(folder))
            finally:
                self._held.remove(name)

    def is_alive(self, name: str) -> bool:
        return name in self._held

    def any_alive(self) -> bool:
        return bool(self._held)

    def clear_dead(self) -> bool:
        return False  # who dies takes all of it along


class MemoryUploads:
    """The `Jobs` port."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="refdesk-uploads-")
        self._uploads: dict[str, Upload] = {}
        self._taken_back: set[str] = set()
        self._working = threading.Lock()

    def data(self, upload_id: str) -> Path:
        return Path(self._folder.name, f"{upload_id}.data")

    def has_data(self, upload_id: str) -> bool:
        return self.data(upload_id).is_file()

    @contextmanager
    def receiving(self) -> Iterator[tuple[str, IO[bytes]]]:
        upload_id = secrets.token_hex(12)
        part = Path(self._folder.name, f"{upload_id}.part")
        try:
            with part.open("xb") as file:
                yield upload_id, file
        finally:
            part.unlink(missing_ok=True)

    def accept(self, upload: Upload, file: IO[bytes]) -> Upload:
        file.close()
        part = Path(self._folder.name, f"{upload.id}.part")
        content_hash = hash_file(part)
        part.replace(self.data(upload.id))
        return self.write(replace(upload, content_hash=content_hash))

    def write(self, upload: Upload, *, durable: bool = False) -> Upload:
        moment = datetime.now(UTC).isoformat(timespec="microseconds")
        written = replace(upload, created_at=upload.created_at or moment, updated_at=moment)
        self._uploads = self._uploads | {upload.id: written}  # another one, so that `all` may be compared
        return written

    def all(self, *, anew: bool = False) -> dict[str, Upload]:
        return {name: one for name, one in self._uploads.items() if name not in self._taken_back}

    def unchanged(self) -> dict[str, Upload] | None:
        return self.all()

    def drop_data(self, upload_id: str) -> None:
        self.data(upload_id).unlink(missing_ok=True)

    def remove(self, upload_id: str) -> None:
        self._uploads = {name: one for name, one in self._uploads.items() if name != upload_id}
        self._taken_back.discard(upload_id)
        self.drop_data(upload_id)

    def take_back(self, upload_id: str) -> None:
        self._taken_back.add(upload_id)

    def taken_back(self) -> set[str]:
        return set(self._taken_back)

    def outcome(self, upload_id: str) -> str:
        return self._uploads[upload_id].outcome if upload_id in self._uploads else ""

    def clear(self, before: Mapping[str, str]) -> None:
        for upload in self.all().values():
            if upload.updated_at < before.get(upload.status, ""):
                self.remove(upload.id)

    @contextmanager
    def working(self) -> Iterator[bool]:
        mine = self._working.acquire(blocking=False)
        try:
            yield mine
        finally:
            if mine:
                self._working.release()

    def damaged(self) -> list[Damage]:
        waiting = [one for one in self.all().values() if one.status in UNFINISHED or self.has_data(one.id)]
        found = [(one.name, damage(self.data(one.id), one.content_hash)) for one in waiting]
        return [Damage(name, what) for name, what in found if what]
