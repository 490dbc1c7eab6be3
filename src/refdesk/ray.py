"""Bulk loading with Ray Data: the same parsing, chunking and embedding in parallel; this process stores the results.

    import ray; ray.init("auto")                 # or nothing: one on this machine is started
    from refdesk.ray import bulk_add
    with Refdesk("library") as desk:
        bulk_add(desk, "/archive", collection="archive", concurrency=64)

Every node must see the files under the same path, and has Refdesk installed (`refdesk[ray]`). What was stored is safe;
whoever is interrupted calls it again, and what is there already is left alone. Mail with attachments, and what could
not be read, is handed to `desk.add`, which takes attachments in and writes down why a document failed. Ray's processes
have no limit on memory or time: this is for archives that one trusts.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from refdesk.caller_desk import DEFAULT_COLLECTION
from refdesk.config import hash_file
from refdesk.desk import Refdesk
from refdesk.errors import ExtraMissing, RefdeskError
from refdesk.ingest.pipeline import FoundFile, discover
from refdesk.ingest.workers import EmbedTask, PreparedFile, PrepareTask, Setup, WorkerMessage, decode, encode
from refdesk.store_ports import Ready
from refdesk.types import Added, Document
from refdesk.worker import make_preparer

STORED_AT_ONCE = 64  # documents in one step
WITH_OTHERS_INSIDE = ("eml", "msg", "mbox", "zip")  # formats whose attachments are documents of their own
logger = logging.getLogger("refdesk.ray")
Row = dict[str, Any]


class Prepare:
    """A file becomes chunks with their vectors. One in each process of Ray, which loads the model once."""

    def __init__(self, setup: Setup) -> None:
        self._preparer = make_preparer(setup)

    def __call__(self, row: Row) -> Row:
        document = Document("", row["name"], row["collection"], "", "pending", source=row["path"])
        try:
            found = self._preparer.prepare(PrepareTask(document, path=Path(row["path"])), lambda done, total: None)
            embedded = tuple(self._preparer.embed(EmbedTask(found.prepared.chunks)))
        except RefdeskError as error:
            return row | {"failed": error.sentence, "prepared": b"", "embedded": b""}
        except Exception as error:  # a parser met something its author did not think of
            return row | {"failed": f"{type(error).__name__}: {error}"[:300], "prepared": b"", "embedded": b""}
        packed = {
            "prepared": encode(WorkerMessage(prepared=found)),
            "embedded": encode(WorkerMessage(embedded=embedded)),
        }
        return row | packed | {"failed": ""}


def prepared_rows(files: Sequence[FoundFile], collection: str, setup: Setup, concurrency: int) -> Iterator[Row]:
    """Each file as a row that holds its chunks and vectors, packed; in no order, as they are finished."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise ExtraMissing(
            "Bulk loading needs Ray, which is not installed", hint="pip install 'refdesk[ray]'"
        ) from error
    if not files:
        return
    rows = [
        {"path": str(file.path), "name": file.name, "collection": collection, "modified": file.modified}
        for file in files
    ]
    found = ray.data.from_items(rows, override_num_blocks=min(len(rows), 4 * concurrency))
    mapped = found.map(Prepare, fn_constructor_args=(setup,), concurrency=concurrency)
    for row in mapped.iter_rows():
        yield dict(row)


def bulk_add(
    desk: Refdesk, *paths: str | Path, collection: str = DEFAULT_COLLECTION, concurrency: int = 2
) -> list[Added]:
    """Adds files and folders by `concurrency` processes of Ray; says of each file what became of it."""
    found = {
        discovered.path: discovered for path in paths for discovered in discover(Path(path).expanduser().absolute())
    }
    left = [str(file.path) for file in found.values() if file.error or file.skipped]
    results: list[Added] = []
    new: list[FoundFile] = []
    for file in found.values():
        if file.error or file.skipped:
            continue
        known = desk.document_from(str(file.path))
        if known is not None and known.status == "ready" and known.content_hash == hash_file(file.path):
            results.append(Added(known.name, "unchanged", known, source=known.source))
        else:
            new.append(file)
    with desk.at_work() as run:
        batch: list[Ready] = []
        for row in prepared_rows(new, collection, Setup(desk.config, desk.settings), concurrency):
            ready = _ready(row, run.folder)
            if ready is None:
                logger.info(
                    "%s is added in the ordinary way: %s", row["path"], row["failed"] or "it contains other documents"
                )
                left.append(row["path"])
                continue
            batch.append(ready)
            if len(batch) >= STORED_AT_ONCE:
                results += desk.store_prepared(batch)
                batch = []
        results += desk.store_prepared(batch)
    return results + (desk.add(*left, collection=collection) if left else [])


def _ready(row: Row, folder: Path) -> Ready | None:
    """As a store takes it, with a copy of the original; None of what an ordinary add does better."""
    if row["failed"]:
        return None
    message: WorkerMessage = decode(row["prepared"], WorkerMessage)
    file: PreparedFile | None = message.prepared
    assert file is not None
    if file.prepared.document.format in WITH_OTHERS_INSIDE:
        return None
    original = folder / file.prepared.document.content_hash
    shutil.copyfile(row["path"], original)
    if hash_file(original) != file.prepared.document.content_hash:  # changed since it was read
        return None
    embedded = decode(row["embedded"], WorkerMessage).embedded
    return Ready(file.prepared, embedded or (), original, row["modified"])
