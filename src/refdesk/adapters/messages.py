"""What the program and its worker processes say to one another, as bytes that can only become plain values.

A worker reads files of strangers and may have been taken over by one of them. Nothing it answers is ever run: a message
is JSON with the raw bytes of pictures and arrays behind it, and the receiver says of which type it must be.

    4 bytes: length of the JSON | JSON: {"value": …, "parts": [length, …]} | the parts
"""

from __future__ import annotations

import json
import os
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import orjson

from refdesk import errors
from refdesk.adapters.files import hash_bytes
from refdesk.config import Config
from refdesk.errors import RefdeskError
from refdesk.ports import Embedded
from refdesk.settings import Settings
from refdesk.types import Chunk, Document, Prepared

_LENGTH = 4  # bytes that hold the length of the JSON
_ARRAYS = ("<f4", "<i4", "|i1")  # what geometry and vectors are made of
Read = Callable[[Any, list[bytes]], Any]


@dataclass(frozen=True, slots=True)
class Setup:
    config: Config
    settings: Settings


@dataclass(frozen=True, slots=True)
class PrepareTask:
    """Read a file, or take a text, and prepare it; the bytes that were read are kept in `spool`."""

    document: Document
    path: Path | None = None
    text: str | None = None
    spool: Path | None = None
    password: str | None = None

    @property
    def content_hash(self) -> str:
        """Of a text; a file is hashed as it is read."""
        return hash_bytes((self.text or "").encode())


@dataclass(frozen=True, slots=True)
class EmbedTask:
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Spooled:
    """An attachment, put aside until it is taken in as a document of its own."""

    name: str
    path: Path
    content_hash: str


@dataclass(frozen=True, slots=True)
class PreparedFile:
    prepared: Prepared
    original: Path | None
    children: tuple[Spooled, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One of the two."""

    prepare: PrepareTask | None = None
    embed: EmbedTask | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A `RefdeskError` by the name of its class."""

    name: str
    message: str
    hint: str
    retryable: bool

    def error(self) -> RefdeskError:
        kind = getattr(errors, self.name, None)
        if not (isinstance(kind, type) and issubclass(kind, RefdeskError)):
            raise ValueError(f"there is no error '{self.name}'")
        found = kind(self.message, hint=self.hint)
        found.retryable = self.retryable
        return found


def failure(error: RefdeskError) -> Failure:
    return Failure(type(error).__name__, str(error), error.hint, error.retryable)


@dataclass(frozen=True, slots=True)
class Said:
    """What a worker answers: one of these, or that it has started."""

    progress: tuple[int, int] | None = None
    prepared: PreparedFile | None = None
    embedded: tuple[Embedded, ...] | None = None
    failed: Failure | None = None


# writing


def encode(value: object) -> bytes:
    """A dataclass of plain values, arrays and bytes.

    >>> decode(encode(Task(embed=EmbedTask(()))), Task)
    Task(prepare=None, embed=EmbedTask(chunks=()))
    """
    parts: list[bytes] = []

    def plain(one: Any) -> Any:
        if is_dataclass(one):
            return [getattr(one, field.name) for field in fields(one)]
        if isinstance(one, tuple):  # a named one
            return list(one)
        if isinstance(one, np.ndarray):
            parts.append(np.ascontiguousarray(one).tobytes())
            return [len(parts) - 1, one.dtype.str, list(one.shape)]
        if isinstance(one, np.generic):
            return one.item()
        if isinstance(one, Path):  # a name on the disk need not be text
            one = os.fsencode(one)
        if isinstance(one, bytes):
            parts.append(one)
            return len(parts) - 1
        if isinstance(one, Mapping):
            return dict(one)
        if isinstance(one, Sequence):
            return list(one)
        raise TypeError(f"{type(one).__name__} is not sent to workers")

    try:
        body = orjson.dumps(value, default=plain, option=orjson.OPT_PASSTHROUGH_DATACLASS)
    except TypeError:  # half a surrogate pair, which a command line may hold
        parts.clear()
        body = json.dumps(value, default=plain).encode()
    head = b'{"value":' + body + b',"parts":' + orjson.dumps([len(part) for part in parts]) + b"}"
    return b"".join([len(head).to_bytes(_LENGTH, "big"), head, *parts])


# reading


def decode(data: bytes, wanted: Any) -> Any:
    """The value of that type; ValueError when the bytes are none."""
    try:
        end = _LENGTH + int.from_bytes(data[:_LENGTH], "big")
        head = data[_LENGTH:end]
        try:
            message = orjson.loads(head)
        except orjson.JSONDecodeError:
            message = json.loads(head)
        parts: list[bytes] = []
        for length in message["parts"]:
            parts.append(data[end : end + _whole(length)])
            end += length
        return _reader(wanted)(message["value"], parts)
    except (LookupError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a message: {error}") from error


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a length")
    return value


@cache
def _reader(wanted: Any) -> Read:
    """How a value of a type is read; the type is ours, the value the other's."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if wanted is Any:
        return lambda value, parts: value
    if wanted in (str, int, bool, type(None)):
        return lambda value, parts: _exactly(value, wanted)
    if wanted is float:
        return lambda value, parts: float(value if type(value) is int else _exactly(value, float))
    if wanted is bytes:
        return lambda value, parts: parts[_whole(value)]
    if wanted is Path:
        return lambda value, parts: Path(os.fsdecode(parts[_whole(value)]))
    if origin is Literal:
        return lambda value, parts: inner[inner.index(value)]
    if origin in (Union, types.UnionType):
        (one,) = [_reader(part) for part in inner if part is not type(None)]
        return lambda value, parts: None if value is None else one(value, parts)
    if origin is np.ndarray:
        return _array
    if isinstance(origin, type) and issubclass(origin, Mapping):
        read = _reader(inner[1])
        return lambda value, parts: {key: read(one, parts) for key, one in _exactly(value, dict).items()}
    if origin is tuple and inner[-1] is not Ellipsis:
        return _fixed(tuple, [_reader(part) for part in inner])
    if isinstance(origin, type) and issubclass(origin, Sequence):
        read = _reader(inner[0])
        return lambda value, parts: tuple([read(one, parts) for one in _exactly(value, list)])
    hints = get_type_hints(wanted)
    if is_dataclass(wanted):
        make: Any = wanted
        return _fixed(lambda values: make(*values), [_reader(hints[field.name]) for field in fields(wanted)])
    return _fixed(wanted._make, [_reader(hints[name]) for name in wanted._fields])


def _fixed(make: Callable[[list[Any]], Any], readers: list[Read]) -> Read:
    def read(value: Any, parts: list[bytes]) -> Any:
        return make([one(part, parts) for one, part in zip(readers, _exactly(value, list), strict=True)])

    return read


def _array(value: Any, parts: list[bytes]) -> Any:
    place, kind, shape = _exactly(value, list)
    if kind not in _ARRAYS:
        raise ValueError(f"arrays of {kind!r} are not sent")
    return np.frombuffer(parts[_whole(place)], dtype=kind).reshape([_whole(one) for one in shape])


def _exactly(value: Any, wanted: type[Any]) -> Any:
    if type(value) is not wanted:
        raise ValueError(f"{wanted.__name__} was expected, not {type(value).__name__}")
    return value
