"""The bytes of a library, in its folder or in memory: originals, figures, page images, and what waits to be added."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import IO

import orjson

from refdesk.disk import damage, explain, hash_bytes, hash_file, make_folder, opener, sync_folder, write_new
from refdesk.types import Job

STALE_S = 86_400.0  # a file that has been coming in for a day is not coming any more


class LocalFiles:
    """The `Files` port over a folder.

    files/ab/abcdef…    what was added, under the hash of its content
    files/waiting/ID    received whole and durably, until the job of this id adds it; `ID.part` is being received
    renders/            page images, which can be made again
    runs/WORKER/        what a worker has read and not yet stored
    """

    def __init__(self, folder: Path) -> None:
        self.files = folder / "files"
        self.waiting = self.files / "waiting"
        self.renders = folder / "renders"
        self._runs = folder / "runs"
        for one in (self.files, self.renders):
            make_folder(one)

    def path(self, content_hash: str) -> Path:
        return self.files / content_hash[:2] / content_hash

    def has(self, content_hash: str) -> bool:
        return self.path(content_hash).is_file()

    def put(self, data: bytes) -> str:
        content_hash = hash_bytes(data)
        if not self.has(content_hash):
            self.adopt(write_new(data, self.files), content_hash)
        return content_hash

    def adopt(self, file: Path, content_hash: str) -> None:
        """Moves a file to its place in one step."""
        target = self.path(content_hash)
        try:
            make_folder(target.parent)
            file.replace(target)
        except OSError as error:
            raise explain(error, target) from error

    def damage(self, content_hash: str) -> str:
        return damage(self.path(content_hash), content_hash)

    def clear_unfinished(self) -> None:
        for path in self.files.glob("new-*"):
            path.unlink(missing_ok=True)

    def hashes(self) -> set[str]:
        return {path.name for path in self.files.glob("??/*")}

    def clear_renders(self, kept: Collection[str]) -> None:
        for folder in self.renders.iterdir():
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)

    def remove(self, hashes: Iterable[str]) -> None:
        for content_hash in hashes:
            self.path(content_hash).unlink(missing_ok=True)
            shutil.rmtree(self.renders / content_hash, ignore_errors=True)

    # what waits

    @contextmanager
    def receiving(self) -> Iterator[tuple[str, IO[bytes]]]:
        job_id = secrets.token_hex(12)
        part = self._part(job_id)
        try:
            make_folder(self.waiting)
            with open(part, "xb", opener=opener) as file:
                yield job_id, file
        except OSError as error:
            raise explain(error, part) from error
        finally:
            part.unlink(missing_ok=True)

    def stage(self, job_id: str, file: IO[bytes]) -> str:
        part = self._part(job_id)
        try:
            file.close()
            with part.open("rb+") as written:
                os.fsync(written.fileno())
            content_hash = hash_file(part)  # of what reached the disk, and still in the page cache
            part.replace(self.staged(job_id))
            sync_folder(self.waiting)
        except OSError as error:
            raise explain(error, part) from error
        return content_hash

    def staged(self, job_id: str) -> Path:
        return self.waiting / job_id

    def _part(self, job_id: str) -> Path:
        return self.waiting / f"{job_id}.part"

    def unstage(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            self.staged(job_id).unlink(missing_ok=True)

    def clear_staged(self, kept: Collection[str]) -> None:
        oldest = time.time() - STALE_S
        for path in self.waiting.glob("*"):
            with suppress(OSError):
                if path.name not in kept and path.stat().st_mtime < oldest:
                    path.unlink()

    def earlier_uploads(self, known: Collection[str]) -> Iterator[Job]:
        """Uploads of a library from before jobs were rows, which lie in a folder of their own, as jobs to be submitted;
        the next is asked for when one is."""
        folder = self.files.parent / "uploads"
        names = {one.name for one in fields(Job)}
        for record in sorted(folder.glob("*.json")):
            data = record.with_suffix(".data")
            with suppress(OSError, ValueError, TypeError, AttributeError):  # damaged; the others are not
                found = {name: value for name, value in orjson.loads(record.read_bytes()).items() if name in names}
                job = Job(**found, source=f"upload:{found['id']}", kind="url" if found.get("url") else "upload")
                if data.is_file():
                    make_folder(self.waiting)
                    data.replace(self.staged(job.id))
                if job.id not in known and not record.with_suffix(".stop").exists():
                    yield job
                record.unlink()
        shutil.rmtree(folder, ignore_errors=True)

    # what is under way

    @contextmanager
    def workspace(self, worker: str) -> Iterator[Path]:
        folder = self._runs / worker
        try:
            make_folder(self._runs)
            make_folder(folder)
        except OSError as error:
            raise explain(error, folder) from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def clear_workspaces(self, alive: Callable[[], Collection[str]]) -> bool:
        found = list(self._runs.glob("*"))
        if not found:
            return False
        living = alive()  # asked after the look: who began in between has no folder in it
        left = [path for path in found if path.name not in living]
        for path in left:
            if path.is_file():  # the lock of an earlier version
                path.unlink(missing_ok=True)
            shutil.rmtree(path, ignore_errors=True)
        return bool(left)


class MemoryFiles:
    """The `Files` port of one process that keeps nothing; who must have a file gets one in a temporary folder."""

    def __init__(self) -> None:
        self._bytes: dict[str, bytes] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="refdesk-files-")
        self.renders = Path(self._folder.name, "renders")

    def path(self, content_hash: str) -> Path:
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

    @contextmanager
    def receiving(self) -> Iterator[tuple[str, IO[bytes]]]:
        job_id = secrets.token_hex(12)
        part = self.staged(f"{job_id}.part")
        try:
            with part.open("xb") as file:
                yield job_id, file
        finally:
            part.unlink(missing_ok=True)

    def stage(self, job_id: str, file: IO[bytes]) -> str:
        file.close()
        self.staged(f"{job_id}.part").replace(self.staged(job_id))
        return hash_file(self.staged(job_id))

    def staged(self, job_id: str) -> Path:
        return Path(self._folder.name, f"job-{job_id}")

    def unstage(self, job_ids: Iterable[str]) -> None:
        for job_id in job_ids:
            self.staged(job_id).unlink(missing_ok=True)

    def clear_staged(self, kept: Collection[str]) -> None:
        """They go with the process."""

    @contextmanager
    def workspace(self, worker: str) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="refdesk-run-") as folder:
            yield Path(folder)

    def clear_workspaces(self, alive: Callable[[], Collection[str]]) -> bool:
        return False  # who dies takes all of it along
