"""Token vectors for late interaction: one per token of every chunk, and scoring of a question against them.

Derived from the store and rebuilt from it: `sync` embeds the chunks that are new and lets go those that are gone. The
vectors, of one layer of a model or of several side by side, are reduced by their principal components and kept as int8
in files that are mapped, not read:

    tokens-7/vectors.npy   (tokens, layers, 64) int8   tokens-7/ids.npy   the token of each
    tokens-7/chunks.npy    (chunks, 2): chunk id and its first token      tokens-7/projection.npy, model.json
"""

from __future__ import annotations

import json
import math
import os
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refdesk.config import make_folder
from refdesk.ports import TokenEmbedder
from refdesk.store_ports import WHOLE_LIBRARY, ChunkStore
from refdesk.types import UNIT

DIMENSIONS = 64  # of what is kept of a layer: 64 of 384 lose .002 nDCG@10 in the mean of six sets
# By which a cosine counts where a model has not learned to compare tokens: a word that is met half is not met. nDCG@10
# over hybrid in the mean of six sets: 2 +.006, 3 +.011, 4 +.012, 5 +.012, 6 +.010; of hotpot_train100, whose questions
# no passage alone meets: -.018, -.008, -.003, -.004, -.002, and 4 loses .008 where the weight is a quarter more.
SHARPNESS = 5
SAMPLE = 400  # chunks from which the principal components are taken
AT_A_TIME = 16  # tokens of a question that are compared with a chunk: for more BLAS would wake a second thread
AT_ONCE = 256  # chunks embedded between two reports

Vectors = NDArray[np.int8]


class TokenArrays(NamedTuple):
    """What is written down, a file for each."""

    vectors: Vectors
    ids: NDArray[np.int32]
    chunks: NDArray[np.int64]
    projection: NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class StoredTokens:
    """What is kept of a library's tokens; `places` are the rows of each chunk."""

    model: str
    vectors: Vectors
    ids: NDArray[np.int32]
    places: dict[int, tuple[int, int]]
    projection: NDArray[np.float32]  # (layers, 1 + width, 64): below the middle of a layer's vectors its directions
    weights: dict[int, float]  # of tokens, by in how many chunks they stand

    @property
    def nbytes(self) -> int:
        return self.vectors.nbytes + self.ids.nbytes + self.projection.nbytes


