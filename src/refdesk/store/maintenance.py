"""Keeps the derived indexes right: new snapshots of the vectors, rebuilding from SQL, checking them against it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

import orjson
from sqlalchemy import Connection, delete, func, insert, select, update

from refdesk.errors import DiskFull
from refdesk.files.local import FileStore, hash_file
from refdesk.files.uploads import Spool
from refdesk.index.lexical import LexicalIndex
from refdesk.index.local import LocalIndex
from refdesk.index.vectors import EXACT_BELOW
from refdesk.ports import Embedder
from refdesk.store import rows as codec
from refdesk.store.database import writing
from refdesk.store.documents import Catalogue
from refdesk.store.rows import bump, lexical_entry, set_state
from refdesk.store.schema import chunks, documents, dropped, vectors
from refdesk.store.writer import LibraryWriter
from refdesk.types import UNFINISHED, Chunk, Finding

# Which of the files that documents were made from, or will be, are missing or altered? Each is known by its hash.

_NAMED = 3  # files that a sentence names; the others are counted
_FIGURES = "a figure of "


@dataclass(frozen=True, slots=True)
class Damage:
    """`name` is the document's or the upload's, `what` is "missing" or "altered"."""

    name: str
    what: str


def damaged_originals(connection: Connection, files: FileStore) -> list[Damage]:
    """Of documents and of the pictures cut out of them; a text that a program handed in has no original."""
    wanted: dict[str, str] = {}
    added = select(documents.c.content_hash, documents.c.name).where(
        documents.c.status == "ready", (documents.c.source != "") | documents.c.parent_id.is_not(None)
    )
    for content_hash, name in connection.execute(added):
        wanted.setdefault(content_hash, name)
    figures = (
        select(chunks.c.details, documents.c.name)
        .join(documents, documents.c.key == chunks.c.document_key)
        .where(chunks.c.kind == "figure", documents.c.status == "ready")
    )
    for details, name in connection.execute(figures):
        if image := orjson.loads(details)["image"]:
            wanted.setdefault(image, f"{_FIGURES}{name}")
    wanted.pop("", None)
    found = [(name, _state(files.path(content_hash), content_hash)) for content_hash, name in wanted.items()]
    return [Damage(name, what) for name, what in found if what]


def damaged_uploads(spool: Spool) -> list[Damage]:
    """Those that wait to be added and cannot be; one that is added this moment is not looked for."""
    found = []
    for upload in spool.all(anew=True).values():
        if upload.status not in UNFINISHED and not spool.has_data(upload.id):
            continue  # added; or nothing is kept for another try
        what = _state(spool.data(upload.id), upload.content_hash)
        if what and upload.id in spool.all(anew=True):
            found.append(Damage(upload.name, what))
    return found


def _state(path: Path, content_hash: str) -> str:
    try:
        return "altered" if content_hash and hash_file(path) != content_hash else ""
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"not readable ({error.strerror or error})"


def finding(title: str, damaged: Sequence[Damage], advice: str) -> Finding:
    """For the doctor."""
    said = [f"{one.name} is {one.what}" for one in damaged[:_NAMED]]
    if len(damaged) > _NAMED:
        said.append(f"{len(damaged) - _NAMED} more")
    return Finding(title, not damaged, "; ".join(said) or "all there and unaltered", advice)


TAIL_LIMIT = 2048  # vectors scanned exactly beside a snapshot: 0.1 ms; more make a new snapshot worth its second
TAIL_SHARE = 0.025  # of a large library: writing a million vectors anew is worth it every 25,000
DROPPED_LIMIT = 0.2  # share of deleted vectors at which a new snapshot is made
_BATCH = 512
_T = TypeVar("_T")

Report = Callable[[int, int], None]  # done, in all


class Maintenance:
    """Work on the whole library; each method holds the writer's lock."""

    def __init__(self, catalogue: Catalogue, index: LocalIndex, writer: LibraryWriter, files: FileStore) -> None:
        self._files = files
        self._catalogue = catalogue
        self._index = index
        self._writer = writer
        self._engine = writing(catalogue.engine)

    def settle(self, *, force: bool = False) -> bool:
        """Makes a new snapshot of the vectors when the tail or the list of dropped ids has grown long."""
        standing = self._index.refresh()
        if not (force or self._is_worthwhile()):
            return False
        with self._writer.locked():
            standing = self._index.refresh()
            if len(self._index.vectors) > EXACT_BELOW:
                folder = self._index.folder / f"vectors-{standing.epoch + 1}"
                shutil.rmtree(folder, ignore_errors=True)  # of a killed attempt
                self._write_snapshot(folder)
            with self._engine.begin() as connection:
                connection.execute(delete(dropped).where(dropped.c.purged == 1))
                bump(connection, "epoch")
                bump(connection, "generation")
            self._remove_old_snapshots(standing.epoch)
        self._index.refresh()
        return True

    def _write_snapshot(self, folder: Path) -> None:
        try:
            self._index.vectors.write_snapshot(folder)
        except RuntimeError as error:  # what usearch raises for everything; by far the largest of files finds no room
            raise DiskFull(f"the disk that holds {folder.parent} cannot take the vectors: {error}") from error

    def _is_worthwhile(self) -> bool:
        gone = sum(last - first + 1 for first, last in self._catalogue.dropped())
        count = len(self._index.vectors)
        many_dropped = gone > max(EXACT_BELOW // 4, DROPPED_LIMIT * count)
        long_tail = self._index.vectors.tail_length > max(TAIL_LIMIT, TAIL_SHARE * count)
        return many_dropped or (count > EXACT_BELOW and long_tail)

    def _remove_old_snapshots(self, keep: int) -> None:
        """Leaves the one before, which a reader may be opening at this moment."""
        for folder in self._index.folder.glob("vectors-*"):
            number = folder.name.removeprefix("vectors-")
            if not number.isdigit() or int(number) < keep:
                shutil.rmtree(folder, ignore_errors=True)

    def rebuild(self, embedder: Embedder, report: Report = lambda done, total: None) -> int:
        """Builds every index anew from SQL, with new vectors when the embedder is another one; gives the chunks."""
        with self._writer.locked(repair=False):  # the index to repair may be the one that is damaged
            total = self._catalogue.counts(embedder.name)["chunks"]
            if self._catalogue.standing().space not in ("", embedder.name):
                self._embed_anew(embedder, total, report)
            standing = self._catalogue.standing()
            number = standing.lexical + 1
            self._write_lexical(number, total, report)
            # No snapshot may carry the next epoch's name, not even of a killed attempt: its vectors would be taken for
            # new ones. Without one they are read from SQL, and then written anew.
            shutil.rmtree(self._index.folder / f"vectors-{standing.epoch + 1}", ignore_errors=True)
            with self._engine.begin() as connection:
                set_state(connection, "space", embedder.name)
                set_state(connection, "lexical", str(number))
                connection.execute(delete(vectors).where(vectors.c.space != embedder.name))
                connection.execute(update(dropped).values(purged=1))
                bump(connection, "epoch")
                bump(connection, "generation")
            for folder in self._index.folder.glob("vectors-*"):
                shutil.rmtree(folder, ignore_errors=True)
            self.settle(force=True)
            for folder in self._index.folder.glob("lexical-*"):
                if folder != self._index.lexical_folder(number):
                    shutil.rmtree(folder, ignore_errors=True)
            self._writer.clear_unused()
        return total

    def _write_lexical(self, number: int, total: int, report: Report) -> None:
        """A whole new lexical index beside the old one, which searches use until it is complete."""
        folder = self._index.lexical_folder(number)
        shutil.rmtree(folder, ignore_errors=True)  # of a killed attempt
        lexical = LexicalIndex(folder, create=True)
        done = 0
        for batch in _batches(self._catalogue.all_chunks(), _BATCH * 8):
            lexical.write(
                lexical_entry(document, document.id, chunk.id, chunk.kind, chunk.pages, chunk.context, chunk.text)
                for document, chunk, _ in batch
            )
            done += len(batch)
            report(done, total)
        lexical.merge()

    def _embed_anew(self, embedder: Embedder, total: int, report: Report) -> None:
        """Fills a new space beside the old one; searches use the old one until it is complete."""
        done = 0
        for batch in _batches(self._catalogue.all_chunks(), _BATCH):
            found: Sequence[Chunk] = [chunk for _, chunk, _ in batch]
            embedded = embedder.embed_chunks(found)
            with self._engine.begin() as connection:
                ids = [chunk.id for chunk in found]
                known = vectors.c.space == embedder.name, vectors.c.chunk_id.in_(ids)
                connection.execute(delete(vectors).where(*known))
                connection.execute(
                    insert(vectors),
                    [
                        {
                            "space": embedder.name,
                            "chunk_id": chunk.id,
                            "vector": codec.pack_vector(one.vector),
                            "sentences": one.sentences.tobytes(),
                        }
                        for chunk, one in zip(found, embedded, strict=True)
                    ],
                )
            done += len(batch)
            report(done, total)

    def check(self) -> list[Finding]:
        """Compares the indexes with SQL, while nobody changes either."""
        with self._writer.locked(repair=False):
            return list(self._findings())

    def check_files(self, spool: Spool) -> list[Finding]:
        """Compares originals and uploads with their hashes; reads all of them, and nobody waits for it."""
        with self._engine.connect() as connection:
            damaged = damaged_originals(connection, self._files)
        if damaged:  # one that was replaced or removed meanwhile is no damage
            with self._writer.locked(repair=False), self._engine.connect() as connection:
                damaged = damaged_originals(connection, self._files)
        return [
            finding("originals", damaged, "add those files again, or restore a backup with `refdesk restore FILE`"),
            finding("uploads", damaged_uploads(spool), "upload those files again"),
        ]

    def _findings(self) -> Iterator[Finding]:
        standing = self._index.refresh()
        counts = self._catalogue.counts(standing.space)
        with self._engine.connect() as connection:
            integrity = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
            expected = connection.execute(
                select(func.coalesce(func.sum(documents.c.last_chunk - documents.c.first_chunk + 1), 0)).where(
                    documents.c.status == "ready"
                )
            ).scalar_one()
        yield Finding("database", integrity == "ok", integrity, "restore a backup with `refdesk restore FILE`")
        yield Finding(
            "chunks",
            counts["chunks"] == expected,
            f"{counts['chunks']} chunks stored, {expected} belong to documents that are ready",
            "add the documents again",
        )
        truth = set(self._all_ids())
        waiting = {i for first, last in self._catalogue.dropped() for i in range(first, last + 1)}
        lexical = self._index.lexical_index.ids() - waiting
        yield Finding(
            "BM25 index",
            lexical == truth,
            f"{len(lexical)} chunks, {len(truth - lexical)} missing, {len(lexical - truth)} too many",
            "run `refdesk reindex`",
        )
        is_current = self._index.lexical_index.has_current_terms
        yield Finding(
            "BM25 terms",
            is_current,
            "made as this version makes them" if is_current else "made by an earlier version, which finds less",
            "run `refdesk reindex`",
        )
        yield Finding(
            "vectors",
            counts["vectors"] == len(truth) == len(self._index.vectors),
            f"{counts['vectors']} stored, {len(self._index.vectors)} searchable ({standing.space or 'no model yet'})",
            "run `refdesk reindex`",
        )

    def _all_ids(self) -> Iterator[int]:
        with self._engine.connect() as connection:
            yield from connection.exec_driver_sql("SELECT id FROM chunks").scalars()


def _batches(items: Iterator[_T], size: int) -> Iterator[list[_T]]:
    while batch := list(islice(items, size)):
        yield batch
