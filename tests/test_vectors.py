"""The vector index against brute force: graph, tail, filters and deletions together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from refdesk.index.local import SCANNED_AT_MOST, VectorIndex

DIMENSIONS = 32
SNAPSHOT, TAIL = SCANNED_AT_MOST + 4_000, 600


@pytest.fixture(scope="module")
def matrix() -> np.ndarray:
    numbers = np.random.default_rng(5)
    centres = numbers.standard_normal((200, DIMENSIONS)).astype(np.float32)
    found = centres[numbers.integers(0, 200, SNAPSHOT + TAIL)] + 0.9 * numbers.standard_normal(
        (SNAPSHOT + TAIL, DIMENSIONS)
    ).astype(np.float32)
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def index(matrix: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> VectorIndex:
    """24,000 vectors in a snapshot, 600 after it; ids rise in steps of two, as deletions leave them."""
    folder: Path = tmp_path_factory.mktemp("vectors") / "vectors-1"
    ids = np.arange(1, 2 * (SNAPSHOT + TAIL), 2)
    first = VectorIndex(DIMENSIONS)
    first.append(ids[:SNAPSHOT], matrix[:SNAPSHOT])
    assert first.write_snapshot(folder) == SNAPSHOT
    found = VectorIndex(DIMENSIONS, folder)
    assert found.last_id == ids[SNAPSHOT - 1]
    found.append(ids[SNAPSHOT:], matrix[SNAPSHOT:])
    return found


def brute(matrix: np.ndarray, query: np.ndarray, rows: np.ndarray, k: int) -> list[int]:
    scores = matrix[rows] @ query
    return [int(2 * rows[place] + 1) for place in np.argsort(-scores)[:k]]


QUERIES = list(range(0, SNAPSHOT + TAIL, 1230))


def recall(index: VectorIndex, matrix: np.ndarray, rows: np.ndarray, allowed: np.ndarray | None, k: int = 10) -> float:
    shared = 0
    for query in QUERIES:
        found = index.search(matrix[query], k, allowed)
        assert len(found) == k
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        for i, score in found:
            assert score == pytest.approx(float(matrix[(i - 1) // 2] @ matrix[query]), abs=2e-3)
        shared += len({i for i, _ in found} & set(brute(matrix, matrix[query], rows, k)))
    return shared / (k * len(QUERIES))


def test_everything(index: VectorIndex, matrix: np.ndarray) -> None:
    index.drop([])
    assert len(index) == SNAPSHOT + TAIL
    assert recall(index, matrix, np.arange(SNAPSHOT + TAIL), None) >= 0.95


@pytest.mark.parametrize("share", [0.9, 0.5, 0.01], ids=["by_the_graph", "by_scanning_half", "by_scanning_few"])
def test_filtered(index: VectorIndex, matrix: np.ndarray, share: float) -> None:
    index.drop([])
    chosen = np.flatnonzero(np.random.default_rng(6).random(SNAPSHOT + TAIL) < share)
    allowed = 2 * chosen + 1
    for query in QUERIES:
        assert {i for i, _ in index.search(matrix[query], 10, allowed)} <= set(allowed.tolist())
    assert recall(index, matrix, chosen, allowed) >= 0.95


def test_dropped(index: VectorIndex, matrix: np.ndarray) -> None:
    """A third is gone, in ranges, in the snapshot as in the tail."""
    ranges = [(first, first + 400) for first in range(1, 2 * (SNAPSHOT + TAIL), 1200)]
    index.drop(ranges)
    rows = np.array([row for row in range(SNAPSHOT + TAIL) if not any(a <= 2 * row + 1 <= b for a, b in ranges)])
    assert len(index) == len(rows)
    assert recall(index, matrix, rows, None) >= 0.95
    assert index.cosines(matrix[0], [1]) == {}, "what is dropped has no score"


def test_a_snapshot_leaves_out_what_was_dropped(index: VectorIndex, matrix: np.ndarray, tmp_path: Path) -> None:
    index.drop([(1, 2001)])
    kept = index.write_snapshot(tmp_path / "vectors-2")
    assert kept == SNAPSHOT + TAIL - 1001
    again = VectorIndex(DIMENSIONS, tmp_path / "vectors-2")
    rows = np.arange(1001, SNAPSHOT + TAIL)
    assert recall(again, matrix, rows, None) >= 0.95


def test_few_allowed_fewer_than_k(index: VectorIndex, matrix: np.ndarray) -> None:
    index.drop([])
    last = 2 * (SNAPSHOT + TAIL) - 1
    assert {i for i, _ in index.search(matrix[3], 10, np.array([1, 5, last, last + 2]))} == {1, 5, last}
    assert index.search(matrix[3], 10, np.zeros(0, dtype=np.int64)) == []
    assert index.search(matrix[3], 0, None) == []


def test_an_empty_index() -> None:
    empty = VectorIndex(4)
    assert empty.search(np.ones(4, dtype=np.float32), 5, None) == []
    assert empty.search(np.ones(4, dtype=np.float32), 5, np.array([1, 2])) == []
    assert empty.cosines(np.ones(4, dtype=np.float32), [1]) == {}
    assert len(empty) == 0 and empty.last_id == 0


# Scans a tail and fetches cosines, as a search in a small library does; prints the CPU time of this thread, and of all.
ONE_THREAD = """
import time
import numpy as np
from refdesk.index.local import EXACT_BELOW, VectorIndex

numbers = np.random.default_rng(3)
matrix = numbers.standard_normal((20_000, 384)).astype(np.float32)
index = VectorIndex(384)
index.append(np.arange(1, 20_001), matrix)
few = range(1, 20_001, 250)
began = time.thread_time(), time.process_time()
for query in matrix[:100]:
    index.search(query, 20, None)
    index.cosines(query, few)
print(time.thread_time() - began[0], time.process_time() - began[1])
"""


def test_a_search_wakes_no_second_thread() -> None:
    """Threads of BLAS spin while they wait for work: the same search would cost two cores."""
    done = subprocess.run([sys.executable, "-c", ONE_THREAD], capture_output=True, encoding="utf-8", check=True)
    own, all_threads = map(float, done.stdout.split())
    assert all_threads <= 1.3 * own
