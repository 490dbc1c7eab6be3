"""Runtime settings: one frozen value, each field with its public name and help beside its default."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from refdesk.errors import UsageError


def _setting(name: str, default: Any, help: str, minimum: float | None = None, maximum: float | None = None) -> Any:
    return field(default=default, metadata={"name": name, "help": help, "minimum": minimum, "maximum": maximum})


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be changed without installing anything anew.

    >>> Settings().changed({"rag.top_k": 5}).top_k
    5
    """

    # retrieval
    top_k: int = _setting("rag.top_k", 10, "Chunks that a search gives", 1, 1000)
    fusion: str = _setting(
        "rag.fusion", "convex", "How BM25 and vectors are joined: convex (true scores) or rrf (ranks)"
    )
    dense_weight: float = _setting("rag.dense_weight", 0.75, "Share of the vector score in convex fusion", 0.0, 1.0)
    rrf_k: int = _setting("rag.rrf_k", 30, "Dampening of reciprocal rank fusion", 1, 1000)
    candidates: int = _setting("rag.candidates", 20, "Chunks each engine hands to the fusion, at least", 1, 5000)
    # ingest
    chunk_target: int = _setting("ingest.chunk_target", 200, "Tokens a chunk should have", 20, 8000)
    chunk_minimum: int = _setting("ingest.chunk_minimum", 60, "Tokens below which a chunk is avoided", 1, 8000)
    chunk_maximum: int = _setting(
        "ingest.chunk_maximum", 256, "Tokens a chunk may have; the embedder's window if smaller", 32, 8192
    )
    chunk_overlap: int = _setting("ingest.chunk_overlap", 1, "Sentences repeated from the chunk before", 0, 5)
    ocr: bool = _setting("ingest.ocr", True, "Read pages without a text layer (needs refdesk[ocr])")
    max_file_mb: int = _setting("ingest.max_file_mb", 512, "Largest file that is read", 1, 16384)
    max_pages: int = _setting("ingest.max_pages", 20_000, "Most pages a document may have", 1, 1_000_000)
    max_characters: int = _setting("ingest.max_characters", 50_000_000, "Most characters a document may have", 1000)
    max_unpacked_mb: int = _setting(
        "ingest.max_unpacked_mb", 1024, "Largest size an archive (DOCX, XLSX, EPUB) may unpack to", 1
    )
    time_limit_s: int = _setting(
        "ingest.time_limit_s", 300, "Seconds a document may be parsed without a page being finished", 1
    )
    memory_limit_mb: int = _setting("ingest.memory_limit_mb", 4096, "Memory one parsing worker may use", 512)
    workers: int = _setting("ingest.workers", 0, "Worker processes; 0 is one per core, 8 at most", 0, 64)

    def changed(self, values: Mapping[str, Any]) -> Settings:
        """These settings with some values replaced, each named by its public name and checked."""
        by_name = {spec.metadata["name"]: spec for spec in fields(self)}
        updates: dict[str, Any] = {}
        for name, value in values.items():
            if name not in by_name:
                raise UsageError(f"there is no setting '{name}'", hint="see docs/settings.md")
            updates[by_name[name].name] = _checked(name, value, by_name[name])
        new = replace(self, **updates)
        if not new.chunk_minimum <= new.chunk_target <= new.chunk_maximum:
            raise UsageError(
                f"ingest.chunk_minimum, _target and _maximum must rise, not {new.chunk_minimum}, {new.chunk_target},"
                f" {new.chunk_maximum}"
            )
        return new

    def items(self) -> Iterator[tuple[str, Any, str]]:
        """(name, value, help) of every setting, in order."""
        for spec in fields(self):
            yield spec.metadata["name"], getattr(self, spec.name), spec.metadata["help"]

    @property
    def fingerprint(self) -> str:
        """Twelve characters that are equal exactly when all settings are."""
        text = json.dumps({name: value for name, value, _ in self.items()}, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _checked(name: str, value: Any, spec: Any) -> Any:
    kind = type(spec.default)
    try:
        if kind is bool and isinstance(value, str):
            value = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[value.lower()]
        if isinstance(value, bool) != (kind is bool) or (kind is int and float(value) != int(value)):
            raise ValueError
        value = kind(value)
        if kind is float and not math.isfinite(value):
            raise ValueError
    except (KeyError, TypeError, ValueError, OverflowError):
        raise UsageError(f"{name} must be {_word(kind)}, not {value!r}") from None
    low, high = spec.metadata["minimum"], spec.metadata["maximum"]
    if high is None and low is not None and value < low:
        raise UsageError(f"{name} must be at least {low}, not {value}")
    if low is not None and high is not None and not low <= value <= high:
        raise UsageError(f"{name} must lie between {low} and {high}, not {value}")
    if name == "rag.fusion" and value not in ("convex", "rrf"):
        raise UsageError(f"{name} must be convex or rrf, not {value!r}")
    return value


def _word(kind: type) -> str:
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kind, "a text")
