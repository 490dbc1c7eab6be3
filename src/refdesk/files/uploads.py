"""Files that were uploaded, staged until they are added: nothing accepted is lost, whoever is killed.

    uploads/ID.part    being received; nobody has promised anything yet
    uploads/ID.data    received whole and durably
    uploads/ID.json    accepted: what it is called, where it goes, how far it has come
    uploads/ID.stop    taken back: nobody sees it any more, and whoever is adding puts it down
    uploads/worker.lock  held by the one process that is adding

Every process of a server reads the same folder, so it does not matter which of them a client talks to.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import orjson
from filelock import FileLock, Timeout

from refdesk.disk import FILE, damage, explain, hash_file, make_folder, opener, sync_folder
from refdesk.errors import DiskFull, LibraryError
from refdesk.records import Damage
from refdesk.types import UNFINISHED, Upload

TICK_S = 0.05  # seconds after which a folder's time stamp tells two changes apart, whatever the clock's tick
STALE_PART_S = 86_400.0  # a file that has been coming in for a day is not coming any more
_FIELDS = {one.name for one in fields(Upload)}
Stamp = tuple[int, int]  # when a file was changed, in nanoseconds, and its number on the disk
_UNSURE: Stamp = (-1, -1)


class LocalUploads:
    """The `Jobs` port over a folder; safe to use from several threads and processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._guard = threading.Lock()
        self._seen: tuple[int, dict[str, Upload]] = (-1, {})
        self._records: dict[str, tuple[Stamp, Upload]] = {}  # by file: its stamp, and what it said
        self._moment = datetime.min.replace(tzinfo=UTC)

    def data(self, upload_id: str) -> Path:
        return self.folder / f"{upload_id}.data"

    def has_data(self, upload_id: str) -> bool:
        return self.data(upload_id).is_file()

    # taking in

    @contextmanager
    def receiving(self) -> Iterator[tuple[str, IO[bytes]]]:
        upload_id = secrets.token_hex(12)
        part = self.folder / f"{upload_id}.part"
        try:
            make_folder(self.folder)
            with open(part, "xb", opener=opener) as file:
                yield upload_id, file
        except OSError as error:
            raise _refused(error, part) from error
        finally:
            part.unlink(missing_ok=True)

    def accept(self, upload: Upload, file: IO[bytes]) -> Upload:
        part = self.folder / f"{upload.id}.part"
        try:
            file.close()
            with part.open("rb+") as written:
                os.fsync(written.fileno())
            content_hash = hash_file(part)  # of what reached the disk, and still in the page cache
            part.replace(self.data(upload.id))
            accepted = self.write(replace(upload, content_hash=content_hash), durable=True)
            sync_folder(self.folder)
        except LibraryError:  # the record could not be written; it has said why
            self.remove(upload.id)
            raise
        except OSError as error:
            self.remove(upload.id)
            raise _refused(error, part) from error
        return accepted

    # the records

    def write(self, upload: Upload, *, durable: bool = False) -> Upload:
        record = self.folder / f"{upload.id}.json"
        building = self.folder / f"{upload.id}.{secrets.token_hex(4)}.new"
        held = {name: getattr(upload, name) for name in _FIELDS} | {"updated_at": _now()}
        held["metadata"] = dict(upload.metadata)
        held["created_at"] = upload.created_at or self._next_moment()
        try:
            descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)  # it may hold a password
            with os.fdopen(descriptor, "wb") as file:
                file.write(orjson.dumps(held))
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            building.replace(record)
        except OSError as error:
            building.unlink(missing_ok=True)
            raise _refused(error, record) from error
        return Upload(**held)

    def _next_moment(self) -> str:
        """Later than the one before, so that of two files with one name the second replaces the first."""
        with self._guard:
            self._moment = max(datetime.now(UTC), self._moment + timedelta(microseconds=1))
            return self._moment.isoformat(timespec="microseconds")

    def all(self, *, anew: bool = False) -> dict[str, Upload]:
        with self._guard:
            if anew:
                self._seen, self._records = (-1, {}), {}
            try:
                stamp = self.folder.stat().st_mtime_ns
            except FileNotFoundError:
                return {}
            if stamp != self._seen[0]:
                found = dict(sorted(self._read(), key=lambda pair: (pair[1].created_at, pair[0])))
                self._seen = (stamp if _is_past(stamp) else -1, found)
            return self._seen[1]

    def unchanged(self) -> dict[str, Upload] | None:
        stamp, found = self._seen
        try:
            return found if self.folder.stat().st_mtime_ns == stamp else None
        except FileNotFoundError:
            return None

    def _read(self) -> Iterator[tuple[str, Upload]]:
        records: dict[str, tuple[Stamp, Upload]] = {}
        gone: set[str] = set()
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith(".json"):
                    with suppress(OSError, ValueError, TypeError):  # removed this very moment, or damaged
                        records[entry.name] = self._record(entry)
                elif entry.name.endswith(".stop"):
                    gone.add(entry.name.removesuffix(".stop"))
        self._records = records
        for _, upload in records.values():
            if upload.id not in gone:
                yield upload.id, upload

    def _record(self, entry: os.DirEntry[str]) -> tuple[Stamp, Upload]:
        status = entry.stat()
        key = (status.st_mtime_ns, status.st_ino)  # every record is a new file
        known = self._records.get(entry.name)
        if known is not None and known[0] == key:
            return known
        held: Any = orjson.loads(Path(entry.path).read_bytes())
        upload = Upload(**{name: held[name] for name in _FIELDS.intersection(held)})
        return key if _is_past(status.st_mtime_ns) else _UNSURE, upload

    def drop_data(self, upload_id: str) -> None:
        self.data(upload_id).unlink(missing_ok=True)

    def remove(self, upload_id: str) -> None:
        (self.folder / f"{upload_id}.json").unlink(missing_ok=True)  # first: data without a record are nobody's
        self.drop_data(upload_id)
        (self.folder / f"{upload_id}.stop").unlink(missing_ok=True)

    def take_back(self, upload_id: str) -> None:
        stop = self.folder / f"{upload_id}.stop"
        try:
            stop.touch(mode=FILE)
        except OSError as error:
            raise _refused(error, stop) from error

    def outcome(self, upload_id: str) -> str:
        try:
            return str(orjson.loads((self.folder / f"{upload_id}.json").read_bytes()).get("outcome", ""))
        except (OSError, ValueError):
            return ""

    def taken_back(self) -> set[str]:
        return {path.stem for path in self.folder.glob("*.stop")}

    # looking after it

    def clear(self, before: Mapping[str, str]) -> None:
        """Removes what nobody will ask for: records of a status from before a time, data without one, dead parts.

        >>> uploads.clear({"ready": "2026-01-30T09:00:00.000+00:00"})
        """
        records = self.all()
        for upload in list(records.values()):
            if upload.updated_at < before.get(upload.status, ""):
                self.remove(upload.id)
        oldest = time.time() - STALE_PART_S
        for pattern in ("*.part", "*.new", "*.data"):
            for path in self.folder.glob(pattern):
                with suppress(OSError):
                    if path.name.partition(".")[0] not in records and path.stat().st_mtime < oldest:
                        path.unlink()

    def copy(self, folder: Path, link: Callable[[str, str], None]) -> None:
        """What waits, and what may be tried again, in another folder; without passwords, which nobody shall keep."""
        other = LocalUploads(folder)
        for upload in self.all(anew=True).values():
            if self.has_data(upload.id):
                make_folder(folder)
                with suppress(FileNotFoundError):  # added this moment
                    link(str(self.data(upload.id)), str(other.data(upload.id)))
                    other.write(replace(upload, password=None))

    def damaged(self) -> list[Damage]:
        found = []
        for upload in self.all(anew=True).values():
            if upload.status not in UNFINISHED and not self.has_data(upload.id):
                continue  # added; or nothing is kept for another try
            what = damage(self.data(upload.id), upload.content_hash)
            if what and upload.id in self.all(anew=True):
                found.append(Damage(upload.name, what))
        return found

    @contextmanager
    def working(self) -> Iterator[bool]:
        make_folder(self.folder)
        lock = FileLock(str(self.folder / "worker.lock"), mode=FILE)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()


def _refused(error: OSError, path: Path) -> LibraryError:
    """In words for whoever sent the file: where the server keeps it is none of his business."""
    if isinstance(explain(error, path), DiskFull):
        return DiskFull("the server's disk is full", hint="try again when there is space on it")
    return LibraryError(
        "the server cannot write to its folder of uploads", hint="whoever looks after it finds why in the log"
    )


def _is_past(changed_ns: int) -> bool:
    """Whether a later change is sure to have another time stamp."""
    return time.time_ns() - changed_ns > TICK_S * 1e9


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
