"""The `Index` port on local files: tantivy for terms, usearch for vectors, checked against SQL at every search.

Several processes may read while one writes. Each search first asks SQL for the library's generation; when that has
risen, the new chunks are read in and the deleted ones are left out from then on. What came last is a tail in memory,
searched exactly beside the files: a commit of tantivy costs more than all the rest of adding a text, so that a writer
folds the tail into the files a hundred chunks at a time.

Nearest vectors come from an HNSW snapshot on disk for the many, and an exact scan in memory for what came after it. A
snapshot is a folder of three files: the graph over int8 vectors, which proposes, and the ids and float16 vectors in
ascending order of id, which give the true cosines and serve filtered scans. It is written whole and never changed;
vectors added since are read from SQL, so a crash can lose nothing.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray
from usearch.index import Index as Graph
from usearch.index import search as exact_search

from refdesk.config import FILE, close_to_others, make_folder
from refdesk.errors import DiskFull
from refdesk.index.lexical import Corpus, Factors, LexicalIndex, Postings, inverse_frequency
from refdesk.ports import Embedder, Scored
from refdesk.records import LexicalEntry, LibraryState
from refdesk.store_ports import NO_VECTORS, ChunkStore, IndexContent
from refdesk.types import Range, Scope

# --- nearest vectors --------------------------------------------------------------------------------------------------

EXACT_BELOW = 2_000  # chunks; a scan of so many takes 0.1 ms, as long as the graph takes over ten times as many
SCANNED_AT_MOST = 20_000  # chunks that a filter leaves; of more the graph finds them sooner
CONNECTIVITY = 16
EXPANSION_ADD = 128
EXPANSION_SEARCH = 64  # recall@20 .961 on 47k chunks of real text; .979 at 96 for 0.1 ms more (docs/log.md)
GRAPH = "graph.usearch"
_STEP = 8192  # rows gathered at a time when scanning a snapshot

Ids = NDArray[np.int64]
Matrix = NDArray[np.float32]
_NO_RANGES: Ids = np.zeros((0, 2), dtype=np.int64)


class VectorIndex:
    """The vectors of one embedder as one process sees them."""

    def __init__(self, dimensions: int, snapshot: Path | None = None) -> None:
        self.dimensions = dimensions
        self._graph: Graph | None = None
        self._ids: Ids = np.zeros(0, dtype=np.int64)
        self._vectors: NDArray[np.float16] = np.zeros((0, dimensions), dtype=np.float16)
        self._tail_ids: Ids = np.zeros(0, dtype=np.int64)
        self._tail: Matrix = np.zeros((0, dimensions), dtype=np.float32)
        self._tail_length = 0
        self._dropped = _NO_RANGES
        self._snapshot = snapshot
        if snapshot is not None:
            graph = Graph.restore(str(snapshot / GRAPH), view=True)
            # As plain arrays: each index into numpy's memmap class costs 9 µs, and a search makes five.
            self._ids = np.load(snapshot / "ids.npy", mmap_mode="r").view(np.ndarray)
            self._vectors = np.load(snapshot / "vectors.npy", mmap_mode="r").view(np.ndarray)
            if graph is None or len(graph) != len(self._ids) or self._vectors.shape != (len(self._ids), dimensions):
                raise ValueError(f"the snapshot {snapshot} is damaged")
            self._graph = graph
            self._graph.expansion_search = EXPANSION_SEARCH

    @property
    def last_id(self) -> int:
        if self._tail_length:
            return int(self._tail_ids[self._tail_length - 1])
        return int(self._ids[-1]) if len(self._ids) else 0

    @property
    def tail_length(self) -> int:
        return self._tail_length

    def __len__(self) -> int:
        both = (self._ids, self._tail_ids[: self._tail_length])
        firsts, lasts = self._dropped[:, 0], self._dropped[:, 1]
        gone = [np.searchsorted(ids, lasts, "right") - np.searchsorted(ids, firsts, "left") for ids in both]
        return sum(map(len, both)) - int(sum(ids.sum() for ids in gone))

    def append(self, ids: Ids, vectors: Matrix) -> None:
        """Adds vectors whose ids are greater than all before."""
        length = self._tail_length + len(ids)
        if length > len(self._tail_ids):
            capacity = max(1024, length, 2 * len(self._tail_ids))
            grown_ids = np.zeros(capacity, dtype=np.int64)
            grown = np.zeros((capacity, self.dimensions), dtype=np.float32)
            grown_ids[: self._tail_length] = self._tail_ids[: self._tail_length]
            grown[: self._tail_length] = self._tail[: self._tail_length]
            self._tail_ids, self._tail = grown_ids, grown
        self._tail_ids[self._tail_length : length] = ids
        self._tail[self._tail_length : length] = vectors
        self._tail_length = length

    def drop(self, ranges: Sequence[Range]) -> None:
        """From now on these ranges of ids do not exist."""
        self._dropped = np.array(sorted(ranges), dtype=np.int64).reshape(-1, 2)

    # searching

    def search(self, vector: Matrix, k: int, allowed: Ids | None) -> list[Scored]:
        """The k nearest, best first; only ids in `allowed` (ascending) when it is given."""
        if k < 1:
            return []
        if allowed is None:
            found = self._graph_search(vector, k, None) + self._tail_search(vector, k)
        elif len(allowed) <= SCANNED_AT_MOST:
            found = self._exact(vector, allowed, k)
        else:
            tail = allowed[np.searchsorted(allowed, self._ids[-1], side="right") :] if len(self._ids) else allowed
            found = self._graph_search(vector, k, allowed) + self._exact(vector, tail, k)
        found.sort(key=lambda pair: (-pair[1], pair[0]))
        return found[:k]

    def cosines(self, vector: Matrix, ids: Sequence[int]) -> dict[int, float]:
        wanted = np.array(sorted(set(ids)), dtype=np.int64)  # np.unique loads masked arrays: 7 ms of the first search
        return {int(i): float(s) for i, s in zip(*self._scores(vector, wanted), strict=True)}

    def _graph_search(self, vector: Matrix, k: int, allowed: Ids | None) -> list[Scored]:
        if self._graph is None or not len(self._ids):
            return []
        depth = k + k // 3  # some more, since int8 may swap neighbours; true cosines put them right
        if allowed is not None:
            # As many as are needed for k of them to be allowed on average, and a half more.
            depth += int(1.5 * k * len(self._ids) / max(1, len(allowed)))
        while True:
            depth = min(depth, len(self._ids))
            self._graph.expansion_search = max(EXPANSION_SEARCH, depth)
            ids = np.asarray(self._graph.search(vector, depth).keys, dtype=np.int64)
            keep = ~self._is_dropped(ids)
            if allowed is not None:
                places = np.minimum(np.searchsorted(allowed, ids), len(allowed) - 1)
                keep &= allowed[places] == ids
            kept = ids[keep]
            if len(kept) >= k or depth == len(self._ids):
                return self._scan(vector, np.sort(kept), k)
            depth *= 4

    def _tail_search(self, vector: Matrix, k: int) -> list[Scored]:
        length = self._tail_length
        if not length:
            return []
        ids = self._tail_ids[:length]
        scores = np.vecdot(self._tail[:length], vector)  # `@` would wake the threads of BLAS, which spin for a while
        if len(self._dropped):
            keep = ~self._is_dropped(ids)
            ids, scores = ids[keep], scores[keep]
        return _best(ids, scores, k)

    def _exact(self, vector: Matrix, ids: Ids, k: int) -> list[Scored]:
        """The best of these ids (ascending), each looked at."""
        if len(self._dropped):
            ids = ids[~self._is_dropped(ids)]
        split = int(np.searchsorted(ids, self._ids[-1], side="right")) if len(self._ids) else 0
        return self._scan(vector, ids[:split], k) + _best(*self._scores(vector, ids[split:]), k)

    def _scan(self, vector: Matrix, ids: Ids, k: int) -> list[Scored]:
        """In the snapshot. usearch multiplies float16 as it is, five times faster than numpy, which must widen it."""
        rows = np.searchsorted(self._ids, ids)
        rows = rows[self._ids[np.minimum(rows, len(self._ids) - 1)] == ids] if len(ids) else rows
        if not len(rows):
            return []
        k = min(k, len(rows))
        matches = exact_search(
            np.ascontiguousarray(self._vectors[rows]), vector.astype(np.float16), k, "cos", exact=True, threads=1
        )
        found = self._ids[rows[np.asarray(matches.keys, dtype=np.int64)]]
        return [(int(i), 1.0 - float(d)) for i, d in zip(found, matches.distances, strict=True)]

    def _scores(self, vector: Matrix, ids: Ids) -> tuple[Ids, Matrix]:
        """Ids (ascending) that exist, and their cosines."""
        if len(self._dropped):
            ids = ids[~self._is_dropped(ids)]
        found_ids, found_scores = [], []
        tail_ids = self._tail_ids[: self._tail_length]
        for known, matrix in ((self._ids, self._vectors), (tail_ids, self._tail)):
            if not len(known) or not len(ids):
                continue
            rows = np.minimum(np.searchsorted(known, ids), len(known) - 1)
            there = known[rows] == ids
            rows = rows[there]
            scores = np.empty(len(rows), dtype=np.float32)
            for start in range(0, len(rows), _STEP):  # bounded memory, and float16 is widened in the cache
                step = rows[start : start + _STEP]
                scores[start : start + len(step)] = np.vecdot(np.asarray(matrix[step], dtype=np.float32), vector)
            found_ids.append(ids[there])
            found_scores.append(scores)
        if not found_ids:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        return np.concatenate(found_ids), np.concatenate(found_scores)

    def _is_dropped(self, ids: Ids) -> NDArray[np.bool_]:
        dropped = self._dropped
        if not len(dropped):
            return np.zeros(len(ids), dtype=np.bool_)
        place = np.searchsorted(dropped[:, 0], ids, side="right") - 1
        is_dropped: NDArray[np.bool_] = (place >= 0) & (ids <= dropped[np.maximum(place, 0), 1])
        return is_dropped

    # writing a snapshot

    def write_snapshot(self, folder: Path) -> int:
        """Writes all that exists here into a new folder, in one step; gives the number of vectors."""
        keep = ~self._is_dropped(self._ids)
        tail_keep = ~self._is_dropped(self._tail_ids[: self._tail_length])
        new_ids = self._tail_ids[: self._tail_length][tail_keep]
        new_vectors = self._tail[: self._tail_length][tail_keep].astype(np.float16)
        ids = np.concatenate([self._ids[keep], new_ids])
        vectors = np.concatenate([self._vectors[keep], new_vectors])
        graph = Graph(
            ndim=self.dimensions, metric="cos", dtype="i8", connectivity=CONNECTIVITY, expansion_add=EXPANSION_ADD
        )
        if self._snapshot is not None and np.count_nonzero(keep) > len(new_ids):
            graph.load(str(self._snapshot / GRAPH))
            for dead in self._ids[~keep]:
                graph.remove(int(dead))
            graph.add(new_ids.astype(np.uint64), new_vectors)
        else:
            graph.add(ids.astype(np.uint64), vectors)
        building = folder.with_name(folder.name + ".building")
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(parents=True)
        graph.save(str(building / GRAPH))
        np.save(building / "ids.npy", ids)
        np.save(building / "vectors.npy", vectors)
        for path in building.iterdir():
            _sync(path)
        building.rename(folder)
        _sync(folder.parent)
        return len(ids)


def _best(ids: Ids, scores: Matrix, k: int) -> list[Scored]:
    if len(scores) > k:
        top = np.argpartition(-scores, k - 1)[:k]
        ids, scores = ids[top], scores[top]
    return [(int(i), float(s)) for i, s in zip(ids, scores, strict=True)]


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# --- the port ---------------------------------------------------------------------------------------------------------

FREQUENCIES_KEPT = 20_000  # counting a frequent word in a part of 200,000 chunks takes 2 ms
RECOUNTED = 0.01  # share of the chunks that has to come or go before the most frequent language is looked for again
TAIL_LIMIT = 2048  # vectors scanned exactly beside a snapshot: 0.1 ms; more make a new snapshot worth its second
TAIL_SHARE = 0.025  # of a large library: writing a million vectors anew is worth it every 25,000
DROPPED_LIMIT = 0.2  # share of deleted vectors at which a new snapshot is made
UNFOLDED_LIMIT = 128  # chunks whose terms are in memory alone: a new process takes 25 ms to read so many
UNFOLDED_SHARE = 0.01  # of the chunks: the mean length in tantivy's files, which its scores go by, stays right to .5 %
SCOPES_KEPT = 64  # sets of allowed chunk ids remembered for one generation


class LocalIndex:
    """What one process sees of the index files of a library."""

    keeps_vectors = False  # they are read from the store

    def __init__(self, folder: Path, chunks: ChunkStore, embedder: Embedder) -> None:
        self.folder = folder
        self._embedder = embedder  # only asked when vectors are needed: it may be a server far away
        self._lexical: LexicalIndex | None = None
        self._chunks = chunks
        self._lock = threading.Lock()
        self._state = LibraryState(generation=-1)
        self._vectors: VectorIndex | None = None
        self._tail = Postings()
        self._corpus: tuple[int, float] = (0, 0.0)  # chunks and their mean length, as tantivy scores with them
        self._unpurged: list[Range] = []
        self._allowed: OrderedDict[Scope, NDArray[np.int64]] = OrderedDict()
        self._frequencies: dict[tuple[str, Scope], int] = {}
        self.languages: tuple[str, ...] = ()
        self._counted = 0  # chunks when the languages were counted
        self.unfolded_share = UNFOLDED_SHARE

    def refresh(self) -> LibraryState:
        state = self._chunks.state()
        if state == self._state:
            return state
        with self._lock:
            state = self._chunks.state()
            if state == self._state:
                return state  # another thread has been faster
            # What is dropped is asked first: what took its place is then surely in what is read after. The other way
            # round, a document replaced in between would be seen neither old nor new.
            dropped = self._chunks.dropped()
            unpurged = self._chunks.dropped(unpurged=True)
            # The lexical index is committed before SQL says that chunks are folded into it, so it is never behind.
            lexical = self._open_lexical(state)
            lexical.reload()
            self._read_tail(lexical, state, dropped)
            same_files = (state.epoch, state.embedder) == (self._state.epoch, self._state.embedder)
            vectors = self._vectors if self._vectors is not None and same_files else self._open_vectors(state)
            ids, matrix = self._chunks.vectors_after(self._embedder.name, vectors.last_id, vectors.dimensions)
            vectors.append(ids, matrix)
            vectors.drop(dropped)
            self._count_languages(lexical.count + len(self._tail.lengths))
            self._lexical, self._vectors, self._unpurged, self._state = lexical, vectors, unpurged, state
            self._allowed, self._frequencies = OrderedDict(), {}
        return state

    def _read_tail(self, lexical: LexicalIndex, state: LibraryState, dropped: Sequence[Range]) -> None:
        before = self._state
        same = (state.epoch, state.lexical, state.folded) == (before.epoch, before.lexical, before.folded)
        # Another one, not this one emptied: a search that is under way goes on with what it began with.
        tail = self._tail if same else Postings(state.folded)
        tail.add(self._chunks.entries_after(tail.last_id))
        tail.drop(dropped)
        self._corpus = lexical.statistics(tail.terms)
        self._tail = tail

    def _count_languages(self, count: int) -> None:
        if abs(count - self._counted) > RECOUNTED * self._counted or self._chunks.spoken() != set(self.languages):
            self.languages, self._counted = self._chunks.languages(), count

    def _open_lexical(self, state: LibraryState) -> LexicalIndex:
        if self._lexical is not None and self._lexical.folder == self.lexical_folder(state.lexical):
            return self._lexical
        if state.generation:
            return LexicalIndex(self.lexical_folder(state.lexical), create=False)
        make_folder(self.folder)
        with FileLock(str(self.folder / "creating.lock"), mode=FILE):  # one process makes it, the others find it made
            made = LexicalIndex(self.lexical_folder(state.lexical), create=True)
            close_to_others(self.folder)
            return made

    def _open_vectors(self, state: LibraryState) -> VectorIndex:
        try:
            return VectorIndex(self._embedder.dimensions, self.snapshot_folder(state))
        except (OSError, ValueError, RuntimeError):  # a damaged snapshot: SQL holds every vector, and gives them
            return VectorIndex(self._embedder.dimensions)

    def lexical_folder(self, number: int) -> Path:
        return self.folder / f"lexical-{number}"

    def _snapshot(self, epoch: int) -> Path:
        return self.folder / f"vectors-{epoch}"

    def snapshot_folder(self, state: LibraryState) -> Path | None:
        """The newest snapshot of the vectors, None when there is none (yet, or any more: SQL holds them all)."""
        folder = self._snapshot(state.epoch)
        is_ours = state.embedder == self._embedder.name  # vectors of another embedder are no use to this one
        return folder if is_ours and (folder / "vectors.npy").is_file() else None

    @property
    def vectors(self) -> VectorIndex:
        if self._vectors is None:
            self.refresh()
        assert self._vectors is not None
        return self._vectors

    @property
    def lexical_index(self) -> LexicalIndex:
        if self._lexical is None:
            self.refresh()
        assert self._lexical is not None
        return self._lexical

    # writing, under the library's lock

    @property
    def tail_room(self) -> int:
        return min(UNFOLDED_LIMIT, int(self.unfolded_share * self.lexical_index.count))

    def write(
        self,
        entries: Iterable[LexicalEntry],
        drop: Sequence[Range] = (),
        *,
        vectors: Mapping[int, NDArray[np.float32]] = NO_VECTORS,
        within: Any = None,
    ) -> None:
        try:
            self.lexical_index.write(entries, drop)
            self.lexical_index.merge()
        finally:
            close_to_others(self.folder)  # tantivy and usearch make their files for everybody

    def needs_compaction(self, dropped: int) -> bool:
        count = len(self.vectors)
        many_dropped = dropped > max(EXACT_BELOW // 4, DROPPED_LIMIT * count)
        long_tail = self.vectors.tail_length > max(TAIL_LIMIT, TAIL_SHARE * count)
        return many_dropped or (count > EXACT_BELOW and long_tail)

    def compact(self, state: LibraryState) -> None:
        """A new snapshot of the vectors; a small library has none."""
        if len(self.vectors) <= EXACT_BELOW:
            return
        folder = self._snapshot(state.epoch + 1)
        shutil.rmtree(folder, ignore_errors=True)  # of a killed attempt
        try:
            self.vectors.write_snapshot(folder)
        except RuntimeError as error:  # what usearch raises for everything; by far the largest of files finds no room
            raise DiskFull(f"the vectors cannot be written to the disk of {folder.parent}: {error}") from error
        finally:
            close_to_others(self.folder)

    def remove_old(self, state: LibraryState) -> None:
        """Leaves the snapshot before this state's, which a reader may be opening at this moment."""
        for folder in self.folder.glob("vectors-*"):
            number = folder.name.removeprefix("vectors-")
            if not number.isdigit() or int(number) < state.epoch - 1:
                shutil.rmtree(folder, ignore_errors=True)
        for folder in self.folder.glob("lexical-*"):
            if folder != self.lexical_folder(state.lexical):
                shutil.rmtree(folder, ignore_errors=True)

    def rebuild(self, number: int, batches: Iterable[Sequence[LexicalEntry]]) -> None:
        folder = self.lexical_folder(number)
        shutil.rmtree(folder, ignore_errors=True)  # of a killed attempt
        lexical = LexicalIndex(folder, create=True)
        for batch in batches:
            lexical.write(batch)
        lexical.merge()
        close_to_others(self.folder)

    def forget_vectors(self, state: LibraryState) -> None:
        # No snapshot may carry the next epoch's name, not even of a killed attempt: its vectors would be taken for
        # new ones. Without one they are read from SQL, and then written anew.
        shutil.rmtree(self._snapshot(state.epoch + 1), ignore_errors=True)

    def content(self) -> IndexContent:
        lexical, tail = self.lexical_index, self._tail
        ids = {chunk_id for chunk_id in lexical.ids() if chunk_id <= tail.after} | tail.lengths.keys()
        return IndexContent(frozenset(ids), len(self.vectors), lexical.has_current_terms)

    # searching

    def lexical(self, terms: Sequence[str], k: int, scope: Scope) -> list[Scored]:
        lexical, tail = self.lexical_index, self._tail
        factors, depth = self._factors(terms), k
        while True:
            found = lexical.search(terms, depth, scope, factors)
            kept = [scored for scored in found if self._is_current(scored[0], tail)]
            if len(kept) >= k or len(found) < depth:
                break
            depth *= 4
        if tail.lengths:
            kept += tail.scores(terms, self._all_chunks(tail), self._in_tail(scope)).items()
            kept.sort(key=lambda scored: -round(scored[1], 4))  # tantivy counts in 32 bits; of equals the older first
        return kept[:k]

    def _is_current(self, chunk_id: int, tail: Postings) -> bool:
        """Whether it is still there, and not in the tail too: a writer is at work, or was killed."""
        return chunk_id <= tail.after and not any(first <= chunk_id <= last for first, last in self._unpurged)

    def _all_chunks(self, tail: Postings) -> Corpus:
        count, mean = self._corpus
        if not count:
            return tail.corpus()
        return Corpus(count + len(tail.lengths), mean, lambda term: self.frequency(term, Scope()))

    def _factors(self, terms: Sequence[str]) -> Factors:
        """tantivy counts the chunks in its own files: with those of the tail, rare words are more, or less, rare."""
        tail, count = self._tail, self._corpus[0]
        if not tail.lengths or not count:
            return {}
        corpus, alone = self._all_chunks(tail), self.lexical_index.frequency
        return {term: corpus.idf(term) / inverse_frequency(count, alone(term)) for term in set(terms)}

    def _in_tail(self, scope: Scope) -> set[int] | None:
        """Those of the tail that are in scope; None: all of them."""
        if scope.is_open:
            return None
        allowed = self._allowed_ids(scope)
        return set(allowed[np.searchsorted(allowed, self._tail.after, side="right") :].tolist())

    def dense(self, vector: NDArray[np.float32], k: int, scope: Scope) -> list[Scored]:
        return self.vectors.search(vector, k, None if scope.is_open else self._allowed_ids(scope))

    def resembling(
        self, terms: Sequence[str], distance: int, k: int, scope: Scope, without: Collection[str] = ()
    ) -> list[int]:
        tail = self._tail
        found = self.lexical_index.resembling(terms, distance, k, scope, without)
        kept = [chunk_id for chunk_id in found if self._is_current(chunk_id, tail)]
        late = tail.resembling(terms, distance, without, self._in_tail(scope)) if tail.lengths else []
        return [*kept, *late][:k]

    def lexical_scores(self, terms: Sequence[str], chunk_ids: Sequence[int]) -> dict[int, float]:
        tail = self._tail
        scores = self.lexical_index.scores(terms, chunk_ids, self._factors(terms))
        if tail.lengths:
            scores |= tail.scores(terms, self._all_chunks(tail), set(chunk_ids))
        return scores

    def cosines(self, vector: NDArray[np.float32], chunk_ids: Sequence[int]) -> dict[int, float]:
        return self.vectors.cosines(vector, chunk_ids)

    def count(self, scope: Scope) -> int:
        return self.lexical_index.count + len(self._tail.lengths) if scope.is_open else len(self._allowed_ids(scope))

    def frequency(self, term: str, scope: Scope) -> int:
        if scope.is_open:
            return self.lexical_index.frequency(term) + self._tail.frequency(term)
        remembered = self._frequencies  # replaced, never emptied, when the generation changes
        found = remembered.get((term, scope))
        if found is None:
            if len(remembered) >= FREQUENCIES_KEPT:
                remembered = self._frequencies = {}
            found = self.lexical_index.frequency(term, scope) + self._tail.frequency(term, self._in_tail(scope))
            remembered[(term, scope)] = found
        return found

    def _allowed_ids(self, scope: Scope) -> NDArray[np.int64]:
        remembered = self._allowed  # replaced, never emptied, when the generation changes
        ids = remembered.get(scope)
        if ids is None:
            ids = self._chunks.chunk_ids(scope)
            remembered[scope] = ids
            while len(remembered) > SCOPES_KEPT:
                remembered.popitem(last=False)
        return ids
