"""Nearest vectors: an HNSW snapshot on disk for the many, an exact scan in memory for what came after it.

A snapshot is a folder of three files: the graph over int8 vectors, which proposes, and the ids and float16 vectors in
ascending order of id, which give the true cosines and serve filtered scans. It is written whole and never changed;
vectors added since are read from SQL, so a crash can lose nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from usearch.index import Index as Graph
from usearch.index import search as exact_search

from refdesk.ports import Scored
from refdesk.types import Range

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
    """The vectors of one space as one process sees them."""

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
        return sum(map(len, both)) - int(sum(one.sum() for one in gone))

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
        wanted = np.unique(np.asarray(ids, dtype=np.int64))
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
        held: NDArray[np.bool_] = (place >= 0) & (ids <= dropped[np.maximum(place, 0), 1])
        return held

    # writing a snapshot

    def write_snapshot(self, folder: Path, threads: int = 0) -> int:
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
            graph.add(new_ids.astype(np.uint64), new_vectors, threads=threads)
        else:
            graph.add(ids.astype(np.uint64), vectors, threads=threads)
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
