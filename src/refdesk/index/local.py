"""The `Index` port over local files: tantivy for terms, usearch for vectors, both checked against SQL at every search.

Several processes may read while one writes. Each search first asks SQL for the library's generation; when that has
risen, the new chunks are read in and the deleted ones are left out from then on.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from refdesk.files.local import FILE, close_to_others, make_folder
from refdesk.index.lexical import LexicalIndex
from refdesk.index.vectors import VectorIndex
from refdesk.ports import Embedder, Scored
from refdesk.store.documents import Catalogue, Standing
from refdesk.types import Range, Scope

FREQUENCIES_KEPT = 20_000  # counting a frequent word in a part of 200,000 chunks takes 2 ms
RECOUNTED = 0.01  # share of the chunks that has to come or go before the most frequent language is looked for again
SCOPES_KEPT = 64  # sets of allowed chunk ids remembered for one generation


class LocalIndex:
    """What one process sees of the index files of a library."""

    def __init__(self, folder: Path, catalogue: Catalogue, embedder: Embedder) -> None:
        self.folder = folder
        self._embedder = embedder  # only asked when vectors are needed: it may be a server far away
        self._lexical: LexicalIndex | None = None
        self._catalogue = catalogue
        self._lock = threading.Lock()
        self._standing = Standing(generation=-1)
        self._vectors: VectorIndex | None = None
        self._unpurged: list[Range] = []
        self._allowed: OrderedDict[Scope, NDArray[np.int64]] = OrderedDict()
        self._frequencies: dict[tuple[str, Scope], int] = {}
        self.languages: tuple[str, ...] = ()
        self._counted = 0  # chunks when the languages were counted

    def refresh(self) -> Standing:
        """Looks at the library as it is now; cheap when nothing has changed."""
        standing = self._catalogue.standing()
        if standing == self._standing:
            return standing
        with self._lock:
            standing = self._catalogue.standing()
            if standing == self._standing:
                return standing  # another thread has been faster
            # What is dropped is asked first: what took its place is then surely in what is read after. The other way
            # round, a document replaced in between would be seen neither old nor new.
            dropped = self._catalogue.dropped()
            unpurged = self._catalogue.dropped(unpurged=True)
            # The lexical index is committed before SQL makes its chunks visible, so it is never behind.
            lexical = self._open_lexical(standing)
            lexical.reload()
            same_files = (standing.epoch, standing.space) == (self._standing.epoch, self._standing.space)
            vectors = self._vectors if self._vectors is not None and same_files else self._open_vectors(standing)
            ids, matrix = self._catalogue.vectors_after(self._embedder.name, vectors.last_id, vectors.dimensions)
            vectors.append(ids, matrix)
            vectors.drop(dropped)
            self._count_languages(lexical.count)
            self._lexical, self._vectors, self._unpurged, self._standing = lexical, vectors, unpurged, standing
            self._allowed, self._frequencies = OrderedDict(), {}
        return standing

    def _count_languages(self, chunks: int) -> None:
        if abs(chunks - self._counted) > RECOUNTED * self._counted or self._catalogue.spoken() != set(self.languages):
            self.languages, self._counted = self._catalogue.languages(), chunks

    def _open_lexical(self, standing: Standing) -> LexicalIndex:
        if self._lexical is not None and self._lexical.folder == self.lexical_folder(standing.lexical):
            return self._lexical
        if standing.generation:
            return LexicalIndex(self.lexical_folder(standing.lexical), create=False)
        make_folder(self.folder)
        with FileLock(str(self.folder / "creating.lock"), mode=FILE):  # one process makes it, the others find it made
            made = LexicalIndex(self.lexical_folder(standing.lexical), create=True)
            close_to_others(self.folder)
            return made

    def _open_vectors(self, standing: Standing) -> VectorIndex:
        try:
            return VectorIndex(self._embedder.dimensions, self.snapshot_folder(standing))
        except (OSError, ValueError, RuntimeError):  # a damaged snapshot: SQL holds every vector, and gives them
            return VectorIndex(self._embedder.dimensions)

    def lexical_folder(self, number: int) -> Path:
        return self.folder / f"lexical-{number}"

    def snapshot_folder(self, standing: Standing) -> Path | None:
        """The newest snapshot of the vectors, None when there is none (yet, or any more: SQL holds them all)."""
        folder = self.folder / f"vectors-{standing.epoch}"
        is_ours = standing.space == self._embedder.name  # vectors of another embedder are no use to this one
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

    # the port

    def lexical(self, terms: Sequence[str], k: int, scope: Scope) -> list[Scored]:
        depth = k
        while True:
            found = self.lexical_index.search(terms, depth, scope)
            kept = [one for one in found if not self._is_unpurged(one[0])] if self._unpurged else found
            if len(kept) >= k or len(found) < depth:
                return kept[:k]
            depth *= 4

    def _is_unpurged(self, chunk_id: int) -> bool:
        """Whether it is still in the lexical index, and should not be: a writer is at work, or was killed."""
        return any(first <= chunk_id <= last for first, last in self._unpurged)

    def dense(self, vector: NDArray[np.float32], k: int, scope: Scope) -> list[Scored]:
        return self.vectors.search(vector, k, None if scope.is_open else self._allowed_ids(scope))

    def resembling(self, terms: Sequence[str], distance: int, k: int, scope: Scope) -> list[int]:
        found = self.lexical_index.resembling(terms, distance, k, scope)
        return [chunk_id for chunk_id in found if not self._is_unpurged(chunk_id)]

    def lexical_scores(self, terms: Sequence[str], chunk_ids: Sequence[int]) -> dict[int, float]:
        return self.lexical_index.scores(terms, chunk_ids)

    def cosines(self, vector: NDArray[np.float32], chunk_ids: Sequence[int]) -> dict[int, float]:
        return self.vectors.cosines(vector, chunk_ids)

    def count(self, scope: Scope) -> int:
        """How many chunks are in scope."""
        return self.lexical_index.count if scope.is_open else len(self._allowed_ids(scope))

    def frequency(self, term: str, scope: Scope) -> int:
        """How many chunks in scope hold a term."""
        if scope.is_open:
            return self.lexical_index.frequency(term)
        remembered = self._frequencies  # replaced, never emptied, when the generation changes
        found = remembered.get((term, scope))
        if found is None:
            if len(remembered) >= FREQUENCIES_KEPT:
                remembered = self._frequencies = {}
            found = remembered[(term, scope)] = self.lexical_index.frequency(term, scope)
        return found

    def _allowed_ids(self, scope: Scope) -> NDArray[np.int64]:
        remembered = self._allowed  # replaced, never emptied, when the generation changes
        ids = remembered.get(scope)
        if ids is None:
            ids = self._catalogue.chunk_ids(scope)
            remembered[scope] = ids
            while len(remembered) > SCOPES_KEPT:
                remembered.popitem(last=False)
        return ids
