"""The files of a library in S3, or anywhere fsspec can reach, for API processes and workers on any machine.

    files/ab/abcdef…    originals and figures, under the hash of their content
    waiting/ID          received whole, until the job of this id adds it
    renders/HASH/NAME   page images, which can be made again

A node keeps copies of what it was asked for, up to a size: what is named by the hash of its content never changes, so a
copy is right for as long as it is there. What is under way (received, being read) is on the node's own disk.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from refdesk.config import hash_bytes, hash_file, make_folder
from refdesk.errors import ExtraMissing, FilesAway, UsageError
from refdesk.files.local import STALE_S, BoundedFolder, LocalFiles, RenderCache
from refdesk.types import Job

MOST_COPIED = 8 << 30  # bytes of copies that a node keeps
STEP = 1 << 20
S3_OPTIONS: dict[str, Any] = {
    "skip_instance_cache": True,  # another library may be at another address
    "use_listings_cache": False,  # others write there too
    "config_kwargs": {"connect_timeout": 3, "read_timeout": 30, "retries": {"max_attempts": 2}},
}


class RemoteFiles:
    """The `Files` port over fsspec; `folder` is this node's own."""

    def __init__(self, folder: Path, url: str, most_copied: int = MOST_COPIED) -> None:
        self._url = url
        self._system, self._root = _opened(url)
        self._near = LocalFiles(folder)
        self._near_waiting = folder / "waiting"
        self._copies = folder / "copies"
        self._kept = BoundedFolder(self._copies, most_copied)
        for kept_folder in (self._copies, self._near_waiting):
            make_folder(kept_folder)
        self.renders = self._near.renders

    def render_cache(self) -> RemoteRenders:
        return RemoteRenders(self, self._near.renders)

    # what is kept

    def path(self, content_hash: str) -> Path:
        copy = self._copies / content_hash[:2] / content_hash
        if content_hash and not copy.is_file():
            new = self._downloaded(self._file(content_hash))
            if new is not None and hash_file(new) == content_hash:  # else it is as good as missing
                make_folder(copy.parent)
                size = new.stat().st_size
                new.replace(copy)
                self._kept.grew(size)
            elif new is not None:
                new.unlink()
        return copy

    def has(self, content_hash: str) -> bool:
        return bool(self._ask(lambda: self._system.exists(self._file(content_hash))))

    def put(self, data: bytes) -> str:
        content_hash = hash_bytes(data)
        if not self.has(content_hash):
            self._ask(lambda: self._system.pipe_file(self._file(content_hash), data))
        return content_hash

    def adopt(self, file: Path, content_hash: str) -> None:
        """It is whole there, or not there at all: S3 shows an object when all of it has arrived."""
        if not self.has(content_hash):
            self._ask(lambda: self._system.put_file(str(file), self._file(content_hash)))
        copy = self._copies / content_hash[:2] / content_hash  # its pages will be looked at next
        make_folder(copy.parent)
        size = file.stat().st_size
        file.replace(copy)
        self._kept.grew(size)

    def damage(self, content_hash: str) -> str:
        """Of what is kept there, not of a copy here."""
        digest = hashlib.sha256()

        def read() -> str:
            with self._system.open(self._file(content_hash), "rb", cache_type="none") as file:
                while step := file.read(STEP):
                    digest.update(step)
            return "" if digest.hexdigest() == content_hash else "altered"

        try:
            return str(self._ask(read))
        except FileNotFoundError:
            return "missing"
        except FilesAway as error:
            return f"not readable ({error})"

    def hashes(self) -> set[str]:
        return {name.rpartition("/")[2] for name in self._listed("files")}

    def remove(self, hashes: Iterable[str]) -> None:
        gone = list(hashes)
        self._remove([self._file(content_hash) for content_hash in gone])
        for job_id in gone:
            (self._copies / job_id[:2] / job_id).unlink(missing_ok=True)
            shutil.rmtree(self.renders / job_id, ignore_errors=True)
            self._remove(self._listed("renders", job_id))

    def clear_unfinished(self) -> None:
        for path in self._copies.glob("new-*"):
            with suppress(OSError):
                if _age(path) > STALE_S:
                    path.unlink()

    def clear_renders(self, kept: Collection[str]) -> None:
        self._near.clear_renders(kept)
        self._remove([name for name in self._listed("renders") if name.rsplit("/", 2)[1] not in kept])

    # what waits

    @contextmanager
    def receiving(self) -> Iterator[tuple[str, IO[bytes]]]:
        with self._near.receiving() as received:
            yield received

    def stage(self, job_id: str, file: IO[bytes]) -> str:
        content_hash = self._near.stage(job_id, file)
        here = self._near.staged(job_id)
        try:
            self._ask(lambda: self._system.put_file(str(here), self._name("waiting", job_id)))
        finally:
            here.unlink(missing_ok=True)
        return content_hash

    def restage(self, job_id: str, file: Path) -> None:
        self._ask(lambda: self._system.put_file(str(file), self._name("waiting", job_id)))

    def staged(self, job_id: str) -> Path:
        copy = self._near_waiting / job_id
        if not copy.is_file() and (new := self._downloaded(self._name("waiting", job_id))) is not None:
            new.replace(copy)
        return copy

    def unstage(self, job_ids: Iterable[str]) -> None:
        gone = list(job_ids)
        self._remove([self._name("waiting", job_id) for job_id in gone])
        for content_hash in gone:
            (self._near_waiting / content_hash).unlink(missing_ok=True)

    def clear_staged(self, kept: Collection[str]) -> None:
        self._near.clear_staged(kept)
        for path in self._near_waiting.glob("*"):
            if path.name not in kept:
                path.unlink(missing_ok=True)
        old = []
        for name in self._listed("waiting"):
            if name.rpartition("/")[2] not in kept:
                with suppress(FileNotFoundError):
                    made: datetime = self._ask(lambda name=name: self._system.modified(name))  # type: ignore[misc]
                    if (datetime.now(UTC) - made.astimezone(UTC)).total_seconds() > STALE_S:
                        old.append(name)
        self._remove(old)

    def earlier_uploads(self, known: Collection[str]) -> Iterator[Job]:
        """Nobody of that time had its files elsewhere."""
        return iter(())

    # what is under way

    def workspace(self, worker: str) -> AbstractContextManager[Path]:
        return self._near.workspace(worker)

    def clear_workspaces(self, alive: Callable[[], Collection[str]]) -> bool:
        return self._near.clear_workspaces(alive)

    # there and back

    def problem(self) -> str:
        """Why files cannot be reached, in a sentence; "" where they can."""
        try:
            self._ask(lambda: self._system.ls(self._root.partition("/")[0], detail=False))
        except FileNotFoundError:
            return f"the bucket of {self._url} does not exist; create it"
        except FilesAway as error:
            return error.sentence
        return ""

    def read(self, *parts: str) -> bytes | None:
        with suppress(FileNotFoundError):
            data: bytes = self._ask(lambda: self._system.cat_file(self._name(*parts)))
            return data
        return None

    def write(self, data: bytes, *parts: str) -> None:
        self._ask(lambda: self._system.pipe_file(self._name(*parts), data))

    def _name(self, *parts: str) -> str:
        return "/".join((self._root, *parts))

    def _file(self, content_hash: str) -> str:
        return self._name("files", content_hash[:2], content_hash)

    def _listed(self, *parts: str) -> list[str]:
        """Files alone: of a folder that has become empty, or fills just now, s3fs gives the folder itself."""
        found = self._ask(lambda: self._system.find(self._name(*parts), detail=True))
        return [str(path) for path, about in found.items() if about["type"] != "directory"]

    def _downloaded(self, name: str) -> Path | None:
        """A new file on this node, None where there is nothing of that name."""
        new = self._copies / f"new-{secrets.token_hex(8)}"
        try:
            self._ask(lambda: self._system.get_file(name, str(new)))
        except FileNotFoundError:
            new.unlink(missing_ok=True)
            return None
        except BaseException:
            new.unlink(missing_ok=True)
            raise
        return new if new.is_file() else None

    def _remove(self, names: list[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                self._ask(lambda name=name: self._system.rm_file(name))  # type: ignore[misc]

    def _ask(self, work: Callable[[], Any]) -> Any:
        """What it gives; whatever the network or the service says against it is said in words."""
        try:
            return work()
        except FileNotFoundError:
            raise
        except Exception as error:  # of botocore, aiohttp, or any driver that fsspec knows
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            raise FilesAway(f"the files at {self._url} cannot be reached: {reason}") from error


class RemoteRenders(RenderCache):
    """Page images on this node, and there, so that a page is drawn once for all nodes.

    There they are not counted: a rule of the bucket may let `renders/` go after some days.
    """

    def __init__(self, files: RemoteFiles, folder: Path) -> None:
        super().__init__(folder)
        self._there = files

    def get(self, content_hash: str, name: str) -> bytes | None:
        found = super().get(content_hash, name)
        if found is None:
            with suppress(FilesAway):
                found = self._there.read("renders", content_hash, name)
            if found is not None:
                super().put(content_hash, name, found)
        return found

    def put(self, content_hash: str, name: str, data: bytes) -> None:
        super().put(content_hash, name, data)
        with suppress(FilesAway):
            self._there.write(data, "renders", content_hash, name)


def _age(path: Path) -> float:
    return datetime.now(UTC).timestamp() - path.stat().st_mtime


def _opened(url: str) -> tuple[Any, str]:
    """The file system of an address, and the folder within it."""
    try:
        import fsspec

        options = S3_OPTIONS if url.startswith("s3:") else {}
        system, root = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        raise ExtraMissing(
            "REFDESK_FILES_URL needs a driver that is not installed",
            hint="pip install 'refdesk[s3]' for s3://, or the fsspec package for another scheme",
        ) from error
    except ValueError as error:
        raise UsageError(f"REFDESK_FILES_URL cannot be used: {error}", hint="give it as s3://bucket/folder") from error
    return system, root.rstrip("/")
