"""How much has a key done in all workers together? Each writes its own counts to a file that the others read.

    limits-4711-9f2c.bin    the counts of process 4711: one record for each key that it has seen

Nobody waits for anybody: a file has one writer, and a reader that comes in between two writes is one request behind.
What a process had counted is gone with it; so are the questions that it was answering.
"""

from __future__ import annotations

import mmap
import os
import secrets
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

RECORD = struct.Struct("<16sdqqq")  # the key's id, then the fields of `Counts`
MOST_KEYS = 4096  # of a process; those that come later are counted in each worker for itself
LOOK_S = 1.0  # how often it is looked for workers that have come or gone


@dataclass(slots=True)
class Counts:
    """Requests in this hour and the one before, since when this hour runs, and questions being answered."""

    began: float
    count: int = 0
    before: int = 0
    asking: int = 0


@dataclass(slots=True)
class _Other:
    """The file of another process, and where in it the keys stand that were seen there so far."""

    held: mmap.mmap
    places: dict[bytes, int] = field(default_factory=dict)

    def of(self, key: bytes) -> Counts | None:
        while key not in self.places and len(self.places) < MOST_KEYS:  # records are only ever added behind the last
            found = RECORD.unpack_from(self.held, len(self.places) * RECORD.size)[0]
            if not found.strip(b"\0"):
                return None
            self.places[found] = len(self.places)
        place = self.places.get(key)
        return None if place is None else Counts(*RECORD.unpack_from(self.held, place * RECORD.size)[1:])


class Tally:
    """The counts of this process, and those of the others when there is a folder that they share."""

    def __init__(self, folder: Path | None = None) -> None:
        self._counts: dict[str, Counts] = {}
        self._places: dict[str, int] = {}
        self._folder, self._looked = folder, -LOOK_S
        self._others: dict[str, _Other] = {}
        if folder is not None:
            self._name = f"limits-{os.getpid()}-{secrets.token_hex(4)}.bin"
            with (folder / self._name).open("xb+") as file:
                file.truncate(MOST_KEYS * RECORD.size)
                self._held = mmap.mmap(file.fileno(), 0)

    def own(self, key_id: str) -> Counts | None:
        return self._counts.get(key_id)

    def write(self, key_id: str, counts: Counts) -> None:
        """Notes the counts of a key, for the others to see."""
        self._counts[key_id] = counts
        place = self._places.setdefault(key_id, len(self._places))
        if self._folder is not None and place < MOST_KEYS:
            values = counts.began, counts.count, counts.before, counts.asking
            RECORD.pack_into(self._held, place * RECORD.size, _packed(key_id), *values)

    def all(self, key_id: str) -> Iterator[Counts]:
        """What each process counts of a key, this one first."""
        if (own := self.own(key_id)) is not None:
            yield own
        if self._folder is None:
            return
        if time.monotonic() - self._looked >= LOOK_S:
            self._looked = time.monotonic()
            self._look(self._folder)
        for other in self._others.values():
            if (found := other.of(_packed(key_id))) is not None:
                yield found

    def _look(self, folder: Path) -> None:
        alive = {path.name for path in folder.glob("limits-*.bin") if path.name != self._name and _is_alive(path.name)}
        for gone in self._others.keys() - alive:
            del self._others[gone]
        for name in alive - self._others.keys():
            with (folder / name).open("rb") as file:
                if os.fstat(file.fileno()).st_size == MOST_KEYS * RECORD.size:  # else it is being made this moment
                    self._others[name] = _Other(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _packed(key_id: str) -> bytes:
    return key_id.encode()[:16].ljust(16, b"\0")


def _is_alive(name: str) -> bool:
    if os.name == "nt":  # where the same call would end the process
        return True
    try:
        os.kill(int(name.split("-")[1]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
