"""Keeps the derived indexes right: compacts them, rebuilds them from the store, checks them against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from refdesk.disk import damage
from refdesk.ports import Embedder
from refdesk.records import Damage, LexicalEntry
from refdesk.store_ports import ChunkStore, Files, IndexWriter, Jobs, LibraryWriter
from refdesk.types import Finding

_NAMED = 3  # files that a sentence names; the others are counted
_BATCH = 512
_T = TypeVar("_T")

Report = Callable[[int, int], None]  # done, in all


class Maintenance:
    """Work on the whole library; each method holds the writer's lock."""

    def __init__(self, chunks: ChunkStore, index: IndexWriter, writer: LibraryWriter, files: Files) -> None:
        self._chunks, self._index, self._writer, self._files = chunks, index, writer, files

    def compact(self, *, force: bool = False) -> bool:
        """Writes the vectors anew when much has come, or gone, since they were written last."""
        self._index.refresh()
        gone = sum(last - first + 1 for first, last in self._chunks.dropped())
        if not (force or self._index.needs_compaction(gone)):
            return False
        with self._writer.locked():
            self._index.compact(self._index.refresh())
            self._writer.begin_epoch()
            self._index.remove_old(self._index.refresh())
        return True

    def rebuild(self, embedder: Embedder, report: Report = lambda done, total: None) -> int:
        """Builds every index anew from the store, with new vectors when the embedder is another one; gives the chunks.

        Searches use the old ones until the new ones are complete.
        """
        with self._writer.locked(repair=False):  # the index to repair may be the one that is damaged
            total = self._chunks.counts(embedder.name)["chunks"]
            if self._chunks.state().space not in ("", embedder.name):
                self._embed_anew(embedder, total, report)
            state = self._chunks.state()
            self._index.rebuild(state.lexical + 1, self._entries(total, report))
            self._index.forget_vectors(state)
            self._writer.switch_index(embedder.name, state.lexical + 1)
            self.compact(force=True)
            self._writer.clear_unused()
        return total

    def _entries(self, total: int, report: Report) -> Iterator[list[LexicalEntry]]:
        done = 0
        for batch in _batches(self._chunks.entries_after(0), _BATCH * 8):
            yield batch
            done += len(batch)
            report(done, total)

    def _embed_anew(self, embedder: Embedder, total: int, report: Report) -> None:
        done = 0
        for batch in _batches(self._chunks.all_chunks(), _BATCH):
            chunks = [chunk for _, chunk in batch]
            self._writer.put_vectors(embedder.name, chunks, embedder.embed_chunks(chunks))
            done += len(batch)
            report(done, total)

    def check(self) -> list[Finding]:
        """Compares the indexes with the store, while nobody changes either."""
        with self._writer.locked(repair=False):
            return list(self._findings())

    def check_files(self, jobs: Jobs) -> list[Finding]:
        """Compares originals and uploads with their hashes; reads all of them, and nobody waits for it."""
        damaged = damaged_originals(self._chunks, self._files)
        if damaged:  # one that was replaced or removed meanwhile is no damage
            with self._writer.locked(repair=False):
                damaged = damaged_originals(self._chunks, self._files)
        return [
            _finding("originals", damaged, "add those files again, or restore a backup with `refdesk restore FILE`"),
            _finding("uploads", damaged_uploads(jobs, self._files), "upload those files again"),
        ]

    def _findings(self) -> Iterator[Finding]:
        state = self._index.refresh()
        counts = self._chunks.counts(state.space)
        integrity, expected, truth = self._chunks.integrity()
        yield Finding("database", integrity == "ok", integrity, "restore a backup with `refdesk restore FILE`")
        yield Finding(
            "chunks",
            counts["chunks"] == expected,
            f"{counts['chunks']} chunks stored, {expected} belong to documents that are ready",
            "add the documents again",
        )
        waiting = {i for first, last in self._chunks.dropped() for i in range(first, last + 1)}
        content = self._index.content()
        lexical = content.lexical_ids - waiting
        yield Finding(
            "BM25 index",
            lexical == truth,
            f"{len(lexical)} chunks, {len(truth - lexical)} missing, {len(lexical - truth)} too many",
            "run `refdesk reindex`",
        )
        yield Finding(
            "tables",
            state.has_tables,
            "kept as cells" if state.has_tables else "some documents were added by an earlier version, which kept none",
            "run `refdesk reindex`",
        )
        is_current = content.has_current_terms
        yield Finding(
            "BM25 terms",
            is_current,
            "made as this version makes them" if is_current else "made by an earlier version, which finds less",
            "run `refdesk reindex`",
        )
        yield Finding(
            "vectors",
            counts["vectors"] == len(truth) == content.vector_count,
            f"{counts['vectors']} stored, {content.vector_count} searchable ({state.space or 'no model yet'})",
            "run `refdesk reindex`",
        )


def damaged_originals(chunks: ChunkStore, files: Files) -> list[Damage]:
    """Of documents and of the pictures cut out of them; a text that a program added has no original."""
    found = [(name, files.damage(content_hash)) for content_hash, name in chunks.wanted_files().items()]
    return [Damage(name, what) for name, what in found if what]


def damaged_uploads(jobs: Jobs, files: Files) -> list[Damage]:
    """Those that wait to be added, or may be tried again, and cannot be."""
    waiting = [job for job in jobs.all().values() if job.status != "ready"]
    found = [(job, damage(files.staged(job.id), job.content_hash)) for job in waiting]
    left = jobs.all()  # one that was added meanwhile is no damage
    return [Damage(job.name, what) for job, what in found if what and left.get(job.id, job).status == job.status]


def _finding(title: str, damaged: Sequence[Damage], advice: str) -> Finding:
    sentences = [f"{one.name} is {one.what}" for one in damaged[:_NAMED]]
    if len(damaged) > _NAMED:
        sentences.append(f"{len(damaged) - _NAMED} more")
    return Finding(title, not damaged, "; ".join(sentences) or "all there and unaltered", advice)


def _batches(items: Iterator[_T], size: int) -> Iterator[list[_T]]:
    while batch := list(islice(items, size)):
        yield batch
