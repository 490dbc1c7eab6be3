"""What `refdesk doctor` looks at: versions, models, the data folder, the indexes against SQL, free disk."""

from __future__ import annotations

import asyncio
import importlib.util
import platform
import shutil
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version

import numpy as np

from refdesk.engine import Refdesk
from refdesk.errors import RefdeskError
from refdesk.types import Finding

LOW_DISK = 1 << 30  # bytes free under which a library cannot grow much
_PACKAGES = ("sqlalchemy", "tantivy", "usearch", "onnxruntime", "tokenizers", "pypdfium2")


def examine(desk: Refdesk) -> Iterator[Finding]:
    """Every finding, the most general first; nothing is changed."""
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    yield Finding("versions", True, f"Refdesk {version('refdesk')}, Python {platform.python_version()}; {versions}")
    yield _embedder(desk)
    yield from _models(desk)
    has_ocr = importlib.util.find_spec("rapidocr") is not None
    yield Finding(
        "OCR", True, "installed" if has_ocr else "not installed: scans cannot be read (pip install 'refdesk[ocr]')"
    )
    usage = shutil.disk_usage(desk.folder)
    yield Finding(
        "disk",
        usage.free > LOW_DISK,
        f"{_size(usage.free)} free; the library {desk.folder} takes {_size(_folder_size(desk))}",
        "free some space, or move the library",
    )
    yield _rights(desk)
    counts = desk.catalogue.counts(desk.catalogue.standing().space)
    said = [f"{counts[key]} {key.removeprefix('documents_')}" for key in sorted(counts) if key.startswith("documents_")]
    yield Finding("documents", True, ", ".join(said) or "none yet")
    waiting = counts.get("documents_pending", 0) + counts.get("documents_processing", 0)
    if waiting:
        yield Finding(
            "unfinished", True, f"{waiting} documents wait: `refdesk add --resume` finishes what a killed run began"
        )
    try:
        yield from desk.maintenance.check()
        yield from desk.maintenance.check_files(desk.spool)
    except RefdeskError as error:
        yield Finding("indexes", False, str(error), error.hint)


def _embedder(desk: Refdesk) -> Finding:
    try:
        vector = desk.embedder.embed_query("Refdesk")
        well = vector.shape == (desk.embedder.dimensions,) and bool(np.isfinite(vector).all())
    except RefdeskError as error:
        return Finding("embedder", False, error.sentence, error.hint)
    space = desk.catalogue.standing().space
    if space not in ("", desk.embedder.name):
        text = f"the library was made with '{space}', the embedder is '{desk.embedder.name}'"
        return Finding("embedder", False, text, "run `refdesk reindex`, or name the old embedder in REFDESK_EMBEDDER")
    return Finding(
        "embedder", well, f"{desk.embedder.name}, {desk.embedder.dimensions} dimensions", "install Refdesk anew"
    )


def _rights(desk: Refdesk) -> Finding:
    """Who else may read the library: opening it has closed what could be closed."""
    if left := desk.open_to_others():
        text = f"{len(left)} files or folders can be reached by others, {left[0]} for one"
        return Finding("rights", False, text, f"run `chmod -R go= {desk.folder}` as their owner")
    closed = desk.closed_to_others
    said = f"; {closed} files and folders that others could reach were closed just now" if closed else ""
    return Finding("rights", True, f"only the owner can read the library{said}")


def _models(desk: Refdesk) -> Iterator[Finding]:
    """Every model that is named: whether it can be used, and its provider lists it."""
    for name, error in asyncio.run(desk.asking.examine_models(desk.settings)):
        text = f"{name} answers at its address" if error is None else f"{name}: {error}"
        yield Finding("model", error is None, text, "" if error is None else error.hint)


def _folder_size(desk: Refdesk) -> int:
    total = 0
    for path in desk.folder.rglob("*"):
        with suppress(OSError):  # gone a moment later
            total += path.stat().st_size
    return total


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
