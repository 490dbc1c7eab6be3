"""What does a GGUF file say of the model in it? Its family, its size and its context window, from its head alone.

    read_head(Path("model.gguf")) -> GgufHead(architecture="qwen2", name="Qwen2.5 1.5B", window=32768, billions=1.54)

The format is ggml's: `GGUF`, a version, counts, then named values and the shapes of the tensors.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from refdesk.errors import UsageError

MAGIC = b"GGUF"
VERSIONS = (2, 3)
HINT = "give the path of a file that ends in .gguf, as gguf:/path/to/model.gguf"
STRING, ARRAY = 8, 9
# Type of a value -> how it is packed; all little-endian.
_PACKED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MOST = 1 << 24  # entries of anything in the head: a damaged count ends here, not in hours


@dataclass(frozen=True, slots=True)
class GgufHead:
    """`window` is what the model was made for, 0 where the file does not say it."""

    architecture: str
    name: str
    window: int
    billions: float


def read_head(path: Path) -> GgufHead:
    """A `UsageError` in one sentence when there is no such file, or none of this kind."""
    try:
        found = path.stat()
    except OSError as error:
        raise UsageError(f"there is no file {path}", hint=HINT) from error
    if not path.is_file():
        raise UsageError(f"{path} is not a file", hint=HINT)
    return _read(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=16)
def _read(path: Path, changed: int, size: int) -> GgufHead:
    """Once for each state of a file: its words are listed in the head, which takes a tenth of a second."""
    try:
        with path.open("rb") as file:
            if size < 24 or file.read(4) != MAGIC:
                raise UsageError(f"{path} is not a GGUF file", hint=HINT)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                return _Head(mapped).read()
    except UsageError:
        raise
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=HINT) from error
    except (struct.error, ValueError) as error:  # what is not Unicode is a ValueError too
        raise UsageError(f"{path} is a damaged GGUF file", hint="download it once more") from error


class _Head:
    """Reads forward through the mapped file."""

    def __init__(self, mapped: mmap.mmap) -> None:
        self._mapped, self._at = mapped, len(MAGIC)

    def read(self) -> GgufHead:
        version, tensors, count = self._take("I"), self._take("Q"), self._take("Q")
        if version not in VERSIONS or tensors > _MOST or count > _MOST:
            raise ValueError(f"version {version}")
        values = {self._text(): self._value() for _ in range(count)}
        architecture = str(values.get("general.architecture", ""))
        return GgufHead(
            architecture=architecture,
            name=str(values.get("general.name", "")),
            window=int(values.get(f"{architecture}.context_length", 0)),
            billions=sum(self._tensor() for _ in range(tensors)) / 1e9,
        )

    def _take(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self._mapped, self._at)
        self._at += struct.calcsize(f"<{code}")
        return value

    def _skip_text(self) -> None:
        (size,) = struct.unpack_from("<Q", self._mapped, self._at)
        self._at += 8 + size

    def _text(self) -> str:
        begin = self._at + 8
        self._skip_text()
        return self._mapped[begin : self._at].decode()

    def _value(self) -> Any:
        """A number or a text; of lists, which hold the vocabulary, nothing."""
        kind = self._take("I")
        if kind == STRING:
            return self._text()
        if kind != ARRAY:
            return self._take(_PACKED[kind]) if kind in _PACKED else self._unknown(kind)
        inner, count = self._take("I"), self._take("Q")
        if count > _MOST:
            raise ValueError("too long a list")
        if inner == STRING:
            for _ in range(count):
                self._skip_text()
        else:
            self._at += count * struct.calcsize(_PACKED[inner] if inner in _PACKED else self._unknown(inner))
        return None

    def _unknown(self, kind: int) -> Any:
        raise ValueError(f"values of kind {kind}")

    def _tensor(self) -> int:
        """How many numbers one has; where they lie is not asked."""
        self._skip_text()
        size = 1
        for _ in range(self._take("I")):
            size *= self._take("Q")
        self._take("I"), self._take("Q")
        return int(size)