class MemoryTokens:
    """The `TokenVectors` port, in memory."""

    def __init__(self, chunks: ChunkStore, embedder: Callable[[], TokenEmbedder]) -> None:
        self._chunks = chunks
        self._embedder = embedder
        self._kept: StoredTokens | None = None

    @property
    def count(self) -> int:
        """How many chunks have their tokens kept."""
        kept = self._current()
        return len(kept.places) if kept else 0

    @property
    def nbytes(self) -> int:
        kept = self._current()
        return kept.nbytes if kept else 0

    def scores(self, text: str, chunk_ids: Sequence[int]) -> dict[int, float]:
        """How near the nearest token is, in the mean over the question's tokens weighted by their rarity (MaxSim)."""
        kept = self._current()
        if kept is None or not any(chunk_id in kept.places for chunk_id in chunk_ids):
            return {}
        embedder = self._embedder()
        ids, states = embedder.query_tokens(text)
        asked = reduced(states, kept.projection)
        rare = math.log(1.0 + 2.0 * len(kept.places))
        weights = np.array([kept.weights.get(int(token_id), rare) for token_id in ids], dtype=np.float32)
        weights /= float(weights.sum()) or 1.0
        sharpness = 1 if embedder.is_trained else SHARPNESS
        found = {}
        for chunk_id in chunk_ids:
            if chunk_id in kept.places:
                start, end = kept.places[chunk_id]
                nearest = _nearest(asked, kept.vectors[start:end].astype(np.float32)) / UNIT
                sharp = np.clip(nearest, 0.0, 1.0) ** sharpness
                found[chunk_id] = float(np.vecdot(weights, sharp.mean(axis=1)))
        return found

    def sync(self, report: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Embeds what is new and lets go what is gone; gives how many chunks were embedded. The caller keeps others
        from doing the same.
        """
        embedder, kept = self._embedder(), self._current()
        if kept is not None and kept.model != embedder.name:
            kept = None
        wanted = self._chunks.chunk_ids(WHOLE_LIBRARY).tolist()
        known = kept.places if kept else {}
        new = [chunk_id for chunk_id in wanted if chunk_id not in known]
        if kept is not None and not new and len(wanted) == len(known):
            return 0
        parts: list[tuple[int, NDArray[np.int32], Vectors]] = []
        projection = kept.projection if kept else None
        waiting: list[tuple[int, NDArray[np.int32], NDArray[np.float32]]] = []
        done = 0
        # A model computes on its caller's thread, so that each core takes a chunk of its own.
        with ThreadPoolExecutor(_cores(), thread_name_prefix="tokens") as pool:
            for some in [new[start : start + AT_ONCE] for start in range(0, len(new), AT_ONCE)]:
                found = self._chunks.hydrate(some, self._chunks.state().generation)
                states = pool.map(embedder.chunk_tokens, [chunk for chunk, _ in found.values()])
                waiting += [(chunk_id, *state) for chunk_id, state in zip(found, states, strict=True)]
                done += len(some)
                report(done, len(new))
                if projection is None and (len(waiting) >= SAMPLE or done == len(new)):
                    projection = components(
                        [states for _, _, states in waiting], embedder.layers, is_centred=not embedder.is_trained
                    )
                if projection is not None:
                    rows = pool.map(partial(packed, projection=projection), [states for _, _, states in waiting])
                    parts += [
                        (chunk_id, ids, vectors) for (chunk_id, ids, _), vectors in zip(waiting, rows, strict=True)
                    ]
                    waiting.clear()
        old = [(chunk_id, kept.ids[a:b], kept.vectors[a:b]) for chunk_id, (a, b) in known.items()] if kept else []
        still = set(wanted)
        self._keep(embedder.name, [part for part in (*old, *parts) if part[0] in still], projection)
        return len(new)

    def clear(self) -> None:
        """Lets all of them go."""
        self._kept = None

    def _keep(
        self,
        model: str,
        parts: Sequence[tuple[int, NDArray[np.int32], Vectors]],
        projection: NDArray[np.float32] | None,
    ) -> None:
        projection = projection if projection is not None else np.zeros((1, 2, 1), dtype=np.float32)
        empty = np.zeros((0, len(projection), projection.shape[2]), dtype=np.int8)
        vectors = np.concatenate([rows for _, _, rows in parts]) if parts else empty
        ids = np.concatenate([ids for _, ids, _ in parts]) if parts else np.zeros(0, dtype=np.int32)
        starts = np.cumsum([0, *(len(rows) for _, _, rows in parts)])
        chunks = np.array([(part[0], start) for part, start in zip(parts, starts, strict=False)], dtype=np.int64)
        self._store(model, TokenArrays(vectors, ids, chunks.reshape(-1, 2), projection))

    def _store(self, model: str, arrays: TokenArrays) -> None:
        self._kept = _made(model, arrays)

    def _current(self) -> StoredTokens | None:
        return self._kept


class FileTokens(MemoryTokens):
    """The same over memory-mapped files in a folder, which other processes read too."""

    def __init__(self, folder: Path, chunks: ChunkStore, embedder: Callable[[], TokenEmbedder]) -> None:
        super().__init__(chunks, embedder)
        self._folder = folder
        self._lock = threading.Lock()
        self._read: Path | None = None

    def clear(self) -> None:
        super().clear()
        if (before := self._newest()) is not None:
            shutil.rmtree(before, ignore_errors=True)

    def _store(self, model: str, arrays: TokenArrays) -> None:
        make_folder(self._folder)
        before = self._newest()
        number = int(before.name.rpartition("-")[2]) + 1 if before else 1
        unfinished = self._folder / f"unfinished-tokens-{number}"
        shutil.rmtree(unfinished, ignore_errors=True)
        make_folder(unfinished)
        for name, array in arrays._asdict().items():
            np.save(unfinished / f"{name}.npy", array)
        (unfinished / "model.json").write_text(json.dumps({"model": model}), encoding="utf-8")
        unfinished.rename(self._folder / f"tokens-{number}")
        if before is not None:  # who has it mapped reads on
            shutil.rmtree(before, ignore_errors=True)

    def _newest(self) -> Path | None:
        if not self._folder.is_dir():
            return None
        found = [path for path in self._folder.glob("tokens-*") if path.name.rpartition("-")[2].isdigit()]
        return max(found, key=lambda path: int(path.name.rpartition("-")[2]), default=None)

    def _current(self) -> StoredTokens | None:
        newest = self._newest()
        with self._lock:
            if newest != self._read:
                self._kept, self._read = (_opened(newest) if newest else None), newest
            return self._kept


def _cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _opened(folder: Path) -> StoredTokens | None:
    try:
        arrays = TokenArrays(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in TokenArrays._fields))
        model = json.loads((folder / "model.json").read_text(encoding="utf-8"))["model"]
    except (OSError, ValueError, KeyError):  # damaged, or gone this very moment: it can be made anew
        return None
    return _made(str(model), arrays._replace(projection=np.array(arrays.projection)))


def _made(model: str, arrays: TokenArrays) -> StoredTokens:
    ids, chunks = arrays.ids, arrays.chunks
    ends = [*chunks[1:, 1].tolist(), len(ids)] if len(chunks) else []
    places = {chunk_id: (start, end) for (chunk_id, start), end in zip(chunks.tolist(), ends, strict=True)}
    counts: dict[int, int] = {}
    for start, end in places.values():
        for token in np.unique(ids[start:end]).tolist():
            counts[token] = counts.get(token, 0) + 1
    total = len(places)
    weights = {token: math.log(1.0 + (total - count + 0.5) / (count + 0.5)) for token, count in counts.items()}
    return StoredTokens(model, arrays.vectors, ids, places, arrays.projection, weights)


def _nearest(asked: NDArray[np.float32], token_vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """(tokens of the question, layers): the largest product with a token of the chunk."""
    found = np.zeros(asked.shape[:2], dtype=np.float32)
    if len(token_vectors):
        for layer in range(asked.shape[1]):
            theirs = token_vectors[:, layer].T
            for start in range(0, len(asked), AT_A_TIME):
                part = slice(start, start + AT_A_TIME)
                found[part, layer] = (asked[part, layer] @ theirs).max(axis=1)
    return found


def components(
    states: Sequence[NDArray[np.float32]], layers: int = 1, *, is_centred: bool = True
) -> NDArray[np.float32]:
    """Of each layer the middle of its unit vectors and, below it as columns, the directions in which they differ most.

    The middle is nought where vectors are compared as they are.
    """
    rows = np.concatenate(states)
    found = []
    for layer in np.split(rows, layers, axis=1):
        units = layer / np.maximum(np.linalg.norm(layer, axis=1, keepdims=True), 1e-9)
        middle = units.mean(axis=0) * is_centred
        _, directions = np.linalg.eigh((units - middle).T @ (units - middle))
        chosen = directions[:, ::-1][:, :DIMENSIONS]
        found.append(np.concatenate([np.vecdot(middle, chosen.T)[None], chosen]))
    return np.stack(found).astype(np.float32)


def reduced(states: NDArray[np.float32], projection: NDArray[np.float32]) -> NDArray[np.float32]:
    """(tokens, layers, 64): unit vectors along the kept directions, from the middle of their layer."""
    layers = states.reshape(len(states), len(projection), -1)
    units = layers / np.maximum(np.linalg.norm(layers, axis=2, keepdims=True), 1e-9)
    found = np.einsum("tld,ldk->tlk", units, projection[:, 1:], optimize=False) - projection[:, 0]
    length: NDArray[np.float32] = np.maximum(np.linalg.norm(found, axis=2, keepdims=True), 1e-9)
    unit: NDArray[np.float32] = (found / length).astype(np.float32)
    return unit


def packed(states: NDArray[np.float32], projection: NDArray[np.float32]) -> Vectors:
    rows: Vectors = np.rint(reduced(states, projection) * UNIT).astype(np.int8)
    return rows
